/*
 * Scores of predicted values against scikit-learn and SciPy; their bootstrap against the resamples
 * themselves; what is refused.
 */
#include <corestack/more.h>
#include <corestack/regression.h>

#include "data/regression.h"
#include "stats/resample.h"
#include "stats/row_weights.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "check.h"

/* In the order of the table of scores. */
typedef struct cst_value_intervals {
    cst_interval rmse, mae, median_ae, r2, nll;
} cst_value_intervals;

static cst_status bootstrap_values(cst_context *context, const cst_predicted_values *predicted,
                                   int32_t methods, const double *targets, int32_t resamples,
                                   uint64_t seed, int32_t reference, cst_value_intervals *intervals,
                                   cst_value_intervals *differences) {
    const cst_value_bootstrap_input input = {.predicted = predicted,
                                             .methods = methods,
                                             .targets = targets,
                                             .resamples = resamples,
                                             .seed = seed,
                                             .reference = reference};
    return cst_value_bootstrap_weighted(context, &input, intervals ? &intervals->rmse : NULL,
                                        differences ? &differences->rmse : NULL, NULL);
}

static void assert_near(double got, double expected) {
    assert_close(got, expected, 1e-12 * (fabs(expected) + 1e-3));
}

static const float *const halves[SCORE_LEVELS] = {
    score_half, score_half + SCORE_ROWS *SCORE_OUTPUTS, score_half + 2 * SCORE_ROWS *SCORE_OUTPUTS,
    score_half + 3 * SCORE_ROWS *SCORE_OUTPUTS};

static cst_predicted_values fixture(void) {
    return (cst_predicted_values){.rows = SCORE_ROWS,
                                  .outputs = SCORE_OUTPUTS,
                                  .mean = score_mean,
                                  .variance = score_variance,
                                  .levels = SCORE_LEVELS,
                                  .level = score_level,
                                  .half_width = halves};
}

static void scores_agree_with_scikit_learn(void **state) {
    cst_predicted_values p = fixture();
    cst_value_metrics average;
    cst_value_metrics each[SCORE_OUTPUTS];
    assert_int_equal(cst_value_metrics_evaluate(*state, &p, score_target, &average, each), CST_OK);
    for (int d = 0; d < SCORE_OUTPUTS; d++) {
        assert_near(each[d].rmse, each_rmse[d]);
        assert_near(each[d].mae, each_mae[d]);
        assert_near(each[d].median_ae, each_median[d]);
        assert_near(each[d].r2, each_r2[d]);
        assert_near(each[d].nll, each_nll[d]);
        for (int l = 0; l < SCORE_LEVELS; l++) {
            assert_near(each[d].coverage[l], each_coverage[l * SCORE_OUTPUTS + d]);
            assert_near(each[d].width[l], each_width[l * SCORE_OUTPUTS + d]);
        }
    }
    assert_near(average.rmse, score_average[0]);
    assert_near(average.mae, score_average[1]);
    assert_near(average.median_ae, score_average[2]);
    assert_near(average.r2, score_average[3]);
    assert_near(average.nll, score_average[4]);
    assert_int_equal(average.samples, SCORE_ROWS);
    assert_int_equal(average.levels, SCORE_LEVELS);
    double errors[SCORE_ROWS];
    assert_int_equal(cst_value_errors(*state, &p, score_target, errors), CST_OK);
    for (int i = 0; i < SCORE_ROWS; i++)
        assert_near(errors[i], score_errors[i]);
}

/* scikit-learn's convention: a constant target has nothing to explain. */
static void a_constant_target_has_r2_of_1_or_0(void **state) {
    float mean[4] = {2, 2, 2, 2};
    const double target[4] = {2, 2, 2, 2};
    cst_predicted_values p = {.rows = 4, .outputs = 1, .mean = mean};
    cst_value_metrics m;
    assert_int_equal(cst_value_metrics_evaluate(*state, &p, target, &m, NULL), CST_OK);
    assert_true(m.r2 == 1);
    assert_true(isnan(m.nll));
    mean[2] = 3;
    assert_int_equal(cst_value_metrics_evaluate(*state, &p, target, &m, NULL), CST_OK);
    assert_true(m.r2 == 0);
}

/* The same where the sum of the targets rounds, and in every resample. */
static void a_constant_target_is_one_whatever_sums_round_to(void **state) {
    enum { ROWS = 40 };
    float mean[ROWS] = {0};
    double target[ROWS];
    double weights[ROWS];
    cst_predicted_values p = {.rows = ROWS, .outputs = 1, .mean = mean};
    cst_value_metrics m;
    cst_value_intervals intervals;
    for (int step = 1; step <= 40; step++) {
        for (int i = 0; i < ROWS; i++) {
            target[i] = 0.1 * step;
            weights[i] = 0.1 * (1 + i % 7);
        }
        for (int weighted = 0; weighted < 2; weighted++) {
            assert_int_equal(
                cst_value_metrics_weighted(*state, &p, target, weighted ? weights : NULL, &m, NULL),
                CST_OK);
            assert_true(m.r2 == 0);
            const cst_value_bootstrap_input input = {.predicted = &p,
                                                     .methods = 1,
                                                     .targets = target,
                                                     .weights = weighted ? weights : NULL,
                                                     .resamples = 64};
            assert_int_equal(
                cst_value_bootstrap_weighted(*state, &input, &intervals.rmse, NULL, NULL), CST_OK);
            assert_true(intervals.r2.value == 0 && intervals.r2.low == 0 && intervals.r2.high == 0);
        }
    }
}

/* A resample without the only target that differs has equal ones, whose sums round the more rows
 * there are. */
static void a_constant_resample_has_r2_of_0(void **state) {
    enum { MANY = 100000 };
    float *mean = malloc(MANY * sizeof *mean);
    double *target = calloc(MANY, sizeof *target);
    assert_true(mean && target);
    for (int i = 0; i < MANY; i++)
        mean[i] = 0.01F;
    target[MANY / 2] = 1;
    cst_predicted_values p = {.rows = MANY, .outputs = 1, .mean = mean};
    cst_value_intervals got;
    assert_int_equal(bootstrap_values(*state, &p, 1, target, 64, 0, 0, &got, NULL), CST_OK);
    assert_true(got.r2.high == 0 && got.r2.low > -20);
    free(mean);
    free(target);
}

/* Errors are in units of the target's variance, but those of equal targets, whatever sums round to.
 */
static void errors_of_equal_targets_are_squares(void **state) {
    enum { ROWS = 40 };
    float mean[2 * ROWS];
    double target[2 * ROWS];
    double errors[ROWS];
    cst_predicted_values p = {.rows = ROWS, .outputs = 2, .mean = mean};
    for (int step = 1; step <= 40; step++) {
        for (int i = 0; i < ROWS; i++) {
            target[2 * i] = 0.1 * step;
            mean[2 * i] = 0;
            target[2 * i + 1] = i % 2;
            mean[2 * i + 1] = 0;
        }
        assert_int_equal(cst_value_errors(*state, &p, target, errors), CST_OK);
        for (int i = 0; i < ROWS; i++) /* the second output's variance is 1/4 */
            assert_near(errors[i], 0.5 * pow(0.1 * step, 2) + 0.5 * 4 * (i % 2));
    }
}

/* ---- bootstrap ---- */

enum { RESAMPLES = 40 };

static int by_size(const void *a, const void *b) {
    double x = *(const double *)a;
    double y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The rows of a resample, written out one by one and scored as rows of their own. */
static void score_resample(cst_context *context, const cst_resample *drawn, int lane,
                           const float *mean, cst_value_metrics *out) {
    enum { CELLS = SCORE_ROWS * SCORE_OUTPUTS };
    float rows[CELLS];
    float variance[CELLS];
    double target[CELLS];
    size_t at = 0;
    for (int i = 0; i < SCORE_ROWS; i++)
        for (int c = 0; c < drawn->lane[lane * drawn->padded + i]; c++, at++)
            for (int d = 0; d < SCORE_OUTPUTS; d++) {
                rows[at * SCORE_OUTPUTS + (size_t)d] = mean[i * SCORE_OUTPUTS + d];
                variance[at * SCORE_OUTPUTS + (size_t)d] = score_variance[i * SCORE_OUTPUTS + d];
                target[at * SCORE_OUTPUTS + (size_t)d] = score_target[i * SCORE_OUTPUTS + d];
            }
    assert_int_equal(at, SCORE_ROWS);
    cst_predicted_values p = {
        .rows = SCORE_ROWS, .outputs = SCORE_OUTPUTS, .mean = rows, .variance = variance};
    assert_int_equal(cst_value_metrics_evaluate(context, &p, target, out, NULL), CST_OK);
}

static void expect_interval(const cst_interval *got, double value, double *drawn, int count) {
    qsort(drawn, (size_t)count, sizeof *drawn, by_size);
    double ends[2];
    for (int e = 0; e < 2; e++) {
        double place = (e ? 0.975 : 0.025) * (count - 1);
        int low = (int)place;
        ends[e] = drawn[low] + (place - low) * (drawn[low + 1] - drawn[low]);
    }
    if (!(fabs(got->value - value) <= 1e-9 * (fabs(value) + 1e-6)) ||
        !(fabs(got->low - ends[0]) <= 1e-9 * (fabs(ends[0]) + 1e-6)) ||
        !(fabs(got->high - ends[1]) <= 1e-9 * (fabs(ends[1]) + 1e-6)))
        fail_msg("got %.17g [%.17g, %.17g], expected %.17g [%.17g, %.17g]", got->value, got->low,
                 got->high, value, ends[0], ends[1]);
}

static void intervals_are_percentiles_of_scored_resamples(void **state) {
    enum { CELLS = SCORE_ROWS * SCORE_OUTPUTS };
    float worse[CELLS];
    for (int i = 0; i < CELLS; i++)
        worse[i] = score_mean[i] + 0.3F * (float)(i % 5 - 2) * sqrtf(score_variance[i]);
    cst_predicted_values methods[2] = {fixture(), fixture()};
    methods[1].mean = worse;
    cst_value_intervals got[2];
    cst_value_intervals difference[2];
    assert_int_equal(
        bootstrap_values(*state, methods, 2, score_target, RESAMPLES, 7, 0, got, difference),
        CST_OK);
    double drawn[2][4][RESAMPLES];
    cst_value_metrics on_all[2];
    for (int m = 0; m < 2; m++)
        assert_int_equal(
            cst_value_metrics_evaluate(*state, &methods[m], score_target, &on_all[m], NULL),
            CST_OK);
    CST_SCOPE(scope);
    cst_resample resample;
    assert_int_equal(cst_resample_make(*state, scope, SCORE_ROWS, &resample), CST_OK);
    for (int r = 0; r < RESAMPLES; r++) {
        if (r % CST_LANES == 0)
            cst_resample_draw(&resample, 7, (uint32_t)r);
        for (int m = 0; m < 2; m++) {
            cst_value_metrics s;
            score_resample(*state, &resample, r % CST_LANES, methods[m].mean, &s);
            const double scores[4] = {s.rmse, s.mae, s.r2, s.nll};
            for (int j = 0; j < 4; j++)
                drawn[m][j][r] = scores[j];
        }
    }
    double differences[4][RESAMPLES];
    for (int j = 0; j < 4; j++)
        for (int r = 0; r < RESAMPLES; r++)
            differences[j][r] = drawn[1][j][r] - drawn[0][j][r];
    expect_interval(&difference[1].rmse, on_all[1].rmse - on_all[0].rmse, differences[0],
                    RESAMPLES);
    expect_interval(&difference[1].r2, on_all[1].r2 - on_all[0].r2, differences[2], RESAMPLES);
    expect_interval(&got[1].rmse, on_all[1].rmse, drawn[1][0], RESAMPLES);
    expect_interval(&got[1].mae, on_all[1].mae, drawn[1][1], RESAMPLES);
    expect_interval(&got[0].r2, on_all[0].r2, drawn[0][2], RESAMPLES);
    expect_interval(&got[0].nll, on_all[0].nll, drawn[0][3], RESAMPLES);
    assert_true(difference[0].rmse.low == 0 && difference[0].rmse.high == 0);
    methods[1].variance = NULL;
    assert_int_equal(bootstrap_values(*state, methods, 2, score_target, RESAMPLES, 7, 0, got, NULL),
                     CST_OK);
    assert_true(isnan(got[1].nll.low) && !isnan(got[0].nll.low));
}

static void any_number_of_threads_gives_the_same_bytes(void **state) {
    cst_predicted_values p = fixture();
    cst_value_intervals got[2];
    for (int t = 0; t < 2; t++) {
        assert_int_equal(cst_context_set_threads(*state, t ? 3 : 1), CST_OK);
        assert_int_equal(bootstrap_values(*state, &p, 1, score_target, 100, 1, 0, &got[t], NULL),
                         CST_OK);
    }
    assert_memory_equal(&got[0], &got[1], sizeof got[0]);
}

/* ---- errors ---- */

static void expect_refused(cst_context *context, const cst_predicted_values *p,
                           const double *target, const char *says) {
    cst_value_metrics m;
    assert_int_not_equal(cst_value_metrics_evaluate(context, p, target, &m, NULL), CST_OK);
    if (!strstr(cst_last_error(context), says))
        fail_msg("'%s' does not say '%s'", cst_last_error(context), says);
}

static void bad_numbers_are_refused(void **state) {
    float mean[4] = {1, 2, 3, 4};
    float variance[4] = {1, 1, 1, 1};
    float half[4] = {1, 1, 1, 1};
    double target[4] = {1, 2, 3, 4};
    double level = 0.9;
    const float *const widths[1] = {half};
    cst_predicted_values p = {.rows = 2,
                              .outputs = 2,
                              .mean = mean,
                              .variance = variance,
                              .levels = 1,
                              .level = &level,
                              .half_width = widths};
    mean[3] = NAN;
    expect_refused(*state, &p, target, "the prediction of row 1, output 1 is nan");
    mean[3] = 4;
    target[2] = INFINITY;
    expect_refused(*state, &p, target, "the target of row 1, output 0 is inf");
    target[2] = 3;
    variance[1] = 0;
    expect_refused(*state, &p, target, "the variance of row 0, output 1 is 0");
    variance[1] = 1;
    half[0] = -1;
    expect_refused(*state, &p, target, "the half-width of row 0, output 0 is -1");
    half[0] = 1;
    level = 1;
    expect_refused(*state, &p, target, "level 1 of an interval is not in (0, 1)");
    level = 0.9;
    p.levels = CST_LEVELS_MAX + 1;
    expect_refused(*state, &p, target, "interval levels");
    p.levels = 1;
    p.rows = 0;
    expect_refused(*state, &p, target, "at least one row");
    p.rows = 2;
    cst_predicted_values two[2] = {p, p};
    two[1].outputs = 1;
    cst_value_intervals got[2];
    assert_int_equal(bootstrap_values(*state, two, 2, target, 10, 0, 0, got, NULL),
                     CST_ERROR_MISMATCH);
    assert_int_equal(bootstrap_values(*state, two, 1, target, 0, 0, 0, got, NULL),
                     CST_ERROR_ARGUMENT);
    assert_int_equal(bootstrap_values(*state, two, 1, target, 10, 0, 1, got, got),
                     CST_ERROR_ARGUMENT);
}

int suite_regression(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(scores_agree_with_scikit_learn),
        cmocka_unit_test(a_constant_target_has_r2_of_1_or_0),
        cmocka_unit_test(a_constant_target_is_one_whatever_sums_round_to),
        cmocka_unit_test(a_constant_resample_has_r2_of_0),
        cmocka_unit_test(errors_of_equal_targets_are_squares),
        cmocka_unit_test(intervals_are_percentiles_of_scored_resamples),
        cmocka_unit_test(any_number_of_threads_gives_the_same_bytes),
        cmocka_unit_test(bad_numbers_are_refused),
    };
    return cmocka_run_group_tests(tests, context_setup, context_teardown);
}
