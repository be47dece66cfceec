/* Bounds of the calibration error and recalibrated confidences with intervals of their accuracy,
 * for independent rows that the model did not see. docs/bounds.md#the-bounds. */
#pragma once

#include "core/base.h"

/* ---- expected calibration error ---- */

/* Interval of the ECE of the population. From above by Bernstein's inequality for the best signs of
 * bins; from below for all signs at once, delta shared by their number of changes; the second
 * moment by Chernoff. docs/bounds.md#the-bounds. */
typedef struct cst_ece_bound {
    double value; /* `ece` of cst_metrics */
    double lower, upper;
    double moment; /* bound of E[(correct - confidence)^2] */
} cst_ece_bound;

/* probabilities: [rows][classes], labels [rows], bins: 1 to 10000, or 0 for CST_METRIC_BINS; 0 <
 * delta < 1. Checks its input as cst_metrics_evaluate. */
cst_status cst_ece_bound_of(cst_context *context, const float *probabilities, int64_t rows,
                            int32_t classes, const int32_t *labels, int bins, double delta,
                            cst_ece_bound *out);

/* ---- histogram binning ---- */

/* Bins of equal mass on some rows; the share of right answers in each on other rows replaces the
 * confidence, with exact intervals at delta / bins. Gupta, Podkopaev and Ramdas (2020); Gupta and
 * Ramdas (2021). */

typedef struct cst_certified_bin {
    double from; /* confidences in [from, to); the last bin is closed */
    double to;
    int64_t count, correct;
    double value; /* correct / count; the middle of the bin where it is empty */
    double lower; /* of P(correct | bin) */
    double upper;
} cst_certified_bin;

/* edges [bins + 1], 0 to 1: edge b is the confidence of rank floor(rows b / bins), left out if
 * equal to, or fewer than half of rows / bins rows from, the one before. *used: bins left.
 * CST_ERROR_INPUT for a confidence outside [0, 1]. */
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

/* certified: [bins]; *epsilon: bound of the worst bin; *hoeffding: by the theorem's max over bins
 * of sqrt(log(2 bins / delta) / (2 count)). 0 < delta < 1. CST_ERROR_INPUT as above. */
cst_status cst_certify_bins(cst_context *context, const double *edges, int32_t bins,
                            cst_judged_rows rows, double delta, cst_certified_bin *certified,
                            double *epsilon, double *hoeffding);
