/* What an evaluation of a regression holds, shared by comparisons and the evaluation of a model. */
#ifndef CST_REGRESSION_STATE_H
#define CST_REGRESSION_STATE_H

#include "fit/harness.h"
#include "tasks/regression/methods.h"

/* That of some members borrows rows and scaling of the whole. */
typedef struct cst_value_state {
    cst_training source;
    bool part;              /* of some members */
    cst_view rows;          /* what is scored */
    cst_counted counted;    /* what it is in, unless it is the source's */
    cst_counted model_rows; /* the rows scored, with the members of a model */
    cst_scaling scaling;
    cst_moments *moments; /* [outputs] of the source's members */
} cst_value_state;

/* What a method predicted: an entry's result. */
typedef struct cst_value_predictions {
    const cst_predicted_values *values; /* in entry, result or the caller's */
    cst_value_entry entry;              /* of a method */
    cst_value_result result;            /* of a model */
    cst_value_metrics scores;
    cst_value_metrics *each; /* [outputs] */
} cst_value_predictions;

/* Moments of the source, whose scaling is there. */
cst_status cst_value_state_moments(cst_context *context, cst_value_state *state);
/* Scores of values, in the order of the table of scores. */
cst_status cst_value_state_score(cst_context *context, const cst_value_state *state,
                                 cst_value_predictions *predictions, double *scores);

/* The entries of the table that evaluate a model. */
cst_status cst_value_open_model(cst_context *context, cst_evaluation *e, const cst_model *model);
cst_status cst_value_run_model(cst_context *context, const cst_evaluation *e,
                               const cst_model *model, cst_entry *entry);
cst_status cst_value_seen(cst_context *context, const cst_evaluation *e, const cst_model *model,
                          bool *seen);
cst_status cst_value_open_baselines(cst_context *context, cst_evaluation *e);
cst_status cst_value_put_own(cst_context *context, cst_report *report, const cst_evaluation *e,
                             const cst_entry *entry);

#endif
