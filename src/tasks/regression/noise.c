/* The variance of a prediction and the quantiles of its intervals. After stage S4 of a regression,
 * in one pass over the rows and some over their residuals. docs/regression.md. */
#include "tasks/regression/regression.h"

#include <float.h>
#include <math.h>
#include <string.h>

/* Shares of the noise that may grow with the disagreement: 0, 1/20, ..., 19/20. */
enum { SHARES = 20 };

static double share_at(int32_t index) {
    return (double)index / SHARES;
}

typedef struct noise_job {
    const cst_view *view;
    const cst_scaling *scaling;
    const int32_t *folds;
    const cst_value_fit *fit;
    cst_values *values;
    double *residual; /* [rows][outputs], units of the scaling; then their scores */
    float *doubt;     /* [rows][outputs]: variance of the parameters over the noise */
    float *spread;    /* [rows][outputs]: variance of the members' predictions */
    int32_t output;   /* of the sums below */
} noise_job;

/* ---- residuals ---- */

/* Predicts the rows of one fold of a block by the fit without it. */
static void fold_residuals(const noise_job *job, const cst_value_block *block, int32_t fold,
                           double *x) {
    const cst_value_fit *fit = job->fit;
    int32_t outputs = fit->outputs;
    for (int64_t e = 0; e < block->stride; e++) {
        int64_t i = e / outputs;
        int32_t d = (int32_t)(e % outputs);
        if (job->folds[block->first + i] != fold)
            continue;
        size_t at = (size_t)(fold + 1) * (size_t)outputs + (size_t)d;
        const double *weights = fit->weights + at * (size_t)fit->columns;
        double mean = fit->intercept[at];
        for (int32_t j = 0; j < fit->columns; j++) {
            x[j] = block->design[j * block->stride + e];
            mean += weights[j] * x[j];
        }
        int64_t to = block->first * outputs + e;
        job->residual[to] = cst_value_block_target(block, i, d) - mean;
    }
}

/* What the design of part 0 says of every row: the members' disagreement, the parameters' doubt. */
static void block_doubts(const noise_job *job, const cst_value_block *block, double *x) {
    const cst_value_fit *fit = job->fit;
    for (int64_t e = 0; e < block->stride; e++) {
        int64_t to = block->first * fit->outputs + e;
        for (int32_t j = 0; j < fit->columns; j++)
            x[j] = block->design[j * block->stride + e];
        double unit = cst_values_unit(job->values, (int32_t)(e % fit->outputs), x, 0);
        job->spread[to] = (float)cst_value_block_spread(block, e);
        job->doubt[to] = (float)fmax(unit - 1, 0);
    }
}

static cst_status residuals_block(cst_context *context, void *user, int64_t index) {
    const noise_job *job = user;
    const cst_value_fit *fit = job->fit;
    cst_value_block block;
    CST_SCOPE(scope);
    CST_NEW(context, scope, double, x, fit->columns);
    CST_TRY(cst_value_block_open(context, scope, job->view, job->scaling, &fit->gates[0], index,
                                 &block));
    block_doubts(job, &block, x);
    for (int32_t f = 0; f < fit->folds; f++) {
        if (fit->gate_count > 1)
            cst_value_block_design(&block, cst_value_gate(fit, f + 1));
        fold_residuals(job, &block, f, x);
    }
    return CST_OK;
}

/* ---- noise and share ---- */

enum { SUM_RATIO = 0, SUM_LOG = 1, SUM_ROWS = 2, SUM_WIDTH = 3 };

static cst_status spread_block(cst_context *context, void *user, int64_t index, double *sum) {
    (void)context;
    const noise_job *job = user;
    int64_t first = cst_block_first(index);
    int64_t end = first + cst_block_size(job->view->rows, index);
    for (int64_t i = first; i < end; i++)
        sum[0] += cst_view_weight(job->view, i) *
                  (double)job->spread[i * job->fit->outputs + job->output];
    return CST_OK;
}

/* Variance over noise of a row with a share of its own. */
static double unit_of(const noise_job *job, int64_t at, int32_t output, double share) {
    double spread = (double)job->spread[at] / job->values->mean_spread[output];
    return fmax(1 - share + share * spread + (double)job->doubt[at], 1e-12);
}

/* For each fold and share the sums that the Gaussian likelihood is made of. */
static cst_status share_block(cst_context *context, void *user, int64_t index, double *sum) {
    (void)context;
    const noise_job *job = user;
    int64_t first = cst_block_first(index);
    int64_t end = first + cst_block_size(job->view->rows, index);
    for (int64_t i = first; i < end; i++) {
        int64_t at = i * job->fit->outputs + job->output;
        double square = job->residual[at] * job->residual[at];
        double weight = cst_view_weight(job->view, i);
        double *fold = sum + job->folds[i] * SHARES * SUM_WIDTH;
        for (int32_t s = 0; s < SHARES; s++) {
            double unit = unit_of(job, at, job->output, share_at(s));
            fold[s * SUM_WIDTH + SUM_RATIO] += weight * (square / unit);
            fold[s * SUM_WIDTH + SUM_LOG] += weight * log(unit);
            fold[s * SUM_WIDTH + SUM_ROWS] += weight;
        }
    }
    return CST_OK;
}

/* Sums of a share over every fold but one (negative: all). */
static void share_sums(const double *sums, int32_t folds, int32_t without, int32_t share,
                       double out[SUM_WIDTH]) {
    memset(out, 0, SUM_WIDTH * sizeof *out);
    for (int32_t f = 0; f < folds; f++)
        for (int j = 0; f != without && j < SUM_WIDTH; j++)
            out[j] += sums[(f * SHARES + share) * SUM_WIDTH + j];
}

/* The most likely share without a fold, the noise at its best value for each. */
static int32_t best_share(const double *sums, int32_t folds, int32_t without, double *noise) {
    int32_t best = 0;
    double least = INFINITY;
    for (int32_t s = 0; s < SHARES; s++) {
        double t[SUM_WIDTH];
        share_sums(sums, folds, without, s, t);
        double at = fmax(t[SUM_RATIO] / t[SUM_ROWS], DBL_MIN);
        double loss = log(at) + t[SUM_LOG] / t[SUM_ROWS];
        if (loss < least) {
            least = loss;
            best = s;
            *noise = at;
        }
    }
    return best;
}

/* Twice the total NLL of a fold, up to a constant, by share and noise from the other folds. */
static double held_loss(const double *sums, int32_t folds, int32_t fold, int32_t share) {
    double in[SUM_WIDTH];
    const double *out = sums + (fold * SHARES + share) * SUM_WIDTH;
    share_sums(sums, folds, fold, share, in);
    double noise = fmax(in[SUM_RATIO] / in[SUM_ROWS], DBL_MIN);
    return out[SUM_ROWS] * log(noise) + out[SUM_LOG] + out[SUM_RATIO] / noise;
}

/* Whether the noise should grow with the disagreement: where rows that a share was not chosen on
 * say so. */
static bool disagreement_helps(const double *sums, int32_t folds) {
    double gain = 0;
    for (int32_t f = 0; f < folds; f++) {
        double noise = 0;
        int32_t share = best_share(sums, folds, f, &noise);
        gain += held_loss(sums, folds, f, 0) - held_loss(sums, folds, f, share);
    }
    return gain > 0;
}

/* ---- quantiles ---- */

typedef struct weighted_score {
    double score;
    double weight;
} weighted_score;

CST_BY(by_score, weighted_score, CST_UP(score), 0, 0)

/* Residuals of a block become |residual| / standard deviation. */
static cst_status score_block(cst_context *context, void *user, int64_t index) {
    (void)context;
    noise_job *job = user;
    int64_t end = cst_block_first(index) + cst_block_size(job->view->rows, index);
    for (int64_t i = cst_block_first(index); i < end; i++)
        for (int32_t d = 0; d < job->fit->outputs; d++) {
            int64_t at = i * job->fit->outputs + d;
            double unit = unit_of(job, at, d, job->values->share[d]);
            job->residual[at] = fabs(job->residual[at]) / sqrt(job->values->noise[d] * unit);
        }
    return CST_OK;
}

/* Of these scores, with the correction of conformal prediction for n rows: the ceil((n + 1)
 * level)-th smallest; of rows with weights the least that brings the weight to (n + 1) level, their
 * mean being 1. */
static cst_status put_quantiles(cst_context *context, const noise_job *job, int32_t d) {
    int64_t rows = job->view->rows;
    double total = cst_view_weight_sum(job->view);
    CST_SCOPE(scope);
    CST_NEW(context, scope, weighted_score, scores, rows);
    for (int64_t i = 0; i < rows; i++) {
        cst_trim_item(context, i);
        scores[i].score = job->residual[i * job->fit->outputs + d];
        scores[i].weight = cst_view_weight(job->view, i);
    }
    CST_TRY(cst_sort(context, scores, (size_t)rows, sizeof *scores, by_score));
    for (int32_t q = 0; q < CST_VALUE_LEVELS; q++) {
        double wanted = (total + 1) * cst_value_level(q) - 1e-9;
        double reached = scores[0].weight;
        int64_t at = 0;
        while (at + 1 < rows && reached < wanted)
            reached += scores[++at].weight;
        job->values->quantile[d * CST_VALUE_LEVELS + q] = scores[at].score;
    }
    return CST_OK;
}

/* Noise and share of one output; the noise in units of the scaling. */
static cst_status fit_output(cst_context *context, noise_job *job, cst_variance_rule rule) {
    int32_t folds = job->fit->folds;
    int32_t d = job->output;
    int64_t blocks = cst_block_count(job->view->rows);
    cst_values *values = job->values;
    size_t width = (size_t)folds * SHARES * SUM_WIDTH;
    double spread = 0;
    double noise = 0;
    double total[SUM_WIDTH];
    CST_SCOPE(scope);
    CST_NEW(context, scope, double, sums, width);
    CST_TRY(cst_reduce_blocks(context, blocks, 1, spread_block, job, &spread));
    spread /= cst_view_weight_sum(job->view);
    bool spreads = spread > 1e-12 && job->view->members > 1;
    values->mean_spread[d] = spreads ? spread : 1;
    CST_TRY(cst_reduce_blocks(context, blocks, width, share_block, job, sums));
    int32_t share = best_share(sums, folds, -1, &noise);
    bool grows = spreads && rule != CST_VARIANCE_CONSTANT &&
                 (rule == CST_VARIANCE_DISAGREEMENT || disagreement_helps(sums, folds));
    share_sums(sums, folds, -1, grows ? share : 0, total);
    values->share[d] = grows ? share_at(share) : 0;
    values->noise[d] = fmax(total[SUM_RATIO] / total[SUM_ROWS], DBL_MIN);
    return CST_OK;
}

/* ---- everything ---- */

cst_status cst_values_start(cst_context *context, cst_scope *scope, const cst_scaling *scaling,
                            int32_t columns, cst_values **out) {
    CST_TRY(cst_values_take(context, scope, scaling->outputs, columns, out));
    cst_values *values = *out;
    for (int32_t d = 0; d < scaling->outputs; d++) {
        values->scaling.location[d] = scaling->location[d];
        values->scaling.scale[d] = scaling->scale[d];
        values->mean_spread[d] = 1;
    }
    return CST_OK;
}

cst_status cst_values_fit(cst_context *context, cst_scope *made, const cst_view *view,
                          const cst_scaling *scaling, const int32_t *folds,
                          const cst_value_fit *fit, cst_variance_rule rule, bool conformal,
                          cst_values **out) {
    size_t cells = 0;
    size_t centers = (size_t)fit->outputs * (size_t)fit->columns;
    int64_t blocks = cst_block_count(view->rows);
    noise_job job = {.view = view, .scaling = scaling, .folds = folds, .fit = fit};
    CST_SCOPE(scope);
    if (!cst_size_mul((size_t)view->rows, (size_t)view->classes, &cells))
        return cst_fail(context, CST_ERROR_LIMIT, "too many values");
    CST_TAKE(context, scope, job.residual, cells);
    CST_TAKE(context, scope, job.doubt, cells);
    CST_TAKE(context, scope, job.spread, cells);
    CST_TRY(cst_values_start(context, made, scaling, fit->columns, out));
    cst_values *values = job.values = *out;
    values->conformal = conformal;
    for (int32_t d = 0; d < fit->outputs; d++)
        values->offset[d] = 1 / cst_view_effective_rows(view);
    memcpy(values->center, fit->center, centers * sizeof(double));
    memcpy(values->covariance, fit->covariance, centers * (size_t)fit->columns * sizeof(double));
    CST_TRY(cst_parallel_own(context, blocks, 1, residuals_block, &job));
    for (job.output = 0; job.output < fit->outputs; job.output++)
        CST_TRY(fit_output(context, &job, rule));
    const cst_share scores =
        cst_share_rows(job.residual, view->rows, (size_t)fit->outputs * sizeof *job.residual);
    CST_TRY(cst_parallel_fill(context, blocks, score_block, &job, &scores, 1));
    for (int32_t d = 0; d < fit->outputs; d++) {
        CST_TRY(put_quantiles(context, &job, d));
        values->noise[d] *= scaling->scale[d] * scaling->scale[d];
    }
    return CST_OK;
}
