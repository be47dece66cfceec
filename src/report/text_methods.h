/*
 * What the texts of compare, ablate, sweep and evaluate share: the sentences on what was scored and
 * how, tables of scores, definitions, seconds, and the tables that only one task has. Used by
 * src/report/text_{compare,ablate,sweep,evaluate}.c. Paper: the layout of the results tables.
 */
#ifndef CST_REPORT_TEXT_METHODS_H
#define CST_REPORT_TEXT_METHODS_H

#include "report/text.h"
#include "report/text_table.h"

/* How many rows of one weight the rows of a document say as much as, where it has that. */
void cst_text_effective(cst_page *page, const json_t *root);
/* "16 cases, 18771 pixels scored": what was scored. */
void cst_text_counts(cst_page *page, const json_t *root);

/* The lines under a command's name: counts, and how the rows were scored. */
void cst_text_scored(cst_page *page, const json_t *root);

/* What the marks and intervals of a table mean. */
void cst_text_legend(cst_page *page, const json_t *root);

/* A table of the scores of a group by method or stage (`key`), where any row has one of them. Of
 * the task: its further scores, those that the methods' table leaves out. */
void cst_text_score_table(cst_page *page, const json_t *root, const json_t *rows, const char *key,
                          cst_score_group group, const char *heading);
void cst_text_further(cst_page *page, const json_t *root, const json_t *rows, const char *key);

/* Tables of corruption, splits, classes, groups and rows out of distribution, where the document
 * has them; `full`: also each kind of corruption. */
void cst_text_shift(cst_page *page, const json_t *root, const json_t *rows, const char *key,
                    bool full);

/* Tables of the document's task: of a regression prediction intervals and outputs, of a
 * segmentation its classes, of detections their categories. */
void cst_text_task(cst_page *page, const json_t *root, const json_t *rows);

/* Of a regression: for each level the share of the targets inside the prediction intervals and the
 * width of these (`rows` as in table.h); the outputs, where there are several. */
void cst_text_coverage(cst_page *page, const json_t *rows);
void cst_text_outputs(cst_page *page, const json_t *root);

/* "Definitions" of the scores shown: all but the further ones, and those too where `full`. */
void cst_text_definitions(cst_page *page, const json_t *root, bool full);

/* The end of each text: notices and seconds. */
void cst_text_end(cst_page *page, const json_t *root);

#endif
