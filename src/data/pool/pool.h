/*
 * The pool inside the library: views of its loaded splits for the statistics. After reading, before
 * redundancy. Paper: P_oof and y as every later stage sees them.
 */
#ifndef CST_POOL_H
#define CST_POOL_H

#include "data/pool/view.h"
#include "data/readers/manifest.h"
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

/* Gives member k in rows of fold f of a loaded split without conditions the mean of the others'
 * probabilities of classes c with lacks[k][f][c], where others know them. folds: [rows], -1 in rows
 * that stay. Views that were made before are not valid any more. */
cst_status cst_pool_teach(cst_context *context, cst_pool *pool, const char *split,
                          const int32_t *folds, int32_t fold_count, const uint8_t *lacks);

/* log sum_c exp(z_c) of every row's logits z, read from the file of a member of a loaded split.
 * out: [rows] ([conditions * rows] with conditions). CST_ERROR_UNSUPPORTED where the pool has no
 * logits. */
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

/* Creates a classification pool with one split from memory. predictions[k]: [rows][classes]
 * float32, C order, copied. names: [members], unique. labels: [rows] in 0..classes-1, or NULL. *out
 * belongs to the caller (cst_pool_free). */
cst_status cst_pool_from_memory(cst_context *context, cst_pool **out, const char *split,
                                const float *const *predictions, const char *const *names,
                                int32_t members, int64_t rows, int32_t classes,
                                const int32_t *labels, cst_output output);

/* Loads some members of a split only, like cst_pool_load. members: [count] positions in the pool.
 * The others stay as they are, and their files need not exist. */
cst_status cst_pool_load_members(cst_context *context, cst_pool *pool, const char *split,
                                 const int32_t *members, int32_t count);

/* Returns the family of a member as given in the manifest, or NULL. Borrowed. */
const char *cst_pool_member_family(const cst_pool *pool, int32_t member);

/* Returns the FLOPs of one prediction by a member, as given in the manifest; NaN if not given. */
double cst_pool_member_flops(const cst_pool *pool, int32_t member);

/* Returns the number of parameters of a member, as given in the manifest; NaN if not given. */
double cst_pool_member_params(const cst_pool *pool, int32_t member);

/* Returns the latency of one prediction by a member in milliseconds, as given in the manifest; NaN
 * if not given. */
double cst_pool_member_latency_ms(const cst_pool *pool, int32_t member);

/* Returns the peak memory that a prediction by a member needs, in bytes, as given in the manifest;
 * NaN if not given. */
double cst_pool_member_memory_bytes(const cst_pool *pool, int32_t member);

typedef struct cst_member_ensemble {
    cst_ensemble_kind kind;
    const char *of; /* the group's name, borrowed; NULL without a tag */
    int32_t passes; /* forward passes behind the member's predictions; 1 without a tag and of a
                       soup, which is one network whatever the manifest says */
} cst_member_ensemble;

/* Returns the ensemble that a member belongs to according to the manifest. */
cst_member_ensemble cst_pool_member_ensemble(const cst_pool *pool, int32_t member);

/* Returns non-zero for a split of out-of-distribution inputs, which has no labels. */
int cst_pool_is_ood(const cst_pool *pool, const char *split);

/* Returns the family of a condition, e.g. "noise"; NULL if not given. Borrowed. */
const char *cst_pool_condition_shift(const cst_pool *pool, const char *split, int32_t condition);

/* Returns the kind of a condition, e.g. "gaussian_noise"; NULL if not given. Borrowed. */
const char *cst_pool_condition_kind(const cst_pool *pool, const char *split, int32_t condition);

/* Returns the severity of a condition; NaN if not given. */
double cst_pool_condition_severity(const cst_pool *pool, const char *split, int32_t condition);

/* Returns the domain of a split, e.g. "sketches", as given in the manifest; NULL if not given.
 * Borrowed. */
const char *cst_pool_domain(const cst_pool *pool, const char *split);

/* Returns the number of training samples of each class [classes], as given in the manifest; NULL if
 * not given. Borrowed. */
const int64_t *cst_pool_training_counts(const cst_pool *pool);

/* Returns the folds [rows] of a loaded split, numbered from 0; NULL if not loaded or not given.
 * Borrowed. */
const int32_t *cst_pool_folds(const cst_pool *pool, const char *split);

/* Returns the group ids [rows] of a loaded split; NULL if not loaded or not given. Borrowed. */
const int64_t *cst_pool_groups(const cst_pool *pool, const char *split);

/* Returns the row weights [rows] of a loaded split as given; NULL if not loaded or not given.
 * Borrowed. Weights are finite and non-negative, at least one is positive, and their scale does not
 * matter. Rows of weight 0 are left out of fits, evaluations and comparisons: the result has the
 * same bytes as without them. Other rows count in losses and scores in proportion to their weight
 * (docs/method.md#row-weights). Predictions are made for every row. Classification and
 * regression only. */
const double *cst_pool_weights(const cst_pool *pool, const char *split);

#endif
