/*
 * Entries of a store: an npy that is converted as it is read, or a temporary file of float32 rows.
 */
#include "data/pool/stream.h"

#include "core/large.h"
#include "core/retry.h"
#include "data/pool/pieces.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

typedef struct stream {
    cst_row_file *rows;  /* the open file; NULL: `fd` */
    cst_convert convert; /* as it is before the first row */
    int fd;
    const char *where;
    int32_t classes;
} stream;

static void close_stream(cst_context *context, void *source) {
    stream *s = source;
    cst_row_file_close(context, s->rows);
    if (s->fd >= 0)
        (void)close(s->fd);
    cst_free(context, s);
}

/* ---- an npy ---- */

static cst_status fetch_npy(cst_context *context, const void *source, int64_t first, int64_t count,
                            unsigned char *raw) {
    const stream *s = source;
    return cst_npy_fetch(context, s->rows->npy, first, count, raw);
}

static cst_pieces pieces_of(const stream *s) {
    return (cst_pieces){
        .element = s->rows->npy, .convert = s->convert, .source = s, .fetch = fetch_npy};
}

static cst_status read_npy(cst_context *context, const void *source, int64_t first, int64_t count,
                           float *out) {
    cst_pieces pieces = pieces_of(source);
    return cst_pieces_read(context, &pieces, first, count, out);
}

cst_status cst_stream_open(cst_context *context, cst_row_file *rows, const cst_convert *convert,
                           int64_t first, int64_t count, cst_convert *looked,
                           cst_store_entry *out) {
    stream *s = cst_alloc(context, 1, sizeof *s);
    if (!s) {
        cst_row_file_close(context, rows);
        return CST_ERROR_MEMORY;
    }
    *s = (stream){.rows = rows,
                  .convert = *convert,
                  .fd = -1,
                  .where = convert->where,
                  .classes = convert->classes};
    cst_pieces pieces = pieces_of(s);
    cst_status status = cst_pieces_look(context, &pieces, first, count, looked);
    if (status != CST_OK) {
        close_stream(context, s);
        return status;
    }
    *out = (cst_store_entry){.source = s, .read = read_npy, .close = close_stream};
    return CST_OK;
}

/* ---- a temporary file ---- */

static cst_status failed(cst_context *context, const stream *s, const char *doing, ssize_t got) {
    return cst_fail(context, CST_ERROR_IO,
                    "%s: %s its temporary copy failed: %s; set TMPDIR to a folder that works or "
                    "give more memory",
                    s->where, doing, got == 0 ? "it ends too early" : strerror(errno));
}

static cst_status read_copy(cst_context *context, const void *source, int64_t first, int64_t count,
                            float *out) {
    const stream *s = source;
    size_t row = (size_t)s->classes * sizeof *out;
    size_t bytes = (size_t)count * row;
    for (size_t done = 0; done < bytes;) {
        ssize_t got =
            cst_pread(s->fd, (char *)out + done, bytes - done, (off_t)((size_t)first * row + done));
        if (got <= 0)
            return failed(context, s, "reading", got);
        done += (size_t)got;
    }
    return CST_OK;
}

cst_status cst_stream_create(cst_context *context, const char *where, int64_t rows, int32_t classes,
                             cst_store_entry *out) {
    size_t bytes = 0;
    if (!cst_size_mul((size_t)rows, (size_t)classes, &bytes) ||
        !cst_size_mul(bytes, sizeof(float), &bytes))
        return cst_fail(context, CST_ERROR_LIMIT, "%s: too many values", where);
    stream *s = cst_alloc(context, 1, sizeof *s);
    if (!s)
        return CST_ERROR_MEMORY;
    *s = (stream){.fd = -1, .where = where, .classes = classes};
    cst_status status = cst_temporary_file(context, bytes, &s->fd);
    if (status != CST_OK) {
        close_stream(context, s);
        return status;
    }
    *out = (cst_store_entry){.source = s, .read = read_copy, .close = close_stream};
    return CST_OK;
}

cst_status cst_stream_write(cst_context *context, const cst_store_entry *entry, int64_t first,
                            int64_t count, const float *values) {
    const stream *s = entry->source;
    size_t row = (size_t)s->classes * sizeof *values;
    size_t bytes = (size_t)count * row;
    for (size_t done = 0; done < bytes;) {
        ssize_t put = pwrite(s->fd, (const char *)values + done, bytes - done,
                             (off_t)((size_t)first * row + done));
        if (put < 0 && errno == EINTR)
            continue;
        if (put <= 0)
            return failed(context, s, "writing", put);
        done += (size_t)put;
    }
    return CST_OK;
}
