/* The test martingale of the monitor, row by row. See the header. */
#include "fit/adapt/monitor_evidence.h"

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

size_t cst_evidence_counts(const cst_watch *watch) {
    return (size_t)watch->tables * CST_WATCH_STATISTICS * CST_WATCH_BINS + (size_t)watch->groups;
}

cst_status cst_evidence_take(cst_context *context, cst_scope *scope, const cst_watch *watch,
                             cst_evidence *evidence) {
    CST_TAKE(context, scope, evidence->seen, cst_evidence_counts(watch));
    CST_TAKE(context, scope, evidence->recent, watch->groups);
    cst_evidence_reset(watch, evidence);
    return CST_OK;
}

void cst_evidence_reset(const cst_watch *watch, cst_evidence *evidence) {
    int64_t *seen = evidence->seen;
    double *recent = evidence->recent;
    memset(seen, 0, cst_evidence_counts(watch) * sizeof *seen);
    memset(recent, 0, (size_t)watch->groups * sizeof *recent);
    *evidence = (cst_evidence){.waiting = 1 - FIRST, .peak = 1, .seen = seen, .recent = recent};
    for (int e = 0; e < CST_EVIDENCE_BETS; e++)
        for (int b = 0; b < CST_WATCH_BINS; b++) {
            double low = b > 0 ? cst_watch_level[b - 1] : 0;
            double high = cst_watch_level[b];
            evidence->density[e][b] =
                (pow(high, EXPONENT[e]) - (low > 0 ? pow(low, EXPONENT[e]) : 0)) / (high - low);
        }
    for (int s = 0; s < CST_EVIDENCE_TESTS; s++)
        for (int e = 0; e < CST_EVIDENCE_BETS; e++)
            evidence->capital[s][e] = FIRST / (CST_EVIDENCE_TESTS * CST_EVIDENCE_BETS);
}

void cst_evidence_copy(const cst_watch *watch, const cst_evidence *from, cst_evidence *to) {
    int64_t *seen = to->seen;
    double *recent = to->recent;
    memcpy(seen, from->seen, cst_evidence_counts(watch) * sizeof *seen);
    memcpy(recent, from->recent, (size_t)watch->groups * sizeof *recent);
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
static double share_of(const cst_watch *watch) {
    double all = 0;
    for (int32_t t = 0; t < watch->tables; t++)
        all += (double)watch->table_rows[t];
    return all * ROWS_SHARE > ROWS_MOST ? ROWS_MOST / all : ROWS_SHARE;
}

/* Multiplies the bets on one statistic by what they say of a row in `bin`. */
static void settle(double rows, double share, double (*density)[CST_WATCH_BINS], int bin,
                   int64_t *seen, double *capital) {
    double cumulative[CST_WATCH_BINS];
    double sum = 0;
    double before = 0;
    for (int b = 0; b < CST_WATCH_BINS; b++) {
        double rank = floor(cst_watch_level[b] * (rows + 1) + 1e-9);
        sum += share * (rank - before) + (double)seen[b];
        cumulative[b] = sum;
        before = rank;
    }
    for (int e = 0; e < CST_EVIDENCE_BETS; e++) {
        double mean = 0;
        double last = 0;
        for (int b = 0; b < CST_WATCH_BINS; b++) {
            double at = (1 + TOLERANCE) * cumulative[b] / sum;
            at = at < 1 ? at : 1;
            mean += density[e][b] * (at - last);
            last = at;
        }
        capital[e] *= density[e][bin] / mean;
    }
    seen[bin]++;
}

/* The same of a row in a group of classes. seen: [groups]. */
static void settle_class(const cst_watch *watch, double share, int32_t group, int64_t *seen,
                         cst_evidence *evidence) {
    const int64_t *counted = watch->share + (size_t)watch->members * (size_t)watch->groups;
    double *capital = evidence->capital[CST_WATCH_STATISTICS];
    double rows = 0;
    double recent = 0;
    for (int32_t g = 0; g < watch->groups; g++) {
        rows += (double)counted[g] + 1;
        recent += evidence->recent[g];
    }
    double fit = ((double)counted[group] + 1) / rows; /* so that no group has the share 0 */
    double n = (double)evidence->rows;
    double urn = share * (rows - watch->groups);
    double expected = (urn * fit + (double)seen[group]) / (urn + n);
    capital[0] *= (CLASS_ROWS * fit + (double)seen[group]) / (CLASS_ROWS + n) / expected;
    capital[1] *= (CLASS_ROWS * fit + evidence->recent[group]) / (CLASS_ROWS + recent) / expected;
    for (int32_t g = 0; g < watch->groups; g++)
        evidence->recent[g] *= FORGET;
    evidence->recent[group]++;
    seen[group]++;
}

void cst_evidence_add(const cst_watch *watch, int32_t table, int32_t group, const float *value,
                      cst_evidence *evidence) {
    double share = share_of(watch);
    move_capital(evidence);
    for (int s = 0; s < CST_WATCH_STATISTICS; s++) {
        size_t at = ((size_t)table * CST_WATCH_STATISTICS + (size_t)s) * CST_WATCH_BINS;
        settle((double)watch->table_rows[table], share, evidence->density,
               cst_watch_bin(watch, table, s, value[s]), evidence->seen + at, evidence->capital[s]);
    }
    settle_class(watch, share, group,
                 evidence->seen + cst_evidence_counts(watch) - (size_t)watch->groups, evidence);
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
