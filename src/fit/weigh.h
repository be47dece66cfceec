/*
 * The weights of meta-learners in the blend, from what they say of rows that they have not seen.
 * Stage S4. Paper: "Laplace-Approximate Bayesian Blender"; docs/method.md#s4-blend.
 */
#ifndef CST_PIPELINE_WEIGH_H
#define CST_PIPELINE_WEIGH_H

#include "fit/learners.h"

/* Weights of the learners from what they say of the rows they have not seen: truth
 * [learners][rows], moments of the residuals and squares (of cst_heldout) where the rule reads
 * them, else NULL. */
cst_status cst_blend_learners(cst_context *context, const cst_view *view,
                              const cst_blend_options *options, const float *truth,
                              const double *moments, const double *squares, cst_meta_fit *fit);

#endif
