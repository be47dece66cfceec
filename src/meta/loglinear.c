/*
 * The log-linear pool: log tables, Newton fit, evidence for the prior precisions.
 * Stage S4 (a meta-learner) and the space of loss-aware selection.
 */
#include "meta/loglinear.h"

#include "la/la.h"

#include <math.h>
#include <string.h>

/* Classes whose probability is below this add nothing to gradient and Hessian: what is left out of
 * a row's gradient is at most C * 1e-10 times the spread of its logs (at most 14 after mixing with
 * 1e-6). */
static const double NEGLIGIBLE = 1e-10;

/* ---- log tables ------------------------------------------------------------------------------ */

float cst_mixed_log(float probability, double mix, int32_t classes) {
    return (float)log((1 - mix) * (double)probability + mix / (double)classes);
}

typedef struct table_job {
    const cst_view *view;
    const double *mix;
    cst_logtable *table;
} table_job;

static cst_status table_block(cst_context *worker, void *user, int64_t block) {
    const table_job *job = user;
    const cst_view *view = job->view;
    int64_t first = cst_block_first(block);
    int64_t count = cst_block_size(view->rows, block);
    size_t members = (size_t)view->members;
    size_t cells = (size_t)count * (size_t)view->classes;
    float *scratch = cst_alloc(worker, cells, sizeof *scratch);
    if (!scratch)
        return CST_ERROR_MEMORY;
    float *values = job->table->values + (size_t)first * (size_t)view->classes * members;
    cst_status status = CST_OK;
    for (int32_t k = 0; status == CST_OK && k < view->members; k++) {
        const float *rows = NULL;
        status = cst_view_rows(worker, view, k, first, count, scratch, &rows);
        for (size_t i = 0; status == CST_OK && i < cells; i++)
            values[i * members + (size_t)k] = cst_mixed_log(rows[i], job->mix[k], view->classes);
    }
    for (int64_t i = 0; job->table->labels && i < count; i++)
        job->table->labels[first + i] = cst_view_label(view, first + i);
    cst_free(worker, scratch);
    return status;
}

cst_status cst_logtable_build(cst_context *context, const cst_view *view, const double *mix,
                              cst_logtable *out) {
    *out = (cst_logtable){.rows = view->rows, .classes = view->classes, .members = view->members};
    size_t count = 0;
    if (!cst_size_mul((size_t)view->rows, (size_t)view->classes, &count) ||
        !cst_size_mul(count, (size_t)view->members, &count))
        return cst_fail(context, CST_ERROR_LIMIT, "the log table of %lld rows overflows",
                        (long long)view->rows);
    out->values = cst_alloc(context, count, sizeof *out->values);
    if (view->labels)
        out->labels = cst_alloc(context, (size_t)view->rows, sizeof *out->labels);
    cst_status status = out->values && (out->labels || !view->labels) ? CST_OK : CST_ERROR_MEMORY;
    table_job job = {.view = view, .mix = mix, .table = out};
    if (status == CST_OK)
        status = cst_parallel_for(context, cst_block_count(view->rows), table_block, &job);
    if (status != CST_OK)
        cst_logtable_free(context, out);
    return status;
}

void cst_logtable_free(cst_context *context, cst_logtable *table) {
    cst_free(context, table->values);
    cst_free(context, table->labels);
    *table = (cst_logtable){0};
}

/* ---- mixing with the uniform distribution ---------------------------------------------------- */

static const double MIX_GRID[] = {1e-6, 1e-5, 1e-4, 1e-3, 3e-3, 1e-2, 3e-2, 1e-1};
enum { MIX_COUNT = sizeof MIX_GRID / sizeof MIX_GRID[0] };

static cst_status mix_block(cst_context *worker, void *user, int64_t block, double *sum) {
    const cst_view *view = user;
    int64_t first = cst_block_first(block);
    int64_t count = cst_block_size(view->rows, block);
    size_t classes = (size_t)view->classes;
    float *scratch = cst_alloc(worker, (size_t)count * classes, sizeof *scratch);
    if (!scratch)
        return CST_ERROR_MEMORY;
    cst_status status = CST_OK;
    for (int32_t k = 0; status == CST_OK && k < view->members; k++) {
        const float *rows = NULL;
        status = cst_view_rows(worker, view, k, first, count, scratch, &rows);
        for (int64_t i = 0; status == CST_OK && i < count; i++) {
            double p = (double)rows[(size_t)i * classes + (size_t)cst_view_label(view, first + i)];
            for (int g = 0; g < MIX_COUNT; g++)
                sum[k * MIX_COUNT + g] -=
                    log((1 - MIX_GRID[g]) * p + MIX_GRID[g] / (double)view->classes);
        }
    }
    cst_free(worker, scratch);
    return status;
}

cst_status cst_uniform_mix_fit(cst_context *context, const cst_view *view, double *mix) {
    size_t width = (size_t)view->members * MIX_COUNT;
    double *loss = cst_alloc(context, width, sizeof *loss);
    if (!loss)
        return CST_ERROR_MEMORY;
    cst_view mutable_view = *view;
    cst_status status = cst_reduce_blocks(context, cst_block_count(view->rows), width, mix_block,
                                          &mutable_view, loss);
    for (int32_t k = 0; status == CST_OK && k < view->members; k++) {
        int best = 0;
        for (int g = 1; g < MIX_COUNT; g++)
            if (loss[k * MIX_COUNT + g] < loss[k * MIX_COUNT + best])
                best = g;
        mix[k] = MIX_GRID[best];
    }
    cst_free(context, loss);
    return status;
}

cst_status cst_logtable_pair(cst_context *context, const cst_view *fit, const cst_view *judge,
                             cst_logtable *table, cst_logtable *held) {
    double *mix = cst_alloc(context, (size_t)fit->members, sizeof *mix);
    cst_status status = mix ? cst_uniform_mix_fit(context, fit, mix) : CST_ERROR_MEMORY;
    if (status == CST_OK)
        status = cst_logtable_build(context, fit, mix, table);
    if (status == CST_OK && judge)
        status = cst_logtable_build(context, judge, mix, held);
    cst_free(context, mix);
    return status;
}

/* ---- one pass: loss, gradient, Hessian ------------------------------------------------------- */

typedef struct pass {
    const cst_logtable *table;
    const int32_t *active;
    int32_t count;         /* K_eff */
    int32_t parameters;    /* d */
    const double *weights; /* [count] */
    const double *bias;    /* [classes] */
    double *per_row;       /* [rows] or NULL: the loss alone is wanted per row */
    bool derivatives;
} pass;

typedef struct row_scratch {
    double *p;      /* [classes] */
    double *logs;   /* [classes][count], the classes that matter, packed */
    double *mean;   /* [count] */
    int32_t *which; /* [classes]: class of a packed row */
} row_scratch;

static double row_scores(const pass *job, const float *logs, double *z) {
    const cst_logtable *table = job->table;
    double top = -INFINITY;
    for (int32_t c = 0; c < table->classes; c++) {
        const float *column = logs + (size_t)c * (size_t)table->members;
        double score = job->bias ? job->bias[c] : 0;
        for (int32_t j = 0; j < job->count; j++)
            score += job->weights[j] * (double)column[job->active[j]];
        z[c] = score;
        if (score > top)
            top = score;
    }
    return top;
}

/* Adds one row's share of the gradient (sum[1..d]) and of the Hessian's lower triangle (then d x
 * d). */
static void row_derivatives(const pass *job, const float *logs, int32_t label, row_scratch *s,
                            double *sum) {
    int32_t k = job->count;
    size_t d = (size_t)job->parameters;
    double *gradient = sum + 1;
    double *hessian = sum + 1 + d;
    bool bias = job->parameters > k;
    int32_t packed = 0;
    memset(s->mean, 0, (size_t)k * sizeof *s->mean);
    for (int32_t c = 0; c < job->table->classes; c++) {
        double p = s->p[c];
        if (p < NEGLIGIBLE && c != label)
            continue;
        double residual = p - (c == label);
        const float *column = logs + (size_t)c * (size_t)job->table->members;
        double *out = s->logs + (size_t)packed * (size_t)k;
        for (int32_t j = 0; j < k; j++) {
            out[j] = (double)column[job->active[j]];
            gradient[j] += residual * out[j];
            s->mean[j] += p * out[j];
        }
        if (bias)
            gradient[k + c] += residual;
        s->which[packed++] = c;
    }
    for (int32_t q = 0; q < packed; q++) {
        int32_t c = s->which[q];
        double p = s->p[c];
        double *row = s->logs + (size_t)q * (size_t)k;
        for (int32_t j = 0; j < k; j++)
            row[j] -= s->mean[j];
        for (int32_t j = 0; j < k; j++) {
            double scaled = p * row[j];
            double *to = hessian + (size_t)j * d;
            for (int32_t l = 0; l <= j; l++)
                to[l] += scaled * row[l];
        }
        if (!bias)
            continue;
        double *to = hessian + (size_t)(k + c) * d;
        for (int32_t j = 0; j < k; j++)
            to[j] += p * row[j];
        to[k + c] += p;
        for (int32_t r = 0; r <= q; r++)
            to[k + s->which[r]] -= p * s->p[s->which[r]];
    }
}

static cst_status pass_block(cst_context *worker, void *user, int64_t block, double *sum) {
    const pass *job = user;
    const cst_logtable *table = job->table;
    int64_t first = cst_block_first(block);
    int64_t count = cst_block_size(table->rows, block);
    size_t classes = (size_t)table->classes;
    size_t stride = classes * (size_t)table->members;
    size_t packed = job->derivatives ? classes * (size_t)job->count : 0;
    double *memory = cst_alloc(worker, classes + packed + (size_t)job->count, sizeof *memory);
    int32_t *which = cst_alloc(worker, classes, sizeof *which);
    cst_status status = memory && which ? CST_OK : CST_ERROR_MEMORY;
    if (status == CST_OK) {
        row_scratch s = {.p = memory,
                         .logs = memory + classes + job->count,
                         .mean = memory + classes,
                         .which = which};
        for (int64_t i = first; i < first + count; i++) {
            const float *logs = table->values + (size_t)i * stride;
            int32_t label = table->labels[i];
            double top = row_scores(job, logs, s.p);
            double score = s.p[label];
            double total = 0;
            for (size_t c = 0; c < classes; c++) {
                s.p[c] = exp(s.p[c] - top);
                total += s.p[c];
            }
            double loss = top + log(total) - score;
            sum[0] += loss;
            if (job->per_row)
                job->per_row[i] = loss;
            if (!job->derivatives)
                continue;
            for (size_t c = 0; c < classes; c++)
                s.p[c] /= total;
            row_derivatives(job, logs, label, &s, sum);
        }
    }
    cst_free(worker, memory);
    cst_free(worker, which);
    return status;
}

cst_status cst_loglinear_loss(cst_context *context, const cst_logtable *table,
                              const int32_t *active, int32_t count, const double *weights,
                              const double *bias, double *mean, double *per_row) {
    pass job = {.table = table,
                .active = active,
                .count = count,
                .weights = weights,
                .bias = bias,
                .per_row = per_row};
    double total = 0;
    cst_status status =
        cst_reduce_blocks(context, cst_block_count(table->rows), 1, pass_block, &job, &total);
    *mean = table->rows > 0 ? total / (double)table->rows : 0;
    return status;
}

void cst_loglinear_row(const float *logs, int32_t classes, int32_t stride, const int32_t *active,
                       int32_t count, const double *weights, const double *bias, double *out) {
    cst_logtable table = {.classes = classes, .members = stride};
    pass job = {
        .table = &table, .active = active, .count = count, .weights = weights, .bias = bias};
    double top = row_scores(&job, logs, out);
    double total = 0;
    for (int32_t c = 0; c < classes; c++) {
        out[c] = exp(out[c] - top);
        total += out[c];
    }
    for (int32_t c = 0; c < classes; c++)
        out[c] /= total;
}

/* ---- Newton ---------------------------------------------------------------------------------- */

typedef struct newton {
    const cst_logtable *table;
    const int32_t *active;
    int32_t count;
    int32_t parameters;
    double center;
    double prior_weights;
    double prior_scale;
    double prior_bias;
    double *theta;   /* [d]: weights, then biases */
    double *trial;   /* [d] */
    double *step;    /* [d] */
    double *sum;     /* [1 + d + d*d] of the present point */
    double *sum_new; /* the same of the trial point */
    double *factor;  /* [d*d] */
    double value;    /* penalised loss at theta */
} newton;

/* Mean over members of w_k - center: how far the total scale of the weights is from the prior's. */
static double mean_offset(const newton *s, const double *theta) {
    double sum = 0;
    for (int32_t j = 0; j < s->count; j++)
        sum += theta[j] - s->center;
    return sum / (double)s->count;
}

/* Half of: alpha |deviations from the common scale|^2 + alpha_0 K (common offset)^2 + alpha_b
 * |b|^2. */
static double prior_value(const newton *s, const double *theta) {
    double common = mean_offset(s, theta);
    double weights = 0;
    double bias = 0;
    for (int32_t j = 0; j < s->count; j++) {
        double deviation = theta[j] - s->center - common;
        weights += deviation * deviation;
    }
    for (int32_t j = s->count; j < s->parameters; j++)
        bias += theta[j] * theta[j];
    return 0.5 * (s->prior_weights * weights + s->prior_scale * (double)s->count * common * common +
                  s->prior_bias * bias);
}

/* Entry (i, j) of the priors' precision matrix. */
static double prior_precision(const newton *s, size_t i, size_t j) {
    size_t k = (size_t)s->count;
    if (i >= k || j >= k)
        return i == j ? s->prior_bias : 0;
    return (i == j ? s->prior_weights : 0) + (s->prior_scale - s->prior_weights) / (double)k;
}

static cst_status evaluate(cst_context *context, const newton *s, const double *theta,
                           double *sum) {
    size_t d = (size_t)s->parameters;
    pass job = {.table = s->table,
                .active = s->active,
                .count = s->count,
                .parameters = s->parameters,
                .weights = theta,
                .bias = s->parameters > s->count ? theta + s->count : NULL,
                .derivatives = true};
    return cst_reduce_blocks(context, cst_block_count(s->table->rows), 1 + d + d * d, pass_block,
                             &job, sum);
}

/* Penalised gradient in step, Cholesky factor of the penalised Hessian, Newton step; returns the
 * decrement. */
static cst_status newton_step(cst_context *context, newton *s, double *decrement) {
    size_t d = (size_t)s->parameters;
    const double *gradient = s->sum + 1;
    const double *hessian = s->sum + 1 + d;
    memcpy(s->factor, hessian, d * d * sizeof *s->factor);
    double slope[1] = {0};
    double common = mean_offset(s, s->theta);
    for (size_t j = 0; j < d; j++) {
        bool weight = j < (size_t)s->count;
        double pull =
            weight ? s->prior_weights * (s->theta[j] - s->center - common) + s->prior_scale * common
                   : s->prior_bias * s->theta[j];
        s->step[j] = gradient[j] + pull;
        for (size_t i = j; i < d; i++)
            s->factor[i * d + j] += prior_precision(s, i, j);
    }
    cst_status status = cst_cholesky(context, (int64_t)d, s->factor);
    if (status != CST_OK)
        return status;
    memcpy(s->trial, s->step, d * sizeof *s->trial);
    cst_cholesky_solve((int64_t)d, s->factor, s->step);
    for (size_t j = 0; j < d; j++)
        slope[0] += s->trial[j] * s->step[j];
    *decrement = 0.5 * slope[0];
    return CST_OK;
}

/* Newton with step halving until the decrement is below the tolerance. */
static cst_status newton_run(cst_context *context, newton *s, double tolerance, int iterations,
                             double *decrement, int *taken) {
    size_t d = (size_t)s->parameters;
    cst_status status = evaluate(context, s, s->theta, s->sum);
    s->value = s->sum[0] + prior_value(s, s->theta);
    for (int i = 0; status == CST_OK; i++) {
        status = newton_step(context, s, decrement);
        if (status != CST_OK || *decrement <= tolerance || i >= iterations)
            break;
        ++*taken;
        bool moved = false;
        for (double t = 1; status == CST_OK && t > 1e-8 && !moved; t *= 0.5) {
            for (size_t j = 0; j < d; j++)
                s->trial[j] = s->theta[j] - t * s->step[j];
            status = evaluate(context, s, s->trial, s->sum_new);
            double value = s->sum_new[0] + prior_value(s, s->trial);
            moved = value <= s->value - 1e-4 * t * 2 * *decrement;
            if (moved)
                s->value = value;
        }
        if (!moved)
            break; /* rounding: no lower value can be told apart */
        memcpy(s->theta, s->trial, d * sizeof *s->theta);
        double *keep = s->sum;
        s->sum = s->sum_new;
        s->sum_new = keep;
    }
    return status;
}

/* The evidence is at its top for a user's purposes when a precision e times as large would not
 * change twice its logarithm by this much. A relative change of the precision says little: where
 * data want none of the biases, it goes on for ever. */
static const double EVIDENCE_NATS = 0.02;
enum { EVIDENCE_ROUNDS = 100 };

/* MacKay's re-estimate of the two precisions from the curvature at the optimum: alpha = g /
 * |deviation|^2 with g the number of well-determined parameters of the group. The common scale of
 * the weights is no part of it. *change: the larger of |g - alpha |deviation|^2|, twice the slope
 * of the log evidence in log alpha. */
static cst_status update_priors(cst_context *context, newton *s, double *change) {
    size_t d = (size_t)s->parameters;
    size_t k = (size_t)s->count;
    double trace[2] = {0, 0};
    double norm[2] = {1e-12, 1e-12};
    double *diagonal = cst_alloc(context, 2 * d, sizeof *diagonal);
    if (!diagonal)
        return CST_ERROR_MEMORY;
    double *ones = diagonal + d;
    cst_status status = cst_cholesky_inverse_diagonal(context, (int64_t)d, s->factor, diagonal);
    /* The weights' group is what is left of them when their mean is taken away: 1'H^-1 1 / k goes.
     */
    for (size_t j = 0; j < k; j++)
        ones[j] = 1;
    cst_cholesky_solve((int64_t)d, s->factor, ones);
    double common = mean_offset(s, s->theta);
    for (size_t j = 0; j < d; j++) {
        int group = j >= k;
        trace[group] += diagonal[j] - (group ? 0 : ones[j] / (double)k);
        double offset = group ? s->theta[j] : s->theta[j] - s->center - common;
        norm[group] += offset * offset;
    }
    cst_free(context, diagonal);
    if (status != CST_OK)
        return status;
    double *prior[2] = {&s->prior_weights, &s->prior_bias};
    double size[2] = {(double)k - 1, (double)(d - k)};
    *change = 0;
    for (int g = 0; g < 2; g++) {
        if (size[g] <= 0)
            continue;
        double determined = size[g] - *prior[g] * trace[g];
        double next = fmin(fmax(fmax(determined, 1e-3) / norm[g], 1e-2), 1e5);
        *change = fmax(*change, fabs(determined - *prior[g] * norm[g]));
        *prior[g] = next;
    }
    return CST_OK;
}

cst_loglinear_options cst_loglinear_defaults(void) {
    return (cst_loglinear_options){.bias = true,
                                   .evidence = true,
                                   .prior_weights = 10,
                                   .prior_scale = 30,
                                   .prior_bias = 30,
                                   .center = -1,
                                   .tolerance = 1e-9,
                                   .iterations = 100};
}

static cst_status newton_alloc(cst_context *context, newton *s) {
    size_t d = (size_t)s->parameters;
    s->theta = cst_alloc(context, 3 * d, sizeof *s->theta);
    s->sum = cst_alloc(context, 1 + d + d * d, sizeof *s->sum);
    s->sum_new = cst_alloc(context, 1 + d + d * d, sizeof *s->sum_new);
    s->factor = cst_alloc(context, d * d, sizeof *s->factor);
    if (!s->theta || !s->sum || !s->sum_new || !s->factor)
        return CST_ERROR_MEMORY;
    s->trial = s->theta + d;
    s->step = s->theta + 2 * d;
    return CST_OK;
}

static void newton_release(cst_context *context, newton *s) {
    cst_free(context, s->theta);
    cst_free(context, s->sum);
    cst_free(context, s->sum_new);
    cst_free(context, s->factor);
}

/* Copies the optimum out: parameters, penalised Hessian (both triangles), loss. */
static cst_status newton_result(cst_context *context, const newton *s, cst_loglinear *out) {
    size_t d = (size_t)s->parameters;
    size_t k = (size_t)s->count;
    out->weights = cst_alloc(context, k, sizeof *out->weights);
    out->bias = cst_alloc(context, (size_t)out->classes, sizeof *out->bias);
    out->hessian = cst_alloc(context, d * d, sizeof *out->hessian);
    if (!out->weights || !out->bias || !out->hessian)
        return CST_ERROR_MEMORY;
    memcpy(out->weights, s->theta, k * sizeof *out->weights);
    memcpy(out->bias, s->theta + k, (d - k) * sizeof *out->bias);
    const double *hessian = s->sum + 1 + d;
    for (size_t i = 0; i < d; i++) {
        for (size_t j = 0; j <= i; j++) {
            out->hessian[i * d + j] = hessian[i * d + j] + prior_precision(s, i, j);
            out->hessian[j * d + i] = out->hessian[i * d + j];
        }
    }
    out->nll = s->sum[0];
    out->prior_weights = s->prior_weights;
    out->prior_bias = s->prior_bias;
    return CST_OK;
}

cst_status cst_loglinear_fit(cst_context *context, const cst_logtable *table, const int32_t *active,
                             int32_t count, const cst_loglinear_options *options,
                             const double *start, cst_loglinear *out) {
    *out = (cst_loglinear){.members = count, .classes = table->classes};
    newton s = {.table = table,
                .active = active,
                .count = count,
                .parameters = count + (options->bias ? table->classes : 0),
                .center = options->center < 0 ? 1.0 / (double)count : options->center,
                .prior_weights = options->prior_weights,
                .prior_scale = options->prior_scale,
                .prior_bias = options->prior_bias};
    out->parameters = s.parameters;
    cst_status status = newton_alloc(context, &s);
    for (int32_t j = 0; status == CST_OK && j < count; j++)
        s.theta[j] = start ? start[j] : s.center;
    double change = options->evidence ? INFINITY : 0;
    for (int round = 0; status == CST_OK && round < EVIDENCE_ROUNDS && change > EVIDENCE_NATS;
         round++) {
        status =
            newton_run(context, &s, 1e-4, options->iterations, &out->decrement, &out->iterations);
        if (status == CST_OK)
            status = update_priors(context, &s, &change);
    }
    if (status == CST_OK)
        status = newton_run(context, &s, options->tolerance, options->iterations, &out->decrement,
                            &out->iterations);
    if (status == CST_OK)
        status = newton_result(context, &s, out);
    newton_release(context, &s);
    if (status != CST_OK)
        cst_loglinear_free(context, out);
    return status;
}

void cst_loglinear_free(cst_context *context, cst_loglinear *fit) {
    cst_free(context, fit->weights);
    cst_free(context, fit->bias);
    cst_free(context, fit->hessian);
    *fit = (cst_loglinear){0};
}

cst_status cst_loglinear_curvature(cst_context *context, const cst_logtable *table,
                                   const int32_t *active, int32_t count, double prior,
                                   const double *weights, double *gradient, cst_loglinear *out) {
    *out = (cst_loglinear){.members = count, .classes = table->classes, .parameters = count};
    newton s = {.table = table,
                .active = active,
                .count = count,
                .parameters = count,
                .prior_weights = prior,
                .prior_scale = prior};
    cst_status status = newton_alloc(context, &s);
    if (status == CST_OK) {
        memcpy(s.theta, weights, (size_t)count * sizeof *weights);
        status = evaluate(context, &s, s.theta, s.sum);
    }
    if (status == CST_OK) {
        memcpy(gradient, s.sum + 1, (size_t)count * sizeof *gradient);
        status = newton_result(context, &s, out);
    }
    newton_release(context, &s);
    if (status != CST_OK)
        cst_loglinear_free(context, out);
    return status;
}

/* ---- curvature in standardised units --------------------------------------------------------- */

typedef struct spread_job {
    const cst_logtable *table;
    const int32_t *active;
    int32_t count;
} spread_job;

static cst_status spread_block(cst_context *worker, void *user, int64_t block, double *sum) {
    (void)worker;
    const spread_job *job = user;
    size_t classes = (size_t)job->table->classes;
    size_t members = (size_t)job->table->members;
    size_t first = (size_t)cst_block_first(block) * classes;
    size_t cells = (size_t)cst_block_size(job->table->rows, block) * classes;
    for (size_t i = first; i < first + cells; i++) {
        for (int32_t j = 0; j < job->count; j++) {
            double v = (double)job->table->values[i * members + (size_t)job->active[j]];
            sum[2 * j] += v;
            sum[2 * j + 1] += v * v;
        }
    }
    return CST_OK;
}

cst_status cst_loglinear_logdet(cst_context *context, const cst_logtable *table,
                                const int32_t *active, const cst_loglinear *fit, double *logdet) {
    size_t d = (size_t)fit->parameters;
    size_t k = (size_t)fit->members;
    double *sums = cst_alloc(context, 2 * k, sizeof *sums);
    double *factor = cst_alloc(context, d * d, sizeof *factor);
    spread_job job = {.table = table, .active = active, .count = fit->members};
    cst_status status = sums && factor ? CST_OK : CST_ERROR_MEMORY;
    if (status == CST_OK)
        status = cst_reduce_blocks(context, cst_block_count(table->rows), 2 * k, spread_block, &job,
                                   sums);
    if (status == CST_OK) {
        memcpy(factor, fit->hessian, d * d * sizeof *factor);
        status = cst_cholesky(context, (int64_t)d, factor);
    }
    if (status == CST_OK) {
        double n = (double)table->rows * (double)table->classes;
        *logdet = cst_cholesky_logdet((int64_t)d, factor);
        /* w_std = w * sd: H_std = D^-1 H D^-1. A class indicator has variance (1/C)(1 - 1/C). */
        for (size_t j = 0; j < k; j++) {
            double mean = sums[2 * j] / n;
            double variance = sums[2 * j + 1] / n - mean * mean;
            *logdet -= log(fmax(variance, 1e-300));
        }
        double share = 1.0 / (double)table->classes;
        *logdet -= (double)(d - k) * log(share * (1 - share));
    }
    cst_free(context, sums);
    cst_free(context, factor);
    return status;
}
