/*
 * Members of npz archives through libzip: stored or deflated, inflated as they are read, never
 * beyond what the archive promises. libzip is shown a directory with this member alone. Under
 * cst_bytes.
 */
#include "core/retry.h"
#include "data/files/bytes.h"
#include "data/files/zip_directory.h"
#include "data/readers/strings.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>
#include <zip.h>

/* Deflate cannot expand a byte to more than 1032; anything beyond 1100:1 lies about its size. The
 * slack is for tiny members. */
enum { RATIO_MAX = 1100, RATIO_SLACK = 4096 };

struct cst_zip_member {
    char *name; /* archive#member, for messages */
    int fd;
    uint64_t bytes;    /* of the archive, when it was opened */
    cst_zip_tail tail; /* what libzip reads behind it */
    uint64_t at;       /* libzip's place in both */
    zip_error_t error;
    cst_context *context; /* of the call that libzip reads for */
    int failure;          /* errno of a read of ours that failed; 0: none */
    bool ended;           /* the file ended before `bytes` */
    bool stopped;         /* the caller said so: the context has the message */
    uint64_t failed_at;   /* where one of them happened */
    zip_t *archive;
    zip_file_t *file;
    uint64_t size;
    uint64_t position; /* of `file` */
};

static bool reading_failed(const cst_zip_member *member) {
    return member->failure != 0 || member->ended || member->stopped;
}

/* In the words that plain files have (bytes.c): the archive may be a good one. */
static cst_status fail_reading(cst_context *context, const cst_zip_member *member,
                               const char *name) {
    if (member->stopped)
        return CST_ERROR_CANCELLED;
    if (member->failure)
        return cst_fail(context, CST_ERROR_IO, "%s: reading at byte %llu failed: %s", name,
                        (unsigned long long)member->failed_at, strerror(member->failure));
    return cst_fail(context, CST_ERROR_IO,
                    "%s: ends at byte %llu, but had %llu bytes when it was opened; did it change "
                    "in the meantime?",
                    name, (unsigned long long)member->failed_at, (unsigned long long)member->bytes);
}

/* Refuses what cannot be read safely before a byte of it is inflated. */
static cst_status check_member(cst_context *context, cst_zip_member *member, uint64_t limit) {
    zip_stat_t info;
    zip_stat_init(&info);
    if (zip_stat_index(member->archive, 0, 0, &info) != 0)
        return cst_fail(context, CST_ERROR_FORMAT, "%s: %s", member->name,
                        zip_strerror(member->archive));
    const zip_uint64_t needed = ZIP_STAT_SIZE | ZIP_STAT_COMP_SIZE | ZIP_STAT_COMP_METHOD;
    if ((info.valid & needed) != needed)
        return cst_fail(context, CST_ERROR_FORMAT, "%s: the archive does not state the size",
                        member->name);
    if ((info.valid & ZIP_STAT_ENCRYPTION_METHOD) && info.encryption_method != ZIP_EM_NONE)
        return cst_fail(context, CST_ERROR_UNSUPPORTED,
                        "%s: is encrypted; save it without a password", member->name);
    if (info.comp_method != ZIP_CM_STORE && info.comp_method != ZIP_CM_DEFLATE)
        return cst_fail(context, CST_ERROR_UNSUPPORTED,
                        "%s: compression method %d is not supported; save it with numpy.savez or "
                        "numpy.savez_compressed",
                        member->name, (int)info.comp_method);
    if (info.comp_size > member->bytes)
        return cst_fail(context, CST_ERROR_FORMAT,
                        "%s: declares %llu compressed bytes in an archive of %llu bytes",
                        member->name, (unsigned long long)info.comp_size,
                        (unsigned long long)member->bytes);
    if (info.size == 0)
        return cst_fail(context, CST_ERROR_FORMAT,
                        "%s: the member is empty (0 bytes); was it written to the end?",
                        member->name);
    if (info.size / RATIO_MAX > info.comp_size + RATIO_SLACK / RATIO_MAX)
        return cst_fail(context, CST_ERROR_LIMIT,
                        "%s: declares %llu bytes from %llu compressed bytes, more than deflate can "
                        "achieve (1032 to 1): a zip bomb or a damaged archive",
                        member->name, (unsigned long long)info.size,
                        (unsigned long long)info.comp_size);
    if (info.size > limit)
        return cst_fail(context, CST_ERROR_LIMIT,
                        "%s: declares %llu bytes; the limit for an archive member is %llu (raise "
                        "it, or save as .npy)",
                        member->name, (unsigned long long)info.size, (unsigned long long)limit);
    member->size = info.size;
    return CST_OK;
}

/* All that libzip sees. */
static uint64_t bytes_shown(const cst_zip_member *member) {
    return member->bytes + member->tail.zeros + member->tail.bytes;
}

/* The next bytes of what stands behind the file, at most `bytes`. */
static size_t fill_tail(cst_zip_member *member, unsigned char *out, size_t bytes) {
    uint64_t at = member->at - member->bytes;
    uint64_t zeros = at < member->tail.zeros ? member->tail.zeros - at : 0;
    uint64_t left = zeros ? zeros : bytes_shown(member) - member->at;
    size_t done = left < bytes ? (size_t)left : bytes;
    if (zeros)
        memset(out, 0, done);
    else
        memcpy(out, member->tail.record + (at - member->tail.zeros), done);
    return done;
}

/* The next bytes of the file, at most `bytes`; 0 where reading fails or it has become shorter. */
static size_t fill_file(cst_zip_member *member, unsigned char *out, size_t bytes) {
    uint64_t left = member->bytes - member->at;
    bytes = left < bytes ? (size_t)left : bytes;
    member->stopped = cst_poll_reading(member->context) != CST_OK;
    ssize_t got = member->stopped ? -1 : cst_pread(member->fd, out, bytes, (off_t)member->at);
    member->failure = got < 0 && !member->stopped ? errno : 0;
    member->ended = got == 0;
    if (!reading_failed(member))
        return (size_t)got;
    member->failed_at = member->at;
    zip_error_set(&member->error, ZIP_ER_READ, member->failure);
    return 0;
}

/* The next bytes for libzip: fewer at the end, -1 where reading fails. */
static zip_int64_t fill(cst_zip_member *member, unsigned char *out, zip_uint64_t bytes) {
    zip_uint64_t done = 0;
    while (done < bytes && member->at < bytes_shown(member) && !reading_failed(member)) {
        zip_uint64_t left = bytes - done;
        size_t want = left < CST_PIECE_BYTES ? (size_t)left : CST_PIECE_BYTES;
        size_t got = member->at < member->bytes ? fill_file(member, out + done, want)
                                                : fill_tail(member, out + done, want);
        member->at += got;
        done += got;
    }
    return reading_failed(member) ? -1 : (zip_int64_t)done; /* once and for all */
}

static zip_int64_t seek(cst_zip_member *member, void *data, zip_uint64_t length) {
    zip_int64_t to = zip_source_seek_compute_offset(member->at, bytes_shown(member), data, length,
                                                    &member->error);
    if (to < 0)
        return -1;
    member->at = (uint64_t)to;
    return 0;
}

static zip_int64_t tell_size(const cst_zip_member *member, zip_stat_t *out) {
    zip_stat_init(out);
    out->valid = ZIP_STAT_SIZE;
    out->size = bytes_shown(member);
    return sizeof *out;
}

/* The archive as libzip reads it: from the file that was opened, whatever has its name by now; a
 * call that a signal interrupts is made again. */
static zip_int64_t serve(void *user, void *data, zip_uint64_t length, zip_source_cmd_t command) {
    cst_zip_member *member = user;
    switch (command) {
    case ZIP_SOURCE_OPEN:
        member->at = 0;
        return 0;
    case ZIP_SOURCE_READ:
        return fill(member, data, length);
    case ZIP_SOURCE_SEEK:
        return seek(member, data, length);
    case ZIP_SOURCE_TELL:
        return (zip_int64_t)member->at;
    case ZIP_SOURCE_STAT:
        return tell_size(member, data);
    case ZIP_SOURCE_ERROR:
        return zip_error_to_data(&member->error, data, length);
    case ZIP_SOURCE_CLOSE:
    case ZIP_SOURCE_FREE:
        return 0;
    case ZIP_SOURCE_SUPPORTS:
        return zip_source_make_command_bitmap(
            ZIP_SOURCE_OPEN, ZIP_SOURCE_READ, ZIP_SOURCE_CLOSE, ZIP_SOURCE_STAT, ZIP_SOURCE_ERROR,
            ZIP_SOURCE_FREE, ZIP_SOURCE_SEEK, ZIP_SOURCE_TELL, ZIP_SOURCE_SUPPORTS, -1);
    default:
        zip_error_set(&member->error, ZIP_ER_OPNOTSUPP, 0);
        return -1;
    }
}

static cst_status open_archive(cst_context *context, cst_zip_member *member, const char *path) {
    zip_error_t error;
    zip_error_init(&error);
    zip_source_t *source = zip_source_function_create(serve, member, &error);
    member->archive = source ? zip_open_from_source(source, ZIP_RDONLY, &error) : NULL;
    if (source && !member->archive)
        zip_source_free(source);
    cst_status status = CST_OK;
    if (!member->archive && reading_failed(member))
        status = fail_reading(context, member, path);
    else if (!member->archive)
        status = cst_fail(context, CST_ERROR_FORMAT, "%s: not a readable zip archive: %s", path,
                          zip_error_strerror(&error));
    zip_error_fini(&error);
    return status;
}

cst_status cst_zip_open(cst_context *context, cst_zip_member **out, const char *archive,
                        struct stat *info, const char *name, uint64_t limit) {
    *out = NULL;
    cst_zip_file file;
    cst_status status = cst_zip_open_file(context, archive, info, &file);
    if (status != CST_OK)
        return status;
    cst_zip_member *member = cst_alloc(context, 1, sizeof *member);
    if (!member) {
        (void)close(file.fd);
        return CST_ERROR_MEMORY;
    }
    member->context = context;
    member->fd = file.fd;
    member->bytes = file.bytes;
    zip_error_init(&member->error);
    char *entry = NULL;
    status = cst_zip_find(context, &file, name, &entry, &member->tail);
    if (status == CST_OK) {
        char quoted[CST_QUOTE_CHARS];
        member->name = cst_format(context, "%s#%s", archive, cst_quote(quoted, entry));
        status = member->name ? open_archive(context, member, archive) : CST_ERROR_MEMORY;
    }
    CST_THEN(check_member(context, member, limit));
    cst_free(context, entry);
    if (status != CST_OK) {
        cst_zip_close(context, member);
        return status;
    }
    *out = member;
    return CST_OK;
}

void cst_zip_close(cst_context *context, cst_zip_member *member) {
    if (!member)
        return;
    if (member->file)
        (void)zip_fclose(member->file);
    if (member->archive)
        zip_discard(member->archive);
    (void)close(member->fd);
    zip_error_fini(&member->error);
    cst_free(context, member->tail.record);
    cst_free(context, member->name);
    cst_free(context, member);
}

int cst_zip_descriptor(const cst_zip_member *member) {
    return member->fd;
}

uint64_t cst_zip_size(const cst_zip_member *member) {
    return member->size;
}

/* Reads on from the current position; all of it or an error. */
static cst_status read_on(cst_context *context, cst_zip_member *member, unsigned char *out,
                          size_t bytes) {
    while (bytes > 0) {
        size_t want = bytes < ((size_t)1 << 24) ? bytes : (size_t)1 << 24;
        zip_int64_t got = zip_fread(member->file, out, want);
        if (got < 0 && reading_failed(member))
            return fail_reading(context, member, member->name);
        if (got < 0)
            return cst_fail(context, CST_ERROR_FORMAT, "%s: damaged at byte %llu: %s", member->name,
                            (unsigned long long)member->position, zip_file_strerror(member->file));
        if (got == 0)
            return cst_fail(context, CST_ERROR_FORMAT,
                            "%s: truncated: declares %llu bytes, but %llu were found", member->name,
                            (unsigned long long)member->size, (unsigned long long)member->position);
        out += got;
        bytes -= (size_t)got;
        member->position += (uint64_t)got;
    }
    return CST_OK;
}

/* At the declared end nothing more may come; asking once more also makes libzip check the CRC. */
static cst_status check_end(cst_context *context, cst_zip_member *member) {
    unsigned char extra = 0;
    zip_int64_t got = zip_fread(member->file, &extra, 1);
    if (got < 0 && reading_failed(member))
        return fail_reading(context, member, member->name);
    if (got < 0)
        return cst_fail(context, CST_ERROR_FORMAT, "%s: damaged: %s", member->name,
                        zip_file_strerror(member->file));
    if (got > 0)
        return cst_fail(
            context, CST_ERROR_FORMAT,
            "%s: inflates to more than the declared %llu bytes: a zip bomb or a damaged archive",
            member->name, (unsigned long long)member->size);
    return CST_OK;
}

cst_status cst_zip_read(cst_context *context, cst_zip_member *member, uint64_t offset, void *out,
                        size_t bytes) {
    unsigned char skipped[4096];
    if (member->file && (offset < member->position || reading_failed(member))) {
        (void)zip_fclose(member->file);
        member->file = NULL;
    }
    member->context = context;
    member->failure = 0;
    member->ended = false;
    member->stopped = false;
    if (!member->file) {
        member->position = 0;
        member->file = zip_fopen_index(member->archive, 0, 0);
        if (!member->file && reading_failed(member))
            return fail_reading(context, member, member->name);
        if (!member->file)
            return cst_fail(context, CST_ERROR_FORMAT, "%s: %s", member->name,
                            zip_strerror(member->archive));
    }
    cst_status status = CST_OK;
    while (status == CST_OK && member->position < offset) {
        uint64_t gap = offset - member->position;
        status =
            read_on(context, member, skipped, gap < sizeof skipped ? (size_t)gap : sizeof skipped);
    }
    CST_THEN(read_on(context, member, out, bytes));
    if (status == CST_OK && member->position == member->size)
        status = check_end(context, member);
    return status;
}
