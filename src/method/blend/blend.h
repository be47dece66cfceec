/* Convex weights of M learners from out-of-fold probabilities. docs/method.md#s4-blend. */
#pragma once

#include "core/scope.h"
#include "data/pool/view.h"

typedef enum cst_blend_rule { /* in the order of the option blend.rule */
                              CST_BLEND_LAPLACE = 0,
                              CST_BLEND_INVERSE_RMSE = 1,
                              CST_BLEND_MINIMUM_VARIANCE = 2,
                              CST_BLEND_GREEDY = 3,
                              CST_BLEND_STACKING = 4,
                              CST_BLEND_UNIFORM = 5
} cst_blend_rule;

/* Learners with less of the blend are taken out of a model. */
#define CST_NEGLIGIBLE_WEIGHT 1e-6

typedef struct cst_blend_options {
    cst_blend_rule rule;
    double temperature; /* T of the Laplace weights, > 0; 1 is the paper */
    bool same_loss;     /* Laplace: L_m of the squared error whose Hessian is H_m, as in the paper,
                           instead of the NLL; by whoever calls */
    bool mean_loss;     /* Laplace weights from loss and log det divided by the number of rows */
    double prior;       /* stacking: for each favoured learner as many further rows whose true class
                           it alone knows, which is a Dirichlet prior with 1 + prior for it */
    uint32_t favoured;  /* bit m: learner m < 32 */
    double least;       /* learners with a lower weight are taken out and the rest is weighed again,
                           by whoever calls */
    bool allow_negative; /* minimum variance in closed form, w = S^-1 1 / (1'S^-1 1), instead of its
                            minimum over w >= 0. The two agree where the closed form has no negative
                            weight; a mixture with negative weights need not be a distribution. */
} cst_blend_options;

cst_blend_options cst_blend_defaults(void); /* Laplace, T = 1, total loss, weights >= 0 */

/* Weights [M] that sum to 1 for the M members of a view of out-of-fold probabilities. The Laplace
 * rule reads only nll [M] (total) and logdet [M] (of the Hessian in total scale; NULL: 0).
 * CST_ERROR_NUMERIC when no loss is finite. */
cst_status cst_blend_weights(cst_context *context, const cst_view *oof, const double *nll,
                             const double *logdet, const cst_blend_options *options,
                             double *weights);

/* Sums of the probabilities that the rules need, for rows too many to hold them all. */
typedef struct cst_blend_evidence {
    int64_t rows;
    int32_t members;          /* M */
    const double *nll;        /* [M], total loss L_m; Laplace */
    const double *logdet;     /* [M] or NULL; Laplace */
    const float *truth;       /* [M][rows] probability of the true class; greedy and stacking */
    const cst_view *weighted; /* a view of these rows by whose weights they count; NULL: all alike;
                                 greedy and stacking */
    const double *moments;    /* [M][M] second moments of the residuals; inverse RMSE and minimum
                                 variance */
} cst_blend_evidence;

/* Whether a rule reads the residuals' moments. */
static inline bool cst_blend_needs_moments(cst_blend_rule rule) {
    return rule == CST_BLEND_INVERSE_RMSE || rule == CST_BLEND_MINIMUM_VARIANCE;
}

/* Weights from the rule's inputs (others NULL); greedy takes the other classes as one. */
cst_status cst_blend_weights_from(cst_context *context, const cst_blend_evidence *evidence,
                                  const cst_blend_options *options, double *weights);

/* Adds weight sum_c (y_c - p_c)(y_c - q_c) of a sample to the upper triangle of sum [M][M]. */
void cst_residual_products(const float *const *members, int32_t count, int32_t classes,
                           int32_t truth, double weight, double *sum);

/* w_m ~ exp(-(nll_m + logdet_m / 2) / (T scale)); 0 where the loss is not finite. */
cst_status cst_blend_laplace(cst_context *context, int32_t count, const double *nll,
                             const double *logdet, double temperature, double scale,
                             double *weights);

/* w_m ~ 1 / RMSE_m of y_ic - p_ic; learners without any error share the weight equally. */
cst_status cst_blend_inverse_rmse(cst_context *context, const cst_view *oof, double *weights);

/* Second moments S [M][M] of the residuals y_ic - p_ic over all (sample, class) rows. */
cst_status cst_residual_moments(cst_context *context, const cst_view *oof, double *moments);

/* Minimises w'Sw subject to sum w = 1 (and w >= 0 unless allow_negative). The diagonal of a
 * singular S is raised by 1e-10 of its mean, tenfold until a Cholesky factor exists. */
cst_status cst_blend_minimum_variance(cst_context *context, int32_t count, const double *moments,
                                      bool allow_negative, double *weights);

/* Weights on the simplex that minimise the NLL of sum_m w_m p_m, to 1e-9 nats a row. *gap: max_m
 * (1/N) sum_i p_mi / mixture_i less 1; may be NULL. */
cst_status cst_blend_stacking(cst_context *context, const cst_view *oof, double *weights,
                              double *gap);

/* Minimises u'Hu/2 - b'u over u >= 0, H [n][n] positive definite. u: [n], overwritten. */
cst_status cst_nonnegative_quadratic(cst_context *context, int32_t n, const double *hessian,
                                     const double *b, double *u);

/* ---- greedy selection with replacement, as AutoGluon's for float32 ---- */

/* AutoGluon's number of rounds. */
#define CST_GREEDY_ROUNDS 25

/* Free the scope at the end. */
typedef struct cst_greedy {
    cst_scope scope;
    int32_t rounds;  /* rounds kept: up to the first minimum of the loss */
    int32_t *order;  /* [rounds] member added in each */
    double *loss;    /* [rounds] mean loss after each, rounded to 6 decimals (unless <= 1e-4) */
    double *weights; /* [members], sum 1 */
} cst_greedy;

typedef enum cst_greedy_metric {
    CST_GREEDY_LOG_LOSS = 0,
    CST_GREEDY_TOP1 = 1, /* share of rows whose largest probability is not the label's */
    CST_GREEDY_BRIER = 2 /* mean of sum_c (p_c - y_c)^2 */
} cst_greedy_metric;

/* `rounds` rounds on a labelled view: the member joins whose addition gives the least mean loss,
 * rounded to 6 decimals after the first round. Ties: members used before, then NumPy's
 * RandomState(seed). *out is empty after an error. */
cst_status cst_greedy_select(cst_context *context, const cst_view *view, cst_greedy_metric metric,
                             int32_t rounds, uint32_t seed, cst_greedy *out);
