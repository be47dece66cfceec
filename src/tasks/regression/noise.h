/*
 * What a stack does not know of the next target: noise from cross-fitted residuals, its growth with
 * the members' disagreement, and quantiles for intervals. After stage S4 of a regression.
 * docs/regression.md.
 */
#ifndef CST_REGRESSION_NOISE_H
#define CST_REGRESSION_NOISE_H

#include "tasks/regression/learners.h"

typedef enum cst_variance_rule { /* in the order of the option variance.rule */
                                 CST_VARIANCE_AUTO = 0, /* the next two, by held-out NLL */
                                 CST_VARIANCE_CONSTANT = 1,
                                 CST_VARIANCE_DISAGREEMENT = 2
} cst_variance_rule;

/* Values without noise, doubt or quantiles, in *out the caller's, also after a failure. */
cst_status cst_values_start(cst_context *context, const cst_scaling *scaling, int32_t columns,
                            cst_values **out);

/* The fitted values of a model: location and scale of `scaling`, and noise, share and quantiles
 * from residuals of rows predicted by the fits without their fold. *out is the
 * caller's, also after a failure; free with cst_values_free. */
cst_status cst_values_fit(cst_context *context, const cst_view *view, const cst_scaling *scaling,
                          const int32_t *folds, const cst_value_fit *fit, cst_variance_rule rule,
                          bool conformal, cst_values **out);

#endif
