/*
 * Bootstrap intervals: against resampled data scored one by one, against the normal approximation,
 * paired, and with 1 to 4 threads.
 */
#include "core/base.h"
#include "stats/resample.h"

#include <corestack/metrics.h>

#include "data/metrics.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "bootstraps.h"
#include "check.h"
#include "stats/samples.h"

enum { ROWS = smooth_rows, CLASSES = smooth_classes };

/* One thread where a test does not ask for more: many small scores, each too short to share. */
static int setup(void **state) {
    return cst_context_create((cst_context **)state) != CST_OK ||
           cst_context_set_threads(*state, 1) != CST_OK;
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

typedef struct data {
    const float *p;
    const int32_t *labels;
    int64_t rows;
    int32_t classes;
} data;

/* Resample r draws row floor(word * N / 2^32) for each word of stream (seed, BOOTSTRAP, r); no word
 * of these streams is refused (that happens to one in seven million at N = 600). */
static void resample(uint64_t seed, uint32_t r, const data *from, float *p, int32_t *labels) {
    cst_rng rng;
    size_t classes = (size_t)from->classes;
    cst_rng_init(&rng, seed, CST_STREAM_BOOTSTRAP, r);
    for (int64_t i = 0; i < from->rows; i++) {
        uint64_t row = (uint64_t)cst_rng_u32(&rng) * (uint64_t)from->rows >> 32;
        memcpy(p + (size_t)i * classes, from->p + row * classes, classes * sizeof *p);
        labels[i] = from->labels[row];
    }
}

enum { RESAMPLES = 203, SCORES = 8 };

static void scores_of(const cst_metrics *m, double *out) {
    const double all[] = {m->top1,     m->nll,           m->brier,        m->ece,
                          m->ece_mass, m->ece_classwise, m->ece_debiased, m->corp};
    memcpy(out, all, sizeof all);
}

static void intervals_in(const cst_metric_intervals *from, cst_interval *out) {
    const cst_interval all[] = {from->top1,         from->nll,      from->brier,
                                from->ece,          from->ece_mass, from->ece_classwise,
                                from->ece_debiased, from->corp};
    memcpy(out, all, sizeof all);
}

/* scores [SCORES][RESAMPLES]: of every resample, resampled in full and scored as any data are;
 * value [SCORES]. */
static void score_resamples(cst_context *context, const data *from, int bins, uint64_t seed,
                            double *value, double *scores) {
    float *p = malloc((size_t)from->rows * (size_t)from->classes * sizeof *p);
    int32_t *labels = malloc((size_t)from->rows * sizeof *labels);
    assert_true(p && labels);
    cst_metrics m;
    for (uint32_t r = 0; r < RESAMPLES; r++) {
        double one[SCORES];
        resample(seed, r, from, p, labels);
        assert_int_equal(
            cst_metrics_evaluate(context, p, from->rows, from->classes, labels, bins, &m), CST_OK);
        scores_of(&m, one);
        for (int s = 0; s < SCORES; s++)
            scores[s * RESAMPLES + (int)r] = one[s];
    }
    assert_int_equal(
        cst_metrics_evaluate(context, from->p, from->rows, from->classes, from->labels, bins, &m),
        CST_OK);
    scores_of(&m, value);
    free(p);
    free(labels);
}

/* Both methods' intervals and their differences, for every score, against the resamples in full. */
static void compare_with_resamples(cst_context *context, const data *a, const float *b, int bins,
                                   uint64_t seed) {
    static double scores[2][SCORES * RESAMPLES];
    double value[2][SCORES];
    data other = *a;
    other.p = b;
    score_resamples(context, a, bins, seed, value[0], scores[0]);
    score_resamples(context, &other, bins, seed, value[1], scores[1]);
    const float *methods[] = {a->p, b};
    cst_metric_intervals got[2];
    cst_metric_intervals differences[2];
    assert_int_equal(bootstrap_compare(context, methods, 2, a->rows, a->classes, a->labels, bins,
                                       RESAMPLES, seed, CST_BOOTSTRAP_ALL, 1, got, differences),
                     CST_OK);
    cst_interval fields[2][SCORES];
    cst_interval difference[2][SCORES];
    for (int m = 0; m < 2; m++) {
        intervals_in(&got[m], fields[m]);
        intervals_in(&differences[m], difference[m]);
    }
    for (int s = 0; s < SCORES; s++) {
        double gap[RESAMPLES];
        for (int r = 0; r < RESAMPLES; r++)
            gap[r] = scores[0][s * RESAMPLES + r] - scores[1][s * RESAMPLES + r];
        assert_percentiles(&difference[0][s], gap, RESAMPLES);
        assert_close(difference[0][s].value, value[0][s] - value[1][s], 1e-12);
        assert_true(difference[1][s].value == 0 && difference[1][s].low == 0 &&
                    difference[1][s].high == 0);
        for (int m = 0; m < 2; m++) {
            assert_percentiles(&fields[m][s], &scores[m][s * RESAMPLES], RESAMPLES);
            assert_close(fields[m][s].value, value[m][s], 1e-12);
        }
    }
}

static void every_score_of_a_resample_is_that_of_its_rows(void **state) {
    cst_context *context = *state;
    static float sharper[ROWS * CLASSES];
    for (int i = 0; i < ROWS; i++) {
        double sum = 0;
        for (int c = 0; c < CLASSES; c++)
            sum += pow((double)smooth_probabilities[i * CLASSES + c], 1.7);
        for (int c = 0; c < CLASSES; c++)
            sharper[i * CLASSES + c] =
                (float)(pow((double)smooth_probabilities[i * CLASSES + c], 1.7) / sum);
    }
    data smooth = {smooth_probabilities, smooth_labels, ROWS, CLASSES};
    compare_with_resamples(context, &smooth, sharper, 15, 99);
    compare_with_resamples(context, &smooth, sharper, 1, 3);
    compare_with_resamples(context, &smooth, sharper, 64, 4);
    /* 90 rows in 32nds: equal confidences, zeros, exact ones. The other method: always class 0. */
    static float first[coarse_rows * coarse_classes];
    for (int i = 0; i < coarse_rows; i++)
        first[i * coarse_classes] = 1;
    data coarse = {coarse_probabilities, coarse_labels, coarse_rows, coarse_classes};
    compare_with_resamples(context, &coarse, first, 15, 7);
    compare_with_resamples(context, &coarse, first, 4, 8);
    for (coarse.rows = 1; coarse.rows < 36; coarse.rows += 5) /* around the width of the lanes */
        compare_with_resamples(context, &coarse, first, 10, 11);
}

/* More classes than are summed side by side, and not a multiple of that. */
static void many_classes(void **state) {
    cst_context *context = *state;
    enum { MANY = 19, FEW_ROWS = 130 };
    static float p[FEW_ROWS * MANY];
    static float flat[FEW_ROWS * MANY];
    int32_t labels[FEW_ROWS];
    cst_rng rng;
    cst_rng_init(&rng, 5, CST_STREAM_TEST, 0);
    for (int i = 0; i < FEW_ROWS; i++) {
        double z[MANY];
        double sum = 0;
        labels[i] = (int32_t)cst_rng_below(&rng, MANY);
        for (int c = 0; c < MANY; c++) {
            z[c] = exp(1.5 * cst_rng_normal(&rng) + 3 * (labels[i] == c));
            sum += z[c];
        }
        for (int c = 0; c < MANY; c++) {
            p[i * MANY + c] = (float)(z[c] / sum);
            flat[i * MANY + c] = 1.0F / MANY;
        }
    }
    data many = {p, labels, FEW_ROWS, MANY};
    compare_with_resamples(context, &many, flat, 15, 21);
}

/* Drawn one word after another. A word whose product's low half is below 2^32 mod rows is refused
 * (about a hundred among these), and drawn again from counters above 2^63. */
static void draws_are_those_of_the_streams(void **state) {
    cst_context *context = *state;
    const int64_t rows = 1000003;
    const uint64_t seed = UINT64_C(0x123456789abcdef0);
    CST_SCOPE(scope);
    cst_resample drawn;
    unsigned char *expected = calloc((size_t)rows, 1);
    assert_non_null(expected);
    assert_int_equal(cst_resample_make(context, scope, rows, &drawn), CST_OK);
    cst_resample_draw(&drawn, seed, 32);
    int64_t refused = 0;
    cst_rng rng;
    cst_rng_init(&rng, seed, CST_STREAM_BOOTSTRAP, 32 + 13);
    for (int64_t j = 0; j < rows; j++) {
        uint64_t product = (uint64_t)cst_rng_u32(&rng) * (uint64_t)rows;
        int64_t row = (int64_t)(product >> 32);
        if ((uint32_t)product < (UINT64_C(1) << 32) % (uint64_t)rows) {
            cst_rng again;
            cst_rng_init(&again, seed, CST_STREAM_BOOTSTRAP, 32 + 13);
            again.counter[0] = (uint32_t)j;
            again.counter[1] = 0x80000000U;
            row = cst_rng_below(&again, rows);
            refused++;
        }
        expected[row]++;
    }
    assert_true(refused > 10);
    assert_memory_equal(drawn.lane + 13 * drawn.padded, expected, (size_t)rows);
    for (int64_t i = 0; i < rows; i++)
        for (int l = 0; l < CST_LANES; l++)
            if (drawn.count[i * CST_LANES + l] != drawn.lane[l * drawn.padded + i])
                fail_msg("row %lld, lane %d: the two layouts differ", (long long)i, l);
    free(expected);
}

/* Percentile intervals of a mean are close to mean +- 1.96 standard errors. */
static void intervals_are_nearly_normal(void **state) {
    cst_context *context = *state;
    double nll[ROWS];
    double mean = 0;
    double variance = 0;
    cst_metric_intervals got;
    assert_int_equal(bootstrap_metrics(context, smooth_probabilities, ROWS, CLASSES, smooth_labels,
                                       0, 5000, 1, &got),
                     CST_OK);
    cst_samples samples = {.nll = nll};
    assert_int_equal(
        cst_samples_fill(context, smooth_probabilities, ROWS, CLASSES, smooth_labels, &samples),
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
        bootstrap_methods(context, methods, 2, ROWS, CLASSES, smooth_labels, 15, 2000, 5, both),
        CST_OK);
    assert_int_equal(bootstrap_difference(context, smooth_probabilities, other, ROWS, CLASSES,
                                          smooth_labels, 15, 2000, 5, &difference),
                     CST_OK);
    assert_close(difference.nll.value, both[0].nll.value - both[1].nll.value, 1e-14);
    assert_true(difference.nll.low < difference.nll.value &&
                difference.nll.value < difference.nll.high);
    assert_true(difference.nll.high - difference.nll.low <
                0.4 * (both[0].nll.high - both[0].nll.low));
    cst_metric_intervals alone;
    assert_int_equal(
        bootstrap_metrics(context, other, ROWS, CLASSES, smooth_labels, 15, 2000, 5, &alone),
        CST_OK);
    assert_memory_equal(&alone.nll, &both[1].nll, sizeof alone.nll);
    assert_int_equal(bootstrap_difference(context, other, other, ROWS, CLASSES, smooth_labels, 15,
                                          100, 5, &difference),
                     CST_OK);
    assert_true(difference.nll.low == 0 && difference.nll.high == 0 && difference.ece.high == 0);
}

static void threads_do_not_change_a_byte(void **state) {
    cst_context *context = *state;
    static float even[ROWS * CLASSES];
    for (int i = 0; i < ROWS * CLASSES; i++)
        even[i] = 1.0F / CLASSES;
    const float *methods[] = {smooth_probabilities, even};
    cst_interval first[4][SCORES];
    for (int threads = 1; threads <= 4; threads++) {
        cst_metric_intervals got[4];
        cst_interval again[4][SCORES];
        assert_int_equal(cst_context_set_threads(context, threads), CST_OK);
        assert_int_equal(bootstrap_compare(context, methods, 2, ROWS, CLASSES, smooth_labels, 15,
                                           1001, 7, CST_BOOTSTRAP_ALL, 0, got, got + 2),
                         CST_OK);
        for (int m = 0; m < 4; m++)
            intervals_in(&got[m], again[m]);
        if (threads == 1)
            memcpy(first, again, sizeof first);
        assert_memory_equal(first, again, sizeof first);
    }
}

/* The basic scores do not depend on what else is computed, nor on the other methods; what was not
 * asked for is NaN. */
static void basic_scores_are_the_same_alone(void **state) {
    cst_context *context = *state;
    const float *methods[] = {smooth_probabilities};
    cst_metric_intervals basic;
    cst_metric_intervals all;
    assert_int_equal(bootstrap_compare(context, methods, 1, ROWS, CLASSES, smooth_labels, 0, 100, 7,
                                       CST_BOOTSTRAP_ALL, -5, &all, NULL),
                     CST_OK);
    assert_int_equal(bootstrap_metrics(context, smooth_probabilities, ROWS, CLASSES, smooth_labels,
                                       0, 100, 7, &basic),
                     CST_OK);
    assert_memory_equal(&all.nll, &basic.nll, sizeof basic.nll);
    assert_memory_equal(&all.ece, &basic.ece, sizeof basic.ece);
    assert_true(isnan(basic.corp.value) && isnan(basic.ece_mass.low) &&
                isnan(basic.ece_classwise.high) && isnan(basic.ece_debiased.value));
    assert_false(isnan(all.corp.value) || isnan(all.ece_classwise.high));
}

static void bad_requests_are_refused(void **state) {
    cst_context *context = *state;
    cst_metric_intervals got;
    assert_int_equal(bootstrap_metrics(context, smooth_probabilities, ROWS, CLASSES, smooth_labels,
                                       15, 0, 7, &got),
                     CST_ERROR_ARGUMENT);
    assert_int_equal(bootstrap_metrics(context, smooth_probabilities, 0, CLASSES, smooth_labels, 15,
                                       10, 7, &got),
                     CST_ERROR_ARGUMENT);
    int32_t labels[ROWS];
    memcpy(labels, smooth_labels, sizeof labels);
    labels[17] = CLASSES;
    assert_int_equal(
        bootstrap_metrics(context, smooth_probabilities, ROWS, CLASSES, labels, 15, 10, 7, &got),
        CST_ERROR_INPUT);
    assert_non_null(strstr(cst_last_error(context), "row 17"));
    const float *methods[] = {smooth_probabilities};
    assert_int_equal(bootstrap_compare(context, methods, 1, ROWS, CLASSES, smooth_labels, 15, 10, 7,
                                       CST_BOOTSTRAP_BASIC, 1, &got, &got),
                     CST_ERROR_ARGUMENT);
    assert_non_null(strstr(cst_last_error(context), "reference is method 1 of 1"));
    assert_int_equal(
        bootstrap_methods(context, methods, 0, ROWS, CLASSES, smooth_labels, 15, 10, 7, &got),
        CST_ERROR_ARGUMENT);
    methods[0] = NULL;
    assert_int_equal(
        bootstrap_methods(context, methods, 1, ROWS, CLASSES, smooth_labels, 15, 10, 7, &got),
        CST_ERROR_ARGUMENT);
    /* One resample: both ends are its score. */
    assert_int_equal(bootstrap_metrics(context, smooth_probabilities, ROWS, CLASSES, smooth_labels,
                                       15, 1, 7, &got),
                     CST_OK);
    assert_true(got.nll.low == got.nll.high);
}

int suite_bootstrap(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(every_score_of_a_resample_is_that_of_its_rows, setup,
                                        context_teardown),
        cmocka_unit_test_setup_teardown(many_classes, setup, context_teardown),
        cmocka_unit_test_setup_teardown(draws_are_those_of_the_streams, setup, context_teardown),
        cmocka_unit_test_setup_teardown(basic_scores_are_the_same_alone, setup, context_teardown),
        cmocka_unit_test_setup_teardown(intervals_are_nearly_normal, setup, context_teardown),
        cmocka_unit_test_setup_teardown(differences_are_paired, setup, context_teardown),
        cmocka_unit_test_setup_teardown(threads_do_not_change_a_byte, setup, context_teardown),
        cmocka_unit_test_setup_teardown(bad_requests_are_refused, setup, context_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
