/* What a fit found of its members as a section of the model. See the header. */
#include "model/history.h"

#include "core/utf8.h"
#include "model/codec.h"

#include <float.h>
#include <math.h>
#include <string.h>

/* ---- what is kept ---- */

static const char *const KEYS[] = {"task",       "metric",  "models_in",  "models_kept", "kept",
                                   "dropped",    "members", "redundancy", "selection",   "path",
                                   "budget",     "front",   "oof",        "flops_rel",   "safety",
                                   "comparison", "findings"};

static void drop(cst_context *context, void *history) {
    (void)context;
    json_decref(history);
}

/* Names of a set follow from those that join and leave it, the sentence from who is closest;
 * families are the pool's, which may be arrays without; times are no results. */
static bool is_left_out(const json_t *object, const char *key) {
    const json_t *value = json_object_get(object, key);
    if (strcmp(key, "members") == 0)
        return json_is_array(value) && !json_is_object(json_array_get(value, 0));
    return strcmp(key, "family") == 0 || strncmp(key, "seconds", 7) == 0 ||
           (strcmp(key, "text") == 0 && json_is_string(json_object_get(object, "to")));
}

/* A copy with numbers of single precision, and null for what a file cannot hold. */
static json_t *kept(const json_t *value) {
    json_t *copy = NULL;
    json_t *child;
    const char *key;
    size_t i;
    int failed = 0;
    if (json_is_real(value)) {
        double near = (double)(float)json_real_value(value);
        return isfinite(near) ? json_real(near) : json_null();
    }
    if (json_is_string(value)) {
        size_t length = json_string_length(value);
        bool good = length > 0 &&
                    cst_utf8_text((const uint8_t *)json_string_value(value), length) == length;
        return good ? json_copy((json_t *)(uintptr_t)value) : json_null();
    }
    if (json_is_integer(value) &&
        (json_integer_value(value) < 0 || json_integer_value(value) > INT32_MAX))
        return json_real((double)(float)json_integer_value(value));
    if (!json_is_array(value) && !json_is_object(value))
        return json_copy((json_t *)(uintptr_t)value);
    copy = json_is_array(value) ? json_array() : json_object();
    json_array_foreach(value, i, child) failed |= json_array_append_new(copy, kept(child));
    json_object_foreach((json_t *)(uintptr_t)value, key, child) if (!is_left_out(value, key))
        failed |= json_object_set_new(copy, key, kept(child));
    if (failed) {
        json_decref(copy);
        return NULL;
    }
    return copy;
}

cst_status cst_model_remember(cst_context *context, cst_model *model, const cst_report *report) {
    json_t *history = json_object();
    int failed = !history;
    for (size_t i = 0; i < sizeof KEYS / sizeof *KEYS; i++) {
        const json_t *part = json_object_get(report->root, KEYS[i]);
        if (part)
            failed |= json_object_set_new(history, KEYS[i], kept(part));
    }
    if (failed) {
        json_decref(history);
        return cst_fail(context, CST_ERROR_MEMORY, "out of memory while keeping the fit's report");
    }
    model->history = history;
    return cst_scope_own(context, &model->scope, drop, history);
}

/* ---- in a file ---- */

typedef enum form { NONE, NO, YES, COUNT, NUMBER, TEXT, LIST, OBJECT, TABLE, ABSENT } form;
enum { DEEPEST = 8, MOST_BYTES = 1 << 22 };

typedef struct coding {
    cst_codec *codec;
    json_t *seen; /* writing: text -> its position; reading: the texts */
    uint32_t texts;
} coding;

/* Memory that jansson did or did not have. */
static json_t *made(coding *k, json_t *value) {
    if (!value && k->codec->status == CST_OK)
        k->codec->status = cst_fail(k->codec->context, CST_ERROR_MEMORY,
                                    "out of memory while reading the history of a model");
    return value;
}

static void stored(coding *k, int failed) {
    if (failed)
        (void)made(k, NULL);
}

/* Of texts that came before only their position is there. NULL after a failure. */
static const char *code_text(coding *k, const char *text) {
    cst_codec *c = k->codec;
    const json_t *known = c->to ? json_object_get(k->seen, text) : NULL;
    uint32_t at = known ? (uint32_t)json_integer_value(known) : k->texts;
    char *written = (char *)(uintptr_t)text;
    at = cst_code_count(c, at, "the position of a text", k->texts);
    if (at < k->texts)
        return c->to ? text : json_string_value(json_array_get(k->seen, at));
    cst_code_string(c, &written, "text", at);
    if (c->status != CST_OK)
        return NULL;
    stored(k, c->to ? json_object_set_new(k->seen, text, json_integer(at))
                    : json_array_append_new(k->seen, json_string(written)));
    k->texts++;
    return written;
}

static uint32_t code_length(coding *k, size_t length) {
    uint32_t count = cst_code_count(k->codec, (uint32_t)length, "a length", INT32_MAX);
    cst_codec_expect(k->codec, count, 1, "entries");
    return k->codec->status == CST_OK ? count : 0;
}

static json_t *code_value(coding *k, const json_t *value, int depth);

static json_t *code_list(coding *k, const json_t *value, int depth) {
    uint32_t count = code_length(k, json_array_size(value));
    json_t *list = k->codec->to ? NULL : made(k, json_array());
    for (uint32_t i = 0; k->codec->status == CST_OK && i < count; i++) {
        json_t *entry = code_value(k, json_array_get(value, i), depth + 1);
        if (list && entry)
            stored(k, json_array_append_new(list, entry));
    }
    return list;
}

static json_t *code_object(coding *k, const json_t *value, int depth) {
    uint32_t count = code_length(k, json_object_size(value));
    json_t *object = k->codec->to ? NULL : made(k, json_object());
    void *at = json_object_iter((json_t *)(uintptr_t)value);
    for (uint32_t i = 0; k->codec->status == CST_OK && i < count; i++) {
        const char *key = code_text(k, json_object_iter_key(at));
        json_t *entry = code_value(k, json_object_iter_value(at), depth + 1);
        if (object && entry)
            stored(k, json_object_set_new(object, key, entry));
        at = at ? json_object_iter_next((json_t *)(uintptr_t)value, at) : NULL;
    }
    return object;
}

/* The keys of all objects of a list, each once; to be freed. */
static json_t *keys_of(const json_t *rows) {
    json_t *keys = json_object();
    json_t *row;
    size_t i;
    int failed = 0;
    json_array_foreach(rows, i, row) failed |= json_object_update_missing(keys, row);
    if (!failed)
        return keys;
    json_decref(keys);
    return NULL;
}

/* A list of objects: their keys, then the values of each, ABSENT where it has not the key. */
static json_t *code_table(coding *k, const json_t *value, int depth) {
    cst_codec *c = k->codec;
    json_t *all = c->to ? made(k, keys_of(value)) : made(k, json_object());
    json_t *rows = c->to ? NULL : made(k, json_array());
    void *at = json_object_iter(all);
    uint32_t width = code_length(k, json_object_size(all));
    for (uint32_t j = 0; c->status == CST_OK && j < width; j++) {
        const char *key = code_text(k, json_object_iter_key(at));
        if (!c->to && key)
            stored(k, json_object_set_new(all, key, json_null()));
        at = at ? json_object_iter_next(all, at) : NULL;
    }
    if (json_object_size(all) < width || width == 0)
        cst_refuse(c, c->at, "a table of the history has no keys, or one of them twice");
    uint32_t count = code_length(k, json_array_size(value));
    cst_codec_expect(c, count, width ? width : 1, "rows");
    for (uint32_t i = 0; c->status == CST_OK && i < count; i++) {
        const json_t *from = json_array_get(value, i);
        json_t *row = c->to ? NULL : made(k, json_object());
        for (at = json_object_iter(all); c->status == CST_OK && at;
             at = json_object_iter_next(all, at)) {
            const char *key = json_object_iter_key(at);
            json_t *cell = code_value(k, json_object_get(from, key), depth + 1);
            if (row && cell)
                stored(k, json_object_set_new(row, key, cell));
        }
        if (rows)
            stored(k, json_array_append_new(rows, row));
    }
    json_decref(all);
    return rows;
}

static form form_of(const json_t *value) {
    if (json_is_array(value))
        return json_object_size(json_array_get(value, 0)) > 0 ? TABLE : LIST;
    return !value                   ? ABSENT
           : json_is_null(value)    ? NONE
           : json_is_true(value)    ? YES
           : json_is_false(value)   ? NO
           : json_is_integer(value) ? COUNT
           : json_is_real(value)    ? NUMBER
           : json_is_string(value)  ? TEXT
                                    : OBJECT;
}

/* Reading: a new value; NULL where none is there, and after a failure. */
static json_t *code_value(coding *k, const json_t *value, int depth) {
    cst_codec *c = k->codec;
    size_t start = c->at;
    form kind = (form)cst_code_count(c, form_of(value), "the form of a value", ABSENT);
    float number = (float)json_real_value(value);
    uint32_t count = (uint32_t)json_integer_value(value);
    if (depth > DEEPEST)
        cst_refuse(c, start, "the history is deeper than %d", (int)DEEPEST);
    if (c->status != CST_OK || kind == ABSENT)
        return NULL;
    switch (kind) {
    case COUNT:
        count = cst_code_count(c, count, "a count", INT32_MAX);
        return c->to ? NULL : made(k, json_integer(count));
    case NUMBER:
        cst_code_f32s(c, &number, 1, "a number", (double)FLT_MAX);
        return c->to ? NULL : made(k, json_real((double)number));
    case TEXT: {
        const char *text = code_text(k, json_string_value(value));
        return c->to || !text ? NULL : made(k, json_string(text));
    }
    case LIST:
        return code_list(k, value, depth);
    case OBJECT:
        return code_object(k, value, depth);
    case TABLE:
        return code_table(k, value, depth);
    default:
        return kind == NONE ? json_null() : json_boolean(kind == YES);
    }
}

void cst_code_history(cst_codec *c, cst_model *model) {
    cst_scope *outer = c->scope;
    CST_SCOPE(scope); /* of texts, which values copy */
    coding k = {c, c->to ? json_object() : json_array(), 0};
    size_t first = c->to ? c->to->used : c->at;
    c->scope = scope;
    if (c->end - c->at > MOST_BYTES)
        cst_refuse(c, first, "the history has more than %d bytes", (int)MOST_BYTES);
    json_t *history = made(&k, k.seen) ? code_value(&k, model->history, 0) : NULL;
    if (c->to && c->to->used - first > MOST_BYTES) {
        c->to->used = first;
        cst_put_word(c->to, OBJECT, 2); /* which is empty */
    }
    c->scope = outer;
    json_decref(k.seen);
    if (cst_codec_reads(c) && !json_is_object(history))
        cst_refuse(c, first, "the history is not an object");
    if (!cst_codec_reads(c)) {
        json_decref(history);
        return;
    }
    model->history = history;
    c->status = cst_scope_own(c->context, outer, drop, history);
}
