/*
 * Atomic output: temporary name, fsync, rename, fsync of the folder. Under every writer. Paper:
 * none.
 */
#define _XOPEN_SOURCE 700 /* realpath */
#include "io/output.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { BUFFER_BYTES = 1 << 16, NAME_TRIES = 100 };

struct cst_output_file {
    char *path;
    char *temporary; /* NULL when a device or pipe is written directly */
    int fd;
    size_t used;
    unsigned char *buffer;
};

static cst_status failed(cst_context *context, const cst_output_file *output, const char *what,
                         int reason) {
    return cst_fail(context, CST_ERROR_IO, "%s: %s failed: %s; nothing was changed there",
                    output->path, what, strerror(reason));
}

/* Creates PATH.tmp.<process>.<try>, which must not exist yet, with the permissions of the file it
 * will replace. */
static cst_status open_temporary(cst_context *context, cst_output_file *output, mode_t mode,
                                 bool keep_mode) {
    for (int attempt = 0; attempt < NAME_TRIES; attempt++) {
        cst_free(context, output->temporary);
        output->temporary =
            cst_format(context, "%s.tmp.%ld.%d", output->path, (long)getpid(), attempt);
        if (!output->temporary)
            return CST_ERROR_MEMORY;
        output->fd = open(output->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
        if (output->fd >= 0) {
            if (keep_mode)
                (void)fchmod(output->fd, mode);
            return CST_OK;
        }
        if (errno != EEXIST)
            break;
    }
    int reason = errno;
    cst_free(context, output->temporary);
    output->temporary = NULL;
    return failed(context, output, "creating a temporary file beside it", reason);
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
        return cst_fail(context, CST_ERROR_IO,
                        "%s: is a link that leads to no file (%s); name the file itself", path,
                        strerror(reason));
    *out = cst_strdup(context, target ? target : path);
    free(target);
    return *out ? CST_OK : CST_ERROR_MEMORY;
}

cst_status cst_output_open(cst_context *context, cst_output_file **out, const char *path) {
    *out = NULL;
    cst_output_file *output = cst_alloc(context, 1, sizeof *output);
    if (!output)
        return CST_ERROR_MEMORY;
    output->fd = -1;
    cst_status status = follow(context, path, &output->path);
    output->buffer = cst_alloc(context, BUFFER_BYTES, 1);
    if (status == CST_OK && !output->buffer)
        status = CST_ERROR_MEMORY;
    struct stat info;
    bool exists = status == CST_OK && stat(path, &info) == 0;
    if (exists && S_ISDIR(info.st_mode))
        status = cst_fail(context, CST_ERROR_IO, "%s: is a folder; give a file name", path);
    else if (exists && !S_ISREG(info.st_mode)) {
        output->fd = open(path, O_WRONLY | O_CLOEXEC);
        if (output->fd < 0)
            status = failed(context, output, "opening", errno);
    } else if (status == CST_OK)
        status = open_temporary(context, output, exists ? info.st_mode & 0777 : 0666, exists);
    if (status != CST_OK) {
        cst_output_abort(context, output);
        return status;
    }
    *out = output;
    return CST_OK;
}

static cst_status write_all(cst_context *context, cst_output_file *output,
                            const unsigned char *data, size_t bytes) {
    while (bytes > 0) {
        size_t chunk = bytes < ((size_t)1 << 30) ? bytes : (size_t)1 << 30;
        ssize_t wrote = write(output->fd, data, chunk);
        if (wrote < 0 && errno == EINTR)
            continue;
        if (wrote < 0)
            return failed(context, output, "writing", errno);
        data += wrote;
        bytes -= (size_t)wrote;
    }
    return CST_OK;
}

static cst_status flush(cst_context *context, cst_output_file *output) {
    cst_status status = write_all(context, output, output->buffer, output->used);
    output->used = 0;
    return status;
}

cst_status cst_output_write(cst_context *context, cst_output_file *output, const void *data,
                            size_t bytes) {
    if (bytes > BUFFER_BYTES - output->used) {
        cst_status status = flush(context, output);
        if (status != CST_OK)
            return status;
    }
    if (bytes >= BUFFER_BYTES)
        return write_all(context, output, data, bytes);
    memcpy(output->buffer + output->used, data, bytes);
    output->used += bytes;
    return CST_OK;
}

/* Makes the new name durable. Failure is not reported: the data are written and named, and some
 * file systems cannot sync a folder. */
static void sync_folder(cst_context *context, const char *path) {
    const char *slash = strrchr(path, '/');
    char *folder = cst_strdup(context, slash ? path : ".");
    if (!folder)
        return;
    if (slash)
        folder[slash == path ? 1 : slash - path] = '\0';
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0) {
        (void)fsync(fd);
        (void)close(fd);
    }
    cst_free(context, folder);
}

cst_status cst_output_commit(cst_context *context, cst_output_file *output) {
    cst_status status = flush(context, output);
    if (status == CST_OK && output->temporary && fsync(output->fd) != 0)
        status = failed(context, output, "syncing", errno);
    if (status == CST_OK) {
        int closed = close(output->fd);
        output->fd = -1;
        if (closed != 0)
            status = failed(context, output, "closing", errno);
    }
    if (status == CST_OK && output->temporary) {
        if (rename(output->temporary, output->path) != 0)
            status = failed(context, output, "renaming the finished file", errno);
        else {
            cst_free(context, output->temporary);
            output->temporary = NULL;
            sync_folder(context, output->path);
        }
    }
    cst_output_abort(context, output);
    return status;
}

void cst_output_abort(cst_context *context, cst_output_file *output) {
    if (!output)
        return;
    if (output->fd >= 0)
        (void)close(output->fd);
    if (output->temporary)
        (void)unlink(output->temporary);
    cst_free(context, output->temporary);
    cst_free(context, output->buffer);
    cst_free(context, output->path);
    cst_free(context, output);
}
