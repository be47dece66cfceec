/* Means of checkpoints, written as a checkpoint. */
#ifndef CST_WEIGHTS_MIX_H
#define CST_WEIGHTS_MIX_H

#include "weights/checkpoints.h"
#include "weights/writer.h"

/* Writes the mean of files with the metadata of a soup. */
cst_status cst_mix_mean(cst_context *context, const cst_checkpoints *checkpoints, const char *path);

#endif
