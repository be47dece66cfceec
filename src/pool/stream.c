/*
 * Entries of a store: an npy that is converted as it is read, or a temporary file of float32 rows.
 */
#include "pool/stream.h"

#include "base/large.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

/* Values converted at a time: what stays in the cache. */
enum { PIECE_VALUES = 1 << 15 };

typedef struct stream {
    cst_rows *rows;      /* the open file; NULL: `fd` */
    cst_convert convert; /* as it is before the first row */
    int fd;
    const char *where;
    int32_t classes;
} stream;

static void close_stream(cst_context *context, void *source) {
    stream *s = source;
    cst_rows_close(context, s->rows);
    if (s->fd >= 0)
        (void)close(s->fd);
    cst_free(context, s);
}

/* ---- an npy -----------------------------------------------------------------------------------
 */

typedef struct buffers {
    unsigned char *raw;
    float *values;
    double *wide;
} buffers;

/* Rows converted at a time, at most `rows`. */
static int64_t piece_rows(const stream *s, int64_t rows) {
    int64_t piece = PIECE_VALUES / s->convert.width > 0 ? PIECE_VALUES / s->convert.width : 1;
    return piece < rows ? piece : rows;
}

static void free_buffers(cst_context *context, buffers *b) {
    cst_free(context, b->raw);
    cst_free(context, b->values);
    cst_free(context, b->wide);
}

/* Freed with free_buffers also after a failure. */
static cst_status make_buffers(cst_context *context, const stream *s, int64_t rows, buffers *b) {
    size_t cells = (size_t)rows * (size_t)s->convert.width;
    *b = (buffers){.raw = cst_alloc(context, cells, s->rows->npy->item),
                   .values = cst_alloc(context, cells, sizeof(float)),
                   .wide = cst_alloc(context, cells, sizeof(double))};
    return b->raw && b->values && b->wide ? CST_OK : CST_ERROR_MEMORY;
}

static cst_status convert_rows(cst_context *context, const stream *s, cst_convert *convert,
                               int64_t first, int64_t count, const buffers *b, float *out) {
    const cst_npy *npy = s->rows->npy;
    size_t width = (size_t)convert->width;
    size_t cells = (size_t)count * width;
    bool narrow = cst_npy_is_f32(npy);
    cst_status status = cst_npy_fetch(context, npy, first, count, b->raw);
    if (status == CST_OK && narrow)
        cst_npy_decode_f32(npy, b->raw, cells, b->values);
    else if (status == CST_OK)
        cst_npy_decode_f64(npy, b->raw, cells, b->wide);
    for (int64_t i = 0; status == CST_OK && i < count; i++) {
        float *to = out + (size_t)i * (size_t)s->classes;
        status = narrow
                     ? cst_convert_row_f32(context, convert, first, i,
                                           b->values + (size_t)i * width, b->wide, to)
                     : cst_convert_row(context, convert, first, i, b->wide + (size_t)i * width, to);
    }
    return status;
}

static cst_status read_npy(cst_context *context, const void *source, int64_t first, int64_t count,
                           float *out) {
    const stream *s = source;
    int64_t piece = piece_rows(s, count);
    cst_convert convert = s->convert;
    buffers b;
    cst_status status = make_buffers(context, s, piece, &b);
    for (int64_t at = 0; status == CST_OK && at < count; at += piece) {
        int64_t part = count - at < piece ? count - at : piece;
        status = convert_rows(context, s, &convert, first + at, part, &b,
                              out + (size_t)at * (size_t)s->classes);
    }
    free_buffers(context, &b);
    return status;
}

/* Reads everything once, so that what is wrong with a file is said before anything is computed. */
static cst_status check_all(cst_context *context, const stream *s) {
    int64_t rows = s->rows->row_count;
    int64_t piece = piece_rows(s, rows);
    cst_convert convert = s->convert;
    buffers b;
    float *out = cst_alloc(context, (size_t)piece * (size_t)s->classes, sizeof *out);
    cst_status status = make_buffers(context, s, piece, &b);
    if (!out)
        status = CST_ERROR_MEMORY;
    for (int64_t first = 0; status == CST_OK && first < rows; first += piece) {
        int64_t part = rows - first < piece ? rows - first : piece;
        status = cst_poll(context);
        if (status == CST_OK)
            status = convert_rows(context, s, &convert, first, part, &b, out);
    }
    if (status == CST_OK)
        status = cst_convert_finish(context, &convert);
    cst_free(context, out);
    free_buffers(context, &b);
    return status;
}

cst_status cst_stream_open(cst_context *context, cst_rows *rows, const cst_convert *convert,
                           cst_store_entry *out) {
    stream *s = cst_alloc(context, 1, sizeof *s);
    if (!s) {
        cst_rows_close(context, rows);
        return CST_ERROR_MEMORY;
    }
    *s = (stream){.rows = rows,
                  .convert = *convert,
                  .fd = -1,
                  .where = convert->where,
                  .classes = convert->classes};
    s->convert.rows = NULL;
    cst_status status = check_all(context, s);
    if (status != CST_OK) {
        close_stream(context, s);
        return status;
    }
    *out = (cst_store_entry){.source = s, .read = read_npy, .close = close_stream};
    return CST_OK;
}

/* ---- a temporary file -------------------------------------------------------------------------
 */

static cst_status failed(cst_context *context, const stream *s, const char *doing, ssize_t got) {
    return cst_fail(context, CST_ERROR_IO,
                    "%s: %s its temporary copy failed: %s; set TMPDIR to a folder that works or "
                    "give more memory",
                    s->where, doing, got == 0 ? "it ends early" : strerror(errno));
}

static cst_status read_copy(cst_context *context, const void *source, int64_t first, int64_t count,
                            float *out) {
    const stream *s = source;
    size_t row = (size_t)s->classes * sizeof *out;
    size_t bytes = (size_t)count * row;
    for (size_t done = 0; done < bytes;) {
        ssize_t got =
            pread(s->fd, (char *)out + done, bytes - done, (off_t)((size_t)first * row + done));
        if (got < 0 && errno == EINTR)
            continue;
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
