/* Opens regular files and reads them at an offset, in pieces, so that an interrupt is noticed. */
#include "data/files/bytes.h"

#include "core/retry.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

cst_status cst_open_plain(cst_context *context, const char *path, int *fd, struct stat *info) {
    *fd = -1;
    /* O_NONBLOCK: a named pipe must not hang the caller; it is refused below. */
    int file = cst_open_file(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK, 0);
    if (file < 0)
        return cst_fail(context, CST_ERROR_IO, "%s: cannot open the file: %s", path,
                        strerror(errno));
    if (fstat(file, info) != 0) {
        int reason = errno;
        (void)close(file);
        return cst_fail(context, CST_ERROR_IO, "%s: cannot get its status: %s", path,
                        strerror(reason));
    }
    if (!S_ISREG(info->st_mode)) {
        (void)close(file);
        return cst_fail(
            context, CST_ERROR_IO, "%s: is %s", path,
            S_ISDIR(info->st_mode)
                ? "a folder, not a file; name the file itself"
                : "a device or pipe, not a file, and is read more than once; write what "
                  "it gives to a file first (.csv.gz is read as it is)");
    }
    if (info->st_size == 0) {
        (void)close(file);
        return cst_fail(context, CST_ERROR_FORMAT,
                        "%s: the file is empty (0 bytes); was it written to the end?", path);
    }
    *fd = file;
    return CST_OK;
}

bool cst_file_unchanged(const struct stat *before, const struct stat *now) {
    return before->st_size == now->st_size && before->st_mtim.tv_sec == now->st_mtim.tv_sec &&
           before->st_mtim.tv_nsec == now->st_mtim.tv_nsec;
}

cst_status cst_file_changed(cst_context *context, const char *path) {
    return cst_fail(context, CST_ERROR_IO,
                    "%s: the file was replaced or changed while it was being read; run the command "
                    "again when nothing writes to it",
                    path);
}

cst_status cst_read_plain(cst_context *context, int fd, const char *name, uint64_t size,
                          uint64_t offset, void *out, size_t bytes) {
    unsigned char *to = out;
    size_t done = 0;
    while (done < bytes) {
        size_t want = bytes - done < CST_PIECE_BYTES ? bytes - done : CST_PIECE_BYTES;
        CST_TRY(cst_poll_reading(context));
        ssize_t got = cst_pread(fd, to + done, want, (off_t)(offset + done));
        if (got < 0)
            return cst_fail(context, CST_ERROR_IO, "%s: reading at byte %llu failed: %s", name,
                            (unsigned long long)(offset + done), strerror(errno));
        if (got == 0)
            return cst_fail(context, CST_ERROR_IO,
                            "%s: ends at byte %llu, but had %llu bytes when it was opened; did it "
                            "change in the meantime?",
                            name, (unsigned long long)(offset + done), (unsigned long long)size);
        done += (size_t)got;
    }
    return CST_OK;
}
