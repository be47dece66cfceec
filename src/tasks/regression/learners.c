/*
 * The meta-learners of a regression and their blend, from moments by fold. Stages S2 to S4.
 * Paper: "Spectrum-Adaptive Regularization", "Laplace-Approximate Bayesian Blender".
 */
#include "tasks/regression/learners.h"

#include "core/la.h"
#include "fit/refits.h"
#include "method/linear/linear.h"
#include "tasks/regression/baselines.h"
#include "tasks/regression/gate.h"
#include "tasks/regression/weigh.h"

#include <math.h>
#include <string.h>

const char *cst_value_learner_name(cst_value_learner kind) {
    static const char *const names[] = {"ridge",   "elastic-net",      "lasso",      "linear-pool",
                                        "average", "minimum-variance", "best-single"};
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

/* Adds share * (matrix)^-1, matrix [n][n], to the rows and columns index [n] of out [width][width],
 * divided by the scales (NULL: 1). *logdet: of the matrix. */
static cst_status add_inverse(cst_context *context, int64_t n, const double *matrix,
                              const int32_t *index, const double *scale, double share, size_t width,
                              double *out, double *logdet) {
    size_t cells = (size_t)n * (size_t)n;
    double *factor = cst_alloc(context, cells, sizeof *factor);
    double *column = cst_alloc(context, (size_t)n, sizeof *column);
    cst_status status = factor && column ? CST_ERROR_NUMERIC : CST_ERROR_MEMORY;
    double raise = 0;
    for (int attempt = 0; status == CST_ERROR_NUMERIC && attempt < RAISES; attempt++) {
        double trace = 0;
        memcpy(factor, matrix, cells * sizeof *factor);
        for (int64_t i = 0; i < n; i++) {
            trace += fabs(matrix[i * n + i]) / (double)n;
            factor[i * n + i] += raise;
        }
        status = cst_cholesky(context, n, factor);
        raise = fmax(10 * raise, 1e-13 * trace + 1e-300);
    }
    if (status == CST_OK)
        *logdet = cst_cholesky_logdet(n, factor);
    for (int64_t j = 0; status == CST_OK && out && j < n; j++) {
        memset(column, 0, (size_t)n * sizeof *column);
        column[j] = 1;
        cst_cholesky_solve(n, factor, column);
        for (int64_t i = 0; i < n; i++) {
            double units = scale ? scale[i] * scale[j] : 1;
            size_t row = (size_t)(index ? index[i] : i);
            out[row * width + (size_t)(index ? index[j] : j)] += share * column[i] / units;
        }
    }
    cst_free(context, column);
    cst_free(context, factor);
    return status;
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

/* Bits of the learners: by default the linear pool, and mixtures that are safer where its prior
 * misleads it. Of one member the mixtures are all the same. */
static unsigned learners_of(const cst_settings *settings, int32_t members) {
    unsigned mixtures = 1U << CST_VALUE_MINIMUM_VARIANCE | 1U << CST_VALUE_BEST_SINGLE;
    unsigned bits = 1U << CST_VALUE_LINEAR_POOL | 1U << CST_VALUE_AVERAGE | mixtures;
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

/* Penalty of one kind; with few folds the cross-validation gives way to GCV. */
static cst_status penalty_of(cst_context *context, const cst_moments *moments,
                             const cst_settings *settings, cst_linear_kind kind, double ridge,
                             double *lambda) {
    *lambda = ridge;
    double ratio = kind == CST_LINEAR_LASSO ? 1 : settings->l1_ratio;
    if (kind == CST_LINEAR_RIDGE || settings->penalty_rule != CST_PENALTY_CV || ratio == 0 ||
        moments->folds < 2)
        return CST_OK;
    return cst_linear_path_cv(context, moments, kind, ratio, 1e-6, 61, lambda, NULL, NULL);
}

static cst_status keep(cst_context *context, const cst_linear *linear, cst_value_one *out) {
    size_t columns = (size_t)linear->columns;
    out->weights = cst_alloc(context, columns, sizeof *out->weights);
    if (!out->weights)
        return CST_ERROR_MEMORY;
    memcpy(out->weights, linear->coefficients, columns * sizeof *out->weights);
    out->intercept = linear->intercept;
    out->empty = true;
    for (size_t j = 0; j < columns; j++)
        out->empty = out->empty && linear->coefficients[j] == 0;
    /* Its Hessian is that of twice the likelihood's exponent: 2n(...) for n(...) / noise. */
    out->active = linear->active;
    out->logdet = linear->logdet_hessian - (double)linear->active * log(2);
    return CST_OK;
}

/* Covariance of a linear learner's coefficients over the noise, on those that are not 0. */
static cst_status linear_covariance(cst_context *context, const cst_standardised *s,
                                    const cst_linear *linear, size_t width, double share,
                                    double *out) {
    size_t kept = (size_t)s->kept;
    double *matrix = cst_alloc(context, kept * kept, sizeof *matrix);
    int32_t *index = cst_alloc(context, kept, sizeof *index);
    int32_t *place = cst_alloc(context, kept, sizeof *place);
    double *scale = cst_alloc(context, kept, sizeof *scale);
    cst_status status = matrix && index && place && scale ? CST_OK : CST_ERROR_MEMORY;
    size_t n = 0;
    for (size_t a = 0; status == CST_OK && a < kept; a++)
        if (linear->l1_ratio == 0 || linear->coefficients[s->index[a]] != 0) {
            index[n] = s->index[a];
            place[n] = (int32_t)a;
            scale[n++] = s->scale[a];
        }
    double ridge = fmax(linear->lambda * (1 - linear->l1_ratio), 1e-10);
    for (size_t i = 0; status == CST_OK && i < n; i++)
        for (size_t j = 0; j < n; j++)
            matrix[i * n + j] =
                s->gram[(size_t)place[i] * kept + (size_t)place[j]] + (i == j ? ridge : 0);
    double logdet = 0;
    if (status == CST_OK && n > 0)
        status = add_inverse(context, (int64_t)n, matrix, index, scale, share / s->rows, width, out,
                             &logdet);
    cst_free(context, matrix);
    cst_free(context, index);
    cst_free(context, place);
    cst_free(context, scale);
    return status;
}

/* Every linear kind on the moments of one part and output. covariances [learners][columns^2]: of
 * part 0, else NULL. */
static cst_status fit_linear(cst_context *context, const cst_value_job *job,
                             const cst_moments *moments, int32_t part, int32_t output,
                             double *covariances) {
    static const cst_linear_kind kinds[] = {CST_LINEAR_RIDGE, CST_LINEAR_ELASTIC_NET,
                                            CST_LINEAR_LASSO};
    const cst_settings *settings = job->settings;
    cst_value_fit *fit = job->fit;
    cst_standardised standardised = {0};
    cst_penalty_options options = cst_settings_penalty(settings);
    cst_penalty penalty = {0};
    size_t columns = (size_t)fit->columns;
    if (options.rule == CST_PENALTY_CV && moments->folds < 2)
        options.rule = CST_PENALTY_GCV;
    cst_status status = cst_standardise(context, moments, -1, &standardised);
    cst_spectrum_members members = {.count = moments->inputs, .classes = 1};
    CST_THEN(cst_penalty_choose(context, moments, &standardised, &members, &options, &penalty));
    if (status == CST_OK && part == 0) {
        fit->lambda[output] = penalty.lambda;
        if (output == 0) {
            fit->sigma2 = penalty.sigma2;
            fit->mp_edge = penalty.mp_edge;
            fit->snr = penalty.snr;
        }
    }
    for (int32_t m = 0; status == CST_OK && m < fit->learners; m++) {
        if (!is_linear(fit->kind[m]))
            continue;
        cst_linear linear = {0};
        double lambda = 0;
        cst_linear_kind kind = kinds[fit->kind[m]];
        status = penalty_of(context, moments, settings, kind, penalty.lambda, &lambda);
        CST_THEN(cst_linear_fit(context, &standardised, kind, lambda, settings->l1_ratio, &linear));
        CST_THEN(keep(context, &linear, cst_value_one_of(job, part, output, m)));
        if (status == CST_OK && part == 0) {
            status = cst_refits_add_linear(context, fit->refits, &standardised, &linear,
                                           moments->inputs, m);
            fit->refits->refit[fit->refits->count - 1].output = output;
        }
        if (status == CST_OK && covariances)
            status = linear_covariance(context, &standardised, &linear, columns, 1,
                                       covariances + (size_t)m * columns * columns);
        cst_linear_free(context, &linear);
    }
    cst_standardised_free(context, &standardised);
    return status;
}

/* ---- the linear pool ---- */

/* Hessian of the pool in columns of variance 1, for noise 1, and the covariance of its weights over
 * the noise, on the weights that are not held at 0. */
static cst_status pool_curvature(cst_context *context, const cst_covariances *c,
                                 const cst_linear_pool *pool, bool nonnegative, size_t width,
                                 double *out, cst_value_one *fit) {
    size_t k = (size_t)c->columns;
    double *matrix = cst_alloc(context, k * k, sizeof *matrix);
    int32_t *index = cst_alloc(context, k, sizeof *index);
    cst_status status = matrix && index ? CST_OK : CST_ERROR_MEMORY;
    size_t n = 0;
    double trace = 0;
    for (size_t i = 0; status == CST_OK && i < k; i++) {
        trace += c->gram[i * k + i] / (double)k;
        if (!nonnegative || pool->weights[i] > 0)
            index[n++] = (int32_t)i;
    }
    double logs = 0;
    double ridge = fmax(pool->lambda, 1e-12 * trace);
    for (size_t i = 0; status == CST_OK && i < n; i++) {
        double variance = c->gram[(size_t)index[i] * (k + 1)];
        logs += variance > 0 ? log(variance) : 0;
        for (size_t j = 0; j < n; j++)
            matrix[i * n + j] =
                c->gram[(size_t)index[i] * k + (size_t)index[j]] + (i == j ? ridge : 0);
    }
    double logdet = 0;
    if (status == CST_OK && n > 0)
        status =
            add_inverse(context, (int64_t)n, matrix, index, NULL, 1 / c->rows, width, out, &logdet);
    fit->active = (int32_t)n;
    fit->logdet = logdet + (double)n * log(c->rows) - logs;
    cst_free(context, matrix);
    cst_free(context, index);
    return status;
}

/* What the pool's weights are solved again from where members are absent. */
static cst_status keep_pool(cst_context *context, const cst_covariances *c,
                            const cst_linear_pool *pool, bool nonnegative, int32_t output,
                            int32_t learner, cst_refits *refits) {
    size_t k = (size_t)c->columns;
    cst_refit *refit = &refits->refit[refits->count++];
    cst_status status = cst_refit_alloc(context, c->columns, 1, refit);
    if (status != CST_OK)
        return status;
    refit->learner = learner;
    refit->output = output;
    refit->nonnegative = nonnegative;
    refit->pull = pool->lambda;
    refit->rest[0] = c->target_mean;
    refit->loss = refit->least = c->target_square;
    memcpy(refit->curvature, c->gram, k * k * sizeof *c->gram);
    memcpy(refit->slope, c->cross, k * sizeof *c->cross);
    memcpy(refit->center, c->center, k * sizeof *c->center);
    memcpy(refit->tilt, c->mean, k * sizeof *c->mean);
    for (size_t i = 0; i < k; i++) {
        double row = -2 * c->cross[i];
        for (size_t j = 0; j < k; j++)
            row += c->gram[i * k + j] * pool->weights[j];
        refit->least += pool->weights[i] * row;
        refit->ridge[i] = pool->lambda;
        refit->curvature[i * k + i] = fmax(refit->curvature[i * k + i], 0);
    }
    refit->least = fmax(refit->least, 0);
    return CST_OK;
}

/* The pool on the members' own columns. members: their moments. */
static cst_status fit_pool(cst_context *context, const cst_value_job *job,
                           const cst_moments *members, int32_t part, int32_t output,
                           int32_t learner, double *covariance) {
    cst_value_fit *fit = job->fit;
    cst_linear_pool_options options = cst_value_linear_pool_options(job->settings);
    cst_value_one *to = cst_value_one_of(job, part, output, learner);
    cst_covariances c = {0};
    cst_linear_pool pool = {0};
    cst_status status = cst_covariances_make(context, members, -1, options.power, &c);
    CST_THEN(cst_linear_pool_fit(context, members, &options, &pool));
    if (status == CST_OK) {
        memcpy(to->weights, pool.weights, (size_t)members->columns * sizeof *pool.weights);
        to->intercept = pool.intercept;
        if (part == 0 && isnan(fit->lambda[output]))
            fit->lambda[output] = pool.lambda;
        status = pool_curvature(context, &c, &pool, options.nonnegative, (size_t)fit->columns,
                                covariance, to);
    }
    if (status == CST_OK && part == 0)
        status = keep_pool(context, &c, &pool, options.nonnegative, output, learner, fit->refits);
    cst_linear_pool_free(context, &pool);
    cst_covariances_free(context, &c);
    return status;
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
    cst_refit *refit = &refits->refit[refits->count++];
    double *sum = cst_alloc(context, width * width + k, sizeof *sum);
    cst_status status =
        sum ? cst_refit_alloc(context, members->columns, 1, refit) : CST_ERROR_MEMORY;
    bool free_weights = kind == CST_VALUE_MINIMUM_VARIANCE;
    if (status == CST_OK) {
        cst_moments_without(members, -1, sum);
        double *mse = sum + width * width;
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
        refit->loss = refit->least = target[k] / n;
        for (size_t i = 0; i < k; i++) {
            refit->slope[i] = target[i] / n;
            refit->ridge[i] = free_weights ? 0 : refit->pull;
            refit->center[i] = kind == CST_VALUE_BEST_SINGLE ? rank_weight(mse, k, i) : 1;
            double row = -2 * refit->slope[i];
            for (size_t j = 0; j < k; j++) {
                refit->curvature[i * k + j] = sum[i * width + j] / n;
                row += refit->curvature[i * k + j] * weights[j];
            }
            refit->least += weights[i] * row;
        }
        refit->least = fmax(refit->least, 0);
    }
    cst_free(context, sum);
    return status;
}

/* A mixture of the members as they are, which is a baseline too. */
static cst_status fit_mixture(cst_context *context, const cst_value_job *job,
                              const cst_moments *members, int32_t part, int32_t output,
                              int32_t learner) {
    cst_value_fit *fit = job->fit;
    cst_value_one *to = cst_value_one_of(job, part, output, learner);
    cst_value_learner kind = fit->kind[learner];
    const cst_value_baseline *baseline = cst_value_baseline_find(cst_value_learner_name(kind));
    cst_status status =
        cst_value_baseline_fit(context, baseline, NULL, members, to->weights, &to->intercept, NULL);
    if (status == CST_OK && part == 0)
        status = keep_mixture(context, members, kind, to->weights, output, learner, fit->refits);
    return status;
}

/* What takes the members' own columns, which are the design's first. covariances: as fit_linear. */
static cst_status fit_members(cst_context *context, const cst_value_job *job,
                              const cst_moments *moments, int32_t part, int32_t output,
                              double *covariances) {
    const cst_value_fit *fit = job->fit;
    size_t square = (size_t)fit->columns * (size_t)fit->columns;
    cst_moments members = {0};
    int32_t *first = cst_alloc(context, (size_t)moments->inputs, sizeof *first);
    cst_status status = first ? CST_OK : CST_ERROR_MEMORY;
    for (int32_t k = 0; status == CST_OK && k < moments->inputs; k++)
        first[k] = k;
    CST_THEN(cst_value_moments_part(context, moments, -1, first, moments->inputs, &members));
    for (int32_t m = 0; status == CST_OK && m < fit->learners; m++) {
        if (is_linear(fit->kind[m]))
            continue;
        cst_value_one *to = cst_value_one_of(job, part, output, m);
        to->weights = cst_alloc(context, (size_t)fit->columns, sizeof *to->weights);
        if (!to->weights)
            status = CST_ERROR_MEMORY;
        else if (fit->kind[m] == CST_VALUE_LINEAR_POOL)
            status = fit_pool(context, job, &members, part, output, m,
                              covariances ? covariances + (size_t)m * square : NULL);
        else
            status = fit_mixture(context, job, &members, part, output, m);
    }
    cst_moments_free(context, &members);
    cst_free(context, first);
    return status;
}

/* ---- all learners of all parts ---- */

static cst_status fit_part(cst_context *context, const cst_value_job *job, int32_t part,
                           int32_t output, double *covariances) {
    cst_value_fit *fit = job->fit;
    cst_moments moments = {0};
    bool linear = false;
    bool members = false;
    cst_status status = cst_value_moments_part(context, cst_value_moments_of(job, part, output),
                                               part - 1, NULL, 0, &moments);
    for (int32_t m = 0; m < fit->learners; m++) {
        linear = linear || is_linear(fit->kind[m]);
        members = members || !is_linear(fit->kind[m]);
    }
    if (status == CST_OK && linear)
        status = fit_linear(context, job, &moments, part, output, covariances);
    if (status == CST_OK && members)
        status = fit_members(context, job, &moments, part, output, covariances);
    cst_moments_free(context, &moments);
    return status;
}

/* Parts without a fold: task = fold * outputs + output. */
static cst_status part_task(cst_context *context, void *user, int64_t task) {
    const cst_value_job *job = user;
    int32_t outputs = job->fit->outputs;
    return fit_part(context, job, 1 + (int32_t)(task / outputs), (int32_t)(task % outputs), NULL);
}

/* ---- everything ---- */

static cst_status start(cst_context *context, const cst_view *view, const cst_settings *settings,
                        int32_t fold_count, cst_value_fit *fit) {
    *fit = (cst_value_fit){.outputs = view->classes, .folds = fold_count};
    fit->sigma2 = fit->mp_edge = fit->snr = NAN;
    bool linear = false;
    unsigned bits = learners_of(settings, view->members);
    if (bits == 0)
        return cst_fail(context, CST_ERROR_UNSUPPORTED,
                        "none of the meta.learners is for regression: it has ridge, elastic-net, "
                        "lasso, log-linear (the linear pool), average, greedy and best-single");
    for (int kind = 0; kind < CST_VALUE_LEARNERS_MAX; kind++)
        if (bits >> kind & 1U) {
            fit->kind[fit->learners++] = (cst_value_learner)kind;
            linear = linear || is_linear((cst_value_learner)kind);
        }
    cst_gate shape = {.mode = linear ? settings->gate.mode : CST_GATE_NONE,
                      .inputs = view->members};
    fit->gate_count = shape.mode == CST_GATE_LEARNED ? fold_count + 1 : 1;
    fit->gates = cst_alloc(context, (size_t)fit->gate_count, sizeof *fit->gates);
    if (!fit->gates)
        return CST_ERROR_MEMORY;
    for (int32_t g = 0; g < fit->gate_count; g++)
        fit->gates[g] = shape;
    fit->columns = cst_design_columns(&shape);
    size_t columns = (size_t)fit->columns;
    size_t outputs = (size_t)fit->outputs;
    size_t parts = ((size_t)fold_count + 1) * outputs;
    size_t pairs = outputs * (size_t)fit->learners;
    fit->weights = cst_alloc(context, parts * columns, sizeof(double));
    fit->intercept = cst_alloc(context, parts, sizeof(double));
    fit->blend = cst_alloc(context, pairs, sizeof(double));
    fit->nll = cst_alloc(context, pairs, sizeof(double));
    fit->logdet = cst_alloc(context, pairs, sizeof(double));
    fit->mse = cst_alloc(context, outputs, sizeof(double));
    fit->center = cst_alloc(context, outputs * columns, sizeof(double));
    fit->covariance = cst_alloc(context, outputs * columns * columns, sizeof(double));
    fit->lambda = cst_alloc(context, outputs, sizeof(double));
    for (size_t d = 0; fit->lambda && d < outputs; d++)
        fit->lambda[d] = NAN;
    cst_status status = cst_refits_create(context, (int32_t)pairs, &fit->refits);
    if (status != CST_OK)
        return status;
    return fit->weights && fit->intercept && fit->blend && fit->nll && fit->logdet && fit->mse &&
                   fit->center && fit->covariance && fit->lambda
               ? CST_OK
               : CST_ERROR_MEMORY;
}

/* Part 0 of every output, then the other parts, then the blend. */
static cst_status fit_all(cst_context *context, cst_value_job *job) {
    cst_value_fit *fit = job->fit;
    size_t outputs = (size_t)fit->outputs;
    size_t learners = (size_t)fit->learners;
    size_t each = learners * (size_t)fit->columns * (size_t)fit->columns;
    double before = cst_seconds();
    job->covariances = cst_alloc(context, outputs * each, sizeof *job->covariances);
    job->moments_of_residuals =
        cst_alloc(context, outputs * learners * learners, sizeof *job->moments_of_residuals);
    cst_status status = job->covariances && job->moments_of_residuals ? CST_OK : CST_ERROR_MEMORY;
    for (int32_t d = 0; status == CST_OK && d < fit->outputs; d++)
        status = fit_part(context, job, 0, d, job->covariances + (size_t)d * each);
    CST_THEN(cst_parallel_for(context, (int64_t)fit->folds * fit->outputs, part_task, job));
    fit->seconds_ridge += cst_seconds() - before;
    before = cst_seconds();
    CST_THEN(cst_value_weigh(context, job));
    fit->seconds_blend = cst_seconds() - before;
    cst_free(context, job->covariances);
    cst_free(context, job->moments_of_residuals);
    return status;
}

cst_status cst_value_fit_run(cst_context *context, const cst_view *view, const cst_scaling *scaling,
                             const int32_t *folds, int32_t fold_count, const cst_settings *settings,
                             cst_value_fit *out) {
    cst_value_job job = {
        .view = view, .scaling = scaling, .folds = folds, .settings = settings, .fit = out};
    cst_moments *moments = NULL;
    cst_status status = start(context, view, settings, fold_count, out);
    size_t sets = status == CST_OK ? (size_t)out->gate_count * (size_t)out->outputs : 0;
    size_t fits = ((size_t)fold_count + 1) * (size_t)out->outputs * (size_t)out->learners;
    double before = cst_seconds();
    if (status == CST_OK) {
        moments = cst_alloc(context, sets, sizeof *moments);
        job.fits = cst_alloc(context, fits, sizeof *job.fits);
        job.moments = moments;
        status = moments && job.fits ? CST_OK : CST_ERROR_MEMORY;
    }
    CST_THEN(
        cst_value_gates_fit(context, view, scaling, folds, settings, out->gate_count, out->gates));
    out->seconds_gate = cst_seconds() - before;
    before = cst_seconds();
    for (int32_t g = 0; status == CST_OK && g < out->gate_count; g++)
        status = cst_value_moments(context, view, scaling, &out->gates[g], folds, fold_count,
                                   moments + (size_t)g * (size_t)out->outputs);
    out->seconds_ridge = cst_seconds() - before;
    CST_THEN(fit_all(context, &job));
    for (size_t i = 0; job.fits && i < fits; i++)
        cst_free(context, job.fits[i].weights);
    cst_free(context, job.fits);
    cst_value_moments_free(context, moments, (int32_t)sets);
    cst_free(context, moments);
    if (status != CST_OK)
        cst_value_fit_free(context, out);
    return status;
}

void cst_value_fit_free(cst_context *context, cst_value_fit *fit) {
    for (int32_t g = 0; fit->gates && g < fit->gate_count; g++)
        cst_gate_free(context, &fit->gates[g]);
    cst_free(context, fit->gates);
    cst_free(context, fit->weights);
    cst_free(context, fit->intercept);
    cst_free(context, fit->blend);
    cst_free(context, fit->nll);
    cst_free(context, fit->logdet);
    cst_free(context, fit->mse);
    cst_free(context, fit->center);
    cst_free(context, fit->covariance);
    cst_free(context, fit->lambda);
    cst_refits_free(context, fit->refits);
    *fit = (cst_value_fit){0};
}
