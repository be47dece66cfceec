/* Predictions in the form of a sample submission: its ids in their order, its columns by their
 * names. The last step of predict. */
#include "data/readers/column_names.h"
#include "data/readers/csv.h"

#include <corestack/files.h>

#include <string.h>
#include <strings.h>

enum { NO_CLASS = -1, OF_ID = -2, COPIED = -3, LABEL = -4 };

/* What the cells of a column are, over all rows. */
typedef struct facts {
    int64_t texts;
    int64_t fractions; /* numbers that are not whole */
    bool zero;
    bool one;
    bool other; /* another whole number */
} facts;

typedef struct form {
    cst_context *context;
    cst_scope *scope;
    const char *sample;
    const char *column; /* to be filled; NULL: all */
    bool values;
    const float *predictions;
    int64_t rows;
    int32_t classes;
    const char *const *ids;
    const char *const *class_names;
    cst_strings *called; /* [classes] their names, or numbers */
    cst_csv *csv;
    cst_strings *names; /* of the columns */
    facts *facts;
    int32_t columns;
    int32_t id;
    int32_t *fill;       /* [columns]: a class, or one of the above */
    int64_t *places;     /* [rows of the sample] */
    int64_t sample_rows; /* without the header */
    bool named_labels;   /* labels are written by name and not by number */
    cst_buffer said;
} form;

static void say(form *f, const char *format, const char *text) {
    char *part = cst_format(f->context, format, text);
    if (part)
        cst_buffer_add_text(&f->said, part);
    else
        f->said.status = CST_ERROR_MEMORY;
    cst_free(f->context, part);
}

/* ---- the sample ---- */

static void look(facts *f, const char *cell) {
    if (!*cell)
        return;
    if (!cst_csv_is_number(cell)) {
        f->texts++;
        return;
    }
    double value = cst_strtod(cell, NULL);
    bool whole = value >= -1e15 && value <= 1e15 && value == (double)(int64_t)value;
    f->fractions += !whole;
    f->zero = f->zero || value == 0;
    f->one = f->one || value == 1;
    f->other = f->other || (whole && value != 0 && value != 1);
}

static cst_status read_names(form *f) {
    bool end = false;
    CST_TRY(cst_csv_next(f->context, f->csv, &end));
    if (end)
        return cst_fail(f->context, CST_ERROR_FORMAT, "%s: the file is empty", f->sample);
    CST_TRY(cst_strings_take(f->context, f->scope, &f->names));
    f->columns = f->csv->cell_count;
    for (int32_t j = 0; j < f->columns; j++)
        CST_TRY(cst_strings_put(f->context, f->names, cst_csv_cell(f->csv, j)));
    return CST_OK;
}

static bool is_id_name(const char *name) {
    cst_column_hint hint = *name ? cst_column_hint_of(name) : CST_COLUMN_UNKNOWN;
    return hint == CST_COLUMN_ID || hint == CST_COLUMN_ID_LIKELY ||
           cst_column_same(name, "passengerid");
}

/* The column whose first cell is one of our ids, else the one that is called so, else the first. */
static int32_t find_ids(const form *f, const cst_id_index *index) {
    for (int32_t j = 0; index && j < f->columns; j++)
        if (cst_id_index_find(index, cst_csv_cell(f->csv, j)) >= 0)
            return j;
    for (int32_t j = 0; j < f->columns; j++)
        if (is_id_name(cst_strings_at(f->names, j)))
            return j;
    return 0;
}

/* Whether the names are a row of data. */
static bool lacks_header(const form *f, const cst_id_index *index) {
    for (int32_t j = 0; index && j < f->columns; j++)
        if (cst_id_index_find(index, cst_strings_at(f->names, j)) >= 0 &&
            !is_id_name(cst_strings_at(f->names, j)))
            for (int32_t other = 0; other < f->columns; other++)
                if (other != j && cst_csv_is_number(cst_strings_at(f->names, other)))
                    return true;
    return false;
}

static cst_status read_rows(form *f, const cst_id_index *index, cst_strings *ids) {
    bool end = false;
    for (f->sample_rows = 0;; f->sample_rows++) {
        CST_TRY(cst_csv_next(f->context, f->csv, &end));
        if (end)
            return CST_OK;
        if (f->sample_rows == 0)
            f->id = find_ids(f, index);
        CST_TRY(cst_strings_put(f->context, ids, cst_csv_cell(f->csv, f->id)));
        for (int32_t j = 0; j < f->columns; j++)
            look(&f->facts[j], cst_csv_cell(f->csv, j));
        CST_TRY(cst_poll_item(f->context, f->sample_rows));
    }
}

static cst_status by_position(form *f) {
    if (f->sample_rows != f->rows)
        return cst_fail(
            f->context, CST_ERROR_MISMATCH,
            "%s has %lld rows, but %lld were predicted, without ids; use the sample of the "
            "rows that are predicted",
            f->sample, (long long)f->sample_rows, (long long)f->rows);
    for (int64_t i = 0; i < f->rows; i++)
        f->places[i] = i;
    say(f, "%s", "rows in the order of the predictions, which have no ids; ");
    return CST_OK;
}

/* The same ids on both sides, each once. */
static cst_status by_id(form *f, const cst_id_index *index, const cst_strings *ids) {
    char quoted[CST_QUOTE_CHARS];
    CST_SCOPE(scope);
    CST_NEW(f->context, scope, bool, taken, f->rows);
    CST_TRY(cst_id_join(f->context, index, ids, f->sample, true, f->places));
    for (int64_t i = 0; i < f->sample_rows; i++)
        taken[f->places[i]] = true;
    for (int64_t i = 0; i < f->rows; i++)
        if (!taken[i])
            return cst_fail(f->context, CST_ERROR_MISMATCH,
                            "%s has no row of id '%s', which is predicted; is the sample of "
                            "another split, or cut off?",
                            f->sample, cst_quote(quoted, f->ids[i]));
    return CST_OK;
}

static cst_status read_sample(form *f) {
    cst_context *context = f->context;
    cst_row_source source = cst_one_file(f->sample, 0);
    cst_strings *own;
    cst_strings *ids;
    cst_id_index *index = NULL;
    CST_SCOPE(scope);
    CST_TRY(cst_csv_open(context, f->scope, &f->csv, &source));
    CST_TRY(read_names(f));
    CST_TRY(cst_strings_take(context, f->scope, &f->called));
    for (int32_t c = 0; c < f->classes; c++)
        CST_TRY(f->class_names ? cst_strings_put(context, f->called, f->class_names[c])
                               : cst_strings_add_int(context, f->called, c));
    if (f->ids) {
        CST_TRY(cst_strings_take(context, scope, &own));
        for (int64_t i = 0; i < f->rows; i++)
            CST_TRY(cst_strings_put(context, own, f->ids[i]));
        CST_TRY(cst_id_index_take(context, scope, &index, own, "the predicted rows"));
    }
    if (lacks_header(f, index))
        return cst_fail(context, CST_ERROR_FORMAT,
                        "%s: line 1 is a row of data; the first line must name the columns",
                        f->sample);
    CST_TAKE(context, f->scope, f->facts, f->columns);
    CST_TAKE(context, f->scope, f->fill, f->columns);
    CST_TRY(cst_strings_take(context, scope, &ids));
    CST_TRY(read_rows(f, index, ids));
    CST_TAKE(context, f->scope, f->places, f->sample_rows);
    return index ? by_id(f, index, ids) : by_position(f);
}

/* ---- which column is which class ---- */

/* A class by its name, or by its number where classes have none. */
static int32_t find_class(const form *f, const char *text, size_t length, bool exact) {
    for (int32_t c = 0; c < f->classes; c++) {
        const char *name = cst_strings_at(f->called, c);
        if (strlen(name) == length && (exact ? strncmp : strncasecmp)(name, text, length) == 0)
            return c;
    }
    return NO_CLASS;
}

/* Fills `fill` of the columns that are not spoken for; *good is false where a name is no class. */
static cst_status match(form *f, size_t before, size_t after, bool exact, bool *good) {
    CST_SCOPE(scope);
    CST_NEW(f->context, scope, bool, taken, f->classes);
    CST_NEW(f->context, scope, int32_t, found, f->columns);
    *good = false;
    for (int32_t j = 0; j < f->columns; j++) {
        const char *name = cst_strings_at(f->names, j);
        size_t length = strlen(name);
        if (f->fill[j] != NO_CLASS)
            continue;
        if (length <= before + after)
            return CST_OK;
        found[j] = find_class(f, name + before, length - before - after, exact);
        if (found[j] < 0 || taken[found[j]])
            return CST_OK;
        taken[found[j]] = true;
    }
    *good = true;
    for (int32_t j = 0; j < f->columns; j++)
        if (f->fill[j] == NO_CLASS)
            f->fill[j] = found[j];
    return CST_OK;
}

static cst_status fail_column(form *f, const char *name) {
    char classes[CST_LISTED_CHARS];
    char quoted[CST_QUOTE_CHARS];
    return cst_fail(f->context, CST_ERROR_MISMATCH,
                    "%s: column '%s' is none of the %s (%s)%s; name the one column to fill with "
                    "--column",
                    f->sample, cst_quote(quoted, name), f->values ? "outputs" : "classes",
                    cst_column_list(f->called, classes),
                    f->class_names ? "" : ", which have no names: --class-names gives them");
}

static cst_status match_columns(form *f) {
    cst_strings *names; /* of the columns to fill */
    CST_SCOPE(scope);
    CST_TRY(cst_strings_take(f->context, scope, &names));
    for (int32_t j = 0; j < f->columns; j++)
        if (f->fill[j] == NO_CLASS)
            CST_TRY(cst_strings_put(f->context, names, cst_strings_at(f->names, j)));
    size_t before = cst_column_shared(names, false);
    size_t after = cst_column_shared(names, true);
    const size_t cuts[][2] = {{0, 0}, {0, 0}, {before, 0}, {0, after}, {before, after}};
    bool good = false;
    for (int k = 0; !good && k < 5; k++)
        CST_TRY(match(f, cuts[k][0], cuts[k][1], k == 0, &good));
    if (good) {
        say(f, "%s", f->values ? "one output a column" : "one class a column, by name");
        return CST_OK;
    }
    for (int32_t j = 0; j < f->columns; j++) {
        const char *name = cst_strings_at(f->names, j);
        if (f->fill[j] == NO_CLASS && find_class(f, name, strlen(name), false) < 0)
            return fail_column(f, name);
    }
    return cst_fail(f->context, CST_ERROR_MISMATCH, "%s: two columns name the same class",
                    f->sample);
}

/* Labels by name where the sample has names, or where names are numbers. */
static cst_status choose_label(form *f, int32_t column) {
    const facts *seen = &f->facts[column];
    bool numbers = f->class_names != NULL;
    for (int32_t c = 0; numbers && c < f->classes; c++)
        numbers = cst_csv_is_number(f->class_names[c]);
    f->named_labels = f->class_names && (numbers || seen->texts > 0);
    if (seen->texts > 0 && !f->class_names)
        return cst_fail(f->context, CST_ERROR_MISMATCH,
                        "%s: column '%.60s' holds names of classes, but the classes have no names; "
                        "give them with --class-names",
                        f->sample, cst_strings_at(f->names, column));
    f->fill[column] = LABEL;
    say(f, "column '%.100s': the most probable class", cst_strings_at(f->names, column));
    if (!f->named_labels)
        say(f, "%s", ", by number from 0");
    return CST_OK;
}

/* One column for all classes. */
static cst_status choose_one(form *f, int32_t column) {
    const facts *seen = &f->facts[column];
    const char *name = cst_strings_at(f->names, column);
    int32_t c = f->class_names ? find_class(f, name, strlen(name), true) : NO_CLASS;
    if (f->values) {
        c = find_class(f, name, strlen(name), false);
        if (c < 0 && f->classes > 1)
            return fail_column(f, name);
        f->fill[column] = c < 0 ? 0 : c;
        say(f, "column '%.100s': the predicted value", name);
        return CST_OK;
    }
    bool labels = seen->texts > 0 || (seen->fractions == 0 && f->classes > 2) ||
                  (seen->fractions == 0 && seen->zero && seen->one);
    if (c < 0 && labels)
        return choose_label(f, column);
    if (c < 0 && f->classes > 2)
        return fail_column(f, name);
    f->fill[column] = c < 0 ? 1 : c;
    say(f, "column '%.100s': ", name);
    say(f, "probability of class '%.100s'", cst_strings_at(f->called, f->fill[column]));
    return CST_OK;
}

static cst_status choose(form *f) {
    int32_t wanted = -1;
    int32_t count = 0;
    for (int32_t j = 0; j < f->columns; j++) {
        bool named = f->column && strcmp(f->column, cst_strings_at(f->names, j)) == 0;
        f->fill[j] = j == f->id ? OF_ID : f->column && !named ? COPIED : NO_CLASS;
        if (f->fill[j] == NO_CLASS) {
            wanted = j;
            count++;
        }
    }
    if (count == 0) {
        char columns[CST_LISTED_CHARS];
        cst_column_list(f->names, columns);
        return f->column ? cst_fail(f->context, CST_ERROR_ARGUMENT,
                                    "%s has no column '%.60s' to fill; its columns are %s",
                                    f->sample, f->column, columns)
                         : cst_fail(f->context, CST_ERROR_INPUT,
                                    "%s has no column besides the ids; its columns are %s",
                                    f->sample, columns);
    }
    return count == 1 ? choose_one(f, wanted) : match_columns(f);
}

/* ---- writing ---- */

static int32_t most_probable(const float *row, int32_t classes) {
    int32_t best = 0;
    for (int32_t c = 1; c < classes; c++)
        if (row[c] > row[best])
            best = c;
    return best;
}

static cst_status put_label(form *f, cst_output_file *output, const float *row) {
    int32_t c = most_probable(row, f->classes);
    char number[16];
    (void)cst_snprintf(number, sizeof number, "%d", (int)c);
    return cst_csv_put_cell(f->context, output, "", f->named_labels ? f->class_names[c] : number);
}

/* A cell of the sample, byte for byte; in quotes where it has a comma that was no delimiter. */
static cst_status put_copy(form *f, cst_output_file *output, const char *cell) {
    bool quoted = cell[strspn(cell, " \t")] == '"';
    if (quoted || f->csv->delimiter == ',' || !strchr(cell, ','))
        return cst_csv_put_text(f->context, output, cell);
    return cst_csv_put_cell(f->context, output, "", cell);
}

static cst_status put_rows(form *f, cst_output_file *output) {
    cst_context *context = f->context;
    bool end = false;
    CST_TRY(cst_csv_rewind(context, f->csv));
    f->csv->raw = true;
    for (int64_t i = -1; i < f->sample_rows; i++) {
        CST_TRY(cst_csv_next(context, f->csv, &end));
        if (end)
            return cst_fail(context, CST_ERROR_IO, "%s has become shorter", f->sample);
        const float *row = i < 0 ? NULL : f->predictions + f->places[i] * f->classes;
        for (int32_t j = 0; j < f->columns; j++) {
            CST_TRY(cst_csv_put_text(context, output, j ? "," : ""));
            CST_TRY(i < 0 || f->fill[j] == OF_ID || f->fill[j] == COPIED
                        ? put_copy(f, output, cst_csv_cell(f->csv, j))
                    : f->fill[j] == LABEL ? put_label(f, output, row)
                                          : cst_csv_put_number(context, output, row[f->fill[j]]));
        }
        CST_TRY(cst_csv_put_text(context, output, "\n"));
    }
    return CST_OK;
}

static cst_status write_form(form *f, const char *path) {
    cst_output_file *output = NULL;
    CST_TRY(read_sample(f));
    CST_TRY(choose(f));
    CST_TRY(f->said.status);
    CST_TRY(cst_output_open(f->context, &output, path));
    cst_status status = put_rows(f, output);
    return cst_output_end(f->context, output, status);
}

cst_status cst_write_predictions_like(cst_context *context, const char *path, const char *sample,
                                      const char *column, int values, const float *predictions,
                                      int64_t rows, int64_t classes_given, const char *const *ids,
                                      const char *const *class_names, char **said) {
    CST_CLEAR(said);
    CST_ENTER(context);
    CST_COUNT(context, classes, classes_given);
    CST_FITS(context, rows, classes, sizeof(*predictions));
    if (!path || !sample || (!predictions && rows > 0) || rows < 0 || classes < 1)
        return cst_fail(context, CST_ERROR_ARGUMENT,
                        "cst_write_predictions_like: path, sample, data and shape are required");
    CST_TRY(cst_csv_check_texts(context, "cst_write_predictions_like", ids, rows, class_names,
                                classes));
    CST_SCOPE(scope);
    form f = {.context = context,
              .scope = scope,
              .sample = sample,
              .column = column,
              .values = values != 0,
              .predictions = predictions,
              .rows = rows,
              .classes = classes,
              .ids = ids,
              .class_names = class_names,
              .said = {.context = context}};
    cst_status status = write_form(&f, path);
    if (status == CST_OK && said)
        *said = f.said.bytes;
    else
        cst_free(context, f.said.bytes);
    return cst_why(context, status);
}
