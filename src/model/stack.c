/*
 * The fitted stack in memory: made empty, looked at, freed.
 * After stage S4, between fitting and prediction.
 * Paper: the ensemble of "Laplace-Approximate Bayesian Blender", as plain data.
 */
#include "model/absent.h"
#include "model/values.h"

#include <math.h>
#include <string.h>

const char *cst_learner_name(cst_learner_kind kind) {
    static const char *const names[] = {"ridge",      "elastic-net", "lasso",
                                        "log-linear", "linear",      "network"};
    return names[kind];
}

cst_status cst_stack_create(cst_context *context, cst_model **out) {
    *out = cst_alloc(context, 1, sizeof **out);
    if (!*out)
        return CST_ERROR_MEMORY;
    (*out)->mark = CST_MARK_MODEL;
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
    if (!CST_ALIVE(model, MODEL))
        return;
    cst_mark_freed(&model->mark);
    free_strings(context, model->class_names, (size_t)model->classes);
    free_strings(context, model->member_names, (size_t)model->members);
    cst_free(context, model->blend);
    free_strings(context, model->setting, model->settings);
    cst_free(context, model->mix);
    cst_gate_free(context, &model->gate);
    cst_values_free(context, model->values);
    for (int32_t l = 0; model->learner && l < model->learners; l++) {
        cst_free(context, model->learner[l].weights);
        cst_free(context, model->learner[l].bias);
    }
    cst_free(context, model->learner);
    cst_calibrator_free(context, &model->calibrator);
    cst_network_free(context, model->network);
    free_fusion(context, model->fusion);
    cst_refits_free(context, model->refits);
    cst_free(context, model);
}

cst_task cst_model_task(const cst_model *model) {
    return CST_ALIVE(model, MODEL) ? model->task : CST_TASK_CLASSIFICATION;
}

int32_t cst_model_members(const cst_model *model) {
    return CST_ALIVE(model, MODEL) ? model->members : 0;
}

int32_t cst_model_classes(const cst_model *model) {
    return CST_ALIVE(model, MODEL) ? model->classes : 0;
}

const char *cst_model_member_name(const cst_model *model, int32_t member) {
    return CST_ALIVE(model, MODEL) && member >= 0 && member < model->members
               ? model->member_names[member]
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

double cst_model_member_weight(const cst_model *model, int32_t member) {
    if (!cst_model_member_name(model, member))
        return NAN;
    for (int32_t m = 0; m < model->learners; m++)
        if (model->learner[m].kind == CST_LEARNER_LOGLINEAR &&
            member < model->learner[m].coefficients)
            return model->learner[m].weights[member];
    return linear_weight(model, member);
}

const char *cst_model_class_name(const cst_model *model, int32_t c) {
    return CST_ALIVE(model, MODEL) && model->class_names && c >= 0 && c < model->classes
               ? model->class_names[c]
               : NULL;
}

const char *cst_model_setting(const cst_model *model, size_t index) {
    return CST_ALIVE(model, MODEL) && index < model->settings ? model->setting[index] : NULL;
}

const char *cst_model_value(const cst_model *model, const char *key) {
    size_t length = strlen(key);
    for (size_t i = 0; i < model->settings; i++)
        if (strncmp(model->setting[i], key, length) == 0 && model->setting[i][length] == '=')
            return model->setting[i] + length + 1;
    return NULL;
}
