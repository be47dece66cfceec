/* Costs of prediction: time, memory and size of a stack's meta-layer, and of the whole where the
 * pool gives its members' costs. Paper: section "Deployment Efficiency: Latency and Memory";
 * docs/prediction.md#what-a-prediction-costs, docs/json.md#profile. */
#ifndef CORESTACK_PROFILE_H
#define CORESTACK_PROFILE_H

#include <corestack/context.h>
#include <corestack/fit.h>
#include <corestack/model.h>
#include <corestack/pool.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Batch of the paper's table, and seconds for which calls of one size are timed. */
#define CST_PROFILE_BATCH 256
#define CST_PROFILE_SECONDS 0.5

/* Percentiles of fewer calls are not reported beyond the median. */
#define CST_PROFILE_FEWEST_CALLS 100

/* Zero-initialise, then set the fields that should differ from the default. */
typedef struct cst_profile_options {
    size_t struct_size; /* sizeof(cst_profile_options), or 0 for the fields of version 0.1 */
    const char *split;  /* whose predictions are used, and scored if it has labels; NULL: "test" */
    const char *const *methods; /* [method_count] methods of cst_compare to measure next to the
                                   model, fitted on split "oof"; "all" selects every method that
                                   applies. NULL: those of the paper's table and "greedy", as far
                                   as they apply; not NULL with method_count 0: the model alone */
    int64_t method_count;
    const char *const *settings; /* [setting_count] "key=value", set in every preset */
    int64_t setting_count;
    int64_t batch;  /* samples of a call with many, 1 to 1,000,000; 0: CST_PROFILE_BATCH */
    int64_t calls;  /* calls timed of each size, 1 to 1,000,000; 0: as many as `seconds` allow, at
                       least CST_PROFILE_FEWEST_CALLS within ten times as long */
    double seconds; /* 0 to 3600; 0: CST_PROFILE_SECONDS. Not read if `calls` is set */
    int parallel;   /* non-zero: members run at the same time, each on its own device */
    uint64_t seed;  /* of folds and fits; at most 2^53 */
} cst_profile_options;

/* Measures a model, and other methods fitted on split "oof" of the pool, on predictions of a split:
 * the time of calls with one sample and with a batch, and the memory and size of the meta-layer.
 * Sums the costs of the members as the pool gives them: latency and throughput from end to end,
 * FLOPs and peak memory; null where a member lacks a cost, with a notice. The report has one row
 * per method, the model first, and next to them the figures of the paper's table. Everything but
 * times is the same in every run. options: NULL for the defaults. CST_ERROR_MISMATCH if pool and
 * model do not fit. *report belongs to the caller. */
CST_API cst_status cst_profile(cst_context *context, const cst_model *model, cst_pool *pool,
                               const cst_profile_options *options, cst_report **report);

#ifdef __cplusplus
}
#endif
#endif
