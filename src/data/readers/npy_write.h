/* Writes .npy files, whole or not at all. */
#ifndef CST_IO_NPY_WRITE_H
#define CST_IO_NPY_WRITE_H

#include "data/files/output.h"

typedef enum cst_npy_type {
    CST_NPY_F32,
    CST_NPY_F16,
    CST_NPY_U8,
    CST_NPY_U16,
    CST_NPY_I32
} cst_npy_type;

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

#endif
