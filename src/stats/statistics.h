/* Distributions, paired tests, rank correlation, exact bounds. docs/json.md#compare. */
#pragma once

#include "core/scope.h"

/* ---- distributions: relative error at most 1e-10 down to 1e-300; NaN outside the domain ---- */

/* P(|T| >= |t|) for Student's t with df > 0 (any real; infinite: normal). */
double cst_student_t_two_sided(double t, double df);

/* Returns the z with P(Z <= z) = p for p in [0, 1]; infinite at 0 and 1. */
double cst_normal_quantile(double p);

/* P(X >= x) for chi-square with df > 0; 1 for x <= 0. */
double cst_chi_square_upper(double x, double df);

/* Two-sided p of 0 <= successes <= trials fair coin flips. */
double cst_binomial_two_sided(int64_t successes, int64_t trials);

/* ---- tests ---- */

/* Mean over rows of a loss less another, and its standard error (of the variance over n). */
double cst_paired_mean(const double *loss, const double *other, int64_t rows, double *se);

/* Of paired differences, first minus second. */
typedef struct cst_t_test {
    int64_t samples;
    double mean_difference; /* in the unit of the values */
    double standard_error;  /* of mean_difference, the same unit */
    double t;
    double df; /* samples - 1 */
    double p;  /* two-sided */
} cst_t_test;

/* Paired t-test (Student 1908) of a and b [samples]. Equal differences: p is 1 (t 0) if they are 0,
 * else 0 (t infinite). CST_ERROR_ARGUMENT for fewer than 2 samples, CST_ERROR_INPUT for a
 * difference that is not finite. */
cst_status cst_paired_t_test(cst_context *context, const double *a, const double *b,
                             int64_t samples, cst_t_test *out);

/* Adjusts p-values [tests] for multiple tests by Bonferroni's method: min(1, tests * p). */
void cst_bonferroni(double *p, int64_t tests);

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

/* McNemar's test (1947) of equal top-1 accuracy: exact with few discordant samples, else chi-square
 * with Edwards' correction. first, second: [samples], non-zero if correct. */
void cst_mcnemar(const unsigned char *first, const unsigned char *second, int64_t samples,
                 cst_mcnemar_test *out);

typedef struct cst_rank_correlation {
    int64_t samples;
    double rho; /* in [-1, 1] */
    double p;   /* two-sided, of no association */
    int exact;  /* 1: share of all orders; 0: Student t with samples - 2 degrees of freedom */
} cst_rank_correlation;

/* Up to this many samples Spearman's p value counts all orders of them. */
#define CST_SPEARMAN_EXACT_UP_TO 9

/* Spearman's rank correlation (1904) of x and y [samples >= 3]; ties get mean ranks.
 * CST_ERROR_INPUT for values that are not finite, or all equal. */
cst_status cst_spearman(cst_context *context, const double *x, const double *y, int64_t samples,
                        cst_rank_correlation *out);

/* ---- exact bounds of a probability; NaN outside the stated domain ---- */

/* P(X <= k) and P(X >= k) of X ~ Binomial(n, p), n >= 0, to relative precision. */
double cst_binomial_at_most(int64_t k, int64_t n, double p);
double cst_binomial_at_least(int64_t k, int64_t n, double p);

/* Bounds of p by tail inversion (Clopper and Pearson 1934), each wrong with probability at most
 * delta over X ~ Binomial(n, p): the least double with P(X <= k) <= delta, the largest with P(X >=
 * k) <= delta; 1 where k = n, 0 where k = 0. */
double cst_binomial_upper(int64_t k, int64_t n, double delta);
double cst_binomial_lower(int64_t k, int64_t n, double delta);

/* kl(p || q) = p log(p / q) + (1 - p) log((1 - p) / (1 - q)) in nats, p and q in [0, 1]; infinite
 * where q is 0 or 1 and p is not. No digits are lost where p is next to q. */
double cst_binary_kl(double p, double q);

/* The largest q in [p, 1] with kl(p || q) <= bound; bound >= 0. Rounded outwards: kl at the result
 * is at least `bound`, unless the result is 1. */
double cst_binary_kl_upper(double p, double bound);

/* ---- ranks ---- */

typedef struct cst_rank_item {
    double value;
    int64_t index;
} cst_rank_item;

/* values [count], none NaN, ascending into sorted [count]; equal values by ascending index. */
void cst_rank_sort(const double *values, int64_t count, cst_rank_item *sorted);
/* As cst_rank_sort, of one value for each row, within the memory budget. */
cst_status cst_rank_sort_rows(cst_context *context, const double *values, int64_t count,
                              cst_rank_item *sorted);
