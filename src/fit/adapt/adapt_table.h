/*
 * What an adaptation is fitted to: for each labelled row and class the logarithms of the stack's
 * and of every member's probability. Before the fit. docs/json.md#adapt.
 */
#ifndef CST_ADAPT_TABLE_H
#define CST_ADAPT_TABLE_H

#include "model/stack.h"

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

/* Of a view whose first members are the model's; `model` is not adapted. Free with
 * cst_adapt_table_free, also after a failure. */
cst_status cst_adapt_table_make(cst_context *context, const cst_model *model, const cst_view *view,
                                cst_adapt_table *out);
void cst_adapt_table_free(cst_context *context, cst_adapt_table *table);

#endif
