/* Bootstrap of ratios of sums over samples. docs/robustness.md#corruption. */
#ifndef CST_METRICS_RATIOS_H
#define CST_METRICS_RATIOS_H

#include "stats/resample.h"

#include <corestack/metrics.h>

/* Sum of numerator over sum of denominator. A sample is what is drawn: of an image under several
 * conditions, numerator holds the sum over them, so that they are drawn together. */
typedef struct cst_ratio {
    const double *numerator;   /* [rows] */
    const double *denominator; /* [rows]; NULL: 1 each */
    const int32_t *groups;     /* [rows], 0..group_count-1: the mean of the groups' own ratios, over
                                  those with a denominator other than 0; NULL: of all rows */
    int32_t group_count;
} cst_ratio;

/* value [count]: of the samples themselves. drawn [count][resamples] (NULL with 0 resamples): of
 * the resamples of a seed, which are those of cst_bootstrap_metrics. 0/0 is NaN. */
cst_status cst_ratios_bootstrap(cst_context *context, const cst_ratio *ratios, int32_t count,
                                int64_t rows, int32_t resamples, uint64_t seed, double *value,
                                double *drawn);

#endif
