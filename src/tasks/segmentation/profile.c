/*
 * Calls that predict label maps, one case after another, for a profile.
 * After a fit. Paper: section "Deployment Efficiency: Latency and Memory".
 */
#include "fit/profile.h"
#include "core/arguments.h"
#include "tasks/segmentation/decide.h"
#include "tasks/segmentation/score.h"
#include "tasks/segmentation/segmentation.h"

#include <string.h>

enum { PIECE_VALUES = 1 << 20 }; /* as maps are predicted that are written to files */

typedef struct map_calls {
    int64_t *first;     /* [samples + 1]: where the pixels of each case begin */
    int64_t largest;    /* pixels of the largest case */
    int64_t piece;      /* pixels predicted at a time */
    float **rows;       /* [members] -> [pixels][classes] */
    const float **data; /* the same, for the view */
    cst_view view;
    double *offsets; /* [classes], or NULL */
    /* Of the context that is measured. */
    float *probabilities; /* [piece][classes] */
    int64_t *index;       /* [piece] */
    int32_t *labels;      /* [largest] */
} map_calls;

/* As many cases as memory allows, at most `most`. */
static cst_status take_cases(cst_context *context, const cst_cases *cases, double pixel,
                             int64_t most, map_calls *calls, int64_t *count) {
    int64_t pixels = cst_profile_affordable(context, pixel);
    most = most < cases->count ? most : cases->count;
    calls->first = cst_alloc(context, (size_t)most + 1, sizeof *calls->first);
    if (!calls->first)
        return CST_ERROR_MEMORY;
    for (*count = 0; *count < most && (*count == 0 || cases->first[*count + 1] <= pixels);
         ++*count) {
        int64_t mine = cases->first[*count + 1] - cases->first[*count];
        calls->first[*count + 1] = cases->first[*count + 1];
        calls->largest = mine > calls->largest ? mine : calls->largest;
    }
    return CST_OK;
}

/* The first rows of every member, [count], in memory. */
static cst_status copy_rows(cst_context *context, const cst_view *from, int64_t count,
                            map_calls *calls) {
    size_t members = (size_t)from->members;
    size_t classes = (size_t)from->classes;
    calls->rows = cst_alloc(context, members, sizeof(float *));
    calls->data = cst_alloc(context, members, sizeof *calls->data);
    if (!calls->rows || !calls->data)
        return CST_ERROR_MEMORY;
    cst_status status = CST_OK;
    for (int32_t k = 0; status == CST_OK && k < from->members; k++) {
        float *to = cst_alloc(context, (size_t)count * classes, sizeof *to);
        calls->data[k] = calls->rows[k] = to;
        status = to ? CST_OK : CST_ERROR_MEMORY;
        for (int64_t at = 0; status == CST_OK && at < count; at += CST_BLOCK_ROWS) {
            int64_t part = count - at < CST_BLOCK_ROWS ? count - at : CST_BLOCK_ROWS;
            float *place = to + (size_t)at * classes;
            const float *rows = NULL;
            status = cst_view_rows(context, from, k, at, part, place, &rows);
            if (status == CST_OK && rows != place)
                memcpy(place, rows, (size_t)part * classes * sizeof *place);
        }
    }
    calls->view = (cst_view){
        .rows = count, .classes = from->classes, .members = from->members, .data = calls->data};
    return status;
}

static cst_status open(cst_context *context, cst_pool *pool, const char *split,
                       const cst_model *model, int64_t batch, cst_profile_work *out) {
    cst_view view = {0};
    const float **pointers = NULL;
    map_calls *calls = cst_alloc(context, 1, sizeof *calls);
    *out = (cst_profile_work){.model = model, .data = calls};
    double pixel = (double)model->classes * model->members * sizeof(float);
    cst_status status =
        calls ? cst_model_view(context, model, pool, split, &pointers, &view) : CST_ERROR_MEMORY;
    CST_THEN(cst_profile_need_members(context, model, split, &view));
    CST_THEN(take_cases(context, cst_pool_cases(pool, split), pixel, batch, calls, &out->samples));
    CST_THEN(copy_rows(context, &view, calls->first[out->samples], calls));
    CST_THEN(cst_offsets_load(context, model, &calls->offsets));
    if (status == CST_OK) {
        calls->piece = PIECE_VALUES / model->classes / CST_BLOCK_ROWS * CST_BLOCK_ROWS;
        calls->piece = calls->piece > CST_BLOCK_ROWS ? calls->piece : CST_BLOCK_ROWS;
        calls->piece = calls->piece < calls->largest ? calls->piece : calls->largest;
        out->batch = out->samples;
        out->largest_bytes = pixel * (double)calls->largest; /* cases are read one by one */
    }
    cst_free(context, pointers);
    return status;
}

static cst_status prepare(cst_context *measured, cst_profile_work *work) {
    map_calls *calls = work->data;
    size_t piece = (size_t)calls->piece;
    calls->probabilities =
        cst_alloc(measured, piece * (size_t)work->model->classes, sizeof *calls->probabilities);
    calls->index = cst_alloc(measured, piece, sizeof *calls->index);
    calls->labels = cst_alloc(measured, (size_t)calls->largest, sizeof *calls->labels);
    return calls->probabilities && calls->index && calls->labels ? CST_OK : CST_ERROR_MEMORY;
}

static void release(cst_context *measured, cst_profile_work *work) {
    map_calls *calls = work->data;
    cst_free(measured, calls->probabilities);
    cst_free(measured, calls->index);
    cst_free(measured, calls->labels);
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

static void close_maps(cst_context *context, cst_profile_work *work) {
    map_calls *calls = work->data;
    for (int32_t k = 0; calls && calls->rows && k < work->model->members; k++)
        cst_free(context, calls->rows[k]);
    if (calls) {
        cst_free(context, (void *)calls->rows);
        cst_free(context, calls->data);
        cst_free(context, calls->first);
        cst_free(context, calls->offsets);
    }
    cst_free(context, calls);
    *work = (cst_profile_work){0};
}

const cst_profile_ops cst_profile_maps = {
    .open = open, .prepare = prepare, .release = release, .call = call, .close = close_maps};
