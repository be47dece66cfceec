/* Stage S1 inside the pipeline: similarity by CKA or Pearson, the threshold by its rule, the
 * projection. Paper: section "Kernelized Redundancy Projection using CKA". */
#include "fit/family.h"

#include <math.h>
#include <string.h>

CST_OWNED(cst_projection)

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

cst_projection_rule cst_projection_rule_of(const cst_run *run, const bool *constant) {
    const cst_settings *settings = run->settings;
    int32_t members = run->view->members;
    int32_t cap = cst_count_cap(settings, members);
    cst_projection_rule rule = {
        .tau = settings->threshold,
        .costs = *run->costs,
        .constant = constant,
        .cap_count = !settings->select && cap < members ? cap : 0,
        /* Selection weighs what members cost: before it only equal ones go. */
        .equal_only = settings->select && cst_limited(&settings->limits),
        .keep_ties = settings->keep_ties};
    if (!settings->select)
        rule.limits = settings->limits;
    return rule;
}

static cst_status threshold_by_cv(cst_context *context, const cst_run *run, cst_stages *out) {
    double taus[CANDIDATES_MAX];
    int32_t count = 0;
    int32_t chosen = 0;
    int32_t best = 0;
    cst_projection_rule rule = cst_projection_rule_of(run, out->cka.constant);
    CST_SCOPE(scope);
    CST_TRY(cst_threshold_candidates(context, out->similarity, out->members, out->risk, &rule,
                                     CANDIDATES_MAX, taus, &count));
    CST_NEW(context, scope, double, loss, ((size_t)count * (size_t)run->fold_count));
    CST_TRY(run->family->judge(context, run, out, taus, count, loss));
    CST_TRY(cst_threshold_cv(context, loss, count, run->fold_count, &chosen, &best));
    out->threshold = taus[chosen];
    return CST_OK;
}

/* NaN: only caps speak; the similarity that explains is Pearson's. */
static cst_status choose_threshold(cst_context *context, const cst_run *run, cst_stages *out) {
    bool found = true;
    bool none = run->settings->measure == CST_MEASURE_NONE;
    out->threshold = none ? NAN : run->settings->threshold;
    if (!none && run->settings->threshold_rule == CST_THRESHOLD_CV)
        return threshold_by_cv(context, run, out);
    if (!none && run->settings->threshold_rule == CST_THRESHOLD_ELBOW)
        return cst_elbow_threshold(context, out->similarity, out->members, &out->threshold, &found);
    return CST_OK;
}

static bool leads(const cst_stages *stages, int32_t k) {
    return !stages->leading || stages->leading[k];
}

cst_status cst_redundant_members(cst_context *context, const cst_run *run, cst_stages *out) {
    static const cst_reason reasons[] = {[CST_KEPT] = CST_REASON_KEPT,
                                         [CST_DROPPED_REDUNDANT] = CST_REASON_REDUNDANT,
                                         [CST_DROPPED_CONSTANT] = CST_REASON_CONSTANT,
                                         [CST_DROPPED_COUNT] = CST_REASON_CAP,
                                         [CST_DROPPED_COST] = CST_REASON_CAP};
    int32_t members = out->members;
    size_t cells = (size_t)members * (size_t)members;
    bool cka = run->settings->measure == CST_MEASURE_CKA;
    cst_projection projection = {0};
    CST_SCOPE(scope);
    CST_TRY(cst_stage(context, "redundancy"));
    if (cka)
        CST_TRY(run->family->cka(context, run, &out->cka));
    memcpy(out->similarity, cka ? out->cka.cka : out->pearson, cells * sizeof *out->similarity);
    CST_TRY(choose_threshold(context, run, out));
    const double *similarity = out->similarity;
    if (run->family->bound) {
        double *lowered;
        CST_TAKE(context, scope, lowered, cells);
        memcpy(lowered, similarity, cells * sizeof *lowered);
        run->family->bound(run, lowered);
        similarity = lowered;
    }
    cst_projection_rule rule = cst_projection_rule_of(run, out->cka.constant);
    rule.tau = isnan(out->threshold) ? INFINITY : out->threshold;
    CST_OWN(context, scope, cst_projection, &projection);
    CST_NEW(context, scope, double, risk, members);
    for (int32_t k = 0; k < members; k++)
        risk[k] = leads(out, k) ? out->risk[k] : INFINITY;
    CST_TRY(cst_project(context, similarity, members, risk, &rule, &projection));
    out->kept_count = 0;
    for (int32_t k = 0; k < members; k++) {
        int32_t partner = projection.partner[k];
        out->reason[k] = reasons[projection.reason[k]];
        out->closest[k] = partner;
        out->closest_value[k] =
            partner >= 0 ? out->similarity[k * members + partner] : projection.similarity[k];
        if (out->reason[k] == CST_REASON_KEPT && !leads(out, k))
            out->reason[k] = CST_REASON_SELECTION;
        if (out->reason[k] == CST_REASON_KEPT)
            out->kept[out->kept_count++] = k;
    }
    return CST_OK;
}
