/* The log-linear pool: Newton fit, evidence for the prior precisions, curvature in standardised
 * units. */
#include "method/loglinear/loglinear.h"

#include "core/la.h"
#include "method/linear/box_quadratic.h"

#include <math.h>
#include <string.h>

cst_status cst_loglinear_loss(cst_context *context, const cst_logtable *table,
                              const int32_t *active, int32_t count, const double *weights,
                              const double *bias, double *mean, double *per_row) {
    cst_pass pass = {.table = table,
                     .active = active,
                     .count = count,
                     .parameters = count,
                     .weights = weights,
                     .bias = bias,
                     .per_row = per_row};
    double total = 0;
    cst_status status = cst_pass_run(context, &pass, &total);
    *mean = table->rows > 0 ? total / ((double)table->rows * table->weight) : 0;
    return status;
}

void cst_loglinear_row(const float *logs, int32_t classes, int32_t stride, const int32_t *active,
                       int32_t count, const double *weights, const double *bias, double *out) {
    double top = -INFINITY;
    for (int32_t c = 0; c < classes; c++) {
        const float *column = logs + (size_t)c * (size_t)stride;
        double score = bias ? bias[c] : 0;
        for (int32_t j = 0; j < count; j++)
            score += weights[j] * (double)column[active[j]];
        out[c] = score;
        top = score > top ? score : top;
    }
    double total = 0;
    for (int32_t c = 0; c < classes; c++) {
        out[c] = exp(out[c] - top);
        total += out[c];
    }
    for (int32_t c = 0; c < classes; c++)
        out[c] /= total;
}

/* ---- Newton ---- */

enum { STEPS = 100 };

typedef struct newton {
    const cst_logtable *table;
    const int32_t *active;
    int32_t count;
    int32_t parameters;
    const cst_loglinear_options *options;
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
    bool known;      /* `sum` is that of theta, else that of trial */
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
    cst_pass pass = {.table = s->table,
                     .active = s->active,
                     .count = s->count,
                     .parameters = s->parameters,
                     .weights = theta,
                     .bias = s->parameters > s->count ? theta + s->count : NULL,
                     .derivatives = true};
    CST_TRY(cst_pass_run(context, &pass, sum));
    const double *tilt = s->options->tilt;
    for (int32_t j = 0; tilt && j < s->parameters; j++) {
        int32_t at = j < s->count ? s->active[j] : s->table->members + j - s->count;
        sum[0] += tilt[at] * theta[j];
        sum[1 + j] += tilt[at];
    }
    return CST_OK;
}

/* Penalised gradient in step, Cholesky factor of the penalised Hessian (the lower triangle of that
 * itself where weights are bounded), Newton step; returns the decrement. */
static cst_status newton_step(cst_context *context, newton *s, double *decrement) {
    size_t d = (size_t)s->parameters;
    const double *gradient = s->sum + 1;
    const double *hessian = s->sum + 1 + d;
    memcpy(s->factor, hessian, d * d * sizeof *s->factor);
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
    if (s->options->nonnegative) {
        memcpy(s->trial, s->step, d * sizeof *s->trial);
        return cst_bounded_newton(context, s->parameters, s->count, s->factor, s->theta, s->trial,
                                  s->step, decrement);
    }
    CST_TRY(cst_cholesky(context, (int64_t)d, s->factor));
    memcpy(s->trial, s->step, d * sizeof *s->trial);
    cst_cholesky_solve((int64_t)d, s->factor, s->step);
    double slope = 0;
    for (size_t j = 0; j < d; j++)
        slope += s->trial[j] * s->step[j];
    *decrement = 0.5 * slope;
    return CST_OK;
}

/* Rounding may take a weight past its bound. */
static double inside_bound(const newton *s, size_t j, double value) {
    return s->options->nonnegative && j < (size_t)s->count ? fmax(value, 0) : value;
}

/* Newton with step halving until the decrement is below the tolerance. Where it is below `trusted`,
 * the next step is the last and its end is not looked at: loss and Hessian are those before it. */
static cst_status newton_run(cst_context *context, newton *s, double tolerance,
                             cst_loglinear *out) {
    size_t d = (size_t)s->parameters;
    if (!s->known)
        CST_TRY(evaluate(context, s, s->theta, s->sum));
    s->known = true;
    s->value = s->sum[0] + prior_value(s, s->theta);
    for (int i = 0;; i++) {
        CST_TRY(newton_step(context, s, &out->decrement));
        out->begun = i == 0 ? out->decrement : out->begun;
        if (out->decrement <= tolerance || i >= STEPS)
            return CST_OK;
        out->iterations++;
        if (out->decrement <= fmax(s->options->trusted, s->options->trusted_share * s->sum[0])) {
            memcpy(s->trial, s->theta, d * sizeof *s->theta);
            for (size_t j = 0; j < d; j++)
                s->theta[j] = inside_bound(s, j, s->theta[j] - s->step[j]);
            s->known = false;
            return CST_OK;
        }
        bool moved = false;
        for (double t = 1; t > 1e-8 && !moved; t *= 0.5) {
            for (size_t j = 0; j < d; j++)
                s->trial[j] = inside_bound(s, j, s->theta[j] - t * s->step[j]);
            CST_TRY(evaluate(context, s, s->trial, s->sum_new));
            double value = s->sum_new[0] + prior_value(s, s->trial);
            moved = value <= s->value - 1e-4 * t * 2 * out->decrement;
            if (moved)
                s->value = value;
        }
        if (!moved)
            return CST_OK; /* rounding: no lower value can be told apart */
        memcpy(s->theta, s->trial, d * sizeof *s->theta);
        double *keep = s->sum;
        s->sum = s->sum_new;
        s->sum_new = keep;
    }
}

/* The evidence is at its top for a user's purposes when a precision e times as large would not
 * change twice its logarithm by this much. A relative change of the precision says little: where
 * data want none of the biases, it goes on for ever. */
static const double EVIDENCE_NATS = 0.02;
enum { EVIDENCE_ROUNDS = 100 };

static bool at_bound(const newton *s, size_t j) {
    return s->options->nonnegative && j < (size_t)s->count && s->theta[j] <= 0;
}

/* Factor of the penalised Hessian (in s->factor, lower triangle) without the weights at their
 * bound, which the data do not determine: 1 in their places. */
static cst_status factor_inside(cst_context *context, newton *s) {
    size_t d = (size_t)s->parameters;
    for (size_t i = 0; i < d; i++)
        for (size_t j = 0; j <= i; j++)
            if (at_bound(s, i) || at_bound(s, j))
                s->factor[i * d + j] = i == j ? 1 : 0;
    return cst_cholesky(context, (int64_t)d, s->factor);
}

/* MacKay's re-estimate of the two precisions at the optimum: alpha = g / |deviation|^2, g
 * well-determined parameters of the group, without the common scale of the weights. *change: the
 * larger of |g - alpha |deviation|^2|, twice the slope of the log evidence in log alpha. */
static cst_status update_priors(cst_context *context, newton *s, double *change) {
    size_t d = (size_t)s->parameters;
    size_t k = (size_t)s->count;
    double trace[2] = {0, 0};
    double norm[2] = {1e-12, 1e-12};
    CST_SCOPE(scope);
    CST_NEW(context, scope, double, diagonal, d);
    CST_NEW(context, scope, double, ones, d);
    double inside = 0; /* weights that are not at their bound */
    for (size_t j = 0; j < k; j++)
        inside += !at_bound(s, j);
    if (s->options->nonnegative)
        CST_TRY(factor_inside(context, s));
    CST_TRY(cst_cholesky_inverse_diagonal(context, (int64_t)d, s->factor, diagonal));
    /* The weights' group is what is left of them when their mean is taken away: 1'H^-1 1 / k goes.
     */
    for (size_t j = 0; j < k; j++)
        ones[j] = at_bound(s, j) ? 0 : 1;
    cst_cholesky_solve((int64_t)d, s->factor, ones);
    double common = mean_offset(s, s->theta);
    for (size_t j = 0; j < d; j++) {
        int group = j >= k;
        if (at_bound(s, j))
            continue;
        trace[group] += diagonal[j] - (group ? 0 : ones[j] / inside);
        double offset = group ? s->theta[j] : s->theta[j] - s->center - common;
        norm[group] += offset * offset;
    }
    double *prior[2] = {&s->prior_weights, &s->prior_bias};
    double size[2] = {inside - 1, (double)(d - k)};
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
                                   .tolerance = 1e-9,
                                   .polish = 1e-4,
                                   .compact = cst_compact_defaults()};
}

static cst_status newton_take(cst_context *context, cst_scope *scope, newton *s) {
    size_t d = (size_t)s->parameters;
    CST_TAKE(context, scope, s->theta, d);
    CST_TAKE(context, scope, s->trial, d);
    CST_TAKE(context, scope, s->step, d);
    CST_TAKE(context, scope, s->sum, 1 + d + d * d);
    CST_TAKE(context, scope, s->sum_new, 1 + d + d * d);
    CST_TAKE(context, scope, s->factor, d * d);
    return CST_OK;
}

/* Copies the optimum out: parameters, penalised Hessian (both triangles), loss. */
static cst_status newton_result(cst_context *context, const newton *s, cst_loglinear *out) {
    size_t d = (size_t)s->parameters;
    size_t k = (size_t)s->count;
    CST_TAKE(context, &out->scope, out->weights, k);
    CST_TAKE(context, &out->scope, out->bias, out->classes);
    CST_TAKE(context, &out->scope, out->hessian, d * d);
    CST_TAKE(context, &out->scope, out->slack, k);
    double common = mean_offset(s, s->theta);
    for (size_t j = 0; j < k; j++)
        if (at_bound(s, j))
            out->slack[j] =
                fmax(s->sum[1 + j] + s->prior_weights * (s->theta[j] - s->center - common) +
                         s->prior_scale * common,
                     0);
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

/* The point of `sum`, and that, which another fit may begin from. */
static cst_status keep_seen(cst_context *context, const newton *s, cst_loglinear *out) {
    size_t d = (size_t)s->parameters;
    CST_TAKE(context, &out->scope, out->seen, 2 * d + 1 + d * d);
    memcpy(out->seen, s->known ? s->theta : s->trial, d * sizeof *out->seen);
    memcpy(out->seen + d, s->sum, (1 + d + d * d) * sizeof *out->seen);
    return CST_OK;
}

/* One row in THINNED is enough to start from, of tables with as many as START_ROWS. */
enum { THINNED = 8, START_ROWS = 2048 };

/* Weights that are fitted to a part of the rows, so that only the last steps look at all of them.
 */
static cst_status start_from_part(cst_context *context, const cst_logtable *table,
                                  const int32_t *active, int32_t count,
                                  const cst_loglinear_options *options, double *weights) {
    CST_SCOPE(scope);
    cst_logtable part = *table; /* but its rows are the scope's */
    cst_loglinear fit = {0};
    cst_loglinear_options rough = *options;
    rough.tolerance = 0.1;
    rough.trusted = 1;
    part.rows = 0;
    part.weight *= THINNED;
    CST_TAKE(context, scope, part.row, table->rows / THINNED + 1);
    if (table->row_weights)
        CST_TAKE(context, scope, part.row_weights, table->rows / THINNED + 1);
    for (int64_t i = 0; i < table->rows; i += THINNED) {
        if (table->row_weights)
            part.row_weights[part.rows] = table->row_weights[i];
        part.row[part.rows++] = table->row[i];
    }
    CST_TRY(cst_loglinear_fit(context, &part, active, count, &rough, NULL, &fit));
    memcpy(weights, fit.weights, (size_t)count * sizeof *weights);
    cst_loglinear_free(context, &fit);
    return CST_OK;
}

/* Newton's method holds a few matrices of the number of parameters squared. */
static bool wants_biases(cst_context *context, const cst_logtable *table,
                         const cst_loglinear_options *options) {
    if (options->bias && table->classes > CST_BIAS_CLASSES)
        cst_notice(context,
                   "the log-linear pool has no biases: they are fitted for up to %d classes, and "
                   "this pool has %d",
                   CST_BIAS_CLASSES, (int)table->classes);
    return options->bias && table->classes <= CST_BIAS_CLASSES;
}

/* Where the first run begins. */
static cst_status begin(cst_context *context, newton *s, const double *start) {
    const cst_loglinear_options *options = s->options;
    const cst_logtable *table = s->table;
    size_t d = (size_t)s->parameters;
    bool biases = s->parameters > s->count;
    for (int32_t j = 0; j < s->count; j++)
        s->theta[j] = start ? start[j] : s->center;
    if (biases && options->start_bias)
        memcpy(s->theta + s->count, options->start_bias,
               (size_t)table->classes * sizeof *options->start_bias);
    if (!start && !biases && !options->evidence && !table->compact->every_class &&
        table->rows >= START_ROWS)
        CST_TRY(start_from_part(context, table, s->active, s->count, options, s->theta));
    for (int32_t j = 0; options->nonnegative && j < s->count; j++)
        s->theta[j] = fmax(s->theta[j], 0);
    s->known = options->seen != NULL;
    if (s->known) {
        memcpy(s->theta, options->seen, d * sizeof *s->theta);
        memcpy(s->sum, options->seen + d, (1 + d + d * d) * sizeof *s->sum);
    }
    return CST_OK;
}

static cst_status fit_table(cst_context *context, newton *s, const double *start,
                            cst_loglinear *out) {
    const cst_loglinear_options *options = s->options;
    CST_SCOPE(scope);
    CST_TRY(newton_take(context, scope, s));
    CST_TRY(begin(context, s, start));
    double change = options->evidence ? INFINITY : 0;
    for (int round = 0; round < EVIDENCE_ROUNDS && change > EVIDENCE_NATS; round++) {
        CST_TRY(newton_run(context, s, 1e-4, out));
        CST_TRY(update_priors(context, s, &change));
    }
    CST_TRY(newton_run(context, s, options->tolerance, out));
    CST_TRY(newton_result(context, s, out));
    return options->keep_seen ? keep_seen(context, s, out) : CST_OK;
}

cst_status cst_loglinear_fit(cst_context *context, const cst_logtable *table, const int32_t *active,
                             int32_t count, const cst_loglinear_options *options,
                             const double *start, cst_loglinear *out) {
    bool biases = wants_biases(context, table, options);
    newton s = {.table = table,
                .active = active,
                .count = count,
                .parameters = count + (biases ? table->classes : 0),
                .center = 1.0 / (double)count,
                .prior_weights = options->prior_weights,
                .prior_scale = options->prior_scale,
                .prior_bias = options->prior_bias,
                .options = options};
    *out = (cst_loglinear){.members = count, .classes = table->classes, .parameters = s.parameters};
    cst_status status = fit_table(context, &s, start, out);
    if (status != CST_OK)
        cst_loglinear_free(context, out);
    return status;
}

void cst_loglinear_free(cst_context *context, cst_loglinear *fit) {
    (void)context;
    cst_scope_free(&fit->scope);
    *fit = (cst_loglinear){0};
}

cst_status cst_loglinear_curvature(cst_context *context, const cst_logtable *table,
                                   const int32_t *active, int32_t count, double prior,
                                   const double *weights, double *gradient, cst_loglinear *out) {
    *out = (cst_loglinear){.members = count, .classes = table->classes, .parameters = count};
    const cst_loglinear_options plain = {0};
    newton s = {.table = table,
                .active = active,
                .count = count,
                .parameters = count,
                .prior_weights = prior,
                .prior_scale = prior,
                .options = &plain};
    CST_SCOPE(scope);
    CST_TRY(newton_take(context, scope, &s));
    memcpy(s.theta, weights, (size_t)count * sizeof *weights);
    CST_TRY(evaluate(context, &s, s.theta, s.sum));
    memcpy(gradient, s.sum + 1, (size_t)count * sizeof *gradient);
    return newton_result(context, &s, out);
}

/* ---- curvature in standardised units ---- */

/* Sums and sums of squares of logs over all classes, and of the rows' weights; what is kept of the
 * others stands for 1/pi of them. */
static cst_status spread_block(cst_context *worker, const void *user, int64_t first, int64_t end,
                               double *sum) {
    (void)worker;
    const cst_pass *job = user;
    const cst_logtable *table = job->table;
    for (int64_t i = first; i < end; i++) {
        cst_logrow r = cst_logrow_at(table, i);
        const float *offset = r.block->offset ? r.block->offset + r.from : NULL;
        double weight = table->row_weights ? table->row_weights[i] : 1;
        sum[2 * job->count] += weight;
        for (int32_t j = 0; j < job->count; j++) {
            int32_t member = job->active[j];
            const float *p = r.block->p + cst_logrow_of(table, &r, member);
            double keep = 1 - table->mix[member];
            double floor = table->mix[member] / (double)table->classes;
            for (int64_t e = 0; e < r.count; e++) {
                double v = log(keep * (double)p[e] + floor);
                double share = offset ? exp((double)offset[e]) : 1;
                share *= weight;
                sum[2 * j] += share * v; /* share 0: padding */
                sum[2 * j + 1] += share * v * v;
            }
        }
    }
    return CST_OK;
}

cst_status cst_loglinear_logdet(cst_context *context, const cst_logtable *table,
                                const int32_t *active, const cst_loglinear *fit,
                                const double *spread, double *logdet) {
    size_t d = (size_t)fit->parameters;
    size_t k = (size_t)fit->members;
    cst_pass job = {.table = table, .active = active, .count = fit->members};
    double n = (double)table->rows * (double)table->classes * table->weight;
    CST_SCOPE(scope);
    CST_NEW(context, scope, double, sums, 2 * k + 1);
    CST_NEW(context, scope, double, factor, (d * d));
    if (spread) {
        memcpy(sums, spread, 2 * k * sizeof *sums);
    } else {
        CST_TRY(cst_logtable_sum(context, table, 1, 2 * k + 1, 0, spread_block, &job, sums, NULL));
        n = sums[2 * k] * (double)table->classes;
    }
    memcpy(factor, fit->hessian, d * d * sizeof *factor);
    CST_TRY(cst_cholesky(context, (int64_t)d, factor));
    *logdet = cst_cholesky_logdet((int64_t)d, factor);
    /* w_std = w * sd: H_std = D^-1 H D^-1. A class indicator has variance (1/C)(1 - 1/C). */
    for (size_t j = 0; j < k; j++) {
        double mean = sums[2 * j] / n;
        double variance = sums[2 * j + 1] / n - mean * mean;
        *logdet -= log(fmax(variance, 1e-300));
    }
    double share = 1.0 / (double)table->classes;
    *logdet -= (double)(d - k) * log(share * (1 - share));
    return CST_OK;
}
