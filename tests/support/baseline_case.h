/* What a fitted baseline predicts of rows of its members: by the model that would be saved. */
#ifndef CST_TEST_BASELINE_CASE_H
#define CST_TEST_BASELINE_CASE_H

#include "fit/baselines/baselines.h"

#include "check.h"

static inline cst_status baseline_predict(cst_context *context, const cst_baseline_fit *fit,
                                          const cst_view *view, float *out) {
    cst_model *model = NULL;
    int32_t kept[64];
    for (int32_t k = 0; k < fit->members; k++)
        kept[k] = k;
    cst_status status = cst_baseline_fit_model(context, fit, kept, fit->members, &model);
    if (status == CST_OK)
        status = cst_stack_predict(context, model, view, out);
    cst_model_free(context, model);
    return status;
}

#endif
