/* Mean NLL and top-1 of the members of a view, by block. docs/method.md#s1-redundancy. */
#include "stats/risk.h"

#include <math.h>

typedef struct risk_job {
    const cst_view *view;
    bool top1; /* count correct rows instead of the NLL */
} risk_job;

static double row_nll(const float *row, int32_t label) {
    return -log(fmax((double)row[label], CST_NLL_FLOOR));
}

static double row_correct(const float *row, int32_t classes, int32_t label) {
    int32_t best = 0;
    for (int32_t c = 1; c < classes; c++)
        best = row[c] > row[best] ? c : best;
    return best == label ? 1 : 0;
}

static cst_status risk_block(cst_context *context, void *user, int64_t block, double *sum) {
    const risk_job *job = user;
    const cst_view *view = job->view;
    CST_SCOPE(scope);
    cst_rows rows;
    CST_TRY(cst_rows_open(context, scope, view, block, &rows));
    for (int32_t k = 0; k < view->members; k++) {
        const uint8_t *present = cst_view_present(view, k);
        CST_TRY(cst_rows_read(context, &rows, k));
        for (int64_t i = 0; i < rows.count; i++) {
            int64_t n = rows.first + i;
            int32_t label = cst_view_label(view, n);
            const float *row = cst_rows_at(&rows, i);
            double loss = job->top1 ? row_correct(row, view->classes, label) : row_nll(row, label);
            loss = view->weights ? cst_view_weight(view, n) * loss : loss;
            sum[k] += loss;
            if (view->presence && cst_view_is_there(view, present, n))
                sum[view->members + k] += loss;
        }
    }
    return CST_OK;
}

static cst_status mean_over_rows(cst_context *context, const risk_job *job, double *out) {
    int64_t rows = job->view->rows;
    size_t members = (size_t)job->view->members;
    size_t width = job->view->presence ? 2 * members : members;
    if (rows < 1 || !job->view->labels)
        return cst_fail(context, CST_ERROR_INPUT,
                        "the risk of a member needs labelled rows: the split has %s",
                        rows < 1 ? "no rows" : "no labels");
    CST_SCOPE(scope);
    CST_NEW(context, scope, double, sum, width);
    CST_TRY(cst_reduce_blocks(context, cst_block_count(rows), width, risk_block, (void *)job, sum));
    double total = cst_view_weight_sum(job->view);
    for (size_t k = 0; k < members; k++) {
        double there = cst_view_present_sum(job->view, (int32_t)k);
        bool part = job->view->presence && there > 0;
        out[k] = part ? sum[members + k] / there : sum[k] / total;
    }
    return CST_OK;
}

cst_status cst_risk_all(cst_context *context, const cst_view *view, double *out) {
    risk_job job = {.view = view};
    return mean_over_rows(context, &job, out);
}

cst_status cst_risk_top1_all(cst_context *context, const cst_view *view, double *out) {
    risk_job job = {.view = view, .top1 = true};
    return mean_over_rows(context, &job, out);
}
