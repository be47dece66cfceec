/* Compact table: per sample the label and classes with q_c >= cut (q_c: members' mean, at least cut
 * / C), all members' probabilities; of the rest a systematic sample by row number, with chance pi_c
 * = q_c / cut and score - log(pi_c), so that the mean of sum exp(score) is over all classes. */
#ifndef CST_COMPACT_H
#define CST_COMPACT_H

#include "core/scope.h"
#include "data/pool/view.h"

/* Parts of ranks begin at a multiple of so many blocks. */
#define CST_COMPACT_GRAIN 4

/* Up to so many classes a table keeps all of them, and nothing is lost. */
#define CST_COMPACT_CLASSES 64

/* Entries of a row are a multiple of so many where classes are left out: behind those that are kept
 * come some of class -1, with probability 1 and an offset that leaves them no mass. */
#define CST_COMPACT_PAD 8
#define CST_COMPACT_NO_MASS (-1e30F)

typedef struct cst_compact_options {
    double cut;       /* mean probability from which a class is kept as it is; 0: every class */
    int64_t max_rows; /* at most about so many rows, thinned evenly in each fold; 0: no limit */
    const double *class_weights; /* [classes]: how much the loss of a row of the class counts; NULL:
                                    1. Of fits and held-out losses, not of the table itself */
    double share; /* of the uniform distribution, mixed into every member; 0: a share for each
                     member by its own NLL. Of fits, not of the table itself */
} cst_compact_options;

/* cut 1e-3, 100,000 rows. */
cst_compact_options cst_compact_defaults(void);

/* Rows b * CST_BLOCK_ROWS and on. Entries of row i: first[i] .. first[i + 1] - 1. */
typedef struct cst_compact_block {
    int64_t *first;   /* [rows of the block + 1] */
    int32_t *label;   /* [rows]: which of the row's entries is the label */
    int32_t *classes; /* [entries]: ascending within a row; NULL where every class is there */
    float *offset;    /* [entries]: added to the score; NULL where every class is there */
    float *p;         /* for each row [members][its entries] */
    float *logs;      /* the same: logs under the table's mixing; NULL where it has none */
    double *exact;    /* the same of a table with every class */
} cst_compact_block;

typedef struct cst_compact {
    cst_scope scope; /* of the arrays */
    int64_t rows;
    int64_t first;    /* blocks that this rank has: all, or its part where work is shared */
    int64_t last;     /* the block after these */
    int32_t classes;  /* C */
    int32_t members;  /* K */
    int64_t together; /* blocks of a segment */
    bool every_class;
    double cut;
    double *log_mix;    /* [members]: mixing of the logs; NULL where there are none */
    const float **data; /* [members]: what the view had there, by which a member is known */
    int64_t *split_row; /* [rows]: ascending rows of the split */
    cst_compact_block *block;
} cst_compact;

/* Table of the rows of a labelled view at `positions` ([count], ascending; NULL: every row). */
cst_status cst_compact_build(cst_context *context, const cst_view *view, const int64_t *positions,
                             int64_t count, double cut, cst_compact *out);
void cst_compact_free(cst_context *context, cst_compact *table);

/* Takes the logs of a table once for all passes, where they fit in a part of the memory there may
 * be: in float32 where classes are left out, else in float64. Results are equal with and without.
 * mix: [members], how much of the uniform distribution is in each. */
cst_status cst_compact_logs(cst_context *context, const double *mix, cst_compact *table);

/* `table` under another mixing: a table that shares all but its logs with it, for passes that
 * follow one another. It has no logs where they would take too much memory. mix: [members]. Free
 * it before `table`. */
cst_status cst_compact_remixed(cst_context *context, const cst_compact *table, const double *mix,
                               cst_compact *out);

/* Bytes of entries, offsets and probabilities, of the blocks that this rank has. */
size_t cst_compact_bytes(const cst_compact *table);

/* Attaches a table to a view, for the log tables of the view and of views made of it. The table has
 * rows of the view's split and the view's members, maybe more of either, and must outlive these
 * views. NULL leaves the view as it is. */
static inline void cst_compact_attach(cst_view *view, const cst_compact *table) {
    if (table)
        view->attached = table;
}
/* The table attached to a view, or NULL. Nothing else is ever attached. */
static inline const cst_compact *cst_compact_of(const cst_view *view) {
    return view->attached;
}

static inline const cst_compact_block *cst_compact_at(const cst_compact *table, int64_t row,
                                                      int64_t *within) {
    *within = row % CST_BLOCK_ROWS;
    return &table->block[row / CST_BLOCK_ROWS];
}

/* Positions of about `most` of `rows` rows, spread evenly over each fold and ascending; *out is the
 * caller's, *count its length. folds: [rows] or NULL; most 0 or at least `rows`: all of them. */
cst_status cst_thin_rows(cst_context *context, int64_t rows, const int32_t *folds,
                         int32_t fold_count, int64_t most, int64_t **out, int64_t *count);

#endif
