/*
 * The public functions that go by the task of a pool: fit, inspect, evaluate, compare, ablate,
 * sweep. Above every stage; each task's own code does the work. Paper: section "Benchmarks".
 */
#include "detection/detection.h"
#include "evaluation/task.h"
#include "regression/regression.h"
#include "report/report.h"
#include "segmentation/segmentation.h"

#include <stddef.h>

/* In the order of cst_task. */
static const cst_task_calls *const CALLS[] = {
    &cst_classification_calls,
    &cst_regression_calls,
    &cst_segmentation_calls,
    &cst_detection_calls,
};

/* The table of the pool's task; fails where the task lacks the call at `offset` of the table. */
static cst_status find_calls(cst_context *context, const cst_pool *pool, const char *call,
                             size_t offset, const cst_task_calls **out) {
    cst_task task = cst_pool_task(pool);
    const cst_task_calls *calls = CALLS[task];
    *out = calls;
    if (calls && *(void (*const *)(void))((const char *)calls + offset))
        return CST_OK;
    return cst_fail(context, CST_ERROR_UNSUPPORTED, "%s is not there for pools of task '%s'", call,
                    cst_task_name(task));
}

/* A model predicts what it was fitted on. */
static cst_status check_task(cst_context *context, const cst_model *model, const cst_pool *pool) {
    if (cst_model_task(model) == cst_pool_task(pool))
        return CST_OK;
    return cst_fail(context, CST_ERROR_INPUT,
                    "the model was fitted for %s, and the pool's task is %s; give a model and a "
                    "pool of one task",
                    cst_task_name(cst_model_task(model)), cst_task_name(cst_pool_task(pool)));
}

/* Settings that speak of classes. */
static cst_status check_shift(cst_context *context, const cst_pool *pool, bool given) {
    if (!given || cst_pool_task(pool) == CST_TASK_CLASSIFICATION)
        return CST_OK;
    return cst_fail(context, CST_ERROR_UNSUPPORTED,
                    "splits out of distribution, clean ones, reference errors and training counts "
                    "are of classification, and the pool's task is %s",
                    cst_task_name(cst_pool_task(pool)));
}

/* The status is the one to return. */
static cst_status finish(cst_context *context, cst_status status, cst_report **report) {
    return cst_why(context, cst_report_settle(context, status, report));
}

cst_status cst_fit(cst_context *context, cst_pool *pool, const char *split,
                   const cst_options *options, cst_model **model, cst_report **report) {
    const cst_task_calls *calls = NULL;
    if (model)
        *model = NULL;
    if (report)
        *report = NULL;
    CST_ENTER(context);
    CST_CHECK(context, pool, POOL, "pool");
    CST_CHECK(context, options, OPTIONS, "options");
    if (!pool || !split)
        return cst_fail(context, CST_ERROR_ARGUMENT, "cst_fit: a pool and a split are needed");
    cst_status status = find_calls(context, pool, "fit", offsetof(cst_task_calls, fit), &calls);
    cst_options *defaults = NULL;
    if (status == CST_OK && !options)
        status = cst_options_create(context, &defaults);
    CST_TRY(calls->fit(context, pool, split, options ? options : defaults, model, report));
    cst_options_free(context, defaults);
    return finish(context, status, report);
}

cst_status cst_inspect(cst_context *context, cst_pool *pool, const char *split,
                       const cst_options *options, cst_report **report) {
    const cst_task_calls *calls = NULL;
    if (report)
        *report = NULL;
    CST_ENTER(context);
    CST_CHECK(context, pool, POOL, "pool");
    CST_CHECK(context, options, OPTIONS, "options");
    if (!pool || !split || !report)
        return cst_fail(context, CST_ERROR_ARGUMENT,
                        "cst_inspect: a pool, a split and a place for the report are needed");
    cst_status status =
        find_calls(context, pool, "inspect", offsetof(cst_task_calls, inspect), &calls);
    cst_options *defaults = NULL;
    if (status == CST_OK && !options)
        status = cst_options_create(context, &defaults);
    CST_TRY(calls->inspect(context, pool, split, options ? options : defaults, report));
    cst_options_free(context, defaults);
    return finish(context, status, report);
}

cst_status cst_evaluate_member(cst_context *context, const cst_pool *pool, const char *split,
                               int32_t member, int32_t resamples, uint64_t seed,
                               cst_report **report) {
    const cst_task_calls *calls = NULL;
    if (report)
        *report = NULL;
    CST_ENTER(context);
    CST_CHECK(context, pool, POOL, "pool");
    CST_SEED(context, seed);
    CST_RESAMPLES(context, resamples);
    if (!pool || !split || !report)
        return cst_fail(context, CST_ERROR_ARGUMENT,
                        "cst_evaluate_member: a pool, a split and a place for the report are "
                        "needed");
    cst_status status =
        find_calls(context, pool, "evaluate", offsetof(cst_task_calls, evaluate_member), &calls);
    CST_TRY(calls->evaluate_member(context, pool, split, member, resamples, seed, report));
    return finish(context, status, report);
}

cst_status cst_evaluate_model(cst_context *context, const cst_model *model, cst_pool *pool,
                              const char *split, int baselines, int32_t resamples, uint64_t seed,
                              cst_report **report) {
    const cst_task_calls *calls = NULL;
    if (report)
        *report = NULL;
    CST_ENTER(context);
    CST_CHECK(context, model, MODEL, "model");
    CST_CHECK(context, pool, POOL, "pool");
    CST_SEED(context, seed);
    CST_RESAMPLES(context, resamples);
    if (!model || !pool || !split || !report)
        return cst_fail(context, CST_ERROR_ARGUMENT,
                        "cst_evaluate_model: a model, a pool, a split and a place for the report "
                        "are needed");
    cst_status status = check_task(context, model, pool);
    CST_TRY(
        find_calls(context, pool, "evaluate", offsetof(cst_task_calls, evaluate_model), &calls));
    CST_TRY(calls->evaluate_model(context, model, pool, split, baselines, resamples, seed, report));
    return finish(context, status, report);
}

cst_status cst_evaluate_stack(cst_context *context, const cst_model *model, cst_pool *pool,
                              const cst_evaluate_options *given, cst_report **report) {
    cst_evaluate_options o = given ? *given : (cst_evaluate_options){0};
    o.split = o.split ? o.split : "test";
    if (report)
        *report = NULL;
    CST_ENTER(context);
    CST_CHECK(context, model, MODEL, "model");
    CST_CHECK(context, pool, POOL, "pool");
    CST_SEED(context, o.seed);
    CST_RESAMPLES(context, o.resamples);
    if (!model || !pool || !report)
        return cst_fail(context, CST_ERROR_ARGUMENT,
                        "cst_evaluate_stack: a model, a pool and a place for the report are "
                        "needed");
    bool more = o.ood || o.clean || o.reference_errors || o.head_above || o.tail_below;
    cst_status status = check_task(context, model, pool);
    if (status == CST_OK && cst_pool_task(pool) == CST_TASK_CLASSIFICATION)
        return finish(context, cst_classification_evaluate_stack(context, model, pool, &o, report),
                      report);
    CST_TRY(check_shift(context, pool, more));
    return status == CST_OK ? cst_evaluate_model(context, model, pool, o.split, o.baselines,
                                                 o.resamples, o.seed, report)
                            : status;
}

/* Numbers and texts of the options; `*options` becomes `own`, without methods, where there are none
 * to read. */
static cst_status check_options(cst_context *context, const char *call, bool methods,
                                const cst_compare_options **options, cst_compare_options *own) {
    const cst_compare_options *given = *options;
    if (!given)
        return CST_OK;
    if (given->seed > CST_SEED_MAX)
        return cst_fail_seed(context, call, given->seed);
    if (given->resamples < 0 || given->resamples > CST_RESAMPLES_MAX)
        return cst_fail_resamples(context, call, given->resamples);
    *own = *given;
    if (!methods || !own->methods) {
        own->methods = NULL;
        own->method_count = 0;
    }
    *options = own;
    cst_status status = cst_check_texts(context, call, "methods", own->methods, own->method_count);
    return status == CST_OK
               ? cst_check_texts(context, call, "settings", own->settings, own->setting_count)
               : status;
}

cst_status cst_compare(cst_context *context, cst_pool *pool, const cst_compare_options *options,
                       cst_report **report) {
    const cst_task_calls *calls = NULL;
    if (report)
        *report = NULL;
    CST_ENTER(context);
    CST_CHECK(context, pool, POOL, "pool");
    cst_compare_options own = {0};
    cst_status status = check_options(context, "cst_compare", true, &options, &own);
    if (status != CST_OK)
        return status;
    if (!report)
        return cst_fail(context, CST_ERROR_ARGUMENT, "cst_compare: no place for the report");
    if (!pool)
        return cst_fail(context, CST_ERROR_ARGUMENT, "cst_compare: the pool is NULL");
    status = find_calls(context, pool, "compare", offsetof(cst_task_calls, compare), &calls);
    CST_TRY(check_shift(context, pool,
                        own.clean || own.reference_errors || own.head_above || own.tail_below));
    CST_TRY(calls->compare(context, pool, options, report));
    return finish(context, status, report);
}

cst_status cst_ablate(cst_context *context, cst_pool *pool, const cst_compare_options *options,
                      cst_report **report) {
    const cst_task_calls *calls = NULL;
    if (report)
        *report = NULL;
    CST_ENTER(context);
    CST_CHECK(context, pool, POOL, "pool");
    cst_compare_options own = {0};
    cst_status status = check_options(context, "cst_ablate", false, &options, &own);
    if (status != CST_OK)
        return status;
    if (!report)
        return cst_fail(context, CST_ERROR_ARGUMENT, "cst_ablate: no place for the report");
    if (!pool)
        return cst_fail(context, CST_ERROR_ARGUMENT, "cst_ablate: the pool is NULL");
    status = find_calls(context, pool, "ablate", offsetof(cst_task_calls, ablate), &calls);
    CST_TRY(calls->ablate(context, pool, options, report));
    return finish(context, status, report);
}

cst_status cst_sweep(cst_context *context, cst_pool *pool, const cst_sweep_options *sweep,
                     const cst_compare_options *options, cst_report **report) {
    const cst_task_calls *calls = NULL;
    if (report)
        *report = NULL;
    CST_ENTER(context);
    CST_CHECK(context, pool, POOL, "pool");
    cst_compare_options own = {0};
    cst_status status = check_options(context, "cst_sweep", true, &options, &own);
    if (status != CST_OK)
        return status;
    if (!report)
        return cst_fail(context, CST_ERROR_ARGUMENT, "cst_sweep: no place for the report");
    if (!pool || !sweep)
        return cst_fail(context, CST_ERROR_ARGUMENT, "cst_sweep: the pool or the sweep is NULL");
    status = cst_check_texts(context, __func__, "values", sweep->values, sweep->value_count);
    if (status != CST_OK)
        return status;
    status = find_calls(context, pool, "sweep", offsetof(cst_task_calls, sweep), &calls);
    CST_TRY(calls->sweep(context, pool, sweep, options, report));
    return finish(context, status, report);
}
