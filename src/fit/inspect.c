/*
 * What an inspection shows of a classification: redundancy, clusters, spectrum, the four penalties
 * side by side, data problems. Paper: sections on CKA and on the spectrum-adaptive penalty.
 */
#include "fit/family.h"

CST_OWNED(cst_cka_result)
CST_OWNED(cst_moments)

static cst_status put_redundancy(cst_context *context, cst_report *report, const cst_fit_job *job) {
    const cst_view *view = &job->source.view;
    cst_cka_result cka = {0};
    CST_SCOPE(scope);
    CST_NEW(context, scope, double, pearson, ((size_t)view->members * (size_t)view->members));
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
    CST_NEW(context, job->scope, cst_metrics, members, view->members);
    CST_NEW(context, job->scope, int64_t, counts, view->classes);
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
