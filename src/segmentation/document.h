/*
 * Parts that the documents of a segmentation share. Keys: docs/json.md. Last step of fit, evaluate
 * and compare.
 */
#ifndef CST_SEGMENTATION_DOCUMENT_H
#define CST_SEGMENTATION_DOCUMENT_H

#include "report/report.h"
#include "segmentation/intervals.h"

/* "task", "split", "cases", "pixels", "classes", "boundary", "definitions". split may be NULL. */
void cst_map_put_header(cst_report *report, const char *split, const cst_cases *cases,
                        int64_t pixels, int32_t classes, double boundary);

/* Every score; with intervals (or NULL) also NAME_ci. */
void cst_map_put_scores(cst_report *report, json_t *object, const cst_map_scores *scores,
                        const cst_map_intervals *intervals);

/* "difference": the same of the paired difference to the reference. */
void cst_map_put_difference(cst_report *report, json_t *object, const cst_map_intervals *intervals);

/* "per_class" and, up to 64 classes, "confusion". pool: for names; NULL: none. */
void cst_map_put_classes(cst_report *report, json_t *object, const cst_pool *pool,
                         const cst_map_scores *scores);

#endif
