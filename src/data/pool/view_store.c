/*
 * A store over some rows of a view: those with a weight, or one part of a divided split.
 */
#include "data/pool/store.h"

#include <string.h>

/* What one member is read from. */
typedef struct around {
    const cst_view *view; /* with an index */
    int32_t member;
} around;

static cst_status read_around(cst_context *context, const void *source, int64_t first,
                              int64_t count, float *out) {
    const around *from = source;
    const float *rows = NULL;
    cst_status status = cst_view_rows(context, from->view, from->member, first, count, out, &rows);
    if (status == CST_OK && rows != out)
        memcpy(out, rows, (size_t)count * (size_t)from->view->classes * sizeof *out);
    return status;
}

static void close_around(cst_context *context, void *source) {
    cst_free(context, source);
}

cst_status cst_store_take_around(cst_context *context, cst_store *store, const cst_view *below,
                                 int32_t member) {
    around *source = cst_alloc(context, 1, sizeof *source);
    if (!source)
        return CST_ERROR_MEMORY;
    *source = (around){.view = below, .member = member};
    store->entries[member] =
        (cst_store_entry){.source = source, .read = read_around, .close = close_around};
    return CST_OK;
}
