/* Reading, checking and rounding the numbers of checkpoints. */
#include "weights/checkpoints.h"

#include "data/readers/npy.h"

#include <math.h>
#include <string.h>

cst_status cst_weights_read(cst_context *context, const cst_safetensors *file, int64_t tensor,
                            int64_t first, int64_t count, unsigned char *raw, double *out) {
    cst_npy element;
    if (!cst_dtype_element(cst_safetensors_dtype(file, tensor), &element))
        return cst_fail(context, CST_ERROR_INTERNAL, "a tensor that cannot be averaged is read");
    int64_t item = (int64_t)element.item;
    CST_TRY(cst_safetensors_read(context, file, tensor, first * item, count * item, raw));
    cst_npy_decode_f64(&element, raw, (size_t)count, out);
    return CST_OK;
}

/* The least magnitude that a dtype rounds to infinity. */
static double beyond(cst_dtype dtype) {
    switch (dtype) {
    case CST_DTYPE_F16:
        return 65520;
    case CST_DTYPE_BF16:
        return 0x1.ffp127;
    case CST_DTYPE_F32:
        return 0x1.ffffffp127;
    default:
        return INFINITY;
    }
}

int64_t cst_weights_bad(const double *values, int64_t count, cst_dtype dtype) {
    double limit = beyond(dtype);
    int64_t good = 0; /* a loop without an exit can be vectorised */
    for (int64_t i = 0; i < count; i++)
        good += fabs(values[i]) < limit;
    for (int64_t i = 0; good < count && i < count; i++)
        if (!(fabs(values[i]) < limit))
            return i;
    return -1;
}

cst_status cst_weights_blame(cst_context *context, const cst_checkpoints *checkpoints,
                             int64_t place, int64_t first, int64_t count, unsigned char *raw,
                             double *values) {
    char quoted[CST_QUOTE_CHARS];
    for (int32_t k = 0; k < checkpoints->count; k++) {
        CST_TRY(cst_weights_read(context, checkpoints->files[k],
                                 cst_checkpoints_tensor(checkpoints, k, place), first, count, raw,
                                 values));
        int64_t at = cst_weights_bad(values, count, CST_DTYPE_F64);
        if (at >= 0)
            return cst_fail(context, CST_ERROR_INPUT,
                            "%s: tensor '%s': element %lld is %s; a network that diverged cannot "
                            "be averaged, so leave the file out",
                            cst_checkpoints_path(checkpoints, k),
                            cst_quote(quoted, cst_checkpoints_name(checkpoints, place)),
                            (long long)(first + at),
                            isnan(values[at]) ? "not a number" : "infinite");
    }
    return CST_OK;
}

/* Rounds to odd, so that rounding again to fewer bits is right. */
static float round_to_odd(double value) {
    float near = (float)value;
    uint32_t bits = 0;
    if (isnan(value) || (double)near == value)
        return near;
    memcpy(&bits, &near, sizeof bits);
    if (fabs((double)near) > fabs(value))
        bits--; /* towards zero */
    bits |= 1;
    memcpy(&near, &bits, sizeof near);
    return near;
}

static uint16_t bfloat_of(double value) {
    float narrow = round_to_odd(value);
    uint32_t bits = 0;
    memcpy(&bits, &narrow, sizeof bits);
    if ((bits & 0x7fffffffU) > 0x7f800000U) /* NaN */
        return (uint16_t)(bits >> 16 | 0x40U);
    return (uint16_t)((bits + 0x7fffU + (bits >> 16 & 1U)) >> 16);
}

static void put(unsigned char *to, uint64_t bits, int bytes) {
    for (int b = 0; b < bytes; b++)
        to[b] = (unsigned char)(bits >> (8 * b));
}

static uint32_t bits_f32(double value) {
    float narrow = (float)value;
    uint32_t bits = 0;
    memcpy(&bits, &narrow, sizeof bits);
    return bits;
}

static uint64_t bits_f64(double value) {
    uint64_t bits = 0;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

void cst_weights_store(cst_dtype dtype, const double *values, int64_t count, unsigned char *raw) {
    for (int64_t i = 0; i < count && dtype == CST_DTYPE_F16; i++)
        put(raw + 2 * i, cst_half_of(round_to_odd(values[i])), 2);
    for (int64_t i = 0; i < count && dtype == CST_DTYPE_BF16; i++)
        put(raw + 2 * i, bfloat_of(values[i]), 2);
    for (int64_t i = 0; i < count && dtype == CST_DTYPE_F32; i++)
        put(raw + 4 * i, bits_f32(values[i]), 4);
    for (int64_t i = 0; i < count && dtype == CST_DTYPE_F64; i++)
        put(raw + 8 * i, bits_f64(values[i]), 8);
}

enum { STRIP = 1 << 18 };

typedef struct strip {
    int64_t tensor, first, count;
} strip;

typedef struct loop {
    const strip *strips;
    int64_t chunk;
    cst_strips_fn function;
    void *user;
    /* Scratch is allocated once for each thread: with memory of its own for every task, a fifth of
     * an average's time goes into new pages. */
    size_t doubles;
    int threads;
    int *lent;       /* [threads]: whether a task has the block; changed atomically */
    double **blocks; /* [threads] */
} loop;

static cst_status run_strip(cst_context *worker, void *user, int64_t task) {
    loop *l = user;
    const strip *s = &l->strips[task];
    int which = 0; /* no more tasks run at a time than there are blocks, so one is free */
    while (__atomic_exchange_n(&l->lent[which], 1, __ATOMIC_ACQUIRE))
        which = which + 1 < l->threads ? which + 1 : 0;
    if (!l->blocks[which])
        l->blocks[which] = cst_alloc(worker, l->doubles, sizeof **l->blocks);
    cst_status status = l->blocks[which] ? CST_OK : CST_ERROR_MEMORY;
    for (int64_t at = 0; status == CST_OK && at < s->count; at += l->chunk) {
        int64_t part = s->count - at < l->chunk ? s->count - at : l->chunk;
        status = l->function(worker, l->user, s->tensor, s->first + at, part, l->blocks[which]);
    }
    __atomic_store_n(&l->lent[which], 0, __ATOMIC_RELEASE);
    return status;
}

cst_status cst_strips_run(cst_context *context, const int64_t *elements, int64_t tensors,
                          int64_t chunk, size_t doubles, cst_strips_fn function, void *user) {
    int64_t count = 0;
    loop l = {.chunk = chunk,
              .function = function,
              .user = user,
              .doubles = doubles,
              .threads = cst_context_threads(context)};
    CST_SCOPE(scope);
    for (int64_t t = 0; t < tensors; t++)
        count += elements[t] / STRIP + (elements[t] % STRIP != 0);
    CST_NEW(context, scope, strip, strips, count);
    CST_TAKE(context, scope, l.lent, l.threads);
    CST_TAKE(context, scope, l.blocks, l.threads);
    l.strips = strips;
    for (int64_t t = 0; t < tensors; t++)
        for (int64_t first = 0; first < elements[t]; first += STRIP) {
            int64_t left = elements[t] - first;
            *strips++ = (strip){t, first, left < STRIP ? left : STRIP};
        }
    cst_status status = cst_parallel_for(context, count, run_strip, &l);
    for (int i = 0; i < l.threads; i++)
        cst_free(context, l.blocks[i]);
    return status;
}
