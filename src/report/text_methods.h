/*
 * What the texts of compare, ablate and sweep share: score columns with intervals, the sentence on
 * how rows were scored, definitions, seconds.
 * Used by src/report/text_{compare,ablate,sweep}.c. Paper: the layout of the results tables.
 */
#ifndef CST_REPORT_TEXT_METHODS_H
#define CST_REPORT_TEXT_METHODS_H

#include "report/scores.h"
#include "report/text.h"

/* A score column of a table: its two best values, and the decimals its intervals are shown with. */
typedef struct cst_score_column {
    const cst_score *score;
    cst_places places;
    int decimals;
} cst_score_column;

void cst_text_columns(const json_t *rows, cst_score_column columns[CST_SCORES_BASIC]);

/* Two cells: the score, and its interval as short as it may be ("96.1-98.3", ".010-.015"). */
void cst_text_score(cst_grid *table, const json_t *row, const cst_score_column *column);

/* Two cells: the score in full and its interval as "[low, high]". */
void cst_text_score_wide(cst_grid *table, const json_t *row, const cst_score *score,
                         const cst_places *places);

/* The two lines under a command's name: rows, and how they were scored. */
void cst_text_scored(cst_page *page, const json_t *root);

/* What the marks and intervals of a table mean. */
void cst_text_legend(cst_page *page, const json_t *root);

/* A table of the scores of a group by method or stage (`key`), where any row has one of them. */
void cst_text_score_table(cst_page *page, const json_t *rows, const char *key,
                          cst_score_group group, const char *heading);

/* Tables of corruption, splits, classes, groups and rows out of distribution, where the document
 * has them; `full`: also each kind of corruption. */
void cst_text_shift(cst_page *page, const json_t *root, const json_t *rows, const char *key,
                    bool full);

/* "Definitions" of the scores shown: all but the further ones, and those too where `full`. */
void cst_text_definitions(cst_page *page, const json_t *root, bool full);

void cst_text_seconds(cst_page *page, const json_t *root);

#endif
