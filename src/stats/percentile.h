/* Percentiles of bootstrap draws. Under every interval. docs/json.md#evaluate. */
#ifndef CST_METRICS_PERCENTILE_H
#define CST_METRICS_PERCENTILE_H

#include "core/base.h"

/* A 95% percentile interval around the value on all samples. */
typedef struct cst_interval {
    double value;
    double low;
    double high;
} cst_interval;

/* The percentile at `level` in [0, 1] of values [count], which are put in another order: linear
 * between order statistics, as NumPy's default. */
double cst_percentile(double *values, int32_t count, double level);

/* The 95% interval of draws [count], which are put in another order, around a value. */
cst_interval cst_interval_of(double *draws, int32_t count, double value);

/* Scores of several methods on the same resamples. */
typedef struct cst_draws {
    int32_t methods;
    int32_t scores;
    int32_t resamples;
    double *value; /* [methods][scores], on all rows */
    double *drawn; /* [methods][scores][resamples]; NaN: not defined on that resample */
} cst_draws;

cst_status cst_draws_make(cst_context *context, int32_t methods, int32_t scores, int32_t resamples,
                          cst_draws *out);
void cst_draws_free(cst_context *context, cst_draws *draws);
/* Draws of one score of a method, [resamples]. */
double *cst_draws_of(const cst_draws *draws, int32_t method, int32_t score);

/* For every method and score, [methods][scores]: the interval, that of the paired difference to
 * method `reference`, and p of no difference: twice the smaller share of the differences at or
 * beyond 0 on either side, at least 2 / resamples (NaN for the reference). Resamples without a
 * defined value do not count; NaN if none has one. Efron and Tibshirani, An Introduction to the
 * Bootstrap (1993), chapters 13 and 16. */
cst_status cst_draws_summarise(cst_context *context, const cst_draws *draws, int32_t reference,
                               cst_interval *interval, cst_interval *difference, double *p);

#endif
