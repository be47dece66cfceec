/*
 * Scores of a model or of a file of detections against annotations. After any detector or stack.
 * docs/detection.md.
 */
#include "detection/figures.h"
#include "detection/state.h"
#include "model/fitted_on.h"

typedef cst_box_state state;

static state *state_of(const cst_evaluation *e) {
    return e->data;
}

cst_status cst_boxes_put_own(cst_context *context, cst_report *report, const cst_evaluation *e,
                             const cst_entry *entry) {
    const state *s = state_of(e);
    const cst_box_result *result = entry->result;
    cst_detection_scores all;
    json_t *root = cst_report_root(report);
    size_t categories = (size_t)s->files->coco->categories;
    cst_detection_scores *by_category = cst_alloc(context, categories, sizeof *by_category);
    cst_status status = by_category
                            ? cst_ap_scores(context, result->matches, NULL, &all, by_category)
                            : CST_ERROR_MEMORY;
    if (status == CST_OK)
        cst_figures_categories(report, root, s->files->coco, by_category);
    cst_free(context, by_category);
    return status;
}

cst_status cst_boxes_score(cst_context *context, const cst_evaluation *e,
                           const cst_coco_boxes *boxes, cst_entry *entry) {
    cst_detection_scores scores;
    cst_box_result *result = entry->result;
    cst_status status = cst_ap_match(context, state_of(e)->files->coco, boxes, &result->matches);
    CST_TRY(cst_ap_scores(context, result->matches, NULL, &scores, NULL));
    if (status == CST_OK) {
        result->detections = boxes->count;
        cst_figures_values(&scores, entry->scores);
    }
    return status;
}

/* ---- a file of detections ---- */

static cst_status score_file(cst_context *context, const char *detections, const char *annotations,
                             const cst_evaluation *e, cst_report *report) {
    cst_box_split *files = &state_of(e)->other;
    cst_box_result result = {0};
    cst_entry entry = {.result = &result};
    cst_coco_boxes *boxes = NULL;
    double start = cst_seconds();
    cst_status status = cst_coco_read(context, &files->coco, annotations, 0);
    CST_TRY(cst_coco_read_boxes(context, &boxes, detections, 0, files->coco, false));
    double read = cst_seconds() - start;
    CST_TRY(cst_boxes_score(context, e, boxes, &entry));
    json_t *root = cst_report_root(report);
    cst_report_string(report, root, "task", cst_task_name(CST_TASK_DETECTION));
    CST_TRY(cst_put_evaluation(context, report, e, &entry, 1));
    json_t *seconds = cst_report_object(report, root, "seconds");
    cst_report_number(report, seconds, "read", read);
    cst_report_number(report, seconds, "total", cst_seconds() - start);
    cst_ap_matches_free(context, result.matches);
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
                        "cst_evaluate_detections: two paths and a place for the report are needed");
    const cst_compare_options options = {.resamples = resamples, .seed = seed};
    state s = {0};
    s.files = &s.other;
    const cst_evaluation e = {
        .ops = &cst_detection_ops, .options = &options, .brief = true, .data = &s};
    cst_notices_clear(context);
    cst_status status = cst_report_create(context, CST_REPORT_EVALUATE, report);
    CST_TRY(score_file(context, detections, annotations, &e, *report));
    cst_box_split_close(context, &s.other);
    return cst_why(context, cst_finish_report(context, status, report));
}

/* ---- a model ---- */

cst_status cst_boxes_open_model(cst_context *context, cst_evaluation *e, const cst_model *model) {
    (void)model;
    state *s = cst_alloc(context, 1, sizeof *s);
    if (!s)
        return CST_ERROR_MEMORY;
    e->data = s;
    s->files = &s->other;
    return CST_OK;
}

cst_status cst_boxes_run_model(cst_context *context, const cst_evaluation *e,
                               const cst_model *model, cst_entry *entry) {
    state *s = state_of(e);
    cst_coco_boxes *boxes = NULL;
    entry->result = cst_alloc(context, 1, sizeof(cst_box_result));
    if (!entry->result)
        return CST_ERROR_MEMORY;
    cst_status status =
        cst_detection_predict(context, model, e->pool, e->split, true, &s->other, &boxes);
    CST_TRY(cst_boxes_score(context, e, boxes, entry));
    cst_coco_boxes_free(context, boxes);
    return status;
}

cst_status cst_boxes_seen(cst_context *context, const cst_evaluation *e, const cst_model *model,
                          const cst_entry *entry, bool *seen) {
    const cst_coco *coco = state_of(e)->files->coco;
    int32_t *labels = NULL;
    (void)entry;
    cst_status status = cst_detection_labels(context, coco, &labels);
    *seen = status == CST_OK && cst_fitted_on(model, e->split, labels, coco->count);
    if (*seen)
        cst_notice_seen(context, e->split);
    cst_free(context, labels);
    return status;
}

/* The boxes of every member, and clusters of split "oof" to fit on. */
cst_status cst_boxes_open_baselines(cst_context *context, cst_evaluation *e) {
    state *s = state_of(e);
    cst_box_split_close(context, &s->other);
    cst_status status = cst_boxes_open_training(context, e, s);
    CST_TRY(cst_box_split_open(context, e->pool, e->split, NULL, 0, &s->other));
    CST_TRY(cst_coco_same_categories(context, s->train.coco, s->other.coco));
    return status;
}
