/*
 * In libcorestack-weights. Weights of networks as members of a pool: checkpoints with the same
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
 * Immutable: any number of threads may use one, each with a context of its own. */
typedef struct cst_checkpoints cst_checkpoints;

/* Opens paths [count], count >= 1. Tensors of F64, F32, F16 and BF16 are the parameters, which are
 * averaged; integers and BOOL are copied. Errors name the file: CST_ERROR_MISMATCH with the first
 * differences and their number where a file has other tensors than the first, CST_ERROR_UNSUPPORTED
 * for a dtype that is neither (floats of 8 bits and fewer, C64), CST_ERROR_INPUT where there are no
 * parameters, and for a file of cst_swag_fit, which is no checkpoint. Notices (context's log) say
 * that integer tensors differ between the files, that there are batch-norm statistics, and that a
 * file is given twice. Reads headers and integer tensors. *out is the caller's. Files stay open:
 * one descriptor each. */
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
 * in double precision, rounded to the tensor's dtype (to nearest, ties to even). weights: finite
 * numbers of any sign, which are taken as they are (make them sum to 1 for a mean); NULL: 1/count
 * each. Where those that are not 0 are all 1 over their number, the sum of values is divided once:
 * of F16, and of F32 and BF16 as far as double precision holds the sum, that is the exact mean,
 * rounded once. A file of weight 0 is not read, and where all files have the same value and weights
 * sum to 1 the result is that value to the last bit. Tensors that are copied are those of the first
 * file. Metadata: what all files share, and corestack.kind ("mean", "mix", "mix-per-tensor") and
 * corestack.files (their number).
 *
 * The bytes depend on nothing but the files' contents, their order and the weights. hash: of the
 * file's bytes, XXH3 of 128 bits, upper half first (as xxh128sum prints); or NULL.
 *
 * CST_ERROR_INPUT with file, tensor and element for a parameter that is not finite,
 * CST_ERROR_NUMERIC for a sum beyond the dtype, which a mean never is. The file appears whole or
 * not at all; it may be one of those that are mixed. Memory: some 30 MiB, whatever the size. Can be
 * cancelled. */
CST_API cst_status cst_checkpoints_mix(cst_context *context, const cst_checkpoints *checkpoints,
                                       const double *weights, cst_mix_scope scope, const char *path,
                                       uint64_t hash[2]);

/* ---- a training run's checkpoints ---- */

/* Writes the mean of checkpoints [count] as one (stochastic weight averaging; Izmailov et al.
 * 2018), as cst_checkpoints_mix does. from: an average that this function wrote, which is continued
 * with these checkpoints; NULL: none. Metadata corestack.swa.count says how many checkpoints are in
 * an average, so that one continued equals the one over all of them, but for the rounding of `from`
 * to its dtype. `path` may be `from`. CST_ERROR_INPUT where `from` is no such average. Tensors that
 * are copied are those of the first file: of `from`, where it is given. */
CST_API cst_status cst_swa_average(cst_context *context, const char *const *paths, int32_t count,
                                   const char *from, const char *path);

/* What a file was made of that cst_swa_average or cst_swag_fit wrote: the number of checkpoints,
 * and the columns of deviations (0 for an average and for a diagonal alone). Either place may be
 * NULL. CST_ERROR_INPUT for a file that is neither. */
CST_API cst_status cst_weights_made_of(cst_context *context, const char *path, int64_t *checkpoints,
                                       int32_t *rank);

/* Fits a normal distribution over weights to checkpoints [count], count >= 2, given in the order of
 * training (SWAG; Maddox et al. 2019, Algorithm 1), in one pass. For every parameter, over the
 * checkpoints theta_1..theta_count:
 *   mean.NAME       the mean, in the dtype of the checkpoints;
 *   variance.NAME   F32: mean squared distance from the mean, at least 1e-30, from running updates
 *                   of squared distances (not from a difference of large squares, as it cancels);
 *   deviation.NAME  F32 [rank, ...]: theta_i minus the mean of theta_1..theta_i, for the last
 * `rank` checkpoints, the oldest first. Other tensors are those of the first checkpoint, as
 * copied.NAME. Checkpoints of F64 that are too far apart for F32 are CST_ERROR_INPUT. Metadata:
 * what all checkpoints share, corestack.kind ("swag"), corestack.swag.version ("1"), .count and
 * .rank. rank: 0 (the diagonal alone) or from 2 on; of fewer checkpoints all deviations are kept,
 * with a notice. Errors and memory as cst_checkpoints_mix (some 4 MiB a thread); the output must be
 * a file, no pipe. */
CST_API cst_status cst_swag_fit(cst_context *context, const char *const *paths, int32_t count,
                                int32_t rank, const char *path);

/* Draws networks from what cst_swag_fit wrote: files sample_00.safetensors, ... (as many digits as
 * the last one takes, two at least) in a new or empty folder, which appears when it is whole.
 *   theta = mean + sqrt(scale) (sqrt(variance) z1 + sum over columns d of deviation_d z2_d /
 *                               sqrt(rank - 1))
 * with standard normal z1 for each parameter and z2 for each column, shared by all tensors of a
 * sample, rounded once to the dtype of the mean. scale >= 0: 0.5 is the paper's distribution, 1
 * that of the diagonal alone, 0 the mean. rank: columns that take part, the last ones; -1: all; 0:
 * the diagonal alone. Draws depend on seed, sample, and the place of a parameter among all in the
 * order of tensors' names, so that more samples begin with the same ones. samples: 1 to 100000.
 * CST_ERROR_FORMAT for a file that is no SWAG file. Can be cancelled. */
CST_API cst_status cst_swag_sample(cst_context *context, const char *model, int32_t samples,
                                   double scale, uint64_t seed, int32_t rank, const char *folder);

#ifdef __cplusplus
}
#endif
#endif
