/*
 * Reads the directory at the end of a zip archive, where its size is known before any of it is
 * read, and picks one member. libzip would keep every name in a table whose places a file's author
 * can compute, look at each candidate for an end record, and not ask whether to stop. Under zip.c.
 * Paper: none; the format is PKWARE's APPNOTE, sections 4.3.12 to 4.3.16.
 */
#include "io/zip_directory.h"

#include "io/strings.h"

#include <inttypes.h>
#include <string.h>

enum {
    MEMBERS_MAX = 100000,
    DIRECTORY_MAX = 1 << 25, /* bytes */
    NAMES_SHOWN = 8,
    END_BYTES = 22,
    END64_BYTES = 56,
    LOCATOR_BYTES = 20,
    RECORD_BYTES = 46,                     /* before the name */
    RECORD_MAX = RECORD_BYTES + 3 * 65535, /* with name, extra fields and comment */
    TAIL_MAX = END_BYTES + 65535,          /* the end record and its comment */
    WINDOW = 1 << 18
};

static const unsigned char END[4] = {'P', 'K', 5, 6};
static const unsigned char END64[4] = {'P', 'K', 6, 6};
static const unsigned char LOCATOR[4] = {'P', 'K', 6, 7};
static const unsigned char RECORD[4] = {'P', 'K', 1, 2};

/* What the end record says of the directory. */
typedef struct extent {
    uint64_t members;
    uint64_t bytes;
    uint64_t offset;
    bool zip64;
} extent;

/* The directory, of which a window is in memory. */
typedef struct directory {
    const cst_zip_file *file;
    extent extent;
    unsigned char *window;
    uint64_t start;     /* of the window, in the directory */
    size_t held;        /* bytes of the window */
    cst_strings *names; /* without a final .npy */
    /* The member that is looked for. */
    const char *name;
    bool found;
    bool exact; /* `name` is all of its name */
    uint64_t at;
} directory;

static uint64_t number_at(const unsigned char *at, int bytes) {
    uint64_t value = 0;
    for (int i = 0; i < bytes; i++)
        value |= (uint64_t)at[i] << (8 * i);
    return value;
}

static void put_number(unsigned char *at, uint64_t value, int bytes) {
    for (int i = 0; i < bytes; i++)
        at[i] = (unsigned char)(value >> (8 * i));
}

static cst_status read_file(cst_context *context, const cst_zip_file *file, uint64_t offset,
                            void *out, size_t bytes) {
    return cst_read_plain(context, file->fd, file->path, file->bytes, offset, out, bytes);
}

static cst_status damaged(cst_context *context, const cst_zip_file *file, const char *what) {
    return cst_fail(context, CST_ERROR_FORMAT,
                    "%s: cannot be read as a zip archive: %s; was it written to the end?",
                    file->path, what);
}

/* ---- the end record -------------------------------------------------------------------------- */

/* The 64-bit record that stands before the end record, where there is one. `end`: where the end
 * record stands, and then the first of the two. */
static cst_status read_end64(cst_context *context, const cst_zip_file *file, uint64_t *end,
                             extent *out) {
    unsigned char bytes[END64_BYTES + LOCATOR_BYTES];
    const unsigned char *locator = bytes + END64_BYTES;
    if (*end < sizeof bytes)
        return CST_OK;
    uint64_t at = *end - sizeof bytes;
    cst_status status = read_file(context, file, at, bytes, sizeof bytes);
    if (status != CST_OK || memcmp(locator, LOCATOR, sizeof LOCATOR) != 0)
        return status;
    if (memcmp(bytes, END64, sizeof END64) != 0 || number_at(locator + 8, 8) != at)
        return damaged(context, file, "its 64-bit end record is not where it should be");
    if (number_at(locator + 4, 4) || number_at(locator + 16, 4) > 1 || number_at(bytes + 16, 8) ||
        number_at(bytes + 24, 8) != number_at(bytes + 32, 8))
        return cst_fail(context, CST_ERROR_UNSUPPORTED,
                        "%s: is one part of an archive in several files; join them", file->path);
    *out = (extent){.members = number_at(bytes + 32, 8),
                    .bytes = number_at(bytes + 40, 8),
                    .offset = number_at(bytes + 48, 8),
                    .zip64 = true};
    *end = at;
    return CST_OK;
}

/* Where the last end record of the file stands: the same that Python's zipfile takes. */
static cst_status find_end(cst_context *context, const cst_zip_file *file, uint64_t *out,
                           unsigned char record[END_BYTES]) {
    size_t bytes = file->bytes < TAIL_MAX ? (size_t)file->bytes : TAIL_MAX;
    uint64_t start = file->bytes - bytes;
    unsigned char *tail = cst_alloc(context, bytes, 1);
    if (!tail)
        return CST_ERROR_MEMORY;
    cst_status status = read_file(context, file, start, tail, bytes);
    bool found = false;
    for (size_t at = bytes < END_BYTES ? 0 : bytes - END_BYTES + 1;
         status == CST_OK && !found && at-- > 0;) {
        found = memcmp(tail + at, END, sizeof END) == 0;
        if (found) {
            memcpy(record, tail + at, END_BYTES);
            *out = start + at;
        }
    }
    cst_free(context, tail);
    if (status == CST_OK && !found)
        status = damaged(context, file, "it has no end record");
    return status;
}

static cst_status read_end(cst_context *context, const cst_zip_file *file, extent *out) {
    unsigned char record[END_BYTES];
    uint64_t end = 0;
    cst_status status = find_end(context, file, &end, record);
    if (status != CST_OK)
        return status;
    *out = (extent){.members = number_at(record + 10, 2),
                    .bytes = number_at(record + 12, 4),
                    .offset = number_at(record + 16, 4)};
    bool parts = number_at(record + 4, 4) || number_at(record + 8, 2) != out->members;
    status = read_end64(context, file, &end, out);
    if (status != CST_OK)
        return status;
    if (parts && !out->zip64)
        return cst_fail(context, CST_ERROR_UNSUPPORTED,
                        "%s: is one part of an archive in several files; join them", file->path);
    if (out->bytes > end || out->offset != end - out->bytes)
        return damaged(context, file, "its directory is not where the end record says");
    if (out->members > MEMBERS_MAX)
        return cst_fail(context, CST_ERROR_LIMIT,
                        "%s: has %" PRIu64 " members; at most %d are read: split it", file->path,
                        out->members, MEMBERS_MAX);
    if (out->bytes > DIRECTORY_MAX)
        return cst_fail(context, CST_ERROR_LIMIT,
                        "%s: its directory has %" PRIu64
                        " bytes; at most %d are read: split it, or give its members shorter names",
                        file->path, out->bytes, DIRECTORY_MAX);
    return CST_OK;
}

/* ---- the records of the directory ------------------------------------------------------------ */

/* The record at byte `at` of the directory; NULL, with a message, where none is. */
static const unsigned char *record_at(cst_context *context, directory *d, uint64_t at,
                                      size_t *bytes, cst_status *status) {
    uint64_t left = d->extent.bytes - at;
    size_t most = left < RECORD_MAX ? (size_t)left : RECORD_MAX;
    if (at + most > d->start + d->held || at < d->start) {
        d->start = at;
        d->held = left < WINDOW ? (size_t)left : WINDOW;
        *status = read_file(context, d->file, d->extent.offset + at, d->window, d->held);
        if (*status != CST_OK)
            return NULL;
    }
    const unsigned char *record = d->window + (at - d->start);
    if (most >= RECORD_BYTES && memcmp(record, RECORD, sizeof RECORD) == 0) {
        *bytes = RECORD_BYTES + (size_t)(number_at(record + 28, 2) + number_at(record + 30, 2) +
                                         number_at(record + 32, 2));
        if (*bytes <= most)
            return record;
    }
    char what[96];
    (void)cst_snprintf(what, sizeof what, "member %" PRId64 " of its directory is damaged",
                       d->names->count);
    *status = damaged(context, d->file, what);
    return NULL;
}

/* Whether a member's name, without .npy where it had that, is the one that is looked for. */
static void compare(directory *d, const char *entry, size_t length, uint64_t at) {
    size_t wanted = d->name ? strlen(d->name) : 0;
    bool npy = length == wanted + 4 && memcmp(entry + wanted, ".npy", 4) == 0;
    bool exact = length == wanted;
    if (!d->name || (!npy && !exact) || d->exact || memcmp(entry, d->name, wanted) != 0)
        return;
    d->found = true;
    d->exact = exact;
    d->at = at;
}

static cst_status scan(cst_context *context, directory *d) {
    cst_status status = CST_OK;
    size_t bytes = 0;
    for (uint64_t at = 0; status == CST_OK && at < d->extent.bytes; at += bytes) {
        status = cst_poll_item(context, d->names->count);
        if (status == CST_OK && d->names->count >= MEMBERS_MAX)
            return cst_fail(context, CST_ERROR_LIMIT, "%s: has above %d members: split it",
                            d->file->path, MEMBERS_MAX);
        const unsigned char *record =
            status == CST_OK ? record_at(context, d, at, &bytes, &status) : NULL;
        if (!record)
            break;
        const char *entry = (const char *)record + RECORD_BYTES;
        size_t length = (size_t)number_at(record + 28, 2);
        if (memchr(entry, 0, length))
            return cst_fail(context, CST_ERROR_FORMAT,
                            "%s: the name of member %" PRId64 " has a zero byte in it; save the "
                            "arrays again with numpy.savez",
                            d->file->path, d->names->count);
        compare(d, entry, length, at);
        bool npy = length >= 4 && memcmp(entry + length - 4, ".npy", 4) == 0;
        status = cst_strings_add(context, d->names, entry, npy ? length - 4 : length);
    }
    /* Without the 64-bit record some programs write the count modulo 2^16. */
    uint64_t count = (uint64_t)d->names->count;
    if (status == CST_OK && (d->extent.zip64 ? count : count % 65536) != d->extent.members)
        status = cst_fail(context, CST_ERROR_FORMAT,
                          "%s: its directory has %" PRIu64
                          " members and its end record says %" PRIu64 ": the archive is damaged",
                          d->file->path, count, d->extent.members);
    return status;
}

static cst_status check_doubled(cst_context *context, const directory *d) {
    cst_id_index *index = NULL;
    int64_t twice[2] = {-1, -1};
    char quoted[CST_QUOTE_CHARS];
    cst_status status = cst_id_index_build(context, &index, d->names, d->file->path, twice);
    cst_id_index_free(context, index);
    if (twice[0] >= 0)
        status = cst_fail(context, CST_ERROR_FORMAT,
                          "%s: has two arrays called '%s' (members %" PRId64 " and %" PRId64
                          "), and programs differ in which they read; save it again with names "
                          "that differ",
                          d->file->path, cst_quote(quoted, cst_strings_at(d->names, twice[0])),
                          twice[0], twice[1]);
    return status;
}

/* ---- the member ------------------------------------------------------------------------------ */

/* The first few arrays of an archive, for a message. */
static void list_names(const cst_strings *names, char *text, size_t room) {
    size_t used = 0;
    text[0] = '\0';
    for (int64_t i = 0; i < names->count && i < NAMES_SHOWN && used < room; i++) {
        char quoted[CST_QUOTE_CHARS];
        int wrote = cst_snprintf(text + used, room - used, "%s%s", i ? ", " : "",
                                 cst_quote(quoted, cst_strings_at(names, i)));
        used += wrote > 0 ? (size_t)wrote : 0;
    }
    if (names->count > NAMES_SHOWN && used < room)
        (void)cst_snprintf(text + used, room - used, ", ...");
}

static cst_status check_found(cst_context *context, const directory *d) {
    char list[1024];
    char quoted[CST_QUOTE_CHARS];
    if (d->names->count < 1)
        return cst_fail(context, CST_ERROR_FORMAT, "%s: the archive has no members", d->file->path);
    list_names(d->names, list, sizeof list);
    if (!d->name && d->names->count > 1)
        return cst_fail(context, CST_ERROR_INPUT,
                        "%s: has %" PRId64 " arrays (%s); choose one with FILE.npz#NAME",
                        d->file->path, d->names->count, list);
    if (d->name && !d->found)
        return cst_fail(context, CST_ERROR_INPUT, "%s: has no array '%s'; it holds %s",
                        d->file->path, cst_quote(quoted, d->name), list);
    return CST_OK;
}

/* The record of the member as the only one of a directory, and the end of that directory. */
static cst_status make_tail(cst_context *context, directory *d, char **entry, cst_zip_tail *tail) {
    cst_status status = CST_OK;
    size_t bytes = 0;
    const unsigned char *record = record_at(context, d, d->at, &bytes, &status);
    if (!record)
        return status;
    size_t length = (size_t)number_at(record + 28, 2);
    bytes -= (size_t)number_at(record + 32, 2); /* no comment */
    *entry = cst_format(context, "%.*s", (int)length, (const char *)record + RECORD_BYTES);
    unsigned char *made =
        cst_alloc(context, bytes + END64_BYTES + LOCATOR_BYTES + END_BYTES, sizeof *made);
    tail->record = made;
    if (!*entry || !made)
        return CST_ERROR_MEMORY;
    /* So far behind the file that no end record of it is within reach. */
    tail->zeros = TAIL_MAX + LOCATOR_BYTES + END64_BYTES;
    tail->bytes = bytes + END64_BYTES + LOCATOR_BYTES + END_BYTES;
    memcpy(made, record, bytes);
    put_number(made + 32, 0, 2);
    unsigned char *end64 = made + bytes;
    unsigned char *locator = end64 + END64_BYTES;
    unsigned char *end = locator + LOCATOR_BYTES;
    memset(end64, 0, tail->bytes - bytes);
    memcpy(end64, END64, sizeof END64);
    put_number(end64 + 4, END64_BYTES - 12, 8);
    put_number(end64 + 12, 45, 2); /* versions that wrote it and that read it */
    put_number(end64 + 14, 45, 2);
    put_number(end64 + 24, 1, 8);
    put_number(end64 + 32, 1, 8);
    put_number(end64 + 40, bytes, 8);
    put_number(end64 + 48, d->file->bytes + tail->zeros, 8);
    memcpy(locator, LOCATOR, sizeof LOCATOR);
    put_number(locator + 8, d->file->bytes + tail->zeros + bytes, 8);
    put_number(locator + 16, 1, 4);
    memcpy(end, END, sizeof END);
    memset(end + 8, 0xff, 12); /* counts, size and offset: in the 64-bit record */
    return CST_OK;
}

cst_status cst_zip_find(cst_context *context, const cst_zip_file *file, const char *name,
                        char **entry, cst_zip_tail *tail) {
    directory d = {.file = file, .name = name};
    *entry = NULL;
    *tail = (cst_zip_tail){0};
    cst_status status = read_end(context, file, &d.extent);
    if (status == CST_OK) {
        size_t window = d.extent.bytes < WINDOW ? (size_t)d.extent.bytes : WINDOW;
        d.window = cst_alloc(context, window + 1, sizeof *d.window);
        status = d.window ? cst_strings_create(context, &d.names) : CST_ERROR_MEMORY;
    }
    if (status == CST_OK)
        status = scan(context, &d);
    if (status == CST_OK)
        status = check_doubled(context, &d);
    if (status == CST_OK)
        status = check_found(context, &d);
    if (status == CST_OK)
        status = make_tail(context, &d, entry, tail);
    cst_strings_free(context, d.names);
    cst_free(context, d.window);
    if (status != CST_OK) {
        cst_free(context, *entry);
        cst_free(context, tail->record);
        *entry = NULL;
        tail->record = NULL;
    }
    return status;
}
