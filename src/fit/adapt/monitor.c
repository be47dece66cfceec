/*
 * A monitor of a fitted stack: batches in, evidence and drift out. After a fit.
 * corestack/monitor.h, docs/prediction.md#monitor.
 */
#include "fit/adapt/monitor.h"

#include "data/checks/checks.h"
#include "data/pool/pool.h"
#include "model/pool_hash.h"

#include <math.h>
#include <string.h>

enum { NOTICES_MAX = 256 };
static const double ALPHA = 0.01;

void cst_monitor_free(cst_context *context, cst_monitor *monitor) {
    if (!monitor)
        return;
    for (int32_t i = 0; i < monitor->count; i++)
        cst_monitor_result_free(context, &monitor->results[i]);
    cst_free(context, monitor->results);
    for (size_t i = 0; i < monitor->notice_count; i++)
        cst_free(context, monitor->notices[i]);
    cst_free(context, monitor->notices);
    cst_free(context, monitor->alarm_name);
    cst_free(context, monitor->table_of);
    cst_free(context, monitor->group_of);
    cst_evidence_free(context, &monitor->evidence);
    cst_free(context, monitor);
}

static cst_status check_model(cst_context *context, const cst_model *model) {
    if (model->task != CST_TASK_CLASSIFICATION)
        return cst_fail(context, CST_ERROR_UNSUPPORTED, "a monitor is not supported for %s",
                        cst_task_name(model->task));
    if (model->adapted)
        return cst_fail(context, CST_ERROR_UNSUPPORTED,
                        "a monitor is not supported for an adapted model, which is not compared "
                        "with the rows of its fit; use the model before it was adapted");
    if (!model->watch)
        return cst_fail(context, CST_ERROR_UNSUPPORTED,
                        "the model does not hold what a monitor compares rows with: it was written "
                        "by an older version, restricted, or fitted on fewer than %d rows that "
                        "every member predicted; fit it again",
                        CST_WATCH_ROWS_MIN);
    return CST_OK;
}

static cst_status hash_model(cst_context *context, const cst_model *model, uint64_t *out) {
    uint8_t *bytes = NULL;
    size_t size = 0;
    cst_status status = cst_stack_encode(context, model, &bytes, &size);
    if (status == CST_OK)
        *out = cst_hash_mix(cst_hash_bytes(CST_HASH_START, bytes, size));
    cst_free(context, bytes);
    return status;
}

cst_status cst_monitor_make(cst_context *context, const cst_model *model,
                            const cst_monitor_options *options, cst_monitor **out) {
    double alpha = options && options->alpha != 0 ? options->alpha : ALPHA;
    cst_status status = check_model(context, model);
    *out = NULL;
    if (status == CST_OK && !(alpha > 0 && alpha < 1))
        status = cst_fail(context, CST_ERROR_ARGUMENT,
                          "alpha must be a probability between 0 and 1, but it is %g", alpha);
    if (status == CST_OK && !(alpha >= 1 / CST_EVIDENCE_MOST))
        status = cst_fail(context, CST_ERROR_ARGUMENT, "alpha must be at least %g",
                          1 / CST_EVIDENCE_MOST);
    if (status != CST_OK)
        return status;
    cst_monitor *monitor = cst_alloc(context, 1, sizeof *monitor);
    if (!monitor)
        return CST_ERROR_MEMORY;
    *monitor =
        (cst_monitor){.model = model, .alpha = alpha, .in_order = options && options->in_order};
    size_t classes = (size_t)model->classes;
    monitor->table_of = cst_alloc(context, classes, sizeof *monitor->table_of);
    monitor->group_of = cst_alloc(context, classes, sizeof *monitor->group_of);
    status = monitor->table_of && monitor->group_of ? CST_OK : CST_ERROR_MEMORY;
    CST_THEN(cst_evidence_alloc(context, model->watch, &monitor->evidence));
    CST_THEN(hash_model(context, model, &monitor->model_hash));
    if (status == CST_OK) {
        cst_watch_place(model->watch, monitor->table_of, monitor->group_of);
        *out = monitor;
    } else {
        cst_monitor_free(context, monitor);
    }
    return status;
}

cst_status cst_monitor_create(cst_context *context, cst_monitor **out, const cst_model *model,
                              const cst_monitor_options *options) {
    if (out)
        *out = NULL;
    CST_ENTER(context);
    if (!out || !model)
        return cst_fail(context, CST_ERROR_ARGUMENT,
                        "cst_monitor_create: monitor and model are required");
    return cst_why(context, cst_monitor_make(context, model, options, out));
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

/* Tests the rows of a batch: on top of `evidence`, and by themselves. */
static cst_status test_rows(cst_context *context, const cst_monitor *monitor, int64_t batch,
                            const cst_watch_rows *rows, cst_evidence *evidence,
                            cst_monitor_result *result) {
    const cst_watch *watch = monitor->model->watch;
    cst_evidence own = {0};
    int64_t *order = cst_alloc(context, (size_t)rows->rows, sizeof *order);
    cst_status status = order ? CST_OK : CST_ERROR_MEMORY;
    CST_THEN(cst_evidence_alloc(context, watch, &own));
    if (status == CST_OK) {
        order_rows(monitor, batch, rows->rows, order);
        for (int64_t i = 0; i < rows->rows; i++) {
            const float *value = rows->statistic + order[i] * CST_WATCH_STATISTICS;
            int32_t table = monitor->table_of[rows->class[order[i]]];
            int32_t group = monitor->group_of[rows->class[order[i]]];
            if (!rows->usable[order[i]])
                continue;
            cst_evidence_add(watch, table, group, value, evidence);
            cst_evidence_add(watch, table, group, value, &own);
        }
        result->evidence = cst_evidence_value(evidence);
        result->own = own.peak;
    }
    cst_evidence_free(context, &own);
    cst_free(context, order);
    return status;
}

/* Results of one call, kept together until all went well. */
typedef struct batches {
    const cst_view *view;
    const int32_t *labels; /* of all rows, or NULL */
    int64_t rows;          /* of each */
    int32_t count;
    cst_monitor_result *result; /* [count] */
    cst_evidence evidence;
    int64_t *index; /* [rows] */
} batches;

static cst_status run_batch(cst_context *context, const cst_monitor *monitor, batches *b,
                            int32_t at) {
    cst_view part = *b->view;
    cst_watch_rows rows = {0};
    int64_t first = (int64_t)at * b->rows;
    part.rows = b->rows;
    if (b->count > 1) {
        for (int64_t i = 0; i < b->rows; i++)
            b->index[i] = b->view->index ? b->view->index[first + i] : first + i;
        part.index = b->index;
    }
    cst_status status = cst_monitor_measure(
        context, monitor, &part, b->labels ? b->labels + first : NULL, &rows, &b->result[at]);
    CST_THEN(
        test_rows(context, monitor, monitor->batches + at, &rows, &b->evidence, &b->result[at]));
    cst_watch_rows_free(context, &rows);
    return status;
}

/* "NAME", or "NAME kind 3" of a condition. */
static char *name_batch(cst_context *context, const cst_pool *pool, const char *split,
                        const char *name, int32_t condition) {
    const char *shown = name ? name : split;
    if (cst_pool_conditions(pool, split) == 0)
        return cst_format(context, "%s", shown);
    const char *kind = cst_pool_condition_kind(pool, split, condition);
    double severity = cst_pool_condition_severity(pool, split, condition);
    if (isnan(severity))
        return cst_format(context, "%s %s", shown, kind ? kind : "?");
    return cst_format(context, "%s %s %g", shown, kind ? kind : "?", severity);
}

/* Cut at the limit, between characters. */
static size_t short_length(const char *name) {
    size_t length = strlen(name);
    if (length <= CST_MONITOR_NAME_BYTES)
        return length;
    length = CST_MONITOR_NAME_BYTES;
    while (length > 0 && ((unsigned char)name[length] & 0xC0) == 0x80)
        length--;
    return length;
}

static bool has_notice(const cst_monitor *m, const char *notice) {
    for (size_t i = 0; i < m->notice_count; i++)
        if (strcmp(m->notices[i], notice) == 0)
            return true;
    return false;
}

/* Adds the notices of the call. After a failure the monitor has those that it had. */
static cst_status keep_notices(cst_context *context, cst_monitor *m) {
    size_t before = m->notice_count;
    bool failed = cst_notices_lost(context);
    for (size_t i = 0; i < cst_notice_count(context) && !failed; i++) {
        const char *notice = cst_notice_at(context, i);
        if (m->notice_count == NOTICES_MAX || has_notice(m, notice))
            continue;
        char **grown = cst_grow_list(context, m->notices, m->notice_count, sizeof *grown);
        char *copy = grown ? cst_strdup(context, notice) : NULL;
        m->notices = grown ? grown : m->notices;
        failed = !copy;
        if (copy)
            m->notices[m->notice_count++] = copy;
    }
    while (failed && m->notice_count > before)
        cst_free(context, m->notices[--m->notice_count]);
    return failed ? CST_ERROR_MEMORY : CST_OK;
}

/* Takes the results over. Nothing fails after room was made. */
static cst_status keep(cst_context *context, cst_monitor *m, batches *b) {
    char *name = NULL;
    int32_t alarm = -1;
    for (int32_t i = b->count - 1; i >= 0 && !m->alarm; i--)
        if (b->result[i].alarm)
            alarm = i;
    if (alarm >= 0) {
        size_t length = short_length(b->result[alarm].name);
        name = cst_alloc(context, length + 1, 1);
        if (!name)
            return CST_ERROR_MEMORY;
        memcpy(name, b->result[alarm].name, length);
    }
    if (m->count > INT32_MAX - b->count) {
        cst_free(context, name);
        return cst_fail(context, CST_ERROR_LIMIT, "a monitor reports at most %d batches of a run",
                        INT32_MAX);
    }
    if (m->count + b->count > m->room) {
        int32_t room =
            m->room > (INT32_MAX - b->count) / 2 ? m->count + b->count : 2 * m->room + b->count;
        cst_monitor_result *grown =
            cst_grow(context, m->results, (size_t)m->room, (size_t)room, sizeof *m->results);
        if (!grown) {
            cst_free(context, name);
            return CST_ERROR_MEMORY;
        }
        m->results = grown;
        m->room = room;
    }
    if (keep_notices(context, m) != CST_OK) {
        cst_free(context, name);
        return CST_ERROR_MEMORY;
    }
    memcpy(m->results + m->count, b->result, (size_t)b->count * sizeof *b->result);
    m->count += b->count;
    if (alarm >= 0) {
        m->alarm = true;
        m->alarm_batch = m->batches + alarm + 1;
        m->alarm_name = name;
    }
    m->batches += b->count;
    cst_evidence_copy(m->model->watch, &b->evidence, &m->evidence);
    return CST_OK;
}

static cst_status run_batches(cst_context *context, cst_monitor *monitor, const cst_pool *pool,
                              const char *split, const char *name, batches *b) {
    const cst_watch *watch = monitor->model->watch;
    b->result = cst_alloc(context, (size_t)b->count, sizeof *b->result);
    b->index = cst_alloc(context, (size_t)b->rows, sizeof *b->index);
    cst_status status = b->result && b->index ? CST_OK : CST_ERROR_MEMORY;
    CST_THEN(cst_evidence_alloc(context, watch, &b->evidence));
    if (status == CST_OK)
        cst_evidence_copy(watch, &monitor->evidence, &b->evidence);
    for (int32_t i = 0; status == CST_OK && i < b->count; i++) {
        b->result[i].name = name_batch(context, pool, split, name, i);
        status = b->result[i].name ? run_batch(context, monitor, b, i) : CST_ERROR_MEMORY;
        b->result[i].alarm = monitor->alarm || b->evidence.peak * monitor->alpha >= 1;
    }
    CST_THEN(keep(context, monitor, b));
    for (int32_t i = 0; b->result && status != CST_OK && i < b->count; i++)
        cst_monitor_result_free(context, &b->result[i]);
    cst_free(context, b->result);
    cst_free(context, b->index);
    cst_evidence_free(context, &b->evidence);
    return status;
}

/* Whether the labels of a batch go with the predictions. */
static cst_status check_labels(cst_context *context, const cst_model *model, const cst_pool *pool,
                               const char *split, const cst_view *view) {
    int32_t *positions = cst_alloc(context, (size_t)view->members, sizeof *positions);
    if (!positions)
        return CST_ERROR_MEMORY;
    for (int32_t k = 0; k < view->members; k++)
        positions[k] = cst_pool_member_index(pool, cst_model_member_name(model, k));
    cst_status status = cst_check_scored(
        context,
        &(cst_check_source){.pool = pool, .split = split, .view = view, .members = positions});
    cst_free(context, positions);
    return status;
}

static cst_status add_split(cst_context *context, cst_monitor *monitor, cst_pool *pool,
                            const char *split, const char *name) {
    const float **pointers = NULL;
    cst_view view = {0};
    if (cst_pool_task(pool) != CST_TASK_CLASSIFICATION)
        return cst_fail(context, CST_ERROR_MISMATCH,
                        "the model was fitted for classification, but the task of the pool is %s",
                        cst_task_name(cst_pool_task(pool)));
    cst_status status = cst_model_view(context, monitor->model, pool, split, &pointers, &view);
    CST_THEN(cst_model_view_tell(context, monitor->model, split, &view));
    if (status == CST_OK) {
        int32_t conditions = cst_pool_conditions(pool, split);
        batches b = {.view = &view, .count = conditions > 0 ? conditions : 1};
        b.labels = cst_pool_is_ood(pool, split) || view.index ? NULL : view.labels;
        b.rows = view.rows / b.count;
        if (b.rows < 1)
            status = cst_fail(context, CST_ERROR_INPUT, "split '%s' has no rows", split);
        if (b.labels && conditions == 0)
            CST_THEN(check_labels(context, monitor->model, pool, split, &view));
        CST_THEN(run_batches(context, monitor, pool, split, name, &b));
    }
    cst_free(context, pointers);
    return status;
}

cst_status cst_monitor_batch(cst_context *context, cst_monitor *monitor, cst_pool *pool,
                             const char *split, const char *name, int *alarm) {
    if (alarm)
        *alarm = 0;
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
