/*
 * Reading from an open file at an offset, in pieces, so that an interrupt is noticed. Under every
 * reader. Paper: none.
 */
#include "io/bytes.h"

#include "base/retry.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

cst_status cst_read_plain(cst_context *context, int fd, const char *name, uint64_t size,
                          uint64_t offset, void *out, size_t bytes) {
    unsigned char *to = out;
    size_t done = 0;
    while (done < bytes) {
        size_t want = bytes - done < CST_PIECE_BYTES ? bytes - done : CST_PIECE_BYTES;
        cst_status status = cst_poll_reading(context);
        if (status != CST_OK)
            return status;
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
