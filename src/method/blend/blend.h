/* Convex weights for M meta-learners (or members) from their out-of-fold probabilities, losses and
 * curvatures. docs/method.md#s4-blend. */
#ifndef CST_BLEND_H
#define CST_BLEND_H

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

/* Weights from the rule's inputs; the rest may be NULL. Greedy takes the other classes'
 * probabilities as 1 less the true one's. */
cst_status cst_blend_weights_from(cst_context *context, const cst_blend_evidence *evidence,
                                  const cst_blend_options *options, double *weights);

/* Adds weight sum_c (y_c - p_c)(y_c - q_c) of one sample to the upper triangle of sum [M][M]:
 * members[m] is the sample's row of member m. */
void cst_residual_products(const float *const *members, int32_t count, int32_t classes,
                           int32_t truth, double weight, double *sum);

/* w_m ~ exp(-(nll_m + logdet_m / 2) / (T scale)), scale = rows for the mean-loss reading and 1
 * otherwise. A learner whose loss is not finite gets 0. */
cst_status cst_blend_laplace(cst_context *context, int32_t count, const double *nll,
                             const double *logdet, double temperature, double scale,
                             double *weights);

/* w_m ~ 1 / RMSE_m over the (sample, class) residuals y_ic - p_ic: the prototype. Learners without
 * any error share the weight equally. */
cst_status cst_blend_inverse_rmse(cst_context *context, const cst_view *oof, double *weights);

/* Second moments S [M][M] of the residuals y_ic - p_ic over all (sample, class) rows. Rows of
 * residuals sum to 0 when probabilities sum to 1, so that these are their covariances. */
cst_status cst_residual_moments(cst_context *context, const cst_view *oof, double *moments);

/* Minimises w'Sw subject to sum w = 1 (and w >= 0 unless allow_negative). The diagonal of a
 * singular S is raised by 1e-10 of its mean, tenfold until a Cholesky factor exists. */
cst_status cst_blend_minimum_variance(cst_context *context, int32_t count, const double *moments,
                                      bool allow_negative, double *weights);

/* Weights on the simplex that minimise the NLL of the linear mixture sum_m w_m p_m: sequential
 * quadratic programming until max_m (1/N) sum_i p_mi / mixture_i <= 1 + 1e-9 (which bounds the
 * distance to the optimum by 1e-9 nats a row). *gap: the value reached less 1; may be NULL. */
cst_status cst_blend_stacking(cst_context *context, const cst_view *oof, double *weights,
                              double *gap);

/* Minimises u'Hu/2 - b'u over u >= 0 for a positive definite H [n][n], by the active-set method of
 * Lawson and Hanson. u: [n], overwritten. */
cst_status cst_nonnegative_quadratic(cst_context *context, int32_t n, const double *hessian,
                                     const double *b, double *u);

#endif
