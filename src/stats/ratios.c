/*
 * Bootstrap of statistics that are ratios of sums over samples. Under the intervals of corruption,
 * long tail and domain shift. docs/robustness.md#corruption.
 */
#include "stats/ratios.h"

#include "stats/resample.h"

#include <math.h>
#include <string.h>

typedef struct ratio_job {
    const cst_ratio *ratios;
    int32_t count;
    int64_t rows;
    int32_t resamples;
    uint64_t seed;
    double *drawn;
} ratio_job;

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

/* Mean over groups of their own ratios, each row `times` (NULL: once). sums: [2][group_count]. */
static double group_mean(const cst_ratio *ratio, int64_t rows, const unsigned char *times,
                         double *sums) {
    double *below = sums + ratio->group_count;
    double total = 0;
    double groups = 0;
    memset(sums, 0, 2 * (size_t)ratio->group_count * sizeof *sums);
    for (int64_t i = 0; i < rows; i++) {
        double often = times ? (double)times[i] : 1;
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

/* The most groups that a statistic has. */
static int32_t most_groups(const cst_ratio *ratios, int32_t count) {
    int32_t most = 0;
    for (int32_t s = 0; s < count; s++)
        if (ratios[s].groups && ratios[s].group_count > most)
            most = ratios[s].group_count;
    return most;
}

static void score(const ratio_job *job, const cst_resample *drawn, double *sums, int64_t lanes,
                  int64_t stride, double *out) {
    for (int32_t s = 0; s < job->count; s++) {
        double numerator[CST_LANES];
        double denominator[CST_LANES];
        const cst_ratio *ratio = &job->ratios[s];
        if (ratio->groups) {
            for (int64_t l = 0; l < lanes; l++)
                out[s * stride + l] =
                    group_mean(ratio, job->rows, drawn->lane + l * drawn->padded, sums);
            continue;
        }
        weigh(ratio->numerator, drawn->count, job->rows, numerator);
        if (ratio->denominator)
            weigh(ratio->denominator, drawn->count, job->rows, denominator);
        for (int64_t l = 0; l < lanes; l++)
            out[s * stride + l] =
                quotient(numerator[l], ratio->denominator ? denominator[l] : (double)job->rows);
    }
}

static cst_status task(cst_context *context, void *user, int64_t batch) {
    const ratio_job *job = user;
    int64_t first = batch * CST_LANES;
    int64_t left = job->resamples - first;
    cst_resample drawn;
    double *sums =
        cst_alloc(context, 2 * (size_t)most_groups(job->ratios, job->count), sizeof *sums);
    cst_status status = cst_resample_make(context, job->rows, &drawn);
    if (!sums)
        status = CST_ERROR_MEMORY;
    if (status == CST_OK) {
        cst_resample_draw(&drawn, job->seed, (uint32_t)first);
        score(job, &drawn, sums, left < CST_LANES ? left : CST_LANES, job->resamples,
              job->drawn + first);
    }
    cst_resample_free(context, &drawn);
    cst_free(context, sums);
    return status;
}

cst_status cst_ratios_bootstrap(cst_context *context, const cst_ratio *ratios, int32_t count,
                                int64_t rows, int32_t resamples, uint64_t seed, double *value,
                                double *drawn) {
    ratio_job job = {ratios, count, rows, resamples, seed, drawn};
    double *sums = cst_alloc(context, 2 * (size_t)most_groups(ratios, count), sizeof *sums);
    if (!sums)
        return CST_ERROR_MEMORY;
    for (int32_t s = 0; s < count; s++) {
        double numerator = 0;
        double denominator = ratios[s].denominator ? 0 : (double)rows;
        for (int64_t i = 0; i < rows; i++) {
            numerator += ratios[s].numerator[i];
            denominator += ratios[s].denominator ? ratios[s].denominator[i] : 0;
        }
        value[s] = ratios[s].groups ? group_mean(&ratios[s], rows, NULL, sums)
                                    : quotient(numerator, denominator);
    }
    cst_free(context, sums);
    if (resamples < 1 || count < 1)
        return CST_OK;
    cst_status status = cst_stage(context, "intervals");
    return status == CST_OK
               ? cst_resample_all(context, resamples, CST_LANES, task, &job, drawn, count)
               : status;
}
