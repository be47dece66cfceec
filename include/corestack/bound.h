/* High-probability bounds for a fitted stack, and the quantities of the paper. docs/bounds.md. */
#ifndef CORESTACK_BOUND_H
#define CORESTACK_BOUND_H

#include <corestack/fit.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Options of cst_bound. Zero-initialise, then set the fields that should differ from the default.
 */
typedef struct cst_bound_options {
    size_t struct_size; /* sizeof(cst_bound_options), or 0 for the fields of version 0.1 */
    const char *split;  /* NULL: "test" */
    double delta;       /* each bound fails with at most this probability; 0: 0.05; below 1 */
    double alpha;       /* allowed miss rate of the prediction sets; 0: 0.1; below 1 */
    uint64_t seed;      /* for splitting the rows in half and for randomised sets; at most 2^53 */
    int leakage;        /* non-zero: also look for leaks between split "oof" and this one; refits on
                           permuted labels */
    const char *validation; /* split with labels whose rows give lambda*, the prior of the PAC-Bayes
                               bound of the paper, so that it does not depend on the rows that are
                               counted; NULL: split "oof" itself */
} cst_bound_options;

/* Computes high-probability bounds for a stack on a labelled split: bounds of the error of the
 * stack and of a vote of its members, of the calibration error, conformal prediction sets, clusters
 * and spectrum of the pool, and the PAC-Bayes bound of the paper (on split "oof", if the pool has
 * it). Keys: docs/json.md; method and literature: docs/bounds.md. Each bound holds on its own, not
 * jointly with the others. Classification only. The rows of the split must be independent draws
 * that the model was not fitted on. CST_ERROR_INPUT if it was fitted on them, whatever the split is
 * called (a notice if this is unknown), if there are no labels, or for fewer than 4 rows.
 * CST_ERROR_UNSUPPORTED for row weights, conditions, and groups of several rows. options: NULL for
 * the defaults. *report belongs to the caller. */
CST_API cst_status cst_bound(cst_context *context, const cst_model *model, cst_pool *pool,
                             const cst_bound_options *options, cst_report **report);

/* How the rows of the split are weighted for prediction sets of rows that are distributed
 * otherwise. */
typedef enum cst_bound_weights {
    CST_BOUND_UNWEIGHTED = 0, /* not */
    CST_BOUND_COVARIATE = 1,  /* by how much more frequent rows as unlike the fit are */
    CST_BOUND_LABEL = 2       /* by class, as the class shares have changed */
} cst_bound_weights;

/* What prediction sets are calibrated for each of (Mondrian sets; Vovk 2003). */
typedef enum cst_bound_parts {
    CST_BOUND_TOGETHER = 0, /* all rows */
    CST_BOUND_BY_CLASS = 1,
    CST_BOUND_BY_DOMAIN = 2
} cst_bound_parts;

/* The rows that cst_bound_shifted makes prediction sets for. */
typedef struct cst_bound_batch {
    size_t struct_size; /* sizeof(cst_bound_batch), or 0 for the fields of version 0.1 */
    const char *split;  /* whose labels are not needed; each condition is a separate batch. It may
                           have weights and groups. */
    cst_bound_weights weights;
    const char *sets;   /* path of a .npy file to write the sets to, float32 [rows, classes] or
                           [conditions, rows, classes]: 1 where a class is in the set, else 0; NULL:
                           none */
    cst_bound_parts by; /* with CST_BOUND_UNWEIGHTED: each class, or rows of each domain, miss at
                           most alpha. A class with too few rows is in every set; rows of such a
                           domain get every class */
    const double *miss_costs; /* [classes]: of a set without the true class, by that class; the
                                 expected cost of a row is at most `risk`. Not by class. NULL: none
                                 (Angelopoulos et al. 2022) */
    int64_t miss_cost_count;  /* as many as the model has classes */
    double risk;              /* above 0 */
} cst_bound_batch;

/* Computes what cst_bound does, and prediction sets for the rows of another split, calibrated on
 * all rows of options->split (key "under_shift", docs/bounds.md#under-shift). Weights are only used
 * for a batch of 50 rows and more in which the tests of the guard, or of label shift, find such a
 * change. CST_ERROR_UNSUPPORTED if the model stores nothing to test batches with. */
CST_API cst_status cst_bound_shifted(cst_context *context, const cst_model *model, cst_pool *pool,
                                     const cst_bound_options *options, const cst_bound_batch *batch,
                                     cst_report **report);

/* Thresholds of split conformal prediction for each part of the rows of calibration: a later row
 * whose score is at most that of its part is covered. scores, costs, parts: [rows], each row's
 * score (1 - the probability of its label; for regression |target - value|), cost if it is not
 * covered (NULL: 1) and part (negative: none; NULL: all in part 0). level: acceptable expected cost
 * of a row, without costs the allowed miss rate; most: the largest cost of any row, with costs.
 * thresholds: [part_count], INFINITY for a part with too few rows (fewer than 1/level - 1 without
 * costs). */
CST_API cst_status cst_conformal_thresholds(cst_context *context, const double *scores,
                                            const double *costs, const int32_t *parts, int64_t rows,
                                            int64_t part_count, double level, double most,
                                            double *thresholds);

#ifdef __cplusplus
}
#endif
#endif
