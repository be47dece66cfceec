/* Ridge penalty by the closed form lambda*, K-fold cross-validation, GCV or MacKay's evidence, on
 * one scale: min |y - Xw|^2/n + lambda |w|^2 with standardised columns. Paper: "Spectrum-Adaptive
 * Regularization"; docs/method.md#s2-and-s3-gate-and-penalties. */
#pragma once

#include "method/linear/moments.h"

typedef enum cst_penalty_rule {
    CST_PENALTY_STAR = 0,    /* lambda_max / SNR */
    CST_PENALTY_CV = 1,      /* least squared error on held-out folds, on the grid */
    CST_PENALTY_GCV = 2,     /* least (RSS/n) / (1 - (df + 1)/n)^2 */
    CST_PENALTY_EVIDENCE = 3 /* most probable alpha/beta; lambda = alpha / (n beta) */
} cst_penalty_rule;

/* What lambda* is added to. The paper's proof is in units of the first, its formulas of the ridge
 * and of the prior are in units of the second. */
typedef enum cst_penalty_scale {
    CST_SCALE_MEAN = 0, /* X'X/n */
    CST_SCALE_SUM = 1   /* X'X: lambda = lambda* / n */
} cst_penalty_scale;

/* Points spread evenly in log lambda from low to high, both included. Chosen penalties lie within.
 */
typedef struct cst_penalty_grid {
    double low;
    double high;
    int32_t points; /* 2.. */
} cst_penalty_grid;

/* 1e-8 .. 1e2, 61 points. */
cst_penalty_grid cst_penalty_grid_default(void);
double cst_penalty_grid_at(const cst_penalty_grid *grid, int32_t point);

/* lambda* on the scale of all penalties here, for a design of so many rows. */
double cst_penalty_of_star(double star, cst_penalty_scale scale, double rows);

/* The penalty of each rule; NaN where there is none (star with no finite SNR, cv with one fold). */
typedef struct cst_penalties {
    double star; /* of the meta-design's spectrum */
    double cv;
    double gcv;
    double evidence;
} cst_penalties;

/* K-fold cross-validation over the folds of the moments (at least 2): one eigendecomposition per
 * fold, each fold standardised by the others. losses [points] (may be NULL) gets the mean held-out
 * squared error. Of equal losses the larger penalty wins. */
cst_status cst_penalty_cv(cst_context *context, const cst_moments *moments,
                          const cst_penalty_grid *grid, double *lambda, double *losses);

/* The GCV score at one penalty; infinity where the effective parameters reach n. */
double cst_penalty_gcv_score(const cst_standardised *standardised, const cst_spectrum *spectrum,
                             double lambda);
/* Its minimum: the best grid point, then the root of the derivative beside it. */
double cst_penalty_gcv(const cst_standardised *standardised, const cst_spectrum *spectrum,
                       const cst_penalty_grid *grid);

/* Log evidence at one penalty with the noise precision at its best value, w ~ N(0, I/alpha), noise
 * N(0, 1/beta), flat prior on the intercept (so n - 1 residuals), up to a constant. */
double cst_penalty_log_evidence(const cst_standardised *standardised, const cst_spectrum *spectrum,
                                double lambda);
/* Its maximum: the best grid point, then MacKay's fixed point alpha = g/|w|^2, beta = (n - 1 -
 * g)/RSS, g the effective number of parameters. */
double cst_penalty_evidence(const cst_standardised *standardised, const cst_spectrum *spectrum,
                            const cst_penalty_grid *grid);

typedef struct cst_penalty_options {
    cst_penalty_rule rule;
    cst_penalty_scale scale; /* of the rule star */
    cst_noise_rule noise;
    cst_spectrum_of of;
    cst_penalty_grid grid;
} cst_penalty_options;

/* A penalty, and the spectrum that lambda* is read from. */
typedef struct cst_penalty {
    double lambda;
    double sigma2, mp_edge, snr;
} cst_penalty;

/* The penalty by one rule. CST_PENALTY_STAR without a finite SNR falls back to GCV with a notice;
 * CST_PENALTY_CV on moments with one fold is an error. members: NULL unless options->of is
 * CST_SPECTRUM_OOF. */
cst_status cst_penalty_choose(cst_context *context, const cst_moments *moments,
                              const cst_standardised *standardised,
                              const cst_spectrum_members *members,
                              const cst_penalty_options *options, cst_penalty *out);

/* All four, side by side. */
cst_status cst_penalties_compute(cst_context *context, const cst_moments *moments,
                                 const cst_standardised *standardised, const cst_spectrum *spectrum,
                                 const cst_penalty_grid *grid, cst_penalties *out);
