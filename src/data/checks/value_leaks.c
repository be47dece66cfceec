/*
 * Members of a regression that are too good to be true. The noise of a target is in the errors of
 * every honest member, so that errors that have nothing in common with those of the others are as
 * suspicious as errors that are far smaller.
 */
#include "data/checks/values.h"

#include <math.h>

static const double SHARE = 0.2;   /* of the error of the next best */
static const double COMMON = 0.3;  /* of what an honest member's errors share */
static const double OTHERS = 0.5;  /* correlation of the errors of the others */
static const double SMALLER = 0.7; /* error relative to the next best */

typedef struct leak_search {
    const cst_check_sample *sample;
    cst_member_facts *facts;
    cst_findings *findings;
    int32_t *good;
    int32_t count;
    int32_t *rest;
    double *values;
    cst_together *together;
    cst_together *without;
} leak_search;

/* Root mean squared error after the best line, relative to the deviation of the target. */
static double error_of(const leak_search *s, int32_t k) {
    int32_t outputs = s->sample->view->classes;
    double left = 0;
    double count = 0;
    for (int32_t d = 0; d < outputs; d++) {
        if (!(s->sample->label_scale[d] > 0))
            continue;
        left += 1 - s->facts[k].slope[d] * s->facts[k].slope[d];
        count++;
    }
    return count > 0 ? sqrt(fmax(left / count, 0)) : 1;
}

/* Median agreement of the errors of the others with one another; NaN for fewer than two. */
static cst_status agreement_of_others(cst_context *context, const leak_search *s, int32_t k,
                                      double *out) {
    int32_t count = 0;
    *out = NAN;
    for (int32_t i = 0; i < s->count; i++)
        if (s->good[i] != k)
            s->rest[count++] = s->good[i];
    if (count < 2)
        return CST_OK;
    cst_status status =
        cst_check_together(context, s->sample, s->facts, s->rest, count, true, s->without);
    for (int32_t i = 0; i < count; i++)
        s->values[i] = s->without[i].agreement;
    *out = cst_check_median(s->values, count);
    return status;
}

static cst_status look(cst_context *context, const leak_search *s, int32_t i) {
    int32_t k = s->good[i];
    int32_t other = -1;
    double next = INFINITY;
    double error = error_of(s, k);
    double root = sqrt((double)s->sample->rows);
    for (int32_t j = 0; j < s->count; j++)
        if (j != i && error_of(s, s->good[j]) < next) {
            other = s->good[j];
            next = error_of(s, other);
        }
    if (other < 0 || !(error < SMALLER * next))
        return CST_OK;
    double ratio = error / next;
    double shared = s->together[i].agreement;
    if (shared > COMMON * ratio + 2 / root)
        return CST_OK;
    double others = NAN;
    cst_status status = agreement_of_others(context, s, k, &others);
    bool alone = others >= OTHERS && ratio * root >= 8;
    if (status != CST_OK || !(alone || ratio < SHARE))
        return status;
    char common[128] = "";
    if (others >= OTHERS)
        (void)cst_snprintf(common, sizeof common,
                           "; the errors of the others are correlated by %.2f, its with theirs by "
                           "%.2f",
                           others, shared);
    return cst_findings_add(
        context, s->findings, "leak", false, &k, 1,
        "'%.60s' may be too good to be true: its error is %.0f%% of that of the next best, "
        "'%.60s'%s. Make sure that it has not seen these targets and that its predictions are "
        "out-of-fold",
        cst_check_name(s->sample->source, k), 100 * ratio, cst_check_name(s->sample->source, other),
        common);
}

cst_status cst_check_value_leaks(cst_context *context, const cst_check_sample *sample,
                                 cst_member_facts *facts, cst_findings *findings) {
    size_t members = (size_t)sample->view->members;
    leak_search s = {.sample = sample, .facts = facts, .findings = findings};
    s.good = cst_alloc(context, 2 * members, sizeof *s.good);
    s.values = cst_alloc(context, members, sizeof *s.values);
    s.together = cst_alloc(context, 2 * members, sizeof *s.together);
    cst_status status = s.good && s.values && s.together ? CST_OK : CST_ERROR_MEMORY;
    if (status == CST_OK) {
        s.count = cst_check_good(sample, facts, s.good);
        s.rest = s.good + members;
        s.without = s.together + members;
        status = cst_check_together(context, sample, facts, s.good, s.count, true, s.together);
    }
    for (int32_t i = 0; status == CST_OK && i < s.count; i++)
        status = look(context, &s, i);
    cst_free(context, s.good);
    cst_free(context, s.values);
    cst_free(context, s.together);
    return status;
}
