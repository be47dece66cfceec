/* What detection chooses by average precision: members, IoU, weights. docs/detection.md. */
#include "method/select/within.h"
#include "stats/statistics.h"
#include "tasks/detection/detection.h"

#include <math.h>
#include <string.h>

enum { PARTS = CST_AP_PARTS };

static const double ERRORS = 2; /* standard errors that a difference must exceed */

static double mean_of(const double *loss) {
    double sum = 0;
    for (int b = 0; b < PARTS; b++)
        sum += loss[b];
    return sum / PARTS;
}

/* Whether the first has less loss by more than the paired error of the difference. */
bool cst_box_is_better(const double *a, const double *b) {
    double error = 0;
    double difference = cst_paired_mean(a, b, PARTS, &error);
    return difference + ERRORS * error < 0;
}

/* ---- average precision ---- */

cst_status cst_box_judge_boxes(cst_context *context, const cst_box_judge *judge,
                               const cst_coco_boxes *boxes, double most, double *loss) {
    int32_t images = judge->split->coco->images;
    cst_ap_matches matches;
    cst_detection_scores scores;
    double ap[PARTS + 1]; /* without each part; of all */
    int32_t seen = 0;
    CST_SCOPE(scope);
    CST_TRY(cst_ap_match(context, scope, judge->split->coco, boxes, false, &matches));
    CST_NEW(context, scope, double, scratch, cst_ap_scratch(&matches));
    CST_NEW(context, scope, int32_t, times, images);
    CST_NEW(context, scope, int32_t, part, images);
    for (int32_t i = 0; i < images; i++)
        part[i] = judge->images[i] ? seen++ % PARTS : PARTS;
    double without = 0;
    for (int b = PARTS; b >= 0; b--) {
        for (int32_t i = 0; i < images; i++)
            times[i] = part[i] < PARTS && part[i] != b;
        if (b == PARTS || 1 - ap[PARTS] < most)
            cst_ap_main_scores(&matches, times, scratch, &scores);
        ap[b] = scores.ap;
        without += b < PARTS ? ap[b] / PARTS : 0;
    }
    for (int b = 0; b < PARTS; b++)
        loss[b] = 1 - ap[PARTS] + (PARTS - 1) * (ap[b] - without);
    return CST_OK;
}

static cst_status judge_rows(cst_context *context, const cst_box_judge *judge,
                             const cst_box_clusters *clusters, const double *fusion,
                             const float *scores, double most, double *loss) {
    cst_coco_boxes *boxes = NULL;
    CST_TRY(cst_cluster_boxes(context, clusters, judge->split->coco, fusion, scores, 1, &boxes));
    cst_status status = cst_box_judge_boxes(context, judge, boxes, most, loss);
    cst_coco_boxes_free(context, boxes);
    return status;
}

/* Of the boxes of some members: clusters with the mean score. */
static cst_status judge_set(cst_context *context, const cst_box_judge *judge, const bool *uses,
                            double most, double *loss) {
    const cst_box_split *split = judge->split;
    cst_box_clusters clusters;
    CST_SCOPE(scope);
    CST_TRY(cst_box_clusters_make(context, scope, split->coco,
                                  (const cst_coco_boxes *const *)split->boxes, split->members,
                                  &judge->options, uses, judge->images, &clusters));
    CST_NEW(context, scope, float, scores, clusters.rows);
    for (int64_t i = 0; i < clusters.rows; i++)
        scores[i] = (float)cst_cluster_mean(&clusters, i);
    return judge_rows(context, judge, &clusters, judge->fusion, scores, most, loss);
}

/* ---- members ---- */

/* Members up to which a path looks again after every step, and several paths are followed. */
enum { STEPWISE = 16, SEVERAL = 8 };

typedef struct paths {
    const cst_box_judge *judge;
    const int32_t *members; /* [count] in the split */
    int32_t count;
    const cst_select_options *options;
    const double *worth; /* [count]: what a rise of the loss is divided by */
    bool *in;            /* [count]: the set now */
    double *tried;       /* [count][PARTS]: the set with member j changed */
    int32_t **set;       /* [count][size] */
    double *loss;        /* [count][PARTS] of these */
    double *known;       /* [2^count][PARTS]: of sets judged before, or NaN; NULL: not kept */
} paths;

static size_t mask_of(const paths *p) {
    size_t mask = 0;
    for (int32_t j = 0; j < p->count; j++)
        mask |= p->in[j] ? (size_t)1 << j : 0;
    return mask;
}

static cst_status try_change(cst_context *context, void *user, int64_t j) {
    const paths *p = user;
    bool forward = cst_limited(&p->options->limits);
    CST_SCOPE(scope);
    CST_NEW(context, scope, bool, uses, p->judge->split->members);
    for (int32_t i = 0; i < p->count; i++)
        uses[p->members[i]] = i == j ? forward : p->in[i];
    if (p->in[j] == forward)
        return CST_OK;
    double *known = p->known ? p->known + (mask_of(p) ^ (size_t)1 << j) * PARTS : NULL;
    if (known && !isnan(known[0])) {
        memcpy(p->tried + j * PARTS, known, PARTS * sizeof *known);
        return CST_OK;
    }
    return judge_set(context, p->judge, uses, 0, p->tried + j * PARTS);
}

static bool fits(const paths *p, int32_t j) {
    int32_t list[CST_SEARCH_MEMBERS];
    int32_t size = 0;
    for (int32_t i = 0; i < p->count && size < CST_SEARCH_MEMBERS; i++)
        if (p->in[i] || i == j)
            list[size++] = i;
    return cst_costs_within(&p->options->costs, &p->options->limits, list, size);
}

/* The change of least loss; a rise counts less the more the member costs. Under limits members
 * join, those that fit first; otherwise they leave. */
static int32_t best_change(const paths *p, double now) {
    bool forward = cst_limited(&p->options->limits);
    int32_t best = -1;
    double least = INFINITY;
    for (int32_t j = 0; j < p->count; j++) {
        if (p->in[j] == forward)
            continue;
        double rise = mean_of(p->tried + j * PARTS) - now;
        double value = rise > 0 ? rise / p->worth[j] : rise * p->worth[j];
        if (forward)
            value = rise + (fits(p, j) ? 0 : 10);
        if (value < least || best < 0) {
            least = value;
            best = j;
        }
    }
    return best;
}

/* Judges the set as it is, and keeps it. */
static cst_status judge_now(cst_context *context, const paths *p, bool *uses, double *loss) {
    int32_t size = 0;
    for (int32_t j = 0; j < p->count; j++) {
        uses[p->members[j]] = p->in[j];
        size += p->in[j];
    }
    double *known = p->known ? p->known + mask_of(p) * PARTS : loss;
    if (!p->known || isnan(known[0]))
        CST_TRY(judge_set(context, p->judge, uses, INFINITY, known));
    memmove(loss, known, PARTS * sizeof *loss);
    memcpy(p->loss + (size - 1) * PARTS, loss, PARTS * sizeof *loss);
    for (int32_t j = 0, at = 0; j < p->count; j++)
        if (p->in[j])
            p->set[size - 1][at++] = j;
    return CST_OK;
}

/* Sets of every size, one member more or less at each step. */
static cst_status walk(cst_context *context, const paths *p) {
    bool forward = cst_limited(&p->options->limits);
    bool again = p->count <= STEPWISE;
    double now[PARTS];
    CST_SCOPE(scope);
    CST_NEW(context, scope, bool, uses, p->judge->split->members);
    for (int b = 0; b < PARTS; b++)
        now[b] = 1;
    for (int32_t j = 0; j < p->count; j++)
        p->in[j] = !forward;
    for (int32_t step = 0; step < p->count; step++) {
        if (!forward || step > 0)
            CST_TRY(judge_now(context, p, uses, now));
        if (!forward && step == p->count - 1)
            return CST_OK;
        if (step == 0 || again)
            CST_TRY(cst_parallel_for(context, p->count, try_change, (void *)(uintptr_t)p));
        p->in[best_change(p, mean_of(now))] = forward;
    }
    return judge_now(context, p, uses, now);
}

/* From the largest allowed set to one that is better by more than the error, and from there to the
 * smallest whose loss rises by the tolerance at most, with the error unless the rule is that. */
static void take_smallest(const paths *p, cst_selection *out) {
    double tolerance = p->options->rule == CST_SELECT_BEST ? 0 : p->options->tolerance;
    double errors = p->options->rule == CST_SELECT_TOLERANCE ? 0 : ERRORS;
    int32_t from = p->count - 1;
    while (!out->path[from].allowed)
        from--;
    for (int32_t s = from - 1; s >= 0; s--)
        if (out->path[s].allowed && cst_box_is_better(p->loss + s * PARTS, p->loss + from * PARTS))
            from = s;
    out->chosen = from;
    for (int32_t s = from - 1; s >= 0; s--) {
        double error = 0;
        double rise = cst_paired_mean(p->loss + s * PARTS, p->loss + from * PARTS, PARTS, &error);
        if (out->path[s].allowed && rise + errors * error <= tolerance)
            out->chosen = s;
    }
}

static cst_status follow(cst_context *context, const paths *p, cst_selection *out) {
    size_t k = (size_t)p->count;
    cst_select_options best = *p->options;
    best.rule = CST_SELECT_BEST;
    CST_SCOPE(scope);
    CST_NEW(context, scope, double, total, k + k * k);
    CST_TRY(walk(context, p));
    for (size_t s = 0; s < k; s++)
        for (int b = 0; b < PARTS; b++) {
            total[s] += p->loss[s * PARTS + (size_t)b];
            for (size_t t = 0; t < k; t++)
                total[k + s * k + t] +=
                    p->loss[s * PARTS + (size_t)b] * p->loss[t * PARTS + (size_t)b];
        }
    CST_TRY(cst_selection_finish(context, &best, total, PARTS, p->set, out));
    take_smallest(p, out);
    return CST_OK;
}

cst_status cst_box_choose(cst_context *context, const void *user, const int32_t *members,
                          int32_t count, const cst_select_options *options, cst_selection *out,
                          cst_front *front) {
    paths p = {.judge = user, .members = members, .count = count, .options = options};
    bool limited = cst_limited(&options->limits);
    int walks = limited || count > SEVERAL ? 1 : cst_distil_paths(options, count);
    *out = (cst_selection){.members = count};
    CST_SCOPE(scope);
    CST_NEW(context, scope, double, worth, count);
    CST_TAKE(context, scope, p.in, count);
    CST_TAKE(context, scope, p.tried, count * PARTS);
    CST_TAKE(context, scope, p.loss, count * PARTS);
    CST_TAKE(context, scope, p.set, count);
    for (int32_t s = 0; s < count; s++)
        CST_TAKE(context, scope, p.set[s], s + 1);
    p.worth = worth;
    if (walks > 1) {
        CST_TAKE(context, scope, p.known, PARTS << count);
        for (int32_t i = 0; i < PARTS << count; i++)
            p.known[i] = NAN;
    }
    for (int w = 0; w < walks; w++) {
        cst_selection found = {.members = count};
        cst_distil_worth(options, count, w, worth);
        cst_status status = follow(context, &p, &found);
        if (status == CST_OK)
            cst_distil_keep(context, options, &found, out);
        cst_selection_free(context, &found);
        CST_TRY(status);
    }
    out->by = "1 - AP of fused boxes";
    return front ? cst_front_make(context, NULL, 0, options, out, front) : CST_OK;
}

/* ---- IoU and weights ---- */

cst_status cst_box_choose_maps(cst_context *context, cst_box_judge *judge, const bool *uses,
                               cst_box_scoring *scoring) {
    double plain[PARTS];
    double mapped[PARTS];
    judge->options.map = NULL;
    CST_TRY(judge_set(context, judge, uses, INFINITY, plain));
    judge->options.map = scoring->map;
    CST_TRY(judge_set(context, judge, uses, mean_of(plain), mapped));
    if (!cst_box_is_better(mapped, plain))
        cst_box_scoring_plain(scoring, judge->split->members);
    return CST_OK;
}

cst_status cst_box_choose_iou(cst_context *context, cst_box_judge *judge, const bool *uses) {
    static const double ious[] = {0.45, 0.65, 0.75};
    double best[PARTS];
    CST_TRY(judge_set(context, judge, uses, INFINITY, best));
    for (size_t i = 0; i < sizeof ious / sizeof ious[0]; i++) {
        double loss[PARTS];
        double before = judge->options.iou;
        judge->options.iou = ious[i];
        CST_TRY(judge_set(context, judge, uses, mean_of(best), loss));
        if (cst_box_is_better(loss, best))
            memcpy(best, loss, sizeof best);
        else
            judge->options.iou = before;
    }
    return CST_OK;
}

typedef struct weighing {
    const cst_box_judge *judge;
    const cst_box_rows *rows;
    const bool *uses;
    const float *given; /* [rows][2], or NULL */
    double *share, *fusion;
    float *scores; /* [rows] */
} weighing;

static void multiply(const weighing *w, int32_t member, double factor) {
    size_t members = (size_t)w->rows->members;
    if (w->share)
        w->share[member] *= factor;
    for (int32_t c = 0; c < w->rows->clusters.categories; c++)
        w->fusion[(size_t)c * members + (size_t)member] *= factor;
}

static cst_status judge_weights(cst_context *context, const weighing *w, double most,
                                double *loss) {
    for (int64_t i = 0; i < w->rows->clusters.rows; i++)
        w->scores[i] = w->given
                           ? w->given[2 * i + 1]
                           : (float)cst_cluster_share(&w->rows->clusters, i, w->share, w->uses);
    return judge_rows(context, w->judge, &w->rows->clusters, w->fusion, w->scores, most, loss);
}

cst_status cst_box_choose_weights(cst_context *context, const cst_box_judge *judge,
                                  const cst_box_rows *rows, const bool *uses, const float *scores,
                                  double *share, double *fusion) {
    static const double factors[] = {0x1p-60, 0.5, 2}; /* the first one as good as 0, and undone */
    weighing w = {judge, rows, uses, scores, share, fusion, NULL};
    double best[PARTS];
    CST_SCOPE(scope);
    CST_TAKE(context, scope, w.scores, rows->clusters.rows);
    CST_TRY(judge_weights(context, &w, INFINITY, best));
    for (int32_t k = 0; k < rows->members; k++)
        for (size_t i = 0; uses[k] && i < sizeof factors / sizeof factors[0]; i++) {
            double loss[PARTS];
            multiply(&w, k, factors[i]);
            CST_TRY(judge_weights(context, &w, mean_of(best), loss));
            if (cst_box_is_better(loss, best))
                memcpy(best, loss, sizeof best);
            else
                multiply(&w, k, 1 / factors[i]);
        }
    return CST_OK;
}
