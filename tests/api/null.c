/*
 * NULL in every place of every public function: an argument error with a message where there is a
 * status and a context, a neutral value elsewhere, never a crash. Scores (corestack/metrics.h) are
 * in null_scores.c.
 */
#include "core/base.h"
#include "data/pool/pool.h"
#include "temporary.h"
#include "tensor_file.h"

#include <corestack/files.h>
#include <corestack/more.h>

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { ROWS = 60, CLASSES = 3, MEMBERS = 2 };

typedef struct fixture {
    cst_context *context;
    cst_pool *pool;
    cst_model *model;
    cst_report *report;
    cst_options *options;
    int32_t labels[ROWS];
    float predictions[MEMBERS][ROWS * CLASSES];
} fixture;

static fixture shared;

static int setup(void **state) {
    static const char *const names[MEMBERS] = {"a", "b"};
    const float *const data[MEMBERS] = {shared.predictions[0], shared.predictions[1]};
    fixture *f = &shared;
    *state = f;
    for (int i = 0; i < ROWS; i++) {
        f->labels[i] = i % CLASSES;
        for (int k = 0; k < MEMBERS; k++)
            for (int c = 0; c < CLASSES; c++) {
                bool right = c == (i % (5 + k) ? f->labels[i] : (i + 1) % CLASSES);
                f->predictions[k][i * CLASSES + c] = right ? 0.5f : 0.25f;
            }
    }
    if (cst_context_create(&f->context) != CST_OK ||
        cst_options_create(f->context, &f->options) != CST_OK ||
        cst_pool_from_memory(f->context, &f->pool, "oof", data, names, MEMBERS, ROWS, CLASSES,
                             f->labels, CST_OUTPUT_PROBABILITY) != CST_OK)
        return 1;
    /* Options may be NULL. */
    return cst_fit(f->context, f->pool, "oof", NULL, &f->model, &f->report) != CST_OK;
}

static int teardown(void **state) {
    fixture *f = *state;
    cst_report_free(f->context, f->report);
    cst_model_free(f->context, f->model);
    cst_pool_free(f->context, f->pool);
    cst_options_free(f->context, f->options);
    cst_context_free(f->context);
    return 0;
}

/* An argument error that says something of its own. */
static void refused_at(const fixture *f, cst_status status, int line) {
    if (status != CST_ERROR_ARGUMENT || !*cst_last_error(f->context))
        print_error("line %d: %s: %s\n", line, cst_status_name(status), cst_last_error(f->context));
    assert_int_equal(status, CST_ERROR_ARGUMENT);
    assert_true(*cst_last_error(f->context));
    (void)(cst_fail)(f->context, CST_OK, "%s", "");
}

#define REFUSED(call) refused_at(f, call, __LINE__)
/* Without a context there is no message. */
#define REFUSED_ALONE(call) assert_int_equal(call, CST_ERROR_ARGUMENT)

static void contexts(void **state) {
    fixture *f = *state;
    REFUSED_ALONE(cst_context_create(NULL));
    REFUSED_ALONE(cst_context_create_with(NULL, NULL, NULL));
    REFUSED_ALONE(cst_context_set_threads(NULL, 1));
    cst_context_set_log(NULL, NULL, NULL);
    cst_context_set_progress(NULL, NULL, NULL);
    assert_string_equal(cst_last_error(NULL), "no context");
    cst_context_free(NULL);
    cst_free(NULL, NULL);
    cst_free(f->context, NULL);
    assert_non_null(cst_version());
    cst_make_printable(NULL, ' ');
    assert_int_equal(cst_path_is_descriptor(NULL), 0);
    assert_non_null(cst_status_name((cst_status)-1));
    assert_non_null(cst_status_text((cst_status)-1));
}

static void options(void **state) {
    fixture *f = *state;
    cst_options *made = NULL;
    REFUSED_ALONE(cst_options_create(NULL, &made));
    REFUSED(cst_options_create(f->context, NULL));
    REFUSED_ALONE(cst_options_preset(NULL, f->options, "paper"));
    REFUSED(cst_options_preset(f->context, NULL, "paper"));
    REFUSED(cst_options_preset(f->context, f->options, NULL));
    REFUSED_ALONE(cst_options_set(NULL, f->options, "seed", "1"));
    REFUSED(cst_options_set(f->context, NULL, "seed", "1"));
    REFUSED(cst_options_set(f->context, f->options, NULL, "1"));
    REFUSED(cst_options_set(f->context, f->options, "seed", NULL));
    assert_null(cst_options_get(NULL, "seed"));
    assert_null(cst_options_get(f->options, NULL));
    assert_string_equal(cst_options_get(f->options, "seed"), "0");
    assert_null(cst_option_at(cst_option_count()));
    assert_null(cst_preset_at(SIZE_MAX));
    cst_options_free(f->context, NULL);
    cst_options_free(NULL, NULL);
}

static void files(void **state) {
    fixture *f = *state;
    int32_t *labels = f->labels;
    int64_t *groups = NULL;
    int64_t rows = 7;
    REFUSED_ALONE(cst_read_labels(NULL, "y.npy", &labels, &rows));
    assert_null(labels);
    assert_int_equal(rows, 0);
    REFUSED(cst_read_labels(f->context, NULL, &labels, &rows));
    REFUSED(cst_read_labels(f->context, "y.npy", NULL, &rows));
    REFUSED(cst_read_labels(f->context, "y.npy", &labels, NULL));
    double *targets = NULL;
    int32_t outputs = 7;
    REFUSED_ALONE(cst_read_targets(NULL, "y.npy", &targets, &rows, &outputs));
    assert_int_equal(outputs, 0);
    REFUSED(cst_read_targets(f->context, NULL, &targets, &rows, &outputs));
    REFUSED(cst_read_targets(f->context, "y.npy", NULL, &rows, &outputs));
    REFUSED(cst_read_targets(f->context, "y.npy", &targets, NULL, &outputs));
    REFUSED(cst_read_targets(f->context, "y.npy", &targets, &rows, NULL));
    REFUSED_ALONE(cst_read_order(NULL, "g.npy", &groups, &rows));
    REFUSED(cst_read_order(f->context, NULL, &groups, &rows));
    REFUSED(cst_read_order(f->context, "g.npy", NULL, &rows));
    REFUSED(cst_read_order(f->context, "g.npy", &groups, NULL));
    REFUSED_ALONE(cst_read_groups(NULL, "g.npy", &groups, &rows));
    REFUSED(cst_read_groups(f->context, NULL, &groups, &rows));
    REFUSED(cst_read_groups(f->context, "g.npy", NULL, &rows));
    REFUSED(cst_read_groups(f->context, "g.npy", &groups, NULL));
    const float *p = f->predictions[0];
    REFUSED_ALONE(cst_write_predictions(NULL, "p.npy", p, 1, CLASSES));
    REFUSED(cst_write_predictions(f->context, NULL, p, 1, CLASSES));
    REFUSED(cst_write_predictions(f->context, "p.npy", NULL, 1, CLASSES));
    REFUSED_ALONE(cst_write_predictions_conditions(NULL, "p.npy", p, 1, 1, CLASSES));
    REFUSED(cst_write_predictions_conditions(f->context, NULL, p, 1, 1, CLASSES));
    REFUSED(cst_write_predictions_conditions(f->context, "p.npy", NULL, 1, 1, CLASSES));
    REFUSED_ALONE(cst_write_predictions_csv(NULL, "p.csv", p, 1, CLASSES, NULL, NULL));
    REFUSED(cst_write_predictions_csv(f->context, NULL, p, 1, CLASSES, NULL, NULL));
    REFUSED(cst_write_predictions_csv(f->context, "p.csv", NULL, 1, CLASSES, NULL, NULL));
    REFUSED_ALONE(cst_write_predictions_like(NULL, "p.csv", "s.csv", NULL, 0, p, 1, CLASSES, NULL,
                                             NULL, NULL));
    REFUSED(cst_write_predictions_like(f->context, NULL, "s.csv", NULL, 0, p, 1, CLASSES, NULL,
                                       NULL, NULL));
    REFUSED(cst_write_predictions_like(f->context, "p.csv", NULL, NULL, 0, p, 1, CLASSES, NULL,
                                       NULL, NULL));
    REFUSED(cst_write_predictions_like(f->context, "p.csv", "s.csv", NULL, 0, NULL, 1, CLASSES,
                                       NULL, NULL, NULL));
    cst_lock *lock = NULL;
    REFUSED_ALONE(cst_lock_file(NULL, &lock, "a.state"));
    REFUSED(cst_lock_file(f->context, NULL, "a.state"));
    REFUSED(cst_lock_file(f->context, &lock, NULL));
    cst_unlock_file(f->context, NULL);
    REFUSED_ALONE(cst_hold_file(NULL, "a.npy", NULL));
    REFUSED(cst_hold_file(f->context, NULL, NULL));
    REFUSED_ALONE(cst_release_files(NULL));
    cst_drop_files(NULL);
    cst_unlock_file(NULL, NULL);
    cst_context_set_formulas(NULL, 1);
    cst_context_set_width(NULL, 80);
    assert_true(cst_context_progress(NULL) >= 0 && cst_context_progress(NULL) <= 0);
    REFUSED_ALONE(cst_write_labels(NULL, "f.npy", f->labels, 1, CLASSES, NULL, NULL));
    REFUSED(cst_write_labels(f->context, NULL, f->labels, 1, CLASSES, NULL, NULL));
    REFUSED(cst_write_labels(f->context, "f.npy", NULL, 1, CLASSES, NULL, NULL));
    REFUSED_ALONE(cst_write_folds(NULL, "f.npy", f->labels, 1));
    REFUSED(cst_write_folds(f->context, NULL, f->labels, 1));
    REFUSED(cst_write_folds(f->context, "f.npy", NULL, 1));
}

static void tensors(void **state) {
    fixture *f = *state;
    cst_safetensors *file = NULL;
    const void *mapped = NULL;
    float value = 0;
    double wide = 0;
    int32_t axes = 7;
    assert_null(cst_dtype_name((cst_dtype)-1));
    assert_int_equal(cst_dtype_bits((cst_dtype)-1), 0);
    REFUSED_ALONE(cst_safetensors_open(NULL, &file, "a.safetensors"));
    REFUSED(cst_safetensors_open(f->context, NULL, "a.safetensors"));
    REFUSED(cst_safetensors_open(f->context, &file, NULL));
    REFUSED_ALONE(cst_safetensors_read(NULL, NULL, 0, 0, 1, &value));
    REFUSED(cst_safetensors_read(f->context, NULL, 0, 0, 1, &value));
    REFUSED_ALONE(cst_safetensors_read_f32(NULL, NULL, 0, 0, 1, &value));
    REFUSED(cst_safetensors_read_f32(f->context, NULL, 0, 0, 1, &value));
    REFUSED_ALONE(cst_safetensors_read_f64(NULL, NULL, 0, 0, 1, &wide));
    REFUSED(cst_safetensors_read_f64(f->context, NULL, 0, 0, 1, &wide));
    REFUSED_ALONE(cst_safetensors_map(NULL, NULL, 0, &mapped));
    REFUSED(cst_safetensors_map(f->context, NULL, 0, &mapped));
    assert_int_equal(cst_safetensors_count(NULL), 0);
    assert_int_equal(cst_safetensors_find(NULL, "a"), -1);
    assert_null(cst_safetensors_name(NULL, 0));
    assert_int_equal(cst_safetensors_dtype(NULL, 0), CST_DTYPE_FORCE_INT);
    assert_null(cst_safetensors_shape(NULL, 0, &axes));
    assert_int_equal(axes, 0);
    assert_null(cst_safetensors_shape(NULL, 0, NULL));
    assert_int_equal(cst_safetensors_bytes(NULL, 0), -1);
    assert_int_equal(cst_safetensors_metadata_count(NULL), 0);
    assert_null(cst_safetensors_metadata_key(NULL, 0));
    assert_null(cst_safetensors_metadata_value(NULL, 0));
    cst_safetensors_close(f->context, NULL);
    cst_safetensors_close(NULL, NULL);
    /* The same with a file that is there. */
    char path[TEMPORARY_CHARS];
    temporary_path(path, sizeof path, "null");
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(close(fd), 0);
    tensor_file *writer = tensor_file_new();
    (void)tensor_file_add(writer, "a", CST_DTYPE_F32, NULL, 0);
    tensor_file_write(writer, path);
    assert_int_equal(cst_safetensors_open(f->context, &file, path), CST_OK);
    REFUSED(cst_safetensors_read(f->context, file, 0, 0, 1, NULL));
    REFUSED(cst_safetensors_read_f32(f->context, file, 0, 0, 1, NULL));
    REFUSED(cst_safetensors_read_f64(f->context, file, 0, 0, 1, NULL));
    REFUSED(cst_safetensors_map(f->context, file, 0, NULL));
    assert_int_equal(cst_safetensors_find(file, NULL), -1);
    assert_null(cst_safetensors_shape(file, 0, NULL));
    cst_safetensors_close(f->context, file);
    assert_int_equal(unlink(path), 0);
}

static void checkpoints(void **state) {
    fixture *f = *state;
    static const char *const paths[] = {"a.safetensors", NULL};
    REFUSED_ALONE(cst_swa_average(NULL, paths, 1, NULL, "a"));
    REFUSED(cst_swa_average(f->context, NULL, 1, NULL, "a"));
    REFUSED(cst_swa_average(f->context, paths, 2, NULL, "a"));
    REFUSED(cst_swa_average(f->context, paths, 1, NULL, NULL));
    REFUSED_ALONE(cst_weights_made_of(NULL, "a", NULL, NULL));
    REFUSED(cst_weights_made_of(f->context, NULL, NULL, NULL));
    REFUSED_ALONE(cst_swag_fit(NULL, paths, 2, 0, "a"));
    REFUSED(cst_swag_fit(f->context, NULL, 2, 0, "a"));
    REFUSED(cst_swag_fit(f->context, paths, 2, 0, "a"));
    REFUSED(cst_swag_fit(f->context, paths, 2, 0, NULL));
    REFUSED_ALONE(cst_swag_sample(NULL, "a", 1, 0.5, 0, -1, "b"));
    REFUSED(cst_swag_sample(f->context, NULL, 1, 0.5, 0, -1, "b"));
    REFUSED(cst_swag_sample(f->context, "a", 1, 0.5, 0, -1, NULL));
}

static cst_status no_prediction(cst_context *context, void *user, const char *candidate,
                                const char *predictions) {
    (void)user;
    (void)candidate;
    (void)predictions;
    return cst_soup_fail(context, CST_ERROR_INPUT, "never asked");
}

static void soups(void **state) {
    fixture *f = *state;
    cst_report *report = f->report;
    static const char *const paths[] = {"a.safetensors", NULL};
    cst_soup_config full = {.hook = no_prediction, .labels = "y.npy"};
    REFUSED_ALONE(cst_soup_uniform(NULL, paths, 1, "out", NULL));
    REFUSED(cst_soup_uniform(f->context, NULL, 1, "out", &report));
    assert_null(report);
    REFUSED(cst_soup_uniform(f->context, paths, 0, "out", NULL));
    REFUSED(cst_soup_uniform(f->context, paths, 2, "out", NULL));
    REFUSED(cst_soup_uniform(f->context, paths, 1, NULL, NULL));
    REFUSED_ALONE(cst_soup_greedy(NULL, paths, 1, &full, "out", NULL));
    cst_soup_config less = full;
    REFUSED(cst_soup_greedy(f->context, NULL, 1, &full, "out", NULL));
    REFUSED(cst_soup_greedy(f->context, paths, 2, &full, "out", NULL));
    REFUSED(cst_soup_greedy(f->context, paths, 1, NULL, "out", NULL));
    REFUSED(cst_soup_greedy(f->context, paths, 1, &full, NULL, NULL));
    less.hook = NULL;
    REFUSED(cst_soup_greedy(f->context, paths, 1, &less, "out", NULL));
    less = full;
    less.labels = NULL;
    REFUSED(cst_soup_greedy(f->context, paths, 1, &less, "out", NULL));
    less = full;
    less.output = (cst_output)7;
    REFUSED(cst_soup_greedy(f->context, paths, 1, &less, "out", NULL));
    less = full;
    less.metric = "auc";
    REFUSED(cst_soup_greedy(f->context, paths, 1, &less, "out", NULL));
    REFUSED_ALONE(cst_soup_fail(NULL, CST_ERROR_INPUT, "x"));
    REFUSED(cst_soup_fail(f->context, CST_ERROR_INPUT, NULL));
}

static void folds(void **state) {
    fixture *f = *state;
    int32_t out[ROWS];
    int64_t groups[ROWS] = {0};
    REFUSED_ALONE(cst_folds_stratified(NULL, f->labels, ROWS, 2, 0, out));
    REFUSED(cst_folds_stratified(f->context, NULL, ROWS, 2, 0, out));
    REFUSED(cst_folds_stratified(f->context, f->labels, ROWS, 2, 0, NULL));
    REFUSED_ALONE(cst_folds_grouped(NULL, f->labels, groups, ROWS, 2, 0, out));
    REFUSED(cst_folds_grouped(f->context, NULL, groups, ROWS, 2, 0, out));
    REFUSED(cst_folds_grouped(f->context, f->labels, NULL, ROWS, 2, 0, out));
    REFUSED(cst_folds_grouped(f->context, f->labels, groups, ROWS, 2, 0, NULL));
}

static void opening_pools(void **state) {
    fixture *f = *state;
    cst_pool *pool = f->pool;
    static const char *const paths[] = {"a.npy", NULL};
    static const char *const names[] = {"a", NULL};
    static const char *const both[] = {"a", "b"};
    REFUSED_ALONE(cst_pool_open(NULL, &pool, "pool.json", NULL));
    assert_null(pool);
    REFUSED(cst_pool_open(f->context, NULL, "pool.json", NULL));
    REFUSED(cst_pool_open(f->context, &pool, NULL, NULL));
    REFUSED_ALONE(cst_pool_open_files(NULL, &pool, paths, 1, NULL));
    REFUSED(cst_pool_open_files(f->context, NULL, paths, 1, NULL));
    REFUSED(cst_pool_open_files(f->context, &pool, NULL, 1, NULL));
    REFUSED(cst_pool_open_files(f->context, &pool, paths, 0, NULL));
    REFUSED(cst_pool_open_files(f->context, &pool, paths, 2, NULL));
    cst_array array = {.data = f->predictions[0],
                       .row_step = CLASSES * sizeof(float),
                       .column_step = sizeof(float)};
    const cst_pool_arrays arrays = {
        .members = 1, .rows = ROWS, .classes = CLASSES, .predictions = &array, .names = both};
    cst_pool_arrays part = arrays;
    REFUSED_ALONE(cst_pool_from_arrays(NULL, &pool, &arrays));
    REFUSED(cst_pool_from_arrays(f->context, NULL, &arrays));
    REFUSED(cst_pool_from_arrays(f->context, &pool, NULL));
    part.predictions = NULL;
    REFUSED(cst_pool_from_arrays(f->context, &pool, &part));
    part = arrays;
    part.names = NULL;
    REFUSED(cst_pool_from_arrays(f->context, &pool, &part));
    part.names = names + 1;
    REFUSED(cst_pool_from_arrays(f->context, &pool, &part));
    array.data = NULL;
    REFUSED(cst_pool_from_arrays(f->context, &pool, &arrays));
    assert_null(pool);
    REFUSED_ALONE(cst_pool_load(NULL, f->pool, "oof"));
    REFUSED(cst_pool_load(f->context, NULL, "oof"));
    REFUSED(cst_pool_load(f->context, f->pool, NULL));
    cst_pool_free(f->context, NULL);
    cst_pool_free(NULL, NULL);
}

static void asking_pools(void **state) {
    fixture *f = *state;
    assert_null(cst_pool_file(NULL, 0));
    assert_int_equal(cst_pool_takes_name(NULL, "a.npy"), 0);
    assert_int_equal(cst_pool_takes_name(f->pool, NULL), 0);
    assert_int_equal(cst_pool_takes_name(f->pool, "oof_a.npy"), 0); /* in memory */
    assert_null(cst_pool_file(f->pool, 0));                         /* in memory */
    assert_int_equal(cst_pool_task(NULL), CST_TASK_CLASSIFICATION);
    assert_null(cst_task_name((cst_task)9));
    assert_int_equal(cst_pool_members(NULL), 0);
    assert_int_equal(cst_pool_member_index(NULL, "a"), -1);
    assert_int_equal(cst_pool_member_index(f->pool, NULL), -1);
    assert_int_equal(cst_pool_classes(NULL), 0);
    assert_null(cst_pool_class_name(NULL, 0));
    assert_null(cst_pool_class_name(f->pool, 0));
    assert_null(cst_pool_member_name(NULL, 0));
    assert_null(cst_pool_member_name(f->pool, -1));
    assert_int_equal(cst_pool_splits(NULL), 0);
    assert_null(cst_pool_split_name(NULL, 0));
    assert_false(cst_pool_has_split(NULL, "oof"));
    assert_false(cst_pool_has_split(f->pool, NULL));
    assert_false(cst_pool_member_has_split(NULL, 0, "oof"));
    assert_false(cst_pool_member_has_split(f->pool, 0, NULL));
    assert_int_equal(cst_pool_conditions(NULL, "oof"), 0);
    assert_int_equal(cst_pool_conditions(f->pool, NULL), 0);
    assert_false(cst_pool_single(NULL, "oof"));
    assert_false(cst_pool_single(f->pool, NULL));
    assert_null(cst_pool_clean_split(NULL, "oof"));
    assert_null(cst_pool_clean_split(f->pool, NULL));
    assert_int_equal(cst_pool_rows(NULL, "oof"), -1);
    assert_int_equal(cst_pool_rows(f->pool, NULL), -1);
    assert_null(cst_pool_labels(NULL, "oof"));
    assert_null(cst_pool_labels(f->pool, NULL));
    assert_null(cst_pool_id(NULL, "oof", 0));
    assert_null(cst_pool_id(f->pool, NULL, 0));
    assert_null(cst_pool_predictions(NULL, "oof", 0));
    assert_null(cst_pool_predictions(f->pool, NULL, 0));
    assert_null(cst_pool_predictions(f->pool, "oof", MEMBERS));
    float row[CLASSES];
    REFUSED_ALONE(cst_pool_read(NULL, f->pool, "oof", 0, 0, 1, row));
    REFUSED(cst_pool_read(f->context, NULL, "oof", 0, 0, 1, row));
    REFUSED(cst_pool_read(f->context, f->pool, NULL, 0, 0, 1, row));
    REFUSED(cst_pool_read(f->context, f->pool, "oof", 0, 0, 1, NULL));
    REFUSED(cst_pool_read(f->context, f->pool, "oof", 0, -1, 1, row));
}

static void models(void **state) {
    fixture *f = *state;
    cst_model *model = f->model;
    const float *const data[] = {f->predictions[0], f->predictions[1]};
    const float *const gap[] = {NULL, NULL};
    float *all = f->predictions[0];
    float out[ROWS * CLASSES];
    int64_t rows = 1;
    REFUSED_ALONE(cst_model_save(NULL, f->model, "m"));
    REFUSED(cst_model_save(f->context, NULL, "m"));
    REFUSED(cst_model_save(f->context, f->model, NULL));
    const cst_export how = {.format = "onnx"};
    REFUSED_ALONE(cst_model_export(NULL, f->model, &how, "m"));
    REFUSED(cst_model_export(f->context, NULL, &how, "m"));
    REFUSED(cst_model_export(f->context, f->model, NULL, "m"));
    REFUSED(cst_model_export(f->context, f->model, &(cst_export){.format = NULL}, "m"));
    REFUSED(cst_model_export(f->context, f->model, &how, NULL));
    void *bytes = NULL;
    size_t size = 0;
    REFUSED_ALONE(cst_model_save_memory(NULL, f->model, &bytes, &size));
    REFUSED(cst_model_save_memory(f->context, NULL, &bytes, &size));
    REFUSED(cst_model_save_memory(f->context, f->model, NULL, &size));
    REFUSED(cst_model_save_memory(f->context, f->model, &bytes, NULL));
    assert_null(bytes);
    REFUSED_ALONE(cst_model_load(NULL, &model, "m"));
    assert_null(model);
    REFUSED(cst_model_load(f->context, NULL, "m"));
    REFUSED(cst_model_load(f->context, &model, NULL));
    REFUSED_ALONE(cst_model_load_memory(NULL, &model, "x", 1));
    REFUSED(cst_model_load_memory(f->context, NULL, "x", 1));
    REFUSED(cst_model_load_memory(f->context, &model, NULL, 1));
    REFUSED_ALONE(cst_model_predict(NULL, f->model, data, ROWS, out));
    REFUSED(cst_model_predict(f->context, NULL, data, ROWS, out));
    REFUSED(cst_model_predict(f->context, f->model, NULL, ROWS, out));
    REFUSED(cst_model_predict(f->context, f->model, gap, ROWS, out));
    REFUSED(cst_model_predict(f->context, f->model, data, ROWS, NULL));
    assert_int_equal(cst_predictor_set_domain(NULL, "a"), CST_ERROR_ARGUMENT);
    assert_null(model);
    REFUSED_ALONE(cst_model_predict_pool(NULL, f->model, f->pool, "oof", &all, &rows));
    assert_null(all);
    assert_int_equal(rows, 0);
    REFUSED(cst_model_predict_pool(f->context, NULL, f->pool, "oof", &all, &rows));
    REFUSED(cst_model_predict_pool(f->context, f->model, NULL, "oof", &all, &rows));
    REFUSED(cst_model_predict_pool(f->context, f->model, f->pool, NULL, &all, &rows));
    REFUSED(cst_model_predict_pool(f->context, f->model, f->pool, "oof", NULL, &rows));
    REFUSED(cst_model_predict_pool(f->context, f->model, f->pool, "oof", &all, NULL));
    int32_t told[1];
    REFUSED_ALONE(cst_model_decide(NULL, f->model, f->predictions[0], 1, told));
    REFUSED(cst_model_decide(f->context, NULL, f->predictions[0], 1, told));
    REFUSED(cst_model_decide(f->context, f->model, NULL, 1, told));
    REFUSED(cst_model_decide(f->context, f->model, f->predictions[0], 1, NULL));
    assert_int_equal(cst_model_task(NULL), CST_TASK_CLASSIFICATION);
    assert_int_equal(cst_model_members(NULL), 0);
    assert_int_equal(cst_model_classes(NULL), 0);
    assert_null(cst_model_member_name(NULL, 0));
    assert_true(isnan(cst_model_member_weight(NULL, 0)));
    assert_true(isnan(cst_model_member_weight(f->model, -1)));
    assert_null(cst_model_class_name(NULL, 0));
    assert_null(cst_model_class_name(f->model, 0));
    assert_null(cst_model_setting(NULL, 0));
    assert_string_equal(cst_model_setting(f->model, 1), "preset=default");
    assert_null(cst_model_retain(NULL));
    cst_model_free(f->context, NULL);
    cst_model_free(NULL, NULL);
}

static void refuse_adaptations(fixture *f) {
    cst_model *model = NULL;
    cst_report *report = NULL;
    int64_t rows[4];
    const int32_t labels[1] = {0};
    const cst_adapt_options wrong = {.split = "oof", .labels = labels};
    REFUSED_ALONE(cst_adapt(NULL, f->model, f->pool, NULL, &model, &report));
    REFUSED(cst_adapt(f->context, NULL, f->pool, NULL, &model, &report));
    REFUSED(cst_adapt(f->context, f->model, NULL, NULL, &model, &report));
    REFUSED(cst_adapt(f->context, f->model, f->pool, &wrong, &model, &report));
    assert_null(model);
    assert_null(report);
    REFUSED_ALONE(cst_adapt_suggest(NULL, f->model, f->pool, "oof", 4, rows));
    REFUSED(cst_adapt_suggest(f->context, NULL, f->pool, "oof", 4, rows));
    REFUSED(cst_adapt_suggest(f->context, f->model, NULL, "oof", 4, rows));
    REFUSED(cst_adapt_suggest(f->context, f->model, f->pool, "oof", 4, NULL));
    REFUSED(cst_adapt_suggest(f->context, f->model, f->pool, "oof", 0, rows));
    assert_int_equal(cst_adapt_suggest(f->context, f->model, f->pool, "oof", 4, rows), CST_OK);
}

static void refuse_monitors(fixture *f) {
    cst_monitor *monitor = NULL;
    cst_report *report = NULL;
    const cst_monitor_options wrong = {.alpha = 2};
    REFUSED_ALONE(cst_monitor_create(NULL, &monitor, f->model, NULL));
    REFUSED(cst_monitor_create(f->context, NULL, f->model, NULL));
    REFUSED(cst_monitor_create(f->context, &monitor, NULL, NULL));
    assert_true(cst_monitor_create(f->context, &monitor, f->model, &wrong) != CST_OK);
    REFUSED_ALONE(cst_monitor_batch(NULL, NULL, f->pool, "oof", NULL, NULL));
    REFUSED(cst_monitor_batch(f->context, NULL, f->pool, "oof", NULL, NULL));
    REFUSED_ALONE(cst_monitor_report(NULL, NULL, &report));
    REFUSED(cst_monitor_report(f->context, NULL, &report));
    REFUSED(cst_monitor_report(f->context, NULL, NULL));
    REFUSED_ALONE(cst_monitor_save(NULL, NULL, "a"));
    REFUSED(cst_monitor_save(f->context, NULL, "a"));
    REFUSED(cst_monitor_save(f->context, NULL, NULL));
    REFUSED_ALONE(cst_monitor_load(NULL, &monitor, f->model, "a", NULL));
    REFUSED(cst_monitor_load(f->context, &monitor, NULL, "a", NULL));
    REFUSED(cst_monitor_load(f->context, &monitor, f->model, NULL, NULL));
    REFUSED(cst_monitor_load(f->context, NULL, f->model, "a", NULL));
    assert_null(monitor);
    assert_null(report);
    assert_int_equal(cst_monitor_alarm(NULL), 0);
    assert_int_equal(cst_monitor_rows(NULL), 0);
    assert_true(isnan(cst_monitor_evidence(NULL)));
    cst_monitor_free(f->context, NULL);
    cst_monitor_free(NULL, NULL);
}

static void refuse_label_shift(fixture *f) {
    float p[4] = {0};
    cst_label_report *report = NULL;
    REFUSED_ALONE(cst_model_label_shift(NULL, f->model, CST_LABEL_EM, NULL, 1, p, &report));
    REFUSED(cst_model_label_shift(f->context, NULL, CST_LABEL_EM, NULL, 1, p, &report));
    REFUSED(cst_model_label_shift(f->context, f->model, CST_LABEL_EM, NULL, 1, NULL, &report));
    assert_null(report);
    REFUSED_ALONE(cst_report_set_label_shift(NULL, f->report, f->model, NULL));
    REFUSED(cst_report_set_label_shift(f->context, NULL, f->model, NULL));
    REFUSED(cst_report_set_label_shift(f->context, f->report, NULL, NULL));
    REFUSED(cst_report_set_label_shift(f->context, f->report, f->model, NULL));
    cst_label_report_free(f->context, NULL);
    cst_label_report_free(NULL, NULL);
}

/* Options of a profile that are outside their ranges, and lists with gaps. */
static void refuse_profiles(fixture *f) {
    static const char *const gap[] = {"average", NULL};
    const cst_profile_options wrong[] = {
        {.batch = -1},
        {.batch = 1000001},
        {.calls = -1},
        {.calls = 1000001},
        {.seconds = -1},
        {.seconds = 3601},
        {.seconds = (double)NAN},
        {.methods = gap, .method_count = 2},
        {.settings = gap, .setting_count = 2},
        {.setting_count = 1},
        {.seed = UINT64_MAX},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        cst_report *report = NULL;
        REFUSED(cst_profile(f->context, f->model, f->pool, &wrong[i], &report));
        assert_null(report);
    }
}

static void computations(void **state) {
    fixture *f = *state;
    cst_model *model = f->model;
    cst_report *report = f->report;
    REFUSED_ALONE(cst_fit(NULL, f->pool, "oof", f->options, &model, &report));
    assert_null(model);
    assert_null(report);
    REFUSED(cst_fit(f->context, NULL, "oof", f->options, &model, &report));
    REFUSED(cst_fit(f->context, f->pool, NULL, f->options, &model, &report));
    assert_int_equal(cst_fit(f->context, f->pool, "oof", f->options, NULL, NULL), CST_OK);
    REFUSED_ALONE(cst_fit_method(NULL, f->pool, "oof", "average", f->options, &model, &report));
    assert_null(model);
    assert_null(report);
    REFUSED(cst_fit_method(f->context, NULL, "oof", "average", f->options, &model, &report));
    REFUSED(cst_fit_method(f->context, f->pool, NULL, "average", f->options, &model, &report));
    REFUSED(cst_fit_method(f->context, f->pool, "oof", NULL, f->options, &model, &report));
    assert_int_equal(cst_fit_method(f->context, f->pool, "oof", "average", NULL, NULL, NULL),
                     CST_OK);
    REFUSED_ALONE(cst_show(NULL, f->model, f->pool, "oof", &report));
    REFUSED(cst_show(f->context, NULL, f->pool, "oof", &report));
    assert_null(report);
    REFUSED(cst_show(f->context, f->model, f->pool, "oof", NULL));
    assert_int_equal(cst_show(f->context, f->model, NULL, NULL, &report), CST_OK);
    cst_report_free(f->context, report);
    assert_int_equal(cst_show(f->context, f->model, f->pool, NULL, &report), CST_OK);
    cst_report_free(f->context, report);
    refuse_monitors(f);
    refuse_adaptations(f);
    refuse_label_shift(f);
    const cst_profile_options profile = {.split = "oof", .calls = 3, .batch = 4};
    REFUSED_ALONE(cst_profile(NULL, f->model, f->pool, &profile, &report));
    REFUSED(cst_profile(f->context, NULL, f->pool, &profile, &report));
    REFUSED(cst_profile(f->context, f->model, NULL, &profile, &report));
    REFUSED(cst_profile(f->context, f->model, f->pool, &profile, NULL));
    assert_null(report);
    refuse_profiles(f);
    assert_int_equal(cst_profile(f->context, f->model, f->pool, &profile, &report), CST_OK);
    cst_report_free(f->context, report);
    REFUSED_ALONE(cst_inspect(NULL, f->pool, "oof", f->options, &report));
    REFUSED(cst_inspect(f->context, NULL, "oof", f->options, &report));
    REFUSED(cst_inspect(f->context, f->pool, NULL, f->options, &report));
    REFUSED(cst_inspect(f->context, f->pool, "oof", f->options, NULL));
    assert_int_equal(cst_inspect(f->context, f->pool, "oof", NULL, &report), CST_OK);
    cst_report_free(f->context, report);
    REFUSED_ALONE(cst_evaluate_detections(NULL, "a", "b", 0, 0, &report));
    REFUSED(cst_evaluate_detections(f->context, NULL, "b", 0, 0, &report));
    REFUSED(cst_evaluate_detections(f->context, "a", NULL, 0, 0, &report));
    REFUSED(cst_evaluate_detections(f->context, "a", "b", 0, 0, NULL));
    REFUSED_ALONE(cst_evaluate_detections_against(NULL, "a", "b", NULL, 0, 0, &report));
    REFUSED(cst_evaluate_detections_against(f->context, "a", NULL, "b", 0, 0, &report));
    assert_null(cst_detection_method_describe(NULL));
    assert_null(cst_detection_method_name(SIZE_MAX));
    REFUSED_ALONE(
        cst_model_predict_detections(NULL, f->model, f->pool, "oof", "a", 0, 0, NULL, NULL));
    REFUSED(cst_model_predict_detections(f->context, NULL, f->pool, "oof", "a", 0, 0, NULL, NULL));
    REFUSED(cst_model_predict_detections(f->context, f->model, NULL, "oof", "a", 0, 0, NULL, NULL));
    REFUSED(
        cst_model_predict_detections(f->context, f->model, f->pool, NULL, "a", 0, 0, NULL, NULL));
    REFUSED(
        cst_model_predict_detections(f->context, f->model, f->pool, "oof", NULL, 0, 0, NULL, NULL));
    cst_topk *topk = NULL;
    int64_t written = 0;
    REFUSED_ALONE(cst_model_predict_topk(NULL, f->model, f->pool, "oof", 0, &topk));
    REFUSED(cst_model_predict_topk(f->context, NULL, f->pool, "oof", 0, &topk));
    REFUSED(cst_model_predict_topk(f->context, f->model, NULL, "oof", 0, &topk));
    REFUSED(cst_model_predict_topk(f->context, f->model, f->pool, NULL, 0, &topk));
    REFUSED(cst_model_predict_topk(f->context, f->model, f->pool, "oof", -1, &topk));
    REFUSED(cst_model_predict_topk(f->context, f->model, f->pool, "oof", 0, NULL));
    REFUSED_ALONE(cst_model_write_topk(NULL, f->model, f->pool, "oof", 0, "a.npz", &written));
    REFUSED(cst_model_write_topk(f->context, NULL, f->pool, "oof", 0, "a.npz", &written));
    REFUSED(cst_model_write_topk(f->context, f->model, NULL, "oof", 0, "a.npz", &written));
    REFUSED(cst_model_write_topk(f->context, f->model, f->pool, NULL, 0, "a.npz", &written));
    REFUSED(cst_model_write_topk(f->context, f->model, f->pool, "oof", -1, "a.npz", &written));
    REFUSED(cst_model_write_topk(f->context, f->model, f->pool, "oof", 0, "a.npz", NULL));
    cst_topk_free(f->context, NULL);
    REFUSED_ALONE(cst_evaluate_member(NULL, f->pool, "oof", 0, NULL, 0, 0, &report));
    REFUSED(cst_evaluate_member(f->context, NULL, "oof", 0, NULL, 0, 0, &report));
    REFUSED(cst_evaluate_member(f->context, f->pool, NULL, 0, NULL, 0, 0, &report));
    REFUSED(cst_evaluate_member(f->context, f->pool, "oof", 0, NULL, 0, 0, NULL));
    REFUSED_ALONE(cst_evaluate_stack(NULL, f->model, f->pool, NULL, &report));
    REFUSED(cst_evaluate_stack(f->context, NULL, f->pool, NULL, &report));
    REFUSED(cst_evaluate_stack(f->context, f->model, NULL, NULL, &report));
    REFUSED(cst_evaluate_stack(f->context, f->model, f->pool, NULL, NULL));
    REFUSED_ALONE(cst_bound(NULL, f->model, f->pool, NULL, &report));
    REFUSED(cst_bound(f->context, NULL, f->pool, NULL, &report));
    REFUSED(cst_bound(f->context, f->model, NULL, NULL, &report));
    REFUSED(cst_bound(f->context, f->model, f->pool, NULL, NULL));
    const cst_bound_batch batch = {.split = "test"};
    const cst_bound_batch nameless = {0};
    REFUSED_ALONE(cst_bound_shifted(NULL, f->model, f->pool, NULL, &batch, &report));
    REFUSED(cst_bound_shifted(f->context, NULL, f->pool, NULL, &batch, &report));
    REFUSED(cst_bound_shifted(f->context, f->model, NULL, NULL, &batch, &report));
    REFUSED(cst_bound_shifted(f->context, f->model, f->pool, NULL, NULL, &report));
    REFUSED(cst_bound_shifted(f->context, f->model, f->pool, NULL, &nameless, &report));
    REFUSED(cst_bound_shifted(f->context, f->model, f->pool, NULL, &batch, NULL));
}

static void values(void **state) {
    fixture *f = *state;
    const float mean[2] = {1, 2};
    const double target[2] = {1, 3};
    cst_value_metrics average;
    cst_predicted_values p = {.rows = 2, .outputs = 1, .mean = mean};
    REFUSED_ALONE(cst_value_metrics_evaluate(NULL, &p, target, &average, NULL));
    REFUSED(cst_value_metrics_evaluate(f->context, NULL, target, &average, NULL));
    REFUSED(cst_value_metrics_evaluate(f->context, &p, NULL, &average, NULL));
    REFUSED(cst_value_metrics_evaluate(f->context, &p, target, NULL, NULL));
    const float *members[1] = {mean};
    float out[2];
    float *means = NULL;
    float *variances = NULL;
    int64_t rows = 0;
    REFUSED_ALONE(cst_model_predict_values(NULL, f->model, members, 1, out, out));
    REFUSED(cst_model_predict_values(f->context, NULL, members, 1, out, out));
    REFUSED(cst_model_predict_values(f->context, f->model, members, 1, out, NULL));
    REFUSED_ALONE(
        cst_model_predict_values_pool(NULL, f->model, f->pool, "oof", &means, &variances, &rows));
    REFUSED(
        cst_model_predict_values_pool(f->context, NULL, f->pool, "oof", &means, &variances, &rows));
    REFUSED(cst_model_predict_values_pool(f->context, f->model, NULL, "oof", &means, &variances,
                                          &rows));
    REFUSED(cst_model_predict_values_pool(f->context, f->model, f->pool, NULL, &means, &variances,
                                          &rows));
    REFUSED(cst_model_predict_values_pool(f->context, f->model, f->pool, "oof", NULL, NULL, NULL));
    REFUSED_ALONE(cst_model_decide_values_pool(NULL, f->model, f->pool, "oof", &means, &rows));
    REFUSED(cst_model_decide_values_pool(f->context, NULL, f->pool, "oof", &means, &rows));
    REFUSED(cst_model_decide_values_pool(f->context, f->model, NULL, "oof", &means, &rows));
    REFUSED(cst_model_decide_values_pool(f->context, f->model, f->pool, NULL, &means, &rows));
    REFUSED(cst_model_decide_values_pool(f->context, f->model, f->pool, "oof", NULL, NULL));
    REFUSED_ALONE(cst_model_intervals(NULL, f->model, 0.9, mean, mean, 1, out, out));
    REFUSED(cst_model_intervals(f->context, NULL, 0.9, mean, mean, 1, out, out));
    REFUSED(cst_model_intervals(f->context, f->model, 0.9, NULL, mean, 1, out, out));
}

static void pools_of_values(void **state) {
    fixture *f = *state;
    const double target[2] = {1, 3};
    int32_t folds[2];
    assert_null(cst_pool_targets(NULL, "oof"));
    assert_null(cst_pool_targets(f->pool, NULL));
    REFUSED_ALONE(cst_folds_time(NULL, NULL, 3, 2, folds));
    REFUSED(cst_folds_time(f->context, NULL, 3, 2, NULL));
    REFUSED_ALONE(cst_folds_quantile(NULL, target, 1, NULL, 2, 2, 0, folds));
    REFUSED(cst_folds_quantile(f->context, NULL, 1, NULL, 2, 2, 0, folds));
    REFUSED(cst_folds_quantile(f->context, target, 1, NULL, 2, 2, 0, NULL));
}

static void reports(void **state) {
    fixture *f = *state;
    cst_report *made = f->report;
    char *text = NULL;
    REFUSED_ALONE(cst_report_create(NULL, &made, "folds"));
    assert_null(made);
    REFUSED(cst_report_create(f->context, &made, NULL));
    REFUSED(cst_report_create(f->context, NULL, "folds"));
    REFUSED_ALONE(cst_report_set_string(NULL, f->report, "k", "v"));
    REFUSED(cst_report_set_string(f->context, NULL, "k", "v"));
    REFUSED(cst_report_set_string(f->context, f->report, NULL, "v"));
    REFUSED_ALONE(cst_report_set_integer(NULL, f->report, "k", 1));
    REFUSED(cst_report_set_integer(f->context, NULL, "k", 1));
    REFUSED(cst_report_set_integer(f->context, f->report, NULL, 1));
    REFUSED_ALONE(cst_report_set_number(NULL, f->report, "k", 1));
    REFUSED(cst_report_set_number(f->context, NULL, "k", 1));
    REFUSED(cst_report_set_number(f->context, f->report, NULL, 1));
    REFUSED_ALONE(cst_report_set_strings(NULL, f->report, "k", NULL, 0));
    REFUSED(cst_report_set_strings(f->context, NULL, "k", NULL, 0));
    REFUSED(cst_report_set_strings(f->context, f->report, NULL, NULL, 0));
    assert_int_equal(cst_report_set_strings(f->context, f->report, "none", NULL, 3), CST_OK);
    REFUSED_ALONE(cst_report_set_integers(NULL, f->report, "k", NULL, 0));
    REFUSED(cst_report_set_integers(f->context, NULL, "k", NULL, 0));
    REFUSED(cst_report_set_integers(f->context, f->report, NULL, NULL, 0));
    assert_int_equal(cst_report_set_integers(f->context, f->report, "none", NULL, 3), CST_OK);
    assert_int_equal(cst_report_set_string(f->context, f->report, "nothing", NULL), CST_OK);
    REFUSED_ALONE(cst_report_json(NULL, f->report, &text));
    REFUSED(cst_report_json(f->context, NULL, &text));
    REFUSED(cst_report_json(f->context, f->report, NULL));
    double number = 0;
    const char *string = NULL;
    int64_t count = 0;
    REFUSED_ALONE(cst_report_get_number(NULL, f->report, "nll", &number));
    REFUSED(cst_report_get_number(f->context, NULL, "nll", &number));
    REFUSED(cst_report_get_number(f->context, f->report, NULL, &number));
    REFUSED(cst_report_get_number(f->context, f->report, "nll", NULL));
    REFUSED_ALONE(cst_report_get_string(NULL, f->report, "command", &string));
    REFUSED(cst_report_get_string(f->context, NULL, "command", &string));
    REFUSED(cst_report_get_string(f->context, f->report, NULL, &string));
    REFUSED(cst_report_get_string(f->context, f->report, "command", NULL));
    REFUSED_ALONE(cst_report_get_count(NULL, f->report, "notices", &count));
    REFUSED(cst_report_get_count(f->context, NULL, "notices", &count));
    REFUSED(cst_report_get_count(f->context, f->report, NULL, &count));
    REFUSED(cst_report_get_count(f->context, f->report, "notices", NULL));
    REFUSED_ALONE(cst_report_text(NULL, f->report, 0, &text));
    REFUSED(cst_report_text(f->context, NULL, 0, &text));
    REFUSED(cst_report_text(f->context, f->report, 0, NULL));
    cst_report_free(f->context, NULL);
    cst_report_free(NULL, NULL);
}

int suite_null(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(contexts),        cmocka_unit_test(options),      cmocka_unit_test(files),
        cmocka_unit_test(tensors),         cmocka_unit_test(soups),        cmocka_unit_test(folds),
        cmocka_unit_test(opening_pools),   cmocka_unit_test(asking_pools), cmocka_unit_test(models),
        cmocka_unit_test(computations),    cmocka_unit_test(reports),      cmocka_unit_test(values),
        cmocka_unit_test(pools_of_values), cmocka_unit_test(checkpoints),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
