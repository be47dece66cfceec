/*
 * The header of a safetensors file: its length, then JSON that names every tensor with type, shape
 * and range of bytes. Read through yajl's events into one table, then held against the file: every
 * byte belongs to one tensor.
 */
#include "core/utf8.h"
#include "data/readers/safetensors.h"

#include <inttypes.h>
#include <string.h>
#include <yajl/yajl_parse.h>

enum { PREFIX_BYTES = 8, MESSAGE_CHARS = 320 };

/* What the next event of the parser belongs to. */
typedef enum place {
    IN_FILE,     /* before the object */
    IN_HEADER,   /* names of tensors */
    IN_METADATA, /* text: text */
    IN_TENSOR,   /* dtype, shape, data_offsets */
    IN_SHAPE,
    IN_OFFSETS,
    DONE
} place;

typedef enum field { FIELD_DTYPE, FIELD_SHAPE, FIELD_OFFSETS, FIELDS } field;
static const char *const FIELD_NAMES[FIELDS] = {"dtype", "shape", "data_offsets"};

typedef struct reading {
    cst_context *context;
    cst_safetensors *file;
    const unsigned char *text; /* the header */
    size_t length;
    yajl_handle parser;
    cst_status status;
    int64_t keys; /* so far */
    place place;
    bool named;        /* IN_HEADER: a name was given, its value comes */
    bool metadata;     /* ... which is __metadata__ */
    bool had_metadata; /* ... and was there before */
    field field;
    bool seen[FIELDS];
    int offsets; /* IN_OFFSETS: how many there were */
    cst_tensor tensor;
} reading;

/* ---- errors ---- */

/* "tensor 'a'" for messages, or what else is being read. */
static const char *subject(const reading *r, char buffer[CST_QUOTE_CHARS + 16]) {
    char quoted[CST_QUOTE_CHARS];
    bool tensor = r->place >= IN_TENSOR && r->place <= IN_OFFSETS;
    if (r->place == IN_METADATA || (r->place == IN_HEADER && r->named && r->metadata))
        (void)cst_snprintf(buffer, CST_QUOTE_CHARS + 16, "__metadata__");
    else if (tensor || (r->place == IN_HEADER && r->named))
        (void)cst_snprintf(buffer, CST_QUOTE_CHARS + 16, "tensor '%s'",
                           cst_quote(quoted, cst_strings_at(r->file->names, r->tensor.name)));
    else
        (void)cst_snprintf(buffer, CST_QUOTE_CHARS + 16, "the header");
    return buffer;
}

static int refuse(reading *r, cst_status code, const char *format, ...) CST_PRINTF(3, 4);
/* Records the error and returns 0, which stops yajl. */
static int refuse(reading *r, cst_status code, const char *format, ...) {
    char about[CST_QUOTE_CHARS + 16];
    char text[MESSAGE_CHARS];
    va_list list;
    va_start(list, format);
    (void)cst_vsnprintf(text, sizeof text, format, list);
    va_end(list);
    size_t used = yajl_get_bytes_consumed(r->parser);
    r->status = cst_fail(r->context, code, "%s: byte %zu: %s: %s", cst_bytes_name(r->file->source),
                         PREFIX_BYTES + used - (used > 0), subject(r, about), text);
    return 0;
}

/* Whether a call went well, as yajl wants to know it. */
static int went(reading *r, cst_status status) {
    r->status = status;
    return status == CST_OK;
}

/* A value of the wrong kind, wherever it stands. */
static int unexpected(reading *r, const char *what) {
    switch (r->place) {
    case IN_METADATA:
        return refuse(r, CST_ERROR_FORMAT, "has %s as a value, but only strings are allowed", what);
    case IN_TENSOR:
        return refuse(r, CST_ERROR_FORMAT, "'%s' is %s, not %s", FIELD_NAMES[r->field], what,
                      r->field == FIELD_DTYPE   ? "a string"
                      : r->field == FIELD_SHAPE ? "a list of lengths"
                                                : "a list of two numbers");
    case IN_SHAPE:
    case IN_OFFSETS:
        return refuse(r, CST_ERROR_FORMAT, "'%s' contains %s, but only whole numbers are allowed",
                      FIELD_NAMES[r->field], what);
    default:
        return refuse(r, CST_ERROR_FORMAT, "has %s, but an object {...} is expected", what);
    }
}

/* ---- events ---- */

static int got_null(void *user) {
    return unexpected(user, "null");
}

static int got_boolean(void *user, int value) {
    return unexpected(user, value ? "true" : "false");
}

/* Digits alone, at least one of which yajl has seen, below 2^63. */
static bool whole(const char *text, size_t length, uint64_t *out) {
    uint64_t value = 0;
    for (size_t i = 0; i < length; i++) {
        if (text[i] < '0' || text[i] > '9' || __builtin_mul_overflow(value, 10, &value) ||
            __builtin_add_overflow(value, (uint64_t)(text[i] - '0'), &value))
            return false;
    }
    *out = value;
    return value <= (uint64_t)INT64_MAX;
}

static int add_length(reading *r, int64_t length) {
    cst_safetensors *file = r->file;
    if (r->tensor.axes == CST_TENSOR_AXES)
        return refuse(r, CST_ERROR_LIMIT, "has more than %d axes", CST_TENSOR_AXES);
    if (file->length_count == file->length_room) {
        size_t room = file->length_room ? file->length_room * 2 : 64;
        int64_t *lengths =
            cst_grow(r->context, file->lengths, file->length_room, room, sizeof *lengths);
        if (!lengths)
            return went(r, CST_ERROR_MEMORY);
        file->lengths = lengths;
        file->length_room = room;
    }
    file->lengths[file->length_count++] = length;
    r->tensor.axes++;
    return 1;
}

static int got_number(void *user, const char *text, size_t length) {
    reading *r = user;
    uint64_t value = 0;
    if (r->place != IN_SHAPE && r->place != IN_OFFSETS)
        return unexpected(r, "a number");
    if (!whole(text, length, &value))
        return refuse(r, CST_ERROR_FORMAT,
                      "'%s' contains %.*s, but only whole numbers from 0 to 2^63-1 are allowed",
                      FIELD_NAMES[r->field], length < 40 ? (int)length : 40, text);
    if (r->place == IN_SHAPE)
        return add_length(r, (int64_t)value);
    if (r->offsets == 2)
        return refuse(r, CST_ERROR_FORMAT, "'data_offsets' has more than two numbers");
    *(r->offsets == 0 ? &r->tensor.begin : &r->tensor.end) = value;
    r->offsets++;
    return 1;
}

static int got_string(void *user, const unsigned char *text, size_t length) {
    reading *r = user;
    char quoted[CST_QUOTE_CHARS];
    char name[24];
    if (r->place == IN_METADATA) {
        if (memchr(text, 0, length))
            return refuse(r, CST_ERROR_UNSUPPORTED, "has a value that contains a NUL");
        return went(r, cst_strings_add(r->context, r->file->metadata, (const char *)text, length));
    }
    if (r->place != IN_TENSOR || r->field != FIELD_DTYPE)
        return unexpected(r, "a string");
    (void)cst_snprintf(name, sizeof name, "%.*s", length < 20 ? (int)length : 20,
                       (const char *)text);
    if (!cst_dtype_find((const char *)text, length, &r->tensor.dtype))
        return refuse(r, CST_ERROR_UNSUPPORTED, "dtype '%s' is not supported",
                      cst_quote(quoted, name));
    return 1;
}

/* The name of a tensor. */
static int got_name(reading *r, const char *text, size_t length) {
    static const char metadata[] = "__metadata__";
    r->named = false;
    r->metadata = length == sizeof metadata - 1 && memcmp(text, metadata, length) == 0;
    if (r->metadata) {
        if (r->had_metadata)
            return refuse(r, CST_ERROR_FORMAT, "'__metadata__' occurs twice");
        r->had_metadata = true;
        r->named = true;
        return 1;
    }
    if (memchr(text, 0, length))
        return refuse(r, CST_ERROR_UNSUPPORTED, "has a name that contains a NUL");
    memset(r->seen, 0, sizeof r->seen);
    r->tensor = (cst_tensor){.name = r->file->names->count, .shape = r->file->length_count};
    r->named = went(r, cst_strings_add(r->context, r->file->names, text, length));
    return r->named;
}

static int got_field(reading *r, const char *text, size_t length) {
    char name[CST_QUOTE_CHARS];
    char quoted[CST_QUOTE_CHARS];
    for (int f = 0; f < FIELDS; f++)
        if (length == strlen(FIELD_NAMES[f]) && memcmp(text, FIELD_NAMES[f], length) == 0) {
            if (r->seen[f])
                return refuse(r, CST_ERROR_FORMAT, "'%s' occurs twice", FIELD_NAMES[f]);
            r->seen[f] = true;
            r->field = (field)f;
            return 1;
        }
    (void)cst_snprintf(name, sizeof name, "%.*s", length < 64 ? (int)length : 64, text);
    return refuse(r, CST_ERROR_FORMAT,
                  "has the key '%s'; the keys of a tensor are dtype, shape and data_offsets",
                  cst_quote(quoted, name));
}

static int got_key(void *user, const unsigned char *bytes, size_t length) {
    reading *r = user;
    const char *text = (const char *)bytes;
    if (!went(r, cst_poll_item(r->context, r->keys++)))
        return 0;
    if (r->place == IN_HEADER)
        return got_name(r, text, length);
    if (r->place == IN_TENSOR)
        return got_field(r, text, length);
    if (memchr(text, 0, length))
        return refuse(r, CST_ERROR_UNSUPPORTED, "has a key that contains a NUL");
    return went(r, cst_strings_add(r->context, r->file->metadata, text, length));
}

static int open_map(void *user) {
    reading *r = user;
    if (r->place == IN_FILE)
        r->place = IN_HEADER;
    else if (r->place == IN_HEADER)
        r->place = r->metadata ? IN_METADATA : IN_TENSOR;
    else
        return unexpected(r, "an object");
    r->named = false;
    return 1;
}

/* A tensor is complete: its range must have the bytes that shape and dtype need. */
static int end_tensor(reading *r) {
    cst_safetensors *file = r->file;
    cst_tensor *t = &r->tensor;
    uint64_t bytes = 0;
    bool empty = false;
    bool fits = true;
    for (int f = 0; f < FIELDS; f++)
        if (!r->seen[f])
            return refuse(r, CST_ERROR_FORMAT, "has no '%s'", FIELD_NAMES[f]);
    for (int32_t a = 0; a < t->axes; a++)
        empty = empty || file->lengths[t->shape + (size_t)a] == 0;
    t->elements = empty ? 0 : 1;
    for (int32_t a = 0; a < t->axes && !empty; a++)
        fits = fits && !__builtin_mul_overflow(t->elements, file->lengths[t->shape + (size_t)a],
                                               &t->elements);
    if (!fits || !cst_dtype_size(t->dtype, t->elements, &bytes))
        return refuse(r, CST_ERROR_FORMAT,
                      "its shape has more elements of %s than any file can hold, or its size is "
                      "not a whole number of bytes",
                      cst_dtype_name(t->dtype));
    if (t->end < t->begin || t->end - t->begin != bytes)
        return refuse(r, CST_ERROR_FORMAT,
                      "'data_offsets' are %" PRIu64 " and %" PRIu64
                      ", but shape and dtype need %" PRIu64 " bytes",
                      t->begin, t->end, bytes);
    if ((size_t)file->count == file->tensor_room) {
        size_t room = file->tensor_room ? file->tensor_room * 2 : 16;
        cst_tensor *tensors =
            cst_grow(r->context, file->tensors, file->tensor_room, room, sizeof *tensors);
        if (!tensors)
            return went(r, CST_ERROR_MEMORY);
        file->tensors = tensors;
        file->tensor_room = room;
    }
    file->tensors[file->count++] = *t;
    return 1;
}

static int close_map(void *user) {
    reading *r = user;
    if (r->place == IN_TENSOR && !end_tensor(r))
        return 0;
    r->place = r->place == IN_HEADER ? DONE : IN_HEADER;
    r->named = false;
    return 1;
}

static int open_array(void *user) {
    reading *r = user;
    if (r->place != IN_TENSOR || r->field == FIELD_DTYPE)
        return unexpected(r, "a list");
    r->place = r->field == FIELD_SHAPE ? IN_SHAPE : IN_OFFSETS;
    r->offsets = 0;
    return 1;
}

static int close_array(void *user) {
    reading *r = user;
    if (r->place == IN_OFFSETS && r->offsets != 2)
        return refuse(r, CST_ERROR_FORMAT, "'data_offsets' has %d numbers instead of two",
                      r->offsets);
    r->place = IN_TENSOR;
    return 1;
}

/* ---- the text ---- */

/* The value of the four hexadecimal digits at text[0..3]; -1 where they are none. */
static int32_t four_digits(const unsigned char *text) {
    int32_t value = 0;
    for (int i = 0; i < 4; i++) {
        unsigned char c = text[i];
        int digit = c >= '0' && c <= '9'   ? c - '0'
                    : c >= 'a' && c <= 'f' ? c - 'a' + 10
                    : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                           : -1;
        if (digit < 0)
            return -1;
        value = value * 16 + digit;
    }
    return value;
}

/* Bytes of the escape that begins at text[0], a backslash; 0 where it is half a surrogate pair.
 * What else may be wrong with it, yajl finds. */
static size_t escape_length(const unsigned char *text, size_t left) {
    if (left < 6 || text[1] != 'u')
        return left < 2 ? 1 : 2;
    int32_t code = four_digits(text + 2);
    if (code < 0xd800 || code > 0xdfff)
        return 6;
    bool pair = code < 0xdc00 && left >= 12 && text[6] == '\\' && text[7] == 'u';
    int32_t low = pair ? four_digits(text + 8) : -1;
    return low >= 0xdc00 && low <= 0xdfff ? 12 : 0;
}

/* What yajl lets pass and JSON does not: characters that are none, as bytes or as escapes, and
 * other white space than JSON's. */
static cst_status check_text(cst_context *context, const cst_safetensors *file,
                             const unsigned char *text, size_t length) {
    for (size_t at = 0; at < length;) {
        size_t step = text[at] == '\\' ? escape_length(text + at, length - at)
                                       : cst_utf8_length(text + at, length - at);
        if (step == 0)
            return cst_fail(context, CST_ERROR_FORMAT, "%s: byte %zu: the header is not UTF-8 text",
                            cst_bytes_name(file->source), PREFIX_BYTES + at);
        if (text[at] == 0 || text[at] == '\v' || text[at] == '\f')
            return cst_fail(context, CST_ERROR_FORMAT,
                            "%s: byte %zu: the header has the byte %d, which JSON does not allow",
                            cst_bytes_name(file->source), PREFIX_BYTES + at, text[at]);
        at += step;
    }
    return CST_OK;
}

/* What yajl has against the text. */
static void explain(reading *r) {
    if (r->status != CST_OK)
        return;
    unsigned char *text = yajl_get_error(r->parser, 0, r->text, r->length);
    size_t good = text ? strcspn((const char *)text, "\n") : 0;
    while (good > 0 && text[good - 1] == '.')
        good--;
    (void)refuse(r, CST_ERROR_FORMAT, "is not valid JSON: %.*s", (int)good,
                 text ? (const char *)text : "it ends too early");
    yajl_free_error(r->parser, text);
}

static cst_status parse(cst_context *context, cst_safetensors *file, const unsigned char *text,
                        size_t length) {
    static const yajl_callbacks callbacks = {.yajl_null = got_null,
                                             .yajl_boolean = got_boolean,
                                             .yajl_number = got_number,
                                             .yajl_string = got_string,
                                             .yajl_start_map = open_map,
                                             .yajl_map_key = got_key,
                                             .yajl_end_map = close_map,
                                             .yajl_start_array = open_array,
                                             .yajl_end_array = close_array};
    reading r = {.context = context, .file = file, .text = text, .length = length};
    if (text[0] != '{')
        return cst_fail(context, CST_ERROR_FORMAT,
                        "%s: byte 8: the header does not begin with '{'; is it a safetensors file?",
                        cst_bytes_name(file->source));
    cst_status status = check_text(context, file, text, length);
    if (status != CST_OK)
        return status;
    r.parser = yajl_alloc(&callbacks, NULL, &r);
    if (!r.parser)
        return cst_fail(context, CST_ERROR_MEMORY, "out of memory for the JSON parser");
    if (yajl_parse(r.parser, text, length) != yajl_status_ok ||
        yajl_complete_parse(r.parser) != yajl_status_ok)
        explain(&r);
    yajl_free(r.parser);
    return r.status;
}

/* ---- the file ---- */

/* The length of the header, held against the file's. */
static cst_status read_length(cst_context *context, cst_safetensors *file, size_t *length) {
    const char *where = cst_bytes_name(file->source);
    uint64_t size = cst_bytes_size(file->source);
    unsigned char prefix[PREFIX_BYTES];
    uint64_t value = 0;
    if (size < PREFIX_BYTES)
        return cst_fail(
            context, CST_ERROR_FORMAT,
            "%s: truncated: a safetensors file begins with an 8-byte length, but only %" PRIu64
            " were found",
            where, size);
    cst_status status = cst_bytes_read(context, file->source, 0, prefix, sizeof prefix);
    for (int i = PREFIX_BYTES; status == CST_OK && i > 0; i--)
        value = value << 8 | prefix[i - 1];
    if (status == CST_OK && value > CST_SAFETENSORS_HEADER_BYTES)
        status = cst_fail(context, CST_ERROR_LIMIT,
                          "%s: byte 0: the length of the header is %" PRIu64
                          " bytes, but the format allows at most %d; is it a safetensors file?",
                          where, value, CST_SAFETENSORS_HEADER_BYTES);
    else if (status == CST_OK && value > size - PREFIX_BYTES)
        status = cst_fail(context, CST_ERROR_FORMAT,
                          "%s: truncated: byte 0 declares a header of %" PRIu64
                          " bytes, but only %" PRIu64 " follow",
                          where, value, size - PREFIX_BYTES);
    else if (status == CST_OK && value < 2)
        status =
            cst_fail(context, CST_ERROR_FORMAT,
                     "%s: byte 0: a header of %" PRIu64 " bytes is too short for {}", where, value);
    *length = (size_t)value;
    return status;
}

cst_status cst_safetensors_read_header(cst_context *context, cst_safetensors *file) {
    size_t length = 0;
    unsigned char *text = NULL;
    cst_status status = read_length(context, file, &length);
    CST_THEN(cst_strings_create(context, &file->names));
    CST_THEN(cst_strings_create(context, &file->metadata));
    if (status == CST_OK && !(text = cst_alloc(context, length, 1)))
        status = CST_ERROR_MEMORY;
    CST_THEN(cst_bytes_read(context, file->source, PREFIX_BYTES, text, length));
    CST_THEN(parse(context, file, text, length));
    cst_free(context, text);
    file->data_offset = PREFIX_BYTES + (uint64_t)length;
    return status;
}
