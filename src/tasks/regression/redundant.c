/* Risk, Pearson correlation and CKA of the members of a regression, and the projection. Stage S1.
 * Paper: section "Kernelized Redundancy Projection using CKA"; docs/method.md#s1-redundancy. */
#include "tasks/regression/regression.h"

#include <math.h>
#include <string.h>

CST_OWNED(cst_projection)
CST_OWNED(cst_scaling)

/* Rows that CKA looks at where outputs are brought to one scale first, which takes a copy. */
enum { SCALED_ROWS = 1 << 14 };

/* Of so few members a near-duplicate must have the same errors too: a removal saves little. */
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
    CST_SCOPE(scope);
    CST_NEW(context, scope, double, sum, (width * width));
    for (int32_t d = 0; d < outputs; d++) {
        cst_moments_without(&moments[d], -1, sum);
        double n = sum[width * width - 1];
        double mean = sum[k * width + k + 1] / n;
        double variance = sum[k * width + k] / n - mean * mean;
        for (size_t j = 0; variance > 0 && j < k; j++) {
            double error =
                (sum[j * width + j] - 2 * sum[j * width + k] + sum[k * width + k]) / n / variance;
            if (error > MAX_DEVIATIONS * MAX_DEVIATIONS)
                return cst_fail(
                    context, CST_ERROR_INPUT,
                    "output %d: member %zu (counting from 0) is off by %.3g standard deviations of "
                    "the targets: are its predictions in the unit of the targets?",
                    (int)d, j, sqrt(error));
        }
    }
    return CST_OK;
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

void cst_value_bound(const cst_run *run, double *similarity) {
    const cst_moments *moments = ((const cst_value_own *)run->own)->moments;
    int32_t outputs = run->view->classes;
    if (!run->settings->select || run->view->members > FEW_MEMBERS)
        return;
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
    size_t outputs = (size_t)view->classes;
    int64_t count = view->rows < SCALED_ROWS ? view->rows : SCALED_ROWS;
    size_t cells = (size_t)count * outputs;
    CST_SCOPE(scope);
    CST_NEW(context, scope, float *, copies, view->members);
    CST_NEW(context, scope, int64_t, positions, count);
    for (int64_t i = 0; i < count; i++)
        positions[i] = (int64_t)((double)i * ((double)view->rows / (double)count));
    for (int32_t k = 0; k < view->members; k++) {
        CST_TAKE(context, scope, copies[k], cells);
        CST_TRY(cst_view_gather(context, view, k, positions, count, copies[k]));
        for (size_t e = 0; e < cells; e++) {
            size_t d = e % outputs;
            copies[k][e] =
                (float)(((double)copies[k][e] - scaling->location[d]) / scaling->scale[d]);
        }
    }
    cst_view scaled = {.rows = count,
                       .classes = view->classes,
                       .members = view->members,
                       .data = (const float *const *)copies};
    return cst_cka(context, &scaled, options, out);
}

cst_status cst_value_cka(cst_context *context, const cst_view *view, const cst_scaling *scaling,
                         const cst_cka_options *options, cst_cka_result *out) {
    return view->classes > 1 ? scaled_cka(context, view, scaling, options, out)
                             : cst_cka(context, view, options, out);
}

/* ---- the threshold ---- */

/* Held-out error of the linear pool on some members, by fold: out [folds], which is zero. */
static cst_status pool_losses(cst_context *context, const cst_run *run, const int32_t *members,
                              int32_t count, double *out) {
    const cst_settings *settings = run->settings;
    const cst_moments *moments = ((const cst_value_own *)run->own)->moments;
    int32_t outputs = run->view->classes;
    cst_linear_pool_options options = {.prior = CST_LINEAR_POOL_FIXED,
                                       .precision = settings->selection.prior,
                                       .power = settings->pool_power,
                                       .nonnegative = settings->pool_nonnegative};
    for (int32_t d = 0; d < outputs; d++) {
        cst_moments all;
        CST_SCOPE(scope);
        CST_TRY(cst_value_moments_part(context, scope, &moments[d], -1, members, count, &all));
        for (int32_t f = 0; f < all.folds; f++) {
            cst_moments in;
            cst_linear_pool pool;
            double rows = 0;
            CST_SCOPE(fold);
            CST_TRY(cst_value_moments_part(context, fold, &all, f, NULL, 0, &in));
            CST_TRY(cst_linear_pool_fit(context, fold, &in, &options, &pool));
            double loss = cst_moments_loss(&all, f, pool.weights, pool.intercept, &rows);
            out[f] += rows > 0 ? loss / rows / outputs : 0;
        }
    }
    return CST_OK;
}

/* Similarities and risks are those of all rows. */
cst_status cst_value_judge(cst_context *context, const cst_run *run, const cst_stages *stages,
                           const double *taus, int32_t count, double *loss) {
    cst_projection_rule rule = cst_projection_rule_of(run, stages->cka.constant);
    for (int32_t c = 0; c < count; c++) {
        cst_projection kept = {0};
        CST_SCOPE(scope);
        rule.tau = taus[c];
        CST_TRY(
            cst_project(context, stages->similarity, stages->members, stages->risk, &rule, &kept));
        CST_OWN(context, scope, cst_projection, &kept);
        CST_TRY(pool_losses(context, run, kept.kept, kept.kept_count, loss + c * run->fold_count));
    }
    return CST_OK;
}

cst_status cst_value_prepare(cst_context *context, cst_scope *scope, cst_run *run,
                             cst_stages *out) {
    const cst_view *view = run->view;
    cst_gate none = {.mode = CST_GATE_NONE, .inputs = view->members};
    CST_NEW(context, scope, cst_value_own, own, 1);
    CST_TAKE(context, scope, own->moments, view->classes);
    CST_TRY(cst_stage(context, "moments"));
    CST_OWN(context, scope, cst_scaling, &own->scaling);
    CST_TRY(cst_scaling_make(context, view, &own->scaling));
    CST_TRY(cst_value_moments(context, scope, view, &own->scaling, &none, run->folds,
                              run->fold_count, own->moments));
    run->own = own;
    value_risk(own->moments, view->classes, out->risk);
    cst_value_pearson(own->moments, view->classes, out->pearson);
    return check_members(context, own->moments, view->classes);
}
