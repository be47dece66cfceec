/* A fitted baseline as a model of one meta-learner. docs/model-format.md. */
#include "fit/baselines/baselines.h"

cst_status cst_baseline_learner(cst_context *context, const cst_baseline_fit *fit,
                                cst_learner_kind kind, const int32_t *kept, const double *bias,
                                int32_t biases, cst_model *out) {
    cst_learner *learner = cst_alloc(context, 1, sizeof *learner);
    if (!learner)
        return CST_ERROR_MEMORY;
    out->learner = learner;
    out->learners = 1;
    bool weighed = kind != CST_LEARNER_NETWORK;
    *learner = (cst_learner){
        .kind = kind, .blend = 1, .coefficients = weighed ? out->members : 0, .biases = biases};
    learner->weights = cst_alloc(context, (size_t)learner->coefficients, sizeof *learner->weights);
    learner->bias = cst_alloc(context, (size_t)biases, sizeof *learner->bias);
    if (!learner->weights || !learner->bias)
        return CST_ERROR_MEMORY;
    for (int32_t j = 0; j < learner->coefficients; j++)
        learner->weights[j] = fit->weights[kept[j]];
    for (int32_t j = 0; bias && j < biases; j++)
        learner->bias[j] = bias[j];
    return CST_OK;
}

/* The linear mixture that a baseline without its own prediction is. */
static cst_status mixture(cst_context *context, const cst_baseline_fit *fit, const int32_t *kept,
                          cst_model *out) {
    out->map = CST_PROBABILITY_MIXTURE;
    return cst_baseline_learner(context, fit, CST_LEARNER_LINEAR, kept, NULL, 1, out);
}

cst_status cst_baseline_fit_model(cst_context *context, const cst_baseline_fit *fit,
                                  const int32_t *kept, int32_t count, cst_model **out) {
    cst_model *model = NULL;
    *out = NULL;
    cst_status status = cst_stack_create(context, &model);
    if (status != CST_OK)
        return status;
    model->classes = fit->classes;
    model->members = count;
    model->gate.inputs = count;
    model->mix = cst_alloc(context, (size_t)count, sizeof *model->mix);
    if (!model->mix)
        status = CST_ERROR_MEMORY;
    CST_THEN((fit->baseline->model ? fit->baseline->model : mixture)(context, fit, kept, model));
    if (status == CST_OK)
        *out = model;
    else
        cst_model_free(context, model);
    return status;
}
