/*
 * What a fit stores about its out-of-fold rows for use on rows without labels. After stage S4.
 * docs/model-format.md.
 */
#ifndef CST_PIPELINE_REFERENCE_H
#define CST_PIPELINE_REFERENCE_H

#include "fit/training.h"
#include "model/stack.h"

/* Adds it to a model of a classification or segmentation; nothing to others. rows: a view of the
 * kept members on the rows of `source`. kept: [members of the model] in the pool. */
cst_status cst_fit_reference(cst_context *context, const cst_pool *pool, const cst_training *source,
                             const cst_view *rows, const int32_t *kept, cst_model *model);

#endif
