/*
 * pool.json to a cst_manifest, strictly: unknown keys, doubled keys and wrong types are errors that
 * say where. Before anything else is opened. Method: the pool manifest.
 */
#include "io/bytes.h"
#include "io/manifest.h"
#include "io/strings.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MANIFEST_BYTES_MAX = 1 << 26, CLASSES_MAX = 1 << 24, PLACE_CHARS = 160 };

/* What every step needs. */
typedef struct reader {
    cst_context *context;
    cst_manifest *manifest;
    const char *path; /* of the manifest */
    size_t folder;    /* length of the folder part of `path`, with its slash */
    bool outside;
} reader;

static cst_status wrong(const reader *r, const char *place, const char *key, const char *expected) {
    return cst_fail(r->context, CST_ERROR_INPUT, "%s: %s%s%s must be %s", r->path, place,
                    *place ? "." : "", key, expected);
}

/* Every key of `object` must be in `known` (NULL-terminated). */
static cst_status check_keys(const reader *r, const char *place, const json_t *object,
                             const char *const *known) {
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
                        "%s: unknown key '%s' in %s; the keys there are %s", r->path,
                        cst_quote(quoted, key), *place ? place : "the manifest", list);
    }
    return CST_OK;
}

/* Texts go into reports and model files: without control characters. */
static bool is_text(const json_t *value) {
    if (!json_is_string(value) || json_string_length(value) == 0)
        return false;
    for (const char *c = json_string_value(value); *c; c++)
        if ((unsigned char)*c < 0x20 || *c == 0x7f)
            return false;
    return true;
}

/* Text of object[key] into *out (the caller's); NULL where it is not there. */
static cst_status read_text(const reader *r, const char *place, const json_t *object,
                            const char *key, char **out) {
    const json_t *value = json_object_get(object, key);
    *out = NULL;
    if (!value)
        return CST_OK;
    if (!is_text(value))
        return wrong(r, place, key, "a text that is not empty and has no control characters");
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

/* A path relative to the manifest, as it will be opened; it must not leave the folder. */
static cst_status resolve(const reader *r, const char *place, const char *key, const json_t *value,
                          char **out) {
    *out = NULL;
    if (!json_is_string(value) || json_string_length(value) == 0)
        return wrong(r, place, key, "a file name");
    const char *text = json_string_value(value);
    char quoted[CST_QUOTE_CHARS];
    if (text[0] == '/' && !r->outside)
        return cst_fail(r->context, CST_ERROR_INPUT,
                        "%s: %s.%s leaves the manifest's folder: '%s' is an absolute path; make it "
                        "relative, or allow files outside the folder",
                        r->path, place, key, cst_quote(quoted, text));
    if (climbs(text) && !r->outside)
        return cst_fail(r->context, CST_ERROR_INPUT,
                        "%s: %s.%s leaves the manifest's folder: '%s' goes up by '..'; name the "
                        "file from that folder, or allow files outside the folder",
                        r->path, place, key, cst_quote(quoted, text));
    *out = text[0] == '/' ? cst_strdup(r->context, text)
                          : cst_format(r->context, "%.*s%s", (int)r->folder, r->path, text);
    if (!*out)
        return CST_ERROR_MEMORY;
    return cst_manifest_confine(r->context, r->manifest, *out);
}

static cst_status read_path(const reader *r, const char *place, const json_t *object,
                            const char *key, char **out) {
    const json_t *value = json_object_get(object, key);
    return value ? resolve(r, place, key, value, out) : CST_OK;
}

/* A finite number, not negative; NaN where it is not there. */
static cst_status read_number(const reader *r, const char *place, const json_t *object,
                              const char *key, double *out) {
    const json_t *value = json_object_get(object, key);
    *out = NAN;
    if (!value)
        return CST_OK;
    double number = json_is_number(value) ? json_number_value(value) : -1;
    if (!(number >= 0) || isinf(number))
        return wrong(r, place, key, "a number that is not negative");
    *out = number;
    return CST_OK;
}

/* ---- the parts of a manifest ----------------------------------------------------------------- */

static cst_status read_head(const reader *r, const json_t *root) {
    static const char *const keys[] = {
        "corestack_pool", "task",   "classes", "output",          "outputs",          "layout",
        "ignore",         "splits", "models",  "training_counts", "reference_errors", NULL};
    cst_status status = check_keys(r, "", root, keys);
    if (status != CST_OK)
        return status;
    const json_t *version = json_object_get(root, "corestack_pool");
    if (!version)
        return cst_fail(r->context, CST_ERROR_INPUT,
                        "%s: is not a pool manifest: the key corestack_pool (1) is missing",
                        r->path);
    if (!json_is_integer(version) || json_integer_value(version) != 1)
        return wrong(r, "", "corestack_pool", "1, the only version there is");
    return CST_OK;
}

static cst_status read_output(const reader *r, const json_t *root) {
    const json_t *output = json_object_get(root, "output");
    if (!output)
        return CST_OK;
    const char *word = json_is_string(output) ? json_string_value(output) : "";
    if (strcmp(word, "probability") != 0 && strcmp(word, "logit") != 0)
        return wrong(r, "", "output", "\"probability\" or \"logit\"");
    r->manifest->output_given = true;
    r->manifest->logits = strcmp(word, "logit") == 0;
    return CST_OK;
}

/* A list of different names, of classes or outputs (`key`), into *names [*count]. */
static cst_status read_names(const reader *r, const char *key, const json_t *list, char ***names,
                             int32_t *count) {
    size_t length = json_array_size(list);
    cst_strings *table = NULL;
    cst_id_index *index = NULL;
    *names = cst_alloc(r->context, length, sizeof **names);
    cst_status status = *names ? cst_strings_create(r->context, &table) : CST_ERROR_MEMORY;
    if (status == CST_OK)
        *count = (int32_t)length;
    for (size_t c = 0; status == CST_OK && c < length; c++) {
        const json_t *name = json_array_get(list, c);
        if (!is_text(name)) {
            status = cst_fail(r->context, CST_ERROR_INPUT,
                              "%s: %s[%zu] must be a name that is not empty and has no control "
                              "characters",
                              r->path, key, c);
            break;
        }
        (*names)[c] = cst_strdup(r->context, json_string_value(name));
        status = (*names)[c] ? cst_strings_add(r->context, table, json_string_value(name),
                                               json_string_length(name))
                             : CST_ERROR_MEMORY;
    }
    int64_t twice[2] = {-1, -1};
    char quoted[CST_QUOTE_CHARS];
    if (status == CST_OK)
        status = cst_id_index_build(r->context, &index, table, key, twice);
    if (twice[0] >= 0)
        status = cst_fail(
            r->context, CST_ERROR_INPUT,
            "%s: %s[%" PRId64 "] and %s[%" PRId64 "] are both '%s'; the names must differ", r->path,
            key, twice[0], key, twice[1], cst_quote(quoted, cst_strings_at(table, twice[0])));
    cst_id_index_free(r->context, index);
    cst_strings_free(r->context, table);
    return status;
}

/* Names, or a count of at least `least`, of classes or outputs; nothing where the key is missing.
 */
static cst_status read_count(const reader *r, const json_t *root, const char *key, int32_t least,
                             char ***names, int32_t *count) {
    const json_t *value = json_object_get(root, key);
    if (!value)
        return CST_OK;
    json_int_t number = json_is_array(value)     ? (json_int_t)json_array_size(value)
                        : json_is_integer(value) ? json_integer_value(value)
                                                 : -1;
    if (number == -1)
        return wrong(r, "", key, "a list of names or a count");
    if (number < least || number > CLASSES_MAX)
        return cst_fail(r->context, CST_ERROR_INPUT,
                        "%s: %s: %" PRId64 " %s; at least %d and at most %d are needed", r->path,
                        key, (int64_t)number, key, least, CLASSES_MAX);
    if (json_is_array(value))
        return read_names(r, key, value, names, count);
    *count = (int32_t)number;
    return CST_OK;
}

/* ---- what depends on the task ---------------------------------------------------------------- */

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
    {"training_counts", false, CLASSES},
    {"reference_errors", false, CLASSES},
};

/* Refuses keys that the pool's task does not have. */
static cst_status check_task_keys(const reader *r, const char *place, const json_t *object,
                                  bool of_split) {
    unsigned task = 1U << (unsigned)r->manifest->task;
    for (size_t i = 0; i < sizeof TASK_KEYS / sizeof TASK_KEYS[0]; i++)
        if (TASK_KEYS[i].of_split == of_split && !(TASK_KEYS[i].tasks & task) &&
            json_object_get(object, TASK_KEYS[i].key))
            return cst_fail(r->context, CST_ERROR_INPUT,
                            "%s: %s%s%s does not belong to a pool of task '%s'; leave it out",
                            r->path, place, *place ? "." : "", TASK_KEYS[i].key,
                            cst_task_name(r->manifest->task));
    return CST_OK;
}

static cst_status read_task(const reader *r, const json_t *root) {
    const json_t *task = json_object_get(root, "task");
    const char *word = json_is_string(task) ? json_string_value(task) : "";
    if (!task)
        return CST_OK;
    for (int i = CST_TASK_CLASSIFICATION; i <= CST_TASK_DETECTION; i++)
        if (strcmp(word, cst_task_name((cst_task)i)) == 0) {
            r->manifest->task = (cst_task)i;
            r->manifest->task_given = true;
            return CST_OK;
        }
    return wrong(r, "", "task",
                 "\"classification\", \"regression\", \"segmentation\" or \"detection\"");
}

static cst_status read_segmentation(const reader *r, const json_t *root) {
    const json_t *layout = json_object_get(root, "layout");
    const json_t *ignore = json_object_get(root, "ignore");
    const char *word = json_is_string(layout) ? json_string_value(layout) : "";
    if (layout && strcmp(word, "channels-last") == 0)
        r->manifest->layout = CST_LAYOUT_CHANNELS_LAST;
    else if (layout && strcmp(word, "channels-first") == 0)
        r->manifest->layout = CST_LAYOUT_CHANNELS_FIRST;
    else if (layout)
        return wrong(r, "", "layout", "\"channels-last\" or \"channels-first\"");
    if (!ignore)
        return CST_OK;
    json_int_t label = json_is_integer(ignore) ? json_integer_value(ignore) : INT64_MAX;
    if (label < INT32_MIN || label > INT32_MAX)
        return wrong(r, "", "ignore", "the label of pixels that do not count, a whole number");
    r->manifest->ignore_given = true;
    r->manifest->ignore = (int32_t)label;
    return CST_OK;
}

/* NULL before any text. */
static int order_of_texts(const char *a, const char *b) {
    if (!a || !b)
        return (a != NULL) - (b != NULL);
    return strcmp(a, b);
}

/* By shift, kind and severity, those without first. */
static int order_of_meaning(const cst_manifest_condition *a, const cst_manifest_condition *b) {
    int order = order_of_texts(a->shift, b->shift);
    if (order == 0)
        order = order_of_texts(a->kind, b->kind);
    if (order == 0)
        order = !isnan(a->severity) - !isnan(b->severity);
    return order == 0 ? (a->severity > b->severity) - (a->severity < b->severity) : order;
}

/* The same, and by position where that is the same. */
static int order_of_conditions(const void *left, const void *right) {
    const cst_manifest_condition *a = *(const cst_manifest_condition *const *)left;
    const cst_manifest_condition *b = *(const cst_manifest_condition *const *)right;
    int order = order_of_meaning(a, b);
    return order == 0 ? (a > b) - (a < b) : order;
}

/* No condition twice, which would count twice in every mean; those that say nothing of themselves
 * may be different ones. */
static cst_status check_conditions(const reader *r, const char *place,
                                   const cst_manifest_split *split) {
    size_t count = (size_t)split->condition_count;
    const cst_manifest_condition **sorted = cst_alloc(r->context, count, sizeof *sorted);
    if (!sorted)
        return CST_ERROR_MEMORY;
    for (size_t i = 0; i < count; i++)
        sorted[i] = &split->conditions[i];
    qsort((void *)sorted, count, sizeof *sorted, order_of_conditions);
    cst_status status = CST_OK;
    for (size_t i = 1; status == CST_OK && i < count; i++) {
        const cst_manifest_condition *one = sorted[i - 1];
        bool says = one->shift || one->kind || !isnan(one->severity);
        if (says && order_of_meaning(one, sorted[i]) == 0)
            status = cst_fail(r->context, CST_ERROR_INPUT,
                              "%s: %s.conditions[%zu] and [%zu] have the same shift, kind and "
                              "severity; leave one out, or give them different kinds",
                              r->path, place, (size_t)(one - split->conditions),
                              (size_t)(sorted[i] - split->conditions));
    }
    cst_free(r->context, (void *)sorted);
    return status;
}

static cst_status read_conditions(const reader *r, const char *place, const json_t *list,
                                  cst_manifest_split *split) {
    static const char *const keys[] = {"shift", "kind", "severity", NULL};
    if (!list)
        return CST_OK;
    size_t count = json_array_size(list);
    if (!json_is_array(list) || count == 0 || count > 1000000)
        return wrong(r, place, "conditions", "a list of objects that is not empty");
    split->conditions = cst_alloc(r->context, count, sizeof *split->conditions);
    if (!split->conditions)
        return CST_ERROR_MEMORY;
    split->condition_count = (int32_t)count;
    for (size_t i = 0; i < count; i++) {
        char at[PLACE_CHARS + 32];
        (void)cst_snprintf(at, sizeof at, "%s.conditions[%zu]", place, i);
        const json_t *item = json_array_get(list, i);
        cst_manifest_condition *condition = &split->conditions[i];
        cst_status status = check_keys(r, at, item, keys);
        if (status == CST_OK)
            status = read_text(r, at, item, "shift", &condition->shift);
        if (status == CST_OK)
            status = read_text(r, at, item, "kind", &condition->kind);
        if (status == CST_OK)
            status = read_number(r, at, item, "severity", &condition->severity);
        if (status != CST_OK)
            return status;
    }
    return check_conditions(r, place, split);
}

static cst_status read_split(const reader *r, const char *name, const json_t *object) {
    static const char *const keys[] = {"labels", "targets", "annotations", "ids",
                                       "folds",  "groups",  "conditions",  "ood",
                                       "clean",  "domain",  "weights",     NULL};
    char place[PLACE_CHARS];
    char quoted[CST_QUOTE_CHARS];
    (void)cst_snprintf(place, sizeof place, "splits.%s", cst_quote(quoted, name));
    cst_status status = check_keys(r, place, object, keys);
    if (status == CST_OK)
        status = check_task_keys(r, place, object, true);
    if (status != CST_OK)
        return status;
    if (json_object_get(object, "labels") && json_object_get(object, "targets"))
        return wrong(r, place, "targets", "left out where labels are given: both name the targets");
    int32_t index = -1;
    status = cst_manifest_add_split(r->context, r->manifest, name, &index);
    if (status != CST_OK)
        return status;
    cst_manifest_split *split = &r->manifest->splits[index];
    const json_t *ood = json_object_get(object, "ood");
    if (ood && !json_is_boolean(ood))
        return wrong(r, place, "ood", "true or false");
    split->ood = json_is_true(ood);
    status = read_path(r, place, object, json_object_get(object, "targets") ? "targets" : "labels",
                       &split->labels);
    if (status == CST_OK)
        status = read_path(r, place, object, "annotations", &split->annotations);
    if (status == CST_OK)
        status = read_path(r, place, object, "ids", &split->ids);
    if (status == CST_OK)
        status = read_path(r, place, object, "folds", &split->folds);
    if (status == CST_OK)
        status = read_path(r, place, object, "groups", &split->groups);
    if (status == CST_OK)
        status = read_path(r, place, object, "weights", &split->weights);
    if (status == CST_OK && split->ood && split->weights)
        return wrong(r, place, "weights",
                     "left out where ood is true: rows out of distribution "
                     "all count alike");
    if (status == CST_OK && split->ood && split->labels)
        status =
            cst_fail(r->context, CST_ERROR_INPUT,
                     "%s: %s is ood (out of distribution) and has labels; remove one of the two",
                     r->path, place);
    if (status == CST_OK)
        status = read_text(r, place, object, "clean", &split->clean);
    if (status == CST_OK)
        status = read_text(r, place, object, "domain", &split->domain);
    if (status == CST_OK)
        status = read_conditions(r, place, json_object_get(object, "conditions"), split);
    return status;
}

/* The splits that are named as clean ones must be there, and be other ones with labels. */
static cst_status check_clean(const reader *r) {
    for (int32_t s = 0; s < r->manifest->split_count; s++) {
        const cst_manifest_split *split = &r->manifest->splits[s];
        if (!split->clean)
            continue;
        char quoted[2][CST_QUOTE_CHARS];
        int32_t clean = cst_manifest_find_split(r->manifest, split->clean);
        if (clean < 0 || clean == s || r->manifest->splits[clean].ood ||
            r->manifest->splits[clean].condition_count > 0)
            return cst_fail(r->context, CST_ERROR_INPUT,
                            "%s: splits.%s.clean: '%s' must be another split, with labels and "
                            "without conditions",
                            r->path, cst_quote(quoted[0], split->name),
                            cst_quote(quoted[1], split->clean));
    }
    return CST_OK;
}

/* training_counts: a list of whole numbers, or a file. */
static cst_status read_training_counts(const reader *r, const json_t *root) {
    const json_t *list = json_object_get(root, "training_counts");
    cst_manifest *m = r->manifest;
    if (!list)
        return CST_OK;
    if (json_is_string(list))
        return resolve(r, "the manifest", "training_counts", list, &m->training_counts_file);
    size_t count = json_array_size(list);
    if (!json_is_array(list) || count == 0 || count > CLASSES_MAX)
        return wrong(r, "", "training_counts", "a list of counts, one for each class, or a file");
    m->training_counts = cst_alloc(r->context, count, sizeof *m->training_counts);
    if (!m->training_counts)
        return CST_ERROR_MEMORY;
    m->training_count_classes = (int32_t)count;
    for (size_t c = 0; c < count; c++) {
        const json_t *item = json_array_get(list, c);
        m->training_counts[c] = json_is_integer(item) ? json_integer_value(item) : -1;
        if (m->training_counts[c] < 0)
            return cst_fail(r->context, CST_ERROR_INPUT,
                            "%s: training_counts[%zu] must be a whole number, 0 or more", r->path,
                            c);
    }
    return CST_OK;
}

static cst_status read_reference_errors(const reader *r, const json_t *root) {
    const json_t *object = json_object_get(root, "reference_errors");
    if (!object)
        return CST_OK;
    char *where = cst_format(r->context, "%s: reference_errors", r->path);
    cst_status status = where ? cst_reference_errors_parse(r->context, where, object,
                                                           &r->manifest->reference_errors)
                              : CST_ERROR_MEMORY;
    cst_free(r->context, where);
    if (status == CST_OK) { /* where the pool lies says nothing of the figures */
        cst_free(r->context, r->manifest->reference_errors.source);
        r->manifest->reference_errors.source = cst_strdup(r->context, "the manifest");
        status = r->manifest->reference_errors.source ? CST_OK : CST_ERROR_MEMORY;
    }
    return status;
}

static cst_status read_splits(const reader *r, const json_t *root) {
    json_t *splits = json_object_get(root, "splits");
    if (!json_is_object(splits) || json_object_size(splits) == 0)
        return wrong(r, "", "splits", "an object with at least one split, such as \"oof\"");
    cst_status status = CST_OK;
    for (void *i = json_object_iter(splits); i && status == CST_OK;
         i = json_object_iter_next(splits, i))
        status = read_split(r, json_object_iter_key(i), json_object_iter_value(i));
    return status;
}

const char *const cst_ensemble_kinds[] = {"",     "deep-ensemble", "snapshot", "mc-dropout",
                                          "swag", "soup",          NULL};

/* ensemble: {"kind": "deep-ensemble", "of": "resnet14", "passes": 1}. */
static cst_status read_ensemble(const reader *r, const char *place, const json_t *object,
                                cst_manifest_member *member) {
    static const char *const keys[] = {"kind", "of", "passes", NULL};
    const json_t *ensemble = json_object_get(object, "ensemble");
    if (!ensemble)
        return CST_OK;
    char at[PLACE_CHARS + 32];
    (void)cst_snprintf(at, sizeof at, "%s.ensemble", place);
    cst_status status = check_keys(r, at, ensemble, keys);
    if (status != CST_OK)
        return status;
    const char *kind = json_string_value(json_object_get(ensemble, "kind"));
    for (int32_t i = 1; kind && cst_ensemble_kinds[i]; i++)
        if (strcmp(kind, cst_ensemble_kinds[i]) == 0)
            member->ensemble = i;
    if (member->ensemble == 0)
        return wrong(r, at, "kind",
                     "\"deep-ensemble\", \"snapshot\", \"mc-dropout\", \"swag\" or \"soup\"");
    const json_t *passes = json_object_get(ensemble, "passes");
    json_int_t count = json_is_integer(passes) ? json_integer_value(passes) : passes ? 0 : 1;
    if (count < 1 || count > 1000000)
        return wrong(r, at, "passes", "a whole number from 1 to 1000000");
    /* Averaged weights are one network: however many went into a soup, it is one pass. */
    member->ensemble_passes = member->ensemble == CST_ENSEMBLE_SOUP ? 1 : (int32_t)count;
    status = read_text(r, at, ensemble, "of", &member->ensemble_of);
    if (status == CST_OK && !member->ensemble_of)
        status = wrong(r, at, "of", "the name that the members of the ensemble share");
    return status;
}

/* predictions: {split: "file"} or {split: {"path": "file", "ids": "file"}}. */
static cst_status read_predictions(const reader *r, const char *place, json_t *object,
                                   cst_manifest_member *member) {
    static const char *const keys[] = {"path", "ids", NULL};
    json_t *predictions = json_object_get(object, "predictions");
    if (!json_is_object(predictions))
        return wrong(r, place, "predictions", "an object that gives a file for each split");
    cst_status status = CST_OK;
    for (void *i = json_object_iter(predictions); i && status == CST_OK;
         i = json_object_iter_next(predictions, i)) {
        const char *name = json_object_iter_key(i);
        const json_t *value = json_object_iter_value(i);
        char at[PLACE_CHARS + CST_QUOTE_CHARS + 32];
        char quoted[CST_QUOTE_CHARS];
        (void)cst_snprintf(at, sizeof at, "%s.predictions.%s", place, cst_quote(quoted, name));
        int32_t split = cst_manifest_find_split(r->manifest, name);
        if (split < 0)
            return cst_fail(r->context, CST_ERROR_INPUT,
                            "%s: %s: there is no split '%s' in splits; add it there", r->path, at,
                            quoted);
        if (!json_is_object(value)) {
            status = resolve(r, place, at + strlen(place) + 1, value, &member->paths[split]);
            continue;
        }
        status = check_keys(r, at, value, keys);
        if (status == CST_OK)
            status = resolve(r, at, "path", json_object_get(value, "path"), &member->paths[split]);
        if (status == CST_OK)
            status = read_path(r, at, value, "ids", &member->ids[split]);
    }
    return status;
}

static cst_status read_model(const reader *r, size_t position, json_t *object) {
    static const char *const keys[] = {"name",       "family",   "flops",       "params",
                                       "latency_ms", "ensemble", "predictions", NULL};
    char place[PLACE_CHARS];
    (void)cst_snprintf(place, sizeof place, "models[%zu]", position);
    cst_status status = check_keys(r, place, object, keys);
    if (status != CST_OK)
        return status;
    const char *name = json_string_value(json_object_get(object, "name"));
    char quoted[CST_QUOTE_CHARS];
    if (!name)
        return wrong(r, place, "name", "the model's name");
    int32_t before = cst_manifest_find_member(r->manifest, name);
    if (before >= 0)
        return cst_fail(r->context, CST_ERROR_INPUT,
                        "%s: %s has the name '%s' of models[%d]; names must differ", r->path, place,
                        cst_quote(quoted, name), before);
    int32_t index = -1;
    status = cst_manifest_add_member(r->context, r->manifest, name, &index);
    if (status != CST_OK)
        return status;
    cst_manifest_member *member = &r->manifest->members[index];
    status = read_text(r, place, object, "family", &member->family);
    if (status == CST_OK)
        status = read_number(r, place, object, "flops", &member->flops);
    if (status == CST_OK)
        status = read_number(r, place, object, "params", &member->params);
    if (status == CST_OK)
        status = read_number(r, place, object, "latency_ms", &member->latency_ms);
    if (status == CST_OK)
        status = read_ensemble(r, place, object, member);
    return status == CST_OK ? read_predictions(r, place, object, member) : status;
}

static cst_status read_models(const reader *r, const json_t *root) {
    const json_t *models = json_object_get(root, "models");
    if (!json_is_array(models) || json_array_size(models) == 0)
        return wrong(r, "", "models", "a list with at least one model");
    cst_status status = CST_OK;
    for (size_t i = 0; i < json_array_size(models) && status == CST_OK; i++)
        status = read_model(r, i, json_array_get(models, i));
    return status;
}

/* ---- the file -------------------------------------------------------------------------------- */

static cst_status parse(cst_context *context, const char *path, json_t **root) {
    cst_bytes *source = NULL;
    const unsigned char *text = NULL;
    json_error_t error;
    *root = NULL;
    cst_status status = cst_bytes_open(context, &source, path, 0);
    if (status == CST_OK && cst_bytes_size(source) > MANIFEST_BYTES_MAX)
        status = cst_fail(context, CST_ERROR_LIMIT,
                          "%s: a manifest of %" PRIu64 " bytes; at most %d are read", path,
                          cst_bytes_size(source), MANIFEST_BYTES_MAX);
    if (status == CST_OK)
        status = cst_bytes_slurp(context, source, &text);
    if (status == CST_OK) {
        char quoted[CST_QUOTE_CHARS];
        cst_c_locale locale = cst_c_locale_enter();
        *root = json_loadb((const char *)text, (size_t)cst_bytes_size(source),
                           JSON_REJECT_DUPLICATES, &error);
        cst_c_locale_leave(locale);
        if (!*root)
            status =
                cst_fail(context, CST_ERROR_FORMAT, "%s: line %d, column %d (byte %d): %s", path,
                         error.line, error.column, error.position, cst_quote(quoted, error.text));
    }
    cst_bytes_close(context, source);
    return status;
}

/* The real path of the folder that the manifest is in. */
static cst_status set_folder(const reader *r) {
    char *folder = r->folder ? cst_strdup(r->context, r->path) : cst_strdup(r->context, ".");
    if (!folder)
        return CST_ERROR_MEMORY;
    if (r->folder)
        folder[r->folder] = '\0';
    cst_status status = cst_manifest_stay_in(r->context, r->manifest, folder);
    cst_free(r->context, folder);
    return status;
}

cst_status cst_manifest_read(cst_context *context, cst_manifest **out, const char *path,
                             bool outside) {
    *out = NULL;
    json_t *root = NULL;
    const char *slash = strrchr(path, '/');
    reader r = {.context = context,
                .path = path,
                .folder = slash ? (size_t)(slash - path) + 1 : 0,
                .outside = outside};
    cst_status status = parse(context, path, &root);
    if (status == CST_OK)
        status = cst_manifest_create(context, &r.manifest, path);
    if (status == CST_OK && !outside)
        status = set_folder(&r);
    if (status == CST_OK)
        status = read_head(&r, root);
    if (status == CST_OK)
        status = read_task(&r, root);
    if (status == CST_OK)
        status = check_task_keys(&r, "", root, false);
    if (status == CST_OK)
        status = read_output(&r, root);
    if (status == CST_OK)
        status = read_segmentation(&r, root);
    if (status == CST_OK)
        status =
            read_count(&r, root, "outputs", 1, &r.manifest->output_names, &r.manifest->outputs);
    if (status == CST_OK)
        status = read_count(&r, root, "classes", r.manifest->task == CST_TASK_DETECTION ? 1 : 2,
                            &r.manifest->class_names, &r.manifest->classes);
    if (status == CST_OK)
        status = read_training_counts(&r, root);
    if (status == CST_OK)
        status = read_reference_errors(&r, root);
    if (status == CST_OK)
        status = read_splits(&r, root);
    if (status == CST_OK)
        status = check_clean(&r);
    if (status == CST_OK)
        status = read_models(&r, root);
    json_decref(root);
    if (status != CST_OK) {
        cst_manifest_free(context, r.manifest);
        return status;
    }
    *out = r.manifest;
    return CST_OK;
}
