/* The header of a safetensors file: its length, then JSON with type, shape and range of bytes of
 * every tensor. Every byte of the file must belong to one tensor. */
#include "data/readers/json_room.h"
#include "data/readers/safetensors.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { PREFIX_BYTES = 8 };

static const char METADATA[] = "__metadata__";
static const char *const FIELDS[] = {"dtype", "shape", "data_offsets"};

static const struct {
    const char *name;
    int32_t bits;
} DTYPES[] = {
#define ROW(name, value, bits) [value] = {#name, bits},
    CST_DTYPE_LIST(ROW)
#undef ROW
};

enum { DTYPE_COUNT = sizeof DTYPES / sizeof *DTYPES };

static bool known(cst_dtype dtype) {
    return (int)dtype >= 0 && (int)dtype < (int)DTYPE_COUNT;
}

const char *cst_dtype_name(cst_dtype dtype) {
    return known(dtype) ? DTYPES[dtype].name : NULL;
}

int32_t cst_dtype_bits(cst_dtype dtype) {
    return known(dtype) ? DTYPES[dtype].bits : 0;
}

static bool find_dtype(const char *name, cst_dtype *out) {
    for (int d = 0; d < DTYPE_COUNT; d++)
        if (strcmp(DTYPES[d].name, name) == 0) {
            *out = (cst_dtype)d;
            return true;
        }
    return false;
}

bool cst_dtype_size(cst_dtype dtype, int64_t elements, uint64_t *bytes) {
    uint64_t bits = (uint64_t)DTYPES[dtype].bits;
    if (bits % 8 == 0)
        return !__builtin_mul_overflow((uint64_t)elements, bits / 8, bytes) &&
               *bytes <= (uint64_t)INT64_MAX;
    if (__builtin_mul_overflow((uint64_t)elements, bits, &bits) || bits % 8 != 0)
        return false;
    *bytes = bits / 8;
    return true;
}

static cst_status refuse(cst_context *context, const cst_safetensors *file, cst_status code,
                         const char *subject, const char *format, ...) CST_PRINTF(5, 6);
/* subject: the name of a tensor, or METADATA. */
static cst_status refuse(cst_context *context, const cst_safetensors *file, cst_status code,
                         const char *subject, const char *format, ...) {
    char quoted[CST_QUOTE_CHARS];
    char text[320];
    bool tensor = subject != METADATA;
    va_list list;
    va_start(list, format);
    (void)cst_vsnprintf(text, sizeof text, format, list);
    va_end(list);
    return cst_fail(context, code, "%s: %s%s%s: %s", cst_bytes_name(file->source),
                    tensor ? "tensor '" : "", cst_quote(quoted, subject), tensor ? "'" : "", text);
}

static const char *kind_of(const json_t *value) {
    static const char *const kinds[] = {
        [JSON_OBJECT] = "an object", [JSON_ARRAY] = "a list",  [JSON_STRING] = "a string",
        [JSON_INTEGER] = "a number", [JSON_REAL] = "a number", [JSON_TRUE] = "true",
        [JSON_FALSE] = "false",      [JSON_NULL] = "null"};
    return kinds[json_typeof(value)];
}

/* Reads whole numbers of object[key] into `out`, at most `most`. */
static cst_status read_list(cst_context *context, const cst_safetensors *file, const char *name,
                            const char *key, const json_t *list, size_t most, int64_t *out) {
    for (size_t i = 0; i < json_array_size(list) && i < most; i++) {
        const json_t *number = json_array_get(list, i);
        if (!json_is_number(number))
            return refuse(context, file, CST_ERROR_FORMAT, name,
                          "'%s' contains %s, but only whole numbers are allowed", key,
                          kind_of(number));
        if (!json_is_integer(number) || json_integer_value(number) < 0)
            return refuse(
                context, file, CST_ERROR_FORMAT, name,
                "'%s' contains %.17g, but only whole numbers from 0 to 2^63-1 are allowed", key,
                json_number_value(number));
        out[i] = json_integer_value(number);
    }
    return CST_OK;
}

static cst_status check_fields(cst_context *context, const cst_safetensors *file, const char *name,
                               const json_t *object, cst_dtype *dtype) {
    static const char *const wanted[] = {"a string", "a list of lengths", "a list of two numbers"};
    char quoted[CST_QUOTE_CHARS];
    if (!json_is_object(object))
        return refuse(context, file, CST_ERROR_FORMAT, name,
                      "has %s, but an object {...} is expected", kind_of(object));
    for (void *i = json_object_iter((json_t *)object); i;
         i = json_object_iter_next((json_t *)object, i)) {
        const char *key = json_object_iter_key(i);
        const json_t *value = json_object_iter_value(i);
        int f = 0;
        while (f < 3 && strcmp(FIELDS[f], key) != 0)
            f++;
        if (f == 3)
            return refuse(
                context, file, CST_ERROR_FORMAT, name,
                "has the key '%s'; the keys of a tensor are dtype, shape and data_offsets",
                cst_quote(quoted, key));
        if (f == 0 ? !json_is_string(value) : !json_is_array(value))
            return refuse(context, file, CST_ERROR_FORMAT, name, "'%s' is %s, not %s", key,
                          kind_of(value), wanted[f]);
        if (f == 0 && !find_dtype(json_string_value(value), dtype))
            return refuse(context, file, CST_ERROR_UNSUPPORTED, name, "dtype '%s' is not supported",
                          cst_quote(quoted, json_string_value(value)));
    }
    for (int f = 0; f < 3; f++)
        if (!json_object_get(object, FIELDS[f]))
            return refuse(context, file, CST_ERROR_FORMAT, name, "has no '%s'", FIELDS[f]);
    return CST_OK;
}

/* The range of a tensor must have the bytes that shape and dtype need. */
static cst_status check_size(cst_context *context, const cst_safetensors *file, cst_tensor *t) {
    uint64_t bytes = 0;
    bool empty = false;
    bool fits = true;
    for (int32_t a = 0; a < t->axes; a++)
        empty = empty || t->shape[a] == 0;
    t->elements = empty ? 0 : 1;
    for (int32_t a = 0; a < t->axes && !empty; a++)
        fits = fits && !__builtin_mul_overflow(t->elements, t->shape[a], &t->elements);
    if (!fits || !cst_dtype_size(t->dtype, t->elements, &bytes))
        return refuse(context, file, CST_ERROR_FORMAT, t->name,
                      "its shape has more elements of %s than any file can hold, or its size is "
                      "not a whole number of bytes",
                      cst_dtype_name(t->dtype));
    if (t->end < t->begin || t->end - t->begin != bytes)
        return refuse(context, file, CST_ERROR_FORMAT, t->name,
                      "'data_offsets' are %" PRIu64 " and %" PRIu64
                      ", but shape and dtype need %" PRIu64 " bytes",
                      t->begin, t->end, bytes);
    return CST_OK;
}

static cst_status read_tensor(cst_context *context, cst_safetensors *file, const char *name,
                              const json_t *object) {
    cst_tensor *t = &file->tensors[file->count++];
    int64_t offsets[2];
    CST_TRY(check_fields(context, file, name, object, &t->dtype));
    const json_t *lengths = json_object_get(object, FIELDS[1]);
    const json_t *range = json_object_get(object, FIELDS[2]);
    if (json_array_size(lengths) > CST_TENSOR_AXES)
        return refuse(context, file, CST_ERROR_LIMIT, name, "has more than %d axes",
                      CST_TENSOR_AXES);
    t->axes = (int32_t)json_array_size(lengths);
    CST_NEW(context, &file->scope, int64_t, shape, t->axes);
    CST_TRY(read_list(context, file, name, FIELDS[1], lengths, CST_TENSOR_AXES, shape));
    CST_TRY(read_list(context, file, name, FIELDS[2], range, 2, offsets));
    if (json_array_size(range) != 2)
        return refuse(context, file, CST_ERROR_FORMAT, name,
                      "'data_offsets' has %zu numbers instead of two", json_array_size(range));
    t->name = cst_take_text(context, &file->scope, name);
    t->shape = shape;
    t->begin = (uint64_t)offsets[0];
    t->end = (uint64_t)offsets[1];
    return t->name ? check_size(context, file, t) : CST_ERROR_MEMORY;
}

static cst_status read_metadata(cst_context *context, cst_safetensors *file, const json_t *object) {
    if (!json_is_object(object))
        return refuse(context, file, CST_ERROR_FORMAT, METADATA,
                      "has %s, but an object {...} is expected", kind_of(object));
    CST_TAKE(context, &file->scope, file->metadata, json_object_size(object));
    for (void *i = json_object_iter((json_t *)object); i;
         i = json_object_iter_next((json_t *)object, i)) {
        const json_t *value = json_object_iter_value(i);
        cst_metadata *m = &file->metadata[file->metadata_count++];
        if (!json_is_string(value))
            return refuse(context, file, CST_ERROR_FORMAT, METADATA,
                          "has %s as a value, but only strings are allowed", kind_of(value));
        m->key = cst_take_text(context, &file->scope, json_object_iter_key(i));
        m->value = cst_take_text(context, &file->scope, json_string_value(value));
        if (!m->key || !m->value)
            return CST_ERROR_MEMORY;
    }
    return CST_OK;
}

static int by_name(const void *a, const void *b) {
    return strcmp(((const cst_named *)a)->text, ((const cst_named *)b)->text);
}

CST_BY(by_range, cst_tensor, CST_UP(begin), CST_UP(end), CST_UP(place))

static cst_status check_ranges(cst_context *context, const cst_safetensors *file) {
    const char *where = cst_bytes_name(file->source);
    uint64_t size = cst_bytes_size(file->source) - file->data_offset;
    uint64_t end = 0;
    char quoted[CST_QUOTE_CHARS];
    char other[CST_QUOTE_CHARS];
    for (int64_t i = 0; i < file->count; i++) {
        const cst_tensor *t = &file->tensors[i];
        const char *name = cst_quote(quoted, t->name);
        if (t->end > size)
            return cst_fail(context, CST_ERROR_FORMAT,
                            "%s: truncated: tensor '%s' ends at byte %" PRIu64
                            " of the data, which has only %" PRIu64 " bytes; copy the file again",
                            where, name, t->end, size);
        if (t->begin < end)
            return cst_fail(context, CST_ERROR_FORMAT,
                            "%s: tensor '%s' begins at byte %" PRIu64
                            " of the data, inside tensor '%s', which ends at byte %" PRIu64,
                            where, name, t->begin, cst_quote(other, t[-1].name), end);
        if (t->begin > end)
            return cst_fail(context, CST_ERROR_FORMAT,
                            "%s: bytes %" PRIu64 " to %" PRIu64
                            " of the data, before tensor '%s', belong to no tensor",
                            where, end, t->begin - 1, name);
        end = t->end;
    }
    if (end < size)
        return cst_fail(context, CST_ERROR_FORMAT,
                        "%s: byte %" PRIu64 ": %" PRIu64
                        " bytes follow the last tensor and belong to no tensor",
                        where, file->data_offset + end, size - end);
    return CST_OK;
}

static cst_status read_table(cst_context *context, cst_safetensors *file, json_t *root) {
    CST_TAKE(context, &file->scope, file->tensors, json_object_size(root));
    CST_TAKE(context, &file->scope, file->by_name, json_object_size(root));
    for (void *i = json_object_iter(root); i; i = json_object_iter_next(root, i)) {
        const char *name = json_object_iter_key(i);
        CST_TRY(cst_poll_item(context, file->count));
        if (strcmp(name, METADATA) == 0) {
            CST_TRY(read_metadata(context, file, json_object_iter_value(i)));
            continue;
        }
        file->tensors[file->count].place = file->count;
        CST_TRY(read_tensor(context, file, name, json_object_iter_value(i)));
    }
    if (file->count > 0)
        qsort(file->tensors, (size_t)file->count, sizeof *file->tensors, by_range);
    for (int64_t i = 0; i < file->count; i++)
        file->by_name[i] = (cst_named){file->tensors[i].name, i};
    if (file->count > 0)
        qsort(file->by_name, (size_t)file->count, sizeof *file->by_name, by_name);
    return check_ranges(context, file);
}

int64_t cst_safetensors_find(const cst_safetensors *file, const char *name) {
    const cst_named key = {.text = name};
    const cst_named *found =
        file && name && file->count > 0
            ? bsearch(&key, file->by_name, (size_t)file->count, sizeof key, by_name)
            : NULL;
    return found ? found->place : -1;
}

/* The length of the header, held against the file's. */
static cst_status read_length(cst_context *context, const cst_safetensors *file, size_t *length) {
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
    CST_TRY(cst_bytes_read(context, file->source, 0, prefix, sizeof prefix));
    for (int i = PREFIX_BYTES; i > 0; i--)
        value = value << 8 | prefix[i - 1];
    if (value > CST_SAFETENSORS_HEADER_BYTES)
        return cst_fail(context, CST_ERROR_LIMIT,
                        "%s: byte 0: the length of the header is %" PRIu64
                        " bytes, but the format allows at most %d; is it a safetensors file?",
                        where, value, CST_SAFETENSORS_HEADER_BYTES);
    if (value > size - PREFIX_BYTES)
        return cst_fail(context, CST_ERROR_FORMAT,
                        "%s: truncated: byte 0 declares a header of %" PRIu64
                        " bytes, but only %" PRIu64 " follow",
                        where, value, size - PREFIX_BYTES);
    if (value < 2)
        return cst_fail(context, CST_ERROR_FORMAT,
                        "%s: byte 0: a header of %" PRIu64 " bytes is too short for {}", where,
                        value);
    *length = (size_t)value;
    return CST_OK;
}

cst_status cst_safetensors_read_header(cst_context *context, cst_safetensors *file) {
    CST_SCOPE(scope);
    const char *where = cst_bytes_name(file->source);
    char quoted[CST_QUOTE_CHARS];
    size_t length = 0;
    json_t *root = NULL;
    json_error_t error;
    CST_TRY(read_length(context, file, &length));
    CST_NEW(context, scope, unsigned char, text, length);
    CST_TRY(cst_bytes_read(context, file->source, PREFIX_BYTES, text, length));
    if (text[0] != '{')
        return cst_fail(context, CST_ERROR_FORMAT,
                        "%s: byte 8: the header does not begin with '{'; is it a safetensors file?",
                        where);
    CST_TRY(cst_json_parse(context, where, text, length, &root, &error));
    if (!root)
        return cst_fail(context, CST_ERROR_FORMAT, "%s: byte %d: the header is not valid JSON: %s",
                        where, PREFIX_BYTES + error.position, cst_quote(quoted, error.text));
    file->data_offset = PREFIX_BYTES + (uint64_t)length;
    cst_status status = read_table(context, file, root);
    json_decref(root);
    return status;
}
