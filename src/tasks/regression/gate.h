/*
 * The gate of a regression: trained as that of a classification, on values in units of the targets.
 * Stage S2. Paper: section "Differentiable Meta-Feature Gate"; docs/regression.md.
 */
#ifndef CST_REGRESSION_GATE_H
#define CST_REGRESSION_GATE_H

#include "fit/settings.h"
#include "model/values.h"

/* Trains the gates, each on a sample of the rows of its part: gate 0 on all rows, gate f + 1 on
 * those whose fold is not f. Nothing is done for gates [count] that are not learned; their mode and
 * inputs are set. Each (row, output) is a sample of its own. */
cst_status cst_value_gates_fit(cst_context *context, const cst_view *view,
                               const cst_scaling *scaling, const int32_t *folds,
                               const cst_settings *settings, int32_t count, cst_gate *gates);

#endif
