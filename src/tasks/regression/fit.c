/*
 * cst_fit for regressions: stages S0 to S4 in order, nested evaluation, the model and the report.
 * Paper: section "Method"; docs/regression.md.
 */
#include "core/la.h"
#include "fit/label.h"
#include "model/fit_rows.h"
#include "stats/weighted.h"
#include "tasks/regression/check.h"
#include "tasks/regression/document.h"
#include "tasks/regression/regression.h"

/* Scores of the whole procedure on rows it did not see: average and each output. */
static cst_status nested_scores(cst_context *context, const cst_training *source,
                                const cst_settings *settings, cst_value_metrics *average,
                                cst_value_metrics *each) {
    cst_value_result held = {0};
    cst_status status =
        cst_value_result_make(context, source->view.rows, source->view.classes, &held);
    CST_THEN(cst_value_stages_nested(context, source, settings, &held));
    CST_THEN(cst_value_metrics_weighted(context, &held.values, source->view.targets,
                                        source->view.weights, average, each));
    if (status == CST_OK)
        cst_value_intervals_tell(context, average);
    cst_value_result_free(context, &held);
    return status;
}

cst_status cst_value_label(cst_context *context, const cst_pool *pool, const char *split,
                           const cst_training *source, const cst_options *options,
                           const char *method, const int32_t *kept, cst_model *model) {
    size_t cells = (size_t)source->view.rows * (size_t)source->view.classes;
    int32_t *words = cst_alloc(context, 2 * cells, sizeof *words);
    if (!words)
        return CST_ERROR_MEMORY;
    cst_target_words(source->view.targets, cells, words);
    cst_fit_origin origin = {.pool = pool,
                             .split = split,
                             .options = options,
                             .method = method,
                             .labels = words,
                             .label_count = (int64_t)(2 * cells),
                             .kept = kept,
                             .source = source,
                             .samples = source->view.rows};
    cst_status status = cst_pool_hash(context, pool, split, &origin.hash);
    CST_THEN(cst_fit_label(context, &origin, model));
    cst_free(context, words);
    return status;
}

static cst_status scores_of_members(cst_context *context, const cst_training *source,
                                    cst_value_metrics **out) {
    *out = cst_alloc(context, (size_t)source->view.members, sizeof **out);
    cst_status status = *out ? cst_stage(context, "scores of members") : CST_ERROR_MEMORY;
    return status == CST_OK ? cst_value_member_metrics(context, &source->view, *out) : status;
}

static cst_status run(cst_context *context, cst_pool *pool, const char *split,
                      const cst_options *options, cst_model **model, cst_report **report) {
    double start = cst_seconds();
    cst_settings settings;
    cst_training source = {0};
    cst_value_stages stages = {0};
    cst_value_metrics oof = {0};
    cst_value_metrics *each = NULL;
    cst_value_metrics *members = NULL;
    cst_findings findings = {0};
    double seconds_nested = 0;
    cst_settings_read(options, &settings);
    cst_status status =
        cst_training_open(context, pool, split, settings.folds, settings.seed, &source);
    cst_costs costs = cst_training_costs(&source);
    CST_THEN(cst_training_check_costs(context, pool, &source, &settings.limits));
    CST_THEN(
        cst_value_check_folds(context, split, source.folds, source.view.rows, source.fold_count));
    CST_THEN(cst_value_check_units(context, pool, split, true));
    if (settings.checks)
        CST_THEN(cst_training_check(context, pool, split, &source, NULL, &findings));
    CST_THEN(cst_value_check_options(context, options));
    cst_settings whole = settings;
    whole.front = report != NULL;
    CST_THEN(cst_value_stages_run(context, &source.view, source.folds, source.fold_count, &whole,
                                  &costs, &stages));
    CST_THEN(cst_value_label(context, pool, split, &source, options, NULL, stages.base.kept,
                             stages.base.fit.model));
    if (status == CST_OK && report && settings.nested) {
        double before = cst_seconds();
        each = cst_alloc(context, (size_t)source.view.classes, sizeof *each);
        status = each ? cst_stage(context, "nested evaluation") : CST_ERROR_MEMORY;
        CST_THEN(nested_scores(context, &source, &settings, &oof, each));
        seconds_nested = cst_seconds() - before;
    }
    if (status == CST_OK && report)
        status = scores_of_members(context, &source, &members);
    if (status == CST_OK && report) {
        cst_value_facts facts = {.base = {.pool = pool,
                                          .options = options,
                                          .settings = &settings,
                                          .source = &source,
                                          .stages = &stages.base,
                                          .findings = &findings,
                                          .seconds_nested = seconds_nested,
                                          .seconds_total = cst_seconds() - start},
                                 .stages = &stages,
                                 .members = members,
                                 .oof = settings.nested ? &oof : NULL,
                                 .each = each};
        stages.base.fit.seconds_gate = stages.fit.seconds_gate;
        stages.base.fit.seconds_ridge = stages.fit.seconds_ridge;
        stages.base.fit.seconds_blend = stages.fit.seconds_blend;
        status = cst_value_fit_document(context, &facts, report);
    }
    CST_THEN(cst_progress(context, "fit", 1, 1));
    if (status == CST_OK && model) {
        *model = stages.base.fit.model;
        stages.base.fit.model = NULL;
    }
    cst_free(context, each);
    cst_free(context, members);
    cst_findings_free(context, &findings);
    cst_value_stages_free(context, &stages);
    cst_training_close(context, &source);
    return status;
}

cst_status cst_regression_fit(cst_context *context, cst_pool *pool, const char *split,
                              const cst_options *options, cst_model **model, cst_report **report) {
    cst_notices_clear(context);
    cst_la_enter();
    cst_status status = run(context, pool, split, options, model, report);
    cst_la_leave();
    return status;
}
