/*
 * A label map of unknown size: its size, room for it, its labels. Used by tests and fuzz targets.
 */
#ifndef PNG_LABELS_H
#define PNG_LABELS_H

#include "data/readers/cases.h"

/* *out is the caller's (cst_free), NULL after an error. */
static inline cst_status png_labels(cst_context *context, const char *path, int32_t **out,
                                    int64_t *height, int64_t *width) {
    *out = NULL;
    cst_status status = cst_png_size(context, path, 0, height, width);
    if (status != CST_OK)
        return status;
    *out = cst_alloc(context, (size_t)*height, (size_t)*width * sizeof **out);
    status = *out ? cst_png_read_into(context, path, 0, *height, *width, *out) : CST_ERROR_MEMORY;
    if (status != CST_OK) {
        cst_free(context, *out);
        *out = NULL;
    }
    return status;
}

#endif
