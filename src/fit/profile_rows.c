/* Calls that predict one row through a predictor, and many through cst_model_predict. */
#include "fit/profile.h"

#include <string.h>

enum { ROWS = 4096 }; /* different rows that calls take in turn, where there are so many */

/* A quarter of the budget is for samples. */
enum { SHARE_OF_MEMORY = 4 };

typedef struct row_calls {
    float **rows;       /* [members] -> [samples][classes] */
    const float **from; /* [members] */
    cst_predictor *predictor;
    float *out; /* [batch][classes] */
} row_calls;

int64_t cst_profile_affordable(const cst_context *context, double bytes) {
    double most = (double)cst_context_memory(context) / SHARE_OF_MEMORY / (bytes > 1 ? bytes : 1);
    return most < 1 ? 1 : most < (double)INT32_MAX ? (int64_t)most : INT32_MAX;
}

cst_status cst_profile_need_members(cst_context *context, const cst_model *model, const char *split,
                                    const cst_view *view) {
    for (int32_t k = 0; k < view->members; k++)
        if (!view->data[k])
            return cst_fail(context, CST_ERROR_MISMATCH,
                            "the model needs member '%s', but the pool has no predictions of it "
                            "for split '%s'; a profile needs every member of the model",
                            model->member_names[k], split);
    if (view->rows < 1)
        return cst_fail(context, CST_ERROR_INPUT, "split '%s' has no rows to predict", split);
    return CST_OK;
}

/* The first rows that every member predicted, at most `most`. */
static cst_status find_rows(cst_context *context, cst_scope *scope, const char *split,
                            const cst_view *view, int64_t most, int64_t **positions,
                            int64_t *count) {
    CST_NEW(context, scope, const uint8_t *, present, view->members);
    CST_TAKE(context, scope, *positions, most);
    *count = 0;
    for (int32_t k = 0; k < view->members; k++)
        present[k] = cst_view_present(view, k);
    for (int64_t i = 0; i < view->rows && *count < most; i++) {
        bool whole = true;
        for (int32_t k = 0; k < view->members; k++)
            whole = whole && cst_view_is_there(view, present[k], i);
        if (whole)
            (*positions)[(*count)++] = i;
    }
    if (*count == 0)
        return cst_fail(context, CST_ERROR_INPUT,
                        "split '%s' has no row that every member of the model predicted; a "
                        "profile needs such rows",
                        split);
    return CST_OK;
}

static cst_status read_rows(cst_context *context, const char *split, const cst_view *view,
                            int64_t batch, cst_profile_work *out) {
    row_calls *calls = out->data;
    size_t classes = (size_t)out->model->classes;
    int32_t inputs = cst_model_inputs(out->model);
    double row = (double)classes * sizeof(float) * inputs;
    int64_t most = cst_profile_affordable(context, row);
    int64_t wanted = batch > ROWS ? batch : ROWS;
    int64_t *positions;
    CST_SCOPE(scope);
    most = most < wanted ? most : wanted;
    CST_TRY(find_rows(context, scope, split, view, most < view->rows ? most : view->rows,
                      &positions, &out->samples));
    CST_TAKE(context, out->scope, calls->rows, inputs);
    CST_TAKE(context, out->scope, calls->from, inputs);
    for (int32_t k = 0; k < inputs; k++) {
        CST_TAKE(context, out->scope, calls->rows[k], (size_t)out->samples * classes);
        CST_TRY(cst_view_gather(context, view, k, positions, out->samples, calls->rows[k]));
    }
    out->batch = batch < out->samples ? batch : out->samples;
    out->largest_bytes = row * (double)out->batch;
    return CST_OK;
}

static cst_status open(cst_context *context, cst_pool *pool, const char *split, int64_t batch,
                       cst_profile_work *out) {
    cst_view view = {0};
    CST_SCOPE(scope);
    CST_TRY(cst_model_view(context, scope, out->model, pool, split, &view));
    CST_TRY(cst_profile_need_members(context, out->model, split, &view));
    return read_rows(context, split, &view, batch, out);
}

static cst_status prepare(cst_context *measured, cst_profile_work *work) {
    row_calls *calls = work->data;
    calls->out =
        cst_alloc(measured, (size_t)work->batch * (size_t)work->model->classes, sizeof *calls->out);
    return calls->out ? cst_predictor_create(measured, &calls->predictor, work->model)
                      : CST_ERROR_MEMORY;
}

static void release(cst_context *measured, cst_profile_work *work) {
    row_calls *calls = work->data;
    cst_predictor_free(measured, calls->predictor);
    cst_free(measured, calls->out);
    calls->predictor = NULL;
    calls->out = NULL;
}

static cst_status call(cst_context *measured, const cst_profile_work *work, int64_t first,
                       int64_t count) {
    const row_calls *calls = work->data;
    for (int32_t k = 0; k < cst_model_inputs(work->model); k++)
        calls->from[k] = calls->rows[k] + (size_t)first * (size_t)work->model->classes;
    if (count > 1)
        return cst_model_predict(measured, work->model, calls->from, count, calls->out);
    cst_status status = cst_predictor_predict(calls->predictor, calls->from, 1, calls->out);
    return status == CST_OK
               ? CST_OK
               : cst_fail(measured, status, "%s", cst_predictor_error(calls->predictor));
}

const cst_profile_ops cst_profile_rows = {.data_bytes = sizeof(row_calls),
                                          .open = open,
                                          .prepare = prepare,
                                          .release = release,
                                          .call = call};
