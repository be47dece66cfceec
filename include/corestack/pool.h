/*
 * A pool: the saved predictions of K models on one or more splits of the same task, joined by
 * sample id and checked. Paper: section "Preliminaries and Pipeline Overview".
 */
#ifndef CORESTACK_POOL_H
#define CORESTACK_POOL_H

#include <corestack/context.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct cst_pool cst_pool;

typedef enum cst_output { CST_OUTPUT_PROBABILITY = 0, CST_OUTPUT_LOGIT = 1 } cst_output;

/* What the members predict. Values are stored in model files. */
typedef enum cst_task {
    CST_TASK_CLASSIFICATION = 0, /* a distribution over classes for each sample */
    CST_TASK_REGRESSION = 1,     /* one or more values for each sample */
    CST_TASK_SEGMENTATION = 2,   /* a distribution over classes for each pixel of an image */
    CST_TASK_DETECTION = 3       /* boxes with a category and a score for each image */
} cst_task;

/* "classification", "regression", "segmentation" or "detection"; NULL for any other value. */
CST_API const char *cst_task_name(cst_task task);

/* How the axes of segmentation maps lie. */
typedef enum cst_layout {
    CST_LAYOUT_AUTO = 0,          /* the classes are the one axis that has as many */
    CST_LAYOUT_CHANNELS_LAST = 1, /* [cases, height, width, classes] */
    CST_LAYOUT_CHANNELS_FIRST = 2 /* [cases, classes, height, width] */
} cst_layout;

/* Label of pixels that do not count, where the pool does not say. */
#define CST_IGNORE_LABEL 255

/* What a folder or a list of files cannot say of itself. Zero-initialise; all fields have a
 * default. */
typedef struct cst_pool_config {
    int outside;       /* non-zero: a manifest or folder may lead to files outside */
    int output_given;  /* non-zero: `output` holds; otherwise the manifest's word, or probability */
    cst_output output; /* what the members' numbers are */
    const char *labels;  /* labels file for a list of files or a folder; NULL: the manifest's, or
                            labels.npy etc. */
    const char *ids;     /* sample ids file, or NULL */
    const char *folds;   /* fold vector file, or NULL */
    const char *groups;  /* group ids file, or NULL */
    const char *weights; /* file of row weights, or NULL */
    uint64_t zip_limit;  /* largest uncompressed size of an npz member in bytes; 0: 64 GiB */
    int task_given;      /* non-zero: `task` holds, which must be the manifest's where there is one;
                            otherwise the manifest's, or classification */
    cst_task task;
    int ignore_given;  /* segmentation, non-zero: `ignore` holds; otherwise the manifest's word, or
                          CST_IGNORE_LABEL */
    int32_t ignore;    /* label of pixels that do not count */
    cst_layout layout; /* segmentation: other than CST_LAYOUT_AUTO, it holds */
    int32_t classes;   /* number of classes where no manifest says it; 0: what the files have */
} cst_pool_config;

/* Opens a manifest (a .json file) or a folder (with a pool.json, else every prediction file in it),
 * and reads nothing but the manifest and the headers. `config` may be NULL. *out is the caller's to
 * free.
 *
 * A folder without pool.json: oof_NAME.npy and test_NAME.npy, or NAME.oof.npy and NAME.test.npy
 * ('_' and '.' do as well before as after; also .npz, .csv, .tsv, .safetensors), are the
 * predictions of member NAME on the splits "oof" and "test"; where no file is marked so, each
 * NAME.npy is a member of the one split "oof". The NAMEs labels (or y), ids, folds, groups and
 * weights are not members but the split's; unmarked they belong to "oof".
 *
 * Shapes: [rows, classes], or [conditions, rows, classes] for a split with conditions. For two
 * classes also [rows] or [rows, 1], the probability (or logit) of class 1. Of a regression: [rows]
 * or [rows, outputs] finite numbers, targets likewise. Columns of a CSV whose
 * header names the classes are matched by name. */
CST_API cst_status cst_pool_open(cst_context *context, cst_pool **out, const char *path,
                                 const cst_pool_config *config);

/* A pool of one split, "oof", from `count` prediction files named by their stems (without "oof_",
 * ".oof", "test_" and ".test", as in a folder). A path may choose an array of an npz:
 * "all.npz#resnet50", or a tensor of a safetensors file: "all.safetensors#resnet50". */
CST_API cst_status cst_pool_open_files(cst_context *context, cst_pool **out,
                                       const char *const *paths, size_t count,
                                       const cst_pool_config *config);

/* A pool of one split from memory: predictions[k] is [rows][classes] float32, C order, and is
 * copied; labels [rows] in 0..classes-1, or NULL; names[k] must differ. */
CST_API cst_status cst_pool_from_memory(cst_context *context, cst_pool **out, const char *split,
                                        const float *const *predictions, const char *const *names,
                                        int32_t members, int64_t rows, int32_t classes,
                                        const int32_t *labels, cst_output output);

/* The same for a regression: predictions[k] is [rows][outputs] finite values, targets
 * [rows][outputs] or NULL. */
CST_API cst_status cst_pool_from_values(cst_context *context, cst_pool **out, const char *split,
                                        const float *const *predictions, const char *const *names,
                                        int32_t members, int64_t rows, int32_t outputs,
                                        const double *targets);

/* How the numbers of an array are stored, in the machine's byte order. */
typedef enum cst_number {
    CST_NUMBER_FLOAT32 = 0,
    CST_NUMBER_FLOAT64 = 1,
    CST_NUMBER_FLOAT16 = 2
} cst_number;

/* A matrix somewhere in memory. The steps are in bytes and may be negative: C order, Fortran order,
 * every second row, rows backwards. `data` is the element of row 0 and column 0. */
typedef struct cst_array {
    const void *data;
    cst_number type;
    int64_t row_step;
    int64_t column_step;
} cst_array;

/* The split that cst_pool_from_arrays makes. Zero-initialise, then set what there is. */
typedef struct cst_pool_arrays {
    const char *split; /* NULL: "oof" */
    cst_task task;     /* CST_TASK_CLASSIFICATION or CST_TASK_REGRESSION */
    cst_output output; /* what the members' numbers are; not read for a regression */
    int32_t members;
    int64_t rows;
    int32_t classes; /* of a regression: outputs */
    int32_t columns; /* of every array: 0 for as many as classes, or 1: class 1 of two */
    const cst_array *predictions;   /* [members] */
    const char *const *names;       /* [members], all different */
    const char *const *class_names; /* [classes], or NULL */
    const double *flops; /* [members] of one prediction, 0 to 1e30, NaN where not known; or NULL */
    const int32_t *labels; /* [rows] in 0..classes-1, or NULL */
    const double *targets; /* [rows][outputs] of a regression, or NULL */
    const int64_t *folds;  /* [rows], at least 0, numbered anew in increasing order; or NULL */
    const int64_t *groups; /* [rows], any numbers, or NULL */
    const double *weights; /* [rows] row weights as cst_pool_weights describes them, or NULL */
} cst_pool_arrays;

/* Up to this many bytes as float32, all members together, cst_pool_from_arrays copies. */
#define CST_ARRAYS_COPIED ((size_t)16 << 20)

/* A pool of one split from arrays of any layout. Every row is checked as cst_pool_load does, and
 * the pool gives the same numbers as one read from files with these arrays. Predictions beyond
 * CST_ARRAYS_COPIED are not copied: they are read and converted a block of rows at a time where
 * they lie, so the arrays must stay as they are for as long as the pool lives (cst_pool_predictions
 * then gives NULL; cst_pool_read reads). Everything else is copied. */
CST_API cst_status cst_pool_from_arrays(cst_context *context, cst_pool **out,
                                        const cst_pool_arrays *arrays);

/* Reads, joins by id, converts to float32 probabilities and checks every member of a split. Does
 * nothing if it was loaded already. Rows and columns in messages count from 0 as in NumPy, lines
 * and columns of CSV files from 1.
 *
 * Labels, predictions, folds, groups and weights may be npy, npz, safetensors or CSV. The order of
 * rows is that of the labels (or of the ids file); a file that brings ids of its own is joined to
 * it by id, and a missing, doubled or extra id is an error. Probabilities may leave [0, 1] by 1e-6
 * and their sum may differ from 1 by 1e-3; rows are divided by their sum. Logits go through a
 * softmax. Fold numbers are renumbered 0.. in increasing order, and a negative one is an error;
 * groups that are strings are numbered by first appearance. */
CST_API cst_status cst_pool_load(cst_context *context, cst_pool *pool, const char *split);

/* The same for some members only ([count] positions in the pool); the others stay as they are.
 * Files of members that are not asked for need not exist. */
CST_API cst_status cst_pool_load_members(cst_context *context, cst_pool *pool, const char *split,
                                         const int32_t *members, int32_t count);

CST_API void cst_pool_free(cst_context *context, cst_pool *pool);

/* Paths of the files that the pool names, of every split: labels, annotations, ids, folds, groups,
 * weights, predictions; then training counts; an array of an archive as "a.npz#name", a tensor
 * likewise, and a folder of cases as itself. The manifest is not among them. NULL beyond. Borrowed.
 */
CST_API const char *cst_pool_file(const cst_pool *pool, size_t index);

/* Whether a file of this name (without a path), put into the folder that the pool was opened from,
 * would be a part of it the next time: 1, or 0. Only folders without a manifest take files by their
 * names: it is 0 for the pool of a manifest, of files that were named or of arrays; and for
 * "pool.json" itself, which would be the manifest. For programs that write beside what they read.
 */
CST_API int cst_pool_takes_name(const cst_pool *pool, const char *name);

CST_API cst_task cst_pool_task(const cst_pool *pool);
CST_API int32_t cst_pool_members(const cst_pool *pool);
/* Position of a member by name, or -1. */
CST_API int32_t cst_pool_member_index(const cst_pool *pool, const char *name);
/* Number of classes; of a regression: of outputs. */
CST_API int32_t cst_pool_classes(const cst_pool *pool);
/* Name of a class (output), or NULL where the pool gives only a count. Borrowed. */
CST_API const char *cst_pool_class_name(const cst_pool *pool, int32_t c);
CST_API const char *cst_pool_member_name(const cst_pool *pool, int32_t member); /* borrowed */
CST_API const char *cst_pool_member_family(const cst_pool *pool,
                                           int32_t member); /* NULL if not given; borrowed */
/* Costs of one prediction as the manifest gives them; NaN where it does not. */
CST_API double cst_pool_member_flops(const cst_pool *pool, int32_t member);
CST_API double cst_pool_member_params(const cst_pool *pool, int32_t member);
CST_API double cst_pool_member_latency_ms(const cst_pool *pool, int32_t member);

/* Ensembles whose parts may be members of a pool, as the manifest tags them. */
typedef enum cst_ensemble_kind {
    CST_ENSEMBLE_NONE = 0,
    CST_ENSEMBLE_DEEP = 1,       /* "deep-ensemble": one architecture, several seeds */
    CST_ENSEMBLE_SNAPSHOT = 2,   /* "snapshot": checkpoints of one run */
    CST_ENSEMBLE_MC_DROPOUT = 3, /* "mc-dropout": stochastic passes of one network */
    CST_ENSEMBLE_SWAG = 4,       /* "swag": samples around averaged weights */
    CST_ENSEMBLE_SOUP = 5        /* "soup": averaged weights */
} cst_ensemble_kind;

typedef struct cst_member_ensemble {
    cst_ensemble_kind kind;
    const char *of; /* the group's name, borrowed; NULL without a tag */
    int32_t passes; /* forward passes behind the member's predictions; 1 without a tag and of a
                       soup, which is one network whatever the manifest says */
} cst_member_ensemble;

/* The ensemble that the manifest says the member is a part of. */
CST_API cst_member_ensemble cst_pool_member_ensemble(const cst_pool *pool, int32_t member);

CST_API int32_t cst_pool_splits(const cst_pool *pool);
CST_API const char *cst_pool_split_name(const cst_pool *pool, int32_t index); /* borrowed */
/* Non-zero for a split of out-of-distribution inputs, which has no labels. */
CST_API int cst_pool_is_ood(const cst_pool *pool, const char *split);
/* Non-zero if the pool names a file (or holds data) of this member for the split. */
CST_API int cst_pool_member_has_split(const cst_pool *pool, int32_t member, const char *split);
/* Number of conditions (corruptions) of a split; 0 where it has none. */
CST_API int32_t cst_pool_conditions(const cst_pool *pool, const char *split);
/* Of one condition: its family ("noise"), kind ("gaussian_noise") and severity. NULL, NULL and NaN
 * where not given. */
CST_API const char *cst_pool_condition_shift(const cst_pool *pool, const char *split,
                                             int32_t condition);
CST_API const char *cst_pool_condition_kind(const cst_pool *pool, const char *split,
                                            int32_t condition);
CST_API double cst_pool_condition_severity(const cst_pool *pool, const char *split,
                                           int32_t condition);

/* The split that the manifest says holds the same task's samples without the conditions, for
 * differences to clean; NULL where it does not say. Borrowed. */
CST_API const char *cst_pool_clean_split(const cst_pool *pool, const char *split);
/* What the manifest calls the inputs of a split ("sketches"); NULL where it does not. Borrowed. */
CST_API const char *cst_pool_domain(const cst_pool *pool, const char *split);
/* Training samples of each class [classes], as the manifest gives them; NULL where it does not.
 * Borrowed. */
CST_API const int64_t *cst_pool_training_counts(const cst_pool *pool);

CST_API int cst_pool_has_split(const cst_pool *pool, const char *split);
/* Rows of a loaded split (of each condition, where it has conditions); -1 if it is not loaded. */
CST_API int64_t cst_pool_rows(const cst_pool *pool, const char *split);
/* Of a loaded split; NULL if not loaded or not given. Borrowed. */
CST_API const int32_t *cst_pool_labels(const cst_pool *pool, const char *split);
/* Targets [rows][outputs] of a loaded split of a regression (with conditions, repeated for each);
 * NULL if not loaded or not given. Borrowed. */
CST_API const double *cst_pool_targets(const cst_pool *pool, const char *split);
CST_API const int32_t *cst_pool_folds(const cst_pool *pool, const char *split);
CST_API const int64_t *cst_pool_groups(const cst_pool *pool, const char *split);
/* Row weights [rows] of a loaded split as they were given; NULL if not loaded or not given.
 * Borrowed. Each is finite and not negative, and one at least is above 0. Their scale does not
 * matter. A row of weight 0 takes no part in a fit, an evaluation or a comparison: the result has
 * the bytes that it would have without the row. The others count in losses and scores in
 * proportion to their weights, as docs/method.md says in section "Row weights". Predictions are
 * made of every row. Classification and regression. */
CST_API const double *cst_pool_weights(const cst_pool *pool, const char *split);
/* Sample id of a row of a loaded split; NULL where it has none. Integers in decimal. Borrowed. */
CST_API const char *cst_pool_id(const cst_pool *pool, const char *split, int64_t row);
/* [rows][classes] float32 probabilities of a loaded split ([conditions][rows][classes] where it has
 * conditions); NULL if not loaded, or if they stay on disk because they are larger than their share
 * of the context's memory (cst_context_set_memory). Borrowed. */
CST_API const float *cst_pool_predictions(const cst_pool *pool, const char *split, int32_t member);

/* Rows first..first+count-1 of what cst_pool_predictions would give, wherever they are, into out
 * [count][classes]; with conditions, the rows of condition 0 come first, then those of 1, ... */
CST_API cst_status cst_pool_read(cst_context *context, const cst_pool *pool, const char *split,
                                 int32_t member, int64_t first, int64_t count, float *out);

#ifdef __cplusplus
}
#endif
#endif
