/*
 * The uniform average of all members. A baseline beside the stack. docs/baselines.md#definitions.
 */
#include "fit/baselines/baselines.h"

#include "method/blend/blend.h"

static cst_status fit(cst_context *context, const cst_baseline_data *data, cst_baseline_fit *out) {
    cst_blend_options options = cst_blend_defaults();
    options.rule = CST_BLEND_UNIFORM;
    return cst_blend_weights(context, data->view, NULL, NULL, &options, out->weights);
}

const cst_baseline cst_baseline_average = {
    .name = "average",
    .definition = "the mean of all members' probabilities",
    .fit = fit,
};
