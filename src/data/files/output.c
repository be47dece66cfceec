/*
 * Atomic output: a file without a name where the system has such (else a temporary name), fsync,
 * rename, fsync of the folder. Under every writer.
 */
#define _GNU_SOURCE /* O_TMPFILE, realpath */
#include "data/files/output.h"

#include "core/retry.h"
#include "data/files/descriptor.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { BUFFER_BYTES = 1 << 16, NAME_TRIES = 100, PROC_CHARS = 32, NAME_BYTES = 220 };

struct cst_output_file {
    char *path;
    bool direct;     /* a device, pipe or descriptor, which has no temporary file */
    bool waits;      /* of these, what may have no room: not a file behind a descriptor */
    char *temporary; /* NULL as long as the temporary file has no name */
    int fd;
    size_t used;
    unsigned char *buffer;
    cst_status failure; /* of a write, after which the file can only be given up; atomic */
};

static cst_status failed(cst_context *context, const cst_output_file *output, const char *what,
                         int reason) {
    return cst_fail(context, CST_ERROR_IO, "%s: %s failed: %s%s", output->path, what,
                    strerror(reason), output->direct ? "" : "; nothing was changed");
}

/* The name under /proc by which the open file can be given another; false where there is no /proc.
 */
static bool proc_name(int fd, char name[PROC_CHARS]) {
    (void)cst_snprintf(name, PROC_CHARS, "/proc/self/fd/%d", fd);
    return access(name, F_OK) == 0;
}

/* The folder of the path, for cst_free. */
static char *folder_of(cst_context *context, const char *path) {
    const char *slash = strrchr(path, '/');
    char *folder = cst_strdup(context, slash ? path : ".");
    if (folder && slash)
        folder[slash == path ? 1 : slash - path] = '\0';
    return folder;
}

char *cst_output_temporary(cst_context *context, const char *path, int attempt) {
    const char *slash = strrchr(path, '/');
    const char *base = slash ? slash + 1 : path;
    size_t cut = strlen(base);
    if (cut > NAME_BYTES)
        for (cut = NAME_BYTES; cut > 0 && ((unsigned char)base[cut] & 0xC0) == 0x80;)
            cut--; /* whole characters of UTF-8 */
    return cst_format(context, "%.*s.tmp.%ld.%d", (int)((size_t)(base - path) + cut), path,
                      (long)getpid(), attempt);
}

/* A file without a name in the folder: of a program that is killed nothing stays. Where there is
 * no such thing, output->fd stays -1. */
static cst_status open_nameless(cst_context *context, cst_output_file *output, mode_t mode) {
#ifdef O_TMPFILE
    char name[PROC_CHARS];
    char *folder = folder_of(context, output->path);
    if (!folder)
        return CST_ERROR_MEMORY;
    output->fd = cst_open_file(folder, O_RDWR | O_TMPFILE | O_CLOEXEC, mode);
    cst_free(context, folder);
    if (output->fd >= 0 && !proc_name(output->fd, name)) {
        (void)close(output->fd);
        output->fd = -1;
    }
#endif
    return CST_OK;
}

/* Gives the temporary file the name PATH.tmp.<process>.<try>, which must not exist yet. fd: it is
 * open and has none (-1: it is made, and output->fd is it). */
static cst_status name_temporary(cst_context *context, cst_output_file *output, int fd,
                                 mode_t mode) {
    char proc[PROC_CHARS];
    (void)proc_name(fd, proc);
    int done = -1;
    for (int attempt = 0; attempt < NAME_TRIES && done < 0; attempt++) {
        cst_free(context, output->temporary);
        output->temporary = cst_output_temporary(context, output->path, attempt);
        if (!output->temporary)
            return CST_ERROR_MEMORY;
        if (fd >= 0)
            done = cst_link_open(proc, output->temporary);
        else
            done = output->fd =
                cst_open_file(output->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
        if (done < 0 && errno != EEXIST)
            break;
    }
    if (done >= 0)
        return CST_OK;
    int reason = errno;
    cst_free(context, output->temporary);
    output->temporary = NULL;
    return failed(context, output, "creating a temporary file next to it", reason);
}

/* Starts a temporary file with the permissions of the file it will replace. */
static cst_status open_temporary(cst_context *context, cst_output_file *output, mode_t mode,
                                 bool keep_mode) {
    cst_status status = open_nameless(context, output, mode);
    if (status == CST_OK && output->fd < 0)
        status = name_temporary(context, output, -1, mode);
    if (status == CST_OK && keep_mode)
        (void)fchmod(output->fd, mode);
    return status;
}

/* The file that `path` leads to, so that a symbolic link stays one: the temporary file is then made
 * beside its target and takes the target's name. */
static cst_status follow(cst_context *context, const char *path, char **out) {
    struct stat info;
    char *target = NULL;
    bool exists = stat(path, &info) == 0;
    bool regular = exists && S_ISREG(info.st_mode); /* /dev/stdout leads to what has no path */
    int reason = errno;
    bool linked = lstat(path, &info) == 0 && S_ISLNK(info.st_mode);
    if (linked && regular) {
        target = realpath(path, NULL);
        reason = errno;
    }
    if (linked && (!exists || (regular && !target)))
        return cst_fail(context, CST_ERROR_IO, "%s: is a dangling link (%s); name the file itself",
                        path, strerror(reason));
    *out = cst_strdup(context, target ? target : path);
    free(target);
    return *out ? CST_OK : CST_ERROR_MEMORY;
}

/* ---- what may have to be waited for ---- */

/* A pipe that nobody reads yet, a terminal that is stopped: a call that blocks there would not be
 * over when the caller wants to stop, so no call is made before there is room. */

enum {
    WAIT_MS = 50,
    PIECE_BYTES = 4096
}; /* of a pipe with room so much is written without waiting */

/* Opens a pipe for writing as soon as somebody reads it. */
static cst_status open_pipe(cst_context *context, cst_output_file *output, const char *path) {
    const struct timespec pause = {.tv_nsec = WAIT_MS * 1000000L};
    cst_status status = CST_OK;
    for (int tries = 0; status == CST_OK; tries++) {
        if (tries == CST_WAITS_SAID)
            cst_notice(context, "%s: is a pipe: waiting for a program that reads it", path);
        output->fd = cst_open_file(path, O_WRONLY | O_CLOEXEC | O_NONBLOCK, 0);
        if (output->fd >= 0)
            break;
        if (errno != ENXIO)
            return failed(context, output, "opening", errno);
        status = cst_poll_waiting(context, "writing");
        if (status == CST_OK)
            (void)nanosleep(&pause, NULL);
    }
    if (status == CST_OK && fcntl(output->fd, F_SETFL, O_WRONLY) != 0)
        return failed(context, output, "opening", errno);
    return status;
}

static cst_status wait_for_room(cst_context *context, const cst_output_file *output) {
    struct pollfd room = {.fd = output->fd, .events = POLLOUT};
    cst_status status = CST_OK;
    for (int ready = 0; ready == 0 && status == CST_OK;) {
        ready = poll(&room, 1, WAIT_MS);
        if (ready < 0 && errno == EINTR)
            ready = 0;
        if (ready == 0)
            status = cst_poll_waiting(context, "writing");
    }
    return status; /* what poll cannot tell, writing will */
}

/* Opens what has no temporary file. Opened anew, a descriptor of ours would begin at the first byte
 * of a file that others write to; of another process it can only be opened, and is added to. */
static cst_status open_direct(cst_context *context, cst_output_file *output, const char *path,
                              bool descriptor, int fd, mode_t kind) {
    output->direct = true;
    output->waits = !S_ISREG(kind);
    if (fd < 0 && S_ISFIFO(kind))
        return open_pipe(context, output, path);
    if (fd >= 0)
        output->fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    else
        output->fd = cst_open_file(path, O_WRONLY | O_CLOEXEC | (descriptor ? O_APPEND : 0), 0);
    return output->fd < 0 ? failed(context, output, "opening", errno) : CST_OK;
}

cst_status cst_output_open(cst_context *context, cst_output_file **out, const char *path) {
    *out = NULL;
    cst_output_file *output = cst_alloc(context, 1, sizeof *output);
    if (!output)
        return CST_ERROR_MEMORY;
    output->fd = -1;
    int fd = -1;
    bool descriptor = cst_names_descriptor(path, &fd);
    cst_status status = CST_OK;
    if (!descriptor)
        status = follow(context, path, &output->path);
    else if (!(output->path = cst_strdup(context, path)))
        status = CST_ERROR_MEMORY;
    output->buffer = cst_alloc(context, BUFFER_BYTES, 1);
    if (status == CST_OK && !output->buffer)
        status = CST_ERROR_MEMORY;
    struct stat info;
    bool exists = status == CST_OK && stat(path, &info) == 0;
    if (exists && S_ISDIR(info.st_mode))
        status = cst_fail(context, CST_ERROR_IO, "%s: is a folder; name a file", path);
    else if (status == CST_OK && (descriptor || (exists && !S_ISREG(info.st_mode))))
        status = open_direct(context, output, path, descriptor, fd, exists ? info.st_mode : 0);
    else if (status == CST_OK)
        status = open_temporary(context, output, exists ? info.st_mode & 0777 : 0666, exists);
    if (status != CST_OK) {
        cst_output_abort(context, output);
        return status;
    }
    *out = output;
    return CST_OK;
}

/* Notes what became of a write. */
static cst_status wrote(cst_output_file *output, cst_status status) {
    if (status != CST_OK)
        __atomic_store_n(&output->failure, status, __ATOMIC_RELAXED);
    return status;
}

/* What comes after bytes that were not written would stand in their place. */
static cst_status check_whole(cst_context *context, const cst_output_file *output) {
    cst_status failure = __atomic_load_n(&output->failure, __ATOMIC_RELAXED);
    if (failure == CST_OK)
        return CST_OK;
    return cst_fail(context, failure,
                    "%s: cannot be completed: an earlier part could not be written", output->path);
}

static cst_status write_all(cst_context *context, cst_output_file *output,
                            const unsigned char *data, size_t bytes) {
    const size_t most = output->waits ? PIECE_BYTES : (size_t)1 << 30;
    while (bytes > 0) {
        size_t chunk = bytes < most ? bytes : most;
        if (output->waits) {
            cst_status status = wait_for_room(context, output);
            if (status != CST_OK)
                return status;
        }
        ssize_t done = write(output->fd, data, chunk);
        if (done < 0 && errno == EINTR)
            continue;
        if (done < 0)
            return failed(context, output, "writing", errno);
        data += done;
        bytes -= (size_t)done;
    }
    return CST_OK;
}

static cst_status flush(cst_context *context, cst_output_file *output) {
    cst_status status = write_all(context, output, output->buffer, output->used);
    output->used = 0;
    return wrote(output, status);
}

cst_status cst_output_write(cst_context *context, cst_output_file *output, const void *data,
                            size_t bytes) {
    cst_status status = check_whole(context, output);
    if (status == CST_OK && bytes > BUFFER_BYTES - output->used)
        status = flush(context, output);
    if (status != CST_OK)
        return status;
    if (bytes >= BUFFER_BYTES)
        return wrote(output, write_all(context, output, data, bytes));
    memcpy(output->buffer + output->used, data, bytes);
    output->used += bytes;
    return CST_OK;
}

bool cst_output_is_file(const cst_output_file *output) {
    return !output->direct;
}

cst_status cst_output_write_at(cst_context *context, cst_output_file *output, uint64_t offset,
                               const void *data, size_t bytes) {
    const unsigned char *from = data;
    cst_status status = check_whole(context, output);
    if (status != CST_OK)
        return status;
    while (bytes > 0) {
        size_t chunk = bytes < ((size_t)1 << 30) ? bytes : (size_t)1 << 30;
        ssize_t done = pwrite(output->fd, from, chunk, (off_t)offset);
        if (done < 0 && errno == EINTR)
            continue;
        if (done < 0)
            return wrote(output, failed(context, output, "writing", errno));
        from += done;
        offset += (uint64_t)done;
        bytes -= (size_t)done;
    }
    return CST_OK;
}

/* Makes the new name durable. Failure is not reported: the data are written and named, and some
 * file systems cannot sync a folder. */
static void sync_folder(cst_context *context, const char *path) {
    char *folder = folder_of(context, path);
    if (!folder)
        return;
    int fd = cst_open_file(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
    if (fd >= 0) {
        (void)cst_fsync(fd);
        (void)close(fd);
    }
    cst_free(context, folder);
}

/* The data once more, into a file that has a name: where one without a name cannot be given one. */
static cst_status copy_to_named(cst_context *context, cst_output_file *output) {
    struct stat info;
    int from = output->fd;
    output->fd = -1;
    cst_status status =
        fstat(from, &info) == 0 ? CST_OK : failed(context, output, "copying", errno);
    mode_t mode = status == CST_OK ? info.st_mode & 0777 : 0;
    CST_THEN(name_temporary(context, output, -1, mode));
    if (status == CST_OK)
        (void)fchmod(output->fd, mode);
    for (off_t at = 0; status == CST_OK && at < info.st_size;) {
        ssize_t got = cst_pread(from, output->buffer, BUFFER_BYTES, at);
        if (got <= 0)
            status = failed(context, output, "copying", got < 0 ? errno : EIO);
        else
            status = write_all(context, output, output->buffer, (size_t)got);
        at += got;
    }
    if (status == CST_OK && !cst_synced(output->fd))
        status = failed(context, output, "syncing", errno);
    (void)close(from);
    return status;
}

/* Puts the finished file in its place. Where nothing is there yet, a file without a name gets the
 * place's own at once. */
static cst_status put_in_place(cst_context *context, cst_output_file *output) {
    char proc[PROC_CHARS];
    cst_status status = CST_OK;
    if (!output->temporary) {
        (void)proc_name(output->fd, proc);
        if (cst_link_open(proc, output->path) == 0)
            return CST_OK;
        if (errno == EEXIST)
            status = name_temporary(context, output, output->fd, 0);
        if (status != CST_ERROR_MEMORY && !output->temporary)
            status = copy_to_named(context, output);
    }
    if (status == CST_OK && cst_rename(output->temporary, output->path) != 0)
        return failed(context, output, "renaming the finished file", errno);
    if (status == CST_OK) {
        cst_free(context, output->temporary);
        output->temporary = NULL;
    }
    return status;
}

cst_status cst_output_commit(cst_context *context, cst_output_file *output) {
    cst_status status = check_whole(context, output);
    CST_THEN(flush(context, output));
    if (status == CST_OK && !output->direct && !cst_synced(output->fd))
        status = failed(context, output, "syncing", errno);
    if (status == CST_OK && !output->direct)
        status = put_in_place(context, output);
    if (status == CST_OK && output->direct) {
        int closed = close(output->fd);
        output->fd = -1;
        if (closed != 0 && errno != EINTR) /* after which it is closed as well */
            status = failed(context, output, "closing", errno);
    }
    if (status == CST_OK && !output->direct)
        sync_folder(context, output->path);
    cst_output_abort(context, output);
    return status;
}

void cst_output_abort(cst_context *context, cst_output_file *output) {
    if (!output)
        return;
    if (output->fd >= 0)
        (void)close(output->fd);
    if (output->temporary)
        (void)cst_remove_file(output->temporary);
    cst_free(context, output->temporary);
    cst_free(context, output->buffer);
    cst_free(context, output->path);
    cst_free(context, output);
}

cst_status cst_output_end(cst_context *context, cst_output_file *output, cst_status status) {
    if (status == CST_OK)
        return cst_output_commit(context, output);
    cst_output_abort(context, output);
    return status;
}
