/*
 * The linear pool: y = b + sum_k w_k f_k with a Gaussian prior on the weights around an average,
 * fitted from moments alone. The default meta-learner of a regression, as the log-linear pool is
 * that of a classification. docs/regression.md.
 */
#ifndef CST_REGRESSION_LINEAR_POOL_H
#define CST_REGRESSION_LINEAR_POOL_H

#include "tasks/regression/moments.h"

/* Means and covariances (divided by n) of columns and target. */
typedef struct cst_covariances {
    int32_t columns;
    double rows;
    double *mean;  /* [columns] */
    double *gram;  /* [columns][columns] */
    double *cross; /* [columns]: with the target */
    double target_mean;
    double target_square; /* variance of the target */
    double power;         /* of `center` */
    double *center;       /* [columns]: what weights are drawn to, 1 / (mean squared error)^power
                             divided by their sum; power 0: the average */
} cst_covariances;

/* Of the rows of all folds but `without` (negative: of all); arrays from the scope. */
cst_status cst_covariances_make(cst_context *context, cst_scope *scope, const cst_moments *moments,
                                int32_t without, double power, cst_covariances *out);
/* The same of some columns, with a center of their own. */
cst_status cst_covariances_part(cst_context *context, cst_scope *scope,
                                const cst_covariances *covariances, const int32_t *members,
                                int32_t count, cst_covariances *out);

typedef enum cst_linear_pool_prior {
    CST_LINEAR_POOL_CV = 0,       /* least squared error on held-out folds, on a grid */
    CST_LINEAR_POOL_EVIDENCE = 1, /* most probable, on the same grid and then refined */
    CST_LINEAR_POOL_FIXED = 2     /* lambda = precision * noise / n, noise that of the center */
} cst_linear_pool_prior;

typedef struct cst_linear_pool_options {
    cst_linear_pool_prior prior;
    double precision; /* of the weights, for CST_LINEAR_POOL_FIXED */
    double power;     /* of the center, see cst_covariances */
    bool nonnegative; /* w >= 0 */
} cst_linear_pool_options;

/* Minimises |y - b - Xw|^2 / n + lambda |w - center|^2. */
typedef struct cst_linear_pool {
    double *weights; /* [columns] */
    double intercept;
    double lambda;
} cst_linear_pool;

/* weights: [columns], at a given lambda >= 0. */
cst_status cst_linear_pool_solve(cst_context *context, const cst_covariances *covariances,
                                 double lambda, bool nonnegative, double *weights);
/* The minimised sum at these weights. */
double cst_linear_pool_objective(const cst_covariances *covariances, const double *weights,
                                 double lambda);

/* lambda by the rule, then the fit on all folds of the moments; arrays from the scope. With one
 * fold the cross-validation gives way to the evidence. */
cst_status cst_linear_pool_fit(cst_context *context, cst_scope *scope, const cst_moments *moments,
                               const cst_linear_pool_options *options, cst_linear_pool *out);

/* Variance of the error of the center: the noise of a pool whose weights are those. */
double cst_center_variance(const cst_covariances *covariances);

#endif
