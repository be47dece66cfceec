/* Other orders of the pixels of maps. See the header. */
#include "tasks/segmentation/orders.h"

static const char *const WORDS[CST_MAP_ORDERS] = {"transposed (height and width exchanged)",
                                                  "upside down",
                                                  "flipped left to right",
                                                  "turned by 180 degrees",
                                                  "read column by column instead of row by row",
                                                  "those of the next case",
                                                  "those of the case before"};

/* The row of the split that pixel (z, y, x) of case `at` is in another order; -1: there is none. */
static int64_t other_pixel(const cst_cases *cases, int64_t at, int order, int64_t z, int64_t y,
                           int64_t x) {
    const int64_t *shape = cases->shape[at];
    int64_t height = shape[1];
    int64_t width = shape[2];
    int64_t plane = height * width;
    int64_t first = cases->first[at] + z * plane;
    int64_t in_plane = y * width + x;
    switch (order) {
    case 0:
        return height == width ? first + x * width + y : -1;
    case 1:
        return first + (height - 1 - y) * width + x;
    case 2:
        return first + y * width + (width - 1 - x);
    case 3:
        return first + plane - 1 - in_plane;
    case 4:
        return height == width ? -1 : first + in_plane % height * width + in_plane / height;
    default:
        break;
    }
    int64_t other = order == 5 ? at - 1 : at + 1;
    if (other < 0 || other >= cases->count || cases->shape[other][0] != shape[0] ||
        cases->shape[other][1] != height || cases->shape[other][2] != width)
        return -1;
    return cases->first[other] + z * plane + in_plane;
}

cst_status cst_map_orders_make(cst_context *context, cst_scope *scope, const char *split,
                               const cst_cases *cases, const int32_t *labels, int32_t classes,
                               const cst_pixel_sample *sample, cst_map_orders *out) {
    size_t pixels = (size_t)sample->rows;
    int32_t *turned; /* [CST_MAP_ORDERS][pixels] */
    CST_TAKE(context, scope, turned, CST_MAP_ORDERS * pixels);
    int64_t at = 0;
    for (size_t i = 0; i < pixels; i++) {
        while (sample->index[i] >= cases->first[at + 1])
            at++;
        int64_t pixel = sample->index[i] - cases->first[at];
        int64_t plane = cases->shape[at][1] * cases->shape[at][2];
        int64_t width = cases->shape[at][2];
        for (int o = 0; o < CST_MAP_ORDERS; o++) {
            int64_t row =
                other_pixel(cases, at, o, pixel / plane, pixel % plane / width, pixel % width);
            int32_t label = row < 0 ? -1 : labels[row];
            turned[(size_t)o * pixels + i] = label < classes ? label : -1;
        }
    }
    for (int o = 0; o < CST_MAP_ORDERS; o++)
        out->list[o] =
            (cst_check_order_of){.words = WORDS[o], .labels = turned + (size_t)o * pixels};
    out->hints =
        (cst_training_hints){.split = split, .orders = out->list, .order_count = CST_MAP_ORDERS};
    return CST_OK;
}
