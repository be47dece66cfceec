/*
 * Spills: what is written is read back, from several threads; nothing is left in the folder; a
 * folder that is missing, a disk that is too small and reading beyond the end are errors that say
 * what to do.
 */
#define _XOPEN_SOURCE 700 /* setenv */
#include "io/spill.h"

#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { TASKS = 16, WORDS = 5000 };

static char folder[] = "/tmp/test_spill.XXXXXX";

static int setup(void **state) {
    *state = NULL;
    return cst_context_create((cst_context **)state) != CST_OK || !mkdtemp(folder) ||
           setenv("TMPDIR", folder, 1) != 0;
}

static int teardown(void **state) {
    cst_context_free(*state);
    return rmdir(folder); /* fails where a file was left */
}

static int entries(void) {
    DIR *at = opendir(folder);
    int count = 0;
    assert_non_null(at);
    while (readdir(at))
        count++;
    (void)closedir(at);
    return count;
}

static cst_status round_trip(cst_context *worker, void *user, int64_t task) {
    cst_spill *spill = user;
    uint32_t words[WORDS];
    uint32_t back[WORDS];
    for (uint32_t i = 0; i < WORDS; i++)
        words[i] = i * 2654435761U + (uint32_t)task;
    uint64_t offset = (uint64_t)(TASKS - 1 - task) * sizeof words;
    cst_status status = cst_spill_write(worker, spill, offset, words, sizeof words);
    if (status == CST_OK)
        status = cst_spill_read(worker, spill, offset, back, sizeof back);
    if (status == CST_OK && memcmp(words, back, sizeof words) != 0)
        return cst_fail(worker, CST_ERROR_INTERNAL, "other bytes came back");
    return status;
}

static void bytes_come_back(void **state) {
    cst_spill *spill = NULL;
    assert_int_equal(cst_context_set_threads(*state, 3), CST_OK);
    assert_int_equal(cst_spill_create(*state, &spill, (uint64_t)TASKS * WORDS * 4), CST_OK);
    assert_int_equal(entries(), 2); /* . and .. */
    assert_int_equal(cst_parallel_for(*state, TASKS, round_trip, spill), CST_OK);
    for (uint32_t task = 0; task < TASKS; task++) {
        uint32_t word = 0;
        uint64_t at = ((uint64_t)(TASKS - 1 - task) * WORDS + 7) * sizeof word;
        assert_int_equal(cst_spill_read(*state, spill, at, &word, sizeof word), CST_OK);
        assert_int_equal(word, 7 * 2654435761U + task);
    }
    cst_spill_close(*state, spill);
}

static void the_end_is_an_error(void **state) {
    cst_spill *spill = NULL;
    char byte = 1;
    char two[2];
    assert_int_equal(cst_spill_create(*state, &spill, 0), CST_OK);
    assert_int_equal(cst_spill_write(*state, spill, 0, &byte, 1), CST_OK);
    assert_int_equal(cst_spill_read(*state, spill, 0, two, sizeof two), CST_ERROR_IO);
    assert_non_null(strstr(cst_last_error(*state), "byte 1"));
    cst_spill_close(*state, spill);
}

static void a_full_disk_says_what_to_do(void **state) {
    cst_spill *spill = NULL;
    assert_int_equal(cst_spill_create(*state, &spill, UINT64_C(1) << 62), CST_ERROR_IO);
    assert_null(spill);
    assert_non_null(strstr(cst_last_error(*state), folder));
    assert_non_null(strstr(cst_last_error(*state), "TMPDIR"));
}

static void a_missing_folder_is_named(void **state) {
    cst_spill *spill = NULL;
    assert_int_equal(setenv("TMPDIR", "/nowhere/at/all", 1), 0);
    assert_int_equal(cst_spill_create(*state, &spill, 0), CST_ERROR_IO);
    assert_int_equal(setenv("TMPDIR", folder, 1), 0);
    assert_null(spill);
    assert_non_null(strstr(cst_last_error(*state), "/nowhere/at/all"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_come_back),
        cmocka_unit_test(the_end_is_an_error),
        cmocka_unit_test(a_full_disk_says_what_to_do),
        cmocka_unit_test(a_missing_folder_is_named),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
