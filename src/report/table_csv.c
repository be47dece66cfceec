/*
 * The rows of a document as comma-separated values: every number in full, nested keys joined by
 * '_'. Last stage of a comparison with --csv. The form is RFC 4180 with '\n' at line ends.
 */
#include "core/cell_text.h"
#include "report/text.h"

#include <string.h>

enum { COLUMNS_MAX = 256 };

/* Column names in the order of the keys of the rows. */
typedef struct csv_table {
    cst_page *page;
    char *names[COLUMNS_MAX];
    size_t count;
    const json_t *values[COLUMNS_MAX]; /* of the present row; NULL where it has none */
    size_t place;                      /* of the column met last, in one walk over a row */
} csv_table;

/* What a walk over a row does with each of its cells. `value` is NULL or a string, a number, a flag
 * or a list of strings. */
typedef void (*cell_fn)(csv_table *table, const char *name, const json_t *value);

static bool is_interval(const char *key) {
    size_t length = strlen(key);
    return length > 3 && strcmp(key + length - 3, "_ci") == 0;
}

static void walk(csv_table *table, const json_t *object, const char *prefix, cell_fn visit);

/* Visits a cell under a name that is freed here; NULL: memory ran out. */
static void visit_cell(csv_table *table, char *name, const json_t *value, cell_fn visit) {
    if (name)
        visit(table, name, value);
    else
        table->page->text.status = CST_ERROR_MEMORY;
    cst_free(table->page->text.context, name);
}

/* One key of a row: "NAME_ci" gives NAME_low and NAME_high, an object its keys after its own; lists
 * of numbers (weights) and definitions are left out. */
static void walk_key(csv_table *table, const char *prefix, const char *key, const json_t *value,
                     cell_fn visit) {
    cst_context *context = table->page->text.context;
    if (is_interval(key) && json_is_array(value)) {
        for (size_t end = 0; end < 2; end++)
            visit_cell(table,
                       cst_format(context, "%s%.*s_%s", prefix, (int)strlen(key) - 3, key,
                                  end ? "high" : "low"),
                       json_array_get(value, end), visit);
    } else if (json_is_object(value)) {
        char *longer = cst_format(context, "%s%s_", prefix, key);
        if (longer)
            walk(table, value, longer, visit);
        else
            table->page->text.status = CST_ERROR_MEMORY;
        cst_free(context, longer);
    } else if (!json_is_array(value) || json_is_string(json_array_get(value, 0))) {
        visit_cell(table, cst_format(context, "%s%s", prefix, key), value, visit);
    }
}

static void walk(csv_table *table, const json_t *object, const char *prefix, cell_fn visit) {
    const char *key = NULL;
    json_t *value = NULL;
    json_object_foreach((json_t *)(uintptr_t)object, key, value) {
        if (table->page->text.status != CST_OK)
            return;
        if (strcmp(key, "weights") != 0 && strcmp(key, "definition") != 0)
            walk_key(table, prefix, key, value, visit);
    }
}

/* ---- columns ---- */

/* Rows may lack keys, so a new one goes behind the one that it follows in its row. */
static void note_column(csv_table *table, const char *name, const json_t *value) {
    (void)value;
    for (size_t c = 0; c < table->count; c++)
        if (strcmp(table->names[c], name) == 0) {
            table->place = c + 1;
            return;
        }
    char *copy = table->count < COLUMNS_MAX ? cst_strdup(table->page->text.context, name) : NULL;
    if (!copy) {
        table->page->text.status =
            table->count < COLUMNS_MAX
                ? CST_ERROR_MEMORY
                : cst_fail(table->page->text.context, CST_ERROR_LIMIT,
                           "a table can have at most %d columns; use the JSON", (int)COLUMNS_MAX);
        return;
    }
    memmove(table->names + table->place + 1, table->names + table->place,
            (table->count - table->place) * sizeof table->names[0]);
    table->names[table->place++] = copy;
    table->count++;
}

/* ---- cells ---- */

/* The fewest digits that read back as the same double. */
static void print_number(cst_page *page, double value) {
    char text[32];
    for (int digits = 15; digits <= 17; digits++) {
        (void)cst_snprintf(text, sizeof text, "%.*g", digits, value);
        if (!(cst_strtod(text, NULL) < value || cst_strtod(text, NULL) > value))
            break;
    }
    cst_page_print(page, "%s", text);
}

static void print_field(cst_page *page, const char *text) {
    const char *mark = cst_csv_is_formula(text) ? "'" : "";
    if (!*text || cst_csv_is_bare(text)) {
        cst_page_print(page, "%s%s", mark, text);
        return;
    }
    cst_page_print(page, "\"%s", mark);
    while (*text) {
        size_t length = strcspn(text, "\"");
        cst_page_print(page, "%.*s%s", (int)length, text, text[length] ? "\"\"" : "");
        text += length + (text[length] != '\0');
    }
    cst_page_print(page, "\"");
}

/* Strings of a list, with ';' between them, where some spreadsheets split a line. */
static void print_list(cst_page *page, const json_t *list) {
    char *joined = cst_strdup(page->text.context, "");
    for (size_t i = 0; joined && i < json_array_size(list); i++) {
        const char *item = cst_json_string_at(list, i);
        char *longer =
            cst_format(page->text.context, "%s%s%s%s", joined, i ? ";" : "",
                       i && item && cst_csv_is_formula(item) ? "'" : "", item ? item : "");
        cst_free(page->text.context, joined);
        joined = longer;
    }
    if (joined)
        print_field(page, joined);
    else
        page->text.status = CST_ERROR_MEMORY;
    cst_free(page->text.context, joined);
}

static void note_cell(csv_table *table, const char *name, const json_t *value) {
    for (size_t c = 0; c < table->count; c++)
        if (strcmp(table->names[c], name) == 0)
            table->values[c] = value;
}

static void print_cell(cst_page *page, const json_t *value) {
    if (json_is_string(value))
        print_field(page, json_string_value(value));
    else if (json_is_integer(value))
        cst_page_print(page, "%lld", (long long)json_integer_value(value));
    else if (json_is_real(value))
        print_number(page, json_real_value(value));
    else if (json_is_boolean(value))
        cst_page_print(page, json_is_true(value) ? "true" : "false");
    else if (json_is_array(value))
        print_list(page, value);
}

static void print_row(csv_table *table, const json_t *row) {
    for (size_t c = 0; c < table->count; c++)
        table->values[c] = NULL;
    walk(table, row, "", note_cell);
    for (size_t c = 0; c < table->count; c++) {
        print_cell(table->page, table->values[c]);
        cst_page_print(table->page, c + 1 < table->count ? "," : "\n");
    }
}

void cst_rows_csv(cst_page *page, const json_t *root, const json_t *rows) {
    (void)root;
    csv_table table = {.page = page};
    for (size_t i = 0; page->text.status == CST_OK && i < json_array_size(rows); i++) {
        table.place = 0;
        walk(&table, json_array_get(rows, i), "", note_column);
    }
    for (size_t c = 0; c < table.count; c++) {
        print_field(page, table.names[c]);
        cst_page_print(page, c + 1 < table.count ? "," : "\n");
    }
    for (size_t i = 0; page->text.status == CST_OK && i < json_array_size(rows); i++)
        print_row(&table, json_array_get(rows, i));
    for (size_t c = 0; c < table.count; c++)
        cst_free(page->text.context, table.names[c]);
}
