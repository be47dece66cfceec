/*
 * What the columns of a pool's files are: how many classes or outputs there are, what they are
 * called, and which column of each file is which. When a pool is opened, and again for each file
 * that is read. docs/method.md#s0-rows-folds-ids.
 */
#include "data/pool/columns.h"

#include "data/pool/state.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static bool is_values(const cst_pool *pool) {
    return pool->task == CST_TASK_REGRESSION;
}

cst_status cst_pool_index_classes(cst_context *context, cst_pool *pool) {
    const cst_manifest *m = pool->manifest;
    char *const *names = is_values(pool) ? m->output_names : m->class_names;
    if (!names)
        return CST_OK;
    cst_status status = cst_strings_create(context, &pool->class_names);
    for (int32_t c = 0; status == CST_OK && c < pool->classes; c++)
        status = cst_strings_add(context, pool->class_names, names[c], strlen(names[c]));
    CST_THEN(cst_id_index_create(context, &pool->class_index, pool->class_names, m->path));
    return status;
}

void cst_pool_ask(const cst_pool *pool, cst_table_use use, cst_table_ask *ask) {
    *ask = (cst_table_ask){.use = use,
                           .id_column = pool->id_column,
                           .one = is_values(pool) && pool->classes == 1,
                           .names = pool->class_names};
    if (use == CST_TABLE_TARGETS)
        ask->column = pool->label_column;
    if (use == CST_TABLE_PREDICTIONS)
        ask->truth = pool->manifest->own_labels;
}

void cst_pool_ask_labels(const cst_pool *pool, cst_table_ask *ask) {
    static const char *const wanted[] = {"label", "labels", "target", "class", "y", NULL};
    *ask = (cst_table_ask){.use = CST_TABLE_COLUMN,
                           .kind = CST_COLUMN_TRUTH,
                           .gaps = pool->unlabelled || pool->needless,
                           .wanted = wanted,
                           .id_column = pool->id_column,
                           .column = pool->label_column};
}

/* ---- names ---- */

/* The names become those of the classes (or outputs), in this order. */
static cst_status adopt_names(cst_context *context, cst_pool *pool, const char *where,
                              const cst_strings *names, bool found) {
    cst_manifest *m = pool->manifest;
    char **list = cst_alloc(context, (size_t)names->count, sizeof *list);
    if (!list)
        return CST_ERROR_MEMORY;
    *(is_values(pool) ? &m->output_names : &m->class_names) = list;
    *(is_values(pool) ? &m->outputs : &m->classes) = (int32_t)names->count;
    cst_status status = CST_OK;
    for (int64_t c = 0; status == CST_OK && c < names->count; c++) {
        const char *name = cst_strings_at(names, c);
        char quoted[CST_QUOTE_CHARS];
        if (!cst_manifest_is_name(name))
            return cst_fail(context, CST_ERROR_INPUT, "%s: the class name '%s' %s", where,
                            cst_quote(quoted, name), cst_manifest_name_fault(name));
        list[c] = cst_strdup(context, name);
        status = list[c] ? CST_OK : CST_ERROR_MEMORY;
    }
    pool->names_found = found;
    return status == CST_OK ? cst_pool_index_classes(context, pool) : status;
}

static int by_text(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static int by_number(const void *a, const void *b) {
    int64_t x = 0;
    int64_t y = 0;
    (void)cst_text_integer(*(const char *const *)a, &x);
    (void)cst_text_integer(*(const char *const *)b, &y);
    return x == y ? by_text(a, b) : (x > y) - (x < y);
}

static bool are_integers(const cst_strings *names) {
    int64_t ignored = 0;
    for (int64_t i = 0; i < names->count; i++)
        if (!cst_text_integer(cst_strings_at(names, i), &ignored))
            return false;
    return true;
}

/* The different ones of the names, in order: of numbers by their value. *out is the caller's. */
static cst_status sorted_names(cst_context *context, const cst_strings *names, cst_strings **out) {
    const char **list = cst_alloc(context, (size_t)names->count, sizeof *list);
    cst_status status = list ? cst_strings_create(context, out) : CST_ERROR_MEMORY;
    for (int64_t i = 0; list && i < names->count; i++)
        list[i] = cst_strings_at(names, i);
    if (status == CST_OK)
        qsort((void *)list, (size_t)names->count, sizeof *list,
              are_integers(names) ? by_number : by_text);
    for (int64_t i = 0; status == CST_OK && i < names->count; i++)
        if (*list[i] && (i == 0 || strcmp(list[i], list[i - 1]) != 0))
            status = cst_strings_add(context, *out, list[i], strlen(list[i]));
    cst_free(context, (void *)list);
    return status;
}

static bool has(const cst_strings *names, const char *text) {
    for (int64_t i = 0; i < names->count; i++)
        if (strcmp(cst_strings_at(names, i), text) == 0)
            return true;
    return false;
}

static bool has_all(const cst_strings *names, const cst_strings *texts) {
    for (int64_t i = 0; i < texts->count; i++)
        if (!has(names, cst_strings_at(texts, i)))
            return false;
    return true;
}

cst_status cst_pool_order_classes(cst_context *context, cst_pool *pool, const char *const *names) {
    cst_strings *ordered = NULL;
    bool loaded = false;
    for (int32_t s = 0; s < pool->manifest->split_count; s++)
        loaded = loaded || pool->splits[s].described;
    if (!pool->names_found || loaded)
        return CST_OK;
    cst_status status = cst_strings_create(context, &ordered);
    for (int32_t c = 0; status == CST_OK && c < pool->classes; c++)
        status = cst_strings_add(context, ordered, names[c], strlen(names[c]));
    if (status == CST_OK && has_all(pool->class_names, ordered) &&
        has_all(ordered, pool->class_names)) {
        cst_manifest *m = pool->manifest;
        char **list = is_values(pool) ? m->output_names : m->class_names;
        for (int32_t c = 0; c < pool->classes; c++) {
            cst_free(context, list[c]);
            list[c] = NULL;
        }
        cst_free(context, list);
        *(is_values(pool) ? &m->output_names : &m->class_names) = NULL;
        cst_id_index_free(context, pool->class_index);
        cst_strings_free(context, pool->class_names);
        pool->class_index = NULL;
        pool->class_names = NULL;
        status = adopt_names(context, pool, m->path, ordered, true);
    }
    cst_strings_free(context, ordered);
    return status;
}

/* ---- labels ---- */

static const cst_manifest_split *labelled_split(const cst_pool *pool) {
    for (int32_t s = 0; s < pool->manifest->split_count; s++)
        if (pool->manifest->splits[s].labels)
            return &pool->manifest->splits[s];
    return NULL;
}

/* Different texts among labels that are text, of which few are numbers; *out is NULL where they are
 * numbers. NaN is no name. */
static cst_status label_names(cst_context *context, const cst_pool *pool, const char *path,
                              cst_strings **out) {
    cst_table_ask ask;
    cst_column column = {0};
    bool numbers = false;
    *out = NULL;
    cst_pool_ask_labels(pool, &ask);
    cst_status status = cst_manifest_confine(context, pool->manifest, path);
    cst_row_source source = cst_pool_source(pool, path);
    CST_THEN(cst_column_read_source(context, &column, &source, &ask, NULL));
    if (status != CST_OK)
        return status;
    cst_strings *texts = NULL; /* without NaN */
    int64_t found = 0;
    CST_THEN(cst_strings_create(context, &texts));
    for (int64_t i = 0; status == CST_OK && column.texts && i < column.count; i++) {
        const char *text = cst_strings_at(column.texts, i);
        bool number = cst_csv_is_number(text);
        found += number && !isnan(cst_strtod(text, NULL));
        if (!number || !isnan(cst_strtod(text, NULL)))
            status = cst_strings_add(context, texts, text, strlen(text));
    }
    numbers = 2 * found > column.count;
    if (status == CST_OK && column.texts && !numbers && texts->count > 0)
        status = sorted_names(context, texts, out);
    cst_strings_free(context, texts);
    cst_column_clear(context, &column);
    return status;
}

/* Whether the labels are text, as far as the header of an array, or the first rows of a table,
 * show. */
static cst_status are_labels_text(cst_context *context, const cst_pool *pool, const char *path,
                                  bool *text) {
    cst_table_ask ask;
    cst_table *table = NULL;
    cst_npy *npy = NULL;
    bool delimited = false;
    bool end = false;
    *text = false;
    cst_status status = cst_manifest_confine(context, pool->manifest, path);
    cst_row_source source = cst_pool_source(pool, path);
    CST_THEN(cst_is_text_source(context, &source, &delimited));
    if (status == CST_OK && !delimited) {
        status = cst_npy_open_source(context, &npy, &source);
        *text = status == CST_OK && cst_npy_is_text(npy);
        cst_npy_close(context, npy);
        return status;
    }
    cst_pool_ask_labels(pool, &ask);
    CST_THEN(cst_table_open_source(context, &table, &source, &ask));
    for (int row = 0; status == CST_OK && !end && !*text && row < 64; row++) {
        status = cst_csv_next(context, table->csv, &end);
        *text = status == CST_OK && !end &&
                !cst_csv_is_number(cst_csv_cell(table->csv, table->values[0])) &&
                *cst_csv_cell(table->csv, table->values[0]);
    }
    cst_table_close(context, table);
    return status;
}

/* ---- classes ---- */

/* Whether an error of one file is said when that file is read. */
static bool is_for_later(cst_status status) {
    return status != CST_OK && status != CST_ERROR_MEMORY && status != CST_ERROR_CANCELLED;
}

/* A file whose header names classes; columns [width]. */
typedef struct named_file {
    const char *path;
    cst_strings *names;
} named_file;

/* Opens the first file of a member (`first`), and the first one with a header over several columns.
 */
static cst_status look_at_files(cst_context *context, const cst_pool *pool, cst_row_file **first,
                                int32_t *first_split, named_file *named) {
    const cst_manifest *m = pool->manifest;
    cst_table_ask ask;
    cst_status status = CST_OK;
    cst_pool_ask(pool, CST_TABLE_PREDICTIONS, &ask);
    for (int32_t k = 0; k < m->member_count; k++)
        for (int32_t s = 0; s < m->split_count; s++) {
            const char *path = m->members[k].paths[s];
            cst_row_source source = path ? cst_pool_source(pool, path) : (cst_row_source){0};
            const char *file = path ? cst_source_first(&source) : "";
            bool text = cst_path_is_text(file) || cst_path_column(file);
            if (!path || (*first && !text) || named->names)
                continue;
            cst_row_file *rows = NULL;
            status = cst_manifest_confine(context, m, path);
            CST_THEN(cst_row_file_open_source(context, &rows, &source, &ask));
            if (status != CST_OK && pool->classes == 0 && !*first)
                return status;
            if (is_for_later(status))
                continue;
            if (status != CST_OK)
                return status;
            if (rows->table && rows->table->value_names && rows->width > 1) {
                named->path = path;
                named->names = rows->table->value_names;
                rows->table->value_names = NULL;
            }
            if (*first) {
                cst_row_file_close(context, rows);
            } else {
                *first = rows;
                *first_split = s;
            }
        }
    return CST_OK;
}

/* Says of labels that are text which column is which class, when they are read. */
static cst_status note_order(cst_context *context, cst_pool *pool, const char *path,
                             const cst_strings *names) {
    char list[CST_LISTED_CHARS];
    pool->said = cst_format(
        context,
        "%s: labels are text, and nothing else names the classes, so that the columns of "
        "predictions are taken in alphabetical order: %s%s%s; --class-names gives another order",
        path, cst_column_list(names, list),
        names->count == 2 ? "; a single column is the probability of " : "",
        names->count == 2 ? cst_strings_at(names, 1) : "");
    return pool->said ? CST_OK : CST_ERROR_MEMORY;
}

/* The names in a header, as the labels have them where these are text. */
static cst_status names_of_header(cst_context *context, const named_file *named,
                                  const cst_strings *labels, cst_strings **out) {
    cst_strings *plain = NULL;
    cst_strings *bare = NULL;
    cst_status status = cst_column_plain_names(context, named->names, &plain);
    CST_THEN(cst_column_bare_names(context, named->names, &bare));
    if (status == CST_OK) {
        int32_t *places = cst_alloc(context, (size_t)plain->count, sizeof *places);
        const cst_strings *chosen = plain;
        status = places ? CST_OK : CST_ERROR_MEMORY;
        if (labels && !has_all(plain, labels) && has_all(named->names, labels))
            chosen = named->names;
        else if (labels && !has_all(plain, labels) && has_all(bare, labels))
            chosen = bare;
        bool numbers =
            places && !labels &&
            (cst_column_numbers(plain, 0, places) || cst_column_numbers(bare, 0, places));
        if (status == CST_OK && !numbers && !labels && !are_integers(plain) && are_integers(bare))
            chosen = bare;
        cst_free(context, places);
        if (status == CST_OK && !numbers && (labels || are_integers(chosen)))
            status = sorted_names(context, chosen, out);
        else if (status == CST_OK && !numbers)
            status = cst_strings_copy(context, chosen, out);
    }
    cst_strings_free(context, plain);
    cst_strings_free(context, bare);
    return status;
}

/* Names of the classes where nothing says them: those of a header, or those of labels that are
 * text. */
static cst_status find_names(cst_context *context, cst_pool *pool, const named_file *named) {
    const cst_manifest_split *split = labelled_split(pool);
    cst_strings *labels = NULL;
    cst_strings *names = NULL;
    cst_status status = CST_OK;
    bool text = false;
    if (pool->class_names)
        return CST_OK;
    if (split)
        status = are_labels_text(context, pool, split->labels, &text);
    if (is_for_later(status))
        status = CST_OK;
    if (text && status == CST_OK)
        status = label_names(context, pool, split->labels, &labels);
    if (labels && pool->needless && labels->count != pool->classes) {
        cst_strings_free(context, labels);
        labels = NULL;
    }
    if (status == CST_OK && named->names && has(named->names, ""))
        status =
            cst_fail(context, CST_ERROR_INPUT,
                     "%s: line 1: a column has no name, but others have; name every column, or "
                     "remove the header",
                     named->path);
    if (status == CST_OK && named->names && named->names->count == pool->classes)
        status = names_of_header(context, named, labels, &names);
    char list[CST_LISTED_CHARS];
    if (status == CST_OK && labels && !names && labels->count != pool->classes)
        status = cst_fail(context, CST_ERROR_INPUT,
                          "%s: labels are text with %" PRId64
                          " different names (%s), but the predictions have %d classes; list the "
                          "classes in the order of the columns: --class-names A,B,...",
                          split->labels, labels->count, cst_column_list(labels, list),
                          (int)pool->classes);
    if (status == CST_OK && labels && !names)
        status = note_order(context, pool, split->labels, labels);
    if (status == CST_OK && (names || labels))
        status = adopt_names(context, pool, names ? named->path : split->labels,
                             names ? names : labels, true);
    cst_strings_free(context, labels);
    cst_strings_free(context, names);
    return status;
}

static cst_status find_classes(cst_context *context, cst_pool *pool) {
    cst_row_file *rows = NULL;
    named_file named = {0};
    int32_t split = 0;
    char shape[CST_NPY_SHAPE_CHARS];
    if (pool->classes > 0 && pool->class_names)
        return CST_OK;
    cst_status status = look_at_files(context, pool, &rows, &split, &named);
    if (status == CST_OK && rows && pool->classes == 0) {
        int dims = cst_row_file_dims(rows);
        int lead = pool->manifest->splits[split].condition_count > 0 ? 2 : 1;
        int64_t width = dims == lead + 1 ? (rows->npy ? rows->npy->shape[lead] : rows->width)
                        : dims == lead   ? 1
                                         : -1;
        pool->single = width == 1;
        if (width == 1)
            width = 2; /* the probability of class 1 */
        if (width < 2 || width > INT32_MAX / 2)
            status = cst_fail(
                context, CST_ERROR_INPUT,
                "%s: has shape %s; predictions must be [rows, classes] with at least 2 classes",
                rows->path, cst_row_file_shape_text(rows, shape));
        pool->classes = (int32_t)width;
    }
    CST_THEN(find_names(context, pool, &named));
    cst_strings_free(context, named.names);
    cst_row_file_close(context, rows);
    return status;
}

/* ---- outputs of a regression ---- */

static const char *first_path(const cst_pool *pool, int32_t *split) {
    const cst_manifest *m = pool->manifest;
    for (int32_t k = 0; k < m->member_count; k++)
        for (*split = 0; *split < m->split_count; ++*split)
            if (m->members[k].paths[*split])
                return m->members[k].paths[*split];
    return NULL;
}

/* Opens targets or predictions as far as their columns go, and says how many outputs they have. */
static cst_status open_values(cst_context *context, const cst_pool *pool, const char *path,
                              cst_table_use use, int lead, cst_row_file **out, int64_t *width) {
    char shape[CST_NPY_SHAPE_CHARS];
    cst_table_ask ask;
    cst_pool_ask(pool, use, &ask);
    cst_status status = cst_manifest_confine(context, pool->manifest, path);
    cst_row_source source = cst_pool_source(pool, path);
    CST_THEN(cst_row_file_open_source(context, out, &source, &ask));
    if (status != CST_OK)
        return status;
    int dims = cst_row_file_dims(*out);
    *width = dims == lead + 1 ? ((*out)->npy ? (*out)->npy->shape[lead] : (*out)->width)
             : dims == lead   ? 1
                              : -1;
    if (use == CST_TABLE_PREDICTIONS && (*width < 1 || *width > INT32_MAX / 2))
        status = cst_fail(
            context, CST_ERROR_INPUT,
            "%s: has shape %s; predictions of a regression must be [rows] or [rows, outputs]", path,
            cst_row_file_shape_text(*out, shape));
    return status;
}

/* Whether a table has all the columns of another. */
static bool same_columns(const cst_row_file *predictions, const cst_row_file *targets) {
    if (!predictions->table || !predictions->table->names || !targets->table->value_names)
        return false;
    return has_all(predictions->table->names, targets->table->value_names);
}

/* Reads `path` again, whose several columns are not outputs: the error says how to choose one. */
static cst_status insist_on_one(cst_context *context, cst_pool *pool, const char *path,
                                cst_table_use use) {
    cst_row_file *rows = NULL;
    int64_t width = 0;
    pool->classes = 1;
    cst_status status = open_values(context, pool, path, use, 1, &rows, &width);
    cst_row_file_close(context, rows);
    return status;
}

/* Several columns of targets are outputs where the members have the same ones. */
static cst_status find_outputs(cst_context *context, cst_pool *pool) {
    const cst_manifest_split *labelled = labelled_split(pool);
    cst_row_file *predictions = NULL;
    cst_row_file *targets = NULL;
    int64_t width = 0;
    int64_t outputs = 0;
    int32_t split = 0;
    const char *path = first_path(pool, &split);
    cst_status status = CST_OK;
    if (pool->classes > 0)
        return CST_OK;
    int lead = pool->manifest->splits[split].condition_count > 0 ? 2 : 1;
    status = open_values(context, pool, path, CST_TABLE_PREDICTIONS, lead, &predictions, &width);
    if (status == CST_OK && labelled)
        status =
            open_values(context, pool, labelled->labels, CST_TABLE_TARGETS, 1, &targets, &outputs);
    if (status == CST_ERROR_IO && predictions) /* said when the labels are read */
        status = CST_OK;
    bool several = targets && targets->table && outputs > 1;
    if (status == CST_OK && targets && outputs == 1) {
        pool->classes = predictions->table ? 1 : (int32_t)width;
    } else if (status == CST_OK && several && predictions->table) {
        if (!same_columns(predictions, targets))
            status = insist_on_one(context, pool, labelled->labels, CST_TABLE_TARGETS);
        else {
            pool->classes = (int32_t)outputs;
            status =
                adopt_names(context, pool, labelled->labels, targets->table->value_names, true);
        }
    } else if (status == CST_OK && several && width == 1) {
        status = insist_on_one(context, pool, labelled->labels, CST_TABLE_TARGETS);
    } else if (status == CST_OK) {
        pool->classes = (int32_t)width;
    }
    cst_row_file_close(context, predictions);
    cst_row_file_close(context, targets);
    return status;
}

cst_status cst_pool_find_columns(cst_context *context, cst_pool *pool) {
    const cst_manifest *m = pool->manifest;
    int32_t split = 0;
    if (pool->classes == 0 && pool->task == CST_TASK_SEGMENTATION)
        return cst_fail(
            context, CST_ERROR_INPUT,
            "%s: the number of classes is unknown, and the shape of the maps does not determine "
            "it; give names or a number: \"classes\" in a manifest, or --classes",
            m->path);
    if (pool->task != CST_TASK_CLASSIFICATION && !is_values(pool))
        return CST_OK;
    if (!first_path(pool, &split))
        return pool->classes > 0
                   ? CST_OK
                   : cst_fail(context, CST_ERROR_INPUT, "%s: no member has predictions", m->path);
    return is_values(pool) ? find_outputs(context, pool) : find_classes(context, pool);
}

/* ---- the columns of one file ---- */

/* The class of each name, [names->count], as classes are called; false where one is no class, or
 * two are the same. */
static bool match(const cst_pool *pool, const cst_strings *classes, const cst_strings *names,
                  bool cases, bool *taken, int32_t *column_class) {
    memset(taken, 0, (size_t)pool->classes * sizeof *taken);
    for (int64_t j = 0; j < names->count; j++) {
        const char *name = cst_strings_at(names, j);
        int64_t found = -1;
        if (classes == pool->class_names && !cases)
            found = cst_id_index_find(pool->class_index, name);
        else
            for (int64_t c = 0; found < 0 && c < classes->count; c++)
                if (cases ? cst_column_same(cst_strings_at(classes, c), name)
                          : strcmp(cst_strings_at(classes, c), name) == 0)
                    found = c;
        if (found < 0 || taken[found])
            return false;
        taken[found] = true;
        column_class[j] = (int32_t)found;
    }
    return names->count == pool->classes;
}

/* Whether the names are the numbers of the classes, from 0 or from 1, each once. */
static bool match_numbers(const cst_pool *pool, const cst_strings *names, bool *taken,
                          int32_t *column_class) {
    if (!cst_column_numbers(names, 0, column_class) && !cst_column_numbers(names, 1, column_class))
        return false;
    memset(taken, 0, (size_t)pool->classes * sizeof *taken);
    for (int64_t j = 0; j < names->count; j++) {
        if (column_class[j] >= pool->classes || taken[column_class[j]])
            return false;
        taken[column_class[j]] = true;
    }
    return names->count == pool->classes;
}

/* Why the names match nothing. */
static cst_status no_match(cst_context *context, const cst_pool *pool, const cst_strings *names,
                           const char *path) {
    char quoted[CST_QUOTE_CHARS];
    char theirs[CST_LISTED_CHARS];
    char ours[CST_LISTED_CHARS];
    const char *stranger = NULL;
    int64_t matched = 0;
    for (int64_t j = 0; j < names->count; j++) {
        if (cst_id_index_find(pool->class_index, cst_strings_at(names, j)) >= 0)
            matched++;
        else
            stranger = stranger ? stranger : cst_strings_at(names, j);
    }
    if (matched > 0 && stranger)
        return cst_fail(
            context, CST_ERROR_MISMATCH,
            "%s: line 1: column '%s' does not name %s, although other columns are "
            "named after %s (%s); name all of them or none",
            path, cst_quote(quoted, stranger), is_values(pool) ? "an output" : "a class",
            is_values(pool) ? "outputs" : "classes", cst_column_list(pool->class_names, ours));
    return cst_fail(context, CST_ERROR_MISMATCH,
                    "%s: line 1: the columns are called %s, but the %s are %s; name the columns "
                    "after them",
                    path, cst_column_list(names, theirs), is_values(pool) ? "outputs" : "classes",
                    cst_column_list(pool->class_names, ours));
}

/* A single column is class 1 of two; one that is called after class 0 is not. */
static cst_status check_single(cst_context *context, const cst_pool *pool, const cst_table *table,
                               const char *path) {
    const char *name = cst_strings_at(table->value_names, 0);
    const char *zero = pool->class_names ? cst_strings_at(pool->class_names, 0) : "0";
    cst_strings *plain = NULL;
    char quoted[CST_QUOTE_CHARS];
    if (is_values(pool) || pool->classes != 2)
        return CST_OK;
    cst_status status = cst_column_plain_names(context, table->value_names, &plain);
    if (status == CST_OK &&
        (strcmp(name, zero) == 0 || strcmp(cst_strings_at(plain, 0), zero) == 0))
        status = cst_fail(context, CST_ERROR_INPUT,
                          "%s: line 1: the only column is '%s', but a single column must be the "
                          "probability of class 1 (%s); write 1 - p, or one column per class",
                          path, cst_quote(quoted, name),
                          pool->class_names ? cst_strings_at(pool->class_names, 1) : "1");
    cst_strings_free(context, plain);
    return status;
}

/* Tries the forms that names have, from the plain one on. */
static cst_status try_all(cst_context *context, const cst_pool *pool, const cst_strings *names,
                          const char *path, bool *taken, int32_t *column_class, bool *found) {
    cst_strings *plain = NULL;
    cst_strings *bare = NULL;
    cst_strings *classes = NULL;
    const cst_strings *ours = pool->class_names;
    cst_status status = cst_column_plain_names(context, names, &plain);
    CST_THEN(cst_column_bare_names(context, names, &bare));
    if (status == CST_OK && ours)
        status = cst_column_bare_names(context, ours, &classes);
    const cst_strings *forms[] = {names, plain, bare};
    *found = false;
    for (int cases = 0; status == CST_OK && ours && cases < (names->count > 4096 ? 1 : 2); cases++)
        for (size_t k = 0; !*found && k < 3; k++)
            *found = match(pool, ours, forms[k], cases > 0, taken, column_class);
    if (status == CST_OK && ours && !*found && !is_values(pool) && names->count <= 4096)
        *found = match(pool, classes, bare, false, taken, column_class);
    for (size_t k = 1; status == CST_OK && !*found && k < 3; k++)
        *found = match_numbers(pool, forms[k], taken, column_class);
    if (status == CST_OK && ours && !*found)
        status = no_match(context, pool, names, path);
    cst_strings_free(context, plain);
    cst_strings_free(context, bare);
    cst_strings_free(context, classes);
    return status;
}

cst_status cst_pool_match_columns(cst_context *context, const cst_pool *pool,
                                  const cst_table *table, int32_t width, const char *path,
                                  int32_t **out) {
    *out = NULL;
    if (!table || !table->value_names)
        return CST_OK;
    if (width == 1)
        return check_single(context, pool, table, path);
    if (table->value_names->count != pool->classes)
        return CST_OK;
    bool found = false;
    bool *taken = cst_alloc(context, (size_t)pool->classes, sizeof *taken);
    int32_t *column_class = cst_alloc(context, (size_t)pool->classes, sizeof *column_class);
    cst_status status = taken && column_class ? CST_OK : CST_ERROR_MEMORY;
    CST_THEN(try_all(context, pool, table->value_names, path, taken, column_class, &found));
    bool same = true;
    for (int32_t c = 0; found && c < pool->classes; c++)
        same = same && column_class[c] == c;
    if (same || status != CST_OK) {
        cst_free(context, column_class);
        column_class = NULL;
    }
    *out = column_class;
    cst_free(context, taken);
    return status;
}

/* ---- what is said of the files ---- */

/* Adds a file to a notice: the first one by name, the others by number. */
static void count(cst_file_count *count, const char *path) {
    if (count->files++ == 0)
        (void)cst_snprintf(count->path, sizeof count->path, "%s", path);
}

static void also(const cst_file_count *count, char out[48]) {
    out[0] = '\0';
    if (count->files > 1)
        (void)cst_snprintf(out, 48, " (and %d more file%s)", (int)count->files - 1,
                           count->files > 2 ? "s" : "");
}

cst_status cst_pool_note_file(cst_context *context, const cst_pool *pool, const cst_row_file *rows,
                              cst_file_notes *notes) {
    int32_t *column_class = NULL;
    const cst_table *table = rows->table;
    if (pool->task != CST_TASK_CLASSIFICATION && !is_values(pool))
        return CST_OK;
    if (table && table->said && cst_path_column(rows->path) == 0) {
        if (!notes->said)
            notes->said = cst_strdup(context, table->said);
        if (!notes->said)
            return CST_ERROR_MEMORY;
        if (strcmp(notes->said, table->said) == 0)
            count(&notes->chosen, rows->path);
        else
            cst_notice(context, "%s: %s", rows->path, table->said);
    }
    if (table && table->fold_column >= 0)
        count(&notes->folds, rows->path);
    if (!is_values(pool) && pool->names_found && rows->width > 1 && (!table || !table->value_names))
        count(&notes->nameless, rows->path);
    cst_status status = cst_pool_match_columns(context, pool, table, (int32_t)rows->width,
                                               rows->path, &column_class);
    if (status == CST_OK && column_class)
        count(&notes->reordered, rows->path);
    cst_free(context, column_class);
    return status;
}

void cst_pool_say_notes(cst_context *context, const cst_pool *pool, const cst_pool_split *split,
                        cst_file_notes *notes) {
    char more[48];
    char list[CST_LISTED_CHARS];
    also(&notes->chosen, more);
    if (notes->chosen.files > 0)
        cst_notice(context, "%s%s: %s", notes->chosen.path, more, notes->said);
    also(&notes->folds, more);
    if (notes->folds.files > 0 && !split->folds)
        cst_notice(context,
                   "%s%s: the column of folds is ignored: it is used if every file has the same "
                   "whole numbers from 0; give --folds %s#COLUMN to use that of one file",
                   notes->folds.path, more, notes->folds.path);
    also(&notes->reordered, more);
    if (notes->reordered.files > 0 && pool->class_names)
        cst_notice(context, "%s%s: columns are in another order and were matched by name to %s",
                   notes->reordered.path, more, cst_column_list(pool->class_names, list));
    else if (notes->reordered.files > 0)
        cst_notice(context, "%s%s: columns are in another order and were matched by number",
                   notes->reordered.path, more);
    also(&notes->nameless, more);
    if (notes->nameless.files > 0 && pool->class_names)
        cst_notice(context, "%s%s: columns have no names and are taken in the order %s",
                   notes->nameless.path, more, cst_column_list(pool->class_names, list));
    cst_free(context, notes->said);
    *notes = (cst_file_notes){0};
}
