/*
 * The table of a safetensors file's tensors: types, names sorted for look-up, and the check that
 * the tensors' ranges cover the data without a hole or an overlap. After the header was read,
 * before anything of the data is.
 */
#include "data/readers/safetensors.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* ---- types ---- */

static const struct {
    const char *name;
    int32_t bits;
} DTYPES[] = {
#define ROW(name, value, bits) [value] = {#name, bits},
    CST_DTYPE_LIST(ROW)
#undef ROW
};

enum { DTYPE_COUNT = sizeof DTYPES / sizeof *DTYPES };

static bool known(cst_dtype dtype) {
    return (int)dtype >= 0 && (int)dtype < (int)DTYPE_COUNT;
}

const char *cst_dtype_name(cst_dtype dtype) {
    return known(dtype) ? DTYPES[dtype].name : NULL;
}

int32_t cst_dtype_bits(cst_dtype dtype) {
    return known(dtype) ? DTYPES[dtype].bits : 0;
}

bool cst_dtype_find(const char *name, size_t length, cst_dtype *out) {
    for (int d = 0; d < DTYPE_COUNT; d++)
        if (strlen(DTYPES[d].name) == length && memcmp(DTYPES[d].name, name, length) == 0) {
            *out = (cst_dtype)d;
            return true;
        }
    return false;
}

bool cst_dtype_size(cst_dtype dtype, int64_t elements, uint64_t *bytes) {
    uint64_t bits = 0;
    if (DTYPES[dtype].bits % 8 == 0)
        return !__builtin_mul_overflow((uint64_t)elements, (uint64_t)DTYPES[dtype].bits / 8,
                                       bytes) &&
               *bytes <= (uint64_t)INT64_MAX;
    if (__builtin_mul_overflow((uint64_t)elements, (uint64_t)DTYPES[dtype].bits, &bits) ||
        bits % 8 != 0)
        return false;
    *bytes = bits / 8;
    return true;
}

int64_t cst_dtype_bad_bool(const unsigned char *bytes, int64_t count) {
    for (int64_t i = 0; i < count; i++)
        if (bytes[i] > 1)
            return i;
    return -1;
}

/* ---- names ---- */

static int by_text(const void *a, const void *b) {
    const cst_named *left = a;
    const cst_named *right = b;
    int order = strcmp(left->text, right->text);
    return order ? order : (left->place > right->place) - (left->place < right->place);
}

/* Sorts names [count] by text; returns the place in them of the second of two equal ones, or -1. */
static int64_t sort_named(cst_named *names, int64_t count) {
    if (count > 1)
        qsort(names, (size_t)count, sizeof *names, by_text);
    for (int64_t i = 1; i < count; i++)
        if (strcmp(names[i - 1].text, names[i].text) == 0)
            return i;
    return -1;
}

int64_t cst_named_find(const cst_named *names, int64_t count, const char *text) {
    int64_t low = 0;
    int64_t high = count;
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        int order = strcmp(names[middle].text, text);
        if (order == 0)
            return names[middle].place;
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return -1;
}

/* ---- the table ---- */

static int by_range(const void *a, const void *b) {
    const cst_tensor *left = a;
    const cst_tensor *right = b;
    if (left->begin != right->begin)
        return left->begin < right->begin ? -1 : 1;
    if (left->end != right->end)
        return left->end < right->end ? -1 : 1;
    return left->name < right->name ? -1 : 1;
}

static const char *name_of(const cst_safetensors *file, const cst_tensor *tensor) {
    return cst_strings_at(file->names, tensor->name);
}

static cst_status check_ranges(cst_context *context, const cst_safetensors *file) {
    const char *where = cst_bytes_name(file->source);
    uint64_t size = cst_bytes_size(file->source) - file->data_offset;
    uint64_t end = 0;
    char quoted[CST_QUOTE_CHARS];
    char other[CST_QUOTE_CHARS];
    for (int64_t i = 0; i < file->count; i++) {
        const cst_tensor *t = &file->tensors[i];
        const char *name = cst_quote(quoted, name_of(file, t));
        if (t->end > size)
            return cst_fail(context, CST_ERROR_FORMAT,
                            "%s: truncated: tensor '%s' ends at byte %" PRIu64
                            " of the data, which has only %" PRIu64 " bytes; copy the file again",
                            where, name, t->end, size);
        if (t->begin < end)
            return cst_fail(context, CST_ERROR_FORMAT,
                            "%s: tensor '%s' begins at byte %" PRIu64
                            " of the data, inside tensor '%s', which ends at byte %" PRIu64,
                            where, name, t->begin,
                            cst_quote(other, name_of(file, &file->tensors[i - 1])), end);
        if (t->begin > end)
            return cst_fail(context, CST_ERROR_FORMAT,
                            "%s: bytes %" PRIu64 " to %" PRIu64
                            " of the data, before tensor '%s', belong to no tensor",
                            where, end, t->begin - 1, name);
        end = t->end;
    }
    if (end < size)
        return cst_fail(context, CST_ERROR_FORMAT,
                        "%s: byte %" PRIu64 ": %" PRIu64
                        " bytes follow the last tensor and belong to no tensor",
                        where, file->data_offset + end, size - end);
    return CST_OK;
}

/* Sorted by text; one that is there twice is an error. */
static cst_status sort_names(cst_context *context, const cst_safetensors *file, cst_named *names,
                             int64_t count, const char *what) {
    int64_t twice = sort_named(names, count);
    char quoted[CST_QUOTE_CHARS];
    if (twice < 0)
        return CST_OK;
    return cst_fail(context, CST_ERROR_FORMAT, "%s: %s '%s' occurs twice",
                    cst_bytes_name(file->source), what, cst_quote(quoted, names[twice].text));
}

cst_status cst_safetensors_index(cst_context *context, cst_safetensors *file) {
    int64_t entries = file->metadata->count / 2;
    file->by_name = cst_alloc(context, (size_t)file->count, sizeof *file->by_name);
    file->metadata_by_key = cst_alloc(context, (size_t)entries, sizeof *file->metadata_by_key);
    if (!file->by_name || !file->metadata_by_key)
        return CST_ERROR_MEMORY;
    if (file->count > 1)
        qsort(file->tensors, (size_t)file->count, sizeof *file->tensors, by_range);
    for (int64_t i = 0; i < file->count; i++)
        file->by_name[i] = (cst_named){name_of(file, &file->tensors[i]), i};
    for (int64_t i = 0; i < entries; i++)
        file->metadata_by_key[i] = (cst_named){cst_strings_at(file->metadata, 2 * i), i};
    cst_status status = sort_names(context, file, file->by_name, file->count, "the name");
    CST_THEN(sort_names(context, file, file->metadata_by_key, entries, "__metadata__: the key"));
    return status == CST_OK ? check_ranges(context, file) : status;
}
