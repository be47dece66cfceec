/*
 * Tables of the rows of a document: columns that say which key they show and how, among them the
 * scores of the document's task.
 * Used by the text renderings. Paper: the layout of the results tables.
 */
#ifndef CST_REPORT_TEXT_TABLE_H
#define CST_REPORT_TEXT_TABLE_H

#include "report/scores.h"

typedef enum cst_column_kind {
    CST_COLUMN_NUMBER = 0,
    CST_COLUMN_TEXT,
    CST_COLUMN_NOTE,     /* dim text */
    CST_COLUMN_NAME,     /* "name", or where the row has none the number at the key */
    CST_COLUMN_PLACE,    /* of the row, from 1 */
    CST_COLUMN_OUTER,    /* text of the row that a nested list is in, beside its first entry */
    CST_COLUMN_QUANTITY, /* with an SI prefix */
    CST_COLUMN_GENERAL,  /* a number as short as it is */
    CST_COLUMN_P,        /* adjusted p-value of the row's method */
    /* Of scores. */
    CST_COLUMN_SCORE,    /* the best bold, the second best underlined */
    CST_COLUMN_VALUE,    /* a score without these marks */
    CST_COLUMN_SHORT,    /* interval as short as it may be: "96.1-98.3", ".010-.015" */
    CST_COLUMN_BRACKETS, /* interval in full: "[96.12, 98.31]" */
    CST_COLUMN_DIFFERENCE,
    CST_COLUMN_EXCLUDES, /* interval of the difference; an asterisk where it excludes 0 */
    CST_COLUMN_MEAN,
    CST_COLUMN_SD,
    CST_COLUMN_ERROR /* standard error over repetitions */
} cst_column_kind;

typedef struct cst_text_column {
    const char *key;
    const char *header;
    cst_column_kind kind;
    int decimals;
    double scale;       /* 0: 1 */
    const char *object; /* the key is one of this object of the row; NULL: of the row */
    size_t index;       /* where there is no key, of the list `object` */
    char align;         /* 0: by the kind; else as in page.h */
    const cst_score_spec *score;
    cst_places places;
} cst_text_column;

/* `rows` is a list, or one object for a table of one row. */
typedef struct cst_text_table {
    cst_page *page;
    const json_t *root;
    const json_t *rows;
    const char *nested; /* the table has the entries of this list of each row; NULL: the rows */
    size_t first;       /* row shown first */
    size_t limit;       /* rows shown at most; 0: all */
    int count;
    cst_text_column columns[CST_GRID_COLUMNS];
} cst_text_table;

/* Further columns; those past CST_GRID_COLUMNS are left out. */
void cst_text_table_add(cst_text_table *table, const cst_text_column *columns, size_t count);

/* For each score of the task that tables hold a column `value`, and where there is room, its
 * interval: one of SCORE, VALUE and DIFFERENCE with one of SHORT, BRACKETS, EXCLUDES and NUMBER (no
 * interval); or MEAN with SD, of the scores that summaries hold. Where the rows are means over
 * repetitions, the standard error stands instead of each interval. */
void cst_text_table_add_scores(cst_text_table *table, cst_column_kind value,
                               cst_column_kind interval, char align);

/* What prediction costs: members, the condition numbers where `kappa`, FLOPs; seconds of the fit.
 */
void cst_text_table_add_costs(cst_text_table *table, bool kappa);

/* Scores of a group that a row has, with intervals in full; of the task its further scores, those
 * that cst_text_table_add_scores leaves out. Returns how many. */
int cst_text_table_add_group(cst_text_table *table, cst_score_group group);

/* Prints the table; columns without content are left out. */
void cst_text_table_print(const cst_text_table *table);

/* All of it in one call; nothing without rows. */
void cst_text_table_show(cst_page *page, const json_t *rows, const cst_text_column *columns,
                         size_t count);

/* "0.012", "<0.001"; with an asterisk below CST_SIGNIFICANT. */
#define CST_SIGNIFICANT 0.05
void cst_grid_p(cst_grid *grid, double p);

/* The scales and biases of domains of a fit or a model; nothing where there are none. */
void cst_text_domains(cst_page *page, const json_t *root);

#endif
