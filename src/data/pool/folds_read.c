/*
 * Folds and groups of rows (of a segmentation: of cases) read from files. Beside the labels.
 * docs/method.md#s0-rows-folds-ids.
 */
#include "data/pool/columns.h"

#include <inttypes.h>
#include <stdlib.h>

static int compare_i64(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a;
    int64_t y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* The numbers from 0 on, sorted, each once: *count of them are left. */
static cst_status sort_distinct(cst_context *context, int64_t *numbers, size_t *count) {
    cst_status status = cst_sort(context, numbers, *count, sizeof *numbers, compare_i64);
    size_t distinct = 0;
    for (size_t i = 0; status == CST_OK && i < *count; i++) {
        cst_trim_item(context, (int64_t)i);
        if (numbers[i] >= 0 && (distinct == 0 || numbers[i] != numbers[distinct - 1]))
            numbers[distinct++] = numbers[i];
    }
    *count = distinct;
    return status;
}

cst_status cst_pool_renumber(cst_context *context, const int64_t *numbers, const int64_t *places,
                             int64_t count, int32_t *out) {
    size_t distinct = (size_t)count;
    int64_t *sorted = cst_alloc(context, (size_t)count, sizeof *sorted);
    if (!sorted)
        return CST_ERROR_MEMORY;
    cst_copy(context, sorted, numbers, (size_t)count * sizeof *sorted);
    cst_status status = sort_distinct(context, sorted, &distinct);
    for (int64_t i = 0; status == CST_OK && i < count; i++) {
        cst_trim_item(context, i);
        const int64_t *found = bsearch(&numbers[i], sorted, distinct, sizeof *sorted, compare_i64);
        out[places ? places[i] : i] = found ? (int32_t)(found - sorted) : -1;
    }
    cst_free(context, sorted);
    return status;
}

static cst_status read_folds(cst_context *context, const cst_pool *pool, cst_pool_split *split,
                             const char *path) {
    static const char *const wanted[] = {"fold", "folds", NULL};
    cst_table_ask ask = {.use = CST_TABLE_COLUMN,
                         .kind = CST_COLUMN_FOLD,
                         .wanted = wanted,
                         .id_column = pool->id_column};
    cst_column column;
    int64_t *places = NULL;
    cst_status status =
        cst_pool_read_ordered(context, pool, split, path, &ask, false, &column, &places);
    if (status != CST_OK)
        return status;
    for (int64_t i = 0; status == CST_OK && column.texts && i < column.count; i++) {
        const char *text = cst_strings_at(column.texts, i);
        char quoted[CST_QUOTE_CHARS];
        int64_t ignored = 0;
        cst_trim_item(context, i);
        int64_t row = i;
        if (!cst_text_integer(text, &ignored)) {
            const char *file = cst_row_parts_find(&column.parts, path, &row);
            status = cst_fail(context, CST_ERROR_INPUT,
                              "%s: row %" PRId64 " is '%s'; folds must be integers", file, row,
                              cst_quote(quoted, text));
        }
    }
    if (status == CST_OK && !column.numbers) /* text of whole numbers was read as numbers */
        status = cst_fail(context, CST_ERROR_INTERNAL, "%s: folds are not numbers", path);
    for (int64_t i = 0; status == CST_OK && i < column.count; i++) {
        cst_trim_item(context, i);
        int64_t row = i;
        if (column.numbers[i] < 0 && !cst_pool_partial(pool)) {
            const char *file = cst_row_parts_find(&column.parts, path, &row);
            status = cst_fail(context, CST_ERROR_INPUT,
                              "%s: row %" PRId64 " is fold %" PRId64
                              "; folds are numbered from 0, and every row needs one: remove rows "
                              "without a fold from the split, or leave them out of the fit with "
                              "--missing allow",
                              file, row, column.numbers[i]);
        }
    }
    if (status == CST_OK && column.count > INT32_MAX)
        status = cst_fail(context, CST_ERROR_LIMIT, "%s: more than 2^31 rows with folds", path);
    if (status == CST_OK) {
        split->folds = cst_alloc(context, (size_t)column.count, sizeof *split->folds);
        status = split->folds ? cst_pool_renumber(context, column.numbers, places, column.count,
                                                  split->folds)
                              : CST_ERROR_MEMORY;
    }
    cst_free(context, places);
    cst_column_clear(context, &column);
    return status;
}

static cst_status read_groups(cst_context *context, const cst_pool *pool, cst_pool_split *split,
                              const char *path) {
    static const char *const wanted[] = {"group", "groups", NULL};
    cst_table_ask ask = {.use = CST_TABLE_COLUMN,
                         .kind = CST_COLUMN_GROUP,
                         .wanted = wanted,
                         .id_column = pool->id_column};
    cst_column column;
    int64_t *places = NULL;
    int64_t *numbers = NULL;
    cst_status status =
        cst_pool_read_ordered(context, pool, split, path, &ask, false, &column, &places);
    if (status != CST_OK) {
        cst_free(context, places);
        cst_column_clear(context, &column);
        return status;
    }
    split->groups = cst_alloc(context, (size_t)column.count, sizeof *split->groups);
    numbers = cst_alloc(context, column.texts ? (size_t)column.count : 0, sizeof *numbers);
    if (!split->groups || !numbers)
        status = CST_ERROR_MEMORY;
    else if (column.texts)
        status = cst_strings_number(context, column.texts, numbers);
    for (int64_t i = 0; status == CST_OK && i < column.count; i++) {
        cst_trim_item(context, i);
        split->groups[places ? places[i] : i] = column.texts ? numbers[i] : column.numbers[i];
    }
    cst_free(context, numbers);
    cst_free(context, places);
    cst_column_clear(context, &column);
    return status;
}

/* ---- folds beside the predictions ---- */

/* Whether numbers [count] are folds: two and more, none negative, each of several rows. */
static bool are_folds(const cst_column *column, const int32_t *folds) {
    int32_t count = 0;
    for (int64_t i = 0; column->numbers && i < column->count; i++) {
        if (column->numbers[i] < 0)
            return false;
        count = folds[i] >= count ? folds[i] + 1 : count;
    }
    return count >= 2 && 2 * (int64_t)count <= column->count;
}

/* The column of folds in a member's table as "FILE#COLUMN", and the name of its ids (or NULL);
 * both are the caller's. NULL: there is none. */
static cst_status find_fold_column(cst_context *context, const cst_pool *pool, const char *path,
                                   char **out, char **ids) {
    cst_row_file *rows = NULL;
    cst_table_ask ask;
    bool text = false;
    cst_row_source source = cst_pool_source(pool, path);
    if (source.parts || cst_path_column(path) || cst_path_member(path))
        return CST_OK;
    cst_pool_ask(pool, CST_TABLE_PREDICTIONS, &ask);
    cst_status status = cst_is_text_source(context, &source, &text);
    if (status == CST_OK && text)
        status = cst_row_file_open_source(context, &rows, &source, &ask);
    const cst_table *table = status == CST_OK && rows ? rows->table : NULL;
    if (table && table->names && table->fold_column >= 0) {
        const char *name = cst_strings_at(table->names, table->fold_column);
        const char *id = table->id_column < 0 ? "" : cst_strings_at(table->names, table->id_column);
        *out = cst_column_same(name, "split") ? NULL : cst_format(context, "%s#%s", path, name);
        *ids = *id ? cst_strdup(context, id) : NULL;
    }
    cst_row_file_close(context, rows);
    return status;
}

/* The folds that one column gives to the rows of the split, the caller's; NULL: it gives none. */
static cst_status folds_of(cst_context *context, const cst_pool *pool, cst_pool_split *split,
                           const char *column_path, const char *ids, int32_t **out) {
    cst_table_ask ask = {.use = CST_TABLE_COLUMN, .kind = CST_COLUMN_FOLD, .id_column = ids};
    cst_column column;
    int64_t *places = NULL;
    int32_t *folds = NULL;
    cst_status status =
        cst_pool_read_ordered(context, pool, split, column_path, &ask, false, &column, &places);
    if (status == CST_OK && column.numbers && column.count < INT32_MAX) {
        folds = cst_alloc(context, (size_t)column.count, sizeof *folds);
        status = folds ? cst_pool_renumber(context, column.numbers, places, column.count, folds)
                       : CST_ERROR_MEMORY;
        if (status == CST_OK && are_folds(&column, folds)) {
            *out = folds;
            folds = NULL;
        }
    }
    cst_free(context, folds);
    cst_free(context, places);
    cst_column_clear(context, &column);
    return status;
}

/* Columns of folds in the members' tables are used where all are folds and the same. Whatever is
 * wrong with a table is said when it is read. */
static cst_status adopt_folds(cst_context *context, const cst_pool *pool, cst_pool_split *split,
                              int32_t s) {
    const cst_manifest *m = pool->manifest;
    char *first = NULL;
    bool same = true;
    cst_status status = CST_OK;
    for (int32_t k = 0; status == CST_OK && same && k < m->member_count; k++) {
        const char *path = m->members[k].paths[s];
        char *column = NULL;
        char *ids = NULL;
        int32_t *folds = NULL;
        if (!path || m->members[k].ids[s] || cst_manifest_confine(context, m, path) != CST_OK)
            continue;
        status = find_fold_column(context, pool, path, &column, &ids);
        if (status == CST_OK && column)
            status = folds_of(context, pool, split, column, ids, &folds);
        same = status == CST_OK && (!column || folds);
        for (int64_t i = 0; folds && split->folds && same && i < split->rows; i++)
            same = folds[i] == split->folds[i];
        if (same && folds && !split->folds) {
            split->folds = folds;
            folds = NULL;
            first = column;
            column = NULL;
        }
        if (status != CST_ERROR_MEMORY && status != CST_ERROR_CANCELLED)
            status = CST_OK;
        cst_free(context, folds);
        cst_free(context, column);
        cst_free(context, ids);
    }
    if (!same) {
        cst_free(context, split->folds);
        split->folds = NULL;
    } else if (status == CST_OK && first)
        cst_notice(context, "the folds are those of %s", first);
    cst_free(context, first);
    return status;
}

cst_status cst_pool_describe_folds(cst_context *context, const cst_pool *pool,
                                   cst_pool_split *split, const cst_manifest_split *spec) {
    cst_status status = CST_OK;
    if (spec->folds)
        status = read_folds(context, pool, split, spec->folds);
    else if ((split->labels || split->targets) && !pool->unlabelled && !cst_pool_partial(pool))
        status = adopt_folds(context, pool, split, (int32_t)(spec - pool->manifest->splits));
    if (status == CST_OK && spec->groups)
        status = read_groups(context, pool, split, spec->groups);
    return status;
}
