/* Text for a terminal: a growing page, templates filled from a document, and its values. */
#pragma once

#include "core/scope.h"

#include <jansson.h>

typedef enum cst_style { CST_PLAIN = 0, CST_BOLD = 1, CST_DIM = 2, CST_UNDERLINE = 3 } cst_style;

/* Zero but for context and color. After a failure, kept in status, calls do nothing. */
typedef struct cst_page {
    cst_buffer text;
    int width;  /* columns; 0: CST_PAGE_WIDTH */
    bool color; /* styles become ANSI sequences; else they vanish */
    bool
        full; /* every score and test, the draws of a sweep one by one, every candidate of a soup */
} cst_page;

enum { CST_PAGE_WIDTH = 100 };

/* Appends text. Control characters other than the newline (names come from files) become '?'. */
void cst_page_print(cst_page *page, const char *format, ...) CST_PRINTF(2, 3);
void cst_page_styled(cst_page *page, cst_style style, const char *format, ...) CST_PRINTF(3, 4);
char *cst_page_format(cst_page *page, cst_scope *scope, const char *format, va_list args);

/* Appends a template with the values of an object in place of its fields {PATH...}; PATH: keys and
 * places in lists, joined by '.'. page.c describes the fields. */
void cst_page_fill(cst_page *page, const json_t *object, const char *text);
/* A line indented by two. */
void cst_page_paragraph(cst_page *page, const json_t *object, const char *text);
/* An empty line and a bold heading. */
void cst_page_heading(cst_page *page, const json_t *object, const char *text);
/* A line "  label   text", the label padded to a common width; nothing where the text is empty. */
void cst_page_line(cst_page *page, const json_t *object, const char *label, const char *text);

int cst_page_width(const cst_page *page);
/* Breaks lines that are wider than the page between words; the rest is indented as their text. */
void cst_page_wrap(cst_page *page);

/* Places in the order of a value: ascending, NaN last, equal values by place. */
typedef struct cst_placed {
    double value;
    size_t place;
} cst_placed;

/* [count], each with its own place and no value yet; NULL, which the page notes, without memory. */
cst_placed *cst_page_ranks(cst_page *page, cst_scope *scope, size_t count);
void cst_page_rank(cst_placed *ranks, size_t count);

/* Values at a key: NaN, NULL (borrowed) or false where absent, null or of another type. */
double cst_json_number(const json_t *object, const char *key);
const char *cst_json_string(const json_t *object, const char *key);
const char *cst_json_text(const json_t *object, const char *key); /* "-" in place of NULL */
bool cst_json_flag(const json_t *object, const char *key);
bool cst_json_is(const json_t *object, const char *key, const char *word);
double cst_json_number_at(const json_t *list, size_t index);
const char *cst_json_string_at(const json_t *list, size_t index);
/* The value at a path, as in templates; NULL: the object itself. */
const json_t *cst_json_at(const json_t *object, const char *path);
/* Whether it is there, and neither null, false nor empty. */
bool cst_json_is_there(const json_t *value);
/* Whether one of the rows, a list of objects, has a number or a text that is not empty there. */
bool cst_json_has_column(const json_t *rows, const char *key);
/* A new reference; jansson's setters take what they refer to without const and leave it alone. */
json_t *cst_json_share(const json_t *value);
