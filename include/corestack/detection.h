/* Object detection: the figures of COCO's evaluation. Boxes are [left, top, width, height] in
 * pixels; files are COCO annotation and results files. Method: docs/detection.md. */
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

/* Scores a file of detections against a file of annotations, overall and for each category (COCO:
 * Lin et al. 2014; identical to the reference evaluator). resamples > 0 adds 95% bootstrap
 * intervals over images for AP, AP50, AP75 and AR100; seed: at most 2^53. Scores of boxes may be
 * any finite numbers. CST_ERROR_FORMAT and CST_ERROR_INPUT, with file and byte, for text that is
 * not JSON, unknown or duplicate ids, and boxes of negative size or completely outside their image.
 * *report belongs to the caller. */
CST_API cst_status cst_evaluate_detections(cst_context *context, const char *detections,
                                           const char *annotations, int64_t resamples,
                                           uint64_t seed, cst_report **report);

/* The same beside a second results file (NULL: none): its figures are the one row of "baselines",
 * with the paired differences from the first. */
CST_API cst_status cst_evaluate_detections_against(cst_context *context, const char *detections,
                                                   const char *annotations, const char *against,
                                                   int64_t resamples, uint64_t seed,
                                                   cst_report **report);

/* Writes the boxes of a model for a split of a pool as a COCO results file: of each image the
 * `most` (0: 100) with the highest scores of at least `least` (0 to 1), pixels to the hundredth;
 * scores are probabilities that a box is correct. The file is written under a temporary name and
 * renamed at the end. Members are matched by name: other members of the pool are not read, a
 * missing one is an error that names it. Categories are matched by id. images, detections: receive
 * the counts, or NULL. */
CST_API cst_status cst_model_predict_detections(cst_context *context, const cst_model *model,
                                                cst_pool *pool, const char *split, const char *path,
                                                int64_t most, double least, int64_t *images,
                                                int64_t *detections);

/* Returns the name of method `index` that cst_compare offers for detection only, in addition to
 * cst_method_name: box fusion without a fit; NULL past the end. Static. */
CST_API const char *cst_detection_method_name(size_t index);

/* Returns a one-sentence description of a detection method; NULL for an unknown name. Static. */
CST_API const char *cst_detection_method_describe(const char *name);

#ifdef __cplusplus
}
#endif
#endif
