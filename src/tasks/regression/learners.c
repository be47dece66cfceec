/* The meta-learners of a regression and their blend, from moments by fold. Stages S2 to S4.
 * Paper: "Spectrum-Adaptive Regularization", "Laplace-Approximate Bayesian Blender". */
#include "tasks/regression/regression.h"

#include "core/la.h"
#include "fit/refits.h"

#include <math.h>
#include <string.h>

typedef struct gate_job {
    const cst_view *view;
    const cst_scaling *scaling;
    const int32_t *folds;
    const cst_settings *settings;
} gate_job;

/* Every (row, output) of a sample of rows, in memory and in units of the targets. */
typedef struct gate_rows {
    float **values;  /* [members][pairs] */
    double *targets; /* [pairs] */
    double *weights; /* [pairs] */
    int64_t pairs;
} gate_rows;

/* Rows of the part, evenly thinned to the most that the gate is trained on; how many. */
static int64_t pick_rows(const gate_job *job, int32_t part, int64_t *positions) {
    int64_t count = 0;
    int64_t most = job->settings->gate.max_rows / job->view->classes;
    for (int64_t i = 0; i < job->view->rows; i++)
        if (part == 0 || job->folds[i] != part - 1)
            positions[count++] = i;
    most = most < 2 ? 2 : most;
    if (count <= most)
        return count;
    for (int64_t i = 0; i < most; i++) /* the spacing is above 1, so that no row comes twice */
        positions[i] = positions[(int64_t)((double)i * ((double)count / (double)most))];
    return most;
}

static cst_status make_rows(cst_context *context, cst_scope *scope, const gate_job *job,
                            int32_t part, gate_rows *out) {
    const cst_view *view = job->view;
    const cst_scaling *scaling = job->scaling;
    int32_t outputs = view->classes;
    CST_NEW(context, scope, int64_t, positions, view->rows);
    int64_t count = pick_rows(job, part, positions);
    out->pairs = count * outputs;
    CST_TAKE(context, scope, out->values, view->members);
    CST_TAKE(context, scope, out->targets, out->pairs);
    CST_TAKE(context, scope, out->weights, out->pairs);
    for (int32_t k = 0; k < view->members; k++) {
        CST_TAKE(context, scope, out->values[k], out->pairs);
        CST_TRY(cst_view_gather(context, view, k, positions, count, out->values[k]));
        for (int64_t e = 0; e < out->pairs; e++) {
            float *value = &out->values[k][e];
            *value = (float)(((double)*value - scaling->location[e % outputs]) /
                             scaling->scale[e % outputs]);
        }
    }
    for (int64_t i = 0; i < count; i++) {
        const double *y = cst_view_target(view, positions[i]);
        for (int32_t d = 0; d < outputs; d++) {
            out->targets[i * outputs + d] = (y[d] - scaling->location[d]) / scaling->scale[d];
            out->weights[i * outputs + d] = cst_view_weight(view, positions[i]);
        }
    }
    return CST_OK;
}

/* The member of least squared error. */
static int32_t best_member(const gate_rows *rows, int32_t members) {
    int32_t best = 0;
    double least = INFINITY;
    for (int32_t k = 0; k < members; k++) {
        double sum = 0;
        for (int64_t e = 0; e < rows->pairs; e++) {
            double error = (double)rows->values[k][e] - rows->targets[e];
            sum += rows->weights[e] * (error * error);
        }
        if (sum < least) {
            least = sum;
            best = k;
        }
    }
    return best;
}

static cst_status fit_gate(cst_context *context, const void *user, int32_t index, cst_gate *out) {
    const gate_job *job = user;
    gate_rows rows;
    CST_SCOPE(scope);
    CST_TRY(make_rows(context, scope, job, index, &rows));
    cst_view view = {.rows = rows.pairs,
                     .classes = 1,
                     .members = job->view->members,
                     .data = (const float *const *)rows.values,
                     .targets = rows.targets,
                     .weights = job->view->weights ? rows.weights : NULL,
                     .weight_scale = 1};
    return cst_gate_fit(context, &view, best_member(&rows, view.members), &job->settings->gate,
                        out);
}

cst_status cst_value_gates_fit(cst_context *context, const cst_view *view,
                               const cst_scaling *scaling, const int32_t *folds,
                               const cst_settings *settings, int32_t count, cst_gate *gates) {
    gate_job job = {.view = view, .scaling = scaling, .folds = folds, .settings = settings};
    if (gates[0].mode != CST_GATE_LEARNED)
        return CST_OK;
    CST_SCOPE(scope);
    CST_NEW(context, scope, cst_gate *, each, count);
    for (int32_t i = 0; i < count; i++)
        each[i] = &gates[i];
    return cst_gates_fit(context, view->members, &settings->gate, fit_gate, &job, count, each);
}

const char *cst_value_learner_name(cst_value_learner kind) {
    static const char *const names[] = {
        "ridge",   "elastic-net",      "lasso",       "linear-pool",
        "average", "minimum-variance", "best-single", "center",
    };
    return names[kind];
}

static bool is_linear(cst_value_learner kind) {
    return kind <= CST_VALUE_LASSO;
}

cst_linear_pool_options cst_value_linear_pool_options(const cst_settings *settings) {
    return (cst_linear_pool_options){.prior = (cst_linear_pool_prior)settings->pool_prior,
                                     .precision = settings->loglinear.prior_weights,
                                     .power = settings->pool_power,
                                     .nonnegative = settings->pool_nonnegative};
}

/* ---- inverses ---- */

/* How often the diagonal is raised tenfold where rounding leaves a matrix indefinite: from 1e-13 of
 * its mean to a multiple of it, for a matrix may be nothing but rounding. */
enum { RAISES = 16 };

/* Log determinant of the block of a symmetric matrix [stride][stride] at `places` [n], with `ridge`
 * on its diagonal; and, unless out is NULL, share times its inverse, divided by the scales [n]
 * (NULL: 1), added to the rows and columns index [n] of out [width][width]. */
static cst_status add_inverse(cst_context *context, const double *matrix, size_t stride,
                              const int32_t *places, size_t n, double ridge, const int32_t *index,
                              const double *scale, double share, size_t width, double *out,
                              double *logdet) {
    double raise = 0;
    double trace = 0;
    cst_status status = CST_ERROR_NUMERIC;
    *logdet = 0;
    if (n == 0)
        return CST_OK;
    CST_SCOPE(scope);
    CST_NEW(context, scope, double, block, (n * n));
    CST_NEW(context, scope, double, factor, (n * n));
    CST_NEW(context, scope, double, column, n);
    for (size_t i = 0; i < n; i++) {
        for (size_t j = 0; j < n; j++)
            block[i * n + j] =
                matrix[(size_t)places[i] * stride + (size_t)places[j]] + (i == j ? ridge : 0);
        trace += fabs(block[i * n + i]) / (double)n;
    }
    for (int attempt = 0; status == CST_ERROR_NUMERIC && attempt < RAISES; attempt++) {
        memcpy(factor, block, n * n * sizeof *factor);
        for (size_t i = 0; i < n; i++)
            factor[i * n + i] += raise;
        status = cst_cholesky(context, (int64_t)n, factor);
        raise = fmax(10 * raise, 1e-13 * trace + 1e-300);
    }
    CST_TRY(status);
    *logdet = cst_cholesky_logdet((int64_t)n, factor);
    for (size_t j = 0; out && j < n; j++) {
        memset(column, 0, n * sizeof *column);
        column[j] = 1;
        cst_cholesky_solve((int64_t)n, factor, column);
        for (size_t i = 0; i < n; i++) {
            double units = scale ? scale[i] * scale[j] : 1;
            out[(size_t)index[i] * width + (size_t)index[j]] += share * column[i] / units;
        }
    }
    return CST_OK;
}

/* ---- the linear kinds ---- */

/* What a choice of meta.learners is in a regression, where nothing has to be calibrated: bits of
 * cst_value_learner, 0 where it is for classification alone. */
static unsigned meaning_of(const char *choice, size_t length) {
    static const struct {
        const char *name;
        bool calibrated; /* may be followed by "+" and a map */
        cst_value_learner kind;
    } meanings[] = {{"ridge", false, CST_VALUE_RIDGE},
                    {"elastic-net", false, CST_VALUE_ELASTIC_NET},
                    {"lasso", false, CST_VALUE_LASSO},
                    {"log-linear", false, CST_VALUE_LINEAR_POOL},
                    {"average", true, CST_VALUE_AVERAGE},
                    {"greedy", true, CST_VALUE_MINIMUM_VARIANCE},
                    {"hill-climbing", true, CST_VALUE_MINIMUM_VARIANCE},
                    {"best-single", true, CST_VALUE_BEST_SINGLE}};
    for (size_t i = 0; i < sizeof meanings / sizeof meanings[0]; i++) {
        size_t width = strlen(meanings[i].name);
        if (width <= length && strncmp(choice, meanings[i].name, width) == 0 &&
            (width == length || (meanings[i].calibrated && choice[width] == '+')))
            return 1U << meanings[i].kind;
    }
    return 0;
}

/* Bits of the learners: by default the linear pool, mixtures that are safer where its prior
 * misleads it, and a ridge that has the aggregators, if it may join. Of one member the mixtures are
 * all the same. */
static unsigned learners_of(const cst_settings *settings, bool joining, int32_t members) {
    unsigned mixtures =
        1U << CST_VALUE_MINIMUM_VARIANCE | 1U << CST_VALUE_BEST_SINGLE | 1U << CST_VALUE_CENTER;
    unsigned bits = 1U << CST_VALUE_LINEAR_POOL | mixtures;
    bits |= joining ? 1U << CST_VALUE_RIDGE : 0;
    if (settings->learners_chosen) {
        const char *choices = cst_option_at(CST_OPT_META_LEARNERS)->choices;
        bits = 0;
        for (int i = 0; *choices; i++) {
            size_t length = strcspn(choices, "|");
            if (settings->learners >> i & 1U)
                bits |= meaning_of(choices, length);
            choices += length + (choices[length] == '|');
        }
    }
    if (members > 1)
        return bits;
    return bits & mixtures ? (bits & ~mixtures) | 1U << CST_VALUE_AVERAGE : bits;
}

/* Covariance of a linear learner's coefficients over the noise, on those that are not 0. */
static cst_status linear_covariance(cst_context *context, const cst_standardised *s,
                                    const cst_linear *linear, size_t width, double *out) {
    size_t kept = (size_t)s->kept;
    size_t n = 0;
    double logdet;
    CST_SCOPE(scope);
    CST_NEW(context, scope, double, scale, kept);
    CST_NEW(context, scope, int32_t, index, kept);
    CST_NEW(context, scope, int32_t, place, kept);
    for (size_t a = 0; a < kept; a++)
        if (linear->l1_ratio == 0 || linear->coefficients[s->index[a]] != 0) {
            index[n] = s->index[a];
            place[n] = (int32_t)a;
            scale[n++] = s->scale[a];
        }
    double ridge = fmax(linear->lambda * (1 - linear->l1_ratio), 1e-10);
    return add_inverse(context, s->gram, kept, place, n, ridge, index, scale, 1 / s->rows, width,
                       out, &logdet);
}

/* One part of one output. */
typedef struct part {
    const cst_value_job *job;
    int32_t number;
    int32_t output;
    double *covariances; /* [learners][columns^2], of part 0; else NULL */
} part;

static cst_value_one *one_of(const part *p, int32_t learner) {
    return cst_value_one_of(p->job, p->number, p->output, learner);
}

static cst_status take_linear(cst_context *context, void *user, const cst_standardised *s,
                              const cst_linear *linear, int32_t members) {
    const part *p = user;
    cst_value_fit *fit = p->job->fit;
    size_t columns = (size_t)linear->columns;
    int32_t m = 0;
    while (fit->kind[m] != (cst_value_learner)linear->kind)
        m++;
    cst_value_one *one = one_of(p, m);
    memcpy(one->weights, linear->coefficients, columns * sizeof *one->weights);
    one->intercept = linear->intercept;
    one->empty = true;
    for (size_t j = 0; j < columns; j++)
        one->empty = one->empty && linear->coefficients[j] == 0;
    /* Its Hessian is that of twice the likelihood's exponent: 2n(...) for n(...) / noise. */
    one->active = linear->active;
    one->logdet = linear->logdet_hessian - (double)linear->active * log(2);
    if (p->number > 0)
        return CST_OK;
    CST_TRY(cst_refits_add_linear(context, fit->refits, s, linear, members, m));
    fit->refits->refit[fit->refits->count - 1].output = p->output;
    return linear_covariance(context, s, linear, (size_t)fit->columns,
                             p->covariances + (size_t)m * columns * columns);
}

/* Every linear kind on the moments of the part. */
static cst_status fit_linear(cst_context *context, part *p, const cst_moments *moments,
                             unsigned kinds) {
    cst_penalty penalty = {0};
    cst_spectrum_members members = {.count = moments->inputs, .classes = 1};
    CST_TRY(cst_linear_learners(context, moments, &members, p->job->settings, kinds, &penalty,
                                take_linear, p));
    if (p->number == 0)
        p->job->fit->lambda[p->output] = penalty.lambda;
    if (p->number == 0 && p->output == 0) {
        p->job->meta->sigma2 = penalty.sigma2;
        p->job->meta->mp_edge = penalty.mp_edge;
        p->job->meta->snr = penalty.snr;
    }
    return CST_OK;
}

/* ---- the linear pool ---- */

/* Hessian of the pool in columns of variance 1, for noise 1, and the covariance of its weights over
 * the noise (NULL: not wanted), on the weights that are not held at 0. */
static cst_status pool_curvature(cst_context *context, const cst_covariances *c,
                                 const cst_linear_pool *pool, bool nonnegative, size_t width,
                                 double *out, cst_value_one *fit) {
    size_t k = (size_t)c->columns;
    size_t n = 0;
    double trace = 0;
    double logs = 0;
    double logdet;
    CST_SCOPE(scope);
    CST_NEW(context, scope, int32_t, index, k);
    for (size_t i = 0; i < k; i++) {
        double variance = c->gram[i * (k + 1)];
        trace += variance / (double)k;
        if (nonnegative && !(pool->weights[i] > 0))
            continue;
        index[n++] = (int32_t)i;
        logs += variance > 0 ? log(variance) : 0;
    }
    CST_TRY(add_inverse(context, c->gram, k, index, n, fmax(pool->lambda, 1e-12 * trace), index,
                        NULL, 1 / c->rows, width, out, &logdet));
    fit->active = (int32_t)n;
    fit->logdet = logdet + (double)n * log(c->rows) - logs;
    return CST_OK;
}

/* What the pool's weights are solved again from where members are absent. */
static cst_status keep_pool(cst_context *context, const cst_covariances *c,
                            const cst_linear_pool *pool, bool nonnegative, int32_t output,
                            int32_t learner, cst_refits *refits) {
    size_t k = (size_t)c->columns;
    cst_refit *refit;
    CST_TRY(cst_refits_add(context, refits, c->columns, 1, &refit));
    refit->learner = learner;
    refit->output = output;
    refit->nonnegative = nonnegative;
    refit->pull = pool->lambda;
    refit->rest[0] = c->target_mean;
    refit->loss = c->target_square;
    memcpy(refit->curvature, c->gram, k * k * sizeof *c->gram);
    memcpy(refit->slope, c->cross, k * sizeof *c->cross);
    memcpy(refit->center, c->center, k * sizeof *c->center);
    memcpy(refit->tilt, c->mean, k * sizeof *c->mean);
    refit->least = cst_refit_loss(refit, pool->weights, k);
    for (size_t i = 0; i < k; i++) {
        refit->ridge[i] = pool->lambda;
        refit->curvature[i * k + i] = fmax(refit->curvature[i * k + i], 0);
    }
    return CST_OK;
}

/* The pool on the members' own columns. members: their moments. */
static cst_status fit_pool(cst_context *context, const part *p, const cst_moments *members,
                           int32_t learner) {
    cst_value_fit *fit = p->job->fit;
    size_t columns = (size_t)fit->columns;
    cst_linear_pool_options options = cst_value_linear_pool_options(p->job->settings);
    cst_value_one *to = one_of(p, learner);
    double *covariance =
        p->covariances ? p->covariances + (size_t)learner * columns * columns : NULL;
    cst_covariances c;
    cst_linear_pool pool;
    CST_SCOPE(scope);
    CST_TRY(cst_covariances_make(context, scope, members, -1, options.power, &c));
    CST_TRY(cst_linear_pool_fit(context, scope, members, &options, &pool));
    memcpy(to->weights, pool.weights, (size_t)members->columns * sizeof *pool.weights);
    to->intercept = pool.intercept;
    CST_TRY(pool_curvature(context, &c, &pool, options.nonnegative, columns, covariance, to));
    if (p->number > 0)
        return CST_OK;
    if (isnan(fit->lambda[p->output]))
        fit->lambda[p->output] = pool.lambda;
    return keep_pool(context, &c, &pool, options.nonnegative, p->output, learner, fit->refits);
}

/* ---- mixtures ---- */

/* How strongly a mixture without some members is held to its constraint, in variances. */
static const double FIXED = 1e9;
static const double SUM_TO_ONE = 100;

/* Center of the best single member: each has a billionth of the weight of the next better one, so
 * that the best of those present has nearly all. mse: [k]. */
static double rank_weight(const double *mse, size_t k, size_t i) {
    double rank = 0;
    for (size_t j = 0; j < k; j++)
        rank += j < i ? mse[j] <= mse[i] : mse[j] < mse[i];
    return pow(1e-9, fmin(rank, 33));
}

/* The loss of a mixture, and what holds its weights where members are absent: minimum variance to a
 * sum of 1, the others to their centers. */
static cst_status keep_mixture(cst_context *context, const cst_moments *members,
                               cst_value_learner kind, const double *weights, int32_t output,
                               int32_t learner, cst_refits *refits) {
    size_t k = (size_t)members->columns;
    size_t width = k + 2;
    cst_refit *refit;
    bool free_weights = kind == CST_VALUE_MINIMUM_VARIANCE;
    CST_SCOPE(scope);
    CST_NEW(context, scope, double, sum, (width * width));
    CST_NEW(context, scope, double, mse, k);
    CST_TRY(cst_refits_add(context, refits, members->columns, 1, &refit));
    cst_moments_without(members, -1, sum);
    double n = sum[width * width - 1];
    const double *target = sum + k * width;
    double largest = target[k] / n;
    for (size_t i = 0; i < k; i++) {
        largest = fmax(largest, sum[i * width + i] / n);
        mse[i] = sum[i * width + i] - 2 * target[i] + target[k];
    }
    refit->learner = learner;
    refit->output = output;
    refit->nonnegative = free_weights;
    refit->pair = free_weights ? SUM_TO_ONE * (double)k * target[k] / n : 0;
    refit->pull = free_weights ? refit->pair : FIXED * largest;
    refit->loss = target[k] / n;
    for (size_t i = 0; i < k; i++) {
        refit->slope[i] = target[i] / n;
        refit->ridge[i] = free_weights ? 0 : refit->pull;
        refit->center[i] = kind == CST_VALUE_BEST_SINGLE ? rank_weight(mse, k, i)
                           : kind == CST_VALUE_CENTER    ? weights[i]
                                                         : 1;
        for (size_t j = 0; j < k; j++)
            refit->curvature[i * k + j] = sum[i * width + j] / n;
    }
    refit->least = cst_refit_loss(refit, weights, k);
    return CST_OK;
}

/* A mixture of the members as they are: the pool's center, or one that is a baseline too. */
static cst_status fit_mixture(cst_context *context, const part *p, const cst_moments *members,
                              int32_t learner) {
    cst_value_fit *fit = p->job->fit;
    cst_value_one *to = one_of(p, learner);
    cst_value_learner kind = fit->kind[learner];
    if (kind == CST_VALUE_CENTER) {
        cst_covariances c;
        CST_SCOPE(scope);
        CST_TRY(
            cst_covariances_make(context, scope, members, -1, p->job->settings->pool_power, &c));
        memcpy(to->weights, c.center, (size_t)c.columns * sizeof *c.center);
    } else {
        const cst_value_baseline *baseline = cst_value_baseline_find(cst_value_learner_name(kind));
        CST_TRY(cst_value_baseline_fit(context, baseline, NULL, members, to->weights,
                                       &to->intercept, NULL));
    }
    return p->number > 0
               ? CST_OK
               : keep_mixture(context, members, kind, to->weights, p->output, learner, fit->refits);
}

/* What takes the members' own columns, which are the design's first. */
static cst_status fit_members(cst_context *context, const part *p, const cst_moments *moments) {
    const cst_value_fit *fit = p->job->fit;
    cst_moments members;
    CST_SCOPE(scope);
    CST_NEW(context, scope, int32_t, first, moments->inputs);
    for (int32_t k = 0; k < moments->inputs; k++)
        first[k] = k;
    CST_TRY(cst_value_moments_part(context, scope, moments, -1, first, moments->inputs, &members));
    for (int32_t m = 0; m < fit->learners; m++)
        if (!is_linear(fit->kind[m]))
            CST_TRY(fit->kind[m] == CST_VALUE_LINEAR_POOL ? fit_pool(context, p, &members, m)
                                                          : fit_mixture(context, p, &members, m));
    return CST_OK;
}

/* ---- all learners of all parts ---- */

static cst_status fit_part(cst_context *context, part *p) {
    const cst_value_fit *fit = p->job->fit;
    cst_moments moments;
    unsigned kinds = 0;
    bool members = false;
    for (int32_t m = 0; m < fit->learners; m++) {
        kinds |= is_linear(fit->kind[m]) ? 1U << fit->kind[m] : 0;
        members = members || !is_linear(fit->kind[m]);
    }
    CST_SCOPE(scope);
    CST_TRY(cst_value_moments_part(context, scope,
                                   cst_value_moments_of(p->job, p->number, p->output),
                                   p->number - 1, NULL, 0, &moments));
    if (kinds)
        CST_TRY(fit_linear(context, p, &moments, kinds));
    return members ? fit_members(context, p, &moments) : CST_OK;
}

/* Parts without a fold: task = fold * outputs + output. */
static cst_status part_task(cst_context *context, void *user, int64_t task) {
    const cst_value_job *job = user;
    int32_t outputs = job->fit->outputs;
    part p = {job, 1 + (int32_t)(task / outputs), (int32_t)(task % outputs), NULL};
    return fit_part(context, &p);
}

/* ---- everything ---- */

/* Frees what the model did not take over. */
static void release_fit(cst_context *context, void *object) {
    cst_value_fit *fit = object;
    for (int32_t g = 0; fit->gates && g < fit->gate_count; g++)
        cst_gate_free(context, &fit->gates[g]);
}

static cst_status start(cst_context *context, const cst_view *view, const cst_settings *settings,
                        bool joining, int32_t fold_count, cst_meta_fit *meta) {
    cst_scope *scope = &meta->scope;
    unsigned bits = learners_of(settings, joining, view->members);
    if (bits == 0)
        return cst_fail(context, CST_ERROR_UNSUPPORTED,
                        "none of the meta.learners is for regression: it has ridge, elastic-net, "
                        "lasso, log-linear (the linear pool), average, greedy and best-single");
    CST_NEW(context, scope, cst_value_fit, fit, 1);
    *fit = (cst_value_fit){.outputs = view->classes, .folds = fold_count};
    meta->values = fit;
    meta->sigma2 = meta->mp_edge = meta->snr = NAN;
    for (int kind = 0; kind < CST_VALUE_LEARNERS_MAX; kind++)
        if (bits >> kind & 1U)
            fit->kind[fit->learners++] = (cst_value_learner)kind;
    cst_gate shape = {.mode = is_linear(fit->kind[0]) ? settings->gate.mode : CST_GATE_NONE,
                      .inputs = view->members};
    fit->gate_count = shape.mode == CST_GATE_LEARNED ? fold_count + 1 : 1;
    fit->columns = cst_design_columns(&shape);
    size_t columns = (size_t)fit->columns;
    size_t outputs = (size_t)fit->outputs;
    size_t parts = ((size_t)fold_count + 1) * outputs;
    size_t pairs = outputs * (size_t)fit->learners;
    CST_TAKE(context, scope, fit->gates, fit->gate_count);
    CST_TAKE(context, scope, fit->weights, parts * columns);
    CST_TAKE(context, scope, fit->intercept, parts);
    CST_TAKE(context, scope, fit->blend, pairs);
    CST_TAKE(context, scope, fit->nll, pairs);
    CST_TAKE(context, scope, fit->logdet, pairs);
    CST_TAKE(context, scope, fit->center, outputs * columns);
    CST_TAKE(context, scope, fit->covariance, outputs * columns * columns);
    CST_TAKE(context, scope, fit->lambda, outputs);
    CST_TRY(cst_scope_own(context, scope, release_fit, fit));
    for (int32_t g = 0; g < fit->gate_count; g++)
        fit->gates[g] = shape;
    for (size_t d = 0; d < outputs; d++)
        fit->lambda[d] = NAN;
    CST_TRY(cst_stack_create(context, &meta->model));
    CST_TRY(cst_refits_take(context, &meta->model->scope, (int32_t)pairs, &fit->refits));
    meta->model->refits = fit->refits;
    return CST_OK;
}

/* Part 0 of every output, then the other parts, then the blend. */
static cst_status fit_all(cst_context *context, cst_scope *scope, cst_value_job *job) {
    cst_value_fit *fit = job->fit;
    size_t outputs = (size_t)fit->outputs;
    size_t learners = (size_t)fit->learners;
    size_t columns = (size_t)fit->columns;
    size_t each = learners * columns * columns;
    size_t fits = ((size_t)fit->folds + 1) * outputs * learners;
    double before = cst_seconds();
    CST_TAKE(context, scope, job->fits, fits);
    CST_NEW(context, scope, double, weights, (fits * columns));
    CST_TAKE(context, scope, job->covariances, outputs * each);
    CST_TAKE(context, scope, job->moments_of_residuals, outputs * learners * learners);
    for (size_t i = 0; i < fits; i++)
        job->fits[i].weights = weights + i * columns;
    for (int32_t d = 0; d < fit->outputs; d++) {
        part all = {job, 0, d, job->covariances + (size_t)d * each};
        CST_TRY(fit_part(context, &all));
    }
    CST_TRY(cst_parallel_for(context, (int64_t)fit->folds * fit->outputs, part_task, job));
    job->meta->seconds_ridge += cst_seconds() - before;
    before = cst_seconds();
    CST_TRY(cst_value_weigh(context, job));
    job->meta->seconds_blend = cst_seconds() - before;
    return CST_OK;
}

/* Means of the learners' weights and sums of their losses over the outputs. */
static void put_learners(cst_meta_fit *meta) {
    const cst_value_fit *fit = meta->values;
    meta->lambda = fit->lambda[0];
    meta->learners = fit->learners;
    for (int32_t m = 0; m < fit->learners; m++) {
        meta->name[m] = cst_value_learner_name(fit->kind[m]);
        for (int32_t d = 0; d < fit->outputs; d++) {
            meta->weight[m] += fit->blend[d * fit->learners + m] / fit->outputs;
            meta->nll[m] += fit->nll[d * fit->learners + m];
            meta->half_logdet[m] += 0.5 * fit->logdet[d * fit->learners + m];
        }
        meta->loss[m] = meta->nll[m];
    }
}

static cst_status run(cst_context *context, const cst_view *view, const cst_scaling *scaling,
                      const int32_t *folds, int32_t fold_count, const cst_settings *settings,
                      bool joining, bool losses, cst_meta_fit *out) {
    double before = cst_seconds();
    CST_SCOPE(scope);
    CST_TRY(start(context, view, settings, joining, fold_count, out));
    cst_value_fit *fit = out->values;
    cst_value_job job = {.view = view,
                         .scaling = scaling,
                         .folds = folds,
                         .settings = settings,
                         .meta = out,
                         .fit = fit};
    if (losses)
        CST_TAKE(context, &out->scope, out->row_loss, view->rows);
    job.losses = out->row_loss;
    CST_TAKE(context, scope, job.moments, (size_t)fit->gate_count * (size_t)fit->outputs);
    CST_TRY(
        cst_value_gates_fit(context, view, scaling, folds, settings, fit->gate_count, fit->gates));
    out->seconds_gate = cst_seconds() - before;
    before = cst_seconds();
    for (int32_t g = 0; g < fit->gate_count; g++)
        CST_TRY(cst_value_moments(context, scope, view, scaling, &fit->gates[g], folds, fold_count,
                                  job.moments + (size_t)g * (size_t)fit->outputs));
    out->seconds_ridge = cst_seconds() - before;
    CST_TRY(fit_all(context, scope, &job));
    put_learners(out);
    return CST_OK;
}

cst_status cst_value_fit_run(cst_context *context, const cst_view *view, const cst_scaling *scaling,
                             const int32_t *folds, int32_t fold_count, const cst_settings *settings,
                             bool losses, cst_meta_fit *out) {
    double before = cst_seconds();
    double tried = 0;
    if (!settings->learners_chosen && settings->blend.rule == CST_BLEND_STACKING &&
        settings->gate.mode != CST_GATE_NONE) {
        cst_status status =
            run(context, view, scaling, folds, fold_count, settings, true, losses, out);
        bool refused = status == CST_ERROR_INPUT || status == CST_ERROR_NUMERIC;
        if (!refused && (status != CST_OK || out->weight[0] > 0))
            return status;
        cst_meta_fit_free(context, out); /* without the ridge there is no gate */
        tried = cst_seconds() - before;
    }
    CST_TRY(run(context, view, scaling, folds, fold_count, settings, false, losses, out));
    out->seconds_gate += tried;
    return CST_OK;
}
