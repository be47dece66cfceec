/*
 * Vector scaling: a slope and an intercept for the log-probability of each class. After any method.
 * docs/calibration.md#definitions; Guo et al. (2017), on log-probabilities instead of logits.
 *
 * 2C parameters, a convex loss. L-BFGS whose first guess of the inverse Hessian is the inverse of
 * the exact 2 x 2 blocks on the Hessian's diagonal, one block a class: what couples classes is weak
 * and learned from a few steps, and nothing of size C^2 is formed.
 */
#include "calibration/calibration.h"

#include "metrics/risk.h"

#include <math.h>
#include <string.h>

/* Pairs of steps and changes of the gradient that are kept; steps at most. */
enum { HISTORY = 20, STEPS = 500 };

typedef struct vector_job {
    const float *logs; /* [rows][classes] */
    const int32_t *labels;
    int64_t rows;
    int32_t classes;
    const double *weights; /* [rows]; NULL: all alike */
    const double *theta;   /* [2C]: slopes, then intercepts */
} vector_job;

/* A point and what is known there. `all`: theta, gradient [2C], blocks [3C] (slope twice, mixed,
 * intercept twice), behind one another after one double, the loss. */
typedef struct point {
    double *theta;
    double *sums; /* [1 + 5C]: loss, gradient, blocks */
} point;

typedef struct descent {
    vector_job job;
    double shrink;
    double tolerance;
    size_t size; /* 2C */
    point at;
    point trial;
    double *direction; /* [2C] */
    double *steps;     /* [HISTORY][2C] */
    double *changes;   /* [HISTORY][2C] */
    double inner[HISTORY];
    int kept;
    int newest;
    double *all;
} descent;

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

/* Loss, gradient and blocks at p->theta, with the prior. */
static cst_status evaluate(cst_context *context, descent *d, point *p) {
    d->job.theta = p->theta;
    size_t classes = d->size / 2;
    cst_status status = cst_reduce_blocks(context, cst_block_count(d->job.rows), 1 + 5 * classes,
                                          loss_block, &d->job, p->sums);
    double precision = d->shrink > 0 ? d->shrink : CST_VECTOR_PRIOR;
    double center = 1;
    if (d->shrink > 0) { /* their mean has the weaker prior around 1 */
        center = 0;
        for (size_t c = 0; c < classes; c++)
            center += p->theta[c] / (double)classes;
        p->sums[0] += 0.5 * CST_VECTOR_PRIOR * (center - 1) * (center - 1);
        for (size_t c = 0; c < classes; c++)
            p->sums[1 + c] += CST_VECTOR_PRIOR * (center - 1) / (double)classes;
    }
    for (size_t j = 0; j < d->size; j++) {
        double offset = p->theta[j] - (j < classes ? center : 0);
        p->sums[0] += 0.5 * precision * offset * offset;
        p->sums[1 + j] += precision * offset;
    }
    for (size_t c = 0; c < classes; c++) {
        p->sums[1 + d->size + c] += precision;
        p->sums[1 + d->size + 2 * classes + c] += precision;
    }
    return status;
}

static double dot(const double *a, const double *b, size_t count) {
    double sum = 0;
    for (size_t j = 0; j < count; j++)
        sum += a[j] * b[j];
    return sum;
}

/* Solves the 2 x 2 systems of the classes in place. */
static void solve_blocks(const descent *d, double *v) {
    size_t classes = d->size / 2;
    const double *blocks = d->at.sums + 1 + d->size;
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

/* The two-loop recursion: direction = - (inverse Hessian) gradient. */
static void find_direction(descent *d) {
    double weight[HISTORY];
    double *v = d->direction;
    for (size_t j = 0; j < d->size; j++)
        v[j] = -d->at.sums[1 + j];
    for (int i = 0; i < d->kept; i++) {
        int h = (d->newest - i + HISTORY) % HISTORY;
        weight[h] = dot(d->steps + (size_t)h * d->size, v, d->size) / d->inner[h];
        for (size_t j = 0; j < d->size; j++)
            v[j] -= weight[h] * d->changes[(size_t)h * d->size + j];
    }
    solve_blocks(d, v);
    for (int i = d->kept - 1; i >= 0; i--) {
        int h = (d->newest - i + HISTORY) % HISTORY;
        double back = dot(d->changes + (size_t)h * d->size, v, d->size) / d->inner[h];
        for (size_t j = 0; j < d->size; j++)
            v[j] += (weight[h] - back) * d->steps[(size_t)h * d->size + j];
    }
}

/* Halves the step until the loss falls enough or, where rounding hides the fall, its slope does.
 * The trial point is the new one then. */
static cst_status line_search(cst_context *context, descent *d, double slope, bool *moved) {
    *moved = false;
    for (double t = 1; t > 1e-12 && !*moved; t *= 0.5) {
        for (size_t j = 0; j < d->size; j++)
            d->trial.theta[j] = d->at.theta[j] + t * d->direction[j];
        cst_status status = evaluate(context, d, &d->trial);
        if (status != CST_OK)
            return status;
        double value = d->trial.sums[0];
        double new_slope = dot(d->trial.sums + 1, d->direction, d->size);
        *moved = value <= d->at.sums[0] + 1e-4 * t * slope ||
                 (value <= d->at.sums[0] * (1 + 1e-11) && fabs(new_slope) <= -0.9 * slope);
    }
    return CST_OK;
}

/* Keeps the pair of the last step and moves there. */
static void advance(descent *d) {
    int next = (d->newest + 1) % HISTORY;
    double *step = d->steps + (size_t)next * d->size;
    double *change = d->changes + (size_t)next * d->size;
    for (size_t j = 0; j < d->size; j++) {
        step[j] = d->trial.theta[j] - d->at.theta[j];
        change[j] = d->trial.sums[1 + j] - d->at.sums[1 + j];
    }
    double inner = dot(step, change, d->size);
    if (inner > 0) { /* always, but for rounding: the loss is strictly convex */
        d->inner[next] = inner;
        d->newest = next;
        d->kept += d->kept < HISTORY ? 1 : 0;
    }
    point old = d->at;
    d->at = d->trial;
    d->trial = old;
}

/* Descends until the next step promises less than the tolerance. */
static cst_status descend(cst_context *context, descent *d) {
    cst_status status = evaluate(context, d, &d->at);
    bool moved = true;
    for (int i = 0; status == CST_OK && moved && i < STEPS; i++) {
        find_direction(d);
        double slope = dot(d->at.sums + 1, d->direction, d->size);
        if (!(slope < -d->tolerance))
            return CST_OK;
        status = line_search(context, d, slope, &moved);
        if (status == CST_OK && moved)
            advance(d);
    }
    if (status == CST_OK && moved)
        cst_notice(context, "vector scaling stopped after %d steps before it reached the optimum",
                   STEPS);
    return status;
}

cst_status cst_vector_fit(cst_context *context, const float *probabilities, int64_t rows,
                          int32_t classes, const int32_t *labels, const cst_vector_options *options,
                          double *slopes, double *intercepts) {
    static const cst_vector_options plain = {.tolerance = 1e-16};
    if (!options)
        options = &plain;
    descent d = {
        .job = {.labels = labels, .rows = rows, .classes = classes, .weights = options->weights},
        .shrink = options->shrink,
        .tolerance = options->tolerance,
        .size = 2 * (size_t)classes,
        .newest = HISTORY - 1};
    float *logs = NULL;
    cst_status status = cst_floored_logs(context, probabilities, rows, classes, &logs);
    size_t c = (size_t)classes;
    if (status == CST_OK)
        d.all = cst_alloc(context, (2 * (2 + 1 + 5) + 2 + 4 * HISTORY) * c, sizeof *d.all);
    if (status == CST_OK && !d.all)
        status = CST_ERROR_MEMORY;
    if (status == CST_OK) {
        d.job.logs = logs;
        d.at = (point){d.all, d.all + 2 * c};
        d.trial = (point){d.all + 8 * c, d.all + 10 * c};
        d.direction = d.all + 16 * c;
        d.steps = d.direction + 2 * c;
        d.changes = d.steps + HISTORY * 2 * c;
        for (size_t j = 0; j < c; j++) {
            d.at.theta[j] = options->start ? options->start->slopes[j] : 1;
            d.at.theta[c + j] = options->start ? options->start->intercepts[j] : 0;
        }
        status = descend(context, &d);
    }
    if (status == CST_OK) {
        memcpy(slopes, d.at.theta, c * sizeof *slopes);
        memcpy(intercepts, d.at.theta + c, c * sizeof *intercepts);
    }
    cst_free(context, logs);
    cst_free(context, d.all);
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
