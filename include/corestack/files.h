/*
 * Reading and writing the vectors and matrices that stand around a pool: labels, groups, folds and
 * predictions. Read from npy, npz ("a.npz#name"), safetensors ("a.safetensors#name") or CSV,
 * written as npy (predictions as CSV too).
 */
#ifndef CORESTACK_FILES_H
#define CORESTACK_FILES_H

#include <corestack/context.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Labels [rows], integers from 0 on ([rows] or [rows, 1] in the file; floats where integral; text
 * is numbered by first appearance). CST_ERROR_INPUT with the row for one that is negative or beyond
 * int32. *out is the caller's, freed with cst_free. */
CST_API cst_status cst_read_labels(cst_context *context, const char *path, int32_t **out,
                                   int64_t *rows);

/* Targets of a regression [rows][outputs], finite numbers ([rows] or [rows, outputs] in the file; a
 * column of ids in a table is left out). CST_ERROR_INPUT with the row for one that is not. *out is
 * the caller's, freed with cst_free. */
CST_API cst_status cst_read_targets(cst_context *context, const char *path, double **out,
                                    int64_t *rows, int32_t *outputs);

/* Group ids [rows], any integers or text. *out is the caller's. */
CST_API cst_status cst_read_groups(cst_context *context, const char *path, int64_t **out,
                                   int64_t *rows);

/* Probabilities [rows][classes] as a float32 npy file; a single column (values of a regression) as
 * a vector [rows]. Nothing appears at `path` unless all of it
 * was written. */
CST_API cst_status cst_write_predictions(cst_context *context, const char *path,
                                         const float *probabilities, int64_t rows, int32_t classes);

/* The same for a split with conditions: probabilities [conditions][rows][classes], an array of
 * three axes in the file. */
CST_API cst_status cst_write_predictions_conditions(cst_context *context, const char *path,
                                                    const float *probabilities, int32_t conditions,
                                                    int64_t rows, int32_t classes);

/* As cst_write_predictions, but as CSV: a header, then one line a row. ids: [rows], the column
 * "id", or NULL for none. class_names: [classes], or NULL for the numbers 0, 1, ...; where one of
 * them is a number and there are no ids, "class_" stands before each, so that the header reads as
 * one. */
CST_API cst_status cst_write_predictions_csv(cst_context *context, const char *path,
                                             const float *probabilities, int64_t rows,
                                             int32_t classes, const char *const *ids,
                                             const char *const *class_names);

/* A fold vector [rows] as an int32 npy file, written whole or not at all. */
CST_API cst_status cst_write_folds(cst_context *context, const char *path, const int32_t *folds,
                                   int64_t rows);

/* Whether a path means an open descriptor (/dev/stdout, /dev/fd/N, /proc/self/fd/N, links to
 * these): 1 or 0. Writers write to it at its own offset; a caller must not rename a file over it.
 */
CST_API int cst_path_is_descriptor(const char *path);

#ifdef __cplusplus
}
#endif
#endif
