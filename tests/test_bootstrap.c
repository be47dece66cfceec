/*
 * Bootstrap intervals: against resampled data scored one by one, against the normal approximation,
 * paired, and with 1 to 4 threads.
 */
#include "base/base.h"

#include <corestack/metrics.h>

#include "data/metrics.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { ROWS = smooth_rows, CLASSES = smooth_classes };

static int setup(void **state) {
    return cst_context_create((cst_context **)state) != CST_OK;
}

static int teardown(void **state) {
    cst_context_free(*state);
    return 0;
}

static void assert_close(double got, double expected, double tolerance) {
    if (!(fabs(got - expected) <= tolerance))
        fail_msg("got %.17g, expected %.17g", got, expected);
}

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a;
    double y = *(const double *)b;
    return (x > y) - (x < y);
}

static void assert_percentiles(const cst_interval *got, double *scores, int count) {
    qsort(scores, (size_t)count, sizeof *scores, ascending);
    const double level[] = {0.025, 0.975};
    for (int side = 0; side < 2; side++) {
        double at = level[side] * (count - 1);
        int below = (int)floor(at);
        double expected = scores[below] * (1 - (at - below)) + scores[below + 1] * (at - below);
        assert_close(side ? got->high : got->low, expected, 1e-10);
    }
}

/* Resample r draws row floor(word * N / 2^32) for each word of stream (seed, BOOTSTRAP, r); no word
 * of these streams is refused (that happens to one in seven million at N = 600). */
static void resample(uint64_t seed, uint32_t r, const float *p, float *out, int32_t *labels) {
    cst_rng rng;
    cst_rng_init(&rng, seed, CST_STREAM_BOOTSTRAP, r);
    for (int i = 0; i < ROWS; i++) {
        uint64_t row = (uint64_t)cst_rng_u32(&rng) * ROWS >> 32;
        memcpy(out + (size_t)i * CLASSES, p + row * CLASSES, CLASSES * sizeof *out);
        labels[i] = smooth_labels[row];
    }
}

enum { RESAMPLES = 203 };

static void intervals_are_percentiles_of_scored_resamples(void **state) {
    cst_context *context = *state;
    static float p[ROWS * CLASSES];
    int32_t labels[ROWS];
    double scores[4][RESAMPLES];
    for (uint32_t r = 0; r < RESAMPLES; r++) {
        cst_metrics m;
        resample(99, r, smooth_probabilities, p, labels);
        assert_int_equal(cst_metrics_evaluate(context, p, ROWS, CLASSES, labels, 15, &m), CST_OK);
        scores[0][r] = m.top1;
        scores[1][r] = m.nll;
        scores[2][r] = m.brier;
        scores[3][r] = m.ece;
    }
    cst_metric_intervals got;
    assert_int_equal(cst_bootstrap_metrics(context, smooth_probabilities, ROWS, CLASSES,
                                           smooth_labels, 15, RESAMPLES, 99, &got),
                     CST_OK);
    assert_int_equal(got.resamples, RESAMPLES);
    assert_percentiles(&got.top1, scores[0], RESAMPLES);
    assert_percentiles(&got.nll, scores[1], RESAMPLES);
    assert_percentiles(&got.brier, scores[2], RESAMPLES);
    assert_percentiles(&got.ece, scores[3], RESAMPLES);
    assert_close(got.top1.value, smooth_scores[0], 1e-12);
    assert_close(got.nll.value, smooth_scores[1], 1e-12);
    assert_close(got.brier.value, smooth_scores[2], 1e-12);
    assert_close(got.ece.value, smooth_scores[3], 1e-12);
}

/* Percentile intervals of a mean are close to mean +- 1.96 standard errors. */
static void intervals_are_nearly_normal(void **state) {
    cst_context *context = *state;
    double nll[ROWS];
    double mean = 0;
    double variance = 0;
    cst_metric_intervals got;
    assert_int_equal(cst_bootstrap_metrics(context, smooth_probabilities, ROWS, CLASSES,
                                           smooth_labels, 0, 5000, 1, &got),
                     CST_OK);
    assert_int_equal(cst_metrics_per_sample(context, smooth_probabilities, ROWS, CLASSES,
                                            smooth_labels, nll, NULL, NULL, NULL),
                     CST_OK);
    for (int i = 0; i < ROWS; i++)
        mean += nll[i] / ROWS;
    for (int i = 0; i < ROWS; i++)
        variance += (nll[i] - mean) * (nll[i] - mean) / ROWS;
    double half = 1.959964 * sqrt(variance / ROWS);
    assert_close(got.nll.value, mean, 1e-12);
    assert_close(got.nll.low, mean - half, 0.08 * half);
    assert_close(got.nll.high, mean + half, 0.08 * half);
    double top1 = got.top1.value;
    half = 1.959964 * sqrt(top1 * (1 - top1) / ROWS);
    assert_close(got.top1.high - got.top1.low, 2 * half, 0.1 * half);
}

/* The same probabilities, slightly sharpened: paired differences are far narrower than either
 * interval, and a method differs from itself by nothing. */
static void differences_are_paired(void **state) {
    cst_context *context = *state;
    static float other[ROWS * CLASSES];
    for (int i = 0; i < ROWS; i++) {
        double sum = 0;
        for (int c = 0; c < CLASSES; c++)
            sum += pow((double)smooth_probabilities[i * CLASSES + c], 0.9);
        for (int c = 0; c < CLASSES; c++)
            other[i * CLASSES + c] =
                (float)(pow((double)smooth_probabilities[i * CLASSES + c], 0.9) / sum);
    }
    const float *methods[] = {smooth_probabilities, other};
    cst_metric_intervals both[2];
    cst_metric_intervals difference;
    assert_int_equal(
        cst_bootstrap_methods(context, methods, 2, ROWS, CLASSES, smooth_labels, 15, 2000, 5, both),
        CST_OK);
    assert_int_equal(cst_bootstrap_difference(context, smooth_probabilities, other, ROWS, CLASSES,
                                              smooth_labels, 15, 2000, 5, &difference),
                     CST_OK);
    assert_close(difference.nll.value, both[0].nll.value - both[1].nll.value, 1e-14);
    assert_true(difference.nll.low < difference.nll.value &&
                difference.nll.value < difference.nll.high);
    assert_true(difference.nll.high - difference.nll.low <
                0.4 * (both[0].nll.high - both[0].nll.low));
    cst_metric_intervals alone;
    assert_int_equal(
        cst_bootstrap_metrics(context, other, ROWS, CLASSES, smooth_labels, 15, 2000, 5, &alone),
        CST_OK);
    assert_memory_equal(&alone.nll, &both[1].nll, sizeof alone.nll);
    assert_int_equal(cst_bootstrap_difference(context, other, other, ROWS, CLASSES, smooth_labels,
                                              15, 100, 5, &difference),
                     CST_OK);
    assert_true(difference.nll.low == 0 && difference.nll.high == 0 && difference.ece.high == 0);
}

static void threads_do_not_change_a_byte(void **state) {
    cst_context *context = *state;
    cst_interval first[4];
    for (int threads = 1; threads <= 4; threads++) {
        cst_metric_intervals got;
        assert_int_equal(cst_context_set_threads(context, threads), CST_OK);
        assert_int_equal(cst_bootstrap_metrics(context, smooth_probabilities, ROWS, CLASSES,
                                               smooth_labels, 15, 1001, 7, &got),
                         CST_OK);
        const cst_interval again[] = {got.top1, got.nll, got.brier, got.ece};
        if (threads == 1)
            memcpy(first, again, sizeof first);
        assert_memory_equal(first, again, sizeof first);
    }
}

static void bad_requests_are_refused(void **state) {
    cst_context *context = *state;
    cst_metric_intervals got;
    assert_int_equal(cst_bootstrap_metrics(context, smooth_probabilities, ROWS, CLASSES,
                                           smooth_labels, 15, 0, 7, &got),
                     CST_ERROR_ARGUMENT);
    assert_int_equal(cst_bootstrap_metrics(context, smooth_probabilities, 0, CLASSES, smooth_labels,
                                           15, 10, 7, &got),
                     CST_ERROR_ARGUMENT);
    int32_t labels[ROWS];
    memcpy(labels, smooth_labels, sizeof labels);
    labels[17] = CLASSES;
    assert_int_equal(cst_bootstrap_metrics(context, smooth_probabilities, ROWS, CLASSES, labels, 15,
                                           10, 7, &got),
                     CST_ERROR_INPUT);
    assert_non_null(strstr(cst_last_error(context), "row 17"));
    /* One resample: both ends are its score. */
    assert_int_equal(cst_bootstrap_metrics(context, smooth_probabilities, ROWS, CLASSES,
                                           smooth_labels, 15, 1, 7, &got),
                     CST_OK);
    assert_true(got.nll.low == got.nll.high);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(intervals_are_percentiles_of_scored_resamples, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(intervals_are_nearly_normal, setup, teardown),
        cmocka_unit_test_setup_teardown(differences_are_paired, setup, teardown),
        cmocka_unit_test_setup_teardown(threads_do_not_change_a_byte, setup, teardown),
        cmocka_unit_test_setup_teardown(bad_requests_are_refused, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
