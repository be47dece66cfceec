/* From probabilities to label maps. docs/segmentation.md, "Label maps". */
#ifndef CST_SEGMENTATION_DECIDE_H
#define CST_SEGMENTATION_DECIDE_H

#include "model/stack.h"

/* The class of each row of probabilities [count][classes]: the largest log p_c + offsets[c], the
 * lowest of equal ones; offsets NULL: the largest p_c. */
void cst_decide_rows(const float *probabilities, int64_t count, int32_t classes,
                     const double *offsets, int32_t *out);

/* Offsets [classes] that raise the mIoU of probabilities [rows][classes] against labels [rows],
 * pixels weighed from class shares `prior` to `share`. Each in turn takes the best of a grid until
 * none changes; the largest class keeps 0. */
cst_status cst_offsets_choose(cst_context *context, const float *probabilities,
                              const int32_t *labels, int64_t rows, int32_t classes,
                              const double *prior, const double *share, double *out);

/* Offsets [classes] in a model, as its setting "segment.offsets". */
cst_status cst_offsets_store(cst_context *context, const double *offsets, cst_model *model);
/* *out: [classes], NULL where the model has none. CST_ERROR_FORMAT where they are not one finite
 * number for each class. */
cst_status cst_offsets_load(cst_context *context, cst_scope *scope, const cst_model *model,
                            double **out);

#endif
