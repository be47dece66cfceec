/*
 * COCO's figures as parts of a report document. Keys: docs/json.md.
 */
#ifndef CST_DETECTION_FIGURES_H
#define CST_DETECTION_FIGURES_H

#include "detection/bootstrap.h"
#include "report/report.h"

/* The twelve figures, AP to ARl, into `object`; `intervals` (NULL, or without resamples: none) adds
 * AP_ci, AP50_ci, AP75_ci and AR100_ci. */
void cst_figures_put(cst_report *report, json_t *object, const cst_detection_scores *scores,
                     const cst_ap_intervals *intervals);
/* "difference": AP, AP50, AP75 and AR100 with their intervals. */
void cst_figures_difference(cst_report *report, json_t *object, const cst_ap_intervals *difference);
/* "categories": of each its id, name, true boxes and figures. */
void cst_figures_categories(cst_report *report, json_t *object, const cst_coco *truth,
                            const cst_detection_scores *by_category);
/* What an evaluation says of one file or model: counts, figures, intervals, categories. */
void cst_figures_document(cst_report *report, json_t *object, const cst_coco *truth,
                          int64_t detections, const cst_detection_scores *scores,
                          const cst_ap_intervals *intervals,
                          const cst_detection_scores *by_category);
/* "ap_definition": what the figures mean, in one sentence. */
void cst_figures_definition(cst_report *report, json_t *object);

#endif
