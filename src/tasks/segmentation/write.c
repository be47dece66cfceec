/* Maps of a whole split, predicted piece by piece. Paper: section "Dense Prediction". */
#include "core/la.h"
#include "data/files/bytes.h"
#include "data/files/output.h"
#include "data/readers/cases.h"
#include "data/readers/npy.h"
#include "model/guard.h"
#include "tasks/segmentation/segmentation.h"

#include <corestack/files.h>
#include <string.h>
#include <sys/stat.h>

enum { PIECE_VALUES = 1 << 20, LABELS_8 = 256, LABELS_16 = 65536 };

typedef struct writing {
    const cst_model *model;
    const cst_cases *cases;
    cst_view view;
    double *offsets;
    double *scaled;          /* [classes]: offsets of a case that leans on the average */
    cst_guard_report *found; /* NULL: nothing was tested */
    cst_view all;            /* of all members, where some case leans on their average */
    bool leans;
    cst_map_format format;
    cst_id_map map;
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

/* Rows from `first` of one case, where cases differ in their weight of the average. */
static int64_t of_one_case(const writing *w, int64_t first, int64_t count) {
    if (!w->leans)
        return count;
    int64_t end = w->cases->first[cst_case_of(w->cases, first) + 1];
    return end - first < count ? end - first : count;
}

/* Leans on the average of all members; the offsets that then hold. */
static cst_status lean(cst_context *context, const writing *w, int64_t first, int64_t count,
                       const double **offsets) {
    double lambda = cst_guard_lambda(w->found, first);
    if (!(lambda > 0))
        return CST_OK;
    for (int32_t c = 0; w->offsets && c < w->model->classes; c++)
        w->scaled[c] = (1 - lambda) * w->offsets[c];
    *offsets = w->offsets ? w->scaled : NULL;
    return cst_guard_mix(context, w->found, &w->all, first, count, w->probabilities);
}

/* Predicts rows first..first+count-1; labels, where they are wanted, go to `labels`. */
static cst_status predict(cst_context *context, const writing *w, int64_t first, int64_t count,
                          int32_t *labels) {
    cst_view part = cst_view_range(&w->view, first, count, w->index);
    const double *offsets = w->offsets;
    if (first == 0)
        cst_stage_share(context, 1);
    CST_TRY(cst_progress(context, "predict", first, w->view.rows));
    CST_TRY(cst_stack_predict(context, w->model, &part, w->probabilities));
    if (w->leans)
        CST_TRY(lean(context, w, first, count, &offsets));
    if (labels)
        cst_decide_rows(w->probabilities, count, w->model->classes, offsets, labels);
    for (int64_t i = 0; labels && w->map.ids && i < count; i++)
        labels[i] = w->map.ids[labels[i]];
    return CST_OK;
}

static cst_status write_rows(cst_context *context, const writing *w, cst_output_file *output,
                             int64_t first, int64_t end) {
    int64_t count = 0;
    for (int64_t at = first; at < end; at += count) {
        count = of_one_case(w, at, end - at < w->piece ? end - at : w->piece);
        CST_TRY(predict(context, w, at, count, writes_labels(w) ? w->labels : NULL));
        CST_TRY(
            writes_labels(w)
                ? cst_npy_put_labels(context, output, w->type, w->labels, (size_t)count, w->scratch)
                : cst_npy_put_f32(context, output, w->type, w->probabilities,
                                  (size_t)count * (size_t)w->model->classes, w->scratch));
    }
    return CST_OK;
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
    CST_THEN(write_rows(context, w, output, w->cases->first[first_case],
                        w->cases->first[first_case + cases]));
    if (status == CST_OK && !alone)
        status = finish(context, w);
    return cst_output_end(context, output, status);
}

static cst_status write_png(cst_context *context, const writing *w, const char *path,
                            int64_t index) {
    int64_t first = w->cases->first[index];
    int64_t end = w->cases->first[index + 1];
    for (int64_t at = first; at < end; at += w->piece)
        CST_TRY(predict(context, w, at, end - at < w->piece ? end - at : w->piece,
                        w->labels + (at - first)));
    return cst_png_write_labels(context, path, w->labels, w->cases->shape[index][1],
                                w->cases->shape[index][2], w->map.largest < LABELS_8 ? 8 : 16,
                                w->map.coloured ? w->map.palette : NULL);
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
        CST_THEN(png ? write_png(context, w, file, n) : write_npy(context, w, file, n, 1, true));
        cst_free(context, file);
    }
    CST_THEN(finish(context, w));
    if (status == CST_OK)
        return cst_output_folder_commit(context, folder);
    cst_output_folder_abort(context, folder);
    return status;
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
    if (w->map.ids && !writes_labels(w))
        return cst_fail(context, CST_ERROR_ARGUMENT,
                        "%s: an id map is for label maps: give the format png or labels (--format "
                        "png), or no id map",
                        path);
    if (writes_labels(w) && w->model->classes > LABELS_16)
        return cst_fail(context, CST_ERROR_LIMIT, "%s: label maps can hold at most %d classes",
                        path, LABELS_16);
    return CST_OK;
}

/* Buffers; a PNG needs the labels of its whole case. */
static cst_status make_buffers(cst_context *context, cst_scope *scope, writing *w) {
    size_t classes = (size_t)w->model->classes;
    w->piece = cst_piece_rows(PIECE_VALUES, w->model->classes);
    int64_t most = 0;
    for (int64_t n = 0; n < w->cases->count; n++) {
        int64_t pixels = w->cases->first[n + 1] - w->cases->first[n];
        most = pixels > most ? pixels : most;
    }
    CST_TAKE(context, scope, w->probabilities, (size_t)w->piece * classes);
    CST_TAKE(context, scope, w->index, w->piece);
    CST_TAKE(context, scope, w->labels, w->format == CST_MAP_PNG ? most : w->piece);
    CST_TAKE(context, scope, w->scratch, (size_t)w->piece * 2 * classes);
    CST_TAKE(context, scope, w->scaled, classes);
    return CST_OK;
}

static bool is_array(const char *path) {
    struct stat info;
    return cst_path_ends(path, ".npy") || cst_path_is_descriptor(path) ||
           (stat(path, &info) == 0 && !S_ISREG(info.st_mode) && !S_ISDIR(info.st_mode));
}

static const cst_guard DEFAULT_GUARD = {.mode = CST_GUARD_WARN};

/* Tests the cases; where some are to lean on the average, all members are loaded. */
static cst_status guard_cases(cst_context *context, cst_pool *pool, const char *split,
                              const cst_guard *guard, writing *w) {
    CST_TRY(cst_guard_test_maps(context, w->model, pool, split, &w->view, guard, &w->found));
    if (!w->found)
        return CST_OK;
    w->leans = guard->mode == CST_GUARD_AUTO && w->found->fired > 0;
    if (w->leans)
        CST_TRY(cst_guard_all(context, w->model, pool, split, &w->view, w->found, &w->all));
    cst_guard_tell(context, w->model, split, guard->mode, w->found);
    return CST_OK;
}

static cst_status write_maps(cst_context *context, writing *w, cst_pool *pool, const char *split,
                             const cst_guard *guard, const char *id_map, const char *path) {
    CST_SCOPE(scope);
    bool array = is_array(path);
    CST_TRY(cst_id_map_read(context, scope, id_map, w->model->classes, &w->map));
    w->type = w->format == CST_MAP_FLOAT32   ? CST_NPY_F32
              : w->format == CST_MAP_FLOAT16 ? CST_NPY_F16
              : w->map.largest < LABELS_8    ? CST_NPY_U8
                                             : CST_NPY_U16;
    CST_LA();
    CST_TRY(cst_model_view(context, scope, w->model, pool, split, &w->view));
    CST_TRY(cst_model_view_tell(context, w->model, split, &w->view));
    w->cases = cst_pool_cases(pool, split);
    CST_TRY(check_format(context, w, path, array));
    CST_TRY(cst_offsets_load(context, scope, w->model, &w->offsets));
    CST_TRY(make_buffers(context, scope, w));
    CST_TRY(cst_maps_check_guessed(context, w->model, pool, split, &w->view));
    CST_TRY(guard_cases(context, pool, split, guard, w));
    if (w->leans) /* members loaded since may have moved the others */
        CST_TRY(cst_model_view(context, scope, w->model, pool, split, &w->view));
    return array ? write_npy(context, w, path, 0, w->cases->count, false)
                 : write_folder(context, w, path);
}

cst_status cst_segmentation_predict_guarded(cst_context *context, const cst_model *model,
                                            cst_pool *pool, const char *split,
                                            const cst_guard *guard_given, cst_map_format format,
                                            const char *id_map, const char *path, int64_t *cases,
                                            int64_t *pixels, cst_guard_report **report) {
    CST_CLEAR(report);
    CST_ENTER(context);
    CST_STRUCT(context, cst_guard, guard, guard_given);
    if (!model || !pool || !split || !path || format < CST_MAP_FLOAT32 || format > CST_MAP_PNG ||
        (guard && (guard->mode < CST_GUARD_OFF || guard->mode > CST_GUARD_AUTO)))
        return cst_fail(context, CST_ERROR_ARGUMENT,
                        "cst_segmentation_predict: model, pool, split, format, path and a mode of "
                        "the guard are "
                        "required");
    if (cst_pool_task(pool) != CST_TASK_SEGMENTATION || model->task != CST_TASK_SEGMENTATION)
        return cst_fail(context, CST_ERROR_INPUT,
                        "maps need a model and a pool of task segmentation; this model is for %s "
                        "and the pool for %s",
                        cst_task_text(model->task), cst_task_text(cst_pool_task(pool)));
    writing w = {.model = model, .format = format};
    cst_status status =
        write_maps(context, &w, pool, split, guard ? guard : &DEFAULT_GUARD, id_map, path);
    if (status == CST_OK && cases)
        *cases = w.cases->count;
    if (status == CST_OK && pixels)
        *pixels = w.view.rows;
    if (status == CST_OK && report) {
        *report = w.found;
        w.found = NULL;
    }
    cst_guard_report_free(context, w.found);
    return cst_why(context, status);
}

cst_status cst_segmentation_predict(cst_context *context, const cst_model *model, cst_pool *pool,
                                    const char *split, cst_map_format format, const char *path,
                                    int64_t *cases, int64_t *pixels) {
    return cst_segmentation_predict_guarded(context, model, pool, split, NULL, format, NULL, path,
                                            cases, pixels, NULL);
}
