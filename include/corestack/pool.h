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

/* Returns "classification", "regression", "segmentation" or "detection"; NULL for any other value.
 * Static. */
CST_API const char *cst_task_name(cst_task task);

/* Order of the axes of segmentation maps. */
typedef enum cst_layout {
    CST_LAYOUT_AUTO = 0,          /* the classes are the one axis that has as many */
    CST_LAYOUT_CHANNELS_LAST = 1, /* [cases, height, width, classes] */
    CST_LAYOUT_CHANNELS_FIRST = 2 /* [cases, classes, height, width] */
} cst_layout;

/* Label of pixels to ignore, if the pool does not define it. */
#define CST_IGNORE_LABEL 255

/* What a folder or a list of files does not state. Zero-initialise, then set the fields that should
 * differ from the default. */
typedef struct cst_pool_config {
    int outside;         /* non-zero: a manifest or folder may refer to files outside it */
    int output_given;    /* non-zero: use `output`; else that of the manifest, or probability */
    cst_output output;   /* what the members' numbers are */
    const char *labels;  /* labels file for a list of files or a folder; NULL: the manifest's, or
                            labels.npy etc. */
    const char *ids;     /* sample ids file, or NULL */
    const char *folds;   /* fold vector file, or NULL */
    const char *groups;  /* group ids file, or NULL */
    const char *weights; /* file of row weights, or NULL */
    uint64_t zip_limit;  /* largest uncompressed size of an npz member in bytes; 0: 64 GiB */
    int task_given;      /* non-zero: use `task`, which must agree with a manifest; else that of the
 manifest, or classification */
    cst_task task;
    int ignore_given;      /* segmentation, non-zero: use `ignore`; else that of the manifest, or
                              CST_IGNORE_LABEL */
    int32_t ignore;        /* label of pixels to ignore */
    cst_layout layout;     /* segmentation: used unless CST_LAYOUT_AUTO */
    int32_t classes;       /* number of classes if there is no manifest; 0: that of the files */
    const char *id_column; /* tables: the column of the sample ids, by name or by its number from 1;
                              NULL: found by its name, or the first column of text */
    const char *label_column; /* tables: the column of the labels or targets, likewise; NULL: found
                                 by its name (y, label, target, ...) */
    const char *const *class_names; /* names of the classes (of a regression: outputs) in their
                                       order if there is no manifest, ending with NULL; NULL: those
                                       of labels that are text, or of the first CSV header */
    int missing;                    /* non-zero: members may lack predictions: cst_pool_read */
    const char *domains;            /* file of the domain of each row, or NULL */
    int unlabelled;                 /* 1: rows of a classification may lack their label (-1 in an
                                       array, an empty cell in a table): cst_pool_labels has -1
                                       there. For cst_online only. 2: labels are not needed: a split
                                       in which one is missing, or is none, has no labels */
} cst_pool_config;

/* Opens a manifest (a .json file), a folder (with a pool.json, or else with prediction files) or
 * one CSV file (as cst_pool_open_files). Only the manifest, the file headers and the first rows of
 * CSV files are read; of labels that are text, all. config: NULL for the defaults. *out belongs to
 * the caller (cst_pool_free).
 *
 * In a folder without pool.json, oof_NAME.npy and test_NAME.npy, or NAME.oof.npy and NAME.test.npy,
 * are the predictions of member NAME on the splits "oof" and "test" ('_' and '.' are
 * interchangeable; .npz, .csv, .tsv and .safetensors work as well). If no file has such a prefix or
 * suffix, each NAME.npy is a member of the single split "oof". sub_NAME, submission_NAME and
 * pred_NAME are of "test" where there is an oof_NAME or nothing has labels. Labels that nothing
 * names are a column of the members' CSV files (y, target, ... or label_column). The NAMEs labels
 * (or y), ids, folds, groups and weights are not members but data of the split; without prefix or
 * suffix they belong to "oof".
 *
 * Shapes: [rows, classes], or [conditions, rows, classes] for a split with conditions. For two
 * classes also [rows] or [rows, 1], the probability (or logit) of class 1. For regression: [rows]
 * or [rows, outputs], finite; the same for targets. CSV columns are matched
 * to the classes by their names, in any order: those of the manifest, of class_names, of labels
 * that are text, or of the first header; the names 0, 1, 2, ... are class numbers. */
CST_API cst_status cst_pool_open(cst_context *context, cst_pool **out, const char *path,
                                 const cst_pool_config *config);

/* Creates a pool with one split, "oof", from `count` prediction files. Members are named after the
 * files, without "oof_", ".oof", "test_", "sub_", "submission_", "pred_" and the extension. A path
 * may select an array of an npz ("all.npz#resnet50"), a tensor of a safetensors file
 * ("all.safetensors#resnet50") or a column of a CSV file ("all.csv#resnet50", which is also
 * "resnet50:cat", "resnet50:dog", ...). A single CSV file with several members ("id, y, fold,
 * resnet50, vgg") is a pool by itself: ids, labels, folds, groups and weights are taken from their
 * columns, unless `config` names files. config: NULL for the defaults. *out belongs to the caller
 * (cst_pool_free). */
CST_API cst_status cst_pool_open_files(cst_context *context, cst_pool **out,
                                       const char *const *paths, size_t count,
                                       const cst_pool_config *config);

/* Data type of the elements of an array, in native byte order. */
typedef enum cst_number {
    CST_NUMBER_FLOAT32 = 0,
    CST_NUMBER_FLOAT64 = 1,
    CST_NUMBER_FLOAT16 = 2
} cst_number;

/* A matrix in memory. Steps are in bytes and may be negative: C order, Fortran order,
 * every second row, rows backwards. `data` is the element of row 0 and column 0. */
typedef struct cst_array {
    const void *data;
    cst_number type;
    int64_t row_step;
    int64_t column_step;
} cst_array;

/* The split that cst_pool_from_arrays creates. Zero-initialise, then set the fields that apply. */
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
    const double *latency_ms;   /* [members] of one prediction in milliseconds, the same */
    const double *params;       /* [members] number of parameters, the same */
    const double *memory_bytes; /* [members] peak memory of a prediction in bytes, the same */
    const int32_t *labels;      /* [rows] in 0..classes-1, or NULL */
    const double *targets;      /* [rows][outputs] of a regression, or NULL */
    const int64_t *folds;       /* [rows], at least 0, renumbered in increasing order; or NULL */
    const int64_t *groups;      /* [rows], any numbers, or NULL */
    const double *weights;      /* [rows] row weights (docs/method.md#row-weights), or NULL */
    int missing;                /* non-zero: members may lack predictions: cst_pool_read */
    const char *const *domains; /* [rows] name of each row's domain, copied; NULL (or "") for a row
                                   without one; or NULL */
} cst_pool_arrays;

/* Up to this many bytes as float32, all members together, cst_pool_from_arrays copies. */
#define CST_ARRAYS_COPIED ((size_t)16 << 20)

/* Creates a pool with one split from arrays of any layout. Every row is checked as in
 * cst_pool_load, and the pool contains the same numbers as one read from files with these arrays.
 * Predictions of more than CST_ARRAYS_COPIED bytes are not copied but read and converted in place,
 * a block of rows at a time, so the arrays must stay unchanged for the lifetime of the pool
 * (cst_pool_predictions then returns NULL; use cst_pool_read). Everything else is copied. *out
 * belongs to the caller (cst_pool_free). */
CST_API cst_status cst_pool_from_arrays(cst_context *context, cst_pool **out,
                                        const cst_pool_arrays *arrays);

/* Reads every member of a split, joins the rows by id, converts to float32 probabilities and checks
 * them. Does nothing if the split is already loaded. Messages count rows and columns from 0 as in
 * NumPy, lines and columns of CSV files from 1.
 *
 * Labels, predictions, folds, groups and weights may be npy, npz, safetensors or CSV. Rows are in
 * the order of the labels (or of the ids file). A file with ids is joined by id; a missing,
 * duplicate or extra id is an error. Probabilities may exceed [0, 1] by 1e-6 and their sum may
 * differ from 1 by 1e-3; rows are then divided by their sum. Logits go through a softmax. Folds are
 * renumbered from 0 in increasing order, and a negative fold is an error. Groups that are strings
 * are numbered by first appearance. */
CST_API cst_status cst_pool_load(cst_context *context, cst_pool *pool, const char *split);

/* Frees a pool; NULL is accepted. */
CST_API void cst_pool_free(cst_context *context, cst_pool *pool);

/* Returns path `index` of the files that the pool names, over all splits: labels, annotations, ids,
 * folds, groups, weights and predictions, then training counts; NULL beyond. An array of an archive
 * is "a.npz#name", likewise a tensor; a folder of cases is the folder. Of files in parts, every
 * part is listed. The manifest is not included. Borrowed. */
CST_API const char *cst_pool_file(const cst_pool *pool, size_t index);

/* Returns 1 if a file of this name (without a path), placed in the folder that the pool was opened
 * from, would become part of the pool the next time, else 0. This is only possible in folders
 * without a manifest; it is 0 for pools from a manifest, from listed files or from arrays, and for
 * "pool.json" itself. For programs that write next to their inputs. */
CST_API int cst_pool_takes_name(const cst_pool *pool, const char *name);

/* Returns the task of the pool. */
CST_API cst_task cst_pool_task(const cst_pool *pool);

/* Returns the number of members. */
CST_API int32_t cst_pool_members(const cst_pool *pool);

/* Returns the position of a member by name, or -1. */
CST_API int32_t cst_pool_member_index(const cst_pool *pool, const char *name);

/* Returns the number of classes; for regression, of outputs. For programs that read a pool. */
CST_API int32_t cst_pool_classes(const cst_pool *pool);

/* Returns the name of class (or output) `c`, or NULL if the pool has no names. Borrowed. */
CST_API const char *cst_pool_class_name(const cst_pool *pool, int32_t c);

/* Returns the name of member `member`; NULL beyond the last. Borrowed. */
CST_API const char *cst_pool_member_name(const cst_pool *pool, int32_t member);

/* Returns the number of splits. */
CST_API int32_t cst_pool_splits(const cst_pool *pool);

/* Returns the name of split `index`; NULL beyond the last. Borrowed. */
CST_API const char *cst_pool_split_name(const cst_pool *pool, int32_t index);

/* Returns non-zero if the pool names a file (or holds data) of this member for the split. */
CST_API int cst_pool_member_has_split(const cst_pool *pool, int32_t member, const char *split);

/* Returns the number of conditions (corruptions) of a split; 0 if it has none. */
CST_API int32_t cst_pool_conditions(const cst_pool *pool, const char *split);

/* Returns the split with the same samples without conditions, for comparison with a split with
 * conditions, as given in the manifest; NULL if not given. Borrowed. */
CST_API const char *cst_pool_clean_split(const cst_pool *pool, const char *split);

/* Returns non-zero if the pool has a split of this name. */
CST_API int cst_pool_has_split(const cst_pool *pool, const char *split);

/* Returns the number of rows of a loaded split (per condition, if it has conditions); -1 if it is
 * not loaded. For programs that read a pool. */
CST_API int64_t cst_pool_rows(const cst_pool *pool, const char *split);

/* Returns the labels [rows] of a loaded split; NULL if not loaded or not given. Borrowed. */
CST_API const int32_t *cst_pool_labels(const cst_pool *pool, const char *split);

/* Returns the targets [rows][outputs] of a loaded split of a regression (repeated for each
 * condition, if it has conditions); NULL if not loaded or not given. Borrowed. For programs that
 * read a pool. */
CST_API const double *cst_pool_targets(const cst_pool *pool, const char *split);

/* Returns the sample id of a row of a loaded split, integers in decimal; NULL if there are no ids.
 * Borrowed. */
CST_API const char *cst_pool_id(const cst_pool *pool, const char *split, int64_t row);

/* Returns the float32 probabilities of a member on a loaded split, [rows][classes], or
 * [conditions][rows][classes]; NULL if not loaded, or if they stay on disk because they exceed
 * their share of the memory limit (cst_context_set_memory). Borrowed. For programs that read a
 * pool. */
CST_API const float *cst_pool_predictions(const cst_pool *pool, const char *split, int32_t member);

/* Copies rows first..first+count-1 of a member's predictions, in memory or on disk, to out
 * [count][classes]. With conditions, rows are numbered through all conditions: those of condition 0
 * first, then those of 1, ...
 *
 * In a pool opened with `missing`, a row of a member may be NaN in every column, and a file with
 * ids may lack some of them; in a prediction, members may lack their file for the split. An absent
 * row reads as what the other members suggest: a regression of the member's log-probabilities
 * (values for a regression) on theirs, computed without labels. Fits use these rows; rows that no
 * member predicted, and rows with a negative fold, are left out of fits and evaluations.
 * Predictions use the members that are present on a row, as cst_predictor_predict_present does.
 * Rows may be absent in classification and regression, files in every task. */
CST_API cst_status cst_pool_read(cst_context *context, const cst_pool *pool, const char *split,
                                 int32_t member, int64_t first, int64_t count, float *out);

#ifdef __cplusplus
}
#endif
#endif
