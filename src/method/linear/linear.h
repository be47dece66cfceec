/*
 * The linear meta-learners: ridge, elastic net and lasso on the meta-design, fitted from its
 * moments alone. Stage S3, and the second half of prediction. Paper: section "Spectrum-Adaptive
 * Regularization"; docs/method.md#s2-and-s3-gate-and-penalties and docs/method.md#s4-blend.
 */
#ifndef CST_LEARNERS_LINEAR_H
#define CST_LEARNERS_LINEAR_H

#include "method/linear/moments.h"

typedef enum cst_linear_kind {
    CST_LINEAR_RIDGE = 0,
    CST_LINEAR_ELASTIC_NET = 1,
    CST_LINEAR_LASSO = 2
} cst_linear_kind;

/* Minimises, over standardised columns X and centred target y (intercept not penalised),
 *
 *     |y - Xw|^2 / n + lambda ((1 - l1_ratio) |w|_2^2 + 2 l1_ratio |w|_1),
 *
 * l1_ratio = 0 for ridge and 1 for lasso, so that one lambda means the same quadratic penalty for
 * ridge and l1_ratio = 0. On the same columns it is scikit-learn's Ridge(alpha = n lambda), and
 * ElasticNet(alpha = lambda, l1_ratio) or Lasso(alpha = lambda), whose objective is half of this
 * one. */
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
    /* log det of the Hessian of n times the objective (total scale) in the standardised
     * coefficients, without the intercept: 2n (X'X/n + lambda (1 - l1_ratio) I), on the non-zero
     * coefficients alone where there is an l1 part (0 if there are none; 1e-10 is added to the
     * diagonal where duplicate columns make a lasso's singular). */
    double logdet_hessian;
    int32_t active;      /* coefficients in that determinant */
    int32_t iterations;  /* sweeps of coordinate descent; 0 for ridge */
    double kkt_residual; /* largest violation of the optimality conditions, gradient halved */
} cst_linear;

/* l1_ratio is read for CST_LINEAR_ELASTIC_NET only. *out is zeroed first; free with
 * cst_linear_free. A fit that does not reach a KKT residual of 1e-10 max|X'y/n| is kept with a
 * notice. */
cst_status cst_linear_fit(cst_context *context, const cst_standardised *standardised,
                          cst_linear_kind kind, double lambda, double l1_ratio, cst_linear *out);

void cst_linear_free(cst_context *context, cst_linear *linear);

/* The smallest lambda at which every coefficient is 0: max|X'y/n| / l1_ratio. */
double cst_linear_lambda_max(const cst_standardised *standardised, double l1_ratio);

/* Penalty of an l1 member by K-fold cross-validation over the folds of the moments (at least 2):
 * `points` values from cst_linear_lambda_max down to `low` times it, evenly in log, each fold
 * warm-started along the path. The ridge's lambda* is not on this scale: an l1 penalty of that size
 * acts through lambda_max, not through the eigenvalues. losses and lambdas [points] may be NULL;
 * lambdas run downwards. Of equal losses the larger penalty wins. */
cst_status cst_linear_path_cv(cst_context *context, const cst_moments *moments,
                              cst_linear_kind kind, double l1_ratio, double low, int32_t points,
                              double *lambda, double *lambdas, double *losses);

#endif
