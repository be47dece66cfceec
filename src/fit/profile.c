/* The profile of a model: its meta-layer, members and other methods. docs/json.md#profile. */
#include "fit/profile.h"
#include "fit/document.h"

#include "core/machine.h"
#include "core/measurement.h"
#include "model/stack.h"
#include "stats/resample.h"

#include <math.h>
#include <string.h>

/* How long calls of one size are timed. */
typedef struct call_span {
    int64_t calls; /* 0: by seconds */
    double seconds;
} call_span;

typedef struct call_times {
    int64_t calls;
    double p50;
    double p99; /* NaN for fewer than CST_PROFILE_FEWEST_CALLS */
    double total;
} call_times;

typedef struct model_times {
    call_times single;
    call_times batch;
    int64_t samples; /* of a batch */
    double bytes;    /* held at most by a call with a batch, with what it reads and writes */
} model_times;

/* ---- timing of calls by the monotonic clock, after a warm-up ---- */

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

static cst_status warm_up(timed_call *c, const call_span *span) {
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

static bool is_enough(const call_span *span, int64_t calls, double passed) {
    if (span->calls > 0)
        return calls >= span->calls;
    return calls >= MOST_CALLS || (passed >= span->seconds && calls >= CST_PROFILE_FEWEST_CALLS) ||
           passed >= PATIENCE * span->seconds;
}

static cst_status time_calls(timed_call *c, const call_span *span, call_times *out) {
    int64_t room = span->calls > 0 ? span->calls : MOST_CALLS;
    int64_t calls = 0;
    CST_SCOPE(scope);
    CST_NEW(c->context, scope, double, seconds, room);
    *out = (call_times){.p50 = NAN, .p99 = NAN};
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
static cst_status weigh_batch(timed_call *c, double *bytes) {
    double unused = 0;
    CST_TRY(cst_context_set_threads(c->measured->context, 1));
    cst_measured_reset(c->measured);
    CST_TRY(run_call(c, 0, &unused));
    *bytes = (double)cst_measured_peak(c->measured) + c->work->largest_bytes;
    return cst_context_set_threads(c->measured->context, cst_context_threads(c->context));
}

static cst_status time_model(cst_context *context, const cst_profile_ops *ops,
                             cst_profile_work *work, const call_span *span, model_times *out) {
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
    CST_THEN(weigh_batch(&c, &out->bytes));
    CST_THEN(time_calls(&c, span, &out->batch));
    c.count = 1;
    c.windows = work->samples;
    CST_THEN(time_calls(&c, span, &out->single));
    if (ops->release && measured.context)
        ops->release(measured.context, work);
    cst_measured_close(&measured);
    return status;
}

/* ---- the document ---- */

/* The methods of the paper's table, in its order, and greedy selection. */
static const char *const METHODS[] = {"best-single",   "average",   "ridge", "greedy",
                                      "deep-ensemble", "prototype", "paper", NULL};

typedef enum cost { FLOPS = 0, LATENCY, MEMORY, COSTS } cost;

static const struct {
    const char *key; /* of the manifest */
    const char *needed_for;
} COST[COSTS] = {[FLOPS] = {"flops", "FLOPs"},
                 [LATENCY] = {"latency_ms", "latency and throughput from end to end"},
                 [MEMORY] = {"memory_bytes", "peak memory from end to end"}};

typedef struct profile {
    const cst_task_ops *ops;
    const cst_model *model;
    cst_pool *pool;
    const cst_profile_options *options;
    const char *split;
    call_span span;
    int64_t wanted;     /* samples of a batch, as asked for */
    int64_t batch;      /* as measured */
    int64_t samples;    /* in memory */
    double *of[COSTS];  /* [members of the pool], NaN where unknown; passes are counted */
    bool *needed;       /* [members of the pool]: some row uses it */
    bool scored;        /* the split has labels */
    bool seen;          /* and the model was fitted on them */
    double seconds_fit; /* of all methods */
    json_t *rows;       /* of the report */
} profile;

static cst_status read_costs(cst_context *context, cst_scope *scope, profile *p) {
    int32_t members = (int32_t)cst_pool_members(p->pool);
    for (int c = 0; c < COSTS; c++)
        CST_TAKE(context, scope, p->of[c], members);
    CST_TAKE(context, scope, p->needed, members);
    for (int32_t k = 0; k < members; k++) {
        /* A prediction averaged over several passes costs them all, one after another. */
        double passes = cst_pool_member_ensemble(p->pool, k).passes;
        p->of[FLOPS][k] = passes * cst_pool_member_flops(p->pool, k);
        p->of[LATENCY][k] = passes * cst_pool_member_latency_ms(p->pool, k);
        p->of[MEMORY][k] = cst_pool_member_memory_bytes(p->pool, k);
    }
    return CST_OK;
}

/* Of a model's members: the sum, or what the largest has. NaN where one is not known. */
static double cost_of(const profile *p, const cst_model *model, cost which, bool largest) {
    double total = 0;
    for (int32_t j = 0; j < cst_model_inputs(model); j++) {
        double mine = p->of[which][cst_pool_member_index(p->pool, cst_model_input_name(model, j))];
        if (isnan(mine))
            return NAN;
        total = !largest ? total + mine : mine > total ? mine : total;
    }
    return total;
}

static void tell_unknown(cst_context *context, const profile *p, cost which) {
    enum { NAMED = 3, NAMES_CHARS = 400 };
    char names[NAMES_CHARS] = "";
    int32_t lacking = 0;
    int32_t known = 0;
    for (int32_t k = 0; k < cst_pool_members(p->pool); k++) {
        size_t at = strlen(names);
        known += !isnan(p->of[which][k]);
        if (p->needed[k] && isnan(p->of[which][k]) && lacking++ < NAMED)
            (void)cst_snprintf(names + at, sizeof names - at, "%s'%.100s'", at ? ", " : "",
                               cst_pool_member_name(p->pool, k));
    }
    if (lacking == 0)
        return;
    if (known == 0)
        cst_notice(context, "no member has %s in the manifest, so the table has no %s",
                   COST[which].key, COST[which].needed_for);
    else
        cst_notice(context,
                   "member%s %s%s no %s in the manifest, so methods that use %s have no %s",
                   lacking > 1 ? "s" : "", names,
                   lacking > NAMED ? " and others have"
                   : lacking > 1   ? " have"
                                   : " has",
                   COST[which].key, lacking > 1 ? "them" : "it", COST[which].needed_for);
}

/* Scores of a model on the split. A split without labels has none; the first model says so. */
static cst_status score(cst_context *context, profile *p, const cst_model *model, bool first,
                        double *scores) {
    const cst_compare_options options = {.split = p->split, .seed = p->options->seed};
    cst_evaluation e = {.ops = p->ops,
                        .pool = p->pool,
                        .options = &options,
                        .split = p->split,
                        .brief = true,
                        .shift = true,
                        .members = (int32_t)cst_pool_members(p->pool)};
    cst_entry entry = {0};
    cst_status status = cst_evaluation_begin(context, &e, model);
    CST_THEN(cst_entry_predict(context, &e, model, &entry));
    if (status == CST_OK && first)
        status = p->ops->seen(context, &e, model, &p->seen);
    for (int s = 0; s < CST_TASK_SCORES_MAX; s++)
        scores[s] = status == CST_OK ? entry.scores[s] : NAN;
    cst_entry_free(context, &entry);
    cst_evaluation_close(context, &e);
    if (status != CST_ERROR_INPUT)
        return status;
    if (first) {
        p->scored = false;
        cst_notice(context, "there are no scores: %s", cst_last_error(context));
    }
    return CST_OK;
}

static cst_status measure(cst_context *context, profile *p, const cst_model *model, bool first,
                          model_times *out) {
    const cst_profile_ops *ops = p->ops->profile;
    CST_SCOPE(scope);
    cst_profile_work work = {.scope = scope, .model = model};
    work.data = cst_take(context, scope, 1, ops->data_bytes);
    if (!work.data)
        return CST_ERROR_MEMORY;
    CST_TRY(ops->open(context, p->pool, p->split, first ? p->wanted : p->batch, &work));
    if (first) {
        p->batch = work.batch;
        p->samples = work.samples;
    }
    return time_model(context, ops, &work, &p->span, out);
}

static double micro(double seconds) {
    return 1e6 * seconds;
}

static void put_whole(cst_report *report, json_t *row, const profile *p, const cst_model *model,
                      const model_times *times) {
    bool parallel = p->options->parallel != 0;
    double all = 0;
    for (int32_t k = 0; k < cst_pool_members(p->pool); k++)
        all += p->of[FLOPS][k];
    double flops = cost_of(p, model, FLOPS, false);
    double members = cost_of(p, model, LATENCY, parallel);
    double memory = cost_of(p, model, MEMORY, parallel);
    double latency = members + 1e3 * times->batch.p50 / (double)times->samples;
    CST_PUT(report, row, CST_I("models", cst_model_inputs(model)), CST_N("flops", flops),
            CST_N("flops_rel", all > 0 ? flops / all : NAN), CST_N("latency_ms", latency),
            CST_N("memory_bytes", memory + times->bytes), CST_N("throughput", 1e3 / latency),
            CST_N("members_latency_ms", members), CST_N("members_memory_bytes", memory));
}

static cst_status put_meta(cst_context *context, cst_report *report, json_t *row,
                           const cst_model *model, const model_times *t) {
    bool learned = model->gate.mode == CST_GATE_LEARNED;
    uint8_t *bytes = NULL;
    size_t size = 0;
    cst_status status = cst_stack_encode(context, model, &bytes, &size);
    cst_free(context, bytes);
    CST_PUT(report, row, CST_N("single_p50_us", micro(t->single.p50)),
            CST_N("single_p99_us", micro(t->single.p99)), CST_I("single_calls", t->single.calls),
            CST_N("batch_p50_us", micro(t->batch.p50)), CST_N("batch_p99_us", micro(t->batch.p99)),
            CST_I("batch_calls", t->batch.calls),
            CST_N("meta_throughput", (double)t->batch.calls * (double)t->samples / t->batch.total),
            CST_I("meta_memory_bytes", (int64_t)t->bytes), CST_I("model_bytes", (int64_t)size),
            CST_I("gate_parameters",
                  learned ? cst_gate_parameter_count(model->gate.inputs, model->gate.hidden) : 0));
    return status;
}

/* Adds the row of a model, measured and scored. entry: its method, or NULL. */
static cst_status add_row(cst_context *context, cst_report *report, profile *p,
                          const cst_model *model, const cst_entry *entry) {
    double scores[CST_TASK_SCORES_MAX] = {0};
    model_times times = {0};
    int32_t count = 0;
    const cst_score_spec *specs = cst_task_scores(p->ops->task, &count);
    bool first = !entry;
    if (!first)
        cst_mute(context, true); /* what is wrong with the split was said of the model */
    cst_status status = first || p->scored ? score(context, p, model, first, scores) : CST_OK;
    CST_THEN(measure(context, p, model, first, &times));
    if (!first)
        cst_mute(context, false);
    if (status != CST_OK)
        return status;
    for (int32_t j = 0; j < cst_model_inputs(model); j++)
        p->needed[cst_pool_member_index(p->pool, cst_model_input_name(model, j))] = true;
    const char *method = cst_model_value(model, "method");
    const char *preset = cst_model_value(model, "preset");
    char detail[120];
    (void)cst_snprintf(detail, sizeof detail, "%s %.100s", method ? "method" : "preset",
                       method   ? method
                       : preset ? preset
                                : "-");
    json_t *row = cst_report_add_object(report, p->rows);
    CST_PUT(report, row, CST_S("method", first ? "stack" : entry->name),
            CST_S("definition", first ? "the model that is profiled" : entry->definition),
            CST_S("detail", first ? detail : entry->detail));
    int32_t shown = p->ops->brief_scores ? p->ops->brief_scores : count;
    for (int32_t s = 0; p->scored && s < shown; s++)
        cst_report_number(report, row, specs[s].key, scores[s]);
    put_whole(report, row, p, model, &times);
    status = put_meta(context, report, row, model, &times);
    cst_report_number(report, row, "seconds", first ? NAN : entry->seconds);
    return status;
}

CST_OWNED(cst_options)

/* Fits a method on all rows of split "oof", as the model that predicts alike. */
static cst_status fit_entry(cst_context *context, const cst_evaluation *e, cst_entry *entry) {
    cst_options *options = NULL;
    CST_SCOPE(scope);
    entry->keep = true;
    CST_TRY(cst_entry_run(context, e, NULL, entry));
    CST_TRY(cst_options_create(context, &options));
    CST_OWN(context, scope, cst_options, options);
    if (entry->preset)
        CST_TRY(cst_options_preset(context, options, entry->preset));
    return e->ops->label(context, e, options, entry);
}

static cst_status run_entries(cst_context *context, cst_report *report, profile *p,
                              const cst_evaluation *e) {
    cst_entry *entries;
    int32_t count = 0;
    CST_SCOPE(scope);
    CST_TRY(cst_entries_list(context, scope, e, METHODS, &entries, &count));
    for (int32_t m = 0; m < count; m++) {
        double end = cst_part_begin(context, 1.0 / (count - m));
        CST_TRY(cst_progress(context, entries[m].name, m, count));
        cst_status status = fit_entry(context, e, &entries[m]);
        cst_part_end(context, end);
        if (status == CST_ERROR_INPUT || status == CST_ERROR_NUMERIC ||
            status == CST_ERROR_UNSUPPORTED) {
            CST_TRY(cst_entry_leave_out(context, &entries[m], false, status));
            continue;
        }
        CST_TRY(status);
        p->seconds_fit += entries[m].seconds;
        CST_TRY(add_row(context, report, p, entries[m].made.model, &entries[m]));
    }
    return CST_OK;
}

/* A pool without rows to fit on still has the model's profile, unless methods are asked for. */
static cst_status add_methods(cst_context *context, cst_report *report, profile *p) {
    const cst_profile_options *o = p->options;
    const cst_compare_options compared = {.split = "oof",
                                          .methods = o->methods,
                                          .method_count = o->method_count,
                                          .settings = o->settings,
                                          .setting_count = (int32_t)o->setting_count,
                                          .seed = o->seed};
    cst_evaluation e = {.fitted = "oof"};
    if (o->methods && o->method_count < 1)
        return CST_OK;
    CST_SCOPE(scope);
    CST_OWN(context, scope, cst_evaluation, &e);
    cst_status status = cst_pool_has_split(p->pool, "oof")
                            ? cst_evaluation_open(context, p->ops, p->pool, &compared, false, &e)
                            : cst_fail_split(context, CST_ERROR_INPUT, p->pool, "oof");
    if (status == CST_ERROR_INPUT && !o->methods) {
        cst_notice(context, "no other methods were fitted and measured: %s",
                   cst_last_error(context));
        return CST_OK;
    }
    CST_TRY(status);
    e.unscored = true;
    CST_TRY(run_entries(context, report, p, &e));
    cst_findings_put(report, p->pool, &e.findings, false);
    return CST_OK;
}

static void put_measured(cst_context *context, cst_report *report, const profile *p,
                         json_t *object) {
    char cpu[256];
    cst_machine machine;
    cst_machine_look(&machine);
    cst_cpu_name(cpu, sizeof cpu);
    cst_make_printable(cpu, ' ');
    CST_PUT(report, object, CST_S("unit", p->ops->unit), CST_I("batch", p->batch),
            CST_I("samples", p->samples), CST_I("threads", cst_context_threads(context)));
    if (p->span.calls > 0)
        cst_report_integer(report, object, "calls", p->span.calls);
    else
        cst_report_number(report, object, "seconds", p->span.seconds);
    CST_PUT(report, object, CST_S("members", p->options->parallel ? "parallel" : "in turn"),
            CST_S("clock", "monotonic"), CST_S("cpu", cpu), CST_I("cores", machine.cores));
}

static void put_members(cst_report *report, const profile *p, const cst_model *model) {
    json_t *list = cst_report_list(report, cst_report_root(report), "members");
    for (int32_t k = 0; k < cst_pool_members(p->pool); k++) {
        json_t *member = cst_report_add_object(report, list);
        bool used = false;
        for (int32_t j = 0; j < cst_model_inputs(model); j++)
            used = used || cst_pool_member_index(p->pool, cst_model_input_name(model, j)) == k;
        CST_PUT(report, member, CST_S("name", cst_pool_member_name(p->pool, k)),
                CST_B("used", used), CST_I("passes", cst_pool_member_ensemble(p->pool, k).passes),
                CST_N("flops", p->of[FLOPS][k]),
                CST_N("params", cst_pool_member_params(p->pool, k)),
                CST_N("latency_ms", p->of[LATENCY][k]), CST_N("memory_bytes", p->of[MEMORY][k]));
    }
}

/* Tables "Inference efficiency on a single A100 GPU" and "ImageNet-1K classification". */
static void put_paper(cst_report *report) {
    static const struct {
        const char *method;
        const char *name;
        double top1;
        int models;
        double flops_rel;
        double latency_ms;
        double memory_gb;
        double throughput;
    } rows[] = {{"best-single", "Best Single (ConvNeXt-B)", 0.831, 1, 0.07, 1.9, 4.1, 526},
                {"average", "Full Ensemble (14 models)", 0.839, 14, 1.00, 19.6, 28.4, 312},
                {"ridge", "Ridge Stacking (14)", 0.842, 14, 1.00, 19.8, 28.4, 309},
                {"deep-ensemble", "Deep Ensembles (5)", 0.836, 5, 0.36, 8.6, 11.2, 441},
                {"prototype", "CoRe-Stack (9 models)", 0.845, 9, 0.64, 12.1, 16.6, 398},
                {"paper", "CoRe-Stack+ (6 models)", 0.854, 6, 0.59, 11.4, 17.9, 528}};
    json_t *paper = cst_report_object(report, cst_report_root(report), "paper");
    CST_PUT(report, paper, CST_S("device", "one NVIDIA A100 GPU"), CST_S("data", "ImageNet-1K"),
            CST_I("batch", CST_PROFILE_BATCH));
    json_t *list = cst_report_list(report, paper, "rows");
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        json_t *row = cst_report_add_object(report, list);
        CST_PUT(report, row, CST_S("method", rows[i].method), CST_S("name", rows[i].name),
                CST_N("top1", rows[i].top1), CST_I("models", rows[i].models),
                CST_N("flops_rel", rows[i].flops_rel), CST_N("latency_ms", rows[i].latency_ms),
                CST_N("memory_gb", rows[i].memory_gb), CST_N("throughput", rows[i].throughput));
    }
}

static void tell_calls(cst_context *context, const profile *p) {
    bool few = false;
    for (size_t i = 0; i < json_array_size(p->rows); i++) {
        const json_t *row = json_array_get(p->rows, i);
        few = few || json_is_null(json_object_get(row, "single_p99_us")) ||
              json_is_null(json_object_get(row, "batch_p99_us"));
    }
    if (few)
        cst_notice(
            context,
            "some calls were timed fewer than %d times, too few for a 99th percentile: these "
            "cells are empty; time more calls or for longer, or use smaller batches",
            CST_PROFILE_FEWEST_CALLS);
    if (p->batch < p->wanted)
        cst_notice(context, "batches have %lld %s, as many as split '%s' has or memory holds",
                   (long long)p->batch, p->ops->unit, p->split);
}

static cst_status fill(cst_context *context, void *user, cst_report *report) {
    profile *p = user;
    double start = cst_seconds();
    json_t *root = cst_report_root(report);
    CST_SCOPE(scope);
    if (!cst_pool_has_split(p->pool, p->split))
        return cst_fail_split(context, CST_ERROR_MISMATCH, p->pool, p->split);
    CST_TRY(read_costs(context, scope, p));
    CST_PUT(report, root, CST_S("model", NULL), CST_S("task", cst_task_name(p->ops->task)),
            CST_S("split", p->split), CST_I("models_in", cst_pool_members(p->pool)),
            CST_I("seed", (int64_t)p->options->seed));
    cst_report_value(report, root, "seen_in_fitting", json_null());
    json_t *measured = cst_report_object(report, root, "measured");
    p->rows = cst_report_list(report, root, "rows");
    CST_TRY(cst_stage(context, "stack"));
    CST_TRY(add_row(context, report, p, p->model, NULL));
    cst_report_flag_where(report, root, "seen_in_fitting", p->scored, p->seen);
    CST_TRY(add_methods(context, report, p));
    put_measured(context, report, p, measured);
    put_members(report, p, p->model);
    put_paper(report);
    for (int c = 0; c < COSTS; c++)
        tell_unknown(context, p, (cost)c);
    tell_calls(context, p);
    cst_report_integer(report, root, "peak_rss_bytes", cst_peak_resident());
    json_t *seconds = cst_report_object(report, root, "seconds");
    CST_PUT(report, seconds, CST_N("methods", p->seconds_fit),
            CST_N("total", cst_seconds() - start));
    return CST_OK;
}

cst_status cst_run_profile(cst_context *context, const cst_task_ops *ops, const cst_model *model,
                           cst_pool *pool, const cst_profile_options *options,
                           cst_report **report) {
    profile p = {.ops = ops,
                 .model = model,
                 .pool = pool,
                 .options = options,
                 .split = options->split ? options->split : "test",
                 .span = {.calls = options->calls,
                          .seconds = options->seconds > 0 ? options->seconds : CST_PROFILE_SECONDS},
                 .wanted = options->batch > 0 ? options->batch : CST_PROFILE_BATCH,
                 .scored = true};
    return cst_run_call(context, CST_REPORT_PROFILE, fill, &p, report);
}
