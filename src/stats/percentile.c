/* Percentiles of bootstrap draws. Under every interval. docs/json.md#evaluate. */
#include "stats/percentile.h"

#include <math.h>

/* Puts the values of [first, end) in such an order that values[rank] is the one of that rank:
 * smaller ones before it, larger ones behind. */
static void select_rank(double *values, int32_t first, int32_t end, int32_t rank) {
    while (end - first > 1) {
        double a = values[first];
        double b = values[first + (end - first) / 2];
        double c = values[end - 1];
        double pivot = fmax(fmin(a, b), fmin(fmax(a, b), c)); /* the median */
        int32_t less = first;
        int32_t more = end;
        for (int32_t i = first; i < more;) { /* three ways: less, equal, more */
            double value = values[i];
            if (value < pivot) {
                values[i++] = values[less];
                values[less++] = value;
            } else if (value > pivot) {
                values[i] = values[--more];
                values[more] = value;
            } else {
                i++;
            }
        }
        if (rank < less)
            end = less;
        else if (rank >= more)
            first = more;
        else
            return;
    }
}

double cst_percentile(double *values, int32_t count, double level) {
    double at = level * (double)(count - 1);
    int32_t below = (int32_t)at;
    select_rank(values, 0, count, below);
    if (below >= count - 1)
        return values[count - 1];
    select_rank(values, below + 1, count, below + 1);
    return values[below] + (at - below) * (values[below + 1] - values[below]);
}

cst_interval cst_interval_of(double *draws, int32_t count, double value) {
    double low = cst_percentile(draws, count, 0.025);
    return (cst_interval){value, low, cst_percentile(draws, count, 0.975)};
}

/* ---- several methods ---- */

cst_status cst_draws_make(cst_context *context, int32_t methods, int32_t scores, int32_t resamples,
                          cst_draws *out) {
    size_t cells = (size_t)methods * (size_t)scores;
    *out = (cst_draws){.methods = methods, .scores = scores, .resamples = resamples};
    out->value = cst_alloc(context, cells, sizeof *out->value);
    out->drawn = cst_alloc(context, cells, (size_t)resamples * sizeof *out->drawn);
    return out->value && out->drawn ? CST_OK : CST_ERROR_MEMORY;
}

void cst_draws_free(cst_context *context, cst_draws *draws) {
    cst_free(context, draws->value);
    cst_free(context, draws->drawn);
    *draws = (cst_draws){0};
}

double *cst_draws_of(const cst_draws *draws, int32_t method, int32_t score) {
    return draws->drawn +
           ((size_t)method * (size_t)draws->scores + (size_t)score) * (size_t)draws->resamples;
}

/* Of the draws of one method, less those of `base` where there is one: the defined ones. */
static int32_t defined(const double *draws, const double *base, int32_t resamples, double *out) {
    int32_t count = 0;
    for (int32_t r = 0; r < resamples; r++) {
        double value = draws[r] - (base ? base[r] : 0);
        if (!isnan(value))
            out[count++] = value;
    }
    return count;
}

static cst_interval interval_or_none(double *draws, int32_t count, double value) {
    return count > 0 ? cst_interval_of(draws, count, value) : (cst_interval){value, NAN, NAN};
}

static double share_beyond(const double *differences, int32_t count) {
    int32_t low = 0;
    int32_t high = 0;
    for (int32_t r = 0; r < count; r++) {
        low += differences[r] <= 0;
        high += differences[r] >= 0;
    }
    if (count == 0)
        return NAN;
    return fmin(1, fmax(2.0 * (low < high ? low : high) / count, 2.0 / count));
}

typedef struct summary {
    const cst_draws *draws;
    int32_t reference;
    cst_interval *interval;
    cst_interval *difference;
    double *p;
} summary;

/* One score of every method. */
static cst_status summarise(cst_context *worker, void *user, int64_t task) {
    const summary *s = user;
    const cst_draws *d = s->draws;
    int32_t score = (int32_t)task;
    double *part = cst_alloc(worker, (size_t)d->resamples, sizeof *part);
    if (!part)
        return CST_ERROR_MEMORY;
    const double *base = cst_draws_of(d, s->reference, score);
    for (int32_t m = 0; m < d->methods; m++) {
        size_t at = (size_t)m * (size_t)d->scores + (size_t)score;
        size_t other = (size_t)s->reference * (size_t)d->scores + (size_t)score;
        const double *own = cst_draws_of(d, m, score);
        int32_t count = defined(own, NULL, d->resamples, part);
        s->interval[at] = interval_or_none(part, count, d->value[at]);
        count = defined(own, base, d->resamples, part);
        s->p[at] = m == s->reference ? NAN : share_beyond(part, count);
        s->difference[at] = interval_or_none(part, count, d->value[at] - d->value[other]);
    }
    cst_free(worker, part);
    return CST_OK;
}

cst_status cst_draws_summarise(cst_context *context, const cst_draws *draws, int32_t reference,
                               cst_interval *interval, cst_interval *difference, double *p) {
    summary s = {draws, reference, interval, difference, p};
    return cst_parallel_for(context, draws->scores, summarise, &s);
}
