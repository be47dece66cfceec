/*
 * Stage S1 of a regression: risk, correlation and similarity of the members.
 * Paper: section "Kernelized Redundancy Projection using CKA"; docs/regression.md.
 */
#ifndef CST_REGRESSION_REDUNDANT_H
#define CST_REGRESSION_REDUNDANT_H

#include "fit/stages.h"
#include "tasks/regression/moments.h"

/* What a run of a regression has of its own. */
typedef struct cst_value_own {
    cst_scaling scaling;
    cst_moments *moments; /* [outputs]: without a gate, by the run's folds */
} cst_value_own;

/* Those of cst_family (fit/family.h). */
cst_status cst_value_prepare(cst_context *context, cst_scope *scope, cst_run *run, cst_stages *out);
cst_status cst_value_judge(cst_context *context, const cst_run *run, const cst_stages *stages,
                           const double *taus, int32_t count, double *loss);
/* Lowers similarities of few members to the correlations of their errors, over all outputs: where
 * all members are near the target, their values agree however much their errors differ. */
void cst_value_bound(const cst_run *run, double *similarity);

/* Correlations of the members' values in units of the scaling, outputs one after another, [K*K]. */
void cst_value_pearson(const cst_moments *moments, int32_t outputs, double *pearson);

/* CKA of the members; several outputs each in units of its target. Free the result. */
cst_status cst_value_cka(cst_context *context, const cst_view *view, const cst_scaling *scaling,
                         const cst_cka_options *options, cst_cka_result *out);

#endif
