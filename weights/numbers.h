/* Numbers of checkpoints: read as float64, checked, and rounded to the dtype of a tensor. */
#ifndef CST_WEIGHTS_NUMBERS_H
#define CST_WEIGHTS_NUMBERS_H

#include "weights/checkpoints.h"

/* Reads elements [count] of tensor `tensor` of a file. raw: scratch of count * 8 bytes. */
cst_status cst_weights_read(cst_context *context, const cst_safetensors *file, int64_t tensor,
                            int64_t first, int64_t count, unsigned char *raw, double *out);

/* Returns the first of [count] values that is not finite or beyond the dtype; -1: none. */
int64_t cst_weights_bad(const double *values, int64_t count, cst_dtype dtype);

/* CST_ERROR_INPUT for the first file with a number that is not finite in elements
 * first..first+count-1 of the tensor at `place`; CST_OK if there is none. */
cst_status cst_weights_blame(cst_context *context, const cst_checkpoints *checkpoints,
                             int64_t place, int64_t first, int64_t count, unsigned char *raw,
                             double *values);

/* Stores numbers [count] as little-endian F64, F32, F16 or BF16, rounded to nearest, ties to even.
 * What is beyond the type becomes infinite. */
void cst_weights_store(cst_dtype dtype, const double *values, int64_t count, unsigned char *raw);

#endif
