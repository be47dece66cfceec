/* COCO's figures as parts of a report document. Keys: docs/json.md. */
#ifndef CST_DETECTION_FIGURES_H
#define CST_DETECTION_FIGURES_H

#include "fit/task.h"
#include "tasks/detection/ap.h"

enum { CST_DETECTION_FIGURES = 12 };

/* The twelve figures in the order of the table of scores. */
void cst_figures_values(const cst_detection_scores *scores, double out[CST_DETECTION_FIGURES]);
/* The twelve figures, AP to ARl, into `object`. */
void cst_figures_put(cst_report *report, json_t *object, const cst_detection_scores *scores);
/* One sentence for a figure by its key; NULL for any other name. */
const char *cst_figures_define(const char *score);
/* "categories": of each its id, name, true boxes and figures. */
void cst_figures_categories(cst_report *report, json_t *object, const cst_coco *truth,
                            const cst_detection_scores *by_category);
/* "ap_definition": what the figures mean, in one sentence. */
void cst_figures_definition(cst_report *report, json_t *object);

/* Of cst_task_ops: intervals of AP, AP50, AP75 and AR100 over images, drawn alike for every method.
 * Results begin with cst_ap_matches. Resamples without a figure are left out. */
cst_status cst_ap_bootstrap(cst_context *context, const cst_evaluation *e,
                            const void *const *results, int32_t count, int32_t reference,
                            int32_t resamples, cst_intervals *out);

#endif
