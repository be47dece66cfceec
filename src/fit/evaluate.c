/* The evaluation of a model of any task, beside simple baselines fitted on "oof". */
#include "fit/document.h"
#include "fit/harness.h"

#include <string.h>

enum { ENTRIES_MAX = 8 };

cst_status cst_put_evaluation(cst_context *context, cst_report *report, const cst_evaluation *e,
                              const cst_entry *entries, int32_t count) {
    json_t *root = cst_report_root(report);
    json_t *rows[ENTRIES_MAX] = {root};
    json_t *list = NULL;
    int32_t resamples = (int32_t)e->options->resamples;
    cst_intervals intervals;
    CST_SCOPE(scope);
    CST_TRY(cst_intervals_make(context, scope, e, entries, count, 0, resamples, &intervals));
    CST_TRY(cst_stage(context, "scores"));
    cst_put_size(report, e);
    cst_put_metric(report, e->metric);
    for (int32_t m = 0; m < count; m++) {
        if (m == 1)
            list = cst_report_list(report, root, "baselines");
        if (m > 0) {
            rows[m] = cst_report_add_object(report, list);
            CST_PUT(report, rows[m], CST_S("method", entries[m].name),
                    CST_S("detail", entries[m].detail));
        }
        CST_TRY(cst_put_scores(context, report, rows[m], e, &entries[m], &intervals, m));
        if (entries[m].models > 0)
            cst_report_integer(report, rows[m], "models", entries[m].models);
        if (m > 0) {
            cst_put_difference(report, rows[m], e, &intervals, m);
            cst_put_weights(report, rows[m], e, &entries[m]);
            cst_report_number(report, rows[m], "flops_rel", entries[m].flops_rel);
        } else {
            CST_TRY(e->ops->describe(
                context, CST_PART_OWN,
                &(cst_description){
                    .report = report, .object = root, .e = e, .entries = entries, .count = 1}));
        }
    }
    const char *name = json_object_get(root, "split") ? "corestack" : "predictions";
    if (count > 1)
        cst_report_string(report, root, "reference", name);
    CST_TRY(cst_put_tests(context, report, e, entries, count, 0, &intervals, name));
    if (resamples > 0) {
        CST_PUT(report, root, CST_I("resamples", resamples),
                CST_I("seed", (int64_t)e->options->seed));
    }
    return e->ops->describe(
        context, CST_PART_MORE,
        &(cst_description){report, root, e, entries, rows, count, count > 1 ? 0 : -1});
}

typedef struct evaluate_call {
    cst_evaluation e;
    const cst_model *model;
    cst_alone_fn *open; /* of what is evaluated without a model */
    const void *user;
    bool baselines;
    const char *metric; /* NULL: the model's */
    int32_t count;
    cst_entry *entries; /* [ENTRIES_MAX], of which `count` are there */
} evaluate_call;

static cst_status run_baselines(cst_context *context, evaluate_call *c) {
    CST_TRY(cst_evaluation_begin(context, &c->e, NULL));
    for (const char *const *name = c->e.ops->baselines; *name; name++) {
        cst_entry *entry = &c->entries[c->count++];
        CST_TRY(cst_entry_make(context, &c->e, *name, NULL, 0, entry));
        CST_TRY(cst_entry_run(context, &c->e, NULL, entry));
    }
    return CST_OK;
}

static cst_status run(cst_context *context, void *user, cst_report *report) {
    evaluate_call *c = user;
    const cst_evaluation *e = &c->e;
    json_t *root = cst_report_root(report);
    bool seen = false;
    CST_SCOPE(scope);
    CST_OWN(context, scope, cst_evaluation, &c->e);
    CST_TRY(cst_evaluation_metric_of(context, &c->e, c->model, c->metric));
    CST_TRY(cst_entries_take(context, scope, ENTRIES_MAX, &c->entries));
    c->entries[0].models = (int32_t)cst_model_members(c->model);
    CST_TRY(cst_evaluation_begin(context, &c->e, c->model));
    CST_TRY(cst_entry_predict(context, e, c->model, &c->entries[0]));
    if (c->baselines)
        CST_TRY(run_baselines(context, c));
    CST_PUT(report, root, CST_S("task", cst_task_name(e->ops->task)), CST_S("split", e->split));
    if (e->options->ood)
        cst_report_string(report, root, "ood", e->options->ood);
    CST_TRY(e->ops->seen(context, e, c->model, &seen));
    cst_report_flag(report, root, "seen_in_fitting", seen);
    if (c->baselines && !seen && strcmp(e->split, cst_evaluation_fitted(e)) == 0)
        cst_notice(
            context,
            "the baselines are fitted on the rows that are scored, which flatters them: give "
            "a pool.json whose split 'oof' has the fit rows, and these as split 'test'");
    return cst_put_evaluation(context, report, e, c->entries, c->count);
}

static cst_status run_alone(cst_context *context, void *user, cst_report *report) {
    evaluate_call *c = user;
    const cst_task_ops *ops = c->e.ops;
    CST_SCOPE(scope);
    CST_OWN(context, scope, cst_evaluation, &c->e);
    CST_TRY(cst_entries_take(context, scope, ENTRIES_MAX, &c->entries));
    cst_entry *entry = &c->entries[0];
    CST_TRY(cst_evaluation_take(context, &c->e));
    entry->result = cst_take(context, &entry->scope, 1, ops->result_bytes);
    if (!entry->result)
        return CST_ERROR_MEMORY;
    CST_TRY(cst_evaluation_metric(context, &c->e, c->metric));
    CST_TRY(c->open(context, &c->e, entry, c->user));
    CST_TRY(cst_entry_metric(context, &c->e, entry));
    CST_TRY(cst_entries_add_own(context, &c->e, c->entries, &c->count));
    if (ops->task != CST_TASK_CLASSIFICATION)
        cst_report_string(report, cst_report_root(report), "task", cst_task_name(ops->task));
    return cst_put_evaluation(context, report, &c->e, entry, c->count);
}

cst_status cst_run_alone(cst_context *context, const cst_task_ops *ops, const cst_pool *pool,
                         const char *split, const cst_own_predictions *against, const char *metric,
                         int32_t resamples, uint64_t seed, cst_alone_fn *open, const void *user,
                         cst_report **report) {
    const cst_compare_options options = {
        .resamples = resamples, .seed = seed, .own = against, .own_count = against != NULL};
    evaluate_call call = {.e = {.ops = ops,
                                .pool = (cst_pool *)(uintptr_t)pool,
                                .options = &options,
                                .split = split,
                                .brief = true},
                          .open = open,
                          .user = user,
                          .metric = metric,
                          .count = 1};
    return cst_run_call(context, CST_REPORT_EVALUATE, run_alone, &call, report);
}

cst_status cst_run_evaluate(cst_context *context, const cst_task_ops *ops, const cst_model *model,
                            cst_pool *pool, const cst_evaluate_options *options,
                            cst_report **report) {
    const cst_compare_options compared = {.split = options->split,
                                          .ood = options->ood,
                                          .clean = options->clean,
                                          .reference_errors = options->reference_errors,
                                          .head_above = options->head_above,
                                          .tail_below = options->tail_below,
                                          .resamples = (int32_t)options->resamples,
                                          .seed = options->seed};
    evaluate_call call = {.e = {.ops = ops,
                                .pool = pool,
                                .options = &compared,
                                .split = options->split,
                                .brief = true,
                                .shift = true,
                                .members = (int32_t)cst_pool_members(pool)},
                          .model = model,
                          .baselines = options->baselines != 0,
                          .metric = options->metric,
                          .count = 1};
    return cst_run_call(context, CST_REPORT_EVALUATE, run, &call, report);
}
