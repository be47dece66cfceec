/*
 * Blend weights: against NumPy and SciPy, with optimality recomputed, at extreme losses, and with 1
 * to 4 threads.
 */
#include "method/blend/blend.h"

#include "core/la.h"

#include "data/blend.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "check.h"

enum { M = BLEND_LEARNERS };

static int teardown(void **state) {
    cst_la_leave();
    cst_context_free(*state);
    return 0;
}

static const float *const *members(void) {
    static const float *data[M];
    for (int m = 0; m < M; m++)
        data[m] = blend_probabilities + (size_t)m * BLEND_ROWS * BLEND_CLASSES;
    return data;
}

static cst_view oof(void) {
    return (cst_view){.rows = BLEND_ROWS,
                      .classes = BLEND_CLASSES,
                      .members = M,
                      .data = members(),
                      .labels = blend_labels};
}

static void assert_weights(const double *got, const double *expected, int count, double tolerance) {
    double sum = 0;
    for (int m = 0; m < count; m++) {
        if (!(fabs(got[m] - expected[m]) <= tolerance))
            fail_msg("weight %d is %.17g, expected %.17g", m, got[m], expected[m]);
        sum += got[m];
    }
    assert_true(fabs(sum - 1) < 1e-12);
}

static void blend(cst_context *context, cst_blend_options options, double *weights) {
    cst_view view = oof();
    assert_int_equal(cst_blend_weights(context, &view, blend_nll, blend_logdet, &options, weights),
                     CST_OK);
}

static void laplace_weights_agree(void **state) {
    double w[M];
    cst_blend_options options = cst_blend_defaults();
    blend(*state, options, w);
    assert_weights(w, blend_laplace, M, 1e-12);
    options.temperature = 7.5;
    blend(*state, options, w);
    assert_weights(w, blend_laplace_warm, M, 1e-12);
    options.temperature = 1;
    options.mean_loss = true;
    blend(*state, options, w);
    assert_weights(w, blend_laplace_mean, M, 1e-12);
}

static void laplace_weights_never_overflow(void **state) {
    cst_context *context = *state;
    double w[3];
    const double huge[] = {1e8, 1e8 + 1, 2e8};
    const double expected[] = {1 / (1 + exp(-1)), 1 - 1 / (1 + exp(-1)), 0};
    assert_int_equal(cst_blend_laplace(context, 3, huge, NULL, 1, 1, w), CST_OK);
    assert_weights(w, expected, 3, 1e-12);
    const double lost[] = {INFINITY, 4, NAN};
    const double winner[] = {0, 1, 0};
    assert_int_equal(cst_blend_laplace(context, 3, lost, NULL, 1, 1, w), CST_OK);
    assert_weights(w, winner, 3, 0);
    const double extremes[] = {-1e308, 1e308, 1e308};
    const double first[] = {1, 0, 0};
    assert_int_equal(cst_blend_laplace(context, 3, extremes, NULL, 1e-6, 1, w), CST_OK);
    assert_weights(w, first, 3, 0);
    const double nothing[] = {INFINITY, NAN, INFINITY};
    assert_int_equal(cst_blend_laplace(context, 3, nothing, NULL, 1, 1, w), CST_ERROR_NUMERIC);
    assert_int_equal(cst_blend_laplace(context, 3, huge, NULL, 0, 1, w), CST_ERROR_ARGUMENT);
}

static void moments_and_inverse_rmse_agree(void **state) {
    cst_context *context = *state;
    double s[M * M];
    double w[M];
    cst_view view = oof();
    assert_int_equal(cst_residual_moments(context, &view, s), CST_OK);
    for (int j = 0; j < M * M; j++)
        assert_true(fabs(s[j] - blend_moments[j]) < 1e-14);
    blend(context, (cst_blend_options){.rule = CST_BLEND_INVERSE_RMSE}, w);
    assert_weights(w, blend_inverse_rmse, M, 1e-12);
}

static void a_learner_without_error_takes_all(void **state) {
    cst_context *context = *state;
    const float right[] = {1, 0, 0, 1};
    const float wrong[] = {0.5F, 0.5F, 0.5F, 0.5F};
    const float *data[] = {right, wrong, right};
    const int32_t labels[] = {0, 1};
    cst_view view = {.rows = 2, .classes = 2, .members = 3, .data = data, .labels = labels};
    double w[3];
    const double expected[] = {0.5, 0, 0.5};
    assert_int_equal(cst_blend_inverse_rmse(context, &view, w), CST_OK);
    assert_weights(w, expected, 3, 0);
}

static void minimum_variance_weights_agree(void **state) {
    double w[M];
    cst_blend_options options = {.rule = CST_BLEND_MINIMUM_VARIANCE, .allow_negative = true};
    blend(*state, options, w);
    assert_weights(w, blend_closed_form, M, 1e-9);
    options.allow_negative = false;
    blend(*state, options, w);
    assert_weights(w, blend_non_negative, M, 1e-9);
    /* KKT: (Sw)_m equals the variance on the support and is not below it elsewhere. */
    double variance = 0;
    double gradient[M] = {0};
    for (int i = 0; i < M; i++)
        for (int j = 0; j < M; j++)
            gradient[i] += blend_moments[i * M + j] * w[j];
    for (int i = 0; i < M; i++)
        variance += w[i] * gradient[i];
    for (int i = 0; i < M; i++) {
        assert_true(w[i] >= 0);
        assert_true(gradient[i] >= variance * (1 - 1e-9));
        assert_true(w[i] == 0 || fabs(gradient[i] - variance) < 1e-9 * variance);
    }
}

/* The theorem: never worse than the best single learner; equal shares for equal learners even
 * though their covariance is singular. */
static void minimum_variance_of_twins(void **state) {
    cst_context *context = *state;
    const double s[] = {0.2, 0.2, 0.1, 0.2, 0.2, 0.1, 0.1, 0.1, 0.3};
    double w[3];
    assert_int_equal(cst_blend_minimum_variance(context, 3, s, false, w), CST_OK);
    const double expected[] = {1.0 / 3, 1.0 / 3, 1.0 / 3};
    assert_weights(w, expected, 3, 1e-6);
    const double zero[] = {0, 0, 0, 0};
    assert_int_equal(cst_blend_minimum_variance(context, 2, zero, false, w), CST_OK);
    assert_true(w[0] == 0.5 && w[1] == 0.5);
}

/* Random positive definite problems: stationarity on the support, dual feasibility off it. */
static void quadratic_programs_satisfy_their_kkt_conditions(void **state) {
    cst_context *context = *state;
    enum { N = 12 };
    cst_rng rng;
    cst_rng_init(&rng, 1, CST_STREAM_TEST, 0);
    int at_bound = 0;
    for (int trial = 0; trial < 200; trial++) {
        int n = 1 + trial % N;
        double a[N * N];
        double h[N * N];
        double b[N];
        double u[N];
        for (int j = 0; j < n * n; j++)
            a[j] = cst_rng_normal(&rng);
        for (int i = 0; i < n; i++) {
            b[i] = cst_rng_normal(&rng);
            for (int j = 0; j < n; j++) {
                h[i * n + j] = i == j ? 0.05 : 0;
                for (int k = 0; k < n; k++)
                    h[i * n + j] += a[i * n + k] * a[j * n + k];
            }
        }
        assert_int_equal(cst_nonnegative_quadratic(context, n, h, b, u), CST_OK);
        for (int i = 0; i < n; i++) {
            double gradient = -b[i];
            for (int j = 0; j < n; j++)
                gradient += h[i * n + j] * u[j];
            assert_true(u[i] >= 0);
            assert_true(gradient > -1e-9);
            assert_true(u[i] == 0 || fabs(gradient) < 1e-9);
            at_bound += u[i] == 0;
        }
    }
    assert_true(at_bound > 100);
}

static void stacking_weights_agree_and_are_optimal(void **state) {
    cst_context *context = *state;
    cst_view view = oof();
    double w[M];
    double gap = 1;
    assert_int_equal(cst_blend_stacking(context, &view, w, &gap), CST_OK);
    assert_true(gap <= 1e-9);
    assert_weights(w, blend_stacking, M, 1e-6);
    double nll = 0;
    double ratio[M] = {0};
    for (int i = 0; i < BLEND_ROWS; i++) {
        double mixture = 0;
        size_t at = (size_t)i * BLEND_CLASSES + (size_t)blend_labels[i];
        for (int m = 0; m < M; m++)
            mixture += w[m] * (double)view.data[m][at];
        nll -= log(mixture) / BLEND_ROWS;
        for (int m = 0; m < M; m++)
            ratio[m] += (double)view.data[m][at] / mixture / BLEND_ROWS;
    }
    assert_true(fabs(nll - blend_stacking_nll) < 1e-10);
    for (int m = 0; m < M; m++) {
        assert_true(ratio[m] <= 1 + 2e-9);
        assert_true(w[m] < 1e-9 || fabs(ratio[m] - 1) < 1e-6);
    }
}

/* Copies of one learner, and one that is certain of the truth. */
static void stacking_of_degenerate_pools(void **state) {
    cst_context *context = *state;
    const float p[] = {0.5F, 0.5F, 0.25F, 0.75F};
    const float sure[] = {1, 0, 0, 1};
    const float lost[] = {0, 1, 1, 0};
    const int32_t labels[] = {0, 1};
    double w[3];
    double gap = 1;
    const float *copies[] = {p, p, p};
    cst_view view = {.rows = 2, .classes = 2, .members = 3, .data = copies, .labels = labels};
    assert_int_equal(cst_blend_stacking(context, &view, w, &gap), CST_OK);
    assert_true(gap <= 1e-9);
    const float *mixed[] = {p, sure, lost};
    view.data = mixed;
    const double expected[] = {0, 1, 0};
    assert_int_equal(cst_blend_stacking(context, &view, w, &gap), CST_OK);
    assert_weights(w, expected, 3, 1e-8);
    assert_true(gap <= 1e-9);
}

static void uniform_greedy_and_single(void **state) {
    cst_context *context = *state;
    double w[M];
    const double equal[] = {0.2, 0.2, 0.2, 0.2, 0.2};
    blend(context, (cst_blend_options){.rule = CST_BLEND_UNIFORM}, w);
    assert_weights(w, equal, M, 1e-15);
    blend(context, (cst_blend_options){.rule = CST_BLEND_GREEDY}, w);
    double sum = 0;
    for (int m = 0; m < M; m++)
        sum += w[m];
    assert_true(fabs(sum - 1) < 1e-12 && w[3] == 0);
    cst_view one = oof();
    one.members = 1;
    for (int rule = CST_BLEND_LAPLACE; rule <= CST_BLEND_UNIFORM; rule++) {
        cst_blend_options options = {.rule = (cst_blend_rule)rule, .temperature = 1};
        assert_int_equal(cst_blend_weights(context, &one, blend_nll, NULL, &options, w), CST_OK);
        assert_true(w[0] == 1);
    }
}

/* Every rule from true-class probabilities and residual moments alone gives what it gives from all
 * probabilities. */
static void evidence_is_enough(void **state) {
    cst_context *context = *state;
    static float truth[M * BLEND_ROWS];
    double moments[M * M];
    cst_view view = oof();
    for (int m = 0; m < M; m++)
        for (int i = 0; i < BLEND_ROWS; i++)
            truth[m * BLEND_ROWS + i] =
                view.data[m][(size_t)i * BLEND_CLASSES + (size_t)blend_labels[i]];
    assert_int_equal(cst_residual_moments(context, &view, moments), CST_OK);
    for (int rule = CST_BLEND_LAPLACE; rule <= CST_BLEND_UNIFORM; rule++) {
        cst_blend_options options = {.rule = (cst_blend_rule)rule, .temperature = 30};
        bool needed = cst_blend_needs_moments(options.rule);
        cst_blend_evidence evidence = {.rows = BLEND_ROWS,
                                       .members = M,
                                       .nll = blend_nll,
                                       .logdet = blend_logdet,
                                       .truth = needed ? NULL : truth,
                                       .moments = needed ? moments : NULL};
        double expected[M];
        double got[M];
        blend(context, options, expected);
        assert_int_equal(cst_blend_weights_from(context, &evidence, &options, got), CST_OK);
        assert_weights(got, expected, M, 1e-6);
    }
    cst_blend_evidence none = {.rows = BLEND_ROWS};
    cst_blend_options options = cst_blend_defaults();
    double w[M];
    assert_int_equal(cst_blend_weights_from(context, &none, &options, w), CST_ERROR_ARGUMENT);
}

/* Rows over and over, so many that the threads share every pass. */
static void threads_do_not_change_a_byte(void **state) {
    cst_context *context = *state;
    enum { ROWS = 170000 };
    int64_t *index = malloc(ROWS * sizeof *index);
    assert_non_null(index);
    for (int64_t i = 0; i < ROWS; i++)
        index[i] = i % BLEND_ROWS;
    cst_view view = oof();
    view.rows = ROWS;
    view.index = index;
    const cst_blend_rule rules[] = {CST_BLEND_INVERSE_RMSE, CST_BLEND_MINIMUM_VARIANCE,
                                    CST_BLEND_STACKING};
    for (size_t r = 0; r < sizeof rules / sizeof rules[0]; r++) {
        cst_blend_options options = {.rule = rules[r]};
        double first[M];
        for (int threads = 1; threads <= 4; threads++) {
            double w[M];
            assert_int_equal(cst_context_set_threads(context, threads), CST_OK);
            assert_int_equal(cst_blend_weights(context, &view, NULL, NULL, &options, w), CST_OK);
            assert_int_equal(cst_context_threads(context), threads);
            if (threads == 1)
                memcpy(first, w, sizeof w);
            assert_memory_equal(first, w, sizeof w);
        }
        if (rules[r] == CST_BLEND_STACKING)
            assert_weights(first, blend_stacking, M, 2e-3); /* 170000 is no multiple of 150 */
    }
    free(index);
}

int suite_blend(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(laplace_weights_agree, la_setup, teardown),
        cmocka_unit_test_setup_teardown(laplace_weights_never_overflow, la_setup, teardown),
        cmocka_unit_test_setup_teardown(moments_and_inverse_rmse_agree, la_setup, teardown),
        cmocka_unit_test_setup_teardown(a_learner_without_error_takes_all, la_setup, teardown),
        cmocka_unit_test_setup_teardown(minimum_variance_weights_agree, la_setup, teardown),
        cmocka_unit_test_setup_teardown(minimum_variance_of_twins, la_setup, teardown),
        cmocka_unit_test_setup_teardown(quadratic_programs_satisfy_their_kkt_conditions, la_setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(stacking_weights_agree_and_are_optimal, la_setup, teardown),
        cmocka_unit_test_setup_teardown(stacking_of_degenerate_pools, la_setup, teardown),
        cmocka_unit_test_setup_teardown(uniform_greedy_and_single, la_setup, teardown),
        cmocka_unit_test_setup_teardown(evidence_is_enough, la_setup, teardown),
        cmocka_unit_test_setup_teardown(threads_do_not_change_a_byte, la_setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
