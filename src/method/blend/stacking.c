/* Convex weights of least NLL, by SQP on w >= 0. Kim, Carbonetto, Stephens, Anitescu (2020). */
#include "method/blend/blend.h"

#include "core/la.h"
#include "stats/samples.h"

#include <math.h>
#include <string.h>

/* Optimal when no member's mean likelihood ratio exceeds 1 by more than this. */
static const double GAP = 1e-9;

enum { ITERATIONS = 200 };

/* Products in one pass from which on threads share it: below, starting them costs more. */
static const double SHARED_FROM = 4e6;

typedef struct stacking {
    const cst_view *oof;
    float *likelihood; /* [rows][members] true-class probabilities, floored */
    const double *w;   /* [members] */
    double *sums;      /* 1 + members + members^2: objective, gradient, curvature */
    double *hessian;   /* [members][members] */
    double *b;         /* [members] */
    double *minimiser; /* [members] */
    double *trial;     /* [members] */
} stacking;

static cst_status gather_block(cst_context *context, void *user, int64_t block) {
    stacking *s = user;
    size_t members = (size_t)s->oof->members;
    CST_SCOPE(scope);
    cst_rows rows;
    CST_TRY(cst_rows_open(context, scope, s->oof, block, &rows));
    for (size_t m = 0; m < members; m++) {
        CST_TRY(cst_rows_read(context, &rows, (int32_t)m));
        float *to = s->likelihood + (size_t)rows.first * members + m;
        for (int64_t i = 0; i < rows.count; i++)
            to[(size_t)i * members] =
                fmaxf(cst_rows_at(&rows, i)[cst_view_label(s->oof, rows.first + i)],
                      (float)CST_NLL_FLOOR);
    }
    return CST_OK;
}

/* sum: [0] -log mixture; [1 + m] p_m / mixture; then the products of those ratios. */
static cst_status sums_block(cst_context *context, void *user, int64_t block, double *sum) {
    (void)context;
    const stacking *s = user;
    size_t members = (size_t)s->oof->members;
    int64_t first = cst_block_first(block);
    int64_t end = first + cst_block_size(s->oof->rows, block);
    double *gradient = sum + 1;
    double *curvature = gradient + members;
    for (int64_t i = first; i < end; i++) {
        const float *p = s->likelihood + (size_t)i * members;
        double mixture = 0;
        for (size_t m = 0; m < members; m++)
            mixture += s->w[m] * (double)p[m];
        double weight = cst_view_weight(s->oof, i);
        sum[0] -= weight * log(mixture);
        double inverse = 1 / mixture;
        for (size_t m = 0; m < members; m++) {
            double ratio = weight * (double)p[m] * inverse;
            gradient[m] += ratio;
            for (size_t l = 0; l <= m; l++)
                curvature[m * members + l] += ratio * (double)p[l] * inverse;
        }
    }
    return CST_OK;
}

/* Mean over rows of the sums at `w`. */
static cst_status evaluate(cst_context *context, stacking *s, const double *w) {
    size_t members = (size_t)s->oof->members;
    size_t width = 1 + members + members * members;
    s->w = w;
    cst_status status =
        cst_reduce_blocks(context, cst_block_count(s->oof->rows), width, sums_block, s, s->sums);
    double total = cst_view_weight_sum(s->oof);
    for (size_t j = 0; j < width; j++)
        s->sums[j] /= total;
    return status;
}

/* minimiser = minimum over u >= 0 of the quadratic model of -mean log(mixture) + sum u around w. */
static cst_status newton_target(cst_context *context, stacking *s, const double *w) {
    size_t n = (size_t)s->oof->members;
    const double *ratios = s->sums + 1;
    const double *curvature = ratios + n;
    double mean = 0;
    for (size_t i = 0; i < n; i++)
        mean += curvature[i * n + i] / (double)n;
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j <= i; j++) {
            double h = curvature[i * n + j] + (i == j ? 1e-9 * mean : 0);
            s->hessian[i * n + j] = h;
            s->hessian[j * n + i] = h;
        }
    for (size_t i = 0; i < n; i++) { /* b = Hw - gradient, gradient = 1 - ratio */
        s->b[i] = ratios[i] - 1;
        for (size_t j = 0; j < n; j++)
            s->b[i] += s->hessian[i * n + j] * w[j];
    }
    return cst_nonnegative_quadratic(context, (int32_t)n, s->hessian, s->b, s->minimiser);
}

/* Moves w towards the minimiser, halving the way; *moved: whether. `sums` are those of new w. */
static cst_status line_search(cst_context *context, stacking *s, double *w, bool *moved) {
    size_t n = (size_t)s->oof->members;
    double loss = s->sums[0];
    double slope = 0;
    for (size_t m = 0; m < n; m++)
        slope += (1 - s->sums[1 + m]) * (s->minimiser[m] - w[m]);
    cst_status status = CST_OK;
    *moved = false;
    for (double length = 1; status == CST_OK && !*moved && length > 1e-8; length *= 0.5) {
        double sum = 0;
        for (size_t m = 0; m < n; m++) {
            s->trial[m] = w[m] + length * (s->minimiser[m] - w[m]);
            sum += s->trial[m];
        }
        if (!(sum > 0))
            continue;
        for (size_t m = 0; m < n; m++) /* the best scale of any w is the one with sum 1 */
            s->trial[m] /= sum;
        status = evaluate(context, s, s->trial);
        /* Next to the optimum the loss cannot tell two points apart; Newton's step still can. */
        *moved = s->sums[0] <= loss + 1e-4 * length * slope + 1e-14 * (1 + fabs(loss));
    }
    if (status == CST_OK && *moved)
        memcpy(w, s->trial, n * sizeof *w);
    return status;
}

static double optimality_gap(const stacking *s) {
    double most = 0;
    for (int32_t m = 0; m < s->oof->members; m++)
        most = fmax(most, s->sums[1 + m]);
    return most - 1;
}

static cst_status minimise(cst_context *context, stacking *s, double *weights, double *gap) {
    size_t n = (size_t)s->oof->members;
    for (size_t m = 0; m < n; m++)
        weights[m] = 1.0 / (double)n;
    CST_TRY(evaluate(context, s, weights));
    bool moved = true;
    *gap = optimality_gap(s);
    for (int it = 0; moved && *gap > GAP && it < ITERATIONS; it++) {
        CST_TRY(newton_target(context, s, weights));
        CST_TRY(line_search(context, s, weights, &moved));
        if (moved)
            *gap = optimality_gap(s);
    }
    if (*gap > 1e3 * GAP)
        cst_notice(context,
                   "the stacking weights are within %.1e nats of the optimum, not within %.0e",
                   *gap, GAP);
    return CST_OK;
}

cst_status cst_blend_stacking(cst_context *context, const cst_view *oof, double *weights,
                              double *gap) {
    if (oof->rows < 1 || !oof->labels)
        return cst_fail(context, CST_ERROR_INPUT, "stacking weights need labelled rows");
    size_t n = (size_t)oof->members;
    double reached = 0;
    size_t cells = 0;
    stacking s = {.oof = oof};
    if (!cst_size_mul((size_t)oof->rows, n, &cells))
        return cst_fail(context, CST_ERROR_LIMIT, "%lld rows of %zu members are too many",
                        (long long)oof->rows, n);
    CST_SCOPE(scope);
    CST_TAKE(context, scope, s.likelihood, cells);
    CST_TAKE(context, scope, s.sums, 1 + n + n * n);
    CST_TAKE(context, scope, s.hessian, n * n);
    CST_TAKE(context, scope, s.b, n);
    CST_TAKE(context, scope, s.minimiser, n);
    CST_TAKE(context, scope, s.trial, n);
    CST_TRY(cst_parallel_own(context, cst_block_count(oof->rows), 1, gather_block, &s));
    int threads = cst_context_threads(context);
    if ((double)cells * (double)n < SHARED_FROM)
        CST_TRY(cst_context_set_threads(context, 1));
    cst_status status = minimise(context, &s, weights, &reached);
    (void)cst_context_set_threads(context, threads); /* was valid before */
    if (gap)
        *gap = reached;
    return status;
}

/* ---- non-negative quadratic programs by the active-set method of Lawson and Hanson ---- */

typedef struct solver {
    int32_t n;
    const double *hessian; /* [n][n] */
    const double *b;       /* [n] */
    double *u;             /* [n] */
    bool *passive;         /* [n]: free to be positive */
    int32_t *columns;      /* [n]: the passive ones */
    double *factor;        /* [n][n] */
    double *trial;         /* [n] */
} solver;

/* trial = the minimum over the passive variables alone; count of them in *count. */
static cst_status solve_passive(cst_context *context, solver *s, int32_t *count) {
    int32_t used = 0;
    for (int32_t j = 0; j < s->n; j++)
        if (s->passive[j])
            s->columns[used++] = j;
    for (int32_t i = 0; i < used; i++) {
        for (int32_t j = 0; j < used; j++)
            s->factor[i * used + j] =
                s->hessian[(size_t)s->columns[i] * (size_t)s->n + (size_t)s->columns[j]];
        s->trial[i] = s->b[s->columns[i]];
    }
    *count = used;
    CST_TRY(cst_cholesky(context, used, s->factor));
    cst_cholesky_solve(used, s->factor, s->trial);
    return CST_OK;
}

/* From u towards the trial point while non-negative. True when it was reached. */
static bool step(solver *s, int32_t used) {
    double length = 1;
    for (int32_t i = 0; i < used; i++) {
        double from = s->u[s->columns[i]];
        if (s->trial[i] <= 0 && from - s->trial[i] > 0)
            length = fmin(length, from / (from - s->trial[i]));
        else if (s->trial[i] <= 0)
            length = 0;
    }
    bool whole = true;
    for (int32_t i = 0; i < used; i++) {
        double *to = &s->u[s->columns[i]];
        double blocked = s->trial[i] <= 0 ? *to / (*to - s->trial[i]) : INFINITY;
        if (s->trial[i] <= 0)
            whole = false;
        *to += length * (s->trial[i] - *to);
        if (!(blocked > length) || *to < 0) { /* also the 0/0 of a variable that never left 0 */
            *to = 0;
            s->passive[s->columns[i]] = false;
        }
    }
    return whole;
}

/* The variable at 0 along which the objective falls fastest; -1 when there is none: the optimum. */
static int32_t entering(const solver *s) {
    double scale = 0;
    for (int32_t j = 0; j < s->n; j++)
        scale = fmax(scale, fabs(s->b[j]));
    int32_t best = -1;
    double most = 1e-13 * scale;
    for (int32_t j = 0; j < s->n; j++) {
        if (s->passive[j])
            continue;
        double descent = s->b[j];
        for (int32_t i = 0; i < s->n; i++)
            descent -= s->hessian[(size_t)j * (size_t)s->n + (size_t)i] * s->u[i];
        if (descent > most) {
            most = descent;
            best = j;
        }
    }
    return best;
}

cst_status cst_nonnegative_quadratic(cst_context *context, int32_t n, const double *hessian,
                                     const double *b, double *u) {
    solver s = {.n = n, .hessian = hessian, .b = b, .u = u};
    CST_SCOPE(scope);
    CST_TAKE(context, scope, s.passive, n);
    CST_TAKE(context, scope, s.columns, n);
    CST_TAKE(context, scope, s.factor, ((int64_t)n * n));
    CST_TAKE(context, scope, s.trial, n);
    memset(u, 0, (size_t)n * sizeof *u);
    /* The bound on the rounds, and the stop when a variable is sent back, are for rounding. */
    bool stuck = false;
    for (int64_t round = 0; !stuck && round < 20 * (int64_t)n; round++) {
        int32_t next = entering(&s);
        if (next < 0)
            break;
        s.passive[next] = true;
        bool whole = false;
        while (!whole && !stuck) {
            int32_t used = 0;
            CST_TRY(solve_passive(context, &s, &used));
            whole = step(&s, used);
            stuck = !whole && !s.passive[next] && u[next] == 0;
        }
    }
    return CST_OK;
}
