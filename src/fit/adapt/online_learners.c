/* Newton steps with forgetting, one labelled row at a time, and adaptive conformal sets.
 * docs/prediction.md#learning-online. */
#include "fit/adapt/online.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Parameters up to which every label is followed by a solution. */
enum { SOLVED_AT_ONCE = 100, PERIOD_MAX = 100 };

cst_status cst_newton_take(cst_context *context, cst_scope *scope, int32_t features,
                           int32_t classes, bool biases, double keep, double prior,
                           cst_newton *out) {
    *out = (cst_newton){.features = features,
                        .classes = classes,
                        .biases = biases ? classes : 0,
                        .keep = keep,
                        .prior = prior};
    out->size = features + out->biases;
    double work = pow((double)out->size / SOLVED_AT_ONCE, 3);
    out->period = work <= 1 ? 1 : work >= PERIOD_MAX ? PERIOD_MAX : (int32_t)work;
    size_t size = (size_t)out->size;
    CST_TAKE(context, scope, out->curvature, size * size);
    CST_TAKE(context, scope, out->factor, size * size);
    CST_TAKE(context, scope, out->pull, size);
    CST_TAKE(context, scope, out->shift, size);
    CST_TAKE(context, scope, out->mean, features);
    CST_TAKE(context, scope, out->row, classes);
    CST_TAKE(context, scope, out->side, classes);
    return CST_OK;
}

void cst_newton_predict(const cst_newton *newton, const double *x, double *out) {
    int32_t classes = newton->classes;
    double highest = -INFINITY;
    for (int32_t c = 0; c < classes; c++) {
        double z = x[c] + (newton->biases ? newton->shift[newton->features + c] : 0);
        for (int32_t j = 0; j < newton->features; j++)
            z += newton->shift[j] * x[(size_t)j * (size_t)classes + (size_t)c];
        out[c] = z;
        highest = z > highest ? z : highest;
    }
    double sum = 0;
    for (int32_t c = 0; c < classes; c++) {
        out[c] = exp(out[c] - highest);
        sum += out[c];
    }
    for (int32_t c = 0; c < classes; c++)
        out[c] /= sum;
}

/* Forgets, and adds the row's curvature at probabilities p. */
static void add_curvature(cst_newton *n, const double *x, const double *p) {
    size_t size = (size_t)n->size;
    size_t classes = (size_t)n->classes;
    double *mean = n->mean;
    for (size_t j = 0; j < (size_t)n->features; j++) {
        mean[j] = 0;
        for (size_t c = 0; c < classes; c++)
            mean[j] += p[c] * x[j * classes + c];
    }
    for (size_t i = 0; i < size; i++)
        for (size_t j = 0; j <= i; j++)
            n->curvature[i * size + j] *= n->keep;
    for (size_t i = 0; i < (size_t)n->features; i++)
        for (size_t j = 0; j <= i; j++) {
            double sum = 0;
            for (size_t c = 0; c < classes; c++)
                sum += p[c] * x[i * classes + c] * x[j * classes + c];
            n->curvature[i * size + j] += sum - mean[i] * mean[j];
        }
    for (size_t b = 0; b < (size_t)n->biases; b++) {
        double *line = n->curvature + ((size_t)n->features + b) * size;
        for (size_t j = 0; j < (size_t)n->features; j++)
            line[j] += p[b] * (x[j * classes + b] - mean[j]);
        for (size_t d = 0; d <= b; d++)
            line[(size_t)n->features + d] += (d == b ? p[b] : 0) - p[b] * p[d];
    }
}

/* shift = (curvature + prior)^-1 pull, by a Cholesky factor: the prior keeps it definite. */
static void solve(cst_newton *n) {
    size_t size = (size_t)n->size;
    double *l = n->factor;
    for (size_t i = 0; i < size; i++)
        for (size_t j = 0; j <= i; j++) {
            double sum = n->curvature[i * size + j] + (i == j ? n->prior : 0);
            for (size_t k = 0; k < j; k++)
                sum -= l[i * size + k] * l[j * size + k];
            /* Rounding alone makes less of it than the prior. */
            l[i * size + j] = i == j ? sqrt(fmax(sum, 0.5 * n->prior)) : sum / l[j * size + j];
        }
    for (size_t i = 0; i < size; i++) {
        double sum = n->pull[i];
        for (size_t k = 0; k < i; k++)
            sum -= l[i * size + k] * n->shift[k];
        n->shift[i] = sum / l[i * size + i];
    }
    for (size_t i = size; i-- > 0;) {
        double sum = n->shift[i];
        for (size_t k = i + 1; k < size; k++)
            sum -= l[k * size + i] * n->shift[k];
        n->shift[i] = sum / l[i * size + i];
    }
    bool finite = true;
    for (size_t i = 0; i < size; i++)
        finite = finite && fabs(n->shift[i]) <= CST_NEWTON_MAX;
    if (finite)
        return;
    memset(n->curvature, 0, size * size * sizeof *n->curvature); /* starts again */
    memset(n->pull, 0, size * sizeof *n->pull);
    memset(n->shift, 0, size * sizeof *n->shift);
}

/* keep * pull + H t - g, both sums over classes: H t is that of p_c (u_c - mean u), u being the
 * scores without the prior mean. */
static void add_pull(cst_newton *n, const double *x, const double *p, int32_t label) {
    size_t classes = (size_t)n->classes;
    double mean = 0;
    for (size_t c = 0; c < classes; c++) {
        double u = n->biases ? n->shift[(size_t)n->features + c] : 0;
        for (size_t j = 0; j < (size_t)n->features; j++)
            u += n->shift[j] * x[j * classes + c];
        n->side[c] = u;
        mean += p[c] * u;
    }
    for (size_t c = 0; c < classes; c++)
        n->side[c] = p[c] * (n->side[c] - mean) - p[c] + (c == (size_t)label ? 1 : 0);
    for (size_t j = 0; j < (size_t)n->features; j++) {
        double sum = 0;
        for (size_t c = 0; c < classes; c++)
            sum += x[j * classes + c] * n->side[c];
        n->pull[j] = n->keep * n->pull[j] + sum;
    }
    for (size_t b = 0; b < (size_t)n->biases; b++) {
        double *pull = n->pull + (size_t)n->features + b;
        *pull = n->keep * *pull + n->side[b];
    }
}

void cst_newton_learn(cst_newton *n, const double *x, int32_t label) {
    cst_newton_predict(n, x, n->row);
    add_curvature(n, x, n->row);
    add_pull(n, x, n->row, label);
    if (++n->since >= n->period) {
        n->since = 0;
        solve(n);
    }
}

/* ---- prediction sets ---- */

static bool in_range(double alpha, double step) {
    return alpha > 0 && alpha < 1 && step > 0 && step <= 1;
}

cst_status cst_aci_start(cst_context *context, double alpha, double step, cst_aci *out) {
    *out = (cst_aci){.alpha = alpha, .step = step, .level = alpha};
    if (in_range(alpha, step))
        return CST_OK;
    return cst_fail(context, CST_ERROR_ARGUMENT,
                    "adaptive conformal sets: alpha must be between 0 and 1, the step above 0 and "
                    "at most 1");
}

bool cst_aci_restore(cst_aci *aci) {
    bool valid =
        in_range(aci->alpha, aci->step) && isfinite(aci->level) && aci->rows >= 0 &&
        aci->missed >= 0 && aci->missed <= aci->rows && aci->count >= 0 &&
        aci->count <= CST_ACI_WINDOW && aci->count <= aci->rows && aci->next >= 0 &&
        (aci->count < CST_ACI_WINDOW ? aci->next == aci->count : aci->next < CST_ACI_WINDOW);
    for (int32_t i = 0; valid && i < aci->count; i++)
        valid = isfinite(aci->scores[i]);
    /* After any rows the level is alpha plus steps of alpha for hits and alpha - 1 for misses. */
    valid = valid && aci->level >= aci->alpha - aci->step * (double)aci->rows - 1e-6 &&
            aci->level <= aci->alpha + aci->step * (double)aci->rows + 1e-6;
    if (!valid)
        return false;
    memcpy(aci->sorted, aci->scores, (size_t)aci->count * sizeof *aci->sorted);
    qsort(aci->sorted, (size_t)aci->count, sizeof *aci->sorted, cst_by_f64);
    return true;
}

double cst_aci_threshold(const cst_aci *aci) {
    double place = ceil(((double)aci->count + 1) * (1 - aci->level) * (1 - 1e-15));
    if (aci->level >= 1 || place < 1)
        return -INFINITY;
    return place > (double)aci->count ? INFINITY : aci->sorted[(int32_t)place - 1];
}

/* The first place of `sorted` whose value is not below `value`. */
static int32_t place_of(const cst_aci *aci, int32_t count, double value) {
    int32_t low = 0;
    int32_t high = count;
    while (low < high) {
        int32_t middle = low + (high - low) / 2;
        if (aci->sorted[middle] < value)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static void keep(cst_aci *aci, double score) {
    if (aci->count == CST_ACI_WINDOW) {
        int32_t out = place_of(aci, aci->count, aci->scores[aci->next]);
        memmove(aci->sorted + out, aci->sorted + out + 1,
                (size_t)(aci->count - out - 1) * sizeof *aci->sorted);
        aci->count--;
    }
    int32_t in = place_of(aci, aci->count, score);
    memmove(aci->sorted + in + 1, aci->sorted + in,
            (size_t)(aci->count - in) * sizeof *aci->sorted);
    aci->sorted[in] = score;
    aci->scores[aci->next] = score;
    aci->count++;
    aci->next = aci->count < CST_ACI_WINDOW ? aci->count : (aci->next + 1) % CST_ACI_WINDOW;
}

void cst_aci_update(cst_aci *aci, bool covered, double score) {
    aci->rows++;
    aci->missed += !covered;
    aci->level += aci->step * (aci->alpha - (covered ? 0 : 1));
    if (isfinite(score))
        keep(aci, score);
}
