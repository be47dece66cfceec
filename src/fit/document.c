/* The document of a fit, with the quantities of the paper's tables. */
#include "fit/document.h"
#include "core/measured.h"
#include "core/ranks.h"
#include "fit/findings.h"
#include "stats/samples.h"

#include <math.h>
#include <string.h>

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
    int64_t *index =
        cst_alloc(context, job->view->presence ? (size_t)job->view->rows : 0, sizeof *index);
    if (!index)
        return CST_ERROR_MEMORY;
    cst_view part = cst_view_predicted(job->view, (int32_t)task, index, &pointer);
    cst_status status = cst_metrics_of(context, &part, 0, 0, false, &job->out[task]);
    cst_free(context, index);
    return status;
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
    cst_report_number(report, object, "top1", scores->top1);
    cst_report_number(report, object, "ece", scores->ece);
    cst_report_number(report, object, "nll", scores->nll);
    cst_report_number(report, object, "brier", scores->brier);
}

json_t *cst_document_member(cst_report *report, json_t *list, const cst_pool *pool, int32_t member,
                            const cst_reason *reason) {
    json_t *object = cst_report_add_object(report, list);
    cst_report_string(report, object, "name", cst_pool_member_name(pool, member));
    cst_report_string(report, object, "family", cst_pool_member_family(pool, member));
    if (reason)
        cst_report_flag(report, object, "kept", reason[member] == CST_REASON_KEPT);
    return object;
}

void cst_document_cost(cst_report *report, json_t *object, const cst_pool *pool, int32_t member) {
    int32_t passes = cst_pool_member_ensemble(pool, member).passes;
    cst_report_number(report, object, "flops", passes * cst_pool_member_flops(pool, member));
    cst_report_integer(report, object, "passes", passes);
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

void cst_document_cka(cst_report *report, json_t *object, const cst_cka_result *cka,
                      const cst_settings *settings) {
    static const char *const estimators[] = {"auto", "exact", "nystrom", "probes", "sample"};
    int32_t landmarks = 0;
    double residual = 0;
    for (int32_t k = 0; k < cka->members; k++) {
        landmarks = cka->landmarks[k] > landmarks ? cka->landmarks[k] : landmarks;
        residual = fmax(residual, cka->residual[k]);
    }
    cst_report_string(report, object, "estimator",
                      cka->members > 0 ? estimators[cka->estimator] : NULL);
    cst_report_string(report, object, "statistic",
                      settings->cka.statistic == CST_CKA_UNBIASED ? "unbiased" : "biased");
    cst_report_integer(report, object, "rows", cka->rows);
    cst_report_number(report, object, "standard_error", cka->standard_error);
    cst_report_integer(report, object, "landmarks_max", landmarks);
    cst_report_number(report, object, "residual_max", residual);
    bool hashed = cka->estimated != NULL;
    cst_report_flag(report, object, "lsh", hashed);
    if (hashed) {
        cst_report_integer(report, object, "lsh_tables", cka->lsh_tables);
        cst_report_integer(report, object, "lsh_bits", cka->lsh_bits);
        cst_report_integer(report, object, "pairs_proposed", cka->proposed);
        cst_report_integer(report, object, "pairs_computed", cka->computed);
        cst_report_number(report, object, "recall", cka->recall);
        cst_report_integer(report, object, "recall_checked", cka->checked);
        cst_report_number(report, object, "sketch_error", cka->sketch_error);
    }
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
    bool values = cst_pool_task(facts->pool) == CST_TASK_REGRESSION;
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
        (void)cst_snprintf(
            text, size,
            "exceeds the limit on members, FLOPs or latency; closest kept: %s (%s %.4f)", to,
            measure, s->closest_value[k]);
        break;
    case CST_REASON_SELECTION:
        (void)cst_snprintf(
            text, size, "not needed by the %s pool of %d members; closest kept: %s (%s %.4f)",
            values ? "linear" : "log-linear", (int)s->kept_count, to, measure, s->closest_value[k]);
        break;
    case CST_REASON_REFIT:
        refit_sentence(s, k, values ? "squared error" : "NLL", text, size);
        break;
    case CST_REASON_BLEND:
        (void)cst_snprintf(text, size, "no meta-learner of the blend gives it a weight");
        break;
    case CST_REASON_KEPT:
        text[0] = '\0';
        break;
    }
}

void cst_document_outcomes(cst_report *report, const cst_fit_facts *facts) {
    const cst_stages *s = facts->stages;
    json_t *root = cst_report_root(report);
    cst_report_integer(report, root, "models_in", s->members);
    cst_report_integer(report, root, "models_kept", s->kept_count);
    json_t *kept = cst_report_list(report, root, "kept");
    for (int32_t j = 0; j < s->kept_count; j++)
        cst_report_add_string(report, kept, cst_pool_member_name(facts->pool, s->kept[j]));
    json_t *dropped = cst_report_list(report, root, "dropped");
    for (int32_t k = 0; k < s->members; k++) {
        if (s->reason[k] == CST_REASON_KEPT)
            continue;
        char text[512];
        dropped_sentence(facts, k, text, sizeof text);
        json_t *entry = cst_report_add_object(report, dropped);
        cst_report_string(report, entry, "name", cst_pool_member_name(facts->pool, k));
        cst_report_string(report, entry, "because", REASON_NAMES[s->reason[k]]);
        cst_report_number(report, entry, "cka", s->closest_value[k]);
        cst_report_string(report, entry, "to",
                          s->closest[k] >= 0 ? cst_pool_member_name(facts->pool, s->closest[k])
                                             : NULL);
        cst_report_string(report, entry, "text", text);
    }
}

void cst_document_redundancy(cst_report *report, const cst_fit_facts *facts) {
    static const char *const measures[] = {"cka", "pearson", "none"};
    static const char *const rules[] = {"threshold", "elbow", "cv"};
    json_t *object = cst_report_object(report, cst_report_root(report), "redundancy");
    cst_report_string(report, object, "measure", measures[facts->settings->measure]);
    cst_report_string(report, object, "rule", rules[facts->settings->threshold_rule]);
    cst_report_number(report, object, "threshold", facts->stages->threshold);
    cst_document_cka(report, object, &facts->stages->cka, facts->settings);
}

void cst_document_path(cst_report *report, const cst_fit_facts *facts) {
    const cst_stages *s = facts->stages;
    json_t *path = cst_report_list(report, cst_report_root(report), "path");
    for (int32_t i = 0; i < s->selection.members; i++) {
        const cst_select_step *step = &s->selection.path[i];
        json_t *entry = cst_report_add_object(report, path);
        cst_report_integer(report, entry, "size", step->size);
        cst_report_number(report, entry, "loss", step->loss);
        cst_report_number(report, entry, "excess", step->excess);
        cst_report_number(report, entry, "excess_se", step->excess_se);
        cst_report_number(report, entry, "against_all", step->against_all);
        cst_report_number(report, entry, "against_all_se", step->against_all_se);
        for (int c = 0; c < CST_COST_COUNT; c++)
            cst_report_number(report, entry, cst_cost_key((cst_cost)c),
                              step->cost[c] > 0 ? step->cost[c] : NAN);
        cst_report_flag(report, entry, "allowed", step->allowed);
        cst_report_flag(report, entry, "chosen", i == s->selection.chosen);
        json_t *members = cst_report_list(report, entry, "members");
        for (int32_t j = 0; j < step->size; j++)
            cst_report_add_string(
                report, members,
                cst_pool_member_name(facts->pool, s->candidates[step->members[j]]));
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
        cst_report_number(
            report, object, "used",
            cst_cost_of(&costs, limits->parallel, (cst_cost)c, s->kept, s->kept_count));
        cst_report_number(report, object, "allowed", limits->most[c] > 0 ? limits->most[c] : NAN);
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

void cst_document_front(cst_report *report, const cst_fit_facts *facts) {
    const cst_stages *s = facts->stages;
    json_t *root = cst_report_root(report);
    put_budget(report, facts);
    json_t *front = cst_report_object(report, root, "front");
    json_t *points = cst_report_list(report, front, "points");
    for (int32_t i = 0; i < s->front.count; i++) {
        const cst_front_point *p = &s->front.point[i];
        json_t *entry = cst_report_add_object(report, points);
        cst_report_integer(report, entry, "size", p->size);
        cst_report_number(report, entry, "loss", p->loss);
        for (int c = 0; c < CST_COST_COUNT; c++)
            cst_report_number(report, entry, cst_cost_key((cst_cost)c), p->cost[c]);
        json_t *best = cst_report_list(report, entry, "best_for");
        for (int c = 0; c < CST_COST_COUNT; c++)
            if (p->best[c])
                cst_report_add_string(report, best, cst_cost_key((cst_cost)c));
        cst_report_flag(report, entry, "kept", is_kept(s, p));
        json_t *members = cst_report_list(report, entry, "members");
        for (int32_t j = 0; j < p->size; j++)
            cst_report_add_string(report, members,
                                  cst_pool_member_name(facts->pool, s->candidates[p->members[j]]));
    }
    json_t *missing = cst_report_list(report, front, "left_out");
    for (int c = 0; c < CST_COST_COUNT; c++) {
        char text[192];
        const char *why = no_front(facts, (cst_cost)c, text, sizeof text);
        if (!why)
            continue;
        json_t *entry = cst_report_add_object(report, missing);
        cst_report_string(report, entry, "cost", cst_cost_key((cst_cost)c));
        cst_report_string(report, entry, "because", why);
    }
}

static void put_learners(cst_report *report, const cst_fit_facts *facts) {
    static const char *const rules[] = {"star", "cv", "gcv", "evidence"};
    static const char *const of[] = {"meta", "oof"};
    const cst_meta_fit *fit = &facts->stages->fit;
    json_t *root = cst_report_root(report);
    cst_report_number(report, root, "lambda", fit->lambda);
    cst_report_string(report, root, "lambda_rule", rules[facts->settings->penalty_rule]);
    cst_report_string(report, root, "spectrum_of", of[facts->settings->spectrum_of]);
    cst_report_number(report, root, "sigma2", fit->sigma2);
    cst_report_number(report, root, "mp_edge", fit->mp_edge);
    cst_report_number(report, root, "snr", fit->snr);
    json_t *learners = cst_report_list(report, root, "learners");
    for (int32_t m = 0; m < fit->learners; m++) {
        json_t *entry = cst_report_add_object(report, learners);
        cst_report_string(report, entry, "name", fit->name[m]);
        cst_report_number(report, entry, "nll", fit->nll[m]);
        if (facts->settings->blend.rule == CST_BLEND_LAPLACE)
            cst_report_number(report, entry, "loss", fit->loss[m]);
        cst_report_number(report, entry, "half_logdet", fit->half_logdet[m]);
        cst_report_number(report, entry, "weight", fit->weight[m]);
    }
    json_t *blend = cst_report_object(report, root, "blend");
    for (int32_t m = 0; m < fit->learners; m++)
        cst_report_number(report, blend, fit->name[m], fit->weight[m]);
    json_t *weights = cst_report_object(report, root, "weights");
    const cst_learner *pool = cst_model_pool(fit->model);
    for (int32_t j = 0; pool && j < pool->coefficients; j++)
        cst_report_number(report, weights,
                          cst_pool_member_name(facts->pool, facts->stages->kept[j]),
                          pool->weights[j]);
}

/* How members are mixed with the uniform distribution in the log-linear pool. */
static void put_mixing(cst_report *report, const cst_fit_facts *facts) {
    const cst_meta_fit *fit = &facts->stages->fit;
    const cst_model *model = fit->model;
    json_t *mixing = cst_report_object(report, cst_report_root(report), "mixing");
    cst_report_number(report, mixing, "share", fit->share > 0 ? fit->share : NAN);
    json_t *members = cst_report_object(report, mixing, "members");
    for (int32_t m = 0; m < model->learners; m++)
        for (int32_t j = 0; model->learner[m].kind == CST_LEARNER_LOGLINEAR &&
                            !model->learner[m].own && j < model->members;
             j++)
            cst_report_number(report, members,
                              cst_pool_member_name(facts->pool, facts->stages->kept[j]),
                              model->mix[j]);
}

/* Of one domain. */
static void put_domain(cst_report *report, json_t *list, const cst_domain_map *map, int32_t d) {
    double square = 0;
    for (int32_t c = 0; c < map->classes; c++) {
        double b = map->bias[(size_t)d * (size_t)map->classes + (size_t)c];
        square += b * b;
    }
    json_t *entry = cst_report_add_object(report, list);
    cst_report_string(report, entry, "domain", map->names[d]);
    cst_report_integer(report, entry, "samples", map->rows[d]);
    cst_report_number(report, entry, "scale", map->scale[d]);
    cst_report_number(report, entry, "bias_norm", sqrt(square));
    cst_report_number(report, entry, "nll_before", map->before[d]);
    cst_report_number(report, entry, "nll_after", map->after[d]);
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

static void put_domains(cst_report *report, const cst_fit_facts *facts) {
    const cst_domain_layer *layer = &facts->stages->domain;
    if (!layer->tried)
        return;
    json_t *object = cst_document_domains(report, layer->map);
    cst_report_flag(report, object, "used", layer->used);
    cst_report_number(report, object, "nll_before", layer->before);
    cst_report_number(report, object, "nll_after", layer->after);
    cst_report_number(report, object, "se", layer->se);
}

void cst_document_nested(cst_report *report, json_t *oof, bool nested) {
    cst_report_flag(report, oof, "nested", nested);
    if (!nested)
        cst_report_string(report, oof, "why",
                          "not computed, because evaluate.nested is false; the scores of members "
                          "and the held-out losses of the path are out-of-fold");
}

static void put_oof(cst_report *report, const cst_fit_facts *facts) {
    static const cst_metrics unknown = {.top1 = NAN, .ece = NAN, .nll = NAN, .brier = NAN};
    json_t *root = cst_report_root(report);
    json_t *oof = cst_report_object(report, root, "oof");
    cst_document_scores(report, oof, facts->oof ? facts->oof : &unknown);
    cst_document_nested(report, oof, facts->oof != NULL);
    cst_report_string(report, root, "ece_definition", cst_metric_definition("ece"));
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

void cst_document_costs(cst_report *report, const cst_fit_facts *facts) {
    const cst_stages *s = facts->stages;
    json_t *root = cst_report_root(report);
    cst_report_number(report, root, "flops_rel", relative_flops(facts));
    json_t *seconds = cst_report_object(report, root, "seconds");
    cst_report_number(report, seconds, "read", facts->source->seconds_read);
    cst_report_number(report, seconds, "cka", s->seconds_redundancy);
    cst_report_number(report, seconds, "select", s->seconds_select);
    cst_report_number(report, seconds, "gate", s->fit.seconds_gate);
    cst_report_number(report, seconds, "ridge", s->fit.seconds_ridge);
    cst_report_number(report, seconds, "blend", s->fit.seconds_blend);
    cst_report_number(report, seconds, "drop", s->seconds_drop);
    if (s->domain.tried)
        cst_report_number(report, seconds, "domains", s->seconds_domain);
    cst_report_number(report, seconds, "nested", facts->seconds_nested);
    cst_report_number(report, seconds, "total", facts->seconds_total);
    cst_report_integer(report, root, "peak_rss_bytes", cst_peak_resident());
}

cst_status cst_document_condition(cst_context *context, cst_report *report, const cst_stages *s) {
    json_t *root = cst_report_root(report);
    double gram[2];
    double cka[2]; /* NaN where S1 has not computed it */
    cst_status status = cst_gram_kappa(context, s->pearson, s->members, NULL, 0, &gram[0]);
    CST_THEN(cst_gram_kappa(context, s->pearson, s->members, s->kept, s->kept_count, &gram[1]));
    CST_THEN(cst_cka_kappa(context, &s->cka, NULL, 0, &cka[0]));
    CST_THEN(cst_cka_kappa(context, &s->cka, s->kept, s->kept_count, &cka[1]));
    if (status != CST_OK)
        return status;
    cst_report_number(report, root, "kappa_gram_before", gram[0]);
    cst_report_number(report, root, "kappa_gram_after", gram[1]);
    cst_report_number(report, root, "kappa_cka_before", cka[0]);
    cst_report_number(report, root, "kappa_cka_after", cka[1]);
    return CST_OK;
}

cst_status cst_fit_document(cst_context *context, const cst_fit_facts *facts, cst_report **out) {
    cst_status status = cst_report_begin(context, CST_REPORT_FIT, out);
    if (status != CST_OK)
        return status;
    cst_report *report = *out;
    json_t *root = cst_report_root(report);
    cst_report_string(report, root, "model", NULL);
    cst_report_string(report, root, "preset", cst_options_preset_name(facts->options));
    cst_report_integer(report, root, "seed", (int64_t)facts->settings->seed);
    cst_report_integer(report, root, "samples", facts->source->view.rows);
    if (facts->source->view.weights)
        cst_report_number(report, root, "effective_samples",
                          cst_view_effective_rows(&facts->source->view));
    cst_report_integer(report, root, "classes", facts->source->view.classes);
    cst_report_string(report, root, "pool_hash",
                      cst_model_value(facts->stages->fit.model, "split.pool"));
    json_t *folds = cst_report_object(report, root, "folds");
    cst_report_integer(report, folds, "count", facts->source->fold_count);
    cst_report_string(report, folds, "source", facts->source->folds_given ? "pool" : "made");
    cst_document_outcomes(report, facts);
    cst_document_members(report, facts->pool, facts->members, facts->stages->reason);
    cst_document_redundancy(report, facts);
    cst_document_path(report, facts);
    cst_document_front(report, facts);
    status = cst_document_condition(context, report, facts->stages);
    put_learners(report, facts);
    put_mixing(report, facts);
    put_domains(report, facts);
    put_oof(report, facts);
    cst_document_costs(report, facts);
    cst_findings_put(report, facts->pool, facts->findings, false);
    cst_report_notices(report, context);
    CST_THEN(cst_report_finish(context, report));
    if (status != CST_OK) {
        cst_report_free(context, report);
        *out = NULL;
    }
    return status;
}
