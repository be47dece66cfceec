/* Averages of checkpoints, and distributions over weights that further networks are drawn from.
 * docs/weights.md has the methods. Paper: Related Work (weight-space fusion). */
#ifndef CORESTACK_WEIGHTS_H
#define CORESTACK_WEIGHTS_H

#include <corestack/context.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Checkpoints are safetensors files with the same tensors: same names, shapes and dtypes, in any
 * order. Tensors of F64, F32, F16 and BF16 are averaged; integers and BOOL are copied from the
 * first file. All functions name the file in errors: CST_ERROR_MISMATCH, with the first
 * differences, if its tensors differ from those of the first file; CST_ERROR_UNSUPPORTED for other
 * dtypes; CST_ERROR_INPUT, with tensor and element, for a parameter that is not finite, if there
 * are no parameters, and for a file of cst_swag_fit. Notices (log of the context) report integer
 * tensors that differ between files, batch-norm statistics, and files that are given twice.
 *
 * Output is a file, not a pipe. It is written completely, or `path` is unchanged; it may be one of
 * the inputs. Its bytes depend only on the contents of the files, their order and the arguments.
 * Metadata that all inputs share are kept. Functions use a few MiB of memory per thread for files
 * of any size, and can be cancelled. */

/* Writes the mean of checkpoints [count] (stochastic weight averaging; Izmailov et al. 2018): an
 * exact sum divided once, rounded to the dtype of the tensor (to nearest, ties to even). from: an
 * average written by this function, to be continued with these checkpoints; NULL for none. The
 * metadata entry corestack.swa.count records the number of checkpoints, so a continued average
 * equals the average of all checkpoints, except for the rounding of `from` to its dtype. `path` may
 * be `from`. Copied tensors come from `from` if given. CST_ERROR_INPUT if `from` is not such an
 * average. */
CST_API cst_status cst_swa_average(cst_context *context, const char *const *paths, int64_t count,
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
 * Other tensors are copied from the first checkpoint as copied.NAME. Metadata: corestack.kind
 * ("swag"), corestack.swag.version ("1"), .count and .rank. rank: 0 (diagonal only) or at least 2;
 * with fewer checkpoints all deviations are kept, with a notice. CST_ERROR_INPUT for F64
 * checkpoints that are too far apart for F32. */
CST_API cst_status cst_swag_fit(cst_context *context, const char *const *paths, int64_t count,
                                int32_t rank, const char *path);

/* Draws networks from a file of cst_swag_fit (Maddox et al. 2019) and writes them as
 * sample_00.safetensors, ... (at least two digits) to a new or empty folder, which appears when it
 * is complete: theta = mean + sqrt(scale) (sqrt(variance) z1 + sum over columns d of deviation_d
 * z2_d / sqrt(rank - 1)) with standard normal z1 for each parameter and z2 for each column, shared
 * by all tensors of a sample, rounded once to the dtype of the mean. scale >= 0: 0.5 is the
 * distribution of the paper, 1 that of the diagonal, 0 the mean. rank: number of last columns to
 * use; -1: all; 0: diagonal only. Draws depend on seed, sample, and the position of a parameter in
 * the order of tensor names, so that a larger set of samples begins with the smaller one. samples:
 * 1 to 100000. CST_ERROR_FORMAT for a file that is not a SWAG file. Can be cancelled. */
CST_API cst_status cst_swag_sample(cst_context *context, const char *model, int32_t samples,
                                   double scale, uint64_t seed, int32_t rank, const char *folder);

#ifdef __cplusplus
}
#endif
#endif
