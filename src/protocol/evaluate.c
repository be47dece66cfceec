/*
 * cst_evaluate and cst_evaluate_model: scores of probabilities on a split, beside the simple
 * baselines, with bootstrap intervals. Baselines are fitted on out-of-fold rows only; the split
 * scored on is read once, here.
 */
#include "la/la.h"
#include "pipeline/document.h"
#include "pool/pool.h"
#include "protocol/method.h"

#include <stdio.h>
#include <string.h>

enum { METHODS_MAX = 6 };

/* One row of the table: a name, its probabilities and how many members it runs. */
typedef struct method {
    const char *name;
    float *probabilities; /* [rows][classes] */
    int32_t models;
    char detail[96];
} method;

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

/* Scores of all methods; the first is the document's own, the others become its baselines. */
static cst_status put_methods(cst_context *context, cst_report *report, const method *methods,
                              int32_t count, int64_t rows, int32_t classes, const int32_t *labels,
                              int32_t resamples, uint64_t seed) {
    json_t *root = cst_report_root(report);
    cst_metric_intervals intervals[METHODS_MAX];
    const float *all[METHODS_MAX];
    cst_status status = CST_OK;
    for (int32_t m = 0; m < count; m++)
        all[m] = methods[m].probabilities;
    if (resamples > 0)
        status = cst_bootstrap_methods(context, all, count, rows, classes, labels, 0, resamples,
                                       seed, intervals);
    json_t *list = NULL;
    for (int32_t m = 0; status == CST_OK && m < count; m++) {
        cst_metrics scores;
        json_t *object = root;
        status = cst_metrics_evaluate(context, all[m], rows, classes, labels, 0, &scores);
        if (status != CST_OK)
            break;
        if (m == 0) {
            cst_report_integer(report, root, "samples", rows);
            cst_report_string(report, root, "ece_definition", cst_metric_definition("ece"));
        } else {
            if (!list)
                list = cst_report_list(report, root, "baselines");
            object = cst_report_add_object(report, list);
            cst_report_string(report, object, "method", methods[m].name);
            cst_report_string(report, object, "detail", methods[m].detail);
        }
        cst_document_scores(report, object, &scores);
        if (methods[m].models > 0)
            cst_report_integer(report, object, "models", methods[m].models);
        if (resamples > 0)
            put_intervals(report, object, &intervals[m]);
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

cst_status cst_evaluate(cst_context *context, const float *probabilities, int64_t rows,
                        int32_t classes, const int32_t *labels, int32_t resamples, uint64_t seed,
                        cst_report **report) {
    *report = NULL;
    cst_notices_clear(context);
    cst_status status = cst_report_create(context, CST_REPORT_EVALUATE, report);
    method only = {.name = "predictions"};
    size_t cells = 0;
    if (status == CST_OK && !cst_size_mul((size_t)rows, (size_t)classes, &cells))
        status = cst_fail(context, CST_ERROR_LIMIT, "too many predictions");
    if (status == CST_OK) {
        only.probabilities = cst_alloc(context, cells, sizeof(float));
        status = only.probabilities ? CST_OK : CST_ERROR_MEMORY;
    }
    if (status == CST_OK) {
        memcpy(only.probabilities, probabilities, cells * sizeof(float));
        status = put_methods(context, *report, &only, 1, rows, classes, labels, resamples, seed);
    }
    cst_free(context, only.probabilities);
    return finish(context, status, report);
}

/* One method, fitted on the out-of-fold rows, on the rows of `view`. */
static cst_status run_method(cst_context *context, const char *name, const cst_training *source,
                             uint64_t seed, const cst_pool *pool, const cst_view *view,
                             method *out) {
    cst_method which;
    cst_method_fit fit = {0};
    cst_status status = cst_method_parse(context, name, &which);
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

static cst_status score_model(cst_context *context, const cst_model *model, cst_pool *pool,
                              const char *split, int baselines, int32_t resamples, uint64_t seed,
                              cst_report *report) {
    method methods[METHODS_MAX] = {{.name = "corestack"}};
    int32_t count = 1;
    int64_t rows = 0;
    cst_status status =
        cst_model_predict_pool(context, model, pool, split, &methods[0].probabilities, &rows);
    const int32_t *labels = cst_pool_labels(pool, split);
    methods[0].models = cst_model_members(model);
    if (status == CST_OK && cst_pool_conditions(pool, split) > 0)
        status = cst_fail(
            context, CST_ERROR_UNSUPPORTED,
            "split '%s' holds several conditions, which evaluate does not score yet; predict "
            "writes their probabilities",
            split);
    if (status == CST_OK && !labels)
        status =
            cst_fail(context, CST_ERROR_INPUT, "split '%s' has no labels to score against", split);
    if (status == CST_OK && baselines)
        status = all_baselines(context, pool, split, seed, methods, &count);
    if (status == CST_OK) {
        cst_report_string(report, cst_report_root(report), "split", split);
        labels = cst_pool_labels(pool, split);
        status = put_methods(context, report, methods, count, rows, cst_model_classes(model),
                             labels, resamples, seed);
    }
    for (int32_t m = 0; m < METHODS_MAX; m++)
        cst_free(context, methods[m].probabilities);
    return status;
}

cst_status cst_evaluate_model(cst_context *context, const cst_model *model, cst_pool *pool,
                              const char *split, int baselines, int32_t resamples, uint64_t seed,
                              cst_report **report) {
    *report = NULL;
    cst_notices_clear(context);
    cst_la_enter();
    cst_status status = cst_report_create(context, CST_REPORT_EVALUATE, report);
    if (status == CST_OK)
        status = score_model(context, model, pool, split, baselines, resamples, seed, *report);
    cst_la_leave();
    return finish(context, status, report);
}
