/* The linear meta-learners: ridge, elastic net and lasso on the meta-design, fitted from its
 * moments alone. Paper: section "Spectrum-Adaptive Regularization";
 * docs/method.md#s2-and-s3-gate-and-penalties and docs/method.md#s4-blend. */
#pragma once

#include "method/linear/moments.h"

typedef enum cst_linear_kind {
    CST_LINEAR_RIDGE = 0,
    CST_LINEAR_ELASTIC_NET = 1,
    CST_LINEAR_LASSO = 2
} cst_linear_kind;

/* Minimises |y - Xw|^2 / n + lambda ((1 - l1_ratio) |w|_2^2 + 2 l1_ratio |w|_1) over standardised
 * columns X and centred y (intercept not penalised); ridge 0, lasso 1. scikit-learn's Ridge(alpha =
 * n lambda), and ElasticNet or Lasso(alpha = lambda), whose objective is half of this. */
typedef struct cst_linear {
    cst_scope scope; /* of the coefficients */
    cst_linear_kind kind;
    int32_t columns;      /* d of the design */
    double *coefficients; /* [d], raw units; 0 for dropped columns */
    double intercept;     /* raw units */
    double lambda;
    double l1_ratio;
    double loss;      /* |y - Xw|^2 / n on the training rows */
    double objective; /* the minimised sum */
    /* log det 2n (X'X/n + lambda (1 - l1_ratio) I), the Hessian in the standardised coefficients
     * without the intercept; with an l1 part on the non-zero coefficients alone (0 if none; 1e-10
     * is added to a diagonal that duplicates make singular). */
    double logdet_hessian;
    int32_t active;      /* coefficients in that determinant */
    int32_t iterations;  /* sweeps of coordinate descent; 0 for ridge */
    double kkt_residual; /* largest violation of the optimality conditions, gradient halved */
} cst_linear;

/* l1_ratio is read for CST_LINEAR_ELASTIC_NET only. *out is zeroed first; free with
 * cst_linear_free, also after a failure. A fit that does not reach a KKT residual of 1e-10
 * max|X'y/n| is kept with a notice. */
cst_status cst_linear_fit(cst_context *context, const cst_standardised *standardised,
                          cst_linear_kind kind, double lambda, double l1_ratio, cst_linear *out);

/* The Hessian of the ridge's squared error as the exponent of a Gaussian likelihood of this
 * variance, n (X'X/n + lambda I) / variance: the curvature of the Laplace blend. out: [kept][kept].
 */
void cst_linear_hessian(const cst_standardised *standardised, double lambda, double variance,
                        double *out);

void cst_linear_free(cst_context *context, cst_linear *linear);

/* The smallest lambda at which every coefficient is 0: max|X'y/n| / l1_ratio. */
double cst_linear_lambda_max(const cst_standardised *standardised, double l1_ratio);

/* Penalty of an l1 member by K-fold cross-validation (at least 2 folds): `points` values downwards
 * from cst_linear_lambda_max to `low` times it, evenly in log, warm-started. losses, lambdas:
 * [points], may be NULL. Of equal losses the larger penalty wins. */
cst_status cst_linear_path_cv(cst_context *context, const cst_moments *moments,
                              cst_linear_kind kind, double l1_ratio, double low, int32_t points,
                              double *lambda, double *lambdas, double *losses);
