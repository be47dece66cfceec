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

/* Weights [rule][outputs][members] of rules that are mixtures, fitted on the rows. */
typedef cst_status cst_fit_mixtures_fn(cst_context *context, const cst_training *on,
                                       double *weights);

/* Predicts by such rules [count], each row by those without its fold: told [count], [rows][outputs]
 * of the scope, packed to the rows that are scored. The list, without scores and tests, is the
 * facts'; it is empty where there is one member, or members did not predict some rows. */
cst_status cst_mixtures_run(cst_context *context, cst_scope *scope, cst_fit_job *job,
                            const char *const *names, int32_t count, cst_fit_mixtures_fn *fit,
                            cst_compared **list, float **told);
