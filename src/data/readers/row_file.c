/*
 * Rows, columns and ids from npy, npz, safetensors or delimited text. Between the formats and the
 * pool. Paper: the rows of P_oof and y.
 */
#include "data/readers/row_file.h"
#include "data/files/bytes.h"
#include "data/readers/npy_parts.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { PEEK_BYTES = 512 };

cst_status cst_is_text_file(cst_context *context, const char *path, uint64_t zip_limit,
                            bool *text) {
    *text = cst_path_column(path) > 0 || cst_path_is_text(path);
    if (*text || cst_path_member(path) || cst_path_ends(path, ".npy") ||
        cst_path_ends(path, ".npz") || cst_path_is_safetensors(path))
        return CST_OK;
    cst_bytes *source = NULL;
    unsigned char begin[PEEK_BYTES];
    cst_status status = cst_bytes_open(context, &source, path, zip_limit);
    if (status != CST_OK)
        return status;
    size_t bytes =
        cst_bytes_size(source) < PEEK_BYTES ? (size_t)cst_bytes_size(source) : (size_t)PEEK_BYTES;
    status = cst_bytes_read(context, source, 0, begin, bytes);
    CST_THEN(cst_refuse_format(context, path, begin, bytes));
    *text = status == CST_OK;
    for (size_t i = 0; i < bytes && *text; i++)
        *text = begin[i] >= 0x20 || begin[i] == '\n' || begin[i] == '\r' || begin[i] == '\t';
    cst_bytes_close(context, source);
    return status;
}

cst_status cst_is_text_source(cst_context *context, const cst_row_source *source, bool *text) {
    const char *first = cst_source_first(source);
    cst_status status = cst_is_text_file(context, first, source->zip_limit, text);
    for (int64_t k = 1; status == CST_OK && source->parts && k < source->parts->count; k++) {
        const char *path = source->parts->paths[k];
        bool other = false;
        status = cst_is_text_file(context, path, source->zip_limit, &other);
        if (status == CST_OK && other != *text)
            status =
                cst_fail(context, CST_ERROR_INPUT,
                         "%s: is %s, but %s is %s; parts must be all tables or all arrays", path,
                         other ? "a table" : "an array", first, other ? "an array" : "a table");
    }
    if (source->parts)
        CST_THEN(cst_file_parts_distinct(context, source->parts));
    return status;
}

cst_status cst_npy_open_source(cst_context *context, cst_npy **out, const cst_row_source *source) {
    return source->parts ? cst_npy_open_parts(context, out, source->parts, source->zip_limit)
                         : cst_npy_open(context, out, source->path, source->zip_limit);
}

/* Copies where the parts of an array begin. */
static cst_status copy_parts(cst_context *context, const cst_npy *npy, cst_row_parts *out) {
    const cst_row_parts *parts = npy->parts ? &npy->parts->rows : NULL;
    if (!parts)
        return CST_OK;
    size_t count = (size_t)parts->files->count + 1;
    out->files = parts->files;
    out->first = cst_alloc(context, count, sizeof *out->first);
    if (!out->first)
        return CST_ERROR_MEMORY;
    memcpy(out->first, parts->first, count * sizeof *out->first);
    return CST_OK;
}

/* Room for where the parts of a table begin, which note_part fills in. */
static cst_status start_parts(cst_context *context, const cst_row_source *source,
                              cst_row_parts *out) {
    if (!source->parts)
        return CST_OK;
    out->files = source->parts;
    out->first = cst_alloc(context, (size_t)source->parts->count + 1, sizeof *out->first);
    return out->first ? CST_OK : CST_ERROR_MEMORY;
}

/* The current record is the last of `count`, all of them in order. */
static void note_part(const cst_csv *csv, int64_t count, cst_row_parts *parts) {
    if (parts->first)
        for (int64_t k = cst_csv_part(csv) + 1; k <= parts->files->count; k++)
            parts->first[k] = count;
}

cst_status cst_row_file_open(cst_context *context, cst_row_file **out, const char *path,
                             uint64_t zip_limit) {
    return cst_row_file_open_as(context, out, path, NULL, zip_limit);
}

cst_status cst_row_file_open_as(cst_context *context, cst_row_file **out, const char *path,
                                const cst_table_ask *ask, uint64_t zip_limit) {
    return cst_row_file_open_source(context, out, &(cst_row_source){path, NULL, zip_limit}, ask);
}

cst_status cst_row_file_open_source(cst_context *context, cst_row_file **out,
                                    const cst_row_source *source, const cst_table_ask *ask) {
    *out = NULL;
    bool text = false;
    cst_row_file *rows = cst_alloc(context, 1, sizeof *rows);
    if (!rows)
        return CST_ERROR_MEMORY;
    rows->path = cst_strdup(context, source->path);
    cst_status status = rows->path ? cst_is_text_source(context, source, &text) : CST_ERROR_MEMORY;
    if (status == CST_OK && text) {
        status = cst_table_open_source(context, &rows->table, source, ask);
        CST_THEN(start_parts(context, source, &rows->parts));
        rows->row_count = -1;
        rows->width = status == CST_OK ? rows->table->width : 0;
    } else if (status == CST_OK) {
        status = cst_npy_open_source(context, &rows->npy, source);
        CST_THEN(copy_parts(context, rows->npy, &rows->parts));
        if (status == CST_OK) {
            rows->row_count = cst_npy_rows(rows->npy);
            rows->width = cst_npy_width(rows->npy);
        }
    }
    if (status != CST_OK) {
        cst_row_file_close(context, rows);
        return status;
    }
    *out = rows;
    return CST_OK;
}

void cst_row_file_close(cst_context *context, cst_row_file *rows) {
    if (!rows)
        return;
    cst_npy_close(context, rows->npy);
    cst_table_close(context, rows->table);
    cst_free(context, rows->lines);
    cst_free(context, rows->parts.first);
    cst_free(context, rows->path);
    cst_free(context, rows);
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
                        cst_csv_name(csv), cst_csv_line(csv), cell + 1, what);
    return cst_strings_add(context, strings, text, strlen(text));
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
    cst_npy *npy = NULL;
    *rows = -1;
    cst_status status = cst_is_text_source(context, source, &text);
    if (status != CST_OK || text)
        return status;
    status = cst_npy_open_source(context, &npy, source);
    if (status == CST_OK && axis < npy->dims)
        *rows = npy->shape[axis];
    cst_npy_close(context, npy);
    return status;
}

cst_status cst_row_file_scan(cst_context *context, cst_row_file *rows, const cst_row_claim *claim,
                             cst_strings **ids) {
    *ids = NULL;
    if (!rows->table)
        return CST_OK;
    cst_table *table = rows->table;
    int64_t count = 0;
    bool end = false;
    cst_status status = CST_OK;
    if (table->id_column >= 0)
        status = cst_strings_create(context, ids);
    CST_THEN(cst_table_rewind(context, table));
    while (status == CST_OK) {
        status = cst_csv_next(context, table->csv, &end);
        if (status != CST_OK || end)
            break;
        count++;
        note_part(table->csv, count, &rows->parts);
        status = check_text_claim(context, rows->path, count, claim);
        if (status == CST_OK && *ids)
            status = add_cell(context, table->csv, table->id_column, "an id", *ids);
    }
    CST_THEN(cst_table_rewind(context, table));
    if (status != CST_OK) {
        cst_strings_free(context, *ids);
        *ids = NULL;
    }
    rows->row_count = count;
    rows->next = 0;
    return status;
}

static cst_status read_text_rows(cst_context *context, cst_row_file *rows, int64_t count,
                                 double *out) {
    cst_table *table = rows->table;
    cst_status status = CST_OK;
    if (count > rows->lines_room) {
        cst_free(context, rows->lines);
        rows->lines_room = 0;
        rows->lines = cst_alloc(context, (size_t)count, sizeof *rows->lines);
        if (!rows->lines)
            return CST_ERROR_MEMORY;
        rows->lines_room = count;
    }
    for (int64_t i = 0; status == CST_OK && i < count; i++) {
        bool end = false;
        status = cst_csv_next(context, table->csv, &end);
        if (status == CST_OK && end)
            status =
                cst_fail(context, CST_ERROR_FORMAT,
                         "%s: ends after %" PRId64 " rows, but had more when it was first read",
                         rows->path, rows->next + i);
        if (status != CST_OK)
            break;
        rows->lines[i] = cst_csv_line(table->csv);
        for (int32_t j = 0; status == CST_OK && j < table->width; j++)
            status = cst_csv_number(context, table->csv, table->values[j], out++);
    }
    return status;
}

cst_status cst_row_file_read(cst_context *context, cst_row_file *rows, int64_t count, double *out) {
    cst_status status = rows->table
                            ? read_text_rows(context, rows, count, out)
                            : cst_npy_read_rows_f64(context, rows->npy, rows->next, count, out);
    rows->next += count;
    return status;
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

/* Turns a column of texts into numbers where every one of them is an integer. */
static cst_status texts_to_numbers(cst_context *context, cst_column *column, bool gaps) {
    int64_t value = 0;
    cst_status status = CST_OK;
    for (int64_t i = 0; status == CST_OK && i < column->count; i++) {
        status = cst_poll_item(context, i);
        if (!cell_integer(cst_strings_at(column->texts, i), gaps, &value))
            return status;
    }
    if (status != CST_OK)
        return status;
    column->numbers = cst_alloc(context, (size_t)column->count, sizeof *column->numbers);
    if (!column->numbers)
        return CST_ERROR_MEMORY;
    for (int64_t i = 0; status == CST_OK && i < column->count; i++) {
        status = cst_poll_item(context, i);
        (void)cell_integer(cst_strings_at(column->texts, i), gaps, &column->numbers[i]);
    }
    if (status != CST_OK)
        return status;
    cst_strings_free(context, column->texts);
    column->texts = NULL;
    return CST_OK;
}

static cst_status read_table_column(cst_context *context, cst_column *column, cst_table *table,
                                    const char *path, const cst_table_ask *ask,
                                    const cst_row_claim *claim) {
    const char *what = ask->kind == CST_COLUMN_TRUTH    ? "a label"
                       : ask->kind == CST_COLUMN_DOMAIN ? NULL
                                                        : "a value";
    cst_status status = cst_strings_create(context, &column->texts);
    if (status == CST_OK && table->id_column >= 0)
        status = cst_strings_create(context, &column->ids);
    while (status == CST_OK) {
        bool end = false;
        status = cst_csv_next(context, table->csv, &end);
        if (status != CST_OK || end)
            break;
        status =
            add_cell(context, table->csv, table->values[0], ask->gaps ? NULL : what, column->texts);
        note_part(table->csv, column->texts->count, &column->parts);
        if (status == CST_OK && column->ids)
            status = add_cell(context, table->csv, table->id_column, "an id", column->ids);
        CST_THEN(check_text_claim(context, path, column->texts->count, claim));
    }
    column->count = status == CST_OK ? column->texts->count : 0;
    return status == CST_OK ? texts_to_numbers(context, column, ask->gaps) : status;
}

cst_status cst_column_read(cst_context *context, cst_column *out, const char *path,
                           const char *const *wanted, const cst_row_claim *claim,
                           uint64_t zip_limit) {
    cst_table_ask ask = {.use = CST_TABLE_COLUMN, .wanted = wanted};
    return cst_column_read_as(context, out, path, &ask, claim, zip_limit);
}

cst_status cst_column_read_as(cst_context *context, cst_column *out, const char *path,
                              const cst_table_ask *ask, const cst_row_claim *claim,
                              uint64_t zip_limit) {
    return cst_column_read_source(context, out, &(cst_row_source){path, NULL, zip_limit}, ask,
                                  claim);
}

/* Labels of several columns in an array, of which a row may have several: not one-hot. */
static cst_status refuse_multi_label(cst_context *context, cst_npy *npy, const char *path) {
    enum { ROWS = 512 };
    int64_t width = npy->dims == 2 ? npy->shape[1] : 0;
    int64_t rows = npy->dims == 2 && npy->shape[0] < ROWS ? npy->shape[0] : ROWS;
    int64_t row = -1;
    bool ones = true;
    if (width < 2 || width > ROWS || rows < 1 || cst_npy_is_text(npy))
        return CST_OK;
    double *values = cst_alloc(context, (size_t)(rows * width), sizeof *values);
    cst_status status =
        values ? cst_npy_read_rows_f64(context, npy, 0, rows, values) : CST_ERROR_MEMORY;
    for (int64_t i = 0; status == CST_OK && ones && i < rows; i++) {
        double sum = 0;
        for (int64_t j = 0; j < width; j++) {
            double v = values[i * width + j];
            ones = ones && fabs(v * (1 - v)) <= 0;
            sum += v;
        }
        row = row < 0 && fabs(sum - 1) > 0.5 ? i : row;
    }
    cst_free(context, values);
    if (status != CST_OK || !ones || row < 0)
        return status;
    return cst_fail(context, CST_ERROR_INPUT,
                    "%s: row %" PRId64 " has several labels, or none, in its %" PRId64
                    " columns (multi-label), and a row must have one; fit a stack for each: its "
                    "column as the labels, and a file for each member with its probability of that "
                    "label",
                    path, row, width);
}

cst_status cst_column_read_source(cst_context *context, cst_column *out,
                                  const cst_row_source *source, const cst_table_ask *ask,
                                  const cst_row_claim *claim) {
    const char *path = source->path;
    memset(out, 0, sizeof *out);
    cst_npy *npy = NULL;
    cst_table *table = NULL;
    bool text = false;
    cst_status status = cst_is_text_source(context, source, &text);
    if (status == CST_OK && text) {
        status = cst_table_open_source(context, &table, source, ask);
        CST_THEN(start_parts(context, source, &out->parts));
        if (status == CST_OK && table->said)
            cst_notice(context, "%s: %s", path, table->said);
        CST_THEN(read_table_column(context, out, table, path, ask, claim));
    } else if (status == CST_OK) {
        status = cst_npy_open_source(context, &npy, source);
        CST_THEN(cst_row_claim_check(context, path, npy->dims > 0 ? npy->shape[0] : -1, claim));
        CST_THEN(copy_parts(context, npy, &out->parts));
        if (status == CST_OK && cst_npy_is_text(npy)) {
            status = cst_npy_read_strings(context, npy, &out->texts);
            out->count = status == CST_OK ? out->texts->count : 0;
        } else if (status == CST_OK) {
            if (status == CST_OK && ask->kind == CST_COLUMN_TRUTH)
                status = refuse_multi_label(context, npy, path);
            if (ask->kind == CST_COLUMN_TRUTH)
                npy->numbers = "class numbers are integers; for the targets of a regression give "
                               "--task regression";
            if (ask->gaps)
                npy->missing = "write -1 where a label is missing";
            CST_THEN(cst_npy_read_i64(context, npy, &out->numbers, &out->count));
        }
    }
    cst_npy_close(context, npy);
    cst_table_close(context, table);
    if (status != CST_OK)
        cst_column_clear(context, out);
    return status;
}

void cst_column_clear(cst_context *context, cst_column *column) {
    cst_free(context, column->numbers);
    cst_strings_free(context, column->texts);
    cst_strings_free(context, column->ids);
    cst_free(context, column->parts.first);
    memset(column, 0, sizeof *column);
}

cst_status cst_ids_read(cst_context *context, cst_strings **out, const char *path,
                        const cst_row_claim *claim, uint64_t zip_limit) {
    return cst_ids_read_as(context, out, path, NULL, claim, zip_limit);
}

cst_status cst_ids_read_as(cst_context *context, cst_strings **out, const char *path,
                           const char *id_column, const cst_row_claim *claim, uint64_t zip_limit) {
    return cst_ids_read_source(context, out, &(cst_row_source){path, NULL, zip_limit}, id_column,
                               claim);
}

cst_status cst_ids_read_source(cst_context *context, cst_strings **out,
                               const cst_row_source *source, const char *id_column,
                               const cst_row_claim *claim) {
    const char *path = source->path;
    *out = NULL;
    cst_npy *npy = NULL;
    cst_table *table = NULL;
    bool text = false;
    bool end = false;
    cst_status status = cst_is_text_source(context, source, &text);
    if (status == CST_OK && text) {
        cst_table_ask ask = {.use = CST_TABLE_IDS, .id_column = id_column};
        status = cst_table_open_source(context, &table, source, &ask);
        CST_THEN(cst_strings_create(context, out));
        while (status == CST_OK && !end) {
            status = cst_csv_next(context, table->csv, &end);
            if (status == CST_OK && !end)
                status = add_cell(context, table->csv, table->values[0], "an id", *out);
            if (status == CST_OK && !end)
                status = check_text_claim(context, path, (*out)->count, claim);
        }
    } else if (status == CST_OK) {
        status = cst_npy_open_source(context, &npy, source);
        CST_THEN(cst_row_claim_check(context, path, npy->dims > 0 ? npy->shape[0] : -1, claim));
        CST_THEN(cst_npy_read_strings(context, npy, out));
    }
    cst_npy_close(context, npy);
    cst_table_close(context, table);
    if (status != CST_OK) {
        cst_strings_free(context, *out);
        *out = NULL;
    }
    return status;
}
