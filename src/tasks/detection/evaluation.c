/* The table of detection. Chosen by src/tasks. docs/detection.md. */
#include "fit/harness.h"
#include "fit/profile.h"
#include "model/fit_rows.h"
#include "tasks/detection/detection.h"
#include "tasks/detection/figures.h"
#include "tasks/detection/splits.h"

#include <string.h>

/* An evaluation's data. That of some members borrows annotations and boxes of the whole. */
typedef struct state {
    cst_box_split train;        /* split "oof" */
    cst_box_split other;        /* the split that is scored, unless it is that */
    const cst_box_split *files; /* of the images that are scored */
    cst_box_training training;
} state;

/* Boxes of a method: an entry's result. */
typedef struct scored {
    cst_ap_matches matches;
    cst_detection_scores *by_category; /* [categories], in evaluations; else NULL */
    int64_t detections;
    double *fusion; /* weights of boxes of a fit that is wanted as a model; else NULL */
} scored;

static state *state_of(const cst_evaluation *e) {
    return e->data;
}

static const scored *result_of(const cst_entry *entry) {
    return entry->result;
}

static void release(cst_context *context, void *data) {
    state *s = data;
    cst_box_split_close(context, &s->train);
    cst_box_split_close(context, &s->other);
}

/* Split "oof" with every member, and its clusters. */
static cst_status open_training(cst_context *context, cst_evaluation *e, bool *checks) {
    state *s = e->data;
    const cst_compare_options *o = e->options;
    const char *split = cst_evaluation_fitted(e);
    cst_options *options = NULL;
    cst_detect_options detect;
    CST_TRY(cst_method_options(context, "default", o->seed, o->settings, (int32_t)o->setting_count,
                               &options));
    cst_detect_options_read(options, &detect);
    int32_t folds = (int32_t)cst_option_integer(options, CST_OPT_FOLDS_COUNT);
    *checks = cst_option_flag(options, CST_OPT_CHECKS) && !e->checked;
    cst_options_free(context, options);
    CST_TRY(cst_box_split_open(context, e->pool, split, NULL, 0, &s->train));
    if (*checks)
        CST_TRY(cst_box_check(context, e->pool, split, &s->train, &e->findings));
    CST_TRY(cst_findings_tell(context, &e->findings));
    CST_TRY(cst_box_training_open(context, &e->scope, e->pool, split, &s->train, &detect, folds,
                                  o->seed, &s->training));
    e->source = &s->training.source;
    return CST_OK;
}

/* A model predicts images itself; methods need every member's boxes and clusters of "oof". */
static cst_status open(cst_context *context, cst_evaluation *e, const cst_model *model) {
    bool checks = false;
    bool beside = e->data != NULL;
    state *s = beside ? e->data : cst_evaluation_data(context, e, sizeof *s, release);
    if (!s)
        return CST_ERROR_MEMORY;
    s->files = e->nested ? &s->train : &s->other;
    if (model)
        return CST_OK;
    cst_box_split_close(context, &s->other);
    CST_TRY(open_training(context, e, &checks));
    if (!e->nested) {
        CST_TRY(cst_box_split_open(context, e->pool, e->split, NULL, 0, &s->other));
        CST_TRY(cst_coco_same_categories(context, s->train.coco, s->other.coco));
        if (checks && !beside)
            CST_TRY(cst_box_check_scored(context, e->pool, e->split, &s->other));
    }
    e->checked = true;
    return CST_OK;
}

/* A split with some members, whose boxes are borrowed. */
static cst_status split_part(cst_context *context, const cst_box_split *whole, cst_evaluation *e,
                             cst_box_split *out) {
    *out = *whole;
    out->members = e->members;
    CST_TAKE(context, &e->scope, out->boxes, e->members);
    for (int32_t j = 0; whole->boxes && j < e->members; j++)
        out->boxes[j] = whole->boxes[e->positions[j]];
    return CST_OK;
}

static cst_status subset(cst_context *context, const cst_evaluation *e, cst_evaluation *out) {
    const state *whole = e->data;
    state *s = cst_evaluation_data(context, out, sizeof *s, NULL);
    if (!s)
        return CST_ERROR_MEMORY;
    s->files = e->nested ? &s->train : &s->other;
    out->source = &s->training.source;
    CST_TRY(split_part(context, &whole->train, out, &s->train));
    CST_TRY(split_part(context, &whole->other, out, &s->other));
    CST_TRY(cst_box_training_part(context, &out->scope, &whole->training, &s->train, NULL,
                                  out->positions, out->members, &s->training));
    /* Clusters depend on the members, and so do the similarities. */
    return cst_evaluation_similarities(context, out);
}

static cst_status parse(cst_context *context, const cst_evaluation *e, const char *const *settings,
                        int32_t count, cst_entry *entry) {
    cst_detect_method *method = cst_entry_method(context, entry, sizeof *method);
    cst_options *options = NULL;
    cst_detect_options detect;
    if (!method)
        return CST_ERROR_MEMORY;
    CST_TRY(
        cst_detect_method_parse(context, entry->name, e->options->seed, settings, count, method));
    if (method->rule != CST_DETECT_ROWS) {
        const char *shared = cst_detection_method_describe(entry->name);
        entry->definition = shared ? shared : cst_detect_native_definition(entry->name);
        return CST_OK;
    }
    cst_entry_take_method(&method->rows, entry);
    if (!entry->preset)
        return CST_OK;
    /* Detection's own settings of a preset. */
    CST_TRY(
        cst_method_options(context, entry->preset, e->options->seed, settings, count, &options));
    cst_detect_options_read(options, &detect);
    cst_detect_adapt(&detect, entry->preset, &method->rows.settings);
    cst_options_free(context, options);
    return CST_OK;
}

static void release_result(cst_context *context, void *result) {
    cst_free(context, ((scored *)result)->fusion);
}

static cst_status score(cst_context *context, const cst_evaluation *e, const cst_coco_boxes *boxes,
                        cst_entry *entry) {
    cst_detection_scores scores;
    scored *r = entry->result;
    CST_TRY(cst_ap_match(context, &entry->scope, state_of(e)->files->coco, boxes, &r->matches));
    if (e->brief)
        CST_TAKE(context, &entry->scope, r->by_category, r->matches.categories);
    CST_TRY(cst_ap_scores(context, &r->matches, NULL, &scores, r->by_category));
    r->detections = boxes->count;
    cst_figures_values(&scores, entry->scores);
    return CST_OK;
}

static cst_status take_fit(cst_context *context, const cst_evaluation *e, const cst_detect_fit *fit,
                           cst_entry *entry) {
    memcpy(entry->uses, fit->uses, (size_t)e->members * sizeof *entry->uses);
    CST_TRY(cst_entry_take_weights(context, fit->weights, e->members, entry));
    entry->mix = entry->weights ? fit->rows.mix : CST_MIX_OTHER;
    entry->seconds = fit->seconds;
    if (fit->method.rule != CST_DETECT_ROWS)
        return CST_OK;
    (void)cst_snprintf(entry->detail, sizeof entry->detail, "%.100s",
                       fit->method.rows.baseline ? fit->rows.baseline.detail : "");
    (void)cst_snprintf(entry->calibrator, sizeof entry->calibrator, "%.60s",
                       fit->rows.calibrator.detail);
    return CST_OK;
}

static cst_status run_method(cst_context *context, const cst_evaluation *e, cst_entry *entry) {
    const state *s = e->data;
    uint64_t seed = e->options->seed;
    cst_detect_fit fit = {0};
    cst_coco_boxes *boxes = NULL;
    cst_status status = cst_detect_fit_run(context, entry->method, &s->training, -1, seed, &fit);
    if (!e->unscored) {
        CST_THEN(e->nested ? cst_detect_nested(context, entry->method, &s->training, seed, &boxes)
                           : cst_detect_fit_predict(context, &fit, &s->training.options.clusters,
                                                    s->files, NULL, &boxes));
        CST_THEN(score(context, e, boxes, entry));
    }
    if (entry->keep)
        CST_THEN(cst_detect_fit_model(context, &fit, e->members, &entry->made));
    if (entry->keep && status == CST_OK) {
        ((scored *)entry->result)->fusion = fit.fusion;
        fit.fusion = NULL;
    }
    CST_THEN(take_fit(context, e, &fit, entry));
    cst_coco_boxes_free(context, boxes);
    cst_detect_fit_free(context, &fit);
    return status;
}

static cst_status run_model(cst_context *context, const cst_evaluation *e, const cst_model *model,
                            cst_entry *entry) {
    state *s = e->data;
    cst_coco_boxes *boxes = NULL;
    cst_status status =
        cst_detection_predict(context, model, e->pool, e->split, true, &s->other, &boxes);
    CST_THEN(cst_box_check_scored(context, e->pool, e->split, &s->other));
    CST_THEN(score(context, e, boxes, entry));
    cst_coco_boxes_free(context, boxes);
    return status;
}

static cst_status run(cst_context *context, const cst_evaluation *e, const cst_model *model,
                      cst_entry *entry) {
    if (!cst_entry_result(context, entry, sizeof(scored), release_result))
        return CST_ERROR_MEMORY;
    return model ? run_model(context, e, model, entry) : run_method(context, e, entry);
}

static cst_status label(cst_context *context, const cst_evaluation *e, const cst_options *options,
                        cst_entry *entry) {
    const state *s = e->data;
    cst_model *model = entry->made.model;
    CST_TRY(cst_detect_label(context, e->pool, cst_evaluation_fitted(e), &s->train, &s->training,
                             options, entry->name, result_of(entry)->fusion, entry->made.kept,
                             model));
    model->fusion->rule = cst_detect_rule_stored(entry->method);
    return CST_OK;
}

static cst_status seen(cst_context *context, const cst_evaluation *e, const cst_model *model,
                       bool *out) {
    const cst_coco *coco = state_of(e)->files->coco;
    CST_SCOPE(scope);
    int32_t *labels;
    CST_TRY(cst_detection_labels(context, scope, coco, &labels));
    *out = cst_fitted_on(model, e->split, labels, coco->count);
    if (*out)
        cst_notice_seen(context, e->split);
    return CST_OK;
}

static cst_status bootstrap(cst_context *context, const cst_evaluation *e,
                            const cst_entry *const *entries, int32_t count, int32_t reference,
                            int32_t resamples, cst_intervals *out) {
    CST_SCOPE(scope);
    CST_NEW(context, scope, const cst_ap_matches *, matches, count);
    for (int32_t m = 0; m < count; m++)
        matches[m] = &result_of(entries[m])->matches;
    return cst_ap_bootstrap(context, matches, count, reference, resamples, e->options->seed, out);
}

static cst_status score_file(cst_context *context, const char *detections, const char *annotations,
                             const cst_evaluation *e, cst_report *report) {
    cst_box_split *files = &state_of(e)->other;
    scored result = {0};
    cst_entry entry = {.result = &result};
    cst_coco_boxes *boxes = NULL;
    double start = cst_seconds();
    cst_status status = cst_coco_read(context, &files->coco, annotations, 0, true);
    CST_THEN(cst_coco_read_boxes(context, &boxes, detections, 0, files->coco, false));
    double read = cst_seconds() - start;
    CST_THEN(cst_box_check_scored(
        context, NULL, NULL, &(cst_box_split){.coco = files->coco, .members = 1, .boxes = &boxes}));
    CST_THEN(score(context, e, boxes, &entry));
    json_t *root = cst_report_root(report);
    cst_report_string(report, root, "task", cst_task_name(CST_TASK_DETECTION));
    CST_THEN(cst_put_evaluation(context, report, e, &entry, 1));
    json_t *seconds = cst_report_object(report, root, "seconds");
    CST_PUT(report, seconds, CST_N("read", read), CST_N("total", cst_seconds() - start));
    cst_scope_free(&entry.scope);
    cst_coco_boxes_free(context, boxes);
    return status;
}

cst_status cst_evaluate_detections(cst_context *context, const char *detections,
                                   const char *annotations, int64_t resamples_given, uint64_t seed,
                                   cst_report **report) {
    CST_CLEAR(report);
    CST_ENTER(context);
    CST_COUNT(context, resamples, resamples_given);
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
    cst_status status = cst_report_begin(context, CST_REPORT_EVALUATE, report);
    CST_THEN(score_file(context, detections, annotations, &e, *report));
    cst_box_split_close(context, &s.other);
    return cst_why(context, cst_finish_report(context, status, report));
}

static void put_size(cst_report *report, const cst_evaluation *e) {
    const cst_coco *coco = state_of(e)->files->coco;
    json_t *root = cst_report_root(report);
    CST_PUT(report, root, CST_I("samples", coco->images), CST_I("images", coco->images),
            CST_I("annotations", coco->count), CST_I("classes", coco->categories));
    cst_figures_definition(report, root);
}

static cst_status describe(cst_context *context, cst_part part, const cst_description *d) {
    (void)context;
    if (part == CST_PART_SIZE)
        put_size(d->report, d->e);
    else if (part == CST_PART_ROW)
        cst_report_integer(d->report, d->object, "detections", result_of(d->entries)->detections);
    else if (part == CST_PART_OWN)
        cst_figures_categories(d->report, d->object, state_of(d->e)->files->coco,
                               result_of(d->entries)->by_category);
    return CST_OK;
}

static const char *const BASELINES[] = {"best-single", "average", "wbf", "nms", NULL};

const cst_task_ops cst_detection_ops = {
    .task = CST_TASK_DETECTION,
    .unit = "images",
    .tested = {"AP"},
    .baselines = BASELINES,
    .fit = cst_detection_fit,
    .inspect = cst_detection_inspect,
    .method_name = cst_detect_method_name,
    .definition = cst_figures_define,
    .open = open,
    .subset = subset,
    .parse = parse,
    .run = run,
    .label = label,
    .hash = cst_box_pool_hash,
    .seen = seen,
    .bootstrap = bootstrap,
    .describe = describe,
    .profile = &cst_profile_boxes,
};
