/*
 * Folders with one file for each case (an image or a volume), and label masks whatever file they
 * are in. Under the splits of a segmentation pool. docs/segmentation.md#files.
 */
#ifndef CST_IO_CASES_H
#define CST_IO_CASES_H

#include "data/readers/npy.h"

bool cst_is_folder(const char *path);
bool cst_is_png(const char *path); /* by its name */

/* The files of a folder whose extension is asked for, by case, in the order of the names. */
typedef struct cst_case_files {
    int64_t count;
    cst_strings *names; /* without extension */
    char **paths;
} cst_case_files;

/* extensions: NULL-terminated, with their dots. Other files are left alone. CST_ERROR_INPUT for a
 * folder without any, and for a case that has two. Clear it also after a failure. */
cst_status cst_case_files_list(cst_context *context, const char *folder,
                               const char *const *extensions, cst_case_files *out);
void cst_case_files_clear(cst_context *context, cst_case_files *files);

/* Depth (1 for an image), height and width of a mask: a PNG, or an npy or npz of [height, width] or
 * [depth, height, width]. *axes: 2 or 3. */
cst_status cst_mask_shape(cst_context *context, const char *path, uint64_t zip_limit,
                          int64_t shape[3], int *axes);

/* Reads a mask of that shape, as cst_mask_shape gave it; `out` [pixels]. CST_ERROR_IO where the
 * file has another one by now. */
cst_status cst_mask_read(cst_context *context, const char *path, uint64_t zip_limit,
                         const int64_t shape[3], int32_t *out);

/* Every element of an open array, as whole numbers; `out` has as many. CST_ERROR_INPUT for one that
 * is not a whole number or beyond 32 bits. */
cst_status cst_npy_read_all_i32(cst_context *context, cst_npy *npy, int32_t *out);

#endif
