/*
 * Values of enumerations that are none of theirs, in every public function and every public
 * structure that takes one: refused with a line before anything is read or written, or answered by
 * a neutral value where there is no status. Paper: none.
 */
#include "checkpoints.h"

#include "data/pool/pool.h"
#include "public_functions.h"

#include <corestack/more.h>
#include <corestack/segmentation.h>
#include <corestack/soup.h>
#include <limits.h>

enum { ROWS = 24, CLASSES = 3, MEMBERS = 2 };

static const char *const NAMES[MEMBERS] = {"a", "b"};
static int32_t labels[ROWS];
static float p[MEMBERS][ROWS * CLASSES];
static const float *const data[MEMBERS] = {p[0], p[1]};

/* What the calls below are made with. */
static cst_pool *pool;
static cst_model *model;
static char folder[512], first[512], second[512], out_path[512], labels_path[512];

static void fill(fixture *f) {
    for (int i = 0; i < ROWS; i++) {
        labels[i] = i % CLASSES;
        for (int k = 0; k < MEMBERS; k++)
            for (int c = 0; c < CLASSES; c++)
                p[k][i * CLASSES + c] =
                    c == (i % (4 + k) ? labels[i] : (i + 1) % CLASSES) ? 0.5f : 0.25f;
    }
    copy_path(folder, f->folder);
    copy_path(first, numbered(f, "c", 0));
    copy_path(second, numbered(f, "c", 1));
    copy_path(labels_path, at(f, "labels.txt"));
    copy_path(out_path, at(f, "out"));
    make_two(f, first, (double[]){1, 2}, (double[]){3, 4});
    make_two(f, second, (double[]){5, 6}, (double[]){7, 8});
    put_text(f, "labels.txt", "0\n1\n");
    expect_ok(f, cst_pool_from_memory(f->context, &pool, "oof", data, NAMES, MEMBERS, ROWS, CLASSES,
                                      labels, CST_OUTPUT_PROBABILITY));
    cst_report *report = NULL;
    expect_ok(f, cst_fit(f->context, pool, "oof", NULL, &model, &report));
    cst_report_free(f->context, report);
}

static void clear(fixture *f) {
    cst_model_free(f->context, model);
    cst_pool_free(f->context, pool);
}

/* ---- one call for each place ---- */

static cst_pool *none;
static cst_report *no_report;

static cst_status open_with(cst_context *c, const cst_pool_config *config) {
    return cst_pool_open(c, &none, folder, config);
}

static cst_status from_arrays(cst_context *c, cst_task task, cst_output output, cst_number type) {
    const cst_array array[MEMBERS] = {{.data = p[0],
                                       .type = type,
                                       .row_step = CLASSES * sizeof(float),
                                       .column_step = sizeof(float)},
                                      {.data = p[1],
                                       .type = type,
                                       .row_step = CLASSES * sizeof(float),
                                       .column_step = sizeof(float)}};
    const cst_pool_arrays arrays = {.members = MEMBERS,
                                    .rows = ROWS,
                                    .classes = CLASSES,
                                    .predictions = array,
                                    .names = NAMES,
                                    .task = task,
                                    .output = output};
    return cst_pool_from_arrays(c, &none, &arrays);
}

static cst_status hook(cst_context *context, void *user, const char *candidate,
                       const char *predictions) {
    (void)user;
    (void)candidate;
    (void)predictions;
    return cst_soup_fail(context, CST_ERROR_INTERNAL, "the hook must not be called");
}

static cst_status soup(cst_context *c, cst_soup_config config) {
    const char *const paths[] = {first, second};
    config.hook = hook;
    config.labels = labels_path;
    return cst_soup_greedy(c, paths, 2, &config, out_path, &no_report);
}

#define PLACE(name, expression)                                                                    \
    static cst_status name(cst_context *c, int value) {                                            \
        return expression;                                                                         \
    }

PLACE(config_task, open_with(c, &(cst_pool_config){.task_given = 1, .task = (cst_task)value}))
PLACE(config_output,
      open_with(c, &(cst_pool_config){.output_given = 1, .output = (cst_output)value}))
PLACE(config_layout, open_with(c, &(cst_pool_config){.layout = (cst_layout)value}))
PLACE(arrays_task, from_arrays(c, (cst_task)value, CST_OUTPUT_PROBABILITY, (cst_number)0))
PLACE(arrays_output, from_arrays(c, CST_TASK_CLASSIFICATION, (cst_output)value, (cst_number)0))
PLACE(array_type,
      from_arrays(c, CST_TASK_CLASSIFICATION, CST_OUTPUT_PROBABILITY, (cst_number)value))
PLACE(maps,
      cst_segmentation_predict(c, model, pool, "oof", (cst_map_format)value, out_path, NULL, NULL))
PLACE(guarded_maps,
      cst_segmentation_predict_guarded(c, model, pool, "oof", NULL, (cst_map_format)value, NULL,
                                       out_path, NULL, NULL, NULL))
PLACE(greedy_task, soup(c, (cst_soup_config){.task = (cst_task)value}))
PLACE(greedy_output, soup(c, (cst_soup_config){.output = (cst_output)value}))

PLACE(export_output,
      cst_model_export(c, model, &(cst_export){.format = "onnx", .output = (cst_output)value},
                       out_path))

static cst_status set_guard(cst_context *c, int value) {
    cst_report *report = NULL;
    assert_int_equal(cst_report_create(c, &report, "predict"), CST_OK);
    cst_status status = cst_report_set_guard(c, report, (cst_guard_mode)value, NULL);
    cst_report_free(c, report);
    return status;
}

static cst_status guarded_pool(cst_context *c, int value) {
    const cst_guard guard = {.mode = (cst_guard_mode)value};
    float *out = NULL;
    int64_t rows = 0;
    return cst_model_predict_guarded(c, model, pool, "oof", &guard, &out, &rows, NULL);
}

PLACE(guard_of_maps,
      cst_segmentation_predict_guarded(c, model, pool, "oof",
                                       &(cst_guard){.mode = (cst_guard_mode)value}, CST_MAP_PNG,
                                       NULL, out_path, NULL, NULL, NULL))
PLACE(label_shift, cst_model_label_shift(c, model, (cst_label_method)value, NULL, 1, p[0], NULL))
PLACE(bound_weights,
      cst_bound_shifted(c, model, pool, NULL,
                        &(cst_bound_batch){.split = "x", .weights = (cst_bound_weights)value},
                        &no_report))
PLACE(bound_parts,
      cst_bound_shifted(c, model, pool, NULL,
                        &(cst_bound_batch){.split = "x", .by = (cst_bound_parts)value}, &no_report))

static const struct {
    const char *name; /* of the function, then what stands where */
    cst_status (*call)(cst_context *context, int value);
} PLACES[] = {
    {"cst_segmentation_predict", maps},
    {"cst_segmentation_predict_guarded", guarded_maps},
    {"cst_pool_config.task", config_task},
    {"cst_pool_config.output", config_output},
    {"cst_pool_config.layout", config_layout},
    {"cst_pool_arrays.task", arrays_task},
    {"cst_pool_arrays.output", arrays_output},
    {"cst_array.type", array_type},
    {"cst_soup_config.task, greedy", greedy_task},
    {"cst_soup_config.output, greedy", greedy_output},
    {"cst_export.output", export_output},
    {"cst_report_set_guard", set_guard},
    {"cst_guard.mode, pool", guarded_pool},
    {"cst_guard.mode, maps", guard_of_maps},
    {"cst_model_label_shift", label_shift},
    {"cst_bound_batch.weights", bound_weights},
    {"cst_bound_batch.by", bound_parts},
};
enum { PLACE_COUNT = sizeof PLACES / sizeof PLACES[0] };

/* Without a status, or with one that says something else. */
static const char *const ANSWERED[] = {
    "cst_make_printable", "cst_task_name",     "cst_dtype_name",
    "cst_dtype_bits",     "cst_status_name",   "cst_status_text",
    "cst_soup_fail",      "cst_context_agree", "cst_metric_is_of"};
enum { ANSWERED_COUNT = sizeof ANSWERED / sizeof ANSWERED[0] };

static const int VALUES[] = {-1, 100, INT_MAX, INT_MIN};
enum { VALUE_COUNT = sizeof VALUES / sizeof VALUES[0] };

static void values_that_are_none_are_refused(void **state) {
    fixture *f = *state;
    fill(f);
    for (int i = 0; i < PLACE_COUNT; i++)
        for (int v = 0; v < VALUE_COUNT; v++) {
            (void)(cst_fail)(f->context, CST_OK, "%s", "");
            cst_status status = PLACES[i].call(f->context, VALUES[v]);
            const char *text = cst_last_error(f->context);
            if ((status != CST_ERROR_ARGUMENT && status != CST_ERROR_UNSUPPORTED) || !*text ||
                strchr(text, '\n'))
                fail_msg("%s with %d gives %s: %s", PLACES[i].name, VALUES[v],
                         cst_status_name(status), text);
        }
    assert_null(none);
    assert_null(no_report);
    assert_int_not_equal(access(out_path, F_OK), 0);
    clear(f);
}

static void functions_without_status_answer(void **state) {
    fixture *f = *state;
    for (int v = 0; v < VALUE_COUNT; v++) {
        assert_null(cst_task_name((cst_task)VALUES[v]));
        assert_int_equal(cst_metric_is_of("auc", (cst_task)VALUES[v]), 0);
        assert_null(cst_dtype_name((cst_dtype)VALUES[v]));
        assert_int_equal(cst_dtype_bits((cst_dtype)VALUES[v]), 0);
        assert_int_equal(cst_dtype_is_number((cst_dtype)VALUES[v]), 0);
        assert_non_null(cst_status_name((cst_status)VALUES[v]));
        assert_non_null(cst_status_text((cst_status)VALUES[v]));
        assert_int_equal(cst_soup_fail(f->context, (cst_status)VALUES[v], "x"), CST_ERROR_INTERNAL);
        assert_true((int)cst_context_agree(f->context, (cst_status)VALUES[v], NULL) == VALUES[v]);
    }
}

/* Every function that takes an enumeration is above. */
static void every_function_is_tried(void **state) {
    (void)state;
    int found = 0;
    for (size_t i = 0; i < PUBLIC_COUNT; i++) {
        bool tried = !strchr(PUBLIC[i].kinds, 'e');
        found += !tried;
        for (int k = 0; k < PLACE_COUNT; k++)
            tried = tried || strcmp(PLACES[k].name, PUBLIC[i].name) == 0;
        for (int k = 0; k < ANSWERED_COUNT; k++)
            tried = tried || strcmp(ANSWERED[k], PUBLIC[i].name) == 0;
        if (!tried)
            fail_msg("%s takes an enumeration and is not tried with other values", PUBLIC[i].name);
    }
    print_message("%d functions and structures in %d calls with %d values, %d others\n", found,
                  PLACE_COUNT, VALUE_COUNT, ANSWERED_COUNT);
}

int suite_enumerations(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(values_that_are_none_are_refused, weights_setup,
                                        files_teardown),
        cmocka_unit_test_setup_teardown(functions_without_status_answer, weights_setup,
                                        files_teardown),
        cmocka_unit_test(every_function_is_tried),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
