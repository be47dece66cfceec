/* Scores of predicted values on a split, of a model or of a file. docs/regression.md. */
#include "core/la.h"
#include "data/checks/checks.h"
#include "model/fit_rows.h"
#include "stats/row_weights.h"
#include "tasks/regression/methods.h"
#include "tasks/regression/regression.h"
#include "tasks/regression/stages.h"

#include <string.h>

typedef cst_value_state state;
typedef cst_value_predictions predicted;

static state *state_of(const cst_evaluation *e) {
    return e->data;
}

/* ---- the state ---- */

CST_RELEASED(cst_counted, cst_counted_close)

cst_status cst_value_open_rows(cst_context *context, cst_evaluation *e) {
    state *s = state_of(e);
    CST_TRY(cst_pool_load(context, e->pool, e->split));
    CST_OWN(context, &e->scope, cst_counted, &s->counted);
    CST_TRY(cst_counted_open(context, e->pool, e->split, NULL, 0, &s->counted));
    s->rows = s->counted.view;
    return CST_OK;
}

cst_status cst_value_open_source(cst_context *context, cst_evaluation *e, const char *split,
                                 int32_t folds, bool check) {
    state *s = state_of(e);
    CST_OWN(context, &e->scope, cst_training, &s->source);
    CST_TRY(cst_training_open(context, e->pool, split, folds, e->options->seed, &s->source));
    e->source = &s->source;
    if (check)
        CST_TRY(cst_value_check(context, e->pool, split, &s->source));
    CST_TRY(cst_scaling_take(context, &e->scope, &s->source.view, &s->scaling));
    return cst_value_find_moments(context, e);
}

cst_status cst_value_find_moments(cst_context *context, cst_evaluation *e) {
    state *s = state_of(e);
    const cst_view *view = &s->source.view;
    cst_gate none = {.mode = CST_GATE_NONE, .inputs = view->members};
    CST_TAKE(context, &e->scope, s->moments, view->classes);
    return cst_value_moments(context, &e->scope, view, &s->scaling, &none, s->source.folds,
                             s->source.fold_count, s->moments);
}

cst_status cst_value_score(cst_context *context, const cst_evaluation *e, cst_entry *entry) {
    const cst_view *rows = &state_of(e)->rows;
    predicted *p = entry->result;
    CST_TAKE(context, &entry->scope, p->each, rows->classes);
    CST_TRY(cst_value_metrics_weighted(context, p->values, rows->targets, rows->weights, &p->scores,
                                       p->each));
    const double found[] = {p->scores.rmse, p->scores.mae, p->scores.median_ae, p->scores.r2,
                            p->scores.nll};
    memcpy(entry->scores, found, sizeof found);
    cst_value_intervals_tell(context, &p->scores);
    return CST_OK;
}

/* ---- document ---- */

/* Rows of one condition, of those that lie one after another. */
static cst_predicted_values part_of(const cst_predicted_values *whole, int32_t condition,
                                    int64_t rows, const float **halves) {
    size_t from = (size_t)condition * (size_t)rows * (size_t)whole->outputs;
    cst_predicted_values part = *whole;
    part.rows = rows;
    part.mean = whole->mean + from;
    part.variance = whole->variance ? whole->variance + from : NULL;
    for (int32_t l = 0; l < whole->levels; l++)
        halves[l] = whole->half_width[l] + from;
    part.half_width = halves;
    return part;
}

static cst_status put_conditions(cst_context *context, cst_report *report, const cst_evaluation *e,
                                 const cst_predicted_values *values) {
    const cst_view *rows = &state_of(e)->rows;
    int32_t conditions = (int32_t)cst_pool_conditions(e->pool, e->split);
    if (conditions == 0)
        return CST_OK;
    json_t *list = cst_report_list(report, cst_report_root(report), "conditions");
    for (int32_t k = 0; k < conditions; k++) {
        const float *halves[CST_LEVELS_MAX];
        cst_value_metrics average;
        cst_predicted_values part = part_of(values, k, rows->rows / conditions, halves);
        CST_TRY(cst_value_metrics_evaluate(context, &part, rows->targets, &average, NULL));
        json_t *object = cst_report_add_object(report, list);
        cst_put_condition(report, object, e->pool, e->split, k);
        cst_value_put_scores(report, object, &average);
    }
    return CST_OK;
}

cst_status cst_value_put_own(cst_context *context, cst_report *report, const cst_evaluation *e,
                             const cst_entry *entry) {
    cst_value_put_definitions(report);
    return put_conditions(context, report, e, ((const predicted *)entry->result)->values);
}

/* ---- a file of predictions ---- */

static cst_status no_targets(cst_context *context, const char *split) {
    return cst_fail(context, CST_ERROR_INPUT, "split '%s' has no targets to score against", split);
}

/* Notices of the rows scored. members: theirs. */
static cst_status check_rows(cst_context *context, const cst_pool *pool, const char *split,
                             const int32_t *members, const cst_counted *counted,
                             const cst_view *rows) {
    return cst_pool_conditions(pool, split) > 0
               ? CST_OK
               : cst_check_scored(context, &(cst_check_source){.pool = pool,
                                                               .split = split,
                                                               .view = rows,
                                                               .members = members,
                                                               .rows = counted->rows});
}

static cst_status score_member(cst_context *context, cst_evaluation *e, cst_entry *entry,
                               int32_t member, cst_report **report) {
    state s = {0};
    predicted p = {0};
    CST_SCOPE(scope);
    e->data = &s;
    entry->result = &p;
    CST_TRY(cst_report_begin(context, CST_REPORT_EVALUATE, report));
    CST_OWN(context, scope, cst_counted, &s.counted);
    CST_TRY(cst_counted_open(context, e->pool, e->split, &member, 1, &s.counted));
    s.rows = s.counted.view;
    CST_TRY(check_rows(context, e->pool, e->split, &member, &s.counted, &s.rows));
    if (!s.rows.targets)
        return no_targets(context, e->split);
    CST_NEW(context, scope, float, mean, ((size_t)s.rows.rows * (size_t)s.rows.classes));
    CST_TRY(cst_view_copy(context, &s.rows, 0, mean));
    CST_TRY(cst_value_check_units(context, e->pool, e->split, false));
    cst_predicted_values values = {.rows = s.rows.rows, .outputs = s.rows.classes, .mean = mean};
    p.values = &values;
    CST_TRY(cst_value_score(context, e, entry));
    cst_report_string(*report, cst_report_root(*report), "task", "regression");
    return cst_put_evaluation(context, *report, e, entry, 1);
}

cst_status cst_regression_evaluate_member(cst_context *context, const cst_task_ops *ops,
                                          const cst_pool *pool, const char *split, int32_t member,
                                          int32_t resamples, uint64_t seed, cst_report **report) {
    const cst_compare_options options = {.resamples = resamples, .seed = seed};
    cst_evaluation e = {.ops = ops,
                        .pool = (cst_pool *)(uintptr_t)pool, /* only looked at */
                        .options = &options,
                        .split = split,
                        .brief = true};
    cst_entry entry = {0};
    cst_notices_clear(context);
    CST_LA();
    cst_status status = score_member(context, &e, &entry, member, report);
    cst_scope_free(&entry.scope);
    return cst_finish_report(context, status, report);
}

/* ---- a model ---- */

/* The rows that count, with the members that the model reads. */
cst_status cst_value_open_model(cst_context *context, cst_evaluation *e, const cst_model *model) {
    int32_t count = 0;
    state *s = state_of(e);
    if (!model->values)
        return cst_fail(context, CST_ERROR_INPUT,
                        "the model has no variances, so it was not created by corestack fit");
    CST_SCOPE(scope);
    CST_NEW(context, scope, int32_t, positions,
            cst_model_inputs(model) + cst_pool_members(e->pool));
    CST_TRY(cst_scored_members(context, model, e->pool, e->split, positions, &count));
    CST_OWN(context, &e->scope, cst_counted, &s->model_rows);
    CST_TRY(cst_counted_open(context, e->pool, e->split, positions, count, &s->model_rows));
    s->rows = s->model_rows.view;
    CST_TRY(cst_scored_narrow(context, model, e->split, &s->rows));
    CST_TRY(check_rows(context, e->pool, e->split, positions, &s->model_rows, &s->rows));
    CST_TRY(cst_model_view_tell(context, model, e->split, &s->rows));
    return s->rows.targets ? CST_OK : no_targets(context, e->split);
}

cst_status cst_value_run_model(cst_context *context, const cst_evaluation *e,
                               const cst_model *model, cst_value_result *out) {
    CST_TRY(cst_value_predict(context, model, &state_of(e)->rows, out->array));
    return cst_value_check_units(context, e->pool, e->split, false);
}

cst_status cst_value_open_baselines(cst_context *context, cst_evaluation *e) {
    CST_TRY(cst_value_open_rows(context, e));
    return cst_value_open_source(context, e, "oof", 5, false);
}

cst_status cst_value_seen(cst_context *context, const cst_evaluation *e, const cst_model *model,
                          bool *seen) {
    const cst_view *rows = &state_of(e)->rows;
    size_t cells = (size_t)rows->rows * (size_t)rows->classes;
    CST_SCOPE(scope);
    CST_NEW(context, scope, int32_t, words, 2 * cells);
    cst_target_words(rows->targets, cells, words);
    *seen = cst_fitted_on(model, e->split, words, (int64_t)(2 * cells));
    if (*seen)
        cst_notice_seen(context, e->split);
    return CST_OK;
}
