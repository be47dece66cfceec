/* The public functions that go by the task of a pool. */
#include "core/options.h"
#include "core/scope.h"
#include "fit/family.h"
#include "fit/harness.h"
#include "fit/profile.h"
#include "model/history.h"
#include "report/report.h"
#include "tasks/classification/classification.h"
#include "tasks/detection/detection.h"
#include "tasks/multilabel/multilabel.h"
#include "tasks/regression/regression.h"
#include "tasks/segmentation/segmentation.h"
#include "tasks/topk/topk.h"

#include <string.h>

/* In the order of cst_task. */
static const cst_task_ops *const OPS[] = {
    &cst_classification_ops, &cst_regression_ops, &cst_segmentation_ops,
    &cst_detection_ops,      &cst_multilabel_ops, &cst_topk_ops,
};

static const cst_task_ops *ops_of(const cst_pool *pool) {
    return OPS[cst_pool_task(pool)];
}

/* A model predicts what it was fitted on. */
static cst_status check_task(cst_context *context, const cst_model *model, const cst_pool *pool) {
    if (cst_model_task(model) == cst_pool_task(pool))
        return CST_OK;
    return cst_fail(
        context, CST_ERROR_INPUT,
        "the model was fitted for %s, but the task of the pool is %s; the tasks must match",
        cst_task_text(cst_model_task(model)), cst_task_text(cst_pool_task(pool)));
}

/* What only a classification takes; beyond: options of clean splits and the like are given. */
static cst_status check_rows(cst_context *context, const cst_pool *pool, const char *split,
                             bool beyond) {
    if (cst_pool_task(pool) == CST_TASK_CLASSIFICATION)
        return CST_OK;
    if (beyond)
        return cst_fail(context, CST_ERROR_UNSUPPORTED,
                        "out-of-distribution and clean splits, reference errors and training "
                        "counts are supported for classification only; the pool's task is %s",
                        cst_task_text(cst_pool_task(pool)));
    if (split && strchr(split, ',') && !cst_pool_has_split(pool, split))
        return cst_fail(context, CST_ERROR_UNSUPPORTED,
                        "splits '%.100s': several splits at once are supported for classification "
                        "only; score them one at a time",
                        split);
    return CST_OK;
}

/* Wrong labels are looked for in classification; who says that there are some should know. */
static cst_status check_labels(cst_context *context, const cst_pool *pool,
                               const cst_options *options) {
    if (cst_pool_task(pool) == CST_TASK_CLASSIFICATION ||
        cst_option_choice(options, CST_OPT_NOISE) != CST_LABELS_HUMAN)
        return CST_OK;
    return cst_fail(context, CST_ERROR_UNSUPPORTED,
                    "noise=human: wrong labels are looked for in classification only, and the "
                    "pool's task is %s; remove the option",
                    cst_task_text(cst_pool_task(pool)));
}

static cst_status finish(cst_context *context, cst_status status, cst_report **report) {
    return cst_why(context, cst_report_settle(context, status, report));
}

/* Ends a fit: the model keeps what its report found of the members. */
static cst_status finish_fit(cst_context *context, cst_status status, cst_model **model,
                             cst_report **report) {
    if (status == CST_OK && model && report)
        status = cst_model_remember(context, *model, *report);
    if (status != CST_OK && model) {
        cst_model_free(context, *model);
        *model = NULL;
    }
    return finish(context, status, report);
}

CST_OWNED(cst_options)

/* The options of a call, or new ones of `preset` (NULL: default), in the scope. */
static cst_status take_options(cst_context *context, cst_scope *scope, const char *preset,
                               cst_options **out) {
    CST_TRY(cst_options_create(context, out));
    CST_OWN(context, scope, cst_options, *out);
    return preset ? cst_options_preset(context, *out, preset) : CST_OK;
}

static cst_status fit(cst_context *context, cst_pool *pool, const char *split,
                      const cst_options *options, cst_model **model, cst_report **report) {
    const cst_task_ops *ops = ops_of(pool);
    CST_TRY(check_labels(context, pool, options));
    if (!ops->scored) {
        cst_evaluation e = {.ops = ops};
        CST_TRY(cst_evaluation_metric(context, &e, cst_options_get(options, "metric")));
    }
    return ops->family
               ? cst_fit_family(context, ops->family, pool, split, options, NULL, model, report)
               : ops->fit(context, pool, split, options, model, report);
}

cst_status cst_fit(cst_context *context, cst_pool *pool, const char *split,
                   const cst_options *options, cst_model **model, cst_report **report) {
    cst_options *own = NULL;
    CST_CLEAR(model);
    CST_CLEAR(report);
    CST_ENTER(context);
    CST_SCOPE(scope);
    if (!pool || !split)
        return cst_fail(context, CST_ERROR_ARGUMENT, "cst_fit: pool and split are required");
    if (!options)
        CST_TRY(take_options(context, scope, NULL, &own));
    return finish_fit(context, fit(context, pool, split, options ? options : own, model, report),
                      model, report);
}

/* Options at the preset that the method is, with those that were set. */
static cst_status preset_options(cst_context *context, cst_scope *scope, const char *method,
                                 const cst_options *given, cst_options **out) {
    const char *preset = given ? cst_options_preset_name(given) : method;
    if (strcmp(preset, "default") != 0 && strcmp(preset, method) != 0)
        return cst_fail(context, CST_ERROR_ARGUMENT,
                        "method '%s' is a preset, but the options are those of preset '%s'; give "
                        "one of them",
                        method, preset);
    CST_TRY(take_options(context, scope, method, out));
    for (int id = 0; given && id < CST_OPT_COUNT; id++) {
        const char *key = cst_option_at(id)->key;
        if (cst_option_given(given, (cst_option_id)id))
            CST_TRY(cst_options_set(context, *out, key, cst_options_get(given, key)));
    }
    return CST_OK;
}

static cst_status fit_method(cst_context *context, cst_pool *pool, const char *split,
                             const char *method, const cst_options *options, cst_model **model,
                             cst_report **report) {
    cst_options *own = NULL;
    CST_SCOPE(scope);
    if (cst_method_is_preset(method)) {
        CST_TRY(preset_options(context, scope, method, options, &own));
        return fit(context, pool, split, own, model, report);
    }
    if (!options)
        CST_TRY(take_options(context, scope, NULL, &own));
    return cst_run_fit_method(context, ops_of(pool), pool, split, method, options ? options : own,
                              model, report);
}

cst_status cst_fit_method(cst_context *context, cst_pool *pool, const char *split,
                          const char *method, const cst_options *options, cst_model **model,
                          cst_report **report) {
    CST_CLEAR(model);
    CST_CLEAR(report);
    CST_ENTER(context);
    if (!pool || !split || !method)
        return cst_fail(context, CST_ERROR_ARGUMENT,
                        "cst_fit_method: pool, split and method are required");
    return finish_fit(context, fit_method(context, pool, split, method, options, model, report),
                      model, report);
}

static cst_status show(cst_context *context, const cst_model *model, cst_pool *pool,
                       const char *split, cst_report **report) {
    if (pool)
        CST_TRY(check_task(context, model, pool));
    return cst_run_show(context, pool ? ops_of(pool) : NULL, model, pool, split, report);
}

cst_status cst_show(cst_context *context, const cst_model *model, cst_pool *pool, const char *split,
                    cst_report **report) {
    CST_CLEAR(report);
    CST_ENTER(context);
    if (!model || !report)
        return cst_fail(context, CST_ERROR_ARGUMENT,
                        "cst_show: context, model and report are required");
    return finish(context, show(context, model, pool, split, report), report);
}

cst_status cst_inspect(cst_context *context, cst_pool *pool, const char *split,
                       const cst_options *options, cst_report **report) {
    cst_options *own = NULL;
    CST_CLEAR(report);
    CST_ENTER(context);
    CST_SCOPE(scope);
    if (!pool || !split || !report)
        return cst_fail(context, CST_ERROR_ARGUMENT,
                        "cst_inspect: pool, split and report are required");
    if (!options)
        CST_TRY(take_options(context, scope, NULL, &own));
    const cst_task_ops *ops = ops_of(pool);
    options = options ? options : own;
    CST_TRY(check_labels(context, pool, options));
    return finish(context,
                  ops->family
                      ? cst_inspect_family(context, ops->family, pool, split, options, NULL, report)
                      : ops->inspect(context, pool, split, options, report),
                  report);
}

cst_status cst_evaluate_member(cst_context *context, const cst_pool *pool, const char *split,
                               int32_t member, const char *metric, int64_t resamples_given,
                               uint64_t seed, cst_report **report) {
    CST_CLEAR(report);
    CST_ENTER(context);
    CST_COUNT(context, resamples, resamples_given);
    CST_SEED(context, seed);
    CST_RESAMPLES(context, resamples);
    if (!pool || !split || !report)
        return cst_fail(context, CST_ERROR_ARGUMENT,
                        "cst_evaluate_member: pool, split and report are required");
    const cst_task_ops *ops = ops_of(pool);
    if (!ops->member)
        return cst_fail(context, CST_ERROR_UNSUPPORTED,
                        "cst_evaluate_member is not supported for %s pools; score the member's "
                        "file with cst_evaluate_detections",
                        cst_task_text(ops->task));
    return cst_why(context, cst_run_alone(context, ops, pool, split, NULL, metric, resamples, seed,
                                          ops->member, &member, report));
}

cst_status cst_evaluate_stack(cst_context *context, const cst_model *model, cst_pool *pool,
                              const cst_evaluate_options *given, cst_report **report) {
    CST_CLEAR(report);
    CST_ENTER(context);
    cst_evaluate_options o = {0};
    CST_TRY(cst_struct_read(context, __func__, given, sizeof o, &o, sizeof o));
    o.split = o.split ? o.split : "test";
    CST_SEED(context, o.seed);
    CST_RESAMPLES(context, o.resamples);
    if (!model || !pool || !report)
        return cst_fail(context, CST_ERROR_ARGUMENT,
                        "cst_evaluate_stack: model, pool and report are required");
    CST_TRY(check_task(context, model, pool));
    CST_TRY(check_rows(context, pool, o.split,
                       o.ood || o.clean || o.reference_errors || o.head_above || o.tail_below));
    return finish(context, cst_run_evaluate(context, ops_of(pool), model, pool, &o, report),
                  report);
}

static cst_status check_profile(cst_context *context, const cst_profile_options *o) {
    enum { MOST = 1000000, MOST_SECONDS = 3600 };
    static const char call[] = "cst_profile";
    if (o->seed > CST_SEED_MAX)
        return cst_fail_seed(context, call, o->seed);
    if (o->batch < 0 || o->batch > MOST)
        return cst_fail(context, CST_ERROR_ARGUMENT, "%s: a batch has 1 to %d samples, got %lld",
                        call, MOST, (long long)o->batch);
    if (o->calls < 0 || o->calls > MOST)
        return cst_fail(context, CST_ERROR_ARGUMENT, "%s: 1 to %d calls are timed, got %lld", call,
                        MOST, (long long)o->calls);
    if (!(o->seconds >= 0 && o->seconds <= MOST_SECONDS))
        return cst_fail(context, CST_ERROR_ARGUMENT,
                        "%s: calls are timed for 0 to %d seconds, got %g", call, MOST_SECONDS,
                        o->seconds);
    CST_TRY(cst_check_texts(context, call, "methods", o->methods, o->method_count));
    return cst_check_texts(context, call, "settings", o->settings, o->setting_count);
}

cst_status cst_profile(cst_context *context, const cst_model *model, cst_pool *pool,
                       const cst_profile_options *given, cst_report **report) {
    CST_CLEAR(report);
    CST_ENTER(context);
    cst_profile_options o = {0};
    CST_TRY(cst_struct_read(context, __func__, given, sizeof o, &o, sizeof o));
    if (!o.methods)
        o.method_count = 0;
    CST_TRY(check_profile(context, &o));
    if (!model || !pool || !report)
        return cst_fail(context, CST_ERROR_ARGUMENT,
                        "cst_profile: model, pool and report are required");
    CST_TRY(check_task(context, model, pool));
    if (!ops_of(pool)->profile)
        return cst_fail(context, CST_ERROR_UNSUPPORTED, "the predictions of %s are not profiled",
                        cst_task_text(cst_pool_task(pool)));
    return finish(context, cst_run_profile(context, ops_of(pool), model, pool, &o, report), report);
}

/* Predictions of the caller's own, each with a name and either a file or an array. */
static cst_status check_own(cst_context *context, const char *call,
                            const cst_compare_options *options) {
    if (options->own_count < 0 || options->own_count > CST_OWN_MAX ||
        (options->own_count > 0 && !options->own))
        return cst_fail(context, CST_ERROR_ARGUMENT,
                        "%s: own must have 0 to %d predictions, own_count is %lld", call,
                        CST_OWN_MAX, (long long)options->own_count);
    for (int64_t i = 0; i < options->own_count; i++) {
        const cst_own_predictions *own = &options->own[i];
        bool array = own->values && own->rows > 0 && own->columns > 0;
        if (!own->name || (own->path ? own->values != NULL : !array))
            return cst_fail(context, CST_ERROR_ARGUMENT,
                            "%s: own[%lld] needs a name and either a path or values, rows and "
                            "columns",
                            call, (long long)i);
    }
    return CST_OK;
}

/* What a comparison was asked for, in *out, whose methods are left out where it compares none. */
static cst_status read_options(cst_context *context, const char *call, const cst_pool *pool,
                               bool methods, const cst_compare_options *given,
                               cst_compare_options *out, cst_report **report) {
    if (given)
        CST_TRY(cst_struct_read(context, call, given, sizeof *out, out, sizeof *out));
    if (out->seed > CST_SEED_MAX)
        return cst_fail_seed(context, call, out->seed);
    if (out->resamples < 0 || out->resamples > CST_RESAMPLES_MAX)
        return cst_fail_resamples(context, call, out->resamples);
    if (!methods || !out->methods) {
        out->methods = NULL;
        out->method_count = 0;
    }
    CST_TRY(cst_check_texts(context, call, "methods", out->methods, out->method_count));
    CST_TRY(cst_check_texts(context, call, "settings", out->settings, out->setting_count));
    CST_TRY(check_own(context, call, out));
    if (!report)
        return cst_fail(context, CST_ERROR_ARGUMENT, "%s: the report is required", call);
    if (!pool)
        return cst_fail(context, CST_ERROR_ARGUMENT, "%s: the pool is NULL", call);
    return check_rows(context, pool, out->split, false);
}

/* Only compare repeats. */
static cst_status check_alone(cst_context *context, const char *call,
                              const cst_compare_options *options) {
    if (options->splits >= 0 && options->splits <= 1 && options->holdout >= 0 &&
        options->holdout <= 0 && options->own_count == 0)
        return CST_OK;
    return cst_fail(context, CST_ERROR_UNSUPPORTED,
                    "%s: splits, holdout and own are supported by cst_compare only", call);
}

cst_status cst_compare(cst_context *context, cst_pool *pool,
                       const cst_compare_options *options_given, cst_report **report) {
    cst_compare_options o = {.resamples = 5000};
    CST_CLEAR(report);
    CST_ENTER(context);
    CST_TRY(read_options(context, __func__, pool, true, options_given, &o, report));
    CST_TRY(check_rows(context, pool, NULL,
                       o.ood || o.clean || o.reference_errors || o.head_above || o.tail_below));
    return finish(context, cst_run_compare(context, ops_of(pool), pool, &o, report), report);
}

cst_status cst_ablate(cst_context *context, cst_pool *pool,
                      const cst_compare_options *options_given, cst_report **report) {
    cst_compare_options o = {.resamples = 5000};
    CST_CLEAR(report);
    CST_ENTER(context);
    CST_TRY(read_options(context, __func__, pool, false, options_given, &o, report));
    CST_TRY(check_alone(context, __func__, &o));
    cst_task task = cst_pool_task(pool);
    if (task == CST_TASK_MULTILABEL || task == CST_TASK_TOPK)
        return cst_fail(context, CST_ERROR_UNSUPPORTED,
                        "the stages of an ablation are not those of a %s fit; use compare for "
                        "methods, or sweep for settings",
                        cst_task_text(task));
    return finish(context, cst_run_ablate(context, ops_of(pool), pool, &o, report), report);
}

cst_status cst_sweep(cst_context *context, cst_pool *pool, const cst_sweep_options *sweep_given,
                     const cst_compare_options *options_given, cst_report **report) {
    cst_compare_options o = {0};
    CST_CLEAR(report);
    CST_ENTER(context);
    CST_TRY(read_options(context, __func__, pool, true, options_given, &o, report));
    CST_STRUCT(context, cst_sweep_options, sweep, sweep_given);
    CST_TRY(check_alone(context, __func__, &o));
    if (!sweep)
        return cst_fail(context, CST_ERROR_ARGUMENT, "cst_sweep: the sweep is NULL");
    CST_TRY(cst_check_texts(context, __func__, "values", sweep->values, sweep->value_count));
    return finish(context, cst_run_sweep(context, ops_of(pool), pool, sweep, &o, report), report);
}
