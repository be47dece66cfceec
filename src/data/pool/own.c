/* Predictions of a method of the user's own for the rows of a loaded split, checked as those of a
 * member are: from an array, or a file that is joined by ids. For rows of compare. */
#include "data/pool/state.h"

#include <inttypes.h>
#include <string.h>
#include <unistd.h>

/* Where the rows are read from. */
typedef struct own_rows {
    const cst_pool *pool;
    const char *split;
    const cst_pool_split *state;
    cst_convert convert;
    const float *narrow; /* [rows][width] of the caller, or */
    double *wide;        /* ... of a file */
    int64_t rows;
    int64_t width;
    int64_t *from;         /* row of the file for each row of the split; NULL: the same */
    int32_t *column_class; /* of each column of the file; NULL: the same */
} own_rows;

static cst_status check_shape(cst_context *context, const own_rows *own) {
    const cst_pool *pool = own->pool;
    bool values = cst_task_has_outputs(pool->task);
    bool binary = !values && pool->classes == 2 && own->width == 1;
    if (own->rows == own->state->rows && (own->width == pool->classes || binary))
        return CST_OK;
    return cst_fail(context, CST_ERROR_MISMATCH,
                    "%s: has %" PRId64 " rows and %" PRId64 " column%s, but split '%s' has %" PRId64
                    " rows and %d %s%s",
                    own->convert.where, own->rows, own->width, own->width == 1 ? "" : "s",
                    own->split, own->state->rows, (int)pool->classes, values ? "output" : "class",
                    pool->classes == 1 ? ""
                    : values           ? "s"
                                       : "es");
}

/* Places of the split's rows in a file with ids, where the split has some too. */
static cst_status join(cst_context *context, cst_scope *scope, const cst_strings *ids,
                       own_rows *own) {
    const cst_id_index *index = own->state->order.index;
    if (!ids || !index)
        return CST_OK;
    CST_NEW(context, scope, int64_t, places, own->rows);
    CST_TAKE(context, scope, own->from, own->rows);
    CST_TRY(cst_id_join(context, index, ids, own->convert.where, false, places));
    for (int64_t i = 0; i < own->rows; i++)
        own->from[places[i]] = i;
    return CST_OK;
}

static cst_status read_file(cst_context *context, cst_scope *scope, const char *path,
                            own_rows *own) {
    const cst_table_ask ask = cst_pool_ask(own->pool, CST_TABLE_PREDICTIONS);
    const cst_row_source source = cst_one_file(path, own->pool->zip_limit);
    cst_strings *ids = NULL;
    cst_row_file *file;
    size_t cells = 0;
    char shape[CST_NPY_SHAPE_CHARS];
    CST_TRY(cst_row_file_open(context, scope, &file, &source, &ask));
    if (cst_row_file_dims(file) < 1 || cst_row_file_dims(file) > 2)
        return cst_fail(context, CST_ERROR_INPUT, "%s: has shape %s; split '%s' needs %s", path,
                        cst_row_file_shape_text(file, shape), own->split,
                        cst_task_has_outputs(own->pool->task) ? "[rows] or [rows, outputs]"
                                                              : "[rows, classes]");
    CST_TRY(cst_row_file_scan(context, scope, file, NULL, &ids));
    own->rows = file->row_count;
    own->width = file->width;
    CST_TRY(check_shape(context, own));
    CST_TRY(join(context, scope, ids, own));
    CST_TRY(cst_pool_match_columns(context, scope, own->pool, file->table, (int32_t)own->width,
                                   path, &own->column_class));
    if (!cst_size_mul((size_t)own->rows, (size_t)own->width, &cells))
        return cst_fail(context, CST_ERROR_LIMIT, "%s: too many predictions", path);
    CST_TAKE(context, scope, own->wide, cells);
    own->convert.rows = file;
    own->convert.rounding = file->npy ? cst_npy_rounding(file->npy) : 0;
    return cst_row_file_read(context, file, own->rows, own->wide);
}

/* Row `row` of the split. sorted: [width] scratch. */
static cst_status convert_row(cst_context *context, own_rows *own, int64_t row, double *sorted,
                              float *out) {
    int64_t i = own->from ? own->from[row] : row;
    if (own->narrow)
        return cst_convert_row_f32(context, &own->convert, 0, i, own->narrow + i * own->width,
                                   sorted, out);
    for (int64_t j = 0; j < own->width; j++)
        sorted[own->column_class ? own->column_class[j] : j] = own->wide[i * own->width + j];
    return cst_convert_row(context, &own->convert, 0, i, sorted, out);
}

/* The split whose name and ':' a text begins with, or -1. */
static int32_t split_at(const cst_pool *pool, const char *text) {
    char name[256];
    size_t length = strcspn(text, ":,");
    if (text[length] != ':' || length >= sizeof name)
        return -1;
    (void)cst_snprintf(name, sizeof name, "%.*s", (int)length, text);
    return cst_manifest_find_split(pool->manifest, name);
}

bool cst_pool_own_of_splits(const cst_pool *pool, const char *path) {
    return pool && path && split_at(pool, path) >= 0;
}

cst_status cst_pool_own_file(cst_context *context, cst_scope *scope, const cst_pool *pool,
                             const char *split, const cst_own_predictions *given,
                             const char **out) {
    const char *at = *out = given->path;
    size_t named = at ? strcspn(at, ":/") : 0;
    bool plain = !cst_pool_own_of_splits(pool, at);
    if (plain && at && at[named] == ':' && access(at, F_OK) != 0) {
        char *name = cst_take_format(context, scope, "%.*s", (int)named, at);
        return name ? cst_fail_split(context, CST_ERROR_INPUT, pool, name) : CST_ERROR_MEMORY;
    }
    if (plain)
        return CST_OK;
    int32_t wanted = cst_manifest_find_split(pool->manifest, split);
    while (at) {
        const char *end = strchr(at, ',');
        while (end && split_at(pool, end + 1) < 0) /* a comma of the file's name */
            end = strchr(end + 1, ',');
        const char *file = strchr(at, ':') + 1;
        if (split_at(pool, at) == wanted) {
            int length = end ? (int)(end - file) : (int)strlen(file);
            *out = cst_take_format(context, scope, "%.*s", length, file);
            return *out ? CST_OK : CST_ERROR_MEMORY;
        }
        at = end ? end + 1 : NULL;
    }
    return cst_fail(context, CST_ERROR_INPUT,
                    "predictions of your own '%.60s' (%.200s) are of other splits than '%.100s', "
                    "which is scored; add %.100s:FILE",
                    given->name, given->path, split, split);
}

cst_status cst_pool_own(cst_context *context, const cst_pool *pool, const char *split,
                        const cst_own_predictions *given, const int64_t *rows, int64_t count,
                        float *out) {
    own_rows own = {.pool = pool, .split = split, .narrow = given->values};
    CST_SCOPE(scope);
    own.state = &pool->splits[cst_manifest_find_split(pool->manifest, split)];
    own.rows = given->rows;
    own.width = given->columns;
    const char *path = NULL;
    CST_TRY(cst_pool_own_file(context, scope, pool, split, given, &path));
    own.convert.where = path ? path : given->name;
    own.convert.classes = pool->classes;
    own.convert.values = cst_task_has_outputs(pool->task);
    own.convert.independent = pool->task == CST_TASK_MULTILABEL;
    own.convert.own = true;
    CST_TRY(path ? read_file(context, scope, path, &own) : check_shape(context, &own));
    CST_NEW(context, scope, double, sorted, own.width);
    own.convert.width = (int32_t)own.width;
    own.convert.column_class = own.column_class;
    CST_TRY(cst_convert_block(context, &own.convert, 0, own.rows, own.wide, own.narrow));
    for (int64_t i = 0; i < count; i++)
        CST_TRY(convert_row(context, &own, rows ? rows[i] : i, sorted, out + i * pool->classes));
    return CST_OK;
}
