/* Weighted boxes fusion, NMS and soft-NMS over the boxes of all members. See the header. */
#include "tasks/detection/suppression.h"

#include "tasks/detection/ap.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A box of the pool; `place` counts members first, then their files. */
typedef struct pooled {
    cst_coco_box box;
    int64_t place;
} pooled;

static int by_category_and_score(const void *a, const void *b) {
    const pooled *x = a;
    const pooled *y = b;
    if (x->box.category != y->box.category)
        return x->box.category < y->box.category ? -1 : 1;
    if (x->box.score > y->box.score || x->box.score < y->box.score)
        return x->box.score > y->box.score ? -1 : 1;
    return (x->place > y->place) - (x->place < y->place);
}

static double overlap(const cst_coco_box *a, const cst_coco_box *b) {
    return cst_box_iou(a->x, a->y, a->w, a->h, b->x, b->y, b->w, b->h);
}

/* Sums over the boxes of a fused one. */
typedef struct fusing {
    double x, y, w, h, score;
    int64_t count;
} fusing;

/* Boxes by falling score join the fused box they overlap most (more than the threshold); its score
 * is their mean, times min(boxes, members) / members. sums: [count]. */
static int64_t fuse_weighted(const pooled *in, int64_t count, int32_t members, fusing *sums,
                             cst_coco_box *out) {
    int64_t clusters = 0;
    for (int64_t i = 0; i < count; i++) {
        const cst_coco_box *box = &in[i].box;
        int64_t best = -1;
        double most = CST_WBF_IOU;
        for (int64_t c = 0; c < clusters; c++) {
            double iou = overlap(box, &out[c]);
            if (iou > most) {
                most = iou;
                best = c;
            }
        }
        if (best < 0) {
            best = clusters++;
            sums[best] = (fusing){0};
            out[best] = *box;
        }
        fusing *s = &sums[best];
        s->x += box->score * box->x;
        s->y += box->score * box->y;
        s->w += box->score * box->w;
        s->h += box->score * box->h;
        s->score += box->score;
        s->count++;
        if (s->score > 0) {
            out[best].x = s->x / s->score;
            out[best].y = s->y / s->score;
            out[best].w = s->w / s->score;
            out[best].h = s->h / s->score;
        }
    }
    for (int64_t c = 0; c < clusters; c++) {
        double share = (double)(sums[c].count < members ? sums[c].count : members) / members;
        out[c].score = sums[c].score / (double)sums[c].count * share;
    }
    return clusters;
}

/* What is left of a score beside a better box. */
static double weakened(double score, double iou, cst_suppression rule) {
    switch (rule) {
    case CST_SUPPRESSION_HARD:
        return iou > CST_NMS_IOU ? -1 : score;
    case CST_SUPPRESSION_GAUSSIAN:
        return score * exp(-iou * iou / CST_SOFT_NMS_SIGMA);
    default:
        return iou > CST_SOFT_NMS_IOU ? score * (1 - iou) : score;
    }
}

/* Again and again the best box that is left is taken, and weakens the others. */
static int64_t suppress(pooled *in, int64_t count, cst_suppression rule, cst_coco_box *out) {
    double least = rule == CST_SUPPRESSION_HARD ? 0 : CST_SOFT_NMS_MIN;
    int64_t kept = 0;
    for (int64_t left = count; left > 0;) {
        int64_t best = 0;
        for (int64_t i = 1; i < left; i++)
            if (in[i].box.score > in[best].box.score ||
                (!(in[i].box.score < in[best].box.score) && in[i].place < in[best].place))
                best = i;
        cst_coco_box taken = in[best].box;
        if (taken.score < least)
            break;
        out[kept++] = taken;
        in[best] = in[--left];
        for (int64_t i = 0; i < left;) {
            in[i].box.score = weakened(in[i].box.score, overlap(&in[i].box, &taken), rule);
            if (in[i].box.score < 0)
                in[i] = in[--left];
            else
                i++;
        }
    }
    return kept;
}

/* The pooled boxes of one image by category and falling score. */
static int64_t pool_image(const cst_coco_boxes *const *boxes, int32_t members, int32_t image,
                          pooled *out) {
    int64_t count = 0;
    for (int32_t k = 0; k < members; k++)
        for (int64_t i = boxes[k]->first[image]; i < boxes[k]->first[image + 1]; i++, count++)
            out[count] = (pooled){boxes[k]->box[i], count};
    if (count > 1)
        qsort(out, (size_t)count, sizeof *out, by_category_and_score);
    return count;
}

/* ---- all images ---- */

typedef struct suppress_job {
    const cst_coco_boxes *const *boxes;
    int32_t members;
    cst_suppression rule;
    const int32_t *image; /* [tasks]: which images */
    const int64_t *first; /* [tasks]: where an image's boxes may be put */
    int64_t *kept;        /* [tasks]: how many were */
    cst_coco_box *box;
} suppress_job;

static int64_t count_image(const suppress_job *job, int32_t image) {
    int64_t count = 0;
    for (int32_t k = 0; k < job->members; k++)
        count += job->boxes[k]->first[image + 1] - job->boxes[k]->first[image];
    return count;
}

static cst_status suppress_image(cst_context *context, void *user, int64_t task) {
    const suppress_job *job = user;
    int32_t image = job->image[task];
    size_t room = (size_t)count_image(job, image);
    CST_SCOPE(scope);
    pooled *pool;
    fusing *sums;
    CST_TAKE(context, scope, pool, room);
    CST_TAKE(context, scope, sums, job->rule == CST_SUPPRESSION_WBF ? room : 0);
    int64_t count = pool_image(job->boxes, job->members, image, pool);
    int64_t kept = 0;
    cst_coco_box *out = job->box + job->first[task];
    for (int64_t at = 0; at < count;) {
        int64_t end = at;
        while (end < count && pool[end].box.category == pool[at].box.category)
            end++;
        kept += job->rule == CST_SUPPRESSION_WBF
                    ? fuse_weighted(pool + at, end - at, job->members, sums, out + kept)
                    : suppress(pool + at, end - at, job->rule, out + kept);
        at = end;
    }
    job->kept[task] = kept;
    return CST_OK;
}

/* Moves what the images kept together. */
static int64_t close_up(const suppress_job *job, int64_t tasks) {
    int64_t all = 0;
    for (int64_t t = 0; t < tasks; t++) {
        memmove(job->box + all, job->box + job->first[t], (size_t)job->kept[t] * sizeof *job->box);
        all += job->kept[t];
    }
    return all;
}

cst_status cst_suppress(cst_context *context, const cst_coco *coco,
                        const cst_coco_boxes *const *boxes, int32_t members, cst_suppression rule,
                        const bool *images, cst_coco_boxes **out) {
    CST_SCOPE(scope);
    int32_t *image;
    int64_t *first;
    suppress_job job = {.boxes = boxes, .members = members, .rule = rule};
    int64_t tasks = 0;
    int64_t all = 0;
    *out = NULL;
    CST_TAKE(context, scope, image, coco->images);
    CST_TAKE(context, scope, first, coco->images);
    CST_TAKE(context, scope, job.kept, coco->images);
    for (int32_t i = 0; i < coco->images; i++) {
        if (images && !images[i])
            continue;
        image[tasks] = i;
        first[tasks++] = all;
        all += count_image(&job, i);
    }
    job.image = image;
    job.first = first;
    job.box = cst_alloc(context, (size_t)all, sizeof *job.box);
    cst_status status =
        job.box ? cst_parallel_for(context, tasks, suppress_image, &job) : CST_ERROR_MEMORY;
    if (status == CST_OK)
        return cst_coco_boxes_take(context, out, job.box, close_up(&job, tasks), coco->images,
                                   coco->categories);
    cst_free(context, job.box);
    return status;
}
