/*
 * Methods of a regression by name, and what each gives on the rows that it is scored on. Behind
 * comparisons. Paper: section "Experimental Setup"; docs/regression.md.
 */
#include "tasks/regression/methods.h"

#include "tasks/regression/learners.h"
#include "tasks/regression/regression.h"
#include "tasks/regression/stages.h"

#include <corestack/compare.h>

#include <math.h>
#include <string.h>

const char *cst_value_method_name(size_t index) {
    size_t baselines = 0;
    for (; cst_value_baseline_at(baselines); baselines++)
        if (baselines == index)
            return cst_value_baseline_at(index)->name;
    return cst_preset_name(index - baselines);
}

static cst_status unknown(cst_context *context, const char *text) {
    char list[CST_METHOD_LIST_CHARS];
    bool known = strchr(text, '+') || cst_method_describe(text);
    cst_method_names(cst_value_method_name, list);
    return cst_fail(context, known ? CST_ERROR_UNSUPPORTED : CST_ERROR_ARGUMENT,
                    known
                        ? "method '%.60s' is for classification; the methods for regression are %s"
                        : "unknown method '%.60s'; the methods for regression are %s",
                    text, list);
}

cst_status cst_value_method_parse(cst_context *context, const char *text, uint64_t seed,
                                  const char *const *settings, int32_t setting_count,
                                  cst_value_method *out) {
    *out = (cst_value_method){.baseline = cst_value_baseline_find(text)};
    if (out->baseline) {
        out->definition = out->baseline->definition;
        return CST_OK;
    }
    out->definition = cst_preset_of_values(text);
    for (size_t i = 0; out->definition && !out->preset; i++)
        if (strcmp(text, cst_preset_name(i)) == 0)
            out->preset = cst_preset_name(i);
    return out->preset ? cst_method_settings(context, text, seed, settings, setting_count,
                                             cst_value_check_options, &out->settings)
                       : unknown(context, text);
}

/* ---- a baseline's fit ---- */

/* Linear functions in units of the targets, and the noise beside them. */
typedef struct linear_fit {
    double *weights;            /* [outputs][members] */
    double *intercept;          /* [outputs] */
    double *noise;              /* [outputs] */
    bool *uses;                 /* [members]: with a weight */
    cst_ensemble_choice tagged; /* of the first output */
    bool differs;               /* another output has another group */
} linear_fit;

/* Mean squared error on folds that the fit has not seen, and so the noise; with one fold, that of
 * the fit. */
static cst_status find_noise(cst_context *context, const cst_value_baseline *baseline,
                             const cst_member_ensemble *tags, const cst_moments *moments,
                             const double *weights, double intercept, double *out) {
    double sum = 0;
    double rows = 0;
    double *without;
    if (moments->folds < 2) {
        sum = cst_moments_loss(moments, -1, weights, intercept, &rows);
        *out = sum / rows;
        return CST_OK;
    }
    for (int32_t f = 0; f < moments->folds; f++) {
        cst_moments in;
        double count = 0;
        CST_SCOPE(scope);
        CST_TAKE(context, scope, without, moments->columns);
        CST_TRY(cst_value_moments_part(context, scope, moments, f, NULL, 0, &in));
        CST_TRY(cst_value_baseline_fit(context, baseline, tags, &in, without, &intercept, NULL));
        sum += cst_moments_loss(moments, f, without, intercept, &count);
        rows += count;
    }
    *out = rows > 0 ? sum / rows : 0;
    return CST_OK;
}

/* Fits each output on the moments of all folds but `without` (negative: all). */
static cst_status fit_linear(cst_context *context, cst_scope *scope, const cst_value_state *s,
                             const cst_value_baseline *baseline, int32_t without, linear_fit *out) {
    size_t members = (size_t)s->source.view.members;
    size_t outputs = (size_t)s->source.view.classes;
    const cst_member_ensemble *tags = s->source.ensembles;
    *out = (linear_fit){0};
    CST_TAKE(context, scope, out->weights, outputs * members);
    CST_TAKE(context, scope, out->intercept, outputs);
    CST_TAKE(context, scope, out->noise, outputs);
    CST_TAKE(context, scope, out->uses, members);
    for (size_t d = 0; d < outputs; d++) {
        cst_moments moments;
        double *weights = out->weights + d * members;
        double intercept = 0;
        double location = s->scaling.location[d];
        double scale = s->scaling.scale[d];
        cst_ensemble_choice tagged = {0};
        CST_SCOPE(part);
        CST_TRY(cst_value_moments_part(context, part, &s->moments[d], without, NULL, 0, &moments));
        CST_TRY(cst_value_baseline_fit(context, baseline, tags, &moments, weights, &intercept,
                                       &tagged));
        if (d == 0)
            out->tagged = tagged;
        out->differs = out->differs || tagged.first != out->tagged.first;
        CST_TRY(find_noise(context, baseline, tags, &moments, weights, intercept, &out->noise[d]));
        out->noise[d] = fmax(out->noise[d] * scale * scale, 1e-300);
        out->intercept[d] = location + scale * intercept;
        for (size_t j = 0; j < members; j++) {
            out->intercept[d] -= weights[j] * location;
            out->uses[j] = out->uses[j] || weights[j] != 0;
        }
    }
    return CST_OK;
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

CST_OWNED(cst_made_model)

/* The fit as a model of the members that have a weight; the scope frees it. */
static cst_status make_model(cst_context *context, cst_scope *scope, const cst_value_state *s,
                             const linear_fit *fit, cst_made_model *out) {
    size_t members = (size_t)s->source.view.members;
    int32_t outputs = s->source.view.classes;
    int32_t count = 0;
    *out = (cst_made_model){0};
    CST_OWN(context, scope, cst_made_model, out);
    CST_TRY(cst_members_used(context, fit->uses, (int32_t)members, &out->kept, &count));
    CST_TRY(cst_stack_create(context, &out->model));
    CST_TRY(cst_value_model(context, outputs, count, count, out->model));
    out->model->gate.inputs = count;
    cst_learner *learner = out->model->learner;
    /* Prediction does not use the values of a linear model but for units and noise. */
    CST_TRY(cst_values_start(context, &out->model->scope, &s->scaling, count, &out->model->values));
    for (int32_t d = 0; d < outputs; d++) {
        learner->bias[d] = fit->intercept[d];
        out->model->values->noise[d] = fit->noise[d];
        for (int32_t j = 0; j < count; j++)
            learner->weights[d * count + j] =
                fit->weights[(size_t)d * members + (size_t)out->kept[j]];
    }
    return CST_OK;
}

/* By the model of a fit, as a saved one predicts. */
static cst_status predict(cst_context *context, const cst_model *model, const int32_t *kept,
                          const cst_view *rows, float *const *out) {
    CST_SCOPE(scope);
    CST_NEW(context, scope, const float *, pointers, model->members);
    const cst_view view = cst_view_members(rows, kept, model->members, pointers);
    return cst_value_predict(context, model, &view, out);
}

static cst_status predict_muted(cst_context *context, const cst_made_model *made,
                                const cst_view *rows, float *const *out) {
    cst_mute(context, true); /* of every mixture, that its weights were only scaled */
    cst_status status = predict(context, made->model, made->kept, rows, out);
    cst_mute(context, false);
    return status;
}

/* The rows of each fold by the fit without it. */
static cst_status predict_folds(cst_context *context, const cst_value_state *s,
                                const cst_value_baseline *baseline, float *const *out) {
    const cst_training *source = &s->source;
    for (int32_t f = 0; f < source->fold_count; f++) {
        linear_fit fit;
        cst_made_model made;
        cst_value_result part;
        cst_view inside;
        cst_view held;
        int64_t *index;
        CST_SCOPE(scope);
        CST_TAKE(context, scope, index, source->view.rows);
        cst_view_split(&source->view, source->folds, f, index, &inside, &held);
        CST_TRY(fit_linear(context, scope, s, baseline, f, &fit));
        CST_TRY(make_model(context, scope, s, &fit, &made));
        CST_TRY(cst_value_result_make(context, scope, held.rows, held.classes, &part));
        CST_TRY(predict_muted(context, &made, &held, part.array));
        for (int a = 0; a < CST_VALUE_ARRAYS; a++)
            cst_fold_scatter(source->folds, source->view.rows, f, (size_t)held.classes,
                             part.array[a], out[a]);
    }
    return CST_OK;
}

/* The weights of an entry, zero. */
static cst_status take_weights(cst_context *context, const cst_value_state *s, cst_entry *entry) {
    entry->mix = CST_MIX_LINEAR;
    CST_TAKE(context, &entry->scope, entry->weights, s->source.view.members);
    return CST_OK;
}

enum { DETAIL_CHARS = 192 };

static cst_status run_baseline(cst_context *context, const cst_evaluation *e,
                               const cst_value_state *s, cst_entry *entry, float *const *out) {
    const cst_view *view = &s->source.view;
    const cst_value_baseline *baseline = ((const cst_value_method *)entry->method)->baseline;
    linear_fit whole;
    cst_made_model made;
    double before = cst_seconds();
    CST_SCOPE(scope);
    CST_TRY(take_weights(context, s, entry));
    CST_TRY(fit_linear(context, scope, s, baseline, -1, &whole));
    entry->seconds = cst_seconds() - before;
    for (int32_t j = 0; j < view->members; j++) {
        entry->uses[j] = whole.uses[j];
        for (int32_t d = 0; d < view->classes; d++)
            entry->weights[j] += whole.weights[d * view->members + j] / view->classes;
    }
    describe_group(&whole, s->source.ensembles, entry->detail, DETAIL_CHARS);
    CST_TRY(make_model(context, scope, s, &whole, &made));
    if (!e->unscored)
        CST_TRY(e->nested ? predict_folds(context, s, baseline, out)
                          : predict_muted(context, &made, &s->rows, out));
    if (entry->keep) {
        entry->made = made;
        made = (cst_made_model){0};
    }
    return CST_OK;
}

/* ---- a preset ---- */

static cst_status run_preset(cst_context *context, const cst_evaluation *e,
                             const cst_value_state *s, cst_entry *entry, cst_value_result *out) {
    const cst_view *view = &s->source.view;
    const cst_settings *settings = &((const cst_value_method *)entry->method)->settings;
    cst_costs costs = cst_training_costs(&s->source);
    cst_run run = cst_run_of(&cst_regression_family, view, s->source.folds, s->source.fold_count,
                             settings, &costs);
    cst_stages stages = {0};
    double before = cst_seconds();
    CST_SCOPE(scope);
    CST_OWN(context, scope, cst_stages, &stages);
    CST_TRY(cst_stages_run(context, &run, &stages));
    entry->seconds = cst_seconds() - before;
    const cst_model *model = stages.fit.model;
    int32_t kept = stages.kept_count;
    if (!e->unscored)
        CST_TRY(e->nested ? cst_value_nested(context, &s->source, settings, out)
                          : predict(context, model, stages.kept, &s->rows, out->array));
    bool linear = model->learner[0].coefficients == kept * view->classes;
    entry->mix = CST_MIX_OTHER;
    if (linear)
        CST_TRY(take_weights(context, s, entry));
    for (int32_t j = 0; j < kept; j++) {
        entry->uses[stages.kept[j]] = true;
        for (int32_t d = 0; linear && d < view->classes; d++)
            entry->weights[stages.kept[j]] +=
                model->learner[0].weights[d * kept + j] / view->classes;
    }
    return entry->keep ? cst_stages_take_model(context, &stages, &entry->made) : CST_OK;
}

cst_status cst_value_method_run(cst_context *context, const cst_evaluation *e, cst_entry *entry,
                                cst_value_result *out) {
    return ((const cst_value_method *)entry->method)->baseline
               ? run_baseline(context, e, e->data, entry, out->array)
               : run_preset(context, e, e->data, entry, out);
}
