/*
 * Rows of a regression in units of the targets: (value - location) / scale for each output, and the
 * meta-design on them. Under every pass over rows of this folder. docs/regression.md; method.md
 * sections 1 and 3.
 */
#ifndef CST_REGRESSION_BLOCK_H
#define CST_REGRESSION_BLOCK_H

#include "meta/moments.h"

/* Mean and standard deviation of the targets of the rows that are fitted on. In these units no
 * output dominates the others, and features that are products do not depend on where 0 is. */
typedef struct cst_scaling {
    int32_t outputs;
    double *location; /* [outputs] */
    double *scale;    /* [outputs], positive; 1 where all targets are equal */
} cst_scaling;

/* The view must have targets. Free with cst_scaling_free. */
cst_status cst_scaling_make(cst_context *context, const cst_view *view, cst_scaling *out);
void cst_scaling_free(cst_context *context, cst_scaling *scaling);

/* Some rows of a view and their design. One thread. */
typedef struct cst_value_block {
    const cst_view *view;
    const cst_scaling *scaling;
    int64_t first;
    int64_t count;
    const float **members; /* [K] rows as they are in the view, [count][outputs] */
    float *copies;         /* [K][CST_BLOCK_ROWS * outputs] where the view copies */
    float *scaled;         /* [K][CST_BLOCK_ROWS * outputs]: what the aggregators see */
    const float **inputs;  /* [K], into scaled */
    double *design;        /* [columns][count * outputs] */
    double *scratch;
    int64_t stride; /* count * outputs */
} cst_value_block;

/* gate: one with as many columns as any that is used later. Free it also after a failure. */
cst_status cst_value_block_make(cst_context *context, const cst_view *view,
                                const cst_scaling *scaling, const cst_gate *gate,
                                cst_value_block *out);
void cst_value_block_free(cst_context *context, cst_value_block *block);

/* Reads rows first..first+count-1, count <= CST_BLOCK_ROWS. */
cst_status cst_value_block_read(cst_context *context, cst_value_block *block, int64_t first,
                                int64_t count);
/* Fills the design of the rows read: column j of output d of row i is design[j * stride + i *
 * outputs + d]. Members in double precision, aggregators from them in single. */
void cst_value_block_design(cst_value_block *block, const cst_gate *gate);

/* Target of row `i` of the block, in units of the scaling. */
static inline double cst_value_block_target(const cst_value_block *block, int64_t i, int32_t d) {
    double y = cst_view_target(block->view, block->first + i)[d];
    return (y - block->scaling->location[d]) / block->scaling->scale[d];
}

/* Moments of the design of each output, in one pass: out [outputs], each zeroed first and freed
 * with cst_moments_free. Columns are not shifted. folds [view->rows] in 0..fold_count-1. */
cst_status cst_value_moments(cst_context *context, const cst_view *view, const cst_scaling *scaling,
                             const cst_gate *gate, const int32_t *folds, int32_t fold_count,
                             cst_moments *out);
void cst_value_moments_free(cst_context *context, cst_moments *moments, int32_t outputs);

/* The moments without fold `fold` (negative: with all), and of the columns `members` [count] alone
 * (NULL: all columns), which must be columns without a gate. */
cst_status cst_value_moments_part(cst_context *context, const cst_moments *moments, int32_t fold,
                                  const int32_t *members, int32_t count, cst_moments *out);

#endif
