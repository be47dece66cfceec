/*
 * Predictions corrected for label shift through the public calls: what is changed, what is kept,
 * what is refused, and no allocation left where memory fails. The figures: tests/novelty.
 */
#include "model/labels.h"
#include "check.h"
#include "data/pool/pool.h"
#include "failing_memory.h"

#include <corestack/more.h>
#include <string.h>

enum { ROWS = 400, FRESH = 120, CLASSES = 3, MEMBERS = 2 };

typedef struct world {
    cst_context *context;
    cst_model *model;
    cst_guard_report *guard;
    float p[FRESH * CLASSES]; /* the stack's */
} world;

static world shared;

/* Rows of two members that see the same; `rare` rows of class 0. */
static void draw(cst_rng *rng, int rows, int every, int32_t *labels, float *a, float *b) {
    for (int i = 0; i < rows; i++) {
        labels[i] = every == 0 ? i % CLASSES : i % every == 0 ? 1 + i % 2 : 0;
        for (int c = 0; c < CLASSES; c++) {
            double z = cst_rng_normal(rng) + (c == labels[i] ? 1.5 : 0);
            a[i * CLASSES + c] = (float)exp(z + 0.2 * cst_rng_normal(rng));
            b[i * CLASSES + c] = (float)exp(z + 0.2 * cst_rng_normal(rng));
        }
        for (int k = 0; k < MEMBERS; k++) {
            float *row = (k == 0 ? a : b) + i * CLASSES;
            double sum = (double)row[0] + (double)row[1] + (double)row[2];
            for (int c = 0; c < CLASSES; c++)
                row[c] = (float)((double)row[c] / sum);
        }
    }
}

static int setup(void **state) {
    static const char *const names[MEMBERS] = {"a", "b"};
    static float a[ROWS * CLASSES];
    static float b[ROWS * CLASSES];
    static int32_t labels[ROWS];
    const float *data[MEMBERS] = {a, b};
    world *w = &shared;
    cst_rng rng;
    cst_pool *pool = NULL;
    cst_report *report = NULL;
    *state = w;
    cst_rng_init(&rng, 7, CST_STREAM_TEST, 0);
    draw(&rng, ROWS, 0, labels, a, b);
    bool made = cst_context_create(&w->context) == CST_OK &&
                cst_pool_from_memory(w->context, &pool, "oof", data, names, MEMBERS, ROWS, CLASSES,
                                     labels, CST_OUTPUT_PROBABILITY) == CST_OK &&
                cst_fit(w->context, pool, "oof", NULL, &w->model, &report) == CST_OK;
    float *predicted = NULL;
    int64_t rows = 0;
    cst_report_free(w->context, report);
    cst_pool_free(w->context, pool);
    draw(&rng, FRESH, 8, labels, a, b);
    made = made &&
           cst_pool_from_memory(w->context, &pool, "new", data, names, MEMBERS, FRESH, CLASSES,
                                NULL, CST_OUTPUT_PROBABILITY) == CST_OK &&
           cst_model_predict_guarded(w->context, w->model, pool, "new", NULL, &predicted, &rows,
                                     &w->guard) == CST_OK &&
           rows == FRESH;
    if (made)
        memcpy(w->p, predicted, sizeof w->p);
    cst_free(w->context, predicted);
    cst_pool_free(w->context, pool);
    return !made;
}

static int teardown(void **state) {
    world *w = *state;
    cst_guard_report_free(w->context, w->guard);
    cst_model_free(w->context, w->model);
    cst_context_free(w->context);
    return 0;
}

static void shares_are_estimated_and_applied(void **state) {
    world *w = *state;
    for (int method = CST_LABEL_EM; method <= CST_LABEL_BBSE; method++) {
        float p[FRESH * CLASSES];
        cst_label_report *report = NULL;
        double sum = 0;
        memcpy(p, w->p, sizeof p);
        assert_int_equal(cst_model_label_shift(w->context, w->model, (cst_label_method)method,
                                               w->guard, FRESH, p, &report),
                         CST_OK);
        assert_int_equal(report->count, 1);
        assert_int_equal(report->applied, 1);
        assert_int_equal(report->batch[0].verdict, CST_LABEL_APPLIED);
        assert_int_equal(report->batch[0].rows, FRESH);
        const cst_label_shift *shift = &report->shift[0];
        for (int32_t c = 0; c < CLASSES; c++) {
            assert_true(shift->low[c] <= shift->share[c] && shift->share[c] <= shift->high[c]);
            sum += shift->share[c];
        }
        assert_close(sum, 1, method == CST_LABEL_EM ? 1e-9 : 0.2);
        assert_true(shift->share[0] > 0.75);
        for (int i = 0; i < FRESH; i++)
            assert_true(p[i * CLASSES] >= w->p[i * CLASSES]);
        cst_label_report_free(w->context, report);
    }
}

static void off_and_wrong_rows(void **state) {
    world *w = *state;
    float p[FRESH * CLASSES];
    cst_label_report *report = NULL;
    memcpy(p, w->p, sizeof p);
    assert_int_equal(
        cst_model_label_shift(w->context, w->model, CST_LABEL_OFF, NULL, FRESH, p, &report),
        CST_OK);
    assert_null(report);
    assert_int_equal(
        cst_model_label_shift(w->context, w->model, CST_LABEL_EM, w->guard, FRESH - 1, p, &report),
        CST_ERROR_ARGUMENT);
    assert_int_equal(
        cst_model_label_shift(w->context, w->model, CST_LABEL_EM, NULL, FRESH, p, &report),
        CST_ERROR_ARGUMENT);
    assert_non_null(strstr(cst_last_error(w->context), "guard's report"));
    assert_int_equal(
        cst_model_label_shift(w->context, w->model, CST_LABEL_EM, w->guard, INT64_MAX, p, &report),
        CST_ERROR_ARGUMENT);
    assert_memory_equal(p, w->p, sizeof p);
}

static void failing_memory_leaves_nothing(void **state) {
    world *w = *state;
    for (int method = CST_LABEL_EM; method <= CST_LABEL_BBSE; method++) {
        cst_status status = CST_ERROR_MEMORY;
        for (int64_t after = 0; status != CST_OK && after < 500; after++) {
            failing memory = {.left = INT64_MAX};
            cst_context *context = NULL;
            cst_label_report *report = NULL;
            float p[FRESH * CLASSES];
            memcpy(p, w->p, sizeof p);
            assert_int_equal(cst_context_create_with(&context, failing_realloc, &memory), CST_OK);
            assert_int_equal(cst_context_set_threads(context, 1), CST_OK);
            memory.left = after;
            status = cst_model_label_shift(context, w->model, (cst_label_method)method, w->guard,
                                           FRESH, p, &report);
            memory.left = INT64_MAX;
            assert_true(status == CST_OK || status == CST_ERROR_MEMORY);
            assert_true((status == CST_OK) == (report != NULL));
            cst_label_report_free(context, report);
            cst_context_free(context);
            assert_int_equal(memory.live, 0);
        }
        assert_int_equal(status, CST_OK);
    }
}

int suite_labels(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shares_are_estimated_and_applied),
        cmocka_unit_test(off_and_wrong_rows),
        cmocka_unit_test(failing_memory_leaves_nothing),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
