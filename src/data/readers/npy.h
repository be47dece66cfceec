/* NumPy's .npy format, versions 1 to 3, and .npz members: numbers and strings in, float32 and int32
 * out. Python objects are never unpickled. */
#ifndef CST_IO_NPY_H
#define CST_IO_NPY_H

#include "data/files/bytes.h"
#include "data/readers/strings.h"

enum { CST_NPY_DIMS = 8, CST_NPY_SHAPE_CHARS = 192 };

typedef enum cst_npy_kind {
    CST_NPY_FLOAT,
    CST_NPY_BFLOAT, /* the upper half of a float32; only in safetensors files */
    CST_NPY_INT,
    CST_NPY_UINT,
    CST_NPY_BOOL,
    CST_NPY_BYTES,  /* '|S': bytes padded with NUL */
    CST_NPY_UNICODE /* '<U': UCS-4 padded with NUL */
} cst_npy_kind;

typedef struct cst_npy_parts cst_npy_parts; /* data/readers/npy_parts.h */

/* An open array. One thread at a time. */
typedef struct cst_npy {
    cst_bytes *source;
    cst_npy_parts *parts; /* instead of a source: it is in several files */
    cst_npy_kind kind;
    size_t item;  /* bytes of an element */
    bool swapped; /* the other byte order than this machine's */
    bool fortran; /* the first axis varies fastest */
    int dims;
    int64_t shape[CST_NPY_DIMS];
    int row_axes;         /* how many leading axes together count the rows; 1 unless set */
    uint64_t data_offset; /* bytes before the first element */
    char descr[24];       /* the dtype as the file spells it */
    unsigned char *raw;   /* scratch of the readers */
    const char *numbers;  /* what to do about a value that is no integer; NULL: save integers */
    const char *missing;  /* what to do about NaN where numbers are whole; NULL: the rule */
    size_t raw_bytes;
} cst_npy;

/* Reads the header, checked against the size of the file. `path`: as of cst_bytes_open, or a
 * tensor. */
cst_status cst_npy_open(cst_context *context, cst_npy **out, const char *path, uint64_t zip_limit);
/* Opens the array `usual` of an archive, else its only one. */
cst_status cst_npy_open_usual(cst_context *context, cst_npy **out, const char *path,
                              const char *usual, uint64_t zip_limit);
void cst_npy_close(cst_context *context, void *npy); /* NULL is fine */

/* Reads the header of npy->source, checked against the file's size before any allocation. */
cst_status cst_npy_read_header(cst_context *context, cst_npy *npy);
/* Parses the dict literal [length] of a header; base: its byte in the file, for messages. */
cst_status cst_npy_parse_dict(cst_context *context, cst_npy *npy, const char *text, size_t length,
                              size_t base, const char *where);

bool cst_npy_is_text(const cst_npy *npy);
int64_t cst_npy_rows(const cst_npy *npy);  /* product of the first row_axes lengths */
int64_t cst_npy_width(const cst_npy *npy); /* elements of a row */
/* "(100, 10)" into `buffer`, which is returned. */
const char *cst_npy_shape_text(const cst_npy *npy, char buffer[CST_NPY_SHAPE_CHARS]);

/* Rows as [count][width] in C order. Fortran order is gathered by column, first read whole if
 * deflated or with rows over several axes. BOOL bytes other than 0 and 1 are CST_ERROR_FORMAT, also
 * below. */
cst_status cst_npy_read_rows_f32(cst_context *context, cst_npy *npy, int64_t first, int64_t count,
                                 float *out);
cst_status cst_npy_read_rows_f64(cst_context *context, cst_npy *npy, int64_t first, int64_t count,
                                 double *out);

/* Whether threads can fetch rows at once: numbers in C order in a plain file. */
bool cst_npy_streams(const cst_npy *npy);

/* Rows of such an array as stored: raw [count * width * item]. Threads may share it. */
cst_status cst_npy_fetch(cst_context *context, const cst_npy *npy, int64_t first, int64_t count,
                         unsigned char *raw);

/* Error of a sum of 1 by rounding to the array's type; 0 for 11 bits and more. */
double cst_npy_rounding(const cst_npy *npy);

/* The first byte of [count] that is no BOOL, or -1. */
int64_t cst_npy_bad_bool(const unsigned char *bytes, int64_t count);

/* Whether every value is exactly a float32, and `count` elements of raw as such. */
bool cst_npy_is_f32(const cst_npy *npy);
void cst_npy_decode_f32(const cst_npy *npy, const unsigned char *raw, size_t count, float *out);
void cst_npy_decode_f64(const cst_npy *npy, const unsigned char *raw, size_t count, double *out);

/* A vector ([N] or [N, 1]) of integers or integral floats; *out is the caller's (cst_free). */
cst_status cst_npy_read_i64(cst_context *context, cst_npy *npy, int64_t **out, int64_t *count);

/* A vector of strings as UTF-8, or of integers in decimal. *out is the caller's. */
cst_status cst_npy_read_strings(cst_context *context, cst_npy *npy, cst_strings **out);

#endif
