/*
 * Weighted sums of checkpoints, written as a checkpoint: what soups and running averages come down
 * to. Also the parts that other files of weights share. Paper: Related Work (weight-space fusion).
 */
#ifndef CST_WEIGHTS_MIX_H
#define CST_WEIGHTS_MIX_H

#include "weights/checkpoints.h"
#include "weights/safetensors_write.h"

/* An entry of a file's metadata. */
typedef struct cst_weights_entry {
    const char *key;
    const char *value;
} cst_weights_entry;

/* As cst_checkpoints_mix, with the entries [count] in place of its own. */
cst_status cst_mix_write(cst_context *context, const cst_checkpoints *checkpoints,
                         const double *weights, cst_mix_scope scope,
                         const cst_weights_entry *entries, size_t count, const char *path,
                         uint64_t hash[2]);

/* The mean of files each of which stands for counts[k] checkpoints, whole numbers from 1 on. */
cst_status cst_mix_counts(cst_context *context, const cst_checkpoints *checkpoints,
                          const double *counts, const cst_weights_entry *entries, size_t count,
                          const char *path);

/* Gives the file that is written the metadata that all checkpoints share, those of this library's
 * own (corestack.*) aside, and the entries [count]. */
cst_status cst_weights_metadata(cst_context *context, cst_safetensors_writer *writer,
                                const cst_checkpoints *checkpoints,
                                const cst_weights_entry *entries, size_t count);

/* Elements [count] of the tensor at a place, as float64. raw: scratch of count * 8 bytes. */
cst_status cst_weights_read(cst_context *context, const cst_checkpoints *checkpoints, int32_t file,
                            int64_t place, int64_t first, int64_t count, unsigned char *raw,
                            double *out);

/* The least magnitude that a dtype rounds to infinity. */
double cst_dtype_beyond(cst_dtype dtype);

/* The first of [count] values that is not finite or beyond the dtype; -1: none. */
int64_t cst_weights_bad(const double *values, int64_t count, cst_dtype dtype);

/* Where something computed over elements first..first+count-1 of the tensor at a place is not
 * finite or beyond a dtype: CST_ERROR_INPUT with the first of the files (those with use[k] != 0;
 * NULL: all) that has a number that is not finite; CST_OK where none has. */
cst_status cst_weights_blame(cst_context *context, const cst_checkpoints *checkpoints,
                             const double *use, int64_t place, int64_t first, int64_t count,
                             unsigned char *raw, double *values);

#endif
