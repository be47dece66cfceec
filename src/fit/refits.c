/* The quadratic functions that a model's weights are solved again from where members are absent.
 * After stage S4. model/absent.h. */
#include "fit/refits.h"

#include "core/la.h"
#include "model/codec.h"

#include <math.h>
#include <string.h>

cst_status cst_refits_add_linear(cst_context *context, cst_refits *refits,
                                 const cst_standardised *s, const cst_linear *linear,
                                 int32_t members, int32_t learner) {
    size_t k = (size_t)members;
    size_t kept = (size_t)s->kept;
    cst_refit *refit;
    CST_TRY(cst_refits_add(context, refits, members, 1, &refit));
    refit->learner = learner;
    refit->rest[0] = s->target_mean;
    refit->loss = s->target_square;
    refit->least = linear->loss;
    for (size_t i = 0; i < k; i++)
        refit->ridge[i] = 1; /* of columns that are constant, whose weight is 0 */
    for (size_t a = 0; a < kept; a++) {
        size_t i = (size_t)s->index[a];
        if (i >= k)
            continue;
        refit->slope[i] = s->cross[a] * s->scale[a];
        refit->ridge[i] = linear->lambda * (1 - linear->l1_ratio) * s->scale[a] * s->scale[a];
        refit->l1[i] = linear->lambda * linear->l1_ratio * s->scale[a];
        refit->tilt[i] = s->mean[a];
        for (size_t b = 0; b < kept; b++) {
            size_t j = (size_t)s->index[b];
            if (j < k)
                refit->curvature[i * k + j] = s->gram[a * kept + b] * s->scale[a] * s->scale[b];
        }
    }
    return CST_OK;
}

/* The biases at their best for given weights: tilt = H_bb^-1 H_bw. `block` is where H_bb goes. */
static cst_status profile_biases(cst_context *context, const cst_loglinear *pool, double *block,
                                 cst_refit *refit) {
    size_t k = (size_t)pool->members;
    size_t c = (size_t)pool->classes;
    size_t d = k + c;
    CST_SCOPE(scope);
    CST_NEW(context, scope, double, column, c);
    for (size_t i = 0; i < c; i++)
        for (size_t j = 0; j < k; j++)
            refit->tilt[i * k + j] = pool->hessian[(k + i) * d + j];
    for (size_t i = 0; i < c; i++) /* forwards: no row is overwritten before it moved */
        memmove(block + i * c, pool->hessian + (k + i) * d + k, c * sizeof *block);
    CST_TRY(cst_cholesky(context, (int64_t)c, block));
    for (size_t j = 0; j < k; j++) {
        for (size_t i = 0; i < c; i++)
            column[i] = refit->tilt[i * k + j];
        cst_cholesky_solve((int64_t)c, block, column);
        for (size_t m = 0; m < k; m++) /* H_wb H_bb^-1 H_bw; columns up to j - 1 are solved */
            for (size_t i = 0; m >= j && i < c; i++)
                refit->curvature[m * k + j] -= refit->tilt[i * k + m] * column[i];
        for (size_t i = 0; i < c; i++)
            refit->tilt[i * k + j] = column[i];
    }
    for (size_t m = 0; m < k; m++)
        for (size_t j = m + 1; j < k; j++)
            refit->curvature[m * k + j] = refit->curvature[j * k + m];
    return CST_OK;
}

cst_status cst_refits_add_loglinear(cst_context *context, cst_refits *refits, cst_loglinear *pool,
                                    const cst_loglinear_options *options, int32_t learner) {
    size_t k = (size_t)pool->members;
    size_t d = (size_t)pool->parameters;
    double *hessian = pool->hessian;
    cst_refit *refit;
    CST_TRY(cst_refits_add(context, refits, pool->members, pool->classes, &refit));
    double pair = options->prior_scale - pool->prior_weights;
    double common = 0;
    refit->learner = learner;
    refit->nonnegative = options->nonnegative;
    refit->pair = pair;
    refit->pull = options->prior_scale;
    for (size_t i = 0; i < k; i++) {
        refit->ridge[i] = pool->prior_weights;
        refit->center[i] = 1;
        common += pool->weights[i] - 1 / (double)k;
        for (size_t j = 0; j < k; j++)
            refit->curvature[i * k + j] =
                hessian[i * d + j] - pair / (double)k - (i == j ? pool->prior_weights : 0);
    }
    if (d > k)
        CST_TRY(profile_biases(context, pool, hessian, refit));
    for (size_t i = 0; i < k; i++) {
        double offset = pool->weights[i] - 1 / (double)k;
        double pull = pool->prior_weights * offset + pair * common / (double)k;
        refit->slope[i] = pull - pool->slack[i];
        for (size_t j = 0; j < k; j++)
            refit->slope[i] += refit->curvature[i * k + j] * pool->weights[j];
        refit->curvature[i * k + i] = fmax(refit->curvature[i * k + i], 0);
    }
    for (size_t c = 0; c < (size_t)pool->classes; c++) {
        refit->rest[c] = pool->bias[c];
        for (size_t j = 0; j < k; j++)
            refit->rest[c] += refit->tilt[c * k + j] * pool->weights[j];
    }
    return CST_OK;
}

void cst_refits_move(cst_refits *refits, const int32_t *place) {
    int32_t kept = 0;
    for (int32_t i = 0; refits && i < refits->count; i++) {
        cst_refit *refit = &refits->refit[i];
        refit->learner = place[refit->learner];
        if (refit->learner >= 0)
            refits->refit[kept++] = *refit;
    }
    if (refits)
        refits->count = kept;
}

double cst_refit_loss(const cst_refit *refit, const double *weights, size_t k) {
    double sum = refit->loss;
    for (size_t i = 0; i < k; i++) {
        double row = -2 * refit->slope[i];
        for (size_t j = 0; j < k; j++)
            row += refit->curvature[i * k + j] * weights[j];
        sum += weights[i] * row;
    }
    return fmax(sum, 0);
}

static bool are_sound(const double *values, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (!(fabs(values[i]) <= CST_MODEL_REFIT_MAX))
            return false;
    return true;
}

void cst_refits_check(cst_model *model) {
    size_t k = (size_t)model->members;
    bool sound = model->refits && model->refits->count > 0;
    for (int32_t i = 0; sound && i < model->refits->count; i++) {
        const cst_refit *r = &model->refits->refit[i];
        const double few[] = {r->share, r->pair, r->pull, r->loss, r->least};
        sound = are_sound(few, sizeof few / sizeof few[0]) && are_sound(r->curvature, k * k) &&
                are_sound(r->slope, k) && are_sound(r->ridge, k) && are_sound(r->l1, k) &&
                are_sound(r->center, k) && are_sound(r->rest, (size_t)r->biases) &&
                are_sound(r->tilt, (size_t)r->biases * k);
    }
    if (!sound)
        model->refits = NULL;
}
