/* Scores a file of detections against a file of annotations. docs/detection.md. */
#include "tasks/detection/check.h"
#include "tasks/detection/state.h"

typedef cst_box_state state;

static cst_status score_file(cst_context *context, const char *detections, const char *annotations,
                             const cst_evaluation *e, cst_report *report) {
    cst_box_split *files = &((state *)e->data)->other;
    cst_box_result result = {0};
    cst_entry entry = {.result = &result};
    cst_coco_boxes *boxes = NULL;
    double start = cst_seconds();
    cst_status status = cst_coco_read(context, &files->coco, annotations, 0);
    CST_THEN(cst_coco_read_boxes(context, &boxes, detections, 0, files->coco, false));
    double read = cst_seconds() - start;
    CST_THEN(cst_box_check_scored(
        context, NULL, NULL, &(cst_box_split){.coco = files->coco, .members = 1, .boxes = &boxes}));
    CST_THEN(cst_boxes_score(context, e, boxes, &entry));
    json_t *root = cst_report_root(report);
    cst_report_string(report, root, "task", cst_task_name(CST_TASK_DETECTION));
    CST_THEN(cst_put_evaluation(context, report, e, &entry, 1));
    json_t *seconds = cst_report_object(report, root, "seconds");
    cst_report_number(report, seconds, "read", read);
    cst_report_number(report, seconds, "total", cst_seconds() - start);
    cst_ap_matches_free(context, result.matches);
    cst_free(context, result.by_category);
    cst_coco_boxes_free(context, boxes);
    return status;
}

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
                        "cst_evaluate_detections: two paths and the report are required");
    const cst_compare_options options = {.resamples = resamples, .seed = seed};
    state s = {0};
    s.files = &s.other;
    const cst_evaluation e = {
        .ops = &cst_detection_ops, .options = &options, .brief = true, .data = &s};
    cst_notices_clear(context);
    cst_status status = cst_report_create(context, CST_REPORT_EVALUATE, report);
    CST_THEN(score_file(context, detections, annotations, &e, *report));
    cst_box_split_close(context, &s.other);
    return cst_why(context, cst_finish_report(context, status, report));
}
