/*
 * The guard of a segmentation: what a fit stores about its cases, and which cases of a split look
 * unlike them. A case (an image or a volume) is a batch. docs/segmentation.md#guard.
 */
#ifndef CST_SEGMENTATION_REFERENCE_H
#define CST_SEGMENTATION_REFERENCE_H

#include "model/stack.h"
#include "pool/spatial.h"

/* Stores the cases of the split that a model was fitted on; nothing where there are few of them, or
 * where the model has no reference of pixels. */
cst_status cst_map_reference(cst_context *context, cst_pool *pool, const char *split,
                             cst_model *model);

/* The levels [cases] of the cases of a view of the members of a model with such a reference. */
cst_status cst_map_levels(cst_context *context, const cst_model *model, const cst_view *view,
                          const cst_cases *cases, double *level);

#endif
