/* Scores of predictions of lists, and their intervals over groups of rows. docs/topk.md#scores. */
#include "tasks/topk/topk.h"

#include "stats/resample.h"

#include <math.h>
#include <string.h>

enum { BINS = 15, TOP = 5, UNITS = 20000 };

/* Sums over rows times weights: loss, hits, hits among five, Brier, and by bins of confidence how
 * far it is above the hits; then 1. */
enum { LOSS, HIT, HIT5, BRIER, BIN, SUMS = BIN + BINS };

static void add_row(const float *outcome, double weight, double sum[SUMS + 1]) {
    double confidence = (double)outcome[CST_TOPK_CONFIDENCE];
    bool hit = outcome[CST_TOPK_RANK] < 1;
    sum[LOSS] += weight * (double)outcome[CST_TOPK_NLL];
    sum[HIT] += weight * hit;
    sum[HIT5] += weight * (outcome[CST_TOPK_RANK] < TOP);
    sum[BRIER] += weight * (double)outcome[CST_TOPK_SQUARES];
    sum[BIN + (int)fmin(confidence * BINS, BINS - 1)] += weight * (confidence - hit);
    sum[SUMS] += weight;
}

/* Scores from means; step: between the means. */
static void take_scores(const double *mean, int64_t step, double out[CST_TOPK_SCORES]) {
    double ece = 0;
    for (int b = 0; b < BINS; b++)
        ece += fabs(mean[(BIN + b) * step]);
    const double scores[CST_TOPK_SCORES] = {
        mean[LOSS * step], exp(mean[LOSS * step]), mean[HIT * step], mean[HIT5 * step], ece,
        mean[BRIER * step]};
    memcpy(out, scores, sizeof scores);
}

typedef struct scores_job {
    const cst_view *view;
    const float *outcomes;
} scores_job;

static cst_status scores_block(cst_context *context, void *user, int64_t block, double *sum) {
    const scores_job *job = user;
    int64_t first = cst_block_first(block);
    (void)context;
    for (int64_t i = first; i < first + cst_block_size(job->view->rows, block); i++)
        add_row(job->outcomes + i * CST_TOPK_OUTCOME, cst_view_weight(job->view, i), sum);
    return CST_OK;
}

cst_status cst_topk_scores(cst_context *context, const cst_view *view, const float *outcomes,
                           double out[CST_TOPK_SCORES]) {
    scores_job job = {view, outcomes};
    double sum[SUMS + 1];
    CST_TRY(
        cst_reduce_blocks(context, cst_block_count(view->rows), SUMS + 1, scores_block, &job, sum));
    for (int s = 0; s < SUMS; s++)
        sum[s] /= sum[SUMS];
    take_scores(sum, 1, out);
    return CST_OK;
}

/* ---- units that resamples draw ---- */

typedef struct placed {
    int64_t group, row;
} placed;

CST_BY(by_group, placed, CST_UP(group), CST_UP(row), 0)

cst_status cst_topk_units(cst_context *context, cst_scope *scope, const cst_view *view,
                          int64_t **unit, int64_t *count) {
    size_t rows = (size_t)view->rows;
    CST_TAKE(context, scope, *unit, rows);
    if (!view->groups) {
        int64_t step = (view->rows + UNITS - 1) / UNITS;
        step = step < 1 ? 1 : step;
        for (int64_t i = 0; i < view->rows; i++)
            (*unit)[i] = i / step;
        *count = (view->rows + step - 1) / step;
        return CST_OK;
    }
    CST_SCOPE(own);
    CST_NEW(context, own, placed, all, rows);
    for (int64_t i = 0; i < view->rows; i++)
        all[i] = (placed){view->groups[view->index ? view->index[i] : i], i};
    CST_TRY(cst_sort(context, all, rows, sizeof *all, by_group));
    *count = 0;
    for (size_t i = 0; i < rows; i++) {
        *count += i == 0 || all[i].group != all[i - 1].group;
        (*unit)[all[i].row] = *count - 1;
    }
    return CST_OK;
}

/* Scores of one method on the rows and on each resample: drawn [CST_TOPK_SCORES][resamples]. */
static cst_status draw(cst_context *context, const cst_view *view, const int64_t *unit,
                       int64_t units, const float *outcomes, int32_t resamples, uint64_t seed,
                       double value[CST_TOPK_SCORES], double *drawn) {
    cst_ratio ratios[SUMS];
    double mean[SUMS];
    CST_SCOPE(scope);
    CST_NEW(context, scope, double, sums, (SUMS + 1) * (size_t)units);
    CST_NEW(context, scope, double, means, SUMS *(size_t)resamples);
    for (int64_t i = 0; i < view->rows; i++) {
        double one[SUMS + 1] = {0};
        add_row(outcomes + i * CST_TOPK_OUTCOME, cst_view_weight(view, i), one);
        for (int s = 0; s <= SUMS; s++)
            sums[s * units + unit[i]] += one[s];
    }
    for (int s = 0; s < SUMS; s++)
        ratios[s] = (cst_ratio){.numerator = sums + s * units, .denominator = sums + SUMS * units};
    CST_TRY(cst_ratios_bootstrap(context, ratios, SUMS, units, resamples, seed, mean, means));
    take_scores(mean, 1, value);
    for (int32_t r = 0; r < resamples; r++) {
        double one[CST_TOPK_SCORES];
        take_scores(means + r, resamples, one);
        for (int s = 0; s < CST_TOPK_SCORES; s++)
            drawn[s * resamples + r] = one[s];
    }
    return CST_OK;
}

cst_status cst_topk_bootstrap(cst_context *context, const cst_view *view,
                              const float *const *outcomes, int32_t methods, int32_t reference,
                              int32_t resamples, uint64_t seed, cst_interval *interval,
                              cst_interval *difference, double *p) {
    size_t cells = CST_TOPK_SCORES * (size_t)resamples;
    int64_t units = 0;
    int64_t *unit;
    CST_SCOPE(scope);
    CST_TRY(cst_topk_units(context, scope, view, &unit, &units));
    CST_NEW(context, scope, double, drawn, cells *(size_t)methods);
    CST_NEW(context, scope, double, apart, resamples);
    CST_NEW(context, scope, double, value, CST_TOPK_SCORES *(size_t)methods);
    for (int32_t m = 0; m < methods; m++)
        CST_TRY(draw(context, view, unit, units, outcomes[m], resamples, seed,
                     value + m * CST_TOPK_SCORES, drawn + (size_t)m * cells));
    for (int32_t m = 0; m < methods; m++)
        for (int s = 0; s < CST_TOPK_SCORES; s++) {
            int32_t at = m * CST_TOPK_SCORES + s;
            const double *mine = drawn + (size_t)at * (size_t)resamples;
            const double *other =
                drawn + (size_t)(reference * CST_TOPK_SCORES + s) * (size_t)resamples;
            int32_t sides[2] = {0, 0};
            for (int32_t r = 0; r < resamples; r++) {
                apart[r] = mine[r] - other[r];
                sides[0] += apart[r] <= 0;
                sides[1] += apart[r] >= 0;
            }
            int32_t least = sides[0] < sides[1] ? sides[0] : sides[1];
            p[at] = fmin(fmax(2.0 * least, 2) / resamples, 1);
            difference[at] = cst_interval_of(apart, resamples,
                                             value[at] - value[reference * CST_TOPK_SCORES + s]);
        }
    for (int32_t m = 0; m < methods; m++)
        for (int s = 0; s < CST_TOPK_SCORES; s++) {
            int32_t at = m * CST_TOPK_SCORES + s;
            interval[at] =
                cst_interval_of(drawn + (size_t)at * (size_t)resamples, resamples, value[at]);
        }
    return CST_OK;
}
