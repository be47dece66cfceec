/* Folders with one file for each case, and label masks of any format.
 * docs/segmentation.md#files. */
#pragma once

#include "data/readers/npy.h"

bool cst_is_folder(const char *path);
bool cst_is_png(const char *path); /* by its name */

/* The files of a folder whose extension is asked for, by case, in the order of the names. */
typedef struct cst_case_files {
    int64_t count;
    cst_strings *names; /* without extension */
    char **paths;
} cst_case_files;

/* extensions: NULL-terminated, with dots. CST_ERROR_INPUT for a folder without any file, or two of
 * a case. Of the scope. */
cst_status cst_case_files_list(cst_context *context, cst_scope *scope, const char *folder,
                               const char *const *extensions, cst_case_files *out);

/* Depth (1 for an image), height and width of a mask: a PNG, or an npy or npz of [height, width] or
 * [depth, height, width]. *axes: 2 or 3. */
cst_status cst_mask_shape(cst_context *context, const char *path, uint64_t zip_limit,
                          int64_t shape[3], int *axes);

/* Reads a mask of cst_mask_shape's shape into out [pixels]; CST_ERROR_IO if it changed. */
cst_status cst_mask_read(cst_context *context, const char *path, uint64_t zip_limit,
                         const int64_t shape[3], int32_t *out);

/* Every element as a whole number; CST_ERROR_INPUT for others and beyond 32 bits. */
cst_status cst_npy_read_all_i32(cst_context *context, cst_npy *npy, int32_t *out);

/* ---- label maps as PNG, in png.c ---- */

/* Labels out [height][width] of a grey image (1 to 16 bits) or palette indices; CST_ERROR_IO for
 * another size, CST_ERROR_INPUT for colours. Path and zip_limit as of cst_bytes_open. */
cst_status cst_png_read_into(cst_context *context, const char *path, uint64_t zip_limit,
                             int64_t height, int64_t width, int32_t *out);

/* Its size alone, from the first bytes. */
cst_status cst_png_size(cst_context *context, const char *path, uint64_t zip_limit, int64_t *height,
                        int64_t *width);

/* Writes an image of 8 bits with a palette (red, green, blue of each label; NULL: PASCAL VOC's), or
 * a grey one of 16 `bits`, whole or not at all; labels must fit. */
cst_status cst_png_write_labels(cst_context *context, const char *path, const int32_t *labels,
                                int64_t height, int64_t width, int bits,
                                const unsigned char (*palette)[3]);
