/*
 * Tables of strings and the join of id lists by an open-addressing hash. Between the readers and
 * the pool. Method, section 0.
 */
#include "io/strings.h"

#include "base/keyed_hash.h"
#include "io/csv.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

cst_status cst_strings_create(cst_context *context, cst_strings **out) {
    *out = cst_alloc(context, 1, sizeof **out);
    return *out ? CST_OK : CST_ERROR_MEMORY;
}

void cst_strings_free(cst_context *context, cst_strings *strings) {
    if (!strings)
        return;
    cst_free(context, strings->bytes);
    cst_free(context, strings->offsets);
    cst_free(context, strings);
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
        return cst_fail(context, CST_ERROR_LIMIT, "the strings are too long to hold");
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

cst_status cst_strings_add_int(cst_context *context, cst_strings *strings, int64_t value) {
    char text[24];
    int length = cst_snprintf(text, sizeof text, "%" PRId64, value);
    return cst_strings_add(context, strings, text, (size_t)length);
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
    uint64_t key[2];
    bool of_samples; /* see compared */
    uint32_t *slots; /* row + 1; 0 is free */
};

/* What counts of an id. The reader of CSV takes the apostrophe before a formula away, wherever it
 * comes from, and a list of ids from elsewhere may have kept it. */
static const char *compared(const cst_id_index *index, const char *text) {
    return text + (index->of_samples && *text == '\'' && cst_csv_is_formula(text));
}

/* The slot that holds `text`, or the free one where it belongs. */
static size_t find_slot(const cst_id_index *index, const char *text) {
    text = compared(index, text);
    size_t slot = (size_t)cst_keyed_hash(index->key, text) & index->mask;
    while (index->slots[slot] &&
           strcmp(compared(index, cst_strings_at(index->ids, (int64_t)index->slots[slot] - 1)),
                  text) != 0)
        slot = (slot + 1) & index->mask;
    return slot;
}

/* An index of `count` strings to come, with every slot free. */
static cst_status create_index(cst_context *context, cst_id_index **out, const cst_strings *ids,
                               const char *where) {
    *out = NULL;
    if (ids->count >= UINT32_MAX)
        return cst_fail(context, CST_ERROR_LIMIT, "%s: more than 2^32 names are not joined", where);
    cst_id_index *index = cst_alloc(context, 1, sizeof *index);
    if (!index)
        return CST_ERROR_MEMORY;
    size_t size = 16;
    while (size / 3 * 2 <= (size_t)ids->count && size < SIZE_MAX / 4)
        size *= 2;
    index->ids = ids;
    index->where = where;
    index->mask = size - 1;
    index->slots = cst_alloc(context, size, sizeof *index->slots);
    if (!index->slots) {
        cst_id_index_free(context, index);
        return CST_ERROR_MEMORY;
    }
    cst_keyed_hash_key(index->slots, index->key);
    *out = index;
    return CST_OK;
}

static cst_status build(cst_context *context, cst_id_index **out, const cst_strings *ids,
                        const char *where, bool of_samples, int64_t twice[2]) {
    cst_id_index *index = NULL;
    twice[0] = -1;
    *out = NULL;
    cst_status status = create_index(context, &index, ids, where);
    if (index)
        index->of_samples = of_samples;
    for (int64_t i = 0; status == CST_OK && i < ids->count; i++) {
        status = cst_poll_item(context, i);
        size_t slot = find_slot(index, cst_strings_at(ids, i));
        if (status == CST_OK && index->slots[slot]) {
            twice[0] = (int64_t)index->slots[slot] - 1;
            twice[1] = i;
            status = CST_ERROR_INPUT;
        }
        index->slots[slot] = (uint32_t)(i + 1);
    }
    if (status != CST_OK) {
        cst_id_index_free(context, index);
        return status;
    }
    *out = index;
    return CST_OK;
}

cst_status cst_id_index_build(cst_context *context, cst_id_index **out, const cst_strings *ids,
                              const char *where, int64_t twice[2]) {
    return build(context, out, ids, where, false, twice);
}

cst_status cst_strings_number(cst_context *context, const cst_strings *strings, int64_t *out) {
    cst_id_index *index = NULL;
    int64_t next = 0;
    cst_status status = create_index(context, &index, strings, "");
    for (int64_t i = 0; status == CST_OK && i < strings->count; i++) {
        status = cst_poll_item(context, i);
        size_t slot = find_slot(index, cst_strings_at(strings, i));
        if (index->slots[slot])
            out[i] = out[index->slots[slot] - 1];
        else {
            index->slots[slot] = (uint32_t)(i + 1);
            out[i] = next++;
        }
    }
    cst_id_index_free(context, index);
    return status;
}

static cst_status doubled(cst_context *context, const char *where, const char *id, int64_t first,
                          int64_t second) {
    char quoted[CST_QUOTE_CHARS];
    return cst_fail(context, CST_ERROR_INPUT,
                    "%s: id '%s' is there twice (rows %" PRId64 " and %" PRId64
                    "); every sample needs an id of its own",
                    where, cst_quote(quoted, id), first, second);
}

cst_status cst_id_index_create(cst_context *context, cst_id_index **out, const cst_strings *ids,
                               const char *where) {
    int64_t twice[2] = {-1, -1};
    cst_status status = build(context, out, ids, where, true, twice);
    if (twice[0] >= 0)
        status = doubled(context, where, cst_strings_at(ids, twice[0]), twice[0], twice[1]);
    return status;
}

void cst_id_index_free(cst_context *context, cst_id_index *index) {
    if (!index)
        return;
    cst_free(context, index->slots);
    cst_free(context, index);
}

int64_t cst_id_index_find(const cst_id_index *index, const char *text) {
    return (int64_t)index->slots[find_slot(index, text)] - 1;
}

cst_status cst_id_join(cst_context *context, const cst_id_index *reference, const cst_strings *ids,
                       const char *where, int64_t *target) {
    int64_t rows = reference->ids->count;
    char quoted[CST_QUOTE_CHARS];
    /* Row of `ids` + 1 that took each row of the reference. */
    int64_t *taken = cst_alloc(context, (size_t)rows, sizeof *taken);
    if (!taken)
        return CST_ERROR_MEMORY;
    cst_status status = CST_OK;
    for (int64_t i = 0; status == CST_OK && i < ids->count; i++) {
        const char *id = cst_strings_at(ids, i);
        int64_t row = cst_id_index_find(reference, id);
        status = cst_poll_item(context, i);
        if (status != CST_OK)
            break;
        if (row < 0)
            status = cst_fail(context, CST_ERROR_MISMATCH,
                              "%s: id '%s' (row %" PRId64 ") is extra: it is not among the %" PRId64
                              " ids of %s; remove it or "
                              "add it there",
                              where, cst_quote(quoted, id), i, rows, reference->where);
        else if (taken[row])
            status = doubled(context, where, id, taken[row] - 1, i);
        else {
            taken[row] = i + 1;
            target[i] = row;
        }
    }
    for (int64_t row = 0; status == CST_OK && row < rows; row++) {
        cst_trim_item(context, row);
        if (!taken[row])
            status =
                cst_fail(context, CST_ERROR_MISMATCH,
                         "%s: id '%s' (row %" PRId64
                         " of %s) is missing; predict that sample too, or remove it everywhere",
                         where, cst_quote(quoted, cst_strings_at(reference->ids, row)), row,
                         reference->where);
    }
    cst_free(context, taken);
    return status;
}
