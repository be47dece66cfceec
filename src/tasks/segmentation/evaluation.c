/*
 * The table of segmentation: methods are fitted on the same sampled pixels and scored on all of
 * them, with intervals, differences and tests over cases. Paper: sections "Dense Prediction" and
 * "Experimental Setup"; docs/segmentation.md.
 */
#include "fit/harness.h"
#include "fit/label.h"
#include "fit/profile.h"
#include "tasks/segmentation/decide.h"
#include "tasks/segmentation/document.h"
#include "tasks/segmentation/nested.h"
#include "tasks/segmentation/orders.h"
#include "tasks/segmentation/segmentation.h"
#include "tasks/segmentation/state.h"

#include <string.h>

/* What is compared if no method is named. */
static const char *const DEFAULT_METHODS[] = {"best-single", "average", "performance-weighted",
                                              "ridge",       "greedy",  "log-linear",
                                              "prototype",   "paper",   "default",
                                              NULL};

/* A method, and how it decides on a label. */
typedef struct map_method {
    cst_method rows;
    bool decide;     /* label maps take offsets; baselines have the largest probability */
    double *offsets; /* [classes] of the fit on all rows, where a model is wanted; else NULL */
} map_method;

typedef cst_map_state state;
typedef cst_sampled_pixels sampled;

static const state *state_of(const cst_evaluation *e) {
    return e->data;
}

/* ---- opening ---- */

static cst_status open_rows(cst_context *context, const cst_evaluation *e, state *s) {
    cst_status status = cst_pool_load(context, e->pool, e->split);
    CST_THEN(cst_pool_view(context, e->pool, e->split, &s->view));
    CST_THEN(cst_map_state_rows(context, e->pool, e->split, s));
    s->fitted_cases = cst_pool_cases(e->pool, cst_evaluation_fitted(e));
    return status;
}

static cst_status open(cst_context *context, cst_evaluation *e) {
    const cst_compare_options *options = e->options;
    cst_options *read = NULL;
    state *s = cst_alloc(context, 1, sizeof *s);
    if (!s)
        return CST_ERROR_MEMORY;
    e->data = s;
    cst_status status = cst_method_options(context, "default", options->seed, options->settings,
                                           options->setting_count, &read);
    if (status != CST_OK)
        return status;
    cst_segment_settings_read(read, &s->settings);
    int32_t folds = (int32_t)cst_option_integer(read, CST_OPT_FOLDS_COUNT);
    cst_options_free(context, read);
    status = cst_sampled_open(context, e, &s->settings, 0, folds, &s->plain);
    if (s->settings.balance > 0)
        CST_THEN(
            cst_sampled_open(context, e, &s->settings, s->settings.balance, folds, &s->balanced));
    CST_THEN(open_rows(context, e, s));
    e->source = &s->plain.source;
    return status;
}

/* Sampled pixels, and other orders of the maps that they are from. */
static cst_status check_data(cst_context *context, cst_evaluation *e) {
    const state *s = state_of(e);
    cst_view view = {0};
    cst_map_orders orders = {0};
    cst_status status = cst_pool_view(context, e->pool, cst_evaluation_fitted(e), &view);
    CST_THEN(cst_map_orders_make(context, cst_evaluation_fitted(e), s->fitted_cases, view.labels,
                                 view.classes, &s->plain.sample, &orders));
    CST_THEN(cst_training_check(context, s->plain.sample.pool, "oof", &s->plain.source,
                                &orders.hints, &e->findings));
    cst_map_orders_free(context, &orders);
    return status;
}

static void close_sampled(cst_context *context, sampled *g, bool narrowed) {
    if (narrowed) {
        cst_training_part_free(context, &g->part);
    } else {
        cst_training_close(context, &g->source);
        cst_pixel_sample_free(context, &g->sample);
    }
}

static void close_state(cst_context *context, cst_evaluation *e) {
    state *s = e->data;
    if (!s)
        return;
    close_sampled(context, &s->plain, s->narrowed);
    close_sampled(context, &s->balanced, s->narrowed);
    cst_free(context, s->pointers);
    cst_free(context, s->offsets);
    cst_free(context, s);
    e->data = NULL;
}

static cst_status narrow_sampled(cst_context *context, const sampled *whole,
                                 const cst_evaluation *e, sampled *out) {
    *out = *whole;
    cst_status status =
        cst_training_part_make(context, &whole->source, e->positions, e->members, &out->part);
    out->source = out->part.source;
    return status;
}

static cst_status narrow(cst_context *context, const cst_evaluation *e, cst_evaluation *out) {
    const state *whole = state_of(e);
    state *s = cst_alloc(context, 1, sizeof *s);
    if (!s)
        return CST_ERROR_MEMORY;
    *s = *whole;
    s->plain.part = s->balanced.part = (cst_training_part){0};
    s->narrowed = true;
    s->pointers = cst_alloc(context, (size_t)out->members, sizeof *s->pointers);
    out->data = s;
    out->source = &s->plain.source;
    cst_status status =
        s->pointers ? narrow_sampled(context, &whole->plain, out, &s->plain) : CST_ERROR_MEMORY;
    if (s->settings.balance > 0)
        CST_THEN(narrow_sampled(context, &whole->balanced, out, &s->balanced));
    if (status == CST_OK)
        s->view = cst_view_members(&whole->view, out->positions, out->members, s->pointers);
    return status;
}

/* ---- methods ---- */

static cst_status read_decision(cst_context *context, const cst_evaluation *e,
                                const char *const *settings, int32_t count, map_method *out) {
    cst_options *read = NULL;
    cst_segment_settings found;
    cst_status status =
        cst_method_options(context, out->rows.preset, e->options->seed, settings, count, &read);
    if (status != CST_OK)
        return status;
    cst_segment_settings_read(read, &found);
    out->decide = found.decide;
    cst_options_free(context, read);
    return CST_OK;
}

static cst_status parse(cst_context *context, const cst_evaluation *e, const char *const *settings,
                        int32_t count, cst_entry *entry) {
    map_method *method = cst_alloc(context, 1, sizeof *method);
    if (!method)
        return CST_ERROR_MEMORY;
    entry->method = method;
    cst_status status =
        cst_method_parse(context, entry->name, e->options->seed, settings, count, &method->rows);
    if (status != CST_OK)
        return status;
    cst_settings_pool_only(&method->rows.settings);
    entry->preset = method->rows.preset;
    entry->definition = strcmp(entry->name, "best-single") == 0
                            ? CST_BEST_SINGLE_MIOU
                            : cst_method_definition(&method->rows);
    return entry->preset ? read_decision(context, e, settings, count, method) : CST_OK;
}

static bool applies(const cst_evaluation *e, const cst_entry *entry) {
    return cst_method_applies(&((const map_method *)entry->method)->rows, e->source);
}

static cst_status check(cst_context *context, const cst_evaluation *e, const cst_entry *entry) {
    return cst_method_check(context, &((const map_method *)entry->method)->rows, e->pool,
                            e->source);
}

static void free_entry(cst_context *context, cst_entry *entry) {
    if (entry->result)
        cst_map_scores_free(context, entry->result);
    cst_free(context, entry->result);
    if (entry->method)
        cst_free(context, ((map_method *)entry->method)->offsets);
    cst_free(context, entry->method);
}

/* ---- one method ---- */

static cst_status keep_offsets(cst_context *context, const double *offsets, int32_t classes,
                               double **out) {
    *out = cst_alloc(context, (size_t)classes, sizeof **out);
    if (!*out)
        return CST_ERROR_MEMORY;
    memcpy(*out, offsets, (size_t)classes * sizeof **out);
    return CST_OK;
}

/* model: gets the offsets of the fit on all rows, where there are some; NULL: not wanted. */
static cst_status score(cst_context *context, const cst_evaluation *e, const sampled *g,
                        const cst_method_fit *fit, bool decide, double **model,
                        cst_map_scores *out) {
    const state *s = state_of(e);
    cst_fold_fits fits = {0};
    double *offsets = NULL;
    const void *place = fit;
    cst_scoring scoring = {.cases = s->cases,
                           .view = s->view,
                           .boundary = s->settings.boundary,
                           .predict = cst_predict_by_method,
                           .fits = &place};
    cst_status status = CST_OK;
    cst_nesting nesting = {&fit->method,    &g->source,
                           &g->sample,      &g->settings,
                           s->fitted_cases, cst_pool_labels(e->pool, cst_evaluation_fitted(e))};
    if ((e->nested && !e->unscored) || decide)
        status = cst_fold_fits_make(context, &nesting, &fits);
    if (decide)
        CST_THEN(cst_fold_offsets(context, &nesting, &fits, e->nested && !e->unscored, &offsets));
    const double *whole = offsets ? offsets + (size_t)fits.count * (size_t)s->view.classes : NULL;
    if (whole && model)
        CST_THEN(keep_offsets(context, whole, s->view.classes, model));
    scoring.offsets = offsets;
    if (e->nested) {
        scoring.fits = fits.places;
        scoring.fit_of = fits.fit_of;
        scoring.offsets_by_fit = true;
    } else
        scoring.offsets = whole;
    if (!e->unscored)
        CST_THEN(cst_maps_score(context, &scoring, out));
    cst_fold_fits_free(context, &fits);
    cst_free(context, offsets);
    return status;
}

static cst_status run(cst_context *context, const cst_evaluation *e, cst_entry *entry) {
    const state *s = state_of(e);
    map_method *method = entry->method;
    const sampled *g = s->settings.balance > 0 && cst_method_takes_balance(&method->rows)
                           ? &s->balanced
                           : &s->plain;
    cst_method_fit fit = {0};
    cst_map_scores *scores = cst_alloc(context, 1, sizeof *scores);
    if (!scores)
        return CST_ERROR_MEMORY;
    entry->result = scores;
    cst_status status =
        cst_method_fit_run(context, &method->rows, &g->source, e->options->seed, &fit);
    CST_THEN(cst_method_prefer_miou(context, &g->source, -1, &fit));
    CST_THEN(
        cst_method_prior_correct(context, g->sample.prior, g->sample.share, &g->settings, &fit));
    CST_THEN(
        score(context, e, g, &fit, method->decide, entry->keep ? &method->offsets : NULL, scores));
    if (status == CST_OK) {
        cst_entry_take_fit(&fit, entry);
        if (!e->unscored)
            cst_map_score_values(scores, entry->scores);
    }
    if (entry->keep)
        CST_THEN(cst_method_fit_model(context, &fit, &entry->made));
    cst_method_fit_free(context, &fit);
    return status;
}

static cst_status label_model(cst_context *context, const cst_evaluation *e,
                              const cst_options *options, cst_entry *entry) {
    const state *s = state_of(e);
    const map_method *method = entry->method;
    cst_model *model = entry->made.model;
    cst_status status = cst_fit_label_rows(context, s->plain.sample.pool, "oof", e->source, options,
                                           entry->name, entry->made.kept, model);
    CST_THEN(cst_map_relabel(context, e->pool, cst_evaluation_fitted(e), options, model));
    if (method->offsets)
        CST_THEN(cst_offsets_store(context, method->offsets, model));
    return status;
}

/* ---- intervals and tests ---- */

static cst_status bootstrap(cst_context *context, const cst_evaluation *e,
                            const cst_entry *const *entries, int32_t count, int32_t reference,
                            int32_t resamples, cst_intervals *out) {
    const cst_map_scores **all = cst_alloc(context, (size_t)count, sizeof *all);
    if (!all)
        return CST_ERROR_MEMORY;
    for (int32_t m = 0; m < count; m++)
        all[m] = entries[m]->result;
    cst_status status =
        cst_map_bootstrap(context, all, count, reference, resamples, e->options->seed, out);
    cst_free(context, (void *)all);
    return status;
}

/* ---- documents ---- */

static void put_size(cst_report *report, const cst_evaluation *e) {
    const state *s = state_of(e);
    cst_map_put_size(report, s->cases, s->pixels, s->view.classes, s->settings.boundary);
    if (e->brief)
        return;
    json_t *sample = cst_report_object(report, cst_report_root(report), "sample");
    cst_report_integer(report, sample, "pixels", s->plain.sample.rows);
    cst_report_number(report, sample, "balance", s->settings.balance);
}

static cst_status put_row(cst_context *context, cst_report *report, json_t *row,
                          const cst_evaluation *e, const cst_entry *entry) {
    const cst_map_scores *scores = entry->result;
    (void)context;
    cst_map_put_present(report, row, scores);
    if (e->brief)
        return CST_OK;
    cst_report_string(report, row, "decision",
                      ((const map_method *)entry->method)->decide ? "miou" : "argmax");
    cst_report_number(report, row, "seconds_scored", scores->seconds);
    return CST_OK;
}

static const char *const BASELINES[] = {"best-single", "average", "greedy", "greedy+temperature",
                                        NULL};

const cst_task_ops cst_segmentation_ops = {
    .task = CST_TASK_SEGMENTATION,
    .unit = "cases",
    .fit = cst_segmentation_fit,
    .inspect = cst_segmentation_inspect,
    .evaluate_member = cst_segmentation_evaluate_member,
    .method_name = cst_method_name,
    .default_methods = DEFAULT_METHODS,
    .definition = cst_segmentation_definition,
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
    .hash = cst_hash_rows,
    .bootstrap = bootstrap,
    .tested = {"miou", "nll"},
    .open_model = cst_map_open_model,
    .run_model = cst_map_run_model,
    .seen = cst_map_seen,
    .open_baselines = cst_map_open_baselines,
    .baselines = BASELINES,
    .put_own = cst_map_put_own,
    .profile = &cst_profile_maps,
    .put_size = put_size,
    .put_row = put_row,
};
