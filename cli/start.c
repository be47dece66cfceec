/* Before main: OpenBLAS must not have threads of its own, which take 128 MiB each and hang or end
 * the process where there is no room for one. */
#define _GNU_SOURCE /* MAP_ANONYMOUS, setenv, environ */
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
/* Says that the program was started again. */
#define KEPT "CORESTACK_KEPT_OPENBLAS_NUM_THREADS"

static char alone[] = THREADS "1";
static char *owner; /* what the user has in the environment where `alone` is until main */

static char **find(char **environment, const char *start) {
    for (; *environment; environment++)
        if (strncmp(*environment, start, strlen(start)) == 0)
            return environment;
    return NULL;
}

/* A variable that no library reads before main. */
static char **find_idle(char **environment) {
    static const char *const idle[] = {"_=",    "OLDPWD=", "PWD=",     "SHLVL=", "SHELL=",
                                       "TERM=", "USER=",   "LOGNAME=", "HOME=",  "PATH="};
    char **place = NULL;
    for (size_t i = 0; !place && i < sizeof idle / sizeof *idle; i++)
        place = find(environment, idle[i]);
    return place;
}

/* Whether the dynamic linker was started with the program's path: the kernel's notes behind the
 * environment then give 0 for the linker's place. */
static bool is_run_by_linker(char *const *environment, size_t count) {
    uintptr_t notes[2];
    const char *at = (const char *)(environment + count + 1);
    for (;; at += sizeof notes) {
        memcpy(notes, at, sizeof notes);
        if (notes[0] == AT_NULL || notes[0] == AT_BASE)
            return notes[0] == AT_NULL || notes[1] == 0;
    }
}

/* Whether /proc/self/exe is another file than named, as in valgrind and emulators. */
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

/* Starts the program again with the variable, if that can be. */
static void start_again(char **argv, char **environment) {
    static const char kept[] = KEPT "=";
    size_t count = 0;
    while (environment[count])
        count++;
    if (find(environment, kept) || is_run_by_linker(environment, count) || is_emulated())
        return;
    size_t pointers = (count + 3) * sizeof(char *);
    size_t bytes = pointers + sizeof kept;
    char **changed = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (changed == MAP_FAILED)
        return;
    char *note = (char *)changed + pointers;
    memcpy(note, kept, sizeof kept);
    memcpy(changed, environment, count * sizeof(char *));
    changed[count] = alone;
    changed[count + 1] = note;
    (void)execve(SELF, argv, changed);
    (void)munmap(changed, bytes);
}

/* Sets the variable before libc is ready, without environment, memory or streams of libc: another
 * variable's place is lent to it until main. */
static void set_one_thread(int argc, char **argv, char **environment) {
    (void)argc;
    char **place = find(environment, THREADS);
    if (!place)
        place = find_idle(environment);
    if (!place) {
        start_again(argv, environment);
        return;
    }
    owner = *place;
    *place = alone;
}

__attribute__((section(".preinit_array"),
               used)) static void (*const first)(int, char **, char **) = set_one_thread;

void cli_restore_environment(void) {
    for (char **at = environ; owner && at && *at; at++)
        if (*at == alone)
            *at = owner;
    if (!getenv(KEPT))
        return;
    (void)unsetenv("OPENBLAS_NUM_THREADS");
    (void)unsetenv(KEPT);
#ifdef __linux__
    (void)prctl(PR_SET_NAME, "corestack"); /* a list of processes would have "exe" */
#endif
}
