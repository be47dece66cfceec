/* The header of .npy: magic, version, length, dict literal, read by a small strict tokenizer. */
#include "data/readers/npy.h"

#include "core/scope.h"
#include "data/files/bytes.h"

#include <inttypes.h>
#include <string.h>

enum { MAGIC_BYTES = 6, HEADER_MAX = 1 << 16 };

/* A place in the header. */
typedef struct cursor {
    cst_context *context;
    const char *where; /* the file */
    const char *text;
    size_t length, at;
    size_t base; /* byte of the file where text starts */
} cursor;

static cst_status bad(const cursor *c, const char *what) {
    return cst_fail(c->context, CST_ERROR_FORMAT, "%s: bad npy header at byte %zu: %s", c->where,
                    c->base + c->at, what);
}

static void skip_space(cursor *c) {
    while (c->at < c->length && (c->text[c->at] == ' ' || c->text[c->at] == '\n' ||
                                 c->text[c->at] == '\t' || c->text[c->at] == '\r'))
        c->at++;
}

/* The next character after spaces, '\0' at the end (a NUL byte in a header is never valid). */
static char peek(cursor *c) {
    skip_space(c);
    return c->at < c->length ? c->text[c->at] : '\0';
}

static bool accept(cursor *c, char wanted) {
    if (peek(c) != wanted)
        return false;
    c->at++;
    return true;
}

static bool accept_word(cursor *c, const char *word) {
    size_t length = strlen(word);
    skip_space(c);
    if (c->length - c->at < length || memcmp(c->text + c->at, word, length) != 0)
        return false;
    c->at += length;
    return true;
}

/* A quoted string of printable characters without escapes. */
static cst_status parse_string(cursor *c, char *out, size_t room) {
    char quote = peek(c);
    if (quote != '\'' && quote != '"')
        return bad(c, "expected a quoted string");
    c->at++;
    size_t used = 0;
    while (c->at < c->length && c->text[c->at] != quote) {
        unsigned char byte = (unsigned char)c->text[c->at];
        if (byte < 0x20 || byte == 0x7f || byte == '\\')
            return bad(c, "a string contains a control character or an escape");
        if (used + 1 >= room)
            return bad(c, "a string is too long");
        out[used++] = (char)byte;
        c->at++;
    }
    if (c->at >= c->length)
        return bad(c, "a string is not terminated");
    c->at++;
    out[used] = '\0';
    return CST_OK;
}

static cst_status parse_length(cursor *c, int64_t *out) {
    char digit = peek(c);
    if (digit < '0' || digit > '9')
        return bad(c, "expected a length (digits) in the shape");
    int64_t value = 0;
    for (; c->at < c->length && c->text[c->at] >= '0' && c->text[c->at] <= '9'; c->at++)
        if (__builtin_mul_overflow(value, 10, &value) ||
            __builtin_add_overflow(value, (int64_t)(c->text[c->at] - '0'), &value))
            return bad(c, "a length in the shape exceeds 2^63");
    if (c->at < c->length && c->text[c->at] == 'L') /* Python 2 wrote 10L */
        c->at++;
    *out = value;
    return CST_OK;
}

static cst_status parse_shape(cursor *c, cst_npy *npy) {
    if (!accept(c, '('))
        return bad(c, "the shape must be a tuple");
    npy->dims = 0;
    bool comma = true;
    while (!accept(c, ')')) {
        if (!comma)
            return bad(c, "expected ',' or ')' in the shape");
        if (npy->dims == CST_NPY_DIMS)
            return bad(c, "more than 8 dimensions are not supported");
        CST_TRY(parse_length(c, &npy->shape[npy->dims]));
        npy->dims++;
        comma = accept(c, ',');
    }
    if (npy->dims == 1 && !comma)
        return bad(c, "a tuple with one element needs a comma");
    return CST_OK;
}

static cst_status unsupported(const cursor *c, const char *descr, const char *advice) {
    return cst_fail(c->context, CST_ERROR_UNSUPPORTED, "%s: dtype %s is not supported: %s",
                    c->where, descr, advice);
}

/* The number at the end of a dtype ("4" of "<f4"); false unless it is 1 to 2^20. */
static bool parse_item(const char *digits, size_t *out) {
    size_t value = 0;
    if (*digits == '\0')
        return false;
    for (; *digits; digits++) {
        if (*digits < '0' || *digits > '9' || value > (1u << 20))
            return false;
        value = value * 10 + (size_t)(*digits - '0');
    }
    *out = value;
    return value >= 1 && value <= (1u << 20);
}

/* Kinds by their letter, with a bit for each number of bytes of an element; 0: any. */
static const struct {
    char letter;
    cst_npy_kind kind;
    unsigned items;
} KINDS[] = {{'f', CST_NPY_FLOAT, 1u << 2 | 1u << 4 | 1u << 8},
             {'i', CST_NPY_INT, 1u << 1 | 1u << 2 | 1u << 4 | 1u << 8},
             {'u', CST_NPY_UINT, 1u << 1 | 1u << 2 | 1u << 4 | 1u << 8},
             {'b', CST_NPY_BOOL, 1u << 1},
             {'S', CST_NPY_BYTES, 0},
             {'U', CST_NPY_UNICODE, 0}};

static cst_status parse_descr(cursor *c, cst_npy *npy) {
    if (peek(c) == '[' || peek(c) == '(')
        return unsupported(c, "with fields",
                           "structured arrays are not supported; save one plain array");
    CST_TRY(parse_string(c, npy->descr, sizeof npy->descr));
    const char *text = npy->descr;
    char order = '=';
    if (*text && strchr("<>|=", *text))
        order = *text++;
    if (*text == 'O')
        return unsupported(c, npy->descr,
                           "it contains pickled Python objects, which are never unpickled; save "
                           "numbers, or strings with astype('U')");
    if (*text == 'c')
        return unsupported(c, npy->descr, "complex numbers are not predictions");
    size_t k = 0;
    size_t item = 0;
    while (k < sizeof KINDS / sizeof *KINDS && KINDS[k].letter != *text)
        k++;
    if (k == sizeof KINDS / sizeof *KINDS || !parse_item(text + 1, &item) ||
        (KINDS[k].items && (item > 8 || !(KINDS[k].items & 1u << item))))
        return unsupported(c, npy->descr,
                           "use float16/32/64, an integer or bool type, or fixed-width strings");
    npy->kind = KINDS[k].kind;
    npy->item = npy->kind == CST_NPY_UNICODE ? item * 4 : item;
    bool big = __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__;
    npy->swapped = order == (big ? '<' : '>');
    if (order == '|' && item > 1 && npy->kind != CST_NPY_BYTES)
        return bad(c, "the byte order of a multi-byte dtype is missing");
    return CST_OK;
}

static cst_status parse_order(cursor *c, cst_npy *npy) {
    npy->fortran = accept_word(c, "True");
    if (!npy->fortran && !accept_word(c, "False"))
        return bad(c, "fortran_order must be True or False");
    return CST_OK;
}

cst_status cst_npy_parse_dict(cst_context *context, cst_npy *npy, const char *text, size_t length,
                              size_t base, const char *where) {
    static const struct {
        const char *name;
        cst_status (*parse)(cursor *c, cst_npy *npy);
    } keys[] = {{"descr", parse_descr}, {"fortran_order", parse_order}, {"shape", parse_shape}};
    unsigned seen = 0;
    cursor c = {.context = context, .where = where, .text = text, .length = length, .base = base};
    if (!accept(&c, '{'))
        return bad(&c, "expected '{'");
    for (bool comma = true; !accept(&c, '}'); comma = accept(&c, ',')) {
        char key[24];
        if (!comma)
            return bad(&c, "expected ',' or '}'");
        CST_TRY(parse_string(&c, key, sizeof key));
        size_t k = 0;
        while (k < 3 && strcmp(key, keys[k].name) != 0)
            k++;
        if (k == 3)
            return bad(&c, "a key other than descr, fortran_order and shape");
        if (seen & 1u << k)
            return bad(&c, "a key occurs twice");
        seen |= 1u << k;
        if (!accept(&c, ':'))
            return bad(&c, "expected ':'");
        CST_TRY(keys[k].parse(&c, npy));
    }
    if (seen != 7)
        return bad(&c, "descr, fortran_order or shape is missing");
    skip_space(&c);
    if (c.at != length)
        return bad(&c, "extra text after the closing '}'");
    return CST_OK;
}

/* Compares what the header promises with what the file has. */
static cst_status check_size(cst_context *context, const cst_npy *npy) {
    const char *where = cst_bytes_name(npy->source);
    char shape[CST_NPY_SHAPE_CHARS];
    uint64_t found = cst_bytes_size(npy->source) - npy->data_offset;
    uint64_t promised = npy->item;
    bool empty = false;
    bool overflow = false;
    for (int d = 0; d < npy->dims; d++)
        empty = empty || npy->shape[d] == 0;
    for (int d = 0; d < npy->dims && !empty; d++)
        overflow = __builtin_mul_overflow(promised, (uint64_t)npy->shape[d], &promised) || overflow;
    if (empty)
        promised = 0;
    if (overflow || promised > (uint64_t)INT64_MAX)
        return cst_fail(
            context, CST_ERROR_FORMAT,
            "%s: the header declares shape %s of %s, more bytes than any file can hold; %" PRIu64
            " bytes follow it",
            where, cst_npy_shape_text(npy, shape), npy->descr, found);
    if (promised > found)
        return cst_fail(context, CST_ERROR_FORMAT,
                        "%s: truncated: shape %s of %s needs %" PRIu64
                        " bytes after the header, but %" PRIu64
                        " were found; copy or save the file again",
                        where, cst_npy_shape_text(npy, shape), npy->descr, promised, found);
    if (promised < found)
        return cst_fail(context, CST_ERROR_FORMAT,
                        "%s: %" PRIu64 " bytes follow the header, but shape %s of %s needs %" PRIu64
                        "; save one array per file",
                        where, found, cst_npy_shape_text(npy, shape), npy->descr, promised);
    return CST_OK;
}

/* Magic, version and length of the header: where the dict starts and how long it is. */
static cst_status read_prefix(cst_context *context, cst_bytes *source, size_t *start,
                              size_t *length) {
    const char *where = cst_bytes_name(source);
    unsigned char prefix[12] = {0};
    uint64_t size = cst_bytes_size(source);
    if (size < 10)
        return cst_fail(context, CST_ERROR_FORMAT,
                        "%s: truncated: an npy header has at least 10 bytes, but only %" PRIu64
                        " were found",
                        where, size);
    CST_TRY(cst_bytes_read(context, source, 0, prefix, 10));
    if (memcmp(prefix, "\x93NUMPY", MAGIC_BYTES) != 0) {
        CST_TRY(cst_refuse_format(context, where, prefix, 10));
        return cst_fail(context, CST_ERROR_FORMAT,
                        "%s: is not an npy file (no NUMPY magic at byte 0); save it with "
                        "numpy.save. Formats that can be read: " CST_FORMATS,
                        where);
    }
    if (prefix[6] < 1 || prefix[6] > 3 || prefix[7] != 0)
        return cst_fail(context, CST_ERROR_UNSUPPORTED,
                        "%s: npy format version %d.%d is not supported (1.0, 2.0 and 3.0 are)",
                        where, prefix[6], prefix[7]);
    *start = prefix[6] == 1 ? 10 : 12;
    *length = (size_t)prefix[8] | (size_t)prefix[9] << 8;
    if (prefix[6] > 1) {
        if (size < 12)
            return cst_fail(context, CST_ERROR_FORMAT, "%s: truncated inside the npy header",
                            where);
        CST_TRY(cst_bytes_read(context, source, 10, prefix + 10, 2));
        *length |= (size_t)prefix[10] << 16 | (size_t)prefix[11] << 24;
    }
    return CST_OK;
}

cst_status cst_npy_read_header(cst_context *context, cst_npy *npy) {
    const char *where = cst_bytes_name(npy->source);
    size_t start = 0;
    size_t length = 0;
    CST_SCOPE(scope);
    CST_TRY(read_prefix(context, npy->source, &start, &length));
    if (length > HEADER_MAX)
        return cst_fail(context, CST_ERROR_LIMIT,
                        "%s: the npy header declares %zu bytes; the limit is %d", where, length,
                        HEADER_MAX);
    if (length > cst_bytes_size(npy->source) - start)
        return cst_fail(context, CST_ERROR_FORMAT,
                        "%s: truncated: the npy header has %zu bytes, but only %" PRIu64
                        " were found",
                        where, length, cst_bytes_size(npy->source) - start);
    CST_NEW(context, scope, char, text, length + 1);
    CST_TRY(cst_bytes_read(context, npy->source, start, text, length));
    CST_TRY(cst_npy_parse_dict(context, npy, text, length, start, where));
    npy->data_offset = start + length;
    return check_size(context, npy);
}

const char *cst_npy_shape_text(const cst_npy *npy, char buffer[CST_NPY_SHAPE_CHARS]) {
    size_t used = 1;
    (void)cst_snprintf(buffer, CST_NPY_SHAPE_CHARS, "(");
    for (int d = 0; d < npy->dims; d++) {
        int wrote = cst_snprintf(buffer + used, CST_NPY_SHAPE_CHARS - used, "%s%" PRId64,
                                 d ? ", " : "", npy->shape[d]);
        used += wrote > 0 ? (size_t)wrote : 0;
    }
    (void)cst_snprintf(buffer + used, CST_NPY_SHAPE_CHARS - used, npy->dims == 1 ? ",)" : ")");
    return buffer;
}
