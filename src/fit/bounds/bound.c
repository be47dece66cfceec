/* cst_bound: a stack on a split it was not fitted on, with certificates. docs/bounds.md. */
#include "fit/bounds/bound.h"

#include "core/la.h"
#include "data/checks/checks.h"
#include "data/pool/pool.h"
#include "model/fit_rows.h"
#include "model/stack.h"

#include <string.h>

static cst_status check_options(cst_context *context, const cst_bound_work *work) {
    if (!(work->delta > 0 && work->delta < 1 && work->alpha > 0 && work->alpha < 1))
        return cst_fail(context, CST_ERROR_ARGUMENT,
                        "cst_bound: delta and alpha must be probabilities between 0 and 1");
    if (!(work->shift >= CST_BOUND_UNWEIGHTED && work->shift <= CST_BOUND_LABEL))
        return cst_fail(context, CST_ERROR_ARGUMENT,
                        "cst_bound_shifted: the weights are none, covariate or label");
    if (!(work->by >= CST_BOUND_TOGETHER && work->by <= CST_BOUND_BY_DOMAIN))
        return cst_fail(context, CST_ERROR_ARGUMENT,
                        "cst_bound_shifted: sets are calibrated together, by class or by domain");
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
            cst_task_text(cst_model_task(work->model)), cst_task_text(cst_pool_task(work->pool)));
    if (!cst_pool_has_split(work->pool, split))
        return cst_fail_split(context, CST_ERROR_INPUT, work->pool, split);
    if (work->validation && !cst_pool_has_split(work->pool, work->validation))
        return cst_fail_split(context, CST_ERROR_INPUT, work->pool, work->validation);
    if (work->validation && strcmp(work->validation, "oof") == 0)
        return cst_fail(context, CST_ERROR_ARGUMENT,
                        "the rows of split 'oof' are counted in the bound of the paper: lambda* of "
                        "other rows makes its prior independent of them; name another split");
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

static cst_status say(cst_context *context, const cst_bound_work *work, const cst_fit_rows *fit,
                      const cst_row_match *match, cst_seen seen) {
    if (seen == CST_SEEN_ALL)
        return cst_fail(context, CST_ERROR_INPUT,
                        "the model was fitted on the rows of split '%s', so no bound is valid "
                        "there; name another split",
                        work->split);
    if (seen == CST_SEEN_SOME)
        cst_notice(
            context,
            "of %lld rows of split '%s' that were checked, %lld have the label and the predictions "
            "of rows that the model was fitted on; if they are the same rows, no bound is valid",
            (long long)match->looked_at, work->split, (long long)match->found);
    else if (fit->same_labels)
        cst_notice(context,
                   "split '%s' has as many rows as the model was fitted on, with the same labels "
                   "in the same order; if they are the same rows, no bound is valid",
                   work->split);
    return CST_OK;
}

static cst_status check_fit(cst_context *context, const cst_bound_work *work, const char *key) {
    cst_fit_rows fit;
    if (!cst_fit_rows_under(work->model, key, work->labels, work->rows, &fit) &&
        strcmp(key, CST_FITTED_KEY) != 0)
        return CST_OK;
    cst_known_rows known = {0};
    cst_row_match match = {0};
    cst_view view;
    cst_seen seen = CST_SEEN_NONE;
    CST_SCOPE(scope);
    CST_TRY(cst_bound_view(context, scope, work, work->split, &view));
    cst_status status = cst_rows_seen(context, work->model, work->pool, &fit, work->split, &view,
                                      &known, &match, &seen);
    cst_scope_free(&known.scope);
    CST_TRY(status);
    return say(context, work, &fit, &match, seen);
}

/* ---- independent rows ---- */

/* Groups of one row each are none. */
static cst_status check_groups(cst_context *context, const cst_bound_work *work) {
    const int64_t *groups = cst_pool_groups(work->pool, work->split);
    if (!groups)
        return CST_OK;
    size_t rows = (size_t)work->rows;
    CST_SCOPE(scope);
    CST_NEW(context, scope, int64_t, sorted, rows);
    cst_copy(context, sorted, groups, rows * sizeof *sorted);
    CST_TRY(cst_sort(context, sorted, rows, sizeof *sorted, cst_by_i64));
    for (size_t i = 1; i < rows; i++)
        if (sorted[i] == sorted[i - 1])
            return cst_fail(context, CST_ERROR_UNSUPPORTED,
                            "groups of split '%s' have several rows, which are not independent; "
                            "name a split with one row of each group",
                            work->split);
    return CST_OK;
}

/* Labels, independent rows and none of the fit; notices say what is not known. */
static cst_status check_rows(cst_context *context, const cst_bound_work *work) {
    const char *split = work->split;
    if (!work->labels)
        return cst_fail(context, CST_ERROR_INPUT,
                        "split '%s' has no labels, which are needed to count errors", split);
    if (cst_pool_weights(work->pool, split))
        return cst_fail(context, CST_ERROR_UNSUPPORTED,
                        "split '%s' has row weights, which bounds do not support", split);
    if (work->rows < 4)
        return cst_fail(context, CST_ERROR_INPUT,
                        "split '%s' has %lld rows; bounds need at least 4", split,
                        (long long)work->rows);
    CST_TRY(check_groups(context, work));
    CST_TRY(check_fit(context, work, CST_FITTED_KEY));
    return check_fit(context, work, CST_ADAPTED_KEY);
}

/* The stack's predictions, every member, and the rows in two halves. */
static cst_status load(cst_context *context, cst_scope *scope, cst_bound_work *work) {
    cst_rng rng;
    int64_t rows = 0;
    CST_TRY(
        cst_model_predict_pool(context, work->model, work->pool, work->split, &work->stack, &rows));
    CST_TRY(cst_pool_load(context, work->pool, work->split));
    CST_TRY(cst_pool_view(context, work->pool, work->split, &work->view));
    work->rows = rows;
    work->classes = work->view.classes;
    work->labels = work->view.labels;
    CST_TRY(check_rows(context, work));
    CST_TRY(cst_check_scored(
        context,
        &(cst_check_source){.pool = work->pool, .split = work->split, .view = &work->view}));
    CST_TAKE(context, scope, work->order, rows);
    for (int64_t i = 0; i < rows; i++)
        work->order[i] = i;
    cst_rng_init(&rng, work->seed, CST_STREAM_HALVES, 0);
    cst_rng_shuffle(&rng, work->order, rows);
    work->half = rows / 2;
    return CST_OK;
}

static cst_status fill(cst_context *context, cst_bound_work *work, cst_report *report) {
    json_t *root = cst_report_root(report);
    CST_PUT(report, root, CST_S("split", work->split), CST_I("samples", work->rows),
            CST_I("classes", work->classes));
    json_t *models = cst_report_list(report, root, "models");
    for (int32_t k = 0; k < cst_model_members(work->model); k++)
        cst_report_add_string(report, models, cst_model_member_name(work->model, k));
    CST_PUT(report, root, CST_N("delta", work->delta), CST_I("seed", (int64_t)work->seed));
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

static void release_stack(cst_context *context, void *work) {
    cst_free(context, ((cst_bound_work *)work)->stack);
}

static cst_status compute(cst_context *context, cst_bound_work *work, cst_report **report) {
    CST_SCOPE(scope);
    CST_TRY(cst_scope_own(context, scope, release_stack, work));
    CST_TRY(check_options(context, work));
    CST_TRY(check_split(context, work));
    CST_TRY(cst_bound_settings(context, work->model, "cka.threshold", &work->settings));
    CST_TRY(load(context, scope, work));
    CST_TRY(cst_report_begin(context, CST_REPORT_BOUND, report));
    return fill(context, work, *report);
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
                           .validation = o.validation,
                           .batch_split = batch ? batch->split : NULL,
                           .shift = batch ? batch->weights : CST_BOUND_UNWEIGHTED,
                           .by = batch ? batch->by : CST_BOUND_TOGETHER,
                           .miss_costs = batch ? batch->miss_costs : NULL,
                           .miss_cost_count = batch ? batch->miss_cost_count : 0,
                           .risk = batch ? batch->risk : 0,
                           .sets = batch ? batch->sets : NULL,
                           .seed = o.seed};
    cst_notices_clear(context);
    CST_LA();
    return cst_why(context, cst_report_settle(context, compute(context, &work, report), report));
}

cst_status cst_bound(cst_context *context, const cst_model *model, cst_pool *pool,
                     const cst_bound_options *options_given, cst_report **report) {
    CST_CLEAR(report);
    CST_ENTER(context);
    CST_STRUCT(context, cst_bound_options, options, options_given);
    return bound(context, model, pool, options, NULL, false, report);
}

cst_status cst_bound_shifted(cst_context *context, const cst_model *model, cst_pool *pool,
                             const cst_bound_options *options_given,
                             const cst_bound_batch *batch_given, cst_report **report) {
    CST_CLEAR(report);
    CST_ENTER(context);
    CST_STRUCT(context, cst_bound_options, options, options_given);
    CST_STRUCT(context, cst_bound_batch, batch, batch_given);
    return bound(context, model, pool, options, batch, true, report);
}
