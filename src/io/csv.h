/*
 * Delimited text: records of cells, and tables of numbers or labels with an optional header and an
 * optional id column. For pools that come from spreadsheets and competitions. Paper: none.
 */
#ifndef CST_IO_CSV_H
#define CST_IO_CSV_H

#include "io/bytes.h"
#include "io/strings.h"

/* ---- records ---- */

/* A reader of records: comma, semicolon or tab (found from the first line), double quotes, LF, CRLF
 * or CR, a UTF-8 byte order mark skipped. Empty lines are accepted at the end only. Path and
 * zip_limit as of cst_bytes_open. */
typedef struct cst_csv cst_csv;

cst_status cst_csv_open(cst_context *context, cst_csv **out, const char *path, uint64_t zip_limit);
void cst_csv_close(cst_context *context, cst_csv *csv);
const char *cst_csv_name(const cst_csv *csv);

/* The next record. *end is set, and there is no record, after the last one. All records have as
 * many cells as the first. Errors say line and column (counted from 1; a column is a cell). */
cst_status cst_csv_next(cst_context *context, cst_csv *csv, bool *end);
cst_status cst_csv_rewind(cst_context *context, cst_csv *csv);

/* Of the current record. */
int32_t cst_csv_cells(const cst_csv *csv);
const char *cst_csv_cell(const cst_csv *csv, int32_t cell); /* valid until the next record */
int64_t cst_csv_line(const cst_csv *csv);                   /* where the record starts, from 1 */

/* A cell of the current record as a number, or an error with line and column. The decimal point is
 * a point whatever the locale. "nan" and "inf" are numbers here: the pool names them with their
 * row. */
cst_status cst_csv_number(cst_context *context, const cst_csv *csv, int32_t cell, double *out);
/* Whether a text is a number in that sense; blank is not. */
bool cst_csv_is_number(const char *text);
/* From now on an empty cell, NA, N/A, null or None is a number that is missing, NaN. */
void cst_csv_accept_blank(cst_csv *csv);
/* Whether a spreadsheet would take a text for a formula: it begins with = + - @, a tab or a line
 * end, and is no number; apostrophes and spaces before that are passed over. Writers put an
 * apostrophe before such a text, and the reader takes one away, so that it reads back as it was. */
bool cst_csv_is_formula(const char *text);
/* Whether a text reads back as it is without quotes, whatever of , ; and tab is the delimiter. */
bool cst_csv_is_bare(const char *text);

/* ---- tables ---- */

typedef enum cst_table_use {
    CST_TABLE_MATRIX, /* one row of numbers per sample */
    CST_TABLE_COLUMN, /* one value per sample: labels, folds, groups */
    CST_TABLE_IDS     /* one id per sample */
} cst_table_use;

/* What the columns of a file are. A first row that is not numeric is a header, and so are the
 * column numbers 0, 1, 2, ... The id column is the one called id, sample_id, image_id or row_id (or
 * nameless and first), else the first one that is not numeric. */
typedef struct cst_table {
    cst_csv *csv; /* stands before the first row of data */
    bool header;
    int32_t columns;
    int32_t id_column;    /* -1: none */
    int32_t value_column; /* of COLUMN and IDS; -1 of MATRIX */
    int32_t width;        /* value columns: columns less the id column for MATRIX, else 1 */
    cst_strings *names;   /* of all columns where there is a header, else NULL */
} cst_table;

/* `wanted` (NULL-terminated, or NULL) are the names of the column that is meant, for COLUMN. */
cst_status cst_table_open(cst_context *context, cst_table **out, const char *path,
                          cst_table_use use, const char *const *wanted, uint64_t zip_limit);
void cst_table_close(cst_context *context, cst_table *table);
/* Back to the first row of data. */
cst_status cst_table_rewind(cst_context *context, cst_table *table);

#endif
