/*
 * Fuzz target: whole folders, a manifest and the files that it names. An input is a bundle of lines
 * "file NAME BYTES", each followed by that many bytes and a line end; the mutator changes one file
 * of it. Whatever opens is loaded and checked. include/corestack/pool.h.
 */
#include "common/fuzz.h"
#include "detection/scene.h"

#include <corestack/pool.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FILES_MAX = 24, NAME_CHARS = 48, ROWS_MAX = 1 << 16 };

typedef struct part {
    char name[NAME_CHARS];
    size_t at; /* of its first byte in the bundle */
    size_t size;
} part;

/* Names stay in the folder and are no more than two levels deep. */
static bool good_name(const char *name) {
    int levels = 0;
    for (const char *c = name; *c; c++) {
        levels += *c == '/';
        if (!strchr("abcdefghijklmnopqrstuvwxyz0123456789._-/", *c) ||
            (*c == '/' && (c == name || c[1] == '\0' || c[1] == '/')))
            return false;
    }
    return name[0] && name[0] != '.' && !strstr(name, "..") && !strstr(name, "/.") && levels <= 1;
}

static int unpack(const uint8_t *data, size_t size, part *parts) {
    int count = 0;
    for (size_t at = 0; at < size && count < FILES_MAX;) {
        const uint8_t *end = memchr(data + at, '\n', size - at);
        char line[96];
        part *p = &parts[count];
        size_t length = end ? (size_t)(end - (data + at)) : 0;
        if (length == 0 || length >= sizeof line)
            break;
        memcpy(line, data + at, length);
        line[length] = '\0';
        if (sscanf(line, "file %47s %zu", p->name, &p->size) != 2 || !good_name(p->name))
            break;
        p->at = at + length + 1;
        if (p->size > size - p->at)
            p->size = size - p->at;
        at = p->at + p->size + 1;
        count++;
    }
    return count;
}

/* ---- what is loaded -------------------------------------------------------------------------- */

static void check_rows(cst_context *context, const cst_pool *pool, const char *split) {
    int64_t rows = cst_pool_rows(pool, split);
    int32_t classes = cst_pool_classes(pool);
    bool values = cst_pool_task(pool) == CST_TASK_REGRESSION;
    const int32_t *labels = cst_pool_labels(pool, split);
    FUZZ_CHECK(rows >= 0 && classes >= 1, "a loaded split has rows and classes");
    for (int64_t i = 0; labels && cst_pool_task(pool) == CST_TASK_CLASSIFICATION && i < rows; i++)
        FUZZ_CHECK(labels[i] >= 0 && labels[i] < classes, "labels are classes");
    if (rows > ROWS_MAX / classes)
        return;
    float *out = cst_alloc(context, (size_t)rows * (size_t)classes, sizeof *out);
    FUZZ_CHECK(out != NULL, "room for the rows");
    for (int32_t k = 0; k < cst_pool_members(pool); k++) {
        FUZZ_CHECK(cst_pool_read(context, pool, split, k, 0, rows, out) == CST_OK, "rows");
        for (int64_t i = 0; i < rows; i++) {
            double sum = 0;
            for (int32_t c = 0; c < classes; c++) {
                float value = out[i * classes + c];
                FUZZ_CHECK(isfinite(value) && (values || (value >= 0 && value <= 1)), "in range");
                sum += (double)value;
            }
            FUZZ_CHECK(values || fabs(sum - 1) < 1e-5, "rows sum to 1");
        }
    }
    cst_free(context, out);
}

static void load(cst_context *context, cst_pool *pool) {
    for (int32_t s = 0; s < cst_pool_splits(pool); s++) {
        const char *split = cst_pool_split_name(pool, s);
        cst_box_split boxes = {0};
        if (cst_pool_task(pool) == CST_TASK_DETECTION) {
            (void)fuzz_good(context, cst_box_split_open(context, pool, split, NULL, 0, &boxes),
                            false);
            cst_box_split_close(context, &boxes);
        } else if (fuzz_good(context, cst_pool_load(context, pool, split), false)) {
            check_rows(context, pool, split);
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const char *const packed[] = {".npz", ".png"};
    part parts[FILES_MAX];
    int count = unpack(data, size, parts);
    size_t factor = 256;
    for (int i = 0; i < count; i++) {
        (void)fuzz_file(parts[i].name, data + parts[i].at, parts[i].size);
        for (size_t p = 0; p < 2; p++)
            if (strstr(parts[i].name, packed[p]))
                factor = (size_t)64 * 1100;
    }
    cst_context *context = fuzz_begin(size, factor);
    cst_pool *pool = NULL;
    if (fuzz_good(context, cst_pool_open(context, &pool, fuzz_folder(), NULL), false))
        load(context, pool);
    cst_pool_free(context, pool);
    fuzz_end(context);
    fuzz_clear();
    return 0;
}

/* ---- the mutator ----------------------------------------------------------------------------- */

#ifdef CST_FUZZ_ENGINE
/* The header of an npy file may be said to be as long as its first line. */
static void fit_header(uint8_t *bytes, size_t size) {
    const uint8_t *end = size > 10 ? memchr(bytes + 10, '\n', size - 10) : NULL;
    if (end && memcmp(bytes, "\x93NUMPY", 6) == 0)
        fuzz_put_le(bytes + 8, 2, (uint32_t)(end - bytes) + 1 - 10);
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t room, unsigned seed) {
    static uint8_t file[1 << 16];
    part parts[FILES_MAX];
    int count = unpack(data, size, parts);
    if (count == 0 || seed % 16 == 0)
        return LLVMFuzzerMutate(data, size, room);
    part *p = &parts[seed / 16 % (unsigned)count];
    size_t head = p->at - (strlen(p->name) + 7); /* "file NAME " ends before the number */
    while (head > 0 && data[head - 1] != '\n')
        head--;
    size_t tail = p->at + p->size;
    size_t others = size - (tail - head);
    if (p->size > sizeof file / 2 || others + 96 >= room)
        return LLVMFuzzerMutate(data, size, room);
    size_t space = room - others - 96 < sizeof file ? room - others - 96 : sizeof file;
    if (p->size > space)
        return LLVMFuzzerMutate(data, size, room);
    memcpy(file, data + p->at, p->size);
    size_t now = LLVMFuzzerMutate(file, p->size, space);
    if (seed & 1u << 24)
        fit_header(file, now);
    char line[96];
    size_t length = (size_t)snprintf(line, sizeof line, "file %s %zu\n", p->name, now);
    memmove(data + head + length + now, data + tail, size - tail);
    memcpy(data + head, line, length);
    memcpy(data + head + length, file, now);
    return others + length + now;
}
#endif
