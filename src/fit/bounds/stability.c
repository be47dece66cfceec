/*
 * How far ridge weights move when design and targets do, measured and bounded. After stage S3.
 * Paper: proposition "Lipschitz stability of Ridge", which is replaced by a bound without its
 * precondition; docs/bounds.md#the-papers-quantities.
 */
#include "fit/bounds/spectral.h"

#include "core/la.h"

#include <math.h>
#include <string.h>

static double length(const double *v, int64_t n) {
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += v[i] * v[i];
    return sqrt(sum);
}

/* Largest singular value of x [rows][columns]. work: [columns][columns], values: [columns]. */
static cst_status spectral_norm(cst_context *context, int64_t rows, int32_t columns,
                                const double *x, double *work, double *values, double *norm) {
    cst_status status = cst_syrk_f64(context, columns, rows, 1, x, columns, 0, work, columns);
    for (int32_t i = 0; i < columns; i++)
        for (int32_t j = i + 1; j < columns; j++)
            work[i * columns + j] = work[j * columns + i];
    CST_THEN(cst_eigh(context, columns, work, values));
    *norm = status == CST_OK ? sqrt(fmax(values[columns - 1], 0)) : NAN;
    return status;
}

/* w [columns] = (X'X + lambda I)^-1 X'y. */
static cst_status ridge(cst_context *context, int64_t rows, int32_t columns, const double *x,
                        const double *y, double lambda, double *work, double *w) {
    CST_TRY(cst_syrk_f64(context, columns, rows, 1, x, columns, 0, work, columns));
    memset(w, 0, (size_t)columns * sizeof *w);
    for (int64_t i = 0; i < rows; i++)
        for (int32_t j = 0; j < columns; j++)
            w[j] += x[i * columns + j] * y[i];
    for (int32_t j = 0; j < columns; j++)
        work[j * columns + j] += lambda;
    CST_TRY(cst_cholesky(context, columns, work));
    cst_cholesky_solve(columns, work, w);
    return CST_OK;
}

/* Overwrites moved with what it is more than x, and the weights w' with w' - w. */
static double subtract(double *moved, const double *from, int64_t n) {
    for (int64_t i = 0; i < n; i++)
        moved[i] -= from[i];
    return length(moved, n);
}

/* |y - X w| */
static double residual(int64_t rows, int32_t columns, const double *x, const double *y,
                       const double *w) {
    double sum = 0;
    for (int64_t i = 0; i < rows; i++) {
        double gap = y[i];
        for (int32_t j = 0; j < columns; j++)
            gap -= x[i * columns + j] * w[j];
        sum += gap * gap;
    }
    return sqrt(sum);
}

typedef struct room {
    double *dx;     /* [rows][columns] */
    double *dy;     /* [rows] */
    double *work;   /* [columns][columns] */
    double *w;      /* [columns] */
    double *moved;  /* [columns] */
    double *values; /* [columns] */
} room;

/* Ridge regression of y [rows] on x [rows][columns]. */
typedef struct problem {
    int64_t rows;
    int32_t columns;
    const double *x;
    const double *y;
    double lambda;
} problem;

static cst_status measure(cst_context *context, const problem *p, const double *moved_x,
                          const double *moved_y, room *r, cst_ridge_stability *out) {
    int64_t rows = p->rows;
    int32_t columns = p->columns;
    const double *x = p->x;
    const double *y = p->y;
    double lambda = p->lambda;
    size_t d = (size_t)columns;
    double norm_x = 0;
    double norm_dx = 0;
    memcpy(r->dx, moved_x, (size_t)rows * d * sizeof *r->dx);
    memcpy(r->dy, moved_y, (size_t)rows * sizeof *r->dy);
    subtract(r->dx, x, rows * columns);
    double norm_dy = subtract(r->dy, y, rows);
    cst_status status = spectral_norm(context, rows, columns, x, r->work, r->values, &norm_x);
    CST_THEN(spectral_norm(context, rows, columns, r->dx, r->work, r->values, &norm_dx));
    CST_THEN(ridge(context, rows, columns, x, y, lambda, r->work, r->w));
    CST_THEN(ridge(context, rows, columns, moved_x, moved_y, lambda, r->work, r->moved));
    if (status != CST_OK)
        return status;
    double norm_y = length(y, rows);
    double norm_w = length(r->w, columns);
    out->change = subtract(r->moved, r->w, columns);
    out->paper = 2 * norm_x * norm_dy / lambda + 8 * norm_x * norm_y * norm_dx / (lambda * lambda) +
                 2 * norm_y * norm_dx / lambda;
    out->sharp = (norm_dy + norm_dx * norm_w) / (2 * sqrt(lambda)) +
                 norm_dx * residual(rows, columns, x, y, r->w) / lambda;
    out->precondition = 4 * norm_x * norm_dx <= lambda * (1 + 1e-12);
    return CST_OK;
}

cst_status cst_ridge_stability_of(cst_context *context, int64_t rows, int32_t columns,
                                  const double *x, const double *y, const double *moved_x,
                                  const double *moved_y, double lambda, cst_ridge_stability *out) {
    *out = (cst_ridge_stability){NAN, NAN, NAN, false};
    if (rows < 1 || columns < 1 || !(lambda > 0))
        return cst_fail(
            context, CST_ERROR_ARGUMENT,
            "the stability of ridge weights needs rows, columns and a positive penalty");
    size_t n = (size_t)rows;
    size_t d = (size_t)columns;
    room r;
    CST_SCOPE(scope);
    CST_TAKE(context, scope, r.dx, n * d);
    CST_TAKE(context, scope, r.dy, n);
    CST_TAKE(context, scope, r.work, d * d);
    CST_TAKE(context, scope, r.w, d);
    CST_TAKE(context, scope, r.moved, d);
    CST_TAKE(context, scope, r.values, d);
    return measure(context, &(problem){rows, columns, x, y, lambda}, moved_x, moved_y, &r, out);
}

/* ---- folds ---- */

typedef struct fold_room {
    double *x;     /* [rows][columns]: what is left */
    double *y;     /* [rows] */
    double *work;  /* [columns][columns] */
    double *w;     /* [folds][columns] */
    int64_t *size; /* [folds] */
} fold_room;

/* The weights without a fold; *radius grows to the largest norm of a row that is left. */
static cst_status without(cst_context *context, const problem *p, const int32_t *fold, int32_t out,
                          fold_room *r, double *radius) {
    size_t width = (size_t)p->columns;
    int64_t left = 0;
    for (int64_t i = 0; i < p->rows; i++) {
        const double *x = p->x + (size_t)i * width;
        if (fold[i] == out)
            continue;
        memcpy(r->x + (size_t)left * width, x, width * sizeof *x);
        r->y[left++] = p->y[i];
        *radius = fmax(*radius, length(x, p->columns));
    }
    r->size[out] = p->rows - left;
    return ridge(context, left, p->columns, r->x, r->y, p->lambda * (double)left / (double)p->rows,
                 r->work, r->w + (size_t)out * width);
}

static double distance(const double *a, const double *b, int32_t count) {
    double sum = 0;
    for (int32_t i = 0; i < count; i++)
        sum += (a[i] - b[i]) * (a[i] - b[i]);
    return sqrt(sum);
}

/* Folds have no row in common: the rows in one of two are those of both. lambda is that of the sum
 * of losses, so lambda / rows times rows is lambda. */
static void compare(const fold_room *r, int32_t columns, int32_t folds, double lambda,
                    double radius, cst_fold_stability *out) {
    size_t width = (size_t)columns;
    out->ratio = NAN;
    for (int32_t a = 0; a < folds; a++)
        for (int32_t b = 0; b < folds; b++) {
            const double *w = r->w + (size_t)a * width;
            if (a == b)
                continue;
            double change = distance(w, r->w + (size_t)b * width, columns);
            double claimed = 4 * radius * radius * (double)(r->size[a] + r->size[b]) / lambda *
                             length(w, columns);
            out->ratio = fmax(out->ratio, change / claimed);
            if (change >= out->change) {
                out->change = change;
                out->claimed = claimed;
            }
        }
}

cst_status cst_fold_stability_of(cst_context *context, int64_t rows, int32_t columns,
                                 const double *x, const double *y, const int32_t *fold,
                                 int32_t folds, double lambda, cst_fold_stability *out) {
    *out = (cst_fold_stability){0, 0, NAN};
    if (rows < 1 || columns < 1 || folds < 2 || !(lambda > 0))
        return cst_fail(context, CST_ERROR_ARGUMENT,
                        "the stability of folds needs rows, columns, two folds and a positive "
                        "penalty");
    size_t n = (size_t)rows;
    size_t d = (size_t)columns;
    double radius = 0;
    fold_room r;
    CST_SCOPE(scope);
    CST_TAKE(context, scope, r.x, n * d);
    CST_TAKE(context, scope, r.y, n);
    CST_TAKE(context, scope, r.work, d * d);
    CST_TAKE(context, scope, r.w, (size_t)folds * d);
    CST_TAKE(context, scope, r.size, folds);
    for (int32_t f = 0; f < folds; f++)
        CST_TRY(without(context, &(problem){rows, columns, x, y, lambda}, fold, f, &r, &radius));
    compare(&r, columns, folds, lambda, radius, out);
    return CST_OK;
}
