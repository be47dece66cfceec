/* Opening a pool: a manifest, a folder by naming convention, or a list of files (arrays in memory:
 * memory.c). The first call of every program. docs/method.md#s0-rows-folds-ids. */
#define _XOPEN_SOURCE 700
#include "core/retry.h"
#include "data/files/bytes.h"
#include "data/pool/topk.h"

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

/* The same for names that need not speak of a split ("sub_lgb", "lgb_preds"): predictions of test
 * rows, if there are out-of-fold ones. sample_submission is none. */
static bool take_loose_mark(char *stem) {
    static const char *const marks[] = {"submission", "sub", "predictions", "preds", "pred"};
    for (size_t m = 0; m < sizeof marks / sizeof *marks; m++)
        if (strncmp(stem, "sample", 6) != 0 && cst_take_one_mark(stem, marks[m]))
            return true;
    return false;
}

static file_role role_of(const char *stem) {
    static const struct {
        const char *names;
        file_role role;
    } roles[] = {{"labels label y targets target", ROLE_LABELS},
                 {"ids id", ROLE_IDS},
                 {"folds fold", ROLE_FOLDS},
                 {"groups group", ROLE_GROUPS},
                 {"weights weight sample_weight sample_weights", ROLE_WEIGHTS},
                 {"domains domain", ROLE_DOMAINS}};
    for (size_t i = 0; i < sizeof roles / sizeof roles[0]; i++)
        if (cst_word_in(stem, roles[i].names))
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
    length -= ends_with(base, length, ".indices") ? strlen(".indices") : 0; /* of top-k */
    memcpy(out->stem, base, length);
    out->stem[length] = '\0';
    out->split = cst_take_mark(out->stem);
    out->role = role_of(out->stem);
    char rest[sizeof out->stem];
    memcpy(rest, out->stem, sizeof rest);
    out->loose = !out->split && out->role == ROLE_MEMBER && take_loose_mark(rest);
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
    if (m->training_counts_file) {
        const char *path = m->training_counts_file;
        const cst_table_ask ask = {.use = CST_TABLE_COLUMN, .wanted = names};
        const cst_row_claim claim = {pool->classes, m->path};
        cst_row_source source;
        cst_column column;
        CST_SCOPE(scope);
        CST_TRY(cst_pool_source(context, pool, path, &source));
        CST_TRY(cst_column_read(context, scope, &column, &source, &ask, &claim));
        CST_TAKE(context, &m->scope, m->training_counts, column.count);
        m->training_count_classes = (int32_t)column.count;
        for (int64_t c = 0; c < column.count; c++) {
            if (!column.numbers || column.numbers[c] < 0)
                return cst_fail(
                    context, CST_ERROR_INPUT,
                    "%s: training counts must be whole numbers, 0 or more, one per class", path);
            m->training_counts[c] = column.numbers[c];
        }
    }
    if (m->training_counts && m->training_count_classes != pool->classes)
        return cst_fail(context, CST_ERROR_MISMATCH,
                        "%s: training_counts has %d numbers, but there are %d classes", m->path,
                        m->training_count_classes, pool->classes);
    return CST_OK;
}

/* The caller's names of the classes, or of the outputs of a regression. */
static cst_status put_class_names(cst_context *context, cst_manifest *manifest,
                                  const cst_pool_config *config) {
    if (!config || !config->class_names)
        return CST_OK;
    cst_task task = config->task_given ? config->task : manifest->task;
    manifest->task = task; /* names of outputs are those of a regression */
    bool values = cst_task_has_outputs(task);
    bool named = values ? manifest->output_names : manifest->class_names;
    int32_t known = values ? manifest->outputs : manifest->classes;
    int32_t count = 0;
    if (task == CST_TASK_DETECTION)
        return cst_fail(context, CST_ERROR_UNSUPPORTED,
                        "%s: class names are not supported for detection: the annotations name the "
                        "categories",
                        manifest->path);
    if (named)
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
    for (int32_t c = 0; c < count; c++) {
        char quoted[CST_QUOTE_CHARS];
        CST_TRY(cst_pool_check_name(context, manifest->path, config->class_names[c]));
        for (int32_t d = 0; d < c; d++)
            if (strcmp(config->class_names[c], config->class_names[d]) == 0)
                return cst_fail(context, CST_ERROR_INPUT,
                                "%s: the class name '%s' is given twice; names must be unique",
                                manifest->path, cst_quote(quoted, config->class_names[c]));
    }
    return cst_pool_name_classes(context, manifest, values, config->class_names, count);
}

/* The pool of a description, which is taken also on failure; said: what is to be said of it, or
 * NULL. status: of what was done before. */
static cst_status finish(cst_context *context, cst_pool **out, cst_manifest *manifest,
                         const cst_pool_config *config, cst_status status, const char *said) {
    cst_pool *pool = NULL;
    CST_THEN(put_class_names(context, manifest, config));
    if (status != CST_OK) {
        cst_manifest_free(context, manifest);
        return status;
    }
    CST_TRY(cst_pool_create(context, &pool, manifest, config));
    status = cst_pool_find_columns(context, pool);
    CST_THEN(read_training_counts(context, pool));
    if (status == CST_OK && said && !pool->said &&
        !(pool->said = cst_take_text(context, &pool->scope, said)))
        status = CST_ERROR_MEMORY;
    if (status == CST_OK)
        *out = pool;
    else
        cst_pool_free(context, pool);
    return status;
}

/* Puts a copy of `path` into an empty place. */
static cst_status put_path(cst_context *context, cst_manifest *manifest, char **place,
                           const char *path) {
    if (*place)
        return cst_fail(context, CST_ERROR_INPUT,
                        "%s and %s hold the same thing; keep one of them, or write a manifest",
                        *place, path);
    *place = cst_take_text(context, &manifest->scope, path);
    return *place ? CST_OK : CST_ERROR_MEMORY;
}

/* What the caller named explicitly, instead of what was found. */
static cst_status put_config(cst_context *context, cst_manifest *manifest,
                             const cst_pool_config *config) {
    if (!config)
        return CST_OK;
    cst_manifest_split *split = &manifest->splits[0];
    const char *const given[] = {config->labels,  config->ids,     config->folds, config->groups,
                                 config->weights, config->domains, config->order};
    char **const places[] = {&split->labels,  &split->ids,     &split->folds, &split->groups,
                             &split->weights, &split->domains, &split->order};
    for (size_t i = 0; i < sizeof given / sizeof given[0]; i++)
        if (given[i]) {
            *places[i] = NULL;
            CST_TRY(put_path(context, manifest, places[i], given[i]));
            CST_TRY(cst_manifest_allow(context, manifest, given[i]));
        }
    return CST_OK;
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
    CST_TRY(cst_bytes_open(context, &source, path, 0));
    size_t bytes =
        cst_bytes_size(source) < sizeof begin ? (size_t)cst_bytes_size(source) : sizeof begin;
    cst_status status = cst_bytes_read(context, source, 0, begin, bytes);
    cst_bytes_close(context, source);
    CST_TRY(status);
    while (i < bytes && strchr(" \t\r\n", begin[i]))
        i++;
    if (i < bytes && begin[i] == '[')
        return cst_fail(context, CST_ERROR_FORMAT,
                        "%s: is a list of JSON, not a manifest, and predictions are not read from "
                        "JSON: write csv or npy. Formats that can be read: " CST_FORMATS,
                        path);
    return CST_OK;
}

static cst_status open_manifest(cst_context *context, cst_pool **out, const char *path,
                                const cst_pool_config *config) {
    cst_manifest *manifest = NULL;
    CST_TRY(refuse_list(context, path));
    if (config && (config->labels || config->ids || config->folds || config->groups ||
                   config->weights || config->domains || config->order))
        return cst_fail(
            context, CST_ERROR_ARGUMENT,
            "%s: labels, ids, folds, groups, weights, domains and order are given in the manifest; "
            "change them there",
            path);
    CST_TRY(cst_manifest_read_as(context, &manifest, path, config && config->outside,
                                 config && config->task_given ? &config->task : NULL));
    return finish(context, out, manifest, config, CST_OK, NULL);
}

/* ---- a folder ---- */

/* Whether a file of this name in a folder is one of a pool. */
static bool is_taken(const char *entry, file_name *out) {
    return entry[0] != '.' && understand(entry, out);
}

typedef struct path_list {
    char **paths;
    size_t count;
} path_list;

static void close_folder(cst_context *context, void *folder) {
    (void)context;
    (void)closedir(folder);
}

static void free_list(cst_context *context, void *list) {
    cst_free(context, ((path_list *)list)->paths);
}

/* Paths of the prediction files of a folder, sorted; of the scope. */
static cst_status list_folder(cst_context *context, cst_scope *scope, const char *path,
                              path_list *list) {
    DIR *folder = cst_open_entries(AT_FDCWD, path, 0);
    size_t length = strlen(path);
    const char *slash = length > 0 && path[length - 1] == '/' ? "" : "/";
    CST_SCOPE(own);
    *list = (path_list){0};
    if (!folder)
        return cst_fail(context, CST_ERROR_IO, "%s: cannot list the folder: %s", path,
                        strerror(errno));
    CST_TRY(cst_scope_own(context, own, close_folder, folder));
    CST_TRY(cst_scope_own(context, scope, free_list, list));
    for (const struct dirent *entry; (entry = cst_next_entry(folder)) != NULL;) {
        file_name name;
        CST_TRY(cst_poll_reading(context));
        if (!is_taken(entry->d_name, &name))
            continue;
        char **grown = cst_grow_list(context, list->paths, list->count, sizeof *grown);
        if (!grown)
            return CST_ERROR_MEMORY;
        list->paths = grown;
        grown[list->count] = cst_take_format(context, scope, "%s%s%s", path, slash, entry->d_name);
        if (!grown[list->count++])
            return CST_ERROR_MEMORY;
        list->count -= cst_topk_is_beside(grown[list->count - 1]);
    }
    if (errno != 0)
        return cst_fail(context, CST_ERROR_IO, "%s: cannot list the folder: %s", path,
                        strerror(errno));
    if (list->count > 1)
        qsort(list->paths, list->count, sizeof *list->paths, cst_by_text);
    return CST_OK;
}

/* The splits that the names of the members speak of: "oof" first, and alone where none is marked.
 */
static cst_status add_folder_splits(cst_context *context, cst_manifest *manifest,
                                    const path_list *list, bool labels) {
    bool oof = false;
    bool test = false;
    bool loose = false;
    int32_t index = 0;
    for (size_t i = 0; i < list->count; i++) {
        file_name name;
        (void)understand(list->paths[i], &name);
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
    if (oof || !test)
        CST_TRY(cst_manifest_add_split(context, manifest, "oof", &index));
    return test ? cst_manifest_add_split(context, manifest, "test", &index) : CST_OK;
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
    char **const places[] = {
        [ROLE_LABELS] = &s->labels, [ROLE_IDS] = &s->ids,         [ROLE_FOLDS] = &s->folds,
        [ROLE_GROUPS] = &s->groups, [ROLE_WEIGHTS] = &s->weights, [ROLE_DOMAINS] = &s->domains};
    if (name.role != ROLE_MEMBER)
        return put_path(context, manifest, places[name.role], path);
    int32_t member = cst_manifest_find_member(manifest, name.stem);
    if (name.loose && manifest->loose &&
        (member < 0 ? split > 0 : manifest->members[member].paths[split] != NULL)) {
        cst_notice(context,
                   member < 0 ? "%s is not used: there are no out-of-fold predictions of '%s'"
                              : "%s is not used: there are other test predictions of '%s'",
                   path, name.stem);
        return CST_OK;
    }
    CST_TRY(add_member(context, manifest, path, name.stem, &member));
    return put_path(context, manifest, &manifest->members[member].paths[split], path);
}

static cst_status describe_folder(cst_context *context, cst_scope *scope, cst_manifest *manifest,
                                  const char *path, const cst_pool_config *config, char **said) {
    CST_NEW(context, scope, path_list, list, 1);
    CST_TRY(list_folder(context, scope, path, list));
    if (!(config && config->outside))
        CST_TRY(cst_manifest_stay_in(context, manifest, path));
    for (size_t i = 0; i < list->count; i++) {
        CST_TRY(cst_poll_reading(context));
        CST_TRY(cst_manifest_confine(context, manifest, list->paths[i]));
    }
    CST_TRY(add_folder_splits(context, manifest, list, config && config->labels));
    for (int loose = 0; loose < 2; loose++) /* names that leave less doubt come first */
        for (size_t i = 0; i < list->count; i++) {
            file_name name;
            (void)understand(list->paths[i], &name);
            if (name.loose == (loose > 0))
                CST_TRY(place_file(context, manifest, list->paths[i]));
        }
    if (manifest->member_count == 0)
        return cst_fail(context, CST_ERROR_INPUT,
                        "%s: the folder has no pool.json and no prediction files (oof_NAME.npy or "
                        "NAME.oof.npy)",
                        path);
    CST_TRY(put_config(context, manifest, config));
    return cst_adopt_labels(context, scope, manifest, config, said);
}

static cst_status open_folder(cst_context *context, cst_pool **out, const char *path,
                              const cst_pool_config *config) {
    char *said = NULL;
    cst_manifest *manifest = NULL;
    CST_SCOPE(scope);
    CST_TRY(cst_manifest_create(context, &manifest, path));
    cst_status status = describe_folder(context, scope, manifest, path, config, &said);
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
    if (!(config && config->outside)) {
        CST_TRY(cst_manifest_create(context, &bounds, folder));
        cst_status status = cst_manifest_stay_in(context, bounds, folder);
        CST_THEN(cst_manifest_confine(context, bounds, path));
        cst_manifest_free(context, bounds);
        CST_TRY(status);
    }
    return open_manifest(context, out, path, config);
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
    CST_NEED(context, out && path, "path and pool are required");
    CST_TRY(check_config(context, config));
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
    cst_status status = CST_OK;
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
    CST_TRY(add_member(context, manifest, path, name.stem, &member));
    return put_path(context, manifest, &manifest->members[member].paths[0], path);
}

static cst_status describe_files(cst_context *context, cst_scope *scope, cst_manifest *manifest,
                                 const char *const *paths, size_t count,
                                 const cst_pool_config *config, bool *wide, char **said) {
    int32_t split = 0;
    CST_TRY(cst_manifest_add_split(context, manifest, "oof", &split));
    for (size_t i = 0; i < count; i++)
        if (!paths[i])
            return cst_fail(context, CST_ERROR_ARGUMENT, "cst_pool_open_files: path %zu is NULL",
                            i);
    CST_TRY(put_config(context, manifest, config));
    if (count == 1)
        CST_TRY(cst_wide_describe(context, scope, manifest, paths[0], config, wide, said));
    if (*wide)
        return CST_OK;
    for (size_t i = 0; i < count; i++)
        if (!cst_topk_is_beside(paths[i]))
            CST_TRY(add_file(context, manifest, paths[i]));
    return *said ? CST_OK : cst_adopt_labels(context, scope, manifest, config, said);
}

static cst_status open_files(cst_context *context, cst_pool **out, const char *const *paths,
                             int32_t count, const cst_pool_config *config) {
    cst_manifest *manifest = NULL;
    bool wide = false;
    char *said = NULL;
    CST_SCOPE(scope);
    CST_TRY(check_config(context, config));
    CST_TRY(cst_manifest_create(context, &manifest, "the list of files"));
    cst_status status =
        describe_files(context, scope, manifest, paths, (size_t)count, config, &wide, &said);
    status = finish(context, out, manifest, config, status, said);
    if (status == CST_OK)
        (*out)->wide = wide;
    return status;
}

cst_status cst_pool_open_files(cst_context *context, cst_pool **out, const char *const *paths,
                               int64_t count_given, const cst_pool_config *config_given) {
    if (out)
        *out = NULL;
    CST_ENTER(context);
    CST_STRUCT(context, cst_pool_config, config, config_given);
    CST_COUNT(context, count, count_given);
    CST_NEED(context, out && paths && count != 0,
             "at least one prediction file, and the pool, are required");
    return cst_why(context, open_files(context, out, paths, count, config));
}
