/* A monitor of a fitted stack: batches in, evidence and drift out. docs/prediction.md#monitor. */
#include "fit/adapt/monitor.h"

#include "data/checks/checks.h"
#include "data/pool/pool.h"
#include "fit/adapt/state_file.h"
#include "fit/document.h"
#include "fit/family.h"
#include "stats/row_weights.h"

#include <math.h>
#include <string.h>

enum { NOTICES_MAX = 256, NAME_BYTES = 256 /* of a batch, in states */ };
static const double ALPHA = 0.01;

/* Typical error of the expected accuracy, beyond the sampling error of the rows: grows with the
 * drop from the accuracy of the fit. Measured on half of the corruptions of two pools
 * (experiments/shift/monitor.py). */
static const double ERROR_CLEAN = 0.01;
static const double ERROR_SLOPE = 0.5;
static const double ERROR_MOST = 0.13;
static const double DROP_FREE = 0.02;
static const double TWO_OVER_PI = 0.63661977236758134; /* (E|z|)^2 of a normal z */

void cst_monitor_free(cst_context *context, cst_monitor *monitor) {
    if (!monitor)
        return;
    for (cst_monitor_call *call = monitor->first; call;) {
        cst_monitor_call *next = call->next;
        cst_scope_free(&call->scope);
        cst_free(context, call);
        call = next;
    }
    cst_scope_free(&monitor->scope);
    cst_free(context, monitor);
}

static cst_status check_model(cst_context *context, const cst_model *model) {
    if (model->task != CST_TASK_CLASSIFICATION)
        return cst_fail(context, CST_ERROR_UNSUPPORTED, "a monitor is not supported for %s",
                        cst_task_text(model->task));
    if (model->adapted)
        return cst_fail(context, CST_ERROR_UNSUPPORTED,
                        "a monitor is not supported for an adapted model, which is not compared "
                        "with the rows of its fit; use the model before it was adapted");
    if (!model->reference.gauge)
        return cst_fail(context, CST_ERROR_UNSUPPORTED,
                        "the model does not hold what a monitor compares rows with: it was written "
                        "by an older version, restricted, or fitted on fewer than %d rows that "
                        "every member predicted; fit it again",
                        CST_GAUGE_ROWS_MIN);
    return CST_OK;
}

static cst_status monitor_fill(cst_context *context, const cst_model *model,
                               const cst_monitor_options *options, double alpha,
                               cst_monitor *monitor) {
    const cst_gauge *gauge = model->reference.gauge;
    monitor->model = model;
    monitor->alpha = alpha;
    monitor->in_order = options && options->in_order;
    monitor->last = &monitor->first;
    CST_TRY(cst_model_metric(context, &monitor->scope, model, options ? options->metric : NULL,
                             &monitor->metric));
    CST_TRY(cst_metric_check_classes(context, monitor->metric, model->classes));
    CST_TAKE(context, &monitor->scope, monitor->table_of, model->classes);
    CST_TAKE(context, &monitor->scope, monitor->group_of, model->classes);
    CST_TRY(cst_evidence_take(context, &monitor->scope, gauge, &monitor->evidence));
    CST_TRY(cst_stack_hash(context, model, &monitor->model_hash));
    cst_gauge_place(gauge, monitor->table_of, monitor->group_of);
    return CST_OK;
}

static cst_status monitor_make(cst_context *context, const cst_model *model,
                               const cst_monitor_options *options, cst_monitor **out) {
    double alpha = options && options->alpha != 0 ? options->alpha : ALPHA;
    CST_TRY(check_model(context, model));
    if (!(alpha > 0 && alpha < 1))
        return cst_fail(context, CST_ERROR_ARGUMENT,
                        "alpha must be a probability between 0 and 1, but it is %g", alpha);
    if (!(alpha >= 1 / CST_EVIDENCE_MOST))
        return cst_fail(context, CST_ERROR_ARGUMENT, "alpha must be at least %g",
                        1 / CST_EVIDENCE_MOST);
    cst_monitor *monitor = cst_alloc(context, 1, sizeof *monitor);
    if (!monitor)
        return CST_ERROR_MEMORY;
    cst_status status = monitor_fill(context, model, options, alpha, monitor);
    if (status == CST_OK)
        *out = monitor;
    else
        cst_monitor_free(context, monitor);
    return status;
}

cst_status cst_monitor_create(cst_context *context, cst_monitor **out, const cst_model *model,
                              const cst_monitor_options *options_given) {
    CST_CLEAR(out);
    CST_ENTER(context);
    CST_STRUCT(context, cst_monitor_options, options, options_given);
    if (!out || !model)
        return cst_fail(context, CST_ERROR_ARGUMENT,
                        "cst_monitor_create: monitor and model are required");
    return cst_why(context, monitor_make(context, model, options, out));
}

/* ---- batches ---- */

/* The order in which the rows are tested. */
static void order_rows(const cst_monitor *monitor, int64_t batch, int64_t rows, int64_t *order) {
    cst_rng rng;
    for (int64_t i = 0; i < rows; i++)
        order[i] = i;
    if (monitor->in_order)
        return;
    cst_rng_init(&rng, 0, CST_STREAM_MONITOR, (uint32_t)batch);
    cst_rng_shuffle(&rng, order, rows);
}

/* The lower of two estimates: by the stack's confidence, and by that of the members' average. */
static void expect(const cst_gauge *gauge, const cst_gauge_rows *rows, cst_monitor_result *out) {
    double stack = cst_gauge_above(&gauge->stack, rows->confidence, rows->rows);
    double average = cst_gauge_above(&gauge->average, rows->average, rows->rows);
    double sum = 0;
    for (int64_t i = 0; i < rows->rows; i++)
        sum += (double)rows->confidence[i];
    out->confidence = sum / (double)rows->rows;
    out->accuracy = stack < average ? stack : average;
    out->ece = gauge->ece + fabs(out->confidence - out->accuracy);
    out->ece = out->ece < 1 ? out->ece : 1;
    double drop = gauge->accuracy - out->accuracy - DROP_FREE;
    double shift = ERROR_CLEAN + ERROR_SLOPE * (drop > 0 ? drop : 0);
    shift = shift < ERROR_MOST ? shift : ERROR_MOST;
    double spread = out->accuracy * (1 - out->accuracy);
    double fit = gauge->accuracy * (1 - gauge->accuracy);
    spread = spread > fit ? spread : fit;
    out->error = sqrt(TWO_OVER_PI * spread / (double)rows->rows + shift * shift);
}

/* Evidence of the labels, where there are any. */
static cst_status observe(cst_context *context, const cst_monitor *m, const cst_view *view,
                          const int32_t *labels, float *stack, cst_monitor_result *out) {
    size_t classes = (size_t)view->classes;
    cst_metrics scores = {0};
    out->observed = out->observed_ece = out->metric = NAN;
    if (!labels)
        return CST_OK;
    CST_SCOPE(scope);
    CST_NEW(context, scope, int32_t, known, view->rows);
    for (int64_t i = 0; i < view->rows; i++) {
        if (labels[i] < 0 || labels[i] >= view->classes)
            continue;
        if (out->labelled < i)
            memmove(stack + (size_t)out->labelled * classes, stack + (size_t)i * classes,
                    classes * sizeof *stack);
        known[out->labelled++] = labels[i];
    }
    if (out->labelled > 0)
        CST_TRY(cst_metrics_weighted(context, stack, out->labelled, view->classes, known, NULL, 0,
                                     &scores));
    if (out->labelled == 0)
        return CST_OK;
    out->observed = scores.top1;
    out->observed_ece = scores.ece;
    const cst_metric_rows rows = {
        .values = stack, .rows = out->labelled, .columns = view->classes, .labels = known};
    return m->metric.metric
               ? cst_model_score(context, m->model, m->metric, out->name, &rows, &out->metric)
               : CST_OK;
}

/* Everything but the evidence. labels: [rows] or NULL. */
static cst_status measure(cst_context *context, cst_scope *made, const cst_monitor *monitor,
                          const cst_view *view, const int32_t *labels, cst_scope *scope,
                          cst_gauge_rows *rows, cst_monitor_result *result) {
    const cst_gauge *gauge = monitor->model->reference.gauge;
    CST_NEW(context, scope, float, stack, view->rows * view->classes);
    CST_TAKE(context, made, result->drift, view->members + 1);
    CST_TRY(cst_stack_predict(context, monitor->model, view, stack));
    CST_TRY(cst_gauge_rows_take(context, scope, view, rows));
    cst_gauge_stack(rows, stack, 0, view->rows, view->classes);
    CST_TRY(cst_gauge_measure(context, scope, view, gauge->groups, monitor->group_of, rows));
    result->rows = view->rows;
    result->tested = rows->whole;
    expect(gauge, rows, result);
    cst_monitor_compare(gauge, rows, result);
    return observe(context, monitor, view, labels, stack, result);
}

/* Tests the rows of a batch: on top of `evidence`, and by themselves. */
static cst_status test_rows(cst_context *context, const cst_monitor *monitor, int64_t batch,
                            const cst_gauge_rows *rows, cst_evidence *evidence,
                            cst_monitor_result *result) {
    const cst_gauge *gauge = monitor->model->reference.gauge;
    cst_evidence own;
    CST_SCOPE(scope);
    CST_NEW(context, scope, int64_t, order, rows->rows);
    CST_TRY(cst_evidence_take(context, scope, gauge, &own));
    order_rows(monitor, batch, rows->rows, order);
    for (int64_t i = 0; i < rows->rows; i++) {
        const float *value = rows->statistic + order[i] * CST_GAUGE_STATISTICS;
        int32_t table = monitor->table_of[rows->class[order[i]]];
        int32_t group = monitor->group_of[rows->class[order[i]]];
        if (!rows->usable[order[i]])
            continue;
        cst_evidence_add(gauge, table, group, value, evidence);
        cst_evidence_add(gauge, table, group, value, &own);
    }
    result->evidence = cst_evidence_value(evidence);
    result->own = own.peak;
    return CST_OK;
}

/* part: the rows of the batch. */
static cst_status run_batch(cst_context *context, const cst_monitor *monitor, const cst_view *part,
                            const int32_t *labels, cst_monitor_call *call, int32_t at) {
    cst_gauge_rows rows;
    cst_monitor_result *result = &call->result[at];
    CST_SCOPE(scope);
    CST_TRY(measure(context, &call->scope, monitor, part, labels, scope, &rows, result));
    CST_TRY(test_rows(context, monitor, monitor->batches + at, &rows, &call->evidence, result));
    result->alarm = monitor->alarm || call->evidence.peak * monitor->alpha >= 1;
    return CST_OK;
}

/* "NAME", or "NAME kind 3" of a condition. */
static cst_status name_batch(cst_context *context, cst_scope *scope, const cst_pool *pool,
                             const char *split, const char *name, int32_t condition,
                             const char **out) {
    const char *shown = name ? name : split;
    if (cst_pool_conditions(pool, split) == 0) {
        *out = cst_take_text(context, scope, shown);
        return *out ? CST_OK : CST_ERROR_MEMORY;
    }
    const char *kind = cst_pool_condition_kind(pool, split, condition);
    double severity = cst_pool_condition_severity(pool, split, condition);
    char number[32] = "";
    if (!isnan(severity))
        (void)cst_snprintf(number, sizeof number, " %g", severity);
    kind = kind ? kind : "?";
    size_t bytes = strlen(shown) + strlen(kind) + strlen(number) + 2;
    CST_NEW(context, scope, char, text, bytes);
    (void)cst_snprintf(text, bytes, "%s %s%s", shown, kind, number);
    *out = text;
    return CST_OK;
}

/* Cut at the limit, between characters. */
static size_t short_length(const char *name) {
    size_t length = strlen(name);
    if (length <= NAME_BYTES)
        return length;
    length = NAME_BYTES;
    while (length > 0 && ((unsigned char)name[length] & 0xC0) == 0x80)
        length--;
    return length;
}

static bool has_notice(const cst_monitor_call *call, const char *notice) {
    for (; call; call = call->next)
        for (size_t i = 0; i < call->notices; i++)
            if (strcmp(call->notice[i], notice) == 0)
                return true;
    return false;
}

/* The notices of the call that the monitor does not have yet. */
static cst_status keep_notices(cst_context *context, const cst_monitor *m, cst_monitor_call *call) {
    size_t count = cst_notice_count(context);
    if (cst_notices_lost(context))
        return CST_ERROR_MEMORY;
    CST_TAKE(context, &call->scope, call->notice, count);
    for (size_t i = 0; i < count && m->notices + call->notices < NOTICES_MAX; i++) {
        const char *notice = cst_notice_at(context, i);
        if (has_notice(call, notice) || has_notice(m->first, notice))
            continue;
        call->notice[call->notices] = cst_take_text(context, &call->scope, notice);
        if (!call->notice[call->notices++])
            return CST_ERROR_MEMORY;
    }
    return CST_OK;
}

/* scope: of the evidence, until the call is kept. */
static cst_status run_call(cst_context *context, cst_scope *scope, const cst_monitor *m,
                           const cst_pool *pool, const char *split, const char *name,
                           const cst_view *view, const int32_t *labels, cst_monitor_call *call) {
    const cst_gauge *gauge = m->model->reference.gauge;
    int64_t rows = view->rows / call->count;
    cst_view part = *view;
    CST_NEW(context, scope, int64_t, index, rows);
    CST_TAKE(context, &call->scope, call->result, call->count);
    CST_TRY(cst_evidence_take(context, scope, gauge, &call->evidence));
    cst_evidence_copy(gauge, &m->evidence, &call->evidence);
    part.rows = rows;
    if (call->count > 1)
        part.index = index;
    for (int32_t b = 0; b < call->count; b++) {
        int64_t first = b * rows;
        for (int64_t i = 0; call->count > 1 && i < rows; i++)
            index[i] = view->index ? view->index[first + i] : first + i;
        CST_TRY(name_batch(context, &call->scope, pool, split, name, b, &call->result[b].name));
        CST_TRY(run_batch(context, m, &part, labels ? labels + first : NULL, call, b));
        if (call->result[b].alarm && !m->alarm && call->alarm == 0)
            call->alarm = b + 1;
    }
    if (call->alarm > 0) {
        const char *first = call->result[call->alarm - 1].name;
        size_t length = short_length(first);
        CST_TAKE(context, &call->scope, call->alarm_name, length + 1);
        memcpy(call->alarm_name, first, length);
    }
    if (m->count > INT32_MAX - call->count)
        return cst_fail(context, CST_ERROR_LIMIT, "a monitor reports at most %d batches of a run",
                        INT32_MAX);
    return keep_notices(context, m, call);
}

/* Takes the results over. */
static void keep(cst_monitor *m, cst_monitor_call *call) {
    *m->last = call;
    m->last = &call->next;
    if (call->alarm > 0) {
        m->alarm = true;
        m->alarm_batch = m->batches + call->alarm;
        m->alarm_name = call->alarm_name;
    }
    m->count += call->count;
    m->batches += call->count;
    m->notices += call->notices;
    cst_evidence_copy(m->model->reference.gauge, &call->evidence, &m->evidence);
    call->evidence = (cst_evidence){0};
}

/* Whether the labels of a batch go with the predictions. */
static cst_status check_labels(cst_context *context, const cst_model *model, const cst_pool *pool,
                               const char *split, const cst_view *view) {
    CST_SCOPE(scope);
    CST_NEW(context, scope, int32_t, positions, view->members);
    for (int32_t k = 0; k < view->members; k++)
        positions[k] = cst_pool_member_index(pool, cst_model_member_name(model, k));
    return cst_check_scored(
        context,
        &(cst_check_source){.pool = pool, .split = split, .view = view, .members = positions});
}

static cst_status add_split(cst_context *context, cst_monitor *monitor, cst_pool *pool,
                            const char *split, const char *name) {
    CST_SCOPE(scope);
    cst_monitor_call *call = NULL;
    cst_view view = {0};
    if (cst_pool_task(pool) != CST_TASK_CLASSIFICATION)
        return cst_fail(context, CST_ERROR_MISMATCH,
                        "the model was fitted for classification, but the task of the pool is %s",
                        cst_task_text(cst_pool_task(pool)));
    cst_status status = cst_model_view(context, scope, monitor->model, pool, split, &view);
    CST_THEN(cst_model_view_tell(context, monitor->model, split, &view));
    if (status == CST_OK && !(call = cst_alloc(context, 1, sizeof *call)))
        status = CST_ERROR_MEMORY;
    if (status == CST_OK) {
        int32_t conditions = (int32_t)cst_pool_conditions(pool, split);
        const int32_t *labels = cst_pool_is_ood(pool, split) || view.index ? NULL : view.labels;
        call->count = conditions > 0 ? conditions : 1;
        if (view.rows < call->count)
            status = cst_fail(context, CST_ERROR_INPUT, "split '%s' has no rows", split);
        if (labels && conditions == 0)
            CST_THEN(check_labels(context, monitor->model, pool, split, &view));
        CST_THEN(run_call(context, scope, monitor, pool, split, name, &view, labels, call));
    }
    if (status == CST_OK) {
        keep(monitor, call);
    } else if (call) {
        cst_scope_free(&call->scope);
        cst_free(context, call);
    }
    return status;
}

cst_status cst_monitor_batch(cst_context *context, cst_monitor *monitor, cst_pool *pool,
                             const char *split, const char *name, int *alarm) {
    CST_CLEAR(alarm);
    CST_ENTER(context);
    if (!monitor || !pool || !split)
        return cst_fail(context, CST_ERROR_ARGUMENT,
                        "cst_monitor_batch: monitor, pool and split are required");
    cst_notices_clear(context);
    cst_status status = add_split(context, monitor, pool, split, name);
    if (status == CST_OK && alarm)
        *alarm = monitor->alarm ? 1 : 0;
    return cst_why(context, status);
}

int cst_monitor_alarm(const cst_monitor *monitor) {
    return monitor && monitor->alarm ? 1 : 0;
}

double cst_monitor_evidence(const cst_monitor *monitor) {
    return monitor ? cst_evidence_value(&monitor->evidence) : NAN;
}

int64_t cst_monitor_rows(const cst_monitor *monitor) {
    return monitor ? monitor->evidence.rows : 0;
}

/* ---- its state as a file, which joins calls: docs/model-format.md#monitor-states ---- */

static const int64_t COUNT_MAX = INT64_C(1) << 53;

static void code_name(cst_codec *c, cst_monitor *m) {
    size_t length = (size_t)cst_code_int(c, m->alarm_name ? (int32_t)strlen(m->alarm_name) : 0,
                                         "the length of a name", 0, NAME_BYTES);
    if (c->to) {
        cst_buffer_add(c->to, m->alarm_name ? m->alarm_name : "", length);
        return;
    }
    const uint8_t *from = cst_codec_take(c, length);
    char *name = from && length > 0 ? cst_codec_alloc(c, length + 1, 1) : NULL;
    if (name)
        memcpy(name, from, length);
    m->alarm_name = name;
}

static void code_state(cst_codec *c, void *state) {
    cst_monitor *m = state;
    cst_evidence *evidence = &m->evidence;
    size_t counts = cst_evidence_counts(m->model->reference.gauge);
    cst_code_f64(c, &m->alpha, "alpha", 0, 1);
    CST_CODE_INT(c, m->in_order, "the order of rows", 0, 1);
    CST_CODE_LONG(c, m->batches, "the number of batches", COUNT_MAX);
    CST_CODE_LONG(c, m->alarm_batch, "the batch of the alarm", m->batches);
    CST_CODE_FIELD(c, m->alarm, m->alarm_batch > 0);
    code_name(c, m);
    CST_CODE_LONG(c, evidence->rows, "the number of rows", COUNT_MAX);
    cst_code_f64(c, &evidence->waiting, "capital", 0, CST_EVIDENCE_MOST);
    cst_code_f64(c, &evidence->peak, "the largest evidence", 1, CST_EVIDENCE_MOST);
    for (int s = 0; s < CST_EVIDENCE_TESTS; s++)
        cst_code_f64s(c, evidence->capital[s], CST_EVIDENCE_BETS, "capital", 0,
                      2 * CST_EVIDENCE_MOST);
    size_t at = c->at;
    if (cst_code_u32(c, (uint32_t)counts) != counts)
        cst_refuse(c, at, "it does not have %zu counts", counts);
    for (size_t i = 0; i < counts; i++)
        CST_CODE_LONG(c, evidence->seen[i], "a count of rows", evidence->rows);
    cst_code_f64s(c, evidence->recent, (size_t)m->model->reference.gauge->groups,
                  "a count of recent rows", 0, (double)COUNT_MAX);
    cst_state_end(c);
}

static const cst_state_kind KIND = {.magic = "\211CSM\r\n\032\n",
                                    .version = 2,
                                    .refusal = "not the state of a monitor",
                                    .most = 1 << 20,
                                    .code = code_state};

cst_status cst_monitor_save(cst_context *context, const cst_monitor *monitor, const char *path) {
    CST_ENTER(context);
    if (!monitor || !path)
        return cst_fail(context, CST_ERROR_ARGUMENT,
                        "cst_monitor_save: monitor and path are required");
    return cst_why(context, cst_state_save(context, &KIND, monitor->model_hash, monitor, path));
}

/* Checks that the state has all that the caller asks for. */
static cst_status load_state(cst_context *context, const char *path,
                             const cst_monitor_options *options, cst_monitor *m) {
    CST_SCOPE(scope);
    cst_codec c;
    uint64_t hash = 0;
    CST_TRY(cst_state_open(context, scope, &KIND, path, &c, &hash));
    CST_TRY(cst_state_check_model(&c, hash, m->model_hash));
    c.scope = &m->scope;
    code_state(&c, m);
    CST_TRY(c.status);
    if (!(m->alpha > 0 && m->alpha < 1))
        return cst_fail(context, CST_ERROR_FORMAT, "%s: alpha is %g", path, m->alpha);
    if (options && options->alpha > 0 && options->alpha != m->alpha)
        return cst_fail(context, CST_ERROR_INPUT,
                        "%s: the state has alpha %g, not %g: one test has one alpha; leave it out, "
                        "or begin a new state",
                        path, m->alpha, options->alpha);
    if (options)
        m->in_order = options->in_order != 0;
    return CST_OK;
}

cst_status cst_monitor_load(cst_context *context, cst_monitor **out, const cst_model *model,
                            const char *path, const cst_monitor_options *options_given) {
    CST_CLEAR(out);
    CST_ENTER(context);
    CST_STRUCT(context, cst_monitor_options, options, options_given);
    if (!out || !model || !path)
        return cst_fail(context, CST_ERROR_ARGUMENT,
                        "cst_monitor_load: monitor, model and path are required");
    cst_monitor *monitor = NULL;
    cst_status status = monitor_make(context, model, options, &monitor);
    CST_THEN(load_state(context, path, options, monitor));
    if (status == CST_OK)
        *out = monitor;
    else
        cst_monitor_free(context, monitor);
    return cst_why(context, status);
}

/* ---- the report ---- */

static void put_drift(cst_report *report, json_t *object, const char *key, const cst_drift *drift) {
    if (isnan(drift->value))
        return;
    json_t *to = cst_report_object(report, object, key);
    CST_PUT(report, to, CST_N("value", drift->value), CST_N("fit", drift->fit));
    if (!isnan(drift->se))
        cst_report_number(report, to, "se", drift->se);
    CST_PUT(report, to, CST_N("p", drift->p), CST_B("flag", drift->flag));
}

/* A class by its name, or by its number. */
static void put_class(cst_report *report, json_t *object, const cst_model *model, int32_t class) {
    const char *name = cst_model_class_name(model, class);
    char number[16];
    (void)cst_snprintf(number, sizeof number, "%d", (int)class);
    cst_report_string(report, object, "class", class < 0 ? NULL : name ? name : number);
}

static void put_member(cst_report *report, json_t *list, const cst_model *model, int32_t k,
                       const cst_member_drift *drift) {
    json_t *row = cst_report_add_object(report, list);
    cst_report_string(report, row, "name",
                      k < model->members ? cst_model_member_name(model, k) : NULL);
    put_drift(report, row, "entropy", &drift->entropy);
    put_drift(report, row, "disagreement", &drift->apart);
    put_drift(report, row, "missing", &drift->missing);
    put_drift(report, row, "classes", &drift->shares);
    if (!isnan(drift->shares.value)) {
        json_t *most = cst_report_object(report, row, "largest_change");
        put_class(report, most, model, drift->most);
        CST_PUT(report, most, CST_N("share", drift->most_share), CST_N("fit", drift->most_fit));
    }
}

static void put_batch(cst_report *report, json_t *list, const cst_monitor *monitor,
                      const cst_monitor_result *batch) {
    json_t *row = cst_report_add_object(report, list);
    CST_PUT(report, row, CST_S("batch", batch->name), CST_I("samples", batch->rows),
            CST_I("tested", batch->tested), CST_N("evidence", batch->evidence),
            CST_N("evidence_alone", batch->own), CST_B("alarm", batch->alarm),
            CST_N("confidence", batch->confidence));
    json_t *expected = cst_report_object(report, row, "expected");
    CST_PUT(report, expected, CST_N("top1", batch->accuracy), CST_N("ece", batch->ece),
            CST_N("error", batch->error));
    if (batch->labelled > 0) {
        json_t *observed = cst_report_object(report, row, "observed");
        CST_PUT(report, observed, CST_I("labelled", batch->labelled),
                CST_N("top1", batch->observed), CST_N("ece", batch->observed_ece));
        if (monitor->metric.metric)
            cst_report_number(report, observed, "metric", batch->metric);
    }
    cst_report_integer(report, row, "flags", batch->flags);
    json_t *members = cst_report_list(report, row, "members");
    for (int32_t k = 0; k < monitor->model->members; k++)
        put_member(report, members, monitor->model, k, &batch->drift[k]);
    json_t *stack = cst_report_list(report, row, "stack");
    put_member(report, stack, monitor->model, monitor->model->members,
               &batch->drift[monitor->model->members]);
}

static void fill(const cst_monitor *monitor, cst_report *report) {
    const cst_gauge *gauge = monitor->model->reference.gauge;
    json_t *root = cst_report_root(report);
    CST_PUT(report, root, CST_B("alarm", monitor->alarm), CST_N("alpha", monitor->alpha),
            CST_N("evidence", cst_evidence_value(&monitor->evidence)),
            CST_N("evidence_peak", monitor->evidence.peak),
            CST_N("evidence_alarm", 1 / monitor->alpha), CST_I("rows", monitor->evidence.rows),
            CST_I("batches_seen", monitor->batches));
    if (monitor->alarm) {
        json_t *first = cst_report_object(report, root, "first_alarm");
        CST_PUT(report, first, CST_I("number", monitor->alarm_batch),
                CST_S("batch", monitor->alarm_name));
    }
    cst_put_metric(report, monitor->metric);
    json_t *fit = cst_report_object(report, root, "fit");
    CST_PUT(report, fit, CST_I("samples", gauge->rows), CST_N("top1", gauge->accuracy),
            CST_N("ece", gauge->ece), CST_N("confidence", gauge->confidence));
    json_t *list = cst_report_list(report, root, "batches");
    for (const cst_monitor_call *call = monitor->first; call; call = call->next)
        for (int32_t i = 0; i < call->count; i++)
            put_batch(report, list, monitor, &call->result[i]);
    json_t *notices = cst_report_list(report, root, "notices");
    for (const cst_monitor_call *call = monitor->first; call; call = call->next)
        for (size_t i = 0; i < call->notices; i++)
            cst_report_add_string(report, notices, call->notice[i]);
}

cst_status cst_monitor_report(cst_context *context, const cst_monitor *monitor,
                              cst_report **report) {
    CST_CLEAR(report);
    CST_ENTER(context);
    if (!monitor || !report)
        return cst_fail(context, CST_ERROR_ARGUMENT,
                        "cst_monitor_report: monitor and report are required");
    cst_status status = cst_report_begin(context, CST_REPORT_MONITOR, report);
    if (status == CST_OK)
        fill(monitor, *report);
    CST_THEN(cst_report_finish(context, *report));
    return cst_why(context, cst_report_settle(context, status, report));
}
