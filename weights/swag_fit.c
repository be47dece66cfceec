/* Fits SWAG: mean, variance and last deviations of every parameter, in one pass over the
 * checkpoints. Maddox et al. 2019, Algorithm 1. */
#include "weights/swag_model.h"

#include <math.h>

enum { MEAN = 0, VARIANCE = 1, DEVIATION = 2, KINDS = 3 };

typedef struct fitting {
    const cst_checkpoints *checkpoints;
    cst_weights_writer writer;
    int32_t rank; /* deviations that are kept */
    int64_t
        *outputs; /* [total][KINDS]: tensors of the file; a copied one is in the place of MEAN */
} fitting;

/* Parts of a thread's scratch, CST_CHUNK doubles each. */
typedef struct scratch {
    unsigned char *raw;
    double *value, *mean;
    double *square; /* sum of squared distances from the running mean */
} scratch;

enum { PARTS = 4 };

/* Elements first..first+count-1 of a tensor, which go to element `at` of the output. */
typedef struct piece {
    int kind;
    cst_dtype dtype;
    int64_t first, at;
    const double *values; /* [count] */
    int64_t count;
} piece;

static cst_status put(cst_context *worker, const fitting *f, int64_t place, const piece *p,
                      scratch *s) {
    static const char *const names[KINDS] = {"mean", "variance", "deviation"};
    char quoted[CST_QUOTE_CHARS];
    int64_t bad = cst_weights_bad(p->values, p->count, p->dtype);
    if (bad >= 0) {
        CST_TRY(
            cst_weights_blame(worker, f->checkpoints, place, p->first, p->count, s->raw, s->value));
        return cst_fail(
            worker, CST_ERROR_INPUT,
            "tensor '%s': the %s of element %lld exceeds the range of %s, in which it is stored: "
            "the checkpoints are too far apart; leave out those of a run that diverged",
            cst_quote(quoted, cst_checkpoints_name(f->checkpoints, place)), names[p->kind],
            (long long)(p->first + bad), cst_dtype_name(p->dtype));
    }
    return cst_weights_writer_put(worker, &f->writer, f->outputs[place * KINDS + p->kind], p->at,
                                  p->count, p->values, s->raw);
}

/* Adds checkpoint `number` (0 first) by Welford's updates; value becomes its deviation. */
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
    for (int64_t i = 0; i < count; i++)
        s->mean[i] = s->square[i] = 0;
    for (int32_t k = 0; k < c->count; k++) {
        CST_TRY(cst_weights_read(worker, c->files[k], cst_checkpoints_tensor(c, k, place), first,
                                 count, s->raw, s->value));
        update(s, k, count);
        int64_t column = (int64_t)k - (c->count - f->rank);
        piece deviation = {DEVIATION, CST_DTYPE_F32, first, column * c->elements[place] + first,
                           s->value,  count};
        if (column >= 0)
            CST_TRY(put(worker, f, place, &deviation, s));
    }
    for (int64_t i = 0; i < count; i++) {
        double variance = s->square[i] / (double)c->count;
        bool little = variance < CST_SWAG_VARIANCE_MIN && variance > -INFINITY;
        s->square[i] = little ? CST_SWAG_VARIANCE_MIN : variance; /* -inf: differences overflowed */
    }
    piece variance = {VARIANCE, CST_DTYPE_F32, first, first, s->square, count};
    piece mean = {MEAN, cst_checkpoints_dtype(c, place), first, first, s->mean, count};
    CST_TRY(put(worker, f, place, &variance, s)); /* where it is beyond, the mean may be too */
    return put(worker, f, place, &mean, s);
}

static cst_status run_chunk(cst_context *worker, void *user, int64_t place, int64_t first,
                            int64_t count, double *block) {
    const fitting *f = user;
    const cst_checkpoints *c = f->checkpoints;
    scratch s = {(unsigned char *)block, block + CST_CHUNK, block + 2 * CST_CHUNK,
                 block + 3 * CST_CHUNK};
    if (c->mixed[place])
        return fit_chunk(worker, f, place, first, count, &s);
    return cst_weights_writer_copy(worker, &f->writer, f->outputs[place * KINDS + MEAN],
                                   c->files[0], cst_checkpoints_tensor(c, 0, place), first, count,
                                   s.raw);
}

static void declare(fitting *f) {
    const cst_checkpoints *c = f->checkpoints;
    for (int64_t p = 0; p < c->total; p++) {
        int64_t *number = f->outputs + p * KINDS;
        const char *const prefixes[KINDS] = {c->mixed[p] ? CST_SWAG_MEAN : CST_SWAG_COPIED,
                                             CST_SWAG_VARIANCE, CST_SWAG_DEVIATION};
        int kinds = !c->mixed[p] ? 1 : f->rank > 0 ? KINDS : DEVIATION;
        for (int k = 0; k < kinds; k++)
            number[k] = cst_weights_writer_add(
                &f->writer, prefixes[k], cst_checkpoints_name(c, p),
                k == MEAN ? cst_checkpoints_dtype(c, p) : CST_DTYPE_F32, c->files[0],
                cst_checkpoints_tensor(c, 0, p), k == DEVIATION ? f->rank : 0);
    }
}

static cst_status write(cst_context *context, fitting *f, const char *path) {
    const cst_checkpoints *c = f->checkpoints;
    char count[24];
    char rank[24];
    (void)cst_snprintf(count, sizeof count, "%d", (int)c->count);
    (void)cst_snprintf(rank, sizeof rank, "%d", (int)f->rank);
    const cst_weights_entry entries[] = {{"corestack.kind", "swag"},
                                         {CST_SWAG_VERSION, "1"},
                                         {CST_SWAG_COUNT, count},
                                         {CST_SWAG_RANK, rank}};
    CST_SCOPE(scope);
    CST_TAKE(context, scope, f->outputs, c->total * KINDS);
    CST_TRY(cst_weights_writer_open(context, &f->writer, path, KINDS * c->total));
    declare(f);
    CST_TRY(cst_weights_writer_start(context, &f->writer, c->files, c->count, entries,
                                     sizeof entries / sizeof *entries));
    CST_TRY(cst_stage(context, "fitting SWAG"));
    return cst_strips_run(context, c->elements, c->total, CST_CHUNK, (size_t)PARTS * CST_CHUNK,
                          run_chunk, f);
}

static cst_status fit(cst_context *context, const char *const *paths, int32_t count, int32_t rank,
                      const char *path) {
    cst_checkpoints c;
    fitting f = {.checkpoints = &c, .rank = rank < count ? rank : count};
    CST_SCOPE(scope);
    CST_TRY(cst_checkpoints_open(context, scope, &c, paths, count));
    if (rank > count)
        cst_notice(context,
                   "a rank of %d needs that many checkpoints: the deviations of all %d are kept",
                   (int)rank, (int)count);
    if (f.rank > CST_SWAG_RANK_MAX)
        return cst_fail(
            context, CST_ERROR_LIMIT,
            "a rank of %d exceeds the limit of %d columns of deviations; use a smaller one",
            (int)f.rank, CST_SWAG_RANK_MAX);
    return cst_weights_writer_close(context, &f.writer, write(context, &f, path));
}

cst_status cst_swag_fit(cst_context *context, const char *const *paths, int64_t count_given,
                        int32_t rank, const char *path) {
    CST_ENTER(context);
    CST_COUNT(context, count, count_given);
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
    return cst_why(context, fit(context, paths, count, rank, path));
}
