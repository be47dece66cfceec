/* Scores of a segmentation with their intervals, in documents. docs/segmentation.md#scores. */
#include "tasks/segmentation/document.h"

#include "tasks/segmentation/boundary.h"

#include <string.h>

/* ---- scores and their intervals ---- */

static const struct field {
    const char *name;
    size_t at;
} FIELDS[CST_MAP_SCORES] = {
    {"miou", offsetof(cst_segmentation_scores, miou)},
    {"pixel_accuracy", offsetof(cst_segmentation_scores, pixel_accuracy)},
    {"mean_accuracy", offsetof(cst_segmentation_scores, mean_accuracy)},
    {"dice", offsetof(cst_segmentation_scores, dice)},
    {"fwiou", offsetof(cst_segmentation_scores, fwiou)},
    {"boundary_error", offsetof(cst_segmentation_scores, boundary_error)},
    {"boundary_iou", offsetof(cst_segmentation_scores, boundary_iou)},
    {"ece", offsetof(cst_segmentation_scores, ece)},
    {"nll", offsetof(cst_segmentation_scores, nll)},
    {"brier", offsetof(cst_segmentation_scores, brier)},
};

const char *cst_map_score_name(int field) {
    return FIELDS[field].name;
}

static double map_score_value(const cst_segmentation_scores *scores, int field) {
    double value = 0;
    memcpy(&value, (const char *)scores + FIELDS[field].at, sizeof value);
    return value;
}

void cst_map_score_values(const cst_map_scores *scores, double *out) {
    cst_segmentation_scores found;
    cst_tally_scores(scores->total, scores->classes, scores->probabilities, &found);
    for (int f = 0; f < CST_MAP_SCORES; f++)
        out[f] = map_score_value(&found, f);
}

/* Of sums of the tallies of the drawn cases. scratch: [width]. */
static void figures(const cst_bootstrap *b, const cst_resample *drawn, void *scratch, int64_t lanes,
                    int64_t stride, double *out) {
    const cst_map_scores *const *methods = b->user;
    double *sum = scratch;
    for (int64_t c = 0; c < lanes * b->methods; c++) {
        const cst_map_scores *method = methods[c % b->methods];
        const unsigned char *times = drawn->lane + c / b->methods * drawn->padded;
        cst_segmentation_scores scores;
        memset(sum, 0, method->width * sizeof *sum);
        for (int64_t n = 0; n < drawn->rows; n++)
            for (size_t i = 0; times[n] > 0 && i < method->width; i++)
                sum[i] += times[n] * method->tallies[(size_t)n * method->width + i];
        cst_tally_scores(sum, method->classes, method->probabilities, &scores);
        for (int f = 0; f < CST_MAP_SCORES; f++)
            out[(c % b->methods * CST_MAP_SCORES + f) * stride + c / b->methods] =
                map_score_value(&scores, f);
    }
}

cst_status cst_map_bootstrap(cst_context *context, const cst_map_scores *const *methods,
                             int32_t count, int32_t reference, int32_t resamples, uint64_t seed,
                             cst_intervals *out) {
    const cst_bootstrap b = {.samples = {methods[0]->cases},
                             .seed = {seed},
                             .resamples = resamples,
                             .methods = count,
                             .scores = CST_MAP_SCORES,
                             .every_word = true,
                             .scratch = methods[0]->width * sizeof(double),
                             .figures = figures,
                             .user = (const void *)methods};
    CST_TRY(
        cst_bootstrap_intervals(context, &b, reference, out->interval, out->difference, out->p));
    out->done = true;
    return CST_OK;
}

/* ---- documents ---- */

enum { CONFUSION_CLASSES = 64 };

void cst_map_put_size(cst_report *report, const cst_cases *cases, int64_t pixels, int32_t classes,
                      double boundary) {
    json_t *root = cst_report_root(report);
    cst_report_integer(report, root, "cases", cases->count);
    cst_report_integer(report, root, "pixels", pixels);
    cst_report_integer(report, root, "ignored", cases->first[cases->count] - pixels);
    cst_report_integer(report, root, "classes", classes);
    json_t *band = cst_report_object(report, root, "boundary");
    cst_report_number(report, band, "setting", boundary);
    if (cases->uniform)
        cst_report_integer(report, band, "pixels",
                           cst_boundary_distance(boundary, cases->shape[0][1], cases->shape[0][2]));
}

void cst_map_put_definitions(cst_report *report) {
    json_t *definitions = cst_report_object(report, cst_report_root(report), "definitions");
    for (int f = 0; f < CST_MAP_SCORES; f++)
        cst_report_string(report, definitions, cst_map_score_name(f),
                          cst_segmentation_definition(cst_map_score_name(f)));
}

void cst_map_put_header(cst_report *report, const char *split, const cst_cases *cases,
                        int64_t pixels, int32_t classes, double boundary) {
    json_t *root = cst_report_root(report);
    cst_report_string(report, root, "task", "segmentation");
    if (split)
        cst_report_string(report, root, "split", split);
    cst_map_put_size(report, cases, pixels, classes, boundary);
    cst_map_put_definitions(report);
}

void cst_map_put_present(cst_report *report, json_t *object, const cst_map_scores *scores) {
    cst_segmentation_scores found;
    cst_tally_scores(scores->total, scores->classes, scores->probabilities, &found);
    cst_report_integer(report, object, "classes_present", found.classes_present);
}

void cst_map_put_scores(cst_report *report, json_t *object, const cst_map_scores *scores) {
    double values[CST_MAP_SCORES];
    cst_map_score_values(scores, values);
    for (int f = 0; f < CST_MAP_SCORES; f++)
        cst_report_number(report, object, cst_map_score_name(f), values[f]);
    cst_map_put_present(report, object, scores);
}

void cst_map_put_classes(cst_report *report, json_t *object, const cst_pool *pool,
                         const cst_map_scores *scores) {
    const double *labelled = cst_tally_labelled(scores->total, scores->classes);
    json_t *list = cst_report_list(report, object, "per_class");
    for (int32_t c = 0; c < scores->classes; c++) {
        double found[4];
        json_t *entry = cst_report_add_object(report, list);
        cst_tally_class(scores->total, scores->classes, c, found);
        cst_report_integer(report, entry, "class", c);
        cst_report_string(report, entry, "name", pool ? cst_pool_class_name(pool, c) : NULL);
        cst_report_integer(report, entry, "pixels", (int64_t)labelled[c]);
        cst_report_number(report, entry, "iou", found[0]);
        cst_report_number(report, entry, "dice", found[1]);
        cst_report_number(report, entry, "accuracy", found[2]);
        cst_report_number(report, entry, "boundary_iou", found[3]);
    }
    if (scores->classes > CONFUSION_CLASSES)
        return;
    json_t *rows = cst_report_list(report, object, "confusion");
    for (int32_t a = 0; a < scores->classes; a++) {
        json_t *row = cst_report_add_list(report, rows);
        for (int32_t b = 0; b < scores->classes; b++)
            cst_report_add_integer(
                report, row, scores->confusion[(size_t)a * (size_t)scores->classes + (size_t)b]);
    }
}
