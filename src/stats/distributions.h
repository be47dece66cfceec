/*
 * Functions under the tails of distributions that other modules need too. Under p values and exact
 * confidence bounds. docs/json.md#compare.
 */
#ifndef CST_METRICS_DISTRIBUTIONS_H
#define CST_METRICS_DISTRIBUTIONS_H

/* log(r) - (r - 1) of r = v / a, for v >= 0 and a > 0, to relative precision wherever r is. gap: v
 * - a, of which the caller may know more digits. */
double cst_log_ratio_less(double v, double a, double gap);

/* I_x(a, b), the regularised incomplete beta function, for a, b > 0, x in [0, 1] and y = 1 - x,
 * which the caller may know more digits of. */
double cst_beta_lower(double a, double b, double x, double y);

#endif
