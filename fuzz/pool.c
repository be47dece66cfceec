/*
 * Fuzz target: whole folders, a manifest and the files that it names. An input is a bundle of lines
 * "file NAME BYTES", each followed by that many bytes and a line end; the mutator changes one file
 * of it. A file "config" is not put into the folder: its bytes are what the caller says of the
 * pool. Whatever opens is loaded and checked. include/corestack/pool.h.
 */
#include "common/fuzz.h"
#include "tasks/detection/detection.h"

#include <corestack/pool.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FILES_MAX = 24, NAME_CHARS = 48, ROWS_MAX = 1 << 16, PATH_CHARS = 300 };

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

/* ---- what the caller says ---- */

enum { SET_TASK, SET_OUTPUT, SET_LAYOUT, SET_IGNORE, SET_CLASSES, SET_LIMIT, SET_FILES, SETTINGS };

static const char *path_of(char buffer[PATH_CHARS], const char *name) {
    (void)snprintf(buffer, PATH_CHARS, "%s/%s", fuzz_folder(), name);
    return buffer;
}

/* A byte for each setting, 0 where it is left alone, as are those that are missing. */
static cst_pool_config settings(const uint8_t *bytes, size_t size) {
    static char paths[5][PATH_CHARS];
    uint8_t set[SETTINGS] = {0};
    cst_pool_config config = {0};
    memcpy(set, bytes, size < SETTINGS ? size : SETTINGS);
    config.task_given = set[SET_TASK] > 0;
    config.task = set[SET_TASK] ? (cst_task)((set[SET_TASK] - 1) % 4) : CST_TASK_CLASSIFICATION;
    config.output_given = set[SET_OUTPUT] > 0;
    config.output = set[SET_OUTPUT] > 1 ? CST_OUTPUT_LOGIT : CST_OUTPUT_PROBABILITY;
    config.layout = (cst_layout)(set[SET_LAYOUT] % 3);
    config.ignore_given = set[SET_IGNORE] > 0;
    config.ignore = set[SET_IGNORE] - 1;
    config.classes = set[SET_CLASSES];
    config.zip_limit = (uint64_t)set[SET_LIMIT] * 16;
    config.labels = set[SET_FILES] & 1 ? path_of(paths[0], "y.npy") : NULL;
    config.ids = set[SET_FILES] & 2 ? path_of(paths[1], "ids.csv") : NULL;
    config.folds = set[SET_FILES] & 4 ? path_of(paths[2], "f.npy") : NULL;
    config.groups = set[SET_FILES] & 8 ? path_of(paths[3], "g.npy") : NULL;
    config.weights = set[SET_FILES] & 16 ? path_of(paths[4], "w.npy") : NULL;
    return config;
}

/* ---- what is loaded ---- */

static void check_values(const float *out, int64_t rows, int32_t classes, bool values) {
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

static void check_rows(cst_context *context, const cst_pool *pool, const char *split) {
    int64_t rows = cst_pool_rows(pool, split);
    int32_t classes = (int32_t)cst_pool_classes(pool);
    bool values = cst_pool_task(pool) == CST_TASK_REGRESSION;
    const int32_t *labels = cst_pool_labels(pool, split);
    FUZZ_CHECK(rows >= 0 && classes >= 1, "a loaded split has rows and classes");
    for (int64_t i = 0; labels && cst_pool_task(pool) == CST_TASK_CLASSIFICATION && i < rows; i++)
        FUZZ_CHECK(labels[i] >= 0 && labels[i] < classes, "labels are classes");
    int32_t conditions = (int32_t)cst_pool_conditions(pool, split);
    conditions = conditions > 0 ? conditions : 1;
    if (rows > ROWS_MAX / classes / conditions)
        return;
    float *out = cst_alloc(context, (size_t)rows * (size_t)classes, sizeof *out);
    FUZZ_CHECK(out != NULL, "room for the rows");
    for (int32_t k = 0; k < cst_pool_members(pool); k++)
        for (int32_t n = 0; n < conditions; n++) {
            FUZZ_CHECK(cst_pool_read(context, pool, split, k, n * rows, rows, out) == CST_OK,
                       "rows of every condition");
            check_values(out, rows, classes, values);
        }
    FUZZ_CHECK(rows == 0 || cst_pool_read(context, pool, split, 0, conditions * rows, 1, out) ==
                                CST_ERROR_ARGUMENT,
               "no rows behind the last");
    cst_free(context, out);
}

/* argument: the caller said something of the pool, which may not go with it. */
static void load(cst_context *context, cst_pool *pool, bool argument) {
    for (int32_t s = 0; s < cst_pool_splits(pool); s++) {
        const char *split = cst_pool_split_name(pool, s);
        cst_box_split boxes = {0};
        if (cst_pool_task(pool) == CST_TASK_DETECTION) {
            (void)fuzz_good(
                context, cst_box_split_open(context, pool, split, NULL, 0, true, &boxes), argument);
            cst_box_split_close(context, &boxes);
        } else if (fuzz_good(context, cst_pool_load(context, pool, split), argument)) {
            check_rows(context, pool, split);
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const char *const packed[] = {".npz", ".png"};
    part parts[FILES_MAX];
    int count = unpack(data, size, parts);
    size_t factor = 256;
    cst_pool_config config;
    const cst_pool_config *said = NULL;
    for (int i = 0; i < count; i++) {
        if (strcmp(parts[i].name, "config") == 0) {
            config = settings(data + parts[i].at, parts[i].size);
            said = &config;
            continue;
        }
        (void)fuzz_file(parts[i].name, data + parts[i].at, parts[i].size);
        for (size_t p = 0; p < 2; p++)
            if (strstr(parts[i].name, packed[p]))
                factor = (size_t)64 * 1100;
    }
    cst_context *context = fuzz_begin(size, factor);
    cst_pool *pool = NULL;
    if (fuzz_good(context, cst_pool_open(context, &pool, fuzz_folder(), said), said != NULL))
        load(context, pool, said != NULL);
    cst_pool_free(context, pool);
    fuzz_end(context);
    fuzz_clear();
    return 0;
}

/* ---- the mutator ---- */

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
