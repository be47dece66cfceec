/* One program at a time between reading a file and replacing it. The lock is on the file, or on its
 * folder as long as there is none. Around the states of monitor and online. */
#define _GNU_SOURCE /* flock, realpath */
#include "core/base.h"
#include "core/retry.h"

#include <corestack/files.h>

#include <sys/file.h>
#include <time.h>

enum { WAIT_MS = 50 };

struct cst_lock {
    char *path, *folder;
    int fd; /* -1 where the file system has no locks */
};

static cst_status name_places(cst_context *context, cst_lock *lock, const char *path) {
    char *target = realpath(path, NULL);
    lock->path = cst_strdup(context, target ? target : path);
    free(target);
    const char *slash = lock->path ? strrchr(lock->path, '/') : NULL;
    lock->folder = !lock->path ? NULL
                   : slash ? cst_format(context, "%.*s", (int)(slash - lock->path) + 1, lock->path)
                           : cst_strdup(context, ".");
    return lock->folder ? CST_OK : CST_ERROR_MEMORY;
}

/* The file, for writing where that may be, since network shares lock only such; or the folder. */
static cst_status open_place(cst_context *context, cst_lock *lock) {
    const int flags = O_CLOEXEC | O_NONBLOCK;
    if (lock->fd >= 0)
        (void)close(lock->fd);
    lock->fd = cst_open_file(lock->path, O_RDWR | flags, 0);
    if (lock->fd < 0 && errno != ENOENT)
        lock->fd = cst_open_file(lock->path, O_RDONLY | flags, 0);
    if (lock->fd < 0 && errno == ENOENT)
        lock->fd = cst_open_file(lock->folder, O_RDONLY | O_DIRECTORY | flags, 0);
    if (lock->fd < 0)
        return cst_fail(context, CST_ERROR_IO, "%s: cannot open the file: %s", lock->path,
                        strerror(errno));
    return CST_OK;
}

/* Waits for its turn. Where there are no locks there is a notice, and no descriptor. */
static cst_status wait_for_turn(cst_context *context, cst_lock *lock) {
    const struct timespec pause = {.tv_nsec = WAIT_MS * 1000000L};
    cst_status status = CST_OK;
    bool told = false;
    while (status == CST_OK && flock(lock->fd, LOCK_EX | LOCK_NB) != 0) {
        if (errno != EWOULDBLOCK && errno != EINTR) {
            cst_notice(context,
                       "%s: cannot be locked on this file system (%s): see that one run at a time "
                       "uses the state, or put it elsewhere",
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

/* Whether the locked file is still in place, not replaced or made meanwhile. */
static bool in_place(const cst_lock *lock) {
    struct stat open;
    struct stat named;
    bool there = stat(lock->path, &named) == 0;
    if (lock->fd < 0 || fstat(lock->fd, &open) != 0)
        return true;
    return there ? open.st_dev == named.st_dev && open.st_ino == named.st_ino
                 : S_ISDIR(open.st_mode);
}

void cst_unlock_file(cst_context *context, cst_lock *lock) {
    if (!context || !lock)
        return;
    if (lock->fd >= 0)
        (void)close(lock->fd);
    cst_free(context, lock->path);
    cst_free(context, lock->folder);
    cst_free(context, lock);
}

cst_status cst_lock_file(cst_context *context, cst_lock **out, const char *path) {
    CST_CLEAR(out);
    CST_ENTER(context);
    CST_NEED(context, out && path, "lock and path are required");
    cst_lock *lock = cst_alloc(context, 1, sizeof *lock);
    if (!lock)
        return cst_why(context, CST_ERROR_MEMORY);
    lock->fd = -1;
    cst_status status = name_places(context, lock, path);
    for (bool held = false; status == CST_OK && !held; held = in_place(lock)) {
        status = open_place(context, lock);
        CST_THEN(wait_for_turn(context, lock));
    }
    if (status == CST_OK)
        *out = lock;
    else
        cst_unlock_file(context, lock);
    return cst_why(context, status);
}
