/* Calls that predict label maps, case by case, for a profile. */
#include "fit/profile.h"
#include "core/arguments.h"
#include "tasks/segmentation/segmentation.h"

#include <string.h>

enum { PIECE_VALUES = 1 << 20 }; /* as maps are predicted that are written to files */

typedef struct map_calls {
    int64_t *first;  /* [samples + 1]: where the pixels of each case begin */
    int64_t largest; /* pixels of the largest case */
    int64_t piece;   /* pixels predicted at a time */
    cst_view view;
    double *offsets;      /* [classes], or NULL */
    cst_scope measured;   /* what follows, of the context that is measured */
    float *probabilities; /* [piece][classes] */
    int64_t *index;       /* [piece] */
    int32_t *labels;      /* [largest] */
} map_calls;

/* As many cases as memory allows, at most `most`. */
static cst_status take_cases(cst_context *context, const cst_cases *cases, double pixel,
                             int64_t most, cst_profile_work *out) {
    map_calls *calls = out->data;
    int64_t *count = &out->samples;
    int64_t pixels = cst_profile_affordable(context, pixel);
    most = most < cases->count ? most : cases->count;
    CST_TAKE(context, out->scope, calls->first, most + 1);
    for (*count = 0; *count < most && (*count == 0 || cases->first[*count + 1] <= pixels);
         ++*count) {
        int64_t mine = cases->first[*count + 1] - cases->first[*count];
        calls->first[*count + 1] = cases->first[*count + 1];
        calls->largest = mine > calls->largest ? mine : calls->largest;
    }
    return CST_OK;
}

static cst_status copy_rows(cst_context *context, const cst_view *from, cst_profile_work *out) {
    map_calls *calls = out->data;
    int64_t count = calls->first[out->samples];
    cst_view part = *from;
    part.rows = count;
    CST_NEW(context, out->scope, const float *, data, from->members);
    for (int32_t k = 0; k < from->members; k++) {
        float *to;
        CST_TAKE(context, out->scope, to, (size_t)count * (size_t)from->classes);
        data[k] = to;
        CST_TRY(cst_view_copy(context, &part, k, to));
    }
    calls->view =
        (cst_view){.rows = count, .classes = from->classes, .members = from->members, .data = data};
    return CST_OK;
}

static cst_status open(cst_context *context, cst_pool *pool, const char *split, int64_t batch,
                       cst_profile_work *out) {
    CST_SCOPE(scope);
    cst_view view = {0};
    const cst_model *model = out->model;
    map_calls *calls = out->data;
    double pixel = (double)model->classes * model->members * sizeof(float);
    CST_TRY(cst_model_view(context, scope, model, pool, split, &view));
    CST_TRY(cst_profile_need_members(context, model, split, &view));
    CST_TRY(take_cases(context, cst_pool_cases(pool, split), pixel, batch, out));
    CST_TRY(copy_rows(context, &view, out));
    CST_TRY(cst_offsets_load(context, out->scope, model, &calls->offsets));
    calls->piece = cst_piece_rows(PIECE_VALUES, model->classes);
    calls->piece = calls->piece < calls->largest ? calls->piece : calls->largest;
    out->batch = out->samples;
    out->largest_bytes = pixel * (double)calls->largest; /* cases are read one by one */
    return CST_OK;
}

static cst_status prepare(cst_context *measured, cst_profile_work *work) {
    map_calls *calls = work->data;
    CST_TAKE(measured, &calls->measured, calls->probabilities,
             (size_t)calls->piece * (size_t)work->model->classes);
    CST_TAKE(measured, &calls->measured, calls->index, calls->piece);
    CST_TAKE(measured, &calls->measured, calls->labels, calls->largest);
    return CST_OK;
}

static void release(cst_context *measured, cst_profile_work *work) {
    (void)measured;
    cst_scope_free(&((map_calls *)work->data)->measured);
}

static cst_status call(cst_context *measured, const cst_profile_work *work, int64_t first,
                       int64_t count) {
    const map_calls *calls = work->data;
    cst_status status = CST_OK;
    CST_ENTER(measured);
    for (int64_t n = first; n < first + count; n++) {
        int64_t end = calls->first[n + 1];
        for (int64_t at = calls->first[n]; status == CST_OK && at < end; at += calls->piece) {
            int64_t rows = end - at < calls->piece ? end - at : calls->piece;
            cst_view part = cst_view_range(&calls->view, at, rows, calls->index);
            status = cst_stack_predict(measured, work->model, &part, calls->probabilities);
            if (status == CST_OK)
                cst_decide_rows(calls->probabilities, rows, work->model->classes, calls->offsets,
                                calls->labels + (at - calls->first[n]));
        }
    }
    return status;
}

const cst_profile_ops cst_profile_maps = {.data_bytes = sizeof(map_calls),
                                          .open = open,
                                          .prepare = prepare,
                                          .release = release,
                                          .call = call};
