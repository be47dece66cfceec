/* The table of baselines: finds, fits and predicts. docs/baselines.md#definitions. */
#include "fit/baselines/baselines.h"
#include "fit/baselines/tagged.h"

#include <string.h>

static const cst_baseline *const BASELINES[] = {
    &cst_baseline_best_single,
    &cst_baseline_average,
    &cst_baseline_performance_weighted,
    &cst_baseline_ridge,
    &cst_baseline_lasso,
    &cst_baseline_elastic_net,
    &cst_baseline_greedy,
    &cst_baseline_greedy_top1,
    &cst_baseline_greedy_brier,
    &cst_baseline_minimum_variance,
    &cst_baseline_log_linear,
    &cst_baseline_mlp,
    &cst_baseline_hill_climbing,
    &cst_baseline_deep_ensemble,
    &cst_baseline_snapshot,
    &cst_baseline_mc_dropout,
    &cst_baseline_soup,
    &cst_baseline_swag,
};

size_t cst_baseline_count(void) {
    return sizeof BASELINES / sizeof BASELINES[0];
}

const cst_baseline *cst_baseline_at(size_t index) {
    return index < cst_baseline_count() ? BASELINES[index] : NULL;
}

const cst_baseline *cst_baseline_find(const char *name) {
    for (size_t i = 0; i < cst_baseline_count(); i++)
        if (strcmp(BASELINES[i]->name, name) == 0)
            return BASELINES[i];
    return NULL;
}

cst_status cst_baseline_fit_run(cst_context *context, const cst_baseline *baseline,
                                const cst_baseline_data *data, cst_baseline_fit *out) {
    const cst_view *view = data->view;
    *out = (cst_baseline_fit){
        .baseline = baseline, .members = view->members, .classes = view->classes};
    if (view->members < 1 || view->rows < 1 || !view->labels)
        return cst_fail(context, CST_ERROR_ARGUMENT,
                        "%s needs labelled rows and at least one member", baseline->name);
    const cst_tagged_rule *needs = cst_tagged_rule_of(baseline->needs);
    if (needs && !cst_tagged_applies(needs, data->ensembles, view->members))
        return cst_fail(context, CST_ERROR_INPUT,
                        "%s does not apply to this pool: no member is tagged for it",
                        baseline->name);
    if (baseline->rows_alike && view->weights)
        return cst_fail(context, CST_ERROR_INPUT,
                        "%s does not support row weights; leave out the method or the weights",
                        baseline->name);
    out->weights = cst_alloc(context, (size_t)view->members, sizeof *out->weights);
    out->uses = cst_alloc(context, (size_t)view->members, sizeof *out->uses);
    cst_status status =
        out->weights && out->uses ? baseline->fit(context, data, out) : CST_ERROR_MEMORY;
    for (int32_t k = 0; status == CST_OK && k < view->members; k++)
        out->uses[k] = out->uses[k] || out->weights[k] != 0;
    if (status != CST_OK)
        cst_baseline_fit_free(context, out);
    return status;
}

cst_status cst_baseline_fit_predict(cst_context *context, const cst_baseline_fit *fit,
                                    const cst_view *view, float *out) {
    if (fit->members != view->members || fit->classes != view->classes)
        return cst_fail(
            context, CST_ERROR_MISMATCH,
            "%s was fitted on %d members and %d classes, but these predictions have %d and %d",
            fit->baseline->name, fit->members, fit->classes, view->members, view->classes);
    return (fit->baseline->predict ? fit->baseline->predict : cst_mixture_predict)(context, fit,
                                                                                   view, out);
}

void cst_baseline_fit_free(cst_context *context, cst_baseline_fit *fit) {
    if (!fit)
        return;
    if (fit->baseline && fit->baseline->release)
        fit->baseline->release(context, fit->state);
    cst_free(context, fit->weights);
    cst_free(context, fit->uses);
    *fit = (cst_baseline_fit){0};
}
