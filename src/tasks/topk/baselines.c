/* Baselines of a comparison of lists. docs/topk.md#methods. */
#include "tasks/topk/topk.h"

#include "core/la.h"

#include <math.h>
#include <string.h>

enum { STEPS_MAX = 30, MIXING_STEPS = 100, FIRST_ROWS = 5000 };
/* Classes below it are left out of the curvature of a mix. */
static const double FAINT = 1e-4;

typedef enum topk_mix { MIX_BEST, MIX_AVERAGE, MIX_GREEDY, MIX_LOGLINEAR } topk_mix;

typedef struct topk_baseline {
    cst_named named; /* the first, as others see it */
    topk_mix mix;
    bool scaled;
} topk_baseline;

static const topk_baseline BASELINES[] = {
    {{"best-single", "the member with the lowest NLL"}, MIX_BEST, false},
    {{"best-single+temperature", "the member with the lowest NLL, with a fitted temperature"},
     MIX_BEST,
     true},
    {{"average", "the mean of the members' probabilities"}, MIX_AVERAGE, false},
    {{"average+temperature", "the mean of the members' probabilities, with a fitted temperature"},
     MIX_AVERAGE,
     true},
    {{"greedy",
      "greedy selection with replacement that minimises the NLL of the mean, 25 rounds (Caruana et "
      "al. 2004)"},
     MIX_GREEDY,
     false},
    {{"greedy+temperature", "greedy, with a fitted temperature"}, MIX_GREEDY, true},
    {{"log-linear", "the log-linear pool of all members"}, MIX_LOGLINEAR, false},
};

const cst_named *cst_topk_baseline_at(size_t index) {
    return index < sizeof BASELINES / sizeof BASELINES[0] ? &BASELINES[index].named : NULL;
}

/* ---- greedy ---- */

typedef struct told_job {
    const cst_view *view;
    float *told; /* [rows][members]: probability of the label */
} told_job;

static cst_status told_block(cst_context *context, void *user, int64_t block) {
    const told_job *job = user;
    cst_rows rows;
    CST_SCOPE(scope);
    CST_TRY(cst_rows_open(context, scope, job->view, block, &rows));
    for (int32_t k = 0; k < job->view->members; k++) {
        CST_TRY(cst_rows_read(context, &rows, k));
        for (int64_t i = 0; i < rows.count; i++)
            job->told[(rows.first + i) * job->view->members + k] =
                (float)exp(cst_topk_label_log(job->view, cst_rows_at(&rows, i), rows.first + i));
    }
    return CST_OK;
}

/* See cst_mix_greedy_weights. */
static cst_status greedy_block(cst_context *context, void *user, int64_t block, double *sum) {
    const cst_mix_greedy *job = user;
    const cst_view *view = job->view;
    int64_t first = cst_block_first(block);
    (void)context;
    for (int64_t i = first; i < first + cst_block_size(view->rows, block); i++) {
        const float *told = (const float *)job->of + i * view->members;
        double taken = 0;
        for (int32_t k = 0; k < view->members; k++)
            taken += job->counts[k] * (double)told[k];
        for (int32_t k = 0; k < view->members; k++)
            sum[k] -= cst_view_weight(view, i) *
                      log(fmax((taken + (double)told[k]) / (job->taken + 1), 1e-300));
    }
    return CST_OK;
}

cst_status cst_topk_told(cst_context *context, const cst_view *view, float *told) {
    told_job job = {view, told};
    const cst_share filled = cst_share_rows(told, view->rows, (size_t)view->members * sizeof *told);
    return cst_parallel_fill(context, cst_block_count(view->rows), told_block, &job, &filled, 1);
}

/* ---- linear mixes ---- */

typedef struct scale_job {
    const cst_view *view;
    cst_topk_mix mix;     /* its power is where derivatives are taken */
    const int32_t *folds; /* NULL: all rows count */
    int32_t fold;         /* whose rows do not */
    int64_t every;        /* of so many blocks one counts */
} scale_job;

/* Sums over rows: the loss, its slope in the logarithms of the weights and in the power [K + 1],
 * and their expected curvature [K + 1][K + 1], of which the lower half is read. */
static void add_mixed(cst_topk_reader *r, double power, double weight, double *d, double *mean,
                      double *sum) {
    const cst_topk_row *row = &r->row;
    size_t k = (size_t)r->view->members;
    size_t n = k + 1;
    double *slope = sum + 1;
    double *curvature = slope + n;
    double other = 0;
    memset(mean, 0, n * sizeof *mean);
    for (size_t a = 0; a < k; a++)
        other += r->share[a];
    for (int32_t u = 0; u < row->count; u++) {
        double of = power / other * exp(-r->score[u] / power); /* power over the mix */
        double p = weight * r->p[u];
        for (size_t a = 0; a < k; a++)
            d[a] = r->share[a] * (of - power / other);
        for (int32_t e = row->first[u]; e < row->first[u + 1]; e++)
            d[row->member[e]] += r->share[row->member[e]] * r->above[e] * of;
        d[k] = r->score[u] / power;
        for (size_t a = 0; a < n; a++) {
            mean[a] += r->p[u] * d[a];
            slope[a] += (p - (u == row->label ? weight : 0)) * d[a];
            for (size_t b = 0; r->p[u] > FAINT && b <= a; b++)
                curvature[a * n + b] += p * d[a] * d[b];
        }
    }
    for (size_t a = 0; a < n; a++)
        for (size_t b = 0; b <= a; b++)
            curvature[a * n + b] -= weight * mean[a] * mean[b];
}

static cst_status mixed_block(cst_context *context, void *user, int64_t block, double *sum) {
    const scale_job *job = user;
    size_t n = (size_t)job->view->members + 1;
    cst_topk_reader r;
    CST_SCOPE(scope);
    CST_NEW(context, scope, double, d, 2 * n);
    CST_TRY(cst_topk_reader_take(context, scope, job->view, &r));
    CST_TRY(cst_topk_reader_block(context, &r, block * job->every));
    for (int64_t i = 0; i < r.count; i++) {
        double other = 0;
        double weight = cst_view_weight(job->view, r.first + i);
        if (job->folds && job->folds[r.first + i] == job->fold)
            continue;
        cst_topk_reader_row(&r, i);
        *sum -= weight * cst_topk_mixed(&r, &job->mix, &other);
        if (job->mix.linear)
            add_mixed(&r, job->mix.power, weight, d, d + n, sum);
    }
    return CST_OK;
}

/* The power, and with `all` the weights, by Fisher's scoring from where they are. */
static cst_status scale(cst_context *context, scale_job *job, double enough, bool all,
                        double *weights, double *loss) {
    size_t k = (size_t)job->view->members;
    size_t n = k + 1;
    int64_t blocks = (cst_block_count(job->view->rows) + job->every - 1) / job->every;
    double gain = INFINITY;
    CST_SCOPE(scope);
    CST_NEW(context, scope, double, sum, 1 + n + n * n);
    CST_NEW(context, scope, double, best, n); /* so far, and the step from there */
    CST_NEW(context, scope, double, step, n);
    for (int s = 0; s < STEPS_MAX && gain > enough; s++) {
        CST_TRY(cst_reduce_blocks(context, blocks, 1 + n + n * n, mixed_block, job, sum));
        if (s == 0 || sum[0] < *loss) {
            double *curvature = sum + 1 + n;
            *loss = sum[0];
            memcpy(best, weights, k * sizeof *best);
            best[k] = job->mix.power;
            for (size_t a = 0; a < k && !all; a++)
                sum[1 + a] = curvature[k * n + a] = 0;
            for (size_t a = 0; a < n; a++) {
                step[a] = -sum[1 + a];
                curvature[a * n + a] += 0.01; /* the weights' scale says nothing */
            }
            CST_TRY(cst_cholesky(context, (int64_t)n, curvature));
            cst_cholesky_solve((int64_t)n, curvature, step);
            gain = 0;
            for (size_t a = 0; a < n; a++) {
                gain -= sum[1 + a] * step[a] / 2;
                step[a] = a < k ? fmin(fmax(step[a], -1), 1) : step[a];
            }
        } else {
            gain /= 2;
            for (size_t a = 0; a < n; a++)
                step[a] /= 2;
        }
        double total = 0;
        for (size_t a = 0; a < k; a++)
            total += best[a] * exp(step[a]);
        for (size_t a = 0; a < k; a++)
            weights[a] = best[a] * exp(step[a]) / total;
        job->mix.power = fmin(fmax(best[k] + step[k], best[k] / 2), fmin(2 * best[k], 100));
    }
    memcpy(weights, best, k * sizeof *best);
    job->mix.power = best[k];
    return CST_OK;
}

typedef struct share_job {
    const scale_job *of;
    const float *told; /* [rows][members] */
} share_job;

/* What members have of the probability of the labels: sum [members]. */
static cst_status share_block(cst_context *context, void *user, int64_t block, double *sum) {
    const share_job *job = user;
    const cst_view *view = job->of->view;
    int64_t first = cst_block_first(block);
    (void)context;
    for (int64_t i = first; i < first + cst_block_size(view->rows, block); i++) {
        const float *told = job->told + i * view->members;
        double all = 1e-300;
        if (job->of->folds && job->of->folds[i] == job->of->fold)
            continue;
        for (int32_t k = 0; k < view->members; k++)
            all += job->of->mix.weights[k] * (double)told[k];
        for (int32_t k = 0; k < view->members; k++)
            sum[k] += cst_view_weight(view, i) * job->of->mix.weights[k] * (double)told[k] / all;
    }
    return CST_OK;
}

cst_status cst_topk_linear(cst_context *context, const cst_topk_rows *rows, const float *told,
                           int32_t fold, const bool *in, const double *pool, double *weights,
                           double *power, bool *better) {
    const cst_view *view = rows->view;
    int32_t members = view->members;
    int32_t count = 0;
    scale_job job = {view, {pool, false, 1}, rows->folds, fold, 1};
    double pool_loss = 0;
    double loss = 0;
    CST_SCOPE(scope);
    CST_NEW(context, scope, double, shares, members);
    const share_job share = {&job, told};
    CST_TRY(
        cst_reduce_blocks(context, cst_block_count(view->rows), 1, mixed_block, &job, &pool_loss));
    for (int32_t k = 0; k < members; k++)
        count += !in || in[k];
    for (int32_t k = 0; k < members; k++)
        weights[k] = !in || in[k] ? 1 / (double)count : 0;
    job.mix = (cst_topk_mix){weights, true, 1};
    for (int s = 0; s < MIXING_STEPS; s++) { /* expectation maximisation */
        double all = 0;
        CST_TRY(cst_reduce_blocks(context, cst_block_count(view->rows), (size_t)members,
                                  share_block, (void *)(uintptr_t)&share, shares));
        for (int32_t k = 0; k < members; k++)
            all += shares[k];
        for (int32_t k = 0; k < members; k++)
            weights[k] = shares[k] / all;
    }
    for (int32_t k = 0; k < members; k++) /* the power may call for what alone had no weight */
        weights[k] = !in || in[k] ? fmax(weights[k], 0.1 / count) : 0;
    double enough = fmax(rows->enough, 1e-6 * (double)view->rows);
    job.every = 1 + view->rows / FIRST_ROWS; /* near enough for a step or two on all */
    for (int s = job.every > 1; s >= 0; s--, job.every = 1)
        CST_TRY(scale(context, &job, enough, true, weights, &loss));
    *power = job.mix.power;
    *better = loss + 1 < pool_loss; /* one number more is fitted */
    return CST_OK;
}

/* ---- all of them ---- */

/* Weights of all members; *linear: of probabilities, with a temperature. */
static cst_status fit_weights(cst_context *context, const topk_baseline *baseline,
                              const cst_topk_rows *rows, double *weights, bool *linear,
                              double *temperature) {
    int32_t members = rows->view->members;
    int32_t best = 0;
    CST_SCOPE(scope);
    CST_NEW(context, scope, double, risk, members);
    CST_NEW(context, scope, bool, in, members);
    bool one = baseline->mix == MIX_BEST && baseline->scaled; /* its weight is 1/T */
    *linear = baseline->mix != MIX_LOGLINEAR && !one;
    if (baseline->mix == MIX_GREEDY) {
        CST_NEW(context, scope, float, told, (size_t)members *(size_t)rows->view->rows);
        CST_TRY(cst_topk_told(context, rows->view, told));
        CST_TRY(cst_mix_greedy_weights(context, rows->view, told, greedy_block, weights));
    }
    for (int32_t k = 0; baseline->mix == MIX_AVERAGE && k < members; k++)
        weights[k] = 1 / (double)members;
    if (baseline->mix == MIX_BEST) {
        CST_TRY(cst_topk_risks(context, rows->view, NULL, 1, risk));
        for (int32_t k = 1; k < members; k++)
            best = risk[k] < risk[best] ? k : best;
        weights[best] = 1;
        in[best] = true;
    }
    if (*linear && baseline->scaled) {
        scale_job job = {rows->view, {weights, true, 1}, NULL, -1, 1};
        double loss = 0;
        CST_TRY(scale(context, &job, rows->enough, false, weights, &loss));
        *temperature = 1 / job.mix.power;
    }
    if (*linear)
        return CST_OK;
    cst_topk_fit fit = {.fold = -1, .in = one ? in : NULL, .weights = weights};
    cst_topk_begin(rows, &fit);
    return cst_topk_fit_all(context, rows, &fit, 1);
}

cst_status cst_topk_baseline_fit(cst_context *context, const cst_named *baseline,
                                 const cst_topk_rows *rows, cst_made_model *out) {
    int32_t members = rows->view->members;
    int32_t count = 0;
    bool linear = false;
    double temperature = 1;
    CST_SCOPE(scope);
    CST_NEW(context, scope, double, weights, members);
    CST_NEW(context, scope, bool, uses, members);
    CST_TRY(fit_weights(context, (const topk_baseline *)baseline, rows, weights, &linear,
                        &temperature));
    for (int32_t k = 0; k < members; k++)
        uses[k] = weights[k] != 0;
    CST_TRY(cst_members_used(context, uses, members, &out->kept, &count));
    return cst_topk_model(context, rows->view->listed_of, out->kept, count, weights, linear,
                          temperature, &out->model);
}
