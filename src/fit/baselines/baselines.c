/* The table of baselines, and linear mixtures of members. docs/baselines.md#definitions. */
#include "fit/baselines/baselines.h"

#include "fit/baselines/ensembles.h"
#include "method/blend/blend.h"
#include "method/linear/linear.h"
#include "method/linear/penalty.h"
#include "method/loglinear/loglinear.h"
#include "stats/samples.h"

#include <string.h>

static cst_status fit_best_single(cst_context *context, const cst_baseline_data *data,
                                  cst_baseline_fit *out) {
    CST_SCOPE(scope);
    CST_NEW(context, scope, double, nll, out->members);
    CST_TRY(cst_risk_all(context, data->view, nll));
    int32_t best = 0;
    for (int32_t k = 1; k < out->members; k++)
        if (nll[k] < nll[best])
            best = k;
    out->weights[best] = 1;
    return CST_OK;
}

/* By a blend rule: uniform or minimum variance. */
static cst_status fit_blend(cst_context *context, const cst_baseline_data *data,
                            cst_baseline_fit *out) {
    cst_blend_options options = cst_blend_defaults();
    options.rule = (cst_blend_rule)out->baseline->variant;
    return cst_blend_weights(context, data->view, NULL, NULL, &options, out->weights);
}

/* The paper names performance-weighted averaging and leaves the formula open. */
static cst_status fit_by_accuracy(cst_context *context, const cst_baseline_data *data,
                                  cst_baseline_fit *out) {
    CST_TRY(cst_risk_top1_all(context, data->view, out->weights));
    double total = 0;
    for (int32_t k = 0; k < out->members; k++)
        total += out->weights[k];
    for (int32_t k = 0; k < out->members; k++)
        out->weights[k] = total > 0 ? out->weights[k] / total : 1.0 / (double)out->members;
    return CST_OK;
}

/* As AutoGluon runs it: 25 rounds and seed 0. */
static cst_status fit_greedy(cst_context *context, const cst_baseline_data *data,
                             cst_baseline_fit *out) {
    cst_greedy found;
    cst_greedy_metric metric = (cst_greedy_metric)out->baseline->variant;
    CST_TRY(cst_greedy_select(context, data->view, metric, CST_GREEDY_ROUNDS, 0, &found));
    memcpy(out->weights, found.weights, (size_t)out->members * sizeof *out->weights);
    (void)cst_snprintf(out->detail, sizeof out->detail, "%d rounds", (int)found.rounds);
    cst_scope_free(&found.scope);
    return CST_OK;
}

CST_OWNED(cst_linear)
CST_OWNED(cst_loglinear)
CST_OWNED(cst_moments)
CST_OWNED(cst_standardised)

static const double L1_RATIO = 0.5; /* of the elastic net */

/* Ridge, lasso or elastic net of the class indicators on the members' probabilities. */
static cst_status fit_linear(cst_context *context, const cst_baseline_data *data,
                             cst_baseline_fit *out) {
    cst_linear_kind kind = (cst_linear_kind)out->baseline->variant;
    cst_gate gate = {.mode = CST_GATE_NONE, .inputs = data->view->members};
    cst_penalty_grid grid = cst_penalty_grid_default();
    double lambda = 0;
    cst_moments moments = {0};
    cst_standardised standardised = {0};
    cst_linear linear = {0};
    CST_SCOPE(scope);
    CST_OWN(context, scope, cst_moments, &moments);
    CST_OWN(context, scope, cst_standardised, &standardised);
    CST_OWN(context, scope, cst_linear, &linear);
    CST_TRY(
        cst_moments_compute(context, data->view, &gate, data->folds, data->fold_count, &moments));
    CST_TRY(kind == CST_LINEAR_RIDGE ? cst_penalty_cv(context, &moments, &grid, &lambda, NULL)
                                     : cst_linear_path_cv(context, &moments, kind, L1_RATIO, 1e-6,
                                                          61, &lambda, NULL, NULL));
    CST_TRY(cst_standardise(context, &moments, -1, &standardised));
    CST_TRY(cst_linear_fit(context, &standardised, kind, lambda, L1_RATIO, &linear));
    memcpy(out->weights, linear.coefficients, (size_t)out->members * sizeof *out->weights);
    out->intercept = linear.intercept;
    (void)cst_snprintf(out->detail, sizeof out->detail, "lambda %.4g, intercept %.4g", lambda,
                       out->intercept);
    return CST_OK;
}

/* The log-linear pool of all members, without selection and calibration. */
static cst_status fit_log_linear(cst_context *context, const cst_baseline_data *data,
                                 cst_baseline_fit *out) {
    cst_loglinear_options options = cst_loglinear_defaults();
    cst_loglinear_cv cv = {.prior = true};
    cst_loglinear pool = {0};
    CST_SCOPE(scope);
    CST_OWN(context, scope, cst_loglinear, &pool);
    CST_TAKE(context, &out->scope, out->shares, out->members);
    CST_TAKE(context, &out->scope, out->bias, out->classes);
    CST_TRY(cst_loglinear_pool(context, data->view, data->folds, data->fold_count, &cv, &options,
                               out->shares, &pool, NULL));
    out->mix = CST_MIX_LOGLINEAR;
    memcpy(out->weights, pool.weights, (size_t)out->members * sizeof *out->weights);
    memcpy(out->bias, pool.bias, (size_t)out->classes * sizeof *out->bias);
    (void)cst_snprintf(out->detail, sizeof out->detail, "prior precision %.3g of weights%s",
                       pool.prior_weights, options.evidence ? ", by the evidence" : "");
    return CST_OK;
}

/* The same with a weight of each member for every class. */
static cst_status fit_class_wise(cst_context *context, const cst_baseline_data *data,
                                 cst_baseline_fit *out) {
    size_t weights = (size_t)out->members * (size_t)out->classes;
    CST_SCOPE(scope);
    CST_NEW(context, scope, double, theta, weights + (size_t)out->classes);
    CST_TAKE(context, &out->scope, out->shares, out->members);
    CST_TAKE(context, &out->scope, out->bias, out->classes);
    CST_TAKE(context, &out->scope, out->scaling, out->members);
    for (int32_t k = 0; k < out->members; k++) {
        CST_OWN(context, &out->scope, cst_calibrator, &out->scaling[k]);
        out->shares[k] = CST_LEAST_SHARE;
    }
    cst_classwise_start(data->view, theta);
    CST_TRY(cst_classwise_fit(context, data->view, theta));
    CST_TRY(cst_classwise_maps(context, data->view, theta, out->weights, out->scaling));
    memcpy(out->bias, theta + weights, (size_t)out->classes * sizeof *out->bias);
    out->mix = CST_MIX_LOGLINEAR;
    return CST_OK;
}

#define MIXTURE .map = CST_PROBABILITY_MIXTURE, .learner = CST_LEARNER_LINEAR

const cst_baseline cst_baselines[CST_BASELINES] = {
    [CST_BASELINE_BEST_SINGLE] =
        {.name = "best-single",
         .definition = "the member with the lowest NLL on the out-of-fold rows; ties go to the "
                       "first",
         .fit = fit_best_single,
         MIXTURE},
    [CST_BASELINE_AVERAGE] = {.name = "average",
                              .definition = "the mean of all members' probabilities",
                              .fit = fit_blend,
                              .variant = CST_BLEND_UNIFORM,
                              MIXTURE},
    [CST_BASELINE_PERFORMANCE_WEIGHTED] =
        {.name = "performance-weighted",
         .definition = "the mean of all members' probabilities weighted by their top-1 accuracies "
                       "on the out-of-fold rows; equal weights if all are 0",
         .fit = fit_by_accuracy,
         MIXTURE},
    [CST_BASELINE_RIDGE] =
        {.name = "ridge",
         .definition = "ridge regression of the class indicators on the members' probabilities "
                       "with one coefficient per member, the penalty chosen by cross-validation "
                       "over the folds; scores are clipped to [1e-6, 1] and normalised",
         .fit = fit_linear,
         .variant = CST_LINEAR_RIDGE,
         .map = CST_PROBABILITY_CLIP,
         .learner = CST_LEARNER_RIDGE},
    [CST_BASELINE_LASSO] =
        {.name = "lasso",
         .definition = "lasso regression of the class indicators on the members' probabilities "
                       "with one coefficient per member, the penalty chosen by cross-validation "
                       "over the folds; scores are clipped to [1e-6, 1] and normalised",
         .fit = fit_linear,
         .variant = CST_LINEAR_LASSO,
         .map = CST_PROBABILITY_CLIP,
         .learner = CST_LEARNER_LASSO},
    [CST_BASELINE_ELASTIC_NET] =
        {.name = "elastic-net",
         .definition = "elastic-net regression (l1 ratio 0.5) of the class indicators on the "
                       "members' probabilities with one coefficient per member, the penalty chosen "
                       "by cross-validation over the folds; scores are clipped to [1e-6, 1] and "
                       "normalised",
         .fit = fit_linear,
         .variant = CST_LINEAR_ELASTIC_NET,
         .map = CST_PROBABILITY_CLIP,
         .learner = CST_LEARNER_ELASTIC_NET},
    [CST_BASELINE_GREEDY] =
        {.name = "greedy",
         .definition = "greedy selection with replacement that minimises the log loss: 25 rounds, "
                       "truncated at the first minimum, as in AutoGluon",
         .fit = fit_greedy,
         .variant = CST_GREEDY_LOG_LOSS,
         MIXTURE},
    [CST_BASELINE_GREEDY_TOP1] =
        {.name = "greedy-top1",
         .definition = "greedy selection with replacement that minimises the top-1 error: 25 "
                       "rounds, truncated at the first minimum, as in AutoGluon",
         .fit = fit_greedy,
         .variant = CST_GREEDY_TOP1,
         MIXTURE},
    [CST_BASELINE_GREEDY_BRIER] =
        {.name = "greedy-brier",
         .definition = "greedy selection with replacement that minimises the Brier score: 25 "
                       "rounds, truncated at the first minimum, as in AutoGluon",
         .fit = fit_greedy,
         .variant = CST_GREEDY_BRIER,
         MIXTURE},
    [CST_BASELINE_MINIMUM_VARIANCE] =
        {.name = "minimum-variance",
         .definition = "the convex mixture (non-negative weights with sum 1) that minimises the "
                       "mean of (y - p)^2 over the out-of-fold (row, class) pairs",
         .fit = fit_blend,
         .variant = CST_BLEND_MINIMUM_VARIANCE,
         MIXTURE},
    [CST_BASELINE_LOG_LINEAR] =
        {.name = "log-linear",
         .definition =
             "log-linear pool of all members, softmax(sum_k w_k log p_k + b), with each p_k first "
             "mixed with the uniform distribution; Gaussian priors chosen by cross-validation",
         .fit = fit_log_linear,
         .learner = CST_LEARNER_LOGLINEAR},
    [CST_BASELINE_CLASS_WISE] =
        {.name = "class-wise",
         .definition = "log-linear pool with biases and a weight of each member for every class, "
                       "drawn to the member's mean",
         .fit = fit_class_wise,
         .learner = CST_LEARNER_LOGLINEAR},
    [CST_BASELINE_MLP] =
        {.name = "mlp",
         .definition =
             "neural network on the members' standardised log-probabilities: two hidden layers of "
             "64 ReLU units, dropout 0.5, AdamW, early stopping on a held-out tenth",
         .rows_alike = true,
         .fit = cst_fit_mlp,
         .learner = CST_LEARNER_NETWORK},
    [CST_BASELINE_HILL_CLIMBING] =
        {.name = "hill-climbing",
         .definition = "hill climbing from the best single member: p <- (1 - w) p + w p_k with the "
                       "member k and the w in -0.50, -0.49, ..., 0.50 that minimise the log loss, "
                       "while each step lowers it by more than 1e-5; p is clipped to [1e-15, 1 - "
                       "1e-15] and normalised",
         .rows_alike = true,
         .fit = cst_fit_hill_climbing,
         .map = CST_PROBABILITY_FINE,
         .learner = CST_LEARNER_LINEAR},
    [CST_BASELINE_DEEP_ENSEMBLE] = {.name = "deep-ensemble",
                                    .definition = "the mean of the members tagged as one deep "
                                                  "ensemble (at least two); with several, the "
                                                  "one with the lowest NLL on the out-of-fold rows",
                                    .fit = cst_fit_ensemble,
                                    .ensemble = CST_ENSEMBLE_DEEP,
                                    MIXTURE},
    [CST_BASELINE_SNAPSHOT] =
        {.name = "snapshot",
         .definition =
             "the mean of the members tagged as snapshots of one run (at least two); with several "
             "runs, the one with the lowest NLL on the out-of-fold rows",
         .fit = cst_fit_ensemble,
         .ensemble = CST_ENSEMBLE_SNAPSHOT,
         MIXTURE},
    [CST_BASELINE_MC_DROPOUT] =
        {.name = "mc-dropout",
         .definition =
             "the mean over the dropout passes of one network, members weighted by their passes; "
             "with several networks, the one with the lowest NLL on the out-of-fold rows",
         .fit = cst_fit_ensemble,
         .ensemble = CST_ENSEMBLE_MC_DROPOUT,
         MIXTURE},
    [CST_BASELINE_SOUP] = {.name = "soup",
                           .definition = "the member tagged as a soup (averaged weights); with "
                                         "several, the one with the lowest "
                                         "NLL on the out-of-fold rows",
                           .fit = cst_fit_ensemble,
                           .ensemble = CST_ENSEMBLE_SOUP,
                           MIXTURE},
    [CST_BASELINE_SWAG] =
        {.name = "swag",
         .definition = "the mean over the SWAG samples of one network, members weighted by their "
                       "passes; with "
                       "several networks, the one with the lowest NLL on the out-of-fold rows",
         .fit = cst_fit_ensemble,
         .ensemble = CST_ENSEMBLE_SWAG,
         MIXTURE},
};

size_t cst_baseline_count(void) {
    return CST_BASELINES;
}

const cst_baseline *cst_baseline_at(size_t index) {
    return index < CST_BASELINES ? &cst_baselines[index] : NULL;
}

const cst_baseline *cst_baseline_find(const char *name) {
    for (size_t i = 0; i < CST_BASELINES; i++)
        if (strcmp(cst_baselines[i].name, name) == 0)
            return &cst_baselines[i];
    return NULL;
}

cst_status cst_baseline_fit_run(cst_context *context, const cst_baseline *baseline,
                                const cst_baseline_data *data, cst_baseline_fit *out) {
    const cst_view *view = data->view;
    *out = (cst_baseline_fit){
        .baseline = baseline, .members = view->members, .classes = view->classes};
    if (view->members < 1 || view->rows < 1 || !view->labels)
        return cst_fail(context, CST_ERROR_ARGUMENT,
                        "%s needs labelled rows and at least one member", baseline->name);
    if (baseline->ensemble && !cst_ensemble_applies(cst_ensemble_rule_of(baseline->ensemble),
                                                    data->ensembles, view->members))
        return cst_fail(context, CST_ERROR_INPUT,
                        "%s does not apply to this pool: no member is tagged for it",
                        baseline->name);
    if (baseline->rows_alike && view->weights)
        return cst_fail(context, CST_ERROR_INPUT,
                        "%s does not support row weights; leave out the method or the weights",
                        baseline->name);
    CST_TAKE(context, &out->scope, out->weights, view->members);
    CST_TAKE(context, &out->scope, out->uses, view->members);
    CST_TRY(baseline->fit(context, data, out));
    for (int32_t k = 0; k < view->members; k++)
        out->uses[k] = out->uses[k] || out->weights[k] != 0;
    return CST_OK;
}

cst_status cst_members_used(cst_context *context, const bool *uses, int32_t members, int32_t **kept,
                            int32_t *count) {
    *count = 0;
    *kept = cst_alloc(context, (size_t)members, sizeof **kept);
    if (!*kept)
        return CST_ERROR_MEMORY;
    for (int32_t k = 0; k < members; k++)
        if (uses[k])
            (*kept)[(*count)++] = k;
    *count = *count ? *count : 1; /* a model has a member, whatever its weight */
    return CST_OK;
}

CST_RELEASED(cst_model, cst_model_free)

cst_status cst_baseline_predict(cst_context *context, const cst_baseline_fit *fit,
                                const cst_view *view, float *out) {
    cst_model *model = NULL;
    int32_t *kept = NULL;
    int32_t count = 0;
    CST_SCOPE(scope);
    CST_TRY(cst_members_used(context, fit->uses, fit->members, &kept, &count));
    CST_TRY(cst_scope_own(context, scope, cst_free, kept));
    cst_status status = cst_baseline_fit_model(context, fit, kept, count, &model);
    CST_OWN(context, scope, cst_model, model);
    CST_TRY(status);
    CST_NEW(context, scope, const float *, pointers, count);
    cst_view part = cst_view_members(view, kept, count, pointers);
    cst_mute(context, true); /* of every mixture, that its weights were only scaled */
    status = cst_stack_predict(context, model, &part, out);
    cst_mute(context, false);
    return status;
}

void cst_baseline_fit_free(cst_context *context, cst_baseline_fit *fit) {
    (void)context;
    cst_scope_free(&fit->scope);
    *fit = (cst_baseline_fit){0};
}

/* ---- predictions of mixtures ---- */

typedef struct mixture_job {
    const cst_baseline_fit *fit;
    const cst_view *view;
    float *out; /* [rows][classes] */
} mixture_job;

static cst_status predict_block(cst_context *context, void *user, int64_t block) {
    const mixture_job *job = user;
    const cst_view *view = job->view;
    int64_t first = cst_block_first(block);
    int64_t count = cst_block_size(view->rows, block);
    int64_t cells = count * view->classes;
    float *to = job->out + first * view->classes;
    CST_SCOPE(scope);
    CST_NEW(context, scope, double, mixture, cells);
    CST_TRY(cst_mixture_rows(context, view, job->fit->weights, block, mixture));
    for (int64_t j = 0; j < cells; j++)
        mixture[j] += job->fit->intercept;
    cst_probability_rows(job->fit->baseline->map, count, view->classes, mixture);
    for (int64_t j = 0; j < cells; j++)
        to[j] = (float)mixture[j];
    return CST_OK;
}

cst_status cst_mixture_predict(cst_context *context, const cst_baseline_fit *fit,
                               const cst_view *view, float *out) {
    mixture_job job = {fit, view, out};
    return cst_parallel_fill(context, cst_block_count(view->rows), predict_block, &job, NULL, 0);
}

/* ---- models ---- */

static cst_status copy_scaling(cst_context *context, const cst_baseline_fit *fit,
                               const int32_t *kept, cst_learner *learner) {
    CST_TRY(cst_learner_own_take(context, learner, fit->baseline->name));
    cst_learner_own *own = learner->own;
    own->map = fit->baseline->map;
    own->scaled = learner->coefficients;
    CST_NEW(context, &learner->scope, cst_calibrator, scaling, own->scaled);
    CST_NEW(context, &learner->scope, double, numbers, 1 + 2 * (size_t)fit->classes);
    own->scaling = scaling;
    for (int32_t j = 0; j < own->scaled; j++) {
        CST_OWN(context, &learner->scope, cst_calibrator, &scaling[j]);
        cst_calibrator_pack(&fit->scaling[kept[j]], numbers);
        CST_TRY(cst_calibrator_unpack(context, CST_CALIBRATOR_VECTOR, fit->classes, numbers,
                                      &scaling[j]));
    }
    return CST_OK;
}

static cst_status fill_learner(cst_context *context, const cst_baseline_fit *fit,
                               const int32_t *kept, cst_learner *learner) {
    const double *bias = fit->bias ? fit->bias : &fit->intercept;
    learner->kind = fit->baseline->learner;
    learner->blend = 1;
    CST_TRY(cst_learner_take(context, learner));
    for (int32_t j = 0; j < learner->coefficients; j++)
        learner->weights[j] = fit->weights[kept[j]];
    memcpy(learner->bias, bias, (size_t)learner->biases * sizeof *bias);
    return fit->scaling ? copy_scaling(context, fit, kept, learner) : CST_OK;
}

static cst_status copy_network(cst_context *context, const cst_network *net, cst_model *model) {
    size_t bytes = (size_t)net->members * (size_t)net->classes * sizeof *net->mean;
    size_t size = cst_network_size(net->members, net->classes, net->hidden);
    CST_TRY(cst_network_take(context, &model->scope, net->members, net->classes, net->hidden,
                             &model->network));
    memcpy(model->network->mean, net->mean, bytes);
    memcpy(model->network->scale, net->scale, bytes);
    memcpy(model->network->theta, net->theta, size * sizeof *net->theta);
    return CST_OK;
}

cst_status cst_baseline_fit_model(cst_context *context, const cst_baseline_fit *fit,
                                  const int32_t *kept, int32_t count, cst_model **out) {
    CST_TRY(cst_stack_create(context, out));
    cst_model *model = *out;
    model->classes = fit->classes;
    model->members = count;
    model->gate.inputs = count;
    model->map = fit->baseline->map;
    CST_TAKE(context, &model->scope, model->mix, count);
    CST_TAKE(context, &model->scope, model->learner, 1);
    model->learners = 1;
    for (int32_t j = 0; fit->shares && j < count; j++)
        model->mix[j] = fit->shares[kept[j]];
    if (fit->network)
        CST_TRY(copy_network(context, fit->network, model));
    model->learner->coefficients = fit->network ? 0 : count;
    model->learner->biases = fit->network ? 0 : fit->bias ? fit->classes : 1;
    return fill_learner(context, fit, kept, model->learner);
}
