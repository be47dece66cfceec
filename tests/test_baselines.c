/*
 * Baselines: choices and temperatures against NumPy and SciPy, prediction, and 1 to 4 threads.
 */
#include "baselines/baselines.h"

#include "blend/blend.h"
#include "blend/greedy.h"
#include "metrics/risk.h"
#include "pool/folds.h"

#include <corestack/metrics.h>

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

static cst_view pool(void) {
    static const float *data[POOL_MEMBERS];
    for (int k = 0; k < POOL_MEMBERS; k++)
        data[k] = pool_probabilities + (size_t)k * CELLS;
    return (cst_view){.rows = POOL_ROWS,
                      .classes = POOL_CLASSES,
                      .members = POOL_MEMBERS,
                      .data = data,
                      .labels = pool_labels};
}

static void assert_close(double got, double expected, double tolerance) {
    if (!(fabs(got - expected) <= tolerance))
        fail_msg("got %.17g, expected %.17g", got, expected);
}

static void best_single_by_either_measure(void **state) {
    cst_context *context = *state;
    cst_view view = pool();
    cst_baseline b;
    float out[CELLS];
    const cst_baseline_kind kinds[] = {CST_BASELINE_BEST_SINGLE, CST_BASELINE_BEST_SINGLE_TOP1};
    const int best[] = {POOL_LEAST_NLL, POOL_MOST_TOP1};
    for (int i = 0; i < 2; i++) {
        assert_int_equal(cst_baseline_fit_view(context, &view, kinds[i], false, &b), CST_OK);
        assert_int_equal(b.used, 1);
        assert_true(b.weights[best[i]] == 1 && b.temperature == 1 && !b.scaled);
        assert_int_equal(cst_baseline_predict_view(context, &b, &view, out), CST_OK);
        assert_memory_equal(out, view.data[best[i]], sizeof out);
        cst_baseline_free(context, &b);
    }
}

static void temperatures_are_those_of_scipy(void **state) {
    cst_context *context = *state;
    cst_view view = pool();
    for (int k = 0; k <= POOL_MEMBERS; k++) {
        double weights[POOL_MEMBERS];
        double temperature = 0;
        double nll = 0;
        for (int j = 0; j < POOL_MEMBERS; j++)
            weights[j] = k == POOL_MEMBERS ? 1.0 / POOL_MEMBERS : j == k;
        assert_int_equal(cst_temperature_fit(context, &view, weights, &temperature, &nll), CST_OK);
        /* Logarithms are kept as float32: 1e-7 relative. */
        assert_close(temperature, pool_temperatures[k], 1e-6 * pool_temperatures[k]);
        assert_close(nll, pool_scaled_nll[k], 1e-7);
    }
    assert_int_equal(cst_notice_count(context), 0);
}

static void scaled_average_predicts(void **state) {
    cst_context *context = *state;
    cst_view view = pool();
    cst_baseline b;
    float out[CELLS];
    assert_int_equal(cst_baseline_fit_view(context, &view, CST_BASELINE_AVERAGE, true, &b), CST_OK);
    assert_true(b.scaled && b.used == POOL_MEMBERS && b.weights[2] == 0.25);
    assert_int_equal(cst_baseline_predict_view(context, &b, &view, out), CST_OK);
    for (int j = 0; j < CELLS; j++)
        assert_close((double)out[j], pool_scaled_average[j], 1e-6);
    /* The NLL of what is predicted is the least on the rows it was fitted on. */
    const float *scaled[] = {out};
    cst_view after = view;
    after.members = 1;
    after.data = scaled;
    double nll = 0;
    assert_int_equal(cst_risk_nll(context, &after, 0, &nll), CST_OK);
    assert_close(nll, pool_scaled_nll[POOL_MEMBERS], 1e-6);
    view.members = 2;
    assert_int_equal(cst_baseline_predict_view(context, &b, &view, out), CST_ERROR_MISMATCH);
    cst_baseline_free(context, &b);
}

static void greedy_is_greedy_selection(void **state) {
    cst_context *context = *state;
    cst_view view = pool();
    cst_baseline b;
    cst_greedy g;
    assert_int_equal(cst_baseline_fit_view(context, &view, CST_BASELINE_GREEDY, false, &b), CST_OK);
    assert_int_equal(cst_greedy_select(context, &view, 25, 0, &g), CST_OK);
    assert_memory_equal(b.weights, g.weights, POOL_MEMBERS * sizeof *b.weights);
    assert_true(g.rounds > 1);
    int used = 0;
    for (int k = 0; k < POOL_MEMBERS; k++)
        used += g.weights[k] > 0;
    assert_int_equal(b.used, used);
    cst_greedy_free(context, &g);
    cst_baseline_free(context, &b);
}

/* Always right: the colder the better, down to the bound. Always wrong: the hotter. */
static void temperature_stops_at_its_bounds(void **state) {
    cst_context *context = *state;
    const float p[] = {0.75F, 0.25F, 0.25F, 0.75F};
    const float *data[] = {p};
    int32_t labels[] = {0, 1};
    cst_view view = {2, 2, 1, data, labels, NULL};
    const double one = 1;
    double temperature = 0;
    assert_int_equal(cst_temperature_fit(context, &view, &one, &temperature, NULL), CST_OK);
    assert_close(temperature, CST_TEMPERATURE_LOW, 0);
    assert_int_equal(cst_notice_count(context), 1);
    labels[0] = 1;
    labels[1] = 0;
    assert_int_equal(cst_temperature_fit(context, &view, &one, &temperature, NULL), CST_OK);
    assert_close(temperature, CST_TEMPERATURE_HIGH, 0);
    assert_int_equal(cst_notice_count(context), 2);
    const float flat[] = {0.5F, 0.5F, 0.5F, 0.5F}; /* every T is as good */
    data[0] = flat;
    assert_int_equal(cst_temperature_fit(context, &view, &one, &temperature, NULL), CST_OK);
    assert_close(temperature, 1, 0);
    view.labels = NULL;
    assert_int_equal(cst_temperature_fit(context, &view, &one, &temperature, NULL),
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

static void threads_and_rows_of_a_view(void **state) {
    cst_context *context = *state;
    enum { TIMES = 16 };
    cst_view all = pool();
    int64_t index[POOL_ROWS * TIMES]; /* the pool's rows over and over: several blocks */
    for (int i = 0; i < POOL_ROWS * TIMES; i++)
        index[i] = i % POOL_ROWS;
    all.rows = POOL_ROWS * TIMES;
    all.index = index;
    float *out = malloc(TIMES * CELLS * sizeof *out);
    float *first = malloc(TIMES * CELLS * sizeof *first);
    double temperature = 0;
    assert_true(out && first);
    for (int threads = 1; threads <= 4; threads++) {
        cst_baseline b;
        assert_int_equal(cst_context_set_threads(context, threads), CST_OK);
        assert_int_equal(cst_baseline_fit_view(context, &all, CST_BASELINE_AVERAGE, true, &b),
                         CST_OK);
        assert_int_equal(cst_baseline_predict_view(context, &b, &all, out), CST_OK);
        if (threads == 1) {
            memcpy(first, out, TIMES * CELLS * sizeof *out);
            temperature = b.temperature;
        }
        assert_memory_equal(first, out, TIMES * CELLS * sizeof *out);
        assert_memory_equal(&temperature, &b.temperature, sizeof temperature);
        cst_baseline_free(context, &b);
    }
    assert_close(temperature, pool_temperatures[POOL_MEMBERS],
                 1e-6 * pool_temperatures[POOL_MEMBERS]);
    free(out);
    free(first);
}

static void every_kind_has_a_name(void **state) {
    (void)state;
    assert_string_equal(cst_baseline_name(CST_BASELINE_BEST_SINGLE), "best-single");
    assert_string_equal(cst_baseline_name(CST_BASELINE_BEST_SINGLE_TOP1), "best-single-top1");
    assert_string_equal(cst_baseline_name(CST_BASELINE_AVERAGE), "average");
    assert_string_equal(cst_baseline_name(CST_BASELINE_GREEDY), "greedy");
    assert_null(cst_baseline_name((cst_baseline_kind)77));
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

static cst_status everything(cst_context *context) {
    cst_view view = pool();
    cst_baseline b = {0};
    cst_metrics metrics;
    cst_metric_intervals intervals;
    int32_t folds[POOL_ROWS];
    int64_t groups[POOL_ROWS];
    double weights[POOL_MEMBERS];
    float out[CELLS];
    for (int i = 0; i < POOL_ROWS; i++)
        groups[i] = i / 3;
    cst_status status = cst_baseline_fit_view(context, &view, CST_BASELINE_GREEDY, true, &b);
    if (status == CST_OK)
        status = cst_baseline_predict_view(context, &b, &view, out);
    cst_baseline_free(context, &b);
    if (status == CST_OK)
        status = cst_baseline_best_single(context, &view, true, weights);
    for (int rule = CST_BLEND_INVERSE_RMSE; status == CST_OK && rule <= CST_BLEND_STACKING;
         rule++) {
        cst_blend_options options = {.rule = (cst_blend_rule)rule};
        status = cst_blend_weights(context, &view, NULL, NULL, &options, weights);
    }
    if (status == CST_OK)
        status = cst_folds_stratified(context, pool_labels, POOL_ROWS, 5, 0, folds);
    if (status == CST_OK)
        status = cst_folds_check(context, folds, pool_labels, POOL_ROWS);
    if (status == CST_OK)
        status = cst_folds_grouped(context, pool_labels, groups, POOL_ROWS, 5, 0, folds);
    if (status == CST_OK)
        status = cst_metrics_evaluate(context, view.data[0], POOL_ROWS, POOL_CLASSES, pool_labels,
                                      15, &metrics);
    if (status == CST_OK)
        status = cst_bootstrap_difference(context, view.data[0], view.data[1], POOL_ROWS,
                                          POOL_CLASSES, pool_labels, 15, 9, 0, &intervals);
    return status;
}

/* The 1st, 2nd, ... allocation fails until all succeed: every failure is reported, none leaks. */
static void memory_may_run_out_anywhere(void **state) {
    (void)state;
    cst_status status = CST_ERROR_MEMORY;
    int64_t allowed = 1;
    for (; status != CST_OK; allowed++) {
        meter m = {.left = allowed};
        cst_context *context = NULL;
        assert_int_equal(cst_context_create_with(&context, metered, &m), CST_OK);
        assert_int_equal(cst_context_set_threads(context, 1), CST_OK);
        status = everything(context);
        assert_true(status == CST_OK || status == CST_ERROR_MEMORY);
        assert_true(status == CST_OK || strstr(cst_last_error(context), "out of memory"));
        cst_context_free(context);
        assert_int_equal(m.held, 0);
    }
    assert_true(allowed > 100);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(best_single_by_either_measure, setup, teardown),
        cmocka_unit_test_setup_teardown(temperatures_are_those_of_scipy, setup, teardown),
        cmocka_unit_test_setup_teardown(scaled_average_predicts, setup, teardown),
        cmocka_unit_test_setup_teardown(greedy_is_greedy_selection, setup, teardown),
        cmocka_unit_test_setup_teardown(temperature_stops_at_its_bounds, setup, teardown),
        cmocka_unit_test(rows_by_hand),
        cmocka_unit_test_setup_teardown(threads_and_rows_of_a_view, setup, teardown),
        cmocka_unit_test(every_kind_has_a_name),
        cmocka_unit_test(memory_may_run_out_anywhere),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
