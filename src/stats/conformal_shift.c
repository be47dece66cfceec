/* Weighted conformal quantiles. See the header. */
#include "stats/conformal_shift.h"

#include "stats/ranks.h"

#include <float.h>
#include <math.h>

cst_status cst_weighted_scores_make(cst_context *context, const double *scores,
                                    const double *weights, int64_t samples,
                                    cst_weighted_scores *out) {
    size_t count = (size_t)(samples > 0 ? samples : 0);
    *out = (cst_weighted_scores){.samples = samples,
                                 .score = cst_alloc(context, count, sizeof *out->score),
                                 .sum = cst_alloc(context, count, sizeof *out->sum)};
    cst_ranked *sorted = cst_alloc(context, count, sizeof *sorted);
    cst_status status = out->score && out->sum && sorted ? CST_OK : CST_ERROR_MEMORY;
    CST_THEN(cst_rank_sort_rows(context, scores, samples, sorted));
    double squares = 0;
    for (int64_t i = 0; status == CST_OK && i < samples; i++) {
        double weight = weights[sorted[i].index];
        out->score[i] = sorted[i].value;
        out->total += weight;
        out->sum[i] = out->total;
        squares += weight * weight;
    }
    out->effective = squares > 0 ? out->total * out->total / squares : 0;
    cst_free(context, sorted);
    return status;
}

void cst_weighted_scores_free(cst_context *context, cst_weighted_scores *scores) {
    cst_free(context, scores->score);
    cst_free(context, scores->sum);
    *scores = (cst_weighted_scores){0};
}

double cst_weighted_threshold(const cst_weighted_scores *scores, double alpha, double own) {
    /* alpha is a decimal that was rounded: sums that should be equal are not taken as less */
    double needed = (1 - alpha) * (scores->total + own) * (1 - 64 * DBL_EPSILON);
    int64_t low = 0;
    int64_t high = scores->samples;
    if (!(scores->total > 0))
        return INFINITY;
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        if (scores->sum[middle] < needed)
            low = middle + 1;
        else
            high = middle;
    }
    return low < scores->samples ? scores->score[low] : INFINITY;
}

double cst_density_at(const double *levels, const double *density, int64_t rows, double level) {
    int64_t low = 0;
    int64_t high = rows;
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        if (levels[middle] < level)
            low = middle + 1;
        else
            high = middle;
    }
    return low < rows ? density[low] : 0;
}
