/*
 * A view: the predictions of some members on some rows of one split, with labels or targets. All
 * statistics read predictions through views, so that refitting inside a fold is a view with fewer
 * rows. Paper: the matrix P_oof restricted to a set S of members.
 */
#ifndef CST_VIEW_H
#define CST_VIEW_H

#include "core/scope.h"

/* Members of a split that stay on disk: data/pool/store.h. */
typedef struct cst_store cst_store;

/* Which rows of the split each member predicted. */
typedef struct cst_presence {
    int32_t count;
    const float *const *data; /* [count]: what a view's data have for the member */
    uint8_t *const *present;  /* [count] -> [all rows of the split]; NULL: every row */
} cst_presence;

/* The domain of each row of a split: of[row] is a position in `names`, -1 without a domain. */
typedef struct cst_domains {
    int64_t rows; /* of one condition */
    int32_t count;
    int32_t *of;  /* [rows] */
    char **names; /* [count], all different, in the order of their bytes */
} cst_domains;

/* Those of the rows index[0..count-1] of the split, with the same names. */
cst_status cst_domains_take(cst_context *context, cst_scope *scope, const cst_domains *all,
                            const int64_t *index, int64_t count, cst_domains **out);
/* Position of a name, or -1. */
int32_t cst_domain_find(char *const *names, int32_t count, const char *name);

typedef struct cst_view {
    int64_t rows;             /* N, of this view */
    int32_t classes;          /* C; outputs of a regression */
    int32_t members;          /* K, of this view */
    const float *const *data; /* [K] -> [all rows of the split][C], float32 probabilities; for a
                                 member in `store`, its place there: read by cst_view_rows only */
    const int32_t *labels;    /* [all rows of the split], 0..C-1; NULL where there are none */
    const double *targets;    /* regression: [all rows of the split][C]; NULL elsewhere, and where
                                 there are none */
    const int64_t
        *index; /* [N]: row i of the view is row index[i] of the split; NULL: row i is i */
    const int64_t *groups; /* [all rows of the split]: rows that no fold may separate; NULL: none */
    const double *weights; /* [all rows of the split]: how much a row counts, all above 0; NULL: all
                              rows alike */
    const cst_domains *domains; /* of the rows of the split; NULL: none */
    double weight_scale;    /* the weights are to be multiplied by it; not read without weights */
    const cst_store *store; /* NULL: every member is in memory */
    const cst_presence *presence; /* NULL: every member predicted every row */
    const void *attached;         /* what its owner keeps for rows of the split: opaque here,
                                     passed on to views made of this one; NULL: nothing */
} cst_view;

/* Rows first..first+count-1 of member `member` of the view, contiguous, [count][classes]: *rows
 * points into the member's data where they lie together in memory, else to `scratch` (count *
 * classes floats, may be NULL where cst_view_copies says no) after copying or reading them there.
 * Fails only where a file does. Any number of threads may read one view. */
cst_status cst_view_rows(cst_context *context, const cst_view *view, int32_t member, int64_t first,
                         int64_t count, float *scratch, const float **rows);

/* A block of rows, of which one member after another is read. */
typedef struct cst_rows {
    const cst_view *view;
    int64_t first; /* rows first..first+count-1 of the view */
    int64_t count;
    const float *data; /* [count][classes] of the member read last */
    float *scratch;
} cst_rows;

/* Block `block` of the view, with scratch from the scope. */
cst_status cst_rows_open(cst_context *context, cst_scope *scope, const cst_view *view,
                         int64_t block, cst_rows *rows);
/* Points rows->data at a member's rows. */
cst_status cst_rows_read(cst_context *context, cst_rows *rows, int32_t member);
/* The values [classes] of row i of the block. */
static inline const float *cst_rows_at(const cst_rows *rows, int64_t i) {
    return rows->data + (size_t)i * (size_t)rows->view->classes;
}

/* Every row of a member, copied to out [rows][classes]. */
cst_status cst_view_copy(cst_context *context, const cst_view *view, int32_t member, float *out);

/* The rows of the view at the given positions (ascending), copied to out [count][classes]. Rows
 * that are near each other in a file are read together. */
cst_status cst_view_gather(cst_context *context, const cst_view *view, int32_t member,
                           const int64_t *positions, int64_t count, float *out);

/* Whether cst_view_rows may have to copy, and so needs its scratch. */
static inline bool cst_view_copies(const cst_view *view) {
    return view->index || view->store;
}

/* Label of row `row` of the view. The view must have labels. */
static inline int32_t cst_view_label(const cst_view *view, int64_t row) {
    return view->labels[view->index ? view->index[row] : row];
}

/* Targets [classes] of row `row` of the view. The view must have targets. */
static inline const double *cst_view_target(const cst_view *view, int64_t row) {
    return view->targets + (view->index ? view->index[row] : row) * view->classes;
}

/* Weight of row `row` of the view; 1 where rows have none. */
static inline double cst_view_weight(const cst_view *view, int64_t row) {
    return view->weights ? view->weights[view->index ? view->index[row] : row] * view->weight_scale
                         : 1;
}

/* Domain of row `row` of the view, a position in the names of its domains; -1: none. */
static inline int32_t cst_view_domain(const cst_view *view, int64_t row) {
    return view->domains
               ? view->domains->of[(view->index ? view->index[row] : row) % view->domains->rows]
               : -1;
}

/* Which rows of the split (not of the view) member `member` predicted: 1 each; NULL: all. The data
 * of the others are what it would probably have said, for fits that need whole rows. A member whose
 * data are NULL predicted none. */
const uint8_t *cst_view_present(const cst_view *view, int32_t member);

/* Whether it predicted row `row` of the view; `present` as above. */
static inline bool cst_view_is_there(const cst_view *view, const uint8_t *present, int64_t row) {
    return !present || present[view->index ? view->index[row] : row];
}

/* The rows of the view that one member predicted, with that member alone. Without
 * one, or where it predicted all of them, every row. index: [view->rows]; pointer: [1]. */
cst_view cst_view_predicted(const cst_view *view, int32_t member, int64_t *index,
                            const float **pointer);

/* there [view->rows]: 1 for rows that some member predicted, else 0. */
void cst_view_any_there(const cst_view *view, uint8_t *there);

/* Sum of the weights of the rows that a member predicted. */
double cst_view_present_sum(const cst_view *view, int32_t member);

/* Sum of the rows' weights: their number where they have none. */
double cst_view_weight_sum(const cst_view *view);
/* How many rows of one weight say as much: (sum w)^2 / sum w^2. */
double cst_view_effective_rows(const cst_view *view);

/* The view with its rows' weights scaled to a mean of 1. */
cst_view cst_view_even(const cst_view *view);

/* Restricts a view to the given members (positions in `view`, [count]). The pointer array is
 * written to `pointers` ([count]), which must outlive the result. */
cst_view cst_view_members(const cst_view *view, const int32_t *members, int32_t count,
                          const float **pointers);

/* Splits the view's rows by fold: *in gets the rows whose fold is not `fold`, *out those whose fold
 * is. `folds` is [view->rows] (position in the view). `index` is storage for view->rows entries,
 * which must outlive both results. Row order is kept. */
void cst_view_split(const cst_view *view, const int32_t *folds, int32_t fold, int64_t *index,
                    cst_view *in, cst_view *out);

/* The class of the largest probability; of equal ones the first. */
static inline int32_t cst_largest(const float *row, int32_t classes) {
    int32_t at = 0;
    for (int32_t c = 1; c < classes; c++)
        at = row[c] > row[at] ? c : at;
    return at;
}

#endif
