/* Tensors are cut into strips, one task each. Results must not depend on the cuts. */
#include "weights/strips.h"

enum { STRIP = 1 << 18 };

typedef struct strip {
    int64_t tensor;
    int64_t first;
    int64_t count;
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

static strip *cut(cst_context *context, const int64_t *elements, int64_t tensors, int64_t *count) {
    int64_t strips = 0;
    for (int64_t t = 0; t < tensors; t++)
        strips += elements[t] / STRIP + (elements[t] % STRIP != 0);
    strip *out = cst_alloc(context, (size_t)strips, sizeof *out);
    *count = 0;
    for (int64_t t = 0; out && t < tensors; t++)
        for (int64_t first = 0; first < elements[t]; first += STRIP) {
            int64_t left = elements[t] - first;
            out[(*count)++] = (strip){t, first, left < STRIP ? left : STRIP};
        }
    return out;
}

cst_status cst_strips_run(cst_context *context, const int64_t *elements, int64_t tensors,
                          int64_t chunk, size_t doubles, cst_strips_fn function, void *user) {
    int64_t count = 0;
    strip *strips = cut(context, elements, tensors, &count);
    loop l = {.strips = strips,
              .chunk = chunk,
              .function = function,
              .user = user,
              .doubles = doubles,
              .threads = cst_context_threads(context)};
    l.lent = cst_alloc(context, (size_t)l.threads, sizeof *l.lent);
    l.blocks = cst_alloc(context, (size_t)l.threads, sizeof *l.blocks);
    cst_status status = strips && l.lent && l.blocks ? CST_OK : CST_ERROR_MEMORY;
    CST_THEN(cst_parallel_for(context, count, run_strip, &l));
    for (int i = 0; l.blocks && i < l.threads; i++)
        cst_free(context, l.blocks[i]);
    cst_free(context, l.blocks);
    cst_free(context, l.lent);
    cst_free(context, strips);
    return status;
}
