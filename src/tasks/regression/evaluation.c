/*
 * The table of regression: what is fitted on and scored, one method's run, bootstrap, tests.
 * Chosen by src/tasks. Paper: section "Results"; docs/regression.md.
 */
#include "data/pool/subset.h"
#include "fit/harness.h"
#include "fit/label.h"
#include "fit/profile.h"
#include "stats/regression.h"
#include "stats/weighted.h"
#include "tasks/regression/check.h"
#include "tasks/regression/document.h"
#include "tasks/regression/methods.h"
#include "tasks/regression/redundant.h"
#include "tasks/regression/regression.h"
#include "tasks/regression/state.h"

#include <string.h>

typedef cst_value_state state;
typedef cst_value_predictions predicted;

static const state *state_of(const cst_evaluation *e) {
    return e->data;
}

/* ---- opening ---- */

static cst_status open_rows(cst_context *context, const cst_evaluation *e, state *s) {
    if (e->nested) {
        s->rows = s->source.view;
        return CST_OK;
    }
    cst_status status = cst_pool_load(context, e->pool, e->split);
    CST_THEN(cst_counted_open(context, e->pool, e->split, NULL, 0, &s->counted));
    s->rows = s->counted.view;
    if (status == CST_OK && !s->rows.targets)
        status = cst_fail(context, CST_ERROR_INPUT, "split '%s' has no targets to score against",
                          e->split);
    return status;
}

static void release(cst_context *context, void *data) {
    state *s = data;
    if (s->moments)
        cst_value_moments_free(context, s->moments, s->source.view.classes);
    cst_free(context, s->moments);
    if (s->part)
        return;
    cst_scaling_free(context, &s->scaling);
    cst_counted_close(context, &s->counted);
    cst_counted_close(context, &s->model_rows);
    cst_training_close(context, &s->source);
}

static cst_status open(cst_context *context, cst_evaluation *e, const cst_model *model) {
    const cst_compare_options *options = e->options;
    cst_value_method method;
    if (e->data)
        return cst_value_open_baselines(context, e);
    state *s = cst_evaluation_data(context, e, sizeof *s, release);
    if (!s)
        return CST_ERROR_MEMORY;
    if (model)
        return cst_value_open_model(context, e, model);
    cst_status status = cst_value_method_parse(context, "default", options->seed, options->settings,
                                               options->setting_count, &method);
    CST_THEN(cst_training_open(context, e->pool, cst_evaluation_fitted(e), method.settings.folds,
                               options->seed, &s->source));
    CST_THEN(cst_value_check_folds(context, cst_evaluation_fitted(e), s->source.folds,
                                   s->source.view.rows, s->source.fold_count));
    CST_THEN(cst_value_check_units(context, e->pool, cst_evaluation_fitted(e), true));
    CST_THEN(cst_scaling_make(context, &s->source.view, &s->scaling));
    CST_THEN(cst_value_state_moments(context, s));
    if (status != CST_OK)
        return status;
    size_t members = (size_t)s->source.view.members;
    e->source = &s->source;
    CST_TAKE(context, &e->scope, e->pearson, members * members);
    cst_value_pearson(s->moments, s->source.view.classes, e->pearson);
    return open_rows(context, e, s);
}

static cst_status cka(cst_context *context, const cst_evaluation *e, const cst_cka_options *options,
                      cst_cka_result *out) {
    const state *s = state_of(e);
    return cst_value_cka(context, &s->source.view, &s->scaling, options, out);
}

static cst_status subset(cst_context *context, const cst_evaluation *e, cst_evaluation *out) {
    const state *whole = state_of(e);
    const float **pointers;
    state *s = cst_evaluation_data(context, out, sizeof *s, release);
    if (!s)
        return CST_ERROR_MEMORY;
    s->part = true;
    s->scaling = whole->scaling;
    CST_TRY(cst_training_part(context, &out->scope, &whole->source, out->positions, out->members,
                              &s->source));
    CST_TAKE(context, &out->scope, pointers, out->members);
    s->rows = cst_view_members(&whole->rows, out->positions, out->members, pointers);
    out->source = &s->source;
    return cst_value_state_moments(context, s);
}

/* ---- methods ---- */

static cst_status parse(cst_context *context, const cst_evaluation *e, const char *const *settings,
                        int32_t count, cst_entry *entry) {
    cst_value_method *method = cst_entry_method(context, entry, sizeof *method);
    if (!method)
        return CST_ERROR_MEMORY;
    CST_TRY(
        cst_value_method_parse(context, entry->name, e->options->seed, settings, count, method));
    entry->preset = method->preset;
    entry->definition = method->definition;
    entry->settings = &method->settings;
    if (method->baseline && !method->baseline->fit)
        entry->tags = cst_tagged_rule_of(method->baseline->kind);
    return CST_OK;
}

static void release_result(cst_context *context, void *result) {
    predicted *p = result;
    cst_value_entry_free(context, &p->entry);
    cst_value_result_free(context, &p->result);
    cst_free(context, p->each);
}

/* ---- one method ---- */

static cst_status run(cst_context *context, const cst_evaluation *e, const cst_model *model,
                      cst_entry *entry) {
    const state *s = state_of(e);
    cst_value_place place = {.made = entry->keep ? &entry->made : NULL,
                             .unscored = e->unscored,
                             .source = &s->source,
                             .rows = e->nested ? NULL : &s->rows,
                             .scaling = &s->scaling,
                             .moments = s->moments};
    predicted *p = cst_entry_result(context, entry, sizeof *p, release_result);
    if (!p)
        return CST_ERROR_MEMORY;
    if (model)
        return cst_value_run_model(context, e, model, entry);
    cst_status status = cst_value_entry_run(context, &place, entry->method, &p->entry);
    p->values = &p->entry.result.values;
    if (!e->unscored)
        CST_THEN(cst_value_state_score(context, s, p, entry->scores));
    if (status != CST_OK)
        return status;
    memcpy(entry->uses, p->entry.uses, (size_t)e->members * sizeof *entry->uses);
    entry->weights = p->entry.weights;
    p->entry.weights = NULL;
    entry->mix = entry->weights ? CST_MIX_LINEAR : CST_MIX_OTHER;
    entry->seconds = p->entry.seconds;
    (void)cst_snprintf(entry->detail, sizeof entry->detail, "%s", p->entry.detail);
    return status;
}

static cst_status label(cst_context *context, const cst_evaluation *e, const cst_options *options,
                        cst_entry *entry) {
    return cst_value_label(context, e->pool, cst_evaluation_fitted(e), e->source, options,
                           entry->name, entry->made.kept, entry->made.model);
}

static bool told(const cst_evaluation *e, const cst_entry *entry, int32_t index, cst_told *out) {
    const predicted *p = entry->result;
    const cst_view *rows = &state_of(e)->rows;
    *out = (cst_told){e->split, p->entry.result.mean, rows->rows, rows->classes};
    return index == 0;
}

/* ---- intervals and tests ---- */

static const cst_predicted_values *values_of(const cst_entry *entry) {
    return ((const predicted *)entry->result)->values;
}

/* In the order of the table of scores; the median error has none. */
static void take_intervals(const cst_value_intervals *from, cst_interval *to) {
    to[0] = from->rmse;
    to[1] = from->mae;
    to[3] = from->r2;
    to[4] = from->nll;
}

static cst_status bootstrap(cst_context *context, const cst_evaluation *e,
                            const cst_entry *const *entries, int32_t count, int32_t reference,
                            int32_t resamples, cst_intervals *out) {
    enum { COUNT = 5 };
    const cst_view *rows = &state_of(e)->rows;
    size_t n = (size_t)count;
    cst_predicted_values *all = cst_alloc(context, n, sizeof *all);
    cst_value_intervals *found = cst_alloc(context, 2 * n, sizeof *found);
    cst_status status = all && found ? CST_OK : CST_ERROR_MEMORY;
    for (size_t m = 0; status == CST_OK && m < n; m++)
        all[m] = *values_of(entries[m]);
    const cst_value_bootstrap_input input = {.predicted = all,
                                             .methods = count,
                                             .targets = rows->targets,
                                             .weights = rows->weights,
                                             .resamples = resamples,
                                             .seed = e->options->seed,
                                             .reference = reference};
    CST_THEN(cst_value_bootstrap_weighted(context, &input, found, found + n));
    for (size_t m = 0; status == CST_OK && m < n; m++) {
        take_intervals(&found[m], out->interval + m * COUNT);
        take_intervals(&found[n + m], out->difference + m * COUNT);
    }
    out->done = status == CST_OK;
    cst_free(context, all);
    cst_free(context, found);
    return status;
}

/* Squared errors. */
static cst_status losses(cst_context *context, cst_scope *scope, const cst_evaluation *e,
                         const cst_entry *entry, cst_losses *out) {
    const cst_view *rows = &state_of(e)->rows;
    *out = (cst_losses){.metric = "squared_error", .samples = rows->rows};
    CST_TAKE(context, scope, out->loss, rows->rows);
    CST_TRY(cst_value_errors(context, values_of(entry), rows->targets, out->loss));
    for (int64_t i = 0; rows->weights && i < rows->rows; i++)
        out->loss[i] *= rows->weights[i];
    return CST_OK;
}

/* ---- documents ---- */

static void put_size(cst_report *report, const cst_evaluation *e) {
    const cst_view *rows = &state_of(e)->rows;
    cst_report_integer(report, cst_report_root(report), "samples", rows->rows);
    if (rows->weights)
        cst_report_number(report, cst_report_root(report), "effective_samples",
                          cst_view_effective_rows(rows));
    cst_report_integer(report, cst_report_root(report), "output_count", state_of(e)->rows.classes);
}

static const char *definition(const char *score) {
    return cst_metric_definition(strcmp(score, "nll") == 0 ? "nll_gaussian" : score);
}

static cst_status describe(cst_context *context, cst_part part, const cst_description *d) {
    const predicted *p = d->entries ? d->entries->result : NULL;
    int32_t outputs = state_of(d->e)->rows.classes;
    switch (part) {
    case CST_PART_SIZE:
        put_size(d->report, d->e);
        break;
    case CST_PART_ROW:
        cst_value_put_coverage(d->report, d->object, &p->scores);
        if (outputs > 1 || d->e->brief)
            (void)cst_value_put_outputs(d->report, d->object, d->e->pool, p->each, outputs);
        break;
    case CST_PART_OWN:
        return cst_value_put_own(context, d->report, d->e, d->entries);
    case CST_PART_DEFINITIONS:
        cst_report_string(d->report, d->object, "coverage", definition("coverage"));
        cst_report_string(d->report, d->object, "width", definition("width"));
        break;
    default:
        break;
    }
    return CST_OK;
}

static const char *const BASELINES[] = {"best-single", "average", "greedy", NULL};

const cst_task_ops cst_regression_ops = {
    .task = CST_TASK_REGRESSION,
    .unit = "samples",
    .baselines = BASELINES,
    .fit = cst_regression_fit,
    .inspect = cst_regression_inspect,
    .evaluate_member = cst_regression_evaluate_member,
    .method_name = cst_value_method_name,
    .definition = definition,
    .open = open,
    .subset = subset,
    .cka = cka,
    .parse = parse,
    .run = run,
    .told = told,
    .label = label,
    .hash = cst_hash_rows,
    .seen = cst_value_seen,
    .bootstrap = bootstrap,
    .losses = losses,
    .describe = describe,
    .profile = &cst_profile_rows,
};
