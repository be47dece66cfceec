/*
 * Moments of the design of a regression for each output: the one pass over rows that every linear
 * fit starts from. Between stages S2 and S3. docs/regression.md;
 * docs/method.md#s2-and-s3-gate-and-penalties.
 */
#include "tasks/regression/moments.h"

#include "core/la.h"

#include <math.h>
#include <string.h>

/* ---- moments ---- */

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
    double *z = cst_alloc(context, width * CST_BLOCK_ROWS, sizeof *z);
    cst_status status = cst_value_block_make(context, job->view, job->scaling, job->gate, &block);
    if (!z)
        status = CST_ERROR_MEMORY;
    CST_THEN(cst_value_block_read(context, &block, cst_block_first(index),
                                  cst_block_size(job->view->rows, index)));
    if (status == CST_OK)
        cst_value_block_design(&block, job->gate);
    for (int32_t d = 0; status == CST_OK && d < job->view->classes; d++)
        for (int32_t f = 0; status == CST_OK && f < job->fold_count; f++) {
            size_t at = ((size_t)d * (size_t)job->fold_count + (size_t)f) * width * width;
            status = add_fold(context, job, &block, d, f, z, sum + at);
        }
    cst_value_block_free(context, &block);
    cst_free(context, z);
    return status;
}

static cst_status moments_alloc(cst_context *context, int32_t columns, int32_t folds,
                                cst_gate_mode mode, int32_t inputs, cst_moments *out) {
    size_t width = (size_t)columns + 2;
    *out = (cst_moments){.columns = columns, .folds = folds, .mode = mode, .inputs = inputs};
    CST_TAKE(context, &out->scope, out->shift, columns);
    CST_TAKE(context, &out->scope, out->sums, (size_t)folds * width * width);
    return CST_OK;
}

cst_status cst_value_moments(cst_context *context, const cst_view *view, const cst_scaling *scaling,
                             const cst_gate *gate, const int32_t *folds, int32_t fold_count,
                             cst_moments *out) {
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
    memset(out, 0, outputs * sizeof *out);
    if (!cst_size_mul(width * width, (size_t)fold_count, &each) ||
        !cst_size_mul(each, outputs, &total))
        return cst_fail(context, CST_ERROR_LIMIT, "moments of %d columns: too many",
                        (int)job.columns);
    double *sums = cst_alloc(context, total, sizeof *sums);
    cst_status status = sums ? CST_OK : CST_ERROR_MEMORY;
    for (size_t d = 0; status == CST_OK && d < outputs; d++)
        status = moments_alloc(context, job.columns, fold_count, gate->mode, gate->inputs, &out[d]);
    CST_THEN(
        cst_reduce_blocks(context, cst_block_count(view->rows), total, moments_block, &job, sums));
    for (size_t d = 0; status == CST_OK && d < outputs; d++) {
        memcpy(out[d].sums, sums + d * each, each * sizeof *sums);
        for (size_t f = 0; f < (size_t)fold_count; f++)
            for (size_t i = 0; i < width; i++)
                for (size_t j = 0; j < i; j++)
                    out[d].sums[(f * width + j) * width + i] =
                        out[d].sums[(f * width + i) * width + j];
    }
    cst_free(context, sums);
    if (status != CST_OK)
        cst_value_moments_free(context, out, view->classes);
    return status;
}

void cst_value_moments_free(cst_context *context, cst_moments *moments, int32_t outputs) {
    for (int32_t d = 0; moments && d < outputs; d++)
        cst_moments_free(context, &moments[d]);
}

cst_status cst_value_moments_part(cst_context *context, const cst_moments *moments, int32_t fold,
                                  const int32_t *members, int32_t count, cst_moments *out) {
    size_t from = (size_t)moments->columns + 2;
    int32_t columns = members ? count : moments->columns;
    size_t width = (size_t)columns + 2;
    int32_t folds = moments->folds - (fold >= 0);
    int32_t inputs = members ? count : moments->inputs;
    cst_status status = moments_alloc(context, columns, folds, moments->mode, inputs, out);
    double *to = out->sums;
    for (int32_t f = 0; status == CST_OK && f < moments->folds; f++) {
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
    if (status != CST_OK)
        cst_moments_free(context, out);
    return status;
}
