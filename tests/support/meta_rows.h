/*
 * The meta-design row by row and moments of rows in memory, for tests of what the library computes
 * in tiles. Included after cmocka.h.
 */
#ifndef META_ROWS_H
#define META_ROWS_H

#include "method/gate/gate.h"
#include "method/linear/linear.h"
#include "method/linear/moments.h"

#include <stdlib.h>
#include <string.h>

/* All aggregators of `count` samples, best member `best`: out [count * classes][12]. */
static inline void aggregate_rows(const float *const *members, int32_t member_count, int32_t best,
                                  int64_t count, int32_t classes, double *out) {
    int64_t pairs = count * (int64_t)classes;
    double *scratch =
        calloc(cst_aggregate_scratch(member_count) + 2 * (size_t)count, sizeof *scratch);
    assert_non_null(scratch);
    double *entropy = scratch + cst_aggregate_scratch(member_count);
    double *work = scratch + (size_t)CST_AGGREGATORS * CST_TILE;
    cst_aggregate_samples(members, member_count, best, count, classes, entropy, entropy + count,
                          scratch);
    for (int64_t first = 0; first < pairs; first += CST_TILE) {
        int64_t size = pairs - first < CST_TILE ? pairs - first : CST_TILE;
        cst_aggregate_tile(members, member_count, classes, first, size, entropy, entropy + count,
                           scratch, work);
        for (int64_t e = 0; e < size; e++)
            for (int32_t a = 0; a < CST_AGGREGATORS; a++)
                out[(first + e) * CST_AGGREGATORS + a] = scratch[a * CST_TILE + e];
    }
    free(scratch);
}

/* The learned gate of `count` (sample, class) pairs: members[k] [count], out [count][12]. */
static inline void gate_rows(const cst_gate *gate, const float *const *members, int64_t count,
                             double *out) {
    double *scratch = malloc(cst_gate_scratch(gate) * sizeof *scratch);
    float *columns = malloc((size_t)CST_AGGREGATORS * CST_TILE * sizeof *columns);
    assert_true(scratch && columns);
    for (int64_t first = 0; first < count; first += CST_TILE) {
        int64_t size = count - first < CST_TILE ? count - first : CST_TILE;
        cst_gate_tile(gate, members, first, size, columns, scratch);
        for (int64_t e = 0; e < size; e++)
            for (int32_t a = 0; a < CST_AGGREGATORS; a++)
                out[(first + e) * CST_AGGREGATORS + a] = (double)columns[a * CST_TILE + e];
    }
    free(columns);
    free(scratch);
}

/* cst_design_fill by rows: out [count * classes][d]. */
static inline void design_rows(const cst_gate *gate, const float *const *members, int64_t count,
                               int32_t classes, double *out) {
    size_t pairs = (size_t)count * (size_t)classes;
    size_t d = (size_t)cst_design_columns(gate);
    double *scratch = malloc(cst_design_scratch(gate, count) * sizeof *scratch);
    double *columns = malloc(pairs * d * sizeof *columns);
    assert_true(scratch && columns);
    cst_design_fill(gate, members, count, classes, columns, (int64_t)pairs, scratch);
    for (size_t i = 0; i < pairs; i++)
        for (size_t j = 0; j < d; j++)
            out[i * d + j] = columns[j * pairs + i];
    free(columns);
    free(scratch);
}

/* Raw scores [count][classes] of a linear meta-learner. */
static inline void linear_scores(const cst_gate *gate, const cst_linear *linear,
                                 const float *const *members, int64_t count, int32_t classes,
                                 double *out) {
    size_t d = (size_t)linear->columns;
    double *rows = malloc((size_t)(count * classes) * d * sizeof *rows);
    assert_non_null(rows);
    design_rows(gate, members, count, classes, rows);
    for (int64_t i = 0; i < count * classes; i++) {
        out[i] = linear->intercept;
        for (size_t j = 0; j < d; j++)
            out[i] += linear->coefficients[j] * rows[(size_t)i * d + j];
    }
    free(rows);
}

/* Moments of x [rows][columns] with targets y [rows]; folds NULL: one group. */
static inline cst_moments moments_of_rows(cst_context *context, int64_t rows, int32_t columns,
                                          const double *x, const double *y, const int32_t *folds,
                                          int32_t fold_count) {
    cst_moments out = {.columns = columns, .folds = folds ? fold_count : 1, .inputs = columns};
    size_t d = (size_t)columns;
    size_t width = d + 2;
    out.shift = cst_take(context, &out.scope, d, sizeof *out.shift);
    out.sums = cst_take(context, &out.scope, (size_t)out.folds * width * width, sizeof *out.sums);
    double *z = malloc(width * sizeof *z);
    assert_true(out.shift && out.sums && z);
    for (int64_t i = 0; i < rows; i++)
        for (size_t j = 0; j < d; j++)
            out.shift[j] += x[(size_t)i * d + j] / (double)rows;
    for (int64_t i = 0; i < rows; i++) {
        double *sums = out.sums + (folds ? (size_t)folds[i] * width * width : 0);
        for (size_t j = 0; j < d; j++)
            z[j] = x[(size_t)i * d + j] - out.shift[j];
        z[d] = y[i];
        z[d + 1] = 1;
        for (size_t a = 0; a < width; a++)
            for (size_t b = 0; b < width; b++)
                sums[a * width + b] += z[a] * z[b];
    }
    free(z);
    return out;
}

#endif
