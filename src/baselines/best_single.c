/*
 * The best single model by out-of-fold risk. A baseline beside the stack. method.md section 8.
 */
#include "baselines/baselines.h"

#include "metrics/risk.h"

#include <string.h>

cst_status cst_baseline_best_single(cst_context *context, const cst_view *view, bool by_top1,
                                    double *weights) {
    size_t members = (size_t)view->members;
    cst_status status = CST_OK;
    double *nll = cst_alloc(context, members, sizeof *nll);
    double *top1 = cst_alloc(context, members, sizeof *top1);
    if (!nll || !top1) {
        status = CST_ERROR_MEMORY;
        goto cleanup;
    }
    status = cst_risk_all(context, view, nll);
    if (status == CST_OK && by_top1)
        status = cst_risk_top1_all(context, view, top1);
    if (status != CST_OK)
        goto cleanup;
    size_t best = 0;
    for (size_t k = 1; k < members; k++)
        if (top1[k] > top1[best] || (top1[k] == top1[best] && nll[k] < nll[best]))
            best = k;
    memset(weights, 0, members * sizeof *weights);
    weights[best] = 1;
cleanup:
    cst_free(context, nll);
    cst_free(context, top1);
    return status;
}
