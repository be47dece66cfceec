/*
 * Methods of a regression by name, and what each gives on the rows that it is scored on. Behind
 * comparisons. Paper: section "Experimental Setup"; docs/regression.md.
 */
#include "tasks/regression/methods.h"

#include "model/values.h"
#include "tasks/regression/check.h"

#include "stats/statistics.h"
#include <corestack/compare.h>

#include <math.h>
#include <string.h>

static const struct value_preset {
    const char *name;
    const char *definition;
} PRESETS[] = {
    {"prototype", "CoRe-Stack, the paper's prototype: Pearson filter, six fixed "
                  "features, cross-validated penalties, inverse-RMSE weights"},
    {"paper", "CoRe-Stack+ of the paper: CKA filter, learned gate, penalty lambda*, Laplace "
              "blend, refit"},
    {"compact", "as default, with at most 60% of the members"},
    {"best", "as default, with every member that may lower the error"},
    {"default", "near-duplicates removed, members selected by held-out error, a linear pool shrunk "
                "towards the good members and blended with bounded mixtures"},
};

enum { PRESET_COUNT = sizeof PRESETS / sizeof PRESETS[0] };

/* ---- by name ---- */

const char *cst_value_method_name(size_t index) {
    size_t baselines = 0;
    for (; cst_value_baseline_at(baselines); baselines++)
        if (baselines == index)
            return cst_value_baseline_at(index)->name;
    return index < baselines + PRESET_COUNT ? PRESETS[index - baselines].name : NULL;
}

static cst_status unknown(cst_context *context, const char *text) {
    char list[512] = "";
    for (size_t i = 0; cst_value_method_name(i); i++) {
        size_t used = strlen(list);
        (void)cst_snprintf(list + used, sizeof list - used, "%s%s", i ? ", " : "",
                           cst_value_method_name(i));
    }
    bool known = strchr(text, '+') || cst_method_describe(text);
    return cst_fail(context, known ? CST_ERROR_UNSUPPORTED : CST_ERROR_ARGUMENT,
                    known
                        ? "method '%.60s' is for classification; the methods for regression are %s"
                        : "unknown method '%.60s'; the methods for regression are %s",
                    text, list);
}

static cst_status read_settings(cst_context *context, const char *preset, uint64_t seed,
                                const char *const *settings, int32_t count, cst_settings *out) {
    cst_options *options = NULL;
    cst_status status = cst_method_options(context, preset, seed, settings, count, &options);
    CST_THEN(cst_value_check_options(context, options));
    if (status == CST_OK)
        cst_settings_read(options, out);
    cst_options_free(context, options);
    return status;
}

cst_status cst_value_method_parse(cst_context *context, const char *text, uint64_t seed,
                                  const char *const *settings, int32_t setting_count,
                                  cst_value_method *out) {
    *out = (cst_value_method){0};
    (void)cst_snprintf(out->name, sizeof out->name, "%s", text);
    out->baseline = cst_value_baseline_find(text);
    if (out->baseline) {
        out->definition = out->baseline->definition;
        return CST_OK;
    }
    for (int i = 0; i < PRESET_COUNT; i++)
        if (strcmp(text, PRESETS[i].name) == 0) {
            out->preset = PRESETS[i].name;
            out->definition = PRESETS[i].definition;
            return read_settings(context, out->preset, seed, settings, setting_count,
                                 &out->settings);
        }
    return unknown(context, text);
}

/* ---- a baseline's fit ---- */

/* Linear functions in units of the targets, and the noise beside them. */
typedef struct linear_fit {
    double *weights;          /* [outputs][members] */
    double *intercept;        /* [outputs] */
    double *noise;            /* [outputs] */
    cst_ensemble_choice tagged; /* of the first output */
    bool differs;             /* another output has another group */
} linear_fit;

static void linear_free(cst_context *context, linear_fit *fit) {
    cst_free(context, fit->weights);
    cst_free(context, fit->intercept);
    cst_free(context, fit->noise);
    *fit = (linear_fit){0};
}

/* Mean squared error on folds that the fit has not seen, and so the noise. */
static cst_status cross_noise(cst_context *context, const cst_value_baseline *baseline,
                              const cst_member_ensemble *tags, const cst_moments *moments,
                              double *weights, double *out) {
    double sum = 0;
    double rows = 0;
    cst_status status = CST_OK;
    for (int32_t f = 0; status == CST_OK && f < moments->folds; f++) {
        cst_moments in = {0};
        double intercept = 0;
        double count = 0;
        status = cst_value_moments_part(context, moments, f, NULL, 0, &in);
        CST_THEN(cst_value_baseline_fit(context, baseline, tags, &in, weights, &intercept, NULL));
        if (status == CST_OK)
            sum += cst_moments_loss(moments, f, weights, intercept, &count);
        rows += count;
        cst_moments_free(context, &in);
    }
    *out = rows > 0 ? sum / rows : 0;
    return status;
}

/* Fits each output on the moments of all folds but `without` (negative: all). */
static cst_status fit_linear(cst_context *context, const cst_value_place *place,
                             const cst_value_baseline *baseline, int32_t without, linear_fit *out) {
    size_t members = (size_t)place->source->view.members;
    size_t outputs = (size_t)place->source->view.classes;
    const cst_member_ensemble *tags = place->source->ensembles;
    double *scratch = cst_alloc(context, members, sizeof *scratch);
    out->weights = cst_alloc(context, outputs * members, sizeof *out->weights);
    out->intercept = cst_alloc(context, outputs, sizeof *out->intercept);
    out->noise = cst_alloc(context, outputs, sizeof *out->noise);
    cst_status status =
        scratch && out->weights && out->intercept && out->noise ? CST_OK : CST_ERROR_MEMORY;
    for (size_t d = 0; status == CST_OK && d < outputs; d++) {
        cst_moments moments = {0};
        double *weights = out->weights + d * members;
        double intercept = 0;
        double location = place->scaling->location[d];
        double scale = place->scaling->scale[d];
        cst_ensemble_choice tagged = {0};
        status = cst_value_moments_part(context, &place->moments[d], without, NULL, 0, &moments);
        CST_THEN(cst_value_baseline_fit(context, baseline, tags, &moments, weights, &intercept,
                                        &tagged));
        if (d == 0)
            out->tagged = tagged;
        out->differs = out->differs || tagged.first != out->tagged.first;
        if (status == CST_OK && moments.folds > 1)
            status = cross_noise(context, baseline, tags, &moments, scratch, &out->noise[d]);
        else if (status == CST_OK) {
            double rows = 0;
            double loss = cst_moments_loss(&moments, -1, weights, intercept, &rows);
            out->noise[d] = loss / rows;
        }
        out->noise[d] = fmax(out->noise[d] * scale * scale, 1e-300);
        out->intercept[d] = location + scale * intercept;
        for (size_t j = 0; j < members; j++)
            out->intercept[d] -= weights[j] * location;
        cst_moments_free(context, &moments);
    }
    cst_free(context, scratch);
    return status;
}

/* Which tagged group was taken, as the classification's baselines tell it. */
static void describe_group(const linear_fit *fit, const cst_member_ensemble *tags, char *detail,
                           size_t room) {
    if (fit->tagged.size > 0 && fit->differs)
        (void)cst_snprintf(detail, room, "groups differ between outputs; %d candidates",
                           (int)fit->tagged.groups);
    else if (fit->tagged.size > 0)
        cst_ensemble_describe(tags, &fit->tagged, detail, room);
}

/* What prediction does not use of a linear model, in units of the targets. */
static cst_status fill_values(cst_context *context, const cst_value_place *place,
                              const linear_fit *fit, cst_model *model) {
    size_t outputs = (size_t)model->classes;
    cst_values *v = cst_alloc(context, 1, sizeof *v);
    if (!v)
        return CST_ERROR_MEMORY;
    model->values = v;
    v->scaling = (cst_scaling){.outputs = model->classes,
                               .location = cst_alloc(context, outputs, sizeof(double)),
                               .scale = cst_alloc(context, outputs, sizeof(double))};
    cst_status status = v->scaling.location && v->scaling.scale
                            ? cst_values_alloc(context, model->classes, model->members, v)
                            : CST_ERROR_MEMORY;
    for (size_t d = 0; status == CST_OK && d < outputs; d++) {
        v->scaling.location[d] = place->scaling->location[d];
        v->scaling.scale[d] = place->scaling->scale[d];
        v->noise[d] = fit->noise[d];
        v->mean_spread[d] = 1;
    }
    return status;
}

/* The fit on all rows as a model of the members that have a weight. */
static cst_status make_model(cst_context *context, const cst_value_place *place,
                             const linear_fit *fit, const bool *uses, cst_made_model *out) {
    size_t members = (size_t)place->source->view.members;
    size_t outputs = (size_t)place->source->view.classes;
    int32_t count = 0;
    cst_status status = cst_members_used(context, uses, (int32_t)members, &out->kept, &count);
    CST_THEN(cst_stack_create(context, &out->model));
    if (status != CST_OK)
        return status;
    cst_model *model = out->model;
    model->task = CST_TASK_REGRESSION;
    model->classes = (int32_t)outputs;
    model->members = count;
    model->gate.inputs = count;
    model->mix = cst_alloc(context, (size_t)count, sizeof *model->mix);
    model->learner = cst_alloc(context, 1, sizeof *model->learner);
    if (!model->mix || !model->learner)
        return CST_ERROR_MEMORY;
    model->learners = 1;
    cst_learner *learner = model->learner;
    *learner = (cst_learner){.kind = CST_LEARNER_LINEAR,
                             .blend = 1,
                             .coefficients = count * (int32_t)outputs,
                             .biases = (int32_t)outputs};
    learner->weights = cst_alloc(context, outputs * (size_t)count, sizeof *learner->weights);
    learner->bias = cst_alloc(context, outputs, sizeof *learner->bias);
    if (!learner->weights || !learner->bias)
        return CST_ERROR_MEMORY;
    for (size_t d = 0; d < outputs; d++) {
        learner->bias[d] = fit->intercept[d];
        for (size_t j = 0; j < (size_t)count; j++)
            learner->weights[d * (size_t)count + j] =
                fit->weights[d * members + (size_t)out->kept[j]];
    }
    return fill_values(context, place, fit, model);
}

/* Adds the members that have a weight. */
static void add_uses(const linear_fit *fit, const cst_view *view, bool *uses) {
    size_t members = (size_t)view->members;
    for (size_t i = 0; i < members * (size_t)view->classes; i++)
        uses[i % members] = uses[i % members] || fit->weights[i] != 0;
}

/* By the model of a fit, as a saved one predicts. */
static cst_status predict(cst_context *context, const cst_made_model *made, const cst_view *rows,
                          cst_value_result *out) {
    int32_t count = made->model->members;
    const float **pointers = cst_alloc(context, (size_t)count, sizeof *pointers);
    if (!pointers)
        return CST_ERROR_MEMORY;
    const cst_view kept = cst_view_members(rows, made->kept, count, pointers);
    cst_mute(context, true); /* of every mixture, that its weights were only scaled */
    cst_status status = cst_value_result_predict(context, made->model, &kept, out);
    cst_mute(context, false);
    cst_free(context, pointers);
    return status;
}

/* The rows of a fold by the fit without it. */
static cst_status predict_fold(cst_context *context, const cst_value_place *place,
                               const cst_value_baseline *baseline, int32_t fold, int64_t *index,
                               cst_value_result *out) {
    const cst_training *source = place->source;
    linear_fit fit = {0};
    cst_made_model made = {0};
    cst_value_result part = {0};
    cst_view inside;
    cst_view held;
    cst_view_split(&source->view, source->folds, fold, index, &inside, &held);
    bool *uses = cst_alloc(context, (size_t)source->view.members, sizeof *uses);
    cst_status status = uses ? CST_OK : CST_ERROR_MEMORY;
    CST_THEN(fit_linear(context, place, baseline, fold, &fit));
    if (status == CST_OK)
        add_uses(&fit, &source->view, uses);
    CST_THEN(make_model(context, place, &fit, uses, &made));
    CST_THEN(cst_value_result_make(context, held.rows, held.classes, &part));
    CST_THEN(predict(context, &made, &held, &part));
    if (status == CST_OK)
        cst_value_result_scatter(source, fold, &part, out);
    cst_value_result_free(context, &part);
    cst_made_model_free(context, &made);
    linear_free(context, &fit);
    cst_free(context, uses);
    return status;
}

static cst_status predict_folds(cst_context *context, const cst_value_place *place,
                                const cst_value_baseline *baseline, cst_value_result *out) {
    const cst_training *source = place->source;
    int64_t *index = cst_alloc(context, (size_t)source->view.rows, sizeof *index);
    cst_status status = index ? CST_OK : CST_ERROR_MEMORY;
    for (int32_t f = 0; status == CST_OK && f < source->fold_count; f++)
        status = predict_fold(context, place, baseline, f, index, out);
    cst_free(context, index);
    return status;
}

static cst_status run_baseline(cst_context *context, const cst_value_place *place,
                               cst_value_entry *out) {
    const cst_training *source = place->source;
    const cst_value_baseline *baseline = out->method->baseline;
    size_t members = (size_t)source->view.members;
    linear_fit whole = {0};
    cst_made_model made = {0};
    double before = cst_seconds();
    out->weights = cst_alloc(context, members, sizeof *out->weights);
    cst_status status = out->weights ? CST_OK : CST_ERROR_MEMORY;
    CST_THEN(fit_linear(context, place, baseline, -1, &whole));
    out->seconds = cst_seconds() - before;
    for (size_t j = 0; status == CST_OK && j < members; j++)
        for (int32_t d = 0; d < source->view.classes; d++)
            out->weights[j] += whole.weights[(size_t)d * members + j] / source->view.classes;
    if (status == CST_OK) {
        add_uses(&whole, &source->view, out->uses);
        describe_group(&whole, source->ensembles, out->detail, sizeof out->detail);
    }
    CST_THEN(make_model(context, place, &whole, out->uses, &made));
    if (!place->unscored)
        CST_THEN(place->rows ? predict(context, &made, place->rows, &out->result)
                             : predict_folds(context, place, baseline, &out->result));
    if (status == CST_OK && place->made) {
        *place->made = made;
        made = (cst_made_model){0};
    }
    cst_made_model_free(context, &made);
    linear_free(context, &whole);
    return status;
}

/* ---- a preset ---- */

/* The model of the stages as one that is kept. */
static cst_status take_model(cst_context *context, cst_value_stages *stages, cst_made_model *out) {
    size_t kept = (size_t)stages->base.kept_count;
    out->kept = cst_alloc(context, kept, sizeof *out->kept);
    if (!out->kept)
        return CST_ERROR_MEMORY;
    memcpy(out->kept, stages->base.kept, kept * sizeof *out->kept);
    out->model = stages->base.fit.model;
    stages->base.fit.model = NULL;
    return CST_OK;
}

static cst_status run_preset(cst_context *context, const cst_value_place *place,
                             cst_value_entry *out) {
    const cst_training *source = place->source;
    const cst_settings *settings = &out->method->settings;
    cst_costs costs = cst_training_costs(source);
    cst_value_stages stages = {0};
    double before = cst_seconds();
    cst_status status = cst_value_stages_run(context, &source->view, source->folds,
                                             source->fold_count, settings, &costs, &stages);
    out->seconds = cst_seconds() - before;
    int32_t kept = stages.base.kept_count;
    const float **pointers = cst_alloc(context, (size_t)kept, sizeof *pointers);
    if (!pointers)
        status = CST_ERROR_MEMORY;
    if (status == CST_OK && !place->rows && !place->unscored)
        status = cst_value_stages_nested(context, source, settings, &out->result);
    else if (status == CST_OK && !place->unscored) {
        cst_view view = cst_view_members(place->rows, stages.base.kept, kept, pointers);
        status = cst_value_result_predict(context, stages.base.fit.model, &view, &out->result);
    }
    bool linear = status == CST_OK &&
                  stages.base.fit.model->learner[0].coefficients == kept * source->view.classes;
    if (linear) {
        out->weights = cst_alloc(context, (size_t)source->view.members, sizeof *out->weights);
        status = out->weights ? CST_OK : CST_ERROR_MEMORY;
    }
    for (int32_t j = 0; status == CST_OK && j < kept; j++) {
        out->uses[stages.base.kept[j]] = true;
        for (int32_t d = 0; linear && d < source->view.classes; d++)
            out->weights[stages.base.kept[j]] +=
                stages.base.fit.model->learner[0].weights[d * kept + j] / source->view.classes;
    }
    if (place->made)
        CST_THEN(take_model(context, &stages, place->made));
    cst_free(context, pointers);
    cst_value_stages_free(context, &stages);
    return status;
}

cst_status cst_value_entry_run(cst_context *context, const cst_value_place *place,
                               const cst_value_method *method, cst_value_entry *out) {
    const cst_view *view = &place->source->view;
    const cst_view *rows = place->rows ? place->rows : view;
    *out = (cst_value_entry){.method = method};
    out->uses = cst_alloc(context, (size_t)view->members, sizeof *out->uses);
    cst_status status =
        out->uses ? cst_value_result_make(context, rows->rows, rows->classes, &out->result)
                  : CST_ERROR_MEMORY;
    CST_THEN(method->baseline ? run_baseline(context, place, out)
                              : run_preset(context, place, out));
    for (int32_t k = 0; status == CST_OK && k < view->members; k++)
        out->models += out->uses[k];
    if (status != CST_OK)
        cst_value_entry_free(context, out);
    return status;
}

void cst_value_entry_free(cst_context *context, cst_value_entry *entry) {
    cst_value_result_free(context, &entry->result);
    cst_free(context, entry->weights);
    cst_free(context, entry->uses);
    *entry = (cst_value_entry){0};
}
