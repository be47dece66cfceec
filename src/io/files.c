/*
 * The public readers and writers of single vectors and matrices, over the npy reader.
 * Around the pool: labels and groups in, folds and predictions out.
 * Paper: the files that hold y, the partition and the stack's probabilities.
 */
#include "io/npy.h"

#include <corestack/files.h>

static cst_status read_integers(cst_context *context, const char *path, int64_t **out,
                                int64_t *rows) {
    *out = NULL;
    *rows = 0;
    if (!path)
        return cst_fail(context, CST_ERROR_ARGUMENT, "no file was named");
    cst_npy *npy = NULL;
    cst_status status = cst_npy_open(context, &npy, path, 0);
    if (status == CST_OK)
        status = cst_npy_read_i64(context, npy, out, rows);
    cst_npy_close(context, npy);
    return status;
}

cst_status cst_read_groups(cst_context *context, const char *path, int64_t **out, int64_t *rows) {
    return read_integers(context, path, out, rows);
}

cst_status cst_read_labels(cst_context *context, const char *path, int32_t **out, int64_t *rows) {
    int64_t *values = NULL;
    *out = NULL;
    cst_status status = read_integers(context, path, &values, rows);
    if (status != CST_OK)
        return status;
    int32_t *labels = cst_alloc(context, (size_t)*rows, sizeof *labels);
    if (!labels)
        status = CST_ERROR_MEMORY;
    for (int64_t i = 0; status == CST_OK && i < *rows; i++) {
        if (values[i] < 0 || values[i] > INT32_MAX)
            status = cst_fail(context, CST_ERROR_INPUT,
                              "%s, row %lld: label %lld is not a class number (0, 1, ...)", path,
                              (long long)i, (long long)values[i]);
        else
            labels[i] = (int32_t)values[i];
    }
    cst_free(context, values);
    if (status != CST_OK) {
        cst_free(context, labels);
        labels = NULL;
        *rows = 0;
    }
    *out = labels;
    return status;
}

cst_status cst_write_predictions(cst_context *context, const char *path, const float *probabilities,
                                 int64_t rows, int32_t classes) {
    if (!path || !probabilities || rows < 0 || classes < 1)
        return cst_fail(context, CST_ERROR_ARGUMENT,
                        "writing predictions: a path, data and a shape are needed");
    return cst_npy_write_f32(context, path, probabilities, rows, classes);
}

cst_status cst_write_folds(cst_context *context, const char *path, const int32_t *folds,
                           int64_t rows) {
    if (!path || !folds || rows < 0)
        return cst_fail(context, CST_ERROR_ARGUMENT,
                        "writing folds: a path, data and a length are needed");
    return cst_npy_write_i32(context, path, folds, rows);
}
