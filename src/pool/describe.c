/*
 * Ids, labels, folds and groups of a split, joined and checked: everything but the predictions.
 * First step of loading. Method, section 0.
 */
#include "pool/spatial.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

cst_status cst_pool_set_rows(cst_context *context, cst_pool_split *split, int64_t rows,
                             const char *where) {
    if (rows < 1)
        return cst_fail(context, CST_ERROR_INPUT, "%s: has no rows; at least one is needed", where);
    if (split->rows < 0) {
        split->rows_source = cst_strdup(context, where);
        if (!split->rows_source)
            return CST_ERROR_MEMORY;
        split->rows = rows;
    }
    if (rows != split->rows)
        return cst_fail(context, CST_ERROR_MISMATCH,
                        "%s: has %" PRId64 " rows where %s has %" PRId64
                        "; give sample ids if they are not the same samples",
                        where, rows, split->rows_source, split->rows);
    return CST_OK;
}

/* `ids` become the order that other files are joined to. */
static cst_status adopt(cst_context *context, cst_pool_split *split, cst_strings **ids,
                        const char *where, bool anchor) {
    cst_status status = cst_pool_set_rows(context, split, (*ids)->count, where);
    if (status == CST_OK) {
        split->ids_where = cst_strdup(context, where);
        status = split->ids_where ? CST_OK : CST_ERROR_MEMORY;
    }
    if (status != CST_OK)
        return status;
    split->ids = *ids; /* from here on the split frees them */
    *ids = NULL;
    split->anchored = anchor;
    return cst_id_index_create(context, &split->index, split->ids, split->ids_where);
}

/* Whether the ids are 0, 1, 2, ... in this order, as a data frame writes its index: they say no
 * more than the positions do. */
static bool are_row_numbers(cst_context *context, const cst_strings *ids) {
    for (int64_t i = 0; i < ids->count; i++) {
        char number[24];
        cst_trim_item(context, i);
        (void)cst_snprintf(number, sizeof number, "%" PRId64, i);
        if (strcmp(cst_strings_at(ids, i), number) != 0)
            return false;
    }
    return true;
}

/* Ids of a file say nothing where the labels have none: which label is whose would be a guess. */
static cst_status labels_lack_ids(cst_context *context, const cst_pool_split *split,
                                  const char *where) {
    return cst_fail(context, CST_ERROR_MISMATCH,
                    "%s: brings sample ids, and the labels of %s have none to join them by; give "
                    "the labels' ids too (--ids, \"ids\" of the split in a manifest, or an id "
                    "column beside the labels), or take the ids out of this file",
                    where, split->labels_path);
}

cst_status cst_pool_order(cst_context *context, cst_pool_split *split, cst_strings **ids,
                          const char *where, bool anchor, int64_t **target) {
    *target = NULL;
    if (!anchor && split->labels_path && !split->anchored)
        return are_row_numbers(context, *ids)
                   ? cst_pool_set_rows(context, split, (*ids)->count, where)
                   : labels_lack_ids(context, split, where);
    if (!split->index)
        return adopt(context, split, ids, where, anchor);
    int64_t *rows = cst_alloc(context, (size_t)(*ids)->count, sizeof *rows);
    if (!rows)
        return CST_ERROR_MEMORY;
    cst_status status = cst_id_join(context, split->index, *ids, where, rows);
    for (int64_t i = 0; status == CST_OK && !split->anchored && i < (*ids)->count; i++) {
        char quoted[CST_QUOTE_CHARS];
        cst_trim_item(context, i);
        if (rows[i] != i)
            status = cst_fail(context, CST_ERROR_MISMATCH,
                              "%s: id '%s' is in row %" PRId64 " but in row %" PRId64
                              " of %s, and the split has no labels to say which order is meant; "
                              "give an ids file for the split",
                              where, cst_quote(quoted, cst_strings_at(*ids, i)), i, rows[i],
                              split->ids_where);
    }
    if (status != CST_OK) {
        cst_free(context, rows);
        return status;
    }
    *target = rows;
    return CST_OK;
}

/* Reads a column and puts it in the split's order: `target` as from cst_pool_order. */
static cst_status read_ordered(cst_context *context, const cst_pool *pool, cst_pool_split *split,
                               const char *path, const char *const *wanted, bool anchor,
                               cst_column *column, int64_t **target) {
    *target = NULL;
    memset(column, 0, sizeof *column);
    cst_status status = cst_manifest_confine(context, pool->manifest, path);
    CST_TRY(cst_column_read(context, column, path, wanted, &split->claim, pool->zip_limit));
    if (status == CST_OK && column->ids)
        status = cst_pool_order(context, split, &column->ids, path, anchor, target);
    CST_TRY(cst_pool_set_rows(context, split, column->count, path));
    if (status != CST_OK) {
        cst_free(context, *target);
        *target = NULL;
        cst_column_clear(context, column);
    }
    return status;
}

/* Whether integer labels seem to count from 1. */
static bool counts_from_one(const cst_column *column, int32_t classes) {
    bool top = false;
    for (int64_t i = 0; column->numbers && i < column->count; i++) {
        if (column->numbers[i] < 1 || column->numbers[i] > classes)
            return false;
        top = top || column->numbers[i] == classes;
    }
    return top;
}

/* One label: a class number, or a class name. */
static cst_status convert_label(cst_context *context, const cst_pool *pool, const char *path,
                                const cst_column *column, int64_t row, int32_t *out) {
    const char *text = column->texts ? cst_strings_at(column->texts, row) : NULL;
    char quoted[CST_QUOTE_CHARS];
    int64_t value = 0;
    if (text && pool->class_index) {
        value = cst_id_index_find(pool->class_index, text);
        *out = (int32_t)value;
        if (value >= 0)
            return CST_OK;
    }
    if (!text)
        value = column->numbers[row];
    else if (!cst_text_integer(text, &value))
        return cst_fail(context, CST_ERROR_INPUT,
                        pool->class_index
                            ? "%s: row %" PRId64
                              " is '%s', which is neither a class number nor one "
                              "of the class names of %s"
                            : "%s: row %" PRId64 " is '%s', not a class number, and %s does not "
                              "name the classes; list their names under \"classes\" in a manifest",
                        path, row, cst_quote(quoted, text), pool->manifest->path);
    if (value < 0 || value >= pool->classes)
        return cst_fail(context, CST_ERROR_INPUT,
                        "%s: row %" PRId64 " is label %" PRId64
                        "; labels must be 0 to %d (%d classes)%s",
                        path, row, value, pool->classes - 1, pool->classes,
                        counts_from_one(column, pool->classes)
                            ? "; they seem to count from 1: subtract 1"
                            : "; correct the labels or the number of classes");
    *out = (int32_t)value;
    return CST_OK;
}

/* Says how numbers were read where the names of the classes are numbers as well, but others: a
 * label 2 might mean the class called "2". */
static void note_numeric_names(cst_context *context, const cst_pool *pool, const char *path) {
    for (int32_t c = 0; pool->class_names && c < pool->classes; c++) {
        int64_t value = 0;
        const char *name = cst_strings_at(pool->class_names, c);
        if (cst_text_integer(name, &value) && value != c) {
            cst_notice(context,
                       "%s: labels are read as class numbers from 0, although class %d is called "
                       "'%s'",
                       path, c, name);
            return;
        }
    }
}

cst_status cst_pool_repeat_labels(cst_context *context, cst_pool_split *split, int32_t conditions) {
    size_t rows = (size_t)split->rows;
    size_t total = 0;
    if (conditions == 0 || !split->labels || split->repeated)
        return CST_OK;
    if (!cst_size_mul(rows, (size_t)conditions, &total))
        return cst_fail(context, CST_ERROR_LIMIT, "%s: too many rows", split->rows_source);
    split->repeated = cst_alloc(context, total, sizeof *split->repeated);
    if (!split->repeated)
        return CST_ERROR_MEMORY;
    for (size_t c = 0; c < (size_t)conditions; c++)
        memcpy(split->repeated + c * rows, split->labels, rows * sizeof *split->labels);
    return CST_OK;
}

static cst_status read_labels(cst_context *context, const cst_pool *pool, cst_pool_split *split,
                              const cst_manifest_split *spec) {
    static const char *const wanted[] = {"label", "labels", "target", "class", "y", NULL};
    cst_column column;
    int64_t *target = NULL;
    cst_status status =
        read_ordered(context, pool, split, spec->labels, wanted, true, &column, &target);
    if (status != CST_OK)
        return status;
    split->labels_path = spec->labels;
    split->labels = cst_alloc(context, (size_t)column.count, sizeof *split->labels);
    if (!split->labels)
        status = CST_ERROR_MEMORY;
    for (int64_t i = 0; status == CST_OK && i < column.count; i++) {
        int32_t *out = &split->labels[target ? target[i] : i];
        status = convert_label(context, pool, spec->labels, &column, i, out);
        cst_trim_item(context, i);
    }
    if (status == CST_OK && column.numbers)
        note_numeric_names(context, pool, spec->labels);
    cst_free(context, target);
    cst_column_clear(context, &column);
    return status;
}

static int compare_i64(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a;
    int64_t y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

cst_status cst_pool_renumber(cst_context *context, const int64_t *numbers, const int64_t *target,
                             int64_t count, int32_t *out) {
    int64_t *sorted = cst_alloc(context, (size_t)count, sizeof *sorted);
    if (!sorted)
        return CST_ERROR_MEMORY;
    cst_copy(context, sorted, numbers, (size_t)count * sizeof *sorted);
    cst_status status = cst_sort(context, sorted, (size_t)count, sizeof *sorted, compare_i64);
    size_t distinct = 0;
    for (int64_t i = 0; status == CST_OK && i < count; i++) {
        cst_trim_item(context, i);
        if (i == 0 || sorted[i] != sorted[distinct - 1])
            sorted[distinct++] = sorted[i];
    }
    for (int64_t i = 0; status == CST_OK && i < count; i++) {
        cst_trim_item(context, i);
        const int64_t *found = bsearch(&numbers[i], sorted, distinct, sizeof *sorted, compare_i64);
        out[target ? target[i] : i] = (int32_t)(found - sorted);
    }
    cst_free(context, sorted);
    return status;
}

static cst_status read_folds(cst_context *context, const cst_pool *pool, cst_pool_split *split,
                             const char *path) {
    static const char *const wanted[] = {"fold", "folds", NULL};
    cst_column column;
    int64_t *target = NULL;
    cst_status status = read_ordered(context, pool, split, path, wanted, false, &column, &target);
    if (status != CST_OK)
        return status;
    for (int64_t i = 0; status == CST_OK && column.texts && i < column.count; i++) {
        const char *text = cst_strings_at(column.texts, i);
        char quoted[CST_QUOTE_CHARS];
        int64_t ignored = 0;
        cst_trim_item(context, i);
        if (!cst_text_integer(text, &ignored))
            status = cst_fail(context, CST_ERROR_INPUT,
                              "%s: row %" PRId64 " is '%s'; folds must be whole numbers", path, i,
                              cst_quote(quoted, text));
    }
    if (status == CST_OK && !column.numbers) /* text of whole numbers was read as numbers */
        status = cst_fail(context, CST_ERROR_INTERNAL, "%s: folds are not numbers", path);
    for (int64_t i = 0; status == CST_OK && i < column.count; i++) {
        cst_trim_item(context, i);
        if (column.numbers[i] < 0)
            status = cst_fail(context, CST_ERROR_INPUT,
                              "%s: row %" PRId64 " is fold %" PRId64
                              "; folds are numbered from 0, and every row needs one: leave rows "
                              "without a fold out of the split",
                              path, i, column.numbers[i]);
    }
    if (status == CST_OK && column.count > INT32_MAX)
        status = cst_fail(context, CST_ERROR_LIMIT, "%s: more than 2^31 rows have folds", path);
    if (status == CST_OK) {
        split->folds = cst_alloc(context, (size_t)column.count, sizeof *split->folds);
        status = split->folds ? cst_pool_renumber(context, column.numbers, target, column.count,
                                                  split->folds)
                              : CST_ERROR_MEMORY;
    }
    cst_free(context, target);
    cst_column_clear(context, &column);
    return status;
}

static cst_status read_groups(cst_context *context, const cst_pool *pool, cst_pool_split *split,
                              const char *path) {
    static const char *const wanted[] = {"group", "groups", NULL};
    cst_column column;
    int64_t *target = NULL;
    int64_t *numbers = NULL;
    cst_status status = read_ordered(context, pool, split, path, wanted, false, &column, &target);
    if (status != CST_OK)
        return status;
    split->groups = cst_alloc(context, (size_t)column.count, sizeof *split->groups);
    numbers = cst_alloc(context, column.texts ? (size_t)column.count : 0, sizeof *numbers);
    if (!split->groups || !numbers)
        status = CST_ERROR_MEMORY;
    else if (column.texts)
        status = cst_strings_number(context, column.texts, numbers);
    for (int64_t i = 0; status == CST_OK && i < column.count; i++) {
        cst_trim_item(context, i);
        split->groups[target ? target[i] : i] = column.texts ? numbers[i] : column.numbers[i];
    }
    cst_free(context, numbers);
    cst_free(context, target);
    cst_column_clear(context, &column);
    return status;
}

cst_status cst_pool_describe_folds(cst_context *context, const cst_pool *pool,
                                   cst_pool_split *split, const cst_manifest_split *spec) {
    cst_status status = CST_OK;
    if (spec->folds)
        status = read_folds(context, pool, split, spec->folds);
    if (status == CST_OK && spec->groups)
        status = read_groups(context, pool, split, spec->groups);
    return status;
}

cst_status cst_pool_describe(cst_context *context, cst_pool *pool, int32_t index,
                             const int32_t *members, int32_t count) {
    cst_pool_split *split = &pool->splits[index];
    const cst_manifest_split *spec = &pool->manifest->splits[index];
    cst_status status = CST_OK;
    if (split->described)
        return CST_OK;
    status = cst_pool_compare_claims(context, pool, index, members, count);
    if (status != CST_OK)
        return status;
    if (pool->task == CST_TASK_SEGMENTATION) {
        status = cst_cases_describe(context, pool, index, members, count);
        split->described = status == CST_OK;
        return status;
    }
    if (spec->ids) {
        cst_strings *ids = NULL;
        int64_t *none = NULL;
        status = cst_manifest_confine(context, pool->manifest, spec->ids);
        CST_TRY(cst_ids_read(context, &ids, spec->ids, &split->claim, pool->zip_limit));
        CST_TRY(cst_pool_order(context, split, &ids, spec->ids, true, &none));
        cst_strings_free(context, ids);
    }
    if (status == CST_OK && spec->labels)
        status = pool->task == CST_TASK_REGRESSION
                     ? cst_pool_read_targets(context, pool, split, spec)
                     : read_labels(context, pool, split, spec);
    CST_TRY(cst_pool_describe_folds(context, pool, split, spec));
    if (status == CST_OK && spec->weights)
        status = cst_pool_read_weights(context, pool, split, spec->weights);
    split->described = status == CST_OK;
    return status;
}
