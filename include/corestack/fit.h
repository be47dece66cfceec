/* More fits (cst_fit: corestack/corestack.h): any method by name; inspecting a pool, showing a
 * model, scoring a member. */
#ifndef CORESTACK_FIT_H
#define CORESTACK_FIT_H

#include <corestack/context.h>
#include <corestack/model.h>
#include <corestack/options.h>
#include <corestack/pool.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Fits any method of cst_compare on the rows of `split`, by name, with a calibration map if wanted:
 * "hill-climbing", "average+temperature". The model predicts as the method does in a comparison.
 * Presets are fitted as by cst_fit. Methods other than presets take the options that say how rows
 * are folded, sampled and scored; any other option that was set is CST_ERROR_ARGUMENT, as is an
 * unknown method. options: NULL for preset "default". `model` and `report` as of cst_fit. */
CST_API cst_status cst_fit_method(cst_context *context, cst_pool *pool, const char *split,
                                  const char *method, const cst_options *options, cst_model **model,
                                  cst_report **report);

/* Reports redundancy, clusters, spectrum, the penalty under four rules, and data problems of a
 * split, without fitting. options: NULL for preset "default". *report belongs to the caller. */
CST_API cst_status cst_inspect(cst_context *context, cst_pool *pool, const char *split,
                               const cst_options *options, cst_report **report);

/* Reports what a model says of itself: members with weights and costs, method or preset, classes,
 * calibration, what it was fitted on, and settings. pool: NULL, or one that is compared by the hash
 * of `split` (NULL: the split of the fit), which is loaded. *report belongs to the caller. */
CST_API cst_status cst_show(cst_context *context, const cst_model *model, cst_pool *pool,
                            const char *split, cst_report **report);

/* Scores a member of a loaded split with labels. metric: one to score beside the others
 * (cst_metric_score), or NULL. resamples > 0 adds 95% bootstrap intervals; seed: at most 2^53. For
 * a split with conditions, the rows of all conditions are scored together. *report belongs to the
 * caller. */
CST_API cst_status cst_evaluate_member(cst_context *context, const cst_pool *pool,
                                       const char *split, int32_t member, const char *metric,
                                       int64_t resamples, uint64_t seed, cst_report **report);

#ifdef __cplusplus
}
#endif
#endif
