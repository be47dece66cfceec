/* Parallel loops whose results depend neither on the number of threads nor on that of ranks: tasks
 * write to places of their own, and sums are taken in a fixed binary tree. */
#include "core/base.h"
#include "core/context.h"
#include "core/ranks.h"
#include "core/scope.h"

#include <pthread.h>
#include <string.h>

/* Memory of the budget that a thread's scratch is given. */
#define BYTES_OF_A_THREAD ((size_t)32 << 20)

/* Terms held at a time by cst_reduce_blocks: as many as take WAVE_DOUBLES, within these limits. A
 * matter of memory and of how often threads meet, not of the sum's value. */
enum { WAVE_MIN = 16, WAVE_MAX = 1024, WAVE_DOUBLES = 1 << 20 }; /* powers of two */

/* Threads have scratch of their own, so a small memory budget allows few of them. Results do not
 * depend on how many there are. A worker's context has one: loops inside tasks are serial. */
static int affordable_threads(const cst_context *context) {
    size_t most = cst_context_memory(context) / BYTES_OF_A_THREAD;
    int threads = cst_context_threads(context);
    return most < (size_t)threads ? (int)most : threads;
}

/* How many threads are there for `tasks` tasks. Where the system starts fewer than the context may
 * have, that is said once for each call: the work goes on, but takes longer. */
static int threads_for(cst_context *context, int64_t tasks) {
    int affordable = affordable_threads(context);
    int threads = affordable < tasks ? affordable : (int)tasks;
    if (threads <= 1)
        return 1;
    const char *why = NULL;
    int ready = cst_threads_ready(context, threads, &why);
    if (why)
        cst_notice(
            context,
            "the system starts only %d of %d threads: %s; results are the same, with %d thread%s",
            ready, affordable, why, ready, ready == 1 ? "" : "s");
    return ready;
}

/* A parallel loop, as its threads see it. */
typedef struct loop {
    cst_context *context;
    cst_context **workers; /* a context for each thread */
    cst_task_fn task;
    void *user;
    int64_t count;  /* the task after the last */
    bool counts;    /* the tasks are the progress of the stage */
    int64_t next;   /* the first task that nobody has taken; atomic */
    int64_t failed; /* the lowest failing task so far, later ones are skipped; atomic */
    cst_status failure;
    pthread_mutex_t lock; /* of the failure */
} loop;

static void keep_failure(loop *l, cst_context *worker, int64_t task, cst_status result) {
    (void)pthread_mutex_lock(&l->lock);
    if (task < l->failed) {
        __atomic_store_n(&l->failed, task, __ATOMIC_RELAXED);
        l->failure = cst_adopt_error(l->context, worker, result);
    }
    (void)pthread_mutex_unlock(&l->lock);
}

static void take_tasks(void *user, int number) {
    loop *l = user;
    cst_context *worker = l->workers[number];
    for (;;) {
        int64_t i = __atomic_fetch_add(&l->next, 1, __ATOMIC_RELAXED);
        if (i >= l->count || i > __atomic_load_n(&l->failed, __ATOMIC_RELAXED))
            return;
        cst_status result = cst_poll(worker);
        if (result == CST_OK)
            result = l->task(worker, l->user, i);
        if (l->counts)
            cst_count_one(worker);
        if (result != CST_OK)
            keep_failure(l, worker, i, result);
    }
}

static cst_status run_side_by_side(loop *l, int threads) {
    cst_context *context = l->context;
    CST_SCOPE(scope);
    CST_TAKE(context, scope, l->workers, threads);
    cst_status status = CST_OK;
    for (int t = 0; status == CST_OK && t < threads; t++)
        status = cst_context_child(&l->workers[t], context, t == 0);
    if (status == CST_OK) {
        l->failed = l->count;
        (void)pthread_mutex_init(&l->lock, NULL);
        cst_threads_work(context, threads, take_tasks, l);
        (void)pthread_mutex_destroy(&l->lock);
        status = l->failure;
        cst_poll_done(context);
    }
    for (int t = 0; t < threads; t++)
        cst_context_free(l->workers[t]);
    return status;
}

/* alone: this rank by itself. */
static cst_status run_in_turn(const loop *l, bool alone) {
    cst_status status = CST_OK;
    cst_mute(l->context, true);
    if (alone)
        cst_ranks_alone(l->context, true);
    for (int64_t i = l->next; status == CST_OK && i < l->count; i++) {
        status = cst_poll(l->context);
        if (!l->counts) {
            CST_THEN(l->task(l->context, l->user, i));
            continue;
        }
        const cst_told before = cst_turn_begin(l->context);
        CST_THEN(l->task(l->context, l->user, i));
        cst_turn_end(l->context, &before);
        cst_count_one(l->context);
    }
    if (alone)
        cst_ranks_alone(l->context, false);
    cst_mute(l->context, false);
    return status;
}

/* Tasks first..last-1. `counts`: they are the progress of the stage. */
static cst_status run_tasks(cst_context *context, int64_t first, int64_t last, cst_task_fn task,
                            void *user, bool counts) {
    if (last <= first)
        return CST_OK;
    loop l = {.context = context,
              .task = task,
              .user = user,
              .next = first,
              .count = last,
              .counts = counts};
    int threads = threads_for(context, last - first);
    return threads == 1 ? run_in_turn(&l, true) : run_side_by_side(&l, threads);
}

static cst_status run_stage(cst_context *context, int64_t first, int64_t last, cst_task_fn task,
                            void *user) {
    bool counts = cst_count_begin(context, last - first);
    cst_status status = run_tasks(context, first, last, task, user, counts);
    if (counts)
        cst_count_end(context);
    return status;
}

cst_status cst_parallel_for(cst_context *context, int64_t count, cst_task_fn task, void *user) {
    return run_stage(context, 0, count, task, user);
}

cst_status cst_parallel_own(cst_context *context, int64_t count, int64_t grain, cst_task_fn task,
                            void *user) {
    int64_t first = 0;
    int64_t last = 0;
    cst_ranks_part(context, count, grain, &first, &last);
    return run_stage(context, first, last, task, user);
}

cst_status cst_parallel_fill(cst_context *context, int64_t count, cst_task_fn task, void *user,
                             const cst_share *filled, int32_t arrays) {
    cst_status status = cst_parallel_own(context, count, 1, task, user);
    return cst_ranks_fill(context, status, count, filled, arrays);
}

/* The first `together` tasks side by side, the others in turn, with their own loops in parallel and
 * shared by all ranks. */
static cst_status run_long(cst_context *context, int64_t count, int64_t together, cst_task_fn task,
                           void *user) {
    bool counts = cst_count_begin(context, count);
    const loop rest = {context, NULL, task, user, count, counts, .next = together};
    cst_status status = run_tasks(context, 0, together, task, user, counts);
    CST_THEN(run_in_turn(&rest, false));
    if (counts)
        cst_count_end(context);
    return status;
}

cst_status cst_parallel_long(cst_context *context, int64_t count, cst_task_fn task, void *user) {
    if (cst_ranks_share(context))
        return run_long(context, count, 0, task, user);
    int threads = threads_for(context, affordable_threads(context));
    if (threads == 1)
        return cst_parallel_for(context, count, task, user);
    return run_long(context, count, count / threads * threads, task, user);
}

cst_status cst_parallel_turns(cst_context *context, int64_t count, cst_task_fn task, void *user) {
    return cst_ranks_share(context) ? run_long(context, count, 0, task, user)
                                    : cst_parallel_for(context, count, task, user);
}

typedef struct wave {
    cst_block_fn term;
    void *user;
    int64_t first;
    size_t width;
    double *sums;
} wave;

static cst_status wave_task(cst_context *worker, void *user, int64_t task) {
    wave *w = user;
    double *sum = w->sums + (size_t)task * w->width;
    memset(sum, 0, w->width * sizeof *sum);
    return w->term(worker, w->user, w->first + task, sum);
}

/* The sums of one wave become nodes of the tree; what is left of them is copied, for the array is
 * used again. */
static cst_status add_wave(cst_context *context, const wave *w, int64_t count, bool last,
                           cst_tree *tree) {
    for (int64_t b = 0; b < count; b++)
        cst_tree_push(context, tree, 0, w->first + b, w->sums + (size_t)b * w->width);
    return last ? CST_OK : cst_tree_keep(context, tree);
}

/* Blocks first..last-1 into the tree. w->sums is the caller's to free, after the tree's last use.
 */
static cst_status add_blocks(cst_context *context, int64_t first, int64_t last, wave *w,
                             cst_tree *tree) {
    int64_t size = WAVE_MIN;
    while (size < WAVE_MAX && (size_t)size * 2 * w->width <= WAVE_DOUBLES)
        size *= 2;
    size_t doubles = 0;
    if (!cst_size_mul((size_t)(last - first < size ? last - first : size), w->width, &doubles))
        return cst_fail(context, CST_ERROR_LIMIT, "a sum of %zu terms is too wide", w->width);
    w->sums = cst_alloc(context, doubles, sizeof(double));
    cst_status status = w->sums ? CST_OK : CST_ERROR_MEMORY;
    bool counts = cst_count_begin(context, last - first);
    for (int64_t at = first; status == CST_OK && at < last;) {
        int64_t end = at / size * size + size; /* so that a whole wave is one node */
        end = end < last ? end : last;
        w->first = at;
        status = run_tasks(context, 0, end - at, wave_task, w, counts);
        CST_THEN(add_wave(context, w, end - at, end == last, tree));
        at = end;
    }
    if (counts)
        cst_count_end(context);
    return status;
}

cst_status cst_reduce_grained(cst_context *context, int64_t blocks, int64_t grain, size_t width,
                              size_t square, cst_block_fn term, void *user, double *total) {
    memset(total, 0, width * sizeof *total);
    if (blocks <= 0)
        return CST_OK;
    int64_t first = 0;
    int64_t last = 0;
    wave w = {.term = term, .user = user, .width = width};
    cst_tree tree = {.width = width, .square = square};
    cst_ranks_part(context, blocks, grain, &first, &last);
    cst_status status = first < last ? add_blocks(context, first, last, &w, &tree) : CST_OK;
    status = cst_ranks_sum(context, status, blocks, &tree, total);
    cst_tree_free(context, &tree);
    cst_free(context, w.sums);
    return status;
}

cst_status cst_reduce_blocks(cst_context *context, int64_t blocks, size_t width, cst_block_fn term,
                             void *user, double *total) {
    return cst_reduce_grained(context, blocks, 1, width, 0, term, user, total);
}

cst_status cst_reduce_fill(cst_context *context, int64_t blocks, size_t width, cst_block_fn term,
                           void *user, double *total, const cst_share *filled, int32_t arrays) {
    cst_status status = cst_reduce_blocks(context, blocks, width, term, user, total);
    return blocks > 0 ? cst_ranks_fill(context, status, blocks, filled, arrays) : status;
}
