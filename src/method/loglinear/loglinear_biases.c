/*
 * Curvature of the log-linear pool's biases from rows with mass on many classes: their
 * probabilities are laid side by side, and BLAS adds the products of a few rows at a time. Under
 * loglinear_pass.c and loglinear_sampled.c.
 */
#include "core/la.h"
#include "core/wide.h"
#include "method/loglinear/loglinear_pass.h"

#include <math.h>
#include <string.h>

/* Rows laid side by side, and probabilities. */
enum { ROWS_MOST = 128, ROWS_LEAST = 16, DENSE_FLOATS = 1 << 16 };

/* Adds p [count] to mass, `root` times p to `to`, and the weights' part to cross
 * [members][classes]. */
CST_KERNEL(dense,
           (const float *restrict p, const float *restrict root, const float *restrict y,
            int64_t width, int64_t count, int64_t members, int64_t classes, double weight,
            double scale, double *restrict to, double *restrict mass, double *restrict cross),
           (p, root, y, width, count, members, classes, weight, scale, to, mass, cross)) {
    for (int64_t c = 0; c < count; c++)
        mass[c] += weight * (double)p[c];
    for (int64_t c = 0; c < count; c++)
        to[c] = scale * (double)p[c];
    for (int64_t j = 0; j < members; j++) {
        const float *restrict from = y + j * width;
        double *restrict sum = cross + j * classes;
        for (int64_t c = 0; c < count; c++)
            sum[c] += (double)root[c] * (double)from[c];
    }
}

static void scattered(const cst_dense_row *row, int64_t members, int64_t classes, double scale,
                      double *to, double *mass, double *cross) {
    for (int64_t e = 0; e < row->count; e++) {
        mass[row->classes[e]] += row->weight * (double)row->p[e];
        to[row->classes[e]] = scale * (double)row->p[e];
    }
    for (int64_t j = 0; j < members; j++)
        for (int64_t e = 0; e < row->count; e++)
            cross[j * classes + row->classes[e]] +=
                (double)row->root[e] * (double)row->y[j * row->width + e];
}

/* Products of the rows that are held, to the Hessian of the biases. */
static cst_status flush(cst_context *context, cst_dense *d, double *hessian) {
    size_t stride = (size_t)d->parameters;
    cst_status status =
        cst_syrk_f64(context, d->classes, d->rows, -1, d->p, d->classes, 1,
                     hessian + (size_t)d->count * stride + (size_t)d->count, d->parameters);
    d->rows = 0;
    return status;
}

static cst_status dense_alloc(cst_context *context, cst_dense *d) {
    size_t classes = (size_t)d->classes;
    int64_t room = DENSE_FLOATS / d->classes;
    d->room = room < ROWS_LEAST ? ROWS_LEAST : room > ROWS_MOST ? ROWS_MOST : room;
    d->p = cst_alloc(context, (size_t)d->room * classes, sizeof *d->p);
    d->mass = cst_alloc(context, classes, sizeof *d->mass);
    d->cross = cst_alloc(context, (size_t)d->count * classes, sizeof *d->cross);
    return d->p && d->mass && d->cross ? CST_OK : CST_ERROR_MEMORY;
}

cst_status cst_dense_add(cst_context *context, cst_dense *d, const cst_dense_row *row,
                         double *hessian) {
    cst_status status = d->p ? CST_OK : dense_alloc(context, d);
    if (status == CST_OK && d->rows == d->room)
        status = flush(context, d, hessian);
    if (status != CST_OK)
        return status;
    double *to = d->p + (size_t)d->rows++ * (size_t)d->classes;
    double scale = sqrt(row->weight);
    if (row->count == d->classes) {
        dense(row->p, row->root, row->y, row->width, row->count, d->count, d->classes, row->weight,
              scale, to, d->mass, d->cross);
        return CST_OK;
    }
    memset(to, 0, (size_t)d->classes * sizeof *to);
    scattered(row, d->count, d->classes, scale, to, d->mass, d->cross);
    return CST_OK;
}

cst_status cst_dense_end(cst_context *context, cst_dense *d, double *gradient, double *hessian) {
    size_t k = (size_t)d->count;
    size_t stride = (size_t)d->parameters;
    if (!d->p)
        return CST_OK;
    cst_status status = flush(context, d, hessian);
    for (size_t c = 0; c < (size_t)d->classes; c++) {
        double *to = hessian + (k + c) * stride;
        gradient[k + c] += d->mass[c];
        to[k + c] += d->mass[c];
        for (size_t j = 0; j < k; j++)
            to[j] += d->cross[j * (size_t)d->classes + c];
    }
    return status;
}

void cst_dense_free(cst_context *context, cst_dense *d) {
    cst_free(context, d->p);
    cst_free(context, d->mass);
    cst_free(context, d->cross);
}
