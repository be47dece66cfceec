/*
 * What each column of a delimited file is for. Between the record reader and the pool: predictions,
 * labels and ids go through one choice.
 */
#include "data/readers/table.h"
#include "data/files/bytes.h"

#include <string.h>

/* More names are not looked for one by one. */
enum { NAMES_MAX = 4096 };

/* ---- the choice ---- */

typedef struct choice {
    cst_context *context;
    cst_table *table;
    const cst_sheet *sheet;
    const cst_table_ask *ask;
    const char *column; /* that the path or the caller names, or NULL */
    bool *left_out;     /* [columns]: of another use */
    size_t skip;        /* bytes of the values' names that name the member */
    int32_t truth;      /* the column that ask->truth names; -1: none */
} choice;

static const char *path_of(const choice *c) {
    return cst_csv_name(c->table->csv);
}

static const char *name_at(const choice *c, int32_t column) {
    return c->sheet->names ? cst_strings_at(c->sheet->names, column) : "";
}

/* What the values are called, and the option that names their column. */
static const char *noun(const choice *c) {
    switch (c->ask->use) {
    case CST_TABLE_TARGETS:
        return "targets";
    case CST_TABLE_COLUMN:
        return c->ask->kind == CST_COLUMN_FOLD     ? "folds"
               : c->ask->kind == CST_COLUMN_GROUP  ? "groups"
               : c->ask->kind == CST_COLUMN_WEIGHT ? "weights"
               : c->ask->kind == CST_COLUMN_DOMAIN ? "domains"
               : c->ask->kind == CST_COLUMN_TRUTH  ? "labels"
                                                   : "values";
    case CST_TABLE_IDS:
        return "ids";
    default:
        return "predictions";
    }
}

static cst_status no_such_column(const choice *c, const char *key) {
    char quoted[CST_QUOTE_CHARS];
    char list[CST_LISTED_CHARS];
    return cst_fail(c->context, CST_ERROR_INPUT, "%s: line 1: there is no column '%s'; it has %s",
                    path_of(c), cst_quote(quoted, key), cst_sheet_list(c->sheet, list));
}

/* Several columns, and nothing says which one is meant. A column of distinct integers next to
 * others is most likely the ids. */
static cst_status several_columns(const choice *c, const int32_t *columns, int32_t count) {
    char list[CST_LISTED_CHARS];
    char column[CST_COLUMN_CHARS];
    char hint[2 * CST_COLUMN_CHARS + 96] = "";
    int32_t likely = -1;
    for (int32_t i = 0; c->table->id_column < 0 && i < count; i++) {
        cst_column_facts facts = cst_sheet_facts(c->sheet, columns[i]);
        if (likely < 0 && c->sheet->rows > 2 && facts.whole &&
            cst_sheet_distinct(c->sheet, columns[i]))
            likely = columns[i];
    }
    if (likely >= 0) {
        const char *name = name_at(c, likely);
        char number[16];
        (void)cst_snprintf(number, sizeof number, "%d", (int)likely + 1);
        char quoted[CST_QUOTE_CHARS];
        (void)cst_snprintf(
            hint, sizeof hint, "; %s looks like sample ids (all different): --id-column \"%s\"",
            cst_sheet_column(c->sheet, likely, column), *name ? cst_quote(quoted, name) : number);
    }
    if (c->ask->use == CST_TABLE_COLUMN && c->ask->kind == CST_COLUMN_TRUTH && count > 1 &&
        cst_sheet_sums_to_one(c->sheet, columns, count))
        return cst_fail(
            c->context, CST_ERROR_INPUT,
            "%s: line 1: %d columns (%s) that sum to 1: labels must be one class number "
            "or name for each row; of one-hot labels write the column of the 1 (argmax)",
            path_of(c), (int)count, cst_sheet_list(c->sheet, list));
    bool ones = c->ask->use == CST_TABLE_COLUMN && c->ask->kind == CST_COLUMN_TRUTH && count > 1;
    for (int32_t i = 0; ones && i < count; i++)
        ones = cst_sheet_facts(c->sheet, columns[i]).whole && cst_sheet_unit(c->sheet, columns[i]);
    if (ones)
        return cst_fail(
            c->context, CST_ERROR_INPUT,
            "%s: line 1: %d columns (%s) of 0 and 1 that do not sum to 1: these are "
            "several labels for one row (multi-label); fit a stack for each: its column "
            "as --labels FILE.csv#COLUMN, and a file for each member with its "
            "probability of that label",
            path_of(c), (int)count, cst_sheet_list(c->sheet, list));
    bool labels = c->ask->use == CST_TABLE_TARGETS ||
                  (c->ask->use == CST_TABLE_COLUMN && c->ask->kind == CST_COLUMN_TRUTH);
    return cst_fail(c->context, CST_ERROR_INPUT,
                    "%s: line 1: %d columns (%s), and none is known to hold the %s; name it with "
                    "%s%s, or keep only it and the ids%s",
                    path_of(c), (int)c->sheet->columns, cst_sheet_list(c->sheet, list), noun(c),
                    labels ? "--label-column, or as " : "", "FILE.csv#COLUMN", hint);
}

/* ---- ids ---- */

static bool is_text(const choice *c, int32_t column) {
    return c->sheet->rows > 0 && cst_sheet_facts(c->sheet, column).texts > 0;
}

static bool has_role(const choice *c, int32_t column) {
    cst_column_hint hint = c->sheet->hints[column];
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
    cst_column_facts facts = cst_sheet_facts(c->sheet, column);
    return facts.texts > facts.numbers && facts.odd_numbers < facts.texts;
}

/* Values that are no numbers from the first row on are an error of that row at once: they are
 * numbers in another form, or other delimiters. */
static cst_status check_first_row(const choice *c) {
    const cst_table *t = c->table;
    bool end = false;
    if (c->ask->use != CST_TABLE_PREDICTIONS && c->ask->use != CST_TABLE_TARGETS)
        return CST_OK;
    cst_status status = cst_table_rewind(c->context, c->table);
    CST_THEN(cst_csv_next(c->context, t->csv, &end));
    for (int32_t j = 0; status == CST_OK && !end && j < t->width; j++) {
        double ignored = 0;
        if (is_mostly_text(c, t->values[j]) ||
            cst_sheet_facts(c->sheet, t->values[j]).odd_numbers > 0)
            if (!cst_csv_is_missing(cst_csv_cell(t->csv, t->values[j])))
                status = cst_csv_number(c->context, t->csv, t->values[j], &ignored);
    }
    return status;
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
    t->values = cst_alloc(c->context, (size_t)count, sizeof *t->values);
    if (!t->values)
        return CST_ERROR_MEMORY;
    memcpy(t->values, columns, (size_t)count * sizeof *columns);
    t->width = count;
    cst_status status = CST_OK;
    if (c->sheet->names)
        status = cst_strings_create(c->context, &t->value_names);
    for (int32_t i = 0; status == CST_OK && c->sheet->names && i < count; i++) {
        const char *name = name_at(c, columns[i]) + c->skip;
        status = cst_strings_add(c->context, t->value_names, name, strlen(name));
    }
    return status;
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

/* Whether a column holds nothing: a delimiter at the end of every line. */
static bool is_blank(const choice *c, int32_t column) {
    return !*name_at(c, column) && c->sheet->rows > 0 &&
           cst_sheet_facts(c->sheet, column).empty == c->sheet->rows;
}

/* Columns that may hold values: neither ids nor a second index, blank or of another use. */
static int32_t candidates(const choice *c, int32_t *columns, bool roles) {
    int32_t count = 0;
    bool predictions = c->ask->use == CST_TABLE_PREDICTIONS;
    bool numbers = predictions || c->ask->use == CST_TABLE_TARGETS;
    for (int32_t j = 0; j < c->sheet->columns; j++) {
        cst_column_hint hint = c->sheet->hints[j];
        bool other = hint == CST_COLUMN_FOLD || hint == CST_COLUMN_GROUP ||
                     hint == CST_COLUMN_WEIGHT || hint == CST_COLUMN_DOMAIN ||
                     (predictions && hint == CST_COLUMN_TRUTH);
        bool index =
            hint == CST_COLUMN_INDEX && c->sheet->names && cst_sheet_may_be_ids(c->sheet, j);
        c->left_out[j] =
            j != c->table->id_column &&
            (is_blank(c, j) || (index && c->table->id_column >= 0) || (numbers && roles && other));
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
        if (c->sheet->hints[columns[i]] == hint) {
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
        if (c->left_out[j] && c->sheet->hints[j] == CST_COLUMN_TRUTH && c->table->truth_column < 0)
            c->table->truth_column = j;
        if (c->left_out[j] && c->sheet->hints[j] == CST_COLUMN_FOLD && c->table->fold_column < 0)
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
            c->sheet->hints[columns[i]] == CST_COLUMN_UNKNOWN &&
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
            if (!has_role(c, columns[i]) || c->sheet->hints[columns[i]] == c->ask->kind)
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
                        path_of(c), c->table->columns);
    return take(c, columns, 1);
}

/* ---- what is said of it ---- */

/* Adds a sentence to what is said: `text`, then `more`. */
static cst_status append(const choice *c, const char *text, const char *more) {
    const char *before = c->table->said;
    char *all =
        cst_format(c->context, "%s%s%s%s", before ? before : "", before ? "; " : "", text, more);
    if (!all)
        return CST_ERROR_MEMORY;
    cst_free(c->context, c->table->said);
    c->table->said = all;
    return CST_OK;
}

/* Which ids were found, where they are not called id. */
static cst_status say_ids(const choice *c) {
    char column[CST_COLUMN_CHARS];
    int32_t ids = c->table->id_column;
    if (ids < 0 || !c->sheet->names || c->ask->id_column || !*name_at(c, ids) ||
        c->sheet->hints[ids] == CST_COLUMN_ID || c->sheet->hints[ids] == CST_COLUMN_INDEX)
        return CST_OK;
    return append(c, cst_sheet_column(c->sheet, ids, column), " holds the sample ids");
}

/* A choice that goes beyond the plain form of ids and values. */
static cst_status say(const choice *c) {
    cst_table *t = c->table;
    char column[CST_COLUMN_CHARS];
    char list[CST_LISTED_CHARS];
    char holds[48];
    cst_strings *unused = NULL;
    cst_status status = say_ids(c);
    if (c->column || !c->sheet->names || c->ask->use == CST_TABLE_IDS ||
        c->ask->use == CST_TABLE_MATRIX)
        return status;
    CST_THEN(cst_strings_create(c->context, &unused));
    for (int32_t j = 0; status == CST_OK && j < c->sheet->columns; j++)
        if (c->left_out[j] && *name_at(c, j) && j != c->truth && j != t->fold_column)
            status = cst_strings_add(c->context, unused, name_at(c, j), strlen(name_at(c, j)));
    (void)cst_snprintf(holds, sizeof holds, " holds the %s", noun(c));
    if (status == CST_OK && unused->count > 0 && t->width == 1)
        status = append(c, cst_sheet_column(c->sheet, t->values[0], column), holds);
    if (status == CST_OK && unused->count > 0)
        status = append(c, "not used: ", cst_column_list(unused, list));
    cst_strings_free(c->context, unused);
    return status;
}

/* ---- opening ---- */

static cst_status choose(choice *c) {
    cst_table *t = c->table;
    t->columns = c->sheet->columns;
    t->header = c->sheet->header;
    t->id_column = t->truth_column = t->fold_column = -1;
    int32_t *columns = cst_alloc(c->context, (size_t)t->columns, sizeof *columns);
    c->left_out = cst_alloc(c->context, (size_t)t->columns, sizeof *c->left_out);
    cst_status status = columns && c->left_out ? find_ids(c) : CST_ERROR_MEMORY;
    if (status == CST_OK && c->column)
        status = take_named(c, columns);
    else if (status == CST_OK)
        status = c->ask->use == CST_TABLE_COLUMN ? take_one(c, columns)
                 : c->ask->use == CST_TABLE_IDS  ? take_ids(c, columns)
                                                 : take_numbers(c, columns);
    CST_THEN(say(c));
    cst_free(c->context, columns);
    cst_free(c->context, c->left_out);
    return status;
}

/* Whether the values are numbers, which a header is told from. */
static bool asks_for_numbers(const cst_table_ask *ask) {
    return ask->use != CST_TABLE_COLUMN && ask->use != CST_TABLE_IDS;
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

cst_status cst_table_open_source(cst_context *context, cst_table **out,
                                 const cst_row_source *source, const cst_table_ask *ask) {
    static const cst_table_ask matrix = {.use = CST_TABLE_MATRIX};
    *out = NULL;
    cst_sheet sheet = {0};
    cst_table *table = cst_alloc(context, 1, sizeof *table);
    if (!table)
        return CST_ERROR_MEMORY;
    ask = ask ? ask : &matrix;
    const char *path = cst_source_first(source);
    size_t mark = cst_path_column(path);
    choice c = {.context = context,
                .table = table,
                .sheet = &sheet,
                .ask = ask,
                .column = mark ? path + mark + 1 : ask->column};
    const char *key = c.column ? c.column : ask->use == CST_TABLE_IDS ? ask->id_column : NULL;
    const char *const named[] = {key, NULL};
    const char *const *wanted = key ? named : ask->wanted;
    cst_status status = check_columns(context, source->parts);
    CST_THEN(cst_csv_open_source(context, &table->csv, source));
    CST_THEN(cst_sheet_read(context, &sheet, table->csv, wanted, asks_for_numbers(ask)));
    c.truth =
        status == CST_OK && ask->truth && sheet.names ? cst_sheet_find(&sheet, ask->truth) : -1;
    if (c.truth >= 0)
        sheet.hints[c.truth] = CST_COLUMN_TRUTH;
    CST_THEN(choose(&c));
    CST_THEN(check_first_row(&c));
    if (status == CST_OK) {
        table->names = sheet.names;
        sheet.names = NULL;
        cst_csv_go_on(table->csv, table->header);
    }
    CST_THEN(cst_table_rewind(context, table));
    cst_sheet_clear(context, &sheet);
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
    cst_strings_free(context, table->value_names);
    cst_free(context, table->values);
    cst_free(context, table->said);
    cst_free(context, table);
}

cst_status cst_table_rewind(cst_context *context, cst_table *table) {
    bool end = false;
    cst_status status = cst_csv_rewind(context, table->csv);
    if (status == CST_OK && table->header)
        status = cst_csv_next(context, table->csv, &end);
    return status;
}
