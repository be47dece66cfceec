/*
 * Distributions and tests of comparisons: against SciPy on grids that reach 1e-300, by hand, and at
 * the edges of what is defined.
 */
#include <corestack/more.h>

#include "data/statistics.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "check.h"
#include "stats/statistics.h"

/* Relative, also for the smallest p. */
static void assert_relative_at(double got, double expected, const double *arguments) {
    if (!(fabs(got - expected) <= 1e-10 * fabs(expected)))
        fail_msg("at (%.17g, %.17g): got %.17g, expected %.17g", arguments[0], arguments[1], got,
                 expected);
}

static double normal_lower(double z) {
    return 0.5 * erfc(-z * sqrt(0.5));
}

static void tails_agree_with_scipy(void **state) {
    (void)state;
    for (const double *row = student; row < student + 3 * student_rows; row += 3) {
        assert_relative_at(cst_student_t_two_sided(row[0], row[1]), row[2], row);
        assert_true(cst_student_t_two_sided(-row[0], row[1]) ==
                    cst_student_t_two_sided(row[0], row[1]));
    }
    for (const double *row = normal; row < normal + 3 * normal_rows; row += 3) {
        assert_relative_at(normal_lower(row[0]), row[1], row);
        assert_relative_at(normal_lower(-row[0]), row[2], row);
    }
    for (const double *row = quantile; row < quantile + 2 * quantile_rows; row += 2)
        assert_relative_at(cst_normal_quantile(row[0]), row[1], row);
    for (const double *row = chi_square; row < chi_square + 3 * chi_square_rows; row += 3)
        assert_relative_at(cst_chi_square_upper(row[0], row[1]), row[2], row);
    for (const double *row = binomial; row < binomial + 3 * binomial_rows; row += 3) {
        int64_t k = (int64_t)row[0];
        int64_t n = (int64_t)row[1];
        assert_relative_at(cst_binomial_two_sided(k, n), row[2], row);
        assert_true(cst_binomial_two_sided(n - k, n) == cst_binomial_two_sided(k, n));
    }
}

/* Student t in closed form: arctangent at df = 1, algebraic at df = 2; chi-square of 2 is
 * exponential. */
static void closed_forms(void **state) {
    (void)state;
    const double pi = 3.14159265358979323846;
    for (double t = 1e-6; t < 1e140; t *= 7.3) {
        double one[] = {t, 1};
        double two[] = {t, 2};
        double root = sqrt(2 + t * t);
        assert_relative_at(cst_student_t_two_sided(t, 1), 2 / pi * atan(1 / t), one);
        assert_relative_at(cst_student_t_two_sided(t, 2), 2 / (root * (root + t)), two);
        if (t < 1300)
            assert_relative_at(cst_chi_square_upper(t, 2), exp(-t / 2), two);
    }
    /* The largest df of the continued fraction beside the expansion for larger ones. */
    for (double t = 0.5; t < 38; t += 1.7) {
        double at[] = {t, 1e10};
        assert_relative_at(cst_student_t_two_sided(t, 1e10 * (1 + 1e-12)),
                           cst_student_t_two_sided(t, 1e10), at);
    }
}

static void quantile_inverts_the_tail(void **state) {
    (void)state;
    for (double p = 1e-305; p < 0.5; p *= 3.7) {
        double at[] = {p, 0};
        double z = cst_normal_quantile(p);
        /* A relative error e of z is one of z^2 e of the tail. */
        if (!(fabs(normal_lower(z) / p - 1) <= 1e-15 * (4 + z * z)))
            assert_relative_at(normal_lower(z), p, at);
    }
    assert_true(cst_normal_quantile(0.5) == 0);
    assert_true(isinf(cst_normal_quantile(0)) && cst_normal_quantile(0) < 0);
    assert_true(isinf(cst_normal_quantile(1)) && cst_normal_quantile(1) > 0);
    assert_true(isfinite(cst_normal_quantile(5e-324)));
}

static void tails_at_the_ends(void **state) {
    (void)state;
    assert_true(cst_student_t_two_sided(0, 0.3) == 1 && cst_student_t_two_sided(0, 1e12) == 1);
    assert_true(cst_student_t_two_sided(HUGE_VAL, 3) == 0);
    assert_true(cst_student_t_two_sided(1, HUGE_VAL) == 2 * normal_lower(-1));
    assert_true(cst_student_t_two_sided(1e300, 1e-5) > 0.99);
    assert_true(cst_student_t_two_sided(1e300, 1e5) == 0);
    assert_true(cst_chi_square_upper(0, 3) == 1 && cst_chi_square_upper(-1, 3) == 1);
    assert_true(cst_chi_square_upper(HUGE_VAL, 3) == 0 && cst_chi_square_upper(5e-324, 3) == 1);
    assert_true(cst_binomial_two_sided(0, 0) == 1 && cst_binomial_two_sided(1, 2) == 1);
    assert_true(cst_binomial_two_sided(0, 5) == 2.0 / 32);
    assert_true(isnan(cst_student_t_two_sided(1, 0)) && isnan(cst_student_t_two_sided(NAN, 1)));
    assert_true(isnan(cst_chi_square_upper(1, -1)) && isnan(cst_chi_square_upper(NAN, 1)));
    assert_true(isnan(cst_normal_quantile(-0.1)) && isnan(cst_normal_quantile(NAN)));
    assert_true(isnan(cst_binomial_two_sided(3, 2)) && isnan(cst_binomial_two_sided(-1, 2)));
}

static void paired_t_test_agrees_with_scipy(void **state) {
    cst_context *context = *state;
    for (const double *row = paired; row < paired + 5 * paired_rows; row += 5) {
        cst_t_test test;
        assert_int_equal(cst_paired_t_test(context, paired_a, paired_b, (int64_t)row[0], &test),
                         CST_OK);
        assert_int_equal(test.samples, (int64_t)row[0]);
        assert_relative_at(test.mean_difference, row[1], row);
        assert_relative_at(test.standard_error, row[2], row);
        assert_relative_at(test.t, row[3], row);
        assert_relative_at(test.p, row[4], row);
        assert_true(test.df == row[0] - 1);
    }
}

/* Differences 1, 2, 3 on top of values of 1e9: mean 2, variance 1. */
static void paired_t_test_by_hand(void **state) {
    cst_context *context = *state;
    double a[] = {1e9 + 1, 1e9 + 2, 1e9 + 3};
    double b[] = {1e9, 1e9, 1e9};
    cst_t_test test;
    assert_int_equal(cst_paired_t_test(context, a, b, 3, &test), CST_OK);
    assert_true(test.mean_difference == 2 && test.df == 2);
    assert_float_equal(test.standard_error, sqrt(1.0 / 3), 1e-15);
    assert_int_equal(cst_paired_t_test(context, a, a, 3, &test), CST_OK);
    assert_true(test.p == 1 && test.t == 0 && test.standard_error == 0);
    cst_t_test before = test;
    a[2] = HUGE_VAL;
    assert_int_equal(cst_paired_t_test(context, a, b, 3, &test), CST_ERROR_INPUT);
    assert_memory_equal(&test, &before, sizeof test); /* a refusal leaves it alone */
    for (int i = 0; i < 3; i++)
        a[i] = b[i] - 1;
    assert_int_equal(cst_paired_t_test(context, a, b, 3, &test), CST_OK);
    assert_true(test.p == 0 && isinf(test.t) && test.t < 0 && test.mean_difference == -1);
    assert_int_equal(cst_paired_t_test(context, a, b, 1, &test), CST_ERROR_ARGUMENT);
    a[1] = NAN;
    assert_int_equal(cst_paired_t_test(context, a, b, 3, &test), CST_ERROR_INPUT);
    assert_non_null(strstr(cst_last_error(context), "sample 1"));
}

static void adjusted_p_values(void **state) {
    (void)state;
    enum { TESTS = sizeof raw_p / sizeof *raw_p };
    double p[TESTS];
    memcpy(p, raw_p, sizeof p);
    cst_bonferroni(p, TESTS);
    for (int i = 0; i < TESTS; i++)
        assert_relative_at(p[i], bonferroni_p[i], raw_p + (i < TESTS - 1 ? i : 0));
}

static void mcnemar_agrees_with_scipy(void **state) {
    (void)state;
    cst_mcnemar_test test;
    unsigned char first[1000];
    unsigned char second[1000];
    for (const double *row = mcnemar; row < mcnemar + 5 * mcnemar_rows; row += 5) {
        int both = (int)row[0];
        int one = (int)row[1];
        int other = (int)row[2];
        int n = both + one + other + 3; /* three that both have wrong */
        for (int i = 0; i < n; i++) {
            first[i] = i < both + one;
            second[i] = i < both || (i >= both + one && i < both + one + other);
        }
        cst_mcnemar(first, second, n, &test);
        assert_true(test.samples == n && test.only_first == one && test.only_second == other);
        assert_int_equal(test.exact, (int)row[3]);
        assert_relative_at(test.p, row[4], row);
    }
    cst_mcnemar(first, first, 10, &test);
    assert_true(test.p == 1 && test.exact == 1);
}

static void spearman_agrees_with_scipy(void **state) {
    cst_context *context = *state;
    cst_rank_correlation test;
    for (const double *row = spearman; row < spearman + 4 * spearman_rows; row += 4) {
        assert_int_equal(cst_spearman(context, ranked_x, ranked_y, (int64_t)row[0], &test), CST_OK);
        assert_int_equal(test.samples, (int64_t)row[0]);
        assert_relative_at(test.rho, row[1], row);
        assert_int_equal(test.exact, (int)row[3]);
        assert_relative_at(test.p, row[2], row);
    }
}

static void spearman_by_hand(void **state) {
    cst_context *context = *state;
    const double up[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
    double down[12];
    double flat[12] = {0};
    cst_rank_correlation test;
    for (int i = 0; i < 12; i++)
        down[i] = -up[i] * up[i];
    /* Of the n! orders, two reach |rho| = 1. */
    double factorial = 2;
    for (int64_t n = 3; n <= 9; n++) {
        factorial *= (double)n;
        assert_int_equal(cst_spearman(context, up, down, n, &test), CST_OK);
        assert_true(test.rho == -1 && test.exact == 1 && test.p == 2 / factorial);
    }
    assert_int_equal(cst_spearman(context, up, down, 12, &test), CST_OK);
    assert_true(test.rho == -1 && test.exact == 0 && test.p == 0);
    assert_int_equal(cst_spearman(context, up, flat, 12, &test), CST_ERROR_INPUT);
    assert_non_null(strstr(cst_last_error(context), "second array"));
    flat[4] = NAN;
    assert_int_equal(cst_spearman(context, flat, up, 12, &test), CST_ERROR_INPUT);
    assert_non_null(strstr(cst_last_error(context), "value 4 of the first array"));
}

int suite_statistics(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tails_agree_with_scipy),
        cmocka_unit_test(closed_forms),
        cmocka_unit_test(quantile_inverts_the_tail),
        cmocka_unit_test(tails_at_the_ends),
        cmocka_unit_test_setup_teardown(paired_t_test_agrees_with_scipy, context_setup,
                                        context_teardown),
        cmocka_unit_test_setup_teardown(paired_t_test_by_hand, context_setup, context_teardown),
        cmocka_unit_test_setup_teardown(adjusted_p_values, context_setup, context_teardown),
        cmocka_unit_test_setup_teardown(mcnemar_agrees_with_scipy, context_setup, context_teardown),
        cmocka_unit_test_setup_teardown(spearman_agrees_with_scipy, context_setup,
                                        context_teardown),
        cmocka_unit_test_setup_teardown(spearman_by_hand, context_setup, context_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
