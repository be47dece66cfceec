/* The linear pool and its prior, from the moments of the members. Stage S3 of a regression; the
 * number of rows enters nothing here. docs/regression.md. */
#include "tasks/regression/regression.h"

#include "core/la.h"
#include "method/blend/blend.h"

#include <math.h>
#include <string.h>

typedef struct moments_job {
    const cst_view *view;
    const cst_scaling *scaling;
    const cst_gate *gate;
    const int32_t *folds;
    int32_t fold_count;
    int32_t columns;
} moments_job;

/* Adds the products of the rows of one fold, for one output: z holds [count][columns + 2]. */
static cst_status add_fold(cst_context *context, const moments_job *job,
                           const cst_value_block *block, int32_t output, int32_t fold, double *z,
                           double *sum) {
    int32_t width = job->columns + 2;
    int32_t outputs = job->view->classes;
    int64_t count = 0;
    for (int64_t i = 0; i < block->count; i++) {
        if (job->folds[block->first + i] != fold)
            continue;
        double *row = z + count++ * width;
        for (int32_t j = 0; j < job->columns; j++)
            row[j] = block->design[j * block->stride + i * outputs + output];
        row[job->columns] = cst_value_block_target(block, i, output);
        row[job->columns + 1] = 1;
        double root = sqrt(cst_view_weight(job->view, block->first + i));
        for (int32_t j = 0; job->view->weights && j < width; j++)
            row[j] *= root; /* products then have the weight once */
    }
    return count == 0 ? CST_OK : cst_syrk_f64(context, width, count, 1, z, width, 1, sum, width);
}

static cst_status moments_block(cst_context *context, void *user, int64_t index, double *sum) {
    const moments_job *job = user;
    size_t width = (size_t)job->columns + 2;
    cst_value_block block;
    CST_SCOPE(scope);
    CST_NEW(context, scope, double, z, (width * CST_BLOCK_ROWS));
    CST_TRY(
        cst_value_block_open(context, scope, job->view, job->scaling, job->gate, index, &block));
    for (int32_t d = 0; d < job->view->classes; d++)
        for (int32_t f = 0; f < job->fold_count; f++, sum += width * width)
            CST_TRY(add_fold(context, job, &block, d, f, z, sum));
    return CST_OK;
}

static cst_status take_moments(cst_context *context, cst_scope *scope, int32_t columns,
                               int32_t folds, cst_gate_mode mode, int32_t inputs,
                               cst_moments *out) {
    size_t width = (size_t)columns + 2;
    *out = (cst_moments){.columns = columns, .folds = folds, .mode = mode, .inputs = inputs};
    CST_TAKE(context, scope, out->shift, columns);
    CST_TAKE(context, scope, out->sums, (size_t)folds * width * width);
    return CST_OK;
}

cst_status cst_value_moments(cst_context *context, cst_scope *scope, const cst_view *view,
                             const cst_scaling *scaling, const cst_gate *gate, const int32_t *folds,
                             int32_t fold_count, cst_moments *out) {
    moments_job job = {.view = view,
                       .scaling = scaling,
                       .gate = gate,
                       .folds = folds,
                       .fold_count = fold_count,
                       .columns = cst_design_columns(gate)};
    size_t width = (size_t)job.columns + 2;
    size_t outputs = (size_t)view->classes;
    size_t each = 0;
    size_t total = 0;
    CST_SCOPE(pass);
    if (!cst_size_mul(width * width, (size_t)fold_count, &each) ||
        !cst_size_mul(each, outputs, &total))
        return cst_fail(context, CST_ERROR_LIMIT, "moments of %d columns: too many",
                        (int)job.columns);
    CST_NEW(context, pass, double, sums, total);
    CST_TRY(
        cst_reduce_blocks(context, cst_block_count(view->rows), total, moments_block, &job, sums));
    for (size_t d = 0; d < outputs; d++) {
        CST_TRY(take_moments(context, scope, job.columns, fold_count, gate->mode, gate->inputs,
                             &out[d]));
        memcpy(out[d].sums, sums + d * each, each * sizeof *sums);
        for (size_t f = 0; f < (size_t)fold_count; f++)
            for (size_t i = 0; i < width; i++)
                for (size_t j = 0; j < i; j++)
                    out[d].sums[(f * width + j) * width + i] =
                        out[d].sums[(f * width + i) * width + j];
    }
    return CST_OK;
}

cst_status cst_value_moments_part(cst_context *context, cst_scope *scope,
                                  const cst_moments *moments, int32_t fold, const int32_t *members,
                                  int32_t count, cst_moments *out) {
    size_t from = (size_t)moments->columns + 2;
    int32_t columns = members ? count : moments->columns;
    size_t width = (size_t)columns + 2;
    CST_TRY(take_moments(context, scope, columns, moments->folds - (fold >= 0), moments->mode,
                         members ? count : moments->inputs, out));
    double *to = out->sums;
    for (int32_t f = 0; f < moments->folds; f++) {
        if (f == fold)
            continue;
        const double *sum = moments->sums + (size_t)f * from * from;
        for (size_t i = 0; i < width; i++) {
            size_t a = members && i < (size_t)count ? (size_t)members[i] : from + i - width;
            for (size_t j = 0; j < width; j++) {
                size_t b = members && j < (size_t)count ? (size_t)members[j] : from + j - width;
                to[i * width + j] = sum[a * from + b];
            }
        }
        to += width * width;
    }
    return CST_OK;
}

/* Grid of lambda, which is in units of the target's variance: from nearly free weights to the
 * center. */
enum { GRID = 73, GOLDEN_STEPS = 60 };
static const double GRID_LOW = 1e-10;
static const double GRID_HIGH = 1e2;

static double grid_at(int32_t point) {
    return GRID_LOW * pow(GRID_HIGH / GRID_LOW, (double)point / (GRID - 1));
}

/* ---- covariances ---- */

/* The center from the members' mean squared errors. */
static void put_center(cst_covariances *c) {
    size_t d = (size_t)c->columns;
    double sum = 0;
    double least = INFINITY;
    for (size_t i = 0; i < d; i++) {
        double bias = c->mean[i] - c->target_mean;
        double mse = c->gram[i * d + i] - 2 * c->cross[i] + c->target_square + bias * bias;
        c->center[i] = fmax(mse, 1e-12);
        least = fmin(least, c->center[i]);
    }
    for (size_t i = 0; i < d; i++) { /* relative to the best, so that no power overflows */
        c->center[i] = pow(least / c->center[i], c->power);
        sum += c->center[i];
    }
    for (size_t i = 0; i < d; i++)
        c->center[i] /= sum;
}

static cst_status take_covariances(cst_context *context, cst_scope *scope, int32_t columns,
                                   cst_covariances *out) {
    size_t d = (size_t)columns;
    out->columns = columns;
    CST_TAKE(context, scope, out->mean, d);
    CST_TAKE(context, scope, out->gram, d * d);
    CST_TAKE(context, scope, out->cross, d);
    CST_TAKE(context, scope, out->center, d);
    return CST_OK;
}

cst_status cst_covariances_make(cst_context *context, cst_scope *scope, const cst_moments *moments,
                                int32_t without, double power, cst_covariances *out) {
    size_t d = (size_t)moments->columns;
    size_t width = d + 2;
    CST_SCOPE(pass);
    CST_NEW(context, pass, double, sum, (width * width));
    cst_moments_without(moments, without, sum);
    double n = sum[width * width - 1];
    const double *target = sum + d * width;
    const double *one = target + width;
    CST_TRY(cst_moments_check(context, n, without));
    *out = (cst_covariances){.power = power, .rows = n, .target_mean = one[d] / n};
    CST_TRY(take_covariances(context, scope, moments->columns, out));
    out->target_square = fmax(target[d] / n - out->target_mean * out->target_mean, 0);
    for (size_t i = 0; i < d; i++) {
        out->mean[i] = one[i] / n;
        out->cross[i] = target[i] / n - out->mean[i] * out->target_mean;
        for (size_t j = 0; j <= i; j++) {
            double value = sum[i * width + j] / n - out->mean[i] * (one[j] / n);
            out->gram[i * d + j] = value;
            out->gram[j * d + i] = value;
        }
    }
    put_center(out);
    return CST_OK;
}

cst_status cst_covariances_part(cst_context *context, cst_scope *scope, const cst_covariances *c,
                                const int32_t *members, int32_t count, cst_covariances *out) {
    size_t n = (size_t)count;
    size_t k = (size_t)c->columns;
    *out = *c;
    CST_TRY(take_covariances(context, scope, count, out));
    for (size_t i = 0; i < n; i++) {
        size_t a = (size_t)members[i];
        out->mean[i] = c->mean[a];
        out->cross[i] = c->cross[a];
        for (size_t j = 0; j < n; j++)
            out->gram[i * n + j] = c->gram[a * k + (size_t)members[j]];
    }
    put_center(out);
    return CST_OK;
}

double cst_center_variance(const cst_covariances *c) {
    size_t d = (size_t)c->columns;
    double sum = c->target_square;
    for (size_t i = 0; i < d; i++) {
        sum -= 2 * c->center[i] * c->cross[i];
        for (size_t j = 0; j < d; j++)
            sum += c->center[i] * c->center[j] * c->gram[i * d + j];
    }
    return fmax(sum, 0);
}

/* ---- the fit at one lambda ---- */

double cst_linear_pool_objective(const cst_covariances *c, const double *weights, double lambda) {
    size_t d = (size_t)c->columns;
    double sum = c->target_square;
    for (size_t i = 0; i < d; i++) {
        double row = 0;
        for (size_t j = 0; j < d; j++)
            row += c->gram[i * d + j] * weights[j];
        sum += weights[i] * (row - 2 * c->cross[i]);
        sum += lambda * (weights[i] - c->center[i]) * (weights[i] - c->center[i]);
    }
    return sum;
}

/* Solves (gram + lambda I) u = b by Cholesky; the diagonal is raised where rounding leaves the
 * matrix indefinite. */
static cst_status solve(cst_context *context, const cst_covariances *c, double lambda,
                        double *weights) {
    size_t d = (size_t)c->columns;
    double trace = 0;
    CST_SCOPE(scope);
    CST_NEW(context, scope, double, factor, (d * d));
    for (size_t i = 0; i < d; i++)
        trace += c->gram[i * d + i];
    double raise = lambda;
    cst_status status = CST_ERROR_NUMERIC;
    for (int attempt = 0; status == CST_ERROR_NUMERIC && attempt < 12; attempt++) {
        memcpy(factor, c->gram, d * d * sizeof *factor);
        for (size_t i = 0; i < d; i++)
            factor[i * d + i] += raise;
        status = cst_cholesky(context, (int64_t)d, factor);
        raise = fmax(10 * raise, 1e-14 * (trace / (double)d + 1));
    }
    for (size_t i = 0; i < d; i++)
        weights[i] = c->cross[i] + lambda * c->center[i];
    if (status == CST_OK)
        cst_cholesky_solve((int64_t)d, factor, weights);
    return status;
}

cst_status cst_linear_pool_solve(cst_context *context, const cst_covariances *c, double lambda,
                                 bool nonnegative, double *weights) {
    size_t d = (size_t)c->columns;
    if (!nonnegative)
        return solve(context, c, lambda, weights);
    double trace = 0;
    CST_SCOPE(scope);
    CST_NEW(context, scope, double, hessian, (d * d));
    CST_NEW(context, scope, double, b, d);
    memcpy(hessian, c->gram, d * d * sizeof *hessian);
    for (size_t i = 0; i < d; i++)
        trace += c->gram[i * d + i] / (double)d;
    for (size_t i = 0; i < d; i++) {
        hessian[i * d + i] += fmax(lambda, 1e-12 * trace);
        b[i] = c->cross[i] + lambda * c->center[i];
    }
    return cst_nonnegative_quadratic(context, c->columns, hessian, b, weights);
}

static double intercept_of(const cst_covariances *c, const double *weights) {
    double intercept = c->target_mean;
    for (int32_t k = 0; k < c->columns; k++)
        intercept -= weights[k] * c->mean[k];
    return intercept;
}

/* ---- lambda ---- */

/* gram = V diag(values) V'; turned = V'(cross - gram center). */
typedef struct pool_spectrum {
    double *values;
    double *vectors;
    double *turned;
} pool_spectrum;

static cst_status spectrum_make(cst_context *context, cst_scope *scope, const cst_covariances *c,
                                pool_spectrum *out) {
    size_t d = (size_t)c->columns;
    CST_TAKE(context, scope, out->values, d);
    CST_TAKE(context, scope, out->vectors, d * d);
    CST_TAKE(context, scope, out->turned, d);
    memcpy(out->vectors, c->gram, d * d * sizeof *out->vectors);
    CST_TRY(cst_eigh(context, (int64_t)d, out->vectors, out->values));
    for (size_t i = 0; i < d; i++) {
        double off = c->cross[i];
        for (size_t j = 0; j < d; j++)
            off -= c->gram[i * d + j] * c->center[j];
        out->values[i] = fmax(out->values[i], 0);
        for (size_t j = 0; j < d; j++)
            out->turned[j] += out->vectors[i * d + j] * off;
    }
    return CST_OK;
}

static void spectrum_weights(const pool_spectrum *s, const cst_covariances *c, double lambda,
                             double *weights) {
    size_t d = (size_t)c->columns;
    for (size_t i = 0; i < d; i++) {
        weights[i] = c->center[i];
        for (size_t j = 0; j < d; j++)
            weights[i] += s->vectors[i * d + j] * s->turned[j] / (s->values[j] + lambda);
    }
}

/* Adds the held-out squared error of every grid point on fold `fold`. */
static cst_status cv_fold(cst_context *context, const cst_moments *moments, int32_t fold,
                          const cst_linear_pool_options *options, double *losses) {
    cst_covariances c;
    pool_spectrum s;
    CST_SCOPE(scope);
    CST_NEW(context, scope, double, weights, moments->columns);
    CST_TRY(cst_covariances_make(context, scope, moments, fold, options->power, &c));
    if (!options->nonnegative)
        CST_TRY(spectrum_make(context, scope, &c, &s));
    for (int32_t g = 0; g < GRID; g++) {
        double rows = 0;
        if (options->nonnegative)
            CST_TRY(cst_linear_pool_solve(context, &c, grid_at(g), true, weights));
        else
            spectrum_weights(&s, &c, grid_at(g), weights);
        losses[g] += cst_moments_loss(moments, fold, weights, intercept_of(&c, weights), &rows);
    }
    return CST_OK;
}

static cst_status lambda_by_cv(cst_context *context, const cst_moments *moments,
                               const cst_linear_pool_options *options, double *lambda) {
    double losses[GRID] = {0};
    int32_t best = GRID - 1;
    for (int32_t f = 0; f < moments->folds; f++)
        CST_TRY(cv_fold(context, moments, f, options, losses));
    for (int32_t g = GRID - 2; g >= 0; g--)
        if (losses[g] < losses[best]) /* of equal losses the larger lambda */
            best = g;
    *lambda = grid_at(best);
    return CST_OK;
}

/* Log evidence at one lambda with the noise at its best value, up to a constant: weights N(center,
 * noise / (n lambda)), flat intercept. */
static double log_evidence(const cst_covariances *c, const pool_spectrum *s, double start,
                           double lambda) {
    double objective = start;
    double logs = 0;
    for (int32_t j = 0; j < c->columns; j++) {
        objective -= s->turned[j] * s->turned[j] / (s->values[j] + lambda);
        logs += log1p(s->values[j] / lambda);
    }
    objective = fmax(objective, 1e-300);
    return -0.5 * (fmax(c->rows - 1, 0) * log(objective) + logs);
}

static cst_status lambda_by_evidence(cst_context *context, const cst_covariances *c,
                                     double *lambda) {
    pool_spectrum s;
    CST_SCOPE(scope);
    CST_TRY(spectrum_make(context, scope, c, &s));
    double start = cst_center_variance(c);
    int32_t best = GRID - 1;
    for (int32_t g = GRID - 2; g >= 0; g--)
        if (log_evidence(c, &s, start, grid_at(g)) > log_evidence(c, &s, start, grid_at(best)))
            best = g;
    double low = log(grid_at(best > 0 ? best - 1 : 0));
    double high = log(grid_at(best < GRID - 1 ? best + 1 : best));
    const double ratio = 0.61803398874989485;
    for (int step = 0; step < GOLDEN_STEPS; step++) {
        double a = high - ratio * (high - low);
        double b = low + ratio * (high - low);
        if (log_evidence(c, &s, start, exp(a)) >= log_evidence(c, &s, start, exp(b)))
            high = b;
        else
            low = a;
    }
    *lambda = exp(0.5 * (low + high));
    return CST_OK;
}

cst_status cst_linear_pool_fit(cst_context *context, cst_scope *scope, const cst_moments *moments,
                               const cst_linear_pool_options *options, cst_linear_pool *out) {
    cst_covariances c;
    cst_linear_pool_prior prior = options->prior;
    CST_SCOPE(pass);
    *out = (cst_linear_pool){0};
    CST_TAKE(context, scope, out->weights, moments->columns);
    CST_TRY(cst_covariances_make(context, pass, moments, -1, options->power, &c));
    if (prior == CST_LINEAR_POOL_CV && moments->folds < 2)
        prior = CST_LINEAR_POOL_EVIDENCE;
    if (prior == CST_LINEAR_POOL_CV)
        CST_TRY(lambda_by_cv(context, moments, options, &out->lambda));
    else if (prior == CST_LINEAR_POOL_EVIDENCE)
        CST_TRY(lambda_by_evidence(context, &c, &out->lambda));
    else
        out->lambda = options->precision * cst_center_variance(&c) / c.rows;
    CST_TRY(cst_linear_pool_solve(context, &c, out->lambda, options->nonnegative, out->weights));
    out->intercept = intercept_of(&c, out->weights);
    return CST_OK;
}
