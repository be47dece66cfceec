/*
 * Weighted sums of checkpoints in one pass: strips of tensors are summed in parallel while those
 * before them are written. Behind soups and running averages. Paper: Related Work (weight-space
 * fusion).
 */
#include "weights/mix.h"
#include "weights/lent.h"

#include <float.h>
#include <math.h>
#include <string.h>

/* A strip is what a task sums, a wave what is written at a time: WAVE_BYTES are held twice. Within
 * a strip CHUNK elements are in hand, so that they stay in the processor's cache. Results do not
 * depend on these. */
enum { CHUNK = 1 << 14, STRIP_BYTES = 1 << 19, WAVE_BYTES = 1 << 23, WAVE_STRIPS = 64 };

typedef struct strip {
    int64_t place; /* of the tensor among all, by name: its number in the writer too */
    int64_t first; /* element */
    int64_t count;
    size_t at; /* byte in the wave */
} strip;

typedef struct wave {
    int count;
    size_t used;
    unsigned char *bytes; /* [WAVE_BYTES], or all there is to write */
    strip strips[WAVE_STRIPS];
} wave;

typedef struct mixing {
    const cst_checkpoints *checkpoints;
    cst_safetensors_writer *writer;
    const double *weights; /* [count] or [count][mixed] */
    cst_mix_scope scope;
    double divisor; /* of the sum; 1 but where weights count checkpoints */
    int64_t place;  /* of the file that is written: where the next strip begins */
    int64_t first;
    wave *summed; /* its strips are computed */
    wave *full;   /* and of this one written; NULL: none yet */
    cst_lender lender;
} mixing;

/* Scratch of a task, parts of a block that was lent to it. */
typedef struct scratch {
    unsigned char *raw; /* [CHUNK * 8] */
    double *anchor;     /* [CHUNK] */
    double *value;      /* [CHUNK] */
    double *sum;        /* [CHUNK] */
    double *weights;    /* [count]: of the tensor */
    double divisor;     /* of the sum */
} scratch;

/* ---- sums ---- */

/* The weights of a tensor; returns what their sum is divided by. Equal shares of all files that
 * take part are ones over their number, so that a mean is an exact sum that is divided once: with
 * shares that are rounded themselves, what lies midway between two numbers of a dtype would not. */
static double weights_of(const mixing *m, int64_t place, double *out) {
    const cst_checkpoints *c = m->checkpoints;
    int32_t used = 0;
    for (int32_t k = 0; k < c->count; k++) {
        out[k] = !m->weights                  ? 1.0 / (double)c->count
                 : m->scope == CST_MIX_TENSOR ? m->weights[k * c->mixed_count + c->mixed[place]]
                                              : m->weights[k];
        used += out[k] != 0;
    }
    for (int32_t k = 0; k < c->count; k++)
        if (m->divisor != 1 || (out[k] != 0 && out[k] != 1.0 / (double)used))
            return m->divisor;
    for (int32_t k = 0; k < c->count; k++)
        out[k] = out[k] != 0;
    return used > 0 ? (double)used : 1;
}

static void add_f32(const unsigned char *raw, double weight, double *sum, int64_t count) {
    for (int64_t i = 0; i < count; i++) {
        float value = 0;
        memcpy(&value, raw + (size_t)i * sizeof value, sizeof value);
        sum[i] += weight * (double)value;
    }
}

/* What a file adds to a sum that starts at its weights times the anchor: weight * (value - anchor),
 * also where the difference is beyond the largest number; of zeros their sign. */
static double beside(double weight, double value, double anchor) {
    double step = value - anchor;
    if (step == 0)
        return value == 0 ? weight * value : 0;
    return fabs(step) <= DBL_MAX ? weight * step : weight * value - weight * anchor;
}

/* Adds weight * (value - anchor) for elements of a file; anchor NULL: 0. */
static cst_status add_file(cst_context *worker, const cst_checkpoints *c, int32_t file,
                           int64_t place, int64_t first, int64_t count, double weight,
                           const double *anchor, const scratch *s) {
    int64_t tensor = cst_checkpoints_tensor(c, file, place);
    if (!anchor && cst_safetensors_dtype(c->files[file], tensor) == CST_DTYPE_F32 &&
        __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__) {
        cst_status status =
            cst_safetensors_read(worker, c->files[file], tensor, first * 4, count * 4, s->raw);
        if (status == CST_OK)
            add_f32(s->raw, weight, s->sum, count);
        return status;
    }
    cst_status status = cst_weights_read(worker, c, file, place, first, count, s->raw, s->value);
    if (status != CST_OK)
        return status;
    if (anchor)
        for (int64_t i = 0; i < count; i++)
            s->sum[i] += beside(weight, s->value[i], anchor[i]);
    else
        for (int64_t i = 0; i < count; i++)
            s->sum[i] += weight * s->value[i];
    return CST_OK;
}

/* A power of two divides as its inverse multiplies, and faster. */
static void divide(double *sum, int64_t count, double divisor) {
    int exponent = 0;
    if (divisor == 1)
        return;
    if (frexp(divisor, &exponent) == 0.5) {
        double inverse = 1 / divisor;
        for (int64_t i = 0; i < count; i++)
            sum[i] *= inverse;
        return;
    }
    for (int64_t i = 0; i < count; i++)
        sum[i] /= divisor;
}

/* The sum in double precision, divided. Where the result is double too, it is anchor * (sum of
 * weights) + sum of weight * (value - anchor), the anchor being the file of the largest weight:
 * equal values give that value to the last bit, whatever the weights that sum to 1, and extremes do
 * not overflow on the way. Narrower types need none of it. */
static cst_status sum_files(cst_context *worker, const mixing *m, int64_t place, int64_t first,
                            int64_t count, bool wide, const scratch *s) {
    const cst_checkpoints *c = m->checkpoints;
    int32_t largest = 0;
    double whole = 0;
    for (int32_t k = 0; k < c->count; k++) {
        whole += s->weights[k];
        largest = fabs(s->weights[k]) > fabs(s->weights[largest]) ? k : largest;
    }
    whole /= s->divisor;
    whole = fabs(whole - 1) <= 1e-12 ? 1 : whole; /* as far as weights that should sum to 1 do */
    double nothing = s->weights[largest] != 0 ? -0.0 : 0; /* of which -0 + -0 makes -0 */
    cst_status status = CST_OK;
    if (wide)
        status = cst_weights_read(worker, c, largest, place, first, count, s->raw, s->anchor);
    for (int64_t i = 0; status == CST_OK && i < count; i++)
        s->sum[i] = wide ? whole * s->anchor[i] : nothing;
    for (int32_t k = 0; status == CST_OK && k < c->count; k++)
        if (s->weights[k] != 0 && !(wide && k == largest))
            status = add_file(worker, c, k, place, first, count,
                              wide ? s->weights[k] / s->divisor : s->weights[k],
                              wide ? s->anchor : NULL, s);
    if (status == CST_OK && !wide)
        divide(s->sum, count, s->divisor);
    return status;
}

static cst_status sum_chunk(cst_context *worker, const mixing *m, int64_t place, int64_t first,
                            int64_t count, const scratch *s, unsigned char *out) {
    const cst_checkpoints *c = m->checkpoints;
    cst_dtype dtype = cst_safetensors_dtype(c->files[0], cst_checkpoints_tensor(c, 0, place));
    char quoted[CST_QUOTE_CHARS];
    cst_status status = sum_files(worker, m, place, first, count, dtype == CST_DTYPE_F64, s);
    int64_t bad = status == CST_OK ? cst_weights_bad(s->sum, count, dtype) : -1;
    if (bad >= 0) {
        status = cst_weights_blame(worker, c, s->weights, place, first, count, s->raw, s->value);
        CST_TRY(cst_fail(worker, CST_ERROR_NUMERIC,
                         "tensor '%s': the weighted sum of element %lld exceeds the range of %s; "
                         "use smaller weights that sum to 1%s",
                         cst_quote(quoted, cst_checkpoints_name(c, place)),
                         (long long)(first + bad), cst_dtype_name(dtype),
                         dtype == CST_DTYPE_F64 ? "" : ", or a wider dtype"));
    }
    if (status == CST_OK)
        cst_dtype_store_f64(dtype, s->sum, count, out);
    return status;
}

static cst_status sum_strip(cst_context *worker, mixing *m, const strip *p, unsigned char *out) {
    const cst_checkpoints *c = m->checkpoints;
    int64_t tensor = cst_checkpoints_tensor(c, 0, p->place);
    int64_t item = cst_dtype_bits(cst_safetensors_dtype(c->files[0], tensor)) / 8;
    if (c->mixed[p->place] < 0)
        return cst_safetensors_read(worker, c->files[0], tensor, p->first * item, p->count * item,
                                    out);
    int lent = 0;
    double *block = cst_lend(worker, &m->lender, &lent);
    if (!block)
        return CST_ERROR_MEMORY;
    scratch s = {.raw = (unsigned char *)block,
                 .anchor = block + CHUNK,
                 .value = block + 2 * CHUNK,
                 .sum = block + 3 * CHUNK,
                 .weights = block + 4 * CHUNK};
    s.divisor = weights_of(m, p->place, s.weights);
    cst_status status = CST_OK;
    for (int64_t at = 0; status == CST_OK && at < p->count; at += CHUNK) {
        int64_t part = p->count - at < CHUNK ? p->count - at : CHUNK;
        status = sum_chunk(worker, m, p->place, p->first + at, part, &s, out + at * item);
    }
    cst_lent_back(&m->lender, lent);
    return status;
}

/* ---- waves ---- */

/* The next strips, in the order in which they are written. */
static void plan(mixing *m, wave *w) {
    const cst_checkpoints *c = m->checkpoints;
    w->count = 0;
    w->used = 0;
    while (w->count < WAVE_STRIPS && w->used < WAVE_BYTES) {
        int64_t place = cst_safetensors_writer_at(m->writer, m->place);
        if (place < 0)
            return;
        int64_t tensor = cst_checkpoints_tensor(c, 0, place);
        int64_t left = cst_safetensors_elements(c->files[0], tensor) - m->first;
        int64_t item = cst_dtype_bits(cst_safetensors_dtype(c->files[0], tensor)) / 8;
        int64_t room = (int64_t)(WAVE_BYTES - w->used);
        int64_t most = (room < STRIP_BYTES ? room : STRIP_BYTES) / item;
        if (most == 0)
            return;
        strip p = {.place = place, .first = m->first, .at = w->used};
        p.count = left < most ? left : most;
        if (p.count > 0)
            w->strips[w->count++] = p;
        w->used += (size_t)(p.count * item);
        m->first += p.count;
        if (p.count == left) {
            m->place++;
            m->first = 0;
        }
    }
}

static cst_status write_wave(cst_context *worker, const mixing *m) {
    const wave *w = m->full;
    cst_status status = CST_OK;
    for (int i = 0; w && status == CST_OK && i < w->count; i++) {
        size_t end = i + 1 < w->count ? w->strips[i + 1].at : w->used;
        status = cst_safetensors_writer_put(worker, m->writer, w->strips[i].place,
                                            w->bytes + w->strips[i].at,
                                            (int64_t)(end - w->strips[i].at));
    }
    return status;
}

/* Task 0 writes what the round before summed. */
static cst_status run_task(cst_context *worker, void *user, int64_t task) {
    mixing *m = user;
    if (task == 0)
        return write_wave(worker, m);
    const strip *p = &m->summed->strips[task - 1];
    return sum_strip(worker, m, p, m->summed->bytes + p->at);
}

static int64_t bytes_to_write(const cst_checkpoints *c) {
    int64_t bytes = 0;
    for (int64_t t = 0; t < c->total; t++)
        bytes += cst_safetensors_bytes(c->files[0], t);
    return bytes;
}

static cst_status run(cst_context *context, mixing *m) {
    wave *waves[2] = {cst_alloc(context, 1, sizeof(wave)), cst_alloc(context, 1, sizeof(wave))};
    int64_t total = bytes_to_write(m->checkpoints);
    size_t room = total < WAVE_BYTES ? (size_t)total : WAVE_BYTES; /* all of a small file */
    cst_status status = waves[0] && waves[1] ? CST_OK : CST_ERROR_MEMORY;
    for (int w = 0; status == CST_OK && w < 2; w++)
        if (!(waves[w]->bytes = cst_alloc(context, room, 1)))
            status = CST_ERROR_MEMORY;
    CST_TRY(
        cst_lender_open(context, &m->lender, 4 * (size_t)CHUNK + (size_t)m->checkpoints->count));
    int64_t done = 0;
    bool more = true;
    for (int turn = 0; status == CST_OK && more; turn = 1 - turn) {
        m->summed = waves[turn];
        plan(m, m->summed);
        status = cst_progress(context, "mixing weights", done, total);
        CST_TRY(cst_parallel_for(context, m->summed->count + 1, run_task, m));
        done += m->full ? (int64_t)m->full->used : 0;
        m->full = m->summed;
        more = m->summed->count > 0;
    }
    for (int w = 0; w < 2; w++) {
        if (waves[w])
            cst_free(context, waves[w]->bytes);
        cst_free(context, waves[w]);
    }
    cst_lender_close(context, &m->lender);
    return status;
}

/* ---- the file ---- */

cst_status cst_weights_metadata(cst_context *context, cst_safetensors_writer *writer,
                                const cst_checkpoints *checkpoints,
                                const cst_weights_entry *entries, size_t count) {
    static const char own[] = "corestack.";
    const cst_safetensors *first = checkpoints->files[0];
    cst_status status = CST_OK;
    for (int64_t i = 0; status == CST_OK && i < cst_safetensors_metadata_count(first); i++) {
        const char *key = cst_safetensors_metadata_key(first, i);
        const char *value = cst_safetensors_metadata_value(first, i);
        bool shared = strncmp(key, own, sizeof own - 1) != 0;
        for (int32_t k = 1; shared && k < checkpoints->count; k++) {
            const char *other = cst_safetensors_metadata(checkpoints->files[k], key);
            shared = other && strcmp(other, value) == 0;
        }
        if (shared)
            status = cst_safetensors_writer_metadata(context, writer, key, value);
    }
    for (size_t e = 0; status == CST_OK && e < count; e++)
        status = cst_safetensors_writer_metadata(context, writer, entries[e].key, entries[e].value);
    return status;
}

/* Declares every tensor under its own name. */
static cst_status declare(cst_context *context, cst_safetensors_writer *writer,
                          const cst_checkpoints *c) {
    cst_status status = CST_OK;
    for (int64_t p = 0; status == CST_OK && p < c->total; p++) {
        int64_t tensor = cst_checkpoints_tensor(c, 0, p);
        int32_t axes = 0;
        const int64_t *shape = cst_safetensors_shape(c->files[0], tensor, &axes);
        status =
            cst_safetensors_writer_add(context, writer, cst_checkpoints_name(c, p),
                                       cst_safetensors_dtype(c->files[0], tensor), shape, axes);
    }
    return status;
}

static cst_status mix(cst_context *context, mixing *m, const cst_weights_entry *entries,
                      size_t count, const char *path, uint64_t hash[2]) {
    cst_hash *made = NULL;
    cst_status status = hash ? cst_hash_create(context, &made) : CST_OK;
    CST_TRY(cst_safetensors_writer_open(context, &m->writer, path, CST_TENSOR_ORDER_SORTED));
    CST_TRY(cst_weights_metadata(context, m->writer, m->checkpoints, entries, count));
    CST_TRY(declare(context, m->writer, m->checkpoints));
    if (status == CST_OK && hash)
        cst_safetensors_writer_hash(m->writer, made);
    CST_TRY(cst_safetensors_writer_start(context, m->writer));
    CST_TRY(run(context, m));
    if (status == CST_OK) {
        status = cst_safetensors_writer_finish(context, m->writer);
        m->writer = NULL;
    }
    if (status == CST_OK && hash)
        cst_hash_digest(made, hash);
    cst_safetensors_writer_abandon(context, m->writer);
    cst_hash_free(context, made);
    return status;
}

cst_status cst_mix_write(cst_context *context, const cst_checkpoints *checkpoints,
                         const double *weights, cst_mix_scope scope,
                         const cst_weights_entry *entries, size_t count, const char *path,
                         uint64_t hash[2]) {
    mixing m = {.checkpoints = checkpoints, .weights = weights, .scope = scope, .divisor = 1};
    return mix(context, &m, entries, count, path, hash);
}

cst_status cst_mix_counts(cst_context *context, const cst_checkpoints *checkpoints,
                          const double *counts, const cst_weights_entry *entries, size_t count,
                          const char *path) {
    mixing m = {.checkpoints = checkpoints, .weights = counts, .scope = CST_MIX_MODEL};
    for (int32_t k = 0; k < checkpoints->count; k++)
        m.divisor += counts[k];
    return mix(context, &m, entries, count, path, NULL);
}

cst_status cst_checkpoints_mix(cst_context *context, const cst_checkpoints *checkpoints,
                               const double *weights, cst_mix_scope scope, const char *path,
                               uint64_t hash[2]) {
    CST_ENTER(context);
    if (!checkpoints || !path || (scope != CST_MIX_MODEL && scope != CST_MIX_TENSOR))
        return cst_fail(context, CST_ERROR_ARGUMENT,
                        "mixing checkpoints: checkpoints, scope and path are required");
    int64_t columns = scope == CST_MIX_TENSOR ? checkpoints->mixed_count : 1;
    CST_FITS(context, checkpoints->count, columns, sizeof *weights);
    for (int64_t i = 0; weights && i < checkpoints->count * columns; i++)
        if (!isfinite(weights[i]))
            return cst_fail(context, CST_ERROR_ARGUMENT,
                            "mixing checkpoints: weight %lld of %lld is not a finite number",
                            (long long)i + 1, (long long)checkpoints->count * columns);
    char files[24];
    (void)cst_snprintf(files, sizeof files, "%d", (int)checkpoints->count);
    const char *kind = scope == CST_MIX_TENSOR ? "mix-per-tensor" : "mix";
    const cst_weights_entry entries[] = {{"corestack.kind", weights ? kind : "mean"},
                                         {"corestack.files", files}};
    return cst_why(context, cst_mix_write(context, checkpoints, weights, scope, entries,
                                          sizeof entries / sizeof *entries, path, hash));
}
