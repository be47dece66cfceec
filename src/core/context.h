/* The inside of a context, for context.c, notices.c, memory.c and their like; all others include
 * base.h. */
#pragma once

#include "core/base.h"
#include "core/ranks.h"
#include "core/scope.h"

#include <pthread.h>

enum { CST_ERROR_CHARS = 2048, CST_STAGE_CHARS = 64 };

typedef struct cst_call_files {
    cst_scope scope;
    struct cst_call_file *first;
    size_t bytes;
    int open; /* descriptors */
} cst_call_files;

void cst_call_files_clear(cst_context *context, cst_call_files *files);

/* The present stage, and where in the call it is: shares of it, from 0 to 1. */
typedef struct cst_told {
    char stage[CST_STAGE_CHARS]; /* what the callback was last told; empty: between stages */
    char begun[CST_STAGE_CHARS]; /* the stage whose share it is, until it is over */
    int64_t done;                /* read and written atomically */
    int64_t total;
    bool named;      /* the stage's progress is that of its outermost loop */
    bool counting;   /* such a loop is running */
    double from, to; /* of the stage */
    double end;      /* of the part of the call that it belongs to */
    double share;    /* of what is left of that part, for the next stage; 0: the usual one */
} cst_told;

/* State of one call: notices and progress. A call from a callback has one of its own, kept for the
 * next, so that the call around it finds its own as it left it. */
struct cst_run {
    struct cst_run *outer; /* of the call around this one; NULL: of the outermost */
    struct cst_run *inner; /* NULL until there is a call from a callback */
    int depth;             /* of the context when the call entered */
    bool calling;          /* a callback of the caller's runs */
    int muted;             /* depth of parallel loops run here: their notices are not kept */
    int stopped;           /* the callback said so; read and written atomically */
    double polled;         /* when the callback was last asked, seconds */
    cst_told now;
    double told;                 /* share of the call that is done; never falls */
    char about[CST_STAGE_CHARS]; /* what notices are about, with ": " behind it; or empty */
    char **notices;
    size_t notice_count;
    bool notice_lost; /* there was no memory for one since they were cleared */
    cst_call_files files;
};

/* Arrays from this size on, or from a 32nd of the budget on where that is less, are counted, and
 * mapped where the budget is used up. */
#define CST_LARGE_BYTES ((size_t)16 << 20)

typedef struct cst_mapping cst_mapping;

/* Part of the root context. */
typedef struct cst_large {
    pthread_mutex_t lock;
    size_t least;      /* CST_LARGE_BYTES; tests take smaller arrays for large ones */
    size_t held;       /* bytes of large arrays in memory proper */
    cst_mapping *maps; /* those in files */
    size_t mapped;     /* their bytes */
    int64_t next_look; /* when the resident size is read again, microseconds; atomic */
    int64_t given;     /* when freed memory was last given back */
} cst_large;

struct cst_context {
    cst_realloc_fn realloc_fn;
    void *realloc_user;
    cst_log_fn log_fn;
    void *log_user;
    cst_progress_fn progress_fn;
    void *progress_user;
    int cores;      /* that the process may use; with ranks, its share of them */
    size_t quarter; /* of the memory that it may use, likewise */
    bool threads_given;
    bool memory_given;
    int threads;
    bool keeps_formulas; /* in csv files */
    int width;           /* of reports as text; 0: the default */
    size_t memory;       /* bytes a call may keep resident */
    cst_context *root;   /* of a worker's context: the caller's; else NULL */
    bool on_caller;      /* the worker runs on the caller's own thread */
    cst_run outermost;
    cst_run *run;  /* of the call that is at work */
    cst_run *told; /* of a worker's context: the caller's, whose progress this is; else NULL */
    char error[CST_ERROR_CHARS];
    cst_status error_status;    /* of the last message */
    cst_large large;            /* of the root */
    pthread_mutex_t files_lock; /* of the root: for the files of its runs */
    int depth;                  /* public calls that are inside; more than 1 from callbacks */
    cst_ranks ranks;            /* of the root; workers work alone */
    int cancelling;             /* whether the caller's thread could be cancelled before the call */
    struct cst_threads *threads_of_loops; /* of the root; NULL until a loop wants them */
    struct cst_added *added; /* of the root: methods of the caller's own (fit/added.c) */
    struct cst_added_metric *added_metrics; /* likewise metrics (stats/metric_list.c) */
    cst_scope added_scope;
    struct cst_held *held; /* of the root: files without their names (data/files/output.c) */
    void (*drop_held)(cst_context *context); /* set with `held` */
};

static inline cst_context *cst_context_root(cst_context *context) {
    return context->root ? context->root : context;
}

/* Where the progress of this context's work is kept. */
static inline cst_run *cst_context_told(cst_context *context) {
    return context->told ? context->told : context->run;
}

/* Around a task of a stage's loop that runs on the caller's thread, one after another. `end` takes
 * what `begin` gave. */
cst_told cst_turn_begin(cst_context *context);
void cst_turn_end(cst_context *context, const cst_told *before);

/* Sets what the defaults of threads and memory are made of. */
void cst_context_may_use(cst_context *context, int cores, size_t memory);

/* Forgets the stage that a call before this one ended in. */
void cst_stage_none(cst_context *context);

/* The allocator of a context that was made without one. */
void *cst_default_realloc(void *user, void *pointer, size_t bytes);

/* ---- the threads of a context: started when a loop first wants them, joined with the context.
 * docs/architecture.md#threads. ---- */

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
