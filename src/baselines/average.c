/*
 * The uniform average of all members (a deep ensemble, where they differ in their seeds only). A
 * baseline beside the stack. method.md section 8.
 */
#include "baselines/baselines.h"

#include "blend/blend.h"

cst_status cst_baseline_average(cst_context *context, const cst_view *view, double *weights) {
    cst_blend_options options = cst_blend_defaults();
    options.rule = CST_BLEND_UNIFORM;
    return cst_blend_weights(context, view, NULL, NULL, &options, weights);
}
