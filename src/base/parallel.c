/*
 * Parallel loops whose results do not depend on the number of threads: tasks write to places of
 * their own, and sums are taken in block order.
 */
#include "base/base.h"

#include <omp.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

/* Memory of the budget that a thread's scratch is given. */
#define BYTES_OF_A_THREAD ((size_t)32 << 20)

/* Terms held at a time by cst_reduce_blocks: as many as take WAVE_DOUBLES, within these limits. A
 * matter of memory and of how often threads meet, not of the sum's value. */
enum { WAVE_LEAST = 16, WAVE_MOST = 1024, WAVE_DOUBLES = 1 << 20 };

/* The process that has OpenMP's threads of this library, or 0. They do not live on in a child that
 * it forks, where the OpenMP library would wait for them for good: there every loop runs on the
 * thread that comes to it. */
static atomic_long process_with_threads;

static bool threads_are_elsewhere(void) {
    long process = atomic_load(&process_with_threads);
    return process != 0 && process != (long)getpid();
}

/* Threads have scratch of their own, so a small memory budget allows few of them. Results do not
 * depend on how many there are. */
static int affordable_threads(const cst_context *context) {
    if (threads_are_elsewhere())
        return 1;
    size_t most = cst_context_memory(context) / BYTES_OF_A_THREAD;
    int threads = cst_context_threads(context);
    return most < (size_t)threads ? (int)most : threads;
}

/* `counts`: the tasks are the progress of the stage. */
static cst_status run_tasks(cst_context *context, int64_t count, cst_task_fn task, void *user,
                            bool counts) {
    if (count <= 0)
        return CST_OK;
    int threads = affordable_threads(context);
    if (threads > count)
        threads = (int)count;
    if (threads == 1 || omp_in_parallel()) {
        cst_status status = CST_OK;
        cst_mute(context, true);
        for (int64_t i = 0; status == CST_OK && i < count; i++) {
            status = cst_poll(context);
            if (status == CST_OK)
                status = task(context, user, i);
            if (counts)
                cst_count_one(context);
        }
        cst_mute(context, false);
        return status;
    }
    cst_context **workers = cst_alloc(context, (size_t)threads, sizeof(cst_context *));
    cst_status status = workers ? CST_OK : CST_ERROR_MEMORY;
    for (int t = 0; status == CST_OK && t < threads; t++)
        status = cst_context_child(&workers[t], context, t == 0);
    if (status == CST_OK) {
        atomic_store(&process_with_threads, (long)getpid());
        int64_t failed = count; /* the lowest failing task so far; later tasks are skipped */
        cst_status failure = CST_OK;
#pragma omp parallel for num_threads(threads) schedule(dynamic, 1) default(none)                   \
    shared(count, task, user, workers, failed, failure, context, counts)
        for (int64_t i = 0; i < count; i++) {
            int64_t lowest = 0;
#pragma omp atomic read
            lowest = failed;
            if (i > lowest)
                continue;
            cst_context *worker = workers[omp_get_thread_num()];
            cst_status result = cst_poll(worker);
            if (result == CST_OK)
                result = task(worker, user, i);
            if (counts)
                cst_count_one(worker);
            if (result != CST_OK) {
#pragma omp critical(cst_parallel_failure)
                {
                    if (i < failed) {
#pragma omp atomic write
                        failed = i;
                        failure = cst_adopt_error(context, worker, result);
                    }
                }
            }
        }
        status = failure;
        cst_poll_done(context);
    }
    for (int t = 0; workers && t < threads; t++)
        cst_context_free(workers[t]);
    cst_free(context, workers);
    return status;
}

cst_status cst_parallel_for(cst_context *context, int64_t count, cst_task_fn task, void *user) {
    bool counts = cst_count_begin(context, count);
    cst_status status = run_tasks(context, count, task, user, counts);
    if (counts)
        cst_count_end(context);
    return status;
}

cst_status cst_parallel_long(cst_context *context, int64_t count, cst_task_fn task, void *user) {
    int threads = affordable_threads(context);
    if (threads == 1 || omp_in_parallel())
        return cst_parallel_for(context, count, task, user);
    bool counts = cst_count_begin(context, count);
    int64_t together = count / threads * threads;
    cst_status status = run_tasks(context, together, task, user, counts);
    for (int64_t i = together; status == CST_OK && i < count; i++) {
        cst_mute(context, true);
        status = cst_poll(context);
        if (status == CST_OK)
            status = task(context, user, i);
        cst_mute(context, false);
        if (counts)
            cst_count_one(context);
    }
    if (counts)
        cst_count_end(context);
    return status;
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

cst_status cst_reduce_blocks(cst_context *context, int64_t blocks, size_t width, cst_block_fn term,
                             void *user, double *total) {
    memset(total, 0, width * sizeof *total);
    if (blocks <= 0)
        return CST_OK;
    int64_t size = width > 0 ? WAVE_DOUBLES / (int64_t)width : WAVE_MOST;
    size = size < WAVE_LEAST ? WAVE_LEAST : size > WAVE_MOST ? WAVE_MOST : size;
    size = blocks < size ? blocks : size;
    size_t doubles = 0;
    if (!cst_size_mul((size_t)size, width, &doubles))
        return cst_fail(context, CST_ERROR_LIMIT, "a sum of %zu terms is too wide", width);
    wave w = {.term = term, .user = user, .width = width};
    w.sums = cst_alloc(context, doubles, sizeof(double));
    cst_status status = w.sums ? CST_OK : CST_ERROR_MEMORY;
    bool counts = cst_count_begin(context, blocks);
    for (int64_t first = 0; status == CST_OK && first < blocks; first += size) {
        int64_t count = blocks - first < size ? blocks - first : size;
        w.first = first;
        status = run_tasks(context, count, wave_task, &w, counts);
        for (int64_t b = 0; status == CST_OK && b < count; b++) {
            const double *sum = w.sums + (size_t)b * width;
            for (size_t j = 0; j < width; j++)
                total[j] += sum[j];
        }
    }
    if (counts)
        cst_count_end(context);
    cst_free(context, w.sums);
    return status;
}
