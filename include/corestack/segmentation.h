/*
 * Semantic segmentation: a pool whose samples are pixels. Scores of label maps and of probability
 * maps, and maps of whole splits written case by case. docs/segmentation.md; paper: section "Dense
 * Prediction".
 */
#ifndef CORESTACK_SEGMENTATION_H
#define CORESTACK_SEGMENTATION_H

#include <corestack/context.h>
#include <corestack/fit.h>
#include <corestack/model.h>
#include <corestack/pool.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The band around label boundaries where 0 is given: a share of the image's diagonal. */
#define CST_SEGMENTATION_BOUNDARY 0.0075

/* Fractions in [0, 1] but for nll and brier. Pixels whose label is ignored count nowhere. NaN where
 * a score has nothing to be computed from. cst_segmentation_definition has each in words. */
typedef struct cst_segmentation_scores {
    int64_t pixels;          /* that count */
    int32_t classes_present; /* in labels or predictions */
    double miou;             /* mean of TP / (TP + FP + FN) over the classes present */
    double pixel_accuracy;
    double mean_accuracy;  /* mean over the classes in the labels of the share predicted so */
    double dice;           /* mean of 2 TP / (2 TP + FP + FN) over the classes present */
    double fwiou;          /* IoU weighted by the share of the class in the labels */
    double boundary_error; /* share of wrong pixels within d pixels of another label */
    double boundary_iou;   /* mean over classes of the IoU of the d-pixel inner boundaries */
    double nll;            /* mean, nats; below 1e-15 counts as 1e-15 */
    double brier;          /* in [0, 2] */
    double ece;            /* top label, 15 equal-width bins */
} cst_segmentation_scores;

/* One sentence for a field of cst_segmentation_scores ("miou"); NULL for any other name. */
CST_API const char *cst_segmentation_definition(const char *name);

/* Scores of a confusion matrix [classes][classes] of counts, row: label, column: prediction. What
 * needs more than the counts is NaN. iou, dice, accuracy: [classes], any of them NULL if not
 * wanted, NaN for a class that does not occur. CST_ERROR_INPUT for a negative count. */
CST_API cst_status cst_segmentation_from_confusion(cst_context *context, const int64_t *confusion,
                                                   int32_t classes, cst_segmentation_scores *out,
                                                   double *iou, double *dice, double *accuracy);

/* Scores label maps, predicted and labels [images][height][width], against one another. `ignore`:
 * the label of pixels that do not count. boundary: width of the band in pixels where it is at least
 * 1, else a share of the diagonal; 0: CST_SEGMENTATION_BOUNDARY. confusion: [classes][classes] or
 * NULL. CST_ERROR_INPUT, naming the pixel, for a label beyond the classes; predictions may not be
 * `ignore` where the label counts. */
CST_API cst_status cst_segmentation_evaluate_labels(cst_context *context, const int32_t *predicted,
                                                    const int32_t *labels, int64_t images,
                                                    int64_t height, int64_t width, int32_t classes,
                                                    int32_t ignore, double boundary,
                                                    cst_segmentation_scores *out,
                                                    int64_t *confusion);

/* Scores maps in a file or folder against the masks that config->labels names, whatever kind both
 * are of: label maps (npy of whole numbers, or PNG) or probability maps, one array or a file for
 * each case. config gives classes, ignore, layout and values as for a pool. boundary: as above.
 * resamples > 0 adds 95% bootstrap intervals over cases, whose seed is at most 2^53. *report is the
 * caller's. */
CST_API cst_status cst_segmentation_evaluate_file(cst_context *context, const char *path,
                                                  const cst_pool_config *config, double boundary,
                                                  int32_t resamples, uint64_t seed,
                                                  cst_report **report);

/* How the maps of a split are written. */
typedef enum cst_map_format {
    CST_MAP_FLOAT32 = 0, /* probabilities, npy */
    CST_MAP_FLOAT16 = 1, /* the same in half precision */
    CST_MAP_LABELS = 2,  /* class numbers, npy of uint8, or uint16 beyond 256 classes */
    CST_MAP_PNG = 3      /* the same as grey PNG of 8 or 16 bits */
} cst_map_format;

/* Predicts every case of a split and writes the maps as they are made; memory does not grow with
 * the number of cases. A path that ends in .npy, a pipe, a device or an open descriptor becomes one
 * array [cases, height, width(, classes)], for cases of one size; any other path a folder, new or
 * empty, with CASE.npy or CASE.png for each case. No file or folder is left at the path after a
 * failure. *cases and *pixels may be NULL. */
CST_API cst_status cst_segmentation_predict(cst_context *context, const cst_model *model,
                                            cst_pool *pool, const char *split,
                                            cst_map_format format, const char *path, int64_t *cases,
                                            int64_t *pixels);

#ifdef __cplusplus
}
#endif
#endif
