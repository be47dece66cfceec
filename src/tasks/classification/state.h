/* State of an evaluation of a classification, of a comparison or of a model. */
#ifndef CST_CLASSIFICATION_STATE_H
#define CST_CLASSIFICATION_STATE_H

#include "fit/harness.h"
#include "tasks/classification/targets.h"

/* A narrowed evaluation borrows the targets of the whole. */
typedef struct cst_class_state {
    cst_training source;
    cst_training_part part; /* of a narrowed one */
    bool narrowed;
    int32_t classes;
    cst_targets targets;    /* the splits that are predicted */
    cst_view *views;        /* [targets] of the evaluation's members */
    const float **pointers; /* of narrowed views */
    /* Of the evaluation of a model; else NULL. */
    int32_t *positions;    /* [model members] in the pool */
    cst_view *model_views; /* [targets], of the model's members */
    cst_counted *counted;  /* [targets]: what these are in */
} cst_class_state;

enum { CST_CLASS_SCORES = 8 }; /* in the table of scores */

/* What a method predicted: an entry's result. */
typedef struct cst_class_predictions {
    float **rows; /* [targets] of [view rows][classes] */
    int32_t targets;
    cst_metrics *parts; /* [conditions, splits or 1] that the scores are means over */
} cst_class_predictions;

/* Scores of predictions, means over the conditions of one split or over several splits, in the
 * order of the table of scores; predictions->parts is filled. */
cst_status cst_class_score(cst_context *context, const cst_class_state *state,
                           cst_class_predictions *predictions, double *scores);

/* The entries of the table that evaluate a model. */
cst_status cst_class_open_model(cst_context *context, cst_evaluation *e, const cst_model *model);
cst_status cst_class_run_model(cst_context *context, const cst_evaluation *e,
                               const cst_model *model, cst_entry *entry);
cst_status cst_class_seen(cst_context *context, const cst_evaluation *e, const cst_model *model,
                          const cst_entry *entry, bool *seen);
cst_status cst_class_open_baselines(cst_context *context, cst_evaluation *e);
cst_status cst_class_put_own(cst_context *context, cst_report *report, const cst_evaluation *e,
                             const cst_entry *entry);

#endif
