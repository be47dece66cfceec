/*
 * Certificates: what can be said of a fitted stack with a probability of 1 - delta, beside what the
 * paper says. docs/bounds.md.
 */
#ifndef CORESTACK_BOUND_H
#define CORESTACK_BOUND_H

#include <corestack/fit.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Zero-initialise, then set what is wanted. */
typedef struct cst_bound_options {
    const char *split; /* NULL: "test" */
    double delta;      /* a bound fails with at most this probability; 0: 0.05; below 1 */
    double alpha;      /* share of prediction sets that may miss the class; 0: 0.1; below 1 */
    uint64_t seed;     /* of the halves of the split, and of random sets; at most 2^53 */
    int leakage; /* non-zero: looks for leaks too, between split "oof" and this one, which fits a
                    stack to permuted labels */
} cst_bound_options;

/* Bounds of a stack's error, of its calibration error and of the error of a vote of its members,
 * conformal prediction sets, the clusters and the spectrum of the pool, and the paper's PAC-Bayes
 * bound (on split "oof", where the pool has it): keys in docs/json.md. Each bound holds by itself.
 * Classification only. The split's rows have to be independent draws that the model was not fitted
 * on: CST_ERROR_INPUT where it was, whatever the split is called (docs/bounds.md, "Rows of the
 * fit"; a notice where that is not known), or where there are no labels or fewer than 4 rows;
 * CST_ERROR_UNSUPPORTED for row weights, conditions and groups of several rows. options may be
 * NULL. *report is the caller's. */
CST_API cst_status cst_bound(cst_context *context, const cst_model *model, cst_pool *pool,
                             const cst_bound_options *options, cst_report **report);

#ifdef __cplusplus
}
#endif
#endif
