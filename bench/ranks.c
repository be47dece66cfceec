/*
 * Times the collectives of libcorestack-mpi: what a round of messages costs the ranks. Part of
 * bench/ranks.py; not part of the product.
 *
 *   mpirun -n P bench-ranks SECONDS
 *
 * Rank 0 prints a JSON list of [bytes, seconds of an allreduce, seconds of an allgather of as many
 * bytes in all]. Every size takes about SECONDS.
 */
#include <corestack/mpi.h>

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const size_t SIZES[] = {64, 4096, 32768, 262144, 1048576};
enum { COUNT = sizeof SIZES / sizeof *SIZES, TRIALS = 3, MOST = 20000 };

static void need(int ok, const char *what) {
    if (ok)
        return;
    fprintf(stderr, "bench-ranks: %s\n", what);
    (void)MPI_Abort(MPI_COMM_WORLD, 1);
}

/* As sums are merged: number by number. */
static size_t add(void *user, void *left, size_t left_count, size_t capacity, const void *right,
                  size_t right_count) {
    double *to = left;
    const double *from = right;
    (void)user;
    (void)capacity;
    for (size_t i = 0; i < right_count / sizeof *to; i++)
        to[i] += from[i];
    return left_count;
}

typedef struct round_job {
    cst_collectives calls;
    unsigned char *bytes; /* [size] */
    size_t *counts;       /* [ranks] */
    size_t size;
    int gather;
} round_job;

static double rounds(const round_job *job, int count) {
    double start = MPI_Wtime();
    for (int i = 0; i < count; i++) {
        size_t size = job->size;
        int failed =
            job->gather
                ? job->calls.allgather(job->calls.self,
                                       job->bytes + (size_t)job->calls.rank * job->counts[0],
                                       job->counts[job->calls.rank], job->bytes, job->counts)
                : job->calls.allreduce(job->calls.self, job->bytes, &size, job->size, add, NULL);
        need(!failed, "a round failed");
    }
    return (MPI_Wtime() - start) / count;
}

/* Seconds of a round, the same on every rank. */
static double time_of(round_job *job, size_t size, int gather, double seconds) {
    size_t share = size / (size_t)job->calls.size / sizeof(double) * sizeof(double);
    for (int r = 0; r < job->calls.size; r++)
        job->counts[r] = r + 1 < job->calls.size ? share : size - (size_t)r * share;
    job->size = size;
    job->gather = gather;
    double once = rounds(job, 2);
    double best = 1e9;
    (void)MPI_Allreduce(MPI_IN_PLACE, &once, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    int count = (int)(seconds / TRIALS / once) + 1;
    for (int trial = 0; trial < TRIALS; trial++) {
        double taken = rounds(job, count < MOST ? count : MOST);
        (void)MPI_Allreduce(MPI_IN_PLACE, &taken, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
        best = taken < best ? taken : best;
    }
    return best;
}

int main(int argc, char **argv) {
    round_job job = {.bytes = NULL};
    need(MPI_Init(&argc, &argv) == MPI_SUCCESS, "MPI could not be started");
    double seconds = argc > 1 ? strtod(argv[1], NULL) : 0;
    need(seconds > 0, "usage: bench-ranks SECONDS");
    need(cst_mpi_create(&(MPI_Comm){MPI_COMM_WORLD}, &job.calls) == CST_OK, "no collectives");
    job.bytes = calloc(SIZES[COUNT - 1], 1);
    job.counts = calloc((size_t)job.calls.size, sizeof *job.counts);
    need(job.bytes && job.counts, "memory");
    for (int i = 0; i < COUNT; i++) {
        double reduced = time_of(&job, SIZES[i], 0, seconds);
        double gathered = time_of(&job, SIZES[i], 1, seconds);
        if (job.calls.rank == 0)
            printf("%s[%zu, %.9f, %.9f]", i ? ", " : "[", SIZES[i], reduced, gathered);
    }
    if (job.calls.rank == 0)
        printf("]\n");
    free(job.bytes);
    free(job.counts);
    cst_mpi_free(&job.calls);
    (void)MPI_Finalize();
    return 0;
}
