/* Simple rules on the nested folds of a multi-label fit. docs/json.md#fit. */
#include "fit/simple_rules.h"

#include "tasks/multilabel/multilabel.h"

#include <string.h>

static const char *const RULES[] = {"greedy", "best-single", "average"};
enum { RULE_COUNT = sizeof RULES / sizeof RULES[0] };

static cst_status fit_rules(cst_context *context, const cst_training *on, double *weights) {
    const cst_view even = cst_view_even(&on->view);
    size_t cells = (size_t)even.classes * (size_t)even.members;
    for (int r = 0; r < RULE_COUNT; r++) {
        cst_label_functions functions;
        const double prior = 10; /* of nothing that it fits */
        double *mix;
        CST_SCOPE(scope);
        CST_TRY(cst_label_baseline_fit(context, scope,
                                       cst_named_find(cst_label_baseline_at, RULES[r]), &even,
                                       on->folds, on->fold_count, prior, &functions, &mix));
        memcpy(weights + (size_t)r * cells, functions.weights, cells * sizeof *weights);
    }
    return CST_OK;
}

cst_status cst_label_simple_rules(cst_context *context, cst_fit_job *job,
                                  const cst_label_cells *held) {
    const cst_view *view = &job->source.view;
    cst_compared *list = NULL;
    float *told[RULE_COUNT] = {NULL};
    CST_NEW(context, job->scope, double, scores, RULE_COUNT *CST_LABEL_SCORES);
    CST_SCOPE(scope);
    CST_NEW(context, scope, double, loss, 2 * view->rows);
    CST_NEW(context, scope, cst_label_score, each, view->classes);
    CST_TRY(cst_mixtures_run(context, scope, job, RULES, RULE_COUNT, fit_rules, &list, told));
    cst_label_losses(held, held->p, loss + view->rows);
    for (int32_t r = 0; r < job->facts.compared_count; r++) {
        cst_label_cells rows = *held;
        rows.p = told[r];
        list[r].scores = scores + r * CST_LABEL_SCORES;
        CST_TRY(cst_label_scores_of(context, &rows, scores + r * CST_LABEL_SCORES, each));
        cst_label_losses(held, told[r], loss);
        CST_TRY(cst_compared_test(context, view, loss, loss + view->rows, &list[r]));
    }
    cst_compared_adjust(list, job->facts.compared_count);
    return CST_OK;
}
