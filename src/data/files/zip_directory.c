/*
 * Reads the directory at the end of a zip archive, whose size is checked first, and picks a member.
 * libzip would hash all names, try every candidate for an end record, and never ask whether to
 * stop. Format: PKWARE's APPNOTE, sections 4.3.12 to 4.3.16.
 */
#include "data/files/zip_directory.h"

#include "core/call_files.h"
#include "data/readers/strings.h"

#include <inttypes.h>
#include <string.h>

enum {
    MEMBERS_MAX = 100000,
    DIRECTORY_MAX = 1 << 25, /* bytes */
    NAMES_SHOWN = 8,
    END_BYTES = 22,
    END64_BYTES = 56,
    LOCATOR_BYTES = 20,
    LOCAL_BYTES = 30,                      /* before the name */
    RECORD_BYTES = 46,                     /* before the name */
    RECORD_MAX = RECORD_BYTES + 3 * 65535, /* with name, extra fields and comment */
    TAIL_MAX = END_BYTES + 65535,          /* the end record and its comment */
    WINDOW = 1 << 18
};

static const unsigned char END[4] = {'P', 'K', 5, 6};
static const unsigned char END64[4] = {'P', 'K', 6, 6};
static const unsigned char LOCATOR[4] = {'P', 'K', 6, 7};
static const unsigned char LOCAL[4] = {'P', 'K', 3, 4};
static const unsigned char RECORD[4] = {'P', 'K', 1, 2};

/* What the end record says of the directory. */
typedef struct extent {
    uint64_t members;
    uint64_t bytes;
    uint64_t offset;
    bool zip64;
} extent;

/* What is known of an archive. */
typedef struct cst_zip_directory {
    extent extent;
    cst_strings *names;  /* without a final .npy */
    cst_id_index *index; /* of the names */
    uint32_t *places;    /* of the records, in the directory, times 2; odd: the name had .npy */
    int64_t room;        /* of places */
} members;

/* The directory, of which a window is in memory. */
typedef struct directory {
    const cst_zip_file *file;
    extent extent;
    unsigned char *window;
    size_t reach;   /* bytes of the window at most */
    uint64_t start; /* of the window, in the directory */
    size_t held;    /* bytes of the window */
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
                    "%s: not a readable zip archive: %s; was it written to the end?", file->path,
                    what);
}

/* ---- the end record ---- */

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
                        "%s: is one part of a multi-part archive; join the parts", file->path);
    *out = (extent){.members = number_at(bytes + 32, 8),
                    .bytes = number_at(bytes + 40, 8),
                    .offset = number_at(bytes + 48, 8),
                    .zip64 = true};
    *end = at;
    return CST_OK;
}

/* Where the last end record of the file stands: the same that Python's zipfile takes. Another one
 * before it whose comment is all the rest of the file is what other programs take. */
static cst_status find_end(cst_context *context, const cst_zip_file *file, uint64_t *out,
                           unsigned char record[END_BYTES]) {
    size_t bytes = file->bytes < TAIL_MAX ? (size_t)file->bytes : TAIL_MAX;
    uint64_t start = file->bytes - bytes;
    unsigned char *tail = cst_alloc(context, bytes, 1);
    if (!tail)
        return CST_ERROR_MEMORY;
    cst_status status = read_file(context, file, start, tail, bytes);
    bool found = false;
    bool another = false;
    for (size_t at = bytes < END_BYTES ? 0 : bytes - END_BYTES + 1; status == CST_OK && at-- > 0;) {
        if (memcmp(tail + at, END, sizeof END) != 0)
            continue;
        another |= found && at + END_BYTES + number_at(tail + at + 20, 2) == bytes;
        if (!found) {
            memcpy(record, tail + at, END_BYTES);
            *out = start + at;
        }
        found = true;
    }
    cst_free(context, tail);
    if (status == CST_OK && !found)
        status = damaged(context, file, "it has no end record");
    if (status == CST_OK && another)
        status = cst_fail(context, CST_ERROR_FORMAT,
                          "%s: has the end records of two archives, and programs disagree on which "
                          "one to read; save it again with numpy.savez",
                          file->path);
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
    const extent shorter = *out;
    status = read_end64(context, file, &end, out);
    if (status != CST_OK)
        return status;
    if ((shorter.members != 0xffff && shorter.members != out->members) ||
        (shorter.bytes != 0xffffffff && shorter.bytes != out->bytes) ||
        (shorter.offset != 0xffffffff && shorter.offset != out->offset))
        return damaged(context, file, "its two end records disagree");
    if (parts && !out->zip64)
        return cst_fail(context, CST_ERROR_UNSUPPORTED,
                        "%s: is one part of a multi-part archive; join the parts", file->path);
    if (out->bytes > end || out->offset != end - out->bytes)
        return damaged(context, file, "its directory is not where the end record says");
    if (out->members > MEMBERS_MAX)
        return cst_fail(context, CST_ERROR_LIMIT,
                        "%s: has %" PRIu64 " members; the limit is %d: split it", file->path,
                        out->members, MEMBERS_MAX);
    if (out->bytes > DIRECTORY_MAX)
        return cst_fail(context, CST_ERROR_LIMIT,
                        "%s: its directory has %" PRIu64
                        " bytes; the limit is %d: split it, or shorten the names of its members",
                        file->path, out->bytes, DIRECTORY_MAX);
    return CST_OK;
}

/* ---- the records of the directory ---- */

/* The record at byte `at` of the directory, that of a member; NULL, with a message, where none is.
 */
static const unsigned char *record_at(cst_context *context, directory *d, uint64_t at,
                                      int64_t member, size_t *bytes, cst_status *status) {
    uint64_t left = d->extent.bytes - at;
    size_t most = left < RECORD_MAX ? (size_t)left : RECORD_MAX;
    if (at + most > d->start + d->held || at < d->start) {
        d->start = at;
        d->held = left < d->reach ? (size_t)left : d->reach;
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
    (void)cst_snprintf(what, sizeof what, "member %" PRId64 " of its directory is damaged", member);
    *status = damaged(context, d->file, what);
    return NULL;
}

static cst_status open_directory(cst_context *context, directory *d, const cst_zip_file *file,
                                 const extent *where, size_t reach) {
    *d = (directory){.file = file, .extent = *where, .reach = reach};
    d->window = cst_alloc(context, (where->bytes < reach ? (size_t)where->bytes : reach) + 1, 1);
    return d->window ? CST_OK : CST_ERROR_MEMORY;
}

static bool ends_npy(const char *name, size_t length) {
    return length >= 4 && memcmp(name + length - 4, ".npy", 4) == 0;
}

static cst_status add_member(cst_context *context, members *m, const char *name, size_t length,
                             uint64_t at) {
    bool npy = ends_npy(name, length);
    if (m->names->count == m->room) {
        int64_t room = m->room ? 2 * m->room : 64;
        uint32_t *places =
            cst_grow(context, m->places, (size_t)m->room, (size_t)room, sizeof *places);
        if (!places)
            return CST_ERROR_MEMORY;
        m->places = places;
        m->room = room;
    }
    m->places[m->names->count] = (uint32_t)at << 1 | npy;
    return cst_strings_add(context, m->names, name, npy ? length - 4 : length);
}

static cst_status scan(cst_context *context, directory *d, members *m) {
    cst_status status = CST_OK;
    size_t bytes = 0;
    for (uint64_t at = 0; status == CST_OK && at < d->extent.bytes; at += bytes) {
        int64_t number = m->names->count;
        status = cst_poll_item(context, number);
        if (status == CST_OK && number >= MEMBERS_MAX)
            return cst_fail(context, CST_ERROR_LIMIT, "%s: has more than %d members: split it",
                            d->file->path, MEMBERS_MAX);
        const unsigned char *record =
            status == CST_OK ? record_at(context, d, at, number, &bytes, &status) : NULL;
        if (!record)
            break;
        const char *entry = (const char *)record + RECORD_BYTES;
        size_t length = (size_t)number_at(record + 28, 2);
        if (memchr(entry, 0, length))
            return cst_fail(context, CST_ERROR_FORMAT,
                            "%s: the name of member %" PRId64
                            " contains a zero byte; save the arrays again with numpy.savez",
                            d->file->path, number);
        status = add_member(context, m, entry, length, at);
    }
    /* Without the 64-bit record some programs write the count modulo 2^16. */
    uint64_t count = (uint64_t)m->names->count;
    if (status == CST_OK && (d->extent.zip64 ? count : count % 65536) != d->extent.members)
        status = cst_fail(context, CST_ERROR_FORMAT,
                          "%s: its directory has %" PRIu64
                          " members, but its end record says %" PRIu64 ": the archive is damaged",
                          d->file->path, count, d->extent.members);
    return status;
}

static cst_status make_index(cst_context *context, const cst_zip_file *file, members *m) {
    int64_t twice[2] = {-1, -1};
    char quoted[CST_QUOTE_CHARS];
    cst_status status = cst_id_index_build(context, &m->index, m->names, "an archive", twice);
    if (twice[0] >= 0)
        status = cst_fail(
            context, CST_ERROR_FORMAT,
            "%s: has two arrays called '%s' (members %" PRId64 " and %" PRId64
            "), and programs disagree on which one to read; save it again with different names",
            file->path, cst_quote(quoted, cst_strings_at(m->names, twice[0])), twice[0], twice[1]);
    return status;
}

static void free_members(cst_context *context, void *value) {
    members *m = value;
    cst_id_index_free(context, m->index);
    cst_strings_free(context, m->names);
    cst_free(context, m->places);
    cst_free(context, m);
}

cst_status cst_zip_open_file(cst_context *context, const char *path, struct stat *info,
                             cst_zip_file *out) {
    *out = (cst_zip_file){.path = path, .fd = -1, .info = info};
    out->known = cst_call_file_find(context, path, free_members, &out->fd, info);
    cst_status status = out->known ? CST_OK : cst_open_plain(context, path, &out->fd, info);
    if (status == CST_OK)
        out->bytes = (uint64_t)info->st_size;
    return status;
}

static cst_status read_members(cst_context *context, const cst_zip_file *file, members **out) {
    directory d = {0};
    members *m = cst_alloc(context, 1, sizeof *m);
    if (!m)
        return CST_ERROR_MEMORY;
    cst_status status = read_end(context, file, &m->extent);
    CST_THEN(open_directory(context, &d, file, &m->extent, WINDOW));
    CST_THEN(cst_strings_create(context, &m->names));
    CST_THEN(scan(context, &d, m));
    CST_THEN(make_index(context, file, m));
    cst_free(context, d.window);
    if (status == CST_OK)
        *out = m;
    else
        free_members(context, m);
    return status;
}

/* Reads the members unless this call has done so before. *own: the caller frees them. */
static cst_status find_members(cst_context *context, const cst_zip_file *file, const members **out,
                               members **own) {
    members *made = NULL;
    *own = NULL;
    *out = file->known;
    cst_status status = *out ? CST_OK : read_members(context, file, &made);
    if (!made)
        return status;
    *out = made;
    size_t count = (size_t)made->names->count;
    size_t bytes = made->names->room + count * (2 * sizeof(size_t) + 16 * sizeof(uint32_t));
    if (!cst_call_file_add(context, file->path, file->fd, file->info, made, bytes, free_members))
        *own = made;
    return CST_OK;
}

/* ---- the member ---- */

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

/* The member called `name`, or the only one; "x.npy" is all of a member's name before it is a part
 * of "x.npy.npy". */
static cst_status choose(cst_context *context, const cst_zip_file *file, const members *m,
                         const char *name, int64_t *out) {
    char list[1024];
    char quoted[CST_QUOTE_CHARS];
    *out = name ? -1 : 0;
    if (m->names->count < 1)
        return cst_fail(context, CST_ERROR_FORMAT, "%s: the archive has no members", file->path);
    list_names(m->names, list, sizeof list);
    if (!name && m->names->count > 1)
        return cst_fail(context, CST_ERROR_INPUT,
                        "%s: has %" PRId64 " arrays (%s); choose one with FILE.npz#NAME",
                        file->path, m->names->count, list);
    if (name && ends_npy(name, strlen(name))) {
        char *stem = cst_format(context, "%.*s", (int)strlen(name) - 4, name);
        if (!stem)
            return CST_ERROR_MEMORY;
        *out = cst_id_index_find(m->index, stem);
        *out = *out >= 0 && m->places[*out] % 2 == 1 ? *out : -1;
        cst_free(context, stem);
    }
    if (name && *out < 0)
        *out = cst_id_index_find(m->index, name);
    if (*out < 0)
        return cst_fail(context, CST_ERROR_INPUT, "%s: has no array '%s'; it holds %s", file->path,
                        cst_quote(quoted, name), list);
    return CST_OK;
}

/* The offset of the member in the file: from its record or, if the number there is all ones, from
 * the 64-bit numbers after the name, which has one for each such number. */
static bool local_place(const unsigned char *record, uint64_t *out) {
    const size_t length = (size_t)number_at(record + 28, 2);
    const unsigned char *extra = record + RECORD_BYTES + length;
    size_t left = (size_t)number_at(record + 30, 2);
    size_t wide = 8 * ((number_at(record + 20, 4) == 0xffffffff) +
                       (size_t)(number_at(record + 24, 4) == 0xffffffff));
    *out = number_at(record + 42, 4);
    bool here = *out != 0xffffffff;
    for (size_t bytes = 0; left >= 4; extra += bytes, left -= bytes) {
        bytes = 4 + (size_t)number_at(extra + 2, 2);
        if (bytes > left)
            return false;
        if (number_at(extra, 2) != 1)
            continue;
        if (bytes < 4 + wide + (here ? 0 : 8))
            return false;
        if (!here)
            *out = number_at(extra + 4 + wide, 8);
        return true;
    }
    return here && wide == 0;
}

/* Programs that read an archive from its beginning see the name before the data alone. */
static cst_status check_local(cst_context *context, const cst_zip_file *file,
                              const unsigned char *record) {
    size_t length = (size_t)number_at(record + 28, 2);
    size_t bytes = LOCAL_BYTES + length;
    uint64_t at = 0;
    if (!local_place(record, &at) || at > file->bytes || bytes > file->bytes - at)
        return damaged(context, file, "a member is not where its directory says");
    unsigned char *local = cst_alloc(context, bytes, sizeof *local);
    if (!local)
        return CST_ERROR_MEMORY;
    cst_status status = read_file(context, file, at, local, bytes);
    if (status == CST_OK && memcmp(local, LOCAL, sizeof LOCAL) != 0)
        status = damaged(context, file, "a member is not where its directory says");
    if (status == CST_OK && (number_at(local + 26, 2) != length ||
                             memcmp(local + LOCAL_BYTES, record + RECORD_BYTES, length) != 0))
        status = cst_fail(context, CST_ERROR_FORMAT,
                          "%s: the directory gives another name for a member than the local "
                          "header; save the arrays again with numpy.savez",
                          file->path);
    cst_free(context, local);
    return status;
}

/* The record of the member as the only one of a directory, and the end of that directory. */
static cst_status make_tail(cst_context *context, const cst_zip_file *file,
                            const unsigned char *record, size_t bytes, char **entry,
                            cst_zip_tail *tail) {
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
    put_number(end64 + 48, file->bytes + tail->zeros, 8);
    memcpy(locator, LOCATOR, sizeof LOCATOR);
    put_number(locator + 8, file->bytes + tail->zeros + bytes, 8);
    put_number(locator + 16, 1, 4);
    memcpy(end, END, sizeof END);
    memset(end + 8, 0xff, 12); /* counts, size and offset: in the 64-bit record */
    return CST_OK;
}

static cst_status take(cst_context *context, const cst_zip_file *file, const members *m,
                       int64_t member, char **entry, cst_zip_tail *tail) {
    directory d;
    size_t bytes = 0;
    cst_status status = open_directory(context, &d, file, &m->extent, RECORD_MAX);
    if (status != CST_OK)
        return status;
    const unsigned char *record =
        record_at(context, &d, m->places[member] >> 1, member, &bytes, &status);
    if (record)
        status = check_local(context, file, record);
    CST_THEN(make_tail(context, file, record, bytes, entry, tail));
    cst_free(context, d.window);
    return status;
}

cst_status cst_zip_find(cst_context *context, const cst_zip_file *file, const char *name,
                        char **entry, cst_zip_tail *tail) {
    const members *found = NULL;
    members *own = NULL;
    int64_t member = 0;
    *entry = NULL;
    *tail = (cst_zip_tail){0};
    cst_status status = find_members(context, file, &found, &own);
    CST_THEN(choose(context, file, found, name, &member));
    CST_THEN(take(context, file, found, member, entry, tail));
    if (own)
        free_members(context, own);
    if (status != CST_OK) {
        cst_free(context, *entry);
        cst_free(context, tail->record);
        *entry = NULL;
        tail->record = NULL;
    }
    return status;
}
