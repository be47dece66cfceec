/*
 * Label maps as PNG: every kind that holds one number a pixel against files of an independent
 * writer, our own read back, broken and unsuitable files refused.
 */
#include "png_labels.h"

#include "data/segmentation.h"
#include "temporary.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { PATH_CHARS = 512 };

typedef struct fixture {
    cst_context *context;
    char folder[PATH_CHARS];
    char path[PATH_CHARS + 32];
} fixture;

static int setup(void **state) {
    static fixture f;
    temporary_path(f.folder, sizeof f.folder, "png");
    *state = &f;
    if (!mkdtemp(f.folder))
        return 1;
    (void)snprintf(f.path, sizeof f.path, "%s/map.png", f.folder);
    return cst_context_create(&f.context) != CST_OK;
}

static int teardown(void **state) {
    fixture *f = *state;
    (void)unlink(f->path);
    (void)rmdir(f->folder);
    cst_context_free(f->context);
    return 0;
}

static const char *data_path(const char *name, char path[PATH_CHARS]) {
    (void)snprintf(path, PATH_CHARS, "%s/segmentation/%s.png", CST_TEST_DATA, name);
    return path;
}

static void every_kind_is_read(void **state) {
    const fixture *f = *state;
    char path[PATH_CHARS];
    for (size_t i = 0; i < sizeof pngs / sizeof pngs[0]; i++) {
        int32_t *labels = NULL;
        int64_t height = 0;
        int64_t width = 0;
        cst_status status =
            png_labels(f->context, data_path(pngs[i].name, path), &labels, &height, &width);
        if (status != CST_OK)
            print_error("%s\n", cst_last_error(f->context));
        assert_int_equal(status, CST_OK);
        assert_int_equal(height, pngs[i].height);
        assert_int_equal(width, pngs[i].width);
        assert_memory_equal(labels, pngs[i].labels, (size_t)(height * width) * sizeof *labels);
        cst_free(f->context, labels);
    }
}

static void refused(const fixture *f, const char *path, cst_status expected, const char *says) {
    int32_t *labels = NULL;
    int64_t height = 0;
    int64_t width = 0;
    cst_status status = png_labels(f->context, path, &labels, &height, &width);
    if (status != expected || !strstr(cst_last_error(f->context), says))
        print_error("%s\n", cst_last_error(f->context));
    assert_int_equal(status, expected);
    assert_null(labels);
    assert_non_null(strstr(cst_last_error(f->context), says));
    assert_null(strchr(cst_last_error(f->context), '\n'));
}

static void colours_are_refused(void **state) {
    const fixture *f = *state;
    char path[PATH_CHARS];
    refused(f, data_path("rgb", path), CST_ERROR_INPUT, "an RGB image (3 channels)");
    refused(f, data_path("rgba", path), CST_ERROR_INPUT, "an RGBA image (4 channels)");
    refused(f, data_path("grey_alpha", path), CST_ERROR_INPUT, "a grey and alpha image");
}

/* Writes the first `bytes` bytes of a fixture, with one of them changed. */
static void spoil(const fixture *f, const char *name, size_t bytes, size_t changed) {
    char path[PATH_CHARS];
    unsigned char data[4096];
    FILE *in = fopen(data_path(name, path), "rb");
    assert_non_null(in);
    size_t size = fread(data, 1, sizeof data, in);
    (void)fclose(in);
    if (changed < size)
        data[changed] ^= 0x40;
    FILE *out = fopen(f->path, "wb");
    assert_non_null(out);
    assert_int_equal(fwrite(data, 1, bytes < size ? bytes : size, out),
                     bytes < size ? bytes : size);
    (void)fclose(out);
}

static void broken_files_are_refused(void **state) {
    const fixture *f = *state;
    for (size_t bytes = 1; bytes < 100; bytes += 7) { /* cut anywhere */
        int32_t *labels = NULL;
        int64_t height = 0;
        int64_t width = 0;
        spoil(f, "grey8", bytes, SIZE_MAX);
        assert_int_not_equal(png_labels(f->context, f->path, &labels, &height, &width), CST_OK);
        assert_null(labels);
    }
    spoil(f, "grey8", SIZE_MAX, 0);
    refused(f, f->path, CST_ERROR_FORMAT, "not a readable PNG");
    spoil(f, "grey8", SIZE_MAX, 18); /* the width, whose checksum then does not hold */
    refused(f, f->path, CST_ERROR_FORMAT, "near byte");
    spoil(f, "grey8", SIZE_MAX, 60); /* the pixels */
    refused(f, f->path, CST_ERROR_FORMAT, "near byte");
    refused(f, "/nowhere/map.png", CST_ERROR_IO, "/nowhere/map.png");
}

static void what_is_written_is_read(void **state) {
    const fixture *f = *state;
    enum { HEIGHT = 37, WIDTH = 61 };
    int32_t labels[HEIGHT * WIDTH];
    for (int bits = 8; bits <= 16; bits += 8) {
        int32_t *back = NULL;
        int64_t height = 0;
        int64_t width = 0;
        for (int i = 0; i < HEIGHT * WIDTH; i++)
            labels[i] = (i * 7919) % (1 << bits);
        assert_int_equal(
            cst_png_write_labels(f->context, f->path, labels, HEIGHT, WIDTH, bits, NULL), CST_OK);
        assert_int_equal(png_labels(f->context, f->path, &back, &height, &width), CST_OK);
        assert_int_equal(height, HEIGHT);
        assert_int_equal(width, WIDTH);
        assert_memory_equal(back, labels, sizeof labels);
        cst_free(f->context, back);
    }
    labels[5] = 256;
    assert_int_equal(cst_png_write_labels(f->context, f->path, labels, HEIGHT, WIDTH, 8, NULL),
                     CST_ERROR_LIMIT);
    labels[5] = -1;
    assert_int_equal(cst_png_write_labels(f->context, f->path, labels, HEIGHT, WIDTH, 16, NULL),
                     CST_ERROR_LIMIT);
    assert_int_equal(cst_png_write_labels(f->context, "/nowhere/map.png", labels, 1, 1, 8, NULL),
                     CST_ERROR_IO);
}

/* The size is in the first bytes; what is not of that form, or larger than is read, is refused. */
static void sizes_are_bounded(void **state) {
    const fixture *f = *state;
    enum { SIDE_MAX = 1000000 };
    static const struct {
        uint32_t width, height;
        bool good;
    } cases[] = {{61, 37, true},
                 {0, 37, false},
                 {61, 0, false},
                 {SIDE_MAX, 37, true},
                 {SIDE_MAX + 1, 37, false},
                 {61, SIDE_MAX, true},
                 {61, SIDE_MAX + 1, false},
                 {0x7fffffff, 1, false}};
    unsigned char head[25] = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n',
                              0,    0,   0,   13,  'I',  'H',  'D',  'R'};
    head[24] = 1; /* bit a pixel, of which 70000 bytes hold all of these */
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        int64_t height = 0;
        int64_t width = 0;
        for (int b = 0; b < 4; b++) {
            head[16 + b] = (unsigned char)(cases[i].width >> (24 - 8 * b));
            head[20 + b] = (unsigned char)(cases[i].height >> (24 - 8 * b));
        }
        FILE *out = fopen(f->path, "wb");
        assert_non_null(out);
        assert_int_equal(fwrite(head, 1, sizeof head, out), sizeof head);
        (void)fclose(out);
        assert_int_equal(truncate(f->path, 70000), 0);
        cst_status status = cst_png_size(f->context, f->path, 0, &height, &width);
        assert_int_equal(status, cases[i].good ? CST_OK : CST_ERROR_FORMAT);
        if (cases[i].good)
            assert_true(width == cases[i].width && height == cases[i].height);
        else
            assert_non_null(strstr(cst_last_error(f->context), "not a readable PNG, near byte 0"));
    }
    int64_t height = 0;
    int64_t width = 0;
    head[16] = head[17] = head[18] = 0;
    head[19] = 1;
    head[20] = 0;
    head[21] = 0x0f;
    head[22] = 0x42;
    head[23] = 0x40;
    FILE *out = fopen(f->path, "wb");
    assert_non_null(out);
    assert_int_equal(fwrite(head, 1, sizeof head, out), sizeof head);
    (void)fclose(out);
    assert_int_equal(cst_png_size(f->context, f->path, 0, &height, &width), CST_ERROR_FORMAT);
    assert_non_null(strstr(cst_last_error(f->context),
                           "declares 1 x 1000000 pixels, more than its 25 bytes can hold"));
    static const int32_t label = 0;
    static const int64_t sides[][2] = {{0, 1}, {1, 0}, {SIDE_MAX + 1, 1}, {1, SIDE_MAX + 1}};
    for (size_t i = 0; i < 4; i++) {
        char says[96];
        (void)snprintf(says, sizeof says, "%lld x %lld pixels is too large for a PNG",
                       (long long)sides[i][0], (long long)sides[i][1]);
        assert_int_equal(
            cst_png_write_labels(f->context, f->path, &label, sides[i][0], sides[i][1], 8, NULL),
            CST_ERROR_LIMIT);
        assert_non_null(strstr(cst_last_error(f->context), says));
    }
}

int suite_png(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_kind_is_read),       cmocka_unit_test(colours_are_refused),
        cmocka_unit_test(broken_files_are_refused), cmocka_unit_test(what_is_written_is_read),
        cmocka_unit_test(sizes_are_bounded),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
