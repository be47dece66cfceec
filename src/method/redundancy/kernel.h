/* The Gaussian kernel of each member: bandwidth by the median heuristic, and blocks of its matrix.
 * Paper: section "Empirical CKA"; method section 2. */
#ifndef CST_KERNEL_H
#define CST_KERNEL_H

#include "data/pool/view.h"

/* Rows that the bandwidths are taken from, at most. */
enum { CST_BANDWIDTH_ROWS = 1000 };

/* One kernel per member of a view. `origin` is subtracted from a member's rows before distances are
 * taken by products, |a - b|^2 = |a|^2 + |b|^2 - 2ab, so that the cancellation is relative to the
 * spread of the rows and not to their size. */
typedef struct cst_kernels {
    const cst_view *view; /* borrowed */
    double *sigma;        /* [K]; 0 for a constant member */
    bool *constant;       /* [K] */
    double *origin;       /* [K][C] */
} cst_kernels;

/* Its arrays are of the scope. */
cst_status cst_kernels_create(cst_context *context, cst_scope *scope, const cst_view *view,
                              uint64_t seed, cst_kernels *out);

/* `count` of 0..rows-1 without repetition, ascending. */
cst_status cst_sample_rows(cst_context *context, int64_t rows, int64_t count, uint64_t seed,
                           cst_stream stream, uint32_t substream, int64_t *sample);

/* Rows of a member less its origin ([count][C]) and their squared norms ([count]). The rows are
 * first..first+count-1, or, with `index` (ascending), those it names. `scratch` holds count * C
 * floats, of at most CST_BLOCK_ROWS rows. */
cst_status cst_kernel_rows(cst_context *context, const cst_kernels *kernels, int32_t member,
                           const int64_t *index, int64_t first, int64_t count, float *scratch,
                           double *rows, double *norms);

/* Result of cst_kernel_rows. */
typedef struct cst_kernel_points {
    const double *rows;  /* [count][C] */
    const double *norms; /* [count] */
    int64_t count;
} cst_kernel_points;

/* exp(-|a_i - b_j|^2 / (2 sigma^2)) of rows a with rows b, into out [a.count][b.count]. */
cst_status cst_kernel_tile(cst_context *context, const cst_kernels *kernels, int32_t member,
                           cst_kernel_points a, cst_kernel_points b, double *out);

#endif
