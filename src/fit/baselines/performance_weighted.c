/*
 * The average of all members weighted by their accuracies. A baseline beside the stack. The paper
 * names performance-weighted averaging in section "Experimental Setup" and leaves the formula open;
 * docs/baselines.md#definitions.
 */
#include "fit/baselines/baselines.h"

#include "stats/risk.h"

static cst_status fit(cst_context *context, const cst_baseline_data *data, cst_baseline_fit *out) {
    CST_TRY(cst_risk_top1_all(context, data->view, out->weights));
    double total = 0;
    for (int32_t k = 0; k < out->members; k++)
        total += out->weights[k];
    for (int32_t k = 0; k < out->members; k++)
        out->weights[k] = total > 0 ? out->weights[k] / total : 1.0 / (double)out->members;
    return CST_OK;
}

const cst_baseline cst_baseline_performance_weighted = {
    .name = "performance-weighted",
    .definition = "the mean of all members' probabilities weighted by their top-1 accuracies "
                  "on the out-of-fold rows; equal weights if all are 0",
    .fit = fit,
};
