/* Parts that the documents of a segmentation share. docs/json.md. */
#ifndef CST_SEGMENTATION_DOCUMENT_H
#define CST_SEGMENTATION_DOCUMENT_H

#include "report/report.h"
#include "tasks/segmentation/intervals.h"

/* "cases", "pixels", "ignored", "classes", "boundary". */
void cst_map_put_size(cst_report *report, const cst_cases *cases, int64_t pixels, int32_t classes,
                      double boundary);
/* "task", "split" (NULL: none), sizes, "definitions". */
void cst_map_put_header(cst_report *report, const char *split, const cst_cases *cases,
                        int64_t pixels, int32_t classes, double boundary);
/* "definitions". */
void cst_map_put_definitions(cst_report *report);

/* Every score, and "classes_present". */
void cst_map_put_scores(cst_report *report, json_t *object, const cst_map_scores *scores);
/* "classes_present". */
void cst_map_put_present(cst_report *report, json_t *object, const cst_map_scores *scores);

/* "per_class" and, up to 64 classes, "confusion". pool: for names; NULL: none. */
void cst_map_put_classes(cst_report *report, json_t *object, const cst_pool *pool,
                         const cst_map_scores *scores);

#endif
