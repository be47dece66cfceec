/*
 * What the columns of a delimited file are: header, ids, values. Between the record reader and the
 * pool. Paper: none.
 */
#include "io/csv.h"
#include "io/strings.h"

#include <inttypes.h>
#include <string.h>

static const char *const id_names[] = {"id", "sample_id", "image_id", "row_id", NULL};

/* The first records of the file, kept while the columns are made out. */
typedef struct sample {
    cst_strings *first;
    cst_strings *second; /* NULL where the file has one record */
} sample;

static char lower(char c) {
    return c >= 'A' && c <= 'Z' ? (char)(c + 32) : c;
}

static bool is_one_of(const char *text, const char *const *names) {
    for (; names && *names; names++) {
        size_t i = 0;
        while (text[i] && lower(text[i]) == (*names)[i])
            i++;
        if (!text[i] && !(*names)[i])
            return true;
    }
    return false;
}

static cst_status keep_record(cst_context *context, const cst_csv *csv, cst_strings **out) {
    cst_status status = cst_strings_create(context, out);
    for (int32_t i = 0; status == CST_OK && i < cst_csv_cells(csv); i++) {
        const char *cell = cst_csv_cell(csv, i);
        status = cst_strings_add(context, *out, cell, strlen(cell));
    }
    return status;
}

static int32_t find_name(const cst_strings *record, const char *const *names) {
    for (int64_t i = 0; i < record->count; i++)
        if (is_one_of(cst_strings_at(record, i), names))
            return (int32_t)i;
    return -1;
}

static int32_t find_text(const cst_strings *record, int32_t skip) {
    for (int64_t i = 0; i < record->count; i++)
        if (i != skip && !cst_csv_is_number(cst_strings_at(record, i)))
            return (int32_t)i;
    return -1;
}

/* Whether the cells from `from` on are the column numbers 0, 1, 2, ... (at least three), as a data
 * frame without column names writes them. */
static bool counts_columns(const cst_strings *record, int64_t from) {
    if (record->count - from < 3)
        return false;
    for (int64_t i = from; i < record->count; i++) {
        char number[24];
        (void)cst_snprintf(number, sizeof number, "%" PRId64, i - from);
        if (strcmp(cst_strings_at(record, i), number) != 0)
            return false;
    }
    return true;
}

/* Whether the second record has a number where the first has none. */
static bool turns_numeric(const sample *s) {
    for (int64_t i = 0; s->second && i < s->first->count; i++)
        if (!cst_csv_is_number(cst_strings_at(s->first, i)) &&
            cst_csv_is_number(cst_strings_at(s->second, i)))
            return true;
    return false;
}

static bool has_header(const sample *s, cst_table_use use, const char *const *wanted) {
    const cst_strings *first = s->first;
    if (find_name(first, id_names) >= 0 || find_name(first, wanted) >= 0)
        return true;
    if (first->count > 1 && *cst_strings_at(first, 0) == '\0')
        return true; /* the nameless index column of a data frame */
    if (use == CST_TABLE_MATRIX) {
        int32_t text = find_text(first, -1);
        if (text < 0)
            return counts_columns(first, 0);
        if (text == 0 && first->count > 1 && find_text(first, 0) < 0)
            return counts_columns(first, 1); /* otherwise an id and its numbers */
        return true;
    }
    return turns_numeric(s);
}

/* The id column of a matrix: by name, nameless, or the first that is not numeric. */
static int32_t matrix_ids(const sample *s, bool header) {
    if (header) {
        int32_t named = find_name(s->first, id_names);
        if (named >= 0)
            return named;
        if (*cst_strings_at(s->first, 0) == '\0')
            return 0;
    }
    const cst_strings *data = header ? s->second : s->first;
    return data && data->count > 1 ? find_text(data, -1) : -1;
}

static cst_status find_value(cst_context *context, cst_table *table, const sample *s,
                             const char *const *wanted) {
    int32_t named = table->header ? find_name(s->first, wanted) : -1;
    int32_t ids = table->header ? find_name(s->first, id_names) : -1;
    if (table->columns == 1) {
        table->value_column = 0;
        return CST_OK;
    }
    if (table->columns == 2) {
        table->value_column = named >= 0 ? named : ids == 1 ? 0 : 1;
        table->id_column = 1 - table->value_column;
        return CST_OK;
    }
    if (named < 0)
        return cst_fail(context, CST_ERROR_INPUT,
                        "%s: line 1: %d columns, but none is called '%s'; rename the column, or "
                        "keep only this column and the ids",
                        cst_csv_name(table->csv), table->columns,
                        wanted && *wanted ? *wanted : "value");
    table->value_column = named;
    table->id_column = ids >= 0 ? ids : s->second ? find_text(s->second, named) : -1;
    return CST_OK;
}

static cst_status find_columns(cst_context *context, cst_table *table, const sample *s,
                               cst_table_use use, const char *const *wanted) {
    table->columns = (int32_t)s->first->count;
    table->header = has_header(s, use, wanted);
    table->id_column = -1;
    table->value_column = -1;
    table->width = 1;
    if (use == CST_TABLE_COLUMN)
        return find_value(context, table, s, wanted);
    table->id_column = matrix_ids(s, table->header);
    if (use == CST_TABLE_MATRIX) {
        table->width = table->columns - (table->id_column >= 0);
        return CST_OK;
    }
    table->value_column = table->columns == 1 ? 0 : table->id_column;
    if (table->value_column < 0)
        return cst_fail(context, CST_ERROR_INPUT,
                        "%s: line 1: %d columns, but none is called id; keep only the ids",
                        cst_csv_name(table->csv), table->columns);
    return CST_OK;
}

/* No name twice: which column is meant would be a guess. Columns may be nameless. */
static cst_status check_names(cst_context *context, const cst_table *table,
                              const cst_strings *names) {
    cst_strings *named = NULL;
    cst_id_index *index = NULL;
    int64_t twice[2] = {-1, -1};
    char quoted[CST_QUOTE_CHARS];
    cst_status status = cst_strings_create(context, &named);
    for (int64_t i = 0; status == CST_OK && i < names->count; i++) {
        const char *name = cst_strings_at(names, i);
        if (*name)
            status = cst_strings_add(context, named, name, strlen(name));
    }
    CST_TRY(cst_id_index_build(context, &index, named, cst_csv_name(table->csv), twice));
    if (twice[0] >= 0)
        status =
            cst_fail(context, CST_ERROR_INPUT,
                     "%s: line 1: two columns are called '%s'; rename or remove one",
                     cst_csv_name(table->csv), cst_quote(quoted, cst_strings_at(named, twice[0])));
    cst_id_index_free(context, index);
    cst_strings_free(context, named);
    return status;
}

cst_status cst_table_open(cst_context *context, cst_table **out, const char *path,
                          cst_table_use use, const char *const *wanted, uint64_t zip_limit) {
    *out = NULL;
    sample s = {NULL, NULL};
    bool end = false;
    cst_table *table = cst_alloc(context, 1, sizeof *table);
    if (!table)
        return CST_ERROR_MEMORY;
    cst_status status = cst_csv_open(context, &table->csv, path, zip_limit);
    CST_TRY(cst_csv_next(context, table->csv, &end));
    if (status == CST_OK && end)
        status = cst_fail(context, CST_ERROR_INPUT, "%s: line 1: the file has no data", path);
    CST_TRY(keep_record(context, table->csv, &s.first));
    CST_TRY(cst_csv_next(context, table->csv, &end));
    if (status == CST_OK && !end)
        status = keep_record(context, table->csv, &s.second);
    CST_TRY(find_columns(context, table, &s, use, wanted));
    if (status == CST_OK && table->header)
        status = check_names(context, table, s.first);
    if (status == CST_OK && table->header) {
        table->names = s.first;
        s.first = NULL;
    }
    CST_TRY(cst_table_rewind(context, table));
    cst_strings_free(context, s.first);
    cst_strings_free(context, s.second);
    if (status != CST_OK) {
        cst_table_close(context, table);
        return status;
    }
    *out = table;
    return CST_OK;
}

void cst_table_close(cst_context *context, cst_table *table) {
    if (!table)
        return;
    cst_csv_close(context, table->csv);
    cst_strings_free(context, table->names);
    cst_free(context, table);
}

cst_status cst_table_rewind(cst_context *context, cst_table *table) {
    bool end = false;
    cst_status status = cst_csv_rewind(context, table->csv);
    if (status == CST_OK && table->header)
        status = cst_csv_next(context, table->csv, &end);
    return status;
}
