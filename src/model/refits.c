/*
 * What a model keeps of the loss of its meta-learners: made empty and freed. After a fit.
 * model/absent.h.
 */
#include "model/absent.h"

cst_status cst_refit_alloc(cst_context *context, int32_t members, int32_t biases, cst_refit *out) {
    size_t k = (size_t)members;
    *out = (cst_refit){.biases = biases, .share = 1};
    out->curvature = cst_alloc(context, k * k, sizeof(double));
    out->slope = cst_alloc(context, k, sizeof(double));
    out->ridge = cst_alloc(context, k, sizeof(double));
    out->l1 = cst_alloc(context, k, sizeof(double));
    out->center = cst_alloc(context, k, sizeof(double));
    out->rest = cst_alloc(context, (size_t)biases, sizeof(double));
    out->tilt = cst_alloc(context, (size_t)biases * k, sizeof(double));
    return out->curvature && out->slope && out->ridge && out->l1 && out->center && out->rest &&
                   out->tilt
               ? CST_OK
               : CST_ERROR_MEMORY;
}

void cst_refit_clear(cst_context *context, cst_refit *refit) {
    cst_free(context, refit->curvature);
    cst_free(context, refit->slope);
    cst_free(context, refit->ridge);
    cst_free(context, refit->l1);
    cst_free(context, refit->center);
    cst_free(context, refit->rest);
    cst_free(context, refit->tilt);
    *refit = (cst_refit){0};
}

void cst_refits_free(cst_context *context, cst_refits *refits) {
    if (!refits)
        return;
    for (int32_t i = 0; refits->refit && i < refits->count; i++)
        cst_refit_clear(context, &refits->refit[i]);
    cst_free(context, refits->refit);
    cst_free(context, refits);
}
