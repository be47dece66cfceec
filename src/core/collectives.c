/* The ranks of a context: whether their machines compute alike, the least memory of all, and how
 * long an exchange takes. */
#include <corestack/collectives.h>

#include "core/context.h"
#include "core/la.h"
#include "core/machine.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Checks that ranks agree: else the bytes of results would differ, or ranks would take other turns
 * and wait for each other. */
static cst_status check_alike(cst_context *context) {
    char text[256];
    (void)cst_snprintf(text, sizeof text, "corestack %s, %d bytes a pointer, OpenBLAS for %s",
                       cst_version(), (int)sizeof(void *), cst_la_core());
    return cst_context_same(context, "its version or processor", text);
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

/* ---- what ranks on one machine share ---- */

/* Where a rank runs, and with what. */
typedef struct place {
    char host[256];
    unsigned char cpus[CST_CPU_BYTES];
    int32_t online;
    int32_t bound;
    int32_t cores;
    int32_t threads; /* given; 0: what its share is */
} place;

/* Of the ranks on this rank's machine. */
typedef struct neighbours {
    int count;
    int first;    /* the lowest of them */
    int cores;    /* that they may use together */
    double share; /* of this rank */
    int threads;  /* of all that gave them */
} neighbours;

static neighbours meet(const place *all, int rank, int size) {
    neighbours n = {.first = size};
    const place *own = &all[rank];
    for (int r = 0; r < size; r++)
        if (strcmp(all[r].host, own->host) == 0) {
            n.first = r < n.first ? r : n.first;
            n.threads += all[r].threads;
            n.count++;
        }
    for (int cpu = 0; cpu < 8 * CST_CPU_BYTES; cpu++) {
        int on = 0;
        for (int r = n.first; r < size; r++)
            on += cst_machine_has_cpu(all[r].cpus, cpu) && strcmp(all[r].host, own->host) == 0;
        n.cores += on > 0;
        n.share += cst_machine_has_cpu(own->cpus, cpu) ? 1.0 / on : 0;
    }
    if (n.cores == 0) { /* unknown */
        n.cores = own->bound;
        n.share = (double)n.cores / n.count;
    }
    if (own->cores < own->bound) { /* a quota of time, which they share */
        n.cores = own->cores < n.cores ? own->cores : n.cores;
        n.share = fmin(n.share, (double)own->cores / n.count);
    }
    return n;
}

/* Says what makes ranks slow. To the log alone: results and documents are the same without. */
static void tell_of_places(cst_context *context, const place *own, const neighbours *n) {
    bool open_mpi = getenv("OMPI_COMM_WORLD_LOCAL_SIZE") != NULL;
    bool narrow = own->threads > own->bound ||
                  (open_mpi && own->bound == 1 && !own->threads && n->cores < own->online);
    const char *host = *own->host ? own->host : "this machine";
    if (n->count > n->cores)
        cst_log(
            context, CST_LOG_WARNING,
            "%d ranks share %d core%s of %s and wait for each other: start at most %d there, or, "
            "with Open MPI, give mpirun --mca mpi_yield_when_idle 1",
            n->count, n->cores, n->cores == 1 ? "" : "s", host, n->cores);
    else if (narrow && own->bound < own->online)
        cst_log(
            context, CST_LOG_WARNING,
            "each rank on %s may use %d of the %d cores%s: Open MPI binds up to two ranks to one "
            "core each; start mpirun with --bind-to none, or --map-by and the cores of a rank",
            host, own->bound, own->online, own->threads ? ", and has more threads" : "");
    else if (n->threads > n->cores)
        cst_log(
            context, CST_LOG_WARNING,
            "the %d rank%s on %s %s %d threads together, but only %d core%s: give fewer --threads",
            n->count, n->count == 1 ? "" : "s", host, n->count == 1 ? "has" : "have", n->threads,
            n->cores, n->cores == 1 ? "" : "s");
}

/* Ranks of one machine divide its cores and its memory. */
static cst_status take_share(cst_context *context) {
    const cst_collectives *calls = &context->ranks.calls;
    cst_machine machine;
    void *all = NULL;
    size_t bytes = 0;
    place own = {.threads = context->threads_given ? context->threads : 0};
    cst_machine_look(&machine);
    (void)cst_snprintf(own.host, sizeof own.host, "%s", calls->host ? calls->host : "");
    memcpy(own.cpus, machine.cpus, sizeof own.cpus);
    own.online = machine.online;
    own.bound = machine.bound;
    own.cores = machine.cores;
    CST_TRY(cst_ranks_gather(context, CST_OK, &own, sizeof own, &all, &bytes));
    if (calls->host) {
        neighbours n = meet(all, calls->rank, calls->size);
        cst_context_may_use(context, n.share < 1 ? 1 : (int)(n.share + 1e-9),
                            machine.memory / (size_t)n.count);
        if (n.first == calls->rank)
            tell_of_places(context, &own, &n);
    }
    cst_free(context, all);
    return CST_OK;
}

/* Values that must be the same on all ranks, because they decide how work is divided. */
typedef struct limits {
    uint64_t memory;
    double latency;
} limits;

/* The least memory and the longest latency of all ranks. */
static cst_status take_worst(cst_context *context) {
    void *all = NULL;
    size_t bytes = 0;
    const limits own = {cst_context_memory(context), measure_latency(context)};
    cst_status status = cst_ranks_gather(context, CST_OK, &own, sizeof own, &all, &bytes);
    for (size_t at = 0; status == CST_OK && at < bytes; at += sizeof own) {
        limits other;
        memcpy(&other, (const unsigned char *)all + at, sizeof other);
        if (other.memory < context->memory)
            context->memory = (size_t)other.memory;
        context->ranks.latency = fmax(context->ranks.latency, other.latency);
    }
    cst_free(context, all);
    return status;
}

cst_status cst_context_set_collectives(cst_context *context,
                                       const cst_collectives *collectives_given) {
    CST_ENTER(context);
    CST_STRUCT(context, cst_collectives, collectives, collectives_given);
    if (context->ranks.calls.size > 0) { /* no share any more */
        cst_machine machine;
        cst_machine_look(&machine);
        cst_context_may_use(context, machine.cores, machine.memory);
    }
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
    CST_THEN(take_share(context));
    CST_THEN(take_worst(context));
    if (status != CST_OK)
        cst_ranks_clear(context);
    return status;
}
