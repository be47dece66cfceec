/* Open checkpoints with the same tensors, which are addressed by their place in byte order of
 * names; their numbers, in loops over all of them; and the writer of safetensors files. */
#pragma once

#include "core/scope.h"
#include "data/files/output.h"
#include "data/readers/safetensors.h"

#include <corestack/weights.h>

typedef struct cst_checkpoints {
    int32_t count;
    cst_safetensors **files; /* [count] */
    int64_t total;           /* tensors of each file */
    bool *mixed;       /* [total]: whether it is averaged; others are copied: integers, constants */
    int64_t *elements; /* [total] */
} cst_checkpoints;

/* Opens checkpoints [count >= 1] that live as long as the scope. CST_ERROR_MISMATCH, with the first
 * differences, for other tensors than the first file's. */
cst_status cst_checkpoints_open(cst_context *context, cst_scope *scope, cst_checkpoints *out,
                                const char *const *paths, int32_t count);

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

/* ---- numbers.c ---- */

/* Reads elements [count] of tensor `tensor` of a file. raw: scratch of count * 8 bytes. */
cst_status cst_weights_read(cst_context *context, const cst_safetensors *file, int64_t tensor,
                            int64_t first, int64_t count, unsigned char *raw, double *out);

/* Returns the first of [count] values that is not finite or beyond the dtype; -1: none. */
int64_t cst_weights_bad(const double *values, int64_t count, cst_dtype dtype);

/* CST_ERROR_INPUT for the first file with a number that is not finite in the range of the
 * tensor. */
cst_status cst_weights_blame(cst_context *context, const cst_checkpoints *checkpoints,
                             int64_t place, int64_t first, int64_t count, unsigned char *raw,
                             double *values);

/* Stores numbers [count] as little-endian F64, F32, F16 or BF16, to nearest even; overflow is
 * infinite. */
void cst_weights_store(cst_dtype dtype, const double *values, int64_t count, unsigned char *raw);

/* Elements in hand at a time at most, so that they stay in the processor's cache. */
enum { CST_CHUNK = 1 << 15 };

/* Computes elements first..first+count-1 of a tensor. scratch: left as the last call had it. */
typedef cst_status (*cst_strips_fn)(cst_context *worker, void *user, int64_t tensor, int64_t first,
                                    int64_t count, double *scratch);

/* Calls `function` for all elements[tensors], `chunk` at a time. doubles: a thread's scratch. */
cst_status cst_strips_run(cst_context *context, const int64_t *elements, int64_t tensors,
                          int64_t chunk, size_t doubles, cst_strips_fn function, void *user);

/* ---- writer.c ---- */

typedef struct cst_weights_tensor {
    const char *prefix, *name;
    cst_dtype dtype;
    int64_t lead;         /* length of an axis before those of the shape; 0: none */
    const int64_t *shape; /* [axes] */
    int32_t axes;
    uint64_t begin; /* byte of the file at which the data begin; the writer sets it */
} cst_weights_tensor;

typedef struct cst_weights_entry {
    const char *key, *value;
} cst_weights_entry;

typedef struct cst_weights_writer {
    cst_scope scope;  /* of the tensors */
    const char *path; /* borrowed */
    cst_output_file *output;
    cst_weights_tensor *tensors; /* [count]; numbered in the order in which they were added */
    int64_t count;
} cst_weights_writer;

/* Opens `path` for at most `most` tensors; CST_ERROR_UNSUPPORTED for a pipe or device. Close it
 * also after a failure. */
cst_status cst_weights_writer_open(cst_context *context, cst_weights_writer *writer,
                                   const char *path, int64_t most);

/* Adds a tensor PREFIX + NAME with the shape of a file's, behind an axis `lead` unless that is 0;
 * returns its number. Strings and shapes are borrowed until the start. */
int64_t cst_weights_writer_add(cst_weights_writer *writer, const char *prefix, const char *name,
                               cst_dtype dtype, const cst_safetensors *file, int64_t tensor,
                               int64_t lead);

/* Writes the header, with metadata that the files [file_count] share, except corestack.*, and
 * entries [entry_count]. */
cst_status cst_weights_writer_start(cst_context *context, cst_weights_writer *writer,
                                    cst_safetensors *const *files, int32_t file_count,
                                    const cst_weights_entry *entries, size_t entry_count);

/* Write elements first..first+count-1 of a tensor: numbers, rounded to its dtype, or those of a
 * file's tensor. raw: scratch of count * 8 bytes. For threads, each with its own context. */
cst_status cst_weights_writer_put(cst_context *context, const cst_weights_writer *writer,
                                  int64_t tensor, int64_t first, int64_t count,
                                  const double *values, unsigned char *raw);
cst_status cst_weights_writer_copy(cst_context *context, const cst_weights_writer *writer,
                                   int64_t tensor, const cst_safetensors *file, int64_t source,
                                   int64_t first, int64_t count, unsigned char *raw);

/* Gives the file its name if `status` is CST_OK, else removes it. Returns the first failure. */
cst_status cst_weights_writer_close(cst_context *context, cst_weights_writer *writer,
                                    cst_status status);
