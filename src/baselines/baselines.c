/*
 * The table of baselines, and what all of them share: the fit's arrays, the linear mixture.
 * method.md section 8.
 */
#include "baselines/baselines.h"

#include <string.h>

static const cst_baseline *const BASELINES[] = {
    &cst_baseline_best_single,
    &cst_baseline_average,
    &cst_baseline_performance_weighted,
    &cst_baseline_ridge,
    &cst_baseline_lasso,
    &cst_baseline_elastic_net,
    &cst_baseline_greedy,
    &cst_baseline_greedy_top1,
    &cst_baseline_greedy_brier,
    &cst_baseline_minimum_variance,
    &cst_baseline_log_linear,
    &cst_baseline_mlp,
    &cst_baseline_hill_climbing,
    &cst_baseline_deep_ensemble,
    &cst_baseline_snapshot,
    &cst_baseline_mc_dropout,
    &cst_baseline_soup,
    &cst_baseline_swag,
};

size_t cst_baseline_count(void) {
    return sizeof BASELINES / sizeof BASELINES[0];
}

const cst_baseline *cst_baseline_at(size_t index) {
    return index < cst_baseline_count() ? BASELINES[index] : NULL;
}

const cst_baseline *cst_baseline_find(const char *name) {
    for (size_t i = 0; i < cst_baseline_count(); i++)
        if (strcmp(BASELINES[i]->name, name) == 0)
            return BASELINES[i];
    return NULL;
}

cst_status cst_baseline_fit_run(cst_context *context, const cst_baseline *baseline,
                                const cst_baseline_data *data, cst_baseline_fit *out) {
    const cst_view *view = data->view;
    *out = (cst_baseline_fit){
        .baseline = baseline, .members = view->members, .classes = view->classes};
    if (view->members < 1 || view->rows < 1 || !view->labels)
        return cst_fail(context, CST_ERROR_ARGUMENT,
                        "%s needs labelled rows of at least one member", baseline->name);
    if (baseline->applies && !baseline->applies(data))
        return cst_fail(context, CST_ERROR_INPUT,
                        "%s does not apply to this pool: no member is tagged for it",
                        baseline->name);
    if (baseline->rows_alike && view->weights)
        return cst_fail(context, CST_ERROR_INPUT,
                        "%s counts all rows alike, and these have weights; leave the method or the "
                        "weights out",
                        baseline->name);
    out->weights = cst_alloc(context, (size_t)view->members, sizeof *out->weights);
    out->uses = cst_alloc(context, (size_t)view->members, sizeof *out->uses);
    cst_status status =
        out->weights && out->uses ? baseline->fit(context, data, out) : CST_ERROR_MEMORY;
    for (int32_t k = 0; status == CST_OK && k < view->members; k++)
        out->uses[k] = out->uses[k] || out->weights[k] != 0;
    if (status != CST_OK)
        cst_baseline_fit_free(context, out);
    return status;
}

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
    float *scratch = cst_alloc(context, cst_view_copies(view) ? cells : 0, sizeof *scratch);
    double *mixture = cst_alloc(context, cells, sizeof *mixture);
    cst_status status = scratch && mixture ? CST_OK : CST_ERROR_MEMORY;
    CST_TRY(cst_mixture_rows(context, view, job->fit->weights, first, count, scratch, mixture));
    for (size_t j = 0; status == CST_OK && j < cells; j++)
        to[j] = (float)mixture[j];
    cst_free(context, scratch);
    cst_free(context, mixture);
    return status;
}

cst_status cst_baseline_fit_predict(cst_context *context, const cst_baseline_fit *fit,
                                    const cst_view *view, float *out) {
    if (fit->members != view->members || fit->classes != view->classes)
        return cst_fail(context, CST_ERROR_MISMATCH,
                        "%s was fitted on %d members and %d classes and these predictions have %d "
                        "and %d",
                        fit->baseline->name, fit->members, fit->classes, view->members,
                        view->classes);
    if (fit->baseline->predict)
        return fit->baseline->predict(context, fit, view, out);
    predict_job job = {fit, view, out};
    return cst_parallel_for(context, cst_block_count(view->rows), predict_block, &job);
}

void cst_baseline_fit_free(cst_context *context, cst_baseline_fit *fit) {
    if (!fit)
        return;
    if (fit->baseline && fit->baseline->release)
        fit->baseline->release(context, fit->state);
    cst_free(context, fit->weights);
    cst_free(context, fit->uses);
    *fit = (cst_baseline_fit){0};
}
