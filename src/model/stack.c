/*
 * The fitted stack in memory: made empty, looked at, freed. After stage S4, between fitting and
 * prediction. Paper: the ensemble of "Laplace-Approximate Bayesian Blender", as plain data.
 */
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

static void learner_own_free(cst_context *context, cst_learner_own *own) {
    if (!own)
        return;
    cst_free(context, own->name);
    cst_free(context, own->mix);
    for (int32_t k = 0; own->scaling && k < own->scaled; k++)
        cst_calibrator_free(context, &own->scaling[k]);
    cst_free(context, own->scaling);
    cst_calibrator_free(context, &own->calibrator);
    cst_free(context, own);
}

void cst_learner_free(cst_context *context, cst_learner *learner) {
    cst_free(context, learner->weights);
    cst_free(context, learner->bias);
    learner_own_free(context, learner->own);
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
    return CST_OK;
}

static void free_strings(cst_context *context, char **strings, size_t count) {
    for (size_t i = 0; strings && i < count; i++)
        cst_free(context, strings[i]);
    cst_free(context, strings);
}

static void free_fusion(cst_context *context, cst_fusion *fusion) {
    if (!fusion)
        return;
    free_strings(context, fusion->category_name, (size_t)fusion->categories);
    cst_free(context, fusion->category_id);
    cst_free(context, fusion->weights);
    cst_free(context, fusion);
}

void cst_model_free(cst_context *context, cst_model *model) {
    if (!model)
        return;
    free_strings(context, model->class_names, (size_t)model->classes);
    free_strings(context, model->member_names, (size_t)model->members);
    cst_free(context, model->blend);
    free_strings(context, model->setting, model->settings);
    cst_free(context, model->mix);
    cst_gate_free(context, &model->gate);
    cst_values_free(context, model->values);
    for (int32_t l = 0; model->learner && l < model->learners; l++)
        cst_learner_free(context, &model->learner[l]);
    cst_free(context, model->learner);
    cst_calibrator_free(context, &model->calibrator);
    cst_domain_map_free(context, model->domains);
    cst_network_free(context, model->network);
    free_fusion(context, model->fusion);
    cst_refits_free(context, model->refits);
    cst_scope_free(&model->scope);
    cst_free(context, model);
}

cst_task cst_model_task(const cst_model *model) {
    return model ? model->task : CST_TASK_CLASSIFICATION;
}

int32_t cst_model_members(const cst_model *model) {
    return model ? cst_model_inputs(model) : 0;
}

int32_t cst_model_classes(const cst_model *model) {
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
    int32_t functions = model->task == CST_TASK_REGRESSION ? model->classes : 1;
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
