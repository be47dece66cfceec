/*
 * Base: status list, allocation limits, fixed-order reductions, random numbers against published
 * values.
 */
#include "core/scope.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "check.h"

static void status_values_are_pinned(void **state) {
    (void)state;
    assert_int_equal(CST_OK, 0);
    assert_int_equal(CST_ERROR_INPUT, 2);
    assert_int_equal(CST_ERROR_INTERNAL, 11);
    assert_string_equal(cst_status_name(CST_ERROR_FORMAT), "CST_ERROR_FORMAT");
    assert_string_equal(cst_status_name((cst_status)4711), "unknown status");
}

static void allocation_overflow_is_refused(void **state) {
    cst_context *context = *state;
    assert_null(cst_alloc(context, SIZE_MAX / 2, 4));
    assert_non_null(strstr(cst_last_error(context), "overflow"));
    double *p = cst_alloc(context, 3, sizeof *p);
    assert_non_null(p);
    assert_int_equal((uintptr_t)p % 64, 0);
    p[2] = 5;
    double *q = cst_grow(context, p, 3, 100, sizeof *q);
    assert_true(q[2] == 5);
    cst_free(context, q);
}

static void count_release(cst_context *context, void *object) {
    (void)context;
    ++*(int *)object;
}

static void a_scope_frees_what_was_taken(void **state) {
    cst_context *context = *state;
    int released = 0;
    {
        CST_SCOPE(scope);
        for (size_t i = 0; i < 200; i++) {
            double *p = cst_take(context, scope, 1 + i * 7, sizeof *p);
            assert_non_null(p);
            assert_int_equal((uintptr_t)p % 64, 0);
            for (size_t j = 0; j < 1 + i * 7; j++) {
                assert_true(p[j] == 0);
                p[j] = 1;
            }
        }
        assert_string_equal(cst_take_text(context, scope, "name"), "name");
        assert_int_equal(cst_scope_own(context, scope, count_release, &released), CST_OK);
        assert_null(cst_take(context, scope, SIZE_MAX / 2, 4));
        assert_null(cst_take(context, scope, SIZE_MAX - 8, 1));
        assert_int_equal(released, 0);
    }
    assert_int_equal(released, 1);
}

static void structs_of_other_versions(void **state) {
    cst_context *context = *state;
    struct {
        size_t size;
        double a;
        double b;
        double later;
    } given = {.a = 1, .b = 2}, own = {0};
    const size_t first = offsetof(__typeof__(given), b);
    const size_t known = offsetof(__typeof__(given), later);
    assert_int_equal(cst_struct_read(context, "f", NULL, first, &own, known), CST_OK);
    assert_true(own.a == 0);
    assert_int_equal(cst_struct_read(context, "f", &given, first, &own, known), CST_OK);
    assert_true(own.a == 1 && own.b == 0); /* size 0: the first version's fields */
    given.size = sizeof given;
    assert_int_equal(cst_struct_read(context, "f", &given, first, &own, known), CST_OK);
    assert_true(own.b == 2);
    given.later = 3;
    assert_int_equal(cst_struct_read(context, "f", &given, first, &own, known),
                     CST_ERROR_UNSUPPORTED);
    given.size = 4;
    assert_int_equal(cst_struct_read(context, "f", &given, first, &own, known), CST_ERROR_ARGUMENT);
}

static cst_status add_terms(cst_context *worker, void *user, int64_t block, double *sum) {
    (void)worker;
    (void)user;
    for (int i = 0; i < 1000; i++)
        sum[0] += 1.0 / (double)(1 + block * 1000 + i);
    sum[1] += (double)block;
    return CST_OK;
}

/* A temporary file for a large array that cannot be made is no want of memory. */
static void no_temporary_file_is_an_error_of_its_own(void **state) {
    (void)state;
    cst_context *context = NULL;
    char *before = getenv("TMPDIR") ? strdup(getenv("TMPDIR")) : NULL;
    assert_int_equal(cst_context_create(&context), CST_OK);
    assert_int_equal(cst_context_set_memory(context, (size_t)64 << 20), CST_OK);
    assert_int_equal(setenv("TMPDIR", "/nonexistent", 1), 0);
    assert_null(cst_alloc(context, (size_t)48 << 20, 1));
    assert_non_null(strstr(cst_last_error(context), "set TMPDIR"));
    assert_int_equal(cst_why(context, CST_ERROR_MEMORY), CST_ERROR_IO);
    assert_null(cst_alloc(context, SIZE_MAX / 2, 4));
    assert_int_equal(cst_why(context, CST_ERROR_MEMORY), CST_ERROR_MEMORY);
    assert_int_equal(cst_why(context, CST_OK), CST_OK);
    assert_int_equal(before ? setenv("TMPDIR", before, 1) : unsetenv("TMPDIR"), 0);
    free(before);
    cst_context_free(context);
}

static void sums_do_not_depend_on_threads(void **state) {
    cst_context *context = *state;
    double first[2];
    assert_int_equal(cst_context_set_threads(context, 1), CST_OK);
    assert_int_equal(cst_reduce_blocks(context, 101, 2, add_terms, NULL, first), CST_OK);
    assert_true(first[1] == 5050);
    for (int threads = 2; threads <= 8; threads++) {
        double again[2];
        assert_int_equal(cst_context_set_threads(context, threads), CST_OK);
        assert_int_equal(cst_reduce_blocks(context, 101, 2, add_terms, NULL, again), CST_OK);
        assert_memory_equal(first, again, sizeof first);
    }
}

static cst_status fail_late(cst_context *worker, void *user, int64_t task) {
    (void)user;
    if (task >= 37)
        return cst_fail(worker, CST_ERROR_INPUT, "task %lld", (long long)task);
    return CST_OK;
}

static void the_lowest_failing_task_is_reported(void **state) {
    cst_context *context = *state;
    for (int threads = 1; threads <= 4; threads++) {
        assert_int_equal(cst_context_set_threads(context, threads), CST_OK);
        assert_int_equal(cst_parallel_for(context, 200, fail_late, NULL), CST_ERROR_INPUT);
        assert_string_equal(cst_last_error(context), "task 37");
    }
}

/* Known-answer values of philox4x32-10 from Random123's kat_vectors: zero key and counter. */
static void philox_known_answer(void **state) {
    (void)state;
    cst_rng rng;
    cst_rng_init(&rng, 0, (cst_stream)0, 0);
    assert_int_equal(cst_rng_u32(&rng), 0x6627e8d5);
    assert_int_equal(cst_rng_u32(&rng), 0xe169c58d);
    assert_int_equal(cst_rng_u32(&rng), 0xbc57ac4c);
    assert_int_equal(cst_rng_u32(&rng), 0x9b00dbd8);
}

static void shuffle_is_a_permutation(void **state) {
    (void)state;
    int64_t items[100];
    int seen[100] = {0};
    for (int i = 0; i < 100; i++)
        items[i] = i;
    cst_rng rng;
    cst_rng_init(&rng, 7, CST_STREAM_TEST, 0);
    cst_rng_shuffle(&rng, items, 100);
    int moved = 0;
    for (int i = 0; i < 100; i++) {
        seen[items[i]]++;
        moved += items[i] != i;
    }
    for (int i = 0; i < 100; i++)
        assert_int_equal(seen[i], 1);
    assert_true(moved > 80);
}

/* Says stop at the third question. */
typedef struct asked {
    int times;
    int stop_at;
} asked;

static int answer(void *user, const char *stage, int64_t done, int64_t total) {
    asked *a = user;
    assert_string_equal(stage, "work");
    assert_true(done == 1 && total == 2);
    return ++a->times >= a->stop_at;
}

static cst_status slow_task(cst_context *context, void *user, int64_t task) {
    (void)task;
    (void)user;
    double until = cst_seconds() + 0.02;
    while (cst_seconds() < until)
        continue;
    return cst_poll(context); /* as an inner loop does */
}

/* A loop stops soon after the callback asks for it, with any number of threads, and the next one
 * runs. */
static void loops_can_be_stopped(void **state) {
    cst_context *context = *state;
    for (int threads = 1; threads <= 3; threads++) {
        asked a = {.stop_at = 3};
        assert_int_equal(cst_context_set_threads(context, threads), CST_OK);
        cst_context_set_progress(context, answer, &a);
        assert_int_equal(cst_progress(context, "work", 1, 2), CST_OK);
        double start = cst_seconds();
        assert_int_equal(cst_parallel_for(context, 1000, slow_task, NULL), CST_ERROR_CANCELLED);
        assert_true(cst_seconds() - start < 5); /* 1000 tasks take 20 s a thread */
        assert_non_null(strstr(cst_last_error(context), "during work"));
        assert_int_equal(a.times, 3);
        a = (asked){.stop_at = 1000};
        assert_int_equal(cst_parallel_for(context, 8, slow_task, NULL), CST_OK);
        cst_context_set_progress(context, NULL, NULL);
    }
}

static void notices_say_what_they_are_about(void **state) {
    cst_context *context = *state;
    cst_notice_about(context, "ridge");
    cst_notice(context, "%d columns", 3);
    cst_notice_about(context, NULL);
    cst_notice(context, "%d columns", 3);
    cst_mute(context, true);
    cst_notice(context, "not kept");
    cst_mute(context, false);
    assert_int_equal(cst_notice_count(context), 2);
    assert_string_equal(cst_notice_at(context, 0), "ridge: 3 columns");
    assert_string_equal(cst_notice_at(context, 1), "3 columns");
}

static cst_status block_term(cst_context *context, void *user, int64_t block, double *sum) {
    (void)context;
    (void)user;
    sum[0] = 1.0 / (double)(3 + block);
    return CST_OK;
}

/* The threads of a parent are not in the child that it forks: loops of both come to their end, with
 * the same sums. An alarm ends a child that waits. */
static void loops_run_in_a_forked_child(void **state) {
    cst_context *context = *state;
    assert_int_equal(cst_context_set_threads(context, 2), CST_OK);
    double before = 0;
    assert_int_equal(cst_reduce_blocks(context, 100, 1, block_term, NULL, &before), CST_OK);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        (void)alarm(20);
        double there = 0;
        cst_status status = cst_reduce_blocks(context, 100, 1, block_term, NULL, &there);
        if (status == CST_OK)
            status = cst_parallel_long(context, 3, slow_task, NULL);
        _exit(status == CST_OK && there == before ? 0 : 1);
    }
    int ended = 0;
    assert_int_equal(waitpid(child, &ended, 0), child);
    assert_true(WIFEXITED(ended));
    assert_int_equal(WEXITSTATUS(ended), 0);
    double after = 0;
    assert_int_equal(cst_reduce_blocks(context, 100, 1, block_term, NULL, &after), CST_OK);
    assert_memory_equal(&after, &before, sizeof before);
}

int suite_context(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(notices_say_what_they_are_about, context_setup,
                                        context_teardown),
        cmocka_unit_test_setup_teardown(loops_can_be_stopped, context_setup, context_teardown),
        cmocka_unit_test_setup_teardown(loops_run_in_a_forked_child, context_setup,
                                        context_teardown),
        cmocka_unit_test(status_values_are_pinned),
        cmocka_unit_test(no_temporary_file_is_an_error_of_its_own),
        cmocka_unit_test_setup_teardown(allocation_overflow_is_refused, context_setup,
                                        context_teardown),
        cmocka_unit_test_setup_teardown(a_scope_frees_what_was_taken, context_setup,
                                        context_teardown),
        cmocka_unit_test_setup_teardown(structs_of_other_versions, context_setup, context_teardown),
        cmocka_unit_test_setup_teardown(sums_do_not_depend_on_threads, context_setup,
                                        context_teardown),
        cmocka_unit_test_setup_teardown(the_lowest_failing_task_is_reported, context_setup,
                                        context_teardown),
        cmocka_unit_test(philox_known_answer),
        cmocka_unit_test(shuffle_is_a_permutation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
