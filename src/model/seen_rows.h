/*
 * Whether the rows of a split are those that a model was fitted on, whatever the split is called
 * and in any order: by the sketch in the model's file, and row by row where the pool has the fit's
 * own split. Between fitting and scoring. docs/bounds.md#rows-of-the-fit.
 */
#ifndef CST_MODEL_SEEN_ROWS_H
#define CST_MODEL_SEEN_ROWS_H

#include "data/pool/pool.h"
#include "model/fitted_on.h"

/* Whether rows are those of the fit: beyond what chance makes of predictions that repeat. */
typedef enum cst_seen { CST_SEEN_NONE, CST_SEEN_SOME, CST_SEEN_ALL } cst_seen;

/* What rows of the fit do among themselves, as rows do that are drawn alike: a share of them has a
 * content that the others have too. */
typedef struct cst_fit_repeats {
    int64_t repeated;
    int64_t rows;
    bool none; /* no row of the fit equals another one */
} cst_fit_repeats;

/* Judges by contents. For CST_SEEN_ALL those that repeat in the split do not count, unless none
 * does in the fit: they are common where the split's rows are drawn, be it another place. */
cst_seen cst_seen_judge(const cst_row_match *match, cst_fit_repeats repeats);

/* The rows of the fit's split in the pool: read when they are first asked for, so that several
 * splits are compared with one reading. Starts as zeros. */
typedef struct cst_known_rows {
    bool asked;
    uint64_t *hashes; /* [rows], ascending; NULL: the pool does not have them */
    int64_t rows;
    cst_fit_repeats repeats; /* of the rows that at most one other equals: others are common */
} cst_known_rows;

void cst_known_rows_free(cst_context *context, cst_known_rows *known);

/* What the rows of a split say. fit: what the model's file says of their labels. view: them with
 * the model's members in its order, with labels.
 * Where files of the fit's split are gone a notice says that they were not looked at. */
cst_status cst_rows_seen(cst_context *context, const cst_model *model, cst_pool *pool,
                         const cst_fit_rows *fit, const char *split, const cst_view *view,
                         cst_known_rows *known, cst_row_match *match, cst_seen *seen);

#endif
