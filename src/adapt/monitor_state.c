/*
 * The state of a monitor as a file, so that calls hours apart are one test.
 * docs/model-format.md#monitor-states.
 */
#include "adapt/monitor.h"

#include "base/buffer.h"
#include "io/bytes.h"
#include "io/output.h"
#include "model/crc32c.h"
#include "model/reader.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

/* As that of a model file (model/format.h), with another name. */
#define STATE_MAGIC "\211CSM\r\n\032\n"

enum { MAGIC_BYTES = 8, STATE_VERSION = 1, CHECKSUM_BYTES = 4, STATE_BYTES_MAX = 1 << 20 };
static const int64_t COUNT_MAX = INT64_C(1) << 53;

/* ---- writing ---- */

static void put_word(cst_buffer *w, uint64_t value, int bytes) {
    uint8_t word[8];
    for (int i = 0; i < bytes; i++)
        word[i] = (uint8_t)(value >> (8 * i));
    cst_buffer_add(w, word, (size_t)bytes);
}

static void put_number(cst_buffer *w, double value) {
    uint64_t bits = 0;
    memcpy(&bits, &value, sizeof bits);
    put_word(w, bits, 8);
}

static void put_state(cst_buffer *w, const cst_monitor *m) {
    const cst_evidence *evidence = &m->evidence;
    size_t counts = cst_evidence_counts(m->model->watch);
    size_t length = m->alarm_name ? strlen(m->alarm_name) : 0;
    cst_buffer_add(w, STATE_MAGIC, MAGIC_BYTES);
    put_word(w, STATE_VERSION, 4);
    put_word(w, m->model_hash, 8);
    put_number(w, m->alpha);
    put_word(w, m->in_order ? 1 : 0, 4);
    put_word(w, (uint64_t)m->batches, 8);
    put_word(w, (uint64_t)m->alarm_batch, 8);
    put_word(w, length, 4);
    cst_buffer_add(w, m->alarm_name ? m->alarm_name : "", length);
    put_word(w, (uint64_t)evidence->rows, 8);
    put_number(w, evidence->waiting);
    put_number(w, evidence->peak);
    for (int s = 0; s < CST_WATCH_STATISTICS; s++)
        for (int e = 0; e < CST_EVIDENCE_BETS; e++)
            put_number(w, evidence->capital[s][e]);
    put_word(w, counts, 4);
    for (size_t i = 0; i < counts; i++)
        put_word(w, (uint64_t)evidence->seen[i], 8);
    if (w->status == CST_OK)
        put_word(w, cst_crc32c((const uint8_t *)w->bytes, w->used), CHECKSUM_BYTES);
}

cst_status cst_monitor_save(cst_context *context, const cst_monitor *monitor, const char *path) {
    CST_ENTER(context);
    CST_CHECK(context, monitor, MONITOR, "monitor");
    if (!monitor || !path)
        return cst_fail(context, CST_ERROR_ARGUMENT,
                        "cst_monitor_save: monitor and path are required");
    cst_buffer bytes = {.context = context};
    cst_output_file *output = NULL;
    put_state(&bytes, monitor);
    cst_status status = bytes.status;
    CST_TRY(cst_output_open(context, &output, path));
    CST_TRY(cst_output_write(context, output, bytes.bytes, bytes.used));
    if (status == CST_OK)
        status = cst_output_commit(context, output);
    else
        cst_output_abort(context, output);
    cst_free(context, bytes.bytes);
    return cst_why(context, status);
}

/* ---- reading ---- */

static int64_t take_count(cst_reader *r, const char *what, int64_t most) {
    size_t at = r->at;
    const uint8_t *from = cst_reader_take(r, 8);
    uint64_t value = from ? cst_load_u64(from) : 0;
    if (value > (uint64_t)most)
        cst_reader_refuse(r, at, "%s is %" PRIu64 ", which is not from 0 to %" PRId64, what, value,
                          most);
    return r->status == CST_OK ? (int64_t)value : 0;
}

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
    evidence->rows = take_count(r, "the number of rows", COUNT_MAX);
    evidence->waiting = cst_reader_f64(r, "capital", 0, CST_EVIDENCE_MOST);
    evidence->peak = cst_reader_f64(r, "the largest evidence", 1, CST_EVIDENCE_MOST);
    for (int s = 0; s < CST_WATCH_STATISTICS; s++)
        for (int e = 0; e < CST_EVIDENCE_BETS; e++)
            evidence->capital[s][e] = cst_reader_f64(r, "capital", 0, 2 * CST_EVIDENCE_MOST);
    size_t at = r->at;
    if (cst_reader_u32(r) != counts)
        cst_reader_refuse(r, at, "it does not have %zu counts", counts);
    for (size_t i = 0; i < counts && r->status == CST_OK; i++)
        evidence->seen[i] = take_count(r, "a count of rows", evidence->rows);
}

static cst_status take_state(cst_reader *r, cst_monitor *m, double *alpha, bool *in_order) {
    cst_context *context = r->context;
    size_t head = MAGIC_BYTES + 4;
    if (r->end < head + CHECKSUM_BYTES || memcmp(r->bytes, STATE_MAGIC, MAGIC_BYTES) != 0)
        return cst_fail(context, CST_ERROR_FORMAT,
                        "%s: not the state of a monitor; name another file, or remove this one and "
                        "begin a new test",
                        r->name);
    if (cst_load_u32(r->bytes + MAGIC_BYTES) > STATE_VERSION)
        return cst_fail(context, CST_ERROR_UNSUPPORTED,
                        "%s: a state of version %u; this version of corestack reads %d; upgrade "
                        "corestack",
                        r->name, (unsigned)cst_load_u32(r->bytes + MAGIC_BYTES), STATE_VERSION);
    r->end -= CHECKSUM_BYTES;
    if (cst_load_u32(r->bytes + r->end) != cst_crc32c(r->bytes, r->end))
        return cst_fail(context, CST_ERROR_FORMAT,
                        "%s: wrong checksum: the state was damaged or cut off; remove the file to "
                        "begin a new test",
                        r->name);
    r->at = head;
    const uint8_t *hash = cst_reader_take(r, 8);
    if (hash && cst_load_u64(hash) != m->model_hash)
        return cst_fail(context, CST_ERROR_MISMATCH,
                        "%s: the state of another model; use the model that it was made with, or "
                        "another file for this model",
                        r->name);
    *alpha = cst_reader_f64(r, "alpha", 0, 1);
    *in_order = cst_reader_int(r, "the order of rows", 0, 1) == 1;
    m->batches = take_count(r, "the number of batches", COUNT_MAX);
    m->alarm_batch = take_count(r, "the batch of the alarm", m->batches);
    m->alarm = m->alarm_batch > 0;
    take_name(r, m);
    take_evidence(r, m->model->watch, &m->evidence);
    if (r->status == CST_OK && r->at != r->end)
        cst_reader_refuse(r, r->at, "%zu extra bytes follow the state", r->end - r->at);
    return r->status;
}

static cst_status read_file(cst_context *context, const char *path, uint8_t **bytes, size_t *size) {
    cst_bytes *source = NULL;
    cst_status status = cst_bytes_open(context, &source, path, 0);
    if (status == CST_OK && cst_bytes_size(source) > STATE_BYTES_MAX)
        status = cst_fail(context, CST_ERROR_FORMAT,
                          "%s: not the state of a monitor, which has at most %d bytes", path,
                          STATE_BYTES_MAX);
    if (status == CST_OK) {
        *size = (size_t)cst_bytes_size(source);
        *bytes = cst_alloc(context, *size + 1, 1);
        status = *bytes ? CST_OK : CST_ERROR_MEMORY;
    }
    if (status == CST_OK && *size > 0)
        status = cst_bytes_read(context, source, 0, *bytes, *size);
    cst_bytes_close(context, source);
    return status;
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
    CST_CHECK(context, model, MODEL, "model");
    if (!out || !model || !path)
        return cst_fail(context, CST_ERROR_ARGUMENT,
                        "cst_monitor_load: monitor, model and path are required");
    cst_monitor *monitor = NULL;
    uint8_t *bytes = NULL;
    size_t size = 0;
    double alpha = 0;
    bool in_order = false;
    cst_status status = cst_monitor_make(context, model, options, &monitor);
    CST_TRY(read_file(context, path, &bytes, &size));
    if (status == CST_OK) {
        cst_reader r = {.context = context, .name = path, .bytes = bytes, .end = size};
        status = take_state(&r, monitor, &alpha, &in_order);
    }
    CST_TRY(check_options(context, path, monitor, options, alpha, in_order));
    cst_free(context, bytes);
    if (status == CST_OK)
        *out = monitor;
    else
        cst_monitor_free(context, monitor);
    return cst_why(context, status);
}
