/* A pool: the saved predictions of K models on one or more splits of the same task, joined by
 * sample id and checked. Paper: section "Preliminaries and Pipeline Overview". */
#ifndef CORESTACK_POOL_H
#define CORESTACK_POOL_H

#include <corestack/context.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Returns "classification", "regression", "segmentation", "detection", "multilabel" or "topk"; NULL
 * for any other value. Static. */
CST_API const char *cst_task_name(cst_task task);

/* Returns path `index` of the files that the pool names, over all splits: labels, annotations, ids,
 * folds, groups, weights and predictions, then training counts; NULL beyond. An array of an archive
 * is "a.npz#name", likewise a tensor; a folder of cases is the folder. Of files in parts, every
 * part is listed. The manifest is not included. Borrowed. */
CST_API const char *cst_pool_file(const cst_pool *pool, size_t index);

/* Returns 1 if a file of this name (without a path), placed in the folder that the pool was opened
 * from, would become part of the pool the next time, else 0. This is only possible in folders
 * without a manifest; it is 0 for pools from a manifest, from listed files or from arrays, and for
 * "pool.json" itself. For programs that write next to their inputs. */
CST_API int cst_pool_takes_name(const cst_pool *pool, const char *name);

/* Returns the task of the pool. */
CST_API cst_task cst_pool_task(const cst_pool *pool);

/* Returns the number of members. */
CST_API int64_t cst_pool_members(const cst_pool *pool);

/* Returns the position of a member by name, or -1. */
CST_API int32_t cst_pool_member_index(const cst_pool *pool, const char *name);

/* Returns the number of classes; for regression, of outputs. For programs that read a pool. */
CST_API int64_t cst_pool_classes(const cst_pool *pool);

/* Returns the name of class (or output) `c`, or NULL if the pool has no names. Borrowed. */
CST_API const char *cst_pool_class_name(const cst_pool *pool, int32_t c);

/* Returns the name of member `member`; NULL beyond the last. Borrowed. */
CST_API const char *cst_pool_member_name(const cst_pool *pool, int32_t member);

/* Returns the number of splits. */
CST_API int64_t cst_pool_splits(const cst_pool *pool);

/* Returns the name of split `index`; NULL beyond the last. Borrowed. */
CST_API const char *cst_pool_split_name(const cst_pool *pool, int32_t index);

/* Returns non-zero if the pool names a file (or holds data) of this member for the split. */
CST_API int cst_pool_member_has_split(const cst_pool *pool, int32_t member, const char *split);

/* Returns the number of conditions (corruptions) of a split; 0 if it has none. */
CST_API int64_t cst_pool_conditions(const cst_pool *pool, const char *split);

/* Returns non-zero if the predictions of a loaded split are a single column, the probability of
 * class 1 of two. */
CST_API int cst_pool_single(const cst_pool *pool, const char *split);

/* Returns the split with the same samples without conditions, for comparison with a split with
 * conditions, as given in the manifest; NULL if not given. Borrowed. */
CST_API const char *cst_pool_clean_split(const cst_pool *pool, const char *split);

/* Returns non-zero if the pool has a split of this name. */
CST_API int cst_pool_has_split(const cst_pool *pool, const char *split);

/* Returns the number of rows of a loaded split (per condition, if it has conditions); -1 if it is
 * not loaded. For programs that read a pool. */
CST_API int64_t cst_pool_rows(const cst_pool *pool, const char *split);

/* Returns the labels [rows] of a loaded split; NULL if not loaded or not given. Borrowed. */
CST_API const int32_t *cst_pool_labels(const cst_pool *pool, const char *split);

/* Returns the targets [rows][outputs] of a loaded regression split (repeated for each
 * condition, if it has conditions); NULL if not loaded or not given. Borrowed. For programs that
 * read a pool. */
CST_API const double *cst_pool_targets(const cst_pool *pool, const char *split);

/* Returns the sample id of a row of a loaded split, integers in decimal; NULL if there are no ids.
 * Borrowed. */
CST_API const char *cst_pool_id(const cst_pool *pool, const char *split, int64_t row);

/* Returns the float32 probabilities of a member on a loaded split, [rows][classes], or
 * [conditions][rows][classes]; NULL if not loaded, or if they stay on disk because they exceed
 * their share of the memory limit (cst_context_set_memory). Borrowed. For programs that read a
 * pool. */
CST_API const float *cst_pool_predictions(const cst_pool *pool, const char *split, int32_t member);

/* Copies rows first..first+count-1 of a member's predictions, in memory or on disk, to out
 * [count][classes]. With conditions, rows are numbered through all conditions: those of condition 0
 * first, then those of 1, ...
 *
 * In a pool opened with `missing`, a row of a member may be NaN in every column, and a file with
 * ids may lack some of them; in a prediction, members may lack their file for the split. An absent
 * row reads as what the other members suggest: a regression of the member's log-probabilities
 * (values for a regression) on theirs, computed without labels. Fits use these rows; rows that no
 * member predicted, and rows with a negative fold, are left out of fits and evaluations.
 * Predictions use the members that are present on a row, as cst_predictor_predict_present does.
 * Rows may be absent in classification and regression, files in every task. */
CST_API cst_status cst_pool_read(cst_context *context, const cst_pool *pool, const char *split,
                                 int32_t member, int64_t first, int64_t count, float *out);

#ifdef __cplusplus
}
#endif
#endif
