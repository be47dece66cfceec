/*
 * What a model keeps of the loss of its meta-learners: made empty, rounded and freed. After a fit.
 * model/absent.h.
 */
#include "model/absent.h"

#include <math.h>

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

bool cst_refits_packed(const cst_refits *refits) {
    for (int32_t i = 0; refits && i < refits->count; i++)
        if (refits->refit[i].biases > CST_REFIT_PLAIN)
            return true;
    return false;
}

size_t cst_refit_column_bytes(size_t count) {
    return (count * CST_REFIT_BITS + 7) / 8;
}

double cst_refit_step(const double *values, size_t count, size_t stride) {
    static const int LEAST = -1000; /* the step stays a normal number */
    double most = 0;
    int exponent = 0;
    for (size_t i = 0; i < count; i++)
        most = fmax(most, fabs(values[i * stride]));
    (void)frexp(most, &exponent);
    return ldexp(1, (exponent > LEAST ? exponent : LEAST) - CST_REFIT_BITS + 1);
}

int32_t cst_refit_steps(double value, double step) {
    double most = (1 << (CST_REFIT_BITS - 1)) - 1;
    return (int32_t)fmin(fmax(round(value / step), -most), most);
}

static void round_column(double *values, size_t count, size_t stride) {
    double step = cst_refit_step(values, count, stride);
    for (size_t i = 0; i < count; i++)
        values[i * stride] = cst_refit_steps(values[i * stride], step) * step;
}

void cst_refits_round(cst_refits *refits, int32_t members) {
    for (int32_t i = 0; refits && i < refits->count; i++) {
        cst_refit *refit = &refits->refit[i];
        if (refit->biases <= CST_REFIT_PLAIN)
            continue;
        round_column(refit->rest, (size_t)refit->biases, 1);
        for (int32_t k = 0; k < members; k++)
            round_column(refit->tilt + k, (size_t)refit->biases, (size_t)members);
    }
}
