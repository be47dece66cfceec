/* Members on a wrong scale: NLL above that of the uniform distribution, a softmax applied twice;
 * other units than the target's, its logarithm, another order of the outputs. */
#include "data/checks/parts.h"

#include <math.h>

typedef enum cause { CAUSE_NONE, CAUSE_ZEROS, CAUSE_CONFIDENT, CAUSE_OTHER, CAUSE_SOFTMAX } cause;

/* Mean confidence less accuracy that counts as a cause. */
static const double OVER = 0.1;
static const double UNDER = 0.2;
/* The NLL of a label with probability 0. */
static const double ZERO_COST = 34.538776394910684;

static cause cause_of(const cst_check *check, int32_t k) {
    const cst_class_facts *of = &check->of[k];
    double n = (double)check->rows;
    double nll = of->nll / n;
    double deviation = sqrt(fmax(of->nll2 / n - nll * nll, 0));
    double uniform = log((double)check->view->classes);
    double confidence = of->confidence / n;
    double right = (double)of->right / n;
    if (!cst_check_open(check, k))
        return CAUSE_NONE;
    /* Probabilities are in [0, 1], so that after a second softmax no ratio is above e. */
    if (of->range <= 1 + 1e-5 && right - confidence > UNDER && check->view->classes > 2)
        return CAUSE_SOFTMAX;
    if (!(nll > uniform + 2 * deviation / sqrt(n)))
        return CAUSE_NONE;
    if (of->zeros > 0 && nll - ZERO_COST * (double)of->zeros / n < uniform)
        return CAUSE_ZEROS;
    return confidence - right > OVER ? CAUSE_CONFIDENT : CAUSE_OTHER;
}

static cst_status tell(cst_check *check, int32_t count, cause why) {
    double n = (double)check->rows;
    const cst_class_facts *first = &check->of[check->list[0]];
    double uniform = log((double)check->view->classes);
    double nll = first->nll / n;
    double confidence = 100 * first->confidence / n;
    double right = 100 * (double)first->right / n;
    const char *who = cst_check_who(check, count);
    const char *of_first = count > 1 ? " (figures of the first)" : "";
    switch (why) {
    case CAUSE_ZEROS:
        return CST_SAY(check, "scale", false, count,
                       "%s: NLL %.3f is above that of the uniform distribution (%.3f) because the "
                       "label has probability 0 in %lld of %.0f rows%s",
                       who, nll, uniform, (long long)first->zeros, n, of_first);
    case CAUSE_CONFIDENT:
        return CST_SAY(check, "scale", false, count,
                       "%s: NLL %.3f is above that of the uniform distribution (%.3f) because of "
                       "overconfidence: mean confidence %.1f%%, top-1 %.1f%%%s",
                       who, nll, uniform, confidence, right, of_first);
    case CAUSE_OTHER:
        return CST_SAY(check, "scale", false, count,
                       "%s: NLL %.3f is no better than that of the uniform distribution (%.3f)%s",
                       who, nll, uniform, of_first);
    case CAUSE_SOFTMAX:
        return CST_SAY(check, "scale", false, count,
                       "%s: mean confidence %.1f%% at top-1 %.1f%%, and no probability is more "
                       "than e times another of its row: a softmax was probably applied to "
                       "probabilities%s",
                       who, confidence, right, of_first);
    case CAUSE_NONE:
        break;
    }
    return CST_OK;
}

cst_status cst_check_scale(cst_check *check) {
    static const cause causes[] = {CAUSE_ZEROS, CAUSE_CONFIDENT, CAUSE_OTHER, CAUSE_SOFTMAX};
    for (size_t i = 0; i < sizeof causes / sizeof causes[0]; i++) {
        int32_t count = 0;
        for (int32_t k = 0; k < check->members; k++)
            if (cause_of(check, k) == causes[i])
                check->list[count++] = k;
        if (count == 0)
            continue;
        CST_TRY(tell(check, count, causes[i]));
        /* Trees and neighbours are like that, and a stack copes with it. */
        check->findings->list[check->findings->count - 1].quiet =
            causes[i] == CAUSE_ZEROS || causes[i] == CAUSE_OTHER;
    }
    return CST_OK;
}

/* A line lowers the root mean squared error to less than this share. */
static const double LOWER = 0.5;
/* Correlation from which a line says something. */
static const double RELATED = 0.5;

enum { LOG_NONE = -1, LOG_TARGET = 0, LOG_MEMBER = 1 };

/* Whether the member goes better with a logarithm: it fits without a correction there. */
static int logarithm_of(const cst_value_facts *of, double raw) {
    for (int w = 0; w < 2; w++)
        if (of->log_r[w] > RELATED && of->log_slope[w] > 0.5 && of->log_slope[w] < 2 &&
            of->log_raw[w] < 1 && raw > 1)
            return w;
    return LOG_NONE;
}

/* Squared error of output d as it is, relative to the variance of the target. */
static double raw_error(const cst_check *s, const cst_member_facts *m, int32_t d) {
    double ratio = s->label_scale[d] / m->scale[d];
    double off = (m->mean[d] - s->label_mean[d]) * s->label_scale[d];
    return 1 - 2 * m->slope[d] * ratio + ratio * ratio + off * off;
}

static const char *factor_words(double slope, char *text, size_t size) {
    double power = log10(slope);
    double whole = round(power);
    (void)cst_snprintf(text, size, "%s", "");
    if (slope > 0 && fabs(whole) >= 1 && fabs(power - whole) < 0.1)
        (void)cst_snprintf(text, size, ", about a factor of %g", pow(10, whole));
    return text;
}

/* The output that a line helps most; -1: none. */
static int32_t off_scale(const cst_check *s, const cst_member_facts *m) {
    int32_t worst = -1;
    double most = 0;
    for (int32_t d = 0; d < s->view->classes; d++) {
        if (!(m->scale[d] > 0) || !(s->label_scale[d] > 0) || m->slope[d] < RELATED)
            continue;
        double raw = raw_error(s, m, d);
        double then = 1 - m->slope[d] * m->slope[d];
        if (then < LOWER * LOWER * raw && raw > 0.25 && raw > most) {
            most = raw;
            worst = d;
        }
    }
    return worst;
}

static cst_status tell_line(cst_check *s, int32_t count) {
    char factor[64];
    const cst_member_facts *m = &s->facts[s->list[0]];
    int32_t d = off_scale(s, m);
    double slope = m->slope[d] * m->scale[d] / s->label_scale[d];
    double offset = s->label_mean[d] - slope * m->mean[d];
    double deviation = 1 / s->label_scale[d];
    bool standard = fabs(m->mean[d]) < 0.2 && m->scale[d] > 0.67 && m->scale[d] < 3;
    return CST_SAY(
        s, "scale", false, count,
        "%s %s on another scale than the target%s: target = %.4g * prediction %s %.4g would lower "
        "the RMSE%s from %.4g to %.4g%s. The stack corrects this, but the member's own scores "
        "suffer",
        cst_check_who(s, count), count == 1 ? "is" : "are", standard ? " (standardised?)" : "",
        slope, offset < 0 ? "-" : "+", fabs(offset), count > 1 ? " of the first" : "",
        sqrt(raw_error(s, m, d)) * deviation,
        sqrt(fmax(1 - m->slope[d] * m->slope[d], 0)) * deviation,
        factor_words(slope, factor, sizeof factor));
}

cst_status cst_check_value_scale(cst_check *check) {
    for (int which = LOG_NONE; which <= LOG_MEMBER; which++) {
        int32_t count = 0;
        for (int32_t k = 0; k < check->members; k++) {
            const cst_member_facts *m = &check->facts[k];
            bool one = check->view->classes == 1 && m->scale[0] > 0;
            int found = one ? logarithm_of(&check->values[k], raw_error(check, m, 0)) : LOG_NONE;
            if (cst_check_open(check, k) && found == which &&
                (which != LOG_NONE || off_scale(check, m) >= 0))
                check->list[count++] = k;
        }
        if (count == 0)
            continue;
        const cst_value_facts *of = &check->values[check->list[0]];
        if (which == LOG_NONE)
            CST_TRY(tell_line(check, count));
        else
            CST_TRY(CST_SAY(check, "scale", false, count,
                            "%s %s to predict the %s of the target (correlation %.2f, slope %.2f): "
                            "apply %s before the fit; a stack cannot do this",
                            cst_check_who(check, count), count == 1 ? "seems" : "seem",
                            which == LOG_TARGET ? "logarithm" : "exponential", of->log_r[which],
                            of->log_slope[which], which == LOG_TARGET ? "exp" : "log"));
    }
    return CST_OK;
}

/* r [outputs][outputs]: correlation of the member's outputs with those of the target. */
static cst_status correlations(const cst_check *s, int32_t member, double *r) {
    size_t outputs = (size_t)s->view->classes;
    const cst_member_facts *m = &s->facts[member];
    CST_SCOPE(scope);
    CST_NEW(s->context, scope, float, rows, (CST_BLOCK_ROWS * outputs));
    memset(r, 0, outputs * outputs * sizeof *r);
    for (int64_t at = 0; at < s->rows; at += CST_BLOCK_ROWS) {
        int64_t count = cst_block_size(s->rows, at / CST_BLOCK_ROWS);
        CST_TRY(cst_check_read(s->context, s, member, at, count, rows));
        for (int64_t i = 0; i < count; i++) {
            const double *target = cst_view_target(s->view, s->position[at + i]);
            for (size_t c = 0; c < outputs; c++) {
                double z = ((double)rows[(size_t)i * outputs + c] - m->mean[c]) * m->scale[c];
                for (size_t d = 0; d < outputs; d++)
                    r[c * outputs + d] +=
                        z * (target[d] - s->label_mean[d]) * s->label_scale[d] / (double)s->rows;
            }
        }
    }
    return CST_OK;
}

/* Whether the outputs that the assignment moves all go much better with the other one. */
static int32_t moved_outputs(const double *r, const int32_t *to, int32_t outputs, double root) {
    int32_t moved = 0;
    for (int32_t c = 0; c < outputs; c++) {
        double then = r[(size_t)c * (size_t)outputs + (size_t)to[c]];
        double now = r[(size_t)c * (size_t)outputs + (size_t)c];
        if (to[c] == c)
            continue;
        if (then < now + 0.3 || then * root < 8)
            return 0;
        moved++;
    }
    return moved;
}

cst_status cst_check_outputs(cst_check *check) {
    enum { OUTPUTS_MAX = 64 };
    int32_t outputs = check->view->classes;
    if (outputs < 2 || outputs > OUTPUTS_MAX)
        return CST_OK;
    int32_t count = 0;
    char what[320] = "";
    CST_SCOPE(scope);
    CST_NEW(check->context, scope, double, r, (outputs * outputs));
    CST_NEW(check->context, scope, int32_t, to, outputs);
    for (int32_t k = 0; k < check->members; k++) {
        if (!cst_check_open(check, k))
            continue;
        CST_TRY(correlations(check, k, r));
        CST_TRY(cst_assignment(check->context, r, outputs, to));
        if (moved_outputs(r, to, outputs, sqrt((double)check->rows)) == 0)
            continue;
        for (int32_t c = 0; count == 0 && c < outputs; c++) {
            size_t used = strlen(what);
            if (to[c] != c)
                (void)cst_snprintf(what + used, sizeof what - used, "%soutput %d behaves as %d",
                                   used ? ", " : "", (int)c, (int)to[c]);
        }
        check->facts[k].association.explained = true;
        check->list[count++] = k;
    }
    return count == 0 ? CST_OK
                      : CST_SAY(check, "classes", 2 * count > check->members, count,
                                "split '%.60s': the outputs of %s are in another order than the "
                                "targets%s: %s. Save both in the same order",
                                check->source->split, cst_check_who(check, count),
                                count > 1 ? " (figures of the first)" : "", what);
}
