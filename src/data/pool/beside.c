/* What stands beside the predictions of a split, in the order of its rows: ids, labels or targets,
 * folds, groups, weights, domains. First step of loading. docs/method.md#s0-rows-folds-ids and
 * docs/method.md#row-weights. */
#include "data/pool/spatial.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Values read at a time; domains of a split. */
enum { BLOCK_VALUES = 1 << 16, DOMAINS_MAX = 1 << 16 };

/* ---- hints about labels ---- */

const char *cst_pool_label_hint(int64_t lowest, int64_t highest, int32_t classes) {
    if (lowest == 1 && highest == classes)
        return "; they seem to start at 1: subtract 1";
    if (lowest == -1 && highest == classes - 2)
        return "; if they start at -1, add 1; if -1 is no label, remove these rows from every file";
    return lowest < 0 && highest < classes
               ? "; rows without a label cannot be used: remove them from every file"
               : "; correct the labels or the number of classes";
}

/* How many different labels there are, as far as the first rows show. */
static int64_t different_labels(const cst_column *column) {
    enum { SEEN_MAX = 4096 };
    int64_t seen[SEEN_MAX];
    int64_t count = 0;
    int64_t rows = column->count < SEEN_MAX ? column->count : SEEN_MAX;
    memcpy(seen, column->numbers, (size_t)rows * sizeof *seen);
    qsort(seen, (size_t)rows, sizeof *seen, cst_by_i64);
    for (int64_t i = 0; i < rows; i++)
        count += i == 0 || seen[i] != seen[i - 1];
    return count;
}

/* The same for the labels of a file. */
static const char *hint_of(const cst_pool *pool, const cst_column *column) {
    int64_t lowest = INT64_MAX;
    int64_t highest = INT64_MIN;
    int32_t classes = pool->classes;
    int64_t different = column->numbers ? different_labels(column) : 0;
    for (int64_t i = 0; column->numbers && i < column->count; i++) {
        lowest = column->numbers[i] < lowest ? column->numbers[i] : lowest;
        highest = column->numbers[i] > highest ? column->numbers[i] : highest;
    }
    if ((lowest < 0 && highest < classes) || (lowest == 1 && highest == classes))
        return cst_pool_label_hint(lowest, highest, classes);
    if (pool->wide)
        return "; each column of the table was read as a member, its probability of class 1: "
               "columns of classes are called MEMBER:CLASS, and those of one member must sum to 1";
    if (pool->single && different > 2)
        return "; the predictions are one column, which is the probability of class 1 of two: save "
               "the probabilities of all classes, one column for each (predict_proba), and not the "
               "predicted classes; for a regression give --task regression";
    if (different == classes && lowest != 1)
        return "; if these numbers name the classes, list them in the order of the columns: "
               "--class-names A,B,...";
    if (different > classes)
        return "; correct the labels or the number of classes, or for a regression give --task "
               "regression";
    return cst_pool_label_hint(lowest, highest, classes);
}

/* ---- labels ---- */

/* Where labels are not needed and those at `path` have gaps: there are none. Says so. */
static cst_status drop_labels(cst_context *context, cst_pool_split *split, const char *path) {
    cst_notice(
        context,
        "%s: not every row has a label that can be read; none is needed here, and none is used",
        path);
    split->beside.labels = NULL;
    split->beside.targets = NULL;
    split->labels_path = NULL;
    return CST_OK;
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
                        "%s: row %" PRId64 " is '%s', not a class number; are these regression "
                        "targets? Then give --task regression",
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

/* The class that is called by a number, or -1. */
static int32_t class_of_number(const cst_pool *pool, int64_t number) {
    char text[24];
    if (number == -1 && pool->unlabelled)
        return -1;
    (void)cst_snprintf(text, sizeof text, "%" PRId64, number);
    return (int32_t)cst_id_index_find(pool->class_index, text);
}

/* Whether labels that are numbers are the names of classes: each is one, and the names come from
 * the header of predictions, or the labels are not all numbers of classes. */
static bool are_numeric_names(const cst_pool *pool, const cst_column *column) {
    bool numbers = true;
    bool names = column->numbers && pool->class_index;
    for (int64_t i = 0; names && i < column->count; i++) {
        int64_t number = column->numbers[i];
        if (pool->unlabelled && number == -1)
            continue;
        numbers = numbers && number >= 0 && number < pool->classes;
        names = class_of_number(pool, number) >= 0;
    }
    return names && (pool->names_found || !numbers);
}

/* Labels -1 and 1 of two classes become 0 and 1. */
static void take_signs(const cst_pool *pool, cst_column *column) {
    bool signs = column->numbers && pool->classes == 2 && !pool->unlabelled && !pool->class_index;
    bool negative = false;
    for (int64_t i = 0; signs && i < column->count; i++) {
        signs = column->numbers[i] == 1 || column->numbers[i] == -1;
        negative = negative || column->numbers[i] < 0;
    }
    for (int64_t i = 0; signs && negative && i < column->count; i++)
        column->numbers[i] = column->numbers[i] > 0;
}

/* Asks for the positive class, where nothing says it. */
static cst_status ask_positive(cst_context *context, const cst_pool *pool, const char *path) {
    char list[CST_LISTED_CHARS];
    return pool->unsure && !pool->needless
               ? cst_fail(context, CST_ERROR_INPUT,
                          "%s: the labels are %s, and nothing says which of them the single column "
                          "of predictions is the probability of; name it with --positive",
                          path, cst_column_list(pool->class_names, list))
               : CST_OK;
}

static cst_status read_labels(cst_context *context, const cst_pool *pool, cst_pool_split *split,
                              const char *path) {
    cst_table_ask ask = cst_pool_ask_labels(pool);
    cst_column column;
    int64_t *places;
    CST_SCOPE(scope);
    cst_status status = cst_pool_read_ordered(context, scope, pool, split, path, &ask,
                                              CST_JOIN_ANCHOR, &column, &places);
    if (pool->needless && status == CST_ERROR_INPUT)
        return drop_labels(context, split, path);
    CST_TRY(status);
    CST_TRY(ask_positive(context, pool, path));
    take_signs(pool, &column);
    bool cst_by_text = are_numeric_names(pool, &column);
    CST_NEW(context, &split->scope, int32_t, labels, column.count);
    split->beside.labels = labels;
    split->labels_path = path;
    for (int64_t i = 0; i < column.count; i++) {
        int32_t *out = &labels[places ? places[i] : i];
        cst_trim_item(context, i);
        if (cst_by_text) {
            *out = class_of_number(pool, column.numbers[i]);
            continue;
        }
        status = convert_label(context, pool, path, &column, i, out);
        if (pool->needless && status == CST_ERROR_INPUT)
            return drop_labels(context, split, path);
        CST_TRY(status);
    }
    if (column.numbers && !cst_by_text)
        note_numeric_names(context, pool, path);
    return CST_OK;
}

/* ---- numbers: targets and weights ---- */

/* An open file of numbers, and where its rows are in the split. */
typedef struct numbers_file {
    const char *path;
    cst_row_file *rows;
    const int64_t *places; /* NULL: the same */
} numbers_file;

/* Opens the file at `path`; its places are found by cst_pool_order_rows. */
static cst_status open_numbers(cst_context *context, cst_scope *scope, const cst_pool *pool,
                               const char *path, const cst_table_ask *ask, numbers_file *file) {
    cst_row_source source;
    *file = (numbers_file){.path = path};
    CST_TRY(cst_pool_source(context, pool, path, &source));
    return cst_row_file_open(context, scope, &file->rows, &source, ask);
}

static bool is_weight(double value) {
    return isfinite(value) && value >= 0;
}

static cst_status refuse_weight(cst_context *context, double weight, const char *where,
                                const char *place) {
    return cst_fail(context, CST_ERROR_INPUT,
                    "%s: %s is %g; weights must be finite and non-negative; 0 leaves a row out",
                    where, place, weight);
}

/* What is read of each row of a file: values [width] from number `from` on. */
typedef struct numbers_ask {
    int64_t from;
    int64_t width;
    const int32_t *column; /* place in the row of each; NULL: the same */
    bool weights;
    bool labels; /* of a multilabel pool: 0, 1 or not known */
    bool *gap;   /* set by numbers that are not finite, which are then no error; or NULL */
} numbers_ask;

static cst_status refuse_number(cst_context *context, const numbers_file *file,
                                const numbers_ask *ask, int64_t first, int64_t i, int64_t j,
                                double value) {
    char place[CST_WHERE_CHARS];
    const char *where = cst_row_file_part(file->rows, file->path, first + i);
    (void)cst_row_file_where(file->rows, first, i, ask->weights ? -1 : j, place);
    if (ask->labels)
        return cst_fail(context, CST_ERROR_INPUT,
                        "%s: %s is %g; labels must be 0 or 1, or -1 or NaN where not known", where,
                        place, value);
    return ask->weights ? refuse_weight(context, value, where, place)
                        : cst_fail(context, CST_ERROR_INPUT,
                                   "%s: %s is %s; targets must be finite numbers: remove rows "
                                   "without a target from the split",
                                   where, place,
                                   isnan(value) ? "NaN"
                                   : value > 0  ? "infinity"
                                                : "-infinity");
}

static cst_status read_numbers(cst_context *context, const numbers_file *file,
                               const numbers_ask *ask, double *out) {
    int64_t total = file->rows->row_count;
    int64_t width = file->rows->width;
    int64_t block = BLOCK_VALUES / width > 0 ? BLOCK_VALUES / width : 1;
    CST_SCOPE(scope);
    block = block < total ? block : total;
    CST_NEW(context, scope, double, values, (block * width));
    for (int64_t first = 0; first < total; first += block) {
        int64_t part = total - first < block ? total - first : block;
        CST_TRY(cst_poll(context));
        CST_TRY(cst_row_file_read(context, file->rows, part, values));
        for (int64_t i = 0; i < part; i++) {
            int64_t row = file->places ? file->places[first + i] : first + i;
            for (int64_t j = 0; j < ask->width; j++) {
                double value = values[i * width + ask->from + j];
                bool known = ask->labels && cst_take_label(&value);
                out[row * ask->width + (ask->column ? ask->column[j] : j)] = value;
                if (known || (!ask->labels && isfinite(value) && (value >= 0 || !ask->weights)))
                    continue;
                if (!ask->gap)
                    return refuse_number(context, file, ask, first, i, j, value);
                *ask->gap = true;
            }
        }
    }
    return CST_OK;
}

static cst_status check_targets(cst_context *context, const cst_pool *pool,
                                const numbers_file *file) {
    char shape[CST_NPY_SHAPE_CHARS];
    int dims = cst_row_file_dims(file->rows);
    (void)cst_row_file_shape_text(file->rows, shape);
    if (dims != 1 && dims != 2)
        return cst_fail(context, CST_ERROR_INPUT,
                        "%s: has shape %s; targets must be [rows] or [rows, outputs]", file->path,
                        shape);
    if (file->rows->npy && cst_npy_is_text(file->rows->npy))
        return cst_fail(context, CST_ERROR_INPUT, "%s: contains text; targets must be numbers",
                        file->path);
    if (file->rows->width != pool->classes)
        return cst_fail(context, CST_ERROR_MISMATCH,
                        "%s: has shape %s, %" PRId64
                        " outputs, but the predictions have %d; give each output its own column",
                        file->path, shape, file->rows->width, pool->classes);
    return CST_OK;
}

static cst_status read_targets(cst_context *context, const cst_pool *pool, cst_pool_split *split,
                               const char *path) {
    cst_table_ask ask = cst_pool_ask(pool, CST_TABLE_TARGETS);
    bool gap = false;
    numbers_file file;
    int64_t *places;
    int32_t *column;
    double *targets;
    size_t total = 0;
    CST_SCOPE(scope);
    CST_TRY(open_numbers(context, scope, pool, path, &ask, &file));
    if (file.rows->table && file.rows->table->said)
        cst_notice(context, "%s: %s", path, file.rows->table->said);
    CST_TRY(check_targets(context, pool, &file));
    CST_TRY(cst_pool_order_rows(context, scope, split, file.rows, CST_JOIN_ANCHOR, &places));
    file.places = places;
    CST_TRY(cst_pool_match_columns(context, scope, pool, file.rows->table, pool->classes, path,
                                   &column));
    if (!cst_size_mul((size_t)split->rows, (size_t)pool->classes, &total))
        return cst_fail(context, CST_ERROR_LIMIT, "%s: too many targets", path);
    CST_TAKE(context, &split->scope, targets, total);
    const numbers_ask asked = {.width = pool->classes,
                               .column = column,
                               .labels = pool->task == CST_TASK_MULTILABEL,
                               .gap = pool->needless ? &gap : NULL};
    CST_TRY(read_numbers(context, &file, &asked, targets));
    if (gap)
        return drop_labels(context, split, path);
    split->beside.targets = targets;
    split->labels_path = path;
    return CST_OK;
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
        if (!is_weight(weights[i]))
            return refuse_weight(context, weights[i], where, place);
    }
    return check_sum(context, weights, rows, where);
}

/* The column to read: the only one, or the one of a table that is called a weight. */
static cst_status choose_weights(cst_context *context, const numbers_file *file, int64_t *found) {
    const cst_table *table = file->rows->table;
    int dims = cst_row_file_dims(file->rows);
    char shape[CST_NPY_SHAPE_CHARS];
    *found = file->rows->width == 1 && (dims == 1 || dims == 2) ? 0 : -1;
    for (int32_t i = 0; *found < 0 && table && table->names && i < table->width; i++)
        if (cst_column_hint_of(cst_strings_at(table->names, table->values[i])) == CST_COLUMN_WEIGHT)
            *found = i;
    (void)cst_row_file_shape_text(file->rows, shape);
    if (*found < 0)
        return cst_fail(context, CST_ERROR_INPUT,
                        "%s: has shape %s; weights must be one number per row, in a separate file "
                        "or in a column called 'weight'",
                        file->path, shape);
    if (file->rows->npy && cst_npy_is_text(file->rows->npy))
        return cst_fail(context, CST_ERROR_INPUT, "%s: contains text; weights must be numbers",
                        file->path);
    return CST_OK;
}

static cst_status read_weights(cst_context *context, const cst_pool *pool, cst_pool_split *split,
                               const char *path) {
    numbers_ask asked = {.width = 1, .weights = true};
    double *weights;
    numbers_file file;
    int64_t *places;
    CST_SCOPE(scope);
    CST_TRY(open_numbers(context, scope, pool, path, NULL, &file));
    CST_TRY(choose_weights(context, &file, &asked.from));
    CST_TRY(cst_pool_order_rows(context, scope, split, file.rows, CST_JOIN_BESIDE, &places));
    file.places = places;
    CST_TAKE(context, &split->scope, weights, split->rows);
    CST_TRY(read_numbers(context, &file, &asked, weights));
    split->beside.weights = weights;
    return check_sum(context, weights, split->rows, path);
}

/* ---- folds and groups ---- */

/* The numbers from 0 on, sorted, each once: *count of them are left. */
static cst_status sort_distinct(cst_context *context, int64_t *numbers, size_t *count) {
    CST_TRY(cst_sort(context, numbers, *count, sizeof *numbers, cst_by_i64));
    size_t distinct = 0;
    for (size_t i = 0; i < *count; i++) {
        cst_trim_item(context, (int64_t)i);
        if (numbers[i] >= 0 && (distinct == 0 || numbers[i] != numbers[distinct - 1]))
            numbers[distinct++] = numbers[i];
    }
    *count = distinct;
    return CST_OK;
}

cst_status cst_pool_renumber(cst_context *context, const int64_t *numbers, const int64_t *places,
                             int64_t count, int32_t *out) {
    size_t distinct = (size_t)count;
    CST_SCOPE(scope);
    CST_NEW(context, scope, int64_t, sorted, count);
    cst_copy(context, sorted, numbers, (size_t)count * sizeof *sorted);
    CST_TRY(sort_distinct(context, sorted, &distinct));
    for (int64_t i = 0; i < count; i++) {
        cst_trim_item(context, i);
        const int64_t *found = bsearch(&numbers[i], sorted, distinct, sizeof *sorted, cst_by_i64);
        out[places ? places[i] : i] = found ? (int32_t)(found - sorted) : -1;
    }
    return CST_OK;
}

/* Folds must be whole numbers from 0 on. */
static cst_status check_folds(cst_context *context, const cst_pool *pool, const cst_column *column,
                              const char *path) {
    char quoted[CST_QUOTE_CHARS];
    for (int64_t i = 0; i < column->count; i++) {
        int64_t row = i;
        int64_t number = column->texts ? 0 : column->numbers[i];
        cst_trim_item(context, i);
        if (column->texts && !cst_text_integer(cst_strings_at(column->texts, i), &number)) {
            const char *file = cst_row_parts_find(&column->parts, path, &row);
            return cst_fail(context, CST_ERROR_INPUT,
                            "%s: row %" PRId64 " is '%s'; folds must be integers", file, row,
                            cst_quote(quoted, cst_strings_at(column->texts, i)));
        }
        if (number < 0 && !column->texts && !cst_pool_partial(pool)) {
            const char *file = cst_row_parts_find(&column->parts, path, &row);
            return cst_fail(context, CST_ERROR_INPUT,
                            "%s: row %" PRId64 " is fold %" PRId64
                            "; folds are numbered from 0, and every row needs one: remove rows "
                            "without a fold from the split, or leave them out of the fit with "
                            "--missing allow",
                            file, row, number);
        }
    }
    if (!column->numbers) /* text of whole numbers was read as numbers */
        return cst_fail(context, CST_ERROR_INTERNAL, "%s: folds are not numbers", path);
    return column->count > INT32_MAX
               ? cst_fail(context, CST_ERROR_LIMIT, "%s: more than 2^31 rows with folds", path)
               : CST_OK;
}

/* A column beside the predictions of this kind, called by one of two names. */
static cst_status read_beside(cst_context *context, cst_scope *scope, const cst_pool *pool,
                              cst_pool_split *split, const char *path, cst_column_hint kind,
                              const char *const *wanted, cst_column *column, int64_t **places) {
    const cst_table_ask ask = {
        .use = CST_TABLE_COLUMN, .kind = kind, .wanted = wanted, .id_column = pool->id_column};
    return cst_pool_read_ordered(context, scope, pool, split, path, &ask, CST_JOIN_BESIDE, column,
                                 places);
}

static cst_status read_folds(cst_context *context, const cst_pool *pool, cst_pool_split *split,
                             const char *path) {
    static const char *const wanted[] = {"fold", "folds", NULL};
    cst_column column;
    int64_t *places;
    CST_SCOPE(scope);
    CST_TRY(
        read_beside(context, scope, pool, split, path, CST_COLUMN_FOLD, wanted, &column, &places));
    CST_TRY(check_folds(context, pool, &column, path));
    CST_NEW(context, &split->scope, int32_t, folds, column.count);
    split->beside.folds = folds;
    return cst_pool_renumber(context, column.numbers, places, column.count, folds);
}

static cst_status read_groups(cst_context *context, const cst_pool *pool, cst_pool_split *split,
                              const char *path) {
    static const char *const wanted[] = {"group", "groups", NULL};
    cst_column column;
    int64_t *places;
    CST_SCOPE(scope);
    CST_TRY(
        read_beside(context, scope, pool, split, path, CST_COLUMN_GROUP, wanted, &column, &places));
    if (column.texts) {
        CST_TAKE(context, scope, column.numbers, column.count);
        CST_TRY(cst_strings_number(context, column.texts, column.numbers));
    }
    CST_NEW(context, &split->scope, int64_t, groups, column.count);
    split->beside.groups = groups;
    for (int64_t i = 0; i < column.count; i++) {
        cst_trim_item(context, i);
        groups[places ? places[i] : i] = column.numbers[i];
    }
    return CST_OK;
}

static cst_status read_order(cst_context *context, const cst_pool *pool, cst_pool_split *split,
                             const char *path) {
    cst_column column;
    int64_t *places;
    CST_SCOPE(scope);
    CST_TRY(read_beside(context, scope, pool, split, path, CST_COLUMN_UNKNOWN, cst_order_names,
                        &column, &places));
    CST_NEW(context, scope, int64_t, keys, column.count);
    CST_NEW(context, &split->scope, int64_t, order, column.count);
    CST_TRY(cst_order_keys(context, &column, path, keys));
    for (int64_t i = 0; i < column.count; i++)
        order[places ? places[i] : i] = keys[i];
    split->beside.order = order;
    return CST_OK;
}

/* ---- folds in the tables of members ---- */

/* Whether numbers [count] are folds: two and more, none negative, each of several rows. */
static bool are_folds(const cst_column *column, const int32_t *folds) {
    int32_t count = 0;
    for (int64_t i = 0; i < column->count; i++) {
        if (column->numbers[i] < 0)
            return false;
        count = folds[i] >= count ? folds[i] + 1 : count;
    }
    return count >= 2 && 2 * (int64_t)count <= column->count;
}

/* The column of folds in a member's table as "FILE#COLUMN", and the name of its ids (or NULL).
 * NULL: there is none. */
static cst_status find_fold_column(cst_context *context, cst_scope *scope, const cst_pool *pool,
                                   const char *path, const char **out, const char **ids) {
    const cst_table_ask ask = cst_pool_ask(pool, CST_TABLE_PREDICTIONS);
    cst_row_source source;
    cst_row_file *rows;
    bool text = false;
    *out = *ids = NULL;
    CST_TRY(cst_pool_source(context, pool, path, &source));
    if (source.parts || cst_path_column(path) || cst_path_member(path))
        return CST_OK;
    CST_TRY(cst_is_text_source(context, &source, &text));
    if (!text)
        return CST_OK;
    CST_TRY(cst_row_file_open(context, scope, &rows, &source, &ask));
    const cst_table *table = rows->table;
    if (!table->names || table->fold_column < 0)
        return CST_OK;
    const char *name = cst_strings_at(table->names, table->fold_column);
    const char *id = table->id_column < 0 ? "" : cst_strings_at(table->names, table->id_column);
    *ids = *id ? id : NULL;
    if (cst_column_same(name, "split"))
        return CST_OK;
    *out = cst_take_format(context, scope, "%s#%s", path, name);
    return *out ? CST_OK : CST_ERROR_MEMORY;
}

/* Takes the folds of a member's table where the split has none yet; *same is false where they are
 * not those it has, or where they are none. */
static cst_status adopt_folds_of(cst_context *context, const cst_pool *pool, cst_pool_split *split,
                                 const char *path, char **first, bool *same) {
    const char *column_path;
    const char *ids;
    cst_column column;
    int64_t *places;
    int32_t *folds;
    CST_SCOPE(scope);
    CST_TRY(find_fold_column(context, scope, pool, path, &column_path, &ids));
    if (!column_path)
        return CST_OK;
    *same = false;
    const cst_table_ask ask = {.use = CST_TABLE_COLUMN, .kind = CST_COLUMN_FOLD, .id_column = ids};
    CST_TRY(cst_pool_read_ordered(context, scope, pool, split, column_path, &ask, CST_JOIN_BESIDE,
                                  &column, &places));
    if (!column.numbers || column.count >= INT32_MAX)
        return CST_OK;
    bool known = split->beside.folds != NULL;
    CST_TAKE(context, known ? scope : &split->scope, folds, column.count);
    CST_TRY(cst_pool_renumber(context, column.numbers, places, column.count, folds));
    *same = are_folds(&column, folds);
    for (int64_t i = 0; known && *same && i < split->rows; i++)
        *same = folds[i] == split->beside.folds[i];
    if (!known && *same) {
        split->beside.folds = folds;
        *first = cst_take_text(context, &split->scope, column_path);
        return *first ? CST_OK : CST_ERROR_MEMORY;
    }
    return CST_OK;
}

/* Columns of folds in the members' tables are used where all are folds and the same. Whatever is
 * wrong with a table is said when it is read. */
static cst_status adopt_folds(cst_context *context, const cst_pool *pool, cst_pool_split *split,
                              int32_t s) {
    const cst_manifest *m = pool->manifest;
    char *first = NULL;
    bool same = true;
    for (int32_t k = 0; same && k < m->member_count; k++) {
        const char *path = m->members[k].paths[s];
        if (!path || m->members[k].ids[s] || cst_manifest_confine(context, m, path) != CST_OK)
            continue;
        cst_status status = adopt_folds_of(context, pool, split, path, &first, &same);
        if (status == CST_ERROR_MEMORY || status == CST_ERROR_CANCELLED)
            return status;
        same = same && status == CST_OK;
    }
    if (!same)
        split->beside.folds = NULL;
    split->adopted = same && first;
    if (split->adopted)
        cst_notice(context, "the folds are those of %s", first);
    return CST_OK;
}

cst_status cst_pool_describe_folds(cst_context *context, const cst_pool *pool,
                                   cst_pool_split *split, const cst_manifest_split *spec) {
    const cst_beside *beside = &split->beside;
    if (spec->folds)
        CST_TRY(read_folds(context, pool, split, spec->folds));
    else if ((beside->labels || beside->targets) && !pool->unlabelled && !cst_pool_partial(pool))
        CST_TRY(adopt_folds(context, pool, split, (int32_t)(spec - pool->manifest->splits)));
    return spec->groups ? read_groups(context, pool, split, spec->groups) : CST_OK;
}

/* ---- domains: sketches, another hospital. Paper: "Domain Shift". ---- */

static bool is_named(const char *name) {
    return name && *name;
}

/* The names [count], sorted, each once, into the list. */
static cst_status add_names(cst_context *context, cst_scope *scope, const char **sorted,
                            int64_t count, const char *where, cst_domains *out) {
    int64_t different = 0;
    for (int64_t i = 0; i < count; i++)
        if (i == 0 || strcmp(sorted[i], sorted[i - 1]) != 0)
            sorted[different++] = sorted[i];
    if (different > DOMAINS_MAX)
        return cst_fail(context, CST_ERROR_LIMIT,
                        "%s: %" PRId64 " different domains, more than %d; is this a column of ids?",
                        where, different, DOMAINS_MAX);
    CST_TAKE(context, scope, out->names, different);
    for (out->count = 0; out->count < different; out->count++) {
        const char *name = sorted[out->count];
        char quoted[CST_QUOTE_CHARS];
        if (!cst_manifest_is_name(name))
            return cst_fail(context, CST_ERROR_INPUT, "%s: the domain '%s' %s", where,
                            cst_quote(quoted, name), cst_manifest_name_fault(name));
        out->names[out->count] = cst_take_text(context, scope, name);
        if (!out->names[out->count])
            return CST_ERROR_MEMORY;
    }
    return CST_OK;
}

cst_status cst_domains_make(cst_context *context, cst_scope *scope, const char *const *names,
                            int64_t rows, const char *where, cst_domains **out) {
    int64_t count = 0;
    CST_SCOPE(own);
    CST_NEW(context, own, const char *, sorted, rows);
    CST_NEW(context, scope, cst_domains, domains, 1);
    CST_TAKE(context, scope, domains->of, rows);
    domains->rows = rows;
    for (int64_t i = 0; i < rows; i++)
        if (is_named(names[i]))
            sorted[count++] = names[i];
    if (count > 0)
        qsort((void *)sorted, (size_t)count, sizeof *sorted, cst_by_text);
    CST_TRY(add_names(context, scope, sorted, count, where, domains));
    for (int64_t i = 0; i < rows; i++) {
        domains->of[i] =
            is_named(names[i]) ? cst_domain_find(domains->names, domains->count, names[i]) : -1;
        cst_trim_item(context, i);
    }
    *out = domains;
    return CST_OK;
}

cst_status cst_domains_take(cst_context *context, cst_scope *scope, const cst_domains *all,
                            const int64_t *index, int64_t count, cst_domains **out) {
    CST_SCOPE(own);
    CST_NEW(context, own, const char *, names, count);
    for (int64_t i = 0; i < count; i++) {
        int32_t of = all->of[index[i] % all->rows];
        names[i] = of < 0 ? NULL : all->names[of];
    }
    return cst_domains_make(context, scope, names, count, "domains", out);
}

/* The domains in the file at `path`; without one (NULL), `name` for all rows. */
static cst_status read_domains(cst_context *context, const cst_pool *pool, cst_pool_split *split,
                               const char *path, const char *name) {
    static const char *const wanted[] = {"domain", "domains", NULL};
    cst_column column = {.count = split->rows};
    int64_t *places = NULL;
    const char **names;
    cst_domains *domains;
    CST_SCOPE(scope);
    if (path)
        CST_TRY(read_beside(context, scope, pool, split, path, CST_COLUMN_DOMAIN, wanted, &column,
                            &places));
    if (column.numbers) /* numbers are names as well */
        CST_TRY(cst_strings_take(context, scope, &column.texts));
    CST_TAKE(context, scope, names, column.count);
    for (int64_t i = 0; column.numbers && i < column.count; i++) {
        cst_trim_item(context, i);
        CST_TRY(cst_strings_add_int(context, column.texts, column.numbers[i]));
    }
    for (int64_t i = 0; i < column.count; i++)
        names[places ? places[i] : i] = path ? cst_strings_at(column.texts, i) : name;
    CST_TRY(cst_domains_make(context, &split->scope, names, column.count,
                             path ? path : pool->manifest->path, &domains));
    split->beside.domains = domains;
    return CST_OK;
}

/* ---- all of it ---- */

static cst_status read_split_ids(cst_context *context, const cst_pool *pool, cst_pool_split *split,
                                 const char *path) {
    cst_row_source source;
    cst_strings *ids;
    int64_t *none;
    CST_SCOPE(scope);
    CST_TRY(cst_pool_source(context, pool, path, &source));
    CST_TRY(cst_ids_read(context, scope, &ids, &source, pool->id_column, &split->claim));
    return cst_pool_order(context, scope, split, ids, path, CST_JOIN_ANCHOR, &none);
}

cst_status cst_pool_describe_rows(cst_context *context, cst_pool *pool, int32_t index,
                                  const int32_t *members, int32_t count) {
    cst_pool_split *split = &pool->splits[index];
    const cst_manifest_split *spec = &pool->manifest->splits[index];
    if (split->described)
        return CST_OK;
    if (pool->said)
        cst_notice(context, "%s", pool->said);
    CST_TRY(cst_pool_compare_claims(context, pool, index, members, count));
    if (pool->task != CST_TASK_SEGMENTATION) {
        if (spec->ids)
            CST_TRY(read_split_ids(context, pool, split, spec->ids));
        if (spec->labels)
            CST_TRY((cst_task_has_outputs(pool->task) ? read_targets : read_labels)(
                context, pool, split, spec->labels));
        CST_TRY(cst_pool_describe_folds(context, pool, split, spec));
        if (spec->weights)
            CST_TRY(read_weights(context, pool, split, spec->weights));
        if (spec->domains)
            CST_TRY(read_domains(context, pool, split, spec->domains, NULL));
        if (spec->order)
            CST_TRY(read_order(context, pool, split, spec->order));
    }
    return CST_OK;
}

cst_status cst_pool_settle(cst_context *context, cst_pool *pool, int32_t index) {
    cst_pool_split *split = &pool->splits[index];
    const cst_manifest_split *spec = &pool->manifest->splits[index];
    const int32_t *labels = split->beside.labels;
    size_t rows = (size_t)split->rows;
    size_t total = 0;
    /* A description that cannot be a name is none. */
    if (spec->domain && !split->beside.domains && cst_manifest_is_name(spec->domain))
        CST_TRY(read_domains(context, pool, split, NULL, spec->domain));
    if (spec->condition_count == 0 || !labels || split->repeated)
        return CST_OK;
    if (!cst_size_mul(rows, (size_t)spec->condition_count, &total))
        return cst_fail(context, CST_ERROR_LIMIT, "%s: too many rows", split->rows_source);
    CST_TAKE(context, &split->scope, split->repeated, total);
    for (size_t c = 0; c < (size_t)spec->condition_count; c++)
        memcpy(split->repeated + c * rows, labels, rows * sizeof *labels);
    return CST_OK;
}
