/* Means of checkpoints, written as a checkpoint. */
#ifndef CST_WEIGHTS_MIX_H
#define CST_WEIGHTS_MIX_H

#include "weights/checkpoints.h"
#include "weights/writer.h"

/* Writes the mean of files each of which stands for counts[k] checkpoints, whole numbers from 1 on
 * (NULL: 1 each). Copied tensors come from the first file. entries: metadata besides those that all
 * files share. */
cst_status cst_mix_write(cst_context *context, const cst_checkpoints *checkpoints,
                         const double *counts, const cst_weights_entry *entries, size_t entry_count,
                         const char *path);

/* Writes the mean of files with the metadata of a soup. */
cst_status cst_mix_mean(cst_context *context, const cst_checkpoints *checkpoints, const char *path);

#endif
