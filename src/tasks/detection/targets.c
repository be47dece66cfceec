/*
 * Rows of clusters: fused boxes, targets against the true boxes, boxes with new scores.
 * Between clustering and the stack. docs/detection.md#the-stack.
 */
#include "tasks/detection/ap.h"
#include "tasks/detection/clusters.h"

#include <stdlib.h>

double cst_cluster_mean(const cst_box_clusters *clusters, int64_t row) {
    double sum = 0;
    for (int64_t i = clusters->first[row]; i < clusters->first[row + 1]; i++)
        sum += clusters->box[i].score;
    return sum / clusters->members;
}

void cst_cluster_fuse(const cst_box_clusters *clusters, int64_t row, const double *weights,
                      cst_coco_box *out) {
    const double *mine =
        weights ? weights + (size_t)clusters->category[row] * (size_t)clusters->members : NULL;
    *out = (cst_coco_box){.image = clusters->image[row], .category = clusters->category[row]};
    for (int pass = 0; pass < 3; pass++) {
        double total = 0;
        double sum[4] = {0, 0, 0, 0};
        for (int64_t i = clusters->first[row]; i < clusters->first[row + 1]; i++) {
            const cst_cluster_box *b = &clusters->box[i];
            /* By weights; where those vanish by scores; where those do too, all alike. */
            double share = pass == 2 ? 1 : b->score * (pass == 0 && mine ? mine[b->member] : 1);
            total += share;
            sum[0] += share * b->x;
            sum[1] += share * b->y;
            sum[2] += share * b->w;
            sum[3] += share * b->h;
        }
        if (!(total > 0))
            continue;
        out->x = sum[0] / total;
        out->y = sum[1] / total;
        out->w = sum[2] / total;
        out->h = sum[3] / total;
        return;
    }
}

/* ---- targets ---- */

/* The true box among from..end-1 that a fused box takes: the free one it overlaps most. *crowd:
 * there is none, but it lies in a crowd. */
static int64_t find_truth(const cst_coco *coco, const cst_coco_box *box, const bool *gone,
                          int64_t from, int64_t end, double least, bool *crowd) {
    int64_t found = -1;
    double most = least;
    *crowd = false;
    for (int64_t g = from; g < end; g++) {
        const cst_coco_true *truth = &coco->box[g];
        double iou = cst_box_true_iou(box, truth);
        if (truth->crowd) {
            *crowd = *crowd || iou >= least;
        } else if (!gone[g] && iou >= most) {
            most = iou;
            found = g;
        }
    }
    *crowd = *crowd && found < 0;
    return found;
}

/* The true boxes of an image and category: from..end-1; `from` never goes back. */
static void find_range(const cst_coco *coco, int32_t image, int32_t category, int64_t *from,
                       int64_t *end) {
    int64_t g = coco->first[image] > *end ? coco->first[image] : *end;
    while (g < coco->first[image + 1] && coco->box[g].category < category)
        g++;
    *from = g;
    while (g < coco->first[image + 1] && coco->box[g].category == category)
        g++;
    *end = g;
}

cst_status cst_cluster_targets(cst_context *context, const cst_box_clusters *clusters,
                               const cst_coco *coco, const double *weights, double iou,
                               int32_t *targets, int64_t *taken) {
    bool *gone = cst_alloc(context, (size_t)coco->count, sizeof *gone);
    cst_ranked *order = cst_alloc(context, (size_t)clusters->rows, sizeof *order);
    cst_status status = gone && order ? CST_OK : CST_ERROR_MEMORY;
    int64_t from = 0;
    int64_t to = 0;
    for (int64_t row = 0; status == CST_OK && row < clusters->rows;) {
        int32_t image = clusters->image[row];
        int32_t category = clusters->category[row];
        int64_t end = row;
        for (; end < clusters->rows && clusters->image[end] == image &&
               clusters->category[end] == category;
             end++)
            order[end - row] = (cst_ranked){cst_cluster_mean(clusters, end), end};
        qsort(order, (size_t)(end - row), sizeof *order, cst_by_score);
        find_range(coco, image, category, &from, &to);
        for (int64_t i = 0; i < end - row; i++) {
            cst_coco_box box;
            bool crowd = false;
            cst_cluster_fuse(clusters, order[i].place, weights, &box);
            int64_t found = find_truth(coco, &box, gone, from, to, iou, &crowd);
            if (found >= 0)
                gone[found] = true;
            targets[order[i].place] = found >= 0 ? CST_CLUSTER_RIGHT
                                      : crowd    ? CST_CLUSTER_UNUSED
                                                 : CST_CLUSTER_WRONG;
            if (taken)
                taken[order[i].place] = found;
        }
        row = end;
    }
    cst_free(context, gone);
    cst_free(context, order);
    return status;
}

cst_status cst_cluster_boxes(cst_context *context, const cst_box_clusters *clusters,
                             const cst_coco *coco, const double *weights, const float *scores,
                             int32_t stride, cst_coco_boxes **out) {
    *out = NULL;
    cst_coco_box *box = cst_alloc(context, (size_t)clusters->rows, sizeof *box);
    if (!box)
        return CST_ERROR_MEMORY;
    for (int64_t row = 0; row < clusters->rows; row++) {
        double score = (double)scores[row * stride];
        cst_cluster_fuse(clusters, row, weights, &box[row]);
        box[row].score = score < 0 ? 0 : score > 1 ? 1 : score;
    }
    cst_status status =
        cst_coco_boxes_take(context, out, box, clusters->rows, coco->images, coco->categories);
    if (status != CST_OK)
        cst_free(context, box);
    return status;
}
