/* corestack-mpi: the tool on several ranks, `mpirun --bind-to none -n 8 corestack-mpi fit POOL -o
 * M`. */
#include "cli.h"

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

/* MPI_Finalize may wait for ranks that never come: it gets a few seconds. */
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
    cst_collectives ranks = {0};
    int given = 0;
    if (MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &given) != MPI_SUCCESS ||
        cst_mpi_create(&(MPI_Comm){MPI_COMM_WORLD}, &ranks) != CST_OK) {
        (void)fprintf(stderr, "corestack-mpi: MPI could not be started\n");
        return CLI_INTERNAL;
    }
    int code = cli_main(argc, argv, &ranks);
    cst_mpi_free(&ranks);
    finalize(code);
    return code;
}
