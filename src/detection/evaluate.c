/*
 * Scores of a file of detections against a file of annotations. After any detector or stack.
 * method.md, section 8; docs/detection.md.
 */
#include "detection/figures.h"

cst_status cst_evaluate_detections(cst_context *context, const char *detections,
                                   const char *annotations, int32_t resamples, uint64_t seed,
                                   cst_report **report) {
    if (report)
        *report = NULL;
    CST_ENTER(context);
    CST_SEED(context, seed);
    CST_RESAMPLES(context, resamples);
    if (!detections || !annotations || !report)
        return cst_fail(context, CST_ERROR_ARGUMENT,
                        "cst_evaluate_detections: two paths and a place for the report are needed");
    cst_coco *truth = NULL;
    cst_coco_boxes *boxes = NULL;
    cst_ap_matches *matches = NULL;
    cst_detection_scores *by_category = NULL;
    cst_detection_scores scores;
    cst_ap_intervals intervals;
    double start = cst_seconds();
    cst_notices_clear(context);
    cst_status status = cst_coco_read(context, &truth, annotations, 0);
    CST_TRY(cst_coco_read_boxes(context, &boxes, detections, 0, truth, false));
    double read = cst_seconds() - start;
    CST_TRY(cst_ap_match(context, truth, boxes, &matches));
    if (status == CST_OK) {
        by_category = cst_alloc(context, (size_t)truth->categories, sizeof *by_category);
        status = by_category ? cst_ap_scores(context, matches, NULL, &scores, by_category)
                             : CST_ERROR_MEMORY;
    }
    CST_TRY(cst_ap_bootstrap(context, (const cst_ap_matches *const *)&matches, 1, 0, resamples,
                             seed, &intervals, NULL));
    CST_TRY(cst_report_create(context, CST_REPORT_EVALUATE, report));
    if (status == CST_OK) {
        json_t *root = cst_report_root(*report);
        cst_report_string(*report, root, "task", cst_task_name(CST_TASK_DETECTION));
        cst_figures_document(*report, root, truth, boxes->count, &scores, &intervals, by_category);
        cst_report_integer(*report, root, "seed", (int64_t)seed);
        json_t *seconds = cst_report_object(*report, root, "seconds");
        cst_report_number(*report, seconds, "read", read);
        cst_report_number(*report, seconds, "total", cst_seconds() - start);
        cst_report_notices(*report, context);
        status = cst_report_finish(context, *report);
    }
    cst_free(context, by_category);
    cst_ap_matches_free(context, matches);
    cst_coco_boxes_free(context, boxes);
    cst_coco_free(context, truth);
    return cst_why(context, cst_report_settle(context, status, report));
}
