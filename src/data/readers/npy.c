/* Reads .npy: rows of numbers as float32 or float64, vectors of integers or strings. */
#include "data/readers/npy.h"

#include "core/scope.h"
#include "data/readers/safetensors.h"

#include <inttypes.h>
#include <math.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/resource.h>

enum { CHUNK = 4096 /* elements converted at a time where no row structure is needed */ };

/* Several files, joined along the first axis. */
typedef struct cst_npy_parts {
    cst_row_parts rows; /* where the parts begin */
    bool streams;       /* cst_npy_streams of all parts */
    double rounding;    /* the largest cst_npy_rounding */
    cst_scope scope;    /* of the list and the arrays that stay open */
    uint64_t zip_limit;
    struct cst_npy_part *list; /* [count] */
    int64_t kept;              /* that stay open */
    cst_scope turn;            /* of current */
    cst_npy *current; /* the part that was read last in order, where it does not stay open */
    int64_t current_part;
} cst_npy_parts;

/* Rows of an array in parts; they are read into `wide` if it is not NULL, else `out`. */
static cst_status parts_fetch(cst_context *context, const cst_npy *npy, int64_t first,
                              int64_t count, unsigned char *raw);
static cst_status parts_read(cst_context *context, cst_npy *npy, int64_t first, int64_t count,
                             float *out, double *wide);
/* Into integers or texts, whichever is not NULL. */
static cst_status parts_vector(cst_context *context, cst_npy *npy, int64_t *integers,
                               cst_strings *texts);

const cst_row_parts *cst_npy_row_parts(const cst_npy *npy) {
    return &npy->parts->rows;
}

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
        return parts_fetch(context, npy, first, count, raw);
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

double cst_npy_rounding(const cst_npy *npy) {
    if (npy->parts)
        return npy->parts->rounding;
    return npy->kind == CST_NPY_BFLOAT ? 0x1p-9 : 0;
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
        return parts_read(context, npy, first, count, NULL, out);
    CST_TRY(need_numbers(context, npy));
    CST_TRY(read_scratch(context, npy, first, count));
    cst_npy_decode_f64(npy, npy->raw, (size_t)count * (size_t)cst_npy_width(npy), out);
    return CST_OK;
}

cst_status cst_npy_read_rows_f32(cst_context *context, cst_npy *npy, int64_t first, int64_t count,
                                 float *out) {
    if (npy->parts)
        return parts_read(context, npy, first, count, out, NULL);
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
        *out = cst_npy_integer(npy, p, &beyond);
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
        return parts_vector(context, npy, *out, NULL);
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

/* A character of 4 bytes. */
static uint32_t unit_at(const cst_npy *npy, const unsigned char *text, size_t at) {
    uint32_t code = 0;
    memcpy(&code, text + 4 * at, sizeof code);
    return npy->swapped ? __builtin_bswap32(code) : code;
}

/* The text of one element into `text` (room for 4 bytes per character). */
static cst_status element_text(cst_context *context, const cst_npy *npy, const unsigned char *p,
                               int64_t row, char *text, size_t *length) {
    size_t unit = npy->kind == CST_NPY_UNICODE ? 4 : 1;
    size_t units = npy->item / unit;
    size_t used = 0;
    *length = 0;
    for (size_t i = 0; i < units; i++) {
        uint32_t code = unit == 4 ? unit_at(npy, p, i) : p[i];
        if (code == 0) /* padding, unless something follows it */
            continue;
        if (i > 0 && (unit == 4 ? unit_at(npy, p, i - 1) : p[i - 1]) == 0)
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
        return parts_vector(context, npy, NULL, out);
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

/* ---- opening: npy, a member of an archive, a tensor, or several files as one, whose parts stay
 * open as long as the process has descriptors to spare ---- */

static void close_array(cst_context *context, void *closed) {
    cst_npy *npy = closed;
    cst_bytes_close(context, npy->source);
    cst_free(context, npy->raw);
}

static cst_status make(cst_context *context, cst_scope *scope, cst_npy **out) {
    CST_TAKE(context, scope, *out, 1);
    (*out)->row_axes = 1;
    return cst_scope_own(context, scope, close_array, *out);
}

cst_status cst_npy_open_default(cst_context *context, cst_scope *scope, cst_npy **out,
                                const char *path, const char *default_array, uint64_t zip_limit) {
    cst_status status = CST_ERROR_INPUT;
    cst_npy *npy;
    CST_SCOPE(own);
    *out = NULL;
    CST_TRY(make(context, scope, &npy));
    if (cst_path_is_safetensors(path)) {
        CST_TRY(cst_safetensors_as_npy(context, npy, path));
        *out = npy;
        return CST_OK;
    }
    if (default_array) {
        const char *inner = cst_take_format(context, own, "%s#%s", path, default_array);
        status = inner ? cst_bytes_open(context, &npy->source, inner, zip_limit) : CST_ERROR_MEMORY;
    }
    if (status == CST_ERROR_INPUT)
        status = cst_bytes_open(context, &npy->source, path, zip_limit);
    CST_TRY(status);
    CST_TRY(cst_npy_read_header(context, npy));
    *out = npy;
    return CST_OK;
}

cst_status cst_npy_open(cst_context *context, cst_scope *scope, cst_npy **out, const char *path,
                        uint64_t zip_limit) {
    return cst_npy_open_default(context, scope, out, path, NULL, zip_limit);
}

/* ---- parts ---- */

typedef struct cst_npy_part {
    cst_npy *open; /* NULL: opened to be read */
    cst_npy_kind kind;
    size_t item;
    bool swapped;
    bool plain; /* its elements are those of the whole as they are */
} part;

/* Open parts of the process: descriptors are few. */
static atomic_long kept_open;

static bool may_stay_open(void) {
    struct rlimit limit;
    long room = getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < 1 << 20
                    ? (long)limit.rlim_cur / 4
                    : 1 << 18;
    if (atomic_fetch_add(&kept_open, 1) < room)
        return true;
    atomic_fetch_sub(&kept_open, 1);
    return false;
}

static void close_parts(cst_context *context, void *closed) {
    cst_npy_parts *parts = closed;
    (void)context;
    atomic_fetch_sub(&kept_open, parts->kept);
    cst_scope_free(&parts->turn);
    cst_scope_free(&parts->scope);
}

static cst_status open_again(cst_context *context, cst_scope *scope, const cst_npy_parts *parts,
                             int64_t k, cst_npy **out) {
    const char *path = parts->rows.files->paths[k];
    const part *before = &parts->list[k];
    CST_TRY(cst_npy_open(context, scope, out, path, parts->zip_limit));
    const cst_npy *now = *out;
    if (now->dims > 0 && now->shape[0] == parts->rows.first[k + 1] - parts->rows.first[k] &&
        now->kind == before->kind && now->item == before->item && now->swapped == before->swapped)
        return CST_OK;
    return cst_fail(context, CST_ERROR_IO, "%s: was changed while it was read", path);
}

/* The part to read in order; it stays open until another one is read. */
static cst_status turn_to(cst_context *context, cst_npy *whole, int64_t k, cst_npy **out) {
    cst_npy_parts *parts = whole->parts;
    *out = parts->list[k].open;
    if (!*out && parts->current_part != k) {
        cst_scope_free(&parts->turn);
        parts->current_part = -1;
        CST_TRY(open_again(context, &parts->turn, parts, k, &parts->current));
        parts->current_part = k;
    }
    *out = *out ? *out : parts->current;
    /* NOLINTNEXTLINE(clang-analyzer-core.NullDereference) */
    (*out)->numbers = whole->numbers;
    (*out)->missing = whole->missing;
    return CST_OK;
}

/* The part that has row `row`, and how many of `count` rows from there are in it. */
static int64_t part_of(const cst_npy_parts *parts, int64_t row, int64_t *count) {
    int64_t k = cst_row_parts_index(&parts->rows, row);
    int64_t left = parts->rows.first[k + 1] - row;
    *count = *count < left ? *count : left;
    return k;
}

/* Rows of one part as elements of the whole. */
static cst_status fetch_part(cst_context *context, const cst_npy *whole, int64_t k,
                             const cst_npy *one, int64_t first, int64_t count, unsigned char *raw) {
    CST_SCOPE(scope);
    const part *type = &whole->parts->list[k];
    if (type->plain)
        return cst_npy_fetch(context, one, first, count, raw);
    size_t elements = (size_t)count * (size_t)cst_npy_width(one);
    CST_NEW(context, scope, unsigned char, own, elements * type->item);
    CST_TRY(cst_npy_fetch(context, one, first, count, own));
    if (whole->item == sizeof(float))
        cst_npy_decode_f32(one, own, elements, (float *)(void *)raw);
    else
        cst_npy_decode_f64(one, own, elements, (double *)(void *)raw);
    return CST_OK;
}

static cst_status parts_fetch(cst_context *context, const cst_npy *npy, int64_t first,
                              int64_t count, unsigned char *raw) {
    const cst_npy_parts *parts = npy->parts;
    int64_t some = 0;
    CST_TRY(cst_npy_check_rows(context, npy, first, count));
    for (const int64_t end = first + count; first < end; first += some) {
        some = end - first;
        int64_t k = part_of(parts, first, &some);
        cst_npy *one = parts->list[k].open;
        CST_SCOPE(scope);
        if (!one)
            CST_TRY(open_again(context, scope, parts, k, &one));
        CST_TRY(fetch_part(context, npy, k, one, first - parts->rows.first[k], some, raw));
        raw += (size_t)some * (size_t)cst_npy_width(npy) * npy->item;
    }
    return CST_OK;
}

static cst_status parts_read(cst_context *context, cst_npy *npy, int64_t first, int64_t count,
                             float *out, double *wide) {
    size_t width = (size_t)cst_npy_width(npy);
    int64_t some = 0;
    CST_TRY(cst_npy_check_rows(context, npy, first, count));
    for (int64_t done = 0; done < count; done += some) {
        some = count - done;
        int64_t k = part_of(npy->parts, first + done, &some);
        int64_t at = first + done - npy->parts->rows.first[k];
        cst_npy *one = NULL;
        CST_TRY(turn_to(context, npy, k, &one));
        if (wide)
            CST_TRY(cst_npy_read_rows_f64(context, one, at, some, wide + (size_t)done * width));
        else
            CST_TRY(cst_npy_read_rows_f32(context, one, at, some, out + (size_t)done * width));
    }
    return CST_OK;
}

static cst_status parts_vector(cst_context *context, cst_npy *npy, int64_t *integers,
                               cst_strings *texts) {
    for (int64_t k = 0; k < npy->parts->rows.files->count; k++) {
        cst_npy *one = NULL;
        int64_t *values = NULL;
        int64_t some = 0;
        CST_SCOPE(scope);
        CST_TRY(turn_to(context, npy, k, &one));
        if (texts) {
            CST_TRY(cst_npy_read_strings(context, one, texts));
            continue;
        }
        CST_TRY(cst_npy_read_i64(context, scope, one, &values, &some));
        memcpy(integers + npy->parts->rows.first[k], values, (size_t)some * sizeof *values);
    }
    return CST_OK;
}

static cst_status check_part(cst_context *context, const cst_npy *whole, const char *first,
                             const cst_npy *one, const char *path) {
    char shapes[2][CST_NPY_SHAPE_CHARS];
    (void)cst_npy_shape_text(one, shapes[0]);
    bool same = one->dims == whole->dims;
    if (one->dims == 0)
        return cst_fail(context, CST_ERROR_INPUT, "%s: has shape %s; a part must have rows", path,
                        shapes[0]);
    if (one->shape[0] == 0)
        return cst_fail(context, CST_ERROR_INPUT,
                        "%s: has shape %s, no rows; remove it from the parts", path, shapes[0]);
    for (int d = 1; same && d < one->dims; d++)
        same = one->shape[d] == whole->shape[d];
    if (!same)
        return cst_fail(context, CST_ERROR_MISMATCH,
                        "%s: shape %s does not match shape %s of %s: parts may differ only in the "
                        "number of rows",
                        path, shapes[0], cst_npy_shape_text(whole, shapes[1]), first);
    if (cst_npy_is_text(one) != cst_npy_is_text(whole))
        return cst_fail(context, CST_ERROR_MISMATCH,
                        "%s: contains %s, but %s contains %s; parts must be of one kind", path,
                        cst_npy_is_text(one) ? "strings" : "numbers", first,
                        cst_npy_is_text(one) ? "numbers" : "strings");
    return CST_OK;
}

static cst_status add_part(cst_context *context, cst_npy *whole, int64_t k) {
    cst_npy_parts *parts = whole->parts;
    const cst_file_parts *files = parts->rows.files;
    bool keep = may_stay_open();
    cst_npy *one;
    CST_SCOPE(own);
    parts->kept += keep;
    CST_TRY(cst_poll_reading(context));
    CST_TRY(
        cst_npy_open(context, keep ? &parts->scope : own, &one, files->paths[k], parts->zip_limit));
    if (k == 0) {
        whole->dims = one->dims;
        memcpy(whole->shape, one->shape, sizeof whole->shape);
        whole->kind = one->kind;
        memcpy(whole->descr, one->descr, sizeof whole->descr);
    }
    CST_TRY(check_part(context, whole, files->paths[0], one, files->paths[k]));
    if (__builtin_add_overflow(parts->rows.first[k], one->shape[0], &parts->rows.first[k + 1]))
        return cst_fail(context, CST_ERROR_LIMIT, "%s: too many rows", files->name);
    parts->list[k] = (part){keep ? one : NULL, one->kind, one->item, one->swapped, false};
    parts->streams = parts->streams && cst_npy_streams(one);
    if (cst_npy_rounding(one) > parts->rounding)
        parts->rounding = cst_npy_rounding(one);
    return CST_OK;
}

/* The type of the whole: that of the parts, or one that holds each of their numbers. */
static void settle_type(cst_npy *whole) {
    int64_t count = whole->parts->rows.files->count;
    part *list = whole->parts->list;
    bool same = true;
    bool narrow = true;
    for (int64_t k = 0; k < count; k++) {
        cst_npy element = {.kind = list[k].kind, .item = list[k].item};
        same = same && list[k].kind == list->kind && list[k].item == list->item &&
               list[k].swapped == list->swapped;
        narrow = narrow && cst_npy_is_f32(&element);
    }
    whole->kind = list->kind;
    whole->item = list->item;
    whole->swapped = list->swapped;
    if (!same && !cst_npy_is_text(whole)) {
        whole->kind = CST_NPY_FLOAT;
        whole->item = narrow ? sizeof(float) : sizeof(double);
        whole->swapped = false;
    }
    for (int64_t k = 0; k < count; k++)
        list[k].plain = list[k].kind == whole->kind && list[k].item == whole->item &&
                        list[k].swapped == whole->swapped;
}

cst_status cst_npy_open_parts(cst_context *context, cst_scope *scope, cst_npy **out,
                              const cst_file_parts *files, uint64_t zip_limit) {
    cst_npy *whole;
    *out = NULL;
    CST_TRY(make(context, scope, &whole));
    CST_NEW(context, scope, cst_npy_parts, parts, 1);
    CST_TRY(cst_scope_own(context, scope, close_parts, parts));
    *parts = (cst_npy_parts){
        .rows.files = files, .streams = true, .zip_limit = zip_limit, .current_part = -1};
    whole->parts = parts;
    CST_TAKE(context, &parts->scope, parts->list, files->count);
    CST_TAKE(context, &parts->scope, parts->rows.first, files->count + 1);
    for (int64_t k = 0; k < files->count; k++)
        CST_TRY(add_part(context, whole, k));
    whole->shape[0] = parts->rows.first[files->count];
    settle_type(whole);
    *out = whole;
    return CST_OK;
}
