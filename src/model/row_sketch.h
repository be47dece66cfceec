/*
 * A few rows that stand for all rows of a fit, small enough for the model file, so that the same
 * rows are known again in another order, as a part of other rows, and without the fit's pool.
 * Between fitting and scoring. docs/model-format.md#sett.
 */
#ifndef CST_MODEL_ROW_SKETCH_H
#define CST_MODEL_ROW_SKETCH_H

#include "data/pool/view.h"

enum { CST_SKETCH_ROWS = 32 };

typedef struct cst_row_sketch {
    int64_t rows;
    int64_t repeated; /* rows that another one equals */
    int32_t count;
    uint64_t least[CST_SKETCH_ROWS]; /* the smallest different hashes, ascending */
} cst_row_sketch;

/* How rows and known ones agree: of a fit, or of a sketch of one. Rows of one content are one
 * draw of it or many, so chance is judged by contents; one that several known rows have is common
 * and says nothing. */
typedef struct cst_row_match {
    int64_t looked_at;      /* rows that would be among the known if they were of the fit */
    int64_t found;          /* of these, rows that are */
    int64_t contents;       /* different ones among those looked at, without common ones */
    int64_t contents_found; /* of these, those that one known row has */
    int64_t single;         /* contents that one of the rows has */
} cst_row_match;

/* A number for the label and the predictions of each row, from all members of the view in their
 * order; the view has labels. *out: [rows] of the context, ascending; NULL with an error. */
cst_status cst_row_hashes(cst_context *context, const cst_view *view, uint64_t **out);

/* Both sorted: known [count], hashes [rows]. Those above `largest` are not looked at. */
cst_row_match cst_row_hashes_match(const uint64_t *known, int64_t count, uint64_t largest,
                                   const uint64_t *hashes, int64_t rows);

cst_status cst_row_sketch_of(cst_context *context, const cst_view *view, cst_row_sketch *out);

/* hashes: [rows], sorted. */
cst_row_match cst_row_sketch_match(const cst_row_sketch *sketch, const uint64_t *hashes,
                                   int64_t rows);

/* "split.rows=120:0:01f3..,..", the key being "split": rows, repeated ones, the hashes. NULL, with
 * the error, without memory. */
char *cst_row_sketch_print(cst_context *context, const char *key, const cst_row_sketch *sketch);

/* Whether the text is what cst_row_sketch_print writes behind the "=". */
bool cst_row_sketch_read(const char *text, cst_row_sketch *out);

#endif
