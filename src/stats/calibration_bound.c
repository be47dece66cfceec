/* Intervals of the expected calibration error and of accuracies of bins. docs/bounds.md. */
#include "stats/calibration_bound.h"

#include "stats/samples.h"
#include "stats/statistics.h"

#include <math.h>

/* Sign changes that the lower bound looks at are fewer than this. */
enum { CHANGES = 32 };

/* best [CHANGES]: largest sum of s_b (correct - confidence) over signs with that many changes. */
static void best_signs(const double *sum, int32_t bins, int32_t changes, double *best) {
    double reach[CHANGES][2];
    for (int32_t c = 0; c < changes; c++)
        reach[c][0] = reach[c][1] = c == 0 ? 0 : -INFINITY;
    for (int32_t b = 0; b < bins; b++) {
        const double *bin = sum + (size_t)b * CST_BIN_WIDTH;
        double gap = bin[CST_BIN_CORRECT] - bin[CST_BIN_CONFIDENCE];
        for (int32_t c = changes - 1; c >= 0; c--) {
            double turned[2] = {-INFINITY, -INFINITY};
            if (c > 0 && b > 0) {
                turned[0] = reach[c - 1][1];
                turned[1] = reach[c - 1][0];
            }
            reach[c][0] = fmax(reach[c][0], turned[0]) + gap;
            reach[c][1] = fmax(reach[c][1], turned[1]) - gap;
        }
    }
    for (int32_t c = 0; c < changes; c++)
        best[c] = fmax(reach[c][0], reach[c][1]);
}

static double bernstein(double moment, double price, double n) {
    return sqrt(2 * moment * price / n) + price / (3 * n);
}

static void put_bound(const double *sum, int32_t bins, double n, double delta, cst_ece_bound *out) {
    double debiased = 0;
    double mean = fmin(sum[CST_SUM_GAPS] / n, 1);
    double price = log(3 / delta);
    double best[CHANGES];
    int32_t changes = bins < CHANGES ? bins : CHANGES;
    cst_bin_errors(sum + CST_SUMS, bins, n, &out->value, &debiased);
    best_signs(sum + CST_SUMS, bins, changes, best);
    out->moment = cst_binary_kl_upper(mean, price / n);
    out->upper = fmin(out->value + bernstein(out->moment, price, n), 1);
    out->lower = 0;
    double ways = log(2.0 * changes); /* log(2 D C(B - 1, c)) */
    for (int32_t c = 0; c < changes; c++) {
        out->lower = fmax(out->lower, best[c] / n - bernstein(out->moment, price + ways, n));
        ways += log((double)(bins - 1 - c) / (c + 1));
    }
}

static cst_status check_delta(cst_context *context, double delta) {
    if (delta > 0 && delta < 1)
        return CST_OK;
    return cst_fail(context, CST_ERROR_ARGUMENT, "delta must be between 0 and 1");
}

cst_status cst_ece_bound_of(cst_context *context, const float *probabilities, int64_t rows,
                            int32_t classes, const int32_t *labels, int bins, double delta,
                            cst_ece_bound *out) {
    *out = (cst_ece_bound){NAN, NAN, NAN, NAN};
    CST_SCOPE(scope);
    cst_samples samples;
    int32_t count = 0;
    double *sum;
    CST_TRY(check_delta(context, delta));
    CST_TRY(cst_bins_check(context, bins, &count));
    CST_TRY(cst_samples_make(context, scope, probabilities, rows, classes, labels, &samples));
    CST_TRY(cst_samples_sum(context, scope, &samples, count, &sum));
    put_bound(sum, count, (double)rows, delta, out);
    return CST_OK;
}

static cst_status check_confidences(cst_context *context, const double *confidences, int64_t rows) {
    for (int64_t i = 0; i < rows; i++)
        if (!(confidences[i] >= 0 && confidences[i] <= 1))
            return cst_fail(context, CST_ERROR_INPUT,
                            "the confidence of row %lld is %g, outside [0, 1]", (long long)i,
                            confidences[i]);
    return CST_OK;
}

cst_status cst_mass_edges(cst_context *context, const double *confidences, int64_t rows,
                          int32_t bins, double *edges, int32_t *used) {
    if (rows < 1 || bins < 1)
        return cst_fail(context, CST_ERROR_ARGUMENT,
                        "bins of equal mass need at least one row and one bin");
    CST_TRY(check_confidences(context, confidences, rows));
    CST_SCOPE(scope);
    CST_NEW(context, scope, cst_rank_item, sorted, rows);
    cst_rank_sort(confidences, rows, sorted);
    int32_t count = 0;
    int64_t start = 0; /* rows below the last edge */
    int64_t least = (rows - 1) / (2 * (int64_t)bins) + 1;
    edges[0] = 0;
    for (int32_t b = 1; b < bins; b++) {
        int64_t place = rows / bins * b + rows % bins * b / bins;
        double edge = sorted[place].value;
        while (place > start && sorted[place - 1].value >= edge)
            place--; /* equal confidences are in one bin */
        if (edge > edges[count] && edge < 1 && place - start >= least) {
            edges[++count] = edge;
            start = place;
        }
    }
    edges[++count] = 1;
    *used = count;
    return CST_OK;
}

int32_t cst_mass_bin(const double *edges, int32_t bins, double confidence) {
    int32_t low = 0;
    int32_t high = bins; /* the bin is in [low, high) */
    while (high - low > 1) {
        int32_t middle = low + (high - low) / 2;
        if (confidence >= edges[middle])
            low = middle;
        else
            high = middle;
    }
    return low;
}

cst_status cst_certify_bins(cst_context *context, const double *edges, int32_t bins,
                            cst_judged_rows rows, double delta, cst_certified_bin *certified,
                            double *epsilon, double *hoeffding) {
    CST_TRY(check_delta(context, delta));
    CST_TRY(check_confidences(context, rows.confidences, rows.count));
    for (int32_t b = 0; b < bins; b++)
        certified[b] = (cst_certified_bin){.from = edges[b], .to = edges[b + 1], .upper = 1};
    for (int64_t i = 0; i < rows.count; i++) {
        cst_certified_bin *bin = &certified[cst_mass_bin(edges, bins, rows.confidences[i])];
        bin->count++;
        bin->correct += rows.correct[i] != 0;
    }
    double side = delta / (2.0 * bins);
    *epsilon = 0;
    *hoeffding = 0;
    for (int32_t b = 0; b < bins; b++) {
        cst_certified_bin *bin = &certified[b];
        bin->value = (bin->from + bin->to) / 2;
        if (bin->count > 0) {
            bin->value = (double)bin->correct / (double)bin->count;
            bin->lower = cst_binomial_lower(bin->correct, bin->count, side);
            bin->upper = cst_binomial_upper(bin->correct, bin->count, side);
        }
        *epsilon = fmax(*epsilon, fmax(bin->value - bin->lower, bin->upper - bin->value));
        *hoeffding = fmax(*hoeffding, sqrt(-log(side) / (2 * (double)bin->count)));
    }
    return CST_OK;
}
