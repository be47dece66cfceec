/*
 * Spills: unlinked temporary files, written with pwrite and read with pread. Under what does not
 * fit in memory. Section: one idea, sums over fixed blocks (docs/architecture.md).
 */
#define _XOPEN_SOURCE 700 /* mkstemp */
#include "io/spill.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

/* Most bytes of one system call: some systems refuse more than 2^31 - 1. */
static const size_t PIECE = (size_t)1 << 30;

struct cst_spill {
    char *folder;
    int fd;
};

static cst_status failed(cst_context *context, const char *folder, const char *what, int reason) {
    return cst_fail(context, CST_ERROR_IO,
                    "%s: %s a temporary file failed: %s; set TMPDIR to a folder with more space, "
                    "or give more memory",
                    folder, what, strerror(reason));
}

/* Whether the disk has room for what is announced. A file system that does not tell is believed. */
static cst_status check_space(cst_context *context, const char *folder, uint64_t bytes) {
    struct statvfs info;
    if (bytes == 0 || statvfs(folder, &info) != 0 || info.f_blocks == 0)
        return CST_OK;
    double left = (double)info.f_bavail * (double)info.f_frsize;
    if ((double)bytes <= left)
        return CST_OK;
    return cst_fail(context, CST_ERROR_IO,
                    "%s: a temporary file of %.1f GB does not fit in the %.1f GB that are left "
                    "there; set TMPDIR to a folder with more space, or give more memory",
                    folder, (double)bytes / 1e9, left / 1e9);
}

cst_status cst_spill_create(cst_context *context, cst_spill **out, uint64_t bytes) {
    *out = NULL;
    const char *folder = getenv("TMPDIR");
    if (!folder || !*folder)
        folder = "/tmp";
    cst_status status = check_space(context, folder, bytes);
    if (status != CST_OK)
        return status;
    char *name = cst_format(context, "%s/corestack.XXXXXX", folder);
    cst_spill *spill = cst_alloc(context, 1, sizeof *spill);
    status = name && spill ? CST_OK : CST_ERROR_MEMORY;
    if (spill)
        spill->fd = -1;
    if (status == CST_OK) {
        spill->folder = cst_strdup(context, folder);
        spill->fd = mkstemp(name);
        if (spill->fd < 0)
            status = failed(context, folder, "creating", errno);
        else if (unlink(name) != 0)
            status = failed(context, folder, "unlinking", errno);
        else
            (void)fcntl(spill->fd, F_SETFD, FD_CLOEXEC);
        if (status == CST_OK && !spill->folder)
            status = CST_ERROR_MEMORY;
    }
    cst_free(context, name);
    if (status != CST_OK) {
        cst_spill_close(context, spill);
        return status;
    }
    *out = spill;
    return CST_OK;
}

void cst_spill_close(cst_context *context, cst_spill *spill) {
    if (!spill)
        return;
    if (spill->fd >= 0)
        (void)close(spill->fd);
    cst_free(context, spill->folder);
    cst_free(context, spill);
}

cst_status cst_spill_write(cst_context *context, cst_spill *spill, uint64_t offset,
                           const void *data, size_t bytes) {
    const char *from = data;
    while (bytes > 0) {
        ssize_t wrote = pwrite(spill->fd, from, bytes < PIECE ? bytes : PIECE, (off_t)offset);
        if (wrote < 0 && errno == EINTR)
            continue;
        if (wrote <= 0)
            return failed(context, spill->folder, "writing", wrote < 0 ? errno : ENOSPC);
        from += wrote;
        offset += (uint64_t)wrote;
        bytes -= (size_t)wrote;
    }
    return CST_OK;
}

cst_status cst_spill_read(cst_context *context, const cst_spill *spill, uint64_t offset, void *out,
                          size_t bytes) {
    char *to = out;
    while (bytes > 0) {
        ssize_t got = pread(spill->fd, to, bytes < PIECE ? bytes : PIECE, (off_t)offset);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return failed(context, spill->folder, "reading", errno);
        if (got == 0)
            return cst_fail(context, CST_ERROR_IO,
                            "%s: a temporary file ends at byte %llu, before what was asked for",
                            spill->folder, (unsigned long long)offset);
        to += got;
        offset += (uint64_t)got;
        bytes -= (size_t)got;
    }
    return CST_OK;
}
