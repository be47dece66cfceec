/*
 * Pools with own_rows: each rank has its own rows, on a disk that the others cannot read. The pool
 * has the rows of all ranks, in the order of ranks. Labels, folds, ids and the like are read by the
 * rank that has them and sent to all; predictions are fetched when they are needed. Beside loading.
 * docs/clusters.md#rows-on-local-disks; paper: none.
 */
#ifndef CST_POOL_OWN_H
#define CST_POOL_OWN_H

#include "pool/state.h"

/* One split. */
typedef struct cst_own_split {
    cst_pool_split *local; /* this rank's rows, loaded as a separate pool */
    int64_t *bounds;       /* [ranks + 1]: first rows of the ranks; NULL: not loaded */
    int rank;
    int ranks;
    int32_t conditions;    /* at least 1 */
    struct cst_rows *rows; /* serves and fetches rows; NULL: not loaded */
} cst_own_split;

/* Turns the pool into one with own rows, and checks that those of all ranks agree. All ranks call
 * it, after cst_pool_create. */
cst_status cst_own_create(cst_context *context, cst_pool *pool);

/* Compares the members, classes and columns of the pools of all ranks. */
cst_status cst_own_alike(cst_context *context, const cst_pool *pool);

/* A file of this machine, and those by which a rank's part of a split is known; 0: none. */
typedef struct cst_own_file {
    uint64_t device;
    uint64_t inode;
} cst_own_file;

typedef struct cst_own_files {
    char kernel[64];
    cst_own_file manifest;
    cst_own_file labels;
} cst_own_files;

/* After the local split was loaded. */
void cst_own_identify(const cst_pool *pool, int32_t split, cst_own_files *out);
/* Fails if these files of this rank and of `rank` are the same. */
cst_status cst_own_once(cst_context *context, const cst_pool *pool, int32_t split,
                        const cst_own_files *mine, const cst_own_files *other, int rank);

/* This rank's part, as a pool that is loaded like any other; valid until the next call. */
cst_pool *cst_own_local(cst_pool *pool);

/* Makes the split of the whole pool, with the rows of all ranks, after these members of the local
 * split were loaded. */
cst_status cst_own_join(cst_context *context, cst_pool *pool, int32_t split, const int32_t *members,
                        int32_t count);

/* ---- rows of all ranks, in own_rows.c ---- */

/* A member as an entry of a store. */
cst_status cst_own_entry(cst_context *context, const cst_own_split *own, int32_t member,
                         cst_store_entry *out);
/* Reads rows of this rank for others; user: the cst_own_split. */
cst_status cst_own_serve(cst_context *context, const void *user, int32_t member, int64_t first,
                         int64_t count, float *out);

/* Whether row `row` of the whole pool (with conditions one after another) is on this rank. */
bool cst_own_has(const cst_own_split *own, int64_t row);
/* Writes such a row of a member that has a temporary file. */
cst_status cst_own_write(cst_context *context, const cst_own_split *own, int32_t member,
                         int64_t row, const float *values);

/* Gives all ranks an array [conditions * rows] of elements of `width` bytes, of which each rank has
 * filled its own rows. */
cst_status cst_own_fill(cst_context *context, cst_status status, const cst_own_split *own,
                        void *base, size_t width);

/* ---- columns of all ranks, while a local split is read ---- */

/* Turns numbers into text if the column is text on any rank. */
cst_status cst_own_settle_kind(cst_context *context, cst_status status, cst_column *column);
/* *yes becomes whether it is true on all ranks. */
cst_status cst_own_all(cst_context *context, cst_status status, bool *yes);
/* Replaces the distinct numbers [*count] of this rank by those of all ranks, unsorted. The caller
 * frees *numbers. */
cst_status cst_own_numbers(cst_context *context, cst_status status, int64_t **numbers,
                           size_t *count);
/* Numbers the texts of this rank, given by first appearance here, by first appearance over all
 * ranks. */
cst_status cst_own_number(cst_context *context, cst_status status, const cst_strings *texts,
                          int64_t *numbers);
/* Replaces the texts of this rank by those of all ranks, one after another. */
cst_status cst_own_texts(cst_context *context, cst_status status, cst_strings **texts);

#endif
