/* Paired t-test, McNemar's test, Spearman's rank correlation. docs/json.md#compare. */
#include "stats/statistics.h"

#include <math.h>
#include <stdlib.h>

double cst_paired_mean(const double *loss, const double *other, int64_t rows, double *se) {
    double sum = 0;
    double square = 0;
    for (int64_t i = 0; i < rows; i++) {
        double d = loss[i] - other[i];
        sum += d;
        square += d * d;
    }
    double n = (double)rows;
    double mean = sum / n;
    *se = sqrt(fmax(square / n - mean * mean, 0) / n);
    return mean;
}

cst_status cst_paired_t_test(cst_context *context, const double *a, const double *b,
                             int64_t samples, cst_t_test *out) {
    if (samples < 2)
        return cst_fail(context, CST_ERROR_ARGUMENT,
                        "a paired t-test needs at least 2 samples: got %lld", (long long)samples);
    cst_t_test test = {.samples = samples, .df = (double)(samples - 1)};
    double n = (double)samples;
    double first = a[0] - b[0];
    double sum = 0; /* of differences less the first one, which keeps the digits of large values */
    bool equal = true;
    for (int64_t i = 0; i < samples; i++) {
        double difference = a[i] - b[i];
        if (!isfinite(difference))
            return cst_fail(context, CST_ERROR_INPUT,
                            "sample %lld: %g minus %g is not finite; leave such samples out",
                            (long long)i, a[i], b[i]);
        equal = equal && difference == first;
        sum += difference - first;
    }
    test.mean_difference = first + sum / n;
    if (equal) {
        test.t = first == 0 ? 0 : copysign(HUGE_VAL, first);
        test.p = first == 0 ? 1 : 0;
        *out = test;
        return CST_OK;
    }
    double squares = 0;
    double rest = 0; /* what rounding of the mean leaves */
    for (int64_t i = 0; i < samples; i++) {
        double deviation = a[i] - b[i] - test.mean_difference;
        squares += deviation * deviation;
        rest += deviation;
    }
    test.standard_error = sqrt((squares - rest * rest / n) / test.df / n);
    test.t = test.mean_difference / test.standard_error;
    test.p = cst_student_t_two_sided(test.t, test.df);
    *out = test;
    return CST_OK;
}

void cst_bonferroni(double *p, int64_t tests) {
    for (int64_t i = 0; i < tests; i++)
        p[i] = fmin((double)tests * p[i], 1);
}

void cst_mcnemar(const unsigned char *first, const unsigned char *second, int64_t samples,
                 cst_mcnemar_test *out) {
    *out = (cst_mcnemar_test){.samples = samples};
    for (int64_t i = 0; i < samples; i++) {
        out->only_first += first[i] && !second[i];
        out->only_second += !first[i] && second[i];
    }
    int64_t discordant = out->only_first + out->only_second;
    int64_t fewer = out->only_first < out->only_second ? out->only_first : out->only_second;
    out->exact = discordant < CST_MCNEMAR_EXACT_BELOW;
    if (out->exact) {
        out->statistic = (double)fewer;
        out->p = cst_binomial_two_sided(fewer, discordant);
    } else {
        double excess = fmax((double)(discordant - 2 * fewer) - 1, 0);
        out->statistic = excess * excess / (double)discordant;
        out->p = cst_chi_square_upper(out->statistic, 1);
    }
}

CST_BY(ascending, cst_rank_item, CST_UP(value), CST_UP(index), 0)

void cst_rank_sort(const double *values, int64_t count, cst_rank_item *sorted) {
    for (int64_t i = 0; i < count; i++)
        sorted[i] = (cst_rank_item){values[i], i};
    qsort(sorted, (size_t)count, sizeof *sorted, ascending);
}

cst_status cst_rank_sort_rows(cst_context *context, const double *values, int64_t count,
                              cst_rank_item *sorted) {
    for (int64_t i = 0; i < count; i++) {
        cst_trim_item(context, i);
        sorted[i] = (cst_rank_item){values[i], i};
    }
    return cst_sort(context, sorted, (size_t)count, sizeof *sorted, ascending);
}

/* Ranks 1..count of finite values; equal ones get the mean of their ranks. */
static cst_status average_ranks(cst_context *context, const double *values, int64_t count,
                                double *ranks) {
    CST_SCOPE(scope);
    CST_NEW(context, scope, cst_rank_item, sorted, count);
    CST_TRY(cst_rank_sort_rows(context, values, count, sorted));
    for (int64_t first = 0, end = 0; first < count; first = end) {
        while (end < count && sorted[end].value == sorted[first].value)
            end++;
        for (int64_t i = first; i < end; i++)
            ranks[sorted[i].index] = 0.5 * (double)(first + 1 + end);
    }
    return CST_OK;
}

/* Twice the deviations of the ranks from their mean: whole numbers, whose products are exact. */
static cst_status deviations(cst_context *context, const char *which, const double *values,
                             int64_t samples, double *out) {
    for (int64_t i = 0; i < samples; i++)
        if (!isfinite(values[i]))
            return cst_fail(context, CST_ERROR_INPUT,
                            "value %lld of the %s array is %g: ranks need finite values",
                            (long long)i, which, values[i]);
    CST_TRY(average_ranks(context, values, samples, out));
    bool equal = true;
    for (int64_t i = 0; i < samples; i++) {
        out[i] = 2 * out[i] - (double)(samples + 1);
        equal = equal && out[i] == 0;
    }
    if (equal)
        return cst_fail(context, CST_ERROR_INPUT,
                        "all values of the %s array are %g: there is no order to correlate", which,
                        values[0]);
    return CST_OK;
}

static double product(const double *x, const double *y, int64_t samples) {
    double sum = 0;
    for (int64_t i = 0; i < samples; i++)
        sum += x[i] * y[i];
    return sum;
}

/* Share of the orders of y with |sum of products| as large as given; y is reordered. */
static double share_of_orders(const double *x, double *y, int count, double observed) {
    int turn[CST_SPEARMAN_EXACT_UP_TO] = {0};
    double orders = 1;
    double reached = 1;
    for (int i = 1; i < count;) {
        if (turn[i] >= i) {
            turn[i++] = 0;
            continue;
        }
        int with = i % 2 ? turn[i] : 0;
        double keep = y[with];
        y[with] = y[i];
        y[i] = keep;
        turn[i]++;
        i = 1;
        orders += 1;
        reached += fabs(product(x, y, count)) >= fabs(observed);
    }
    return reached / orders;
}

static void correlate(const double *x, double *y, int64_t samples, cst_rank_correlation *out) {
    double xx = product(x, x, samples);
    double yy = product(y, y, samples);
    double xy = product(x, y, samples);
    /* Equal sums, the usual case, divide without rounding where the orders are the same. */
    double rho = xx == yy ? xy / xx : xy / (sqrt(xx) * sqrt(yy));
    *out = (cst_rank_correlation){.samples = samples, .rho = fmax(fmin(rho, 1), -1)};
    out->exact = samples <= CST_SPEARMAN_EXACT_UP_TO;
    if (out->exact) {
        out->p = share_of_orders(x, y, (int)samples, xy);
        return;
    }
    double df = (double)(samples - 2);
    double rest = (1 - out->rho) * (1 + out->rho);
    out->p = rest > 0 ? cst_student_t_two_sided(out->rho * sqrt(df / rest), df) : 0;
}

cst_status cst_spearman(cst_context *context, const double *x, const double *y, int64_t samples,
                        cst_rank_correlation *out) {
    CST_SCOPE(scope);
    CST_NEW(context, scope, double, x_ranks, samples);
    CST_NEW(context, scope, double, y_ranks, samples);
    CST_TRY(deviations(context, "first", x, samples, x_ranks));
    CST_TRY(deviations(context, "second", y, samples, y_ranks));
    correlate(x_ranks, y_ranks, samples, out);
    return CST_OK;
}
