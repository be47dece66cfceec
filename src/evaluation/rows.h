/*
 * Parts that the documents of compare, ablate and sweep share. Keys: docs/json.md.
 */
#ifndef CST_EVALUATION_ROWS_H
#define CST_EVALUATION_ROWS_H

#include "evaluation/scene.h"
#include "report/report.h"

/* "split", "scored", "samples", "classes", "models_in", "conditions", "seed". */
void cst_rows_header(cst_report *report, const cst_scene *scene);

/* Every score of `scores`, each with its interval where `intervals` is not NULL. */
void cst_rows_scores(cst_report *report, json_t *object, const cst_metrics *scores,
                     const cst_metric_intervals *intervals);

/* "difference": the values and intervals of a paired difference. */
void cst_rows_difference(cst_report *report, json_t *object,
                         const cst_metric_intervals *difference);

/* "models", "kappa", "flops_rel", "seconds". */
void cst_rows_cost(cst_report *report, json_t *object, const cst_entry *entry);

/* Adds the notices and ends the report: on an error it is freed and *report NULL. */
cst_status cst_rows_finish(cst_context *context, cst_status status, cst_report **report);

/* Tells the caller, if it wants to know, what a method predicted for a split; the status is the
 * callback's. */
cst_status cst_rows_tell(cst_context *context, const cst_compare_options *options,
                         const char *method, const char *split, const float *predictions,
                         int64_t rows, int32_t columns);

/* Options where the caller gave none. */
cst_compare_options cst_rows_options(const cst_compare_options *options);

#endif
