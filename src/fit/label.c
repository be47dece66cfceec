/* Names and settings of a fitted model. See the header. */
#include "fit/label.h"

#include "core/options.h"
#include "model/fit_rows.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

enum { OWN_SETTINGS = 11 }; /* besides the options and those of cst_fitted_on_note */

void cst_hash_text(uint64_t hash, char text[CST_HASH_CHARS]) {
    (void)cst_snprintf(text, CST_HASH_CHARS, "%016" PRIx64, hash);
}

static cst_status name_members(cst_context *context, const cst_fit_origin *o, cst_model *model) {
    CST_TAKE(context, &model->scope, model->member_names, model->members);
    for (int32_t j = 0; j < model->members; j++) {
        const char *name = cst_pool_member_name(o->pool, o->kept[j]);
        if (!(model->member_names[j] = cst_take_text(context, &model->scope, name)))
            return CST_ERROR_MEMORY;
    }
    return CST_OK;
}

static cst_status name_classes(cst_context *context, const cst_fit_origin *o, cst_model *model) {
    if (cst_pool_task(o->pool) == CST_TASK_DETECTION || !cst_pool_class_name(o->pool, 0))
        return CST_OK;
    CST_TAKE(context, &model->scope, model->class_names, model->classes);
    for (int32_t c = 0; c < model->classes; c++) {
        const char *name = cst_pool_class_name(o->pool, c);
        if (!(model->class_names[c] = cst_take_text(context, &model->scope, name)))
            return CST_ERROR_MEMORY;
    }
    return CST_OK;
}

/* text: of the model's scope; NULL is one that there was no memory for. */
static cst_status add(cst_model *model, char *text) {
    if (!text)
        return CST_ERROR_MEMORY;
    model->setting[model->settings++] = text;
    return CST_OK;
}

/* "members.flops=1.2e9,-,3e9" in the model's order; nothing if no cost is known. */
static cst_status add_costs(cst_context *context, const cst_fit_origin *o, const char *key,
                            const double *costs, cst_model *model) {
    cst_buffer text = {.context = context};
    bool known = false;
    cst_buffer_add_text(&text, key);
    for (int32_t j = 0; costs && j < model->members; j++) {
        char number[40] = "-";
        double cost = costs[o->kept[j]];
        if (isfinite(cost))
            (void)cst_snprintf(number, sizeof number, "%.17g", cost);
        known = known || isfinite(cost);
        cst_buffer_add_text(&text, j ? "," : "=");
        cst_buffer_add_text(&text, number);
    }
    CST_TRY(cst_scope_own(context, &model->scope, cst_free, text.bytes));
    CST_TRY(text.status);
    return known ? add(model, text.bytes) : CST_OK;
}

cst_status cst_fit_label(cst_context *context, const cst_fit_origin *o, cst_model *model) {
    size_t options = (size_t)cst_option_count();
    char hash[CST_HASH_CHARS];
    size_t noted = 0;
    CST_TRY(name_members(context, o, model));
    CST_TRY(name_classes(context, o, model));
    cst_scope *scope = &model->scope;
    CST_TAKE(context, scope, model->setting, options + CST_FITTED_ON_SETTINGS + OWN_SETTINGS);
    CST_TRY(add(model, cst_take_format(context, scope, "corestack=%s", cst_version())));
    CST_TRY(add(model,
                cst_take_format(context, scope, "preset=%s", cst_options_preset_name(o->options))));
    if (o->method)
        CST_TRY(add(model, cst_take_format(context, scope, "method=%s", o->method)));
    if (model->suppressed)
        CST_TRY(
            add(model, cst_take_format(context, scope, "gate.suppressed=%s", model->suppressed)));
    if (model->blend)
        CST_TRY(add(model, cst_take_format(context, scope, "blend=%s", model->blend)));
    for (int64_t i = 0; i < cst_option_count(); i++) {
        const char *key = cst_option_at(i)->key;
        const char *value = cst_options_get(o->options, key);
        if (strncmp(key, "cascade", strlen("cascade")) == 0 &&
            !cst_option_flag(o->options, CST_OPT_CASCADE))
            continue;
        bool file = i == CST_OPT_METRIC && strncmp(value, "cost=", 5) == 0; /* the model has it */
        CST_TRY(add(model, cst_take_format(context, scope, "%s=%s", key, file ? "cost" : value)));
    }
    CST_TRY(cst_fitted_on_note(context, scope, CST_FITTED_KEY, o->split, o->labels, o->label_count,
                               o->rows, model->setting + model->settings, &noted));
    model->settings += noted;
    cst_hash_text(o->hash, hash);
    CST_TRY(add(model, cst_take_format(context, scope, "split.samples=%" PRId64, o->samples)));
    CST_TRY(add(model, cst_take_format(context, scope, "split.folds=%d:%s",
                                       (int)o->source->fold_count - cst_training_first(o->source),
                                       cst_training_folds_source(o->source))));
    CST_TRY(add(model, cst_take_format(context, scope, "split.members=%d",
                                       (int)cst_pool_members(o->pool))));
    CST_TRY(add(model, cst_take_format(context, scope, "split.pool=%s", hash)));
    CST_TRY(add_costs(context, o, "members.flops", o->source->flops, model));
    return add_costs(context, o, "members.latency_ms", o->source->latency, model);
}

cst_status cst_fit_label_rows(cst_context *context, const cst_pool *pool, const char *split,
                              const cst_training *source, const cst_options *options,
                              const char *method, const int32_t *kept, cst_model *model) {
    CST_SCOPE(scope);
    CST_NEW(context, scope, const float *, pointers, model->members);
    CST_NEW(context, scope, const float *, all, model->members);
    cst_view rows = cst_view_members(&source->view, kept, model->members, pointers);
    /* The split is recognised by all of its rows. */
    bool some = source->kept.samples > 0;
    cst_view known =
        some ? cst_view_members(&source->counted.view, kept, model->members, all) : rows;
    cst_fit_origin origin = {.pool = pool,
                             .split = split,
                             .options = options,
                             .method = method,
                             .labels = known.labels,
                             .label_count = known.rows,
                             .rows = &known,
                             .kept = kept,
                             .source = source,
                             .samples = source->view.rows};
    CST_TRY(cst_pool_hash(context, pool, split, &origin.hash));
    CST_TRY(cst_fit_label(context, &origin, model));
    return cst_fit_reference(context, pool, source, &rows, kept, model);
}

cst_status cst_hash_rows(cst_context *context, cst_pool *pool, const char *split, uint64_t *out) {
    CST_TRY(cst_pool_load(context, pool, split));
    return cst_pool_hash(context, pool, split, out);
}

cst_status cst_fit_relabel(cst_context *context, cst_model *model, const char *key,
                           const char *value) {
    size_t length = strlen(key);
    for (size_t i = 0; i < model->settings; i++) {
        if (strncmp(model->setting[i], key, length) != 0 || model->setting[i][length] != '=')
            continue;
        char *text = cst_take_format(context, &model->scope, "%s=%s", key, value);
        if (!text)
            return CST_ERROR_MEMORY;
        model->setting[i] = text;
    }
    return CST_OK;
}
