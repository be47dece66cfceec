/*
 * Stages S2 to S4 of a regression on fixed members: gate, linear meta-learners, their cross-fitted
 * residuals, the blend and the variance, for each output, all but the gate from moments. Paper:
 * sections "Differentiable Meta-Feature Gate" to "Laplace-Approximate Bayesian Blender".
 */
#ifndef CST_REGRESSION_LEARNERS_H
#define CST_REGRESSION_LEARNERS_H

#include "fit/learners.h"
#include "tasks/regression/linear_pool.h"

/* Those of fixed weights have the names of the baselines that they are. */
typedef enum cst_value_learner { /* the first four: as cst_learner_kind */
                                 CST_VALUE_RIDGE = 0,
                                 CST_VALUE_ELASTIC_NET = 1,
                                 CST_VALUE_LASSO = 2,
                                 CST_VALUE_LINEAR_POOL = 3,
                                 CST_VALUE_AVERAGE = 4,
                                 CST_VALUE_MINIMUM_VARIANCE = 5,
                                 CST_VALUE_BEST_SINGLE = 6
} cst_value_learner;

enum { CST_VALUE_LEARNERS_MAX = 7 };

/* A fit on all rows and one without each fold. Part 0: all rows; part f + 1: without fold f. */
typedef struct cst_value_fit {
    int32_t outputs;
    int32_t columns; /* d of the design */
    int32_t folds;
    int32_t learners;
    cst_value_learner kind[CST_VALUE_LEARNERS_MAX];
    int32_t gate_count; /* 1, or folds + 1 where each part learns its own */
    cst_gate *gates;
    double *weights;    /* [folds + 1][outputs][columns] of the blend, units of the scaling */
    double *intercept;  /* [folds + 1][outputs] */
    double *blend;      /* [outputs][learners] */
    double *nll;        /* [outputs][learners]: total Gaussian NLL of the held-out residuals */
    double *logdet;     /* [outputs][learners] of the Hessian, total scale, standardised columns */
    double *center;     /* [outputs][columns]: means of the design */
    double *covariance; /* [outputs][columns][columns] of the coefficients over the noise */
    double *lambda;     /* [outputs]: of the ridge, or of the linear pool where there is no other */
    struct cst_refits *refits; /* of part 0 in units of the scaling: of output `output` and learner
                                  `learner` of the kinds above, whatever its weight */
} cst_value_fit;

const char *cst_value_learner_name(cst_value_learner kind);

/* Fits on the view (kept members only), in units of `scaling`. folds [view->rows] in
 * 0..fold_count-1, at least 2. out->values is the fit; with `losses` the squared error of each row
 * is kept. *out is empty; free with cst_meta_fit_free, also after a failure. */
cst_status cst_value_fit_run(cst_context *context, const cst_view *view, const cst_scaling *scaling,
                             const int32_t *folds, int32_t fold_count, const cst_settings *settings,
                             bool losses, cst_meta_fit *out);

/* Trains the gates [count], each on a sample of the rows of its part: gate 0 on all rows, gate f +
 * 1 on those whose fold is not f. Nothing is done for gates that are not learned; their mode and
 * inputs are set. Each (row, output) is a sample of its own. */
cst_status cst_value_gates_fit(cst_context *context, const cst_view *view,
                               const cst_scaling *scaling, const int32_t *folds,
                               const cst_settings *settings, int32_t count, cst_gate *gates);

/* The gate of a part. */
static inline const cst_gate *cst_value_gate(const cst_value_fit *fit, int32_t part) {
    return &fit->gates[fit->gate_count > 1 ? part : 0];
}

/* Options of the linear pool among the settings. */
cst_linear_pool_options cst_value_linear_pool_options(const cst_settings *settings);

/* Greedy selection with replacement on the squared error, from second moments of residuals
 * [count][count]: in each of `rounds` rounds the one joins whose addition leaves the least mean
 * squared error of the average (of equals the first); weights up to the first minimum, sum 1. */
void cst_value_greedy(const double *moments, int32_t count, int32_t rounds, double *weights);

typedef enum cst_variance_rule { /* in the order of the option variance.rule */
                                 CST_VARIANCE_AUTO = 0, /* the next two, by held-out NLL */
                                 CST_VARIANCE_CONSTANT = 1,
                                 CST_VARIANCE_DISAGREEMENT = 2
} cst_variance_rule;

/* Values without noise, doubt or quantiles. */
cst_status cst_values_start(cst_context *context, cst_scope *scope, const cst_scaling *scaling,
                            int32_t columns, cst_values **out);

/* The fitted values of a model: location and scale of `scaling`, and noise, share and quantiles
 * from residuals of rows predicted by the fits without their fold. */
cst_status cst_values_fit(cst_context *context, cst_scope *made, const cst_view *view,
                          const cst_scaling *scaling, const int32_t *folds,
                          const cst_value_fit *fit, cst_variance_rule rule, bool conformal,
                          cst_values **out);

#endif
