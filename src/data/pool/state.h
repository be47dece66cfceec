/*
 * What a pool holds, shared by the files of src/pool that open, load and answer. Paper: P_oof, y.
 */
#ifndef CST_POOL_STATE_H
#define CST_POOL_STATE_H

#include "data/pool/pool.h"
#include "data/pool/store.h"
#include "data/readers/manifest.h"
#include "data/readers/row_file.h"

/* A split as far as it is loaded. */
typedef struct cst_pool_split {
    bool described;          /* labels, ids, folds and groups were read */
    int64_t rows;            /* of each condition; -1: not known yet */
    char *rows_source;       /* what says so, for messages */
    cst_row_claim claim;     /* what the first header says, before anything is read */
    int32_t *labels;         /* [rows], or NULL */
    double *targets;         /* regression, which has no conditions: [rows][outputs], or NULL */
    const char *labels_path; /* of the manifest, where labels were read from a file; else NULL */
    int32_t *repeated;       /* [conditions * rows] labels, where there are conditions and labels */
    int32_t *folds;          /* [rows], or NULL */
    int64_t *groups;         /* [rows], or NULL */
    double *weights;         /* [rows], or NULL */
    cst_domains *domains;    /* of the rows, or NULL */
    cst_strings *ids;        /* the reference order, or NULL */
    char *ids_where;         /* the file they come from */
    cst_id_index *index;
    bool
        anchored; /* the ids are those of the labels; otherwise other files must keep their order */
    const float **data; /* [members] -> [conditions * rows][classes] or the member's place in the
                           store; NULL where not loaded */
    cst_store *store;   /* members that stay on disk, or NULL */
    uint8_t **present;  /* [members] -> [conditions * rows]: 1 for rows that it predicted; NULL: all
                           of them. The others hold what fill.c expects the member to say */
    cst_presence presence;   /* data and present, for views */
    struct cst_cases *cases; /* segmentation: data/pool/spatial.h; folds and groups are there */
    char *first_path;        /* the first member whose shape was accepted, for messages */
    char *first_shape;
} cst_pool_split;

struct cst_pool {
    cst_manifest *manifest;
    cst_task task;
    int32_t classes; /* of a regression: outputs */
    bool logits;
    bool missing;      /* members may lack predictions */
    bool unlabelled;   /* rows may lack a label, which is -1 */
    bool needless;     /* labels are not needed: with one that is none there are no labels */
    cst_layout layout; /* segmentation */
    int32_t ignore;    /* segmentation: label of pixels that do not count */
    uint64_t zip_limit;
    cst_strings *class_names; /* as a table, where the classes have names */
    cst_id_index *class_index;
    bool single;        /* the first file has one column, the probability of class 1 of two */
    bool names_found;   /* the names are those of a header or of labels: nothing else says them */
    bool wide;          /* one table holds several members */
    char *said;         /* a notice of opening, given with the first split that is read; or NULL */
    char *id_column;    /* name or number of the ids in tables, as the caller gave it; or NULL */
    char *label_column; /* the same of the labels */
    struct cst_division *division; /* of a pool that is divided: data/pool/parts.h; else NULL */
    cst_pool_split *splits;        /* [manifest->split_count] */
    const char **files;            /* [file_count] that the manifest names; they are its own */
    size_t file_count;
};

/* Whether rows of a member may be absent: its samples are rows. */
static inline bool cst_pool_partial(const cst_pool *pool) {
    return pool->missing &&
           (pool->task == CST_TASK_CLASSIFICATION || pool->task == CST_TASK_REGRESSION);
}

/* The file or the parts that a path of the manifest stands for. */
static inline cst_row_source cst_pool_source(const cst_pool *pool, const char *path) {
    return (cst_row_source){path, cst_manifest_parts(pool->manifest, path), pool->zip_limit};
}

/* Bytes of the members' predictions that are in memory, over all splits. */
size_t cst_pool_resident(const cst_pool *pool);

/* A pool over a description, which it takes (also on failure); nothing is loaded. */
cst_status cst_pool_create(cst_context *context, cst_pool **out, cst_manifest *manifest,
                           const cst_pool_config *config);

/* Makes the names that the manifest holds by now the pool's. */
cst_status cst_pool_index_classes(cst_context *context, cst_pool *pool);

/* Frees or closes a member's predictions; it is not loaded then. */
void cst_pool_drop_member(cst_context *context, cst_pool_split *split, int32_t member);

void cst_pool_split_clear(cst_context *context, cst_pool *pool, cst_pool_split *split);

/* Compares the counts in the headers of a split's files and of members [count] that are to be
 * loaded, so that no file is read for rows that the others cannot have. */
cst_status cst_pool_compare_claims(cst_context *context, cst_pool *pool, int32_t split,
                                   const int32_t *members, int32_t count);

/* Reads ids, labels, folds and groups of a split, of which members [count] are to be loaded. */
cst_status cst_pool_describe(cst_context *context, cst_pool *pool, int32_t split,
                             const int32_t *members, int32_t count);

/* Labels for each condition, for views over all of them. After the shapes of members were looked
 * at: until then the number of conditions is a claim. */
cst_status cst_pool_repeat_labels(cst_context *context, cst_pool_split *split, int32_t conditions);

/* In folds_read.c: folds and groups of the rows of `split`, where `spec` names files of them. */
cst_status cst_pool_describe_folds(cst_context *context, const cst_pool *pool,
                                   cst_pool_split *split, const cst_manifest_split *spec);

/* ---- the order of rows and columns, in order.c ---- */

/* Makes `ids` (taken on success where it becomes the reference) part of the split's order: *places
 * is NULL where rows stay as they are, else the caller's array of the reference row of each id. */
cst_status cst_pool_order(cst_context *context, cst_pool_split *split, cst_strings **ids,
                          const char *where, bool anchor, int64_t **places);

/* The same for a member's ids, of which some may be missing where `partial`. */
cst_status cst_pool_order_member(cst_context *context, cst_pool_split *split, cst_strings **ids,
                                 const char *where, bool partial, int64_t **places);

/* Reads a column and puts it in the split's order: `places` as from cst_pool_order. */
cst_status cst_pool_read_ordered(cst_context *context, const cst_pool *pool, cst_pool_split *split,
                                 const char *path, const cst_table_ask *ask, bool anchor,
                                 cst_column *column, int64_t **places);

/* Says that `where` has `rows` rows: sets the split's count, or compares with it. */
cst_status cst_pool_set_rows(cst_context *context, cst_pool_split *split, int64_t rows,
                             const char *where);

/* The class (or output) of each column where a header names them, [classes], the caller's; NULL
 * where it names none. Some names but not all of them is an error, since the order would be a
 * guess. `width`: columns of the file at `path`. */
cst_status cst_pool_match_columns(cst_context *context, const cst_pool *pool,
                                  const cst_table *table, int32_t width, const char *path,
                                  int32_t **out);

/* What to do about labels outside 0..classes-1, of which these are the lowest and the highest: the
 * end of a message. */
const char *cst_pool_label_hint(int64_t lowest, int64_t highest, int32_t classes);

/* ---- rows that a member did not predict ---- */

/* In fill.c: gives the rows that loaded members did not predict what the other members suggest they
 * would have said, from the loaded members alone and without labels. */
cst_status cst_pool_fill(cst_context *context, cst_pool *pool, int32_t split);

/* After a member was read: forgets which rows are there where that is all of them. */
void cst_pool_settle_present(cst_context *context, cst_pool_split *split, int32_t member,
                             size_t rows);

/* Whether row `row` of the split has a negative fold: no prediction of it is out of fold. */
static inline bool cst_pool_unfolded(const cst_pool_split *split, int64_t row) {
    return split->folds && split->folds[row % split->rows] < 0;
}

/* ---- labels, folds, targets and weights ---- */

/* Where labels are not needed and those at `path` have gaps: there are none. Says so. */
void cst_pool_drop_labels(cst_context *context, cst_pool_split *split, const char *path);

/* In folds_read.c: fold numbers [count] as they were given to 0..L-1 in increasing order, negative
 * ones to -1; number i goes to out[places[i]], or to out[i] where places is NULL. */
cst_status cst_pool_renumber(cst_context *context, const int64_t *numbers, const int64_t *places,
                             int64_t count, int32_t *out);

/* Targets of a regression, in targets.c: joined as labels are, each a finite number. */
cst_status cst_pool_read_targets(cst_context *context, const cst_pool *pool, cst_pool_split *split,
                                 const cst_manifest_split *spec);

/* Row weights, in weights.c: joined as folds are, each finite and not negative, one above 0. */
cst_status cst_pool_read_weights(cst_context *context, const cst_pool *pool, cst_pool_split *split,
                                 const char *path);
/* Domains, in domains.c: joined as groups are. */
cst_status cst_pool_read_domains(cst_context *context, const cst_pool *pool, cst_pool_split *split,
                                 const cst_manifest_split *spec);
/* Where there is no column, all rows are of the split's domain, if it has one. After the rows were
 * counted. */
cst_status cst_pool_settle_domains(cst_context *context, const cst_pool *pool,
                                   cst_pool_split *split, const cst_manifest_split *spec);
/* The same of names [rows] in memory; NULL or "": the row has no domain. */
cst_status cst_pool_copy_domains(cst_context *context, cst_pool_split *split,
                                 const char *const *names, int64_t rows);
/* Checks weights [rows] that come from `where`. */
cst_status cst_pool_check_weights(cst_context *context, const double *weights, int64_t rows,
                                  const char *where);

/* ---- conversion, in convert.c ---- */

/* Turns rows as they are in a file into float32 probabilities, checking each. */
typedef struct cst_convert {
    const char *where;             /* file or member, for messages */
    const cst_row_file *rows;      /* to name the line and the part; NULL for memory */
    const struct cst_cases *cases; /* of a segmentation, to name the pixel; else NULL */
    int32_t classes;
    int32_t width; /* values of a row: classes, or 1 (class 1 of two) */
    bool values;   /* a regression: numbers pass as they are, if they are finite */
    bool logits;
    double
        rounding; /* what a row's sum may be off by because of the file's type: cst_npy_rounding */
    const int32_t *column_class; /* class of each column of the file; NULL: the same */
    const double *block_wide;    /* the rows of the block as they are in the file, for messages: */
    const float *block_narrow;   /* ... [block_rows][width] in one form, or none */
    int64_t block_rows;
    int64_t like_probabilities; /* rows so far that look like probabilities, of logits */
    int64_t like_percentages;   /* the same of percentages */
    double high;                /* the largest value so far, of logits in one column */
    int64_t total;              /* rows so far */
    bool missing;               /* a row of NaN alone is one that the member did not predict */
    bool absent;                /* the last row was such a row: its output is uniform, or 0 */
    double normaliser;          /* log sum exp of the row's logits; of one value z, of 0 and z */
} cst_convert;

/* One row: `values` [width], which may be overwritten, to `out` [classes]. `first` and `i` say
 * which row of the block it is. */
cst_status cst_convert_row(cst_context *context, cst_convert *convert, int64_t first, int64_t i,
                           double *values, float *out);
/* The same for values that are float32 in the file and stay as they are. wide: [width] scratch. */
cst_status cst_convert_row_f32(cst_context *context, cst_convert *convert, int64_t first, int64_t i,
                               const float *values, double *wide, float *out);
/* The same of rows first..first+count-1, which follow one another in `values` and `out`. */
cst_status cst_convert_rows_f32(cst_context *context, cst_convert *convert, int64_t first,
                                int64_t count, const float *values, double *wide, float *out);
/* Whether there was a logit that no model gives, or logits of several classes. */
bool cst_convert_saturated(const cst_convert *convert);
/* After the last row. */
cst_status cst_convert_finish(cst_context *context, const cst_convert *convert);

#endif
