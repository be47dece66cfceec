/* The loops of prediction that run once per (sample, class, member), compiled for each set of
 * registers (core/wide.h) with equal bytes. */
#pragma once

#include "core/base.h"

/* z[e] += weight * log((1 - mix) p[e] + mix / classes), the logarithm rounded to a float as in a
 * log table (method/loglinear/loglinear.h). p in [0, 1], mix > 0. */
void cst_add_mixed_logs(const float *p, int64_t count, double mix, int32_t classes, double weight,
                        double *z);

/* Replaces scores [classes] by their softmax. */
void cst_softmax(int32_t classes, double *scores);

/* z[e] += weight * x[e]. */
void cst_add_scaled_f32(const float *x, int64_t count, double weight, double *z);

/* z[e] += sum_j weights[j] columns[j * stride + e], for `count` columns j and e < size. */
void cst_add_columns(const double *columns, int64_t stride, int32_t count, int64_t size,
                     const double *weights, double *z);

/* How far a probability may leave [0, 1] before it is refused. */
#define CST_ROW_MARGIN 1e-6

typedef struct cst_row_check {
    double sum;
    bool outside; /* some entry is NaN or not in [-margin, 1 + margin] */
    bool beyond;  /* some entry is NaN or not in [0, 1] */
} cst_row_check;

cst_row_check cst_check_row(const float *row, int32_t classes);
