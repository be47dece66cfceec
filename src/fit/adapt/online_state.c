/*
 * The state of an online adapter as a file: everything that it has learned, and the rows that wait
 * for their label. docs/model-format.md#adapter-states.
 */
#include "fit/adapt/online.h"

#include "fit/adapt/state_file.h"

#include <float.h>
#include <inttypes.h>
#include <string.h>

static const cst_state_kind KIND = {
    .magic = "\211CSO\r\n\032\n", .version = 1, .refusal = "this is no state of an online adapter"};
enum { CAPACITY_MAX = 10000000 };
static const double SUM_MAX = 1e30;
static const double COUNT_MAX = 9007199254740992.0; /* 2^53 */

/* ---- writing ---- */

static void put_floats(cst_buffer *w, const float *values, size_t count) {
    for (size_t i = 0; i < count; i++) {
        uint32_t bits = 0;
        memcpy(&bits, &values[i], sizeof bits);
        cst_state_put(w, bits, 4);
    }
}

static void put_newton(cst_buffer *w, const cst_newton *n) {
    size_t size = (size_t)n->size;
    cst_state_put(w, (uint64_t)n->since, 4);
    for (size_t i = 0; i < size; i++)
        cst_state_put_numbers(w, n->curvature + i * size, i + 1);
    cst_state_put_numbers(w, n->pull, size);
    cst_state_put_numbers(w, n->shift, size);
}

static void put_waiting(cst_buffer *w, const cst_adapter *a) {
    cst_state_put(w, (uint64_t)a->waiting, 8);
    int64_t first = a->next > a->capacity ? a->next - a->capacity : 0;
    for (int64_t ticket = first; ticket < a->next; ticket++) {
        const cst_online_slot *slot = cst_online_find(a, ticket);
        if (!slot)
            continue;
        cst_state_put(w, (uint64_t)ticket, 8);
        cst_state_put(w, (uint64_t)slot->label + 1, 4);
        cst_state_put_numbers(w, &slot->threshold, 1);
        put_floats(w, a->record + (size_t)(ticket % a->capacity) * cst_online_width(a),
                   cst_online_width(a));
    }
}

static void put_sets(cst_buffer *w, const cst_adapter *a) {
    const double level[] = {a->sets.alpha, a->sets.step, a->sets.level};
    cst_state_put_numbers(w, level, 3);
    cst_state_put(w, (uint64_t)a->sets.rows, 8);
    cst_state_put(w, (uint64_t)a->sets.missed, 8);
    cst_state_put(w, (uint64_t)a->set_size, 8);
    cst_state_put(w, (uint64_t)a->sets.count, 4);
    cst_state_put(w, (uint64_t)a->sets.next, 4);
    cst_state_put_numbers(w, a->sets.scores, (size_t)a->sets.count);
}

static void put_state(cst_buffer *w, const cst_adapter *a) {
    const int64_t counts[] = {a->capacity, a->next, a->labelled, a->dropped};
    cst_state_begin(w, &KIND, a->model_hash);
    cst_state_put(w, (uint64_t)a->members, 4);
    cst_state_put(w, (uint64_t)a->classes, 4);
    for (int32_t k = 0; k < a->members; k++) {
        size_t length = strlen(a->names[k]);
        cst_state_put(w, length, 4);
        cst_buffer_add(w, a->names[k], length);
    }
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        cst_state_put(w, (uint64_t)counts[i], 8);
    for (int i = 0; i < CST_ONLINE_SCORED; i++)
        cst_state_put(w, (uint64_t)a->errors[i], 8);
    cst_state_put_numbers(w, &a->adapter_loss, 1);
    cst_state_put_numbers(w, a->loss, (size_t)a->experts);
    cst_state_put_numbers(w, a->mixture, CST_ONLINE_MIXED);
    cst_state_put_numbers(w, a->share, (size_t)a->experts);
    for (int i = 0; i < CST_ONLINE_NEWTONS; i++)
        put_newton(w, &a->newton[i]);
    put_newton(w, &a->average);
    put_sets(w, a);
    put_waiting(w, a);
}

cst_status cst_adapter_save(cst_context *context, const cst_adapter *adapter, const char *path) {
    CST_ENTER(context);
    if (!adapter || !path)
        return cst_fail(context, CST_ERROR_ARGUMENT,
                        "cst_adapter_save: adapter and path are required");
    cst_buffer bytes = {.context = context};
    put_state(&bytes, adapter);
    return cst_why(context, cst_state_save(&bytes, path));
}

/* ---- reading ---- */

/* Weights that sum to 1. */
static void take_weights(cst_reader *r, const char *what, size_t count, double *out) {
    size_t at = r->at;
    double sum = 0;
    cst_state_numbers(r, what, DBL_MIN, 1, count, out);
    for (size_t i = 0; i < count; i++)
        sum += out[i];
    if (!(sum > 1 - 1e-6 && sum < 1 + 1e-6))
        cst_reader_refuse(r, at, "%ss sum to %g instead of 1", what, sum);
}

static void take_newton(cst_reader *r, cst_newton *n) {
    size_t size = (size_t)n->size;
    n->since = cst_reader_int(r, "labels since the last solution", 0, n->period - 1);
    for (size_t i = 0; i < size; i++)
        cst_state_numbers(r, "curvature", -SUM_MAX, SUM_MAX, i + 1, n->curvature + i * size);
    cst_state_numbers(r, "pull", -SUM_MAX, SUM_MAX, size, n->pull);
    cst_state_numbers(r, "parameter", -CST_NEWTON_MAX, CST_NEWTON_MAX, size, n->shift);
}

static void take_waiting(cst_reader *r, cst_adapter *a) {
    size_t width = cst_online_width(a);
    int64_t count = cst_state_count(r, "the number of rows that wait", a->capacity);
    int64_t least = a->next > a->capacity ? a->next - a->capacity : 0;
    for (int64_t i = 0; r->status == CST_OK && i < count; i++) {
        size_t at = r->at;
        int64_t ticket = cst_state_count(r, "a ticket", INT64_MAX);
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
    sets->rows = cst_state_count(r, "the number of sets", a->labelled);
    sets->missed = cst_state_count(r, "the number of misses", a->labelled);
    a->set_size = cst_state_count(r, "the size of all sets", (int64_t)COUNT_MAX);
    sets->count = cst_reader_int(r, "the number of scores", 0, CST_ACI_WINDOW);
    sets->next = cst_reader_int(r, "the place of a score", 0, CST_ACI_WINDOW);
    cst_state_numbers(r, "a score", 0, 1, (size_t)sets->count, sets->scores);
    if (r->status == CST_OK && !cst_aci_restore(sets))
        cst_reader_refuse(r, at, "these are no prediction sets of %" PRId64 " labels", a->labelled);
}

static void take_state(cst_reader *r, cst_adapter *a) {
    a->next = cst_state_count(r, "the number of rows", (int64_t)COUNT_MAX);
    a->labelled = cst_state_count(r, "the number of labels", a->next);
    a->dropped = cst_state_count(r, "the number of dropped rows", a->next);
    for (int i = 0; i < CST_ONLINE_SCORED; i++)
        a->errors[i] = cst_state_count(r, "the number of errors", a->labelled);
    cst_state_numbers(r, "a loss", 0, COUNT_MAX, 1, &a->adapter_loss);
    cst_state_numbers(r, "a loss", 0, COUNT_MAX, (size_t)a->experts, a->loss);
    take_weights(r, "weight", CST_ONLINE_MIXED, a->mixture);
    take_weights(r, "weight", (size_t)a->experts, a->share);
    for (int i = 0; i < CST_ONLINE_NEWTONS; i++)
        take_newton(r, &a->newton[i]);
    take_newton(r, &a->average);
    take_sets(r, a);
    take_waiting(r, a);
    cst_state_end(r);
}

static cst_status decode(cst_state_source *source, const cst_model *model, cst_adapter **out) {
    cst_reader *r = &source->reader;
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
    int64_t capacity = cst_state_count(r, "the number of rows kept", CAPACITY_MAX);
    if (r->status == CST_OK && capacity == 0)
        cst_reader_refuse(r, r->at - 8, "no rows are kept");
    cst_adapter *made = NULL;
    cst_status status = r->status;
    CST_THEN(cst_online_make(r->context, model, (const char *const *)names, members, capacity, 0.5,
                             &made));
    if (status == CST_OK)
        status = cst_state_check_model(source, made->model_hash);
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
    if (!out || !model || !path)
        return cst_fail(context, CST_ERROR_ARGUMENT,
                        "cst_adapter_load: model, path and the result are required");
    if (model->task != CST_TASK_CLASSIFICATION)
        return cst_fail(context, CST_ERROR_UNSUPPORTED, "online adaptation is not supported for %s",
                        cst_task_name(model->task));
    cst_state_source source = {0};
    cst_status status = cst_state_open(context, &KIND, path, &source);
    CST_THEN(decode(&source, model, out));
    cst_state_close(context, &source);
    return cst_why(context, status);
}
