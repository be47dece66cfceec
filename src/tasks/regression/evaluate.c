/* Scores of predicted values on a split, of a model or of a file. docs/regression.md. */
#include "core/la.h"
#include "data/checks/checks.h"
#include "model/fitted_on.h"
#include "tasks/regression/check.h"
#include "tasks/regression/document.h"
#include "tasks/regression/regression.h"
#include "tasks/regression/state.h"

typedef cst_value_state state;
typedef cst_value_predictions predicted;

static state *state_of(const cst_evaluation *e) {
    return e->data;
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
    int32_t conditions = cst_pool_conditions(e->pool, e->split);
    if (conditions == 0)
        return CST_OK;
    cst_status status = CST_OK;
    json_t *list = cst_report_list(report, cst_report_root(report), "conditions");
    for (int32_t k = 0; status == CST_OK && k < conditions; k++) {
        const float *halves[CST_LEVELS_MAX];
        cst_value_metrics average;
        cst_predicted_values part = part_of(values, k, rows->rows / conditions, halves);
        status = cst_value_metrics_evaluate(context, &part, rows->targets, &average, NULL);
        json_t *object = cst_report_add_object(report, list);
        cst_put_condition(report, object, e->pool, e->split, k);
        if (status == CST_OK)
            cst_value_put_scores(report, object, &average);
    }
    return status;
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

static cst_status score_rows(cst_context *context, const cst_evaluation *e, cst_report *report) {
    state *s = state_of(e);
    predicted p = {0};
    cst_entry entry = {.result = &p};
    if (!s->rows.targets)
        return no_targets(context, e->split);
    float *mean = cst_alloc(context, (size_t)s->rows.rows * (size_t)s->rows.classes, sizeof *mean);
    cst_predicted_values values = {.rows = s->rows.rows, .outputs = s->rows.classes, .mean = mean};
    p.values = &values;
    cst_status status = mean ? cst_view_copy(context, &s->rows, 0, mean) : CST_ERROR_MEMORY;
    CST_THEN(cst_value_check_units(context, e->pool, e->split, false));
    CST_THEN(cst_value_state_score(context, s, &p, entry.scores));
    cst_report_string(report, cst_report_root(report), "task", "regression");
    CST_THEN(cst_put_evaluation(context, report, e, &entry, 1));
    cst_free(context, p.each);
    cst_free(context, mean);
    return status;
}

cst_status cst_regression_evaluate_member(cst_context *context, const cst_task_ops *ops,
                                          const cst_pool *pool, const char *split, int32_t member,
                                          int32_t resamples, uint64_t seed, cst_report **report) {
    const cst_compare_options options = {.resamples = resamples, .seed = seed};
    state s = {0};
    cst_evaluation e = {.ops = ops,
                        .pool = (cst_pool *)(uintptr_t)pool, /* only looked at */
                        .options = &options,
                        .split = split,
                        .brief = true,
                        .data = &s};
    cst_notices_clear(context);
    cst_la_enter();
    cst_status status = cst_report_create(context, CST_REPORT_EVALUATE, report);
    CST_THEN(cst_counted_open(context, pool, split, &member, 1, &s.counted));
    s.rows = s.counted.view;
    if (status == CST_OK && cst_pool_conditions(pool, split) == 0)
        status = cst_check_scored(context, &(cst_check_source){.pool = pool,
                                                               .split = split,
                                                               .view = &s.rows,
                                                               .members = &member,
                                                               .rows = s.counted.rows});
    CST_THEN(score_rows(context, &e, *report));
    cst_counted_close(context, &s.counted);
    cst_la_leave();
    return cst_finish_report(context, status, report);
}

/* ---- a model ---- */

/* The rows that count, with the members that the model reads. */
static cst_status open_model_rows(cst_context *context, const cst_model *model, cst_pool *pool,
                                  const char *split, state *s) {
    size_t most = (size_t)cst_model_inputs(model) + (size_t)cst_pool_members(pool);
    int32_t count = 0;
    int32_t *positions = cst_alloc(context, most, sizeof *positions);
    cst_status status = positions
                            ? cst_scored_members(context, model, pool, split, positions, &count)
                            : CST_ERROR_MEMORY;
    CST_THEN(cst_counted_open(context, pool, split, positions, count, &s->model_rows));
    s->rows = s->model_rows.view;
    CST_THEN(cst_scored_narrow(context, model, split, &s->rows));
    if (status == CST_OK && cst_pool_conditions(pool, split) == 0)
        status = cst_check_scored(context, &(cst_check_source){.pool = pool,
                                                               .split = split,
                                                               .view = &s->rows,
                                                               .members = positions,
                                                               .rows = s->model_rows.rows});
    cst_free(context, positions);
    return status;
}

cst_status cst_value_open_model(cst_context *context, cst_evaluation *e, const cst_model *model) {
    if (!model->values)
        return cst_fail(context, CST_ERROR_INPUT,
                        "the model has no variances, so it was not created by corestack fit");
    state *s = e->data;
    cst_status status = open_model_rows(context, model, e->pool, e->split, s);
    CST_THEN(cst_model_view_tell(context, model, e->split, &s->rows));
    if (status == CST_OK && !s->rows.targets)
        status = no_targets(context, e->split);
    return status;
}

cst_status cst_value_run_model(cst_context *context, const cst_evaluation *e,
                               const cst_model *model, cst_entry *entry) {
    state *s = state_of(e);
    predicted *p = entry->result;
    p->values = &p->result.values;
    cst_status status = cst_value_result_make(context, s->rows.rows, s->rows.classes, &p->result);
    CST_THEN(cst_value_result_predict(context, model, &s->rows, &p->result));
    CST_THEN(cst_value_check_units(context, e->pool, e->split, false));
    CST_THEN(cst_value_state_score(context, s, p, entry->scores));
    return status;
}

cst_status cst_value_open_baselines(cst_context *context, cst_evaluation *e) {
    state *s = state_of(e);
    e->source = &s->source;
    cst_status status = cst_pool_load(context, e->pool, e->split);
    CST_THEN(cst_counted_open(context, e->pool, e->split, NULL, 0, &s->counted));
    if (status == CST_OK)
        s->rows = s->counted.view;
    CST_THEN(cst_training_open(context, e->pool, "oof", 5, e->options->seed, &s->source));
    CST_THEN(cst_scaling_make(context, &s->source.view, &s->scaling));
    CST_THEN(cst_value_state_moments(context, s));
    return status;
}

cst_status cst_value_seen(cst_context *context, const cst_evaluation *e, const cst_model *model,
                          bool *seen) {
    const cst_view *rows = &state_of(e)->rows;
    size_t cells = (size_t)rows->rows * (size_t)rows->classes;
    int32_t *words = cst_alloc(context, 2 * cells, sizeof *words);
    if (!words)
        return CST_ERROR_MEMORY;
    cst_target_words(rows->targets, cells, words);
    *seen = cst_fitted_on(model, e->split, words, (int64_t)(2 * cells));
    if (*seen)
        cst_notice_seen(context, e->split);
    cst_free(context, words);
    return CST_OK;
}
