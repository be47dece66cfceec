/* Reading and writing the vectors and matrices that stand around a pool: labels, groups, folds and
 * predictions. Read from npy, npz ("a.npz#name"), safetensors ("a.safetensors#name") or CSV,
 * written as npy (predictions as CSV too). */
#ifndef CORESTACK_FILES_H
#define CORESTACK_FILES_H

#include <corestack/context.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Reads labels [rows], integers starting at 0, from a file of shape [rows] or [rows, 1]. Floats
 * must be integral; strings are numbered by first appearance. CST_ERROR_INPUT, with the row, for a
 * label that is negative or exceeds int32. *out belongs to the caller (cst_free). */
CST_API cst_status cst_read_labels(cst_context *context, const char *path, int32_t **out,
                                   int64_t *rows);

/* Reads regression targets [rows][outputs] from a file of shape [rows] or [rows, outputs]; a column
 * of ids in a table is skipped. CST_ERROR_INPUT, with the row, for a target that is not finite.
 * *out belongs to the caller (cst_free). */
CST_API cst_status cst_read_targets(cst_context *context, const char *path, double **out,
                                    int64_t *rows, int32_t *outputs);

/* Reads group ids [rows], any integers or strings. *out belongs to the caller (cst_free). */
CST_API cst_status cst_read_groups(cst_context *context, const char *path, int64_t **out,
                                   int64_t *rows);

/* Reads times [rows], numbers or dates as text, as whole numbers in their order. *out belongs to
 * the caller (cst_free). */
CST_API cst_status cst_read_order(cst_context *context, const char *path, int64_t **out,
                                  int64_t *rows);

/* Writes probabilities [rows][classes] as a float32 npy file; a single column (regression values)
 * is written as a vector [rows]. The file is written completely, or `path` is unchanged. */
CST_API cst_status cst_write_predictions(cst_context *context, const char *path,
                                         const float *probabilities, int64_t rows, int64_t classes);

/* Writes the probabilities of a split with conditions, [conditions][rows][classes], as a float32
 * npy file with three axes. The file is written completely, or `path` is unchanged. */
CST_API cst_status cst_write_predictions_conditions(cst_context *context, const char *path,
                                                    const float *probabilities, int64_t conditions,
                                                    int64_t rows, int64_t classes);

/* Writes probabilities [rows][classes] as CSV: a header, then one line per row. ids: [rows],
 * written as column "id", or NULL. class_names: [classes], or NULL for the numbers 0, 1, ... If a
 * class name is a number and there are no ids, every name gets the prefix "class_", so that the
 * first line is recognised as a header. The file is written completely, or `path` is unchanged. */
CST_API cst_status cst_write_predictions_csv(cst_context *context, const char *path,
                                             const float *probabilities, int64_t rows,
                                             int64_t classes, const char *const *ids,
                                             const char *const *class_names);

/* Writes classes that were decided for, [rows] of 0..classes-1: as CSV (a path that ends so) with a
 * column "label" of names, or numbers without names, and ids as above; else as an int32 npy vector.
 * The file is written completely, or `path` is unchanged. */
CST_API cst_status cst_write_labels(cst_context *context, const char *path, const int32_t *labels,
                                    int64_t rows, int64_t classes, const char *const *ids,
                                    const char *const *class_names);

/* Writes predictions [rows][classes] in the form of a sample submission: `sample` is a table with a
 * header, of which the result at `path` (CSV) has the columns, and the rows by id in their order.
 * Columns are classes (for regression outputs) by name; a single column is the probability of the
 * class of its name, or of the second of two classes, or the most probable class where the sample
 * has labels. column: the only column to fill, the others are copied; NULL: all but the ids.
 * values: non-zero for a regression. ids: [rows], or NULL: rows are taken by position. class_names:
 * [classes], or NULL. CST_ERROR_MISMATCH names an id that only one of them has, or a column that is
 * no class. *said (may be NULL): a sentence on what the columns are; it belongs to the caller. */
CST_API cst_status cst_write_predictions_like(cst_context *context, const char *path,
                                              const char *sample, const char *column, int values,
                                              const float *predictions, int64_t rows,
                                              int64_t classes, const char *const *ids,
                                              const char *const *class_names, char **said);

/* Writes a fold vector [rows] as an int32 npy file. The file is written completely, or `path` is
 * unchanged. */
CST_API cst_status cst_write_folds(cst_context *context, const char *path, const int32_t *folds,
                                   int64_t rows);

/* Holds what will be written to `path` next: when it is finished, the file, or folder of files,
 * keeps a temporary name beside it (PATH.tmp.<process>.<attempt>) until cst_release_files. For
 * programs that write several files, all or none. *prefix (may be NULL): what temporary names begin
 * with; it belongs to the caller (cst_free). */
CST_API cst_status cst_hold_file(cst_context *context, const char *path, char **prefix);

/* Gives the held files their names, new ones before those that replace a file; nothing is held any
 * more. If one cannot get its name, it and those after it are removed, and those before it that
 * replaced nothing. */
CST_API cst_status cst_release_files(cst_context *context);

/* Removes what is held, as freeing the context does. */
CST_API void cst_drop_files(cst_context *context);

/* What keeps other programs away from a file between reading and replacing it. */
typedef struct cst_lock cst_lock;

/* Waits until no other program has the lock of `path`, and takes it: a lock (flock) on the file, or
 * on its folder where there is none yet, which ends with the process at the latest. Take it before
 * the state of a monitor or an adapter is loaded, and give it back when the new one is saved: of
 * two programs that load the same state, the one that saves last undoes the other. Where the file
 * system has no locks there is a notice. CST_ERROR_CANCELLED as from any call. */
CST_API cst_status cst_lock_file(cst_context *context, cst_lock **lock, const char *path);

/* Gives a lock back, and frees it; NULL is accepted. */
CST_API void cst_unlock_file(cst_context *context, cst_lock *lock);

/* Returns 1 if a path refers to an open descriptor (/dev/stdout, /dev/fd/N, /proc/self/fd/N, or a
 * link to one of these), else 0. Writers write to such a path at its current offset; a caller must
 * not rename a file over it. */
CST_API int cst_path_is_descriptor(const char *path);

#ifdef __cplusplus
}
#endif
#endif
