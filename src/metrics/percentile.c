/*
 * Percentiles of bootstrap draws. Under every interval. method.md section 8.
 */
#include "metrics/percentile.h"

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
