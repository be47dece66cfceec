/* A monitor's state as a file, which joins calls. docs/model-format.md#monitor-states. */
#include "fit/adapt/monitor.h"

#include "fit/adapt/state_file.h"

#include <string.h>

static const cst_state_kind KIND = {.magic = "\211CSM\r\n\032\n",
                                    .version = 2,
                                    .refusal = "not the state of a monitor",
                                    .most = 1 << 20};
static const int64_t COUNT_MAX = INT64_C(1) << 53;

/* ---- writing ---- */

static void put_state(cst_buffer *w, const cst_monitor *m) {
    const cst_evidence *evidence = &m->evidence;
    size_t counts = cst_evidence_counts(m->model->watch);
    size_t length = m->alarm_name ? strlen(m->alarm_name) : 0;
    cst_state_begin(w, &KIND, m->model_hash);
    cst_state_put_numbers(w, &m->alpha, 1);
    cst_state_put(w, m->in_order ? 1 : 0, 4);
    cst_state_put(w, (uint64_t)m->batches, 8);
    cst_state_put(w, (uint64_t)m->alarm_batch, 8);
    cst_state_put(w, length, 4);
    cst_buffer_add(w, m->alarm_name ? m->alarm_name : "", length);
    cst_state_put(w, (uint64_t)evidence->rows, 8);
    cst_state_put_numbers(w, &evidence->waiting, 1);
    cst_state_put_numbers(w, &evidence->peak, 1);
    for (int s = 0; s < CST_EVIDENCE_TESTS; s++)
        cst_state_put_numbers(w, evidence->capital[s], CST_EVIDENCE_BETS);
    cst_state_put(w, counts, 4);
    for (size_t i = 0; i < counts; i++)
        cst_state_put(w, (uint64_t)evidence->seen[i], 8);
    cst_state_put_numbers(w, evidence->recent, (size_t)m->model->watch->groups);
}

cst_status cst_monitor_save(cst_context *context, const cst_monitor *monitor, const char *path) {
    CST_ENTER(context);
    if (!monitor || !path)
        return cst_fail(context, CST_ERROR_ARGUMENT,
                        "cst_monitor_save: monitor and path are required");
    cst_buffer bytes = {.context = context};
    put_state(&bytes, monitor);
    return cst_why(context, cst_state_save(&bytes, path));
}

/* ---- reading ---- */

static void take_name(cst_reader *r, cst_monitor *m) {
    size_t length = (size_t)cst_reader_int(r, "the length of a name", 0, CST_MONITOR_NAME_BYTES);
    const uint8_t *from = cst_reader_take(r, length);
    if (!from || length == 0)
        return;
    m->alarm_name = cst_alloc(r->context, length + 1, 1);
    if (m->alarm_name)
        memcpy(m->alarm_name, from, length);
    else
        r->status = CST_ERROR_MEMORY;
}

static void take_evidence(cst_reader *r, const cst_watch *watch, cst_evidence *evidence) {
    size_t counts = cst_evidence_counts(watch);
    evidence->rows = cst_state_count(r, "the number of rows", COUNT_MAX);
    evidence->waiting = cst_reader_f64(r, "capital", 0, CST_EVIDENCE_MOST);
    evidence->peak = cst_reader_f64(r, "the largest evidence", 1, CST_EVIDENCE_MOST);
    for (int s = 0; s < CST_EVIDENCE_TESTS; s++)
        cst_state_numbers(r, "capital", 0, 2 * CST_EVIDENCE_MOST, CST_EVIDENCE_BETS,
                          evidence->capital[s]);
    size_t at = r->at;
    if (cst_reader_u32(r) != counts)
        cst_reader_refuse(r, at, "it does not have %zu counts", counts);
    for (size_t i = 0; i < counts && r->status == CST_OK; i++)
        evidence->seen[i] = cst_state_count(r, "a count of rows", evidence->rows);
    cst_state_numbers(r, "a count of recent rows", 0, (double)COUNT_MAX, (size_t)watch->groups,
                      evidence->recent);
}

static cst_status take_state(cst_reader *r, cst_monitor *m, double *alpha, bool *in_order) {
    *alpha = cst_reader_f64(r, "alpha", 0, 1);
    *in_order = cst_reader_int(r, "the order of rows", 0, 1) == 1;
    m->batches = cst_state_count(r, "the number of batches", COUNT_MAX);
    m->alarm_batch = cst_state_count(r, "the batch of the alarm", m->batches);
    m->alarm = m->alarm_batch > 0;
    take_name(r, m);
    take_evidence(r, m->model->watch, &m->evidence);
    cst_state_end(r);
    return r->status;
}

/* What the caller asks for must be what the state has. */
static cst_status check_options(cst_context *context, const char *path, cst_monitor *m,
                                const cst_monitor_options *options, double alpha, bool in_order) {
    if (!(alpha > 0 && alpha < 1))
        return cst_fail(context, CST_ERROR_FORMAT, "%s: alpha is %g", path, alpha);
    if (options && options->alpha > 0 && options->alpha != alpha)
        return cst_fail(context, CST_ERROR_INPUT,
                        "%s: the state has alpha %g, not %g: one test has one alpha; leave it out, "
                        "or begin a new state",
                        path, alpha, options->alpha);
    m->alpha = alpha;
    m->in_order = options ? options->in_order != 0 : in_order;
    return CST_OK;
}

cst_status cst_monitor_load(cst_context *context, cst_monitor **out, const cst_model *model,
                            const char *path, const cst_monitor_options *options) {
    if (out)
        *out = NULL;
    CST_ENTER(context);
    if (!out || !model || !path)
        return cst_fail(context, CST_ERROR_ARGUMENT,
                        "cst_monitor_load: monitor, model and path are required");
    cst_monitor *monitor = NULL;
    cst_state_source source = {0};
    double alpha = 0;
    bool in_order = false;
    cst_status status = cst_monitor_make(context, model, options, &monitor);
    CST_THEN(cst_state_open(context, &KIND, path, &source));
    CST_THEN(cst_state_check_model(&source, monitor->model_hash));
    CST_THEN(take_state(&source.reader, monitor, &alpha, &in_order));
    CST_THEN(check_options(context, path, monitor, options, alpha, in_order));
    cst_state_close(context, &source);
    if (status == CST_OK)
        *out = monitor;
    else
        cst_monitor_free(context, monitor);
    return cst_why(context, status);
}
