/* Log, notices and progress of a call, and whether its caller wants to stop. */
#include "core/context.h"

#include <string.h>

enum { NOTICES_MAX = 256 };

/* Seconds between two questions to the progress callback inside a loop. */
static const double POLL_EVERY = 0.05;

cst_run *cst_calling_begin(cst_context *context) {
    context->run->calling = true;
    return context->run;
}

void cst_calling_end(cst_context *context, cst_run *run) {
    run->calling = false;
    context->run = run; /* also where a call from the function was left by longjmp */
}

static void emit(cst_context *context, cst_log_level level, const char *message) {
    if (!context->log_fn)
        return;
    cst_run *run = cst_calling_begin(context);
    context->log_fn(context->log_user, level, message);
    cst_calling_end(context, run);
}

/* Of what is left of its part a stage takes this share: how many there will be is not known. */
static const double SHARE = 0.2;

static void begin_stage(cst_run *run, const char *stage) {
    cst_told *now = &run->now;
    (void)cst_snprintf(now->begun, sizeof now->begun, "%s", stage);
    now->from = run->told;
    now->to = now->from + (now->share > 0 ? now->share : SHARE) * (now->end - now->from);
    now->share = 0;
}

/* Whoever is asked may divide: the total is at least 1, and no more than that is done. */
static bool ask(cst_context *context, const char *stage, int64_t done, int64_t total) {
    total = total > 0 ? total : 1;
    done = done < total ? done : total;
    cst_run *run = cst_calling_begin(context);
    double here = run->now.from + (run->now.to - run->now.from) * (double)done / (double)total;
    run->told = here > run->told ? here : run->told;
    bool stop = context->progress_fn(context->progress_user, stage, done, total) != 0;
    cst_calling_end(context, run);
    return stop;
}

void cst_log(cst_context *context, cst_log_level level, const char *format, ...) {
    if (!context->log_fn)
        return;
    char message[CST_ERROR_CHARS];
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
    char message[CST_ERROR_CHARS];
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
    char **grown = cst_grow_list(context, run->notices, count, sizeof *grown);
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
    if (done == 0 || strcmp(run->now.begun, stage) != 0)
        begin_stage(run, stage);
    (void)cst_snprintf(run->now.stage, sizeof run->now.stage, "%s", over ? "" : stage);
    run->polled = over ? 0 : cst_seconds();
    __atomic_store_n(&run->now.done, done, __ATOMIC_RELAXED);
    run->now.total = total;
    run->now.named = false;
    bool stop = ask(context, over ? stage : run->now.stage, done, total);
    if (over)
        run->now.begun[0] = '\0';
    if (stop)
        return cst_fail(context, CST_ERROR_CANCELLED, "stopped on request during %s", stage);
    return CST_OK;
}

void cst_stage_none(cst_context *context) {
    cst_run *run = context->run;
    run->now = (cst_told){.end = 1};
    run->told = 0;
    run->polled = 0;
    __atomic_store_n(&run->stopped, 0, __ATOMIC_RELAXED);
}

cst_status cst_stage(cst_context *context, const char *stage) {
    if (context->root)
        return CST_OK;
    char name[CST_STAGE_CHARS];
    (void)cst_snprintf(name, sizeof name, "%s%s", context->run->about, stage);
    cst_log(context, CST_LOG_INFO, "%s", name);
    cst_status status = cst_progress(context, name, 0, 1);
    context->run->now.named = true;
    return status;
}

double cst_context_progress(const cst_context *context) {
    return context ? context->run->told : 0;
}

void cst_stage_share(cst_context *context, double share) {
    context->run->now.share = share;
}

double cst_part_begin(cst_context *context, double share) {
    cst_run *run = context->run;
    double end = run->now.end;
    run->now.end = run->told + share * (end - run->told);
    return end;
}

void cst_part_end(cst_context *context, double end) {
    cst_run *run = context->run;
    run->told = run->now.end;
    run->now.end = end;
    run->now.from = run->now.to = run->told;
    run->now.begun[0] = '\0';
}

cst_status cst_progress_end(cst_context *context, const char *stage) {
    context->run->now.share = 1;
    CST_TRY(cst_progress(context, stage, 0, 1));
    return cst_progress(context, stage, 1, 1);
}

/* The part of a task that runs in its turn is its share of the stage, so that its own stages are
 * told. */
cst_told cst_turn_begin(cst_context *context) {
    cst_run *run = context->run;
    cst_told before = run->now;
    double width = (before.to - before.from) / (double)before.total;
    double start = before.from + width * (double)before.done;
    run->told = start > run->told ? start : run->told;
    run->now.end = start + width;
    run->now.from = run->now.to = run->told;
    run->now.begun[0] = '\0';
    run->now.named = run->now.counting = false;
    return before;
}

void cst_turn_end(cst_context *context, const cst_told *before) {
    cst_run *run = context->run;
    run->told = run->now.end > run->told ? run->now.end : run->told;
    run->now = *before;
}

bool cst_count_begin(cst_context *context, int64_t total) {
    cst_run *run = context->run;
    if (context->root || !run->now.named || run->now.counting)
        return false;
    run->now.counting = true;
    __atomic_store_n(&run->now.done, 0, __ATOMIC_RELAXED);
    run->now.total = total;
    return true;
}

void cst_count_one(cst_context *context) {
    (void)__atomic_add_fetch(&cst_context_told(context)->now.done, 1, __ATOMIC_RELAXED);
}

void cst_count_end(cst_context *context) {
    context->run->now.counting = false;
}

/* Keeps to the memory budget and asks whether to stop. `otherwise`: what the callback is told where
 * there is no stage; NULL: it is not asked then. at_once: however short it was asked before. */
static cst_status poll(cst_context *context, const char *otherwise, bool at_once) {
    cst_context *root = cst_context_root(context);
    cst_run *run = cst_context_told(context);
    bool within = *run->now.stage != 0;
    const char *stage = within ? run->now.stage : otherwise;
    cst_trim(context);
    if (!root->progress_fn || !stage)
        return CST_OK;
    if (context == root || context->on_caller) {
        double now = cst_seconds();
        if (!within && run->polled == 0 && !at_once) {
            run->polled = now; /* what is short tells nothing */
        } else if (at_once || now - run->polled > POLL_EVERY) {
            run->polled = now;
            int64_t done = within ? __atomic_load_n(&run->now.done, __ATOMIC_RELAXED) : 0;
            if (ask(root, stage, done, within ? run->now.total : 1))
                __atomic_store_n(&run->stopped, 1, __ATOMIC_RELAXED);
        }
    }
    if (!__atomic_load_n(&run->stopped, __ATOMIC_RELAXED))
        return CST_OK;
    if (context == root) /* nobody is left to be told: the next call starts afresh */
        __atomic_store_n(&run->stopped, 0, __ATOMIC_RELAXED);
    return cst_fail(context, CST_ERROR_CANCELLED, "stopped on request during %s", stage);
}

cst_status cst_poll(cst_context *context) {
    return poll(context, NULL, false);
}

cst_status cst_poll_reading(cst_context *context) {
    return poll(context, "reading", false);
}

cst_status cst_poll_waiting(cst_context *context, const char *what) {
    return poll(context, what, true);
}

void cst_poll_done(cst_context *context) {
    if (!context->root)
        __atomic_store_n(&context->run->stopped, 0, __ATOMIC_RELAXED);
}
