/*
 * For the tests of weights: a folder that goes away, checkpoints written in it tensor by tensor,
 * their numbers read back, and what the library says meanwhile. Paper: none.
 */
#ifndef CST_TEST_CHECKPOINTS_H
#define CST_TEST_CHECKPOINTS_H

#include "io_files.h"
#include "tensor_file.h"
#include "weights/checkpoints.h"

#include "data/readers/safetensors.h"

#include <corestack/safetensors.h>
#include <corestack/weights.h>

/* The file that is written, and the names of its tensors. */
static char declared[TENSORS_MAX][64];
static char written_path[1024];

static int weights_setup(void **state) {
    int failed = files_setup(state);
    fixture *f = *state;
    if (!failed)
        cst_context_set_log(f->context, listen, f);
    return failed;
}

static inline const char *numbered(fixture *f, const char *stem, int number) {
    (void)snprintf(f->path, sizeof f->path, "%s/%s%d.safetensors", f->folder, stem, number);
    return f->path;
}

static inline void copy_path(char out[512], const char *path) {
    (void)snprintf(out, 512, "%s", path);
}

/* ---- writing ---- */

static inline tensor_file *begin(fixture *f, const char *path) {
    (void)f;
    (void)snprintf(written_path, sizeof written_path, "%s", path);
    return tensor_file_new();
}

static inline void declare(fixture *f, tensor_file *file, const char *name, cst_dtype dtype,
                           const int64_t *shape, int32_t axes) {
    (void)f;
    (void)snprintf(declared[file->count], 64, "%s", name);
    (void)tensor_file_add(file, name, dtype, shape, axes);
}

static inline int tensor_named(const tensor_file *file, const char *name) {
    for (int i = 0; i < file->count; i++)
        if (strcmp(declared[i], name) == 0)
            return i;
    fail_msg("no tensor %s", name);
    return -1;
}

static inline void give(fixture *f, tensor_file *file, const char *name, const double *values,
                        int64_t count) {
    (void)f;
    tensor_file_doubles(file, tensor_named(file, name), values, count);
}

static inline void give_bytes(fixture *f, tensor_file *file, const char *name, const void *bytes,
                              int64_t count) {
    (void)f;
    tensor_file_bytes(file, tensor_named(file, name), bytes, (size_t)count);
}

static inline void end(fixture *f, tensor_file *file) {
    (void)f;
    tensor_file_write(file, written_path);
}

/* Tensors "a" and "b" of two float32 each. */
static inline void make_two(fixture *f, const char *path, const double *a, const double *b) {
    static const int64_t two[] = {2};
    tensor_file *w = begin(f, path);
    declare(f, w, "a", CST_DTYPE_F32, two, 1);
    declare(f, w, "b", CST_DTYPE_F32, two, 1);
    give(f, w, "a", a, 2);
    give(f, w, "b", b, 2);
    end(f, w);
}

/* Checkpoints STEM0... of some 10 MiB each: a large tensor, some of middle size, many small ones,
 * integers; several strips and more than a wave of them. */
static inline void make_large(fixture *f, const char *stem, int files) {
    enum { LARGE = 2200000, MIDDLE = 50001, SMALL = 40 };
    static double values[LARGE];
    for (int k = 0; k < files; k++) {
        cst_rng rng;
        cst_rng_init(&rng, 7, CST_STREAM_TEST, (uint32_t)k);
        for (int i = 0; i < LARGE; i++)
            values[i] = cst_rng_uniform(&rng) - 0.5;
        tensor_file *w = begin(f, numbered(f, stem, k));
        declare(f, w, "large", CST_DTYPE_F32, (int64_t[]){2, LARGE / 2}, 2);
        declare(f, w, "half", CST_DTYPE_F16, (int64_t[]){MIDDLE}, 1);
        declare(f, w, "brain", CST_DTYPE_BF16, (int64_t[]){MIDDLE}, 1);
        declare(f, w, "wide", CST_DTYPE_F64, (int64_t[]){MIDDLE}, 1);
        declare(f, w, "ints", CST_DTYPE_I32, (int64_t[]){3}, 1);
        for (int i = 0; i < SMALL; i++) {
            char name[32];
            (void)snprintf(name, sizeof name, "small%02d", i);
            declare(f, w, name, CST_DTYPE_F32, (int64_t[]){i}, 1);
        }
        give(f, w, "wide", values, MIDDLE);
        give(f, w, "large", values, LARGE);
        for (int i = 0; i < SMALL; i++) {
            char name[32];
            (void)snprintf(name, sizeof name, "small%02d", i);
            give(f, w, name, values + i, i);
        }
        const int32_t ints[3] = {1, 2, 3};
        give_bytes(f, w, "ints", ints, sizeof ints);
        give(f, w, "brain", values, MIDDLE);
        give(f, w, "half", values, MIDDLE);
        end(f, w);
    }
}

/* ---- reading ---- */

/* Checkpoints and the scope that they live in. */
typedef struct opened {
    cst_checkpoints all;
    cst_scope scope;
} opened;

static inline void close_checkpoints(cst_context *context, cst_checkpoints *all) {
    cst_scope_free(&((opened *)all)->scope);
    cst_free(context, all);
}

static inline cst_status open_checkpoints(cst_context *context, cst_checkpoints **out,
                                          const char *const *paths, int32_t count) {
    opened *made = cst_alloc(context, 1, sizeof *made);
    *out = NULL;
    if (!made)
        return CST_ERROR_MEMORY;
    cst_status status = cst_checkpoints_open(context, &made->scope, &made->all, paths, count);
    if (status == CST_OK)
        *out = &made->all;
    else
        close_checkpoints(context, &made->all);
    return status;
}

static inline cst_checkpoints *open_numbered(fixture *f, const char *stem, int count) {
    char paths[8][512];
    const char *list[8];
    assert_true(count <= 8);
    for (int k = 0; k < count; k++) {
        copy_path(paths[k], numbered(f, stem, k));
        list[k] = paths[k];
    }
    cst_checkpoints *all = NULL;
    expect_ok(f, open_checkpoints(f->context, &all, list, count));
    return all;
}

/* Opens the file; the number of its tensor of that name. */
static inline int64_t open_at(fixture *f, const char *path, const char *name,
                              cst_safetensors **file) {
    expect_ok(f, cst_safetensors_open(f->context, file, path));
    int64_t tensor = cst_safetensors_find(*file, name);
    assert_true(tensor >= 0);
    return tensor;
}

/* All elements of a tensor, of which there must be `count`. */
static inline void values_of(fixture *f, const char *path, const char *name, double *out,
                             int64_t count) {
    cst_safetensors *file = NULL;
    int64_t tensor = open_at(f, path, name, &file);
    assert_int_equal(cst_safetensors_elements(file, tensor), count);
    expect_ok(f, cst_safetensors_read_f64(f->context, file, tensor, 0, count, out));
    cst_safetensors_close(f->context, file);
}

/* value NULL: the key is not there. */
static inline void expect_metadata(fixture *f, const char *path, const char *key,
                                   const char *value) {
    cst_safetensors *file = NULL;
    expect_ok(f, cst_safetensors_open(f->context, &file, path));
    const char *found = cst_safetensors_metadata(file, key);
    if (value) {
        assert_non_null(found);
        assert_string_equal(found, value);
    } else {
        assert_null(found);
    }
    cst_safetensors_close(f->context, file);
}

#endif
