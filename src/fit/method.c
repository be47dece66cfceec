/* Methods by name: parsing, fit, prediction, nested prediction. docs/json.md#compare. */
#include "fit/method.h"

#include "fit/family.h"

#include <corestack/compare.h>

#include <string.h>

/* In the order of reports. */
static const struct preset_text {
    const char *name;
    const char *definition;
    const char *of_values; /* in a regression */
    bool extra;            /* a variant of default */
} PRESETS[] = {
    {"prototype",
     "CoRe-Stack, the paper's prototype: Pearson filter, six fixed features, cross-validated "
     "ridge, inverse-RMSE weights",
     "CoRe-Stack, the paper's prototype: Pearson filter, six fixed features, cross-validated "
     "penalties, inverse-RMSE weights",
     false},
    {"paper",
     "CoRe-Stack+ of the paper: CKA filter, learned gate, penalty lambda*, Laplace "
     "blend",
     "CoRe-Stack+ of the paper: CKA filter, learned gate, penalty lambda*, Laplace "
     "blend",
     false},
    {"compact", "as default, with fewer and cheaper members at up to 0.5% more loss",
     "as default, with fewer and cheaper members at up to 0.5% more error", true},
    {"best", "as default, with every member that may lower the loss",
     "as default, with every member that may lower the error", true},
    {"default",
     "near-duplicates removed, members that add nothing to the pool of all left out, log-linear "
     "pools and calibrated "
     "mixtures blended by stacking",
     "near-duplicates removed, members that add nothing to the blend of all left out, a linear "
     "pool shrunk towards "
     "the good members and blended with bounded mixtures",
     false},
};

/* Preset default where it blends nothing. */
static const char POOL_ALONE[] = "near-duplicates removed, members that add nothing to the pool of "
                                 "all left out, one log-linear pool";

enum { PRESET_COUNT = sizeof PRESETS / sizeof PRESETS[0] };

static const char AUTOGLUON[] = "autogluon";

const char *cst_preset_name(size_t index) {
    return index < PRESET_COUNT ? PRESETS[index].name : NULL;
}

const char *cst_method_name(size_t index) {
    size_t baselines = cst_baseline_count();
    if (index < baselines)
        return cst_baseline_at(index)->name;
    return index == baselines ? AUTOGLUON : cst_preset_name(index - baselines - 1);
}

void cst_method_names(const char *(*name)(size_t index), char list[CST_METHOD_LIST_CHARS]) {
    size_t used = 0;
    list[0] = '\0';
    for (size_t i = 0; name(i); i++) {
        (void)cst_snprintf(list + used, CST_METHOD_LIST_CHARS - used, "%s%s", i ? ", " : "",
                           name(i));
        used = strlen(list);
    }
}

static cst_status unknown(cst_context *context, const char *name) {
    char list[CST_METHOD_LIST_CHARS];
    cst_method_names(cst_method_name, list);
    return cst_fail(context, CST_ERROR_ARGUMENT,
                    "unknown method '%.60s'; the methods are %s, each (except autogluon) with "
                    "+temperature, +vector, +isotonic or +platt if wanted",
                    name, list);
}

/* One of PRESETS, or NULL. */
static const struct preset_text *find_preset(const char *name) {
    for (int i = 0; i < PRESET_COUNT; i++)
        if (strcmp(name, PRESETS[i].name) == 0)
            return &PRESETS[i];
    return NULL;
}

bool cst_method_is_preset(const char *name) {
    return find_preset(name) != NULL;
}

const char *cst_preset_of_values(const char *name) {
    const struct preset_text *preset = find_preset(name);
    return preset ? preset->of_values : NULL;
}

bool cst_method_is_extra(const char *name) {
    const struct preset_text *preset = find_preset(name);
    return (preset && preset->extra) || strcmp(name, "class-wise") == 0;
}

static cst_status set_option(cst_context *context, cst_options *options, const char *setting) {
    char key[CST_METHOD_NAME_CHARS];
    const char *equals = strchr(setting, '=');
    if (!equals || (size_t)(equals - setting) >= sizeof key)
        return cst_fail(context, CST_ERROR_ARGUMENT, "setting '%.60s' is not KEY=VALUE", setting);
    (void)cst_snprintf(key, sizeof key, "%.*s", (int)(equals - setting), setting);
    return cst_options_set(context, options, key, equals + 1);
}

cst_status cst_method_options(cst_context *context, const char *preset, uint64_t seed,
                              const char *const *settings, int32_t setting_count,
                              cst_options **out) {
    char number[32];
    (void)cst_snprintf(number, sizeof number, "%llu", (unsigned long long)seed);
    cst_status status = cst_options_create(context, out);
    CST_THEN(cst_options_preset(context, *out, preset));
    CST_THEN(cst_options_set(context, *out, "seed", number));
    for (int32_t i = 0; status == CST_OK && i < setting_count; i++)
        status = set_option(context, *out, settings[i]);
    if (status != CST_OK) {
        cst_options_free(context, *out);
        *out = NULL;
    }
    return status;
}

cst_status cst_method_settings(cst_context *context, const char *preset, uint64_t seed,
                               const char *const *settings, int32_t setting_count,
                               cst_check_options_fn check, cst_settings *out) {
    cst_options *options = NULL;
    CST_TRY(cst_method_options(context, preset, seed, settings, setting_count, &options));
    cst_status status = check ? check(context, options) : CST_OK;
    if (status == CST_OK)
        cst_settings_read(options, out);
    cst_options_free(context, options);
    return status;
}

cst_status cst_method_parse(cst_context *context, const char *text, uint64_t seed,
                            const char *const *settings, int32_t setting_count, cst_method *out) {
    *out = (cst_method){0};
    if (strlen(text) >= sizeof out->name)
        return unknown(context, text);
    (void)cst_snprintf(out->name, sizeof out->name, "%s", text);
    char base[CST_METHOD_NAME_CHARS];
    (void)cst_snprintf(base, sizeof base, "%s",
                       strcmp(text, AUTOGLUON) == 0 ? "greedy+temperature" : text);
    char *plus = strchr(base, '+');
    if (plus) {
        *plus = '\0';
        if (strcmp(base, AUTOGLUON) == 0)
            return cst_fail(context, CST_ERROR_ARGUMENT,
                            "autogluon is greedy+temperature and already has a calibration map; "
                            "use greedy+%.20s for another",
                            plus + 1);
        out->calibrator = cst_calibrator_find(plus + 1);
        if (out->calibrator == CST_CALIBRATOR_NONE)
            return unknown(context, text);
    }
    out->baseline = cst_baseline_find(base);
    out->added = cst_added_find(context, base);
    const struct preset_text *preset = find_preset(base);
    if (!preset)
        return out->baseline || out->added ? CST_OK : unknown(context, text);
    out->preset = preset->name;
    return cst_method_settings(context, preset->name, seed, settings, setting_count, NULL,
                               &out->settings);
}

const char *cst_method_definition(const cst_method *method) {
    if (method->baseline || method->added)
        return method->baseline ? method->baseline->definition : method->added->definition;
    const struct preset_text *preset = find_preset(method->preset);
    bool alone =
        strcmp(preset->name, "default") == 0 && method->settings.learners == CST_META_LOGLINEAR;
    return alone ? POOL_ALONE : preset->definition;
}

const char *cst_method_describe(const char *name) {
    if (!name)
        return NULL;
    if (strcmp(name, AUTOGLUON) == 0)
        return "AutoGluon's weighted ensemble: greedy selection on the log loss, then "
               "temperature scaling";
    if (cst_calibrator_find(name) != CST_CALIBRATOR_NONE)
        return cst_calibrator_definition(cst_calibrator_find(name));
    const cst_baseline *baseline = cst_baseline_find(name);
    const struct preset_text *preset = find_preset(name);
    return baseline ? baseline->definition : preset ? preset->definition : NULL;
}

enum { ADDED_NAME_CHARS = 40 };

static cst_status check_added(cst_context *context, const cst_method_ops *ops) {
    if (!ops || !ops->name || !ops->fit || !ops->predict)
        return cst_fail(context, CST_ERROR_ARGUMENT,
                        "cst_context_add_method: name, fit and predict are required");
    size_t length = strlen(ops->name);
    if (length == 0 || length > ADDED_NAME_CHARS || strpbrk(ops->name, "+,"))
        return cst_fail(context, CST_ERROR_ARGUMENT,
                        "'%.80s': the name of a method of your own must have 1 to %d characters "
                        "and no '+' or ','",
                        ops->name, ADDED_NAME_CHARS);
    if (strcmp(ops->name, "all") == 0 || cst_method_describe(ops->name) ||
        cst_added_find(context, ops->name))
        return cst_fail(context, CST_ERROR_ARGUMENT,
                        "'%s' cannot be the name of a method of your own: it is that of another; "
                        "give it a new name",
                        ops->name);
    return CST_OK;
}

cst_status cst_context_add_method(cst_context *context, const cst_method_ops *ops_given) {
    CST_ENTER(context);
    CST_STRUCT(context, cst_method_ops, ops, ops_given);
    CST_TRY(check_added(context, ops));
    return cst_why(context, cst_added_keep(context, ops));
}

static cst_status fit_baseline(cst_context *context, const cst_training *source, uint64_t seed,
                               cst_method_fit *out) {
    const cst_baseline_data data = {.view = &source->view,
                                    .folds = source->folds,
                                    .fold_count = source->fold_count,
                                    .seed = seed,
                                    .ensembles = source->ensembles};
    CST_TRY(cst_baseline_fit_run(context, out->method.baseline, &data, &out->baseline));
    memcpy(out->uses, out->baseline.uses, (size_t)out->members * sizeof *out->uses);
    memcpy(out->weights, out->baseline.weights, (size_t)out->members * sizeof *out->weights);
    out->mix = out->baseline.mix;
    return CST_OK;
}

static cst_status fit_added(cst_context *context, const cst_training *source, uint64_t seed,
                            cst_method_fit *out) {
    out->mix = CST_MIX_OTHER;
    for (int32_t k = 0; k < out->members; k++)
        out->uses[k] = true;
    return cst_added_fit_run(context, out->method.added, &source->view, seed, &out->added);
}

/* The weights of a stack whose blend is a log-linear pool alone. */
static void stack_weights(const cst_stages *stages, cst_method_fit *out) {
    const cst_model *model = stages->fit.model;
    out->mix = CST_MIX_OTHER;
    if (!model || model->learners != 1 || model->learner[0].kind != CST_LEARNER_LOGLINEAR)
        return;
    out->mix = CST_MIX_LOGLINEAR;
    for (int32_t j = 0; j < stages->kept_count; j++)
        out->weights[stages->kept[j]] = model->learner[0].weights[j];
}

static cst_status fit_preset(cst_context *context, const cst_training *source,
                             cst_method_fit *out) {
    const cst_settings *settings = &out->method.settings;
    cst_view view = source->view;
    cst_costs costs = cst_training_costs(source);
    cst_run run = cst_run_of(&cst_classification_family, &view, source->folds, source->fold_count,
                             settings, &costs);
    CST_SCOPE(scope);
    CST_TRY(cst_stages_attach(context, scope, source, settings, &view));
    CST_TRY(cst_stages_run(context, &run, &out->stages));
    for (int32_t j = 0; j < out->stages.kept_count; j++)
        out->uses[out->stages.kept[j]] = true;
    stack_weights(&out->stages, out);
    return CST_OK;
}

static cst_status fit_calibrator(cst_context *context, const cst_training *source, uint64_t seed,
                                 cst_method_fit *out) {
    const cst_view *view = &source->view;
    cst_method plain = out->method;
    size_t cells = 0;
    cst_training whole = *source; /* every row is needed, so folds in time are left out in turn */
    plain.calibrator = CST_CALIBRATOR_NONE;
    whole.time = NULL;
    if (!cst_size_mul((size_t)view->rows, (size_t)view->classes, &cells))
        return cst_fail(context, CST_ERROR_LIMIT, "too many predictions");
    CST_SCOPE(scope);
    CST_NEW(context, scope, float, own, cells);
    CST_TRY(out->mix != CST_MIX_OTHER ? cst_method_fit_predict(context, out, view, own)
                                      : cst_method_nested(context, &plain, &whole, seed, own));
    return cst_calibrator_fit_view(context, out->method.calibrator, view, own, &out->calibrator);
}

cst_status cst_method_fit_run(cst_context *context, const cst_method *method,
                              const cst_training *source, uint64_t seed, cst_method_fit *out) {
    double start = cst_seconds();
    cst_training right;
    CST_SCOPE(scope);
    if (method->preset && source->wrong) {
        CST_TRY(cst_training_right(context, scope, source, &right));
        source = &right;
    }
    *out = (cst_method_fit){
        .method = *method, .members = source->view.members, .classes = source->view.classes};
    CST_TAKE(context, &out->scope, out->uses, out->members);
    CST_TAKE(context, &out->scope, out->weights, out->members);
    CST_TRY(method->added      ? fit_added(context, source, seed, out)
            : method->baseline ? fit_baseline(context, source, seed, out)
                               : fit_preset(context, source, out));
    if (method->calibrator != CST_CALIBRATOR_NONE)
        CST_TRY(fit_calibrator(context, source, seed, out));
    for (int32_t k = 0; k < out->members; k++)
        out->used += out->uses[k];
    if (out->mix == CST_MIX_OTHER)
        out->weights = NULL;
    out->seconds = cst_seconds() - start;
    return CST_OK;
}

/* By a model of the members kept [count]. */
static cst_status predict_model(cst_context *context, const cst_model *model, const int32_t *kept,
                                int32_t count, const cst_view *view, float *out) {
    CST_SCOPE(scope);
    CST_NEW(context, scope, const float *, pointers, count);
    cst_view part = cst_view_members(view, kept, count, pointers);
    return cst_stack_predict(context, model, &part, out);
}

cst_status cst_method_fit_predict(cst_context *context, const cst_method_fit *fit,
                                  const cst_view *view, float *out) {
    CST_TRY(fit->method.added      ? cst_added_predict(context, &fit->added, view, out)
            : fit->method.baseline ? cst_baseline_predict(context, &fit->baseline, view, out)
                                   : predict_model(context, fit->stages.fit.model, fit->stages.kept,
                                                   fit->stages.kept_count, view, out));
    return cst_calibrator_apply(context, &fit->calibrator, out, view->rows);
}

void cst_method_fit_free(cst_context *context, cst_method_fit *fit) {
    cst_baseline_fit_free(context, &fit->baseline);
    cst_added_fit_free(context, &fit->added);
    cst_stages_free(context, &fit->stages);
    cst_calibrator_free(context, &fit->calibrator);
    cst_scope_free(&fit->scope);
    *fit = (cst_method_fit){0};
}

cst_status cst_stages_take_model(cst_context *context, cst_stages *stages, cst_made_model *out) {
    size_t kept = (size_t)stages->kept_count;
    out->kept = cst_alloc(context, kept, sizeof *out->kept);
    if (!out->kept)
        return CST_ERROR_MEMORY;
    memcpy(out->kept, stages->kept, kept * sizeof *out->kept);
    out->model = stages->fit.model;
    stages->fit.model = NULL;
    return CST_OK;
}

cst_status cst_method_fit_model(cst_context *context, cst_method_fit *fit, cst_made_model *out) {
    int32_t count = 0;
    *out = (cst_made_model){0};
    if (fit->method.added)
        return cst_added_refuse_model(context, fit->method.added);
    if (fit->method.baseline) {
        CST_TRY(cst_members_used(context, fit->uses, fit->members, &out->kept, &count));
        CST_TRY(cst_baseline_fit_model(context, &fit->baseline, out->kept, count, &out->model));
    } else {
        CST_TRY(cst_stages_take_model(context, &fit->stages, out));
    }
    out->model->calibrator = fit->calibrator;
    fit->calibrator = (cst_calibrator){0};
    return cst_scope_own(context, &out->model->scope, cst_calibrator_release,
                         &out->model->calibrator);
}

void cst_made_model_free(cst_context *context, cst_made_model *made) {
    cst_model_free(context, made->model);
    cst_free(context, made->kept);
    *made = (cst_made_model){0};
}

cst_status cst_method_fit_without(cst_context *context, const cst_method *method,
                                  const cst_training *source, int32_t fold, uint64_t seed,
                                  cst_method_fit *out) {
    cst_fold_rows rows;
    *out = (cst_method_fit){0};
    CST_SCOPE(scope);
    CST_TRY(cst_fold_rows_make(context, scope, source, fold, seed, &rows));
    return cst_method_fit_run(context, method, &rows.inside, seed, out);
}

CST_OWNED(cst_method_fit)

typedef struct nested_job {
    const cst_method *method;
    const cst_training *source;
    uint64_t seed;
    float *out;
} nested_job;

static cst_status nested_task(cst_context *context, void *user, const cst_fold_rows *rows) {
    const nested_job *job = user;
    const cst_training *source = job->source;
    size_t classes = (size_t)source->view.classes;
    cst_method_fit fit = {0};
    CST_SCOPE(scope);
    CST_NEW(context, scope, float, part, ((size_t)rows->held.rows * classes));
    CST_OWN(context, scope, cst_method_fit, &fit);
    CST_TRY(cst_method_fit_run(context, job->method, &rows->inside, job->seed, &fit));
    CST_TRY(cst_method_fit_predict(context, &fit, &rows->held, part));
    cst_fold_scatter(source->folds, source->view.rows, rows->fold, classes, part, job->out);
    return CST_OK;
}

cst_status cst_method_nested(cst_context *context, const cst_method *method,
                             const cst_training *source, uint64_t seed, float *out) {
    cst_training shared = *source;
    nested_job job = {method, &shared, seed, out};
    const cst_fold_result held = {out, (size_t)source->view.classes};
    CST_SCOPE(scope);
    if (method->preset)
        CST_TRY(cst_stages_attach(context, scope, source, &method->settings, &shared.view));
    return cst_nested_run(context, &shared, seed, nested_task, &job, &held, 1);
}
