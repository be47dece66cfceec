/* The member with the least out-of-fold NLL, used alone. docs/baselines.md#definitions. */
#include "fit/baselines/baselines.h"

#include "stats/risk.h"

static cst_status fit(cst_context *context, const cst_baseline_data *data, cst_baseline_fit *out) {
    CST_SCOPE(scope);
    CST_NEW(context, scope, double, nll, out->members);
    CST_TRY(cst_risk_all(context, data->view, nll));
    int32_t best = 0;
    for (int32_t k = 1; k < out->members; k++)
        if (nll[k] < nll[best])
            best = k;
    out->weights[best] = 1;
    return CST_OK;
}

const cst_baseline cst_baseline_best_single = {
    .name = "best-single",
    .definition = "the member with the lowest NLL on the out-of-fold rows; ties go to the "
                  "first",
    .fit = fit,
};
