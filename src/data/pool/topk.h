/* Rows of members that list the likeliest classes: in views [2 k] numbers, k classes (-1: none) and
 * then how far the logarithm of each is above that of the classes not listed. docs/topk.md. */
#pragma once

#include "data/pool/state.h"

enum { CST_TOPK_ARRAYS = 3, CST_TOPK_MAX = 1 << 16 };

/* The arrays of a member: indices, logprobs and (or NULL) rest. */
typedef struct cst_topk_file {
    cst_npy *npy[CST_TOPK_ARRAYS];
    int32_t width; /* classes in a row */
} cst_topk_file;

/* Whether it is an array beside one of indices, and so no member. */
bool cst_topk_is_beside(const char *path);
/* When a pool is opened: makes it one of lists where its files are such. */
cst_status cst_topk_find(cst_context *context, cst_pool *pool);
/* The same where pool->listed is known. */
cst_status cst_topk_settle(cst_context *context, cst_pool *pool);

/* Opens what goes with the indices at `path`. */
cst_status cst_topk_open(cst_context *context, cst_scope *scope, const cst_pool *pool,
                         const char *path, cst_npy *indices, cst_topk_file *out);
/* Whether threads can read it at once. */
bool cst_topk_streams(const cst_topk_file *file);
/* As `read` of cst_pieces: rows of indices, logarithms and rest (NaN where there is none). */
cst_status cst_topk_read(cst_context *context, const void *file, int64_t first, int64_t count,
                         float *narrow, double *wide);
