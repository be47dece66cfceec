/*
 * Folds as the code sees them: the public makers and checks, and the count of a checked vector.
 * Stage S0; docs/method.md#s0-rows-folds-ids.
 */
#ifndef CST_POOL_FOLDS_H
#define CST_POOL_FOLDS_H

#include "data/pool/view.h"

#include <corestack/folds.h>

/* Number of folds of a vector that cst_folds_check accepts: the largest fold plus one. */
int32_t cst_folds_count(const int32_t *folds, int64_t rows);

/* Folds for the rows of a view that leaves out fold `fold`: the remaining folds renumbered, or two
 * new ones, stratified by label or target, where fewer than two remain. *out [in->rows] is the
 * caller's. `rows` is the view that `folds` belongs to. */
cst_status cst_folds_inside(cst_context *context, const cst_view *in, const int32_t *folds,
                            int64_t rows, int32_t fold_count, int32_t fold, uint64_t seed,
                            int32_t **out, int32_t *count);

/* Stretches 0..count-1 of neighbouring targets, about as many rows in each: out [rows]. targets:
 * [rows][outputs]; of several outputs by the sum of the standardised targets. count >= 1. */
cst_status cst_target_stretches(cst_context *context, const double *targets, int32_t outputs,
                                int64_t rows, int64_t count, int32_t *out);

/* Stretches that groups are spread over evenly; single rows are in finer ones. */
enum { CST_GROUP_STRETCHES = 10 };

/* Checks a fold vector [rows], which must be numbered 0..L-1. CST_ERROR_INPUT for a negative fold,
 * a missing number in 0..L-1, or fewer than two folds. Gives notices for classes that are missing
 * from some fold, and for classes that are in one fold only, which a fit without that fold cannot
 * learn. labels: [rows], or NULL to check the numbering only. */
cst_status cst_folds_check(cst_context *context, const int32_t *folds, const int32_t *labels,
                           int64_t rows);

#endif
