/*
 * Folders with a file for each case, read and written, masks and reference errors: what is refused
 * and how, and failing memory at every allocation, after which nothing is left.
 */
#include "data/files/output.h"
#include "data/readers/cases.h"
#include "data/readers/reference_errors.h"
#include "failing_memory.h"
#include "temporary.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

enum { PATH_CHARS = 512 };

static const char *const EXTENSIONS[] = {".npy", ".png", NULL};

typedef struct fixture {
    cst_context *context;
    failing memory;
    char folder[PATH_CHARS];
} fixture;

static int setup(void **state) {
    static fixture f;
    temporary_path(f.folder, sizeof f.folder, "folders");
    f.memory = (failing){.left = -1};
    *state = &f;
    if (!mkdtemp(f.folder))
        return 1;
    return cst_context_create_with(&f.context, failing_realloc, &f.memory) != CST_OK;
}

static int teardown(void **state) {
    fixture *f = *state;
    cst_context_free(f->context);
    return f->memory.live != 0 || rmdir(f->folder) != 0;
}

/* A path in the test's folder; four of them live at a time. */
static const char *at(const fixture *f, const char *name) {
    static char paths[4][PATH_CHARS + 64];
    static int next;
    char *path = paths[next++ % 4];
    (void)snprintf(path, sizeof paths[0], "%s/%s", f->folder, name);
    return path;
}

static void put(const char *path, const void *bytes, size_t size) {
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, size, file), size);
    assert_int_equal(fclose(file), 0);
}

/* An npy file of version 1.0 with a header of 128 bytes. */
static void put_npy(const char *path, const char *type, const char *shape, const void *data,
                    size_t bytes) {
    char file[1024] = "\x93NUMPY\x01";
    file[8] = 118;
    int used = snprintf(file + 10, 118, "{'descr': '%s', 'fortran_order': False, 'shape': %s, }",
                        type, shape);
    memset(file + 10 + used, ' ', (size_t)(117 - used));
    file[127] = '\n';
    memcpy(file + 128, data, bytes);
    put(path, file, 128 + bytes);
}

static void assert_says(const fixture *f, cst_status status, cst_status wanted, const char *says) {
    assert_int_equal(status, wanted);
    if (!strstr(cst_last_error(f->context), says))
        fail_msg("'%s' lacks '%s'", cst_last_error(f->context), says);
}

/* ---- folders that are read ---- */

static void cases_come_in_the_order_of_their_names(void **state) {
    fixture *f = *state;
    static const char *const NAMES[] = {"b.npy", "a.b.npy", "a.PNG",  ".hidden.npy",
                                        "x.txt", ".npy",    "a.c.npy"};
    static const char *const WANTED[] = {"a", "a.b", "a.c", "b"};
    cst_case_files files;
    CST_SCOPE(scope);
    for (size_t i = 0; i < sizeof NAMES / sizeof NAMES[0]; i++)
        put(at(f, NAMES[i]), "", 0);
    char slash[PATH_CHARS + 2];
    (void)snprintf(slash, sizeof slash, "%s/", f->folder);
    for (int form = 0; form < 2; form++) {
        assert_int_equal(cst_case_files_list(f->context, scope, form == 0 ? f->folder : slash,
                                             EXTENSIONS, &files),
                         CST_OK);
        assert_int_equal(files.count, 4);
        for (int64_t i = 0; i < 4; i++) {
            size_t length = strlen(WANTED[i]);
            assert_memory_equal(files.paths[i] + strlen(f->folder) + 1, WANTED[i], length);
            assert_null(strstr(files.paths[i], "//"));
            assert_int_equal(access(files.paths[i], F_OK), 0);
        }
        cst_scope_free(scope);
    }
    put(at(f, "b.png"), "", 0);
    assert_says(f, cst_case_files_list(f->context, scope, f->folder, EXTENSIONS, &files),
                CST_ERROR_INPUT, "both files of case 'b'");
    cst_scope_free(scope);
    assert_int_equal(unlink(at(f, "b.png")), 0);
    int64_t base = f->memory.live;
    for (int64_t n = 0;; n++) {
        f->memory.left = n;
        cst_status status = cst_case_files_list(f->context, scope, f->folder, EXTENSIONS, &files);
        f->memory.left = -1;
        cst_scope_free(scope);
        assert_int_equal(f->memory.live, base);
        if (status == CST_OK) {
            assert_true(n > 3);
            break;
        }
        assert_int_equal(status, CST_ERROR_MEMORY);
    }
    for (size_t i = 0; i < sizeof NAMES / sizeof NAMES[0]; i++)
        assert_int_equal(unlink(at(f, NAMES[i])), 0);
    assert_says(f, cst_case_files_list(f->context, scope, f->folder, EXTENSIONS, &files),
                CST_ERROR_INPUT, "no case files (NAME.npy)");
    cst_scope_free(scope);
    assert_says(f, cst_case_files_list(f->context, scope, at(f, "gone"), EXTENSIONS, &files),
                CST_ERROR_IO, "cannot list the folder");
    cst_scope_free(scope);
    assert_true(cst_is_folder(f->folder));
    assert_false(cst_is_folder(at(f, "gone")));
}

/* ---- masks ---- */

/* Whether the mask has that shape and these pixels, and failing memory leaves nothing. */
static void assert_mask(fixture *f, const char *path, const int64_t shape[3], int axes,
                        const int32_t *wanted, int64_t pixels) {
    int64_t found[3];
    int32_t labels[16];
    int dims = 0;
    assert_int_equal(cst_mask_shape(f->context, path, 0, found, &dims), CST_OK);
    assert_int_equal(dims, axes);
    assert_memory_equal(found, shape, sizeof found);
    /* As many pixels or not: another shape is another mask. */
    const int64_t others[][3] = {{shape[0], shape[1], shape[2] + 1},
                                 {shape[0] + 1, shape[1], shape[2]},
                                 {shape[0], shape[2], shape[1]},
                                 {1, 1, pixels}};
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        assert_says(f, cst_mask_read(f->context, path, 0, others[i], labels), CST_ERROR_IO,
                    "its size has changed since it was first opened");
    int64_t base = f->memory.live;
    cst_status status = CST_ERROR_MEMORY;
    for (int64_t n = 0; status != CST_OK; n++) {
        f->memory.left = n;
        status = cst_mask_read(f->context, path, 0, shape, labels);
        f->memory.left = n;
        cst_status shaped = cst_mask_shape(f->context, path, 0, found, &dims);
        f->memory.left = -1;
        assert_true(status == CST_OK || status == CST_ERROR_MEMORY);
        assert_true(shaped == CST_OK || shaped == CST_ERROR_MEMORY);
        assert_int_equal(f->memory.live, base);
    }
    assert_memory_equal(labels, wanted, (size_t)pixels * sizeof *wanted);
}

static void masks_are_images_and_volumes(void **state) {
    fixture *f = *state;
    static const int32_t LABELS[6] = {0, 1, 2, 3, 4, 300};
    int64_t found[3];
    int32_t labels[16];
    int dims = 0;
    put_npy(at(f, "m.npy"), "<i4", "(2, 3)", LABELS, sizeof LABELS);
    assert_mask(f, at(f, "m.npy"), (int64_t[]){1, 2, 3}, 2, LABELS, 6);
    put_npy(at(f, "m.npy"), "<i4", "(3, 1, 2)", LABELS, sizeof LABELS);
    assert_mask(f, at(f, "m.npy"), (int64_t[]){3, 1, 2}, 3, LABELS, 6);
    assert_int_equal(cst_png_write_labels(f->context, at(f, "m.PNG"), LABELS, 2, 3, 16, NULL),
                     CST_OK);
    assert_mask(f, at(f, "m.PNG"), (int64_t[]){1, 2, 3}, 2, LABELS, 6);
    put_npy(at(f, "m.npy"), "<i4", "(6,)", LABELS, sizeof LABELS);
    assert_says(f, cst_mask_shape(f->context, at(f, "m.npy"), 0, found, &dims), CST_ERROR_INPUT,
                "[height, width]");
    assert_says(f, cst_mask_read(f->context, at(f, "m.npy"), 0, (int64_t[]){1, 2, 3}, labels),
                CST_ERROR_INPUT, "has shape (6,)");
    static const double WRONG[] = {1.5, -1e300, 1e300, -2147483649.0, 2147483648.0};
    for (size_t i = 0; i <= sizeof WRONG / sizeof WRONG[0]; i++) {
        double pixels[2] = {7, i < sizeof WRONG / sizeof WRONG[0] ? WRONG[i] : (double)NAN};
        put_npy(at(f, "m.npy"), "<f8", "(1, 2)", pixels, sizeof pixels);
        assert_says(f, cst_mask_read(f->context, at(f, "m.npy"), 0, (int64_t[]){1, 1, 2}, labels),
                    CST_ERROR_INPUT, i == 0 ? "element 1 is 1.5, not a class number" : "");
    }
    assert_says(f, cst_mask_shape(f->context, at(f, "gone.npy"), 0, found, &dims), CST_ERROR_IO,
                "gone.npy");
    assert_says(f, cst_mask_read(f->context, at(f, "gone.npy"), 0, (int64_t[]){1, 2, 3}, labels),
                CST_ERROR_IO, "gone.npy");
    assert_says(f, cst_mask_read(f->context, at(f, "gone.png"), 0, (int64_t[]){1, 2, 3}, labels),
                CST_ERROR_IO, "gone.png");
    assert_int_equal(unlink(at(f, "m.npy")), 0);
    assert_int_equal(unlink(at(f, "m.PNG")), 0);
}

/* ---- folders that are written ---- */

static void a_folder_appears_whole_or_not_at_all(void **state) {
    fixture *f = *state;
    cst_output_folder *out = NULL;
    char *path = NULL;
    static const char *const BAD[] = {"", "a/b", ".", ".hidden"};
    char slashes[PATH_CHARS + 8];
    (void)snprintf(slashes, sizeof slashes, "%s/out//", f->folder);
    assert_int_equal(cst_output_folder_open(f->context, &out, slashes), CST_OK);
    for (size_t i = 0; i < sizeof BAD / sizeof BAD[0]; i++) {
        assert_says(f, cst_output_folder_file(f->context, out, BAD[i], ".npy", &path),
                    CST_ERROR_INPUT, "cannot be used as a file name; rename the case");
        assert_null(path);
    }
    assert_int_equal(cst_output_folder_file(f->context, out, "a", ".npy", &path), CST_OK);
    put(path, "x", 1);
    cst_free(f->context, path);
    assert_int_equal(access(at(f, "out"), F_OK), -1);
    assert_int_equal(cst_output_folder_commit(f->context, out), CST_OK);
    assert_int_equal(access(at(f, "out/a.npy"), F_OK), 0);
    assert_says(f, cst_output_folder_open(f->context, &out, at(f, "out")), CST_ERROR_IO,
                "not an empty folder");
    assert_says(f, cst_output_folder_open(f->context, &out, at(f, "out/a.npy")), CST_ERROR_IO,
                "not an empty folder");
    assert_says(f, cst_output_folder_open(f->context, &out, at(f, "gone/out")), CST_ERROR_IO,
                "cannot create the folder");
    assert_null(out);
    /* While one is written, something takes its place. */
    assert_int_equal(unlink(at(f, "out/a.npy")), 0);
    for (int kept = 0; kept < 2; kept++) {
        assert_int_equal(cst_output_folder_open(f->context, &out, at(f, "out")), CST_OK);
        assert_int_equal(cst_output_folder_file(f->context, out, "b", ".npy", &path), CST_OK);
        put(path, "y", 1);
        cst_free(f->context, path);
        if (kept == 0) {
            cst_output_folder_abort(f->context, out);
            continue;
        }
        put(at(f, "out/other"), "z", 1);
        assert_says(f, cst_output_folder_commit(f->context, out), CST_ERROR_IO,
                    "cannot rename the finished folder");
        assert_int_equal(unlink(at(f, "out/other")), 0);
    }
    assert_int_equal(rmdir(at(f, "out")),
                     0); /* was empty, and teardown sees that no other is left */
    cst_output_folder_abort(f->context, NULL);
}

static mode_t mode_of(const char *path) {
    struct stat info;
    assert_int_equal(stat(path, &info), 0);
    return info.st_mode & 07777;
}

/* One in the place of an empty folder has its permissions at the end, a new one (0) the usual ones;
 * until then nobody else may enter. */
static void a_folder_takes_permissions(void **state) {
    static const mode_t MODES[] = {0700, 0750, 0500, 01777, 0};
    mode_t mask = umask(027);
    fixture *f = *state;
    cst_output_folder *out = NULL;
    char *path = NULL;
    for (size_t i = 0; i < sizeof MODES / sizeof MODES[0]; i++) {
        assert_true(!MODES[i] || mkdir(at(f, "out"), 0777) == 0);
        assert_true(!MODES[i] || chmod(at(f, "out"), MODES[i]) == 0);
        assert_int_equal(cst_output_folder_open(f->context, &out, at(f, "out")), CST_OK);
        assert_int_equal(cst_output_folder_file(f->context, out, "a", ".npy", &path), CST_OK);
        put(path, "x", 1);
        *strrchr(path, '/') = '\0';
        assert_int_equal(mode_of(path) & 0777, 0700);
        cst_free(f->context, path);
        assert_int_equal(cst_output_folder_commit(f->context, out), CST_OK);
        assert_int_equal(mode_of(at(f, "out")), MODES[i] ? MODES[i] : 0750);
        assert_int_equal(chmod(at(f, "out"), 0700), 0);
        assert_int_equal(unlink(at(f, "out/a.npy")), 0);
        assert_int_equal(rmdir(at(f, "out")), 0);
    }
    (void)umask(mask);
}

static void a_folder_has_a_name_of_its_own(void **state) {
    fixture *f = *state;
    cst_output_folder *out = NULL;
    assert_int_equal(mkdir(at(f, "empty"), 0777), 0);
    static const char *const NAMES[] = {"empty/.", "empty/./", "empty/..", "empty/..//"};
    for (size_t i = 0; i < sizeof NAMES / sizeof NAMES[0]; i++)
        assert_says(f, cst_output_folder_open(f->context, &out, at(f, NAMES[i])), CST_ERROR_IO,
                    "cannot be renamed to this; choose");
    assert_says(f, cst_output_folder_open(f->context, &out, "."), CST_ERROR_IO,
                "cannot be renamed to this; choose");
    assert_int_equal(cst_output_folder_open(f->context, &out, at(f, "a..")), CST_OK);
    cst_output_folder_abort(f->context, out);
    assert_int_equal(cst_output_folder_open(f->context, &out, at(f, "...")), CST_OK);
    cst_output_folder_abort(f->context, out);
    assert_int_equal(rmdir(at(f, "empty")), 0);
}

static void no_folder_is_left_when_memory_fails(void **state) {
    fixture *f = *state;
    int64_t base = f->memory.live;
    cst_status status = CST_ERROR_MEMORY;
    for (int64_t n = 0; status != CST_OK; n++) {
        cst_output_folder *out = NULL;
        char *path = NULL;
        f->memory.left = n;
        status = cst_output_folder_open(f->context, &out, at(f, "out"));
        if (status == CST_OK)
            status = cst_output_folder_file(f->context, out, "a", ".npy", &path);
        f->memory.left = -1;
        assert_true(status == CST_OK || status == CST_ERROR_MEMORY);
        assert_int_equal(path != NULL, status == CST_OK);
        cst_free(f->context, path);
        cst_output_folder_abort(f->context, out);
        assert_int_equal(f->memory.live, base);
        assert_int_equal(rmdir(f->folder), 0); /* empty */
        assert_int_equal(mkdir(f->folder, 0700), 0);
    }
}

/* An earlier process of the same number may have left a folder. */
static void names_that_are_taken_are_passed_over(void **state) {
    fixture *f = *state;
    char taken[2][PATH_CHARS + 64];
    cst_output_folder *out = NULL;
    char *path = NULL;
    for (int i = 0; i < 2; i++) {
        (void)snprintf(taken[i], sizeof taken[i], "%s/out.tmp.%ld.%d", f->folder, (long)getpid(),
                       i);
        assert_int_equal(mkdir(taken[i], 0700), 0);
    }
    assert_int_equal(cst_output_folder_open(f->context, &out, at(f, "out")), CST_OK);
    assert_int_equal(cst_output_folder_file(f->context, out, "a", "", &path), CST_OK);
    assert_null(strstr(path, taken[0]));
    assert_null(strstr(path, taken[1]));
    cst_free(f->context, path);
    cst_output_folder_abort(f->context, out);
    for (int i = 0; i < 2; i++)
        assert_int_equal(rmdir(taken[i]), 0);
}

/* ---- reference errors ---- */

static void reference_errors_are_read_or_refused(void **state) {
    fixture *f = *state;
    static const char *const WRONG[] = {
        "{}",
        "[]",
        "{\"fog\": 0}",
        "{\"fog\": 1.5}",
        "{\"fog\": []}",
        "{\"fog\":]",
        "{\"fog\": \"\"}",
        "{\"clean\": 2}",
        "{\"fog\": [0.5, 0]}",
        "{\"a\": 1, \"a\": 1}",
    };
    static const char GOOD[] = "{\"fog\": [0.5, 0.75], \"clean\": 0.25, \"snow\": 1}";
    cst_reference_errors reference;
    for (size_t i = 0; i < sizeof WRONG / sizeof WRONG[0]; i++) {
        put(at(f, "r.json"), WRONG[i], strlen(WRONG[i]));
        assert_says(f, cst_reference_errors_read(f->context, at(f, "r.json"), &reference),
                    CST_ERROR_INPUT, "r.json: ");
        cst_reference_errors_free(f->context, &reference);
    }
    put(at(f, "r.json"), GOOD, sizeof GOOD - 1);
    const char *names[] = {"alexnet", at(f, "r.json")};
    int64_t base = f->memory.live;
    for (int i = 0; i < 2; i++) {
        cst_status status = CST_ERROR_MEMORY;
        for (int64_t n = 0; status != CST_OK; n++) {
            f->memory.left = n;
            status = cst_reference_errors_read(f->context, names[i], &reference);
            f->memory.left = -1;
            assert_true(status == CST_OK || status == CST_ERROR_MEMORY);
            if (status == CST_OK) {
                const cst_reference_error *fog = cst_reference_errors_find(&reference, "fog");
                assert_non_null(fog);
                assert_int_equal(fog->count, i == 0 ? 1 : 2);
                assert_int_equal(reference.published, i == 0);
                assert_true(reference.clean > 0 && reference.clean < 0.5);
                assert_null(cst_reference_errors_find(&reference, "clean"));
                assert_null(cst_reference_errors_find(&reference, NULL));
            }
            cst_reference_errors_free(f->context, &reference);
            assert_int_equal(f->memory.live, base);
        }
    }
    assert_int_equal(unlink(at(f, "r.json")), 0);
    assert_says(f, cst_reference_errors_read(f->context, at(f, "r.json"), &reference), CST_ERROR_IO,
                "or the name alexnet");
    cst_reference_errors_free(f->context, &reference);
}

int suite_folders(void) {
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(cases_come_in_the_order_of_their_names, setup, teardown),
        cmocka_unit_test_setup_teardown(masks_are_images_and_volumes, setup, teardown),
        cmocka_unit_test_setup_teardown(a_folder_appears_whole_or_not_at_all, setup, teardown),
        cmocka_unit_test_setup_teardown(a_folder_takes_permissions, setup, teardown),
        cmocka_unit_test_setup_teardown(a_folder_has_a_name_of_its_own, setup, teardown),
        cmocka_unit_test_setup_teardown(no_folder_is_left_when_memory_fails, setup, teardown),
        cmocka_unit_test_setup_teardown(names_that_are_taken_are_passed_over, setup, teardown),
        cmocka_unit_test_setup_teardown(reference_errors_are_read_or_refused, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
