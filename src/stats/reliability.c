/*
 * Bins of a reliability diagram: confidence and accuracy of the top label.
 * After prediction, in the document of an evaluation. docs/json.md#evaluate.
 */
#include <corestack/metrics.h>

#include "stats/levels.h"
#include "stats/weighted.h"

#include <math.h>

typedef struct bin_job {
    const cst_samples *samples;
    int32_t bins;
} bin_job;

/* Columns of the sums: those of a bin, then its number of samples. */
enum { ROWS = CST_BIN_WIDTH, WIDTH };

/* sum: [bins][WIDTH] */
static cst_status bin_block(cst_context *context, void *user, int64_t block, double *sum) {
    (void)context;
    const bin_job *job = user;
    const cst_samples *s = job->samples;
    int64_t first = cst_block_first(block);
    int64_t end = first + cst_block_size(s->rows, block);
    for (int64_t i = first; i < end; i++) {
        double weight = s->weight ? s->weight[i] : 1;
        double *bin = sum + (size_t)cst_bin_of(s->confidence[i], job->bins) * WIDTH;
        bin[CST_BIN_COUNT] += weight;
        bin[CST_BIN_CORRECT] += weight * s->correct[i];
        bin[CST_BIN_CONFIDENCE] += weight * s->confidence[i];
        bin[ROWS] += 1;
    }
    return CST_OK;
}

static void put_bin(const double *sum, int32_t bin, int32_t bins, cst_reliability_bin *out) {
    double count = sum[CST_BIN_COUNT];
    *out = (cst_reliability_bin){
        .lower = (double)bin / bins,
        .upper = (double)(bin + 1) / bins,
        .confidence = count > 0 ? sum[CST_BIN_CONFIDENCE] / count : NAN,
        .accuracy = count > 0 ? sum[CST_BIN_CORRECT] / count : NAN,
        .count = (int64_t)sum[ROWS],
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
    bin_job job = {0};
    cst_samples samples = {0};
    double *total = NULL;
    cst_status status = cst_bins_check(context, bins, &job.bins);
    CST_THEN(cst_samples_of(context, &view, 0, &samples));
    if (status != CST_OK)
        goto cleanup;
    job.samples = &samples;
    size_t width = (size_t)job.bins * WIDTH;
    total = cst_alloc(context, width, sizeof *total);
    status = total
                 ? cst_reduce_blocks(context, cst_block_count(rows), width, bin_block, &job, total)
                 : CST_ERROR_MEMORY;
    for (int32_t b = 0; status == CST_OK && b < job.bins; b++)
        put_bin(total + (size_t)b * WIDTH, b, job.bins, &out[b]);
cleanup:
    cst_free(context, total);
    cst_samples_free(context, &samples);
    return status;
}
