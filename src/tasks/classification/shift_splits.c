/*
 * Several splits of one pool, as domains: scores on each, their average, the worst. Each split's
 * samples are drawn by themselves. docs/robustness.md#several-splits; paper: "Domain Shift".
 */
#include "tasks/classification/shift.h"

#include <string.h>

enum { TOP1, NLL, BRIER, SCORES };
static const char *const NAMES[SCORES] = {"top1", "nll", "brier"};

/* Each split after the first is drawn by a seed of its own. */
static const uint64_t SPLIT_SEED = UINT64_C(0x9e3779b97f4a7c15);

/* Of one method and split: values, draws, and the other scores. */
static cst_status score_split(cst_context *context, const cst_shift *shift,
                              const cst_shift_method *method, int32_t t, double *value,
                              double *drawn, cst_metrics *metrics) {
    const cst_target *target = &shift->targets->list[t];
    CST_SCOPE(scope);
    cst_samples s;
    double *right;
    CST_TAKE(context, scope, right, target->samples);
    CST_TRY(cst_metrics_evaluate(context, method->predicted[t], target->samples, shift->classes,
                                 target->labels, 0, metrics));
    CST_TRY(cst_samples_make(context, scope, method->predicted[t], target->samples, shift->classes,
                             target->labels, &s));
    for (int64_t i = 0; i < target->samples; i++)
        right[i] = s.correct[i] ? 1 : 0;
    const cst_ratio ratios[SCORES] = {
        {.numerator = right}, {.numerator = s.nll}, {.numerator = s.brier}};
    return cst_ratios_bootstrap(context, ratios, SCORES, target->samples, shift->resamples,
                                shift->seed ^ (SPLIT_SEED * (uint64_t)t), value, drawn);
}

/* The averages' part of one split. */
static void add_share(const cst_shift *shift, const double *value, const double *drawn,
                      double share, double *mean, double *mean_drawn) {
    for (int s = 0; s < SCORES; s++)
        mean[s] += share * value[s];
    for (size_t r = 0; mean_drawn && r < SCORES * (size_t)shift->resamples; r++)
        mean_drawn[r] += share * drawn[r];
}

static void put_split(const cst_shift *shift, json_t *list, int32_t t, const cst_metrics *scores) {
    const cst_target *target = &shift->targets->list[t];
    json_t *at = cst_report_add_object(shift->report, list);
    cst_report_string(shift->report, at, "split", target->split);
    cst_report_string(shift->report, at, "domain", cst_pool_domain(shift->pool, target->split));
    cst_report_integer(shift->report, at, "samples", target->samples);
    cst_report_number(shift->report, at, "top1", scores->top1);
    cst_report_number(shift->report, at, "ece", scores->ece);
    cst_report_number(shift->report, at, "nll", scores->nll);
    cst_report_number(shift->report, at, "brier", scores->brier);
}

/* Keys of all statistics: averages, then for each split "on.SPLIT" with its top-1. */
static cst_status make_names(cst_context *context, cst_scope *scope, const cst_shift *shift,
                             const char **names) {
    for (int s = 0; s < SCORES; s++)
        names[s] = NAMES[s];
    for (int32_t t = 0; t < shift->targets->scored; t++) {
        const char *split = shift->targets->list[t].split;
        size_t bytes = strlen(split) + sizeof "on.";
        char *name;
        CST_TAKE(context, scope, name, bytes);
        (void)cst_snprintf(name, bytes, "on.%s", split);
        names[SCORES + t] = name;
    }
    return CST_OK;
}

static cst_status run_method(cst_context *context, const cst_shift *shift, int32_t m,
                             cst_statistics *out, double *drawn) {
    const cst_shift_method *method = &shift->methods[m];
    int32_t splits = shift->targets->scored;
    size_t n = (size_t)shift->resamples;
    double *value = cst_statistics_value(out, m);
    double *draws = cst_statistics_drawn(shift, out, m);
    json_t *list = cst_report_list(shift->report, method->row, "splits");
    int32_t worst = 0;
    for (int32_t t = 0; t < splits; t++) {
        double own[SCORES];
        cst_metrics metrics;
        CST_TRY(score_split(context, shift, method, t, own, drawn, &metrics));
        add_share(shift, own, drawn, 1 / (double)splits, value, draws);
        value[SCORES + t] = own[TOP1];
        if (draws)
            memcpy(draws + (size_t)(SCORES + t) * n, drawn, n * sizeof *drawn);
        put_split(shift, list, t, &metrics);
        if (own[TOP1] < value[SCORES + worst])
            worst = t;
    }
    cst_report_string(shift->report, method->row, "worst_split", shift->targets->list[worst].split);
    cst_report_number(shift->report, method->row, "worst_top1", value[SCORES + worst]);
    return CST_OK;
}

cst_status cst_shift_splits(cst_context *context, const cst_shift *shift) {
    int32_t size = SCORES + shift->targets->scored;
    CST_SCOPE(scope);
    cst_statistics statistics;
    const char **names;
    double *drawn;
    CST_TAKE(context, scope, names, size);
    CST_TAKE(context, scope, drawn, SCORES * (size_t)shift->resamples);
    CST_TRY(make_names(context, scope, shift, names));
    CST_TRY(cst_statistics_make(context, scope, shift, size, names, &statistics));
    for (int32_t m = 0; m < shift->count; m++)
        CST_TRY(run_method(context, shift, m, &statistics, drawn));
    return cst_statistics_put(context, shift, &statistics);
}
