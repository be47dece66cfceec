/*
 * Boxes put in the order that the evaluator and the clustering walk: by image, then category, then
 * as they stood in the file. After the readers of COCO files.
 */
#ifndef CST_IO_COCO_ORDER_H
#define CST_IO_COCO_ORDER_H

#include "core/base.h"

/* Sorts `records` ([count], of `size` bytes each) in place; image and category stand as int32_t at
 * the given offsets. *first ([images + 1], the caller's) gets where each image's records begin. */
cst_status cst_coco_order(cst_context *context, void *records, int64_t count, size_t size,
                          size_t image_at, size_t category_at, int32_t images, int32_t categories,
                          int64_t **first);

#endif
