/* Rows, columns and ids from npy, npz, safetensors or delimited text. Between the formats and the
 * pool. Paper: the rows of P_oof and y. */
#include "data/readers/row_file.h"
#include "data/readers/npy.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

cst_status cst_npy_open_source(cst_context *context, cst_scope *scope, cst_npy **out,
                               const cst_row_source *source) {
    return source->parts ? cst_npy_open_parts(context, scope, out, source->parts, source->zip_limit)
                         : cst_npy_open(context, scope, out, source->path, source->zip_limit);
}

/* Where the parts of an array begin; or room for those of a table, which note_part fills in. */
static cst_status take_parts(cst_context *context, cst_scope *scope, const cst_row_source *source,
                             const cst_npy *npy, cst_row_parts *out) {
    if (!source->parts)
        return CST_OK;
    size_t count = (size_t)source->parts->count + 1;
    CST_TAKE(context, scope, out->first, count);
    out->files = source->parts;
    if (npy)
        memcpy(out->first, cst_npy_row_parts(npy)->first, count * sizeof *out->first);
    return CST_OK;
}

/* The current record is the last of `count`, all of them in order. */
static void note_part(const cst_csv *csv, int64_t count, cst_row_parts *parts) {
    if (parts->first)
        for (int64_t k = csv->part + 1; k <= parts->files->count; k++)
            parts->first[k] = count;
}

cst_status cst_row_file_open(cst_context *context, cst_scope *scope, cst_row_file **out,
                             const cst_row_source *source, const cst_table_ask *ask) {
    bool text = false;
    *out = NULL;
    CST_NEW(context, scope, cst_row_file, rows, 1);
    CST_TRY(cst_scope_take(context, scope, &rows->scope));
    rows->path = cst_take_text(context, scope, source->path);
    if (!rows->path)
        return CST_ERROR_MEMORY;
    CST_TRY(cst_is_text_source(context, source, &text));
    if (text)
        CST_TRY(cst_table_open(context, scope, &rows->table, source, ask));
    else
        CST_TRY(cst_npy_open_source(context, scope, &rows->npy, source));
    CST_TRY(take_parts(context, scope, source, rows->npy, &rows->parts));
    rows->row_count = text ? -1 : cst_npy_rows(rows->npy);
    rows->width = text ? rows->table->width : cst_npy_width(rows->npy);
    *out = rows;
    return CST_OK;
}

const char *cst_row_file_shape_text(const cst_row_file *rows, char buffer[CST_NPY_SHAPE_CHARS]) {
    if (rows->npy)
        return cst_npy_shape_text(rows->npy, buffer);
    if (rows->row_count < 0)
        (void)cst_snprintf(buffer, CST_NPY_SHAPE_CHARS, "(?, %" PRId64 ")", rows->width);
    else
        (void)cst_snprintf(buffer, CST_NPY_SHAPE_CHARS, "(%" PRId64 ", %" PRId64 ")",
                           rows->row_count, rows->width);
    return buffer;
}

int cst_row_file_dims(const cst_row_file *rows) {
    return rows->npy ? rows->npy->dims : 2;
}

bool cst_row_file_has_ids(const cst_row_file *rows) {
    return rows->table && rows->table->id_column >= 0;
}

/* what: NULL where a cell may be empty. */
static cst_status add_cell(cst_context *context, const cst_csv *csv, int32_t cell, const char *what,
                           cst_strings *strings) {
    const char *text = cst_csv_cell(csv, cell);
    if (*text == '\0' && what)
        return cst_fail(context, CST_ERROR_INPUT,
                        "%s: line %" PRId64 ", column %d is empty; every row needs %s: fill it in, "
                        "or remove the row from every file",
                        cst_csv_name(csv), csv->record_line, cell + 1, what);
    return cst_strings_put(context, strings, text);
}

cst_status cst_row_claim_check(cst_context *context, const char *path, int64_t rows,
                               const cst_row_claim *claim) {
    if (!claim || claim->rows < 0 || rows < 0 ||
        (rows <= claim->rows + CST_CLAIM_SLACK && claim->rows <= rows + CST_CLAIM_SLACK))
        return CST_OK;
    return cst_fail(context, CST_ERROR_MISMATCH,
                    "%s: has %" PRId64 " rows, but %s has %" PRId64
                    "; both must describe the same samples",
                    path, rows, claim->where, claim->rows);
}

/* The same of delimited text of which `rows` rows were read. */
static cst_status check_text_claim(cst_context *context, const char *path, int64_t rows,
                                   const cst_row_claim *claim) {
    if (!claim || claim->rows < 0 || rows <= claim->rows + CST_CLAIM_SLACK)
        return CST_OK;
    return cst_fail(context, CST_ERROR_MISMATCH,
                    "%s: has more than %" PRId64 " rows, but %s has %" PRId64
                    "; both must describe the same samples",
                    path, rows - 1, claim->where, claim->rows);
}

cst_status cst_row_claim_read(cst_context *context, const cst_row_source *source, int axis,
                              int64_t *rows) {
    bool text = false;
    cst_npy *npy;
    CST_SCOPE(scope);
    *rows = -1;
    CST_TRY(cst_is_text_source(context, source, &text));
    if (text)
        return CST_OK;
    CST_TRY(cst_npy_open_source(context, scope, &npy, source));
    if (axis < npy->dims)
        *rows = npy->shape[axis];
    return CST_OK;
}

/* What is read of a table: texts of the first column of values, and ids, each of a scope; without
 * one, not that. */
typedef struct cells {
    cst_scope *of_values, *of_ids;
    const char *what; /* a value is; NULL: it may be empty */
    cst_strings *values, *ids;
    int64_t count; /* rows */
} cells;

/* Reads the rest of a table. */
static cst_status read_cells(cst_context *context, cst_table *table, const char *path,
                             const cst_row_claim *claim, cst_row_parts *parts, cells *out) {
    const cst_shared_table *parsed = table->parsed;
    bool ids = out->of_ids && table->id_column >= 0;
    if (parsed) {
        out->count = parsed->rows;
        CST_TRY(check_text_claim(context, path, out->count, claim));
        if (out->of_values)
            CST_TRY(cst_strings_copy(context, out->of_values, parsed->of[table->values[0]].texts,
                                     &out->values));
        return ids ? cst_strings_copy(context, out->of_ids, parsed->of[table->id_column].texts,
                                      &out->ids)
                   : CST_OK;
    }
    if (out->of_values)
        CST_TRY(cst_strings_take(context, out->of_values, &out->values));
    if (ids)
        CST_TRY(cst_strings_take(context, out->of_ids, &out->ids));
    for (bool end = false;;) {
        CST_TRY(cst_csv_next(context, table->csv, &end));
        if (end)
            return CST_OK;
        out->count++;
        if (out->values)
            CST_TRY(add_cell(context, table->csv, table->values[0], out->what, out->values));
        if (ids)
            CST_TRY(add_cell(context, table->csv, table->id_column, "an id", out->ids));
        note_part(table->csv, out->count, parts);
        CST_TRY(check_text_claim(context, path, out->count, claim));
    }
}

cst_status cst_row_file_scan(cst_context *context, cst_scope *scope, cst_row_file *rows,
                             const cst_row_claim *claim, cst_strings **ids) {
    cells found = {.of_ids = scope};
    *ids = NULL;
    if (!rows->table)
        return CST_OK;
    CST_TRY(cst_table_rewind(context, rows->table));
    CST_TRY(read_cells(context, rows->table, rows->path, claim, &rows->parts, &found));
    *ids = found.ids;
    rows->row_count = found.count;
    return cst_row_file_rewind(context, rows);
}

cst_status cst_row_file_rewind(cst_context *context, cst_row_file *rows) {
    rows->next = 0;
    return rows->table ? cst_table_rewind(context, rows->table) : CST_OK;
}

static cst_status read_text_rows(cst_context *context, cst_row_file *rows, int64_t count,
                                 double *out) {
    cst_table *table = rows->table;
    if (count > rows->lines_room) {
        cst_scope_free(rows->scope);
        CST_TAKE(context, rows->scope, rows->lines, count);
        rows->lines_room = count;
    }
    if (table->parsed)
        cst_shared_read(table, rows->next, count, out);
    for (int64_t i = 0; i < count; i++) {
        bool end = false;
        if (table->parsed) {
            rows->lines[i] = cst_shared_line(table->parsed, rows->next + i);
            continue;
        }
        CST_TRY(cst_csv_next(context, table->csv, &end));
        if (end)
            return cst_fail(context, CST_ERROR_FORMAT,
                            "%s: ends after %" PRId64 " rows, but had more when it was first read",
                            rows->path, rows->next + i);
        rows->lines[i] = table->csv->record_line;
        for (int32_t j = 0; j < table->width; j++)
            CST_TRY(cst_csv_number(context, table->csv, table->values[j], out++));
    }
    return CST_OK;
}

cst_status cst_row_file_read(cst_context *context, cst_row_file *rows, int64_t count, double *out) {
    CST_TRY(rows->table ? read_text_rows(context, rows, count, out)
                        : cst_npy_read_rows_f64(context, rows->npy, rows->next, count, out));
    rows->next += count;
    return CST_OK;
}

const char *cst_row_file_part(const cst_row_file *rows, const char *path, int64_t row) {
    return cst_row_parts_find(rows ? &rows->parts : NULL, path, &row);
}

const char *cst_row_file_where(const cst_row_file *rows, int64_t first, int64_t i, int64_t column,
                               char buffer[CST_WHERE_CHARS]) {
    int64_t row = first + i;
    (void)cst_row_parts_find(rows ? &rows->parts : NULL, NULL, &row);
    int used = cst_snprintf(buffer, CST_WHERE_CHARS, "row %" PRId64, row);
    size_t at = used > 0 ? (size_t)used : 0;
    if (rows && rows->table) {
        int64_t cell =
            column < 0 || column >= rows->table->width ? -1 : rows->table->values[column] + 1;
        if (cell > 0)
            (void)cst_snprintf(buffer + at, CST_WHERE_CHARS - at,
                               " (line %" PRId64 ", column %" PRId64 ")", rows->lines[i], cell);
        else
            (void)cst_snprintf(buffer + at, CST_WHERE_CHARS - at, " (line %" PRId64 ")",
                               rows->lines[i]);
        return buffer;
    }
    if (column >= 0)
        (void)cst_snprintf(buffer + at, CST_WHERE_CHARS - at, ", column %" PRId64, column);
    return buffer;
}

/* ---- one value per sample ---- */

bool cst_text_integer(const char *text, int64_t *out) {
    if (!cst_csv_is_number(text))
        return false;
    char *end = NULL;
    errno = 0;
    long long whole = strtoll(text, &end, 10);
    *out = (int64_t)whole;
    if (errno != 0)
        return false;
    if (*end == '.')
        for (end++; *end == '0'; end++)
            ;
    return *end == '\0';
}

/* As cst_text_integer. gaps: nothing is -1. */
static bool cell_integer(const char *text, bool gaps, int64_t *out) {
    if (gaps && *text == '\0') {
        *out = -1;
        return true;
    }
    return cst_text_integer(text, out);
}

/* Turns a column of texts into numbers where every one of them is an integer; frees the texts. */
static cst_status texts_to_numbers(cst_context *context, cst_scope *scope, cst_column *column,
                                   bool gaps, cst_scope *texts) {
    int64_t value = 0;
    for (int64_t i = 0; i < column->count; i++) {
        CST_TRY(cst_poll_item(context, i));
        if (!cell_integer(cst_strings_at(column->texts, i), gaps, &value))
            return CST_OK;
    }
    CST_TAKE(context, scope, column->numbers, column->count);
    for (int64_t i = 0; i < column->count; i++) {
        CST_TRY(cst_poll_item(context, i));
        (void)cell_integer(cst_strings_at(column->texts, i), gaps, &column->numbers[i]);
    }
    column->texts = NULL;
    cst_scope_free(texts);
    return CST_OK;
}

static cst_status read_table_column(cst_context *context, cst_scope *scope, cst_column *column,
                                    const cst_row_source *source, const cst_table_ask *ask,
                                    const cst_row_claim *claim) {
    bool ids = ask->use == CST_TABLE_IDS;
    cst_table *table;
    cst_scope *texts;
    cells found = {.of_ids = ids ? NULL : scope,
                   .what = ids                                           ? "an id"
                           : ask->gaps || ask->kind == CST_COLUMN_DOMAIN ? NULL
                           : ask->kind == CST_COLUMN_TRUTH               ? "a label"
                                                                         : "a value"};
    CST_SCOPE(own);
    CST_TRY(cst_scope_take(context, scope, &texts));
    found.of_values = texts;
    CST_TRY(cst_table_open(context, own, &table, source, ask));
    if (table->said && !ids)
        cst_notice(context, "%s: %s", source->path, table->said);
    CST_TRY(read_cells(context, table, source->path, claim, &column->parts, &found));
    column->texts = found.values;
    column->ids = found.ids;
    column->count = found.count;
    return ids ? CST_OK : texts_to_numbers(context, scope, column, ask->gaps, texts);
}

/* Labels of several columns in an array, of which a row may have several: not one-hot. */
static cst_status refuse_multi_label(cst_context *context, cst_npy *npy, const char *path) {
    enum { ROWS = 512 };
    int64_t width = npy->dims == 2 ? npy->shape[1] : 0;
    int64_t rows = npy->dims == 2 && npy->shape[0] < ROWS ? npy->shape[0] : ROWS;
    int64_t row = -1;
    bool ones = true;
    CST_SCOPE(scope);
    if (width < 2 || width > ROWS || rows < 1 || cst_npy_is_text(npy))
        return CST_OK;
    CST_NEW(context, scope, double, values, (rows * width));
    CST_TRY(cst_npy_read_rows_f64(context, npy, 0, rows, values));
    for (int64_t i = 0; ones && i < rows; i++) {
        double sum = 0;
        for (int64_t j = 0; j < width; j++) {
            double v = values[i * width + j];
            ones = ones && fabs(v * (1 - v)) <= 0;
            sum += v;
        }
        row = row < 0 && fabs(sum - 1) > 0.5 ? i : row;
    }
    if (!ones || row < 0)
        return CST_OK;
    return cst_fail(context, CST_ERROR_INPUT,
                    "%s: row %" PRId64 " has several labels, or none, in its %" PRId64
                    " columns (multi-label), and a row must have one; fit a stack for each: its "
                    "column as the labels, and a file for each member with its probability of that "
                    "label",
                    path, row, width);
}

static cst_status read_array_column(cst_context *context, cst_scope *scope, cst_column *column,
                                    const cst_row_source *source, const cst_table_ask *ask,
                                    const cst_row_claim *claim) {
    bool truth = ask->kind == CST_COLUMN_TRUTH;
    cst_npy *npy;
    CST_SCOPE(own);
    CST_TRY(cst_npy_open_source(context, own, &npy, source));
    CST_TRY(cst_row_claim_check(context, source->path, npy->dims > 0 ? npy->shape[0] : -1, claim));
    CST_TRY(take_parts(context, scope, source, npy, &column->parts));
    if (cst_npy_is_text(npy) || ask->use == CST_TABLE_IDS) {
        column->count = cst_npy_rows(npy);
        CST_TRY(cst_strings_take(context, scope, &column->texts));
        return cst_npy_read_strings(context, npy, column->texts);
    }
    if (truth) {
        CST_TRY(refuse_multi_label(context, npy, source->path));
        npy->numbers = "class numbers are integers; for regression targets give "
                       "--task regression";
    }
    if (ask->gaps)
        npy->missing = "write -1 where a label is missing";
    return cst_npy_read_i64(context, scope, npy, &column->numbers, &column->count);
}

cst_status cst_column_read(cst_context *context, cst_scope *scope, cst_column *out,
                           const cst_row_source *source, const cst_table_ask *ask,
                           const cst_row_claim *claim) {
    bool text = false;
    *out = (cst_column){0};
    CST_TRY(cst_is_text_source(context, source, &text));
    if (!text)
        return read_array_column(context, scope, out, source, ask, claim);
    CST_TRY(take_parts(context, scope, source, NULL, &out->parts));
    return read_table_column(context, scope, out, source, ask, claim);
}

cst_status cst_ids_read(cst_context *context, cst_scope *scope, cst_strings **out,
                        const cst_row_source *source, const char *id_column,
                        const cst_row_claim *claim) {
    const cst_table_ask ask = {.use = CST_TABLE_IDS, .id_column = id_column};
    cst_column column;
    *out = NULL;
    CST_TRY(cst_column_read(context, scope, &column, source, &ask, claim));
    *out = column.texts;
    return CST_OK;
}
