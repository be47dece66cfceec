/*
 * Delimited text: records of cells. Under the tables (data/readers/table.h), for pools that come
 * from spreadsheets and competitions.
 */
#ifndef CST_IO_CSV_H
#define CST_IO_CSV_H

#include "core/cell_text.h"
#include "core/scope.h"
#include "data/files/bytes.h"
#include "data/files/output.h"
#include "data/readers/file_parts.h"
#include "data/readers/strings.h"

/* A reader of records: comma, semicolon or tab (found from the first line), double quotes, LF, CRLF
 * or CR, a UTF-8 byte order mark skipped. Empty lines are accepted at the end only. */
typedef struct cst_csv cst_csv;

/* Of one file or several, of which only records of the first are read before cst_csv_go_on. The
 * scope closes it. */
cst_status cst_csv_open(cst_context *context, cst_scope *scope, cst_csv **out,
                        const cst_row_source *source);
/* Continues with the other parts after the first. header: each part begins with the first record of
 * the first part, which is skipped. Every part must have other records. */
void cst_csv_go_on(cst_csv *csv, bool header);
/* The part of the current record. */
int64_t cst_csv_part(const cst_csv *csv);
/* Of the file, or the part, that is read. */
const char *cst_csv_name(const cst_csv *csv);

/* The next record. *end is set, and there is no record, after the last one. All records have as
 * many cells as the first. Errors say line and column (counted from 1; a column is a cell). */
cst_status cst_csv_next(cst_context *context, cst_csv *csv, bool *end);
/* From the next record on cells are the bytes of the file, with quotes, spaces and apostrophe. */
void cst_csv_keep_raw(cst_csv *csv);
char cst_csv_delimiter(const cst_csv *csv);
cst_status cst_csv_rewind(cst_context *context, cst_csv *csv);

/* Of the current record. */
int32_t cst_csv_cells(const cst_csv *csv);
const char *cst_csv_cell(const cst_csv *csv, int32_t cell); /* valid until the next record */
int64_t cst_csv_line(const cst_csv *csv);                   /* where the record starts, from 1 */

/* A cell of the current record as a number, or an error with line and column. The decimal point is
 * a point whatever the locale. "nan" and "inf" are numbers here: the pool names them with their
 * row. */
cst_status cst_csv_number(cst_context *context, const cst_csv *csv, int32_t cell, double *out);
/* From now on a cell that is missing (cst_csv_is_missing) is a number, NaN. */
void cst_csv_accept_blank(cst_csv *csv);

/* ---- cells as they are written, in csv_write.c ---- */

cst_status cst_csv_put_text(cst_context *context, cst_output_file *output, const char *text);
/* A cell; in quotes where a reader would take it for something else. mark: what stands in front, or
 * "". */
cst_status cst_csv_put_cell(cst_context *context, cst_output_file *output, const char *mark,
                            const char *text);
/* Digits enough to read the same float32. */
cst_status cst_csv_put_number(cst_context *context, cst_output_file *output, float value);

#endif
