/* Variances of the predictions of a regression. The last stage. docs/regression.md. */
#include "model/patterns.h"
#include "model/values.h"

#include <float.h>
#include <math.h>

typedef struct variance_job {
    const cst_model *model;
    const cst_view *view;
    float *out;
} variance_job;

static cst_status refuse_variance(cst_context *context, const cst_view *view, int64_t row,
                                  int32_t output, double variance) {
    return cst_fail(context, CST_ERROR_INPUT,
                    "row %lld, output %d: the variance is %g, too large for float32; are the "
                    "members' predictions correct?",
                    (long long)(view->index ? view->index[row] : row), (int)output, variance);
}

static cst_status variance_block(cst_context *context, void *user, int64_t index) {
    const variance_job *job = user;
    const cst_values *values = job->model->values;
    int32_t outputs = job->view->classes;
    cst_value_block block;
    double *x = cst_alloc(context, (size_t)values->columns, sizeof *x);
    cst_status status =
        cst_value_block_make(context, job->view, &values->scaling, &job->model->gate, &block);
    if (!x)
        status = CST_ERROR_MEMORY;
    CST_THEN(cst_value_block_read(context, &block, cst_block_first(index),
                                  cst_block_size(job->view->rows, index)));
    if (status == CST_OK)
        cst_value_block_design(&block, &job->model->gate);
    for (int64_t e = 0; status == CST_OK && e < block.stride; e++) {
        int32_t output = (int32_t)(e % outputs);
        for (int32_t j = 0; j < values->columns; j++)
            x[j] = block.design[j * block.stride + e];
        double unit = cst_values_unit(values, output, x, cst_value_block_spread(&block, e));
        double variance = values->noise[output] * unit;
        float *out = job->out + block.first * outputs + e;
        *out = variance < (double)FLT_MIN ? FLT_MIN : (float)variance;
        if (!isfinite(*out))
            status =
                refuse_variance(context, job->view, block.first + e / outputs, output, variance);
    }
    cst_value_block_free(context, &block);
    cst_free(context, x);
    return status;
}

static cst_status variance_all(cst_context *context, const cst_model *model, const cst_view *view,
                               float *out) {
    variance_job job = {.model = model, .view = view, .out = out};
    return cst_parallel_for(context, cst_block_count(view->rows), variance_block, &job);
}

static cst_status variance_pattern(cst_context *context, void *user, const cst_model *model,
                                   const cst_view *part, const int64_t *positions) {
    if (!model->values)
        return cst_fail(context, CST_ERROR_UNSUPPORTED,
                        "the model keeps nothing to compute variances without some of its members; "
                        "fit it again with this version");
    CST_SCOPE(scope);
    float *rows;
    CST_TAKE(context, scope, rows, (size_t)part->rows * (size_t)part->classes);
    CST_TRY(variance_all(context, model, part, rows));
    cst_put_rows(rows, positions, part->rows, part->classes, user);
    return CST_OK;
}

cst_status cst_stack_variance(cst_context *context, const cst_model *model, const cst_view *view,
                              float *out) {
    if (cst_view_has_absent(view))
        return cst_for_patterns(context, model, view, false, variance_pattern, out);
    return variance_all(context, model, view, out);
}
