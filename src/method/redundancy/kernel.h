/* The Gaussian kernel of each member. Paper: section "Empirical CKA". */
#ifndef CST_KERNEL_H
#define CST_KERNEL_H

#include "data/pool/view.h"

/* Most rows that a bandwidth is estimated from. */
enum { CST_BANDWIDTH_ROWS = 1000 };

/* One kernel per member of a view. `origin` is subtracted from rows before |a|^2 + |b|^2 - 2ab, so
 * that cancellation is relative to the spread of the rows. */
typedef struct cst_kernels {
    const cst_view *view; /* borrowed */
    double *sigma;        /* [K]; 0 for a constant member */
    bool *constant;       /* [K] */
    double *origin;       /* [K][C] */
} cst_kernels;

/* The scope owns its arrays. */
cst_status cst_kernels_create(cst_context *context, cst_scope *scope, const cst_view *view,
                              uint64_t seed, cst_kernels *out);

/* Draws `count` distinct rows of 0..rows-1, ascending. */
cst_status cst_sample_rows(cst_context *context, int64_t rows, int64_t count, uint64_t seed,
                           cst_stream stream, uint32_t substream, int64_t *sample);

/* Rows of a member less its origin ([count][C]) and their squared norms ([count]). The rows are
 * first..first+count-1, or, with `index` (ascending), those it names. scratch: C floats for
 * each of min(count, CST_BLOCK_ROWS) rows. */
cst_status cst_kernel_rows(cst_context *context, const cst_kernels *kernels, int32_t member,
                           const int64_t *index, int64_t first, int64_t count, float *scratch,
                           double *rows, double *norms);

typedef struct cst_kernel_points {
    const double *rows;  /* [count][C] */
    const double *norms; /* [count] */
    int64_t count;
} cst_kernel_points;

/* exp(-|a_i - b_j|^2 / (2 sigma^2)) of rows a with rows b, into out [a.count][b.count]. */
cst_status cst_kernel_tile(cst_context *context, const cst_kernels *kernels, int32_t member,
                           cst_kernel_points a, cst_kernel_points b, double *out);

#endif
