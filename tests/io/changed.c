/*
 * Files that change between two reads, and archives that are replaced within a call.
 */
#include "io_files.h"

#include "data/files/bytes.h"

#include <fcntl.h>
#include <unistd.h>
#include <zip.h>

enum { BYTES = 64 << 10 };

static void put_archive(fixture *f, const char *name, char fill) {
    static char content[BYTES];
    int error = 0;
    memset(content, fill, sizeof content);
    zip_t *archive = zip_open(at(f, name), ZIP_CREATE | ZIP_TRUNCATE, &error);
    assert_non_null(archive);
    for (int i = 0; i < 2; i++) {
        zip_source_t *source = zip_source_buffer(archive, content, sizeof content, 0);
        assert_true(zip_file_add(archive, i ? "b.npy" : "a.npy", source, 0) >= 0);
        (void)zip_set_file_compression(archive, (zip_uint64_t)i, ZIP_CM_STORE, 0);
    }
    assert_int_equal(zip_close(archive), 0);
}

/* Appends a byte. */
static void grow(fixture *f, const char *name) {
    int fd = open(at(f, name), O_WRONLY | O_APPEND);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, "x", 1), 1);
    assert_int_equal(close(fd), 0);
}

static void refuse(fixture *f, const char *file, const char *path, bool shrinks) {
    cst_bytes *source = NULL;
    char part[8];
    expect_ok(f, cst_bytes_open(f->context, &source, at(f, path), 0));
    expect_ok(f, cst_bytes_read(f->context, source, 0, part, sizeof part));
    if (shrinks)
        assert_int_equal(truncate(at(f, file), 4096), 0);
    else
        grow(f, file);
    expect_error(f, cst_bytes_read(f->context, source, sizeof part, part, sizeof part),
                 CST_ERROR_IO, file, "replaced or changed while it was being read", NULL);
    cst_bytes_close(f->context, source);
}

static void other_sizes(void **state) {
    fixture *f = *state;
    static char text[BYTES];
    memset(text, '1', sizeof text - 1);
    for (int shrinks = 0; shrinks < 2; shrinks++) {
        put_text(f, "plain.csv", text);
        refuse(f, "plain.csv", "plain.csv", shrinks);
        put_archive(f, "all.npz", 'a');
        refuse(f, "all.npz", "all.npz#a", shrinks);
    }
}

static char first_byte(fixture *f, const char *path) {
    cst_bytes *source = NULL;
    char byte = 0;
    expect_ok(f, cst_bytes_open(f->context, &source, at(f, path), 0));
    expect_ok(f, cst_bytes_read(f->context, source, 0, &byte, 1));
    cst_bytes_close(f->context, source);
    return byte;
}

/* A call takes all arrays from the archive that it opened first; the next call opens the new one.
 */
static void replaced_archive(void **state) {
    fixture *f = *state;
    cst_context *entered = NULL;
    char path[512];
    put_archive(f, "all.npz", 'a');
    put_archive(f, "new.npz", 'b');
    assert_int_equal(cst_context_enter(f->context, &entered), CST_OK);
    assert_int_equal(first_byte(f, "all.npz#a"), 'a');
    (void)snprintf(path, sizeof path, "%s", at(f, "all.npz"));
    assert_int_equal(rename(at(f, "new.npz"), path), 0);
    assert_int_equal(first_byte(f, "all.npz#b"), 'a');
    cst_context_leave(&entered);
    assert_int_equal(cst_context_enter(f->context, &entered), CST_OK);
    assert_int_equal(first_byte(f, "all.npz#b"), 'b');
    cst_context_leave(&entered);
}

/* More archives than stay open. */
static void many_archives(void **state) {
    fixture *f = *state;
    cst_context *entered = NULL;
    char path[32];
    assert_int_equal(cst_context_enter(f->context, &entered), CST_OK);
    for (int round = 0; round < 2; round++)
        for (int i = 0; i < 20; i++) {
            (void)snprintf(path, sizeof path, "%d.npz", i);
            if (round == 0)
                put_archive(f, path, (char)('a' + i));
            (void)snprintf(path, sizeof path, "%d.npz#b", i);
            assert_int_equal(first_byte(f, path), 'a' + i);
        }
    cst_context_leave(&entered);
}

int suite_changed(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(other_sizes, files_setup, files_teardown),
        cmocka_unit_test_setup_teardown(replaced_archive, files_setup, files_teardown),
        cmocka_unit_test_setup_teardown(many_archives, files_setup, files_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
