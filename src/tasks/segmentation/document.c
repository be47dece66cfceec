/* Scores of a segmentation in the documents of fit, evaluate and compare. docs/json.md. */
#include "tasks/segmentation/document.h"

#include "tasks/segmentation/boundary.h"

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
