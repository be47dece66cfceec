/* Means of checkpoints in one pass. Paper: Related Work (weight-space fusion). */
#include "weights/swag_model.h"

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
    double *anchor, *value, *sum;
} scratch;

enum { PARTS = 4 };

static void add_f32(const unsigned char *raw, double weight, double *sum, int64_t count) {
    for (int64_t i = 0; i < count; i++) {
        float value = 0;
        memcpy(&value, raw + (size_t)i * sizeof value, sizeof value);
        sum[i] += weight * (double)value;
    }
}

/* weight * (value - anchor), also where the difference overflows. Keeps the sign of zeros. */
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
    for (int64_t i = 0; i < count; i++)
        s->sum[i] = -0.0; /* -0 + -0 is -0 */
    for (int32_t k = 0; k < c->count; k++) {
        int64_t tensor = cst_checkpoints_tensor(c, k, place);
        if (direct) {
            CST_TRY(
                cst_safetensors_read(worker, c->files[k], tensor, first * 4, count * 4, s->raw));
            add_f32(s->raw, m->counts[k], s->sum, count);
            continue;
        }
        CST_TRY(cst_weights_read(worker, c->files[k], tensor, first, count, s->raw, s->value));
        for (int64_t i = 0; i < count; i++)
            s->sum[i] += m->counts[k] * s->value[i];
    }
    for (int64_t i = 0; i < count; i++)
        s->sum[i] /= m->divisor;
    return CST_OK;
}

/* Sums F64 as the file of the largest count plus weighted differences: exact for equal values. */
static cst_status sum_wide(cst_context *worker, const mixing *m, int64_t place, int64_t first,
                           int64_t count, const scratch *s) {
    const cst_checkpoints *c = m->checkpoints;
    int32_t largest = 0;
    for (int32_t k = 0; k < c->count; k++)
        largest = m->counts[k] > m->counts[largest] ? k : largest;
    CST_TRY(cst_weights_read(worker, c->files[largest], cst_checkpoints_tensor(c, largest, place),
                             first, count, s->raw, s->anchor));
    memcpy(s->sum, s->anchor, (size_t)count * sizeof *s->sum);
    for (int32_t k = 0; k < c->count; k++) {
        if (k == largest)
            continue;
        CST_TRY(cst_weights_read(worker, c->files[k], cst_checkpoints_tensor(c, k, place), first,
                                 count, s->raw, s->value));
        double weight = m->counts[k] / m->divisor;
        for (int64_t i = 0; i < count; i++)
            s->sum[i] += beside(weight, s->value[i], s->anchor[i]);
    }
    return CST_OK;
}

static cst_status mix_chunk(cst_context *worker, void *user, int64_t place, int64_t first,
                            int64_t count, double *block) {
    const mixing *m = user;
    const cst_checkpoints *c = m->checkpoints;
    scratch s = {(unsigned char *)block, block + CST_CHUNK, block + 2 * CST_CHUNK,
                 block + 3 * CST_CHUNK};
    cst_dtype dtype = cst_checkpoints_dtype(c, place);
    if (!c->mixed[place])
        return cst_weights_writer_copy(worker, &m->writer, place, c->files[0],
                                       cst_checkpoints_tensor(c, 0, place), first, count, s.raw);
    CST_TRY((dtype == CST_DTYPE_F64 ? sum_wide : sum_narrow)(worker, m, place, first, count, &s));
    if (cst_weights_bad(s.sum, count, dtype) >= 0) {
        CST_TRY(cst_weights_blame(worker, c, place, first, count, s.raw, s.value));
        return cst_fail(worker, CST_ERROR_NUMERIC, "a mean is beyond its dtype");
    }
    return cst_weights_writer_put(worker, &m->writer, place, first, count, s.sum, s.raw);
}

static cst_status mix(cst_context *context, mixing *m, const cst_weights_entry *entries,
                      size_t entry_count, const char *path) {
    const cst_checkpoints *c = m->checkpoints;
    CST_TRY(cst_weights_writer_open(context, &m->writer, path, c->total));
    for (int64_t p = 0; p < c->total; p++)
        (void)cst_weights_writer_add(&m->writer, "", cst_checkpoints_name(c, p),
                                     cst_checkpoints_dtype(c, p), c->files[0],
                                     cst_checkpoints_tensor(c, 0, p), 0);
    CST_TRY(
        cst_weights_writer_start(context, &m->writer, c->files, c->count, entries, entry_count));
    CST_TRY(cst_stage(context, "mixing weights"));
    return cst_strips_run(context, c->elements, c->total, CST_CHUNK, (size_t)PARTS * CST_CHUNK,
                          mix_chunk, m);
}

/* Writes the mean of files; the first stands for `first` checkpoints. entries: further metadata. */
static cst_status mix_write(cst_context *context, const cst_checkpoints *checkpoints, double first,
                            const cst_weights_entry *entries, size_t entry_count,
                            const char *path) {
    mixing m = {.checkpoints = checkpoints};
    CST_SCOPE(scope);
    CST_TAKE(context, scope, m.counts, checkpoints->count);
    for (int32_t k = 0; k < checkpoints->count; k++) {
        m.counts[k] = k == 0 ? first : 1;
        m.divisor += m.counts[k];
    }
    return cst_weights_writer_close(context, &m.writer,
                                    mix(context, &m, entries, entry_count, path));
}

cst_status cst_mix_mean(cst_context *context, const cst_checkpoints *checkpoints,
                        const char *path) {
    char files[24];
    (void)cst_snprintf(files, sizeof files, "%d", (int)checkpoints->count);
    const cst_weights_entry entries[] = {{"corestack.kind", "mean"}, {"corestack.files", files}};
    return mix_write(context, checkpoints, 1, entries, sizeof entries / sizeof *entries, path);
}

/* The files, of which `from` (or NULL) is the first. */
static cst_status average(cst_context *context, const char *const *paths, int32_t count,
                          const char *from, const char *path) {
    cst_checkpoints c;
    int64_t first = 1;
    int32_t before = from ? 1 : 0;
    char text[24];
    CST_SCOPE(scope);
    CST_NEW(context, scope, const char *, all, (size_t)count + 1);
    all[0] = from;
    memcpy(all + before, paths, (size_t)count * sizeof *paths);
    if (count == INT32_MAX)
        return cst_fail(context, CST_ERROR_LIMIT, "too many checkpoints");
    CST_TRY(cst_checkpoints_open(context, scope, &c, all, count + before));
    if (from)
        CST_TRY(cst_swa_count_of(context, c.files[0], &first));
    (void)cst_snprintf(text, sizeof text, "%lld", (long long)c.count - 1 + first);
    const cst_weights_entry entries[] = {{"corestack.kind", "swa"}, {CST_SWA_COUNT, text}};
    return mix_write(context, &c, (double)first, entries, sizeof entries / sizeof *entries, path);
}

cst_status cst_swa_average(cst_context *context, const char *const *paths, int64_t count_given,
                           const char *from, const char *path) {
    CST_ENTER(context);
    CST_COUNT(context, count, count_given);
    if (!paths || count < 1 || !path)
        return cst_fail(
            context, CST_ERROR_ARGUMENT,
            "averaging checkpoints: at least one path, and a path for the average, are required");
    CST_FITS(context, count, 1, sizeof *paths);
    return cst_why(context, average(context, paths, count, from, path));
}
