/*
 * Greedy ensemble selection as AutoGluon runs it: 25 rounds, seed 0, log loss. A baseline beside
 * the stack. method.md section 8.
 */
#include "baselines/baselines.h"

#include "blend/greedy.h"

#include <string.h>

cst_status cst_baseline_greedy(cst_context *context, const cst_view *view, double *weights) {
    cst_greedy found = {0};
    cst_status status = cst_greedy_select(context, view, CST_GREEDY_ROUNDS, 0, &found);
    if (status == CST_OK)
        memcpy(weights, found.weights, (size_t)view->members * sizeof *weights);
    cst_greedy_free(context, &found);
    return status;
}
