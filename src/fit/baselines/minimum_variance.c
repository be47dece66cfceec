/*
 * The convex mixture whose residuals vary least: the paper's optimal blending applied to the
 * members themselves. A baseline beside the stack. Paper: theorem "Optimal blending";
 * docs/method.md#s4-blend and docs/baselines.md#definitions.
 */
#include "fit/baselines/baselines.h"

#include "method/blend/blend.h"

static cst_status fit(cst_context *context, const cst_baseline_data *data, cst_baseline_fit *out) {
    cst_blend_options options = cst_blend_defaults();
    options.rule = CST_BLEND_MINIMUM_VARIANCE;
    return cst_blend_weights(context, data->view, NULL, NULL, &options, out->weights);
}

const cst_baseline cst_baseline_minimum_variance = {
    .name = "minimum-variance",
    .definition = "the convex mixture (non-negative weights with sum 1) that minimises the "
                  "mean of (y - p)^2 over the out-of-fold (row, class) pairs",
    .fit = fit,
};
