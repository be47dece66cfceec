/* What else the tables of members hold: labels, or several members, with ids, labels, folds, groups
 * and weights next to a column for each member, or several for each. When a pool is opened.
 * docs/pool.md. */
#include "data/pool/state.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <sys/stat.h>

bool cst_take_one_mark(char *stem, const char *mark) {
    size_t bytes = strlen(mark);
    size_t length = strlen(stem);
    if (length <= bytes + 1)
        return false;
    if (strncmp(stem, mark, bytes) == 0 && strchr("_.", stem[bytes])) {
        memmove(stem, stem + bytes + 1, length - bytes);
        return true;
    }
    if (strcmp(stem + length - bytes, mark) != 0 || !strchr("_.", stem[length - bytes - 1]))
        return false;
    stem[length - bytes - 1] = '\0';
    return true;
}

const char *cst_take_mark(char *stem) {
    return cst_take_one_mark(stem, "oof") ? "oof" : cst_take_one_mark(stem, "test") ? "test" : NULL;
}

/* Columns are compared with one another, and more would take long. */
enum { COLUMNS_MAX = 20000 };

/* What stands beside the members. */
enum { LABELS, FOLDS, GROUPS, WEIGHTS, DOMAINS, ROLES };

static const cst_column_hint ROLE[ROLES] = {CST_COLUMN_TRUTH, CST_COLUMN_FOLD, CST_COLUMN_GROUP,
                                            CST_COLUMN_WEIGHT, CST_COLUMN_DOMAIN};

typedef struct wide_table {
    cst_context *context;
    cst_scope *scope; /* of what is said */
    const char *path;
    const cst_pool_config *config; /* never NULL */
    const cst_sheet *sheet;
    int32_t ids;          /* column; -1: none */
    int32_t roles[ROLES]; /* the same */
    int32_t *rest;        /* [rest_count]: may be predictions */
    int32_t rest_count;
} wide_table;

static const char *name_at(const wide_table *w, int32_t column) {
    return cst_sheet_name(w->sheet, column);
}

static const cst_sheet_column *facts(const wide_table *w, int32_t column) {
    return &w->sheet->of[column];
}

static bool is_text(const wide_table *w, int32_t column) {
    return facts(w, column)->texts > 0;
}

/* The file that the caller names for a role, or NULL. */
static const char *given(const wide_table *w, int role) {
    const cst_pool_config *c = w->config;
    const char *const paths[ROLES] = {c->labels, c->folds, c->groups, c->weights, c->domains};
    return paths[role];
}

static bool is_values(const wide_table *w) {
    return w->config->task_given && cst_task_has_outputs(w->config->task);
}

static char *no_column(cst_context *context, cst_scope *scope, const char *path,
                       const cst_sheet *sheet, const char *key, const char *option) {
    char list[CST_LISTED_CHARS];
    char quoted[CST_QUOTE_CHARS];
    return cst_take_format(context, scope, "%s: line 1: there is no column '%s'%s; it has %s", path,
                           cst_quote(quoted, key), option, cst_sheet_list(sheet, list));
}

static char *two_columns(cst_context *context, cst_scope *scope, const char *path,
                         const cst_sheet *sheet, int32_t one, int32_t other) {
    return cst_take_format(context, scope,
                           "%s: line 1: columns '%s' and '%s' may both hold the labels; choose "
                           "with --label-column NAME",
                           path, cst_sheet_name(sheet, one), cst_sheet_name(sheet, other));
}

/* Fails with the text, of a scope. */
static cst_status fail(cst_context *context, const char *text) {
    return text ? cst_fail(context, CST_ERROR_INPUT, "%s", text) : CST_ERROR_MEMORY;
}

/* The column that an option names, else the only one of this kind; -1 where none is, and an error
 * where it could be several. */
static cst_status find_role(wide_table *w, int role) {
    const char *key = role == LABELS && !w->config->labels ? w->config->label_column : NULL;
    int32_t *out = &w->roles[role];
    *out = key ? cst_sheet_find(w->sheet, key) : -1;
    if (key && *out < 0)
        return fail(w->context, no_column(w->context, w->scope, w->path, w->sheet, key, ""));
    for (int32_t j = 0; !key && j < w->sheet->columns; j++) {
        if (facts(w, j)->hint != ROLE[role] || j == w->ids)
            continue;
        if (*out >= 0 && role == LABELS)
            return fail(w->context, two_columns(w->context, w->scope, w->path, w->sheet, *out, j));
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
        if ((s->of[j].hint == CST_COLUMN_UNKNOWN || s->of[j].hint == CST_COLUMN_ID_TEXT) &&
            is_text(w, j) && cst_sheet_may_be_ids(s, j))
            w->ids = j;
    for (int role = 0; role < ROLES; role++)
        CST_TRY(find_role(w, role));
    for (int32_t j = 0; j < s->columns; j++) {
        bool known = j == w->ids || j == w->roles[LABELS] || cst_sheet_blank(s, j) ||
                     is_chosen(w, w->config->ids, j) || is_chosen(w, w->config->order, j) ||
                     (s->of[j].hint == CST_COLUMN_INDEX && cst_sheet_may_be_ids(s, j));
        for (int role = 0; role < ROLES; role++)
            known = known || s->of[j].hint == ROLE[role] || is_chosen(w, given(w, role), j);
        if (!known)
            w->rest[w->rest_count++] = j;
    }
    return CST_OK;
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
 * that the caller names. */
static cst_status list_labels(const wide_table *w, cst_scope *scope, cst_strings **out) {
    enum { ENOUGH = 64 };
    static const char *const wanted[] = {"label", "labels", "target", "class", "y", NULL};
    const cst_table_ask ask = {.use = CST_TABLE_COLUMN,
                               .kind = CST_COLUMN_TRUTH,
                               .wanted = wanted,
                               .id_column = w->config->id_column,
                               .column = w->config->label_column};
    cst_column column = {0};
    int64_t count = w->roles[LABELS] >= 0 ? w->sheet->rows : 0;
    CST_TRY(cst_strings_take(w->context, scope, out));
    if (w->config->labels) {
        cst_row_source source = cst_one_file(w->config->labels, w->config->zip_limit);
        CST_TRY(cst_column_read(w->context, scope, &column, &source, &ask, NULL));
        count = column.count;
    }
    for (int64_t row = 0; row < count && (*out)->count < ENOUGH; row++) {
        char number[24];
        const char *label = number;
        if (column.numbers)
            (void)cst_snprintf(number, sizeof number, "%" PRId64, column.numbers[row]);
        else
            label = column.texts ? cst_strings_at(column.texts, row)
                                 : cst_sheet_cell(w->sheet, row, w->roles[LABELS]);
        bool known = false;
        for (int64_t k = 0; !known && k < (*out)->count; k++)
            known = strcmp(cst_strings_at(*out, k), label) == 0;
        if (!known)
            CST_TRY(cst_strings_put(w->context, *out, label));
    }
    return CST_OK;
}

/* Whether the columns are called as classes are: 0, 1, ..., 1, 2, ..., or as the labels. */
static cst_status are_classes(const wide_table *w, cst_scope *scope, const cst_strings *labels,
                              bool *classes) {
    cst_strings *names;
    cst_strings *plain;
    int64_t found = 0;
    CST_NEW(w->context, scope, int32_t, places, w->rest_count);
    CST_TRY(cst_strings_take(w->context, scope, &names));
    for (int32_t i = 0; i < w->rest_count; i++)
        CST_TRY(cst_strings_put(w->context, names, name_at(w, w->rest[i])));
    CST_TRY(cst_column_plain_names(w->context, scope, names, &plain));
    for (int64_t i = 0; i < plain->count; i++)
        for (int64_t k = 0; k < labels->count; k++)
            found += strcmp(cst_strings_at(plain, i), cst_strings_at(labels, k)) == 0;
    *classes = cst_column_numbers(plain, 0, places) || cst_column_numbers(plain, 1, places) ||
               (found == plain->count && found > 0);
    return CST_OK;
}

/* Whether the labels, in a table of their own, have the same columns: several outputs. */
static cst_status are_outputs(const wide_table *w, bool *outputs) {
    cst_sheet labels;
    cst_row_file *rows;
    CST_SCOPE(scope);
    *outputs = false;
    if (!w->config->labels || w->rest_count < 2 || cst_path_column(w->config->labels))
        return CST_OK;
    CST_TRY(cst_sheet_look(w->context, scope, &labels, w->config->labels, w->config->zip_limit));
    if (labels.columns == 0) { /* an array of several columns */
        cst_row_source source = cst_one_file(w->config->labels, w->config->zip_limit);
        CST_TRY(cst_row_file_open(w->context, scope, &rows, &source, NULL));
        *outputs = rows->width == w->rest_count;
        return CST_OK;
    }
    *outputs = labels.names;
    for (int32_t i = 0; *outputs && i < w->rest_count; i++)
        *outputs = cst_sheet_find(&labels, name_at(w, w->rest[i])) >= 0;
    return CST_OK;
}

/* Of columns of a classification that do not sum to 1: each is class 1 of two for a member, or all
 * are scores of classes for one. unit: they are in [0, 1]. */
static cst_status holds_binary(const wide_table *w, bool unit, bool *several) {
    bool classes = false;
    bool logits = w->config->output_given && w->config->output == CST_OUTPUT_LOGIT;
    cst_strings *labels;
    CST_SCOPE(scope);
    CST_TRY(list_labels(w, scope, &labels));
    CST_TRY(are_classes(w, scope, labels, &classes));
    if (classes)
        return CST_OK;
    if (w->roles[LABELS] >= 0)
        *several = unit || labels->count == 2;
    else if (w->config->labels)
        *several = unit || (labels->count == 2 && w->rest_count > 2);
    else
        *several = unit || (logits && (w->rest_count == 2 || w->config->classes != w->rest_count));
    return CST_OK;
}

static cst_status holds_several(const wide_table *w, const char *mark, bool *several) {
    bool outputs = false;
    bool unit = true;
    int32_t texts = 0;
    int32_t count = 0;
    CST_SCOPE(scope);
    CST_NEW(w->context, scope, int32_t, units, w->rest_count);
    *several = mark != NULL;
    for (int32_t i = 0; i < w->rest_count; i++) {
        texts += is_text(w, w->rest[i]);
        const cst_sheet_column *of = facts(w, w->rest[i]);
        if (of->unit)
            units[count++] = w->rest[i];
        unit = unit && (of->texts > 0 || of->unit || of->whole); /* check_rest refuses */
    }
    unit = unit && count > 0 && !cst_sheet_sums_to_one(w->sheet, units, count);
    if (*several || w->rest_count - texts < 1)
        return CST_OK;
    if (w->rest_count == 1) { /* one member, named by the column if that is a name */
        *several = w->roles[LABELS] >= 0 && facts(w, w->rest[0])->hint != CST_COLUMN_PREDICTION;
        return CST_OK;
    }
    if (is_values(w)) {
        CST_TRY(are_outputs(w, &outputs));
        *several = !outputs;
        return CST_OK;
    }
    if (cst_sheet_sums_to_one(w->sheet, w->rest, w->rest_count))
        return CST_OK;
    return holds_binary(w, unit, several);
}

/* ---- describing ---- */

static cst_status put_part(const wide_table *w, cst_manifest *manifest, char **place,
                           int32_t column) {
    if (*place || column < 0)
        return CST_OK;
    *place = cst_take_format(w->context, &manifest->scope, "%s#%s", w->path, name_at(w, column));
    return *place ? CST_OK : CST_ERROR_MEMORY;
}

/* What the labels etc. are, where the caller names no other file of them. */
static cst_status put_parts(const wide_table *w, cst_manifest *manifest) {
    cst_manifest_split *split = &manifest->splits[0];
    char **const places[ROLES] = {&split->labels, &split->folds, &split->groups, &split->weights,
                                  &split->domains};
    for (int role = 0; role < ROLES; role++)
        if (role != FOLDS || w->roles[role] < 0 || facts(w, w->roles[role])->whole)
            CST_TRY(put_part(w, manifest, places[role], w->roles[role]));
    return CST_OK;
}

static cst_status add_member(const wide_table *w, cst_manifest *manifest, int32_t column,
                             const char *mark) {
    int32_t member = -1;
    const char *whole = name_at(w, column);
    size_t length = mark ? member_length(whole, mark) : 0;
    size_t bytes = length > 0 ? length : strlen(whole);
    char quoted[CST_QUOTE_CHARS];
    CST_SCOPE(scope);
    CST_NEW(w->context, scope, char, column_name, bytes + 1);
    CST_NEW(w->context, scope, char, name, bytes + 1);
    memcpy(column_name, whole, bytes);
    /* NOLINTNEXTLINE(bugprone-not-null-terminated-result) */
    memcpy(name, whole, bytes);
    if (!cst_manifest_is_name(name))
        return cst_fail(w->context, CST_ERROR_INPUT, "%s: line 1: the name '%s' of a column %s",
                        w->path, cst_quote(quoted, name), cst_manifest_name_fault(name));
    (void)cst_take_mark(name); /* "oof_lgb" and "test_lgb" are of member "lgb", as files are */
    int32_t before = cst_manifest_find_member(manifest, name);
    int32_t whole_column = cst_sheet_find(w->sheet, column_name);
    const char *path = before >= 0 ? manifest->members[before].paths[0] : "";
    bool other = before >= 0 && strcmp(path + cst_path_column(path) + 1, column_name) != 0;
    bool both =
        length > 0 && whole_column >= 0 && strcmp(name_at(w, whole_column), column_name) == 0;
    if (other || both || (before >= 0 && length == 0))
        return cst_fail(w->context, CST_ERROR_INPUT,
                        "%s: line 1: column '%s' and another one would both be member '%s'; rename "
                        "the column",
                        w->path, whole, name);
    if (before >= 0)
        return CST_OK;
    CST_TRY(cst_manifest_add_member(w->context, manifest, name, &member));
    char **place = &manifest->members[member].paths[0];
    *place = cst_take_format(w->context, &manifest->scope, "%s#%s", w->path, column_name);
    return *place ? CST_OK : CST_ERROR_MEMORY;
}

/* Text and numbers that count rows are no predictions. */
static cst_status check_rest(const wide_table *w) {
    char list[CST_LISTED_CHARS];
    cst_strings *texts;
    bool fractions = false; /* in some column */
    bool known = w->roles[LABELS] >= 0 || w->config->labels || w->config->unlabelled == 2;
    CST_SCOPE(scope);
    if (w->rest_count > COLUMNS_MAX)
        return cst_fail(w->context, CST_ERROR_LIMIT,
                        "%s: line 1: %d columns of members, but a table may have %d; write a file "
                        "for each member",
                        w->path, (int)w->rest_count, (int)COLUMNS_MAX);
    CST_TRY(cst_strings_take(w->context, scope, &texts));
    for (int32_t i = 0; i < w->rest_count; i++) {
        fractions = fractions || !facts(w, w->rest[i])->whole;
        if (is_text(w, w->rest[i]))
            CST_TRY(cst_strings_put(w->context, texts, name_at(w, w->rest[i])));
    }
    if (texts->count > 0)
        return cst_fail(w->context, CST_ERROR_INPUT,
                        "%s: line 1: not predictions but text: %s; remove these columns, or say "
                        "what they are with --id-column or --label-column",
                        w->path, cst_column_list(texts, list));
    for (int32_t i = 0; i < w->rest_count; i++) {
        int32_t j = w->rest[i];
        const cst_sheet_column *of = facts(w, j);
        if (of->whole && !of->unit && (of->hint == CST_COLUMN_ID_LIKELY || !is_values(w)) &&
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
        if (w->sheet->rows > 2 && of->whole && fractions && cst_sheet_distinct(w->sheet, j) &&
            (of->counts || w->ids < 0))
            return cst_fail(w->context, CST_ERROR_INPUT,
                            "%s: line 1: column '%s' is no member's predictions: it looks like "
                            "sample ids (all different whole numbers); name it with --id-column "
                            "'%s', or remove it",
                            w->path, name_at(w, j), name_at(w, j));
    }
    return CST_OK;
}

/* Adds "labels from 'y', " to what is said. */
static void say_part(const wide_table *w, int32_t column, const char *what, char *said,
                     size_t room) {
    char quoted[CST_QUOTE_CHARS];
    size_t used = strlen(said);
    if (column >= 0)
        (void)cst_snprintf(said + used, room - used, "%s from '%s', ", what,
                           cst_quote(quoted, name_at(w, column)));
}

static cst_status describe(const wide_table *w, cst_manifest *manifest, const char *mark,
                           char **said) {
    char list[CST_LISTED_CHARS];
    cst_strings *members;
    CST_SCOPE(scope);
    CST_TRY(check_rest(w));
    for (int32_t i = 0; i < w->rest_count; i++)
        CST_TRY(add_member(w, manifest, w->rest[i], mark));
    CST_TRY(cst_strings_take(w->context, scope, &members));
    for (int32_t k = 0; k < manifest->member_count; k++)
        CST_TRY(cst_strings_put(w->context, members, manifest->members[k].name));
    char parts[(ROLES + 1) * (CST_QUOTE_CHARS + 24)] = "";
    say_part(w, w->ids, "ids", parts, sizeof parts);
    for (int role = 0; role < ROLES; role++)
        if (!given(w, role))
            say_part(w, w->roles[role], cst_column_noun(ROLE[role]), parts, sizeof parts);
    *said = cst_take_format(w->context, w->scope, "%s: %s%" PRId64 " member%s: %s", w->path, parts,
                            members->count, members->count == 1 ? "" : "s",
                            cst_column_list(members, list));
    if (!*said)
        return CST_ERROR_MEMORY;
    return put_parts(w, manifest);
}

cst_status cst_wide_describe(cst_context *context, cst_scope *scope, cst_manifest *manifest,
                             const char *path, const cst_pool_config *config, bool *wide,
                             char **said) {
    static const cst_pool_config none = {0};
    cst_sheet sheet;
    wide_table w = {.context = context, .scope = scope, .path = path, .sheet = &sheet};
    CST_SCOPE(own);
    *wide = false;
    *said = NULL;
    w.config = config = config ? config : &none;
    bool task = !config->task_given || config->task == CST_TASK_CLASSIFICATION ||
                cst_task_has_outputs(config->task);
    if (!task || cst_path_column(path) || cst_path_member(path))
        return CST_OK;
    CST_TRY(cst_sheet_look(context, own, &sheet, path, config->zip_limit));
    if (!sheet.names)
        return CST_OK;
    CST_TAKE(context, own, w.rest, sheet.columns);
    CST_TRY(find_roles(&w));
    const char *mark = find_mark(&w);
    CST_TRY(holds_several(&w, mark, wide));
    if (*wide)
        return describe(&w, manifest, mark, said);
    CST_TRY(put_parts(&w, manifest));
    if (w.roles[LABELS] < 0)
        return CST_OK;
    manifest->own_labels = cst_take_text(context, &manifest->scope, name_at(&w, w.roles[LABELS]));
    return manifest->own_labels ? CST_OK : CST_ERROR_MEMORY;
}

/* ---- labels in the tables of members ---- */

/* Whether a column has a label in the first rows, where test rows have none. */
static bool has_label(const cst_sheet *sheet, int32_t column) {
    for (int64_t row = 0; row < sheet->rows; row++) {
        const char *cell = cst_sheet_cell(sheet, row, column);
        bool nan = cst_csv_is_number(cell) && isnan(cst_strtod(cell, NULL));
        if (!cst_csv_is_missing(cell) && !nan && strcmp(cell, "-1") != 0)
            return true;
    }
    return false;
}

/* The column of labels in the table at `path`: the one that the caller names, else the only one of
 * that kind; its name goes to *name, of the scope. *filled: it has labels. *wrong: why there are
 * none, unless something was wrong before. */
static cst_status find_labels(cst_context *context, cst_scope *scope, const char *path,
                              const cst_pool_config *config, char **name, bool *filled,
                              char **wrong) {
    const char *key = config->label_column;
    char quoted[CST_QUOTE_CHARS];
    cst_sheet sheet;
    int32_t first = -1;
    int32_t last = -1;
    char *text = NULL;
    CST_SCOPE(own);
    if (cst_path_column(path) || cst_path_member(path))
        return CST_OK;
    CST_TRY(cst_sheet_look(context, own, &sheet, path, config->zip_limit));
    if (sheet.names && key)
        first = last = cst_sheet_find(&sheet, key);
    for (int32_t j = 0; sheet.names && !key && j < sheet.columns; j++)
        if (sheet.of[j].hint == CST_COLUMN_TRUTH) {
            first = first < 0 ? j : first;
            last = j;
        }
    bool there = last >= 0 && first == last && sheet.columns > 1;
    bool bad = first != last || (key && sheet.columns > 0 && !there);
    *filled = there && has_label(&sheet, last);
    if (there && !(*name = cst_take_text(context, scope, cst_sheet_name(&sheet, last))))
        return CST_ERROR_MEMORY;
    if (*wrong || (!bad && !(key && there && !*filled)))
        return CST_OK;
    text = first != last ? two_columns(context, scope, path, &sheet, first, last)
           : last < 0
               ? no_column(context, scope, path, &sheet, key, ", which --label-column names")
               : cst_take_format(context, scope,
                                 "%s: column '%s', which --label-column names, has no labels", path,
                                 cst_quote(quoted, key));
    *wrong = text;
    return text ? CST_OK : CST_ERROR_MEMORY;
}

/* The labels of a split that nothing else names: a column in the tables of its members. */
static cst_status adopt_labels_of(cst_context *context, cst_scope *scope, cst_manifest *manifest,
                                  int32_t s, const cst_pool_config *config, char **said,
                                  char **wrong) {
    cst_manifest_split *split = &manifest->splits[s];
    char *name = NULL;
    for (int32_t k = 0; !name && k < manifest->member_count; k++) {
        const char *path = manifest->members[k].paths[s];
        struct stat info;
        bool filled = false;
        if (!path || stat(path, &info) != 0) /* said when it is read */
            continue;
        CST_TRY(find_labels(context, scope, path, config, &name, &filled, wrong));
        if (!name || !filled)
            continue;
        split->labels = cst_take_format(context, &manifest->scope, "%s#%s", path, name);
        if (!*said)
            *said = cst_take_format(context, scope, "%s: labels from '%s'", path, name);
        if (!split->labels || !*said)
            return CST_ERROR_MEMORY;
    }
    if (name && !manifest->own_labels &&
        !(manifest->own_labels = cst_take_text(context, &manifest->scope, name)))
        return CST_ERROR_MEMORY;
    return CST_OK;
}

cst_status cst_adopt_labels(cst_context *context, cst_scope *scope, cst_manifest *manifest,
                            const cst_pool_config *config, char **said) {
    static const cst_pool_config none = {0};
    char quoted[CST_QUOTE_CHARS];
    char *wrong = NULL;
    config = config ? config : &none;
    cst_task task = config->task_given ? config->task : CST_TASK_CLASSIFICATION;
    const char *key = config->label_column;
    bool needless = config->unlabelled == 2;
    bool found = needless;
    if (task != CST_TASK_CLASSIFICATION && !cst_task_has_outputs(task))
        return CST_OK;
    for (int32_t s = 0; s < manifest->split_count; s++) {
        if (!manifest->splits[s].labels && !needless)
            CST_TRY(adopt_labels_of(context, scope, manifest, s, config, said, &wrong));
        found = found || manifest->splits[s].labels;
    }
    if (needless && key) {
        manifest->own_labels = cst_take_text(context, &manifest->scope, key);
        if (!manifest->own_labels)
            return CST_ERROR_MEMORY;
    }
    if (wrong && !found)
        return fail(context, wrong);
    return !key || found ? CST_OK
                         : cst_fail(context, CST_ERROR_INPUT,
                                    "--label-column %s: no file is a csv with such a column; give "
                                    "the file of the labels with --labels",
                                    cst_quote(quoted, key));
}
