/* Reads files of named tensors in the safetensors format: weights of networks, predictions, labels.
 * Tensors are read a piece at a time. docs/weights.md#safetensors-files has the format and its
 * limits. */
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

/* Returns the name of a dtype, e.g. "BF16"; NULL for a value that is not in the list. Static. */
CST_API const char *cst_dtype_name(cst_dtype dtype);

/* Returns the number of bits of an element; 0 for a value that is not in the list. */
CST_API int32_t cst_dtype_bits(cst_dtype dtype);

/* ---- reading ---- */

/* An open file. Immutable but for cst_safetensors_map: any number of threads may read one, each
 * with a context of its own. */
typedef struct cst_safetensors cst_safetensors;

/* Opens a file, and reads and checks its header; tensor data are not read. CST_ERROR_FORMAT, with
 * the byte, for an invalid file: a header that is not the expected JSON, a duplicate name, a range
 * that does not match shape and dtype, ranges with a gap or an overlap, bytes that belong to no
 * tensor. CST_ERROR_UNSUPPORTED for an unknown dtype. Uses about twice the size of the header in
 * memory. *out belongs to the caller (cst_safetensors_close). */
CST_API cst_status cst_safetensors_open(cst_context *context, cst_safetensors **out,
                                        const char *path);

/* Closes a file and frees the object; NULL is accepted. */
CST_API void cst_safetensors_close(cst_context *context, cst_safetensors *file);

/* Returns the number of tensors, which are numbered from 0 in the order of their data in the file.
 * For programs that size arrays by it. */
CST_API int64_t cst_safetensors_count(const cst_safetensors *file);

/* Returns the number of the tensor with this name, or -1. */
CST_API int64_t cst_safetensors_find(const cst_safetensors *file, const char *name);

/* Returns the name of a tensor, UTF-8 without NUL; NULL beyond the last tensor. Borrowed. */
CST_API const char *cst_safetensors_name(const cst_safetensors *file, int64_t tensor);

/* Returns the dtype of a tensor; CST_DTYPE_FORCE_INT beyond the last tensor. */
CST_API cst_dtype cst_safetensors_dtype(const cst_safetensors *file, int64_t tensor);

/* Returns the lengths [*axes] of a tensor, C order; *axes is 0 for a scalar. NULL beyond the last
 * tensor. Borrowed. */
CST_API const int64_t *cst_safetensors_shape(const cst_safetensors *file, int64_t tensor,
                                             int32_t *axes);

/* Returns the number of data bytes of a tensor; -1 beyond the last tensor. */
CST_API int64_t cst_safetensors_bytes(const cst_safetensors *file, int64_t tensor);

/* Returns the number of entries of "__metadata__". For programs that size arrays by it. */
CST_API int64_t cst_safetensors_metadata_count(const cst_safetensors *file);

/* Returns the key of metadata entry `index`, in the order of the file; NULL beyond the last.
 * Borrowed. */
CST_API const char *cst_safetensors_metadata_key(const cst_safetensors *file, int64_t index);

/* Returns the value of metadata entry `index`; NULL beyond the last. Borrowed. */
CST_API const char *cst_safetensors_metadata_value(const cst_safetensors *file, int64_t index);

/* Copies bytes first..first+count-1 of a tensor, little-endian as in the file, to out [count].
 * CST_ERROR_FORMAT for a BOOL byte other than 0 and 1; CST_ERROR_IO if the file has become shorter.
 */
CST_API cst_status cst_safetensors_read(cst_context *context, const cst_safetensors *file,
                                        int64_t tensor, int64_t first, int64_t count, void *out);

/* Reads elements first..first+count-1 of a tensor, C order, as float32 to out [count]. F16, BF16,
 * F32 and integers up to 2^24 are exact; other values are rounded to nearest, and F64 values beyond
 * float32 become infinite. CST_ERROR_UNSUPPORTED for C64 and floats of 4, 6 and 8 bits. */
CST_API cst_status cst_safetensors_read_f32(cst_context *context, const cst_safetensors *file,
                                            int64_t tensor, int64_t first, int64_t count,
                                            float *out);

/* Reads elements first..first+count-1 of a tensor, C order, as float64 to out [count]. Floats and
 * integers up to 2^53 are exact; larger integers are rounded to nearest. CST_ERROR_UNSUPPORTED for
 * C64 and floats of 4, 6 and 8 bits. */
CST_API cst_status cst_safetensors_read_f64(cst_context *context, const cst_safetensors *file,
                                            int64_t tensor, int64_t first, int64_t count,
                                            double *out);

/* Maps the file into memory (once) and points *out to the data of a tensor: read-only, at any
 * alignment, valid until the file is closed. Pages are read when accessed. Only use this for a file
 * that nobody shortens in the meantime: access to a missing page ends the process, which cannot
 * happen with the functions above. One thread at a time. */
CST_API cst_status cst_safetensors_map(cst_context *context, cst_safetensors *file, int64_t tensor,
                                       const void **out);

#ifdef __cplusplus
}
#endif
#endif
