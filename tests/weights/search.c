/*
 * The derivative-free search against the same algorithm in NumPy with the same draws, on functions
 * whose least value is known, and at its edges.
 */
#include "data/search.h"
#include "weights/search.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "check.h"

static void assert_near(double got, double wanted) {
    assert_close(got, wanted, 1e-9 * (1 + fabs(wanted)));
}

static double turned_ellipsoid(const double *x) {
    double sum = 0;
    for (int i = 0; i < SEARCH_N; i++)
        for (int j = 0; j < SEARCH_N; j++)
            sum += x[i] * SEARCH_MATRIX[i * SEARCH_N + j] * x[j];
    return sum;
}

static void goes_as_in_numpy(void **state) {
    cst_context *context = *state;
    cst_search *search = NULL;
    assert_int_equal(cst_search_create(context, &search, SEARCH_N, SEARCH_START, SEARCH_SIGMA),
                     CST_OK);
    assert_int_equal(cst_search_population(search), SEARCH_POPULATION);
    for (int g = 0; g < SEARCH_GENERATIONS; g++) {
        double values[SEARCH_POPULATION];
        double x[SEARCH_N];
        for (int k = 0; k < SEARCH_POPULATION; k++) {
            int place = g * SEARCH_POPULATION + k;
            cst_search_point(search, k, SEARCH_DRAWS + place * SEARCH_N, x);
            values[k] = turned_ellipsoid(x);
            assert_near(values[k], SEARCH_VALUES[place]);
        }
        cst_search_update(search, values);
        for (int i = 0; i < SEARCH_N; i++)
            assert_near(cst_search_mean(search)[i], SEARCH_MEANS[g * SEARCH_N + i]);
        assert_near(cst_search_reach(search), SEARCH_REACH[g]);
    }
    cst_search_free(context, search);
}

/* The value at the mean after so many generations on sum_i 10^(4 i / (n - 1)) (x_i - i)^2. */
static double minimise(cst_context *context, int64_t n, int generations, uint64_t seed) {
    cst_search *search = NULL;
    cst_rng rng;
    double *x = calloc((size_t)n, sizeof *x);
    double *normals = calloc((size_t)n, sizeof *normals);
    assert_int_equal(cst_search_create(context, &search, n, NULL, 1), CST_OK);
    double *values = calloc((size_t)cst_search_population(search), sizeof *values);
    cst_rng_init(&rng, seed, CST_STREAM_TEST, 0);
    double value = 0;
    for (int g = 0; g <= generations; g++) {
        for (int32_t k = 0; k < cst_search_population(search); k++) {
            for (int64_t i = 0; i < n; i++)
                normals[i] = cst_rng_normal(&rng);
            cst_search_point(search, k, normals, x);
            values[k] = 0;
            for (int64_t i = 0; i < n; i++) {
                double scale = n > 1 ? pow(10, 4 * (double)i / (double)(n - 1)) : 1;
                values[k] += scale * (x[i] - (double)i) * (x[i] - (double)i);
            }
        }
        value = values[0];
        cst_search_update(search, values);
    }
    free(values);
    free(normals);
    free(x);
    cst_search_free(context, search);
    return value;
}

static void finds_the_least_value(void **state) {
    assert_true(minimise(*state, 1, 60, 1) < 1e-8);
    for (uint64_t seed = 0; seed < 5; seed++)
        assert_true(minimise(*state, 8, 400, seed) < 1e-8);
    assert_true(minimise(*state, 30, 900, 3) < 1e-8);
}

/* Only the order of values matters; what is no number comes last. */
static void order_is_all_that_matters(void **state) {
    cst_context *context = *state;
    cst_search *pair[2] = {NULL, NULL};
    double values[2][16] = {{0}};
    for (int s = 0; s < 2; s++)
        assert_int_equal(cst_search_create(context, &pair[s], 3, NULL, 0.5), CST_OK);
    int32_t population = cst_search_population(pair[0]);
    cst_rng rng;
    cst_rng_init(&rng, 7, CST_STREAM_TEST, 0);
    for (int g = 0; g < 5; g++) {
        for (int32_t k = 0; k < population; k++) {
            double x[3];
            double normals[3];
            for (int i = 0; i < 3; i++)
                normals[i] = cst_rng_normal(&rng);
            for (int s = 0; s < 2; s++)
                cst_search_point(pair[s], k, normals, x);
            double value = fabs(x[0]) + fabs(x[1] - 1) + fabs(x[2]);
            values[0][k] = k == 1 ? INFINITY : value;
            values[1][k] = k == 1 ? NAN : exp(value) - 3;
        }
        for (int s = 0; s < 2; s++)
            cst_search_update(pair[s], values[s]);
        assert_memory_equal(cst_search_mean(pair[0]), cst_search_mean(pair[1]), 3 * sizeof(double));
    }
    for (int s = 0; s < 2; s++)
        cst_search_free(context, pair[s]);
}

/* A function without slope leaves numbers finite, however long. */
static void flat_functions_stay_finite(void **state) {
    cst_context *context = *state;
    cst_search *search = NULL;
    double normals[2] = {3, -2};
    double values[16] = {0};
    double x[2];
    assert_int_equal(cst_search_create(context, &search, 2, NULL, 1), CST_OK);
    for (int g = 0; g < 20000; g++) {
        for (int32_t k = 0; k < cst_search_population(search); k++)
            cst_search_point(search, k, normals, x);
        cst_search_update(search, values);
        assert_true(cst_search_reach(search) > 0 && isfinite(cst_search_reach(search)));
    }
    cst_search_free(context, search);
}

int suite_search(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(goes_as_in_numpy, context_setup, context_teardown),
        cmocka_unit_test_setup_teardown(finds_the_least_value, context_setup, context_teardown),
        cmocka_unit_test_setup_teardown(order_is_all_that_matters, context_setup, context_teardown),
        cmocka_unit_test_setup_teardown(flat_functions_stay_finite, context_setup,
                                        context_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
