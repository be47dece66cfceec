/*
 * The table of regression: what is fitted on and scored, one method's run, bootstrap, tests.
 * Chosen by src/tasks. Paper: section "Results"; docs/regression.md.
 */
#include "data/pool/pool.h"
#include "fit/label.h"
#include "fit/profile.h"
#include "stats/row_weights.h"
#include "tasks/regression/methods.h"
#include "tasks/regression/regression.h"
#include "tasks/regression/stages.h"

#include <string.h>

typedef cst_value_state state;
typedef cst_value_predictions predicted;

static const state *state_of(const cst_evaluation *e) {
    return e->data;
}

/* ---- opening ---- */

static cst_status open(cst_context *context, cst_evaluation *e, const cst_model *model) {
    const cst_compare_options *options = e->options;
    const char *fitted = cst_evaluation_fitted(e);
    cst_value_method method;
    if (e->data)
        return cst_value_open_baselines(context, e);
    state *s = cst_evaluation_data(context, e, sizeof *s, NULL);
    if (!s)
        return CST_ERROR_MEMORY;
    if (model)
        return cst_value_open_model(context, e, model);
    CST_TRY(cst_value_method_parse(context, "default", options->seed, options->settings,
                                   (int32_t)options->setting_count, &method));
    CST_TRY(cst_value_open_source(context, e, fitted, method.settings.folds, true));
    size_t members = (size_t)s->source.view.members;
    CST_TAKE(context, &e->scope, e->pearson, members * members);
    cst_value_pearson(s->moments, s->source.view.classes, e->pearson);
    s->rows = s->source.view;
    if (e->nested)
        return CST_OK;
    CST_TRY(cst_value_open_rows(context, e));
    return s->rows.targets ? CST_OK
                           : cst_fail(context, CST_ERROR_INPUT,
                                      "split '%s' has no targets to score against", e->split);
}

static cst_status cka(cst_context *context, const cst_evaluation *e, const cst_cka_options *options,
                      cst_cka_result *out) {
    const state *s = state_of(e);
    return cst_value_cka(context, &s->source.view, &s->scaling, options, out);
}

static cst_status subset(cst_context *context, const cst_evaluation *e, cst_evaluation *out) {
    const state *whole = state_of(e);
    state *s = cst_evaluation_data(context, out, sizeof *s, NULL);
    if (!s)
        return CST_ERROR_MEMORY;
    s->scaling = whole->scaling;
    CST_TRY(cst_training_part(context, &out->scope, &whole->source, out->positions, out->members,
                              &s->source));
    CST_NEW(context, &out->scope, const float *, pointers, out->members);
    s->rows = cst_view_members(&whole->rows, out->positions, out->members, pointers);
    out->source = &s->source;
    return cst_value_find_moments(context, out);
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
    if (method->baseline)
        entry->tags = cst_ensemble_rule_of(method->baseline->kind);
    return CST_OK;
}

/* ---- one method ---- */

static cst_status run(cst_context *context, const cst_evaluation *e, const cst_model *model,
                      cst_entry *entry) {
    const cst_view *rows = &state_of(e)->rows;
    predicted *p = cst_entry_result(context, entry, sizeof *p, NULL);
    if (!p)
        return CST_ERROR_MEMORY;
    p->values = &p->result.values;
    CST_TRY(cst_value_result_make(context, &entry->scope, rows->rows, rows->classes, &p->result));
    if (!model)
        CST_TRY(cst_value_method_run(context, e, entry, &p->result));
    else
        CST_TRY(cst_value_run_model(context, e, model, &p->result));
    return e->unscored ? CST_OK : cst_value_score(context, e, entry);
}

static cst_status label(cst_context *context, const cst_evaluation *e, const cst_options *options,
                        cst_entry *entry) {
    return cst_value_label(context, e->pool, cst_evaluation_fitted(e), e->source, options,
                           entry->name, entry->made.kept, entry->made.model);
}

static bool told(const cst_evaluation *e, const cst_entry *entry, int32_t index, cst_told *out) {
    const predicted *p = entry->result;
    const cst_view *rows = &state_of(e)->rows;
    *out = (cst_told){e->split, p->result.array[0], rows->rows, rows->classes};
    return index == 0;
}

/* ---- intervals and tests ---- */

static const cst_predicted_values *values_of(const cst_entry *entry) {
    return ((const predicted *)entry->result)->values;
}

static cst_status bootstrap(cst_context *context, const cst_evaluation *e,
                            const cst_entry *const *entries, int32_t count, int32_t reference,
                            int32_t resamples, cst_intervals *out) {
    const cst_view *rows = &state_of(e)->rows;
    CST_SCOPE(scope);
    CST_NEW(context, scope, cst_predicted_values, all, count);
    for (int32_t m = 0; m < count; m++)
        all[m] = *values_of(entries[m]);
    const cst_value_bootstrap_input input = {.predicted = all,
                                             .methods = count,
                                             .targets = rows->targets,
                                             .weights = rows->weights,
                                             .resamples = resamples,
                                             .seed = e->options->seed,
                                             .reference = reference};
    CST_TRY(cst_value_bootstrap_weighted(context, &input, out->interval, out->difference, out->p));
    out->done = true;
    return CST_OK;
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
            /* NOLINTNEXTLINE(clang-analyzer-core.NullDereference) */
            (void)cst_value_put_outputs(d->report, d->object, d->e->pool, p->each, outputs);
        break;
    case CST_PART_OWN:
        return cst_value_put_own(context, d->report, d->e, d->entries);
    case CST_PART_DEFINITIONS:
        CST_PUT(d->report, d->object, CST_S("coverage", definition("coverage")),
                CST_S("width", definition("width")));
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
