/*
 * Row weights of a split, from npy, npz or delimited text or from memory, joined by id and checked.
 * Beside labels, folds and groups. docs/method.md#row-weights; the paper's rows all count alike.
 */
#include "data/pool/state.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

/* An open file of weights. */
typedef struct weights_file {
    const char *path;
    cst_row_file *rows;
    int64_t column;  /* of its values, the one that is read */
    int64_t *places; /* row of the split of each row in the file; NULL: the same */
} weights_file;

static bool is_weight_name(const char *name) {
    static const char *const names[] = {"weight", "weights", "sample_weight", "sample_weights"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strcmp(name, names[i]) == 0)
            return true;
    return false;
}

/* The column to read: the only one, or the one of a table that is called a weight. */
static cst_status choose_column(cst_context *context, weights_file *file) {
    const cst_table *table = file->rows->table;
    int dims = cst_row_file_dims(file->rows);
    int64_t found = file->rows->width == 1 && (dims == 1 || dims == 2) ? 0 : -1;
    int64_t place = 0;
    for (int32_t j = 0; found < 0 && table && table->names && j < table->columns; j++) {
        if (j == table->id_column)
            continue;
        if (is_weight_name(cst_strings_at(table->names, j)))
            found = place;
        place++;
    }
    char shape[CST_NPY_SHAPE_CHARS];
    (void)cst_row_file_shape_text(file->rows, shape);
    if (found < 0)
        return cst_fail(context, CST_ERROR_INPUT,
                        "%s: has shape %s; weights must be one number per row, in a separate file "
                        "or in a column called 'weight'",
                        file->path, shape);
    if (file->rows->npy && cst_npy_is_text(file->rows->npy))
        return cst_fail(context, CST_ERROR_INPUT, "%s: contains text; weights must be numbers",
                        file->path);
    file->column = found;
    return CST_OK;
}

static cst_status check_weight(cst_context *context, double weight, const char *where,
                               const char *place) {
    if (isfinite(weight) && weight >= 0)
        return CST_OK;
    return cst_fail(context, CST_ERROR_INPUT,
                    "%s: %s is %g; weights must be finite and non-negative; 0 leaves a row out",
                    where, place, weight);
}

static cst_status check_sum(cst_context *context, const double *weights, int64_t rows,
                            const char *where) {
    for (int64_t i = 0; i < rows; i++)
        if (weights[i] > 0)
            return CST_OK;
    return cst_fail(
        context, CST_ERROR_INPUT,
        "%s: every weight is 0, so no row is left; give at least one row a positive weight", where);
}

cst_status cst_pool_check_weights(cst_context *context, const double *weights, int64_t rows,
                                  const char *where) {
    for (int64_t i = 0; i < rows; i++) {
        char place[CST_WHERE_CHARS];
        (void)cst_snprintf(place, sizeof place, "row %" PRId64, i);
        cst_status status = check_weight(context, weights[i], where, place);
        if (status != CST_OK)
            return status;
    }
    return check_sum(context, weights, rows, where);
}

static cst_status read_values(cst_context *context, const weights_file *file, double *out) {
    int64_t total = file->rows->row_count;
    int64_t width = file->rows->width;
    int64_t block = total < CST_BLOCK_ROWS ? total : CST_BLOCK_ROWS;
    double *values = cst_alloc(context, (size_t)(block * width), sizeof *values);
    cst_status status = values ? CST_OK : CST_ERROR_MEMORY;
    for (int64_t first = 0; status == CST_OK && first < total; first += block) {
        int64_t part = total - first < block ? total - first : block;
        status = cst_row_file_read(context, file->rows, part, values);
        for (int64_t i = 0; status == CST_OK && i < part; i++) {
            char place[CST_WHERE_CHARS];
            double weight = values[i * width + file->column];
            int64_t row = file->places ? file->places[first + i] : first + i;
            out[row] = weight;
            status =
                check_weight(context, weight, cst_row_file_part(file->rows, file->path, first + i),
                             cst_row_file_where(file->rows, first, i, -1, place));
        }
    }
    cst_free(context, values);
    return status == CST_OK ? check_sum(context, out, total, file->path) : status;
}

cst_status cst_pool_read_weights(cst_context *context, const cst_pool *pool, cst_pool_split *split,
                                 const char *path) {
    weights_file file = {.path = path};
    cst_strings *ids = NULL;
    cst_status status = cst_manifest_confine(context, pool->manifest, path);
    cst_row_source source = cst_pool_source(pool, path);
    CST_THEN(cst_row_file_open_source(context, &file.rows, &source, NULL));
    CST_THEN(choose_column(context, &file));
    CST_THEN(cst_row_file_scan(context, file.rows, &split->claim, &ids));
    if (status == CST_OK && ids)
        status = cst_pool_order(context, split, &ids, path, false, &file.places);
    CST_THEN(cst_pool_set_rows(context, split, file.rows->row_count, path));
    if (status == CST_OK) {
        split->weights = cst_alloc(context, (size_t)split->rows, sizeof *split->weights);
        status = split->weights ? read_values(context, &file, split->weights) : CST_ERROR_MEMORY;
    }
    cst_strings_free(context, ids);
    cst_row_file_close(context, file.rows);
    cst_free(context, file.places);
    return status;
}
