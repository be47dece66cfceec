/*
 * The scores that tables of methods have as columns: key in the document, header, decimals, which
 * way is better; the best and second best of a column; the rows of a document.
 * Used by the text, CSV and Markdown renderings. Paper: the layout of the main results table.
 */
#ifndef CST_REPORT_SCORES_H
#define CST_REPORT_SCORES_H

#include "report/page.h"

typedef enum cst_score_group {
    CST_SCORE_BASIC = 0,   /* in every table */
    CST_SCORE_FURTHER = 1, /* other measures of calibration */
    CST_SCORE_OOD = 2,     /* telling out-of-distribution rows from the others */
    CST_SCORE_CORRUPTION = 3,
    CST_SCORE_CLASSES = 4, /* parts of a split: classes by training count, groups, splits */
    CST_SCORE_VALUES = 5,  /* of regression */
    CST_SCORE_BOXES = 6    /* COCO's figures; below 0 (-1) where there is nothing to score */
} cst_score_group;

typedef struct cst_score {
    const char *key;      /* in a row of the document */
    const char *interval; /* the key of its 95% interval */
    const char *header;
    cst_score_group group;
    int decimals; /* of value * scale */
    double scale;
    bool more; /* more is better */
} cst_score;

/* Basic scores first, in the order of the columns; NULL past the end. */
const cst_score *cst_score_at(size_t index);
enum { CST_SCORES_BASIC = 4 };

/* The score with this key, or NULL. */
const cst_score *cst_score_find(const char *key);

/* Its value in a row; NaN where the row has none or it is not defined. */
double cst_score_value(const json_t *row, const cst_score *score);

/* The two best values of a column, NaN where there are not so many different ones. A column with
 * one row has no best. */
typedef struct cst_places {
    double best;
    double second;
} cst_places;

cst_places cst_score_places(const json_t *rows, const cst_score *score);

/* Bold for the best, underlined for the second best. */
cst_style cst_score_style(const cst_places *places, double value);

/* The adjusted p-value of the paired test of `metric` between `method` and the document's
 * reference; NaN where there is none. */
double cst_score_adjusted_p(const json_t *root, const char *method, const char *metric);

/* The rows of a document of compare, ablate or sweep, or of an evaluation with what stands beside
 * the model; a new reference, NULL without memory. A document without rows gives an empty list. */
json_t *cst_document_rows(const json_t *root);

#endif
