/* Stages S2 to S4 on a fixed set of members: gate, penalised fits, log-linear pool, cross-fitted
 * losses and the blend. Paper: sections "Differentiable Meta-Feature Gate" to "Laplace-Approximate
 * Bayesian Blender". */
#pragma once

#include "data/pool/pool.h"
#include "fit/settings.h"
#include "fit/training.h"
#include "method/gate/gate.h"
#include "method/linear/linear.h"
#include "model/stack.h"

enum { CST_LEARNERS_MAX = 18 }; /* choices of meta.learners */

/* What one fit found, on all rows or without a fold. */
typedef struct cst_fold_fit {
    double half_logdet[CST_LEARNERS_MAX]; /* log det H_m / 2 */
    int32_t active[CST_LEARNERS_MAX];     /* linear: coefficients in that determinant */
    double passed[CST_AGGREGATORS];       /* cst_gate.passed of a learned gate */
} cst_fold_fit;

/* Whether the log-linear pool takes the place of the blend. */
typedef struct cst_pool_alone {
    bool tried;
    bool used;
    double change; /* mean loss of the pool less that of the blend with weights found without the
                      row's fold */
    double se;     /* of the change; by folds where there are ten or more */
} cst_pool_alone;

/* Whether weights of each class take the place of common ones. */
typedef struct cst_class_wise {
    bool tried;
    bool used;
    double change; /* of the mean held-out loss by these weights */
    double se;     /* of the change, by groups where there are any */
} cst_class_wise;

/* What the fit of one set of members gave, besides the model. */
typedef struct cst_meta_fit {
    cst_model *model;                   /* every learner with its blend weight; no names */
    struct cst_value_fit *values;       /* of a regression, whose model is made of it in the end */
    bool refits;                        /* keep what its weights can be solved again from */
    int32_t learners;                   /* as fitted; the model may lose some to cst_model_prune */
    const char *name[CST_LEARNERS_MAX]; /* as in the option meta.learners */
    double weight[CST_LEARNERS_MAX];    /* in the blend; of a regression, means over the outputs */
    double nll[CST_LEARNERS_MAX];       /* total NLL on the held-out folds; NaN when one learner; of
                                           a regression, sums over the outputs as the next two */
    double loss[CST_LEARNERS_MAX];      /* L_m of the Laplace weights; NaN without */
    double half_logdet[CST_LEARNERS_MAX]; /* log det H_m / 2 */
    int32_t active[CST_LEARNERS_MAX];     /* linear: coefficients in that determinant */
    int32_t fold_fits;      /* of linear learners: on all rows, then without each fold */
    cst_fold_fit *fold_fit; /* [fold_fits] */
    double *row_loss; /* [rows]: cross-fitted loss of the blend times the row's weight; NULL when
                         not asked for */
    double share;     /* of the uniform distribution in all members of the log-linear pool; 0: each
                         member's own */
    double prior;     /* of the weights of that; 0: both priors by the evidence */
    cst_pool_alone alone;        /* stacking */
    cst_class_wise class_wise;   /* where the learners are the pool and that */
    double lambda;               /* of the ridge; NaN without linear learners */
    double sigma2, mp_edge, snr; /* of the meta-design's spectrum; NaN without */
    double seconds_gate, seconds_ridge, seconds_blend;
    cst_scope scope; /* of fold_fit, row_loss and values */
} cst_meta_fit;

/* Fits on the view (kept members only). folds [view->rows], 0..fold_count-1. With `losses` the
 * cross-fitted loss of every row is kept. */
cst_status cst_meta_fit_run(cst_context *context, const cst_view *view, const int32_t *folds,
                            int32_t fold_count, const cst_settings *settings, bool losses,
                            cst_meta_fit *out);
void cst_meta_fit_free(cst_context *context, cst_meta_fit *fit);

/* Penalty and spectrum of the design of the view's members with the prototype's features, for a
 * report whose blend has no linear learner: fills lambda, sigma2, mp_edge and snr of `fit`. */
cst_status cst_meta_diagnose(cst_context *context, const cst_view *view, const int32_t *folds,
                             int32_t fold_count, const cst_settings *settings, cst_meta_fit *fit);

/* Fits the linear kinds (bits of cst_linear_kind) on moments, each with its penalty by the rule of
 * the settings, and gives each to `take`. With one fold GCV replaces cross-validation. */
typedef cst_status (*cst_take_linear_fn)(cst_context *context, void *user,
                                         const cst_standardised *standardised,
                                         const cst_linear *linear, int32_t members);
cst_status cst_linear_learners(cst_context *context, const cst_moments *moments,
                               const cst_spectrum_members *members, const cst_settings *settings,
                               unsigned kinds, cst_penalty *penalty, cst_take_linear_fn take,
                               void *user);

/* Removes learners below CST_NEGLIGIBLE_WEIGHT from the model, and the gate with the last linear
 * one. */
cst_status cst_model_prune(cst_context *context, cst_model *model);

typedef struct cst_heldout {
    const cst_view *view;
    const int32_t *folds; /* [rows], 0..fold_count-1 */
    int32_t fold_count;
    const cst_model *const
        *models; /* [fold_count]: fitted without the fold; the same learners in each */
    int32_t learners;
    float *truth; /* out: [learners][rows] */
    double
        *moments; /* out: [learners][learners], over all (sample, class) rows; NULL: not wanted */
    double *squares; /* out: [learners], mean squared error of the scores over the same rows, before
                        they become probabilities; NAN for log-linear pools; NULL: not wanted */
} cst_heldout;

/* Each row predicted by the model of its fold, by each of its learners alone. */
cst_status cst_heldout_run(cst_context *context, const cst_heldout *heldout);

/* Of the pool and of that with weights of each class, in this order, the second where it is better
 * by more than one standard error. truth: as of cst_heldout_run. */
cst_status cst_choose_class_wise(cst_context *context, const cst_some_rows *judged,
                                 const float *truth, cst_meta_fit *fit);

/* Bits of the learners that a blend of stacking can do without, by the results of cst_heldout_run:
 * those of the dear ones (bits) that lower its loss by less than can be seen, then those without a
 * weight. */
cst_status cst_unneeded_learners(cst_context *context, const cst_view *view,
                                 const cst_blend_options *options, const float *truth,
                                 const cst_meta_fit *fit, unsigned dear, unsigned *without);

/* judged: the rows of those results, with their folds. Weights of the learners from the results of
 * cst_heldout_run. moments, squares: NULL unless the rule reads them. */
cst_status cst_blend_learners(cst_context *context, const cst_some_rows *judged,
                              const cst_blend_options *options, const float *truth,
                              const double *moments, const double *squares, cst_meta_fit *fit);
