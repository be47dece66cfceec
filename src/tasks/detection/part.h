/*
 * Some images of a detection split: the part that is fitted on, or the one that is held out.
 * Between the files and repeated comparisons. docs/detection.md.
 */
#ifndef CST_DETECTION_PART_H
#define CST_DETECTION_PART_H

#include "data/pool/division.h"
#include "tasks/detection/splits.h"

/* Leaves the images that split `split` of the divided pool has, with their boxes; nothing where the
 * pool or the split is not divided. */
cst_status cst_box_split_take_part(cst_context *context, const cst_pool *pool, int32_t split,
                                   cst_box_split *files);

#endif
