/*
 * cst_inspect for regressions: scores of the members, redundancy, clusters, spectrum and the four
 * penalties of each output, data problems. Before a fit. Paper: sections on CKA and on the
 * spectrum-adaptive penalty; docs/regression.md.
 */
#include "tasks/regression/regression.h"

CST_OWNED(cst_gate)

/* One spectrum of the meta-design for each output: at the root where there is one, else in
 * "outputs". */
static cst_status put_spectra(cst_context *context, cst_report *report, const cst_fit_job *job,
                              const cst_scaling *scaling) {
    const cst_training *source = &job->source;
    const cst_view *view = &source->view;
    json_t *list = NULL;
    cst_gate gate = {.mode = job->settings.gate.mode, .inputs = view->members};
    CST_SCOPE(scope);
    CST_NEW(context, scope, cst_moments, moments, view->classes);
    CST_OWN(context, scope, cst_gate, &gate);
    CST_TRY(cst_value_gates_fit(context, view, scaling, source->folds, &job->settings, 1, &gate));
    CST_TRY(cst_value_moments(context, scope, view, scaling, &gate, source->folds,
                              source->fold_count, moments));
    if (view->classes > 1)
        list =
            cst_value_put_outputs(report, cst_report_root(report), job->pool, NULL, view->classes);
    for (int32_t d = 0; d < view->classes; d++) {
        json_t *object = list ? json_array_get(list, (size_t)d) : cst_report_root(report);
        cst_spectrum_members members = {.count = moments[d].inputs, .classes = 1};
        CST_TRY(cst_document_no_spectrum(
            context, report, object,
            cst_document_spectrum(context, report, object, &moments[d], &members, &job->settings)));
    }
    return CST_OK;
}

cst_status cst_value_inspect(cst_context *context, cst_fit_job *job, cst_report *report) {
    const cst_view *view = &job->source.view;
    cst_scope *scope = job->scope;
    cst_costs costs = cst_training_costs(&job->source);
    cst_run run = cst_fit_job_run(job, &costs);
    CST_TRY(cst_value_check(context, job->pool, job->facts.split, &job->source));
    CST_TRY(run.family->measure(context, job));
    cst_value_put_members(report, job->pool, job->facts.members, NULL);
    CST_TRY(cst_inspect_findings(context, job, report));
    CST_OWN(context, scope, cst_stages, &job->stages);
    CST_TRY(cst_stages_alloc(context, view->members, &job->stages));
    CST_TRY(cst_value_prepare(context, scope, &run, &job->stages));
    CST_TRY(cst_stage(context, "redundancy"));
    CST_TRY(run.family->cka(context, &run, &job->stages.cka));
    CST_TRY(cst_document_similarity(context, report, job->pool, &job->settings, &job->stages.cka,
                                    job->stages.pearson));
    return put_spectra(context, report, job, &((const cst_value_own *)run.own)->scaling);
}
