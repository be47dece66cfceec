/* Which rows a model was fitted on: written into its settings by the fit, asked by an evaluation.
 * Rows are recognised under any name of their split and in any order, by a small sketch of their
 * hashes. docs/model-format.md#sett, docs/bounds.md#rows-of-the-fit. */
#pragma once

#include "data/pool/pool.h"
#include "model/stack.h"

/* ---- hashes ---- */

/* Of the rows that count in a loaded split: names and predictions of all members, in any order, and
 * labels or targets, folds, groups and weights where they are given. The same for any number of
 * threads and memory budget, and for any file format that gives the same numbers. */
cst_status cst_pool_hash(cst_context *context, const cst_pool *pool, const char *split,
                         uint64_t *out);

/* Every bit of the result depends on every bit. */
uint64_t cst_hash_mix(uint64_t hash);
/* FNV-1a of bytes [size], going on from `hash`. */
uint64_t cst_hash_bytes(uint64_t hash, const void *bytes, size_t size);
#define CST_HASH_START UINT64_C(0xcbf29ce484222325)

/* ---- a sketch of rows ---- */

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
 * order; the view has labels. *out: [rows], ascending. */
cst_status cst_row_hashes(cst_context *context, cst_scope *scope, const cst_view *view,
                          uint64_t **out);

/* Both sorted: known [count], hashes [rows]. Those above `largest` are not looked at. */
cst_row_match cst_row_hashes_match(const uint64_t *known, int64_t count, uint64_t largest,
                                   const uint64_t *hashes, int64_t rows);

cst_status cst_row_sketch_of(cst_context *context, const cst_view *view, cst_row_sketch *out);

/* hashes: [rows], sorted. */
cst_row_match cst_row_sketch_match(const cst_row_sketch *sketch, const uint64_t *hashes,
                                   int64_t rows);

/* "split.rows=120:0:01f3..,..", the key being "split": rows, repeated ones, the hashes. NULL, with
 * the error, without memory. */
char *cst_row_sketch_print(cst_context *context, cst_scope *scope, const char *key,
                           const cst_row_sketch *sketch);

/* Whether the text is what cst_row_sketch_print writes behind the "=". */
bool cst_row_sketch_read(const char *text, cst_row_sketch *out);

/* ---- in a model's settings ---- */

enum { CST_FITTED_ON_SETTINGS = 3 };

/* Under which names a model notes rows: those of the fit, and those that it was adapted to. */
#define CST_FITTED_KEY "split"
#define CST_ADAPTED_KEY "adapt"

/* Fills setting[0..*count-1] under a key ("split"): the split's name, the number and a hash of its
 * labels ("split.labels=120:9ae1..."), to tell splits of one name apart, and, where `kept` (the
 * rows with the model's members) is given, a sketch of the rows ("split.rows=..."). */
cst_status cst_fitted_on_note(cst_context *context, cst_scope *scope, const char *key,
                              const char *split, const int32_t *labels, int64_t rows,
                              const cst_view *kept, char **setting, size_t *count);

/* Targets as labels: the bits of each in two words, the low one first. words: [2 * count]. */
void cst_target_words(const double *targets, size_t count, int32_t *words);

/* Whether the model was fitted on the rows of this split. Files that do not say were fitted on
 * "oof". */
bool cst_fitted_on(const cst_model *model, const char *split, const int32_t *labels, int64_t rows);

/* The record in a model's file of the rows it was fitted on. */
typedef struct cst_fit_rows {
    const char *split; /* "oof" where the file does not say */
    bool labelled;     /* the file says which labels */
    bool same_labels;  /* these in this order, or none given; false where the file does not say */
    bool sketched;     /* `sketch` is there */
    cst_row_sketch sketch;
} cst_fit_rows;

cst_fit_rows cst_fit_rows_of(const cst_model *model, const int32_t *labels, int64_t rows);

/* For rows under a key (CST_ADAPTED_KEY); false where the model has none such. */
bool cst_fit_rows_under(const cst_model *model, const char *key, const int32_t *labels,
                        int64_t rows, cst_fit_rows *out);

/* Whether name and labels are those of the fit: cst_fitted_on of what was found. */
bool cst_fit_rows_named(const cst_fit_rows *fit, const char *split);

/* ---- compared with a split ---- */

/* Whether rows are those of the fit: beyond what chance makes of predictions that repeat. */
typedef enum cst_seen { CST_SEEN_NONE, CST_SEEN_SOME, CST_SEEN_ALL } cst_seen;

/* Repeats among the rows of the fit, as among rows drawn alike: a share of them has a content that
 * the others have too. */
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
    cst_scope scope;
    bool asked;
    uint64_t *hashes; /* [rows], ascending; NULL: the pool does not have them */
    int64_t rows;
    cst_fit_repeats repeats; /* of the rows that at most one other equals: others are common */
} cst_known_rows;

/* Compares the rows of a split with the model's file. fit: its findings on their labels. view: the
 * rows with the model's members in its order, with labels. Where files of the fit's split are gone
 * a notice says that they were not looked at. */
cst_status cst_rows_seen(cst_context *context, const cst_model *model, cst_pool *pool,
                         const cst_fit_rows *fit, const char *split, const cst_view *view,
                         cst_known_rows *known, cst_row_match *match, cst_seen *seen);
