/*
 * cst_inspect: what a pool looks like before anything is fitted. Redundancy, clusters, spectrum,
 * the four penalties side by side, data problems. Paper: sections on CKA and on the
 * spectrum-adaptive penalty.
 */
#include "core/la.h"
#include "fit/document.h"
#include "fit/findings.h"
#include "fit/pipeline.h"
#include "method/linear/penalty.h"

#include <math.h>

void cst_document_clusters(cst_report *report, const cst_pool *pool, const int32_t *cluster_of) {
    json_t *clusters = cst_report_list(report, cst_report_root(report), "clusters");
    int32_t members = cst_pool_members(pool);
    for (int32_t c = 0; c < members; c++) {
        json_t *list = NULL;
        for (int32_t k = 0; k < members; k++) {
            if (cluster_of[k] != c)
                continue;
            if (!list)
                list = cst_report_add_list(report, clusters);
            cst_report_add_string(report, list, cst_pool_member_name(pool, k));
        }
    }
}

static cst_status put_redundancy(cst_context *context, cst_report *report, const cst_pool *pool,
                                 const cst_view *view, const cst_settings *settings) {
    size_t members = (size_t)view->members;
    json_t *root = cst_report_root(report);
    cst_cka_result cka = {0};
    double *pearson = cst_alloc(context, members * members, sizeof *pearson);
    int32_t *cluster_of = cst_alloc(context, members, sizeof *cluster_of);
    double kappa[2] = {NAN, NAN};
    double elbow = NAN;
    bool found = false;
    cst_status status = pearson && cluster_of ? CST_OK : CST_ERROR_MEMORY;
    CST_THEN(cst_stage(context, "redundancy"));
    CST_THEN(cst_cka(context, view, &settings->cka, &cka));
    CST_THEN(cst_pearson(context, view, pearson));
    CST_THEN(cst_gram_kappa(context, pearson, view->members, NULL, 0, &kappa[0]));
    CST_THEN(cst_cka_kappa(context, &cka, NULL, 0, &kappa[1]));
    CST_THEN(cst_elbow_threshold(context, cka.cka, view->members, &elbow, &found));
    double threshold =
        settings->threshold_rule == CST_THRESHOLD_ELBOW && found ? elbow : settings->threshold;
    CST_THEN(cst_clusters(context, cka.cka, view->members, threshold, cluster_of));
    if (status == CST_OK) {
        cst_report_matrix(report, root, "cka", cka.cka, view->members, view->members);
        cst_report_matrix(report, root, "pearson", pearson, view->members, view->members);
        cst_document_clusters(report, pool, cluster_of);
        cst_report_number(report, root, "cluster_threshold", threshold);
        cst_document_cka(report, cst_report_object(report, root, "cka_info"), &cka, settings);
        cst_report_number(report, root, "elbow", found ? elbow : NAN);
        cst_report_number(report, root, "kappa_gram", kappa[0]);
        cst_report_number(report, root, "kappa_cka", kappa[1]);
    }
    cst_cka_result_free(context, &cka);
    cst_free(context, pearson);
    cst_free(context, cluster_of);
    return status;
}

static int32_t lowest(const cst_metrics *members, int32_t count) {
    int32_t best = 0;
    for (int32_t k = 1; k < count; k++)
        if (members[k].nll < members[best].nll)
            best = k;
    return best;
}

cst_status cst_document_spectrum(cst_context *context, cst_report *report, json_t *object,
                                 const cst_moments *moments, const cst_spectrum_members *members,
                                 const cst_settings *settings) {
    static const char *const of[] = {"meta", "oof"};
    cst_standardised standardised = {0};
    cst_spectrum spectra[2] = {0}; /* in the order of cst_spectrum_of */
    cst_penalties penalties = {0};
    cst_penalty_grid grid = cst_penalty_grid_default();
    cst_status status = cst_standardise(context, moments, -1, &standardised);
    CST_THEN(cst_spectrum_compute(context, &standardised, settings->noise_rule, &spectra[0]));
    CST_THEN(cst_spectrum_of_members(context, &standardised, members, settings->noise_rule,
                                     &spectra[1]));
    CST_THEN(
        cst_penalties_compute(context, moments, &standardised, &spectra[0], &grid, &penalties));
    if (status == CST_OK) {
        const cst_spectrum *shown = &spectra[settings->spectrum_of];
        cst_report_string(report, object, "spectrum_of", of[settings->spectrum_of]);
        cst_report_numbers(report, object, "eigenvalues", shown->values, shown->columns);
        cst_report_number(report, object, "sigma2", shown->sigma2);
        cst_report_number(report, object, "mp_edge", shown->mp_edge);
        cst_report_number(report, object, "snr", shown->snr);
        json_t *lambda = cst_report_object(report, object, "lambda");
        cst_report_number(report, lambda, "star", shown->lambda_star);
        cst_report_number(report, lambda, "cv", penalties.cv);
        cst_report_number(report, lambda, "gcv", penalties.gcv);
        cst_report_number(report, lambda, "evidence", penalties.evidence);
        json_t *star = cst_report_object(report, object, "lambda_star");
        for (int i = 1; i >= 0; i--)
            cst_report_number(report, star, of[i], spectra[i].lambda_star);
    }
    for (int i = 0; i < 2; i++)
        cst_spectrum_free(context, &spectra[i]);
    cst_standardised_free(context, &standardised);
    return status;
}

/* Spectrum of the meta-design of all members and what each rule makes of it. */
static cst_status put_spectrum(cst_context *context, cst_report *report, const cst_training *source,
                               const cst_settings *settings, const cst_metrics *scores) {
    cst_gate gate = {0};
    cst_moments moments = {0};
    cst_status status = cst_gate_fit(context, &source->view, lowest(scores, source->view.members),
                                     &settings->gate, &gate);
    cst_spectrum_members members = {.count = source->view.members, .classes = source->view.classes};
    CST_THEN(cst_moments_compute(context, &source->view, &gate, source->folds, source->fold_count,
                                 &moments));
    CST_THEN(cst_document_spectrum(context, report, cst_report_root(report), &moments, &members,
                                   settings));
    cst_moments_free(context, &moments);
    cst_gate_free(context, &gate);
    return status;
}

/* Samples of each class, and what the checks found. */
static cst_status put_problems(cst_context *context, cst_report *report, const cst_pool *pool,
                               const char *split, const cst_training *source,
                               const cst_settings *settings, const cst_training_hints *hints) {
    size_t classes = (size_t)source->view.classes;
    cst_findings findings = {0};
    int64_t *counts = cst_alloc(context, classes, sizeof *counts);
    if (!counts)
        return CST_ERROR_MEMORY;
    for (int64_t i = 0; i < source->view.rows; i++)
        counts[cst_view_label(&source->view, i)]++;
    cst_report_integers(report, cst_report_root(report), "class_counts", counts, (int64_t)classes);
    cst_free(context, counts);
    cst_status status = CST_OK;
    const cst_findings *found = hints && hints->findings ? hints->findings : &findings;
    if (settings->checks && found == &findings)
        status = cst_training_find(context, pool, split, source, hints, &findings);
    if (status == CST_OK)
        cst_findings_put(report, pool, found, true);
    cst_findings_free(context, &findings);
    return status;
}

static cst_status fill(cst_context *context, cst_report *report, const cst_pool *pool,
                       const char *split, const cst_training *source, const cst_settings *settings,
                       const cst_training_hints *hints) {
    json_t *root = cst_report_root(report);
    cst_report_string(report, root, "split", split);
    cst_report_integer(report, root, "samples", source->view.rows);
    cst_report_integer(report, root, "classes", source->view.classes);
    json_t *models = cst_report_list(report, root, "models");
    for (int32_t k = 0; k < source->view.members; k++)
        cst_report_add_string(report, models, cst_pool_member_name(pool, k));
    cst_metrics *members = cst_alloc(context, (size_t)source->view.members, sizeof *members);
    cst_status status =
        members ? cst_member_metrics(context, &source->view, members) : CST_ERROR_MEMORY;
    CST_THEN(put_redundancy(context, report, pool, &source->view, settings));
    CST_THEN(put_spectrum(context, report, source, settings, members));
    if (status == CST_ERROR_INPUT || status == CST_ERROR_NUMERIC) {
        /* Constant members have no spectrum; the rest of the report is there all the same. */
        cst_notice(context, "the spectrum is not reported: %s", cst_last_error(context));
        cst_report_numbers(report, root, "eigenvalues", NULL, 0);
        cst_report_object(report, root, "lambda");
        status = CST_OK;
    }
    if (status == CST_OK) {
        cst_document_members(report, pool, members, NULL);
        status = put_problems(context, report, pool, split, source, settings, hints);
    }
    cst_report_notices(report, context);
    cst_free(context, members);
    return status == CST_OK ? cst_report_finish(context, report) : status;
}

cst_status cst_inspect_checked(cst_context *context, cst_pool *pool, const char *split,
                               const cst_options *options, const cst_training_hints *hints,
                               cst_report **report) {
    cst_settings settings;
    cst_training source = {0};
    cst_settings_read(options, &settings);
    cst_notices_clear(context);
    cst_la_enter();
    cst_status status =
        cst_training_open(context, pool, split, settings.folds, settings.seed, &source);
    CST_THEN(cst_report_create(context, CST_REPORT_INSPECT, report));
    CST_THEN(fill(context, *report, pool, split, &source, &settings, hints));
    cst_la_leave();
    cst_training_close(context, &source);
    return status;
}

cst_status cst_classification_inspect(cst_context *context, cst_pool *pool, const char *split,
                                      const cst_options *options, cst_report **report) {
    return cst_inspect_checked(context, pool, split, options, NULL, report);
}
