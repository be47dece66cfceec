/*
 * Greedy ensemble selection as AutoGluon runs it, 25 rounds and seed 0, on the log loss, the top-1
 * error or the Brier score. Baselines beside the stack. Paper: "greedy hill climbing" in section
 * "Experimental Setup"; docs/baselines.md#definitions; Caruana et al. (2004).
 */
#include "fit/baselines/baselines.h"

#include "method/blend/greedy.h"

#include <string.h>

static cst_status fit_metric(cst_context *context, const cst_baseline_data *data,
                             cst_greedy_metric metric, cst_baseline_fit *out) {
    cst_greedy found = {0};
    cst_status status =
        cst_greedy_select_by(context, data->view, metric, CST_GREEDY_ROUNDS, 0, &found);
    if (status == CST_OK) {
        memcpy(out->weights, found.weights, (size_t)out->members * sizeof *out->weights);
        (void)cst_snprintf(out->detail, sizeof out->detail, "%d rounds", (int)found.rounds);
    }
    cst_greedy_free(context, &found);
    return status;
}

static cst_status fit(cst_context *context, const cst_baseline_data *data, cst_baseline_fit *out) {
    return fit_metric(context, data, CST_GREEDY_LOG_LOSS, out);
}

static cst_status fit_top1(cst_context *context, const cst_baseline_data *data,
                           cst_baseline_fit *out) {
    return fit_metric(context, data, CST_GREEDY_TOP1, out);
}

static cst_status fit_brier(cst_context *context, const cst_baseline_data *data,
                            cst_baseline_fit *out) {
    return fit_metric(context, data, CST_GREEDY_BRIER, out);
}

const cst_baseline cst_baseline_greedy = {
    .name = "greedy",
    .definition = "greedy selection with replacement that minimises the log loss: 25 rounds, "
                  "truncated at the first minimum, as in AutoGluon",
    .fit = fit,
};

const cst_baseline cst_baseline_greedy_top1 = {
    .name = "greedy-top1",
    .definition = "greedy selection with replacement that minimises the top-1 error: 25 "
                  "rounds, truncated at the first minimum, as in AutoGluon",
    .fit = fit_top1,
};

const cst_baseline cst_baseline_greedy_brier = {
    .name = "greedy-brier",
    .definition = "greedy selection with replacement that minimises the Brier score: 25 "
                  "rounds, truncated at the first minimum, as in AutoGluon",
    .fit = fit_brier,
};
