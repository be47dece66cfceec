/*
 * Moments of the design of a regression for each output: the one pass over rows that every linear
 * fit starts from. Between stages S2 and S3. docs/regression.md.
 */
#ifndef CST_REGRESSION_MOMENTS_H
#define CST_REGRESSION_MOMENTS_H

#include "fit/owned.h"
#include "method/linear/moments.h"
#include "model/values.h"

/* Block `index` of a view, read and with its design by the gate, until the scope ends. */
cst_status cst_value_block_open(cst_context *context, cst_scope *scope, const cst_view *view,
                                const cst_scaling *scaling, const cst_gate *gate, int64_t index,
                                cst_value_block *out);

/* One set of moments for each output: out [view->classes], arrays from the scope. */
cst_status cst_value_moments(cst_context *context, cst_scope *scope, const cst_view *view,
                             const cst_scaling *scaling, const cst_gate *gate, const int32_t *folds,
                             int32_t fold_count, cst_moments *out);

/* Those without a fold (negative: of all), of some of the columns; members NULL: of all. */
cst_status cst_value_moments_part(cst_context *context, cst_scope *scope,
                                  const cst_moments *moments, int32_t fold, const int32_t *members,
                                  int32_t count, cst_moments *out);

#endif
