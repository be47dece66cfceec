/* Keys, texts, numbers, paths and parts of a manifest's objects. */
#include "data/readers/manifest_json.h"

#include "core/utf8.h"
#include "data/files/bytes.h"
#include "data/readers/cases.h"
#include "data/readers/strings.h"

#include <math.h>
#include <string.h>

cst_status cst_manifest_wrong(const cst_manifest_reader *r, const char *place, const char *key,
                              const char *expected) {
    return cst_fail(r->context, CST_ERROR_INPUT, "%s: %s%s%s must be %s", r->path, place,
                    *place ? "." : "", key, expected);
}

enum {
    CLASSES = 1,
    REGRESSES = 2,
    SEGMENTS = 4,
    DETECTS = 8,
    LABELS = 16,
    ROWS = CLASSES | REGRESSES | LABELS,
    ALL = 31
};

/* The keys of each object, and the tasks that have them. */
static const struct {
    cst_manifest_object of;
    unsigned tasks;
    const char *key;
} KEYS[] = {
    {CST_MANIFEST_TOP, ALL, "corestack_pool"},
    {CST_MANIFEST_TOP, ALL, "task"},
    {CST_MANIFEST_TOP, CLASSES | SEGMENTS | DETECTS, "classes"},
    {CST_MANIFEST_TOP, CLASSES | SEGMENTS | LABELS, "output"},
    {CST_MANIFEST_TOP, REGRESSES | LABELS, "outputs"},
    {CST_MANIFEST_TOP, SEGMENTS, "layout"},
    {CST_MANIFEST_TOP, SEGMENTS, "ignore"},
    {CST_MANIFEST_TOP, ALL, "splits"},
    {CST_MANIFEST_TOP, ALL, "models"},
    {CST_MANIFEST_TOP, CLASSES, "training_counts"},
    {CST_MANIFEST_TOP, CLASSES, "reference_errors"},
    {CST_MANIFEST_SPLIT, ROWS | SEGMENTS, "labels"},
    {CST_MANIFEST_SPLIT, REGRESSES | LABELS, "targets"},
    {CST_MANIFEST_SPLIT, DETECTS, "annotations"},
    {CST_MANIFEST_SPLIT, ROWS | SEGMENTS, "ids"},
    {CST_MANIFEST_SPLIT, ROWS | SEGMENTS, "folds"},
    {CST_MANIFEST_SPLIT, ROWS | SEGMENTS, "groups"},
    {CST_MANIFEST_SPLIT, CLASSES, "conditions"},
    {CST_MANIFEST_SPLIT, CLASSES, "ood"},
    {CST_MANIFEST_SPLIT, CLASSES, "clean"},
    {CST_MANIFEST_SPLIT, CLASSES, "domain"},
    {CST_MANIFEST_SPLIT, CLASSES, "domains"},
    {CST_MANIFEST_SPLIT, ROWS, "weights"},
    {CST_MANIFEST_SPLIT, ROWS, "order"},
    {CST_MANIFEST_SPLIT, CLASSES, "bytes"},
    {CST_MANIFEST_CONDITION, ALL, "shift"},
    {CST_MANIFEST_CONDITION, ALL, "kind"},
    {CST_MANIFEST_CONDITION, ALL, "severity"},
    {CST_MANIFEST_MODEL, ALL, "name"},
    {CST_MANIFEST_MODEL, ALL, "family"},
    {CST_MANIFEST_MODEL, ALL, "flops"},
    {CST_MANIFEST_MODEL, ALL, "params"},
    {CST_MANIFEST_MODEL, ALL, "latency_ms"},
    {CST_MANIFEST_MODEL, ALL, "memory_bytes"},
    {CST_MANIFEST_MODEL, ALL, "ensemble"},
    {CST_MANIFEST_MODEL, ALL, "predictions"},
    {CST_MANIFEST_ENSEMBLE, ALL, "kind"},
    {CST_MANIFEST_ENSEMBLE, ALL, "of"},
    {CST_MANIFEST_ENSEMBLE, ALL, "passes"},
    {CST_MANIFEST_FILE, ALL, "path"},
    {CST_MANIFEST_FILE, ALL, "ids"},
};

enum { KEY_COUNT = sizeof KEYS / sizeof *KEYS };

cst_status cst_manifest_check_keys(const cst_manifest_reader *r, const char *place,
                                   const json_t *object, cst_manifest_object kind) {
    if (!json_is_object(object))
        return cst_fail(r->context, CST_ERROR_INPUT, "%s: %s must be an object {...}", r->path,
                        *place ? place : "the manifest");
    for (void *i = json_object_iter((json_t *)object); i;
         i = json_object_iter_next((json_t *)object, i)) {
        const char *key = json_object_iter_key(i);
        char list[320] = "";
        size_t used = 0;
        int k = 0;
        while (k < KEY_COUNT && (KEYS[k].of != kind || strcmp(KEYS[k].key, key) != 0))
            k++;
        if (k < KEY_COUNT)
            continue;
        for (k = 0; k < KEY_COUNT; k++)
            if (KEYS[k].of == kind)
                used += (size_t)cst_snprintf(list + used, sizeof list - used, "%s%s",
                                             used ? ", " : "", KEYS[k].key);
        char quoted[CST_QUOTE_CHARS];
        return cst_fail(r->context, CST_ERROR_INPUT,
                        "%s: unknown key '%s' in %s; the known keys are %s", r->path,
                        cst_quote(quoted, key), *place ? place : "the manifest", list);
    }
    return CST_OK;
}

cst_status cst_manifest_check_task_keys(const cst_manifest_reader *r, const char *place,
                                        const json_t *object, cst_manifest_object kind) {
    unsigned task = 1U << (unsigned)r->manifest->task;
    for (int k = 0; k < KEY_COUNT; k++)
        if (KEYS[k].of == kind && !(KEYS[k].tasks & task) && json_object_get(object, KEYS[k].key))
            return cst_fail(r->context, CST_ERROR_INPUT,
                            "%s: %s%s%s is not supported in pools of task '%s'; remove it", r->path,
                            place, *place ? "." : "", KEYS[k].key,
                            cst_task_name(r->manifest->task));
    return CST_OK;
}

/* Texts go into reports and model files, as names do. */
bool cst_manifest_is_text(const json_t *value) {
    if (!json_is_string(value) || json_string_length(value) == 0)
        return false;
    size_t length = json_string_length(value);
    return cst_utf8_name((const uint8_t *)json_string_value(value), length) == length;
}

cst_status cst_manifest_read_text(const cst_manifest_reader *r, const char *place,
                                  const json_t *object, const char *key, char **out) {
    const json_t *value = json_object_get(object, key);
    *out = NULL;
    if (!value)
        return CST_OK;
    if (!cst_manifest_is_text(value))
        return cst_manifest_wrong(
            r, place, key,
            "a non-empty string without control characters or bidirectional formatting characters");
    *out = cst_take_text(r->context, &r->manifest->scope, json_string_value(value));
    return *out ? CST_OK : CST_ERROR_MEMORY;
}

/* Whether ".." is one of the path's folders. What follows '#' names an array, not a file. */
static bool climbs(const char *path) {
    size_t member = cst_path_member(path);
    const char *end = path + (member ? member : strlen(path));
    for (const char *at = path; at < end; at++) {
        size_t length = strcspn(at, "/");
        if (length == 2 && strncmp(at, "..", 2) == 0)
            return true;
        at += length;
        if (at >= end)
            break;
    }
    return false;
}

static cst_status resolve(const cst_manifest_reader *r, cst_scope *scope, const char *place,
                          const char *key, const json_t *value, char **out) {
    *out = NULL;
    CST_TRY(cst_poll_reading(r->context)); /* what a path leads to takes long to find */
    if (!json_is_string(value) || json_string_length(value) == 0)
        return cst_manifest_wrong(r, place, key, "a file name");
    const char *text = json_string_value(value);
    char quoted[CST_QUOTE_CHARS];
    if (text[0] == '/' && !r->outside)
        return cst_fail(r->context, CST_ERROR_INPUT,
                        "%s: %s.%s refers to a file outside the folder of the manifest: '%s' is an "
                        "absolute path; make it relative, or allow files outside the folder",
                        r->path, place, key, cst_quote(quoted, text));
    if (climbs(text) && !r->outside)
        return cst_fail(r->context, CST_ERROR_INPUT,
                        "%s: %s.%s refers to a file outside the folder of the manifest: '%s' "
                        "contains '..'; use a path inside that folder, or allow files outside it",
                        r->path, place, key, cst_quote(quoted, text));
    bool whole = text[0] == '/';
    *out = cst_take_format(r->context, scope, "%.*s%s", whole ? 0 : (int)r->folder, r->path, text);
    if (!*out)
        return CST_ERROR_MEMORY;
    return cst_manifest_confine(r->context, r->manifest, *out);
}

cst_status cst_manifest_resolve(const cst_manifest_reader *r, const char *place, const char *key,
                                const json_t *value, char **out) {
    return resolve(r, &r->manifest->scope, place, key, value, out);
}

cst_status cst_manifest_read_number(const cst_manifest_reader *r, const char *place,
                                    const json_t *object, const char *key, double *out) {
    const json_t *value = json_object_get(object, key);
    *out = NAN;
    if (!value)
        return CST_OK;
    double number = json_is_number(value) ? json_number_value(value) : -1;
    if (!(number >= 0 && number <= 1e30)) /* so that sums and products with passes stay finite */
        return cst_manifest_wrong(r, place, key, "a non-negative number, at most 1e30");
    *out = number;
    return CST_OK;
}

/* ---- parts: a list of files or a folder ---- */

static bool has_rows(const cst_manifest_reader *r) {
    cst_task task = r->manifest->task;
    return task == CST_TASK_CLASSIFICATION || cst_task_has_outputs(task);
}

/* Takes parts of a scope of the manifest; if there is only one, *out is its path. */
static cst_status settle(const cst_manifest_reader *r, cst_scope *own, cst_file_parts *parts,
                         const char *folder, char **out) {
    *out = parts->paths[0];
    if (parts->count == 1)
        return CST_OK;
    CST_TRY(cst_manifest_add_parts(r->context, r->manifest, parts, folder, out));
    if (cst_manifest_parts(r->manifest, *out)->paths != parts->paths)
        cst_scope_free(own); /* they were there already */
    return CST_OK;
}

static cst_status read_folder(const cst_manifest_reader *r, cst_scope *own, const char *folder,
                              char **out) {
    cst_file_parts parts;
    CST_TRY(cst_file_parts_list(r->context, own, folder, &parts));
    for (int64_t k = 0; k < parts.count; k++)
        CST_TRY(cst_manifest_confine(r->context, r->manifest, parts.paths[k]));
    return settle(r, own, &parts, folder, out);
}

static cst_status read_list(const cst_manifest_reader *r, cst_scope *own, const char *place,
                            const char *key, const json_t *list, char **out) {
    size_t count = json_array_size(list);
    cst_file_parts parts = {.count = (int64_t)count};
    char at[2 * CST_MANIFEST_PLACE_CHARS + 64];
    if (!has_rows(r))
        return cst_fail(r->context, CST_ERROR_INPUT,
                        "%s: %s.%s is a list of files, which pools of task '%s' do not support; "
                        "give one file or folder",
                        r->path, place, key, cst_task_name(r->manifest->task));
    if (count == 0 || count > CST_PARTS_MAX)
        return cst_manifest_wrong(r, place, key, "a file name, or a list of 1 to 1048576 of them");
    CST_TAKE(r->context, own, parts.paths, count);
    for (size_t k = 0; k < count; k++) {
        (void)cst_snprintf(at, sizeof at, "%s[%zu]", key, k);
        CST_TRY(resolve(r, own, place, at, json_array_get(list, k), &parts.paths[k]));
    }
    (void)cst_snprintf(at, sizeof at, "%s.%s", place, key);
    const char *where = cst_take_format(r->context, own, "%s: %s", r->path, at);
    if (!where)
        return CST_ERROR_MEMORY;
    CST_TRY(cst_file_parts_check(r->context, where, &parts));
    return settle(r, own, &parts, NULL, out);
}

cst_status cst_manifest_resolve_rows(const cst_manifest_reader *r, const char *place,
                                     const char *key, const json_t *value, char **out) {
    cst_scope *own;
    if (!json_is_array(value)) {
        CST_TRY(cst_manifest_resolve(r, place, key, value, out));
        if (!has_rows(r) || !cst_is_folder(*out))
            return CST_OK;
    }
    CST_TRY(cst_scope_take(r->context, &r->manifest->scope, &own));
    return json_is_array(value) ? read_list(r, own, place, key, value, out)
                                : read_folder(r, own, *out, out);
}

cst_status cst_manifest_read_rows(const cst_manifest_reader *r, const char *place,
                                  const json_t *object, const char *key, char **out) {
    const json_t *value = json_object_get(object, key);
    return value ? cst_manifest_resolve_rows(r, place, key, value, out) : CST_OK;
}
