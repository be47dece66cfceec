/*
 * What several calibrators do to rows: logs of probabilities with a floor, rows divided by their
 * sums. docs/calibration.md#definitions.
 */
#include "calibration/calibration.h"

#include "metrics/risk.h"

#include <math.h>

typedef struct log_job {
    const float *probabilities;
    float *logs;
    int64_t rows;
    int32_t classes;
} log_job;

static cst_status log_block(cst_context *context, void *user, int64_t block) {
    (void)context;
    const log_job *job = user;
    size_t from = (size_t)cst_block_first(block) * (size_t)job->classes;
    size_t cells = (size_t)cst_block_size(job->rows, block) * (size_t)job->classes;
    for (size_t j = from; j < from + cells; j++)
        job->logs[j] = (float)log(fmax((double)job->probabilities[j], CST_NLL_FLOOR));
    return CST_OK;
}

cst_status cst_floored_logs(cst_context *context, const float *probabilities, int64_t rows,
                            int32_t classes, float **out) {
    size_t cells = 0;
    *out = NULL;
    if (!cst_size_mul((size_t)rows, (size_t)classes, &cells))
        return cst_fail(context, CST_ERROR_LIMIT, "%lld rows of %d classes are too many",
                        (long long)rows, classes);
    float *logs = cst_alloc(context, cells, sizeof *logs);
    if (!logs)
        return CST_ERROR_MEMORY;
    log_job job = {probabilities, logs, rows, classes};
    cst_status status = cst_parallel_for(context, cst_block_count(rows), log_block, &job);
    if (status == CST_OK)
        *out = logs;
    else
        cst_free(context, logs);
    return status;
}

void cst_normalise_rows(int64_t count, int32_t classes, double *values) {
    for (int64_t i = 0; i < count; i++) {
        double *row = values + (size_t)i * (size_t)classes;
        double sum = 0;
        for (int32_t c = 0; c < classes; c++)
            sum += row[c];
        for (int32_t c = 0; c < classes; c++)
            row[c] = sum > 0 ? row[c] / sum : 1.0 / classes;
    }
}
