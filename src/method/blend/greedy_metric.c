/*
 * Greedy ensemble selection on top-1 error or Brier score, and on the log loss of weighted rows,
 * with the rounds and float32 arithmetic of greedy.c. docs/baselines.md#definitions; Caruana et al.
 * (2004).
 */
#include "method/blend/greedy.h"
#include "method/blend/greedy_rounds.h"

#include <math.h>

typedef struct metric_state {
    const cst_view *view;
    cst_greedy_metric metric;
    double *mean; /* [rows][classes] of the ensemble so far */
    double total; /* sum of the rows' weights */
    int32_t size;
    int32_t last;
} metric_state;

/* mean = mean (s - 1)/s + last/s, the second quotient in float32. */
static cst_status fold_block(cst_context *context, void *user, int64_t block) {
    const metric_state *s = user;
    const cst_view *view = s->view;
    int64_t first = cst_block_first(block);
    int64_t count = cst_block_size(view->rows, block);
    size_t cells = (size_t)count * (size_t)view->classes;
    CST_SCOPE(scope);
    CST_NEW(context, scope, float, scratch, cst_view_copies(view) ? cells : 0);
    const float *rows = NULL;
    CST_TRY(cst_view_rows(context, view, s->last, first, count, scratch, &rows));
    double *mean = s->mean + (size_t)first * (size_t)view->classes;
    double keep = (double)(s->size - 1) / (double)s->size;
    float size = (float)s->size;
    for (size_t j = 0; j < cells; j++) {
        float quotient = rows[j] / size;
        mean[j] = mean[j] * keep + (double)quotient;
    }
    return CST_OK;
}

/* 1 where the largest probability, the lowest class of equal ones, is not the label's. */
static double row_top1_error(const double *p, int32_t classes, int32_t label) {
    int32_t best = 0;
    for (int32_t c = 1; c < classes; c++)
        best = p[c] > p[best] ? c : best;
    return best == label ? 0 : 1;
}

static double row_brier(const double *p, int32_t classes, int32_t label) {
    double sum = 0;
    for (int32_t c = 0; c < classes; c++) {
        double error = p[c] - (c == label ? 1 : 0);
        sum += error * error;
    }
    return sum;
}

static double row_log_loss(const double *p, int32_t label) {
    const double clip = 0x1p-52; /* as scikit-learn clips */
    return -log(fmin(fmax(p[label], clip), 1 - clip));
}

static double row_loss(const metric_state *s, const double *p, int32_t label) {
    switch (s->metric) {
    case CST_GREEDY_TOP1:
        return row_top1_error(p, s->view->classes, label);
    case CST_GREEDY_BRIER:
        return row_brier(p, s->view->classes, label);
    case CST_GREEDY_LOG_LOSS:
        break;
    }
    return row_log_loss(p, label);
}

/* The ensemble with a member's row added, divided by its sum; false where that is not positive. */
static bool mix_row(const metric_state *s, const double *mean, const float *row, double *p) {
    double keep = (double)s->size / (double)(s->size + 1);
    float share = (float)(1.0 / (double)(s->size + 1));
    double sum = 0;
    for (int32_t c = 0; c < s->view->classes; c++) {
        float added = share * row[c];
        p[c] = keep * mean[c] + (double)added;
        sum += p[c];
    }
    for (int32_t c = 0; c < s->view->classes; c++)
        p[c] /= sum;
    return sum > 0 && isfinite(sum);
}

static cst_status loss_block(cst_context *context, void *user, int64_t block, double *sum) {
    const metric_state *s = user;
    const cst_view *view = s->view;
    int64_t first = cst_block_first(block);
    int64_t count = cst_block_size(view->rows, block);
    size_t width = (size_t)view->classes;
    float *scratch =
        cst_alloc(context, cst_view_copies(view) ? (size_t)count * width : 0, sizeof *scratch);
    double *p = cst_alloc(context, width, sizeof *p);
    cst_status status = scratch && p ? CST_OK : CST_ERROR_MEMORY;
    for (int32_t k = 0; status == CST_OK && k < view->members; k++) {
        const float *rows = NULL;
        status = cst_view_rows(context, view, k, first, count, scratch, &rows);
        const double *mean = s->mean + (size_t)first * width;
        for (int64_t i = 0; status == CST_OK && i < count; i++) {
            int32_t label = cst_view_label(view, first + i);
            if (!mix_row(s, mean + (size_t)i * width, rows + (size_t)i * width, p))
                status = cst_fail(context, CST_ERROR_INPUT,
                                  "member %d does not sum to a positive number in row %lld, so it "
                                  "is not a distribution",
                                  k, (long long)(first + i));
            sum[k] += cst_view_weight(view, first + i) * row_loss(s, p, label);
        }
    }
    cst_free(context, scratch);
    cst_free(context, p);
    return status;
}

static cst_status losses(cst_context *context, void *user, int32_t size, int32_t last,
                         bool rounding, double *loss) {
    metric_state *s = user;
    int64_t blocks = cst_block_count(s->view->rows);
    s->size = size;
    s->last = last;
    if (size > 0)
        CST_TRY(cst_parallel_own(context, blocks, 1, fold_block, s));
    CST_TRY(cst_reduce_blocks(context, blocks, (size_t)s->view->members, loss_block, s, loss));
    for (int32_t k = 0; k < s->view->members; k++)
        loss[k] = cst_greedy_rounded(loss[k] / s->total, rounding);
    return CST_OK;
}

cst_status cst_greedy_select_by(cst_context *context, const cst_view *view,
                                cst_greedy_metric metric, int32_t rounds, uint32_t seed,
                                cst_greedy *out) {
    if (metric == CST_GREEDY_LOG_LOSS && !view->weights)
        return cst_greedy_select_alike(context, view, rounds, seed, out);
    *out = (cst_greedy){0};
    cst_status status = cst_greedy_check(context, view, rounds);
    if (status != CST_OK)
        return status;
    size_t cells = 0;
    if (!cst_size_mul((size_t)view->rows, (size_t)view->classes, &cells))
        return cst_fail(context, CST_ERROR_LIMIT, "%lld rows of %d classes are too many",
                        (long long)view->rows, view->classes);
    metric_state s = {.view = view, .metric = metric, .total = cst_view_weight_sum(view)};
    s.mean = cst_alloc(context, cells, sizeof *s.mean);
    double work = (double)cells * view->members;
    status = s.mean ? cst_greedy_run(context, view, rounds, seed, work, losses, &s, out)
                    : CST_ERROR_MEMORY;
    cst_free(context, s.mean);
    return status;
}

cst_status cst_greedy_select(cst_context *context, const cst_view *view, int32_t rounds,
                             uint32_t seed, cst_greedy *out) {
    return cst_greedy_select_by(context, view, CST_GREEDY_LOG_LOSS, rounds, seed, out);
}
