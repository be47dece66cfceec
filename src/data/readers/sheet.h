/* The first rows of a table: whether there is a header, what the names say and what the columns
 * hold. Under the choice of columns (data/readers/table.h). */
#pragma once

#include "data/readers/column_names.h"
#include "data/readers/csv.h"

/* What a column holds, as far as the first rows show. */
typedef struct cst_sheet_column {
    cst_column_hint hint;
    int64_t empty;       /* or said to be missing */
    int64_t numbers;     /* finite or not */
    int64_t texts;       /* neither empty nor a number */
    int64_t odd_numbers; /* of the texts: numbers in another form, as "0,5" and "50%" */
    bool whole;          /* numbers, all of them integers */
    bool counts;         /* numbers, each one more than the one before */
    bool unit; /* numbers alone, or gaps, in [0, 1] but for single ones, which are errors of
                  their rows */
} cst_sheet_column;

typedef struct cst_sheet {
    bool header;
    int32_t columns;
    cst_strings *names;         /* [columns], where there is a header; else NULL */
    const cst_sheet_column *of; /* [columns] */
    const cst_strings *cells;   /* [rows][columns] of the first rows of data, after ... */
    int64_t skipped;            /* ... the header's cells */
    int64_t rows;
} cst_sheet;

/* Reads the first rows. csv: at its beginning; it stands somewhere else afterwards. wanted: names
 * that show that the first row is a header (NULL-terminated, or NULL). numeric: the values are
 * numbers. */
cst_status cst_sheet_read(cst_context *context, cst_scope *scope, cst_sheet *out, cst_csv *csv,
                          const char *const *wanted, bool numeric);
/* The same of the file at `path`; no columns where it is an array. */
cst_status cst_sheet_look(cst_context *context, cst_scope *scope, cst_sheet *out, const char *path,
                          uint64_t zip_limit);

const char *cst_sheet_cell(const cst_sheet *sheet, int64_t row, int32_t column);
/* The column's name; "" without a header. */
const char *cst_sheet_name(const cst_sheet *sheet, int32_t column);
/* Whether no two cells of a column are the same. */
bool cst_sheet_distinct(const cst_sheet *sheet, int32_t column);
/* Whether the numbers of columns [count] are in [0, 1] and sum to 1 in rows without gaps (but for
 * single ones, which are errors of their rows). */
bool cst_sheet_sums_to_one(const cst_sheet *sheet, const int32_t *columns, int32_t count);
/* Whether a column may be the ids: no two cells are the same, none is empty, and the numbers are
 * integers. */
bool cst_sheet_may_be_ids(const cst_sheet *sheet, int32_t column);
/* Whether a column holds nothing: a delimiter at the end of every line. */
bool cst_sheet_blank(const cst_sheet *sheet, int32_t column);

/* The column that `key` names: by its name, whatever the case, or by its number from 1; -1: none.
 */
int32_t cst_sheet_find(const cst_sheet *sheet, const char *key);
/* The column of the sample ids by the rules; -1: none. */
int32_t cst_sheet_ids(const cst_sheet *sheet);
/* How messages call a column: "column 'x'" or "column 2". Returns `buffer`. */
enum { CST_COLUMN_CHARS = 112 };
const char *cst_sheet_column_name(const cst_sheet *sheet, int32_t column,
                                  char buffer[CST_COLUMN_CHARS]);
/* The names of all columns (or "5 columns"), for messages. Returns `buffer`. */
const char *cst_sheet_list(const cst_sheet *sheet, char buffer[CST_LISTED_CHARS]);
