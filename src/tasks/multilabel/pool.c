/* The pool of log-odds: weights shared by all labels, and deviations of each that are drawn to
 * them. Stage S4 of a multilabel fit. docs/multilabel.md#the-pool. */
#include "tasks/multilabel/multilabel.h"

#include "core/la.h"

#include <float.h>
#include <math.h>
#include <string.h>

/* ---- the table ---- */

enum { SHARES = 13, GRID = 13, STEPS_MAX = 60, WORSE_MAX = 2 };

/* 0 and then from 1e-6 to 0.3. */
static double share_at(int s) {
    return s == 0 ? 0 : 1e-6 * pow(3e5, (double)(s - 1) / (SHARES - 2));
}

/* Of each member its loss by each share, then the known cells, times weights. */
static cst_status shares_block(cst_context *context, void *user, int64_t block, double *sum) {
    const cst_view *view = user;
    cst_rows rows;
    CST_SCOPE(scope);
    CST_TRY(cst_rows_open(context, scope, view, block, &rows));
    for (int32_t k = 0; k < view->members; k++, sum += SHARES + 1) {
        CST_TRY(cst_rows_read(context, &rows, k));
        for (int64_t i = 0; i < rows.count; i++) {
            const float *p = cst_rows_at(&rows, i);
            const double *y = cst_view_target(view, rows.first + i);
            double weight = cst_view_weight(view, rows.first + i);
            for (int32_t l = 0; l < view->classes; l++) {
                if (isnan(y[l]))
                    continue;
                sum[SHARES] += weight;
                for (int s = 0; s < SHARES; s++) {
                    double share = share_at(s);
                    sum[s] +=
                        weight * cst_label_loss((1 - share) * (double)p[l] + share / 2, y[l] > 0.5);
                }
            }
        }
    }
    return CST_OK;
}

typedef struct fill_job {
    const cst_view *view;
    const cst_label_table *table;
} fill_job;

static cst_status fill_block(cst_context *context, void *user, int64_t block) {
    const fill_job *job = user;
    const cst_label_table *t = job->table;
    cst_rows rows;
    CST_SCOPE(scope);
    CST_TRY(cst_rows_open(context, scope, job->view, block, &rows));
    for (int32_t k = 0; k < t->members; k++) {
        CST_TRY(cst_rows_read(context, &rows, k));
        for (int64_t i = 0; i < rows.count; i++) {
            const float *p = cst_rows_at(&rows, i);
            for (int32_t l = 0; l < t->labels; l++)
                t->logit[(l * t->rows + rows.first + i) * t->members + k] =
                    (float)cst_mixed_logit(p[l], t->mix[k]);
        }
    }
    for (int64_t i = rows.first; i < rows.first + rows.count; i++) {
        const double *y = cst_view_target(job->view, i);
        t->weight[i] = cst_view_weight(job->view, i);
        for (int32_t l = 0; l < t->labels; l++)
            t->truth[l * t->rows + i] = isnan(y[l]) ? 2 : y[l] > 0.5;
    }
    return CST_OK;
}

cst_status cst_label_table_make(cst_context *context, cst_scope *scope, const cst_view *view,
                                const int32_t *folds, int32_t fold_count, cst_label_table *out) {
    size_t members = (size_t)view->members;
    size_t cells = 0;
    size_t numbers = 0;
    *out = (cst_label_table){.rows = view->rows,
                             .labels = view->classes,
                             .members = view->members,
                             .folds = folds,
                             .fold_count = fold_count};
    if (!cst_size_mul((size_t)view->rows, (size_t)view->classes, &cells) ||
        !cst_size_mul(cells, members, &numbers))
        return cst_fail(context, CST_ERROR_LIMIT, "too many predictions");
    CST_SCOPE(own);
    CST_NEW(context, own, double, sums, members *(SHARES + 1));
    CST_TAKE(context, scope, out->logit, numbers);
    CST_TAKE(context, scope, out->truth, cells);
    CST_TAKE(context, scope, out->weight, view->rows);
    CST_TAKE(context, scope, out->mix, members);
    CST_TAKE(context, scope, out->risk, members);
    CST_TRY(cst_reduce_blocks(context, cst_block_count(view->rows), members * (SHARES + 1),
                              shares_block, (void *)(uintptr_t)view, sums));
    for (size_t k = 0; k < members; k++) {
        const double *sum = sums + k * (SHARES + 1);
        int best = 1;
        for (int s = 2; s < SHARES; s++)
            best = sum[s] < sum[best] ? s : best;
        out->mix[k] = share_at(best);
        out->risk[k] = sum[SHARES] > 0 ? sum[0] / sum[SHARES] : 0;
    }
    out->known = fmax(sums[SHARES], DBL_MIN) / fmax((double)view->rows, 1);
    fill_job job = {view, out};
    return cst_parallel_for(context, cst_block_count(view->rows), fill_block, &job);
}

/* ---- one fit ---- */

/* Ridge of the biases of labels by themselves: one without positives has a finite bias. */
static const double ALONE_BIAS = 1e-2;
/* Ridge of the shared part to the average of the members, which only decides what the rows do not.
 */
static const double ANCHOR = 0.1;

/* Derivatives at one place, by label. */
typedef struct newton {
    const cst_label_table *table;
    const cst_label_pool *pool;
    int32_t fold;
    const double *theta; /* [labels][d]: where */
    double *loss;        /* [labels] */
    double *slope;       /* [labels][d] */
    double *hessian;     /* [labels][d][d] */
    double *step;        /* [labels][d]: of a label with the shared part at rest */
    double *follow;      /* [labels][d][d]: (H + lambda)^-1 H */
} newton;

static size_t width_of(const cst_label_pool *pool) {
    return (size_t)pool->count + 1;
}

/* What draws coordinate j of a label. */
static double ridge_of(const cst_label_pool *pool, size_t j) {
    return pool->alone && j == (size_t)pool->count ? ALONE_BIAS : pool->lambda;
}

/* x [d] of a row, the last 1. */
static void take_x(const cst_label_table *t, const cst_label_pool *pool, int32_t label, int64_t row,
                   double *x) {
    const float *logit = t->logit + (label * t->rows + row) * t->members;
    for (int32_t j = 0; j < pool->count; j++)
        x[j] = (double)logit[pool->members ? pool->members[j] : j];
    x[pool->count] = 1;
}

static double loss_of(double z, bool positive) {
    return fmax(z, 0) + log1p(exp(-fabs(z))) - (positive ? z : 0);
}

static double dot(const double *a, const double *b, size_t count) {
    double sum = 0;
    for (size_t j = 0; j < count; j++)
        sum += a[j] * b[j];
    return sum;
}

static cst_status derive_label(cst_context *context, void *user, int64_t label) {
    const newton *n = user;
    const cst_label_table *t = n->table;
    size_t d = width_of(n->pool);
    const double *theta = n->theta + (size_t)label * d;
    double *g = n->slope + (size_t)label * d;
    double *h = n->hessian + (size_t)label * d * d;
    double loss = 0;
    CST_SCOPE(scope);
    CST_NEW(context, scope, double, x, d);
    memset(g, 0, d * sizeof *g);
    memset(h, 0, d * d * sizeof *h);
    for (int64_t i = 0; i < t->rows; i++) {
        uint8_t truth = t->truth[label * t->rows + i];
        if (truth > 1 || t->folds[i] == n->fold)
            continue;
        take_x(t, n->pool, (int32_t)label, i, x);
        double z = dot(theta, x, d);
        double p = 1 / (1 + exp(-z));
        double off = t->weight[i] * (p - truth);
        double curve = t->weight[i] * p * (1 - p);
        loss += t->weight[i] * loss_of(z, truth);
        for (size_t a = 0; a < d; a++) {
            double scaled = curve * x[a];
            g[a] += off * x[a];
            for (size_t b = 0; b <= a; b++)
                h[a * d + b] += scaled * x[b];
        }
    }
    for (size_t a = 0; a < d; a++)
        for (size_t b = 0; b < a; b++)
            h[b * d + a] = h[a * d + b];
    n->loss[label] = loss;
    return CST_OK;
}

/* Half of the slope of the shared part's penalty at coordinate j: it draws the weights to their
 * mean, and all coordinates a little to the average of the members. */
static double pull_of(const cst_label_pool *pool, const double *shared, size_t j) {
    size_t count = (size_t)pool->count;
    double mean = 0;
    for (size_t k = 0; k < count; k++)
        mean += shared[k] / (double)count;
    double apart = j < count ? pool->prior * (shared[j] - mean) : 0;
    return apart + ANCHOR * (shared[j] - (j < count ? 1 / (double)count : 0));
}

/* Its curvature. */
static double bend_of(const cst_label_pool *pool, size_t i, size_t j) {
    size_t count = (size_t)pool->count;
    bool both = i < count && j < count;
    return (i == j ? ANCHOR : 0) + (both ? pool->prior * ((i == j) - 1 / (double)count) : 0);
}

/* The penalties. */
static double penalty_of(const cst_label_table *t, const cst_label_pool *pool, const double *theta,
                         const double *shared) {
    size_t d = width_of(pool);
    double sum = 0;
    for (size_t j = 0; j < d; j++) {
        double off = shared[j] - (j + 1 < d ? 1 / (double)pool->count : 0);
        sum += pool->alone ? 0 : pull_of(pool, shared, j) * off / 2;
        for (size_t l = 0; l < (size_t)t->labels; l++) {
            double away = theta[l * d + j] - (pool->alone ? 0 : shared[j]);
            sum += ridge_of(pool, j) * away * away / 2;
        }
    }
    return sum;
}

static cst_status derive(cst_context *context, newton *n, const double *theta, const double *shared,
                         double *objective) {
    n->theta = theta;
    CST_TRY(cst_parallel_for(context, n->table->labels, derive_label, n));
    *objective = penalty_of(n->table, n->pool, theta, shared);
    for (int32_t l = 0; l < n->table->labels; l++)
        *objective += n->loss[l];
    return CST_OK;
}

static cst_status solve_label(cst_context *context, void *user, int64_t label) {
    const newton *n = user;
    const cst_label_pool *pool = n->pool;
    size_t d = width_of(pool);
    const double *h = n->hessian + (size_t)label * d * d;
    double *step = n->step + (size_t)label * d;
    double *follow = n->follow + (size_t)label * d * d;
    CST_SCOPE(scope);
    CST_NEW(context, scope, double, factor, d *d);
    CST_NEW(context, scope, double, column, d);
    memcpy(factor, h, d * d * sizeof *factor);
    for (size_t j = 0; j < d; j++) {
        double away = pool->theta[(size_t)label * d + j] - (pool->alone ? 0 : pool->shared[j]);
        factor[j * d + j] += ridge_of(pool, j);
        step[j] = -(n->slope[(size_t)label * d + j] + ridge_of(pool, j) * away);
    }
    CST_TRY(cst_cholesky(context, (int64_t)d, factor));
    cst_cholesky_solve((int64_t)d, factor, step);
    for (size_t b = 0; !pool->alone && b < d; b++) {
        for (size_t a = 0; a < d; a++)
            column[a] = h[a * d + b];
        cst_cholesky_solve((int64_t)d, factor, column);
        for (size_t a = 0; a < d; a++)
            follow[a * d + b] = column[a];
    }
    return CST_OK;
}

/* Hessian and step of the shared part, the labels following it. */
static cst_status solve_shared(cst_context *context, const newton *n, double *curvature,
                               double *step) {
    const cst_label_pool *pool = n->pool;
    size_t d = width_of(pool);
    CST_SCOPE(scope);
    CST_NEW(context, scope, double, factor, d *d);
    memset(curvature, 0, d * d * sizeof *curvature);
    for (size_t j = 0; j < d; j++) {
        step[j] = -pull_of(pool, pool->shared, j);
        for (size_t l = 0; l < (size_t)n->table->labels; l++) {
            const double *follow = n->follow + l * d * d;
            step[j] +=
                pool->lambda * (pool->theta[l * d + j] - pool->shared[j] + n->step[l * d + j]);
            for (size_t i = 0; i < d; i++)
                curvature[j * d + i] += (l == 0 ? bend_of(pool, i, j) : 0) +
                                        pool->lambda * (follow[j * d + i] + follow[i * d + j]) / 2;
        }
    }
    memcpy(factor, curvature, d * d * sizeof *factor);
    CST_TRY(cst_cholesky(context, (int64_t)d, factor));
    cst_cholesky_solve((int64_t)d, factor, step);
    return CST_OK;
}

/* Adds what the labels follow a step of the shared part by: (1 - follow) step. */
static void follow_shared(const newton *n, const double *step) {
    size_t d = width_of(n->pool);
    for (size_t l = 0; l < (size_t)n->table->labels; l++)
        for (size_t j = 0; j < d; j++)
            n->step[l * d + j] += step[j] - dot(n->follow + (l * d + j) * d, step, d);
}

/* How far the objective falls along the step, to first order. */
static double fall_of(const newton *n, const double *step) {
    const cst_label_pool *pool = n->pool;
    size_t d = width_of(pool);
    double sum = 0;
    for (size_t j = 0; j < d; j++) {
        sum -= pool->alone ? 0 : pull_of(pool, pool->shared, j) * step[j];
        for (size_t l = 0; l < (size_t)n->table->labels; l++) {
            double away = pool->theta[l * d + j] - (pool->alone ? 0 : pool->shared[j]);
            double pull = ridge_of(pool, j) * away;
            sum -= (n->slope[l * d + j] + pull) * n->step[l * d + j];
            sum += pool->alone ? 0 : pull * step[j];
        }
    }
    return sum;
}

/* Halves the step until the objective falls; *objective: before and after. */
static cst_status go(cst_context *context, newton *n, const double *step, cst_label_pool *pool,
                     double *objective) {
    size_t d = width_of(pool);
    size_t cells = (size_t)n->table->labels * d;
    double start = *objective;
    CST_SCOPE(scope);
    CST_NEW(context, scope, double, theta, cells);
    CST_NEW(context, scope, double, shared, d);
    for (double size = 1; size > 1e-9; size /= 2) {
        for (size_t i = 0; i < cells; i++)
            theta[i] = pool->theta[i] + size * n->step[i];
        for (size_t j = 0; j < d; j++)
            shared[j] = pool->shared[j] + size * step[j];
        CST_TRY(derive(context, n, theta, shared, objective));
        if (*objective <= start)
            break;
    }
    if (*objective > start) { /* rounding: it stays */
        *objective = start;
        return CST_OK;
    }
    memcpy(pool->theta, theta, cells * sizeof *theta);
    memcpy(pool->shared, shared, d * sizeof *shared);
    return CST_OK;
}

static cst_status newton_take(cst_context *context, cst_scope *scope, const cst_label_table *table,
                              const cst_label_pool *pool, int32_t fold, newton *out) {
    size_t d = width_of(pool);
    size_t labels = (size_t)table->labels;
    *out = (newton){.table = table, .pool = pool, .fold = fold};
    CST_TAKE(context, scope, out->loss, labels);
    CST_TAKE(context, scope, out->slope, labels * d);
    CST_TAKE(context, scope, out->hessian, labels * d * d);
    CST_TAKE(context, scope, out->step, labels * d);
    CST_TAKE(context, scope, out->follow, labels * d * d);
    return CST_OK;
}

cst_status cst_label_pool_take(cst_context *context, cst_scope *scope, const cst_label_table *table,
                               cst_label_pool *pool) {
    size_t d = width_of(pool);
    CST_TAKE(context, scope, pool->shared, d);
    CST_TAKE(context, scope, pool->theta, (size_t)table->labels * d);
    for (size_t j = 0; j + 1 < d; j++) {
        pool->shared[j] = pool->alone ? 0 : 1 / (double)pool->count;
        for (size_t l = 0; l < (size_t)table->labels; l++)
            pool->theta[l * d + j] = 1 / (double)pool->count;
    }
    return CST_OK;
}

cst_status cst_label_pool_fit(cst_context *context, const cst_label_table *table, int32_t fold,
                              cst_label_pool *pool, double *curvature) {
    size_t d = width_of(pool);
    double objective = 0;
    newton n;
    CST_SCOPE(scope);
    CST_TRY(newton_take(context, scope, table, pool, fold, &n));
    CST_NEW(context, scope, double, step, d);
    CST_NEW(context, scope, double, own, d *d);
    CST_TRY(derive(context, &n, pool->theta, pool->shared, &objective));
    for (int i = 0; i < STEPS_MAX; i++) {
        CST_TRY(cst_parallel_for(context, table->labels, solve_label, &n));
        if (!pool->alone) {
            CST_TRY(solve_shared(context, &n, curvature ? curvature : own, step));
            follow_shared(&n, step);
        }
        if (!(fall_of(&n, step) > 1e-10 * (1 + objective)))
            break;
        double before = objective;
        CST_TRY(go(context, &n, step, pool, &objective));
        if (!(objective < before))
            break;
    }
    return CST_OK;
}

cst_status cst_label_pool_objective(cst_context *context, const cst_label_table *table,
                                    const cst_label_pool *pool, double *out) {
    newton n;
    CST_SCOPE(scope);
    CST_TRY(newton_take(context, scope, table, pool, -1, &n));
    return derive(context, &n, pool->theta, pool->shared, out);
}

/* ---- held-out losses and lambda ---- */

typedef struct losses_job {
    const cst_label_table *table;
    const cst_label_pool *pool;
    int32_t fold;
    double *out;
} losses_job;

static cst_status losses_block(cst_context *context, void *user, int64_t block) {
    const losses_job *job = user;
    const cst_label_table *t = job->table;
    size_t d = width_of(job->pool);
    int64_t first = cst_block_first(block);
    int64_t end = first + cst_block_size(t->rows, block);
    CST_SCOPE(scope);
    CST_NEW(context, scope, double, x, d);
    for (int64_t i = first; i < end; i++)
        if (t->folds[i] == job->fold)
            job->out[i] = 0;
    for (int32_t l = 0; l < t->labels; l++)
        for (int64_t i = first; i < end; i++) {
            uint8_t truth = t->truth[l * t->rows + i];
            if (t->folds[i] != job->fold || truth > 1)
                continue;
            take_x(t, job->pool, l, i, x);
            double z = dot(job->pool->theta + (size_t)l * d, x, d);
            job->out[i] += t->weight[i] * loss_of(z, truth) / t->known;
        }
    return CST_OK;
}

cst_status cst_label_pool_losses(cst_context *context, const cst_label_table *table, int32_t fold,
                                 const cst_label_pool *pool, double *losses) {
    losses_job job = {table, pool, fold, losses};
    return cst_parallel_for(context, cst_block_count(table->rows), losses_block, &job);
}

/* From nearly common weights to nearly free ones, in steps of half a decade. */
static double lambda_at(int g) {
    return pow(10, 5 - 0.5 * g);
}

cst_status cst_label_pool_choose(cst_context *context, const cst_label_table *table,
                                 cst_label_pool *pool, double *losses) {
    double least = INFINITY;
    int worse = 0;
    CST_SCOPE(scope);
    CST_NEW(context, scope, cst_label_pool, without, table->fold_count);
    CST_NEW(context, scope, double, held, table->rows);
    for (int32_t f = 0; f < table->fold_count; f++) {
        without[f] = *pool;
        CST_TRY(cst_label_pool_take(context, scope, table, &without[f]));
    }
    for (int g = 0; g < GRID && worse < WORSE_MAX; g++) {
        double total = 0;
        for (int32_t f = 0; f < table->fold_count; f++) {
            without[f].lambda = lambda_at(g);
            CST_TRY(cst_label_pool_fit(context, table, f, &without[f], NULL));
            CST_TRY(cst_label_pool_losses(context, table, f, &without[f], held));
        }
        for (int64_t i = 0; i < table->rows; i++)
            total += held[i];
        worse = total < least ? 0 : worse + 1;
        if (worse > 0)
            continue;
        least = total;
        pool->lambda = lambda_at(g);
        memcpy(losses, held, (size_t)table->rows * sizeof *losses);
    }
    return cst_label_pool_fit(context, table, -1, pool, NULL);
}
