/* COCO's figures in the documents of evaluations, fits and comparisons, and their intervals. */
#include "tasks/detection/figures.h"

#include <math.h>
#include <string.h>

void cst_figures_values(const cst_detection_scores *scores, double out[CST_DETECTION_FIGURES]) {
    const double values[CST_DETECTION_FIGURES] = {
        scores->ap,        scores->ap50,     scores->ap75,      scores->ap_small,
        scores->ap_medium, scores->ap_large, scores->ar1,       scores->ar10,
        scores->ar100,     scores->ar_small, scores->ar_medium, scores->ar_large};
    for (int f = 0; f < CST_DETECTION_FIGURES; f++)
        out[f] = values[f];
}

void cst_figures_put(cst_report *report, json_t *object, const cst_detection_scores *scores) {
    int32_t count = 0;
    double values[CST_DETECTION_FIGURES];
    const cst_score_spec *specs = cst_task_scores(CST_TASK_DETECTION, &count);
    cst_figures_values(scores, values);
    for (int32_t f = 0; f < count; f++)
        cst_report_number(report, object, specs[f].key, values[f]);
}

const char *cst_figures_define(const char *score) {
    static const char *const definitions[][2] = {
        {"AP", "mean over categories and IoU 0.50:0.05:0.95 of the precision at 101 recall "
               "levels"},
        {"AP50", "AP at IoU 0.50"},
        {"AP75", "AP at IoU 0.75"},
        {"APs", "AP on small ground-truth boxes, below 32 x 32 pixels"},
        {"APm", "AP on medium ground-truth boxes, 32 x 32 to 96 x 96 pixels"},
        {"APl", "AP on large ground-truth boxes, above 96 x 96 pixels"},
        {"AR1", "mean over categories and IoU of the recall with at most 1 box per image and "
                "category"},
        {"AR10", "mean over categories and IoU of the recall with at most 10 boxes per image "
                 "and category"},
        {"AR100", "mean over categories and IoU of the recall with at most 100 boxes per "
                  "image and category"},
        {"ARs", "AR100 on small ground-truth boxes"},
        {"ARm", "AR100 on medium ground-truth boxes"},
        {"ARl", "AR100 on large ground-truth boxes"}};
    for (size_t i = 0; i < sizeof definitions / sizeof definitions[0]; i++)
        if (strcmp(score, definitions[i][0]) == 0)
            return definitions[i][1];
    return NULL;
}

void cst_figures_categories(cst_report *report, json_t *object, const cst_coco *truth,
                            const cst_detection_scores *by_category) {
    json_t *list = cst_report_list(report, object, "categories");
    for (int32_t c = 0; c < truth->categories; c++) {
        json_t *row = cst_report_add_object(report, list);
        int64_t boxes = 0;
        for (int64_t g = 0; g < truth->count; g++)
            boxes += truth->box[g].category == c && !truth->box[g].crowd;
        CST_PUT(report, row, CST_I("id", truth->category_id[c]),
                CST_S("name", truth->category_name[c]), CST_I("boxes", boxes));
        cst_figures_put(report, row, &by_category[c]);
    }
}

void cst_figures_definition(cst_report *report, json_t *object) {
    cst_report_string(report, object, "ap_definition",
                      "COCO: mean over categories and IoU 0.50:0.05:0.95 of the precision at "
                      "101 recall levels, at most 100 boxes per image and category; -1 if "
                      "there are no ground-truth boxes");
}

enum { AP = 0, AP50 = 1, AP75 = 2, AR100 = 8 };

/* Not defined without true boxes. */
static double or_nan(double score) {
    return score < 0 ? NAN : score;
}

/* scratch: how often each image counts [images], then that of the figures. */
static void figures(const cst_bootstrap *b, const cst_resample *drawn, void *scratch, int64_t lanes,
                    int64_t stride, double *out) {
    const cst_ap_matches *const *matches = b->user;
    double *room = scratch;
    int32_t *times = (void *)(room + (b->scratch / sizeof *room - (size_t)drawn->rows));
    for (int64_t l = 0; l < lanes; l++) {
        for (int64_t i = 0; i < drawn->rows; i++)
            times[i] = drawn->lane[l * drawn->padded + i];
        for (int32_t m = 0; m < b->methods; m++) {
            cst_detection_scores scores;
            double *to = out + (int64_t)m * CST_DETECTION_FIGURES * stride + l;
            cst_ap_main_scores(matches[m], times, room, &scores);
            to[AP * stride] = or_nan(scores.ap);
            to[AP50 * stride] = or_nan(scores.ap50);
            to[AP75 * stride] = or_nan(scores.ap75);
            to[AR100 * stride] = or_nan(scores.ar100);
        }
    }
}

cst_status cst_ap_bootstrap(cst_context *context, const cst_ap_matches *const *matches,
                            int32_t methods, int32_t reference, int32_t resamples, uint64_t seed,
                            cst_intervals *out) {
    size_t most = 0;
    size_t images = (size_t)matches[0]->images;
    if (resamples < 1 || images < 1)
        return CST_OK;
    for (int32_t m = 0; m < methods; m++)
        most = cst_ap_scratch(matches[m]) > most ? cst_ap_scratch(matches[m]) : most;
    const cst_bootstrap b = {.samples = {matches[0]->images},
                             .seed = {seed},
                             .resamples = resamples,
                             .methods = methods,
                             .scores = CST_DETECTION_FIGURES,
                             .skipped = ~(1U << AP | 1U << AP50 | 1U << AP75 | 1U << AR100),
                             .scratch = (most + images) *
                                        sizeof(double), /* times take half of their part */
                             .figures = figures,
                             .user = (const void *)matches};
    CST_TRY(
        cst_bootstrap_intervals(context, &b, reference, out->interval, out->difference, out->p));
    out->done = true;
    return CST_OK;
}
