/*
 * Class-wise ECE of bootstrap resamples. Under cst_bootstrap_compare; the score of the samples
 * themselves is in metrics.c. docs/json.md#evaluate.
 */
#ifndef CST_METRICS_CLASSWISE_H
#define CST_METRICS_CLASSWISE_H

#include "stats/resample.h"

/* Per class: for each bin the rows in it. Nearly all probabilities lie in the lowest bin, whose sum
 * is that of all rows less those of the other bins: so it lists only the rows of that class. */
typedef struct cst_class_bins {
    const float *probabilities; /* [rows][classes], the caller's */
    const double *weights;      /* [rows], the caller's; NULL: 1 each */
    int64_t rows;
    int32_t classes;
    int32_t bins;
    double *gap;   /* target less probability; 1 in the lowest bin; times the weight */
    double *above; /* the probability; 0 in the lowest bin; times the weight */
    uint32_t *row;
    int64_t *end; /* [classes][bins]: where the bin's part of the lists ends */
} cst_class_bins;

cst_status cst_class_bins_make(cst_context *context, cst_scope *scope, const float *probabilities,
                               int64_t rows, int32_t classes, const int32_t *labels,
                               const double *weights, int32_t bins, cst_class_bins *out);

/* ece [CST_LANES]: mean over classes of sum over bins |sum of gaps| / total, in each resample.
 * total: [CST_LANES], the weight of its rows. scratch: [classes][CST_LANES]. */
void cst_class_bins_ece(const cst_class_bins *classes, const cst_resample *resample,
                        const double *total, double *scratch, double *ece);

#endif
