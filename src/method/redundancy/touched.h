/*
 * Tiles of many sparse members at once: the kernel is an outer product but for the pairs of rows
 * that share classes. Stage S1, under the sum over pairs of rows. Paper: equation (1);
 * docs/redundancy.md.
 */
#ifndef CST_TOUCHED_H
#define CST_TOUCHED_H

#include "method/redundancy/strips.h"

/* Members beyond which products of members are faster over whole tiles. */
enum { CST_TOUCHED_MEMBERS = 64 };

/* With u_i = exp(-|a_i|^2 / (2 sigma^2)) a kernel is u_i u_j (1 + e_ij), e_ij = exp(a_i b_j /
 * sigma^2) - 1, which is 0 for most pairs. Up to what row and column add, u_i u_j is w_i w_j with
 * w_i = u_i - mean(u): small, and its sums have a closed form. */
typedef struct cst_touched {
    const cst_packed *packed;
    int64_t width; /* members, rounded up to whole registers */
    float *u;      /* [n][width] */
    float *w;      /* [n][width] */
    double *means; /* [width], of u */
} cst_touched;

/* Room for one tile; what is to be 0 is left so. */
typedef struct cst_touched_scratch {
    float *dots;    /* [CST_STRIP_ROWS^2][width], 0 */
    uint8_t *marks; /* [CST_STRIP_ROWS^2], 0 */
    uint16_t *list; /* [CST_STRIP_ROWS^2] */
    float *values;  /* [piece][width] */
    float *outer;   /* [piece][width] */
    float *rows;    /* [CST_STRIP_ROWS][width] */
    float *columns; /* [CST_STRIP_ROWS][width] */
    float *gram;    /* [width][width] */
    float *shared;  /* [width][width] */
} cst_touched_scratch;

/* Whether all members that are not constant are packed sparse, and not too many for this. */
bool cst_touched_suits(const cst_packed *packed);
cst_status cst_touched_create(cst_context *context, const cst_packed *packed, cst_touched *out);
void cst_touched_free(cst_context *context, cst_touched *touched);
cst_status cst_touched_scratch_create(cst_context *context, const cst_touched *touched,
                                      cst_touched_scratch *out);
void cst_touched_scratch_free(cst_context *context, cst_touched_scratch *scratch);

/* For strips i and j, the diagonal of the matrix left out: adds to sum [K*K], at and below its
 * diagonal, the products of the members' kernels (up to what row and column add) less those of w_i
 * w_j, to shared [K*K] (NULL: not wanted) those of u_i u_j e_ij, and to row_sums, column_sums
 * [K][n] the sums of u_i u_j e_ij (to rows only where i = j). */
void cst_touched_tile(const cst_touched *touched, int64_t i, int64_t j, cst_touched_scratch *s,
                      double *sum, double *shared, double *row_sums, double *column_sums);

/* Adds what the outer products w w' give all pairs of rows; fills `sum` above its diagonal. */
cst_status cst_touched_finish(cst_context *context, const cst_touched *touched, double *sum,
                              double *row_sums);

/* What stands on the diagonal. */
double cst_touched_diagonal(const cst_touched *touched, int32_t member, int64_t row);

#endif
