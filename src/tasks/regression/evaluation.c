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

static cst_status open(cst_context *context, cst_evaluation *e) {
    const cst_compare_options *options = e->options;
    cst_value_method method;
    state *s = cst_alloc(context, 1, sizeof *s);
    if (!s)
        return CST_ERROR_MEMORY;
    e->data = s;
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
    e->pearson = cst_alloc(context, members * members, sizeof *e->pearson);
    if (!e->pearson)
        return CST_ERROR_MEMORY;
    cst_value_pearson(s->moments, s->source.view.classes, e->pearson);
    return open_rows(context, e, s);
}

static cst_status cka(cst_context *context, const cst_evaluation *e, const cst_cka_options *options,
                      cst_cka_result *out) {
    const state *s = state_of(e);
    return cst_value_cka(context, &s->source.view, &s->scaling, options, out);
}

static void close_state(cst_context *context, cst_evaluation *e) {
    state *s = e->data;
    if (!s)
        return;
    if (s->moments)
        cst_value_moments_free(context, s->moments, s->source.view.classes);
    cst_free(context, s->moments);
    cst_free(context, s->pointers);
    if (s->narrowed) {
        cst_training_part_free(context, &s->part);
    } else {
        cst_scaling_free(context, &s->scaling);
        cst_counted_close(context, &s->counted);
        cst_counted_close(context, &s->model_rows);
        cst_training_close(context, &s->source);
    }
    cst_free(context, s);
    e->data = NULL;
}

static cst_status narrow(cst_context *context, const cst_evaluation *e, cst_evaluation *out) {
    const state *whole = state_of(e);
    state *s = cst_alloc(context, 1, sizeof *s);
    if (!s)
        return CST_ERROR_MEMORY;
    out->data = s;
    s->narrowed = true;
    s->scaling = whole->scaling;
    s->pointers = cst_alloc(context, (size_t)out->members, sizeof *s->pointers);
    cst_status status = s->pointers ? cst_training_part_make(context, &whole->source,
                                                             out->positions, out->members, &s->part)
                                    : CST_ERROR_MEMORY;
    if (status != CST_OK)
        return status;
    s->source = s->part.source;
    s->rows = cst_view_members(&whole->rows, out->positions, out->members, s->pointers);
    out->source = &s->source;
    return cst_value_state_moments(context, s);
}

/* ---- methods ---- */

static cst_status parse(cst_context *context, const cst_evaluation *e, const char *const *settings,
                        int32_t count, cst_entry *entry) {
    cst_value_method *method = cst_alloc(context, 1, sizeof *method);
    if (!method)
        return CST_ERROR_MEMORY;
    entry->method = method;
    cst_status status =
        cst_value_method_parse(context, entry->name, e->options->seed, settings, count, method);
    if (status == CST_OK) {
        entry->preset = method->preset;
        entry->definition = method->definition;
    }
    return status;
}

static bool applies(const cst_evaluation *e, const cst_entry *entry) {
    const cst_value_method *method = entry->method;
    return !method->baseline ||
           cst_value_baseline_applies(method->baseline, e->source->ensembles, e->members);
}

static cst_status check(cst_context *context, const cst_evaluation *e, const cst_entry *entry) {
    const cst_settings *s = &((const cst_value_method *)entry->method)->settings;
    return cst_training_check_costs(context, e->pool, e->source, &s->limits);
}

static void free_entry(cst_context *context, cst_entry *entry) {
    predicted *p = entry->result;
    if (p) {
        cst_value_entry_free(context, &p->entry);
        cst_value_result_free(context, &p->result);
        cst_free(context, p->each);
    }
    cst_free(context, p);
    cst_free(context, entry->method);
}

/* ---- one method ---- */

static cst_status run(cst_context *context, const cst_evaluation *e, cst_entry *entry) {
    const state *s = state_of(e);
    cst_value_place place = {.made = entry->keep ? &entry->made : NULL,
                             .unscored = e->unscored,
                             .source = &s->source,
                             .rows = e->nested ? NULL : &s->rows,
                             .scaling = &s->scaling,
                             .moments = s->moments};
    predicted *p = cst_alloc(context, 1, sizeof *p);
    if (!p)
        return CST_ERROR_MEMORY;
    entry->result = p;
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

static cst_status label_model(cst_context *context, const cst_evaluation *e,
                              const cst_options *options, cst_entry *entry) {
    return cst_value_label(context, e->pool, cst_evaluation_fitted(e), e->source, options,
                           entry->name, entry->made.kept, entry->made.model);
}

static cst_status tell(cst_context *context, const cst_evaluation *e, const cst_entry *entry) {
    const predicted *p = entry->result;
    const cst_view *rows = &state_of(e)->rows;
    return cst_tell_predicted(context, e, entry->name, e->split, p->entry.result.mean, rows->rows,
                              rows->classes);
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

/* A method's squared errors [rows] times the weights of the rows. */
static cst_status row_errors(cst_context *context, const cst_view *rows, const cst_entry *entry,
                             double *out) {
    cst_status status = cst_value_errors(context, values_of(entry), rows->targets, out);
    for (int64_t i = 0; status == CST_OK && rows->weights && i < rows->rows; i++)
        out[i] *= rows->weights[i];
    return status;
}

static cst_status tests(cst_context *context, const cst_evaluation *e, const cst_entry *entries,
                        int32_t count, int32_t reference, cst_pair_test *out) {
    const cst_view *rows = &state_of(e)->rows;
    if (rows->rows < 2)
        return CST_OK;
    double *errors = cst_alloc(context, 2 * (size_t)rows->rows, sizeof *errors);
    cst_status status =
        errors ? row_errors(context, rows, &entries[reference], errors) : CST_ERROR_MEMORY;
    for (int32_t m = 0; status == CST_OK && m < count; m++) {
        cst_t_test test;
        if (m == reference)
            continue;
        status = row_errors(context, rows, &entries[m], errors + rows->rows);
        CST_THEN(cst_paired_t_test(context, errors, errors + rows->rows, rows->rows, &test));
        if (status == CST_OK)
            out[m * CST_PAIR_TESTS_MAX] = cst_pair_of_t("squared_error", &test);
    }
    cst_free(context, errors);
    return status;
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

static cst_status put_row(cst_context *context, cst_report *report, json_t *row,
                          const cst_evaluation *e, const cst_entry *entry) {
    const predicted *p = entry->result;
    int32_t outputs = state_of(e)->rows.classes;
    (void)context;
    cst_value_put_coverage(report, row, &p->scores);
    if (outputs > 1 || e->brief)
        (void)cst_value_put_outputs(report, row, e->pool, p->each, outputs);
    return CST_OK;
}

static const char *definition(const char *score) {
    return cst_metric_definition(strcmp(score, "nll") == 0 ? "nll_gaussian" : score);
}

static void put_definitions(cst_report *report, json_t *object, const cst_evaluation *e) {
    (void)e;
    cst_report_string(report, object, "coverage", definition("coverage"));
    cst_report_string(report, object, "width", definition("width"));
}

static const char *const BASELINES[] = {"best-single", "average", "greedy", NULL};

const cst_task_ops cst_regression_ops = {
    .task = CST_TASK_REGRESSION,
    .unit = "samples",
    .fit = cst_regression_fit,
    .inspect = cst_regression_inspect,
    .evaluate_member = cst_regression_evaluate_member,
    .method_name = cst_value_method_name,
    .definition = definition,
    .open = open,
    .close = close_state,
    .cka = cka,
    .narrow = narrow,
    .parse = parse,
    .check = check,
    .applies = applies,
    .run = run,
    .free_entry = free_entry,
    .label_model = label_model,
    .hash = cst_hash_rows,
    .bootstrap = bootstrap,
    .tests = tests,
    .tell = tell,
    .open_model = cst_value_open_model,
    .run_model = cst_value_run_model,
    .seen = cst_value_seen,
    .open_baselines = cst_value_open_baselines,
    .baselines = BASELINES,
    .put_own = cst_value_put_own,
    .profile = &cst_profile_rows,
    .put_size = put_size,
    .put_row = put_row,
    .put_definitions = put_definitions,
};
