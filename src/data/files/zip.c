/* Members of npz archives through libzip, inflated as they are read, never beyond their size. */
#include "core/retry.h"
#include "data/files/bytes.h"
#include "data/readers/strings.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <zip.h>

/* Deflate expands at most 1032:1; beyond 1100:1, with slack for tiny members, is a lie. */
enum { RATIO_MAX = 1100, RATIO_SLACK = 4096 };

enum {
    MEMBERS_MAX = 10000,
    DIRECTORY_MAX = 1 << 25, /* bytes */
    NAMES_SHOWN = 8,
    END_BYTES = 22, /* the end record, without its comment */
    END64_BYTES = 56,
    LOCATOR_BYTES = 20,
    TAIL_MAX = LOCATOR_BYTES + END_BYTES + 65535, /* what libzip searches for end records */
    HIDDEN_MAX = 16
};

/* An archive's members, listed once in a call. */
typedef struct directory {
    cst_scope scope;
    cst_strings *names;  /* without a final .npy */
    cst_id_index *index; /* of the names */
    bool *npy;           /* the name had .npy */
    int hidden_count;    /* bytes before the end record that look like another one */
    uint64_t hidden[HIDDEN_MAX];
} directory;

/* An archive, or a member of it, as libzip reads it. */
typedef struct member {
    const char *path;
    const char *name; /* path#member, for messages */
    int fd;
    uint64_t bytes;         /* of the archive, when it was opened */
    uint64_t at;            /* libzip's place */
    const directory *hides; /* while the directory is read */
    zip_error_t error;
    cst_context *context; /* of the call that libzip reads for */
    int failure;          /* errno of a read of ours that failed; 0: none */
    bool ended;           /* the file ended before `bytes` */
    bool stopped;         /* the caller said so: the context has the message */
    uint64_t failed_at;   /* where one of them happened */
    zip_t *archive;
    zip_file_t *file;
    zip_uint64_t index; /* of the member */
    uint64_t size;
    uint64_t position; /* of `file` */
} member;

static bool reading_failed(const member *m) {
    return m->failure != 0 || m->ended || m->stopped;
}

/* In the words that plain files have (bytes.c): the archive may be a good one. */
static cst_status fail_reading(cst_context *context, const member *m) {
    const char *name = m->name ? m->name : m->path;
    if (m->stopped)
        return CST_ERROR_CANCELLED;
    if (m->failure)
        return cst_fail(context, CST_ERROR_IO, "%s: reading at byte %" PRIu64 " failed: %s", name,
                        m->failed_at, strerror(m->failure));
    return cst_fail(context, CST_ERROR_IO,
                    "%s: ends at byte %" PRIu64 ", but had %" PRIu64
                    " bytes when it was opened; did it change in the meantime?",
                    name, m->failed_at, m->bytes);
}

static cst_status damaged(cst_context *context, const char *path, const char *what) {
    return cst_fail(context, CST_ERROR_FORMAT,
                    "%s: not a readable zip archive: %s; was it written to the end?", path, what);
}

/* ---- the archive for libzip ---- */

/* Of several end records libzip would try each. */
static void hide_ends(const member *m, unsigned char *bytes, uint64_t at, size_t count) {
    for (int i = 0; m->hides && i < m->hides->hidden_count; i++)
        if (m->hides->hidden[i] >= at && m->hides->hidden[i] - at < count)
            bytes[m->hides->hidden[i] - at] = 0;
}

/* The next bytes of the file: fewer at its end, -1 where reading fails. */
static zip_int64_t fill(member *m, unsigned char *out, zip_uint64_t bytes) {
    zip_uint64_t done = 0;
    bytes = bytes < m->bytes - m->at ? bytes : m->bytes - m->at;
    while (done < bytes && !reading_failed(m)) {
        size_t want = bytes - done < CST_PIECE_BYTES ? (size_t)(bytes - done) : CST_PIECE_BYTES;
        m->stopped = cst_poll_reading(m->context) != CST_OK;
        ssize_t got = m->stopped ? -1 : cst_pread(m->fd, out + done, want, (off_t)m->at);
        m->failure = got < 0 && !m->stopped ? errno : 0;
        m->ended = got == 0;
        m->failed_at = m->at;
        if (got <= 0)
            break;
        hide_ends(m, out + done, m->at, (size_t)got);
        m->at += (size_t)got;
        done += (size_t)got;
    }
    if (!reading_failed(m))
        return (zip_int64_t)done;
    zip_error_set(&m->error, ZIP_ER_READ, m->failure);
    return -1; /* once and for all */
}

static zip_int64_t seek(member *m, void *data, zip_uint64_t length) {
    zip_int64_t to = zip_source_seek_compute_offset(m->at, m->bytes, data, length, &m->error);
    if (to < 0)
        return -1;
    m->at = (uint64_t)to;
    return 0;
}

static zip_int64_t tell_size(const member *m, zip_stat_t *out) {
    zip_stat_init(out);
    out->valid = ZIP_STAT_SIZE;
    out->size = m->bytes;
    return sizeof *out;
}

/* The archive as libzip reads it: from the file that was opened, whatever has its name by now; a
 * call that a signal interrupts is made again. */
static zip_int64_t serve(void *user, void *data, zip_uint64_t length, zip_source_cmd_t command) {
    member *m = user;
    switch (command) {
    case ZIP_SOURCE_OPEN:
        m->at = 0;
        return 0;
    case ZIP_SOURCE_READ:
        return fill(m, data, length);
    case ZIP_SOURCE_SEEK:
        return seek(m, data, length);
    case ZIP_SOURCE_TELL:
        return (zip_int64_t)m->at;
    case ZIP_SOURCE_STAT:
        return tell_size(m, data);
    case ZIP_SOURCE_ERROR:
        return zip_error_to_data(&m->error, data, length);
    case ZIP_SOURCE_CLOSE:
    case ZIP_SOURCE_FREE:
        return 0;
    case ZIP_SOURCE_SUPPORTS:
        return zip_source_make_command_bitmap(
            ZIP_SOURCE_OPEN, ZIP_SOURCE_READ, ZIP_SOURCE_CLOSE, ZIP_SOURCE_STAT, ZIP_SOURCE_ERROR,
            ZIP_SOURCE_FREE, ZIP_SOURCE_SEEK, ZIP_SOURCE_TELL, ZIP_SOURCE_SUPPORTS, -1);
    default:
        zip_error_set(&m->error, ZIP_ER_OPNOTSUPP, 0);
        return -1;
    }
}

static cst_status explain(cst_context *context, const member *m, zip_error_t *error) {
    if (reading_failed(m))
        return fail_reading(context, m);
    switch (zip_error_code_zip(error)) {
    case ZIP_ER_MEMORY:
        return cst_fail(context, CST_ERROR_MEMORY, "out of memory");
    case ZIP_ER_MULTIDISK:
        return cst_fail(context, CST_ERROR_UNSUPPORTED,
                        "%s: is one part of a multi-part archive; join the parts", m->path);
    case ZIP_ER_INCONS:
        return damaged(context, m->path,
                       m->archive ? "its directory says something else than the local headers"
                                  : "its end record and its directory disagree");
    default:
        return damaged(context, m->path, zip_error_strerror(error));
    }
}

static cst_status open_archive(cst_context *context, member *m, const directory *d, int flags,
                               zip_t **out) {
    zip_error_t error;
    zip_error_init(&error);
    m->hides = d;
    zip_source_t *source = zip_source_function_create(serve, m, &error);
    *out = source ? zip_open_from_source(source, ZIP_RDONLY | flags, &error) : NULL;
    if (source && !*out)
        zip_source_free(source);
    m->hides = NULL;
    cst_status status = *out ? CST_OK : explain(context, m, &error);
    zip_error_fini(&error);
    return status;
}

/* ---- the directory ---- */

static uint64_t number_at(const unsigned char *at, int bytes) {
    uint64_t value = 0;
    for (int i = 0; i < bytes; i++)
        value |= (uint64_t)at[i] << (8 * i);
    return value;
}

/* The last end record in the tail [bytes], as Python's zipfile; libzip sees none before it. */
static cst_status find_end(cst_context *context, const member *m, const unsigned char *tail,
                           size_t bytes, directory *d, const unsigned char **out) {
    *out = NULL;
    for (size_t at = bytes < END_BYTES ? 0 : bytes - END_BYTES + 1; at-- > 0;) {
        if (memcmp(tail + at, "PK\5\6", 4) != 0)
            continue;
        bool fits = at + END_BYTES + number_at(tail + at + 20, 2) == bytes;
        if (*out && (fits || d->hidden_count == HIDDEN_MAX))
            return cst_fail(context, CST_ERROR_FORMAT,
                            "%s: has the end records of two archives, and programs disagree on "
                            "which one to read; save it again with numpy.savez",
                            m->path);
        if (*out)
            d->hidden[d->hidden_count++] = m->bytes - bytes + at;
        else
            *out = tail + at;
    }
    return *out ? CST_OK : damaged(context, m->path, "it has no end record");
}

/* Caps what the end record claims before libzip takes memory for it. */
static cst_status check_end_record(cst_context *context, const member *m, directory *d) {
    size_t bytes = m->bytes < TAIL_MAX ? (size_t)m->bytes : TAIL_MAX;
    const unsigned char *end = NULL;
    CST_SCOPE(scope);
    CST_NEW(context, scope, unsigned char, tail, bytes);
    CST_TRY(cst_read_plain(context, m->fd, m->path, m->bytes, m->bytes - bytes, tail, bytes));
    CST_TRY(find_end(context, m, tail, bytes, d, &end));
    uint64_t members = number_at(end + 10, 2);
    uint64_t size = number_at(end + 12, 4);
    const unsigned char *locator = end - tail >= LOCATOR_BYTES ? end - LOCATOR_BYTES : NULL;
    if (locator && memcmp(locator, "PK\6\7", 4) == 0) { /* 64-bit numbers stand before it */
        unsigned char end64[END64_BYTES];
        uint64_t at = number_at(locator + 8, 8);
        if (m->bytes < END64_BYTES || at > m->bytes - END64_BYTES)
            return damaged(context, m->path, "its 64-bit end record is not where it should be");
        CST_TRY(cst_read_plain(context, m->fd, m->path, m->bytes, at, end64, sizeof end64));
        const uint64_t wide[3] = {number_at(end64 + 32, 8), number_at(end64 + 40, 8),
                                  number_at(end64 + 48, 8)};
        if ((members != 0xffff && members != wide[0]) || (size != 0xffffffff && size != wide[1]) ||
            (number_at(end + 16, 4) != 0xffffffff && number_at(end + 16, 4) != wide[2]))
            return damaged(context, m->path, "its two end records disagree");
        members = wide[0];
        size = wide[1];
    }
    if (members > MEMBERS_MAX)
        return cst_fail(context, CST_ERROR_LIMIT,
                        "%s: has %" PRIu64 " members; the limit is %d: split it", m->path, members,
                        MEMBERS_MAX);
    if (size > DIRECTORY_MAX)
        return cst_fail(context, CST_ERROR_LIMIT,
                        "%s: its directory has %" PRIu64
                        " bytes; the limit is %d: split it, or shorten the names of its members",
                        m->path, size, DIRECTORY_MAX);
    return CST_OK;
}

static bool ends_npy(const char *name, size_t length) {
    return length >= 4 && memcmp(name + length - 4, ".npy", 4) == 0;
}

static cst_status list_members(cst_context *context, const member *m, directory *d) {
    zip_int64_t count = zip_get_num_entries(m->archive, 0);
    CST_TRY(cst_strings_take(context, &d->scope, &d->names));
    CST_TAKE(context, &d->scope, d->npy, count);
    for (zip_int64_t i = 0; i < count; i++) {
        CST_TRY(cst_poll_item(context, i));
        const char *name = zip_get_name(m->archive, (zip_uint64_t)i, ZIP_FL_ENC_RAW);
        if (!name)
            return explain(context, m, zip_get_error(m->archive));
        size_t length = strlen(name);
        d->npy[i] = ends_npy(name, length);
        CST_TRY(cst_strings_add(context, d->names, name, d->npy[i] ? length - 4 : length));
    }
    int64_t twice[2];
    char quoted[CST_QUOTE_CHARS];
    CST_TRY(cst_id_index_build(context, &d->scope, &d->index, d->names, "an archive", twice));
    if (twice[0] < 0)
        return CST_OK;
    return cst_fail(
        context, CST_ERROR_FORMAT,
        "%s: has two arrays called '%s' (members %" PRId64 " and %" PRId64
        "), and programs disagree on which one to read; save it again with different names",
        m->path, cst_quote(quoted, cst_strings_at(d->names, twice[0])), twice[0], twice[1]);
}

static size_t directory_bytes(const directory *d) {
    size_t each = 2 * sizeof(size_t) + 16 * sizeof(uint32_t);
    return d->names->room + (size_t)d->names->count * each;
}

static void free_directory(cst_context *context, void *value) {
    directory *d = value;
    cst_scope_free(&d->scope);
    cst_free(context, d);
}

/* The directory of an archive that this call has not opened before. */
static cst_status read_directory(cst_context *context, member *m, directory *d) {
    CST_TRY(check_end_record(context, m, d));
    CST_TRY(open_archive(context, m, d, 0, &m->archive));
    return list_members(context, m, d);
}

static const char *list_names(const cst_strings *names, char *text, size_t room) {
    size_t used = 0;
    text[0] = '\0';
    for (int64_t i = 0; i < names->count && i <= NAMES_SHOWN && used < room; i++) {
        char quoted[CST_QUOTE_CHARS];
        const char *name = i < NAMES_SHOWN ? cst_strings_at(names, i) : "...";
        used += (size_t)cst_snprintf(text + used, room - used, "%s%s", i ? ", " : "",
                                     cst_quote(quoted, name));
    }
    return text;
}

/* The member called `name`, or the only one; "x.npy" is all of a member's name before it is a part
 * of "x.npy.npy". */
static cst_status choose(cst_context *context, const char *path, const directory *d,
                         const char *name, int64_t *out) {
    char list[(CST_QUOTE_CHARS + 2) * (NAMES_SHOWN + 1)];
    char quoted[CST_QUOTE_CHARS];
    *out = name ? -1 : 0;
    if (d->names->count < 1)
        return cst_fail(context, CST_ERROR_FORMAT, "%s: the archive has no members", path);
    if (!name && d->names->count > 1)
        return cst_fail(context, CST_ERROR_INPUT,
                        "%s: has %" PRId64 " arrays (%s); choose one with FILE.npz#NAME%s", path,
                        d->names->count, list_names(d->names, list, sizeof list),
                        cst_id_index_find(d->index, "logprobs") < 0
                            ? ""
                            : ", or, if it lists the likeliest classes, give such files only, for "
                              "task classification");
    if (name && ends_npy(name, strlen(name))) {
        char *stem = cst_format(context, "%.*s", (int)strlen(name) - 4, name);
        if (!stem)
            return CST_ERROR_MEMORY;
        *out = cst_id_index_find(d->index, stem);
        *out = *out >= 0 && d->npy[*out] ? *out : -1;
        cst_free(context, stem);
    }
    if (name && *out < 0)
        *out = cst_id_index_find(d->index, name);
    if (*out >= 0)
        return CST_OK;
    return cst_fail(context, CST_ERROR_INPUT, "%s: has no array '%s'; it holds %s", path,
                    cst_quote(quoted, name), list_names(d->names, list, sizeof list));
}

/* ---- the member ---- */

/* Refuses what cannot be read safely before a byte of it is inflated. */
static cst_status check_member(cst_context *context, member *m, uint64_t limit) {
    zip_stat_t info;
    zip_stat_init(&info);
    if (zip_stat_index(m->archive, m->index, 0, &info) != 0)
        return cst_fail(context, CST_ERROR_FORMAT, "%s: %s", m->name, zip_strerror(m->archive));
    const zip_uint64_t needed = ZIP_STAT_SIZE | ZIP_STAT_COMP_SIZE | ZIP_STAT_COMP_METHOD;
    if ((info.valid & needed) != needed)
        return cst_fail(context, CST_ERROR_FORMAT, "%s: the archive does not state the size",
                        m->name);
    if ((info.valid & ZIP_STAT_ENCRYPTION_METHOD) && info.encryption_method != ZIP_EM_NONE)
        return cst_fail(context, CST_ERROR_UNSUPPORTED,
                        "%s: is encrypted; save it without a password", m->name);
    if (info.comp_method != ZIP_CM_STORE && info.comp_method != ZIP_CM_DEFLATE)
        return cst_fail(context, CST_ERROR_UNSUPPORTED,
                        "%s: compression method %d is not supported; save it with numpy.savez or "
                        "numpy.savez_compressed",
                        m->name, (int)info.comp_method);
    if (info.comp_size > m->bytes)
        return cst_fail(context, CST_ERROR_FORMAT,
                        "%s: declares %" PRIu64 " compressed bytes in an archive of %" PRIu64
                        " bytes",
                        m->name, info.comp_size, m->bytes);
    if (info.size == 0)
        return cst_fail(context, CST_ERROR_FORMAT,
                        "%s: the member is empty (0 bytes); was it written to the end?", m->name);
    if (info.size / RATIO_MAX > info.comp_size + RATIO_SLACK / RATIO_MAX)
        return cst_fail(context, CST_ERROR_LIMIT,
                        "%s: declares %" PRIu64 " bytes from %" PRIu64
                        " compressed bytes, more than deflate can achieve (1032 to 1): a zip bomb "
                        "or a damaged archive",
                        m->name, info.size, info.comp_size);
    if (info.size > limit)
        return cst_fail(context, CST_ERROR_LIMIT,
                        "%s: declares %" PRIu64
                        " bytes; the limit for an archive member is %" PRIu64
                        " (raise it, or save as .npy)",
                        m->name, info.size, limit);
    m->size = info.size;
    return CST_OK;
}

/* Reads on from the current position; all of it or an error. */
static cst_status read_on(cst_context *context, member *m, unsigned char *out, size_t bytes) {
    while (bytes > 0) {
        size_t want = bytes < ((size_t)1 << 24) ? bytes : (size_t)1 << 24;
        zip_int64_t got = zip_fread(m->file, out, want);
        if (got < 0 && reading_failed(m))
            return fail_reading(context, m);
        if (got < 0)
            return cst_fail(context, CST_ERROR_FORMAT, "%s: damaged at byte %" PRIu64 ": %s",
                            m->name, m->position, zip_file_strerror(m->file));
        if (got == 0)
            return cst_fail(context, CST_ERROR_FORMAT,
                            "%s: truncated: declares %" PRIu64 " bytes, but %" PRIu64 " were found",
                            m->name, m->size, m->position);
        out += got;
        bytes -= (size_t)got;
        m->position += (uint64_t)got;
    }
    return CST_OK;
}

/* At the declared end nothing more may come; asking once more also makes libzip check the CRC. */
static cst_status check_end(cst_context *context, member *m) {
    unsigned char extra = 0;
    zip_int64_t got = zip_fread(m->file, &extra, 1);
    if (got < 0 && reading_failed(m))
        return fail_reading(context, m);
    if (got < 0)
        return cst_fail(context, CST_ERROR_FORMAT, "%s: damaged: %s", m->name,
                        zip_file_strerror(m->file));
    if (got > 0)
        return cst_fail(context, CST_ERROR_FORMAT,
                        "%s: inflates to more than the declared %" PRIu64
                        " bytes: a zip bomb or a damaged archive",
                        m->name, m->size);
    return CST_OK;
}

static cst_status read_member(cst_context *context, void *state, uint64_t offset, void *out,
                              size_t bytes) {
    unsigned char skipped[4096];
    member *m = state;
    if (m->file && (offset < m->position || reading_failed(m))) {
        (void)zip_fclose(m->file);
        m->file = NULL;
    }
    m->context = context;
    m->failure = 0;
    m->ended = m->stopped = false;
    if (!m->file) {
        m->position = 0;
        m->file = zip_fopen_index(m->archive, m->index, 0);
        if (!m->file && reading_failed(m))
            return fail_reading(context, m);
        if (!m->file)
            return cst_fail(context, CST_ERROR_FORMAT, "%s: %s", m->name, zip_strerror(m->archive));
    }
    while (m->position < offset) {
        uint64_t gap = offset - m->position;
        CST_TRY(read_on(context, m, skipped, gap < sizeof skipped ? (size_t)gap : sizeof skipped));
    }
    CST_TRY(read_on(context, m, out, bytes));
    return m->position == m->size ? check_end(context, m) : CST_OK;
}

static void close_member(cst_context *context, void *state) {
    member *m = state;
    (void)context;
    if (m->file)
        (void)zip_fclose(m->file);
    if (m->archive)
        zip_discard(m->archive);
    zip_error_fini(&m->error);
}

/* Whether all that the archive says of its members is said twice. */
static cst_status check_consistency(cst_context *context, member *m, const directory *d) {
    zip_t *strict = NULL;
    CST_TRY(open_archive(context, m, d, ZIP_CHECKCONS, &strict));
    zip_discard(strict);
    return CST_OK;
}

cst_status cst_zip_open(cst_context *context, cst_scope *scope, cst_packed *out,
                        const char *archive, const char *name, uint64_t limit, int *fd,
                        struct stat *info) {
    CST_SCOPE(own);
    directory *made = NULL;
    const directory *d = cst_call_file_find(context, archive, free_directory, fd, info);
    if (!d)
        CST_TRY(cst_open_plain(context, archive, fd, info));
    CST_NEW(context, scope, member, m, 1);
    *m = (member){.path = archive, .fd = *fd, .bytes = (uint64_t)info->st_size, .context = context};
    zip_error_init(&m->error);
    CST_TRY(cst_scope_own(context, scope, close_member, m));
    if (d) {
        CST_TRY(open_archive(context, m, d, 0, &m->archive));
    } else {
        made = cst_alloc(context, 1, sizeof *made);
        if (!made)
            return CST_ERROR_MEMORY;
        cst_status status = read_directory(context, m, made);
        if (status != CST_OK || !cst_call_file_add(context, archive, *fd, info, made,
                                                   directory_bytes(made), free_directory))
            CST_TRY(cst_scope_own(context, own, free_directory, made));
        CST_TRY(status);
        d = made;
    }
    int64_t index = 0;
    char quoted[CST_QUOTE_CHARS];
    CST_TRY(choose(context, archive, d, name, &index));
    char *full =
        cst_format(context, "%s#%s%s", archive, cst_quote(quoted, cst_strings_at(d->names, index)),
                   d->npy[index] ? ".npy" : "");
    m->name = full ? cst_take_text(context, scope, full) : NULL;
    cst_free(context, full);
    if (!m->name)
        return CST_ERROR_MEMORY;
    m->index = (zip_uint64_t)index;
    CST_TRY(check_member(context, m, limit));
    if (made)
        CST_TRY(check_consistency(context, m, made));
    *out = (cst_packed){.state = m, .size = m->size, .read = read_member};
    return CST_OK;
}
