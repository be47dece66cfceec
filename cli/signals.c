/* Signals: the first asks the command to stop; a late one removes what is not finished, with calls
 * that are safe in a handler, and ends the program. Under every command. */
#define _GNU_SOURCE /* syscall, O_DIRECTORY */
#include "cli.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/syscall.h>
#endif

enum { ENTRIES_BYTES = 8192, TURNS = 8 };

/* Names stay listed until the end of the process. */
typedef struct unfinished {
    struct unfinished *next;
    bool whole_folder; /* made by the run: it goes if nothing is in it */
    size_t folder;     /* length of what stands before the last slash */
    char path[];
} unfinished;

static unfinished *first;

static void note(const char *path, bool whole_folder) {
    size_t size = strlen(path) + 1;
    unfinished *made = malloc(sizeof *made + size);
    if (!made)
        return; /* the run cleans up all the same unless it hangs */
    const char *slash = strrchr(path, '/');
    made->whole_folder = whole_folder;
    made->folder = slash ? (size_t)(slash - path) : 0;
    memcpy(made->path, path, size);
    made->next = first;
    __atomic_store_n(&first, made, __ATOMIC_RELEASE);
}

void cli_unfinished_name(const char *prefix) {
    note(prefix, false);
}

void cli_unfinished_folder(const char *path) {
    note(path, true);
}

#if defined(__linux__) && defined(SYS_getdents64)

/* As the system call gives them; libc's readdir may allocate. */
typedef struct entry {
    uint64_t inode;
    int64_t next;
    unsigned short size;
    unsigned char type;
    char name[];
} entry;

/* Calls `act` on every entry but "." and "..". buffer: aligned, of ENTRIES_BYTES. */
static void each_entry(int folder, char *buffer, const char *prefix, size_t length,
                       void (*act)(int folder, const char *name)) {
    for (;;) {
        long got = syscall(SYS_getdents64, folder, buffer, (size_t)ENTRIES_BYTES);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return;
        for (long at = 0; at < got;) {
            const entry *e = (const entry *)(const void *)(buffer + at);
            at += e->size;
            bool self = strcmp(e->name, ".") == 0 || strcmp(e->name, "..") == 0;
            if (!self && strncmp(e->name, prefix, length) == 0)
                act(folder, e->name);
        }
    }
}

static void remove_file(int folder, const char *name) {
    while (unlinkat(folder, name, 0) != 0 && errno == EINTR) {
    }
}

/* A file, or a folder of files. Other threads may add some meanwhile. */
static void remove_any(int folder, const char *name) {
    static _Alignas(8) char buffer[ENTRIES_BYTES];
    remove_file(folder, name);
    int inside = openat(folder, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (inside < 0)
        return;
    (void)fchmod(inside, S_IRWXU);
    for (int turn = 0; turn < TURNS; turn++) {
        (void)lseek(inside, 0, SEEK_SET);
        each_entry(inside, buffer, "", 0, remove_file);
        if (unlinkat(folder, name, AT_REMOVEDIR) == 0)
            break;
    }
    (void)close(inside);
}

/* All that begins with the name, as the library's temporary files of it do. */
static void remove_named(const unfinished *u) {
    static _Alignas(8) char buffer[ENTRIES_BYTES];
    static char parent[CLI_PATH_CHARS];
    const char *base = strrchr(u->path, '/');
    base = base ? base + 1 : u->path;
    size_t named = base > u->path ? u->folder + 1 : 0; /* with the slash */
    if (named >= sizeof parent)
        return;
    memcpy(parent, named ? u->path : ".", named ? named : 1);
    parent[named ? named : 1] = '\0';
    int folder = open(parent, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder < 0)
        return;
    each_entry(folder, buffer, base, strlen(base), remove_any);
    (void)close(folder);
}

#else

static void remove_named(const unfinished *u) {
    if (unlink(u->path) != 0)
        (void)rmdir(u->path);
}

#endif

static void remove_unfinished(void) {
    const unfinished *all = __atomic_load_n(&first, __ATOMIC_ACQUIRE);
    for (const unfinished *u = all; u; u = u->next)
        if (!u->whole_folder)
            remove_named(u);
    for (const unfinished *u = all; u; u = u->next)
        if (u->whole_folder)
            (void)rmdir(u->path);
}

/* The first signal asks the library to stop. More of them within INSIST seconds (held keys, groups)
 * change nothing; after that the run is taken to hang. */

static const int64_t INSIST = 5000; /* milliseconds */

/* The things a signal handler may touch, in whatever thread it runs. */
static volatile sig_atomic_t interrupted_by;
static int64_t first_came; /* milliseconds; 0: none yet */
static int ending;

static int64_t now_milliseconds(void) {
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000 + 1; /* never 0 */
}

void cli_end_by_signal(int number) {
    sigset_t it;
    (void)signal(number, SIG_DFL);
    (void)sigemptyset(&it);
    (void)sigaddset(&it, number);
    (void)raise(number);
    (void)pthread_sigmask(SIG_UNBLOCK, &it, NULL);
}

static void on_signal(int number) {
    int reason = errno;
    int64_t none = 0;
    int64_t now = now_milliseconds();
    if (__atomic_compare_exchange_n(&first_came, &none, now, false, __ATOMIC_SEQ_CST,
                                    __ATOMIC_SEQ_CST))
        interrupted_by = number;
    if (none && now - none >= INSIST && !__atomic_exchange_n(&ending, 1, __ATOMIC_SEQ_CST)) {
        remove_unfinished();
        cli_end_by_signal(number);
    }
    errno = reason;
}

int cli_interrupted(void) {
    return (int)interrupted_by;
}

void cli_heed_signals(void) {
    static const int numbers[] = {SIGINT,  SIGTERM, SIGHUP,  SIGQUIT,
                                  SIGXCPU, SIGALRM, SIGUSR1, SIGUSR2};
    const size_t count = sizeof numbers / sizeof *numbers;
    struct sigaction action;
    struct sigaction before;
    memset(&action, 0, sizeof action);
    action.sa_handler = on_signal;
    (void)sigemptyset(&action.sa_mask);
    for (size_t i = 0; i < count; i++)
        (void)sigaddset(&action.sa_mask, numbers[i]);
    for (size_t i = 0; i < count; i++) {
        if (sigaction(numbers[i], NULL, &before) != 0 || before.sa_handler != SIG_IGN)
            (void)sigaction(numbers[i], &action, NULL);
    }
}
