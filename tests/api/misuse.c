/*
 * Calls that no program should make, for every public function: NULL everywhere, seeds and numbers
 * of resamples beyond their limits; and calls from callbacks. NULL in one place at a time is in
 * null.c and null_scores.c, which must name every function that takes a pointer.
 */
#include "core/base.h"
#include "data/pool/pool.h"
#include "pool_from_values.h"
#include "public_functions.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "check.h"

static bool is_in(const char *name, const char *const *list) {
    for (; *list; list++)
        if (strcmp(*list, name) == 0)
            return true;
    return false;
}

static bool takes_context(const public_function *f) {
    return f->kinds[0] == 'c';
}

/* The context itself would be gone. */
static bool frees_context(const public_function *f) {
    return strcmp(f->name, "cst_context_free") == 0;
}

/* ---- NULL ---- */

static void without_a_context(void **state) {
    (void)state;
    for (size_t i = 0; i < PUBLIC_COUNT; i++) {
        cst_status status = PUBLIC[i].call(NULL);
        if (PUBLIC[i].has_status && status != CST_ERROR_ARGUMENT)
            fail_msg("%s without anything gives %s", PUBLIC[i].name, cst_status_name(status));
    }
}

static void with_a_context_alone(void **state) {
    static const char *const fine[] = {"cst_context_set_threads",     "cst_context_set_memory",
                                       "cst_context_set_collectives", "cst_context_agree",
                                       "cst_release_files",           NULL};
    cst_context *context = *state;
    for (size_t i = 0; i < PUBLIC_COUNT; i++) {
        const public_function *f = &PUBLIC[i];
        if (!takes_context(f) || frees_context(f))
            continue;
        (void)(cst_fail)(context, CST_OK, "%s", "");
        cst_status status = f->call(context);
        if (!f->has_status || is_in(f->name, fine))
            continue;
        const char *text = cst_last_error(context);
        if (status != CST_ERROR_ARGUMENT || !*text || strchr(text, '\n'))
            fail_msg("%s with a context alone gives %s: %s", f->name, cst_status_name(status),
                     text);
    }
}

/* The text of a file of the tests. */
static char *read_text(const char *path) {
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    assert_int_equal(fseek(file, 0, SEEK_END), 0);
    long size = ftell(file);
    assert_true(size > 0);
    rewind(file);
    char *text = malloc((size_t)size + 1);
    assert_non_null(text);
    assert_int_equal(fread(text, 1, (size_t)size, file), size);
    text[size] = '\0';
    (void)fclose(file);
    return text;
}

static void null_in_each_place_is_tested(void **state) {
    (void)state;
    char *texts[] = {read_text(CST_TEST_DATA "/../api/null.c"),
                     read_text(CST_TEST_DATA "/../api/null_scores.c")};
    for (size_t i = 0; i < PUBLIC_COUNT; i++) {
        char call[128];
        (void)snprintf(call, sizeof call, "%s(", PUBLIC[i].name);
        if (strpbrk(PUBLIC[i].kinds, "c*") && !strstr(texts[0], call) && !strstr(texts[1], call))
            fail_msg("%s takes pointers and is in neither tests/api/null.c nor null_scores.c",
                     PUBLIC[i].name);
    }
    free(texts[0]);
    free(texts[1]);
}

/* ---- from a callback ---- */

typedef struct inner_call {
    cst_context *context;
    int calls;
    bool inside;
    bool stop; /* at the end, on request */
    char stage[64];
    int64_t done;
    int64_t total;
} inner_call;

/* Every call calls the library, which calls this: the inner one asks to stop. */
static int call_inside(void *user, const char *stage, int64_t done, int64_t total) {
    inner_call *call = user;
    if (call->inside)
        return 1;
    (void)snprintf(call->stage, sizeof call->stage, "%s", stage);
    call->done = done;
    call->total = total;
    call->calls++;
    cst_context *entered = NULL;
    assert_int_equal(cst_context_enter(call->context, &entered), CST_OK);
    cst_notices_clear(entered);
    cst_notice_about(entered, "inner");
    cst_notice(entered, "said inside");
    assert_int_equal(cst_notice_count(entered), 1);
    assert_string_equal(cst_notice_at(entered, 0), "inner: said inside");
    call->inside = true;
    assert_int_equal(cst_stage(entered, "deep"), CST_ERROR_CANCELLED);
    assert_true(cst_count_begin(entered, 3));
    cst_count_one(entered);
    call->inside = false;
    cst_context_leave(&entered);
    return call->stop;
}

static void calls_from_a_callback_keep_to_themselves(void **state) {
    cst_context *context = *state;
    inner_call call = {.context = context};
    cst_context *entered = NULL;
    assert_int_equal(cst_context_enter(context, &entered), CST_OK);
    cst_notices_clear(context);
    cst_notice_about(context, "outer");
    cst_notice(context, "said before");
    cst_context_set_progress(context, call_inside, &call);
    assert_int_equal(cst_stage(context, "long"), CST_OK);
    assert_true(cst_count_begin(context, 10));
    cst_count_one(context);
    cst_count_one(context);
    for (double start = cst_seconds(); cst_seconds() - start < 0.07;)
        ;
    assert_int_equal(cst_poll(context), CST_OK);
    assert_int_equal(call.calls, 2);
    assert_string_equal(call.stage, "outer: long");
    assert_int_equal(call.done, 2);
    assert_int_equal(call.total, 10);
    cst_notice(context, "said after");
    assert_int_equal(cst_notice_count(context), 2);
    assert_string_equal(cst_notice_at(context, 0), "outer: said before");
    assert_string_equal(cst_notice_at(context, 1), "outer: said after");
    call.stop = true;
    for (double start = cst_seconds(); cst_seconds() - start < 0.07;)
        ;
    assert_int_equal(cst_poll(context), CST_ERROR_CANCELLED);
    assert_string_equal(cst_last_error(context), "stopped on request during outer: long");
    cst_count_end(context);
    cst_notice_about(context, NULL);
    cst_notices_clear(context);
    cst_context_set_progress(context, NULL, NULL);
    cst_context_leave(&entered);
}

enum { ROWS = 60, CLASSES = 3, MEMBERS = 2 };

typedef struct listener {
    cst_context *context;
    int calls;
} listener;

/* Makes a call that leaves a notice. */
static cst_status listen(void *user, const char *method, const char *split,
                         const float *predictions, int64_t rows, int32_t columns) {
    listener *l = user;
    cst_context *entered = NULL;
    (void)method;
    (void)split;
    assert_true(predictions && rows == ROWS && columns > 0);
    l->calls++;
    assert_int_equal(cst_context_enter(l->context, &entered), CST_OK);
    cst_notice(entered, "said inside");
    cst_context_leave(&entered);
    return CST_OK;
}

static void check_report(cst_context *context, cst_status status, cst_report *report,
                         listener *heard) {
    char *text = NULL;
    assert_int_equal(status, CST_OK);
    assert_true(heard->calls > 0);
    heard->calls = 0;
    assert_int_equal(cst_report_json(context, report, &text), CST_OK);
    assert_null(strstr(text, "said inside"));
    cst_free(context, text);
    cst_report_free(context, report);
}

static void calls_from_predicted_keep_to_themselves(void **state) {
    static float p[MEMBERS][ROWS * CLASSES];
    static const char *const names[MEMBERS] = {"a", "b"};
    static const char *const methods[] = {"average"};
    const float *const data[MEMBERS] = {p[0], p[1]};
    cst_context *context = *state;
    listener heard = {.context = context};
    const cst_compare_options options = {
        .methods = methods, .method_count = 1, .predicted = listen, .user = &heard};
    int32_t labels[ROWS];
    double targets[ROWS];
    cst_report *report = NULL;
    cst_pool *pool = NULL;
    for (int i = 0; i < ROWS; i++) {
        labels[i] = i % CLASSES;
        targets[i] = i % 7 + 0.1 * i;
        for (int k = 0; k < MEMBERS; k++)
            for (int c = 0; c < CLASSES; c++)
                p[k][i * CLASSES + c] =
                    c == (i % (5 + k) ? labels[i] : (i + 1) % CLASSES) ? 0.5f : 0.25f;
    }
    assert_int_equal(cst_pool_from_memory(context, &pool, "oof", data, names, MEMBERS, ROWS,
                                          CLASSES, labels, CST_OUTPUT_PROBABILITY),
                     CST_OK);
    cst_status status = cst_compare(context, pool, &options, &report);
    check_report(context, status, report, &heard);
    status = cst_ablate(context, pool, &options, &report);
    check_report(context, status, report, &heard);
    cst_pool_free(context, pool);
    assert_int_equal(
        pool_from_values(context, &pool, "oof", data, names, MEMBERS, ROWS, 1, targets), CST_OK);
    status = cst_compare(context, pool, &options, &report);
    check_report(context, status, report, &heard);
    cst_pool_free(context, pool);
}

/* An argument error that says `wanted`. */
#define REFUSED(call)                                                                              \
    do {                                                                                           \
        assert_int_equal((call), CST_ERROR_ARGUMENT);                                              \
        if (!strstr(cst_last_error(context), wanted))                                              \
            fail_msg("%s: %s", #call, cst_last_error(context));                                    \
    } while (0)

/* Documents hold a seed as a number: every call that writes one refuses what readers would round.
 */
static void seeds_beyond_documents(void **state) {
    static const uint64_t seeds[] = {((uint64_t)1 << 53) + 1, UINT64_MAX};
    cst_context *context = *state;
    for (size_t i = 0; i < 2; i++) {
        uint64_t seed = seeds[i];
        const cst_evaluate_options evaluate = {.seed = seed};
        const cst_compare_options compare = {.seed = seed};
        const cst_sweep_options sweep = {0};
        const cst_bound_options bound = {.seed = seed};
        const cst_profile_options profile = {.seed = seed};
        char wanted[32];
        (void)snprintf(wanted, sizeof wanted, "got %llu", (unsigned long long)seed);
        REFUSED(cst_evaluate_member(context, NULL, "oof", 0, NULL, 0, seed, NULL));
        REFUSED(cst_evaluate_stack(context, NULL, NULL, &evaluate, NULL));
        REFUSED(cst_evaluate_detections(context, NULL, NULL, 0, seed, NULL));
        REFUSED(cst_evaluate_detections_against(context, NULL, NULL, NULL, 0, seed, NULL));
        REFUSED(cst_segmentation_evaluate_file(context, NULL, NULL, NULL, 2, 0, seed, NULL));
        REFUSED(cst_compare(context, NULL, &compare, NULL));
        REFUSED(cst_ablate(context, NULL, &compare, NULL));
        REFUSED(cst_sweep(context, NULL, &sweep, &compare, NULL));
        REFUSED(cst_bound(context, NULL, NULL, &bound, NULL));
        REFUSED(cst_bound_shifted(context, NULL, NULL, &bound, NULL, NULL));
        REFUSED(cst_profile(context, NULL, NULL, &profile, NULL));
    }
}

/* Every call that takes a number of resamples, which may be 0, refuses less and more than there
 * are.
 */
static void resamples_that_are_none(void **state) {
    static const int32_t wrong[] = {-1, INT32_MIN, 10000001, INT32_MAX};
    cst_context *context = *state;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        int32_t resamples = wrong[i];
        const cst_evaluate_options evaluate = {.resamples = resamples};
        const cst_compare_options compare = {.resamples = resamples};
        const cst_sweep_options sweep = {0};
        char wanted[32];
        (void)snprintf(wanted, sizeof wanted, "got %d", (int)resamples);
        REFUSED(cst_evaluate_member(context, NULL, "oof", 0, NULL, resamples, 0, NULL));
        REFUSED(cst_evaluate_stack(context, NULL, NULL, &evaluate, NULL));
        REFUSED(cst_evaluate_detections(context, NULL, NULL, resamples, 0, NULL));
        REFUSED(cst_evaluate_detections_against(context, NULL, NULL, NULL, resamples, 0, NULL));
        REFUSED(cst_segmentation_evaluate_file(context, NULL, NULL, NULL, 2, resamples, 0, NULL));
        REFUSED(cst_compare(context, NULL, &compare, NULL));
        REFUSED(cst_ablate(context, NULL, &compare, NULL));
        REFUSED(cst_sweep(context, NULL, &sweep, &compare, NULL));
    }
}

/* Predictions of the caller's own that are none are refused before anything is looked at. */
static void own_predictions_that_are_none(void **state) {
    static const float values[] = {0.5f, 0.5f};
    static const char wanted[] = "own";
    static const cst_own_predictions wrong[] = {
        {.path = "a.npy"},
        {.name = "a"},
        {.name = "a", .path = "a.npy", .values = values},
        {.name = "a", .values = values, .rows = 1},
        {.name = "a", .values = values, .rows = -1, .columns = 2},
    };
    static const cst_own_predictions right = {
        .name = "a", .values = values, .rows = 1, .columns = 2};
    cst_context *context = *state;
    cst_report *report = NULL;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        const cst_compare_options compare = {.own = &wrong[i], .own_count = 1};
        REFUSED(cst_compare(context, NULL, &compare, &report));
    }
    for (int64_t count = -1; count < 600; count += 258) {
        const cst_compare_options compare = {.own = count > 0 ? &right : NULL, .own_count = count};
        REFUSED(cst_compare(context, NULL, &compare, &report));
    }
    const cst_compare_options nothing = {.own_count = 1};
    REFUSED(cst_compare(context, NULL, &nothing, &report));
}

int suite_misuse(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_a_context),
        cmocka_unit_test(with_a_context_alone),
        cmocka_unit_test(null_in_each_place_is_tested),
        cmocka_unit_test(calls_from_a_callback_keep_to_themselves),
        cmocka_unit_test(calls_from_predicted_keep_to_themselves),
        cmocka_unit_test(seeds_beyond_documents),
        cmocka_unit_test(resamples_that_are_none),
        cmocka_unit_test(own_predictions_that_are_none),
    };
    return cmocka_run_group_tests(tests, context_setup, context_teardown);
}
