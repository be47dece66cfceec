/*
 * Model files from disk and from memory.
 * Before prediction; the bytes are decode.c's business.
 * docs/model-format.md.
 */
#include "base/retry.h"
#include "model/format.h"
#include "model/stack.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* How many bytes of the file are worth reading, going by its first `size`: what the header
 * announces and one more, so that a longer file shows; for another kind of file, none. */
static cst_status reading_limit(cst_context *context, const char *path, const uint8_t *bytes,
                                size_t size, size_t *limit) {
    *limit = size;
    if (size < CST_MODEL_HEADER_BYTES || memcmp(bytes, CST_MODEL_MAGIC, CST_MODEL_MAGIC_BYTES) != 0)
        return CST_OK;
    uint64_t length = 0;
    for (size_t i = 0; i < 8; i++)
        length |= (uint64_t)bytes[16 + i] << (8 * i);
    if (length > CST_MODEL_BYTES_MAX)
        return cst_fail(context, CST_ERROR_LIMIT,
                        "%s: byte 16: %llu bytes are announced, and no corestack model has more "
                        "than %zu",
                        path, (unsigned long long)length, CST_MODEL_BYTES_MAX);
    *limit = (size_t)length + 1;
    return CST_OK;
}

/* The bytes of `file`. Memory grows with what is there, whatever the header announces; the size
 * that the system gives is not asked for, since the file may be a pipe. */
static cst_status read_all(cst_context *context, FILE *file, const char *path, uint8_t **bytes,
                           size_t *size) {
    size_t capacity = (size_t)1 << 16;
    size_t limit = SIZE_MAX;
    size_t used = 0;
    uint8_t *buffer = cst_alloc(context, capacity, 1);
    cst_status status = buffer ? CST_OK : CST_ERROR_MEMORY;
    while (status == CST_OK) {
        size_t wanted = capacity < limit ? capacity : limit;
        size_t got = wanted > used ? fread(buffer + used, 1, wanted - used, file) : 0;
        if (ferror(file))
            status = cst_fail(context, CST_ERROR_IO, "%s: byte %zu: reading failed: %s", path,
                              used + got, strerror(errno));
        else if (used == 0)
            status = reading_limit(context, path, buffer, got, &limit);
        used += got;
        if (status != CST_OK || used < wanted || used >= limit)
            break;
        uint8_t *grown = cst_grow(context, buffer, used, 4 * capacity, 1);
        if (!grown) {
            status = CST_ERROR_MEMORY;
            break;
        }
        buffer = grown;
        capacity *= 4;
    }
    if (status == CST_OK) {
        *bytes = buffer;
        *size = used;
    } else {
        cst_free(context, buffer);
    }
    return status;
}

cst_status cst_model_load(cst_context *context, cst_model **out, const char *path) {
    if (out)
        *out = NULL;
    CST_ENTER(context);
    if (!out)
        return cst_fail(context, CST_ERROR_ARGUMENT, "cst_model_load: no place for the result");
    if (!path)
        return cst_fail(context, CST_ERROR_ARGUMENT, "cst_model_load: no path is given");
    FILE *file = cst_fopen(path, "rb");
    if (!file)
        return cst_fail(context, CST_ERROR_IO, "%s: cannot be opened: %s", path, strerror(errno));
    uint8_t *bytes = NULL;
    size_t size = 0;
    cst_status status = read_all(context, file, path, &bytes, &size);
    (void)fclose(file);
    if (status == CST_OK)
        status = cst_stack_decode(context, path, bytes, size, out);
    cst_free(context, bytes);
    return status;
}

cst_status cst_model_load_memory(cst_context *context, cst_model **out, const void *bytes,
                                 size_t size) {
    if (out)
        *out = NULL;
    CST_ENTER(context);
    if (!out)
        return cst_fail(context, CST_ERROR_ARGUMENT,
                        "cst_model_load_memory: no place for the result");
    if (!bytes && size > 0)
        return cst_fail(context, CST_ERROR_ARGUMENT, "cst_model_load_memory: no bytes are given");
    return cst_stack_decode(context, "model in memory", bytes, size, out);
}
