/*
 * Fuzz target: npz archives, the only member and members by name. Checksums of members are made to
 * fit after a mutation, so that it is the arrays that are read. src/data/files/zip.c,
 * src/data/readers/npy.h.
 */
#include "common/fuzz.h"
#include "data/readers/npy.h"

#include <stdlib.h>
#include <string.h>
#include <zlib.h>

enum { INFLATED_MAX = 1 << 20 };

/* Memory may grow with what a member declares, which is at most 1,100 times its bytes, each of them
 * eight as a double. */
static const size_t FACTOR = (size_t)64 * 1100;

static void read_array(cst_context *context, const char *path) {
    cst_npy *npy = NULL;
    cst_strings *strings = NULL;
    CST_SCOPE(scope);
    if (fuzz_good(context, cst_npy_open(context, scope, &npy, path, (uint64_t)1 << 24), false)) {
        int64_t rows = cst_npy_rows(npy);
        size_t cells = 0;
        if (cst_size_mul((size_t)rows, (size_t)cst_npy_width(npy), &cells) && cells > 0 &&
            !cst_npy_is_text(npy)) {
            double *all = cst_alloc(context, cells, sizeof *all);
            FUZZ_CHECK(all != NULL, "room for what the archive declares");
            /* The last row, then everything: backwards, which inflates again. */
            int64_t last = rows - 1;
            (void)fuzz_good(context, cst_npy_read_rows_f64(context, npy, last, 1, all), false);
            (void)fuzz_good(context, cst_npy_read_rows_f64(context, npy, 0, rows, all), false);
            cst_free(context, all);
        } else if (cst_npy_is_text(npy)) {
            (void)(fuzz_good(context, cst_strings_take(context, scope, &strings), false) &&
                   fuzz_good(context, cst_npy_read_strings(context, npy, strings), false));
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const char *const members[] = {"", "#a", ":labels", "#x.npy"};
    const char *archive = fuzz_file("f.npz", data, size);
    for (size_t m = 0; m < sizeof members / sizeof *members; m++) {
        cst_context *context = fuzz_begin(size, FACTOR);
        char path[600];
        (void)strcpy(path, archive);
        (void)strcat(path, members[m]);
        read_array(context, path);
        fuzz_end(context);
    }
    return 0;
}

/* ---- checksums ---- */

/* CRC and size of what `bytes` inflate to; false where they do not. */
static int inflated(const uint8_t *bytes, size_t size, uint32_t *crc, uint32_t *length) {
    static uint8_t out[INFLATED_MAX];
    z_stream stream = {.next_in = (Bytef *)(uintptr_t)bytes,
                       .avail_in = (uInt)size,
                       .next_out = out,
                       .avail_out = sizeof out};
    if (inflateInit2(&stream, -MAX_WBITS) != Z_OK)
        return 0;
    int end = inflate(&stream, Z_FINISH);
    *length = (uint32_t)stream.total_out;
    *crc = (uint32_t)crc32(0, out, *length);
    (void)inflateEnd(&stream);
    return end == Z_STREAM_END;
}

/* One record of the central directory and the local header that it names. */
static void repair_entry(uint8_t *data, size_t size, uint8_t *record) {
    uint32_t method = fuzz_le(record + 10, 2);
    uint32_t packed = fuzz_le(record + 20, 4);
    uint32_t local = fuzz_le(record + 42, 4);
    if (local > size || size - local < 30)
        return;
    size_t begin =
        (size_t)local + 30 + fuzz_le(data + local + 26, 2) + fuzz_le(data + local + 28, 2);
    if (begin > size || packed > size - begin)
        return;
    uint32_t length = packed;
    uint32_t crc = (uint32_t)crc32(0, data + begin, packed);
    if (method == 8 && !inflated(data + begin, packed, &crc, &length))
        return;
    fuzz_put_le(record + 16, 4, crc);
    fuzz_put_le(record + 24, 4, length);
    fuzz_put_le(data + local + 14, 4, crc);
    fuzz_put_le(data + local + 22, 4, length);
}

size_t fuzz_repair(uint8_t *data, size_t size, size_t room) {
    (void)room;
    for (size_t at = 0; at + 46 <= size; at++)
        if (memcmp(data + at, "PK\1\2", 4) == 0)
            repair_entry(data, size, data + at);
    return size;
}
