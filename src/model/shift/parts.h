/* Shared by this folder: measures of a row, and counts in tables. model/shift/novelty.h. */
#pragma once

#include "model/shift/novelty.h"

#include <string.h>

/* Measures of some rows. */
typedef struct cst_novelty_rows {
    float *spread;   /* [rows]: J, at least 0; as if every member were there */
    float *logs;     /* [rows][size]: log(H + 1e-3) of the members of the distance */
    int32_t *class;  /* [rows]: that the average predicts; -1: no member predicted the row */
    uint32_t *there; /* [rows]: bit j: member place[j] is there */
} cst_novelty_rows;

/* Rows first..first+count-1 of a view of `members` members. place: [size]. `out` has room for
 * `count` rows. */
cst_status cst_novelty_measure(cst_context *worker, const cst_view *view, const int32_t *place,
                               int32_t size, int64_t first, int64_t count, cst_novelty_rows *out);
/* The only row of a view of arrays in memory. work: two rows of classes. */
void cst_novelty_measure_row(const cst_view *view, const int32_t *place, int32_t size, float *work,
                             cst_novelty_rows *out);
cst_status cst_novelty_rows_take(cst_context *context, cst_scope *scope, int64_t rows, int32_t size,
                                 cst_novelty_rows *out);

/* Squared distance of a row's logs [size]. inverse: of the Cholesky factor, [size][size]. */
double cst_novelty_distance(int32_t size, const double *mean, const double *inverse,
                            const float *logs);

/* `count` positions below `rows`: one of each of as many equal parts, at random, so that an order
 * of the rows with a period (as the columns of an image) does no harm. */
void cst_choose_rows(int64_t rows, int64_t count, uint32_t stream, int64_t *chosen);
