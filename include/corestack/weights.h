/*
 * Weights of networks as members of a pool: checkpoints with the same
 * tensors are averaged, mixed, or taken as a distribution that further weights are drawn from.
 * Files are read and written in the safetensors format a piece at a time, so that networks of any
 * size need little memory. docs/weights.md has the methods. Paper: Related Work (weight-space
 * fusion).
 */
#ifndef CORESTACK_WEIGHTS_H
#define CORESTACK_WEIGHTS_H

#include <corestack/context.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- checkpoints that belong together ---- */

/* Open safetensors files that hold the same tensors: same names, shapes and dtypes, in any order.
 * Immutable: any number of threads may use one, each with its own context. */
typedef struct cst_checkpoints cst_checkpoints;

/* Opens checkpoints: paths [count], count >= 1. Tensors of F64, F32, F16 and BF16 are parameters,
 * which are averaged; integers and BOOL are copied. Reads headers and integer tensors. Files stay
 * open, one descriptor each. *out belongs to the caller (cst_checkpoints_close).
 * Errors name the file: CST_ERROR_MISMATCH, with the first differences and their number, if its
 * tensors differ from those of the first file; CST_ERROR_UNSUPPORTED for other dtypes (floats of 8
 * bits and fewer, C64); CST_ERROR_INPUT if there are no parameters, and for a file of cst_swag_fit,
 * which is not a checkpoint. Notices (log of the context) report integer tensors that differ
 * between files, batch-norm statistics, and files that are given twice. */
CST_API cst_status cst_checkpoints_open(cst_context *context, cst_checkpoints **out,
                                        const char *const *paths, int32_t count);

/* Closes the files and frees the object; NULL is accepted. */
CST_API void cst_checkpoints_close(cst_context *context, cst_checkpoints *checkpoints);

/* Returns the number of files; 0 for NULL. */
CST_API int32_t cst_checkpoints_count(const cst_checkpoints *checkpoints);

/* Returns the path of file `file` as given; NULL beyond the last. Borrowed. */
CST_API const char *cst_checkpoints_path(const cst_checkpoints *checkpoints, int32_t file);

/* Returns the number of tensors that are mixed (F64, F32, F16, BF16); 0 for NULL. They are numbered
 * from 0 in byte order of their names; weights per tensor use these numbers. */
CST_API int64_t cst_checkpoints_tensors(const cst_checkpoints *checkpoints);

/* Returns the name of mixed tensor `tensor`; NULL beyond the last. Borrowed. */
CST_API const char *cst_checkpoints_tensor_name(const cst_checkpoints *checkpoints, int64_t tensor);

/* Returns the number of elements of mixed tensor `tensor`; -1 beyond the last. */
CST_API int64_t cst_checkpoints_tensor_elements(const cst_checkpoints *checkpoints, int64_t tensor);

/* Returns the total number of elements of all mixed tensors. */
CST_API int64_t cst_checkpoints_parameters(const cst_checkpoints *checkpoints);

/* Returns the number of tensors that are copied: integers and BOOL. */
CST_API int64_t cst_checkpoints_copied(const cst_checkpoints *checkpoints);

/* What a weight of a mix belongs to. */
typedef enum cst_mix_scope {
    CST_MIX_MODEL = 0, /* a file: weights [count] */
    CST_MIX_TENSOR =
        1 /* a tensor of a file: weights [count * tensors], row-major: a file's first */
} cst_mix_scope;

/* Writes a weighted sum of checkpoints: each parameter is the sum over files of weight * value, in
 * double precision, rounded to the dtype of the tensor (to nearest, ties to even). weights: finite
 * numbers of any sign, used as given (make them sum to 1 for a mean); NULL: 1/count each. If all
 * non-zero weights are 1 divided by their number, the sum of values is divided once: for F16, and
 * for F32 and BF16 as far as double precision can represent the sum, the result is the exact mean,
 * rounded once. Files with weight 0 are not read. If all files have the same value and the weights
 * sum to 1, the result is exactly that value. Copied tensors come from the first file. Metadata:
 * the entries that all files share, corestack.kind ("mean", "mix", "mix-per-tensor") and
 * corestack.files (their number).
 *
 * The bytes depend only on the contents of the files, their order and the weights. hash: receives
 * the 128-bit XXH3 hash of the file, upper half first (as xxh128sum prints it), or NULL.
 *
 * CST_ERROR_INPUT, with file, tensor and element, for a parameter that is not finite;
 * CST_ERROR_NUMERIC for a sum that exceeds the range of the dtype (never the case for a mean). The
 * file is written completely, or `path` is unchanged; it may be one of the files that are mixed.
 * Uses about 30 MiB of memory for files of any size. Can be cancelled. */
CST_API cst_status cst_checkpoints_mix(cst_context *context, const cst_checkpoints *checkpoints,
                                       const double *weights, cst_mix_scope scope, const char *path,
                                       uint64_t hash[2]);

/* ---- a training run's checkpoints ---- */

/* Writes the mean of checkpoints [count] (stochastic weight averaging; Izmailov et al. 2018), like
 * cst_checkpoints_mix. from: an average written by this function, to be continued with these
 * checkpoints; NULL for none. The metadata entry corestack.swa.count records the number of
 * checkpoints, so a continued average equals the average of all checkpoints, except for the
 * rounding of `from` to its dtype. `path` may be `from`. Copied tensors come from the first file,
 * or from `from` if given. CST_ERROR_INPUT if `from` is not such an average. */
CST_API cst_status cst_swa_average(cst_context *context, const char *const *paths, int32_t count,
                                   const char *from, const char *path);

/* Reads from a file of cst_swa_average or cst_swag_fit the number of checkpoints, and the number of
 * deviation columns (0 for an average and for a diagonal). Either output may be NULL.
 * CST_ERROR_INPUT for any other file. */
CST_API cst_status cst_weights_made_of(cst_context *context, const char *path, int64_t *checkpoints,
                                       int32_t *rank);

/* Fits a normal distribution over weights to checkpoints [count], count >= 2, given in the order of
 * training (SWAG; Maddox et al. 2019, Algorithm 1), in one pass. For every parameter, over the
 * checkpoints theta_1..theta_count, it writes
 * - mean.NAME: the mean, in the dtype of the checkpoints;
 * - variance.NAME (F32): the mean squared distance from the mean, at least 1e-30, computed by
 * running updates of squared distances (a difference of large squares would cancel);
 * - deviation.NAME (F32 [rank, ...]): theta_i minus the mean of theta_1..theta_i, for the last
 * `rank` checkpoints, oldest first.
 * Other tensors are copied from the first checkpoint as copied.NAME. Metadata: the entries that all
 * checkpoints share, corestack.kind ("swag"), corestack.swag.version ("1"), .count and .rank. rank:
 * 0 (diagonal only) or at least 2; with fewer checkpoints all deviations are kept, with a notice.
 * CST_ERROR_INPUT for F64 checkpoints that are too far apart for F32. Other errors as in
 * cst_checkpoints_mix. Uses about 4 MiB of memory per thread. The output must be a file, not a
 * pipe. */
CST_API cst_status cst_swag_fit(cst_context *context, const char *const *paths, int32_t count,
                                int32_t rank, const char *path);

/* Draws networks from a file of cst_swag_fit (Maddox et al. 2019) and writes them as
 * sample_00.safetensors, ... (at least two digits) to a new or empty folder, which appears when it
 * is complete:
 * theta = mean + sqrt(scale) (sqrt(variance) z1 + sum over columns d of deviation_d z2_d /
 * sqrt(rank - 1))
 * with standard normal z1 for each parameter and z2 for each column, shared by all tensors of a
 * sample, rounded once to the dtype of the mean. scale >= 0: 0.5 is the distribution of the paper,
 * 1 that of the diagonal, 0 the mean. rank: number of last columns to use; -1: all; 0: diagonal
 * only. Draws depend on seed, sample, and the position of a parameter in the order of tensor names,
 * so that a larger set of samples begins with the smaller one. samples: 1 to 100000.
 * CST_ERROR_FORMAT for a file that is not a SWAG file. Can be cancelled. */
CST_API cst_status cst_swag_sample(cst_context *context, const char *model, int32_t samples,
                                   double scale, uint64_t seed, int32_t rank, const char *folder);

#ifdef __cplusplus
}
#endif
#endif
