/* Simple rules on the nested folds of a fit, and paired tests of them against it. docs/json.md#fit.
 */
#pragma once

#include "fit/family.h"

/* Paired t-test of losses [rows], times the rows' weights, less those of the fit: on the sums of
 * groups where the view has any. Fills difference, se and p; NaN of fewer than two samples. */
cst_status cst_compared_test(cst_context *context, const cst_view *view, const double *loss,
                             const double *of_fit, cst_compared *out);

/* Adjusts the p of a list for their number. */
void cst_compared_adjust(cst_compared *list, int32_t count);

/* Means of a run's `without` [view->rows][members], packed to the rows of a view, into the facts.
 */
cst_status cst_members_missed(cst_context *context, cst_fit_job *job, const cst_view *view,
                              const float *without);

/* Scores the rules of a classification, and puts them into the facts. scored: the rows of `held`,
 * the nested predictions of the fit. */
cst_status cst_simple_rules(cst_context *context, cst_fit_job *job, const cst_view *scored,
                            const float *held);
