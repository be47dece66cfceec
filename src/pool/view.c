/*
 * Views: rows and members of a split, contiguous by block.
 */
#include "pool/view.h"

#include <string.h>

const float *cst_view_rows(const cst_view *view, int32_t member, int64_t first, int64_t count,
                           float *scratch) {
    const float *data = view->data[member];
    size_t width = (size_t)view->classes;
    if (!view->index)
        return data + (size_t)first * width;
    const int64_t *index = view->index + first;
    if (count > 0 && index[count - 1] - index[0] == count - 1) {
        bool together = true;
        for (int64_t i = 1; i < count && together; i++)
            together = index[i] == index[0] + i;
        if (together)
            return data + (size_t)index[0] * width;
    }
    for (int64_t i = 0; i < count; i++)
        memcpy(scratch + (size_t)i * width, data + (size_t)index[i] * width,
               width * sizeof *scratch);
    return scratch;
}

cst_view cst_view_members(const cst_view *view, const int32_t *members, int32_t count,
                          const float **pointers) {
    cst_view part = *view;
    for (int32_t k = 0; k < count; k++)
        pointers[k] = view->data[members[k]];
    part.members = count;
    part.data = pointers;
    return part;
}

void cst_view_split(const cst_view *view, const int32_t *folds, int32_t fold, int64_t *index,
                    cst_view *in, cst_view *out) {
    int64_t inside = 0;
    for (int64_t i = 0; i < view->rows; i++)
        inside += folds[i] != fold;
    int64_t *kept = index;
    int64_t *held = index + inside;
    for (int64_t i = 0; i < view->rows; i++) {
        int64_t row = view->index ? view->index[i] : i;
        if (folds[i] != fold)
            *kept++ = row;
        else
            *held++ = row;
    }
    *in = *view;
    in->rows = inside;
    in->index = index;
    *out = *view;
    out->rows = view->rows - inside;
    out->index = index + inside;
}
