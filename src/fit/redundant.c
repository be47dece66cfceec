/*
 * Stage S1 inside the pipeline: similarity by CKA or Pearson, the threshold by its rule, the
 * projection. Paper: section "Kernelized Redundancy Projection using CKA".
 */
#include "fit/redundant.h"

#include "stats/risk.h"

#include <math.h>
#include <string.h>

enum { CANDIDATES_MAX = 16, FEW = 3 };

int32_t cst_count_cap(const cst_settings *settings, int32_t members) {
    int32_t cap =
        settings->keep_max > 0 && settings->keep_max < members ? settings->keep_max : members;
    if (settings->keep_fraction > 0 && settings->keep_fraction < 1) {
        /* 1e-9: 0.6 * 15 is 9 although its product in binary is a little less */
        int32_t share = (int32_t)floor(settings->keep_fraction * (double)members + 1e-9);
        /* a share of very few members would leave one of three */
        share = share < FEW ? FEW : share;
        cap = share < cap ? share : cap;
    }
    return cap;
}

cst_projection_rule cst_projection_rule_of(const cst_settings *settings, int32_t members,
                                           const cst_costs *costs, const bool *constant) {
    cst_projection_rule rule = {.tau = settings->threshold, .costs = *costs, .constant = constant};
    int32_t cap = cst_count_cap(settings, members);
    rule.cap_count = !settings->select && cap < members ? cap : 0;
    if (!settings->select)
        rule.limits = settings->limits;
    /* Selection weighs what members cost: before it only equal ones go. */
    rule.equal_only = settings->select && cst_limited(&settings->limits);
    rule.keep_ties = settings->keep_ties;
    return rule;
}

/* ---- threshold by cross-validated loss ---- */

typedef struct threshold_job {
    const cst_view *view;
    const int32_t *folds;
    const cst_settings *settings;
    const cst_costs *costs;
    const double *taus;
    int32_t count;
    int32_t fold_count;
    double *loss; /* [count][folds] */
} threshold_job;

static cst_status similarity_of(cst_context *context, const cst_view *view,
                                const cst_settings *settings, cst_cka_result *cka,
                                double *similarity) {
    size_t cells = (size_t)view->members * (size_t)view->members;
    if (settings->measure == CST_MEASURE_PEARSON)
        return cst_pearson(context, view, similarity);
    cst_status status = cst_cka(context, view, &settings->cka, cka);
    if (status == CST_OK)
        memcpy(similarity, cka->cka, cells * sizeof *similarity);
    return status;
}

/* Held-out NLL of a log-linear pool on the given members, fitted on `in`, judged on `out`. */
static cst_status pool_loss(cst_context *context, const cst_view *in, const cst_view *out,
                            const int32_t *members, int32_t count, const cst_settings *settings,
                            double *loss) {
    const float **pointers = cst_alloc(context, 2 * (size_t)count, sizeof *pointers);
    int32_t *active = cst_alloc(context, (size_t)count, sizeof *active);
    cst_logtable table = {0};
    cst_logtable held = {0};
    cst_loglinear pool = {0};
    cst_status status = pointers && active ? CST_OK : CST_ERROR_MEMORY;
    if (status == CST_OK) {
        cst_view fit = cst_view_members(in, members, count, pointers);
        cst_view judge = cst_view_members(out, members, count, pointers + count);
        cst_loglinear_options options = settings->loglinear;
        options.evidence = false;
        for (int32_t k = 0; k < count; k++)
            active[k] = k;
        status = cst_logtable_pair(context, &fit, &judge, &table, &held);
        CST_THEN(cst_loglinear_fit(context, &table, active, count, &options, NULL, &pool));
        CST_THEN(
            cst_loglinear_loss(context, &held, active, count, pool.weights, pool.bias, loss, NULL));
    }
    cst_loglinear_free(context, &pool);
    cst_logtable_free(context, &table);
    cst_logtable_free(context, &held);
    cst_free(context, pointers);
    cst_free(context, active);
    return status;
}

static cst_status threshold_fold(cst_context *context, void *user, int64_t fold) {
    const threshold_job *job = user;
    size_t members = (size_t)job->view->members;
    cst_view in;
    cst_view out;
    cst_cka_result cka = {0};
    int64_t *index = cst_alloc(context, (size_t)job->view->rows, sizeof *index);
    double *similarity = cst_alloc(context, members * members, sizeof *similarity);
    double *risk = cst_alloc(context, members, sizeof *risk);
    cst_status status = index && similarity && risk ? CST_OK : CST_ERROR_MEMORY;
    if (status == CST_OK) {
        cst_view_split(job->view, job->folds, (int32_t)fold, index, &in, &out);
        status = similarity_of(context, &in, job->settings, &cka, similarity);
    }
    CST_THEN(cst_risk_all(context, &in, risk));
    for (int32_t c = 0; status == CST_OK && c < job->count; c++) {
        cst_projection projection = {0};
        cst_projection_rule rule =
            cst_projection_rule_of(job->settings, (int32_t)members, job->costs, cka.constant);
        rule.tau = job->taus[c];
        status = cst_project(context, similarity, (int32_t)members, risk, &rule, &projection);
        CST_THEN(pool_loss(context, &in, &out, projection.kept, projection.kept_count,
                           job->settings, &job->loss[c * job->fold_count + fold]));
        cst_projection_free(context, &projection);
    }
    cst_cka_result_free(context, &cka);
    cst_free(context, index);
    cst_free(context, similarity);
    cst_free(context, risk);
    return status;
}

static cst_status threshold_by_cv(cst_context *context, const cst_view *view, const int32_t *folds,
                                  int32_t fold_count, const cst_settings *settings,
                                  const cst_costs *costs, cst_stages *out) {
    double taus[CANDIDATES_MAX];
    int32_t count = 0;
    cst_projection_rule rule =
        cst_projection_rule_of(settings, view->members, costs, out->cka.constant);
    cst_status status = cst_threshold_candidates(context, out->similarity, view->members, out->risk,
                                                 &rule, CANDIDATES_MAX, taus, &count);
    if (status != CST_OK)
        return status;
    threshold_job job = {.view = view,
                         .folds = folds,
                         .settings = settings,
                         .costs = costs,
                         .taus = taus,
                         .count = count,
                         .fold_count = fold_count};
    job.loss = cst_alloc(context, (size_t)count * (size_t)fold_count, sizeof *job.loss);
    status =
        job.loss ? cst_parallel_for(context, fold_count, threshold_fold, &job) : CST_ERROR_MEMORY;
    int32_t chosen = 0;
    int32_t best = 0;
    CST_THEN(cst_threshold_cv(context, job.loss, count, fold_count, &chosen, &best));
    if (status == CST_OK)
        out->threshold = taus[chosen];
    cst_free(context, job.loss);
    return status;
}

/* ---- the stage ---- */

static cst_status choose_threshold(cst_context *context, const cst_view *view, const int32_t *folds,
                                   int32_t fold_count, const cst_settings *settings,
                                   const cst_costs *costs, cst_stages *out) {
    bool found = true;
    out->threshold = settings->threshold;
    if (settings->threshold_rule == CST_THRESHOLD_CV)
        return threshold_by_cv(context, view, folds, fold_count, settings, costs, out);
    if (settings->threshold_rule == CST_THRESHOLD_ELBOW)
        return cst_elbow_threshold(context, out->similarity, view->members, &out->threshold,
                                   &found);
    return CST_OK;
}

cst_reason cst_reason_of_drop(cst_drop_reason reason) {
    switch (reason) {
    case CST_KEPT:
        return CST_REASON_KEPT;
    case CST_DROPPED_REDUNDANT:
        return CST_REASON_REDUNDANT;
    case CST_DROPPED_CONSTANT:
        return CST_REASON_CONSTANT;
    case CST_DROPPED_COUNT:
    case CST_DROPPED_COST:
        break;
    }
    return CST_REASON_CAP;
}

cst_status cst_redundant_members(cst_context *context, const cst_view *view, const int32_t *folds,
                                 int32_t fold_count, const cst_settings *settings,
                                 const cst_costs *costs, cst_stages *out) {
    int32_t members = view->members;
    cst_projection projection = {0};
    cst_status status = cst_stage(context, "risk of members");
    CST_THEN(cst_risk_all(context, view, out->risk));
    CST_THEN(cst_stage(context, "correlations"));
    CST_THEN(cst_pearson(context, view, out->pearson));
    out->threshold = NAN;
    cst_settings with = *settings;
    if (settings->measure == CST_MEASURE_NONE) {
        with.threshold = INFINITY; /* only caps speak; the similarity that explains is Pearson's */
        if (status == CST_OK)
            memcpy(out->similarity, out->pearson,
                   (size_t)members * (size_t)members * sizeof(double));
    } else {
        CST_THEN(cst_stage(context, "redundancy"));
        CST_THEN(similarity_of(context, view, settings, &out->cka, out->similarity));
        CST_THEN(choose_threshold(context, view, folds, fold_count, settings, costs, out));
        with.threshold = out->threshold;
    }
    if (status == CST_OK) {
        cst_projection_rule rule = cst_projection_rule_of(&with, members, costs, out->cka.constant);
        status = cst_project(context, out->similarity, members, out->risk, &rule, &projection);
    }
    out->kept_count = 0;
    for (int32_t k = 0; status == CST_OK && k < members; k++) {
        out->reason[k] = cst_reason_of_drop(projection.reason[k]);
        out->closest[k] = projection.partner[k];
        out->closest_value[k] = projection.similarity[k];
        if (out->reason[k] == CST_REASON_KEPT)
            out->kept[out->kept_count++] = k;
    }
    cst_projection_free(context, &projection);
    return status;
}
