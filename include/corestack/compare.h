/* Methods under one protocol: leaderboard, ablation, sweeps over an option or the size of the pool.
 * Paper: "Results", "Component Ablation", "CKA Threshold Sensitivity"; docs/options.md,
 * docs/method.md#what-is-reported-as-out-of-fold, docs/json.md#compare. */
#ifndef CORESTACK_COMPARE_H
#define CORESTACK_COMPARE_H

#include <corestack/context.h>
#include <corestack/fit.h>
#include <corestack/pool.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Returns the name of method `index` in the order of reports: baselines, "autogluon", presets; NULL
 * past the end. "+temperature", "+vector", "+isotonic" or "+platt" may be appended to a name.
 * Static. */
CST_API const char *cst_method_name(size_t index);

/* Returns a one-sentence description of a method; NULL for an unknown name. Static. */
CST_API const char *cst_method_describe(const char *name);

/* Rows that a method of the caller's own is fitted on, or predicts. */
typedef struct cst_method_rows {
    const float *predictions; /* [rows][members][columns]: probabilities, for regression values;
                                 NaN where the member did not predict the row */
    int64_t rows;
    int64_t members;
    int64_t columns;       /* classes; for regression outputs */
    const int32_t *labels; /* [rows] of a fit, 0..columns-1; else NULL */
    const double *targets; /* [rows][columns] of the fit, for regression; else NULL */
    const double *weights; /* [rows] of a fit, with a mean of 1; NULL: all rows alike */
    uint64_t seed;         /* of a fit: for what it draws at random */
} cst_method_rows;

/* Fits on rows, in *fitted, which later calls get. Another status than CST_OK ends the comparison,
 * or with CST_ERROR_INPUT, _NUMERIC or _UNSUPPORTED leaves the method out unless it was named. */
typedef cst_status (*cst_method_fit_fn)(void *user, const cst_method_rows *rows, void **fitted);
/* Fills out [rows][columns]: probabilities that sum to 1 in each row, for regression values. */
typedef cst_status (*cst_method_predict_fn)(void *user, void *fitted, const cst_method_rows *rows,
                                            float *out);
typedef void (*cst_method_free_fn)(void *user, void *fitted);

/* A method of the caller's own. Its functions are called by several threads at once and must not
 * use the context; all rows are borrowed. Results depend only on the rows where the functions do.
 */
typedef struct cst_method_ops {
    size_t struct_size;     /* sizeof(cst_method_ops) */
    const char *name;       /* up to 40 bytes without '+' and ','; not that of another method */
    const char *definition; /* one sentence; NULL: "a method of your own" */
    cst_method_fit_fn fit;
    cst_method_predict_fn predict;
    cst_method_free_fn free; /* of what was fitted; NULL: nothing is freed */
    void *user;
} cst_method_ops;

/* Makes it a method of this context for cst_compare and cst_sweep, of classification and
 * regression: among "all", or by its name, also with "+temperature" and the like in a
 * classification. It is refitted without each fold as any method is. No model can hold it, so
 * cst_fit_method and cst_profile refuse it with CST_ERROR_UNSUPPORTED, and all do on several ranks.
 * Name and definition are copied. For programs that compare their own combiners. */
CST_API cst_status cst_context_add_method(cst_context *context, const cst_method_ops *ops);

/* Runs the cumulative ablation of the paper (section "Component Ablation"): preset "prototype" with
 * stages S1, S2, S3 and S4 of preset "paper" switched on one after the other, which is "paper",
 * and last drop-and-refit, which is not in the paper. options->methods is ignored. *report belongs
 * to the caller. */
CST_API cst_status cst_ablate(cst_context *context, cst_pool *pool,
                              const cst_compare_options *options, cst_report **report);

/* What a sweep varies. */
typedef struct cst_sweep_options {
    size_t struct_size;        /* sizeof(cst_sweep_options), or 0 for the fields of version 0.1 */
    const char *key;           /* an option's key, or "pool.size": random subsets of the members */
    const char *const *values; /* [value_count] */
    int64_t value_count;
    int64_t draws; /* subsets for each size of "pool.size", at least 1; else not read */
} cst_sweep_options;

/* Scores methods over the values of an option or the size of the pool. The report has one row per
 * value, draw and method. Baselines have no options, so with a key other than "pool.size" the
 * methods must be presets. *report belongs to the caller. */
CST_API cst_status cst_sweep(cst_context *context, cst_pool *pool, const cst_sweep_options *sweep,
                             const cst_compare_options *options, cst_report **report);

#ifdef __cplusplus
}
#endif
#endif
