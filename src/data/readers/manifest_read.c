/* pool.json to a cst_manifest: unknown keys, doubled keys and wrong types are errors. */
#include "core/scope.h"
#include "data/files/bytes.h"
#include "data/readers/json_room.h"
#include "data/readers/manifest_json.h"
#include "data/readers/strings.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MANIFEST_BYTES_MAX = 1 << 26, CLASSES_MAX = 1 << 24 };

/* ---- splits ---- */

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

/* By condition, and by position among equals. */
static int order_of_conditions(const void *left, const void *right) {
    const cst_manifest_condition *a = *(const cst_manifest_condition *const *)left;
    const cst_manifest_condition *b = *(const cst_manifest_condition *const *)right;
    int order = order_of_meaning(a, b);
    return order == 0 ? (a > b) - (a < b) : order;
}

/* Refuses a doubled condition; those without a description may differ. */
static cst_status check_conditions(const cst_manifest_reader *r, const char *place,
                                   const cst_manifest_split *split) {
    CST_SCOPE(scope);
    size_t count = (size_t)split->condition_count;
    CST_NEW(r->context, scope, const cst_manifest_condition *, sorted, count);
    for (size_t i = 0; i < count; i++)
        sorted[i] = &split->conditions[i];
    qsort((void *)sorted, count, sizeof *sorted, order_of_conditions);
    for (size_t i = 1; i < count; i++) {
        const cst_manifest_condition *one = sorted[i - 1];
        bool says = one->shift || one->kind || !isnan(one->severity);
        if (says && order_of_meaning(one, sorted[i]) == 0)
            return cst_fail(r->context, CST_ERROR_INPUT,
                            "%s: %s.conditions[%zu] and [%zu] have the same shift, kind and "
                            "severity; remove one, or give them different kinds",
                            r->path, place, (size_t)(one - split->conditions),
                            (size_t)(sorted[i] - split->conditions));
    }
    return CST_OK;
}

static cst_status read_conditions(const cst_manifest_reader *r, const char *place,
                                  const json_t *list, cst_manifest_split *split) {
    if (!list)
        return CST_OK;
    size_t count = json_array_size(list);
    if (!json_is_array(list) || count == 0 || count > 1000000)
        return cst_manifest_wrong(r, place, "conditions", "a non-empty list of objects");
    CST_TAKE(r->context, &r->manifest->scope, split->conditions, count);
    split->condition_count = (int32_t)count;
    for (size_t i = 0; i < count; i++) {
        char at[CST_MANIFEST_PLACE_CHARS + 32];
        (void)cst_snprintf(at, sizeof at, "%s.conditions[%zu]", place, i);
        const json_t *item = json_array_get(list, i);
        cst_manifest_condition *condition = &split->conditions[i];
        CST_TRY(cst_poll_item(r->context, (int64_t)i));
        CST_TRY(cst_manifest_check_keys(r, at, item, CST_MANIFEST_CONDITION));
        CST_TRY(cst_manifest_read_text(r, at, item, "shift", &condition->shift));
        CST_TRY(cst_manifest_read_text(r, at, item, "kind", &condition->kind));
        CST_TRY(cst_manifest_read_number(r, at, item, "severity", &condition->severity));
    }
    return check_conditions(r, place, split);
}

static cst_status read_split(const cst_manifest_reader *r, const char *name, const json_t *object) {
    char place[CST_MANIFEST_PLACE_CHARS];
    char quoted[CST_QUOTE_CHARS];
    (void)cst_snprintf(place, sizeof place, "splits.%s", cst_quote(quoted, name));
    CST_TRY(cst_manifest_check_keys(r, place, object, CST_MANIFEST_SPLIT));
    CST_TRY(cst_manifest_check_task_keys(r, place, object, CST_MANIFEST_SPLIT));
    bool targets = json_object_get(object, "targets");
    if (json_object_get(object, "labels") && targets)
        return cst_manifest_wrong(r, place, "targets",
                                  "absent if labels is given: both name the targets");
    int32_t index = -1;
    CST_TRY(cst_manifest_add_split(r->context, r->manifest, name, &index));
    cst_manifest_split *split = &r->manifest->splits[index];
    const json_t *ood = json_object_get(object, "ood");
    if (ood && !json_is_boolean(ood))
        return cst_manifest_wrong(r, place, "ood", "true or false");
    split->ood = json_is_true(ood);
    const struct {
        const char *key;
        char **path;
    } files[] = {{targets ? "targets" : "labels", &split->labels},
                 {"ids", &split->ids},
                 {"folds", &split->folds},
                 {"groups", &split->groups},
                 {"weights", &split->weights},
                 {"domains", &split->domains},
                 {"order", &split->order},
                 {"annotations", &split->annotations}}; /* of a task without parts */
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        CST_TRY(cst_manifest_read_rows(r, place, object, files[i].key, files[i].path));
    if (split->ood && split->weights)
        return cst_manifest_wrong(
            r, place, "weights", "absent if ood is true: out-of-distribution rows have no weights");
    if (split->ood && split->labels)
        return cst_fail(r->context, CST_ERROR_INPUT,
                        "%s: %s is ood (out of distribution) and has labels; remove one of the two",
                        r->path, place);
    CST_TRY(cst_manifest_read_text(r, place, object, "clean", &split->clean));
    CST_TRY(cst_manifest_read_text(r, place, object, "domain", &split->domain));
    CST_TRY(cst_manifest_read_number(r, place, object, "bytes", &split->bytes));
    return read_conditions(r, place, json_object_get(object, "conditions"), split);
}

/* The splits that are named as clean ones must be there, and be other ones with labels. */
static cst_status check_clean(const cst_manifest_reader *r) {
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

static cst_status read_splits(const cst_manifest_reader *r, const json_t *root) {
    json_t *splits = json_object_get(root, "splits");
    if (!json_is_object(splits) || json_object_size(splits) == 0)
        return cst_manifest_wrong(r, "", "splits",
                                  "an object with at least one split, e.g. \"oof\"");
    for (void *i = json_object_iter(splits); i; i = json_object_iter_next(splits, i)) {
        CST_TRY(cst_poll_reading(r->context));
        CST_TRY(read_split(r, json_object_iter_key(i), json_object_iter_value(i)));
    }
    return check_clean(r);
}

/* ---- models ---- */

const char *const cst_ensemble_kinds[] = {"",     "deep-ensemble", "snapshot", "mc-dropout",
                                          "swag", "soup",          NULL};

/* ensemble: {"kind": "deep-ensemble", "of": "resnet14", "passes": 1}. */
static cst_status read_ensemble(const cst_manifest_reader *r, const char *place,
                                const json_t *object, cst_manifest_member *member) {
    const json_t *ensemble = json_object_get(object, "ensemble");
    if (!ensemble)
        return CST_OK;
    char at[CST_MANIFEST_PLACE_CHARS + 32];
    (void)cst_snprintf(at, sizeof at, "%s.ensemble", place);
    CST_TRY(cst_manifest_check_keys(r, at, ensemble, CST_MANIFEST_ENSEMBLE));
    const char *kind = json_string_value(json_object_get(ensemble, "kind"));
    for (int32_t i = 1; kind && cst_ensemble_kinds[i]; i++)
        if (strcmp(kind, cst_ensemble_kinds[i]) == 0)
            member->ensemble = i;
    if (member->ensemble == 0)
        return cst_manifest_wrong(
            r, at, "kind", "\"deep-ensemble\", \"snapshot\", \"mc-dropout\", \"swag\" or \"soup\"");
    const json_t *passes = json_object_get(ensemble, "passes");
    json_int_t count = json_is_integer(passes) ? json_integer_value(passes) : passes ? 0 : 1;
    if (count < 1 || count > 1000000)
        return cst_manifest_wrong(r, at, "passes", "a whole number from 1 to 1000000");
    /* Averaged weights are one network: however many went into a soup, it is one pass. */
    member->ensemble_passes = member->ensemble == CST_ENSEMBLE_SOUP ? 1 : (int32_t)count;
    CST_TRY(cst_manifest_read_text(r, at, ensemble, "of", &member->ensemble_of));
    if (!member->ensemble_of)
        return cst_manifest_wrong(r, at, "of",
                                  "the name of the ensemble, the same for all its members");
    return CST_OK;
}

/* Rows are joined by ids; what other tasks predict has names of its own. */
static cst_status check_ids(const cst_manifest_reader *r, const char *place,
                            const json_t *predictions) {
    cst_task task = r->manifest->task;
    if (!json_object_get(predictions, "ids") ||
        (task != CST_TASK_SEGMENTATION && task != CST_TASK_DETECTION))
        return CST_OK;
    return cst_fail(r->context, CST_ERROR_INPUT,
                    "%s: %s.ids is not supported in pools of task '%s': %s", r->path, place,
                    cst_task_name(task),
                    task == CST_TASK_DETECTION
                        ? "boxes are matched by image id; remove it"
                        : "cases are matched by position in an array and by file name in a folder; "
                          "reorder the array like the split, or use a folder, and remove the ids");
}

/* predictions: {split: "file"} or {split: {"path": "file", "ids": "file"}}. */
static cst_status read_predictions(const cst_manifest_reader *r, const char *place, json_t *object,
                                   cst_manifest_member *member) {
    json_t *predictions = json_object_get(object, "predictions");
    if (!json_is_object(predictions))
        return cst_manifest_wrong(r, place, "predictions", "an object with a file for each split");
    for (void *i = json_object_iter(predictions); i; i = json_object_iter_next(predictions, i)) {
        const char *name = json_object_iter_key(i);
        const json_t *value = json_object_iter_value(i);
        char at[CST_MANIFEST_PLACE_CHARS + CST_QUOTE_CHARS + 32];
        char quoted[CST_QUOTE_CHARS];
        (void)cst_snprintf(at, sizeof at, "%s.predictions.%s", place, cst_quote(quoted, name));
        int32_t split = cst_manifest_find_split(r->manifest, name);
        if (split < 0)
            return cst_fail(r->context, CST_ERROR_INPUT,
                            "%s: %s: splits has no split '%s'; add it there", r->path, at, quoted);
        if (!json_is_object(value)) {
            CST_TRY(cst_manifest_resolve_rows(r, place, at + strlen(place) + 1, value,
                                              &member->paths[split]));
            continue;
        }
        CST_TRY(cst_manifest_check_keys(r, at, value, CST_MANIFEST_FILE));
        CST_TRY(check_ids(r, at, value));
        CST_TRY(cst_manifest_resolve_rows(r, at, "path", json_object_get(value, "path"),
                                          &member->paths[split]));
        CST_TRY(cst_manifest_read_rows(r, at, value, "ids", &member->ids[split]));
    }
    return CST_OK;
}

static cst_status read_model(const cst_manifest_reader *r, size_t position, json_t *object) {
    char place[CST_MANIFEST_PLACE_CHARS];
    (void)cst_snprintf(place, sizeof place, "models[%zu]", position);
    CST_TRY(cst_manifest_check_keys(r, place, object, CST_MANIFEST_MODEL));
    const char *name = json_string_value(json_object_get(object, "name"));
    char quoted[CST_QUOTE_CHARS];
    if (!name)
        return cst_manifest_wrong(r, place, "name", "the name of the model");
    int32_t before = cst_manifest_find_member(r->manifest, name);
    if (before >= 0)
        return cst_fail(r->context, CST_ERROR_INPUT,
                        "%s: %s has the name '%s' of models[%d]; names must be unique", r->path,
                        place, cst_quote(quoted, name), before);
    int32_t index = -1;
    CST_TRY(cst_manifest_add_member(r->context, r->manifest, name, &index));
    cst_manifest_member *member = &r->manifest->members[index];
    CST_TRY(cst_manifest_read_text(r, place, object, "family", &member->family));
    CST_TRY(cst_manifest_read_number(r, place, object, "flops", &member->flops));
    CST_TRY(cst_manifest_read_number(r, place, object, "params", &member->params));
    CST_TRY(cst_manifest_read_number(r, place, object, "latency_ms", &member->latency_ms));
    CST_TRY(cst_manifest_read_number(r, place, object, "memory_bytes", &member->memory_bytes));
    CST_TRY(read_ensemble(r, place, object, member));
    return read_predictions(r, place, object, member);
}

static cst_status read_models(const cst_manifest_reader *r, const json_t *root) {
    const json_t *models = json_object_get(root, "models");
    if (!json_is_array(models) || json_array_size(models) == 0)
        return cst_manifest_wrong(r, "", "models", "a list of at least one model");
    for (size_t i = 0; i < json_array_size(models); i++) {
        CST_TRY(cst_poll_reading(r->context));
        CST_TRY(read_model(r, i, json_array_get(models, i)));
    }
    return CST_OK;
}

/* ---- the manifest ---- */

static cst_status read_head(const cst_manifest_reader *r, const json_t *root) {
    CST_TRY(cst_manifest_check_keys(r, "", root, CST_MANIFEST_TOP));
    const json_t *version = json_object_get(root, "corestack_pool");
    if (!version)
        return cst_fail(r->context, CST_ERROR_INPUT,
                        "%s: not a pool manifest: the key corestack_pool (1) is missing", r->path);
    if (!json_is_integer(version) || json_integer_value(version) != 1)
        return cst_manifest_wrong(r, "", "corestack_pool", "1, the only version so far");
    return CST_OK;
}

static cst_status read_output(const cst_manifest_reader *r, const json_t *root) {
    const json_t *output = json_object_get(root, "output");
    if (!output)
        return CST_OK;
    const char *word = json_is_string(output) ? json_string_value(output) : "";
    if (strcmp(word, "probability") != 0 && strcmp(word, "logit") != 0)
        return cst_manifest_wrong(r, "", "output", "\"probability\" or \"logit\"");
    r->manifest->output_given = true;
    r->manifest->logits = strcmp(word, "logit") == 0;
    return CST_OK;
}

/* A list of different names, of classes or outputs (`key`), into *names [*count]. */
static cst_status read_names(const cst_manifest_reader *r, const char *key, const json_t *list,
                             char ***names, int32_t *count) {
    size_t length = json_array_size(list);
    cst_strings *table;
    cst_id_index *index;
    int64_t twice[2];
    CST_SCOPE(scope);
    CST_TAKE(r->context, &r->manifest->scope, *names, length);
    *count = (int32_t)length;
    CST_TRY(cst_strings_take(r->context, scope, &table));
    for (size_t c = 0; c < length; c++) {
        const json_t *name = json_array_get(list, c);
        if (!cst_manifest_is_text(name))
            return cst_fail(r->context, CST_ERROR_INPUT,
                            "%s: %s[%zu] must be a non-empty name without control characters or "
                            "bidirectional formatting characters",
                            r->path, key, c);
        const char *text = json_string_value(name);
        (*names)[c] = cst_take_text(r->context, &r->manifest->scope, text);
        if (!(*names)[c])
            return CST_ERROR_MEMORY;
        CST_TRY(cst_strings_put(r->context, table, text));
    }
    char quoted[CST_QUOTE_CHARS];
    CST_TRY(cst_id_index_build(r->context, scope, &index, table, key, twice));
    if (twice[0] < 0)
        return CST_OK;
    return cst_fail(r->context, CST_ERROR_INPUT,
                    "%s: %s[%" PRId64 "] and %s[%" PRId64 "] are both '%s'; names must be unique",
                    r->path, key, twice[0], key, twice[1],
                    cst_quote(quoted, cst_strings_at(table, twice[0])));
}

/* Names, or a count of at least `least`, of classes or outputs; nothing where the key is missing.
 */
static cst_status read_count(const cst_manifest_reader *r, const json_t *root, const char *key,
                             int32_t least, char ***names, int32_t *count) {
    const json_t *value = json_object_get(root, key);
    if (!value)
        return CST_OK;
    json_int_t number = json_is_array(value)     ? (json_int_t)json_array_size(value)
                        : json_is_integer(value) ? json_integer_value(value)
                                                 : -1;
    if (number == -1)
        return cst_manifest_wrong(r, "", key, "a list of names or a number");
    if (number < least || number > CLASSES_MAX)
        return cst_fail(r->context, CST_ERROR_INPUT,
                        "%s: %s: %" PRId64 " %s; it must be between %d and %d", r->path, key,
                        (int64_t)number, key, least, CLASSES_MAX);
    if (json_is_array(value))
        return read_names(r, key, value, names, count);
    *count = (int32_t)number;
    return CST_OK;
}

static cst_status read_task(const cst_manifest_reader *r, const json_t *root) {
    const json_t *task = json_object_get(root, "task");
    const char *word = json_is_string(task) ? json_string_value(task) : "";
    if (!task && r->task)
        r->manifest->task = *r->task;
    if (!task)
        return CST_OK;
    for (int i = CST_TASK_CLASSIFICATION; i <= CST_TASK_MULTILABEL; i++)
        if (strcmp(word, cst_task_name((cst_task)i)) == 0) {
            r->manifest->task = (cst_task)i;
            r->manifest->task_given = true;
            return !r->task || *r->task == r->manifest->task || *r->task == CST_TASK_TOPK
                       ? CST_OK
                       : cst_fail(r->context, CST_ERROR_INPUT,
                                  "%s: its task is %s, but %s was requested", r->path, word,
                                  cst_task_name(*r->task));
        }
    return cst_manifest_wrong(
        r, "", "task",
        "\"classification\", \"regression\", \"segmentation\", \"detection\" or \"multilabel\"");
}

static cst_status read_segmentation(const cst_manifest_reader *r, const json_t *root) {
    const json_t *layout = json_object_get(root, "layout");
    const json_t *ignore = json_object_get(root, "ignore");
    const char *word = json_is_string(layout) ? json_string_value(layout) : "";
    if (layout && strcmp(word, "channels-last") == 0)
        r->manifest->layout = CST_LAYOUT_CHANNELS_LAST;
    else if (layout && strcmp(word, "channels-first") == 0)
        r->manifest->layout = CST_LAYOUT_CHANNELS_FIRST;
    else if (layout)
        return cst_manifest_wrong(r, "", "layout", "\"channels-last\" or \"channels-first\"");
    if (!ignore)
        return CST_OK;
    size_t count = json_is_array(ignore) ? json_array_size(ignore) : 1;
    bool good = count >= 1 && count <= CST_IGNORED_MAX;
    for (size_t i = 0; good && i < count; i++) {
        const json_t *one = json_is_array(ignore) ? json_array_get(ignore, i) : ignore;
        json_int_t label = json_is_integer(one) ? json_integer_value(one) : INT64_MAX;
        good = label >= INT32_MIN && label <= INT32_MAX;
        *(i == 0 ? &r->manifest->ignore : &r->manifest->ignore_also[i - 1]) = (int32_t)label;
    }
    if (!good)
        return cst_manifest_wrong(r, "", "ignore",
                                  "the label of pixels to ignore, a whole number, or a list of at "
                                  "most 16");
    r->manifest->ignore_given = true;
    r->manifest->ignored_also = (int32_t)count - 1;
    return CST_OK;
}

/* training_counts: a list of whole numbers, or a file. */
static cst_status read_training_counts(const cst_manifest_reader *r, const json_t *root) {
    const json_t *list = json_object_get(root, "training_counts");
    cst_manifest *m = r->manifest;
    if (!list)
        return CST_OK;
    if (json_is_string(list))
        return cst_manifest_resolve(r, "the manifest", "training_counts", list,
                                    &m->training_counts_file);
    size_t count = json_array_size(list);
    if (!json_is_array(list) || count == 0 || count > CLASSES_MAX)
        return cst_manifest_wrong(r, "", "training_counts",
                                  "a list of counts, one per class, or a file");
    CST_TAKE(r->context, &m->scope, m->training_counts, count);
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

static cst_status read_reference_errors(const cst_manifest_reader *r, const json_t *root) {
    const json_t *object = json_object_get(root, "reference_errors");
    if (!object)
        return CST_OK;
    CST_SCOPE(scope);
    const char *where = cst_take_format(r->context, scope, "%s: reference_errors", r->path);
    if (!where)
        return CST_ERROR_MEMORY;
    CST_TRY(cst_reference_errors_parse(r->context, where, object, &r->manifest->reference_errors));
    /* where the pool lies says nothing of the figures */
    r->manifest->reference_errors.source = "the manifest";
    return CST_OK;
}

static cst_status parse(cst_context *context, const char *path, json_t **root) {
    json_error_t error;
    char quoted[CST_QUOTE_CHARS];
    CST_TRY(cst_json_read(context, path, MANIFEST_BYTES_MAX, root, &error));
    if (*root)
        return CST_OK;
    return cst_fail(context, CST_ERROR_FORMAT, "%s: line %d, column %d (byte %d): %s", path,
                    error.line, error.column, error.position, cst_quote(quoted, error.text));
}

static cst_status read_all(const cst_manifest_reader *r, const json_t *root) {
    CST_SCOPE(scope);
    const char *folder = cst_take_format(r->context, scope, "%.*s", r->folder ? (int)r->folder : 1,
                                         r->folder ? r->path : ".");
    if (!folder)
        return CST_ERROR_MEMORY;
    if (!r->outside)
        CST_TRY(cst_manifest_stay_in(r->context, r->manifest, folder));
    CST_TRY(read_head(r, root));
    CST_TRY(read_task(r, root));
    CST_TRY(cst_manifest_check_task_keys(r, "", root, CST_MANIFEST_TOP));
    CST_TRY(read_output(r, root));
    CST_TRY(read_segmentation(r, root));
    CST_TRY(read_count(r, root, "outputs", 1, &r->manifest->output_names, &r->manifest->outputs));
    CST_TRY(read_count(r, root, "classes", r->manifest->task == CST_TASK_DETECTION ? 1 : 2,
                       &r->manifest->class_names, &r->manifest->classes));
    CST_TRY(read_training_counts(r, root));
    CST_TRY(read_reference_errors(r, root));
    CST_TRY(read_splits(r, root));
    return read_models(r, root);
}

cst_status cst_manifest_read_as(cst_context *context, cst_manifest **out, const char *path,
                                bool outside, const cst_task *task) {
    json_t *root = NULL;
    const char *slash = strrchr(path, '/');
    cst_manifest_reader r = {.context = context,
                             .path = path,
                             .folder = slash ? (size_t)(slash - path) + 1 : 0,
                             .outside = outside,
                             .task = task};
    cst_status status = parse(context, path, &root);
    CST_THEN(cst_manifest_create(context, &r.manifest, path));
    CST_THEN(read_all(&r, root));
    json_decref(root);
    if (status != CST_OK) {
        cst_manifest_free(context, r.manifest);
        r.manifest = NULL;
    }
    *out = r.manifest;
    return status;
}
