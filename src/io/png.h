/*
 * Label maps as PNG, through libpng: grey or palette in, grey of 8 or 16 bits out. Masks of a
 * segmentation pool and what predict writes. docs/segmentation.md#files: a sample is a pixel.
 */
#ifndef CST_IO_PNG_H
#define CST_IO_PNG_H

#include "base/base.h"

/* Labels [height][width] of a grey image (1 to 16 bits, not scaled) or the indices of a palette
 * image. Other kinds (RGB, an alpha channel) are CST_ERROR_INPUT, since a colour is no class.
 * *out is the caller's (cst_free). Path and zip_limit as of cst_bytes_open. */
cst_status cst_png_read_labels(cst_context *context, const char *path, uint64_t zip_limit,
                               int32_t **out, int64_t *height, int64_t *width);

/* The same into an array of [height][width] labels; CST_ERROR_IO if the image has another size. */
cst_status cst_png_read_into(cst_context *context, const char *path, uint64_t zip_limit,
                             int64_t height, int64_t width, int32_t *out);

/* Its size alone, from the first bytes. */
cst_status cst_png_size(cst_context *context, const char *path, uint64_t zip_limit, int64_t *height,
                        int64_t *width);

/* A grey image of `bits` 8 or 16; labels [height][width] must fit. Through io/output.h: all or
 * nothing. */
cst_status cst_png_write_labels(cst_context *context, const char *path, const int32_t *labels,
                                int64_t height, int64_t width, int bits);

#endif
