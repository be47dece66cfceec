/* Reads .npy: rows of numbers as float32 or float64, vectors of integers or strings. */
#include "data/readers/npy.h"

#include "core/scope.h"
#include "core/wide.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>
#endif

enum { CHUNK = 4096 /* elements converted at a time where no row structure is needed */ };

bool cst_npy_is_text(const cst_npy *npy) {
    return npy->kind == CST_NPY_BYTES || npy->kind == CST_NPY_UNICODE;
}

/* The header was checked: no product of lengths overflows unless a length is 0. */
static int64_t product(const cst_npy *npy, int from, int to) {
    for (int d = from; d < to; d++)
        if (npy->shape[d] == 0)
            return 0;
    int64_t count = 1;
    for (int d = from; d < to; d++)
        if (__builtin_mul_overflow(count, npy->shape[d], &count))
            return INT64_MAX; /* another axis is empty, so nothing of this size is ever read */
    return count;
}

int64_t cst_npy_rows(const cst_npy *npy) {
    return product(npy, 0, npy->row_axes < npy->dims ? npy->row_axes : npy->dims);
}

int64_t cst_npy_width(const cst_npy *npy) {
    return npy->row_axes < npy->dims ? product(npy, npy->row_axes, npy->dims) : 1;
}

/* ---- bytes ---- */

/* Position, in elements, of the C-order element `flat` of a Fortran-order array. */
static uint64_t fortran_offset(const cst_npy *npy, uint64_t flat) {
    uint64_t axis[CST_NPY_DIMS];
    for (int d = npy->dims - 1; d >= 0; d--) {
        uint64_t length = (uint64_t)npy->shape[d];
        axis[d] = flat % length;
        flat /= length;
    }
    uint64_t offset = 0;
    for (int d = npy->dims - 1; d >= 0; d--)
        offset = offset * (uint64_t)npy->shape[d] + axis[d];
    return offset;
}

static cst_status gather_from_memory(cst_context *context, cst_npy *npy, int64_t first,
                                     int64_t count, unsigned char *out) {
    const unsigned char *memory = NULL;
    CST_TRY(cst_bytes_slurp(context, npy->source, &memory));
    uint64_t width = (uint64_t)cst_npy_width(npy);
    uint64_t begin = (uint64_t)first * width;
    uint64_t elements = (uint64_t)count * width;
    for (uint64_t i = 0; i < elements; i++) {
        CST_TRY(cst_poll_item(context, (int64_t)i));
        memcpy(out + i * npy->item,
               memory + npy->data_offset + fortran_offset(npy, begin + i) * npy->item, npy->item);
    }
    return CST_OK;
}

/* One axis of rows in Fortran order: the rows of one column lie together. */
static cst_status gather_columns(cst_context *context, cst_npy *npy, int64_t first, int64_t count,
                                 unsigned char *out) {
    CST_SCOPE(scope);
    size_t width = (size_t)cst_npy_width(npy);
    size_t rows = (size_t)count;
    CST_NEW(context, scope, unsigned char, column, (rows * npy->item));
    for (size_t j = 0; j < width; j++) {
        uint64_t start = fortran_offset(npy, (uint64_t)first * width + j);
        CST_TRY(cst_bytes_read(context, npy->source, npy->data_offset + start * npy->item, column,
                               rows * npy->item));
        for (size_t i = 0; i < rows; i++)
            memcpy(out + (i * width + j) * npy->item, column + i * npy->item, npy->item);
    }
    return CST_OK;
}

/* The elements of some rows in C order, as they are in the file. */
static cst_status read_raw(cst_context *context, cst_npy *npy, int64_t first, int64_t count,
                           unsigned char *out) {
    size_t elements = (size_t)count * (size_t)cst_npy_width(npy);
    if (elements == 0)
        return CST_OK;
    if (!npy->fortran || npy->dims < 2) {
        uint64_t start = (uint64_t)first * (uint64_t)cst_npy_width(npy) * npy->item;
        return cst_bytes_read(context, npy->source, npy->data_offset + start, out,
                              elements * npy->item);
    }
    if (npy->row_axes > 1 || !cst_bytes_seekable(npy->source))
        return gather_from_memory(context, npy, first, count, out);
    return gather_columns(context, npy, first, count, out);
}

int64_t cst_npy_bad_bool(const unsigned char *bytes, int64_t count) {
    for (int64_t i = 0; i < count; i++)
        if (bytes[i] > 1)
            return i;
    return -1;
}

/* Bytes of BOOL other than 0 and 1 mean nothing. raw: the elements of rows `first`, ... */
static cst_status check_bools(cst_context *context, const cst_npy *npy, int64_t first,
                              const unsigned char *raw, int64_t count) {
    const int64_t width = cst_npy_width(npy);
    int64_t bad = npy->kind == CST_NPY_BOOL ? cst_npy_bad_bool(raw, count * width) : -1;
    if (bad < 0)
        return CST_OK;
    return cst_fail(context, CST_ERROR_FORMAT,
                    "%s: element %" PRId64 " is %d, but dtype %s allows only 0 and 1",
                    cst_bytes_name(npy->source), first * width + bad, raw[bad], npy->descr);
}

bool cst_npy_streams(const cst_npy *npy) {
    if (npy->parts)
        return npy->parts->streams;
    return !cst_npy_is_text(npy) && (!npy->fortran || npy->dims < 2) &&
           cst_bytes_seekable(npy->source);
}

cst_status cst_npy_fetch(cst_context *context, const cst_npy *npy, int64_t first, int64_t count,
                         unsigned char *raw) {
    if (npy->parts)
        return cst_npy_parts_fetch(context, npy, first, count, raw);
    uint64_t row = (uint64_t)cst_npy_width(npy) * npy->item;
    CST_TRY(cst_bytes_read(context, npy->source, npy->data_offset + (uint64_t)first * row, raw,
                           (size_t)((uint64_t)count * row)));
    return check_bools(context, npy, first, raw, count);
}

static const char *name_of(const cst_npy *npy) {
    return npy->parts ? npy->parts->rows.files->paths[0] : cst_bytes_name(npy->source);
}

cst_status cst_npy_check_rows(cst_context *context, const cst_npy *npy, int64_t first,
                              int64_t count) {
    int64_t rows = cst_npy_rows(npy);
    if (first >= 0 && count >= 0 && first <= rows && count <= rows - first)
        return CST_OK;
    return cst_fail(context, CST_ERROR_ARGUMENT,
                    "%s: rows %" PRId64 " to %" PRId64 " of %" PRId64 " do not exist", name_of(npy),
                    first, first + count - 1, rows);
}

/* read_raw into the array's own scratch. */
static cst_status read_scratch(cst_context *context, cst_npy *npy, int64_t first, int64_t count) {
    CST_TRY(cst_npy_check_rows(context, npy, first, count));
    size_t bytes = (size_t)count * (size_t)cst_npy_width(npy) * npy->item;
    if (bytes > npy->raw_bytes) {
        cst_free(context, npy->raw);
        npy->raw_bytes = 0;
        npy->raw = cst_alloc(context, bytes, 1);
        if (!npy->raw)
            return CST_ERROR_MEMORY;
        npy->raw_bytes = bytes;
    }
    CST_TRY(read_raw(context, npy, first, count, npy->raw));
    return check_bools(context, npy, first, npy->raw, count);
}

/* ---- numbers ---- */

/* IEEE half to single, exact, without float arithmetic on subnormals. */
static inline float half_to_float(uint16_t half) {
    uint32_t rest = (uint32_t)(half & 0x7fff) << 13;
    uint32_t sign = (uint32_t)(half & 0x8000) << 16;
    uint32_t bits = rest + (112u << 23);
    float value = 0;
    if ((half & 0x7c00) == 0x7c00)
        bits = rest | 0x7f800000u;
    else if ((half & 0x7c00) == 0) {
        bits = rest | (113u << 23);
        memcpy(&value, &bits, sizeof value);
        value -= 0x1p-14f;
        memcpy(&bits, &value, sizeof bits);
    }
    bits |= sign;
    memcpy(&value, &bits, sizeof value);
    return value;
}

float cst_of_half(uint16_t half) {
    return half_to_float(half);
}

#define LOAD(bits)                                                                                 \
    static inline uint##bits##_t load##bits(const unsigned char *p, bool swapped) {                \
        uint##bits##_t v = 0;                                                                      \
        memcpy(&v, p, sizeof v);                                                                   \
        return swapped ? __builtin_bswap##bits(v) : v;                                             \
    }
LOAD(16)
LOAD(32)
LOAD(64)
static inline float float_of(uint32_t bits) {
    float value = 0;
    memcpy(&value, &bits, sizeof value);
    return value;
}
static inline double load_f64(const unsigned char *p, bool swapped) {
    uint64_t bits = load64(p, swapped);
    double value = 0;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* An integer of any width; *beyond is set where an unsigned one exceeds int64. */
static int64_t load_int(const cst_npy *npy, const unsigned char *p, bool *beyond) {
    bool is_signed = npy->kind == CST_NPY_INT;
    switch (npy->item) {
    case 1:
        return is_signed ? (int64_t)(int8_t)*p : (int64_t)*p;
    case 2: {
        uint16_t v = load16(p, npy->swapped);
        return is_signed ? (int64_t)(int16_t)v : (int64_t)v;
    }
    case 4: {
        uint32_t v = load32(p, npy->swapped);
        return is_signed ? (int64_t)(int32_t)v : (int64_t)v;
    }
    default: {
        uint64_t v = load64(p, npy->swapped);
        *beyond = !is_signed && v > (uint64_t)INT64_MAX;
        return (int64_t)v;
    }
    }
}

#if defined(__x86_64__) && defined(__GNUC__)
/* The exact conversion by the processor; all with AVX2 have it. */
__attribute__((target("avx2,f16c"))) static void halves_f16c(const unsigned char *raw, size_t count,
                                                             float *out) {
    size_t i = 0;
    for (; i + 8 <= count; i += 8) {
        __m128i eight = _mm_loadu_si128((const __m128i *)(const void *)(raw + 2 * i));
        _mm256_storeu_ps(out + i, _mm256_cvtph_ps(eight));
    }
    for (; i < count; i++)
        out[i] = half_to_float(load16(raw + 2 * i, false));
}
#endif

double cst_npy_rounding(const cst_npy *npy) {
    if (npy->parts)
        return npy->parts->rounding;
    return npy->kind == CST_NPY_BFLOAT ? 0x1p-9 : 0;
}

bool cst_npy_is_f32(const cst_npy *npy) {
    return npy->kind == CST_NPY_BFLOAT || (npy->kind == CST_NPY_FLOAT && npy->item <= 4);
}

static void decode_narrow(const cst_npy *npy, const unsigned char *raw, size_t count, float *out) {
    bool swapped = npy->swapped;
    if (npy->item == 4 && !swapped)
        memcpy(out, raw, count * sizeof *out);
    else if (npy->item == 4)
        for (size_t i = 0; i < count; i++)
            out[i] = float_of(load32(raw + 4 * i, true));
    else if (npy->kind == CST_NPY_BFLOAT)
        for (size_t i = 0; i < count; i++)
            out[i] = float_of((uint32_t)load16(raw + 2 * i, swapped) << 16);
#if defined(__x86_64__) && defined(__GNUC__)
    else if (!swapped && cst_wide_registers() != CST_REGISTERS_BASE)
        halves_f16c(raw, count, out);
#endif
    else
        for (size_t i = 0; i < count; i++)
            out[i] = half_to_float(load16(raw + 2 * i, swapped));
}

void cst_npy_decode_f64(const cst_npy *npy, const unsigned char *raw, size_t count, double *out) {
    bool swapped = npy->swapped;
    if (npy->kind == CST_NPY_FLOAT && npy->item == 4)
        for (size_t i = 0; i < count; i++)
            out[i] = (double)float_of(load32(raw + 4 * i, swapped));
    else if (npy->kind == CST_NPY_BFLOAT)
        for (size_t i = 0; i < count; i++)
            out[i] = (double)float_of((uint32_t)load16(raw + 2 * i, swapped) << 16);
    else if (npy->kind == CST_NPY_FLOAT && npy->item == 2)
        for (size_t i = 0; i < count; i++)
            out[i] = (double)half_to_float(load16(raw + 2 * i, swapped));
    else if (npy->kind == CST_NPY_FLOAT)
        for (size_t i = 0; i < count; i++)
            out[i] = load_f64(raw + 8 * i, swapped);
    else
        for (size_t i = 0; i < count; i++) {
            bool beyond = false;
            int64_t value = load_int(npy, raw + npy->item * i, &beyond);
            out[i] = beyond ? (double)(uint64_t)value : (double)value;
        }
}

void cst_npy_decode_f32(const cst_npy *npy, const unsigned char *raw, size_t count, float *out) {
    double chunk[256];
    if (cst_npy_is_f32(npy)) {
        decode_narrow(npy, raw, count, out);
        return;
    }
    for (size_t i = 0; i < count; i += 256) {
        size_t part = count - i < 256 ? count - i : 256;
        cst_npy_decode_f64(npy, raw + i * npy->item, part, chunk);
        for (size_t j = 0; j < part; j++)
            out[i + j] = (float)chunk[j];
    }
}

static cst_status need_numbers(cst_context *context, const cst_npy *npy) {
    if (!cst_npy_is_text(npy))
        return CST_OK;
    return cst_fail(context, CST_ERROR_INPUT,
                    "%s: contains strings (dtype %s), but numbers are needed", name_of(npy),
                    npy->descr);
}

cst_status cst_npy_read_rows_f64(cst_context *context, cst_npy *npy, int64_t first, int64_t count,
                                 double *out) {
    if (npy->parts)
        return cst_npy_parts_read(context, npy, first, count, NULL, out);
    CST_TRY(need_numbers(context, npy));
    CST_TRY(read_scratch(context, npy, first, count));
    cst_npy_decode_f64(npy, npy->raw, (size_t)count * (size_t)cst_npy_width(npy), out);
    return CST_OK;
}

cst_status cst_npy_read_rows_f32(cst_context *context, cst_npy *npy, int64_t first, int64_t count,
                                 float *out) {
    if (npy->parts)
        return cst_npy_parts_read(context, npy, first, count, out, NULL);
    CST_TRY(need_numbers(context, npy));
    CST_TRY(read_scratch(context, npy, first, count));
    cst_npy_decode_f32(npy, npy->raw, (size_t)count * (size_t)cst_npy_width(npy), out);
    return CST_OK;
}

/* ---- vectors ---- */

static cst_status need_vector(cst_context *context, const cst_npy *npy) {
    char shape[CST_NPY_SHAPE_CHARS];
    if (npy->dims == 1 || (npy->dims == 2 && npy->shape[1] == 1))
        return CST_OK;
    return cst_fail(context, CST_ERROR_INPUT,
                    "%s: has shape %s; one value per sample is needed, i.e. shape (N,)%s",
                    name_of(npy), cst_npy_shape_text(npy, shape),
                    npy->numbers && npy->dims == 2 ? "; of one-hot labels, their argmax" : "");
}

/* One element as an integer, or an error that says row and value. */
static cst_status integral(cst_context *context, const cst_npy *npy, const unsigned char *p,
                           int64_t row, int64_t *out) {
    if (npy->kind != CST_NPY_FLOAT && npy->kind != CST_NPY_BFLOAT) {
        bool beyond = false;
        *out = load_int(npy, p, &beyond);
        if (beyond)
            return cst_fail(context, CST_ERROR_INPUT,
                            "%s: row %" PRId64 " is %" PRIu64 ", beyond a signed 64-bit integer",
                            cst_bytes_name(npy->source), row, (uint64_t)*out);
        return CST_OK;
    }
    double value = 0;
    cst_npy_decode_f64(npy, p, 1, &value);
    /* 2^63 is exact in double; NaN fails the comparison */
    if (!(value >= -0x1p63 && value < 0x1p63) || value != floor(value))
        return cst_fail(context, CST_ERROR_INPUT, "%s: row %" PRId64 " is %.9g, not an integer; %s",
                        cst_bytes_name(npy->source), row, value,
                        isnan(value)   ? npy->missing
                                             ? npy->missing
                                             : "give it a value, or remove the row from every file"
                        : npy->numbers ? npy->numbers
                                       : "save integers");
    *out = (int64_t)value;
    return CST_OK;
}

cst_status cst_npy_read_i64(cst_context *context, cst_scope *scope, cst_npy *npy, int64_t **out,
                            int64_t *count) {
    int64_t rows = cst_npy_rows(npy);
    *out = NULL;
    *count = rows;
    CST_TRY(need_vector(context, npy));
    CST_TRY(need_numbers(context, npy));
    CST_TAKE(context, scope, *out, rows);
    if (npy->parts)
        return cst_npy_parts_vector(context, npy, *out, NULL);
    for (int64_t first = 0; first < rows; first += CHUNK) {
        int64_t part = rows - first < CHUNK ? rows - first : CHUNK;
        CST_TRY(read_scratch(context, npy, first, part));
        for (int64_t i = 0; i < part; i++)
            CST_TRY(integral(context, npy, npy->raw + (size_t)i * npy->item, first + i,
                             &(*out)[first + i]));
    }
    return CST_OK;
}

/* UTF-8 of one code point; 0 bytes for one that does not exist. */
static size_t utf8(uint32_t code, char out[4]) {
    if (code < 0x80) {
        out[0] = (char)code;
        return 1;
    }
    if (code < 0x800) {
        out[0] = (char)(0xc0 | code >> 6);
        out[1] = (char)(0x80 | (code & 0x3f));
        return 2;
    }
    if (code >= 0x110000 || (code >= 0xd800 && code < 0xe000))
        return 0;
    if (code < 0x10000) {
        out[0] = (char)(0xe0 | code >> 12);
        out[1] = (char)(0x80 | (code >> 6 & 0x3f));
        out[2] = (char)(0x80 | (code & 0x3f));
        return 3;
    }
    out[0] = (char)(0xf0 | code >> 18);
    out[1] = (char)(0x80 | (code >> 12 & 0x3f));
    out[2] = (char)(0x80 | (code >> 6 & 0x3f));
    out[3] = (char)(0x80 | (code & 0x3f));
    return 4;
}

/* The text of one element into `text` (room for 4 bytes per character). */
static cst_status element_text(cst_context *context, const cst_npy *npy, const unsigned char *p,
                               int64_t row, char *text, size_t *length) {
    size_t unit = npy->kind == CST_NPY_UNICODE ? 4 : 1;
    size_t units = npy->item / unit;
    size_t used = 0;
    *length = 0;
    for (size_t i = 0; i < units; i++) {
        uint32_t code = unit == 4 ? load32(p + 4 * i, npy->swapped) : p[i];
        if (code == 0) /* padding, unless something follows it */
            continue;
        if (i > 0 && (unit == 4 ? load32(p + 4 * (i - 1), npy->swapped) : p[i - 1]) == 0)
            return cst_fail(context, CST_ERROR_INPUT,
                            "%s: the string in row %" PRId64 " contains a NUL",
                            cst_bytes_name(npy->source), row);
        size_t bytes = 1;
        if (unit == 1)
            text[used] = (char)code;
        else
            bytes = utf8(code, text + used);
        if (bytes == 0)
            return cst_fail(context, CST_ERROR_INPUT,
                            "%s: the string in row %" PRId64
                            " contains the invalid character U+%" PRIX32,
                            cst_bytes_name(npy->source), row, code);
        used += bytes;
    }
    *length = used;
    return CST_OK;
}

/* One element of a vector of strings or integers, appended to `strings`. */
static cst_status add_element(cst_context *context, const cst_npy *npy, const unsigned char *p,
                              int64_t row, char *text, cst_strings *strings) {
    if (!cst_npy_is_text(npy)) {
        int64_t value = 0;
        int digits = npy->item == 2 ? 11 : npy->item == 4 ? 24 : 53;
        CST_TRY(integral(context, npy, p, row, &value));
        strings->rounded |= npy->kind == CST_NPY_FLOAT && (value >> digits) != (value < 0 ? -1 : 0);
        return cst_strings_add_int(context, strings, value);
    }
    size_t length = 0;
    CST_TRY(element_text(context, npy, p, row, text, &length));
    return cst_strings_add(context, strings, text, length);
}

cst_status cst_npy_read_strings(cst_context *context, cst_npy *npy, cst_strings *out) {
    int64_t rows = cst_npy_rows(npy);
    CST_SCOPE(scope);
    CST_TRY(need_vector(context, npy));
    if (npy->parts)
        return cst_npy_parts_vector(context, npy, NULL, out);
    /* A UCS-4 unit takes at most four bytes of UTF-8, so an element's own size is enough. */
    CST_NEW(context, scope, char, text, npy->item + 4);
    int64_t chunk = npy->item > (1 << 20) ? 1 : (int64_t)((1 << 20) / (npy->item + 1)) + 1;
    for (int64_t first = 0; first < rows; first += chunk) {
        int64_t part = rows - first < chunk ? rows - first : chunk;
        CST_TRY(read_scratch(context, npy, first, part));
        for (int64_t i = 0; i < part; i++)
            CST_TRY(
                add_element(context, npy, npy->raw + (size_t)i * npy->item, first + i, text, out));
    }
    return CST_OK;
}
