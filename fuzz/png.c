/*
 * Fuzz target: PNG label maps. Checksums of chunks are made to fit after a mutation. What is read
 * and can be written is read back the same. src/data/readers/cases.h.
 */
#include "../tests/support/png_labels.h"
#include "common/fuzz.h"

#include <string.h>
#include <zlib.h>

static void write_back(cst_context *context, const int32_t *labels, int64_t height, int64_t width) {
    int32_t *again = NULL;
    int64_t shape[2] = {0, 0};
    const char *path = fuzz_file("back.png", "", 0);
    FUZZ_CHECK(cst_png_write_labels(context, path, labels, height, width, 16, NULL) == CST_OK,
               "labels that were read can be written");
    FUZZ_CHECK(png_labels(context, path, &again, &shape[0], &shape[1]) == CST_OK &&
                   shape[0] == height && shape[1] == width &&
                   memcmp(again, labels, (size_t)(height * width) * sizeof *labels) == 0,
               "labels that were written are read back");
    cst_free(context, again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    /* A byte holds at most 1,100 * 8 pixels of one bit. Each is a label of four bytes, and of two
     * rows, which may be all, a byte more in libpng. */
    cst_context *context = fuzz_begin(size, (size_t)48 * 1100);
    const char *path = fuzz_file("a.png", data, size);
    int32_t *labels = NULL;
    int64_t height = 0;
    int64_t width = 0;
    int64_t said[2] = {0, 0};
    bool sized = fuzz_good(context, cst_png_size(context, path, 0, &said[0], &said[1]), false);
    if (fuzz_good(context, png_labels(context, path, &labels, &height, &width), false)) {
        FUZZ_CHECK(sized && said[0] == height && said[1] == width, "the size is that of the map");
        for (int64_t i = 0; i < height * width; i++)
            FUZZ_CHECK(labels[i] >= 0 && labels[i] < 1 << 16, "labels fit 16 bits");
        if (height * width <= 4096)
            write_back(context, labels, height, width);
    }
    cst_free(context, labels);
    fuzz_end(context);
    return 0;
}

static uint32_t big_endian(const uint8_t *from) {
    return (uint32_t)from[0] << 24 | (uint32_t)from[1] << 16 | (uint32_t)from[2] << 8 | from[3];
}

size_t fuzz_repair(uint8_t *data, size_t size, size_t room) {
    (void)room;
    for (size_t at = 8; at + 12 <= size;) {
        uint32_t length = big_endian(data + at);
        if (length > size - at - 12)
            break;
        uint32_t crc = (uint32_t)crc32(0, data + at + 4, length + 4);
        for (int i = 0; i < 4; i++)
            data[at + 8 + length + (size_t)i] = (uint8_t)(crc >> (24 - 8 * i));
        at += (size_t)length + 12;
    }
    return size;
}
