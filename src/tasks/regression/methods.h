/*
 * Methods of a regression by their names on the command line: linear baselines, fitted from moments
 * alone, and the presets of the stack; and an evaluation of them or of a model. Paper: section
 * "Experimental Setup"; docs/regression.md.
 */
#ifndef CST_REGRESSION_METHODS_H
#define CST_REGRESSION_METHODS_H

#include "fit/harness.h"
#include "tasks/regression/linear_pool.h"
#include "tasks/regression/stages.h"

typedef struct cst_value_method {
    const char *definition;             /* one sentence, borrowed */
    const cst_value_baseline *baseline; /* NULL: a preset */
    const char *preset;                 /* NULL: a baseline */
    cst_settings settings;              /* of a preset */
} cst_value_method;

/* Names in the order of reports; NULL past the end. */
const char *cst_value_method_name(size_t index);

/* Presets take the seed and then `settings` [setting_count] of "key=value". CST_ERROR_ARGUMENT says
 * which methods there are; CST_ERROR_UNSUPPORTED where a method is one for classification. */
cst_status cst_value_method_parse(cst_context *context, const char *text, uint64_t seed,
                                  const char *const *settings, int32_t setting_count,
                                  cst_value_method *out);

/* What an evaluation holds: that of some members borrows rows and scaling of the whole. */
typedef struct cst_value_state {
    cst_training source;
    cst_view rows;          /* what is scored */
    cst_counted counted;    /* what it is in, unless it is the source's */
    cst_counted model_rows; /* the rows scored, with the members of a model */
    cst_scaling scaling;
    cst_moments *moments; /* [outputs] of the source's members */
} cst_value_state;

/* What a method or model predicted: an entry's result. */
typedef struct cst_value_predictions {
    const cst_predicted_values *values; /* in result, or the caller's */
    cst_value_result result;
    cst_value_metrics scores;
    cst_value_metrics *each; /* [outputs] */
} cst_value_predictions;

/* Fits the entry's method on the source, and predicts the rows unless the evaluation says that they
 * are not scored. */
cst_status cst_value_method_run(cst_context *context, const cst_evaluation *e, cst_entry *entry,
                                cst_value_result *out);

/* The rows of the split, in which every member takes part. */
cst_status cst_value_open_rows(cst_context *context, cst_evaluation *e);
/* What is fitted on, with moments; `check`: it may be refused. */
cst_status cst_value_open_source(cst_context *context, cst_evaluation *e, const char *split,
                                 int32_t folds, bool check);
/* Moments of the source, whose scaling is there. */
cst_status cst_value_find_moments(cst_context *context, cst_evaluation *e);
/* Scores of an entry's predictions, in the order of the table of scores. */
cst_status cst_value_score(cst_context *context, const cst_evaluation *e, cst_entry *entry);

/* The entries of the table that evaluate a model. */
cst_status cst_value_open_model(cst_context *context, cst_evaluation *e, const cst_model *model);
cst_status cst_value_run_model(cst_context *context, const cst_evaluation *e,
                               const cst_model *model, cst_value_result *out);
cst_status cst_value_seen(cst_context *context, const cst_evaluation *e, const cst_model *model,
                          bool *seen);
cst_status cst_value_open_baselines(cst_context *context, cst_evaluation *e);
cst_status cst_value_put_own(cst_context *context, cst_report *report, const cst_evaluation *e,
                             const cst_entry *entry);

#endif
