/* What a pool holds, shared by the files here. A split is described (order.c, beside.c), its
 * columns are known (columns.c), and its members are read (load.c), converted (convert.h) and
 * filled (fill.c). Paper: P_oof, y. */
#pragma once

#include "data/pool/convert.h"
#include "data/pool/pool.h"
#include "data/readers/manifest.h"

#include <math.h>

/* Values of the rows beside their predictions; NULL where there are none. */
typedef struct cst_beside {
    const int32_t *labels; /* [rows] */
    const double *targets; /* regression, which has no conditions: [rows][outputs] */
    const int32_t *folds;  /* [rows] */
    const int64_t *groups;
    const int64_t *order; /* keys: rows of a smaller one came before */
    const double *weights;
    const cst_domains *domains;
} cst_beside;

/* The reference order of the rows. */
typedef struct cst_row_order {
    cst_strings *ids;  /* NULL: by position */
    const char *where; /* the file they come from */
    cst_id_index *index;
    bool
        anchored; /* the ids are those of the labels; otherwise other files must keep their order */
} cst_row_order;

/* A split as far as it is loaded. */
typedef struct cst_pool_split {
    cst_scope scope;         /* of all but the members */
    bool described;          /* labels, ids, folds and groups were read */
    bool adopted;            /* the folds are those of the members' tables; nobody named them */
    int64_t rows;            /* of each condition; -1: not known yet */
    const char *rows_source; /* what says so, for messages */
    cst_row_claim claim;     /* what the first header says, before anything is read */
    cst_row_order order;
    cst_beside beside;
    const char *labels_path; /* of the manifest, where labels were read from a file; else NULL */
    int32_t *repeated;       /* [conditions * rows] labels, where there are conditions and labels */
    struct cst_cases *cases; /* segmentation: data/pool/spatial.h; folds and groups are there */
    bool single;             /* the first member has one column, the probability of class 1 */
    char *first_path;        /* the first member whose shape was accepted, for messages */
    char *first_shape;
    const float **data; /* [members] -> [conditions * rows][classes] or the member's place in the
                           store; NULL where not loaded */
    uint8_t **present;  /* [members] -> [conditions * rows]: 1 for rows that it predicted; NULL: all
                           of them. The others hold what fill.c expects the member to say */
    cst_scope *own;     /* [members]: of their predictions and open files */
    cst_store *store;   /* members that stay on disk, or NULL */
    cst_presence presence; /* data and present, for views */
} cst_pool_split;

struct cst_pool {
    cst_scope scope; /* of what follows, but for the manifest and the insides of splits */
    cst_manifest *manifest;
    cst_task task;
    int32_t classes; /* of a regression: outputs */
    int32_t listed;  /* top-k: the most classes that a member lists; else 0 */
    bool logits;
    bool missing;      /* members may lack predictions */
    bool unlabelled;   /* rows may lack a label, which is -1 */
    bool needless;     /* labels are not needed: with one that is none there are no labels */
    cst_layout layout; /* segmentation */
    int32_t ignore;    /* segmentation: label of pixels that do not count */
    uint64_t zip_limit;
    cst_strings *class_names; /* as a table, where the classes have names */
    cst_id_index *class_index;
    bool single;      /* the first file has one column, the probability of class 1 of two */
    bool names_found; /* the names are those of a header or of labels: nothing else says them */
    bool unsure;      /* nothing says which of two labels a single column is the probability of */
    bool wide;        /* one table holds several members */
    const char *said; /* a notice of opening, given with the first split that is read; or NULL */
    const char *id_column;         /* name or number of the ids in tables, as the caller gave it */
    const char *label_column;      /* the same of the labels */
    const char *positive;          /* the label of class 1 of two, as the caller gave it */
    struct cst_division *division; /* of a pool that is divided; else NULL */
    cst_pool_split *splits;        /* [manifest->split_count] */
    cst_shared_table *shared;      /* tables of several members, or NULL */
    const char **files;            /* [file_count] that the manifest names; they are its own */
    size_t file_count;
    const cst_pool *whole; /* what this is a part of (cst_pool_without); NULL: nothing */
};

/* Whether a pool's samples are rows. */
static inline bool cst_pool_of_rows(const cst_pool *pool) {
    return pool->task == CST_TASK_CLASSIFICATION || pool->task == CST_TASK_TOPK ||
           cst_task_has_outputs(pool->task);
}

/* Values of a member's row in views. */
static inline int32_t cst_pool_width(const cst_pool *pool) {
    return pool->listed > 0 ? 2 * pool->listed : pool->classes;
}

/* Whether it is a label of a multilabel pool: 0 or 1, or not known, which becomes NaN. */
static inline bool cst_take_label(double *label) {
    if (*label >= -1 && *label <= -1)
        *label = NAN;
    return isnan(*label) || (*label >= 0 && *label <= 0) || (*label >= 1 && *label <= 1);
}

/* Whether rows of a member may be absent. */
static inline bool cst_pool_partial(const cst_pool *pool) {
    return pool->missing && cst_pool_of_rows(pool);
}

/* The rows of all conditions of a split. */
static inline int64_t cst_pool_all_rows(const cst_pool *pool, int32_t split) {
    int32_t conditions = pool->manifest->splits[split].condition_count;
    return pool->splits[split].rows * (conditions > 0 ? conditions : 1);
}

/* What a path of the manifest stands for, which may be read. */
cst_status cst_pool_source(cst_context *context, const cst_pool *pool, const char *path,
                           cst_row_source *out);

/* Bytes of the members' predictions that are in memory, over all splits. */
size_t cst_pool_resident(const cst_pool *pool);

/* A pool over a description, which it takes (also on failure); nothing is loaded. */
cst_status cst_pool_create(cst_context *context, cst_pool **out, cst_manifest *manifest,
                           const cst_pool_config *config);

/* An empty split of `members` members, with arrays from the scope. */
cst_status cst_pool_split_create(cst_context *context, cst_scope *scope, int32_t members,
                                 cst_pool_split *out);
/* Frees or closes a member's predictions; it is not loaded then. */
void cst_pool_drop_member(cst_context *context, cst_pool_split *split, int32_t member);
/* Back to not loaded. */
void cst_pool_split_clear(cst_context *context, cst_pool_split *split);

/* Values beside the rows index[0..count-1]: folds are numbered without gaps, and what there is in
 * `from` is in `to`. Labels and targets are of `all` such rows, with all of their conditions. */
cst_status cst_beside_take(cst_context *context, cst_scope *scope, const cst_beside *from,
                           const int64_t *index, int64_t count, int64_t all, int32_t outputs,
                           cst_beside *to);

/* Adds bytes to a sum that all ranks must have the same (FNV-1a); from CST_FNV_START on. */
#define CST_FNV_START UINT64_C(14695981039346656037)
static inline uint64_t cst_fnv(uint64_t sum, const void *bytes, size_t count) {
    for (size_t i = 0; i < count; i++)
        sum = (sum ^ ((const unsigned char *)bytes)[i]) * 1099511628211U;
    return sum;
}

/* ---- the order of the rows, in order.c ---- */

/* Compares the counts in the headers of a split's files and of members [count] that are to be
 * loaded, so that no file is read for rows that the others cannot have. */
cst_status cst_pool_compare_claims(cst_context *context, cst_pool *pool, int32_t split,
                                   const int32_t *members, int32_t count);

/* How ids become part of the order. */
typedef enum cst_joining {
    CST_JOIN_BESIDE, /* of a file beside the predictions */
    CST_JOIN_ANCHOR, /* of the labels, or given for the split */
    CST_JOIN_PARTIAL /* of a member that may lack rows */
} cst_joining;

/* Makes `ids` part of the order of the split, which copies them where they become it: *places
 * is NULL where rows stay as they are, else the reference row of each id. */
cst_status cst_pool_order(cst_context *context, cst_scope *scope, cst_pool_split *split,
                          const cst_strings *ids, const char *where, cst_joining joining,
                          int64_t **places);

/* Reads a column and puts it in the split's order: `places` as from cst_pool_order. */
cst_status cst_pool_read_ordered(cst_context *context, cst_scope *scope, const cst_pool *pool,
                                 cst_pool_split *split, const char *path, const cst_table_ask *ask,
                                 cst_joining joining, cst_column *column, int64_t **places);
/* The same of an open file of numbers, whose rows are then read from the first on. */
cst_status cst_pool_order_rows(cst_context *context, cst_scope *scope, cst_pool_split *split,
                               cst_row_file *rows, cst_joining joining, int64_t **places);

/* Says that `where` has `rows` rows: sets the split's count, or compares with it. */
cst_status cst_pool_set_rows(cst_context *context, cst_pool_split *split, int64_t rows,
                             const char *where);

/* Compares labels that a member's table holds with those of the split. places: row of the split of
 * each row; NULL: the same. */
cst_status cst_pool_check_truth(cst_context *context, const cst_pool *pool,
                                const cst_pool_split *split, cst_row_file *rows,
                                const int64_t *places);

/* ---- what stands beside the predictions, in beside.c ---- */

/* Reads ids, labels, folds and groups of a split, of which members [count] are to be loaded. */
cst_status cst_pool_describe(cst_context *context, cst_pool *pool, int32_t split,
                             const int32_t *members, int32_t count);
/* Its part in beside.c: all but masks. */
cst_status cst_pool_describe_rows(cst_context *context, cst_pool *pool, int32_t split,
                                  const int32_t *members, int32_t count);

/* After the rows were counted and the members looked at, until when the number of conditions is a
 * claim: labels for each condition, and the domain of all rows where no column says it. */
cst_status cst_pool_settle(cst_context *context, cst_pool *pool, int32_t split);

/* Folds and groups of the rows of `split`, where `spec` names files of them. */
cst_status cst_pool_describe_folds(cst_context *context, const cst_pool *pool,
                                   cst_pool_split *split, const cst_manifest_split *spec);

/* Fold numbers [count] as they were given to 0..L-1 in increasing order, negative ones to -1;
 * number i goes to out[places[i]], or to out[i] where places is NULL. */
cst_status cst_pool_renumber(cst_context *context, const int64_t *numbers, const int64_t *places,
                             int64_t count, int32_t *out);

/* Names of such a column; ends with NULL. */
extern const char *const cst_order_names[];
/* Keys [column->count] of an order: numbers as they are, else their ranks; dates are texts. */
cst_status cst_order_keys(cst_context *context, const cst_column *column, const char *path,
                          int64_t *keys);

/* Domains from names [rows] in memory; NULL or "": the row has none. */
cst_status cst_domains_make(cst_context *context, cst_scope *scope, const char *const *names,
                            int64_t rows, const char *where, cst_domains **out);
/* Checks weights [rows] that come from `where`. */
cst_status cst_pool_check_weights(cst_context *context, const double *weights, int64_t rows,
                                  const char *where);

/* What to do about labels outside 0..classes-1, of which these are the lowest and the highest: the
 * end of a message. */
const char *cst_pool_label_hint(int64_t lowest, int64_t highest, int32_t classes);

/* ---- which column is what, in columns.c ---- */

/* Finds how many classes or outputs there are, and what they are called, where a manifest does not
 * say it: in the files of members and labels. After cst_pool_create. */
cst_status cst_pool_find_columns(cst_context *context, cst_pool *pool);

/* Gives the manifest names [count] of its classes, or outputs; it must have none. */
cst_status cst_pool_name_classes(cst_context *context, cst_manifest *manifest, bool outputs,
                                 const char *const *names, int32_t count);
/* Refuses what is no name of a class, in what `where` says. */
cst_status cst_pool_check_name(cst_context *context, const char *where, const char *name);

/* Makes the names that the manifest holds by now the pool's. */
cst_status cst_pool_index_classes(cst_context *context, cst_pool *pool);

/* What is asked of a table of predictions or targets. The pool must outlive it. */
cst_table_ask cst_pool_ask(const cst_pool *pool, cst_table_use use);
/* The same of labels that are one column. */
cst_table_ask cst_pool_ask_labels(const cst_pool *pool);

/* The class (or output) of each column where a header names them, [classes], of the scope; NULL
 * where it names none, or in their order. Some names but not all of them is an error, since the
 * order would be a guess. `width`: columns of the file at `path`. */
cst_status cst_pool_match_columns(cst_context *context, cst_scope *scope, const cst_pool *pool,
                                  const cst_table *table, int32_t width, const char *path,
                                  int32_t **out);

/* What is said of the files of a split: one notice for all files of which the same is true. */
typedef struct cst_file_count {
    char path[256]; /* of the first */
    int32_t files;
} cst_file_count;

typedef struct cst_file_notes {
    char *said; /* of the choice of columns in the first file */
    cst_file_count chosen;
    cst_file_count folds;     /* with a column of folds that is not read */
    cst_file_count reordered; /* whose columns are in another order than the classes */
    cst_file_count nameless;  /* without names, where other files have them */
} cst_file_notes;

/* Notes what is to say of an open file of a member; texts are the scope's. */
cst_status cst_pool_note_file(cst_context *context, cst_scope *scope, const cst_pool *pool,
                              const cst_row_file *rows, cst_file_notes *notes);
void cst_pool_say_notes(cst_context *context, const cst_pool *pool, const cst_pool_split *split,
                        const cst_file_notes *notes);

/* ---- opening, in open.c; one table of several members, in wide.c ---- */

/* Removes `mark` with its separator from the start or the end of a name. */
bool cst_take_one_mark(char *name, const char *mark);
/* Removes the mark of a split from a name ("oof_lgb", "lgb.test"): "oof", "test", or NULL. */
const char *cst_take_mark(char *name);

/* Describes the members of the table at `path` in `manifest`, whose one split exists, where it
 * holds several; else *wide is false and nothing is added. Labels etc. that the manifest names
 * already stay. *said: what each column is, of the scope; NULL where it is no such table. */
cst_status cst_wide_describe(cst_context *context, cst_scope *scope, cst_manifest *manifest,
                             const char *path, const cst_pool_config *config, bool *wide,
                             char **said);
/* Labels that nothing else names: a column in the tables of members. */
cst_status cst_adopt_labels(cst_context *context, cst_scope *scope, cst_manifest *manifest,
                            const cst_pool_config *config, char **said);

/* ---- rows that a member did not predict, in fill.c ---- */

/* Gives the rows that loaded members did not predict what the other members suggest they would have
 * said, from the loaded members alone and without labels. */
cst_status cst_pool_fill(cst_context *context, cst_pool *pool, int32_t split);

/* Room for which rows a member predicted: none yet. */
cst_status cst_pool_start_present(cst_context *context, cst_pool_split *split, int32_t member,
                                  int64_t rows);
/* After it was read: forgets which rows are there where that is all of them. */
void cst_pool_settle_present(cst_context *context, cst_pool_split *split, int32_t member,
                             int64_t rows);

/* Whether row `row` of the split has a negative fold: no prediction of it is out of fold. */
static inline bool cst_pool_unfolded(const cst_pool_split *split, int64_t row) {
    return split->beside.folds && split->beside.folds[row % split->rows] < 0;
}
