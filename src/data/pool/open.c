/*
 * Opening a pool: a manifest, a folder by naming convention, or a list of files (arrays in memory:
 * memory.c). The first call of every program. docs/method.md#s0-rows-folds-ids.
 */
#define _XOPEN_SOURCE 700
#include "core/retry.h"
#include "data/files/bytes.h"
#include "data/files/foreign.h"
#include "data/pool/columns.h"
#include "data/pool/marks.h"
#include "data/pool/wide.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* What a file of a folder is for, from its name. */
typedef enum file_role {
    ROLE_MEMBER,
    ROLE_LABELS,
    ROLE_IDS,
    ROLE_FOLDS,
    ROLE_GROUPS,
    ROLE_WEIGHTS,
    ROLE_DOMAINS
} file_role;

typedef struct file_name {
    char stem[256];    /* without folder, extension and mark */
    const char *split; /* "oof", "test", or NULL where the name is not marked */
    bool loose;        /* sub_NAME, pred_NAME and the like */
    file_role role;
} file_name;

static bool ends_with(const char *text, size_t length, const char *tail) {
    size_t bytes = strlen(tail);
    return length > bytes && memcmp(text + length - bytes, tail, bytes) == 0;
}

static file_role role_of(const char *stem) {
    static const struct {
        const char *name;
        file_role role;
    } roles[] = {{"labels", ROLE_LABELS},
                 {"label", ROLE_LABELS},
                 {"y", ROLE_LABELS},
                 {"targets", ROLE_LABELS},
                 {"target", ROLE_LABELS},
                 {"ids", ROLE_IDS},
                 {"id", ROLE_IDS},
                 {"folds", ROLE_FOLDS},
                 {"fold", ROLE_FOLDS},
                 {"groups", ROLE_GROUPS},
                 {"group", ROLE_GROUPS},
                 {"weights", ROLE_WEIGHTS},
                 {"weight", ROLE_WEIGHTS},
                 {"sample_weight", ROLE_WEIGHTS},
                 {"sample_weights", ROLE_WEIGHTS},
                 {"domains", ROLE_DOMAINS},
                 {"domain", ROLE_DOMAINS}};
    for (size_t i = 0; i < sizeof roles / sizeof roles[0]; i++)
        if (strcmp(stem, roles[i].name) == 0)
            return roles[i].role;
    return ROLE_MEMBER;
}

/* Understands a path; false where its extension is not one of prediction files. */
static bool understand(const char *path, file_name *out) {
    static const char *const extensions[] = {
        ".npy", ".npz", ".csv", ".tsv", ".safetensors", ".csv.gz", ".tsv.gz", ".npy.gz", ".txt.gz"};
    size_t member = cst_path_member(path);
    const char *base = member ? path + member + 1 : path;
    const char *slash = strrchr(base, '/');
    base = slash ? slash + 1 : base;
    size_t length = strlen(base);
    bool known = member > 0;
    for (size_t e = 0; e < sizeof extensions / sizeof *extensions; e++)
        if (ends_with(base, length, extensions[e])) {
            length -= strlen(extensions[e]);
            known = true;
            break;
        }
    if (length >= sizeof out->stem)
        length = sizeof out->stem - 1;
    memcpy(out->stem, base, length);
    out->stem[length] = '\0';
    out->split = cst_take_mark(out->stem);
    out->role = role_of(out->stem);
    char rest[sizeof out->stem];
    memcpy(rest, out->stem, sizeof rest);
    out->loose = !out->split && out->role == ROLE_MEMBER && cst_take_loose_mark(rest);
    if (out->loose) {
        const char *split = cst_take_mark(rest); /* lgb_oof_preds */
        out->loose = split == NULL && role_of(rest) == ROLE_MEMBER;
        out->split = split;
        if (split || out->loose)
            memcpy(out->stem, rest, sizeof rest);
    }
    return known;
}

/* ---- opening ---- */

/* Training counts that are in a file, and whether there is one for each class. */
static cst_status read_training_counts(cst_context *context, cst_pool *pool) {
    static const char *const names[] = {"count", "counts", "training_count", "samples", NULL};
    cst_manifest *m = pool->manifest;
    cst_column column = {0};
    cst_status status = CST_OK;
    if (m->training_counts_file) {
        status = cst_manifest_confine(context, m, m->training_counts_file);
        CST_THEN(cst_column_read(context, &column, m->training_counts_file, names,
                                 &(cst_row_claim){pool->classes, m->path}, pool->zip_limit));
        for (int64_t c = 0; status == CST_OK && c < column.count; c++)
            if (!column.numbers || column.numbers[c] < 0)
                status =
                    cst_fail(context, CST_ERROR_INPUT,
                             "%s: training counts must be whole numbers, 0 or more, one per class",
                             m->training_counts_file);
        if (status == CST_OK) {
            m->training_counts = column.numbers;
            m->training_count_classes = (int32_t)column.count;
            column.numbers = NULL;
        }
        cst_column_clear(context, &column);
    }
    if (status == CST_OK && m->training_counts && m->training_count_classes != pool->classes)
        status = cst_fail(context, CST_ERROR_MISMATCH,
                          "%s: training_counts has %d numbers, but there are %d classes", m->path,
                          m->training_count_classes, pool->classes);
    return status;
}

/* The caller's names of the classes, or of the outputs of a regression. */
static cst_status put_class_names(cst_context *context, cst_manifest *manifest,
                                  const cst_pool_config *config) {
    if (!config || !config->class_names)
        return CST_OK;
    cst_task task = config->task_given ? config->task : manifest->task;
    manifest->task = task; /* names of outputs are those of a regression */
    bool values = task == CST_TASK_REGRESSION;
    char **names = values ? manifest->output_names : manifest->class_names;
    int32_t known = values ? manifest->outputs : manifest->classes;
    int32_t count = 0;
    if (task == CST_TASK_DETECTION)
        return cst_fail(context, CST_ERROR_UNSUPPORTED,
                        "%s: class names are not supported for detection: the annotations name the "
                        "categories",
                        manifest->path);
    if (names)
        return cst_fail(context, CST_ERROR_ARGUMENT,
                        "%s: the manifest names the classes; change them there", manifest->path);
    while (config->class_names[count])
        count++;
    if (count < (values ? 1 : 2) || (known > 0 && known != count) ||
        (config->classes > 0 && config->classes != count))
        return cst_fail(context, CST_ERROR_INPUT, "%s: %d class names were given, but %s%d",
                        manifest->path, (int)count,
                        known > 0 || config->classes > 0 ? "the number of classes is "
                                                         : "there must be at least ",
                        known > 0             ? (int)known
                        : config->classes > 0 ? (int)config->classes
                                              : 2);
    names = cst_alloc(context, (size_t)count, sizeof *names);
    if (!names)
        return CST_ERROR_MEMORY;
    *(values ? &manifest->output_names : &manifest->class_names) = names;
    *(values ? &manifest->outputs : &manifest->classes) = count;
    for (int32_t c = 0; c < count; c++) {
        char quoted[CST_QUOTE_CHARS];
        if (!cst_manifest_is_name(config->class_names[c]))
            return cst_fail(context, CST_ERROR_INPUT, "%s: the class name '%s' %s", manifest->path,
                            cst_quote(quoted, config->class_names[c]),
                            cst_manifest_name_fault(config->class_names[c]));
        for (int32_t d = 0; d < c; d++)
            if (strcmp(config->class_names[c], config->class_names[d]) == 0)
                return cst_fail(context, CST_ERROR_INPUT,
                                "%s: the class name '%s' is given twice; names must be unique",
                                manifest->path, cst_quote(quoted, config->class_names[c]));
        names[c] = cst_strdup(context, config->class_names[c]);
        if (!names[c])
            return CST_ERROR_MEMORY;
    }
    return CST_OK;
}

/* The pool of a description, which is taken also on failure, and so is what is said of it (or
 * NULL). status: of what was done before. */
static cst_status finish(cst_context *context, cst_pool **out, cst_manifest *manifest,
                         const cst_pool_config *config, cst_status status, char *said) {
    cst_pool *pool = NULL;
    CST_THEN(put_class_names(context, manifest, config));
    if (status != CST_OK) {
        cst_free(context, said);
        cst_manifest_free(context, manifest);
        return status;
    }
    status = cst_pool_create(context, &pool, manifest, config);
    CST_THEN(cst_pool_find_columns(context, pool));
    CST_THEN(read_training_counts(context, pool));
    if (status == CST_OK && said && !pool->said) {
        pool->said = said;
        said = NULL;
    }
    cst_free(context, said);
    if (status != CST_OK) {
        cst_pool_free(context, pool);
        return status;
    }
    *out = pool;
    return CST_OK;
}

/* Whether a column has a label in the first rows, where test rows have none. */
static bool has_label(const cst_sheet *sheet, int32_t column) {
    for (int64_t row = 0; row < sheet->rows; row++) {
        const char *cell = cst_strings_at(sheet->cells, row * sheet->columns + column);
        bool nan = cst_csv_is_number(cell) && isnan(cst_strtod(cell, NULL));
        if (!cst_csv_is_missing(cell) && !nan && strcmp(cell, "-1") != 0)
            return true;
    }
    return false;
}

/* The column of labels in the table at `path`: the one that the caller names, else the only one of
 * that kind; its name goes to *name, the caller's. *filled: it has labels. *wrong: why there are
 * none. */
static cst_status find_label_column(cst_context *context, const char *path,
                                    const cst_pool_config *config, char **name, bool *filled,
                                    char **wrong) {
    uint64_t limit = config ? config->zip_limit : 0;
    const char *key = config ? config->label_column : NULL;
    char list[CST_LISTED_CHARS];
    char quoted[CST_QUOTE_CHARS];
    cst_sheet sheet = {0};
    bool text = false;
    bool several = false;
    int32_t found = -1;
    int32_t other = -1;
    if (cst_path_column(path) || cst_path_member(path))
        return CST_OK;
    cst_status status = cst_is_text_file(context, path, limit, &text);
    if (status == CST_OK && text)
        status = cst_sheet_look(context, &sheet, path, limit);
    if (status == CST_OK && sheet.names && key)
        found = cst_sheet_find(&sheet, key);
    for (int32_t j = 0; status == CST_OK && sheet.names && !key && j < sheet.columns; j++) {
        if (sheet.hints[j] != CST_COLUMN_TRUTH)
            continue;
        several = found >= 0;
        other = several ? other : j;
        found = j;
    }
    bool there = status == CST_OK && found >= 0 && !several && sheet.columns > 1;
    *filled = there && has_label(&sheet, found);
    if (there) {
        *name = cst_strdup(context, cst_strings_at(sheet.names, found));
        status = *name ? CST_OK : CST_ERROR_MEMORY;
    }
    if (status == CST_OK && several && !*wrong)
        *wrong = cst_format(context,
                            "%s: line 1: columns '%s' and '%s' may both hold the labels; choose "
                            "with --label-column NAME",
                            path, cst_strings_at(sheet.names, other),
                            cst_strings_at(sheet.names, found));
    else if (status == CST_OK && text && key && found < 0 && !*wrong)
        *wrong = cst_format(
            context, "%s: line 1: there is no column '%s', which --label-column names; it has %s",
            path, cst_quote(quoted, key), cst_sheet_list(&sheet, list));
    else if (status == CST_OK && found >= 0 && key && !*filled && !*wrong)
        *wrong = cst_format(context, "%s: column '%s', which --label-column names, has no labels",
                            path, cst_quote(quoted, key));
    bool bad = several || (key && text && (found < 0 || !*filled));
    if (status == CST_OK && bad && !*wrong)
        status = CST_ERROR_MEMORY;
    cst_sheet_clear(context, &sheet);
    return status;
}

/* The labels of a split that nothing else names: a column in the tables of its members. */
static cst_status adopt_labels_of(cst_context *context, cst_manifest *manifest, int32_t s,
                                  const cst_pool_config *config, char **said, char **wrong) {
    cst_manifest_split *split = &manifest->splits[s];
    char *name = NULL;
    bool filled = false;
    cst_status status = CST_OK;
    for (int32_t k = 0; status == CST_OK && !name && k < manifest->member_count; k++) {
        const char *path = manifest->members[k].paths[s];
        struct stat info;
        if (!path || stat(path, &info) != 0) /* said when it is read */
            continue;
        status = find_label_column(context, path, config, &name, &filled, wrong);
        if (status == CST_OK && name && filled) {
            split->labels = cst_format(context, "%s#%s", path, name);
            *said = *said ? *said : cst_format(context, "%s: labels from '%s'", path, name);
            status = split->labels && *said ? CST_OK : CST_ERROR_MEMORY;
        }
    }
    if (name && !manifest->own_labels)
        manifest->own_labels = name;
    else
        cst_free(context, name);
    return status;
}

static cst_status adopt_labels(cst_context *context, cst_manifest *manifest,
                               const cst_pool_config *config, char **said) {
    cst_task task = config && config->task_given ? config->task : CST_TASK_CLASSIFICATION;
    const char *key = config ? config->label_column : NULL;
    bool needless = config && config->unlabelled == 2;
    bool found = needless;
    char *wrong = NULL;
    cst_status status = CST_OK;
    if (task != CST_TASK_CLASSIFICATION && task != CST_TASK_REGRESSION)
        return CST_OK;
    for (int32_t s = 0; status == CST_OK && s < manifest->split_count; s++) {
        if (!manifest->splits[s].labels && !needless)
            status = adopt_labels_of(context, manifest, s, config, said, &wrong);
        found = found || manifest->splits[s].labels;
    }
    if (status == CST_OK && needless && key) {
        manifest->own_labels = cst_strdup(context, key);
        status = manifest->own_labels ? CST_OK : CST_ERROR_MEMORY;
    }
    char quoted[CST_QUOTE_CHARS];
    if (status == CST_OK && (key || wrong) && !found)
        status = wrong ? cst_fail(context, CST_ERROR_INPUT, "%s", wrong)
                       : cst_fail(context, CST_ERROR_INPUT,
                                  "--label-column %s: no file is a csv with such a column; give "
                                  "the file of the labels with --labels",
                                  cst_quote(quoted, key));
    cst_free(context, wrong);
    return status;
}

/* Puts a copy of `path` into an empty place. */
static cst_status put_path(cst_context *context, char **place, const char *path) {
    if (*place)
        return cst_fail(context, CST_ERROR_INPUT,
                        "%s and %s hold the same thing; keep one of them, or write a manifest",
                        *place, path);
    *place = cst_strdup(context, path);
    return *place ? CST_OK : CST_ERROR_MEMORY;
}

/* What the caller named explicitly, instead of what was found. */
static cst_status put_config(cst_context *context, cst_manifest *manifest,
                             const cst_pool_config *config) {
    if (!config)
        return CST_OK;
    cst_manifest_split *split = &manifest->splits[0];
    const char *const given[] = {config->labels, config->ids,     config->folds,
                                 config->groups, config->weights, config->domains};
    char **const places[] = {&split->labels, &split->ids,     &split->folds,
                             &split->groups, &split->weights, &split->domains};
    cst_status status = CST_OK;
    for (size_t i = 0; i < sizeof given / sizeof given[0] && status == CST_OK; i++)
        if (given[i]) {
            cst_free(context, *places[i]);
            *places[i] = NULL;
            status = put_path(context, places[i], given[i]);
            CST_THEN(cst_manifest_allow(context, manifest, given[i]));
        }
    return status;
}

/* The member that a file is named after: added, or found where it is there already. */
static cst_status add_member(cst_context *context, cst_manifest *manifest, const char *path,
                             const char *name, int32_t *member) {
    if (cst_manifest_is_name(name))
        return cst_manifest_add_member(context, manifest, name, member);
    return cst_fail(
        context, CST_ERROR_INPUT,
        "%s: members are named after their files, and this name %s; or write a manifest", path,
        cst_manifest_name_fault(name));
}

/* A list of JSON is no manifest but may be meant for predictions. */
static cst_status refuse_list(cst_context *context, const char *path) {
    cst_bytes *source = NULL;
    unsigned char begin[64];
    size_t i = 0;
    cst_status status = cst_bytes_open(context, &source, path, 0);
    if (status != CST_OK)
        return status;
    size_t bytes =
        cst_bytes_size(source) < sizeof begin ? (size_t)cst_bytes_size(source) : sizeof begin;
    status = cst_bytes_read(context, source, 0, begin, bytes);
    cst_bytes_close(context, source);
    while (status == CST_OK && i < bytes && strchr(" \t\r\n", begin[i]))
        i++;
    if (status == CST_OK && i < bytes && begin[i] == '[')
        status =
            cst_fail(context, CST_ERROR_FORMAT,
                     "%s: is a list of JSON, not a manifest, and predictions are not read from "
                     "JSON: write csv or npy. Formats that can be read: " CST_FORMATS,
                     path);
    return status;
}

static cst_status open_manifest(cst_context *context, cst_pool **out, const char *path,
                                const cst_pool_config *config) {
    cst_manifest *manifest = NULL;
    cst_status listed = refuse_list(context, path);
    if (listed != CST_OK)
        return listed;
    if (config && (config->labels || config->ids || config->folds || config->groups ||
                   config->weights || config->domains))
        return cst_fail(
            context, CST_ERROR_ARGUMENT,
            "%s: labels, ids, folds, groups, weights and domains are given in the manifest; "
            "change them there",
            path);
    cst_status status = cst_manifest_read_as(context, &manifest, path, config && config->outside,
                                             config && config->task_given ? &config->task : NULL);
    return status == CST_OK ? finish(context, out, manifest, config, status, NULL) : status;
}

/* ---- a folder ---- */

static int compare_names(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Whether a file of this name in a folder is one of a pool. */
static bool is_taken(const char *entry, file_name *out) {
    return entry[0] != '.' && understand(entry, out);
}

/* Paths of the prediction files of a folder, sorted. */
static cst_status list_folder(cst_context *context, const char *path, char ***out, size_t *count) {
    DIR *folder = cst_open_entries(AT_FDCWD, path, 0);
    *out = NULL;
    *count = 0;
    if (!folder)
        return cst_fail(context, CST_ERROR_IO, "%s: cannot list the folder: %s", path,
                        strerror(errno));
    cst_status status = CST_OK;
    size_t length = strlen(path);
    const char *slash = length > 0 && path[length - 1] == '/' ? "" : "/";
    for (const struct dirent *entry;
         status == CST_OK && (entry = cst_next_entry(folder)) != NULL;) {
        file_name name;
        status = cst_poll_reading(context);
        if (status != CST_OK || !is_taken(entry->d_name, &name))
            continue;
        char **grown = cst_grow_list(context, *out, *count, sizeof *grown);
        status = grown ? CST_OK : CST_ERROR_MEMORY;
        if (!grown)
            break;
        *out = grown;
        grown[*count] = cst_format(context, "%s%s%s", path, slash, entry->d_name);
        status = grown[*count] ? CST_OK : CST_ERROR_MEMORY;
        *count += status == CST_OK;
    }
    if (status == CST_OK && errno != 0)
        status = cst_fail(context, CST_ERROR_IO, "%s: cannot list the folder: %s", path,
                          strerror(errno));
    (void)closedir(folder);
    if (*count > 1)
        qsort(*out, *count, sizeof **out, compare_names);
    return status;
}

static void free_paths(cst_context *context, char **paths, size_t count) {
    for (size_t i = 0; i < count; i++)
        cst_free(context, paths[i]);
    cst_free(context, paths);
}

/* The splits that the names of the members speak of: "oof" first, and alone where none is marked.
 */
static cst_status add_folder_splits(cst_context *context, cst_manifest *manifest, char **paths,
                                    size_t count, bool labels) {
    bool oof = false;
    bool test = false;
    bool loose = false;
    int32_t index = 0;
    for (size_t i = 0; i < count; i++) {
        file_name name;
        (void)understand(paths[i], &name);
        loose = loose || name.loose;
        labels = labels || (name.role == ROLE_LABELS && !name.split);
        if (name.role != ROLE_MEMBER || !name.split)
            continue;
        oof = oof || strcmp(name.split, "oof") == 0;
        test = test || strcmp(name.split, "test") == 0;
    }
    manifest->by_names = true;
    manifest->loose = loose && (oof || test || !labels);
    test = test || manifest->loose;
    manifest->marked = oof || test;
    cst_status status = CST_OK;
    if (oof || !test)
        status = cst_manifest_add_split(context, manifest, "oof", &index);
    if (status == CST_OK && test)
        status = cst_manifest_add_split(context, manifest, "test", &index);
    return status;
}

/* Puts one file of a folder where its name says. */
static cst_status place_file(cst_context *context, cst_manifest *manifest, const char *path) {
    file_name name;
    (void)understand(path, &name);
    if (name.loose && manifest->loose)
        name.split = "test";
    int32_t split = name.split ? cst_manifest_find_split(manifest, name.split) : 0;
    if (split < 0 || (name.role == ROLE_MEMBER && manifest->marked && !name.split)) {
        cst_notice(context, "%s is not used: its name does not say which split it belongs to",
                   path);
        return CST_OK;
    }
    cst_manifest_split *s = &manifest->splits[split];
    switch (name.role) {
    case ROLE_LABELS:
        return put_path(context, &s->labels, path);
    case ROLE_IDS:
        return put_path(context, &s->ids, path);
    case ROLE_FOLDS:
        return put_path(context, &s->folds, path);
    case ROLE_GROUPS:
        return put_path(context, &s->groups, path);
    case ROLE_WEIGHTS:
        return put_path(context, &s->weights, path);
    case ROLE_DOMAINS:
        return put_path(context, &s->domains, path);
    case ROLE_MEMBER:
        break;
    }
    int32_t member = cst_manifest_find_member(manifest, name.stem);
    if (name.loose && manifest->loose &&
        (member < 0 ? split > 0 : manifest->members[member].paths[split] != NULL)) {
        cst_notice(context,
                   member < 0 ? "%s is not used: there are no out-of-fold predictions of '%s'"
                              : "%s is not used: there are other test predictions of '%s'",
                   path, name.stem);
        return CST_OK;
    }
    cst_status status = add_member(context, manifest, path, name.stem, &member);
    return status == CST_OK ? put_path(context, &manifest->members[member].paths[split], path)
                            : status;
}

/* Files whose names leave less doubt come first. */
static cst_status place_files(cst_context *context, cst_manifest *manifest, char **paths,
                              size_t count) {
    cst_status status = CST_OK;
    for (int loose = 0; loose < 2; loose++)
        for (size_t i = 0; status == CST_OK && i < count; i++) {
            file_name name;
            (void)understand(paths[i], &name);
            if (name.loose == (loose > 0))
                status = place_file(context, manifest, paths[i]);
        }
    return status;
}

static cst_status open_folder(cst_context *context, cst_pool **out, const char *path,
                              const cst_pool_config *config) {
    char **paths = NULL;
    size_t count = 0;
    char *said = NULL;
    cst_manifest *manifest = NULL;
    cst_status status = list_folder(context, path, &paths, &count);
    CST_THEN(cst_manifest_create(context, &manifest, path));
    if (status == CST_OK && !(config && config->outside))
        status = cst_manifest_stay_in(context, manifest, path);
    for (size_t i = 0; status == CST_OK && i < count; i++) {
        status = cst_poll_reading(context);
        CST_THEN(cst_manifest_confine(context, manifest, paths[i]));
    }
    CST_THEN(add_folder_splits(context, manifest, paths, count, config && config->labels));
    CST_THEN(place_files(context, manifest, paths, count));
    if (status == CST_OK && manifest->member_count == 0)
        status =
            cst_fail(context, CST_ERROR_INPUT,
                     "%s: the folder has no pool.json and no prediction files (oof_NAME.npy or "
                     "NAME.oof.npy)",
                     path);
    CST_THEN(put_config(context, manifest, config));
    free_paths(context, paths, count);
    CST_THEN(adopt_labels(context, manifest, config, &said));
    return finish(context, out, manifest, config, status, said);
}

int cst_pool_takes_name(const cst_pool *pool, const char *name) {
    const cst_manifest *manifest = pool ? pool->manifest : NULL;
    file_name parts;
    if (!manifest || !name || !manifest->by_names || !is_taken(name, &parts))
        return 0;
    if (parts.role == ROLE_MEMBER && parts.loose && manifest->loose)
        return cst_manifest_find_member(manifest, parts.stem) >= 0 || manifest->split_count == 1;
    if (parts.role == ROLE_MEMBER)
        return !manifest->marked || parts.split; /* which brings its split */
    return !parts.split || cst_manifest_find_split(manifest, parts.split) >= 0;
}

/* The pool.json of a folder that was named: it may not lead out of that folder, and is not read
 * where it does, since messages say what is in it. */
static cst_status open_found_manifest(cst_context *context, cst_pool **out, const char *path,
                                      const char *folder, const cst_pool_config *config) {
    cst_manifest *bounds = NULL;
    cst_status status = CST_OK;
    if (!(config && config->outside)) {
        status = cst_manifest_create(context, &bounds, folder);
        CST_THEN(cst_manifest_stay_in(context, bounds, folder));
        CST_THEN(cst_manifest_confine(context, bounds, path));
        cst_manifest_free(context, bounds);
    }
    return status == CST_OK ? open_manifest(context, out, path, config) : status;
}

/* Whether the choices in `config` are such. */
static cst_status check_config(cst_context *context, const cst_pool_config *config) {
    if (!config)
        return CST_OK;
    if (config->classes > INT32_MAX)
        return cst_fail_count(context, "cst_pool_open", "classes", config->classes);
    if (config->task_given && !cst_task_name(config->task))
        return cst_fail(context, CST_ERROR_ARGUMENT, "%d is not a valid task of a pool",
                        (int)config->task);
    if (config->output_given && config->output != CST_OUTPUT_PROBABILITY &&
        config->output != CST_OUTPUT_LOGIT)
        return cst_fail(context, CST_ERROR_ARGUMENT,
                        "%d is not a valid output of members: use 0 (probabilities) or 1 (logits)",
                        (int)config->output);
    if (config->layout < CST_LAYOUT_AUTO || config->layout > CST_LAYOUT_CHANNELS_FIRST)
        return cst_fail(context, CST_ERROR_ARGUMENT,
                        "%d is not a valid layout of maps: use 0 (automatic), 1 (classes last) or "
                        "2 (classes first)",
                        (int)config->layout);
    return CST_OK;
}

cst_status cst_pool_open(cst_context *context, cst_pool **out, const char *path,
                         const cst_pool_config *config_given) {
    if (out)
        *out = NULL;
    CST_ENTER(context);
    CST_STRUCT(context, cst_pool_config, config, config_given);
    if (!out || !path)
        return cst_fail(context, CST_ERROR_ARGUMENT, "cst_pool_open: path and pool are required");
    cst_status status = check_config(context, config);
    if (status != CST_OK)
        return status;
    struct stat info;
    if (stat(path, &info) != 0)
        return cst_fail(context, CST_ERROR_IO, "%s: cannot open the file: %s", path,
                        strerror(errno));
    if (!S_ISDIR(info.st_mode)) {
        file_name name;
        if (cst_path_is_text(path))
            return cst_pool_open_files(context, out, &path, 1, config);
        if (understand(path, &name))
            return cst_fail(context, CST_ERROR_ARGUMENT,
                            "%s: is a prediction file; a pool is a manifest or a folder (or give "
                            "labels and a list of files)",
                            path);
        return cst_why(context, open_manifest(context, out, path, config));
    }
    char *manifest = cst_format(context, "%s/pool.json", path);
    if (!manifest)
        return cst_why(context, CST_ERROR_MEMORY);
    if (lstat(manifest, &info) == 0) /* a link that leads nowhere is a manifest as well */
        status = open_found_manifest(context, out, manifest, path, config);
    else if (errno == ENOENT)
        status = open_folder(context, out, path, config);
    else
        status = cst_fail(context, CST_ERROR_IO, "%s: cannot open the file: %s", manifest,
                          strerror(errno));
    cst_free(context, manifest);
    return cst_why(context, status);
}

/* ---- a list of files ---- */

static cst_status add_file(cst_context *context, cst_manifest *manifest, const char *path) {
    file_name name;
    int32_t member = -1;
    (void)understand(path, &name);
    int32_t before = cst_manifest_find_member(manifest, name.stem);
    if (before >= 0)
        return cst_fail(context, CST_ERROR_INPUT,
                        "%s and %s would both be member '%s'; rename one, or write a manifest",
                        manifest->members[before].paths[0], path, name.stem);
    cst_status status = add_member(context, manifest, path, name.stem, &member);
    return status == CST_OK ? put_path(context, &manifest->members[member].paths[0], path) : status;
}

cst_status cst_pool_open_files(cst_context *context, cst_pool **out, const char *const *paths,
                               int64_t count_given, const cst_pool_config *config_given) {
    if (out)
        *out = NULL;
    CST_ENTER(context);
    CST_STRUCT(context, cst_pool_config, config, config_given);
    CST_COUNT(context, count, count_given);
    if (!out || !paths || count == 0)
        return cst_fail(
            context, CST_ERROR_ARGUMENT,
            "cst_pool_open_files: at least one prediction file, and the pool, are required");
    cst_manifest *manifest = NULL;
    int32_t split = 0;
    bool wide = false;
    char *said = NULL;
    cst_status status = check_config(context, config);
    CST_THEN(cst_manifest_create(context, &manifest, "the list of files"));
    CST_THEN(cst_manifest_add_split(context, manifest, "oof", &split));
    for (int32_t i = 0; status == CST_OK && i < count; i++)
        if (!paths[i])
            status = cst_fail(context, CST_ERROR_ARGUMENT, "cst_pool_open_files: path %d is NULL",
                              (int)i);
    CST_THEN(put_config(context, manifest, config));
    if (status == CST_OK && count == 1)
        status = cst_wide_describe(context, manifest, paths[0], config, &wide, &said);
    for (int32_t i = 0; status == CST_OK && !wide && i < count; i++)
        status = add_file(context, manifest, paths[i]);
    if (status == CST_OK && !wide && !said)
        status = adopt_labels(context, manifest, config, &said);
    status = finish(context, out, manifest, config, status, said);
    if (status == CST_OK)
        (*out)->wide = wide;
    return cst_why(context, status);
}
