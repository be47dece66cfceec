/* NumPy's .npy format, versions 1 to 3, and .npz members: numbers and strings in, float32 and int32
 * out. Python objects are never unpickled. */
#pragma once

#include "data/files/bytes.h"
#include "data/files/output.h"
#include "data/readers/file_parts.h"
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

struct cst_npy_parts;

/* An open array. One thread at a time. */
typedef struct cst_npy {
    cst_bytes *source;
    struct cst_npy_parts *parts; /* instead of a source: it is in several files */
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

/* Reads the header, checked against the size of the file; the scope closes it. `path`: as of
 * cst_bytes_open, or a tensor. */
cst_status cst_npy_open(cst_context *context, cst_scope *scope, cst_npy **out, const char *path,
                        uint64_t zip_limit);
/* Opens the array `default_array` of an archive, else its only one. */
cst_status cst_npy_open_default(cst_context *context, cst_scope *scope, cst_npy **out,
                                const char *path, const char *default_array, uint64_t zip_limit);

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

/* ---- elements as stored, in npy_elements.c ---- */

/* An integer of any width; *beyond is set where an unsigned one exceeds int64. */
int64_t cst_npy_integer(const cst_npy *npy, const unsigned char *element, bool *beyond);

/* The first byte of [count] that is no BOOL, or -1. */
int64_t cst_npy_bad_bool(const unsigned char *bytes, int64_t count);

/* Whether every value is exactly a float32; `count` elements of raw as floats. */
bool cst_npy_is_f32(const cst_npy *npy);
void cst_npy_decode_f32(const cst_npy *npy, const unsigned char *raw, size_t count, float *out);
void cst_npy_decode_f64(const cst_npy *npy, const unsigned char *raw, size_t count, double *out);

/* A vector ([N] or [N, 1]) of integers or integral floats; *out is of the scope. */
cst_status cst_npy_read_i64(cst_context *context, cst_scope *scope, cst_npy *npy, int64_t **out,
                            int64_t *count);

/* A vector of strings as UTF-8, or of integers in decimal, added to `out`. */
cst_status cst_npy_read_strings(cst_context *context, cst_npy *npy, cst_strings *out);

/* Where the parts of an array in several files begin. */
const cst_row_parts *cst_npy_row_parts(const cst_npy *npy);

/* CST_ERROR_ARGUMENT for rows that do not exist. */
cst_status cst_npy_check_rows(cst_context *context, const cst_npy *npy, int64_t first,
                              int64_t count);

/* Reads headers of parts with the same columns, all numbers or all text. Keeps `files`. */
cst_status cst_npy_open_parts(cst_context *context, cst_scope *scope, cst_npy **out,
                              const cst_file_parts *files, uint64_t zip_limit);

/* ---- writing, in npy_write.c: whole or not at all ---- */

typedef enum cst_npy_type {
    CST_NPY_F32,
    CST_NPY_F16,
    CST_NPY_U8,
    CST_NPY_U16,
    CST_NPY_I32
} cst_npy_type;

enum { CST_NPY_HEADER = 128 };
/* Magic, version, length and dict of an array [dims], padded to `bytes`: CST_NPY_HEADER or 256. */
void cst_npy_header(char *header, size_t bytes, cst_npy_type type, const int64_t *shape, int dims);

/* A single column is written as a vector. */
cst_status cst_npy_write_f32(cst_context *context, const char *path, const float *data,
                             int64_t rows, int64_t columns);
/* [pages][rows][columns] */
cst_status cst_npy_write_pages_f32(cst_context *context, const char *path, const float *data,
                                   int64_t pages, int64_t rows, int64_t columns);
cst_status cst_npy_write_i32(cst_context *context, const char *path, const int32_t *data,
                             int64_t count);

/* Writes the header of an array [dims], 1 to 5, C order. cst_npy_put and cst_output_commit
 * follow. */
cst_status cst_npy_begin(cst_context *context, cst_output_file **out, const char *path,
                         cst_npy_type type, const int64_t *shape, int dims);

/* Writes `count` elements: F32 and F16 from floats (to nearest even), others from labels that fit.
 * scratch: [count * 2] bytes, except for F32. */
cst_status cst_npy_put_f32(cst_context *context, cst_output_file *output, cst_npy_type type,
                           const float *values, size_t count, unsigned char *scratch);
cst_status cst_npy_put_labels(cst_context *context, cst_output_file *output, cst_npy_type type,
                              const int32_t *labels, size_t count, unsigned char *scratch);

/* The number whose half-precision bits these are. */
float cst_of_half(uint16_t half);

/* The half-precision number nearest to a float, ties to even, as its bits. */
uint16_t cst_half_of(float value);
