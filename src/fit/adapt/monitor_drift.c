/*
 * Members of a batch against the rows of the fit: entropy, predicted classes, disagreement with the
 * stack, missing rows. Each with a two-sided test; flags after Bonferroni's correction.
 * Under the monitor. docs/prediction.md#monitor.
 */
#include "fit/adapt/monitor.h"

#include <math.h>

static const double FAMILY = 0.01; /* probability of any flag in a batch like the fit */
static const double EXPECTED = 5;  /* rows of a group in a test, at least */
enum { ROWS_MIN = 30 };            /* rows of a tested batch */

static double two_sided(double z) {
    return erfc(fabs(z) / sqrt(2));
}

/* P(chi^2 of `degrees` > x), by the approximation of Wilson and Hilferty. */
static double chi_squared_above(double x, double degrees) {
    double scale = 2 / (9 * degrees);
    double z = (cbrt(x / degrees) - (1 - scale)) / sqrt(scale);
    return 0.5 * erfc(z / sqrt(2));
}

static cst_drift untested(double value, double fit) {
    return (cst_drift){.value = value, .fit = fit, .se = NAN, .p = NAN};
}

/* A mean over n rows against one over N. */
static cst_drift mean_drift(double value, double n, double fit, double deviation, double fit_n) {
    cst_drift drift = untested(value, fit);
    if (n < ROWS_MIN || fit_n < 1)
        return drift;
    drift.se = deviation * sqrt(1 / n + 1 / fit_n);
    if (drift.se > 0)
        drift.p = two_sided((value - fit) / drift.se);
    else if (fabs(value - fit) > 1e-6)
        drift.p = 0; /* a constant that is another one now */
    return drift;
}

static double deviance(double observed, double expected) {
    return observed > 0 ? 2 * observed * log(observed / expected) : 0;
}

/* A share of n rows against one of N: likelihood ratio, with a correction for continuity. */
static cst_drift share_drift(double count, double n, double fit_count, double fit_n) {
    cst_drift drift = untested(n > 0 ? count / n : NAN, fit_n > 0 ? fit_count / fit_n : NAN);
    if (n < ROWS_MIN || fit_n < 1)
        return drift;
    double pooled = (count + fit_count) / (n + fit_n);
    double expected = pooled * n;
    double gap = fabs(count - expected) - 0.5;
    drift.se = sqrt(pooled * (1 - pooled) * (1 / n + 1 / fit_n));
    if (!(drift.se > 0))
        return drift;
    drift.p = 1;
    if (gap > 0) {
        double a = expected + (count > expected ? gap : -gap);
        double b = count + fit_count - a;
        double chi = deviance(a, expected) + deviance(n - a, n - expected) +
                     deviance(b, pooled * fit_n) + deviance(fit_n - b, (1 - pooled) * fit_n);
        drift.p = two_sided(sqrt(chi > 0 ? chi : 0));
    }
    return drift;
}

/* Predicted classes: chi-squared of two samples over groups with enough rows. */
static void shares_drift(const cst_watch *watch, const int64_t *share, const int64_t *fit, double n,
                         double fit_n, cst_member_drift *out) {
    double chi = 0;
    double gap = 0;
    double rest[2] = {0, 0};
    int32_t groups = 0;
    double largest = -1;
    out->most = -1;
    out->most_share = out->most_fit = NAN;
    out->shares = untested(NAN, 0);
    if (n < 1 || fit_n < 1)
        return;
    for (int32_t g = 0; g <= watch->groups; g++) {
        double a = g < watch->groups ? (double)share[g] : rest[0];
        double b = g < watch->groups ? (double)fit[g] : rest[1];
        double expected = (a + b) * n / (n + fit_n);
        double change = fabs(a / n - b / fit_n);
        if (g < watch->groups) {
            gap += 0.5 * change;
            if (change > largest) {
                largest = change;
                out->most = g < watch->groups - 1 ? watch->group_class[g] : -1;
                out->most_share = a / n;
                out->most_fit = b / fit_n;
            }
        }
        if (g < watch->groups && expected < EXPECTED) {
            rest[0] += a;
            rest[1] += b;
        } else if (a + b > 0) {
            double other = (a + b) * fit_n / (n + fit_n);
            chi += (a - expected) * (a - expected) / expected + (b - other) * (b - other) / other;
            groups++;
        }
    }
    out->shares.value = gap;
    if (n >= ROWS_MIN && groups > 1)
        out->shares.p = chi_squared_above(chi, groups - 1);
}

static void count_test(const cst_drift *drift, int32_t *tests) {
    *tests += !isnan(drift->p);
}

static void raise_flag(cst_drift *drift, double level, int32_t *flags) {
    drift->flag = !isnan(drift->p) && drift->p < level;
    *flags += drift->flag;
}

void cst_monitor_compare(const cst_watch *watch, const cst_watch_rows *rows,
                         cst_monitor_result *result) {
    int32_t members = watch->members;
    int32_t tests = 0;
    for (int32_t k = 0; k <= members; k++) {
        cst_member_drift *drift = &result->drift[k];
        size_t groups = (size_t)k * (size_t)watch->groups;
        double n = (double)(k < members ? rows->predicted[k] : rows->rows);
        double fit_n = (double)(k < members ? watch->predicted[k] : watch->rows);
        drift->entropy = mean_drift(n > 0 ? rows->entropy[k] / n : NAN, n, watch->entropy[k],
                                    watch->deviation[k], fit_n);
        shares_drift(watch, rows->share + groups, watch->share + groups,
                     k < members ? n : (double)rows->whole,
                     k < members ? fit_n : (double)watch->whole, drift);
        drift->apart = drift->missing = untested(NAN, NAN);
        if (k < members) {
            drift->apart = share_drift((double)rows->apart[k], n, (double)watch->apart[k], fit_n);
            drift->missing =
                share_drift((double)(rows->rows - rows->predicted[k]), (double)rows->rows,
                            (double)(watch->rows - watch->predicted[k]), (double)watch->rows);
        }
        count_test(&drift->entropy, &tests);
        count_test(&drift->shares, &tests);
        count_test(&drift->apart, &tests);
        count_test(&drift->missing, &tests);
    }
    for (int32_t k = 0; k <= members; k++) {
        cst_member_drift *drift = &result->drift[k];
        raise_flag(&drift->entropy, FAMILY / tests, &result->flags);
        raise_flag(&drift->shares, FAMILY / tests, &result->flags);
        raise_flag(&drift->apart, FAMILY / tests, &result->flags);
        raise_flag(&drift->missing, FAMILY / tests, &result->flags);
    }
}
