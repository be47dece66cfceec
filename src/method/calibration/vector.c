/* Vector scaling by L-BFGS from the inverse of the Hessian's 2 x 2 diagonal blocks. */
#include "method/calibration/calibration.h"
#include "method/calibration/descent.h"

#include "core/wide.h"

#include <math.h>
#include <string.h>

typedef struct vector_job {
    const float *logs; /* of cst_log_tiles */
    const int32_t *labels;
    int64_t rows;
    int32_t classes;
    const double *weights; /* [rows]; NULL: all alike */
    double shrink;
    const double *theta; /* [2C]: slopes, then intercepts */
} vector_job;

/* exp of the scores minus the row's largest, [classes][CST_LOG_ROWS], with that and the sums. */
CST_KERNEL(exp_tile,
           (const float *restrict logs, int32_t classes, const double *restrict theta,
            double *restrict q, double *restrict top, double *restrict total),
           (logs, classes, theta, q, top, total)) {
    for (int r = 0; r < CST_LOG_ROWS; r++) {
        top[r] = -INFINITY;
        total[r] = 0;
    }
    for (int32_t c = 0; c < classes; c++) {
        double slope = theta[c];
        double intercept = theta[classes + c];
        for (int r = 0; r < CST_LOG_ROWS; r++) {
            double score = slope * (double)logs[c * CST_LOG_ROWS + r] + intercept;
            q[c * CST_LOG_ROWS + r] = score;
            top[r] = score > top[r] ? score : top[r];
        }
    }
    for (int32_t c = 0; c < classes; c++)
        for (int r = 0; r < CST_LOG_ROWS; r++) {
            double value = cst_exp_one_f64(q[c * CST_LOG_ROWS + r] - top[r]);
            q[c * CST_LOG_ROWS + r] = value;
            total[r] += value;
        }
}

/* A block's sums of a class, [5][classes]: the gradient, then the 2 x 2 block of the Hessian. */
enum { BY_SLOPE, BY_INTERCEPT, SLOPE_TWICE, MIXED, INTERCEPT_TWICE, SUMS, LANES = 8 };

/* The sum of a tile's values, of a fixed order; overwrites them. */
static inline __attribute__((always_inline)) double sum_tile(double *restrict v) {
    for (int r = 0; r < LANES; r++)
        v[r] = (v[r] + v[r + LANES]) + (v[r + 2 * LANES] + v[r + 3 * LANES]);
    return ((v[0] + v[1]) + (v[2] + v[3])) + ((v[4] + v[5]) + (v[6] + v[7]));
}

/* Adds the sums over a tile's rows. inverse: 1 over the rows' totals. */
CST_KERNEL(add_tile,
           (const float *restrict logs, int32_t classes, const double *restrict q,
            const double *restrict inverse, const double *restrict weight, double *restrict sums),
           (logs, classes, q, inverse, weight, sums)) {
    for (int32_t c = 0; c < classes; c++) {
        double terms[SUMS][CST_LOG_ROWS];
        for (int r = 0; r < CST_LOG_ROWS; r++) {
            double x = (double)logs[c * CST_LOG_ROWS + r];
            double p = q[c * CST_LOG_ROWS + r] * inverse[r];
            double share = weight[r] * p;
            double spread = share * (1 - p);
            terms[BY_SLOPE][r] = share * x;
            terms[BY_INTERCEPT][r] = share;
            terms[SLOPE_TWICE][r] = spread * x * x;
            terms[MIXED][r] = spread * x;
            terms[INTERCEPT_TWICE][r] = spread;
        }
        for (int j = 0; j < SUMS; j++)
            sums[j * classes + c] += sum_tile(terms[j]);
    }
}

static cst_status loss_block(cst_context *worker, void *user, int64_t block, double *sum) {
    const vector_job *job = user;
    int32_t classes = job->classes;
    int64_t first = cst_block_first(block);
    int64_t end = first + cst_block_size(job->rows, block);
    double top[CST_LOG_ROWS];
    double total[CST_LOG_ROWS];
    double inverse[CST_LOG_ROWS];
    double weight[CST_LOG_ROWS];
    double *q = cst_alloc(worker, (size_t)classes * CST_LOG_ROWS, sizeof *q);
    if (!q)
        return CST_ERROR_MEMORY;
    double *sums = sum + 1;
    for (; first < end; first += CST_LOG_ROWS) {
        const float *logs = job->logs + first * classes;
        int64_t count = end - first < CST_LOG_ROWS ? end - first : CST_LOG_ROWS;
        exp_tile(logs, classes, job->theta, q, top, total);
        for (int64_t r = 0; r < CST_LOG_ROWS; r++) {
            inverse[r] = 1 / total[r];
            weight[r] = r < count ? job->weights ? job->weights[first + r] : 1 : 0;
        }
        add_tile(logs, classes, q, inverse, weight, sums);
        cst_log_f64(CST_LOG_ROWS, total, total);
        for (int64_t r = 0; r < count; r++) {
            int32_t label = job->labels[first + r];
            double x = (double)logs[label * CST_LOG_ROWS + r];
            sum[0] += weight[r] *
                      (top[r] + total[r] - job->theta[label] * x - job->theta[classes + label]);
            sums[BY_SLOPE * classes + label] -= weight[r] * x;
            sums[BY_INTERCEPT * classes + label] -= weight[r];
        }
    }
    cst_free(worker, q);
    return CST_OK;
}

/* Loss, gradient [2C] and blocks [3C] (slope twice, mixed, intercept twice) with the prior. */
static cst_status evaluate(cst_context *context, void *user, const double *theta, double *sums) {
    vector_job *job = user;
    size_t classes = (size_t)job->classes;
    size_t size = 2 * classes;
    job->theta = theta;
    CST_TRY(cst_reduce_blocks(context, cst_block_count(job->rows), 1 + SUMS * classes, loss_block,
                              job, sums));
    double precision = job->shrink > 0 ? job->shrink : CST_VECTOR_PRIOR;
    double center = 1;
    if (job->shrink > 0) {
        /* their mean has the weaker prior around 1 */
        center = 0;
        for (size_t c = 0; c < classes; c++)
            center += theta[c] / (double)classes;
        sums[0] += 0.5 * CST_VECTOR_PRIOR * (center - 1) * (center - 1);
        for (size_t c = 0; c < classes; c++)
            sums[1 + c] += CST_VECTOR_PRIOR * (center - 1) / (double)classes;
    }
    for (size_t j = 0; j < size; j++) {
        double offset = theta[j] - (j < classes ? center : 0);
        sums[0] += 0.5 * precision * offset * offset;
        sums[1 + j] += precision * offset;
    }
    for (size_t c = 0; c < classes; c++) {
        sums[1 + size + c] += precision;
        sums[1 + size + 2 * classes + c] += precision;
    }
    return CST_OK;
}

/* Solves the 2 x 2 systems of the classes in place. */
static void solve_blocks(const void *user, const double *sums, double *v) {
    const vector_job *job = user;
    size_t classes = (size_t)job->classes;
    const double *blocks = sums + 1 + 2 * classes;
    for (size_t c = 0; c < classes; c++) {
        double aa = blocks[c];
        double ab = blocks[classes + c];
        double bb = blocks[2 * classes + c];
        double determinant = aa * bb - ab * ab; /* at least the prior's precision squared */
        double slope = (bb * v[c] - ab * v[classes + c]) / determinant;
        v[classes + c] = (aa * v[classes + c] - ab * v[c]) / determinant;
        v[c] = slope;
    }
}

cst_status cst_vector_fit(cst_context *context, const float *probabilities, int64_t rows,
                          int32_t classes, const int32_t *labels, const cst_vector_options *options,
                          double *slopes, double *intercepts) {
    static const cst_vector_options plain = {.tolerance = 1e-16};
    if (!options)
        options = &plain;
    float *logs = NULL;
    size_t c = (size_t)classes;
    cst_status status = cst_log_tiles(context, probabilities, rows, classes, &logs);
    double *theta = cst_alloc(context, 2 * c, sizeof *theta);
    if (status == CST_OK && !theta)
        status = CST_ERROR_MEMORY;
    vector_job job = {.logs = logs,
                      .labels = labels,
                      .rows = rows,
                      .classes = classes,
                      .weights = options->weights,
                      .shrink = options->shrink};
    const cst_descent descent = {.size = 2 * c,
                                 .sums = 1 + SUMS * c,
                                 .tolerance = options->tolerance,
                                 .evaluate = evaluate,
                                 .solve = solve_blocks,
                                 .user = &job,
                                 .name = "vector scaling"};
    for (size_t j = 0; status == CST_OK && j < c; j++) {
        theta[j] = options->start ? options->start->slopes[j] : 1;
        theta[c + j] = options->start ? options->start->intercepts[j] : 0;
    }
    CST_THEN(cst_descend(context, &descent, theta));
    if (status == CST_OK) {
        memcpy(slopes, theta, c * sizeof *slopes);
        memcpy(intercepts, theta + c, c * sizeof *intercepts);
    }
    cst_free(context, logs);
    cst_free(context, theta);
    return status;
}

void cst_vector_rows(const double *slopes, const double *intercepts, int64_t count, int32_t classes,
                     double *probabilities) {
    cst_floored_logs(count * classes, probabilities);
    for (int64_t i = 0; i < count; i++) {
        double *row = probabilities + i * classes;
        for (int32_t c = 0; c < classes; c++)
            row[c] = slopes[c] * row[c] + intercepts[c];
    }
    cst_softmax_rows(count, classes, probabilities);
}
