/*
 * The guard on a split of a pool: where it acts, the members that the stack leaves out are loaded.
 * After prediction. corestack/guard.h.
 */
#include "model/guard.h"

#include "data/pool/pool.h"

/* Loads one of the others; whether it is there. One that cannot be read is only missed. */
static cst_status load_other(cst_context *context, cst_pool *pool, const char *split,
                             int32_t position, bool *there) {
    *there = false;
    if (position < 0 || !cst_pool_member_has_split(pool, position, split))
        return CST_OK;
    cst_status status = cst_pool_load_members(context, pool, split, &position, 1);
    *there = status == CST_OK;
    if (status == CST_OK || status == CST_ERROR_MEMORY || status == CST_ERROR_CANCELLED)
        return status;
    cst_notice(context, "the guard's average is without member '%s': %s",
               cst_pool_member_name(pool, position), cst_last_error(context));
    return CST_OK;
}

/* Positions of the model's members, then of the others that are there. */
static cst_status find_all(cst_context *context, const cst_model *model, cst_pool *pool,
                           const char *split, const cst_view *view, int32_t *positions,
                           cst_guard_report *report) {
    cst_status status = CST_OK;
    double flops = 0;
    double latency = 0;
    for (int32_t k = 0; k < view->members; k++) {
        positions[k] = cst_pool_member_index(pool, cst_model_member_name(model, k));
        report->members += view->data[k] != NULL;
    }
    for (int32_t k = 0; status == CST_OK && k < model->novelty->others; k++) {
        int32_t position = cst_pool_member_index(pool, model->novelty->other_names[k]);
        bool there = false;
        if (cst_guard_is_input(model, k))
            continue;
        status = load_other(context, pool, split, position, &there);
        if (!there)
            continue;
        positions[view->members + report->others++] = position;
        flops += cst_pool_member_flops(pool, position);
        latency += cst_pool_member_latency_ms(pool, position);
    }
    report->members += report->others;
    if (report->others > 0) {
        report->cost[0] = flops;
        report->cost[1] = latency;
    }
    return status;
}

cst_status cst_guard_all(cst_context *context, const cst_model *model, cst_pool *pool,
                         const char *split, const cst_view *view, cst_guard_report *report,
                         const float ***pointers, cst_view *all) {
    size_t most = (size_t)view->members + (size_t)model->novelty->others;
    int32_t *positions = cst_alloc(context, most, sizeof *positions);
    *pointers = cst_alloc(context, most, sizeof **pointers);
    cst_status status = positions && *pointers ? CST_OK : CST_ERROR_MEMORY;
    CST_THEN(find_all(context, model, pool, split, view, positions, report));
    CST_THEN(cst_pool_view_there(context, pool, split, positions, view->members + report->others,
                                 *pointers, all));
    cst_free(context, positions);
    return status;
}

static cst_status lean(cst_context *context, const cst_model *model, cst_pool *pool,
                       const char *split, const cst_view *view, float *out,
                       cst_guard_report *report) {
    const float **pointers = NULL;
    cst_view all = {0};
    cst_status status = cst_guard_all(context, model, pool, split, view, report, &pointers, &all);
    if (status == CST_OK)
        status = report->cases ? cst_guard_mix_cases(context, report, &all, 0, all.rows, out)
                               : cst_guard_mix(context, model, report, &all, out);
    cst_free(context, pointers);
    return status;
}

static cst_status test_split(cst_context *context, const cst_model *model, const cst_pool *pool,
                             const char *split, const cst_view *view, const cst_guard *guard,
                             const float *out, cst_guard_report **report) {
    if (model->task == CST_TASK_SEGMENTATION)
        return cst_guard_test_maps(context, model, pool, split, view, guard, report);
    if (guard->mode == CST_GUARD_AUTO && !model->novelty &&
        model->task == CST_TASK_CLASSIFICATION && view->rows >= CST_NOVELTY_BATCH_MIN) {
        if (model->adapted)
            cst_notice(context, "the guard is off: the model was adapted, and is not compared with "
                                "the rows of its fit");
        else
            cst_notice(context,
                       "the guard is off: the model has nothing to compare rows with (it is of an "
                       "older version, or was fitted on fewer than %d rows)",
                       (int)CST_NOVELTY_ROWS_MIN);
    }
    if (guard->mode == CST_GUARD_OFF || !model->novelty || view->rows == 0)
        return CST_OK;
    int32_t conditions = cst_pool_conditions(pool, split);
    return cst_guard_test(context, model, view, out, conditions > 0 ? conditions : 1, guard->batch,
                          report);
}

cst_status cst_guard_split(cst_context *context, const cst_model *model, cst_pool *pool,
                           const char *split, const cst_view *view, const cst_guard *guard,
                           float *out, cst_guard_report **report) {
    *report = NULL;
    cst_status status = test_split(context, model, pool, split, view, guard, out, report);
    if (status != CST_OK || !*report)
        return status;
    if (guard->mode == CST_GUARD_AUTO && !model->adapted && (*report)->fired > 0)
        status = lean(context, model, pool, split, view, out, *report);
    if (status == CST_OK)
        cst_guard_tell(context, model, split, guard->mode, *report);
    return status;
}
