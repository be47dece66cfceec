/* The table of regression: methods by name, what is fitted on and scored, bootstrap, tests, and
 * scores of a member. Chosen by src/tasks. Paper: section "Results"; docs/regression.md. */
#include "data/checks/checks.h"
#include "data/pool/pool.h"
#include "fit/harness.h"
#include "fit/label.h"
#include "fit/profile.h"
#include "model/fit_rows.h"
#include "model/transform.h"
#include "stats/row_weights.h"
#include "tasks/regression/regression.h"

#include <corestack/compare.h>

#include <math.h>
#include <string.h>

/* A method by name: a linear baseline, fitted from moments alone, or a preset of the stack. */
typedef struct value_method {
    const cst_value_baseline *baseline; /* NULL: a preset, or */
    const cst_method_ops *added;        /* a method of the caller's own */
    cst_settings settings;              /* of a preset */
} value_method;

/* What an evaluation holds: that of some members borrows rows and scaling of the whole. */
typedef struct state {
    cst_training source;
    cst_view rows;          /* what is scored */
    cst_counted counted;    /* what it is in, unless it is the source's */
    cst_counted model_rows; /* the rows scored, with the members of a model */
    cst_scaling scaling;
    cst_moments *moments; /* [outputs] of the source's members */
} state;

/* What a method, a model or a member predicted: an entry's result. */
typedef struct predicted {
    cst_value_result result; /* a member's is without variances */
    float *aimed;            /* [rows][outputs]: values for the metric; NULL: those of the result */
    cst_value_metrics scores;
    cst_value_metrics *each; /* [outputs] */
} predicted;

static state *state_of(const cst_evaluation *e) {
    return e->data;
}

/* ---- names ---- */

static const char *method_name(size_t index) {
    size_t baselines = 0;
    for (; cst_value_baseline_at(baselines); baselines++)
        if (baselines == index)
            return cst_value_baseline_at(index)->name;
    return cst_preset_name(index - baselines);
}

static cst_status unknown(cst_context *context, const char *text) {
    char list[CST_METHOD_LIST_CHARS];
    bool known = strchr(text, '+') || cst_method_describe(text);
    cst_method_names(method_name, list);
    return cst_fail(context, known ? CST_ERROR_UNSUPPORTED : CST_ERROR_ARGUMENT,
                    known
                        ? "method '%.60s' is for classification; the methods for regression are %s"
                        : "unknown method '%.60s'; the methods for regression are %s",
                    text, list);
}

static cst_status read_settings(cst_context *context, const cst_evaluation *e, const char *preset,
                                const char *const *settings, int32_t count, cst_settings *out) {
    return cst_method_settings(context, preset, e->options->seed, settings, count,
                               cst_value_check_options, out);
}

static cst_status parse(cst_context *context, const cst_evaluation *e, const char *const *settings,
                        int32_t count, cst_entry *entry) {
    value_method *method = entry->method;
    method->baseline = cst_value_baseline_find(entry->name);
    if (method->baseline) {
        entry->definition = method->baseline->definition;
        entry->tags = cst_ensemble_rule_of(method->baseline->kind);
        return CST_OK;
    }
    method->added = strchr(entry->name, '+') ? NULL : cst_added_find(context, entry->name);
    if (method->added) {
        entry->definition = method->added->definition;
        return CST_OK;
    }
    entry->definition = cst_preset_of_values(entry->name);
    for (size_t i = 0; entry->definition && !entry->preset; i++)
        if (strcmp(entry->name, cst_preset_name(i)) == 0)
            entry->preset = cst_preset_name(i);
    entry->settings = &method->settings;
    return entry->preset
               ? read_settings(context, e, entry->preset, settings, count, &method->settings)
               : unknown(context, entry->name);
}

/* ---- opening ---- */

static cst_status no_targets(cst_context *context, const char *split) {
    return cst_fail(context, CST_ERROR_INPUT, "split '%s' has no targets to score against", split);
}

/* Moments of the source, whose scaling is there. */
static cst_status find_moments(cst_context *context, cst_evaluation *e) {
    state *s = e->data;
    const cst_view *view = &s->source.view;
    cst_gate none = {.mode = CST_GATE_NONE, .inputs = view->members};
    e->source = &s->source;
    CST_TAKE(context, &e->scope, s->moments, view->classes);
    return cst_value_moments(context, &e->scope, view, &s->scaling, &none, s->source.folds,
                             s->source.fold_count, s->moments);
}

/* What is fitted on, which may be refused unless it is beside a model. */
static cst_status open_source(cst_context *context, cst_evaluation *e, const char *split,
                              const cst_fold_plan *folds) {
    state *s = e->data;
    CST_OWN(context, &e->scope, cst_training, &s->source);
    CST_TRY(cst_training_open(context, e->pool, split, folds, e->options->seed, &s->source));
    if (!e->brief)
        CST_TRY(cst_value_check(context, e->pool, split, &s->source));
    CST_TRY(cst_scaling_take(context, &e->scope, &s->source.view, &s->scaling));
    return find_moments(context, e);
}

/* The rows of the split, with some members or (NULL) all, to be scored. */
static cst_status open_rows(cst_context *context, cst_evaluation *e, const int32_t *members,
                            int32_t count, cst_counted *counted) {
    state *s = e->data;
    CST_OWN(context, &e->scope, cst_counted, counted);
    CST_TRY(cst_counted_open(context, e->pool, e->split, members, count, counted));
    s->rows = counted->view;
    return CST_OK;
}

static cst_status open_methods(cst_context *context, cst_evaluation *e) {
    const cst_compare_options *options = e->options;
    state *s = e->data;
    cst_settings settings;
    CST_TRY(read_settings(context, e, "default", options->settings, (int32_t)options->setting_count,
                          &settings));
    CST_TRY(open_source(context, e, cst_evaluation_fitted(e), &settings.folds));
    size_t members = (size_t)s->source.view.members;
    CST_TAKE(context, &e->scope, e->pearson, members * members);
    cst_value_pearson(s->moments, s->source.view.classes, e->pearson);
    s->rows = s->source.view;
    if (e->nested && s->source.time) {
        CST_OWN(context, &e->scope, cst_counted, &s->counted);
        CST_TRY(cst_training_scored(context, e->pool, e->split, &s->source, &s->counted));
        s->rows = s->counted.view;
    }
    if (e->nested)
        return CST_OK;
    CST_TRY(cst_pool_load(context, e->pool, e->split));
    CST_TRY(open_rows(context, e, NULL, 0, &s->counted));
    return s->rows.targets ? CST_OK : no_targets(context, e->split);
}

/* Notices of the rows scored. members: theirs. */
static cst_status check_rows(cst_context *context, const cst_evaluation *e, const int32_t *members,
                             const cst_counted *counted) {
    return cst_pool_conditions(e->pool, e->split) > 0
               ? CST_OK
               : cst_check_scored(context, &(cst_check_source){.pool = e->pool,
                                                               .split = e->split,
                                                               .view = &state_of(e)->rows,
                                                               .members = members,
                                                               .rows = counted->rows});
}

/* The rows that count, with the members that the model reads. */
static cst_status open_model(cst_context *context, cst_evaluation *e, const cst_model *model) {
    int32_t count = 0;
    state *s = e->data;
    if (!model->values)
        return cst_fail(context, CST_ERROR_INPUT,
                        "the model has no variances, so it was not created by corestack fit");
    CST_SCOPE(scope);
    CST_NEW(context, scope, int32_t, positions,
            cst_model_inputs(model) + cst_pool_members(e->pool));
    CST_TRY(cst_scored_members(context, model, e->pool, e->split, positions, &count));
    CST_TRY(open_rows(context, e, positions, count, &s->model_rows));
    CST_TRY(cst_scored_narrow(context, model, e->split, &s->rows));
    CST_TRY(check_rows(context, e, positions, &s->model_rows));
    CST_TRY(cst_model_view_tell(context, model, e->split, &s->rows));
    return s->rows.targets ? CST_OK : no_targets(context, e->split);
}

static cst_status open(cst_context *context, cst_evaluation *e, const cst_model *model) {
    if (model)
        return open_model(context, e, model);
    if (!e->brief)
        return open_methods(context, e);
    CST_TRY(cst_pool_load(context, e->pool, e->split));
    CST_TRY(open_rows(context, e, NULL, 0, &state_of(e)->counted));
    return open_source(context, e, "oof", &(cst_fold_plan){.count = 5});
}

static cst_status cka(cst_context *context, const cst_evaluation *e, const cst_cka_options *options,
                      cst_cka_result *out) {
    const state *s = e->data;
    return cst_value_cka(context, &s->source.view, &s->scaling, options, out);
}

static cst_status subset(cst_context *context, const cst_evaluation *e, cst_evaluation *out) {
    const state *whole = e->data;
    state *s = out->data;
    s->scaling = whole->scaling;
    CST_TRY(cst_training_part(context, &out->scope, &whole->source, out->positions, out->members,
                              &s->source));
    CST_NEW(context, &out->scope, const float *, pointers, out->members);
    s->rows = cst_view_members(&whole->rows, out->positions, out->members, pointers);
    return find_moments(context, out);
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
static cst_status fit_linear(cst_context *context, cst_scope *scope, const state *s,
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
static cst_status make_model(cst_context *context, cst_scope *scope, const state *s,
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

/* A fit on the rows before a fold in time. */
static cst_status fit_before(cst_context *context, cst_scope *scope, const cst_training *source,
                             const cst_value_baseline *baseline, int32_t fold, cst_view *held,
                             linear_fit *fit, state *part) {
    cst_fold_rows rows;
    CST_TRY(cst_fold_rows_make(context, scope, source, fold, 0, &rows));
    *held = rows.held;
    *part = (state){.source = rows.inside};
    const cst_view *view = &part->source.view;
    const cst_gate none = {.mode = CST_GATE_NONE, .inputs = view->members};
    CST_TRY(cst_scaling_take(context, scope, view, &part->scaling));
    CST_TAKE(context, scope, part->moments, view->classes);
    CST_TRY(cst_value_moments(context, scope, view, &part->scaling, &none, part->source.folds,
                              part->source.fold_count, part->moments));
    return fit_linear(context, scope, part, baseline, -1, fit);
}

/* The rows of each fold by the fit without it. */
static cst_status predict_folds(cst_context *context, const state *s,
                                const cst_value_baseline *baseline, float *const *out) {
    const cst_training *source = &s->source;
    for (int32_t f = cst_training_first(source); f < source->fold_count; f++) {
        linear_fit fit;
        cst_made_model made;
        cst_value_result said;
        cst_view inside;
        cst_view held;
        int64_t *index;
        state part = *s;
        CST_SCOPE(scope);
        CST_TAKE(context, scope, index, source->view.rows);
        cst_view_split(&source->view, source->folds, f, index, &inside, &held);
        CST_TRY(source->time ? fit_before(context, scope, source, baseline, f, &held, &fit, &part)
                             : fit_linear(context, scope, s, baseline, f, &fit));
        CST_TRY(make_model(context, scope, &part, &fit, &made));
        CST_TRY(cst_value_result_make(context, scope, held.rows, held.classes, &said));
        CST_TRY(predict_muted(context, &made, &held, said.array));
        for (int a = 0; a < CST_VALUE_ARRAYS; a++)
            cst_fold_scatter(source->folds, source->view.rows, f, (size_t)held.classes,
                             said.array[a], out[a]);
    }
    for (int a = 0; a < CST_VALUE_ARRAYS; a++)
        cst_training_pack(source, (size_t)source->view.classes, out[a]);
    return CST_OK;
}

/* ---- values for the metric ---- */

/* Finds the model's aim from nested values (where they are not the result: of predict_folds or of
 * the whole procedure), and the values that are scored by it. */
static cst_status aim(cst_context *context, const cst_evaluation *e, cst_model *model,
                      cst_entry *entry) {
    const state *s = e->data;
    const cst_view *view = &s->source.view;
    const value_method *method = entry->method;
    predicted *p = entry->result;
    cst_value_result held = p->result;
    cst_metric_rows rows;
    const int32_t *folds;
    double gain = NAN;
    if (cst_metric_aim_of(e->metric, model->transform != NULL, NULL) == CST_METRIC_AS_IT_IS)
        return CST_OK;
    CST_SCOPE(scope);
    if (!e->nested || e->unscored) {
        CST_TRY(cst_value_result_make(context, scope, view->rows, view->classes, &held));
        CST_TRY(method->baseline ? predict_folds(context, s, method->baseline, held.array)
                                 : cst_value_nested(context, &s->source, &method->settings, &held));
    }
    CST_TRY(cst_nested_rows(context, scope, &s->source, held.array[0], &rows, &folds));
    CST_NEW(context, scope, float, found, ((size_t)rows.rows * (size_t)rows.columns));
    CST_TRY(cst_value_aim(context, e->metric, &rows, held.array[1], folds, s->source.fold_count,
                          model, found, &gain));
    if (!model->aim || e->unscored)
        return CST_OK;
    CST_TAKE(context, &entry->scope, p->aimed, (size_t)s->rows.rows * (size_t)rows.columns);
    if (e->nested)
        memcpy(p->aimed, found, (size_t)rows.rows * (size_t)rows.columns * sizeof *found);
    else
        cst_value_aim_apply(model, model->aim, p->result.array[0], p->result.array[1], s->rows.rows,
                            p->aimed);
    return CST_OK;
}

/* The weights of an entry, zero. */
static cst_status take_weights(cst_context *context, const state *s, cst_entry *entry) {
    entry->mix = CST_MIX_LINEAR;
    CST_TAKE(context, &entry->scope, entry->weights, s->source.view.members);
    return CST_OK;
}

enum { DETAIL_CHARS = 192 };

static cst_status run_baseline(cst_context *context, const cst_evaluation *e, const state *s,
                               cst_entry *entry, float *const *out) {
    const cst_view *view = &s->source.view;
    const cst_value_baseline *baseline = ((const value_method *)entry->method)->baseline;
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
    CST_TRY(aim(context, e, made.model, entry));
    if (entry->keep) {
        entry->made = made;
        made = (cst_made_model){0};
    }
    return CST_OK;
}

/* ---- a preset ---- */

static cst_status run_preset(cst_context *context, const cst_evaluation *e, const state *s,
                             cst_entry *entry, cst_value_result *out) {
    const cst_view *view = &s->source.view;
    const cst_settings *settings = &((const value_method *)entry->method)->settings;
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
    if (model->transform)
        cst_value_result_transformed(out);
    if (!e->unscored)
        CST_TRY(e->nested ? cst_value_nested(context, &s->source, settings, out)
                          : predict(context, model, stages.kept, &s->rows, out->array));
    CST_TRY(aim(context, e, stages.fit.model, entry));
    bool linear = model->learner[0].coefficients == kept * view->classes && !model->transform;
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

/* ---- a method of the caller's own ---- */

CST_OWNED(cst_added_fit)

/* Values alone, as a member's. */
static cst_status run_added(cst_context *context, const cst_evaluation *e, const state *s,
                            cst_entry *entry, cst_value_result *out) {
    const cst_method_ops *ops = ((const value_method *)entry->method)->added;
    cst_added_fit fit = {0};
    double before = cst_seconds();
    CST_SCOPE(scope);
    CST_OWN(context, scope, cst_added_fit, &fit);
    if (entry->keep)
        return cst_added_refuse_model(context, ops);
    CST_TRY(cst_added_fit_run(context, ops, &s->source.view, e->options->seed, &fit));
    entry->seconds = cst_seconds() - before;
    entry->mix = CST_MIX_OTHER;
    for (int32_t j = 0; j < e->members; j++)
        entry->uses[j] = true;
    out->values = (cst_predicted_values){
        .rows = s->rows.rows, .outputs = s->rows.classes, .mean = out->array[0]};
    return e->nested ? cst_added_nested(context, ops, &s->source, e->options->seed, out->array[0])
                     : cst_added_predict(context, &fit, &s->rows, out->array[0]);
}

/* ---- one run ---- */

/* The model's values for the metric of its fit, where that is what counts. */
static cst_status aim_by(cst_context *context, const cst_evaluation *e, const cst_model *model,
                         cst_entry *entry) {
    predicted *p = entry->result;
    cst_metric_choice own = {0};
    int64_t rows = state_of(e)->rows.rows;
    const char *metric = cst_model_value(model, "metric");
    if (!model->aim || !metric)
        return CST_OK;
    CST_SCOPE(scope);
    CST_TRY(cst_metric_parse(context, scope, CST_TASK_REGRESSION, metric, &own));
    bool same = own.metric == e->metric.metric && !(own.argument < e->metric.argument) &&
                !(own.argument > e->metric.argument);
    if (!same)
        return CST_OK;
    CST_TAKE(context, &entry->scope, p->aimed, (size_t)rows * (size_t)model->classes);
    cst_value_aim_apply(model, model->aim, p->result.array[0], p->result.array[1], rows, p->aimed);
    return CST_OK;
}

static cst_status score(cst_context *context, const cst_evaluation *e, cst_entry *entry) {
    const cst_view *rows = &state_of(e)->rows;
    predicted *p = entry->result;
    CST_TAKE(context, &entry->scope, p->each, rows->classes);
    CST_TRY(cst_value_scores(context, e->metric, &p->result.values, p->aimed, rows, &p->scores,
                             p->each));
    const double found[] = {p->scores.rmse, p->scores.mae, p->scores.median_ae, p->scores.r2,
                            p->scores.nll};
    memcpy(entry->scores, found, sizeof found);
    cst_value_intervals_tell(context, &p->scores);
    return CST_OK;
}

static cst_status run(cst_context *context, const cst_evaluation *e, const cst_model *model,
                      cst_entry *entry) {
    const state *s = e->data;
    predicted *p = entry->result;
    int64_t rows = !model && e->nested ? s->source.view.rows : s->rows.rows;
    CST_TRY(cst_value_result_make(context, &entry->scope, rows, s->rows.classes, &p->result));
    p->result.values.rows = s->rows.rows;
    if (model) {
        if (model->transform)
            cst_value_result_transformed(&p->result);
        CST_TRY(cst_value_predict(context, model, &s->rows, p->result.array));
        CST_TRY(aim_by(context, e, model, entry));
        CST_TRY(cst_value_check_units(context, e->pool, e->split, false));
    } else {
        const value_method *method = entry->method;
        CST_TRY(method->added      ? run_added(context, e, s, entry, &p->result)
                : method->baseline ? run_baseline(context, e, s, entry, p->result.array)
                                   : run_preset(context, e, s, entry, &p->result));
    }
    return e->unscored ? CST_OK : score(context, e, entry);
}

static cst_status member(cst_context *context, cst_evaluation *e, cst_entry *entry,
                         const void *member) {
    state *s = e->data;
    predicted *p = entry->result;
    CST_TRY(open_rows(context, e, member, 1, &s->counted));
    CST_TRY(check_rows(context, e, member, &s->counted));
    if (!s->rows.targets)
        return no_targets(context, e->split);
    CST_NEW(context, &entry->scope, float, mean, ((size_t)s->rows.rows * (size_t)s->rows.classes));
    CST_TRY(cst_view_copy(context, &s->rows, 0, mean));
    CST_TRY(cst_value_check_units(context, e->pool, e->split, false));
    p->result.values =
        (cst_predicted_values){.rows = s->rows.rows, .outputs = s->rows.classes, .mean = mean};
    return score(context, e, entry);
}

/* Without variances, as a member's. */
static cst_status own(cst_context *context, const cst_evaluation *e,
                      const cst_own_predictions *given, cst_entry *entry) {
    const state *s = e->data;
    const cst_view *rows = &s->rows;
    const cst_counted *counted = e->nested && !s->source.time ? &s->source.counted : &s->counted;
    predicted *p = entry->result;
    CST_NEW(context, &entry->scope, float, mean, ((size_t)rows->rows * (size_t)rows->classes));
    CST_TRY(cst_pool_own(context, e->pool, e->split, given, counted->rows, rows->rows, mean));
    p->result.values =
        (cst_predicted_values){.rows = rows->rows, .outputs = rows->classes, .mean = mean};
    return score(context, e, entry);
}

static cst_status label(cst_context *context, const cst_evaluation *e, const cst_options *options,
                        cst_entry *entry) {
    return cst_value_label(context, e->pool, cst_evaluation_fitted(e), e->source, options,
                           entry->name, entry->made.kept, entry->made.model);
}

static bool scored(const cst_evaluation *e, const void *result, int32_t index,
                   cst_metric_rows *out) {
    const predicted *p = result;
    const cst_view *rows = &state_of(e)->rows;
    *out = (cst_metric_rows){.values = p->aimed ? p->aimed : p->result.values.mean,
                             .rows = rows->rows,
                             .columns = rows->classes,
                             .targets = rows->targets,
                             .weights = rows->weights};
    return index == 0;
}

static bool told(const cst_evaluation *e, const cst_entry *entry, int32_t index, cst_told *out) {
    const predicted *p = entry->result;
    const cst_view *rows = &state_of(e)->rows;
    *out = (cst_told){e->split, p->result.array[0], rows->rows, rows->classes};
    return index == 0;
}

static cst_status seen(cst_context *context, const cst_evaluation *e, const cst_model *model,
                       bool *out) {
    return cst_seen_targets(context, e, model, &state_of(e)->rows, out);
}

/* ---- intervals and tests ---- */

/* The column of the metric, if it is one of the task's own, of values for it. */
static cst_status bootstrap_aimed(cst_context *context, const cst_evaluation *e,
                                  const void *const *results,
                                  const cst_value_bootstrap_input *input, cst_predicted_values *all,
                                  cst_intervals *out) {
    int32_t scores = 0;
    int32_t column = 0;
    bool any = false;
    const cst_score_spec *spec = cst_task_scores(CST_TASK_REGRESSION, &scores);
    const char *key = e->metric.metric ? e->metric.metric->shown.key : "";
    while (column < scores && strcmp(spec[column].key, key) != 0)
        column++;
    for (int32_t m = 0; m < input->methods; m++) {
        const predicted *p = results[m];
        all[m].mean = p->aimed ? p->aimed : all[m].mean;
        any = any || p->aimed;
    }
    if (!any || column == scores)
        return CST_OK;
    size_t cells = (size_t)input->methods * (size_t)scores;
    CST_SCOPE(scope);
    CST_NEW(context, scope, cst_interval, interval, cells);
    CST_NEW(context, scope, cst_interval, difference, cells);
    CST_NEW(context, scope, double, p, cells);
    CST_TRY(cst_value_bootstrap_weighted(context, input, interval, difference, p));
    for (size_t at = (size_t)column; at < cells; at += (size_t)scores) {
        out->interval[at] = interval[at];
        out->difference[at] = difference[at];
        out->p[at] = p[at];
    }
    return CST_OK;
}

static cst_status bootstrap(cst_context *context, const cst_evaluation *e,
                            const void *const *results, int32_t count, int32_t reference,
                            int32_t resamples, cst_intervals *out) {
    const cst_view *rows = &state_of(e)->rows;
    CST_SCOPE(scope);
    CST_NEW(context, scope, cst_predicted_values, all, count);
    for (int32_t m = 0; m < count; m++)
        all[m] = ((const predicted *)results[m])->result.values;
    const cst_value_bootstrap_input input = {.predicted = all,
                                             .methods = count,
                                             .targets = rows->targets,
                                             .weights = rows->weights,
                                             .resamples = resamples,
                                             .seed = e->options->seed,
                                             .reference = reference};
    CST_TRY(cst_value_bootstrap_weighted(context, &input, out->interval, out->difference, out->p));
    return bootstrap_aimed(context, e, results, &input, all, out);
}

/* Squared errors. */
static cst_status losses(cst_context *context, cst_scope *scope, const cst_evaluation *e,
                         const cst_entry *entry, cst_losses *out) {
    const cst_view *rows = &state_of(e)->rows;
    const predicted *p = entry->result;
    *out = (cst_losses){.metric = "squared_error", .samples = rows->rows};
    CST_TAKE(context, scope, out->loss, rows->rows);
    CST_TRY(cst_value_errors(context, &p->result.values, rows->targets, out->loss));
    for (int64_t i = 0; rows->weights && i < rows->rows; i++)
        out->loss[i] *= rows->weights[i];
    return CST_OK;
}

/* ---- documents ---- */

static void put_size(cst_report *report, const cst_evaluation *e) {
    const cst_view *rows = &state_of(e)->rows;
    cst_report_integer(report, cst_report_root(report), "samples", rows->rows);
    if (rows->weights)
        cst_report_number(report, cst_report_root(report), "effective_samples",
                          cst_view_effective_rows(rows));
    cst_report_integer(report, cst_report_root(report), "output_count", state_of(e)->rows.classes);
}

/* Rows of one condition, of those that lie one after another. */
static cst_predicted_values part_of(const cst_predicted_values *whole, int32_t condition,
                                    int64_t rows, const float **halves) {
    size_t from = (size_t)condition * (size_t)rows * (size_t)whole->outputs;
    cst_predicted_values part = *whole;
    part.rows = rows;
    part.mean = whole->mean + from;
    part.variance = whole->variance ? whole->variance + from : NULL;
    for (int32_t l = 0; l < whole->levels; l++)
        halves[l] = whole->half_width[l] + from;
    part.half_width = halves;
    return part;
}

static cst_status put_conditions(cst_context *context, cst_report *report, const cst_evaluation *e,
                                 const cst_predicted_values *values) {
    const cst_view *rows = &state_of(e)->rows;
    int32_t conditions = (int32_t)cst_pool_conditions(e->pool, e->split);
    if (conditions == 0)
        return CST_OK;
    json_t *list = cst_report_list(report, cst_report_root(report), "conditions");
    for (int32_t k = 0; k < conditions; k++) {
        const float *halves[CST_LEVELS_MAX];
        cst_value_metrics average;
        cst_predicted_values part = part_of(values, k, rows->rows / conditions, halves);
        CST_TRY(cst_value_metrics_evaluate(context, &part, rows->targets, &average, NULL));
        json_t *object = cst_report_add_object(report, list);
        cst_put_condition(report, object, e->pool, e->split, k);
        cst_value_put_scores(report, object, &average);
    }
    return CST_OK;
}

static cst_status put_wrong(cst_context *context, cst_report *report, const cst_evaluation *e,
                            const cst_predicted_values *values) {
    const state *s = e->data;
    const cst_counted *counted = s->model_rows.view.rows > 0 ? &s->model_rows : &s->counted;
    return cst_value_put_wrong(context, report,
                               &(cst_value_wrong){.values = values,
                                                  .rows = &s->rows,
                                                  .pool = e->pool,
                                                  .split = e->split,
                                                  .numbers = counted->rows});
}

static const char *definition(const char *score) {
    return cst_metric_definition(strcmp(score, "nll") == 0 ? "nll_gaussian" : score);
}

static cst_status describe(cst_context *context, cst_part part, const cst_description *d) {
    const predicted *p = d->entries ? d->entries->result : NULL;
    int32_t outputs = state_of(d->e)->rows.classes;
    switch (part) {
    case CST_PART_SIZE:
        put_size(d->report, d->e);
        break;
    case CST_PART_ROW:
        cst_value_put_coverage(d->report, d->object, &p->scores);
        /* NOLINTNEXTLINE(clang-analyzer-core.NullDereference) */
        if (p->aimed)
            CST_PUT(d->report, d->object, CST_B("decided", true));
        if (outputs > 1 || d->e->brief)
            /* NOLINTNEXTLINE(clang-analyzer-core.NullDereference) */
            (void)cst_value_put_outputs(d->report, d->object, d->e->pool, p->each, outputs);
        break;
    case CST_PART_OWN:
        cst_value_put_definitions(d->report);
        if (outputs == 1 && cst_pool_conditions(d->e->pool, d->e->split) == 0)
            return put_wrong(context, d->report, d->e, &p->result.values);
        /* NOLINTNEXTLINE(clang-analyzer-core.NullDereference) */
        return put_conditions(context, d->report, d->e, &p->result.values);
    case CST_PART_DEFINITIONS:
        CST_PUT(d->report, d->object, CST_S("coverage", definition("coverage")),
                CST_S("width", definition("width")));
        break;
    default:
        break;
    }
    return CST_OK;
}

static const char *const BASELINES[] = {"best-single", "average", "greedy", NULL};

const cst_task_ops cst_regression_ops = {
    .task = CST_TASK_REGRESSION,
    .unit = "samples",
    .baselines = BASELINES,
    .state_bytes = sizeof(state),
    .method_bytes = sizeof(value_method),
    .result_bytes = sizeof(predicted),
    .family = &cst_regression_family,
    .member = member,
    .method_name = method_name,
    .definition = definition,
    .open = open,
    .subset = subset,
    .cka = cka,
    .parse = parse,
    .run = run,
    .own = own,
    .scored = scored,
    .told = told,
    .label = label,
    .hash = cst_hash_rows,
    .seen = seen,
    .bootstrap = bootstrap,
    .losses = losses,
    .describe = describe,
    .profile = &cst_profile_rows,
};
