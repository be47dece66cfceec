/*
 * Checks of a regression: what is known of each member from its values, then members that are the
 * target, leaks, outputs in another order, other scales.
 */
#include "data/checks/values.h"

#include <math.h>
#include <string.h>

enum { FEWEST_FATAL = 40 }; /* rows of a member that is the target */

typedef struct reading {
    const cst_check_sample *sample;
    cst_member_facts *facts;
    cst_value_facts *of;
    int32_t *list;
    cst_findings *findings;
} reading;

static double standard_target(const cst_check_sample *s, int64_t row, int32_t d) {
    return (cst_view_target(s->view, row)[d] - s->label_mean[d]) * s->label_scale[d];
}

/* Mean and standard deviation of one column of the member's rows. */
static void moments(const cst_check_sample *s, const float *rows, int32_t d, double *mean,
                    double *deviation) {
    size_t outputs = (size_t)s->view->classes;
    double n = (double)s->rows;
    double sum = 0;
    double squares = 0;
    double first = (double)rows[d];
    for (int64_t i = 0; i < s->rows; i++)
        sum += ((double)rows[(size_t)i * outputs + (size_t)d] - first) / n;
    for (int64_t i = 0; i < s->rows; i++) {
        double off = (double)rows[(size_t)i * outputs + (size_t)d] - first - sum;
        squares += off * off / n;
    }
    *mean = first + sum;
    *deviation = squares > 1e-13 * (*mean) * (*mean) ? sqrt(squares) : 0;
}

/* Correlation of the standardised column with the targets, and with those of the other orders. */
static void correlate(const cst_check_sample *s, const float *rows, int32_t d, const double *mean,
                      const double *scale, double *r, double *orders) {
    size_t outputs = (size_t)s->view->classes;
    int64_t counted[CST_CHECK_ORDERS] = {0};
    double n = (double)s->rows;
    *r = 0;
    memset(orders, 0, CST_CHECK_ORDERS * sizeof *orders);
    for (int64_t i = 0; i < s->rows; i++) {
        double z = ((double)rows[(size_t)i * outputs + (size_t)d] - mean[d]) * scale[d];
        *r += z * standard_target(s, s->position[i], d) / n;
        for (int32_t o = 0; o < s->orders; o++) {
            if (s->order[o][i] < 0)
                continue;
            orders[o] += z * standard_target(s, s->order[o][i], d);
            counted[o]++;
        }
    }
    for (int32_t o = 0; o < s->orders; o++)
        orders[o] = 2 * (double)counted[o] < n ? 0 : orders[o] / (double)counted[o];
}

/* Correlation and slope of the logarithm of the target on the member, and of the target on the
 * logarithm of the member, by whichever is defined. */
static void correlate_logs(const cst_check_sample *s, const float *rows, cst_value_facts *of) {
    double n = (double)s->rows;
    double p[2] = {0};
    double pp[2] = {0};
    double y[2] = {0};
    double yy[2] = {0};
    double py[2] = {0};
    bool log_y = true;
    bool log_p = true;
    for (int64_t i = 0; i < s->rows; i++) {
        double target = cst_view_target(s->view, s->position[i])[0];
        double value = (double)rows[i];
        log_y = log_y && target > 0;
        log_p = log_p && value > 0;
        const double x[2] = {value, value > 0 ? log(value) : 0};
        const double t[2] = {target > 0 ? log(target) : 0, target};
        for (int w = 0; w < 2; w++) {
            p[w] += x[w] / n;
            y[w] += t[w] / n;
            pp[w] += x[w] * x[w] / n;
            yy[w] += t[w] * t[w] / n;
            py[w] += x[w] * t[w] / n;
        }
    }
    for (int w = 0; w < 2; w++) {
        double a = pp[w] - p[w] * p[w];
        double b = yy[w] - y[w] * y[w];
        double c = py[w] - p[w] * y[w];
        bool defined = (w == 0 ? log_y : log_p) && a > 0 && b > 0;
        of->log_r[w] = defined ? c / sqrt(a * b) : 0;
        of->log_slope[w] = defined ? c / a : 0;
        of->log_raw[w] = defined ? (yy[w] - 2 * py[w] + pp[w]) / b : INFINITY;
    }
}

/* What row `i` of the sample is called: its number, or its id. NaN: the id is no number. */
static double name_of_row(const cst_check_sample *s, int64_t i, bool ids) {
    const cst_check_source *source = s->source;
    int64_t row = s->position[i];
    row = source->rows ? source->rows[row] : row;
    if (!ids)
        return (double)row;
    const char *id = cst_pool_id(source->pool, source->split, row);
    char *end = NULL;
    if (!id || !*id)
        return NAN;
    double number = cst_strtod(id, &end);
    return *end ? NAN : number;
}

/* Whether every value is the number of its row, from 0 or 1, or its id. */
static bool are_names(const cst_check_sample *s, const double *values, bool ids) {
    double from = ids ? 0 : values[0] - name_of_row(s, 0, false);
    if (fabs(from) > 1)
        return false;
    for (int64_t i = 0; i < s->rows; i++) {
        double name = name_of_row(s, i, ids) + from;
        if (!(fabs(values[i] - name) <= 2e-7 * fabs(name)))
            return false;
    }
    return true;
}

static cst_status filled(cst_context *context, const cst_check_sample *s, const double *values,
                         cst_filled *out) {
    double *targets = cst_alloc(context, (size_t)s->rows, sizeof *targets);
    if (!targets)
        return CST_ERROR_MEMORY;
    for (int64_t i = 0; i < s->rows; i++)
        targets[i] = cst_view_target(s->view, s->position[i])[0];
    cst_status status = cst_check_filled(context, values, targets, s->rows, true, out);
    cst_free(context, targets);
    return status;
}

static cst_status read_member(cst_context *worker, void *user, int64_t k) {
    const reading *r = user;
    const cst_check_sample *s = r->sample;
    size_t outputs = (size_t)s->view->classes;
    size_t cells = (size_t)s->rows * outputs;
    cst_member_facts *m = &r->facts[k];
    cst_value_facts *of = &r->of[k];
    cst_association *a = &m->association;
    int32_t varying = 0;
    float *rows = cst_alloc(worker, cells, sizeof *rows);
    double *copy = cst_alloc(worker, (size_t)s->rows, sizeof *copy);
    cst_status status = rows && copy ? CST_OK : CST_ERROR_MEMORY;
    CST_THEN(cst_check_read(worker, s, (int32_t)k, 0, s->rows, rows));
    if (status == CST_OK) {
        bool varies = false;
        double ratio = 0;
        of->equal = true;
        for (size_t i = 0; i < cells; i++) {
            double y = cst_view_target(s->view, s->position[i / outputs])[i % outputs];
            double off = (double)rows[i] - y;
            m->hash = cst_check_mix(m->hash, rows[i]);
            of->equal = of->equal && fabs(off) <= 2e-7 * fabs(y);
        }
        for (int32_t d = 0; d < s->view->classes; d++) {
            double deviation = 0;
            double orders[CST_CHECK_ORDERS];
            moments(s, rows, d, &m->mean[d], &deviation);
            m->scale[d] = deviation > 0 ? 1 / deviation : 0;
            varies = varies || deviation > 0;
            if (!(deviation > 0) || !(s->label_scale[d] > 0))
                continue;
            correlate(s, rows, d, m->mean, m->scale, &m->slope[d], orders);
            a->r += m->slope[d];
            ratio += deviation * s->label_scale[d];
            for (int32_t o = 0; o < s->orders; o++)
                a->order_r[o] += orders[o];
            varying++;
        }
        double count = varying > 0 ? varying : 1;
        a->constant = !varies;
        a->r /= count;
        a->z = a->r * sqrt((double)s->rows);
        for (int32_t o = 0; o < s->orders; o++) {
            a->order_r[o] /= count;
            a->order_z[o] = a->order_r[o] * sqrt((double)s->rows);
        }
        /* In other units the spread says nothing. */
        a->spread = ratio / count;
        a->spread = a->spread < 0.1 || a->spread > 5 ? 1 : a->spread;
        if (outputs == 1) {
            correlate_logs(s, rows, of);
            for (int64_t i = 0; i < s->rows; i++)
                copy[i] = (double)rows[i];
            of->row_number = varies && are_names(s, copy, false);
            of->ids = varies && are_names(s, copy, true);
            status = filled(worker, s, copy, &m->filled);
        }
    }
    cst_free(worker, rows);
    cst_free(worker, copy);
    return status;
}

/* ---- the target itself ---- */

static cst_status target_is_index(cst_context *context, const reading *r) {
    const cst_check_sample *s = r->sample;
    double *copy = cst_alloc(context, (size_t)s->rows, sizeof *copy);
    if (!copy)
        return CST_ERROR_MEMORY;
    for (int64_t i = 0; i < s->rows; i++)
        copy[i] = cst_view_target(s->view, s->position[i])[0];
    bool numbers = are_names(s, copy, false);
    bool ids = !numbers && are_names(s, copy, true);
    bool good = false;
    for (int32_t k = 0; k < s->view->members; k++)
        good = good || r->facts[k].association.z >= 4;
    cst_free(context, copy);
    if (!(numbers || ids) || s->label_scale[0] <= 0)
        return CST_OK;
    return cst_findings_add(context, r->findings, "labels", !good, NULL, 0,
                            "split '%.60s': the targets are the %s%s", s->source->split,
                            numbers ? "numbers of the rows" : "ids",
                            good ? ": is that the column to predict?"
                                 : ", and no member predicts them: another column is probably the "
                                   "target");
}

/* Whether no other member is all but perfect: easy targets are met by several. */
static bool only_one(const reading *r, int32_t k) {
    for (int32_t j = 0; j < r->sample->view->members; j++)
        if (j != k && r->facts[j].association.r > 0.999)
            return false;
    return true;
}

static cst_status is_target(cst_context *context, const reading *r) {
    const cst_check_sample *s = r->sample;
    cst_status status = CST_OK;
    for (int32_t k = 0; status == CST_OK && k < s->view->members; k++) {
        cst_member_facts *m = &r->facts[k];
        const cst_value_facts *of = &r->of[k];
        bool linear = s->rows >= CST_CHECK_FEWEST && 1 - fabs(m->association.r) < 1e-11;
        if (m->association.constant)
            continue;
        if (of->equal || linear) {
            m->association.explained = true;
            status = cst_findings_add(
                context, r->findings, "leak", s->rows >= FEWEST_FATAL && only_one(r, k), &k, 1,
                "'%.60s' is the target itself%s in every one of %lld rows, not a prediction; "
                "remove it from the pool",
                cst_check_name(s->source, k), of->equal ? "" : " times a factor",
                (long long)s->rows);
        } else if (of->row_number || of->ids) {
            m->association.explained = true;
            status = cst_findings_add(context, r->findings, "ids", false, &k, 1,
                                      "'%.60s' is the %s, not a prediction; remove it from the "
                                      "pool",
                                      cst_check_name(s->source, k),
                                      of->ids ? "id of each row" : "number of each row");
        }
    }
    return status;
}

/* An output that every member gives exactly is no prediction: ids, most likely. */
static cst_status known_outputs(cst_context *context, const reading *r) {
    const cst_check_sample *s = r->sample;
    cst_status status = CST_OK;
    size_t outputs = (size_t)s->view->classes;
    for (size_t d = 0; status == CST_OK && d < outputs; d++) {
        bool known = s->label_scale[d] > 0;
        for (int32_t k = 0; known && k < s->view->members; k++)
            known = 1 - r->facts[k].slope[d] < 1e-11;
        if (known)
            status = cst_findings_add(
                context, r->findings, "labels", true, NULL, 0,
                "split '%.60s': output %d is the target itself in every member and row, and no "
                "prediction (ids?): remove that column from the targets and from every file",
                s->source->split, (int)d);
    }
    return status;
}

/* ---- all ---- */

static cst_status together(cst_context *context, const reading *r) {
    const cst_check_sample *s = r->sample;
    int32_t count = 0;
    cst_together *found = cst_alloc(context, (size_t)s->view->members, sizeof *found);
    if (!found)
        return CST_ERROR_MEMORY;
    for (int32_t k = 0; k < s->view->members; k++)
        if (!r->facts[k].association.constant && !r->facts[k].association.copy &&
            !r->facts[k].association.explained)
            r->list[count++] = k;
    cst_status status = cst_check_together(context, s, r->facts, r->list, count, false, found);
    for (int32_t i = 0; status == CST_OK && i < count; i++)
        r->facts[r->list[i]].association.agreement = found[i].agreement;
    cst_free(context, found);
    return status;
}

cst_status cst_check_values(cst_context *context, const cst_check_sample *sample,
                            cst_findings *findings) {
    size_t members = (size_t)sample->view->members;
    size_t outputs = (size_t)sample->view->classes;
    size_t cells = members * outputs;
    reading r = {.sample = sample, .findings = findings};
    r.facts = cst_alloc(context, members, sizeof *r.facts);
    r.of = cst_alloc(context, members, sizeof *r.of);
    r.list = cst_alloc(context, members, sizeof *r.list);
    double *numbers = cst_alloc(context, 3 * cells, sizeof *numbers);
    cst_status status = r.facts && r.of && r.list && numbers ? CST_OK : CST_ERROR_MEMORY;
    for (size_t k = 0; status == CST_OK && k < members; k++) {
        r.facts[k].mean = numbers + k * outputs;
        r.facts[k].scale = numbers + cells + k * outputs;
        r.facts[k].slope = numbers + 2 * cells + k * outputs;
    }
    CST_THEN(cst_parallel_for(context, (int64_t)members, read_member, &r));
    CST_THEN(cst_check_copies(context, sample, r.facts, findings));
    if (sample->rows >= CST_CHECK_FEWEST) {
        CST_THEN(is_target(context, &r));
        bool unknown = false;
        if (outputs == 1) {
            bool good = false;
            for (size_t k = 0; r.facts && k < members; k++)
                good = good || r.facts[k].association.z >= 4;
            CST_THEN(target_is_index(context, &r));
            CST_THEN(cst_check_tell_targets(context, sample, good, &unknown, findings));
            CST_THEN(cst_check_tell_filled(context, sample, r.facts, findings));
        } else {
            CST_THEN(known_outputs(context, &r));
        }
        for (size_t k = 0; r.facts && unknown && k < members; k++)
            r.facts[k].association.explained = true;
        CST_THEN(together(context, &r));
        CST_THEN(cst_check_outputs(context, sample, r.facts, findings));
        CST_THEN(cst_check_order(context, sample, r.facts, findings));
        CST_THEN(cst_check_value_leaks(context, sample, r.facts, findings));
        CST_THEN(cst_check_value_scale(context, sample, r.facts, r.of, findings));
    }
    cst_free(context, r.facts);
    cst_free(context, r.of);
    cst_free(context, r.list);
    cst_free(context, numbers);
    return status;
}
