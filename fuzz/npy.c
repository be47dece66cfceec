/*
 * Fuzz target: npy files, read as numbers of both widths, integers and strings. The mutator also
 * writes headers whose length and shape fit the bytes that follow. src/data/readers/npy.h.
 */
#include "data/readers/npy.h"
#include "common/fuzz.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { STEP = 5, STEPS_MAX = 64 };

/* Rows in steps are the rows read at once, and a float32 is what the double rounds to. */
static void read_numbers(cst_context *context, cst_npy *npy, const cst_npy *again) {
    int64_t rows = cst_npy_rows(npy);
    int64_t width = cst_npy_width(npy);
    size_t cells = 0;
    if (!cst_size_mul((size_t)rows, (size_t)width, &cells) || cells == 0)
        return;
    double *all = cst_alloc(context, cells, sizeof *all);
    float *some = cst_alloc(context, (size_t)width * STEP, sizeof *some);
    unsigned char *raw = cst_alloc(context, (size_t)width, npy->item);
    FUZZ_CHECK(all && some && raw, "room for what the file holds");
    if (fuzz_good(context, cst_npy_read_rows_f64(context, npy, 0, rows, all), false)) {
        for (int64_t step = 0; step < STEPS_MAX && step * STEP < rows; step++) {
            int64_t first = rows - (step + 1) * STEP < 0 ? 0 : rows - (step + 1) * STEP;
            int64_t count = rows - first < STEP ? rows - first : STEP;
            FUZZ_CHECK(cst_npy_read_rows_f32(context, npy, first, count, some) == CST_OK,
                       "what was read can be read again");
            for (int64_t i = 0; i < count * width; i++) {
                float wanted = (float)all[first * width + i];
                FUZZ_CHECK(wanted == some[i] || (isnan(wanted) && isnan(some[i])),
                           "both widths are the same number");
            }
        }
        if (cst_npy_streams(npy) && cst_npy_is_f32(npy)) {
            FUZZ_CHECK(cst_npy_fetch(context, again, rows - 1, 1, raw) == CST_OK, "a row");
            cst_npy_decode_f32(again, raw, (size_t)width, some);
            for (int64_t i = 0; i < width; i++) {
                float wanted = (float)all[(rows - 1) * width + i];
                FUZZ_CHECK(wanted == some[i] || (isnan(wanted) && isnan(some[i])),
                           "a fetched row is the row");
            }
        }
    }
    cst_free(context, raw);
    cst_free(context, some);
    cst_free(context, all);
}

static void read_vectors(cst_context *context, cst_npy *npy) {
    int64_t *numbers = NULL;
    int64_t count = 0;
    cst_strings *strings = NULL;
    CST_SCOPE(scope);
    if (fuzz_good(context, cst_npy_read_i64(context, scope, npy, &numbers, &count), false))
        FUZZ_CHECK(count == cst_npy_rows(npy), "as many integers as rows");
    if (fuzz_good(context, cst_strings_take(context, scope, &strings), false) &&
        fuzz_good(context, cst_npy_read_strings(context, npy, strings), false))
        FUZZ_CHECK(strings->count == cst_npy_rows(npy), "as many strings as rows");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const char *path = fuzz_file("a.npy", data, size);
    for (int axes = 1; axes <= 2; axes++) {
        cst_context *context = fuzz_begin(size, 64);
        cst_npy *npy = NULL;
        cst_scope scope = {0};
        if (fuzz_good(context, cst_npy_open(context, &scope, &npy, path, 0), false)) {
            npy->row_axes = axes;
            if (!cst_npy_is_text(npy))
                read_numbers(context, npy, npy);
            read_vectors(context, npy);
        }
        cst_scope_free(&scope);
        fuzz_end(context);
    }
    return 0;
}

/* ---- the mutator ---- */

/* The header's length reaches to its first line end, as NumPy writes it. */
size_t fuzz_repair(uint8_t *data, size_t size, size_t room) {
    (void)room;
    size_t start = size > 6 && data[6] > 1 ? 12 : 10;
    if (size <= start)
        return size;
    memcpy(data, "\x93NUMPY", 6);
    const uint8_t *end = memchr(data + start, '\n', size - start);
    size_t length = end ? (size_t)(end - data) + 1 - start : size - start;
    fuzz_put_le(data + 8, start == 12 ? 4 : 2, (uint32_t)length);
    return size;
}

#ifdef CST_FUZZ_ENGINE
/* A new header over the old bytes: some type and shape, and as many bytes as they need. */
static size_t write_array(uint8_t *data, size_t size, size_t room, unsigned seed) {
    static const char *const types[] = {"<f4", ">f4", "<f8", ">f8", "<f2", "|u1", "<u2", "<i8",
                                        "|i1", "|b1", "|S3", "<U2", ">U1", ">i4", ">f2", "<u8"};
    static const size_t items[] = {4, 4, 8, 8, 2, 1, 2, 8, 1, 1, 3, 8, 4, 4, 2, 8};
    unsigned type = seed % 16;
    unsigned dims = seed / 16 % 4;
    size_t shape[3] = {1 + seed / 64 % 11, 1 + seed / 704 % 5, 1 + seed / 3520 % 3};
    size_t bytes = items[type];
    char lengths[64] = "";
    for (unsigned d = 0; d < dims; d++) {
        size_t used = strlen(lengths);
        (void)snprintf(lengths + used, sizeof lengths - used, "%zu,", shape[d]);
        bytes *= shape[d];
    }
    char header[128];
    int length =
        snprintf(header, sizeof header, "{'descr': '%s', 'fortran_order': %s, 'shape': (%s), }\n",
                 types[type], seed & 1u << 20 ? "True" : "False", lengths);
    size_t begin = 10 + (size_t)length;
    if (begin + bytes > room)
        return LLVMFuzzerMutate(data, size, room);
    uint8_t values[2048] = {0};
    size_t kept = size < sizeof values ? size : sizeof values;
    memcpy(values, data + size - kept, kept);
    for (size_t i = 0; i < bytes; i++)
        data[begin + i] = values[i % sizeof values];
    memcpy(data, "\x93NUMPY\x01\x00", 8);
    fuzz_put_le(data + 8, 2, (uint32_t)length);
    memcpy(data + 10, header, (size_t)length);
    return begin + bytes;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t room, unsigned seed) {
    if (seed % 4 == 0)
        return write_array(data, size, room, seed / 4);
    size_t mutated = LLVMFuzzerMutate(data, size, room);
    return seed % 4 == 1 ? mutated : fuzz_repair(data, mutated, room);
}
#endif
