/* One pass over the rows. docs/method.md#s2-and-s3-gate-and-penalties. */
#include "tasks/regression/regression.h"

#include "core/la.h"

#include <math.h>
#include <string.h>

typedef struct moments_job {
    const cst_view *view;
    const cst_scaling *scaling;
    const cst_gate *gate;
    const int32_t *folds;
    int32_t fold_count;
    int32_t columns;
} moments_job;

/* Adds the products of the rows of one fold, for one output: z holds [count][columns + 2]. */
static cst_status add_fold(cst_context *context, const moments_job *job,
                           const cst_value_block *block, int32_t output, int32_t fold, double *z,
                           double *sum) {
    int32_t width = job->columns + 2;
    int32_t outputs = job->view->classes;
    int64_t count = 0;
    for (int64_t i = 0; i < block->count; i++) {
        if (job->folds[block->first + i] != fold)
            continue;
        double *row = z + count++ * width;
        for (int32_t j = 0; j < job->columns; j++)
            row[j] = block->design[j * block->stride + i * outputs + output];
        row[job->columns] = cst_value_block_target(block, i, output);
        row[job->columns + 1] = 1;
        double root = sqrt(cst_view_weight(job->view, block->first + i));
        for (int32_t j = 0; job->view->weights && j < width; j++)
            row[j] *= root; /* products then have the weight once */
    }
    return count == 0 ? CST_OK : cst_syrk_f64(context, width, count, 1, z, width, 1, sum, width);
}

static cst_status moments_block(cst_context *context, void *user, int64_t index, double *sum) {
    const moments_job *job = user;
    size_t width = (size_t)job->columns + 2;
    cst_value_block block;
    CST_SCOPE(scope);
    CST_NEW(context, scope, double, z, (width * CST_BLOCK_ROWS));
    CST_TRY(
        cst_value_block_open(context, scope, job->view, job->scaling, job->gate, index, &block));
    for (int32_t d = 0; d < job->view->classes; d++)
        for (int32_t f = 0; f < job->fold_count; f++, sum += width * width)
            CST_TRY(add_fold(context, job, &block, d, f, z, sum));
    return CST_OK;
}

static cst_status take_moments(cst_context *context, cst_scope *scope, int32_t columns,
                               int32_t folds, cst_gate_mode mode, int32_t inputs,
                               cst_moments *out) {
    size_t width = (size_t)columns + 2;
    *out = (cst_moments){.columns = columns, .folds = folds, .mode = mode, .inputs = inputs};
    CST_TAKE(context, scope, out->shift, columns);
    CST_TAKE(context, scope, out->sums, (size_t)folds * width * width);
    return CST_OK;
}

cst_status cst_value_moments(cst_context *context, cst_scope *scope, const cst_view *view,
                             const cst_scaling *scaling, const cst_gate *gate, const int32_t *folds,
                             int32_t fold_count, cst_moments *out) {
    moments_job job = {.view = view,
                       .scaling = scaling,
                       .gate = gate,
                       .folds = folds,
                       .fold_count = fold_count,
                       .columns = cst_design_columns(gate)};
    size_t width = (size_t)job.columns + 2;
    size_t outputs = (size_t)view->classes;
    size_t each = 0;
    size_t total = 0;
    CST_SCOPE(pass);
    if (!cst_size_mul(width * width, (size_t)fold_count, &each) ||
        !cst_size_mul(each, outputs, &total))
        return cst_fail(context, CST_ERROR_LIMIT, "moments of %d columns: too many",
                        (int)job.columns);
    CST_NEW(context, pass, double, sums, total);
    CST_TRY(
        cst_reduce_blocks(context, cst_block_count(view->rows), total, moments_block, &job, sums));
    for (size_t d = 0; d < outputs; d++) {
        CST_TRY(take_moments(context, scope, job.columns, fold_count, gate->mode, gate->inputs,
                             &out[d]));
        memcpy(out[d].sums, sums + d * each, each * sizeof *sums);
        for (size_t f = 0; f < (size_t)fold_count; f++)
            for (size_t i = 0; i < width; i++)
                for (size_t j = 0; j < i; j++)
                    out[d].sums[(f * width + j) * width + i] =
                        out[d].sums[(f * width + i) * width + j];
    }
    return CST_OK;
}

cst_status cst_value_moments_part(cst_context *context, cst_scope *scope,
                                  const cst_moments *moments, int32_t fold, const int32_t *members,
                                  int32_t count, cst_moments *out) {
    size_t from = (size_t)moments->columns + 2;
    int32_t columns = members ? count : moments->columns;
    size_t width = (size_t)columns + 2;
    CST_TRY(take_moments(context, scope, columns, moments->folds - (fold >= 0), moments->mode,
                         members ? count : moments->inputs, out));
    double *to = out->sums;
    for (int32_t f = 0; f < moments->folds; f++) {
        if (f == fold)
            continue;
        const double *sum = moments->sums + (size_t)f * from * from;
        for (size_t i = 0; i < width; i++) {
            size_t a = members && i < (size_t)count ? (size_t)members[i] : from + i - width;
            for (size_t j = 0; j < width; j++) {
                size_t b = members && j < (size_t)count ? (size_t)members[j] : from + j - width;
                to[i * width + j] = sum[a * from + b];
            }
        }
        to += width * width;
    }
    return CST_OK;
}
