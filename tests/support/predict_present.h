/*
 * Prediction of rows without some of the members, by a predictor made for the call.
 */
#ifndef PREDICT_PRESENT_H
#define PREDICT_PRESENT_H

#include "core/base.h"

#include <corestack/model.h>

static inline cst_status predict_present(cst_context *context, const cst_model *model,
                                         const float *const *members, const uint8_t *present,
                                         int64_t rows, float *out) {
    cst_predictor *predictor = NULL;
    cst_status status = cst_predictor_create(context, &predictor, model);
    if (status == CST_OK)
        status = cst_predictor_predict_present(predictor, members, present, rows, out);
    if (status != CST_OK)
        (void)cst_fail(context, status, "%s", cst_predictor_error(predictor));
    cst_predictor_free(context, predictor);
    return status;
}

#endif
