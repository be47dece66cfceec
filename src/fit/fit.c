/*
 * Fit of a classification pool: stages S0 to S4 in order, nested evaluation, the model and the
 * report. Paper: section "Method", from the out-of-fold matrix to the blended prediction.
 */
#include "core/la.h"
#include "fit/document.h"
#include "fit/label.h"
#include "fit/pipeline.h"
#include "stats/weighted.h"

#include <math.h>
#include <string.h>

/* Penalty and spectrum for the report where no linear learner has computed them. */
static cst_status diagnose(cst_context *context, const cst_training *source,
                           const cst_settings *settings, cst_stages *stages) {
    if (!isnan(stages->fit.lambda))
        return CST_OK;
    const float **pointers = cst_alloc(context, (size_t)stages->kept_count, sizeof *pointers);
    if (!pointers)
        return CST_ERROR_MEMORY;
    cst_view kept = cst_view_members(&source->view, stages->kept, stages->kept_count, pointers);
    cst_status status = cst_meta_diagnose(context, &kept, source->folds, source->fold_count,
                                          settings, &stages->fit);
    cst_free(context, pointers);
    if (status == CST_ERROR_INPUT || status == CST_ERROR_NUMERIC) {
        /* Nothing of the fit depends on it: constant members have no spectrum. */
        cst_notice(context, "penalty and spectrum are not reported: %s", cst_last_error(context));
        status = CST_OK;
    }
    return status;
}

/* Scores of the whole procedure on rows it did not see. */
static cst_status nested_scores(cst_context *context, const cst_training *source,
                                const cst_settings *settings, cst_metrics *out) {
    size_t cells = (size_t)source->view.rows * (size_t)source->view.classes;
    float *held = cst_alloc(context, cells, sizeof *held);
    cst_status status = held ? CST_OK : CST_ERROR_MEMORY;
    CST_THEN(cst_stages_nested(context, source, settings, held));
    CST_THEN(cst_metrics_weighted(context, held, source->view.rows, source->view.classes,
                                  source->view.labels, source->view.weights, 0, out));
    cst_free(context, held);
    return status;
}

/* A preset that is the paper's method to the letter. */
static bool is_letter(const cst_options *options) {
    const char *preset = cst_options_preset_name(options);
    return strcmp(preset, "paper") == 0 || strcmp(preset, "prototype") == 0;
}

static cst_status run(cst_context *context, cst_pool *pool, const char *split,
                      const cst_options *options, const cst_training_hints *hints,
                      cst_model **model, cst_report **report) {
    double start = cst_seconds();
    cst_settings settings;
    cst_training source = {0};
    cst_compact *table = NULL;
    cst_stages stages = {0};
    cst_metrics oof = {0};
    cst_metrics *members = NULL;
    cst_findings findings = {0};
    double seconds_nested = 0;
    cst_settings_read(options, &settings);
    cst_status status =
        cst_training_open(context, pool, split, settings.folds, settings.seed, &source);
    if (settings.checks && !hints && !is_letter(options))
        CST_THEN(cst_training_teach(context, pool, split, settings.seed, &source, &findings));
    cst_costs costs = cst_training_costs(&source);
    CST_THEN(cst_training_check_costs(context, pool, &source, &settings.limits));
    if (settings.checks)
        CST_THEN(cst_training_check(context, pool, split, &source, hints, &findings));
    CST_THEN(cst_stages_table(context, &source.view, source.folds, source.fold_count, &settings,
                              &table));
    cst_compact_attach(&source.view, table);
    cst_settings whole = settings;
    whole.front = report != NULL;
    CST_THEN(cst_stages_run(context, &source.view, source.folds, source.fold_count, &whole, &costs,
                            &stages));
    CST_THEN(cst_stage(context, "reference for the guard"));
    CST_THEN(cst_fit_label_rows(context, pool, split, &source, options, NULL, stages.kept,
                                stages.fit.model));
    if (status == CST_OK && report)
        status = diagnose(context, &source, &settings, &stages);
    if (status == CST_OK && report && settings.nested) {
        double before = cst_seconds();
        status = cst_stage(context, "nested evaluation");
        CST_THEN(nested_scores(context, &source, &settings, &oof));
        seconds_nested = cst_seconds() - before;
    }
    if (status == CST_OK && report)
        status = cst_stage(context, "scores of members");
    if (status == CST_OK && report) {
        members = cst_alloc(context, (size_t)source.view.members, sizeof *members);
        status = members ? cst_member_metrics(context, &source.view, members) : CST_ERROR_MEMORY;
    }
    if (status == CST_OK && report) {
        cst_fit_facts facts = {.pool = pool,
                               .options = options,
                               .settings = &settings,
                               .source = &source,
                               .stages = &stages,
                               .members = members,
                               .oof = settings.nested ? &oof : NULL,
                               .findings = &findings,
                               .seconds_nested = seconds_nested,
                               .seconds_total = cst_seconds() - start};
        status = cst_fit_document(context, &facts, report);
    }
    CST_THEN(cst_progress(context, "fit", 1, 1));
    if (status == CST_OK && model) {
        *model = stages.fit.model;
        stages.fit.model = NULL;
    }
    cst_free(context, members);
    cst_findings_free(context, &findings);
    cst_stages_free(context, &stages);
    cst_logtable_unshare(context, table);
    cst_training_close(context, &source);
    return status;
}

cst_status cst_fit_checked(cst_context *context, cst_pool *pool, const char *split,
                           const cst_options *options, const cst_training_hints *hints,
                           cst_model **model, cst_report **report) {
    cst_notices_clear(context);
    cst_la_enter();
    cst_status status = run(context, pool, split, options, hints, model, report);
    cst_la_leave();
    return status;
}

cst_status cst_classification_fit(cst_context *context, cst_pool *pool, const char *split,
                                  const cst_options *options, cst_model **model,
                                  cst_report **report) {
    return cst_fit_checked(context, pool, split, options, NULL, model, report);
}
