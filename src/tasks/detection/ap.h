/* Average precision and recall of scored boxes by COCO's rules. docs/detection.md#scores. */
#ifndef CST_DETECTION_AP_H
#define CST_DETECTION_AP_H

#include "core/scope.h"
#include "data/readers/coco.h"

#include <corestack/detection.h>

enum {
    CST_AP_THRESHOLDS = 10, /* of IoU: 0.50, 0.55, ..., 0.95 */
    CST_AP_RECALLS = 101,   /* 0, 0.01, ..., 1 */
    CST_AP_AREAS = 4,       /* all, small, medium, large */
    CST_AP_BOXES_MAX = 100  /* best boxes of an image and category that count */
};

/* Something with a score; `place` breaks ties as a stable sort does. */
typedef struct cst_ranked {
    double score;
    int64_t place;
} cst_ranked;

/* For qsort: highest score first. */
int cst_by_score(const void *a, const void *b);

/* Outcome of one box: a bit for each threshold. */
typedef struct cst_ap_outcome {
    uint16_t right[CST_AP_AREAS];   /* matched to a true box that counts */
    uint16_t ignored[CST_AP_AREAS]; /* neither right nor wrong */
} cst_ap_outcome;

/* One box that takes part, in the order of its category's precision-recall curve. */
typedef struct cst_ap_box {
    cst_ap_outcome outcome;
    int32_t image;
    int32_t rank; /* among those of its image and category, from 0 */
} cst_ap_box;

/* Every box matched: what the curves are made from. */
typedef struct cst_ap_matches {
    int32_t images;
    int32_t categories;
    int64_t count;
    cst_ap_box *box; /* by category, then falling score, ties as the reference breaks them */
    int64_t *first;  /* [categories + 1] */
    struct cst_ap_true {
        int32_t image;
        int32_t count[CST_AP_AREAS]; /* true boxes that count */
    } * truth;                       /* by category */
    int64_t *true_first;             /* [categories + 1] */
} cst_ap_matches;

/* IoU of two boxes; over the area of `box` alone where the true box is a crowd. */
double cst_box_iou(double ax, double ay, double aw, double ah, double bx, double by, double bw,
                   double bh);
double cst_box_true_iou(const cst_coco_box *box, const cst_coco_true *truth);

cst_status cst_ap_match(cst_context *context, cst_scope *scope, const cst_coco *truth,
                        const cst_coco_boxes *boxes, cst_ap_matches *out);

/* All figures. times: how often each image counts ([images], >= 0), or NULL: once.
 * by_category: [categories], or NULL. */
cst_status cst_ap_scores(cst_context *context, const cst_ap_matches *matches, const int32_t *times,
                         cst_detection_scores *out, cst_detection_scores *by_category);

/* AP, AP50, AP75 and AR100 only (the others are NaN), on the calling thread, with scratch of
 * cst_ap_scratch(matches) doubles: for resamples. */
size_t cst_ap_scratch(const cst_ap_matches *matches);
void cst_ap_main_scores(const cst_ap_matches *matches, const int32_t *times, double *scratch,
                        cst_detection_scores *out);

#endif
