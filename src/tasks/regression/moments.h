/*
 * Moments of the design of a regression, one set for each output: what every linear fit of this
 * folder starts from. docs/regression.md; docs/method.md#s2-and-s3-gate-and-penalties.
 */
#ifndef CST_REGRESSION_MOMENTS_H
#define CST_REGRESSION_MOMENTS_H

#include "method/linear/moments.h"
#include "model/values.h"

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
