/*
 * What every linear fit of a regression starts from, moments of the design of each output in one
 * pass over rows; the linear pool, its default meta-learner; and linear baselines.
 * docs/regression.md; docs/method.md#s2-and-s3-gate-and-penalties.
 */
#ifndef CST_REGRESSION_LINEAR_POOL_H
#define CST_REGRESSION_LINEAR_POOL_H

#include "core/scope.h"
#include "data/pool/pool.h"
#include "fit/baselines/ensembles.h"
#include "method/linear/linear.h"
#include "method/linear/moments.h"
#include "model/values.h"

#include <corestack/pool.h>

/* One set of moments for each output: out [view->classes], arrays from the scope. */
cst_status cst_value_moments(cst_context *context, cst_scope *scope, const cst_view *view,
                             const cst_scaling *scaling, const cst_gate *gate, const int32_t *folds,
                             int32_t fold_count, cst_moments *out);

/* Those without a fold (negative: of all), of some of the columns; members NULL: of all. */
cst_status cst_value_moments_part(cst_context *context, cst_scope *scope,
                                  const cst_moments *moments, int32_t fold, const int32_t *members,
                                  int32_t count, cst_moments *out);

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

typedef struct cst_value_baseline {
    const char *name;
    const char *definition;
    /* Weights [k] of a mixture from the mean products of the members' residuals, [k][k]; NULL: a
     * penalised fit, or the mean of a group of tagged members. */
    cst_status (*mix)(cst_context *context, const double *products, size_t k, double *weights);
    cst_linear_kind penalty;
    cst_ensemble_kind kind; /* of tagged members; CST_ENSEMBLE_NONE: it is none of these */
} cst_value_baseline;

/* In the order of reports; NULL past the end, and for a name that is none of theirs. */
const cst_value_baseline *cst_value_baseline_at(size_t index);
const cst_value_baseline *cst_value_baseline_find(const char *name);

/* Weights [columns] and intercept for one output, in units of the scaling. tags [columns] may be
 * NULL; of several tagged groups the one with the least squared error is taken, which *choice,
 * where it is not NULL, tells (of another baseline: none). */
cst_status cst_value_baseline_fit(cst_context *context, const cst_value_baseline *baseline,
                                  const cst_member_ensemble *tags, const cst_moments *moments,
                                  double *weights, double *intercept, cst_ensemble_choice *choice);

#endif
