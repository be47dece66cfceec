/* The pool inside the library: views of its loaded splits for the statistics. After reading, before
 * redundancy. Paper: P_oof and y as every later stage sees them. */
#pragma once

#include "data/pool/view.h"
#include "data/readers/manifest.h"
#include <corestack/folds.h>
#include <corestack/pool.h>

/* All members on all rows of a loaded split; every member must be loaded. Labels are NULL where the
 * split has none. With conditions, the rows are those of condition 0, then of condition 1, ... and
 * the labels are repeated. Storage belongs to the pool. */
cst_status cst_pool_view(cst_context *context, const cst_pool *pool, const char *split,
                         cst_view *out);

/* The same for the given members ([count], loaded); `pointers` ([count]) must outlive the view. */
cst_status cst_pool_view_members(cst_context *context, const cst_pool *pool, const char *split,
                                 const int32_t *members, int32_t count, const float **pointers,
                                 cst_view *out);

/* The same where the pool may miss predictions: a member without a file for the split, or one that
 * is not in the pool (position -1), is NULL in *out. */
cst_status cst_pool_view_there(cst_context *context, const cst_pool *pool, const char *split,
                               const int32_t *members, int32_t count, const float **pointers,
                               cst_view *out);

/* Whether members may lack predictions. */
bool cst_pool_misses(const cst_pool *pool);

/* CST_ERROR_INPUT naming the first member that predicted no row of a loaded split, or has no file
 * for it. */
cst_status cst_pool_need_all(cst_context *context, const cst_pool *pool, const char *split);

/* Gives member k in rows of fold f of a loaded split without conditions the mean of the others'
 * probabilities of classes c with lacks[k][f][c], where others know them. folds: [rows], -1 in rows
 * that stay. Views that were made before are not valid any more. */
cst_status cst_pool_teach(cst_context *context, cst_pool *pool, const char *split,
                          const int32_t *folds, int32_t fold_count, const uint8_t *lacks);

/* log sum_c exp(z_c) of every row's logits z, read from the file of a member of a loaded split.
 * out: [rows] ([conditions * rows] with conditions). CST_ERROR_UNSUPPORTED where the pool has no
 * logits. */
cst_status cst_pool_normalisers(cst_context *context, cst_pool *pool, const char *split,
                                int32_t member, double *out);

/* Fails with the splits that the pool has, and the nearest of them to `split`, which it has not.
 * Returns `status`. */
cst_status cst_fail_split(cst_context *context, cst_status status, const cst_pool *pool,
                          const char *split);

/* Whether the files hold logits. */
bool cst_pool_has_logits(const cst_pool *pool);

/* The manifest's, or NULL. Borrowed. */
const cst_reference_errors *cst_pool_reference_errors(const cst_pool *pool);

/* In columns.c: gives the classes the order that a model has them in, where their names are only
 * those of a header, and nothing is loaded yet. names: [classes]; other names change nothing. */
cst_status cst_pool_order_classes(cst_context *context, cst_pool *pool, const char *const *names);

/* Creates a classification pool with one split from memory. predictions[k]: [rows][classes]
 * float32, C order, copied. names: [members], unique. labels: [rows] in 0..classes-1, or NULL. *out
 * belongs to the caller (cst_pool_free). */
cst_status cst_pool_from_memory(cst_context *context, cst_pool **out, const char *split,
                                const float *const *predictions, const char *const *names,
                                int32_t members, int64_t rows, int32_t classes,
                                const int32_t *labels, cst_output output);

/* A pool without some of its members, for the time of the scope. Splits that are wanted must be
 * loaded before: none can be loaded through it. */
cst_status cst_pool_without(cst_context *context, cst_scope *scope, const cst_pool *whole,
                            const bool *without, cst_pool **out);
/* The pool that `pool` is a part of, or itself. */
const cst_pool *cst_pool_whole(const cst_pool *pool);

/* Loads some members of a split only, like cst_pool_load. members: [count] positions in the pool.
 * The others stay as they are, and their files need not exist. */
cst_status cst_pool_load_members(cst_context *context, cst_pool *pool, const char *split,
                                 const int32_t *members, int32_t count);

/* Returns the family of a member as given in the manifest, or NULL. Borrowed. */
const char *cst_pool_member_family(const cst_pool *pool, int32_t member);

/* Returns the FLOPs of one prediction by a member, as given in the manifest; NaN if not given. */
double cst_pool_member_flops(const cst_pool *pool, int32_t member);

/* Returns the number of parameters of a member, as given in the manifest; NaN if not given. */
double cst_pool_member_params(const cst_pool *pool, int32_t member);

/* Returns the latency of one prediction by a member in milliseconds, as given in the manifest; NaN
 * if not given. */
double cst_pool_member_latency_ms(const cst_pool *pool, int32_t member);

/* Returns the peak memory that a prediction by a member needs, in bytes, as given in the manifest;
 * NaN if not given. */
double cst_pool_member_memory_bytes(const cst_pool *pool, int32_t member);

typedef struct cst_member_ensemble {
    cst_ensemble_kind kind;
    const char *of; /* the group's name, borrowed; NULL without a tag */
    int32_t passes; /* forward passes behind the member's predictions; 1 without a tag and of a
                       soup, which is one network whatever the manifest says */
} cst_member_ensemble;

/* Returns the ensemble that a member belongs to according to the manifest. */
cst_member_ensemble cst_pool_member_ensemble(const cst_pool *pool, int32_t member);

/* Returns non-zero for a split of out-of-distribution inputs, which has no labels. */
int cst_pool_is_ood(const cst_pool *pool, const char *split);

/* Returns the family of a condition, e.g. "noise"; NULL if not given. Borrowed. */
const char *cst_pool_condition_shift(const cst_pool *pool, const char *split, int32_t condition);

/* Returns the kind of a condition, e.g. "gaussian_noise"; NULL if not given. Borrowed. */
const char *cst_pool_condition_kind(const cst_pool *pool, const char *split, int32_t condition);

/* Returns the severity of a condition; NaN if not given. */
double cst_pool_condition_severity(const cst_pool *pool, const char *split, int32_t condition);

/* Returns the domain of a split, e.g. "sketches", as given in the manifest; NULL if not given.
 * Borrowed. */
const char *cst_pool_domain(const cst_pool *pool, const char *split);

/* Returns the number of training samples of each class [classes], as given in the manifest; NULL if
 * not given. Borrowed. */
const int64_t *cst_pool_training_counts(const cst_pool *pool);

/* Returns the folds [rows] of a loaded split, numbered from 0; NULL if not loaded or not given.
 * Borrowed. */
const int32_t *cst_pool_folds(const cst_pool *pool, const char *split);

/* Returns the group ids [rows] of a loaded split; NULL if not loaded or not given. Borrowed. */
const int64_t *cst_pool_groups(const cst_pool *pool, const char *split);

/* Whether its folds are only those that the members' tables hold. */
bool cst_pool_folds_adopted(const cst_pool *pool, const char *split);

/* Keys of the order [rows] of a loaded split, a smaller one earlier; NULL if not given. Borrowed.
 */
const int64_t *cst_pool_order_of(const cst_pool *pool, const char *split);

/* The row weights [rows] of a loaded split as given, finite and non-negative with one above 0; NULL
 * if not loaded or not given. Borrowed. Classification and regression only.
 * docs/method.md#row-weights. */
const double *cst_pool_weights(const cst_pool *pool, const char *split);

/* Checked predictions [count][classes] of rows of a loaded split by a method of the user's own.
 * rows: [count] of the split; NULL: the same. CST_ERROR_MISMATCH: of another shape. */
cst_status cst_pool_own(cst_context *context, const cst_pool *pool, const char *split,
                        const cst_own_predictions *given, const int64_t *rows, int64_t count,
                        float *out);

/* The file of a split where given->path is one for each, "SPLIT:FILE,SPLIT:FILE"; else the path.
 * CST_ERROR_INPUT: none is of this split. */
cst_status cst_pool_own_file(cst_context *context, cst_scope *scope, const cst_pool *pool,
                             const char *split, const cst_own_predictions *given, const char **out);
bool cst_pool_own_of_splits(const cst_pool *pool, const char *path);

/* ---- the rows of a split that count, those with a weight above 0 and a prediction, for fits,
 * evaluations and comparisons; predictions use all rows. docs/method.md#row-weights. ---- */

/* A view without index and what stands beside it. Where no row is left out all of it is the
 * pool's own. */
typedef struct cst_counted {
    cst_view view;         /* with weights where they differ from each other, at a mean of 1 */
    int64_t samples;       /* rows of one condition */
    const int32_t *labels; /* [samples], or NULL */
    const int32_t *folds;  /* [samples] numbered without gaps, or NULL */
    const int64_t *groups; /* [samples], or NULL */
    const int64_t *rows;   /* [samples]: the row of the split that each is; NULL: the same */
    cst_scope scope;       /* of what is not the pool's */
} cst_counted;

/* Of a loaded split, the given members ([count], loaded), or all of them where `members` is NULL.
 * It reads from the pool, which must outlive it and stay as it is. Free with cst_counted_close. */
cst_status cst_counted_open(cst_context *context, const cst_pool *pool, const char *split,
                            const int32_t *members, int32_t count, cst_counted *out);
/* All members, also without the rows marked in `without` [rows of the split]. */
cst_status cst_counted_without(cst_context *context, const cst_pool *pool, const char *split,
                               const uint8_t *without, cst_counted *out);
void cst_counted_close(cst_context *context, cst_counted *counted);

/* ---- folds ---- */

/* How folds are made where the pool has none. */
typedef struct cst_fold_plan {
    int32_t count;
    int kind; /* choice of folds.kind: 1 is time */
    int64_t gap;
} cst_fold_plan;

/* Number of folds of a vector that cst_folds_check accepts: the largest fold plus one. */
int32_t cst_folds_count(const int32_t *folds, int64_t rows);

/* Every label's rows are spread over all folds: targets [rows][labels] of 0, 1 and NaN. groups:
 * rows that no fold may separate, or NULL. */
cst_status cst_folds_labels(cst_context *context, const double *targets, int32_t labels,
                            const int64_t *groups, int64_t rows, int32_t folds, uint64_t seed,
                            int32_t *out);

/* Folds for the rows of a view that leaves out fold `fold`: the remaining folds renumbered, or two
 * new ones, stratified by label or target, where fewer than two remain. *out [in->rows] is the
 * caller's. `rows` is the view that `folds` belongs to. */
cst_status cst_folds_inside(cst_context *context, const cst_view *in, const int32_t *folds,
                            int64_t rows, int32_t fold_count, int32_t fold, uint64_t seed,
                            int32_t **out, int32_t *count);

/* Blocks 0..*count-1 of rows that follow one another, of similar size, at most `most`; rows with
 * equal keys (NULL: their places) are in one. blocks: [rows]. time: [rows], how many rows have the
 * key of the row or a smaller one; or NULL. */
cst_status cst_time_blocks(cst_context *context, const int64_t *keys, int64_t rows, int32_t most,
                           int32_t *blocks, int64_t *time, int32_t *count);

/* Whether a text begins with a date, 2021-03-14 or 20210314. */
bool cst_is_date(const char *text);
/* Whether nearly all of the first rows' ids do. */
bool cst_pool_ids_are_dates(const cst_pool *pool, const char *split, int64_t rows);

/* Stretches 0..count-1 of neighbouring targets, about as many rows in each: out [rows]. targets:
 * [rows][outputs]; of several outputs by the sum of the standardised targets. count >= 1. */
cst_status cst_target_stretches(cst_context *context, const double *targets, int32_t outputs,
                                int64_t rows, int64_t count, int32_t *out);

/* Stretches that groups are spread over evenly; single rows are in finer ones. */
enum { CST_GROUP_STRETCHES = 10 };

/* Checks a fold vector [rows]. CST_ERROR_INPUT unless it has two folds or more, numbered 0..L-1
 * without a gap. Notices for classes that are missing from a fold, or in one fold only.
 * labels: [rows], or NULL to check the numbering only. */
cst_status cst_folds_check(cst_context *context, const int32_t *folds, const int32_t *labels,
                           int64_t rows);

/* ---- a pool whose split is divided in two at random: rows that are fitted on, under the split's
 * own name, and rows that are held out, as one split more ---- */

/* Rows, cases or images. */
typedef struct cst_units {
    const char *split; /* for messages, with `unit`: "rows", "cases", "images" */
    const char *unit;
    int64_t count;
    const int32_t *strata; /* [count], >= 0: each is divided alike; NULL: there is one */
    const int64_t *groups; /* [count]: held out as a whole; NULL: each unit by itself */
    bool classes;          /* the strata are classes, of which a fit needs one row each */
} cst_units;

/* held [count]: which units are held out, a share of `share` (above 0, below 1) of each stratum, as
 * near as whole numbers and whole groups allow. Something of each class stays. CST_ERROR_INPUT for
 * a class with one row, and where there is nothing to divide. */
cst_status cst_divide(cst_context *context, const cst_units *units, double share, uint64_t seed,
                      bool *held);

typedef struct cst_pool_parts cst_pool_parts;

/* How a pool is divided. Of detections whoever reads the files divides the images. */
typedef struct cst_division {
    int32_t split; /* position of the split whose rows are divided */
    int32_t held;  /* position of the split that has those held out */
    double share;
    uint64_t seed;
    const int64_t *rows[2]; /* rows of the whole split that are fitted on, and held out */
    int64_t count[2];
    const cst_pool *whole;
    const int64_t *held_units; /* [held_count]: rows or cases of the split by place, images by id */
    int64_t held_count;
    cst_scope *scope; /* of the parts */
} cst_division;

/* Loads the split (not of detections) and divides what counts in it: rows that count by class or
 * target, groups as a whole; cases of maps. The whole must outlive the parts and is not to be used
 * before they are freed. */
cst_status cst_pool_divide(cst_context *context, cst_pool *whole, const char *split, double share,
                           uint64_t seed, cst_pool_parts **out);
/* Other splits that were loaded stay loaded in the whole. NULL is accepted. */
void cst_pool_parts_free(cst_context *context, cst_pool_parts *parts);

cst_pool *cst_parts_pool(cst_pool_parts *parts);
/* Name of the split with the rows that are held out. */
const char *cst_parts_held(const cst_pool_parts *parts);

/* How the pool was divided; NULL: it was not. */
cst_division *cst_pool_division(const cst_pool *pool);

/* Notes which of [count] units of a divided pool are held out; names: theirs, or NULL: places. */
cst_status cst_division_note(cst_context *context, cst_division *division, const bool *held,
                             const int64_t *names, int64_t count);
