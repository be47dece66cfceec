/* Members that are too good to be true: equal to the labels, far better than any other, or with
 * errors that have nothing in common with those of the others. */
#include "data/checks/parts.h"

#include <math.h>
#include <string.h>

/* An error below this share of the next best member's is suspicious. */
static const double SHARE = 0.2;
/* Rows on which the others are wrong, at least. */
static const double FEWEST_HARD = 10;

typedef struct leak_search {
    cst_check *check;
    int32_t *good; /* [count] members that are better than chance */
    int32_t count;
    int32_t *rest;          /* [count] scratch */
    double *values;         /* [count] scratch */
    cst_together *together; /* [count] of the good ones */
    cst_together *without;  /* [count] scratch */
} leak_search;

/* Looks at each good member; residuals: the errors that are left of a regression. */
static cst_status search(cst_check *check, bool residuals,
                         cst_status (*look)(const leak_search *s, int32_t i)) {
    leak_search s = {.check = check};
    CST_SCOPE(scope);
    CST_TAKE(check->context, scope, s.good, check->members);
    CST_TAKE(check->context, scope, s.rest, check->members);
    CST_TAKE(check->context, scope, s.values, check->members);
    CST_TAKE(check->context, scope, s.together, check->members);
    CST_TAKE(check->context, scope, s.without, check->members);
    s.count = cst_check_good(check, s.good);
    bool known = !residuals && s.count == check->agreed_count &&
                 memcmp(s.good, check->agreed, (size_t)s.count * sizeof *s.good) == 0;
    if (known)
        s.together = check->agreement;
    else
        CST_TRY(cst_check_together(check, s.good, s.count, residuals, s.together));
    for (int32_t i = 0; i < s.count; i++)
        CST_TRY(look(&s, i));
    return CST_OK;
}

/* How the good members but k go together; *count of them, 0 for fewer than two. */
static cst_status without(const leak_search *s, int32_t k, bool residuals, int32_t *count) {
    *count = 0;
    for (int32_t i = 0; i < s->count; i++)
        if (s->good[i] != k)
            s->rest[(*count)++] = s->good[i];
    *count = *count < 2 ? 0 : *count;
    return *count ? cst_check_together(s->check, s->rest, *count, residuals, s->without) : CST_OK;
}

static double errors_of(const leak_search *s, int32_t k) {
    return (double)(s->check->rows - s->check->of[k].right);
}

/* Errors of the best good member but k; the number of rows where there is none. */
static double next_best(const leak_search *s, int32_t k, int32_t *which) {
    double least = (double)s->check->rows;
    *which = -1;
    for (int32_t i = 0; i < s->count; i++)
        if (s->good[i] != k && errors_of(s, s->good[i]) < least) {
            least = errors_of(s, s->good[i]);
            *which = s->good[i];
        }
    return least;
}

/* Whether `wrong` of `rows` is clearly more than an independent share of errors. */
static bool depends(double wrong, double rows, double error) {
    double expected = rows * error;
    return wrong > expected + 2 * sqrt(fmax(expected * (1 - error), 0));
}

/* Median over other members of the errors on rows where the rest without k are wrong, relative to
 * all errors; NaN with too few such rows. */
static cst_status share_of_others(const leak_search *s, int32_t k, double *out) {
    int32_t count = 0;
    int32_t known = 0;
    CST_TRY(without(s, k, false, &count));
    for (int32_t i = 0; i < count; i++) {
        double error = errors_of(s, s->rest[i]) / (double)s->check->rows;
        if (s->without[i].hard >= FEWEST_HARD && error > 0)
            s->values[known++] = s->without[i].hard_wrong / s->without[i].hard / error;
    }
    *out = cst_check_median(s->values, known);
    return CST_OK;
}

/* Whether no other member, a copy for instance, is right everywhere. */
static bool right_by_itself(const leak_search *s, int32_t k) {
    for (int32_t j = 0; j < s->check->view->members; j++)
        if (j != k && errors_of(s, j) < 1)
            return false;
    return true;
}

/* Exactly the labels. */
static cst_status is_labels(const leak_search *s, int32_t k, bool fatal) {
    int32_t other = -1;
    char next[128] = "";
    double errors = next_best(s, k, &other);
    if (other >= 0)
        (void)cst_snprintf(next, sizeof next, " (next best: '%.60s', wrong in %.0f)",
                           cst_check_name(s->check, other), errors);
    return CST_SAY_OF(
        s->check, "leak", fatal, k,
        "'%.60s' gives probability %.4g to the label in every one of %lld rows%s: %s",
        cst_check_name(s->check, k), s->check->of[k].label_most, (long long)s->check->rows, next,
        fatal ? "it is the labels themselves, not a prediction; remove it from the pool"
              : "make sure that it does not hold the labels");
}

static cst_status too_good(const leak_search *s, int32_t k, double errors, int32_t other,
                           double others_errors) {
    double n = (double)s->check->rows;
    return CST_SAY_OF(
        s->check, "leak", false, k,
        "'%.60s' may be too good to be true: wrong in %.0f of %.0f rows (%.1f%%), the next best, "
        "'%.60s', in %.0f (%.1f%%). Make sure that it has not seen these labels and that its "
        "predictions are out-of-fold",
        cst_check_name(s->check, k), errors, n, 100 * errors / n, cst_check_name(s->check, other),
        others_errors, 100 * others_errors / n);
}

static cst_status not_misled(const leak_search *s, int32_t k, const cst_together *t, double lift) {
    return CST_SAY_OF(
        s->check, "leak", false, k,
        "'%.60s' may be too good to be true: of %.0f rows where the other members are wrong "
        "together it is right in %.0f; other members err there %.1f times as often "
        "as elsewhere, but it does not. Make sure that it has not seen these labels and that its "
        "predictions are out-of-fold",
        cst_check_name(s->check, k), t->hard, t->hard - t->hard_wrong, lift);
}

static cst_status look(const leak_search *s, int32_t i) {
    static const double EVIDENT = 15; /* errors of the next best member */
    static const double OTHERS = 2;   /* lift that honest members show */
    int32_t k = s->good[i];
    int32_t other = -1;
    const cst_together *t = &s->together[i];
    double errors = errors_of(s, k);
    double error = errors / (double)s->check->rows;
    double next = next_best(s, k, &other);
    bool better = other >= 0 && errors + 3 * sqrt(errors + 1) < SHARE * next;
    bool same = s->check->of[k].label_most - s->check->of[k].label_least < 1e-6 && errors < 1;
    if (s->check->of[k].sure == s->check->rows || (same && next >= EVIDENT))
        return is_labels(s, k, next >= EVIDENT && right_by_itself(s, k));
    if (better && !depends(t->hard_wrong, t->hard, error))
        return too_good(s, k, errors, other, next);
    double lift = NAN;
    if (t->hard >= FEWEST_HARD && error < 0.5 && other >= 0 && errors < next &&
        !depends(t->hard_wrong, t->hard, error))
        CST_TRY(share_of_others(s, k, &lift));
    /* The rows on which it would err as the others do have to be many enough to miss them. */
    double missed = t->hard * error * (lift - 1);
    return lift >= OTHERS && missed > 3 * sqrt(t->hard * error * lift) ? not_misled(s, k, t, lift)
                                                                       : CST_OK;
}

cst_status cst_check_leaks(cst_check *check) {
    return search(check, false, look);
}

static const double COMMON = 0.3;  /* of what an honest member's errors share */
static const double OTHERS = 0.5;  /* correlation of the errors of the others */
static const double SMALLER = 0.7; /* error relative to the next best */

/* Root mean squared error after the best line, relative to the deviation of the target. */
static double error_of(const leak_search *s, int32_t k) {
    int32_t outputs = s->check->view->classes;
    double left = 0;
    double count = 0;
    for (int32_t d = 0; d < outputs; d++) {
        if (!(s->check->label_scale[d] > 0))
            continue;
        left += 1 - s->check->facts[k].slope[d] * s->check->facts[k].slope[d];
        count++;
    }
    return count > 0 ? sqrt(fmax(left / count, 0)) : 1;
}

/* Median agreement of the errors of the others with one another; NaN for fewer than two. */
static cst_status agreement_of_others(const leak_search *s, int32_t k, double *out) {
    int32_t count = 0;
    CST_TRY(without(s, k, true, &count));
    for (int32_t i = 0; i < count; i++)
        s->values[i] = s->without[i].agreement;
    *out = cst_check_median(s->values, count);
    return CST_OK;
}

static cst_status look_at_errors(const leak_search *s, int32_t i) {
    int32_t k = s->good[i];
    int32_t other = -1;
    double next = INFINITY;
    double error = error_of(s, k);
    double root = sqrt((double)s->check->rows);
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
    CST_TRY(agreement_of_others(s, k, &others));
    bool alone = others >= OTHERS && ratio * root >= 8;
    if (!(alone || ratio < SHARE))
        return CST_OK;
    char common[128] = "";
    if (others >= OTHERS)
        (void)cst_snprintf(common, sizeof common,
                           "; the errors of the others are correlated by %.2f, its with theirs by "
                           "%.2f",
                           others, shared);
    return CST_SAY_OF(
        s->check, "leak", false, k,
        "'%.60s' may be too good to be true: its error is %.0f%% of that of the next best, "
        "'%.60s'%s. Make sure that it has not seen these targets and that its predictions are "
        "out-of-fold",
        cst_check_name(s->check, k), 100 * ratio, cst_check_name(s->check, other), common);
}

cst_status cst_check_value_leaks(cst_check *check) {
    return search(check, true, look_at_errors);
}
