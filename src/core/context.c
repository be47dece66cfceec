/* The context: creation, nested calls, settings and the last error. */
#include "core/context.h"

#include "core/machine.h"

#include <string.h>
#include <time.h>

/* The least that work can be promised in. */
static const size_t MEMORY_MIN = (size_t)64 << 20;

void cst_context_may_use(cst_context *context, int cores, size_t memory) {
    context->cores = cores;
    context->quarter = memory / 4 < MEMORY_MIN ? MEMORY_MIN : memory / 4;
    if (!context->threads_given)
        context->threads = context->cores;
    if (!context->memory_given)
        context->memory = context->quarter;
}

static cst_status create(cst_context **out, cst_realloc_fn realloc_fn, void *user) {
    *out = NULL;
    cst_context *context = realloc_fn(user, NULL, sizeof *context);
    if (!context)
        return CST_ERROR_MEMORY;
    memset(context, 0, sizeof *context);
    context->realloc_fn = realloc_fn;
    context->realloc_user = user;
    context->run = &context->outermost;
    context->large.least = CST_LARGE_BYTES;
    (void)pthread_mutex_init(&context->large.lock, NULL);
    (void)pthread_mutex_init(&context->files_lock, NULL);
    *out = context;
    return CST_OK;
}

cst_status cst_context_create_with(cst_context **out, cst_realloc_fn realloc_fn, void *user) {
    if (!out)
        return CST_ERROR_ARGUMENT;
    cst_machine machine;
    cst_status status = create(out, realloc_fn ? realloc_fn : cst_default_realloc, user);
    if (status != CST_OK)
        return status;
    cst_machine_look(&machine);
    cst_context_may_use(*out, machine.cores, machine.memory);
    return CST_OK;
}

cst_status cst_context_create(cst_context **out) {
    return cst_context_create_with(out, NULL, NULL);
}

cst_status cst_context_child(cst_context **out, cst_context *parent, bool same_thread) {
    cst_status status = create(out, parent->realloc_fn, parent->realloc_user);
    if (status != CST_OK)
        return cst_fail(parent, status, "out of memory for a worker's context");
    (*out)->cores = parent->cores;
    (*out)->quarter = parent->quarter;
    (*out)->threads = 1;
    (*out)->memory = parent->memory;
    (*out)->root = parent->root ? parent->root : parent;
    (*out)->told = cst_context_told(parent);
    (*out)->on_caller = same_thread && (!parent->root || parent->on_caller);
    return CST_OK;
}

void cst_context_free(cst_context *context) {
    if (!context)
        return;
    if (context->held)
        context->drop_held(context);
    cst_threads_free(context);
    cst_scope_free(&context->added_scope);
    cst_free(context, context->ranks.room);
    for (cst_run *run = &context->outermost; run; run = run->inner) {
        context->run = run;
        cst_notices_clear(context);
        cst_call_files_clear(context, &run->files);
    }
    while (context->outermost.inner) {
        cst_run *inner = context->outermost.inner;
        context->outermost.inner = inner->inner;
        cst_free(context, inner);
    }
    (void)pthread_mutex_destroy(&context->large.lock);
    (void)pthread_mutex_destroy(&context->files_lock);
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
    cst_call_files_clear(context, &context->run->files);
    *context->run =
        (cst_run){.outer = outer, .inner = context->run->inner, .depth = context->depth};
    return CST_OK;
}

/* A thread is cancelled after its outermost call only: other threads work on what is on its stack.
 */
static void begin_call(cst_context *context) {
    if (context->depth++ == 0)
        (void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &context->cancelling);
}

static void end_call(cst_context *context) {
    int before = context->cancelling;
    if (--context->depth == 0)
        (void)pthread_setcancelstate(before, NULL);
}

cst_status cst_context_enter(cst_context *context, cst_context **entered) {
    *entered = NULL;
    if (!context)
        return CST_ERROR_ARGUMENT;
    begin_call(context);
    cst_status status = context->run->calling ? begin_inner(context) : CST_OK;
    if (context->depth == 1) {
        cst_stage_none(context);
        cst_call_files_clear(context, &context->outermost.files);
    }
    if (status != CST_OK)
        end_call(context);
    else
        *entered = context;
    return status;
}

void cst_context_leave(cst_context **entered) {
    cst_context *context = *entered;
    if (!context)
        return;
    cst_run *run = context->run;
    if (run->outer && run->depth == context->depth) {
        cst_notices_clear(context);
        cst_call_files_clear(context, &run->files);
        context->run = run->outer;
    }
    if (context->depth == 1)
        cst_call_files_clear(context, &context->outermost.files);
    end_call(context);
}

cst_status cst_context_set_threads(cst_context *context, int threads) {
    CST_ENTER(context);
    if (threads < 0 || threads > 1024)
        return cst_fail(context, CST_ERROR_ARGUMENT,
                        "threads must be 0 (one per core) to 1024, got %d", threads);
    if (threads > context->cores && context->depth == 1) /* the caller's own wish */
        cst_log(
            context, CST_LOG_WARNING,
            "%d threads, but this process may use %d core%s of its machine (taskset, mpirun and "
            "containers set that): more threads only wait for each other",
            threads, context->cores, context->cores == 1 ? "" : "s");
    context->threads_given = threads > 0;
    context->threads = threads == 0 ? context->cores : threads;
    return CST_OK;
}

int cst_context_threads(const cst_context *context) {
    return context ? context->threads : 0;
}

cst_status cst_context_set_memory(cst_context *context, size_t bytes) {
    CST_ENTER(context);
    if (bytes > 0 && bytes < MEMORY_MIN)
        return cst_fail(context, CST_ERROR_ARGUMENT,
                        "memory must be 0 (a quarter of the machine's memory) or at least 64 MiB, "
                        "got %zu bytes",
                        bytes);
    context->memory_given = bytes > 0;
    context->memory = bytes == 0 ? context->quarter : bytes;
    return CST_OK;
}

size_t cst_context_memory(const cst_context *context) {
    return context ? context->memory : 0;
}

void cst_context_set_formulas(cst_context *context, int keep) {
    if (context)
        context->keeps_formulas = keep != 0;
}

bool cst_context_keeps_formulas(const cst_context *context) {
    return context->keeps_formulas;
}

void cst_context_set_width(cst_context *context, int columns) {
    if (context)
        context->width = columns > 0 ? columns : 0;
}

int cst_context_width(const cst_context *context) {
    return context->width;
}

void cst_context_set_log(cst_context *context, cst_log_fn log, void *user) {
    if (!context)
        return;
    context->log_fn = log;
    context->log_user = user;
}

void cst_context_set_progress(cst_context *context, cst_progress_fn progress, void *user) {
    if (!context)
        return;
    context->progress_fn = progress;
    context->progress_user = user;
}

const char *cst_last_error(const cst_context *context) {
    return context ? context->error : "no context";
}

const char *cst_version(void) {
    return CST_VERSION_STRING;
}

/* The parentheses keep the analyzer's macro of the same name from replacing it. */
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

double cst_seconds(void) {
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}
