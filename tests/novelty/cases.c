/*
 * Cases compared with the cases of a fit: measures and levels against NumPy and SciPy, false alarms
 * by simulation, fits of few or equal cases, any number of threads.
 */
#include "model/shift/cases.h"

#include "check.h"
#include "data/cases.h"

#include <stdlib.h>
#include <string.h>

static cst_scope scope; /* of what a test makes */

enum { M = CA_MEMBERS, NUMBERS = 1 + CA_MEMBERS + CA_CLASSES };

static cst_view view_of(const float *maps, int cases, const float **data) {
    for (int k = 0; k < M; k++) {
        data[k] = maps + (size_t)k * (size_t)cases * CA_PIXELS * CA_CLASSES;
        if (isnan(data[k][0]))
            data[k] = NULL;
    }
    return (cst_view){
        .rows = (int64_t)cases * CA_PIXELS, .classes = CA_CLASSES, .members = M, .data = data};
}

static cst_novelty *pixels_of(cst_context *context, const cst_view *view) {
    int32_t folds[CA_CASES * CA_PIXELS];
    cst_novelty *made = NULL;
    for (int i = 0; i < CA_CASES * CA_PIXELS; i++)
        folds[i] = i / CA_PIXELS % CA_FOLDS;
    assert_int_equal(cst_novelty_fit(context, &scope, view, folds, CA_FOLDS, &made), CST_OK);
    assert_non_null(made);
    return made;
}

static void measured(cst_context *context, const cst_novelty *pixels, const cst_view *view,
                     int cases, double *numbers) {
    for (int n = 0; n < cases; n++)
        assert_int_equal(cst_case_measure(context, pixels, view, (int64_t)n * CA_PIXELS, CA_PIXELS,
                                          numbers + (ptrdiff_t)n * NUMBERS),
                         CST_OK);
}

static void check_numbers(const double *numbers, const double *expected, int count) {
    for (int i = 0; i < count; i++) {
        assert_int_equal(isnan(numbers[i]), isnan(expected[i]));
        if (!isnan(expected[i]))
            assert_close(numbers[i], expected[i], 2e-4);
    }
}

static void levels_are_numpys(void **state) {
    const float *data[M];
    double numbers[CA_CASES * NUMBERS];
    int32_t folds[CA_CASES];
    cst_novelty_cases *cases = NULL;
    cst_view view = view_of(CA_FITTED, CA_CASES, data);
    cst_novelty *pixels = pixels_of(*state, &view);
    assert_int_equal(cst_case_numbers(pixels), NUMBERS);
    measured(*state, pixels, &view, CA_CASES, numbers);
    check_numbers(numbers, CA_NUMBERS, CA_CASES * NUMBERS);
    for (int n = 0; n < CA_CASES; n++)
        folds[n] = n % CA_FOLDS;
    assert_int_equal(
        cst_novelty_cases_fit(*state, &scope, pixels, numbers, CA_CASES, folds, CA_FOLDS, &cases),
        CST_OK);
    assert_non_null(cases);
    for (int p = 0; p < CST_CASE_PARTS; p++) {
        assert_close(cases->part[p].center, CA_CENTER[p], 1e-5);
        assert_close(cases->part[p].spread, CA_SPREAD[p], 1e-5);
        assert_close(cases->part[p].limit, CA_LIMIT[p], 1e-5);
    }
    for (int n = 0; n < CA_NEW; n++) { /* one by one: a member may be absent from the last alone */
        const float *one[M];
        for (int k = 0; k < M; k++) {
            one[k] = CA_MAPS + ((ptrdiff_t)k * CA_NEW + n) * CA_PIXELS * CA_CLASSES;
            one[k] = isnan(one[k][0]) ? NULL : one[k];
        }
        cst_view new = {.rows = CA_PIXELS, .classes = CA_CLASSES, .members = M, .data = one};
        measured(*state, pixels, &new, 1, numbers);
        check_numbers(numbers, CA_FOUND + (ptrdiff_t)n * NUMBERS, NUMBERS);
        double level = cst_case_level(cases, numbers);
        assert_close(level, CA_LEVEL[n], 2e-3 * CA_LEVEL[n] + 1e-9);
        double lambda = 0;
        cst_cases_lambda(&level, 1, &lambda);
        assert_close(lambda, CA_LAMBDA[n], 2e-3);
    }
    cst_scope_free(&scope);
}

static void unknown_cases_are_not_judged(void **state) {
    const float *data[M];
    double numbers[NUMBERS];
    cst_view view = view_of(CA_FITTED, CA_CASES, data);
    cst_novelty *pixels = pixels_of(*state, &view);
    for (int k = 0; k < M; k++)
        data[k] = NULL;
    measured(*state, pixels, &view, 1, numbers);
    for (int j = 0; j < NUMBERS; j++)
        assert_true(isnan(numbers[j]));
    cst_novelty_cases none = {.cases = 10};
    double unit[NUMBERS];
    for (int j = 0; j < NUMBERS; j++)
        unit[j] = 1;
    for (int p = 0; p < CST_CASE_PARTS; p++)
        none.part[p] = (cst_case_part){
            .size = cst_case_part_size(pixels, p), .mean = unit, .scale = unit, .spread = 1};
    assert_true(cst_case_level(&none, numbers) == 1);
    cst_scope_free(&scope);
}

static double lambda_of(const cst_novelty_cases *cases, const double *numbers) {
    double level = cst_case_level(cases, numbers);
    double lambda = 0;
    cst_cases_lambda(&level, 1, &lambda);
    return lambda;
}

/* Cases that are drawn like those of the fit, with numbers that go together. */
static void draw_case(cst_rng *rng, const cst_novelty *pixels, double *numbers) {
    double common = cst_rng_normal(rng);
    for (int j = 0; j < cst_case_numbers(pixels); j++)
        numbers[j] = 0.5 * common + 0.5 * cst_rng_normal(rng);
}

static void false_alarms_are_rare(void **state) {
    enum { FITS = 60, CASES = 30, TESTED = 100 };
    const float *data[M];
    cst_view view = view_of(CA_FITTED, CA_CASES, data);
    cst_novelty *pixels = pixels_of(*state, &view);
    double *numbers = calloc(CASES, NUMBERS * sizeof *numbers);
    int32_t folds[CASES];
    int alarms = 0;
    int found = 0;
    cst_rng rng;
    cst_rng_init(&rng, 3, CST_STREAM_TEST, 0);
    for (int i = 0; i < CASES; i++)
        folds[i] = i % 5;
    for (int f = 0; f < FITS; f++) {
        cst_novelty_cases *cases = NULL;
        for (int n = 0; n < CASES; n++)
            draw_case(&rng, pixels, numbers + (ptrdiff_t)n * NUMBERS);
        assert_int_equal(
            cst_novelty_cases_fit(*state, &scope, pixels, numbers, CASES, folds, 5, &cases),
            CST_OK);
        for (int n = 0; n < TESTED; n++) {
            draw_case(&rng, pixels, numbers);
            alarms += lambda_of(cases, numbers) > 0;
            for (int j = 0; j < NUMBERS; j++)
                numbers[j] += j % 2 ? 6 : -6;
            found += lambda_of(cases, numbers) > 0.5;
        }
    }
    assert_in_range(alarms, 0, FITS * TESTED / 100);
    assert_in_range(found, FITS * TESTED * 98 / 100, FITS * TESTED);
    free(numbers);
    cst_scope_free(&scope);
}

static void fits_that_say_nothing(void **state) {
    enum { CASES = 20 };
    const float *data[M];
    cst_view view = view_of(CA_FITTED, CA_CASES, data);
    cst_novelty *pixels = pixels_of(*state, &view);
    double numbers[CASES * NUMBERS];
    int32_t folds[CASES] = {0};
    cst_novelty_cases *cases = NULL;
    for (int i = 0; i < CASES * NUMBERS; i++)
        numbers[i] = 1 + i % 7;
    for (int n = 0; n < CASES; n++)
        folds[n] = n % 2;
    assert_int_equal(
        cst_novelty_cases_fit(*state, &scope, pixels, numbers, CST_CASES_MIN - 1, folds, 2, &cases),
        CST_OK);
    assert_null(cases);
    assert_int_equal(
        cst_novelty_cases_fit(*state, &scope, pixels, numbers, CASES, folds, 2, &cases), CST_OK);
    assert_non_null(cases);
    for (int i = 0; i < CASES * NUMBERS; i++)
        numbers[i] = 2; /* copies of one image */
    assert_int_equal(
        cst_novelty_cases_fit(*state, &scope, pixels, numbers, CASES, folds, 2, &cases), CST_OK);
    assert_null(cases);
    numbers[3] = NAN; /* a member that did not predict a case */
    assert_int_equal(
        cst_novelty_cases_fit(*state, &scope, pixels, numbers, CASES, folds, 2, &cases), CST_OK);
    assert_null(cases);
    cst_scope_free(&scope);
}

/* Each case by itself; together where enough of them are far from the fit. */
static void cases_are_judged_together(void **state) {
    enum { MOST = 20 };
    double level[MOST];
    double lambda[MOST];
    (void)state;
    for (int count = 1; count <= MOST; count++)
        for (int far = 0; far <= count; far++) {
            for (int n = 0; n < count; n++)
                level[n] = n >= far ? 1 : n == 0 ? 0.001 : 0.1;
            cst_cases_lambda(level, count, lambda);
            bool together = count >= 10 && 10 * far >= 4 * count;
            for (int n = 0; n < count; n++) {
                double alone = far > 0 && n == 0 ? 0.6 : 0;
                double all = 0.75 * (n < far ? 1 : (double)far / count);
                assert_close(lambda[n], together ? all : alone, 1e-12);
            }
        }
    cst_cases_lambda(level, 0, lambda);
}

/* A case larger than what is measured of it, as a view that starts elsewhere sees it. */
static void large_cases_are_sampled(void **state) {
    enum { ROWS = 5000, BEFORE = 77 };
    const float *fitted[M];
    cst_view small = view_of(CA_FITTED, CA_CASES, fitted);
    cst_novelty *pixels = pixels_of(*state, &small);
    float *maps = calloc((size_t)(ROWS + BEFORE) * CA_CLASSES, sizeof *maps);
    const float *data[M] = {maps, maps, maps};
    cst_view view = {.rows = ROWS + BEFORE, .classes = CA_CLASSES, .members = M, .data = data};
    double numbers[NUMBERS];
    for (int i = 0; i < ROWS + BEFORE; i++)
        maps[i * CA_CLASSES + (i < BEFORE ? 3 : (i - BEFORE) % 4 == 0)] = 1;
    assert_int_equal(cst_case_measure(*state, pixels, &view, BEFORE, ROWS, numbers), CST_OK);
    assert_close(exp(numbers[1 + M]) - 5e-3, 0.75, 0.06);
    assert_close(exp(numbers[1 + M + 1]) - 5e-3, 0.25, 0.06);
    assert_close(exp(numbers[1 + M + 3]) - 5e-3, 0, 1e-9);
    assert_close(numbers[1], log(1e-3), 1e-4);
    free(maps);
    cst_scope_free(&scope);
}

int suite_cases(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(levels_are_numpys),         cmocka_unit_test(unknown_cases_are_not_judged),
        cmocka_unit_test(false_alarms_are_rare),     cmocka_unit_test(fits_that_say_nothing),
        cmocka_unit_test(cases_are_judged_together), cmocka_unit_test(large_cases_are_sampled),
    };
    return cmocka_run_group_tests(tests, la_setup, la_teardown);
}
