/* Simple rules on the nested folds of a regression's fit. docs/json.md#fit. */
#include "fit/simple_rules.h"

#include "stats/row_weights.h"
#include "tasks/regression/regression.h"

#include <math.h>

static const char *const RULES[] = {"greedy", "best-single", "average"};
enum { RULE_COUNT = sizeof RULES / sizeof RULES[0] };

typedef struct rule_job {
    const cst_training *source;
    float *told[RULE_COUNT]; /* [rows][outputs] */
} rule_job;

/* Weights of the members [rule][outputs][members], fitted on a view. */
static cst_status fit_rules(cst_context *context, const cst_training *on, double *weights) {
    const cst_view *view = &on->view;
    const cst_gate none = {.mode = CST_GATE_NONE, .inputs = view->members};
    cst_scaling scaling;
    double intercept = 0; /* all of these are mixtures */
    CST_SCOPE(scope);
    CST_NEW(context, scope, cst_moments, moments, view->classes);
    CST_TRY(cst_scaling_take(context, scope, view, &scaling));
    CST_TRY(cst_value_moments(context, scope, view, &scaling, &none, on->folds, on->fold_count,
                              moments));
    for (int r = 0; r < RULE_COUNT; r++)
        for (int32_t d = 0; d < view->classes; d++, weights += view->members)
            CST_TRY(cst_value_baseline_fit(context, cst_value_baseline_find(RULES[r]), NULL,
                                           &moments[d], weights, &intercept, NULL));
    return CST_OK;
}

static cst_status rule_task(cst_context *context, void *user, const cst_fold_rows *rows) {
    const rule_job *job = user;
    const cst_view *held = &rows->held;
    size_t outputs = (size_t)held->classes;
    size_t members = (size_t)held->members;
    size_t cells = (size_t)held->rows * outputs;
    CST_SCOPE(scope);
    CST_NEW(context, scope, double, weights, (RULE_COUNT * outputs * members));
    CST_NEW(context, scope, float, values, cells);
    CST_NEW(context, scope, double, sums, (RULE_COUNT * cells));
    CST_TRY(fit_rules(context, &rows->inside, weights));
    for (size_t k = 0; k < members; k++) {
        CST_TRY(cst_view_copy(context, held, (int32_t)k, values));
        for (size_t r = 0; r < RULE_COUNT; r++)
            for (size_t e = 0; e < cells; e++)
                sums[r * cells + e] +=
                    weights[(r * outputs + e % outputs) * members + k] * (double)values[e];
    }
    for (int r = 0; r < RULE_COUNT; r++) {
        for (size_t e = 0; e < cells; e++)
            values[e] = (float)sums[(size_t)r * cells + e];
        cst_fold_scatter(job->source->folds, job->source->view.rows, rows->fold, outputs, values,
                         job->told[r]);
    }
    return CST_OK;
}

static cst_status losses(cst_context *context, const cst_view *view,
                         const cst_predicted_values *told, double *out) {
    CST_TRY(cst_value_errors(context, told, view->targets, out));
    for (int64_t i = 0; view->weights && i < view->rows; i++)
        out[i] *= view->weights[i];
    return CST_OK;
}

/* What the rules of all rows read. */
static cst_status describe(cst_context *context, const cst_training *source, cst_compared *list) {
    size_t outputs = (size_t)source->view.classes;
    int32_t members = source->view.members;
    CST_SCOPE(scope);
    CST_NEW(context, scope, double, weights, (RULE_COUNT * outputs * (size_t)members));
    CST_TRY(fit_rules(context, source, weights));
    for (int r = 0; r < RULE_COUNT; r++, weights += outputs * (size_t)members) {
        double all = 0;
        double used = 0;
        list[r] = (cst_compared){.name = RULES[r], .member = -1};
        for (int32_t k = 0; k < members; k++) {
            bool uses = false;
            for (size_t d = 0; d < outputs; d++)
                uses = uses || weights[d * (size_t)members + (size_t)k] != 0;
            all += source->flops[k];
            used += uses ? source->flops[k] : 0;
            list[r].members += uses;
            list[r].member = uses ? k : list[r].member;
        }
        if (list[r].members > 1)
            list[r].member = -1;
        list[r].flops_rel = all > 0 ? used / all : NAN;
    }
    return CST_OK;
}

cst_status cst_value_simple_rules(cst_context *context, cst_fit_job *job, const cst_view *scored,
                                  const cst_predicted_values *held) {
    const cst_view *view = &job->source.view;
    rule_job rules = {.source = &job->source};
    cst_fold_result results[RULE_COUNT];
    cst_predicted_values told = *held;
    if (view->members < 2 || view->presence)
        return CST_OK;
    CST_NEW(context, job->scope, cst_compared, list, RULE_COUNT);
    CST_NEW(context, job->scope, cst_value_metrics, metrics, RULE_COUNT);
    CST_SCOPE(scope);
    CST_NEW(context, scope, double, loss, 2 * scored->rows);
    CST_NEW(context, scope, cst_value_metrics, each, view->classes);
    for (int r = 0; r < RULE_COUNT; r++) {
        CST_TAKE(context, scope, rules.told[r], (size_t)view->rows * (size_t)view->classes);
        results[r] = (cst_fold_result){rules.told[r], (size_t)view->classes};
    }
    CST_TRY(describe(context, &job->source, list));
    CST_TRY(losses(context, scored, held, loss + scored->rows));
    CST_TRY(cst_nested_run(context, &job->source, job->settings.seed, rule_task, &rules, results,
                           RULE_COUNT));
    told.variance = NULL;
    told.levels = 0;
    for (int r = 0; r < RULE_COUNT; r++) {
        cst_training_pack(&job->source, (size_t)view->classes, rules.told[r]);
        told.mean = rules.told[r];
        list[r].scores = &metrics[r];
        CST_TRY(cst_value_metrics_weighted(context, &told, scored->targets, scored->weights,
                                           &metrics[r], each));
        CST_TRY(losses(context, scored, &told, loss));
        CST_TRY(cst_compared_test(context, scored, loss, loss + scored->rows, &list[r]));
    }
    cst_compared_adjust(list, RULE_COUNT);
    job->facts.compared = list;
    job->facts.compared_count = RULE_COUNT;
    return CST_OK;
}
