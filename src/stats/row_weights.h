/* Scores with row weights and their bootstrap intervals. docs/method.md#row-weights. */
#pragma once

#include "stats/resample.h"

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

/* Scores of a bootstrap. ALL takes several times as long, more with many classes. */
typedef enum cst_bootstrap_scores {
    CST_BOOTSTRAP_BASIC = 0, /* top1, nll, brier, ece */
    CST_BOOTSTRAP_ALL = 1    /* every field */
} cst_bootstrap_scores;

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

/* 95% percentile intervals (Efron 1979) of every method and of its paired difference from
 * `reference`, over 1 to 10,000,000 resamples of weighted rows, which depend on the seed alone.
 * Arrays as in cst_bootstrap_intervals, scores in the table's order; NaN beyond BASIC. */
cst_status cst_bootstrap_weighted(cst_context *context, const cst_bootstrap_input *input,
                                  cst_interval *interval, cst_interval *difference, double *p);

/* R^2 from the two sums of squares. */
double cst_r2_of(double squared_error, double squared_deviation);

/* out [rows]: mean over outputs of squared error / variance of the target (the squared error where
 * the target is constant), for paired tests. */
cst_status cst_value_errors(cst_context *context, const cst_predicted_values *predicted,
                            const double *targets, double *out);

/* Scores of values, with the weighted median error. */
cst_status cst_value_metrics_weighted(cst_context *context, const cst_predicted_values *predicted,
                                      const double *targets, const double *weights,
                                      cst_value_metrics *average, cst_value_metrics *each);

typedef struct cst_value_bootstrap_input {
    const cst_predicted_values *predicted; /* [methods] */
    int32_t methods;
    const double *targets; /* [rows][outputs] */
    const double *weights; /* [rows], or NULL */
    int32_t resamples;
    uint64_t seed;
    int32_t reference;
} cst_value_bootstrap_input;

/* Of scores that are means over the outputs: rmse, mae, median_ae (NaN), r2, nll. */
cst_status cst_value_bootstrap_weighted(cst_context *context,
                                        const cst_value_bootstrap_input *input,
                                        cst_interval *interval, cst_interval *difference,
                                        double *p);
