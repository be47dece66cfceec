/*
 * Removals judged on cross-fitted squared errors. After stage S4 of a regression.
 * method.md section 5.
 */
#include "regression/drop.h"

#include <math.h>
#include <string.h>

typedef struct drop_job {
    const cst_view *view;
    const cst_scaling *scaling;
    const int32_t *folds;
    int32_t fold_count;
    const cst_settings *settings;
    const cst_stages *base;
    const double *losses; /* [rows] with every kept member */
    double *change;       /* [kept]: mean loss without the member minus with it */
    double *change_se;    /* [kept] */
} drop_job;

typedef struct loss_job {
    const cst_view *kept;
    const cst_scaling *scaling;
    const int32_t *folds;
    const cst_value_fit *fit;
    double *losses; /* [rows] */
} loss_job;

/* Squared error of each row by the fit without its fold, its mean over the outputs, times the row's
 * weight. */
static cst_status loss_block(cst_context *context, void *user, int64_t index) {
    const loss_job *job = user;
    const cst_value_fit *fit = job->fit;
    int32_t outputs = fit->outputs;
    cst_value_block block;
    cst_status status =
        cst_value_block_make(context, job->kept, job->scaling, &fit->gates[0], &block);
    if (status == CST_OK)
        status = cst_value_block_read(context, &block, cst_block_first(index),
                                      cst_block_size(job->kept->rows, index));
    for (int32_t f = 0; status == CST_OK && f < fit->folds; f++) {
        if (f == 0 || fit->gate_count > 1)
            cst_value_block_design(&block, cst_value_gate(fit, f + 1));
        for (int64_t i = 0; i < block.count; i++) {
            if (job->folds[block.first + i] != f)
                continue;
            double sum = 0;
            for (int32_t d = 0; d < outputs; d++) {
                size_t at = (size_t)(f + 1) * (size_t)outputs + (size_t)d;
                const double *weights = fit->weights + at * (size_t)fit->columns;
                double error = fit->intercept[at] - cst_value_block_target(&block, i, d);
                for (int32_t j = 0; j < fit->columns; j++)
                    error += weights[j] * block.design[j * block.stride + i * outputs + d];
                sum += error * error / outputs;
            }
            job->losses[block.first + i] = cst_view_weight(job->kept, block.first + i) * sum;
        }
    }
    cst_value_block_free(context, &block);
    return status;
}

static cst_status row_losses(cst_context *context, const drop_job *job, const cst_view *kept,
                             const cst_value_fit *fit, double *losses) {
    loss_job part = {
        .kept = kept, .scaling = job->scaling, .folds = job->folds, .fit = fit, .losses = losses};
    return cst_parallel_for(context, cst_block_count(kept->rows), loss_block, &part);
}

/* The fit without the kept member at `leave` (negative: with all of them), and its losses [rows].
 */
static cst_status fit_without(cst_context *context, const drop_job *job, int32_t leave,
                              cst_value_fit *fit, double *losses) {
    size_t count = (size_t)job->base->kept_count;
    int32_t *members = cst_alloc(context, count, sizeof *members);
    const float **pointers = cst_alloc(context, count, sizeof *pointers);
    cst_status status = members && pointers ? CST_OK : CST_ERROR_MEMORY;
    if (status == CST_OK) {
        int32_t left = 0;
        for (int32_t j = 0; j < job->base->kept_count; j++)
            if (j != leave)
                members[left++] = job->base->kept[j];
        cst_view kept = cst_view_members(job->view, members, left, pointers);
        status = cst_value_fit_run(context, &kept, job->scaling, job->folds, job->fold_count,
                                   job->settings, fit);
        if (status == CST_OK)
            status = row_losses(context, job, &kept, fit, losses);
        if (status != CST_OK)
            cst_value_fit_free(context, fit);
    }
    cst_free(context, members);
    cst_free(context, pointers);
    return status;
}

static void compare(const drop_job *job, const double *losses, double *change, double *se) {
    double n = (double)job->view->rows;
    double sum = 0;
    double square = 0;
    for (int64_t i = 0; i < job->view->rows; i++) {
        double d = losses[i] - job->losses[i];
        sum += d;
        square += d * d;
    }
    *change = sum / n;
    *se = sqrt(fmax(square / n - sum / n * (sum / n), 0) / n);
}

static cst_status drop_task(cst_context *context, void *user, int64_t task) {
    const drop_job *job = user;
    cst_value_fit fit = {0};
    double *losses = cst_alloc(context, (size_t)job->view->rows, sizeof *losses);
    cst_status status =
        losses ? fit_without(context, job, (int32_t)task, &fit, losses) : CST_ERROR_MEMORY;
    if (status == CST_OK)
        compare(job, losses, &job->change[task], &job->change_se[task]);
    cst_value_fit_free(context, &fit);
    cst_free(context, losses);
    return status;
}

/* Members that are missed by less than a standard error, least missed first. Returns how many. */
static int32_t order_by_change(const drop_job *job, int32_t *order) {
    int32_t count = 0;
    for (int32_t j = 0; j < job->base->kept_count; j++) {
        if (job->change[j] >= job->change_se[j])
            continue;
        int32_t at = count++;
        while (at > 0 && job->change[order[at - 1]] > job->change[j]) {
            order[at] = order[at - 1];
            at--;
        }
        order[at] = j;
    }
    for (int32_t i = 0; i < count; i++)
        order[i] = job->base->kept[order[i]]; /* places move as members go */
    return count;
}

/* Takes the member at `at` out. */
static void take_out(cst_value_stages *stages, int32_t at, double change) {
    cst_stages *base = &stages->base;
    int32_t member = base->kept[at];
    base->because[member] = CST_BECAUSE_REFIT;
    base->refit_change[member] = change;
    memmove(base->kept + at, base->kept + at + 1,
            (size_t)(base->kept_count - at - 1) * sizeof *base->kept);
    base->kept_count--;
}

/* Tries one removal on what is left by then. losses: [2][rows], the first of the present stack. */
static cst_status try_drop(cst_context *context, drop_job *job, int32_t member, double *losses,
                           cst_value_stages *stages) {
    size_t rows = (size_t)job->view->rows;
    cst_value_fit fit = {0};
    double change = 0;
    double se = 0;
    int32_t at = 0;
    while (stages->base.kept[at] != member)
        at++;
    cst_status status = fit_without(context, job, at, &fit, losses + rows);
    if (status != CST_OK)
        return status;
    compare(job, losses + rows, &change, &se);
    if (change >= se) {
        cst_value_fit_free(context, &fit);
        return CST_OK;
    }
    memcpy(losses, losses + rows, rows * sizeof *losses);
    take_out(stages, at, change);
    cst_value_fit_free(context, &stages->fit);
    stages->fit = fit;
    return CST_OK;
}

cst_status cst_value_drop(cst_context *context, const cst_view *view, const cst_scaling *scaling,
                          const int32_t *folds, int32_t fold_count, const cst_settings *settings,
                          cst_value_stages *stages) {
    size_t members = (size_t)view->members;
    size_t rows = (size_t)view->rows;
    double *losses = cst_alloc(context, 2 * rows, sizeof *losses);
    double *change = cst_alloc(context, 2 * members, sizeof *change);
    int32_t *order = cst_alloc(context, members, sizeof *order);
    cst_status status = losses && change && order ? CST_OK : CST_ERROR_MEMORY;
    drop_job job = {.view = view,
                    .scaling = scaling,
                    .folds = folds,
                    .fold_count = fold_count,
                    .settings = settings,
                    .base = &stages->base,
                    .losses = losses,
                    .change = change,
                    .change_se = change ? change + members : NULL};
    cst_value_fit with = {0};
    if (status == CST_OK)
        status = fit_without(context, &job, -1, &with, losses);
    cst_value_fit_free(context, &with);
    if (status == CST_OK)
        status = cst_parallel_for(context, stages->base.kept_count, drop_task, &job);
    int32_t listed = status == CST_OK ? order_by_change(&job, order) : 0;
    for (int32_t i = 0; status == CST_OK && i < listed && stages->base.kept_count > 1; i++)
        status = try_drop(context, &job, order[i], losses, stages);
    cst_free(context, order);
    cst_free(context, losses);
    cst_free(context, change);
    return status;
}
