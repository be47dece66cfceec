/* The first rows of a table: whether there is a header, what the names say and what the columns
 * hold. Under the choice of columns. */
#include "data/readers/sheet.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* How much is looked at: enough to tell ids from values, little compared with reading a file. */
enum { ROWS_MAX = 256, CELLS_MAX = 1 << 14, BYTES_MAX = 1 << 20 };

const char *cst_sheet_cell(const cst_sheet *sheet, int64_t row, int32_t column) {
    return cst_strings_at(sheet->cells, sheet->skipped + row * sheet->columns + column);
}

const char *cst_sheet_name(const cst_sheet *sheet, int32_t column) {
    return sheet->names ? cst_strings_at(sheet->names, column) : "";
}

/* ---- the header ---- */

static bool is_wanted(const char *name, const char *const *wanted) {
    for (; wanted && *wanted; wanted++)
        if (cst_column_same(name, *wanted))
            return true;
    return false;
}

/* Whether row 0 from `from` on has the numbers of classes, each once in any order, over rows that
 * are no integers. */
static bool numbers_classes(const cst_sheet *s, int32_t from) {
    enum { MOST = 64 };
    bool taken[MOST + 1] = {false};
    bool fraction = false;
    int32_t count = s->columns - from;
    if (count < 3 || count > MOST || s->rows < 2)
        return false;
    for (int32_t i = from; i < s->columns; i++) {
        const char *cell = cst_sheet_cell(s, 0, i);
        size_t digits = strspn(cell, "0123456789");
        long number = digits > 0 && digits < 4 && !cell[digits] ? strtol(cell, NULL, 10) : -1;
        if (number < 0 || number > count || taken[number])
            return false;
        taken[number] = true;
        const char *below = cst_sheet_cell(s, 1, i);
        fraction = fraction || (cst_csv_is_number(below) && strchr(below, '.'));
    }
    return fraction && !(taken[0] && taken[count]);
}

/* Whether the cells of row 0 from `from` on are the column numbers 0, 1, 2, ... (at least three),
 * as a data frame without column names writes them. */
static bool counts_columns(const cst_sheet *s, int32_t from) {
    if (s->columns - from < 3)
        return false;
    if (numbers_classes(s, from))
        return true;
    for (int32_t i = from; i < s->columns; i++) {
        char number[24];
        (void)cst_snprintf(number, sizeof number, "%d", (int)(i - from));
        if (strcmp(cst_sheet_cell(s, 0, i), number) != 0)
            return false;
    }
    return true;
}

static bool is_number_at(const cst_sheet *s, int64_t row, int32_t column) {
    return cst_csv_is_number(cst_sheet_cell(s, row, column));
}

/* Whether row 0 has text where row 1 has a number. */
static bool turns_numeric(const cst_sheet *s) {
    for (int32_t i = 0; s->rows > 1 && i < s->columns; i++)
        if (!is_number_at(s, 0, i) && *cst_sheet_cell(s, 0, i) && is_number_at(s, 1, i))
            return true;
    return false;
}

/* How many cells of a column are as that of `row`. */
static int64_t occurrences(const cst_sheet *s, int64_t row, int32_t column) {
    int64_t same = 0;
    for (int64_t other = 0; other < s->rows; other++)
        same += strcmp(cst_sheet_cell(s, row, column), cst_sheet_cell(s, other, column)) == 0;
    return same;
}

/* Whether row 0 names a column of texts: it says what a column is for ("true", "y" and "p" may be
 * labels as well), or is the only one of its kind over classes that occur several times. */
static bool is_name(const cst_sheet *s, int32_t column) {
    enum { ENOUGH = 8 };
    const char *name = cst_sheet_cell(s, 0, column);
    int64_t single = 0;
    if (s->rows < 2 || occurrences(s, 0, column) > 1)
        return false;
    if (*name && cst_column_hint_of(name) != CST_COLUMN_UNKNOWN && !cst_column_same(name, "true") &&
        !cst_column_same(name, "y") && !cst_column_same(name, "p"))
        return true;
    for (int64_t row = 0; row < s->rows; row++)
        single += occurrences(s, row, column) == 1;
    return s->rows >= ENOUGH && !is_number_at(s, 0, column) && single <= 1 + s->rows / 16;
}

/* Whether row 0 is a header, of a table of which it is the first row so far. */
static bool has_header(const cst_sheet *s, const char *const *wanted, bool numeric) {
    int32_t texts = 0;
    for (int32_t i = 0; i < s->columns; i++) {
        const char *name = cst_sheet_cell(s, 0, i);
        if (cst_column_hint_of(name) == CST_COLUMN_ID || is_wanted(name, wanted))
            return true;
        texts += *name && !cst_csv_is_number(name);
    }
    if (s->columns > 1 && *cst_sheet_cell(s, 0, 0) == '\0')
        return true; /* the nameless index column of a data frame */
    if (turns_numeric(s))
        return true;
    if (!numeric) {
        for (int32_t i = 0; i < s->columns; i++)
            if (is_name(s, i))
                return true;
        return false;
    }
    if (texts == 0)
        return counts_columns(s, 0);
    bool first = texts == 1 && !is_number_at(s, 0, 0); /* an id and its numbers? */
    if (first && s->columns > 1)
        return counts_columns(s, 1);
    return s->rows < 2 || texts == s->columns; /* numbers next to text in both rows are data */
}

/* ---- reading ---- */

static cst_status keep_record(cst_context *context, cst_sheet *s, cst_strings *cells,
                              const cst_csv *csv) {
    for (int32_t i = 0; i < s->columns; i++)
        CST_TRY(cst_strings_put(context, cells, cst_csv_cell(csv, i)));
    s->rows++;
    return CST_OK;
}

/* The header's names, less the mark of a comment that some writers begin the line with. */
static cst_status take_names(cst_context *context, cst_scope *scope, cst_sheet *s) {
    CST_TRY(cst_strings_take(context, scope, &s->names));
    for (int32_t i = 0; i < s->columns; i++) {
        const char *name = cst_sheet_cell(s, 0, i);
        if (i == 0 && name[0] == '#' && name[1])
            name += 1 + strspn(name + 1, " ");
        CST_TRY(cst_strings_put(context, s->names, name));
    }
    s->skipped = s->columns;
    s->rows--;
    return CST_OK;
}

/* No name twice: which column is meant would be a guess. Columns may be nameless. */
static cst_status check_names(cst_context *context, const cst_strings *names, const char *path) {
    cst_strings *named;
    cst_id_index *index;
    int64_t twice[2];
    char quoted[CST_QUOTE_CHARS];
    CST_SCOPE(scope);
    CST_TRY(cst_strings_take(context, scope, &named));
    for (int64_t i = 0; i < names->count; i++)
        if (*cst_strings_at(names, i))
            CST_TRY(cst_strings_put(context, named, cst_strings_at(names, i)));
    CST_TRY(cst_id_index_build(context, scope, &index, named, path, twice));
    return twice[0] < 0 ? CST_OK
                        : cst_fail(context, CST_ERROR_INPUT,
                                   "%s: line 1: two columns are called '%s'; rename or remove one",
                                   path, cst_quote(quoted, cst_strings_at(named, twice[0])));
}

static cst_sheet_column look(const cst_sheet *sheet, int32_t column) {
    cst_sheet_column c = {.whole = true, .counts = true};
    double before = 0;
    int64_t outside = 0;
    if (sheet->names)
        c.hint = cst_column_hint_of(cst_sheet_name(sheet, column));
    for (int64_t row = 0; row < sheet->rows; row++) {
        const char *cell = cst_sheet_cell(sheet, row, column);
        bool number = cst_csv_is_number(cell);
        double value = number ? cst_strtod(cell, NULL) : NAN;
        bool missing = cst_csv_is_missing(cell);
        c.empty += missing;
        c.numbers += number;
        if (missing)
            continue;
        c.texts += !number;
        c.odd_numbers += !number && cst_csv_is_odd_number(cell);
        c.whole = c.whole && value == floor(value) && fabs(value) < 0x1p53;
        c.counts = c.counts && number && (row == 0 || value == before + 1);
        outside += !isnan(value) && !(value >= -1e-6 && value <= 1 + 1e-6);
        before = value;
    }
    c.unit = c.texts == 0 && 20 * outside <= sheet->rows;
    return c;
}

cst_status cst_sheet_read(cst_context *context, cst_scope *scope, cst_sheet *out, cst_csv *csv,
                          const char *const *wanted, bool numeric) {
    bool end = false;
    bool enough = false;
    cst_strings *cells;
    *out = (cst_sheet){0};
    CST_TRY(cst_strings_take(context, scope, &cells));
    CST_TRY(cst_csv_next(context, csv, &end));
    if (end)
        return cst_fail(context, CST_ERROR_INPUT, "%s: line 1: the file has no data",
                        cst_csv_name(csv));
    out->columns = csv->cell_count;
    out->cells = cells;
    while (!end && !enough) {
        CST_TRY(keep_record(context, out, cells, csv));
        enough = out->rows >= 2 &&
                 (out->rows > ROWS_MAX || cells->count > CELLS_MAX || cells->used > BYTES_MAX);
        if (!enough)
            CST_TRY(cst_csv_next(context, csv, &end));
    }
    out->header = has_header(out, wanted, numeric);
    if (out->header) {
        CST_TRY(take_names(context, scope, out));
        CST_TRY(check_names(context, out->names, cst_csv_name(csv)));
    }
    CST_NEW(context, scope, cst_sheet_column, of, out->columns);
    for (int32_t j = 0; j < out->columns; j++)
        of[j] = look(out, j);
    out->of = of;
    return CST_OK;
}

/* ---- what the columns hold ---- */

bool cst_sheet_distinct(const cst_sheet *sheet, int32_t column) {
    for (int64_t row = 0; row < sheet->rows; row++)
        for (int64_t other = 0; other < row; other++)
            if (strcmp(cst_sheet_cell(sheet, row, column), cst_sheet_cell(sheet, other, column)) ==
                0)
                return false;
    return true;
}

bool cst_sheet_sums_to_one(const cst_sheet *sheet, const int32_t *columns, int32_t count) {
    int64_t complete = 0;
    int64_t wrong = 0;
    for (int64_t row = 0; row < sheet->rows; row++) {
        double sum = 0;
        bool finite = true;
        bool inside = true;
        for (int32_t j = 0; j < count; j++) {
            const char *cell = cst_sheet_cell(sheet, row, columns[j]);
            double value = cst_csv_is_number(cell) ? cst_strtod(cell, NULL) : NAN;
            finite = finite && isfinite(value);
            inside = inside && value >= -1e-6 && value <= 1 + 1e-6;
            sum += value;
        }
        wrong += finite && (!inside || fabs(sum - 1) > 1e-2);
        complete += finite;
    }
    return complete > 0 && count > 0 && 20 * wrong <= complete;
}

bool cst_sheet_may_be_ids(const cst_sheet *sheet, int32_t column) {
    const cst_sheet_column *c = &sheet->of[column];
    return c->empty == 0 && (c->whole || c->texts > 0) && cst_sheet_distinct(sheet, column);
}

bool cst_sheet_blank(const cst_sheet *sheet, int32_t column) {
    return !*cst_sheet_name(sheet, column) && sheet->rows > 0 &&
           sheet->of[column].empty == sheet->rows;
}

/* ---- finding columns ---- */

int32_t cst_sheet_find(const cst_sheet *sheet, const char *key) {
    for (int32_t j = 0; sheet->names && j < sheet->columns; j++)
        if (strcmp(cst_strings_at(sheet->names, j), key) == 0)
            return j;
    for (int32_t j = 0; sheet->names && *key && j < sheet->columns; j++)
        if (cst_column_same(cst_strings_at(sheet->names, j), key))
            return j;
    size_t digits = strspn(key, "0123456789");
    long number = digits > 0 && digits < 9 && !key[digits] ? strtol(key, NULL, 10) : 0;
    return number >= 1 && number <= sheet->columns ? (int32_t)number - 1 : -1;
}

int32_t cst_sheet_ids(const cst_sheet *sheet) {
    static const cst_column_hint order[] = {CST_COLUMN_ID, CST_COLUMN_ID_LIKELY,
                                            CST_COLUMN_ID_TEXT};
    for (size_t k = 0; sheet->names && k < sizeof order / sizeof *order; k++)
        for (int32_t j = 0; j < sheet->columns; j++)
            if (sheet->of[j].hint == order[k] &&
                (k == 0 || (cst_sheet_may_be_ids(sheet, j) && (k == 1 || sheet->of[j].texts > 0))))
                return j;
    if (sheet->names && sheet->columns > 1 && sheet->of[0].hint == CST_COLUMN_INDEX)
        return 0;
    return -1;
}

const char *cst_sheet_column_name(const cst_sheet *sheet, int32_t column,
                                  char buffer[CST_COLUMN_CHARS]) {
    char quoted[CST_QUOTE_CHARS];
    const char *name = cst_sheet_name(sheet, column);
    if (*name)
        (void)cst_snprintf(buffer, CST_COLUMN_CHARS, "column '%s'", cst_quote(quoted, name));
    else
        (void)cst_snprintf(buffer, CST_COLUMN_CHARS, "column %d", (int)column + 1);
    return buffer;
}

const char *cst_sheet_list(const cst_sheet *sheet, char buffer[CST_LISTED_CHARS]) {
    if (sheet->names)
        return cst_column_list(sheet->names, buffer);
    (void)cst_snprintf(buffer, CST_LISTED_CHARS, "columns 1 to %d, without a header",
                       (int)sheet->columns);
    return buffer;
}
