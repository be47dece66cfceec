/*
 * What the public functions do for pools of task segmentation. Chosen by src/tasks. Paper: section
 * "Dense Prediction".
 */
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
/* One member. boundary: width of the band; 0: CST_SEGMENTATION_BOUNDARY. */
cst_status cst_segmentation_score_member(cst_context *context, const cst_task_ops *ops,
                                         const cst_pool *pool, const char *split, int32_t member,
                                         double boundary, int32_t resamples, uint64_t seed,
                                         cst_report **report);
/* Label maps [all rows of split "oof"] against the masks of a pool. */
cst_status cst_segmentation_score_labels(cst_context *context, const cst_task_ops *ops,
                                         const cst_pool *pool, const int32_t *predicted,
                                         double boundary, int32_t resamples, uint64_t seed,
                                         cst_report **report);

#endif
