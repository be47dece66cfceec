/*
 * Pixels near a change of label. Under the boundary scores of segmentation. docs/segmentation.md,
 * "Scores"; Boundary IoU is that of Cheng et al., CVPR 2021.
 */
#ifndef CST_SEGMENTATION_BOUNDARY_H
#define CST_SEGMENTATION_BOUNDARY_H

#include "base/base.h"

/* Which pixels count as another label. */
typedef enum cst_near_rule {
    CST_NEAR_LABELS = 0, /* other labels only: neither -1 nor the edge of the image */
    CST_NEAR_CONTOUR = 1 /* -1 and what is outside the image as well */
} cst_near_rule;

/* near[i] = 1 where another label lies within `distance` pixels (in the larger of |dx|, |dy|) of
 * pixel i. map, near: [height][width]; labels are -1 (none) or more. */
cst_status cst_near_change(cst_context *context, const int32_t *map, int64_t height, int64_t width,
                           int64_t distance, cst_near_rule rule, unsigned char *near);

/* The distance meant by the setting `boundary`: pixels where it is at least 1, else a share of the
 * image's diagonal, rounded, at least 1. */
int64_t cst_boundary_distance(double boundary, int64_t height, int64_t width);

#endif
