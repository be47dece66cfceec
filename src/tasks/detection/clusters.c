/* Clusters of boxes across members, their targets and fused boxes. See the header. */
#include "tasks/detection/detection.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { IMAGES_A_TASK = 16 };

/* A box of one image and category in the order in which boxes are taken. */
typedef struct candidate {
    cst_cluster_box box;
    int64_t place; /* in its member's file */
} candidate;

CST_BY(by_score, candidate, CST_DOWN(box.score), CST_UP(box.member), CST_UP(place))

/* A cluster while it grows: sums of score-weighted corners and of scores. */
typedef struct growing {
    double x, y, w, h, score;
    int64_t last; /* candidate that joined last; they are chained backwards */
    int64_t count;
} growing;

typedef struct clustering {
    const cst_coco *coco;
    const cst_coco_boxes *const *boxes;
    int32_t members;
    cst_cluster_options options;
    const bool *uses;     /* [members], or NULL */
    int64_t *from;        /* [images + 1]: upper bounds of where an image's boxes begin */
    int64_t *rows;        /* [images]: clusters of each image */
    int64_t *used;        /* [images]: boxes of each image */
    int32_t *category;    /* [from[images]]: of each cluster, at its image's place */
    int64_t *count;       /* [from[images]]: boxes of each cluster, likewise */
    cst_cluster_box *box; /* [from[images]] */
} clustering;

typedef struct bench {
    candidate *candidates;
    int64_t *before; /* the one that joined the same cluster before; -1 */
    growing *clusters;
    int64_t *cursor; /* [members] */
    int64_t room;
} bench;

/* The part of a box inside its image, where the image's size is known. */
static cst_cluster_box cut(const cst_coco *coco, const cst_coco_box *box, int32_t member) {
    cst_cluster_box out = {
        .x = box->x, .y = box->y, .w = box->w, .h = box->h, .score = box->score, .member = member};
    double width = coco->width[box->image];
    double height = coco->height[box->image];
    if (!isnan(width)) {
        out.x = fmax(box->x, 0);
        out.w = fmax(fmin(box->x + box->w, width) - out.x, 0);
    }
    if (!isnan(height)) {
        out.y = fmax(box->y, 0);
        out.h = fmax(fmin(box->y + box->h, height) - out.y, 0);
    }
    return out;
}

/* Candidates of one category, the best max_boxes of a member; moves the cursors. */
static int64_t gather(const clustering *j, int32_t image, int32_t category, bench *b) {
    int64_t count = 0;
    for (int32_t k = 0; k < j->members; k++) {
        const cst_coco_boxes *boxes = j->boxes[k];
        int64_t mine = count;
        for (; b->cursor[k] < boxes->first[image + 1] &&
               boxes->box[b->cursor[k]].category == category;
             b->cursor[k]++) {
            const cst_coco_box *box = &boxes->box[b->cursor[k]];
            if (box->score < j->options.min_score || (j->uses && !j->uses[k]))
                continue;
            candidate *next = &b->candidates[count++];
            *next = (candidate){cut(j->coco, box, k), b->cursor[k]};
            if (j->options.map)
                next->box.score = cst_isotonic_value(&j->options.map[k], box->score);
        }
        if (count - mine > j->options.max_boxes) {
            qsort(b->candidates + mine, (size_t)(count - mine), sizeof *b->candidates, by_score);
            count = mine + j->options.max_boxes;
        }
    }
    if (count > 1)
        qsort(b->candidates, (size_t)count, sizeof *b->candidates, by_score);
    return count;
}

static bool has_member(const bench *b, const growing *c, int32_t member) {
    for (int64_t i = c->last; i >= 0; i = b->before[i])
        if (b->candidates[i].box.member == member)
            return true;
    return false;
}

static int64_t cluster_group(const clustering *j, bench *b, int64_t count) {
    int64_t clusters = 0;
    for (int64_t i = 0; i < count; i++) {
        const cst_cluster_box *box = &b->candidates[i].box;
        int64_t best = -1;
        double most = j->options.iou;
        for (int64_t c = 0; c < clusters; c++) {
            const growing *g = &b->clusters[c];
            double iou = cst_box_iou(box->x, box->y, box->w, box->h, g->x / g->score,
                                     g->y / g->score, g->w / g->score, g->h / g->score);
            if (iou >= most && (best < 0 || iou > most) && !has_member(b, g, box->member)) {
                most = iou;
                best = c;
            }
        }
        if (best < 0) {
            best = clusters++;
            b->clusters[best] = (growing){.last = -1};
        }
        growing *g = &b->clusters[best];
        double weight = fmax(box->score, 1e-9); /* a score of 0 still has a place */
        g->x += weight * box->x;
        g->y += weight * box->y;
        g->w += weight * box->w;
        g->h += weight * box->h;
        g->score += weight;
        b->before[i] = g->last;
        g->last = i;
        g->count++;
    }
    return clusters;
}

/* The lowest category that any member's cursor stands at; INT32_MAX behind the image's boxes. */
static int32_t next_category(const clustering *j, int32_t image, const bench *b) {
    int32_t category = INT32_MAX;
    for (int32_t k = 0; k < j->members; k++)
        if (b->cursor[k] < j->boxes[k]->first[image + 1]) {
            int32_t next = j->boxes[k]->box[b->cursor[k]].category;
            category = next < category ? next : category;
        }
    return category;
}

/* The clusters of one image at its place in the job's arrays. */
static void cluster_image(const clustering *j, int32_t image, bench *b) {
    int64_t row = j->from[image];
    int64_t at = j->from[image];
    int32_t category = 0;
    for (int32_t k = 0; k < j->members; k++)
        b->cursor[k] = j->boxes[k]->first[image];
    if (j->from[image + 1] == j->from[image]) {
        j->rows[image] = 0; /* empty, or not asked for */
        j->used[image] = 0;
        return;
    }
    while ((category = next_category(j, image, b)) != INT32_MAX) {
        int64_t clusters = cluster_group(j, b, gather(j, image, category, b));
        for (int64_t c = 0; c < clusters; c++, row++) {
            const growing *g = &b->clusters[c];
            int64_t to = at + g->count;
            j->category[row] = category;
            j->count[row] = g->count;
            for (int64_t i = g->last; i >= 0; i = b->before[i])
                j->box[--to] = b->candidates[i].box;
            at += g->count;
        }
    }
    j->rows[image] = row - j->from[image];
    j->used[image] = at - j->from[image];
}

static cst_status cluster_task(cst_context *context, void *user, int64_t task) {
    const clustering *j = user;
    bench b = {0};
    int64_t first = task * IMAGES_A_TASK;
    int64_t end = first + IMAGES_A_TASK < j->coco->images ? first + IMAGES_A_TASK : j->coco->images;
    for (int64_t i = first; i < end; i++)
        b.room = j->from[i + 1] - j->from[i] > b.room ? j->from[i + 1] - j->from[i] : b.room;
    CST_SCOPE(scope);
    CST_TAKE(context, scope, b.candidates, b.room);
    CST_TAKE(context, scope, b.before, b.room);
    CST_TAKE(context, scope, b.clusters, b.room);
    CST_TAKE(context, scope, b.cursor, j->members);
    for (int64_t i = first; i < end; i++)
        cluster_image(j, (int32_t)i, &b);
    return CST_OK;
}

/* Closes the gaps between images. */
static cst_status pack(cst_context *context, cst_scope *scope, const clustering *j,
                       cst_box_clusters *out) {
    for (int32_t i = 0; i < out->images; i++)
        out->rows += j->rows[i];
    CST_TAKE(context, scope, out->image, out->rows);
    CST_TAKE(context, scope, out->category, out->rows);
    CST_TAKE(context, scope, out->first, out->rows + 1);
    int64_t row = 0;
    int64_t at = 0;
    for (int32_t i = 0; i < out->images; i++) {
        memmove(j->box + at, j->box + j->from[i], (size_t)j->used[i] * sizeof *j->box);
        for (int64_t c = 0; c < j->rows[i]; c++, row++) {
            out->image[row] = i;
            out->category[row] = j->category[j->from[i] + c];
            out->first[row + 1] = out->first[row] + j->count[j->from[i] + c];
        }
        at += j->used[i];
    }
    out->box = j->box;
    return CST_OK;
}

/* Bounds of where the boxes of each image are put, first [images + 1]; images: [images] that are
 * wanted, or NULL. */
static void bound_images(const cst_coco_boxes *const *boxes, int32_t members, const bool *images,
                         int32_t count, int64_t *first) {
    for (int32_t i = 0; i < count; i++) {
        first[i + 1] = first[i];
        for (int32_t k = 0; k < members && (!images || images[i]); k++)
            first[i + 1] += boxes[k]->first[i + 1] - boxes[k]->first[i];
    }
}

cst_status cst_box_clusters_make(cst_context *context, cst_scope *scope, const cst_coco *coco,
                                 const cst_coco_boxes *const *boxes, int32_t members,
                                 const cst_cluster_options *options, const bool *uses,
                                 const bool *images, cst_box_clusters *out) {
    int32_t count = coco->images;
    CST_SCOPE(own);
    clustering j = {
        .coco = coco, .boxes = boxes, .members = members, .options = *options, .uses = uses};
    *out = (cst_box_clusters){.members = members, .images = count, .categories = coco->categories};
    CST_TAKE(context, own, j.from, count + 1);
    CST_TAKE(context, own, j.rows, count);
    CST_TAKE(context, own, j.used, count);
    bound_images(boxes, members, images, count, j.from);
    CST_TAKE(context, own, j.category, j.from[count]);
    CST_TAKE(context, own, j.count, j.from[count]);
    CST_TAKE(context, scope, j.box, j.from[count]);
    CST_TRY(
        cst_parallel_for(context, (count + IMAGES_A_TASK - 1) / IMAGES_A_TASK, cluster_task, &j));
    return pack(context, scope, &j, out);
}

/* ---- rows of clusters ---- */

double cst_cluster_mean(const cst_box_clusters *clusters, int64_t row) {
    double sum = 0;
    for (int64_t i = clusters->first[row]; i < clusters->first[row + 1]; i++)
        sum += clusters->box[i].score;
    return sum / clusters->members;
}

/* Mean box by score * weights[category][member] (NULL: 1); scores decide where all are 0. */
static void fuse(const cst_box_clusters *clusters, int64_t row, const double *weights,
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

/* The free true box of from..end-1 with most overlap. *crowd: none, but in a crowd. */
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
                               const cst_coco *coco, double iou, int32_t *targets, int64_t *taken) {
    CST_SCOPE(scope);
    int64_t from = 0;
    int64_t to = 0;
    CST_NEW(context, scope, bool, gone, coco->count);
    CST_NEW(context, scope, cst_ranked, order, clusters->rows);
    for (int64_t row = 0; row < clusters->rows;) {
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
            fuse(clusters, order[i].place, NULL, &box);
            int64_t found = find_truth(coco, &box, gone, from, to, iou, &crowd);
            if (found >= 0)
                gone[found] = true;
            targets[order[i].place] = found >= 0 ? CST_CLUSTER_RIGHT
                                      : crowd    ? CST_CLUSTER_UNUSED
                                                 : CST_CLUSTER_WRONG;
            taken[order[i].place] = found;
        }
        row = end;
    }
    return CST_OK;
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
        fuse(clusters, row, weights, &box[row]);
        box[row].score = score < 0 ? 0 : score > 1 ? 1 : score;
    }
    return cst_coco_boxes_take(context, out, box, clusters->rows, coco->images, coco->categories);
}

/* ---- fusion without a fit ---- */

/* A box of the pool; `place` counts members first, then their files. */
typedef struct pooled {
    cst_coco_box box;
    int64_t place;
} pooled;

CST_BY(by_category_and_score, pooled, CST_UP(box.category), CST_DOWN(box.score), CST_UP(place))

static double overlap(const cst_coco_box *a, const cst_coco_box *b) {
    return cst_box_iou(a->x, a->y, a->w, a->h, b->x, b->y, b->w, b->h);
}

typedef struct fusing {
    double x, y, w, h, score;
    int64_t count;
} fusing;

/* Boxes join the fused box of most overlap; score: mean, times min(boxes, members) / members. */
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

static double weakened(double score, double iou, cst_box_rule rule) {
    switch (rule) {
    case CST_BOX_RULE_NMS:
        return iou > CST_NMS_IOU ? -1 : score;
    case CST_BOX_RULE_SOFT_NMS:
        return score * exp(-iou * iou / CST_SOFT_NMS_SIGMA);
    default:
        return iou > CST_SOFT_NMS_IOU ? score * (1 - iou) : score;
    }
}

/* Again and again the best box that is left is taken, and weakens the others. */
static int64_t suppress(pooled *in, int64_t count, cst_box_rule rule, cst_coco_box *out) {
    double least = rule == CST_BOX_RULE_NMS ? 0 : CST_SOFT_NMS_MIN;
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
    cst_box_rule rule;
    int64_t *first; /* [images + 1]: where an image's boxes may be put */
    int64_t *kept;  /* [images]: how many were */
    cst_coco_box *box;
} suppress_job;

static cst_status suppress_image(cst_context *context, void *user, int64_t task) {
    const suppress_job *job = user;
    size_t room = (size_t)(job->first[task + 1] - job->first[task]);
    cst_coco_box *out = job->box + job->first[task];
    if (room == 0) /* empty, or not asked for */
        return CST_OK;
    if (job->rule == CST_BOX_RULE_BEST) { /* as they are */
        memcpy(out, job->boxes[0]->box + job->boxes[0]->first[task], room * sizeof *out);
        job->kept[task] = (int64_t)room;
        return CST_OK;
    }
    CST_SCOPE(scope);
    CST_NEW(context, scope, pooled, pool, room);
    CST_NEW(context, scope, fusing, sums, job->rule == CST_BOX_RULE_WBF ? room : 0);
    int64_t count = pool_image(job->boxes, job->members, (int32_t)task, pool);
    int64_t kept = 0;
    for (int64_t at = 0; at < count;) {
        int64_t end = at;
        while (end < count && pool[end].box.category == pool[at].box.category)
            end++;
        kept += job->rule == CST_BOX_RULE_WBF
                    ? fuse_weighted(pool + at, end - at, job->members, sums, out + kept)
                    : suppress(pool + at, end - at, job->rule, out + kept);
        at = end;
    }
    job->kept[task] = kept;
    return CST_OK;
}

/* Moves what the images kept together. */
static int64_t close_up(const suppress_job *job, int32_t images) {
    int64_t all = 0;
    for (int32_t i = 0; i < images; i++) {
        memmove(job->box + all, job->box + job->first[i], (size_t)job->kept[i] * sizeof *job->box);
        all += job->kept[i];
    }
    return all;
}

cst_status cst_suppress(cst_context *context, const cst_coco *coco,
                        const cst_coco_boxes *const *boxes, int32_t members, cst_box_rule rule,
                        const bool *images, cst_coco_boxes **out) {
    CST_SCOPE(scope);
    suppress_job job = {.boxes = boxes, .members = members, .rule = rule};
    *out = NULL;
    CST_TAKE(context, scope, job.first, coco->images + 1);
    CST_TAKE(context, scope, job.kept, coco->images);
    bound_images(boxes, members, images, coco->images, job.first);
    job.box = cst_alloc(context, (size_t)job.first[coco->images], sizeof *job.box);
    cst_status status =
        job.box ? cst_parallel_for(context, coco->images, suppress_image, &job) : CST_ERROR_MEMORY;
    if (status == CST_OK)
        return cst_coco_boxes_take(context, out, job.box, close_up(&job, coco->images),
                                   coco->images, coco->categories);
    cst_free(context, job.box);
    return status;
}
