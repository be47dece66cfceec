/* Fitting a stack on a pool (stages S0 to S4), and inspecting a pool without a fit. */
#ifndef CORESTACK_FIT_H
#define CORESTACK_FIT_H

#include <corestack/context.h>
#include <corestack/model.h>
#include <corestack/options.h>
#include <corestack/pool.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The results of a computation, to be rendered as JSON or text. */
typedef struct cst_report cst_report;

/* Fits a stack on the rows of `split` ("oof"), which is loaded if necessary: stages S0 to S4 of the
 * paper. options: NULL for preset "default". Uses the folds of the split, or stratified folds made
 * from the seed (grouped if the split has groups). `model` and `report` may each be NULL if not
 * wanted; the results belong to the caller. No other split is read. */
CST_API cst_status cst_fit(cst_context *context, cst_pool *pool, const char *split,
                           const cst_options *options, cst_model **model, cst_report **report);

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

/* Scores a member of a loaded split with labels. resamples > 0 adds 95% bootstrap intervals; seed:
 * at most 2^53. For a split with conditions, the rows of all conditions are scored together.
 * *report belongs to the caller. */
CST_API cst_status cst_evaluate_member(cst_context *context, const cst_pool *pool,
                                       const char *split, int32_t member, int32_t resamples,
                                       uint64_t seed, cst_report **report);

/* Default limits for long-tailed data: head classes have more training samples than the first,
 * tail classes fewer than the second, mid classes are the others. */
#define CST_HEAD_ABOVE 100
#define CST_TAIL_BELOW 20

/* Options of cst_evaluate_stack. Zero-initialise, then set the fields that should differ from the
 * default. */
typedef struct cst_evaluate_options {
    const char *split; /* NULL: "test"; several with commas between: means over them, and each */
    int baselines;     /* non-zero: also score simple baselines, fitted on split "oof" */
    int32_t resamples; /* of the bootstrap, at most 10,000,000; 0: no intervals */
    uint64_t seed;     /* of the bootstrap; at most 2^53 */
    const char *ood;   /* splits of out-of-distribution rows to tell from `split`'s, with commas
                          between; NULL: none */
    const char *clean; /* the split without conditions that one with conditions is compared with;
                          NULL: the manifest's, if any */
    const char *reference_errors; /* by which errors under conditions are divided: a JSON file
                                     {kind: error, or one for each severity}, or "alexnet"; NULL:
                                     the manifest's, if any */
    int64_t head_above;           /* head classes have more training samples, */
    int64_t tail_below; /* tail classes fewer; both 0: CST_HEAD_ABOVE and CST_TAIL_BELOW */
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

/* Frees a report; NULL is accepted. */
CST_API void cst_report_free(cst_context *context, cst_report *report);

#ifdef __cplusplus
}
#endif
#endif
