/* Bootstrap of statistics that are ratios of sums over samples. See the header. */
#include "stats/resample.h"

#include <math.h>
#include <string.h>

/* sums [CST_LANES]: of the values, each as often as it was drawn; values NULL: 1 each. */
CST_VECTOR_CLONES
static void weigh(const double *values, const unsigned char *counts, int64_t rows, double *sums) {
    cst_half_lanes sum[2] = {0};
    for (int64_t i = 0; i < rows; i++)
        for (int h = 0; h < 2; h++) {
            cst_half_whole whole;
            cst_half_lanes times;
            cst_lane_counts(counts + i * CST_LANES, h, &whole, &times);
            sum[h] += values ? times * values[i] : times;
        }
    memcpy(sums, sum, sizeof sum);
}

static double quotient(double numerator, double denominator) {
    return denominator > 0 || denominator < 0 ? numerator / denominator : NAN;
}

/* Mean over groups of their own ratios, each row `times`. sums: [2][group_count]. */
static double group_mean(const cst_ratio *ratio, int64_t rows, const unsigned char *times,
                         double *sums) {
    double *below = sums + ratio->group_count;
    double total = 0;
    double groups = 0;
    memset(sums, 0, 2 * (size_t)ratio->group_count * sizeof *sums);
    for (int64_t i = 0; i < rows; i++) {
        double often = (double)times[i];
        sums[ratio->groups[i]] += often * ratio->numerator[i];
        below[ratio->groups[i]] += often * (ratio->denominator ? ratio->denominator[i] : 1);
    }
    for (int32_t g = 0; g < ratio->group_count; g++) {
        if (below[g] <= 0)
            continue;
        total += sums[g] / below[g];
        groups++;
    }
    return quotient(total, groups);
}

/* scratch: [2][groups], of the ratio that has the most. */
static void figures(const cst_bootstrap *b, const cst_resample *drawn, void *scratch, int64_t lanes,
                    int64_t stride, double *out) {
    int64_t rows = drawn->rows;
    for (int32_t s = 0; s < b->scores; s++) {
        double numerator[CST_LANES];
        double denominator[CST_LANES];
        const cst_ratio *ratio = (const cst_ratio *)b->user + s;
        for (int64_t l = 0; ratio->groups && l < lanes; l++)
            out[s * stride + l] = group_mean(ratio, rows, drawn->lane + l * drawn->padded, scratch);
        if (ratio->groups)
            continue;
        weigh(ratio->numerator, drawn->count, rows, numerator);
        if (ratio->denominator)
            weigh(ratio->denominator, drawn->count, rows, denominator);
        for (int64_t l = 0; l < lanes; l++)
            out[s * stride + l] =
                quotient(numerator[l], ratio->denominator ? denominator[l] : (double)rows);
    }
}

cst_status cst_ratios_bootstrap(cst_context *context, const cst_ratio *ratios, int32_t count,
                                int64_t rows, int32_t resamples, uint64_t seed, double *value,
                                double *drawn) {
    int32_t most = 0;
    for (int32_t s = 0; s < count; s++)
        if (ratios[s].groups && ratios[s].group_count > most)
            most = ratios[s].group_count;
    const cst_bootstrap b = {.samples = {rows},
                             .seed = {seed},
                             .resamples = resamples,
                             .methods = 1,
                             .scores = count,
                             .scratch = 2 * (size_t)most * sizeof(double),
                             .figures = figures,
                             .user = ratios};
    if (resamples > 0 && count > 0)
        CST_TRY(cst_stage(context, "intervals"));
    return cst_bootstrap_draw(context, &b, value, drawn);
}
