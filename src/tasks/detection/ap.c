/*
 * Precision-recall curves of matched boxes and COCO's twelve figures from them, also for images
 * that count several times. After the matching; for reports and resamples.
 * docs/detection.md#scores.
 */
#include "tasks/detection/ap.h"

#include <float.h>

/* What is read off one curve: the precision at recalls, averaged, and the last recall. */
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

/* One category, area and threshold, with at most `most` boxes an image. recall and precision:
 * scratch of as many numbers as the category has boxes. truths > 0. */
static curve trace(const cst_ap_matches *m, int32_t category, int area, int threshold, int32_t most,
                   double truths, const int32_t *times, double *recall, double *precision) {
    double right = 0;
    double wrong = 0;
    int64_t count = 0;
    for (int64_t i = m->first[category]; i < m->first[category + 1]; i++) {
        const cst_ap_box *box = &m->box[i];
        int32_t weight = times ? times[box->image] : 1;
        if (box->rank >= most || weight == 0 || ((box->outcome.ignored[area] >> threshold) & 1))
            continue;
        if ((box->outcome.right[area] >> threshold) & 1)
            right += weight;
        else
            wrong += weight;
        recall[count] = right / truths;
        precision[count++] = right / (right + wrong + DBL_EPSILON);
    }
    for (int64_t i = count - 1; i > 0; i--)
        if (precision[i] > precision[i - 1])
            precision[i - 1] = precision[i];
    double sum = 0;
    int64_t at = 0;
    for (int r = 0; r < CST_AP_RECALLS; r++) {
        double wanted = r == CST_AP_RECALLS - 1 ? 1 : r * (1.0 / (CST_AP_RECALLS - 1));
        while (at < count && recall[at] < wanted)
            at++;
        if (at == count)
            break;
        sum += precision[at];
    }
    return (curve){sum / CST_AP_RECALLS, count > 0 ? recall[count - 1] : 0};
}

/* ---- figures of one category ---- */

enum { MAX_1 = 1, MAX_10 = 10, MAX_100 = CST_AP_BOXES_MAX, THRESHOLD_75 = 5 };

static const cst_detection_scores NOTHING = {-1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1};

/* AP, AP50, AP75 and AR100. */
static void main_scores(const cst_ap_matches *m, int32_t category, const int32_t *times,
                        double *scratch, cst_detection_scores *out) {
    double truths = count_truth(m, category, 0, times);
    if (!(truths > 0))
        return;
    int64_t boxes = m->first[category + 1] - m->first[category];
    double precision = 0;
    double recall = 0;
    for (int t = 0; t < CST_AP_THRESHOLDS; t++) {
        curve c = trace(m, category, 0, t, MAX_100, truths, times, scratch, scratch + boxes);
        precision += c.precision / CST_AP_THRESHOLDS;
        recall += c.recall / CST_AP_THRESHOLDS;
        if (t == 0)
            out->ap50 = c.precision;
        if (t == THRESHOLD_75)
            out->ap75 = c.precision;
    }
    out->ap = precision;
    out->ar100 = recall;
}

/* Recall with at most so many boxes, all areas; -1 without true boxes. */
static double recall_with(const cst_ap_matches *m, int32_t category, int32_t most,
                          const int32_t *times, double *scratch) {
    double truths = count_truth(m, category, 0, times);
    int64_t boxes = m->first[category + 1] - m->first[category];
    double sum = 0;
    for (int t = 0; truths > 0 && t < CST_AP_THRESHOLDS; t++)
        sum += trace(m, category, 0, t, most, truths, times, scratch, scratch + boxes).recall;
    return truths > 0 ? sum / CST_AP_THRESHOLDS : -1;
}

static void area_scores(const cst_ap_matches *m, int32_t category, int area, const int32_t *times,
                        double *scratch, double *ap, double *ar) {
    double truths = count_truth(m, category, area, times);
    int64_t boxes = m->first[category + 1] - m->first[category];
    if (!(truths > 0))
        return;
    *ap = 0;
    *ar = 0;
    for (int t = 0; t < CST_AP_THRESHOLDS; t++) {
        curve c = trace(m, category, area, t, MAX_100, truths, times, scratch, scratch + boxes);
        *ap += c.precision / CST_AP_THRESHOLDS;
        *ar += c.recall / CST_AP_THRESHOLDS;
    }
}

/* ---- means over categories ---- */

enum { FIGURES = sizeof(cst_detection_scores) / sizeof(double) };

/* Mean of each figure over the categories that have it; -1 where none has. */
static void add_up(const cst_detection_scores *by_category, int32_t categories,
                   cst_detection_scores *out) {
    double *mean = (double *)out;
    for (int f = 0; f < FIGURES; f++) {
        double sum = 0;
        int32_t count = 0;
        for (int32_t c = 0; c < categories; c++) {
            double value = ((const double *)&by_category[c])[f];
            if (value > -1) {
                sum += value;
                count++;
            }
        }
        mean[f] = count > 0 ? sum / count : -1;
    }
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
    double *scratch =
        cst_alloc(context, 2 * (size_t)(m->first[c + 1] - m->first[c]), sizeof *scratch);
    if (!scratch)
        return CST_ERROR_MEMORY;
    *out = NOTHING;
    main_scores(m, c, j->times, scratch, out);
    out->ar1 = recall_with(m, c, MAX_1, j->times, scratch);
    out->ar10 = recall_with(m, c, MAX_10, j->times, scratch);
    area_scores(m, c, 1, j->times, scratch, &out->ap_small, &out->ar_small);
    area_scores(m, c, 2, j->times, scratch, &out->ap_medium, &out->ar_medium);
    area_scores(m, c, 3, j->times, scratch, &out->ap_large, &out->ar_large);
    cst_free(context, scratch);
    return CST_OK;
}

cst_status cst_ap_scores(cst_context *context, const cst_ap_matches *matches, const int32_t *times,
                         cst_detection_scores *out, cst_detection_scores *by_category) {
    cst_detection_scores *own = NULL;
    if (!by_category) {
        own = cst_alloc(context, (size_t)matches->categories, sizeof *own);
        if (!own)
            return CST_ERROR_MEMORY;
        by_category = own;
    }
    job j = {matches, times, by_category};
    cst_status status = cst_parallel_for(context, matches->categories, score_category, &j);
    if (status == CST_OK)
        add_up(by_category, matches->categories, out);
    cst_free(context, own);
    return status;
}

size_t cst_ap_scratch(const cst_ap_matches *matches) {
    int64_t most = 0;
    for (int32_t c = 0; c < matches->categories; c++) {
        int64_t boxes = matches->first[c + 1] - matches->first[c];
        most = boxes > most ? boxes : most;
    }
    return 2 * (size_t)most + 1;
}

void cst_ap_main_scores(const cst_ap_matches *matches, const int32_t *times, double *scratch,
                        cst_detection_scores *out) {
    double sums[4] = {0, 0, 0, 0};
    int32_t count = 0;
    for (int32_t c = 0; c < matches->categories; c++) {
        cst_detection_scores one = NOTHING;
        main_scores(matches, c, times, scratch, &one);
        if (one.ap < 0)
            continue;
        sums[0] += one.ap;
        sums[1] += one.ap50;
        sums[2] += one.ap75;
        sums[3] += one.ar100;
        count++;
    }
    *out = NOTHING;
    if (count == 0)
        return;
    out->ap = sums[0] / count;
    out->ap50 = sums[1] / count;
    out->ap75 = sums[2] / count;
    out->ar100 = sums[3] / count;
}
