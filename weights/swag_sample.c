/*
 * Drawing networks from SWAG's distribution: each strip of the model is read once for several
 * samples. After the fit. Paper: Related Work (weight-space fusion); Maddox et al. 2019.
 */
#include "io/output_folder.h"
#include "weights/lent.h"
#include "weights/strips.h"
#include "weights/swag_model.h"

#include <math.h>
#include <string.h>

/* Samples drawn in one pass over the model, each an open file; bytes of deviations in hand, beyond
 * which chunks become shorter. */
enum { TOGETHER = 16, COLUMN_BYTES = 1 << 23, CHUNK_MIN = 256, SAMPLES_MAX = 100000 };

typedef struct drawing {
    const cst_swag *swag;
    uint64_t seed;
    double scale;
    double root;    /* of the scale */
    int64_t rank;   /* columns that take part, the last ones */
    double *column; /* [samples together][rank]: z2 / sqrt(rank - 1) */
    int64_t chunk;
    int32_t first; /* sample of this pass */
    int32_t count;
    cst_safetensors_writer *writers[TOGETHER];
    const cst_strip *strips;
    cst_lender lender;
} drawing;

typedef struct scratch {
    unsigned char *raw;
    double *mean;
    double *spread;     /* standard deviations */
    double *deviations; /* [rank][chunk] */
    double *draw;
    double *value;
} scratch;

/* ---- draws ---- */

/* Standard normal numbers first..first+count-1 of a stream: each block of the generator gives two,
 * by Box and Muller's transform. */
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

/* Elements [count] of a tensor of the model, checked: finite, and not below `least`. */
static cst_status read_part(cst_context *worker, const cst_swag *swag, int64_t tensor,
                            int64_t first, int64_t count, double least, unsigned char *raw,
                            double *out) {
    char quoted[CST_QUOTE_CHARS];
    cst_npy element;
    if (!cst_dtype_element(cst_safetensors_dtype(swag->file, tensor), &element))
        return cst_fail(worker, CST_ERROR_INTERNAL, "a tensor without numbers is read");
    int64_t item = (int64_t)element.item;
    cst_status status =
        cst_safetensors_read(worker, swag->file, tensor, first * item, count * item, raw);
    if (status != CST_OK)
        return status;
    cst_npy_decode_f64(&element, raw, (size_t)count, out);
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
    cst_status status =
        read_part(worker, d->swag, t->mean, first, count, -INFINITY, s->raw, s->mean);
    CST_TRY(read_part(worker, d->swag, t->variance, first, count, 0, s->raw, s->spread));
    for (int64_t i = 0; status == CST_OK && i < count; i++)
        s->spread[i] = sqrt(s->spread[i]);
    for (int64_t r = 0; status == CST_OK && r < d->rank; r++)
        status = read_part(worker, d->swag, t->deviation,
                           (d->swag->rank - d->rank + r) * t->elements + first, count, -INFINITY,
                           s->raw, s->deviations + r * d->chunk);
    return status;
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
    int64_t item = cst_dtype_bits(dtype) / 8;
    cst_dtype_store_f64(dtype, s->value, count, s->raw);
    return cst_safetensors_writer_put_at(worker, d->writers[sample], t - d->swag->tensors,
                                         first * item, s->raw, count * item);
}

static cst_status copy_chunk(cst_context *worker, const drawing *d, const cst_swag_tensor *t,
                             int64_t first, int64_t count, unsigned char *raw) {
    int64_t item = cst_dtype_bits(cst_safetensors_dtype(d->swag->file, t->mean)) / 8;
    cst_status status =
        cst_safetensors_read(worker, d->swag->file, t->mean, first * item, count * item, raw);
    for (int32_t k = 0; status == CST_OK && k < d->count; k++)
        status = cst_safetensors_writer_put_at(worker, d->writers[k], t - d->swag->tensors,
                                               first * item, raw, count * item);
    return status;
}

static cst_status draw_strip(cst_context *worker, void *user, int64_t task) {
    drawing *d = user;
    const cst_strip *strip = &d->strips[task];
    const cst_swag_tensor *t = &d->swag->tensors[strip->tensor];
    int lent = 0;
    double *block = cst_lend(worker, &d->lender, &lent);
    if (!block)
        return CST_ERROR_MEMORY;
    scratch s = {.raw = (unsigned char *)block,
                 .mean = block + d->chunk,
                 .spread = block + 2 * d->chunk,
                 .draw = block + 3 * d->chunk,
                 .value = block + 4 * d->chunk,
                 .deviations = block + 5 * d->chunk};
    cst_status status = CST_OK;
    for (int64_t at = 0; status == CST_OK && at < strip->count; at += d->chunk) {
        int64_t part = strip->count - at < d->chunk ? strip->count - at : d->chunk;
        if (t->variance < 0) {
            status = copy_chunk(worker, d, t, strip->first + at, part, s.raw);
            continue;
        }
        status = read_chunk(worker, d, t, strip->first + at, part, &s);
        for (int32_t k = 0; status == CST_OK && k < d->count; k++)
            status = draw_chunk(worker, d, t, k, strip->first + at, part, &s);
    }
    cst_lent_back(&d->lender, lent);
    return status;
}

/* ---- files ---- */

static cst_status declare(cst_context *context, const drawing *d, cst_safetensors_writer *writer,
                          int32_t sample) {
    static const char own[] = "corestack.";
    const cst_safetensors *file = d->swag->file;
    cst_status status = CST_OK;
    for (int64_t i = 0; status == CST_OK && i < cst_safetensors_metadata_count(file); i++) {
        const char *key = cst_safetensors_metadata_key(file, i);
        if (strncmp(key, own, sizeof own - 1) != 0)
            status = cst_safetensors_writer_metadata(context, writer, key,
                                                     cst_safetensors_metadata_value(file, i));
    }
    char texts[3][40];
    (void)cst_snprintf(texts[0], sizeof texts[0], "%d", (int)sample);
    (void)cst_snprintf(texts[1], sizeof texts[1], "%llu", (unsigned long long)d->seed);
    (void)cst_snprintf(texts[2], sizeof texts[2], "%.17g", d->scale);
    const cst_weights_entry entries[] = {{"corestack.kind", "swag-sample"},
                                         {"corestack.swag.sample", texts[0]},
                                         {"corestack.swag.seed", texts[1]},
                                         {"corestack.swag.scale", texts[2]}};
    for (size_t e = 0; status == CST_OK && e < sizeof entries / sizeof *entries; e++)
        status = cst_safetensors_writer_metadata(context, writer, entries[e].key, entries[e].value);
    for (int64_t t = 0; status == CST_OK && t < d->swag->count; t++) {
        const cst_swag_tensor *tensor = &d->swag->tensors[t];
        int32_t axes = 0;
        const int64_t *shape = cst_safetensors_shape(file, tensor->mean, &axes);
        status = cst_safetensors_writer_add(context, writer, tensor->name,
                                            cst_safetensors_dtype(file, tensor->mean), shape, axes);
    }
    return status;
}

/* Starts the files of a pass. digits: of the numbers in their names. */
static cst_status begin(cst_context *context, drawing *d, const cst_output_folder *folder,
                        int digits) {
    cst_status status = CST_OK;
    for (int32_t k = 0; status == CST_OK && k < d->count; k++) {
        char name[32];
        char *path = NULL;
        (void)cst_snprintf(name, sizeof name, "sample_%0*d", digits, (int)(d->first + k));
        status = cst_output_folder_file(context, folder, name, ".safetensors", &path);
        CST_TRY(
            cst_safetensors_writer_open(context, &d->writers[k], path, CST_TENSOR_ORDER_SORTED));
        cst_free(context, path);
        CST_TRY(declare(context, d, d->writers[k], d->first + k));
        CST_TRY(cst_safetensors_writer_start(context, d->writers[k]));
        CST_TRY(cst_safetensors_writer_scatter(context, d->writers[k]));
    }
    return status;
}

/* The numbers that a sample's columns are weighed with. */
static void draw_columns(drawing *d) {
    for (int32_t k = 0; k < d->count; k++) {
        cst_rng rng;
        cst_rng_init(&rng, d->seed, CST_STREAM_SWAG_RANK, (uint32_t)(d->first + k));
        for (int64_t r = 0; r < d->rank; r++)
            d->column[k * d->rank + r] = cst_rng_normal(&rng) / sqrt((double)d->rank - 1);
    }
}

static cst_status draw_pass(cst_context *context, drawing *d, const cst_output_folder *folder,
                            int digits, int64_t strips) {
    draw_columns(d);
    cst_status status = begin(context, d, folder, digits);
    CST_TRY(cst_parallel_for(context, strips, draw_strip, d));
    for (int32_t k = 0; k < d->count; k++) {
        if (status == CST_OK)
            status = cst_safetensors_writer_finish(context, d->writers[k]);
        else
            cst_safetensors_writer_abandon(context, d->writers[k]);
        d->writers[k] = NULL;
    }
    return status;
}

static cst_status draw_all(cst_context *context, drawing *d, int32_t samples,
                           const cst_output_folder *folder) {
    cst_strip *strips = NULL;
    int64_t count = 0;
    int digits = 2;
    for (int32_t last = (samples - 1) / 100; last > 0; last /= 10)
        digits++;
    int64_t *elements = cst_alloc(context, (size_t)d->swag->count, sizeof *elements);
    d->column = cst_alloc(context, TOGETHER, (size_t)d->rank * sizeof *d->column);
    cst_status status = elements && d->column ? CST_OK : CST_ERROR_MEMORY;
    for (int64_t t = 0; status == CST_OK && t < d->swag->count; t++)
        elements[t] = d->swag->tensors[t].elements;
    CST_TRY(cst_strips_plan(context, elements, d->swag->count, &strips, &count));
    CST_TRY(cst_lender_open(context, &d->lender, (size_t)(d->chunk * (5 + d->rank))));
    d->strips = strips;
    for (; status == CST_OK && d->first < samples; d->first += d->count) {
        d->count = samples - d->first < TOGETHER ? samples - d->first : TOGETHER;
        status = cst_stage(context, "drawing samples");
        CST_TRY(draw_pass(context, d, folder, digits, count));
    }
    cst_lender_close(context, &d->lender);
    cst_free(context, elements);
    cst_free(context, d->column);
    cst_free(context, strips);
    return status;
}

static cst_status sample(cst_context *context, const cst_swag *swag, int32_t samples, double scale,
                         uint64_t seed, int32_t rank, const char *folder) {
    drawing d = {.swag = swag, .seed = seed, .scale = scale, .root = sqrt(scale)};
    d.rank = rank < 0 ? swag->rank : rank;
    if (d.rank > swag->rank)
        return cst_fail(context, CST_ERROR_ARGUMENT,
                        "drawing from %s: %d columns of deviations were requested, but it has "
                        "%lld; fit it with a larger rank",
                        cst_bytes_name(swag->file->source), (int)rank, (long long)swag->rank);
    int64_t fits = COLUMN_BYTES / (int64_t)sizeof(double) / (d.rank > 0 ? d.rank : 1);
    d.chunk = fits > CST_CHUNK ? CST_CHUNK : fits < CHUNK_MIN ? CHUNK_MIN : fits;
    cst_output_folder *out = NULL;
    cst_status status = cst_output_folder_open(context, &out, folder);
    CST_TRY(draw_all(context, &d, samples, out));
    if (status == CST_OK) {
        status = cst_output_folder_commit(context, out);
        out = NULL;
    }
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
    cst_swag swag;
    cst_status status = cst_swag_open(context, &swag, model);
    if (status == CST_OK) {
        status = sample(context, &swag, samples, scale, seed, rank, folder);
        cst_swag_close(context, &swag);
    }
    return cst_why(context, status);
}
