/* Losses, confidences and bins that every score is made of. docs/json.md#evaluate. */
#pragma once

#include "core/base.h"
#include "data/pool/view.h"

/* Probabilities may leave [0, 1], and their sum 1, by this much: float32 sums do. */
#define CST_PROBABILITY_TOLERANCE 1e-3

enum { CST_METRIC_BINS_MAX = 10000 };

/* The probability of the true class never counts as less than this in a logarithm. */
#define CST_NLL_FLOOR 1e-15

typedef struct cst_samples {
    int64_t rows;
    double *nll;            /* [rows] */
    double *brier;          /* [rows] */
    double *confidence;     /* [rows] largest probability */
    unsigned char *correct; /* [rows] */
    double *weight;         /* [rows], or NULL: 1 each */
} cst_samples;

/* Sum of the weights. */
double cst_samples_weight(const cst_samples *samples);

/* Fills whichever arrays are not NULL; checks labels and probabilities. */
cst_status cst_samples_fill(cst_context *context, const float *probabilities, int64_t rows,
                            int32_t classes, const int32_t *labels, cst_samples *samples);

/* Takes all four arrays and fills them. */
cst_status cst_samples_make(cst_context *context, cst_scope *scope, const float *probabilities,
                            int64_t rows, int32_t classes, const int32_t *labels, cst_samples *out);
/* For a member of a labelled view, with its weights. own: rows of this rank only. */
cst_status cst_samples_of(cst_context *context, cst_scope *scope, const cst_view *view,
                          int32_t member, bool own, cst_samples *out);

/* Mean NLL of every member of a view, and the share of rows whose largest probability (lowest class
 * of equal ones) is the label's. out: [members]. */
cst_status cst_risk_all(cst_context *context, const cst_view *view, double *out);
cst_status cst_risk_top1_all(cst_context *context, const cst_view *view, double *out);

struct cst_metrics;

/* As cst_metrics_evaluate, for a member of a labelled view. Unless `all`, only top1, nll, brier,
 * ece and ece_debiased, which take one pass over the rows; the others are NaN then. */
cst_status cst_metrics_of(cst_context *context, const cst_view *view, int32_t member, int bins,
                          bool all, struct cst_metrics *out);

/* ECE, with the default bins, of samples with confidence and correctness only. */
cst_status cst_samples_ece(cst_context *context, const cst_samples *samples, double *out);

/* CST_ERROR_INPUT, naming row `i`, for a row [classes] that is not a distribution. */
cst_status cst_distribution_check(cst_context *context, const float *row, int32_t classes,
                                  int64_t i);

/* Bin of a probability among `bins` equal-width ones: the b with b/bins <= p < (b+1)/bins, both
 * edges as the double quotient; p >= 1 is in the last, p < 0 in the first. */
int32_t cst_bin_of(double probability, int32_t bins);

/* Checks result, rows of probabilities and labels. needs: message without a result. */
cst_status cst_scores_check(cst_context *context, const void *out, const float *probabilities,
                            int64_t rows, int32_t classes, const int32_t *labels,
                            const char *needs);

/* One member's probabilities as a view; weights may be NULL. */
cst_view cst_view_of_one(const float *const *probabilities, int64_t rows, int32_t classes,
                         const int32_t *labels, const double *weights);

/* The number of bins meant: CST_METRIC_BINS for 0. CST_ERROR_ARGUMENT beyond 1..10000. */
cst_status cst_bins_check(cst_context *context, int bins, int32_t *out);

/* ---- levels and sums ---- */

/* Samples of one confidence. Merging equal ones makes what follows independent of row order. */
typedef struct cst_level {
    double confidence, count, correct;
} cst_level;

/* Columns of the sums of equal-width bins. */
enum { CST_BIN_COUNT, CST_BIN_CORRECT, CST_BIN_CONFIDENCE, CST_BIN_ROWS, CST_BIN_WIDTH };

/* Sums over samples, by weight but for the squared gaps (correct - confidence)^2. */
enum { CST_SUM_CORRECT, CST_SUM_NLL, CST_SUM_BRIER, CST_SUM_GAPS, CST_SUMS };

/* *out: [CST_SUMS], then [bins][CST_BIN_WIDTH]. Arrays of samples that are NULL count as 0. */
cst_status cst_samples_sum(cst_context *context, cst_scope *scope, const cst_samples *samples,
                           int32_t bins, double **out);

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
    int64_t rows, levels;
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

/* Levels [order->levels] of a resample, ascending; returns their number. count [rows]: times each
 * row counts, NULL: once. binned, or NULL: sums [bins][CST_BIN_WIDTH], added to. */
int64_t cst_order_levels(const cst_order *order, const unsigned char *count, cst_level *levels,
                         double *binned);
