/* Label maps as PNG: grey or palette in, grey of 8 or 16 bits out. docs/segmentation.md#files. */
#ifndef CST_IO_PNG_H
#define CST_IO_PNG_H

#include "core/base.h"

/* Labels out [height][width] of a grey image (1 to 16 bits) or palette indices; CST_ERROR_IO for
 * another size, CST_ERROR_INPUT for colours. Path and zip_limit as of cst_bytes_open. */
cst_status cst_png_read_into(cst_context *context, const char *path, uint64_t zip_limit,
                             int64_t height, int64_t width, int32_t *out);

/* Its size alone, from the first bytes. */
cst_status cst_png_size(cst_context *context, const char *path, uint64_t zip_limit, int64_t *height,
                        int64_t *width);

/* Writes a grey image of 8 or 16 `bits`, whole or not at all; labels must fit. */
cst_status cst_png_write_labels(cst_context *context, const char *path, const int32_t *labels,
                                int64_t height, int64_t width, int bits);

#endif
