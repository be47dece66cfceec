/* A view: the predictions of some members on some rows of one split, with labels or targets. All
 * statistics read predictions through views; refitting inside a fold is a view with fewer rows.
 * Paper: the matrix P_oof restricted to a set S of members. */
#pragma once

#include "core/scope.h"

/* Members of a split that stay on disk: below. */
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
    int32_t listed_of;        /* top-k: how many classes there are, of which a row of data lists
                                 C / 2 (data/pool/topk.h); else 0 */
    double bytes;             /* of text for each of its rows, on average; else not above 0 */
    bool binary;              /* the targets are 0 and 1, and NaN where not known: multilabel */
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

/* Rows first..first+count-1 of a member, [count][classes]: *rows points into the member's data
 * where they lie together in memory, else to `scratch` [count * classes], which may be NULL where
 * cst_view_copies says no. Fails only where a file does. Threads may share a view. */
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

/* ---- a store: members whose predictions stay on disk and are read a block at a time, where a pool
 * is larger than its share of the memory budget ---- */

/* Reads rows first..first+count-1 of what `source` is into out [count][classes], from any number of
 * threads at once. */
typedef cst_status (*cst_store_read_fn)(cst_context *context, const void *source, int64_t first,
                                        int64_t count, float *out);
/* Reads rows [count], ascending and not far from one another, likewise. */
typedef cst_status (*cst_store_gather_fn)(cst_context *context, const void *source,
                                          const int64_t *rows, int64_t count, float *out);
typedef void (*cst_store_close_fn)(cst_context *context, void *source);

typedef struct cst_store_entry {
    void *source; /* NULL: this member is in memory */
    cst_store_read_fn read;
    cst_store_gather_fn read_rows; /* NULL: rows between are read too */
    cst_store_close_fn close;      /* NULL: a scope frees the source */
    float *kept; /* rows kept_first..kept_end-1, which need not be read; or NULL */
    int64_t kept_first;
    int64_t kept_end;
} cst_store_entry;

struct cst_store {
    int32_t count;
    int32_t classes;
    cst_store_entry *entries; /* [count] */
    float *places;            /* [count]: only their addresses matter */
};

cst_status cst_store_create(cst_context *context, int32_t count, int32_t classes, cst_store **out);
/* Closes what is in it; NULL is accepted. */
void cst_store_free(cst_context *context, cst_store *store);
/* A store of the scope's. */
cst_status cst_store_take(cst_context *context, cst_scope *scope, int32_t count, int32_t classes,
                          cst_store **out);

/* Closes one member's entry, if there is one. */
void cst_store_close(cst_context *context, cst_store *store, int32_t member);

/* Reads a member through `below`, a view that must outlive the store: its rows become 0, 1, ... */
cst_status cst_store_take_around(cst_context *context, cst_scope *scope, cst_store *store,
                                 const cst_view *below, int32_t member);

/* An entry that reads a temporary file of the scope's, to be filled by cst_store_write: any rows in
 * any order, each once. where: for messages. */
cst_status cst_store_file(cst_context *context, cst_scope *scope, const char *where, int64_t rows,
                          int32_t classes, cst_store_entry *out);
cst_status cst_store_write(cst_context *context, const cst_store_entry *entry, int64_t first,
                           int64_t count, const float *values);

/* Puts a member [rows] in such a file, where rows can be changed. */
cst_status cst_store_copy(cst_context *context, cst_scope *scope, cst_store *store, int32_t member,
                          const char *where, int64_t rows);

/* What stands in cst_view.data for the member. */
const float *cst_store_place(const cst_store *store, int32_t member);

/* The member whose place this is, or -1; `store` may be NULL. */
static inline int32_t cst_store_find(const cst_store *store, const float *data) {
    if (!store || (uintptr_t)data < (uintptr_t)store->places ||
        (uintptr_t)data >= (uintptr_t)(store->places + store->count))
        return -1;
    return (int32_t)(data - store->places);
}

/* The rows of a view of `rows` rows that this rank works on, and some beyond, because parts of the
 * rows, such as folds, are divided at slightly different places. All rows if no work is shared. */
void cst_store_near(const cst_context *context, int64_t rows, int64_t *first, int64_t *end);

/* Keeps rows first..end-1 of a member in memory. */
cst_status cst_store_keep(cst_context *context, cst_store *store, int32_t member, int64_t first,
                          int64_t end);
/* Replaces a row, if it is kept in memory. */
static inline void cst_store_put(const cst_store *store, int32_t member, int64_t row,
                                 const float *values) {
    const cst_store_entry *entry = &store->entries[member];
    if (entry->kept && row >= entry->kept_first && row < entry->kept_end)
        for (int32_t c = 0; c < store->classes; c++)
            entry->kept[(row - entry->kept_first) * store->classes + c] = values[c];
}
/* Such rows where they are, or NULL where some must be read. */
static inline const float *cst_store_kept(const cst_store *store, int32_t member, int64_t first,
                                          int64_t count) {
    const cst_store_entry *entry = &store->entries[member];
    bool kept = entry->kept && first >= entry->kept_first && first + count <= entry->kept_end;
    return kept ? entry->kept + (first - entry->kept_first) * store->classes : NULL;
}

cst_status cst_store_read(cst_context *context, const cst_store *store, int32_t member,
                          int64_t first, int64_t count, float *out);
/* Rows at the given positions (ascending), [count][classes]; those near each other are read in one
 * piece. */
cst_status cst_store_gather(cst_context *context, const cst_store *store, int32_t member,
                            const int64_t *rows, int64_t count, float *out);
