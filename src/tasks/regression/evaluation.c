/*
 * The table of regression: what is fitted on and scored, one method's run, bootstrap, tests.
 * Chosen by src/tasks. Paper: section "Results"; docs/regression.md.
 */
#include "fit/label.h"
#include "fit/profile.h"
#include "stats/regression.h"
#include "stats/weighted.h"
#include "tasks/regression/check.h"
#include "tasks/regression/document.h"
#include "tasks/regression/methods.h"
#include "tasks/regression/redundant.h"
#include "tasks/regression/regression.h"

#include <string.h>

typedef cst_value_state state;
typedef cst_value_predictions predicted;

static const state *state_of(const cst_evaluation *e) {
    return e->data;
}

/* ---- opening ---- */

static cst_status open(cst_context *context, cst_evaluation *e) {
    const cst_compare_options *options = e->options;
    const char *fitted = cst_evaluation_fitted(e);
    cst_value_method method;
    state *s;
    CST_TRY(cst_value_state_make(context, e, &s));
    CST_TRY(cst_value_method_parse(context, "default", options->seed, options->settings,
                                   options->setting_count, &method));
    CST_TRY(cst_value_state_source(context, e, fitted, method.settings.folds, true, s));
    size_t members = (size_t)s->source.view.members;
    e->pearson = cst_alloc(context, members * members, sizeof *e->pearson);
    if (!e->pearson)
        return CST_ERROR_MEMORY;
    cst_value_pearson(s->moments, s->source.view.classes, e->pearson);
    s->rows = s->source.view;
    if (e->nested)
        return CST_OK;
    CST_TRY(cst_value_state_rows(context, e, s));
    return s->rows.targets ? CST_OK
                           : cst_fail(context, CST_ERROR_INPUT,
                                      "split '%s' has no targets to score against", e->split);
}

static cst_status cka(cst_context *context, const cst_evaluation *e, const cst_cka_options *options,
                      cst_cka_result *out) {
    const state *s = state_of(e);
    return cst_value_cka(context, &s->source.view, &s->scaling, options, out);
}

static void close_state(cst_context *context, cst_evaluation *e) {
    state *s = e->data;
    if (s)
        cst_scope_free(&s->scope);
    cst_free(context, s);
    e->data = NULL;
}

CST_OWNED(cst_training_part)

static cst_status narrow(cst_context *context, const cst_evaluation *e, cst_evaluation *out) {
    const state *whole = state_of(e);
    const float **pointers;
    state *s;
    CST_TRY(cst_value_state_make(context, out, &s));
    s->scaling = whole->scaling;
    CST_TAKE(context, &s->scope, pointers, out->members);
    CST_OWN(context, &s->scope, cst_training_part, &s->part);
    CST_TRY(
        cst_training_part_make(context, &whole->source, out->positions, out->members, &s->part));
    s->source = s->part.source;
    s->rows = cst_view_members(&whole->rows, out->positions, out->members, pointers);
    out->source = &s->source;
    return cst_value_state_moments(context, s);
}

/* ---- methods ---- */

static cst_status parse(cst_context *context, const cst_evaluation *e, const char *const *settings,
                        int32_t count, cst_entry *entry) {
    cst_value_method *method = entry->method = cst_alloc(context, 1, sizeof *method);
    if (!method)
        return CST_ERROR_MEMORY;
    CST_TRY(
        cst_value_method_parse(context, entry->name, e->options->seed, settings, count, method));
    entry->preset = method->preset;
    entry->definition = method->definition;
    return CST_OK;
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
    if (p)
        cst_scope_free(&p->scope);
    cst_free(context, p);
    cst_free(context, entry->method);
}

/* ---- one method ---- */

static cst_status run(cst_context *context, const cst_evaluation *e, cst_entry *entry) {
    predicted *p = entry->result = cst_alloc(context, 1, sizeof *p);
    if (!p)
        return CST_ERROR_MEMORY;
    CST_TRY(cst_value_method_run(context, e, entry, p));
    return e->unscored ? CST_OK : cst_value_state_score(context, state_of(e), p, entry->scores);
}

static cst_status label_model(cst_context *context, const cst_evaluation *e,
                              const cst_options *options, cst_entry *entry) {
    return cst_value_label(context, e->pool, cst_evaluation_fitted(e), e->source, options,
                           entry->name, entry->made.kept, entry->made.model);
}

static cst_status tell(cst_context *context, const cst_evaluation *e, const cst_entry *entry) {
    const predicted *p = entry->result;
    const cst_view *rows = &state_of(e)->rows;
    return cst_tell_predicted(context, e, entry->name, e->split, p->result.array[0], rows->rows,
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
    cst_predicted_values *all;
    cst_value_intervals *found;
    CST_SCOPE(scope);
    CST_TAKE(context, scope, all, n);
    CST_TAKE(context, scope, found, 2 * n);
    for (size_t m = 0; m < n; m++)
        all[m] = *values_of(entries[m]);
    const cst_value_bootstrap_input input = {.predicted = all,
                                             .methods = count,
                                             .targets = rows->targets,
                                             .weights = rows->weights,
                                             .resamples = resamples,
                                             .seed = e->options->seed,
                                             .reference = reference};
    CST_TRY(cst_value_bootstrap_weighted(context, &input, found, found + n));
    for (size_t m = 0; m < n; m++) {
        take_intervals(&found[m], out->interval + m * COUNT);
        take_intervals(&found[n + m], out->difference + m * COUNT);
    }
    out->done = true;
    return CST_OK;
}

/* A method's squared errors [rows] times the weights of the rows. */
static cst_status row_errors(cst_context *context, const cst_view *rows, const cst_entry *entry,
                             double *out) {
    CST_TRY(cst_value_errors(context, values_of(entry), rows->targets, out));
    for (int64_t i = 0; rows->weights && i < rows->rows; i++)
        out[i] *= rows->weights[i];
    return CST_OK;
}

static cst_status tests(cst_context *context, const cst_evaluation *e, const cst_entry *entries,
                        int32_t count, int32_t reference, cst_pair_test *out) {
    const cst_view *rows = &state_of(e)->rows;
    double *errors;
    if (rows->rows < 2)
        return CST_OK;
    CST_SCOPE(scope);
    CST_TAKE(context, scope, errors, 2 * rows->rows);
    CST_TRY(row_errors(context, rows, &entries[reference], errors));
    for (int32_t m = 0; m < count; m++) {
        cst_t_test test;
        if (m == reference)
            continue;
        CST_TRY(row_errors(context, rows, &entries[m], errors + rows->rows));
        CST_TRY(cst_paired_t_test(context, errors, errors + rows->rows, rows->rows, &test));
        out[m * CST_PAIR_TESTS_MAX] = cst_pair_of_t("squared_error", &test);
    }
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
