/*
 * The rows of a split that an adaptation reads: the stack's members first, then every other member
 * of the pool that predicted them. Before the fit.
 */
#ifndef CST_ADAPT_ROWS_H
#define CST_ADAPT_ROWS_H

#include "data/pool/subset.h"
#include "model/stack.h"

typedef struct cst_adapt_rows {
    cst_view view;         /* [members], labels where `labelled` */
    int32_t *position;     /* [members]: of each member in the pool */
    const int64_t *groups; /* [rows] or NULL */
    /* what the view is made of */
    cst_counted counted;
    const float **pointers;
    int32_t *labels;
    int64_t *index;
    int64_t *own_groups;
} cst_adapt_rows;

/* rows [count] of the split (NULL: all), and their labels (NULL: the split's). labelled: labels are
 * needed, and rows of weight 0 are left out. Free with cst_adapt_rows_close, also after a failure.
 */
cst_status cst_adapt_rows_open(cst_context *context, const cst_model *model, cst_pool *pool,
                               const char *split, const int64_t *rows, const int32_t *labels,
                               int64_t count, bool labelled, cst_adapt_rows *out);
void cst_adapt_rows_close(cst_context *context, cst_adapt_rows *rows);

#endif
