/*
 * Writing safetensors files: tensors declared first, then their data in pieces, the file whole or
 * not at all. After weights were averaged, or arrays given by Python. Paper: none.
 */
#include "weights/safetensors_write.h"
#include "base/utf8.h"

#include <inttypes.h>
#include <string.h>

enum { PIECE = 4096 /* elements converted at a time */ };
static const bool SWAPPED = __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__;

/* ---- declaring ---- */

cst_status cst_safetensors_writer_open(cst_context *context, cst_safetensors_writer **out,
                                       const char *path, cst_tensor_order order) {
    if (out)
        *out = NULL;
    CST_ENTER(context);
    if (!out || !path || (order != CST_TENSOR_ORDER_SORTED && order != CST_TENSOR_ORDER_GIVEN))
        return cst_fail(context, CST_ERROR_ARGUMENT,
                        "writing a safetensors file: path, writer and order are required");
    cst_safetensors_writer *writer = cst_alloc(context, 1, sizeof *writer);
    if (!writer)
        return cst_why(context, CST_ERROR_MEMORY);
    writer->order = order;
    writer->path = cst_strdup(context, path);
    cst_status status = writer->path ? CST_OK : CST_ERROR_MEMORY;
    CST_TRY(cst_strings_create(context, &writer->names));
    CST_TRY(cst_strings_create(context, &writer->metadata));
    CST_TRY(cst_output_open(context, &writer->output, path));
    if (status != CST_OK) {
        cst_safetensors_writer_abandon(context, writer);
        return cst_why(context, status);
    }
    *out = writer;
    return CST_OK;
}

void cst_safetensors_writer_abandon(cst_context *context, cst_safetensors_writer *writer) {
    if (!context || !writer)
        return;
    cst_output_abort(context, writer->output);
    cst_strings_free(context, writer->names);
    cst_strings_free(context, writer->metadata);
    cst_free(context, writer->tensors);
    cst_free(context, writer->lengths);
    cst_free(context, writer->places);
    cst_free(context, writer->begins);
    cst_free(context, writer->path);
    cst_free(context, writer);
}

/* Whether a writer takes declarations, and the text is fit for the header. */
static cst_status check_text(cst_context *context, const cst_safetensors_writer *writer,
                             const char *text, const char *what) {
    char quoted[CST_QUOTE_CHARS];
    if (!writer || !text)
        return cst_fail(context, CST_ERROR_ARGUMENT,
                        "declaring a tensor: writer, name and shape are required");
    if (writer->started)
        return cst_fail(context, CST_ERROR_ARGUMENT,
                        "%s: %s '%s' is declared after the first data; declare everything first",
                        writer->path, what, cst_quote(quoted, text));
    size_t length = strlen(text);
    for (size_t at = 0, step = 0; at < length; at += step)
        if ((step = cst_utf8_length((const uint8_t *)text + at, length - at)) == 0)
            return cst_fail(context, CST_ERROR_ARGUMENT, "%s: %s '%s' is not UTF-8", writer->path,
                            what, cst_quote(quoted, text));
    return CST_OK;
}

/* Makes room for one more tensor of `axes` axes. */
static cst_status reserve(cst_context *context, cst_safetensors_writer *writer, int32_t axes) {
    if (writer->count == writer->room) {
        int64_t room = writer->room ? writer->room * 2 : 16;
        cst_declared *tensors =
            cst_grow(context, writer->tensors, (size_t)writer->room, (size_t)room, sizeof *tensors);
        if (!tensors)
            return CST_ERROR_MEMORY;
        writer->tensors = tensors;
        writer->room = room;
    }
    if (writer->length_room - writer->length_count < (size_t)axes) {
        size_t room = 2 * writer->length_room + CST_TENSOR_AXES;
        int64_t *lengths =
            cst_grow(context, writer->lengths, writer->length_room, room, sizeof *lengths);
        if (!lengths)
            return CST_ERROR_MEMORY;
        writer->lengths = lengths;
        writer->length_room = room;
    }
    return CST_OK;
}

/* Bytes of a tensor; an error for a shape that cannot be. */
static cst_status count_bytes(cst_context *context, const char *path, const char *name,
                              cst_dtype dtype, const int64_t *shape, int32_t axes,
                              uint64_t *bytes) {
    char quoted[CST_QUOTE_CHARS];
    int64_t elements = 1;
    bool fits = true;
    bool empty = false;
    for (int32_t a = 0; a < axes; a++) {
        if (shape[a] < 0)
            return cst_fail(context, CST_ERROR_ARGUMENT,
                            "%s: tensor '%s': length %" PRId64 " of axis %d is negative", path,
                            cst_quote(quoted, name), shape[a], (int)a);
        empty = empty || shape[a] == 0;
    }
    for (int32_t a = 0; a < axes && !empty; a++)
        fits = fits && !__builtin_mul_overflow(elements, shape[a], &elements);
    if (!fits || !cst_dtype_size(dtype, empty ? 0 : elements, bytes))
        return cst_fail(context, CST_ERROR_LIMIT,
                        "%s: tensor '%s' has more elements of %s than any file can hold, or its "
                        "size is not a whole number of bytes",
                        path, cst_quote(quoted, name), cst_dtype_name(dtype));
    return CST_OK;
}

cst_status cst_safetensors_writer_add(cst_context *context, cst_safetensors_writer *writer,
                                      const char *name, cst_dtype dtype, const int64_t *shape,
                                      int32_t axes) {
    CST_ENTER(context);
    char quoted[CST_QUOTE_CHARS];
    cst_status status = check_text(context, writer, name, "tensor");
    if (status != CST_OK)
        return status;
    if (axes < 0 || (axes > 0 && !shape) || !cst_dtype_name(dtype) ||
        strcmp(name, "__metadata__") == 0)
        return cst_fail(context, CST_ERROR_ARGUMENT,
                        "%s: tensor '%s': a unique name, a dtype and a shape are required",
                        writer->path, cst_quote(quoted, name));
    if (axes > CST_TENSOR_AXES)
        return cst_fail(context, CST_ERROR_LIMIT,
                        "%s: tensor '%s' has %d axes; at most %d are supported", writer->path,
                        cst_quote(quoted, name), (int)axes, CST_TENSOR_AXES);
    cst_declared tensor = {
        .name = writer->names->count, .shape = writer->length_count, .axes = axes, .dtype = dtype};
    status = count_bytes(context, writer->path, name, dtype, shape, axes, &tensor.bytes);
    CST_TRY(reserve(context, writer, axes));
    CST_TRY(cst_strings_add(context, writer->names, name, strlen(name)));
    if (status != CST_OK)
        return cst_why(context, status);
    if (axes > 0)
        memcpy(writer->lengths + writer->length_count, shape, (size_t)axes * sizeof *shape);
    writer->length_count += (size_t)axes;
    writer->tensors[writer->count++] = tensor;
    return CST_OK;
}

cst_status cst_safetensors_writer_metadata(cst_context *context, cst_safetensors_writer *writer,
                                           const char *key, const char *value) {
    CST_ENTER(context);
    cst_status status = check_text(context, writer, key, "metadata");
    CST_TRY(check_text(context, writer, value, "metadata"));
    CST_TRY(cst_strings_add(context, writer->metadata, key, strlen(key)));
    CST_TRY(cst_strings_add(context, writer->metadata, value, strlen(value)));
    return cst_why(context, status);
}

static cst_status write_bytes(cst_context *context, cst_safetensors_writer *writer,
                              const void *data, size_t size) {
    if (writer->hash)
        cst_hash_add(writer->hash, data, size);
    return cst_output_write(context, writer->output, data, size);
}

cst_status cst_safetensors_writer_start(cst_context *context, cst_safetensors_writer *writer) {
    CST_ENTER(context);
    unsigned char *header = NULL;
    size_t size = 0;
    if (!writer || writer->started)
        return cst_fail(
            context, CST_ERROR_ARGUMENT,
            "starting a safetensors file: a writer that has not been started is required");
    cst_status status = cst_safetensors_compose(context, writer, &header, &size);
    CST_TRY(write_bytes(context, writer, header, size));
    cst_free(context, header);
    writer->started = status == CST_OK;
    writer->header_bytes = size;
    return cst_why(context, status);
}

int64_t cst_safetensors_writer_at(const cst_safetensors_writer *writer, int64_t place) {
    if (!writer || !writer->started || place < 0 || place >= writer->count)
        return -1;
    return writer->places[place];
}

/* ---- the data ---- */

/* Goes past tensors that have all their data, those without any among them. */
static void pass_complete(cst_safetensors_writer *writer) {
    while (writer->place < writer->count &&
           writer->written == writer->tensors[writer->places[writer->place]].bytes) {
        writer->place++;
        writer->written = 0;
    }
}

static const char *tensor_name(const cst_safetensors_writer *writer, int64_t tensor,
                               char quoted[CST_QUOTE_CHARS]) {
    return cst_quote(quoted, cst_strings_at(writer->names, writer->tensors[tensor].name));
}

/* Whether `bytes` further bytes of a tensor may come now. */
static cst_status check_turn(cst_context *context, cst_safetensors_writer *writer, int64_t tensor,
                             uint64_t bytes) {
    char quoted[CST_QUOTE_CHARS];
    char other[CST_QUOTE_CHARS];
    if (tensor < 0 || tensor >= writer->count)
        return cst_fail(context, CST_ERROR_ARGUMENT,
                        "%s: there is no tensor %" PRId64 " of %" PRId64, writer->path, tensor,
                        writer->count);
    if (bytes == 0)
        return CST_OK;
    pass_complete(writer);
    if (writer->place == writer->count || writer->places[writer->place] != tensor)
        return cst_fail(context, CST_ERROR_ARGUMENT,
                        "%s: received data of tensor '%s', but %s%s%s; cst_safetensors_writer_at "
                        "gives the order",
                        writer->path, tensor_name(writer, tensor, quoted),
                        writer->place == writer->count ? "all data were" : "the next tensor is '",
                        writer->place == writer->count
                            ? " complete"
                            : tensor_name(writer, writer->places[writer->place], other),
                        writer->place == writer->count ? "" : "'");
    if (bytes > writer->tensors[tensor].bytes - writer->written)
        return cst_fail(context, CST_ERROR_ARGUMENT,
                        "%s: tensor '%s' has %" PRIu64 " bytes; %" PRIu64 " were given and %" PRIu64
                        " more arrived",
                        writer->path, tensor_name(writer, tensor, quoted),
                        writer->tensors[tensor].bytes, writer->written, bytes);
    return CST_OK;
}

cst_status cst_safetensors_writer_put(cst_context *context, cst_safetensors_writer *writer,
                                      int64_t tensor, const void *data, int64_t count) {
    CST_ENTER(context);
    char quoted[CST_QUOTE_CHARS];
    if (!writer || count < 0 || (!data && count > 0))
        return cst_fail(context, CST_ERROR_ARGUMENT,
                        "writing a tensor: writer and data are required");
    cst_status status = writer->started ? CST_OK : cst_safetensors_writer_start(context, writer);
    CST_TRY(check_turn(context, writer, tensor, (uint64_t)count));
    if (status != CST_OK || count == 0)
        return status;
    int64_t bad =
        writer->tensors[tensor].dtype == CST_DTYPE_BOOL ? cst_dtype_bad_bool(data, count) : -1;
    if (bad >= 0)
        return cst_fail(context, CST_ERROR_ARGUMENT,
                        "%s: tensor '%s' is BOOL, and its element %" PRIu64 " is %d, not 0 or 1",
                        writer->path, tensor_name(writer, tensor, quoted),
                        writer->written + (uint64_t)bad, ((const unsigned char *)data)[bad]);
    status = write_bytes(context, writer, data, (size_t)count);
    if (status == CST_OK)
        writer->written += (uint64_t)count;
    return cst_why(context, status);
}

/* Of narrow or wide, whichever is not NULL. */
static cst_status put_numbers(cst_context *context, cst_safetensors_writer *writer, int64_t tensor,
                              const float *narrow, const double *wide, int64_t count) {
    CST_ENTER(context);
    unsigned char raw[PIECE * sizeof(double)];
    char quoted[CST_QUOTE_CHARS];
    if (!writer || count < 0 || (!narrow && !wide && count > 0))
        return cst_fail(context, CST_ERROR_ARGUMENT,
                        "writing a tensor: writer and values are required");
    cst_status status = writer->started ? CST_OK : cst_safetensors_writer_start(context, writer);
    CST_TRY(check_turn(context, writer, tensor, 0));
    if (status != CST_OK)
        return status;
    cst_dtype dtype = writer->tensors[tensor].dtype;
    uint64_t bytes = 0;
    if (dtype != CST_DTYPE_F64 && dtype != CST_DTYPE_F32 && dtype != CST_DTYPE_F16 &&
        dtype != CST_DTYPE_BF16)
        return cst_fail(
            context, CST_ERROR_UNSUPPORTED,
            "%s: tensor '%s' is %s; numbers can only be rounded to F64, F32, F16 and BF16",
            writer->path, tensor_name(writer, tensor, quoted), cst_dtype_name(dtype));
    if (!cst_dtype_size(dtype, count, &bytes))
        return cst_fail(context, CST_ERROR_ARGUMENT, "%s: too many values", writer->path);
    if (!SWAPPED && narrow && dtype == CST_DTYPE_F32)
        return cst_safetensors_writer_put(context, writer, tensor, narrow, (int64_t)bytes);
    if (!SWAPPED && wide && dtype == CST_DTYPE_F64)
        return cst_safetensors_writer_put(context, writer, tensor, wide, (int64_t)bytes);
    status = check_turn(context, writer, tensor, bytes);
    int64_t item = cst_dtype_bits(dtype) / 8;
    for (int64_t at = 0; status == CST_OK && at < count; at += PIECE) {
        int64_t part = count - at < PIECE ? count - at : PIECE;
        if (narrow)
            cst_dtype_store_f32(dtype, narrow + at, part, raw);
        else
            cst_dtype_store_f64(dtype, wide + at, part, raw);
        status = cst_safetensors_writer_put(context, writer, tensor, raw, part * item);
    }
    return cst_why(context, status);
}

cst_status cst_safetensors_writer_put_f32(cst_context *context, cst_safetensors_writer *writer,
                                          int64_t tensor, const float *values, int64_t count) {
    return put_numbers(context, writer, tensor, values, NULL, count);
}

cst_status cst_safetensors_writer_put_f64(cst_context *context, cst_safetensors_writer *writer,
                                          int64_t tensor, const double *values, int64_t count) {
    return put_numbers(context, writer, tensor, NULL, values, count);
}

/* ---- in any order ---- */

cst_status cst_safetensors_writer_scatter(cst_context *context, cst_safetensors_writer *writer) {
    if (!cst_output_is_file(writer->output))
        return cst_fail(
            context, CST_ERROR_UNSUPPORTED,
            "%s: is a pipe or device, but this format can only be written to a file; name a file",
            writer->path);
    writer->begins = cst_alloc(context, (size_t)writer->count, sizeof *writer->begins);
    if (!writer->begins)
        return CST_ERROR_MEMORY;
    for (int64_t i = 0; i < writer->count; i++) {
        int64_t tensor = writer->places[i];
        writer->begins[tensor] = writer->header_bytes + writer->total;
        writer->total += writer->tensors[tensor].bytes;
    }
    writer->place = writer->count;
    return CST_OK;
}

cst_status cst_safetensors_writer_put_at(cst_context *context, cst_safetensors_writer *writer,
                                         int64_t tensor, int64_t first, const void *data,
                                         int64_t count) {
    (void)__atomic_add_fetch(&writer->given, (uint64_t)count, __ATOMIC_RELAXED);
    return cst_output_write_at(context, writer->output, writer->begins[tensor] + (uint64_t)first,
                               data, (size_t)count);
}

cst_status cst_safetensors_writer_finish(cst_context *context, cst_safetensors_writer *writer) {
    CST_ENTER(context);
    char quoted[CST_QUOTE_CHARS];
    if (!writer)
        return cst_fail(context, CST_ERROR_ARGUMENT,
                        "finishing a safetensors file: a writer is required");
    cst_status status = writer->started ? CST_OK : cst_safetensors_writer_start(context, writer);
    if (status == CST_OK) {
        pass_complete(writer);
        if (writer->place < writer->count) {
            int64_t tensor = writer->places[writer->place];
            status = cst_fail(context, CST_ERROR_ARGUMENT,
                              "%s: tensor '%s' has %" PRIu64 " bytes, of which %" PRIu64
                              " were given; nothing was written",
                              writer->path, tensor_name(writer, tensor, quoted),
                              writer->tensors[tensor].bytes, writer->written);
        }
    }
    if (status == CST_OK && writer->given != writer->total)
        status = cst_fail(context, CST_ERROR_INTERNAL,
                          "%s: %" PRIu64 " bytes of data were given, but the tensors need %" PRIu64,
                          writer->path, writer->given, writer->total);
    if (status == CST_OK) {
        status = cst_output_commit(context, writer->output);
        writer->output = NULL;
    }
    cst_safetensors_writer_abandon(context, writer);
    return cst_why(context, status);
}
