/*
 * Fitting a stack on a pool, and looking at a pool without fitting. Stages S0 to S4 of the paper in
 * order.
 */
#ifndef CORESTACK_FIT_H
#define CORESTACK_FIT_H

#include <corestack/context.h>
#include <corestack/model.h>
#include <corestack/options.h>
#include <corestack/pool.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What a computation found, ready to be shown. */
typedef struct cst_report cst_report;

/* Fits a stack on the rows of `split` ("oof"), which is loaded if it was not. `options` may be
 * NULL: preset "default". The folds are the split's, or stratified (grouped where the split has
 * groups) ones made from the seed. Either result may be NULL when not wanted; both are the
 * caller's. Nothing of any other split is read. */
CST_API cst_status cst_fit(cst_context *context, cst_pool *pool, const char *split,
                           const cst_options *options, cst_model **model, cst_report **report);

/* Redundancy, clusters, spectrum, the four penalties and data problems of a split. `options` may be
 * NULL: preset "default". */
CST_API cst_status cst_inspect(cst_context *context, cst_pool *pool, const char *split,
                               const cst_options *options, cst_report **report);

/* Scores probabilities [rows][classes] against labels [rows]. resamples > 0 adds 95% bootstrap
 * intervals, whose seed is at most 2^53. *report is the caller's. */
CST_API cst_status cst_evaluate(cst_context *context, const float *probabilities, int64_t rows,
                                int32_t classes, const int32_t *labels, int32_t resamples,
                                uint64_t seed, cst_report **report);

/* The same for a member of a loaded split with labels, in memory or on disk; with conditions, all
 * of their rows together. */
CST_API cst_status cst_evaluate_member(cst_context *context, const cst_pool *pool,
                                       const char *split, int32_t member, int32_t resamples,
                                       uint64_t seed, cst_report **report);

/* Scores a model on a split, which is loaded if it was not: on each of its conditions, where it has
 * several. `baselines` non-zero sets it beside the simple baselines, fitted on split "oof". The
 * report says where the split holds the rows that the model was fitted on; in a classification the
 * split of the fit is read for that, where the pool has it. */
CST_API cst_status cst_evaluate_model(cst_context *context, const cst_model *model, cst_pool *pool,
                                      const char *split, int baselines, int32_t resamples,
                                      uint64_t seed, cst_report **report);

/* What an evaluation looks at beyond one split. Zero-initialise, then set what is wanted. */
typedef struct cst_evaluate_options {
    const char *split; /* NULL: "test"; several with commas between: means over them, and each */
    int baselines;     /* non-zero: beside the simple baselines, fitted on split "oof" */
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

/* cst_evaluate_model with options (NULL: all zero). What goes beyond a split is there for
 * classification; CST_ERROR_UNSUPPORTED for other tasks. */
CST_API cst_status cst_evaluate_stack(cst_context *context, const cst_model *model, cst_pool *pool,
                                      const cst_evaluate_options *options, cst_report **report);

/* The report as one JSON document (keys: docs/json.md) or as text for a terminal (`color` non-zero:
 * ANSI bold and dim). Strings are the caller's, freed with cst_free. */
CST_API cst_status cst_report_json(cst_context *context, const cst_report *report, char **out);
CST_API cst_status cst_report_text(cst_context *context, const cst_report *report, int color,
                                   char **out);
CST_API void cst_report_free(cst_context *context, cst_report *report);

#ifdef __cplusplus
}
#endif
#endif
