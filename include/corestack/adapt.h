/* A fitted stack on new data: adapted with a few labelled rows, and which rows to label.
 * Classification only. docs/json.md#adapt. */
#ifndef CORESTACK_ADAPT_H
#define CORESTACK_ADAPT_H

#include <corestack/context.h>
#include <corestack/fit.h>
#include <corestack/model.h>
#include <corestack/pool.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Labelled rows that an adaptation takes. */
#define CST_ADAPT_ROWS_MIN 10
#define CST_ADAPT_ROWS_MAX 10000

/* Zero-initialise, then set the fields that should differ from the default. */
typedef struct cst_adapt_options {
    size_t struct_size;    /* sizeof(cst_adapt_options), or 0 for the fields of version 0.1 */
    const char *split;     /* labelled rows of the new distribution; NULL: "new" */
    const int64_t *rows;   /* [row_count] rows of the split to use, from 0, each once; NULL: all */
    const int32_t *labels; /* [row_count] their classes; NULL: those of the split. Only with rows */
    int64_t row_count;     /* not read without rows */
    const char *unlabeled; /* split with more rows of the new distribution, whose labels are not
                              read (it may be `split`); NULL: none */
    const char *metric;    /* to report, as option "metric" of a fit; NULL: that of the fit */
} cst_adapt_options;

/* Adapts a model to the labelled rows of a split of the pool, which is loaded if necessary:
 * softmax_c(a log p_stack + sum_k w_k log p_k + b_c) with a Gaussian prior around the stack, whose
 * strength cross-validation on these rows chooses. With `unlabeled` rows the mean prediction is
 * kept near the class shares of the fit rows, where that lowers the cross-validated loss. Members
 * of the pool that the stack left out may come back; those whose weight is negligible do not. Where
 * the rows give no reason to change the stack, *out is the stack as it was (identical when saved),
 * with a notice. options: NULL for split "new" and all of its rows. CST_ERROR_INPUT for fewer than
 * CST_ADAPT_ROWS_MIN rows, rows of one class, and rows that the model was fitted on;
 * CST_ERROR_UNSUPPORTED for a model that was adapted already, and other tasks than classification.
 * `out` and `report` may each be NULL if not wanted; the results belong to the caller
 * (cst_model_free, cst_report_free). */
CST_API cst_status cst_adapt(cst_context *context, const cst_model *model, cst_pool *pool,
                             const cst_adapt_options *options, cst_model **out,
                             cst_report **report);

/* Picks rows of a split that are worth labelling for an adaptation: rows that the stack is
 * uncertain about and that are unlike those picked before. rows: [count], filled with rows of the
 * split, the first the most useful; provided by the caller. split: NULL for "new"; it needs no
 * labels. CST_ERROR_INPUT if the split has fewer than `count` rows. */
CST_API cst_status cst_adapt_suggest(cst_context *context, const cst_model *model, cst_pool *pool,
                                     const char *split, int64_t count, int64_t *rows);

#ifdef __cplusplus
}
#endif
#endif
