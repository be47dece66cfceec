/*
 * What the documents of evaluations share. Keys: docs/json.md.
 */
#ifndef CST_EVALUATION_EVALUATE_H
#define CST_EVALUATION_EVALUATE_H

#include "evaluation/task.h"
#include "report/report.h"

#include <corestack/metrics.h>

/* "top1_ci", "ece_ci", "nll_ci", "brier_ci". */
void cst_evaluation_intervals(cst_report *report, json_t *object,
                              const cst_metric_intervals *intervals);

/* "reliability" of probabilities [rows][classes]. */
cst_status cst_evaluation_reliability(cst_context *context, cst_report *report,
                                      const float *probabilities, int64_t rows, int32_t classes,
                                      const int32_t *labels, const double *weights);

/* "resamples" and "seed", where there are resamples. */
void cst_evaluation_resamples(cst_report *report, int32_t resamples, uint64_t seed);

/* Adds the notices and ends the report: on an error it is freed and *report NULL. */
cst_status cst_evaluation_finish(cst_context *context, cst_status status, cst_report **report);

#endif
