/* Numbers of checkpoints: read as float64, checked, rounded to a dtype; loops over all of them. */
#ifndef CST_WEIGHTS_NUMBERS_H
#define CST_WEIGHTS_NUMBERS_H

#include "weights/checkpoints.h"

/* Reads elements [count] of tensor `tensor` of a file. raw: scratch of count * 8 bytes. */
cst_status cst_weights_read(cst_context *context, const cst_safetensors *file, int64_t tensor,
                            int64_t first, int64_t count, unsigned char *raw, double *out);

/* Returns the first of [count] values that is not finite or beyond the dtype; -1: none. */
int64_t cst_weights_bad(const double *values, int64_t count, cst_dtype dtype);

/* CST_ERROR_INPUT for the first file with a number that is not finite in the range of the
 * tensor. */
cst_status cst_weights_blame(cst_context *context, const cst_checkpoints *checkpoints,
                             int64_t place, int64_t first, int64_t count, unsigned char *raw,
                             double *values);

/* Stores numbers [count] as little-endian F64, F32, F16 or BF16, to nearest even; overflow is
 * infinite. */
void cst_weights_store(cst_dtype dtype, const double *values, int64_t count, unsigned char *raw);

/* Elements in hand at a time at most, so that they stay in the processor's cache. */
enum { CST_CHUNK = 1 << 15 };

/* Computes elements first..first+count-1 of a tensor. scratch: left as the last call had it. */
typedef cst_status (*cst_strips_fn)(cst_context *worker, void *user, int64_t tensor, int64_t first,
                                    int64_t count, double *scratch);

/* Calls `function` for all elements[tensors], `chunk` at a time. doubles: a thread's scratch. */
cst_status cst_strips_run(cst_context *context, const int64_t *elements, int64_t tensors,
                          int64_t chunk, size_t doubles, cst_strips_fn function, void *user);

#endif
