/*
 * High-probability bounds for a fitted stack, and the quantities of the paper. docs/bounds.md.
 */
#ifndef CORESTACK_BOUND_H
#define CORESTACK_BOUND_H

#include <corestack/fit.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Options of cst_bound. Zero-initialise, then set the fields that should differ from the default.
 */
typedef struct cst_bound_options {
    const char *split; /* NULL: "test" */
    double delta;      /* each bound fails with at most this probability; 0: 0.05; below 1 */
    double alpha;      /* allowed miss rate of the prediction sets; 0: 0.1; below 1 */
    uint64_t seed;     /* for splitting the rows in half and for randomised sets; at most 2^53 */
    int leakage;       /* non-zero: also look for leaks between split "oof" and this one; refits on
                          permuted labels */
} cst_bound_options;

/* Computes high-probability bounds for a stack on a labelled split: bounds of the error of the
 * stack and of a vote of its members, of the calibration error, conformal prediction sets, clusters
 * and spectrum of the pool, and the PAC-Bayes bound of the paper (on split "oof", if the pool has
 * it). Keys: docs/json.md; method and literature: docs/bounds.md. Each bound holds on its own, not
 * jointly with the others. Classification only.
 * The rows of the split must be independent draws that the model was not fitted on. CST_ERROR_INPUT
 * if it was fitted on them, whatever the split is called (a notice if this is unknown), if there
 * are no labels, or for fewer than 4 rows. CST_ERROR_UNSUPPORTED for row weights, conditions, and
 * groups of several rows. options: NULL for the defaults. *report belongs to the caller. */
CST_API cst_status cst_bound(cst_context *context, const cst_model *model, cst_pool *pool,
                             const cst_bound_options *options, cst_report **report);

#ifdef __cplusplus
}
#endif
#endif
