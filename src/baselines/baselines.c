/*
 * Fit and prediction of the simple baselines on views. Beside the stack, after stage S0. method.md
 * section 8.
 */
#include "baselines/baselines.h"

const char *cst_baseline_name(cst_baseline_kind kind) {
    switch (kind) {
    case CST_BASELINE_BEST_SINGLE:
        return "best-single";
    case CST_BASELINE_BEST_SINGLE_TOP1:
        return "best-single-top1";
    case CST_BASELINE_AVERAGE:
        return "average";
    case CST_BASELINE_GREEDY:
        return "greedy";
    }
    return NULL;
}

static cst_status fit_weights(cst_context *context, const cst_view *view, cst_baseline_kind kind,
                              double *weights) {
    switch (kind) {
    case CST_BASELINE_BEST_SINGLE:
    case CST_BASELINE_BEST_SINGLE_TOP1:
        return cst_baseline_best_single(context, view, kind == CST_BASELINE_BEST_SINGLE_TOP1,
                                        weights);
    case CST_BASELINE_AVERAGE:
        return cst_baseline_average(context, view, weights);
    case CST_BASELINE_GREEDY:
        return cst_baseline_greedy(context, view, weights);
    }
    return cst_fail(context, CST_ERROR_ARGUMENT, "baseline %d is not known", (int)kind);
}

cst_status cst_baseline_fit_view(cst_context *context, const cst_view *view, cst_baseline_kind kind,
                                 bool temperature, cst_baseline *out) {
    *out = (cst_baseline){
        .kind = kind, .scaled = temperature, .temperature = 1, .members = view->members};
    if (view->members < 1)
        return cst_fail(context, CST_ERROR_ARGUMENT, "a baseline needs at least one member");
    out->weights = cst_alloc(context, (size_t)view->members, sizeof *out->weights);
    cst_status status =
        out->weights ? fit_weights(context, view, kind, out->weights) : CST_ERROR_MEMORY;
    if (status == CST_OK && temperature)
        status = cst_temperature_fit(context, view, out->weights, &out->temperature, NULL);
    for (int32_t k = 0; status == CST_OK && k < view->members; k++)
        out->used += out->weights[k] > 0;
    if (status != CST_OK)
        cst_baseline_free(context, out);
    return status;
}

typedef struct predict_job {
    const cst_baseline *baseline;
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
    cst_status status = CST_OK;
    float *scratch = cst_alloc(context, view->index ? cells : 0, sizeof *scratch);
    double *mixture = cst_alloc(context, cells, sizeof *mixture);
    if (!scratch || !mixture) {
        status = CST_ERROR_MEMORY;
        goto cleanup;
    }
    for (int32_t k = 0; k < view->members; k++) {
        double weight = job->baseline->weights[k];
        if (weight == 0)
            continue;
        const float *rows = cst_view_rows(view, k, first, count, scratch);
        for (size_t j = 0; j < cells; j++)
            mixture[j] += weight * (double)rows[j];
    }
    if (job->baseline->scaled)
        cst_temperature_rows(job->baseline->temperature, count, view->classes, mixture);
    for (size_t j = 0; j < cells; j++)
        to[j] = (float)mixture[j];
cleanup:
    cst_free(context, scratch);
    cst_free(context, mixture);
    return status;
}

cst_status cst_baseline_predict_view(cst_context *context, const cst_baseline *baseline,
                                     const cst_view *view, float *out) {
    if (baseline->members != view->members)
        return cst_fail(context, CST_ERROR_MISMATCH,
                        "the baseline was fitted on %d members and these predictions have %d",
                        baseline->members, view->members);
    predict_job job = {baseline, view, out};
    return cst_parallel_for(context, cst_block_count(view->rows), predict_block, &job);
}

void cst_baseline_free(cst_context *context, cst_baseline *baseline) {
    if (!baseline)
        return;
    cst_free(context, baseline->weights);
    *baseline = (cst_baseline){0};
}
