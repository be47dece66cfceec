/*
 * Boxes matched to true boxes by COCO's rules: greedily by score, true boxes that do not count
 * last, crowds any number of times. Before the precision-recall curves. docs/detection.md#scores.
 */
#include "tasks/detection/ap.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Pixels: below or above which a box does not count in an area. */
static const double AREA_LOW[CST_AP_AREAS] = {0, 0, 32 * 32, 96 * 96};
static const double AREA_HIGH[CST_AP_AREAS] = {1e10, 32 * 32, 96 * 96, 1e10};

/* The thresholds as the reference computes them. */
static void ap_thresholds(double out[CST_AP_THRESHOLDS]) {
    double step = (0.95 - 0.5) / (CST_AP_THRESHOLDS - 1);
    for (int t = 0; t < CST_AP_THRESHOLDS; t++)
        out[t] = 0.5 + t * step;
    out[CST_AP_THRESHOLDS - 1] = 0.95;
}

static double overlap(double ax, double ay, double aw, double ah, double bx, double by, double bw,
                      double bh) {
    double w = fmin(ax + aw, bx + bw) - fmax(ax, bx);
    double h = fmin(ay + ah, by + bh) - fmax(ay, by);
    return w > 0 && h > 0 ? w * h : 0;
}

double cst_box_iou(double ax, double ay, double aw, double ah, double bx, double by, double bw,
                   double bh) {
    double both = overlap(ax, ay, aw, ah, bx, by, bw, bh);
    return both > 0 ? both / (aw * ah + bw * bh - both) : 0;
}

double cst_box_true_iou(const cst_coco_box *box, const cst_coco_true *truth) {
    double both = overlap(box->x, box->y, box->w, box->h, truth->x, truth->y, truth->w, truth->h);
    if (!(both > 0))
        return 0;
    double area = box->w * box->h;
    return both / (truth->crowd ? area : area + truth->w * truth->h - both);
}

/* ---- one image and category ---- */

int cst_by_score(const void *a, const void *b) {
    const cst_ranked *x = a;
    const cst_ranked *y = b;
    if (x->score > y->score || x->score < y->score)
        return x->score > y->score ? -1 : 1;
    return (x->place > y->place) - (x->place < y->place);
}

/* Scratch for groups of up to `boxes` boxes and `truths` true boxes. */
typedef struct bench {
    cst_ranked *order; /* [boxes] */
    double *iou;       /* [CST_AP_BOXES_MAX][truths] */
    int32_t *visited;  /* [truths]: those that count first */
    bool *skipped;     /* [truths]: does not count, in the order of `visited` */
    bool *taken;       /* [truths], likewise */
    int64_t boxes, truths;
} bench;

static void bench_free(cst_context *context, bench *b) {
    cst_free(context, b->order);
    cst_free(context, b->iou);
    cst_free(context, b->visited);
    cst_free(context, b->skipped);
    cst_free(context, b->taken);
    *b = (bench){0};
}

static cst_status bench_fit(cst_context *context, bench *b, int64_t boxes, int64_t truths) {
    if (b->order && boxes <= b->boxes && truths <= b->truths)
        return CST_OK;
    boxes = 2 * (boxes > b->boxes ? boxes : b->boxes);
    truths = 2 * (truths > b->truths ? truths : b->truths);
    bench_free(context, b);
    size_t t = (size_t)truths;
    b->boxes = boxes;
    b->truths = truths;
    b->order = cst_alloc(context, (size_t)boxes, sizeof *b->order);
    b->iou = cst_alloc(context, CST_AP_BOXES_MAX * t, sizeof *b->iou);
    b->visited = cst_alloc(context, t, sizeof *b->visited);
    b->skipped = cst_alloc(context, t, sizeof *b->skipped);
    b->taken = cst_alloc(context, t, sizeof *b->taken);
    return b->order && b->iou && b->visited && b->skipped && b->taken ? CST_OK : CST_ERROR_MEMORY;
}

/* True boxes in the order they are tried: those that count in the area, then the others. */
static void order_truths(bench *b, const cst_coco_true *truth, int64_t truths, int area) {
    int64_t at = 0;
    for (int pass = 0; pass < 2; pass++)
        for (int64_t g = 0; g < truths; g++) {
            bool skip =
                truth[g].crowd || truth[g].area < AREA_LOW[area] || truth[g].area > AREA_HIGH[area];
            if (skip != (pass == 1))
                continue;
            b->visited[at] = (int32_t)g;
            b->skipped[at++] = skip;
        }
}

/* The true box that box d takes at a threshold (a place in `visited`), or -1. */
static int64_t best_truth(const bench *b, const cst_coco_true *truth, int64_t truths, int64_t d,
                          double threshold) {
    double best = fmin(threshold, 1 - 1e-10);
    int64_t found = -1;
    for (int64_t v = 0; v < truths; v++) {
        int32_t g = b->visited[v];
        if (b->taken[v] && !truth[g].crowd)
            continue;
        if (found >= 0 && !b->skipped[found] && b->skipped[v])
            break;
        double iou = b->iou[d * truths + g];
        if (iou < best)
            continue;
        best = iou;
        found = v;
    }
    return found;
}

/* Outcomes of the best boxes of one image and category. box: all of them; outcomes follow b->order.
 */
static void match_group(bench *b, const cst_coco_box *box, int64_t boxes,
                        const cst_coco_true *truth, int64_t truths, cst_ap_outcome *outcomes) {
    double thresholds[CST_AP_THRESHOLDS];
    ap_thresholds(thresholds);
    for (int64_t d = 0; d < boxes; d++)
        for (int64_t g = 0; g < truths; g++)
            b->iou[d * truths + g] = cst_box_true_iou(&box[b->order[d].place], &truth[g]);
    memset(outcomes, 0, (size_t)boxes * sizeof *outcomes);
    for (int a = 0; a < CST_AP_AREAS; a++) {
        order_truths(b, truth, truths, a);
        for (int t = 0; t < CST_AP_THRESHOLDS; t++) {
            uint16_t bit = (uint16_t)(1U << t);
            memset(b->taken, 0, (size_t)truths * sizeof *b->taken);
            for (int64_t d = 0; d < boxes; d++) {
                const cst_coco_box *one = &box[b->order[d].place];
                double area = one->w * one->h;
                int64_t v = best_truth(b, truth, truths, d, thresholds[t]);
                if (v >= 0)
                    b->taken[v] = true;
                bool ignored = v >= 0 ? b->skipped[v] : area < AREA_LOW[a] || area > AREA_HIGH[a];
                if (ignored)
                    outcomes[d].ignored[a] |= bit;
                else if (v >= 0)
                    outcomes[d].right[a] |= bit;
            }
        }
    }
}

/* ---- all of them ---- */

typedef struct job {
    const cst_coco *truth;
    const cst_coco_boxes *boxes;
    int64_t *kept;     /* [images][categories + 1] would be large: [images + 1] boxes that count */
    cst_ap_box *box;   /* [kept in all], by image, category, rank */
    double *score;     /* [kept in all] */
    int32_t *category; /* [kept in all] */
} job;

/* The end of the run of boxes of one category that begins at `at`. */
static int64_t run_end(const cst_coco_box *box, int64_t at, int64_t end) {
    int32_t category = box[at].category;
    while (at < end && box[at].category == category)
        at++;
    return at;
}

static void count_kept(job *j) {
    j->kept[0] = 0;
    for (int32_t i = 0; i < j->truth->images; i++) {
        int64_t end = j->boxes->first[i + 1];
        j->kept[i + 1] = j->kept[i];
        for (int64_t at = j->boxes->first[i]; at < end;) {
            int64_t next = run_end(j->boxes->box, at, end);
            j->kept[i + 1] += next - at < CST_AP_BOXES_MAX ? next - at : CST_AP_BOXES_MAX;
            at = next;
        }
    }
}

enum { IMAGES_A_TASK = 64 };

static cst_status match_image(cst_context *context, const job *j, int32_t image, bench *b) {
    cst_ap_outcome outcomes[CST_AP_BOXES_MAX];
    const cst_coco_box *box = j->boxes->box;
    const cst_coco_true *truth = j->truth->box;
    int64_t end = j->boxes->first[image + 1];
    int64_t g = j->truth->first[image];
    int64_t g_end = j->truth->first[image + 1];
    int64_t out = j->kept[image];
    for (int64_t at = j->boxes->first[image]; at < end;) {
        int64_t next = run_end(box, at, end);
        int32_t category = box[at].category;
        while (g < g_end && truth[g].category < category)
            g++;
        int64_t from = g;
        while (g < g_end && truth[g].category == category)
            g++;
        int64_t count = next - at < CST_AP_BOXES_MAX ? next - at : CST_AP_BOXES_MAX;
        cst_status status = bench_fit(context, b, next - at, g - from);
        if (status != CST_OK)
            return status;
        for (int64_t d = 0; d < next - at; d++)
            b->order[d] = (cst_ranked){box[at + d].score, d};
        qsort(b->order, (size_t)(next - at), sizeof *b->order, cst_by_score);
        match_group(b, box + at, count, truth + from, g - from, outcomes);
        for (int64_t d = 0; d < count; d++, out++) {
            j->box[out] = (cst_ap_box){.outcome = outcomes[d], .image = image, .rank = (int32_t)d};
            j->score[out] = b->order[d].score;
            j->category[out] = category;
        }
        at = next;
    }
    return CST_OK;
}

static cst_status match_task(cst_context *context, void *user, int64_t task) {
    const job *j = user;
    bench b = {0};
    cst_status status = CST_OK;
    int64_t end = (task + 1) * IMAGES_A_TASK;
    for (int64_t i = task * IMAGES_A_TASK; status == CST_OK && i < end && i < j->truth->images; i++)
        status = match_image(context, j, (int32_t)i, &b);
    bench_free(context, &b);
    return status;
}

/* Boxes by category and falling score; equal scores stay in the order of images and ranks. */
static cst_status sort_boxes(cst_context *context, const job *j, cst_ap_matches *out) {
    int64_t count = j->kept[j->truth->images];
    cst_ranked *order = cst_alloc(context, (size_t)count, sizeof *order);
    int64_t *next = cst_alloc(context, (size_t)out->categories + 1, sizeof *next);
    out->box = cst_alloc(context, (size_t)count, sizeof *out->box);
    out->first = cst_alloc(context, (size_t)out->categories + 1, sizeof *out->first);
    cst_status status = order && next && out->box && out->first ? CST_OK : CST_ERROR_MEMORY;
    if (status == CST_OK) {
        for (int64_t i = 0; i < count; i++)
            out->first[j->category[i] + 1]++;
        for (int32_t c = 0; c < out->categories; c++)
            out->first[c + 1] += out->first[c];
        memcpy(next, out->first, ((size_t)out->categories + 1) * sizeof *next);
        for (int64_t i = 0; i < count; i++)
            order[next[j->category[i]]++] = (cst_ranked){j->score[i], i};
        for (int32_t c = 0; c < out->categories; c++)
            if (out->first[c + 1] > out->first[c])
                qsort(order + out->first[c], (size_t)(out->first[c + 1] - out->first[c]),
                      sizeof *order, cst_by_score);
        for (int64_t i = 0; i < count; i++)
            out->box[i] = j->box[order[i].place];
        out->count = count;
    }
    cst_free(context, order);
    cst_free(context, next);
    return status;
}

/* How many true boxes count, by category and image. */
static cst_status count_truths(cst_context *context, const cst_coco *truth, cst_ap_matches *out) {
    int64_t *next = cst_alloc(context, (size_t)out->categories + 1, sizeof *next);
    out->true_first = cst_alloc(context, (size_t)out->categories + 1, sizeof *out->true_first);
    out->truth = cst_alloc(context, (size_t)truth->count, sizeof *out->truth);
    cst_status status = next && out->true_first && out->truth ? CST_OK : CST_ERROR_MEMORY;
    if (status == CST_OK) {
        for (int64_t g = 0; g < truth->count; g++)
            out->true_first[truth->box[g].category + 1]++;
        for (int32_t c = 0; c < out->categories; c++)
            out->true_first[c + 1] += out->true_first[c];
        memcpy(next, out->true_first, ((size_t)out->categories + 1) * sizeof *next);
        for (int64_t g = 0; g < truth->count; g++) {
            const cst_coco_true *one = &truth->box[g];
            struct cst_ap_true *to = &out->truth[next[one->category]++];
            to->image = one->image;
            for (int a = 0; a < CST_AP_AREAS; a++)
                to->count[a] = !one->crowd && one->area >= AREA_LOW[a] && one->area <= AREA_HIGH[a];
        }
    }
    cst_free(context, next);
    return status;
}

cst_status cst_ap_match(cst_context *context, const cst_coco *truth, const cst_coco_boxes *boxes,
                        cst_ap_matches **out) {
    job j = {.truth = truth, .boxes = boxes};
    *out = NULL;
    cst_ap_matches *m = cst_alloc(context, 1, sizeof *m);
    if (!m)
        return CST_ERROR_MEMORY;
    m->images = truth->images;
    m->categories = truth->categories;
    j.kept = cst_alloc(context, (size_t)truth->images + 1, sizeof *j.kept);
    cst_status status = j.kept ? CST_OK : CST_ERROR_MEMORY;
    if (status == CST_OK) {
        count_kept(&j);
        size_t count = (size_t)j.kept[truth->images];
        j.box = cst_alloc(context, count, sizeof *j.box);
        j.score = cst_alloc(context, count, sizeof *j.score);
        j.category = cst_alloc(context, count, sizeof *j.category);
        status = j.box && j.score && j.category ? CST_OK : CST_ERROR_MEMORY;
    }
    CST_THEN(cst_parallel_for(context, (truth->images + IMAGES_A_TASK - 1) / IMAGES_A_TASK,
                              match_task, &j));
    CST_THEN(sort_boxes(context, &j, m));
    CST_THEN(count_truths(context, truth, m));
    cst_free(context, j.kept);
    cst_free(context, j.box);
    cst_free(context, j.score);
    cst_free(context, j.category);
    if (status == CST_OK)
        *out = m;
    else
        cst_ap_matches_free(context, m);
    return status;
}

void cst_ap_matches_free(cst_context *context, cst_ap_matches *matches) {
    if (!matches)
        return;
    cst_free(context, matches->box);
    cst_free(context, matches->first);
    cst_free(context, matches->truth);
    cst_free(context, matches->true_first);
    cst_free(context, matches);
}
