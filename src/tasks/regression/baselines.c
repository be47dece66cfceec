/*
 * Linear baselines of a regression from moments. Behind comparisons. Paper: section "Experimental
 * Setup"; docs/regression.md.
 */
#include "tasks/regression/baselines.h"

#include "method/blend/blend.h"
#include "method/linear/linear.h"
#include "method/linear/penalty.h"
#include "tasks/regression/learners.h"

#include <math.h>
#include <string.h>

enum { GREEDY_ROUNDS = 25, CLIMB_STEPS = 1000 };

/* Mean products of the members' residuals f - y, [K][K]. */
static cst_status residual_products(cst_context *context, const cst_moments *moments,
                                    double **out) {
    size_t k = (size_t)moments->columns;
    size_t width = k + 2;
    double *sum = cst_alloc(context, width * width, sizeof *sum);
    *out = cst_alloc(context, k * k, sizeof **out);
    if (!sum || !*out) {
        cst_free(context, sum);
        return CST_ERROR_MEMORY;
    }
    cst_moments_without(moments, -1, sum);
    double n = sum[width * width - 1];
    for (size_t i = 0; i < k; i++)
        for (size_t j = 0; j < k; j++)
            (*out)[i * k + j] = (sum[i * width + j] - sum[i * width + k] - sum[j * width + k] +
                                 sum[k * width + k]) /
                                n;
    cst_free(context, sum);
    return CST_OK;
}

static cst_status fit_best_single(cst_context *context, const cst_moments *moments, double *weights,
                                  double *intercept) {
    double *products = NULL;
    size_t k = (size_t)moments->columns;
    cst_status status = residual_products(context, moments, &products);
    size_t best = 0;
    for (size_t j = 1; status == CST_OK && j < k; j++)
        if (products[j * k + j] < products[best * k + best])
            best = j;
    for (size_t j = 0; j < k; j++)
        weights[j] = j == best;
    *intercept = 0;
    cst_free(context, products);
    return status;
}

static cst_status fit_average(cst_context *context, const cst_moments *moments, double *weights,
                              double *intercept) {
    (void)context;
    for (int32_t j = 0; j < moments->columns; j++)
        weights[j] = 1 / (double)moments->columns;
    *intercept = 0;
    return CST_OK;
}

static cst_status fit_performance(cst_context *context, const cst_moments *moments, double *weights,
                                  double *intercept) {
    double *products = NULL;
    size_t k = (size_t)moments->columns;
    cst_status status = residual_products(context, moments, &products);
    double sum = 0;
    for (size_t j = 0; status == CST_OK && j < k; j++) {
        weights[j] = 1 / fmax(products[j * k + j], 1e-12);
        sum += weights[j];
    }
    for (size_t j = 0; status == CST_OK && j < k; j++)
        weights[j] /= sum;
    *intercept = 0;
    cst_free(context, products);
    return status;
}

static cst_status fit_penalised(cst_context *context, const cst_moments *moments,
                                cst_linear_kind kind, double *weights, double *intercept) {
    cst_standardised standardised = {0};
    cst_penalty penalty = {0};
    cst_linear linear = {0};
    cst_penalty_options options = {.rule = moments->folds < 2 ? CST_PENALTY_GCV : CST_PENALTY_CV,
                                   .grid = cst_penalty_grid_default()};
    double ratio = kind == CST_LINEAR_LASSO ? 1 : 0.5;
    cst_status status = cst_standardise(context, moments, -1, &standardised);
    CST_THEN(kind == CST_LINEAR_RIDGE || moments->folds < 2
                 ? cst_penalty_choose(context, moments, &standardised, NULL, &options, &penalty)
                 : cst_linear_path_cv(context, moments, kind, ratio, 1e-6, 61, &penalty.lambda,
                                      NULL, NULL));
    CST_THEN(cst_linear_fit(context, &standardised, kind, penalty.lambda, 0.5, &linear));
    if (status == CST_OK) {
        memcpy(weights, linear.coefficients, (size_t)linear.columns * sizeof *weights);
        *intercept = linear.intercept;
    }
    cst_linear_free(context, &linear);
    cst_standardised_free(context, &standardised);
    return status;
}

static cst_status fit_ridge(cst_context *context, const cst_moments *moments, double *weights,
                            double *intercept) {
    return fit_penalised(context, moments, CST_LINEAR_RIDGE, weights, intercept);
}

static cst_status fit_lasso(cst_context *context, const cst_moments *moments, double *weights,
                            double *intercept) {
    return fit_penalised(context, moments, CST_LINEAR_LASSO, weights, intercept);
}

static cst_status fit_elastic_net(cst_context *context, const cst_moments *moments, double *weights,
                                  double *intercept) {
    return fit_penalised(context, moments, CST_LINEAR_ELASTIC_NET, weights, intercept);
}

static cst_status fit_greedy(cst_context *context, const cst_moments *moments, double *weights,
                             double *intercept) {
    double *products = NULL;
    cst_status status = residual_products(context, moments, &products);
    if (status == CST_OK)
        cst_value_greedy(products, moments->columns, GREEDY_ROUNDS, weights);
    *intercept = 0;
    cst_free(context, products);
    return status;
}

static cst_status fit_minimum_variance(cst_context *context, const cst_moments *moments,
                                       double *weights, double *intercept) {
    double *products = NULL;
    cst_status status = residual_products(context, moments, &products);
    CST_THEN(cst_blend_minimum_variance(context, moments->columns, products, false, weights));
    *intercept = 0;
    cst_free(context, products);
    return status;
}

/* From the best member on, the mixture moves towards the member that lowers its error most, by the
 * best step, until no step lowers it by a millionth. */
static cst_status fit_hill_climbing(cst_context *context, const cst_moments *moments,
                                    double *weights, double *intercept) {
    double *s = NULL;
    size_t k = (size_t)moments->columns;
    cst_status status = residual_products(context, moments, &s);
    double *along = cst_alloc(context, k, sizeof *along); /* S w */
    if (!along)
        status = CST_ERROR_MEMORY;
    CST_THEN(fit_best_single(context, moments, weights, intercept));
    for (int step = 0; status == CST_OK && step < CLIMB_STEPS; step++) {
        double now = 0;
        for (size_t i = 0; i < k; i++) {
            along[i] = 0;
            for (size_t j = 0; j < k; j++)
                along[i] += s[i * k + j] * weights[j];
            now += weights[i] * along[i];
        }
        size_t best = 0;
        double gain = 0;
        double size = 0;
        for (size_t j = 0; j < k; j++) {
            double curve = s[j * k + j] - 2 * along[j] + now;
            double slope = now - along[j];
            double a = curve > 0 ? fmin(fmax(slope / curve, 0), 1) : 0;
            double gained = 2 * a * slope - a * a * curve;
            if (gained > gain) {
                gain = gained;
                size = a;
                best = j;
            }
        }
        if (gain <= 1e-6 * now)
            break;
        for (size_t j = 0; j < k; j++)
            weights[j] = (1 - size) * weights[j] + (j == best ? size : 0);
    }
    cst_free(context, along);
    cst_free(context, s);
    return status;
}

/* The mean of the tagged group that has the least squared error on these rows. */
static cst_status fit_tagged(cst_context *context, const cst_tagged_rule *rule,
                             const cst_member_ensemble *tags, const cst_moments *moments,
                             double *weights, double *intercept, cst_tagged_choice *best) {
    double *products = NULL;
    size_t k = (size_t)moments->columns;
    double *group = cst_alloc(context, k, sizeof *group);
    cst_status status = group ? residual_products(context, moments, &products) : CST_ERROR_MEMORY;
    double least = INFINITY;
    for (int32_t first = 0; status == CST_OK && tags && first < moments->columns; first++) {
        double loss = 0;
        int32_t size = cst_tagged_group(rule, tags, moments->columns, first, group);
        if (size == 0)
            continue;
        for (size_t i = 0; i < k; i++)
            for (size_t j = 0; j < k; j++)
                loss += group[i] * products[i * k + j] * group[j];
        best->groups++;
        if (isfinite(least) && !(loss < least))
            continue;
        least = loss;
        best->first = first;
        best->size = size;
        memcpy(weights, group, k * sizeof *weights);
    }
    if (status == CST_OK && isinf(least))
        status = cst_fail(context, CST_ERROR_INPUT, "no member is tagged for this baseline");
    *intercept = 0;
    cst_free(context, products);
    cst_free(context, group);
    return status;
}

/* In the order of reports. */
static const cst_value_baseline BASELINES[] = {
    {"best-single", "the member with the lowest squared error", fit_best_single, CST_ENSEMBLE_NONE},
    {"average", "the mean of the members", fit_average, CST_ENSEMBLE_NONE},
    {"performance-weighted", "the mean of the members weighted by 1 / mean squared error",
     fit_performance, CST_ENSEMBLE_NONE},
    {"ridge", "ridge regression on the members, penalty chosen by cross-validation", fit_ridge,
     CST_ENSEMBLE_NONE},
    {"lasso", "lasso regression on the members, penalty chosen by cross-validation", fit_lasso,
     CST_ENSEMBLE_NONE},
    {"elastic-net", "elastic-net regression on the members, penalty chosen by cross-validation",
     fit_elastic_net, CST_ENSEMBLE_NONE},
    {"greedy",
     "greedy selection with replacement that minimises the squared error, 25 rounds "
     "(Caruana et al. 2004)",
     fit_greedy, CST_ENSEMBLE_NONE},
    {"minimum-variance",
     "the convex mixture (non-negative weights with sum 1) that minimises the squared error",
     fit_minimum_variance, CST_ENSEMBLE_NONE},
    {"hill-climbing", "steps from the best member towards whichever lowers the squared error most",
     fit_hill_climbing, CST_ENSEMBLE_NONE},
    {"deep-ensemble", "the mean of the members tagged as one deep ensemble (at least two)", NULL,
     CST_ENSEMBLE_DEEP},
    {"snapshot", "the mean of the members tagged as snapshots of one run (at least two)", NULL,
     CST_ENSEMBLE_SNAPSHOT},
    {"mc-dropout", "the mean over the dropout passes of one network", NULL,
     CST_ENSEMBLE_MC_DROPOUT},
    {"soup", "the member tagged as a soup (averaged weights)", NULL, CST_ENSEMBLE_SOUP},
    {"swag", "the mean over the SWAG samples of one network", NULL, CST_ENSEMBLE_SWAG},
};

const cst_value_baseline *cst_value_baseline_at(size_t index) {
    return index < sizeof BASELINES / sizeof BASELINES[0] ? &BASELINES[index] : NULL;
}

const cst_value_baseline *cst_value_baseline_find(const char *name) {
    for (size_t i = 0; i < sizeof BASELINES / sizeof BASELINES[0]; i++)
        if (strcmp(name, BASELINES[i].name) == 0)
            return &BASELINES[i];
    return NULL;
}

cst_status cst_value_baseline_fit(cst_context *context, const cst_value_baseline *baseline,
                                  const cst_member_ensemble *tags, const cst_moments *moments,
                                  double *weights, double *intercept, cst_tagged_choice *choice) {
    cst_tagged_choice best = {0};
    cst_status status = baseline->fit ? baseline->fit(context, moments, weights, intercept)
                                      : fit_tagged(context, cst_tagged_rule_of(baseline->kind),
                                                   tags, moments, weights, intercept, &best);
    if (choice)
        *choice = best;
    return status;
}
