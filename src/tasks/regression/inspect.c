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
#include "tasks/regression/gate.h"
#include "tasks/regression/redundant.h"
#include "tasks/regression/regression.h"

#include <math.h>

typedef struct inspection {
    const cst_pool *pool;
    const char *split;
    cst_settings settings; /* the measure is CKA */
    cst_training source;
    cst_scaling scaling;
} inspection;

static cst_status put_redundancy(cst_context *context, cst_report *report,
                                 const inspection *inspected, const cst_stages *found) {
    int32_t members = found->members;
    json_t *root = cst_report_root(report);
    double elbow = NAN;
    bool gap = false;
    int32_t *cluster_of = cst_alloc(context, (size_t)members, sizeof *cluster_of);
    cst_status status = cluster_of ? CST_OK : CST_ERROR_MEMORY;
    double kappa[2] = {NAN, NAN};
    CST_THEN(cst_gram_kappa(context, found->pearson, members, NULL, 0, &kappa[0]));
    CST_THEN(cst_cka_kappa(context, &found->cka, NULL, 0, &kappa[1]));
    CST_THEN(cst_elbow_threshold(context, found->cka.cka, members, &elbow, &gap));
    bool use_gap = inspected->settings.threshold_rule == CST_THRESHOLD_ELBOW && gap;
    double threshold = use_gap ? elbow : inspected->settings.threshold;
    CST_THEN(cst_clusters(context, found->cka.cka, members, threshold, cluster_of));
    if (status == CST_OK) {
        cst_report_matrix(report, root, "cka", found->cka.cka, members, members);
        cst_report_matrix(report, root, "pearson", found->pearson, members, members);
        cst_document_clusters(report, inspected->pool, cluster_of);
        cst_report_number(report, root, "cluster_threshold", threshold);
        cst_document_cka(report, cst_report_object(report, root, "cka_info"), &found->cka,
                         &inspected->settings);
        cst_report_number(report, root, "elbow", gap ? elbow : NAN);
        cst_report_number(report, root, "kappa_gram", kappa[0]);
        cst_report_number(report, root, "kappa_cka", kappa[1]);
    }
    cst_free(context, cluster_of);
    return status;
}

/* What stage S1 of a fit finds, with CKA whatever the measure asked for. */
static cst_status redundancy(cst_context *context, cst_report *report,
                             const inspection *inspected) {
    const cst_training *source = &inspected->source;
    cst_gate none = {.mode = CST_GATE_NONE, .inputs = source->view.members};
    cst_settings settings = inspected->settings;
    cst_costs costs = cst_training_costs(source);
    cst_stages found = {0};
    settings.threshold_rule = CST_THRESHOLD_GIVEN;
    settings.limits = (cst_limits){0};
    cst_moments *moments = cst_alloc(context, (size_t)source->view.classes, sizeof *moments);
    cst_status status =
        moments ? cst_stages_alloc(context, source->view.members, &found) : CST_ERROR_MEMORY;
    CST_THEN(cst_stage(context, "redundancy"));
    CST_THEN(cst_value_moments(context, &source->view, &inspected->scaling, &none, source->folds,
                               source->fold_count, moments));
    CST_THEN(cst_value_redundant(context, &source->view, &inspected->scaling, moments, &settings,
                                 &costs, &found));
    CST_THEN(put_redundancy(context, report, inspected, &found));
    if (moments)
        cst_value_moments_free(context, moments, source->view.classes);
    cst_free(context, moments);
    cst_stages_free(context, &found);
    return status;
}

/* Spectrum of the meta-design of one output and what each rule makes of it, into `object`. */
static cst_status put_spectrum(cst_context *context, cst_report *report, json_t *object,
                               const cst_moments *moments, const cst_settings *settings) {
    cst_spectrum_members members = {.count = moments->inputs, .classes = 1};
    cst_status status = cst_document_spectrum(context, report, object, moments, &members, settings);
    if (status == CST_ERROR_INPUT || status == CST_ERROR_NUMERIC) {
        /* Constant members have no spectrum; the rest of the report is there all the same. */
        cst_notice(context, "the spectrum is not reported: %s", cst_last_error(context));
        cst_report_numbers(report, object, "eigenvalues", NULL, 0);
        (void)cst_report_object(report, object, "lambda");
        status = CST_OK;
    }
    return status;
}

/* One spectrum for each output: at the root where there is one, else in "outputs". */
static cst_status spectra(cst_context *context, cst_report *report, const inspection *inspected) {
    const cst_training *source = &inspected->source;
    int32_t outputs = source->view.classes;
    json_t *root = cst_report_root(report);
    json_t *list = NULL;
    cst_gate gate = {.mode = inspected->settings.gate.mode, .inputs = source->view.members};
    cst_moments *moments = cst_alloc(context, (size_t)outputs, sizeof *moments);
    cst_status status = moments ? CST_OK : CST_ERROR_MEMORY;
    CST_THEN(cst_value_gates_fit(context, &source->view, &inspected->scaling, source->folds,
                                 &inspected->settings, 1, &gate));
    CST_THEN(cst_value_moments(context, &source->view, &inspected->scaling, &gate, source->folds,
                               source->fold_count, moments));
    if (status == CST_OK && outputs > 1)
        list = cst_value_put_outputs(report, root, inspected->pool, NULL, outputs);
    for (int32_t d = 0; status == CST_OK && d < outputs; d++)
        status = put_spectrum(context, report, list ? json_array_get(list, (size_t)d) : root,
                              &moments[d], &inspected->settings);
    if (moments)
        cst_value_moments_free(context, moments, outputs);
    cst_free(context, moments);
    cst_gate_free(context, &gate);
    return status;
}

/* Scores of the members, and what the checks found. */
static cst_status members_of(cst_context *context, cst_report *report,
                             const inspection *inspected) {
    int32_t count = inspected->source.view.members;
    cst_value_metrics *scores = cst_alloc(context, (size_t)count, sizeof *scores);
    cst_status status = scores ? cst_value_member_metrics(context, &inspected->source.view, scores)
                               : CST_ERROR_MEMORY;
    if (status == CST_OK)
        cst_value_put_members(report, inspected->pool, scores, NULL);
    cst_findings findings = {0};
    if (inspected->settings.checks)
        CST_THEN(cst_training_find(context, inspected->pool, inspected->split, &inspected->source,
                                   NULL, &findings));
    if (status == CST_OK)
        cst_findings_put(report, inspected->pool, &findings, true);
    cst_findings_free(context, &findings);
    cst_free(context, scores);
    return status;
}

static cst_status fill(cst_context *context, cst_report *report, const inspection *inspected) {
    json_t *root = cst_report_root(report);
    const cst_view *view = &inspected->source.view;
    cst_report_string(report, root, "task", "regression");
    cst_report_string(report, root, "split", inspected->split);
    cst_report_integer(report, root, "samples", view->rows);
    cst_report_integer(report, root, "output_count", view->classes);
    json_t *models = cst_report_list(report, root, "models");
    for (int32_t k = 0; k < view->members; k++)
        cst_report_add_string(report, models, cst_pool_member_name(inspected->pool, k));
    cst_status status = members_of(context, report, inspected);
    CST_THEN(redundancy(context, report, inspected));
    return status == CST_OK ? spectra(context, report, inspected) : status;
}

cst_status cst_regression_inspect(cst_context *context, cst_pool *pool, const char *split,
                                  const cst_options *options, cst_report **report) {
    inspection inspected = {.pool = pool, .split = split};
    cst_training *source = &inspected.source;
    cst_settings_read(options, &inspected.settings);
    cst_settings *settings = &inspected.settings;
    settings->measure = CST_MEASURE_CKA;
    cst_notices_clear(context);
    cst_la_enter();
    cst_status status =
        cst_training_open(context, pool, split, settings->folds, settings->seed, source);
    CST_THEN(cst_value_check_folds(context, split, source->folds, source->view.rows,
                                   source->fold_count));
    CST_THEN(cst_value_check_units(context, pool, split, true));
    CST_THEN(cst_scaling_make(context, &source->view, &inspected.scaling));
    CST_THEN(cst_report_begin(context, CST_REPORT_INSPECT, report));
    CST_THEN(fill(context, *report, &inspected));
    cst_la_leave();
    cst_scaling_free(context, &inspected.scaling);
    cst_training_close(context, source);
    return cst_finish_report(context, status, report);
}
