/*
 * Drop and refit: a kept member goes where the stack without it loses less than a standard error.
 * After stage S4 of a regression. docs/method.md#s4-blend.
 */
#ifndef CST_REGRESSION_DROP_H
#define CST_REGRESSION_DROP_H

#include "tasks/regression/stages.h"

/* Leaves out each kept member of `stages` alone, then tries to drop those that are missed by less
 * than a standard error one after the other, least missed first, each on what is left by then; with
 * many members in groups (fit/removal.h). kept, because, refit_change and fit are those of
 * what is left. */
cst_status cst_value_drop(cst_context *context, const cst_view *view, const cst_scaling *scaling,
                          const int32_t *folds, int32_t fold_count, const cst_settings *settings,
                          cst_value_stages *stages);

#endif
