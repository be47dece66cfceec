/*
 * Weights of networks as members of a pool: checkpoints with the same tensors are averaged, mixed,
 * or taken as a distribution that further weights are drawn from. Files are read and written in the
 * safetensors format a piece at a time, so that networks of any size need little memory.
 * docs/weights.md has the methods. Paper: Related Work (weight-space fusion).
 */
#ifndef CORESTACK_WEIGHTS_H
#define CORESTACK_WEIGHTS_H

#include <corestack/context.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- checkpoints that belong together ----------------------------------------------------------
 */

/* Open safetensors files that hold the same tensors: same names, shapes and dtypes, in any order.
 * Immutable: any number of threads may use one, each with a context of its own. */
typedef struct cst_checkpoints cst_checkpoints;

/* Opens paths [count], count >= 1. Tensors of F64, F32, F16 and BF16 are the parameters, which are
 * averaged; integers and BOOL are copied. Errors name the file: CST_ERROR_MISMATCH with the first
 * differences and their number where a file has other tensors than the first, CST_ERROR_UNSUPPORTED
 * for a dtype that is neither (floats of 8 bits and fewer, C64), CST_ERROR_INPUT where there are no
 * parameters. Notices (context's log) say that integer tensors differ between the files, that there
 * are batch-norm statistics, and that a file is given twice. Reads headers and integer tensors.
 * *out is the caller's. Files stay open: one descriptor each. */
CST_API cst_status cst_checkpoints_open(cst_context *context, cst_checkpoints **out,
                                        const char *const *paths, int32_t count);
CST_API void cst_checkpoints_close(cst_context *context, cst_checkpoints *checkpoints);

/* How many files; 0 for NULL. */
CST_API int32_t cst_checkpoints_count(const cst_checkpoints *checkpoints);
/* The path of a file as it was given; NULL beyond the last. Borrowed. */
CST_API const char *cst_checkpoints_path(const cst_checkpoints *checkpoints, int32_t file);
/* Tensors that are mixed (F64, F32, F16, BF16), numbered from 0 in the order of their names' bytes;
 * 0 for NULL. Weights per tensor go by these numbers. */
CST_API int64_t cst_checkpoints_tensors(const cst_checkpoints *checkpoints);
/* NULL and -1 beyond the last tensor. Borrowed. */
CST_API const char *cst_checkpoints_tensor_name(const cst_checkpoints *checkpoints, int64_t tensor);
CST_API int64_t cst_checkpoints_tensor_elements(const cst_checkpoints *checkpoints, int64_t tensor);
/* Elements of all tensors that are mixed. */
CST_API int64_t cst_checkpoints_parameters(const cst_checkpoints *checkpoints);
/* Tensors that are copied: integers and BOOL. */
CST_API int64_t cst_checkpoints_copied(const cst_checkpoints *checkpoints);

/* What a weight of a mix belongs to. */
typedef enum cst_mix_scope {
    CST_MIX_MODEL = 0, /* a file: weights [count] */
    CST_MIX_TENSOR =
        1 /* a tensor of a file: weights [count * tensors], row-major: a file's first */
} cst_mix_scope;

/* Writes the weighted sum of the checkpoints: each parameter is sum over files of weight x value,
 * in double precision, rounded once to the tensor's dtype (to nearest, ties to even). weights:
 * finite numbers of any sign, which are taken as they are (make them sum to 1 for a mean); NULL:
 * 1/count each. A file of weight 0 is not read, and where all files have the same value and weights
 * sum to 1 the result is that value to the last bit. Tensors that are copied are those of the first
 * file. Metadata: what all files share, and corestack.kind ("mean", "mix", "mix-per-tensor") and
 * corestack.files (their number).
 *
 * The bytes depend on nothing but the files' contents, their order and the weights. hash: of the
 * file's bytes, XXH3 of 128 bits, upper half first (as xxh128sum prints); or NULL.
 *
 * CST_ERROR_INPUT with file, tensor and element for a parameter that is not finite,
 * CST_ERROR_NUMERIC for a sum beyond the dtype. The file appears whole or not at all; it may be one
 * of those that are mixed. Memory: some 30 MiB, whatever the size. Can be cancelled. */
CST_API cst_status cst_checkpoints_mix(cst_context *context, const cst_checkpoints *checkpoints,
                                       const double *weights, cst_mix_scope scope, const char *path,
                                       uint64_t hash[2]);

#ifdef __cplusplus
}
#endif
#endif
