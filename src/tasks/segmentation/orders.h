/*
 * Labels of sampled pixels as they would be if the maps of a member were turned or flipped, or of
 * the next case: for the checks before a fit.
 */
#ifndef CST_SEGMENTATION_ORDERS_H
#define CST_SEGMENTATION_ORDERS_H

#include "data/pool/spatial.h"
#include "fit/training.h"
#include "tasks/segmentation/sample.h"

enum { CST_MAP_ORDERS = 7 };

typedef struct cst_map_orders {
    cst_check_order_of list[CST_MAP_ORDERS];
    cst_training_hints hints; /* with these orders, for a split of that name */
} cst_map_orders;

/* labels: of all rows of the split, with `classes` classes; others do not count. split: borrowed.
 */
cst_status cst_map_orders_make(cst_context *context, cst_scope *scope, const char *split,
                               const cst_cases *cases, const int32_t *labels, int32_t classes,
                               const cst_pixel_sample *sample, cst_map_orders *out);

#endif
