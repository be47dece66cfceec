/*
 * The pool inside the library: views of its loaded splits for the statistics. After reading, before
 * redundancy. Paper: P_oof and y as every later stage sees them.
 */
#ifndef CST_POOL_H
#define CST_POOL_H

#include "io/reference_errors.h"
#include "pool/view.h"
#include <corestack/pool.h>

/* All members on all rows of a loaded split; every member must be loaded. Labels are NULL where the
 * split has none. With conditions, the rows are those of condition 0, then of condition 1, ... and
 * the labels are repeated. Storage belongs to the pool. */
cst_status cst_pool_view(cst_context *context, const cst_pool *pool, const char *split,
                         cst_view *out);

/* The same for the given members ([count], loaded); `pointers` ([count]) must outlive the view. */
cst_status cst_pool_view_members(cst_context *context, const cst_pool *pool, const char *split,
                                 const int32_t *members, int32_t count, const float **pointers,
                                 cst_view *out);

/* The same where the pool may miss predictions: a member without a file for the split, or one that
 * is not in the pool (position -1), is NULL in *out. */
cst_status cst_pool_view_there(cst_context *context, const cst_pool *pool, const char *split,
                               const int32_t *members, int32_t count, const float **pointers,
                               cst_view *out);

/* Whether members may lack predictions. */
bool cst_pool_misses(const cst_pool *pool);

/* CST_ERROR_INPUT naming the first member that predicted no row of a loaded split, or has no file
 * for it. */
cst_status cst_pool_need_all(cst_context *context, const cst_pool *pool, const char *split);

/* log sum_c exp(z_c) of every row's logits z, read from the file of a member of a loaded split.
 * out: [rows] ([conditions * rows] with conditions). CST_ERROR_UNSUPPORTED where the pool has no
 * logits.
 */
cst_status cst_pool_normalisers(cst_context *context, cst_pool *pool, const char *split,
                                int32_t member, double *out);

/* Fails with the splits that the pool has, and the nearest of them to `split`, which it has not.
 * Returns `status`. */
cst_status cst_fail_split(cst_context *context, cst_status status, const cst_pool *pool,
                          const char *split);

/* Whether the files hold logits. */
bool cst_pool_has_logits(const cst_pool *pool);

/* The manifest's, or NULL. Borrowed. */
const cst_reference_errors *cst_pool_reference_errors(const cst_pool *pool);

/* In columns.c: gives the classes the order that a model has them in, where their names are only
 * those of a header, and nothing is loaded yet. names: [classes]; other names change nothing. */
cst_status cst_pool_order_classes(cst_context *context, cst_pool *pool, const char *const *names);

#endif
