/*
 * Vector scaling: a slope and an intercept for the log-probability of each class. After any method.
 * docs/calibration.md#definitions; Guo et al. (2017), on log-probabilities instead of logits.
 *
 * 2C parameters, a convex loss. L-BFGS whose first guess of the inverse Hessian is the inverse of
 * the exact 2 x 2 blocks on the Hessian's diagonal, one block a class: what couples classes is weak
 * and learned from a few steps, and nothing of size C^2 is formed.
 */
#include "calibration/calibration.h"
#include "calibration/descent.h"

#include "metrics/risk.h"

#include <math.h>
#include <string.h>

typedef struct vector_job {
    const float *logs; /* [rows][classes] */
    const int32_t *labels;
    int64_t rows;
    int32_t classes;
    const double *weights; /* [rows]; NULL: all alike */
    double shrink;
    const double *theta; /* [2C]: slopes, then intercepts */
} vector_job;

/* softmax of the row's scores into q; returns the log of the normaliser. */
static double softmax_row(const vector_job *job, const float *row, double *q) {
    int32_t classes = job->classes;
    const double *slopes = job->theta;
    const double *intercepts = job->theta + classes;
    double top = -INFINITY;
    double total = 0;
    for (int32_t c = 0; c < classes; c++) {
        q[c] = slopes[c] * (double)row[c] + intercepts[c];
        top = fmax(top, q[c]);
    }
    for (int32_t c = 0; c < classes; c++) {
        q[c] = exp(q[c] - top);
        total += q[c];
    }
    for (int32_t c = 0; c < classes; c++)
        q[c] /= total;
    return top + log(total);
}

static cst_status loss_block(cst_context *worker, void *user, int64_t block, double *sum) {
    const vector_job *job = user;
    int32_t classes = job->classes;
    int64_t first = cst_block_first(block);
    int64_t end = first + cst_block_size(job->rows, block);
    double *q = cst_alloc(worker, (size_t)classes, sizeof *q);
    if (!q)
        return CST_ERROR_MEMORY;
    double *by_slope = sum + 1;
    double *by_intercept = by_slope + classes;
    double *slope_twice = by_intercept + classes;
    double *mixed = slope_twice + classes;
    double *intercept_twice = mixed + classes;
    for (int64_t i = first; i < end; i++) {
        const float *row = job->logs + (size_t)i * (size_t)classes;
        int32_t label = job->labels[i];
        double weight = job->weights ? job->weights[i] : 1;
        double normaliser = softmax_row(job, row, q);
        sum[0] += weight * (normaliser - job->theta[label] * (double)row[label] -
                            job->theta[classes + label]);
        by_slope[label] -= weight * (double)row[label];
        by_intercept[label] -= weight;
        for (int32_t c = 0; c < classes; c++) {
            double x = (double)row[c];
            double share = weight * q[c];
            double spread = share * (1 - q[c]);
            by_slope[c] += share * x;
            by_intercept[c] += share;
            slope_twice[c] += spread * x * x;
            mixed[c] += spread * x;
            intercept_twice[c] += spread;
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
    cst_status status = cst_reduce_blocks(context, cst_block_count(job->rows), 1 + 5 * classes,
                                          loss_block, job, sums);
    double precision = job->shrink > 0 ? job->shrink : CST_VECTOR_PRIOR;
    double center = 1;
    if (job->shrink > 0) { /* their mean has the weaker prior around 1 */
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
    return status;
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
    cst_status status = cst_floored_logs(context, probabilities, rows, classes, &logs);
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
                                 .sums = 1 + 5 * c,
                                 .tolerance = options->tolerance,
                                 .evaluate = evaluate,
                                 .solve = solve_blocks,
                                 .user = &job,
                                 .name = "vector scaling"};
    for (size_t j = 0; status == CST_OK && j < c; j++) {
        theta[j] = options->start ? options->start->slopes[j] : 1;
        theta[c + j] = options->start ? options->start->intercepts[j] : 0;
    }
    CST_TRY(cst_descend(context, &descent, theta));
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
    for (int64_t i = 0; i < count; i++) {
        double *row = probabilities + (size_t)i * (size_t)classes;
        double top = -INFINITY;
        double total = 0;
        for (int32_t c = 0; c < classes; c++) {
            row[c] = slopes[c] * log(fmax(row[c], CST_NLL_FLOOR)) + intercepts[c];
            top = fmax(top, row[c]);
        }
        for (int32_t c = 0; c < classes; c++) {
            row[c] = exp(row[c] - top);
            total += row[c];
        }
        for (int32_t c = 0; c < classes; c++)
            row[c] /= total;
    }
}
