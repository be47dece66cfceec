/* Open checkpoints with the same tensors, which are addressed by their place in byte order of
 * names. */
#ifndef CST_WEIGHTS_CHECKPOINTS_H
#define CST_WEIGHTS_CHECKPOINTS_H

#include "core/scope.h"
#include "data/readers/safetensors.h"

#include <corestack/weights.h>

typedef struct cst_checkpoints {
    cst_scope scope; /* of the arrays */
    int32_t count;
    cst_safetensors **files; /* [count] */
    int64_t total;           /* tensors of each file */
    bool *mixed;       /* [total]: whether it is averaged; others are copied: integers, constants */
    int64_t *elements; /* [total] */
} cst_checkpoints;

/* Opens checkpoints [count >= 1]. CST_ERROR_MISMATCH, with the first differences, for other tensors
 * than the first file's. */
cst_status cst_checkpoints_open(cst_context *context, cst_checkpoints **out,
                                const char *const *paths, int32_t count);
void cst_checkpoints_close(cst_context *context, cst_checkpoints *checkpoints);

/* Returns the path of a file as it was given. */
static inline const char *cst_checkpoints_path(const cst_checkpoints *c, int32_t file) {
    return cst_bytes_name(c->files[file]->source);
}

/* Returns the number, in a file, of the tensor at a place. */
static inline int64_t cst_checkpoints_tensor(const cst_checkpoints *c, int32_t file,
                                             int64_t place) {
    return c->files[file]->by_name[place].place;
}

static inline const char *cst_checkpoints_name(const cst_checkpoints *c, int64_t place) {
    return c->files[0]->by_name[place].text;
}

static inline cst_dtype cst_checkpoints_dtype(const cst_checkpoints *c, int64_t place) {
    return cst_safetensors_dtype(c->files[0], cst_checkpoints_tensor(c, 0, place));
}

/* Whether a dtype is averaged: F64, F32, F16, BF16. */
bool cst_dtype_is_mixed(cst_dtype dtype);

/* Writes the mean of files, with the metadata of a soup, as a checkpoint. In mix.c. */
cst_status cst_mix_mean(cst_context *context, const cst_checkpoints *checkpoints, const char *path);

#endif
