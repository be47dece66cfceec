/* The public functions for pools of regressions. docs/regression.md. */
#ifndef CST_REGRESSION_H
#define CST_REGRESSION_H

#include "fit/task.h"
#include "model/stack.h"

extern const cst_task_ops cst_regression_ops;

/* Shapes an empty model: one linear function of `columns` columns for each output. */
cst_status cst_value_model(cst_context *context, int32_t outputs, int32_t members, int32_t columns,
                           cst_model *model);
/* Names and settings of a model, with the bits of the targets as the print of what it was fitted
 * on. kept: [members of the model]; method: NULL, the preset of the options. */
cst_status cst_value_label(cst_context *context, const cst_pool *pool, const char *split,
                           const cst_training *source, const cst_options *options,
                           const char *method, const int32_t *kept, cst_model *model);

#endif
