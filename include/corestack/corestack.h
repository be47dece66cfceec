/* The stable interface: a context, a pool of predictions, a fit, prediction, evaluation,
 * comparison. Everything else, in corestack/more.h, may still change with any minor version. */
#ifndef CORESTACK_CORESTACK_H
#define CORESTACK_CORESTACK_H

#include <corestack/predict.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- context ---- */

/* Called with the stage's name and how much of it is done (0 <= done <= total, 1 <= total), and
 * again at most every 50 ms while the stage lasts; always on the thread that called the library.
 * Outside of any stage that is "reading", 0 of 1, while files are read or a pipe is waited for, and
 * "writing", 0 of 1, while a pipe is waited for. Non-zero asks to stop: the call returns
 * CST_ERROR_CANCELLED soon after. */
typedef int (*cst_progress_fn)(void *user, const char *stage, int64_t done, int64_t total);

/* Sets the number of threads, 1 to 1024; 0 means one per core that the process may use (affinity,
 * quota of its container; with ranks its share). More than these are logged as a warning. Results
 * do not depend on it.
 * CST_ERROR_ARGUMENT for any other number. */
CST_API cst_status cst_context_set_threads(cst_context *context, int threads);

/* Sets the number of bytes that a call may keep resident: at least 64 MiB, or 0 for a quarter of
 * the memory of the machine, or of its container (the default); ranks on one machine divide it.
 * CST_ERROR_ARGUMENT for less. Predictions that do not fit stay on disk and are read in blocks;
 * other large arrays go to unlinked files in $TMPDIR (or /tmp). Results do not depend on the limit.
 * Set it before a pool is loaded. */
CST_API cst_status cst_context_set_memory(cst_context *context, size_t bytes);

/* Sets the function that receives progress and may cancel a call, called with `user`; NULL removes
 * it. */
CST_API void cst_context_set_progress(cst_context *context, cst_progress_fn progress, void *user);

/* How much of a call is done, from 0 to 1, for a bar: all of its stages, folds and methods
 * together. It never falls during a call and is 1 when a fit or comparison has told its last stage.
 * To be asked by the function that receives progress; how long stages take is an estimate. */
CST_API double cst_context_progress(const cst_context *context);

/* ---- pool ---- */

typedef struct cst_pool cst_pool;

typedef enum cst_output { CST_OUTPUT_PROBABILITY = 0, CST_OUTPUT_LOGIT = 1 } cst_output;

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
    size_t struct_size;  /* sizeof(cst_pool_config), or 0 for the fields of version 0.1 */
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
    int64_t classes;       /* number of classes if there is no manifest; 0: that of the files */
    const char *id_column; /* tables: the column of the sample ids, by name or by its number from 1;
                              NULL: found by its name, or the first column of text */
    const char *label_column; /* tables: the column of the labels or targets, likewise; NULL: found
                                 by its name (y, label, target, ...) */
    const char *const *class_names; /* names of the classes (for regression: outputs) in their
                                       order if there is no manifest, ending with NULL; NULL: those
                                       of labels that are text, or of the first CSV header */
    int missing;                    /* non-zero: members may lack predictions: cst_pool_read */
    const char *domains;            /* file of the domain of each row, or NULL */
    int unlabelled;                 /* 1: classification rows may lack their label (-1 in an
                                       array, an empty cell in a table): cst_pool_labels has -1
                                       there. For cst_online only. 2: labels are not needed: a split
                                       in which one is missing, or is none, has no labels */
    const char *positive;           /* two classes without names: the label of class 1, of which a
                                       single column is the probability; NULL: 1, or of texts
                                       "true", "yes", "pos" and the like */
    const int32_t *ignore_also;     /* segmentation: further labels to ignore, with ignore_given */
    int64_t ignored_also;           /* how many; at most 15 */
    const char *order; /* file of the times of the rows, for folds.kind=time: numbers, or
                          dates as text; NULL: they are in the order of time */
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
                                       const char *const *paths, int64_t count,
                                       const cst_pool_config *config);

/* The split that cst_pool_from_arrays creates. Zero-initialise, then set the fields that apply. */
typedef struct cst_pool_arrays {
    size_t struct_size; /* sizeof(cst_pool_arrays), or 0 for the fields of version 0.1 */
    const char *split;  /* NULL: "oof" */
    cst_task task;      /* of rows: no segmentation or detection */
    cst_output output;  /* what the members' numbers are; not read for a regression */
    int64_t members;
    int64_t rows;
    int64_t classes; /* for regression: outputs; of a multilabel pool: labels */
    int64_t columns; /* of every array: 0 for as many as classes, or 1: class 1 of two */
    const cst_array *predictions;   /* [members] */
    const char *const *names;       /* [members], all different */
    const char *const *class_names; /* [classes], or NULL */
    const double *flops; /* [members] of one prediction, 0 to 1e30, NaN where not known; or NULL */
    const double *latency_ms;   /* [members] of one prediction in milliseconds, the same */
    const double *params;       /* [members] number of parameters, the same */
    const double *memory_bytes; /* [members] peak memory of a prediction in bytes, the same */
    const int32_t *labels;      /* [rows] in 0..classes-1, or NULL */
    const double *targets;      /* [rows][outputs] for regression; of a multilabel pool 0, 1, or
                                   -1 or NaN where not known; or NULL */
    const int64_t *folds;       /* [rows], at least 0, renumbered in increasing order; or NULL */
    const int64_t *groups;      /* [rows], any numbers, or NULL */
    const double *weights;      /* [rows] row weights (docs/method.md#row-weights), or NULL */
    int missing;                /* non-zero: members may lack predictions: cst_pool_read */
    const char *const *domains; /* [rows] name of each row's domain, copied; NULL (or "") for a row
                                   without one; or NULL */
    const int64_t *order;       /* [rows] for folds.kind=time: a smaller number is earlier; or NULL:
                                   the rows are in the order of time */
    const int64_t *listed;      /* [members] k of CST_TASK_TOPK, whose arrays are [rows][2 k + 1]: k
                                   classes (-1: none), their log-probabilities and that of all
                                   others together, NaN where it is not known; else NULL */
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

/* ---- options ---- */

typedef struct cst_options cst_options;

/* Creates a set of options at preset "default". *out belongs to the caller (cst_options_free). */
CST_API cst_status cst_options_create(cst_context *context, cst_options **out);

/* Frees a set of options; NULL is accepted. */
CST_API void cst_options_free(cst_context *context, cst_options *options);

/* Sets every option to its value under a preset. CST_ERROR_ARGUMENT for an unknown preset. */
CST_API cst_status cst_options_preset(cst_context *context, cst_options *options,
                                      const char *preset);

/* Sets one option from text. CST_ERROR_ARGUMENT, with the allowed values in the message, for an
 * unknown key or an invalid value. */
CST_API cst_status cst_options_set(cst_context *context, cst_options *options, const char *key,
                                   const char *value);

/* ---- model and prediction ---- */

/* Writes the model to a file: to a temporary name in the same folder, synced, then renamed. */
CST_API cst_status cst_model_save(cst_context *context, const cst_model *model, const char *path);

/* Predicts `rows` samples. predictions[k]: [rows][classes] float32 probabilities of member k, C
 * order, in the member order of the model. out: [rows][classes], provided by the caller; each row
 * sums to 1 within 1e-6. CST_ERROR_INPUT, with member and row, for numbers that are not finite,
 * exceed [0, 1] by more than 1e-6, or whose sum differs from 1 by more than 1e-3; within these
 * limits rows are clipped and normalised as in a pool.
 * For a regression model, inputs and outputs are finite values [rows][outputs]; CST_ERROR_INPUT,
 * with row and output, for a result that is too large for float32. For variances see
 * corestack/regression.h. After an error, `out` may be partly written. */
CST_API cst_status cst_model_predict(cst_context *context, const cst_model *model,
                                     const float *const *predictions, int64_t rows, float *out);

/* Loads the members that the model needs from a split and predicts. Members are matched by name:
 * other members of the pool are ignored, a missing member is an error that names it. The number of
 * classes, and their names if both have names, must agree. *out: [rows][classes], belongs to the
 * caller (cst_free); *rows counts the rows of all conditions, one condition after the other. A
 * notice tells of rows that look unlike the fit rows; cst_model_predict_guarded
 * (corestack/guard.h) can act on them. */
CST_API cst_status cst_model_predict_pool(cst_context *context, const cst_model *model,
                                          cst_pool *pool, const char *split, float **out,
                                          int64_t *rows);

/* ---- fit, evaluation, report ---- */

/* The results of a computation, to be rendered as JSON or text. */
typedef struct cst_report cst_report;

/* Fits a stack on the rows of `split` ("oof"), which is loaded if necessary: stages S0 to S4 of the
 * paper. options: NULL for preset "default". Uses the folds of the split, or stratified folds made
 * from the seed (grouped if the split has groups). `model` and `report` may each be NULL if not
 * wanted; the results belong to the caller. No other split is read. */
CST_API cst_status cst_fit(cst_context *context, cst_pool *pool, const char *split,
                           const cst_options *options, cst_model **model, cst_report **report);

/* Default limits for long-tailed data: head classes have more training samples than the first,
 * tail classes fewer than the second, mid classes are the others. */
#define CST_HEAD_ABOVE 100
#define CST_TAIL_BELOW 20

/* Options of cst_evaluate_stack. Zero-initialise, then set the fields that should differ from the
 * default. */
typedef struct cst_evaluate_options {
    size_t struct_size; /* sizeof(cst_evaluate_options), or 0 for the fields of version 0.1 */
    const char *split;  /* NULL: "test"; several with commas between: means over them, and each */
    int baselines;      /* non-zero: also score simple baselines, fitted on split "oof" */
    int64_t resamples;  /* of the bootstrap, at most 10,000,000; 0: no intervals */
    uint64_t seed;      /* of the bootstrap; at most 2^53 */
    const char *ood;    /* splits of out-of-distribution rows to tell from `split`'s, with commas
                           between; NULL: none */
    const char *clean;  /* the split without conditions that one with conditions is compared with;
                           NULL: the manifest's, if any */
    const char *reference_errors; /* by which errors under conditions are divided: a JSON file
                                     {kind: error, or one for each severity}, or "alexnet"; NULL:
                                     the manifest's, if any */
    int64_t head_above;           /* head classes have more training samples, */
    int64_t tail_below; /* tail classes fewer; both 0: CST_HEAD_ABOVE and CST_TAIL_BELOW */
    const char *metric; /* a metric to score beside the others (cst_metric_score); NULL: the
                           model's option "metric" */
} cst_evaluate_options;

/* Scores a model on one or more splits, which are loaded if necessary; a split with several
 * conditions is scored on each. The report says if a split contains rows that the model was fitted
 * on; for classification, the split of the fit is read for this check if the pool has it. options:
 * NULL for all zero. Options beyond a single split are for classification; other tasks give
 * CST_ERROR_UNSUPPORTED. *report belongs to the caller. */
CST_API cst_status cst_evaluate_stack(cst_context *context, const cst_model *model, cst_pool *pool,
                                      const cst_evaluate_options *options, cst_report **report);

/* Renders a report as one JSON document (keys: docs/json.md). *out belongs to the caller
 * (cst_free). */
CST_API cst_status cst_report_json(cst_context *context, const cst_report *report, char **out);

/* Renders a report as text for a terminal; non-zero `color` adds ANSI bold and dim. *out belongs to
 * the caller (cst_free). */
CST_API cst_status cst_report_text(cst_context *context, const cst_report *report, int color,
                                   char **out);

/* Gives the number at `path` of a report: keys and positions in lists with '.' between, as in
 * "scores.nll" or "rows.0.top1" (keys: docs/json.md). NaN for null, 1 and 0 for true and false.
 * CST_ERROR_ARGUMENT if there is no such key or it is no number. */
CST_API cst_status cst_report_get_number(cst_context *context, const cst_report *report,
                                         const char *path, double *out);

/* Gives the string at `path` of a report, NULL for null. Borrowed. Errors as above. For programs
 * without a JSON parser. */
CST_API cst_status cst_report_get_string(cst_context *context, const cst_report *report,
                                         const char *path, const char **out);

/* Gives the number of entries of the list at `path` of a report. Errors as above. For programs
 * without a JSON parser. */
CST_API cst_status cst_report_get_count(cst_context *context, const cst_report *report,
                                        const char *path, int64_t *out);

/* Frees a report; NULL is accepted. */
CST_API void cst_report_free(cst_context *context, cst_report *report);

/* ---- comparison ---- */

/* Predictions of a method of the caller's own, for the rows of the scored split in their order:
 * probabilities [rows][classes] (of two classes also [rows][1], that of class 1), for regression
 * values [rows][outputs]. Detections and maps (of labels or probabilities) come from files alone.
 * Of split "oof" they must be out-of-fold. All is borrowed. */
typedef struct cst_own_predictions {
    const char *name;    /* of the row, up to 63 bytes, and not that of a method */
    const char *path;    /* a file (of maps also a folder), read as one of a member; rows with ids
                            are put in order; one for each of several splits is
                            "SPLIT:FILE,SPLIT:FILE"; a model's file, which is scored on a split
                            that its fit did not see; or NULL: */
    const float *values; /* [rows][columns] */
    int64_t rows;        /* of all of the split, also those without a label or weight */
    int64_t columns;
} cst_own_predictions;

enum { CST_OWN_MAX = 256 };

/* Options of cst_compare, cst_ablate and cst_sweep. Zero-initialise, then set the fields that
 * should differ from the default. */
typedef struct cst_compare_options {
    size_t struct_size; /* sizeof(cst_compare_options), or 0 for the fields of version 0.1 */
    const char *split;  /* NULL or "oof": every score is nested, that is, of rows the fit did
                           not see; another split: fitted on "oof", scored there once; several with
                           commas between: scores are means over them, and each is given too
                           (cst_compare) */
    const char *const *methods; /* [method_count] names; "all" selects every method that applies.
                                   NULL: for cst_compare every one but presets "compact" and "best"
                                   (segmentation: a short list), for cst_sweep "default" */
    int64_t method_count;
    const char *reference; /* differences and tests are against it; NULL: "default" where it is
                              among the methods, else the first */
    const char *ood;       /* splits of out-of-distribution rows to tell from `split`'s, with commas
                              between; or NULL */
    const char *const *settings; /* [setting_count] "key=value": set in every preset that is run,
                                    and "folds.count" for the folds of all methods */
    int64_t setting_count;
    int64_t resamples; /* of the bootstrap, at most 10,000,000; 0: no intervals */
    uint64_t seed;     /* of folds, fits, subsets and resamples; at most 2^53 */
    /* Told the probabilities [rows][classes] of every method on the rows scored (for a split with
     * conditions [conditions][rows][classes]); `split` is that or `ood`. An error stops the
     * comparison. May be NULL. */
    cst_status (*predicted)(void *user, const char *method, const char *split,
                            const float *probabilities, int64_t rows, int32_t classes);
    void *user;
    /* Only for classification; cst_compare refuses them for other tasks. */
    const char *clean; /* the split without conditions that one with conditions is compared with;
                          NULL: the manifest's, if any */
    const char *reference_errors; /* by which errors under conditions are divided: a JSON file
                                     {kind: error, or one for each severity}, or "alexnet"; NULL:
                                     the manifest's, if any */
    int64_t head_above;           /* head classes have more training samples, */
    int64_t tail_below; /* tail classes fewer; both 0: CST_HEAD_ABOVE and CST_TAIL_BELOW */
    /* Of cst_compare alone; refused by the others. */
    int64_t splits; /* repetitions with seeds seed, seed + 1, ...: every score is the mean over
                       them, KEY_se its standard error; 0 and 1: one, at most CST_SPLITS_MAX */
    double holdout; /* above 0, below 1: the share of split "oof" that is drawn at random in each
                       repetition, left out of the fits and scored; `split` must be "oof" or NULL.
                       0: none */
    const cst_own_predictions
        *own;          /* [own_count] rows besides the methods, for classification,
                          regression or detection (a file of results), of splits
                          without conditions and without `ood`; may be the reference. CST_ERROR_MISMATCH: of
                          another          shape, CST_ERROR_INPUT: no probabilities */
    int64_t own_count; /* at most CST_OWN_MAX */
} cst_compare_options;

enum { CST_SPLITS_MAX = 1000 };

/* Compares methods on the same rows. The report has one row per method: scores with intervals,
 * weights, members in use, relative FLOPs, fit time in seconds and the difference from the
 * reference; paired tests against the reference; and the rank correlation between condition number
 * and top-1 over the methods. options: NULL for the defaults. *report belongs to the caller. */
CST_API cst_status cst_compare(cst_context *context, cst_pool *pool,
                               const cst_compare_options *options, cst_report **report);

#ifdef __cplusplus
}
#endif
#endif
