/* Clusters to fit on and scores of boxes. See the header. */
#include "tasks/detection/state.h"

#include "tasks/detection/check.h"
#include "tasks/detection/figures.h"

typedef cst_box_state state;

cst_status cst_boxes_open_training(cst_context *context, cst_evaluation *e, state *s) {
    const cst_compare_options *o = e->options;
    cst_options *options = NULL;
    cst_detect_options detect;
    cst_status status =
        cst_method_options(context, "default", o->seed, o->settings, o->setting_count, &options);
    if (status != CST_OK)
        return status;
    cst_detect_options_read(options, &detect);
    int32_t folds = (int32_t)cst_option_integer(options, CST_OPT_FOLDS_COUNT);
    bool checks = cst_option_flag(options, CST_OPT_CHECKS);
    cst_options_free(context, options);
    status = cst_box_split_open(context, e->pool, cst_evaluation_fitted(e), NULL, 0, &s->train);
    if (checks && !e->checked)
        CST_THEN(
            cst_box_check(context, e->pool, cst_evaluation_fitted(e), &s->train, &e->findings));
    CST_THEN(cst_findings_tell(context, &e->findings));
    CST_THEN(cst_box_training_open(context, e->pool, cst_evaluation_fitted(e), &s->train, &detect,
                                   folds, o->seed, &s->training));
    e->source = &s->training.source;
    return status;
}

cst_status cst_boxes_score(cst_context *context, const cst_evaluation *e,
                           const cst_coco_boxes *boxes, cst_entry *entry) {
    cst_detection_scores scores;
    cst_box_result *result = entry->result;
    cst_status status =
        cst_ap_match(context, ((const state *)e->data)->files->coco, boxes, &result->matches);
    if (status == CST_OK && e->brief) {
        result->by_category =
            cst_alloc(context, (size_t)result->matches->categories, sizeof *result->by_category);
        status = result->by_category ? CST_OK : CST_ERROR_MEMORY;
    }
    CST_THEN(cst_ap_scores(context, result->matches, NULL, &scores, result->by_category));
    if (status == CST_OK) {
        result->detections = boxes->count;
        cst_figures_values(&scores, entry->scores);
    }
    return status;
}
