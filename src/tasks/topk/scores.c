/* Losses of members, scores of predictions of lists, and their intervals over groups of rows.
 * docs/topk.md#scores. */
#include "tasks/topk/topk.h"

#include "core/wide.h"
#include "stats/resample.h"

#include <math.h>
#include <string.h>

/* ---- losses of members ---- */

double cst_topk_label_log(const cst_view *view, const float *row, int64_t at) {
    size_t listed = (size_t)view->classes / 2;
    float class = (float)cst_view_label(view, at);
    double all = view->listed_of;
    double label = 0;
    double above[64]; /* of so many at a time */
    for (size_t j = 0; j < listed && row[j] >= 0; j += 64) {
        int64_t part = 0;
        for (size_t l = j; part < 64 && l < listed && row[l] >= 0; l++) {
            above[part++] = (double)row[listed + l];
            label = row[l] >= class && row[l] <= class ? (double)row[listed + l] : label;
        }
        cst_exp_f64(part, above, above);
        for (int64_t l = 0; l < part; l++)
            all += above[l] - 1;
    }
    return label - log(all);
}

typedef struct risk_job {
    const cst_view *view;
    const int32_t *folds;
} risk_job;

static cst_status risk_block(cst_context *context, void *user, int64_t block, double *sum) {
    const risk_job *job = user;
    const cst_view *view = job->view;
    cst_rows rows;
    CST_SCOPE(scope);
    CST_TRY(cst_rows_open(context, scope, view, block, &rows));
    for (int32_t k = 0; k < view->members; k++) {
        CST_TRY(cst_rows_read(context, &rows, k));
        for (int64_t i = 0; i < rows.count; i++) {
            int64_t at = rows.first + i;
            double weight = cst_view_weight(view, at);
            double *to = sum + (job->folds ? job->folds[at] : 0) * (view->members + 1);
            to[k] -= weight * cst_topk_label_log(view, cst_rows_at(&rows, i), at);
            to[view->members] += k == 0 ? weight : 0;
        }
    }
    return CST_OK;
}

cst_status cst_topk_risks(cst_context *context, const cst_view *view, const int32_t *folds,
                          int32_t count, double *risk) {
    size_t k = (size_t)view->members;
    risk_job job = {view, folds};
    CST_SCOPE(scope);
    CST_NEW(context, scope, double, sum, (k + 1) * (size_t)count);
    CST_TRY(cst_reduce_blocks(context, cst_block_count(view->rows), (k + 1) * (size_t)count,
                              risk_block, &job, sum));
    for (int32_t f = 0; f < count; f++)
        for (size_t a = 0; a < k; a++) {
            double loss = 0;
            double rows = 0;
            for (int32_t g = 0; g < count; g++) {
                bool in = g != f || !folds;
                loss += in ? sum[(size_t)g * (k + 1) + a] : 0;
                rows += in ? sum[(size_t)g * (k + 1) + k] : 0;
            }
            risk[(size_t)f * k + a] = loss / rows;
        }
    return CST_OK;
}

/* ---- scores of predictions ---- */

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

/* bytes: of text for each row. */
static void take_scores(const double *sum, double bytes, double out[CST_TOPK_SCORES]) {
    double ece = 0;
    double all = sum[SUMS];
    for (int b = 0; b < BINS; b++)
        ece += fabs(sum[BIN + b]);
    double nll = sum[LOSS] / all;
    const double scores[CST_TOPK_SCORES] = {nll,
                                            exp(nll),
                                            sum[HIT] / all,
                                            sum[HIT5] / all,
                                            ece / all,
                                            sum[BRIER] / all,
                                            bytes > 0 ? nll / (log(2) * bytes) : NAN};
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
    take_scores(sum, view->bytes, out);
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

/* Sums of the units by method, [methods][units][SUMS + 1]. */
typedef struct drawn_job {
    const double *sums;
    int64_t units;
    double bytes;
} drawn_job;

/* sum [SUMS + 1][CST_LANES]. */
CST_VECTOR_CLONES
static void add_units(const double *unit, const unsigned char *count, int64_t units, double *sum) {
    for (int64_t i = 0; i < units; i++, unit += SUMS + 1, count += CST_LANES)
        for (int s = 0; s <= SUMS; s++)
            for (int l = 0; l < CST_LANES; l++)
                sum[s * CST_LANES + l] += count[l] * unit[s];
}

static void figures(const cst_bootstrap *b, const cst_resample *drawn, void *scratch, int64_t lanes,
                    int64_t stride, double *out) {
    const drawn_job *job = b->user;
    (void)scratch;
    for (int32_t m = 0; m < b->methods; m++) {
        double sum[(SUMS + 1) * CST_LANES] = {0};
        add_units(job->sums + m * job->units * (SUMS + 1), drawn->count, job->units, sum);
        for (int64_t l = 0; l < lanes; l++) {
            double one[SUMS + 1];
            double scores[CST_TOPK_SCORES];
            for (int s = 0; s <= SUMS; s++)
                one[s] = sum[s * CST_LANES + l];
            take_scores(one, job->bytes, scores);
            for (int s = 0; s < CST_TOPK_SCORES; s++)
                out[(m * CST_TOPK_SCORES + s) * stride + l] = scores[s];
        }
    }
}

cst_status cst_topk_bootstrap(cst_context *context, const cst_view *view,
                              const float *const *outcomes, int32_t methods, int32_t reference,
                              int32_t resamples, uint64_t seed, cst_intervals *out) {
    int64_t units = 0;
    int64_t *unit;
    CST_SCOPE(scope);
    CST_TRY(cst_topk_units(context, scope, view, &unit, &units));
    CST_NEW(context, scope, double, sums, (SUMS + 1) * (size_t)units * (size_t)methods);
    for (int32_t m = 0; m < methods; m++)
        for (int64_t i = 0; i < view->rows; i++)
            add_row(outcomes[m] + i * CST_TOPK_OUTCOME, cst_view_weight(view, i),
                    sums + (m * units + unit[i]) * (SUMS + 1));
    const drawn_job job = {sums, units, view->bytes};
    const cst_bootstrap b = {.samples = {units},
                             .seed = {seed},
                             .resamples = resamples,
                             .methods = methods,
                             .scores = CST_TOPK_SCORES,
                             .figures = figures,
                             .user = &job};
    return cst_bootstrap_intervals(context, &b, reference, out->interval, out->difference, out->p);
}
