/* Clusters and spectra, the paper's propositions on them, and how far ridge weights move. */
#include "fit/bounds/spectral.h"

#include "core/la.h"
#include "core/scope.h"
#include "method/blend/blend.h"

#include <math.h>
#include <string.h>

void cst_cluster_facts_of(const double *similarity, int32_t members, const int32_t *cluster_of,
                          cst_cluster_facts *out) {
    *out = (cst_cluster_facts){.members = members};
    for (int32_t a = 0; a < members; a++) {
        const double *row = similarity + (size_t)a * (size_t)members;
        int32_t size = 0;
        for (int32_t b = 0; b < members; b++) {
            double value = fabs(row[b]);
            bool together = cluster_of[a] == cluster_of[b];
            size += together;
            if (a != b && together)
                out->epsilon = fmax(out->epsilon, 1 - value);
            else if (a != b)
                out->mu = fmax(out->mu, value);
        }
        out->largest = size > out->largest ? size : out->largest;
        out->clusters = cluster_of[a] >= out->clusters ? cluster_of[a] + 1 : out->clusters;
    }
    out->incoherent = out->mu * (out->clusters - 1) < 1;
}

#define NULL_SHARE 1e-10

static void put_discs(const double *matrix, size_t n, cst_spectral_facts *out) {
    out->disc_low = INFINITY;
    out->disc_high = -INFINITY;
    for (size_t i = 0; i < n; i++) {
        double radius = 0;
        for (size_t j = 0; j < n; j++)
            radius += j == i ? 0 : fabs(matrix[i * n + j]);
        out->trace += matrix[i * n + i];
        out->disc_low = fmin(out->disc_low, matrix[i * n + i] - radius);
        out->disc_high = fmax(out->disc_high, matrix[i * n + i] + radius);
    }
}

static void put_values(const double *values, int32_t n, cst_spectral_facts *out) {
    out->largest = values[n - 1];
    out->least = fmax(values[0], 0);
    if (!(out->largest > 0)) {
        out->null = n;
        out->kappa = 1;
        return;
    }
    while (out->null < n - 1 && values[out->null] < NULL_SHARE * out->largest)
        out->null++;
    out->smallest = values[out->null];
    out->kappa = out->largest / out->smallest;
}

cst_status cst_spectral_facts_of(cst_context *context, const double *gram, int32_t members,
                                 const int32_t *subset, int32_t count, double *values,
                                 cst_spectral_facts *out) {
    int32_t n = subset ? count : members;
    *out = (cst_spectral_facts){.members = n};
    if (n < 1)
        return cst_fail(context, CST_ERROR_ARGUMENT, "a spectrum needs at least one member");
    size_t width = (size_t)n;
    CST_SCOPE(scope);
    CST_NEW(context, scope, double, matrix, (width * width));
    for (size_t i = 0; i < width; i++)
        for (size_t j = 0; j < width; j++) {
            size_t from = subset ? (size_t)subset[i] : i;
            size_t to = subset ? (size_t)subset[j] : j;
            matrix[i * width + j] = gram[from * (size_t)members + to];
        }
    put_discs(matrix, width, out);
    CST_TRY(cst_eigh(context, n, matrix, values));
    put_values(values, n, out);
    return CST_OK;
}

double cst_kappa_lambda(const cst_spectral_facts *facts, double lambda) {
    return (facts->largest + lambda) / (facts->least + lambda);
}

double cst_effective_dimension(const double *values, int32_t count, double lambda) {
    double sum = 0;
    for (int32_t i = 0; i < count; i++) {
        double value = fmax(values[i], 0);
        sum += value / (value + lambda);
    }
    return sum;
}

/* Comparisons of computed eigenvalues with bounds that may be attained. */
static bool at_least(double value, double bound) {
    return value >= bound * (1 - 1e-9);
}

void cst_spectral_claims_of(const cst_cluster_facts *facts, const cst_spectral_facts *before,
                            const cst_spectral_facts *after, cst_spectral_claims *out) {
    double across = (facts->clusters - 1) * facts->mu;
    double within = 1 - facts->epsilon;
    *out = (cst_spectral_claims){.kappa_above = NAN,
                                 .kappa_below = NAN,
                                 .ratio_above = facts->largest * within,
                                 .applies = facts->incoherent,
                                 .holds = {true, true, true}};
    if (facts->incoherent) {
        out->kappa_above = facts->largest * within / (1 - across);
        out->kappa_below = (1 + across) / (1 - across);
        out->holds[0] = at_least(before->kappa, out->kappa_above);
        out->holds[1] = at_least(out->kappa_below, after->kappa);
    }
    out->holds[2] = at_least(before->kappa / after->kappa, out->ratio_above);
}

double cst_kappa_reduction(const cst_cluster_facts *facts, const cst_spectral_facts *before,
                           const cst_spectral_facts *after, double lambda) {
    return (facts->largest - 1) * (1 - facts->epsilon) / (before->least + lambda) /
           (1 + lambda / after->least);
}

static double quadratic_form(int32_t n, const double *matrix, const double *v) {
    double sum = 0;
    for (int32_t i = 0; i < n; i++)
        for (int32_t j = 0; j < n; j++)
            sum += v[i] * matrix[(size_t)i * (size_t)n + (size_t)j] * v[j];
    return sum;
}

cst_status cst_variance_facts_of(cst_context *context, int32_t count, const double *covariance,
                                 const double *weights, double *optimum, cst_variance_facts *out) {
    *out = (cst_variance_facts){.best = INFINITY, .inside = true};
    cst_spectral_facts spectrum;
    double distance = 0;
    CST_SCOPE(scope);
    CST_NEW(context, scope, double, values, count);
    CST_TRY(cst_spectral_facts_of(context, covariance, count, NULL, count, values, &spectrum));
    CST_TRY(cst_blend_minimum_variance(context, count, covariance, true, optimum));
    for (int32_t m = 0; m < count; m++) {
        distance += (weights[m] - optimum[m]) * (weights[m] - optimum[m]);
        out->inside = out->inside && optimum[m] >= 0;
        out->best = fmin(out->best, covariance[(size_t)m * (size_t)count + (size_t)m]);
    }
    out->minimum = quadratic_form(count, covariance, optimum);
    out->value = quadratic_form(count, covariance, weights);
    out->gap = out->value - out->minimum;
    out->bound = spectrum.largest * distance;
    return CST_OK;
}

static double length(const double *v, int64_t n) {
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += v[i] * v[i];
    return sqrt(sum);
}

/* Largest singular value of x [rows][columns]. work: [columns][columns], values: [columns]. */
static cst_status spectral_norm(cst_context *context, int64_t rows, int32_t columns,
                                const double *x, double *work, double *values, double *norm) {
    CST_TRY(cst_syrk_f64(context, columns, rows, 1, x, columns, 0, work, columns));
    for (int32_t i = 0; i < columns; i++)
        for (int32_t j = i + 1; j < columns; j++)
            work[i * columns + j] = work[j * columns + i];
    CST_TRY(cst_eigh(context, columns, work, values));
    *norm = sqrt(fmax(values[columns - 1], 0));
    return CST_OK;
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
    double *w; /* [columns], as the next two */
    double norm_x = 0;
    double norm_dx = 0;
    CST_SCOPE(scope);
    CST_NEW(context, scope, double, dx, (n * d));   /* [rows][columns] */
    CST_NEW(context, scope, double, dy, n);         /* [rows] */
    CST_NEW(context, scope, double, work, (d * d)); /* [columns][columns] */
    CST_TAKE(context, scope, w, d);
    CST_NEW(context, scope, double, moved, d);
    CST_NEW(context, scope, double, values, d);
    memcpy(dx, moved_x, n * d * sizeof *dx);
    memcpy(dy, moved_y, n * sizeof *dy);
    subtract(dx, x, rows * columns);
    double norm_dy = subtract(dy, y, rows);
    CST_TRY(spectral_norm(context, rows, columns, x, work, values, &norm_x));
    CST_TRY(spectral_norm(context, rows, columns, dx, work, values, &norm_dx));
    CST_TRY(ridge(context, rows, columns, x, y, lambda, work, w));
    CST_TRY(ridge(context, rows, columns, moved_x, moved_y, lambda, work, moved));
    double norm_y = length(y, rows);
    double norm_w = length(w, columns);
    out->change = subtract(moved, w, columns);
    out->paper = 2 * norm_x * norm_dy / lambda + 8 * norm_x * norm_y * norm_dx / (lambda * lambda) +
                 2 * norm_y * norm_dx / lambda;
    out->sharp = (norm_dy + norm_dx * norm_w) / (2 * sqrt(lambda)) +
                 norm_dx * residual(rows, columns, x, y, w) / lambda;
    out->precondition = 4 * norm_x * norm_dx <= lambda * (1 + 1e-12);
    return CST_OK;
}

/* Ridge regression of y [rows] on x [rows][columns]. */
typedef struct problem {
    int64_t rows;
    int32_t columns;
    const double *x;
    const double *y;
    double lambda;
} problem;

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

/* Folds have no row in common: the rows in one of two are those of both. */
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
    const problem p = {rows, columns, x, y, lambda};
    fold_room r;
    CST_SCOPE(scope);
    CST_TAKE(context, scope, r.x, n * d);
    CST_TAKE(context, scope, r.y, n);
    CST_TAKE(context, scope, r.work, d * d);
    CST_TAKE(context, scope, r.w, (size_t)folds * d);
    CST_TAKE(context, scope, r.size, folds);
    for (int32_t f = 0; f < folds; f++)
        CST_TRY(without(context, &p, fold, f, &r, &radius));
    compare(&r, columns, folds, lambda, radius, out);
    return CST_OK;
}
