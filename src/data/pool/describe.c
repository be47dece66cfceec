/*
 * Labels of a split, and the order in which everything but its predictions is read: ids, labels or
 * targets, folds, groups, weights, domains. First step of loading.
 * docs/method.md#s0-rows-folds-ids.
 */
#include "data/pool/columns.h"
#include "data/pool/spatial.h"
#include "data/pool/state.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *cst_pool_label_hint(int64_t lowest, int64_t highest, int32_t classes) {
    if (lowest == 1 && highest == classes)
        return "; they seem to start at 1: subtract 1";
    if (lowest == -1 && highest == classes - 2)
        return "; if they start at -1, add 1; if -1 is no label, remove these rows from every file";
    return lowest < 0 && highest < classes
               ? "; rows without a label cannot be used: remove them from every file"
               : "; correct the labels or the number of classes";
}

static int by_value(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a;
    int64_t y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* How many different labels there are, as far as the first rows show. */
static int64_t different_labels(const cst_column *column) {
    enum { SEEN_MAX = 4096 };
    int64_t seen[SEEN_MAX];
    int64_t count = 0;
    int64_t rows = column->numbers && column->count < SEEN_MAX ? column->count : SEEN_MAX;
    if (!column->numbers)
        return 0;
    memcpy(seen, column->numbers, (size_t)rows * sizeof *seen);
    qsort(seen, (size_t)rows, sizeof *seen, by_value);
    for (int64_t i = 0; i < rows; i++)
        count += i == 0 || seen[i] != seen[i - 1];
    return count;
}

/* The same for the labels of a file. */
static const char *hint_of(const cst_pool *pool, const cst_column *column) {
    int64_t lowest = INT64_MAX;
    int64_t highest = INT64_MIN;
    int32_t classes = pool->classes;
    int64_t different = different_labels(column);
    for (int64_t i = 0; column->numbers && i < column->count; i++) {
        lowest = column->numbers[i] < lowest ? column->numbers[i] : lowest;
        highest = column->numbers[i] > highest ? column->numbers[i] : highest;
    }
    if ((lowest < 0 && highest < classes && !(different == 2 && lowest == -1 && highest == 1)) ||
        (lowest == 1 && highest == classes))
        return cst_pool_label_hint(lowest, highest, classes);
    if (pool->wide)
        return "; each column of the table was read as a member, its probability of class 1: "
               "columns of classes are called MEMBER:CLASS, and those of one member must sum to 1";
    if (pool->single && different > 2)
        return "; the predictions are one column, which is the probability of class 1 of two: save "
               "the probabilities of all classes, one column for each (predict_proba), and not the "
               "predicted classes; for a regression give --task regression";
    if (different == 2 && lowest == -1 && highest == 1 && classes == 2)
        return "; write 0 for -1";
    if (different == classes && lowest != 1)
        return "; if these numbers name the classes, list them in the order of the columns: "
               "--class-names A,B,...";
    if (different > classes)
        return "; correct the labels or the number of classes, or for a regression give --task "
               "regression";
    return cst_pool_label_hint(lowest, highest, classes);
}

/* One label: a class number, or a class name. */
static cst_status convert_label(cst_context *context, const cst_pool *pool, const char *path,
                                const cst_column *column, int64_t row, int32_t *out) {
    const char *text = column->texts ? cst_strings_at(column->texts, row) : NULL;
    char quoted[CST_QUOTE_CHARS];
    char list[CST_LISTED_CHARS];
    int64_t value = 0;
    if (pool->unlabelled &&
        (text ? *text == '\0' || strcmp(text, "-1") == 0 : column->numbers[row] == -1)) {
        *out = -1;
        return CST_OK;
    }
    if (text && pool->class_index) {
        value = cst_id_index_find(pool->class_index, text);
        *out = (int32_t)value;
        if (value >= 0)
            return CST_OK;
    }
    int64_t at = row;
    const char *file = cst_row_parts_find(&column->parts, path, &at);
    double number = text && cst_csv_is_number(text) ? cst_strtod(text, NULL) : 0;
    if (isnan(number))
        return cst_fail(context, CST_ERROR_INPUT,
                        "%s: row %" PRId64 " is '%s': the label is missing; %s", file, at,
                        cst_quote(quoted, text),
                        pool->unlabelled ? "leave the cell empty"
                                         : "remove the row from every file of the split");
    if (number != floor(number))
        return cst_fail(context, CST_ERROR_INPUT,
                        "%s: row %" PRId64
                        " is '%s', not a class number; are these the targets of a "
                        "regression? Then give --task regression",
                        file, at, cst_quote(quoted, text));
    if (!text)
        value = column->numbers[row];
    else if (!cst_text_integer(text, &value))
        return cst_fail(context, CST_ERROR_INPUT,
                        pool->class_index
                            ? "%s: row %" PRId64
                              " is '%s', which is neither a class number nor a class name of %s%s%s"
                            : "%s: row %" PRId64
                              " is '%s', not a class number, and %s has no class names; list them "
                              "under \"classes\" in a manifest%s%s, or with --class-names",
                        file, at, cst_quote(quoted, text), pool->manifest->path,
                        pool->class_index ? ": " : "",
                        pool->class_index ? cst_column_list(pool->class_names, list) : "");
    if (value < 0 || value >= pool->classes)
        return cst_fail(context, CST_ERROR_INPUT,
                        "%s: row %" PRId64 " is label %" PRId64
                        "; labels must be 0 to %d (%d classes)%s",
                        file, at, value, pool->classes - 1, pool->classes, hint_of(pool, column));
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
                       "%s: labels are read as class numbers starting at 0, although class %d is "
                       "called '%s'",
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

/* The class that is called by a number, or -1. */
static int32_t class_of_number(const cst_pool *pool, int64_t number) {
    char text[24];
    (void)cst_snprintf(text, sizeof text, "%" PRId64, number);
    return (int32_t)cst_id_index_find(pool->class_index, text);
}

/* Whether labels that are numbers are the names of classes: each is one, and the names come from
 * the header of predictions, or the labels are not all numbers of classes. */
static bool are_numeric_names(const cst_pool *pool, const cst_column *column) {
    bool numbers = true;
    bool names = column->numbers && pool->class_index;
    for (int64_t i = 0; names && i < column->count; i++) {
        if (pool->unlabelled && column->numbers[i] == -1)
            continue;
        numbers = numbers && column->numbers[i] >= 0 && column->numbers[i] < pool->classes;
        names = class_of_number(pool, column->numbers[i]) >= 0;
    }
    return names && (pool->names_found || !numbers);
}

static cst_status read_labels(cst_context *context, const cst_pool *pool, cst_pool_split *split,
                              const cst_manifest_split *spec) {
    cst_table_ask ask;
    cst_column column;
    int64_t *places = NULL;
    cst_pool_ask_labels(pool, &ask);
    cst_status status =
        cst_pool_read_ordered(context, pool, split, spec->labels, &ask, true, &column, &places);
    if (pool->needless && status == CST_ERROR_INPUT) {
        cst_pool_drop_labels(context, split, spec->labels);
        return CST_OK;
    }
    if (status != CST_OK)
        return status;
    bool gap = false;
    bool by_name = are_numeric_names(pool, &column);
    split->labels_path = spec->labels;
    split->labels = cst_alloc(context, (size_t)column.count, sizeof *split->labels);
    if (!split->labels)
        status = CST_ERROR_MEMORY;
    for (int64_t i = 0; status == CST_OK && i < column.count; i++) {
        int32_t *out = &split->labels[places ? places[i] : i];
        status = by_name ? CST_OK : convert_label(context, pool, spec->labels, &column, i, out);
        if (by_name)
            *out = column.numbers[i] == -1 && pool->unlabelled
                       ? -1
                       : class_of_number(pool, column.numbers[i]);
        if (pool->needless && status == CST_ERROR_INPUT) {
            status = CST_OK;
            gap = true;
            break;
        }
        cst_trim_item(context, i);
    }
    if (status == CST_OK && column.numbers && !by_name && !gap)
        note_numeric_names(context, pool, spec->labels);
    if (gap)
        cst_pool_drop_labels(context, split, spec->labels);
    cst_free(context, places);
    cst_column_clear(context, &column);
    return status;
}

cst_status cst_pool_describe(cst_context *context, cst_pool *pool, int32_t index,
                             const int32_t *members, int32_t count) {
    cst_pool_split *split = &pool->splits[index];
    const cst_manifest_split *spec = &pool->manifest->splits[index];
    cst_status status = CST_OK;
    if (split->described)
        return CST_OK;
    if (pool->said)
        cst_notice(context, "%s", pool->said);
    status = cst_pool_compare_claims(context, pool, index, members, count);
    if (status != CST_OK)
        return status;
    if (pool->task == CST_TASK_SEGMENTATION) {
        status = cst_masks_read(context, pool, index, members, count);
        split->described = status == CST_OK;
        return status;
    }
    if (spec->ids) {
        cst_strings *ids = NULL;
        int64_t *none = NULL;
        status = cst_manifest_confine(context, pool->manifest, spec->ids);
        cst_row_source source = cst_pool_source(pool, spec->ids);
        CST_THEN(cst_ids_read_source(context, &ids, &source, pool->id_column, &split->claim));
        CST_THEN(cst_pool_order(context, split, &ids, spec->ids, true, &none));
        cst_strings_free(context, ids);
    }
    if (status == CST_OK && spec->labels)
        status = pool->task == CST_TASK_REGRESSION
                     ? cst_pool_read_targets(context, pool, split, spec)
                     : read_labels(context, pool, split, spec);
    CST_THEN(cst_pool_describe_folds(context, pool, split, spec));
    if (status == CST_OK && spec->weights)
        status = cst_pool_read_weights(context, pool, split, spec->weights);
    CST_THEN(cst_pool_read_domains(context, pool, split, spec));
    split->described = status == CST_OK;
    return status;
}
