/*
 * For the tests of readers, pools and weights: a folder that goes away, files in it, what the
 * library says meanwhile, and a check of error messages. Included by one program each. Paper: none.
 */
#ifndef CST_TEST_IO_FILES_H
#define CST_TEST_IO_FILES_H

#define _XOPEN_SOURCE 700
#include "core/base.h"
#include "core/scope.h"
#include "data/readers/row_file.h"
#include "temporary.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <ftw.h>
#include <sys/stat.h>
#include <unistd.h>

enum { NOTICES_KEPT = 16, NOTICE_CHARS = 512 };

typedef struct fixture {
    cst_context *context;
    cst_scope scope; /* freed at the end, or before */
    char folder[TEMPORARY_CHARS];
    char path[512]; /* of the last call of at() */
    int notices;    /* where listen() hears them */
    char said[NOTICES_KEPT][NOTICE_CHARS];
} fixture;

static inline void listen(void *user, cst_log_level level, const char *message) {
    fixture *f = user;
    if (level == CST_LOG_WARNING && f->notices < NOTICES_KEPT)
        (void)snprintf(f->said[f->notices++], NOTICE_CHARS, "%s", message);
}

static int files_setup(void **state) {
    fixture *f = calloc(1, sizeof *f);
    *state = f;
    temporary_path(f->folder, sizeof f->folder, "test");
    return !mkdtemp(f->folder) || cst_context_create(&f->context) != CST_OK;
}

static int remove_one(const char *path, const struct stat *info, int type, struct FTW *walk) {
    (void)info;
    (void)type;
    (void)walk;
    return remove(path);
}

static int files_teardown(void **state) {
    fixture *f = *state;
    (void)nftw(f->folder, remove_one, 8, FTW_DEPTH | FTW_PHYS);
    cst_scope_free(&f->scope);
    cst_context_free(f->context);
    free(f);
    return 0;
}

/* The path of a file in the folder, good until the next call. */
static inline const char *at(fixture *f, const char *name) {
    (void)snprintf(f->path, sizeof f->path, "%s/%s", f->folder, name);
    return f->path;
}

static inline void put_bytes(fixture *f, const char *name, const void *data, size_t bytes) {
    FILE *file = fopen(at(f, name), "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(data, 1, bytes, file), bytes);
    assert_int_equal(fclose(file), 0);
}

static inline void put_text(fixture *f, const char *name, const char *text) {
    put_bytes(f, name, text, strlen(text));
}

/* All bytes of a file, for free. */
static inline unsigned char *contents(const char *path, size_t *size) {
    FILE *file = fopen(path, "rb");
    if (!file)
        print_error("%s is not there\n", path);
    assert_non_null(file);
    assert_int_equal(fseek(file, 0, SEEK_END), 0);
    *size = (size_t)ftell(file);
    rewind(file);
    unsigned char *bytes = malloc(*size + 1);
    assert_non_null(bytes);
    assert_int_equal(fread(bytes, 1, *size, file), *size);
    assert_int_equal(fclose(file), 0);
    return bytes;
}

static inline void expect_same_bytes(const char *a, const char *b) {
    size_t size = 0;
    size_t other = 0;
    unsigned char *x = contents(a, &size);
    unsigned char *y = contents(b, &other);
    assert_int_equal(size, other);
    assert_memory_equal(x, y, size);
    free(x);
    free(y);
}

/* An npy of version 1.0 with this dict literal and these data. */
static inline void put_npy(fixture *f, const char *name, const char *dict, const void *data,
                           size_t bytes) {
    size_t length = strlen(dict);
    unsigned char *all = malloc(10 + length + bytes);
    assert_non_null(all);
    memcpy(all, "\x93NUMPY\x01\x00", 8);
    all[8] = (unsigned char)(length & 255);
    all[9] = (unsigned char)(length >> 8);
    memcpy(all + 10, dict, length);
    if (bytes)
        memcpy(all + 10 + length, data, bytes);
    put_bytes(f, name, all, 10 + length + bytes);
    free(all);
}

static inline void put_f32(fixture *f, const char *name, const float *data, int rows, int columns) {
    char dict[128];
    (void)snprintf(dict, sizeof dict, "{'descr': '<f4', 'fortran_order': False, 'shape': (%d, %d)}",
                   rows, columns);
    put_npy(f, name, dict, data, (size_t)rows * (size_t)columns * sizeof *data);
}

static inline void put_i32(fixture *f, const char *name, const int32_t *data, int rows) {
    char dict[128];
    (void)snprintf(dict, sizeof dict, "{'descr': '<i4', 'fortran_order': False, 'shape': (%d,)}",
                   rows);
    put_npy(f, name, dict, data, (size_t)rows * sizeof *data);
}

/* The call failed with this code, and its message is one line that has all the given texts. */
static inline void expect_error(fixture *f, cst_status status, cst_status code, ...) {
    const char *message = cst_last_error(f->context);
    if (status != code)
        fail_msg("status %s instead of %s: %s", cst_status_name(status), cst_status_name(code),
                 message);
    assert_null(strchr(message, '\n'));
    va_list texts;
    va_start(texts, code);
    for (const char *text = va_arg(texts, const char *); text; text = va_arg(texts, const char *))
        if (!strstr(message, text))
            fail_msg("'%s' is not in: %s", text, message);
    va_end(texts);
}

#define expect_ok(f, call)                                                                         \
    do {                                                                                           \
        if ((call) != CST_OK)                                                                      \
            fail_msg("%s: %s", #call, cst_last_error((f)->context));                               \
    } while (0)

/* Readers of the file at `path`. */
static inline cst_status rows_of(fixture *f, cst_scope *scope, cst_row_file **out, const char *path,
                                 uint64_t limit) {
    const cst_row_source source = cst_one_file(path, limit);
    return cst_row_file_open(f->context, scope, out, &source, NULL);
}

static inline cst_status column_of(fixture *f, cst_scope *scope, cst_column *out, const char *path,
                                   const char *const *wanted, uint64_t limit) {
    const cst_row_source source = cst_one_file(path, limit);
    const cst_table_ask ask = {.use = CST_TABLE_COLUMN, .wanted = wanted};
    return cst_column_read(f->context, scope, out, &source, &ask, NULL);
}

static inline cst_status ids_of(fixture *f, cst_scope *scope, cst_strings **out, const char *path,
                                uint64_t limit) {
    const cst_row_source source = cst_one_file(path, limit);
    return cst_ids_read(f->context, scope, out, &source, NULL, NULL);
}

#endif
