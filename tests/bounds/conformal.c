/*
 * Conformal sets: against NumPy, coverage by simulation with and without ties, and the coverage of
 * one calibration split.
 */
#include "stats/conformal.h"
#include "repetitions.h"

#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "check.h"
#include "data/conformal.h"

static cst_conformal_options options_of(int place) {
    cst_conformal_options options = cst_conformal_defaults();
    options.method = (cst_conformal_method)(place / 2);
    options.alpha = CF_ALPHA;
    options.randomised = place % 2;
    options.penalty = CF_PENALTY;
    options.free_classes = CF_FREE;
    return options;
}

static void places_of_thresholds(void **state) {
    (void)state;
    for (const double *r = CF_ORDER; r < CF_ORDER + 4 * CF_ORDERS; r += 4)
        if (r[2] == 0)
            assert_int_equal(cst_conformal_order((int64_t)r[0], r[1]), (int64_t)r[3]);
}

/* Scores and sets of single rows, with the draws of the fixture. */
static void rows_agree_with_numpy(void **state) {
    (void)state;
    enum { ROWS = CF_CALIBRATION + CF_TEST };
    double values[CF_CLASSES];
    double scores[CF_CLASSES];
    cst_rank_item ranked[CF_CLASSES];
    for (int place = 0; place < 6; place++) {
        cst_conformal_options options = options_of(place);
        for (int i = 0; i < ROWS; i++) {
            cst_conformal_row(&options, CF_PROBABILITIES + i * CF_CLASSES, CF_CLASSES,
                              place % 2 ? CF_UNIFORM[i] : 1, values, ranked, scores);
            assert_close(scores[CF_LABELS[i]], CF_SCORES[place * ROWS + i], 1e-12);
            if (i < CF_CALIBRATION)
                continue;
            for (int c = 0; c < CF_CLASSES; c++) {
                int set = (place * CF_TEST + i - CF_CALIBRATION) * CF_CLASSES + c;
                assert_int_equal(scores[c] <= CF_THRESHOLD[place] + 1e-12, CF_SETS[set]);
            }
        }
    }
}

static void calls_agree_with_numpy(void **state) {
    cst_context *context = *state;
    const float *later = CF_PROBABILITIES + CF_CALIBRATION * CF_CLASSES;
    for (int place = 0; place < 6; place += 2) {
        cst_conformal_options options = options_of(place);
        cst_conformal conformal;
        cst_conformal_result result;
        assert_int_equal(cst_conformal_calibrate(context, &options, CF_PROBABILITIES,
                                                 CF_CALIBRATION, CF_CLASSES, CF_LABELS, &conformal),
                         CST_OK);
        assert_close(conformal.threshold, CF_THRESHOLD[place], 1e-12);
        assert_int_equal(cst_conformal_evaluate(context, &conformal, later, CF_TEST, CF_CLASSES,
                                                CF_LABELS + CF_CALIBRATION, &result),
                         CST_OK);
        const double *figures = CF_FIGURES + 4 * place;
        assert_close(result.coverage, figures[0], 1e-12);
        assert_close(result.mean_size, figures[1], 1e-12);
        assert_int_equal(result.empty, (int64_t)figures[2]);
        assert_int_equal(result.single, (int64_t)figures[3]);
    }
}

/* ---- coverage ---- */

enum { CLASSES = 5, ROWS_MAX = 700 };

typedef struct rows {
    float p[ROWS_MAX * CLASSES];
    int32_t labels[ROWS_MAX];
} rows;

/* A model that is too sure by half, of labels drawn by the truth; `steps`: probabilities are whole
 * multiples of 1 / steps, so that scores tie. */
static void draw(cst_rng *rng, int count, int steps, rows *out) {
    for (int i = 0; i < count; i++) {
        double truth[CLASSES];
        double sum = 0;
        double sharp = 0;
        for (int c = 0; c < CLASSES; c++) {
            truth[c] = exp(1.5 * cst_rng_normal(rng));
            sum += truth[c];
            sharp += truth[c] * sqrt(truth[c]);
        }
        double u = cst_rng_uniform(rng) * sum;
        int32_t label = 0;
        while (label < CLASSES - 1 && u >= truth[label])
            u -= truth[label++];
        out->labels[i] = label;
        float *row = out->p + (size_t)i * CLASSES;
        double left = 1;
        for (int c = 0; c < CLASSES; c++) {
            double p = truth[c] * sqrt(truth[c]) / sharp;
            if (steps)
                p = fmin(round(p * steps) / steps, left);
            row[c] = (float)(c == CLASSES - 1 && steps ? left : p);
            left -= p;
        }
    }
}

/* One later row for each calibration split: misses are then independent, with a probability of at
 * most alpha, and of at least alpha - 1 / (n + 1) where scores do not tie. */
static void marginal_coverage(void **state) {
    cst_context *context = *state;
    enum { N = 30 };
    static const char *const names[2][6] = {
        {"LAC sets", "LAC, randomised", "APS sets", "APS, randomised", "RAPS sets",
         "RAPS, randomised"},
        {"LAC sets, tied scores", "LAC, randomised, tied scores", "APS sets, tied scores",
         "APS, randomised, tied scores", "RAPS sets, tied scores",
         "RAPS, randomised, tied scores"}};
    int64_t times = repetitions(4000);
    for (int place = 0; place < 6; place++)
        for (int steps = 0; steps <= 4; steps += 4) {
            cst_conformal_options options = options_of(place);
            options.alpha = 0.2;
            int64_t missed = 0;
            for (int64_t r = 0; r < times; r++) {
                static rows sample;
                cst_rng rng;
                cst_conformal conformal;
                cst_conformal_result result;
                cst_rng_init(&rng, 31 + (uint64_t)steps, CST_STREAM_TEST, (uint32_t)r);
                draw(&rng, N + 1, steps, &sample);
                options.seed = (uint64_t)r;
                assert_int_equal(cst_conformal_calibrate(context, &options, sample.p, N, CLASSES,
                                                         sample.labels, &conformal),
                                 CST_OK);
                assert_int_equal(cst_conformal_evaluate(context, &conformal, sample.p + N * CLASSES,
                                                        1, CLASSES, sample.labels + N, &result),
                                 CST_OK);
                missed += result.covered == 0;
            }
            if (!plausible_said(names[steps > 0][place], missed, times, options.alpha))
                fail_msg("method %d: %lld of %lld missed", place, (long long)missed,
                         (long long)times);
            if ((place == 0 || place % 2) && steps == 0)
                assert_true(plausible(times - missed, times, 1 - options.alpha + 1.0 / (N + 1)));
        }
}

/* The coverage of later rows falls short of 1 - alpha for about half of the calibration splits, of
 * what is assured with delta for at most a share delta. The coverage of a split is that of LAC with
 * a known law of the score: uniform. */
static void coverage_of_one_split(void **state) {
    cst_context *context = *state;
    enum { N = 200 };
    int64_t times = repetitions(2000);
    int64_t missed[2] = {0};
    static rows sample;
    for (int64_t r = 0; r < times; r++) {
        cst_rng rng;
        cst_rng_init(&rng, 77, CST_STREAM_TEST, (uint32_t)r);
        for (int i = 0; i < N; i++) {
            float *row = sample.p + (size_t)i * 2;
            row[0] = (float)cst_rng_uniform(&rng);
            row[1] = 1 - row[0];
            sample.labels[i] = 0;
        }
        cst_conformal_options options = cst_conformal_defaults();
        cst_conformal conformal;
        assert_int_equal(
            cst_conformal_calibrate(context, &options, sample.p, N, 2, sample.labels, &conformal),
            CST_OK);
        missed[0] += conformal.threshold < 0.9;
        missed[1] += conformal.threshold < cst_conformal_assured(&conformal, 0.05);
    }
    assert_true(plausible_said("assured coverage of a split", missed[1], times, 0.05));
    assert_true(missed[0] > times / 3 && missed[1] > times / 40);
}

/* ---- edges ---- */

static void few_rows_give_full_sets(void **state) {
    cst_context *context = *state;
    cst_conformal_options options = options_of(1);
    cst_conformal conformal;
    cst_conformal_result result;
    options.alpha = 0.05;
    assert_int_equal(cst_conformal_calibrate(context, &options, CF_PROBABILITIES, 18, CF_CLASSES,
                                             CF_LABELS, &conformal),
                     CST_OK);
    assert_true(isinf(conformal.threshold) && cst_conformal_assured(&conformal, 0.1) == 1);
    assert_int_equal(cst_conformal_evaluate(context, &conformal, CF_PROBABILITIES, CF_CALIBRATION,
                                            CF_CLASSES, CF_LABELS, &result),
                     CST_OK);
    assert_true(result.coverage == 1 && result.mean_size == CF_CLASSES);
    assert_int_equal(cst_conformal_calibrate(context, &options, CF_PROBABILITIES, 19, CF_CLASSES,
                                             CF_LABELS, &conformal),
                     CST_OK);
    assert_true(isfinite(conformal.threshold));
}

/* (n + 1) alpha is rounded to n + 1 there, but the threshold is a score all the same. */
static void alpha_next_to_one_takes_the_least_score(void **state) {
    cst_context *context = *state;
    cst_conformal_options options = cst_conformal_defaults();
    cst_conformal conformal;
    float least = 0;
    for (int i = 0; i < CF_CALIBRATION; i++)
        least = fmaxf(least, CF_PROBABILITIES[i * CF_CLASSES + CF_LABELS[i]]);
    for (double gap = DBL_EPSILON / 2; gap < 1e-14; gap *= 2) {
        options.alpha = 1 - gap;
        for (int64_t n = 0; n < 1000; n = 3 * n + 1)
            assert_int_equal(cst_conformal_order(n, options.alpha), 1);
        assert_int_equal(cst_conformal_calibrate(context, &options, CF_PROBABILITIES,
                                                 CF_CALIBRATION, CF_CLASSES, CF_LABELS, &conformal),
                         CST_OK);
        assert_int_equal(conformal.order, 1);
        assert_close(conformal.threshold, 1 - (double)least, 1e-12);
    }
}

/* Draws belong to rows: the same for any number of threads, and others for another seed. */
static void draws_are_reproducible(void **state) {
    cst_context *context = *state;
    static rows sample;
    cst_conformal_result results[3];
    cst_rng rng;
    cst_rng_init(&rng, 5, CST_STREAM_TEST, 0);
    draw(&rng, ROWS_MAX, 0, &sample);
    cst_conformal_options options = options_of(3);
    for (int i = 0; i < 3; i++) {
        cst_conformal conformal;
        options.seed = i == 2;
        assert_int_equal(cst_context_set_threads(context, i == 1 ? 4 : 1), CST_OK);
        assert_int_equal(cst_conformal_calibrate(context, &options, sample.p, ROWS_MAX, CLASSES,
                                                 sample.labels, &conformal),
                         CST_OK);
        assert_int_equal(cst_conformal_evaluate(context, &conformal, sample.p, ROWS_MAX, CLASSES,
                                                sample.labels, &results[i]),
                         CST_OK);
    }
    assert_memory_equal(&results[0], &results[1], sizeof results[0]);
    assert_true(results[0].mean_size != results[2].mean_size);
}

static void bad_input_is_refused(void **state) {
    cst_context *context = *state;
    cst_conformal conformal;
    const float good[] = {0.5F, 0.5F};
    const float bad[] = {0.5F, 0.9F};
    const int32_t labels[] = {0, 2};
    cst_conformal_options options = cst_conformal_defaults();
    assert_int_equal(cst_conformal_calibrate(context, &options, bad, 1, 2, labels, &conformal),
                     CST_ERROR_INPUT);
    assert_int_equal(cst_conformal_calibrate(context, &options, good, 1, 2, labels + 1, &conformal),
                     CST_ERROR_INPUT);
    assert_non_null(strstr(cst_last_error(context), "label of row 0 is 2"));
    assert_int_equal(cst_conformal_calibrate(context, &options, good, 0, 2, labels, &conformal),
                     CST_ERROR_ARGUMENT);
}

int suite_conformal(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(places_of_thresholds),
        cmocka_unit_test(rows_agree_with_numpy),
        cmocka_unit_test(calls_agree_with_numpy),
        cmocka_unit_test(marginal_coverage),
        cmocka_unit_test(coverage_of_one_split),
        cmocka_unit_test(few_rows_give_full_sets),
        cmocka_unit_test(draws_are_reproducible),
        cmocka_unit_test(bad_input_is_refused),
        cmocka_unit_test(alpha_next_to_one_takes_the_least_score),
    };
    return cmocka_run_group_tests(tests, context_setup, context_teardown);
}
