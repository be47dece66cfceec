/*
 * Pixels near a change of label, by windows over rows and then over columns, whose time does not
 * depend on the distance. Under the boundary scores. docs/segmentation.md, "Scores".
 */
#include "tasks/segmentation/boundary.h"

#include <math.h>

enum { NOTHING = -1, MIXED = -2 };

int64_t cst_boundary_distance(double boundary, int64_t height, int64_t width) {
    double pixels =
        boundary >= 1 ? boundary : round(boundary * hypot((double)height, (double)width));
    return pixels < 1 ? 1 : (int64_t)pixels;
}

/* What a window over one row holds: its only label, NOTHING, or MIXED. A window mixes labels when
 * two that follow one another among those that count differ; `change` is the first of the last such
 * two. */
static void scan_row(const int32_t *map, int64_t width, int64_t distance, bool contour,
                     int32_t *out) {
    int64_t last = -1;
    int64_t change = -1;
    for (int64_t end = 0; end < width + distance; end++) {
        if (end < width && (contour || map[end] >= 0)) {
            if (last >= 0 && map[last] != map[end])
                change = last;
            last = end;
        }
        int64_t x = end - distance;
        if (x < 0)
            continue;
        int64_t begin = x - distance;
        bool outside = begin < 0 || end >= width;
        begin = begin < 0 ? 0 : begin;
        bool mixed = change >= begin || (contour && outside);
        out[x] = mixed ? MIXED : last >= begin ? map[last] : NOTHING;
    }
}

cst_status cst_near_begin(cst_context *context, cst_scope *scope, cst_near *near, int64_t height,
                          int64_t width, int64_t distance, cst_near_rule rule) {
    *near = (cst_near){.height = height,
                       .width = width,
                       .distance = distance,
                       .contour = rule == CST_NEAR_CONTOUR};
    CST_TAKE(context, scope, near->windows, 2 * width);
    CST_TAKE(context, scope, near->last, 2 * width);
    near->label = near->windows + width;
    near->change = near->last + width;
    for (int64_t x = 0; x < 2 * width; x++)
        near->last[x] = -1;
    return CST_OK;
}

void cst_near_enter(cst_near *near, int64_t y, const int32_t *row) {
    const int32_t *windows = near->windows;
    int32_t *label = near->label;
    int64_t *last = near->last;
    int64_t *change = near->change;
    scan_row(row, near->width, near->distance, near->contour, near->windows);
    for (int64_t x = 0; x < near->width; x++) {
        if (windows[x] == MIXED) {
            change[x] = y;
        } else if (near->contour || windows[x] >= 0) {
            if (last[x] >= 0 && label[x] != windows[x] && change[x] < last[x])
                change[x] = last[x];
            last[x] = y;
            label[x] = windows[x];
        }
    }
}

void cst_near_leave(const cst_near *near, int64_t y, unsigned char *out) {
    int64_t begin = y - near->distance;
    bool outside = near->contour && (begin < 0 || y + near->distance >= near->height);
    begin = begin < 0 ? 0 : begin;
    for (int64_t x = 0; x < near->width; x++)
        out[x] = outside || near->change[x] >= begin;
}
