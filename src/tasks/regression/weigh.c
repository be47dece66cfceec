/* The weights of a regression's meta-learners in its blend. See the header. */
#include "tasks/regression/regression.h"

#include "method/blend/blend.h"

#include <math.h>
#include <string.h>

static const double TWO_PI = 6.283185307179586476925;

/* Second moments [M][M] of the learners' residuals, each fold by the fits without it, per row. */
static cst_status residual_moments(cst_context *context, const cst_value_job *job, int32_t output,
                                   double *out, double *rows) {
    const cst_value_fit *fit = job->fit;
    size_t width = (size_t)fit->columns + 2;
    size_t m = (size_t)fit->learners;
    CST_SCOPE(scope);
    CST_NEW(context, scope, double, u, (m * width));
    *rows = 0;
    for (int32_t f = 0; f < fit->folds; f++) {
        const double *sum =
            cst_value_moments_of(job, f + 1, output)->sums + (size_t)f * width * width;
        for (size_t a = 0; a < m; a++) {
            const cst_value_one *one = cst_value_one_of(job, f + 1, output, (int32_t)a);
            double *row = u + a * width;
            for (size_t j = 0; j < width - 2; j++)
                row[j] = -one->weights[j];
            row[width - 2] = 1;
            row[width - 1] = -one->intercept;
        }
        *rows += sum[width * width - 1];
        for (size_t a = 0; a < m; a++)
            for (size_t b = 0; b < m; b++)
                for (size_t i = 0; i < width; i++) {
                    double product = 0;
                    for (size_t j = 0; j < width; j++)
                        product += sum[i * width + j] * u[b * width + j];
                    out[a * m + b] += u[a * width + i] * product;
                }
    }
    for (size_t a = 0; a < m * m; a++)
        out[a] /= *rows;
    return CST_OK;
}

/* The least squared error on the simplex, then `share` of it and the rest of `prior` (NULL: none);
 * learners with less than the least weight leave, and the others are weighed again. Those before
 * `first` have no part. moments: [m][m], prior and blend: [m]. */
static cst_status stack_learners(cst_context *context, double least, const double *moments,
                                 int32_t first, int32_t m, const double *prior, double share,
                                 double *blend) {
    int32_t in[CST_VALUE_LEARNERS_MAX];
    double part[CST_VALUE_LEARNERS_MAX * CST_VALUE_LEARNERS_MAX];
    double weights[CST_VALUE_LEARNERS_MAX];
    int32_t count = m - first;
    bool left = true;
    for (int32_t a = 0; a < count; a++)
        in[a] = first + a;
    while (left) {
        double sum = 0;
        for (int32_t a = 0; a < count; a++)
            for (int32_t b = 0; b < count; b++)
                part[a * count + b] = moments[in[a] * m + in[b]];
        CST_TRY(cst_blend_minimum_variance(context, count, part, false, weights));
        for (int32_t a = 0; a < count; a++)
            sum += prior ? prior[in[a]] : 0;
        double rest = sum > 0 ? (1 - share) / sum : 0;
        memset(blend, 0, (size_t)m * sizeof *blend);
        for (int32_t a = 0; a < count; a++)
            blend[in[a]] = prior && sum > 0 ? share * weights[a] + rest * prior[in[a]] : weights[a];
        int32_t kept = 0;
        for (int32_t a = 0; a < count; a++)
            if (blend[in[a]] >= least)
                in[kept++] = in[a];
        left = kept < count;
        count = kept;
    }
    return CST_OK;
}

static cst_status weigh(cst_context *context, const cst_value_job *job, int32_t output,
                        const double *moments, double rows) {
    cst_value_fit *fit = job->fit;
    int32_t m = fit->learners;
    double *blend = fit->blend + output * m;
    double *nll = fit->nll + output * m;
    double *logdet = fit->logdet + output * m;
    int32_t full = 0;
    double judged[CST_VALUE_LEARNERS_MAX];
    for (int32_t a = 0; a < m; a++) {
        double mse = fmax(moments[a * m + a], 1e-300);
        const cst_value_one *one = cst_value_one_of(job, 0, output, a);
        nll[a] = 0.5 * rows * (log(TWO_PI * mse) + 1);
        logdet[a] = one->logdet - (double)one->active * log(mse);
        full += !one->empty;
    }
    for (int32_t a = 0; a < m; a++) /* a missing Hessian must not pass for simplicity */
        judged[a] = full > 0 && cst_value_one_of(job, 0, output, a)->empty ? INFINITY : nll[a];
    const cst_blend_options *options = &job->settings->blend;
    cst_blend_evidence evidence = {
        .rows = (int64_t)rows, .members = m, .nll = judged, .logdet = logdet, .moments = moments};
    if (m == 1) {
        blend[0] = 1;
        return CST_OK;
    }
    if (options->rule == CST_BLEND_GREEDY) {
        cst_value_greedy(moments, m, 25, blend);
        return CST_OK;
    }
    if (options->rule == CST_BLEND_STACKING)
        return stack_learners(context, options->least, moments, 0, m, NULL, 1, blend);
    CST_TRY(cst_blend_weights_from(context, &evidence, options, blend));
    double left = 0;
    for (int32_t a = 0; a < m; a++) {
        blend[a] = fabs(blend[a]) < CST_NEGLIGIBLE_WEIGHT ? 0 : blend[a];
        left += blend[a];
    }
    for (int32_t a = 0; a < m; a++)
        blend[a] /= left;
    return CST_OK;
}

/* Blends the fits of every part, and the covariances of part 0. */
static void combine(const cst_value_job *job, int32_t output) {
    cst_value_fit *fit = job->fit;
    size_t columns = (size_t)fit->columns;
    size_t square = columns * columns;
    const double *covariances = job->covariances + (size_t)output * (size_t)fit->learners * square;
    const double *blend = fit->blend + output * fit->learners;
    double *covariance = fit->covariance + (size_t)output * square;
    memset(covariance, 0, square * sizeof *covariance);
    for (int32_t m = 0; m < fit->learners; m++)
        for (size_t i = 0; i < square; i++)
            covariance[i] += blend[m] * covariances[(size_t)m * square + i];
    for (int32_t part = 0; part <= fit->folds; part++) {
        size_t at = (size_t)part * (size_t)fit->outputs + (size_t)output;
        double *weights = fit->weights + at * columns;
        fit->intercept[at] = 0;
        memset(weights, 0, columns * sizeof *weights);
        for (int32_t m = 0; m < fit->learners; m++) {
            const cst_value_one *one = cst_value_one_of(job, part, output, m);
            fit->intercept[at] += blend[m] * one->intercept;
            for (size_t j = 0; j < columns; j++)
                weights[j] += blend[m] * one->weights[j];
        }
    }
}

/* Means of the design's columns over all rows. */
static void finish_output(const cst_value_job *job, int32_t output) {
    cst_value_fit *fit = job->fit;
    const cst_moments *moments = cst_value_moments_of(job, 0, output);
    size_t width = (size_t)moments->columns + 2;
    double rows = 0;
    double *center = fit->center + (size_t)output * (width - 2);
    for (int32_t f = 0; f < moments->folds; f++) {
        const double *one = moments->sums + ((size_t)f * width + width - 1) * width;
        rows += one[width - 1];
        for (size_t j = 0; j < width - 2; j++)
            center[j] += one[j];
    }
    for (size_t j = 0; j < width - 2; j++)
        center[j] /= rows;
}

/* ---- how far the blend is trusted ---- */

/* The blend before any row is seen, which few rows cannot improve on: mostly the linear pool, and
 * some of what bounds its weights. False where the linear pool is not among the learners. */
static bool prior_blend(const cst_value_fit *fit, double *prior) {
    double sum = 0;
    bool pool = false;
    for (int32_t m = 0; m < fit->learners; m++) {
        pool = pool || fit->kind[m] == CST_VALUE_LINEAR_POOL;
        prior[m] = fit->kind[m] == CST_VALUE_LINEAR_POOL        ? 0.6
                   : fit->kind[m] == CST_VALUE_MINIMUM_VARIANCE ? 0.2
                   : fit->kind[m] == CST_VALUE_CENTER           ? 0.2
                                                                : 0;
        sum += prior[m];
    }
    for (int32_t m = 0; pool && m < fit->learners; m++)
        prior[m] /= sum;
    return pool;
}

static double error_of(const double *weights, double intercept, const cst_value_block *block,
                       int64_t e, int32_t columns, double target) {
    double error = intercept - target;
    for (int32_t j = 0; j < columns; j++)
        error += weights[j] * block->design[j * block->stride + e];
    return error;
}

/* Held-out prediction of row i of a block less its target, by the fit without fold `fold`, whose
 * design the block has. */
static double held_error(const cst_value_fit *fit, const cst_value_block *block, int32_t fold,
                         int64_t i, int32_t output) {
    int64_t at = (int64_t)(fold + 1) * fit->outputs + output;
    return error_of(fit->weights + at * fit->columns, fit->intercept[at], block,
                    i * fit->outputs + output, fit->columns,
                    cst_value_block_target(block, i, output));
}

/* Sums over rows: of the weight and its square; of the gain times the weight, of that squared, and
 * of that times the weight. The gain is by how much the held-out squared error of the prior's blend
 * exceeds that of the blend. */
enum { GAIN_ROWS, GAIN_SQUARES, GAIN_SUM, GAIN_SQUARE, GAIN_WEIGHT, GAIN_WIDTH };

/* Adds the gain of one row and output, by the fits without fold `fold`. */
static void add_gain(const cst_value_job *job, const cst_value_block *block, const double *prior,
                     int32_t fold, int64_t i, int32_t d, double *to) {
    const cst_value_fit *fit = job->fit;
    double y = cst_value_block_target(block, i, d);
    double before = 0;
    for (int32_t m = 0; m < fit->learners; m++) {
        const cst_value_one *one = cst_value_one_of(job, fold + 1, d, m);
        if (prior[m] > 0)
            before += prior[m] * error_of(one->weights, one->intercept, block, i * fit->outputs + d,
                                          fit->columns, y);
    }
    double blended = held_error(fit, block, fold, i, d);
    double weight = cst_view_weight(job->view, block->first + i);
    double gain = weight * (before * before - blended * blended);
    to[GAIN_ROWS] += weight;
    to[GAIN_SQUARES] += weight * weight;
    to[GAIN_SUM] += gain;
    to[GAIN_SQUARE] += gain * gain;
    to[GAIN_WEIGHT] += gain * weight;
}

typedef struct gain_job {
    const cst_value_job *job;
    const double *prior; /* [outputs][learners] */
} gain_job;

/* sum: [outputs][GAIN_WIDTH]. */
static cst_status gain_block(cst_context *context, void *user, int64_t index, double *sum) {
    const gain_job *gain = user;
    const cst_value_job *job = gain->job;
    const cst_value_fit *fit = job->fit;
    cst_value_block block;
    CST_SCOPE(scope);
    CST_TRY(cst_value_block_open(context, scope, job->view, job->scaling, &fit->gates[0], index,
                                 &block));
    for (int32_t f = 0; f < fit->folds; f++) {
        if (fit->gate_count > 1)
            cst_value_block_design(&block, cst_value_gate(fit, f + 1));
        for (int64_t i = 0; i < block.count; i++)
            for (int32_t d = 0; job->folds[block.first + i] == f && d < fit->outputs; d++)
                add_gain(job, &block, gain->prior + d * fit->learners, f, i, d,
                         sum + (size_t)d * GAIN_WIDTH);
    }
    return CST_OK;
}

/* The share of a gain that is not chance: 1 - 1 / z^2, z the gain over its standard error. */
static double trusted(const double *sum) {
    double gain = sum[GAIN_SUM] / sum[GAIN_ROWS];
    double spread = sum[GAIN_SQUARE] - gain * (2 * sum[GAIN_WEIGHT] - gain * sum[GAIN_SQUARES]);
    double chance = fmax(spread, 0) / (sum[GAIN_ROWS] * sum[GAIN_ROWS]);
    return gain > 0 ? fmax(1 - chance / (gain * gain), 0) : 0;
}

/* Stacks the learners from `first` on, and goes back to the prior's blend by the share of the gain
 * that chance alone brings: all the way where no more than `least` is trusted. */
static cst_status stack_trusted(cst_context *context, const cst_value_job *job, int32_t first,
                                const double *prior, double least) {
    cst_value_fit *fit = job->fit;
    int32_t m = fit->learners;
    size_t width = (size_t)GAIN_WIDTH * (size_t)fit->outputs;
    gain_job gain = {job, prior};
    CST_SCOPE(scope);
    CST_NEW(context, scope, double, sums, width);
    for (int pass = 0; pass < 2; pass++) {
        for (int32_t d = 0; d < fit->outputs; d++) {
            const double *own = prior + d * m;
            double share = pass ? trusted(sums + (size_t)d * GAIN_WIDTH) : 1;
            double *blend = fit->blend + d * m;
            if (share > least)
                CST_TRY(stack_learners(context, job->settings->blend.least,
                                       job->moments_of_residuals + d * m * m, first, m,
                                       pass ? own : NULL, share, blend));
            else
                memcpy(blend, own, (size_t)m * sizeof *blend);
            combine(job, d);
        }
        if (pass == 0)
            CST_TRY(cst_reduce_blocks(context, cst_block_count(job->view->rows), width, gain_block,
                                      &gain, sums));
    }
    return CST_OK;
}

/* Learners on the aggregators join only where their gain is above two standard errors. */
static const double JOINING = 1 - 1 / 4.0;

static cst_status trust_all(cst_context *context, cst_value_job *job) {
    cst_value_fit *fit = job->fit;
    int32_t m = fit->learners;
    int32_t gated = 0;
    CST_SCOPE(scope);
    CST_NEW(context, scope, double, prior, fit->outputs *m);
    while (gated < m && fit->kind[gated] < CST_VALUE_LINEAR_POOL)
        gated++;
    for (int32_t d = 0; d < fit->outputs; d++)
        if (job->settings->blend.rule != CST_BLEND_STACKING || m < 2 ||
            !prior_blend(fit, prior + d * m))
            return CST_OK;
    CST_TRY(stack_trusted(context, job, gated, prior, 0));
    memcpy(prior, fit->blend, (size_t)(fit->outputs * m) * sizeof *prior);
    return gated ? stack_trusted(context, job, 0, prior, JOINING) : CST_OK;
}

/* ---- losses of rows ---- */

/* Squared error of each row by the fit without its fold, its mean over the outputs, times the row's
 * weight. */
static cst_status loss_block(cst_context *context, void *user, int64_t index) {
    const cst_value_job *job = user;
    const cst_value_fit *fit = job->fit;
    cst_value_block block;
    CST_SCOPE(scope);
    CST_TRY(cst_value_block_open(context, scope, job->view, job->scaling, &fit->gates[0], index,
                                 &block));
    for (int32_t f = 0; f < fit->folds; f++) {
        if (fit->gate_count > 1)
            cst_value_block_design(&block, cst_value_gate(fit, f + 1));
        for (int64_t i = 0; i < block.count; i++) {
            double sum = 0;
            if (job->folds[block.first + i] != f)
                continue;
            for (int32_t d = 0; d < fit->outputs; d++) {
                double error = held_error(fit, &block, f, i, d);
                sum += error * error / fit->outputs;
            }
            job->losses[block.first + i] = cst_view_weight(job->view, block.first + i) * sum;
        }
    }
    return CST_OK;
}

cst_status cst_value_weigh(cst_context *context, cst_value_job *job) {
    const cst_value_fit *fit = job->fit;
    int64_t rows = job->view->rows;
    for (int32_t d = 0; d < fit->outputs; d++) {
        double count = 0;
        double *moments = job->moments_of_residuals + d * fit->learners * fit->learners;
        CST_TRY(residual_moments(context, job, d, moments, &count));
        CST_TRY(weigh(context, job, d, moments, count));
        combine(job, d);
    }
    CST_TRY(trust_all(context, job));
    for (int32_t d = 0; d < fit->outputs; d++)
        finish_output(job, d);
    if (!job->losses)
        return CST_OK;
    const cst_share filled = cst_share_rows(job->losses, rows, sizeof *job->losses);
    return cst_parallel_fill(context, cst_block_count(rows), loss_block, job, &filled, 1);
}
