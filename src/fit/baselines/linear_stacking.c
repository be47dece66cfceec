/*
 * Linear stacking: ridge, lasso and elastic net of the class indicators on the members'
 * probabilities, one coefficient a member for all classes. Paper: "Ridge stacking" in section
 * "Experimental Setup"; docs/baselines.md#definitions; Wolpert (1992).
 */
#include "fit/baselines/baselines.h"

#include "method/gate/probability.h"
#include "method/linear/linear.h"
#include "method/linear/penalty.h"

#include <string.h>

static const double L1_RATIO = 0.5; /* of the elastic net */
static const double PATH_LOW = 1e-6;
enum { PATH_POINTS = 61 };

static cst_status choose_lambda(cst_context *context, const cst_moments *moments,
                                cst_linear_kind kind, double *lambda) {
    cst_penalty_grid grid = cst_penalty_grid_default();
    if (kind == CST_LINEAR_RIDGE)
        return cst_penalty_cv(context, moments, &grid, lambda, NULL);
    return cst_linear_path_cv(context, moments, kind, L1_RATIO, PATH_LOW, PATH_POINTS, lambda, NULL,
                              NULL);
}

static cst_status fit_kind(cst_context *context, const cst_baseline_data *data,
                           cst_linear_kind kind, cst_baseline_fit *out) {
    cst_gate gate = {.mode = CST_GATE_NONE, .inputs = data->view->members};
    cst_moments moments = {0};
    cst_standardised standardised = {0};
    cst_linear linear = {0};
    double lambda = 0;
    double *intercept = cst_alloc(context, 1, sizeof *intercept);
    if (!intercept)
        return CST_ERROR_MEMORY;
    out->state = intercept;
    cst_status status =
        cst_moments_compute(context, data->view, &gate, data->folds, data->fold_count, &moments);
    CST_THEN(choose_lambda(context, &moments, kind, &lambda));
    CST_THEN(cst_standardise(context, &moments, -1, &standardised));
    CST_THEN(cst_linear_fit(context, &standardised, kind, lambda, L1_RATIO, &linear));
    if (status == CST_OK) {
        memcpy(out->weights, linear.coefficients, (size_t)out->members * sizeof *out->weights);
        *intercept = linear.intercept;
        (void)cst_snprintf(out->detail, sizeof out->detail, "lambda %.4g, intercept %.4g", lambda,
                           linear.intercept);
    }
    cst_linear_free(context, &linear);
    cst_standardised_free(context, &standardised);
    cst_moments_free(context, &moments);
    return status;
}

static cst_status fit_ridge(cst_context *context, const cst_baseline_data *data,
                            cst_baseline_fit *out) {
    return fit_kind(context, data, CST_LINEAR_RIDGE, out);
}

static cst_status fit_lasso(cst_context *context, const cst_baseline_data *data,
                            cst_baseline_fit *out) {
    return fit_kind(context, data, CST_LINEAR_LASSO, out);
}

static cst_status fit_elastic_net(cst_context *context, const cst_baseline_data *data,
                                  cst_baseline_fit *out) {
    return fit_kind(context, data, CST_LINEAR_ELASTIC_NET, out);
}

typedef struct predict_job {
    const cst_baseline_fit *fit;
    const cst_view *view;
    float *out;
} predict_job;

static cst_status predict_block(cst_context *context, void *user, int64_t block) {
    const predict_job *job = user;
    const cst_view *view = job->view;
    double intercept = *(const double *)job->fit->state;
    int64_t first = cst_block_first(block);
    int64_t count = cst_block_size(view->rows, block);
    size_t cells = (size_t)count * (size_t)view->classes;
    float *to = job->out + (size_t)first * (size_t)view->classes;
    CST_SCOPE(scope);
    CST_NEW(context, scope, float, scratch, cst_view_copies(view) ? cells : 0);
    CST_NEW(context, scope, double, scores, cells);
    CST_TRY(cst_mixture_rows(context, view, job->fit->weights, first, count, scratch, scores));
    for (size_t j = 0; j < cells; j++)
        scores[j] += intercept;
    cst_probability_rows(CST_PROBABILITY_CLIP, count, view->classes, scores);
    for (size_t j = 0; j < cells; j++)
        to[j] = (float)scores[j];
    return CST_OK;
}

static cst_status predict(cst_context *context, const cst_baseline_fit *fit, const cst_view *view,
                          float *out) {
    predict_job job = {fit, view, out};
    const cst_share filled = cst_share_rows(out, view->rows, (size_t)view->classes * sizeof *out);
    return cst_parallel_fill(context, cst_block_count(view->rows), predict_block, &job, &filled,
                             fit->own_rows ? 0 : 1);
}

static cst_status make_model(cst_context *context, const cst_baseline_fit *fit, const int32_t *kept,
                             cst_model *out) {
    cst_learner_kind kind = fit->baseline == &cst_baseline_lasso         ? CST_LEARNER_LASSO
                            : fit->baseline == &cst_baseline_elastic_net ? CST_LEARNER_ELASTIC_NET
                                                                         : CST_LEARNER_RIDGE;
    out->map = CST_PROBABILITY_CLIP;
    return cst_baseline_learner(context, fit, kind, kept, fit->state, 1, out);
}

static void release(cst_context *context, void *state) {
    cst_free(context, state);
}

const cst_baseline cst_baseline_ridge = {
    .name = "ridge",
    .definition = "ridge regression of the class indicators on the members' probabilities "
                  "with one coefficient per member, the penalty chosen by cross-validation "
                  "over the folds; scores are clipped to [1e-6, 1] and normalised",
    .fit = fit_ridge,
    .predict = predict,
    .release = release,
    .model = make_model,
};

const cst_baseline cst_baseline_lasso = {
    .name = "lasso",
    .definition = "lasso regression of the class indicators on the members' probabilities "
                  "with one coefficient per member, the penalty chosen by cross-validation "
                  "over the folds; scores are clipped to [1e-6, 1] and normalised",
    .fit = fit_lasso,
    .predict = predict,
    .release = release,
    .model = make_model,
};

const cst_baseline cst_baseline_elastic_net = {
    .name = "elastic-net",
    .definition = "elastic-net regression (l1 ratio 0.5) of the class indicators on the "
                  "members' probabilities with one coefficient per member, the penalty chosen "
                  "by cross-validation over the folds; scores are clipped to [1e-6, 1] and "
                  "normalised",
    .fit = fit_elastic_net,
    .predict = predict,
    .release = release,
    .model = make_model,
};
