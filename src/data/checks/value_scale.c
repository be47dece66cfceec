/*
 * Members of a regression whose values are in other units than the target, in its logarithm, or in
 * another order of the outputs.
 */
#include "data/checks/values.h"

#include <math.h>
#include <string.h>

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
static double raw_error(const cst_check_sample *s, const cst_member_facts *m, int32_t d) {
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
static int32_t off_scale(const cst_check_sample *s, const cst_member_facts *m) {
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

static cst_status tell_line(cst_context *context, const cst_check_sample *s,
                            const cst_member_facts *facts, const int32_t *list, int32_t count,
                            cst_findings *findings) {
    char who[256];
    char factor[64];
    const cst_member_facts *m = &facts[list[0]];
    int32_t d = off_scale(s, m);
    double slope = m->slope[d] * m->scale[d] / s->label_scale[d];
    double offset = s->label_mean[d] - slope * m->mean[d];
    double deviation = 1 / s->label_scale[d];
    bool standard = fabs(m->mean[d]) < 0.2 && m->scale[d] > 0.67 && m->scale[d] < 3;
    (void)cst_check_names(s->source, list, count, who, sizeof who);
    return cst_findings_add(
        context, findings, "scale", false, list, count,
        "%s %s on another scale than the target%s: target = %.4g * prediction %s %.4g would lower "
        "the RMSE%s from %.4g to %.4g%s. The stack corrects this, but the member's own scores "
        "suffer",
        who, count == 1 ? "is" : "are", standard ? " (standardised?)" : "", slope,
        offset < 0 ? "-" : "+", fabs(offset), count > 1 ? " of the first" : "",
        sqrt(raw_error(s, m, d)) * deviation,
        sqrt(fmax(1 - m->slope[d] * m->slope[d], 0)) * deviation,
        factor_words(slope, factor, sizeof factor));
}

cst_status cst_check_value_scale(cst_context *context, const cst_check_sample *sample,
                                 cst_member_facts *facts, const cst_value_facts *of,
                                 cst_findings *findings) {
    int32_t members = sample->view->members;
    int32_t *list = cst_alloc(context, (size_t)members, sizeof *list);
    cst_status status = list ? CST_OK : CST_ERROR_MEMORY;
    for (int which = LOG_NONE; status == CST_OK && which <= LOG_MEMBER; which++) {
        char who[256];
        int32_t count = 0;
        for (int32_t k = 0; k < members; k++) {
            const cst_association *a = &facts[k].association;
            if (a->constant || a->explained)
                continue;
            bool one = sample->view->classes == 1 && facts[k].scale[0] > 0;
            int found = one ? logarithm_of(&of[k], raw_error(sample, &facts[k], 0)) : LOG_NONE;
            if (found == which && (which != LOG_NONE || off_scale(sample, &facts[k]) >= 0))
                list[count++] = k;
        }
        if (count == 0)
            continue;
        (void)cst_check_names(sample->source, list, count, who, sizeof who);
        if (which == LOG_NONE)
            status = tell_line(context, sample, facts, list, count, findings);
        else
            status = cst_findings_add(
                context, findings, "scale", false, list, count,
                "%s %s to predict the %s of the target (correlation %.2f, slope %.2f): apply %s "
                "before the fit; a stack cannot do this",
                who, count == 1 ? "seems" : "seem",
                which == LOG_TARGET ? "logarithm" : "exponential", of[list[0]].log_r[which],
                of[list[0]].log_slope[which], which == LOG_TARGET ? "exp" : "log");
    }
    cst_free(context, list);
    return status;
}

/* ---- outputs in another order ---- */

/* r [outputs][outputs]: correlation of the member's outputs with those of the target. */
static cst_status correlations(cst_context *context, const cst_check_sample *s,
                               const cst_member_facts *m, int32_t member, double *r) {
    size_t outputs = (size_t)s->view->classes;
    float *rows = cst_alloc(context, CST_BLOCK_ROWS * outputs, sizeof *rows);
    cst_status status = rows ? CST_OK : CST_ERROR_MEMORY;
    memset(r, 0, outputs * outputs * sizeof *r);
    for (int64_t at = 0; status == CST_OK && at < s->rows; at += CST_BLOCK_ROWS) {
        int64_t count = cst_block_size(s->rows, at / CST_BLOCK_ROWS);
        status = cst_check_read(context, s, member, at, count, rows);
        for (int64_t i = 0; status == CST_OK && i < count; i++) {
            const double *target = cst_view_target(s->view, s->position[at + i]);
            for (size_t c = 0; c < outputs; c++) {
                double z = ((double)rows[(size_t)i * outputs + c] - m->mean[c]) * m->scale[c];
                for (size_t d = 0; d < outputs; d++)
                    r[c * outputs + d] +=
                        z * (target[d] - s->label_mean[d]) * s->label_scale[d] / (double)s->rows;
            }
        }
    }
    cst_free(context, rows);
    return status;
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

cst_status cst_check_outputs(cst_context *context, const cst_check_sample *sample,
                             cst_member_facts *facts, cst_findings *findings) {
    enum { OUTPUTS_MAX = 64 };
    int32_t outputs = sample->view->classes;
    int32_t members = sample->view->members;
    if (outputs < 2 || outputs > OUTPUTS_MAX)
        return CST_OK;
    size_t cells = (size_t)outputs * (size_t)outputs;
    double *r = cst_alloc(context, cells, sizeof *r);
    int32_t *to = cst_alloc(context, (size_t)outputs, sizeof *to);
    int32_t *list = cst_alloc(context, (size_t)members, sizeof *list);
    int32_t count = 0;
    cst_status status = r && to && list ? CST_OK : CST_ERROR_MEMORY;
    char what[320] = "";
    for (int32_t k = 0; status == CST_OK && k < members; k++) {
        cst_association *a = &facts[k].association;
        if (a->constant || a->explained)
            continue;
        status = correlations(context, sample, &facts[k], k, r);
        CST_THEN(cst_assignment(context, r, outputs, to));
        if (status != CST_OK || moved_outputs(r, to, outputs, sqrt((double)sample->rows)) == 0)
            continue;
        for (int32_t c = 0; count == 0 && c < outputs; c++) {
            size_t used = strlen(what);
            if (to[c] != c)
                (void)cst_snprintf(what + used, sizeof what - used, "%soutput %d behaves as %d",
                                   used ? ", " : "", (int)c, (int)to[c]);
        }
        a->explained = true;
        list[count++] = k;
    }
    if (status == CST_OK && count > 0) {
        char who[256];
        (void)cst_check_names(sample->source, list, count, who, sizeof who);
        bool most = 2 * count > members;
        status = cst_findings_add(
            context, findings, "classes", most, list, count,
            "split '%.60s': the outputs of %s are in another order than the targets%s: %s. Save "
            "both in the same order",
            sample->source->split, who, count > 1 ? " (figures of the first)" : "", what);
    }
    cst_free(context, r);
    cst_free(context, to);
    cst_free(context, list);
    return status;
}
