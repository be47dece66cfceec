/*
 * Label maps as PNG, through libpng: grey or palette in, grey of 8 or 16 bits out. Masks of a
 * segmentation pool and what predict writes. docs/segmentation.md#files: a sample is a pixel.
 */
#ifndef CST_IO_PNG_H
#define CST_IO_PNG_H

#include "core/base.h"

/* Labels out [height][width] of a grey image (1 to 16 bits, not scaled) or the indices of a palette
 * image; CST_ERROR_IO if the image has another size, CST_ERROR_INPUT for other kinds (RGB, an alpha
 * channel), since a colour is no class. Path and zip_limit as of cst_bytes_open. */
cst_status cst_png_read_into(cst_context *context, const char *path, uint64_t zip_limit,
                             int64_t height, int64_t width, int32_t *out);

/* Its size alone, from the first bytes. */
cst_status cst_png_size(cst_context *context, const char *path, uint64_t zip_limit, int64_t *height,
                        int64_t *width);

/* A grey image of `bits` 8 or 16; labels [height][width] must fit. Through data/files/output.h: all
 * or nothing. */
cst_status cst_png_write_labels(cst_context *context, const char *path, const int32_t *labels,
                                int64_t height, int64_t width, int bits);

#endif
