/*
 * A view: the probabilities of some members on some rows of one split, and the labels. Everything
 * statistical (redundancy, meta, blend, select) reads predictions through a view and nothing else,
 * so that refitting inside a fold is a view with fewer rows, and where the numbers come from
 * (memory now, disk later) is decided in one place. Paper: the matrix P_oof restricted to a set S
 * of members.
 */
#ifndef CST_VIEW_H
#define CST_VIEW_H

#include "base/base.h"

typedef struct cst_view {
    int64_t rows;             /* N, of this view */
    int32_t classes;          /* C (1 for regression) */
    int32_t members;          /* K, of this view */
    const float *const *data; /* [K] -> [all rows of the split][C], float32 probabilities */
    const int32_t *labels;    /* [all rows of the split], 0..C-1; NULL where there are none */
    const int64_t
        *index; /* [N]: row i of the view is row index[i] of the split; NULL: row i is i */
    const int64_t *groups; /* [all rows of the split]: rows that no fold may separate; NULL: none */
} cst_view;

/* Rows first..first+count-1 of member `member` of the view, contiguous, [count][classes]. Returns a
 * pointer into the member's data where the rows lie together, else `scratch` (count * classes
 * floats) after copying them there. */
const float *cst_view_rows(const cst_view *view, int32_t member, int64_t first, int64_t count,
                           float *scratch);

/* Label of row `row` of the view. The view must have labels. */
static inline int32_t cst_view_label(const cst_view *view, int64_t row) {
    return view->labels[view->index ? view->index[row] : row];
}

/* Restricts a view to the given members (positions in `view`, [count]). The pointer array is
 * written to `pointers` ([count]), which must outlive the result. */
cst_view cst_view_members(const cst_view *view, const int32_t *members, int32_t count,
                          const float **pointers);

/* Splits the view's rows by fold: *in gets the rows whose fold is not `fold`, *out those whose fold
 * is. `folds` is [view->rows] (position in the view). `index` is storage for view->rows entries,
 * which must outlive both results. Row order is kept. */
void cst_view_split(const cst_view *view, const int32_t *folds, int32_t fold, int64_t *index,
                    cst_view *in, cst_view *out);

#endif
