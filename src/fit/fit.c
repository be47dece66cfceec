/* Fit of a pool: stages S0 to S4 in order, nested evaluation, the model and the report; and what a
 * pool looks like before. Paper: section "Method", from the out-of-fold matrix to the blended
 * prediction. */
#include "core/la.h"
#include "fit/family.h"

#include <math.h>

static cst_status make_report(cst_context *context, cst_fit_job *job, double start,
                              cst_report **report) {
    const cst_family *family = job->facts.family;
    if (family->diagnose)
        CST_TRY(family->diagnose(context, job));
    if (job->settings.nested || cst_metric_decides(job->facts.metric)) {
        double before = cst_seconds();
        CST_TRY(cst_stage(context, "nested evaluation"));
        CST_TRY(family->score(context, job));
        job->facts.seconds_nested = cst_seconds() - before;
    }
    if (job->settings.cascade.on)
        CST_TRY(cst_fit_cascade(context, job));
    CST_TRY(cst_stage(context, "scores of members"));
    CST_TRY(family->measure(context, job));
    job->facts.seconds_total = cst_seconds() - start;
    return cst_fit_document(context, &job->facts, report);
}

/* What a cascade cannot be combined with. */
static cst_status check_cascade(cst_context *context, const cst_fit_job *job) {
    if (!job->settings.cascade.on)
        return CST_OK;
    if (cst_pool_task(job->pool) != CST_TASK_CLASSIFICATION || job->hints)
        return cst_fail(context, CST_ERROR_UNSUPPORTED,
                        "--cascade (option cascade) is for classification with the probabilities "
                        "of all classes: remove it");
    if (job->settings.folds.kind != 0)
        return cst_fail(context, CST_ERROR_UNSUPPORTED,
                        "--cascade (option cascade) is not supported with folds.kind=time: remove "
                        "one of them");
    return CST_OK;
}

static cst_status run(cst_context *context, cst_fit_job *job, cst_model **model,
                      cst_report **report) {
    const cst_family *family = job->facts.family;
    const char *split = job->facts.split;
    cst_training *source = &job->source;
    double start = cst_seconds();
    CST_SCOPE(scope);
    job->scope = scope;
    cst_settings_read(job->facts.options, &job->settings);
    job->facts.gain = NAN;
    CST_TRY(check_cascade(context, job));
    const cst_task task = cst_pool_task(job->pool);
    bool own = task == CST_TASK_MULTILABEL || task == CST_TASK_TOPK; /* metrics are its scores */
    if (*job->settings.metric && !job->hints && !own)
        CST_TRY(cst_metric_parse(context, scope, task, job->settings.metric, &job->facts.metric));
    if (own)
        CST_TRY(cst_training_no_time(context, job->facts.options, cst_task_text(task)));
    CST_OWN(context, scope, cst_training, source);
    CST_OWN(context, scope, cst_findings, &job->findings);
    CST_OWN(context, scope, cst_noise, &job->noise);
    double end = cst_part_begin(context, 0.1);
    CST_TRY(cst_training_open(context, job->pool, split, &job->settings.folds, job->settings.seed,
                              source));
    CST_TRY(cst_metric_check_classes(context, job->facts.metric, source->view.classes));
    CST_TRY(family->admit(context, job));
    CST_TRY(cst_training_check_costs(context, job->pool, source, &job->settings.limits));
    if (job->settings.checks && job->facts.findings == &job->findings)
        CST_TRY(cst_training_check(context, job->pool, split, source, job->hints, &job->findings));
    if (family->ready)
        CST_TRY(family->ready(context, job));
    cst_part_end(context, end);
    cst_settings whole = job->settings;
    whole.front = report != NULL;
    cst_costs costs = cst_training_costs(source);
    cst_run stages = cst_fit_job_run(job, &costs);
    stages.settings = &whole;
    CST_OWN(context, scope, cst_stages, &job->stages);
    bool nested = report && job->settings.nested; /* a fit for each fold */
    end = cst_part_begin(context, nested ? 1.0 / (1 + source->fold_count) : 0.9);
    CST_TRY(cst_stages_run(context, &stages, &job->stages));
    CST_TRY(family->label(context, job));
    cst_part_end(context, end);
    if (report)
        CST_TRY(make_report(context, job, start, report));
    else if (cst_metric_decides(job->facts.metric))
        CST_TRY(family->score(context, job));
    if (!report && job->settings.cascade.on)
        CST_TRY(cst_fit_cascade(context, job));
    CST_TRY(cst_progress_end(context, "fit"));
    if (model) {
        *model = job->stages.fit.model;
        job->stages.fit.model = NULL;
    }
    return CST_OK;
}

cst_status cst_fit_family(cst_context *context, const cst_family *family, cst_pool *pool,
                          const char *split, const cst_options *options,
                          const cst_training_hints *hints, cst_model **model, cst_report **report) {
    cst_fit_job job = {.pool = pool, .hints = hints};
    job.facts =
        (cst_fit_facts){.family = family,
                        .pool = pool,
                        .split = split,
                        .options = options,
                        .settings = &job.settings,
                        .source = &job.source,
                        .stages = &job.stages,
                        .findings = hints && hints->findings ? hints->findings : &job.findings};
    if (!hints)
        cst_notices_clear(context);
    CST_LA();
    return run(context, &job, model, report);
}

/* ---- inspection ---- */

cst_status cst_inspect_findings(cst_context *context, cst_fit_job *job, cst_report *report) {
    bool given = job->hints && job->hints->findings;
    if (job->settings.checks && !given)
        CST_TRY(cst_training_find(context, job->pool, job->facts.split, &job->source, job->hints,
                                  &job->findings));
    cst_findings_put(report, job->pool, given ? job->hints->findings : &job->findings, true);
    return CST_OK;
}

cst_status cst_inspect_members(cst_context *context, cst_fit_job *job, const char *loss,
                               const cst_view *rows, cst_report *report) {
    cst_stages *stages = &job->stages;
    cst_document_losses(report, job->pool, loss, job->facts.members, NULL);
    CST_TRY(cst_inspect_findings(context, job, report));
    CST_OWN(context, job->scope, cst_stages, stages);
    CST_TRY(cst_stages_alloc(context, rows->members, stages));
    CST_TRY(cst_pearson(context, rows, stages->pearson));
    CST_TRY(cst_stage(context, "redundancy"));
    CST_TRY(cst_cka(context, rows, &job->settings.cka, &stages->cka));
    return cst_document_similarity(context, report, job->pool, &job->settings, &stages->cka,
                                   stages->pearson);
}

static cst_status inspect(cst_context *context, cst_fit_job *job, cst_report **out) {
    const cst_family *family = job->facts.family;
    const cst_view *view = &job->source.view;
    CST_SCOPE(scope);
    job->scope = scope;
    CST_OWN(context, scope, cst_training, &job->source);
    CST_OWN(context, scope, cst_findings, &job->findings);
    CST_OWN(context, scope, cst_noise, &job->noise);
    CST_TRY(cst_training_open(context, job->pool, job->facts.split, &job->settings.folds,
                              job->settings.seed, &job->source));
    CST_TRY(cst_report_begin(context, CST_REPORT_INSPECT, out));
    cst_report *report = *out;
    json_t *root = cst_report_root(report);
    if (family->task)
        cst_report_string(report, root, "task", family->task);
    CST_PUT(report, root, CST_S("split", job->facts.split), CST_I("samples", view->rows),
            CST_I(family->task && !view->listed_of ? "output_count" : "classes",
                  view->listed_of ? view->listed_of : view->classes));
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
    CST_LA();
    return inspect(context, &job, report);
}
