/* Scores in each domain of a split, and on several splits. docs/robustness.md#domains. */
#include "stats/row_weights.h"
#include "tasks/classification/classification.h"

#include <math.h>
#include <string.h>

/* With more domains only the list of scores is given. */
enum { DRAWN_MAX = 64 };

/* The rows of the domains, and room for one domain's. */
typedef struct parts {
    const cst_shift *shift;
    const cst_domains *domains;
    float *probabilities; /* [samples][classes] */
    int32_t *labels;      /* [samples] */
    double *weights;      /* [samples] */
    double *numerators;   /* [2][samples] */
    double *denominator;  /* [samples] */
} parts;

static cst_status make_parts(cst_context *context, cst_scope *scope, parts *p) {
    int64_t n = p->shift->targets->list[0].samples;
    CST_TAKE(context, scope, p->probabilities, n * p->shift->classes);
    CST_TAKE(context, scope, p->labels, n);
    CST_TAKE(context, scope, p->weights, n);
    CST_TAKE(context, scope, p->numerators, 2 * n);
    CST_TAKE(context, scope, p->denominator, n);
    return CST_OK;
}

/* Scores of a method on the rows of domain d, as an entry of its list. */
static cst_status put_scores(cst_context *context, const parts *p, int32_t m, int32_t d,
                             json_t *list) {
    const cst_shift *shift = p->shift;
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

/* Top-1 and NLL of a method in every domain, drawn with all rows: value [domains][2]. */
static cst_status draw(cst_context *context, const parts *p, int32_t m, double *value,
                       double *drawn) {
    const cst_shift *shift = p->shift;
    const cst_target *target = &shift->targets->list[0];
    size_t n = (size_t)target->samples;
    CST_SCOPE(scope);
    cst_samples s;
    CST_TRY(cst_samples_make(context, scope, shift->methods[m].predicted[0], target->samples,
                             shift->classes, target->labels, &s));
    for (size_t d = 0; d < (size_t)p->domains->count; d++) {
        for (size_t i = 0; i < n; i++) {
            double weight = target->weights ? target->weights[i] : 1;
            p->denominator[i] = p->domains->of[i] == (int32_t)d ? weight : 0;
            p->numerators[i] = s.correct[i] ? p->denominator[i] : 0;
            p->numerators[n + i] = s.nll[i] * p->denominator[i];
        }
        const cst_ratio ratios[2] = {
            {.numerator = p->numerators, .denominator = p->denominator},
            {.numerator = p->numerators + n, .denominator = p->denominator}};
        CST_TRY(cst_ratios_bootstrap(context, ratios, 2, target->samples, shift->resamples,
                                     shift->seed, value + 2 * d,
                                     drawn ? drawn + 2 * d * (size_t)shift->resamples : NULL));
    }
    return CST_OK;
}

/* Keys "MARK.NAME". */
static cst_status take_key(cst_context *context, cst_scope *scope, const char *mark,
                           const char *name, const char **out) {
    *out = cst_take_format(context, scope, "%s.%s", mark, name);
    return *out ? CST_OK : CST_ERROR_MEMORY;
}

static cst_status run_domains(cst_context *context, void *user, int32_t m, double *value,
                              double *drawn) {
    const parts *p = user;
    json_t *list = cst_report_list(p->shift->report, p->shift->methods[m].row, "domains");
    for (int32_t d = 0; d < p->domains->count; d++)
        CST_TRY(put_scores(context, p, m, d, list));
    return p->domains->count <= DRAWN_MAX ? draw(context, p, m, value, drawn) : CST_OK;
}

cst_status cst_shift_domains(cst_context *context, const cst_shift *shift) {
    parts p = {.shift = shift, .domains = shift->targets->list[0].domains};
    CST_SCOPE(scope);
    if (!p.domains || p.domains->count < 2)
        return CST_OK;
    int32_t count = p.domains->count;
    CST_NEW(context, scope, const char *, names, 2 * count);
    CST_TRY(make_parts(context, scope, &p));
    for (int32_t d = 0; d < count; d++) {
        CST_TRY(take_key(context, scope, "top1_in", p.domains->names[d], &names[2 * d]));
        CST_TRY(take_key(context, scope, "nll_in", p.domains->names[d], &names[2 * d + 1]));
    }
    return cst_shift_statistics(context, shift, count <= DRAWN_MAX ? 2 * count : 0, names,
                                run_domains, &p);
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

static cst_status run_splits(cst_context *context, void *user, int32_t m, double *value,
                             double *draws) {
    const cst_shift *shift = user;
    const cst_shift_method *method = &shift->methods[m];
    int32_t splits = shift->targets->scored;
    size_t n = (size_t)shift->resamples;
    CST_SCOPE(scope);
    CST_NEW(context, scope, double, drawn, (SCORES * n));
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

/* Averages, then for each split "on.SPLIT" with its top-1. */
cst_status cst_shift_splits(cst_context *context, const cst_shift *shift) {
    CST_SCOPE(scope);
    CST_NEW(context, scope, const char *, names, SCORES + shift->targets->scored);
    for (int s = 0; s < SCORES; s++)
        names[s] = NAMES[s];
    for (int32_t t = 0; t < shift->targets->scored; t++)
        CST_TRY(take_key(context, scope, "on", shift->targets->list[t].split, &names[SCORES + t]));
    return cst_shift_statistics(context, shift, SCORES + shift->targets->scored, names, run_splits,
                                (void *)(uintptr_t)shift);
}
