/*
 * Bootstrap intervals of AP over images, paired over methods. After the matching; for reports.
 * method.md, section 8.
 */
#ifndef CST_DETECTION_BOOTSTRAP_H
#define CST_DETECTION_BOOTSTRAP_H

#include "detection/ap.h"

#include <corestack/metrics.h>

/* 95% percentile intervals; resamples 0: none were drawn, and every number is NaN. */
typedef struct cst_ap_intervals {
    int32_t resamples;
    cst_interval ap, ap50, ap75, ar100;
} cst_ap_intervals;

/* Images are drawn with replacement, for every method the same ones; boxes are not matched again.
 * matches: [methods], of the same images. intervals, differences (to method `reference`):
 * [methods], either may be NULL. A resample in which a figure is not defined is left out of its
 * interval. */
cst_status cst_ap_bootstrap(cst_context *context, const cst_ap_matches *const *matches,
                            int32_t methods, int32_t reference, int32_t resamples, uint64_t seed,
                            cst_ap_intervals *intervals, cst_ap_intervals *differences);

#endif
