/*
 * cst_inspect: what a pool looks like before anything is fitted. Redundancy, clusters, spectrum,
 * the four penalties side by side, data problems. Paper: sections on CKA and on the
 * spectrum-adaptive penalty.
 */
#include "core/la.h"
#include "fit/family.h"

CST_OWNED(cst_cka_result)
CST_OWNED(cst_gate)
CST_OWNED(cst_moments)

/* ---- any family ---- */

cst_status cst_inspect_findings(cst_context *context, cst_fit_job *job, cst_report *report) {
    bool given = job->hints && job->hints->findings;
    if (job->settings.checks && !given)
        CST_TRY(cst_training_find(context, job->pool, job->facts.split, &job->source, job->hints,
                                  &job->findings));
    cst_findings_put(report, job->pool, given ? job->hints->findings : &job->findings, true);
    return CST_OK;
}

static cst_status inspect(cst_context *context, cst_fit_job *job, cst_report **out) {
    const cst_family *family = job->facts.family;
    const cst_view *view = &job->source.view;
    CST_SCOPE(scope);
    job->scope = scope;
    CST_OWN(context, scope, cst_training, &job->source);
    CST_OWN(context, scope, cst_findings, &job->findings);
    CST_TRY(cst_training_open(context, job->pool, job->facts.split, job->settings.folds,
                              job->settings.seed, &job->source));
    CST_TRY(cst_report_begin(context, CST_REPORT_INSPECT, out));
    cst_report *report = *out;
    json_t *root = cst_report_root(report);
    if (family->task)
        cst_report_string(report, root, "task", family->task);
    CST_PUT(report, root, CST_S("split", job->facts.split), CST_I("samples", view->rows),
            CST_I(family->task ? "output_count" : "classes", view->classes));
    json_t *models = cst_report_list(report, root, "models");
    for (int32_t k = 0; k < view->members; k++)
        cst_report_add_string(report, models, cst_pool_member_name(job->pool, k));
    CST_TRY(family->inspect(context, job, report));
    cst_report_notices(report, context);
    return cst_report_finish(context, report);
}

cst_status cst_inspect_family(cst_context *context, const cst_family *family, cst_pool *pool,
                              const char *split, const cst_options *options,
                              const cst_training_hints *hints, cst_report **report) {
    cst_fit_job job = {.facts = {.family = family, .split = split}, .pool = pool, .hints = hints};
    cst_settings_read(options, &job.settings);
    cst_notices_clear(context);
    cst_la_enter();
    cst_status status = inspect(context, &job, report);
    cst_la_leave();
    return status;
}

/* ---- classification ---- */

static cst_status put_redundancy(cst_context *context, cst_report *report, const cst_fit_job *job) {
    const cst_view *view = &job->source.view;
    cst_cka_result cka = {0};
    double *pearson;
    CST_SCOPE(scope);
    CST_TAKE(context, scope, pearson, (size_t)view->members * (size_t)view->members);
    CST_TRY(cst_stage(context, "redundancy"));
    CST_OWN(context, scope, cst_cka_result, &cka);
    CST_TRY(cst_cka(context, view, &job->settings.cka, &cka));
    CST_TRY(cst_pearson(context, view, pearson));
    return cst_document_similarity(context, report, job->pool, &job->settings, &cka, pearson);
}

/* Spectrum of the meta-design of all members and what each rule makes of it. */
static cst_status put_spectrum(cst_context *context, cst_report *report, const cst_fit_job *job,
                               const cst_metrics *scores) {
    const cst_training *source = &job->source;
    const cst_view *view = &source->view;
    cst_spectrum_members members = {.count = view->members, .classes = view->classes};
    cst_gate gate = {0};
    cst_moments moments = {0};
    int32_t best = 0;
    for (int32_t k = 1; k < view->members; k++)
        if (scores[k].nll < scores[best].nll)
            best = k;
    CST_SCOPE(scope);
    CST_OWN(context, scope, cst_gate, &gate);
    CST_OWN(context, scope, cst_moments, &moments);
    CST_TRY(cst_gate_fit(context, view, best, &job->settings.gate, &gate));
    CST_TRY(cst_moments_compute(context, view, &gate, source->folds, source->fold_count, &moments));
    return cst_document_spectrum(context, report, cst_report_root(report), &moments, &members,
                                 &job->settings);
}

cst_status cst_classes_inspect(cst_context *context, cst_fit_job *job, cst_report *report) {
    const cst_view *view = &job->source.view;
    json_t *root = cst_report_root(report);
    cst_metrics *members;
    int64_t *counts;
    CST_TAKE(context, job->scope, members, view->members);
    CST_TAKE(context, job->scope, counts, view->classes);
    CST_TRY(cst_member_metrics(context, view, members));
    CST_TRY(put_redundancy(context, report, job));
    CST_TRY(cst_document_no_spectrum(context, report, root,
                                     put_spectrum(context, report, job, members)));
    cst_document_members(report, job->pool, members, NULL);
    for (int64_t i = 0; i < view->rows; i++)
        counts[cst_view_label(view, i)]++;
    cst_report_integers(report, root, "class_counts", counts, view->classes);
    return cst_inspect_findings(context, job, report);
}

cst_status cst_classification_inspect(cst_context *context, cst_pool *pool, const char *split,
                                      const cst_options *options, cst_report **report) {
    return cst_inspect_family(context, &cst_classification_family, pool, split, options, NULL,
                              report);
}
