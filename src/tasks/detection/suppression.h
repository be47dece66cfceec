/*
 * Fusion without a fit: weighted boxes fusion, non-maximum suppression and its soft forms. What the
 * stack is compared with. Solovyev et al. 2021; Bodla et al. 2017.
 */
#ifndef CST_DETECTION_SUPPRESSION_H
#define CST_DETECTION_SUPPRESSION_H

#include "data/readers/coco.h"

typedef enum cst_suppression {
    CST_SUPPRESSION_WBF = 0,      /* weighted boxes fusion */
    CST_SUPPRESSION_HARD = 1,     /* boxes that overlap a better one go */
    CST_SUPPRESSION_GAUSSIAN = 2, /* their scores times exp(-IoU^2 / sigma) */
    CST_SUPPRESSION_LINEAR = 3    /* their scores times 1 - IoU, above a threshold */
} cst_suppression;

/* What the papers use. */
#define CST_WBF_IOU 0.55
#define CST_NMS_IOU 0.5
#define CST_SOFT_NMS_SIGMA 0.5
#define CST_SOFT_NMS_IOU 0.3
#define CST_SOFT_NMS_MIN 0.001 /* boxes whose score falls below are left out */

/* The boxes of `members` files [members], read for one annotation file, of all images together as
 * those of one detector. Ties of scores: by member, then order in the file. images: [images] that
 * are wanted, or NULL. */
cst_status cst_suppress(cst_context *context, const cst_coco *coco,
                        const cst_coco_boxes *const *boxes, int32_t members, cst_suppression rule,
                        const bool *images, cst_coco_boxes **out);

#endif
