/*
 * cst_inspect for regressions: scores of the members, redundancy, clusters, spectrum and the four
 * penalties of each output, data problems. Before a fit. Paper: sections on CKA and on the
 * spectrum-adaptive penalty; docs/regression.md.
 */
#include "core/la.h"
#include "fit/findings.h"
#include "fit/harness.h"
#include "tasks/regression/check.h"
#include "tasks/regression/document.h"
#include "tasks/regression/redundant.h"
#include "tasks/regression/regression.h"

CST_OWNED(cst_gate)
CST_OWNED(cst_scaling)

typedef struct inspection {
    const cst_pool *pool;
    const char *split;
    cst_settings settings;
    cst_training source;
    cst_scaling scaling;
} inspection;

/* What stage S1 of a fit finds, with CKA whatever the measure asked for. */
static cst_status put_redundancy(cst_context *context, cst_report *report, const inspection *in) {
    const cst_training *source = &in->source;
    cst_costs costs = cst_training_costs(source);
    cst_run run = cst_run_of(&cst_regression_family, &source->view, source->folds,
                             source->fold_count, &in->settings, &costs);
    cst_stages found = {0};
    CST_SCOPE(scope);
    CST_OWN(context, scope, cst_stages, &found);
    CST_TRY(cst_stages_alloc(context, source->view.members, &found));
    CST_TRY(cst_value_prepare(context, scope, &run, &found));
    CST_TRY(cst_stage(context, "redundancy"));
    CST_TRY(cst_value_cka(context, run.view, &in->scaling, &in->settings.cka, &found.cka));
    return cst_document_similarity(context, report, in->pool, &in->settings, &found.cka,
                                   found.pearson);
}

/* One spectrum of the meta-design for each output: at the root where there is one, else in
 * "outputs". */
static cst_status put_spectra(cst_context *context, cst_report *report, const inspection *in) {
    const cst_training *source = &in->source;
    int32_t outputs = source->view.classes;
    json_t *list = NULL;
    cst_gate gate = {.mode = in->settings.gate.mode, .inputs = source->view.members};
    cst_moments *moments;
    CST_SCOPE(scope);
    CST_TAKE(context, scope, moments, outputs);
    CST_OWN(context, scope, cst_gate, &gate);
    CST_TRY(cst_value_gates_fit(context, &source->view, &in->scaling, source->folds, &in->settings,
                                1, &gate));
    CST_TRY(cst_value_moments(context, scope, &source->view, &in->scaling, &gate, source->folds,
                              source->fold_count, moments));
    if (outputs > 1)
        list = cst_value_put_outputs(report, cst_report_root(report), in->pool, NULL, outputs);
    for (int32_t d = 0; d < outputs; d++) {
        json_t *object = list ? json_array_get(list, (size_t)d) : cst_report_root(report);
        cst_spectrum_members members = {.count = moments[d].inputs, .classes = 1};
        CST_TRY(cst_document_no_spectrum(
            context, report, object,
            cst_document_spectrum(context, report, object, &moments[d], &members, &in->settings)));
    }
    return CST_OK;
}

/* Scores of the members, and what the checks found. */
static cst_status put_members(cst_context *context, cst_report *report, const inspection *in) {
    const cst_view *view = &in->source.view;
    cst_value_metrics *scores;
    cst_findings findings = {0};
    CST_SCOPE(scope);
    CST_TAKE(context, scope, scores, view->members);
    CST_TRY(cst_value_member_metrics(context, view, scores));
    cst_value_put_members(report, in->pool, scores, NULL);
    CST_OWN(context, scope, cst_findings, &findings);
    if (in->settings.checks)
        CST_TRY(cst_training_find(context, in->pool, in->split, &in->source, NULL, &findings));
    cst_findings_put(report, in->pool, &findings, true);
    return CST_OK;
}

static cst_status inspect(cst_context *context, cst_pool *pool, inspection *in, cst_report **out) {
    cst_training *source = &in->source;
    const cst_view *view = &source->view;
    CST_SCOPE(scope);
    CST_OWN(context, scope, cst_training, source);
    CST_OWN(context, scope, cst_scaling, &in->scaling);
    CST_TRY(
        cst_training_open(context, pool, in->split, in->settings.folds, in->settings.seed, source));
    CST_TRY(cst_value_check(context, pool, in->split, source));
    CST_TRY(cst_scaling_make(context, view, &in->scaling));
    CST_TRY(cst_report_create(context, CST_REPORT_INSPECT, out));
    cst_report *report = *out;
    json_t *root = cst_report_root(report);
    cst_report_string(report, root, "task", "regression");
    cst_report_string(report, root, "split", in->split);
    cst_report_integer(report, root, "samples", view->rows);
    cst_report_integer(report, root, "output_count", view->classes);
    json_t *models = cst_report_list(report, root, "models");
    for (int32_t k = 0; k < view->members; k++)
        cst_report_add_string(report, models, cst_pool_member_name(pool, k));
    CST_TRY(put_members(context, report, in));
    CST_TRY(put_redundancy(context, report, in));
    return put_spectra(context, report, in);
}

cst_status cst_regression_inspect(cst_context *context, cst_pool *pool, const char *split,
                                  const cst_options *options, cst_report **report) {
    inspection in = {.pool = pool, .split = split};
    cst_settings_read(options, &in.settings);
    cst_notices_clear(context);
    cst_la_enter();
    cst_status status = inspect(context, pool, &in, report);
    cst_la_leave();
    return cst_finish_report(context, status, report);
}
