/* Model files, read from disk and from memory; sections.c has the bytes. */
#include "core/ranks.h"

#include "core/retry.h"
#include "model/codec.h"
#include "model/stack.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- bytes of what may be a pipe ---- */

/* A pipe may have no writer, or one that takes its time: a call that blocks there would not be over
 * when the caller wants to stop, so none does. */

enum { WAIT_MS = 50 };

typedef struct {
    const char *path;
    int fd;
    bool unwritten; /* a pipe that may still wait for its writer: without one it reads as ended */
    int waits;      /* without bytes so far */
    double asked;   /* when the caller was, seconds */
} input;

/* Until there are bytes, or reading says what else. */
static cst_status wait_for_bytes(cst_context *context, input *from) {
    struct pollfd bytes = {.fd = from->fd, .events = POLLIN};
    for (;;) {
        double now = cst_seconds();
        if (now - from->asked >= 1e-3 * WAIT_MS) {
            CST_TRY(cst_poll_waiting(context, "reading"));
            from->asked = now;
        }
        if (++from->waits == CST_WAITS_SAID)
            cst_notice(context, "%s: is a pipe: waiting for a program that writes to it",
                       from->path);
        int ready = poll(&bytes, 1, WAIT_MS);
        if (ready > 0 || (ready < 0 && errno != EINTR))
            return CST_OK;
    }
}

/* Up to `bytes` of them at `*used`, to which they are added; fewer only at the end of the file. */
static cst_status read_piece(cst_context *context, input *from, uint8_t *out, size_t bytes,
                             size_t *used) {
    for (const size_t end = *used + bytes; *used < end;) {
        ssize_t got = cst_read(from->fd, out + *used, end - *used);
        if (got < 0 && errno != EAGAIN)
            return cst_fail(context, CST_ERROR_IO, "%s: byte %zu: reading failed: %s", from->path,
                            *used, strerror(errno));
        if (got == 0 && !from->unwritten)
            break;
        from->unwritten = false;
        *used += got > 0 ? (size_t)got : 0;
        if (got <= 0) {
            CST_TRY(wait_for_bytes(context, from));
        }
    }
    return CST_OK;
}

/* ---- the file ---- */

/* How many bytes of the file are worth reading, going by its first `size`: what the header
 * announces and one more, so that a longer file shows; for another kind of file, none. */
static cst_status reading_limit(cst_context *context, const char *path, const uint8_t *bytes,
                                size_t size, size_t *limit) {
    *limit = size;
    if (size < CST_MODEL_HEADER_BYTES || memcmp(bytes, CST_MODEL_MAGIC, CST_MODEL_MAGIC_BYTES) != 0)
        return CST_OK;
    uint64_t length = 0;
    for (size_t i = 0; i < 8; i++)
        length |= (uint64_t)bytes[16 + i] << (8 * i);
    if (length > CST_MODEL_BYTES_MAX)
        return cst_fail(context, CST_ERROR_LIMIT,
                        "%s: byte 16: declares %llu bytes; corestack models have at most %zu", path,
                        (unsigned long long)length, CST_MODEL_BYTES_MAX);
    *limit = (size_t)length + 1;
    return CST_OK;
}

/* All bytes. Memory grows with what is there, whatever the header announces; the size that the
 * system gives is not asked for, since the file may be a pipe. */
static cst_status read_all(cst_context *context, input *from, uint8_t **bytes, size_t *size) {
    size_t capacity = (size_t)1 << 16;
    size_t limit = SIZE_MAX;
    size_t used = 0;
    uint8_t *buffer = cst_alloc(context, capacity, 1);
    cst_status status = buffer ? CST_OK : CST_ERROR_MEMORY;
    while (status == CST_OK) {
        size_t wanted = capacity < limit ? capacity : limit;
        bool first = used == 0;
        if (wanted > used)
            status = read_piece(context, from, buffer, wanted - used, &used);
        if (status == CST_OK && first)
            status = reading_limit(context, from->path, buffer, used, &limit);
        if (status != CST_OK || used < wanted || used >= limit)
            break;
        uint8_t *grown = cst_grow(context, buffer, used, 4 * capacity, 1);
        if (!grown) {
            status = CST_ERROR_MEMORY;
            break;
        }
        buffer = grown;
        capacity *= 4;
    }
    if (status == CST_OK) {
        *bytes = buffer;
        *size = used;
    } else {
        cst_free(context, buffer);
    }
    return status;
}

cst_status cst_model_load(cst_context *context, cst_model **out, const char *path) {
    CST_CLEAR(out);
    CST_ENTER(context);
    if (!out)
        return cst_fail(context, CST_ERROR_ARGUMENT, "cst_model_load: the model is required");
    if (!path)
        return cst_fail(context, CST_ERROR_ARGUMENT, "cst_model_load: the path is required");
    struct stat info;
    input from = {.path = path, .fd = cst_open_file(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC, 0)};
    if (from.fd < 0)
        return cst_fail(context, CST_ERROR_IO, "%s: cannot open the file: %s", path,
                        strerror(errno));
    from.unwritten = fstat(from.fd, &info) == 0 && S_ISFIFO(info.st_mode);
    uint8_t *bytes = NULL;
    size_t size = 0;
    cst_status status = CST_OK;
    if (from.unwritten && cst_ranks_share(context))
        status = cst_fail(context, CST_ERROR_IO,
                          "%s: is a pipe, which only one rank can read; write the model to a file "
                          "first",
                          path);
    CST_THEN(read_all(context, &from, &bytes, &size));
    (void)close(from.fd);
    CST_THEN(cst_stack_decode(context, path, bytes, size, out));
    cst_free(context, bytes);
    return cst_why(context, status);
}

cst_status cst_model_load_memory(cst_context *context, cst_model **out, const void *bytes,
                                 size_t size) {
    CST_CLEAR(out);
    CST_ENTER(context);
    if (!out)
        return cst_fail(context, CST_ERROR_ARGUMENT,
                        "cst_model_load_memory: the model is required");
    if (!bytes && size > 0)
        return cst_fail(context, CST_ERROR_ARGUMENT, "cst_model_load_memory: bytes are required");
    return cst_why(context, cst_stack_decode(context, "model in memory", bytes, size, out));
}
