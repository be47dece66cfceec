/*
 * Scores of predicted values on a split, beside the simple baselines. After prediction.
 * method.md section 8.
 */
#include "evaluation/rows.h"
#include "la/la.h"
#include "metrics/weighted.h"
#include "model/fitted_on.h"
#include "pool/counted.h"
#include "regression/check.h"
#include "regression/document.h"
#include "regression/methods.h"
#include "regression/regression.h"

#include <stdio.h>
#include <string.h>

static const char *const BASELINES[] = {"best-single", "average", "greedy"};
enum { ROWS_MAX = 1 + sizeof BASELINES / sizeof BASELINES[0] };

/* What is scored: the model or the file first, then baselines. */
typedef struct scored {
    const cst_pool *pool;
    const char *split;
    const cst_view *view; /* with targets */
    int32_t count;
    const char *names[ROWS_MAX];
    const char *details[ROWS_MAX];
    int32_t models[ROWS_MAX]; /* 0: not said */
    const cst_predicted_values *values[ROWS_MAX];
} scored;

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

static cst_status put_conditions(cst_context *context, cst_report *report, const scored *s) {
    int32_t conditions = cst_pool_conditions(s->pool, s->split);
    if (conditions == 0)
        return CST_OK;
    cst_status status = CST_OK;
    int64_t rows = s->view->rows / conditions;
    json_t *list = cst_report_list(report, cst_report_root(report), "conditions");
    for (int32_t k = 0; status == CST_OK && k < conditions; k++) {
        const float *halves[CST_LEVELS_MAX];
        cst_value_metrics average;
        cst_predicted_values part = part_of(s->values[0], k, rows, halves);
        status = cst_value_metrics_evaluate(context, &part, s->view->targets, &average, NULL);
        json_t *object = cst_report_add_object(report, list);
        cst_report_string(report, object, "shift", cst_pool_condition_shift(s->pool, s->split, k));
        cst_report_string(report, object, "kind", cst_pool_condition_kind(s->pool, s->split, k));
        cst_report_number(report, object, "severity",
                          cst_pool_condition_severity(s->pool, s->split, k));
        if (status == CST_OK)
            cst_value_put_scores(report, object, &average);
    }
    return status;
}

static cst_status put_row(cst_context *context, cst_report *report, json_t *baselines,
                          const scored *s, int32_t row, const cst_value_intervals *intervals) {
    cst_value_metrics average;
    json_t *object = cst_report_root(report);
    int32_t outputs = s->view->classes;
    cst_value_metrics *each = cst_alloc(context, (size_t)outputs, sizeof *each);
    if (!each)
        return CST_ERROR_MEMORY;
    cst_status status = cst_value_metrics_weighted(context, s->values[row], s->view->targets,
                                                   s->view->weights, &average, each);
    if (status == CST_OK && row > 0) {
        object = cst_report_add_object(report, baselines);
        cst_report_string(report, object, "method", s->names[row]);
        cst_report_string(report, object, "detail", s->details[row]);
    }
    if (status == CST_OK) {
        cst_value_put_scores(report, object, &average);
        if (intervals)
            cst_value_put_intervals(report, object, intervals);
        if (s->models[row] > 0)
            cst_report_integer(report, object, "models", s->models[row]);
        (void)cst_value_put_outputs(report, object, s->pool, each, outputs);
    }
    cst_free(context, each);
    return status;
}

static cst_status put_all(cst_context *context, cst_report *report, const scored *s,
                          int32_t resamples, uint64_t seed) {
    json_t *root = cst_report_root(report);
    cst_value_intervals intervals[ROWS_MAX];
    cst_predicted_values values[ROWS_MAX];
    cst_status status = CST_OK;
    for (int32_t m = 0; m < s->count; m++)
        values[m] = *s->values[m];
    if (resamples > 0)
        status =
            cst_value_bootstrap_weighted(context,
                                         &(cst_value_bootstrap_input){.predicted = values,
                                                                      .methods = s->count,
                                                                      .targets = s->view->targets,
                                                                      .weights = s->view->weights,
                                                                      .resamples = resamples,
                                                                      .seed = seed},
                                         intervals, NULL);
    cst_report_string(report, root, "task", "regression");
    cst_report_integer(report, root, "samples", s->view->rows);
    json_t *baselines = NULL;
    for (int32_t m = 0; status == CST_OK && m < s->count; m++) {
        if (m == 1)
            baselines = cst_report_list(report, root, "baselines");
        status = put_row(context, report, baselines, s, m, resamples > 0 ? &intervals[m] : NULL);
    }
    CST_TRY(put_conditions(context, report, s));
    if (resamples > 0) {
        cst_report_integer(report, root, "resamples", resamples);
        cst_report_integer(report, root, "seed", (int64_t)seed);
    }
    cst_value_put_definitions(report);
    return status;
}

/* ---- a file of predictions ---- */

/* The rows of a view's one member, [rows][outputs]; *out is the caller's, also after a failure. */
static cst_status read_values(cst_context *context, const cst_view *view, float **out) {
    size_t width = (size_t)view->classes;
    *out = cst_alloc(context, (size_t)view->rows * width, sizeof **out);
    cst_status status = *out ? CST_OK : CST_ERROR_MEMORY;
    for (int64_t first = 0; status == CST_OK && first < view->rows; first += CST_BLOCK_ROWS) {
        int64_t left = view->rows - first;
        int64_t count = left < CST_BLOCK_ROWS ? left : CST_BLOCK_ROWS;
        const float *rows = NULL;
        float *to = *out + (size_t)first * width;
        status = cst_view_rows(context, view, 0, first, count, to, &rows);
        if (status == CST_OK && rows != to)
            memcpy(to, rows, (size_t)count * width * sizeof *to);
    }
    return status;
}

static cst_status score_member(cst_context *context, const cst_pool *pool, const char *split,
                               int32_t member, int32_t resamples, uint64_t seed,
                               cst_report *report) {
    cst_counted counted = {0};
    cst_status status = cst_counted_open(context, pool, split, &member, 1, &counted);
    if (status != CST_OK)
        return status;
    const cst_view view = counted.view;
    if (!view.targets) {
        cst_counted_close(context, &counted);
        return cst_fail(context, CST_ERROR_INPUT, "split '%s' has no targets to score against",
                        split);
    }
    float *mean = NULL;
    status = read_values(context, &view, &mean);
    cst_predicted_values values = {.rows = view.rows, .outputs = view.classes, .mean = mean};
    scored s = {.pool = pool, .split = split, .view = &view, .count = 1, .values = {&values}};
    CST_TRY(cst_value_check_units(context, pool, split, false));
    CST_TRY(put_all(context, report, &s, resamples, seed));
    cst_free(context, mean);
    cst_counted_close(context, &counted);
    return status;
}

cst_status cst_regression_evaluate_member(cst_context *context, const cst_pool *pool,
                                          const char *split, int32_t member, int32_t resamples,
                                          uint64_t seed, cst_report **report) {
    cst_notices_clear(context);
    cst_la_enter();
    cst_status status = cst_report_create(context, CST_REPORT_EVALUATE, report);
    CST_TRY(score_member(context, pool, split, member, resamples, seed, *report));
    cst_la_leave();
    return cst_rows_finish(context, status, report);
}

/* ---- a model ---- */

/* The baselines, fitted on the out-of-fold rows. */
static cst_status run_baselines(cst_context *context, cst_pool *pool, const cst_view *view,
                                uint64_t seed, cst_value_method *methods, cst_value_entry *entries,
                                scored *s) {
    cst_training source = {0};
    cst_scaling scaling = {0};
    cst_moments *moments = NULL;
    cst_status status = cst_training_open(context, pool, "oof", 5, seed, &source);
    if (status == CST_OK) {
        moments = cst_alloc(context, (size_t)source.view.classes, sizeof *moments);
        status = moments ? cst_scaling_make(context, &source.view, &scaling) : CST_ERROR_MEMORY;
    }
    cst_gate none = {.mode = CST_GATE_NONE, .inputs = source.view.members};
    CST_TRY(cst_value_moments(context, &source.view, &scaling, &none, source.folds,
                              source.fold_count, moments));
    cst_value_scene scene = {
        .source = &source, .rows = view, .scaling = &scaling, .moments = moments, .pool = pool};
    for (int32_t m = 1; status == CST_OK && m < ROWS_MAX; m++) {
        status = cst_value_method_parse(context, BASELINES[m - 1], seed, NULL, 0, &methods[m]);
        CST_TRY(cst_value_entry_run(context, &scene, &methods[m], &entries[m]));
        s->names[m] = methods[m].name;
        s->details[m] = entries[m].detail;
        s->models[m] = entries[m].models;
        s->values[m] = &entries[m].result.values;
        s->count = m + 1;
    }
    if (moments)
        cst_value_moments_free(context, moments, source.view.classes);
    cst_free(context, moments);
    cst_scaling_free(context, &scaling);
    cst_training_close(context, &source);
    return status;
}

/* Says whether the fit has seen these rows. */
static cst_status put_seen(cst_context *context, cst_report *report, const cst_model *model,
                           const char *split, const cst_view *view) {
    size_t cells = (size_t)view->rows * (size_t)view->classes;
    int32_t *words = cst_alloc(context, 2 * cells, sizeof *words);
    if (!words)
        return CST_ERROR_MEMORY;
    cst_target_words(view->targets, cells, words);
    bool seen = cst_fitted_on(model, split, words, (int64_t)(2 * cells));
    cst_report_flag(report, cst_report_root(report), "seen_in_fitting", seen);
    if (seen)
        cst_notice(context,
                   "the model was fitted on the rows of split '%s': these scores are optimistic; "
                   "score a split that it has not seen, or take the nested scores that fit reports",
                   split);
    cst_free(context, words);
    return CST_OK;
}

/* The rows that count, with the members that the model reads. */
static cst_status open_model_rows(cst_context *context, const cst_model *model, cst_pool *pool,
                                  const char *split, cst_counted *out) {
    const float **pointers = NULL;
    cst_view view = {0};
    int32_t *positions = cst_alloc(context, (size_t)model->members, sizeof *positions);
    cst_status status = positions ? cst_model_view(context, model, pool, split, &pointers, &view)
                                  : CST_ERROR_MEMORY; /* checks and loads */
    for (int32_t k = 0; status == CST_OK && k < model->members; k++)
        positions[k] = cst_pool_member_index(pool, cst_model_member_name(model, k));
    CST_TRY(cst_counted_open(context, pool, split, positions, model->members, out));
    cst_free(context, pointers);
    cst_free(context, positions);
    return status;
}

static cst_status score_model(cst_context *context, const cst_model *model, cst_pool *pool,
                              const char *split, int baselines, int32_t resamples, uint64_t seed,
                              cst_report *report) {
    cst_value_result result = {0};
    cst_value_method *methods = cst_alloc(context, ROWS_MAX, sizeof *methods);
    cst_value_entry entries[ROWS_MAX] = {{0}};
    cst_counted kept_rows = {0};
    cst_counted all = {0};
    cst_status status = methods ? cst_value_check_split(context, pool, split) : CST_ERROR_MEMORY;
    CST_TRY(open_model_rows(context, model, pool, split, &kept_rows));
    const cst_view kept = kept_rows.view;
    if (status == CST_OK && !kept.targets)
        status =
            cst_fail(context, CST_ERROR_INPUT, "split '%s' has no targets to score against", split);
    CST_TRY(cst_value_result_make(context, kept.rows, kept.classes, &result));
    CST_TRY(cst_value_result_predict(context, model, &kept, &result));
    scored s = {.pool = pool,
                .split = split,
                .view = &kept,
                .count = 1,
                .names = {"corestack"},
                .details = {""},
                .models = {cst_model_members(model)},
                .values = {&result.values}};
    if (status == CST_OK && baselines)
        status = cst_pool_load(context, pool, split);
    if (status == CST_OK && baselines)
        status = cst_counted_open(context, pool, split, NULL, 0, &all);
    if (status == CST_OK && baselines)
        status = run_baselines(context, pool, &all.view, seed, methods, entries, &s);
    if (status == CST_OK) {
        cst_report_string(report, cst_report_root(report), "split", split);
        status = put_seen(context, report, model, split, &kept);
    }
    CST_TRY(cst_value_check_units(context, pool, split, false));
    CST_TRY(put_all(context, report, &s, resamples, seed));
    for (int m = 1; m < ROWS_MAX; m++)
        cst_value_entry_free(context, &entries[m]);
    cst_value_result_free(context, &result);
    cst_free(context, methods);
    cst_counted_close(context, &all);
    cst_counted_close(context, &kept_rows);
    return status;
}

cst_status cst_regression_evaluate_model(cst_context *context, const cst_model *model,
                                         cst_pool *pool, const char *split, int baselines,
                                         int32_t resamples, uint64_t seed, cst_report **report) {
    if (!model->values)
        return cst_fail(context, CST_ERROR_INPUT,
                        "the model holds no variances, so it was not made by corestack fit");
    cst_notices_clear(context);
    cst_la_enter();
    cst_status status = cst_report_create(context, CST_REPORT_EVALUATE, report);
    CST_TRY(score_model(context, model, pool, split, baselines, resamples, seed, *report));
    cst_la_leave();
    return cst_rows_finish(context, status, report);
}
