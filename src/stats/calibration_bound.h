/*
 * Assumption-free statements on calibration: an interval of the expected calibration error, and
 * recalibrated confidences with intervals of their accuracy. Rows must be independent draws that
 * the model did not see; there are no row weights. docs/bounds.md#the-bounds.
 */
#ifndef CST_BOUNDS_CALIBRATION_BOUND_H
#define CST_BOUNDS_CALIBRATION_BOUND_H

#include "core/base.h"

/* ---- expected calibration error ---- */

/* ECE of the population: sum over B fixed bins of |E[(correct - confidence) 1(bin)]|, which is the
 * maximum over signs s of E[z_s], z_s = s_bin (correct - confidence) in [-1, 1]. With v =
 * E[(correct - confidence)^2] >= E[z_s^2], Bernstein's inequality (Boucheron et al. 2013, corollary
 * 2.11) for the best signs of the population bounds ECE from above,
 *     ECE <= estimate + sqrt(2 v L / n) + L / (3 n),          L = log(3 / delta),
 * and from below, for all signs at once, each with a share of delta that goes by its number c of
 * changes from bin to bin (a model that is too sure everywhere has none):
 *     ECE >= max_s mean(z_s) - sqrt(2 v M / n) - M / (3 n),   M = L + log(2 D C(B - 1, c)),
 * for c < D = min(B, 32).
 * v is bounded by Chernoff's inequality for means in [0, 1]: kl(mean || v) <= L / n. The three fail
 * with probability delta together. The estimate itself is biased upwards, which a bootstrap of it
 * does not see: at a calibrated model its interval as good as never holds the truth.
 */
typedef struct cst_ece_bound {
    double value; /* `ece` of cst_metrics */
    double lower;
    double upper;
    double moment; /* bound of v */
} cst_ece_bound;

/* probabilities: [rows][classes], labels [rows], bins: 1 to 10000, or 0 for CST_METRIC_BINS; 0 <
 * delta < 1. Checks its input as cst_metrics_evaluate. */
cst_status cst_ece_bound_of(cst_context *context, const float *probabilities, int64_t rows,
                            int32_t classes, const int32_t *labels, int bins, double delta,
                            cst_ece_bound *out);

/* ---- histogram binning ---- */

/* Gupta, Podkopaev and Ramdas (2020) and Gupta and Ramdas (2021): bins of equal mass on some rows,
 * on other rows the share of right answers in each bin, which takes the place of the confidence.
 * Given the bins and which of them each row is in, the right answers of a bin are binomial; so the
 * exact interval at delta / bins of each holds for all bins at once with probability 1 - delta,
 * whatever the law of the rows. (Their theorem has Hoeffding's inequality there; exact tails are
 * never wider by more than their discreteness.) The largest gap between a bin's value and the ends
 * of its interval then bounds |P(correct | value) - value| everywhere, and so the ECE of the
 * values. */

typedef struct cst_certified_bin {
    double from; /* confidences in [from, to); the last bin is closed */
    double to;
    int64_t count;
    int64_t correct;
    double value; /* correct / count; the middle of the bin where it is empty */
    double lower; /* of P(correct | bin) */
    double upper;
} cst_certified_bin;

/* Edges of at most `bins` bins of equal mass: edges [bins + 1], from 0 to 1, rising. Edge b is the
 * confidence of rank floor(rows b / bins) from 0; it is left out, with those that are equal, where
 * fewer than half of rows / bins rows would lie between it and the one before. *used: the bins that
 * are left. confidences [rows]; rows >= 1, bins >= 1. CST_ERROR_INPUT,
 * with the row, for a confidence outside [0, 1]. */
cst_status cst_mass_edges(cst_context *context, const double *confidences, int64_t rows,
                          int32_t bins, double *edges, int32_t *used);

/* The bin of a confidence. */
int32_t cst_mass_bin(const double *edges, int32_t bins, double confidence);

/* Rows for the bins: other ones than those of the edges. */
typedef struct cst_judged_rows {
    const double *confidences;    /* [count] */
    const unsigned char *correct; /* [count] */
    int64_t count;
} cst_judged_rows;

/* certified: [bins]; *epsilon: the bound of the worst bin; *hoeffding: the same by their theorem,
 * max over bins of sqrt(log(2 bins / delta) / (2 count)), infinite with an empty bin. 0 < delta
 * < 1. CST_ERROR_INPUT as above. */
cst_status cst_certify_bins(cst_context *context, const double *edges, int32_t bins,
                            cst_judged_rows rows, double delta, cst_certified_bin *certified,
                            double *epsilon, double *hoeffding);

#endif
