/* Logs of probabilities with a floor, and rows divided by their sums, for several calibrators. */
#include "method/calibration/calibration.h"

#include "core/wide.h"
#include "stats/risk.h"

typedef struct log_job {
    const float *probabilities;
    float *logs;
    int64_t rows;
    int32_t classes;
} log_job;

/* One tile: rows [count][classes] to [classes][CST_LOG_ROWS]. */
CST_KERNEL(log_tile, (const float *p, int64_t count, int32_t classes, float *restrict out),
           (p, count, classes, out)) {
    for (int32_t c = 0; c < classes; c++) {
        double x[CST_LOG_ROWS];
        for (int64_t r = 0; r < CST_LOG_ROWS; r++)
            x[r] = r < count ? (double)p[r * classes + c] : 1.0;
        for (int64_t r = 0; r < CST_LOG_ROWS; r++)
            x[r] = x[r] > CST_NLL_FLOOR ? x[r] : CST_NLL_FLOOR;
        for (int64_t r = 0; r < CST_LOG_ROWS; r++)
            out[(int64_t)c * CST_LOG_ROWS + r] = (float)cst_log_one_f64(x[r]);
    }
}

static cst_status log_block(cst_context *context, void *user, int64_t block) {
    (void)context;
    const log_job *job = user;
    int64_t first = cst_block_first(block);
    int64_t end = first + cst_block_size(job->rows, block);
    for (; first < end; first += CST_LOG_ROWS)
        log_tile(job->probabilities + first * job->classes,
                 end - first < CST_LOG_ROWS ? end - first : CST_LOG_ROWS, job->classes,
                 job->logs + first * job->classes);
    return CST_OK;
}

cst_status cst_log_tiles(cst_context *context, const float *probabilities, int64_t rows,
                         int32_t classes, float **out) {
    size_t cells = 0;
    size_t padded = (size_t)((rows + CST_LOG_ROWS - 1) / CST_LOG_ROWS * CST_LOG_ROWS);
    *out = NULL;
    if (!cst_size_mul(padded, (size_t)classes, &cells))
        return cst_fail(context, CST_ERROR_LIMIT, "%lld rows of %d classes are too many",
                        (long long)rows, classes);
    float *logs = cst_alloc(context, cells, sizeof *logs);
    if (!logs)
        return CST_ERROR_MEMORY;
    log_job job = {probabilities, logs, rows, classes};
    cst_status status = cst_parallel_own(context, cst_block_count(rows), 1, log_block, &job);
    if (status == CST_OK)
        *out = logs;
    else
        cst_free(context, logs);
    return status;
}

enum { LANES = 8 };

CST_KERNEL(floor_values, (int64_t count, double *restrict values), (count, values)) {
    for (int64_t j = 0; j < count; j++)
        values[j] = values[j] > CST_NLL_FLOOR ? values[j] : CST_NLL_FLOOR;
}

void cst_floored_logs(int64_t count, double *values) {
    floor_values(count, values);
    cst_log_f64(count, values, values);
}

CST_KERNEL(below_top, (int64_t count, int32_t classes, double *restrict values),
           (count, classes, values)) {
    int32_t whole = classes - classes % LANES;
    for (int64_t i = 0; i < count; i++) {
        double *row = values + i * classes;
        double lane[LANES];
        for (int32_t l = 0; l < LANES; l++)
            lane[l] = row[0];
        for (int32_t c = 0; c < whole; c += LANES)
            for (int32_t l = 0; l < LANES; l++)
                lane[l] = row[c + l] > lane[l] ? row[c + l] : lane[l];
        for (int32_t c = whole; c < classes; c++)
            lane[0] = row[c] > lane[0] ? row[c] : lane[0];
        double top = lane[0];
        for (int32_t l = 1; l < LANES; l++)
            top = lane[l] > top ? lane[l] : top;
        for (int32_t c = 0; c < classes; c++)
            row[c] -= top;
    }
}

CST_KERNEL(to_shares, (int64_t count, int32_t classes, double *restrict values),
           (count, classes, values)) {
    int32_t whole = classes - classes % LANES;
    for (int64_t i = 0; i < count; i++) {
        double *row = values + i * classes;
        double lane[LANES] = {0};
        for (int32_t c = 0; c < whole; c += LANES)
            for (int32_t l = 0; l < LANES; l++)
                lane[l] += row[c + l];
        for (int32_t c = whole; c < classes; c++)
            lane[c - whole] += row[c];
        double total = ((lane[0] + lane[1]) + (lane[2] + lane[3])) +
                       ((lane[4] + lane[5]) + (lane[6] + lane[7]));
        for (int32_t c = 0; c < classes; c++)
            row[c] /= total;
    }
}

void cst_softmax_rows(int64_t count, int32_t classes, double *scores) {
    below_top(count, classes, scores);
    cst_exp_f64(count * classes, scores, scores);
    to_shares(count, classes, scores);
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
