/*
 * Before the libraries start: OpenBLAS must not have threads of its own. They take 128 MiB each at
 * moments of their own; where there is no room for one it waits for ever, also at the end of the
 * process, and where no thread can be created it interrupts the process. Before main. Paper: none.
 */
#define _DEFAULT_SOURCE /* MAP_ANONYMOUS, setenv */
#include "cli.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/prctl.h>
#endif

#define THREADS "OPENBLAS_NUM_THREADS="
/* What the user had set, for the programs that the tool starts: a value, or nothing. */
#define KEPT "CORESTACK_KEPT_OPENBLAS_NUM_THREADS"

static char *find(char **environment, const char *start) {
    for (; *environment; environment++)
        if (strncmp(*environment, start, strlen(start)) == 0)
            return *environment;
    return NULL;
}

/* OpenBLAS reads the variable before main, so the program is started again with it.
 * This runs before libc is ready and calls nothing that needs
 * the environment, memory or streams of libc. Where the program cannot be started again, as without
 * /proc, it goes on. */
static void start_again(int argc, char **argv, char **environment) {
    static char alone[] = THREADS "1";
    static const char kept[] = KEPT "=";
    (void)argc;
    const char *threads = find(environment, THREADS);
    if (find(environment, kept) || (threads && strcmp(threads, alone) == 0))
        return;
    size_t count = 0;
    while (environment[count])
        count++;
    const char *value = threads ? threads + strlen(THREADS) : "";
    size_t pointers = (count + 3) * sizeof(char *);
    size_t bytes = pointers + sizeof kept + strlen(value);
    char **changed = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (changed == MAP_FAILED)
        return;
    char *note = (char *)changed + pointers;
    memcpy(note, kept, sizeof kept);
    memcpy(note + strlen(kept), value, strlen(value) + 1);
    size_t to = 0;
    for (size_t i = 0; i < count; i++)
        if (environment[i] != threads)
            changed[to++] = environment[i];
    changed[to++] = alone;
    changed[to] = note;
    (void)execve("/proc/self/exe", argv, changed);
    (void)munmap(changed, bytes);
}

__attribute__((section(".preinit_array"), used)) static void (*const first)(int, char **,
                                                                            char **) = start_again;

void cli_restore_environment(void) {
    const char *kept = getenv(KEPT);
    if (!kept)
        return;
    if (*kept)
        (void)setenv("OPENBLAS_NUM_THREADS", kept, 1);
    else
        (void)unsetenv("OPENBLAS_NUM_THREADS");
    (void)unsetenv(KEPT);
#ifdef __linux__
    (void)prctl(PR_SET_NAME, "corestack"); /* a list of processes would have "exe" */
#endif
}
