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

static void free_parts(cst_context *context, parts *p) {
    cst_free(context, p->probabilities);
    cst_free(context, p->labels);
    cst_free(context, p->weights);
    cst_free(context, p->numerators);
    cst_free(context, p->denominator);
}

static cst_status make_parts(cst_context *context, const cst_shift *shift, parts *p) {
    const cst_target *target = &shift->targets->list[0];
    size_t n = (size_t)target->samples;
    p->probabilities = cst_alloc(context, n * (size_t)shift->classes, sizeof *p->probabilities);
    p->labels = cst_alloc(context, n, sizeof *p->labels);
    p->weights = cst_alloc(context, n, sizeof *p->weights);
    p->numerators = cst_alloc(context, 2 * n, sizeof *p->numerators);
    p->denominator = cst_alloc(context, n, sizeof *p->denominator);
    return p->probabilities && p->labels && p->weights && p->numerators && p->denominator
               ? CST_OK
               : CST_ERROR_MEMORY;
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
    cst_status status = CST_OK;
    if (rows > 0)
        status = cst_metrics_weighted(context, p->probabilities, rows, shift->classes, p->labels,
                                      target->weights ? p->weights : NULL, 0, &scores);
    json_t *at = cst_report_add_object(shift->report, list);
    cst_report_string(shift->report, at, "domain", p->domains->names[d]);
    cst_report_integer(shift->report, at, "samples", rows);
    cst_report_number(shift->report, at, "top1", scores.top1);
    cst_report_number(shift->report, at, "ece", scores.ece);
    cst_report_number(shift->report, at, "nll", scores.nll);
    cst_report_number(shift->report, at, "brier", scores.brier);
    return status;
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
    cst_samples s = {0};
    cst_status status = cst_samples_make(context, shift->methods[m].predicted[0], target->samples,
                                         shift->classes, target->labels, &s);
    double *both = cst_alloc(context, 2 * draws, sizeof *both);
    if (!both)
        status = CST_ERROR_MEMORY;
    for (size_t d = 0; status == CST_OK && d < domains; d++) {
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
        status = cst_ratios_bootstrap(context, ratios, 2, target->samples, shift->resamples,
                                      shift->seed, pair, drawn ? both : NULL);
        for (size_t k = 0; status == CST_OK && k < 2; k++) {
            value[k * domains + d] = pair[k];
            if (drawn)
                memcpy(drawn + (k * domains + d) * draws, both + k * draws, draws * sizeof *both);
        }
    }
    cst_free(context, both);
    cst_samples_free(context, &s);
    return status;
}

/* "top1_in.NAME" and "nll_in.NAME" of every domain, one after another in *text. */
static cst_status make_names(cst_context *context, const cst_domains *domains, char **text,
                             const char **names) {
    static const char *const marks[] = {"top1_in", "nll_in"};
    size_t room = 0;
    for (int32_t d = 0; d < domains->count; d++)
        room += 2 * (strlen(domains->names[d]) + 10);
    char *at = cst_alloc(context, room, 1);
    *text = at;
    for (int32_t k = 0; at && k < 2; k++)
        for (int32_t d = 0; d < domains->count; d++) {
            size_t length = strlen(domains->names[d]) + 10;
            (void)cst_snprintf(at, length, "%s.%s", marks[k], domains->names[d]);
            names[k * domains->count + d] = at;
            at += length;
        }
    return *text ? CST_OK : CST_ERROR_MEMORY;
}

cst_status cst_shift_domains(cst_context *context, const cst_shift *shift) {
    parts p = {.domains = shift->targets->list[0].domains};
    cst_statistics statistics = {0};
    char *text = NULL;
    if (!p.domains || p.domains->count < 2)
        return CST_OK;
    bool drawn = p.domains->count <= DRAWN_MAX;
    const char **names = cst_alloc(context, 2 * (size_t)p.domains->count, sizeof *names);
    cst_status status = names ? make_parts(context, shift, &p) : CST_ERROR_MEMORY;
    CST_THEN(make_names(context, p.domains, &text, names));
    if (drawn)
        CST_THEN(cst_statistics_make(context, shift, 2 * p.domains->count, names, &statistics));
    for (int32_t m = 0; status == CST_OK && m < shift->count; m++) {
        json_t *list = cst_report_list(shift->report, shift->methods[m].row, "domains");
        for (int32_t d = 0; status == CST_OK && d < p.domains->count; d++)
            status = put_scores(context, shift, &p, m, d, list);
        if (drawn)
            CST_THEN(draw(context, shift, &p, m, &statistics));
    }
    if (drawn)
        CST_THEN(cst_statistics_put(context, shift, &statistics));
    cst_statistics_free(context, &statistics);
    cst_free(context, text);
    cst_free(context, (void *)names);
    free_parts(context, &p);
    return status;
}
