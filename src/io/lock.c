/*
 * One program at a time between reading a file and replacing it. The lock is on an empty file
 * beside it, since the file itself is replaced. Around the states of monitor and online.
 */
#define _GNU_SOURCE /* flock, realpath */
#include "base/base.h"
#include "base/retry.h"

#include <corestack/files.h>

#include <sys/file.h>
#include <time.h>

enum { WAIT_MS = 50, NAME_BYTES = 220 };

struct cst_lock {
    char *path;
    int fd; /* -1 where the file system has no locks */
};

/* PATH.lock, links followed; of a name that would become too long only the first bytes. */
static char *name_lock(cst_context *context, const char *path) {
    char *target = realpath(path, NULL);
    const char *from = target ? target : path;
    const char *slash = strrchr(from, '/');
    const char *base = slash ? slash + 1 : from;
    size_t length = strlen(base);
    int kept = (int)((size_t)(base - from) + (length < NAME_BYTES ? length : NAME_BYTES));
    char *name = cst_format(context, "%.*s.lock", kept, from);
    free(target);
    return name;
}

static cst_status open_lock(cst_context *context, cst_lock *lock) {
    struct stat info;
    lock->fd =
        cst_open_file(lock->path, O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0666);
    if (lock->fd < 0)
        return cst_fail(context, CST_ERROR_IO,
                        "%s: this file, which keeps other runs away, cannot be opened: %s",
                        lock->path, strerror(errno));
    if (fstat(lock->fd, &info) == 0 && S_ISREG(info.st_mode) && info.st_size == 0)
        return CST_OK;
    (void)close(lock->fd);
    lock->fd = -1;
    return cst_fail(
        context, CST_ERROR_IO,
        "%s: is in the way: an empty file of this name keeps other runs away; rename it, "
        "or choose another name for the state",
        lock->path);
}

/* Waits for its turn. Where there are no locks there is a notice, and no descriptor. */
static cst_status wait_for_turn(cst_context *context, cst_lock *lock) {
    const struct timespec pause = {.tv_nsec = WAIT_MS * 1000000L};
    cst_status status = CST_OK;
    bool told = false;
    while (status == CST_OK && flock(lock->fd, LOCK_EX | LOCK_NB) != 0) {
        if (errno != EWOULDBLOCK && errno != EINTR) {
            cst_notice(
                context,
                "%s: this file system has no locks (%s): see that one run at a time uses the "
                "state, or put it elsewhere",
                lock->path, strerror(errno));
            (void)close(lock->fd);
            lock->fd = -1;
            return CST_OK;
        }
        if (!told)
            cst_log(context, CST_LOG_INFO, "%s: waiting for another run that uses the state",
                    lock->path);
        told = true;
        status = cst_poll_waiting(context, "waiting for another run");
        if (status == CST_OK)
            (void)nanosleep(&pause, NULL);
    }
    return status;
}

/* Whoever had the lock before may have removed the file. */
static bool is_there(const cst_lock *lock) {
    struct stat open;
    struct stat named;
    return lock->fd < 0 || (fstat(lock->fd, &open) == 0 && lstat(lock->path, &named) == 0 &&
                            open.st_dev == named.st_dev && open.st_ino == named.st_ino);
}

cst_status cst_lock_file(cst_context *context, cst_lock **out, const char *path) {
    if (out)
        *out = NULL;
    CST_ENTER(context);
    if (!out || !path)
        return cst_fail(context, CST_ERROR_ARGUMENT, "cst_lock_file: lock and path are required");
    cst_lock *lock = cst_alloc(context, 1, sizeof *lock);
    if (!lock)
        return CST_ERROR_MEMORY;
    lock->fd = -1;
    lock->path = name_lock(context, path);
    cst_status status = lock->path ? CST_OK : CST_ERROR_MEMORY;
    for (bool held = false; status == CST_OK && !held; held = is_there(lock)) {
        if (lock->fd >= 0)
            (void)close(lock->fd);
        CST_TRY(open_lock(context, lock));
        CST_TRY(wait_for_turn(context, lock));
    }
    if (status == CST_OK) {
        *out = lock;
        return CST_OK;
    }
    if (lock->fd >= 0)
        (void)close(lock->fd); /* the file is another run's */
    cst_free(context, lock->path);
    cst_free(context, lock);
    return cst_why(context, status);
}

void cst_unlock_file(cst_context *context, cst_lock *lock) {
    if (!context || !lock)
        return;
    (void)cst_remove_file(lock->path);
    if (lock->fd >= 0)
        (void)close(lock->fd);
    cst_free(context, lock->path);
    cst_free(context, lock);
}
