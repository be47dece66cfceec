/*
 * The evaluation of a model of any task on rows of a pool, beside simple baselines that are fitted
 * on split "oof". Paper: section "Experimental Setup".
 */
#include "core/la.h"
#include "fit/harness.h"

#include <string.h>

enum { ENTRIES_MAX = 8 };

cst_status cst_put_evaluation(cst_context *context, cst_report *report, const cst_evaluation *e,
                              const cst_entry *entries, int32_t count) {
    json_t *root = cst_report_root(report);
    json_t *rows[ENTRIES_MAX] = {root};
    json_t *list = NULL;
    int32_t resamples = e->options->resamples;
    cst_intervals intervals = {0};
    cst_status status = cst_intervals_make(context, e, entries, count, 0, resamples, &intervals);
    CST_THEN(cst_stage(context, "scores"));
    if (status == CST_OK)
        cst_put_size(report, e);
    for (int32_t m = 0; status == CST_OK && m < count; m++) {
        if (m == 1)
            list = cst_report_list(report, root, "baselines");
        if (m > 0) {
            rows[m] = cst_report_add_object(report, list);
            cst_report_string(report, rows[m], "method", entries[m].name);
            cst_report_string(report, rows[m], "detail", entries[m].detail);
        }
        status = cst_put_scores(context, report, rows[m], e, &entries[m], &intervals, m);
        if (entries[m].models > 0)
            cst_report_integer(report, rows[m], "models", entries[m].models);
        if (m > 0) {
            cst_put_difference(report, rows[m], e, &intervals, m);
            cst_put_weights(report, rows[m], e, &entries[m]);
            cst_report_number(report, rows[m], "flops_rel", entries[m].flops_rel);
        }
        if (m == 0)
            CST_THEN(e->ops->describe(
                context, CST_PART_OWN,
                &(cst_description){
                    .report = report, .object = root, .e = e, .entries = entries, .count = 1}));
    }
    if (resamples > 0) {
        cst_report_integer(report, root, "resamples", resamples);
        cst_report_integer(report, root, "seed", (int64_t)e->options->seed);
    }
    if (e->pool)
        CST_THEN(e->ops->describe(
            context, CST_PART_MORE,
            &(cst_description){report, root, e, entries, rows, count, count > 1 ? 0 : -1}));
    cst_intervals_free(context, &intervals);
    return status;
}

static cst_status run_baselines(cst_context *context, cst_evaluation *e, cst_entry *entries,
                                int32_t *count) {
    cst_status status = e->ops->open(context, e, NULL);
    for (const char *const *name = e->ops->baselines; status == CST_OK && *name; name++) {
        cst_entry *entry = &entries[*count];
        status = cst_entry_make(context, e, *name, NULL, 0, entry);
        CST_THEN(cst_entry_run(context, e, NULL, entry));
        *count += 1;
    }
    return status;
}

static cst_status put_seen(cst_context *context, cst_report *report, const cst_evaluation *e,
                           const cst_model *model) {
    bool seen = false;
    cst_status status = e->ops->seen(context, e, model, &seen);
    if (status == CST_OK)
        cst_report_flag(report, cst_report_root(report), "seen_in_fitting", seen);
    return status;
}

static cst_status run(cst_context *context, cst_evaluation *e, const cst_model *model,
                      bool baselines, cst_report *report) {
    json_t *root = cst_report_root(report);
    cst_entry entries[ENTRIES_MAX];
    int32_t count = 1;
    memset(entries, 0, sizeof entries);
    entries[0].models = cst_model_members(model);
    cst_status status = e->ops->open(context, e, model);
    CST_THEN(e->ops->run(context, e, model, &entries[0]));
    if (baselines)
        CST_THEN(run_baselines(context, e, entries, &count));
    cst_report_string(report, root, "task", cst_task_name(e->ops->task));
    cst_report_string(report, root, "split", e->split);
    if (e->options->ood)
        cst_report_string(report, root, "ood", e->options->ood);
    CST_THEN(put_seen(context, report, e, model));
    CST_THEN(cst_put_evaluation(context, report, e, entries, count));
    for (int32_t m = 0; m < ENTRIES_MAX; m++)
        cst_entry_free(context, e, &entries[m]);
    return status;
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
                                          .resamples = options->resamples,
                                          .seed = options->seed};
    cst_evaluation e = {.ops = ops,
                        .pool = pool,
                        .options = &compared,
                        .split = options->split,
                        .brief = true,
                        .shift = true,
                        .members = cst_pool_members(pool)};
    cst_notices_clear(context);
    cst_la_enter();
    cst_status status = cst_report_create(context, CST_REPORT_EVALUATE, report);
    CST_THEN(run(context, &e, model, options->baselines != 0, *report));
    cst_evaluation_close(context, &e);
    cst_la_leave();
    return cst_finish_report(context, status, report);
}
