/*
 * The state of an online adapter as a file: everything that it has learned, and the rows that wait
 * for their label. docs/model-format.md#adapter-states.
 */
#include "adapt/online.h"

#include "base/buffer.h"
#include "io/bytes.h"
#include "io/output.h"
#include "model/crc32c.h"
#include "model/reader.h"

#include <float.h>
#include <inttypes.h>
#include <string.h>

/* As that of a model file (model/format.h), with another name. */
#define STATE_MAGIC "\211CSO\r\n\032\n"

enum { MAGIC_BYTES = 8, STATE_VERSION = 1, CHECKSUM_BYTES = 4, HEADER_BYTES = MAGIC_BYTES + 4 };
enum { CAPACITY_MAX = 10000000 };
static const double SUM_MAX = 1e30;
static const double COUNT_MAX = 9007199254740992.0; /* 2^53 */

/* ---- writing ---- */

static void put_word(cst_buffer *w, uint64_t value, int bytes) {
    uint8_t word[8];
    for (int i = 0; i < bytes; i++)
        word[i] = (uint8_t)(value >> (8 * i));
    cst_buffer_add(w, word, (size_t)bytes);
}

static void put_numbers(cst_buffer *w, const double *values, size_t count) {
    for (size_t i = 0; i < count; i++) {
        uint64_t bits = 0;
        memcpy(&bits, &values[i], sizeof bits);
        put_word(w, bits, 8);
    }
}

static void put_floats(cst_buffer *w, const float *values, size_t count) {
    for (size_t i = 0; i < count; i++) {
        uint32_t bits = 0;
        memcpy(&bits, &values[i], sizeof bits);
        put_word(w, bits, 4);
    }
}

static void put_newton(cst_buffer *w, const cst_newton *n) {
    size_t size = (size_t)n->size;
    put_word(w, (uint64_t)n->since, 4);
    for (size_t i = 0; i < size; i++)
        put_numbers(w, n->curvature + i * size, i + 1);
    put_numbers(w, n->pull, size);
    put_numbers(w, n->shift, size);
}

static void put_waiting(cst_buffer *w, const cst_adapter *a) {
    put_word(w, (uint64_t)a->waiting, 8);
    int64_t first = a->next > a->capacity ? a->next - a->capacity : 0;
    for (int64_t ticket = first; ticket < a->next; ticket++) {
        const cst_online_slot *slot = cst_online_find(a, ticket);
        if (!slot)
            continue;
        put_word(w, (uint64_t)ticket, 8);
        put_word(w, (uint64_t)slot->label + 1, 4);
        put_numbers(w, &slot->threshold, 1);
        put_floats(w, a->record + (size_t)(ticket % a->capacity) * cst_online_width(a),
                   cst_online_width(a));
    }
}

static void put_sets(cst_buffer *w, const cst_adapter *a) {
    const double level[] = {a->sets.alpha, a->sets.step, a->sets.level};
    put_numbers(w, level, 3);
    put_word(w, (uint64_t)a->sets.rows, 8);
    put_word(w, (uint64_t)a->sets.missed, 8);
    put_word(w, (uint64_t)a->set_size, 8);
    put_word(w, (uint64_t)a->sets.count, 4);
    put_word(w, (uint64_t)a->sets.next, 4);
    put_numbers(w, a->sets.scores, (size_t)a->sets.count);
}

static void put_state(cst_buffer *w, const cst_adapter *a) {
    const int64_t counts[] = {a->capacity, a->next, a->labelled, a->dropped};
    cst_buffer_add(w, STATE_MAGIC, MAGIC_BYTES);
    put_word(w, STATE_VERSION, 4);
    put_word(w, a->model_hash, 8);
    put_word(w, (uint64_t)a->members, 4);
    put_word(w, (uint64_t)a->classes, 4);
    for (int32_t k = 0; k < a->members; k++) {
        size_t length = strlen(a->names[k]);
        put_word(w, length, 4);
        cst_buffer_add(w, a->names[k], length);
    }
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        put_word(w, (uint64_t)counts[i], 8);
    for (int i = 0; i < CST_ONLINE_SCORED; i++)
        put_word(w, (uint64_t)a->errors[i], 8);
    put_numbers(w, &a->adapter_loss, 1);
    put_numbers(w, a->loss, (size_t)a->experts);
    put_numbers(w, a->mixture, CST_ONLINE_MIXED);
    put_numbers(w, a->share, (size_t)a->experts);
    for (int i = 0; i < CST_ONLINE_NEWTONS; i++)
        put_newton(w, &a->newton[i]);
    put_newton(w, &a->average);
    put_sets(w, a);
    put_waiting(w, a);
    if (w->status == CST_OK)
        put_word(w, cst_crc32c((const uint8_t *)w->bytes, w->used), CHECKSUM_BYTES);
}

cst_status cst_adapter_save(cst_context *context, const cst_adapter *adapter, const char *path) {
    CST_ENTER(context);
    CST_CHECK(context, adapter, ADAPTER, "adapter");
    if (!adapter || !path)
        return cst_fail(context, CST_ERROR_ARGUMENT,
                        "cst_adapter_save: adapter and path are required");
    cst_buffer bytes = {.context = context};
    cst_output_file *output = NULL;
    put_state(&bytes, adapter);
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

static uint64_t take_u64(cst_reader *r) {
    const uint8_t *from = cst_reader_take(r, 8);
    return from ? cst_load_u64(from) : 0;
}

static int64_t take_count(cst_reader *r, const char *what, int64_t most) {
    size_t at = r->at;
    uint64_t value = take_u64(r);
    if (value > (uint64_t)most)
        cst_reader_refuse(r, at, "%s is %" PRIu64 ", which is not from 0 to %" PRId64, what, value,
                          most);
    return r->status == CST_OK ? (int64_t)value : 0;
}

static void take_numbers(cst_reader *r, const char *what, double least, double most, size_t count,
                         double *out) {
    for (size_t i = 0; r->status == CST_OK && i < count; i++)
        out[i] = cst_reader_f64(r, what, least, most);
}

/* Weights that sum to 1. */
static void take_weights(cst_reader *r, const char *what, size_t count, double *out) {
    size_t at = r->at;
    double sum = 0;
    take_numbers(r, what, DBL_MIN, 1, count, out);
    for (size_t i = 0; i < count; i++)
        sum += out[i];
    if (!(sum > 1 - 1e-6 && sum < 1 + 1e-6))
        cst_reader_refuse(r, at, "%ss sum to %g instead of 1", what, sum);
}

static void take_newton(cst_reader *r, cst_newton *n) {
    size_t size = (size_t)n->size;
    n->since = cst_reader_int(r, "labels since the last solution", 0, n->period - 1);
    for (size_t i = 0; i < size; i++)
        take_numbers(r, "curvature", -SUM_MAX, SUM_MAX, i + 1, n->curvature + i * size);
    take_numbers(r, "pull", -SUM_MAX, SUM_MAX, size, n->pull);
    take_numbers(r, "parameter", -CST_NEWTON_MAX, CST_NEWTON_MAX, size, n->shift);
}

static void take_waiting(cst_reader *r, cst_adapter *a) {
    size_t width = cst_online_width(a);
    int64_t count = take_count(r, "the number of rows that wait", a->capacity);
    int64_t least = a->next > a->capacity ? a->next - a->capacity : 0;
    for (int64_t i = 0; r->status == CST_OK && i < count; i++) {
        size_t at = r->at;
        int64_t ticket = take_count(r, "a ticket", INT64_MAX);
        if (r->status == CST_OK && (ticket < least || ticket >= a->next))
            cst_reader_refuse(r, at, "ticket %" PRId64 " is not from %" PRId64 " to %" PRId64,
                              ticket, least, a->next - 1);
        int32_t label = cst_reader_int(r, "a label", 0, a->classes) - 1;
        double threshold = cst_reader_f64(r, "a threshold", -1, 2);
        const uint8_t *from = cst_reader_take(r, width * 4);
        if (!from)
            return;
        a->slot[ticket % a->capacity] =
            (cst_online_slot){.waiting = true, .label = label, .threshold = threshold};
        float *record = a->record + (size_t)(ticket % a->capacity) * width;
        for (size_t j = 0; j < width; j++) {
            uint32_t bits = cst_load_u32(from + 4 * j);
            memcpy(&record[j], &bits, sizeof bits);
            if (!(record[j] >= 0.0F && record[j] <= 1.0001F))
                cst_reader_refuse(r, r->at - width * 4 + 4 * j, "%g is not a probability",
                                  (double)record[j]);
        }
        least = ticket + 1;
    }
    a->waiting = count;
}

static void take_sets(cst_reader *r, cst_adapter *a) {
    size_t at = r->at;
    cst_aci *sets = &a->sets;
    sets->alpha = cst_reader_f64(r, "alpha", 0, 1);
    sets->step = cst_reader_f64(r, "a step", 0, 1);
    sets->level = cst_reader_f64(r, "a level", -SUM_MAX, SUM_MAX);
    sets->rows = take_count(r, "the number of sets", a->labelled);
    sets->missed = take_count(r, "the number of misses", a->labelled);
    a->set_size = take_count(r, "the size of all sets", (int64_t)COUNT_MAX);
    sets->count = cst_reader_int(r, "the number of scores", 0, CST_ACI_WINDOW);
    sets->next = cst_reader_int(r, "the place of a score", 0, CST_ACI_WINDOW);
    take_numbers(r, "a score", 0, 1, (size_t)sets->count, sets->scores);
    if (r->status == CST_OK && !cst_aci_restore(sets))
        cst_reader_refuse(r, at, "these are no prediction sets of %" PRId64 " labels", a->labelled);
}

static void take_state(cst_reader *r, cst_adapter *a) {
    a->next = take_count(r, "the number of rows", (int64_t)COUNT_MAX);
    a->labelled = take_count(r, "the number of labels", a->next);
    a->dropped = take_count(r, "the number of dropped rows", a->next);
    for (int i = 0; i < CST_ONLINE_SCORED; i++)
        a->errors[i] = take_count(r, "the number of errors", a->labelled);
    take_numbers(r, "a loss", 0, COUNT_MAX, 1, &a->adapter_loss);
    take_numbers(r, "a loss", 0, COUNT_MAX, (size_t)a->experts, a->loss);
    take_weights(r, "weight", CST_ONLINE_MIXED, a->mixture);
    take_weights(r, "weight", (size_t)a->experts, a->share);
    for (int i = 0; i < CST_ONLINE_NEWTONS; i++)
        take_newton(r, &a->newton[i]);
    take_newton(r, &a->average);
    take_sets(r, a);
    take_waiting(r, a);
    if (r->status == CST_OK && r->at != r->end)
        cst_reader_refuse(r, r->at, "%zu bytes are left over", r->end - r->at);
}

/* Whether these are the bytes of a state, as they were written. */
static void check_whole(cst_reader *r) {
    const uint8_t *magic = r->end < HEADER_BYTES ? NULL : cst_reader_take(r, MAGIC_BYTES);
    if (!magic || memcmp(magic, STATE_MAGIC, MAGIC_BYTES) != 0) {
        cst_reader_refuse(r, 0,
                          "this is no state of an online adapter, or the file is cut off; name "
                          "the file that --state or cst_adapter_save wrote");
        return;
    }
    uint32_t version = cst_reader_u32(r);
    if (version != STATE_VERSION && r->status == CST_OK) {
        r->status = cst_fail(r->context, CST_ERROR_UNSUPPORTED,
                             "%s: has version %" PRIu32 " of the format, and this corestack reads "
                             "version %d; use a newer one",
                             r->name, version, STATE_VERSION);
        return;
    }
    if (r->end < HEADER_BYTES + CHECKSUM_BYTES) {
        cst_reader_refuse(r, r->end, "the file is cut off; copy it again");
        return;
    }
    r->end -= CHECKSUM_BYTES;
    if (cst_load_u32(r->bytes + r->end) != cst_crc32c(r->bytes, r->end))
        cst_reader_refuse(r, r->end,
                          "wrong checksum: the file was cut off or damaged after it was written; "
                          "copy it again");
}

static cst_status decode(cst_reader *r, const cst_model *model, cst_adapter **out) {
    check_whole(r);
    uint64_t hash = take_u64(r);
    int32_t members = cst_reader_int(r, "the number of members", 1, CST_ONLINE_MEMBERS_MAX);
    int32_t classes = cst_reader_int(r, "the number of classes", 1, INT32_MAX);
    if (r->status == CST_OK && classes != model->classes)
        return cst_fail(r->context, CST_ERROR_MISMATCH,
                        "%s: is the state of another model, with %d classes instead of %d", r->name,
                        (int)classes, (int)model->classes);
    char **names = r->status == CST_OK
                       ? cst_reader_room(r, (size_t)members, sizeof *names, 5, "members")
                       : NULL;
    for (int32_t k = 0; names && k < members; k++)
        names[k] = cst_reader_string(r, "member", (size_t)k);
    int64_t capacity = take_count(r, "the number of rows kept", CAPACITY_MAX);
    if (r->status == CST_OK && capacity == 0)
        cst_reader_refuse(r, r->at - 8, "no rows are kept");
    cst_adapter *made = NULL;
    cst_status status = r->status;
    CST_TRY(cst_online_make(r->context, model, (const char *const *)names, members, capacity, 0.5,
                            &made));
    if (status == CST_OK && made->model_hash != hash)
        status = cst_fail(r->context, CST_ERROR_MISMATCH,
                          "%s: is the state of another model; give the model that it was started "
                          "with, or start with a new file",
                          r->name);
    if (status == CST_OK) {
        take_state(r, made);
        status = r->status;
    }
    for (int32_t k = 0; names && k < members; k++)
        cst_free(r->context, names[k]);
    cst_free(r->context, names);
    if (status == CST_OK)
        *out = made;
    else
        cst_adapter_free(r->context, made);
    return status;
}

cst_status cst_adapter_load(cst_context *context, cst_adapter **out, const cst_model *model,
                            const char *path) {
    if (out)
        *out = NULL;
    CST_ENTER(context);
    CST_CHECK(context, model, MODEL, "model");
    if (!out || !model || !path)
        return cst_fail(context, CST_ERROR_ARGUMENT,
                        "cst_adapter_load: model, path and the result are required");
    if (model->task != CST_TASK_CLASSIFICATION)
        return cst_fail(context, CST_ERROR_UNSUPPORTED, "online adaptation is not supported for %s",
                        cst_task_name(model->task));
    cst_bytes *source = NULL;
    const unsigned char *bytes = NULL;
    cst_status status = cst_bytes_open_file(context, &source, path);
    CST_TRY(cst_bytes_slurp(context, source, &bytes));
    if (status == CST_OK) {
        cst_reader r = {.context = context,
                        .name = path,
                        .bytes = bytes,
                        .end = (size_t)cst_bytes_size(source)};
        status = decode(&r, model, out);
    }
    cst_bytes_close(context, source);
    return cst_why(context, status);
}
