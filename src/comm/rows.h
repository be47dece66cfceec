/*
 * Rows of predictions that other ranks have on disks of their own: each rank serves its rows to the
 * others over TCP, by a thread in the background, and fetches those it lacks. Under the stores of
 * pools whose ranks have rows of their own. docs/clusters.md#rows-on-local-disks; paper: none.
 */
#ifndef CST_COMM_ROWS_H
#define CST_COMM_ROWS_H

#include "base/base.h"

typedef struct cst_rows cst_rows;

/* What a rank serves: rows 0..rows-1 of each of `members` members, `width` floats each. `read` is
 * called by the thread in the background, also while other threads call it. */
typedef struct cst_rows_served {
    cst_status (*read)(cst_context *context, const void *user, int32_t member, int64_t first,
                       int64_t count, float *out);
    const void *user;
    int32_t members;
    int64_t rows;
    size_t width;
} cst_rows_served;

/* Begins to serve. All ranks call it. *out is the caller's (cst_rows_close). */
cst_status cst_rows_open(cst_context *context, const cst_rows_served *served, cst_rows **out);

/* Ends the thread. Ranks that still fetch rows from this one fail. NULL is accepted. */
void cst_rows_close(cst_context *context, cst_rows *rows);

/* Rows first..first+count-1 of what another rank serves, into out [count][width]. Any number of
 * threads at once. Where a member is read in order, rows are fetched ahead and kept for a while.
 * CST_ERROR_IO where the rank has ended or cannot be reached. */
cst_status cst_rows_fetch(cst_context *context, cst_rows *rows, int rank, int32_t member,
                          int64_t first, int64_t count, float *out);

/* Forgets what was fetched ahead: rows have become others. No thread may fetch meanwhile. */
void cst_rows_forget(cst_rows *rows);

#endif
