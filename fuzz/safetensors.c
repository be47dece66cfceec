/*
 * Fuzz target: safetensors files, read from a file and from memory, whole and in parts. The mutator
 * also writes headers whose tensors fit the bytes that follow. src/data/readers/safetensors.h.
 */
#include "data/readers/safetensors.h"
#include "common/fuzz.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { STEP = 7, TENSORS_MAX = 40 };

static bool same(double a, double b) {
    return a == b || (isnan(a) && isnan(b));
}

/* Numbers in steps are those read at once, and a float32 is what the double rounds to. */
static void read_numbers(cst_context *context, const cst_safetensors *file, int64_t tensor) {
    int64_t count = cst_safetensors_elements(file, tensor);
    double *all = cst_alloc(context, (size_t)count, sizeof *all);
    float *narrow = cst_alloc(context, (size_t)count, sizeof *narrow);
    FUZZ_CHECK(all && narrow, "room for what the file holds");
    if (fuzz_good(context, cst_safetensors_read_f64(context, file, tensor, 0, count, all), false)) {
        FUZZ_CHECK(cst_safetensors_read_f32(context, file, tensor, 0, count, narrow) == CST_OK,
                   "what was read can be read again");
        for (int64_t i = 0; i < count; i++)
            FUZZ_CHECK(same((double)(float)all[i], (double)narrow[i]),
                       "both widths are one number");
        int64_t first = count > STEP ? count - STEP : 0;
        double some[STEP];
        FUZZ_CHECK(cst_safetensors_read_f64(context, file, tensor, first, count - first, some) ==
                       CST_OK,
                   "a part can be read");
        for (int64_t i = first; i < count; i++)
            FUZZ_CHECK(same(all[i], some[i - first]), "a part is the same as in the whole");
    }
    cst_free(context, all);
    cst_free(context, narrow);
}

static uint64_t offset_of(const cst_safetensors *file, int64_t tensor) {
    return file->data_offset + file->tensors[tensor].begin;
}

/* What is known of a tensor holds together, and its bytes lie in the file. */
static void check_tensor(const cst_safetensors *file, int64_t tensor, size_t size) {
    int32_t axes = 0;
    const int64_t *shape = cst_safetensors_shape(file, tensor, &axes);
    cst_dtype dtype = cst_safetensors_dtype(file, tensor);
    int64_t bytes = cst_safetensors_bytes(file, tensor);
    uint64_t offset = offset_of(file, tensor);
    double elements = 1;
    FUZZ_CHECK(cst_safetensors_find(file, cst_safetensors_name(file, tensor)) == tensor,
               "a tensor is found by its name");
    FUZZ_CHECK(shape && axes >= 0 && axes <= CST_TENSOR_AXES, "a shape");
    for (int32_t a = 0; a < axes; a++)
        elements *= (double)shape[a];
    FUZZ_CHECK((double)cst_safetensors_elements(file, tensor) == elements, "lengths multiply");
    FUZZ_CHECK((double)bytes * 8 == elements * cst_dtype_bits(dtype),
               "bytes are those of the type");
    FUZZ_CHECK(offset >= 8 && offset + (uint64_t)bytes <= size, "data lie in the file");
}

/* As a file of a pool: the only tensor, or a refusal. */
static void read_as_array(cst_context *context, const char *path) {
    cst_npy *npy = NULL;
    int64_t *numbers = NULL;
    int64_t count = 0;
    CST_SCOPE(scope);
    if (fuzz_good(context, cst_npy_open(context, scope, &npy, path, 0), false) &&
        fuzz_good(context, cst_npy_read_i64(context, scope, npy, &numbers, &count), false))
        FUZZ_CHECK(count == cst_npy_rows(npy), "as many integers as rows");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const char *path = fuzz_file("a.safetensors", data, size);
    cst_context *context = fuzz_begin(size, 64);
    cst_safetensors *file = NULL;
    if (fuzz_good(context, cst_safetensors_open(context, &file, path), false)) {
        int64_t count = cst_safetensors_count(file);
        for (int64_t t = 0; t < count; t++)
            check_tensor(file, t, size);
        for (int64_t t = 0; t < count && t < TENSORS_MAX; t++)
            read_numbers(context, file, t);
    }
    cst_safetensors_close(context, file);
    read_as_array(context, path);
    fuzz_end(context);
    return 0;
}

/* ---- the mutator ---- */

/* The header's length reaches to the end of its object. */
size_t fuzz_repair(uint8_t *data, size_t size, size_t room) {
    (void)room;
    int depth = 0;
    bool text = false;
    for (size_t at = 8; at < size; at++) {
        if (text && data[at] == '\\')
            at++;
        else if (data[at] == '"')
            text = !text;
        else if (!text && data[at] == '{')
            depth++;
        else if (!text && data[at] == '}' && --depth == 0) {
            memset(data, 0, 8);
            fuzz_put_le(data, 4, (uint32_t)(at - 7));
            break;
        }
    }
    return size;
}

#ifdef CST_FUZZ_ENGINE
/* A new header over the old bytes: a few tensors of some types and shapes, and as many bytes as
 * they need. */
static size_t write_tensors(uint8_t *data, size_t size, size_t room, unsigned seed) {
    char header[1024];
    unsigned count = seed % 4;
    size_t used = (size_t)snprintf(header, sizeof header, "{");
    size_t begin = 0;
    for (unsigned t = 0; t < count; t++) {
        seed = seed * 1103515245u + 12345u;
        cst_dtype dtype = (cst_dtype)(seed / 65536 % 22);
        unsigned rows = seed / 64 % 5;
        unsigned columns = 4 * (1 + seed / 512 % 3); /* whole bytes of every type */
        size_t bytes = (size_t)rows * columns * (size_t)cst_dtype_bits(dtype) / 8;
        int wrote = snprintf(
            header + used, sizeof header - used,
            "%s\"%c\":{\"dtype\":\"%s\",\"shape\":[%u,%u],\"data_offsets\":[%zu,%zu]}",
            t ? "," : "", 'a' + (int)t, cst_dtype_name(dtype), rows, columns, begin, begin + bytes);
        used += (size_t)wrote;
        begin += bytes;
    }
    used += (size_t)snprintf(header + used, sizeof header - used, "}");
    if (8 + used + begin > room)
        return LLVMFuzzerMutate(data, size, room);
    uint8_t values[1024] = {0};
    size_t kept = size < sizeof values ? size : sizeof values;
    memcpy(values, data + size - kept, kept);
    for (size_t i = 0; i < begin; i++)
        data[8 + used + i] = values[i % sizeof values];
    memset(data, 0, 8);
    fuzz_put_le(data, 4, (uint32_t)used);
    memcpy(data + 8, header, used);
    return 8 + used + begin;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t room, unsigned seed) {
    if (seed % 4 == 0)
        return write_tensors(data, size, room, seed / 4);
    size_t mutated = LLVMFuzzerMutate(data, size, room);
    return seed % 4 == 1 ? mutated : fuzz_repair(data, mutated, room);
}
#endif
