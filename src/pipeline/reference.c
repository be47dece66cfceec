/*
 * What a fit stores about its out-of-fold rows for the guard and the monitor, and the names of the
 * members that the guard may ask for. After stage S4. model/stack.h, docs/model-format.md.
 */
#include "pipeline/reference.h"

#include "metrics/weighted.h"

static bool is_kept(const int32_t *kept, int32_t count, int32_t member) {
    for (int32_t j = 0; j < count; j++)
        if (kept[j] == member)
            return true;
    return false;
}

static cst_status name_others(cst_context *context, const cst_pool *pool, const int32_t *kept,
                              int32_t count, cst_novelty *novelty) {
    int32_t members = cst_pool_members(pool);
    novelty->other_names =
        cst_alloc(context, (size_t)(members - count), sizeof *novelty->other_names);
    if (!novelty->other_names)
        return CST_ERROR_MEMORY;
    for (int32_t k = 0; k < members; k++) {
        if (is_kept(kept, count, k))
            continue;
        char *name = cst_strdup(context, cst_pool_member_name(pool, k));
        if (!name)
            return CST_ERROR_MEMORY;
        novelty->other_names[novelty->others++] = name;
    }
    return CST_OK;
}

/* The stack on the chosen rows, and what the monitor keeps of them. */
static cst_status watch_rows(cst_context *context, const cst_view *chosen, cst_model *model) {
    size_t rows = (size_t)chosen->rows;
    float *stack = cst_alloc(context, rows * (size_t)chosen->classes, sizeof *stack);
    int32_t *labels = cst_alloc(context, rows, sizeof *labels);
    cst_metrics scores = {0};
    cst_status status = stack && labels ? CST_OK : CST_ERROR_MEMORY;
    CST_TRY(cst_stack_predict(context, model, chosen, stack));
    for (int64_t i = 0; status == CST_OK && i < chosen->rows; i++)
        labels[i] = cst_view_label(chosen, i);
    CST_TRY(cst_metrics_weighted(context, stack, chosen->rows, chosen->classes, labels, NULL, 0,
                                 &scores));
    CST_TRY(cst_watch_fit(context, chosen, stack, scores.ece, &model->watch));
    cst_free(context, stack);
    cst_free(context, labels);
    return status;
}

static cst_status fit_watch(cst_context *context, const cst_view *rows, cst_model *model) {
    if (model->task != CST_TASK_CLASSIFICATION || rows->rows < CST_WATCH_ROWS_MIN ||
        rows->classes < 2)
        return CST_OK;
    size_t most = (size_t)(rows->rows < CST_WATCH_ROWS_MAX ? rows->rows : CST_WATCH_ROWS_MAX);
    int64_t *index = cst_alloc(context, most, sizeof *index);
    if (!index)
        return CST_ERROR_MEMORY;
    cst_view view = *rows;
    view.rows = cst_watch_choose(rows, index);
    view.index = index;
    for (int64_t i = 0; i < view.rows; i++)
        index[i] = rows->index ? rows->index[index[i]] : index[i];
    cst_status status = watch_rows(context, &view, model);
    cst_free(context, index);
    return status;
}

cst_status cst_fit_reference(cst_context *context, const cst_pool *pool, const cst_training *source,
                             const cst_view *rows, const int32_t *kept, cst_model *model) {
    if (model->task != CST_TASK_CLASSIFICATION && model->task != CST_TASK_SEGMENTATION)
        return CST_OK;
    cst_status status =
        cst_novelty_fit(context, rows, source->folds, source->fold_count, &model->novelty);
    if (status == CST_OK && model->novelty)
        status = name_others(context, pool, kept, model->members, model->novelty);
    CST_TRY(fit_watch(context, rows, model));
    return status;
}
