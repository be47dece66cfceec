/* Scores of a regression in the documents of fit, evaluate and compare. docs/json.md. */
#ifndef CST_REGRESSION_DOCUMENT_H
#define CST_REGRESSION_DOCUMENT_H

#include "fit/document.h"
#include "tasks/regression/stages.h"

/* rmse, mae, median_ae, r2, nll, and (where there are levels) levels, coverage and width. */
void cst_value_put_scores(cst_report *report, json_t *object, const cst_value_metrics *scores);
/* levels, coverage and width, where there are levels. */
void cst_value_put_coverage(cst_report *report, json_t *object, const cst_value_metrics *scores);
/* "outputs": a list of objects with name and scores. each: [outputs]. */
json_t *cst_value_put_outputs(cst_report *report, json_t *object, const cst_pool *pool,
                              const cst_value_metrics *each, int32_t outputs);
/* "definitions". */
void cst_value_put_definitions(cst_report *report);

/* Scores of every member of a view with targets: RMSE, MAE and R^2, the others NaN. out:
 * [members]. */
cst_status cst_value_member_metrics(cst_context *context, const cst_view *view,
                                    cst_value_metrics *out);

/* "members": a list of objects with name, family, kept (where `because` is given), rmse, mae, r2,
 * flops. */
void cst_value_put_members(cst_report *report, const cst_pool *pool,
                           const cst_value_metrics *members, const cst_reason *reason);

/* Those of cst_family (fit/family.h). */
void cst_value_put_kept(cst_report *report, const cst_fit_facts *facts);
void cst_value_put_own_fit(cst_report *report, const cst_fit_facts *facts);

#endif
