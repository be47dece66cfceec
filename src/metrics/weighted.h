/*
 * Scores of rows that count by weights: the public functions are these with weights NULL. After
 * prediction. docs/json.md#evaluate; docs/method.md#row-weights.
 */
#ifndef CST_METRICS_WEIGHTED_H
#define CST_METRICS_WEIGHTED_H

#include "base/base.h"

#include <corestack/metrics.h>
#include <corestack/regression.h>

/* weights: [rows], positive, or NULL. Means are weighted ones, and a bin's share is its weight's;
 * only where a number of samples enters (ece_debiased) does their scale matter: its mean is 1. */
cst_status cst_metrics_weighted(cst_context *context, const float *probabilities, int64_t rows,
                                int32_t classes, const int32_t *labels, const double *weights,
                                int bins, cst_metrics *out);

/* Of each bin the number of rows, and confidence and accuracy by their weights. */
cst_status cst_reliability_weighted(cst_context *context, const float *probabilities, int64_t rows,
                                    int32_t classes, const int32_t *labels, const double *weights,
                                    int bins, cst_reliability_bin *out);

/* What a bootstrap is of: the parameters of cst_bootstrap_compare, and weights. */
typedef struct cst_bootstrap_input {
    const float *const *probabilities; /* [methods] -> [rows][classes] */
    int32_t methods;
    int64_t rows;
    int32_t classes;
    const int32_t *labels;
    const double *weights; /* [rows], or NULL */
    int bins;              /* 0: the default */
    int32_t resamples;
    uint64_t seed;
    cst_bootstrap_scores scores;
    int32_t reference; /* not read without differences */
} cst_bootstrap_input;

/* Rows are drawn alike, and each brings its weight along. intervals, differences: [methods], either
 * of them NULL if not wanted. */
cst_status cst_bootstrap_weighted(cst_context *context, const cst_bootstrap_input *input,
                                  cst_metric_intervals *intervals,
                                  cst_metric_intervals *differences);

/* The same of values. The median error is the least one with half of the weight at or below it, and
 * where exactly half is, the mean of it and the next. */
cst_status cst_value_metrics_weighted(cst_context *context, const cst_predicted_values *predicted,
                                      const double *targets, const double *weights,
                                      cst_value_metrics *average, cst_value_metrics *each);

/* As cst_bootstrap_input, of cst_value_bootstrap. */
typedef struct cst_value_bootstrap_input {
    const cst_predicted_values *predicted; /* [methods] */
    int32_t methods;
    const double *targets; /* [rows][outputs] */
    const double *weights; /* [rows], or NULL */
    int32_t resamples;
    uint64_t seed;
    int32_t reference;
} cst_value_bootstrap_input;

cst_status cst_value_bootstrap_weighted(cst_context *context,
                                        const cst_value_bootstrap_input *input,
                                        cst_value_intervals *intervals,
                                        cst_value_intervals *differences);

#endif
