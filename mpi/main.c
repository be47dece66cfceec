/*
 * corestack-mpi: the command-line tool on several ranks, `mpirun -n 8 corestack-mpi fit POOL -o M`.
 * Each rank is two processes: one computes, the other watches it (watch.h). Paper: none.
 */
#include "cli.h"
#include "watch.h"

#include <corestack/mpi.h>

#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

static volatile sig_atomic_t finished_with; /* exit code */

static void finish(int number) {
    (void)number;
    _exit((int)finished_with);
}

/* All output is written. With MPICH 4.0 over TCP, ranks sometimes wait for each other forever in
 * MPI_Finalize, so it gets a few seconds. */
static void finalize(int code) {
    enum { FINALIZE_SECONDS = 5 };
    struct sigaction action = {.sa_handler = finish};
    finished_with = (sig_atomic_t)code;
    (void)sigaction(SIGALRM, &action, NULL);
    (void)alarm(FINALIZE_SECONDS);
    (void)MPI_Finalize();
    (void)alarm(0);
}

int main(int argc, char **argv) {
    cli_ranks ranks = {.silenced = watch_said};
    int given = 0;
    watch_begin();
    if (MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &given) != MPI_SUCCESS ||
        cst_mpi_create(&(MPI_Comm){MPI_COMM_WORLD}, &ranks.collectives) != CST_OK) {
        (void)fprintf(stderr, "corestack-mpi: MPI could not be started\n");
        return CLI_INTERNAL;
    }
    watch_connect();
    int code = cli_main(argc, argv, &ranks);
    cst_mpi_free(&ranks.collectives);
    finalize(code);
    return code;
}
