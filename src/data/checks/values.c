/* Facts of each member of a regression from its values; members that are the target. */
#include "data/checks/parts.h"

#include <math.h>
#include <string.h>

enum { FEWEST_FATAL = 40 }; /* rows of a member that is the target */

static double standard_target(const cst_check *s, int64_t row, int32_t d) {
    return (cst_view_target(s->view, row)[d] - s->label_mean[d]) * s->label_scale[d];
}

/* Mean and standard deviation of one column of the member's rows. */
static void moments(const cst_check *s, const float *rows, int32_t d, double *mean,
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
static void correlate(const cst_check *s, const float *rows, int32_t d, const double *mean,
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

/* Correlation and slope of log target on member, and of target on log member. */
static void correlate_logs(const cst_check *s, const float *rows, cst_value_facts *of) {
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

/* The name of row `i` of the sample: number or id; NaN: the id is no number. */
static double name_of_row(const cst_check *s, int64_t i, bool ids) {
    int64_t row = cst_check_row_number(s->source, s->position[i]);
    if (!ids)
        return (double)row;
    const char *id = cst_pool_id(s->source->pool, s->source->split, row);
    char *end = NULL;
    if (!id || !*id)
        return NAN;
    double number = cst_strtod(id, &end);
    return *end ? NAN : number;
}

/* Whether every value is the number of its row, from 0 or 1, or its id. */
static bool are_names(const cst_check *s, const double *values, bool ids) {
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

/* The first output of the targets. */
static cst_status first_targets(cst_context *context, cst_scope *scope, const cst_check *s,
                                double **out) {
    CST_TAKE(context, scope, *out, s->rows);
    for (int64_t i = 0; i < s->rows; i++)
        (*out)[i] = cst_view_target(s->view, s->position[i])[0];
    return CST_OK;
}

/* Facts of a single output. */
static cst_status read_single(cst_context *worker, const cst_check *s, const float *rows,
                              bool varies, cst_member_facts *m, cst_value_facts *of) {
    double *targets;
    CST_SCOPE(scope);
    CST_NEW(worker, scope, double, copy, s->rows);
    correlate_logs(s, rows, of);
    for (int64_t i = 0; i < s->rows; i++)
        copy[i] = (double)rows[i];
    of->row_number = varies && are_names(s, copy, false);
    of->ids = varies && are_names(s, copy, true);
    CST_TRY(first_targets(worker, scope, s, &targets));
    return cst_check_filled(worker, copy, targets, s->rows, true, &m->filled);
}

static cst_status read_member(cst_context *worker, void *user, int64_t k) {
    const cst_check *s = user;
    size_t outputs = (size_t)s->view->classes;
    size_t cells = (size_t)s->rows * outputs;
    cst_member_facts *m = &s->facts[k];
    cst_value_facts *of = &s->values[k];
    cst_association *a = &m->association;
    double root = sqrt((double)s->rows);
    double ratio = 0;
    int32_t varying = 0;
    bool varies = false;
    CST_SCOPE(scope);
    CST_NEW(worker, scope, float, rows, cells);
    CST_TRY(cst_check_read(worker, s, (int32_t)k, 0, s->rows, rows));
    of->equal = true;
    m->filled.far_row = -1;
    for (size_t i = 0; i < cells; i++) {
        double y = cst_view_target(s->view, s->position[i / outputs])[i % outputs];
        m->hash = cst_check_mix(m->hash, rows[i]);
        of->equal = of->equal && fabs((double)rows[i] - y) <= 2e-7 * fabs(y);
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
    a->z = a->r * root;
    for (int32_t o = 0; o < s->orders; o++) {
        a->order_r[o] /= count;
        a->order_z[o] = a->order_r[o] * root;
    }
    /* In other units the spread says nothing. */
    a->spread = ratio / count;
    a->spread = a->spread < 0.1 || a->spread > 5 ? 1 : a->spread;
    return outputs == 1 ? read_single(worker, s, rows, varies, m, of) : CST_OK;
}

cst_status cst_check_read_values(cst_check *check) {
    size_t outputs = (size_t)check->view->classes;
    size_t cells = (size_t)check->members * outputs;
    CST_TAKE(check->context, check->scope, check->facts, check->members);
    CST_TAKE(check->context, check->scope, check->values, check->members);
    CST_NEW(check->context, check->scope, double, numbers, 3 * cells);
    for (size_t k = 0; k < (size_t)check->members; k++) {
        check->facts[k].mean = numbers + k * outputs;
        check->facts[k].scale = numbers + cells + k * outputs;
        check->facts[k].slope = numbers + 2 * cells + k * outputs;
    }
    return cst_parallel_for(check->context, check->members, read_member, check);
}

cst_status cst_check_target_is_index(cst_check *s) {
    double *targets;
    CST_SCOPE(scope);
    if (s->view->classes != 1)
        return CST_OK;
    CST_TRY(first_targets(s->context, scope, s, &targets));
    bool numbers = are_names(s, targets, false);
    bool ids = !numbers && are_names(s, targets, true);
    bool good = cst_check_any_good(s);
    if (!(numbers || ids) || s->label_scale[0] <= 0)
        return CST_OK;
    return CST_SAY(s, "labels", !good, 0, "split '%.60s': the targets are the %s%s",
                   s->source->split, numbers ? "numbers of the rows" : "ids",
                   good ? ": is that the column to predict?"
                        : ", and no member predicts them: another column is probably the target");
}

/* Whether no other member is all but perfect: easy targets are met by several. */
static bool only_one(const cst_check *s, int32_t k) {
    for (int32_t j = 0; j < s->members; j++)
        if (j != k && s->facts[j].association.r > 0.999)
            return false;
    return true;
}

cst_status cst_check_is_target(cst_check *s) {
    for (int32_t k = 0; k < s->members; k++) {
        cst_association *a = &s->facts[k].association;
        const cst_value_facts *of = &s->values[k];
        bool linear = s->rows >= CST_CHECK_FEWEST && 1 - fabs(a->r) < 1e-11;
        bool target = of->equal || linear;
        if (a->constant || !(target || of->row_number || of->ids))
            continue;
        a->explained = true;
        if (target)
            CST_TRY(CST_SAY_OF(s, "leak", s->rows >= FEWEST_FATAL && only_one(s, k), k,
                               "'%.60s' is the target itself%s in every one of %lld rows, not a "
                               "prediction; remove it from the pool",
                               cst_check_name(s, k), of->equal ? "" : " times a factor",
                               (long long)s->rows));
        else
            CST_TRY(CST_SAY_OF(
                s, "ids", false, k, "'%.60s' is the %s, not a prediction; remove it from the pool",
                cst_check_name(s, k), of->ids ? "id of each row" : "number of each row"));
    }
    return CST_OK;
}

/* An output that every member gives exactly is no prediction: ids, most likely. */
cst_status cst_check_known_outputs(cst_check *s) {
    for (int32_t d = 0; d < s->view->classes && s->view->classes > 1; d++) {
        bool known = s->label_scale[d] > 0;
        for (int32_t k = 0; known && k < s->members; k++)
            known = 1 - s->facts[k].slope[d] < 1e-11;
        if (known)
            CST_TRY(CST_SAY(s, "labels", true, 0,
                            "split '%.60s': output %d is the target itself in every member and "
                            "row, and no prediction (ids?): remove that column from the targets "
                            "and from every file",
                            s->source->split, (int)d));
    }
    return CST_OK;
}
