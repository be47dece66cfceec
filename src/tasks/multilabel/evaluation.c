/* The table of multilabel: methods by name, what is fitted on and scored, bootstrap, tests, and
 * scores of a member. Chosen by src/tasks. docs/multilabel.md. */
#include "data/checks/checks.h"
#include "data/pool/pool.h"
#include "fit/harness.h"
#include "fit/label.h"
#include "fit/profile.h"
#include "model/fit_rows.h"
#include "tasks/multilabel/multilabel.h"
#include "tasks/regression/regression.h"

#include <math.h>
#include <string.h>

/* A method by name: a baseline or a preset of the stack. */
typedef struct label_method {
    const cst_label_baseline *baseline; /* NULL: a preset */
    cst_settings settings;              /* of a preset */
} label_method;

/* What an evaluation holds: that of some members borrows rows of the whole. */
typedef struct state {
    cst_training source;
    cst_view rows;          /* what is scored */
    cst_counted counted;    /* what it is in, unless it is the source's */
    cst_counted model_rows; /* the rows scored, with the members of a model */
} state;

/* What a method, a model or a member predicted: an entry's result. */
typedef struct predicted {
    float *p;              /* [rows][labels] */
    cst_label_score *each; /* [labels] */
} predicted;

static state *state_of(const cst_evaluation *e) {
    return e->data;
}

/* ---- names ---- */

/* The paper's own have stages that this task has not. */
static const char *const PRESETS[] = {"default", "compact", "best", NULL};

static const char *method_name(size_t index) {
    size_t baselines = 0;
    for (; cst_label_baseline_at(baselines); baselines++)
        if (baselines == index)
            return cst_label_baseline_name(cst_label_baseline_at(index));
    index -= baselines;
    return index < sizeof PRESETS / sizeof PRESETS[0] ? PRESETS[index] : NULL;
}

static cst_status parse(cst_context *context, const cst_evaluation *e, const char *const *settings,
                        int32_t count, cst_entry *entry) {
    label_method *method = entry->method;
    method->baseline = cst_label_baseline_find(entry->name);
    if (method->baseline) {
        entry->definition = cst_label_baseline_definition(method->baseline);
        return CST_OK;
    }
    for (size_t i = 0; PRESETS[i]; i++) {
        if (strcmp(entry->name, PRESETS[i]) != 0)
            continue;
        entry->definition = "the pool of log-odds with weights of each label drawn to common ones, "
                            "of the members that are not redundant and were selected";
        entry->preset = PRESETS[i];
        entry->settings = &method->settings;
        return cst_method_settings(context, entry->preset, e->options->seed, settings, count,
                                   cst_label_check_options, &method->settings);
    }
    char list[CST_METHOD_LIST_CHARS];
    bool known = strchr(entry->name, '+') || cst_method_describe(entry->name);
    cst_method_names(method_name, list);
    return cst_fail(context, known ? CST_ERROR_UNSUPPORTED : CST_ERROR_ARGUMENT,
                    known ? "method '%.60s' is for other tasks; the methods for multilabel are %s"
                          : "unknown method '%.60s'; the methods for multilabel are %s",
                    entry->name, list);
}

/* ---- opening ---- */

static cst_status need_labels(cst_context *context, const cst_evaluation *e) {
    return state_of(e)->rows.targets
               ? CST_OK
               : cst_fail(context, CST_ERROR_INPUT, "split '%s' has no labels to score against",
                          e->split);
}

static cst_status open_source(cst_context *context, cst_evaluation *e, const char *split,
                              int32_t folds) {
    state *s = e->data;
    CST_OWN(context, &e->scope, cst_training, &s->source);
    CST_TRY(cst_training_open(context, e->pool, split, &(cst_fold_plan){.count = folds},
                              e->options->seed, &s->source));
    e->source = &s->source;
    return CST_OK;
}

/* The rows of the split, with some members or (NULL) all, to be scored. */
static cst_status open_rows(cst_context *context, cst_evaluation *e, const int32_t *members,
                            int32_t count, cst_counted *counted) {
    CST_OWN(context, &e->scope, cst_counted, counted);
    CST_TRY(cst_counted_open(context, e->pool, e->split, members, count, counted));
    state_of(e)->rows = counted->view;
    return need_labels(context, e);
}

static cst_status open_methods(cst_context *context, cst_evaluation *e) {
    const cst_compare_options *options = e->options;
    state *s = e->data;
    cst_settings settings;
    CST_TRY(cst_method_settings(context, "default", options->seed, options->settings,
                                (int32_t)options->setting_count, cst_label_check_options,
                                &settings));
    CST_TRY(open_source(context, e, cst_evaluation_fitted(e), settings.folds.count));
    s->rows = s->source.view;
    if (e->nested)
        return CST_OK;
    CST_TRY(cst_pool_load(context, e->pool, e->split));
    return open_rows(context, e, NULL, 0, &s->counted);
}

static cst_status open(cst_context *context, cst_evaluation *e, const cst_model *model) {
    state *s = e->data;
    int32_t count = 0;
    if (!model && !e->brief)
        return open_methods(context, e);
    if (!model) {
        CST_TRY(cst_pool_load(context, e->pool, e->split));
        CST_TRY(open_rows(context, e, NULL, 0, &s->counted));
        return open_source(context, e, "oof", 5);
    }
    CST_SCOPE(scope);
    CST_NEW(context, scope, int32_t, positions,
            cst_model_inputs(model) + cst_pool_members(e->pool));
    CST_TRY(cst_scored_members(context, model, e->pool, e->split, positions, &count));
    CST_TRY(open_rows(context, e, positions, count, &s->model_rows));
    CST_TRY(cst_scored_narrow(context, model, e->split, &s->rows));
    return cst_model_view_tell(context, model, e->split, &s->rows);
}

static cst_status subset(cst_context *context, const cst_evaluation *e, cst_evaluation *out) {
    const state *whole = e->data;
    state *s = out->data;
    CST_TRY(cst_training_part(context, &out->scope, &whole->source, out->positions, out->members,
                              &s->source));
    CST_NEW(context, &out->scope, const float *, pointers, out->members);
    s->rows = cst_view_members(&whole->rows, out->positions, out->members, pointers);
    out->source = &s->source;
    return CST_OK;
}

/* ---- a baseline ---- */

CST_OWNED(cst_made_model)

/* Fits on a training and predicts by the model; functions and uses: NULL, or what they were. */
static cst_status make_baseline(cst_context *context, cst_scope *scope,
                                const cst_label_baseline *baseline, const cst_training *source,
                                cst_label_functions *functions, bool *uses, cst_made_model *out) {
    const cst_view even = cst_view_even(&source->view);
    const double prior = 10; /* of nothing that it fits */
    int32_t count = 0;
    double *mix;
    *out = (cst_made_model){0};
    CST_OWN(context, scope, cst_made_model, out);
    CST_TRY(cst_label_baseline_fit(context, scope, baseline, &even, source->folds,
                                   source->fold_count, prior, functions, &mix));
    for (int32_t l = 0; l < even.classes; l++)
        for (int32_t j = 0; j < even.members; j++)
            uses[j] = uses[j] || functions->weights[l * even.members + j] != 0;
    CST_TRY(cst_members_used(context, uses, even.members, &out->kept, &count));
    return cst_label_model(context, even.classes, even.members, out->kept, count, functions, mix,
                           &out->model);
}

/* By the model of a fit, as a saved one predicts, without a word of absent members. */
static cst_status predict(cst_context *context, const cst_model *model, const int32_t *kept,
                          const cst_view *rows, float *out) {
    CST_SCOPE(scope);
    CST_NEW(context, scope, const float *, pointers, model->members);
    const cst_view view = cst_view_members(rows, kept, model->members, pointers);
    cst_mute(context, true);
    cst_status status = cst_stack_predict(context, model, &view, out);
    cst_mute(context, false);
    return status;
}

/* The rows of each fold by the fit without it. */
static cst_status predict_folds(cst_context *context, const cst_evaluation *e,
                                const cst_label_baseline *baseline, float *out) {
    const cst_training *source = &state_of(e)->source;
    for (int32_t f = 0; f < source->fold_count; f++) {
        cst_fold_rows rows;
        cst_label_functions functions;
        cst_made_model made;
        float *part;
        CST_SCOPE(scope);
        CST_TRY(cst_fold_rows_make(context, scope, source, f, e->options->seed, &rows));
        CST_NEW(context, scope, bool, uses, source->view.members);
        CST_TRY(make_baseline(context, scope, baseline, &rows.inside, &functions, uses, &made));
        CST_TAKE(context, scope, part, (size_t)rows.held.rows * (size_t)rows.held.classes);
        CST_TRY(predict(context, made.model, made.kept, &rows.held, part));
        cst_fold_scatter(source->folds, source->view.rows, f, (size_t)rows.held.classes, part, out);
    }
    return CST_OK;
}

/* Weights of an entry: their means over the labels. */
static cst_status take_weights(cst_context *context, const state *s, const cst_model *model,
                               const int32_t *kept, cst_entry *entry) {
    entry->mix = model->map == CST_PROBABILITY_MIXTURE ? CST_MIX_LINEAR : CST_MIX_LOGLINEAR;
    CST_TAKE(context, &entry->scope, entry->weights, s->source.view.members);
    for (int32_t j = 0; j < model->members; j++) {
        entry->uses[kept[j]] = true;
        for (int32_t l = 0; l < model->classes; l++)
            entry->weights[kept[j]] +=
                model->learner->weights[l * model->members + j] / model->classes;
    }
    return CST_OK;
}

static cst_status run_baseline(cst_context *context, const cst_evaluation *e, const state *s,
                               cst_entry *entry, float *out) {
    const cst_label_baseline *baseline = ((const label_method *)entry->method)->baseline;
    cst_label_functions functions;
    cst_made_model made;
    double before = cst_seconds();
    CST_SCOPE(scope);
    CST_NEW(context, scope, bool, uses, s->source.view.members);
    CST_TRY(make_baseline(context, scope, baseline, &s->source, &functions, uses, &made));
    entry->seconds = cst_seconds() - before;
    CST_TRY(take_weights(context, s, made.model, made.kept, entry));
    if (!e->unscored)
        CST_TRY(e->nested ? predict_folds(context, e, baseline, out)
                          : predict(context, made.model, made.kept, &s->rows, out));
    if (entry->keep) {
        entry->made = made;
        made = (cst_made_model){0};
    }
    return CST_OK;
}

static cst_status run_preset(cst_context *context, const cst_evaluation *e, const state *s,
                             cst_entry *entry, float *out) {
    const cst_training *source = &s->source;
    const cst_settings *settings = &((const label_method *)entry->method)->settings;
    cst_costs costs = cst_training_costs(source);
    cst_run run = cst_run_of(&cst_multilabel_family, &source->view, source->folds,
                             source->fold_count, settings, &costs);
    const cst_fold_result held = {out, (size_t)source->view.classes};
    cst_stages stages = {0};
    double before = cst_seconds();
    CST_SCOPE(scope);
    CST_OWN(context, scope, cst_stages, &stages);
    CST_TRY(cst_stages_run(context, &run, &stages));
    entry->seconds = cst_seconds() - before;
    CST_TRY(take_weights(context, s, stages.fit.model, stages.kept, entry));
    if (!e->unscored)
        CST_TRY(e->nested ? cst_stages_nested(context, &run, NULL, &held, 1)
                          : predict(context, stages.fit.model, stages.kept, &s->rows, out));
    return entry->keep ? cst_stages_take_model(context, &stages, &entry->made) : CST_OK;
}

/* ---- one run ---- */

/* Labels and weights of the rows scored, in their order. */
static cst_status rows_of(cst_context *context, cst_scope *scope, const cst_evaluation *e,
                          cst_label_cells *out) {
    const cst_view *view = &state_of(e)->rows;
    size_t labels = (size_t)view->classes;
    double *targets;
    double *weights = NULL;
    CST_TAKE(context, scope, targets, (size_t)view->rows * labels);
    if (view->weights)
        CST_TAKE(context, scope, weights, view->rows);
    for (int64_t i = 0; i < view->rows; i++) {
        memcpy(targets + (size_t)i * labels, cst_view_target(view, i), labels * sizeof *targets);
        if (weights)
            weights[i] = cst_view_weight(view, i);
    }
    *out = (cst_label_cells){NULL, targets, weights, view->rows, view->classes};
    return CST_OK;
}

static cst_status score(cst_context *context, const cst_evaluation *e, cst_entry *entry) {
    predicted *p = entry->result;
    cst_label_cells rows;
    CST_SCOPE(scope);
    CST_TRY(rows_of(context, scope, e, &rows));
    rows.p = p->p;
    CST_TAKE(context, &entry->scope, p->each, rows.labels);
    return cst_label_scores_of(context, &rows, entry->scores, p->each);
}

static cst_status take_room(cst_context *context, const cst_evaluation *e, cst_entry *entry) {
    const cst_view *rows = &state_of(e)->rows;
    predicted *p = entry->result;
    CST_TAKE(context, &entry->scope, p->p, (size_t)rows->rows * (size_t)rows->classes);
    return CST_OK;
}

static cst_status run(cst_context *context, const cst_evaluation *e, const cst_model *model,
                      cst_entry *entry) {
    const state *s = e->data;
    predicted *p = entry->result;
    CST_TRY(take_room(context, e, entry));
    if (model)
        CST_TRY(cst_stack_predict(context, model, &s->rows, p->p));
    else
        CST_TRY(((const label_method *)entry->method)->baseline
                    ? run_baseline(context, e, s, entry, p->p)
                    : run_preset(context, e, s, entry, p->p));
    return e->unscored ? CST_OK : score(context, e, entry);
}

static cst_status member(cst_context *context, cst_evaluation *e, cst_entry *entry,
                         const void *member) {
    CST_TRY(open_rows(context, e, member, 1, &state_of(e)->counted));
    CST_TRY(take_room(context, e, entry));
    CST_TRY(cst_view_copy(context, &state_of(e)->rows, 0, ((predicted *)entry->result)->p));
    return score(context, e, entry);
}

static cst_status own(cst_context *context, const cst_evaluation *e,
                      const cst_own_predictions *given, cst_entry *entry) {
    const state *s = e->data;
    const cst_counted *counted = e->nested ? &s->source.counted : &s->counted;
    CST_TRY(take_room(context, e, entry));
    CST_TRY(cst_pool_own(context, e->pool, e->split, given, counted->rows, s->rows.rows,
                         ((predicted *)entry->result)->p));
    return score(context, e, entry);
}

static cst_status label(cst_context *context, const cst_evaluation *e, const cst_options *options,
                        cst_entry *entry) {
    return cst_value_label(context, e->pool, cst_evaluation_fitted(e), e->source, options,
                           entry->name, entry->made.kept, entry->made.model);
}

static bool told(const cst_evaluation *e, const cst_entry *entry, int32_t index, cst_told *out) {
    const predicted *p = entry->result;
    const cst_view *rows = &state_of(e)->rows;
    *out = (cst_told){e->split, p->p, rows->rows, rows->classes};
    return index == 0;
}

static cst_status seen(cst_context *context, const cst_evaluation *e, const cst_model *model,
                       bool *out) {
    return cst_seen_targets(context, e, model, &state_of(e)->rows, out);
}

/* ---- intervals and tests ---- */

static cst_status bootstrap(cst_context *context, const cst_evaluation *e,
                            const void *const *results, int32_t count, int32_t reference,
                            int32_t resamples, cst_intervals *out) {
    cst_label_cells rows;
    CST_SCOPE(scope);
    CST_NEW(context, scope, const float *, all, count);
    CST_TRY(rows_of(context, scope, e, &rows));
    for (int32_t m = 0; m < count; m++)
        all[m] = ((const predicted *)results[m])->p;
    return cst_label_bootstrap(context, &rows, all, count, reference, resamples, e->options->seed,
                               out->interval, out->difference, out->p);
}

/* Log loss of each row: the mean over its known cells. */
static cst_status losses(cst_context *context, cst_scope *scope, const cst_evaluation *e,
                         const cst_entry *entry, cst_losses *out) {
    const predicted *p = entry->result;
    cst_label_cells rows;
    CST_SCOPE(own);
    CST_TRY(rows_of(context, own, e, &rows));
    *out = (cst_losses){.metric = "log_loss", .samples = rows.rows};
    CST_TAKE(context, scope, out->loss, rows.rows);
    cst_label_losses(&rows, p->p, out->loss);
    return CST_OK;
}

/* ---- documents ---- */

static void put_size(cst_report *report, const cst_evaluation *e) {
    const cst_view *rows = &state_of(e)->rows;
    int64_t known = 0;
    cst_report_integer(report, cst_report_root(report), "samples", rows->rows);
    for (int64_t i = 0; i < rows->rows; i++)
        for (int32_t l = 0; l < rows->classes; l++)
            known += !isnan(cst_view_target(rows, i)[l]);
    CST_PUT(report, cst_report_root(report), CST_I("output_count", rows->classes),
            CST_I("known", known));
}

static const char *definition(const char *key) {
    static const char *const texts[][2] = {
        {"log_loss", "mean over the known cells of -log p(truth), p in [2^-23, 1 - 2^-23]"},
        {"macro_auc", "area under the ROC curve of each label, their mean over the labels with "
                      "positive and negative rows"},
        {"micro_auc", "area under the ROC curve of all known cells together"},
        {"map", "average precision of each label, their mean over the labels with positive rows"},
        {"macro_f1", "F1 of each label, at a threshold for each fifth of the rows that has the "
                     "largest F1 on the others; their mean over the labels with positive rows"},
        {"micro_f1", "F1 of all known cells together, at the same thresholds"},
        {"lrap", "label ranking average precision: for each positive label of a row, the share of "
                 "positive labels among those of at least its probability; their mean"},
        {"hamming", "share of the known cells that a threshold of 0.5 gets wrong"},
        {"ece", "expected calibration error of all known cells, 15 bins of equal width"},
    };
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        if (strcmp(texts[i][0], key) == 0)
            return texts[i][1];
    return NULL;
}

static cst_status describe(cst_context *context, cst_part part, const cst_description *d) {
    (void)context;
    if (part == CST_PART_SIZE)
        put_size(d->report, d->e);
    if (part == CST_PART_ROW && d->e->brief)
        cst_label_put_each(d->report, d->object, d->e->pool,
                           ((const predicted *)d->entries->result)->each,
                           state_of(d->e)->rows.classes);
    if (part == CST_PART_OWN)
        cst_put_score_definitions(d->report, d->e);
    return CST_OK;
}

static const char *const BASELINES[] = {"best-single", "average", "greedy", NULL};

const cst_task_ops cst_multilabel_ops = {
    .task = CST_TASK_MULTILABEL,
    .unit = "samples",
    .baselines = BASELINES,
    .state_bytes = sizeof(state),
    .method_bytes = sizeof(label_method),
    .result_bytes = sizeof(predicted),
    .family = &cst_multilabel_family,
    .member = member,
    .method_name = method_name,
    .definition = definition,
    .open = open,
    .subset = subset,
    .parse = parse,
    .run = run,
    .own = own,
    .told = told,
    .label = label,
    .hash = cst_hash_rows,
    .seen = seen,
    .bootstrap = bootstrap,
    .losses = losses,
    .describe = describe,
    .profile = &cst_profile_rows,
};
