/*
 * Scores in each domain of a split's rows, with intervals. Rows without a domain count nowhere
 * here. docs/robustness.md#domains; paper: "Domain Shift".
 */
#include "stats/weighted.h"
#include "tasks/classification/shift.h"

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
    cst_report_string(shift->report, at, "domain", p->domains->names[d]);
    cst_report_integer(shift->report, at, "samples", rows);
    cst_report_number(shift->report, at, "top1", scores.top1);
    cst_report_number(shift->report, at, "ece", scores.ece);
    cst_report_number(shift->report, at, "nll", scores.nll);
    cst_report_number(shift->report, at, "brier", scores.brier);
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
    double *both;
    CST_TRY(cst_samples_make(context, scope, shift->methods[m].predicted[0], target->samples,
                             shift->classes, target->labels, &s));
    CST_TAKE(context, scope, both, 2 * draws);
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
    const char **names;
    if (!p.domains || p.domains->count < 2)
        return CST_OK;
    bool drawn = p.domains->count <= DRAWN_MAX;
    CST_TAKE(context, scope, names, 2 * p.domains->count);
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
