/*
 * Finds the likeliest cause of rows that are not probabilities, for error messages.
 * docs/method.md#s0-rows-folds-ids.
 */
#ifndef CST_POOL_ROW_DIAGNOSIS_H
#define CST_POOL_ROW_DIAGNOSIS_H

#include "data/pool/state.h"

enum { CST_CAUSE_CHARS = 320 };

/* What the numbers most likely are, and what to do. row: the one that is wrong, [width]. */
const char *cst_cause(const cst_convert *convert, const double *row, char out[CST_CAUSE_CHARS]);

/* Whether one column is of another kind, ids or labels; says which, and what to do. */
bool cst_cause_of_columns(const cst_convert *convert, char out[CST_CAUSE_CHARS]);
/* The same where a row does not sum to 1 although its values are in [0, 1]; NULL: nothing more is
 * known. */
const char *cst_cause_of_sum(const cst_convert *c, double sum);

/* Before the rows of a block are converted: those that follow from row `first` on, [rows][width] in
 * one of both forms, or neither. The first block of logits must have no column of ids. */
cst_status cst_convert_block(cst_context *context, cst_convert *convert, int64_t first,
                             int64_t rows, const double *wide, const float *narrow);

#endif
