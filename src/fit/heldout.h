/*
 * Held-out predictions for the blend: every meta-learner's probability of the true class and the
 * residuals' second moments, in one pass over the rows. Between stages S3 and S4. Paper:
 * "Laplace-Approximate Bayesian Blender".
 */
#ifndef CST_PIPELINE_HELDOUT_H
#define CST_PIPELINE_HELDOUT_H

#include "model/stack.h"

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

#endif
