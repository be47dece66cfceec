/* Blend weights by each rule. docs/method.md#s4-blend. */
#include "method/blend/blend.h"

#include "core/la.h"

#include <math.h>
#include <string.h>

cst_blend_options cst_blend_defaults(void) {
    return (cst_blend_options){.rule = CST_BLEND_LAPLACE, .temperature = 1};
}

static void uniform(int32_t count, double *weights) {
    for (int32_t m = 0; m < count; m++)
        weights[m] = 1.0 / (double)count;
}

cst_status cst_blend_laplace(cst_context *context, int32_t count, const double *nll,
                             const double *logdet, double temperature, double scale,
                             double *weights) {
    if (!(temperature > 0) || !(scale > 0))
        return cst_fail(context, CST_ERROR_ARGUMENT,
                        "blend temperature %g and scale %g must be positive", temperature, scale);
    double least = INFINITY;
    for (int32_t m = 0; m < count; m++) {
        weights[m] = nll[m] + (logdet ? 0.5 * logdet[m] : 0);
        if (isfinite(weights[m]))
            least = fmin(least, weights[m]);
    }
    if (least == INFINITY)
        return cst_fail(context, CST_ERROR_NUMERIC,
                        "no meta-learner has a finite loss and curvature: nothing to blend");
    double sum = 0;
    for (int32_t m = 0; m < count; m++) { /* exponents are at most 0: nothing overflows */
        weights[m] = isfinite(weights[m]) ? exp(-((weights[m] - least) / scale) / temperature) : 0;
        sum += weights[m];
    }
    for (int32_t m = 0; m < count; m++)
        weights[m] /= sum;
    return CST_OK;
}

/* sum_c (y_c - p_c)(y_c - q_c) of one sample. */
static double residual_product(const float *p, const float *q, size_t classes, size_t truth) {
    double sum = (1 - (double)p[truth]) * (1 - (double)q[truth]);
    for (size_t c = 0; c < truth; c++)
        sum += (double)p[c] * (double)q[c];
    for (size_t c = truth + 1; c < classes; c++)
        sum += (double)p[c] * (double)q[c];
    return sum;
}

void cst_residual_products(const float *const *members, int32_t count, int32_t classes,
                           int32_t truth, double weight, double *sum) {
    for (int32_t a = 0; a < count; a++)
        for (int32_t b = a; b < count; b++)
            sum[(size_t)a * (size_t)count + (size_t)b] +=
                weight * residual_product(members[a], members[b], (size_t)classes, (size_t)truth);
}

/* Adds the upper triangle of the residuals' products of one block of rows. */
static cst_status moment_block(cst_context *context, void *user, int64_t block, double *sum) {
    const cst_view *oof = user;
    int64_t first = cst_block_first(block);
    int64_t count = cst_block_size(oof->rows, block);
    size_t members = (size_t)oof->members;
    size_t width = (size_t)oof->classes;
    size_t copied = cst_view_copies(oof) ? (size_t)count * width : 0;
    CST_SCOPE(scope);
    CST_NEW(context, scope, float, scratch, (copied * members));
    CST_NEW(context, scope, const float *, rows, members);
    for (size_t m = 0; m < members; m++)
        CST_TRY(
            cst_view_rows(context, oof, (int32_t)m, first, count, scratch + m * copied, &rows[m]));
    for (int64_t i = 0; i < count; i++) {
        cst_residual_products(rows, oof->members, oof->classes, cst_view_label(oof, first + i),
                              cst_view_weight(oof, first + i), sum);
        for (size_t m = 0; m < members; m++)
            rows[m] += width;
    }
    return CST_OK;
}

cst_status cst_residual_moments(cst_context *context, const cst_view *oof, double *moments) {
    size_t members = (size_t)oof->members;
    if (oof->rows < 1 || !oof->labels)
        return cst_fail(context, CST_ERROR_INPUT, "blend weights need labelled rows");
    CST_TRY(cst_reduce_blocks(context, cst_block_count(oof->rows), members * members, moment_block,
                              (void *)oof, moments));
    double n = cst_view_weight_sum(oof) * (double)oof->classes;
    for (size_t a = 0; a < members; a++) {
        for (size_t b = a; b < members; b++) {
            moments[a * members + b] /= n;
            moments[b * members + a] = moments[a * members + b];
        }
    }
    return CST_OK;
}

static void inverse_rmse(int32_t members, const double *moments, double *weights) {
    double least = INFINITY;
    for (int32_t m = 0; m < members; m++)
        least = fmin(least, fmax(moments[(size_t)m * (size_t)members + (size_t)m], 0));
    double sum = 0;
    for (int32_t m = 0; m < members; m++) { /* relative to the best: nothing overflows */
        double own = fmax(moments[(size_t)m * (size_t)members + (size_t)m], 0);
        weights[m] = own == least ? 1 : sqrt(least / own);
        sum += weights[m];
    }
    for (int32_t m = 0; m < members; m++)
        weights[m] /= sum;
}

/* S with its diagonal raised until it has a Cholesky factor; `factor` gets the factor. */
static cst_status regularise(cst_context *context, int32_t count, double *moments, double *factor) {
    size_t n = (size_t)count;
    double mean = 0;
    for (size_t j = 0; j < n; j++)
        mean += moments[j * n + j] / (double)n;
    if (!isfinite(mean))
        return cst_fail(context, CST_ERROR_NUMERIC,
                        "residual variances are not finite: no minimum-variance weights");
    if (!(mean > 1e-30)) { /* rounding: any mixture is as good, and equal shares it is */
        memset(factor, 0, n * n * sizeof *factor);
        for (size_t j = 0; j < n; j++)
            factor[j * n + j] = 1;
        return CST_OK;
    }
    double raised = 0;
    for (double ridge = 1e-10; ridge < 1e4; ridge *= 10) { /* of mere rounding a large one */
        memcpy(factor, moments, n * n * sizeof *factor);
        if (cst_cholesky(context, count, factor) == CST_OK) {
            double least = INFINITY; /* a pivot at rounding level is as good as none */
            for (size_t j = 0; j < n; j++)
                least = fmin(least, factor[j * n + j] * factor[j * n + j]);
            if (least > 1e-14 * mean)
                return CST_OK;
        }
        for (size_t j = 0; j < n; j++)
            moments[j * n + j] += (ridge - raised) * mean;
        raised = ridge;
    }
    return cst_fail(context, CST_ERROR_NUMERIC, "the residual covariance is not positive definite");
}

cst_status cst_blend_minimum_variance(cst_context *context, int32_t count, const double *moments,
                                      bool allow_negative, double *weights) {
    size_t n = (size_t)count;
    bool negative = false;
    double sum = 0;
    CST_SCOPE(scope);
    CST_NEW(context, scope, double, s, (n * n));
    CST_NEW(context, scope, double, factor, (n * n));
    CST_NEW(context, scope, double, ones, n);
    memcpy(s, moments, n * n * sizeof *s);
    CST_TRY(regularise(context, count, s, factor));
    for (size_t j = 0; j < n; j++)
        ones[j] = weights[j] = 1;
    cst_cholesky_solve(count, factor, weights);
    for (size_t j = 0; j < n; j++)
        negative = negative || weights[j] < 0;
    /* min w'Sw on the simplex is min v'Sv/2 - 1'v over v >= 0, scaled to sum 1. */
    if (negative && !allow_negative)
        CST_TRY(cst_nonnegative_quadratic(context, count, s, ones, weights));
    for (size_t j = 0; j < n; j++)
        sum += weights[j];
    for (size_t j = 0; j < n; j++)
        weights[j] /= sum;
    return CST_OK;
}

static cst_status from_moments(cst_context *context, int32_t members, const double *moments,
                               const cst_blend_options *options, double *weights) {
    if (options->rule != CST_BLEND_INVERSE_RMSE)
        return cst_blend_minimum_variance(context, members, moments, options->allow_negative,
                                          weights);
    inverse_rmse(members, moments, weights);
    return CST_OK;
}

static cst_status from_residuals(cst_context *context, const cst_view *oof,
                                 const cst_blend_options *options, double *weights) {
    size_t members = (size_t)oof->members;
    CST_SCOPE(scope);
    CST_NEW(context, scope, double, moments, (members * members));
    CST_TRY(cst_residual_moments(context, oof, moments));
    return from_moments(context, oof->members, moments, options, weights);
}

cst_status cst_blend_inverse_rmse(cst_context *context, const cst_view *oof, double *weights) {
    cst_blend_options options = {.rule = CST_BLEND_INVERSE_RMSE};
    return from_residuals(context, oof, &options, weights);
}

static cst_status greedy(cst_context *context, const cst_view *oof, double *weights) {
    cst_greedy found;
    CST_TRY(cst_greedy_select(context, oof, CST_GREEDY_LOG_LOSS, CST_GREEDY_ROUNDS, 0, &found));
    memcpy(weights, found.weights, (size_t)oof->members * sizeof *weights);
    cst_scope_free(&found.scope);
    return CST_OK;
}

/* Rules that read probabilities beyond the loss. */
static cst_status from_view(cst_context *context, const cst_view *oof,
                            const cst_blend_options *options, double *weights) {
    if (options->rule == CST_BLEND_GREEDY)
        return greedy(context, oof, weights);
    if (options->rule == CST_BLEND_STACKING)
        return cst_blend_stacking(context, oof, weights, NULL);
    return from_residuals(context, oof, options, weights);
}

/* Greedy and stacking see the true class and, as one class, the others: the loss needs no more. */
static cst_status from_truth(cst_context *context, const cst_blend_evidence *evidence,
                             const cst_blend_options *options, double *out) {
    size_t given = (size_t)evidence->rows;
    size_t members = (size_t)evidence->members;
    size_t cells = 0;
    size_t favoured[32];
    size_t rows = given;
    bool prior = options->rule == CST_BLEND_STACKING && options->prior > 0 && options->favoured;
    for (size_t m = 0; prior && m < members && m < 32; m++)
        if (options->favoured >> m & 1U)
            favoured[rows++ - given] = m;
    if (!cst_size_mul(rows, 2 * members, &cells))
        return cst_fail(context, CST_ERROR_LIMIT, "%zu rows of %zu members are too many", rows,
                        members);
    CST_SCOPE(scope);
    CST_NEW(context, scope, float, pairs, cells);
    CST_NEW(context, scope, int32_t, labels, rows); /* all 0: the first of two */
    CST_NEW(context, scope, const float *, data, members);
    const cst_view *weighted = evidence->weighted;
    bool weighs = prior || (weighted && weighted->weights);
    CST_NEW(context, scope, double, weights, weighs ? rows : 0);
    for (size_t i = 0; weighs && i < given; i++)
        weights[i] = weighted ? cst_view_weight(weighted, (int64_t)i) : 1;
    for (size_t i = given; i < rows; i++)
        weights[i] = options->prior;
    for (size_t m = 0; m < members; m++) {
        data[m] = pairs + m * rows * 2;
        for (size_t i = 0; i < rows; i++) {
            float p = i < given                  ? evidence->truth[m * given + i]
                      : favoured[i - given] == m ? 1.0F
                                                 : 0.0F;
            pairs[(m * rows + i) * 2] = p;
            pairs[(m * rows + i) * 2 + 1] = 1 - p;
        }
    }
    cst_view view = {.rows = (int64_t)rows,
                     .classes = 2,
                     .members = evidence->members,
                     .data = data,
                     .labels = labels,
                     .weights = weighs ? weights : NULL,
                     .weight_scale = 1};
    return from_view(context, &view, options, out);
}

/* From the evidence, or where there is a view, from the view. */
static cst_status weights_of(cst_context *context, const cst_blend_evidence *evidence,
                             const cst_view *oof, const cst_blend_options *options,
                             double *weights) {
    if (evidence->members < 1)
        return cst_fail(context, CST_ERROR_ARGUMENT, "there is nothing to blend");
    if (evidence->members == 1) {
        weights[0] = 1;
        return CST_OK;
    }
    switch (options->rule) {
    case CST_BLEND_LAPLACE:
        return cst_blend_laplace(context, evidence->members, evidence->nll, evidence->logdet,
                                 options->temperature,
                                 options->mean_loss ? (double)evidence->rows : 1, weights);
    case CST_BLEND_INVERSE_RMSE:
    case CST_BLEND_MINIMUM_VARIANCE:
        return oof ? from_view(context, oof, options, weights)
                   : from_moments(context, evidence->members, evidence->moments, options, weights);
    case CST_BLEND_GREEDY:
    case CST_BLEND_STACKING:
        return oof ? from_view(context, oof, options, weights)
                   : from_truth(context, evidence, options, weights);
    case CST_BLEND_UNIFORM:
        uniform(evidence->members, weights);
        return CST_OK;
    }
    return cst_fail(context, CST_ERROR_ARGUMENT, "unknown blend rule %d", (int)options->rule);
}

cst_status cst_blend_weights(cst_context *context, const cst_view *oof, const double *nll,
                             const double *logdet, const cst_blend_options *options,
                             double *weights) {
    cst_blend_evidence evidence = {
        .rows = oof->rows, .members = oof->members, .nll = nll, .logdet = logdet};
    return weights_of(context, &evidence, oof, options, weights);
}

cst_status cst_blend_weights_from(cst_context *context, const cst_blend_evidence *evidence,
                                  const cst_blend_options *options, double *weights) {
    return weights_of(context, evidence, NULL, options, weights);
}
