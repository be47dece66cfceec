/* The public readers and writers of single vectors and matrices. */
#include "core/scope.h"
#include "data/pool/state.h"
#include "data/readers/npy.h"
#include "data/readers/row_file.h"

#include <corestack/files.h>
#include <inttypes.h>
#include <math.h>

static cst_status nothing_given(cst_context *context) {
    return cst_fail(context, CST_ERROR_ARGUMENT,
                    "reading a column: path, values and rows are required");
}

/* Whole numbers as they are; text numbered by first appearance. */
static cst_status read_numbers(cst_context *context, const char *path, const char *const *wanted,
                               int64_t **out, int64_t *rows) {
    const cst_table_ask ask = {.use = CST_TABLE_COLUMN, .wanted = wanted};
    const cst_row_source source = cst_one_file(path, 0);
    cst_column column;
    CST_SCOPE(scope);
    CST_TRY(cst_column_read(context, scope, &column, &source, &ask, NULL));
    int64_t *numbers = cst_alloc(context, (size_t)column.count, sizeof *numbers);
    if (!numbers)
        return CST_ERROR_MEMORY;
    cst_status status = CST_OK;
    if (column.texts)
        status = cst_strings_number(context, column.texts, numbers);
    else
        cst_copy(context, numbers, column.numbers, (size_t)column.count * sizeof *numbers);
    if (status != CST_OK) {
        cst_free(context, numbers);
        return status;
    }
    *out = numbers;
    *rows = column.count;
    return CST_OK;
}

cst_status cst_read_groups(cst_context *context, const char *path, int64_t **out, int64_t *rows) {
    static const char *const wanted[] = {"group", "groups", NULL};
    CST_CLEAR(out);
    CST_CLEAR(rows);
    CST_ENTER(context);
    if (!path || !out || !rows)
        return nothing_given(context);
    return cst_why(context, read_numbers(context, path, wanted, out, rows));
}

cst_status cst_read_order(cst_context *context, const char *path, int64_t **out, int64_t *rows) {
    const cst_table_ask ask = {.use = CST_TABLE_COLUMN, .wanted = cst_order_names};
    cst_column column;
    CST_CLEAR(out);
    CST_CLEAR(rows);
    CST_ENTER(context);
    if (!path || !out || !rows)
        return nothing_given(context);
    const cst_row_source source = cst_one_file(path, 0);
    CST_SCOPE(scope);
    CST_TRY(cst_why(context, cst_column_read(context, scope, &column, &source, &ask, NULL)));
    int64_t *keys = cst_alloc(context, (size_t)column.count, sizeof *keys);
    cst_status status = keys ? cst_order_keys(context, &column, path, keys) : CST_ERROR_MEMORY;
    if (status != CST_OK) {
        cst_free(context, keys);
        return cst_why(context, status);
    }
    *out = keys;
    *rows = column.count;
    return CST_OK;
}

static cst_status to_labels(cst_context *context, const char *path, const int64_t *values,
                            int64_t rows, int32_t *labels) {
    for (int64_t i = 0; i < rows; i++) {
        CST_TRY(cst_poll_item(context, i));
        if (values[i] < 0 || values[i] > INT32_MAX)
            return cst_fail(context, CST_ERROR_INPUT,
                            "%s: row %" PRId64 ": label %" PRId64
                            " is not a class number (0, 1, ...)",
                            path, i, values[i]);
        labels[i] = (int32_t)values[i];
    }
    return CST_OK;
}

cst_status cst_read_labels(cst_context *context, const char *path, int32_t **out, int64_t *rows) {
    static const char *const wanted[] = {"label", "labels", "y", "target", "class", NULL};
    int64_t *values = NULL;
    CST_CLEAR(out);
    CST_CLEAR(rows);
    CST_ENTER(context);
    if (!path || !out || !rows)
        return nothing_given(context);
    cst_status status = read_numbers(context, path, wanted, &values, rows);
    if (status != CST_OK)
        return cst_why(context, status);
    int32_t *labels = cst_alloc(context, (size_t)*rows, sizeof *labels);
    status = labels ? to_labels(context, path, values, *rows, labels) : CST_ERROR_MEMORY;
    cst_free(context, values);
    if (status != CST_OK) {
        cst_free(context, labels);
        labels = NULL;
        *rows = 0;
    }
    *out = labels;
    return cst_why(context, status);
}

/* An open file's shape, as far as it is one of targets. */
static cst_status check_targets(cst_context *context, const cst_row_file *file, const char *path) {
    char shape[CST_NPY_SHAPE_CHARS];
    int dims = cst_row_file_dims(file);
    if (file->npy && cst_npy_is_text(file->npy))
        return cst_fail(context, CST_ERROR_INPUT,
                        "%s: contains text; regression targets are numbers", path);
    if (dims < 1 || dims > 2 || file->width < 1 || file->width > INT32_MAX)
        return cst_fail(context, CST_ERROR_INPUT,
                        "%s: has shape %s; targets must be [rows] or [rows, outputs]", path,
                        cst_row_file_shape_text(file, shape));
    return CST_OK;
}

static cst_status read_targets(cst_context *context, const char *path, double **out, int64_t *rows,
                               int32_t *outputs) {
    const cst_row_source source = cst_one_file(path, 0);
    cst_row_file *file;
    cst_strings *ids;
    size_t cells = 0;
    CST_SCOPE(scope);
    CST_TRY(cst_row_file_open(context, scope, &file, &source, NULL));
    CST_TRY(check_targets(context, file, path));
    CST_TRY(cst_row_file_scan(context, scope, file, NULL, &ids));
    if (!cst_size_mul((size_t)file->row_count, (size_t)file->width, &cells))
        return cst_fail(context, CST_ERROR_LIMIT, "%s: too many targets", path);
    double *values = cst_alloc(context, cells, sizeof *values);
    cst_status status =
        values ? cst_row_file_read(context, file, file->row_count, values) : CST_ERROR_MEMORY;
    for (size_t e = 0; status == CST_OK && e < cells; e++)
        if (!isfinite(values[e]))
            status = cst_fail(context, CST_ERROR_INPUT,
                              "%s: row %" PRId64 ": every target must be a finite number", path,
                              (int64_t)e / file->width);
    if (status != CST_OK) {
        cst_free(context, values);
        return status;
    }
    *out = values;
    *rows = file->row_count;
    *outputs = (int32_t)file->width;
    return CST_OK;
}

cst_status cst_read_targets(cst_context *context, const char *path, double **out, int64_t *rows,
                            int32_t *outputs) {
    CST_CLEAR(out);
    CST_CLEAR(outputs);
    CST_CLEAR(rows);
    CST_ENTER(context);
    if (!path || !out || !rows || !outputs)
        return nothing_given(context);
    return cst_why(context, read_targets(context, path, out, rows, outputs));
}

cst_status cst_write_predictions(cst_context *context, const char *path, const float *probabilities,
                                 int64_t rows, int64_t classes_given) {
    CST_ENTER(context);
    CST_COUNT(context, classes, classes_given);
    CST_FITS(context, rows, classes, sizeof(*probabilities));
    if (!path || !probabilities || rows < 0 || classes < 1)
        return cst_fail(context, CST_ERROR_ARGUMENT,
                        "writing predictions: path, data and shape are required");
    return cst_why(context, cst_npy_write_f32(context, path, probabilities, rows, classes));
}

cst_status cst_write_predictions_conditions(cst_context *context, const char *path,
                                            const float *probabilities, int64_t conditions_given,
                                            int64_t rows, int64_t classes_given) {
    CST_ENTER(context);
    CST_COUNT(context, conditions, conditions_given);
    CST_COUNT(context, classes, classes_given);
    if (!path || !probabilities || conditions < 1 || rows < 0 || classes < 1)
        return cst_fail(context, CST_ERROR_ARGUMENT,
                        "writing predictions of conditions: path, data and shape are required");
    CST_FITS(context, rows, conditions, sizeof(*probabilities) * (size_t)classes);
    return cst_why(
        context, cst_npy_write_pages_f32(context, path, probabilities, conditions, rows, classes));
}

cst_status cst_write_folds(cst_context *context, const char *path, const int32_t *folds,
                           int64_t rows) {
    CST_ENTER(context);
    CST_FITS(context, rows, 1, sizeof(*folds));
    if (!path || !folds || rows < 0)
        return cst_fail(context, CST_ERROR_ARGUMENT,
                        "writing folds: path, data and length are required");
    return cst_why(context, cst_npy_write_i32(context, path, folds, rows));
}
