/* The thread pool of a context. A loop wakes only the threads it wants, each by a condition of its
 * own, and waits only for those that have woken up. */
#include "core/context.h"

#include <fenv.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

/* A worker's stack, whatever `ulimit -s` and the environment say. Several times what the tasks
 * need, OpenBLAS and LAPACK included; sanitizers make frames larger. */
#define STACK_BYTES ((size_t)2 << 20)

/* Free memory needed before a thread is started, so that the work does not fail for want of it:
 * OpenBLAS takes 128 MiB, and the C library reserves 64 MiB of addresses for each thread's
 * allocations, with as much again while it does so. */
#define ROOM_BYTES ((size_t)256 << 20)
#define ROOM_OF_A_THREAD ((size_t)66 << 20)

enum { THREADS_MOST = 1024 };

/* Seconds before a system that refused a thread is asked for another one. */
static const double ASK_AGAIN = 1;

typedef struct worker {
    pthread_t thread;
    pthread_cond_t wake;
    struct cst_threads *pool;
    int number;  /* from 1 */
    bool called; /* a loop waits for it to wake up */
} worker;

struct cst_threads {
    pthread_mutex_t lock; /* over all below but `refused` and `asked` */
    pthread_cond_t idle;  /* the last working thread is done */
    worker *workers[THREADS_MOST];
    int count;
    int working;  /* threads that are inside `work` */
    bool looping; /* a loop runs; read and written by the caller's thread alone */
    bool ending;
    cst_thread_fn work;
    void *loop;
    fenv_t rounding;     /* the caller's modes of floating point */
    pid_t process;       /* that started the threads; a forked child does not have them */
    const char *refused; /* why there are no more threads; NULL: none was refused */
    double asked;        /* when that was, seconds */
};

/* ---- a thread ---- */

static void *thread_main(void *user) {
    worker *self = user;
    cst_threads *pool = self->pool;
    (void)pthread_mutex_lock(&pool->lock);
    for (;;) {
        while (!self->called && !pool->ending)
            (void)pthread_cond_wait(&self->wake, &pool->lock);
        if (!self->called)
            break;
        self->called = false;
        pool->working++;
        (void)pthread_mutex_unlock(&pool->lock);
        (void)fesetenv(&pool->rounding);
        pool->work(pool->loop, self->number);
        (void)pthread_mutex_lock(&pool->lock);
        if (--pool->working == 0)
            (void)pthread_cond_signal(&pool->idle);
    }
    (void)pthread_mutex_unlock(&pool->lock);
    return NULL;
}

/* The program's signals are for its own threads. Those that a thread causes itself stay its own. */
static void worker_signals(sigset_t *set) {
    static const int own[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT, SIGSYS};
    (void)sigfillset(set);
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        (void)sigdelset(set, own[i]);
}

/* Starts a thread of the library, with a small stack and signals blocked. Returns 0 or an error
 * number. */
static int thread_start(pthread_t *thread, void *(*run)(void *), void *user) {
    pthread_attr_t attributes;
    sigset_t blocked;
    sigset_t before;
    int failed = pthread_attr_init(&attributes);
    if (failed)
        return failed;
    worker_signals(&blocked);
    failed = pthread_attr_setstacksize(&attributes, STACK_BYTES);
    if (!failed)
        failed = pthread_sigmask(SIG_SETMASK, &blocked, &before);
    if (!failed) {
        failed = pthread_create(thread, &attributes, run, user);
        (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    }
    (void)pthread_attr_destroy(&attributes);
    return failed;
}

/* Whether there is memory for thread `number`: addresses, data, or what the system promises. */
static bool has_room(int number) {
    size_t bytes = ROOM_BYTES + (size_t)number * ROOM_OF_A_THREAD;
    return cst_has_room(bytes, false);
}

static const char *const no_memory =
    "memory is limited; raise the limit (ulimit -v, ulimit -d) or free memory";
static const char *const no_process =
    "the number of threads is limited; raise ulimit -u or the process limit of the container";

/* ---- the pool ---- */

static void *allocate(cst_context *root, size_t bytes) {
    void *memory = root->realloc_fn(root->realloc_user, NULL, bytes);
    if (memory)
        memset(memory, 0, bytes);
    return memory;
}

static void release(cst_context *root, void *memory) {
    if (memory)
        root->realloc_fn(root->realloc_user, memory, 0);
}

/* The records of a context's threads. Those of another process go without a look at their locks,
 * which nobody is left to give back. */
static void release_pool(cst_context *root, bool here) {
    cst_threads *pool = root->threads_of_loops;
    for (int i = 0; i < pool->count; i++) {
        if (here)
            (void)pthread_cond_destroy(&pool->workers[i]->wake);
        release(root, pool->workers[i]);
    }
    if (here) {
        (void)pthread_cond_destroy(&pool->idle);
        (void)pthread_mutex_destroy(&pool->lock);
    }
    release(root, pool);
    root->threads_of_loops = NULL;
}

static cst_threads *pool_of(cst_context *root) {
    cst_threads *pool = root->threads_of_loops;
    if (pool && pool->process != getpid()) {
        release_pool(root, false);
        pool = NULL;
    }
    if (pool)
        return pool;
    pool = allocate(root, sizeof *pool);
    if (!pool)
        return NULL;
    (void)pthread_mutex_init(&pool->lock, NULL);
    (void)pthread_cond_init(&pool->idle, NULL);
    pool->process = getpid();
    root->threads_of_loops = pool;
    return pool;
}

static bool add_worker(cst_context *root, cst_threads *pool) {
    worker *w = has_room(pool->count + 1) ? allocate(root, sizeof *w) : NULL;
    if (!w) {
        pool->refused = no_memory;
        return false;
    }
    w->pool = pool;
    w->number = pool->count + 1;
    (void)pthread_cond_init(&w->wake, NULL);
    if (thread_start(&w->thread, thread_main, w) != 0) {
        pool->refused = no_process; /* or the like: the C library gives EAGAIN for any */
        (void)pthread_cond_destroy(&w->wake);
        release(root, w);
        return false;
    }
    pool->workers[pool->count++] = w;
    return true;
}

int cst_threads_ready(cst_context *context, int wanted, const char **why) {
    cst_context *root = cst_context_root(context);
    *why = NULL;
    cst_threads *pool = pool_of(root);
    if (!pool) {
        *why = no_memory;
        return 1;
    }
    if (pool->looping)
        return 1;
    bool again = !pool->refused || cst_seconds() - pool->asked > ASK_AGAIN;
    if (again && pool->count < wanted - 1) {
        pool->refused = NULL;
        pool->asked = cst_seconds();
        while (pool->count < wanted - 1 && add_worker(root, pool)) {
        }
    }
    if (pool->count >= wanted - 1)
        return wanted;
    *why = pool->refused;
    return pool->count + 1;
}

void cst_threads_work(cst_context *context, int count, cst_thread_fn work, void *loop) {
    cst_threads *pool = cst_context_root(context)->threads_of_loops;
    pool->work = work;
    pool->loop = loop;
    pool->looping = true;
    (void)fegetenv(&pool->rounding);
    (void)pthread_mutex_lock(&pool->lock);
    for (int t = 1; t < count; t++) {
        pool->workers[t - 1]->called = true;
        (void)pthread_cond_signal(&pool->workers[t - 1]->wake);
    }
    (void)pthread_mutex_unlock(&pool->lock);
    work(loop, 0);
    pool->looping = false;
    (void)pthread_mutex_lock(&pool->lock);
    for (int t = 1; t < count; t++)
        pool->workers[t - 1]->called = false;
    while (pool->working > 0)
        (void)pthread_cond_wait(&pool->idle, &pool->lock);
    (void)pthread_mutex_unlock(&pool->lock);
}

void cst_threads_free(cst_context *context) {
    cst_threads *pool = context->threads_of_loops;
    if (!pool)
        return;
    bool here = pool->process == getpid();
    int cancelling = 0;
    (void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancelling); /* not while it waits */
    if (here) {
        (void)pthread_mutex_lock(&pool->lock);
        pool->ending = true;
        for (int i = 0; i < pool->count; i++)
            (void)pthread_cond_signal(&pool->workers[i]->wake);
        (void)pthread_mutex_unlock(&pool->lock);
        for (int i = 0; i < pool->count; i++)
            (void)pthread_join(pool->workers[i]->thread, NULL);
    }
    release_pool(context, here);
    (void)pthread_setcancelstate(cancelling, NULL);
}
