/*
 * Pixels near a change of label. Under the boundary scores of segmentation. docs/segmentation.md,
 * "Scores"; Boundary IoU is that of Cheng et al., CVPR 2021.
 */
#ifndef CST_SEGMENTATION_BOUNDARY_H
#define CST_SEGMENTATION_BOUNDARY_H

#include "core/scope.h"

/* Which pixels count as another label. */
typedef enum cst_near_rule {
    CST_NEAR_LABELS = 0, /* other labels only: neither -1 nor the edge of the image */
    CST_NEAR_CONTOUR = 1 /* -1 and what is outside the image as well */
} cst_near_rule;

/* A map that is read row by row. A row is known `distance` rows after it was read, so that no more
 * than some numbers for each column are in memory. */
typedef struct cst_near {
    int64_t height, width, distance;
    bool contour;
    int32_t *windows; /* [width]: what the windows over the last row hold */
    int32_t *label;   /* [width]: the only label of the window that was read last */
    int64_t *last;    /* [width]: its row; -1: none yet */
    int64_t *change;  /* [width]: the last row at which the label changes, or that mixes several */
} cst_near;

cst_status cst_near_begin(cst_context *context, cst_scope *scope, cst_near *near, int64_t height,
                          int64_t width, int64_t distance, cst_near_rule rule);

/* Reads row `y` (0, 1, ...) of the map: labels are -1 (none) or more. */
void cst_near_enter(cst_near *near, int64_t y, const int32_t *row);

/* out[x] = 1 where another label lies within `distance` pixels (in the larger of |dx|, |dy|) of
 * pixel x of row `y`. The rows up to `y` + distance, or the map's last, were read and none after.
 */
void cst_near_leave(const cst_near *near, int64_t y, unsigned char *out);

/* The distance meant by the setting `boundary`: pixels where it is at least 1, else a share of the
 * image's diagonal, rounded, at least 1. */
int64_t cst_boundary_distance(double boundary, int64_t height, int64_t width);

#endif
