/*
 * Before the libraries start: OpenBLAS must not have threads of its own. They take 128 MiB each at
 * moments of their own; where there is no room for one it waits for ever, also at the end of the
 * process, and where no thread can be created it interrupts the process. Before main. Paper: none.
 */
#define _DEFAULT_SOURCE /* MAP_ANONYMOUS, setenv */
#include "cli.h"

#include <elf.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/prctl.h>
#endif

#define SELF "/proc/self/exe"
#define THREADS "OPENBLAS_NUM_THREADS="
/* What the user had set, for the programs that the tool starts: a value, or nothing. */
#define KEPT "CORESTACK_KEPT_OPENBLAS_NUM_THREADS"

static char *find(char **environment, const char *start) {
    for (; *environment; environment++)
        if (strncmp(*environment, start, strlen(start)) == 0)
            return *environment;
    return NULL;
}

/* Whether the dynamic linker was started with the program's path (ld.so corestack ...). Then
 * /proc/self/exe is the linker. The kernel's own notes follow the environment; it notes where it
 * put the linker of a program, and 0 where it started the linker itself. */
static bool is_run_by_linker(char *const *environment, size_t count) {
    uintptr_t notes[2];
    const char *at = (const char *)(environment + count + 1);
    for (;; at += sizeof notes) {
        memcpy(notes, at, sizeof notes);
        if (notes[0] == AT_NULL || notes[0] == AT_BASE)
            return notes[0] == AT_NULL || notes[1] == 0;
    }
}

/* Whether /proc/self/exe is another file than its name says, as in valgrind and in emulators. What
 * would be started then is not this program. */
static bool is_emulated(void) {
    char path[PATH_MAX];
    struct stat named;
    struct stat running;
    ssize_t length = readlink(SELF, path, sizeof path - 1);
    if (length < 0)
        return true;
    path[length] = '\0';
    return stat(path, &named) == 0 && stat(SELF, &running) == 0 &&
           (named.st_dev != running.st_dev || named.st_ino != running.st_ino);
}

/* OpenBLAS reads the variable before main, so the program is started again with it. This runs
 * before libc is ready and calls nothing that needs the environment, memory or streams of libc.
 * Where the program cannot be started again, as without /proc, it goes on. */
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
    if (is_run_by_linker(environment, count) || is_emulated())
        return;
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
    (void)execve(SELF, argv, changed);
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
