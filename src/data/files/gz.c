/*
 * Files of gzip through zlib: checked to their end when they are opened, then inflated as they are
 * read. Small ones stay in memory. Under cst_bytes.
 */
#include "core/call_files.h"
#include "data/files/bytes.h"

#include <string.h>
#include <unistd.h>
#include <zlib.h>

enum { IN_BYTES = 1 << 16, KEPT_BYTES = 1 << 24, GZIP_WINDOW = 15 + 16 };

/* What a call knows of a file that it has read to its end. */
typedef struct cst_gz_text {
    uint64_t size;
    unsigned char *bytes; /* all of it, where that is little; else NULL */
} cst_gz_text;

struct cst_gz {
    char *name;
    int fd;
    uint64_t bytes; /* of the file */
    const cst_gz_text *text;
    cst_gz_text *own; /* the same, where nobody else keeps it */
    uint64_t taken;   /* of the file, given to zlib */
    uint64_t position;
    unsigned char in[IN_BYTES];
    z_stream stream;
    bool open;
    bool ended; /* after the last part of the file */
};

static cst_status broken(cst_context *context, const cst_gz *gz, const char *how) {
    return cst_fail(context, CST_ERROR_FORMAT,
                    "%s: the gzip file is %s after %llu bytes of text; was it copied to the end? "
                    "Write it again",
                    gz->name, how, (unsigned long long)gz->position);
}

static void free_text(cst_context *context, void *value) {
    cst_gz_text *t = value;
    if (!t)
        return;
    cst_free(context, t->bytes);
    cst_free(context, t);
}

/* Back to the beginning. */
static cst_status restart(cst_context *context, cst_gz *gz) {
    if (gz->open)
        (void)inflateEnd(&gz->stream);
    gz->open = false;
    gz->ended = false;
    gz->taken = gz->position = 0;
    memset(&gz->stream, 0, sizeof gz->stream);
    if (inflateInit2(&gz->stream, GZIP_WINDOW) != Z_OK)
        return cst_fail(context, CST_ERROR_MEMORY, "out of memory");
    gz->open = true;
    return CST_OK;
}

/* Gives zlib more of the file, where it has nothing left. */
static cst_status feed(cst_context *context, cst_gz *gz) {
    if (gz->stream.avail_in > 0 || gz->taken == gz->bytes)
        return CST_OK;
    uint64_t left = gz->bytes - gz->taken;
    size_t part = left < IN_BYTES ? (size_t)left : IN_BYTES;
    cst_status status =
        cst_read_plain(context, gz->fd, gz->name, gz->bytes, gz->taken, gz->in, part);
    if (status == CST_OK) {
        gz->taken += part;
        gz->stream.next_in = gz->in;
        gz->stream.avail_in = (uInt)part;
    }
    return status;
}

/* After one part: another may follow, as in files that were put together. Zeros that pad the file
 * are passed over. */
static cst_status next_part(cst_context *context, cst_gz *gz) {
    cst_status status = feed(context, gz);
    while (status == CST_OK && gz->stream.avail_in > 0 && *gz->stream.next_in == 0) {
        gz->stream.next_in++;
        gz->stream.avail_in--;
        status = feed(context, gz);
    }
    if (status != CST_OK)
        return status;
    gz->ended = gz->stream.avail_in == 0;
    if (!gz->ended && inflateReset(&gz->stream) != Z_OK)
        return cst_fail(context, CST_ERROR_INTERNAL, "%s: zlib cannot go on", gz->name);
    return CST_OK;
}

/* Inflates at most `bytes`; fewer only at the end of the text. */
static cst_status inflate_some(cst_context *context, cst_gz *gz, unsigned char *out, size_t bytes,
                               size_t *done) {
    *done = 0;
    while (*done < bytes && !gz->ended) {
        size_t want = bytes - *done < CST_PIECE_BYTES ? bytes - *done : CST_PIECE_BYTES;
        cst_status status = cst_poll_reading(context);
        CST_THEN(feed(context, gz));
        if (status != CST_OK)
            return status;
        gz->stream.next_out = out + *done;
        gz->stream.avail_out = (uInt)want;
        int code = inflate(&gz->stream, Z_NO_FLUSH);
        size_t got = want - gz->stream.avail_out;
        *done += got;
        gz->position += got;
        if (code == Z_MEM_ERROR)
            return cst_fail(context, CST_ERROR_MEMORY, "out of memory");
        if (code == Z_STREAM_END)
            status = next_part(context, gz);
        else if (code != Z_OK && code != Z_BUF_ERROR)
            status = broken(context, gz, "damaged");
        else if (got == 0 && gz->stream.avail_in == 0 && gz->taken == gz->bytes)
            status = broken(context, gz, "truncated: it ends");
        if (status != CST_OK)
            return status;
    }
    return CST_OK;
}

static cst_status too_large(cst_context *context, const cst_gz *gz, uint64_t limit) {
    return cst_fail(context, CST_ERROR_LIMIT,
                    "%s: holds more than %llu bytes, the limit for a compressed file (raise it, or "
                    "decompress the file)",
                    gz->name, (unsigned long long)limit);
}

/* Inflates to the end, for the size and zlib's checks. What is little is kept. */
static cst_status survey(cst_context *context, cst_gz *gz, uint64_t limit) {
    size_t room = 1 << 16;
    size_t used = 0;
    unsigned char *memory = cst_alloc(context, room, 1);
    gz->own = cst_alloc(context, 1, sizeof *gz->own);
    cst_status status = memory && gz->own ? restart(context, gz) : CST_ERROR_MEMORY;
    while (status == CST_OK && !gz->ended) {
        if (used == room && room < KEPT_BYTES) {
            unsigned char *grown = cst_grow(context, memory, used, 4 * room, 1);
            status = grown ? CST_OK : CST_ERROR_MEMORY;
            memory = grown ? grown : memory;
            room = grown ? 4 * room : room;
        } else if (used == room) {
            used = 0; /* too much to keep: only counted from here on */
        }
        size_t done = 0;
        CST_THEN(inflate_some(context, gz, memory + used, room - used, &done));
        used += done;
        if (status == CST_OK && gz->position > limit)
            status = too_large(context, gz, limit);
    }
    if (status == CST_OK && gz->position == 0)
        status = cst_fail(context, CST_ERROR_FORMAT,
                          "%s: the file is empty (0 bytes of text); was it written to the end?",
                          gz->name);
    bool whole = status == CST_OK && gz->position == used;
    if (gz->own)
        *gz->own = (cst_gz_text){.size = gz->position, .bytes = whole ? memory : NULL};
    if (!whole)
        cst_free(context, memory);
    gz->text = gz->own;
    return status;
}

/* The first look at a file in a call. */
static cst_status open_first(cst_context *context, cst_gz *gz, struct stat *info, uint64_t limit) {
    unsigned char magic[2] = {0};
    cst_status status = cst_open_plain(context, gz->name, &gz->fd, info);
    if (status != CST_OK)
        return status;
    gz->bytes = (uint64_t)info->st_size;
    if (gz->bytes >= sizeof magic)
        status = cst_read_plain(context, gz->fd, gz->name, gz->bytes, 0, magic, sizeof magic);
    if (status == CST_OK && (magic[0] != 0x1f || magic[1] != 0x8b))
        status = cst_fail(context, CST_ERROR_FORMAT,
                          "%s: is called .gz, but is not a gzip file; rename it to what it is",
                          gz->name);
    CST_THEN(survey(context, gz, limit));
    if (status != CST_OK)
        return status;
    bool whole = gz->own->bytes != NULL;
    if (cst_call_file_add(context, gz->name, whole ? -1 : gz->fd, info, gz->own,
                          whole ? (size_t)gz->own->size : 0, free_text))
        gz->own = NULL;
    return CST_OK;
}

cst_status cst_gz_open(cst_context *context, cst_gz **out, const char *path, struct stat *info,
                       uint64_t limit) {
    *out = NULL;
    cst_gz *gz = cst_alloc(context, 1, sizeof *gz);
    if (!gz)
        return CST_ERROR_MEMORY;
    gz->fd = -1;
    gz->name = cst_strdup(context, path);
    cst_status status = gz->name ? CST_OK : CST_ERROR_MEMORY;
    if (status == CST_OK)
        gz->text = cst_call_file_find(context, path, free_text, &gz->fd, info);
    if (status == CST_OK && gz->text)
        gz->bytes = (uint64_t)info->st_size;
    else
        CST_THEN(open_first(context, gz, info, limit));
    if (status == CST_OK && gz->text->size > limit)
        status = too_large(context, gz, limit);
    if (status == CST_OK && !gz->text->bytes)
        status = restart(context, gz);
    if (status != CST_OK) {
        cst_gz_close(context, gz);
        return status;
    }
    *out = gz;
    return CST_OK;
}

void cst_gz_close(cst_context *context, cst_gz *gz) {
    if (!gz)
        return;
    if (gz->open)
        (void)inflateEnd(&gz->stream);
    if (gz->fd >= 0)
        (void)close(gz->fd);
    free_text(context, gz->own);
    cst_free(context, gz->name);
    cst_free(context, gz);
}

uint64_t cst_gz_size(const cst_gz *gz) {
    return gz->text->size;
}

int cst_gz_descriptor(const cst_gz *gz) {
    return gz->fd;
}

cst_status cst_gz_read(cst_context *context, cst_gz *gz, uint64_t offset, void *out, size_t bytes) {
    if (gz->text->bytes) {
        memcpy(out, gz->text->bytes + offset, bytes);
        return CST_OK;
    }
    cst_status status = offset < gz->position ? restart(context, gz) : CST_OK;
    while (status == CST_OK && gz->position < offset) {
        unsigned char skipped[1 << 14];
        uint64_t left = offset - gz->position;
        size_t done = 0;
        status = inflate_some(context, gz, skipped,
                              left < sizeof skipped ? (size_t)left : sizeof skipped, &done);
        if (status == CST_OK && done == 0)
            status = broken(context, gz, "shorter than it was: it ends");
    }
    size_t done = 0;
    CST_THEN(inflate_some(context, gz, out, bytes, &done));
    if (status == CST_OK && done < bytes)
        status = broken(context, gz, "shorter than it was: it ends");
    return status;
}
