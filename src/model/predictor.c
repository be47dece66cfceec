/* Prediction of arrays by a predictor, whose memory is allocated once, for services. */
#include "model/predict.h"

#include "data/readers/npy.h"

#include "model/guard.h"
#include "model/kernels.h"

#include <math.h>
#include <string.h>

static cst_status refuse_lists(cst_context *context, const char *call, const cst_model *model) {
    return model->task != CST_TASK_TOPK
               ? CST_OK
               : cst_fail(context, CST_ERROR_UNSUPPORTED,
                          "%s: the model predicts lists of the likeliest classes from such lists, "
                          "not rows of probabilities",
                          call);
}

cst_status cst_predict_arguments(cst_context *context, const char *call, const cst_model *model,
                                 const float *const *predictions, const uint8_t *present,
                                 int64_t rows, const float *out) {
    if (rows < 0 || (rows > 0 && (!predictions || !out)))
        return cst_fail(context, CST_ERROR_ARGUMENT,
                        "%s: model, predictions, rows >= 0 and an output are required", call);
    CST_TRY(refuse_lists(context, call, model));
    if (!cst_size_fits(rows, model->classes, sizeof *out))
        return cst_fail_size(context, call, rows, model->classes);
    for (int32_t k = 0; rows > 0 && k < cst_model_inputs(model); k++)
        if (!predictions[k] && (!present || present[k]))
            return cst_fail(context, CST_ERROR_ARGUMENT,
                            "%s: the predictions of member %d, '%s', are missing", call, (int)k,
                            cst_model_input_name(model, k));
    return CST_OK;
}

/* Pointers of those present, in their order. */
static void pick_present(const cst_room *room, const float *const *predictions,
                         const float **given) {
    for (int32_t i = 0; predictions && i < cst_model_inputs(&room->model); i++)
        given[i] = predictions[room->place[i]];
}

static bool is_whole(const cst_model *model, const uint8_t *present) {
    bool whole = true;
    for (int32_t k = 0; present && k < cst_model_inputs(model); k++)
        whole = whole && present[k];
    return whole;
}

/* ---- without allocation: memory made once per thread ---- */

struct cst_predictor {
    cst_scope scope;
    cst_model *model;
    cst_context *own; /* for error messages; nobody else's */
    double *blend;    /* [learners] */
    cst_view view;    /* of no rows: shapes only */
    cst_predict_job job;
    cst_predict_scratch scratch;
    cst_room room;           /* for calls without some of the members */
    const float **given;     /* [members]: the pointers of those present; the rows of the guard */
    cst_stream_guard *guard; /* NULL: none */
    int64_t converted_rows;  /* of `converted` */
    float *converted;        /* [members][converted_rows][classes] */
};

/* Rows that are converted at a time. */
static int64_t rows_converted(const cst_model *model) {
    enum { ROWS = 64, BYTES = 1 << 20 };
    size_t row = (size_t)cst_model_inputs(model) * (size_t)model->classes * sizeof(float);
    int64_t most = (int64_t)(BYTES / row);
    return most < 1 ? 1 : most < ROWS ? most : ROWS;
}

static cst_status predictor_fill(cst_context *context, const cst_model *model,
                                 cst_predictor *made) {
    made->model = cst_model_retain((cst_model *)model);
    CST_TRY(cst_context_child(&made->own, context, true));
    CST_TRY(cst_predict_blend(context, &made->scope, model, -1, &made->blend));
    made->view =
        (cst_view){.rows = INT64_MAX, .classes = model->classes, .members = model->members};
    made->job = (cst_predict_job){
        .model = model, .view = &made->view, .blend = made->blend, .domain = -1, .check = true};
    made->job.calibrate = model->calibrator.kind != CST_CALIBRATOR_NONE;
    made->job.adapt = model->adapted != NULL;
    cst_predict_plan(&made->job);
    CST_TRY(cst_predict_scratch_take(context, &made->scope, &made->job, &made->scratch));
    size_t inputs = (size_t)cst_model_inputs(model);
    CST_TAKE(context, &made->scope, made->given, inputs);
    made->converted_rows = rows_converted(model);
    CST_TAKE(context, &made->scope, made->converted,
             (size_t)made->converted_rows * inputs * (size_t)model->classes);
    return cst_room_make(context, model, &made->room);
}

cst_status cst_predictor_create(cst_context *context, cst_predictor **out, const cst_model *model) {
    CST_CLEAR(out);
    CST_ENTER(context);
    if (!out || !model)
        return cst_fail(context, CST_ERROR_ARGUMENT,
                        "cst_predictor_create: context, predictor and model are required");
    CST_TRY(refuse_lists(context, __func__, model));
    cst_predictor *made = cst_alloc(context, 1, sizeof *made);
    cst_status status = made ? predictor_fill(context, model, made) : CST_ERROR_MEMORY;
    if (status == CST_OK)
        *out = made;
    else
        cst_predictor_free(context, made);
    return cst_why(context, status);
}

void cst_predictor_free(cst_context *context, cst_predictor *predictor) {
    if (!predictor)
        return;
    cst_room_free(&predictor->room);
    cst_stream_guard_free(predictor->own, predictor->guard);
    cst_scope_free(&predictor->scope);
    cst_context_free(predictor->own);
    cst_model_free(context, predictor->model);
    cst_free(context, predictor);
}

/* Through the model of those present, in the memory that was made for all. */
static cst_status predict_part(cst_predictor *predictor, const float *const *predictions,
                               const uint8_t *present, int64_t rows, float *out) {
    cst_room *room = &predictor->room;
    CST_TRY(cst_room_fill(predictor->own, room, present));
    cst_view view = predictor->view;
    cst_predict_job job = predictor->job;
    cst_predict_scratch scratch = predictor->scratch;
    view.members = cst_model_inputs(&room->model);
    job.model = &room->model;
    job.view = &view;
    job.gated = job.gated && room->stack_whole;
    job.out = out;
    scratch.scaled = NULL;
    pick_present(room, predictions, predictor->given);
    return cst_predict_chunks(predictor->own, &job, &scratch, predictor->given, 0, rows);
}

static cst_status predict_prepared(cst_predictor *predictor, const char *call,
                                   const float *const *predictions, const uint8_t *present,
                                   int64_t rows, float *out) {
    cst_predict_job *job = &predictor->job;
    cst_status status =
        cst_predict_arguments(predictor->own, call, job->model, predictions, present, rows, out);
    if (status != CST_OK)
        return status;
    if (!is_whole(job->model, present))
        return predict_part(predictor, predictions, present, rows, out);
    job->out = out;
    return cst_predict_chunks(predictor->own, job, &predictor->scratch, predictions, 0, rows);
}

cst_status cst_predictor_set_domain(cst_predictor *predictor, const char *domain) {
    if (!predictor)
        return CST_ERROR_ARGUMENT;
    CST_ENTER(predictor->own);
    const cst_model *model = predictor->job.model;
    predictor->job.domain =
        domain && model->domains
            ? cst_domain_find(model->domains->names, model->domains->count, domain)
            : -1;
    return CST_OK;
}

cst_status cst_predictor_predict(cst_predictor *predictor, const float *const *predictions,
                                 int64_t rows, float *out) {
    if (!predictor)
        return CST_ERROR_ARGUMENT;
    CST_ENTER(predictor->own);
    return predict_prepared(predictor, __func__, predictions, NULL, rows, out);
}

cst_status cst_predictor_predict_present(cst_predictor *predictor, const float *const *predictions,
                                         const uint8_t *present, int64_t rows, float *out) {
    if (!predictor)
        return CST_ERROR_ARGUMENT;
    CST_ENTER(predictor->own);
    return predict_prepared(predictor, __func__, predictions, present, rows, out);
}

/* ---- arrays of any layout and type ---- */

static float value_at(const cst_array *array, int64_t row, int64_t column) {
    const unsigned char *at =
        (const unsigned char *)array->data + row * array->row_step + column * array->column_step;
    double wide = 0;
    float single = 0;
    uint16_t half = 0;
    if (array->type == CST_NUMBER_FLOAT64) {
        memcpy(&wide, at, sizeof wide);
        return (float)wide;
    }
    if (array->type == CST_NUMBER_FLOAT16) {
        memcpy(&half, at, sizeof half);
        return cst_of_half(half);
    }
    memcpy(&single, at, sizeof single);
    return single;
}

static cst_status predict_arrays(cst_predictor *predictor, const cst_array *predictions,
                                 int64_t rows, float *out) {
    const cst_model *model = predictor->job.model;
    int32_t members = cst_model_inputs(model);
    for (int64_t first = 0; first < rows; first += predictor->converted_rows) {
        int64_t left = rows - first;
        int64_t count = left < predictor->converted_rows ? left : predictor->converted_rows;
        float *to = predictor->converted;
        for (int32_t k = 0; k < members; k++) {
            predictor->given[k] = to;
            for (int64_t i = 0; i < count; i++)
                for (int32_t c = 0; c < model->classes; c++)
                    *to++ = value_at(&predictions[k], first + i, c);
        }
        CST_TRY(predict_prepared(predictor, "cst_predictor_predict_arrays", predictor->given, NULL,
                                 count, out + first * model->classes));
    }
    return CST_OK;
}

cst_status cst_predictor_predict_arrays(cst_predictor *predictor, const cst_array *predictions,
                                        int64_t rows, float *out) {
    if (!predictor)
        return CST_ERROR_ARGUMENT;
    CST_ENTER(predictor->own);
    const cst_model *model = predictor->job.model;
    if (rows < 0 || (rows > 0 && (!predictions || !out)))
        return cst_fail(predictor->own, CST_ERROR_ARGUMENT,
                        "cst_predictor_predict_arrays: predictions, rows >= 0 and an output are "
                        "required");
    CST_FITS(predictor->own, rows, model->classes, sizeof *out);
    for (int32_t k = 0; rows > 0 && k < cst_model_inputs(model); k++)
        if (!predictions[k].data || predictions[k].type < CST_NUMBER_FLOAT32 ||
            predictions[k].type > CST_NUMBER_FLOAT16)
            return cst_fail(predictor->own, CST_ERROR_ARGUMENT,
                            "cst_predictor_predict_arrays: the predictions of member %d, '%s', are "
                            "missing or of an unknown type",
                            (int)k, cst_model_input_name(model, k));
    return predict_arrays(predictor, predictions, rows, out);
}

/* ---- guarded ---- */

cst_status cst_predictor_set_guard(cst_predictor *predictor, int64_t window) {
    if (!predictor)
        return CST_ERROR_ARGUMENT;
    CST_ENTER(predictor->own);
    const cst_model *model = predictor->job.model;
    if (window != 0 && (window < CST_NOVELTY_BATCH_MIN || window > CST_GUARD_WINDOW_MAX))
        return cst_fail(predictor->own, CST_ERROR_ARGUMENT,
                        "cst_predictor_set_guard: the window is %lld rows; use %d to %d, or 0 to "
                        "end guarding",
                        (long long)window, (int)CST_NOVELTY_BATCH_MIN, CST_GUARD_WINDOW_MAX);
    if (window > 0 && !model->reference.novelty)
        return cst_fail(predictor->own, CST_ERROR_UNSUPPORTED,
                        "cst_predictor_set_guard: the model has nothing to compare rows with (it "
                        "is of an older version or another task, was adapted, or was fitted on "
                        "fewer than %d rows)",
                        (int)CST_NOVELTY_ROWS_MIN);
    cst_stream_guard *made = NULL;
    cst_status status =
        window > 0 ? cst_stream_guard_make(predictor->own, model, window, &made) : CST_OK;
    if (status != CST_OK) {
        cst_stream_guard_free(predictor->own, made);
        return cst_why(predictor->own, status);
    }
    cst_stream_guard_free(predictor->own, predictor->guard);
    predictor->guard = made;
    return CST_OK;
}

static cst_status check_others(cst_predictor *predictor, const float *const *others, int64_t rows) {
    const cst_model *model = predictor->job.model;
    for (int32_t k = 0; others && k < model->reference.novelty->others; k++)
        for (int64_t i = 0; others[k] && i < rows; i++) {
            cst_row_check found = cst_check_row(others[k] + i * model->classes, model->classes);
            if (found.outside || !(fabs(found.sum - 1) <= 1e-3))
                return cst_fail(predictor->own, CST_ERROR_INPUT,
                                "member '%s', row %lld: these are no probabilities (their sum is "
                                "%g)",
                                model->reference.novelty->other_names[k], (long long)i, found.sum);
        }
    return CST_OK;
}

cst_status cst_predictor_predict_guarded(cst_predictor *predictor, const float *const *predictions,
                                         const float *const *others, int64_t rows, float *out,
                                         cst_guard_batch *found) {
    if (!predictor)
        return CST_ERROR_ARGUMENT;
    CST_ENTER(predictor->own);
    if (!predictor->guard)
        return cst_fail(predictor->own, CST_ERROR_ARGUMENT,
                        "cst_predictor_predict_guarded: call cst_predictor_set_guard first");
    const cst_model *model = predictor->job.model;
    CST_TRY(predict_prepared(predictor, __func__, predictions, NULL, rows, out));
    CST_TRY(check_others(predictor, others, rows));
    for (int64_t i = 0; i < rows; i++) {
        int64_t at = i * model->classes;
        for (int32_t k = 0; k < cst_model_inputs(model); k++)
            predictor->given[k] = predictions[k] + at;
        cst_stream_guard_row(predictor->guard, predictor->given, others, at, out + at);
    }
    if (found)
        cst_stream_guard_found(predictor->guard, found);
    return CST_OK;
}

const char *cst_predictor_error(const cst_predictor *predictor) {
    return predictor ? cst_last_error(predictor->own) : "";
}

const cst_model *cst_predictor_model(const cst_predictor *predictor) {
    return predictor->job.model;
}

cst_context *cst_predictor_own(const cst_predictor *predictor) {
    return predictor->own;
}

bool cst_predictor_is_guarded(const cst_predictor *predictor) {
    return predictor->guard != NULL;
}
