/*
 * Writes small safetensors files for tests: tensors are declared, given their data, and written in
 * the order in which they were declared.
 */
#ifndef CST_TEST_TENSOR_FILE_H
#define CST_TEST_TENSOR_FILE_H

#include "weights/checkpoints.h"

#include <corestack/safetensors.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TENSORS_MAX = 64, TENSOR_TEXT_MAX = 16384 };

typedef struct tensor_file {
    int count;
    cst_dtype dtype[TENSORS_MAX];
    unsigned char *data[TENSORS_MAX];
    size_t bytes[TENSORS_MAX];
    size_t given[TENSORS_MAX];
    size_t total;
    char metadata[TENSOR_TEXT_MAX];
    char header[TENSOR_TEXT_MAX];
} tensor_file;

static inline void tensor_text(char out[TENSOR_TEXT_MAX], const char *format, const char *a,
                               const char *b) {
    size_t used = strlen(out);
    (void)snprintf(out + used, TENSOR_TEXT_MAX - used, format, a, b);
}

static inline tensor_file *tensor_file_new(void) {
    return calloc(1, sizeof(tensor_file));
}

static inline void tensor_file_metadata(tensor_file *f, const char *key, const char *value) {
    tensor_text(f->metadata, *f->metadata ? ",\"%s\":\"%s\"" : "\"%s\":\"%s\"", key, value);
}

/* Returns the number of the tensor. */
static inline int tensor_file_add(tensor_file *f, const char *name, cst_dtype dtype,
                                  const int64_t *shape, int axes) {
    char number[64];
    size_t elements = 1;
    int t = f->count++;
    if (t >= TENSORS_MAX)
        abort();
    tensor_text(f->header, ",\"%s\":{\"dtype\":\"%s\",\"shape\":[", name, cst_dtype_name(dtype));
    for (int a = 0; a < axes; a++) {
        (void)snprintf(number, sizeof number, "%lld", (long long)shape[a]);
        tensor_text(f->header, "%s%s", a ? "," : "", number);
        elements *= (size_t)shape[a];
    }
    f->dtype[t] = dtype;
    f->bytes[t] = elements * (size_t)cst_dtype_bits(dtype) / 8;
    f->data[t] = calloc(f->bytes[t] + 1, 1);
    (void)snprintf(number, sizeof number, "%zu,%zu", f->total, f->total + f->bytes[t]);
    tensor_text(f->header, "],\"data_offsets\":[%s]%s", number, "}");
    f->total += f->bytes[t];
    return t;
}

/* Gives the next bytes of a tensor. */
static inline void tensor_file_bytes(tensor_file *f, int tensor, const void *bytes, size_t count) {
    if (f->bytes[tensor] - f->given[tensor] < count)
        abort();
    memcpy(f->data[tensor] + f->given[tensor], bytes, count);
    f->given[tensor] += count;
}

/* Gives all numbers of a tensor, rounded to its dtype. */
static inline void tensor_file_doubles(tensor_file *f, int tensor, const double *values,
                                       int64_t count) {
    if ((size_t)count * (size_t)cst_dtype_bits(f->dtype[tensor]) / 8 != f->bytes[tensor])
        abort();
    cst_weights_store(f->dtype[tensor], values, count, f->data[tensor]);
}

static inline void tensor_file_floats(tensor_file *f, int tensor, const float *values,
                                      int64_t count) {
    double *wide = calloc((size_t)count + 1, sizeof *wide);
    for (int64_t i = 0; i < count; i++)
        wide[i] = (double)values[i];
    tensor_file_doubles(f, tensor, wide, count);
    free(wide);
}

/* Writes the file and frees it. Data that were not given are zero. */
static inline void tensor_file_write(tensor_file *f, const char *path) {
    const char *meta[] = {"{\"__metadata__\":{", f->metadata, "}"};
    const char *tensors = f->header + (f->count && !*f->metadata); /* no comma first */
    size_t length = strlen(tensors) + 1;
    if (*f->metadata)
        length += strlen(meta[0]) + strlen(meta[1]) + strlen(meta[2]);
    else
        length++;
    FILE *out = fopen(path, "wb");
    int good = out != NULL;
    for (int i = 0; good && i < 8; i++)
        good = fputc((int)(length >> (8 * i) & 255), out) != EOF;
    if (*f->metadata)
        good = good && fprintf(out, "%s%s%s", meta[0], meta[1], meta[2]) > 0;
    else
        good = good && fputc('{', out) != EOF;
    good = good && fprintf(out, "%s}", tensors) > 0;
    for (int t = 0; t < f->count; t++) {
        good = good && fwrite(f->data[t], 1, f->bytes[t], out) == f->bytes[t];
        free(f->data[t]);
    }
    free(f);
    if (!good || fclose(out) != 0)
        abort();
}

#endif
