/* Simple rules on the nested folds of a regression's fit. docs/json.md#fit. */
#include "fit/simple_rules.h"

#include "stats/row_weights.h"
#include "tasks/regression/regression.h"

static const char *const RULES[] = {"greedy", "best-single", "average"};
enum { RULE_COUNT = sizeof RULES / sizeof RULES[0] };

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

static cst_status losses(cst_context *context, const cst_view *view,
                         const cst_predicted_values *told, double *out) {
    CST_TRY(cst_value_errors(context, told, view->targets, out));
    for (int64_t i = 0; view->weights && i < view->rows; i++)
        out[i] *= view->weights[i];
    return CST_OK;
}

cst_status cst_value_simple_rules(cst_context *context, cst_fit_job *job, const cst_view *scored,
                                  const cst_predicted_values *held) {
    cst_compared *list = NULL;
    float *told[RULE_COUNT] = {NULL};
    cst_predicted_values values = *held;
    CST_NEW(context, job->scope, cst_value_metrics, metrics, RULE_COUNT);
    CST_SCOPE(scope);
    CST_NEW(context, scope, double, loss, 2 * scored->rows);
    CST_NEW(context, scope, cst_value_metrics, each, scored->classes);
    CST_TRY(cst_mixtures_run(context, scope, job, RULES, RULE_COUNT, fit_rules, &list, told));
    CST_TRY(losses(context, scored, held, loss + scored->rows));
    values.variance = NULL;
    values.levels = 0;
    for (int32_t r = 0; r < job->facts.compared_count; r++) {
        values.mean = told[r];
        list[r].scores = &metrics[r];
        CST_TRY(cst_value_metrics_weighted(context, &values, scored->targets, scored->weights,
                                           &metrics[r], each));
        CST_TRY(losses(context, scored, &values, loss));
        CST_TRY(cst_compared_test(context, scored, loss, loss + scored->rows, &list[r]));
    }
    cst_compared_adjust(list, job->facts.compared_count);
    return CST_OK;
}
