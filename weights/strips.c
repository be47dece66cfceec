/*
 * Tensors cut into strips, one task each. Before SWAG's statistics and samples are computed. Paper:
 * none.
 */
#include "weights/strips.h"

cst_status cst_strips_plan(cst_context *context, const int64_t *elements, int64_t tensors,
                           cst_strip **out, int64_t *count) {
    int64_t strips = 0;
    for (int64_t t = 0; t < tensors; t++)
        strips += elements[t] / CST_STRIP + (elements[t] % CST_STRIP != 0);
    *count = 0;
    *out = cst_alloc(context, (size_t)strips, sizeof **out);
    if (!*out)
        return CST_ERROR_MEMORY;
    for (int64_t t = 0; t < tensors; t++)
        for (int64_t first = 0; first < elements[t]; first += CST_STRIP) {
            int64_t left = elements[t] - first;
            (*out)[(*count)++] = (cst_strip){
                .tensor = t, .first = first, .count = left < CST_STRIP ? left : CST_STRIP};
        }
    return CST_OK;
}
