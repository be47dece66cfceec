/* The splits of a manifest: files, conditions and the clean splits they belong to. */
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
    static const char *const keys[] = {"shift", "kind", "severity", NULL};
    if (!list)
        return CST_OK;
    size_t count = json_array_size(list);
    if (!json_is_array(list) || count == 0 || count > 1000000)
        return cst_manifest_wrong(r, place, "conditions", "a non-empty list of objects");
    split->conditions = cst_alloc(r->context, count, sizeof *split->conditions);
    if (!split->conditions)
        return CST_ERROR_MEMORY;
    split->condition_count = (int32_t)count;
    for (size_t i = 0; i < count; i++) {
        char at[CST_MANIFEST_PLACE_CHARS + 32];
        (void)cst_snprintf(at, sizeof at, "%s.conditions[%zu]", place, i);
        const json_t *item = json_array_get(list, i);
        cst_manifest_condition *condition = &split->conditions[i];
        CST_TRY(cst_poll_item(r->context, (int64_t)i));
        CST_TRY(cst_manifest_check_keys(r, at, item, keys));
        CST_TRY(cst_manifest_read_text(r, at, item, "shift", &condition->shift));
        CST_TRY(cst_manifest_read_text(r, at, item, "kind", &condition->kind));
        CST_TRY(cst_manifest_read_number(r, at, item, "severity", &condition->severity));
    }
    return check_conditions(r, place, split);
}

static cst_status read_split(const cst_manifest_reader *r, const char *name, const json_t *object) {
    static const char *const keys[] = {"labels",  "targets",    "annotations", "ids",   "folds",
                                       "groups",  "conditions", "ood",         "clean", "domain",
                                       "domains", "weights",    NULL};
    char place[CST_MANIFEST_PLACE_CHARS];
    char quoted[CST_QUOTE_CHARS];
    (void)cst_snprintf(place, sizeof place, "splits.%s", cst_quote(quoted, name));
    CST_TRY(cst_manifest_check_keys(r, place, object, keys));
    CST_TRY(cst_manifest_check_task_keys(r, place, object, true));
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
                 {"domains", &split->domains}};
    CST_TRY(cst_manifest_read_path(r, place, object, "annotations", &split->annotations));
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
