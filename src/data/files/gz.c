/* Files of gzip through zlib: read to their end, and so checked, when they are opened. */
#include "data/files/bytes.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <zlib.h>

enum { KEPT_BYTES = 1 << 24 };

/* The text of a file that was read to its end. */
typedef struct gz_text {
    uint64_t size;
    unsigned char *bytes; /* NULL if it is large */
} gz_text;

typedef struct gz {
    const char *name;
    gzFile file;
    uint64_t position;
    const unsigned char *bytes; /* all of the text, or NULL */
} gz;

static cst_status broken(cst_context *context, const gz *g) {
    int code = Z_OK;
    (void)gzerror(g->file, &code);
    if (code == Z_MEM_ERROR)
        return cst_fail(context, CST_ERROR_MEMORY, "out of memory");
    if (code == Z_ERRNO)
        return cst_fail(context, CST_ERROR_IO, "%s: reading failed: %s", g->name, strerror(errno));
    return cst_fail(context, CST_ERROR_FORMAT,
                    "%s: the gzip file is %s after %" PRIu64
                    " bytes of text; was it copied to the end? Write it again",
                    g->name,
                    code == Z_BUF_ERROR ? "truncated: it ends"
                    : code == Z_OK      ? "shorter than it was: it ends"
                                        : "damaged",
                    g->position);
}

/* At most `bytes`; fewer only at the end of the text. */
static cst_status inflate_some(cst_context *context, gz *g, unsigned char *out, size_t bytes,
                               size_t *done) {
    size_t want = 0;
    int got = 0;
    for (*done = 0; *done < bytes && (size_t)got == want; *done += (size_t)got) {
        int code = Z_OK;
        want = bytes - *done < CST_PIECE_BYTES ? bytes - *done : CST_PIECE_BYTES;
        CST_TRY(cst_poll_reading(context));
        got = gzread(g->file, out + *done, (unsigned)want);
        g->position += got > 0 ? (uint64_t)got : 0;
        if (got >= 0 && (size_t)got < want)
            (void)gzerror(g->file, &code);
        if (got < 0 || code == Z_BUF_ERROR)
            return broken(context, g);
    }
    return CST_OK;
}

static cst_status too_large(cst_context *context, const gz *g, uint64_t limit) {
    return cst_fail(context, CST_ERROR_LIMIT,
                    "%s: holds more than %" PRIu64
                    " bytes, the limit for a compressed file (raise it, or decompress the file)",
                    g->name, limit);
}

static void free_text(cst_context *context, void *value) {
    gz_text *text = value;
    cst_free(context, text->bytes);
    cst_free(context, text);
}

/* Reads to the end, for the size and zlib's checks, and keeps what is little. */
static cst_status survey(cst_context *context, gz *g, uint64_t limit, gz_text *text) {
    size_t room = 1 << 16;
    size_t used = 0;
    text->bytes = cst_alloc(context, room, 1);
    if (!text->bytes)
        return CST_ERROR_MEMORY;
    for (size_t done = room; done > 0; used += done) {
        if (used == room && room < KEPT_BYTES) {
            unsigned char *grown = cst_grow(context, text->bytes, used, 4 * room, 1);
            if (!grown)
                return CST_ERROR_MEMORY;
            text->bytes = grown;
            room *= 4;
        } else if (used == room) {
            used = 0; /* too much to keep: only counted from here on */
        }
        CST_TRY(inflate_some(context, g, text->bytes + used, room - used, &done));
        if (g->position > limit)
            return too_large(context, g, limit);
    }
    if (g->position == 0)
        return cst_fail(context, CST_ERROR_FORMAT,
                        "%s: the file is empty (0 bytes of text); was it written to the end?",
                        g->name);
    text->size = g->position;
    if (g->position != used) {
        cst_free(context, text->bytes);
        text->bytes = NULL;
    }
    return CST_OK;
}

static void close_gz(cst_context *context, void *state) {
    (void)context;
    (void)gzclose(((gz *)state)->file);
}

static cst_status open_file(cst_context *context, cst_scope *scope, gz *g, int *fd,
                            struct stat *info) {
    unsigned char magic[2] = {0};
    CST_TRY(cst_open_plain(context, g->name, fd, info));
    uint64_t size = (uint64_t)info->st_size;
    if (size >= sizeof magic)
        CST_TRY(cst_read_plain(context, *fd, g->name, size, 0, magic, sizeof magic));
    if (magic[0] != 0x1f || magic[1] != 0x8b)
        return cst_fail(context, CST_ERROR_FORMAT,
                        "%s: is called .gz, but is not a gzip file; rename it to what it is",
                        g->name);
    int own = fcntl(*fd, F_DUPFD_CLOEXEC, 0);
    g->file = own < 0 ? NULL : gzdopen(own, "rb");
    if (g->file)
        return cst_scope_own(context, scope, close_gz, g);
    int reason = errno;
    if (own < 0)
        return cst_fail(context, CST_ERROR_IO, "%s: cannot open the file: %s", g->name,
                        strerror(reason));
    (void)close(own);
    return cst_fail(context, CST_ERROR_MEMORY, "out of memory");
}

static cst_status read_gz(cst_context *context, void *state, uint64_t offset, void *out,
                          size_t bytes) {
    unsigned char skipped[1 << 14];
    size_t done = 0;
    gz *g = state;
    if (g->bytes) {
        memcpy(out, g->bytes + offset, bytes);
        return CST_OK;
    }
    if (offset < g->position) {
        if (gzrewind(g->file) != 0)
            return broken(context, g);
        g->position = 0;
    }
    while (g->position < offset) {
        uint64_t left = offset - g->position;
        CST_TRY(inflate_some(context, g, skipped,
                             left < sizeof skipped ? (size_t)left : sizeof skipped, &done));
        if (done == 0)
            return broken(context, g);
    }
    CST_TRY(inflate_some(context, g, out, bytes, &done));
    return done == bytes ? CST_OK : broken(context, g);
}

cst_status cst_gz_open(cst_context *context, cst_scope *scope, cst_packed *out, const char *path,
                       uint64_t limit, int *fd, struct stat *info) {
    struct stat now;
    CST_NEW(context, scope, gz, g, 1);
    g->name = path;
    const gz_text *text = cst_call_file_find(context, path, free_text, fd, info);
    if (text && !text->bytes) {
        CST_TRY(open_file(context, scope, g, fd, &now));
        if (now.st_ino != info->st_ino || !cst_file_unchanged(info, &now))
            return cst_file_changed(context, path);
    } else if (!text) {
        gz_text *made = cst_alloc(context, 1, sizeof *made);
        if (!made)
            return CST_ERROR_MEMORY;
        cst_status status = open_file(context, scope, g, fd, info);
        CST_THEN(survey(context, g, limit, made));
        if (status != CST_OK || !cst_call_file_add(context, path, -1, info, made,
                                                   made->bytes ? (size_t)made->size : 0, free_text))
            CST_TRY(cst_scope_own(context, scope, free_text, made));
        CST_TRY(status);
        text = made;
    }
    if (text->size > limit)
        return too_large(context, g, limit);
    g->bytes = text->bytes;
    *out = (cst_packed){.state = g, .size = text->size, .read = read_gz};
    return CST_OK;
}
