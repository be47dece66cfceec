/* Tables: columns that know which value of a row they show, and writers for text, Markdown, LaTeX
 * and CSV. */
#pragma once

#include "report/scores.h"

typedef enum cst_column_kind {
    CST_COLUMN_NUMBER,
    /* On the left. */
    CST_COLUMN_TEXT,
    CST_COLUMN_NOTE,   /* dim text */
    CST_COLUMN_FILLED, /* a template over the row, see page.h */
    CST_COLUMN_NAME,   /* "name", or where the row has none the number at the key */
    CST_COLUMN_CODE,
    CST_COLUMN_OUTER, /* text of the row that a nested list is in, beside its first entry */
    /* On the right. */
    CST_COLUMN_PLACE,    /* of the row, from 1 */
    CST_COLUMN_QUANTITY, /* with an SI prefix */
    CST_COLUMN_GENERAL,  /* a number as short as it is */
    CST_COLUMN_SIGNED,
    CST_COLUMN_P, /* a p-value: at the key, or the adjusted one of the row's method */
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

typedef struct cst_table cst_table;
typedef void cst_cell_code(cst_table *table, const json_t *row);
typedef bool cst_shows_fn(const cst_table *table, const json_t *row);

/* The commonest columns. */
#define CST_NUMBER(name, title, digits)                                                            \
    { .key = (name), .header = (title), .decimals = (digits) }
#define CST_PERCENT(name, title, digits)                                                           \
    { .key = (name), .header = (title), .decimals = (digits), .scale = 100 }
#define CST_WORDS(name, title)                                                                     \
    { .key = (name), .header = (title), .kind = CST_COLUMN_TEXT }
#define CST_QUANTITY(name, title)                                                                  \
    { .key = (name), .header = (title), .kind = CST_COLUMN_QUANTITY }
#define CST_FILLED(words, title)                                                                   \
    { .key = (words), .header = (title), .kind = CST_COLUMN_FILLED }
/* A list of columns with its end. */
#define CST_COLUMNS(...)                                                                           \
    {                                                                                              \
        __VA_ARGS__, {                                                                             \
            .header = NULL                                                                         \
        }                                                                                          \
    }

typedef struct cst_column {
    const char *key; /* of the row or the object; a template where the column is filled; NULL: the
                        object is the value */
    const char *header;
    cst_column_kind kind;
    int decimals;
    double scale;       /* 0: 1 */
    const char *object; /* its path in the row, see page.h; NULL: the row */
    char align;         /* 'l', 'r', or with one space in front: 'i' to the left, beside its
                           neighbour, 'n' to the right; 0: by the kind */
    bool spare;         /* left out of text that would be wider than the page, unless in full */
    cst_style style;    /* of all its cells; plain: that of the row */
    const char *tail;   /* LaTeX: behind the number */
    int arrow;          /* LaTeX: 1 if more is better, -1 if less is */
    const char *only;   /* LaTeX: a key that rows must have too; NULL: none */
    const cst_score_spec *score;
    cst_places places;
    cst_cell_code *code;
} cst_column;

typedef enum cst_cell_kind { CST_CELL_TEXT, CST_CELL_NUMBER, CST_CELL_MISSING } cst_cell_kind;

typedef struct cst_cell {
    char *text;
    char *tail; /* behind a number: its error or interval; NULL: nothing */
    cst_cell_kind kind;
    cst_style style;
} cst_cell;

typedef struct cst_dialect {
    const char *row, *before, *between, *after, *end; /* of a row and its cells */
    const char *on[4], *off[4];                       /* around numbers, by style */
    bool tail_inside;                                 /* the tail is in front of `off` */
    const char *missing;                              /* in place of a number that is not there */
    void (*text)(cst_page *page, const char *text);   /* texts with what would be markup escaped */
    void (*header)(cst_page *page, const cst_column *column);
} cst_dialect;

enum { CST_TABLE_COLUMNS = 256 };

/* `rows` is a list, or one object for a table of one row. */
struct cst_table {
    cst_page *page;
    const json_t *root, *rows;
    const cst_dialect *dialect; /* NULL: text, where columns without content are left out */
    const char *nested;  /* the table has the entries of this list of each row; NULL: the rows */
    size_t first;        /* row shown first */
    size_t limit;        /* rows shown at most; 0: all */
    cst_shows_fn *shows; /* whether a row is shown; NULL: all are */
    const char *mark;    /* flag of the rows that are bold; NULL: none */
    cst_style other;     /* of the other rows */
    cst_style style;     /* of the present row */
    size_t place;        /* of the present row, from 0 */
    int leading;         /* columns that say which row it is; 0: up to the first on the left */
    int count;
    cst_column columns[CST_TABLE_COLUMNS];
    cst_scope scope; /* of the cells */
    size_t cell_count, size;
    cst_cell *cells;
};

/* Further columns, up to the end of the list, as far as there is room. */
void cst_table_add(cst_table *table, const cst_column *columns);
void cst_table_add_one(cst_table *table, cst_column column);

/* Adds for each score of the task a column `value` and, where there is room, `interval`: SCORE,
 * VALUE or DIFFERENCE with SHORT, BRACKETS, EXCLUDES or NUMBER (none); MEAN with SD. Of means over
 * repetitions, the standard error instead of an interval. */
void cst_table_add_scores(cst_table *table, cst_column_kind value, cst_column_kind interval,
                          char align);

/* Costs of prediction: members and FLOPs; in full condition numbers where `kappa`, and seconds of
 * the fit. */
void cst_table_add_costs(cst_table *table, bool kappa);

/* Adds the scores of a group, or the further scores of the task. Returns their number. */
int cst_table_add_group(cst_table *table, cst_score_group group);

/* The number of a row in a column that is no score; NaN where it has none. */
double cst_column_number(const json_t *row, const cst_column *column);

/* A cell; the table's next. */
void cst_table_cell(cst_table *table, cst_style style, const char *format, ...) CST_PRINTF(3, 4);
/* A template over an object. */
void cst_table_filled(cst_table *table, cst_style style, const json_t *object, const char *text);
/* Appends error or interval to the last cell in LaTeX and Markdown. */
void cst_table_tail(cst_table *table, const char *format, ...) CST_PRINTF(2, 3);
/* A number in a form of its own. */
void cst_table_value(cst_table *table, const char *format, ...) CST_PRINTF(2, 3);
/* A number, "-" for NaN. */
void cst_table_number(cst_table *table, cst_style style, int decimals, double value);
/* A large quantity with an SI prefix: 4.1G; "-" for NaN. */
void cst_table_quantity(cst_table *table, cst_style style, double value);
/* "0.012", "<0.001"; in text with an asterisk below CST_SIGNIFICANT. */
#define CST_SIGNIFICANT 0.05
void cst_table_p(cst_table *table, double p);

/* In other dialects than text: the headers. */
void cst_table_heads(const cst_table *table);
/* Prints the cells there are, in text below the headers, and frees them. */
void cst_table_end(cst_table *table);
/* The cells of the rows, of a table as text; with cst_table_end behind it. */
void cst_table_fill(cst_table *table);
void cst_table_print(cst_table *table);

/* The rows of a document as comma-separated values, and as tables in Markdown and LaTeX. */
typedef void cst_rows_renderer(cst_page *page, const json_t *root, const json_t *rows);
cst_rows_renderer cst_rows_csv, cst_rows_markdown, cst_rows_latex;
