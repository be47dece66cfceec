/* Means of checkpoints in one pass. Paper: Related Work (weight-space fusion). */
#include "weights/mix.h"

#include "weights/numbers.h"
#include "weights/strips.h"

#include <float.h>
#include <math.h>
#include <string.h>

typedef struct mixing {
    const cst_checkpoints *checkpoints;
    cst_weights_writer writer;
    double *counts; /* [count] */
    double divisor; /* their sum */
} mixing;

/* Parts of a thread's scratch, CST_CHUNK doubles each. */
typedef struct scratch {
    unsigned char *raw;
    double *anchor;
    double *value;
    double *sum;
} scratch;

enum { PARTS = 4 };

static void add_f32(const unsigned char *raw, double weight, double *sum, int64_t count) {
    for (int64_t i = 0; i < count; i++) {
        float value = 0;
        memcpy(&value, raw + (size_t)i * sizeof value, sizeof value);
        sum[i] += weight * (double)value;
    }
}

/* Returns weight * (value - anchor), also if the difference exceeds the largest number. Keeps the
 * sign of zeros. */
static double beside(double weight, double value, double anchor) {
    double step = value - anchor;
    if (step == 0)
        return value == 0 ? weight * value : 0;
    return fabs(step) <= DBL_MAX ? weight * step : weight * value - weight * anchor;
}

/* Sums F32, F16 and BF16 in double precision and divides once: an exact mean, rounded once. */
static cst_status sum_narrow(cst_context *worker, const mixing *m, int64_t place, int64_t first,
                             int64_t count, const scratch *s) {
    const cst_checkpoints *c = m->checkpoints;
    bool direct = cst_checkpoints_dtype(c, place) == CST_DTYPE_F32 &&
                  __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__;
    cst_status status = CST_OK;
    for (int64_t i = 0; i < count; i++)
        s->sum[i] = -0.0; /* -0 + -0 is -0 */
    for (int32_t k = 0; status == CST_OK && k < c->count; k++) {
        int64_t tensor = cst_checkpoints_tensor(c, k, place);
        if (direct) {
            status =
                cst_safetensors_read(worker, c->files[k], tensor, first * 4, count * 4, s->raw);
            if (status == CST_OK)
                add_f32(s->raw, m->counts[k], s->sum, count);
            continue;
        }
        status = cst_weights_read(worker, c->files[k], tensor, first, count, s->raw, s->value);
        for (int64_t i = 0; status == CST_OK && i < count; i++)
            s->sum[i] += m->counts[k] * s->value[i];
    }
    for (int64_t i = 0; status == CST_OK && i < count; i++)
        s->sum[i] /= m->divisor;
    return status;
}

/* Sums F64 as an anchor, the file of the largest count, plus the weighted differences from it:
 * equal values give that value to the last bit, and extremes do not overflow on the way. */
static cst_status sum_wide(cst_context *worker, const mixing *m, int64_t place, int64_t first,
                           int64_t count, const scratch *s) {
    const cst_checkpoints *c = m->checkpoints;
    int32_t largest = 0;
    for (int32_t k = 0; k < c->count; k++)
        largest = m->counts[k] > m->counts[largest] ? k : largest;
    cst_status status =
        cst_weights_read(worker, c->files[largest], cst_checkpoints_tensor(c, largest, place),
                         first, count, s->raw, s->anchor);
    if (status == CST_OK)
        memcpy(s->sum, s->anchor, (size_t)count * sizeof *s->sum);
    for (int32_t k = 0; status == CST_OK && k < c->count; k++) {
        if (k == largest)
            continue;
        status = cst_weights_read(worker, c->files[k], cst_checkpoints_tensor(c, k, place), first,
                                  count, s->raw, s->value);
        double weight = m->counts[k] / m->divisor;
        for (int64_t i = 0; status == CST_OK && i < count; i++)
            s->sum[i] += beside(weight, s->value[i], s->anchor[i]);
    }
    return status;
}

static cst_status mix_chunk(cst_context *worker, void *user, int64_t place, int64_t first,
                            int64_t count, double *block) {
    const mixing *m = user;
    const cst_checkpoints *c = m->checkpoints;
    scratch s = {(unsigned char *)block, block + CST_CHUNK, block + 2 * CST_CHUNK,
                 block + 3 * CST_CHUNK};
    cst_dtype dtype = cst_checkpoints_dtype(c, place);
    int64_t item = cst_dtype_bits(dtype) / 8;
    cst_status status = !c->mixed[place]         ? cst_safetensors_read(worker, c->files[0],
                                                                        cst_checkpoints_tensor(c, 0, place),
                                                                        first * item, count * item, s.raw)
                        : dtype == CST_DTYPE_F64 ? sum_wide(worker, m, place, first, count, &s)
                                                 : sum_narrow(worker, m, place, first, count, &s);
    if (status != CST_OK)
        return status;
    if (c->mixed[place]) {
        if (cst_weights_bad(s.sum, count, dtype) >= 0) {
            status = cst_weights_blame(worker, c, place, first, count, s.raw, s.value);
            CST_THEN(cst_fail(worker, CST_ERROR_NUMERIC, "a mean is beyond its dtype"));
        }
        cst_weights_store(dtype, s.sum, count, s.raw);
    }
    CST_THEN(cst_weights_writer_put(worker, &m->writer, place, first * item, s.raw, count * item));
    return status;
}

static cst_status begin(cst_context *context, mixing *m, const cst_weights_entry *entries,
                        size_t entry_count, const char *path) {
    const cst_checkpoints *c = m->checkpoints;
    cst_status status = cst_weights_writer_open(context, &m->writer, path, c->total);
    for (int64_t p = 0; status == CST_OK && p < c->total; p++) {
        cst_weights_tensor t = {
            .prefix = "", .name = cst_checkpoints_name(c, p), .dtype = cst_checkpoints_dtype(c, p)};
        t.shape = cst_safetensors_shape(c->files[0], cst_checkpoints_tensor(c, 0, p), &t.axes);
        (void)cst_weights_writer_add(&m->writer, &t);
    }
    CST_THEN(
        cst_weights_writer_start(context, &m->writer, c->files, c->count, entries, entry_count));
    return status;
}

cst_status cst_mix_write(cst_context *context, const cst_checkpoints *checkpoints,
                         const double *counts, const cst_weights_entry *entries, size_t entry_count,
                         const char *path) {
    mixing m = {.checkpoints = checkpoints};
    m.counts = cst_alloc(context, (size_t)checkpoints->count, sizeof *m.counts);
    if (!m.counts)
        return CST_ERROR_MEMORY;
    for (int32_t k = 0; k < checkpoints->count; k++) {
        m.counts[k] = counts ? counts[k] : 1;
        m.divisor += m.counts[k];
    }
    cst_status status = begin(context, &m, entries, entry_count, path);
    CST_THEN(cst_stage(context, "mixing weights"));
    CST_THEN(cst_strips_run(context, checkpoints->elements, checkpoints->total, CST_CHUNK,
                            (size_t)PARTS * CST_CHUNK, mix_chunk, &m));
    status = cst_weights_writer_close(context, &m.writer, status);
    cst_free(context, m.counts);
    return status;
}

cst_status cst_mix_mean(cst_context *context, const cst_checkpoints *checkpoints,
                        const char *path) {
    char files[24];
    (void)cst_snprintf(files, sizeof files, "%d", (int)checkpoints->count);
    const cst_weights_entry entries[] = {{"corestack.kind", "mean"}, {"corestack.files", files}};
    return cst_mix_write(context, checkpoints, NULL, entries, sizeof entries / sizeof *entries,
                         path);
}
