/* The splits of a manifest: files, conditions and the clean splits they belong to; and its models:
 * facts of each, its ensemble, a file for each split. */
#include "core/scope.h"
#include "data/readers/manifest_json.h"
#include "data/readers/strings.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

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

cst_status cst_manifest_read_splits(const cst_manifest_reader *r, const json_t *root) {
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

cst_status cst_manifest_read_models(const cst_manifest_reader *r, const json_t *root) {
    const json_t *models = json_object_get(root, "models");
    if (!json_is_array(models) || json_array_size(models) == 0)
        return cst_manifest_wrong(r, "", "models", "a list of at least one model");
    for (size_t i = 0; i < json_array_size(models); i++) {
        CST_TRY(cst_poll_reading(r->context));
        CST_TRY(read_model(r, i, json_array_get(models, i)));
    }
    return CST_OK;
}
