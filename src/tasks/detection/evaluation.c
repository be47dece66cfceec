/*
 * The table of detection: clusters that methods are fitted on and images that they are scored on,
 * one method's run, intervals over images. Chosen by src/tasks. docs/detection.md.
 */
#include "fit/profile.h"
#include "tasks/detection/check.h"
#include "tasks/detection/detection.h"
#include "tasks/detection/figures.h"
#include "tasks/detection/state.h"

#include <string.h>

typedef cst_box_state state;

static const state *state_of(const cst_evaluation *e) {
    return e->data;
}

/* ---- opening ---- */

static cst_status open(cst_context *context, cst_evaluation *e) {
    state *s = cst_alloc(context, 1, sizeof *s);
    if (!s)
        return CST_ERROR_MEMORY;
    e->data = s;
    s->files = e->nested ? &s->train : &s->other;
    cst_status status = cst_boxes_open_training(context, e, s);
    if (!e->nested) {
        CST_THEN(cst_box_split_open(context, e->pool, e->split, NULL, 0, &s->other));
        CST_THEN(cst_coco_same_categories(context, s->train.coco, s->other.coco));
    }
    return status;
}

/* The boxes that are fitted on were checked before clusters were made of them. */
static cst_status check_data(cst_context *context, cst_evaluation *e) {
    return e->nested ? CST_OK
                     : cst_box_check_scored(context, e->pool, e->split, &state_of(e)->other);
}

static void close_state(cst_context *context, cst_evaluation *e) {
    state *s = e->data;
    if (!s)
        return;
    cst_box_training_close(context, &s->training);
    if (s->narrowed) {
        cst_free(context, s->train.boxes);
        cst_free(context, s->other.boxes);
    } else {
        cst_box_split_close(context, &s->train);
        cst_box_split_close(context, &s->other);
    }
    cst_free(context, s);
    e->data = NULL;
}

/* A split with some members, whose boxes are borrowed. */
static cst_status narrow_split(cst_context *context, const cst_box_split *whole,
                               const cst_evaluation *e, cst_box_split *out) {
    *out = *whole;
    out->members = e->members;
    out->boxes = cst_alloc(context, (size_t)e->members, sizeof *out->boxes);
    for (int32_t j = 0; out->boxes && whole->boxes && j < e->members; j++)
        out->boxes[j] = whole->boxes[e->positions[j]];
    return out->boxes ? CST_OK : CST_ERROR_MEMORY;
}

static cst_status narrow(cst_context *context, const cst_evaluation *e, cst_evaluation *out) {
    const state *whole = state_of(e);
    state *s = cst_alloc(context, 1, sizeof *s);
    if (!s)
        return CST_ERROR_MEMORY;
    out->data = s;
    s->narrowed = true;
    s->files = e->nested ? &s->train : &s->other;
    out->source = &s->training.source;
    cst_status status = narrow_split(context, &whole->train, out, &s->train);
    CST_THEN(narrow_split(context, &whole->other, out, &s->other));
    CST_THEN(cst_box_training_members(context, &whole->training, &s->train, out->positions,
                                      out->members, &s->training));
    if (status != CST_OK)
        return status;
    /* Clusters depend on the members, and so do the similarities. */
    return cst_evaluation_similarities(context, out);
}

/* ---- methods ---- */

/* What detection changes in a preset, as its own settings say. */
static cst_status adapt(cst_context *context, const cst_evaluation *e, const char *const *settings,
                        int32_t count, cst_method *rows) {
    cst_options *options = NULL;
    cst_detect_options detect;
    cst_status status =
        cst_method_options(context, rows->preset, e->options->seed, settings, count, &options);
    if (status != CST_OK)
        return status;
    cst_detect_options_read(options, &detect);
    cst_detect_adapt(&detect, rows->preset, &rows->settings);
    cst_options_free(context, options);
    return CST_OK;
}

static cst_status parse(cst_context *context, const cst_evaluation *e, const char *const *settings,
                        int32_t count, cst_entry *entry) {
    cst_detect_method *method = cst_alloc(context, 1, sizeof *method);
    if (!method)
        return CST_ERROR_MEMORY;
    entry->method = method;
    cst_status status =
        cst_detect_method_parse(context, entry->name, e->options->seed, settings, count, method);
    if (status != CST_OK)
        return status;
    entry->definition = cst_detection_method_describe(entry->name);
    if (method->rule != CST_DETECT_ROWS) {
        entry->definition =
            entry->definition ? entry->definition : cst_detect_native_definition(entry->name);
        return CST_OK;
    }
    entry->preset = method->rows.preset;
    entry->definition = cst_method_definition(&method->rows);
    return entry->preset ? adapt(context, e, settings, count, &method->rows) : CST_OK;
}

static bool applies(const cst_evaluation *e, const cst_entry *entry) {
    const cst_detect_method *method = entry->method;
    return method->rule != CST_DETECT_ROWS || cst_method_applies(&method->rows, e->source);
}

static cst_status check(cst_context *context, const cst_evaluation *e, const cst_entry *entry) {
    return cst_method_check(context, &((const cst_detect_method *)entry->method)->rows, e->pool,
                            e->source);
}

static void free_entry(cst_context *context, cst_entry *entry) {
    cst_box_result *result = entry->result;
    if (result) {
        cst_ap_matches_free(context, result->matches);
        cst_free(context, result->by_category);
        cst_free(context, result->fusion);
    }
    cst_free(context, result);
    cst_free(context, entry->method);
}

/* ---- one method ---- */

static void take_fit(const cst_evaluation *e, cst_detect_fit *fit, cst_entry *entry) {
    memcpy(entry->uses, fit->uses, (size_t)e->members * sizeof *entry->uses);
    entry->weights = fit->weights;
    fit->weights = NULL;
    entry->mix = entry->weights ? fit->rows.mix : CST_MIX_OTHER;
    entry->seconds = fit->seconds;
    if (fit->method.rule != CST_DETECT_ROWS)
        return;
    (void)cst_snprintf(entry->detail, sizeof entry->detail, "%.100s",
                       fit->method.rows.baseline ? fit->rows.baseline.detail : "");
    (void)cst_snprintf(entry->calibrator, sizeof entry->calibrator, "%.60s",
                       fit->rows.calibrator.detail);
}

static cst_status run(cst_context *context, const cst_evaluation *e, cst_entry *entry) {
    const state *s = state_of(e);
    uint64_t seed = e->options->seed;
    cst_detect_fit fit = {0};
    cst_coco_boxes *boxes = NULL;
    entry->result = cst_alloc(context, 1, sizeof(cst_box_result));
    if (!entry->result)
        return CST_ERROR_MEMORY;
    cst_status status = cst_detect_fit_run(context, entry->method, &s->training, -1, seed, &fit);
    if (!e->unscored) {
        CST_THEN(e->nested ? cst_detect_nested(context, entry->method, &s->training, seed, &boxes)
                           : cst_detect_fit_predict(context, &fit, &s->training.options.clusters,
                                                    s->files, NULL, &boxes));
        CST_THEN(cst_boxes_score(context, e, boxes, entry));
    }
    if (entry->keep)
        CST_THEN(cst_detect_fit_model(context, &fit, e->members, &entry->made));
    if (entry->keep && status == CST_OK) {
        ((cst_box_result *)entry->result)->fusion = fit.fusion;
        fit.fusion = NULL;
    }
    if (status == CST_OK)
        take_fit(e, &fit, entry);
    cst_coco_boxes_free(context, boxes);
    cst_detect_fit_free(context, &fit);
    return status;
}

static cst_status label_model(cst_context *context, const cst_evaluation *e,
                              const cst_options *options, cst_entry *entry) {
    const state *s = state_of(e);
    const cst_box_result *result = entry->result;
    cst_model *model = entry->made.model;
    cst_status status =
        cst_detect_label(context, e->pool, cst_evaluation_fitted(e), &s->train, &s->training,
                         options, entry->name, result->fusion, entry->made.kept, model);
    if (status == CST_OK)
        model->fusion->rule = cst_detect_rule_stored(entry->method);
    return status;
}

static cst_status bootstrap(cst_context *context, const cst_evaluation *e,
                            const cst_entry *const *entries, int32_t count, int32_t reference,
                            int32_t resamples, cst_intervals *out) {
    const cst_ap_matches **matches = cst_alloc(context, (size_t)count, sizeof *matches);
    if (!matches)
        return CST_ERROR_MEMORY;
    for (int32_t m = 0; m < count; m++)
        matches[m] = ((const cst_box_result *)entries[m]->result)->matches;
    cst_status status =
        cst_ap_bootstrap(context, matches, count, reference, resamples, e->options->seed, out);
    cst_free(context, (void *)matches);
    return status;
}

/* ---- documents ---- */

static void put_size(cst_report *report, const cst_evaluation *e) {
    const cst_coco *coco = state_of(e)->files->coco;
    json_t *root = cst_report_root(report);
    cst_report_integer(report, root, "samples", coco->images);
    cst_report_integer(report, root, "images", coco->images);
    cst_report_integer(report, root, "annotations", coco->count);
    cst_report_integer(report, root, "classes", coco->categories);
    cst_figures_definition(report, root);
}

static cst_status put_row(cst_context *context, cst_report *report, json_t *row,
                          const cst_evaluation *e, const cst_entry *entry) {
    (void)context;
    (void)e;
    cst_report_integer(report, row, "detections",
                       ((const cst_box_result *)entry->result)->detections);
    return CST_OK;
}

static const char *const BASELINES[] = {"best-single", "average", "wbf", "nms", NULL};

const cst_task_ops cst_detection_ops = {
    .task = CST_TASK_DETECTION,
    .unit = "images",
    .fit = cst_detection_fit,
    .inspect = cst_detection_inspect,
    .method_name = cst_detect_method_name,
    .definition = cst_figures_define,
    .open = open,
    .check_data = check_data,
    .close = close_state,
    .narrow = narrow,
    .parse = parse,
    .check = check,
    .applies = applies,
    .run = run,
    .free_entry = free_entry,
    .label_model = label_model,
    .hash = cst_box_pool_hash,
    .bootstrap = bootstrap,
    .tested = {"AP"},
    .open_model = cst_boxes_open_model,
    .run_model = cst_boxes_run_model,
    .seen = cst_boxes_seen,
    .open_baselines = cst_boxes_open_baselines,
    .baselines = BASELINES,
    .put_own = cst_boxes_put_own,
    .profile = &cst_profile_boxes,
    .put_size = put_size,
    .put_row = put_row,
};
