/*
 * cst_inspect: what a pool looks like before anything is fitted. Redundancy, clusters, spectrum,
 * the four penalties side by side, data problems. Paper: sections on CKA and on the
 * spectrum-adaptive penalty.
 */
#include "core/la.h"
#include "fit/family.h"
#include "fit/findings.h"
#include "fit/pipeline.h"

CST_OWNED(cst_cka_result)
CST_OWNED(cst_gate)
CST_OWNED(cst_moments)

/* What is looked at. */
typedef struct inspection {
    const cst_pool *pool;
    const char *split;
    const cst_training_hints *hints; /* may be NULL */
    cst_settings settings;
    cst_training source;
} inspection;

static cst_status put_redundancy(cst_context *context, cst_report *report, const inspection *in) {
    const cst_view *view = &in->source.view;
    cst_cka_result cka = {0};
    double *pearson;
    CST_SCOPE(scope);
    CST_TAKE(context, scope, pearson, (size_t)view->members * (size_t)view->members);
    CST_TRY(cst_stage(context, "redundancy"));
    CST_OWN(context, scope, cst_cka_result, &cka);
    CST_TRY(cst_cka(context, view, &in->settings.cka, &cka));
    CST_TRY(cst_pearson(context, view, pearson));
    return cst_document_similarity(context, report, in->pool, &in->settings, &cka, pearson);
}

/* Spectrum of the meta-design of all members and what each rule makes of it. */
static cst_status put_spectrum(cst_context *context, cst_report *report, const inspection *in,
                               const cst_metrics *scores) {
    const cst_training *source = &in->source;
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
    CST_TRY(cst_gate_fit(context, view, best, &in->settings.gate, &gate));
    CST_TRY(cst_moments_compute(context, view, &gate, source->folds, source->fold_count, &moments));
    return cst_document_spectrum(context, report, cst_report_root(report), &moments, &members,
                                 &in->settings);
}

/* Samples of each class, and what the checks found. */
static cst_status put_problems(cst_context *context, cst_report *report, const inspection *in) {
    const cst_view *view = &in->source.view;
    cst_findings findings = {0};
    int64_t *counts;
    CST_SCOPE(scope);
    CST_TAKE(context, scope, counts, view->classes);
    for (int64_t i = 0; i < view->rows; i++)
        counts[cst_view_label(view, i)]++;
    cst_report_integers(report, cst_report_root(report), "class_counts", counts, view->classes);
    CST_OWN(context, scope, cst_findings, &findings);
    bool given = in->hints && in->hints->findings;
    if (in->settings.checks && !given)
        CST_TRY(cst_training_find(context, in->pool, in->split, &in->source, in->hints, &findings));
    cst_findings_put(report, in->pool, given ? in->hints->findings : &findings, true);
    return CST_OK;
}

static cst_status inspect(cst_context *context, cst_pool *pool, inspection *in, cst_report **out) {
    cst_training *source = &in->source;
    const cst_view *view = &source->view;
    cst_metrics *members;
    CST_SCOPE(scope);
    CST_OWN(context, scope, cst_training, source);
    CST_TRY(
        cst_training_open(context, pool, in->split, in->settings.folds, in->settings.seed, source));
    CST_TRY(cst_report_create(context, CST_REPORT_INSPECT, out));
    cst_report *report = *out;
    json_t *root = cst_report_root(report);
    cst_report_string(report, root, "split", in->split);
    cst_report_integer(report, root, "samples", view->rows);
    cst_report_integer(report, root, "classes", view->classes);
    json_t *models = cst_report_list(report, root, "models");
    for (int32_t k = 0; k < view->members; k++)
        cst_report_add_string(report, models, cst_pool_member_name(pool, k));
    CST_TAKE(context, scope, members, view->members);
    CST_TRY(cst_member_metrics(context, view, members));
    CST_TRY(put_redundancy(context, report, in));
    CST_TRY(cst_document_no_spectrum(context, report, root,
                                     put_spectrum(context, report, in, members)));
    cst_document_members(report, pool, members, NULL);
    CST_TRY(put_problems(context, report, in));
    cst_report_notices(report, context);
    return cst_report_finish(context, report);
}

cst_status cst_inspect_checked(cst_context *context, cst_pool *pool, const char *split,
                               const cst_options *options, const cst_training_hints *hints,
                               cst_report **report) {
    inspection in = {.pool = pool, .split = split, .hints = hints};
    cst_settings_read(options, &in.settings);
    cst_notices_clear(context);
    cst_la_enter();
    cst_status status = inspect(context, pool, &in, report);
    cst_la_leave();
    return status;
}

cst_status cst_classification_inspect(cst_context *context, cst_pool *pool, const char *split,
                                      const cst_options *options, cst_report **report) {
    return cst_inspect_checked(context, pool, split, options, NULL, report);
}
