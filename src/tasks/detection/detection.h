/* The table of detection and its public functions. docs/detection.md#the-stack. */
#ifndef CST_DETECTION_H
#define CST_DETECTION_H

#include "fit/task.h"
#include "model/stack.h"
#include "tasks/detection/methods.h"

extern const cst_task_ops cst_detection_ops;
extern const cst_profile_ops cst_profile_boxes;

cst_status cst_detection_fit(cst_context *context, cst_pool *pool, const char *split,
                             const cst_options *options, cst_model **model, cst_report **report);
/* Names, settings and fusion of a model of clusters. fusion: [categories][members] weights of
 * boxes, or NULL: alike; kept: [members of the model]; method: NULL, the preset of the options. */
cst_status cst_detect_label(cst_context *context, const cst_pool *pool, const char *split,
                            const cst_box_split *files, const cst_box_training *training,
                            const cst_options *options, const char *method, const double *fusion,
                            const int32_t *kept, cst_model *model);
cst_status cst_detection_inspect(cst_context *context, cst_pool *pool, const char *split,
                                 const cst_options *options, cst_report **report);

/* A model's boxes for a split; labelled: annotations are needed. *split_out: the caller's. */
cst_status cst_detection_predict(cst_context *context, const cst_model *model, const cst_pool *pool,
                                 const char *split, bool labelled, cst_box_split *split_out,
                                 cst_coco_boxes **out);

/* The same in two steps: files of the split, with the places of the model's members in the pool,
 * [model->members]; and the boxes made of them. */
cst_status cst_detection_open(cst_context *context, const cst_model *model, const cst_pool *pool,
                              const char *split, bool labelled, int32_t *positions,
                              cst_box_split *out);
cst_status cst_detection_fuse(cst_context *context, const cst_model *model,
                              const cst_box_split *split, const int32_t *positions,
                              cst_coco_boxes **out);

/* Categories of true boxes, [count] in the file's order. */
cst_status cst_detection_labels(cst_context *context, cst_scope *scope, const cst_coco *coco,
                                int32_t **out);

#endif
