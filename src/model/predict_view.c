/* Prediction of all rows of a view, block by block on all threads and ranks; variances of a
 * regression. */
#include "model/predict.h"

#include "core/ranks.h"
#include "model/patterns.h"
#include "model/transform.h"
#include "model/values.h"

#include <float.h>
#include <math.h>

enum { WAVE_BLOCKS = 256 }; /* blocks between two reports of progress */

static cst_status predict_block(cst_context *worker, void *user, int64_t task) {
    const cst_predict_job *job = user;
    const cst_model *model = job->model;
    int64_t block = job->wave + task;
    int64_t first = cst_block_first(block);
    int64_t end = first + cst_block_size(job->view->rows, block);
    size_t place = (size_t)job->batch * (size_t)model->classes;
    CST_SCOPE(scope);
    cst_predict_scratch s;
    CST_TRY(cst_predict_scratch_take(worker, scope, job, &s));
    for (; first < end; first += job->batch) {
        int64_t count = end - first < job->batch ? end - first : job->batch;
        for (int32_t k = 0; k < cst_model_inputs(model); k++) {
            float *copy = cst_view_copies(job->view) ? s.gathered + (size_t)k * place : NULL;
            CST_TRY(cst_view_rows(worker, job->view, k, first, count, copy, &s.batch[k]));
        }
        CST_TRY(cst_predict_chunks(worker, job, &s, s.batch, first, count));
    }
    return CST_OK;
}

static cst_status predict_view(cst_context *context, cst_predict_job *job) {
    const cst_view *view = job->view;
    if (view->members != cst_model_inputs(job->model) || view->classes != job->model->classes)
        return cst_fail(context, CST_ERROR_MISMATCH,
                        "the model has %d members and %d classes, but the data have %d and %d",
                        (int)cst_model_inputs(job->model), (int)job->model->classes,
                        (int)view->members, (int)view->classes);
    if (view->rows <= 0)
        return CST_OK;
    cst_predict_plan(job);
    int64_t blocks = cst_block_count(view->rows);
    int64_t first = 0;
    int64_t last = 0;
    cst_status status = CST_OK;
    cst_ranks_part(context, blocks, 1, &first, &last);
    if (job->report)
        cst_stage_share(context, 1);
    for (job->wave = first; status == CST_OK && job->wave < last; job->wave += WAVE_BLOCKS) {
        int64_t left = last - job->wave;
        status =
            cst_parallel_for(context, left < WAVE_BLOCKS ? left : WAVE_BLOCKS, predict_block, job);
        int64_t done = cst_block_first(job->wave + (left < WAVE_BLOCKS ? left : WAVE_BLOCKS));
        if (status == CST_OK && job->report)
            status =
                cst_progress(context, "predict", done < view->rows ? done : view->rows, view->rows);
    }
    const cst_share filled =
        cst_share_rows(job->out, view->rows, (size_t)view->classes * sizeof *job->out);
    return cst_ranks_fill(context, status, blocks, &filled, 1);
}

cst_status cst_predict_with(cst_context *context, const cst_model *model, int32_t only,
                            const cst_view *view, bool check, bool report, float *out) {
    double *blend;
    int32_t *places = NULL;
    CST_SCOPE(scope);
    CST_TRY(cst_predict_blend(context, scope, model, only, &blend));
    if (only < 0 && model->domains && view->domains)
        CST_TRY(cst_domain_places(context, model->domains, view->domains, &places));
    cst_predict_job job = {.model = model,
                           .view = view,
                           .blend = blend,
                           .places = places,
                           .domain = -1,
                           .check = check,
                           .report = report,
                           .out = out};
    job.calibrate = only < 0 && model->calibrator.kind != CST_CALIBRATOR_NONE;
    job.adapt = only < 0 && model->adapted;
    cst_status status = predict_view(context, &job);
    if (status == CST_OK && report && model->transform)
        status = cst_transform_tell(context, model->transform, view);
    cst_free(context, places);
    return status;
}

/* Rows of one pattern, into their places. */
static cst_status predict_pattern(cst_context *context, void *user, const cst_model *model,
                                  const cst_view *part, const int64_t *positions) {
    CST_SCOPE(scope);
    CST_NEW(context, scope, float, rows, part->rows * part->classes);
    CST_TRY(cst_predict_with(context, model, -1, part, false, false, rows));
    cst_put_rows(rows, positions, part->rows, part->classes, user);
    return CST_OK;
}

cst_status cst_stack_predict_reported(cst_context *context, const cst_model *model,
                                      const cst_view *view, float *out) {
    if (cst_view_has_absent(view))
        return cst_for_patterns(context, model, view, true, predict_pattern, out);
    return cst_predict_with(context, model, -1, view, false, true, out);
}

cst_status cst_stack_predict(cst_context *context, const cst_model *model, const cst_view *view,
                             float *out) {
    if (cst_view_has_absent(view))
        return cst_for_patterns(context, model, view, false, predict_pattern, out);
    return cst_predict_with(context, model, -1, view, false, false, out);
}

/* ---- variances of a regression ---- */

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
    CST_SCOPE(scope);
    CST_NEW(context, scope, double, x, values->columns);
    CST_TRY(cst_value_block_open(context, scope, job->view, &values->scaling, &job->model->gate,
                                 index, &block));
    for (int64_t e = 0; e < block.stride; e++) {
        int32_t output = (int32_t)(e % outputs);
        for (int32_t j = 0; j < values->columns; j++)
            x[j] = block.design[j * block.stride + e];
        double unit = cst_values_unit(values, output, x, cst_value_block_spread(&block, e));
        double variance = values->noise[output] * unit;
        float *out = job->out + block.first * outputs + e;
        *out = variance < (double)FLT_MIN ? FLT_MIN : (float)variance;
        if (!isfinite(*out))
            return refuse_variance(context, job->view, block.first + e / outputs, output, variance);
    }
    return CST_OK;
}

static cst_status variance_all(cst_context *context, const cst_model *model, const cst_view *view,
                               float *out) {
    cst_view transformed = *view;
    CST_SCOPE(scope);
    if (model->transform)
        CST_TRY(cst_transform_view(context, scope, model->transform, view, false, &transformed));
    variance_job job = {.model = model, .view = &transformed, .out = out};
    return cst_parallel_for(context, cst_block_count(view->rows), variance_block, &job);
}

static cst_status variance_pattern(cst_context *context, void *user, const cst_model *model,
                                   const cst_view *part, const int64_t *positions) {
    if (!model->values)
        return cst_fail(context, CST_ERROR_UNSUPPORTED,
                        "the model keeps nothing to compute variances without some of its members; "
                        "fit it again with this version");
    CST_SCOPE(scope);
    CST_NEW(context, scope, float, rows, ((size_t)part->rows * (size_t)part->classes));
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
