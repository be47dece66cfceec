/*
 * Pixels near a change of label, in two passes (rows, then columns) whose time does not depend on
 * the distance. Under the boundary scores. docs/segmentation.md, "Scores".
 */
#include "segmentation/boundary.h"

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

/* Row `end` of the windows over rows enters the windows over columns. */
static void enter_row(const int32_t *rows, int64_t end, int64_t width, bool contour, int64_t *last,
                      int64_t *change) {
    const int32_t *row = rows + end * width;
    for (int64_t x = 0; x < width; x++) {
        if (row[x] == MIXED) {
            change[x] = end;
        } else if (contour || row[x] >= 0) {
            if (last[x] >= 0 && rows[last[x] * width + x] != row[x] && change[x] < last[x])
                change[x] = last[x];
            last[x] = end;
        }
    }
}

cst_status cst_near_change(cst_context *context, const int32_t *map, int64_t height, int64_t width,
                           int64_t distance, cst_near_rule rule, unsigned char *near) {
    bool contour = rule == CST_NEAR_CONTOUR;
    int32_t *rows = cst_alloc(context, (size_t)height, (size_t)width * sizeof *rows);
    int64_t *last = cst_alloc(context, 2 * (size_t)width, sizeof *last);
    cst_status status = rows && last ? CST_OK : CST_ERROR_MEMORY;
    int64_t *change = status == CST_OK ? last + width : NULL;
    for (int64_t x = 0; status == CST_OK && x < 2 * width; x++)
        last[x] = -1;
    for (int64_t y = 0; status == CST_OK && y < height; y++)
        scan_row(map + y * width, width, distance, contour, rows + y * width);
    for (int64_t end = 0; status == CST_OK && end < height + distance; end++) {
        if (end < height)
            enter_row(rows, end, width, contour, last, change);
        int64_t y = end - distance;
        if (y < 0)
            continue;
        int64_t begin = y - distance;
        bool outside = contour && (begin < 0 || end >= height);
        begin = begin < 0 ? 0 : begin;
        for (int64_t x = 0; x < width; x++)
            near[y * width + x] = outside || change[x] >= begin;
    }
    cst_free(context, rows);
    cst_free(context, last);
    return status;
}
