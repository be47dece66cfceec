/* What a model says about itself, for the public function. After a fit. */
#ifndef CST_EVALUATION_SHOW_H
#define CST_EVALUATION_SHOW_H

#include "fit/harness.h"

/* ops: of the pool's task; pool: NULL, or one that may be the model's; split: NULL for that of the
 * fit. */
cst_status cst_run_show(cst_context *context, const cst_task_ops *ops, const cst_model *model,
                        cst_pool *pool, const char *split, cst_report **report);

#endif
