/* Shared by this folder: measures of a row, and counts in tables. model/shift/novelty.h. */
#ifndef CST_NOVELTY_PARTS_H
#define CST_NOVELTY_PARTS_H

#include "model/shift/novelty.h"

#include <string.h>

/* What is measured of some rows. */
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
cst_status cst_novelty_rows_alloc(cst_context *context, int64_t rows, int32_t size,
                                  cst_novelty_rows *out);
void cst_novelty_rows_free(cst_context *context, cst_novelty_rows *rows);

/* Squared distance of a row's logs [size]. inverse: of the Cholesky factor, [size][size]. */
double cst_novelty_distance(int32_t size, const double *mean, const double *inverse,
                            const float *logs);

/* J or M, at least 0, as a key: large values are small keys. */
static inline uint32_t cst_novelty_key(float value) {
    uint32_t bits = 0;
    memcpy(&bits, &value, sizeof bits);
    return ~bits;
}
/* S of counts: small for a row that is unlike. At most (CST_NOVELTY_ROWS_MAX + 1)^2 < 2^31. */
static inline uint32_t cst_novelty_score(int64_t spread, int64_t distance) {
    return (uint32_t)((1 + spread) * (1 + distance));
}

/* Makes a table of keys [rows], which are sorted. */
cst_status cst_novelty_table_make(cst_context *context, uint32_t *keys, int64_t rows, int32_t fine,
                                  cst_novelty_table *table);
/* How many keys of the sample are at most `key`: at knots and among fine ranks exactly, between
 * coarse ones the most it can be. */
int64_t cst_novelty_count(const cst_novelty_table *table, uint32_t key);

/* Inverse [size][size] of the lower Cholesky factor of a covariance. */
cst_status cst_novelty_invert(cst_context *context, int32_t size, double *covariance,
                              double *inverse);

#endif
