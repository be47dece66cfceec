/*
 * Rows of a regression in units of the targets, and the moments of their design for each output.
 * The one pass over rows that every linear fit starts from. docs/regression.md; method.md sections
 * 1 and 4.
 */
#include "regression/block.h"

#include "la/la.h"

#include <math.h>
#include <string.h>

/* ---- scaling ----------------------------------------------------------------------------------
 */

typedef struct scaling_job {
    const cst_view *view;
    const double *center; /* [outputs]; NULL: sums of the targets themselves */
} scaling_job;

/* Sums of the targets, or of their squared distances from a center. */
static cst_status scaling_block(cst_context *context, void *user, int64_t block, double *sum) {
    (void)context;
    const scaling_job *job = user;
    int64_t first = cst_block_first(block);
    int64_t end = first + cst_block_size(job->view->rows, block);
    for (int64_t i = first; i < end; i++) {
        const double *y = cst_view_target(job->view, i);
        for (int32_t d = 0; d < job->view->classes; d++) {
            double off = job->center ? y[d] - job->center[d] : y[d];
            sum[d] += job->center ? off * off : off;
        }
    }
    return CST_OK;
}

cst_status cst_scaling_make(cst_context *context, const cst_view *view, cst_scaling *out) {
    size_t outputs = (size_t)view->classes;
    *out = (cst_scaling){.outputs = view->classes};
    if (!view->targets || view->rows < 1)
        return cst_fail(context, CST_ERROR_INPUT, "a regression is fitted on rows with targets");
    out->location = cst_alloc(context, outputs, sizeof *out->location);
    out->scale = cst_alloc(context, outputs, sizeof *out->scale);
    cst_status status = out->location && out->scale ? CST_OK : CST_ERROR_MEMORY;
    scaling_job job = {.view = view};
    int64_t blocks = cst_block_count(view->rows);
    if (status == CST_OK)
        status = cst_reduce_blocks(context, blocks, outputs, scaling_block, &job, out->location);
    for (size_t d = 0; status == CST_OK && d < outputs; d++)
        out->location[d] /= (double)view->rows;
    job.center = out->location;
    if (status == CST_OK)
        status = cst_reduce_blocks(context, blocks, outputs, scaling_block, &job, out->scale);
    for (size_t d = 0; status == CST_OK && d < outputs; d++) {
        double deviation = sqrt(out->scale[d] / (double)view->rows);
        bool varies = deviation > 1e-12 * fabs(out->location[d]) && deviation > 0;
        out->scale[d] = varies ? deviation : 1;
        if (!varies)
            cst_notice(context, "output %zu has the same target in every row", d);
    }
    if (status != CST_OK)
        cst_scaling_free(context, out);
    return status;
}

void cst_scaling_free(cst_context *context, cst_scaling *scaling) {
    cst_free(context, scaling->location);
    cst_free(context, scaling->scale);
    *scaling = (cst_scaling){0};
}

/* ---- a block of rows --------------------------------------------------------------------------
 */

cst_status cst_value_block_make(cst_context *context, const cst_view *view,
                                const cst_scaling *scaling, const cst_gate *gate,
                                cst_value_block *out) {
    size_t cells = (size_t)CST_BLOCK_ROWS * (size_t)view->classes;
    size_t members = (size_t)view->members;
    size_t columns = (size_t)cst_design_columns(gate);
    *out = (cst_value_block){.view = view, .scaling = scaling};
    out->members = cst_alloc(context, members, sizeof *out->members);
    out->inputs = cst_alloc(context, members, sizeof *out->inputs);
    out->copies = cst_alloc(context, cst_view_copies(view) ? members * cells : 0, sizeof(float));
    out->scaled =
        cst_alloc(context, gate->mode == CST_GATE_NONE ? 0 : members * cells, sizeof(float));
    out->design = cst_alloc(context, columns * cells, sizeof *out->design);
    out->scratch =
        cst_alloc(context, cst_design_scratch(gate, (int64_t)cells), sizeof *out->scratch);
    return out->members && out->inputs && out->copies && out->scaled && out->design && out->scratch
               ? CST_OK
               : CST_ERROR_MEMORY;
}

void cst_value_block_free(cst_context *context, cst_value_block *block) {
    cst_free(context, block->members);
    cst_free(context, block->inputs);
    cst_free(context, block->copies);
    cst_free(context, block->scaled);
    cst_free(context, block->design);
    cst_free(context, block->scratch);
    *block = (cst_value_block){0};
}

cst_status cst_value_block_read(cst_context *context, cst_value_block *block, int64_t first,
                                int64_t count) {
    const cst_view *view = block->view;
    size_t cells = (size_t)CST_BLOCK_ROWS * (size_t)view->classes;
    cst_status status = CST_OK;
    block->first = first;
    block->count = count;
    block->stride = count * view->classes;
    for (int32_t k = 0; status == CST_OK && k < view->members; k++) {
        float *copy = cst_view_copies(view) ? block->copies + (size_t)k * cells : NULL;
        status = cst_view_rows(context, view, k, first, count, copy, &block->members[k]);
    }
    return status;
}

void cst_value_block_design(cst_value_block *block, const cst_gate *gate) {
    const cst_view *view = block->view;
    const cst_scaling *scaling = block->scaling;
    int32_t outputs = view->classes;
    size_t cells = (size_t)CST_BLOCK_ROWS * (size_t)outputs;
    if (gate->mode != CST_GATE_NONE) {
        for (int32_t k = 0; k < view->members; k++) {
            float *to = block->scaled + (size_t)k * cells;
            for (int64_t e = 0; e < block->stride; e++)
                to[e] = (float)(((double)block->members[k][e] - scaling->location[e % outputs]) /
                                scaling->scale[e % outputs]);
            block->inputs[k] = to;
        }
        /* A value is no distribution: each is a sample of one class. */
        cst_design_fill(gate, block->inputs, block->stride, 1, block->design, block->stride,
                        block->scratch);
    }
    for (int32_t k = 0; k < view->members; k++) {
        double *to = block->design + (int64_t)k * block->stride;
        for (int32_t d = 0; d < outputs; d++) {
            double location = scaling->location[d];
            double scale = scaling->scale[d];
            for (int64_t i = 0; i < block->count; i++)
                to[i * outputs + d] =
                    ((double)block->members[k][i * outputs + d] - location) / scale;
        }
    }
}

/* ---- moments ----------------------------------------------------------------------------------
 */

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
    if (status == CST_OK)
        status = cst_value_block_read(context, &block, cst_block_first(index),
                                      cst_block_size(job->view->rows, index));
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
    out->shift = cst_alloc(context, (size_t)columns, sizeof *out->shift);
    out->sums = cst_alloc(context, (size_t)folds * width * width, sizeof *out->sums);
    return out->shift && out->sums ? CST_OK : CST_ERROR_MEMORY;
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
        return cst_fail(context, CST_ERROR_LIMIT, "moments of %d columns are too many",
                        (int)job.columns);
    double *sums = cst_alloc(context, total, sizeof *sums);
    cst_status status = sums ? CST_OK : CST_ERROR_MEMORY;
    for (size_t d = 0; status == CST_OK && d < outputs; d++)
        status = moments_alloc(context, job.columns, fold_count, gate->mode, gate->inputs, &out[d]);
    if (status == CST_OK)
        status = cst_reduce_blocks(context, cst_block_count(view->rows), total, moments_block, &job,
                                   sums);
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
