/*
 * Targets of a regression, [rows] or [rows, outputs], from npy, npz or delimited text, joined by id
 * and checked. Where labels are read for a classification. docs/method.md#s0-rows-folds-ids and
 * docs/method.md#s2-and-s3-gate-and-penalties.
 */
#include "data/pool/columns.h"

#include <inttypes.h>
#include <math.h>

/* Values read at a time. */
enum { TARGET_VALUES = 1 << 16 };

/* An open targets file. */
typedef struct targets_file {
    const char *path;
    cst_row_file *rows;
    int64_t *places; /* row of the split of each row in the file; NULL: the same */
    int32_t *column; /* output of each column where a header names them; NULL: the same */
    bool needless;   /* targets are not needed: with a gap there are none */
    bool gap;
} targets_file;

void cst_pool_drop_labels(cst_context *context, cst_pool_split *split, const char *path) {
    cst_notice(
        context,
        "%s: not every row has a label that can be read; none is needed here, and none is used",
        path);
    cst_free(context, split->labels);
    cst_free(context, split->targets);
    split->labels = NULL;
    split->targets = NULL;
    split->labels_path = NULL;
}

static cst_status check_shape(cst_context *context, const cst_pool *pool,
                              const targets_file *file) {
    char shape[CST_NPY_SHAPE_CHARS];
    int dims = cst_row_file_dims(file->rows);
    (void)cst_row_file_shape_text(file->rows, shape);
    if (dims != 1 && dims != 2)
        return cst_fail(context, CST_ERROR_INPUT,
                        "%s: has shape %s; targets must be [rows] or [rows, outputs]", file->path,
                        shape);
    if (file->rows->npy && cst_npy_is_text(file->rows->npy))
        return cst_fail(context, CST_ERROR_INPUT,
                        "%s: contains text; regression targets must be numbers", file->path);
    if (file->rows->width != pool->classes)
        return cst_fail(context, CST_ERROR_MISMATCH,
                        "%s: has shape %s, %" PRId64
                        " outputs, but the predictions have %d; give each output its own column",
                        file->path, shape, file->rows->width, pool->classes);
    return CST_OK;
}

/* Rows first..first+count-1 of the file to their places. values: [count][outputs]. */
static cst_status put_rows(cst_context *context, targets_file *file, int64_t first, int64_t count,
                           int32_t outputs, const double *values, double *out) {
    for (int64_t i = 0; i < count; i++) {
        int64_t row = file->places ? file->places[first + i] : first + i;
        for (int32_t j = 0; j < outputs; j++) {
            double y = values[i * outputs + j];
            char place[CST_WHERE_CHARS];
            file->gap = file->gap || !isfinite(y);
            if (!isfinite(y) && !file->needless)
                return cst_fail(context, CST_ERROR_INPUT,
                                "%s: %s is %s; targets must be finite numbers: remove rows without "
                                "a target from the split",
                                cst_row_file_part(file->rows, file->path, first + i),
                                cst_row_file_where(file->rows, first, i, j, place),
                                isnan(y) ? "NaN"
                                : y > 0  ? "infinity"
                                         : "-infinity");
            out[row * outputs + (file->column ? file->column[j] : j)] = y;
        }
    }
    return CST_OK;
}

static cst_status read_rows(cst_context *context, targets_file *file, int32_t outputs,
                            double *out) {
    int64_t total = file->rows->row_count;
    int64_t block = TARGET_VALUES / outputs > 0 ? TARGET_VALUES / outputs : 1;
    double *values = cst_alloc(context, (size_t)block * (size_t)outputs, sizeof *values);
    cst_status status = values ? CST_OK : CST_ERROR_MEMORY;
    for (int64_t first = 0; status == CST_OK && first < total; first += block) {
        int64_t part = total - first < block ? total - first : block;
        status = cst_poll(context);
        CST_THEN(cst_row_file_read(context, file->rows, part, values));
        CST_THEN(put_rows(context, file, first, part, outputs, values, out));
    }
    cst_free(context, values);
    return status;
}

/* The file's rows in the split's order. */
static cst_status store(cst_context *context, const cst_pool *pool, cst_pool_split *split,
                        targets_file *file) {
    size_t total = 0;
    if (!cst_size_mul((size_t)split->rows, (size_t)pool->classes, &total))
        return cst_fail(context, CST_ERROR_LIMIT, "%s: too many targets", file->path);
    split->targets = cst_alloc(context, total, sizeof *split->targets);
    cst_status status =
        split->targets ? read_rows(context, file, pool->classes, split->targets) : CST_ERROR_MEMORY;
    if (file->needless && file->gap)
        cst_pool_drop_labels(context, split, file->path);
    return status;
}

cst_status cst_pool_read_targets(cst_context *context, const cst_pool *pool, cst_pool_split *split,
                                 const cst_manifest_split *spec) {
    targets_file file = {.path = spec->labels, .needless = pool->needless};
    cst_strings *ids = NULL;
    cst_status status = cst_manifest_confine(context, pool->manifest, file.path);
    cst_table_ask ask;
    cst_pool_ask(pool, CST_TABLE_TARGETS, &ask);
    cst_row_source source = cst_pool_source(pool, file.path);
    CST_THEN(cst_row_file_open_source(context, &file.rows, &source, &ask));
    if (status == CST_OK && file.rows->table && pool->needless)
        cst_csv_accept_blank(file.rows->table->csv);
    if (status == CST_OK && file.rows->table && file.rows->table->said)
        cst_notice(context, "%s: %s", file.path, file.rows->table->said);
    CST_THEN(check_shape(context, pool, &file));
    CST_THEN(cst_row_file_scan(context, file.rows, &split->claim, &ids));
    if (status == CST_OK && ids)
        status = cst_pool_order(context, split, &ids, file.path, true, &file.places);
    CST_THEN(cst_pool_set_rows(context, split, file.rows->row_count, file.path));
    CST_THEN(cst_pool_match_columns(context, pool, file.rows->table, pool->classes, file.path,
                                    &file.column));
    CST_THEN(store(context, pool, split, &file));
    if (status == CST_OK && split->targets)
        split->labels_path = spec->labels;
    cst_strings_free(context, ids);
    cst_row_file_close(context, file.rows);
    cst_free(context, file.places);
    cst_free(context, file.column);
    return status;
}
