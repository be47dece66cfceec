/*
 * Members packed by strips of rows, for tiles of their kernels in single precision. Stage S1, under
 * the sum over pairs of rows. Paper: equation (1); docs/redundancy.md.
 */
#ifndef CST_STRIPS_H
#define CST_STRIPS_H

#include "method/redundancy/kernel.h"

/* Rows of a strip, and so the side of a tile. */
enum { CST_STRIP_ROWS = 128, CST_REFERENCE_ROWS = 256 };

typedef enum cst_packing {
    CST_PACKED_NOT = 0,    /* single precision would not do: tiles come from cst_kernel_tile */
    CST_PACKED_DENSE = 1,  /* rows less the origin, products by BLAS */
    CST_PACKED_SPARSE = 2, /* the entries that matter, class by class */
} cst_packing;

/* Up to a strip of one member's rows in units of sigma: |a|^2 stands for |a|^2 / sigma^2. */
typedef struct cst_strip {
    int64_t rows;
    float *exponents; /* [rows], -|a_i|^2 / 2, a part of the member's; the sample's own */
    float *dense;     /* [rows][C], less the origin */
    uint32_t *starts; /* sparse: [C + 1], where the entries of a class begin */
    float *values;    /* sparse: descending within a class */
    uint8_t *places;  /* sparse: the row */
} cst_strip;

typedef struct cst_packed_member {
    cst_packing packing;
    float cut;        /* sparse: products below it are left out of a b / sigma^2 */
    double error;     /* |H (K' - K) H| / |H K H| (Frobenius) on the reference rows, K' as packed */
    double bytes;     /* a row takes, about */
    double seconds;   /* a pair of rows takes, about */
    cst_strip sample; /* the reference rows */
    cst_strip *strips; /* [strips] */
    float *exponents;  /* [n], of the strips, one after another */
    float *dense;      /* [n][C]: of dense strips, one after another; else NULL */
    float *levels;     /* [n], about the mean of the kernel's row i, less half the mean of all */
} cst_packed_member;

typedef struct cst_packed {
    const cst_kernels *kernels;
    const int64_t *sample; /* [n] rows of the view, ascending in a strip, borrowed; NULL: all */
    int64_t rows;          /* n */
    int64_t strips;
    cst_packed_member *member; /* [K] */
    bool partial;              /* ranks divide the strips, and this one lacks some */
    bool *there;               /* [strips]: those that it has */
} cst_packed;

/* Chooses how to pack each member, on at most CST_REFERENCE_ROWS rows of it. */
cst_status cst_packed_plan(cst_context *context, const cst_kernels *kernels, cst_packed *out);

/* One pass over the data: packs the sampled rows ([rows], ascending in each strip; NULL: all).
 * own: packs only this rank's part of the strips, but exponents and levels of all of them. */
cst_status cst_packed_fill(cst_context *context, cst_packed *packed, const int64_t *sample,
                           int64_t rows, bool own);
/* Packs the strips that this rank lacks for its part of `tiles` tiles, of strips i and i + shift.
 */
cst_status cst_packed_reach(cst_context *context, cst_packed *packed, int64_t tiles, int64_t shift);
void cst_packed_free(cst_context *context, cst_packed *packed);

/* k(a_i, b_j) - level_i - level_j for rows of strips i and j (at most CST_STRIP_ROWS), which the
 * centring takes out again, into out [na][nb]; 0 on the diagonal of the matrix. Adds the sums of
 * the tile's rows to row_sums [na] and, where i != j, of its columns to column_sums [nb]. */
cst_status cst_packed_tile(cst_context *context, const cst_packed *packed, int32_t member,
                           int64_t i, int64_t j, float *out, double *row_sums, double *column_sums);

/* 1 - 2 level_i: what stands on the diagonal. */
double cst_packed_diagonal(const cst_packed *packed, int32_t member, int64_t row);

#endif
