/*
 * Disks that fail: a library to be loaded before libc (LD_PRELOAD) that makes one call of one kind
 * fail, or many of them short. Only files below the folders of CST_IO_UNDER (separated by ':') are
 * touched. CST_IO_FAULT is KIND=WHAT:N: KIND open, read, write, fsync, rename, link, map, reserve,
 * close, make, list (entries of folders), remove; WHAT an errno by name, `short` (half of what was
 * asked for), `kill` (the process is gone before the call), `interrupt` (SIGINT comes before the
 * call), `storm` (so it does, and SIGTERM and SIGINT in turns before every later call of any kind),
 * `hang` (the call is not made and never returns), `replace` (before the call the file
 * CST_IO_OTHER gets the place and name of CST_IO_UNDER, then one path; without the former the
 * latter is removed), `write` (its bytes are written into the file there)
 * or `none`; N the number, from 0, of the first call that fails.
 * Of EINTR one call fails, of all others every later one too, or none where `:once` stands behind
 * N. At the end the number of calls of the kind goes to the file CST_IO_COUNT. With CST_IO_NAMED no
 * file is made without a name.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static char kind[16];
static char under[1024];
enum { SHORT = -1, KILL = -2, INTERRUPT = -3, STORM = -4, HANG = -5, REPLACE = -6, WRITE = -7 };

static int error;     /* an errno, one of these, or 0: none */
static long storming; /* signals of a storm so far */
static long first;
static bool once;
static long seen;

/* The function behind ours. */
#define NEXT(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

__attribute__((constructor)) static void begin(void) {
    static const struct {
        const char *name;
        int value;
    } errors[] = {{"EIO", EIO},       {"ENOSPC", ENOSPC},       {"EINTR", EINTR},
                  {"EMFILE", EMFILE}, {"EACCES", EACCES},       {"ENOMEM", ENOMEM},
                  {"EPERM", EPERM},   {"EDQUOT", EDQUOT},       {"EROFS", EROFS},
                  {"short", SHORT},   {"kill", KILL},           {"ENOTSUP", ENOTSUP},
                  {"EINVAL", EINVAL}, {"interrupt", INTERRUPT}, {"storm", STORM},
                  {"hang", HANG},     {"replace", REPLACE},     {"write", WRITE}};
    const char *fault = getenv("CST_IO_FAULT");
    const char *folders = getenv("CST_IO_UNDER");
    char what[16] = "";
    int length = 0;
    if (!fault || !folders ||
        sscanf(fault, "%15[a-z]=%15[A-Za-z]:%ld%n", kind, what, &first, &length) != 3)
        return;
    once = strcmp(fault + length, ":once") == 0;
    (void)snprintf(under, sizeof under, "%s", folders);
    for (size_t i = 0; i < sizeof errors / sizeof errors[0]; i++)
        if (strcmp(errors[i].name, what) == 0)
            error = errors[i].value;
    once = once || error == EINTR;
}

__attribute__((destructor)) static void end(void) {
    const char *path = getenv("CST_IO_COUNT");
    char text[32];
    if (!path)
        return;
    int fd = NEXT(open)(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    int length = snprintf(text, sizeof text, "%ld\n", seen);
    if (fd >= 0) {
        (void)!NEXT(write)(fd, text, (size_t)length);
        (void)NEXT(close)(fd);
    }
}

static bool is_under(const char *path) {
    for (const char *at = under; *at; at += strcspn(at, ":"), at += *at == ':') {
        size_t length = strcspn(at, ":");
        if (strncmp(path, at, length) == 0)
            return true;
    }
    return false;
}

static bool is_open_under(int fd) {
    char name[64];
    char path[1024];
    (void)snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(name, path, sizeof path - 1);
    if (length < 0)
        return false;
    path[length] = '\0';
    return is_under(path);
}

/* Another file takes the place of the one at `under`; a link of it, so that it is there again for
 * the next time, or a folder itself. */
static void replace(const char *other) {
    char beside[sizeof under + 8];
    (void)snprintf(beside, sizeof beside, "%s.beside", under);
    if (other && link(other, beside) == 0 && NEXT(rename)(beside, under) == 0)
        return;
    (void)NEXT(unlink)(beside);
    (void)NEXT(rename)(under, beside);
    if (other)
        (void)NEXT(rename)(other, under);
}

/* The same bytes in the file that is there. */
static void rewrite(const char *other) {
    static char bytes[1 << 20];
    int from = other ? NEXT(open)(other, O_RDONLY | O_CLOEXEC) : -1;
    int to = NEXT(open)(under, O_WRONLY | O_CLOEXEC);
    ssize_t got = from >= 0 ? NEXT(read)(from, bytes, sizeof bytes) : 0;
    if (to >= 0 && got >= 0) {
        (void)!NEXT(pwrite)(to, bytes, (size_t)got, 0);
        (void)!ftruncate(to, got);
    }
    (void)NEXT(close)(from);
    (void)NEXT(close)(to);
}

/* What happens to the whole process or to a file before the call, which is then made. */
static void act(void) {
    const char *other = getenv("CST_IO_OTHER");
    int reason = errno;
    switch (error) {
    case KILL:
        (void)raise(SIGKILL);
        break;
    case INTERRUPT:
        (void)raise(SIGINT);
        break;
    case STORM:
        (void)raise(SIGINT);
        __atomic_store_n(&storming, 1, __ATOMIC_RELAXED);
        break;
    case REPLACE:
        replace(other);
        break;
    default:
        rewrite(other);
    }
    errno = reason;
}

/* Whether this call is one that is to fail. */
static bool hit(const char *what) {
    if (__atomic_load_n(&storming, __ATOMIC_RELAXED) > 0)
        (void)raise(__atomic_fetch_add(&storming, 1, __ATOMIC_RELAXED) % 2 ? SIGTERM : SIGINT);
    if (strcmp(kind, what) != 0)
        return false;
    long number = __atomic_fetch_add(&seen, 1, __ATOMIC_RELAXED);
    bool acts = error < SHORT;
    while (error == HANG && number == first)
        (void)pause();
    if (acts && number == first)
        act();
    return error != 0 && !acts && (number == first || (number > first && !once));
}

static bool fails(const char *what) {
    if (!hit(what))
        return false;
    errno = error;
    return true;
}

/* Of calls with a count: 0 for failure, else how much to ask for. */
static size_t allowed(const char *what, int fd, size_t bytes) {
    bool concerns = strcmp(kind, what) == 0 || storming > 0;
    if (!concerns || !is_open_under(fd) || bytes == 0 || !hit(what))
        return bytes;
    errno = error;
    return error > 0 ? 0 : (bytes + 1) / 2;
}

#define COUNTED(what, fd, bytes, call)                                                             \
    do {                                                                                           \
        size_t most = allowed(what, fd, bytes);                                                    \
        return most == 0 && (bytes) > 0 ? -1 : (call);                                             \
    } while (0)

ssize_t read(int fd, void *data, size_t bytes) {
    COUNTED("read", fd, bytes, NEXT(read)(fd, data, most));
}

ssize_t pread(int fd, void *data, size_t bytes, off_t at) {
    COUNTED("read", fd, bytes, NEXT(pread)(fd, data, most, at));
}

ssize_t pread64(int fd, void *data, size_t bytes, off64_t at) {
    COUNTED("read", fd, bytes, NEXT(pread64)(fd, data, most, at));
}

ssize_t write(int fd, const void *data, size_t bytes) {
    COUNTED("write", fd, bytes, NEXT(write)(fd, data, most));
}

ssize_t pwrite(int fd, const void *data, size_t bytes, off_t at) {
    COUNTED("write", fd, bytes, NEXT(pwrite)(fd, data, most, at));
}

ssize_t pwrite64(int fd, const void *data, size_t bytes, off64_t at) {
    COUNTED("write", fd, bytes, NEXT(pwrite64)(fd, data, most, at));
}

/* stdio reads inside libc, where nobody comes between: its flag of errors is set as by a failed
 * read, an interrupted one too. It goes on after short reads by itself. */
size_t fread(void *data, size_t size, size_t count, FILE *file) {
    if (error > 0 && strcmp(kind, "read") == 0 && is_open_under(fileno(file)) && fails("read")) {
        file->_flags |= 0x20; /* _IO_ERR_SEEN */
        return 0;
    }
    return NEXT(fread)(data, size, count, file);
}

#define MODE_OF(flags, mode)                                                                       \
    mode_t mode = 0;                                                                               \
    if ((flags) & (O_CREAT | __O_TMPFILE)) {                                                       \
        va_list args;                                                                              \
        va_start(args, flags);                                                                     \
        (mode) = va_arg(args, mode_t);                                                             \
        va_end(args);                                                                              \
    }

int open(const char *path, int flags, ...) {
    MODE_OF(flags, mode)
    return is_under(path) && fails("open") ? -1 : NEXT(open)(path, flags, mode);
}

int open64(const char *path, int flags, ...) {
    MODE_OF(flags, mode)
    return is_under(path) && fails("open") ? -1 : NEXT(open64)(path, flags, mode);
}

/* A name in an open folder, or a path. */
static bool is_under_at(int folder, const char *path) {
    return *path == '/' || folder == AT_FDCWD ? is_under(path) : is_open_under(folder);
}

/* Whether the file is to have no name, where every one needs one. */
static bool nameless(int flags) {
    if ((flags & O_TMPFILE) != O_TMPFILE || !getenv("CST_IO_NAMED"))
        return false;
    errno = ENOTSUP;
    return true;
}

int openat(int folder, const char *path, int flags, ...) {
    MODE_OF(flags, mode)
    if (is_under_at(folder, path) && (nameless(flags) || fails("open")))
        return -1;
    return NEXT(openat)(folder, path, flags, mode);
}

int openat64(int folder, const char *path, int flags, ...) {
    MODE_OF(flags, mode)
    if (is_under_at(folder, path) && (nameless(flags) || fails("open")))
        return -1;
    return NEXT(openat64)(folder, path, flags, mode);
}

FILE *fopen(const char *path, const char *how) {
    return is_under(path) && fails("open") ? NULL : NEXT(fopen)(path, how);
}

FILE *fopen64(const char *path, const char *how) {
    return is_under(path) && fails("open") ? NULL : NEXT(fopen64)(path, how);
}

/* As of libc: a path that could not be taken has letters at its end. */
static bool fails_new(const char *what, char *path) {
    if (!is_under(path) || !fails(what))
        return false;
    memset(path + strlen(path) - 6, 'a', 6);
    return true;
}

int mkstemp(char *path) {
    return fails_new("open", path) ? -1 : NEXT(mkstemp)(path);
}

int mkstemp64(char *path) {
    return fails_new("open", path) ? -1 : NEXT(mkstemp64)(path);
}

char *mkdtemp(char *path) {
    return fails_new("make", path) ? NULL : NEXT(mkdtemp)(path);
}

int mkdir(const char *path, mode_t mode) {
    return is_under(path) && fails("make") ? -1 : NEXT(mkdir)(path, mode);
}

int mkdirat(int folder, const char *path, mode_t mode) {
    return is_under_at(folder, path) && fails("make") ? -1 : NEXT(mkdirat)(folder, path, mode);
}

struct dirent *readdir(DIR *folder) {
    return is_open_under(dirfd(folder)) && fails("list") ? NULL : NEXT(readdir)(folder);
}

struct dirent64 *readdir64(DIR *folder) {
    return is_open_under(dirfd(folder)) && fails("list") ? NULL : NEXT(readdir64)(folder);
}

int unlink(const char *path) {
    return is_under(path) && fails("remove") ? -1 : NEXT(unlink)(path);
}

int unlinkat(int folder, const char *name, int flags) {
    return is_under_at(folder, name) && fails("remove") ? -1 : NEXT(unlinkat)(folder, name, flags);
}

int rmdir(const char *path) {
    return is_under(path) && fails("remove") ? -1 : NEXT(rmdir)(path);
}

int fsync(int fd) {
    return is_open_under(fd) && fails("fsync") ? -1 : NEXT(fsync)(fd);
}

int close(int fd) {
    bool bad = is_open_under(fd) && fails("close");
    int reason = errno;
    int result = NEXT(close)(fd);
    if (!bad)
        return result;
    errno = reason;
    return -1;
}

int rename(const char *from, const char *to) {
    return is_under(to) && fails("rename") ? -1 : NEXT(rename)(from, to);
}

int linkat(int folder, const char *from, int other, const char *to, int flags) {
    return is_under(to) && fails("link") ? -1 : NEXT(linkat)(folder, from, other, to, flags);
}

int posix_fallocate(int fd, off_t at, off_t bytes) {
    return is_open_under(fd) && fails("reserve") ? error : NEXT(posix_fallocate)(fd, at, bytes);
}

int posix_fallocate64(int fd, off64_t at, off64_t bytes) {
    return is_open_under(fd) && fails("reserve") ? error : NEXT(posix_fallocate64)(fd, at, bytes);
}

void *mmap(void *address, size_t bytes, int protection, int flags, int fd, off_t at) {
    if (fd >= 0 && *kind && strcmp(kind, "map") == 0 && is_open_under(fd) && fails("map"))
        return MAP_FAILED;
    return NEXT(mmap)(address, bytes, protection, flags, fd, at);
}
