/*
 * Statistics of comparisons: tails of distributions, paired tests of two methods on the same
 * samples, adjustment for many tests, rank correlation. method.md section 8.
 */
#ifndef CORESTACK_STATISTICS_H
#define CORESTACK_STATISTICS_H

#include <corestack/context.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- distributions: probabilities accurate to a relative 1e-10 down to 1e-300; NaN for arguments
 * outside the stated domain --------------------------------------------------------------------
 */

/* P(|T| >= |t|) of Student's t with df > 0 degrees of freedom, not only whole ones. An infinite df
 * is the normal distribution. */
CST_API double cst_student_t_two_sided(double t, double df);

/* P(Z <= z) and P(Z >= z) of the standard normal distribution. */
CST_API double cst_normal_lower(double z);
CST_API double cst_normal_upper(double z);

/* The z with P(Z <= z) = p, for p in [0, 1]; infinite at its ends. */
CST_API double cst_normal_quantile(double p);

/* P(X >= x) of chi-square with df > 0 degrees of freedom; 1 for x <= 0. */
CST_API double cst_chi_square_upper(double x, double df);

/* Probability of `successes` of `trials` fair coin flips, or a number as far from the middle or
 * farther on either side. 0 <= successes <= trials. */
CST_API double cst_binomial_two_sided(int64_t successes, int64_t trials);

/* ---- tests ---- */

/* Of paired differences, first minus second. */
typedef struct cst_t_test {
    int64_t samples;
    double mean_difference; /* in the unit of the values */
    double standard_error;  /* of mean_difference, the same unit */
    double t;
    double df; /* samples - 1 */
    double p;  /* two-sided */
} cst_t_test;

/* Paired t-test of a [samples] against b [samples], for example two methods' losses. Where all
 * differences are equal there is no error to measure by: p is 1 (t 0) if they are 0, else p is 0 (t
 * infinite). CST_ERROR_ARGUMENT for fewer than 2 samples; CST_ERROR_INPUT, with the sample, for a
 * difference that is not finite. */
CST_API cst_status cst_paired_t_test(cst_context *context, const double *a, const double *b,
                                     int64_t samples, cst_t_test *out);

/* p values adjusted for being `tests` many: min(1, tests p) by Bonferroni, and Holm's step-down,
 * which also bounds the probability of any false rejection and is never larger. p, out: [tests],
 * possibly the same array. CST_ERROR_ARGUMENT for a value outside [0, 1]. */
CST_API cst_status cst_bonferroni(cst_context *context, const double *p, int64_t tests,
                                  double *out);
CST_API cst_status cst_holm(cst_context *context, const double *p, int64_t tests, double *out);

typedef struct cst_mcnemar_test {
    int64_t samples;
    int64_t only_first;  /* samples that the first method alone has right */
    int64_t only_second; /* that the second alone has right */
    int exact;           /* 1: binomial; 0: chi-square with continuity correction */
    double statistic;    /* chi-square, 1 degree of freedom; the smaller count where exact */
    double p;            /* two-sided */
} cst_mcnemar_test;

/* Below this many samples that one method alone has right, McNemar's test is the exact one. */
#define CST_MCNEMAR_EXACT_BELOW 25

/* McNemar's test that two methods have the same top-1. first, second: [samples], not 0 where the
 * method's largest probability is the label's (`correct` of cst_metrics_per_sample). p is 1 where
 * the two are right on the same samples. */
CST_API cst_status cst_mcnemar(cst_context *context, const unsigned char *first,
                               const unsigned char *second, int64_t samples, cst_mcnemar_test *out);

typedef struct cst_rank_correlation {
    int64_t samples;
    double rho; /* in [-1, 1] */
    double p;   /* two-sided, of no association */
    int exact;  /* 1: share of all orders; 0: Student t with samples - 2 degrees of freedom */
} cst_rank_correlation;

/* Up to this many samples Spearman's p value counts all orders of them. */
#define CST_SPEARMAN_EXACT_UP_TO 9

/* Spearman's rank correlation of x [samples] and y [samples]; equal values have the mean of their
 * ranks. CST_ERROR_ARGUMENT for fewer than 3 samples; CST_ERROR_INPUT for a value that is not
 * finite, or where all values of an array are equal and it has no order to correlate. */
CST_API cst_status cst_spearman(cst_context *context, const double *x, const double *y,
                                int64_t samples, cst_rank_correlation *out);

#ifdef __cplusplus
}
#endif
#endif
