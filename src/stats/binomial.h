/*
 * Exact confidence bounds of a probability from a number of errors, and the binary Kullback-Leibler
 * divergence with its inverses. Values outside the stated domain give NaN.
 * docs/bounds.md#the-bounds.
 */
#ifndef CST_METRICS_BINOMIAL_H
#define CST_METRICS_BINOMIAL_H

#include <stdint.h>

/* P(X <= k) and P(X >= k) of X ~ Binomial(n, p), each to relative precision. n >= 0, p in [0, 1].
 */
double cst_binomial_at_most(int64_t k, int64_t n, double p);
double cst_binomial_at_least(int64_t k, int64_t n, double p);

/* Tail inversion (Clopper and Pearson 1934; Langford 2005, theorem 3.3): whatever p is, it exceeds
 * the upper bound with probability at most delta over X ~ Binomial(n, p), and is below the lower
 * one with probability at most delta. The upper bound is the least double with P(X <= k) <= delta,
 * 1 where k = n; the lower one the largest with P(X >= k) <= delta, 0 where k = 0. 0 <= k <= n,
 * n >= 1, 0 < delta < 1. For a two-sided interval, delta / 2 each. */
double cst_binomial_upper(int64_t k, int64_t n, double delta);
double cst_binomial_lower(int64_t k, int64_t n, double delta);

/* kl(p || q) = p log(p / q) + (1 - p) log((1 - p) / (1 - q)) in nats, p and q in [0, 1]; infinite
 * where q is 0 or 1 and p is not. No digits are lost where p is next to q. */
double cst_binary_kl(double p, double q);

/* The largest q in [p, 1] with kl(p || q) <= bound; bound >= 0. Rounded outwards: kl at the result
 * is at least `bound`, unless the result is 1. */
double cst_binary_kl_upper(double p, double bound);

#endif
