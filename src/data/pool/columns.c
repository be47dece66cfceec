/* What the columns of a pool's files are: how many classes or outputs there are, what they are
 * called, and which column of each file is which. When a pool is opened, and again for each file
 * that is read. docs/method.md#s0-rows-folds-ids. */
#include "data/pool/topk.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* More names are not compared whatever their case. */
enum { NAMES_COMPARED = 4096 };

static bool is_values(const cst_pool *pool) {
    return cst_task_has_outputs(pool->task);
}

cst_table_ask cst_pool_ask(const cst_pool *pool, cst_table_use use) {
    bool targets = use == CST_TABLE_TARGETS;
    return (cst_table_ask){.use = use,
                           .gaps = targets ? pool->needless || pool->task == CST_TASK_MULTILABEL
                                           : cst_pool_partial(pool),
                           .id_column = pool->id_column,
                           .one = is_values(pool) && pool->classes == 1,
                           .names = pool->class_names,
                           .column = targets ? pool->label_column : NULL,
                           .truth = targets ? NULL : pool->manifest->own_labels};
}

cst_table_ask cst_pool_ask_labels(const cst_pool *pool) {
    static const char *const wanted[] = {"label", "labels", "target", "class", "y", NULL};
    return (cst_table_ask){.use = CST_TABLE_COLUMN,
                           .kind = CST_COLUMN_TRUTH,
                           .gaps = pool->unlabelled || pool->needless,
                           .wanted = wanted,
                           .id_column = pool->id_column,
                           .column = pool->label_column};
}

/* ---- names ---- */

cst_status cst_pool_name_classes(cst_context *context, cst_manifest *m, bool outputs,
                                 const char *const *names, int32_t count) {
    CST_NEW(context, &m->scope, char *, list, count);
    *(outputs ? &m->output_names : &m->class_names) = list;
    *(outputs ? &m->outputs : &m->classes) = count;
    for (int32_t c = 0; c < count; c++)
        if (!(list[c] = cst_take_text(context, &m->scope, names[c])))
            return CST_ERROR_MEMORY;
    return CST_OK;
}

cst_status cst_pool_check_name(cst_context *context, const char *where, const char *name) {
    char quoted[CST_QUOTE_CHARS];
    return cst_manifest_is_name(name)
               ? CST_OK
               : cst_fail(context, CST_ERROR_INPUT, "%s: the class name '%s' %s", where,
                          cst_quote(quoted, name), cst_manifest_name_fault(name));
}

/* The names become those of the classes (or outputs), in this order. */
static cst_status adopt_names(cst_context *context, cst_pool *pool, const char *where,
                              const cst_strings *names) {
    CST_SCOPE(scope);
    CST_NEW(context, scope, const char *, list, names->count);
    for (int64_t c = 0; c < names->count; c++) {
        list[c] = cst_strings_at(names, c);
        CST_TRY(cst_pool_check_name(context, where, list[c]));
    }
    CST_TRY(cst_pool_name_classes(context, pool->manifest, is_values(pool), list,
                                  (int32_t)names->count));
    pool->names_found = true;
    return cst_pool_index_classes(context, pool);
}

static int by_number(const void *a, const void *b) {
    int64_t x = 0;
    int64_t y = 0;
    (void)cst_text_integer(*(const char *const *)a, &x);
    (void)cst_text_integer(*(const char *const *)b, &y);
    return x == y ? cst_by_text(a, b) : (x > y) - (x < y);
}

static bool are_integers(const cst_strings *names) {
    int64_t ignored = 0;
    for (int64_t i = 0; i < names->count; i++)
        if (!cst_text_integer(cst_strings_at(names, i), &ignored))
            return false;
    return true;
}

/* The different ones of the names, in order: of numbers by their value. */
static cst_status sorted_names(cst_context *context, cst_scope *scope, const cst_strings *names,
                               cst_strings **out) {
    CST_SCOPE(own);
    CST_NEW(context, own, const char *, list, names->count);
    CST_TRY(cst_strings_take(context, scope, out));
    for (int64_t i = 0; i < names->count; i++)
        list[i] = cst_strings_at(names, i);
    qsort((void *)list, (size_t)names->count, sizeof *list,
          are_integers(names) ? by_number : cst_by_text);
    for (int64_t i = 0; i < names->count; i++)
        if (*list[i] && (i == 0 || strcmp(list[i], list[i - 1]) != 0))
            CST_TRY(cst_strings_put(context, *out, list[i]));
    return CST_OK;
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

/* Whether two classes are called by numbers in falling order, as where 0 is the positive class: the
 * labels are then names. */
static bool are_reversed(const cst_pool *pool, const char *const *names) {
    int64_t first = 0;
    int64_t second = 0;
    return pool->task == CST_TASK_CLASSIFICATION && pool->classes == 2 &&
           cst_text_integer(names[0], &first) && cst_text_integer(names[1], &second) &&
           first > second;
}

cst_status cst_pool_order_classes(cst_context *context, cst_pool *pool, const char *const *names) {
    cst_manifest *m = pool->manifest;
    cst_strings *ordered;
    bool loaded = false;
    CST_SCOPE(scope);
    for (int32_t s = 0; s < m->split_count; s++)
        loaded = loaded || pool->splits[s].described;
    if (loaded || (!pool->names_found && (pool->class_names || !are_reversed(pool, names))))
        return CST_OK;
    CST_TRY(cst_strings_take(context, scope, &ordered));
    for (int32_t c = 0; c < pool->classes; c++)
        CST_TRY(cst_strings_put(context, ordered, names[c]));
    if (pool->class_names &&
        (!has_all(pool->class_names, ordered) || !has_all(ordered, pool->class_names)))
        return CST_OK;
    pool->unsure = false; /* a model has said it */
    return adopt_names(context, pool, m->path, ordered);
}

/* ---- labels ---- */

static const cst_manifest_split *labelled_split(const cst_pool *pool) {
    for (int32_t s = 0; s < pool->manifest->split_count; s++)
        if (pool->manifest->splits[s].labels)
            return &pool->manifest->splits[s];
    return NULL;
}

/* Different texts among labels that are text, of which few are numbers; *out is NULL where they are
 * numbers, but for a positive one that is given. NaN is no name. */
static cst_status label_names(cst_context *context, cst_scope *scope, const cst_pool *pool,
                              const char *path, cst_strings **out) {
    const cst_table_ask ask = cst_pool_ask_labels(pool);
    cst_row_source source;
    cst_column column;
    cst_strings *texts; /* without NaN */
    int64_t found = 0;
    CST_SCOPE(own);
    *out = NULL;
    CST_TRY(cst_pool_source(context, pool, path, &source));
    if (source.shared)
        CST_TRY(cst_shared_parse(context, source.shared));
    CST_TRY(cst_column_read(context, own, &column, &source, &ask, NULL));
    if (!column.texts && !pool->positive)
        return CST_OK;
    CST_TRY(cst_strings_take(context, own, &texts));
    for (int64_t i = 0; i < column.count; i++) {
        char digits[24];
        if (!column.texts)
            (void)cst_snprintf(digits, sizeof digits, "%" PRId64, column.numbers[i]);
        const char *text = column.texts ? cst_strings_at(column.texts, i) : digits;
        bool number = cst_csv_is_number(text);
        bool nan = number && isnan(cst_strtod(text, NULL));
        found += number && !nan;
        if (!nan)
            CST_TRY(cst_strings_put(context, texts, text));
    }
    bool names = (2 * found <= column.count || pool->positive) && texts->count > 0;
    return names ? sorted_names(context, scope, texts, out) : CST_OK;
}

/* Whether the labels are text, as far as the header of an array, or the first rows of a table,
 * show. */
static cst_status are_labels_text(cst_context *context, const cst_pool *pool, const char *path,
                                  bool *text) {
    const cst_table_ask ask = cst_pool_ask_labels(pool);
    cst_row_source source;
    cst_table *table;
    cst_npy *npy;
    bool delimited = false;
    bool end = false;
    CST_SCOPE(scope);
    *text = false;
    CST_TRY(cst_pool_source(context, pool, path, &source));
    source.shared = NULL; /* a few rows are read in the file */
    CST_TRY(cst_is_text_source(context, &source, &delimited));
    if (!delimited) {
        CST_TRY(cst_npy_open_source(context, scope, &npy, &source));
        *text = cst_npy_is_text(npy);
        return CST_OK;
    }
    CST_TRY(cst_table_open(context, scope, &table, &source, &ask));
    for (int row = 0; !*text && row < 64; row++) {
        CST_TRY(cst_csv_next(context, table->csv, &end));
        if (end)
            return CST_OK;
        const char *cell = cst_csv_cell(table->csv, table->values[0]);
        *text = *cell && !cst_csv_is_number(cell);
    }
    return CST_OK;
}

/* ---- classes ---- */

/* Whether an error of one file is said when that file is read. */
static bool is_for_later(cst_status status) {
    return status != CST_OK && status != CST_ERROR_MEMORY && status != CST_ERROR_CANCELLED;
}

/* A file whose header names classes; columns [width]. */
typedef struct named_file {
    const char *path;
    const cst_strings *names;
} named_file;

/* The first file of a member as far as it was looked at. */
typedef struct first_file {
    cst_row_file *rows;
    int lead; /* axes that count rows */
} first_file;

/* Opens the first file of a member, and the first one with a header over several columns. */
static cst_status look_at_files(cst_context *context, cst_scope *scope, const cst_pool *pool,
                                first_file *first, named_file *named) {
    const cst_manifest *m = pool->manifest;
    const cst_table_ask ask = cst_pool_ask(pool, CST_TABLE_PREDICTIONS);
    for (int32_t k = 0; k < m->member_count; k++)
        for (int32_t s = 0; s < m->split_count; s++) {
            const char *path = m->members[k].paths[s];
            cst_row_source source = {0};
            cst_row_file *rows = NULL;
            cst_scope *own;
            if (!path || named->names)
                continue;
            cst_status status = cst_pool_source(context, pool, path, &source);
            const char *file = cst_source_first(&source);
            if (first->rows && !cst_path_is_text(file) && !cst_path_column(file))
                continue;
            CST_TRY(cst_scope_take(context, scope, &own));
            CST_THEN(cst_row_file_open(context, own, &rows, &source, &ask));
            if (is_for_later(status) && (pool->classes > 0 || first->rows))
                continue;
            CST_TRY(status);
            if (rows->table && rows->table->value_names && rows->width > 1)
                *named = (named_file){path, rows->table->value_names};
            else if (first->rows)
                cst_scope_free(own);
            if (!first->rows)
                *first = (first_file){rows, m->splits[s].condition_count > 0 ? 2 : 1};
        }
    return CST_OK;
}

/* Values of a row of an open file, by its axes; -1: it has others. */
static int64_t width_of(const cst_row_file *rows, int lead) {
    int dims = cst_row_file_dims(rows);
    return dims == lead + 1 ? (rows->npy ? rows->npy->shape[lead] : rows->width)
           : dims == lead   ? 1
                            : -1;
}

/* Says of labels that are text which column is which class, when they are read. */
static cst_status note_order(cst_context *context, cst_pool *pool, const char *path,
                             const cst_strings *names) {
    char list[CST_LISTED_CHARS];
    pool->said = cst_take_format(
        context, &pool->scope,
        "%s: labels are text, and nothing else names the classes, so that the columns of "
        "predictions are taken in alphabetical order: %s; --class-names gives another order",
        path, cst_column_list(names, list));
    return pool->said ? CST_OK : CST_ERROR_MEMORY;
}

/* ---- the positive one of two classes ---- */

/* Whether a label is by custom the one that a probability is of. */
static bool is_customary(const char *name) {
    static const char *const words[] = {"1", "true", "t", "yes", "y", "pos", "positive"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (cst_column_same(name, words[i]))
            return true;
    return false;
}

/* Which of two labels is class 1: the one that is given, or that the only column is called, or that
 * is so by custom; -1: nothing says it. */
static cst_status find_positive(cst_context *context, const cst_pool *pool,
                                const cst_strings *labels, const cst_strings *columns, int *out) {
    cst_strings *plain = NULL;
    bool custom[2];
    CST_SCOPE(scope);
    *out = -1;
    if (columns)
        CST_TRY(cst_column_plain_names(context, scope, columns, &plain));
    for (int k = 0; k < 2; k++) {
        const char *label = cst_strings_at(labels, k);
        custom[k] = is_customary(label);
        if (pool->positive ? strcmp(label, pool->positive) == 0
                           : columns && (has(columns, label) || has(plain, label)))
            *out = k;
    }
    if (*out < 0 && !pool->positive && custom[0] != custom[1])
        *out = custom[1];
    return CST_OK;
}

/* Names two classes after their labels [2], the positive one last. columns: of a single one its
 * name, or NULL. */
static cst_status adopt_positive(cst_context *context, cst_pool *pool, const char *path,
                                 const cst_strings *labels, const cst_strings *columns) {
    cst_strings *ordered;
    int positive = -1;
    CST_SCOPE(scope);
    CST_TRY(find_positive(context, pool, labels, columns, &positive));
    pool->unsure = positive < 0;
    positive = positive == 0 ? 0 : 1;
    CST_TRY(cst_strings_take(context, scope, &ordered));
    CST_TRY(cst_strings_put(context, ordered, cst_strings_at(labels, 1 - positive)));
    CST_TRY(cst_strings_put(context, ordered, cst_strings_at(labels, positive)));
    if (!pool->positive && !pool->unsure) {
        pool->said = cst_take_format(context, &pool->scope,
                                     "%s: labels are text; the single column of predictions is "
                                     "taken as the probability of '%s'; --positive NAME gives "
                                     "another one",
                                     path, cst_strings_at(labels, positive));
        if (!pool->said)
            return CST_ERROR_MEMORY;
    }
    return adopt_names(context, pool, path, ordered);
}

/* The positive class that the caller names must be one of two. */
static cst_status check_positive(cst_context *context, const cst_pool *pool, const char *path,
                                 const cst_strings *labels) {
    char list[CST_LISTED_CHARS];
    char quoted[CST_QUOTE_CHARS];
    if (pool->classes == 2 && labels->count == 2 && has(labels, pool->positive))
        return CST_OK;
    return cst_fail(context, CST_ERROR_INPUT,
                    "%s: the positive class is to be '%s', of two, but the labels are %s and the "
                    "predictions have %d classes; correct or remove --positive",
                    path, cst_quote(quoted, pool->positive), cst_column_list(labels, list),
                    (int)pool->classes);
}

/* The names in a header, as the labels have them where these are text. */
static cst_status names_of_header(cst_context *context, cst_scope *scope, const cst_strings *names,
                                  const cst_strings *labels, cst_strings **out) {
    cst_strings *plain;
    cst_strings *bare;
    CST_TRY(cst_column_plain_names(context, scope, names, &plain));
    CST_TRY(cst_column_bare_names(context, scope, names, &bare));
    CST_NEW(context, scope, int32_t, places, plain->count);
    const cst_strings *chosen = plain;
    if (labels && !has_all(plain, labels))
        chosen = has_all(names, labels) ? names : has_all(bare, labels) ? bare : plain;
    else if (!labels &&
             (cst_column_numbers(plain, 0, places) || cst_column_numbers(bare, 0, places)))
        return CST_OK;
    else if (!labels && !are_integers(plain) && are_integers(bare))
        chosen = bare;
    return labels || are_integers(chosen) ? sorted_names(context, scope, chosen, out)
                                          : cst_strings_copy(context, scope, chosen, out);
}

/* Names of the classes where nothing says them: those of a header, or those of labels that are
 * text. */
static cst_status find_names(cst_context *context, cst_scope *scope, cst_pool *pool,
                             const first_file *first, const named_file *named) {
    const cst_manifest_split *split = labelled_split(pool);
    cst_strings *labels = NULL;
    cst_strings *names = NULL;
    char list[CST_LISTED_CHARS];
    const cst_strings *columns =
        first->rows && first->rows->table ? first->rows->table->value_names : NULL;
    bool text = false;
    if (pool->class_names)
        return CST_OK;
    cst_status status = split ? are_labels_text(context, pool, split->labels, &text) : CST_OK;
    if (!is_for_later(status))
        CST_TRY(status);
    if ((text || (split && pool->positive)) && status == CST_OK)
        CST_TRY(label_names(context, scope, pool, split->labels, &labels));
    if (labels && pool->needless && labels->count != pool->classes)
        labels = NULL;
    if (labels && pool->positive) {
        CST_TRY(check_positive(context, pool, split->labels, labels));
        return adopt_positive(context, pool, split->labels, labels, NULL);
    }
    if (named->names && has(named->names, ""))
        return cst_fail(context, CST_ERROR_INPUT,
                        "%s: line 1: a column has no name, but others have; name every column, or "
                        "remove the header",
                        named->path);
    if (named->names && named->names->count == pool->classes)
        CST_TRY(names_of_header(context, scope, named->names, labels, &names));
    if (names)
        return adopt_names(context, pool, named->path, names);
    if (!labels)
        return CST_OK;
    if (labels->count == 2 && pool->single)
        return adopt_positive(context, pool, split->labels, labels, columns);
    if (labels->count != pool->classes && pool->single)
        return cst_fail(context, CST_ERROR_INPUT,
                        "%s: labels are text with %" PRId64
                        " different names (%s), but the predictions are one column, which is the "
                        "probability of one of two classes: save the probabilities of all classes, "
                        "one column for each",
                        split->labels, labels->count, cst_column_list(labels, list));
    if (labels->count != pool->classes)
        return cst_fail(context, CST_ERROR_INPUT,
                        "%s: labels are text with %" PRId64
                        " different names (%s), but the predictions have %d classes; list the "
                        "classes in the order of the columns: --class-names A,B,...",
                        split->labels, labels->count, cst_column_list(labels, list),
                        (int)pool->classes);
    CST_TRY(note_order(context, pool, split->labels, labels));
    return adopt_names(context, pool, split->labels, labels);
}

static cst_status find_classes(cst_context *context, cst_pool *pool) {
    first_file first = {0};
    named_file named = {0};
    char shape[CST_NPY_SHAPE_CHARS];
    CST_SCOPE(scope);
    if (pool->classes > 0 && pool->class_names)
        return CST_OK;
    CST_TRY(look_at_files(context, scope, pool, &first, &named));
    pool->single = first.rows && width_of(first.rows, first.lead) == 1;
    if (first.rows && pool->classes == 0) {
        int64_t width = width_of(first.rows, first.lead);
        if (width == 1)
            width = 2; /* the probability of class 1 */
        if (width < 2 || width > INT32_MAX / 2)
            return cst_fail(
                context, CST_ERROR_INPUT,
                "%s: has shape %s; predictions must be [rows, classes] with at least 2 classes",
                first.rows->path, cst_row_file_shape_text(first.rows, shape));
        pool->classes = (int32_t)width;
    }
    return find_names(context, scope, pool, &first, &named);
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
static cst_status open_values(cst_context *context, cst_scope *scope, const cst_pool *pool,
                              const char *path, cst_table_use use, int lead, cst_row_file **out,
                              int64_t *width) {
    char shape[CST_NPY_SHAPE_CHARS];
    const cst_table_ask ask = cst_pool_ask(pool, use);
    cst_row_source source;
    CST_TRY(cst_pool_source(context, pool, path, &source));
    CST_TRY(cst_row_file_open(context, scope, out, &source, &ask));
    *width = width_of(*out, lead);
    if (use == CST_TABLE_PREDICTIONS && (*width < 1 || *width > INT32_MAX / 2))
        return cst_fail(
            context, CST_ERROR_INPUT,
            "%s: has shape %s; regression predictions must be [rows] or [rows, outputs]", path,
            cst_row_file_shape_text(*out, shape));
    return CST_OK;
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
    CST_SCOPE(scope);
    if (pool->classes > 0)
        return CST_OK;
    int lead = pool->manifest->splits[split].condition_count > 0 ? 2 : 1;
    CST_TRY(
        open_values(context, scope, pool, path, CST_TABLE_PREDICTIONS, lead, &predictions, &width));
    cst_status status = labelled ? open_values(context, scope, pool, labelled->labels,
                                               CST_TABLE_TARGETS, 1, &targets, &outputs)
                                 : CST_OK;
    if (status != CST_ERROR_IO) /* said when the labels are read */
        CST_TRY(status);
    bool several = targets && targets->table && outputs > 1;
    const cst_strings *columns = predictions->table ? predictions->table->names : NULL;
    const cst_strings *names = several ? targets->table->value_names : NULL;
    if (several && columns && names && has_all(columns, names)) {
        pool->classes = (int32_t)outputs;
        return adopt_names(context, pool, labelled->labels, names);
    }
    pool->classes = targets && outputs == 1 && predictions->table ? 1 : (int32_t)width;
    if (!several || (!predictions->table && width != 1))
        return CST_OK;
    pool->classes = 1; /* the error says how to choose one of several columns */
    return open_values(context, scope, pool, labelled->labels, CST_TABLE_TARGETS, 1, &targets,
                       &outputs);
}

/* Tables of which several columns are named are looked at once. */
static cst_status find_shared(cst_context *context, cst_pool *pool) {
    const cst_manifest *m = pool->manifest;
    for (int32_t s = 0; s < m->split_count; s++) {
        const char *before = NULL;
        for (int32_t k = 0; k < m->member_count; k++) {
            const char *path = m->members[k].paths[s];
            size_t mark = path ? cst_path_column(path) : 0;
            if (mark == 0 || cst_manifest_parts(m, path))
                continue;
            if (before && strncmp(before, path, mark + 1) == 0 &&
                cst_manifest_confine(context, m, path) == CST_OK)
                CST_TRY(
                    cst_shared_add(context, &pool->scope, &pool->shared, path, pool->zip_limit));
            before = path;
        }
    }
    return CST_OK;
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
    if (pool->positive &&
        (pool->task != CST_TASK_CLASSIFICATION ||
         (pool->class_names && (pool->classes != 2 || strcmp(cst_strings_at(pool->class_names, 1),
                                                             pool->positive) != 0))))
        return cst_fail(context, CST_ERROR_INPUT,
                        "%s: the positive class is for a classification whose two classes have no "
                        "names yet; %s",
                        m->path,
                        pool->class_names
                            ? "these are in the order of the columns, the positive one "
                              "last: correct it, and remove --positive"
                            : "remove --positive");
    CST_TRY(cst_topk_find(context, pool));
    if (!cst_pool_of_rows(pool) || pool->listed > 0)
        return CST_OK;
    CST_TRY(find_shared(context, pool));
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
    cst_strings *plain;
    char quoted[CST_QUOTE_CHARS];
    CST_SCOPE(scope);
    if (is_values(pool) || pool->classes != 2)
        return CST_OK;
    CST_TRY(cst_column_plain_names(context, scope, table->value_names, &plain));
    if (strcmp(name, zero) != 0 && strcmp(cst_strings_at(plain, 0), zero) != 0)
        return CST_OK;
    return cst_fail(context, CST_ERROR_INPUT,
                    "%s: line 1: the only column is '%s', but a single column must be the "
                    "probability of class 1 (%s); write 1 - p, or one column per class",
                    path, cst_quote(quoted, name),
                    pool->class_names ? cst_strings_at(pool->class_names, 1) : "1");
}

/* Tries the forms that names have, from the plain one on. taken: [classes] scratch. */
static cst_status try_all(cst_context *context, cst_scope *scope, const cst_pool *pool,
                          const cst_strings *names, const char *path, bool *taken,
                          int32_t *column_class, bool *found) {
    cst_strings *plain;
    cst_strings *bare;
    cst_strings *classes;
    const cst_strings *ours = pool->class_names;
    bool few = names->count <= NAMES_COMPARED;
    *found = false;
    CST_TRY(cst_column_plain_names(context, scope, names, &plain));
    CST_TRY(cst_column_bare_names(context, scope, names, &bare));
    const cst_strings *forms[] = {names, plain, bare};
    for (int cases = 0; ours && cases < (few ? 2 : 1); cases++)
        for (size_t k = 0; !*found && k < 3; k++)
            *found = match(pool, ours, forms[k], cases > 0, taken, column_class);
    if (ours && !*found && !is_values(pool) && few) {
        CST_TRY(cst_column_bare_names(context, scope, ours, &classes));
        *found = match(pool, classes, bare, false, taken, column_class);
    }
    for (size_t k = 1; !*found && k < 3; k++)
        *found = match_numbers(pool, forms[k], taken, column_class);
    return ours && !*found ? no_match(context, pool, names, path) : CST_OK;
}

cst_status cst_pool_match_columns(cst_context *context, cst_scope *scope, const cst_pool *pool,
                                  const cst_table *table, int32_t width, const char *path,
                                  int32_t **out) {
    bool found = false;
    CST_SCOPE(own);
    *out = NULL;
    if (!table || !table->value_names)
        return CST_OK;
    if (width == 1)
        return check_single(context, pool, table, path);
    if (table->value_names->count != pool->classes)
        return CST_OK;
    CST_NEW(context, own, bool, taken, pool->classes);
    CST_NEW(context, scope, int32_t, column_class, pool->classes);
    CST_TRY(try_all(context, own, pool, table->value_names, path, taken, column_class, &found));
    for (int32_t c = 0; found && c < pool->classes; c++)
        if (column_class[c] != c)
            *out = column_class;
    return CST_OK;
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

cst_status cst_pool_note_file(cst_context *context, cst_scope *scope, const cst_pool *pool,
                              const cst_row_file *rows, cst_file_notes *notes) {
    int32_t *column_class = NULL;
    const cst_table *table = rows->table;
    CST_SCOPE(own);
    if (!cst_pool_of_rows(pool))
        return CST_OK;
    if (table && table->said && cst_path_column(rows->path) == 0) {
        if (!notes->said && !(notes->said = cst_take_text(context, scope, table->said)))
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
    CST_TRY(cst_pool_match_columns(context, own, pool, table, (int32_t)rows->width, rows->path,
                                   &column_class));
    if (column_class)
        count(&notes->reordered, rows->path);
    return CST_OK;
}

void cst_pool_say_notes(cst_context *context, const cst_pool *pool, const cst_pool_split *split,
                        const cst_file_notes *notes) {
    char more[48];
    char list[CST_LISTED_CHARS];
    also(&notes->chosen, more);
    if (notes->chosen.files > 0)
        cst_notice(context, "%s%s: %s", notes->chosen.path, more, notes->said);
    also(&notes->folds, more);
    if (notes->folds.files > 0 && !split->beside.folds)
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
}
