/*
 * The table of classification: rows are samples, and every call is there. Chosen by src/tasks.
 * Paper: section "Experimental Setup".
 */
#ifndef CST_CLASSIFICATION_H
#define CST_CLASSIFICATION_H

#include "fit/task.h"

extern const cst_task_ops cst_classification_ops;

cst_status cst_classification_evaluate_member(cst_context *context, const cst_task_ops *ops,
                                              const cst_pool *pool, const char *split,
                                              int32_t member, int32_t resamples, uint64_t seed,
                                              cst_report **report);

#endif
