/*
 * Growing text and aligned tables; reading values out of a document. Used by every text rendering.
 */
#include "report/page.h"

#include <math.h>
#include <string.h>

static const char *const STYLE_ON[] = {"", "\033[1m", "\033[2m", "\033[4m"};
static const char STYLE_OFF[] = "\033[0m";

/* ---- page ---- */

static char *format_text(cst_context *context, const char *format, va_list args) {
    va_list again;
    va_copy(again, args);
    int length = cst_vsnprintf(NULL, 0, format, args);
    char *text = length < 0 ? NULL : cst_alloc(context, (size_t)length + 1, 1);
    if (text)
        (void)cst_vsnprintf(text, (size_t)length + 1, format, again);
    va_end(again);
    return text;
}

static void append_args(cst_page *page, cst_style style, const char *format, va_list args) {
    if (page->text.status != CST_OK)
        return;
    char *text = format_text(page->text.context, format, args);
    if (!text) {
        page->text.status = CST_ERROR_MEMORY;
        return;
    }
    cst_make_printable(text, '\n');
    bool marked = page->color && style != CST_PLAIN;
    if (marked)
        cst_buffer_add_text(&page->text, STYLE_ON[style]);
    cst_buffer_add_text(&page->text, text);
    if (marked)
        cst_buffer_add_text(&page->text, STYLE_OFF);
    cst_free(page->text.context, text);
}

void cst_page_print(cst_page *page, const char *format, ...) {
    va_list args;
    va_start(args, format);
    append_args(page, CST_PLAIN, format, args);
    va_end(args);
}

void cst_page_styled(cst_page *page, cst_style style, const char *format, ...) {
    va_list args;
    va_start(args, format);
    append_args(page, style, format, args);
    va_end(args);
}

static void print_words(cst_page *page, const char *text) {
    int column = 0;
    while (*text) {
        text += strspn(text, " ");
        int length = (int)strcspn(text, " ");
        bool wraps = column > 0 && column + 1 + length > CST_PAGE_WIDTH;
        if (column == 0 || wraps) {
            cst_page_print(page, "%s  %.*s", wraps ? "\n" : "", length, text);
            column = 2 + length;
        } else {
            cst_page_print(page, " %.*s", length, text);
            column += 1 + length;
        }
        text += length;
    }
    cst_page_print(page, "\n");
}

void cst_page_paragraph(cst_page *page, const char *format, ...) {
    va_list args;
    va_start(args, format);
    char *text = format_text(page->text.context, format, args);
    va_end(args);
    if (text)
        print_words(page, text);
    else
        page->text.status = CST_ERROR_MEMORY;
    cst_free(page->text.context, text);
}

void cst_page_numbers(cst_page *page, int digits, const char *text, ...) {
    va_list args;
    va_start(args, text);
    for (const char *at = text; *at;) {
        size_t length = strcspn(at, "#");
        cst_page_print(page, "%.*s", (int)length, at);
        at += length;
        if (*at != '#')
            continue;
        double value = va_arg(args, double);
        cst_page_print(page, isnan(value) ? "-" : "%.*g", digits, value);
        at++;
    }
    va_end(args);
}

void cst_page_heading(cst_page *page, const char *format, ...) {
    cst_buffer_add(&page->text, "\n", page->text.used ? 1 : 0);
    va_list args;
    va_start(args, format);
    append_args(page, CST_BOLD, format, args);
    va_end(args);
    cst_buffer_add(&page->text, "\n", 1);
}

/* ---- table ---- */

void cst_grid_begin(cst_grid *table, cst_page *page, const char *align,
                    const char *const *headers) {
    *table = (cst_grid){.page = page, .align = align, .headers = headers};
    table->columns = (int)strlen(align);
}

static void add_cell(cst_grid *table, cst_style style, char *text) {
    cst_page *page = table->page;
    if (text && table->count == table->size) {
        size_t size = table->size * 2 + 64;
        cst_cell *grown =
            cst_grow(page->text.context, table->cells, table->count, size, sizeof *table->cells);
        if (grown) {
            table->cells = grown;
            table->size = size;
        }
    }
    if (!text || table->count == table->size) {
        cst_free(page->text.context, text);
        page->text.status = CST_ERROR_MEMORY;
        return;
    }
    cst_make_printable(text, ' ');
    table->cells[table->count++] = (cst_cell){.text = text, .style = style};
}

void cst_grid_cell(cst_grid *table, cst_style style, const char *format, ...) {
    if (table->page->text.status != CST_OK)
        return;
    va_list args;
    va_start(args, format);
    char *text = format_text(table->page->text.context, format, args);
    va_end(args);
    add_cell(table, style, text);
}

void cst_grid_number(cst_grid *table, cst_style style, int decimals, double value) {
    if (isnan(value))
        cst_grid_cell(table, style, "-");
    else if (fabs(value) >= 1e6)
        cst_grid_cell(table, style, "%.3e", value);
    else
        cst_grid_cell(table, style, "%.*f", decimals, value);
}

void cst_grid_text(cst_grid *table, cst_style style, const json_t *object, const char *key) {
    cst_grid_cell(table, style, "%s", cst_json_text(object, key));
}

void cst_grid_name(cst_grid *table, const json_t *object, const char *key) {
    const char *name = cst_json_string(object, "name");
    if (name)
        cst_grid_cell(table, CST_PLAIN, "%s", name);
    else
        cst_grid_cell(table, CST_PLAIN, "%.0f", cst_json_number(object, key));
}

void cst_grid_quantity(cst_grid *table, cst_style style, double value) {
    static const char prefixes[] = " kMGTPE";
    size_t step = 0;
    for (; fabs(value) >= 999.5 && prefixes[step + 1]; step++)
        value /= 1000;
    if (isnan(value))
        cst_grid_cell(table, style, "-");
    else if (step == 0)
        cst_grid_cell(table, style, "%.4g", value);
    else
        cst_grid_cell(table, style, "%.3g%c", value, prefixes[step]);
}

/* Columns a UTF-8 string takes, one for each code point. */
static int display_width(const char *text) {
    int width = 0;
    for (; *text; text++)
        width += ((unsigned char)*text & 0xC0) != 0x80;
    return width;
}

static void pad(cst_page *page, int width) {
    static const char spaces[] = "                                ";
    for (; width > 0; width -= 32)
        cst_buffer_add(&page->text, spaces, (size_t)(width < 32 ? width : 32));
}

static void print_row(const cst_grid *table, const int *widths, size_t row, bool header) {
    cst_page *page = table->page;
    int owed = 2; /* spaces not yet written, so that no line ends in one */
    for (int c = 0; c < table->columns; c++) {
        if (widths[c] < 0)
            continue;
        const cst_cell *cell =
            header ? NULL : &table->cells[row * (size_t)table->columns + (size_t)c];
        const char *text = header ? table->headers[c] : cell->text;
        int slack = widths[c] - display_width(text);
        if (table->align[c] == 'r')
            owed += slack;
        if (table->align[c] == 'i')
            owed--;
        if (*text) {
            pad(page, owed);
            cst_page_styled(page, header ? CST_DIM : cell->style, "%s", text);
            owed = 0;
        }
        owed += 2 + (table->align[c] == 'r' ? 0 : slack);
    }
    cst_buffer_add(&page->text, "\n", 1);
}

/* Widths of the columns; -1 for one without content. */
static void column_widths(const cst_grid *table, size_t rows, int *widths) {
    for (int c = 0; c < table->columns; c++) {
        bool content = false;
        widths[c] = display_width(table->headers[c]);
        for (size_t row = 0; row < rows; row++) {
            const char *text = table->cells[row * (size_t)table->columns + (size_t)c].text;
            int width = display_width(text);
            widths[c] = width > widths[c] ? width : widths[c];
            content |= *text && strcmp(text, "-") != 0;
        }
        if (!content)
            widths[c] = -1;
    }
}

void cst_grid_end(cst_grid *table) {
    cst_page *page = table->page;
    size_t rows = table->count / (size_t)table->columns;
    int widths[CST_GRID_COLUMNS];
    if (page->text.status == CST_OK && rows) {
        column_widths(table, rows, widths);
        print_row(table, widths, 0, true);
        for (size_t row = 0; row < rows; row++)
            print_row(table, widths, row, false);
    }
    for (size_t i = 0; i < table->count; i++)
        cst_free(page->text.context, table->cells[i].text);
    cst_free(page->text.context, table->cells);
    table->cells = NULL;
    table->count = 0;
}

/* ---- documents ---- */

static double number_of(const json_t *value) {
    return json_is_number(value) ? json_number_value(value) : NAN;
}

double cst_json_number(const json_t *object, const char *key) {
    return number_of(json_object_get(object, key));
}

bool cst_json_has_column(const json_t *rows, const char *key) {
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *value = json_object_get(json_array_get(rows, i), key);
        const char *text = json_string_value(value);
        if (json_is_number(value) || (text && *text))
            return true;
    }
    return false;
}

const char *cst_json_string(const json_t *object, const char *key) {
    return json_string_value(json_object_get(object, key));
}

const char *cst_json_text(const json_t *object, const char *key) {
    const char *text = cst_json_string(object, key);
    return text ? text : "-";
}

bool cst_json_flag(const json_t *object, const char *key) {
    return json_is_true(json_object_get(object, key));
}

double cst_json_number_at(const json_t *list, size_t index) {
    return number_of(json_array_get(list, index));
}

const char *cst_json_string_at(const json_t *list, size_t index) {
    return json_string_value(json_array_get(list, index));
}
