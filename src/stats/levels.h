/*
 * Scores that need the confidences in order: equal-mass ECE, debiased ECE, CORP. Shared by the
 * scores and their bootstrap, so that both are one arithmetic. docs/json.md#evaluate.
 */
#ifndef CST_METRICS_LEVELS_H
#define CST_METRICS_LEVELS_H

#include "stats/samples.h"

/* Samples of one confidence. Merging equal ones makes what follows independent of row order. */
typedef struct cst_level {
    double confidence;
    double count;
    double correct;
} cst_level;

/* Columns of the sums of equal-width bins. */
enum { CST_BIN_COUNT, CST_BIN_CORRECT, CST_BIN_CONFIDENCE, CST_BIN_WIDTH };

/* Top-label ECE from sums [bins][CST_BIN_WIDTH] over samples of `total` weight (their number, where
 * each counts once), and the same less its bias, at least 0. */
void cst_bin_errors(const double *binned, int32_t bins, double total, double *ece,
                    double *debiased);

/* Of `count` levels, ascending, with samples of `total` weight in all. Bin b ends with the sample
 * that reaches (b + 1) total / bins and whatever equals it. */
double cst_equal_mass_error(const cst_level *levels, int64_t count, double total, int32_t bins);

/* Brier score of the confidences less that of their isotonic recalibration (pool adjacent
 * violators). `levels` is overwritten by the pooled blocks. */
double cst_corp_miscalibration(cst_level *levels, int64_t count, double total);

/* Rows in order of confidence: presorted once, so that a resample needs no sorting. */
typedef struct cst_order {
    int64_t rows;
    int64_t levels;
    uint32_t *row;          /* [rows], ascending confidence */
    unsigned char *correct; /* [rows], in that order */
    double *weight;         /* [rows], in that order, or NULL: 1 each */
    int64_t *end;           /* [levels]: level l ends before row[end[l]] */
    double *confidence;     /* [levels], ascending */
    int32_t *bin;           /* [levels], equal-width */
} cst_order;

/* rows below 2^32. */
cst_status cst_order_make(cst_context *context, cst_scope *scope, const cst_samples *samples,
                          int32_t bins, cst_order *out);

/* The levels that occur in a resample, ascending: count [rows] says how often each row does, NULL:
 * once. levels: [order->levels] or more. binned, or NULL: sums [bins][CST_BIN_WIDTH], added to.
 * Returns their number. */
int64_t cst_order_levels(const cst_order *order, const unsigned char *count, cst_level *levels,
                         double *binned);

#endif
