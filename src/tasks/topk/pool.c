/* The log-linear pool of listed log-probabilities: derivatives that are exact on the union of the
 * lists, and Newton's method for several fits in one pass. docs/topk.md#the-pool. */
#include "tasks/topk/topk.h"

#include "core/la.h"
#include "core/wide.h"
#include "tasks/regression/regression.h"

#include <math.h>
#include <string.h>

enum { STEPS_MAX = 40, ROWS = 4, LANES = 8 };

/* Ridge to the average of the members, which only decides what the rows do not. */
static const double ANCHOR = 0.1;
/* Classes below it are left out of the Hessian. */
static const double FAINT = 1e-6;

/* Sums of a fit: loss, slope [K], Hessian [K][K], of which the lower half is read. */
static size_t sums_of(size_t k) {
    return 1 + k + k * k;
}

typedef struct pass {
    const cst_topk_rows *rows;
    const cst_topk_fit *fits;
    const bool *done;    /* [count] */
    const int32_t *like; /* [count]: the first fit at the same place */
    int32_t count;
} pass;

/* Room for one row of a pass. */
typedef struct scratch {
    size_t width;  /* K, rounded up to whole registers */
    double *mean;  /* [K] */
    double *share; /* [U] */
    double *dense; /* [U][width]: excesses of likely classes */
    double *sum;   /* sums of this row, for fits at the same place */
} scratch;

typedef double lanes __attribute__((vector_size(LANES * sizeof(double))));

/* Adds sum_u share_u dense_u dense_u' to the Hessian. */
CST_KERNEL(add_products,
           (int64_t count, int64_t k, int64_t width, const double *restrict share,
            const double *restrict dense, double *restrict hessian),
           (count, k, width, share, dense, hessian)) {
    for (int64_t a = 0; a < width; a += ROWS)
        for (int64_t b = 0; b < a + ROWS; b += LANES) {
            lanes zero = {0}, first = zero, second = zero, third = zero, fourth = zero;
            for (int64_t u = 0; u < count; u++) {
                const double *left = dense + u * width + a;
                lanes right;
                memcpy(&right, dense + u * width + b, sizeof right);
                first += share[u] * left[0] * right;
                second += share[u] * left[1] * right;
                third += share[u] * left[2] * right;
                fourth += share[u] * left[3] * right;
            }
            const lanes sum[ROWS] = {first, second, third, fourth};
            for (int64_t i = 0; i < ROWS && a + i < k; i++)
                for (int64_t l = 0; l < LANES && b + l < k; l++)
                    hessian[(a + i) * k + b + l] += sum[i][l];
        }
}

/* Adds what one row says at one place. */
static void add_row(cst_topk_reader *r, const double *weights, double weight, scratch *own,
                    double *sum) {
    const cst_topk_row *row = &r->row;
    size_t k = (size_t)r->view->members;
    double *slope = sum + 1;
    double *hessian = slope + k;
    const cst_topk_mix mix = {.weights = weights};
    double other = 0;
    int64_t likely = 0;
    *sum -= weight * cst_topk_mixed(r, &mix, &other);
    memset(own->mean, 0, k * sizeof *own->mean);
    for (int32_t u = 0; u < row->count; u++) {
        double *dense = own->dense + (size_t)likely * own->width;
        bool counts = r->p[u] >= FAINT;
        if (counts) {
            memset(dense, 0, own->width * sizeof *dense);
            own->share[likely++] = weight * r->p[u];
        }
        for (int32_t e = row->first[u]; e < row->first[u + 1]; e++) {
            own->mean[row->member[e]] += r->p[u] * row->excess[e];
            if (counts)
                dense[row->member[e]] = row->excess[e];
        }
    }
    add_products(likely, (int64_t)k, (int64_t)own->width, own->share, own->dense, hessian);
    for (size_t a = 0; a < k; a++) {
        double part = weight * own->mean[a];
        slope[a] += part;
        for (size_t b = 0; b <= a; b++)
            hessian[a * k + b] -= part * own->mean[b];
    }
    if (row->label >= 0)
        for (int32_t a = row->first[row->label]; a < row->first[row->label + 1]; a++)
            slope[row->member[a]] -= weight * row->excess[a];
}

/* Adds a row to all fits at the place of fit f that it is not left out of. */
static void add_fits(cst_topk_reader *r, const pass *p, int32_t f, int32_t fold, double weight,
                     scratch *own, double *sum) {
    size_t width = sums_of((size_t)r->view->members);
    bool made = false;
    for (int32_t g = f; g < p->count; g++) {
        if (p->done[g] || p->like[g] != f || p->fits[g].fold == fold)
            continue;
        if (!made) {
            memset(own->sum, 0, width * sizeof *own->sum);
            add_row(r, p->fits[f].weights, weight, own, own->sum);
            made = true;
        }
        for (size_t j = 0; j < width; j++)
            sum[(size_t)g * width + j] += own->sum[j];
    }
}

static cst_status pass_block(cst_context *context, void *user, int64_t block, double *sum) {
    const pass *p = user;
    const cst_topk_rows *rows = p->rows;
    size_t k = (size_t)rows->view->members;
    cst_topk_reader r;
    CST_SCOPE(scope);
    scratch own = {.width = (k + LANES - 1) / LANES * LANES};
    size_t listed = k * (size_t)rows->view->classes / 2;
    CST_TAKE(context, scope, own.mean, k);
    CST_TAKE(context, scope, own.share, listed);
    CST_TAKE(context, scope, own.dense, listed * own.width);
    CST_TAKE(context, scope, own.sum, sums_of(k));
    CST_TRY(cst_topk_reader_take(context, scope, rows->view, &r));
    CST_TRY(cst_topk_reader_block(context, &r, block));
    for (int64_t i = 0; i < r.count; i++) {
        int32_t fold = rows->folds[r.first + i];
        double weight = cst_view_weight(rows->view, r.first + i);
        cst_topk_reader_row(&r, i);
        for (int32_t f = 0; f < p->count; f++)
            if (!p->done[f] && p->like[f] == f)
                add_fits(&r, p, f, fold, weight, &own, sum);
    }
    return CST_OK;
}

static double mean_of(const bool *in, const double *weights, size_t k, double *count) {
    double sum = 0;
    *count = 0;
    for (size_t a = 0; a < k; a++) {
        sum += !in || in[a] ? weights[a] : 0;
        *count += !in || in[a];
    }
    return *count > 0 ? sum / *count : 0;
}

void cst_topk_begin(const cst_topk_rows *rows, cst_topk_fit *fit) {
    double count = 0;
    size_t k = (size_t)rows->view->members;
    (void)mean_of(fit->in, fit->weights, k, &count);
    for (size_t a = 0; a < k; a++)
        fit->weights[a] = !fit->in || fit->in[a] ? 1 / count : 0;
}

/* Adds the penalties of a fit to its sums. */
static void penalise(const cst_topk_rows *rows, const cst_topk_fit *fit, double *sum) {
    size_t k = (size_t)rows->view->members;
    double count = 0;
    double mean = mean_of(fit->in, fit->weights, k, &count);
    for (size_t a = 0; a < k; a++) {
        if (fit->in && !fit->in[a])
            continue;
        double apart = fit->weights[a] - mean;
        double off = fit->weights[a] - 1 / count;
        *sum += (rows->prior * apart * apart + ANCHOR * off * off) / 2;
        sum[1 + a] += rows->prior * apart + ANCHOR * off;
        for (size_t b = 0; b <= a; b++)
            if (!fit->in || fit->in[b])
                sum[1 + k + a * k + b] +=
                    rows->prior * ((a == b) - 1 / count) + (a == b ? ANCHOR : 0);
    }
}

static bool has(const cst_topk_fit *fit, size_t a) {
    return !fit->in || fit->in[a];
}

/* The step of a fit, [K], to the least of the quadratic among weights of its members alone, and
 * what it is to gain: all, where it begins with weights of others. */
static cst_status solve(cst_context *context, const cst_topk_fit *fit, size_t k, const double *sum,
                        double *step, double *gain) {
    const double *hessian = sum + 1 + k;
    CST_SCOPE(scope);
    CST_NEW(context, scope, double, factor, k *k);
    *gain = 0;
    for (size_t a = 0; a < k; a++) {
        step[a] = has(fit, a) ? -sum[1 + a] : -fit->weights[a];
        for (size_t b = 0; b <= a; b++) {
            bool both = has(fit, a) && has(fit, b);
            factor[a * k + b] = both ? hessian[a * k + b] : (double)(a == b);
            if (has(fit, a) && !has(fit, b))
                step[a] += hessian[a * k + b] * fit->weights[b];
            if (has(fit, b) && !has(fit, a))
                step[b] += hessian[a * k + b] * fit->weights[a];
        }
    }
    CST_TRY(cst_cholesky(context, (int64_t)k, factor));
    cst_cholesky_solve((int64_t)k, factor, step);
    for (size_t a = 0; a < k; a++)
        *gain -= has(fit, a) ? sum[1 + a] * step[a] / 2 : fit->weights[a] != 0 ? -INFINITY : 0;
    return CST_OK;
}

/* After a pass: the next place of one fit. before: its objective and weights [1 + K], NaN at first;
 * step [K]. */
static cst_status move(cst_context *context, const cst_topk_rows *rows, cst_topk_fit *fit,
                       double *sum, double *before, double *step, bool *done) {
    size_t k = (size_t)rows->view->members;
    double gain = 0;
    double size = 0;
    penalise(rows, fit, sum);
    if (!isnan(*before) && !(*sum <= *before + 1e-12 * fabs(*before))) { /* too far */
        for (size_t a = 0; a < k; a++) {
            step[a] /= 2;
            size = fmax(size, fabs(step[a]));
            fit->weights[a] = before[1 + a] + step[a];
        }
        *done = size < 1e-12;
        return CST_OK;
    }
    CST_TRY(solve(context, fit, k, sum, step, &gain));
    *before = isinf(gain) ? INFINITY : *sum;
    memcpy(before + 1, fit->weights, k * sizeof *before);
    for (size_t a = 0; a < k; a++) {
        fit->weights[a] = has(fit, a) ? fit->weights[a] + step[a] : 0;
        size = fmax(size, fabs(step[a]));
    }
    for (size_t a = 0; fit->hessian && a < k; a++)
        for (size_t b = 0; b <= a; b++)
            fit->hessian[a * k + b] = fit->hessian[b * k + a] = sum[1 + k + a * k + b];
    /* what is left to gain goes with the square of the step; so many rows say no more */
    double left = gain * fmin(100 * size * size, 1);
    *done =
        gain < rows->enough || left < 1e-18 * (double)rows->view->rows * (double)rows->view->rows;
    return CST_OK;
}

static void find_like(const pass *p, size_t k, int32_t *like) {
    for (int32_t f = 0; f < p->count; f++) {
        int32_t g = 0;
        while (g < f && (p->done[g] || memcmp(p->fits[g].weights, p->fits[f].weights,
                                              k * sizeof *p->fits[f].weights) != 0))
            g++;
        like[f] = g;
    }
}

cst_status cst_topk_fit_all(cst_context *context, const cst_topk_rows *rows, cst_topk_fit *fits,
                            int32_t count) {
    size_t k = (size_t)rows->view->members;
    size_t all = (size_t)count;
    int32_t left = count;
    CST_SCOPE(scope);
    CST_NEW(context, scope, bool, done, all);
    CST_NEW(context, scope, int32_t, like, all);
    CST_NEW(context, scope, double, sums, all *sums_of(k));
    CST_NEW(context, scope, double, before, all *(1 + k));
    CST_NEW(context, scope, double, step, all *k);
    pass p = {rows, fits, done, like, count};
    for (size_t f = 0; f < all; f++)
        before[f * (1 + k)] = NAN;
    for (int s = 0; left > 0 && s < STEPS_MAX; s++) {
        find_like(&p, k, like);
        CST_TRY(cst_reduce_blocks(context, cst_block_count(rows->view->rows), all * sums_of(k),
                                  pass_block, &p, sums));
        for (size_t f = 0; f < all; f++) {
            if (done[f])
                continue;
            CST_TRY(move(context, rows, &fits[f], sums + f * sums_of(k), before + f * (1 + k),
                         step + f * k, &done[f]));
            left -= done[f];
        }
    }
    return CST_OK;
}

/* ---- losses ---- */

typedef struct losses_job {
    const cst_topk_rows *rows;
    const double *mixes;
    int32_t count;
    bool linear;
    double *losses;
} losses_job;

static cst_status losses_block(cst_context *context, void *user, int64_t block) {
    const losses_job *job = user;
    const cst_topk_rows *rows = job->rows;
    const cst_view *view = rows->view;
    cst_topk_reader r;
    CST_SCOPE(scope);
    CST_TRY(cst_topk_reader_take(context, scope, view, &r));
    CST_TRY(cst_topk_reader_block(context, &r, block));
    for (int64_t i = 0; i < r.count; i++) {
        int64_t row = r.first + i;
        const double *mixes = job->mixes + (int64_t)rows->folds[row] * job->count * view->members;
        cst_topk_reader_row(&r, i);
        for (int32_t m = 0; m < job->count; m++) {
            double other = 0;
            const cst_topk_mix mix = {mixes + m * view->members, job->linear, 1};
            job->losses[m * view->rows + row] =
                -cst_view_weight(view, row) * cst_topk_mixed(&r, &mix, &other);
        }
    }
    return CST_OK;
}

cst_status cst_topk_losses(cst_context *context, const cst_topk_rows *rows, const double *mixes,
                           int32_t count, bool linear, double *losses) {
    losses_job job = {rows, mixes, count, linear, losses};
    return cst_parallel_for(context, cst_block_count(rows->view->rows), losses_block, &job);
}

/* ---- models ---- */

cst_status cst_topk_model(cst_context *context, int32_t classes, const int32_t *kept, int32_t count,
                          const double *weights, bool linear, double temperature, cst_model **out) {
    CST_TRY(cst_stack_create(context, out));
    cst_model *model = *out;
    CST_TRY(cst_value_model(context, 1, count, count, model));
    model->task = CST_TASK_TOPK;
    model->classes = classes;
    model->gate.inputs = count;
    model->map = linear ? CST_PROBABILITY_MIXTURE : CST_PROBABILITY_CLIP;
    model->learner->kind = linear ? CST_LEARNER_LINEAR : CST_LEARNER_LOGLINEAR;
    model->learner->biases = linear ? 1 : 0;
    if (temperature < 1 || temperature > 1) {
        model->calibrator = (cst_calibrator){
            .kind = CST_CALIBRATOR_TEMPERATURE, .classes = classes, .temperature = temperature};
        cst_calibrator_describe(&model->calibrator);
    }
    for (int32_t j = 0; j < count; j++)
        model->learner->weights[j] = weights[kept ? kept[j] : j];
    return CST_OK;
}
