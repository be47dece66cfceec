/* A safetensors file: a table of tensors over a source of bytes. For its readers and npy.c. */
#pragma once

#include "data/files/bytes.h"
#include "data/readers/npy.h"
#include "data/readers/strings.h"

#include <corestack/safetensors.h>

typedef struct cst_tensor {
    const char *name;
    uint64_t begin; /* bytes of the data, counted from the end of the header */
    uint64_t end;
    int64_t elements; /* product of the lengths */
    int64_t place;    /* in the header */
    const int64_t *shape;
    int32_t axes;
    cst_dtype dtype;
} cst_tensor;

typedef struct cst_named {
    const char *text;
    int64_t place; /* in cst_safetensors.tensors */
} cst_named;

typedef struct cst_metadata {
    const char *key, *value;
} cst_metadata;

struct cst_safetensors {
    cst_scope scope;
    cst_bytes *source;
    uint64_t data_offset; /* bytes before the data */
    int64_t count;
    cst_tensor *tensors; /* [count], in the order of their data */
    cst_named *by_name;  /* [count], sorted by text */
    int64_t metadata_count;
    cst_metadata *metadata; /* in the order of the header */
};

/* In safetensors_header.c: reads and checks the header of file->source and fills in the rest. */
cst_status cst_safetensors_read_header(cst_context *context, cst_safetensors *file);

/* Bytes of `elements` elements; false where they overflow or are no whole bytes. */
bool cst_dtype_size(cst_dtype dtype, int64_t elements, uint64_t *bytes);
/* How .npy's reader decodes elements of a dtype; false where it does not. */
bool cst_dtype_element(cst_dtype dtype, cst_npy *out);
/* Makes an array of the tensor "a.safetensors#name" (or the only one), whose source is npy's also
 * after a failure. */
cst_status cst_safetensors_as_npy(cst_context *context, cst_npy *npy, const char *path);

/* Whether elements read as floats: all but C64 and floats of 4, 6 and 8 bits. */
int cst_dtype_is_number(cst_dtype dtype);

/* Returns the number of elements of a tensor, 1 for a scalar; -1 beyond the last tensor. */
int64_t cst_safetensors_elements(const cst_safetensors *file, int64_t tensor);

/* Returns the metadata value of a key; NULL if there is none. Borrowed. */
const char *cst_safetensors_metadata(const cst_safetensors *file, const char *key);
