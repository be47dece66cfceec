/*
 * The weights of a regression's meta-learners in its blend, from their cross-fitted residuals, and
 * what the fits of the learners leave for them. Stage S4. Paper: "Laplace-Approximate Bayesian
 * Blender"; docs/regression.md.
 */
#ifndef CST_REGRESSION_WEIGH_H
#define CST_REGRESSION_WEIGH_H

#include "tasks/regression/learners.h"

/* One learner of one part and output. */
typedef struct cst_value_one {
    double *weights; /* [columns] */
    double intercept;
    double logdet;  /* of the Hessian for noise 1 */
    int32_t active; /* its order: noise s^2 takes active * log(s^2) off */
    bool empty;
} cst_value_one;

typedef struct cst_value_job {
    const cst_view *view;
    const cst_scaling *scaling;
    const int32_t *folds;
    const cst_settings *settings;
    cst_meta_fit *meta;
    cst_value_fit *fit;           /* its values */
    cst_moments *moments;         /* [gate_count][outputs], every fold in each */
    cst_value_one *fits;          /* [folds + 1][outputs][learners] */
    double *covariances;          /* [outputs][learners][columns^2], of part 0 */
    double *moments_of_residuals; /* [outputs][learners^2] */
    double *losses;               /* [rows]; NULL: not wanted */
} cst_value_job;

static inline cst_value_one *cst_value_one_of(const cst_value_job *job, int32_t part,
                                              int32_t output, int32_t learner) {
    const cst_value_fit *f = job->fit;
    return &job->fits[(part * f->outputs + output) * f->learners + learner];
}

static inline const cst_moments *cst_value_moments_of(const cst_value_job *job, int32_t part,
                                                      int32_t output) {
    int32_t gate = job->fit->gate_count > 1 ? part : 0;
    return &job->moments[gate * job->fit->outputs + output];
}

/* Weights of the learners of every output, and the functions that they blend to. */
cst_status cst_value_weigh(cst_context *context, cst_value_job *job);

#endif
