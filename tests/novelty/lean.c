/*
 * How a batch leans on the average: what a fit stores, what batches tell, temperatures and mixtures
 * against NumPy, and batches and fits that hold little.
 */
#include "model/shift/lean.h"

#include "check.h"
#include "data/lean.h"

#include <math.h>
#include <stdlib.h>

static cst_scope scope; /* of what a test makes */

enum { C = LEAN_CLASSES, N = LEAN_REFERENCE };

static cst_lean *fixture(cst_context *context) {
    static cst_confusion_row stack[N];
    static cst_lean_row average[N];
    static float at[N * CST_LEAN_STEPS];
    const float *members[] = {LEAN_AVERAGE, LEAN_AVERAGE};
    cst_view all = {.rows = N, .classes = C, .members = 2, .data = members};
    cst_lean *made = NULL;
    for (int i = 0; i < N; i++)
        stack[i] = cst_confusion_row_of(LEAN_STACK + i * C, C, LEAN_LABELS[i]);
    assert_int_equal(cst_lean_average(context, &all, average, at), CST_OK);
    assert_int_equal(cst_lean_fit(context, &scope, stack, average, at, N, C, &made), CST_OK);
    return made;
}

static void a_fit_agrees_with_numpy(void **state) {
    cst_lean *made = fixture(*state);
    assert_int_equal(made->rows, N);
    assert_close(made->sharpest, LEAN_SHARPEST[0], 1e-5);
    for (int side = 0; side < CST_LEAN_SIDES; side++) {
        assert_close(made->accuracy[side], LEAN_ACCURACY[side], 1e-12);
        for (int c = 0; c < C; c++)
            assert_int_equal(made->count[side][c], LEAN_COUNT[side * C + c]);
    }
    for (int c = 0; c < C; c++) {
        assert_close((double)made->mean[c], LEAN_MEAN[c], 1e-6);
        assert_close((double)made->variance[c], LEAN_VARIANCE[c], 1e-6);
    }
    cst_scope_free(&scope);
}

/* Rows of a side and their mean confidence at its temperatures. */
static void measured(const cst_lean *lean, int side, const float *p, int64_t rows,
                     cst_lean_row *row, double *mean) {
    float work[2 * C];
    float *at = calloc((size_t)rows * CST_LEAN_POINTS, sizeof *at);
    double temperature[CST_LEAN_POINTS];
    cst_lean_temperatures(lean, side, temperature);
    cst_lean_measure(p, rows, C, temperature, CST_LEAN_POINTS, work, row, at);
    for (int t = 0; t < CST_LEAN_POINTS; t++) {
        mean[t] = 0;
        for (int64_t i = 0; i < rows; i++)
            mean[t] += (double)at[i * CST_LEAN_POINTS + t] / (double)rows;
    }
    free(at);
}

static void batches_agree_with_numpy(void **state) {
    cst_lean *made = fixture(*state);
    const float *all[] = {LEAN_BATCH_STACK, LEAN_BATCH_AVERAGE};
    const double *expected = LEAN_SIDE;
    const double *mixed = LEAN_MIXED;
    for (int b = 0; b < LEAN_BATCHES; b++) {
        cst_lean_row row[LEAN_BATCH];
        double mean[CST_LEAN_POINTS];
        double temperature[CST_LEAN_SIDES];
        int32_t count[C];
        float work[2 * C];
        float out[C];
        for (int side = 0; side < CST_LEAN_SIDES; side++, expected += 5) {
            measured(made, side, all[side] + (size_t)b * LEAN_BATCH * C, LEAN_BATCH, row, mean);
            cst_lean_side found = cst_lean_look(made, side, row, LEAN_BATCH, count);
            assert_close(found.confidence, expected[0], 1e-6);
            assert_close(found.expected, expected[1], 1e-6);
            assert_close(found.skew, expected[2], 1e-9);
            assert_close(found.accuracy, expected[3], 1e-9);
            assert_close(found.z, expected[4], 1e-4);
            temperature[side] = cst_lean_temperature(made, side, &found, mean);
            assert_close(temperature[side], LEAN_TEMPERATURE[b * CST_LEAN_SIDES + side], 1e-4);
        }
        for (int i = 0; i < LEAN_BATCH; i += 10, mixed += C) {
            size_t at = ((size_t)b * LEAN_BATCH + (size_t)i) * C;
            cst_lean_mix(LEAN_BATCH_STACK + at, LEAN_BATCH_AVERAGE + at, C, temperature[0],
                         temperature[1], (double)i / (LEAN_BATCH - 1), work, out);
            for (int c = 0; c < C; c++)
                assert_close((double)out[c], mixed[c], 2e-5);
        }
    }
    cst_scope_free(&scope);
}

/* Only low confidence counts: of rows that are surer than the fit, z is positive and the stack is
 * as it was. */
static void surer_rows_do_not_fire(void **state) {
    cst_lean *made = fixture(*state);
    float p[60 * C] = {0};
    cst_lean_row row[60];
    double mean[CST_LEAN_POINTS];
    int32_t count[C];
    for (int i = 0; i < 60; i++)
        p[i * C + i % 2] = 1;
    measured(made, CST_LEAN_STACK, p, 60, row, mean);
    cst_lean_side found = cst_lean_look(made, CST_LEAN_STACK, row, 60, count);
    assert_true(found.z > 1 && found.skew > 0 && found.accuracy < made->accuracy[0]);
    assert_true(cst_lean_temperature(made, CST_LEAN_STACK, &found, mean) == 1);
    cst_scope_free(&scope);
}

/* The stack says the same of every row: no variance, and no number that is not finite. */
static void constant_rows(void **state) {
    enum { ROWS = 300 };
    cst_confusion_row stack[ROWS];
    static float even[ROWS * C];
    cst_lean_row average[ROWS];
    static float at[ROWS * CST_LEAN_STEPS];
    float work[2 * C];
    float out[C];
    const float *members[] = {even};
    cst_view all = {.rows = ROWS, .classes = C, .members = 1, .data = members};
    cst_lean *made = NULL;
    for (int i = 0; i < ROWS * C; i++)
        even[i] = 1.0F / C;
    for (int i = 0; i < ROWS; i++)
        stack[i] = cst_confusion_row_of(even + i * C, C, i % C);
    assert_int_equal(cst_lean_average(*state, &all, average, at), CST_OK);
    assert_int_equal(cst_lean_fit(*state, &scope, stack, average, at, ROWS, C, &made), CST_OK);
    assert_true(made->sharpest >= 1 && made->sharpest <= 4);
    for (int side = 0; side < CST_LEAN_SIDES; side++) {
        double mean[CST_LEAN_POINTS];
        int32_t count[C];
        measured(made, side, even, ROWS, average, mean);
        cst_lean_side found = cst_lean_look(made, side, average, ROWS, count);
        double temperature = cst_lean_temperature(made, side, &found, mean);
        assert_true(fabs(found.z) < 1e-3 && isfinite(temperature) && temperature > 0);
    }
    cst_lean_mix(even, even, C, 0.3, 4, 0.5, work, out);
    for (int c = 0; c < C; c++)
        assert_close((double)out[c], 1.0 / C, 1e-6);
    cst_scope_free(&scope);
}

/* With 1,000 classes and 200 rows most classes are absent by chance: that is no skew, but rows of
 * one class are. */
static void absent_classes_are_no_skew(void **state) {
    enum { CLASSES = 1000, ROWS = 5000, BATCH = 200 };
    cst_lean *made = NULL;
    cst_lean_row row[BATCH];
    int32_t *count = calloc(CLASSES, sizeof *count);
    uint64_t draw = 1;
    assert_int_equal(cst_lean_alloc(*state, &scope, CLASSES, &made), CST_OK);
    made->rows = ROWS;
    made->accuracy[0] = 0.8;
    for (int c = 0; c < CLASSES; c++)
        made->count[0][c] = ROWS / CLASSES;
    for (int i = 0; i < BATCH; i++) {
        draw = draw * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        row[i] = (cst_lean_row){.predicted = (int32_t)((draw >> 33) % CLASSES), .confidence = 0.5F};
    }
    assert_true(cst_lean_look(made, CST_LEAN_STACK, row, BATCH, count).skew < 0.15);
    for (int i = 0; i < BATCH; i++)
        row[i].predicted = 7;
    assert_true(cst_lean_look(made, CST_LEAN_STACK, row, BATCH, count).skew > 0.5);
    cst_scope_free(&scope);
    free(count);
}

int suite_lean(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_fit_agrees_with_numpy),    cmocka_unit_test(batches_agree_with_numpy),
        cmocka_unit_test(surer_rows_do_not_fire),     cmocka_unit_test(constant_rows),
        cmocka_unit_test(absent_classes_are_no_skew),
    };
    return cmocka_run_group_tests(tests, la_setup, la_teardown);
}
