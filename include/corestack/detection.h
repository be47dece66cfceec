/*
 * Object detection: the figures of COCO's evaluation. Boxes are [left, top, width, height] in
 * pixels; files are COCO annotation and results files. Method: docs/detection.md.
 */
#ifndef CORESTACK_DETECTION_H
#define CORESTACK_DETECTION_H

#include <corestack/fit.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The twelve figures, as fractions; -1 where there are no true boxes to find. AP: mean over the
 * categories and the IoU thresholds 0.50, 0.55, ..., 0.95 of the precision at 101 recalls. Areas in
 * pixels: small below 32 x 32, large above 96 x 96. AR1, AR10, AR100: recall with at most so many
 * boxes per image and category; everything else takes at most 100. */
typedef struct cst_detection_scores {
    double ap;
    double ap50; /* at IoU 0.50 only */
    double ap75;
    double ap_small;
    double ap_medium;
    double ap_large;
    double ar1;
    double ar10;
    double ar100;
    double ar_small;
    double ar_medium;
    double ar_large;
} cst_detection_scores;

/* Scores a file of detections against a file of annotations, in all and for each category.
 * resamples > 0 adds 95% bootstrap intervals over the images for AP, AP50, AP75 and AR100, whose
 * seed is at most 2^53. Scores may be any finite numbers. *report is the caller's. CST_ERROR_FORMAT
 * and CST_ERROR_INPUT name the file and the byte: text that is not JSON, unknown or repeated ids,
 * boxes of negative size or wholly outside their image. */
CST_API cst_status cst_evaluate_detections(cst_context *context, const char *detections,
                                           const char *annotations, int32_t resamples,
                                           uint64_t seed, cst_report **report);

/* Writes a model's boxes for a split of a pool as a COCO results file (scores are probabilities
 * that a box is right), under a temporary name that is renamed at the end. Members are matched by
 * name: others in the pool are not read, a missing one is an error that names it; categories are
 * matched by id. images and detections may be NULL: how many there are. */
CST_API cst_status cst_model_predict_detections(cst_context *context, const cst_model *model,
                                                cst_pool *pool, const char *split, const char *path,
                                                int64_t *images, int64_t *detections);

/* Names of the methods that cst_compare has for detections only, beside those of cst_method_name:
 * fusion without a fit. NULL past the end. Borrowed. */
CST_API const char *cst_detection_method_name(size_t index);
/* What one of them computes, one sentence; NULL for any other name. Borrowed. */
CST_API const char *cst_detection_method_describe(const char *name);

#ifdef __cplusplus
}
#endif
#endif
