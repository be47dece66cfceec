/* Paths of nested sets by sweeping, and their held-out losses. Between S1 and S2 of a regression.
 * docs/regression.md. */
#include "tasks/regression/regression.h"

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

static cst_status sweeper_make(cst_context *context, cst_scope *scope,
                               const cst_covariances *covariances, int32_t outputs,
                               double precision, sweeper *out) {
    size_t k = (size_t)covariances->columns;
    size_t width = k + 1;
    *out = (sweeper){.members = covariances->columns, .outputs = outputs};
    CST_TAKE(context, scope, out->tables, (size_t)outputs * width * width);
    CST_TAKE(context, scope, out->in, k);
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

/* The members that are in, and (unless negative) `also`. Returns how many. */
static int32_t list_in(const sweeper *s, int32_t also, int32_t *members) {
    int32_t count = 0;
    for (int32_t k = 0; k < s->members; k++)
        if (s->in[k] || k == also)
            members[count++] = k;
    return count;
}

/* What leaves costs least over its worth (NULL: 1). */
static void backward(sweeper *s, const double *worth, int32_t **set,
                     void (*note)(const sweeper *s, int32_t size, void *user), void *user) {
    for (int32_t k = 0; k < s->members; k++)
        sweep(s, k);
    for (int32_t size = s->members; size > 0; size--) {
        int32_t leave = -1;
        double least = 0;
        (void)list_in(s, -1, set[size - 1]);
        if (note)
            note(s, size, user);
        for (int32_t k = 0; k < s->members; k++) {
            double cost = s->in[k] ? change(s, k) / (worth ? worth[k] : 1) : INFINITY;
            if (leave < 0 || cost < least) {
                least = cost;
                leave = k;
            }
        }
        sweep(s, leave);
    }
}

static void forward(sweeper *s, const cst_select_options *o, int32_t **set) {
    for (int32_t size = 1; size <= s->members; size++) {
        int32_t best = -1;
        bool within = false; /* those that keep to the budget go first */
        int32_t *members = set[size - 1];
        for (int32_t k = 0; k < s->members; k++) {
            if (s->in[k])
                continue;
            bool fits = cst_costs_within(&o->costs, &o->limits, members, list_in(s, k, members));
            if (best < 0 || (fits && !within) ||
                (fits == within && change(s, k) > change(s, best))) {
                best = k;
                within = fits;
            }
        }
        sweep(s, best);
        (void)list_in(s, -1, members);
    }
}

/* ---- one set ---- */

/* Weights and intercept of the pool on a set, the weights at their members' places ([K], 0
 * elsewhere). */
static cst_status set_weights(cst_context *context, const cst_covariances *c,
                              const int32_t *members, int32_t count, double precision,
                              bool nonnegative, double *weights, double *intercept) {
    cst_covariances part;
    CST_SCOPE(scope);
    CST_NEW(context, scope, double, own, count);
    CST_TRY(cst_covariances_part(context, scope, c, members, count, &part));
    CST_TRY(cst_linear_pool_solve(context, &part, ridge_of(&part, precision), nonnegative, own));
    *intercept = c->target_mean;
    memset(weights, 0, (size_t)c->columns * sizeof *weights);
    for (int32_t j = 0; j < count; j++) {
        weights[members[j]] = own[j];
        *intercept -= own[j] * part.mean[j];
    }
    return CST_OK;
}

static cst_status set_objective(cst_context *context, const cst_covariances *covariances,
                                int32_t outputs, const int32_t *members, int32_t count,
                                double precision, double *out) {
    CST_SCOPE(scope);
    CST_NEW(context, scope, double, weights, count);
    *out = 0;
    for (int32_t d = 0; d < outputs; d++) {
        cst_covariances part;
        CST_SCOPE(output);
        CST_TRY(cst_covariances_part(context, output, &covariances[d], members, count, &part));
        double lambda = ridge_of(&part, precision);
        CST_TRY(cst_linear_pool_solve(context, &part, lambda, false, weights));
        *out += cst_linear_pool_objective(&part, weights, lambda);
    }
    return CST_OK;
}

/* ---- a path ---- */

static cst_status take_sets(cst_context *context, cst_scope *scope, int32_t count, int32_t ***set) {
    CST_TAKE(context, scope, *set, count);
    for (int32_t s = 0; s < count; s++)
        CST_TAKE(context, scope, (*set)[s], s + 1);
    return CST_OK;
}

/* Sets of sizes 1..K, one inside the next, from covariances [outputs]: set[s-1] has s ascending
 * positions. In both directions, at each size that of lower objective on the rows fitted to. */
static cst_status value_path(cst_context *context, const cst_covariances *covariances,
                             int32_t outputs, const cst_select_options *options, int32_t **set) {
    int32_t members = covariances->columns;
    bool limited = cst_limited(&options->limits);
    bool joining =
        limited ? members > CST_SEARCH_MEMBERS : options->direction == CST_SELECT_FORWARD;
    int32_t **other;
    sweeper s;
    CST_SCOPE(scope);
    CST_TRY(sweeper_make(context, scope, covariances, outputs, options->prior, &s));
    if (joining)
        forward(&s, options, set);
    else
        backward(&s, NULL, set, NULL, NULL);
    if (options->direction != CST_SELECT_BOTH || limited)
        return CST_OK;
    cst_scope_free(scope);
    CST_TRY(sweeper_make(context, scope, covariances, outputs, options->prior, &s));
    CST_TRY(take_sets(context, scope, members, &other));
    forward(&s, options, other);
    for (int32_t i = 0; i < members; i++) {
        double objective[2];
        for (int way = 0; way < 2; way++)
            CST_TRY(set_objective(context, covariances, outputs, way ? other[i] : set[i], i + 1,
                                  options->prior, &objective[way]));
        if (objective[1] < objective[0])
            memcpy(set[i], other[i], ((size_t)i + 1) * sizeof **set);
    }
    return CST_OK;
}

/* ---- held-out losses ---- */

/* What a selection makes without a fold, or of all rows. */
typedef struct fold_path {
    cst_covariances *covariances; /* [outputs] */
    int32_t **set;                /* [K]: the path on them */
} fold_path;

typedef struct select_job {
    const cst_run *run;
    const cst_view *view; /* of the members to select from */
    const cst_scaling *scaling;
    const cst_moments *moments; /* [outputs] */
    const cst_select_options *options;
    const cst_linear_pool_options *pool;
    double *weights;   /* [folds][outputs][K sizes][K] */
    double *intercept; /* [folds][outputs][K sizes] */
    fold_path *paths;  /* [folds + 1] */
} select_job;

/* Covariances without a fold, and room for the path on them; the last of all rows. */
static cst_status take_paths(cst_context *context, cst_scope *scope, select_job *job) {
    CST_TAKE(context, scope, job->paths, job->run->fold_count + 1);
    for (int32_t f = 0; f <= job->run->fold_count; f++) {
        fold_path *path = &job->paths[f];
        CST_TAKE(context, scope, path->covariances, job->view->classes);
        for (int32_t d = 0; d < job->view->classes; d++)
            CST_TRY(cst_covariances_make(context, scope, &job->moments[d],
                                         f < job->run->fold_count ? f : -1, job->pool->power,
                                         &path->covariances[d]));
        CST_TRY(take_sets(context, scope, job->view->members, &path->set));
    }
    return CST_OK;
}

static cst_status path_task(cst_context *context, void *user, int64_t task) {
    const select_job *job = user;
    const fold_path *path = &job->paths[task];
    return value_path(context, path->covariances, job->view->classes, job->options, path->set);
}

/* The weights of each of a fold's sets. */
static cst_status weights_task(cst_context *context, void *user, int64_t fold) {
    const select_job *job = user;
    const fold_path *path = &job->paths[fold];
    int32_t k = job->view->members;
    int32_t outputs = job->view->classes;
    for (int32_t d = 0; d < outputs; d++)
        for (int32_t s = 0; s < k; s++) {
            int64_t at = (fold * outputs + d) * k + s;
            CST_TRY(set_weights(context, &path->covariances[d], path->set[s], s + 1,
                                job->options->prior, job->pool->nonnegative, job->weights + at * k,
                                &job->intercept[at]));
        }
    return CST_OK;
}

/* Losses of the rows of fold `fold` at every size, [K][count] added to `losses`, which is zero; x
 * and predicted: scratch. */
static cst_status fold_losses(cst_context *context, const select_job *job,
                              const cst_value_block *block, int32_t fold, double *x,
                              double *predicted, double *losses, int64_t *count) {
    const int32_t *folds = job->run->folds + block->first;
    int64_t k = job->view->members;
    int32_t outputs = job->view->classes;
    for (int32_t d = 0; d < outputs; d++) {
        size_t at = ((size_t)fold * (size_t)outputs + (size_t)d) * (size_t)k;
        int64_t n = 0;
        for (int64_t i = 0; i < block->count; i++) {
            if (folds[i] != fold)
                continue;
            for (int64_t j = 0; j < k; j++)
                x[n * k + j] = block->design[j * block->stride + i * outputs + d];
            n++;
        }
        *count = n;
        if (n == 0)
            return CST_OK;
        CST_TRY(cst_gemm_f64(context, false, true, k, n, k, 1, job->weights + at * (size_t)k, k, x,
                             k, 0, predicted, n));
        int64_t to = 0;
        for (int64_t i = 0; i < block->count; i++) {
            if (folds[i] != fold)
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
    return CST_OK;
}

/* sum: [K] losses, [K][K] products (lower triangle). */
static cst_status losses_block(cst_context *context, void *user, int64_t index, double *sum) {
    const select_job *job = user;
    int64_t k = job->view->members;
    size_t cells = (size_t)k * CST_BLOCK_ROWS;
    cst_gate none = {.mode = CST_GATE_NONE, .inputs = job->view->members};
    cst_value_block block;
    CST_SCOPE(scope);
    CST_NEW(context, scope, double, x, cells);
    CST_NEW(context, scope, double, predicted, cells);
    CST_NEW(context, scope, double, losses, cells);
    CST_TRY(cst_value_block_open(context, scope, job->view, job->scaling, &none, index, &block));
    for (int32_t f = 0; f < job->run->fold_count; f++) {
        int64_t n = 0;
        memset(losses, 0, cells * sizeof *losses);
        CST_TRY(fold_losses(context, job, &block, f, x, predicted, losses, &n));
        for (int64_t s = 0; s < k; s++)
            for (int64_t i = 0; i < n; i++)
                sum[s] += losses[s * n + i];
        if (n > 0)
            CST_TRY(cst_gemm_f64(context, false, true, k, k, n, 1, losses, n, losses, n, 1, sum + k,
                                 k));
    }
    return CST_OK;
}

/* ---- within limits ---- */

typedef struct value_space {
    const select_job *job;
    int32_t fold; /* held out; the number of folds: none */
} value_space;

static cst_status space_fit(cst_context *context, void *user, const int32_t *set, int32_t count,
                            double *weights, double *loss) {
    const value_space *v = user;
    (void)weights; /* solved at once, from nothing */
    return set_objective(context, v->job->paths[v->fold].covariances, v->job->view->classes, set,
                         count, v->job->options->prior, loss);
}

/* The objective is quadratic: the model is that of every set, up to the prior. */
static cst_status space_model(cst_context *context, void *user, const int32_t *candidates,
                              int32_t n, const int32_t *set, int32_t count, const double *weights,
                              double *loss, double *slope, double *curvature) {
    const value_space *v = user;
    const cst_covariances *c = v->job->paths[v->fold].covariances;
    size_t k = (size_t)n;
    (void)weights;
    *loss = 0;
    for (int32_t d = 0; d < v->job->view->classes; d++) {
        cst_covariances part;
        CST_SCOPE(scope);
        CST_TRY(cst_covariances_part(context, scope, &c[d], candidates, n, &part));
        double lambda = ridge_of(&part, v->job->options->prior);
        double *h = curvature + (size_t)d * k * k;
        *loss += c[d].target_square;
        for (size_t p = 0; p < k; p++) {
            for (size_t q = 0; q < k; q++)
                h[p * k + q] = 2 * part.gram[p * k + q];
            h[p * k + p] += 2 * lambda;
            slope[(size_t)d * k + p] = 2 * (part.cross[p] + lambda * part.center[p]);
        }
    }
    return count > 0 ? space_fit(context, user, set, count, NULL, loss) : CST_OK;
}

/* Squared errors of the fold's rows, from moments. */
static cst_status space_judge(cst_context *context, void *user, const int32_t *set, int32_t count,
                              const double *weights, double *loss) {
    const value_space *v = user;
    const select_job *job = v->job;
    (void)weights;
    CST_SCOPE(scope);
    CST_NEW(context, scope, double, full, job->view->members);
    *loss = 0;
    for (int32_t d = 0; d < job->view->classes; d++) {
        double intercept = 0;
        double rows = 0;
        CST_TRY(set_weights(context, &job->paths[v->fold].covariances[d], set, count,
                            job->options->prior, job->pool->nonnegative, full, &intercept));
        *loss += cst_moments_loss(&job->moments[d], v->fold, full, intercept, &rows) /
                 job->view->classes;
    }
    return CST_OK;
}

/* One for each fold and for all rows. */
static cst_status take_spaces(cst_context *context, cst_scope *scope, const select_job *job,
                              cst_fold_space **out) {
    int32_t folds = job->run->fold_count;
    CST_NEW(context, scope, value_space, values, folds + 1);
    CST_TAKE(context, scope, *out, folds + 1);
    for (int32_t f = 0; f <= folds; f++) {
        values[f] = (value_space){job, f};
        (*out)[f] = (cst_fold_space){.sets = {.user = &values[f],
                                              .members = job->view->members,
                                              .blocks = job->view->classes,
                                              .fit = space_fit,
                                              .model = space_model},
                                     .judge = space_judge};
    }
    return CST_OK;
}

/* Puts the sets that a search chooses within the limits into every path. */
static cst_status search_within(cst_context *context, const select_job *job,
                                const cst_fold_space *spaces) {
    int32_t folds = job->run->fold_count;
    int32_t members = job->view->members;
    CST_SCOPE(scope);
    cst_judged_sets sets = {.scope = scope};
    CST_NEW(context, scope, int32_t **, path, folds + 1);
    CST_NEW(context, scope, int32_t, chosen, members);
    for (int32_t f = 0; f <= folds; f++)
        path[f] = job->paths[f].set;
    CST_TRY(cst_search_within(context, spaces, folds, job->options, path, chosen, &sets));
    for (int32_t s = 0; s < members; s++)
        for (int32_t f = 0; chosen[s] >= 0 && f <= folds; f++)
            memcpy(path[f][s], sets.set[chosen[s]].members, ((size_t)s + 1) * sizeof ***path);
    return CST_OK;
}

/* ---- distillation ---- */

CST_OWNED(cst_meta_fit)

/* Covariances whose target is the prediction of a fit of these columns. */
static void follow(const cst_value_fit *fit, int32_t output, cst_covariances *c) {
    size_t k = (size_t)c->columns;
    const double *weights = fit->weights + (size_t)output * k; /* of part 0 */
    c->target_square = 0;
    c->target_mean = fit->intercept[output];
    for (size_t i = 0; i < k; i++) {
        c->cross[i] = 0;
        for (size_t j = 0; j < k; j++)
            c->cross[i] += c->gram[i * k + j] * weights[j];
        c->target_square += weights[i] * c->cross[i];
        c->target_mean += weights[i] * c->mean[i];
    }
}

typedef struct follower {
    select_job *job;
    const cst_covariances *covariances; /* [outputs] */
    double *rest;                       /* [K]: mean squared distance at each size */
} follower;

/* Keeps the pool of a size, the same for the rows of every fold. */
static void note_pool(const sweeper *s, int32_t size, void *user) {
    const follower *f = user;
    size_t k = (size_t)s->members;
    for (int32_t d = 0; d < s->outputs; d++) {
        const double *table = s->tables + (size_t)d * (k + 1) * (k + 1);
        f->rest[size - 1] += fmax(table[(k + 1) * (k + 1) - 1], 0) / s->outputs;
        for (int32_t fold = 0; fold < f->job->run->fold_count; fold++) {
            size_t at = ((size_t)fold * (size_t)s->outputs + (size_t)d) * k + (size_t)size - 1;
            f->job->intercept[at] = f->covariances[d].target_mean;
            for (size_t i = 0; i < k; i++) {
                double weight = s->in[i] ? table[i * (k + 1) + k] : 0;
                f->job->weights[at * k + i] = weight;
                f->job->intercept[at] -= weight * f->covariances[d].mean[i];
            }
        }
    }
}

/* What leaving members out costs on the targets, which no pool of the path was fitted to. labels:
 * sums of the losses on them and of their products. */
static void compare_labels(const double *labels, double rows, cst_selection *out) {
    size_t k = (size_t)out->members;
    const double *product = labels + k;
    for (size_t s = 0; s < k; s++) {
        double square = product[s * k + s] - 2 * product[(k - 1) * k + s] + product[k * k - 1];
        double mean = (labels[s] - labels[k - 1]) / rows;
        out->path[s].against_all = mean;
        out->path[s].against_all_se = sqrt(fmax(square / rows - mean * mean, 0) / rows);
    }
}

/* The blend of all members is followed by linear pools of fewer. The loss of a size is that of the
 * blend, and the mean squared distance from it or what the targets say, whichever is more. */
static cst_status distil_members(cst_context *context, select_job *job, cst_selection *out,
                                 cst_front *front) {
    const cst_run *run = job->run;
    size_t k = (size_t)job->view->members;
    int32_t outputs = job->view->classes;
    double rows = (double)job->view->rows;
    double loss = 0;
    cst_meta_fit fit = {0};
    cst_settings settings = *run->settings;
    follower f = {.job = job};
    int32_t **set;
    sweeper s;
    CST_SCOPE(own);
    CST_NEW(context, own, cst_covariances, covariances, outputs);
    CST_NEW(context, own, double, worth, k);
    CST_NEW(context, own, double, total, k + k * k);
    CST_NEW(context, own, double, labels, k + k * k);
    CST_TAKE(context, own, f.rest, k);
    settings.gate.mode = CST_GATE_NONE;
    CST_OWN(context, own, cst_meta_fit, &fit);
    CST_TRY(cst_value_fit_run(context, job->view, job->scaling, run->folds, run->fold_count,
                              &settings, true, &fit));
    for (int64_t i = 0; i < job->view->rows; i++)
        loss += fit.row_loss[i] / rows;
    for (int32_t d = 0; d < outputs; d++) {
        CST_TRY(cst_covariances_make(context, own, &job->moments[d], -1, job->pool->power,
                                     &covariances[d]));
        follow(fit.values, d, &covariances[d]);
    }
    f.covariances = covariances;
    CST_TRY(take_sets(context, own, job->view->members, &set));
    for (int p = 0; p < cst_distil_paths(job->options, job->view->members); p++) {
        cst_selection found = {.members = job->view->members};
        CST_SCOPE(path);
        memset(f.rest, 0, k * sizeof *f.rest);
        cst_distil_worth(job->options, job->view->members, p, worth);
        CST_TRY(sweeper_make(context, path, covariances, outputs, 0, &s));
        backward(&s, worth, set, note_pool, &f);
        CST_TRY(cst_reduce_blocks(context, cst_block_count(job->view->rows), k + k * k,
                                  losses_block, job, labels));
        for (size_t i = 0; i < k; i++)
            total[i] = rows * loss + fmax(rows * f.rest[i], labels[i] - labels[k - 1]);
        for (size_t i = 0; i < k * k; i++) /* exact: differences have no error */
            total[k + i] = total[i / k] * total[i % k] / rows;
        cst_status status =
            cst_selection_finish(context, job->options, total, job->view->rows, set, &found);
        if (status == CST_OK) {
            compare_labels(labels, rows, &found);
            cst_distil_keep(context, job->options, &found, out);
        }
        cst_selection_free(context, &found);
        CST_TRY(status);
    }
    return front ? cst_front_make(context, NULL, 0, job->options, out, front) : CST_OK;
}

/* ---- the selection ---- */

static cst_status select_members(cst_context *context, cst_scope *scope, select_job *job,
                                 cst_selection *out, cst_front *front) {
    const cst_view *view = job->view;
    bool limited = cst_limited(&job->options->limits);
    int32_t folds = job->run->fold_count;
    size_t k = (size_t)view->members;
    size_t sets = (size_t)folds * (size_t)view->classes * k;
    size_t cells = 0;
    cst_fold_space *spaces = NULL;
    if (!cst_size_mul(sets, k, &cells))
        return cst_fail(context, CST_ERROR_LIMIT, "too many members to select from");
    CST_TAKE(context, scope, job->weights, cells);
    CST_TAKE(context, scope, job->intercept, sets);
    if (job->options->rule == CST_SELECT_DISTIL)
        return distil_members(context, job, out, front);
    CST_NEW(context, scope, double, total, k + k * k);
    CST_TRY(take_paths(context, scope, job));
    CST_TRY(cst_parallel_for(context, (int64_t)folds + 1, path_task, job));
    if (limited) {
        CST_TRY(take_spaces(context, scope, job, &spaces));
        CST_TRY(search_within(context, job, spaces));
    }
    CST_TRY(cst_parallel_for(context, folds, weights_task, job));
    CST_TRY(cst_reduce_blocks(context, cst_block_count(view->rows), k + k * k, losses_block, job,
                              total));
    CST_TRY(
        cst_selection_finish(context, job->options, total, view->rows, job->paths[folds].set, out));
    return front ? cst_front_make(context, spaces, limited ? folds : 0, job->options, out, front)
                 : CST_OK;
}

cst_status cst_value_choose(cst_context *context, const cst_run *run, const int32_t *members,
                            int32_t count, const cst_select_options *options, cst_selection *out,
                            cst_front *front) {
    const cst_value_own *own = run->own;
    cst_linear_pool_options pool = cst_value_linear_pool_options(run->settings);
    CST_SCOPE(scope);
    CST_NEW(context, scope, const float *, pointers, count);
    CST_NEW(context, scope, cst_moments, moments, run->view->classes);
    for (int32_t d = 0; d < run->view->classes; d++)
        CST_TRY(cst_value_moments_part(context, scope, &own->moments[d], -1, members, count,
                                       &moments[d]));
    const cst_view view = cst_view_members(run->view, members, count, pointers);
    select_job job = {.run = run,
                      .view = &view,
                      .scaling = &own->scaling,
                      .moments = moments,
                      .options = options,
                      .pool = &pool};
    *out = (cst_selection){.members = count};
    cst_status status = select_members(context, scope, &job, out, front);
    if (status != CST_OK)
        cst_selection_free(context, out);
    return status;
}
