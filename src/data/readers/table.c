/* What each column of a delimited file is for. Between the record reader and the pool: predictions,
 * labels and ids go through one choice. */
#include "data/readers/table.h"
#include "data/files/bytes.h"

#include <math.h>
#include <string.h>

/* More names are not looked for one by one; values of a block of a parsed table. */
enum { NAMES_MAX = 4096, PEEK_BYTES = 512, BLOCK_VALUES = 1 << 19 };

/* ---- what is a table ---- */

static cst_status is_text_file(cst_context *context, const char *path, uint64_t zip_limit,
                               bool *text) {
    cst_bytes *source = NULL;
    unsigned char begin[PEEK_BYTES];
    CST_SCOPE(scope);
    *text = cst_path_column(path) > 0 || cst_path_is_text(path);
    if (*text || cst_path_member(path) || cst_path_ends(path, ".npy") ||
        cst_path_ends(path, ".npz") || cst_path_is_safetensors(path))
        return CST_OK;
    CST_TRY(cst_bytes_open(context, &source, path, zip_limit));
    CST_TRY(cst_scope_own(context, scope, cst_bytes_close, source));
    size_t bytes =
        cst_bytes_size(source) < PEEK_BYTES ? (size_t)cst_bytes_size(source) : (size_t)PEEK_BYTES;
    CST_TRY(cst_bytes_read(context, source, 0, begin, bytes));
    CST_TRY(cst_refuse_format(context, path, begin, bytes));
    *text = true;
    for (size_t i = 0; i < bytes && *text; i++)
        *text = begin[i] >= 0x20 || begin[i] == '\n' || begin[i] == '\r' || begin[i] == '\t';
    return CST_OK;
}

cst_status cst_is_text_source(cst_context *context, const cst_row_source *source, bool *text) {
    const char *first = cst_source_first(source);
    const cst_file_parts *parts = source->parts;
    CST_TRY(is_text_file(context, first, source->zip_limit, text));
    for (int64_t k = 1; parts && k < parts->count; k++) {
        bool other = false;
        CST_TRY(is_text_file(context, parts->paths[k], source->zip_limit, &other));
        if (other != *text)
            return cst_fail(context, CST_ERROR_INPUT,
                            "%s: is %s, but %s is %s; parts must be all tables or all arrays",
                            parts->paths[k], other ? "a table" : "an array", first,
                            other ? "an array" : "a table");
    }
    return parts ? cst_file_parts_distinct(context, parts) : CST_OK;
}

cst_status cst_sheet_look(cst_context *context, cst_scope *scope, cst_sheet *out, const char *path,
                          uint64_t zip_limit) {
    bool text = false;
    cst_csv *csv;
    cst_row_source source = cst_one_file(path, zip_limit);
    CST_SCOPE(own);
    *out = (cst_sheet){0};
    CST_TRY(is_text_file(context, path, zip_limit, &text));
    if (!text)
        return CST_OK;
    CST_TRY(cst_csv_open(context, own, &csv, &source));
    return cst_sheet_read(context, scope, out, csv, NULL, true);
}

/* ---- tables of several members ---- */

cst_shared_table *cst_shared_find(cst_shared_table *list, const char *path) {
    size_t mark = cst_path_column(path);
    for (; mark > 0 && list; list = list->next)
        if (strlen(list->path) == mark && strncmp(list->path, path, mark) == 0)
            return list;
    return NULL;
}

static void release_shared(cst_context *context, void *table) {
    (void)context;
    cst_shared_forget(table);
}

cst_status cst_shared_add(cst_context *context, cst_scope *scope, cst_shared_table **list,
                          const char *path, uint64_t zip_limit) {
    size_t mark = cst_path_column(path);
    if (mark == 0 || cst_shared_find(*list, path))
        return CST_OK;
    CST_NEW(context, scope, cst_shared_table, table, 1);
    CST_NEW(context, scope, char, file, mark + 1);
    memcpy(file, path, mark);
    *table = (cst_shared_table){.next = *list, .path = file, .zip_limit = zip_limit};
    cst_status status = cst_sheet_look(context, scope, &table->sheet, file, zip_limit);
    if (status == CST_ERROR_MEMORY || status == CST_ERROR_CANCELLED)
        return status;
    if (status == CST_OK && table->sheet.names) {
        CST_TRY(cst_scope_own(context, scope, release_shared, table));
        *list = table;
    }
    return CST_OK;
}

/* Whether a column of numbers, by its name and first rows, is kept as such. */
static bool is_numeric(const cst_sheet_column *of) {
    return of->texts == 0 && (of->hint == CST_COLUMN_UNKNOWN || of->hint == CST_COLUMN_PREDICTION);
}

/* Room for another block. */
static cst_status add_block(cst_context *context, cst_shared_table *t) {
    size_t cells = (size_t)t->rows_of_block * (size_t)t->width;
    cst_trim(context);
    double **blocks = cst_grow_list(context, t->blocks, t->block_count, sizeof(double *));
    t->blocks = blocks ? blocks : t->blocks;
    int64_t **lines = cst_grow_list(context, t->lines, t->block_count, sizeof(int64_t *));
    t->lines = lines ? lines : t->lines;
    if (!blocks || !lines)
        return CST_ERROR_MEMORY;
    blocks[t->block_count] = cst_alloc_counted(context, cells, sizeof(double));
    lines[t->block_count] = cst_alloc(context, (size_t)t->rows_of_block, sizeof(int64_t));
    t->block_count++;
    return blocks[t->block_count - 1] && lines[t->block_count - 1] ? CST_OK : CST_ERROR_MEMORY;
}

static void release_blocks(cst_context *context, void *table) {
    cst_shared_table *t = table;
    for (size_t b = 0; b < t->block_count; b++) {
        cst_free(context, t->blocks[b]);
        cst_free(context, t->lines[b]);
    }
    cst_free(context, t->blocks);
    cst_free(context, t->lines);
    t->blocks = NULL;
    t->lines = NULL;
    t->block_count = 0;
}

void cst_shared_forget(cst_shared_table *table) {
    cst_scope_free(&table->scope);
    table->parsed = false;
}

/* Keeps the current record; false where a number is something else. */
static cst_status keep_row(cst_context *context, cst_shared_table *t, const cst_csv *csv,
                           bool *good) {
    int64_t at = t->rows % t->rows_of_block;
    if (at == 0)
        CST_TRY(add_block(context, t));
    double *block = t->blocks[t->block_count - 1];
    t->lines[t->block_count - 1][at] = csv->record_line;
    for (int32_t j = 0; j < t->sheet.columns; j++) {
        const char *cell = cst_csv_cell(csv, j);
        cst_kept_column *of = &t->of[j];
        bool number = cst_csv_is_number(cell);
        if (of->place < 0) {
            of->numeric = of->numeric && number;
            of->gaps = of->gaps || !*cell;
            CST_TRY(cst_strings_put(context, of->texts, cell));
            continue;
        }
        *good = *good && (number || cst_csv_is_missing(cell));
        of->gaps = of->gaps || !number;
        block[of->place * t->rows_of_block + at] = number ? cst_strtod(cell, NULL) : NAN;
    }
    t->rows++;
    return CST_OK;
}

static cst_status parse(cst_context *context, cst_shared_table *t, bool *good) {
    cst_row_source source = cst_one_file(t->path, t->zip_limit);
    cst_csv *csv;
    bool end = false;
    CST_SCOPE(scope);
    t->rows = 0;
    t->width = 0;
    CST_TAKE(context, &t->scope, t->of, t->sheet.columns);
    CST_TRY(cst_scope_own(context, &t->scope, release_blocks, t));
    for (int32_t j = 0; j < t->sheet.columns; j++) {
        bool number = is_numeric(&t->sheet.of[j]);
        t->of[j] = (cst_kept_column){.place = number ? t->width++ : -1, .numeric = true};
        if (!number)
            CST_TRY(cst_strings_take(context, &t->scope, &t->of[j].texts));
    }
    t->rows_of_block = BLOCK_VALUES / (t->width + 1) > 0 ? BLOCK_VALUES / (t->width + 1) : 1;
    CST_TRY(cst_csv_open(context, scope, &csv, &source));
    CST_TRY(cst_csv_next(context, csv, &end)); /* the header */
    for (;;) {
        CST_TRY(cst_csv_next(context, csv, &end));
        if (end || !*good)
            return CST_OK;
        CST_TRY(keep_row(context, t, csv, good));
        CST_TRY(cst_poll_item(context, t->rows));
    }
}

cst_status cst_shared_parse(cst_context *context, cst_shared_table *table) {
    bool good = true;
    if (table->parsed || table->wrong)
        return CST_OK;
    cst_status status = parse(context, table, &good);
    table->parsed = status == CST_OK && good;
    if (!table->parsed) {
        table->wrong = true;
        cst_shared_forget(table);
    }
    return status == CST_ERROR_MEMORY || status == CST_ERROR_CANCELLED ? status : CST_OK;
}

/* Whether what the table asks for was parsed. */
static bool has_columns(const cst_shared_table *shared, const cst_table *table,
                        const cst_table_ask *ask) {
    bool texts = ask->use == CST_TABLE_COLUMN || ask->use == CST_TABLE_IDS;
    bool gaps = ask->gaps || ask->kind == CST_COLUMN_DOMAIN;
    const cst_kept_column *ids =
        shared->parsed && table->id_column >= 0 ? &shared->of[table->id_column] : NULL;
    if (!shared->parsed || table->truth_column >= 0 || (ids && (!ids->texts || ids->gaps)))
        return false;
    for (int32_t i = 0; i < table->width; i++) {
        const cst_kept_column *of = &shared->of[table->values[i]];
        /* NOLINTNEXTLINE(clang-analyzer-core.NullDereference) */
        bool usable = texts ? of->texts != NULL : of->place >= 0 || of->numeric;
        if (!usable || (of->gaps && !gaps))
            return false;
    }
    return true;
}

void cst_shared_read(const cst_table *table, int64_t first, int64_t count, double *out) {
    const cst_shared_table *t = table->parsed;
    for (int32_t i = 0; i < table->width; i++) {
        const cst_kept_column *of = &t->of[table->values[i]];
        for (int64_t row = first; row < first + count; row++)
            out[(row - first) * table->width + i] =
                of->place < 0 ? cst_strtod(cst_strings_at(of->texts, row), NULL)
                              : t->blocks[row / t->rows_of_block]
                                         [of->place * t->rows_of_block + row % t->rows_of_block];
    }
}

/* ---- the choice ---- */

typedef struct choice {
    cst_context *context;
    cst_scope *scope; /* of the table */
    cst_table *table;
    const cst_sheet *sheet;
    const char *path;
    const cst_table_ask *ask;
    const char *column; /* that the path or the caller names, or NULL */
    bool *left_out;     /* [columns]: of another use */
    size_t skip;        /* bytes of the values' names that name the member */
    int32_t truth;      /* the column that ask->truth names; -1: none */
} choice;

static const char *name_at(const choice *c, int32_t column) {
    return cst_sheet_name(c->sheet, column);
}

static cst_column_hint hint_of(const choice *c, int32_t column) {
    return column == c->truth ? CST_COLUMN_TRUTH : c->sheet->of[column].hint;
}

/* What the values are called. */
static const char *noun(const choice *c) {
    return c->ask->use == CST_TABLE_COLUMN    ? cst_column_noun(c->ask->kind)
           : c->ask->use == CST_TABLE_TARGETS ? "targets"
           : c->ask->use == CST_TABLE_IDS     ? "ids"
                                              : "predictions";
}

static cst_status no_such_column(const choice *c, const char *key) {
    char quoted[CST_QUOTE_CHARS];
    char list[CST_LISTED_CHARS];
    return cst_fail(c->context, CST_ERROR_INPUT, "%s: line 1: there is no column '%s'; it has %s",
                    c->path, cst_quote(quoted, key), cst_sheet_list(c->sheet, list));
}

/* Several columns, and nothing says which one is meant. A column of distinct integers next to
 * others is most likely the ids. */
static cst_status several_columns(const choice *c, const int32_t *columns, int32_t count) {
    char list[CST_LISTED_CHARS];
    char column[CST_COLUMN_CHARS];
    char hint[2 * CST_COLUMN_CHARS + 96] = "";
    int32_t likely = -1;
    for (int32_t i = 0; c->table->id_column < 0 && likely < 0 && i < count; i++)
        if (c->sheet->rows > 2 && c->sheet->of[columns[i]].whole &&
            cst_sheet_distinct(c->sheet, columns[i]))
            likely = columns[i];
    if (likely >= 0) {
        const char *name = name_at(c, likely);
        char number[16];
        (void)cst_snprintf(number, sizeof number, "%d", (int)likely + 1);
        char quoted[CST_QUOTE_CHARS];
        (void)cst_snprintf(hint, sizeof hint,
                           "; %s looks like sample ids (all different): --id-column \"%s\"",
                           cst_sheet_column_name(c->sheet, likely, column),
                           *name ? cst_quote(quoted, name) : number);
    }
    bool truth = c->ask->use == CST_TABLE_COLUMN && c->ask->kind == CST_COLUMN_TRUTH;
    if (truth && count > 1 && cst_sheet_sums_to_one(c->sheet, columns, count))
        return cst_fail(
            c->context, CST_ERROR_INPUT,
            "%s: line 1: %d columns (%s) that sum to 1: labels must be one class number "
            "or name for each row; of one-hot labels write the column of the 1 (argmax)",
            c->path, (int)count, cst_sheet_list(c->sheet, list));
    bool ones = truth && count > 1;
    for (int32_t i = 0; ones && i < count; i++)
        ones = c->sheet->of[columns[i]].whole && c->sheet->of[columns[i]].unit;
    if (ones)
        return cst_fail(
            c->context, CST_ERROR_INPUT,
            "%s: line 1: %d columns (%s) of 0 and 1 that do not sum to 1: these are "
            "several labels for one row (multi-label); fit a stack for each: its column "
            "as --labels FILE.csv#COLUMN, and a file for each member with its "
            "probability of that label",
            c->path, (int)count, cst_sheet_list(c->sheet, list));
    return cst_fail(c->context, CST_ERROR_INPUT,
                    "%s: line 1: %d columns (%s), and none is known to hold the %s; name it with "
                    "%s%s, or keep only it and the ids%s",
                    c->path, (int)c->sheet->columns, cst_sheet_list(c->sheet, list), noun(c),
                    truth || c->ask->use == CST_TABLE_TARGETS ? "--label-column, or as " : "",
                    "FILE.csv#COLUMN", hint);
}

/* ---- ids ---- */

static bool is_text(const choice *c, int32_t column) {
    return c->sheet->rows > 0 && c->sheet->of[column].texts > 0;
}

static bool has_role(const choice *c, int32_t column) {
    cst_column_hint hint = hint_of(c, column);
    return hint == CST_COLUMN_TRUTH || hint == CST_COLUMN_FOLD || hint == CST_COLUMN_GROUP ||
           hint == CST_COLUMN_WEIGHT || hint == CST_COLUMN_DOMAIN;
}

/* The first column of text, better one without repeats. */
static int32_t text_ids(const choice *c) {
    int32_t any = -1;
    for (int32_t j = 0; j < c->sheet->columns; j++) {
        if (has_role(c, j) || !is_text(c, j))
            continue;
        if (cst_sheet_may_be_ids(c->sheet, j))
            return j;
        any = any < 0 ? j : any;
    }
    bool numbers = c->ask->use == CST_TABLE_MATRIX || c->ask->use == CST_TABLE_PREDICTIONS ||
                   c->ask->use == CST_TABLE_TARGETS;
    return numbers && !c->column ? any : -1;
}

/* A text in a column of numbers is an error of that cell and makes no ids of the column; nor do
 * numbers in another form. */
static bool is_mostly_text(const choice *c, int32_t column) {
    const cst_sheet_column *of = &c->sheet->of[column];
    return of->texts > of->numbers && of->odd_numbers < of->texts;
}

/* Values that are no numbers from the first row on are an error of that row at once: they are
 * numbers in another form, or other delimiters. */
static cst_status check_first_row(const choice *c) {
    cst_csv *csv = c->table->csv;
    bool end = false;
    CST_TRY(cst_table_rewind(c->context, c->table));
    CST_TRY(cst_csv_next(c->context, csv, &end));
    for (int32_t j = 0; !end && j < c->table->width; j++) {
        int32_t column = c->table->values[j];
        double ignored = 0;
        if ((is_mostly_text(c, column) || c->sheet->of[column].odd_numbers > 0) &&
            !cst_csv_is_missing(cst_csv_cell(csv, column)))
            CST_TRY(cst_csv_number(c->context, csv, column, &ignored));
    }
    return CST_OK;
}

static cst_status find_ids(const choice *c) {
    cst_table *t = c->table;
    if (c->ask->id_column) {
        t->id_column = cst_sheet_find(c->sheet, c->ask->id_column);
        if (t->id_column >= 0 && (t->columns > 1 || c->ask->use == CST_TABLE_IDS))
            return CST_OK;
    }
    t->id_column = cst_sheet_ids(c->sheet);
    if (t->id_column < 0 && t->columns > 1) {
        t->id_column = text_ids(c);
        if (t->id_column >= 0 && !is_mostly_text(c, t->id_column))
            t->id_column = -1;
    }
    if (t->columns == 1)
        t->id_column = -1;
    if (c->ask->id_column && t->id_column < 0 && t->columns > 1)
        return no_such_column(c, c->ask->id_column);
    return CST_OK;
}

/* ---- values ---- */

static cst_status take(const choice *c, const int32_t *columns, int32_t count) {
    cst_table *t = c->table;
    CST_TAKE(c->context, c->scope, t->values, count);
    memcpy(t->values, columns, (size_t)count * sizeof *columns);
    t->width = count;
    if (!c->sheet->names)
        return CST_OK;
    CST_TRY(cst_strings_take(c->context, c->scope, &t->value_names));
    for (int32_t i = 0; i < count; i++)
        CST_TRY(cst_strings_put(c->context, t->value_names, name_at(c, columns[i]) + c->skip));
    return CST_OK;
}

/* Columns of `sheet` that are those of member `name`: "name", "name:class", "name__class" or
 * "name.class", of the first kind that there is. Fills columns (room for all) and returns how many;
 * *skip: bytes of the names that are the member's. */
static int32_t table_member_columns(const cst_sheet *sheet, const char *name, int32_t *columns,
                                    size_t *skip) {
    static const char *const marks[] = {":", "__", "."};
    size_t length = strlen(name);
    int32_t column = cst_sheet_find(sheet, name);
    *skip = 0;
    if (column >= 0) {
        columns[0] = column;
        return 1;
    }
    for (size_t m = 0; sheet->names && m < sizeof marks / sizeof *marks; m++) {
        int32_t count = 0;
        *skip = length + strlen(marks[m]);
        for (int32_t j = 0; j < sheet->columns; j++) {
            const char *at = cst_strings_at(sheet->names, j);
            if (strncmp(at, name, length) == 0 &&
                strncmp(at + length, marks[m], strlen(marks[m])) == 0 && at[*skip])
                columns[count++] = j;
        }
        if (count > 0)
            return count;
    }
    *skip = 0;
    return 0;
}

/* The columns that the path or the caller names. */
static cst_status take_named(choice *c, int32_t *columns) {
    bool several = c->ask->use == CST_TABLE_PREDICTIONS || c->ask->use == CST_TABLE_TARGETS;
    int32_t count = 0;
    if (several)
        count = table_member_columns(c->sheet, c->column, columns, &c->skip);
    else if ((columns[0] = cst_sheet_find(c->sheet, c->column)) >= 0)
        count = 1;
    if (count == 0)
        return no_such_column(c, c->column);
    if (count == 1 && c->table->id_column == columns[0] && c->ask->use != CST_TABLE_IDS)
        c->table->id_column = -1;
    return take(c, columns, count);
}

/* The columns called as ask->names are, where there is one for each; else none. */
static int32_t columns_by_name(const choice *c, int32_t *columns) {
    const cst_strings *names = c->ask->names;
    int32_t count = 0;
    if (!names || !c->sheet->names || names->count > c->sheet->columns || names->count > NAMES_MAX)
        return 0;
    for (int64_t i = 0; i < names->count; i++) {
        int32_t found = -1;
        for (int32_t j = 0; found < 0 && j < c->sheet->columns; j++)
            if (j != c->table->id_column && strcmp(name_at(c, j), cst_strings_at(names, i)) == 0)
                found = j;
        if (found < 0)
            return 0;
        columns[count++] = found;
    }
    bool *marked = c->left_out; /* in the file's order, as other columns are */
    for (int32_t i = 0; i < count; i++)
        marked[columns[i]] = true;
    count = 0;
    for (int32_t j = 0; j < c->sheet->columns; j++)
        if (marked[j]) {
            columns[count++] = j;
            marked[j] = false;
        }
    return count;
}

/* Columns that may hold values: neither ids nor a second index, blank or of another use. */
static int32_t candidates(const choice *c, int32_t *columns, bool roles) {
    int32_t count = 0;
    bool predictions = c->ask->use == CST_TABLE_PREDICTIONS;
    bool numbers = predictions || c->ask->use == CST_TABLE_TARGETS;
    for (int32_t j = 0; j < c->sheet->columns; j++) {
        cst_column_hint hint = hint_of(c, j);
        bool other = has_role(c, j) && (predictions || hint != CST_COLUMN_TRUTH);
        bool index =
            hint == CST_COLUMN_INDEX && c->sheet->names && cst_sheet_may_be_ids(c->sheet, j);
        c->left_out[j] = j != c->table->id_column &&
                         (cst_sheet_blank(c->sheet, j) || (index && c->table->id_column >= 0) ||
                          (numbers && roles && other));
        if (j != c->table->id_column && !c->left_out[j])
            columns[count++] = j;
    }
    return count;
}

/* Of columns [count] the one that is hinted at; -1 where none or several are. */
static int32_t only_hinted(const choice *c, const int32_t *columns, int32_t count,
                           cst_column_hint hint) {
    int32_t found = -1;
    for (int32_t i = 0; i < count; i++)
        if (hint_of(c, columns[i]) == hint) {
            if (found >= 0)
                return -1;
            found = columns[i];
        }
    return found;
}

/* All but `column` are left out. */
static void leave_only(const choice *c, const int32_t *columns, int32_t count, int32_t column) {
    for (int32_t i = 0; i < count; i++)
        c->left_out[columns[i]] = columns[i] != column;
}

static void note_roles(const choice *c) {
    for (int32_t j = 0; c->ask->use == CST_TABLE_PREDICTIONS && j < c->sheet->columns; j++) {
        if (c->left_out[j] && hint_of(c, j) == CST_COLUMN_TRUTH && c->table->truth_column < 0)
            c->table->truth_column = j;
        if (c->left_out[j] && hint_of(c, j) == CST_COLUMN_FOLD && c->table->fold_column < 0)
            c->table->fold_column = j;
    }
}

/* Numbers: predictions, targets, or all there are. */
static cst_status take_numbers(choice *c, int32_t *columns) {
    int32_t count = columns_by_name(c, columns);
    if (count > 0) {
        for (int32_t j = 0, i = 0; j < c->sheet->columns; j++) {
            bool taken = i < count && columns[i] == j;
            i += taken;
            c->left_out[j] = !taken && j != c->table->id_column;
        }
        note_roles(c);
        return take(c, columns, count);
    }
    count = candidates(c, columns, false);
    bool classes = c->ask->use == CST_TABLE_PREDICTIONS && count > 1 &&
                   cst_sheet_sums_to_one(c->sheet, columns, count);
    if (!classes && candidates(c, columns, true) > 0)
        count = candidates(c, columns, true);
    else
        count = candidates(c, columns, false);
    int32_t hinted = -1;
    if (count > 1 && c->ask->use == CST_TABLE_TARGETS)
        hinted = only_hinted(c, columns, count, CST_COLUMN_TRUTH);
    else if (count > 1 && c->ask->use == CST_TABLE_PREDICTIONS && c->ask->one)
        hinted = only_hinted(c, columns, count, CST_COLUMN_PREDICTION);
    for (int32_t i = 0; hinted >= 0 && c->table->id_column < 0 && i < count; i++)
        if (columns[i] != hinted && c->sheet->rows > 2 &&
            hint_of(c, columns[i]) == CST_COLUMN_UNKNOWN &&
            cst_sheet_may_be_ids(c->sheet, columns[i]))
            return several_columns(c, columns, count); /* ids that would not be joined by */
    if (hinted >= 0) {
        leave_only(c, columns, count, hinted);
        columns[0] = hinted;
        count = 1;
    }
    note_roles(c);
    if (count > 1 && c->ask->one)
        return several_columns(c, columns, count);
    return take(c, columns, count);
}

/* One value per sample: by name, or what is left besides the ids. */
static cst_status take_one(choice *c, int32_t *columns) {
    int32_t found = -1;
    for (const char *const *w = c->ask->wanted; found < 0 && w && *w; w++)
        for (int32_t j = 0; found < 0 && c->sheet->names && j < c->sheet->columns; j++)
            if (cst_column_same(name_at(c, j), *w))
                found = j;
    int32_t count = candidates(c, columns, false);
    if (found < 0 && c->ask->kind != CST_COLUMN_UNKNOWN && c->sheet->names)
        found = only_hinted(c, columns, count, c->ask->kind);
    if (found >= 0 && found == c->table->id_column)
        c->table->id_column = -1;
    if (found < 0 && c->sheet->columns == 1)
        found = 0;
    if (found < 0 && c->table->id_column < 0 && c->sheet->columns == 2 && !has_role(c, 0) &&
        (c->sheet->rows < 3 || cst_sheet_may_be_ids(c->sheet, 0))) {
        c->table->id_column = 0;
        count = candidates(c, columns, false);
    }
    if (found < 0) {
        int32_t left = 0; /* besides columns of other uses */
        for (int32_t i = 0; i < count; i++)
            if (!has_role(c, columns[i]) || hint_of(c, columns[i]) == c->ask->kind)
                columns[left++] = columns[i];
        count = left > 0 ? left : count;
        if (count != 1)
            return several_columns(c, columns, count);
        found = columns[0];
    }
    for (int32_t j = 0; j < c->sheet->columns; j++)
        c->left_out[j] = j != found && j != c->table->id_column;
    columns[0] = found;
    return take(c, columns, 1);
}

static cst_status take_ids(choice *c, int32_t *columns) {
    columns[0] = c->table->columns == 1 ? 0 : c->table->id_column;
    if (columns[0] < 0)
        return cst_fail(c->context, CST_ERROR_INPUT,
                        "%s: line 1: %d columns, but none is called id; call the column of the ids "
                        "id, or name it with --id-column or as FILE.csv#COLUMN",
                        c->path, c->table->columns);
    return take(c, columns, 1);
}

/* ---- what is said of it ---- */

/* Adds a sentence to what is said: `text`, then `more`. */
static cst_status append(const choice *c, const char *text, const char *more) {
    const char *before = c->table->said ? c->table->said : "";
    c->table->said =
        cst_take_format(c->context, c->scope, "%s%s%s%s", before, *before ? "; " : "", text, more);
    return c->table->said ? CST_OK : CST_ERROR_MEMORY;
}

/* Which ids were found, where they are not called id. */
static cst_status say_ids(const choice *c) {
    char column[CST_COLUMN_CHARS];
    int32_t ids = c->table->id_column;
    if (ids < 0 || !c->sheet->names || c->ask->id_column || !*name_at(c, ids) ||
        hint_of(c, ids) == CST_COLUMN_ID || hint_of(c, ids) == CST_COLUMN_INDEX)
        return CST_OK;
    return append(c, cst_sheet_column_name(c->sheet, ids, column), " holds the sample ids");
}

/* A choice that goes beyond the plain form of ids and values. */
static cst_status say(const choice *c) {
    cst_table *t = c->table;
    char column[CST_COLUMN_CHARS];
    char list[CST_LISTED_CHARS];
    char holds[48];
    cst_strings *unused;
    CST_SCOPE(scope);
    CST_TRY(say_ids(c));
    if (c->column || !c->sheet->names || c->ask->use == CST_TABLE_IDS ||
        c->ask->use == CST_TABLE_MATRIX)
        return CST_OK;
    CST_TRY(cst_strings_take(c->context, scope, &unused));
    for (int32_t j = 0; j < c->sheet->columns; j++)
        if (c->left_out[j] && *name_at(c, j) && j != c->truth && j != t->fold_column)
            CST_TRY(cst_strings_put(c->context, unused, name_at(c, j)));
    (void)cst_snprintf(holds, sizeof holds, " holds the %s", noun(c));
    if (unused->count == 0)
        return CST_OK;
    if (t->width == 1)
        CST_TRY(append(c, cst_sheet_column_name(c->sheet, t->values[0], column), holds));
    return append(c, "not used: ", cst_column_list(unused, list));
}

/* ---- opening ---- */

static cst_status choose(choice *c) {
    cst_table *t = c->table;
    int32_t *columns;
    CST_SCOPE(scope);
    t->columns = c->sheet->columns;
    t->header = c->sheet->header;
    t->names = c->sheet->names;
    t->id_column = t->truth_column = t->fold_column = -1;
    CST_TAKE(c->context, scope, columns, t->columns);
    CST_TAKE(c->context, scope, c->left_out, t->columns);
    CST_TRY(find_ids(c));
    CST_TRY(c->column                         ? take_named(c, columns)
            : c->ask->use == CST_TABLE_COLUMN ? take_one(c, columns)
            : c->ask->use == CST_TABLE_IDS    ? take_ids(c, columns)
                                              : take_numbers(c, columns));
    return say(c);
}

/* The column that is named must be the same in every part. */
static cst_status check_columns(cst_context *context, const cst_file_parts *parts) {
    size_t mark = parts ? cst_path_column(parts->paths[0]) : 0;
    for (int64_t k = 1; parts && k < parts->count; k++) {
        size_t other = cst_path_column(parts->paths[k]);
        if ((mark > 0) != (other > 0) ||
            (mark > 0 && strcmp(parts->paths[0] + mark, parts->paths[k] + other) != 0))
            return cst_fail(context, CST_ERROR_INPUT,
                            "%s and %s: parts must name the same column, or none", parts->paths[0],
                            parts->paths[k]);
    }
    return CST_OK;
}

cst_status cst_table_open(cst_context *context, cst_scope *scope, cst_table **out,
                          const cst_row_source *source, const cst_table_ask *ask) {
    static const cst_table_ask matrix = {.use = CST_TABLE_MATRIX};
    cst_shared_table *shared = source->shared;
    const char *path = cst_source_first(source);
    size_t mark = cst_path_column(path);
    *out = NULL;
    ask = ask ? ask : &matrix;
    choice c = {.context = context,
                .scope = scope,
                .path = path,
                .ask = ask,
                .column = mark ? path + mark + 1 : ask->column};
    const char *key = c.column ? c.column : ask->use == CST_TABLE_IDS ? ask->id_column : NULL;
    const char *const named[] = {key, NULL};
    bool numbers = ask->use != CST_TABLE_COLUMN && ask->use != CST_TABLE_IDS;
    CST_NEW(context, scope, cst_table, table, 1);
    CST_NEW(context, scope, cst_sheet, sheet, 1);
    c.table = table;
    CST_TRY(check_columns(context, source->parts));
    if (shared) {
        *sheet = shared->sheet;
    } else {
        CST_TRY(cst_csv_open(context, scope, &table->csv, source));
        CST_TRY(
            cst_sheet_read(context, scope, sheet, table->csv, key ? named : ask->wanted, numbers));
        c.path = cst_csv_name(table->csv);
    }
    c.sheet = sheet;
    c.truth = ask->truth && sheet->names ? cst_sheet_find(sheet, ask->truth) : -1;
    CST_TRY(choose(&c));
    *out = table;
    if (shared && has_columns(shared, table, ask)) {
        table->parsed = shared;
        return CST_OK;
    }
    if (shared)
        CST_TRY(cst_csv_open(context, scope, &table->csv, source));
    if (ask->use == CST_TABLE_PREDICTIONS || ask->use == CST_TABLE_TARGETS)
        CST_TRY(check_first_row(&c));
    cst_csv_go_on(table->csv, table->header);
    if (numbers && ask->gaps)
        table->csv->blank = true;
    return cst_table_rewind(context, table);
}

cst_status cst_table_rewind(cst_context *context, cst_table *table) {
    bool end = false;
    if (!table->csv)
        return CST_OK;
    CST_TRY(cst_csv_rewind(context, table->csv));
    return table->header ? cst_csv_next(context, table->csv, &end) : CST_OK;
}
