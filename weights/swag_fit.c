/*
 * Fitting SWAG: mean, variance and last deviations of every parameter over a training run's
 * checkpoints, in one pass and a piece of a tensor at a time. Paper: Related Work (weight-space
 * fusion); Maddox et al. 2019, Algorithm 1.
 */
#include "weights/lent.h"
#include "weights/strips.h"
#include "weights/swag_model.h"

#include <math.h>

typedef struct fitting {
    const cst_checkpoints *checkpoints;
    cst_safetensors_writer *writer;
    int32_t rank;     /* columns that are kept */
    int64_t *outputs; /* [total][3]: the writer's tensors of mean (or copy), variance, deviation */
    const cst_strip *strips;
    cst_lender lender;
} fitting;

enum { MEAN = 0, VARIANCE = 1, DEVIATION = 2, PARTS = 3 };

typedef struct scratch {
    unsigned char *raw; /* [CST_CHUNK * 8] */
    double *value;      /* [CST_CHUNK] */
    double *mean;
    double *square; /* sum of squared distances from the running mean */
} scratch;

/* ---- statistics ---- */

/* Numbers [count] into elements first.. of a tensor of the output. */
static cst_status put(cst_context *worker, const fitting *f, int64_t tensor, cst_dtype dtype,
                      int64_t first, const double *values, int64_t count, unsigned char *raw) {
    int64_t item = cst_dtype_bits(dtype) / 8;
    cst_dtype_store_f64(dtype, values, count, raw);
    return cst_safetensors_writer_put_at(worker, f->writer, tensor, first * item, raw,
                                         count * item);
}

/* What goes to element `at` of a part of the file: elements first, ... of a tensor. */
typedef struct piece {
    int part;
    cst_dtype dtype;
    int64_t first;
    int64_t at;
    const double *values; /* [count] */
    int64_t count;
} piece;

/* Checks the values of a piece and puts them into its tensor. */
static cst_status put_checked(cst_context *worker, const fitting *f, int64_t place, const piece *p,
                              scratch *s) {
    static const char *const names[PARTS] = {"mean", "variance", "deviation"};
    char quoted[CST_QUOTE_CHARS];
    int64_t bad = cst_weights_bad(p->values, p->count, p->dtype);
    if (bad < 0)
        return put(worker, f, f->outputs[place * PARTS + p->part], p->dtype, p->at, p->values,
                   p->count, s->raw);
    cst_status status = cst_weights_blame(worker, f->checkpoints, NULL, place, p->first, p->count,
                                          s->raw, s->value);
    if (status != CST_OK)
        return status;
    return cst_fail(
        worker, CST_ERROR_INPUT,
        "tensor '%s': the %s of element %lld exceeds the range of %s, in which it is stored: the "
        "checkpoints are too far apart; leave out those of a run that diverged",
        cst_quote(quoted, cst_checkpoints_name(f->checkpoints, place)), names[p->part],
        (long long)(p->first + bad), cst_dtype_name(p->dtype));
}

/* Takes checkpoint `number` (0 first) into mean and squares, by Welford's updates; leaves its
 * deviation from the new mean in value. */
static void update(scratch *s, int32_t number, int64_t count) {
    double share = 1 / ((double)number + 1);
    for (int64_t i = 0; i < count; i++) {
        double before = s->value[i] - s->mean[i];
        s->mean[i] += before * share;
        double after = s->value[i] - s->mean[i];
        s->square[i] += before * after;
        s->value[i] = after;
    }
}

static cst_status fit_chunk(cst_context *worker, const fitting *f, int64_t place, int64_t first,
                            int64_t count, scratch *s) {
    const cst_checkpoints *c = f->checkpoints;
    int64_t tensor = cst_checkpoints_tensor(c, 0, place);
    int64_t elements = cst_safetensors_elements(c->files[0], tensor);
    cst_status status = CST_OK;
    for (int64_t i = 0; i < count; i++)
        s->mean[i] = s->square[i] = 0;
    for (int32_t k = 0; status == CST_OK && k < c->count; k++) {
        status = cst_weights_read(worker, c, k, place, first, count, s->raw, s->value);
        if (status != CST_OK)
            return status;
        update(s, k, count);
        int64_t column = (int64_t)k - (c->count - f->rank);
        if (column < 0)
            continue;
        status = put_checked(
            worker, f, place,
            &(piece){DEVIATION, CST_DTYPE_F32, first, column * elements + first, s->value, count},
            s);
    }
    for (int64_t i = 0; i < count; i++) {
        double variance = s->square[i] / (double)c->count;
        bool little = variance < CST_SWAG_VARIANCE_MIN && variance > -INFINITY;
        s->square[i] = little ? CST_SWAG_VARIANCE_MIN : variance; /* -inf: differences overflowed */
    }
    if (status == CST_OK) /* first: where it is beyond, the mean may be too */
        status = put_checked(worker, f, place,
                             &(piece){VARIANCE, CST_DTYPE_F32, first, first, s->square, count}, s);
    CST_TRY(put_checked(
        worker, f, place,
        &(piece){MEAN, cst_safetensors_dtype(c->files[0], tensor), first, first, s->mean, count},
        s));
    return status;
}

/* Elements of the first file as they are. */
static cst_status copy_chunk(cst_context *worker, const fitting *f, int64_t place, int64_t first,
                             int64_t count, unsigned char *raw) {
    const cst_safetensors *file = f->checkpoints->files[0];
    int64_t tensor = cst_checkpoints_tensor(f->checkpoints, 0, place);
    int64_t item = cst_dtype_bits(cst_safetensors_dtype(file, tensor)) / 8;
    cst_status status = cst_safetensors_read(worker, file, tensor, first * item, count * item, raw);
    if (status != CST_OK)
        return status;
    return cst_safetensors_writer_put_at(worker, f->writer, f->outputs[place * PARTS + MEAN],
                                         first * item, raw, count * item);
}

static cst_status fit_strip(cst_context *worker, void *user, int64_t task) {
    fitting *f = user;
    const cst_strip *strip = &f->strips[task];
    int lent = 0;
    double *block = cst_lend(worker, &f->lender, &lent);
    if (!block)
        return CST_ERROR_MEMORY;
    scratch s = {.raw = (unsigned char *)block,
                 .value = block + CST_CHUNK,
                 .mean = block + 2 * CST_CHUNK,
                 .square = block + 3 * CST_CHUNK};
    cst_status status = CST_OK;
    for (int64_t at = 0; status == CST_OK && at < strip->count; at += CST_CHUNK) {
        int64_t part = strip->count - at < CST_CHUNK ? strip->count - at : CST_CHUNK;
        if (f->checkpoints->mixed[strip->tensor] >= 0)
            status = fit_chunk(worker, f, strip->tensor, strip->first + at, part, &s);
        else
            status = copy_chunk(worker, f, strip->tensor, strip->first + at, part, s.raw);
    }
    cst_lent_back(&f->lender, lent);
    return status;
}

/* ---- the file ---- */

/* Declares PREFIX + NAME, with the shape of the tensor behind `rank` (0: no further axis). */
static cst_status declare(cst_context *context, fitting *f, const char *prefix, int64_t place,
                          cst_dtype dtype, int32_t rank, int64_t *number) {
    const cst_checkpoints *c = f->checkpoints;
    int64_t lengths[CST_TENSOR_AXES + 1] = {rank};
    int32_t axes = 0;
    int32_t more = rank > 0 ? 1 : 0;
    const int64_t *shape =
        cst_safetensors_shape(c->files[0], cst_checkpoints_tensor(c, 0, place), &axes);
    for (int32_t a = 0; a < axes; a++)
        lengths[a + more] = shape[a];
    char *name = cst_format(context, "%s%s", prefix, cst_checkpoints_name(c, place));
    *number = f->writer->count;
    cst_status status =
        name ? cst_safetensors_writer_add(context, f->writer, name, dtype, lengths, axes + more)
             : CST_ERROR_MEMORY;
    cst_free(context, name);
    return status;
}

static cst_status declare_all(cst_context *context, fitting *f) {
    const cst_checkpoints *c = f->checkpoints;
    f->outputs = cst_alloc(context, (size_t)c->total, PARTS * sizeof *f->outputs);
    cst_status status = f->outputs ? CST_OK : CST_ERROR_MEMORY;
    for (int64_t p = 0; status == CST_OK && p < c->total; p++) {
        int64_t *number = f->outputs + p * PARTS;
        cst_dtype dtype = cst_safetensors_dtype(c->files[0], cst_checkpoints_tensor(c, 0, p));
        bool mixed = c->mixed[p] >= 0;
        status = declare(context, f, mixed ? CST_SWAG_MEAN : CST_SWAG_COPIED, p, dtype, 0,
                         &number[MEAN]);
        if (status == CST_OK && mixed)
            status = declare(context, f, CST_SWAG_VARIANCE, p, CST_DTYPE_F32, 0, &number[VARIANCE]);
        if (status == CST_OK && mixed && f->rank > 0)
            status = declare(context, f, CST_SWAG_DEVIATION, p, CST_DTYPE_F32, f->rank,
                             &number[DEVIATION]);
    }
    return status;
}

static cst_status begin(cst_context *context, fitting *f, const char *path) {
    char count[24];
    char rank[24];
    (void)cst_snprintf(count, sizeof count, "%d", (int)f->checkpoints->count);
    (void)cst_snprintf(rank, sizeof rank, "%d", (int)f->rank);
    const cst_weights_entry entries[] = {{"corestack.kind", "swag"},
                                         {CST_SWAG_VERSION, "1"},
                                         {CST_SWAG_COUNT, count},
                                         {CST_SWAG_RANK, rank}};
    cst_status status =
        cst_safetensors_writer_open(context, &f->writer, path, CST_TENSOR_ORDER_SORTED);
    CST_TRY(cst_weights_metadata(context, f->writer, f->checkpoints, entries,
                                 sizeof entries / sizeof *entries));
    CST_TRY(declare_all(context, f));
    CST_TRY(cst_safetensors_writer_start(context, f->writer));
    return status == CST_OK ? cst_safetensors_writer_scatter(context, f->writer) : status;
}

static cst_status fit(cst_context *context, const cst_checkpoints *c, int32_t rank,
                      const char *path) {
    fitting f = {.checkpoints = c, .rank = rank < c->count ? rank : c->count};
    cst_strip *strips = NULL;
    int64_t count = 0;
    if (rank > c->count)
        cst_notice(context,
                   "a rank of %d needs that many checkpoints: the deviations of all %d are kept",
                   (int)rank, (int)c->count);
    if (f.rank > CST_SWAG_RANK_MAX)
        return cst_fail(
            context, CST_ERROR_LIMIT,
            "a rank of %d exceeds the limit of %d columns of deviations; use a smaller one",
            (int)f.rank, CST_SWAG_RANK_MAX);
    int64_t *elements = cst_alloc(context, (size_t)c->total, sizeof *elements);
    cst_status status = elements ? CST_OK : CST_ERROR_MEMORY;
    for (int64_t p = 0; status == CST_OK && p < c->total; p++)
        elements[p] = cst_safetensors_elements(c->files[0], cst_checkpoints_tensor(c, 0, p));
    CST_TRY(cst_strips_plan(context, elements, c->total, &strips, &count));
    CST_TRY(cst_lender_open(context, &f.lender, 4 * (size_t)CST_CHUNK));
    f.strips = strips;
    CST_TRY(begin(context, &f, path));
    CST_TRY(cst_stage(context, "fitting SWAG"));
    CST_TRY(cst_parallel_for(context, count, fit_strip, &f));
    if (status == CST_OK) {
        status = cst_safetensors_writer_finish(context, f.writer);
        f.writer = NULL;
    }
    cst_safetensors_writer_abandon(context, f.writer);
    cst_lender_close(context, &f.lender);
    cst_free(context, f.outputs);
    cst_free(context, strips);
    cst_free(context, elements);
    return status;
}

cst_status cst_swag_fit(cst_context *context, const char *const *paths, int32_t count, int32_t rank,
                        const char *path) {
    CST_ENTER(context);
    if (!paths || !path)
        return cst_fail(context, CST_ERROR_ARGUMENT,
                        "fitting SWAG: the paths of checkpoints and an output path are required");
    if (count < 2)
        return cst_fail(context, CST_ERROR_ARGUMENT,
                        "fitting SWAG: %d checkpoint%s given; a variance needs at least two",
                        (int)count, count == 1 ? " is" : "s are");
    if (rank < 0 || rank == 1)
        return cst_fail(context, CST_ERROR_ARGUMENT,
                        "fitting SWAG: the rank must be 0 (diagonal only) or at least 2, got %d",
                        (int)rank);
    CST_FITS(context, count, 1, sizeof *paths);
    cst_checkpoints *c = NULL;
    cst_status status = cst_checkpoints_open(context, &c, paths, count);
    CST_TRY(fit(context, c, rank, path));
    cst_checkpoints_close(context, c);
    return cst_why(context, status);
}
