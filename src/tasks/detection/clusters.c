/*
 * Clustering of boxes across members, image by image. Between the members' files and the stack.
 * docs/detection.md#the-stack.
 */
#include "tasks/detection/clusters.h"

#include "tasks/detection/ap.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { IMAGES_A_TASK = 16 };

/* A box of one image and category in the order in which boxes are taken. */
typedef struct candidate {
    cst_cluster_box box;
    int64_t place; /* in its member's file */
} candidate;

static int by_score(const void *a, const void *b) {
    const candidate *x = a;
    const candidate *y = b;
    if (x->box.score > y->box.score || x->box.score < y->box.score)
        return x->box.score > y->box.score ? -1 : 1;
    if (x->box.member != y->box.member)
        return x->box.member < y->box.member ? -1 : 1;
    return (x->place > y->place) - (x->place < y->place);
}

/* A cluster while it grows: sums of score-weighted corners and of scores. */
typedef struct growing {
    double x, y, w, h, score;
    int64_t last; /* candidate that joined last; they are chained backwards */
    int64_t count;
} growing;

typedef struct job {
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
} job;

/* Scratch of one task. */
typedef struct bench {
    candidate *candidates;
    int64_t *before; /* the one that joined the same cluster before; -1 */
    growing *clusters;
    int64_t *cursor; /* [members] */
    int64_t room;
} bench;

static void bench_free(cst_context *context, bench *b) {
    cst_free(context, b->candidates);
    cst_free(context, b->before);
    cst_free(context, b->clusters);
    cst_free(context, b->cursor);
}

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

/* Candidates of one category; every member's cursor moves behind it. Only the best max_boxes of a
 * member stay. */
static int64_t gather(const job *j, int32_t image, int32_t category, bench *b) {
    int64_t count = 0;
    for (int32_t k = 0; k < j->members; k++) {
        const cst_coco_boxes *boxes = j->boxes[k];
        int64_t mine = count;
        for (; b->cursor[k] < boxes->first[image + 1] &&
               boxes->box[b->cursor[k]].category == category;
             b->cursor[k]++) {
            const cst_coco_box *box = &boxes->box[b->cursor[k]];
            if (box->score >= j->options.min_score && (!j->uses || j->uses[k]))
                b->candidates[count++] = (candidate){cut(j->coco, box, k), b->cursor[k]};
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

static int64_t cluster_group(const job *j, bench *b, int64_t count) {
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
static int32_t next_category(const job *j, int32_t image, const bench *b) {
    int32_t category = INT32_MAX;
    for (int32_t k = 0; k < j->members; k++)
        if (b->cursor[k] < j->boxes[k]->first[image + 1]) {
            int32_t next = j->boxes[k]->box[b->cursor[k]].category;
            category = next < category ? next : category;
        }
    return category;
}

/* The clusters of one image at its place in the job's arrays. */
static void cluster_image(const job *j, int32_t image, bench *b) {
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
    const job *j = user;
    bench b = {0};
    int64_t first = task * IMAGES_A_TASK;
    int64_t end = first + IMAGES_A_TASK < j->coco->images ? first + IMAGES_A_TASK : j->coco->images;
    for (int64_t i = first; i < end; i++)
        b.room = j->from[i + 1] - j->from[i] > b.room ? j->from[i + 1] - j->from[i] : b.room;
    b.candidates = cst_alloc(context, (size_t)b.room, sizeof *b.candidates);
    b.before = cst_alloc(context, (size_t)b.room, sizeof *b.before);
    b.clusters = cst_alloc(context, (size_t)b.room, sizeof *b.clusters);
    b.cursor = cst_alloc(context, (size_t)j->members, sizeof *b.cursor);
    cst_status status =
        b.candidates && b.before && b.clusters && b.cursor ? CST_OK : CST_ERROR_MEMORY;
    for (int64_t i = first; status == CST_OK && i < end; i++)
        cluster_image(j, (int32_t)i, &b);
    bench_free(context, &b);
    return status;
}

/* Closes the gaps between images. */
static cst_status pack(cst_context *context, job *j, cst_box_clusters *out) {
    for (int32_t i = 0; i < out->images; i++)
        out->rows += j->rows[i];
    out->image = cst_alloc(context, (size_t)out->rows, sizeof *out->image);
    out->category = cst_alloc(context, (size_t)out->rows, sizeof *out->category);
    out->first = cst_alloc(context, (size_t)out->rows + 1, sizeof *out->first);
    if (!out->image || !out->category || !out->first)
        return CST_ERROR_MEMORY;
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
    j->box = NULL;
    return CST_OK;
}

cst_status cst_box_clusters_make(cst_context *context, const cst_coco *coco,
                                 const cst_coco_boxes *const *boxes, int32_t members,
                                 const cst_cluster_options *options, const bool *uses,
                                 const bool *images, cst_box_clusters **out) {
    size_t count = (size_t)coco->images;
    job j = {.coco = coco, .boxes = boxes, .members = members, .options = *options, .uses = uses};
    *out = NULL;
    cst_box_clusters *clusters = cst_alloc(context, 1, sizeof *clusters);
    if (!clusters)
        return CST_ERROR_MEMORY;
    clusters->members = members;
    clusters->images = coco->images;
    clusters->categories = coco->categories;
    j.from = cst_alloc(context, count + 1, sizeof *j.from);
    j.rows = cst_alloc(context, count, sizeof *j.rows);
    j.used = cst_alloc(context, count, sizeof *j.used);
    cst_status status = j.from && j.rows && j.used ? CST_OK : CST_ERROR_MEMORY;
    for (size_t i = 0; status == CST_OK && i < count; i++) {
        j.from[i + 1] = j.from[i];
        for (int32_t k = 0; k < members && (!images || images[i]); k++)
            j.from[i + 1] += boxes[k]->first[i + 1] - boxes[k]->first[i];
    }
    if (status == CST_OK) {
        size_t all = (size_t)j.from[count];
        j.category = cst_alloc(context, all, sizeof *j.category);
        j.count = cst_alloc(context, all, sizeof *j.count);
        j.box = cst_alloc(context, all, sizeof *j.box);
        status = j.category && j.count && j.box ? CST_OK : CST_ERROR_MEMORY;
    }
    CST_THEN(cst_parallel_for(context, (coco->images + IMAGES_A_TASK - 1) / IMAGES_A_TASK,
                              cluster_task, &j));
    CST_THEN(pack(context, &j, clusters));
    cst_free(context, j.from);
    cst_free(context, j.rows);
    cst_free(context, j.used);
    cst_free(context, j.category);
    cst_free(context, j.count);
    cst_free(context, j.box);
    if (status == CST_OK)
        *out = clusters;
    else
        cst_box_clusters_free(context, clusters);
    return status;
}

void cst_box_clusters_free(cst_context *context, cst_box_clusters *clusters) {
    if (!clusters)
        return;
    cst_free(context, clusters->image);
    cst_free(context, clusters->category);
    cst_free(context, clusters->first);
    cst_free(context, clusters->box);
    cst_free(context, clusters);
}
