/* Boxes of several members for one object as a row. docs/detection.md#the-stack. */
#ifndef CST_DETECTION_CLUSTERS_H
#define CST_DETECTION_CLUSTERS_H

#include "core/scope.h"
#include "data/readers/coco.h"
#include "model/stack.h"

typedef struct cst_cluster_options {
    double iou;       /* boxes overlap at least so much with the cluster they join */
    double min_score; /* boxes below are left out */
    int32_t
        max_boxes; /* best boxes of a member in an image and category; the others are left out */
} cst_cluster_options;

/* One member's box in a cluster, cut to its image. */
typedef struct cst_cluster_box {
    double x, y, w, h;
    double score;
    int32_t member;
} cst_cluster_box;

typedef struct cst_box_clusters {
    int32_t members; /* K */
    int32_t images;
    int32_t categories;
    int64_t rows;
    int32_t *image;       /* [rows], ascending: positions in the annotation file's order */
    int32_t *category;    /* [rows] */
    int64_t *first;       /* [rows + 1]: where each cluster's boxes begin */
    cst_cluster_box *box; /* by cluster, then falling score; a member at most once in a cluster */
} cst_box_clusters;

/* Clusters boxes by falling score within image and category: each joins the cluster that overlaps
 * it most, by at least options->iou and without a box of its member, or begins one. uses:
 * [members] that take part; images: [images] or NULL: all. */
cst_status cst_box_clusters_make(cst_context *context, cst_scope *scope, const cst_coco *coco,
                                 const cst_coco_boxes *const *boxes, int32_t members,
                                 const cst_cluster_options *options, const bool *uses,
                                 const bool *images, cst_box_clusters *out);

/* Mean score of a cluster over all members; one without a box there counts as 0. */
double cst_cluster_mean(const cst_box_clusters *clusters, int64_t row);

/* What a fused box is: */
enum {
    CST_CLUSTER_WRONG = 0,
    CST_CLUSTER_RIGHT = 1,
    CST_CLUSTER_UNUSED = -1 /* in a crowd: neither, so nothing is learned from it */
};

/* Targets [rows] by COCO's rules at one IoU, by falling mean score of fused boxes. taken: [rows],
 * the true box's position in coco->box or -1. */
cst_status cst_cluster_targets(cst_context *context, const cst_box_clusters *clusters,
                               const cst_coco *coco, double iou, int32_t *targets, int64_t *taken);

/* Fused boxes with the given scores [rows][stride], as of one detector. */
cst_status cst_cluster_boxes(cst_context *context, const cst_box_clusters *clusters,
                             const cst_coco *coco, const double *weights, const float *scores,
                             int32_t stride, cst_coco_boxes **out);

/* Defaults of the papers. */
#define CST_WBF_IOU 0.55
#define CST_NMS_IOU 0.5
#define CST_SOFT_NMS_SIGMA 0.5
#define CST_SOFT_NMS_IOU 0.3
#define CST_SOFT_NMS_MIN 0.001 /* boxes whose score falls below are left out */

/* Boxes of `members` files [members] of one annotation file as one detector's, by a rule that needs
 * no scores of clusters. Ties: by member, then order. images: [images] that are wanted, or NULL. */
cst_status cst_suppress(cst_context *context, const cst_coco *coco,
                        const cst_coco_boxes *const *boxes, int32_t members, cst_box_rule rule,
                        const bool *images, cst_coco_boxes **out);

#endif
