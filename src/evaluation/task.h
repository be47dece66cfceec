/*
 * What a task does when a public function is called with a pool of that task. Each folder of a task
 * fills one table; src/tasks chooses by the pool. Paper: section "Experimental Setup", benchmarks.
 */
#ifndef CST_EVALUATION_TASK_H
#define CST_EVALUATION_TASK_H

#include "base/base.h"

#include <corestack/compare.h>
#include <corestack/fit.h>

/* Each is as the public function of its name. The pool and the places for results are there and
 * results are NULL already; a NULL entry means that the task has no such thing. fit and inspect
 * always get options, and a report that they leave after a failure is freed. */
typedef struct cst_task_calls {
    cst_status (*fit)(cst_context *context, cst_pool *pool, const char *split,
                      const cst_options *options, cst_model **model, cst_report **report);
    cst_status (*inspect)(cst_context *context, cst_pool *pool, const char *split,
                          const cst_options *options, cst_report **report);
    cst_status (*evaluate_member)(cst_context *context, const cst_pool *pool, const char *split,
                                  int32_t member, int32_t resamples, uint64_t seed,
                                  cst_report **report);
    cst_status (*evaluate_model)(cst_context *context, const cst_model *model, cst_pool *pool,
                                 const char *split, int baselines, int32_t resamples, uint64_t seed,
                                 cst_report **report);
    cst_status (*compare)(cst_context *context, cst_pool *pool, const cst_compare_options *options,
                          cst_report **report);
    cst_status (*ablate)(cst_context *context, cst_pool *pool, const cst_compare_options *options,
                         cst_report **report);
    cst_status (*sweep)(cst_context *context, cst_pool *pool, const cst_sweep_options *sweep,
                        const cst_compare_options *options, cst_report **report);
} cst_task_calls;

extern const cst_task_calls cst_classification_calls;

cst_status cst_classification_evaluate_member(cst_context *context, const cst_pool *pool,
                                              const char *split, int32_t member, int32_t resamples,
                                              uint64_t seed, cst_report **report);
cst_status cst_classification_evaluate_model(cst_context *context, const cst_model *model,
                                             cst_pool *pool, const char *split, int baselines,
                                             int32_t resamples, uint64_t seed, cst_report **report);
cst_status cst_classification_evaluate_stack(cst_context *context, const cst_model *model,
                                             cst_pool *pool, const cst_evaluate_options *options,
                                             cst_report **report);
cst_status cst_classification_compare(cst_context *context, cst_pool *pool,
                                      const cst_compare_options *options, cst_report **report);
cst_status cst_classification_ablate(cst_context *context, cst_pool *pool,
                                     const cst_compare_options *options, cst_report **report);
cst_status cst_classification_sweep(cst_context *context, cst_pool *pool,
                                    const cst_sweep_options *sweep,
                                    const cst_compare_options *options, cst_report **report);

#endif
