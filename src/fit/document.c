/* The document of a fit, with the quantities of the paper's tables. */
#include "core/measurement.h"
#include "core/ranks.h"
#include "fit/family.h"
#include "report/scores.h"
#include "report/table.h"
#include "stats/samples.h"

#include <math.h>
#include <string.h>

CST_OWNED(cst_spectrum)
CST_OWNED(cst_standardised)

static const char *const REASON_NAMES[] = {"kept",      "redundant", "constant", "cap",
                                           "selection", "refit",     "blend"};

/* ---- member scores ---- */

typedef struct metrics_job {
    const cst_view *view;
    cst_metrics *out;
} metrics_job;

static cst_status metrics_task(cst_context *context, void *user, int64_t task) {
    const metrics_job *job = user;
    const float *pointer = NULL;
    CST_SCOPE(scope);
    CST_NEW(context, scope, int64_t, index, job->view->presence ? job->view->rows : 0);
    cst_view part = cst_view_predicted(job->view, (int32_t)task, index, &pointer);
    return cst_metrics_of(context, &part, 0, 0, false, &job->out[task]);
}

cst_status cst_member_metrics(cst_context *context, const cst_view *view, cst_metrics *out) {
    metrics_job job = {.view = view, .out = out};
    if (cst_ranks_worth(context, (double)view->rows * (double)view->classes))
        return cst_parallel_turns(context, view->members, metrics_task, &job);
    const cst_share filled = cst_share_tasks(out, view->members, sizeof *out);
    return cst_parallel_fill(context, view->members, metrics_task, &job, &filled, 1);
}

/* ---- shared parts ---- */

void cst_document_scores(cst_report *report, json_t *object, const cst_metrics *scores) {
    CST_PUT(report, object, CST_N("top1", scores->top1), CST_N("ece", scores->ece),
            CST_N("nll", scores->nll), CST_N("brier", scores->brier));
}

json_t *cst_document_member(cst_report *report, json_t *list, const cst_pool *pool, int32_t member,
                            const cst_reason *reason) {
    json_t *object = cst_report_add_object(report, list);
    CST_PUT(report, object, CST_S("name", cst_pool_member_name(pool, member)),
            CST_S("family", cst_pool_member_family(pool, member)));
    if (reason)
        cst_report_flag(report, object, "kept", reason[member] == CST_REASON_KEPT);
    return object;
}

void cst_document_cost(cst_report *report, json_t *object, const cst_pool *pool, int32_t member) {
    int32_t passes = cst_pool_member_ensemble(pool, member).passes;
    CST_PUT(report, object, CST_N("flops", passes * cst_pool_member_flops(pool, member)),
            CST_I("passes", passes));
}

void cst_document_members(cst_report *report, const cst_pool *pool, const cst_metrics *members,
                          const cst_reason *reason) {
    json_t *list = cst_report_list(report, cst_report_root(report), "members");
    for (int32_t k = 0; k < cst_pool_members(pool); k++) {
        json_t *member = cst_document_member(report, list, pool, k, reason);
        cst_document_scores(report, member, &members[k]);
        cst_document_cost(report, member, pool, k);
    }
}

/* A list of the names of members [count], or of those at `places` [count] of these. */
static void put_names(cst_report *report, json_t *object, const char *key, const cst_pool *pool,
                      const int32_t *members, const int32_t *places, int32_t count) {
    json_t *list = cst_report_list(report, object, key);
    for (int32_t j = 0; j < count; j++)
        cst_report_add_string(report, list,
                              cst_pool_member_name(pool, members[places ? places[j] : j]));
}

/* Those of an ascending set that another one has not, where there are some or `always`. */
static void put_others(cst_report *report, json_t *object, const char *key, bool always,
                       const cst_pool *pool, const int32_t *members, const int32_t *set,
                       int32_t count, const int32_t *other, int32_t other_count) {
    json_t *list = NULL;
    int32_t o = 0;
    for (int32_t j = 0; j < count; j++) {
        while (o < other_count && other[o] < set[j])
            o++;
        if (o < other_count && other[o] == set[j])
            continue;
        list = list ? list : cst_report_list(report, object, key);
        cst_report_add_string(report, list, cst_pool_member_name(pool, members[set[j]]));
    }
    if (always && !list)
        (void)cst_report_list(report, object, key);
}

/* A set of candidates: what it has more and less than the one before, and its members, unless they
 * are many. */
static void put_set(cst_report *report, json_t *object, const cst_fit_facts *facts,
                    const int32_t *set, int32_t size, const int32_t *before, int32_t before_size) {
    const cst_stages *s = facts->stages;
    put_others(report, object, "added", true, facts->pool, s->candidates, set, size, before,
               before_size);
    put_others(report, object, "removed", false, facts->pool, s->candidates, before, before_size,
               set, size);
    if (size <= CST_SET_LISTED)
        put_names(report, object, "members", facts->pool, s->candidates, set, size);
}

void cst_document_weights(cst_report *report, json_t *object, const char *key,
                          const cst_fit_facts *facts, const double *values, int32_t count) {
    json_t *weights = cst_report_object(report, object, key);
    for (int32_t j = 0; values && j < count; j++)
        cst_report_number(report, weights,
                          cst_pool_member_name(facts->pool, facts->stages->kept[j]), values[j]);
}

/* How CKA was computed. */
static void put_cka(cst_report *report, json_t *object, const cst_cka_result *cka,
                    const cst_settings *settings) {
    static const char *const estimators[] = {"auto", "exact", "nystrom", "probes", "sample"};
    int32_t landmarks = 0;
    double residual = 0;
    for (int32_t k = 0; k < cka->members; k++) {
        landmarks = cka->landmarks[k] > landmarks ? cka->landmarks[k] : landmarks;
        residual = fmax(residual, cka->residual[k]);
    }
    CST_PUT(report, object,
            CST_S("estimator", cka->members > 0 ? estimators[cka->estimator] : NULL),
            CST_S("statistic", settings->cka.statistic == CST_CKA_UNBIASED ? "unbiased" : "biased"),
            CST_I("rows", cka->rows), CST_N("standard_error", cka->standard_error),
            CST_I("landmarks_max", landmarks), CST_N("residual_max", residual));
    bool hashed = cka->estimated != NULL;
    cst_report_flag(report, object, "lsh", hashed);
    if (hashed) {
        CST_PUT(report, object, CST_I("lsh_tables", cka->lsh_tables),
                CST_I("lsh_bits", cka->lsh_bits), CST_I("pairs_proposed", cka->proposed),
                CST_I("pairs_computed", cka->computed), CST_N("recall", cka->recall),
                CST_I("recall_checked", cka->checked), CST_N("sketch_error", cka->sketch_error));
    }
}

void cst_findings_put(cst_report *report, const cst_pool *pool, const cst_findings *findings,
                      bool problems) {
    json_t *root = cst_report_root(report);
    json_t *list = cst_report_list(report, root, "findings");
    json_t *sentences = problems ? cst_report_list(report, root, "problems") : NULL;
    pool = cst_pool_whole(pool); /* findings are from before members were left out */
    for (size_t i = 0; findings && i < findings->count; i++) {
        const cst_finding *finding = &findings->list[i];
        json_t *object = cst_report_add_object(report, list);
        cst_report_string(report, object, "kind", finding->kind);
        json_t *members = cst_report_list(report, object, "members");
        for (int32_t k = 0; k < finding->count; k++)
            cst_report_add_string(report, members, cst_pool_member_name(pool, finding->members[k]));
        cst_report_string(report, object, "text", finding->text);
        if (problems)
            cst_report_add_string(report, sentences, finding->text);
    }
}

void cst_put_metric(cst_report *report, cst_metric_choice choice) {
    const cst_metric *metric = choice.metric;
    if (!metric)
        return;
    json_t *object = cst_report_object(report, cst_report_root(report), CST_METRIC_KEY);
    CST_PUT(report, object, CST_S("name", metric->name), CST_S("key", metric->shown.key),
            CST_S("label", metric->shown.label), CST_S("definition", metric->definition),
            CST_I("decimals", metric->shown.decimals), CST_N("scale", metric->shown.scale),
            CST_B("higher_is_better", metric->shown.higher_is_better));
    if (metric->argument && !choice.costs)
        cst_report_number(report, object, metric->argument, choice.argument);
}

/* ---- the parts of a fit ---- */

static void refit_sentence(const cst_stages *s, int32_t k, const char *loss, char *text,
                           size_t size) {
    int32_t others = s->refit_together[k] - 1;
    char with[64] = "";
    if (others > 0)
        (void)cst_snprintf(with, sizeof with, " and %d other%s with small weights", (int)others,
                           others == 1 ? "" : "s");
    (void)cst_snprintf(
        text, size,
        "without it%s the cross-fitted %s changes by %+.5f, less than one standard error", with,
        loss, s->refit_change[k]);
}

static void dropped_sentence(const cst_fit_facts *facts, int32_t k, char *text, size_t size) {
    const cst_stages *s = facts->stages;
    const char *to =
        s->closest[k] >= 0 ? cst_pool_member_name(facts->pool, s->closest[k]) : "nothing";
    const cst_family *family = facts->family;
    const char *measure =
        facts->settings->measure == CST_MEASURE_CKA ? "CKA" : "Pearson correlation";
    switch (s->reason[k]) {
    case CST_REASON_REDUNDANT:
        (void)cst_snprintf(text, size, "is redundant with %s (%s %.4f, threshold %.4f)", to,
                           measure, s->closest_value[k], s->threshold);
        break;
    case CST_REASON_CONSTANT:
        (void)cst_snprintf(text, size, "gives every sample the same prediction");
        break;
    case CST_REASON_CAP:
        (void)cst_snprintf(text, size,
                           "left out by the limits on number or cost; closest kept: %s (%s %.4f)",
                           to, measure, s->closest_value[k]);
        break;
    case CST_REASON_SELECTION:
        (void)cst_snprintf(text, size,
                           "not needed by the %s pool of %d members; closest kept: %s (%s %.4f)",
                           family->pool, (int)s->kept_count, to, measure, s->closest_value[k]);
        break;
    case CST_REASON_REFIT:
        refit_sentence(s, k, family->loss, text, size);
        break;
    case CST_REASON_BLEND:
        (void)cst_snprintf(text, size, "no meta-learner of the blend gives it a weight");
        break;
    case CST_REASON_KEPT:
        text[0] = '\0';
        break;
    }
}

static void put_outcomes(cst_report *report, const cst_fit_facts *facts) {
    const cst_stages *s = facts->stages;
    json_t *root = cst_report_root(report);
    CST_PUT(report, root, CST_I("models_in", s->members), CST_I("models_kept", s->kept_count));
    put_names(report, root, "kept", facts->pool, s->kept, NULL, s->kept_count);
    json_t *dropped = cst_report_list(report, root, "dropped");
    for (int32_t k = 0; k < s->members; k++) {
        if (s->reason[k] == CST_REASON_KEPT)
            continue;
        char text[512];
        dropped_sentence(facts, k, text, sizeof text);
        json_t *entry = cst_report_add_object(report, dropped);
        CST_PUT(report, entry, CST_S("name", cst_pool_member_name(facts->pool, k)),
                CST_S("because", REASON_NAMES[s->reason[k]]), CST_N("cka", s->closest_value[k]),
                CST_S("to",
                      s->closest[k] >= 0 ? cst_pool_member_name(facts->pool, s->closest[k]) : NULL),
                CST_S("text", text));
    }
}

static void put_redundancy(cst_report *report, const cst_fit_facts *facts) {
    static const char *const measures[] = {"cka", "pearson", "none"};
    static const char *const rules[] = {"threshold", "elbow", "cv"};
    json_t *object = cst_report_object(report, cst_report_root(report), "redundancy");
    CST_PUT(report, object, CST_S("measure", measures[facts->settings->measure]),
            CST_S("rule", rules[facts->settings->threshold_rule]),
            CST_N("threshold", facts->stages->threshold));
    put_cka(report, object, &facts->stages->cka, facts->settings);
}

static void put_path(cst_report *report, const cst_fit_facts *facts) {
    const cst_stages *s = facts->stages;
    json_t *root = cst_report_root(report);
    json_t *path = cst_report_list(report, root, "path");
    if (s->selection.members > 0) {
        const cst_select_step *step = &s->selection.path[s->selection.chosen];
        json_t *selection = cst_report_object(report, root, "selection");
        int32_t gone = s->selection.members - step->size;
        if (s->selection.by)
            cst_report_string(report, selection, "by", s->selection.by);
        cst_report_flag(report, selection, "distilled", s->selection.distilled);
        if (s->selection.distilled && gone > 0) {
            json_t *left_out = cst_report_object(report, selection, "left_out");
            CST_PUT(report, left_out, CST_I("count", gone), CST_I("of", s->selection.members),
                    CST_N("change", step->against_all), CST_N("se", step->against_all_se));
        }
    }
    for (int32_t i = 0; i < s->selection.members; i++) {
        const cst_select_step *step = &s->selection.path[i];
        json_t *entry = cst_report_add_object(report, path);
        CST_PUT(report, entry, CST_I("size", step->size), CST_N("loss", step->loss),
                CST_N("excess", step->excess), CST_N("excess_se", step->excess_se),
                CST_N("against_all", step->against_all),
                CST_N("against_all_se", step->against_all_se));
        for (int c = 0; c < CST_COST_COUNT; c++)
            cst_report_number(report, entry, cst_cost_key((cst_cost)c),
                              step->cost[c] > 0 ? step->cost[c] : NAN);
        CST_PUT(report, entry, CST_B("allowed", step->allowed),
                CST_B("chosen", i == s->selection.chosen));
        put_set(report, entry, facts, step->members, step->size, i ? step[-1].members : NULL,
                i ? step[-1].size : 0);
    }
}

/* What the kept members cost of what they may. */
static void put_budget(cst_report *report, const cst_fit_facts *facts) {
    const cst_stages *s = facts->stages;
    const cst_limits *limits = &facts->settings->limits;
    cst_costs costs = cst_training_costs(facts->source);
    json_t *budget = cst_report_object(report, cst_report_root(report), "budget");
    for (int c = 0; c < CST_COST_COUNT; c++) {
        json_t *object = cst_report_object(report, budget, cst_cost_key((cst_cost)c));
        CST_PUT(report, object,
                CST_N("used",
                      cst_cost_of(&costs, limits->parallel, (cst_cost)c, s->kept, s->kept_count)),
                CST_N("allowed", limits->most[c] > 0 ? limits->most[c] : NAN));
        if (c == CST_COST_LATENCY)
            cst_report_string(report, object, "as", limits->parallel ? "max" : "sum");
    }
}

static bool is_kept(const cst_stages *s, const cst_front_point *point) {
    bool same = point->size == s->kept_count;
    for (int32_t j = 0; same && j < point->size; j++)
        same = s->candidates[point->members[j]] == s->kept[j];
    return same;
}

/* Why there is no front against a cost; NULL where there is one. */
static const char *no_front(const cst_fit_facts *facts, cst_cost cost, char *text, size_t size) {
    cst_costs costs = cst_training_costs(facts->source);
    for (int32_t k = 0; k < facts->stages->members; k++)
        if (!costs.of[cost] || isnan(costs.of[cost][k])) {
            (void)cst_snprintf(text, size, "member '%.100s' has no %s",
                               cst_pool_member_name(facts->pool, k), cst_cost_key(cost));
            return text;
        }
    return facts->stages->front.count > 0 ? NULL : "members were not selected by held-out loss";
}

static void put_front(cst_report *report, const cst_fit_facts *facts) {
    const cst_stages *s = facts->stages;
    json_t *root = cst_report_root(report);
    put_budget(report, facts);
    json_t *front = cst_report_object(report, root, "front");
    json_t *points = cst_report_list(report, front, "points");
    for (int32_t i = 0; i < s->front.count; i++) {
        const cst_front_point *p = &s->front.point[i];
        json_t *entry = cst_report_add_object(report, points);
        CST_PUT(report, entry, CST_I("size", p->size), CST_N("loss", p->loss));
        for (int c = 0; c < CST_COST_COUNT; c++)
            cst_report_number(report, entry, cst_cost_key((cst_cost)c), p->cost[c]);
        json_t *best = cst_report_list(report, entry, "best_for");
        for (int c = 0; c < CST_COST_COUNT; c++)
            if (p->best[c])
                cst_report_add_string(report, best, cst_cost_key((cst_cost)c));
        cst_report_flag(report, entry, "kept", is_kept(s, p));
        put_set(report, entry, facts, p->members, p->size, i ? p[-1].members : NULL,
                i ? p[-1].size : 0);
    }
    json_t *missing = cst_report_list(report, front, "left_out");
    for (int c = 0; c < CST_COST_COUNT; c++) {
        char text[192];
        const char *why = no_front(facts, (cst_cost)c, text, sizeof text);
        if (!why)
            continue;
        json_t *entry = cst_report_add_object(report, missing);
        CST_PUT(report, entry, CST_S("cost", cst_cost_key((cst_cost)c)), CST_S("because", why));
    }
}

/* By learner m: the curvature of each fit without a fold. */
static void put_curvatures(cst_report *report, json_t *learner, const cst_meta_fit *fit,
                           int32_t m) {
    json_t *list = cst_report_list(report, learner, "folds");
    for (int32_t f = 1; f < fit->fold_fits; f++) {
        double active = fit->fold_fit[f].active[m];
        CST_PUT(report, cst_report_add_object(report, list),
                CST_N("half_logdet", fit->fold_fit[f].half_logdet[m]),
                CST_N("coefficients", active > 0 ? active : NAN));
    }
}

/* What a learned gate lets through: of all rows, and of those without each fold. */
static void put_gate(cst_report *report, const cst_fit_facts *facts) {
    const cst_meta_fit *fit = &facts->stages->fit;
    json_t *root = cst_report_root(report);
    if (fit->fold_fits == 0 || !fit->model->suppressed)
        return;
    json_t *gate = cst_report_object(report, root, "gate");
    cst_report_string(report, gate, "suppresses", fit->model->suppressed);
    json_t *list = cst_report_list(report, gate, "aggregators");
    for (int32_t a = 0; a < CST_AGGREGATORS; a++) {
        json_t *entry = cst_report_add_object(report, list);
        CST_PUT(report, entry, CST_S("name", cst_aggregator_name(a)),
                CST_N("passed", fit->fold_fit[0].passed[a]));
        json_t *folds = cst_report_list(report, entry, "folds");
        for (int32_t f = 1; f < fit->fold_fits; f++)
            cst_report_add_number(report, folds, fit->fold_fit[f].passed[a]);
    }
}

static void put_learners(cst_report *report, const cst_fit_facts *facts) {
    static const char *const rules[] = {"star", "cv", "gcv", "evidence"};
    static const char *const scales[] = {"mean", "sum"};
    static const char *const of[] = {"meta", "oof"};
    const cst_meta_fit *fit = &facts->stages->fit;
    json_t *root = cst_report_root(report);
    CST_PUT(report, root, CST_N("lambda", fit->lambda),
            CST_S("lambda_rule", rules[facts->settings->penalty_rule]),
            CST_S("lambda_scale", scales[facts->settings->penalty_scale]),
            CST_S("spectrum_of", of[facts->settings->spectrum_of]), CST_N("sigma2", fit->sigma2),
            CST_N("mp_edge", fit->mp_edge), CST_N("snr", fit->snr));
    json_t *learners = cst_report_list(report, root, "learners");
    for (int32_t m = 0; m < fit->learners; m++) {
        json_t *entry = cst_report_add_object(report, learners);
        CST_PUT(report, entry, CST_S("name", fit->name[m]), CST_N("nll", fit->nll[m]));
        if (facts->settings->blend.rule == CST_BLEND_LAPLACE)
            cst_report_number(report, entry, "loss", fit->loss[m]);
        CST_PUT(report, entry, CST_N("half_logdet", fit->half_logdet[m]),
                CST_N("weight", fit->weight[m]));
        if (facts->settings->blend.rule == CST_BLEND_LAPLACE && fit->fold_fits > 0)
            put_curvatures(report, entry, fit, m);
    }
    put_gate(report, facts);
    if (fit->alone.tried) {
        json_t *safety = cst_report_object(report, root, "safety");
        CST_PUT(report, safety, CST_B("pool_alone", fit->alone.used),
                CST_N("change", fit->alone.change), CST_N("se", fit->alone.se));
    }
    if (fit->class_wise.tried) {
        json_t *weights = cst_report_object(report, root, "class_wise");
        CST_PUT(report, weights, CST_B("used", fit->class_wise.used),
                CST_N("change", fit->class_wise.change), CST_N("se", fit->class_wise.se));
    }
    json_t *blend = cst_report_object(report, root, "blend");
    for (int32_t m = 0; m < fit->learners; m++)
        cst_report_number(report, blend, fit->name[m], fit->weight[m]);
}

/* Of one domain. */
static void put_domain(cst_report *report, json_t *list, const cst_domain_map *map, int32_t d) {
    double square = 0;
    for (int32_t c = 0; c < map->classes; c++) {
        double b = map->bias[(size_t)d * (size_t)map->classes + (size_t)c];
        square += b * b;
    }
    json_t *entry = cst_report_add_object(report, list);
    CST_PUT(report, entry, CST_S("domain", map->names[d]), CST_I("samples", map->rows[d]),
            CST_N("scale", map->scale[d]), CST_N("bias_norm", sqrt(square)),
            CST_N("nll_before", map->before[d]), CST_N("nll_after", map->after[d]));
}

json_t *cst_document_domains(cst_report *report, const cst_domain_map *map) {
    if (!map)
        return NULL;
    json_t *object = cst_report_object(report, cst_report_root(report), "domains");
    json_t *list = cst_report_list(report, object, "list");
    for (int32_t d = 0; d < map->count; d++)
        put_domain(report, list, map, d);
    return object;
}

void cst_document_nested(cst_report *report, json_t *oof, bool nested) {
    cst_report_flag(report, oof, "nested", nested);
    if (!nested)
        cst_report_string(report, oof, "why",
                          "not computed, because evaluate.nested is false; the scores of members "
                          "and the held-out losses of the path are out-of-fold");
}

/* FLOPs of the kept members over those of all; NaN unless every member's are known. */
static double relative_flops(const cst_fit_facts *facts) {
    double all = 0;
    double kept = 0;
    for (int32_t k = 0; k < facts->stages->members; k++) {
        all += facts->source->flops[k];
        kept += facts->stages->reason[k] == CST_REASON_KEPT ? facts->source->flops[k] : 0;
    }
    return all > 0 ? kept / all : NAN;
}

void cst_document_without(cst_report *report, const cst_fit_facts *facts) {
    const json_t *list = json_object_get(cst_report_root(report), "members");
    size_t members = (size_t)facts->source->view.members;
    for (size_t k = 0; facts->without && k < json_array_size(list); k++) {
        bool kept = facts->stages->reason[k] == CST_REASON_KEPT;
        CST_PUT(report, json_array_get(list, k),
                CST_N("loss_without", kept ? facts->without[k] : NAN),
                CST_N("loss_without_se", kept ? facts->without[members + k] : NAN));
    }
}

void cst_document_comparison(cst_report *report, const cst_fit_facts *facts, const char *loss,
                             cst_put_scores_fn *put) {
    json_t *list = facts->compared_count > 0
                       ? cst_report_list(report, cst_report_root(report), "comparison")
                       : NULL;
    for (int32_t i = 0; i < facts->compared_count; i++) {
        const cst_compared *c = &facts->compared[i];
        json_t *object = cst_report_add_object(report, list);
        CST_PUT(
            report, object, CST_S("method", c->name),
            CST_S("member", c->member >= 0 ? cst_pool_member_name(facts->pool, c->member) : NULL),
            CST_I("models", c->members), CST_N("flops_rel", c->flops_rel));
        put(report, object, c->scores);
        CST_PUT(report, object, CST_S("loss", loss), CST_N("difference", c->difference),
                CST_N("se", c->se), CST_N("p", c->p), CST_N("p_adjusted", c->p_adjusted),
                CST_S("verdict", !(c->p_adjusted < CST_SIGNIFICANT) ? "no clear difference"
                                 : c->difference > 0                ? "worse"
                                                                    : "better"));
    }
}

static void put_costs(cst_report *report, const cst_fit_facts *facts) {
    const cst_stages *s = facts->stages;
    json_t *root = cst_report_root(report);
    cst_report_number(report, root, "flops_rel", relative_flops(facts));
    json_t *seconds = cst_report_object(report, root, "seconds");
    CST_PUT(report, seconds, CST_N("read", facts->source->seconds_read),
            CST_N("cka", s->seconds_redundancy), CST_N("select", s->seconds_select),
            CST_N("gate", s->fit.seconds_gate), CST_N("ridge", s->fit.seconds_ridge),
            CST_N("blend", s->fit.seconds_blend), CST_N("drop", s->seconds_drop));
    if (s->domain.tried)
        cst_report_number(report, seconds, "domains", s->seconds_domain);
    CST_PUT(report, seconds, CST_N("nested", facts->seconds_nested),
            CST_N("total", facts->seconds_total));
    cst_report_integer(report, root, "peak_rss_bytes", cst_peak_resident());
}

/* The value that is decided for is offset + slope * value + deviations * standard deviation. */
static void put_aim(cst_report *report, cst_metric_aim aim, const cst_model *model, double gain) {
    json_t *object = cst_report_object(report, cst_report_root(report), "decision");
    const char *by = aim == CST_METRIC_MEAN ? "mean over residuals" : "quantile";
    CST_PUT(report, object, CST_S("by", model->aim ? by : "prediction"), CST_N("gain", gain));
    if (!model->aim || model->aim->residuals > 0)
        return;
    static const char *const keys[CST_AIM_COLUMNS] = {"offsets", "slopes", "deviations"};
    for (int k = 0; k < CST_AIM_COLUMNS; k++) {
        json_t *list = cst_report_list(report, object, keys[k]);
        for (int32_t d = 0; d < model->classes; d++) {
            const double *numbers = model->aim->numbers + d * CST_AIM_COLUMNS;
            double location = model->values->scaling.location[d];
            double offset =
                location * (1 - numbers[1]) + model->values->scaling.scale[d] * numbers[0];
            cst_report_add_number(report, list, k == 0 ? offset : numbers[k]);
        }
    }
}

void cst_put_decision(cst_report *report, cst_metric_choice metric, const cst_model *model,
                      double gain) {
    const cst_decision *decision = model->decision;
    cst_metric_aim aim = cst_metric_aim_of(metric, model->transform != NULL, NULL);
    if (aim != CST_METRIC_AS_IT_IS)
        put_aim(report, aim, model, gain);
    if (!cst_metric_decides(metric))
        return;
    json_t *object = cst_report_object(report, cst_report_root(report), "decision");
    CST_PUT(report, object,
            CST_S("by", decision ? decision->costs ? "costs" : "offsets" : "largest probability"),
            CST_N("gain", gain));
    if (decision && decision->offsets)
        cst_report_numbers(report, object, "offsets", decision->offsets, decision->classes);
}

/* The metric of the stack and of each member, and what decisions for it gain. */
static void put_own_metric(cst_report *report, const cst_fit_facts *facts) {
    const cst_metric *metric = facts->metric.metric;
    json_t *root = cst_report_root(report);
    cst_put_decision(report, facts->metric, facts->stages->fit.model, facts->gain);
    if (!cst_metric_is_more(metric)) /* it is one of the scores */
        return;
    char key[64];
    const double ends[2] = {facts->oof_metric.low, facts->oof_metric.high};
    json_t *oof = json_object_get(root, "oof");
    (void)cst_snprintf(key, sizeof key, "%s_ci", metric->shown.key);
    if (facts->oof)
        cst_report_number(report, oof, metric->shown.key, facts->oof_metric.value);
    if (facts->oof)
        cst_report_numbers(report, oof, key, ends, 2);
    json_t *members = json_object_get(root, "members");
    for (int32_t k = 0; facts->of_members && k < facts->stages->members; k++)
        cst_report_number(report, json_array_get(members, (size_t)k), metric->shown.key,
                          facts->of_members[k]);
}

static cst_status put_condition(cst_context *context, cst_report *report, const cst_stages *s) {
    json_t *root = cst_report_root(report);
    double gram[2];
    double cka[2]; /* NaN where S1 has not computed it */
    CST_TRY(cst_gram_kappa(context, s->pearson, s->members, NULL, 0, &gram[0]));
    CST_TRY(cst_gram_kappa(context, s->pearson, s->members, s->kept, s->kept_count, &gram[1]));
    CST_TRY(cst_cka_kappa(context, &s->cka, NULL, 0, &cka[0]));
    CST_TRY(cst_cka_kappa(context, &s->cka, s->kept, s->kept_count, &cka[1]));
    CST_PUT(report, root, CST_N("kappa_gram_before", gram[0]), CST_N("kappa_gram_after", gram[1]),
            CST_N("kappa_cka_before", cka[0]), CST_N("kappa_cka_after", cka[1]));
    return CST_OK;
}

static cst_status put_fit(cst_context *context, cst_report *report, const cst_fit_facts *facts) {
    const cst_family *family = facts->family;
    const cst_view *view = &facts->source->view;
    json_t *root = cst_report_root(report);
    if (family->task)
        cst_report_string(report, root, "task", family->task);
    CST_PUT(report, root, CST_S("model", NULL),
            CST_S("preset", cst_options_preset_name(facts->options)),
            CST_I("seed", (int64_t)facts->settings->seed), CST_I("samples", view->rows));
    cst_put_metric(report, facts->metric);
    if (view->weights)
        cst_report_number(report, root, "effective_samples", cst_view_effective_rows(view));
    if (!family->task || view->listed_of)
        cst_report_integer(report, root, "classes",
                           view->listed_of ? view->listed_of : view->classes);
    cst_report_string(report, root, "pool_hash",
                      cst_model_value(facts->stages->fit.model, "split.pool"));
    json_t *folds = cst_report_object(report, root, "folds");
    CST_PUT(report, folds,
            CST_I("count", facts->source->fold_count - cst_training_first(facts->source)),
            CST_S("source", cst_training_folds_source(facts->source)));
    put_outcomes(report, facts);
    family->put_members(report, facts);
    put_redundancy(report, facts);
    put_path(report, facts);
    put_front(report, facts);
    CST_TRY(put_condition(context, report, facts->stages));
    put_learners(report, facts);
    family->put_own(report, facts);
    put_own_metric(report, facts);
    cst_document_cascade(report, facts->stages->fit.model);
    put_costs(report, facts);
    if (facts->noise)
        cst_document_noise(report, facts->pool, facts->split, facts->source, facts->noise);
    cst_findings_put(report, facts->pool, facts->findings, false);
    cst_report_notices(report, context);
    return cst_report_finish(context, report);
}

cst_status cst_fit_document(cst_context *context, const cst_fit_facts *facts, cst_report **out) {
    CST_TRY(cst_report_begin(context, CST_REPORT_FIT, out));
    cst_status status = put_fit(context, *out, facts);
    if (status != CST_OK) {
        cst_report_free(context, *out);
        *out = NULL;
    }
    return status;
}

/* ---- an inspection ---- */

void cst_document_clusters(cst_report *report, const cst_pool *pool, const int32_t *cluster_of) {
    json_t *clusters = cst_report_list(report, cst_report_root(report), "clusters");
    int32_t members = (int32_t)cst_pool_members(pool);
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

cst_status cst_document_similarity(cst_context *context, cst_report *report, const cst_pool *pool,
                                   const cst_settings *settings, const cst_cka_result *cka,
                                   const double *pearson) {
    int32_t members = cka->members;
    json_t *root = cst_report_root(report);
    double kappa[2] = {NAN, NAN};
    double elbow = NAN;
    bool found = false;
    CST_SCOPE(scope);
    CST_NEW(context, scope, int32_t, cluster_of, members);
    CST_TRY(cst_gram_kappa(context, pearson, members, NULL, 0, &kappa[0]));
    CST_TRY(cst_cka_kappa(context, cka, NULL, 0, &kappa[1]));
    CST_TRY(cst_elbow_threshold(context, cka->cka, members, &elbow, &found));
    double threshold =
        settings->threshold_rule == CST_THRESHOLD_ELBOW && found ? elbow : settings->threshold;
    CST_TRY(cst_clusters(context, cka->cka, members, threshold, cluster_of));
    cst_report_matrix(report, root, "cka", cka->cka, members, members);
    cst_report_matrix(report, root, "pearson", pearson, members, members);
    cst_document_clusters(report, pool, cluster_of);
    cst_report_number(report, root, "cluster_threshold", threshold);
    put_cka(report, cst_report_object(report, root, "cka_info"), cka, settings);
    CST_PUT(report, root, CST_N("elbow", found ? elbow : NAN), CST_N("kappa_gram", kappa[0]),
            CST_N("kappa_cka", kappa[1]));
    return CST_OK;
}

cst_status cst_document_spectrum(cst_context *context, cst_report *report, json_t *object,
                                 const cst_moments *moments, const cst_spectrum_members *members,
                                 const cst_settings *settings) {
    static const char *const of[] = {"meta", "oof"};
    cst_standardised standardised = {0};
    cst_spectrum spectra[2] = {0}; /* in the order of cst_spectrum_of */
    cst_penalties penalties = {0};
    cst_penalty_grid grid = cst_penalty_grid_default();
    CST_SCOPE(scope);
    CST_OWN(context, scope, cst_standardised, &standardised);
    CST_OWN(context, scope, cst_spectrum, &spectra[0]);
    CST_OWN(context, scope, cst_spectrum, &spectra[1]);
    CST_TRY(cst_standardise(context, moments, -1, &standardised));
    CST_TRY(cst_spectrum_compute(context, &standardised, settings->noise_rule, &spectra[0]));
    CST_TRY(cst_spectrum_of_members(context, &standardised, members, settings->noise_rule,
                                    &spectra[1]));
    CST_TRY(cst_penalties_compute(context, moments, &standardised, &spectra[0], &grid, &penalties));
    const cst_spectrum *shown = &spectra[settings->spectrum_of];
    cst_report_string(report, object, "spectrum_of", of[settings->spectrum_of]);
    cst_report_numbers(report, object, "eigenvalues", shown->values, shown->columns);
    CST_PUT(report, object, CST_N("sigma2", shown->sigma2), CST_N("mp_edge", shown->mp_edge),
            CST_N("snr", shown->snr));
    json_t *lambda = cst_report_object(report, object, "lambda");
    CST_PUT(report, lambda,
            CST_N("star", cst_penalty_of_star(shown->lambda_star, settings->penalty_scale,
                                              standardised.rows)),
            CST_N("cv", penalties.cv), CST_N("gcv", penalties.gcv),
            CST_N("evidence", penalties.evidence));
    json_t *star = cst_report_object(report, object, "lambda_star");
    for (int i = 1; i >= 0; i--)
        cst_report_number(report, star, of[i], spectra[i].lambda_star);
    return CST_OK;
}

cst_status cst_document_no_spectrum(cst_context *context, cst_report *report, json_t *object,
                                    cst_status status) {
    if (status != CST_ERROR_INPUT && status != CST_ERROR_NUMERIC && status != CST_ERROR_LIMIT)
        return status;
    cst_notice(context, "the spectrum is not reported: %s", cst_last_error(context));
    cst_report_numbers(report, object, "eigenvalues", NULL, 0);
    (void)cst_report_object(report, object, "lambda");
    return CST_OK;
}
