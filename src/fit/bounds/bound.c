/*
 * cst_bound: what a stack does on a split that it was not fitted on, and every certificate of it.
 * After a fit. Paper: appendix; docs/bounds.md#the-bounds.
 */
#include "fit/bounds/bound.h"

#include "core/la.h"
#include "data/checks/checks.h"
#include "data/pool/pool.h"
#include "model/stack.h"

static cst_status check_options(cst_context *context, const cst_bound_work *work) {
    if (!(work->delta > 0 && work->delta < 1 && work->alpha > 0 && work->alpha < 1))
        return cst_fail(context, CST_ERROR_ARGUMENT,
                        "cst_bound: delta and alpha must be probabilities between 0 and 1");
    if (!(work->shift >= CST_BOUND_UNWEIGHTED && work->shift <= CST_BOUND_LABEL))
        return cst_fail(context, CST_ERROR_ARGUMENT,
                        "cst_bound_shifted: the weights are none, covariate or label");
    return CST_OK;
}

/* That bounds can be valid here: independent rows, which the model was not fitted on. */
static cst_status check_split(cst_context *context, const cst_bound_work *work) {
    const char *split = work->split;
    if (cst_model_task(work->model) != CST_TASK_CLASSIFICATION ||
        cst_pool_task(work->pool) != CST_TASK_CLASSIFICATION)
        return cst_fail(
            context, CST_ERROR_UNSUPPORTED,
            "bounds are for classification only: the model's task is %s, the pool's task is %s",
            cst_task_name(cst_model_task(work->model)), cst_task_name(cst_pool_task(work->pool)));
    if (!cst_pool_has_split(work->pool, split))
        return cst_fail_split(context, CST_ERROR_INPUT, work->pool, split);
    if (cst_pool_misses(work->pool))
        return cst_fail(context, CST_ERROR_UNSUPPORTED,
                        "bounds are not supported with --missing allow: they are about one stack "
                        "that every member takes part in");
    if (cst_pool_conditions(work->pool, split) > 0)
        return cst_fail(context, CST_ERROR_UNSUPPORTED,
                        "split '%s' has several conditions, whose rows are not independent; name a "
                        "split without conditions",
                        split);
    return CST_OK;
}

cst_status cst_bound_view(cst_context *context, cst_scope *scope, const cst_bound_work *work,
                          const char *split, cst_view *view) {
    const float **pointers = NULL;
    CST_TRY(cst_model_view(context, work->model, work->pool, split, &pointers, view));
    return cst_scope_own(context, scope, cst_free, pointers);
}

/* The stack's predictions, every member, and the rows in two halves. */
static cst_status load(cst_context *context, cst_bound_work *work) {
    int64_t rows = 0;
    cst_status status =
        cst_model_predict_pool(context, work->model, work->pool, work->split, &work->stack, &rows);
    CST_THEN(cst_pool_load(context, work->pool, work->split));
    CST_THEN(cst_pool_view(context, work->pool, work->split, &work->view));
    work->rows = rows;
    work->classes = work->view.classes;
    work->labels = work->view.labels;
    CST_THEN(cst_bound_check_rows(context, work));
    CST_THEN(cst_check_scored(
        context,
        &(cst_check_source){.pool = work->pool, .split = work->split, .view = &work->view}));
    if (status == CST_OK && !(work->order = cst_alloc(context, (size_t)rows, sizeof *work->order)))
        status = CST_ERROR_MEMORY;
    if (status != CST_OK)
        return status;
    cst_rng rng;
    for (int64_t i = 0; i < rows; i++)
        work->order[i] = i;
    cst_rng_init(&rng, work->seed, CST_STREAM_HALVES, 0);
    cst_rng_shuffle(&rng, work->order, rows);
    work->half = rows / 2;
    return CST_OK;
}

static cst_status fill(cst_context *context, cst_bound_work *work, cst_report *report) {
    json_t *root = cst_report_root(report);
    cst_report_string(report, root, "split", work->split);
    cst_report_integer(report, root, "samples", work->rows);
    cst_report_integer(report, root, "classes", work->classes);
    json_t *models = cst_report_list(report, root, "models");
    for (int32_t k = 0; k < cst_model_members(work->model); k++)
        cst_report_add_string(report, models, cst_model_member_name(work->model, k));
    cst_report_number(report, root, "delta", work->delta);
    cst_report_integer(report, root, "seed", (int64_t)work->seed);
    CST_TRY(cst_bound_holdout(context, work, report));
    CST_TRY(cst_bound_votes(context, work, report));
    CST_TRY(cst_bound_sets(context, work, report));
    CST_TRY(cst_bound_calibration(context, work, report));
    CST_TRY(cst_bound_spectrum(context, work, report));
    CST_TRY(cst_bound_blending(context, work, report));
    CST_TRY(cst_bound_stability(context, work, report));
    CST_TRY(cst_bound_paper(context, work, report));
    if (work->batch_split)
        CST_TRY(cst_bound_under_shift(context, work, report));
    if (work->leakage)
        CST_TRY(cst_bound_leakage(context, work, report));
    cst_report_notices(report, context);
    return cst_report_finish(context, report);
}

/* Clusters and lambda* are those of the stack: its own settings replace the defaults. */
static cst_status take_settings(cst_context *context, const cst_model *model,
                                cst_options *options) {
    static const char *const keys[] = {"cka.threshold", "spectrum.of"};
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        const char *value = cst_model_value(model, keys[i]);
        if (value)
            CST_TRY(cst_options_set(context, options, keys[i], value));
    }
    return CST_OK;
}

static cst_status compute(cst_context *context, cst_bound_work *work, cst_report **report) {
    cst_options *options = NULL;
    cst_status status = check_options(context, work);
    CST_THEN(check_split(context, work));
    CST_THEN(cst_options_create(context, &options));
    CST_THEN(take_settings(context, work->model, options));
    if (status == CST_OK)
        cst_settings_read(options, &work->settings);
    cst_options_free(context, options);
    CST_THEN(load(context, work));
    CST_THEN(cst_report_create(context, CST_REPORT_BOUND, report));
    CST_THEN(fill(context, work, *report));
    return status;
}

/* batch: NULL for none, unless `shifted`. */
static cst_status bound(cst_context *context, const cst_model *model, cst_pool *pool,
                        const cst_bound_options *options, const cst_bound_batch *batch,
                        bool shifted, cst_report **report) {
    CST_SEED(context, options ? options->seed : 0);
    if (!model || !pool || !report)
        return cst_fail(context, CST_ERROR_ARGUMENT,
                        "cst_bound: model, pool and report are required");
    if (shifted && (!batch || !batch->split))
        return cst_fail(context, CST_ERROR_ARGUMENT,
                        "cst_bound_shifted: the split of the batch is required");
    cst_bound_options o = options ? *options : (cst_bound_options){0};
    cst_bound_work work = {.model = model,
                           .pool = pool,
                           .split = o.split ? o.split : "test",
                           .delta = o.delta == 0 ? 0.05 : o.delta,
                           .alpha = o.alpha == 0 ? 0.1 : o.alpha,
                           .leakage = o.leakage != 0,
                           .batch_split = batch ? batch->split : NULL,
                           .shift = batch ? batch->weights : CST_BOUND_UNWEIGHTED,
                           .sets = batch ? batch->sets : NULL,
                           .seed = o.seed};
    cst_notices_clear(context);
    cst_la_enter();
    cst_status status = compute(context, &work, report);
    cst_la_leave();
    cst_free(context, work.stack);
    cst_free(context, work.order);
    return cst_why(context, cst_report_settle(context, status, report));
}

cst_status cst_bound(cst_context *context, const cst_model *model, cst_pool *pool,
                     const cst_bound_options *options, cst_report **report) {
    if (report)
        *report = NULL;
    CST_ENTER(context);
    return bound(context, model, pool, options, NULL, false, report);
}

cst_status cst_bound_shifted(cst_context *context, const cst_model *model, cst_pool *pool,
                             const cst_bound_options *options, const cst_bound_batch *batch,
                             cst_report **report) {
    if (report)
        *report = NULL;
    CST_ENTER(context);
    return bound(context, model, pool, options, batch, true, report);
}
