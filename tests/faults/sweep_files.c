/*
 * Calls of a sweep that read or write files.
 */
#include "sweep.h"
#include "tensor_file.h"

#include <corestack/safetensors.h>

#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static void put_rows(trial *t, const char *path, void (*read)(trial *, const char *)) {
    char copy[512];
    (void)snprintf(copy, sizeof copy, "%s", path);
    read(t, copy);
}

static void labels_of(trial *t, const char *path) {
    int32_t *out = NULL;
    int64_t rows = 0;
    TRY(t, cst_read_labels(t->c, path, &out, &rows), out == NULL && rows == 0);
    add_bytes(t, out, (size_t)rows * sizeof *out);
    cst_free(t->c, out);
}

static void labels_npy(trial *t) {
    put_rows(t, in_folder(t->w, "oof_labels.npy"), labels_of);
}

static void labels_csv(trial *t) {
    put_rows(t, in_folder(t->w, "labels.csv"), labels_of);
}

static void labels_text(trial *t) {
    labels_of(t, CST_TEST_DATA "/io/text_U.npy");
}

static void targets_of(trial *t, const char *path) {
    double *out = NULL;
    int64_t rows = 0;
    int32_t outputs = 0;
    TRY(t, cst_read_targets(t->c, path, &out, &rows, &outputs), out == NULL && rows == 0);
    add_bytes(t, out, (size_t)rows * (size_t)outputs * sizeof *out);
    cst_free(t->c, out);
}

static void targets_csv(trial *t) {
    put_rows(t, in_folder(t->w, "a.oof.csv"), targets_of);
}

static void targets_deflated(trial *t) {
    targets_of(t, CST_TEST_DATA "/io/deflated.npz#first");
}

static void order(trial *t) {
    int64_t *out = NULL;
    int64_t rows = 0;
    char path[512];
    (void)snprintf(path, sizeof path, "%s", in_folder(t->w, "oof_labels.npy"));
    TRY(t, cst_read_order(t->c, path, &out, &rows), out == NULL && rows == 0);
    add_bytes(t, out, (size_t)rows * sizeof *out);
    cst_free(t->c, out);
}

static void groups(trial *t) {
    int64_t *out = NULL;
    int64_t rows = 0;
    char path[512];
    (void)snprintf(path, sizeof path, "%s", in_folder(t->w, "oof_labels.npy"));
    TRY(t, cst_read_groups(t->c, path, &out, &rows), out == NULL && rows == 0);
    add_bytes(t, out, (size_t)rows * sizeof *out);
    cst_free(t->c, out);
}

/* ---- writing: a failure leaves no file ---- */

static bool missing(const char *path) {
    return access(path, F_OK) != 0;
}

static void finish(trial *t, const char *path) {
    add_file(t, path);
    (void)unlink(path);
}

static void write_predictions(trial *t) {
    char path[512];
    (void)snprintf(path, sizeof path, "%s", in_folder(t->w, "written.npy"));
    TRY(t, cst_write_predictions(t->c, path, t->w->p[0], ROWS, CLASSES), missing(path));
    finish(t, path);
}

static void write_conditions(trial *t) {
    char path[512];
    (void)snprintf(path, sizeof path, "%s", in_folder(t->w, "written.npy"));
    TRY(t, cst_write_predictions_conditions(t->c, path, t->w->p[0], 2, ROWS / 2, CLASSES),
        missing(path));
    finish(t, path);
}

static void write_csv(trial *t) {
    char path[512];
    (void)snprintf(path, sizeof path, "%s", in_folder(t->w, "written.csv"));
    TRY(t, cst_write_predictions_csv(t->c, path, t->w->p[0], ROWS, CLASSES, NULL, NULL),
        missing(path));
    finish(t, path);
}

/* With the ids and the header of another table. */
static void write_like(trial *t) {
    char path[512];
    char sample[512];
    static char ids[ROWS][16];
    const char *list[ROWS];
    char *said = NULL;
    for (int i = 0; i < ROWS; i++) {
        (void)snprintf(ids[i], sizeof ids[i], "r%d", i);
        list[i] = ids[i];
    }
    (void)snprintf(path, sizeof path, "%s", in_folder(t->w, "written.csv"));
    (void)snprintf(sample, sizeof sample, "%s", in_folder(t->w, "a.oof.csv"));
    TRY(t,
        cst_write_predictions_like(t->c, path, sample, NULL, 0, t->w->p[0], ROWS, CLASSES, list,
                                   NULL, &said),
        missing(path) && said == NULL);
    cst_free(t->c, said);
    finish(t, path);
}

static void lock_file(trial *t) {
    cst_lock *lock = NULL;
    TRY(t, cst_lock_file(t->c, &lock, in_folder(t->w, "a.state")), lock == NULL);
    cst_unlock_file(t->c, lock);
}

static void hold_file(trial *t) {
    char path[512];
    (void)snprintf(path, sizeof path, "%s", in_folder(t->w, "written.npy"));
    TRY(t, cst_hold_file(t->c, path, NULL), true);
    (void)cst_write_folds(t->c, path, t->w->labels, ROWS);
    (void)cst_release_files(t->c);
    finish(t, path);
}

static void write_labels(trial *t) {
    char path[512];
    (void)snprintf(path, sizeof path, "%s", in_folder(t->w, "written.csv"));
    TRY(t, cst_write_labels(t->c, path, t->w->labels, ROWS, CLASSES, NULL, NULL), missing(path));
    finish(t, path);
}

static void write_folds(trial *t) {
    char path[512];
    (void)snprintf(path, sizeof path, "%s", in_folder(t->w, "written.npy"));
    TRY(t, cst_write_folds(t->c, path, t->w->labels, ROWS), missing(path));
    finish(t, path);
}

static void model_save(trial *t) {
    char path[512];
    (void)snprintf(path, sizeof path, "%s", in_folder(t->w, "written.cstack"));
    TRY(t, cst_model_save(t->c, t->w->model, path), missing(path));
    finish(t, path);
}

#if defined(CST_ONNX) || defined(CST_EXPORT_C)
static void export_as(trial *t, const char *format) {
    char path[512];
    const cst_export how = {.format = format};
    (void)snprintf(path, sizeof path, "%s", in_folder(t->w, "written.export"));
    TRY(t, cst_model_export(t->c, t->w->model, &how, path), missing(path));
    finish(t, path);
}
#endif

static void write_html(trial *t) {
    char path[512];
    const cst_report *const page[] = {t->w->report, t->w->rows};
    (void)snprintf(path, sizeof path, "%s", in_folder(t->w, "written.html"));
    TRY(t, cst_write_html(t->c, page, 2, path), missing(path));
    finish(t, path);
}
#ifdef CST_ONNX
static void model_export(trial *t) {
    export_as(t, "onnx");
}
#endif

#ifdef CST_EXPORT_C
static void model_export_c(trial *t) {
    export_as(t, "c");
}
#endif

static void write_suspects(trial *t) {
    char path[512];
    (void)snprintf(path, sizeof path, "%s", in_folder(t->w, "suspects.csv"));
    TRY(t, cst_write_suspects(t->c, t->w->report, path), missing(path));
    finish(t, path);
}

static void model_load(trial *t) {
    char path[512];
    cst_model *model = NULL;
    (void)snprintf(path, sizeof path, "%s", in_folder(t->w, "model.cstack"));
    TRY(t, cst_model_load(t->c, &model, path), model == NULL);
    add_model(t, model);
    cst_model_free(t->c, model);
}

/* ---- pools ---- */

static void open_at(trial *t, const char *name, const cst_pool_config *config) {
    char path[512];
    cst_pool *pool = NULL;
    (void)snprintf(path, sizeof path, "%s", in_folder(t->w, name));
    TRY(t, cst_pool_open(t->c, &pool, path, config), pool == NULL);
    for (int32_t k = 0; k < cst_pool_members(pool); k++)
        add_text(t, cst_pool_member_name(pool, k));
    cst_pool_free(t->c, pool);
}

static void open_manifest(trial *t) {
    open_at(t, "pool.json", NULL);
}

static void open_folder(trial *t) {
    open_at(t, "plain", NULL);
}

static void open_maps(trial *t) {
    open_at(t, "maps.json", NULL);
}

static void open_boxes(trial *t) {
    const cst_pool_config config = {.outside = 1};
    open_at(t, "boxes.json", &config);
}

static void open_files(trial *t) {
    char a[512];
    char b[512];
    char y[512];
    (void)snprintf(a, sizeof a, "%s", in_folder(t->w, "a.oof.npy"));
    (void)snprintf(b, sizeof b, "%s", in_folder(t->w, "b.oof.npy"));
    (void)snprintf(y, sizeof y, "%s", in_folder(t->w, "oof_labels.npy"));
    const char *const paths[] = {a, b};
    const cst_pool_config config = {.labels = y};
    cst_pool *pool = NULL;
    TRY(t, cst_pool_open_files(t->c, &pool, paths, 2, &config), pool == NULL);
    cst_pool_free(t->c, pool);
}

static void open_wide(trial *t) {
    open_at(t, "wide.csv", NULL);
}

static void load_tables(trial *t) {
    char a[512];
    char b[512];
    char y[512];
    (void)snprintf(a, sizeof a, "%s", in_folder(t->w, "one.csv"));
    (void)snprintf(b, sizeof b, "%s", in_folder(t->w, "two.csv"));
    (void)snprintf(y, sizeof y, "%s#label", in_folder(t->w, "wide.csv"));
    const char *const paths[] = {a, b};
    const cst_pool_config config = {.labels = y};
    cst_pool *pool = NULL;
    must(t->c, cst_pool_open_files(t->c, &pool, paths, 2, &config), "tables");
    TRY(t, cst_pool_load(t->c, pool, "oof"), cst_pool_rows(pool, "oof") == -1);
    if (cst_pool_predictions(pool, "oof", 0))
        add_bytes(t, cst_pool_predictions(pool, "oof", 0), 6 * sizeof(float));
    cst_pool_free(t->c, pool);
}

static void load_from(trial *t, const char *name) {
    char path[512];
    cst_pool *pool = NULL;
    (void)snprintf(path, sizeof path, "%s", in_folder(t->w, name));
    must(t->c, cst_pool_open(t->c, &pool, path, NULL), name);
    TRY(t, cst_pool_load(t->c, pool, "oof"), cst_pool_rows(pool, "oof") == -1);
    const float *first = cst_pool_predictions(pool, "oof", 0);
    if (first)
        add_bytes(t, first,
                  (size_t)cst_pool_rows(pool, "oof") * (size_t)cst_pool_classes(pool) *
                      sizeof *first);
    cst_pool_free(t->c, pool);
}

static void load_wide(trial *t) {
    load_from(t, "wide.csv");
}

static void load_npy(trial *t) {
    load_from(t, "pool.json");
}

static void load_csv(trial *t) {
    load_from(t, "plain");
}

static void load_maps(trial *t) {
    load_from(t, "maps.json");
}

/* ---- maps and boxes ---- */

static void predict_maps(trial *t, cst_map_format format, const char *name, bool file) {
    char path[512];
    (void)snprintf(path, sizeof path, "%s", in_folder(t->w, name));
    int64_t cases = 0;
    TRY(t,
        cst_segmentation_predict(t->c, t->w->maps_model, t->w->segmentation, "oof", format, path,
                                 &cases, NULL),
        missing(path));
    add_bytes(t, &cases, sizeof cases);
    if (file) {
        finish(t, path);
        return;
    }
    DIR *folder = opendir(path);
    for (const struct dirent *entry; folder && (entry = readdir(folder)) != NULL;)
        if (entry->d_name[0] != '.')
            (void)unlinkat(dirfd(folder), entry->d_name, 0);
    if (folder)
        (void)closedir(folder);
    (void)rmdir(path);
}

static void predict_array(trial *t) {
    predict_maps(t, CST_MAP_FLOAT16, "written.npy", true);
}

static void predict_pictures(trial *t) {
    predict_maps(t, CST_MAP_PNG, "pictures", false);
}

static void evaluate_maps(trial *t) {
    char masks[512];
    char maps[512];
    cst_report *report = NULL;
    (void)snprintf(masks, sizeof masks, "%s", in_folder(t->w, "masks.npy"));
    (void)snprintf(maps, sizeof maps, "%s", in_folder(t->w, "map_a.npy"));
    const cst_pool_config config = {.labels = masks, .classes = 5};
    TRY(t, cst_segmentation_evaluate_file(t->c, maps, &config, NULL, 0, 10, 1, &report),
        report == NULL);
    add_report(t, report);
    cst_report_free(t->c, report);
}

static void compare_maps(trial *t) {
    char masks[512];
    char maps[512];
    char against[512];
    cst_report *report = NULL;
    (void)snprintf(masks, sizeof masks, "%s", in_folder(t->w, "masks.npy"));
    (void)snprintf(maps, sizeof maps, "%s", in_folder(t->w, "map_a.npy"));
    (void)snprintf(against, sizeof against, "%s", in_folder(t->w, "map_b.npy"));
    const cst_pool_config config = {.labels = masks, .classes = 5};
    TRY(t, cst_segmentation_evaluate_file(t->c, maps, &config, against, 0, 10, 1, &report),
        report == NULL);
    add_report(t, report);
    cst_report_free(t->c, report);
}

static void evaluate_boxes(trial *t) {
    cst_report *report = NULL;
    TRY(t,
        cst_evaluate_detections(t->c, CST_TEST_DATA "/detection/fusion.0.json",
                                CST_TEST_DATA "/detection/fusion.gt.json", 10, 1, &report),
        report == NULL);
    add_report(t, report);
    cst_report_free(t->c, report);
}

static void compare_boxes(trial *t) {
    cst_report *report = NULL;
    TRY(t,
        cst_evaluate_detections_against(t->c, CST_TEST_DATA "/detection/fusion.0.json",
                                        CST_TEST_DATA "/detection/fusion.gt.json",
                                        CST_TEST_DATA "/detection/fusion.1.json", 10, 1, &report),
        report == NULL);
    add_report(t, report);
    cst_report_free(t->c, report);
}

static void predict_boxes(trial *t) {
    char path[512];
    (void)snprintf(path, sizeof path, "%s", in_folder(t->w, "written.json"));
    TRY(t,
        cst_model_predict_detections(t->c, t->w->boxes_model, t->w->detection, "oof", path, 0, 0,
                                     NULL, NULL),
        missing(path));
    finish(t, path);
}

static void predict_pool(trial *t) {
    float *out = NULL;
    int64_t rows = 0;
    TRY(t, cst_model_predict_pool(t->c, t->w->model, t->w->files, "test", &out, &rows),
        out == NULL && rows == 0);
    add_bytes(t, out, sizeof *out * (size_t)rows * CLASSES);
    cst_free(t->c, out);
}

static void predict_values_pool(trial *t) {
    float *mean = NULL;
    float *variance = NULL;
    int64_t rows = 0;
    TRY(t,
        cst_model_predict_values_pool(t->c, t->w->values_model, t->w->regression, "oof", &mean,
                                      &variance, &rows),
        mean == NULL && variance == NULL && rows == 0);
    add_bytes(t, mean, sizeof *mean * (size_t)rows * OUTPUTS);
    cst_free(t->c, mean);
    cst_free(t->c, variance);
}

static void decide_values_pool(trial *t) {
    float *values = NULL;
    int64_t rows = 0;
    TRY(t,
        cst_model_decide_values_pool(t->c, t->w->values_model, t->w->regression, "oof", &values,
                                     &rows),
        values == NULL && rows == 0);
    add_bytes(t, values, sizeof *values * (size_t)rows * OUTPUTS);
    cst_free(t->c, values);
}

/* ---- safetensors ---- */

static void write_tensors(const world *w, const char *path) {
    const int64_t shape[2] = {ROWS, CLASSES};
    tensor_file *file = tensor_file_new();
    tensor_file_metadata(file, "key", "value");
    for (int k = 0; k < 20; k++) {
        const char name[] = {(char)('a' + k), '\0'};
        (void)tensor_file_add(file, name, CST_DTYPE_F32, shape, 2);
        tensor_file_floats(file, k, w->p[k % 3], ROWS * CLASSES);
    }
    tensor_file_write(file, path);
}

static void tensors_opened(trial *t) {
    char path[512];
    cst_safetensors *file = NULL;
    (void)snprintf(path, sizeof path, "%s", in_folder(t->w, "written.safetensors"));
    write_tensors(t->w, path);
    TRY(t, cst_safetensors_open(t->c, &file, path), file == NULL);
    add_bytes(t, cst_safetensors_name(file, 3), 1);
    cst_safetensors_close(t->c, file);
    (void)unlink(path);
}

static cst_status read_tensors(cst_context *c, cst_safetensors *file, float *narrow) {
    double wide[ROWS * CLASSES];
    const void *mapped = NULL;
    cst_status status =
        cst_safetensors_read(c, file, 1, 0, ROWS * CLASSES * (int64_t)sizeof(float), narrow);
    if (status == CST_OK)
        status = cst_safetensors_read_f32(c, file, 2, 0, ROWS * CLASSES, narrow);
    if (status == CST_OK)
        status = cst_safetensors_read_f64(c, file, 2, 0, ROWS * CLASSES, wide);
    return status == CST_OK ? cst_safetensors_map(c, file, 2, &mapped) : status;
}

static void tensors_read(trial *t) {
    char path[512];
    float narrow[ROWS * CLASSES] = {0};
    cst_safetensors *file = NULL;
    (void)snprintf(path, sizeof path, "%s", in_folder(t->w, "written.safetensors"));
    write_tensors(t->w, path);
    must(t->c, cst_safetensors_open(t->c, &file, path), path);
    TRY(t, read_tensors(t->c, file, narrow), true);
    add_bytes(t, narrow, sizeof narrow);
    cst_safetensors_close(t->c, file);
    (void)unlink(path);
}

const sweep_call SWEEP_FILES[] = {
    {"cst_safetensors_open", "", tensors_opened},
    {"cst_safetensors_read", "and all that read", tensors_read},
    {"cst_read_labels", "npy", labels_npy},
    {"cst_read_labels", "csv", labels_csv},
    {"cst_read_labels", "text", labels_text},
    {"cst_read_targets", "csv", targets_csv},
    {"cst_read_targets", "deflated npz", targets_deflated},
    {"cst_read_groups", "", groups},
    {"cst_read_order", "", order},
    {"cst_write_predictions", "", write_predictions},
    {"cst_write_predictions_conditions", "", write_conditions},
    {"cst_write_predictions_csv", "", write_csv},
    {"cst_write_predictions_like", "", write_like},
    {"cst_write_labels", "", write_labels},
    {"cst_write_html", "", write_html},
    {"cst_write_folds", "", write_folds},
    {"cst_hold_file", "", hold_file},
    {"cst_lock_file", "", lock_file},
    {"cst_model_save", "", model_save},
#ifdef CST_ONNX
    {"cst_model_export", "", model_export},
#endif
#ifdef CST_EXPORT_C
    {"cst_model_export", "c", model_export_c},
#endif
    {"cst_model_load", "", model_load},
    {"cst_write_suspects", "", write_suspects},
    {"cst_pool_open", "manifest", open_manifest},
    {"cst_pool_open", "folder", open_folder},
    {"cst_pool_open", "segmentation", open_maps},
    {"cst_pool_open", "detection", open_boxes},
    {"cst_pool_open", "wide table", open_wide},
    {"cst_pool_open_files", "", open_files},
    {"cst_pool_load", "wide table", load_wide},
    {"cst_pool_load", "tables", load_tables},
    {"cst_pool_load", "npy", load_npy},
    {"cst_pool_load", "csv with ids", load_csv},
    {"cst_pool_load", "segmentation", load_maps},
    {"cst_segmentation_predict", "array", predict_array},
    {"cst_segmentation_predict", "pictures", predict_pictures},
    {"cst_segmentation_evaluate_file", "", evaluate_maps},
    {"cst_segmentation_evaluate_file", "against", compare_maps},
    {"cst_evaluate_detections", "", evaluate_boxes},
    {"cst_evaluate_detections_against", "", compare_boxes},
    {"cst_model_predict_detections", "", predict_boxes},
    {"cst_model_predict_pool", "", predict_pool},
    {"cst_model_predict_values_pool", "", predict_values_pool},
    {"cst_model_decide_values_pool", "", decide_values_pool},
};
const size_t SWEEP_FILES_COUNT = sizeof SWEEP_FILES / sizeof SWEEP_FILES[0];
