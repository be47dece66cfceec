/* Evaluations of tasks whose methods mix all members by one rule. See the header. */
#include "fit/mix_methods.h"

#include "data/pool/pool.h"
#include "fit/family.h"

#include <math.h>
#include <string.h>

/* The paper's own have stages that these tasks do not have. */
static const char *const PRESETS[] = {"default", "compact", "best", NULL};

static const cst_mix_task *task_of(const cst_evaluation *e) {
    return e->ops->mixes;
}

/* ---- names ---- */

const cst_named *cst_named_find(cst_named_at_fn *at, const char *name) {
    for (size_t i = 0; at(i); i++)
        if (strcmp(name, at(i)->name) == 0)
            return at(i);
    return NULL;
}

const char *cst_mix_name(const cst_mix_task *task, size_t index) {
    size_t baselines = 0;
    for (; task->baseline(baselines); baselines++)
        if (baselines == index)
            return task->baseline(index)->name;
    index -= baselines;
    return index < sizeof PRESETS / sizeof PRESETS[0] ? PRESETS[index] : NULL;
}

cst_status cst_mix_parse(cst_context *context, const cst_evaluation *e, const char *const *settings,
                         int32_t count, cst_entry *entry) {
    const cst_mix_task *task = task_of(e);
    cst_mix_method *method = entry->method;
    method->baseline = cst_named_find(task->baseline, entry->name);
    if (method->baseline) {
        entry->definition = method->baseline->definition;
        return CST_OK;
    }
    for (size_t i = 0; PRESETS[i]; i++) {
        if (strcmp(entry->name, PRESETS[i]) != 0)
            continue;
        entry->definition = task->definition;
        entry->preset = PRESETS[i];
        entry->settings = &method->settings;
        CST_TRY(cst_method_settings(context, entry->preset, e->options->seed, settings, count,
                                    task->check_options, &method->settings));
        method->settings.drop = method->settings.drop && task->removals;
        return CST_OK;
    }
    char list[CST_METHOD_LIST_CHARS];
    bool known = strchr(entry->name, '+') || cst_method_describe(entry->name);
    cst_method_names(e->ops->method_name, list);
    return cst_fail(context, known ? CST_ERROR_UNSUPPORTED : CST_ERROR_ARGUMENT,
                    known ? "method '%.60s' is for other tasks; the methods for %s are %s"
                          : "unknown method '%.60s'; the methods for %s are %s",
                    entry->name, task->name, list);
}

/* ---- opening ---- */

static cst_status open_source(cst_context *context, cst_evaluation *e, const char *split,
                              int32_t folds) {
    cst_mix_state *s = e->data;
    CST_OWN(context, &e->scope, cst_training, &s->source);
    CST_TRY(cst_training_open(context, e->pool, split, &(cst_fold_plan){.count = folds},
                              e->options->seed, &s->source));
    e->source = &s->source;
    return CST_OK;
}

/* The rows of the split, with some members or (NULL) all, to be scored. */
static cst_status open_rows(cst_context *context, cst_evaluation *e, const int32_t *members,
                            int32_t count, cst_counted *counted) {
    cst_mix_state *s = e->data;
    CST_OWN(context, &e->scope, cst_counted, counted);
    CST_TRY(cst_counted_open(context, e->pool, e->split, members, count, counted));
    s->rows = counted->view;
    s->rows.groups = counted->groups;
    return s->rows.labels || s->rows.targets
               ? CST_OK
               : cst_fail(context, CST_ERROR_INPUT, "split '%s' has no labels to score against",
                          e->split);
}

static cst_status open_methods(cst_context *context, cst_evaluation *e) {
    const cst_compare_options *options = e->options;
    cst_mix_state *s = e->data;
    cst_settings settings;
    CST_TRY(cst_method_settings(context, "default", options->seed, options->settings,
                                (int32_t)options->setting_count, task_of(e)->check_options,
                                &settings));
    CST_TRY(open_source(context, e, cst_evaluation_fitted(e), settings.folds.count));
    s->rows = s->source.view;
    if (e->nested)
        return CST_OK;
    CST_TRY(cst_pool_load(context, e->pool, e->split));
    return open_rows(context, e, NULL, 0, &s->counted);
}

cst_status cst_mix_open(cst_context *context, cst_evaluation *e, const cst_model *model) {
    cst_mix_state *s = e->data;
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

cst_status cst_mix_subset(cst_context *context, const cst_evaluation *e, cst_evaluation *out) {
    const cst_mix_state *whole = e->data;
    cst_mix_state *s = out->data;
    CST_TRY(cst_training_part(context, &out->scope, &whole->source, out->positions, out->members,
                              &s->source));
    CST_NEW(context, &out->scope, const float *, pointers, out->members);
    s->rows = cst_view_members(&whole->rows, out->positions, out->members, pointers);
    out->source = &s->source;
    return CST_OK;
}

cst_status cst_mix_member(cst_context *context, cst_evaluation *e, const int32_t *member) {
    return open_rows(context, e, member, 1, &cst_mix_state_of(e)->counted);
}

/* ---- greedy ---- */

enum { GREEDY_ROUNDS = 25 };

cst_status cst_mix_greedy_weights(cst_context *context, const cst_view *view, const void *of,
                                  cst_block_fn block, double *weights) {
    int32_t picked[GREEDY_ROUNDS];
    int32_t kept = 0;
    double least = INFINITY;
    CST_SCOPE(scope);
    CST_NEW(context, scope, int32_t, counts, view->members);
    CST_NEW(context, scope, double, sum, view->members);
    for (int32_t r = 0; r < GREEDY_ROUNDS; r++) {
        cst_mix_greedy job = {view, of, counts, r};
        int32_t best = 0;
        CST_TRY(cst_reduce_blocks(context, cst_block_count(view->rows), (size_t)view->members,
                                  block, &job, sum));
        for (int32_t k = 1; k < view->members; k++)
            best = sum[k] < sum[best] ? k : best;
        counts[best]++;
        picked[r] = best;
        kept = sum[best] < least ? r + 1 : kept;
        least = fmin(least, sum[best]);
    }
    for (int32_t r = 0; r < kept; r++)
        weights[picked[r]] += 1 / (double)kept;
    return CST_OK;
}

/* ---- one run ---- */

/* The rows of each fold by the fit without it. */
static cst_status predict_folds(cst_context *context, const cst_evaluation *e,
                                const cst_named *baseline, float *out) {
    const cst_mix_task *task = task_of(e);
    const cst_training *source = &cst_mix_state_of(e)->source;
    for (int32_t f = 0; f < source->fold_count; f++) {
        cst_fold_rows rows;
        cst_made_model made;
        char calibrator[sizeof(((cst_entry *)0)->calibrator)];
        CST_SCOPE(scope);
        CST_TRY(cst_fold_rows_make(context, scope, source, f, e->options->seed, &rows));
        size_t width = (size_t)task->width(&rows.held);
        CST_NEW(context, scope, float, part, (size_t)rows.held.rows *width);
        CST_TRY(task->make(context, scope, baseline, &rows.inside, calibrator, &made));
        CST_TRY(task->predict(context, made.model, made.kept, &rows.held, part));
        cst_fold_scatter(source->folds, source->view.rows, f, width, part, out);
    }
    return CST_OK;
}

/* Weights of an entry: their means over the functions of the model. */
static cst_status take_weights(cst_context *context, const cst_evaluation *e,
                               const cst_model *model, const int32_t *kept, cst_entry *entry) {
    int32_t functions = task_of(e)->functions(model);
    entry->mix = model->map == CST_PROBABILITY_MIXTURE ? CST_MIX_LINEAR : CST_MIX_LOGLINEAR;
    CST_TAKE(context, &entry->scope, entry->weights, cst_mix_state_of(e)->source.view.members);
    for (int32_t j = 0; j < model->members; j++) {
        entry->uses[kept[j]] = true;
        for (int32_t f = 0; f < functions; f++)
            entry->weights[kept[j]] += model->learner->weights[f * model->members + j] / functions;
    }
    return CST_OK;
}

static cst_status run_baseline(cst_context *context, const cst_evaluation *e,
                               const cst_named *baseline, cst_entry *entry, float *out) {
    const cst_mix_state *s = e->data;
    cst_made_model made;
    double before = cst_seconds();
    CST_SCOPE(scope);
    CST_TRY(task_of(e)->make(context, scope, baseline, &s->source, entry->calibrator, &made));
    entry->seconds = cst_seconds() - before;
    CST_TRY(take_weights(context, e, made.model, made.kept, entry));
    if (!e->unscored)
        CST_TRY(e->nested ? predict_folds(context, e, baseline, out)
                          : task_of(e)->predict(context, made.model, made.kept, &s->rows, out));
    if (entry->keep) {
        entry->made = made;
        made = (cst_made_model){0};
    }
    return CST_OK;
}

static cst_status run_preset(cst_context *context, const cst_evaluation *e, cst_entry *entry,
                             float *out) {
    const cst_mix_state *s = e->data;
    const cst_training *source = &s->source;
    cst_costs costs = cst_training_costs(source);
    cst_run run = cst_run_of(e->ops->family, &source->view, source->folds, source->fold_count,
                             entry->settings, &costs);
    const cst_fold_result held = {out, (size_t)task_of(e)->width(&source->view)};
    cst_stages stages = {0};
    double before = cst_seconds();
    CST_SCOPE(scope);
    CST_OWN(context, scope, cst_stages, &stages);
    CST_TRY(cst_stages_run(context, &run, &stages));
    run.whole = &stages;
    entry->seconds = cst_seconds() - before;
    CST_TRY(take_weights(context, e, stages.fit.model, stages.kept, entry));
    if (!e->unscored)
        CST_TRY(e->nested
                    ? cst_stages_nested(context, &run, NULL, &held, 1)
                    : task_of(e)->predict(context, stages.fit.model, stages.kept, &s->rows, out));
    return entry->keep ? cst_stages_take_model(context, &stages, &entry->made) : CST_OK;
}

cst_status cst_mix_room(cst_context *context, const cst_evaluation *e, cst_entry *entry) {
    const cst_view *rows = &cst_mix_state_of(e)->rows;
    CST_TAKE(context, &entry->scope, ((cst_mix_result *)entry->result)->rows,
             (size_t)rows->rows * (size_t)task_of(e)->width(rows));
    return CST_OK;
}

cst_status cst_mix_run(cst_context *context, const cst_evaluation *e, const cst_model *model,
                       cst_entry *entry) {
    const cst_mix_method *method = entry->method;
    CST_TRY(cst_mix_room(context, e, entry));
    float *out = ((cst_mix_result *)entry->result)->rows;
    if (model)
        CST_TRY(task_of(e)->predict(context, model, NULL, &cst_mix_state_of(e)->rows, out));
    else
        CST_TRY(method->baseline ? run_baseline(context, e, method->baseline, entry, out)
                                 : run_preset(context, e, entry, out));
    return e->unscored ? CST_OK : task_of(e)->score(context, e, entry);
}
