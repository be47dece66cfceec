/*
 * Calls that no program should make, for every public function by construction: NULL in all places,
 * a context that another thread is inside of, handles that were freed. NULL in one place at a time
 * is in tests/api/null.c and tests/api/null_scores.c, which must name every function that takes a
 * pointer.
 */
#include "base/base.h"
#include "public_functions.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "check.h"
#include "temporary.h"

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
        cst_status status = PUBLIC[i].call(NULL, NULL, -1);
        if (PUBLIC[i].has_status && status != CST_ERROR_ARGUMENT)
            fail_msg("%s without anything gives %s", PUBLIC[i].name, cst_status_name(status));
    }
}

static void with_a_context_alone(void **state) {
    static const char *const fine[] = {"cst_context_set_threads", "cst_context_set_memory",
                                       "cst_context_set_one_run", "cst_context_set_collectives",
                                       "cst_context_agree",       NULL};
    cst_context *context = *state;
    for (size_t i = 0; i < PUBLIC_COUNT; i++) {
        const public_function *f = &PUBLIC[i];
        if (!takes_context(f) || frees_context(f))
            continue;
        (void)(cst_fail)(context, CST_OK, "%s", "");
        cst_status status = f->call(context, NULL, -1);
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
        if (strpbrk(PUBLIC[i].kinds, "cpmroqtwk*") && !strstr(texts[0], call) &&
            !strstr(texts[1], call))
            fail_msg("%s takes pointers and is in neither tests/api/null.c nor null_scores.c",
                     PUBLIC[i].name);
    }
    free(texts[0]);
    free(texts[1]);
}

/* ---- two threads ---- */

static void *call_all_from_outside(void *user) {
    cst_context *context = user;
    for (size_t i = 0; i < PUBLIC_COUNT; i++) {
        const public_function *f = &PUBLIC[i];
        if (!takes_context(f) || !f->has_status)
            continue;
        cst_status status = f->call(context, NULL, -1);
        if (status != CST_ERROR_BUSY || !strstr(cst_last_error(context), "another thread")) {
            print_error("%s from a second thread gives %s: %s\n", f->name, cst_status_name(status),
                        cst_last_error(context));
            return (void *)(uintptr_t)f->name;
        }
    }
    return NULL;
}

static void second_thread_is_refused(void **state) {
    cst_context *context = *state;
    cst_context *entered = NULL;
    pthread_t thread;
    void *wrong = NULL;
    (void)(cst_fail)(context, CST_OK, "%s", "of the first");
    assert_int_equal(cst_context_enter(context, &entered), CST_OK);
    assert_int_equal(pthread_create(&thread, NULL, call_all_from_outside, context), 0);
    assert_int_equal(pthread_join(thread, &wrong), 0);
    assert_null(wrong);
    assert_string_equal(cst_last_error(context), "of the first");
    /* The thread inside may call again, as from a progress callback. */
    assert_int_equal(cst_context_set_threads(context, 1), CST_OK);
    cst_context_leave(&entered);
    assert_int_equal(cst_context_set_threads(context, 1), CST_OK);
}

static void *set_threads(void *context) {
    return cst_context_set_threads(context, 2) == CST_OK ? NULL : context;
}

/* One after the other is what a context is for. */
static void threads_may_take_turns(void **state) {
    cst_context *context = *state;
    for (int i = 0; i < 20; i++) {
        pthread_t thread;
        void *wrong = NULL;
        assert_int_equal(cst_context_set_threads(context, 1), CST_OK);
        assert_int_equal(pthread_create(&thread, NULL, set_threads, context), 0);
        assert_int_equal(pthread_join(thread, &wrong), 0);
        assert_null(wrong);
    }
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

enum { ROWS = 60, CLASSES = 3, MEMBERS = 2, KEPT_MAX = 1 << 16 };

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
        cst_pool_from_values(context, &pool, "oof", data, names, MEMBERS, ROWS, 1, targets),
        CST_OK);
    status = cst_compare(context, pool, &options, &report);
    check_report(context, status, report, &heard);
    cst_pool_free(context, pool);
}

/* ---- freed ---- */

/* Memory that is given back only at the end, so that looking at a freed handle is no fault of the
 * test's own. */
typedef struct keeper {
    void *kept[KEPT_MAX];
    size_t count;
} keeper;

static void *keep(void *user, void *pointer, size_t bytes) {
    keeper *k = user;
    if (bytes > 0)
        return realloc(pointer, bytes);
    if (k->count < KEPT_MAX)
        k->kept[k->count++] = pointer;
    return NULL;
}

typedef struct handles {
    cst_pool *pool;
    cst_model *model;
    cst_report *report;
    cst_options *options;
    cst_predictor *predictor;
    cst_safetensors *tensors;
    cst_safetensors_writer *writer;
    cst_checkpoints *checkpoints;
} handles;

/* A writer that is done, and the file that it wrote. */
static void make_file(cst_context *context, handles *h) {
    static const float numbers[2] = {1, 2};
    const int64_t shape[] = {2};
    char folder[TEMPORARY_CHARS];
    char path[TEMPORARY_CHARS + 16];
    temporary_path(folder, sizeof folder, "misuse");
    assert_non_null(mkdtemp(folder));
    (void)snprintf(path, sizeof path, "%s/x.safetensors", folder);
    assert_int_equal(cst_safetensors_writer_open(context, &h->writer, path, 0), CST_OK);
    assert_int_equal(cst_safetensors_writer_add(context, h->writer, "x", CST_DTYPE_F32, shape, 1),
                     CST_OK);
    assert_int_equal(cst_safetensors_writer_start(context, h->writer), CST_OK);
    assert_int_equal(cst_safetensors_writer_put_f32(context, h->writer, 0, numbers, 2), CST_OK);
    assert_int_equal(cst_safetensors_writer_finish(context, h->writer), CST_OK);
    h->writer = NULL;
    assert_int_equal(cst_safetensors_open(context, &h->tensors, path), CST_OK);
    const char *const paths[] = {path};
    assert_int_equal(cst_checkpoints_open(context, &h->checkpoints, paths, 1), CST_OK);
    assert_int_equal(cst_safetensors_writer_open(context, &h->writer, path, 0), CST_OK);
    assert_int_equal(remove(path), 0);
    assert_int_equal(rmdir(folder), 0);
}

static void make_handles(cst_context *context, handles *h) {
    static float predictions[MEMBERS][ROWS * CLASSES];
    static const char *const names[MEMBERS] = {"a", "b"};
    const float *const data[MEMBERS] = {predictions[0], predictions[1]};
    int32_t labels[ROWS];
    for (int i = 0; i < ROWS; i++) {
        labels[i] = i % CLASSES;
        for (int k = 0; k < MEMBERS; k++)
            for (int c = 0; c < CLASSES; c++)
                predictions[k][i * CLASSES + c] =
                    c == (i % (5 + k) ? labels[i] : (i + 1) % CLASSES) ? 0.5f : 0.25f;
    }
    assert_int_equal(cst_options_create(context, &h->options), CST_OK);
    assert_int_equal(cst_pool_from_memory(context, &h->pool, "oof", data, names, MEMBERS, ROWS,
                                          CLASSES, labels, CST_OUTPUT_PROBABILITY),
                     CST_OK);
    assert_int_equal(cst_fit(context, h->pool, "oof", h->options, &h->model, &h->report), CST_OK);
    assert_int_equal(cst_predictor_create(context, &h->predictor, h->model), CST_OK);
    make_file(context, h);
}

static void free_handles(cst_context *context, handles *h) {
    cst_safetensors_writer_abandon(context, h->writer);
    cst_safetensors_close(context, h->tensors);
    cst_checkpoints_close(context, h->checkpoints);
    cst_predictor_free(context, h->predictor);
    cst_report_free(context, h->report);
    cst_model_free(context, h->model);
    cst_pool_free(context, h->pool);
    cst_options_free(context, h->options);
}

#ifdef CST_CHECK_HANDLES
static void *handle_of(const handles *h, char kind) {
    switch (kind) {
    case 'p':
        return h->pool;
    case 'm':
        return h->model;
    case 'r':
        return h->report;
    case 'o':
        return h->options;
    case 'q':
        return h->predictor;
    case 't':
        return h->tensors;
    case 'w':
        return h->writer;
    case 'k':
        return h->checkpoints;
    default:
        return NULL;
    }
}

/* Every function that takes a handle, with one that was freed; also the function that frees. */
static void call_with_freed(cst_context *context, const handles *h) {
    for (size_t i = 0; i < PUBLIC_COUNT; i++)
        for (int place = 0; PUBLIC[i].kinds[place]; place++) {
            const public_function *f = &PUBLIC[i];
            void *handle = handle_of(h, f->kinds[place]);
            if (!handle)
                continue;
            (void)(cst_fail)(context, CST_OK, "%s", "");
            cst_status status = f->call(context, handle, place);
            if (!f->has_status)
                continue;
            bool says = !takes_context(f) || strstr(cst_last_error(context), "was freed");
            if (status != CST_ERROR_ARGUMENT || !says)
                fail_msg("%s with a freed handle in place %d gives %s: %s", f->name, place,
                         cst_status_name(status), cst_last_error(context));
        }
}

static void freed_handles_are_refused(void **state) {
    (void)state;
    keeper *k = calloc(1, sizeof *k);
    assert_non_null(k);
    cst_context *context = NULL;
    handles h = {0};
    assert_int_equal(cst_context_create_with(&context, keep, k), CST_OK);
    assert_int_equal(cst_context_set_threads(context, 1), CST_OK);
    make_handles(context, &h);
    free_handles(context, &h);
    call_with_freed(context, &h);
    /* One object in another's place. */
    handles fresh = {0};
    make_handles(context, &fresh);
    assert_int_equal(cst_pool_load(context, (void *)fresh.model, "oof"), CST_ERROR_ARGUMENT);
    assert_int_equal(cst_pool_members((void *)fresh.report), 0);
    /* A predictor whose model is gone. */
    float row[CLASSES] = {1, 0, 0};
    const float *const data[MEMBERS] = {row, row};
    cst_model_free(context, fresh.model);
    assert_int_equal(cst_predictor_predict(fresh.predictor, data, 1, row), CST_ERROR_ARGUMENT);
    assert_non_null(strstr(cst_predictor_error(fresh.predictor), "was freed"));
    free_handles(context, &fresh);
    /* The context itself. */
    cst_context_free(context);
    for (size_t i = 0; i < PUBLIC_COUNT; i++)
        if (takes_context(&PUBLIC[i]) && PUBLIC[i].call(context, NULL, -1) == CST_OK &&
            PUBLIC[i].has_status)
            fail_msg("%s works with a freed context", PUBLIC[i].name);
    assert_true(k->count < KEPT_MAX);
    for (size_t i = 0; i < k->count; i++)
        free(k->kept[i]);
    free(k);
}
#endif

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
        const cst_soup_config soup = {.seed = seed};
        char wanted[32];
        (void)snprintf(wanted, sizeof wanted, "got %llu", (unsigned long long)seed);
        REFUSED(cst_evaluate(context, NULL, 1, 1, NULL, 0, seed, NULL));
        REFUSED(cst_evaluate_member(context, NULL, "oof", 0, 0, seed, NULL));
        REFUSED(cst_evaluate_model(context, NULL, NULL, "test", 0, 0, seed, NULL));
        REFUSED(cst_evaluate_stack(context, NULL, NULL, &evaluate, NULL));
        REFUSED(cst_evaluate_detections(context, NULL, NULL, 0, seed, NULL));
        REFUSED(cst_segmentation_evaluate_file(context, NULL, NULL, 2, 0, seed, NULL));
        REFUSED(cst_compare(context, NULL, &compare, NULL));
        REFUSED(cst_ablate(context, NULL, &compare, NULL));
        REFUSED(cst_sweep(context, NULL, &sweep, &compare, NULL));
        REFUSED(cst_bound(context, NULL, NULL, &bound, NULL));
        REFUSED(cst_bound_shifted(context, NULL, NULL, &bound, NULL, NULL));
        REFUSED(cst_profile(context, NULL, NULL, &profile, NULL));
        REFUSED(cst_soup_learned(context, NULL, 0, &soup, NULL, NULL));
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
        REFUSED(cst_evaluate(context, NULL, 1, 1, NULL, resamples, 0, NULL));
        REFUSED(cst_evaluate_member(context, NULL, "oof", 0, resamples, 0, NULL));
        REFUSED(cst_evaluate_model(context, NULL, NULL, "test", 0, resamples, 0, NULL));
        REFUSED(cst_evaluate_stack(context, NULL, NULL, &evaluate, NULL));
        REFUSED(cst_evaluate_detections(context, NULL, NULL, resamples, 0, NULL));
        REFUSED(cst_segmentation_evaluate_file(context, NULL, NULL, 2, resamples, 0, NULL));
        REFUSED(cst_compare(context, NULL, &compare, NULL));
        REFUSED(cst_ablate(context, NULL, &compare, NULL));
        REFUSED(cst_sweep(context, NULL, &sweep, &compare, NULL));
    }
}

static void handles_without_checks(void **state) {
    handles h = {0};
    make_handles(*state, &h);
    free_handles(*state, &h);
    (void)keep;
}

int suite_misuse(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_a_context),
        cmocka_unit_test(with_a_context_alone),
        cmocka_unit_test(null_in_each_place_is_tested),
        cmocka_unit_test(second_thread_is_refused),
        cmocka_unit_test(threads_may_take_turns),
        cmocka_unit_test(calls_from_a_callback_keep_to_themselves),
        cmocka_unit_test(calls_from_predicted_keep_to_themselves),
        cmocka_unit_test(seeds_beyond_documents),
        cmocka_unit_test(resamples_that_are_none),
        cmocka_unit_test(handles_without_checks),
#ifdef CST_CHECK_HANDLES
        cmocka_unit_test(freed_handles_are_refused),
#endif
    };
    return cmocka_run_group_tests(tests, context_setup, context_teardown);
}
