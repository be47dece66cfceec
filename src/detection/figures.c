/*
 * COCO's figures in documents: names, intervals, categories. For evaluation, fit and comparison.
 * Paper: the task metric of detection.
 */
#include "detection/figures.h"

static const char *const KEYS[] = {"AP",  "AP50", "AP75",  "APs", "APm", "APl",
                                   "AR1", "AR10", "AR100", "ARs", "ARm", "ARl"};
enum { FIGURES = sizeof KEYS / sizeof KEYS[0], KEY_CHARS = 16 };

static void put_interval(cst_report *report, json_t *object, const char *key,
                         const cst_interval *interval) {
    char name[KEY_CHARS];
    double ends[2] = {interval->low, interval->high};
    (void)cst_snprintf(name, sizeof name, "%s_ci", key);
    cst_report_numbers(report, object, name, ends, 2);
}

void cst_figures_put(cst_report *report, json_t *object, const cst_detection_scores *scores,
                     const cst_ap_intervals *intervals) {
    const double *values = (const double *)scores;
    for (int f = 0; f < FIGURES; f++)
        cst_report_number(report, object, KEYS[f], values[f]);
    if (!intervals || intervals->resamples < 1)
        return;
    put_interval(report, object, "AP", &intervals->ap);
    put_interval(report, object, "AP50", &intervals->ap50);
    put_interval(report, object, "AP75", &intervals->ap75);
    put_interval(report, object, "AR100", &intervals->ar100);
}

void cst_figures_difference(cst_report *report, json_t *object,
                            const cst_ap_intervals *difference) {
    json_t *part = cst_report_object(report, object, "difference");
    const struct {
        const char *key;
        const cst_interval *interval;
    } figures[] = {{"AP", &difference->ap},
                   {"AP50", &difference->ap50},
                   {"AP75", &difference->ap75},
                   {"AR100", &difference->ar100}};
    for (size_t f = 0; f < sizeof figures / sizeof figures[0]; f++) {
        cst_report_number(report, part, figures[f].key, figures[f].interval->value);
        put_interval(report, part, figures[f].key, figures[f].interval);
    }
}

void cst_figures_categories(cst_report *report, json_t *object, const cst_coco *truth,
                            const cst_detection_scores *by_category) {
    json_t *list = cst_report_list(report, object, "categories");
    for (int32_t c = 0; c < truth->categories; c++) {
        json_t *row = cst_report_add_object(report, list);
        int64_t boxes = 0;
        for (int64_t g = 0; g < truth->count; g++)
            boxes += truth->box[g].category == c && !truth->box[g].crowd;
        cst_report_integer(report, row, "id", truth->category_id[c]);
        cst_report_string(report, row, "name", truth->category_name[c]);
        cst_report_integer(report, row, "boxes", boxes);
        cst_figures_put(report, row, &by_category[c], NULL);
    }
}

void cst_figures_definition(cst_report *report, json_t *object) {
    cst_report_string(report, object, "ap_definition",
                      "COCO: mean over categories and IoU 0.50:0.05:0.95 of the precision at 101 "
                      "recalls, at most 100 boxes per image and category; -1 without true boxes");
}

void cst_figures_document(cst_report *report, json_t *object, const cst_coco *truth,
                          int64_t detections, const cst_detection_scores *scores,
                          const cst_ap_intervals *intervals,
                          const cst_detection_scores *by_category) {
    cst_report_integer(report, object, "samples", truth->images);
    cst_report_integer(report, object, "images", truth->images);
    cst_report_integer(report, object, "annotations", truth->count);
    cst_report_integer(report, object, "detections", detections);
    cst_figures_put(report, object, scores, intervals);
    cst_figures_definition(report, object);
    cst_figures_categories(report, object, truth, by_category);
    cst_report_integer(report, object, "resamples", intervals->resamples);
}
