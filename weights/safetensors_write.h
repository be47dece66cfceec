/*
 * A safetensors file that is being written: what was declared of it and how far its data are.
 * Between the public writer and the text of the header. Paper: none.
 */
#ifndef CST_WEIGHTS_SAFETENSORS_WRITE_H
#define CST_WEIGHTS_SAFETENSORS_WRITE_H

#include "io/output.h"
#include "io/safetensors.h"
#include "weights/hash.h"

/* A tensor to be written. */
typedef struct cst_declared {
    int64_t name; /* string of `names` */
    uint64_t bytes;
    size_t shape;
    int32_t axes;
    cst_dtype dtype;
} cst_declared;

struct cst_safetensors_writer {
    char *path;
    cst_output_file *output;
    cst_tensor_order order;
    int64_t count;
    int64_t room;
    cst_declared *tensors; /* [count], as added */
    cst_strings *names;
    size_t length_count;
    size_t length_room;
    int64_t *lengths;
    cst_strings *metadata; /* key, value, ... */
    bool started;
    size_t header_bytes; /* what comes before the data */
    int64_t *places;     /* [count]: tensor at each place of the file */
    int64_t place;       /* of the tensor whose turn it is */
    uint64_t written;    /* bytes of its data */
    uint64_t *begins;    /* [count]: first byte of each tensor; NULL: data come in order */
    uint64_t total;      /* bytes of all data that come in any order */
    uint64_t given;      /* of these, so far; added to atomically */
    cst_hash *hash;      /* of all bytes so far, borrowed; NULL: nobody asks */
};

/* In safetensors_compose.c: settles writer->places, checks that names and keys differ, and makes
 * the first bytes of the file, length and header: *bytes [*size], the caller's. */
cst_status cst_safetensors_compose(cst_context *context, cst_safetensors_writer *writer,
                                   unsigned char **bytes, size_t *size);

/* Adds every byte of the file, from the first on, to `hash`, which must outlive the writer. Before
 * the start. */
static inline void cst_safetensors_writer_hash(cst_safetensors_writer *writer, cst_hash *hash) {
    writer->hash = hash;
}

/* After the start: data come by cst_safetensors_writer_put_at from now on, every byte once. Only
 * for files: a pipe or device is CST_ERROR_UNSUPPORTED. */
cst_status cst_safetensors_writer_scatter(cst_context *context, cst_safetensors_writer *writer);
/* Bytes first..first+count-1 of a tensor, of which it must have as many. Any number of threads,
 * each with a context of its own. */
cst_status cst_safetensors_writer_put_at(cst_context *context, cst_safetensors_writer *writer,
                                         int64_t tensor, int64_t first, const void *data,
                                         int64_t count);

/* Numbers [count] as little-endian bytes of F64, F32, F16 or BF16, rounded to nearest, ties to
 * even; what is beyond the type becomes infinite. */
void cst_dtype_store_f32(cst_dtype dtype, const float *values, int64_t count, unsigned char *raw);
void cst_dtype_store_f64(cst_dtype dtype, const double *values, int64_t count, unsigned char *raw);

/* The F16 and BF16 nearest to a number, ties to even, as their bits. */
uint16_t cst_half_of_f64(double value);
uint16_t cst_bfloat_of_f64(double value);

#endif
