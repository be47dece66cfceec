/*
 * Percentiles of bootstrap draws. Under every interval. method.md section 8.
 */
#ifndef CST_METRICS_PERCENTILE_H
#define CST_METRICS_PERCENTILE_H

#include "base/base.h"

#include <corestack/metrics.h>

/* The percentile at `level` in [0, 1] of values [count], which are put in another order: linear
 * between order statistics, as NumPy's default. */
double cst_percentile(double *values, int32_t count, double level);

/* The 95% interval of draws [count], which are put in another order, around a value. */
cst_interval cst_interval_of(double *draws, int32_t count, double value);

#endif
