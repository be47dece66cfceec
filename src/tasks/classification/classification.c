/* The table of classification. Paper: sections "Experimental Setup" and "Results". */
#include "tasks/classification/classification.h"

#include "data/checks/checks.h"
#include "fit/document.h"
#include "fit/family.h"
#include "fit/harness.h"
#include "fit/label.h"
#include "fit/profile.h"
#include "model/fit_rows.h"
#include "stats/row_weights.h"
#include "stats/statistics.h"

#include <math.h>
#include <string.h>

enum { SCORES = 8, BRIEF = 4 }; /* in the table of scores; the first four in every evaluation */

/* An evaluation's data. That of some members borrows the targets of the whole. */
typedef struct state {
    cst_training source;
    cst_noise noise; /* of its rows, by the rule that a preset asked for last */
    bool doubted;
    int32_t classes;
    cst_targets targets; /* the splits that are predicted */
    cst_view *views;     /* [targets] of the evaluation's members */
    /* Of the evaluation of a model; else NULL. */
    int32_t *positions;    /* [model members] in the pool */
    cst_view *model_views; /* [targets], of the model's members */
    cst_counted *counted;  /* [targets]: what these are in; of `parts` */
    cst_scope parts;       /* outlives the evaluation's scope, whose end closes `counted` */
} state;

/* Predictions of a method: an entry's result. */
typedef struct predicted {
    float **rows;       /* [targets] of [view rows][classes] */
    int32_t **decided;  /* [targets] of [view rows]; NULL: by the largest probability */
    cst_metrics *parts; /* [conditions, splits or 1] that the scores are means over */
} predicted;

static state *state_of(const cst_evaluation *e) {
    return e->data;
}

static const predicted *result_of(const cst_entry *entry) {
    return entry->result;
}

/* ---- opening ---- */

static void release(cst_context *context, void *data) {
    state *s = data;
    for (int32_t t = 0; s->counted && t < s->targets.count; t++)
        cst_counted_close(context, &s->counted[t]);
    cst_scope_free(&s->parts);
    cst_noise_free(context, &s->noise);
    cst_training_close(context, &s->source);
    cst_targets_free(context, &s->targets);
}

/* The rows of every target, with the evaluation's members. */
static cst_status take_views(cst_context *context, cst_evaluation *e) {
    state *s = e->data;
    CST_TAKE(context, &e->scope, s->views, s->targets.count);
    for (int32_t t = 0; t < s->targets.count; t++)
        s->views[t] = s->targets.list[t].view;
    return CST_OK;
}

static cst_status open_targets(cst_context *context, const cst_evaluation *e, state *s) {
    const cst_compare_options *options = e->options;
    if (!e->shift && !e->nested && !cst_pool_has_split(e->pool, e->split))
        return cst_fail_split(context, CST_ERROR_MISMATCH, e->pool, e->split);
    CST_TRY(cst_targets_make(context, e->pool, e->split, e->shift ? options->clean : "",
                             e->shift ? options->ood : NULL, &s->targets));
    for (int32_t t = 0; t < s->targets.count; t++) {
        cst_target *target = &s->targets.list[t];
        if (t > 0 || !e->nested) {
            CST_TRY(cst_target_load(context, e->pool, target));
            continue;
        }
        if (s->source.time) {
            CST_TRY(cst_training_scored(context, e->pool, e->split, &s->source, &target->counted));
            cst_target_take(target);
            continue;
        }
        target->view = s->source.view;
        target->labels = s->source.view.labels;
        target->groups = s->source.view.groups;
        target->weights = s->source.view.weights;
        target->domains = s->source.view.domains;
        target->samples = s->source.view.rows;
    }
    return cst_targets_check_weights(context, e->pool, &s->targets);
}

static cst_status open_methods(cst_context *context, cst_evaluation *e) {
    const cst_compare_options *options = e->options;
    cst_method method;
    state *s = e->data;
    CST_TRY(cst_method_parse(context, "default", options->seed, options->settings,
                             (int32_t)options->setting_count, &method));
    CST_TRY(cst_training_open(context, e->pool, cst_evaluation_fitted(e), &method.settings.folds,
                              options->seed, &s->source));
    if (method.settings.checks && !e->checked)
        CST_TRY(cst_training_teach(context, e->pool, cst_evaluation_fitted(e), options->seed,
                                   &s->source, &e->findings));
    s->classes = s->source.view.classes;
    CST_TRY(open_targets(context, e, s));
    return take_views(context, e);
}

static cst_status open_model(cst_context *context, cst_evaluation *e, const cst_model *model) {
    state *s = e->data;
    s->classes = (int32_t)cst_model_classes(model);
    CST_TRY(cst_targets_make(context, e->pool, e->split, e->options->clean, e->options->ood,
                             &s->targets));
    CST_TAKE(context, &e->scope, s->positions, cst_model_inputs(model) + cst_pool_members(e->pool));
    CST_TAKE(context, &e->scope, s->model_views, s->targets.count);
    CST_TAKE(context, &s->parts, s->counted, s->targets.count);
    return CST_OK;
}

static cst_status open_baselines(cst_context *context, cst_evaluation *e) {
    state *s = e->data;
    CST_TRY(cst_training_open(context, e->pool, "oof", &(cst_fold_plan){.count = 5},
                              e->options->seed, &s->source));
    for (int32_t t = 0; t < s->targets.count; t++)
        CST_TRY(cst_target_load(context, e->pool, &s->targets.list[t]));
    return take_views(context, e);
}

static cst_status open(cst_context *context, cst_evaluation *e, const cst_model *model) {
    if (model)
        return open_model(context, e, model);
    CST_TRY(e->brief ? open_baselines(context, e) : open_methods(context, e));
    e->source = &state_of(e)->source;
    return CST_OK;
}

static cst_status subset(cst_context *context, const cst_evaluation *e, cst_evaluation *out) {
    const state *whole = e->data;
    state *s = out->data;
    s->classes = whole->classes;
    s->targets = whole->targets;
    CST_OWN(context, &out->scope, cst_noise, &s->noise);
    CST_TRY(cst_training_part(context, &out->scope, &whole->source, out->positions, out->members,
                              &s->source));
    CST_TAKE(context, &out->scope, s->views, whole->targets.count);
    for (int32_t t = 0; t < whole->targets.count; t++) {
        const float **pointers;
        CST_TAKE(context, &out->scope, pointers, out->members);
        s->views[t] = cst_view_members(&whole->views[t], out->positions, out->members, pointers);
    }
    out->source = &s->source;
    return CST_OK;
}

/* ---- methods ---- */

/* Calibrated methods that are compared after the method itself. */
static const struct {
    const char *of, *name;
} CALIBRATED[] = {{"average", "average+temperature"},
                  {"average", "average+vector"},
                  {"average", "average+isotonic"},
                  {"average", "average+platt"},
                  {"deep-ensemble", "deep-ensemble+temperature"}};
enum { CALIBRATED_COUNT = sizeof CALIBRATED / sizeof CALIBRATED[0] };

static const char *method_name(size_t index) {
    for (size_t i = 0; cst_method_name(i); i++) {
        if (index-- == 0)
            return cst_method_name(i);
        for (size_t c = 0; c < CALIBRATED_COUNT; c++)
            if (strcmp(CALIBRATED[c].of, cst_method_name(i)) == 0 && index-- == 0)
                return CALIBRATED[c].name;
    }
    return NULL;
}

/* ---- one method ---- */

/* Scores of predictions, means over the conditions of one split or over several splits. */
static cst_status score(cst_context *context, cst_scope *scope, const state *s, predicted *p,
                        double *scores) {
    const cst_target *first = &s->targets.list[0];
    bool splits = s->targets.scored > 1;
    int32_t times = splits ? s->targets.scored : first->conditions > 0 ? first->conditions : 1;
    size_t cells = (size_t)first->samples * (size_t)s->classes;
    CST_TAKE(context, scope, p->parts, times);
    memset(scores, 0, SCORES * sizeof *scores);
    for (int32_t t = 0; t < times; t++) {
        const cst_target *target = &s->targets.list[splits ? t : 0];
        const float *rows = splits ? p->rows[t] : p->rows[0] + (size_t)t * cells;
        cst_metrics *one = &p->parts[t];
        CST_TRY(cst_metrics_weighted(context, rows, target->samples, s->classes, target->labels,
                                     target->weights, 0, one));
        const double values[SCORES] = {one->top1,         one->ece,      one->nll,
                                       one->brier,        one->ece_mass, one->ece_classwise,
                                       one->ece_debiased, one->corp};
        for (int i = 0; i < SCORES; i++)
            scores[i] += values[i] / times;
    }
    return CST_OK;
}

/* Presets leave out rows with wrong labels. */
static cst_status doubt(cst_context *context, const cst_evaluation *e, const cst_method *method,
                        cst_training *source) {
    state *s = e->data;
    const cst_noise_options *labels = &method->settings.labels;
    if (!method->preset || labels->rule == CST_LABELS_OFF)
        return CST_OK;
    if (!s->doubted || s->noise.rule != labels->rule) {
        cst_noise_free(context, &s->noise);
        CST_TRY(cst_training_doubt(context, source, &method->settings, &s->noise));
    }
    s->doubted = true;
    source->wrong = s->noise.wrong;
    return CST_OK;
}

static cst_status predict(cst_context *context, const cst_evaluation *e, const cst_method_fit *fit,
                          const cst_training *source, cst_entry *entry) {
    const state *s = e->data;
    predicted *p = entry->result;
    CST_TAKE(context, &entry->scope, p->rows, s->targets.count);
    for (int32_t t = 0; t < s->targets.count; t++) {
        bool nested = t == 0 && e->nested;
        int64_t rows = nested ? source->view.rows : s->views[t].rows;
        CST_TAKE(context, &entry->scope, p->rows[t], (size_t)rows * (size_t)s->classes);
        CST_TRY(nested
                    ? cst_method_nested(context, &fit->method, source, e->options->seed, p->rows[t])
                    : cst_method_fit_predict(context, fit, &s->views[t], p->rows[t]));
        if (nested)
            cst_training_pack(source, (size_t)s->classes, p->rows[t]);
    }
    return CST_OK;
}

/* Decides the rows of the targets that are scored. */
static cst_status decide(cst_context *context, const state *s, const cst_view *views,
                         const cst_decision *decision, cst_entry *entry) {
    predicted *p = entry->result;
    CST_TAKE(context, &entry->scope, p->decided, s->targets.count);
    for (int32_t t = 0; t < s->targets.scored; t++) {
        CST_TAKE(context, &entry->scope, p->decided[t], views[t].rows);
        cst_decision_apply(decision, p->rows[t], views[t].rows, s->classes, p->decided[t]);
    }
    return CST_OK;
}

/* Decisions for the metric: those of nested rows are found without the row's fold. */
static cst_status decide_method(cst_context *context, const cst_evaluation *e,
                                const cst_method_fit *fit, const cst_training *source,
                                cst_entry *entry, cst_model *model) {
    const state *s = e->data;
    const cst_view *view = &source->view;
    predicted *p = entry->result;
    double gain = NAN;
    CST_SCOPE(scope);
    bool nested = e->nested && !e->unscored;
    float *held = nested ? p->rows[0] : NULL;
    CST_NEW(context, scope, int32_t, decided, view->rows);
    if (!held && !e->metric.costs) {
        CST_TAKE(context, scope, held, (size_t)view->rows * (size_t)view->classes);
        CST_TRY(cst_method_nested(context, &fit->method, source, e->options->seed, held));
        cst_training_pack(source, (size_t)view->classes, held);
    }
    cst_metric_rows rows;
    const int32_t *folds;
    CST_TRY(cst_nested_rows(context, scope, source, held, &rows, &folds));
    rows.rows = held ? rows.rows : 0;
    CST_TRY(cst_model_decisions(context, e->metric, &rows, folds, source->fold_count, decided,
                                model, &gain));
    if (e->unscored)
        return CST_OK;
    CST_TRY(decide(context, s, s->views, model->decision, entry));
    if (nested)
        memcpy(p->decided[0], decided, (size_t)rows.rows * sizeof *decided);
    return CST_OK;
}

CST_OWNED(cst_method_fit)

static void release_scope(cst_context *context, void *scope) {
    (void)context;
    cst_scope_free(scope);
}

static cst_status run_method(cst_context *context, const cst_evaluation *e, cst_entry *entry) {
    cst_method_fit fit = {0};
    cst_training source = *e->source;
    CST_SCOPE(scope);
    CST_OWN(context, scope, cst_method_fit, &fit);
    CST_TRY(doubt(context, e, entry->method, &source));
    CST_TRY(cst_method_fit_run(context, entry->method, &source, e->options->seed, &fit));
    if (!e->unscored)
        CST_TRY(predict(context, e, &fit, &source, entry));
    CST_TRY(cst_entry_take_fit(context, &fit, entry));
    if (!e->unscored)
        CST_TRY(score(context, &entry->scope, e->data, entry->result, entry->scores));
    if (entry->keep)
        CST_TRY(cst_method_fit_model(context, &fit, &entry->made));
    if (!cst_metric_decides(e->metric))
        return CST_OK;
    cst_model only = {0}; /* of the decisions, where no model is wanted */
    CST_TRY(cst_scope_own(context, scope, release_scope, &only.scope));
    return decide_method(context, e, &fit, &source, entry, entry->keep ? entry->made.model : &only);
}

static cst_status own(cst_context *context, const cst_evaluation *e,
                      const cst_own_predictions *given, cst_entry *entry) {
    const state *s = e->data;
    predicted *p = entry->result;
    CST_TAKE(context, &entry->scope, p->rows, s->targets.count);
    for (int32_t t = 0; t < s->targets.scored; t++) {
        const cst_target *target = &s->targets.list[t];
        const cst_counted *counted =
            e->nested && !s->source.time ? &s->source.counted : &target->counted;
        CST_TAKE(context, &entry->scope, p->rows[t], (size_t)target->samples * (size_t)s->classes);
        CST_TRY(cst_pool_own(context, e->pool, target->split, given, counted->rows, target->samples,
                             p->rows[t]));
    }
    return score(context, &entry->scope, s, p, entry->scores);
}

static cst_status label(cst_context *context, const cst_evaluation *e, const cst_options *options,
                        cst_entry *entry) {
    return cst_fit_label_rows(context, e->pool, cst_evaluation_fitted(e), e->source, options,
                              entry->name, entry->made.kept, entry->made.model);
}

static bool scored(const cst_evaluation *e, const void *result, int32_t index,
                   cst_metric_rows *out) {
    const state *s = e->data;
    const predicted *p = result;
    const cst_target *first = &s->targets.list[0];
    bool splits = s->targets.scored > 1;
    const cst_target *target = &s->targets.list[splits ? index : 0];
    int32_t times = splits ? s->targets.scored : first->conditions > 0 ? first->conditions : 1;
    if (index >= times)
        return false;
    size_t cells = (size_t)first->samples * (size_t)s->classes;
    *out = (cst_metric_rows){.values = splits ? p->rows[index] : p->rows[0] + (size_t)index * cells,
                             .rows = target->samples,
                             .columns = s->classes,
                             .labels = target->labels,
                             .weights = target->weights};
    if (p->decided)
        out->decided =
            splits ? p->decided[index] : p->decided[0] + (size_t)index * (size_t)first->samples;
    return true;
}

static bool told(const cst_evaluation *e, const cst_entry *entry, int32_t index, cst_told *out) {
    const state *s = e->data;
    if (index >= s->targets.count)
        return false;
    const cst_target *target = &s->targets.list[index];
    *out = (cst_told){target->split, result_of(entry)->rows[index], target->samples, s->classes};
    return true;
}

/* ---- a model ---- */

/* Weights of the members where the blend is one log-linear pool. */
static cst_status model_weights(cst_context *context, const cst_model *model, cst_entry *out) {
    const cst_learner *pool = cst_model_pool(model);
    if (model->adapted || model->learners != 1 || !pool || (pool->own && pool->own->scaling))
        return CST_OK;
    CST_TAKE(context, &out->scope, out->weights, model->members);
    memcpy(out->weights, pool->weights, (size_t)model->members * sizeof *out->weights);
    return CST_OK;
}

static cst_status no_labels(cst_context *context, const char *split) {
    return cst_fail(context, CST_ERROR_INPUT, "split '%s' has no labels to score against", split);
}

/* Labels of a target; predictions of rows that do not count are taken out. */
static cst_status fill_target(cst_context *context, const cst_evaluation *e, const state *s,
                              const cst_model *model, int32_t members, cst_target *target,
                              float *rows) {
    if (!cst_pool_labels(e->pool, target->split) && target->role != CST_TARGET_OOD)
        return no_labels(context, target->split);
    CST_TRY(cst_target_fill(context, e->pool, s->positions, members, target));
    CST_TRY(cst_scored_narrow(context, model, target->split, &target->view));
    size_t classes = (size_t)s->classes;
    const int64_t *counted = target->counted.rows;
    for (int64_t i = 0; counted && i < target->view.rows; i++)
        memmove(rows + (size_t)i * classes, rows + (size_t)counted[i] * classes,
                classes * sizeof *rows);
    return CST_OK;
}

/* The model's predictions of every target, whose members are read for that. */
static cst_status predict_targets(cst_context *context, const cst_evaluation *e,
                                  const cst_model *model, cst_entry *entry) {
    state *s = e->data;
    predicted *p = entry->result;
    CST_TAKE(context, &entry->scope, p->rows, s->targets.count);
    for (int32_t t = 0; t < s->targets.count; t++) {
        cst_target *target = &s->targets.list[t];
        int64_t rows = 0;
        int32_t members = 0;
        bool strict = !cst_pool_misses(e->pool); /* such rows are left out of the scores */
        CST_TRY(cst_scored_members(context, model, e->pool, target->split, s->positions, &members));
        CST_TRY(cst_stack_predict_pool(context, model, e->pool, target->split, strict, &p->rows[t],
                                       &rows));
        CST_TRY(cst_scope_own(context, &entry->scope, cst_free, p->rows[t]));
        CST_TRY(fill_target(context, e, s, model, members, target, p->rows[t]));
        /* Kept apart: for the baselines the target is filled again, with every member. */
        s->model_views[t] = target->view;
        s->counted[t] = target->counted;
        target->counted = (cst_counted){0};
    }
    return CST_OK;
}

static cst_status run_model(cst_context *context, const cst_evaluation *e, const cst_model *model,
                            cst_entry *entry) {
    const state *s = e->data;
    CST_TRY(predict_targets(context, e, model, entry));
    CST_TRY(cst_targets_check_weights(context, e->pool, &s->targets));
    for (int32_t t = 0; t < s->targets.scored; t++)
        if (s->targets.list[t].conditions == 0)
            CST_TRY(cst_check_scored(context, &(cst_check_source){.pool = e->pool,
                                                                  .split = s->targets.list[t].split,
                                                                  .view = &s->model_views[t],
                                                                  .members = s->positions,
                                                                  .rows = s->counted[t].rows}));
    CST_TRY(model_weights(context, model, entry));
    if (model->decision)
        CST_TRY(decide(context, s, s->model_views, model->decision, entry));
    return score(context, &entry->scope, s, entry->result, entry->scores);
}

static cst_status run(cst_context *context, const cst_evaluation *e, const cst_model *model,
                      cst_entry *entry) {
    return model ? run_model(context, e, model, entry) : run_method(context, e, entry);
}

/* Whether a scored split has the rows of the fit, by name and labels or by the rows. */
static cst_status look_at_rows(cst_context *context, const cst_evaluation *e,
                               const cst_model *model, const char *key, int32_t t,
                               cst_known_rows *known, cst_seen *seen, cst_row_match *match) {
    const state *s = e->data;
    const cst_target *target = &s->targets.list[t];
    cst_fit_rows fit;
    *seen = CST_SEEN_NONE;
    if (!cst_fit_rows_under(model, key, target->labels, target->samples, &fit) &&
        strcmp(key, CST_FITTED_KEY) != 0)
        return CST_OK;
    *seen = cst_fit_rows_named(&fit, target->split) ? CST_SEEN_ALL : CST_SEEN_NONE;
    if (*seen == CST_SEEN_ALL || target->conditions > 0)
        return CST_OK; /* rows of conditions are changed ones */
    return cst_rows_seen(context, model, e->pool, &fit, target->split, &s->model_views[t], known,
                         match, seen);
}

/* Of the rows that the model notes under one key. */
static cst_status say_seen(cst_context *context, const cst_evaluation *e, const cst_model *model,
                           const char *key, bool *any) {
    const state *s = e->data;
    cst_known_rows known = {0};
    cst_status status = CST_OK;
    for (int32_t t = 0; status == CST_OK && t < s->targets.scored; t++) {
        cst_row_match match;
        cst_seen seen = CST_SEEN_NONE;
        const char *split = s->targets.list[t].split;
        status = look_at_rows(context, e, model, key, t, &known, &seen, &match);
        if (status == CST_OK && seen == CST_SEEN_ALL)
            cst_notice_seen(context, split);
        else if (status == CST_OK && seen == CST_SEEN_SOME)
            cst_notice(context,
                       "of %lld rows of split '%s' that were checked, %lld have the label and the "
                       "predictions of rows that the model was fitted on; if they are the same "
                       "rows, these scores are optimistic",
                       (long long)match.looked_at, split, (long long)match.found);
        *any = *any || seen == CST_SEEN_ALL;
    }
    cst_scope_free(&known.scope);
    return status;
}

/* Says which splits the fit has seen: scores on them are no estimate of anything. */
static cst_status seen(cst_context *context, const cst_evaluation *e, const cst_model *model,
                       bool *any) {
    CST_TRY(say_seen(context, e, model, CST_FITTED_KEY, any));
    return say_seen(context, e, model, CST_ADAPTED_KEY, any);
}

/* ---- a member ---- */

static cst_status member(cst_context *context, cst_evaluation *e, cst_entry *entry,
                         const void *member) {
    state *s = e->data;
    predicted *p = entry->result;
    CST_NEW(context, &s->targets.scope, cst_target, target, 1);
    s->targets.list = target;
    s->targets.count = s->targets.scored = 1;
    CST_TRY(cst_counted_open(context, e->pool, e->split, member, 1, &target->counted));
    const cst_view *view = &target->counted.view;
    if (!view->labels || view->rows < 1)
        return no_labels(context, e->split);
    if (cst_pool_conditions(e->pool, e->split) == 0)
        CST_TRY(cst_check_scored(context, &(cst_check_source){.pool = e->pool,
                                                              .split = e->split,
                                                              .view = view,
                                                              .members = member,
                                                              .rows = target->counted.rows}));
    s->classes = view->classes;
    target->view = *view;
    target->labels = view->labels;
    target->weights = view->weights;
    target->samples = view->rows;
    CST_TAKE(context, &entry->scope, p->rows, 1);
    CST_TAKE(context, &entry->scope, p->rows[0], (size_t)view->rows * (size_t)view->classes);
    CST_TRY(cst_view_copy(context, view, 0, p->rows[0]));
    e->pool = NULL; /* conditions and the like are not told of a member */
    return score(context, &entry->scope, s, p, entry->scores);
}

/* ---- shift ---- */

/* Whether intervals of top-1, NLL and Brier are those of several conditions or splits. */
static bool shift_scores(const cst_targets *targets) {
    return targets->scored > 1 || targets->list[0].conditions > 0;
}

/* Everything that the targets call for; also what it is, at the document's top. */
static cst_status report_shift(cst_context *context, const cst_shift *shift) {
    const cst_targets *targets = shift->targets;
    bool plain = !shift_scores(targets);
    const char *split = targets->list[0].split;
    if (targets->list[0].conditions > 0)
        CST_TRY(cst_shift_corruption(context, shift));
    else if (targets->scored > 1)
        CST_TRY(cst_shift_splits(context, shift));
    else if (shift->reference_errors)
        return cst_fail(context, CST_ERROR_ARGUMENT,
                        "reference errors are for splits with conditions, and '%s' has none",
                        split);
    if (plain)
        CST_TRY(cst_shift_classes(context, shift));
    if (plain && cst_pool_groups(shift->pool, split))
        CST_TRY(cst_shift_groups(context, shift));
    if (plain)
        CST_TRY(cst_shift_domains(context, shift));
    return targets->list[targets->count - 1].role == CST_TARGET_OOD ? cst_shift_ood(context, shift)
                                                                    : CST_OK;
}

/* Definitions of these scores, into an object. */
static void define_shift(cst_report *report, json_t *object, const cst_pool *pool,
                         const cst_targets *targets) {
    enum { CORRUPTION, SPLITS, CLASSES, GROUPS, OUT, ENERGY, KINDS, NAMES = 10 };
    static const char *const names[KINDS][NAMES] = {
        {"mce", "mce_normalised", "mce_delta", "mce_relative"},
        {"worst_top1"},
        {"accuracy_head", "accuracy_mid", "accuracy_tail", "balanced_accuracy"},
        {"worst_group_accuracy"},
        {"auroc_out_positive", "aupr_out_positive", "fpr95_out_positive", "aupr_in_positive",
         "fpr95_in_positive", "detection_error", "max_probability", "predictive_entropy",
         "disagreement", "mutual_information"},
        {"energy"}};
    bool plain = !shift_scores(targets);
    bool out = targets->list[targets->count - 1].role == CST_TARGET_OOD;
    const bool given[KINDS] = {[CORRUPTION] = targets->list[0].conditions > 0,
                               [SPLITS] = targets->scored > 1,
                               [CLASSES] = plain && cst_pool_training_counts(pool),
                               [GROUPS] = plain && cst_pool_groups(pool, targets->list[0].split),
                               [OUT] = out,
                               [ENERGY] = out && cst_pool_has_logits(pool)};
    for (int k = 0; k < KINDS; k++)
        for (int i = 0; given[k] && i < NAMES && names[k][i]; i++)
            cst_report_string(report, object, names[k][i], cst_metric_definition(names[k][i]));
}

/* ---- intervals and tests ---- */

static cst_status bootstrap(cst_context *context, const cst_evaluation *e,
                            const void *const *results, int32_t count, int32_t reference,
                            int32_t resamples, cst_intervals *out) {
    const state *s = e->data;
    const cst_target *target = &s->targets.list[0];
    CST_SCOPE(scope);
    out->done = !shift_scores(&s->targets);
    if (!out->done)
        return CST_OK;
    CST_NEW(context, scope, const float *, all, count);
    for (int32_t m = 0; m < count; m++)
        all[m] = ((const predicted *)results[m])->rows[0];
    const cst_bootstrap_input input = {.probabilities = all,
                                       .methods = count,
                                       .rows = target->samples,
                                       .classes = s->classes,
                                       .labels = target->labels,
                                       .weights = target->weights,
                                       .resamples = resamples,
                                       .seed = e->options->seed,
                                       .scores = e->brief ? CST_BOOTSTRAP_BASIC : CST_BOOTSTRAP_ALL,
                                       .reference = reference};
    return cst_bootstrap_weighted(context, &input, out->interval, out->difference, out->p);
}

/* Times the weights of the rows, the mean difference is that of the scores. */
static cst_status losses(cst_context *context, cst_scope *scope, const cst_evaluation *e,
                         const cst_entry *entry, cst_losses *out) {
    const state *s = e->data;
    const cst_target *target = &s->targets.list[0];
    if (shift_scores(&s->targets) || target->samples < 2)
        return CST_OK;
    *out = (cst_losses){.metric = "nll", .samples = target->samples};
    CST_TAKE(context, scope, out->loss, target->samples);
    CST_TAKE(context, scope, out->correct, target->samples);
    cst_samples samples = {.nll = out->loss, .correct = out->correct};
    CST_TRY(cst_samples_fill(context, result_of(entry)->rows[0], target->samples, s->classes,
                             target->labels, &samples));
    for (int64_t i = 0; target->weights && i < target->samples; i++)
        out->loss[i] *= target->weights[i];
    return CST_OK;
}

/* ---- documents ---- */

static void put_size(cst_report *report, const cst_evaluation *e) {
    const state *s = e->data;
    json_t *root = cst_report_root(report);
    int64_t samples = 0;
    for (int32_t t = 0; t < s->targets.scored; t++)
        samples += s->targets.list[t].samples;
    cst_report_integer(report, root, "samples", samples);
    cst_view first = s->targets.list[0].view;
    first.rows = samples; /* of one condition */
    if (s->targets.scored == 1 && first.weights)
        cst_report_number(report, root, "effective_samples", cst_view_effective_rows(&first));
    cst_report_integer(report, root, "classes", s->classes);
    if (s->targets.list[0].conditions > 0) {
        CST_PUT(report, root, CST_I("conditions", s->targets.list[0].conditions),
                CST_S("aggregate", "mean over conditions"));
    }
    if (s->targets.scored < 2)
        return;
    json_t *list = cst_report_list(report, root, "splits");
    for (int32_t t = 0; t < s->targets.scored; t++)
        cst_report_add_string(report, list, s->targets.list[t].split);
    cst_report_string(report, root, "aggregate", "mean over splits");
}

static cst_status put_reliability(cst_context *context, cst_report *report, json_t *parent,
                                  const float *rows, const state *s, const cst_target *target) {
    cst_reliability_bin bins[CST_METRIC_BINS];
    CST_TRY(cst_reliability_weighted(context, rows, target->samples, s->classes, target->labels,
                                     target->weights, 0, bins));
    json_t *list = cst_report_list(report, parent, "reliability");
    for (int32_t b = 0; b < CST_METRIC_BINS; b++) {
        json_t *object = cst_report_add_object(report, list);
        CST_PUT(report, object, CST_N("lower", bins[b].lower), CST_N("upper", bins[b].upper),
                CST_N("confidence", bins[b].confidence), CST_N("accuracy", bins[b].accuracy),
                CST_I("count", bins[b].count));
    }
    return CST_OK;
}

/* Corruption, parts of the split, several splits, rows out of distribution. */
static cst_status put_more(cst_context *context, const cst_description *d) {
    const cst_evaluation *e = d->e;
    const state *s = e->data;
    const cst_compare_options *options = e->options;
    CST_SCOPE(scope);
    CST_NEW(context, scope, cst_shift_method, methods, d->count);
    for (int32_t m = 0; m < d->count; m++) {
        const cst_entry *entry = &d->entries[m];
        bool model = m == 0 && s->model_views;
        methods[m] = (cst_shift_method){.row = d->rows[m],
                                        .predicted = (const float *const *)result_of(entry)->rows,
                                        .views = model ? s->model_views : s->views,
                                        .members = model ? s->positions : NULL,
                                        .weights = entry->weights,
                                        .uses = entry->uses};
    }
    const cst_shift shift = {.report = d->report,
                             .pool = e->pool,
                             .targets = &s->targets,
                             .classes = s->classes,
                             .methods = methods,
                             .count = d->count,
                             .reference = d->reference,
                             .resamples = (int32_t)options->resamples,
                             .seed = options->seed,
                             .head_above = options->head_above,
                             .tail_below = options->tail_below,
                             .reference_errors = options->reference_errors};
    if (e->brief && d->count > 1 && !shift_scores(&s->targets)) /* of the best single model */
        CST_TRY(put_reliability(context, d->report, d->rows[1], result_of(&d->entries[1])->rows[0],
                                s, &s->targets.list[0]));
    return report_shift(context, &shift);
}

static void put_conditions(cst_report *report, const cst_evaluation *e, const predicted *p) {
    const cst_target *target = &state_of(e)->targets.list[0];
    json_t *list = cst_report_list(report, cst_report_root(report), "conditions");
    for (int32_t k = 0; k < target->conditions; k++) {
        json_t *object = cst_report_add_object(report, list);
        cst_put_condition(report, object, e->pool, target->split, k);
        cst_document_scores(report, object, &p->parts[k]);
    }
}

static cst_status put_own(cst_context *context, const cst_description *d) {
    const state *s = state_of(d->e);
    const predicted *p = result_of(d->entries);
    const cst_target *target = &s->targets.list[0];
    cst_report *report = d->report;
    cst_report_string(report, d->object, "ece_definition", cst_metric_definition("ece"));
    if (d->e->pool) { /* of what goes beyond the scores of one file */
        json_t *definitions = cst_report_object(report, d->object, "definitions");
        define_shift(report, definitions, d->e->pool, &s->targets);
        if (json_object_size(definitions) == 0)
            (void)json_object_del(d->object, "definitions");
    }
    if (target->conditions > 0)
        put_conditions(report, d->e, p);
    if (shift_scores(&s->targets))
        return CST_OK;
    CST_TRY(put_reliability(context, report, d->object, p->rows[0], s, target));
    return cst_document_wrong(
        context, report,
        &(cst_wrong){.pool = d->e->pool,
                     .target = target,
                     .classes = s->classes,
                     .numbers = s->counted ? s->counted[0].rows : target->counted.rows,
                     .rows = p->rows[0],
                     .decided = p->decided ? p->decided[0] : NULL});
}

static cst_status describe(cst_context *context, cst_part part, const cst_description *d) {
    switch (part) {
    case CST_PART_SIZE:
        put_size(d->report, d->e);
        return CST_OK;
    case CST_PART_DEFINITIONS:
        define_shift(d->report, d->object, d->e->pool, &state_of(d->e)->targets);
        return CST_OK;
    case CST_PART_OWN:
        return put_own(context, d);
    case CST_PART_MORE:
        return d->e->pool ? put_more(context, d) : CST_OK;
    default:
        return CST_OK;
    }
}

static const char *const BASELINES[] = {"best-single", "average", "greedy", "greedy+temperature",
                                        NULL};

const cst_task_ops cst_classification_ops = {
    .task = CST_TASK_CLASSIFICATION,
    .unit = "samples",
    .baselines = BASELINES,
    .brief_scores = BRIEF,
    .state_bytes = sizeof(state),
    .method_bytes = sizeof(cst_method),
    .result_bytes = sizeof(predicted),
    .release = release,
    .family = &cst_classification_family,
    .member = member,
    .method_name = method_name,
    .definition = cst_metric_definition,
    .open = open,
    .subset = subset,
    .parse = cst_entry_parse_rows,
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
