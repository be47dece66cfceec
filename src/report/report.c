/* Builds the document behind a report and writes it as JSON. Keys: docs/json.md. */
#include "report/report.h"

#include "core/utf8.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { JSON_DIGITS = 10 };

static const char *const KINDS[] = {
    [CST_REPORT_FIT] = "fit",           [CST_REPORT_INSPECT] = "inspect",
    [CST_REPORT_EVALUATE] = "evaluate", [CST_REPORT_PREDICT] = "predict",
    [CST_REPORT_FOLDS] = "folds",       [CST_REPORT_COMPARE] = "compare",
    [CST_REPORT_ABLATE] = "ablate",     [CST_REPORT_SWEEP] = "sweep",
    [CST_REPORT_SOUP] = "soup",         [CST_REPORT_SWA] = "swa",
    [CST_REPORT_SWAG] = "swag",         [CST_REPORT_BOUND] = "bound",
    [CST_REPORT_SHOW] = "show",         [CST_REPORT_PROFILE] = "profile",
    [CST_REPORT_ONLINE] = "online",     [CST_REPORT_ADAPT] = "adapt",
    [CST_REPORT_SUGGEST] = "suggest",   [CST_REPORT_MONITOR] = "monitor",
    [CST_REPORT_EXPORT] = "export",
};

cst_status cst_report_begin(cst_context *context, cst_report_kind kind, cst_report **out) {
    *out = NULL;
    cst_report *report = cst_alloc(context, 1, sizeof *report);
    if (!report)
        return CST_ERROR_MEMORY;
    report->kind = kind;
    report->root = json_object();
    cst_report_string(report, report->root, "command", KINDS[kind]);
    cst_status status = cst_report_finish(context, report);
    if (status != CST_OK) {
        cst_report_free(context, report);
        return status;
    }
    *out = report;
    return CST_OK;
}

void cst_report_free(cst_context *context, cst_report *report) {
    if (!report)
        return;
    json_decref(report->suspects);
    json_decref(report->root);
    cst_free(context, report);
}

json_t *cst_report_root(cst_report *report) {
    return report->root;
}

cst_status cst_report_finish(cst_context *context, const cst_report *report) {
    if (!report->failed)
        return CST_OK;
    return cst_fail(context, CST_ERROR_MEMORY, "out of memory while building the report");
}

cst_status cst_report_settle(cst_context *context, cst_status status, cst_report **report) {
    if (status != CST_OK && report) {
        cst_report_free(context, *report);
        *report = NULL;
    }
    return status;
}

/* A copy (free) of `text` with bytes that are not valid UTF-8 replaced by '?'. */
static char *clean_copy(const char *text) {
    size_t length = strlen(text);
    char *copy = malloc(length + 1);
    if (!copy)
        return NULL;
    memcpy(copy, text, length + 1);
    for (size_t at = 0; at < length;) {
        size_t step = cst_utf8_length((const unsigned char *)copy + at, length - at);
        if (step == 0)
            copy[at] = '?';
        at += step ? step : 1;
    }
    return copy;
}

static json_t *string_value(const char *value) {
    if (!value)
        return json_null();
    char *copy = clean_copy(value);
    json_t *result = copy ? json_string(copy) : NULL;
    free(copy);
    return result;
}

static json_t *number_value(double value) {
    return isfinite(value) ? json_real(value) : json_null();
}

void cst_report_value(cst_report *report, json_t *object, const char *key, json_t *value) {
    char *copy = clean_copy(key);
    if (copy) {
        report->failed |= json_object_set_new(object, copy, value) != 0;
    } else {
        json_decref(value);
        report->failed = true;
    }
    free(copy);
}

static void add_value(cst_report *report, json_t *list, json_t *value) {
    report->failed |= json_array_append_new(list, value) != 0;
}

void cst_report_number(cst_report *report, json_t *object, const char *key, double value) {
    cst_report_value(report, object, key, number_value(value));
}

void cst_report_change_number(json_t *object, const char *key, double value) {
    if (isfinite(value))
        (void)json_real_set(json_object_get(object, key), value);
}

void cst_report_integer(cst_report *report, json_t *object, const char *key, int64_t value) {
    cst_report_value(report, object, key, json_integer(value));
}

void cst_report_flag(cst_report *report, json_t *object, const char *key, bool value) {
    cst_report_value(report, object, key, json_boolean(value));
}

void cst_report_flag_where(cst_report *report, json_t *object, const char *key, bool known,
                           bool value) {
    cst_report_value(report, object, key, known ? json_boolean(value) : json_null());
}

void cst_report_string(cst_report *report, json_t *object, const char *key, const char *value) {
    cst_report_value(report, object, key, string_value(value));
}

void cst_report_put(cst_report *report, json_t *object, const cst_field *fields) {
    for (const cst_field *f = fields; f->key; f++)
        cst_report_value(report, object, f->key,
                         f->kind == 'n'   ? number_value(f->number)
                         : f->kind == 'i' ? json_integer(f->integer)
                         : f->kind == 's' ? string_value(f->string)
                                          : json_boolean(f->flag));
}

/* Puts an object or list at `key` (NULL: at the end of a list); borrowed, NULL on failure. */
static json_t *put_child(cst_report *report, json_t *parent, const char *key, json_t *child) {
    json_incref(child); /* kept alive should setting it fail */
    if (key)
        cst_report_value(report, parent, key, child);
    else
        add_value(report, parent, child);
    bool stored = child && child->refcount > 1;
    json_decref(child);
    return stored ? child : NULL;
}

json_t *cst_report_object(cst_report *report, json_t *object, const char *key) {
    return put_child(report, object, key, json_object());
}

json_t *cst_report_list(cst_report *report, json_t *object, const char *key) {
    return put_child(report, object, key, json_array());
}

json_t *cst_report_add_object(cst_report *report, json_t *list) {
    return put_child(report, list, NULL, json_object());
}

json_t *cst_report_add_list(cst_report *report, json_t *list) {
    return put_child(report, list, NULL, json_array());
}

void cst_report_add_number(cst_report *report, json_t *list, double value) {
    add_value(report, list, number_value(value));
}

void cst_report_add_integer(cst_report *report, json_t *list, int64_t value) {
    add_value(report, list, json_integer(value));
}

void cst_report_add_string(cst_report *report, json_t *list, const char *value) {
    add_value(report, list, string_value(value));
}

void cst_report_numbers(cst_report *report, json_t *object, const char *key, const double *values,
                        int64_t count) {
    json_t *list = cst_report_list(report, object, key);
    for (int64_t i = 0; values && i < count; i++)
        cst_report_add_number(report, list, values[i]);
}

void cst_report_integers(cst_report *report, json_t *object, const char *key, const int64_t *values,
                         int64_t count) {
    json_t *list = cst_report_list(report, object, key);
    for (int64_t i = 0; values && i < count; i++)
        cst_report_add_integer(report, list, values[i]);
}

void cst_report_strings(cst_report *report, json_t *object, const char *key,
                        const char *const *values, int64_t count) {
    json_t *list = cst_report_list(report, object, key);
    for (int64_t i = 0; values && i < count; i++)
        cst_report_add_string(report, list, values[i]);
}

void cst_report_matrix(cst_report *report, json_t *object, const char *key, const double *values,
                       int64_t rows, int64_t columns) {
    json_t *list = cst_report_list(report, object, key);
    for (int64_t i = 0; values && i < rows; i++) {
        json_t *row = cst_report_add_list(report, list);
        for (int64_t j = 0; j < columns; j++)
            cst_report_add_number(report, row, values[i * columns + j]);
    }
}

void cst_report_notices(cst_report *report, const cst_context *context) {
    if (cst_notices_lost(context))
        report->failed = true; /* what is not in the report would go unseen */
    json_t *list = cst_report_list(report, report->root, "notices");
    for (size_t i = 0; i < cst_notice_count(context); i++)
        cst_report_add_string(report, list, cst_notice_at(context, i));
}

cst_status cst_report_create(cst_context *context, cst_report **out, const char *command) {
    CST_CLEAR(out);
    CST_ENTER(context);
    if (!out)
        return cst_fail(context, CST_ERROR_ARGUMENT,
                        "cst_report_create: command and report are required");
    for (size_t kind = 0; command && kind < sizeof KINDS / sizeof KINDS[0]; kind++)
        if (strcmp(KINDS[kind], command) == 0)
            return cst_why(context, cst_report_begin(context, (cst_report_kind)kind, out));
    return cst_fail(context, CST_ERROR_ARGUMENT, "cst_report_create: unknown command '%s'",
                    command ? command : "");
}

/* Ends a public setter. A report that was whole stays so: only this key is not in it. */
static cst_status end_setter(cst_context *context, cst_report *report, bool failed_before) {
    cst_status status = cst_report_finish(context, report);
    report->failed = failed_before;
    return status;
}

/* CST_OK where a public setter has a document and a key. */
static cst_status check_setter(cst_context *context, const cst_report *report, const char *key) {
    if (report && key)
        return CST_OK;
    return cst_fail(context, CST_ERROR_ARGUMENT, "setting a key of a report: the %s is required",
                    report ? "key" : "report");
}

/* The rest of a public setter: `put` writes the key into the root of the document. */
#define SET_KEY(context, report, key, put)                                                         \
    do {                                                                                           \
        cst_status status = check_setter(context, report, key);                                    \
        if (status != CST_OK)                                                                      \
            return status;                                                                         \
        bool failed = (report)->failed;                                                            \
        put;                                                                                       \
        return end_setter(context, report, failed);                                                \
    } while (0)

cst_status cst_report_set_string(cst_context *context, cst_report *report, const char *key,
                                 const char *value) {
    CST_ENTER(context);
    SET_KEY(context, report, key, cst_report_string(report, report->root, key, value));
}

cst_status cst_report_set_integer(cst_context *context, cst_report *report, const char *key,
                                  int64_t value) {
    CST_ENTER(context);
    SET_KEY(context, report, key, cst_report_integer(report, report->root, key, value));
}

cst_status cst_report_set_number(cst_context *context, cst_report *report, const char *key,
                                 double value) {
    CST_ENTER(context);
    SET_KEY(context, report, key, cst_report_number(report, report->root, key, value));
}

cst_status cst_report_set_strings(cst_context *context, cst_report *report, const char *key,
                                  const char *const *values, int64_t count) {
    CST_ENTER(context);
    CST_FITS(context, count, 1, sizeof(*values));
    SET_KEY(context, report, key, cst_report_strings(report, report->root, key, values, count));
}

cst_status cst_report_set_integers(cst_context *context, cst_report *report, const char *key,
                                   const int64_t *values, int64_t count) {
    CST_ENTER(context);
    CST_FITS(context, count, 1, sizeof(*values));
    SET_KEY(context, report, key, cst_report_integers(report, report->root, key, values, count));
}

/* A document as text, for free. */
static char *dump(const json_t *document, size_t flags) {
    cst_c_locale locale = cst_c_locale_enter();
    char *text = json_dumps(document, flags | JSON_REAL_PRECISION(JSON_DIGITS));
    cst_c_locale_leave(locale);
    return text;
}

/* JSON with characters that steer a terminal, or a page where it is for one, as \uXXXX. Only
 * strings hold such. */
static cst_status escape(cst_context *context, const char *text, bool page, char **out) {
    cst_buffer made = {.context = context};
    const char *from = text; /* what is not copied yet */
    while (*text) {
        size_t bytes = cst_utf8_length((const uint8_t *)text, 4); /* text ends with a NUL */
        bytes = bytes > 0 ? bytes : 1;
        uint32_t c = cst_utf8_character((const uint8_t *)text, bytes);
        text += bytes;
        bool marks = page && (c == '<' || c == '>' || c == '&');
        if (c == '\n' || !(marks || cst_utf8_steers(c)))
            continue;
        char escaped[16];
        if (c < 0x10000)
            (void)cst_snprintf(escaped, sizeof escaped, "\\u%04x", (unsigned)c);
        else
            (void)cst_snprintf(escaped, sizeof escaped, "\\u%04x\\u%04x",
                               0xD800 + ((unsigned)(c - 0x10000) >> 10),
                               0xDC00 + ((unsigned)(c - 0x10000) & 0x3FF));
        cst_buffer_add(&made, from, (size_t)(text - from) - bytes);
        cst_buffer_add_text(&made, escaped);
        from = text;
    }
    cst_buffer_add_text(&made, from);
    if (made.status != CST_OK)
        cst_free(context, made.bytes);
    *out = made.status == CST_OK ? made.bytes : NULL;
    return made.status;
}

cst_status cst_report_dump(cst_context *context, const json_t *document, bool page, char **out) {
    char *text = dump(document, page ? JSON_COMPACT : JSON_INDENT(2));
    if (!text)
        return cst_fail(context, CST_ERROR_MEMORY, "out of memory while writing the report");
    cst_status status = escape(context, text, page, out);
    free(text);
    return status;
}

cst_status cst_report_json(cst_context *context, const cst_report *report, char **out) {
    CST_CLEAR(out);
    CST_ENTER(context);
    if (!report || !out)
        return cst_fail(context, CST_ERROR_ARGUMENT,
                        "cst_report_json: report and text are required");
    return cst_why(context, cst_report_dump(context, report->root, false, out));
}
