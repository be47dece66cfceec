/*
 * Calibration maps: each against SciPy and scikit-learn, optimality, bounds, edge cases, rows by
 * hand, and 1 to 4 threads.
 */
#include "method/calibration/calibration.h"

#include "data/pool/view.h"
#include "stats/samples.h"

#include "data/baselines.h"
#include "data/calibration.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "check.h"

enum { CELLS = POOL_ROWS * POOL_CLASSES };

/* Member k of the pool; k = POOL_MEMBERS: the average. */
static void probabilities_of(int k, float *out) {
    for (int j = 0; j < CELLS; j++) {
        double sum = 0;
        for (int m = 0; m < POOL_MEMBERS; m++)
            sum += (double)pool_probabilities[m * CELLS + j] / POOL_MEMBERS;
        out[j] = k < POOL_MEMBERS ? pool_probabilities[k * CELLS + j] : (float)sum;
    }
}

static void temperatures_are_those_of_scipy(void **state) {
    cst_context *context = *state;
    float p[CELLS];
    for (int k = 0; k <= POOL_MEMBERS; k++) {
        double temperature = 0;
        double nll = 0;
        probabilities_of(k, p);
        assert_int_equal(
            cst_temperature_fit(context,
                                &(cst_labelled){p, POOL_ROWS, POOL_CLASSES, pool_labels, NULL},
                                NULL, &temperature, &nll),
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
    assert_int_equal(
        cst_calibrator_fit(context, CST_CALIBRATOR_TEMPERATURE,
                           &(cst_labelled){p, POOL_ROWS, POOL_CLASSES, pool_labels, NULL}, &map),
        CST_OK);
    assert_true(strncmp(map.detail, "T = ", 4) == 0);
    assert_int_equal(cst_calibrator_apply(context, &map, p, POOL_ROWS), CST_OK);
    for (int j = 0; j < CELLS; j++)
        assert_close((double)p[j], pool_scaled_average[j], 1e-6);
    /* The NLL of what comes out is the least on the rows it was fitted on. */
    const float *scaled[] = {p};
    cst_view after = {.rows = POOL_ROWS,
                      .classes = POOL_CLASSES,
                      .members = 1,
                      .data = scaled,
                      .labels = pool_labels};
    double nll = 0;
    assert_int_equal(cst_risk_all(context, &after, &nll), CST_OK);
    assert_close(nll, pool_scaled_nll[POOL_MEMBERS], 1e-6);
    cst_calibrator_free(context, &map);
}

/* A start elsewhere and a wide last step end where SciPy does, also outside the bounds. */
static void a_near_start_ends_at_the_same_temperature(void **state) {
    static const double starts[] = {0.5, 1.3, 5, 1000};
    cst_context *context = *state;
    float p[CELLS];
    probabilities_of(0, p);
    for (size_t i = 0; i < sizeof starts / sizeof starts[0]; i++) {
        const cst_temperature_options options = {.start = starts[i], .tolerance = 1e-4};
        double found = 0;
        assert_int_equal(
            cst_temperature_fit(context,
                                &(cst_labelled){p, POOL_ROWS, POOL_CLASSES, pool_labels, NULL},
                                &options, &found, NULL),
            CST_OK);
        assert_close(found, pool_temperatures[0], 1e-6 * pool_temperatures[0]);
    }
}

/* Always right: the colder the better, down to the bound. Always wrong: the hotter. */
static void temperature_stops_at_its_bounds(void **state) {
    cst_context *context = *state;
    const float p[] = {0.75F, 0.25F, 0.25F, 0.75F};
    const float flat[] = {0.5F, 0.5F, 0.5F, 0.5F}; /* every T is as good */
    int32_t labels[] = {0, 1};
    double temperature = 0;
    assert_int_equal(cst_temperature_fit(context, &(cst_labelled){p, 2, 2, labels, NULL}, NULL,
                                         &temperature, NULL),
                     CST_OK);
    assert_close(temperature, CST_TEMPERATURE_LOW, 0);
    assert_int_equal(cst_notice_count(context), 1);
    labels[0] = 1;
    labels[1] = 0;
    assert_int_equal(cst_temperature_fit(context, &(cst_labelled){p, 2, 2, labels, NULL}, NULL,
                                         &temperature, NULL),
                     CST_OK);
    assert_close(temperature, CST_TEMPERATURE_HIGH, 0);
    assert_int_equal(cst_notice_count(context), 2);
    assert_int_equal(cst_temperature_fit(context, &(cst_labelled){flat, 2, 2, labels, NULL}, NULL,
                                         &temperature, NULL),
                     CST_OK);
    assert_close(temperature, 1, 0);
    assert_int_equal(cst_temperature_fit(context, &(cst_labelled){flat, 2, 2, NULL, NULL}, NULL,
                                         &temperature, NULL),
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

/* ---- vector, isotonic and Platt ---- */

typedef struct calibration_case calibration_case;
enum { CASES = sizeof calibration_cases / sizeof calibration_cases[0], MAX_ROWS = 150 };

static cst_calibrator fit_case(cst_context *context, cst_calibrator_kind kind,
                               const calibration_case *at) {
    cst_calibrator map;
    assert_int_equal(
        cst_calibrator_fit(context, kind,
                           &(cst_labelled){at->p, at->rows, at->classes, at->labels, NULL}, &map),
        CST_OK);
    return map;
}

/* Within float32's rounding of the oracle, relatively, and a distribution. */
static void assert_applies(cst_context *context, const cst_calibrator *map,
                           const calibration_case *at, const double *expected) {
    float out[CALIBRATION_FRESH * 5];
    int32_t classes = at->classes;
    memcpy(out, at->fresh, (size_t)(CALIBRATION_FRESH * classes) * sizeof *out);
    assert_int_equal(cst_calibrator_apply(context, map, out, CALIBRATION_FRESH), CST_OK);
    for (int i = 0; i < CALIBRATION_FRESH; i++) {
        double sum = 0;
        for (int j = i * classes; j < (i + 1) * classes; j++) {
            assert_close((double)out[j], expected[j], 1e-6 * expected[j]);
            sum += (double)out[j];
        }
        assert_close(sum, 1, 1e-6);
    }
}

static double own_log(float p) {
    return log(fmax((double)p, CST_NLL_FLOOR));
}

/* Gradient of the penalised total NLL, in float64 from the definition; returns the loss. */
static double vector_gradient(const calibration_case *at, const double *a, const double *b,
                              double *by_a, double *by_b) {
    double loss = 0;
    for (int c = 0; c < at->classes; c++) {
        by_a[c] = CST_VECTOR_PRIOR * (a[c] - 1);
        by_b[c] = CST_VECTOR_PRIOR * b[c];
        loss += 0.5 * CST_VECTOR_PRIOR * ((a[c] - 1) * (a[c] - 1) + b[c] * b[c]);
    }
    for (int i = 0; i < at->rows; i++) {
        const float *p = at->p + (size_t)i * (size_t)at->classes;
        double total = 0;
        for (int c = 0; c < at->classes; c++)
            total += exp(a[c] * own_log(p[c]) + b[c]);
        for (int c = 0; c < at->classes; c++) {
            double z = a[c] * own_log(p[c]) + b[c];
            double residual = exp(z) / total - (at->labels[i] == c);
            by_a[c] += residual * own_log(p[c]);
            by_b[c] += residual;
            loss += at->labels[i] == c ? log(total) - z : 0;
        }
    }
    return loss;
}

static void vector_is_that_of_scipy(void **state) {
    cst_context *context = *state;
    for (int k = 0; k < CASES; k++) {
        const calibration_case *at = &calibration_cases[k];
        cst_calibrator map = fit_case(context, CST_CALIBRATOR_VECTOR, at);
        double by_a[5];
        double by_b[5];
        double loss = vector_gradient(at, map.slopes, map.intercepts, by_a, by_b);
        assert_close(loss, at->vector_loss, 1e-12 * at->vector_loss);
        for (int c = 0; c < at->classes; c++) {
            assert_close(map.slopes[c], at->vector_slopes[c], 1e-6 * fabs(at->vector_slopes[c]));
            assert_close(map.intercepts[c], at->vector_intercepts[c],
                         1e-6 * fmax(0.1, fabs(at->vector_intercepts[c])));
            /* Logarithms are kept as float32: up to 35 * 6e-8 a row. */
            assert_close(by_a[c], 0, 1e-5);
            assert_close(by_b[c], 0, 1e-5);
        }
        assert_true(strncmp(map.detail, "a ", 2) == 0);
        assert_applies(context, &map, at, at->vector_fresh);
        cst_calibrator_free(context, &map);
    }
    assert_int_equal(cst_notice_count(context), 0);
}

/* Knots ascend, values do not fall, and every row's value is the mean of its block: within a block
 * hits and values have the same sum, and a block cut in two would have the higher mean first. */
static void assert_isotonic(const calibration_case *at, const cst_isotonic *step, int class) {
    assert_true(step->count >= 1);
    for (int64_t j = 1; j < step->count; j++)
        assert_true(step->x[j] > step->x[j - 1] && step->y[j] >= step->y[j - 1]);
    for (int64_t j = 0; j < step->count; j++) {
        double value = step->y[j];
        double rows = 0;
        double hits = 0;
        for (int i = 0; i < at->rows; i++) {
            double x = (double)at->p[i * at->classes + class];
            if (cst_isotonic_value(step, x) != value)
                continue;
            rows += 1;
            hits += at->labels[i] == class;
        }
        assert_true(rows > 0);
        assert_close(hits / rows, value, 1e-15);
        for (int i = 0; i < at->rows; i++) { /* no prefix of a block lies below its mean */
            double cut = (double)at->p[i * at->classes + class];
            double first = 0;
            double first_hits = 0;
            for (int m = 0; m < at->rows; m++) {
                double x = (double)at->p[m * at->classes + class];
                bool in = x <= cut && cst_isotonic_value(step, x) == value;
                first += in;
                first_hits += in && at->labels[m] == class;
            }
            assert_true(first == 0 || first_hits / first >= value - 1e-15);
        }
    }
}

static void isotonic_is_that_of_scikit_learn(void **state) {
    cst_context *context = *state;
    for (int k = 0; k < CASES; k++) {
        const calibration_case *at = &calibration_cases[k];
        cst_calibrator map = fit_case(context, CST_CALIBRATOR_ISOTONIC, at);
        for (int c = 0; c < at->classes; c++)
            assert_isotonic(at, &map.steps[c], c);
        assert_non_null(strstr(map.detail, "knots"));
        assert_applies(context, &map, at, at->isotonic_fresh);
        cst_calibrator_free(context, &map);
    }
}

static void platt_is_that_of_scipy(void **state) {
    cst_context *context = *state;
    for (int k = 0; k < CASES; k++) {
        const calibration_case *at = &calibration_cases[k];
        cst_calibrator map = fit_case(context, CST_CALIBRATOR_PLATT, at);
        for (int c = 0; c < at->classes; c++) {
            double positives = 0;
            double by_slope = 0;
            double by_intercept = 0;
            for (int i = 0; i < at->rows; i++)
                positives += at->labels[i] == c;
            for (int i = 0; i < at->rows; i++) {
                double p = fmin(fmax((double)at->p[i * at->classes + c], CST_PLATT_FLOOR),
                                1 - CST_PLATT_FLOOR);
                double f = log(p) - log1p(-p);
                double target = at->labels[i] == c ? (positives + 1) / (positives + 2)
                                                   : 1 / (at->rows - positives + 2);
                double q = 1 / (1 + exp(-map.slopes[c] * f - map.intercepts[c]));
                by_slope += (q - target) * f;
                by_intercept += q - target;
            }
            assert_close(by_slope, 0, 1e-8);
            assert_close(by_intercept, 0, 1e-8);
            assert_close(map.slopes[c], at->platt_slopes[c],
                         1e-6 * fmax(0.1, fabs(at->platt_slopes[c])));
            assert_close(map.intercepts[c], at->platt_intercepts[c],
                         1e-6 * fmax(0.1, fabs(at->platt_intercepts[c])));
        }
        assert_applies(context, &map, at, at->platt_fresh);
        cst_calibrator_free(context, &map);
    }
}

/* Two classes: both sigmoids say the same, so that normalising changes nothing but rounding. */
static void platt_of_two_classes_is_one_sigmoid(void **state) {
    cst_context *context = *state;
    const calibration_case *at = &calibration_cases[1];
    assert_int_equal(at->classes, 2);
    cst_calibrator map = fit_case(context, CST_CALIBRATOR_PLATT, at);
    assert_close(map.slopes[0], map.slopes[1], 1e-5);
    assert_close(map.intercepts[0], -map.intercepts[1], 1e-5);
    cst_calibrator_free(context, &map);
}

static void isotonic_by_hand(void **state) {
    cst_context *context = *state;
    /* Class 1 in the rows of p = 0.1, 0.3 twice (one hit), 0.4, 0.9: blocks {0.1}, {0.3, 0.3, 0.4}
     * of mean 1/3, {0.9}. Class 0 mirrors it. */
    const float p[] = {0.9F, 0.1F, 0.7F, 0.3F, 0.7F, 0.3F, 0.6F, 0.4F, 0.1F, 0.9F};
    const int32_t labels[] = {0, 1, 0, 0, 1};
    cst_calibrator map;
    assert_int_equal(cst_calibrator_fit(context, CST_CALIBRATOR_ISOTONIC,
                                        &(cst_labelled){p, 5, 2, labels, NULL}, &map),
                     CST_OK);
    const cst_isotonic *step = &map.steps[1];
    const double x[] = {(double)0.1F, (double)0.3F, (double)0.4F, (double)0.9F};
    const double y[] = {0, 1.0 / 3, 1.0 / 3, 1};
    assert_int_equal(step->count, 4);
    for (int j = 0; j < 4; j++) {
        assert_close(step->x[j], x[j], 0);
        assert_close(step->y[j], y[j], 1e-15);
        assert_close(cst_isotonic_value(step, x[j]), y[j], 1e-15);
    }
    assert_close(cst_isotonic_value(step, 0), 0, 0);
    assert_close(cst_isotonic_value(step, 1), 1, 0);
    assert_close(cst_isotonic_value(step, (x[0] + x[1]) / 2), 1.0 / 6, 1e-15);
    assert_close(cst_isotonic_value(step, (x[2] + x[3]) / 2), 2.0 / 3, 1e-15);
    /* The floor keeps a class that never was right there: 0 becomes 1e-6 of the sum. */
    float out[] = {1, 0};
    assert_int_equal(cst_calibrator_apply(context, &map, out, 1), CST_OK);
    assert_close((double)out[1], 1e-6 / (1 + 1e-6), 1e-12);
    cst_calibrator_free(context, &map);
    /* Nothing but the floor in a row: uniform. */
    const float one[] = {0.2F, 0.5F, 0.3F, 0.2F, 0.3F, 0.5F};
    const int32_t zero[] = {0, 0};
    float low[] = {0, 0.4F, 0.6F};
    assert_int_equal(cst_calibrator_fit(context, CST_CALIBRATOR_ISOTONIC,
                                        &(cst_labelled){one, 2, 3, zero, NULL}, &map),
                     CST_OK);
    for (int64_t j = 0; j < map.steps[0].count; j++)
        map.steps[0].y[j] = 0;
    assert_int_equal(cst_calibrator_apply(context, &map, low, 1), CST_OK);
    for (int c = 0; c < 3; c++)
        assert_close((double)low[c], 1.0 / 3, 1e-7);
    cst_calibrator_free(context, &map);
}

/* Separable rows: finite parameters that the prior decides. */
static void maps_of_separable_rows_are_finite(void **state) {
    cst_context *context = *state;
    const float p[] = {1, 0, 0, 1, 1, 0, 0, 1};
    const int32_t labels[] = {0, 1, 0, 1};
    for (int kind = 1; kind <= CST_CALIBRATOR_PLATT; kind++) {
        cst_calibrator map;
        float out[8];
        assert_int_equal(cst_calibrator_fit(context, (cst_calibrator_kind)kind,
                                            &(cst_labelled){p, 4, 2, labels, NULL}, &map),
                         CST_OK);
        memcpy(out, p, sizeof out);
        assert_int_equal(cst_calibrator_apply(context, &map, out, 4), CST_OK);
        for (int i = 0; i < 4; i++) {
            assert_true(out[2 * i + labels[i]] > 0.7F);
            assert_true(out[2 * i + 1 - labels[i]] >= 0);
            assert_close((double)out[2 * i] + (double)out[2 * i + 1], 1, 1e-6);
        }
        cst_calibrator_free(context, &map);
        assert_int_equal(cst_calibrator_fit(context, (cst_calibrator_kind)kind,
                                            &(cst_labelled){p, 0, 2, labels, NULL}, &map),
                         CST_ERROR_INPUT);
        assert_null(map.slopes);
        assert_int_equal(cst_calibrator_fit(context, (cst_calibrator_kind)kind,
                                            &(cst_labelled){p, 4, 2, NULL, NULL}, &map),
                         CST_ERROR_INPUT);
    }
}

/* Fails the allocation number `left` counts down to; counts what is held. */
typedef struct meter {
    int64_t left;
    int64_t held;
} meter;

static void *metered(void *user, void *pointer, size_t bytes) {
    meter *m = user;
    if (bytes == 0) {
        m->held -= pointer != NULL;
        free(pointer);
        return NULL;
    }
    if (m->left-- <= 0)
        return NULL;
    m->held += pointer == NULL;
    return realloc(pointer, bytes);
}

static void memory_may_run_out_anywhere(void **state) {
    (void)state;
    const calibration_case *at = &calibration_cases[1];
    for (int kind = 1; kind <= CST_CALIBRATOR_PLATT; kind++) {
        cst_status status = CST_ERROR_MEMORY;
        int64_t allowed = 2;
        for (; status != CST_OK; allowed++) {
            meter m = {.left = allowed};
            cst_context *context = NULL;
            cst_calibrator map = {0};
            float out[120];
            memcpy(out, at->p, sizeof out);
            status = cst_context_create_with(&context, metered, &m);
            if (status == CST_OK)
                status = cst_context_set_threads(context, 1);
            if (status == CST_OK)
                status = cst_calibrator_fit(
                    context, (cst_calibrator_kind)kind,
                    &(cst_labelled){at->p, at->rows, at->classes, at->labels, NULL}, &map);
            if (status == CST_OK)
                status = cst_calibrator_apply(context, &map, out, at->rows);
            assert_true(status == CST_OK || status == CST_ERROR_MEMORY);
            cst_calibrator_free(context, &map);
            cst_context_free(context);
            assert_int_equal(m.held, 0);
        }
        assert_true(allowed > 4);
    }
}

static void same_bytes_for_any_number_of_threads(void **state) {
    cst_context *context = *state;
    enum { TIMES = 16 };
    float *p = malloc(TIMES * CELLS * sizeof *p);
    float *out = malloc(TIMES * CELLS * sizeof *out);
    float *first = malloc(TIMES * CELLS * sizeof *first);
    int32_t labels[POOL_ROWS * TIMES];
    assert_true(p && out && first);
    for (int t = 0; t < TIMES; t++)
        probabilities_of(t % (POOL_MEMBERS + 1), p + (size_t)t * CELLS);
    for (int i = 0; i < POOL_ROWS * TIMES; i++)
        labels[i] = pool_labels[i % POOL_ROWS];
    for (int run = 0; run < 4 * CST_CALIBRATOR_PLATT; run++) {
        cst_calibrator_kind kind = (cst_calibrator_kind)(1 + run / 4);
        cst_calibrator map;
        assert_int_equal(cst_context_set_threads(context, 1 + run % 4), CST_OK);
        assert_int_equal(
            cst_calibrator_fit(context, kind,
                               &(cst_labelled){p, POOL_ROWS * TIMES, POOL_CLASSES, labels, NULL},
                               &map),
            CST_OK);
        memcpy(out, p, TIMES * CELLS * sizeof *out);
        assert_int_equal(cst_calibrator_apply(context, &map, out, POOL_ROWS * TIMES), CST_OK);
        if (run % 4 == 0)
            memcpy(first, out, TIMES * CELLS * sizeof *out);
        assert_memory_equal(first, out, TIMES * CELLS * sizeof *out);
        assert_memory_not_equal(p, out, TIMES * CELLS * sizeof *out);
        cst_calibrator_free(context, &map);
    }
    free(p);
    free(out);
    free(first);
}

static void every_map_has_a_name(void **state) {
    (void)state;
    assert_int_equal(cst_calibrator_find("temperature"), CST_CALIBRATOR_TEMPERATURE);
    assert_int_equal(cst_calibrator_find("heat"), CST_CALIBRATOR_NONE);
    assert_int_equal(cst_calibrator_find("vector"), CST_CALIBRATOR_VECTOR);
    assert_int_equal(cst_calibrator_find("isotonic"), CST_CALIBRATOR_ISOTONIC);
    assert_int_equal(cst_calibrator_find("platt"), CST_CALIBRATOR_PLATT);
    for (int kind = 1; cst_calibrator_name((cst_calibrator_kind)kind); kind++) {
        const char *name = cst_calibrator_name((cst_calibrator_kind)kind);
        assert_int_equal(cst_calibrator_find(name), kind);
        assert_non_null(cst_calibrator_definition((cst_calibrator_kind)kind));
    }
    assert_null(cst_calibrator_name(CST_CALIBRATOR_NONE));
}

int suite_calibration(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(temperatures_are_those_of_scipy, context_setup,
                                        context_teardown),
        cmocka_unit_test_setup_teardown(scaled_average, context_setup, context_teardown),
        cmocka_unit_test_setup_teardown(a_near_start_ends_at_the_same_temperature, context_setup,
                                        context_teardown),
        cmocka_unit_test_setup_teardown(temperature_stops_at_its_bounds, context_setup,
                                        context_teardown),
        cmocka_unit_test(rows_by_hand),
        cmocka_unit_test_setup_teardown(same_bytes_for_any_number_of_threads, context_setup,
                                        context_teardown),
        cmocka_unit_test_setup_teardown(vector_is_that_of_scipy, context_setup, context_teardown),
        cmocka_unit_test_setup_teardown(isotonic_is_that_of_scikit_learn, context_setup,
                                        context_teardown),
        cmocka_unit_test_setup_teardown(platt_is_that_of_scipy, context_setup, context_teardown),
        cmocka_unit_test_setup_teardown(platt_of_two_classes_is_one_sigmoid, context_setup,
                                        context_teardown),
        cmocka_unit_test_setup_teardown(isotonic_by_hand, context_setup, context_teardown),
        cmocka_unit_test_setup_teardown(maps_of_separable_rows_are_finite, context_setup,
                                        context_teardown),
        cmocka_unit_test(memory_may_run_out_anywhere),
        cmocka_unit_test(every_map_has_a_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
