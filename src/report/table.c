/* Tables, column by column, and their writer. See the header. */
#include "report/table.h"

#include <math.h>
#include <string.h>

enum { TEXT_COLUMNS = 32 };

/* ---- columns ---- */

void cst_table_add_one(cst_table *table, cst_column column) {
    if (table->count < (table->dialect ? CST_TABLE_COLUMNS : TEXT_COLUMNS))
        table->columns[table->count++] = column;
}

void cst_table_add(cst_table *table, const cst_column *columns) {
    for (; columns->header; columns++)
        cst_table_add_one(table, *columns);
}

/* One decimal fewer than the score has, unless ends of a narrow interval would meet. */
static int short_decimals(const json_t *rows, const cst_score_spec *score) {
    double step = pow(10, 1 - score->decimals);
    for (size_t i = 0; i < json_array_size(rows); i++) {
        cst_ends ends = cst_score_interval(json_array_get(rows, i), score);
        if (ends.high - ends.low < 2 * step)
            return score->decimals;
    }
    return score->decimals - 1;
}

static bool has_error(const json_t *rows, const char *object, const cst_score_spec *score) {
    for (size_t i = 0; i < json_array_size(rows); i++)
        if (!isnan(cst_score_error(json_array_get(rows, i), object, score)))
            return true;
    return false;
}

/* spare: the interval may be left out. */
static void add_score(cst_table *table, const cst_score_spec *score, cst_column_kind value,
                      cst_column_kind interval, char align, bool spare) {
    const char *object = value == CST_COLUMN_DIFFERENCE ? "difference" : NULL;
    bool error = has_error(table->rows, object, score);
    cst_column column = {.header = score->label,
                         .kind = value,
                         .decimals = score->decimals,
                         .score = score,
                         .spare = spare && !score->in_summary,
                         .places = {NAN, NAN}};
    if (value == CST_COLUMN_SCORE)
        column.places = cst_score_places(table->rows, score);
    cst_table_add_one(table, column);
    if (interval == CST_COLUMN_NUMBER && !error)
        return;
    column.header = "";
    column.kind = error ? CST_COLUMN_ERROR : interval;
    column.align = error ? 'i' : align;
    column.object = object;
    column.spare = spare;
    if (column.kind == CST_COLUMN_SHORT)
        column.decimals = short_decimals(table->rows, score);
    cst_table_add_one(table, column);
}

void cst_table_add_scores(cst_table *table, cst_column_kind value, cst_column_kind interval,
                          char align) {
    int32_t count = 0;
    const cst_score_spec *scores = cst_scores_of(table->root, CST_SCORES_OF_TASK, &count);
    for (int32_t s = 0; s < count; s++) {
        bool spread = value == CST_COLUMN_MEAN;
        bool room = spread || scores[s].interval_in_table;
        bool summarised = scores[s].in_summary || has_error(table->rows, NULL, &scores[s]);
        bool spare = s > 0 && !cst_json_is(table->root, "ranked_by", scores[s].key);
        bool shown = scores[s].in_table && cst_json_has_column(table->rows, scores[s].key);
        if (spread ? summarised : shown)
            add_score(table, &scores[s], value, room ? interval : CST_COLUMN_NUMBER, align, spare);
    }
}

void cst_table_add_costs(cst_table *table, bool kappa) {
    int models = cst_models_decimals(table->rows);
    bool full = table->page->full;
    kappa = kappa && full;
    const cst_column columns[] = CST_COLUMNS(
        CST_NUMBER("models", "K", models), CST_NUMBER(kappa ? "kappa_gram" : "", "kappa Gram", 1),
        CST_NUMBER(kappa ? "kappa_cka" : "", "CKA", 1), CST_NUMBER("flops_rel", "FLOPs", 3),
        CST_NUMBER(full ? "seconds" : "", "s", 2));
    cst_table_add(table, columns);
}

int cst_table_add_group(cst_table *table, cst_score_group group) {
    int32_t count = 0;
    int added = 0;
    const cst_score_spec *scores = cst_scores_of(table->root, group, &count);
    for (int32_t s = 0; s < count; s++) {
        bool any = !isnan(cst_score_value(table->rows, &scores[s]));
        for (size_t i = 0; i < json_array_size(table->rows); i++)
            any = any || !isnan(cst_score_value(json_array_get(table->rows, i), &scores[s]));
        if (!any || (group == CST_SCORES_OF_TASK && scores[s].in_table))
            continue;
        add_score(table, &scores[s], CST_COLUMN_SCORE,
                  scores[s].interval_in_table ? CST_COLUMN_BRACKETS : CST_COLUMN_NUMBER, 'i',
                  false);
        added++;
    }
    return added;
}

/* ---- cells ---- */

static void add_cell(cst_table *table, cst_cell_kind kind, cst_style style, char *text) {
    cst_page *page = table->page;
    if (text && table->cell_count == table->size) {
        size_t size = table->size * 2 + 64;
        cst_cell *grown = cst_take(page->text.context, &table->scope, size, sizeof *grown);
        if (grown && table->cell_count)
            memcpy(grown, table->cells, table->cell_count * sizeof *grown);
        table->cells = grown;
        table->size = grown ? size : 0;
    }
    if (!text || !table->cells) {
        page->text.status = CST_ERROR_MEMORY;
        return;
    }
    cst_make_printable(text, table->dialect ? '\n' : ' ');
    table->cells[table->cell_count++] = (cst_cell){.text = text, .kind = kind, .style = style};
}

static void add_args(cst_table *table, cst_cell_kind kind, cst_style style, const char *format,
                     va_list args) {
    if (table->page->text.status == CST_OK)
        add_cell(table, kind, style, cst_page_format(table->page, &table->scope, format, args));
}

void cst_table_cell(cst_table *table, cst_style style, const char *format, ...) {
    va_list args;
    va_start(args, format);
    add_args(table, CST_CELL_TEXT, style, format, args);
    va_end(args);
}

void cst_table_value(cst_table *table, const char *format, ...) {
    va_list args;
    va_start(args, format);
    add_args(table, CST_CELL_NUMBER, CST_PLAIN, format, args);
    va_end(args);
}

/* Marks the last cell as a number, or as a missing one. */
static void be_number(cst_table *table, bool missing) {
    if (table->page->text.status == CST_OK)
        table->cells[table->cell_count - 1].kind = missing ? CST_CELL_MISSING : CST_CELL_NUMBER;
}

void cst_table_number(cst_table *table, cst_style style, int decimals, double value) {
    if (isnan(value))
        cst_table_cell(table, style, "-");
    else if (!table->dialect && fabs(value) >= 1e6)
        cst_table_cell(table, style, "%.3e", value);
    else
        cst_table_cell(table, style, "%.*f", decimals, value);
    be_number(table, isnan(value));
}

void cst_table_tail(cst_table *table, const char *format, ...) {
    if (table->page->text.status != CST_OK)
        return;
    cst_cell *cell = &table->cells[table->cell_count - 1];
    va_list args;
    va_start(args, format);
    cell->tail = cst_page_format(table->page, &table->scope, format, args);
    va_end(args);
}

void cst_table_p(cst_table *table, double p) {
    const char *mark = p < CST_SIGNIFICANT && !table->dialect ? "*" : "";
    if (isnan(p))
        cst_table_cell(table, CST_PLAIN, "%s", table->dialect ? "" : "-");
    else if (p < 0.001)
        cst_table_cell(table, CST_PLAIN, "<0.001%s", mark);
    else
        cst_table_cell(table, CST_PLAIN, "%.3f%s", p, mark);
    be_number(table, isnan(p));
}

void cst_table_quantity(cst_table *table, cst_style style, double value) {
    static const char prefixes[] = " kMGTPE";
    size_t step = 0;
    for (; fabs(value) >= 999.5 && prefixes[step + 1]; step++)
        value /= 1000;
    if (isnan(value))
        cst_table_cell(table, style, "-");
    else if (step == 0)
        cst_table_cell(table, style, "%.4g", value);
    else
        cst_table_cell(table, style, "%.3g%c", value, prefixes[step]);
}

void cst_table_filled(cst_table *table, cst_style style, const json_t *row, const char *text) {
    cst_page part = {.text = {.context = table->page->text.context}};
    cst_page_fill(&part, row, text);
    cst_table_cell(table, style, "%s", part.text.used ? part.text.bytes : "");
    if (part.text.status != CST_OK)
        table->page->text.status = part.text.status;
    cst_free(part.text.context, part.text.bytes);
}

double cst_column_number(const json_t *row, const cst_column *column) {
    const json_t *at = cst_json_at(row, column->object);
    double value = column->key          ? cst_json_number(at, column->key)
                   : json_is_number(at) ? json_number_value(at)
                                        : NAN;
    return column->scale > 0 ? column->scale * value : value;
}

/* "0.123" as ".123". */
static const char *without_zero(const char *number) {
    return number[0] == '0' && number[1] == '.' ? number + 1 : number;
}

static void interval_cell(cst_table *table, const json_t *row, const cst_column *column) {
    bool excludes = column->kind == CST_COLUMN_EXCLUDES;
    cst_ends ends =
        cst_score_interval(excludes ? json_object_get(row, "difference") : row, column->score);
    char text[2][64];
    (void)cst_snprintf(text[0], sizeof text[0], "%.*f", column->decimals, ends.low);
    (void)cst_snprintf(text[1], sizeof text[1], "%.*f", column->decimals, ends.high);
    if (isnan(ends.low))
        cst_table_cell(table, CST_DIM, "%s", "");
    else if (column->kind == CST_COLUMN_SHORT)
        cst_table_cell(table, CST_DIM, "%s-%s", without_zero(text[0]), without_zero(text[1]));
    else
        cst_table_cell(table, CST_DIM, "[%s, %s]%s", text[0], text[1],
                       excludes && (ends.low > 0 || ends.high < 0) ? "*" : "");
}

static void error_cell(cst_table *table, int decimals, const char *what, double error) {
    if (isnan(error))
        cst_table_cell(table, CST_DIM, "%s", "");
    else
        cst_table_cell(table, CST_DIM, "%s %.*f", what, decimals, error);
}

/* outer: the row that holds the list, at its first entry; else NULL. */
static void add_row_cell(cst_table *table, const json_t *row, const json_t *outer,
                         const cst_column *column) {
    cst_style style = column->style ? column->style : table->style;
    const char *text = column->key ? cst_json_string(row, column->key) : NULL;
    double number = cst_column_number(row, column);
    double score = column->score ? cst_score_value(row, column->score) : NAN;
    switch (column->kind) {
    case CST_COLUMN_NUMBER:
        cst_table_number(table, style, column->decimals, number);
        break;
    case CST_COLUMN_TEXT:
        cst_table_cell(table, style, "%s", text ? text : "-");
        break;
    case CST_COLUMN_NOTE:
        cst_table_cell(table, CST_DIM, "%s", text ? text : "");
        break;
    case CST_COLUMN_FILLED:
        cst_table_filled(table, style, row, column->key);
        break;
    case CST_COLUMN_NAME:
        if (cst_json_string(row, "name"))
            cst_table_cell(table, style, "%s", cst_json_string(row, "name"));
        else
            cst_table_cell(table, style, "%.0f", number);
        break;
    case CST_COLUMN_PLACE:
        cst_table_cell(table, CST_DIM, "%zu", table->place + 1);
        break;
    case CST_COLUMN_OUTER:
        cst_table_cell(table, style, "%s", outer ? cst_json_text(outer, column->key) : "");
        break;
    case CST_COLUMN_QUANTITY:
        cst_table_quantity(table, style, number);
        break;
    case CST_COLUMN_GENERAL:
        cst_table_cell(table, style, isnan(number) ? "-" : "%g", number);
        break;
    case CST_COLUMN_SIGNED:
        cst_table_cell(table, style, isnan(number) ? "-" : "%+.*f", column->decimals, number);
        break;
    case CST_COLUMN_P:
        cst_table_p(table, column->key
                               ? number
                               : cst_score_adjusted_p(table->root, cst_json_string(row, "method")));
        break;
    case CST_COLUMN_CODE:
        column->code(table, row);
        break;
    case CST_COLUMN_SCORE:
    case CST_COLUMN_VALUE:
        cst_table_number(table, cst_score_style(&column->places, column->score, score),
                         /* NOLINTNEXTLINE(clang-analyzer-core.NullDereference) */
                         column->decimals, column->score->scale * score);
        break;
    case CST_COLUMN_SHORT:
    case CST_COLUMN_BRACKETS:
    case CST_COLUMN_EXCLUDES:
        interval_cell(table, row, column);
        break;
    case CST_COLUMN_ERROR:
        error_cell(table, column->decimals, "se",
                   column->score ? cst_score_error(row, column->object, column->score) : number);
        break;
    case CST_COLUMN_DIFFERENCE:
        /* NOLINTNEXTLINE(clang-analyzer-core.NullDereference) */
        number = cst_json_number(json_object_get(row, "difference"), column->score->key);
        cst_table_cell(table, CST_PLAIN, isnan(number) ? "-" : "%+.*f", column->decimals,
                       column->score->scale * number);
        break;
    case CST_COLUMN_MEAN:
        cst_table_number(table, CST_PLAIN, column->decimals,
                         cst_score_spread(row, column->score, "mean"));
        break;
    case CST_COLUMN_SD:
        error_cell(table, column->decimals, "sd", cst_score_spread(row, column->score, "sd"));
        break;
    }
}

static void add_row(cst_table *table, const json_t *row, const json_t *outer, size_t place) {
    table->place = place;
    if (table->shows && !table->shows(table, row))
        return;
    if (table->mark)
        table->style = cst_json_flag(row, table->mark) ? CST_BOLD : table->other;
    for (int c = 0; c < table->count; c++)
        add_row_cell(table, row, outer, &table->columns[c]);
}

/* ---- writing ---- */

static int display_width(const char *text) {
    int width = 0;
    for (; *text; text++)
        width += ((unsigned char)*text & 0xC0) != 0x80;
    return width;
}

static const cst_cell *cell_at(const cst_table *table, size_t row, int column) {
    return &table->cells[row * (size_t)table->count + (size_t)column];
}

/* Width of a column; -1 for one without content. */
static int width_of(const cst_table *table, size_t rows, int column) {
    int widest = display_width(table->columns[column].header);
    bool content = false;
    for (size_t row = 0; row < rows; row++) {
        const char *text = cell_at(table, row, column)->text;
        int width = display_width(text);
        widest = width > widest ? width : widest;
        content |= *text && strcmp(text, "-") != 0;
    }
    return content ? widest : -1;
}

static char align_of(const cst_column *column) {
    bool left = column->kind >= CST_COLUMN_TEXT && column->kind <= CST_COLUMN_OUTER;
    return column->align ? column->align : left ? 'l' : 'r';
}

static bool is_close(const cst_column *column) {
    return align_of(column) == 'i' || align_of(column) == 'n';
}

/* Columns of the page that a column takes; 0 for one that is left out. */
static int room_of(const cst_table *table, const int *widths, int column) {
    return widths[column] < 0 ? 0 : 2 + widths[column] - is_close(&table->columns[column]);
}

static int room_of_all(const cst_table *table, const int *widths) {
    int room = 0;
    for (int c = 0; c < table->count; c++)
        room += room_of(table, widths, c);
    return room;
}

/* Of intervals only the asterisk stays. */
static void keep_marks(const cst_table *table, size_t rows, int column) {
    for (size_t row = 0; row < rows; row++) {
        cst_cell *cell = &table->cells[row * (size_t)table->count + (size_t)column];
        size_t length = strlen(cell->text);
        cell->text += length && cell->text[length - 1] == '*' ? length - 1 : length;
    }
}

/* Leaves out spare columns, the last first, as long as the table is wider than the page. Returns
 * whether it did. */
static bool leave_out(const cst_table *table, size_t rows, int *widths) {
    bool any = false;
    for (int c = table->count - 1; c >= 0 && !table->page->full; c--) {
        if (!table->columns[c].spare || widths[c] < 0 ||
            room_of_all(table, widths) <= cst_page_width(table->page))
            continue;
        any = true;
        widths[c] = -1;
        if (c + 1 < table->count && align_of(&table->columns[c + 1]) == 'i')
            widths[c + 1] = -1;
        if (table->columns[c].kind == CST_COLUMN_EXCLUDES) {
            keep_marks(table, rows, c);
            widths[c] = width_of(table, rows, c);
        }
    }
    return any;
}

static void write_aligned(const cst_table *table, const int *widths, size_t row, bool header) {
    cst_page *page = table->page;
    int owed = 2; /* spaces not yet written, so that no line ends in one */
    for (int c = 0; c < table->count; c++) {
        if (widths[c] < 0)
            continue;
        const cst_column *column = &table->columns[c];
        const cst_cell *cell = header ? NULL : cell_at(table, row, c);
        const char *text = header ? column->header : cell->text;
        char align = align_of(column);
        int slack = widths[c] - display_width(text);
        bool right = align == 'r' || align == 'n';
        owed += right ? slack : 0;
        owed -= is_close(column);
        if (*text) {
            cst_page_print(page, "%*s", owed, "");
            cst_page_styled(page, header ? CST_DIM : cell->style, "%s", text);
            owed = 0;
        }
        owed += 2 + (right ? 0 : slack);
    }
    cst_page_print(page, "\n");
}

/* The column after those that fit beside the leading ones, with intervals beside their values. */
static int end_of_part(const cst_table *table, const int *widths, int first, int room) {
    int end = first;
    while (end < table->count) {
        int next = end;
        int wanted = 0;
        do
            wanted += room_of(table, widths, next++);
        while (next < table->count && align_of(&table->columns[next]) == 'i');
        if (wanted > room && end > first)
            break;
        room -= wanted;
        end = next;
    }
    return end;
}

static int leading(const cst_table *table) {
    int count = 0;
    while (!table->leading && count < table->count && align_of(&table->columns[count++]) != 'l') {
    }
    return table->leading ? table->leading : count;
}

/* As text, in parts below one another where it is wider than the page. */
static void write_text(const cst_table *table, size_t rows) {
    int widths[TEXT_COLUMNS];
    int shown[TEXT_COLUMNS];
    for (int c = 0; c < table->count; c++)
        shown[c] = widths[c] = width_of(table, rows, c);
    bool left = leave_out(table, rows, widths);
    int lead = leading(table);
    int room = cst_page_width(table->page);
    for (int c = 0; c < lead; c++)
        room -= room_of(table, widths, c);
    int first = lead;
    do {
        int end = end_of_part(table, widths, first, room);
        for (int c = lead; c < table->count; c++)
            shown[c] = c >= first && c < end ? widths[c] : -1;
        cst_page_print(table->page, "%s", first > lead ? "\n" : "");
        write_aligned(table, shown, 0, true);
        for (size_t row = 0; row < rows; row++)
            write_aligned(table, shown, row, false);
        first = end;
    } while (first < table->count);
    if (left)
        cst_page_print(table->page, "  More columns: --verbose.\n");
}

static void write_row(const cst_table *table, size_t row, bool header) {
    const cst_dialect *d = table->dialect;
    cst_page *page = table->page;
    cst_page_print(page, "%s", d->row);
    for (int c = 0; c < table->count; c++) {
        const cst_cell *cell = header ? NULL : cell_at(table, row, c);
        cst_page_print(page, "%s%s", c ? d->between : "",
                       cell && cell->kind == CST_CELL_MISSING && !*cell->text ? "" : d->before);
        if (header)
            d->header(page, &table->columns[c]);
        /* NOLINTNEXTLINE(clang-analyzer-core.NullDereference) */
        else if (cell->kind == CST_CELL_TEXT)
            d->text(page, cell->text);
        else if (cell->kind == CST_CELL_MISSING)
            cst_page_print(page, "%s", d->missing);
        else
            cst_page_print(page, "%s%s%s%s%s", d->on[cell->style], cell->text,
                           d->tail_inside && cell->tail ? cell->tail : "", d->off[cell->style],
                           !d->tail_inside && cell->tail ? cell->tail : "");
        cst_page_print(page, "%s", d->after);
    }
    cst_page_print(page, "%s", d->end);
}

void cst_table_heads(const cst_table *table) {
    write_row(table, 0, true);
}

void cst_table_end(cst_table *table) {
    size_t rows = table->count ? table->cell_count / (size_t)table->count : 0;
    if (table->page->text.status == CST_OK && !table->dialect && rows > 0)
        write_text(table, rows);
    for (size_t row = 0; table->dialect && table->page->text.status == CST_OK && row < rows; row++)
        write_row(table, row, false);
    cst_scope_free(&table->scope);
    table->cells = NULL;
    table->cell_count = table->size = 0;
}

void cst_table_fill(cst_table *table) {
    bool single = json_is_object(table->rows);
    size_t count = single ? 1 : json_array_size(table->rows);
    size_t end = table->limit && table->limit < count ? table->limit : count;
    for (size_t i = table->first; i < end; i++) {
        const json_t *row = single ? table->rows : json_array_get(table->rows, i);
        const json_t *list = table->nested ? json_object_get(row, table->nested) : NULL;
        for (size_t e = 0; e < json_array_size(list); e++)
            add_row(table, json_array_get(list, e), e == 0 ? row : NULL, e);
        if (!table->nested)
            add_row(table, row, NULL, i);
    }
}

void cst_table_print(cst_table *table) {
    cst_table_fill(table);
    cst_table_end(table);
}
