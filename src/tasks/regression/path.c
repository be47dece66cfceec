/*
 * Paths of nested sets by sweeping, and their held-out losses. Between S1 and S2 of a regression.
 * docs/regression.md.
 */
#include "tasks/regression/path.h"

#include "core/la.h"

#include <math.h>
#include <string.h>

/* ---- sweeping ---- */

/* [G b; b' y] with the columns of a set swept holds at once the set's weights, what each outsider
 * would gain by joining and what each insider costs by leaving, for O(K^2) a step. */

typedef struct sweeper {
    int32_t members;
    int32_t outputs;
    double *tables; /* [outputs][(K + 1) * (K + 1)] */
    bool *in;       /* [K] */
} sweeper;

static double ridge_of(const cst_covariances *c, double precision) {
    return precision * cst_center_variance(c) / c->rows;
}

static cst_status sweeper_make(cst_context *context, const cst_covariances *covariances,
                               int32_t outputs, double precision, sweeper *out) {
    size_t k = (size_t)covariances->columns;
    size_t width = k + 1;
    *out = (sweeper){.members = covariances->columns, .outputs = outputs};
    out->tables = cst_alloc(context, (size_t)outputs * width * width, sizeof *out->tables);
    out->in = cst_alloc(context, k, sizeof *out->in);
    if (!out->tables || !out->in)
        return CST_ERROR_MEMORY;
    for (int32_t d = 0; d < outputs; d++) {
        const cst_covariances *c = &covariances[d];
        double *table = out->tables + (size_t)d * width * width;
        double trace = 0;
        for (size_t i = 0; i < k; i++)
            trace += c->gram[i * k + i] / (double)k;
        double lambda = fmax(ridge_of(c, precision), 1e-12 * trace);
        for (size_t i = 0; i < k; i++) {
            memcpy(table + i * width, c->gram + i * k, k * sizeof *table);
            table[i * width + i] += lambda;
            table[i * width + k] = table[k * width + i] = c->cross[i] + lambda * c->center[i];
        }
        table[k * width + k] = c->target_square;
    }
    return CST_OK;
}

static void sweeper_free(cst_context *context, sweeper *s) {
    cst_free(context, s->tables);
    cst_free(context, s->in);
    *s = (sweeper){0};
}

/* Takes member `m` in or out of every output's table. */
static void sweep(sweeper *s, int32_t m) {
    size_t width = (size_t)s->members + 1;
    size_t k = (size_t)m;
    double sign = s->in[m] ? -1 : 1;
    for (int32_t d = 0; d < s->outputs; d++) {
        double *a = s->tables + (size_t)d * width * width;
        double pivot = a[k * width + k];
        if (pivot == 0)
            continue;
        for (size_t i = 0; i < width; i++) {
            if (i == k)
                continue;
            double factor = a[i * width + k] / pivot;
            for (size_t j = 0; j < width; j++)
                if (j != k)
                    a[i * width + j] -= factor * a[k * width + j];
        }
        for (size_t i = 0; i < width; i++)
            if (i != k) {
                a[i * width + k] *= sign / pivot;
                a[k * width + i] = a[i * width + k];
            }
        a[k * width + k] = -1 / pivot;
    }
    s->in[m] = !s->in[m];
}

/* How much the objective falls when `m` joins, or rises when it leaves, over all outputs. */
static double change(const sweeper *s, int32_t m) {
    size_t width = (size_t)s->members + 1;
    double sum = 0;
    for (int32_t d = 0; d < s->outputs; d++) {
        const double *a = s->tables + (size_t)d * width * width;
        double b = a[(size_t)m * width + width - 1];
        double pivot = fabs(a[(size_t)m * width + (size_t)m]);
        sum += pivot > 0 ? b * b / pivot : 0;
    }
    return sum;
}

/* ---- paths ---- */

static cst_status keep_set(cst_context *context, const sweeper *s, int32_t size, int32_t **set) {
    int32_t *members = cst_alloc(context, (size_t)size, sizeof *members);
    if (!members)
        return CST_ERROR_MEMORY;
    int32_t count = 0;
    for (int32_t k = 0; k < s->members; k++)
        if (s->in[k])
            members[count++] = k;
    cst_free(context, set[size - 1]);
    set[size - 1] = members;
    return CST_OK;
}

static cst_status backward(cst_context *context, sweeper *s, int32_t **set) {
    cst_status status = CST_OK;
    for (int32_t k = 0; k < s->members; k++)
        sweep(s, k);
    for (int32_t size = s->members; status == CST_OK && size > 0; size--) {
        status = keep_set(context, s, size, set);
        int32_t least = -1;
        for (int32_t k = 0; k < s->members; k++)
            if (s->in[k] && (least < 0 || change(s, k) < change(s, least)))
                least = k;
        sweep(s, least);
    }
    return status;
}

/* Whether the set with member `m` besides is within the limits. members: [K] scratch. */
static bool affordable(const cst_select_options *o, const sweeper *s, int32_t m, int32_t *members) {
    int32_t count = 0;
    for (int32_t k = 0; k < s->members; k++)
        if (s->in[k] || k == m)
            members[count++] = k;
    return cst_costs_within(&o->costs, &o->limits, members, count);
}

static cst_status forward(cst_context *context, sweeper *s, const cst_select_options *o,
                          int32_t **set) {
    int32_t *members = cst_alloc(context, (size_t)s->members, sizeof *members);
    cst_status status = members ? CST_OK : CST_ERROR_MEMORY;
    for (int32_t size = 1; status == CST_OK && size <= s->members; size++) {
        int32_t best = -1;
        bool within = false; /* those that keep to the budget go first */
        for (int32_t k = 0; k < s->members; k++) {
            if (s->in[k])
                continue;
            bool fits = affordable(o, s, k, members);
            if (best < 0 || (fits && !within) ||
                (fits == within && change(s, k) > change(s, best))) {
                best = k;
                within = fits;
            }
        }
        sweep(s, best);
        status = keep_set(context, s, size, set);
    }
    cst_free(context, members);
    return status;
}

/* ---- one set ---- */

/* Weights and intercept of the pool on a set, the weights at their members' places ([K], 0
 * elsewhere). */
static cst_status set_weights(cst_context *context, const cst_covariances *c,
                              const int32_t *members, int32_t count, double precision,
                              bool nonnegative, double *weights, double *intercept) {
    cst_covariances part;
    double *own = cst_alloc(context, (size_t)count, sizeof *own);
    cst_status status =
        own ? cst_covariances_part(context, c, members, count, &part) : CST_ERROR_MEMORY;
    if (status == CST_OK) {
        status =
            cst_linear_pool_solve(context, &part, ridge_of(&part, precision), nonnegative, own);
        *intercept = c->target_mean;
        memset(weights, 0, (size_t)c->columns * sizeof *weights);
        for (int32_t j = 0; j < count; j++) {
            weights[members[j]] = own[j];
            *intercept -= own[j] * part.mean[j];
        }
        cst_covariances_free(context, &part);
    }
    cst_free(context, own);
    return status;
}

static cst_status set_objective(cst_context *context, const cst_covariances *covariances,
                                int32_t outputs, const int32_t *members, int32_t count,
                                double precision, double *out) {
    double *weights = cst_alloc(context, (size_t)count, sizeof *weights);
    cst_status status = weights ? CST_OK : CST_ERROR_MEMORY;
    *out = 0;
    for (int32_t d = 0; status == CST_OK && d < outputs; d++) {
        cst_covariances part;
        status = cst_covariances_part(context, &covariances[d], members, count, &part);
        if (status != CST_OK)
            break;
        double lambda = ridge_of(&part, precision);
        status = cst_linear_pool_solve(context, &part, lambda, false, weights);
        *out += cst_linear_pool_objective(&part, weights, lambda);
        cst_covariances_free(context, &part);
    }
    cst_free(context, weights);
    return status;
}

/* At each size the set of lower objective on the rows fitted to. `set` keeps it. */
static cst_status merge(cst_context *context, const cst_covariances *covariances, int32_t outputs,
                        double precision, int32_t **set, int32_t **other) {
    cst_status status = CST_OK;
    for (int32_t s = 0; status == CST_OK && s < covariances->columns; s++) {
        double objective[2];
        status =
            set_objective(context, covariances, outputs, set[s], s + 1, precision, &objective[0]);
        CST_THEN(set_objective(context, covariances, outputs, other[s], s + 1, precision,
                               &objective[1]));
        if (status == CST_OK && objective[1] < objective[0]) {
            int32_t *better = other[s];
            other[s] = set[s];
            set[s] = better;
        }
    }
    return status;
}

/* ---- a path ---- */

static void free_sets(cst_context *context, int32_t **set, int32_t count) {
    for (int32_t s = 0; set && s < count; s++) {
        cst_free(context, set[s]);
        set[s] = NULL;
    }
}

/* Sets of sizes 1..K, one inside the next, from covariances [outputs]; set[s-1] has s ascending
 * positions and is the caller's. prior: precision of the weights. */
static cst_status value_path(cst_context *context, const cst_covariances *covariances,
                             int32_t outputs, const cst_select_options *options, int32_t **set) {
    int32_t members = covariances->columns;
    bool limited = cst_limited(&options->limits);
    bool joining =
        limited ? members > CST_SEARCH_MEMBERS : options->direction == CST_SELECT_FORWARD;
    bool both = options->direction == CST_SELECT_BOTH && !limited;
    int32_t **other = cst_alloc(context, (size_t)members, sizeof *other);
    sweeper s = {0};
    memset(set, 0, (size_t)members * sizeof *set);
    cst_status status =
        other ? sweeper_make(context, covariances, outputs, options->prior, &s) : CST_ERROR_MEMORY;
    CST_THEN(joining ? forward(context, &s, options, set) : backward(context, &s, set));
    if (status == CST_OK && both) {
        sweeper_free(context, &s);
        status = sweeper_make(context, covariances, outputs, options->prior, &s);
        CST_THEN(forward(context, &s, options, other));
        CST_THEN(merge(context, covariances, outputs, options->prior, set, other));
    }
    sweeper_free(context, &s);
    free_sets(context, other, members);
    cst_free(context, other);
    if (status != CST_OK)
        free_sets(context, set, members);
    return status;
}

/* ---- held-out losses ---- */

typedef struct select_job {
    const cst_view *view;
    const cst_scaling *scaling;
    const cst_moments *moments; /* [outputs] */
    const int32_t *folds;
    int32_t fold_count;
    const cst_select_options *options;
    const cst_linear_pool_options *pool;
    double *weights;               /* [folds][outputs][K sizes][K] */
    double *intercept;             /* [folds][outputs][K sizes] */
    cst_covariances **covariances; /* [folds + 1][outputs]: without each fold; of all rows */
    int32_t ***set;                /* [folds + 1][K]: the paths on them */
} select_job;

/* Covariances without fold `task` and the path on them; the last task: on all rows. */
static cst_status path_task(cst_context *context, void *user, int64_t task) {
    const select_job *job = user;
    size_t outputs = (size_t)job->view->classes;
    int32_t fold = task < job->fold_count ? (int32_t)task : -1;
    cst_covariances *c = cst_alloc(context, outputs, sizeof *c);
    job->covariances[task] = c;
    job->set[task] = cst_alloc(context, (size_t)job->view->members, sizeof **job->set);
    cst_status status = c && job->set[task] ? CST_OK : CST_ERROR_MEMORY;
    for (size_t d = 0; status == CST_OK && d < outputs; d++)
        status = cst_covariances_make(context, &job->moments[d], fold, job->pool->power, &c[d]);
    CST_THEN(value_path(context, c, (int32_t)outputs, job->options, job->set[task]));
    return status;
}

/* The weights of each of a fold's sets. */
static cst_status weights_task(cst_context *context, void *user, int64_t fold) {
    const select_job *job = user;
    size_t k = (size_t)job->view->members;
    size_t outputs = (size_t)job->view->classes;
    cst_status status = CST_OK;
    for (size_t d = 0; status == CST_OK && d < outputs; d++)
        for (size_t s = 0; status == CST_OK && s < k; s++) {
            size_t at = ((size_t)fold * outputs + d) * k + s;
            status = set_weights(context, &job->covariances[fold][d], job->set[fold][s],
                                 (int32_t)s + 1, job->options->prior, job->pool->nonnegative,
                                 job->weights + at * k, &job->intercept[at]);
        }
    return status;
}

/* Losses of the rows of fold `fold` at every size, [K][count] added to `losses`, which is zero; x
 * and predicted: scratch. Returns the number of rows. */
static cst_status fold_losses(cst_context *context, const select_job *job,
                              const cst_value_block *block, int32_t fold, double *x,
                              double *predicted, double *losses, int64_t *count) {
    int64_t k = job->view->members;
    int32_t outputs = job->view->classes;
    cst_status status = CST_OK;
    for (int32_t d = 0; status == CST_OK && d < outputs; d++) {
        size_t at = ((size_t)fold * (size_t)outputs + (size_t)d) * (size_t)k;
        int64_t n = 0;
        for (int64_t i = 0; i < block->count; i++) {
            if (job->folds[block->first + i] != fold)
                continue;
            for (int64_t j = 0; j < k; j++)
                x[n * k + j] = block->design[j * block->stride + i * outputs + d];
            n++;
        }
        *count = n;
        if (n == 0)
            return CST_OK;
        status = cst_gemm_f64(context, false, true, k, n, k, 1, job->weights + at * (size_t)k, k, x,
                              k, 0, predicted, n);
        int64_t to = 0;
        for (int64_t i = 0; status == CST_OK && i < block->count; i++) {
            if (job->folds[block->first + i] != fold)
                continue;
            double y = cst_value_block_target(block, i, d);
            double weight = cst_view_weight(job->view, block->first + i);
            for (int64_t s = 0; s < k; s++) {
                double error = predicted[s * n + to] + job->intercept[at + (size_t)s] - y;
                losses[s * n + to] += weight * (error * error / outputs);
            }
            to++;
        }
    }
    return status;
}

/* sum: [K] losses, [K][K] products (lower triangle). */
static cst_status losses_block(cst_context *context, void *user, int64_t index, double *sum) {
    const select_job *job = user;
    size_t k = (size_t)job->view->members;
    cst_gate none = {.mode = CST_GATE_NONE, .inputs = job->view->members};
    cst_value_block block;
    double *x = cst_alloc(context, 3 * k * CST_BLOCK_ROWS, sizeof *x);
    cst_status status = cst_value_block_make(context, job->view, job->scaling, &none, &block);
    if (!x)
        status = CST_ERROR_MEMORY;
    double *predicted = x ? x + k * CST_BLOCK_ROWS : NULL;
    double *losses = x ? predicted + k * CST_BLOCK_ROWS : NULL;
    CST_THEN(cst_value_block_read(context, &block, cst_block_first(index),
                                  cst_block_size(job->view->rows, index)));
    if (status == CST_OK)
        cst_value_block_design(&block, &none);
    for (int32_t f = 0; status == CST_OK && f < job->fold_count; f++) {
        int64_t n = 0;
        memset(losses, 0, k * CST_BLOCK_ROWS * sizeof *losses);
        status = fold_losses(context, job, &block, f, x, predicted, losses, &n);
        for (size_t s = 0; status == CST_OK && s < k; s++)
            for (int64_t i = 0; i < n; i++)
                sum[s] += losses[(int64_t)s * n + i];
        if (status == CST_OK && n > 0)
            status = cst_gemm_f64(context, false, true, (int64_t)k, (int64_t)k, n, 1, losses, n,
                                  losses, n, 1, sum + k, (int64_t)k);
    }
    cst_value_block_free(context, &block);
    cst_free(context, x);
    return status;
}

typedef struct value_space {
    const select_job *job;
    int32_t fold; /* held out; the number of folds: none */
} value_space;

static cst_status space_fit(cst_context *context, void *user, const int32_t *set, int32_t count,
                            double *weights, double *loss) {
    const value_space *v = user;
    (void)weights; /* solved at once, from nothing */
    return set_objective(context, v->job->covariances[v->fold], v->job->view->classes, set, count,
                         v->job->options->prior, loss);
}

/* The objective is quadratic: the model is that of every set, up to the prior. */
static cst_status space_model(cst_context *context, void *user, const int32_t *candidates,
                              int32_t n, const int32_t *set, int32_t count, const double *weights,
                              double *loss, double *slope, double *curvature) {
    const value_space *v = user;
    const cst_covariances *c = v->job->covariances[v->fold];
    cst_status status = CST_OK;
    size_t k = (size_t)n;
    (void)weights;
    *loss = 0;
    for (int32_t d = 0; status == CST_OK && d < v->job->view->classes; d++) {
        cst_covariances part;
        status = cst_covariances_part(context, &c[d], candidates, n, &part);
        if (status != CST_OK)
            break;
        double lambda = ridge_of(&part, v->job->options->prior);
        double *h = curvature + (size_t)d * k * k;
        *loss += c[d].target_square;
        for (size_t p = 0; p < k; p++) {
            for (size_t q = 0; q < k; q++)
                h[p * k + q] = 2 * part.gram[p * k + q];
            h[p * k + p] += 2 * lambda;
            slope[(size_t)d * k + p] = 2 * (part.cross[p] + lambda * part.center[p]);
        }
        cst_covariances_free(context, &part);
    }
    if (status == CST_OK && count > 0)
        status = space_fit(context, user, set, count, NULL, loss);
    return status;
}

/* Squared errors of the fold's rows, from moments. */
static cst_status space_judge(cst_context *context, void *user, const int32_t *set, int32_t count,
                              const double *weights, double *loss) {
    const value_space *v = user;
    const select_job *job = v->job;
    size_t k = (size_t)job->view->members;
    double *full = cst_alloc(context, k, sizeof *full);
    cst_status status = full ? CST_OK : CST_ERROR_MEMORY;
    (void)weights;
    *loss = 0;
    for (int32_t d = 0; status == CST_OK && d < job->view->classes; d++) {
        double intercept = 0;
        double rows = 0;
        status = set_weights(context, &job->covariances[v->fold][d], set, count,
                             job->options->prior, job->pool->nonnegative, full, &intercept);
        if (status == CST_OK)
            *loss += cst_moments_loss(&job->moments[d], v->fold, full, intercept, &rows) /
                     job->view->classes;
    }
    cst_free(context, full);
    return status;
}

/* spaces, values: [folds + 1] */
static void make_spaces(const select_job *job, value_space *values, cst_fold_space *spaces) {
    for (int32_t f = 0; f <= job->fold_count; f++) {
        values[f] = (value_space){job, f};
        spaces[f] = (cst_fold_space){.sets = {.user = &values[f],
                                              .members = job->view->members,
                                              .blocks = job->view->classes,
                                              .fit = space_fit,
                                              .model = space_model},
                                     .judge = space_judge};
    }
}

/* Puts the sets that a search chooses within the limits into every path. */
static cst_status search_within(cst_context *context, const select_job *job) {
    size_t count = (size_t)job->fold_count + 1;
    int32_t members = job->view->members;
    cst_judged_sets sets = {0};
    value_space *values = cst_alloc(context, count, sizeof *values);
    cst_fold_space *spaces = cst_alloc(context, count, sizeof *spaces);
    int32_t *chosen = cst_alloc(context, (size_t)members, sizeof *chosen);
    cst_status status = values && spaces && chosen ? CST_OK : CST_ERROR_MEMORY;
    if (status == CST_OK) {
        make_spaces(job, values, spaces);
        status = cst_search_within(context, spaces, job->fold_count, job->options, job->set, chosen,
                                   &sets);
    }
    for (int32_t s = 0; status == CST_OK && s < members; s++)
        for (size_t f = 0; chosen[s] >= 0 && f < count; f++)
            memcpy(job->set[f][s], sets.set[chosen[s]].members,
                   ((size_t)s + 1) * sizeof ***job->set);
    cst_scope_free(&sets.scope);
    cst_free(context, values);
    cst_free(context, spaces);
    cst_free(context, chosen);
    return status;
}

static cst_status job_make(cst_context *context, select_job *job) {
    size_t count = (size_t)job->fold_count + 1;
    job->covariances = cst_alloc(context, count, sizeof(cst_covariances *));
    job->set = cst_alloc(context, count, sizeof(int32_t **));
    return job->covariances && job->set ? CST_OK : CST_ERROR_MEMORY;
}

static void job_free(cst_context *context, select_job *job) {
    for (int32_t f = 0; f <= job->fold_count; f++) {
        cst_covariances *c = job->covariances ? job->covariances[f] : NULL;
        for (int32_t d = 0; c && d < job->view->classes; d++)
            cst_covariances_free(context, &c[d]);
        cst_free(context, c);
        if (job->set)
            free_sets(context, job->set[f], job->view->members);
        if (job->set)
            cst_free(context, job->set[f]);
    }
    cst_free(context, job->covariances);
    cst_free(context, job->set);
    cst_free(context, job->weights);
    cst_free(context, job->intercept);
}

/* The front around the sets of a selection. */
static cst_status make_front(cst_context *context, const select_job *job,
                             const cst_selection *selection, cst_front *front) {
    size_t count = (size_t)job->fold_count + 1;
    value_space *values = cst_alloc(context, count, sizeof *values);
    cst_fold_space *spaces = cst_alloc(context, count, sizeof *spaces);
    int32_t **path = cst_alloc(context, (size_t)job->view->members, sizeof *path);
    cst_status status = values && spaces && path ? CST_OK : CST_ERROR_MEMORY;
    if (status == CST_OK) {
        for (int32_t k = 0; k < job->view->members; k++)
            path[k] = selection->path[k].members;
        make_spaces(job, values, spaces);
        status = cst_front_make(context, spaces, job->fold_count, job->options, path,
                                selection->chosen, job->view->rows, front);
    }
    cst_free(context, values);
    cst_free(context, spaces);
    cst_free(context, path);
    return status;
}

cst_status cst_value_select(cst_context *context, const cst_view *view, const cst_scaling *scaling,
                            const cst_moments *moments, const int32_t *folds, int32_t fold_count,
                            const cst_select_options *options, const cst_linear_pool_options *pool,
                            cst_selection *out, cst_front *front) {
    size_t k = (size_t)view->members;
    size_t sets = (size_t)fold_count * (size_t)view->classes * k;
    size_t width = k + k * k;
    size_t cells = 0;
    select_job job = {.view = view,
                      .scaling = scaling,
                      .moments = moments,
                      .folds = folds,
                      .fold_count = fold_count,
                      .options = options,
                      .pool = pool};
    *out = (cst_selection){.members = view->members};
    if (!cst_size_mul(sets, k, &cells))
        return cst_fail(context, CST_ERROR_LIMIT, "too many members to select from");
    job.weights = cst_alloc(context, cells, sizeof *job.weights);
    job.intercept = cst_alloc(context, sets, sizeof *job.intercept);
    double *total = cst_alloc(context, width, sizeof *total);
    cst_status status = job_make(context, &job);
    if (!job.weights || !job.intercept || !total)
        status = CST_ERROR_MEMORY;
    CST_THEN(cst_parallel_for(context, (int64_t)fold_count + 1, path_task, &job));
    if (status == CST_OK && cst_limited(&options->limits))
        status = search_within(context, &job);
    CST_THEN(cst_parallel_for(context, fold_count, weights_task, &job));
    CST_THEN(
        cst_reduce_blocks(context, cst_block_count(view->rows), width, losses_block, &job, total));
    if (status == CST_OK)
        status =
            cst_selection_finish(context, options, total, view->rows, job.set[fold_count], out);
    if (status == CST_OK && front)
        status = cst_limited(&options->limits) ? make_front(context, &job, out, front)
                                               : cst_front_of_path(context, options, out, front);
    job_free(context, &job);
    cst_free(context, total);
    if (status != CST_OK)
        cst_selection_free(context, out);
    return status;
}
