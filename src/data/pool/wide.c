/*
 * One table that holds several members: ids, labels, folds, groups and weights next to a column for
 * each member, or several for each. When a pool is opened. docs/pool.md.
 */
#include "data/pool/wide.h"
#include "data/pool/marks.h"

#include <inttypes.h>
#include <string.h>

/* Columns are compared with one another, and more would take long. */
enum { COLUMNS_MAX = 20000 };

typedef struct wide_table {
    cst_context *context;
    const char *path;
    const cst_pool_config *config; /* never NULL */
    const cst_sheet *sheet;
    int32_t ids; /* columns; -1: none */
    int32_t labels;
    int32_t folds;
    int32_t groups;
    int32_t weights;
    int32_t domains;
    int32_t *rest; /* [rest_count]: may be predictions */
    int32_t rest_count;
} wide_table;

static const char *name_at(const wide_table *w, int32_t column) {
    return cst_strings_at(w->sheet->names, column);
}

static bool is_text(const wide_table *w, int32_t column) {
    return cst_sheet_facts(w->sheet, column).texts > 0;
}

static bool is_values(const wide_table *w) {
    return w->config->task_given && w->config->task == CST_TASK_REGRESSION;
}

/* The column that an option names, else the only one of this kind; -1 where none is, and an error
 * where it could be several. */
static cst_status find_role(const wide_table *w, const char *key, cst_column_hint hint,
                            const char *option, int32_t *out) {
    char list[CST_LISTED_CHARS];
    char quoted[CST_QUOTE_CHARS];
    *out = key ? cst_sheet_find(w->sheet, key) : -1;
    if (key && *out < 0)
        return cst_fail(w->context, CST_ERROR_INPUT,
                        "%s: line 1: there is no column '%s'; it has %s", w->path,
                        cst_quote(quoted, key), cst_sheet_list(w->sheet, list));
    for (int32_t j = 0; !key && j < w->sheet->columns; j++) {
        if (w->sheet->hints[j] != hint || j == w->ids)
            continue;
        if (*out >= 0 && hint == CST_COLUMN_TRUTH)
            return cst_fail(w->context, CST_ERROR_INPUT,
                            "%s: line 1: columns '%s' and '%s' may both hold the labels; choose "
                            "with %s NAME",
                            w->path, name_at(w, *out), name_at(w, j), option);
        if (*out < 0)
            *out = j;
    }
    return CST_OK;
}

/* Whether an option names this column of this table: FILE.csv#COLUMN. */
static bool is_chosen(const wide_table *w, const char *option, int32_t column) {
    size_t at = option ? cst_path_column(option) : 0;
    return at > 0 && strlen(w->path) == at && strncmp(option, w->path, at) == 0 &&
           cst_sheet_find(w->sheet, option + at + 1) == column;
}

static cst_status find_roles(wide_table *w) {
    const cst_sheet *s = w->sheet;
    w->ids = w->config->id_column ? cst_sheet_find(s, w->config->id_column) : cst_sheet_ids(s);
    for (int32_t j = 0; w->ids < 0 && j < s->columns; j++)
        if ((s->hints[j] == CST_COLUMN_UNKNOWN || s->hints[j] == CST_COLUMN_ID_TEXT) &&
            is_text(w, j) && cst_sheet_may_be_ids(s, j))
            w->ids = j;
    const char *labels = w->config->labels ? NULL : w->config->label_column;
    cst_status status = find_role(w, labels, CST_COLUMN_TRUTH, "--label-column", &w->labels);
    CST_THEN(find_role(w, NULL, CST_COLUMN_FOLD, "--folds", &w->folds));
    CST_THEN(find_role(w, NULL, CST_COLUMN_GROUP, "--groups", &w->groups));
    CST_THEN(find_role(w, NULL, CST_COLUMN_WEIGHT, "--weights", &w->weights));
    CST_THEN(find_role(w, NULL, CST_COLUMN_DOMAIN, "--domains", &w->domains));
    for (int32_t j = 0; status == CST_OK && j < s->columns; j++) {
        cst_column_facts facts = cst_sheet_facts(s, j);
        bool role = s->hints[j] == CST_COLUMN_TRUTH || s->hints[j] == CST_COLUMN_FOLD ||
                    s->hints[j] == CST_COLUMN_GROUP || s->hints[j] == CST_COLUMN_WEIGHT ||
                    s->hints[j] == CST_COLUMN_DOMAIN;
        role = role || is_chosen(w, w->config->labels, j) || is_chosen(w, w->config->folds, j) ||
               is_chosen(w, w->config->groups, j) || is_chosen(w, w->config->weights, j) ||
               is_chosen(w, w->config->domains, j) || is_chosen(w, w->config->ids, j);
        bool blank = !*name_at(w, j) && facts.empty == s->rows;
        bool index = s->hints[j] == CST_COLUMN_INDEX && cst_sheet_may_be_ids(s, j);
        if (j != w->ids && j != w->labels && !role && !blank && !index)
            w->rest[w->rest_count++] = j;
    }
    return status;
}

/* ---- members of several columns ---- */

/* Bytes of a name before `mark`, where something follows it; 0 where it is not there. */
static size_t member_length(const char *name, const char *mark) {
    const char *at = strstr(name, mark);
    return at && at > name && at[strlen(mark)] ? (size_t)(at - name) : 0;
}

/* How many columns are those of the member that column `first` begins with. */
static int32_t count_like(const wide_table *w, int32_t first, const char *mark) {
    size_t length = member_length(name_at(w, first), mark);
    int32_t found = 0;
    for (int32_t i = 0; length > 0 && i < w->rest_count; i++) {
        const char *name = name_at(w, w->rest[i]);
        found +=
            member_length(name, mark) == length && strncmp(name, name_at(w, first), length) == 0;
    }
    return found;
}

/* The mark between a member and a class: ":" where any column has it, "__" or "." where all columns
 * have it and there are several members of equally many classes; NULL where there is none. */
static const char *find_mark(const wide_table *w) {
    static const char *const marks[] = {"__", "."};
    for (int32_t i = 0; i < w->rest_count; i++)
        if (count_like(w, w->rest[i], ":") > 1)
            return ":";
    for (size_t m = 0; w->rest_count > 3 && m < sizeof marks / sizeof *marks; m++) {
        int32_t each = count_like(w, w->rest[0], marks[m]);
        bool all = each > 1 && each < w->rest_count;
        for (int32_t i = 1; all && i < w->rest_count; i++)
            all = count_like(w, w->rest[i], marks[m]) == each;
        if (all)
            return marks[m];
    }
    return NULL;
}

/* ---- whether there are several members ---- */

/* The different labels, of which more than a few are not needed: those in the table, or in the file
 * that the caller names. *out is the caller's. */
static cst_status list_labels(const wide_table *w, cst_strings **out) {
    enum { ENOUGH = 64 };
    static const char *const wanted[] = {"label", "labels", "target", "class", "y", NULL};
    const cst_table_ask ask = {.use = CST_TABLE_COLUMN,
                               .kind = CST_COLUMN_TRUTH,
                               .wanted = wanted,
                               .id_column = w->config->id_column,
                               .column = w->config->label_column};
    cst_column column = {0};
    int64_t count = w->labels >= 0 ? w->sheet->rows : 0;
    cst_status status = cst_strings_create(w->context, out);
    if (status == CST_OK && w->config->labels) {
        status = cst_column_read_as(w->context, &column, w->config->labels, &ask, NULL,
                                    w->config->zip_limit);
        count = column.count;
    }
    for (int64_t row = 0; status == CST_OK && row < count && (*out)->count < ENOUGH; row++) {
        char number[24];
        const char *label = number;
        if (column.numbers)
            (void)cst_snprintf(number, sizeof number, "%" PRId64, column.numbers[row]);
        else
            label = column.texts
                        ? cst_strings_at(column.texts, row)
                        : cst_strings_at(w->sheet->cells, row * w->sheet->columns + w->labels);
        bool known = false;
        for (int64_t k = 0; !known && k < (*out)->count; k++)
            known = strcmp(cst_strings_at(*out, k), label) == 0;
        if (!known)
            status = cst_strings_add(w->context, *out, label, strlen(label));
    }
    cst_column_clear(w->context, &column);
    return status;
}

/* Whether the columns are called as classes are: 0, 1, ..., 1, 2, ..., or as the labels. */
static cst_status are_classes(const wide_table *w, const cst_strings *labels, bool *classes) {
    cst_strings *names = NULL;
    cst_strings *plain = NULL;
    int32_t *places = cst_alloc(w->context, (size_t)w->rest_count, sizeof *places);
    cst_status status = places ? cst_strings_create(w->context, &names) : CST_ERROR_MEMORY;
    for (int32_t i = 0; status == CST_OK && i < w->rest_count; i++)
        status = cst_strings_add(w->context, names, name_at(w, w->rest[i]),
                                 strlen(name_at(w, w->rest[i])));
    CST_THEN(cst_column_plain_names(w->context, names, &plain));
    if (status == CST_OK) {
        *classes = cst_column_numbers(plain, 0, places) || cst_column_numbers(plain, 1, places);
        int64_t found = 0;
        for (int64_t i = 0; i < plain->count; i++)
            for (int64_t k = 0; k < labels->count; k++)
                found += strcmp(cst_strings_at(plain, i), cst_strings_at(labels, k)) == 0;
        *classes = *classes || (found == plain->count && found > 0);
    }
    cst_free(w->context, places);
    cst_strings_free(w->context, names);
    cst_strings_free(w->context, plain);
    return status;
}

/* Whether the labels, in a table of their own, have the same columns: several outputs. */
static cst_status are_outputs(const wide_table *w, bool *outputs) {
    cst_sheet labels = {0};
    bool text = false;
    *outputs = false;
    if (!w->config->labels || w->rest_count < 2 || cst_path_column(w->config->labels))
        return CST_OK;
    cst_status status =
        cst_is_text_file(w->context, w->config->labels, w->config->zip_limit, &text);
    if (status != CST_OK)
        return status;
    if (!text) { /* an array of several columns */
        cst_row_file *rows = NULL;
        status = cst_row_file_open(w->context, &rows, w->config->labels, w->config->zip_limit);
        *outputs = status == CST_OK && rows->width == w->rest_count;
        cst_row_file_close(w->context, rows);
        return status;
    }
    status = cst_sheet_look(w->context, &labels, w->config->labels, w->config->zip_limit);
    *outputs = status == CST_OK && labels.names;
    for (int32_t i = 0; *outputs && i < w->rest_count; i++)
        *outputs = cst_sheet_find(&labels, name_at(w, w->rest[i])) >= 0;
    cst_sheet_clear(w->context, &labels);
    return status;
}

/* Of columns of a classification that do not sum to 1: each is class 1 of two for a member, or all
 * are scores of classes for one. unit: they are in [0, 1]. */
static cst_status holds_binary(const wide_table *w, bool unit, bool *several) {
    bool classes = false;
    bool logits = w->config->output_given && w->config->output == CST_OUTPUT_LOGIT;
    cst_strings *labels = NULL;
    cst_status status = list_labels(w, &labels);
    CST_THEN(are_classes(w, labels, &classes));
    if (status == CST_OK && !classes) {
        if (w->labels >= 0)
            *several = unit || labels->count == 2;
        else if (w->config->labels)
            *several = unit || (labels->count == 2 && w->rest_count > 2);
        else
            *several =
                unit || (logits && (w->rest_count == 2 || w->config->classes != w->rest_count));
    }
    cst_strings_free(w->context, labels);
    return status;
}

static cst_status holds_several(const wide_table *w, const char *mark, bool *several) {
    bool outputs = false;
    bool unit = true;
    int32_t texts = 0;
    int32_t count = 0;
    int32_t *units = cst_alloc(w->context, (size_t)w->rest_count, sizeof *units);
    if (!units)
        return CST_ERROR_MEMORY;
    *several = mark != NULL;
    for (int32_t i = 0; i < w->rest_count; i++) {
        texts += is_text(w, w->rest[i]);
        bool inside = cst_sheet_unit(w->sheet, w->rest[i]);
        bool whole = cst_sheet_facts(w->sheet, w->rest[i]).whole;
        if (inside)
            units[count++] = w->rest[i];
        unit = unit && (is_text(w, w->rest[i]) || inside || whole); /* check_rest refuses */
    }
    unit = unit && count > 0 && !cst_sheet_sums_to_one(w->sheet, units, count);
    cst_free(w->context, units);
    if (*several || w->rest_count - texts < 1)
        return CST_OK;
    if (w->rest_count == 1) { /* one member, named by the column if that is a name */
        *several = w->labels >= 0 && w->sheet->hints[w->rest[0]] != CST_COLUMN_PREDICTION;
        return CST_OK;
    }
    if (is_values(w)) {
        cst_status status = are_outputs(w, &outputs);
        *several = status == CST_OK && !outputs;
        return status;
    }
    if (cst_sheet_sums_to_one(w->sheet, w->rest, w->rest_count))
        return CST_OK;
    return holds_binary(w, unit, several);
}

/* ---- describing ---- */

static cst_status put_part(const wide_table *w, char **place, int32_t column) {
    if (*place || column < 0)
        return CST_OK;
    *place = cst_format(w->context, "%s#%s", w->path, name_at(w, column));
    return *place ? CST_OK : CST_ERROR_MEMORY;
}

/* What the labels etc. are, where the caller names no other file of them. */
static cst_status put_parts(const wide_table *w, cst_manifest_split *split) {
    int32_t folds = w->folds >= 0 && cst_sheet_facts(w->sheet, w->folds).whole ? w->folds : -1;
    cst_status status = put_part(w, &split->labels, w->labels);
    CST_THEN(put_part(w, &split->folds, folds));
    CST_THEN(put_part(w, &split->groups, w->groups));
    CST_THEN(put_part(w, &split->weights, w->weights));
    CST_THEN(put_part(w, &split->domains, w->domains));
    return status;
}

static cst_status add_member(const wide_table *w, cst_manifest *manifest, int32_t column,
                             const char *mark) {
    int32_t member = -1;
    const char *whole = name_at(w, column);
    size_t length = mark ? member_length(whole, mark) : 0;
    char *name = cst_strdup(w->context, whole);
    if (!name)
        return CST_ERROR_MEMORY;
    if (length > 0)
        name[length] = '\0';
    char *column_name = cst_strdup(w->context, name);
    if (!column_name) {
        cst_free(w->context, name);
        return CST_ERROR_MEMORY;
    }
    if (!cst_manifest_is_name(name)) {
        char quoted[CST_QUOTE_CHARS];
        cst_status wrong =
            cst_fail(w->context, CST_ERROR_INPUT, "%s: line 1: the name '%s' of a column %s",
                     w->path, cst_quote(quoted, name), cst_manifest_name_fault(name));
        cst_free(w->context, name);
        cst_free(w->context, column_name);
        return wrong;
    }
    (void)cst_take_mark(name); /* "oof_lgb" and "test_lgb" are of member "lgb", as files are */
    int32_t before = cst_manifest_find_member(manifest, name);
    int32_t whole_column = cst_sheet_find(w->sheet, column_name);
    char *path_of_member = cst_format(w->context, "%s#%s", w->path, column_name);
    cst_status status = path_of_member ? CST_OK : CST_ERROR_MEMORY;
    bool other = before >= 0 && path_of_member &&
                 strcmp(manifest->members[before].paths[0], path_of_member) != 0;
    bool both =
        length > 0 && whole_column >= 0 && strcmp(name_at(w, whole_column), column_name) == 0;
    if (status == CST_OK && (other || both || (before >= 0 && length == 0)))
        status =
            cst_fail(w->context, CST_ERROR_INPUT,
                     "%s: line 1: column '%s' and another one would both be member '%s'; rename "
                     "the column",
                     w->path, whole, name);
    if (status == CST_OK && before < 0)
        status = cst_manifest_add_member(w->context, manifest, name, &member);
    if (status == CST_OK && before < 0) {
        manifest->members[member].paths[0] = path_of_member;
        path_of_member = NULL;
    }
    cst_free(w->context, path_of_member);
    cst_free(w->context, column_name);
    cst_free(w->context, name);
    return status;
}

/* Text and numbers that count rows are no predictions. */
static cst_status check_rest(const wide_table *w) {
    char list[CST_LISTED_CHARS];
    cst_strings *texts = NULL;
    bool fractions = false; /* in some column */
    bool known = w->labels >= 0 || w->config->labels || w->config->unlabelled == 2;
    if (w->rest_count > COLUMNS_MAX)
        return cst_fail(w->context, CST_ERROR_LIMIT,
                        "%s: line 1: %d columns of members, but a table may have %d; write a file "
                        "for each member",
                        w->path, (int)w->rest_count, (int)COLUMNS_MAX);
    cst_status status = cst_strings_create(w->context, &texts);
    for (int32_t i = 0; status == CST_OK && i < w->rest_count; i++)
        if (is_text(w, w->rest[i]))
            status = cst_strings_add(w->context, texts, name_at(w, w->rest[i]),
                                     strlen(name_at(w, w->rest[i])));
    if (status == CST_OK && texts->count > 0)
        status = cst_fail(w->context, CST_ERROR_INPUT,
                          "%s: line 1: not predictions but text: %s; remove these columns, or say "
                          "what they are with --id-column or --label-column",
                          w->path, cst_column_list(texts, list));
    cst_strings_free(w->context, texts);
    for (int32_t i = 0; !fractions && i < w->rest_count; i++)
        fractions = !cst_sheet_facts(w->sheet, w->rest[i]).whole;
    for (int32_t i = 0; status == CST_OK && i < w->rest_count; i++) {
        int32_t j = w->rest[i];
        cst_column_facts facts = cst_sheet_facts(w->sheet, j);
        bool unit = cst_sheet_unit(w->sheet, j);
        if (facts.whole && !unit && (w->sheet->hints[j] == CST_COLUMN_ID_LIKELY || !is_values(w)) &&
            !cst_sheet_distinct(w->sheet, j))
            return cst_fail(w->context, CST_ERROR_INPUT,
                            "%s: line 1: column '%s' is no member's predictions: it holds whole "
                            "numbers%s; %s%s%sremove it, or say what it is, for example with "
                            "--groups '%s#%s'",
                            w->path, name_at(w, j),
                            is_values(w) ? " that name something" : ", and no probabilities",
                            known ? "" : "if these are the labels, give --label-column '",
                            known ? "" : name_at(w, j), known ? "" : "'; else ", w->path,
                            name_at(w, j));
        if (w->sheet->rows > 2 && facts.whole && fractions && cst_sheet_distinct(w->sheet, j) &&
            (facts.counts || w->ids < 0))
            return cst_fail(w->context, CST_ERROR_INPUT,
                            "%s: line 1: column '%s' is no member's predictions: it looks like "
                            "sample ids (all different whole numbers); name it with --id-column "
                            "'%s', or remove it",
                            w->path, name_at(w, j), name_at(w, j));
    }
    return status;
}

static const char *part(const wide_table *w, int32_t column, const char *what, char buffer[160]) {
    char quoted[CST_QUOTE_CHARS];
    buffer[0] = '\0';
    if (column >= 0)
        (void)cst_snprintf(buffer, 160, "%s from '%s', ", what,
                           cst_quote(quoted, name_at(w, column)));
    return buffer;
}

static cst_status describe(const wide_table *w, cst_manifest *manifest, const char *mark,
                           char **said) {
    char parts[6][160];
    char list[CST_LISTED_CHARS];
    cst_strings *members = NULL;
    cst_manifest_split *split = &manifest->splits[0];
    cst_status status = check_rest(w);
    for (int32_t i = 0; status == CST_OK && i < w->rest_count; i++)
        status = add_member(w, manifest, w->rest[i], mark);
    CST_THEN(cst_strings_create(w->context, &members));
    for (int32_t k = 0; status == CST_OK && k < manifest->member_count; k++)
        status = cst_strings_add(w->context, members, manifest->members[k].name,
                                 strlen(manifest->members[k].name));
    if (status == CST_OK) {
        *said = cst_format(w->context, "%s: %s%s%s%s%s%s%" PRId64 " member%s: %s", w->path,
                           part(w, w->ids, "ids", parts[0]),
                           part(w, w->config->labels ? -1 : w->labels, "labels", parts[1]),
                           part(w, w->config->folds ? -1 : w->folds, "folds", parts[2]),
                           part(w, w->config->groups ? -1 : w->groups, "groups", parts[3]),
                           part(w, w->config->weights ? -1 : w->weights, "weights", parts[4]),
                           part(w, w->config->domains ? -1 : w->domains, "domains", parts[5]),
                           members->count, members->count == 1 ? "" : "s",
                           cst_column_list(members, list));
        status = *said ? CST_OK : CST_ERROR_MEMORY;
    }
    cst_strings_free(w->context, members);
    CST_THEN(put_parts(w, split));
    return status;
}

cst_status cst_wide_describe(cst_context *context, cst_manifest *manifest, const char *path,
                             const cst_pool_config *config, bool *wide, char **said) {
    static const cst_pool_config none = {0};
    bool text = false;
    cst_sheet sheet = {0};
    *wide = false;
    *said = NULL;
    config = config ? config : &none;
    bool task = !config->task_given || config->task == CST_TASK_CLASSIFICATION ||
                config->task == CST_TASK_REGRESSION;
    if (!task || cst_path_column(path) || cst_path_member(path))
        return CST_OK;
    cst_status status = cst_is_text_file(context, path, config->zip_limit, &text);
    if (status != CST_OK || !text)
        return status;
    status = cst_sheet_look(context, &sheet, path, config->zip_limit);
    if (status == CST_OK && !sheet.names) {
        cst_sheet_clear(context, &sheet);
        return CST_OK;
    }
    wide_table w = {.context = context, .path = path, .config = config, .sheet = &sheet};
    if (status == CST_OK) {
        w.rest = cst_alloc(context, (size_t)sheet.columns, sizeof *w.rest);
        status = w.rest ? find_roles(&w) : CST_ERROR_MEMORY;
    }
    const char *mark = status == CST_OK ? find_mark(&w) : NULL;
    CST_THEN(holds_several(&w, mark, wide));
    if (status == CST_OK && *wide)
        status = describe(&w, manifest, mark, said);
    else if (status == CST_OK)
        status = put_parts(&w, &manifest->splits[0]);
    if (status == CST_OK && !*wide && w.labels >= 0) {
        manifest->own_labels = cst_strdup(context, name_at(&w, w.labels));
        status = manifest->own_labels ? CST_OK : CST_ERROR_MEMORY;
    }
    cst_free(context, w.rest);
    cst_sheet_clear(context, &sheet);
    return status;
}
