/* Writes and reads numbers, strings and lists as bytes. See the header. */
#include "model/codec.h"

#include "core/utf8.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

void cst_refuse(cst_codec *c, size_t at, const char *format, ...) {
    if (!cst_codec_reads(c))
        return;
    char what[768];
    va_list args;
    va_start(args, format);
    (void)cst_vsnprintf(what, sizeof what, format, args);
    va_end(args);
    c->status = cst_fail(c->context, CST_ERROR_FORMAT, "%s: byte %zu: %s", c->name, at, what);
}

void cst_codec_expect(cst_codec *c, size_t count, size_t least, const char *what) {
    if (cst_codec_reads(c) && count > (c->end - c->at) / least)
        cst_refuse(c, c->at, "%zu %s are declared, but %zu bytes are left", count, what,
                   c->end - c->at);
}

void *cst_codec_alloc(cst_codec *c, size_t count, size_t size) {
    void *made = cst_codec_reads(c) ? cst_take(c->context, c->scope, count, size) : NULL;
    if (!made && c->status == CST_OK)
        c->status = CST_ERROR_MEMORY;
    return made;
}

bool cst_codec_given(cst_codec *c, const void *array, size_t count) {
    if (!array && count > 0 && c->status == CST_OK)
        c->status = cst_fail(c->context, CST_ERROR_ARGUMENT,
                             "the model is incomplete (members, learners or gate are missing), so "
                             "it cannot be saved");
    return c->status == CST_OK;
}

const uint8_t *cst_codec_take(cst_codec *c, size_t count) {
    if (!cst_codec_reads(c))
        return NULL;
    if (count > c->end - c->at) {
        cst_refuse(
            c, c->at,
            "%zu bytes are declared, but %zu are left: the file is damaged, fit or copy it again",
            count, c->end - c->at);
        return NULL;
    }
    const uint8_t *from = c->bytes + c->at;
    c->at += count;
    return from;
}

/* ---- values ---- */

uint32_t cst_load_u32(const uint8_t *from) {
    uint32_t value = 0;
    for (int i = 0; i < 4; i++)
        value |= (uint32_t)from[i] << (8 * i);
    return value;
}

uint64_t cst_load_u64(const uint8_t *from) {
    return cst_load_u32(from) | (uint64_t)cst_load_u32(from + 4) << 32;
}

void cst_put_word(cst_buffer *to, uint64_t value, int bytes) {
    uint8_t word[8];
    for (int i = 0; i < bytes; i++)
        word[i] = (uint8_t)(value >> (8 * i));
    cst_buffer_add(to, word, (size_t)bytes);
}

uint32_t cst_code_u32(cst_codec *c, uint32_t value) {
    if (c->to) {
        cst_put_word(c->to, value, 4);
        return value;
    }
    const uint8_t *from = cst_codec_take(c, 4);
    return from ? cst_load_u32(from) : 0;
}

uint64_t cst_code_u64(cst_codec *c, uint64_t value) {
    if (c->to) {
        cst_put_word(c->to, value, 8);
        return value;
    }
    const uint8_t *from = cst_codec_take(c, 8);
    return from ? cst_load_u64(from) : 0;
}

int32_t cst_code_int(cst_codec *c, int32_t value, const char *what, int32_t least, int32_t most) {
    size_t at = c->at;
    uint32_t coded = cst_code_u32(c, (uint32_t)value);
    if (c->to)
        return value;
    if (coded > (uint32_t)most || coded < (uint32_t)least)
        cst_refuse(c, at, "%s is %u, which is not from %d to %d", what, coded, least, most);
    return c->status == CST_OK ? (int32_t)coded : least;
}

uint32_t cst_code_count(cst_codec *c, uint32_t value, const char *what, uint32_t most) {
    size_t at = c->at;
    uint64_t coded = 0;
    for (uint32_t left = value; c->to;) {
        cst_put_word(c->to, (left & 0x7F) | (left > 0x7F ? 0x80 : 0), 1);
        left >>= 7;
        if (left == 0)
            return value;
    }
    for (int shift = 0; shift < 35; shift += 7) {
        const uint8_t *byte = cst_codec_take(c, 1);
        if (!byte)
            return 0;
        coded |= (uint64_t)(*byte & 0x7F) << shift;
        if (*byte < 0x80) {
            if (coded > most || (shift > 0 && *byte == 0))
                cst_refuse(c, at, "%s is not a count from 0 to %u", what, most);
            return c->status == CST_OK ? (uint32_t)coded : 0;
        }
    }
    cst_refuse(c, at, "%s takes more than five bytes", what);
    return 0;
}

int64_t cst_code_long(cst_codec *c, int64_t value, const char *what, int64_t most) {
    size_t at = c->at;
    uint64_t coded = cst_code_u64(c, (uint64_t)value);
    if (c->to)
        return value;
    if (coded > (uint64_t)most)
        cst_refuse(c, at, "%s is %" PRIu64 ", which is not from 0 to %" PRId64, what, coded, most);
    return c->status == CST_OK ? (int64_t)coded : 0;
}

/* ---- numbers and text ---- */

void cst_code_f64s(cst_codec *c, double *values, size_t count, const char *what, double least,
                   double most) {
    if (c->to && !cst_codec_given(c, values, count))
        return;
    for (size_t i = 0; values && i < count; i++) {
        size_t at = c->at;
        uint64_t bits = 0;
        double value = 0;
        if (c->to)
            memcpy(&bits, &values[i], sizeof bits);
        bits = cst_code_u64(c, bits);
        if (c->to)
            continue;
        memcpy(&value, &bits, sizeof value);
        if (!(value >= least && value <= most))
            cst_refuse(c, at, "%s is %g, which is not from %g to %g", what, value, least, most);
        values[i] = c->status == CST_OK ? value : 0;
    }
}

void cst_code_f32s(cst_codec *c, float *values, size_t count, const char *what, double bound) {
    if (c->to && !cst_codec_given(c, values, count))
        return;
    for (size_t i = 0; values && i < count; i++) {
        size_t at = c->at;
        uint32_t bits = 0;
        if (c->to)
            memcpy(&bits, &values[i], sizeof bits);
        bits = cst_code_u32(c, bits);
        if (c->to)
            continue;
        memcpy(&values[i], &bits, sizeof bits);
        if (!(fabs((double)values[i]) <= bound))
            cst_refuse(c, at, "%s is %g, which is not from %g to %g", what, (double)values[i],
                       -bound, bound);
    }
}

void cst_code_symmetric(cst_codec *c, double *matrix, size_t size, const char *what, double bound) {
    if (c->to && !cst_codec_given(c, matrix, size))
        return;
    for (size_t i = 0; matrix && i < size; i++)
        for (size_t j = 0; j <= i; j++) {
            cst_code_f64(c, &matrix[i * size + j], what, i == j ? 0 : -bound, bound);
            if (!c->to)
                matrix[j * size + i] = matrix[i * size + j];
        }
}

void cst_code_new_f64s(cst_codec *c, double **values, size_t count, const char *what,
                       double bound) {
    if (CST_CODE_ROOM(c, *values, count, 8, "numbers"))
        cst_code_f64s(c, *values, count, what, -bound, bound);
}

void cst_code_new_f32s(cst_codec *c, float **values, size_t count, const char *what, double bound) {
    if (CST_CODE_ROOM(c, *values, count, 4, "numbers"))
        cst_code_f32s(c, *values, count, what, bound);
}

void cst_code_string(cst_codec *c, char **text, const char *what, size_t index) {
    size_t at = c->at;
    if (c->to && !cst_codec_given(c, *text, 1))
        return;
    size_t length = cst_code_u32(c, c->to ? (uint32_t)strlen(*text) : 0);
    if (c->to) {
        cst_buffer_add(c->to, *text, length);
        return;
    }
    const uint8_t *from = cst_codec_take(c, length);
    if (!from)
        return;
    size_t good = cst_utf8_text(from, length);
    if (length == 0)
        cst_refuse(c, at, "%s %zu (counted from 0) is empty", what, index);
    else if (good < length)
        cst_refuse(c, at + 4 + good,
                   "%s %zu (counted from 0) has a control character or is not UTF-8 text", what,
                   index);
    *text = cst_codec_alloc(c, length + 1, 1);
    if (*text)
        memcpy(*text, from, length);
}

void cst_code_strings(cst_codec *c, char **strings, size_t count, const char *what) {
    for (size_t i = 0; c->status == CST_OK && i < count; i++)
        cst_code_string(c, &strings[i], what, i);
}

void cst_codec_different(cst_codec *c, size_t at, char *const *strings, size_t count,
                         const char *until, const char *what) {
    if (!cst_codec_reads(c) || count < 2)
        return;
    CST_SCOPE(scope);
    char **sorted = cst_take(c->context, scope, count, sizeof *sorted);
    if (!sorted) {
        c->status = CST_ERROR_MEMORY;
        return;
    }
    memcpy(sorted, strings, count * sizeof *sorted);
    qsort(sorted, count, sizeof *sorted, cst_by_text);
    for (size_t i = 1; i < count; i++) {
        size_t length = strcspn(sorted[i], until); /* strings with one beginning are together */
        if (strcspn(sorted[i - 1], until) == length &&
            memcmp(sorted[i - 1], sorted[i], length) == 0)
            cst_refuse(c, at, "%s '%.*s' occurs twice", what, (int)length, sorted[i]);
    }
}

/* By a table of 256 entries, made on the stack: files are small. */
uint32_t cst_crc32c(const uint8_t *bytes, size_t size) {
    uint32_t table[256];
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t value = i;
        for (int bit = 0; bit < 8; bit++)
            value = (value >> 1) ^ ((value & 1) ? UINT32_C(0x82f63b78) : 0);
        table[i] = value;
    }
    uint32_t crc = UINT32_MAX;
    for (size_t i = 0; i < size; i++)
        crc = (crc >> 8) ^ table[(crc ^ bytes[i]) & 0xff];
    return ~crc;
}
