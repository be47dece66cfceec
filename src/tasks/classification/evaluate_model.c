/*
 * A model's scores on one split, several, or the conditions of one. The splits scored are read
 * once, here; baselines are fitted on out-of-fold rows only. Paper: section "Experimental Setup".
 */
#include "data/checks/checks.h"
#include "fit/document.h"
#include "model/fit_rows.h"
#include "tasks/classification/evaluate.h"
#include "tasks/classification/shift.h"
#include "tasks/classification/state.h"

#include <string.h>

typedef cst_class_state state;
typedef cst_class_predictions predicted;

cst_status cst_class_open_model(cst_context *context, cst_evaluation *e, const cst_model *model) {
    state *s = cst_alloc(context, 1, sizeof *s);
    if (!s)
        return CST_ERROR_MEMORY;
    e->data = s;
    s->classes = cst_model_classes(model);
    cst_status status = cst_targets_make(context, e->pool, e->split, e->options->clean,
                                         e->options->ood, &s->targets);
    if (status != CST_OK)
        return status;
    size_t targets = (size_t)s->targets.count;
    size_t members = (size_t)cst_model_inputs(model) + (size_t)cst_pool_members(e->pool);
    s->positions = cst_alloc(context, members, sizeof *s->positions);
    s->model_views = cst_alloc(context, targets, sizeof *s->model_views);
    s->counted = cst_alloc(context, targets, sizeof *s->counted);
    return s->positions && s->model_views && s->counted ? CST_OK : CST_ERROR_MEMORY;
}

/* Weights of the members where the blend is one log-linear pool. */
static cst_status model_weights(cst_context *context, const cst_model *model, cst_entry *out) {
    const cst_learner *pool = cst_model_pool(model);
    if (model->adapted || model->learners != 1 || !pool || (pool->own && pool->own->scaling))
        return CST_OK;
    out->weights = cst_alloc(context, (size_t)model->members, sizeof *out->weights);
    if (!out->weights)
        return CST_ERROR_MEMORY;
    memcpy(out->weights, pool->weights, (size_t)model->members * sizeof *out->weights);
    return CST_OK;
}

/* What a target is scored against; predictions of rows that do not count are taken out. */
static cst_status fill_target(cst_context *context, const cst_evaluation *e, const state *s,
                              const cst_model *model, int32_t members, cst_target *target,
                              float *rows) {
    if (!cst_pool_labels(e->pool, target->split) && target->role != CST_TARGET_OOD)
        return cst_fail(context, CST_ERROR_INPUT, "split '%s' has no labels to score against",
                        target->split);
    cst_status status = cst_target_fill(context, e->pool, s->positions, members, target);
    CST_THEN(cst_scored_narrow(context, model, target->split, &target->view));
    size_t classes = (size_t)s->classes;
    const int64_t *counted = target->counted.rows;
    for (int64_t i = 0; status == CST_OK && counted && i < target->view.rows; i++)
        memmove(rows + (size_t)i * classes, rows + (size_t)counted[i] * classes,
                classes * sizeof *rows);
    return status;
}

/* The model's predictions of every target, whose members are read for that. */
static cst_status predict_targets(cst_context *context, const cst_evaluation *e,
                                  const cst_model *model, predicted *out) {
    state *s = e->data;
    cst_status status = CST_OK;
    out->rows = cst_alloc(context, (size_t)s->targets.count, sizeof *out->rows);
    if (!out->rows)
        return CST_ERROR_MEMORY;
    out->targets = s->targets.count;
    for (int32_t t = 0; status == CST_OK && t < s->targets.count; t++) {
        cst_target *target = &s->targets.list[t];
        int64_t rows = 0;
        int32_t members = 0;
        bool strict = !cst_pool_misses(e->pool); /* such rows are left out of the scores */
        status = cst_scored_members(context, model, e->pool, target->split, s->positions, &members);
        CST_THEN(cst_stack_predict_pool(context, model, e->pool, target->split, strict,
                                        &out->rows[t], &rows));
        CST_THEN(fill_target(context, e, s, model, members, target, out->rows[t]));
        if (status != CST_OK)
            break;
        /* Kept apart: for the baselines the target is filled again, with every member. */
        s->model_views[t] = target->view;
        s->counted[t] = target->counted;
        target->counted = (cst_counted){0};
    }
    return status;
}

/* Predictions and labels of the splits that are scored: whether they go together. */
static cst_status check_targets(cst_context *context, const cst_evaluation *e) {
    const state *s = e->data;
    cst_status status = CST_OK;
    for (int32_t t = 0; status == CST_OK && t < s->targets.scored; t++)
        if (s->targets.list[t].conditions == 0)
            status =
                cst_check_scored(context, &(cst_check_source){.pool = e->pool,
                                                              .split = s->targets.list[t].split,
                                                              .view = &s->model_views[t],
                                                              .members = s->positions,
                                                              .rows = s->counted[t].rows});
    return status;
}

cst_status cst_class_run_model(cst_context *context, const cst_evaluation *e,
                               const cst_model *model, cst_entry *entry) {
    const state *s = e->data;
    predicted *p = cst_alloc(context, 1, sizeof *p);
    if (!p)
        return CST_ERROR_MEMORY;
    entry->result = p;
    cst_status status = predict_targets(context, e, model, p);
    CST_THEN(cst_targets_check_weights(context, e->pool, &s->targets));
    CST_THEN(check_targets(context, e));
    CST_THEN(model_weights(context, model, entry));
    CST_THEN(cst_class_score(context, s, p, entry->scores));
    return status;
}

cst_status cst_class_open_baselines(cst_context *context, cst_evaluation *e) {
    state *s = e->data;
    e->source = &s->source;
    cst_status status = cst_training_open(context, e->pool, "oof", 5, e->options->seed, &s->source);
    for (int32_t t = 0; status == CST_OK && t < s->targets.count; t++)
        status = cst_target_load(context, e->pool, &s->targets.list[t]);
    if (status != CST_OK)
        return status;
    s->views = cst_alloc(context, (size_t)s->targets.count, sizeof *s->views);
    for (int32_t t = 0; s->views && t < s->targets.count; t++)
        s->views[t] = s->targets.list[t].view;
    return s->views ? CST_OK : CST_ERROR_MEMORY;
}

/* ---- rows of the fit ---- */

/* Whether a scored split has the rows of the fit, by its name and labels, or, whatever it is
 * called, by the rows themselves. */
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
cst_status cst_class_seen(cst_context *context, const cst_evaluation *e, const cst_model *model,
                          const cst_entry *entry, bool *any) {
    static const char *const keys[] = {CST_FITTED_KEY, CST_ADAPTED_KEY};
    cst_status status = CST_OK;
    (void)entry;
    for (int32_t i = 0; status == CST_OK && i < 2; i++)
        status = say_seen(context, e, model, keys[i], any);
    return status;
}

/* ---- document ---- */

/* Scores of each condition of the first split. */
static void put_conditions(cst_report *report, const cst_evaluation *e, const predicted *p) {
    const cst_target *target = &((const state *)e->data)->targets.list[0];
    json_t *list = cst_report_list(report, cst_report_root(report), "conditions");
    for (int32_t k = 0; k < target->conditions; k++) {
        json_t *object = cst_report_add_object(report, list);
        cst_put_condition(report, object, e->pool, target->split, k);
        cst_document_scores(report, object, &p->parts[k]);
    }
}

/* Of what goes beyond the scores of one file. */
static void put_definitions(cst_report *report, const cst_evaluation *e) {
    json_t *root = cst_report_root(report);
    if (!e->pool)
        return;
    json_t *definitions = cst_report_object(report, root, "definitions");
    cst_shift_definitions(report, definitions, e->pool, &((const state *)e->data)->targets);
    if (json_object_size(definitions) == 0)
        (void)json_object_del(root, "definitions");
}

cst_status cst_class_put_own(cst_context *context, cst_report *report, const cst_evaluation *e,
                             const cst_entry *entry) {
    const state *s = e->data;
    const predicted *p = entry->result;
    const cst_target *target = &s->targets.list[0];
    cst_report_string(report, cst_report_root(report), "ece_definition",
                      cst_metric_definition("ece"));
    put_definitions(report, e);
    if (target->conditions > 0)
        put_conditions(report, e, p);
    return target->conditions > 0 || s->targets.scored > 1
               ? CST_OK
               : cst_evaluation_reliability(context, report, p->rows[0], target->samples,
                                            s->classes, target->labels, target->weights);
}
