/* Scores of a model against annotations. After a fit. docs/detection.md. */
#include "model/fit_rows.h"
#include "tasks/detection/check.h"
#include "tasks/detection/figures.h"
#include "tasks/detection/state.h"

typedef cst_box_state state;

static state *state_of(const cst_evaluation *e) {
    return e->data;
}

cst_status cst_boxes_put_own(cst_context *context, cst_report *report, const cst_evaluation *e,
                             const cst_entry *entry) {
    const cst_box_result *result = entry->result;
    (void)context;
    cst_figures_categories(report, cst_report_root(report), state_of(e)->files->coco,
                           result->by_category);
    return CST_OK;
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
    CST_THEN(cst_box_check_scored(context, e->pool, e->split, &s->other));
    CST_THEN(cst_boxes_score(context, e, boxes, entry));
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
    CST_THEN(cst_box_split_open(context, e->pool, e->split, NULL, 0, &s->other));
    CST_THEN(cst_coco_same_categories(context, s->train.coco, s->other.coco));
    return status;
}
