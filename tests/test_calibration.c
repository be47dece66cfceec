/*
 * Calibration maps: temperatures against SciPy, bounds, rows by hand, and 1 to 4 threads.
 */
#include "calibration/calibration.h"

#include "metrics/risk.h"
#include "pool/view.h"

#include "data/baselines.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { CELLS = POOL_ROWS * POOL_CLASSES };

static int setup(void **state) {
    return cst_context_create((cst_context **)state) != CST_OK;
}

static int teardown(void **state) {
    cst_context_free(*state);
    return 0;
}

/* Member k of the pool; k = POOL_MEMBERS: the average. */
static void probabilities_of(int k, float *out) {
    for (int j = 0; j < CELLS; j++) {
        double sum = 0;
        for (int m = 0; m < POOL_MEMBERS; m++)
            sum += (double)pool_probabilities[m * CELLS + j] / POOL_MEMBERS;
        out[j] = k < POOL_MEMBERS ? pool_probabilities[k * CELLS + j] : (float)sum;
    }
}

static void assert_close(double got, double expected, double tolerance) {
    if (!(fabs(got - expected) <= tolerance))
        fail_msg("got %.17g, expected %.17g", got, expected);
}

static void temperatures_are_those_of_scipy(void **state) {
    cst_context *context = *state;
    float p[CELLS];
    for (int k = 0; k <= POOL_MEMBERS; k++) {
        double temperature = 0;
        double nll = 0;
        probabilities_of(k, p);
        assert_int_equal(cst_temperature_fit(context, p, POOL_ROWS, POOL_CLASSES, pool_labels,
                                             &temperature, &nll),
                         CST_OK);
        /* Logarithms are kept as float32: 1e-7 relative. */
        assert_close(temperature, pool_temperatures[k], 1e-6 * pool_temperatures[k]);
        assert_close(nll, pool_scaled_nll[k], 1e-7);
    }
    assert_int_equal(cst_notice_count(context), 0);
}

static void scaled_average(void **state) {
    cst_context *context = *state;
    cst_calibrator map;
    float p[CELLS];
    probabilities_of(POOL_MEMBERS, p);
    assert_int_equal(cst_calibrator_fit(context, CST_CALIBRATOR_TEMPERATURE, p, POOL_ROWS,
                                        POOL_CLASSES, pool_labels, &map),
                     CST_OK);
    assert_true(strncmp(map.detail, "T = ", 4) == 0);
    assert_int_equal(cst_calibrator_apply(context, &map, p, POOL_ROWS), CST_OK);
    for (int j = 0; j < CELLS; j++)
        assert_close((double)p[j], pool_scaled_average[j], 1e-6);
    /* The NLL of what comes out is the least on the rows it was fitted on. */
    const float *scaled[] = {p};
    cst_view after = {POOL_ROWS, POOL_CLASSES, 1, scaled, pool_labels, NULL};
    double nll = 0;
    assert_int_equal(cst_risk_nll(context, &after, 0, &nll), CST_OK);
    assert_close(nll, pool_scaled_nll[POOL_MEMBERS], 1e-6);
    cst_calibrator_free(context, &map);
}

/* Always right: the colder the better, down to the bound. Always wrong: the hotter. */
static void temperature_stops_at_its_bounds(void **state) {
    cst_context *context = *state;
    const float p[] = {0.75F, 0.25F, 0.25F, 0.75F};
    const float flat[] = {0.5F, 0.5F, 0.5F, 0.5F}; /* every T is as good */
    int32_t labels[] = {0, 1};
    double temperature = 0;
    assert_int_equal(cst_temperature_fit(context, p, 2, 2, labels, &temperature, NULL), CST_OK);
    assert_close(temperature, CST_TEMPERATURE_LOW, 0);
    assert_int_equal(cst_notice_count(context), 1);
    labels[0] = 1;
    labels[1] = 0;
    assert_int_equal(cst_temperature_fit(context, p, 2, 2, labels, &temperature, NULL), CST_OK);
    assert_close(temperature, CST_TEMPERATURE_HIGH, 0);
    assert_int_equal(cst_notice_count(context), 2);
    assert_int_equal(cst_temperature_fit(context, flat, 2, 2, labels, &temperature, NULL), CST_OK);
    assert_close(temperature, 1, 0);
    assert_int_equal(cst_temperature_fit(context, flat, 2, 2, NULL, &temperature, NULL),
                     CST_ERROR_INPUT);
}

static void rows_by_hand(void **state) {
    (void)state;
    double p[] = {0.8, 0.2, 0, 1};
    cst_temperature_rows(2, 2, 2, p);
    assert_close(p[0], 2.0 / 3, 1e-15); /* sqrt(0.8) : sqrt(0.2) = 2 : 1 */
    assert_close(p[1], 1.0 / 3, 1e-15);
    assert_close(p[2], sqrt(1e-15) / (1 + sqrt(1e-15)), 1e-15);
}

static void same_bytes_for_any_number_of_threads(void **state) {
    cst_context *context = *state;
    enum { TIMES = 16 };
    float *p = malloc(TIMES * CELLS * sizeof *p);
    float *out = malloc(TIMES * CELLS * sizeof *out);
    float *first = malloc(TIMES * CELLS * sizeof *first);
    int32_t labels[POOL_ROWS * TIMES];
    double temperature = 0;
    assert_true(p && out && first);
    for (int t = 0; t < TIMES; t++)
        probabilities_of(POOL_MEMBERS, p + (size_t)t * CELLS);
    for (int i = 0; i < POOL_ROWS * TIMES; i++)
        labels[i] = pool_labels[i % POOL_ROWS];
    for (int threads = 1; threads <= 4; threads++) {
        cst_calibrator map;
        assert_int_equal(cst_context_set_threads(context, threads), CST_OK);
        assert_int_equal(cst_calibrator_fit(context, CST_CALIBRATOR_TEMPERATURE, p,
                                            POOL_ROWS * TIMES, POOL_CLASSES, labels, &map),
                         CST_OK);
        memcpy(out, p, TIMES * CELLS * sizeof *out);
        assert_int_equal(cst_calibrator_apply(context, &map, out, POOL_ROWS * TIMES), CST_OK);
        if (threads == 1) {
            memcpy(first, out, TIMES * CELLS * sizeof *out);
            temperature = map.temperature;
        }
        assert_memory_equal(first, out, TIMES * CELLS * sizeof *out);
        assert_memory_equal(&temperature, &map.temperature, sizeof temperature);
        cst_calibrator_free(context, &map);
    }
    assert_close(temperature, pool_temperatures[POOL_MEMBERS],
                 1e-6 * pool_temperatures[POOL_MEMBERS]);
    free(p);
    free(out);
    free(first);
}

static void every_map_has_a_name(void **state) {
    (void)state;
    assert_int_equal(cst_calibrator_find("temperature"), CST_CALIBRATOR_TEMPERATURE);
    assert_int_equal(cst_calibrator_find("heat"), CST_CALIBRATOR_NONE);
    for (int kind = 1; cst_calibrator_name((cst_calibrator_kind)kind); kind++) {
        const char *name = cst_calibrator_name((cst_calibrator_kind)kind);
        assert_int_equal(cst_calibrator_find(name), kind);
        assert_non_null(cst_calibrator_definition((cst_calibrator_kind)kind));
    }
    assert_null(cst_calibrator_name(CST_CALIBRATOR_NONE));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(temperatures_are_those_of_scipy, setup, teardown),
        cmocka_unit_test_setup_teardown(scaled_average, setup, teardown),
        cmocka_unit_test_setup_teardown(temperature_stops_at_its_bounds, setup, teardown),
        cmocka_unit_test(rows_by_hand),
        cmocka_unit_test_setup_teardown(same_bytes_for_any_number_of_threads, setup, teardown),
        cmocka_unit_test(every_map_has_a_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
