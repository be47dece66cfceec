/*
 * Files of named tensors in the safetensors format: weights of networks, predictions, labels. Read
 * a piece at a time, so that a file of any size needs little memory, and written whole or not at
 * all. docs/safetensors.md has the format and its limits.
 */
#ifndef CORESTACK_SAFETENSORS_H
#define CORESTACK_SAFETENSORS_H

#include <corestack/context.h>

#ifdef __cplusplus
extern "C" {
#endif

/* X(name in the file, value, bits of an element). Values are pinned and grow with the alignment:
 * the sorted order of a file goes by them. */
#define CST_DTYPE_LIST(X)                                                                          \
    X(BOOL, 0, 8)                                                                                  \
    X(F4, 1, 4)                                                                                    \
    X(F6_E2M3, 2, 6)                                                                               \
    X(F6_E3M2, 3, 6)                                                                               \
    X(U8, 4, 8)                                                                                    \
    X(I8, 5, 8)                                                                                    \
    X(F8_E5M2, 6, 8)                                                                               \
    X(F8_E4M3, 7, 8)                                                                               \
    X(F8_E8M0, 8, 8)                                                                               \
    X(F8_E4M3FNUZ, 9, 8)                                                                           \
    X(F8_E5M2FNUZ, 10, 8)                                                                          \
    X(I16, 11, 16)                                                                                 \
    X(U16, 12, 16)                                                                                 \
    X(F16, 13, 16)                                                                                 \
    X(BF16, 14, 16)                                                                                \
    X(I32, 15, 32)                                                                                 \
    X(U32, 16, 32)                                                                                 \
    X(F32, 17, 32)                                                                                 \
    X(C64, 18, 64)                                                                                 \
    X(F64, 19, 64)                                                                                 \
    X(I64, 20, 64)                                                                                 \
    X(U64, 21, 64)

#define CST_DTYPE_ENUM(name, value, bits) CST_DTYPE_##name = (value),
typedef enum cst_dtype {
    CST_DTYPE_LIST(CST_DTYPE_ENUM) CST_DTYPE_FORCE_INT = 0x7fffffff
} cst_dtype;
#undef CST_DTYPE_ENUM

/* Axes of a tensor, bytes of a header: a file beyond them is CST_ERROR_LIMIT. */
#define CST_TENSOR_AXES 32
#define CST_SAFETENSORS_HEADER_BYTES 100000000

/* "BF16"; NULL for a value not in the list. */
CST_API const char *cst_dtype_name(cst_dtype dtype);
/* Bits of an element; 0 for a value not in the list. */
CST_API int32_t cst_dtype_bits(cst_dtype dtype);
/* Whether elements are read as float32 and float64: all but C64 and the floats of 4, 6 and 8 bits.
 */
CST_API int cst_dtype_is_number(cst_dtype dtype);

/* ---- reading ---- */

/* An open file. Immutable but for cst_safetensors_map: any number of threads may read one, each
 * with a context of its own. */
typedef struct cst_safetensors cst_safetensors;

/* Reads and checks the header; no tensor is read. CST_ERROR_FORMAT with the byte for a file that is
 * not one: a header that is not the JSON it should be, a name that is there twice, a range that
 * does not fit shape and dtype, ranges with a hole or an overlap, bytes that belong to no tensor;
 * CST_ERROR_UNSUPPORTED for a dtype that is not in the list. Memory: the header and about as much
 * again. *out is the caller's. */
CST_API cst_status cst_safetensors_open(cst_context *context, cst_safetensors **out,
                                        const char *path);
CST_API void cst_safetensors_close(cst_context *context, cst_safetensors *file);

/* Tensors are numbered 0..count-1 in the order of their data in the file. */
CST_API int64_t cst_safetensors_count(const cst_safetensors *file);
/* The number of the tensor of that name, or -1. */
CST_API int64_t cst_safetensors_find(const cst_safetensors *file, const char *name);
/* UTF-8, no NUL inside; NULL beyond the last tensor. Borrowed. */
CST_API const char *cst_safetensors_name(const cst_safetensors *file, int64_t tensor);
/* CST_DTYPE_FORCE_INT beyond the last tensor. */
CST_API cst_dtype cst_safetensors_dtype(const cst_safetensors *file, int64_t tensor);
/* Lengths [*axes], C order; *axes is 0 for a scalar. NULL beyond the last tensor. Borrowed. */
CST_API const int64_t *cst_safetensors_shape(const cst_safetensors *file, int64_t tensor,
                                             int32_t *axes);
/* Product of the lengths, 1 for a scalar; -1 beyond the last tensor. */
CST_API int64_t cst_safetensors_elements(const cst_safetensors *file, int64_t tensor);
/* Bytes of its data, and the byte of the file where they begin; -1 beyond the last tensor. */
CST_API int64_t cst_safetensors_bytes(const cst_safetensors *file, int64_t tensor);
CST_API int64_t cst_safetensors_offset(const cst_safetensors *file, int64_t tensor);

/* Entries of "__metadata__", in the order of the file. NULL beyond the last, and for a key that is
 * not there. Borrowed. */
CST_API int64_t cst_safetensors_metadata_count(const cst_safetensors *file);
CST_API const char *cst_safetensors_metadata_key(const cst_safetensors *file, int64_t index);
CST_API const char *cst_safetensors_metadata_value(const cst_safetensors *file, int64_t index);
CST_API const char *cst_safetensors_metadata(const cst_safetensors *file, const char *key);

/* Bytes first..first+count-1 of a tensor as they are in the file (little-endian) into out [count].
 * A byte of BOOL that is neither 0 nor 1 is CST_ERROR_FORMAT. A file that became shorter is
 * CST_ERROR_IO. */
CST_API cst_status cst_safetensors_read(cst_context *context, const cst_safetensors *file,
                                        int64_t tensor, int64_t first, int64_t count, void *out);

/* Elements first..first+count-1 of a tensor, C order, as float32 or float64: exact for what the
 * type holds (F16, BF16, F32 and integers up to 2^24 or 2^53), else rounded to nearest; F64 beyond
 * float32 becomes infinite. CST_ERROR_UNSUPPORTED where !cst_dtype_is_number. */
CST_API cst_status cst_safetensors_read_f32(cst_context *context, const cst_safetensors *file,
                                            int64_t tensor, int64_t first, int64_t count,
                                            float *out);
CST_API cst_status cst_safetensors_read_f64(cst_context *context, const cst_safetensors *file,
                                            int64_t tensor, int64_t first, int64_t count,
                                            double *out);

/* Maps the file (once) and points *out at a tensor's data, read-only, at any alignment, until the
 * file is closed. Nothing is read until it is looked at. Only for a file that nobody shortens
 * meanwhile: looking at a page that is gone ends the process, which the functions above do not. One
 * thread at a time. */
CST_API cst_status cst_safetensors_map(cst_context *context, cst_safetensors *file, int64_t tensor,
                                       const void **out);

/* ---- writing: in libcorestack-weights ---- */

/* A file that is being written: first its tensors are declared, then their data given in pieces.
 * One thread at a time. After an error it can only be abandoned; where bytes could not be written,
 * every further call with data fails, and the finish. */
typedef struct cst_safetensors_writer cst_safetensors_writer;

typedef enum cst_tensor_order {
    CST_TENSOR_ORDER_SORTED =
        0,                     /* by dtype, the widest first, then by name's bytes: every tensor
                                  of whole bytes lies aligned, and equal tensors give equal files */
    CST_TENSOR_ORDER_GIVEN = 1 /* as they were added */
} cst_tensor_order;

/* Starts a file under a temporary name beside `path`; what is at `path` stays until
 * cst_safetensors_writer_finish. *out is the caller's. */
CST_API cst_status cst_safetensors_writer_open(cst_context *context, cst_safetensors_writer **out,
                                               const char *path, cst_tensor_order order);

/* Declares a tensor; tensors are numbered 0, 1, ... as they are added. name: UTF-8, not
 * "__metadata__". shape: [axes] lengths of 0 or more, NULL for a scalar (axes 0). */
CST_API cst_status cst_safetensors_writer_add(cst_context *context, cst_safetensors_writer *writer,
                                              const char *name, cst_dtype dtype,
                                              const int64_t *shape, int32_t axes);

/* Adds an entry of "__metadata__". */
CST_API cst_status cst_safetensors_writer_metadata(cst_context *context,
                                                   cst_safetensors_writer *writer, const char *key,
                                                   const char *value);

/* Ends the declarations and writes the header. A name or key that is there twice is
 * CST_ERROR_ARGUMENT. */
CST_API cst_status cst_safetensors_writer_start(cst_context *context,
                                                cst_safetensors_writer *writer);

/* After the start: the number of the tensor whose data come at place `place` (0 first) of the file;
 * -1 before the start and beyond the last. Data have to be given in this order. */
CST_API int64_t cst_safetensors_writer_at(const cst_safetensors_writer *writer, int64_t place);

/* The next `count` bytes of a tensor as they shall be in the file (little-endian). Data of another
 * tensor than the one whose turn it is, or more than it has, are CST_ERROR_ARGUMENT. */
CST_API cst_status cst_safetensors_writer_put(cst_context *context, cst_safetensors_writer *writer,
                                              int64_t tensor, const void *data, int64_t count);

/* The next `count` elements of a tensor of F64, F32, F16 or BF16, rounded to nearest, ties to even;
 * what is beyond the type becomes infinite. */
CST_API cst_status cst_safetensors_writer_put_f32(cst_context *context,
                                                  cst_safetensors_writer *writer, int64_t tensor,
                                                  const float *values, int64_t count);
CST_API cst_status cst_safetensors_writer_put_f64(cst_context *context,
                                                  cst_safetensors_writer *writer, int64_t tensor,
                                                  const double *values, int64_t count);

/* Gives the file its name and frees the writer, also on failure, when nothing at the path has
 * changed. Data that are missing are CST_ERROR_ARGUMENT. */
CST_API cst_status cst_safetensors_writer_finish(cst_context *context,
                                                 cst_safetensors_writer *writer);

/* Removes what was written and frees the writer; NULL is accepted. */
CST_API void cst_safetensors_writer_abandon(cst_context *context, cst_safetensors_writer *writer);

#ifdef __cplusplus
}
#endif
#endif
