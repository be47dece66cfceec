/*
 * The public readers and writers of single vectors and matrices.
 * Around the pool: labels and groups in, folds and predictions out.
 * Paper: the files that hold y, the partition and the stack's probabilities.
 */
#include "io/rows.h"

#include <corestack/files.h>
#include <inttypes.h>
#include <string.h>

/* Whether everything that is needed was given; `out`: a place for the values. Clears *rows. */
static cst_status check_reading(cst_context *context, const char *path, bool out, int64_t *rows) {
    if (rows)
        *rows = 0;
    if (!context || !path || !out || !rows)
        return cst_fail(context, CST_ERROR_ARGUMENT,
                        "reading a column: a path and places for values and rows are needed");
    return CST_OK;
}

/* Whole numbers as they are; text numbered by first appearance. */
static cst_status read_numbers(cst_context *context, const char *path, const char *const *wanted,
                               int64_t **out, int64_t *rows) {
    cst_column column = {0};
    cst_status status = cst_column_read(context, &column, path, wanted, 0);
    if (status != CST_OK)
        return status;
    int64_t *numbers = cst_alloc(context, (size_t)column.count, sizeof *numbers);
    if (!numbers)
        status = CST_ERROR_MEMORY;
    else if (column.texts)
        status = cst_strings_number(context, column.texts, numbers);
    else
        memcpy(numbers, column.numbers, (size_t)column.count * sizeof *numbers);
    if (status == CST_OK) {
        *out = numbers;
        *rows = column.count;
    } else {
        cst_free(context, numbers);
    }
    cst_column_clear(context, &column);
    return status;
}

cst_status cst_read_groups(cst_context *context, const char *path, int64_t **out, int64_t *rows) {
    static const char *const wanted[] = {"group", "groups", NULL};
    if (out)
        *out = NULL;
    cst_status status = check_reading(context, path, out != NULL, rows);
    return status == CST_OK ? read_numbers(context, path, wanted, out, rows) : status;
}

cst_status cst_read_labels(cst_context *context, const char *path, int32_t **out, int64_t *rows) {
    static const char *const wanted[] = {"label", "labels", "y", "target", "class", NULL};
    int64_t *values = NULL;
    if (out)
        *out = NULL;
    cst_status status = check_reading(context, path, out != NULL, rows);
    if (status == CST_OK)
        status = read_numbers(context, path, wanted, &values, rows);
    if (status != CST_OK)
        return status;
    int32_t *labels = cst_alloc(context, (size_t)*rows, sizeof *labels);
    if (!labels)
        status = CST_ERROR_MEMORY;
    for (int64_t i = 0; status == CST_OK && i < *rows; i++) {
        if (values[i] < 0 || values[i] > INT32_MAX)
            status =
                cst_fail(context, CST_ERROR_INPUT,
                         "%s: row %" PRId64 ": label %" PRId64 " is not a class number (0, 1, ...)",
                         path, i, values[i]);
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
    if (!context || !path || !probabilities || rows < 0 || classes < 1)
        return cst_fail(context, CST_ERROR_ARGUMENT,
                        "writing predictions: a path, data and a shape are needed");
    return cst_npy_write_f32(context, path, probabilities, rows, classes);
}

cst_status cst_write_predictions_conditions(cst_context *context, const char *path,
                                            const float *probabilities, int32_t conditions,
                                            int64_t rows, int32_t classes) {
    if (!context || !path || !probabilities || conditions < 1 || rows < 0 || classes < 1)
        return cst_fail(context, CST_ERROR_ARGUMENT,
                        "writing predictions of conditions: a path, data and a shape are needed");
    return cst_npy_write_pages_f32(context, path, probabilities, conditions, rows, classes);
}

cst_status cst_write_folds(cst_context *context, const char *path, const int32_t *folds,
                           int64_t rows) {
    if (!context || !path || !folds || rows < 0)
        return cst_fail(context, CST_ERROR_ARGUMENT,
                        "writing folds: a path, data and a length are needed");
    return cst_npy_write_i32(context, path, folds, rows);
}
