/*
 * The rows of a split that an adaptation reads: the stack's members first, then every other member
 * of the pool that predicted them; and what it is fitted to: for each row and class the logarithms
 * of the stack's and of every member's probability. Before the fit. docs/json.md#adapt.
 */
#ifndef CST_ADAPT_ROWS_H
#define CST_ADAPT_ROWS_H

#include "model/stack.h"

typedef struct cst_adapt_rows {
    cst_view view;         /* [members], labels where `labelled` */
    int32_t *position;     /* [members]: of each member in the pool */
    const int64_t *groups; /* [rows] or NULL */
    const int64_t *rows;   /* of the split, where some were left out; else NULL */
} cst_adapt_rows;

/* rows [count] of the split (NULL: all), and their labels (NULL: the split's). labelled: labels are
 * needed, and rows of weight 0 are left out. */
cst_status cst_adapt_rows_open(cst_context *context, cst_scope *scope, const cst_model *model,
                               cst_pool *pool, const char *split, const int64_t *rows,
                               const int32_t *labels, int64_t count, bool labelled,
                               cst_adapt_rows *out);

/* Mixed into every member, so that a probability near 0 costs a bounded amount under shift. */
#define CST_ADAPT_MIX 1e-3

typedef struct cst_adapt_table {
    int64_t rows;
    int32_t classes;
    int32_t columns; /* the stack, and after it every member of the view */
    float *x;        /* [rows][classes][columns] */
    int32_t *labels; /* [rows]; 0 where the view has none */
    double *weights; /* [rows], of mean 1 */
} cst_adapt_table;

/* Of a view whose first members are the model's; `model` is not adapted. */
cst_status cst_adapt_table_make(cst_context *context, cst_scope *scope, const cst_model *model,
                                const cst_view *view, cst_adapt_table *out);

#endif
