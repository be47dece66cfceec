/*
 * Certificates of calibration: against NumPy and SciPy, and their coverage in worlds whose
 * calibration error is known, where the bootstrap's interval fails.
 */
#include "bootstraps.h"
#include "repetitions.h"
#include "stats/calibration_bound.h"
#include "stats/samples.h"

#include <corestack/metrics.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "check.h"
#include "data/calibration_bound.h"

/* ---- against other computations ---- */

static void the_interval_agrees_with_numpy(void **state) {
    cst_context *context = *state;
    cst_ece_bound bound;
    cst_metrics metrics;
    assert_int_equal(cst_ece_bound_of(context, CB_PROBABILITIES, CB_ROWS, CB_CLASSES, CB_LABELS,
                                      CB_BINS, CB_DELTA, &bound),
                     CST_OK);
    assert_close(bound.value, CB_ECE[0], 1e-9);
    assert_close(bound.lower, CB_ECE[1], 1e-9);
    assert_close(bound.upper, CB_ECE[2], 1e-9);
    assert_close(bound.moment, CB_ECE[3], 1e-9);
    assert_int_equal(cst_metrics_evaluate(context, CB_PROBABILITIES, CB_ROWS, CB_CLASSES, CB_LABELS,
                                          CB_BINS, &metrics),
                     CST_OK);
    assert_true(bound.value == metrics.ece);
}

static void certified_bins_agree_with_numpy(void **state) {
    cst_context *context = *state;
    CST_SCOPE(scope);
    cst_samples samples;
    double edges[CB_MASS_BINS + 1];
    int32_t bins = 0;
    cst_certified_bin certified[CB_MASS_BINS];
    double epsilon = 0;
    double hoeffding = 0;
    int64_t third = CB_ROWS / 3;
    assert_int_equal(cst_samples_make(context, scope, CB_PROBABILITIES, CB_ROWS, CB_CLASSES,
                                      CB_LABELS, &samples),
                     CST_OK);
    assert_int_equal(cst_mass_edges(context, samples.confidence, third, CB_MASS_BINS, edges, &bins),
                     CST_OK);
    assert_int_equal(bins, CB_MASS_BINS);
    assert_int_equal(cst_certify_bins(context, edges, bins,
                                      (cst_judged_rows){samples.confidence + third,
                                                        samples.correct + third, CB_ROWS - third},
                                      CB_DELTA, certified, &epsilon, &hoeffding),
                     CST_OK);
    for (int b = 0; b < CB_MASS_BINS; b++) {
        const double *r = CB_BIN + (size_t)b * 7;
        assert_close(certified[b].from, r[0], 1e-9);
        assert_close(certified[b].to, r[1], 1e-9);
        assert_int_equal(certified[b].count, (int64_t)r[2]);
        assert_int_equal(certified[b].correct, (int64_t)r[3]);
        assert_close(certified[b].value, r[4], 1e-9);
        assert_close(certified[b].lower, r[5], 1e-9);
        assert_close(certified[b].upper, r[6], 1e-9);
    }
    assert_close(epsilon, CB_EPSILON[0], 1e-9);
    assert_close(hoeffding, CB_EPSILON[1], 1e-9);
}

/* ---- coverage ---- */

/* Rows of two classes: few confidences, each with its share of right answers. */
enum { KINDS = 12, ROWS = 400, BINS = 10, MASS_BINS = 5 };

typedef struct world {
    double confidence[KINDS];
    double accuracy[KINDS];
} world;

/* shift: how much less often an answer is right than it says. */
static void make_world(cst_rng *rng, double shift, world *w) {
    for (int a = 0; a < KINDS; a++) {
        w->confidence[a] = (double)(float)(0.5 + 0.5 * cst_rng_uniform(rng));
        w->accuracy[a] = fmax(w->confidence[a] - shift * cst_rng_uniform(rng), 0);
    }
}

typedef struct rows {
    float p[ROWS * 2];
    int32_t labels[ROWS];
    double confidence[ROWS];
    unsigned char correct[ROWS];
} rows;

static void draw(cst_rng *rng, const world *w, rows *out) {
    for (int i = 0; i < ROWS; i++) {
        int64_t a = cst_rng_below(rng, KINDS);
        out->confidence[i] = w->confidence[a];
        out->correct[i] = cst_rng_uniform(rng) < w->accuracy[a];
        out->p[2 * i] = (float)w->confidence[a];
        out->p[2 * i + 1] = 1 - (float)w->confidence[a];
        out->labels[i] = !out->correct[i];
    }
}

/* One confidence, and answers that are right less often by `gap`. */
static void make_shifted(double gap, world *w) {
    for (int a = 0; a < KINDS; a++) {
        w->confidence[a] = 0.75;
        w->accuracy[a] = 0.75 - gap;
    }
}

static double true_ece(const world *w) {
    double gap[BINS] = {0};
    double sum = 0;
    for (int a = 0; a < KINDS; a++)
        gap[cst_bin_of(w->confidence[a], BINS)] += (w->accuracy[a] - w->confidence[a]) / KINDS;
    for (int b = 0; b < BINS; b++)
        sum += fabs(gap[b]);
    return sum;
}

/* Whether a bin's accuracy is outside of its interval, or farther from its value than epsilon. */
static bool bins_miss(const world *w, const double *edges, int32_t bins,
                      const cst_certified_bin *certified, double epsilon) {
    double right[MASS_BINS] = {0};
    double mass[MASS_BINS] = {0};
    for (int a = 0; a < KINDS; a++) {
        int32_t b = cst_mass_bin(edges, bins, w->confidence[a]);
        right[b] += w->accuracy[a];
        mass[b] += 1;
    }
    bool missed = false;
    for (int32_t b = 0; b < bins; b++) {
        double truth = right[b] / mass[b]; /* NaN, which misses nothing, where no row can be */
        missed |= truth < certified[b].lower || truth > certified[b].upper;
        missed |= fabs(truth - certified[b].value) > epsilon;
    }
    return missed;
}

static void coverage_by_simulation(void **state) {
    cst_context *context = *state;
    const double delta = 0.2;
    int64_t times = repetitions(3000);
    int64_t missed[3] = {0}; /* upper, lower, bins */
    int64_t nontrivial = 0;
    for (int64_t r = 0; r < times; r++) {
        static rows first;
        static rows second;
        world w;
        cst_rng rng;
        cst_rng_init(&rng, 41, CST_STREAM_TEST, (uint32_t)r);
        make_world(&rng, r % 3 ? 0.5 * cst_rng_uniform(&rng) : 0, &w);
        draw(&rng, &w, &first);
        draw(&rng, &w, &second);
        cst_ece_bound bound;
        double truth = true_ece(&w);
        assert_int_equal(
            cst_ece_bound_of(context, second.p, ROWS, 2, second.labels, BINS, delta, &bound),
            CST_OK);
        missed[0] += truth > bound.upper;
        missed[1] += truth < bound.lower;
        nontrivial += bound.lower > 0;
        double edges[MASS_BINS + 1];
        int32_t bins = 0;
        cst_certified_bin certified[MASS_BINS];
        double epsilon = 0;
        double hoeffding = 0;
        assert_int_equal(cst_mass_edges(context, first.confidence, ROWS, MASS_BINS, edges, &bins),
                         CST_OK);
        assert_int_equal(
            cst_certify_bins(context, edges, bins,
                             (cst_judged_rows){second.confidence, second.correct, ROWS}, delta,
                             certified, &epsilon, &hoeffding),
            CST_OK);
        assert_true(epsilon <= hoeffding * 1.2);
        missed[2] += bins_miss(&w, edges, bins, certified, epsilon);
    }
    assert_true(plausible_said("ECE, both sides", missed[0] + missed[1], times, delta));
    assert_true(plausible_said("certified bins, all of them", missed[2], times, delta));
    assert_true(nontrivial > times / 4); /* the lower bound is one */
    assert_true(missed[2] > times / 50); /* and the bins are not loose */
}

/* One confidence that is off by some deviations of the mean, and one bin: the error is the size of
 * one mean then, and Bernstein's inequality is as near as it comes. At a small delta half its width
 * would be missed several times as often as delta; at a large one it is missed in a hundredth of
 * the splits and more, and would hardly ever be with twice its width. */
static void coverage_where_the_interval_is_tight(void **state) {
    const double deltas[] = {0.005, 0.5};
    int64_t times = repetitions(3000);
    world w;
    make_shifted(0.1, &w);
    for (int i = 0; i < 2; i++) {
        int64_t missed = 0;
        for (int64_t r = 0; r < times; r++) {
            static rows sample;
            cst_rng rng;
            cst_ece_bound bound;
            cst_rng_init(&rng, 42, CST_STREAM_TEST, (uint32_t)r);
            draw(&rng, &w, &sample);
            assert_int_equal(
                cst_ece_bound_of(*state, sample.p, ROWS, 2, sample.labels, 1, deltas[i], &bound),
                CST_OK);
            missed += bound.upper < 0.1 || bound.lower > 0.1;
        }
        if (!plausible_said("ECE where the interval is tight", missed, times, deltas[i]))
            fail_msg("at %g %lld of %lld missed", deltas[i], (long long)missed, (long long)times);
        assert_true(i == 0 || missed > times / 100);
    }
}

/* At a calibrated model the estimate is above 0, as is the bootstrap's interval around it. */
static void the_bootstrap_misses_a_calibrated_model(void **state) {
    cst_context *context = *state;
    enum { TIMES = 100 };
    int bootstrap = 0;
    int bound_missed = 0;
    for (int r = 0; r < TIMES; r++) {
        static rows sample;
        world w;
        cst_rng rng;
        cst_ece_bound bound;
        cst_metric_intervals intervals;
        cst_rng_init(&rng, 43, CST_STREAM_TEST, (uint32_t)r);
        make_world(&rng, 0, &w);
        draw(&rng, &w, &sample);
        assert_int_equal(
            cst_ece_bound_of(context, sample.p, ROWS, 2, sample.labels, BINS, 0.05, &bound),
            CST_OK);
        assert_int_equal(bootstrap_metrics(context, sample.p, ROWS, 2, sample.labels, BINS, 200,
                                           (uint64_t)r, &intervals),
                         CST_OK);
        bound_missed += bound.lower > 0;
        bootstrap += intervals.ece.low > 0;
    }
    assert_int_equal(bootstrap, TIMES);
    assert_int_equal(bound_missed, 0);
}

/* ---- edges ---- */

static void ties_and_empty_bins(void **state) {
    cst_context *context = *state;
    const double same[] = {0.7, 0.7, 0.7, 0.7, 1, 1, 1, 1};
    const unsigned char correct[] = {1, 0, 1, 1, 1, 1, 1, 1};
    double edges[5];
    int32_t bins = 0;
    const double given[] = {0, 0.7, 1};
    cst_certified_bin certified[4];
    double epsilon = 0;
    double hoeffding = 0;
    assert_int_equal(cst_mass_edges(context, same, 8, 4, edges, &bins), CST_OK);
    assert_int_equal(bins, 1); /* below 0.7 there is no row */
    assert_true(edges[0] == 0 && edges[1] == 1);
    assert_int_equal(cst_certify_bins(context, given, 2, (cst_judged_rows){same, correct, 8}, 0.1,
                                      certified, &epsilon, &hoeffding),
                     CST_OK);
    assert_int_equal(certified[0].count, 0);
    assert_true(certified[0].lower == 0 && certified[0].upper == 1 && certified[0].value == 0.35);
    assert_true(certified[1].count == 8 && certified[1].correct == 7);
    assert_close(epsilon, 0.65, 1e-9);
    assert_true(isinf(hoeffding));
    assert_int_equal(cst_mass_bin(given, 2, 0.69), 0);
    assert_int_equal(cst_mass_bin(given, 2, 0.7), 1);
    assert_int_equal(cst_mass_bin(given, 2, 1), 1);
}

/* Between two heaps of equal confidences lie two rows: not a bin of their own. */
static void no_bin_is_nearly_empty(void **state) {
    cst_context *context = *state;
    double confidences[40];
    double edges[9];
    int32_t bins = 0;
    for (int i = 0; i < 40; i++)
        confidences[i] = i < 18 ? 0.5 + i * 0.01 : i < 20 ? 0.9 : 0.99;
    confidences[18] = 0.8;
    assert_int_equal(cst_mass_edges(context, confidences, 40, 8, edges, &bins), CST_OK);
    /* Ranks 5, 10, 15, 20, ..: 0.55, 0.6, 0.65 and 0.99, with 5, 5, 5, 5 and 20 rows. */
    assert_int_equal(bins, 5);
    assert_true(edges[3] == confidences[15] && edges[4] == 0.99);
    confidences[17] = confidences[18] = confidences[19] = 0.99;
    /* 15 and 16 alone would be between 0.65 and 0.99. */
    assert_int_equal(cst_mass_edges(context, confidences, 40, 8, edges, &bins), CST_OK);
    assert_int_equal(bins, 4);
    assert_true(edges[2] == confidences[10] && edges[3] == confidences[15] && edges[4] == 1);
}

static void bad_input_is_refused(void **state) {
    cst_context *context = *state;
    const float p[] = {0.5F, 0.5F};
    const int32_t label = 1;
    const double c = 0.5;
    const unsigned char right = 1;
    double edges[3] = {0, 0.5, 1};
    int32_t bins = 0;
    cst_ece_bound bound;
    cst_certified_bin certified[2];
    assert_int_equal(cst_ece_bound_of(context, p, 1, 2, &label, 10, 1, &bound), CST_ERROR_ARGUMENT);
    assert_true(isnan(bound.value));
    assert_int_equal(cst_ece_bound_of(context, p, 1, 2, &label, -1, 0.1, &bound),
                     CST_ERROR_ARGUMENT);
    assert_int_equal(cst_ece_bound_of(context, p, 1, 1, &label, 10, 0.1, &bound), CST_ERROR_INPUT);
    assert_int_equal(cst_mass_edges(context, &c, 0, 2, edges, &bins), CST_ERROR_ARGUMENT);
    assert_int_equal(cst_mass_edges(context, &c, 1, 0, edges, &bins), CST_ERROR_ARGUMENT);
    assert_int_equal(cst_certify_bins(context, edges, 2, (cst_judged_rows){&c, &right, 1}, 0,
                                      certified, edges, edges),
                     CST_ERROR_ARGUMENT);
    /* One row: everything is possible. */
    assert_int_equal(cst_ece_bound_of(context, p, 1, 2, &label, 0, 0.1, &bound), CST_OK);
    assert_true(bound.lower == 0 && bound.upper == 1);
}

static void confidences_outside_are_refused(void **state) {
    cst_context *context = *state;
    const double outside[] = {NAN, 2, -0.1, INFINITY, -INFINITY};
    const unsigned char correct[] = {1, 0, 1};
    for (int i = 0; i < 6; i++) {
        const double confidences[] = {0, i < 5 ? outside[i] : 0.5, 1};
        double edges[3] = {0, 0.5, 1};
        double epsilon = 0;
        double hoeffding = 0;
        int32_t bins = 0;
        cst_certified_bin certified[2];
        cst_status wanted = i < 5 ? CST_ERROR_INPUT : CST_OK;
        assert_int_equal(cst_certify_bins(context, edges, 2,
                                          (cst_judged_rows){confidences, correct, 3}, 0.1,
                                          certified, &epsilon, &hoeffding),
                         wanted);
        if (i < 5)
            assert_non_null(strstr(cst_last_error(context), "confidence of row 1"));
        assert_int_equal(cst_mass_edges(context, confidences, 3, 2, edges, &bins), wanted);
    }
}

/* The paper: ECE(blend) is at most the largest ECE of what it blends, as ECE is convex. Two members
 * without any calibration error, each certain where the other one guesses: their mean is always
 * right and says 0.75. */
static void a_blend_may_be_worse_calibrated_than_its_members(void **state) {
    cst_context *context = NULL;
    cst_ece_bound bound;
    (void)state;
    const int32_t labels[] = {0, 1, 0, 1};
    const float first[] = {1, 0, 0, 1, 0.5F, 0.5F, 0.5F, 0.5F};
    const float second[] = {0.5F, 0.5F, 0.5F, 0.5F, 1, 0, 0, 1};
    float blend[8];
    for (int i = 0; i < 8; i++)
        blend[i] = (first[i] + second[i]) / 2;
    assert_int_equal(cst_context_create(&context), CST_OK);
    assert_int_equal(cst_ece_bound_of(context, first, 4, 2, labels, 0, 0.05, &bound), CST_OK);
    assert_true(bound.value == 0);
    assert_int_equal(cst_ece_bound_of(context, second, 4, 2, labels, 0, 0.05, &bound), CST_OK);
    assert_true(bound.value == 0);
    assert_int_equal(cst_ece_bound_of(context, blend, 4, 2, labels, 0, 0.05, &bound), CST_OK);
    assert_true(bound.value == 0.25);
    cst_context_free(context);
}

int suite_calibration(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_interval_agrees_with_numpy),
        cmocka_unit_test(certified_bins_agree_with_numpy),
        cmocka_unit_test(coverage_by_simulation),
        cmocka_unit_test(the_bootstrap_misses_a_calibrated_model),
        cmocka_unit_test(ties_and_empty_bins),
        cmocka_unit_test(no_bin_is_nearly_empty),
        cmocka_unit_test(bad_input_is_refused),
        cmocka_unit_test(coverage_where_the_interval_is_tight),
        cmocka_unit_test(confidences_outside_are_refused),
        cmocka_unit_test(a_blend_may_be_worse_calibrated_than_its_members),
    };
    return cmocka_run_group_tests(tests, context_setup, context_teardown);
}
