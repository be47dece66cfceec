/* A convex quadratic over weights that may not be negative, by block principal pivoting (Kim and
 * Park, 2011). */
#include "method/linear/box_quadratic.h"

#include "core/la.h"
#include "core/scope.h"

#include <math.h>
#include <string.h>

/* Exchanges of every violated condition at once that may pass without fewer of them, before they
 * are exchanged one at a time, which ends for sure. */
enum { PATIENCE = 3, ROUNDS_PER_WEIGHT = 8, ROUNDS_MIN = 64 };

/* Relative to the largest entry: what counts as 0. */
static const double ROUNDING = 1e-13;

typedef struct pivoting {
    int32_t n;
    const double *curvature;
    double *pull;   /* [n]: S free */
    double *factor; /* [n][n]: of the part that is not at the bound */
    double *part;   /* [n] */
    bool *bound;    /* [n] */
    bool *wrong;    /* [n]: negative, or at the bound though the model falls behind it */
    double *x;      /* [n] */
} pivoting;

double cst_largest_absolute(const double *values, int32_t n) {
    double most = 0;
    for (int32_t j = 0; j < n; j++)
        most = fmax(most, fabs(values[j]));
    return most;
}

/* x: 0 at the bound, and the least of the model over the others. */
static cst_status solve_inside(cst_context *context, pivoting *p) {
    size_t n = (size_t)p->n;
    int32_t size = 0;
    for (size_t i = 0; i < n; i++)
        if (!p->bound[i])
            p->part[size++] = p->pull[i];
    size_t row = 0;
    for (size_t i = 0; i < n; i++) {
        if (p->bound[i])
            continue;
        size_t column = 0;
        for (size_t j = 0; j <= i; j++)
            if (!p->bound[j])
                p->factor[row * (size_t)size + column++] = p->curvature[i * n + j];
        row++;
    }
    if (size > 0) {
        CST_TRY(cst_cholesky(context, size, p->factor));
        cst_cholesky_solve(size, p->factor, p->part);
    }
    size = 0;
    for (size_t i = 0; i < n; i++)
        p->x[i] = p->bound[i] ? 0 : p->part[size++];
    return CST_OK;
}

/* Marks what is violated; returns how many. */
static int32_t find_wrong(pivoting *p) {
    size_t n = (size_t)p->n;
    double least = -ROUNDING * cst_largest_absolute(p->x, p->n);
    double flat = -ROUNDING * cst_largest_absolute(p->pull, p->n);
    int32_t count = 0;
    for (size_t i = 0; i < n; i++) {
        double slope = -p->pull[i];
        for (size_t j = 0; p->bound[i] && j < n; j++)
            slope += p->curvature[i * n + j] * p->x[j];
        p->wrong[i] = p->bound[i] ? slope < flat : p->x[i] < least;
        count += p->wrong[i];
    }
    return count;
}

/* Moves what is violated to the other side: all, or the last alone. */
static void exchange(pivoting *p, bool all) {
    for (int32_t i = p->n - 1; i >= 0; i--) {
        if (!p->wrong[i])
            continue;
        p->bound[i] = !p->bound[i];
        if (!all)
            return;
    }
}

static cst_status pivot(cst_context *context, pivoting *p) {
    int32_t fewest = p->n + 1;
    int32_t patience = PATIENCE;
    for (int32_t round = 0; round < ROUNDS_MIN + ROUNDS_PER_WEIGHT * p->n; round++) {
        CST_TRY(solve_inside(context, p));
        int32_t count = find_wrong(p);
        if (count == 0)
            break;
        patience = count < fewest ? PATIENCE : patience - 1;
        fewest = count < fewest ? count : fewest;
        exchange(p, patience >= 0);
    }
    for (int32_t i = 0; i < p->n; i++)
        p->x[i] = fmax(p->x[i], 0);
    return CST_OK;
}

cst_status cst_bounded_quadratic(cst_context *context, int32_t n, const double *curvature,
                                 const double *unbounded, double *x) {
    size_t count = (size_t)n;
    pivoting p = {.n = n, .curvature = curvature, .x = x};
    CST_SCOPE(scope);
    CST_TAKE(context, scope, p.pull, count);
    CST_TAKE(context, scope, p.part, count);
    CST_TAKE(context, scope, p.factor, count * count);
    CST_TAKE(context, scope, p.bound, count);
    CST_TAKE(context, scope, p.wrong, count);
    for (size_t i = 0; i < count; i++) {
        p.bound[i] = !(unbounded[i] > 0);
        for (size_t j = 0; j < count; j++)
            p.pull[i] += curvature[i * count + j] * unbounded[j];
    }
    return pivot(context, &p);
}

/* ---- Newton steps ---- */

static double entry(const double *hessian, size_t d, size_t i, size_t j) {
    return i >= j ? hessian[i * d + j] : hessian[j * d + i];
}

/* Factor of the Hessian with the parameters without bounds first: its last block is that of the
 * weights' curvature when the others follow them. */
static cst_status turned_factor(cst_context *context, size_t d, size_t weights,
                                const double *hessian, double *factor) {
    size_t others = d - weights;
    for (size_t i = 0; i < d; i++)
        for (size_t j = 0; j <= i; j++)
            factor[i * d + j] = entry(hessian, d, i < others ? weights + i : i - others,
                                      j < others ? weights + j : j - others);
    return cst_cholesky(context, (int64_t)d, factor);
}

/* curvature [weights][weights] from the factor's last block. */
static void last_block(size_t d, size_t weights, const double *factor, double *curvature) {
    size_t from = d - weights;
    for (size_t i = 0; i < weights; i++)
        for (size_t j = 0; j <= i; j++) {
            double sum = 0;
            for (size_t l = 0; l <= j; l++)
                sum += factor[(from + i) * d + from + l] * factor[(from + j) * d + from + l];
            curvature[i * weights + j] = sum;
            curvature[j * weights + i] = sum;
        }
}

/* The others' part of the step when the weights' part is `change` more than it was: follow
 * [d - weights] is scratch. */
static void let_follow(size_t d, size_t weights, const double *factor, const double *change,
                       double *follow, double *step) {
    size_t others = d - weights;
    for (size_t i = 0; i < others; i++) {
        follow[i] = 0;
        for (size_t k = 0; k < weights; k++)
            follow[i] += factor[(others + k) * d + i] * change[k];
    }
    for (size_t i = others; i-- > 0;) {
        for (size_t l = i + 1; l < others; l++)
            follow[i] -= factor[l * d + i] * follow[l];
        follow[i] /= factor[i * d + i];
        step[weights + i] -= follow[i];
    }
}

/* How much the quadratic model falls by a step. */
static double model_fall(size_t d, const double *hessian, const double *gradient,
                         const double *step) {
    double fall = 0;
    for (size_t i = 0; i < d; i++) {
        double curved = 0;
        for (size_t j = 0; j < d; j++)
            curved += entry(hessian, d, i, j) * step[j];
        fall += step[i] * (gradient[i] - 0.5 * curved);
    }
    return fall;
}

cst_status cst_bounded_newton(cst_context *context, int32_t parameters, int32_t count,
                              const double *hessian, const double *theta, const double *gradient,
                              double *step, double *decrement) {
    size_t d = (size_t)parameters;
    size_t k = (size_t)count;
    CST_SCOPE(scope);
    CST_NEW(context, scope, double, factor, (d * d));
    CST_NEW(context, scope, double, curvature, (k * k));
    CST_NEW(context, scope, double, point, k);
    CST_NEW(context, scope, double, x, k);
    CST_NEW(context, scope, double, scratch, d);
    CST_TRY(turned_factor(context, d, k, hessian, factor));
    for (size_t i = 0; i < d; i++)
        scratch[i] = gradient[i < d - k ? k + i : i - (d - k)];
    cst_cholesky_solve((int64_t)d, factor, scratch);
    for (size_t i = 0; i < d; i++)
        step[i < d - k ? k + i : i - (d - k)] = scratch[i];
    for (size_t j = 0; j < k; j++)
        point[j] = theta[j] - step[j];
    last_block(d, k, factor, curvature);
    CST_TRY(cst_bounded_quadratic(context, count, curvature, point, x));
    for (size_t j = 0; j < k; j++) {
        double before = step[j];
        step[j] = theta[j] - x[j];
        point[j] = step[j] - before;
    }
    let_follow(d, k, factor, point, scratch, step);
    *decrement = model_fall(d, hessian, gradient, step);
    return CST_OK;
}
