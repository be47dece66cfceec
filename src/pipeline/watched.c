/*
 * The stack on the rows of its fit, for the monitor. See the header.
 */
#include "pipeline/watched.h"

#include "metrics/weighted.h"

enum { CELLS = 1 << 21, ROWS_LEAST = 2048 };

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

cst_status cst_fit_watch(cst_context *context, const cst_view *rows, cst_model *model) {
    if (model->task != CST_TASK_CLASSIFICATION || rows->rows < CST_WATCH_ROWS_MIN ||
        rows->classes < 2)
        return CST_OK;
    int64_t most = CELLS / rows->classes;
    most = most < ROWS_LEAST ? ROWS_LEAST : most > CST_WATCH_ROWS_MAX ? CST_WATCH_ROWS_MAX : most;
    cst_view view = *rows;
    view.rows = rows->rows < most ? rows->rows : most;
    int64_t *index = cst_alloc(context, (size_t)view.rows, sizeof *index);
    if (!index)
        return CST_ERROR_MEMORY;
    cst_watch_choose(rows->rows, view.rows, index);
    view.index = index;
    for (int64_t i = 0; i < view.rows && rows->index; i++)
        index[i] = rows->index[index[i]];
    cst_status status = watch_rows(context, &view, model);
    cst_free(context, index);
    return status;
}
