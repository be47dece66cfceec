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
