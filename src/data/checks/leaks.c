/*
 * Members of a classification that are too good to be true: equal to the labels, far better than
 * any other, or right where an honest member would err with the others.
 */
#include "data/checks/leaks.h"

#include <math.h>

/* An error below this share of the next best member's is suspicious. */
static const double SHARE = 0.2;
/* Rows on which the others are wrong, at least. */
static const double FEWEST_HARD = 10;

typedef struct leak_search {
    const cst_check_sample *sample;
    cst_member_facts *facts;
    const cst_class_facts *of;
    cst_findings *findings;
    int32_t *good; /* [count] members that are better than chance */
    int32_t count;
    int32_t *rest;          /* [count] scratch */
    cst_together *together; /* [count] of the good ones */
    cst_together *without;  /* [count] scratch */
} leak_search;

static double errors_of(const leak_search *s, int32_t k) {
    return (double)(s->sample->rows - s->of[k].right);
}

/* Errors of the best good member but k; the number of rows where there is none. */
static double next_best(const leak_search *s, int32_t k, int32_t *which) {
    double least = (double)s->sample->rows;
    *which = -1;
    for (int32_t i = 0; i < s->count; i++)
        if (s->good[i] != k && errors_of(s, s->good[i]) < least) {
            least = errors_of(s, s->good[i]);
            *which = s->good[i];
        }
    return least;
}

/* Whether `wrong` of `rows` is clearly more than a share of the errors that does not depend on the
 * others. */
static bool depends(double wrong, double rows, double error) {
    double expected = rows * error;
    return wrong > expected + 2 * sqrt(fmax(expected * (1 - error), 0));
}

/* How often other members err on rows where the rest of them, without k, are wrong,
 * relative to their errors at large: the median; NaN where too few rows are like that. */
static cst_status share_of_others(cst_context *context, const leak_search *s, int32_t k,
                                  double *out) {
    int32_t count = 0;
    int32_t known = 0;
    *out = NAN;
    for (int32_t i = 0; i < s->count; i++)
        if (s->good[i] != k)
            s->rest[count++] = s->good[i];
    if (count < 2)
        return CST_OK;
    double *lift = cst_alloc(context, (size_t)count, sizeof *lift);
    cst_status status =
        lift ? cst_check_together(context, s->sample, s->facts, s->rest, count, false, s->without)
             : CST_ERROR_MEMORY;
    for (int32_t i = 0; status == CST_OK && i < count; i++) {
        double error = errors_of(s, s->rest[i]) / (double)s->sample->rows;
        if (s->without[i].hard >= FEWEST_HARD && error > 0)
            lift[known++] = s->without[i].hard_wrong / s->without[i].hard / error;
    }
    if (status == CST_OK)
        *out = cst_check_median(lift, known);
    cst_free(context, lift);
    return status;
}

/* Whether no other member, a copy for instance, is right everywhere. */
static bool right_by_itself(const leak_search *s, int32_t k) {
    for (int32_t j = 0; j < s->sample->view->members; j++)
        if (j != k && errors_of(s, j) < 1)
            return false;
    return true;
}

/* Exactly the labels. */
static cst_status is_labels(cst_context *context, const leak_search *s, int32_t k, bool fatal) {
    int32_t other = -1;
    char next[128] = "";
    double errors = next_best(s, k, &other);
    if (other >= 0)
        (void)cst_snprintf(next, sizeof next, " (next best: '%.60s', wrong in %.0f)",
                           cst_check_name(s->sample->source, other), errors);
    return cst_findings_add(
        context, s->findings, "leak", fatal, &k, 1,
        "'%.60s' gives probability %.4g to the label in every one of %lld rows%s: %s",
        cst_check_name(s->sample->source, k), s->of[k].label_most, (long long)s->sample->rows, next,
        fatal ? "it is the labels themselves, not a prediction; remove it from the pool"
              : "make sure that it does not hold the labels");
}

static cst_status too_good(cst_context *context, const leak_search *s, int32_t k, double errors,
                           int32_t other, double others_errors) {
    double n = (double)s->sample->rows;
    return cst_findings_add(
        context, s->findings, "leak", false, &k, 1,
        "'%.60s' may be too good to be true: wrong in %.0f of %.0f rows (%.1f%%), the next best, "
        "'%.60s', in %.0f (%.1f%%). Make sure that it has not seen these labels and that its "
        "predictions are out-of-fold",
        cst_check_name(s->sample->source, k), errors, n, 100 * errors / n,
        cst_check_name(s->sample->source, other), others_errors, 100 * others_errors / n);
}

static cst_status not_misled(cst_context *context, const leak_search *s, int32_t k,
                             const cst_together *t, double lift) {
    return cst_findings_add(
        context, s->findings, "leak", false, &k, 1,
        "'%.60s' may be too good to be true: of %.0f rows where the other members are wrong "
        "together it is right in %.0f; other members err there %.1f times as often "
        "as elsewhere, but it does not. Make sure that it has not seen these labels and that its "
        "predictions are out-of-fold",
        cst_check_name(s->sample->source, k), t->hard, t->hard - t->hard_wrong, lift);
}

static cst_status look(cst_context *context, const leak_search *s, int32_t i) {
    static const double EVIDENT = 15; /* errors of the next best member */
    static const double OTHERS = 2;   /* lift that honest members show */
    int32_t k = s->good[i];
    int32_t other = -1;
    const cst_together *t = &s->together[i];
    double errors = errors_of(s, k);
    double error = errors / (double)s->sample->rows;
    double next = next_best(s, k, &other);
    bool better = other >= 0 && errors + 3 * sqrt(errors + 1) < SHARE * next;
    bool same = s->of[k].label_most - s->of[k].label_least < 1e-6 && errors < 1;
    if (s->of[k].sure == s->sample->rows || (same && next >= EVIDENT))
        return is_labels(context, s, k, next >= EVIDENT && right_by_itself(s, k));
    if (better && !depends(t->hard_wrong, t->hard, error))
        return too_good(context, s, k, errors, other, next);
    double lift = NAN;
    cst_status status = CST_OK;
    if (t->hard >= FEWEST_HARD && error < 0.5 && other >= 0 && errors < next &&
        !depends(t->hard_wrong, t->hard, error))
        status = share_of_others(context, s, k, &lift);
    /* The rows on which it would err as the others do have to be many enough to miss them. */
    double missed = t->hard * error * (lift - 1);
    if (status == CST_OK && lift >= OTHERS && missed > 3 * sqrt(t->hard * error * lift))
        status = not_misled(context, s, k, t, lift);
    return status;
}

cst_status cst_check_leaks(cst_context *context, const cst_check_sample *sample,
                           cst_member_facts *facts, const cst_class_facts *of,
                           cst_findings *findings) {
    size_t members = (size_t)sample->view->members;
    leak_search s = {.sample = sample, .facts = facts, .of = of, .findings = findings};
    s.good = cst_alloc(context, 2 * members, sizeof *s.good);
    s.together = cst_alloc(context, 2 * members, sizeof *s.together);
    cst_status status = s.good && s.together ? CST_OK : CST_ERROR_MEMORY;
    if (status == CST_OK) {
        s.count = cst_check_good(sample, facts, s.good);
        s.rest = s.good + members;
        s.without = s.together + members;
        status = cst_check_together(context, sample, facts, s.good, s.count, false, s.together);
    }
    for (int32_t i = 0; status == CST_OK && i < s.count; i++)
        status = look(context, &s, i);
    cst_free(context, s.good);
    cst_free(context, s.together);
    return status;
}
