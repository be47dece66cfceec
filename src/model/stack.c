/* The fitted stack in memory: made empty, looked at, freed. */
#include "model/stack.h"

#include "core/context.h"
#include "model/absent.h"
#include "model/kernels.h"
#include "model/values.h"

#include <math.h>
#include <string.h>

const char *cst_learner_name(cst_learner_kind kind) {
    static const char *const names[] = {"ridge",      "elastic-net", "lasso",
                                        "log-linear", "linear",      "network"};
    return names[kind];
}

cst_status cst_learner_take(cst_context *context, cst_learner *learner) {
    CST_TAKE(context, &learner->scope, learner->weights, learner->coefficients);
    CST_TAKE(context, &learner->scope, learner->bias, learner->biases);
    return CST_OK;
}

cst_status cst_learner_own_take(cst_context *context, cst_learner *learner, const char *name) {
    CST_TAKE(context, &learner->scope, learner->own, 1);
    CST_OWN(context, &learner->scope, cst_calibrator, &learner->own->calibrator);
    learner->own->name = cst_take_text(context, &learner->scope, name);
    return learner->own->name ? CST_OK : CST_ERROR_MEMORY;
}

void cst_learner_free(cst_learner *learner) {
    cst_scope_free(&learner->scope);
    *learner = (cst_learner){0};
}

/* The rows as the learner reads them. */
static const float *scale_rows(const cst_learner *learner, int32_t k, const float *rows,
                               int64_t count, int64_t cells, double *work, float *scaled) {
    for (int64_t e = 0; e < cells; e++)
        work[e] = (double)rows[e];
    cst_calibrator_rows(&learner->own->scaling[k], count, work);
    for (int64_t e = 0; e < cells; e++)
        scaled[e] = (float)work[e];
    return scaled;
}

void cst_learner_add(const cst_model *model, const cst_learner *learner, int32_t k,
                     const float *rows, int64_t count, double *work, float *scaled, double *z) {
    const cst_learner_own *own = learner->own;
    int64_t cells = count * model->classes;
    if (own && own->linear > 0) {
        cst_add_scaled_f32(rows, cells, learner->weights[k] * own->linear, z);
        return;
    }
    if (own && own->scaling)
        rows = scale_rows(learner, k, rows, count, cells, work, scaled);
    cst_add_mixed_logs(rows, cells, cst_learner_mix(model, learner)[k], model->classes,
                       learner->weights[k], z);
}

bool cst_model_scales(const cst_model *model) {
    for (int32_t l = 0; l < model->learners; l++)
        if (model->learner[l].own && model->learner[l].own->scaling)
            return true;
    return false;
}

void cst_learner_calibrate(const cst_learner *learner, int64_t count, double *probabilities) {
    if (learner->own && learner->own->calibrator.kind != CST_CALIBRATOR_NONE)
        cst_calibrator_rows(&learner->own->calibrator, count, probabilities);
}

cst_status cst_stack_create(cst_context *context, cst_model **out) {
    *out = cst_alloc(context, 1, sizeof **out);
    if (!*out)
        return CST_ERROR_MEMORY;
    (*out)->home = cst_context_root(context);
    return CST_OK;
}

cst_model *cst_model_retain(cst_model *model) {
    if (model)
        (void)__atomic_add_fetch(&model->references, 1, __ATOMIC_RELAXED);
    return model;
}

void cst_model_free(cst_context *context, cst_model *model) {
    if (!model || !context || __atomic_fetch_sub(&model->references, 1, __ATOMIC_ACQ_REL) > 0)
        return;
    context = model->home;
    for (int32_t l = 0; model->learner && l < model->learners; l++)
        cst_learner_free(&model->learner[l]);
    cst_domain_map_free(context, model->domains);
    cst_scope_free(&model->scope);
    cst_free(context, model);
}

cst_task cst_model_task(const cst_model *model) {
    return model ? model->task : CST_TASK_CLASSIFICATION;
}

int64_t cst_model_members(const cst_model *model) {
    return model ? cst_model_inputs(model) : 0;
}

int64_t cst_model_classes(const cst_model *model) {
    return model ? model->classes : 0;
}

const char *cst_model_member_name(const cst_model *model, int32_t member) {
    return model && member >= 0 && member < cst_model_inputs(model)
               ? cst_model_input_name(model, member)
               : NULL;
}

/* Of a model that is a linear function of its members alone: in a regression the mean over the
 * outputs. */
static double linear_weight(const cst_model *model, int32_t member) {
    const cst_learner *learner = model->learner;
    int32_t functions = cst_task_has_outputs(model->task) ? model->classes : 1;
    double mean = 0;
    if (model->learners != 1 ||
        (int64_t)learner->coefficients != (int64_t)model->members * functions)
        return NAN;
    for (int32_t d = 0; d < functions; d++)
        mean += learner->weights[d * model->members + member] / functions;
    return mean;
}

const cst_learner *cst_model_pool(const cst_model *model) {
    for (int32_t m = 0; m < model->learners; m++) {
        const cst_learner *learner = &model->learner[m];
        if (learner->kind == CST_LEARNER_LOGLINEAR && !(learner->own && learner->own->linear > 0))
            return learner;
    }
    return NULL;
}

double cst_model_member_weight(const cst_model *model, int32_t member) {
    if (!cst_model_member_name(model, member))
        return NAN;
    const cst_learner *pool = cst_model_pool(model);
    const cst_adapted *adapted = model->adapted;
    double weight = 0;
    if (member < model->members)
        weight = pool && member < pool->coefficients ? pool->weights[member]
                                                     : linear_weight(model, member);
    return adapted ? adapted->scale * weight + adapted->weights[member] : weight;
}

const char *cst_model_class_name(const cst_model *model, int32_t c) {
    return model && model->class_names && c >= 0 && c < model->classes ? model->class_names[c]
                                                                       : NULL;
}

const char *cst_model_setting(const cst_model *model, size_t index) {
    return model && index < model->settings ? model->setting[index] : NULL;
}

const char *cst_model_value(const cst_model *model, const char *key) {
    size_t length = strlen(key);
    for (size_t i = 0; i < model->settings; i++)
        if (strncmp(model->setting[i], key, length) == 0 && model->setting[i][length] == '=')
            return model->setting[i] + length + 1;
    return NULL;
}

/* ---- an adapted stack ---- */

cst_status cst_adapted_take(cst_context *context, cst_scope *scope, int32_t members, int32_t extra,
                            int32_t classes, cst_adapted **out) {
    *out = NULL;
    CST_NEW(context, scope, cst_adapted, made, 1);
    made->members = members;
    made->extra = extra;
    made->classes = classes;
    CST_TAKE(context, scope, made->names, extra);
    CST_TAKE(context, scope, made->mix, members);
    CST_TAKE(context, scope, made->weights, members);
    CST_TAKE(context, scope, made->bias, classes);
    *out = made;
    return CST_OK;
}

void cst_adapted_rows(const cst_adapted *adapted, const float *const *members, int64_t count,
                      double *scores, float *probabilities) {
    size_t classes = (size_t)adapted->classes;
    int64_t cells = count * adapted->classes;
    for (int64_t i = 0; i < count; i++)
        memcpy(scores + (size_t)i * classes, adapted->bias, classes * sizeof *scores);
    cst_add_mixed_logs(probabilities, cells, CST_ADAPTED_STACK_MIX, adapted->classes,
                       adapted->scale, scores);
    for (int32_t k = 0; k < adapted->members; k++)
        if (adapted->weights[k] != 0)
            cst_add_mixed_logs(members[k], cells, adapted->mix[k], adapted->classes,
                               adapted->weights[k], scores);
    for (int64_t i = 0; i < count; i++)
        cst_softmax(adapted->classes, scores + (size_t)i * classes);
    for (int64_t e = 0; e < cells; e++)
        probabilities[e] = (float)scores[e];
}

void cst_adapted_restrict(const cst_adapted *from, const uint8_t *present, cst_adapted *to) {
    int32_t kept = from->members - from->extra;
    int32_t count = 0;
    to->extra = 0;
    to->classes = from->classes;
    to->scale = from->scale;
    to->rows = from->rows;
    for (int32_t k = 0; k < from->members; k++) {
        if (!present[k]) {
            to->scale += from->weights[k];
            continue;
        }
        if (k >= kept)
            to->names[to->extra++] = from->names[k - kept];
        to->mix[count] = from->mix[k];
        to->weights[count++] = from->weights[k];
    }
    to->members = count;
    memcpy(to->bias, from->bias, (size_t)from->classes * sizeof *to->bias);
}

/* ---- what weights are solved again from ---- */

cst_status cst_refits_take(cst_context *context, cst_scope *scope, int32_t most, cst_refits **out) {
    CST_TAKE(context, scope, *out, 1);
    (*out)->scope = scope;
    CST_TAKE(context, scope, (*out)->refit, most);
    return CST_OK;
}

cst_status cst_refits_add(cst_context *context, cst_refits *refits, int32_t members, int32_t biases,
                          cst_refit **out) {
    size_t k = (size_t)members;
    size_t b = (size_t)biases;
    cst_refit *made = *out = &refits->refit[refits->count++];
    *made = (cst_refit){.biases = biases, .share = 1};
    CST_TAKE(context, refits->scope, made->curvature, k * k + 4 * k + b + b * k); /* and the rest */
    made->slope = made->curvature + k * k;
    made->ridge = made->slope + k;
    made->l1 = made->ridge + k;
    made->center = made->l1 + k;
    made->rest = made->center + k;
    made->tilt = made->rest + b;
    return CST_OK;
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

cst_status cst_model_decide(cst_context *context, const cst_model *model,
                            const float *probabilities, int64_t rows, int32_t *out) {
    CST_ENTER(context);
    if (!model || !probabilities || rows < 0 || !out)
        return cst_fail(context, CST_ERROR_ARGUMENT,
                        "cst_model_decide: model, probabilities and result are required");
    if (model->task != CST_TASK_CLASSIFICATION)
        return cst_fail(context, CST_ERROR_UNSUPPORTED,
                        "cst_model_decide is for classification, and the model is of %s",
                        cst_task_text(model->task));
    CST_FITS(context, rows, model->classes, sizeof *probabilities);
    cst_decision_apply(model->decision, probabilities, rows, model->classes, out);
    return CST_OK;
}
