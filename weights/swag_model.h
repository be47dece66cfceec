/* A SWAG file: names of its tensors, keys of its metadata, and an open one that was checked. */
#pragma once

#include "weights/checkpoints.h"

/* Keys of metadata. */
#define CST_SWA_COUNT "corestack.swa.count"
#define CST_SWAG_COUNT "corestack.swag.count"
#define CST_SWAG_RANK "corestack.swag.rank"
#define CST_SWAG_VERSION "corestack.swag.version"

/* Prefixes of the names of its tensors. */
#define CST_SWAG_MEAN "mean."
#define CST_SWAG_VARIANCE "variance."
#define CST_SWAG_DEVIATION "deviation."
#define CST_SWAG_COPIED "copied."

/* Columns at most: a task holds a part of a tensor for each. */
#define CST_SWAG_RANK_MAX 4096

/* The least variance of a parameter, as of the reference implementation. */
#define CST_SWAG_VARIANCE_MIN 1e-30

typedef struct cst_swag_tensor {
    const char *name; /* of the network's tensor; borrowed from the file */
    int64_t mean;     /* tensor of the file; of a copied one: that one */
    int64_t variance; /* -1: it is copied */
    int64_t deviation, elements;
    int64_t base; /* parameters of the tensors before it: an element's place in the draws */
} cst_swag_tensor;

typedef struct cst_swag {
    cst_safetensors *file;
    int64_t checkpoints;
    int64_t rank; /* columns of deviations, the oldest first */
    int64_t count;
    cst_swag_tensor *tensors; /* [count], in the order of their names' bytes, parameters first */
} cst_swag;

/* Opens a file that lives as long as the scope: CST_ERROR_FORMAT for missing, extra or misshapen
 * tensors. */
cst_status cst_swag_open(cst_context *context, cst_scope *scope, cst_swag *out, const char *path);

/* Checkpoints in a running average; CST_ERROR_INPUT where the file is none. */
cst_status cst_swa_count_of(cst_context *context, const cst_safetensors *average, int64_t *out);
