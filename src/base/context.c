/*
 * The context: errors, notices, checked allocation. No global state, nothing printed.
 */
#include "base/base.h"
#include "base/large.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { ERROR_CHARS = 2048, NOTICES_MAX = 256, ALIGNMENT = 64, STAGE_CHARS = 64 };

/* The least that work can be promised in, and what is assumed where the system does not say. */
static const size_t MEMORY_LEAST = (size_t)64 << 20;
static const size_t MEMORY_UNKNOWN = (size_t)1 << 30;

/* Seconds between two questions to the progress callback inside a loop. */
static const double POLL_EVERY = 0.05;

/* What belongs to one call: notices, and what the progress callback is told. A call from a callback
 * has one of its own, so that the call around it finds its own as it left it; kept for the next. */
typedef struct cst_run {
    struct cst_run *outer;   /* of the call around this one; NULL: of the outermost */
    struct cst_run *inner;   /* NULL until there is a call from a callback */
    int depth;               /* of the owner when the call entered */
    bool calling;            /* a callback of the caller's runs */
    int muted;               /* depth of parallel loops run here: their notices are not kept */
    int stopped;             /* the callback said so; read and written atomically */
    double polled;           /* when the callback was last asked, seconds */
    char stage[STAGE_CHARS]; /* what the callback was last told */
    int64_t done;            /* read and written atomically */
    int64_t total;
    bool named;              /* the stage's progress is that of its outermost loop */
    bool counting;           /* such a loop is running */
    char about[STAGE_CHARS]; /* what notices are about, with ": " behind it; or empty */
    char **notices;
    size_t notice_count;
    bool notice_lost; /* there was no memory for one since they were cleared */
} cst_run;

struct cst_context {
    cst_mark mark;
    cst_realloc_fn realloc_fn;
    void *realloc_user;
    cst_log_fn log_fn;
    void *log_user;
    cst_progress_fn progress_fn;
    void *progress_user;
    int threads;
    size_t memory;     /* bytes a call may keep resident */
    cst_context *root; /* of a worker's context: the caller's; else NULL */
    bool on_caller;    /* the worker runs on the caller's own thread */
    cst_run outermost;
    cst_run *run;  /* of the call that is at work */
    cst_run *told; /* of a worker's context: the caller's, whose progress this is; else NULL */
    char error[ERROR_CHARS];
    cst_status error_status; /* of the last message */
    cst_large large;         /* of the root */
    cst_owner owner;
};

/* The context whose refusal this thread was told last, so that cst_last_error can say why without
 * touching what another thread writes. */
static _Thread_local const cst_context *refused;

static cst_context *root_of(cst_context *context) {
    return context->root ? context->root : context;
}

/* Where the progress of this context's work is kept. */
static cst_run *told_of(cst_context *context) {
    return context->told ? context->told : context->run;
}

static void *default_realloc(void *user, void *pointer, size_t bytes) {
    (void)user;
    if (bytes == 0) {
        free(pointer);
        return NULL;
    }
    return realloc(pointer, bytes);
}

static int core_count(void) {
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    if (cores < 1)
        return 1;
    return cores > 1024 ? 1024 : (int)cores;
}

static size_t quarter_of_memory(void) {
    long pages = sysconf(_SC_PHYS_PAGES);
    long size = sysconf(_SC_PAGESIZE);
    size_t quarter = pages > 0 && size > 0 ? (size_t)pages / 4 * (size_t)size : MEMORY_UNKNOWN;
    return quarter < MEMORY_LEAST ? MEMORY_LEAST : quarter;
}

cst_status cst_context_create_with(cst_context **out, cst_realloc_fn realloc_fn, void *user) {
    if (!out)
        return CST_ERROR_ARGUMENT;
    *out = NULL;
    if (!realloc_fn)
        realloc_fn = default_realloc;
    cst_context *context = realloc_fn(user, NULL, sizeof *context);
    if (!context)
        return CST_ERROR_MEMORY;
    memset(context, 0, sizeof *context);
    context->mark = CST_MARK_CONTEXT;
    context->realloc_fn = realloc_fn;
    context->realloc_user = user;
    context->threads = core_count();
    context->memory = quarter_of_memory();
    context->run = &context->outermost;
    cst_large_init(&context->large);
    *out = context;
    return CST_OK;
}

cst_status cst_context_create(cst_context **out) {
    return cst_context_create_with(out, NULL, NULL);
}

cst_status cst_context_child(cst_context **out, cst_context *parent, bool same_thread) {
    cst_status status = cst_context_create_with(out, parent->realloc_fn, parent->realloc_user);
    if (status != CST_OK)
        return cst_fail(parent, status, "out of memory for a worker's context");
    (*out)->threads = 1;
    (*out)->memory = parent->memory;
    (*out)->root = parent->root ? parent->root : parent;
    (*out)->told = told_of(parent);
    (*out)->on_caller = same_thread && (!parent->root || parent->on_caller);
    return CST_OK;
}

void cst_context_free(cst_context *context) {
    if (!CST_ALIVE(context, CONTEXT))
        return;
    for (cst_run *run = &context->outermost; run; run = run->inner) {
        context->run = run;
        cst_notices_clear(context);
    }
    while (context->outermost.inner) {
        cst_run *inner = context->outermost.inner;
        context->outermost.inner = inner->inner;
        cst_free(context, inner);
    }
    cst_mark_freed(&context->mark);
    if (refused == context)
        refused = NULL;
    cst_large_destroy(&context->large);
    context->realloc_fn(context->realloc_user, context, 0);
}

/* A call from a callback begins: its state is its own. */
static cst_status begin_inner(cst_context *context) {
    cst_run *outer = context->run;
    if (!outer->inner) {
        outer->inner = cst_alloc(context, 1, sizeof *outer->inner);
        if (!outer->inner)
            return cst_why(context, CST_ERROR_MEMORY);
    }
    context->run = outer->inner;
    cst_notices_clear(context); /* of one that was left by longjmp */
    *context->run =
        (cst_run){.outer = outer, .inner = context->run->inner, .depth = context->owner.depth};
    return CST_OK;
}

cst_status cst_context_enter(cst_context *context, cst_context **entered) {
    *entered = NULL;
    if (!CST_ALIVE(context, CONTEXT))
        return CST_ERROR_ARGUMENT;
    if (!cst_owner_take(&context->owner)) {
        refused = context;
        return CST_ERROR_BUSY;
    }
    if (refused == context)
        refused = NULL;
    cst_status status = context->run->calling ? begin_inner(context) : CST_OK;
    if (status != CST_OK)
        cst_owner_give(&context->owner);
    else
        *entered = context;
    return status;
}

void cst_context_leave(cst_context **entered) {
    cst_context *context = *entered;
    if (!context)
        return;
    cst_run *run = context->run;
    if (run->outer && run->depth == context->owner.depth) {
        cst_notices_clear(context);
        context->run = run->outer;
    }
    cst_owner_give(&context->owner);
}

cst_status cst_context_set_threads(cst_context *context, int threads) {
    CST_ENTER(context);
    if (threads < 0 || threads > 1024)
        return cst_fail(context, CST_ERROR_ARGUMENT,
                        "threads must be 0 (one per core) to 1024, got %d", threads);
    context->threads = threads == 0 ? core_count() : threads;
    return CST_OK;
}

int cst_context_threads(const cst_context *context) {
    return CST_ALIVE(context, CONTEXT) ? context->threads : 0;
}

cst_status cst_context_set_memory(cst_context *context, size_t bytes) {
    CST_ENTER(context);
    if (bytes > 0 && bytes < MEMORY_LEAST)
        return cst_fail(context, CST_ERROR_ARGUMENT,
                        "memory must be 0 (a quarter of the machine's) or at least 64 MiB, got %zu "
                        "bytes",
                        bytes);
    context->memory = bytes == 0 ? quarter_of_memory() : bytes;
    return CST_OK;
}

size_t cst_context_memory(const cst_context *context) {
    return CST_ALIVE(context, CONTEXT) ? context->memory : 0;
}

void cst_context_set_log(cst_context *context, cst_log_fn log, void *user) {
    if (!CST_ALIVE(context, CONTEXT))
        return;
    context->log_fn = log;
    context->log_user = user;
}

void cst_context_set_progress(cst_context *context, cst_progress_fn progress, void *user) {
    if (!CST_ALIVE(context, CONTEXT))
        return;
    context->progress_fn = progress;
    context->progress_user = user;
}

const char *cst_last_error(const cst_context *context) {
    if (!context)
        return "no context";
    if (!CST_ALIVE(context, CONTEXT))
        return "the context was freed before this call, or is no context";
    return refused == context ? cst_status_text(CST_ERROR_BUSY) : context->error;
}

const char *cst_version(void) {
    return CST_VERSION_STRING;
}

/* In brackets: a macro stands in its place under the analyzer. */
cst_status(cst_fail)(cst_context *context, cst_status code, const char *format, ...) {
    if (!context)
        return code;
    va_list args;
    va_start(args, format);
    (void)cst_vsnprintf(context->error, sizeof context->error, format, args);
    va_end(args);
    cst_make_printable(context->error, ' ');
    context->error_status = code;
    return code;
}

cst_status cst_adopt_error(cst_context *parent, const cst_context *child, cst_status code) {
    (void)cst_snprintf(parent->error, sizeof parent->error, "%s", child->error);
    parent->error_status = child->error_status;
    return code;
}

cst_status cst_why(const cst_context *context, cst_status status) {
    bool disk = status == CST_ERROR_MEMORY && context->error_status == CST_ERROR_IO;
    return disk ? CST_ERROR_IO : status;
}

/* Both callbacks may call the library with this context. */
static void emit(cst_context *context, cst_log_level level, const char *message) {
    cst_run *run = context->run;
    if (!context->log_fn)
        return;
    run->calling = true;
    context->log_fn(context->log_user, level, message);
    run->calling = false;
    context->run = run;
}

static bool ask(cst_context *context, const char *stage, int64_t done, int64_t total) {
    cst_run *run = context->run;
    run->calling = true;
    bool stop = context->progress_fn(context->progress_user, stage, done, total) != 0;
    run->calling = false;
    context->run = run;
    return stop;
}

void cst_log(cst_context *context, cst_log_level level, const char *format, ...) {
    if (!context->log_fn)
        return;
    char message[ERROR_CHARS];
    va_list args;
    va_start(args, format);
    (void)cst_vsnprintf(message, sizeof message, format, args);
    va_end(args);
    cst_make_printable(message, ' ');
    emit(context, level, message);
}

void cst_mute(cst_context *context, bool on) {
    context->run->muted += on ? 1 : -1;
}

void cst_notice_about(cst_context *context, const char *what) {
    cst_run *run = context->run;
    (void)cst_snprintf(run->about, sizeof run->about, "%s%s", what ? what : "", what ? ": " : "");
}

void cst_notice(cst_context *context, const char *format, ...) {
    char message[ERROR_CHARS];
    cst_run *run = context->run;
    if (run->muted > 0)
        return;
    size_t used = strlen(run->about);
    memcpy(message, run->about, used);
    va_list args;
    va_start(args, format);
    (void)cst_vsnprintf(message + used, sizeof message - used, format, args);
    va_end(args);
    cst_make_printable(message, ' ');
    for (size_t i = 0; i < run->notice_count; i++)
        if (strcmp(run->notices[i], message) == 0)
            return;
    emit(context, CST_LOG_WARNING, message);
    if (run->notice_count == NOTICES_MAX)
        return;
    /* A notice that finds no memory is not worth stopping for: it went to the logger, and a report
     * that should hold it fails. */
    size_t count = run->notice_count;
    char **grown = cst_grow(context, run->notices, count, count + 1, sizeof *grown);
    if (grown) {
        run->notices = grown;
        grown[count] = cst_strdup(context, message);
    }
    if (grown && grown[count])
        run->notice_count = count + 1;
    else
        run->notice_lost = true;
}

bool cst_notices_lost(const cst_context *context) {
    return context->run->notice_lost;
}

size_t cst_notice_count(const cst_context *context) {
    return context->run->notice_count;
}

const char *cst_notice_at(const cst_context *context, size_t index) {
    return index < context->run->notice_count ? context->run->notices[index] : "";
}

void cst_notices_clear(cst_context *context) {
    cst_run *run = context->run;
    for (size_t i = 0; i < run->notice_count; i++)
        cst_free(context, run->notices[i]);
    cst_free(context, run->notices);
    run->notices = NULL;
    run->notice_count = 0;
    run->notice_lost = false;
}

cst_status cst_progress(cst_context *context, const char *stage, int64_t done, int64_t total) {
    cst_run *run = context->run;
    if (!context->progress_fn)
        return CST_OK;
    bool over = done >= total; /* what comes next is no part of this stage */
    (void)cst_snprintf(run->stage, sizeof run->stage, "%s", over ? "" : stage);
    run->polled = cst_seconds();
    __atomic_store_n(&run->done, done, __ATOMIC_RELAXED);
    run->total = total;
    run->named = false;
    if (ask(context, over ? stage : run->stage, done, total))
        return cst_fail(context, CST_ERROR_CANCELLED, "stopped on request during %s", stage);
    return CST_OK;
}

cst_status cst_stage(cst_context *context, const char *stage) {
    if (context->root)
        return CST_OK;
    char name[STAGE_CHARS];
    (void)cst_snprintf(name, sizeof name, "%s%s", context->run->about, stage);
    cst_log(context, CST_LOG_INFO, "%s", name);
    cst_status status = cst_progress(context, name, 0, 1);
    context->run->named = true;
    return status;
}

bool cst_count_begin(cst_context *context, int64_t total) {
    cst_run *run = context->run;
    if (context->root || !run->named || run->counting)
        return false;
    run->counting = true;
    __atomic_store_n(&run->done, 0, __ATOMIC_RELAXED);
    run->total = total;
    return true;
}

void cst_count_one(cst_context *context) {
    (void)__atomic_add_fetch(&told_of(context)->done, 1, __ATOMIC_RELAXED);
}

void cst_count_end(cst_context *context) {
    context->run->counting = false;
}

cst_status cst_poll(cst_context *context) {
    cst_context *root = root_of(context);
    cst_run *run = told_of(context);
    cst_large_trim(&root->large, root->memory);
    if (!root->progress_fn || !*run->stage)
        return CST_OK;
    if (context == root || context->on_caller) {
        double now = cst_seconds();
        if (now - run->polled > POLL_EVERY) {
            run->polled = now;
            int64_t done = __atomic_load_n(&run->done, __ATOMIC_RELAXED);
            if (ask(root, run->stage, done, run->total))
                __atomic_store_n(&run->stopped, 1, __ATOMIC_RELAXED);
        }
    }
    if (!__atomic_load_n(&run->stopped, __ATOMIC_RELAXED))
        return CST_OK;
    if (context == root) /* nobody is left to be told: the next call starts afresh */
        __atomic_store_n(&run->stopped, 0, __ATOMIC_RELAXED);
    return cst_fail(context, CST_ERROR_CANCELLED, "stopped on request during %s", run->stage);
}

void cst_poll_done(cst_context *context) {
    if (!context->root)
        __atomic_store_n(&context->run->stopped, 0, __ATOMIC_RELAXED);
}

bool cst_size_mul(size_t a, size_t b, size_t *out) {
    return !__builtin_mul_overflow(a, b, out);
}

bool cst_size_add(size_t a, size_t b, size_t *out) {
    return !__builtin_add_overflow(a, b, out);
}

/* Just before the address that the caller gets. */
typedef struct block_head {
    char *raw;        /* what the allocator gave; NULL for a mapped array */
    size_t held;      /* bytes counted as held by `large`, or 0 */
    cst_large *large; /* who counts it or maps it, or NULL */
} block_head;

static block_head head_of(const void *pointer) {
    block_head head;
    memcpy(&head, (const char *)pointer - sizeof head, sizeof head);
    return head;
}

/* An array of at least CST_LARGE_BYTES that no longer fits in three eighths of the budget. */
static void *alloc_mapped(cst_context *context, size_t bytes) {
    cst_context *root = root_of(context);
    char *user = cst_large_map(context, &root->large, bytes);
    block_head head = {.large = &root->large};
    if (user)
        memcpy(user - sizeof head, &head, sizeof head);
    return user;
}

void *cst_alloc(cst_context *context, size_t count, size_t size) {
    size_t bytes = 0;
    size_t padded = 0;
    block_head head = {0};
    if (!cst_size_mul(count, size, &bytes) ||
        !cst_size_add(bytes, ALIGNMENT + sizeof head, &padded) || padded > PTRDIFF_MAX) {
        (void)cst_fail(context, CST_ERROR_MEMORY,
                       "a size overflows: %zu elements of %zu bytes do not fit in memory", count,
                       size);
        return NULL;
    }
    /* A caller with an allocator of its own wants every byte from there. */
    if (bytes >= CST_LARGE_BYTES && context->realloc_fn == default_realloc) {
        cst_context *root = root_of(context);
        if (!cst_large_hold(&root->large, bytes, root->memory / 8 * 3))
            return alloc_mapped(context, bytes);
        head = (block_head){.held = bytes, .large = &root->large};
    }
    head.raw = context->realloc_fn(context->realloc_user, NULL, padded);
    if (!head.raw) {
        if (head.large)
            cst_large_release(head.large, bytes);
        (void)cst_fail(
            context, CST_ERROR_MEMORY,
            "out of memory: %zu bytes were asked for; use fewer rows or members, or more memory",
            bytes);
        return NULL;
    }
    uintptr_t start = (uintptr_t)head.raw + sizeof head;
    uintptr_t aligned = (start + ALIGNMENT - 1) & ~(uintptr_t)(ALIGNMENT - 1);
    char *user = head.raw + (aligned - (uintptr_t)head.raw);
    memcpy(user - sizeof head, &head, sizeof head);
    memset(user, 0, bytes);
    return user;
}

void cst_free(cst_context *context, void *pointer) {
    if (!pointer || !CST_ALIVE(context, CONTEXT))
        return;
    block_head head = head_of(pointer);
    if (head.large && !head.raw) {
        cst_large_unmap(head.large, pointer);
        return;
    }
    if (head.large)
        cst_large_release(head.large, head.held);
    context->realloc_fn(context->realloc_user, head.raw, 0);
}

void *cst_grow(cst_context *context, void *pointer, size_t old_count, size_t count, size_t size) {
    void *grown = cst_alloc(context, count, size);
    if (!grown)
        return NULL;
    if (pointer) {
        size_t keep = old_count < count ? old_count : count;
        memcpy(grown, pointer, keep * size);
        cst_free(context, pointer);
    }
    return grown;
}

char *cst_strdup(cst_context *context, const char *text) {
    size_t length = strlen(text);
    char *copy = cst_alloc(context, length + 1, 1);
    if (copy)
        memcpy(copy, text, length + 1);
    return copy;
}

char *cst_format(cst_context *context, const char *format, ...) {
    va_list args;
    va_start(args, format);
    va_list again;
    va_copy(again, args);
    int length = cst_vsnprintf(NULL, 0, format, args);
    va_end(args);
    char *text = length < 0 ? NULL : cst_alloc(context, (size_t)length + 1, 1);
    if (text)
        (void)cst_vsnprintf(text, (size_t)length + 1, format, again);
    va_end(again);
    return text;
}

double cst_seconds(void) {
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}
