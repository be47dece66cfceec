/*
 * cst_evaluate_stack and cst_evaluate_model for classification: a model's scores on one split,
 * several, or the conditions of one, beside the simple baselines. Baselines are fitted on
 * out-of-fold rows only; the splits scored are read once, here. method.md section 8.
 */
#include "evaluation/evaluate.h"
#include "evaluation/method.h"
#include "evaluation/shift.h"
#include "la/la.h"
#include "metrics/weighted.h"
#include "model/seen_rows.h"
#include "pipeline/document.h"

#include <math.h>
#include <string.h>

enum { METHODS_MAX = 6 };

/* One row of the table. Positions of weights and uses are those of its views' members. */
typedef struct scored {
    const char *name;
    float **predicted; /* [targets] of [view rows][classes] */
    cst_view *views;   /* [targets] */
    double *weights;   /* NULL: no weight stands for a member */
    bool *uses;        /* NULL: all */
    int32_t models;
    char detail[288]; /* room for the longest name of a member */
} scored;

typedef struct evaluation {
    const cst_model *model;
    cst_pool *pool;
    const cst_evaluate_options *options;
    cst_targets targets;
    int32_t *positions;   /* [model members] in the pool */
    cst_counted *counted; /* [targets]: of the model's members, what their views are in */
    scored methods[METHODS_MAX];
    int32_t count;
} evaluation;

static void release(cst_context *context, evaluation *e) {
    for (int32_t m = 0; m < METHODS_MAX; m++) {
        scored *method = &e->methods[m];
        for (int32_t t = 0; method->predicted && t < e->targets.count; t++)
            cst_free(context, method->predicted[t]);
        cst_free(context, method->predicted);
        cst_free(context, method->views);
        cst_free(context, method->weights);
        cst_free(context, method->uses);
    }
    cst_free(context, e->positions);
    for (int32_t t = 0; e->counted && t < e->targets.count; t++)
        cst_counted_close(context, &e->counted[t]);
    cst_free(context, e->counted);
    cst_targets_free(context, &e->targets);
}

/* ---- the model ---- */

/* Weights of the members where the blend is one log-linear pool. */
static cst_status model_weights(cst_context *context, const cst_model *model, scored *out) {
    if (model->learners != 1 || model->learner[0].kind != CST_LEARNER_LOGLINEAR)
        return CST_OK;
    out->weights = cst_alloc(context, (size_t)model->members, sizeof *out->weights);
    if (!out->weights)
        return CST_ERROR_MEMORY;
    memcpy(out->weights, model->learner[0].weights, (size_t)model->members * sizeof *out->weights);
    return CST_OK;
}

static cst_status make_room(cst_context *context, const evaluation *e, scored *out) {
    size_t targets = (size_t)e->targets.count;
    out->predicted = cst_alloc(context, targets, sizeof *out->predicted);
    out->views = cst_alloc(context, targets, sizeof *out->views);
    return out->predicted && out->views ? CST_OK : CST_ERROR_MEMORY;
}

/* What a target is scored against; predictions of rows that do not count are taken out. */
static cst_status fill_target(cst_context *context, const evaluation *e, cst_target *target,
                              float *predicted) {
    if (!cst_pool_labels(e->pool, target->split) && target->role != CST_TARGET_OOD)
        return cst_fail(context, CST_ERROR_INPUT, "split '%s' has no labels to score against",
                        target->split);
    cst_status status = cst_target_fill(context, e->pool, e->positions, e->model->members, target);
    size_t classes = (size_t)cst_model_classes(e->model);
    const int64_t *rows = target->counted.rows;
    for (int64_t i = 0; status == CST_OK && rows && i < target->view.rows; i++)
        memmove(predicted + (size_t)i * classes, predicted + (size_t)rows[i] * classes,
                classes * sizeof *predicted);
    return status;
}

/* The model's predictions of every target, whose members are read for that. */
static cst_status run_model(cst_context *context, evaluation *e) {
    const cst_model *model = e->model;
    size_t members = (size_t)model->members;
    scored *out = &e->methods[0];
    out->name = "corestack";
    out->models = model->members;
    e->positions = cst_alloc(context, members, sizeof *e->positions);
    e->counted = cst_alloc(context, (size_t)e->targets.count, sizeof *e->counted);
    cst_status status = make_room(context, e, out);
    if (!e->positions || !e->counted)
        status = CST_ERROR_MEMORY;
    for (int32_t t = 0; status == CST_OK && t < e->targets.count; t++) {
        cst_target *target = &e->targets.list[t];
        int64_t rows = 0;
        status = cst_model_predict_pool(context, model, e->pool, target->split, &out->predicted[t],
                                        &rows); /* loads the members */
        for (int32_t k = 0; status == CST_OK && k < model->members; k++)
            e->positions[k] = cst_pool_member_index(e->pool, cst_model_member_name(model, k));
        CST_TRY(fill_target(context, e, target, out->predicted[t]));
        if (status != CST_OK)
            break;
        /* Kept apart: for the baselines the target is filled again, with every member. */
        out->views[t] = target->view;
        e->counted[t] = target->counted;
        target->counted = (cst_counted){0};
    }
    CST_TRY(cst_targets_check_weights(context, e->pool, &e->targets));
    return status == CST_OK ? model_weights(context, model, out) : status;
}

/* ---- baselines ---- */

static cst_status keep_fit(cst_context *context, const evaluation *e, const cst_method_fit *fit,
                           scored *out) {
    size_t members = (size_t)fit->members;
    out->models = fit->used;
    (void)cst_snprintf(out->detail, sizeof out->detail, "%s", fit->calibrator.detail);
    for (int32_t k = 0; k < fit->members && strcmp(out->name, "best-single") == 0; k++)
        if (fit->uses[k])
            (void)cst_snprintf(out->detail, sizeof out->detail, "%s",
                               cst_pool_member_name(e->pool, k));
    out->uses = cst_alloc(context, members, sizeof *out->uses);
    out->weights = fit->weights ? cst_alloc(context, members, sizeof *out->weights) : NULL;
    if (!out->uses || (fit->weights && !out->weights))
        return CST_ERROR_MEMORY;
    memcpy(out->uses, fit->uses, members * sizeof *out->uses);
    if (out->weights)
        memcpy(out->weights, fit->weights, members * sizeof *out->weights);
    return CST_OK;
}

/* One method, fitted on the out-of-fold rows, on the rows of every target. */
static cst_status run_baseline(cst_context *context, const evaluation *e, const char *name,
                               const cst_training *source, scored *out) {
    uint64_t seed = e->options->seed;
    cst_method which;
    cst_method_fit fit = {0};
    out->name = name;
    cst_status status = make_room(context, e, out);
    CST_TRY(cst_method_parse(context, name, seed, NULL, 0, &which));
    CST_TRY(cst_method_fit_run(context, &which, source, seed, &fit));
    for (int32_t t = 0; status == CST_OK && t < e->targets.count; t++) {
        const cst_view *view = &e->targets.list[t].view;
        out->views[t] = *view;
        out->predicted[t] =
            cst_alloc(context, (size_t)view->rows * (size_t)view->classes, sizeof(float));
        status = out->predicted[t] ? cst_method_fit_predict(context, &fit, view, out->predicted[t])
                                   : CST_ERROR_MEMORY;
    }
    CST_TRY(keep_fit(context, e, &fit, out));
    cst_method_fit_free(context, &fit);
    return status;
}

static cst_status run_baselines(cst_context *context, evaluation *e) {
    static const char *const wanted[] = {"best-single", "average", "greedy", "greedy+temperature"};
    cst_training source = {0};
    cst_status status = cst_training_open(context, e->pool, "oof", 5, e->options->seed, &source);
    for (int32_t t = 0; status == CST_OK && t < e->targets.count; t++)
        status = cst_target_load(context, e->pool, &e->targets.list[t]);
    for (size_t i = 0; status == CST_OK && i < sizeof wanted / sizeof wanted[0]; i++)
        status = run_baseline(context, e, wanted[i], &source, &e->methods[e->count++]);
    cst_training_close(context, &source);
    return status;
}

/* ---- document ---- */

static void put_condition(cst_report *report, json_t *list, const evaluation *e, int32_t condition,
                          const cst_metrics *scores) {
    const char *split = e->targets.list[0].split;
    json_t *object = cst_report_add_object(report, list);
    cst_report_string(report, object, "shift", cst_pool_condition_shift(e->pool, split, condition));
    cst_report_string(report, object, "kind", cst_pool_condition_kind(e->pool, split, condition));
    cst_report_number(report, object, "severity",
                      cst_pool_condition_severity(e->pool, split, condition));
    cst_document_scores(report, object, scores);
}

/* Means over conditions or splits; the scores of each condition are added to `list` where it is not
 * NULL. */
static cst_status mean_scores(cst_context *context, cst_report *report, json_t *list,
                              const evaluation *e, const scored *method, cst_metrics *mean) {
    const cst_target *first = &e->targets.list[0];
    int32_t parts = first->conditions > 0 ? first->conditions : e->targets.scored;
    int32_t classes = cst_model_classes(e->model);
    *mean = (cst_metrics){0};
    for (int32_t p = 0; p < parts; p++) {
        const cst_target *target = first->conditions > 0 ? first : &e->targets.list[p];
        const float *from = method->predicted[target - first];
        if (first->conditions > 0)
            from += (size_t)p * (size_t)first->samples * (size_t)classes;
        cst_metrics scores;
        cst_status status = cst_metrics_weighted(context, from, target->samples, classes,
                                                 target->labels, target->weights, 0, &scores);
        if (status != CST_OK)
            return status;
        mean->samples += first->conditions > 0 && p > 0 ? 0 : target->samples;
        mean->top1 += scores.top1 / parts;
        mean->ece += scores.ece / parts;
        mean->nll += scores.nll / parts;
        mean->brier += scores.brier / parts;
        if (list)
            put_condition(report, list, e, p, &scores);
    }
    return CST_OK;
}

/* Scores of one method into the document itself (the first) or an entry of its baselines. */
static cst_status put_method(cst_context *context, cst_report *report, const evaluation *e,
                             int32_t m, json_t *object, const cst_metric_intervals *intervals) {
    const scored *method = &e->methods[m];
    json_t *list = NULL;
    cst_metrics scores;
    if (m == 0 && e->targets.list[0].conditions > 0) {
        cst_report_string(report, object, "aggregate", "mean over conditions");
        list = cst_report_list(report, object, "conditions");
    } else if (m == 0 && e->targets.scored > 1) {
        cst_report_string(report, object, "aggregate", "mean over splits");
    } else if (m > 0) {
        cst_report_string(report, object, "method", method->name);
        cst_report_string(report, object, "detail", method->detail);
    }
    cst_status status = mean_scores(context, report, list, e, method, &scores);
    if (status != CST_OK)
        return status;
    cst_document_scores(report, object, &scores);
    if (method->models > 0)
        cst_report_integer(report, object, "models", method->models);
    if (intervals)
        cst_evaluation_intervals(report, object, intervals);
    const cst_target *target = &e->targets.list[0];
    if (m > 0 || target->conditions > 0 || e->targets.scored > 1)
        return CST_OK;
    return cst_evaluation_reliability(context, report, method->predicted[0], target->samples,
                                      cst_model_classes(e->model), target->labels, target->weights);
}

/* Corruption, parts of the split, several splits, rows out of distribution. */
static cst_status put_shift(cst_context *context, cst_report *report, const evaluation *e,
                            json_t *const *rows) {
    cst_shift_method methods[METHODS_MAX];
    for (int32_t m = 0; m < e->count; m++)
        methods[m] = (cst_shift_method){.row = rows[m],
                                        .predicted = (const float *const *)e->methods[m].predicted,
                                        .views = e->methods[m].views,
                                        .members = m == 0 ? e->positions : NULL,
                                        .weights = e->methods[m].weights,
                                        .uses = e->methods[m].uses};
    const cst_shift shift = {.report = report,
                             .pool = e->pool,
                             .targets = &e->targets,
                             .classes = cst_model_classes(e->model),
                             .methods = methods,
                             .count = e->count,
                             .reference = e->count > 1 ? 0 : -1,
                             .resamples = e->options->resamples,
                             .seed = e->options->seed,
                             .head_above = e->options->head_above,
                             .tail_below = e->options->tail_below,
                             .reference_errors = e->options->reference_errors};
    return cst_shift_report(context, &shift);
}

/* Scores of all methods; the first is the document's own, the others become its baselines. */
static cst_status put_methods(cst_context *context, cst_report *report, const evaluation *e) {
    json_t *root = cst_report_root(report);
    json_t *rows[METHODS_MAX] = {root};
    cst_metric_intervals intervals[METHODS_MAX];
    const float *all[METHODS_MAX];
    const cst_target *first = &e->targets.list[0];
    bool plain = e->options->resamples > 0 && !cst_shift_scores(&e->targets);
    cst_status status = CST_OK;
    for (int32_t m = 0; m < e->count; m++)
        all[m] = e->methods[m].predicted[0];
    if (plain)
        status =
            cst_bootstrap_weighted(context,
                                   &(cst_bootstrap_input){.probabilities = all,
                                                          .methods = e->count,
                                                          .rows = first->samples,
                                                          .classes = cst_model_classes(e->model),
                                                          .labels = first->labels,
                                                          .weights = first->weights,
                                                          .resamples = e->options->resamples,
                                                          .seed = e->options->seed},
                                   intervals, NULL);
    CST_TRY(cst_stage(context, "scores"));
    int64_t samples = 0;
    for (int32_t t = 0; t < e->targets.scored; t++)
        samples += e->targets.list[t].samples;
    cst_report_integer(report, root, "samples", samples);
    cst_report_string(report, root, "ece_definition", cst_metric_definition("ece"));
    json_t *list = NULL;
    for (int32_t m = 0; status == CST_OK && m < e->count; m++) {
        if (m == 1)
            list = cst_report_list(report, root, "baselines");
        rows[m] = m == 0 ? root : cst_report_add_object(report, list);
        status = put_method(context, report, e, m, rows[m], plain ? &intervals[m] : NULL);
    }
    cst_evaluation_resamples(report, e->options->resamples, e->options->seed);
    CST_TRY(put_shift(context, report, e, rows));
    json_t *definitions = cst_report_object(report, root, "definitions");
    cst_shift_definitions(report, definitions, e->pool, &e->targets);
    if (json_object_size(definitions) == 0)
        (void)json_object_del(root, "definitions");
    return status;
}

/* Whether a scored split has the rows of the fit, by its name and labels, or, whatever it is
 * called, by the rows themselves. */
static cst_status look_at_rows(cst_context *context, const evaluation *e, int32_t t,
                               cst_known_rows *known, cst_seen *seen, cst_row_match *match) {
    const cst_target *target = &e->targets.list[t];
    cst_fit_rows fit = cst_fit_rows_of(e->model, target->labels, target->samples);
    *seen = cst_fit_rows_named(&fit, target->split) ? CST_SEEN_ALL : CST_SEEN_NONE;
    if (*seen == CST_SEEN_ALL || target->conditions > 0)
        return CST_OK; /* rows of conditions are changed ones */
    return cst_rows_seen(context, e->model, e->pool, &fit, target->split, &e->methods[0].views[t],
                         known, match, seen);
}

static void say_seen(cst_context *context, const char *split, cst_seen seen,
                     const cst_row_match *match) {
    if (seen == CST_SEEN_ALL)
        cst_notice(context,
                   "the model was fitted on the rows of split '%s': these scores are optimistic; "
                   "score a split that it has not seen, or take the nested scores that fit reports",
                   split);
    else if (seen == CST_SEEN_SOME)
        cst_notice(context,
                   "of %lld rows of split '%s' that were looked at, %lld have the label and "
                   "the predictions of rows that the model was fitted on; where they are the "
                   "same rows, these scores are optimistic",
                   (long long)match->looked_at, split, (long long)match->found);
}

/* Says which splits the fit has seen: scores on them are no estimate of anything. */
static cst_status put_seen(cst_context *context, cst_report *report, const evaluation *e) {
    bool any = false;
    cst_known_rows known = {0};
    cst_status status = CST_OK;
    for (int32_t t = 0; status == CST_OK && t < e->targets.scored; t++) {
        cst_row_match match;
        cst_seen seen = CST_SEEN_NONE;
        status = look_at_rows(context, e, t, &known, &seen, &match);
        if (status == CST_OK)
            say_seen(context, e->targets.list[t].split, seen, &match);
        any = any || seen == CST_SEEN_ALL;
    }
    cst_known_rows_free(context, &known);
    if (status == CST_OK)
        cst_report_flag(report, cst_report_root(report), "seen_in_fitting", any);
    return status;
}

static cst_status score_model(cst_context *context, const cst_model *model, cst_pool *pool,
                              const cst_evaluate_options *options, cst_report *report) {
    evaluation e = {.model = model, .pool = pool, .options = options, .count = 1};
    cst_status status =
        cst_targets_make(context, pool, options->split, options->clean, options->ood, &e.targets);
    CST_TRY(run_model(context, &e));
    if (status == CST_OK && options->baselines)
        status = run_baselines(context, &e);
    if (status == CST_OK) {
        cst_report_string(report, cst_report_root(report), "split", options->split);
        if (options->ood)
            cst_report_string(report, cst_report_root(report), "ood", options->ood);
        status = put_seen(context, report, &e);
    }
    CST_TRY(put_methods(context, report, &e));
    release(context, &e);
    return status;
}

cst_status cst_classification_evaluate_stack(cst_context *context, const cst_model *model,
                                             cst_pool *pool, const cst_evaluate_options *options,
                                             cst_report **report) {
    cst_notices_clear(context);
    cst_la_enter();
    cst_status status = cst_report_create(context, CST_REPORT_EVALUATE, report);
    CST_TRY(score_model(context, model, pool, options, *report));
    cst_la_leave();
    return cst_evaluation_finish(context, status, report);
}

cst_status cst_classification_evaluate_model(cst_context *context, const cst_model *model,
                                             cst_pool *pool, const char *split, int baselines,
                                             int32_t resamples, uint64_t seed,
                                             cst_report **report) {
    const cst_evaluate_options options = {
        .split = split, .baselines = baselines, .resamples = resamples, .seed = seed};
    return cst_classification_evaluate_stack(context, model, pool, &options, report);
}
