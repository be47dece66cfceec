/* Delimited text: records of cells. Under the tables (data/readers/table.h), for pools that come
 * from spreadsheets and competitions. */
#pragma once

#include "core/cell_text.h"
#include "core/scope.h"
#include "data/files/bytes.h"
#include "data/files/output.h"
#include "data/readers/file_parts.h"
#include "data/readers/strings.h"

/* A reader of records: comma, semicolon or tab (found from the first line), double quotes, LF, CRLF
 * or CR, a UTF-8 byte order mark skipped. Empty lines are accepted at the end only. */
typedef struct cst_csv {
    char *text;    /* the cells of the current record, each closed by a NUL */
    size_t *cells; /* [cell_count] offsets into text */
    int32_t cell_count;
    int64_t record_line; /* where the record starts, from 1 */
    int64_t part;        /* of several files, the one that the record is in */
    char delimiter;
    bool blank; /* set it: from now on a cell that is missing (cst_csv_is_missing) is NaN */
    bool raw;   /* set it: from the next record on cells keep their quotes, spaces and apostrophe */
    /* the rest is of csv.c */
    cst_bytes *source;
    unsigned char *chunk;
    size_t chunk_used;
    size_t chunk_at;
    uint64_t offset; /* of the byte after the chunk */
    int64_t line;    /* of the next byte */
    int64_t records;
    int32_t columns; /* of the first record; 0 before it */
    size_t text_used;
    size_t text_room;
    int32_t cell_room;
    const cst_file_parts *files; /* where there are several; else NULL */
    uint64_t zip_limit;
    bool go_on;  /* after the first part */
    bool header; /* each part begins with that of the first */
    char *head;  /* [head_used] the first record of the first part, as text */
    size_t head_used;
} cst_csv;

/* Of one file or several, of which only records of the first are read before cst_csv_go_on. The
 * scope closes it. */
cst_status cst_csv_open(cst_context *context, cst_scope *scope, cst_csv **out,
                        const cst_row_source *source);
/* Continues with the other parts after the first. header: each part begins with the first record of
 * the first part, which is skipped. Every part must have other records. */
void cst_csv_go_on(cst_csv *csv, bool header);
/* Of the file, or the part, that is read. */
const char *cst_csv_name(const cst_csv *csv);

/* The next record. *end is set, and there is no record, after the last one. All records have as
 * many cells as the first. Errors say line and column (counted from 1; a column is a cell). */
cst_status cst_csv_next(cst_context *context, cst_csv *csv, bool *end);
cst_status cst_csv_rewind(cst_context *context, cst_csv *csv);

/* A cell of the current record, valid until the next one. */
static inline const char *cst_csv_cell(const cst_csv *csv, int32_t cell) {
    return csv->text + csv->cells[cell];
}

/* A cell of the current record as a number, or an error with line and column. The decimal point is
 * a point whatever the locale. "nan" and "inf" are numbers here: the pool names them with their
 * row. */
cst_status cst_csv_number(cst_context *context, const cst_csv *csv, int32_t cell, double *out);

/* ---- cells as they are written, in csv_write.c ---- */

cst_status cst_csv_put_text(cst_context *context, cst_output_file *output, const char *text);
/* A cell; in quotes where a reader would take it for something else. mark: what stands in front, or
 * "". */
cst_status cst_csv_put_cell(cst_context *context, cst_output_file *output, const char *mark,
                            const char *text);
/* CST_ERROR_ARGUMENT for an id [rows] or a name [classes] that is NULL; either may be missing. */
cst_status cst_csv_check_texts(cst_context *context, const char *call, const char *const *ids,
                               int64_t rows, const char *const *class_names, int32_t classes);
/* Digits enough to read the same float32. */
/* A name or id of the caller's, with a mark where a spreadsheet would compute it. */
cst_status cst_csv_put_name(cst_context *context, cst_output_file *output, const char *text);
cst_status cst_csv_put_number(cst_context *context, cst_output_file *output, float value);
