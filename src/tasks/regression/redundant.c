/*
 * Risk, Pearson correlation and CKA of the members of a regression, and the projection. Stage S1.
 * Paper: section "Kernelized Redundancy Projection using CKA"; docs/method.md#s1-redundancy.
 */
#include "tasks/regression/redundant.h"

#include "fit/redundant.h"
#include "tasks/regression/linear_pool.h"

#include <math.h>
#include <string.h>

/* Rows that CKA looks at where outputs have to be brought to one scale first, which takes a copy.
 */
enum { SCALED_ROWS = 1 << 14, CANDIDATES_MAX = 16 };

/* Up to this many members a near-duplicate must have the same errors too: a removal saves little.
 */
enum { FEW_MEMBERS = 8 };

/* Mean squared error of each member, its mean over the outputs. moments [outputs]: without a gate.
 * risk: [K]. */
static void value_risk(const cst_moments *moments, int32_t outputs, double *risk) {
    int32_t k = moments->columns;
    size_t width = (size_t)k + 2;
    for (int32_t j = 0; j < k; j++) {
        double sum = 0;
        double rows = 0;
        for (int32_t d = 0; d < outputs; d++)
            for (int32_t f = 0; f < moments->folds; f++) {
                const double *m = moments[d].sums + (size_t)f * width * width;
                size_t y = (size_t)k;
                sum += m[(size_t)j * width + (size_t)j] - 2 * m[(size_t)j * width + y] +
                       m[y * width + y];
                rows += m[width * width - 1];
            }
        risk[j] = fmax(sum / rows, 0);
    }
}

/* Root mean squared error in standard deviations of the target from which a member is in another
 * unit: what aggregators square twice must stay within doubles and the bounds of model files. */
static const double MAX_DEVIATIONS = 1e12;

static cst_status check_members(cst_context *context, const cst_moments *moments, int32_t outputs) {
    size_t k = (size_t)moments->columns;
    size_t width = k + 2;
    double *sum = cst_alloc(context, width * width, sizeof *sum);
    cst_status status = sum ? CST_OK : CST_ERROR_MEMORY;
    for (int32_t d = 0; status == CST_OK && d < outputs; d++) {
        cst_moments_without(&moments[d], -1, sum);
        double n = sum[width * width - 1];
        double mean = sum[k * width + k + 1] / n;
        double variance = sum[k * width + k] / n - mean * mean;
        for (size_t j = 0; status == CST_OK && variance > 0 && j < k; j++) {
            double error =
                (sum[j * width + j] - 2 * sum[j * width + k] + sum[k * width + k]) / n / variance;
            if (error > MAX_DEVIATIONS * MAX_DEVIATIONS)
                status = cst_fail(
                    context, CST_ERROR_INPUT,
                    "output %d: member %zu (counting from 0) is off by %.3g standard deviations of "
                    "the targets: are its predictions in the unit of the targets?",
                    (int)d, j, sqrt(error));
        }
    }
    cst_free(context, sum);
    return status;
}

void cst_value_pearson(const cst_moments *moments, int32_t outputs, double *pearson) {
    size_t k = (size_t)moments->columns;
    size_t width = k + 2;
    memset(pearson, 0, k * k * sizeof *pearson);
    double rows = 0;
    for (int32_t d = 0; d < outputs; d++)
        for (int32_t f = 0; f < moments->folds; f++)
            rows += moments[d].sums[((size_t)f + 1) * width * width - 1];
    for (size_t i = 0; i < k; i++)
        for (size_t j = 0; j <= i; j++) {
            double both = 0;
            double mean[2] = {0, 0};
            for (int32_t d = 0; d < outputs; d++)
                for (int32_t f = 0; f < moments->folds; f++) {
                    const double *m = moments[d].sums + (size_t)f * width * width;
                    both += m[i * width + j] / rows;
                    mean[0] += m[i * width + width - 1] / rows;
                    mean[1] += m[j * width + width - 1] / rows;
                }
            pearson[i * k + j] = both - mean[0] * mean[1];
        }
    for (size_t i = 0; i < k; i++)
        for (size_t j = 0; j < i; j++) {
            double a = pearson[i * k + i];
            double b = pearson[j * k + j];
            bool varies = a > 1e-20 && b > 1e-20;
            double value = varies ? pearson[i * k + j] / sqrt(a * b) : 0;
            pearson[i * k + j] = pearson[j * k + i] = fmax(fmin(value, 1), -1);
        }
    for (size_t i = 0; i < k; i++)
        pearson[i * k + i] = 1;
}

/* Lowers similarities to the correlations of the members' errors, over all outputs: where all
 * members are near the target, their values agree however much their errors differ. */
static void bound_by_errors(const cst_moments *moments, int32_t outputs, double *similarity) {
    size_t k = (size_t)moments->columns;
    size_t width = k + 2;
    for (size_t i = 0; i < k; i++)
        for (size_t j = 0; j < i; j++) {
            double both = 0;
            double own[2] = {0, 0};
            for (int32_t d = 0; d < outputs; d++)
                for (int32_t f = 0; f < moments->folds; f++) {
                    const double *m = moments[d].sums + (size_t)f * width * width;
                    const double *y = m + k * width;
                    both += m[i * width + j] - y[i] - y[j] + y[k];
                    own[0] += m[i * width + i] - 2 * y[i] + y[k];
                    own[1] += m[j * width + j] - 2 * y[j] + y[k];
                }
            if (!(own[0] > 0 && own[1] > 0))
                continue;
            double value = fmin(similarity[i * k + j], both / sqrt(own[0] * own[1]));
            similarity[i * k + j] = similarity[j * k + i] = value;
        }
}

/* ---- CKA ---- */

/* CKA of several outputs, each in units of its target: on a copy of at most SCALED_ROWS rows. */
static cst_status scaled_cka(cst_context *context, const cst_view *view, const cst_scaling *scaling,
                             const cst_cka_options *options, cst_cka_result *out) {
    size_t members = (size_t)view->members;
    size_t outputs = (size_t)view->classes;
    int64_t count = view->rows < SCALED_ROWS ? view->rows : SCALED_ROWS;
    size_t cells = (size_t)count * outputs;
    float **copies = cst_alloc(context, members, sizeof *copies);
    int64_t *positions = cst_alloc(context, (size_t)count, sizeof *positions);
    cst_status status = copies && positions ? CST_OK : CST_ERROR_MEMORY;
    for (int64_t i = 0; status == CST_OK && i < count; i++)
        positions[i] = (int64_t)((double)i * ((double)view->rows / (double)count));
    for (size_t k = 0; status == CST_OK && k < members; k++) {
        copies[k] = cst_alloc(context, cells, sizeof **copies);
        status = copies[k] ? cst_view_gather(context, view, (int32_t)k, positions, count, copies[k])
                           : CST_ERROR_MEMORY;
        for (size_t e = 0; status == CST_OK && e < cells; e++) {
            size_t d = e % outputs;
            copies[k][e] =
                (float)(((double)copies[k][e] - scaling->location[d]) / scaling->scale[d]);
        }
    }
    if (status == CST_OK) {
        cst_view scaled = {.rows = count,
                           .classes = view->classes,
                           .members = view->members,
                           .data = (const float *const *)copies};
        status = cst_cka(context, &scaled, options, out);
    }
    for (size_t k = 0; copies && k < members; k++)
        cst_free(context, copies[k]);
    cst_free(context, copies);
    cst_free(context, positions);
    return status;
}

cst_status cst_value_cka(cst_context *context, const cst_view *view, const cst_scaling *scaling,
                         const cst_cka_options *options, cst_cka_result *out) {
    return view->classes > 1 ? scaled_cka(context, view, scaling, options, out)
                             : cst_cka(context, view, options, out);
}

static cst_status similarity_of(cst_context *context, const cst_view *view,
                                const cst_scaling *scaling, const cst_settings *settings,
                                cst_stages *out) {
    size_t cells = (size_t)view->members * (size_t)view->members;
    if (settings->measure != CST_MEASURE_CKA) {
        memcpy(out->similarity, out->pearson, cells * sizeof *out->similarity);
        return CST_OK;
    }
    cst_status status = cst_value_cka(context, view, scaling, &settings->cka, &out->cka);
    if (status == CST_OK)
        memcpy(out->similarity, out->cka.cka, cells * sizeof *out->similarity);
    return status;
}

/* ---- the threshold ---- */

/* Held-out error of the linear pool on some members, by fold: out [folds]. */
static cst_status pool_losses(cst_context *context, const cst_moments *moments, int32_t outputs,
                              const int32_t *members, int32_t count, const cst_settings *settings,
                              double *out) {
    cst_linear_pool_options options = {.prior = CST_LINEAR_POOL_FIXED,
                                       .precision = settings->selection.prior,
                                       .power = settings->pool_power,
                                       .nonnegative = settings->pool_nonnegative};
    cst_status status = CST_OK;
    memset(out, 0, (size_t)moments->folds * sizeof *out);
    for (int32_t d = 0; status == CST_OK && d < outputs; d++) {
        cst_moments all = {0};
        status = cst_value_moments_part(context, &moments[d], -1, members, count, &all);
        for (int32_t f = 0; status == CST_OK && f < all.folds; f++) {
            cst_moments in = {0};
            cst_linear_pool pool = {0};
            double rows = 0;
            status = cst_value_moments_part(context, &all, f, NULL, 0, &in);
            CST_THEN(cst_linear_pool_fit(context, &in, &options, &pool));
            if (status == CST_OK) {
                double loss = cst_moments_loss(&all, f, pool.weights, pool.intercept, &rows);
                out[f] += rows > 0 ? loss / rows / outputs : 0;
            }
            cst_linear_pool_free(context, &pool);
            cst_moments_free(context, &in);
        }
        cst_moments_free(context, &all);
    }
    return status;
}

/* Every candidate's kept set, judged by the held-out error of the pool. Similarities and risks are
 * those of all rows. */
static cst_status threshold_by_cv(cst_context *context, const cst_moments *moments, int32_t outputs,
                                  const cst_settings *settings, const cst_costs *costs,
                                  cst_stages *out) {
    double taus[CANDIDATES_MAX];
    int32_t count = 0;
    int32_t folds = moments->folds;
    int32_t chosen = 0;
    int32_t best = 0;
    cst_projection_rule rule =
        cst_projection_rule_of(settings, out->members, costs, out->cka.constant);
    cst_status status = cst_threshold_candidates(context, out->similarity, out->members, out->risk,
                                                 &rule, CANDIDATES_MAX, taus, &count);
    if (status != CST_OK)
        return status;
    double *loss = cst_alloc(context, (size_t)count * (size_t)folds, sizeof *loss);
    status = loss ? CST_OK : CST_ERROR_MEMORY;
    for (int32_t c = 0; status == CST_OK && c < count; c++) {
        cst_projection kept = {0};
        rule.tau = taus[c];
        status = cst_project(context, out->similarity, out->members, out->risk, &rule, &kept);
        CST_THEN(pool_losses(context, moments, outputs, kept.kept, kept.kept_count, settings,
                             loss + (size_t)c * (size_t)folds));
        cst_projection_free(context, &kept);
    }
    CST_THEN(cst_threshold_cv(context, loss, count, folds, &chosen, &best));
    if (status == CST_OK)
        out->threshold = taus[chosen];
    cst_free(context, loss);
    return status;
}

static cst_status choose_threshold(cst_context *context, const cst_moments *moments,
                                   int32_t outputs, const cst_settings *settings,
                                   const cst_costs *costs, cst_stages *out) {
    bool found = true;
    out->threshold = settings->threshold;
    if (settings->measure == CST_MEASURE_NONE) {
        out->threshold = NAN;
        return CST_OK;
    }
    if (settings->threshold_rule == CST_THRESHOLD_CV)
        return threshold_by_cv(context, moments, outputs, settings, costs, out);
    if (settings->threshold_rule == CST_THRESHOLD_ELBOW)
        return cst_elbow_threshold(context, out->similarity, out->members, &out->threshold, &found);
    return CST_OK;
}

cst_status cst_value_redundant(cst_context *context, const cst_view *view,
                               const cst_scaling *scaling, const cst_moments *moments,
                               const cst_settings *settings, const cst_costs *costs,
                               cst_stages *out) {
    cst_projection projection = {0};
    value_risk(moments, view->classes, out->risk);
    cst_value_pearson(moments, view->classes, out->pearson);
    cst_status status = check_members(context, moments, view->classes);
    CST_THEN(cst_stage(context, "redundancy"));
    CST_THEN(similarity_of(context, view, scaling, settings, out));
    CST_THEN(choose_threshold(context, moments, view->classes, settings, costs, out));
    size_t count = (size_t)view->members;
    double *similarity = cst_alloc(context, count * count, sizeof *similarity);
    if (status == CST_OK && !similarity)
        status = CST_ERROR_MEMORY;
    if (status == CST_OK) {
        memcpy(similarity, out->similarity, count * count * sizeof *similarity);
        if (settings->select && view->members <= FEW_MEMBERS)
            bound_by_errors(moments, view->classes, similarity);
        cst_settings with = *settings;
        with.threshold = isnan(out->threshold) ? INFINITY : out->threshold;
        cst_projection_rule rule =
            cst_projection_rule_of(&with, view->members, costs, out->cka.constant);
        status = cst_project(context, similarity, view->members, out->risk, &rule, &projection);
    }
    cst_free(context, similarity);
    out->kept_count = 0;
    for (int32_t k = 0; status == CST_OK && k < view->members; k++) {
        out->reason[k] = cst_reason_of_drop(projection.reason[k]);
        out->closest[k] = projection.partner[k];
        out->closest_value[k] = out->closest[k] >= 0
                                    ? out->similarity[k * view->members + out->closest[k]]
                                    : projection.similarity[k];
        if (out->reason[k] == CST_REASON_KEPT)
            out->kept[out->kept_count++] = k;
    }
    cst_projection_free(context, &projection);
    return status;
}
