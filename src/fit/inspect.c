/*
 * cst_inspect: what a pool looks like before anything is fitted. Redundancy, clusters, spectrum,
 * the four penalties side by side, data problems. Paper: sections on CKA and on the
 * spectrum-adaptive penalty.
 */
#include "core/la.h"
#include "fit/family.h"

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
