/*
 * The linear mixture of the members, which most baselines predict. docs/baselines.md#definitions.
 */
#include "fit/baselines/baselines.h"

#include <string.h>

cst_status cst_mixture_rows(cst_context *context, const cst_view *view, const double *weights,
                            int64_t first, int64_t count, float *scratch, double *out) {
    size_t cells = (size_t)count * (size_t)view->classes;
    memset(out, 0, cells * sizeof *out);
    for (int32_t k = 0; k < view->members; k++) {
        if (weights[k] == 0)
            continue;
        const float *rows = NULL;
        cst_status status = cst_view_rows(context, view, k, first, count, scratch, &rows);
        if (status != CST_OK)
            return status;
        for (size_t j = 0; j < cells; j++)
            out[j] += weights[k] * (double)rows[j];
    }
    return CST_OK;
}

typedef struct predict_job {
    const cst_baseline_fit *fit;
    const cst_view *view;
    float *out;
} predict_job;

static cst_status predict_block(cst_context *context, void *user, int64_t block) {
    const predict_job *job = user;
    const cst_view *view = job->view;
    int64_t first = cst_block_first(block);
    int64_t count = cst_block_size(view->rows, block);
    size_t cells = (size_t)count * (size_t)view->classes;
    float *to = job->out + (size_t)first * (size_t)view->classes;
    CST_SCOPE(scope);
    CST_NEW(context, scope, float, scratch, cst_view_copies(view) ? cells : 0);
    CST_NEW(context, scope, double, mixture, cells);
    CST_TRY(cst_mixture_rows(context, view, job->fit->weights, first, count, scratch, mixture));
    for (size_t j = 0; j < cells; j++)
        to[j] = (float)mixture[j];
    return CST_OK;
}

cst_status cst_mixture_predict(cst_context *context, const cst_baseline_fit *fit,
                               const cst_view *view, float *out) {
    predict_job job = {fit, view, out};
    const cst_share filled = cst_share_rows(out, view->rows, (size_t)view->classes * sizeof *out);
    return cst_parallel_fill(context, cst_block_count(view->rows), predict_block, &job, &filled,
                             fit->own_rows ? 0 : 1);
}
