/* A model file as a report, and whether a pool is the one it was fitted on. docs/json.md#show. */
#include "fit/harness.h"

#include "core/options.h"
#include "fit/document.h"
#include "fit/label.h"
#include "model/fit_rows.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The next number of "1e9,-,3", which *list moves past: NaN where there is none. */
static double next_number(const char **list) {
    const char *at = *list;
    const char *comma = at ? strchr(at, ',') : NULL;
    *list = comma ? comma + 1 : NULL;
    return !at || *at == '-' || !*at ? NAN : cst_strtod(at, NULL);
}

static void put_members(cst_report *report, const cst_model *model) {
    json_t *root = cst_report_root(report);
    json_t *list = cst_report_list(report, root, "members");
    const char *flops = cst_model_value(model, "members.flops");
    const char *latency = cst_model_value(model, "members.latency_ms");
    double total[2] = {0, 0};
    for (int32_t k = 0; k < cst_model_inputs(model); k++) {
        double cost[2] = {next_number(&flops), next_number(&latency)};
        json_t *member = cst_report_add_object(report, list);
        CST_PUT(report, member, CST_S("name", cst_model_input_name(model, k)),
                CST_N("weight", cst_model_member_weight(model, k)), CST_N("flops", cost[0]),
                CST_N("latency_ms", cost[1]));
        total[0] += cost[0];
        total[1] += cost[1];
    }
    CST_PUT(report, root, CST_N("flops", total[0]), CST_N("latency_ms", total[1]));
}

/* Those of a regression, "linear-pool 0.7,average 0.3", which are one linear function. */
static void put_blended(cst_report *report, json_t *list, const char *blend) {
    char name[64];
    while (*blend) {
        size_t length = strcspn(blend, " ");
        size_t end = strcspn(blend, ",");
        if (length >= sizeof name || length >= end)
            return;
        memcpy(name, blend, length);
        name[length] = '\0';
        json_t *entry = cst_report_add_object(report, list);
        CST_PUT(report, entry, CST_S("name", name),
                CST_N("weight", cst_strtod(blend + length + 1, NULL)));
        blend += end + (blend[end] == ',');
    }
}

static void put_learners(cst_report *report, const cst_model *model) {
    static const char *const maps[] = {"clip", "simplex", "mixture", "fine clip"};
    static const char *const gates[] = {"none", "prototype", "learned"};
    static const char *const rules[] = {"learners", "best-single", "average",        "wbf",
                                        "nms",      "soft-nms",    "soft-nms-linear"};
    json_t *root = cst_report_root(report);
    json_t *list = cst_report_list(report, root, "learners");
    bool linear = false;
    const char *blend = cst_task_has_outputs(model->task) ? cst_model_value(model, "blend") : NULL;
    if (blend)
        put_blended(report, list, blend);
    for (int32_t l = 0; !blend && l < model->learners; l++) {
        const cst_learner *learner = &model->learner[l];
        json_t *entry = cst_report_add_object(report, list);
        CST_PUT(report, entry, CST_S("name", cst_learner_title(learner)),
                CST_N("weight", learner->blend));
        linear = linear || cst_learner_is_linear(learner->kind);
    }
    const char *suppressed = cst_model_value(model, "gate.suppressed");
    if (suppressed)
        cst_report_string(report, root, "gate_suppresses", suppressed);
    CST_PUT(report, root, CST_S("gate", gates[model->gate.mode]),
            CST_S("map", linear && !cst_task_has_outputs(model->task) ? maps[model->map] : NULL));
    if (model->fusion)
        cst_report_string(report, root, "boxes", rules[model->fusion->rule]);
    const cst_calibrator *map = &model->calibrator;
    if (map->kind == CST_CALIBRATOR_NONE) {
        cst_report_value(report, root, "calibration", json_null());
    } else {
        json_t *entry = cst_report_object(report, root, "calibration");
        CST_PUT(report, entry, CST_S("name", cst_calibrator_name(map->kind)),
                CST_S("detail", map->detail));
    }
    (void)cst_document_domains(report, model->domains);
    cst_report_flag(report, root, "absent_members", model->refits != NULL);
}

/* Names where the model has them; a list otherwise empty. */
static void put_classes(cst_report *report, const cst_model *model) {
    json_t *root = cst_report_root(report);
    const cst_fusion *fusion = model->fusion;
    bool values = cst_task_has_outputs(model->task);
    int32_t count = fusion ? fusion->categories : model->classes;
    cst_report_integer(report, root, values ? "outputs" : "classes", count);
    json_t *list = cst_report_list(report, root, values ? "output_names" : "class_names");
    for (int32_t c = 0; c < count; c++) {
        const char *name = fusion ? fusion->category_name[c] : cst_model_class_name(model, c);
        if (name)
            cst_report_add_string(report, list, name);
    }
}

/* A whole number at the start of a setting's value; -1 where there is none. */
static int64_t whole(const char *text) {
    return text && *text >= '0' && *text <= '9' ? (int64_t)strtoll(text, NULL, 10) : -1;
}

static void put_whole(cst_report *report, json_t *object, const char *key, int64_t value) {
    if (value >= 0)
        cst_report_integer(report, object, key, value);
    else
        cst_report_value(report, object, key, json_null());
}

static void put_fit(cst_report *report, const cst_model *model) {
    json_t *root = cst_report_root(report);
    json_t *fit = cst_report_object(report, root, "fitted_on");
    const char *folds = cst_model_value(model, "split.folds");
    const char *source = folds ? strchr(folds, ':') : NULL;
    cst_report_string(report, fit, "split", cst_model_value(model, "split"));
    put_whole(report, fit, "samples", whole(cst_model_value(model, "split.samples")));
    put_whole(report, fit, "members", whole(cst_model_value(model, "split.members")));
    put_whole(report, fit, "folds", whole(folds));
    cst_report_string(report, fit, "folds_source", source ? source + 1 : NULL);
    put_whole(report, fit, "seed", whole(cst_model_value(model, "seed")));
    cst_report_string(report, fit, "pool_hash", cst_model_value(model, "split.pool"));
}

static void put_adaptation(cst_report *report, const cst_model *model) {
    json_t *root = cst_report_root(report);
    const char *step = cst_model_value(model, CST_ADAPTED_KEY ".step");
    if (!model->adapted)
        return;
    json_t *object = cst_report_object(report, root, "adapted_to");
    CST_PUT(report, object, CST_S("split", cst_model_value(model, CST_ADAPTED_KEY)),
            CST_I("samples", model->adapted->rows),
            CST_N("step", step ? cst_strtod(step, NULL) : NAN),
            CST_N("scale", model->adapted->scale), CST_I("returned", model->adapted->extra));
}

CST_OWNED(cst_options)

static cst_status put_changed(cst_context *context, cst_report *report, const cst_model *model) {
    json_t *changed = cst_report_object(report, cst_report_root(report), "changed");
    const char *preset = cst_model_value(model, "preset");
    cst_options *defaults = NULL;
    cst_options *own = NULL;
    CST_SCOPE(scope);
    CST_TRY(cst_options_create(context, &defaults));
    CST_OWN(context, scope, cst_options, defaults);
    CST_TRY(cst_options_create(context, &own));
    CST_OWN(context, scope, cst_options, own);
    if (preset && cst_options_preset(context, defaults, preset) != CST_OK)
        preset = NULL; /* of another version */
    for (int64_t i = 0; preset && i < CST_OPT_COUNT; i++) {
        const char *key = cst_option_at(i)->key;
        const char *value = cst_model_value(model, key);
        if (!value || strcmp(value, cst_options_get(defaults, key)) == 0 ||
            strcmp(key, "seed") == 0)
            continue;
        cst_option_id id = (cst_option_id)i;
        bool known = cst_options_restore(context, own, key, value) == CST_OK;
        bool words = cst_option_at(i)->type == CST_OPTION_TEXT;
        double difference = cst_option_real(own, id) - cst_option_real(defaults, id);
        if (known && !words && difference >= 0 && difference <= 0)
            continue;
        json_t *entry = cst_report_object(report, changed, key);
        CST_PUT(report, entry, CST_S("value", value),
                CST_S("preset", cst_options_get(defaults, key)));
    }
    return CST_OK;
}

static cst_status put_settings(cst_context *context, cst_report *report, const cst_model *model) {
    json_t *settings = cst_report_object(report, cst_report_root(report), "settings");
    for (size_t i = 0; i < model->settings; i++) {
        const char *equals = strchr(model->setting[i], '=');
        char *key = cst_strdup(context, model->setting[i]);
        if (!key)
            return CST_ERROR_MEMORY;
        if (equals) {
            key[equals - model->setting[i]] = '\0';
            cst_report_string(report, settings, key, equals + 1);
        }
        cst_free(context, key);
    }
    return CST_OK;
}

/* The members of sets that are told by who joined and who left the one before. */
static void put_sets(cst_report *report, const json_t *list) {
    json_t *set = json_object();
    json_t *entry;
    json_t *name;
    const char *key;
    size_t i;
    size_t j;
    json_array_foreach(list, i, entry) {
        json_array_foreach(json_object_get(entry, "added"), j, name) {
            (void)json_object_set_new(set, json_string_value(name), json_null());
        }
        json_array_foreach(json_object_get(entry, "removed"), j, name) {
            (void)json_object_del(set, json_string_value(name));
        }
        if (json_object_size(set) > CST_SET_LISTED)
            continue;
        json_t *names = cst_report_list(report, entry, "members");
        json_object_foreach(set, key, name) {
            cst_report_add_string(report, names, key);
        }
    }
    json_decref(set);
}

/* What the fit's document had, as far as the model keeps it. */
static void put_history(cst_report *report, const cst_model *model) {
    if (json_object_size(model->history) == 0)
        return;
    json_t *fit = json_deep_copy(model->history);
    cst_report_value(report, cst_report_root(report), "fit", fit);
    put_sets(report, json_object_get(fit, "path"));
    put_sets(report, cst_report_find(fit, "front.points"));
}

typedef struct show_call {
    const cst_task_ops *ops;
    const cst_model *model;
    cst_pool *pool; /* NULL: none */
    const char *split;
} show_call;

static cst_status put_pool(cst_context *context, cst_report *report, const show_call *c) {
    const char *fitted = cst_model_value(c->model, "split.pool");
    const char *named = cst_model_value(c->model, "split");
    const char *split = c->split ? c->split : named ? named : "oof";
    char text[CST_HASH_CHARS];
    uint64_t hash = 0;
    if (!cst_pool_has_split(c->pool, split))
        return cst_fail_split(context, CST_ERROR_MISMATCH, c->pool, split);
    CST_TRY(c->ops->hash(context, c->pool, split, &hash));
    cst_hash_text(hash, text);
    json_t *object = cst_report_object(report, cst_report_root(report), "pool");
    CST_PUT(report, object, CST_S("split", split), CST_S("hash", text));
    cst_report_flag_where(report, object, "fitted_on", fitted != NULL,
                          fitted && strcmp(fitted, text) == 0);
    return CST_OK;
}

static cst_status fill(cst_context *context, void *user, cst_report *report) {
    const show_call *c = user;
    const cst_model *model = c->model;
    json_t *root = cst_report_root(report);
    const char *method = cst_model_value(model, "method");
    uint8_t *bytes = NULL;
    size_t size = 0;
    CST_TRY(cst_stack_encode(context, model, &bytes, &size));
    cst_free(context, bytes);
    CST_PUT(report, root, CST_S("model", NULL), CST_I("bytes", (int64_t)size),
            CST_S("modified", NULL), CST_S("corestack", cst_model_value(model, "corestack")),
            CST_S("task", cst_task_name(model->task)), CST_S("method", method),
            CST_S("preset", method ? NULL : cst_model_value(model, "preset")));
    put_classes(report, model);
    put_members(report, model);
    put_learners(report, model);
    if (model->decision)
        cst_report_string(report, root, "decisions", model->decision->costs ? "costs" : "offsets");
    cst_document_cascade(report, model);
    put_fit(report, model);
    put_adaptation(report, model);
    CST_TRY(put_changed(context, report, model));
    CST_TRY(put_settings(context, report, model));
    put_history(report, model);
    return c->pool ? put_pool(context, report, c) : CST_OK;
}

cst_status cst_run_show(cst_context *context, const cst_task_ops *ops, const cst_model *model,
                        cst_pool *pool, const char *split, cst_report **report) {
    show_call call = {ops, model, pool, split};
    return cst_run_call(context, CST_REPORT_SHOW, fill, &call, report);
}
