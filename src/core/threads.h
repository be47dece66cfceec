/* The threads of a context: started when a parallel loop first wants them, asleep between loops,
 * joined when the context is freed. docs/architecture.md#threads. */
#ifndef CST_BASE_THREADS_H
#define CST_BASE_THREADS_H

#include "core/base.h"

#include <pthread.h>

typedef struct cst_threads cst_threads;

/* The part of a loop that one thread does. Worker 0 is the caller. */
typedef void (*cst_thread_fn)(void *loop, int worker);

/* How many threads, the caller included, can work on a loop that wants `wanted` of them. Starts
 * those that are missing. 1 where the context's threads are busy with a loop already, as in a call
 * from a callback. Where the system refuses to start a thread, *why says so, else it is NULL. */
int cst_threads_ready(cst_context *context, int wanted, const char **why);

/* Calls work(loop, t) for t = 0 on this thread and for t < count on others, `count` being at most
 * what cst_threads_ready gave, and returns when all calls have returned. A call for t > 0 is left
 * out when its thread has not woken up by the time the caller's own returns. */
void cst_threads_work(cst_context *context, int count, cst_thread_fn work, void *loop);

/* Ends the threads of a context that is being freed. */
void cst_threads_free(cst_context *context);

#endif
