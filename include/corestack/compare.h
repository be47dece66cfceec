/*
 * Methods under one protocol: leaderboard, ablation, sweeps over an option or the size of the pool.
 * Paper: "Results", "Component Ablation", "CKA Threshold Sensitivity"; docs/options.md,
 * docs/method.md#what-is-reported-as-out-of-fold, docs/json.md#compare.
 */
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

/* Options of cst_compare, cst_ablate and cst_sweep. Zero-initialise, then set the fields that
 * should differ from the default. */
typedef struct cst_compare_options {
    const char *split; /* NULL or "oof": every score is nested, that is, of rows the fit did
                          not see; another split: fitted on "oof", scored there once; several with
                          commas between: scores are means over them, and each is given too
                          (cst_compare) */
    const char *const *methods; /* [method_count] names; "all" selects every method that applies.
                                   NULL: for cst_compare every one but presets "compact" and "best"
                                   (segmentation: a short list), for cst_sweep "default" */
    int32_t method_count;
    const char *reference; /* differences and tests are against it; NULL: "default" where it is
                              among the methods, else the first */
    const char *ood;       /* splits of out-of-distribution rows to tell from `split`'s, with commas
                              between; or NULL */
    const char *const *settings; /* [setting_count] "key=value": set in every preset that is run,
                                    and "folds.count" for the folds of all methods */
    int32_t setting_count;
    int32_t resamples; /* of the bootstrap, at most 10,000,000; 0: no intervals */
    uint64_t seed;     /* of folds, fits, subsets and resamples; at most 2^53 */
    /* Told the probabilities [rows][classes] of every method on the rows scored (for a split with
     * conditions [conditions][rows][classes]); `split` is that or `ood`. An error stops the
     * comparison. May be NULL. */
    cst_status (*predicted)(void *user, const char *method, const char *split,
                            const float *probabilities, int64_t rows, int32_t classes);
    void *user;
    /* Of cst_compare of a classification alone; refused by that of other tasks. */
    const char *clean; /* the split without conditions that one with conditions is compared with;
                          NULL: the manifest's, if any */
    const char *reference_errors; /* by which errors under conditions are divided: a JSON file
                                     {kind: error, or one for each severity}, or "alexnet"; NULL:
                                     the manifest's, if any */
    int64_t head_above;           /* head classes have more training samples, */
    int64_t tail_below; /* tail classes fewer; both 0: CST_HEAD_ABOVE and CST_TAIL_BELOW */
    /* Of cst_compare alone; refused by the others. */
    int32_t splits; /* repetitions with seeds seed, seed + 1, ...: every score is the mean over
                       them, KEY_se its standard error; 0 and 1: one, at most CST_SPLITS_MAX */
    double holdout; /* above 0, below 1: the share of split "oof" that is drawn at random in each
                       repetition, left out of the fits and scored; `split` must be "oof" or NULL.
                       0: none */
} cst_compare_options;

enum { CST_SPLITS_MAX = 1000 };

/* Compares methods on the same rows. The report has one row per method: scores with intervals,
 * weights, members in use, relative FLOPs, fit time in seconds and the difference from the
 * reference; paired tests against the reference; and the rank correlation between condition number
 * and top-1 over the methods. options: NULL for the defaults. *report belongs to the caller. */
CST_API cst_status cst_compare(cst_context *context, cst_pool *pool,
                               const cst_compare_options *options, cst_report **report);

/* Runs the cumulative ablation of the paper (section "Component Ablation"): preset "prototype" with
 * stages S1, S2, S3 and S4 of preset "paper" switched on one after the other, which is "paper",
 * and last drop-and-refit, which is not in the paper. options->methods is ignored. *report belongs
 * to the caller. */
CST_API cst_status cst_ablate(cst_context *context, cst_pool *pool,
                              const cst_compare_options *options, cst_report **report);

/* What a sweep varies. */
typedef struct cst_sweep_options {
    const char *key;           /* an option's key, or "pool.size": random subsets of the members */
    const char *const *values; /* [value_count] */
    int32_t value_count;
    int32_t draws; /* subsets for each size of "pool.size", at least 1; else not read */
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
