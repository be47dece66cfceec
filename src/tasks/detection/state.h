/* What an evaluation of detections holds, shared by comparisons and the evaluation of a model. */
#ifndef CST_DETECTION_STATE_H
#define CST_DETECTION_STATE_H

#include "fit/harness.h"
#include "tasks/detection/bootstrap.h"
#include "tasks/detection/detection.h"

/* A narrowed evaluation borrows annotations and boxes of the whole. */
typedef struct cst_box_state {
    cst_box_split train;        /* split "oof" */
    cst_box_split other;        /* the split that is scored, unless it is that */
    const cst_box_split *files; /* of the images that are scored */
    cst_box_training training;
    bool narrowed;
} cst_box_state;

/* What a method gave: an entry's result. */
typedef struct cst_box_result {
    cst_ap_matches *matches;
    cst_detection_scores *by_category; /* [categories], in evaluations; else NULL */
    int64_t detections;
    double *fusion; /* weights of boxes of a fit that is wanted as a model; else NULL */
} cst_box_result;

/* Matches boxes with the images scored: scores, and matches in entry->result, which is there. */
cst_status cst_boxes_score(cst_context *context, const cst_evaluation *e,
                           const cst_coco_boxes *boxes, cst_entry *entry);
/* Split "oof" with every member, and its clusters. Sets e->source. */
cst_status cst_boxes_open_training(cst_context *context, cst_evaluation *e, cst_box_state *state);

/* The entries of the table that evaluate a model. */
cst_status cst_boxes_open_model(cst_context *context, cst_evaluation *e, const cst_model *model);
cst_status cst_boxes_run_model(cst_context *context, const cst_evaluation *e,
                               const cst_model *model, cst_entry *entry);
cst_status cst_boxes_seen(cst_context *context, const cst_evaluation *e, const cst_model *model,
                          const cst_entry *entry, bool *seen);
cst_status cst_boxes_open_baselines(cst_context *context, cst_evaluation *e);
cst_status cst_boxes_put_own(cst_context *context, cst_report *report, const cst_evaluation *e,
                             const cst_entry *entry);

#endif
