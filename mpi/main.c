/*
 * corestack-mpi: the command-line tool on several ranks, `mpirun -n 8 corestack-mpi fit POOL -o M`.
 * Each rank is two processes: one computes; the other waits for it and says which rank, on which
 * host, was killed, where that rank no longer can. Paper: none.
 */
#include "cli.h"
#include <corestack/mpi.h>

#include <errno.h>
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

static volatile sig_atomic_t computing; /* the process that computes */

static void pass_on(int number) {
    if (computing > 0)
        (void)kill((pid_t)computing, number);
}

/* The rank as the launcher has it in the environment; "?" where it says nothing that is known. */
static const char *launched_rank(void) {
    static const char *const names[] = {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK",
                                        "SLURM_PROCID"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (getenv(names[i]))
            return getenv(names[i]);
    return "?";
}

/* MPICH's launcher ends the other ranks where one asks for it in the words of PMI, and not where one
 * ends with an exit code; that of Open MPI does so for the exit code. */
static int end_all(int code) {
    const char *to = getenv("PMI_FD");
    char line[64];
    int length = snprintf(line, sizeof line, "cmd=abort exitcode=%d\n", code);
    if (to && write(atoi(to), line, (size_t)length) != length)
        return code;
    return code;
}

/* Waits for the process that computes. Its end by a signal is told here. */
static int wait_for(pid_t process) {
    char host[256] = "?";
    int status = 0;
    while (waitpid(process, &status, 0) < 0)
        if (errno != EINTR)
            return CLI_INTERNAL;
    if (WIFEXITED(status))
        return WEXITSTATUS(status);
    int number = WTERMSIG(status);
    if (number == SIGINT || number == SIGTERM || number == SIGHUP)
        return end_all(CLI_INTERNAL);
    (void)gethostname(host, sizeof host - 1);
    (void)fprintf(stderr, "corestack-mpi: rank %s on %s was ended by signal %d (%s)%s\n",
                  launched_rank(), host, number, strsignal(number),
                  number == SIGKILL ? "; if nobody killed it, the machine ran out of memory" : "");
    return end_all(CLI_INTERNAL);
}

/* Returns in the process that computes; the other one ends here. */
static void split_in_two(void) {
    static const int passed[] = {SIGINT, SIGTERM, SIGHUP};
    sigset_t set;
    sigset_t before;
    (void)sigemptyset(&set);
    for (size_t i = 0; i < sizeof passed / sizeof *passed; i++)
        (void)sigaddset(&set, passed[i]);
    (void)sigprocmask(SIG_BLOCK, &set, &before);
    pid_t parent = getpid();
    pid_t process = fork();
    if (process <= 0) {
        (void)sigprocmask(SIG_SETMASK, &before, NULL);
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (process == 0 && getppid() != parent)
            _exit(CLI_INTERNAL);
        return;
    }
    computing = (sig_atomic_t)process;
    struct sigaction action = {.sa_handler = pass_on};
    for (size_t i = 0; i < sizeof passed / sizeof *passed; i++)
        (void)sigaction(passed[i], &action, NULL);
    (void)sigprocmask(SIG_SETMASK, &before, NULL);
    _exit(wait_for(process));
}

static volatile sig_atomic_t finished_with; /* exit code */

static void finish(int number) {
    (void)number;
    _exit((int)finished_with);
}

/* All is done and written. Ranks of MPICH 4.0 over TCP now and then wait for each other for ever
 * in MPI_Finalize, so it gets a few seconds. */
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
    cli_ranks ranks = {0};
    int given = 0;
    split_in_two();
    if (MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &given) != MPI_SUCCESS ||
        cst_mpi_create(&(MPI_Comm){MPI_COMM_WORLD}, &ranks.collectives) != CST_OK) {
        (void)fprintf(stderr, "corestack-mpi: MPI could not be started\n");
        return CLI_INTERNAL;
    }
    int code = cli_main(argc, argv, &ranks);
    cst_mpi_free(&ranks.collectives);
    finalize(code);
    return code;
}
