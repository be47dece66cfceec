/*
 * NULL in every place of the public functions that score, compare and predict without a pool: as
 * tests/api/null.c. tests/api/misuse.c sees that no function is left out of both.
 */
#include "core/base.h"
#include "data/pool/pool.h"

#include <corestack/more.h>

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "check.h"

enum { ROWS = 4, CLASSES = 2 };

static const float P[ROWS * CLASSES] = {0.5f, 0.5f, 0.75f, 0.25f, 0.25f, 0.75f, 1, 0};
static const int32_t Y[ROWS] = {0, 1, 1, 0};

static void refused_at(cst_context *context, cst_status status, int line) {
    if (status != CST_ERROR_ARGUMENT || !*cst_last_error(context))
        print_error("line %d: %s: %s\n", line, cst_status_name(status), cst_last_error(context));
    assert_int_equal(status, CST_ERROR_ARGUMENT);
    assert_true(*cst_last_error(context));
    (void)(cst_fail)(context, CST_OK, "%s", "");
}

#define REFUSED(call) refused_at(c, call, __LINE__)
#define REFUSED_ALONE(call) assert_int_equal(call, CST_ERROR_ARGUMENT)

static void scores(void **state) {
    cst_context *c = *state;
    cst_metrics m;
    REFUSED_ALONE(cst_metrics_evaluate(NULL, P, ROWS, CLASSES, Y, 0, &m));
    REFUSED(cst_metrics_evaluate(c, NULL, ROWS, CLASSES, Y, 0, &m));
    REFUSED(cst_metrics_evaluate(c, P, ROWS, CLASSES, NULL, 0, &m));
    REFUSED(cst_metrics_evaluate(c, P, ROWS, CLASSES, Y, 0, NULL));
    cst_reliability_bin bins[CST_METRIC_BINS];
    REFUSED_ALONE(cst_metrics_reliability(NULL, P, ROWS, CLASSES, Y, 0, bins));
    REFUSED(cst_metrics_reliability(c, NULL, ROWS, CLASSES, Y, 0, bins));
    REFUSED(cst_metrics_reliability(c, P, ROWS, CLASSES, NULL, 0, bins));
    REFUSED(cst_metrics_reliability(c, P, ROWS, CLASSES, Y, 0, NULL));
    assert_null(cst_metric_definition(NULL));
    assert_null(cst_segmentation_definition(NULL));
    assert_null(cst_method_name(SIZE_MAX));
    assert_null(cst_method_describe(NULL));
}

static void segmentation(void **state) {
    cst_context *c = *state;
    cst_segmentation_scores s;
    cst_report *report = NULL;
    const cst_pool_config config = {.labels = "masks"};
    const cst_pool_config unlabelled = {0};
    REFUSED_ALONE(cst_segmentation_evaluate_labels(NULL, Y, Y, 1, 2, 2, 2, 255, 0, &s, NULL));
    REFUSED(cst_segmentation_evaluate_labels(c, NULL, Y, 1, 2, 2, 2, 255, 0, &s, NULL));
    REFUSED(cst_segmentation_evaluate_labels(c, Y, NULL, 1, 2, 2, 2, 255, 0, &s, NULL));
    REFUSED(cst_segmentation_evaluate_labels(c, Y, Y, 1, 2, 2, 2, 255, 0, NULL, NULL));
    REFUSED_ALONE(cst_segmentation_evaluate_file(NULL, "maps", &config, NULL, 0, 0, 0, &report));
    REFUSED(cst_segmentation_evaluate_file(c, NULL, &config, NULL, 0, 0, 0, &report));
    REFUSED(cst_segmentation_evaluate_file(c, "maps", NULL, NULL, 0, 0, 0, &report));
    REFUSED(cst_segmentation_evaluate_file(c, "maps", &unlabelled, NULL, 0, 0, 0, &report));
    REFUSED(cst_segmentation_evaluate_file(c, "maps", &config, NULL, 0, 0, 0, NULL));
    REFUSED_ALONE(
        cst_segmentation_predict(NULL, NULL, NULL, "test", CST_MAP_PNG, "maps", NULL, NULL));
    REFUSED(cst_segmentation_predict(c, NULL, NULL, "test", CST_MAP_PNG, "maps", NULL, NULL));
    REFUSED_ALONE(cst_segmentation_predict_guarded(NULL, NULL, NULL, "test", NULL, CST_MAP_PNG,
                                                   NULL, "maps", NULL, NULL, NULL));
    REFUSED(cst_segmentation_predict_guarded(c, NULL, NULL, "test", NULL, CST_MAP_PNG, NULL, "maps",
                                             NULL, NULL, NULL));
}

static void comparisons(void **state) {
    cst_context *c = *state;
    const float *const data[] = {P};
    static const char *const names[] = {"a"};
    cst_pool *pool = NULL;
    cst_report *report = (cst_report *)(uintptr_t)8;
    const cst_sweep_options sweep = {.key = "seed"};
    assert_int_equal(cst_pool_from_memory(c, &pool, "oof", data, names, 1, ROWS, CLASSES, Y,
                                          CST_OUTPUT_PROBABILITY),
                     CST_OK);
    REFUSED_ALONE(cst_compare(NULL, pool, NULL, &report));
    assert_null(report);
    REFUSED(cst_compare(c, NULL, NULL, &report));
    REFUSED(cst_compare(c, pool, NULL, NULL));
    REFUSED_ALONE(cst_ablate(NULL, pool, NULL, &report));
    REFUSED(cst_ablate(c, NULL, NULL, &report));
    REFUSED(cst_ablate(c, pool, NULL, NULL));
    REFUSED_ALONE(cst_sweep(NULL, pool, &sweep, NULL, &report));
    REFUSED(cst_sweep(c, NULL, &sweep, NULL, &report));
    REFUSED(cst_sweep(c, pool, NULL, NULL, &report));
    REFUSED(cst_sweep(c, pool, &sweep, NULL, NULL));
    cst_pool_free(c, pool);
}

static cst_status never_fit(void *user, const cst_method_rows *rows, void **fitted) {
    (void)user;
    (void)rows;
    *fitted = NULL;
    return CST_ERROR_NUMERIC;
}

static cst_status never_predict(void *user, void *fitted, const cst_method_rows *rows, float *out) {
    (void)user;
    (void)fitted;
    (void)rows;
    (void)out;
    return CST_OK;
}

/* Scores, costs and parts of thresholds. */
static void thresholds(void **state) {
    cst_context *c = *state;
    static const double scores[] = {0.25, 0.5, 0.75};
    static const double costs[] = {1, 2, 3};
    static const double none[] = {0.25, NAN, 0.75};
    static const int32_t parts[] = {0, 2, -1};
    double out[3];
    REFUSED_ALONE(cst_conformal_thresholds(NULL, scores, NULL, NULL, 3, 1, 0.5, 0, out));
    REFUSED(cst_conformal_thresholds(c, NULL, NULL, NULL, 3, 1, 0.5, 0, out));
    REFUSED(cst_conformal_thresholds(c, scores, NULL, NULL, 3, 1, 0.5, 0, NULL));
    REFUSED(cst_conformal_thresholds(c, scores, NULL, NULL, 0, 1, 0.5, 0, out));
    REFUSED(cst_conformal_thresholds(c, scores, NULL, NULL, 3, 0, 0.5, 0, out));
    REFUSED(cst_conformal_thresholds(c, scores, NULL, NULL, 3, 1, 0, 0, out));
    REFUSED(cst_conformal_thresholds(c, scores, NULL, NULL, 3, 1, 1, 0, out));
    REFUSED(cst_conformal_thresholds(c, scores, costs, NULL, 3, 1, 2, -1, out));
    assert_int_equal(cst_conformal_thresholds(c, none, NULL, NULL, 3, 1, 0.5, 0, out),
                     CST_ERROR_INPUT);
    assert_int_equal(cst_conformal_thresholds(c, scores, costs, NULL, 3, 1, 2, 2, out),
                     CST_ERROR_INPUT);
    assert_int_equal(cst_conformal_thresholds(c, scores, NULL, parts, 3, 2, 0.5, 0, out),
                     CST_ERROR_INPUT);
    assert_int_equal(cst_conformal_thresholds(c, scores, NULL, parts, 3, 3, 0.5, 0, out), CST_OK);
    assert_true(out[0] == 0.25 && isinf(out[1]) && out[2] == 0.5);
    /* (2 + 3 + most) / 4 <= 2: two rows may be missed. */
    assert_int_equal(cst_conformal_thresholds(c, scores, costs, NULL, 3, 1, 2, 3, out), CST_OK);
    assert_true(out[0] == 0.25);
}

static cst_status two(void *user, const cst_scored_rows *rows, double *out) {
    (void)user;
    (void)rows;
    *out = 2;
    return CST_OK;
}

static void metrics_by_name(void **state) {
    cst_context *c = *state;
    cst_scored_rows rows = {.rows = ROWS, .columns = CLASSES, .values = P, .labels = Y};
    double out = 0;
    const cst_metric_ops wrong[] = {{.score = two},
                                    {.name = "two"},
                                    {.name = "auc", .score = two},
                                    {.name = "a=b", .score = two}};
    const cst_metric_ops mine = {.name = "two", .score = two};
    assert_null(cst_metric_name(SIZE_MAX, NULL));
    assert_string_equal(cst_metric_name(0, NULL), "log-loss");
    assert_int_equal(cst_metric_is_of(NULL, CST_TASK_CLASSIFICATION), 0);
    REFUSED_ALONE(cst_metric_score(NULL, "auc", &rows, &out));
    REFUSED(cst_metric_score(c, NULL, &rows, &out));
    REFUSED(cst_metric_score(c, "auc", NULL, &out));
    REFUSED(cst_metric_score(c, "auc", &rows, NULL));
    REFUSED(cst_metric_score(c, "two", &rows, &out));
    rows.labels = NULL;
    REFUSED(cst_metric_score(c, "auc", &rows, &out));
    rows.labels = Y;
    REFUSED_ALONE(cst_context_add_metric(NULL, &mine));
    REFUSED(cst_context_add_metric(c, NULL));
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        REFUSED(cst_context_add_metric(c, &wrong[i]));
    assert_int_equal(cst_context_add_metric(c, &mine), CST_OK);
    assert_int_equal(cst_metric_score(c, "two", &rows, &out), CST_OK);
    assert_true(out == 2);
}

/* A method of the caller's own that lacks something, and one whose fit fails. */
static void added_methods(void **state) {
    cst_context *c = *state;
    const float *const data[] = {P};
    static const char *const names[] = {"a"};
    static const char *const methods[] = {"mine", "average"};
    const cst_method_ops wrong[] = {
        {.fit = never_fit, .predict = never_predict},
        {.name = "mine", .predict = never_predict},
        {.name = "mine", .fit = never_fit},
        {.name = "ridge", .fit = never_fit, .predict = never_predict},
    };
    const cst_method_ops mine = {.name = "mine", .fit = never_fit, .predict = never_predict};
    static const char *const settings[] = {"folds.count=2"};
    cst_compare_options options = {
        .methods = methods, .method_count = 2, .settings = settings, .setting_count = 1};
    cst_pool *pool = NULL;
    cst_report *report = NULL;
    REFUSED_ALONE(cst_context_add_method(NULL, &mine));
    REFUSED(cst_context_add_method(c, NULL));
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        REFUSED(cst_context_add_method(c, &wrong[i]));
    assert_int_equal(cst_context_add_method(c, &mine), CST_OK);
    REFUSED(cst_context_add_method(c, &mine));
    assert_int_equal(cst_pool_from_memory(c, &pool, "oof", data, names, 1, ROWS, CLASSES, Y,
                                          CST_OUTPUT_PROBABILITY),
                     CST_OK);
    assert_int_equal(cst_compare(c, pool, &options, &report), CST_ERROR_NUMERIC);
    assert_non_null(strstr(cst_last_error(c), "its function fit failed"));
    static const char *const all[] = {"all"};
    options.methods = all;
    options.method_count = 1; /* one of all is left out */
    assert_int_equal(cst_compare(c, pool, &options, &report), CST_OK);
    cst_report_free(c, report);
    cst_pool_free(c, pool);
}

/* Lists inside of options, of which a text is missing or the whole list. */
static void lists_of_options(void **state) {
    cst_context *c = *state;
    const float *const data[] = {P};
    static const char *const names[] = {"a"};
    static const char *const gap[] = {"average", NULL};
    static const char *const settings[] = {"folds.count=2", NULL};
    static const char *const sizes[] = {"1", NULL};
    const cst_compare_options all[] = {
        {.methods = gap, .method_count = 2},
        {.settings = settings, .setting_count = 2},
        {.setting_count = 1},
    };
    const cst_sweep_options sweep = {
        .key = "pool.size", .values = sizes, .value_count = 1, .draws = 1};
    const cst_sweep_options holed = {
        .key = "pool.size", .values = sizes, .value_count = 2, .draws = 1};
    const cst_sweep_options none = {.key = "pool.size", .value_count = 2, .draws = 1};
    cst_pool *pool = NULL;
    cst_report *report = NULL;
    assert_int_equal(cst_pool_from_memory(c, &pool, "oof", data, names, 1, ROWS, CLASSES, Y,
                                          CST_OUTPUT_PROBABILITY),
                     CST_OK);
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        REFUSED(cst_compare(c, pool, &all[i], &report));
        REFUSED(cst_sweep(c, pool, &sweep, &all[i], &report));
        if (all[i].setting_count > 0)
            REFUSED(cst_ablate(c, pool, &all[i], &report));
        assert_null(report);
    }
    REFUSED(cst_sweep(c, pool, &holed, NULL, &report));
    REFUSED(cst_sweep(c, pool, &none, NULL, &report));
    /* No list of methods is every method, whatever their count is said to be. */
    cst_compare_options loose = {.method_count = 3, .settings = settings, .setting_count = 1};
    assert_int_equal(cst_compare(c, pool, &loose, &report), CST_OK);
    cst_report_free(c, report);
    cst_pool_free(c, pool);
}

static void reports(void **state) {
    cst_context *c = *state;
    cst_report *report = NULL;
    char *text = NULL;
    assert_int_equal(cst_report_create(c, &report, "folds"), CST_OK);
    REFUSED_ALONE(cst_report_csv(NULL, report, &text));
    REFUSED(cst_report_csv(c, NULL, &text));
    REFUSED(cst_report_csv(c, report, NULL));
    REFUSED_ALONE(cst_report_markdown(NULL, report, &text));
    REFUSED(cst_report_markdown(c, NULL, &text));
    REFUSED(cst_report_markdown(c, report, NULL));
    REFUSED_ALONE(cst_write_suspects(NULL, report, "s.csv"));
    REFUSED(cst_write_suspects(c, NULL, "s.csv"));
    REFUSED(cst_write_suspects(c, report, NULL));
    const cst_report *page[] = {report, NULL};
    REFUSED_ALONE(cst_write_html(NULL, page, 1, "r.html"));
    REFUSED(cst_write_html(c, NULL, 1, "r.html"));
    REFUSED(cst_write_html(c, page, 2, "r.html"));
    REFUSED(cst_write_html(c, page, 0, "r.html"));
    REFUSED(cst_write_html(c, page, 1, NULL));
    REFUSED_ALONE(cst_report_latex(NULL, report, &text));
    REFUSED(cst_report_latex(c, NULL, &text));
    REFUSED(cst_report_latex(c, report, NULL));
    REFUSED_ALONE(cst_report_text_full(NULL, report, 0, &text));
    REFUSED(cst_report_text_full(c, NULL, 0, &text));
    REFUSED(cst_report_text_full(c, report, 0, NULL));
    cst_report_free(c, report);
    REFUSED_ALONE(cst_context_set_memory(NULL, 0));
    REFUSED_ALONE(cst_context_set_collectives(NULL, NULL));
    REFUSED_ALONE(cst_context_agree(NULL, CST_OK, NULL));
    REFUSED_ALONE(cst_context_same(NULL, "it", "text"));
    REFUSED(cst_context_same(c, NULL, "text"));
    REFUSED(cst_context_same(c, "it", NULL));
    assert_int_equal(cst_context_ranks(NULL), 1);
}

static void predictors(void **state) {
    cst_context *c = *state;
    cst_predictor *made = (cst_predictor *)(uintptr_t)8;
    REFUSED_ALONE(cst_predictor_create(NULL, &made, NULL));
    assert_null(made);
    REFUSED(cst_predictor_create(c, &made, NULL));
    REFUSED(cst_predictor_create(c, NULL, NULL));
    REFUSED_ALONE(cst_predictor_predict_present(NULL, NULL, NULL, 0, NULL));
    REFUSED_ALONE(cst_predictor_predict_arrays(NULL, NULL, 0, NULL));
    REFUSED_ALONE(cst_predictor_predict(NULL, NULL, 0, NULL)); /* the rest: tests/model/predict.c */
    assert_string_equal(cst_predictor_error(NULL), "");
    cst_predictor_free(c, NULL);
    cst_predictor_free(NULL, NULL);
}

static void adapters(void **state) {
    cst_context *c = *state;
    cst_adapter *made = (cst_adapter *)(uintptr_t)8;
    const float *const rows[1] = {NULL};
    float *predictions = NULL;
    int64_t count = 0;
    int64_t ticket = 0;
    float row = 0;
    cst_report *report = NULL;
    cst_adapter_state found;
    REFUSED_ALONE(cst_adapter_create(NULL, &made, NULL, NULL, 0, NULL));
    assert_null(made);
    REFUSED(cst_adapter_create(c, &made, NULL, NULL, 0, NULL));
    REFUSED(cst_adapter_create(c, NULL, NULL, NULL, 0, NULL));
    REFUSED_ALONE(cst_adapter_observe(NULL, NULL, rows, 1, &row, &ticket));
    REFUSED(cst_adapter_observe(c, NULL, rows, 1, &row, &ticket));
    assert_int_equal(ticket, -1);
    REFUSED(cst_adapter_observe(c, NULL, NULL, 1, NULL, NULL));
    REFUSED_ALONE(cst_adapter_label(NULL, NULL, 0, 0));
    REFUSED(cst_adapter_label(c, NULL, 0, 0));
    REFUSED_ALONE(cst_adapter_get_state(NULL, NULL, &found));
    REFUSED(cst_adapter_get_state(c, NULL, &found));
    REFUSED(cst_adapter_get_state(c, NULL, NULL));
    unsigned char set = 0;
    REFUSED_ALONE(cst_adapter_set(NULL, NULL, 0, &set, NULL));
    REFUSED(cst_adapter_set(c, NULL, 0, &set, NULL));
    REFUSED(cst_adapter_set(c, NULL, 0, NULL, NULL));
    assert_int_equal(cst_adapter_members(NULL), 0);
    assert_null(cst_adapter_member_name(NULL, 0));
    REFUSED_ALONE(cst_adapter_save(NULL, NULL, "a"));
    REFUSED(cst_adapter_save(c, NULL, "a"));
    REFUSED(cst_adapter_save(c, NULL, NULL));
    REFUSED_ALONE(cst_adapter_load(NULL, &made, NULL, "a"));
    REFUSED(cst_adapter_load(c, &made, NULL, "a"));
    REFUSED(cst_adapter_load(c, NULL, NULL, NULL));
    REFUSED_ALONE(cst_online(NULL, NULL, NULL, NULL, &predictions, &count, &report));
    REFUSED(cst_online(c, NULL, NULL, NULL, &predictions, &count, &report));
    REFUSED(cst_online(c, NULL, NULL, NULL, NULL, NULL, NULL));
    cst_adapter_free(c, NULL);
    cst_adapter_free(NULL, NULL);
}

static void guards(void **state) {
    cst_context *c = *state;
    const float *const rows[1] = {P};
    float row[ROWS * CLASSES] = {0};
    float *made = (float *)(uintptr_t)8;
    int64_t count = 8;
    cst_guard_report *report = (cst_guard_report *)(uintptr_t)8;
    cst_guard_batch found;
    cst_report *document = NULL;
    assert_int_equal(cst_report_create(c, &document, "predict"), CST_OK);
    REFUSED_ALONE(
        cst_model_predict_guarded(NULL, NULL, NULL, "test", NULL, &made, &count, &report));
    assert_true(made == NULL && report == NULL);
    REFUSED(cst_model_predict_guarded(c, NULL, NULL, "test", NULL, &made, &count, &report));
    REFUSED(cst_model_predict_guarded(c, NULL, NULL, NULL, NULL, NULL, NULL, NULL));
    REFUSED_ALONE(cst_predictor_set_guard(NULL, 100));
    REFUSED_ALONE(cst_predictor_predict_guarded(NULL, rows, NULL, 1, row, &found));
    REFUSED_ALONE(cst_report_set_guard(NULL, document, CST_GUARD_AUTO, NULL));
    REFUSED(cst_report_set_guard(c, NULL, CST_GUARD_AUTO, NULL));
    assert_int_equal(cst_report_set_guard(c, document, CST_GUARD_AUTO, NULL), CST_OK);
    assert_int_equal(cst_model_has_guard(NULL), 0);
    assert_int_equal(cst_model_others(NULL), 0);
    assert_null(cst_model_other_name(NULL, 0));
    cst_guard_report_free(c, NULL);
    cst_guard_report_free(NULL, NULL);
    cst_report_free(c, document);
}

static void cascades(void **state) {
    cst_context *c = *state;
    float row[CLASSES] = {0};
    int32_t ran = 0;
    int64_t rows = 0;
    cst_cascade *cascade = (cst_cascade *)(uintptr_t)8;
    cst_report *document = NULL;
    assert_int_equal(cst_report_create(c, &document, "predict"), CST_OK);
    REFUSED_ALONE(cst_cascade_create(NULL, &cascade, NULL, 1));
    assert_null(cascade);
    REFUSED(cst_cascade_create(c, &cascade, NULL, 1));
    REFUSED_ALONE(cst_model_cascade(NULL, NULL, NULL, "test", NULL, 1, row, &ran));
    REFUSED(cst_model_cascade(c, NULL, NULL, "test", NULL, 1, row, &ran));
    REFUSED_ALONE(cst_report_set_cascade(NULL, document, NULL, &ran, 1));
    REFUSED(cst_report_set_cascade(c, document, NULL, &ran, 1));
    REFUSED_ALONE(cst_cascade_start(NULL, 0, 0));
    REFUSED_ALONE(cst_cascade_give(NULL, 0, row));
    assert_int_equal(cst_cascade_next(NULL, 0), -1);
    assert_int_equal(cst_cascade_waiting(NULL, 0, &rows), 0);
    assert_int_equal(cst_cascade_answer(NULL, 0, row), -1);
    assert_int_equal(cst_model_has_cascade(NULL), 0);
    cst_cascade_free(c, NULL);
    cst_cascade_free(NULL, NULL);
    cst_report_free(c, document);
}

int suite_null_scores(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(scores),

        cmocka_unit_test(segmentation),     cmocka_unit_test(comparisons),
        cmocka_unit_test(lists_of_options), cmocka_unit_test(metrics_by_name),
        cmocka_unit_test(added_methods),    cmocka_unit_test(thresholds),
        cmocka_unit_test(reports),          cmocka_unit_test(predictors),
        cmocka_unit_test(adapters),         cmocka_unit_test(guards),
        cmocka_unit_test(cascades),
    };
    return cmocka_run_group_tests(tests, context_setup, context_teardown);
}
