/*
 * Pools of which each rank has rows of its own, on a disk that the others cannot read: the pool is
 * the concatenation of all rows in the order of ranks. What stands beside predictions is read by
 * the rank that has it and given to all; predictions are fetched where they are needed. Beside
 * loading. docs/clusters.md#rows-on-local-disks; paper: none.
 */
#ifndef CST_POOL_OWN_H
#define CST_POOL_OWN_H

#include "pool/state.h"

/* One split. */
typedef struct cst_own_split {
    cst_pool_split *local; /* this rank's rows, loaded as a pool of their own */
    int64_t *bounds;       /* [ranks + 1]: rows of the whole that each rank has; NULL: not loaded */
    int rank;
    int ranks;
    int32_t conditions;    /* at least 1 */
    struct cst_rows *rows; /* the service; NULL: not loaded */
} cst_own_split;

/* Makes the pool one of this rank's own rows, and sees that those of all ranks are alike. All ranks
 * call it, after cst_pool_create. */
cst_status cst_own_create(cst_context *context, cst_pool *pool);

/* Compares what pools of all ranks say of their members, classes and columns. */
cst_status cst_own_alike(cst_context *context, const cst_pool *pool);

/* This rank's part, as a pool that is loaded like any other; valid until the next call. */
cst_pool *cst_own_local(cst_pool *pool);

/* After the given members of the local split were loaded: makes the split of the whole pool, and
 * the members' rows those of all ranks. */
cst_status cst_own_join(cst_context *context, cst_pool *pool, int32_t split, const int32_t *members,
                        int32_t count);

/* ---- rows of all ranks, in own_rows.c ---- */

/* A member as an entry of a store. */
cst_status cst_own_entry(cst_context *context, const cst_own_split *own, int32_t member,
                         cst_store_entry *out);
/* What is served to others of a split, `user`: rows of this rank. */
cst_status cst_own_serve(cst_context *context, const void *user, int32_t member, int64_t first,
                         int64_t count, float *out);

/* Whether row `row` of the whole (of the conditions one after another) is this rank's own. */
bool cst_own_has(const cst_own_split *own, int64_t row);
/* Writes such a row of a member that has a temporary file. */
cst_status cst_own_write(cst_context *context, const cst_own_split *own, int32_t member,
                         int64_t row, const float *values);

/* An array [conditions * rows] of elements of `width` bytes, of which this rank has filled its own,
 * for all. */
cst_status cst_own_fill(cst_context *context, cst_status status, const cst_own_split *own,
                        void *base, size_t width);

/* ---- what the ranks' columns are together, while a local split is read ---- */

/* Numbers become text on every rank where they are text on one. */
cst_status cst_own_settle_kind(cst_context *context, cst_status status, cst_column *column);
/* Whether all ranks say so. */
cst_status cst_own_all(cst_context *context, cst_status status, bool *yes);
/* The different numbers [*count] of all ranks, of which each gives its own, which are freed. Not
 * sorted; *numbers is the caller's. */
cst_status cst_own_numbers(cst_context *context, cst_status status, int64_t **numbers,
                           size_t *count);
/* The numbers of texts by first appearance over all ranks, of those by first appearance here. */
cst_status cst_own_number(cst_context *context, cst_status status, const cst_strings *texts,
                          int64_t *numbers);
/* Texts of all ranks one after another, of which each gives its own, which are freed. */
cst_status cst_own_texts(cst_context *context, cst_status status, cst_strings **texts);

#endif
