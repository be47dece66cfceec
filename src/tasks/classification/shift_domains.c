/* Scores in each domain of a split, and on several splits. docs/robustness.md#domains. */
#include "stats/row_weights.h"
#include "tasks/classification/classification.h"

#include <math.h>
#include <string.h>

/* With more domains only the list of scores is given. */
enum { DRAWN_MAX = 64 };

/* The rows of the domains, and room for one domain's. */
typedef struct parts {
    const cst_domains *domains;
    float *probabilities; /* [samples][classes] */
    int32_t *labels;      /* [samples] */
    double *weights;      /* [samples] */
    double *numerators;   /* [2][samples] */
    double *denominator;  /* [samples] */
} parts;

static cst_status make_parts(cst_context *context, cst_scope *scope, const cst_shift *shift,
                             parts *p) {
    int64_t n = shift->targets->list[0].samples;
    CST_TAKE(context, scope, p->probabilities, n * shift->classes);
    CST_TAKE(context, scope, p->labels, n);
    CST_TAKE(context, scope, p->weights, n);
    CST_TAKE(context, scope, p->numerators, 2 * n);
    CST_TAKE(context, scope, p->denominator, n);
    return CST_OK;
}

/* Scores of a method on the rows of domain d, as an entry of its list. */
static cst_status put_scores(cst_context *context, const cst_shift *shift, const parts *p,
                             int32_t m, int32_t d, json_t *list) {
    const cst_target *target = &shift->targets->list[0];
    size_t classes = (size_t)shift->classes;
    int64_t rows = 0;
    for (int64_t i = 0; i < target->samples; i++) {
        if (p->domains->of[i] != d)
            continue;
        memcpy(p->probabilities + (size_t)rows * classes,
               shift->methods[m].predicted[0] + (size_t)i * classes,
               classes * sizeof *p->probabilities);
        p->weights[rows] = target->weights ? target->weights[i] : 1;
        p->labels[rows++] = target->labels[i];
    }
    cst_metrics scores = {.top1 = NAN, .ece = NAN, .nll = NAN, .brier = NAN};
    if (rows > 0)
        CST_TRY(cst_metrics_weighted(context, p->probabilities, rows, shift->classes, p->labels,
                                     target->weights ? p->weights : NULL, 0, &scores));
    json_t *at = cst_report_add_object(shift->report, list);
    CST_PUT(shift->report, at, CST_S("domain", p->domains->names[d]), CST_I("samples", rows),
            CST_N("top1", scores.top1), CST_N("ece", scores.ece), CST_N("nll", scores.nll),
            CST_N("brier", scores.brier));
    return CST_OK;
}

/* Top-1 and NLL of a method in every domain, drawn with all rows: value [2][domains]. */
static cst_status draw(cst_context *context, const cst_shift *shift, const parts *p, int32_t m,
                       cst_statistics *out) {
    const cst_target *target = &shift->targets->list[0];
    size_t n = (size_t)target->samples;
    size_t domains = (size_t)p->domains->count;
    size_t draws = (size_t)shift->resamples;
    double *value = cst_statistics_value(out, m);
    double *drawn = cst_statistics_drawn(shift, out, m);
    CST_SCOPE(scope);
    cst_samples s;
    CST_TRY(cst_samples_make(context, scope, shift->methods[m].predicted[0], target->samples,
                             shift->classes, target->labels, &s));
    CST_NEW(context, scope, double, both, 2 * draws);
    for (size_t d = 0; d < domains; d++) {
        for (size_t i = 0; i < n; i++) {
            double weight = target->weights ? target->weights[i] : 1;
            p->denominator[i] = p->domains->of[i] == (int32_t)d ? weight : 0;
            p->numerators[i] = s.correct[i] ? p->denominator[i] : 0;
            p->numerators[n + i] = s.nll[i] * p->denominator[i];
        }
        double pair[2];
        const cst_ratio ratios[2] = {
            {.numerator = p->numerators, .denominator = p->denominator},
            {.numerator = p->numerators + n, .denominator = p->denominator}};
        CST_TRY(cst_ratios_bootstrap(context, ratios, 2, target->samples, shift->resamples,
                                     shift->seed, pair, drawn ? both : NULL));
        for (size_t k = 0; k < 2; k++) {
            value[k * domains + d] = pair[k];
            if (drawn)
                memcpy(drawn + (k * domains + d) * draws, both + k * draws, draws * sizeof *both);
        }
    }
    return CST_OK;
}

/* "top1_in.NAME" and "nll_in.NAME" of every domain. */
static cst_status make_names(cst_context *context, cst_scope *scope, const cst_domains *domains,
                             const char **names) {
    static const char *const marks[] = {"top1_in", "nll_in"};
    for (int32_t i = 0; i < 2 * domains->count; i++) {
        const char *domain = domains->names[i % domains->count];
        size_t bytes = strlen(domain) + sizeof "top1_in.";
        char *name;
        CST_TAKE(context, scope, name, bytes);
        (void)cst_snprintf(name, bytes, "%s.%s", marks[i / domains->count], domain);
        names[i] = name;
    }
    return CST_OK;
}

cst_status cst_shift_domains(cst_context *context, const cst_shift *shift) {
    parts p = {.domains = shift->targets->list[0].domains};
    CST_SCOPE(scope);
    cst_statistics statistics;
    if (!p.domains || p.domains->count < 2)
        return CST_OK;
    bool drawn = p.domains->count <= DRAWN_MAX;
    CST_NEW(context, scope, const char *, names, 2 * p.domains->count);
    CST_TRY(make_parts(context, scope, shift, &p));
    CST_TRY(make_names(context, scope, p.domains, names));
    if (drawn)
        CST_TRY(
            cst_statistics_make(context, scope, shift, 2 * p.domains->count, names, &statistics));
    for (int32_t m = 0; m < shift->count; m++) {
        json_t *list = cst_report_list(shift->report, shift->methods[m].row, "domains");
        for (int32_t d = 0; d < p.domains->count; d++)
            CST_TRY(put_scores(context, shift, &p, m, d, list));
        if (drawn)
            CST_TRY(draw(context, shift, &p, m, &statistics));
    }
    return drawn ? cst_statistics_put(context, shift, &statistics) : CST_OK;
}

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
    CST_NEW(context, scope, double, right, target->samples);
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
    CST_PUT(shift->report, at, CST_S("split", target->split),
            CST_S("domain", cst_pool_domain(shift->pool, target->split)),
            CST_I("samples", target->samples), CST_N("top1", scores->top1),
            CST_N("ece", scores->ece), CST_N("nll", scores->nll), CST_N("brier", scores->brier));
}

/* Keys of all statistics: averages, then for each split "on.SPLIT" with its top-1. */
static cst_status name_splits(cst_context *context, cst_scope *scope, const cst_shift *shift,
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
    CST_PUT(shift->report, method->row, CST_S("worst_split", shift->targets->list[worst].split),
            CST_N("worst_top1", value[SCORES + worst]));
    return CST_OK;
}

cst_status cst_shift_splits(cst_context *context, const cst_shift *shift) {
    int32_t size = SCORES + shift->targets->scored;
    CST_SCOPE(scope);
    cst_statistics statistics;
    CST_NEW(context, scope, const char *, names, size);
    CST_NEW(context, scope, double, drawn, (SCORES * (size_t)shift->resamples));
    CST_TRY(name_splits(context, scope, shift, names));
    CST_TRY(cst_statistics_make(context, scope, shift, size, names, &statistics));
    for (int32_t m = 0; m < shift->count; m++)
        CST_TRY(run_method(context, shift, m, &statistics, drawn));
    return cst_statistics_put(context, shift, &statistics);
}
