/* The table of baselines, and linear mixtures of members. docs/baselines.md#definitions. */
#include "fit/baselines/baselines.h"

#include "fit/baselines/ensembles.h"
#include "method/blend/blend.h"
#include "method/linear/linear.h"
#include "stats/risk.h"

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

const cst_baseline cst_baselines[CST_BASELINES] = {
    [CST_BASELINE_BEST_SINGLE] =
        {.name = "best-single",
         .definition = "the member with the lowest NLL on the out-of-fold rows; ties go to the "
                       "first",
         .fit = fit_best_single,
         .map = CST_PROBABILITY_MIXTURE,
         .learner = CST_LEARNER_LINEAR},
    [CST_BASELINE_AVERAGE] = {.name = "average",
                              .definition = "the mean of all members' probabilities",
                              .fit = fit_blend,
                              .variant = CST_BLEND_UNIFORM,
                              .map = CST_PROBABILITY_MIXTURE,
                              .learner = CST_LEARNER_LINEAR},
    [CST_BASELINE_PERFORMANCE_WEIGHTED] =
        {.name = "performance-weighted",
         .definition = "the mean of all members' probabilities weighted by their top-1 accuracies "
                       "on the out-of-fold rows; equal weights if all are 0",
         .fit = fit_by_accuracy,
         .map = CST_PROBABILITY_MIXTURE,
         .learner = CST_LEARNER_LINEAR},
    [CST_BASELINE_RIDGE] =
        {.name = "ridge",
         .definition = "ridge regression of the class indicators on the members' probabilities "
                       "with one coefficient per member, the penalty chosen by cross-validation "
                       "over the folds; scores are clipped to [1e-6, 1] and normalised",
         .fit = cst_fit_linear,
         .variant = CST_LINEAR_RIDGE,
         .map = CST_PROBABILITY_CLIP,
         .learner = CST_LEARNER_RIDGE},
    [CST_BASELINE_LASSO] =
        {.name = "lasso",
         .definition = "lasso regression of the class indicators on the members' probabilities "
                       "with one coefficient per member, the penalty chosen by cross-validation "
                       "over the folds; scores are clipped to [1e-6, 1] and normalised",
         .fit = cst_fit_linear,
         .variant = CST_LINEAR_LASSO,
         .map = CST_PROBABILITY_CLIP,
         .learner = CST_LEARNER_LASSO},
    [CST_BASELINE_ELASTIC_NET] =
        {.name = "elastic-net",
         .definition = "elastic-net regression (l1 ratio 0.5) of the class indicators on the "
                       "members' probabilities with one coefficient per member, the penalty chosen "
                       "by cross-validation over the folds; scores are clipped to [1e-6, 1] and "
                       "normalised",
         .fit = cst_fit_linear,
         .variant = CST_LINEAR_ELASTIC_NET,
         .map = CST_PROBABILITY_CLIP,
         .learner = CST_LEARNER_ELASTIC_NET},
    [CST_BASELINE_GREEDY] =
        {.name = "greedy",
         .definition = "greedy selection with replacement that minimises the log loss: 25 rounds, "
                       "truncated at the first minimum, as in AutoGluon",
         .fit = fit_greedy,
         .variant = CST_GREEDY_LOG_LOSS,
         .map = CST_PROBABILITY_MIXTURE,
         .learner = CST_LEARNER_LINEAR},
    [CST_BASELINE_GREEDY_TOP1] =
        {.name = "greedy-top1",
         .definition = "greedy selection with replacement that minimises the top-1 error: 25 "
                       "rounds, truncated at the first minimum, as in AutoGluon",
         .fit = fit_greedy,
         .variant = CST_GREEDY_TOP1,
         .map = CST_PROBABILITY_MIXTURE,
         .learner = CST_LEARNER_LINEAR},
    [CST_BASELINE_GREEDY_BRIER] =
        {.name = "greedy-brier",
         .definition = "greedy selection with replacement that minimises the Brier score: 25 "
                       "rounds, truncated at the first minimum, as in AutoGluon",
         .fit = fit_greedy,
         .variant = CST_GREEDY_BRIER,
         .map = CST_PROBABILITY_MIXTURE,
         .learner = CST_LEARNER_LINEAR},
    [CST_BASELINE_MINIMUM_VARIANCE] =
        {.name = "minimum-variance",
         .definition = "the convex mixture (non-negative weights with sum 1) that minimises the "
                       "mean of (y - p)^2 over the out-of-fold (row, class) pairs",
         .fit = fit_blend,
         .variant = CST_BLEND_MINIMUM_VARIANCE,
         .map = CST_PROBABILITY_MIXTURE,
         .learner = CST_LEARNER_LINEAR},
    [CST_BASELINE_LOG_LINEAR] =
        {.name = "log-linear",
         .definition =
             "log-linear pool of all members, softmax(sum_k w_k log p_k + b), with each p_k first "
             "mixed with the uniform distribution; Gaussian priors chosen by cross-validation",
         .fit = cst_fit_log_linear,
         .predict_block = cst_predict_log_linear,
         .release = cst_release_log_linear,
         .model = cst_model_log_linear},
    [CST_BASELINE_MLP] =
        {.name = "mlp",
         .definition =
             "neural network on the members' standardised log-probabilities: two hidden layers of "
             "64 ReLU units, dropout 0.5, AdamW, early stopping on a held-out tenth",
         .rows_alike = true,
         .fit = cst_fit_mlp,
         .predict = cst_predict_mlp,
         .release = cst_release_mlp,
         .model = cst_model_mlp},
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
                                    .map = CST_PROBABILITY_MIXTURE,
                                    .learner = CST_LEARNER_LINEAR},
    [CST_BASELINE_SNAPSHOT] =
        {.name = "snapshot",
         .definition =
             "the mean of the members tagged as snapshots of one run (at least two); with several "
             "runs, the one with the lowest NLL on the out-of-fold rows",
         .fit = cst_fit_ensemble,
         .ensemble = CST_ENSEMBLE_SNAPSHOT,
         .map = CST_PROBABILITY_MIXTURE,
         .learner = CST_LEARNER_LINEAR},
    [CST_BASELINE_MC_DROPOUT] =
        {.name = "mc-dropout",
         .definition =
             "the mean over the dropout passes of one network, members weighted by their passes; "
             "with several networks, the one with the lowest NLL on the out-of-fold rows",
         .fit = cst_fit_ensemble,
         .ensemble = CST_ENSEMBLE_MC_DROPOUT,
         .map = CST_PROBABILITY_MIXTURE,
         .learner = CST_LEARNER_LINEAR},
    [CST_BASELINE_SOUP] = {.name = "soup",
                           .definition = "the member tagged as a soup (averaged weights); with "
                                         "several, the one with the lowest "
                                         "NLL on the out-of-fold rows",
                           .fit = cst_fit_ensemble,
                           .ensemble = CST_ENSEMBLE_SOUP,
                           .map = CST_PROBABILITY_MIXTURE,
                           .learner = CST_LEARNER_LINEAR},
    [CST_BASELINE_SWAG] =
        {.name = "swag",
         .definition = "the mean over the SWAG samples of one network, members weighted by their "
                       "passes; with "
                       "several networks, the one with the lowest NLL on the out-of-fold rows",
         .fit = cst_fit_ensemble,
         .ensemble = CST_ENSEMBLE_SWAG,
         .map = CST_PROBABILITY_MIXTURE,
         .learner = CST_LEARNER_LINEAR},
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

bool cst_baseline_applies(const cst_baseline *baseline, const cst_baseline_data *data) {
    return !baseline->ensemble || cst_ensemble_applies(cst_ensemble_rule_of(baseline->ensemble),
                                                       data->ensembles, data->view->members);
}

cst_status cst_baseline_fit_run(cst_context *context, const cst_baseline *baseline,
                                const cst_baseline_data *data, cst_baseline_fit *out) {
    const cst_view *view = data->view;
    *out = (cst_baseline_fit){
        .baseline = baseline, .members = view->members, .classes = view->classes};
    if (view->members < 1 || view->rows < 1 || !view->labels)
        return cst_fail(context, CST_ERROR_ARGUMENT,
                        "%s needs labelled rows and at least one member", baseline->name);
    if (!cst_baseline_applies(baseline, data))
        return cst_fail(context, CST_ERROR_INPUT,
                        "%s does not apply to this pool: no member is tagged for it",
                        baseline->name);
    if (baseline->rows_alike && view->weights)
        return cst_fail(context, CST_ERROR_INPUT,
                        "%s does not support row weights; leave out the method or the weights",
                        baseline->name);
    out->weights = cst_alloc(context, (size_t)view->members, sizeof *out->weights);
    out->uses = cst_alloc(context, (size_t)view->members, sizeof *out->uses);
    cst_status status =
        out->weights && out->uses ? baseline->fit(context, data, out) : CST_ERROR_MEMORY;
    for (int32_t k = 0; status == CST_OK && k < view->members; k++)
        out->uses[k] = out->uses[k] || out->weights[k] != 0;
    if (status != CST_OK)
        cst_baseline_fit_free(context, out);
    return status;
}

static cst_status predict_mixture(cst_context *context, void *user, int64_t block) {
    const cst_baseline_job *job = user;
    const cst_view *view = job->view;
    int64_t first = cst_block_first(block);
    int64_t count = cst_block_size(view->rows, block);
    int64_t cells = count * view->classes;
    float *to = job->out + first * view->classes;
    CST_SCOPE(scope);
    CST_NEW(context, scope, float, scratch, (cst_view_copies(view) ? cells : 0));
    CST_NEW(context, scope, double, mixture, cells);
    CST_TRY(cst_mixture_rows(context, view, job->fit->weights, first, count, scratch, mixture));
    for (int64_t j = 0; j < cells; j++)
        mixture[j] += job->fit->intercept;
    cst_probability_rows(job->fit->baseline->map, count, view->classes, mixture);
    for (int64_t j = 0; j < cells; j++)
        to[j] = (float)mixture[j];
    return CST_OK;
}

cst_status cst_baseline_fit_predict(cst_context *context, const cst_baseline_fit *fit,
                                    const cst_view *view, float *out) {
    const cst_baseline *baseline = fit->baseline;
    if (fit->members != view->members || fit->classes != view->classes)
        return cst_fail(
            context, CST_ERROR_MISMATCH,
            "%s was fitted on %d members and %d classes, but these predictions have %d and %d",
            baseline->name, fit->members, fit->classes, view->members, view->classes);
    if (baseline->predict)
        return baseline->predict(context, fit, view, out);
    cst_baseline_job job = {fit, view, out};
    const cst_share filled = cst_share_rows(out, view->rows, (size_t)view->classes * sizeof *out);
    return cst_parallel_fill(context, cst_block_count(view->rows),
                             baseline->predict_block ? baseline->predict_block : predict_mixture,
                             &job, &filled, fit->own_rows ? 0 : 1);
}

void cst_baseline_fit_free(cst_context *context, cst_baseline_fit *fit) {
    if (!fit)
        return;
    if (fit->baseline && fit->baseline->release)
        fit->baseline->release(context, fit->state);
    cst_free(context, fit->weights);
    cst_free(context, fit->uses);
    *fit = (cst_baseline_fit){0};
}

/* ---- models ---- */

static cst_status mixture_model(cst_context *context, const cst_baseline_fit *fit,
                                const int32_t *kept, cst_model *out) {
    out->map = fit->baseline->map;
    return cst_baseline_learner(context, fit, fit->baseline->learner, kept, &fit->intercept, 1,
                                out);
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
    CST_THEN(
        (fit->baseline->model ? fit->baseline->model : mixture_model)(context, fit, kept, model));
    if (status == CST_OK)
        *out = model;
    else
        cst_model_free(context, model);
    return status;
}
