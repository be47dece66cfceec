/* The models of a manifest: facts of each, its ensemble, a file for each split. */
#include "data/readers/manifest_json.h"
#include "data/readers/strings.h"

#include <string.h>

const char *const cst_ensemble_kinds[] = {"",     "deep-ensemble", "snapshot", "mc-dropout",
                                          "swag", "soup",          NULL};

/* ensemble: {"kind": "deep-ensemble", "of": "resnet14", "passes": 1}. */
static cst_status read_ensemble(const cst_manifest_reader *r, const char *place,
                                const json_t *object, cst_manifest_member *member) {
    static const char *const keys[] = {"kind", "of", "passes", NULL};
    const json_t *ensemble = json_object_get(object, "ensemble");
    if (!ensemble)
        return CST_OK;
    char at[CST_MANIFEST_PLACE_CHARS + 32];
    (void)cst_snprintf(at, sizeof at, "%s.ensemble", place);
    CST_TRY(cst_manifest_check_keys(r, at, ensemble, keys));
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
    static const char *const keys[] = {"path", "ids", NULL};
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
        CST_TRY(cst_manifest_check_keys(r, at, value, keys));
        CST_TRY(check_ids(r, at, value));
        CST_TRY(cst_manifest_resolve_rows(r, at, "path", json_object_get(value, "path"),
                                          &member->paths[split]));
        CST_TRY(cst_manifest_read_rows(r, at, value, "ids", &member->ids[split]));
    }
    return CST_OK;
}

static cst_status read_model(const cst_manifest_reader *r, size_t position, json_t *object) {
    static const char *const keys[] = {"name",     "family",      "flops",
                                       "params",   "latency_ms",  "memory_bytes",
                                       "ensemble", "predictions", NULL};
    char place[CST_MANIFEST_PLACE_CHARS];
    (void)cst_snprintf(place, sizeof place, "models[%zu]", position);
    CST_TRY(cst_manifest_check_keys(r, place, object, keys));
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
