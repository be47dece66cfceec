/* Draws networks from SWAG's distribution, several in one pass over the model. Maddox et al.
 * 2019. */
#include "weights/swag_model.h"

#include <math.h>

/* Samples drawn in one pass, each an open file; bytes of deviations in hand. */
enum { TOGETHER = 16, COLUMN_BYTES = 1 << 23, CHUNK_MIN = 256, SAMPLES_MAX = 100000 };

typedef struct drawing {
    const cst_swag *swag;
    uint64_t seed;
    double scale;
    double root;    /* of the scale */
    int64_t rank;   /* columns that are used, the last ones */
    double *column; /* [TOGETHER][rank]: z2 / sqrt(rank - 1) */
    int64_t chunk;
    int32_t first; /* sample of this pass */
    int32_t count;
    cst_weights_writer writers[TOGETHER];
} drawing;

/* Parts of a thread's scratch, d->chunk doubles each. */
typedef struct scratch {
    unsigned char *raw;
    double *mean;
    double *spread; /* standard deviations */
    double *draw, *value;
    double *deviations; /* [rank][chunk] */
} scratch;

enum { PARTS = 5 };

/* Standard normal numbers first..first+count-1 of a stream, two a block (Box and Muller). */
static void normals(uint64_t seed, uint32_t sample, int64_t first, int64_t count, double *out) {
    cst_rng rng;
    uint64_t block = (uint64_t)first / 2;
    cst_rng_init(&rng, seed, CST_STREAM_SWAG, sample);
    rng.counter[0] = (uint32_t)block;
    rng.counter[1] = (uint32_t)(block >> 32);
    int64_t at = -(first % 2);
    while (at < count) {
        double radius = sqrt(-2 * log(1 - cst_rng_uniform(&rng)));
        double angle = 6.283185307179586476925286766559 * cst_rng_uniform(&rng);
        if (at >= 0)
            out[at] = radius * cos(angle);
        if (at + 1 < count)
            out[at + 1] = radius * sin(angle);
        at += 2;
    }
}

/* Reads elements [count] of a tensor of the model. They must be finite, and at least `least`. */
static cst_status read_part(cst_context *worker, const cst_swag *swag, int64_t tensor,
                            int64_t first, int64_t count, double least, unsigned char *raw,
                            double *out) {
    char quoted[CST_QUOTE_CHARS];
    CST_TRY(cst_weights_read(worker, swag->file, tensor, first, count, raw, out));
    int64_t bad = cst_weights_bad(out, count, CST_DTYPE_F64);
    for (int64_t i = 0; bad < 0 && i < count; i++)
        if (out[i] < least)
            bad = i;
    if (bad >= 0)
        return cst_fail(
            worker, CST_ERROR_FORMAT,
            "%s: not a complete SWAG file: tensor '%s': element %lld is %s; fit it again",
            cst_bytes_name(swag->file->source),
            cst_quote(quoted, cst_safetensors_name(swag->file, tensor)), (long long)(first + bad),
            isfinite(out[bad]) ? "a negative variance" : "not finite");
    return CST_OK;
}

static cst_status read_chunk(cst_context *worker, const drawing *d, const cst_swag_tensor *t,
                             int64_t first, int64_t count, scratch *s) {
    CST_TRY(read_part(worker, d->swag, t->mean, first, count, -INFINITY, s->raw, s->mean));
    CST_TRY(read_part(worker, d->swag, t->variance, first, count, 0, s->raw, s->spread));
    for (int64_t i = 0; i < count; i++)
        s->spread[i] = sqrt(s->spread[i]);
    for (int64_t r = 0; r < d->rank; r++)
        CST_TRY(read_part(worker, d->swag, t->deviation,
                          (d->swag->rank - d->rank + r) * t->elements + first, count, -INFINITY,
                          s->raw, s->deviations + r * d->chunk));
    return CST_OK;
}

/* One sample of a chunk. Tensors have the same numbers in the model's table and in the files. */
static cst_status draw_chunk(cst_context *worker, const drawing *d, const cst_swag_tensor *t,
                             int32_t sample, int64_t first, int64_t count, scratch *s) {
    char quoted[CST_QUOTE_CHARS];
    normals(d->seed, (uint32_t)(d->first + sample), t->base + first, count, s->draw);
    for (int64_t i = 0; i < count; i++)
        s->value[i] = s->spread[i] * s->draw[i];
    for (int64_t r = 0; r < d->rank; r++) {
        double weight = d->column[(int64_t)sample * d->rank + r];
        const double *deviation = s->deviations + r * d->chunk;
        for (int64_t i = 0; i < count; i++)
            s->value[i] += weight * deviation[i];
    }
    for (int64_t i = 0; i < count; i++)
        s->value[i] = s->mean[i] + d->root * s->value[i];
    cst_dtype dtype = cst_safetensors_dtype(d->swag->file, t->mean);
    int64_t bad = cst_weights_bad(s->value, count, dtype);
    if (bad >= 0)
        return cst_fail(
            worker, CST_ERROR_NUMERIC,
            "sample %d: tensor '%s': element %lld exceeds the range of %s; use a smaller scale",
            (int)(d->first + sample), cst_quote(quoted, t->name), (long long)(first + bad),
            cst_dtype_name(dtype));
    return cst_weights_writer_put(worker, &d->writers[sample], t - d->swag->tensors, first, count,
                                  s->value, s->raw);
}

static cst_status run_chunk(cst_context *worker, void *user, int64_t tensor, int64_t first,
                            int64_t count, double *block) {
    const drawing *d = user;
    const cst_swag_tensor *t = &d->swag->tensors[tensor];
    scratch s = {(unsigned char *)block, block + d->chunk,     block + 2 * d->chunk,
                 block + 3 * d->chunk,   block + 4 * d->chunk, block + 5 * d->chunk};
    if (t->variance >= 0)
        CST_TRY(read_chunk(worker, d, t, first, count, &s));
    for (int32_t k = 0; k < d->count; k++)
        CST_TRY(t->variance >= 0
                    ? draw_chunk(worker, d, t, k, first, count, &s)
                    : cst_weights_writer_copy(worker, &d->writers[k], tensor, d->swag->file,
                                              t->mean, first, count, s.raw));
    return CST_OK;
}

static cst_status start(cst_context *context, const drawing *d, cst_weights_writer *writer,
                        int32_t sample) {
    const cst_swag *swag = d->swag;
    char texts[3][40];
    (void)cst_snprintf(texts[0], sizeof texts[0], "%d", (int)sample);
    (void)cst_snprintf(texts[1], sizeof texts[1], "%llu", (unsigned long long)d->seed);
    (void)cst_snprintf(texts[2], sizeof texts[2], "%.17g", d->scale);
    const cst_weights_entry entries[] = {{"corestack.kind", "swag-sample"},
                                         {"corestack.swag.sample", texts[0]},
                                         {"corestack.swag.seed", texts[1]},
                                         {"corestack.swag.scale", texts[2]}};
    for (int64_t i = 0; i < swag->count; i++) {
        const cst_swag_tensor *t = &swag->tensors[i];
        (void)cst_weights_writer_add(writer, "", t->name,
                                     cst_safetensors_dtype(swag->file, t->mean), swag->file,
                                     t->mean, 0);
    }
    return cst_weights_writer_start(context, writer, &swag->file, 1, entries,
                                    sizeof entries / sizeof *entries);
}

/* Starts the files of a pass. digits: of the numbers in their names. */
static cst_status begin(cst_context *context, drawing *d, const cst_output_folder *folder,
                        int digits, char *paths[TOGETHER]) {
    for (int32_t k = 0; k < d->count; k++) {
        char name[32];
        (void)cst_snprintf(name, sizeof name, "sample_%0*d", digits, (int)(d->first + k));
        CST_TRY(cst_output_folder_file(context, folder, name, ".safetensors", &paths[k]));
        CST_TRY(cst_weights_writer_open(context, &d->writers[k], paths[k], d->swag->count));
        CST_TRY(start(context, d, &d->writers[k], d->first + k));
    }
    return CST_OK;
}

static void draw_columns(drawing *d) {
    for (int32_t k = 0; k < d->count; k++) {
        cst_rng rng;
        cst_rng_init(&rng, d->seed, CST_STREAM_SWAG_RANK, (uint32_t)(d->first + k));
        for (int64_t r = 0; r < d->rank; r++)
            d->column[k * d->rank + r] = cst_rng_normal(&rng) / sqrt((double)d->rank - 1);
    }
}

static cst_status draw_pass(cst_context *context, drawing *d, const int64_t *elements,
                            const cst_output_folder *folder, int digits) {
    char *paths[TOGETHER] = {NULL};
    draw_columns(d);
    cst_status status = begin(context, d, folder, digits, paths);
    CST_THEN(cst_stage(context, "drawing samples"));
    CST_THEN(cst_strips_run(context, elements, d->swag->count, d->chunk,
                            (size_t)(d->chunk * (PARTS + d->rank)), run_chunk, d));
    for (int32_t k = 0; k < d->count; k++) {
        status = cst_weights_writer_close(context, &d->writers[k], status);
        cst_free(context, paths[k]);
    }
    return status;
}

static cst_status draw_all(cst_context *context, drawing *d, int32_t samples,
                           const cst_output_folder *folder) {
    int digits = 2;
    for (int32_t last = (samples - 1) / 100; last > 0; last /= 10)
        digits++;
    CST_SCOPE(scope);
    CST_NEW(context, scope, int64_t, elements, d->swag->count);
    CST_TAKE(context, scope, d->column, TOGETHER * d->rank);
    for (int64_t t = 0; t < d->swag->count; t++)
        elements[t] = d->swag->tensors[t].elements;
    for (; d->first < samples; d->first += d->count) {
        d->count = samples - d->first < TOGETHER ? samples - d->first : TOGETHER;
        CST_TRY(draw_pass(context, d, elements, folder, digits));
    }
    return CST_OK;
}

static cst_status sample(cst_context *context, const drawing *asked, int32_t samples,
                         const char *model, const char *folder) {
    cst_swag swag;
    drawing own = *asked;
    drawing *d = &own;
    CST_SCOPE(scope);
    CST_TRY(cst_swag_open(context, scope, &swag, model));
    if (d->rank > swag.rank)
        return cst_fail(context, CST_ERROR_ARGUMENT,
                        "drawing from %s: %lld columns of deviations were requested, but it has "
                        "%lld; fit it with a larger rank",
                        model, (long long)d->rank, (long long)swag.rank);
    d->swag = &swag;
    d->rank = d->rank < 0 ? swag.rank : d->rank;
    int64_t fits = COLUMN_BYTES / (int64_t)sizeof(double) / (d->rank > 0 ? d->rank : 1);
    d->chunk = fits > CST_CHUNK ? CST_CHUNK : fits < CHUNK_MIN ? CHUNK_MIN : fits;
    cst_output_folder *out = NULL;
    CST_TRY(cst_output_folder_open(context, &out, folder));
    cst_status status = draw_all(context, d, samples, out);
    if (status == CST_OK)
        return cst_output_folder_commit(context, out);
    cst_output_folder_abort(context, out);
    return status;
}

cst_status cst_swag_sample(cst_context *context, const char *model, int32_t samples, double scale,
                           uint64_t seed, int32_t rank, const char *folder) {
    CST_ENTER(context);
    if (!model || !folder)
        return cst_fail(context, CST_ERROR_ARGUMENT,
                        "drawing from SWAG: the path of a SWAG file and a folder are required");
    if (samples < 1 || samples > SAMPLES_MAX)
        return cst_fail(context, CST_ERROR_ARGUMENT,
                        "drawing from SWAG: the number of samples must be 1 to %d, got %d",
                        SAMPLES_MAX, (int)samples);
    if (!(scale >= 0) || !isfinite(scale))
        return cst_fail(context, CST_ERROR_ARGUMENT,
                        "drawing from SWAG: the scale must be a non-negative number, got %g",
                        scale);
    if (rank < -1 || rank == 1)
        return cst_fail(context, CST_ERROR_ARGUMENT,
                        "drawing from SWAG: the rank must be 0 (diagonal only), at least 2, or -1 "
                        "(all), got %d",
                        (int)rank);
    drawing d = {.seed = seed, .scale = scale, .root = sqrt(scale), .rank = rank};
    return cst_why(context, sample(context, &d, samples, model, folder));
}
