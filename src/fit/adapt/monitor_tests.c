/* The tests of the monitor: the martingale of all rows, row by row, and a batch against the rows of
 * the fit, member by member, with flags after Bonferroni's correction.
 * docs/prediction.md#monitor. */
#include "fit/adapt/monitor.h"

#include <math.h>
#include <string.h>

static const double EXPONENT[CST_EVIDENCE_BETS] = {0.5, 0.7};
static const double TOLERANCE = 0.05;
static const double ROWS_SHARE = 0.5; /* M is at most this share of N */
static const double ROWS_MOST = 1000; /* and this */
static const double FIRST = 0.5;      /* capital of the bets that start with the first row */
static const double START_ROWS = 200; /* the rest starts at row j with density ~ (1 + j/200)^-1.5 */
static const double SHIFT = 0.002;    /* share of the capital that is spread evenly before a row */
static const double CLASS_ROWS = 20;  /* rows of the fit in the urns that learn new shares */
static const double FORGET = 0.99;    /* weight of a recent row after each further row */

size_t cst_evidence_counts(const cst_gauge *gauge) {
    return (size_t)gauge->tables * CST_GAUGE_STATISTICS * CST_GAUGE_BINS + (size_t)gauge->groups;
}

cst_status cst_evidence_take(cst_context *context, cst_scope *scope, const cst_gauge *gauge,
                             cst_evidence *evidence) {
    CST_TAKE(context, scope, evidence->seen, cst_evidence_counts(gauge));
    CST_TAKE(context, scope, evidence->recent, gauge->groups);
    cst_evidence_reset(gauge, evidence);
    return CST_OK;
}

void cst_evidence_reset(const cst_gauge *gauge, cst_evidence *evidence) {
    int64_t *seen = evidence->seen;
    double *recent = evidence->recent;
    memset(seen, 0, cst_evidence_counts(gauge) * sizeof *seen);
    memset(recent, 0, (size_t)gauge->groups * sizeof *recent);
    *evidence = (cst_evidence){.waiting = 1 - FIRST, .peak = 1, .seen = seen, .recent = recent};
    for (int e = 0; e < CST_EVIDENCE_BETS; e++)
        for (int b = 0; b < CST_GAUGE_BINS; b++) {
            double low = b > 0 ? cst_gauge_level[b - 1] : 0;
            double high = cst_gauge_level[b];
            evidence->density[e][b] =
                (pow(high, EXPONENT[e]) - (low > 0 ? pow(low, EXPONENT[e]) : 0)) / (high - low);
        }
    for (int s = 0; s < CST_EVIDENCE_TESTS; s++)
        for (int e = 0; e < CST_EVIDENCE_BETS; e++)
            evidence->capital[s][e] = FIRST / (CST_EVIDENCE_TESTS * CST_EVIDENCE_BETS);
}

void cst_evidence_copy(const cst_gauge *gauge, const cst_evidence *from, cst_evidence *to) {
    int64_t *seen = to->seen;
    double *recent = to->recent;
    memcpy(seen, from->seen, cst_evidence_counts(gauge) * sizeof *seen);
    memcpy(recent, from->recent, (size_t)gauge->groups * sizeof *recent);
    *to = *from;
    to->seen = seen;
    to->recent = recent;
}

static double sum_bets(const cst_evidence *evidence) {
    double sum = 0;
    for (int s = 0; s < CST_EVIDENCE_TESTS; s++)
        for (int e = 0; e < CST_EVIDENCE_BETS; e++)
            sum += evidence->capital[s][e];
    return sum;
}

double cst_evidence_value(const cst_evidence *evidence) {
    double value = evidence->waiting + sum_bets(evidence);
    return value < CST_EVIDENCE_MOST ? value : CST_EVIDENCE_MOST;
}

/* Capital of the bets before the row: what starts with it, and what moves between bets. */
static void move_capital(cst_evidence *evidence) {
    double n = (double)evidence->rows;
    double left = sqrt((START_ROWS + n) / (START_ROWS + n + 1));
    double start = evidence->waiting * (1 - left);
    double share = (SHIFT * sum_bets(evidence) + start) / (CST_EVIDENCE_TESTS * CST_EVIDENCE_BETS);
    evidence->waiting -= start;
    for (int s = 0; s < CST_EVIDENCE_TESTS; s++)
        for (int e = 0; e < CST_EVIDENCE_BETS; e++)
            evidence->capital[s][e] = (1 - SHIFT) * evidence->capital[s][e] + share;
}

/* How many of the rows of a table of the fit count: M / N. */
static double share_of(const cst_gauge *gauge) {
    double all = 0;
    for (int32_t t = 0; t < gauge->tables; t++)
        all += (double)gauge->table_rows[t];
    return all * ROWS_SHARE > ROWS_MOST ? ROWS_MOST / all : ROWS_SHARE;
}

/* Multiplies the bets on one statistic by what they say of a row in `bin`. */
static void settle(double rows, double share, double (*density)[CST_GAUGE_BINS], int bin,
                   int64_t *seen, double *capital) {
    double cumulative[CST_GAUGE_BINS];
    double sum = 0;
    double before = 0;
    for (int b = 0; b < CST_GAUGE_BINS; b++) {
        double rank = floor(cst_gauge_level[b] * (rows + 1) + 1e-9);
        sum += share * (rank - before) + (double)seen[b];
        cumulative[b] = sum;
        before = rank;
    }
    for (int e = 0; e < CST_EVIDENCE_BETS; e++) {
        double mean = 0;
        double last = 0;
        for (int b = 0; b < CST_GAUGE_BINS; b++) {
            double at = (1 + TOLERANCE) * cumulative[b] / sum;
            at = at < 1 ? at : 1;
            mean += density[e][b] * (at - last);
            last = at;
        }
        capital[e] *= density[e][bin] / mean;
    }
    seen[bin]++;
}

/* A row in a group of classes. seen: [groups]. */
static void settle_class(const cst_gauge *gauge, double share, int32_t group, int64_t *seen,
                         cst_evidence *evidence) {
    const int64_t *counted = gauge->share + (size_t)gauge->members * (size_t)gauge->groups;
    double *capital = evidence->capital[CST_GAUGE_STATISTICS];
    double rows = 0;
    double recent = 0;
    for (int32_t g = 0; g < gauge->groups; g++) {
        rows += (double)counted[g] + 1;
        recent += evidence->recent[g];
    }
    double fit = ((double)counted[group] + 1) / rows; /* so that no group has the share 0 */
    double n = (double)evidence->rows;
    double urn = share * (rows - gauge->groups);
    double expected = (urn * fit + (double)seen[group]) / (urn + n);
    capital[0] *= (CLASS_ROWS * fit + (double)seen[group]) / (CLASS_ROWS + n) / expected;
    capital[1] *= (CLASS_ROWS * fit + evidence->recent[group]) / (CLASS_ROWS + recent) / expected;
    for (int32_t g = 0; g < gauge->groups; g++)
        evidence->recent[g] *= FORGET;
    evidence->recent[group]++;
    seen[group]++;
}

void cst_evidence_add(const cst_gauge *gauge, int32_t table, int32_t group, const float *value,
                      cst_evidence *evidence) {
    double share = share_of(gauge);
    move_capital(evidence);
    for (int s = 0; s < CST_GAUGE_STATISTICS; s++) {
        size_t at = ((size_t)table * CST_GAUGE_STATISTICS + (size_t)s) * CST_GAUGE_BINS;
        settle((double)gauge->table_rows[table], share, evidence->density,
               cst_gauge_bin(gauge, table, s, value[s]), evidence->seen + at, evidence->capital[s]);
    }
    settle_class(gauge, share, group,
                 evidence->seen + cst_evidence_counts(gauge) - (size_t)gauge->groups, evidence);
    evidence->rows++;
    double now = evidence->waiting + sum_bets(evidence);
    if (now > CST_EVIDENCE_MOST) {
        double factor = CST_EVIDENCE_MOST / now;
        evidence->waiting *= factor;
        for (int s = 0; s < CST_EVIDENCE_TESTS; s++)
            for (int e = 0; e < CST_EVIDENCE_BETS; e++)
                evidence->capital[s][e] *= factor;
        now = CST_EVIDENCE_MOST;
    }
    evidence->peak = now > evidence->peak ? now : evidence->peak;
}

/* ---- a batch against the fit ---- */

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
static void shares_drift(const cst_gauge *gauge, const int64_t *share, const int64_t *fit, double n,
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
    for (int32_t g = 0; g <= gauge->groups; g++) {
        double a = g < gauge->groups ? (double)share[g] : rest[0];
        double b = g < gauge->groups ? (double)fit[g] : rest[1];
        double expected = (a + b) * n / (n + fit_n);
        double change = fabs(a / n - b / fit_n);
        if (g < gauge->groups) {
            gap += 0.5 * change;
            if (change > largest) {
                largest = change;
                out->most = g < gauge->groups - 1 ? gauge->group_class[g] : -1;
                out->most_share = a / n;
                out->most_fit = b / fit_n;
            }
        }
        if (g < gauge->groups && expected < EXPECTED) {
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

void cst_monitor_compare(const cst_gauge *gauge, const cst_gauge_rows *rows,
                         cst_monitor_result *result) {
    int32_t members = gauge->members;
    int32_t tests = 0;
    for (int32_t k = 0; k <= members; k++) {
        cst_member_drift *drift = &result->drift[k];
        size_t groups = (size_t)k * (size_t)gauge->groups;
        double n = (double)(k < members ? rows->predicted[k] : rows->rows);
        double fit_n = (double)(k < members ? gauge->predicted[k] : gauge->rows);
        drift->entropy = mean_drift(n > 0 ? rows->entropy[k] / n : NAN, n, gauge->entropy[k],
                                    gauge->deviation[k], fit_n);
        shares_drift(gauge, rows->share + groups, gauge->share + groups,
                     k < members ? n : (double)rows->whole,
                     k < members ? fit_n : (double)gauge->whole, drift);
        drift->apart = drift->missing = untested(NAN, NAN);
        if (k < members) {
            drift->apart = share_drift((double)rows->apart[k], n, (double)gauge->apart[k], fit_n);
            drift->missing =
                share_drift((double)(rows->rows - rows->predicted[k]), (double)rows->rows,
                            (double)(gauge->rows - gauge->predicted[k]), (double)gauge->rows);
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
