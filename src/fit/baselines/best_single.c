/* The member with the least out-of-fold NLL, used alone. docs/baselines.md#definitions. */
#include "fit/baselines/baselines.h"

#include "stats/risk.h"

static cst_status fit(cst_context *context, const cst_baseline_data *data, cst_baseline_fit *out) {
    double *nll = cst_alloc(context, (size_t)out->members, sizeof *nll);
    cst_status status = nll ? cst_risk_all(context, data->view, nll) : CST_ERROR_MEMORY;
    int32_t best = 0;
    for (int32_t k = 1; status == CST_OK && k < out->members; k++)
        if (nll[k] < nll[best])
            best = k;
    out->weights[best] = 1;
    cst_free(context, nll);
    return status;
}

const cst_baseline cst_baseline_best_single = {
    .name = "best-single",
    .definition = "the member with the lowest NLL on the out-of-fold rows; ties go to the "
                  "first",
    .fit = fit,
};
