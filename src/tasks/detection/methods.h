/* Ways from the members' boxes to one detector's, by name: presets of the stack, baselines of
 * rows, fusion without a fit. docs/detection.md#scores, docs/detection.md#the-stack. */
#ifndef CST_DETECTION_METHODS_H
#define CST_DETECTION_METHODS_H

#include "fit/method.h"
#include "tasks/detection/splits.h"

typedef enum cst_detect_rule {
    CST_DETECT_ROWS = 0, /* a method of rows scores the clusters */
    CST_DETECT_BEST_SINGLE,
    CST_DETECT_AVERAGE,
    CST_DETECT_WBF,
    CST_DETECT_NMS,
    CST_DETECT_SOFT_NMS,
    CST_DETECT_SOFT_NMS_LINEAR
} cst_detect_rule;

typedef struct cst_detect_method {
    char name[CST_METHOD_NAME_CHARS];
    cst_detect_rule rule;
    cst_method rows; /* of CST_DETECT_ROWS */
} cst_detect_method;

/* Names in the order of reports; NULL past the end. */
const char *cst_detect_method_name(size_t index);
/* What the two native methods that other tasks have too compute here, one sentence; NULL for any
 * other name. */
const char *cst_detect_native_definition(const char *name);
/* One of these, with "+temperature" and the like behind a method of rows. */
cst_status cst_detect_method_parse(cst_context *context, const char *text, uint64_t seed,
                                   const char *const *settings, int32_t setting_count,
                                   cst_detect_method *out);

typedef struct cst_detect_fit {
    cst_detect_method method;
    bool *uses;          /* [members] */
    double *weights;     /* [members] of a mix of scores; NULL where there is none */
    double *fusion;      /* [categories][members]: weights of boxes; NULL: all alike */
    int32_t best;        /* of CST_DETECT_BEST_SINGLE */
    cst_method_fit rows; /* of CST_DETECT_ROWS */
    double seconds;
} cst_detect_fit;

/* Fits without the images of fold `fold` (-1: on all). *out is empty after an error. */
cst_status cst_detect_fit_run(cst_context *context, const cst_detect_method *method,
                              const cst_box_training *training, int32_t fold, uint64_t seed,
                              cst_detect_fit *out);
/* The fit as a model without names, settings and fusion: cst_method_fit_model for clusters. */
cst_status cst_detect_fit_model(cst_context *context, cst_detect_fit *fit, int32_t members,
                                cst_made_model *out);
/* How its model predicts. */
cst_box_rule cst_detect_rule_stored(const cst_detect_method *method);
void cst_detect_fit_free(cst_context *context, cst_detect_fit *fit);

/* Boxes of a split of the same members; images: [images] that are wanted, or NULL. */
cst_status cst_detect_fit_predict(cst_context *context, const cst_detect_fit *fit,
                                  const cst_cluster_options *options, const cst_box_split *split,
                                  const bool *images, cst_coco_boxes **out);

/* Boxes of every image by the method fitted without the image's fold. */
cst_status cst_detect_nested(cst_context *context, const cst_detect_method *method,
                             const cst_box_training *training, uint64_t seed, cst_coco_boxes **out);

#endif
