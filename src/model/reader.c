/* Reads numbers, strings and lists from bytes, never beyond their end. For decode.c. */
#include "model/reader.h"

#include "core/utf8.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

void cst_reader_refuse(cst_reader *r, size_t at, const char *format, ...) {
    if (r->status != CST_OK)
        return;
    char what[768];
    va_list args;
    va_start(args, format);
    (void)cst_vsnprintf(what, sizeof what, format, args);
    va_end(args);
    r->status = cst_fail(r->context, CST_ERROR_FORMAT, "%s: byte %zu: %s", r->name, at, what);
}

const uint8_t *cst_reader_take(cst_reader *r, size_t count) {
    if (r->status != CST_OK)
        return NULL;
    if (count > r->end - r->at) {
        cst_reader_refuse(
            r, r->at,
            "%zu bytes are declared, but %zu are left: the file is damaged, fit or copy it again",
            count, r->end - r->at);
        return NULL;
    }
    const uint8_t *from = r->bytes + r->at;
    r->at += count;
    return from;
}

uint32_t cst_load_u32(const uint8_t *from) {
    uint32_t value = 0;
    for (int i = 0; i < 4; i++)
        value |= (uint32_t)from[i] << (8 * i);
    return value;
}

uint64_t cst_load_u64(const uint8_t *from) {
    return cst_load_u32(from) | (uint64_t)cst_load_u32(from + 4) << 32;
}

uint32_t cst_reader_u32(cst_reader *r) {
    const uint8_t *from = cst_reader_take(r, 4);
    return from ? cst_load_u32(from) : 0;
}

/* A count or code from `least` to `most`. */
int32_t cst_reader_int(cst_reader *r, const char *what, int32_t least, int32_t most) {
    size_t at = r->at;
    uint32_t value = cst_reader_u32(r);
    if (r->status == CST_OK && (value > (uint32_t)most || value < (uint32_t)least))
        cst_reader_refuse(r, at, "%s is %" PRIu32 ", which is not from %" PRId32 " to %" PRId32,
                          what, value, least, most);
    return r->status == CST_OK ? (int32_t)value : least;
}

/* A double from `least` to `most`, which are finite; NaN and infinities are refused. */
double cst_reader_f64(cst_reader *r, const char *what, double least, double most) {
    size_t at = r->at;
    const uint8_t *from = cst_reader_take(r, 8);
    if (!from)
        return 0;
    uint64_t bits = cst_load_u64(from);
    double value = 0;
    memcpy(&value, &bits, sizeof value);
    if (!(value >= least && value <= most)) {
        cst_reader_refuse(r, at, "%s is %g, which is not from %g to %g", what, value, least, most);
        return 0;
    }
    return value;
}

double *cst_reader_f64s(cst_reader *r, size_t count, const char *what, double bound) {
    if (r->status == CST_OK && count > (r->end - r->at) / 8)
        cst_reader_refuse(r, r->at, "%zu numbers (%s) are declared, but %zu bytes are left", count,
                          what, r->end - r->at);
    double *values = r->status == CST_OK ? cst_alloc(r->context, count, sizeof *values) : NULL;
    if (!values) {
        r->status = r->status == CST_OK ? CST_ERROR_MEMORY : r->status;
        return NULL;
    }
    for (size_t i = 0; i < count; i++)
        values[i] = cst_reader_f64(r, what, -bound, bound);
    return values;
}

float *cst_reader_f32s(cst_reader *r, size_t count, const char *what, double bound) {
    if (r->status == CST_OK && count > (r->end - r->at) / 4)
        cst_reader_refuse(r, r->at, "%zu numbers (%s) are declared, but %zu bytes are left", count,
                          what, r->end - r->at);
    float *values = r->status == CST_OK ? cst_alloc(r->context, count, sizeof *values) : NULL;
    if (!values) {
        r->status = r->status == CST_OK ? CST_ERROR_MEMORY : r->status;
        return NULL;
    }
    for (size_t i = 0; i < count; i++) {
        size_t at = r->at;
        uint32_t bits = cst_reader_u32(r);
        memcpy(&values[i], &bits, sizeof bits);
        if (!(fabs((double)values[i]) <= bound))
            cst_reader_refuse(r, at, "%s is %g, which is not from %g to %g", what,
                              (double)values[i], -bound, bound);
    }
    return values;
}

/* A name of one byte or more, UTF-8 without control characters. */
char *cst_reader_string(cst_reader *r, const char *what, size_t index) {
    size_t at = r->at;
    size_t length = cst_reader_u32(r);
    const uint8_t *from = cst_reader_take(r, length);
    if (!from)
        return NULL;
    size_t good = cst_utf8_text(from, length);
    if (length == 0)
        cst_reader_refuse(r, at, "%s %zu (counted from 0) is empty", what, index);
    else if (good < length)
        cst_reader_refuse(r, at + 4 + good,
                          "%s %zu (counted from 0) has a control character or is not UTF-8 text",
                          what, index);
    char *text = r->status == CST_OK ? cst_alloc(r->context, length + 1, 1) : NULL;
    if (text)
        memcpy(text, from, length);
    else if (r->status == CST_OK)
        r->status = CST_ERROR_MEMORY;
    return text;
}

static int by_text(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Refuses a string that stands twice among strings [count]. */
void cst_reader_different(cst_reader *r, size_t at, char *const *strings, size_t count,
                          const char *what) {
    if (r->status != CST_OK || count < 2)
        return;
    char **sorted = cst_alloc(r->context, count, sizeof *sorted);
    if (!sorted) {
        r->status = CST_ERROR_MEMORY;
        return;
    }
    memcpy(sorted, strings, count * sizeof *sorted);
    qsort(sorted, count, sizeof *sorted, by_text);
    for (size_t i = 1; i < count; i++)
        if (strcmp(sorted[i - 1], sorted[i]) == 0)
            cst_reader_refuse(r, at, "%s '%s' occurs twice", what, sorted[i]);
    cst_free(r->context, sorted);
}

/* Room for `count` pointers or structs of which each takes `least` bytes of the file or more. */
void *cst_reader_room(cst_reader *r, size_t count, size_t size, size_t least, const char *what) {
    if (r->status == CST_OK && count > (r->end - r->at) / least)
        cst_reader_refuse(r, r->at, "%zu %s are declared, but %zu bytes are left", count, what,
                          r->end - r->at);
    void *room = r->status == CST_OK ? cst_alloc(r->context, count, size) : NULL;
    if (!room && r->status == CST_OK)
        r->status = CST_ERROR_MEMORY;
    return room;
}
