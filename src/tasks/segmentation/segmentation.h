/* The table of segmentation and its public functions. Paper: section "Dense Prediction". */
#ifndef CST_SEGMENTATION_H
#define CST_SEGMENTATION_H

#include "fit/task.h"

extern const cst_task_ops cst_segmentation_ops;
extern const cst_profile_ops cst_profile_maps;

cst_status cst_segmentation_fit(cst_context *context, cst_pool *pool, const char *split,
                                const cst_options *options, cst_model **model, cst_report **report);
/* A model fitted on a sample of the pixels becomes one of the split itself. */
cst_status cst_map_relabel(cst_context *context, cst_pool *pool, const char *split,
                           const cst_options *options, cst_model *model);
cst_status cst_segmentation_inspect(cst_context *context, cst_pool *pool, const char *split,
                                    const cst_options *options, cst_report **report);

#endif
