/*
 * Bootstrap intervals of probabilities without row weights.
 */
#ifndef BOOTSTRAPS_H
#define BOOTSTRAPS_H

#include "stats/row_weights.h"

/* In the order of the table of scores. */
typedef struct cst_metric_intervals {
    cst_interval top1, ece, nll, brier, ece_mass, ece_classwise, ece_debiased, corp;
} cst_metric_intervals;

static inline cst_status bootstrap_weighted(cst_context *context, const cst_bootstrap_input *input,
                                            cst_metric_intervals *intervals,
                                            cst_metric_intervals *differences) {
    return cst_bootstrap_weighted(context, input, intervals ? &intervals->top1 : NULL,
                                  differences ? &differences->top1 : NULL, NULL);
}

static inline cst_status bootstrap_compare(cst_context *context, const float *const *probabilities,
                                           int32_t methods, int64_t rows, int32_t classes,
                                           const int32_t *labels, int bins, int32_t resamples,
                                           uint64_t seed, cst_bootstrap_scores scores,
                                           int32_t reference, cst_metric_intervals *intervals,
                                           cst_metric_intervals *differences) {
    const cst_bootstrap_input input = {.probabilities = probabilities,
                                       .methods = methods,
                                       .rows = rows,
                                       .classes = classes,
                                       .labels = labels,
                                       .bins = bins,
                                       .resamples = resamples,
                                       .seed = seed,
                                       .scores = scores,
                                       .reference = reference};
    return bootstrap_weighted(context, &input, intervals, differences);
}

static inline cst_status bootstrap_methods(cst_context *context, const float *const *probabilities,
                                           int32_t methods, int64_t rows, int32_t classes,
                                           const int32_t *labels, int bins, int32_t resamples,
                                           uint64_t seed, cst_metric_intervals *out) {
    return bootstrap_compare(context, probabilities, methods, rows, classes, labels, bins,
                             resamples, seed, CST_BOOTSTRAP_BASIC, 0, out, NULL);
}

static inline cst_status bootstrap_metrics(cst_context *context, const float *probabilities,
                                           int64_t rows, int32_t classes, const int32_t *labels,
                                           int bins, int32_t resamples, uint64_t seed,
                                           cst_metric_intervals *out) {
    return bootstrap_methods(context, &probabilities, 1, rows, classes, labels, bins, resamples,
                             seed, out);
}

/* The scores of `a` less those of `b`. */
static inline cst_status bootstrap_difference(cst_context *context, const float *a, const float *b,
                                              int64_t rows, int32_t classes, const int32_t *labels,
                                              int bins, int32_t resamples, uint64_t seed,
                                              cst_metric_intervals *out) {
    const float *pair[] = {a, b};
    cst_metric_intervals differences[2];
    cst_status status = bootstrap_compare(context, pair, 2, rows, classes, labels, bins, resamples,
                                          seed, CST_BOOTSTRAP_BASIC, 1, NULL, differences);
    *out = differences[0];
    return status;
}

#endif
