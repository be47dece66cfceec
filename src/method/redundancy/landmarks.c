/* Landmarks by randomly pivoted Cholesky: rows drawn in proportion to their residuals. */
#include "method/redundancy/hsic.h"

#include "core/la.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { SAMPLE_ROWS = 8192, PROPOSALS = 64 };
#define SAMPLE_BYTES 1.2e8

/* Largest missed trace as a share of |H K H|: errors of CKA of 8e-6 at C = 10, 0.001 at 300. */
#define RESIDUAL_TOLERANCE 0.2

/* A diagonal entry below this is zero to rounding (the kernel's diagonal is 1). */
#define USED_UP 1e-12

typedef struct pivoting {
    cst_scope *scope;
    const cst_kernels *kernels;
    int32_t member;
    int64_t rows;    /* n, of the sample */
    int64_t *index;  /* [n], positions in the view */
    double *data;    /* [n][C] */
    double *norms;   /* [n] */
    double *left;    /* [n], diagonal of what the landmarks miss */
    double *running; /* [n], running sums of `left` */
    double *factor;  /* [capacity][n], the Cholesky factor, transposed */
    int64_t capacity;
    int64_t count;
    int64_t *pivots; /* [cap], positions in the sample */
    cst_rng rng;
} pivoting;

/* Rows to take landmarks from, whatever the memory budget: within SAMPLE_BYTES, but 2 cap. */
static int64_t sample_rows(const cst_view *view, int64_t cap) {
    double bytes = (double)sizeof(double) * ((double)view->classes + (double)cap);
    double rows = fmax(SAMPLE_BYTES / bytes, 2 * (double)cap);
    rows = fmin(rows, SAMPLE_ROWS);
    return (int64_t)fmin(rows, (double)view->rows);
}

static cst_status start_pivoting(cst_context *context, pivoting *p, int64_t cap, uint64_t seed) {
    const cst_view *view = p->kernels->view;
    p->rows = sample_rows(view, cap);
    CST_SCOPE(scope);
    CST_NEW(context, scope, float, scratch, (CST_BLOCK_ROWS * view->classes));
    CST_TAKE(context, p->scope, p->index, p->rows);
    CST_TAKE(context, p->scope, p->data, (p->rows * view->classes));
    CST_TAKE(context, p->scope, p->norms, p->rows);
    CST_TAKE(context, p->scope, p->left, p->rows);
    CST_TAKE(context, p->scope, p->running, p->rows);
    CST_TAKE(context, p->scope, p->pivots, cap);
    CST_TRY(cst_sample_rows(context, view->rows, p->rows, seed, CST_STREAM_LANDMARKS, 1, p->index));
    CST_TRY(cst_kernel_rows(context, p->kernels, p->member, p->index, 0, p->rows, scratch, p->data,
                            p->norms));
    for (int64_t i = 0; i < p->rows; i++)
        p->left[i] = 1;
    cst_rng_init(&p->rng, seed, CST_STREAM_LANDMARKS, 2);
    return CST_OK;
}

/* Updates the running sums and returns the last, n times the share of the trace that is missed. */
static double missing(pivoting *p) {
    double sum = 0;
    for (int64_t i = 0; i < p->rows; i++) {
        sum += p->left[i];
        p->running[i] = sum;
    }
    return sum;
}

/* A row drawn in proportion to `left`. */
static int64_t draw(pivoting *p) {
    double drawn = cst_rng_uniform(&p->rng) * p->running[p->rows - 1];
    int64_t low = 0;
    int64_t high = p->rows - 1;
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        if (p->running[middle] > drawn)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

/* Kernel rows the landmarks miss, for `count` rows: [count][n] or, `square`, [count][count]. */
static cst_status missed_rows(cst_context *context, const pivoting *p, const int64_t *at,
                              int64_t count, bool square, double *out) {
    size_t classes = (size_t)p->kernels->view->classes;
    int64_t width = square ? count : p->rows;
    CST_SCOPE(scope);
    CST_NEW(context, scope, double, data, ((size_t)count * classes));
    CST_NEW(context, scope, double, norms, count);
    CST_NEW(context, scope, double, known, ((size_t)p->count + 1) * (size_t)count);
    for (int64_t t = 0; t < count; t++) {
        memcpy(data + (size_t)t * classes, p->data + (size_t)at[t] * classes,
               classes * sizeof *data);
        norms[t] = p->norms[at[t]];
        for (int64_t j = 0; j < p->count; j++)
            known[j * count + t] = p->factor[j * p->rows + at[t]];
    }
    const cst_kernel_points own = {data, norms, count};
    CST_TRY(cst_kernel_tile(context, p->kernels, p->member, own,
                            square ? own : (cst_kernel_points){p->data, p->norms, width}, out));
    if (p->count > 0)
        CST_TRY(cst_gemm_f64(context, true, false, count, width, p->count, -1, known, count,
                             square ? known : p->factor, width, 1, out, width));
    return CST_OK;
}

/* Takes proposals with the probability of their residual left: the law of single draws. */
static int64_t take(pivoting *p, double *missed, int64_t proposals, const int64_t *proposed,
                    int64_t *taken) {
    int64_t count = 0;
    for (int64_t t = 0; t < proposals; t++) {
        double pivot = missed[t * proposals + t];
        double u = cst_rng_uniform(&p->rng);
        if (!(pivot > USED_UP) || u * p->left[proposed[t]] > pivot)
            continue;
        taken[count++] = proposed[t];
        for (int64_t i = t + 1; i < proposals; i++) {
            double ratio = missed[i * proposals + t] / pivot;
            for (int64_t j = t + 1; j < proposals; j++)
                missed[i * proposals + j] -= ratio * missed[t * proposals + j];
        }
    }
    return count;
}

static cst_status make_room(cst_context *context, pivoting *p, int64_t count) {
    if (p->count + count <= p->capacity)
        return CST_OK;
    int64_t capacity = p->capacity * 2 > p->count + count ? p->capacity * 2 : p->count + count;
    double *grown = cst_grow(context, p->factor, (size_t)p->capacity * (size_t)p->rows,
                             (size_t)capacity * (size_t)p->rows, sizeof *grown);
    if (!grown)
        return CST_ERROR_MEMORY;
    p->factor = grown;
    p->capacity = capacity;
    return CST_OK;
}

/* Appends the factor's rows for the taken pivots. */
static cst_status extend(cst_context *context, pivoting *p, const int64_t *taken, int64_t count) {
    CST_TRY(make_room(context, p, count));
    double *fresh = p->factor + p->count * p->rows;
    CST_TRY(missed_rows(context, p, taken, count, false, fresh));
    int64_t made = 0;
    for (int64_t t = 0; t < count; t++) {
        double *row = fresh + made * p->rows;
        if (made != t)
            memmove(row, fresh + t * p->rows, (size_t)p->rows * sizeof *row);
        for (int64_t s = 0; s < made; s++) {
            const double *before = fresh + s * p->rows;
            double share = before[taken[t]];
            for (int64_t i = 0; i < p->rows; i++)
                row[i] -= share * before[i];
        }
        double pivot = row[taken[t]];
        if (pivot > USED_UP) {
            double scale = 1 / sqrt(pivot);
            for (int64_t i = 0; i < p->rows; i++) {
                row[i] *= scale;
                double left = p->left[i] - row[i] * row[i];
                p->left[i] = left > 0 ? left : 0;
            }
            p->pivots[p->count + made++] = taken[t];
        }
        p->left[taken[t]] = 0;
    }
    p->count += made;
    return CST_OK;
}

/* Frobenius norm of the centred kernel that the factor gives, |F H F'|. */
static cst_status centred_norm(cst_context *context, const pivoting *p, double *norm) {
    int64_t m = p->count;
    CST_SCOPE(scope);
    CST_NEW(context, scope, double, gram, ((size_t)m * (size_t)m));
    CST_NEW(context, scope, double, sums, m);
    CST_TRY(cst_gemm_f64(context, false, true, m, m, p->rows, 1, p->factor, p->rows, p->factor,
                         p->rows, 0, gram, m));
    for (int64_t j = 0; j < m; j++)
        for (int64_t i = 0; i < p->rows; i++)
            sums[j] += p->factor[j * p->rows + i];
    double squares = 0;
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < m; j++) {
            double value = gram[i * m + j] - sums[i] * sums[j] / (double)p->rows;
            squares += value * value;
        }
    *norm = sqrt(squares);
    return CST_OK;
}

static cst_status grow_to(cst_context *context, pivoting *p, int64_t floor, int64_t cap,
                          bool *converged) {
    int64_t proposed[PROPOSALS] = {0};
    int64_t taken[PROPOSALS];
    double norm = 0;
    int64_t norm_at = 0;
    CST_SCOPE(scope);
    CST_NEW(context, scope, double, missed, (PROPOSALS * PROPOSALS));
    for (;;) {
        double trace = missing(p);
        /* The norm grows with the landmarks, so an older one asks for too much at worst. */
        if (p->count >= floor && p->count > 0 && (norm_at == 0 || p->count >= 2 * norm_at)) {
            CST_TRY(centred_norm(context, p, &norm));
            norm_at = p->count;
        }
        *converged = trace <= USED_UP * (double)p->rows ||
                     (p->count >= floor && trace <= RESIDUAL_TOLERANCE * norm);
        if (p->count >= cap || *converged)
            return CST_OK;
        int64_t proposals = cap - p->count < PROPOSALS ? cap - p->count : PROPOSALS;
        if (p->count < floor && floor - p->count < proposals)
            proposals = floor - p->count;
        for (int64_t t = 0; t < proposals; t++)
            proposed[t] = draw(p);
        CST_TRY(missed_rows(context, p, proposed, proposals, true, missed));
        int64_t count = take(p, missed, proposals, proposed, taken);
        if (count == 0)
            p->left[proposed[0]] = 0; /* zero to rounding; not to be drawn again */
        else
            CST_TRY(extend(context, p, taken, count));
    }
}

cst_status cst_landmarks_residual(cst_context *context, const cst_kernels *kernels, int32_t member,
                                  int64_t floor, int64_t cap, uint64_t seed, int64_t *landmarks,
                                  int64_t *count, bool *converged) {
    int64_t rows = sample_rows(kernels->view, cap);
    cap = cap < rows ? cap : rows;
    floor = floor < cap ? floor : cap;
    CST_SCOPE(scope);
    pivoting p = {.scope = scope, .kernels = kernels, .member = member};
    cst_status status = start_pivoting(context, &p, cap, seed);
    if (status == CST_OK)
        status = grow_to(context, &p, floor, cap, converged);
    cst_free(context, p.factor); /* which grew */
    CST_TRY(status);
    for (int64_t i = 0; i < p.count; i++)
        landmarks[i] = p.index[p.pivots[i]];
    qsort(landmarks, (size_t)p.count, sizeof *landmarks, cst_by_i64);
    *count = p.count;
    return CST_OK;
}
