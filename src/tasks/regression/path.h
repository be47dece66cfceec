/*
 * Selection of members on held-out squared error in the space of the linear pool, the counterpart
 * of src/select for a regression: same rules, same options. Between S1 and S2. docs/regression.md.
 */
#ifndef CST_REGRESSION_PATH_H
#define CST_REGRESSION_PATH_H

#include "method/select/front.h"
#include "tasks/regression/linear_pool.h"

/* moments [outputs]: of the view's members without a gate, by the same folds (at least 2). The loss
 * is the squared error in units of the scaling, its mean over the outputs. Losses and their paired
 * errors take one pass over the rows. Of `pool`, center and sign of the weights are read; their
 * precision is that of `options`. front (NULL: not wanted): around it.
 * CST_ERROR_INPUT where no size satisfies the caps. */
cst_status cst_value_select(cst_context *context, const cst_view *view, const cst_scaling *scaling,
                            const cst_moments *moments, const int32_t *folds, int32_t fold_count,
                            const cst_select_options *options, const cst_linear_pool_options *pool,
                            cst_selection *out, cst_front *front);

#endif
