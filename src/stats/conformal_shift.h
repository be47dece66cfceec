/*
 * Split conformal sets under shift: each calibration row counts by how much more frequent its like
 * is among the new rows. Tibshirani et al. 2019 (covariates); Podkopaev and Ramdas 2021 (labels).
 * docs/bounds.md#under-shift.
 */
#ifndef CST_BOUNDS_CONFORMAL_SHIFT_H
#define CST_BOUNDS_CONFORMAL_SHIFT_H

#include "core/base.h"

/* Scores of calibration, ascending, with the sums of their weights. */
typedef struct cst_weighted_scores {
    int64_t samples;
    double *score; /* [samples] */
    double *sum;   /* [samples]: of the weights up to this score */
    double total;
    double effective; /* (sum of weights)^2 / sum of squares: as many rows of equal weight */
} cst_weighted_scores;

/* scores, weights: [samples]; weights are finite, none negative. Free with
 * cst_weighted_scores_free, also after a failure. */
cst_status cst_weighted_scores_make(cst_context *context, const double *scores,
                                    const double *weights, int64_t samples,
                                    cst_weighted_scores *out);
void cst_weighted_scores_free(cst_context *context, cst_weighted_scores *scores);

/* The least score s such that scores up to s have (1 - alpha) of the weight of all and of `own`,
 * the weight of the row that is predicted; INFINITY, which is every class, where there is none.
 * With equal weights that is the threshold of cst_conformal_calibrate. */
double cst_weighted_threshold(const cst_weighted_scores *scores, double alpha, double own);

/* The density of a batch's levels at another level, as Grenander's estimator has it: that of the
 * next larger level of the batch, 0 beyond the largest. levels [rows], ascending, with the density
 * at each. */
double cst_density_at(const double *levels, const double *density, int64_t rows, double level);

#endif
