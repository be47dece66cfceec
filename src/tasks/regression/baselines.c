/* Linear baselines of a regression from moments. Behind comparisons. Paper: section "Experimental
 * Setup"; docs/regression.md. */
#include "tasks/regression/regression.h"

#include "method/blend/blend.h"
#include "method/linear/penalty.h"

#include <math.h>
#include <string.h>

enum { GREEDY_ROUNDS = 25, CLIMB_STEPS = 1000 };

void cst_value_greedy(const double *moments, int32_t count, int32_t rounds, double *weights) {
    size_t n = (size_t)count;
    double least = 0;
    /* With counts c the average's error is c'Sc / r^2; `sum` is c'Sc, weights the counts, and S c
     * is computed anew for each candidate's share. */
    double sum = 0;
    int32_t kept = 0;
    int32_t picked[1024] = {0};
    rounds = rounds < 1024 ? rounds : 1024;
    memset(weights, 0, n * sizeof *weights);
    for (int32_t r = 1; r <= rounds; r++) {
        int32_t best = 0;
        double best_sum = 0;
        for (int32_t k = 0; k < count; k++) {
            double cross = 0;
            for (size_t j = 0; j < n; j++)
                cross += moments[(size_t)k * n + j] * weights[j];
            double joined = sum + 2 * cross + moments[(size_t)k * n + (size_t)k];
            if (k == 0 || joined < best_sum) {
                best = k;
                best_sum = joined;
            }
        }
        sum = best_sum;
        weights[best] += 1;
        picked[r - 1] = best;
        double loss = sum / ((double)r * (double)r);
        if (r == 1 || loss < least) {
            least = loss;
            kept = r;
        }
    }
    memset(weights, 0, n * sizeof *weights);
    for (int32_t r = 0; r < kept; r++)
        weights[picked[r]] += 1 / (double)kept;
}

/* What a baseline is fitted from: mean products of the members' residuals f - y, [K][K]. */
static cst_status residual_products(cst_context *context, cst_scope *scope,
                                    const cst_moments *moments, double **out) {
    size_t k = (size_t)moments->columns;
    size_t width = k + 2;
    CST_NEW(context, scope, double, sum, (width * width));
    CST_TAKE(context, scope, *out, k * k);
    cst_moments_without(moments, -1, sum);
    double n = sum[width * width - 1];
    for (size_t i = 0; i < k; i++)
        for (size_t j = 0; j < k; j++)
            (*out)[i * k + j] = (sum[i * width + j] - sum[i * width + k] - sum[j * width + k] +
                                 sum[k * width + k]) /
                                n;
    return CST_OK;
}

static size_t best_single(const double *products, size_t k) {
    size_t best = 0;
    for (size_t j = 1; j < k; j++)
        if (products[j * k + j] < products[best * k + best])
            best = j;
    return best;
}

/* From the best member on, the mixture moves towards the member that lowers its error most, by the
 * best step, until no step lowers it by a millionth. */
static cst_status climb(cst_context *context, const double *s, size_t k, double *weights) {
    CST_SCOPE(scope);
    CST_NEW(context, scope, double, along, k); /* S w */
    weights[best_single(s, k)] = 1;
    for (int step = 0; step < CLIMB_STEPS; step++) {
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
    return CST_OK;
}

/* From the mean products of the members' residuals; weights [k], zero. */
static cst_status fit_mix(cst_context *context, cst_value_mix mix, const double *products, size_t k,
                          double *weights) {
    double sum = 0;
    if (mix == CST_VALUE_MIX_GREEDY)
        cst_value_greedy(products, (int32_t)k, GREEDY_ROUNDS, weights);
    if (mix == CST_VALUE_MIX_MINIMUM)
        return cst_blend_minimum_variance(context, (int32_t)k, products, false, weights);
    if (mix == CST_VALUE_MIX_CLIMB)
        return climb(context, products, k, weights);
    if (mix == CST_VALUE_MIX_BEST)
        weights[best_single(products, k)] = 1;
    for (size_t j = 0; j < k && mix >= CST_VALUE_MIX_AVERAGE; j++) {
        weights[j] = mix == CST_VALUE_MIX_AVERAGE ? 1 : 1 / fmax(products[j * k + j], 1e-12);
        sum += weights[j];
    }
    for (size_t j = 0; j < k && mix >= CST_VALUE_MIX_AVERAGE; j++)
        weights[j] /= sum;
    return CST_OK;
}

CST_OWNED(cst_linear)
CST_OWNED(cst_standardised)

static cst_status fit_penalised(cst_context *context, const cst_moments *moments,
                                cst_linear_kind kind, double *weights, double *intercept) {
    cst_standardised standardised = {0};
    cst_penalty penalty = {0};
    cst_linear linear = {0};
    cst_penalty_options options = {.rule = moments->folds < 2 ? CST_PENALTY_GCV : CST_PENALTY_CV,
                                   .grid = cst_penalty_grid_default()};
    double ratio = kind == CST_LINEAR_LASSO ? 1 : 0.5;
    CST_SCOPE(scope);
    CST_OWN(context, scope, cst_standardised, &standardised);
    CST_OWN(context, scope, cst_linear, &linear);
    CST_TRY(cst_standardise(context, moments, -1, &standardised));
    CST_TRY(kind == CST_LINEAR_RIDGE || moments->folds < 2
                ? cst_penalty_choose(context, moments, &standardised, NULL, &options, &penalty)
                : cst_linear_path_cv(context, moments, kind, ratio, 1e-6, 61, &penalty.lambda, NULL,
                                     NULL));
    CST_TRY(cst_linear_fit(context, &standardised, kind, penalty.lambda, 0.5, &linear));
    memcpy(weights, linear.coefficients, (size_t)linear.columns * sizeof *weights);
    *intercept = linear.intercept;
    return CST_OK;
}

/* The mean of the tagged group that has the least squared error on these rows. */
static cst_status fit_tagged(cst_context *context, cst_ensemble_kind kind,
                             const cst_member_ensemble *tags, const double *products, int32_t count,
                             double *weights, cst_ensemble_choice *best) {
    size_t k = (size_t)count;
    double least = INFINITY;
    CST_SCOPE(scope);
    CST_NEW(context, scope, double, group, k);
    for (int32_t first = 0; tags && first < count; first++) {
        double loss = 0;
        int32_t size = cst_ensemble_group(cst_ensemble_rule_of(kind), tags, count, first, group);
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
    return isinf(least)
               ? cst_fail(context, CST_ERROR_INPUT, "no member is tagged for this baseline")
               : CST_OK;
}

/* In the order of reports. */
static const cst_value_baseline BASELINES[] = {
    {.name = "best-single",
     .definition = "the member with the lowest squared error",
     .mix = CST_VALUE_MIX_BEST},
    {.name = "average", .definition = "the mean of the members", .mix = CST_VALUE_MIX_AVERAGE},
    {.name = "performance-weighted",
     .definition = "the mean of the members weighted by 1 / mean squared error",
     .mix = CST_VALUE_MIX_PERFORMANCE},
    {.name = "ridge",
     .definition = "ridge regression on the members, penalty chosen by cross-validation",
     .penalty = CST_LINEAR_RIDGE},
    {.name = "lasso",
     .definition = "lasso regression on the members, penalty chosen by cross-validation",
     .penalty = CST_LINEAR_LASSO},
    {.name = "elastic-net",
     .definition = "elastic-net regression on the members, penalty chosen by cross-validation",
     .penalty = CST_LINEAR_ELASTIC_NET},
    {.name = "greedy",
     .definition = "greedy selection with replacement that minimises the squared error, 25 rounds "
                   "(Caruana et al. 2004)",
     .mix = CST_VALUE_MIX_GREEDY},
    {.name = "minimum-variance",
     .definition = "the convex mixture (non-negative weights with sum 1) that minimises the "
                   "squared error",
     .mix = CST_VALUE_MIX_MINIMUM},
    {.name = "hill-climbing",
     .definition = "steps from the best member towards whichever lowers the squared error most",
     .mix = CST_VALUE_MIX_CLIMB},
    {.name = "deep-ensemble",
     .definition = "the mean of the members tagged as one deep ensemble (at least two)",
     .kind = CST_ENSEMBLE_DEEP},
    {.name = "snapshot",
     .definition = "the mean of the members tagged as snapshots of one run (at least two)",
     .kind = CST_ENSEMBLE_SNAPSHOT},
    {.name = "mc-dropout",
     .definition = "the mean over the dropout passes of one network",
     .kind = CST_ENSEMBLE_MC_DROPOUT},
    {.name = "soup",
     .definition = "the member tagged as a soup (averaged weights)",
     .kind = CST_ENSEMBLE_SOUP},
    {.name = "swag",
     .definition = "the mean over the SWAG samples of one network",
     .kind = CST_ENSEMBLE_SWAG},
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
                                  double *weights, double *intercept, cst_ensemble_choice *choice) {
    cst_ensemble_choice own;
    cst_ensemble_choice *best = choice ? choice : &own;
    double *products;
    CST_SCOPE(scope);
    *intercept = 0;
    *best = (cst_ensemble_choice){0};
    if (!baseline->mix && baseline->kind == CST_ENSEMBLE_NONE) {
        CST_TRY(fit_penalised(context, moments, baseline->penalty, weights, intercept));
    } else {
        CST_TRY(residual_products(context, scope, moments, &products));
        CST_TRY(baseline->mix
                    ? fit_mix(context, baseline->mix, products, (size_t)moments->columns, weights)
                    : fit_tagged(context, baseline->kind, tags, products, moments->columns, weights,
                                 best));
    }
    return CST_OK;
}
