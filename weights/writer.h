/* Writes a safetensors file: tensors are declared, then their data are given in any order by any
 * number of threads. The file appears complete or not at all. */
#ifndef CST_WEIGHTS_WRITER_H
#define CST_WEIGHTS_WRITER_H

#include "core/scope.h"
#include "data/files/output.h"
#include "data/readers/safetensors.h"

/* A tensor PREFIX + NAME. Strings and shapes are borrowed until the start. */
typedef struct cst_weights_tensor {
    const char *prefix, *name;
    cst_dtype dtype;
    int64_t lead;         /* length of an axis before those of the shape; 0: none */
    const int64_t *shape; /* [axes] */
    int32_t axes;
    uint64_t begin; /* byte of the file at which the data begin; the writer sets it */
} cst_weights_tensor;

/* An entry of the metadata. */
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

/* Adds a tensor; returns its number. */
int64_t cst_weights_writer_add(cst_weights_writer *writer, const cst_weights_tensor *tensor);

/* Writes the header, with metadata that the files [file_count] share, except corestack.*, and
 * entries [entry_count]. */
cst_status cst_weights_writer_start(cst_context *context, cst_weights_writer *writer,
                                    cst_safetensors *const *files, int32_t file_count,
                                    const cst_weights_entry *entries, size_t entry_count);

/* Writes bytes first..first+count-1 of a tensor. For threads, each with its own context. */
cst_status cst_weights_writer_put(cst_context *context, const cst_weights_writer *writer,
                                  int64_t tensor, int64_t first, const void *data, int64_t count);

/* Gives the file its name if `status` is CST_OK, else removes it. Returns the first failure. */
cst_status cst_weights_writer_close(cst_context *context, cst_weights_writer *writer,
                                    cst_status status);

#endif
