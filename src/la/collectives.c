/*
 * The ranks of a context: whether their machines compute alike, the least memory of all, and how
 * long an exchange takes. Before any work that is shared.
 */
#include <corestack/collectives.h>

#include "base/context.h"
#include "la/la.h"

#include <math.h>
#include <string.h>

/* What must be the same on every rank: else the bytes of results would differ, or ranks would take
 * other turns and wait for each other. */
static cst_status check_alike(cst_context *context) {
    char *text = cst_format(context, "corestack %s, %d bytes a pointer, OpenBLAS for %s",
                            cst_version(), (int)sizeof(void *), cst_la_core());
    cst_status status = text ? cst_context_same(context, "its version or processor", text)
                             : cst_context_agree(context, CST_ERROR_MEMORY, NULL);
    cst_free(context, text);
    return status;
}

/* The shortest of a few exchanges, because some may include waiting for a late rank. */
static double measure_latency(cst_context *context) {
    enum { TRIALS = 8 };
    double least = INFINITY;
    for (int i = 0; i < TRIALS; i++) {
        double start = cst_seconds();
        if (cst_context_agree(context, CST_OK, NULL) != CST_OK)
            return 0;
        least = fmin(least, cst_seconds() - start);
    }
    return least;
}

/* Values that must be the same on all ranks, because they decide how work is divided. */
typedef struct machine {
    uint64_t memory;
    double latency;
} machine;

/* The least memory and the longest latency of all ranks. */
static cst_status take_worst(cst_context *context) {
    void *all = NULL;
    size_t bytes = 0;
    const machine own = {cst_context_memory(context), measure_latency(context)};
    cst_status status = cst_ranks_gather(context, CST_OK, &own, sizeof own, &all, &bytes);
    for (size_t at = 0; status == CST_OK && at < bytes; at += sizeof own) {
        machine other;
        memcpy(&other, (const unsigned char *)all + at, sizeof other);
        if (other.memory < context->memory)
            context->memory = (size_t)other.memory;
        context->ranks.latency = fmax(context->ranks.latency, other.latency);
    }
    cst_free(context, all);
    return status;
}

cst_status cst_context_set_collectives(cst_context *context, const cst_collectives *collectives) {
    CST_ENTER(context);
    cst_ranks_clear(context);
    if (!collectives)
        return CST_OK;
    if (collectives->size < 1 || collectives->rank < 0 || collectives->rank >= collectives->size ||
        !collectives->allgather)
        return cst_fail(context, CST_ERROR_ARGUMENT,
                        "cst_context_set_collectives: rank %d of %d ranks, or no allgather",
                        collectives->rank, collectives->size);
    context->ranks.calls = *collectives;
    cst_status status = check_alike(context);
    CST_TRY(take_worst(context));
    if (status != CST_OK)
        cst_ranks_clear(context);
    return status;
}
