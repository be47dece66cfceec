/* Growing text, templates and values of documents. See the header. */
#include "report/page.h"

#include "report/report.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { LABEL_WIDTH = 20 };

static const char *const STYLE_ON[] = {"", "\033[1m", "\033[2m", "\033[4m"};

/* ---- page ---- */

char *cst_page_format(cst_page *page, cst_scope *scope, const char *format, va_list args) {
    va_list again;
    if (page->text.status != CST_OK)
        return NULL;
    va_copy(again, args);
    int length = cst_vsnprintf(NULL, 0, format, args);
    char *text = length < 0 ? NULL : cst_take(page->text.context, scope, (size_t)length + 1, 1);
    if (text)
        (void)cst_vsnprintf(text, (size_t)length + 1, format, again);
    else
        page->text.status = CST_ERROR_MEMORY;
    va_end(again);
    return text;
}

static void append_args(cst_page *page, cst_style style, const char *format, va_list args) {
    CST_SCOPE(scope);
    char *text = cst_page_format(page, scope, format, args);
    if (!text)
        return;
    cst_make_printable(text, '\n');
    bool marked = page->color && style != CST_PLAIN;
    cst_buffer_add_text(&page->text, marked ? STYLE_ON[style] : "");
    cst_buffer_add_text(&page->text, text);
    cst_buffer_add_text(&page->text, marked ? "\033[0m" : "");
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

/* ---- documents ---- */

static double number_of(const json_t *value) {
    return json_is_number(value) ? json_number_value(value) : NAN;
}

double cst_json_number(const json_t *object, const char *key) {
    return number_of(json_object_get(object, key));
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

bool cst_json_is(const json_t *object, const char *key, const char *word) {
    const char *text = cst_json_string(object, key);
    return text && word && strcmp(text, word) == 0;
}

double cst_json_number_at(const json_t *list, size_t index) {
    return number_of(json_array_get(list, index));
}

const char *cst_json_string_at(const json_t *list, size_t index) {
    return json_string_value(json_array_get(list, index));
}

const json_t *cst_json_at(const json_t *value, const char *path) {
    return path && *path ? cst_report_find(value, path) : value;
}

bool cst_json_is_there(const json_t *value) {
    bool empty = (json_is_array(value) && json_array_size(value) == 0) ||
                 (json_is_object(value) && json_object_size(value) == 0);
    return value && !json_is_null(value) && !json_is_false(value) && !empty;
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

json_t *cst_json_share(const json_t *value) {
    return json_incref((json_t *)(uintptr_t)value);
}

/* ---- lists below labels ---- */

cst_placed *cst_page_ranks(cst_page *page, cst_scope *scope, size_t count) {
    cst_placed *ranks = cst_take(page->text.context, scope, count, sizeof *ranks);
    if (!ranks)
        page->text.status = CST_ERROR_MEMORY;
    for (size_t i = 0; ranks && i < count; i++)
        ranks[i] = (cst_placed){.value = NAN, .place = i};
    return ranks;
}

CST_BY(in_order, cst_placed, isnan(x->value) - isnan(y->value), CST_UP(value), CST_UP(place))

void cst_page_rank(cst_placed *ranks, size_t count) {
    if (count > 1)
        qsort(ranks, count, sizeof *ranks, in_order);
}

/* Prints an item of a list, on a new line where it would not fit. column: position on the line. */
static void print_item(cst_page *page, bool first, size_t *column, const char *format, ...) {
    CST_SCOPE(scope);
    va_list args;
    va_start(args, format);
    const char *text = cst_page_format(page, scope, format, args);
    va_end(args);
    size_t length = text ? strlen(text) : 0;
    bool wraps = !first && *column + length + 2 > (size_t)cst_page_width(page);
    if (wraps)
        cst_page_print(page, ",\n  %*s", LABEL_WIDTH, "");
    else
        cst_page_print(page, "%s", first ? "" : ", ");
    *column = first || wraps ? LABEL_WIDTH + 2 : *column + 2;
    cst_page_print(page, "%s", text ? text : "");
    *column += length;
}

/* The numbers of an object by decreasing value: "a 0.42, b 0.31". */
static void print_weights(cst_page *page, const json_t *object) {
    size_t count = json_object_size(object);
    size_t at = 0;
    size_t column = 0;
    const char *key = NULL;
    json_t *value = NULL;
    CST_SCOPE(scope);
    cst_placed *ranks = cst_page_ranks(page, scope, count);
    const char **names = cst_take(page->text.context, scope, count, sizeof *names);
    if (!ranks || !names) {
        page->text.status = CST_ERROR_MEMORY;
        return;
    }
    json_object_foreach((json_t *)(uintptr_t)object, key, value) {
        ranks[at].value = -number_of(value);
        names[at++] = key;
    }
    cst_page_rank(ranks, at);
    for (size_t i = 0; i < at; i++)
        print_item(page, i == 0, &column, "%s %.4f", names[ranks[i].place],
                   cst_json_number(object, names[ranks[i].place]));
}

static void print_list(cst_page *page, const json_t *list, const char *kind) {
    size_t column = 0;
    if (*kind == 'w')
        print_weights(page, list);
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *item = json_array_get(list, i);
        const char *name = json_string_value(item);
        if (*kind == 'b')
            print_item(page, i == 0, &column, "%s %.4g", cst_json_text(item, "name"),
                       cst_json_number(item, "weight"));
        else
            print_item(page, i == 0, &column, "%s", name ? name : "-");
    }
    if (*kind != 'b' && json_array_size(list) == 0 && json_object_size(list) == 0)
        cst_page_print(page, "-");
}

/* ---- templates ---- */

/* "{PATH KIND MORE}". */
typedef struct field {
    char path[64];
    char kind; /* '}': a string */
    const char *more, *end;
} field;

static field field_at(const char *at) {
    size_t length = strcspn(at, ":?=&*!}");
    field f = {.kind = at[length], .more = at + length + 1, .end = at + strcspn(at, "}")};
    (void)cst_snprintf(f.path, sizeof f.path, "%.*s", (int)length, at);
    return f;
}

static void print_number(cst_page *page, const json_t *value, const char *format) {
    double number = json_is_array(value) ? (double)json_array_size(value) : number_of(value);
    bool rest = *format == '-';
    format += rest;
    bool percent = *format == '%';
    format += percent;
    number = rest ? 1 - number : number;
    number = percent ? 100 * number : number;
    if (*format == 'g')
        cst_page_print(page, isnan(number) ? "-" : "%.*g", format[1] - '0', number);
    else
        cst_page_print(page, "%.*f", *format - '0', number);
}

static bool is_word(const json_t *value, const char *word, size_t length) {
    const char *text = json_string_value(value);
    return text && strlen(text) == length && strncmp(text, word, length) == 0;
}

static void print_field(cst_page *page, const json_t *object, const field *f) {
    const json_t *value = cst_json_at(object, f->path);
    const char *text = json_string_value(value);
    const char *more = f->more;
    int length = (int)(f->end - more);
    bool chosen = json_is_true(value);
    if (f->kind == '}')
        cst_page_print(page, "%s", text ? text : "-");
    if (f->kind == ':' && (*more == 'n' || *more == 'w' || *more == 'b'))
        print_list(page, value, more);
    else if (f->kind == ':' && *more == 'f')
        cst_page_print(page, "%.*s", text ? (int)strcspn(text, ",") : 1, text ? text : "-");
    else if (f->kind == ':')
        print_number(page, value, more);
    if (f->kind == '&') {
        double number = json_is_array(value) ? (double)json_array_size(value) : number_of(value);
        cst_page_print(page, "%.*s", number < 1 || number > 1 ? length : 0, more);
    }
    if (f->kind == '*' && chosen)
        cst_page_styled(page, CST_BOLD, "%.*s", length, more);
    if (f->kind != '?' && f->kind != '=')
        return;
    if (f->kind == '=') {
        size_t word = strcspn(more, "?!");
        chosen = is_word(value, more, word);
        if (more[word] == '!')
            return;
        more += word + 1;
    }
    int yes = (int)strcspn(more, "|}");
    const char *no = more + yes + (more[yes] == '|');
    cst_page_print(page, "%.*s", chosen ? yes : (int)(f->end - no), chosen ? more : no);
}

static bool is_complete(const json_t *object, const char *at, const char *end) {
    for (at += strcspn(at, "{"); at < end; at += strcspn(at, "{")) {
        field f = field_at(at + 1);
        const json_t *value = cst_json_at(object, f.path);
        bool there = f.kind == '!' ? cst_json_is_there(value) : json_is_string(value);
        if (json_is_number(value))
            there = f.kind != '!' || json_number_value(value) > 0;
        if (f.kind == ':')
            there = there || cst_json_is_there(value);
        size_t word = strcspn(f.more, "?!}");
        if (f.kind == '=' && f.more[word] == '!' && !is_word(value, f.more, word))
            return false;
        if (!there && (f.kind == '}' || f.kind == ':' || f.kind == '!'))
            return false;
        at = f.end;
    }
    return true;
}

static void fill(cst_page *page, const json_t *object, const char *at, const char *end);

/* Prints what is between the brackets of an optional part; returns what follows them. */
static const char *fill_part(cst_page *page, const json_t *object, const char *at) {
    bool done = false;
    for (;; at++) {
        const char *end = at;
        while (*end && *end != '|' && *end != ']')
            end += *end == '{' ? strcspn(end, "}") : 1;
        if (!done && is_complete(object, at, end)) {
            fill(page, object, at, end);
            done = true;
        }
        at = end;
        if (*at != '|')
            return at + (*at != '\0');
    }
}

static void fill(cst_page *page, const json_t *object, const char *at, const char *end) {
    while (at < end) {
        size_t length = strcspn(at, "{[]");
        length = length < (size_t)(end - at) ? length : (size_t)(end - at);
        cst_page_print(page, "%.*s", (int)length, at);
        at += length;
        if (at >= end)
            return;
        if (*at == '{') {
            field f = field_at(at + 1);
            print_field(page, object, &f);
            at = f.end + 1;
        } else if (at[1] == *at) {
            cst_page_print(page, "%c", *at);
            at += 2;
        } else {
            at = fill_part(page, object, at + 1);
        }
    }
}

/* Fields of a template. A list counts as its length where a number is asked for.
 *   {PATH}           a string, "-" without one
 *   {PATH:F}         a number. F: decimals, or g and significant digits; % in front: times 100;
 *                    - in front: 1 minus it; "first": a string up to its first comma; "names",
 *                    "weights", "blend": a list in lines that begin below the label's text
 *   {PATH?yes|no}    by a flag; {PATH=word?yes|no}: by a string
 *   {PATH&s}         s unless the number is 1
 *   {PATH*words}     the words in bold if the flag is true
 *   {PATH!}          nothing; wants the value: a number above 0, a flag that is true, a list with
 *                    entries; {PATH=word!}: a string
 *   [one|other]      the first part that has all its {PATH}, {PATH:F} and {PATH!}
 *   [[ and ]]        brackets */
void cst_page_fill(cst_page *page, const json_t *object, const char *text) {
    fill(page, object, text, text + strlen(text));
}

/* The filled template on a page of its own, which the caller frees with end_part. */
static cst_page begin_part(const cst_page *page, const json_t *object, const char *text) {
    cst_page part = {
        .text = {.context = page->text.context}, .width = page->width, .color = page->color};
    cst_page_fill(&part, object, text);
    return part;
}

static void end_part(cst_page *page, cst_page *part) {
    if (part->text.status != CST_OK)
        page->text.status = part->text.status;
    cst_free(page->text.context, part->text.bytes);
}

void cst_page_paragraph(cst_page *page, const json_t *object, const char *text) {
    cst_page_print(page, "  ");
    cst_page_fill(page, object, text);
    cst_page_print(page, "\n");
}

void cst_page_heading(cst_page *page, const json_t *object, const char *text) {
    cst_page part = begin_part(page, object, text);
    cst_page_print(page, "%s", page->text.used ? "\n" : "");
    cst_page_styled(page, CST_BOLD, "%s", part.text.used ? part.text.bytes : "");
    cst_page_print(page, "\n");
    end_part(page, &part);
}

void cst_page_line(cst_page *page, const json_t *object, const char *label, const char *text) {
    cst_page name = begin_part(page, object, label);
    cst_page part = begin_part(page, object, text);
    if (part.text.used) {
        cst_page_print(page, "  %-*s", LABEL_WIDTH, name.text.used ? name.text.bytes : "");
        cst_buffer_add(&page->text, part.text.bytes, part.text.used);
        cst_page_print(page, "\n");
    }
    end_part(page, &name);
    end_part(page, &part);
}

/* ---- lines ---- */

int cst_page_width(const cst_page *page) {
    return page->width > 0 ? page->width : CST_PAGE_WIDTH;
}

/* Where the rest of a long line begins: below its text, behind a bullet or a label. */
static int indent_of(const char *line, size_t length) {
    size_t margin = strspn(line, " ");
    if (strncmp(line + margin, "- ", 2) == 0)
        return (int)margin + 2;
    bool labelled = margin == 2 && length > LABEL_WIDTH + 2 && line[LABEL_WIDTH] == ' ' &&
                    line[LABEL_WIDTH + 1] == ' ' && line[LABEL_WIDTH + 2] != ' ';
    return labelled ? LABEL_WIDTH + 2 : (int)margin;
}

/* Bytes of the line that fit, up to a space or behind a comma; all of it where there is none. */
static size_t fitting(const char *line, size_t length, int width, int indent) {
    size_t end = 0;
    int column = 0;
    for (size_t i = 0; i < length; i++) {
        if (line[i] == '\033') /* a style, "\033[1m" */
            i += strcspn(line + i, "m") + 1;
        if (i > 0 && i < length && column > indent && column <= width &&
            (line[i] == ' ' || line[i - 1] == ','))
            end = i;
        column += i < length && ((unsigned char)line[i] & 0xC0) != 0x80;
        if (column > width && end)
            return end;
    }
    return length;
}

void cst_page_wrap(cst_page *page) {
    cst_buffer made = {.context = page->text.context};
    for (const char *line = page->text.used ? page->text.bytes : ""; *line;) {
        size_t length = strcspn(line, "\n");
        int indent = indent_of(line, length);
        int margin = 0;
        for (;;) {
            size_t part = fitting(line, length, cst_page_width(page) - margin, indent - margin);
            cst_buffer_add(&made, line, part);
            line += part;
            length -= part;
            if (length == 0)
                break;
            char gap[LABEL_WIDTH + 8];
            margin = indent;
            (void)cst_snprintf(gap, sizeof gap, "\n%*s",
                               margin < LABEL_WIDTH + 2 ? margin : LABEL_WIDTH + 2, "");
            cst_buffer_add_text(&made, gap);
            line += strspn(line, " ");
            length = strcspn(line, "\n");
        }
        cst_buffer_add(&made, line, *line == '\n');
        line += *line == '\n';
    }
    cst_buffer_add_text(&made, "");
    cst_free(page->text.context, page->text.bytes);
    page->text = made;
}
