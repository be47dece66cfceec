/*
 * Sizes that no memory holds: rows, classes and members whose product overflows, or is more than
 * any array can have, are refused with a message before anything is read or allocated. Also results
 * that lie on top of the input, NaN where a number is wanted.
 */
#include "core/base.h"
#include "data/pool/pool.h"
#include "public_functions.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { ROWS = 24, CLASSES = 3, MEMBERS = 2, OUTPUTS = 2 };

typedef struct fixture {
    cst_context *context;
    cst_model *model;
    cst_pool *pool;
    cst_report *report;
    int32_t labels[ROWS];
    int64_t groups[ROWS];
    double numbers[ROWS];
    float p[MEMBERS][ROWS * CLASSES];
    const float *data[MEMBERS];
    float out[ROWS * CLASSES];
    double wide[ROWS];
    int32_t folds[ROWS];
    int64_t confusion[CLASSES * CLASSES];
} fixture;

static fixture shared;

static const char *const NAMES[MEMBERS] = {"a", "b"};

static int setup(void **state) {
    fixture *f = &shared;
    *state = f;
    for (int i = 0; i < ROWS; i++) {
        f->labels[i] = i % CLASSES;
        f->groups[i] = i / 2;
        f->numbers[i] = (double)i / ROWS;
        for (int k = 0; k < MEMBERS; k++)
            for (int c = 0; c < CLASSES; c++)
                f->p[k][i * CLASSES + c] =
                    c == (i % (4 + k) ? f->labels[i] : (i + 1) % CLASSES) ? 0.5f : 0.25f;
    }
    for (int k = 0; k < MEMBERS; k++)
        f->data[k] = f->p[k];
    return cst_context_create(&f->context) != CST_OK ||
           cst_pool_from_memory(f->context, &f->pool, "oof", f->data, NAMES, MEMBERS, ROWS, CLASSES,
                                f->labels, CST_OUTPUT_PROBABILITY) != CST_OK ||
           cst_fit(f->context, f->pool, "oof", NULL, &f->model, &f->report) != CST_OK;
}

static int teardown(void **state) {
    fixture *f = *state;
    cst_report_free(f->context, f->report);
    cst_model_free(f->context, f->model);
    cst_pool_free(f->context, f->pool);
    cst_context_free(f->context);
    return 0;
}

/* ---- sizes ---- */

/* `n` stands where rows, samples or a count does. */
typedef cst_status (*sized_call)(fixture *f, int64_t n);

#define CALL(name, expression)                                                                     \
    static cst_status name(fixture *f, int64_t n) {                                                \
        cst_context *c = f->context;                                                               \
        return expression;                                                                         \
    }

static cst_pool *none;
static cst_metrics metrics;
static cst_reliability_bin bins[CST_METRIC_BINS];
static cst_segmentation_scores scores;
static cst_value_metrics values;

CALL(pool_read, cst_pool_read(c, f->pool, "oof", 0, 0, n, f->out))
CALL(pool_read_from, cst_pool_read(c, f->pool, "oof", 0, n, 2, f->out))
CALL(model_predict, cst_model_predict(c, f->model, f->data, n, f->out))
CALL(stratified, cst_folds_stratified(c, f->labels, n, 2, 0, f->folds))
CALL(grouped, cst_folds_grouped(c, f->labels, f->groups, n, 2, 0, f->folds))
CALL(in_time, cst_folds_time(c, f->groups, n, 2, f->folds))
CALL(quantile, cst_folds_quantile(c, f->numbers, 1, NULL, n, 2, 0, f->folds))
CALL(conformal_thresholds,
     cst_conformal_thresholds(c, f->numbers, NULL, NULL, n, 1, 0.5, 0, f->wide))
CALL(metrics_evaluate, cst_metrics_evaluate(c, f->p[0], n, CLASSES, f->labels, 0, &metrics))
CALL(reliability, cst_metrics_reliability(c, f->p[0], n, CLASSES, f->labels, 0, bins))
CALL(model_decide, cst_model_decide(c, f->model, f->p[0], n, f->folds))
CALL(write_labels, cst_write_labels(c, "/nonexistent/y.npy", f->labels, n, CLASSES, NULL, NULL))
CALL(write_predictions, cst_write_predictions(c, "/nonexistent/p.npy", f->p[0], n, CLASSES))
CALL(write_conditions,
     cst_write_predictions_conditions(c, "/nonexistent/p.npy", f->p[0], 3, n, CLASSES))
CALL(write_csv, cst_write_predictions_csv(c, "/nonexistent/p.csv", f->p[0], n, CLASSES, NULL, NULL))
CALL(write_like, cst_write_predictions_like(c, "/nonexistent/p.csv", "/nonexistent/s.csv", NULL, 0,
                                            f->p[0], n, CLASSES, NULL, NULL, NULL))
CALL(write_folds, cst_write_folds(c, "/nonexistent/f.npy", f->folds, n))
CALL(set_integers, cst_report_set_integers(c, f->report, "key", f->groups, n))
CALL(set_strings, cst_report_set_strings(c, f->report, "key", NAMES, n))
CALL(write_html,
     cst_write_html(c, (const cst_report *const[]){f->report}, n, "/nonexistent/r.html"))
CALL(labels_images, cst_segmentation_evaluate_labels(c, f->labels, f->labels, n, 4, 6, CLASSES, 255,
                                                     0, &scores, NULL))
CALL(labels_height, cst_segmentation_evaluate_labels(c, f->labels, f->labels, 2, n, 6, CLASSES, 255,
                                                     0, &scores, NULL))
CALL(labels_width, cst_segmentation_evaluate_labels(c, f->labels, f->labels, 1 << 20, 1 << 20, n,
                                                    CLASSES, 255, 0, &scores, NULL))

static cst_status predictor_predict(fixture *f, int64_t n) {
    cst_predictor *predictor = NULL;
    assert_int_equal(cst_predictor_create(f->context, &predictor, f->model), CST_OK);
    cst_status status = cst_predictor_predict(predictor, f->data, n, f->out);
    (void)(cst_fail)(f->context, status, "%s", cst_predictor_error(predictor));
    cst_predictor_free(f->context, predictor);
    return status;
}

static cst_status predictor_predict_present(fixture *f, int64_t n) {
    cst_predictor *predictor = NULL;
    assert_int_equal(cst_predictor_create(f->context, &predictor, f->model), CST_OK);
    cst_status status = cst_predictor_predict_present(predictor, f->data, NULL, n, f->out);
    (void)(cst_fail)(f->context, status, "%s", cst_predictor_error(predictor));
    cst_predictor_free(f->context, predictor);
    return status;
}

static cst_status predictor_predict_arrays(fixture *f, int64_t n) {
    cst_predictor *predictor = NULL;
    cst_array arrays[MEMBERS];
    for (int k = 0; k < MEMBERS; k++)
        arrays[k] =
            (cst_array){f->data[k], CST_NUMBER_FLOAT32, CLASSES * sizeof(float), sizeof(float)};
    assert_int_equal(cst_predictor_create(f->context, &predictor, f->model), CST_OK);
    cst_status status = cst_predictor_predict_arrays(predictor, arrays, n, f->out);
    (void)(cst_fail)(f->context, status, "%s", cst_predictor_error(predictor));
    cst_predictor_free(f->context, predictor);
    return status;
}

static cst_status adapter_observe(fixture *f, int64_t n) {
    cst_adapter *adapter = NULL;
    int64_t ticket = 0;
    assert_int_equal(cst_adapter_create(f->context, &adapter, f->model, NULL, 0, NULL), CST_OK);
    cst_status status = cst_adapter_observe(f->context, adapter, f->data, n, f->out, &ticket);
    cst_adapter_free(f->context, adapter);
    return status;
}

/* Without a window, which needs a model of more rows. */
static cst_status predictor_set_guard(fixture *f, int64_t n) {
    cst_predictor *predictor = NULL;
    assert_int_equal(cst_predictor_create(f->context, &predictor, f->model), CST_OK);
    cst_status status = cst_predictor_set_guard(predictor, n);
    (void)(cst_fail)(f->context, status, "%s", cst_predictor_error(predictor));
    cst_predictor_free(f->context, predictor);
    return status;
}

static cst_predicted_values predicted(const fixture *f, int64_t n) {
    return (cst_predicted_values){.rows = n, .outputs = OUTPUTS, .mean = f->p[0]};
}

static cst_status metric_score(fixture *f, int64_t n) {
    const cst_scored_rows rows = {
        .rows = n, .columns = CLASSES, .values = f->p[0], .labels = f->labels};
    return cst_metric_score(f->context, "auc", &rows, f->wide);
}

static cst_status value_metrics(fixture *f, int64_t n) {
    cst_predicted_values given = predicted(f, n);
    return cst_value_metrics_evaluate(f->context, &given, f->numbers, &values, NULL);
}

static cst_status from_arrays(fixture *f, int64_t n) {
    const cst_array array = {.data = f->p[0], .row_step = 4, .column_step = 4};
    const cst_pool_arrays arrays = {
        .members = 1, .rows = n, .classes = CLASSES, .predictions = &array, .names = NAMES};
    return cst_pool_from_arrays(f->context, &none, &arrays);
}

static const struct {
    const char *name;
    sized_call call;
} SIZED[] = {
    {"cst_pool_from_arrays", from_arrays},
    {"cst_pool_read", pool_read},
    {"cst_pool_read", pool_read_from},
    {"cst_model_predict", model_predict},
    {"cst_predictor_predict", predictor_predict},
    {"cst_predictor_predict_present", predictor_predict_present},
    {"cst_predictor_predict_arrays", predictor_predict_arrays},
    {"cst_adapter_observe", adapter_observe},
    {"cst_predictor_set_guard", predictor_set_guard},
    {"cst_folds_stratified", stratified},
    {"cst_folds_grouped", grouped},
    {"cst_folds_time", in_time},
    {"cst_folds_quantile", quantile},
    {"cst_conformal_thresholds", conformal_thresholds},
    {"cst_metrics_evaluate", metrics_evaluate},
    {"cst_metrics_reliability", reliability},
    {"cst_write_predictions", write_predictions},
    {"cst_write_predictions_conditions", write_conditions},
    {"cst_write_predictions_csv", write_csv},
    {"cst_write_predictions_like", write_like},
    {"cst_write_folds", write_folds},
    {"cst_write_html", write_html},
    {"cst_report_set_integers", set_integers},
    {"cst_report_set_strings", set_strings},
    {"cst_segmentation_evaluate_labels", labels_images},
    {"cst_segmentation_evaluate_labels", labels_height},
    {"cst_segmentation_evaluate_labels", labels_width},
    {"cst_value_metrics_evaluate", value_metrics},
    {"cst_metric_score", metric_score},
    {"cst_model_decide", model_decide},
    {"cst_write_labels", write_labels},
};

enum { SIZED_COUNT = sizeof SIZED / sizeof SIZED[0] };

/* Functions whose numbers are indices, settings or limits, not lengths of arrays. */
static const char *const UNSIZED[] = {
    "cst_context_set_threads", "cst_context_set_memory", "cst_evaluate_detections",
    "cst_evaluate_detections_against", "cst_evaluate_member", "cst_pool_open_files",
    "cst_adapter_create", "cst_adapter_label", "cst_adapter_set", "cst_report_text",
    "cst_report_text_full", "cst_report_set_integer", "cst_segmentation_evaluate_file",
    "cst_model_load_memory",
    /* As cst_pool_open_files, and what takes a hash or a seed. */
    "cst_swa_average", "cst_swag_fit", "cst_swag_sample", "cst_soup_uniform", "cst_soup_greedy",
    /* Need a model of a regression: in tests/regression/regression.c. */
    "cst_model_predict_values", "cst_model_intervals",
    /* As many rows as a split has at most: in tests/adapt/adapt.c. */
    "cst_adapt_suggest",
    /* Need a window, and the report of a guard: in tests/api/guard.c. */
    "cst_predictor_predict_guarded",
    /* Need a model with a cascade: in tests/api/guard.c. */
    "cst_model_cascade", "cst_report_set_cascade", "cst_cascade_create", "cst_cascade_start",
    "cst_cascade_give",
    /* As many rows as the report of a guard: in tests/model/labels.c. */
    "cst_model_label_shift", "cst_model_predict_detections",
    /* Need a pool of lists, and arrays of one: in tests/cli/test_topk.py. */
    "cst_model_predict_topk", "cst_model_write_topk", NULL};

/* The least power of two of which no memory holds so many: of numbers of 8 bytes, and of three of
 * 4, 2^53. */
static int bits_refused(const char *name) {
    static const char *const of_labels[] = {"cst_folds_stratified", "cst_folds_grouped",
                                            "cst_write_folds"};
    for (size_t i = 0; i < sizeof of_labels / sizeof of_labels[0]; i++)
        if (strcmp(name, of_labels[i]) == 0)
            return 54;
    return 53;
}

static void sizes_are_refused(void **state) {
    static const int64_t sizes[] = {
        INT64_MAX,        INT64_MAX / 2,    INT64_MAX / 4 + 1, -1,
        INT64_MIN,        (int64_t)1 << 53, (int64_t)1 << 54,  (int64_t)1 << 55,
        (int64_t)1 << 56, (int64_t)1 << 59};
    fixture *f = *state;
    for (size_t i = 0; i < SIZED_COUNT; i++)
        for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
            if (sizes[s] > 0 && sizes[s] < (int64_t)1 << bits_refused(SIZED[i].name))
                continue;
            (void)(cst_fail)(f->context, CST_OK, "%s", "");
            cst_status status = SIZED[i].call(f, sizes[s]);
            if (strncmp(SIZED[i].name, "cst_report_set_", 15) == 0 && sizes[s] < 0)
                continue; /* no values */
            const char *text = cst_last_error(f->context);
            bool right = status == CST_ERROR_ARGUMENT || status == CST_ERROR_LIMIT ||
                         status == CST_ERROR_INPUT || strstr(text, "a size overflows");
            if (!right || !*text || strchr(text, '\n'))
                fail_msg("%s with %lld gives %s: %s", SIZED[i].name, (long long)sizes[s],
                         cst_status_name(status), text);
        }
}

/* Every function that takes a context, an array and a whole number is above or on the list. */
static void every_sized_function_is_tried(void **state) {
    (void)state;
    for (size_t i = 0; i < PUBLIC_COUNT; i++) {
        const public_function *p = &PUBLIC[i];
        bool found = !p->has_status || !strchr(p->kinds, 'n') || !strchr(p->kinds, '*') ||
                     strstr(p->name, "safetensors"); /* their own tests */
        for (size_t s = 0; s < SIZED_COUNT; s++)
            found = found || strcmp(SIZED[s].name, p->name) == 0;
        for (size_t u = 0; UNSIZED[u]; u++)
            found = found || strcmp(UNSIZED[u], p->name) == 0;
        if (!found)
            fail_msg("%s takes sizes and is not tried with impossible ones", p->name);
    }
}

/* ---- results on top of the input ---- */

static void results_may_replace_the_input(void **state) {
    fixture *f = *state;
    float apart[ROWS * CLASSES];
    float same[MEMBERS][ROWS * CLASSES];
    memcpy(same, f->p, sizeof same);
    const float *const data[MEMBERS] = {same[0], same[1]};
    assert_int_equal(cst_model_predict(f->context, f->model, f->data, ROWS, apart), CST_OK);
    assert_int_equal(cst_model_predict(f->context, f->model, data, ROWS, same[0]), CST_OK);
    assert_memory_equal(apart, same[0], sizeof apart);
    int32_t apart_folds[ROWS];
    int32_t labels[ROWS];
    memcpy(labels, f->labels, sizeof labels);
    assert_int_equal(cst_folds_stratified(f->context, labels, ROWS, 3, 1, apart_folds), CST_OK);
    assert_int_equal(cst_folds_stratified(f->context, labels, ROWS, 3, 1, labels), CST_OK);
    assert_memory_equal(labels, apart_folds, sizeof labels);
}

/* ---- numbers that are none ---- */

static void numbers_are_checked(void **state) {
    fixture *f = *state;
    cst_context *c = f->context;
    cst_options *options = NULL;
    float lower[2];
    const double bad[] = {NAN, INFINITY, -INFINITY, -0.5};
    assert_int_equal(cst_options_create(c, &options), CST_OK);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_int_equal(
            cst_model_intervals(c, f->model, bad[i], f->p[0], f->p[1], 1, lower, lower),
            CST_ERROR_ARGUMENT);
        assert_int_equal(cst_segmentation_evaluate_labels(c, f->labels, f->labels, 1, 4, 6, CLASSES,
                                                          255, bad[i], &scores, NULL),
                         CST_ERROR_ARGUMENT);
    }
    for (int64_t i = 0; cst_option_at(i); i++) {
        static const char *const texts[] = {"nan", "inf", "-inf", "1e999", "", "1 "};
        for (size_t t = 0;
             cst_option_at(i)->type != CST_OPTION_TEXT && t < sizeof texts / sizeof texts[0]; t++)
            if (cst_options_set(c, options, cst_option_at(i)->key, texts[t]) == CST_OK)
                assert_string_equal(texts[t], ""); /* an empty list, where lists may be empty */
    }
    cst_options_free(c, options);
}

int suite_sizes(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes_are_refused),
        cmocka_unit_test(every_sized_function_is_tried),
        cmocka_unit_test(results_may_replace_the_input),
        cmocka_unit_test(numbers_are_checked),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
