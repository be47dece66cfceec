/*
 * Text for a terminal: a growing page, and tables with aligned columns on it. The renderers of
 * src/report/text_*.c write on it.
 */
#ifndef CST_REPORT_PAGE_H
#define CST_REPORT_PAGE_H

#include "core/buffer.h"

#include <jansson.h>

typedef enum cst_style { CST_PLAIN = 0, CST_BOLD = 1, CST_DIM = 2, CST_UNDERLINE = 3 } cst_style;

/* Zero-initialise but for the context of the text, and color. A failure is kept in the text's
 * status and makes every later call do nothing. */
typedef struct cst_page {
    cst_buffer text;
    bool color; /* styles become ANSI sequences; else they vanish */
} cst_page;

/* Appends text. Control characters other than the newline (names come from files) become '?'. */
void cst_page_print(cst_page *page, const char *format, ...) CST_PRINTF(2, 3);
void cst_page_styled(cst_page *page, cst_style style, const char *format, ...) CST_PRINTF(3, 4);
/* A paragraph indented by two, its lines broken between words. */
void cst_page_paragraph(cst_page *page, const char *format, ...) CST_PRINTF(2, 3);
/* Text in which each # becomes the next double with `digits` significant digits, "-" for NaN. */
void cst_page_numbers(cst_page *page, int digits, const char *text, ...);
/* An empty line and a bold heading. */
void cst_page_heading(cst_page *page, const char *format, ...) CST_PRINTF(2, 3);

enum { CST_GRID_COLUMNS = 32, CST_PAGE_WIDTH = 100 };

typedef struct cst_cell {
    char *text;
    cst_style style;
} cst_cell;

typedef struct cst_grid {
    cst_page *page;
    int columns;
    const char *align; /* for each column 'l', 'r', or 'i': left, one space after its neighbour */
    const char *const *headers;
    size_t count; /* cells so far, row after row */
    size_t size;
    cst_cell *cells;
} cst_grid;

/* Starts a table of strlen(align) <= CST_GRID_COLUMNS columns. Columns in which every cell is
 * empty or "-" are left out. */
void cst_grid_begin(cst_grid *table, cst_page *page, const char *align, const char *const *headers);
/* Appends a cell; newlines in it become '?'. */
void cst_grid_cell(cst_grid *table, cst_style style, const char *format, ...) CST_PRINTF(3, 4);
/* The number in the form given (one conversion of a double), or "-" for NaN. */
void cst_grid_number(cst_grid *table, cst_style style, int decimals, double value);
/* A large quantity with an SI prefix: 4.1G; "-" for NaN. */
void cst_grid_quantity(cst_grid *table, cst_style style, double value);
/* The string at a key of the object, or "-". */
void cst_grid_text(cst_grid *table, cst_style style, const json_t *object, const char *key);
/* The object's "name", or where it has none the number at `key`. */
void cst_grid_name(cst_grid *table, const json_t *object, const char *key);
/* Prints the table, indented by two, and frees it. */
void cst_grid_end(cst_grid *table);

/* What a document holds at a key: NaN, NULL or false where it is absent, null or of another type.
 * Strings are borrowed. */
double cst_json_number(const json_t *object, const char *key);
/* Whether one of the rows, a list of objects, has a number or a text that is not empty there. */
bool cst_json_has_column(const json_t *rows, const char *key);
const char *cst_json_string(const json_t *object, const char *key);
const char *cst_json_text(const json_t *object, const char *key); /* "-" in place of NULL */
bool cst_json_flag(const json_t *object, const char *key);
/* The same for an entry of a list. */
double cst_json_number_at(const json_t *list, size_t index);
const char *cst_json_string_at(const json_t *list, size_t index);

#endif
