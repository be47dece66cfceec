/* Slabs of rows of all members, and rows picked out of them. */
#include "method/linear/slab.h"

#include <string.h>

/* Numbers of all members in a slab: 4 MiB of floats. */
static const int64_t SLAB_CELLS = 1 << 20;

/* Rows of a slab of this view: as many as fit the cache, 1..CST_BLOCK_ROWS. */
static int64_t slab_rows(const cst_view *view) {
    int64_t width = (int64_t)view->classes * view->members;
    int64_t rows = SLAB_CELLS / width;
    return rows < 1 ? 1 : rows > CST_BLOCK_ROWS ? CST_BLOCK_ROWS : rows;
}

cst_status cst_slab_open(cst_context *context, cst_scope *scope, const cst_view *view,
                         int64_t chunk, cst_slab *out) {
    *out = (cst_slab){.view = view, .capacity = slab_rows(view), .chunk = chunk};
    size_t cells = (size_t)view->members * (size_t)view->classes;
    size_t read = cst_view_copies(view) ? (size_t)out->capacity : 0;
    size_t picked = chunk > 1 ? (size_t)chunk : 0;
    if (!cst_size_mul(cells, read, &read) || !cst_size_mul(cells, picked, &picked))
        return cst_fail(context, CST_ERROR_LIMIT, "a row of %d members and %d classes is too large",
                        (int)view->members, (int)view->classes);
    CST_TAKE(context, scope, out->scratch, read);
    CST_TAKE(context, scope, out->gathered, picked);
    CST_TAKE(context, scope, out->rows, view->members);
    CST_TAKE(context, scope, out->members, view->members);
    return CST_OK;
}

cst_status cst_slab_read(cst_context *context, cst_slab *slab, int64_t first, int64_t count) {
    const cst_view *view = slab->view;
    size_t stride = cst_view_copies(view) ? (size_t)slab->capacity * (size_t)view->classes : 0;
    for (int32_t k = 0; k < view->members; k++)
        CST_TRY(cst_view_rows(context, view, k, first, count, slab->scratch + (size_t)k * stride,
                              &slab->rows[k]));
    return CST_OK;
}

void cst_slab_pick(cst_slab *slab, const int64_t *rows, int64_t count) {
    size_t width = (size_t)slab->view->classes;
    bool together = rows[count - 1] - rows[0] == count - 1;
    for (int32_t k = 0; k < slab->view->members; k++) {
        slab->members[k] = slab->rows[k] + (size_t)rows[0] * width;
        if (together)
            continue;
        float *to = slab->gathered + (size_t)k * (size_t)slab->chunk * width;
        for (int64_t i = 0; i < count; i++)
            memcpy(to + (size_t)i * width, slab->rows[k] + (size_t)rows[i] * width,
                   width * sizeof *to);
        slab->members[k] = to;
    }
}
