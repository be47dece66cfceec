/* Timing of calls by the monotonic clock, after a warm-up. */
#include "core/measurement.h"
#include "fit/profile.h"
#include "stats/resample.h"

#include <math.h>

/* The warm-up: three calls, and a tenth of the time unless calls are given. */
static const double WARM_SHARE = 0.1;
/* Slow calls are timed for so many times the seconds, until there are enough for a percentile. */
static const double PATIENCE = 10;
static const double POLL_SECONDS = 0.05;

enum { WARM_CALLS = 3, MOST_CALLS = 100000 };

typedef struct timed_call {
    cst_context *context;
    cst_measured *measured;
    const cst_profile_ops *ops;
    const cst_profile_work *work;
    int64_t count;   /* samples of a call */
    int64_t windows; /* different calls; they are taken in turn */
    double polled;
} timed_call;

static cst_status run_call(timed_call *c, int64_t index, double *seconds) {
    double start = cst_seconds();
    cst_status status =
        c->ops->call(c->measured->context, c->work, index % c->windows * c->count, c->count);
    double end = cst_seconds();
    *seconds = end - start;
    if (status != CST_OK)
        return cst_adopt_error(c->context, c->measured->context, status);
    if (end - c->polled < POLL_SECONDS)
        return CST_OK;
    c->polled = end;
    return cst_poll(c->context);
}

static cst_status warm_up(timed_call *c, const cst_profile_span *span) {
    double seconds = span->calls > 0 ? 0 : span->seconds;
    double start = cst_seconds();
    double passed = 0;
    for (int64_t i = 0;; i++) {
        double unused = 0;
        bool done = i >= WARM_CALLS && passed >= WARM_SHARE * seconds;
        if (done || (seconds > 0 && passed >= seconds))
            return CST_OK;
        CST_TRY(run_call(c, i, &unused));
        passed = cst_seconds() - start;
    }
}

static bool is_enough(const cst_profile_span *span, int64_t calls, double passed) {
    if (span->calls > 0)
        return calls >= span->calls;
    return calls >= MOST_CALLS || (passed >= span->seconds && calls >= CST_PROFILE_FEWEST_CALLS) ||
           passed >= PATIENCE * span->seconds;
}

static cst_status time_calls(timed_call *c, const cst_profile_span *span, cst_timing *out) {
    int64_t room = span->calls > 0 ? span->calls : MOST_CALLS;
    int64_t calls = 0;
    CST_SCOPE(scope);
    CST_NEW(c->context, scope, double, seconds, room);
    *out = (cst_timing){.p50 = NAN, .p99 = NAN};
    CST_TRY(warm_up(c, span));
    double start = cst_seconds();
    for (; calls == 0 || !is_enough(span, calls, cst_seconds() - start); calls++)
        CST_TRY(run_call(c, calls, &seconds[calls]));
    out->calls = calls;
    for (int64_t i = 0; i < calls; i++)
        out->total += seconds[i];
    out->p50 = cst_percentile(seconds, (int32_t)calls, 0.5);
    if (calls >= CST_PROFILE_FEWEST_CALLS)
        out->p99 = cst_percentile(seconds, (int32_t)calls, 0.99);
    return CST_OK;
}

/* One batch on one thread, so that the bytes do not depend on which threads run at once. */
static cst_status weigh(timed_call *c, double *bytes) {
    double unused = 0;
    CST_TRY(cst_context_set_threads(c->measured->context, 1));
    cst_measured_reset(c->measured);
    CST_TRY(run_call(c, 0, &unused));
    *bytes = (double)cst_measured_peak(c->measured) + c->work->largest_bytes;
    return cst_context_set_threads(c->measured->context, cst_context_threads(c->context));
}

cst_status cst_profile_time(cst_context *context, const cst_profile_ops *ops,
                            cst_profile_work *work, const cst_profile_span *span,
                            cst_profile_times *out) {
    cst_measured measured;
    timed_call c = {.context = context, .measured = &measured, .ops = ops, .work = work};
    cst_status status = cst_measured_open(context, &measured);
    if (status == CST_OK && ops->prepare) {
        status = ops->prepare(measured.context, work);
        if (status != CST_OK)
            status = cst_adopt_error(context, measured.context, status);
    }
    out->samples = c.count = work->batch;
    c.windows = status == CST_OK ? work->samples / work->batch : 1;
    CST_THEN(weigh(&c, &out->bytes));
    CST_THEN(time_calls(&c, span, &out->batch));
    c.count = 1;
    c.windows = work->samples;
    CST_THEN(time_calls(&c, span, &out->single));
    if (ops->release && measured.context)
        ops->release(measured.context, work);
    cst_measured_close(&measured);
    return status;
}
