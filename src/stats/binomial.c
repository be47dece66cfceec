/*
 * Binomial tails by the incomplete beta function, their inversion and that of the binary KL by
 * bisection to the last bit. Under every certificate of an error rate. docs/bounds.md#the-bounds.
 */
#include "stats/binomial.h"

#include "stats/distributions.h"

#include <math.h>
#include <stdbool.h>

double cst_binomial_at_most(int64_t k, int64_t n, double p) {
    if (n < 0 || !(p >= 0 && p <= 1))
        return NAN;
    if (k < 0 || k >= n)
        return k < 0 ? 0 : 1;
    return cst_beta_lower((double)(n - k), (double)k + 1, 1 - p, p);
}

double cst_binomial_at_least(int64_t k, int64_t n, double p) {
    if (n < 0 || !(p >= 0 && p <= 1))
        return NAN;
    if (k <= 0 || k > n)
        return k <= 0 ? 1 : 0;
    return cst_beta_lower((double)k, (double)(n - k) + 1, p, 1 - p);
}

/* ---- bisection ---- */

/* What is compared with `bound` at a place q. */
typedef struct question {
    double (*value)(const struct question *asked, double q);
    int64_t k;
    int64_t n;
    double p;
    double bound;
} question;

/* Two neighbouring doubles, or the ends themselves: at *low the value is above the bound (rising:
 * below it), at *high it is not. Halving ends as there are finitely many doubles; it goes by the
 * geometric mean where the ends are of unlike size, for small bounds have all their digits too. */
static void bisect(const question *asked, bool rising, double *low, double *high) {
    for (;;) {
        double middle = *low + (*high - *low) / 2;
        if (*low > 0 && *high > 4 * *low)
            middle = sqrt(*low) * sqrt(*high);
        if (!(middle > *low && middle < *high))
            return;
        double value = asked->value(asked, middle);
        if (rising ? value < asked->bound : value > asked->bound)
            *low = middle;
        else
            *high = middle;
    }
}

static double at_most_of(const question *q, double p) {
    return cst_binomial_at_most(q->k, q->n, p);
}

static double at_least_of(const question *q, double p) {
    return cst_binomial_at_least(q->k, q->n, p);
}

static double kl_of(const question *q, double to) {
    return cst_binary_kl(q->p, to);
}

static bool counts_fit(int64_t k, int64_t n, double delta) {
    return n >= 1 && k >= 0 && k <= n && delta > 0 && delta < 1;
}

double cst_binomial_upper(int64_t k, int64_t n, double delta) {
    if (!counts_fit(k, n, delta))
        return NAN;
    if (k == n)
        return 1;
    if (k == 0) /* (1 - p)^n = delta */
        return -expm1(log(delta) / (double)n);
    question tail = {.value = at_most_of, .k = k, .n = n, .bound = delta};
    double low = 0;
    double high = 1;
    bisect(&tail, false, &low, &high);
    return high;
}

double cst_binomial_lower(int64_t k, int64_t n, double delta) {
    if (!counts_fit(k, n, delta))
        return NAN;
    if (k == 0)
        return 0;
    if (k == n) /* p^n = delta */
        return exp(log(delta) / (double)n);
    question tail = {.value = at_least_of, .k = k, .n = n, .bound = delta};
    double low = 0;
    double high = 1;
    bisect(&tail, true, &low, &high);
    return low;
}

/* ---- binary KL ---- */

/* One outcome's part of kl(p || q), -p log(q / p), with q - p added, which the parts of both
 * outcomes lose again. p > 0. */
static double kl_part(double p, double q, double gap) {
    return -p * cst_log_ratio_less(q, p, gap);
}

double cst_binary_kl(double p, double q) {
    if (!(p >= 0 && p <= 1 && q >= 0 && q <= 1))
        return NAN;
    if (p == 0)
        return -log1p(-q);
    if (p == 1)
        return -log(q);
    if (q == 1)
        return INFINITY;
    return kl_part(p, q, q - p) + kl_part(1 - p, 1 - q, p - q);
}

double cst_binary_kl_upper(double p, double bound) {
    if (!(p >= 0 && p <= 1 && bound >= 0))
        return NAN;
    if (p == 0)
        return -expm1(-bound);
    if (bound == 0 || p == 1)
        return p;
    question divergence = {.value = kl_of, .p = p, .bound = bound};
    double low = p;
    double high = 1;
    bisect(&divergence, true, &low, &high);
    return high;
}
