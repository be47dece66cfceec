/*
 * The threads of a context: a system that starts none or few of them, forks, signals, rounding.
 * The linker puts functions of this file in the places of pthread_create and mmap.
 */
#include "check.h"
#include "random_case.h"
#include "short_tests.h"

#include "core/la.h"

#include <errno.h>
#include <fenv.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

enum { THREADS = 6, BLOCKS = 300, LIMIT = 30 };

/* Threads that the system still starts; negative: any number. */
static int thread_budget = -1;
static int threads_started;
/* Bytes of one mapping from which on there is no memory for it; 0: there is. */
static size_t mapping_limit;

int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
                          void *(*start)(void *), void *user);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
                          void *(*start)(void *), void *user);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
                          void *(*start)(void *), void *user) {
    if (thread_budget == 0)
        return EAGAIN;
    if (thread_budget > 0)
        thread_budget--;
    threads_started++;
    return __real_pthread_create(thread, attributes, start, user);
}

void *__real_mmap(void *at, size_t bytes, int protection, int flags, int fd, off_t offset);
void *__wrap_mmap(void *at, size_t bytes, int protection, int flags, int fd, off_t offset);
void *__wrap_mmap(void *at, size_t bytes, int protection, int flags, int fd, off_t offset) {
    if (mapping_limit > 0 && bytes >= mapping_limit) {
        errno = ENOMEM;
        return MAP_FAILED;
    }
    return __real_mmap(at, bytes, protection, flags, fd, offset);
}

static int limits_gone(void **state) {
    thread_budget = -1;
    mapping_limit = 0;
    return context_teardown(state);
}

static cst_status term(cst_context *context, void *user, int64_t block, double *sum) {
    (void)context;
    (void)user;
    sum[0] = 1.0 / (double)(3 + block);
    return CST_OK;
}

static double sum_of_blocks(cst_context *context) {
    double sum = 0;
    assert_int_equal(cst_reduce_blocks(context, BLOCKS, 1, term, NULL, &sum), CST_OK);
    return sum;
}

static double sum_of_one_thread(cst_context *context) {
    assert_int_equal(cst_context_set_threads(context, 1), CST_OK);
    return sum_of_blocks(context);
}

/* Whether exactly one notice holds the text. */
static bool one_notice_says(const cst_context *context, const char *text) {
    int found = 0;
    for (size_t i = 0; i < cst_notice_count(context); i++)
        found += strstr(cst_notice_at(context, i), text) != NULL;
    return found == 1;
}

typedef struct made {
    void *model;
    size_t size;
    bool short_of_threads; /* as the report says */
} made;

static made fit(cst_context *context, int threads) {
    made m = {0};
    cst_pool *pool = NULL;
    cst_model *model = NULL;
    cst_report *report = NULL;
    cst_options *options = NULL;
    char *json = NULL;
    cst_rng rng;
    cst_rng_init(&rng, 5, CST_STREAM_TEST, 0);
    pool_case c = random_classes(&rng);
    assert_int_equal(cst_context_set_threads(context, threads), CST_OK);
    assert_int_equal(make_pool(context, &c, &pool), CST_OK);
    assert_int_equal(cst_options_create(context, &options), CST_OK);
    assert_int_equal(cst_options_set(context, options, "evaluate.nested", "false"), CST_OK);
    if (cst_fit(context, pool, "oof", options, &model, &report) != CST_OK)
        fail_msg("%s", cst_last_error(context));
    assert_int_equal(cst_model_save_memory(context, model, &m.model, &m.size), CST_OK);
    assert_int_equal(cst_report_json(context, report, &json), CST_OK);
    m.short_of_threads = strstr(json, "the system starts only") != NULL;
    cst_free(context, json);
    cst_report_free(context, report);
    cst_model_free(context, model);
    cst_options_free(context, options);
    cst_pool_free(context, pool);
    free_case(&c);
    return m;
}

/* The fit in a context of its own, where the system starts so many threads. */
static made fit_apart(int threads, int budget) {
    cst_context *context = NULL;
    assert_int_equal(cst_context_create(&context), CST_OK);
    thread_budget = budget;
    threads_started = 0;
    made m = fit(context, threads);
    void *kept = allocate(m.size, 1);
    memcpy(kept, m.model, m.size);
    cst_free(context, m.model);
    cst_context_free(context);
    m.model = kept;
    return m;
}

/* Wherever the system stops starting threads, a fit has the same bytes and its report says so. */
static void fits_are_the_same_with_fewer_threads(void **state) {
    (void)state;
    made one = fit_apart(1, -1);
    assert_int_equal(threads_started, 0);
    made all = fit_apart(THREADS, -1);
    int wanted = threads_started;
    assert_true(wanted > 1);
    assert_false(one.short_of_threads || all.short_of_threads);
    free(all.model);
    for (int n = 0; n <= wanted; n++) {
        made m = fit_apart(THREADS, n);
        assert_int_equal(threads_started, n);
        assert_int_equal(m.size, one.size);
        assert_memory_equal(m.model, one.model, one.size);
        assert_int_equal(m.short_of_threads, n < wanted);
        free(m.model);
    }
    free(one.model);
}

static void a_notice_names_the_likeliest_cause(void **state) {
    cst_context *context = *state;
    double alone = sum_of_one_thread(context);
    assert_int_equal(cst_context_set_threads(context, THREADS), CST_OK);
    thread_budget = 2;
    for (int i = 0; i < 3; i++)
        assert_true(sum_of_blocks(context) == alone);
    assert_int_equal(cst_notice_count(context), 1);
    assert_true(one_notice_says(context, "only 3 of 6 threads"));
    assert_true(one_notice_says(context, "ulimit -u"));
}

static void memory_is_named_where_there_is_none(void **state) {
    cst_context *context = *state;
    double alone = sum_of_one_thread(context);
    assert_int_equal(cst_context_set_threads(context, THREADS), CST_OK);
    mapping_limit = (size_t)300 << 20;
    assert_true(sum_of_blocks(context) == alone);
    assert_true(one_notice_says(context, "only 1 of 6 threads"));
    assert_true(one_notice_says(context, "ulimit -v"));
}

/* OpenBLAS would ask for its buffer for ever. */
static void no_room_for_linear_algebra_is_an_error(void **state) {
    cst_context *context = *state;
    double a[4] = {2, 0, 0, 2};
    mapping_limit = (size_t)100 << 20;
    cst_la_enter();
    assert_int_equal(cst_cholesky(context, 2, a), CST_ERROR_MEMORY);
    assert_non_null(strstr(cst_last_error(context), "buffers of linear algebra"));
    cst_la_leave();
    mapping_limit = 0;
    cst_la_enter();
    assert_int_equal(cst_cholesky(context, 2, a), CST_OK);
    cst_la_leave();
    /* The buffer is there now. */
    mapping_limit = (size_t)100 << 20;
    cst_la_enter();
    assert_int_equal(cst_cholesky(context, 2, a), CST_OK);
    cst_la_leave();
}

static int threads_of_process(void) {
    char line[256];
    int count = 0;
    FILE *file = fopen("/proc/self/status", "r");
    assert_non_null(file);
    while (fgets(line, sizeof line, file))
        if (strncmp(line, "Threads:", 8) == 0)
            count = (int)strtol(line + 8, NULL, 10);
    (void)fclose(file);
    return count;
}

/* The system may count a thread for a moment after it was joined. */
static int settled_threads(void) {
    struct timespec rest = {.tv_nsec = 10000000};
    int last = -1;
    int count = threads_of_process();
    while (count != last) {
        (void)nanosleep(&rest, NULL);
        last = count;
        count = threads_of_process();
    }
    return count;
}

static void threads_end_with_their_context(void **state) {
    (void)state;
    int before = settled_threads();
    cst_context *context = NULL;
    assert_int_equal(cst_context_create(&context), CST_OK);
    assert_int_equal(cst_context_set_threads(context, THREADS), CST_OK);
    (void)sum_of_blocks(context);
    assert_int_equal(threads_of_process(), before + THREADS - 1);
    assert_int_equal(cst_context_set_threads(context, 2), CST_OK);
    (void)sum_of_blocks(context);
    assert_int_equal(threads_of_process(), before + THREADS - 1);
    cst_context_free(context);
    assert_int_equal(settled_threads(), before);
}

typedef struct ending {
    cst_context *context;
    bool went_on; /* after the request to end */
} ending;

static cst_status end_inside(ending *e) {
    cst_context *context = e->context;
    CST_ENTER(context);
    assert_int_equal(pthread_cancel(pthread_self()), 0);
    (void)sum_of_blocks(context);
    pthread_testcancel();
    e->went_on = true;
    return CST_OK;
}

static void *end_in_a_call(void *user) {
    (void)end_inside(user);
    pthread_testcancel();
    return NULL;
}

/* Other threads work on what is on the stack of the thread that is cancelled. */
static void a_cancelled_thread_ends_after_its_call(void **state) {
    ending e = {.context = *state};
    pthread_t thread;
    void *result = NULL;
    assert_int_equal(cst_context_set_threads(e.context, THREADS), CST_OK);
    assert_int_equal(pthread_create(&thread, NULL, end_in_a_call, &e), 0);
    assert_int_equal(pthread_join(thread, &result), 0);
    assert_true(e.went_on);
    assert_ptr_equal(result, PTHREAD_CANCELED);
    assert_int_equal(cst_context_set_threads(e.context, 2), CST_OK); /* not busy */
    (void)sum_of_blocks(e.context);
}

/* ---- what threads take over from the caller ---- */

typedef struct looked {
    pthread_t caller;
    int waiting; /* tasks that have started; atomic */
    int others;  /* that ran on another thread; atomic */
    int wrong;   /* atomic */
} looked;

/* Waits for a second task, so that two threads take part. */
static void meet(looked *l) {
    (void)__atomic_add_fetch(&l->waiting, 1, __ATOMIC_SEQ_CST);
    double start = cst_seconds();
    while (__atomic_load_n(&l->waiting, __ATOMIC_SEQ_CST) < 2 && cst_seconds() - start < LIMIT)
        (void)sched_yield();
    if (!pthread_equal(pthread_self(), l->caller))
        (void)__atomic_add_fetch(&l->others, 1, __ATOMIC_SEQ_CST);
}

static cst_status look_at_signals(cst_context *context, void *user, int64_t task) {
    (void)context;
    (void)task;
    looked *l = user;
    sigset_t mask;
    meet(l);
    (void)pthread_sigmask(SIG_SETMASK, NULL, &mask);
    bool caller = pthread_equal(pthread_self(), l->caller);
    if (sigismember(&mask, SIGINT) == caller || sigismember(&mask, SIGUSR1) == caller ||
        sigismember(&mask, SIGSEGV))
        (void)__atomic_add_fetch(&l->wrong, 1, __ATOMIC_SEQ_CST);
    return CST_OK;
}

static void signals_go_to_the_callers_thread(void **state) {
    cst_context *context = *state;
    looked l = {.caller = pthread_self()};
    assert_int_equal(cst_context_set_threads(context, 2), CST_OK);
    assert_int_equal(cst_parallel_for(context, 2, look_at_signals, &l), CST_OK);
    assert_int_equal(l.others, 1);
    assert_int_equal(l.wrong, 0);
}

static cst_status look_at_rounding(cst_context *context, void *user, int64_t task) {
    (void)context;
    (void)task;
    looked *l = user;
    meet(l);
    if (fegetround() != FE_UPWARD)
        (void)__atomic_add_fetch(&l->wrong, 1, __ATOMIC_SEQ_CST);
    return CST_OK;
}

/* Whatever the caller changes after the threads were started. */
static void threads_round_as_the_caller_does(void **state) {
    cst_context *context = *state;
    looked l = {.caller = pthread_self()};
    assert_int_equal(cst_context_set_threads(context, 2), CST_OK);
    (void)sum_of_blocks(context);
    int before = fegetround();
    assert_int_equal(fesetround(FE_UPWARD), 0);
    cst_status status = cst_parallel_for(context, 2, look_at_rounding, &l);
    (void)fesetround(before);
    assert_int_equal(status, CST_OK);
    assert_int_equal(l.others, 1);
    assert_int_equal(l.wrong, 0);
}

/* ---- forks ---- */

/* What a child says at its end: 0 where all is well. An alarm ends one that waits. */
static int end_of(pid_t child) {
    int ended = 0;
    assert_int_equal(waitpid(child, &ended, 0), child);
    return WIFEXITED(ended) ? WEXITSTATUS(ended) : -1;
}

static int descend(cst_context *context, double expected, int generations) {
    (void)alarm(LIMIT);
    double sum = 0;
    if (cst_reduce_blocks(context, BLOCKS, 1, term, NULL, &sum) != CST_OK || sum != expected)
        return 1;
    if (threads_of_process() != THREADS || cst_notice_count(context) > 0)
        return 2;
    if (generations == 0)
        return 0;
    pid_t child = fork();
    if (child == 0)
        _exit(descend(context, expected, generations - 1));
    int below = end_of(child);
    return below == 0 ? 0 : 10 + below;
}

/* Threads of the former process are not there, and new ones are started. */
static void children_of_children_have_threads(void **state) {
    cst_context *context = *state;
    double alone = sum_of_one_thread(context);
    assert_int_equal(cst_context_set_threads(context, THREADS), CST_OK);
    assert_true(sum_of_blocks(context) == alone);
    pid_t child = fork();
    if (child == 0)
        _exit(descend(context, alone, 2));
    assert_int_equal(end_of(child), 0);
    assert_true(sum_of_blocks(context) == alone);
}

typedef struct forked {
    double expected;
    pid_t child; /* before the fork -1 */
} forked;

/* A progress callback that forks once. The child works with a context of its own and ends. */
static int fork_once(void *user, const char *stage, int64_t done, int64_t total) {
    (void)stage;
    (void)done;
    (void)total;
    forked *f = user;
    if (f->child != -1)
        return 0;
    f->child = fork();
    if (f->child == 0) {
        (void)alarm(LIMIT);
        cst_context *own = NULL;
        double sum = 0;
        bool same =
            cst_context_create(&own) == CST_OK && cst_context_set_threads(own, THREADS) == CST_OK &&
            cst_reduce_blocks(own, BLOCKS, 1, term, NULL, &sum) == CST_OK && sum == f->expected;
        cst_context_free(own);
        _exit(same ? 0 : 3);
    }
    return 0;
}

static cst_status slow_task(cst_context *context, void *user, int64_t task) {
    (void)task;
    (void)user;
    struct timespec rest = {.tv_nsec = 5000000};
    void *large = cst_alloc(context, (size_t)17 << 20, 1);
    (void)nanosleep(&rest, NULL);
    cst_free(context, large);
    return large ? CST_OK : CST_ERROR_MEMORY;
}

/* As where a progress callback of Python starts a process: the call goes on in the parent. */
static void a_callback_may_fork(void **state) {
    cst_context *context = *state;
    forked f = {.expected = sum_of_one_thread(context), .child = -1};
    assert_int_equal(cst_context_set_threads(context, THREADS), CST_OK);
    cst_context_set_progress(context, fork_once, &f);
    assert_int_equal(cst_stage(context, "work"), CST_OK); /* forks before the loop */
    assert_int_equal(end_of(f.child), 0);
    f.child = -1;
    assert_int_equal(cst_parallel_for(context, 200, slow_task, NULL), CST_OK);
    assert_true(f.child > 0);
    assert_int_equal(end_of(f.child), 0);
    cst_context_set_progress(context, NULL, NULL);
    assert_true(sum_of_blocks(context) == f.expected);
}

typedef struct busy {
    cst_context *context;
    int stop; /* atomic */
    int calls;
} busy;

static void *factor(void *user) {
    busy *b = user;
    cst_la_enter();
    while (!__atomic_load_n(&b->stop, __ATOMIC_SEQ_CST)) {
        double a[4] = {2, 0, 0, 2};
        b->calls += cst_cholesky(b->context, 2, a) == CST_OK;
    }
    cst_la_leave();
    return NULL;
}

/* Whatever locks another thread holds when the process forks, the child's linear algebra works. */
static void children_of_a_busy_process_do_not_wait(void **state) {
    cst_context *context = *state;
    busy b = {0};
    pthread_t thread;
    assert_int_equal(cst_context_create(&b.context), CST_OK);
    assert_int_equal(pthread_create(&thread, NULL, factor, &b), 0);
    int failed = 0;
    for (int i = short_tests() ? 3 : 60; i > 0; i--) {
        pid_t child = fork();
        if (child == 0) {
            double a[4] = {2, 0, 0, 2};
            (void)alarm(LIMIT);
            cst_la_enter();
            cst_status status = cst_cholesky(context, 2, a);
            cst_la_leave();
            _exit(status == CST_OK ? 0 : 1);
        }
        failed += end_of(child) != 0;
    }
    __atomic_store_n(&b.stop, 1, __ATOMIC_SEQ_CST);
    assert_int_equal(pthread_join(thread, NULL), 0);
    cst_context_free(b.context);
    assert_int_equal(failed, 0);
    assert_true(b.calls > 0);
}

#define WITH_CONTEXT(test) cmocka_unit_test_setup_teardown(test, context_setup, limits_gone)

int main(void) {
    const struct CMUnitTest tests[] = {
        WITH_CONTEXT(no_room_for_linear_algebra_is_an_error), /* before OpenBLAS has a buffer */
        WITH_CONTEXT(fits_are_the_same_with_fewer_threads),
        WITH_CONTEXT(a_notice_names_the_likeliest_cause),
        WITH_CONTEXT(memory_is_named_where_there_is_none),
        cmocka_unit_test(threads_end_with_their_context),
        WITH_CONTEXT(a_cancelled_thread_ends_after_its_call),
        WITH_CONTEXT(signals_go_to_the_callers_thread),
        WITH_CONTEXT(threads_round_as_the_caller_does),
        WITH_CONTEXT(children_of_children_have_threads),
        WITH_CONTEXT(a_callback_may_fork),
        WITH_CONTEXT(children_of_a_busy_process_do_not_wait),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
