/*
 * Rows of predictions on the local disks of other ranks: a background thread of each rank serves
 * its rows to the others over TCP, and each rank fetches the rows that it lacks. Under the stores
 * of pools with own_rows. docs/clusters.md#rows-on-local-disks; paper: none.
 */
#ifndef CST_COMM_ROWS_H
#define CST_COMM_ROWS_H

#include "base/base.h"

typedef struct cst_rows cst_rows;

/* What a rank serves: rows 0..rows-1 of each of `members` members, `width` floats each. `read` is
 * called by the background thread, possibly while other threads call it. */
typedef struct cst_rows_served {
    cst_status (*read)(cst_context *context, const void *user, int32_t member, int64_t first,
                       int64_t count, float *out);
    const void *user;
    int32_t members;
    int64_t rows;
    size_t width;
} cst_rows_served;

/* Starts serving. All ranks call it. The caller closes *out (cst_rows_close). */
cst_status cst_rows_open(cst_context *context, const cst_rows_served *served, cst_rows **out);

/* Stops serving: ranks that still fetch rows from this one fail. NULL is accepted. */
void cst_rows_close(cst_context *context, cst_rows *rows);

/* Fetches rows first..first+count-1 of another rank into out [count][width]. May be called by any
 * number of threads at once. If a member is read in order, rows are fetched ahead. CST_ERROR_IO if
 * the rank has ended or cannot be reached. */
cst_status cst_rows_fetch(cst_context *context, cst_rows *rows, int rank, int32_t member,
                          int64_t first, int64_t count, float *out);

/* Drops rows that were fetched ahead, after rows have changed. No thread may fetch meanwhile. */
void cst_rows_forget(cst_rows *rows);

#endif
