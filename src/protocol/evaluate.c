/*
 * cst_evaluate and cst_evaluate_model: scores of probabilities on a split, beside the simple
 * baselines, with bootstrap intervals. Baselines are fitted on out-of-fold rows only; the split
 * scored on is read once, here.
 */
#include "la/la.h"
#include "model/fitted_on.h"
#include "pipeline/document.h"
#include "pool/pool.h"
#include "protocol/method.h"

#include <stdio.h>
#include <string.h>

enum { METHODS_MAX = 6 };

/* One row of the table: a name, its probabilities and how many members it runs. */
typedef struct method {
    const char *name;
    float *probabilities; /* [rows][classes], or [conditions][rows][classes] */
    int32_t models;
    char detail[288]; /* room for the longest name of a member */
} method;

/* The rows that every method is scored on. */
typedef struct scored_rows {
    const cst_pool *pool; /* NULL where there is none */
    const char *split;
    int32_t conditions; /* corruptions, each with the same rows; 0: the rows once */
    int64_t rows;
    int32_t classes;
    const int32_t *labels; /* [rows] */
} scored_rows;

static void put_interval(cst_report *report, json_t *object, const char *key,
                         const cst_interval *interval) {
    double ends[2] = {interval->low, interval->high};
    cst_report_numbers(report, object, key, ends, 2);
}

static void put_intervals(cst_report *report, json_t *object,
                          const cst_metric_intervals *intervals) {
    put_interval(report, object, "top1_ci", &intervals->top1);
    put_interval(report, object, "ece_ci", &intervals->ece);
    put_interval(report, object, "nll_ci", &intervals->nll);
    put_interval(report, object, "brier_ci", &intervals->brier);
}

static void put_condition(cst_report *report, json_t *list, const scored_rows *on,
                          int32_t condition, const cst_metrics *scores) {
    json_t *object = cst_report_add_object(report, list);
    cst_report_string(report, object, "shift",
                      cst_pool_condition_shift(on->pool, on->split, condition));
    cst_report_string(report, object, "kind",
                      cst_pool_condition_kind(on->pool, on->split, condition));
    cst_report_number(report, object, "severity",
                      cst_pool_condition_severity(on->pool, on->split, condition));
    cst_document_scores(report, object, scores);
}

/* Means over the conditions, whose own scores are added to `list` where it is not NULL. */
static cst_status score_conditions(cst_context *context, cst_report *report, json_t *list,
                                   const scored_rows *on, const float *probabilities,
                                   cst_metrics *mean) {
    size_t cells = (size_t)on->rows * (size_t)on->classes;
    *mean = (cst_metrics){.samples = on->rows};
    for (int32_t k = 0; k < on->conditions; k++) {
        cst_metrics scores;
        cst_status status = cst_metrics_evaluate(context, probabilities + (size_t)k * cells,
                                                 on->rows, on->classes, on->labels, 0, &scores);
        if (status != CST_OK)
            return status;
        mean->top1 += scores.top1 / on->conditions;
        mean->ece += scores.ece / on->conditions;
        mean->nll += scores.nll / on->conditions;
        mean->brier += scores.brier / on->conditions;
        if (list)
            put_condition(report, list, on, k, &scores);
    }
    return CST_OK;
}

/* Scores of one method into the document itself (`first`) or an entry of its baselines. */
static cst_status put_method(cst_context *context, cst_report *report, json_t *baselines,
                             const method *row, const scored_rows *on,
                             const cst_metric_intervals *intervals) {
    bool first = !baselines;
    json_t *object = cst_report_root(report);
    json_t *list = NULL;
    cst_metrics scores;
    if (first && on->conditions > 0) {
        cst_report_string(report, object, "aggregate", "mean over conditions");
        list = cst_report_list(report, object, "conditions");
    }
    cst_status status =
        on->conditions > 0
            ? score_conditions(context, report, list, on, row->probabilities, &scores)
            : cst_metrics_evaluate(context, row->probabilities, on->rows, on->classes, on->labels,
                                   0, &scores);
    if (status != CST_OK)
        return status;
    if (!first) {
        object = cst_report_add_object(report, baselines);
        cst_report_string(report, object, "method", row->name);
        cst_report_string(report, object, "detail", row->detail);
    }
    cst_document_scores(report, object, &scores);
    if (row->models > 0)
        cst_report_integer(report, object, "models", row->models);
    if (intervals)
        put_intervals(report, object, intervals);
    return CST_OK;
}

/* Scores of all methods; the first is the document's own, the others become its baselines. */
static cst_status put_methods(cst_context *context, cst_report *report, const method *methods,
                              int32_t count, const scored_rows *on, int32_t resamples,
                              uint64_t seed) {
    json_t *root = cst_report_root(report);
    cst_metric_intervals intervals[METHODS_MAX];
    const float *all[METHODS_MAX];
    cst_status status = CST_OK;
    for (int32_t m = 0; m < count; m++)
        all[m] = methods[m].probabilities;
    if (resamples > 0 && on->conditions > 0) {
        cst_notice(context, "split '%s' holds %d conditions: intervals are not computed for those",
                   on->split, (int)on->conditions);
        resamples = 0;
    }
    if (resamples > 0)
        status = cst_bootstrap_methods(context, all, count, on->rows, on->classes, on->labels, 0,
                                       resamples, seed, intervals);
    cst_report_integer(report, root, "samples", on->rows);
    cst_report_string(report, root, "ece_definition", cst_metric_definition("ece"));
    json_t *list = NULL;
    for (int32_t m = 0; status == CST_OK && m < count; m++) {
        if (m == 1)
            list = cst_report_list(report, root, "baselines");
        status = put_method(context, report, list, &methods[m], on,
                            resamples > 0 ? &intervals[m] : NULL);
    }
    if (resamples > 0) {
        cst_report_integer(report, root, "resamples", resamples);
        cst_report_integer(report, root, "seed", (int64_t)seed);
    }
    return status;
}

static cst_status finish(cst_context *context, cst_status status, cst_report **report) {
    if (status == CST_OK) {
        cst_report_notices(*report, context);
        status = cst_report_finish(context, *report);
    }
    if (status != CST_OK) {
        cst_report_free(context, *report);
        *report = NULL;
    }
    return status;
}

/* Scores the rows of a view's one member. */
static cst_status evaluate_view(cst_context *context, const cst_view *view, int32_t resamples,
                                uint64_t seed, cst_report **report) {
    method only = {.name = "predictions"};
    size_t cells = 0;
    cst_status status = cst_report_create(context, CST_REPORT_EVALUATE, report);
    if (status == CST_OK && !cst_size_mul((size_t)view->rows, (size_t)view->classes, &cells))
        status = cst_fail(context, CST_ERROR_LIMIT, "too many predictions");
    if (status == CST_OK) {
        only.probabilities = cst_alloc(context, cells, sizeof(float));
        status = only.probabilities ? CST_OK : CST_ERROR_MEMORY;
    }
    for (int64_t first = 0; status == CST_OK && first < view->rows; first += CST_BLOCK_ROWS) {
        int64_t count =
            view->rows - first < CST_BLOCK_ROWS ? view->rows - first : (int64_t)CST_BLOCK_ROWS;
        float *to = only.probabilities + (size_t)first * (size_t)view->classes;
        const float *rows = NULL;
        status = cst_poll(context);
        if (status == CST_OK)
            status = cst_view_rows(context, view, 0, first, count, to, &rows);
        if (status == CST_OK && rows != to)
            memcpy(to, rows, (size_t)count * (size_t)view->classes * sizeof *to);
    }
    if (status == CST_OK) {
        const scored_rows on = {
            .rows = view->rows, .classes = view->classes, .labels = view->labels};
        status = put_methods(context, *report, &only, 1, &on, resamples, seed);
    }
    cst_free(context, only.probabilities);
    return finish(context, status, report);
}

cst_status cst_evaluate(cst_context *context, const float *probabilities, int64_t rows,
                        int32_t classes, const int32_t *labels, int32_t resamples, uint64_t seed,
                        cst_report **report) {
    if (report)
        *report = NULL;
    if (!context || !probabilities || !labels || !report || rows < 1 || classes < 1)
        return cst_fail(context, CST_ERROR_ARGUMENT,
                        "cst_evaluate: probabilities, labels and a place for the report are "
                        "needed");
    cst_notices_clear(context);
    cst_view view = {
        .rows = rows, .classes = classes, .members = 1, .data = &probabilities, .labels = labels};
    return evaluate_view(context, &view, resamples, seed, report);
}

cst_status cst_classification_evaluate_member(cst_context *context, const cst_pool *pool,
                                              const char *split, int32_t member, int32_t resamples,
                                              uint64_t seed, cst_report **report) {
    const float *pointer = NULL;
    cst_view view = {0};
    cst_notices_clear(context);
    cst_status status = cst_pool_view_members(context, pool, split, &member, 1, &pointer, &view);
    if (status == CST_OK && (!view.labels || view.rows < 1))
        status =
            cst_fail(context, CST_ERROR_INPUT, "split '%s' has no labels to score against", split);
    return status == CST_OK ? evaluate_view(context, &view, resamples, seed, report) : status;
}

/* One method, fitted on the out-of-fold rows, on the rows of `view`. */
static cst_status run_method(cst_context *context, const char *name, const cst_training *source,
                             uint64_t seed, const cst_pool *pool, const cst_view *view,
                             method *out) {
    cst_method which;
    cst_method_fit fit = {0};
    cst_status status = cst_method_parse(context, name, seed, NULL, 0, &which);
    if (status == CST_OK)
        status = cst_method_fit_run(context, &which, source, seed, &fit);
    if (status != CST_OK)
        return status;
    out->name = name;
    out->models = fit.used;
    (void)snprintf(out->detail, sizeof out->detail, "%s", fit.calibrator.detail);
    for (int32_t k = 0; k < fit.members && strcmp(name, "best-single") == 0; k++)
        if (fit.uses[k])
            (void)snprintf(out->detail, sizeof out->detail, "%s", cst_pool_member_name(pool, k));
    out->probabilities =
        cst_alloc(context, (size_t)view->rows * (size_t)view->classes, sizeof(float));
    status = out->probabilities ? cst_method_fit_predict(context, &fit, view, out->probabilities)
                                : CST_ERROR_MEMORY;
    cst_method_fit_free(context, &fit);
    return status;
}

static cst_status all_baselines(cst_context *context, cst_pool *pool, const char *split,
                                uint64_t seed, method *methods, int32_t *count) {
    static const char *const wanted[] = {"best-single", "average", "greedy", "greedy+temperature"};
    cst_training source = {0};
    cst_view view = {0};
    cst_status status = cst_training_open(context, pool, "oof", 5, seed, &source);
    if (status == CST_OK)
        status = cst_pool_load(context, pool, split);
    if (status == CST_OK)
        status = cst_pool_view(context, pool, split, &view);
    for (size_t i = 0; status == CST_OK && i < sizeof wanted / sizeof wanted[0]; i++) {
        status = run_method(context, wanted[i], &source, seed, pool, &view, &methods[*count]);
        ++*count;
    }
    cst_training_close(context, &source);
    return status;
}

/* Says whether the fit has seen these rows: scores on them are no estimate of anything. */
static void put_seen(cst_context *context, cst_report *report, const cst_model *model,
                     const scored_rows *on) {
    bool seen = cst_fitted_on(model, on->split, on->labels, on->rows);
    cst_report_flag(report, cst_report_root(report), "seen_in_fitting", seen);
    if (seen)
        cst_notice(context,
                   "the model was fitted on the rows of split '%s': these scores are optimistic; "
                   "score a split that it has not seen, or take the nested scores that fit reports",
                   on->split);
}

static cst_status score_model(cst_context *context, const cst_model *model, cst_pool *pool,
                              const char *split, int baselines, int32_t resamples, uint64_t seed,
                              cst_report *report) {
    method methods[METHODS_MAX] = {{.name = "corestack"}};
    int32_t count = 1;
    int64_t rows = 0;
    cst_status status =
        cst_model_predict_pool(context, model, pool, split, &methods[0].probabilities, &rows);
    methods[0].models = cst_model_members(model);
    if (status == CST_OK && !cst_pool_labels(pool, split))
        status =
            cst_fail(context, CST_ERROR_INPUT, "split '%s' has no labels to score against", split);
    if (status == CST_OK && baselines)
        status = all_baselines(context, pool, split, seed, methods, &count);
    if (status == CST_OK) {
        const scored_rows on = {.pool = pool,
                                .split = split,
                                .conditions = cst_pool_conditions(pool, split),
                                .rows = cst_pool_rows(pool, split),
                                .classes = cst_model_classes(model),
                                .labels = cst_pool_labels(pool, split)};
        cst_report_string(report, cst_report_root(report), "split", split);
        put_seen(context, report, model, &on);
        status = put_methods(context, report, methods, count, &on, resamples, seed);
    }
    for (int32_t m = 0; m < METHODS_MAX; m++)
        cst_free(context, methods[m].probabilities);
    return status;
}

cst_status cst_classification_evaluate_model(cst_context *context, const cst_model *model,
                                             cst_pool *pool, const char *split, int baselines,
                                             int32_t resamples, uint64_t seed,
                                             cst_report **report) {
    cst_notices_clear(context);
    cst_la_enter();
    cst_status status = cst_report_create(context, CST_REPORT_EVALUATE, report);
    if (status == CST_OK)
        status = score_model(context, model, pool, split, baselines, resamples, seed, *report);
    cst_la_leave();
    return finish(context, status, report);
}
