/*
 * The header of a safetensors file that is being written: the order of the tensors and the JSON
 * that says where each is. Between the declarations and the data. Paper: none.
 */
#include "base/buffer.h"
#include "weights/safetensors_write.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { PREFIX_BYTES = 8, ALIGNMENT = 8 };

/* For sorting: what the order goes by. */
typedef struct ranked {
    const char *text;
    int64_t tensor;
    cst_dtype dtype;
} ranked;

static int by_rank(const void *a, const void *b) {
    const ranked *left = a;
    const ranked *right = b;
    if (left->dtype != right->dtype)
        return left->dtype > right->dtype ? -1 : 1;
    return strcmp(left->text, right->text);
}

/* Two equal texts among every `step`-th of `strings` are an error. */
static cst_status check_unique(cst_context *context, const cst_safetensors_writer *writer,
                               const cst_strings *strings, int64_t step, const char *what) {
    int64_t count = strings->count / step;
    char quoted[CST_QUOTE_CHARS];
    cst_named *names = cst_alloc(context, (size_t)count, sizeof *names);
    if (!names)
        return CST_ERROR_MEMORY;
    for (int64_t i = 0; i < count; i++)
        names[i] = (cst_named){cst_strings_at(strings, i * step), i};
    int64_t twice = cst_named_sort(names, count);
    cst_status status = CST_OK;
    if (twice >= 0)
        status = cst_fail(context, CST_ERROR_ARGUMENT, "%s: %s '%s' occurs twice", writer->path,
                          what, cst_quote(quoted, names[twice].text));
    cst_free(context, names);
    return status;
}

/* Settles which tensor stands where. */
static cst_status arrange(cst_context *context, cst_safetensors_writer *writer) {
    cst_free(context, writer->places); /* of a start that failed */
    writer->places = cst_alloc(context, (size_t)writer->count, sizeof *writer->places);
    ranked *ranks = cst_alloc(context, (size_t)writer->count, sizeof *ranks);
    cst_status status = writer->places && ranks ? CST_OK : CST_ERROR_MEMORY;
    for (int64_t i = 0; status == CST_OK && i < writer->count; i++)
        ranks[i] = (ranked){cst_strings_at(writer->names, writer->tensors[i].name), i,
                            writer->tensors[i].dtype};
    if (status == CST_OK && writer->count > 1 && writer->order == CST_TENSOR_ORDER_SORTED)
        qsort(ranks, (size_t)writer->count, sizeof *ranks, by_rank);
    for (int64_t i = 0; status == CST_OK && i < writer->count; i++)
        writer->places[i] = ranks[i].tensor;
    cst_free(context, ranks);
    return status;
}

typedef struct text {
    const char *path; /* for messages */
    cst_buffer buffer;
} text;

static void put(text *t, const char *bytes, size_t count) {
    if (t->buffer.status == CST_OK && count > CST_SAFETENSORS_HEADER_BYTES - t->buffer.used)
        t->buffer.status = cst_fail(
            t->buffer.context, CST_ERROR_LIMIT,
            "%s: the names and shapes need a header of more than %d bytes, the limit of the format",
            t->path, CST_SAFETENSORS_HEADER_BYTES);
    cst_buffer_add(&t->buffer, bytes, count);
}

static void put_text(text *t, const char *plain) {
    put(t, plain, strlen(plain));
}

/* JSON's text of a string: the short escapes where there are, \u00XX for other controls. */
static void put_string(text *t, const char *string) {
    static const char plain[] = "\"\\\b\f\n\r\t";
    static const char escaped[] = "\"\\bfnrt";
    put_text(t, "\"");
    while (*string) {
        size_t good = 0;
        while ((unsigned char)string[good] >= 0x20 && string[good] != '"' && string[good] != '\\')
            good++;
        put(t, string, good);
        string += good;
        if (*string) {
            char escape[8];
            const char *found = strchr(plain, *string);
            int length = found ? cst_snprintf(escape, sizeof escape, "\\%c", escaped[found - plain])
                               : cst_snprintf(escape, sizeof escape, "\\u%04x", (unsigned)*string);
            put(t, escape, (size_t)length);
            string++;
        }
    }
    put_text(t, "\"");
}

static void put_number(text *t, uint64_t value) {
    char digits[24];
    int length = cst_snprintf(digits, sizeof digits, "%" PRIu64, value);
    put(t, digits, (size_t)length);
}

static void put_metadata(text *t, const cst_safetensors_writer *writer) {
    if (writer->metadata->count == 0)
        return;
    put_text(t, "\"__metadata__\":{");
    for (int64_t i = 0; i < writer->metadata->count; i += 2) {
        put_text(t, i ? "," : "");
        put_string(t, cst_strings_at(writer->metadata, i));
        put_text(t, ":");
        put_string(t, cst_strings_at(writer->metadata, i + 1));
    }
    put_text(t, "}");
}

static void put_tensor(text *t, const cst_safetensors_writer *writer, const cst_declared *tensor,
                       uint64_t begin) {
    put_string(t, cst_strings_at(writer->names, tensor->name));
    put_text(t, ":{\"dtype\":\"");
    put_text(t, cst_dtype_name(tensor->dtype));
    put_text(t, "\",\"shape\":[");
    for (int32_t a = 0; a < tensor->axes; a++) {
        put_text(t, a ? "," : "");
        put_number(t, (uint64_t)writer->lengths[tensor->shape + (size_t)a]);
    }
    put_text(t, "],\"data_offsets\":[");
    put_number(t, begin);
    put_text(t, ",");
    put_number(t, begin + tensor->bytes);
    put_text(t, "]}");
}

/* The text of the header, padded so that the data are aligned. The prefix before it is left zero.
 */
static cst_status write_text(text *t, const cst_safetensors_writer *writer) {
    uint64_t begin = 0;
    static const char prefix[PREFIX_BYTES];
    put(t, prefix, sizeof prefix);
    put_text(t, "{");
    put_metadata(t, writer);
    for (int64_t i = 0; i < writer->count && t->buffer.status == CST_OK; i++) {
        const cst_declared *tensor = &writer->tensors[writer->places[i]];
        put_text(t, i || writer->metadata->count ? "," : "");
        put_tensor(t, writer, tensor, begin);
        begin += tensor->bytes;
        if (begin > (uint64_t)INT64_MAX && t->buffer.status == CST_OK)
            t->buffer.status = cst_fail(
                t->buffer.context, CST_ERROR_LIMIT,
                "%s: the tensors together have more bytes than any file can hold", writer->path);
    }
    put_text(t, "}");
    while (t->buffer.status == CST_OK && t->buffer.used % ALIGNMENT)
        put_text(t, " ");
    return t->buffer.status;
}

cst_status cst_safetensors_compose(cst_context *context, cst_safetensors_writer *writer,
                                   unsigned char **bytes, size_t *size) {
    text t = {.path = writer->path, .buffer = {.context = context}};
    *bytes = NULL;
    cst_status status = check_unique(context, writer, writer->names, 1, "the name");
    CST_TRY(check_unique(context, writer, writer->metadata, 2, "__metadata__: the key"));
    CST_TRY(arrange(context, writer));
    CST_TRY(write_text(&t, writer));
    if (status != CST_OK) {
        cst_free(context, t.buffer.bytes);
        return status;
    }
    uint64_t length = t.buffer.used - PREFIX_BYTES;
    for (int i = 0; i < PREFIX_BYTES; i++)
        t.buffer.bytes[i] = (char)(unsigned char)(length >> (8 * i));
    *bytes = (unsigned char *)t.buffer.bytes;
    *size = t.buffer.used;
    return CST_OK;
}
