/* Writes safetensors files by dtype, widest first, then by name. docs/weights.md#safetensors-files.
 */
#include "weights/checkpoints.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { PREFIX_BYTES = 8, ALIGNMENT = 8 };

cst_status cst_weights_writer_open(cst_context *context, cst_weights_writer *writer,
                                   const char *path, int64_t most) {
    *writer = (cst_weights_writer){.path = path};
    CST_TAKE(context, &writer->scope, writer->tensors, most);
    CST_TRY(cst_output_open(context, &writer->output, path));
    if (!cst_output_is_file(writer->output))
        return cst_fail(
            context, CST_ERROR_UNSUPPORTED,
            "%s: is a pipe or device, but this format can only be written to a file; name a file",
            path);
    return CST_OK;
}

int64_t cst_weights_writer_add(cst_weights_writer *writer, const char *prefix, const char *name,
                               cst_dtype dtype, const cst_safetensors *file, int64_t tensor,
                               int64_t lead) {
    cst_weights_tensor *t = &writer->tensors[writer->count];
    *t = (cst_weights_tensor){.prefix = prefix, .name = name, .dtype = dtype, .lead = lead};
    t->shape = cst_safetensors_shape(file, tensor, &t->axes);
    return writer->count++;
}

static void put_escaped(cst_buffer *b, const char *string) {
    static const char plain[] = "\"\\\b\f\n\r\t";
    static const char escaped[] = "\"\\bfnrt";
    while (*string) {
        size_t good = 0;
        while ((unsigned char)string[good] >= 0x20 && string[good] != '"' && string[good] != '\\')
            good++;
        cst_buffer_add(b, string, good);
        string += good;
        if (*string) {
            char escape[8];
            const char *found = strchr(plain, *string);
            (void)(found ? cst_snprintf(escape, sizeof escape, "\\%c", escaped[found - plain])
                         : cst_snprintf(escape, sizeof escape, "\\u%04x", (unsigned)*string));
            cst_buffer_add_text(b, escape);
            string++;
        }
    }
}

static void put_number(cst_buffer *b, const char *before, uint64_t value) {
    char text[32];
    (void)cst_snprintf(text, sizeof text, "%s%" PRIu64, before, value);
    cst_buffer_add_text(b, text);
}

static void put_entry(cst_buffer *b, bool *any, const char *key, const char *value) {
    cst_buffer_add_text(b, *any ? ",\"" : "\"__metadata__\":{\"");
    *any = true;
    put_escaped(b, key);
    cst_buffer_add_text(b, "\":\"");
    put_escaped(b, value);
    cst_buffer_add_text(b, "\"");
}

static bool put_metadata(cst_buffer *b, cst_safetensors *const *files, int32_t file_count,
                         const cst_weights_entry *entries, size_t entry_count) {
    static const char own[] = "corestack.";
    bool any = false;
    for (int64_t i = 0; i < cst_safetensors_metadata_count(files[0]); i++) {
        const char *key = cst_safetensors_metadata_key(files[0], i);
        const char *value = cst_safetensors_metadata_value(files[0], i);
        bool shared = strncmp(key, own, sizeof own - 1) != 0;
        for (int32_t k = 1; shared && k < file_count; k++) {
            const char *other = cst_safetensors_metadata(files[k], key);
            shared = other && strcmp(other, value) == 0;
        }
        if (shared)
            put_entry(b, &any, key, value);
    }
    for (size_t e = 0; e < entry_count; e++)
        put_entry(b, &any, entries[e].key, entries[e].value);
    cst_buffer_add_text(b, any ? "}" : "");
    return any;
}

/* The number of data bytes; false if no file can hold them. */
static bool size_of(const cst_weights_tensor *t, uint64_t *bytes) {
    int64_t elements = t->lead > 0 ? t->lead : 1;
    bool fits = true;
    for (int32_t a = 0; a < t->axes; a++)
        if (t->shape[a] == 0)
            elements = 0;
    for (int32_t a = 0; a < t->axes; a++)
        fits = fits && !__builtin_mul_overflow(elements, t->shape[a], &elements);
    return fits && cst_dtype_size(t->dtype, elements, bytes);
}

static void put_tensor(cst_buffer *b, const cst_weights_tensor *t, uint64_t begin, uint64_t end) {
    cst_buffer_add_text(b, "\"");
    put_escaped(b, t->prefix);
    put_escaped(b, t->name);
    cst_buffer_add_text(b, "\":{\"dtype\":\"");
    cst_buffer_add_text(b, cst_dtype_name(t->dtype));
    cst_buffer_add_text(b, "\",\"shape\":[");
    if (t->lead > 0)
        put_number(b, "", (uint64_t)t->lead);
    for (int32_t a = 0; a < t->axes; a++)
        put_number(b, a || t->lead > 0 ? "," : "", (uint64_t)t->shape[a]);
    put_number(b, "],\"data_offsets\":[", begin);
    put_number(b, ",", end);
    cst_buffer_add_text(b, "]}");
}

static int by_place(const void *a, const void *b) {
    const cst_weights_tensor *left = *(cst_weights_tensor *const *)a;
    const cst_weights_tensor *right = *(cst_weights_tensor *const *)b;
    if (left->dtype != right->dtype)
        return left->dtype > right->dtype ? -1 : 1;
    int order = strcmp(left->prefix, right->prefix);
    return order ? order : strcmp(left->name, right->name);
}

/* The tensors of the header; sets where the data of each begin, from the end of the header on. */
static cst_status put_tensors(cst_buffer *b, const cst_weights_writer *writer, bool any) {
    CST_SCOPE(scope);
    CST_NEW(b->context, scope, cst_weights_tensor *, order, writer->count);
    for (int64_t i = 0; i < writer->count; i++)
        order[i] = &writer->tensors[i];
    if (writer->count > 1)
        qsort(order, (size_t)writer->count, sizeof *order, by_place);
    uint64_t at = 0;
    for (int64_t i = 0; i < writer->count && b->status == CST_OK; i++) {
        uint64_t bytes = 0;
        if (!size_of(order[i], &bytes) || bytes > INT64_MAX - at)
            return cst_fail(b->context, CST_ERROR_LIMIT,
                            "%s: the tensors have more bytes than any file can hold", writer->path);
        cst_buffer_add_text(b, i || any ? "," : "");
        put_tensor(b, order[i], at, at + bytes);
        order[i]->begin = at;
        at += bytes;
    }
    return b->status;
}

cst_status cst_weights_writer_start(cst_context *context, cst_weights_writer *writer,
                                    cst_safetensors *const *files, int32_t file_count,
                                    const cst_weights_entry *entries, size_t entry_count) {
    static const char prefix[PREFIX_BYTES];
    cst_buffer b = {.context = context};
    cst_buffer_add(&b, prefix, sizeof prefix);
    cst_buffer_add_text(&b, "{");
    bool any = put_metadata(&b, files, file_count, entries, entry_count);
    cst_status status = put_tensors(&b, writer, any);
    cst_buffer_add_text(&b, "}");
    while (b.status == CST_OK && b.used % ALIGNMENT)
        cst_buffer_add_text(&b, " ");
    status = status == CST_OK ? b.status : status;
    if (status == CST_OK && b.used > CST_SAFETENSORS_HEADER_BYTES)
        status = cst_fail(
            context, CST_ERROR_LIMIT,
            "%s: the names and shapes need a header of more than %d bytes, the limit of the format",
            writer->path, CST_SAFETENSORS_HEADER_BYTES);
    for (int i = 0; status == CST_OK && i < PREFIX_BYTES; i++)
        b.bytes[i] = (char)(unsigned char)((b.used - PREFIX_BYTES) >> (8 * i));
    for (int64_t t = 0; t < writer->count; t++)
        writer->tensors[t].begin += b.used;
    CST_THEN(cst_output_write(context, writer->output, b.bytes, b.used));
    cst_free(context, b.bytes);
    return status;
}

/* Elements first..first+count-1 of a tensor, as they are stored. */
static cst_status put_raw(cst_context *context, const cst_weights_writer *writer, int64_t tensor,
                          int64_t first, int64_t count, const unsigned char *raw) {
    const cst_weights_tensor *t = &writer->tensors[tensor];
    uint64_t item = (uint64_t)cst_dtype_bits(t->dtype) / 8;
    return cst_output_write_at(context, writer->output, t->begin + (uint64_t)first * item, raw,
                               (size_t)((uint64_t)count * item));
}

cst_status cst_weights_writer_put(cst_context *context, const cst_weights_writer *writer,
                                  int64_t tensor, int64_t first, int64_t count,
                                  const double *values, unsigned char *raw) {
    cst_weights_store(writer->tensors[tensor].dtype, values, count, raw);
    return put_raw(context, writer, tensor, first, count, raw);
}

cst_status cst_weights_writer_copy(cst_context *context, const cst_weights_writer *writer,
                                   int64_t tensor, const cst_safetensors *file, int64_t source,
                                   int64_t first, int64_t count, unsigned char *raw) {
    int64_t item = cst_dtype_bits(writer->tensors[tensor].dtype) / 8;
    CST_TRY(cst_safetensors_read(context, file, source, first * item, count * item, raw));
    return put_raw(context, writer, tensor, first, count, raw);
}

cst_status cst_weights_writer_close(cst_context *context, cst_weights_writer *writer,
                                    cst_status status) {
    status = cst_output_end(context, writer->output, status);
    cst_scope_free(&writer->scope);
    *writer = (cst_weights_writer){0};
    return status;
}
