/* Scores and calibration errors of one method, with their definitions. docs/json.md#evaluate. */
#include <corestack/metrics.h>

#include "stats/row_weights.h"
#include "stats/samples.h"

#include <math.h>
#include <string.h>

static cst_status sums(cst_context *context, const cst_samples *samples, int32_t bins,
                       cst_metrics *out) {
    CST_SCOPE(scope);
    double *total;
    CST_TRY(cst_samples_sum(context, scope, samples, bins, &total));
    double rows = cst_samples_weight(samples);
    out->top1 = total[CST_SUM_CORRECT] / rows;
    out->nll = total[CST_SUM_NLL] / rows;
    out->brier = total[CST_SUM_BRIER] / rows;
    cst_bin_errors(total + CST_SUMS, bins, rows, &out->ece, &out->ece_debiased);
    return CST_OK;
}

cst_status cst_samples_ece(cst_context *context, const cst_samples *samples, double *out) {
    cst_metrics scores = {0};
    CST_TRY(sums(context, samples, CST_METRIC_BINS, &scores));
    *out = scores.ece;
    return CST_OK;
}

typedef struct class_job {
    const cst_view *view;
    int32_t member, bins;
} class_job;

/* sum: [classes][bins], one-hot target minus probability. */
static cst_status class_block(cst_context *context, void *user, int64_t block, double *sum) {
    const class_job *job = user;
    const cst_view *view = job->view;
    CST_SCOPE(scope);
    cst_rows rows;
    CST_TRY(cst_rows_open(context, scope, view, block, &rows));
    CST_TRY(cst_rows_read(context, &rows, job->member));
    for (int64_t i = 0; i < rows.count; i++) {
        const float *row = cst_rows_at(&rows, i);
        double weight = cst_view_weight(view, rows.first + i);
        for (int32_t c = 0; c < view->classes; c++) {
            double p = (double)row[c];
            size_t at = (size_t)c * (size_t)job->bins + (size_t)cst_bin_of(p, job->bins);
            double gap = (cst_view_label(view, rows.first + i) == c ? 1.0 : 0.0) - p;
            sum[at] += view->weights ? weight * gap : gap;
        }
    }
    return CST_OK;
}

static cst_status classwise(cst_context *context, const class_job *job, double *out) {
    size_t width = 0;
    if (!cst_size_mul((size_t)job->view->classes, (size_t)job->bins, &width))
        return cst_fail(context, CST_ERROR_LIMIT, "%d classes in %d bins are too many",
                        job->view->classes, job->bins);
    CST_SCOPE(scope);
    CST_NEW(context, scope, double, total, width);
    CST_TRY(cst_reduce_blocks(context, cst_block_count(job->view->rows), width, class_block,
                              (void *)job, total));
    double sum = 0;
    for (size_t j = 0; j < width; j++)
        sum += fabs(total[j]);
    *out = sum / (cst_view_weight_sum(job->view) * (double)job->view->classes);
    return CST_OK;
}

static cst_status ordered(cst_context *context, const cst_samples *samples, int32_t bins,
                          cst_metrics *out) {
    CST_SCOPE(scope);
    cst_order order;
    CST_NEW(context, scope, cst_level, levels, samples->rows);
    CST_TRY(cst_order_make(context, scope, samples, bins, &order));
    int64_t count = cst_order_levels(&order, NULL, levels, NULL);
    double total = cst_samples_weight(samples);
    out->ece_mass = cst_equal_mass_error(levels, count, total, bins);
    out->corp = cst_corp_miscalibration(levels, count, total);
    return CST_OK;
}

cst_status cst_metrics_evaluate(cst_context *context, const float *probabilities, int64_t rows,
                                int64_t classes_given, const int32_t *labels, int bins,
                                cst_metrics *out) {
    CST_ENTER(context);
    CST_COUNT(context, classes, classes_given);
    CST_FITS(context, rows, classes, sizeof(*probabilities));
    cst_status status = cst_scores_check(context, out, probabilities, rows, classes, labels,
                                         "cst_metrics_evaluate: context and scores are required");
    if (status != CST_OK)
        return status;
    return cst_why(context, cst_metrics_weighted(context, probabilities, rows, classes, labels,
                                                 NULL, bins, out));
}

cst_status cst_metrics_weighted(cst_context *context, const float *probabilities, int64_t rows,
                                int32_t classes, const int32_t *labels, const double *weights,
                                int bins, cst_metrics *out) {
    cst_view view = cst_view_of_one(&probabilities, rows, classes, labels, weights);
    return cst_metrics_of(context, &view, 0, bins, true, out);
}

cst_status cst_metrics_of(cst_context *context, const cst_view *view, int32_t member, int bins,
                          bool all, cst_metrics *out) {
    CST_SCOPE(scope);
    cst_samples samples;
    class_job job = {view, member, 0};
    *out = (cst_metrics){.samples = view->rows, .ece_mass = NAN, .ece_classwise = NAN, .corp = NAN};
    CST_TRY(cst_bins_check(context, bins, &job.bins));
    out->bins = job.bins;
    CST_TRY(cst_samples_of(context, scope, view, member, !all, &samples));
    CST_TRY(sums(context, &samples, job.bins, out));
    if (!all)
        return CST_OK;
    CST_TRY(classwise(context, &job, &out->ece_classwise));
    return ordered(context, &samples, job.bins, out);
}

static void put_bin(const double *sum, int32_t bin, int32_t bins, cst_reliability_bin *out) {
    double count = sum[CST_BIN_COUNT];
    *out = (cst_reliability_bin){
        .lower = (double)bin / bins,
        .upper = (double)(bin + 1) / bins,
        .confidence = count > 0 ? sum[CST_BIN_CONFIDENCE] / count : NAN,
        .accuracy = count > 0 ? sum[CST_BIN_CORRECT] / count : NAN,
        .count = (int64_t)sum[CST_BIN_ROWS],
    };
}

cst_status cst_metrics_reliability(cst_context *context, const float *probabilities, int64_t rows,
                                   int64_t classes_given, const int32_t *labels, int bins,
                                   cst_reliability_bin *out) {
    CST_ENTER(context);
    CST_COUNT(context, classes, classes_given);
    CST_FITS(context, rows, classes, sizeof(*probabilities));
    cst_status status = cst_scores_check(context, out, probabilities, rows, classes, labels,
                                         "cst_metrics_reliability: context and bins are required");
    if (status != CST_OK)
        return status;
    return cst_why(context, cst_reliability_weighted(context, probabilities, rows, classes, labels,
                                                     NULL, bins, out));
}

cst_status cst_reliability_weighted(cst_context *context, const float *probabilities, int64_t rows,
                                    int32_t classes, const int32_t *labels, const double *weights,
                                    int bins, cst_reliability_bin *out) {
    const cst_view view = cst_view_of_one(&probabilities, rows, classes, labels, weights);
    CST_SCOPE(scope);
    cst_samples samples;
    int32_t count = 0;
    double *total;
    CST_TRY(cst_bins_check(context, bins, &count));
    CST_TRY(cst_samples_of(context, scope, &view, 0, false, &samples));
    CST_TRY(cst_samples_sum(context, scope, &samples, count, &total));
    for (int32_t b = 0; b < count; b++)
        put_bin(total + CST_SUMS + (size_t)b * CST_BIN_WIDTH, b, count, &out[b]);
    return CST_OK;
}
