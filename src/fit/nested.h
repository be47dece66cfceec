/*
 * Nested evaluation of any procedure: fitted on the rows outside each fold, applied to the rows in
 * it. Under every out-of-fold score. Paper: section "Leakage-free out-of-fold predictions".
 */
#ifndef CST_PIPELINE_NESTED_H
#define CST_PIPELINE_NESTED_H

#include "fit/training.h"

/* The rows of a training, divided by one fold. */
typedef struct cst_fold_rows {
    int32_t fold;
    cst_training inside; /* rows outside the fold, with folds of their own; the rest is borrowed */
    cst_view held;       /* rows in the fold */
    int64_t *index;
} cst_fold_rows;

/* seed: of folds inside where the others cannot be renumbered. Free with cst_fold_rows_free, also
 * after a failure. */
cst_status cst_fold_rows_make(cst_context *context, const cst_training *source, int32_t fold,
                              uint64_t seed, cst_fold_rows *out);
void cst_fold_rows_free(cst_context *context, cst_fold_rows *rows);

/* What a function writes for each held row of a fold. */
typedef struct cst_fold_result {
    float *rows; /* [rows of the source][width] */
    size_t width;
} cst_fold_result;

/* Calls `fn` for every fold, in parallel. results: [count], everything that `fn` writes, or none;
 * with them, each rank may run folds of its own. */
typedef cst_status (*cst_fold_fn)(cst_context *worker, void *user, const cst_fold_rows *rows);
cst_status cst_nested_run(cst_context *context, const cst_training *source, uint64_t seed,
                          cst_fold_fn fn, void *user, const cst_fold_result *results,
                          int32_t count);

/* Puts the rows of a fold, from [held rows][width], at their places in to [rows][width]. */
void cst_fold_scatter(const int32_t *folds, int64_t rows, int32_t fold, size_t width,
                      const float *from, float *to);

#endif
