/*
 * Writers of arrays and tables: sizes that no file has, cells that a reader would take for
 * something else, temporary names. Beside tests/io/npy.c. Under predict and folds.
 */
#define _GNU_SOURCE /* syscall, AT_EMPTY_PATH */
#include "io_files.h"

#include "data/files/output.h"
#include "data/readers/csv.h"
#include "data/readers/npy.h"

#include <corestack/files.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/syscall.h>

static void sizes_that_no_file_has(void **state) {
    fixture *f = *state;
    static const float one = 1;
    static const int32_t label = 1;
    static const int64_t shapes[][2] = {{-1, 2}, {2, -1}, {INT64_MAX, 3}, {INT64_MAX, 1}};
    for (size_t i = 0; i < 4; i++) {
        char says[96];
        (void)snprintf(says, sizeof says, "a.npy: an array of %lld x %lld cannot be written",
                       (long long)shapes[i][0], (long long)shapes[i][1]);
        expect_error(
            f, cst_npy_write_f32(f->context, at(f, "a.npy"), &one, shapes[i][0], shapes[i][1]),
            CST_ERROR_LIMIT, says, NULL);
    }
    static const int64_t pages[][3] = {{-1, 1, 1},        {1, -1, 1},        {1, 1, -1},
                                       {1, INT64_MAX, 3}, {4, INT64_MAX, 1}, {1, INT64_MAX, 1}};
    for (size_t i = 0; i < 6; i++) {
        char says[128];
        (void)snprintf(says, sizeof says, "a.npy: an array of %lld x %lld x %lld cannot be written",
                       (long long)pages[i][0], (long long)pages[i][1], (long long)pages[i][2]);
        expect_error(f,
                     cst_npy_write_pages_f32(f->context, at(f, "a.npy"), &one, pages[i][0],
                                             pages[i][1], pages[i][2]),
                     CST_ERROR_LIMIT, says, NULL);
    }
    expect_error(f, cst_npy_write_i32(f->context, at(f, "a.npy"), &label, -1), CST_ERROR_LIMIT,
                 "a.npy: a vector of -1 cannot be written", NULL);
    expect_error(f, cst_npy_write_i32(f->context, at(f, "a.npy"), &label, INT64_MAX),
                 CST_ERROR_LIMIT, "a.npy: a vector of 9223372036854775807 cannot be written", NULL);
    assert_int_equal(access(at(f, "a.npy"), F_OK), -1);
}

static void expect_text(fixture *f, const char *name, const char *expected) {
    char text[512];
    FILE *file = fopen(at(f, name), "r");
    assert_non_null(file);
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    (void)fclose(file);
    assert_string_equal(text, expected);
}

static void cells_in_quotes(void **state) {
    fixture *f = *state;
    static const float p[6] = {1, 0, 0.5f, 0.5f, 0, 1};
    static const char *const ids[3] = {"", " a", "a "};
    static const char *const names[2] = {"a,b", "c\td"};
    static const char *const bare[2] = {"cat", "dog"};
    expect_ok(f, cst_write_predictions_csv(f->context, at(f, "p.csv"), p, 3, 2, ids, names));
    expect_text(f, "p.csv", "id,\"a,b\",\"c\td\"\n\"\",1,0\n\" a\",0.5,0.5\n\"a \",0,1\n");
    expect_ok(f, cst_write_predictions_csv(f->context, at(f, "p.csv"), p, 1, 2, NULL, bare));
    expect_text(f, "p.csv", "cat,dog\n1,0\n");
    expect_ok(f, cst_write_predictions_csv(f->context, at(f, "p.csv"), p, 1, 2, NULL, NULL));
    expect_text(f, "p.csv", "class_0,class_1\n1,0\n");
    expect_ok(f, cst_write_predictions_csv(f->context, at(f, "p.csv"), NULL, 0, 2, NULL, NULL));
    expect_text(f, "p.csv", "class_0,class_1\n");
    expect_error(f, cst_write_predictions_csv(f->context, NULL, p, 1, 2, NULL, NULL),
                 CST_ERROR_ARGUMENT, "path, data and shape are required", NULL);
    expect_error(f, cst_write_predictions_csv(f->context, at(f, "q.csv"), NULL, 1, 2, NULL, NULL),
                 CST_ERROR_ARGUMENT, "path, data and shape are required", NULL);
    expect_error(f, cst_write_predictions_csv(f->context, at(f, "q.csv"), p, -1, 2, NULL, NULL),
                 CST_ERROR_ARGUMENT, "path, data and shape are required", NULL);
    expect_error(f, cst_write_predictions_csv(f->context, at(f, "q.csv"), p, 1, 0, NULL, NULL),
                 CST_ERROR_ARGUMENT, "path, data and shape are required", NULL);
}

/* Texts that a spreadsheet would compute get an apostrophe, which the reader takes away. */
static void texts_that_look_like_formulas(void **state) {
    fixture *f = *state;
    CST_SCOPE(scope);
    static const float p[32] = {0};
    static const struct {
        const char *id, *cell;
    } cases[] = {{"=1+1", "'=1+1"},
                 {"-17", "-17"},
                 {"+1.5e3", "+1.5e3"},
                 {"-x", "'-x"},
                 {"@SUM(A1)", "'@SUM(A1)"},
                 {"'=x", "''=x"},
                 {"''-x", "'''-x"},
                 {"'quoted'", "'quoted'"},
                 {"=a,b", "\"'=a,b\""},
                 {"\tx", "\"'\tx\""},
                 {"-inf", "'-inf"},
                 {"--1", "'--1"},
                 {"a=b", "a=b"},
                 {" =x", "\"' =x\""},
                 {" ' -x", "\"' ' -x\""},
                 {" -1", "\" -1\""},
                 {"a;=x", "\"a;=x\""},
                 {"\xEF\xBC\x9Dx", "'\xEF\xBC\x9Dx"}};
    enum { CASES = sizeof cases / sizeof *cases };
    static const char *const names[1] = {"=cmd|x"};
    const char *ids[CASES];
    char text[512] = "id,'=cmd|x\n";
    for (size_t i = 0; i < CASES; i++) {
        ids[i] = cases[i].id;
        (void)strcat(strcat(text, cases[i].cell), ",0\n");
    }
    expect_ok(f, cst_write_predictions_csv(f->context, at(f, "p.csv"), p, CASES, 1, ids, names));
    expect_text(f, "p.csv", text);
    cst_csv *csv = NULL;
    bool end = false;
    expect_ok(f, cst_csv_open(f->context, scope, &csv, &(cst_row_source){.path = at(f, "p.csv")}));
    expect_ok(f, cst_csv_next(f->context, csv, &end));
    assert_string_equal(cst_csv_cell(csv, 1), names[0]);
    for (size_t i = 0; i < CASES; i++) {
        expect_ok(f, cst_csv_next(f->context, csv, &end));
        assert_string_equal(cst_csv_cell(csv, 0), ids[i]);
        assert_string_equal(cst_csv_cell(csv, 1), "0");
    }
}

/* Of a long name so much stands in the temporary one that it is no longer than names may be, and
 * whole characters. */
static void temporary_names(void **state) {
    fixture *f = *state;
    char path[600];
    char name[512];
    for (int shift = 0; shift < 2; shift++) {
        memset(name, 0, sizeof name);
        name[0] = 'a';
        for (int i = 0; i < 125; i++)
            memcpy(name + shift + 2 * i, "\xc3\xa4", 2);
        (void)snprintf(path, sizeof path, "some/folder/%s", name);
        char *temporary = NULL;
        expect_ok(f, cst_hold_file(f->context, path, &temporary));
        size_t kept = 220 - (size_t)shift; /* 220 would end in the middle of a character */
        char expected[600];
        (void)snprintf(expected, sizeof expected, "some/folder/%.*s.tmp.%ld.", (int)kept, name,
                       (long)getpid());
        assert_string_equal(temporary, expected);
        cst_free(f->context, temporary);
    }
    cst_drop_files(f->context);
}

/* What is held gets its name with all the others, or none does. */
static void held_files(void **state) {
    fixture *f = *state;
    static const int32_t labels[2] = {1, 2};
    char names[3][512];
    for (int k = 0; k < 3; k++) {
        (void)snprintf(names[k], sizeof names[k], "%s", at(f, k == 0 ? "a" : k == 1 ? "b" : "c"));
        expect_ok(f, cst_hold_file(f->context, names[k], NULL));
    }
    put_text(f, "b", "old");
    for (int k = 0; k < 2; k++)
        expect_ok(f, cst_npy_write_i32(f->context, names[k], labels, 2));
    assert_int_equal(access(names[0], F_OK), -1);
    expect_text(f, "b", "old");
    expect_ok(f, cst_release_files(f->context));
    assert_int_equal(access(names[0], F_OK), 0);
    assert_int_equal(access(names[2], F_OK), -1);
    assert_int_equal(unlink(names[0]), 0);
    for (int drop = 0; drop < 2; drop++) {
        for (int k = 0; k < 2; k++) {
            expect_ok(f, cst_hold_file(f->context, names[k], NULL));
            expect_ok(f, cst_npy_write_i32(f->context, names[k], labels, 2));
        }
        if (drop) {
            cst_drop_files(f->context);
        } else {
            assert_int_equal(unlink(names[1]), 0);
            assert_int_equal(mkdir(names[1], 0700), 0);
            expect_error(f, cst_release_files(f->context), CST_ERROR_IO,
                         "/b: renaming the finished file failed", "nothing was changed", NULL);
            assert_int_equal(rmdir(names[1]), 0);
        }
        assert_int_equal(access(names[0], F_OK), -1);
    }
    expect_error(f, cst_hold_file(f->context, NULL, NULL), CST_ERROR_ARGUMENT, "path", NULL);
}

/* Where every temporary name is taken, a file that is there stays as it is. */
static void names_that_are_all_taken(void **state) {
    enum { TRIES = 100 };
    fixture *f = *state;
    static const int32_t labels[2] = {1, 2};
    put_text(f, "a.npy", "old");
    for (int i = 0; i < TRIES; i++) {
        char name[64];
        (void)snprintf(name, sizeof name, "a.npy.tmp.%ld.%d", (long)getpid(), i);
        put_text(f, name, "another's");
    }
    expect_error(f, cst_npy_write_i32(f->context, at(f, "a.npy"), labels, 2), CST_ERROR_IO,
                 "a.npy: creating a temporary file next to it failed: "
                 "File exists; nothing was changed",
                 NULL);
    expect_text(f, "a.npy", "old");
    char name[64];
    (void)snprintf(name, sizeof name, "a.npy.tmp.%ld.%d", (long)getpid(), TRIES - 1);
    expect_text(f, name, "another's");
    assert_int_equal(unlink(at(f, name)), 0); /* the last try succeeds */
    expect_ok(f, cst_npy_write_i32(f->context, at(f, "a.npy"), labels, 2));
    assert_int_equal(access(at(f, name), F_OK), -1);
}

/* The linker puts these in the place of libc's. */
static bool no_links;
static bool no_status;

int linkat(int from, const char *old, int to, const char *new, int flags) {
    if (!no_links)
        return (int)syscall(SYS_linkat, from, old, to, new, flags);
    errno = EPERM;
    return -1;
}

int fstat(int fd, struct stat *info) {
    if (!no_status)
        return fstatat(fd, "", info, AT_EMPTY_PATH);
    errno = ESTALE;
    return -1;
}

/* Where a file without a name cannot be given one, it is copied, if it can be asked how long it is.
 */
static void files_that_are_copied(void **state) {
    fixture *f = *state;
    cst_output_file *output = NULL;
    for (int failing = 0; failing < 2; failing++) {
        put_text(f, "a.txt", "old");
        expect_ok(f, cst_output_open(f->context, &output, at(f, "a.txt")));
        expect_ok(f, cst_output_write(f->context, output, "new", 3));
        no_links = true;
        no_status = failing != 0;
        cst_status status = cst_output_commit(f->context, output);
        bool tried = no_status;
        no_links = false;
        no_status = false;
        if (tried && status != CST_OK) /* there are files without a name here */
            expect_error(f, status, CST_ERROR_IO,
                         "a.txt: copying failed: Stale file handle; nothing was changed", NULL);
        expect_text(f, "a.txt", status == CST_OK ? "new" : "old");
        assert_true(status == CST_OK || tried);
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, files_setup, files_teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(sizes_that_no_file_has), TEST(cells_in_quotes), TEST(texts_that_look_like_formulas),
        TEST(temporary_names),        TEST(held_files),      TEST(names_that_are_all_taken),
        TEST(files_that_are_copied)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
