/* COCO's matching, precision-recall curves and figures. docs/detection.md#scores. */
#include "tasks/detection/detection.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Figures of one curve: the precision at recalls, averaged, and the last recall. */
typedef struct curve {
    double precision;
    double recall;
} curve;

/* True boxes of a category that count in an area. */
static double count_truth(const cst_ap_matches *m, int32_t category, int area,
                          const int32_t *times) {
    double sum = 0;
    for (int64_t g = m->true_first[category]; g < m->true_first[category + 1]; g++)
        sum += (double)m->truth[g].count[area] * (times ? times[m->truth[g].image] : 1);
    return sum;
}

/* Steps of the curve where a right box raises the recall, for each threshold, [truths]. */
typedef struct steps {
    double *recall, *precision;
    int64_t count;
    double right; /* boxes so far */
    double ignored;
} steps;

/* Precision at the recalls: at each the highest of this and all later steps. */
static curve finish_curve(const steps *s) {
    double sum = 0;
    int64_t at = 0;
    for (int64_t i = s->count - 1; i > 0; i--)
        if (s->precision[i] > s->precision[i - 1])
            s->precision[i - 1] = s->precision[i];
    for (int r = 0; r < CST_AP_RECALLS; r++) {
        double wanted = r == CST_AP_RECALLS - 1 ? 1 : r * (1.0 / (CST_AP_RECALLS - 1));
        while (at < s->count && s->recall[at] < wanted)
            at++;
        if (at == s->count)
            break;
        sum += s->precision[at];
    }
    return (curve){sum / CST_AP_RECALLS, s->count > 0 ? s->recall[s->count - 1] : 0};
}

/* One category and area, at most `most` boxes an image; truths > 0. */
static void trace(const cst_ap_matches *m, int32_t category, int area, int32_t most, double truths,
                  const int32_t *times, double *scratch, curve out[CST_AP_THRESHOLDS]) {
    steps s[CST_AP_THRESHOLDS];
    int64_t room = m->true_first[category + 1] - m->true_first[category];
    double seen = 0;
    for (int t = 0; t < CST_AP_THRESHOLDS; t++)
        s[t] = (steps){.recall = scratch + 2 * t * room, .precision = scratch + (2 * t + 1) * room};
    for (int64_t i = m->first[category]; i < m->first[category + 1]; i++) {
        const cst_ap_box *box = &m->box[i];
        int32_t weight = times ? times[box->image] : 1;
        uint16_t right = box->outcome.right[area];
        uint16_t ignored = box->outcome.ignored[area];
        if (box->rank >= most || weight == 0)
            continue;
        seen += weight;
        for (int t = 0; (right | ignored) && t < CST_AP_THRESHOLDS; t++) {
            if ((ignored >> t) & 1) {
                s[t].ignored += weight;
            } else if ((right >> t) & 1) {
                s[t].right += weight;
                s[t].recall[s[t].count] = s[t].right / truths;
                s[t].precision[s[t].count++] = s[t].right / (seen - s[t].ignored + DBL_EPSILON);
            }
        }
    }
    for (int t = 0; t < CST_AP_THRESHOLDS; t++)
        out[t] = finish_curve(&s[t]);
}

/* ---- figures of one category ---- */

enum { MAX_1 = 1, MAX_10 = 10, MAX_100 = CST_AP_BOXES_MAX, THRESHOLD_75 = 5 };

static const cst_detection_scores NOTHING = {-1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1};

/* AP and AR100 of an area, and AP at the first threshold and the one of 0.75 (NULL: not wanted). */
static void area_scores(const cst_ap_matches *m, int32_t category, int area, const int32_t *times,
                        double *scratch, double *ap, double *ar, double *ap50, double *ap75) {
    double truths = count_truth(m, category, area, times);
    curve c[CST_AP_THRESHOLDS] = {{0, 0}};
    if (!(truths > 0))
        return;
    *ap = 0;
    *ar = 0;
    trace(m, category, area, MAX_100, truths, times, scratch, c);
    for (int t = 0; t < CST_AP_THRESHOLDS; t++) {
        *ap += c[t].precision / CST_AP_THRESHOLDS;
        *ar += c[t].recall / CST_AP_THRESHOLDS;
    }
    if (ap50)
        *ap50 = c[0].precision;
    if (ap75)
        *ap75 = c[THRESHOLD_75].precision;
}

static void main_scores(const cst_ap_matches *m, int32_t category, const int32_t *times,
                        double *scratch, cst_detection_scores *out) {
    area_scores(m, category, 0, times, scratch, &out->ap, &out->ar100, &out->ap50, &out->ap75);
}

/* Recall with at most so many boxes, all areas; -1 without true boxes. */
static double recall_with(const cst_ap_matches *m, int32_t category, int32_t most,
                          const int32_t *times, double *scratch) {
    double truths = count_truth(m, category, 0, times);
    curve c[CST_AP_THRESHOLDS] = {{0, 0}};
    double sum = 0;
    if (truths > 0)
        trace(m, category, 0, most, truths, times, scratch, c);
    for (int t = 0; truths > 0 && t < CST_AP_THRESHOLDS; t++)
        sum += c[t].recall;
    return truths > 0 ? sum / CST_AP_THRESHOLDS : -1;
}

/* ---- means over categories ---- */

enum { FIGURES = sizeof(cst_detection_scores) / sizeof(double) };

/* Sums of each figure over the categories that have it. */
typedef struct means {
    double sum[FIGURES];
    int32_t count[FIGURES];
} means;

static void add(means *m, const cst_detection_scores *one) {
    for (int f = 0; f < FIGURES; f++) {
        double value = ((const double *)one)[f];
        m->sum[f] += value > -1 ? value : 0;
        m->count[f] += value > -1;
    }
}

/* -1 where no category has the figure. */
static void put_means(const means *m, cst_detection_scores *out) {
    for (int f = 0; f < FIGURES; f++)
        ((double *)out)[f] = m->count[f] > 0 ? m->sum[f] / m->count[f] : -1;
}

typedef struct job {
    const cst_ap_matches *matches;
    const int32_t *times;
    cst_detection_scores *by_category;
} job;

static cst_status score_category(cst_context *context, void *user, int64_t task) {
    const job *j = user;
    const cst_ap_matches *m = j->matches;
    int32_t c = (int32_t)task;
    cst_detection_scores *out = &j->by_category[c];
    CST_SCOPE(scope);
    CST_NEW(context, scope, double, scratch, cst_ap_scratch(m));
    *out = NOTHING;
    main_scores(m, c, j->times, scratch, out);
    out->ar1 = recall_with(m, c, MAX_1, j->times, scratch);
    out->ar10 = recall_with(m, c, MAX_10, j->times, scratch);
    area_scores(m, c, 1, j->times, scratch, &out->ap_small, &out->ar_small, NULL, NULL);
    area_scores(m, c, 2, j->times, scratch, &out->ap_medium, &out->ar_medium, NULL, NULL);
    area_scores(m, c, 3, j->times, scratch, &out->ap_large, &out->ar_large, NULL, NULL);
    return CST_OK;
}

cst_status cst_ap_scores(cst_context *context, const cst_ap_matches *matches, const int32_t *times,
                         cst_detection_scores *out, cst_detection_scores *by_category) {
    CST_SCOPE(scope);
    if (!by_category)
        CST_TAKE(context, scope, by_category, matches->categories);
    job j = {matches, times, by_category};
    CST_TRY(cst_parallel_for(context, matches->categories, score_category, &j));
    means all = {0};
    for (int32_t c = 0; c < matches->categories; c++)
        add(&all, &by_category[c]);
    put_means(&all, out);
    return CST_OK;
}

size_t cst_ap_scratch(const cst_ap_matches *matches) {
    int64_t most = 0;
    for (int32_t c = 0; c < matches->categories; c++) {
        int64_t truths = matches->true_first[c + 1] - matches->true_first[c];
        most = truths > most ? truths : most;
    }
    return 2 * CST_AP_THRESHOLDS * (size_t)most + 1;
}

void cst_ap_main_scores(const cst_ap_matches *matches, const int32_t *times, double *scratch,
                        cst_detection_scores *out) {
    means all = {0};
    for (int32_t c = 0; c < matches->categories; c++) {
        cst_detection_scores one = NOTHING;
        main_scores(matches, c, times, scratch, &one);
        add(&all, &one);
    }
    put_means(&all, out);
}

/* ---- matching ---- */

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

/* Room for a group; it alone is in the scope. */
static cst_status bench_fit(cst_context *context, cst_scope *scope, bench *b, int64_t boxes,
                            int64_t truths) {
    if (b->order && boxes <= b->boxes && truths <= b->truths)
        return CST_OK;
    cst_scope_free(scope);
    b->boxes = 2 * (boxes > b->boxes ? boxes : b->boxes);
    b->truths = 2 * (truths > b->truths ? truths : b->truths);
    CST_TAKE(context, scope, b->order, b->boxes);
    CST_TAKE(context, scope, b->iou, CST_AP_BOXES_MAX * b->truths);
    CST_TAKE(context, scope, b->visited, b->truths);
    CST_TAKE(context, scope, b->skipped, b->truths);
    CST_TAKE(context, scope, b->taken, b->truths);
    return CST_OK;
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

/* Outcomes of the best boxes [b->order] of one image and category. */
static void match_group(bench *b, const cst_coco_box *box, int64_t boxes,
                        const cst_coco_true *truth, int64_t truths, int areas,
                        cst_ap_outcome *outcomes) {
    double thresholds[CST_AP_THRESHOLDS];
    ap_thresholds(thresholds);
    for (int64_t d = 0; d < boxes; d++)
        for (int64_t g = 0; g < truths; g++)
            b->iou[d * truths + g] = cst_box_true_iou(&box[b->order[d].place], &truth[g]);
    memset(outcomes, 0, (size_t)boxes * sizeof *outcomes);
    for (int a = 0; a < areas; a++) {
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

typedef struct matching {
    const cst_coco *truth;
    const cst_coco_boxes *boxes;
    int areas;
    int64_t *kept;     /* [images][categories + 1] would be large: [images + 1] boxes that count */
    cst_ap_box *box;   /* [kept in all], by image, category, rank */
    double *score;     /* [kept in all] */
    int32_t *category; /* [kept in all] */
} matching;

/* The end of the run of boxes of one category that begins at `at`. */
static int64_t run_end(const cst_coco_box *box, int64_t at, int64_t end) {
    int32_t category = box[at].category;
    while (at < end && box[at].category == category)
        at++;
    return at;
}

static void count_kept(matching *j) {
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

static cst_status match_image(cst_context *context, cst_scope *scope, const matching *j,
                              int32_t image, bench *b) {
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
        CST_TRY(bench_fit(context, scope, b, next - at, g - from));
        for (int64_t d = 0; d < next - at; d++)
            b->order[d] = (cst_ranked){box[at + d].score, d};
        qsort(b->order, (size_t)(next - at), sizeof *b->order, cst_by_score);
        match_group(b, box + at, count, truth + from, g - from, j->areas, outcomes);
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
    const matching *j = user;
    CST_SCOPE(scope);
    bench b = {0};
    int64_t end = (task + 1) * IMAGES_A_TASK;
    for (int64_t i = task * IMAGES_A_TASK; i < end && i < j->truth->images; i++)
        CST_TRY(match_image(context, scope, j, (int32_t)i, &b));
    return CST_OK;
}

/* Boxes by category and falling score; equal scores stay in the order of images and ranks. */
static cst_status sort_boxes(cst_context *context, cst_scope *scope, const matching *j,
                             cst_ap_matches *out) {
    int64_t count = j->kept[j->truth->images];
    int32_t categories = out->categories;
    CST_SCOPE(own);
    CST_NEW(context, own, cst_ranked, order, count);
    CST_NEW(context, own, int64_t, next, categories + 1);
    CST_TAKE(context, scope, out->box, count);
    CST_TAKE(context, scope, out->first, categories + 1);
    for (int64_t i = 0; i < count; i++)
        out->first[j->category[i] + 1]++;
    for (int32_t c = 0; c < categories; c++)
        next[c + 1] = out->first[c + 1] += out->first[c];
    for (int64_t i = 0; i < count; i++)
        order[next[j->category[i]]++] = (cst_ranked){j->score[i], i};
    for (int32_t c = 0; c < categories; c++)
        if (out->first[c + 1] > out->first[c])
            qsort(order + out->first[c], (size_t)(out->first[c + 1] - out->first[c]), sizeof *order,
                  cst_by_score);
    for (int64_t i = 0; i < count; i++)
        out->box[i] = j->box[order[i].place];
    out->count = count;
    return CST_OK;
}

static cst_status count_truths(cst_context *context, cst_scope *scope, const cst_coco *truth,
                               cst_ap_matches *out) {
    CST_SCOPE(own);
    CST_NEW(context, own, int64_t, next, out->categories + 1);
    CST_TAKE(context, scope, out->true_first, out->categories + 1);
    CST_TAKE(context, scope, out->truth, truth->count);
    for (int64_t g = 0; g < truth->count; g++)
        out->true_first[truth->box[g].category + 1]++;
    for (int32_t c = 0; c < out->categories; c++)
        next[c + 1] = out->true_first[c + 1] += out->true_first[c];
    for (int64_t g = 0; g < truth->count; g++) {
        const cst_coco_true *one = &truth->box[g];
        struct cst_ap_true *to = &out->truth[next[one->category]++];
        to->image = one->image;
        for (int a = 0; a < CST_AP_AREAS; a++)
            to->count[a] = !one->crowd && one->area >= AREA_LOW[a] && one->area <= AREA_HIGH[a];
    }
    return CST_OK;
}

cst_status cst_ap_match(cst_context *context, cst_scope *scope, const cst_coco *truth,
                        const cst_coco_boxes *boxes, bool areas, cst_ap_matches *out) {
    CST_SCOPE(own);
    matching j = {.truth = truth, .boxes = boxes, .areas = areas ? CST_AP_AREAS : 1};
    *out = (cst_ap_matches){.images = truth->images, .categories = truth->categories};
    CST_TAKE(context, own, j.kept, truth->images + 1);
    count_kept(&j);
    int64_t count = j.kept[truth->images];
    CST_TAKE(context, own, j.box, count);
    CST_TAKE(context, own, j.score, count);
    CST_TAKE(context, own, j.category, count);
    CST_TRY(cst_parallel_for(context, (truth->images + IMAGES_A_TASK - 1) / IMAGES_A_TASK,
                             match_task, &j));
    CST_TRY(sort_boxes(context, scope, &j, out));
    return count_truths(context, scope, truth, out);
}

void cst_figures_put(cst_report *report, json_t *object, const cst_detection_scores *scores) {
    int32_t count = 0;
    double values[CST_DETECTION_FIGURES];
    const cst_score_spec *specs = cst_task_scores(CST_TASK_DETECTION, &count);
    memcpy(values, scores, sizeof values);
    for (int32_t f = 0; f < count; f++)
        cst_report_number(report, object, specs[f].key, values[f]);
}

void cst_figures_definition(cst_report *report, json_t *object) {
    cst_report_string(report, object, "ap_definition",
                      "COCO: mean over categories and IoU 0.50:0.05:0.95 of the precision at "
                      "101 recall levels, at most 100 boxes per image and category; -1 if "
                      "there are no ground-truth boxes");
}
