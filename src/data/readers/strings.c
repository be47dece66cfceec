/* Tables of strings and the join of id lists by hashing. docs/method.md#s0-rows-folds-ids. */
#include "data/readers/strings.h"

#include "core/scope.h"
#include "data/readers/csv.h"

#include <inttypes.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

static void free_strings(cst_context *context, void *freed) {
    cst_strings *strings = freed;
    cst_free(context, strings->bytes);
    cst_free(context, strings->offsets);
}

cst_status cst_strings_take(cst_context *context, cst_scope *scope, cst_strings **out) {
    CST_TAKE(context, scope, *out, 1);
    return cst_scope_own(context, scope, free_strings, *out);
}

cst_status cst_strings_add(cst_context *context, cst_strings *strings, const char *text,
                           size_t length) {
    if (strings->count == strings->capacity) {
        int64_t capacity = strings->capacity ? strings->capacity * 2 : 64;
        size_t *offsets = cst_grow(context, strings->offsets, (size_t)strings->count,
                                   (size_t)capacity, sizeof *offsets);
        if (!offsets)
            return CST_ERROR_MEMORY;
        strings->offsets = offsets;
        strings->capacity = capacity;
    }
    size_t end = 0;
    if (!cst_size_add(strings->used, length, &end) || !cst_size_add(end, 1, &end))
        return cst_fail(context, CST_ERROR_LIMIT, "the strings are too long");
    if (end > strings->room) {
        size_t room = end + end / 2 + 256;
        char *bytes = cst_grow(context, strings->bytes, strings->used, room, 1);
        if (!bytes)
            return CST_ERROR_MEMORY;
        strings->bytes = bytes;
        strings->room = room;
    }
    memcpy(strings->bytes + strings->used, text, length);
    strings->bytes[strings->used + length] = '\0';
    strings->offsets[strings->count++] = strings->used;
    strings->used = end;
    return CST_OK;
}

cst_status cst_strings_copy(cst_context *context, cst_scope *scope, const cst_strings *strings,
                            cst_strings **out) {
    CST_TRY(cst_strings_take(context, scope, out));
    for (int64_t i = 0; i < strings->count; i++)
        CST_TRY(cst_strings_put(context, *out, cst_strings_at(strings, i)));
    (*out)->rounded = strings->rounded;
    return CST_OK;
}

cst_status cst_strings_put(cst_context *context, cst_strings *strings, const char *text) {
    return cst_strings_add(context, strings, text, strlen(text));
}

cst_status cst_strings_add_int(cst_context *context, cst_strings *strings, int64_t value) {
    char text[24];
    int length = cst_snprintf(text, sizeof text, "%" PRId64, value);
    return cst_strings_add(context, strings, text, (size_t)length);
}

void *cst_take_more(cst_context *context, cst_scope *scope, void *list, int64_t count,
                    size_t size) {
    if (count & (count - 1))
        return list;
    void *longer = cst_take(context, scope, count ? 2 * (size_t)count : 1, size);
    return longer && count ? memcpy(longer, list, (size_t)count * size) : longer;
}

const char *cst_quote(char buffer[CST_QUOTE_CHARS], const char *text) {
    size_t i = strnlen(text, CST_QUOTE_CHARS - 4);
    bool cut = text[i] != '\0';
    while (cut && i > 0 && ((unsigned char)text[i] & 0xc0) == 0x80) /* not inside a character */
        i--;
    memcpy(buffer, text, i);
    memcpy(buffer + i, "...", 4);
    if (!cut)
        buffer[i] = '\0';
    cst_make_printable(buffer, ' ');
    return buffer;
}

struct cst_id_index {
    const cst_strings *ids;
    const char *where; /* borrowed */
    size_t mask;
    uint64_t seed;
    bool of_samples; /* see compared */
    /* row + 1, and above the bits that rows need some of the hash, so that strings are hardly ever
     * compared in vain: they may be on disk. 0 is free. */
    uint32_t *slots, row_mask;
};

enum {
    BATCH = 1 << 19, /* ids that are looked up before any is compared */
    BUCKETS = 1 << 12
};

/* The part of an id that counts, without an apostrophe before a formula, as in CSV. */
static const char *compared(const cst_id_index *index, const char *text) {
    return text + (index->of_samples && *text == '\'' && cst_csv_is_formula(text));
}

/* Seeded, which makes it harder to prepare ids that collide; results do not depend on it. */
static uint64_t hash_of(const cst_id_index *index, const char *text) {
    text = compared(index, text);
    return XXH3_64bits_withSeed(text, strlen(text), index->seed);
}

/* A seed that differs in every run: an address and the time in nanoseconds. */
static uint64_t draw_seed(const void *memory) {
    struct timespec now = {0};
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)(uintptr_t)memory ^ (uint64_t)now.tv_nsec << 32 ^ (uint64_t)now.tv_sec;
}

static bool is_row(const cst_id_index *index, int64_t row, const char *text) {
    return strcmp(compared(index, cst_strings_at(index->ids, row)), compared(index, text)) == 0;
}

static int64_t row_at(const cst_id_index *index, size_t slot) {
    return (int64_t)(index->slots[slot] & index->row_mask) - 1;
}

static uint32_t entry_of(const cst_id_index *index, uint64_t hash, int64_t row) {
    return ((uint32_t)(hash >> 32) & ~index->row_mask) | (uint32_t)(row + 1);
}

/* From `slot` on the first one that may hold a text of this hash, or is free. */
static size_t likely_slot(const cst_id_index *index, size_t slot, uint64_t hash) {
    uint32_t wanted = (uint32_t)(hash >> 32) & ~index->row_mask;
    slot &= index->mask;
    while (index->slots[slot] && (index->slots[slot] & ~index->row_mask) != wanted)
        slot = (slot + 1) & index->mask;
    return slot;
}

/* The slot that holds `text`, or the free one where it belongs. */
static size_t find_slot(const cst_id_index *index, const char *text, uint64_t hash) {
    size_t slot = likely_slot(index, (size_t)hash, hash);
    while (index->slots[slot] && !is_row(index, row_at(index, slot), text))
        slot = likely_slot(index, slot + 1, hash);
    return slot;
}

static void free_index(cst_context *context, void *index) {
    cst_free(context, ((cst_id_index *)index)->slots);
}

/* An index of `count` strings to come, with every slot free. */
static cst_status create_index(cst_context *context, cst_scope *scope, cst_id_index **out,
                               const cst_strings *ids, const char *where) {
    *out = NULL;
    if (ids->count >= UINT32_MAX)
        return cst_fail(context, CST_ERROR_LIMIT, "%s: more than 2^32 ids cannot be joined", where);
    CST_NEW(context, scope, cst_id_index, index, 1);
    CST_TRY(cst_scope_own(context, scope, free_index, index));
    size_t size = 16;
    while (size / 3 * 2 <= (size_t)ids->count && size < SIZE_MAX / 4)
        size *= 2;
    index->ids = ids;
    index->where = where;
    index->mask = size - 1;
    while (index->row_mask < (uint64_t)ids->count)
        index->row_mask = 2 * index->row_mask + 1;
    index->slots = cst_alloc_scattered(context, size, sizeof *index->slots);
    index->seed = draw_seed(index->slots);
    *out = index;
    return index->slots ? CST_OK : CST_ERROR_MEMORY;
}

/* Up to the first string that is there already: its rows, else twice[0] < 0. */
static cst_status fill(cst_context *context, cst_id_index *index, int64_t twice[2]) {
    const cst_strings *ids = index->ids;
    twice[0] = -1;
    for (int64_t i = 0; i < ids->count; i++) {
        CST_TRY(cst_poll_item(context, i));
        uint64_t hash = hash_of(index, cst_strings_at(ids, i));
        size_t slot = find_slot(index, cst_strings_at(ids, i), hash);
        if (index->slots[slot]) {
            twice[0] = row_at(index, slot);
            twice[1] = i;
            return CST_OK;
        }
        index->slots[slot] = entry_of(index, hash, i);
    }
    return CST_OK;
}

cst_status cst_id_index_build(cst_context *context, cst_scope *scope, cst_id_index **out,
                              const cst_strings *strings, const char *where, int64_t twice[2]) {
    CST_TRY(create_index(context, scope, out, strings, where));
    return fill(context, *out, twice);
}

cst_status cst_strings_number(cst_context *context, const cst_strings *strings, int64_t *out) {
    CST_SCOPE(scope);
    cst_id_index *index;
    int64_t next = 0;
    CST_TRY(create_index(context, scope, &index, strings, ""));
    for (int64_t i = 0; i < strings->count; i++) {
        CST_TRY(cst_poll_item(context, i));
        uint64_t hash = hash_of(index, cst_strings_at(strings, i));
        size_t slot = find_slot(index, cst_strings_at(strings, i), hash);
        if (index->slots[slot]) {
            out[i] = out[row_at(index, slot)];
        } else {
            index->slots[slot] = entry_of(index, hash, i);
            out[i] = next++;
        }
    }
    return CST_OK;
}

/* Why an id may not be what it was: the end of a message. */
static const char *lost_digits(const cst_strings *ids, const char *id) {
    bool number = cst_csv_is_number(id) &&
                  (strpbrk(id, "eE") || (strchr(id, '.') && strspn(id, "0123456789") > 15));
    return ids->rounded || number
               ? ". These ids are floating-point numbers, which lose digits when they are large "
                 "(float64 beyond 2^53, float32 beyond 2^24): save them as integers or text"
               : "";
}

static cst_status doubled(cst_context *context, const char *where, const cst_strings *ids,
                          int64_t first, int64_t second) {
    char quoted[CST_QUOTE_CHARS];
    const char *id = cst_strings_at(ids, second);
    return cst_fail(context, CST_ERROR_INPUT,
                    "%s: id '%s' occurs twice (rows %" PRId64 " and %" PRId64
                    "); every sample needs its own id%s",
                    where, cst_quote(quoted, id), first, second, lost_digits(ids, id));
}

cst_status cst_id_index_take(cst_context *context, cst_scope *scope, cst_id_index **out,
                             const cst_strings *ids, const char *where) {
    int64_t twice[2];
    CST_TRY(create_index(context, scope, out, ids, where));
    (*out)->of_samples = true;
    CST_TRY(fill(context, *out, twice));
    return twice[0] >= 0 ? doubled(context, where, ids, twice[0], twice[1]) : CST_OK;
}

int64_t cst_id_index_find(const cst_id_index *index, const char *text) {
    return row_at(index, find_slot(index, text, hash_of(index, text)));
}

/* Rows in buckets of neighbours: order[k] is the k-th of the `count` items of `row` by bucket. */
static void order_by_row(const int64_t *row, uint32_t count, int64_t rows, uint32_t *order) {
    uint32_t start[BUCKETS + 1] = {0};
    int64_t width = rows / BUCKETS + 1;
    for (uint32_t i = 0; i < count; i++)
        start[(row[i] < 0 ? 0 : row[i] / width) + 1]++;
    for (int b = 0; b < BUCKETS; b++)
        start[b + 1] += start[b];
    for (uint32_t i = 0; i < count; i++)
        order[start[row[i] < 0 ? 0 : row[i] / width]++] = i;
}

/* Finds ids: rows[i] is that of id first + i, or -1. Compares in the order of the reference, so
 * that strings on disk are read in order. */
static cst_status find_batch(cst_context *context, const cst_id_index *reference,
                             const cst_strings *ids, int64_t first, uint32_t count, uint32_t *order,
                             int64_t *rows) {
    for (uint32_t i = 0; i < count; i++) {
        uint64_t hash = hash_of(reference, cst_strings_at(ids, first + i));
        rows[i] = row_at(reference, likely_slot(reference, (size_t)hash, hash));
        CST_TRY(cst_poll_item(context, i));
    }
    order_by_row(rows, count, reference->ids->count, order);
    for (uint32_t k = 0; k < count; k++) {
        int64_t *row = &rows[order[k]];
        const char *id = cst_strings_at(ids, first + order[k]);
        if (*row >= 0 && !is_row(reference, *row, id))
            *row = cst_id_index_find(reference, id);
        CST_TRY(cst_poll_item(context, k));
    }
    return CST_OK;
}

/* The rows of all ids; -1 for those that the reference does not have. */
static cst_status find_all(cst_context *context, const cst_id_index *reference,
                           const cst_strings *ids, int64_t *rows) {
    CST_SCOPE(scope);
    uint32_t *order;
    int64_t first = 0;
    /* Most files have the order of the reference, or its beginning. */
    for (; first < ids->count && first < reference->ids->count; first++) {
        if (strcmp(cst_strings_at(ids, first), cst_strings_at(reference->ids, first)) != 0)
            break;
        rows[first] = first;
        CST_TRY(cst_poll_item(context, first));
    }
    int64_t left = ids->count - first;
    CST_TAKE(context, scope, order, left < BATCH ? left : BATCH);
    for (; first < ids->count; first += BATCH) {
        left = ids->count - first;
        CST_TRY(find_batch(context, reference, ids, first, (uint32_t)(left < BATCH ? left : BATCH),
                           order, rows + first));
    }
    return CST_OK;
}

/* The likeliest id of one without a row: other zeros in front, ".0", folder, ending or spaces.
 * NULL: none. */
static const char *similar_id(const cst_id_index *reference, const char *id, char buffer[64]) {
    size_t length = strlen(id);
    int64_t row = -1;
    if (length == 0 || length >= 60)
        return NULL;
    const char *slash = strrchr(id, '/');
    const char *start = id + strspn(id, " ");
    const char *forms[] = {id + strspn(id, "0"), start, slash ? slash + 1 : ""};
    for (size_t k = 0; row < 0 && k < sizeof forms / sizeof *forms; k++)
        row = *forms[k] ? cst_id_index_find(reference, forms[k]) : -1;
    const char *point = strrchr(start, '.');
    if (row < 0 && point && point > start) { /* "7.0", "a.png" */
        (void)cst_snprintf(buffer, 64, "%.*s", (int)(point - start), start);
        row = cst_id_index_find(reference, buffer);
    }
    for (int zeros = 1; row < 0 && zeros < 10 && length + (size_t)zeros < 60; zeros++) {
        (void)cst_snprintf(buffer, 64, "%.*s%s", zeros, "000000000", id);
        row = cst_id_index_find(reference, buffer);
    }
    static const char *const ends[] = {".0", ".png", ".jpg", ".jpeg"};
    for (size_t k = 0; row < 0 && k < sizeof ends / sizeof *ends; k++) {
        (void)cst_snprintf(buffer, 64, "%s%s", start, ends[k]);
        row = cst_id_index_find(reference, buffer);
    }
    return row < 0 ? NULL : cst_strings_at(reference->ids, row);
}

/* ---- ids that look the same ---- */

enum { FORM_CHARS = 128 };

/* Bytes of a mark that joins the letter before it, as NFD writes accents; 0: none. */
static size_t mark_bytes(const unsigned char *at) {
    bool accent = (at[0] == 0xcc && at[1] >= 0x80) ||
                  (at[0] == 0xcd && at[1] >= 0x80 && at[1] <= 0xaf); /* U+0300..U+036F */
    bool kana = at[0] == 0xe3 && at[1] == 0x82 && (at[2] == 0x99 || at[2] == 0x9a); /* U+3099.. */
    bool jamo = at[0] == 0xe1 && at[1] >= 0x84 && at[1] <= 0x87 && at[2] >= 0x80;   /* U+1100.. */
    return accent ? 2 : kana || jamo ? 3 : 0;
}

/* Bytes of a character that is not shown, or is another space; 0: neither. */
static size_t unseen_bytes(const unsigned char *at, bool *space) {
    *space =
        (at[0] == 0xc2 && at[1] == 0xa0) || at[0] == '\t' ||
        (at[0] == 0xe2 && at[1] == 0x80 && at[2] >= 0x80 && (at[2] <= 0x8a || at[2] == 0xaf)) ||
        (at[0] == 0xe3 && at[1] == 0x80 && at[2] == 0x80);
    bool hidden = (at[0] == 0xc2 && at[1] == 0xad) ||
                  (at[0] == 0xe2 && at[1] == 0x80 && at[2] >= 0x8b && at[2] <= 0x8f) ||
                  (at[0] == 0xe2 && at[1] == 0x81 && at[2] == 0xa0) ||
                  (at[0] == 0xef && at[1] == 0xbb && at[2] == 0xbf);
    return *space || hidden ? (at[0] == '\t' ? 1 : at[0] == 0xc2 ? 2 : 3) : 0;
}

/* Normal form of an id: small letters, single spaces; bare: without letters with accents and of
 * other scripts. Returns whether it has such marks. */
static bool look_of(const char *id, bool bare, char out[FORM_CHARS]) {
    size_t used = 0;
    bool marks = false;
    for (const unsigned char *at = (const unsigned char *)id; *at && used + 1 < FORM_CHARS;) {
        bool space = false;
        size_t mark = mark_bytes(at);
        size_t unseen = unseen_bytes(at, &space);
        marks = marks || mark > 0;
        if (mark > 0 && bare) {
            used -= used > 0 && (const char *)at > id && at[-1] < 0x80; /* its letter */
            while (mark_bytes(at) > 0)
                at += mark_bytes(at);
        } else if (unseen > 0 || *at == ' ') {
            if ((space || *at == ' ') && used > 0 && out[used - 1] != ' ')
                out[used++] = ' ';
            at += unseen > 0 ? unseen : 1;
        } else {
            if (*at < 0x80 || !bare)
                out[used++] = (char)(*at >= 'A' && *at <= 'Z' ? *at + 32 : *at);
            at++;
        }
    }
    used -= used > 0 && out[used - 1] == ' ';
    out[used] = '\0';
    return marks;
}

/* Says of an id of the reference that looks the same how it differs; NULL: none does. */
static const char *say_look(const cst_id_index *reference, const char *id, const char **other) {
    char look[2][FORM_CHARS];
    char theirs[FORM_CHARS];
    bool marks = look_of(id, false, look[0]);
    (void)look_of(id, true, look[1]);
    bool wide = false; /* some byte is not ASCII */
    for (const char *at = id; *at; at++)
        wide = wide || (unsigned char)*at >= 0x80;
    for (int64_t row = 0; row < reference->ids->count; row++) {
        *other = cst_strings_at(reference->ids, row);
        bool apart = look_of(*other, false, theirs) != marks;
        if (strcmp(theirs, look[0]) == 0)
            return strcasecmp(*other, id) == 0
                       ? "ids are compared as text: write them the same way in every file"
                       : "they differ in spaces or characters that are not shown (no-break spaces, "
                         "zero-width characters, blanks at an end): remove these";
        if (!apart || !wide)
            continue;
        (void)look_of(*other, true, theirs);
        if (strcmp(theirs, look[1]) == 0)
            return marks
                       ? "they look the same, but here letters and accents are separate "
                         "characters (Unicode NFD) and there they are composed (NFC): write both "
                         "files with unicodedata.normalize('NFC', id)"
                       : "they look the same, but here letters are composed with their accents "
                         "(Unicode NFC) and there these are separate characters (NFD): write both "
                         "files with unicodedata.normalize('NFC', id)";
    }
    return NULL;
}

/* An id that is in a file but not in the reference. */
static cst_status extra_id(cst_context *context, const cst_id_index *reference, const char *where,
                           const cst_strings *ids, int64_t row, bool partial) {
    char quoted[CST_QUOTE_CHARS];
    char other[CST_QUOTE_CHARS];
    char buffer[64];
    const char *id = cst_strings_at(ids, row);
    const char *similar = similar_id(reference, id, buffer);
    const char *what = similar ? "ids are compared as text: write them the same way in every file"
                               : say_look(reference, id, &similar);
    const char *lost =
        *lost_digits(ids, id) ? lost_digits(ids, id) : lost_digits(reference->ids, "");
    if (!what)
        similar = NULL;
    return cst_fail(context, CST_ERROR_MISMATCH,
                    "%s: id '%s' (row %" PRId64 ") is extra: it is not among the %" PRId64
                    " ids of %s%s%s%s; %s%s",
                    where, cst_quote(quoted, id), row, reference->ids->count, reference->where,
                    similar ? ", but '" : "", similar ? cst_quote(other, similar) : "",
                    similar ? "' is" : "",
                    what      ? what
                    : partial ? "remove it, add it there, or give the ids of all samples with --ids"
                              : "remove it or add it there",
                    lost);
}

/* Checks that each id occurs once and none is missing. taken: a bit for each row, all 0. */
static cst_status check_join(cst_context *context, const cst_id_index *reference,
                             const cst_strings *ids, const char *where, const int64_t *rows,
                             bool partial, unsigned char *taken) {
    int64_t count = reference->ids->count;
    char quoted[CST_QUOTE_CHARS];
    for (int64_t i = 0; i < ids->count; i++) {
        int64_t row = rows[i];
        cst_trim_item(context, i);
        if (row < 0)
            return extra_id(context, reference, where, ids, i, partial);
        unsigned bit = 1u << (row & 7);
        if (taken[row >> 3] & bit) {
            int64_t before = 0;
            while (rows[before] != row)
                before++;
            return doubled(context, where, ids, before, i);
        }
        taken[row >> 3] |= (unsigned char)bit;
    }
    for (int64_t row = 0; row < count && !partial; row++)
        if (!(taken[row >> 3] & 1u << (row & 7)))
            return cst_fail(
                context, CST_ERROR_MISMATCH,
                "%s: id '%s' (row %" PRId64
                " of %s) is missing; predict that sample too, remove it everywhere, or accept "
                "samples that a member did not predict with --missing allow",
                where, cst_quote(quoted, cst_strings_at(reference->ids, row)), row,
                reference->where);
    return CST_OK;
}

cst_status cst_id_join(cst_context *context, const cst_id_index *reference, const cst_strings *ids,
                       const char *where, bool partial, int64_t *places) {
    CST_SCOPE(scope);
    CST_NEW(context, scope, unsigned char, taken, reference->ids->count / 8 + 1);
    CST_TRY(find_all(context, reference, ids, places));
    return check_join(context, reference, ids, where, places, partial, taken);
}
