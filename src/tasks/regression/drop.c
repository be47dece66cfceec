/* Removals judged on cross-fitted squared errors, after S4. docs/method.md#s4-blend. */
#include "tasks/regression/drop.h"

#include "fit/removal.h"

#include <math.h>
#include <string.h>

typedef struct drop_job {
    const cst_view *view;
    const cst_scaling *scaling;
    const int32_t *folds;
    int32_t fold_count;
    const cst_settings *settings;
    cst_value_stages *stages;
    const cst_stages *base; /* theirs */
    double *losses;         /* [2][rows]: with every kept member; room for those of a try */
    double *change;         /* [kept]: mean loss without the member minus with it */
    double *change_se;      /* [kept] */
    double *deviation;      /* [members of the pool][outputs]; NULL with few kept */
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
    CST_THEN(cst_value_block_read(context, &block, cst_block_first(index),
                                  cst_block_size(job->kept->rows, index)));
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
    const cst_share filled = cst_share_rows(losses, kept->rows, sizeof *losses);
    return cst_parallel_fill(context, cst_block_count(kept->rows), loss_block, &part, &filled, 1);
}

/* The fit without these kept members, and its losses [rows]. */
static cst_status fit_without(cst_context *context, const drop_job *job, const int32_t *leave,
                              int32_t leaving, cst_value_fit *fit, double *losses) {
    size_t count = (size_t)job->base->kept_count;
    int32_t *members = cst_alloc(context, count, sizeof *members);
    const float **pointers = cst_alloc(context, count, sizeof *pointers);
    cst_status status = members && pointers ? CST_OK : CST_ERROR_MEMORY;
    if (status == CST_OK) {
        int32_t left =
            cst_members_without(job->base->kept, job->base->kept_count, leave, leaving, members);
        cst_view kept = cst_view_members(job->view, members, left, pointers);
        status = cst_value_fit_run(context, &kept, job->scaling, job->folds, job->fold_count,
                                   job->settings, fit);
        CST_THEN(row_losses(context, job, &kept, fit, losses));
        if (status != CST_OK)
            cst_value_fit_free(context, fit);
    }
    cst_free(context, members);
    cst_free(context, pointers);
    return status;
}

static cst_status drop_task(cst_context *context, void *user, int64_t task) {
    const drop_job *job = user;
    cst_value_fit fit = {0};
    double *losses = cst_alloc(context, (size_t)job->view->rows, sizeof *losses);
    cst_status status = losses ? fit_without(context, job, &job->base->kept[task], 1, &fit, losses)
                               : CST_ERROR_MEMORY;
    if (status == CST_OK)
        cst_paired_change(losses, job->losses, job->view->rows, &job->change[task],
                          &job->change_se[task]);
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

/* Drops these members if the stack without them loses less than a standard error. */
static cst_status try_drop(cst_context *context, void *user, const int32_t *members, int32_t count,
                           bool *dropped) {
    drop_job *job = user;
    size_t rows = (size_t)job->view->rows;
    cst_value_fit fit = {0};
    double change = 0;
    double se = 0;
    *dropped = false;
    cst_status status = fit_without(context, job, members, count, &fit, job->losses + rows);
    if (status != CST_OK)
        return status;
    cst_paired_change(job->losses + rows, job->losses, job->view->rows, &change, &se);
    *dropped = change < se;
    if (!*dropped) {
        cst_value_fit_free(context, &fit);
        return CST_OK;
    }
    memcpy(job->losses, job->losses + rows, rows * sizeof *job->losses);
    cst_stages_refit_without(&job->stages->base, members, count, change);
    cst_value_fit_free(context, &job->stages->fit);
    job->stages->fit = fit;
    return CST_OK;
}

/* How much the values of the present fit move with each kept member, in units of the outputs. */
static void rely(const void *user, double *reliance) {
    const drop_job *job = user;
    const cst_value_fit *fit = &job->stages->fit;
    for (int32_t j = 0; j < job->base->kept_count; j++) {
        const double *deviation =
            job->deviation + (size_t)job->base->kept[j] * (size_t)fit->outputs;
        reliance[j] = 0;
        for (int32_t d = 0; d < fit->outputs; d++) /* of part 0, all rows */
            reliance[j] += fabs(fit->weights[(size_t)d * (size_t)fit->columns + (size_t)j]) *
                           deviation[d] / job->scaling->scale[d];
    }
}

/* Removals in groups, where there are many members. */
static cst_status drop_groups(cst_context *context, drop_job *job) {
    if (job->base->kept_count <= CST_DROP_SINGLY)
        return CST_OK;
    size_t columns = (size_t)job->view->members * (size_t)job->view->classes;
    job->deviation = cst_alloc(context, columns, sizeof *job->deviation);
    cst_status status = job->deviation ? cst_member_deviations(context, job->view, job->deviation)
                                       : CST_ERROR_MEMORY;
    cst_removal removal = {.user = job,
                           .kept = job->base->kept,
                           .kept_count = &job->base->kept_count,
                           .rely = rely,
                           .attempt = try_drop};
    CST_THEN(cst_remove_groups(context, &removal));
    cst_free(context, job->deviation);
    job->deviation = NULL;
    return status;
}

/* Each kept member is left out alone, then those that are hardly missed go one after the other.
 * order: [members]. */
static cst_status drop_singly(cst_context *context, drop_job *job, int32_t *order) {
    if (job->base->kept_count > CST_DROP_SINGLY)
        return CST_OK;
    cst_status status = cst_parallel_turns(context, job->base->kept_count, drop_task, job);
    int32_t listed = status == CST_OK ? order_by_change(job, order) : 0;
    bool dropped = false;
    for (int32_t i = 0; status == CST_OK && i < listed && job->base->kept_count > 1; i++)
        status = try_drop(context, job, &order[i], 1, &dropped);
    return status;
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
                    .stages = stages,
                    .base = &stages->base,
                    .losses = losses,
                    .change = change,
                    .change_se = change ? change + members : NULL};
    cst_value_fit with = {0};
    CST_THEN(fit_without(context, &job, NULL, 0, &with, losses));
    cst_value_fit_free(context, &with);
    CST_THEN(drop_groups(context, &job));
    CST_THEN(drop_singly(context, &job, order));
    cst_free(context, order);
    cst_free(context, losses);
    cst_free(context, change);
    return status;
}
