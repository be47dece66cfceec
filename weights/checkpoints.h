/*
 * Open checkpoints with the same tensors, and which tensor of each file is which. Between the
 * reader of safetensors files and what is computed over them. Paper: Related Work (weight-space
 * fusion).
 */
#ifndef CST_WEIGHTS_CHECKPOINTS_H
#define CST_WEIGHTS_CHECKPOINTS_H

#include "base/base.h"
#include "io/safetensors.h"

#include <corestack/weights.h>

struct cst_checkpoints {
    int32_t count;
    cst_safetensors **files; /* [count] */
    int64_t total;           /* tensors of each file, in the order of their names' bytes */
    int64_t *mixed;          /* [total]: number among those that are mixed; -1: copied */
    int64_t mixed_count;
    int64_t *mixed_at; /* [mixed_count]: its place among all */
    int64_t parameters;
};

/* The path of a file, as it was given. */
static inline const char *cst_checkpoint_name(const cst_checkpoints *c, int32_t file) {
    return cst_bytes_name(c->files[file]->source);
}

/* The number in a file of the tensor at a place in the order of names. */
static inline int64_t cst_checkpoints_tensor(const cst_checkpoints *c, int32_t file,
                                             int64_t place) {
    return c->files[file]->by_name[place].place;
}

static inline const char *cst_checkpoints_name(const cst_checkpoints *c, int64_t place) {
    return c->files[0]->by_name[place].text;
}

/* Whether a dtype is averaged. */
bool cst_dtype_is_mixed(cst_dtype dtype);

/* In compare.c: whether two files have the same tensors; CST_ERROR_MISMATCH with the first
 * differences. */
cst_status cst_checkpoints_compare(cst_context *context, const cst_safetensors *first,
                                   const cst_safetensors *other);

/* In compare.c: says what a mean does not make right: integers that differ, batch-norm statistics,
 * a file that is there twice. */
cst_status cst_checkpoints_say(cst_context *context, const cst_checkpoints *checkpoints);

#endif
