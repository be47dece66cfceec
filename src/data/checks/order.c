/* Labels, or members, whose rows are in another order: no better than chance although the (other)
 * members agree with one another. */
#include "data/checks/parts.h"

#include <math.h>
#include <stddef.h>

/* Standard errors: what is better than chance, and what is clear. */
static const double BETTER = 4;
static const double CLEAR = 8;
/* Agreement and spread of members that a training on noise does not reach. */
static const double AGREE = 0.6;
static const double SPREAD = 0.35;

typedef struct situation {
    cst_check *check;
    double *values; /* [members] scratch */
    int32_t good;   /* members that are better than chance */
    double good_r;  /* medians over those */
    double good_a, good_order[CST_CHECK_ORDERS];
    double errors; /* one over the standard error of a correlation */
    double clear;  /* CLEAR, less where there are so few rows that nothing could be */
} situation;

static const char *label_word(const situation *s) {
    return s->check->source->guessed ? "members' average"
           : s->check->view->labels  ? "labels"
                                     : "targets";
}

static const char *rows_word(const situation *s) {
    return s->check->source->orders ? "maps" : "rows";
}

static const char *cure(const situation *s) {
    return s->check->source->orders ? "save them as the label maps are"
           : s->check->view->labels ? "save the predictions in the order of the labels, or give "
                                      "every file the ids of its rows"
                                    : "save the predictions in the order of the targets, or give "
                                      "every file the ids of its rows";
}

/* Better than chance. */
static bool is_good(const cst_association *a) {
    return !a->constant && !a->copy && a->z >= BETTER && a->r >= 0.02;
}

/* Members that nothing explains yet. */
static bool open_question(const cst_association *a) {
    return !a->constant && !a->copy && !a->explained;
}

/* The other order that fits the member clearly: -1 where none does. */
static int32_t fitting_order(const situation *s, const cst_association *a, double least) {
    int32_t best = -1;
    for (int32_t o = 0; o < s->check->orders; o++)
        if (a->order_z[o] >= s->clear && a->order_r[o] >= least && a->order_r[o] > 4 * fabs(a->r) &&
            (best < 0 || a->order_r[o] > a->order_r[best]))
            best = o;
    return best;
}

static const double BELOW = -2; /* of z: worse than chance, though not clearly */

static cst_status no_order(situation *s, int32_t asked, bool agree, double agreement) {
    const char *word = label_word(s);
    int32_t below = 0; /* rows in another order are at chance, not below it */
    for (int32_t i = 0; i < asked; i++)
        below += s->check->facts[s->check->list[i]].association.z <= BELOW;
    bool columns = s->check->view->labels && 2 * below > asked;
    if (agree)
        return CST_SAY(
            s->check, "order", true, asked,
            "split '%.60s': the %s do not match the predictions: no member is better than "
            "chance, although the members agree with one another (correlation %.2f); the %s %s in "
            "another row order; %s",
            s->check->source->split, word, agreement, word,
            columns ? "probably number the classes in another order than the columns, or are"
                    : "are probably",
            cure(s));
    return CST_SAY(
        s->check, "chance", false, asked,
        "split '%.60s': no member is better than chance (%s): the %s may %sbe in another row "
        "order, or there is nothing to predict",
        s->check->source->split, cst_check_who(s->check, asked), word,
        columns ? "number the classes in another order than the columns, " : "");
}

static cst_status all_inverted(situation *s, int32_t asked, int32_t inverted) {
    bool values = !s->check->view->labels;
    return CST_SAY(s->check, "inverted", true, asked,
                   "split '%.60s': %d of %d %smembers %s worse than chance, and none is better: %s",
                   s->check->source->split, (int)inverted, (int)asked,
                   asked < s->check->members ? "other " : "", inverted == 1 ? "is" : "are",
                   values ? "the sign of the targets is probably reversed"
                   : s->check->view->classes == 2
                       ? "the labels are probably those of the other class (1 for "
                         "0), or the columns are swapped in every file"
                       : "the labels probably number the classes in another order "
                         "than the columns");
}

static cst_status nobody_is_good(situation *s) {
    int32_t fits[CST_CHECK_ORDERS] = {0};
    int32_t asked = 0;
    int32_t inverted = 0;
    double expected = 0;
    double best = 0;
    int32_t members = s->check->members;
    for (int32_t k = 0; k < members; k++) {
        const cst_association *a = &s->check->facts[k].association;
        if (!open_question(a))
            continue;
        int32_t order = fitting_order(s, a, 0.1);
        if (order >= 0)
            fits[order]++;
        best = fmax(best, a->z);
        inverted += a->z <= -s->clear;
        expected = fmax(expected, fmin(a->spread, 1) * s->errors);
        s->values[asked] = a->agreement;
        s->check->list[asked++] = k;
    }
    for (int32_t o = 0; o < s->check->orders; o++) {
        if (2 * fits[o] <= asked)
            continue;
        return CST_SAY(
            s->check, "order", true, asked,
            "split '%.60s': the %s do not match the predictions: no member is better than "
            "chance, but %d of %d fit the %s if the predictions are %s: %s",
            s->check->source->split, label_word(s), (int)fits[o], (int)asked, label_word(s),
            s->check->order_words[o], cure(s));
    }
    if (2 * inverted > asked)
        return all_inverted(s, asked, inverted);
    if (asked == 0 || expected < s->clear || (s->clear < CLEAR && best >= 2.5))
        return CST_OK;
    double agreement = cst_check_median(s->values, asked);
    for (int32_t i = 0; i < asked; i++)
        s->values[i] = s->check->facts[s->check->list[i]].association.spread;
    double spread = cst_check_median(s->values, asked);
    bool agree = asked > 1 && agreement >= AGREE && agreement * s->errors >= CLEAR &&
                 spread >= SPREAD && spread * s->errors >= CLEAR;
    for (int32_t i = 0; i < asked; i++)
        agree =
            agree && fabs(s->check->facts[s->check->list[i]].association.r) < SPREAD * agreement;
    for (int32_t i = 0; i < asked; i++)
        s->check->facts[s->check->list[i]].association.explained = true;
    return no_order(s, asked, agree, agreement);
}

/* The order that makes the member as good as the good ones, which do not fit it themselves. */
static int32_t better_order(const situation *s, const cst_association *a) {
    if (a->r >= 0.6 * s->good_r)
        return -1;
    for (int32_t o = 0; o < s->check->orders; o++)
        if (a->order_r[o] >= 0.8 * s->good_r && s->good_order[o] < 0.8 * s->good_r &&
            (a->order_r[o] - a->r) * s->errors >= s->clear)
            return o;
    return -1;
}

typedef enum fault { FAULT_NONE, FAULT_INVERTED, FAULT_ORDER, FAULT_STRANGER, FAULT_CHANCE } fault;

static fault fault_of(const situation *s, const cst_association *a, int32_t *order) {
    *order = -1;
    if (!open_question(a) || s->good_r * s->errors < s->clear)
        return FAULT_NONE;
    if (a->z <= (s->clear < CLEAR ? -3 : -BETTER - 1) && a->r < -0.25 * s->good_r)
        return FAULT_INVERTED;
    *order = better_order(s, a);
    if (*order >= 0)
        return FAULT_ORDER;
    if (a->z >= BETTER || a->r >= 0.25 * s->good_r)
        return FAULT_NONE;
    *order = fitting_order(s, a, 0.5 * s->good_r);
    if (*order >= 0)
        return FAULT_ORDER;
    if (s->clear < CLEAR && (a->z >= 2 || (s->good_r - a->r) * s->errors < 4))
        return FAULT_NONE;
    if (s->clear >= CLEAR && s->good_a * s->errors >= CLEAR && s->good_a >= 0.2 &&
        a->agreement < 0.25 * s->good_a)
        return FAULT_STRANGER;
    return FAULT_CHANCE;
}

/* Members with one fault (and order) as one finding. */
static cst_status tell_fault(situation *s, fault which, int32_t order) {
    int32_t count = 0;
    double r = 0;
    double order_r = 0;
    double spread = 0;
    for (int32_t k = 0; k < s->check->members; k++) {
        int32_t found = -1;
        if (fault_of(s, &s->check->facts[k].association, &found) == which && found == order) {
            r = s->check->facts[k].association.r;
            spread = s->check->facts[k].association.spread;
            order_r = order >= 0 ? s->check->facts[k].association.order_r[order] : 0;
            s->check->list[count++] = k;
        }
    }
    if (count == 0)
        return CST_OK;
    const char *who = cst_check_who(s->check, count);
    const char *word = label_word(s);
    bool classes = s->check->view->labels != NULL;
    bool one = count == 1;
    switch (which) {
    case FAULT_INVERTED:
        return CST_SAY(
            s->check, "inverted", false, count,
            "%s %s worse than chance (correlation with the %s %.2f%s; members that are good: "
            "%.2f): %s",
            who, one ? "is" : "are", word, r, one ? "" : " for the last", s->good_r,
            !classes                       ? "the sign of the predictions is probably reversed"
            : s->check->view->classes == 2 ? "the probabilities are probably those of the other "
                                             "class (1 - p)"
                                           : "the columns are probably in another order");
    case FAULT_ORDER:
        return CST_SAY(s->check, "order", false, count,
                       "%s would fit the %s much better (correlation %.2f instead of "
                       "%.2f%s) if %s %s are %s: %s",
                       who, word, order_r, r, one ? "" : " for the last", one ? "its" : "their",
                       rows_word(s), s->check->order_words[order], cure(s));
    case FAULT_STRANGER:
        return CST_SAY(
            s->check, "order", false, count,
            "%s %s no better than chance and %s with no other member (correlation %.2f; others "
            "%.2f): %s %s are probably in another order; %s",
            who, one ? "is" : "are", one ? "agrees" : "agree",
            s->check->facts[s->check->list[count - 1]].association.agreement, s->good_a,
            one ? "its" : "their", rows_word(s), cure(s));
    case FAULT_CHANCE:
        return CST_SAY(
            s->check, "chance", false, count,
            "%s %s no better than chance (correlation with the %s %.2f%s; members that are good: "
            "%.2f)%s",
            who, one ? "is" : "are", word, r, one ? "" : " for the last", s->good_r,
            spread >= SPREAD ? ": the rows may be in another order" : "");
    case FAULT_NONE:
        break;
    }
    return CST_OK;
}

/* Whether a correlation is clearly above another, and leaves much less unexplained. */
static bool much_better(const situation *s, double r, double than) {
    double other = fmax(than, 0);
    double clear = (atanh(fmin(r, 0.999999)) - atanh(fmin(other, 0.999999))) * s->errors;
    return r >= 0.1 && clear >= CLEAR &&
           (r >= 1.3 * other || 1 - r * r <= 0.6 * (1 - other * other));
}

/* Most members fit another order much better. A forecast by the last value is late by nature. */
static cst_status most_are_elsewhere(situation *s) {
    for (int32_t o = 0; o < s->check->orders; o++) {
        int32_t count = 0;
        for (int32_t k = 0; k < s->check->members; k++) {
            const cst_association *a = &s->check->facts[k].association;
            if (!a->constant && !a->copy && much_better(s, a->order_r[o], a->r))
                s->check->list[count++] = k;
        }
        if (2 * count <= s->check->members)
            continue;
        const cst_association *first = &s->check->facts[s->check->list[0]].association;
        bool late = s->check->order_late[o];
        return CST_SAY(
            s->check, "order", !late, count,
            "split '%.60s': %d of %d members fit the %s much better (the first by a correlation of "
            "%.2f instead of %.2f) if the predictions are %s: %s%s",
            s->check->source->split, (int)count, (int)s->check->members, label_word(s),
            first->order_r[o], first->r, s->check->order_words[o], cure(s),
            late ? ", unless they are forecasts that follow the last value" : "");
    }
    return CST_OK;
}

static cst_status some_are_good(situation *s) {
    CST_TRY(most_are_elsewhere(s));
    CST_TRY(tell_fault(s, FAULT_INVERTED, -1));
    for (int32_t o = 0; o < s->check->orders; o++)
        CST_TRY(tell_fault(s, FAULT_ORDER, o));
    CST_TRY(tell_fault(s, FAULT_STRANGER, -1));
    CST_TRY(tell_fault(s, FAULT_CHANCE, -1));
    for (int32_t k = 0; k < s->check->members; k++) {
        int32_t order = -1;
        cst_association *a = &s->check->facts[k].association;
        a->explained = fault_of(s, a, &order) != FAULT_NONE || a->explained;
    }
    return CST_OK;
}

/* Median over the good members of the number at an offset in their association. */
static double median_of_good(situation *s, size_t offset) {
    int32_t count = 0;
    for (int32_t k = 0; k < s->check->members; k++) {
        const cst_association *a = &s->check->facts[k].association;
        if (is_good(a))
            memcpy(&s->values[count++], (const char *)a + offset, sizeof *s->values);
    }
    s->good = count;
    return cst_check_median(s->values, count);
}

cst_status cst_check_order(cst_check *check) {
    situation s = {.check = check, .errors = sqrt((double)check->rows)};
    s.clear = fmin(CLEAR, fmax(4.5, 0.6 * s.errors));
    CST_SCOPE(scope);
    CST_TAKE(check->context, scope, s.values, check->members);
    s.good_r = median_of_good(&s, offsetof(cst_association, r));
    s.good_a = median_of_good(&s, offsetof(cst_association, agreement));
    for (int32_t o = 0; o < check->orders; o++)
        s.good_order[o] =
            median_of_good(&s, offsetof(cst_association, order_r) + (size_t)o * sizeof(double));
    return s.good > 0 ? some_are_good(&s) : nobody_is_good(&s);
}
