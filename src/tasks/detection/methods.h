/* Ways from members' boxes to one detector's, by name. docs/detection.md#the-stack. */
#ifndef CST_DETECTION_METHODS_H
#define CST_DETECTION_METHODS_H

#include "fit/method.h"
#include "tasks/detection/splits.h"

typedef struct cst_detect_method {
    cst_box_rule rule;
    cst_method rows;        /* that scores the clusters, of CST_BOX_RULE_LEARNERS */
    const char *definition; /* one sentence, of the other rules */
} cst_detect_method;

/* Names in the order of reports; NULL past the end. */
const char *cst_detect_method_name(size_t index);
/* One of these, with "+temperature" and the like behind a method of rows. */
cst_status cst_detect_method_parse(cst_context *context, const char *text, uint64_t seed,
                                   const char *const *settings, int32_t setting_count,
                                   cst_detect_method *out);

typedef struct cst_detect_fit {
    cst_detect_method method;
    cst_scope scope;     /* of the arrays */
    bool *uses;          /* [members] */
    double *weights;     /* [members] of a mix of scores; NULL where there is none */
    double *fusion;      /* [categories][members]: weights of boxes; NULL: all alike */
    int32_t best;        /* of CST_BOX_RULE_BEST */
    cst_method_fit rows; /* of CST_BOX_RULE_LEARNERS */
    double seconds;
} cst_detect_fit;

/* Fits without the images of fold `fold` (-1: on all). Free *out also after an error. */
cst_status cst_detect_fit_run(cst_context *context, const cst_detect_method *method,
                              const cst_box_training *training, int32_t fold, uint64_t seed,
                              cst_detect_fit *out);
/* The fit as a model without names, settings and fusion: cst_method_fit_model for clusters. */
cst_status cst_detect_fit_model(cst_context *context, cst_detect_fit *fit, int32_t members,
                                cst_made_model *out);
void cst_detect_fit_free(cst_context *context, cst_detect_fit *fit);
CST_OWNED(cst_detect_fit)

/* Boxes of a split of the same members; images: [images] that are wanted, or NULL. */
cst_status cst_detect_fit_predict(cst_context *context, const cst_detect_fit *fit,
                                  const cst_cluster_options *options, const cst_box_split *split,
                                  const bool *images, cst_coco_boxes **out);

/* Boxes of every image by the method fitted without the image's fold. */
cst_status cst_detect_nested(cst_context *context, const cst_detect_method *method,
                             const cst_box_training *training, uint64_t seed, cst_coco_boxes **out);

#endif
