/*
 * Maps of a whole split: predicted piece by piece and written case by case, so that memory does not
 * grow with the split. The last stage. Paper: section "Dense Prediction".
 */
#include "io/npy_stream.h"
#include "io/output_folder.h"
#include "io/png.h"
#include "la/la.h"
#include "segmentation/decide.h"
#include "segmentation/score.h"

#include <corestack/files.h>
#include <string.h>
#include <sys/stat.h>

enum { PIECE_VALUES = 1 << 20, LABELS_8 = 256, LABELS_16 = 65536 };

typedef struct writing {
    const cst_model *model;
    const cst_cases *cases;
    cst_view view;
    double *offsets;
    cst_map_format format;
    cst_npy_type type;
    int64_t piece;
    float *probabilities;   /* [piece][classes] */
    int64_t *index;         /* [piece] */
    int32_t *labels;        /* [piece], or a whole case for PNG */
    unsigned char *scratch; /* two bytes for each value of a piece */
} writing;

static bool writes_labels(const writing *w) {
    return w->format == CST_MAP_LABELS || w->format == CST_MAP_PNG;
}

/* ---- pieces ---- */

/* Predicts rows first..first+count-1; labels, where they are wanted, go to `labels`. */
static cst_status predict(cst_context *context, const writing *w, int64_t first, int64_t count,
                          int32_t *labels) {
    cst_view part = cst_view_range(&w->view, first, count, w->index);
    cst_status status = cst_progress(context, "predict", first, w->view.rows);
    CST_TRY(cst_stack_predict(context, w->model, &part, w->probabilities));
    if (status == CST_OK && labels)
        cst_decide_rows(w->probabilities, count, w->model->classes, w->offsets, labels);
    return status;
}

/* Rows first..end-1 to an open npy. */
static cst_status write_rows(cst_context *context, const writing *w, cst_output_file *output,
                             int64_t first, int64_t end) {
    cst_status status = CST_OK;
    for (int64_t at = first; status == CST_OK && at < end; at += w->piece) {
        int64_t count = end - at < w->piece ? end - at : w->piece;
        status = predict(context, w, at, count, writes_labels(w) ? w->labels : NULL);
        if (status != CST_OK)
            break;
        status =
            writes_labels(w)
                ? cst_npy_put_labels(context, output, w->type, w->labels, (size_t)count, w->scratch)
                : cst_npy_put_f32(context, output, w->type, w->probabilities,
                                  (size_t)count * (size_t)w->model->classes, w->scratch);
    }
    return status;
}

/* Shape of the array of one case, or with `cases` > 0 of that many. Returns its dimensions. */
static int array_shape(const writing *w, int64_t index, int64_t cases, int64_t shape[5]) {
    int dims = 0;
    if (cases > 0)
        shape[dims++] = cases;
    if (w->cases->volumes)
        shape[dims++] = w->cases->shape[index][0];
    shape[dims++] = w->cases->shape[index][1];
    shape[dims++] = w->cases->shape[index][2];
    if (!writes_labels(w))
        shape[dims++] = w->model->classes;
    return dims;
}

/* All rows are predicted: the last moment at which a stop leaves nothing behind. */
static cst_status finish(cst_context *context, const writing *w) {
    return cst_progress(context, "predict", w->view.rows, w->view.rows);
}

static cst_status write_npy(cst_context *context, const writing *w, const char *path,
                            int64_t first_case, int64_t cases, bool alone) {
    int64_t shape[5];
    cst_output_file *output = NULL;
    int dims = array_shape(w, first_case, alone ? 0 : cases, shape);
    cst_status status = cst_npy_begin(context, &output, path, w->type, shape, dims);
    CST_TRY(write_rows(context, w, output, w->cases->first[first_case],
                       w->cases->first[first_case + cases]));
    if (status == CST_OK && !alone)
        status = finish(context, w);
    if (status == CST_OK)
        return cst_output_commit(context, output);
    cst_output_abort(context, output);
    return status;
}

static cst_status write_png(cst_context *context, const writing *w, const char *path,
                            int64_t index) {
    int64_t first = w->cases->first[index];
    int64_t end = w->cases->first[index + 1];
    cst_status status = CST_OK;
    for (int64_t at = first; status == CST_OK && at < end; at += w->piece)
        status = predict(context, w, at, end - at < w->piece ? end - at : w->piece,
                         w->labels + (at - first));
    return status == CST_OK
               ? cst_png_write_labels(context, path, w->labels, w->cases->shape[index][1],
                                      w->cases->shape[index][2],
                                      w->model->classes <= LABELS_8 ? 8 : 16)
               : status;
}

static cst_status write_folder(cst_context *context, const writing *w, const char *path) {
    cst_output_folder *folder = NULL;
    bool png = w->format == CST_MAP_PNG;
    cst_status status = cst_output_folder_open(context, &folder, path);
    for (int64_t n = 0; status == CST_OK && n < w->cases->count; n++) {
        char number[CST_CASE_CHARS];
        char *file = NULL;
        status = cst_output_folder_file(context, folder, cst_case_name(w->cases, n, number),
                                        png ? ".png" : ".npy", &file);
        CST_TRY(png ? write_png(context, w, file, n) : write_npy(context, w, file, n, 1, true));
        cst_free(context, file);
    }
    CST_TRY(finish(context, w));
    if (status == CST_OK)
        return cst_output_folder_commit(context, folder);
    cst_output_folder_abort(context, folder);
    return status;
}

/* ---- the whole ---- */

static bool ends_with(const char *path, const char *tail) {
    size_t length = strlen(path);
    size_t bytes = strlen(tail);
    return length >= bytes && strcmp(path + length - bytes, tail) == 0;
}

/* What the format cannot hold. */
static cst_status check_format(cst_context *context, const writing *w, const char *path,
                               bool array) {
    if (w->format == CST_MAP_PNG && array)
        return cst_fail(
            context, CST_ERROR_ARGUMENT,
            "%s: PNG label maps are written to a folder, one file per case; name a folder", path);
    if (array && !w->cases->uniform)
        return cst_fail(context, CST_ERROR_INPUT,
                        "%s: the cases of %s differ in size, so they do not fit into one array; "
                        "name a folder (without .npy), which receives one file per case",
                        path, w->cases->where);
    for (int64_t n = 0; w->format == CST_MAP_PNG && n < w->cases->count; n++)
        if (w->cases->shape[n][0] > 1)
            return cst_fail(context, CST_ERROR_INPUT,
                            "%s: the cases of %s are volumes, which PNG does not support; use "
                            "label maps in npy",
                            path, w->cases->where);
    if (writes_labels(w) && w->model->classes > LABELS_16)
        return cst_fail(context, CST_ERROR_LIMIT, "%s: label maps can hold at most %d classes",
                        path, LABELS_16);
    return CST_OK;
}

/* Buffers; a PNG needs the labels of its whole case. */
static cst_status make_buffers(cst_context *context, writing *w) {
    size_t classes = (size_t)w->model->classes;
    w->piece = PIECE_VALUES / w->model->classes / CST_BLOCK_ROWS * CST_BLOCK_ROWS;
    w->piece = w->piece > CST_BLOCK_ROWS ? w->piece : CST_BLOCK_ROWS;
    int64_t most = 0;
    for (int64_t n = 0; n < w->cases->count; n++) {
        int64_t pixels = w->cases->first[n + 1] - w->cases->first[n];
        most = pixels > most ? pixels : most;
    }
    size_t labels = (size_t)(w->format == CST_MAP_PNG ? most : w->piece);
    w->probabilities = cst_alloc(context, (size_t)w->piece, classes * sizeof *w->probabilities);
    w->index = cst_alloc(context, (size_t)w->piece, sizeof *w->index);
    w->labels = cst_alloc(context, labels, sizeof *w->labels);
    w->scratch = cst_alloc(context, (size_t)w->piece, 2 * classes);
    return w->probabilities && w->index && w->labels && w->scratch ? CST_OK : CST_ERROR_MEMORY;
}

/* Whether all maps go to one array: where the name says so, and to what takes bytes in their order.
 */
static bool is_array(const char *path) {
    struct stat info;
    return ends_with(path, ".npy") || cst_path_is_descriptor(path) ||
           (stat(path, &info) == 0 && !S_ISREG(info.st_mode) && !S_ISDIR(info.st_mode));
}

cst_status cst_segmentation_predict(cst_context *context, const cst_model *model, cst_pool *pool,
                                    const char *split, cst_map_format format, const char *path,
                                    int64_t *cases, int64_t *pixels) {
    CST_ENTER(context);
    CST_CHECK(context, model, MODEL, "model");
    CST_CHECK(context, pool, POOL, "pool");
    if (!model || !pool || !split || !path || format < CST_MAP_FLOAT32 || format > CST_MAP_PNG)
        return cst_fail(
            context, CST_ERROR_ARGUMENT,
            "cst_segmentation_predict: model, pool, split, format and path are required");
    if (cst_pool_task(pool) != CST_TASK_SEGMENTATION || model->task != CST_TASK_SEGMENTATION)
        return cst_fail(context, CST_ERROR_INPUT,
                        "maps need a model and a pool of task segmentation; this model is for %s "
                        "and the pool for %s",
                        cst_task_name(model->task), cst_task_name(cst_pool_task(pool)));
    writing w = {.model = model, .format = format};
    const float **pointers = NULL;
    bool array = is_array(path);
    w.type = format == CST_MAP_FLOAT32    ? CST_NPY_F32
             : format == CST_MAP_FLOAT16  ? CST_NPY_F16
             : model->classes <= LABELS_8 ? CST_NPY_U8
                                          : CST_NPY_U16;
    cst_la_enter();
    cst_status status = cst_model_view(context, model, pool, split, &pointers, &w.view);
    CST_TRY(cst_model_view_tell(context, model, split, &w.view));
    w.cases = cst_pool_cases(pool, split);
    CST_TRY(check_format(context, &w, path, array));
    CST_TRY(cst_offsets_load(context, model, &w.offsets));
    CST_TRY(make_buffers(context, &w));
    CST_TRY(array ? write_npy(context, &w, path, 0, w.cases->count, false)
                  : write_folder(context, &w, path));
    cst_la_leave();
    if (status == CST_OK && cases)
        *cases = w.cases->count;
    if (status == CST_OK && pixels)
        *pixels = w.view.rows;
    cst_free(context, w.probabilities);
    cst_free(context, w.index);
    cst_free(context, w.labels);
    cst_free(context, w.scratch);
    cst_free(context, w.offsets);
    cst_free(context, pointers);
    return cst_why(context, status);
}
