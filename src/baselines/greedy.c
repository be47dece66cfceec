/*
 * Greedy ensemble selection as AutoGluon runs it: 25 rounds, seed 0, log loss. A baseline beside
 * the stack. method.md section 8; Caruana et al. (2004).
 */
#include "baselines/baselines.h"

#include "blend/greedy.h"

#include <stdio.h>
#include <string.h>

static cst_status fit(cst_context *context, const cst_baseline_data *data, cst_baseline_fit *out) {
    cst_greedy found = {0};
    cst_status status = cst_greedy_select(context, data->view, CST_GREEDY_ROUNDS, 0, &found);
    if (status == CST_OK)
        memcpy(out->weights, found.weights, (size_t)out->members * sizeof *out->weights);
    (void)snprintf(out->detail, sizeof out->detail, "%d rounds", (int)found.rounds);
    cst_greedy_free(context, &found);
    return status;
}

const cst_baseline cst_baseline_greedy = {
    .name = "greedy",
    .definition = "greedy selection with replacement on the log loss: 25 rounds, cut at the first "
                  "minimum, as in AutoGluon",
    .fit = fit,
};
