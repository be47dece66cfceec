/* Semantic segmentation: a pool whose samples are pixels. Scores of label maps and of probability
 * maps, and maps of whole splits written case by case. docs/segmentation.md; paper: section "Dense
 * Prediction". */
#ifndef CORESTACK_SEGMENTATION_H
#define CORESTACK_SEGMENTATION_H

#include <corestack/context.h>
#include <corestack/fit.h>
#include <corestack/guard.h>
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

/* Returns the definition of a field of cst_segmentation_scores, e.g. "miou", in one sentence; NULL
 * for any other name. Static. */
CST_API const char *cst_segmentation_definition(const char *name);

/* Scores predicted label maps [images][height][width] against labels of the same shape (IoU:
 * Jaccard 1912; Dice: Dice 1945; Boundary IoU: Cheng et al. 2021). ignore: label of pixels that are
 * not scored. boundary: width of the band in pixels if at least 1, else as a fraction of the image
 * diagonal; 0: CST_SEGMENTATION_BOUNDARY. confusion: [classes][classes] or NULL. CST_ERROR_INPUT,
 * with the pixel, for a label out of range; predictions must not be `ignore` at scored pixels. */
CST_API cst_status cst_segmentation_evaluate_labels(cst_context *context, const int32_t *predicted,
                                                    const int32_t *labels, int64_t images,
                                                    int64_t height, int64_t width, int64_t classes,
                                                    int32_t ignore, double boundary,
                                                    cst_segmentation_scores *out,
                                                    int64_t *confusion);

/* Scores maps in a file or folder against the masks named by config->labels. Both may be label maps
 * (npy of integers, or PNG) or probability maps, as one array or with one file per case. config
 * gives classes, ignore, layout and values as for a pool. boundary: as in
 * cst_segmentation_evaluate_labels. resamples > 0 adds 95% bootstrap intervals over cases; seed: at
 * most 2^53. against: second maps (NULL: none), whose figures are the one row of "baselines", with
 * the paired differences from the first over cases. *report belongs to the caller. */
CST_API cst_status cst_segmentation_evaluate_file(cst_context *context, const char *path,
                                                  const cst_pool_config *config,
                                                  const char *against, double boundary,
                                                  int64_t resamples, uint64_t seed,
                                                  cst_report **report);

/* How the maps of a split are written. */
typedef enum cst_map_format {
    CST_MAP_FLOAT32 = 0, /* probabilities, npy */
    CST_MAP_FLOAT16 = 1, /* the same in half precision */
    CST_MAP_LABELS = 2,  /* class numbers, npy of uint8, or uint16 beyond 256 classes */
    CST_MAP_PNG = 3      /* the same as grey PNG of 8 or 16 bits */
} cst_map_format;

/* Predicts every case of a split and writes the maps one by one, so memory use does not grow with
 * the number of cases. A path that ends in .npy, a pipe, a device or an open descriptor receives
 * one array [cases, height, width(, classes)], if all cases have the same size; any other path is a
 * new or empty folder that receives CASE.npy or CASE.png for each case. After a failure nothing is
 * left at the path. cases, pixels: receive the counts, or NULL. A notice tells of cases that look
 * unlike the fit cases; cst_segmentation_predict_guarded can act on them. For programs that want
 * no guard. */
CST_API cst_status cst_segmentation_predict(cst_context *context, const cst_model *model,
                                            cst_pool *pool, const char *split,
                                            cst_map_format format, const char *path, int64_t *cases,
                                            int64_t *pixels);

/* The same, guarded: a case that looks unlike the fit cases is mixed with the average of all
 * members, and its label map as far less on the offsets for mIoU. Members that the model leaves out
 * are loaded where the guard acts. guard: NULL for the default; its batch must be 0. id_map: label
 * maps have the ids of this file (a JSON list, or lines "class,id"), or "cityscapes", in place of
 * class numbers; NULL: none. report: may be NULL; *report belongs to the caller
 * (cst_guard_report_free), and is NULL if nothing was tested. */
CST_API cst_status cst_segmentation_predict_guarded(cst_context *context, const cst_model *model,
                                                    cst_pool *pool, const char *split,
                                                    const cst_guard *guard, cst_map_format format,
                                                    const char *id_map, const char *path,
                                                    int64_t *cases, int64_t *pixels,
                                                    cst_guard_report **report);

#ifdef __cplusplus
}
#endif
#endif
