/*
 * Stage S1 of a regression: risk, correlation and similarity of the members, and the projection.
 * Paper: section "Kernelized Redundancy Projection using CKA"; docs/regression.md.
 */
#ifndef CST_REGRESSION_REDUNDANT_H
#define CST_REGRESSION_REDUNDANT_H

#include "fit/stages.h"
#include "tasks/regression/moments.h"

/* Correlations of the members' values in units of the scaling, outputs one after another, [K*K]. */
void cst_value_pearson(const cst_moments *moments, int32_t outputs, double *pearson);

/* CKA of the members; several outputs each in units of its target. Free the result. */
cst_status cst_value_cka(cst_context *context, const cst_view *view, const cst_scaling *scaling,
                         const cst_cka_options *options, cst_cka_result *out);

/* Fills what cst_redundant_members fills. */
cst_status cst_value_redundant(cst_context *context, const cst_view *view,
                               const cst_scaling *scaling, const cst_moments *moments,
                               const cst_settings *settings, const cst_costs *costs,
                               cst_stages *out);

#endif
