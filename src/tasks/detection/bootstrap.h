/*
 * Bootstrap intervals of AP over images, paired over methods. After the matching; for reports.
 * docs/detection.md#scores.
 */
#ifndef CST_DETECTION_BOOTSTRAP_H
#define CST_DETECTION_BOOTSTRAP_H

#include "fit/task.h"
#include "tasks/detection/ap.h"

/* Images are drawn with replacement, for every method the same ones; boxes are not matched again.
 * matches: [methods], of the same images. out: of the twelve scores of detection, of which AP,
 * AP50, AP75 and AR100 have intervals; nothing is done with 0 resamples or images. A resample in
 * which a figure is not defined is left out of its interval. */
cst_status cst_ap_bootstrap(cst_context *context, const cst_ap_matches *const *matches,
                            int32_t methods, int32_t reference, int32_t resamples, uint64_t seed,
                            cst_intervals *out);

#endif
