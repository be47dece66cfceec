/* Keys, texts, numbers and paths of a manifest's objects. */
#include "data/readers/manifest_json.h"

#include "core/utf8.h"
#include "data/files/bytes.h"
#include "data/readers/strings.h"

#include <math.h>
#include <string.h>

cst_status cst_manifest_wrong(const cst_manifest_reader *r, const char *place, const char *key,
                              const char *expected) {
    return cst_fail(r->context, CST_ERROR_INPUT, "%s: %s%s%s must be %s", r->path, place,
                    *place ? "." : "", key, expected);
}

cst_status cst_manifest_check_keys(const cst_manifest_reader *r, const char *place,
                                   const json_t *object, const char *const *known) {
    if (!json_is_object(object))
        return cst_fail(r->context, CST_ERROR_INPUT, "%s: %s must be an object {...}", r->path,
                        *place ? place : "the manifest");
    for (void *i = json_object_iter((json_t *)object); i;
         i = json_object_iter_next((json_t *)object, i)) {
        const char *key = json_object_iter_key(i);
        size_t k = 0;
        while (known[k] && strcmp(known[k], key) != 0)
            k++;
        if (known[k])
            continue;
        char list[320] = "";
        for (k = 0; known[k]; k++) {
            strncat(list, k ? ", " : "", sizeof list - strlen(list) - 1);
            strncat(list, known[k], sizeof list - strlen(list) - 1);
        }
        char quoted[CST_QUOTE_CHARS];
        return cst_fail(r->context, CST_ERROR_INPUT,
                        "%s: unknown key '%s' in %s; the known keys are %s", r->path,
                        cst_quote(quoted, key), *place ? place : "the manifest", list);
    }
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
    *out = cst_strdup(r->context, json_string_value(value));
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

cst_status cst_manifest_resolve(const cst_manifest_reader *r, const char *place, const char *key,
                                const json_t *value, char **out) {
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
    *out = text[0] == '/' ? cst_strdup(r->context, text)
                          : cst_format(r->context, "%.*s%s", (int)r->folder, r->path, text);
    if (!*out)
        return CST_ERROR_MEMORY;
    return cst_manifest_confine(r->context, r->manifest, *out);
}

cst_status cst_manifest_read_path(const cst_manifest_reader *r, const char *place,
                                  const json_t *object, const char *key, char **out) {
    const json_t *value = json_object_get(object, key);
    return value ? cst_manifest_resolve(r, place, key, value, out) : CST_OK;
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

enum { CLASSES = 1, REGRESSES = 2, SEGMENTS = 4, DETECTS = 8 };

/* Keys that not every task has: at the top, or of a split. */
static const struct {
    const char *key;
    bool of_split;
    unsigned tasks;
} TASK_KEYS[] = {
    {"classes", false, CLASSES | SEGMENTS | DETECTS},
    {"output", false, CLASSES | SEGMENTS},
    {"outputs", false, REGRESSES},
    {"layout", false, SEGMENTS},
    {"ignore", false, SEGMENTS},
    {"labels", true, CLASSES | REGRESSES | SEGMENTS},
    {"targets", true, REGRESSES},
    {"annotations", true, DETECTS},
    {"ids", true, CLASSES | REGRESSES | SEGMENTS},
    {"folds", true, CLASSES | REGRESSES | SEGMENTS},
    {"groups", true, CLASSES | REGRESSES | SEGMENTS},
    {"weights", true, CLASSES | REGRESSES},
    {"conditions", true, CLASSES},
    {"ood", true, CLASSES},
    {"clean", true, CLASSES},
    {"domain", true, CLASSES},
    {"domains", true, CLASSES},
    {"training_counts", false, CLASSES},
    {"reference_errors", false, CLASSES},
};

/* Refuses keys that the pool's task does not have. */
cst_status cst_manifest_check_task_keys(const cst_manifest_reader *r, const char *place,
                                        const json_t *object, bool of_split) {
    unsigned task = 1U << (unsigned)r->manifest->task;
    for (size_t i = 0; i < sizeof TASK_KEYS / sizeof TASK_KEYS[0]; i++)
        if (TASK_KEYS[i].of_split == of_split && !(TASK_KEYS[i].tasks & task) &&
            json_object_get(object, TASK_KEYS[i].key))
            return cst_fail(r->context, CST_ERROR_INPUT,
                            "%s: %s%s%s is not supported in pools of task '%s'; remove it", r->path,
                            place, *place ? "." : "", TASK_KEYS[i].key,
                            cst_task_name(r->manifest->task));
    return CST_OK;
}
