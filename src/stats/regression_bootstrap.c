/* Bootstrap of the scores of predicted values. docs/regression.md#scores. */
#include "stats/regression.h"
#include "stats/resample.h"
#include "stats/weighted.h"

#include <float.h>
#include <math.h>

enum { RMSE, MAE, MEDIAN, R2, NLL, SCORES }; /* the median has no interval */
enum { LOSSES = 3 };                         /* squared error, absolute error, NLL of a value */

typedef struct value_job {
    const cst_predicted_values *predicted; /* [methods] */
    const double *targets;
    const double *weights; /* [rows], or NULL */
    int32_t methods;
    int32_t outputs;
    int64_t rows;
    double *center; /* [outputs]: mean target, which keeps the digits of the deviations */
    size_t columns; /* of a row: 2 for the target and LOSSES for each method, for every output; with
                       weights one more, the weight, which the others are multiplied by */
    double *table;  /* [rows][columns] */
} value_job;

/* The share of the squares around the center, per row, that rounding of their sums may leave as a
 * deviation; below it targets are equal. */
static const double ROUNDING = 4 * DBL_EPSILON;

/* ---- one resample from its sums ---- */

/* Scores of every method from the sums of the table's columns (CST_LANES apart) over a resample. */
static void score(const value_job *job, const double *sums, double *out, int64_t stride) {
    double n = job->weights ? sums[(job->columns - 1) * CST_LANES] : (double)job->rows;
    double share = 1 / (double)job->outputs;
    for (int32_t m = 0; m < job->methods; m++) {
        double scores[SCORES] = {0};
        for (int32_t d = 0; d < job->outputs; d++) {
            size_t first = (size_t)d * (2 + LOSSES * (size_t)job->methods);
            const double *y = sums + first * CST_LANES;
            const double *loss = sums + (first + 2 + LOSSES * (size_t)m) * CST_LANES;
            double deviation = y[CST_LANES] - y[0] * y[0] / n;
            if (deviation <= ROUNDING * (double)job->rows * y[CST_LANES])
                deviation = 0;
            scores[RMSE] += share * sqrt(loss[0] / n);
            scores[MAE] += share * loss[CST_LANES] / n;
            scores[R2] += share * cst_r2_of(loss[0], deviation);
            scores[NLL] += share * loss[2 * CST_LANES] / n;
        }
        for (int s = 0; s < SCORES; s++)
            if (s != MEDIAN)
                out[(m * SCORES + s) * stride] = scores[s];
    }
}

/* Adds count * column to the sums of every lane. */
CST_VECTOR_CLONES
static void weigh(const double *table, size_t columns, int64_t rows, const unsigned char *counts,
                  double *sums) {
    for (int64_t i = 0; i < rows; i++) {
        double count[CST_LANES];
        const double *row = table + (size_t)i * columns;
        for (int l = 0; l < CST_LANES; l++)
            count[l] = counts[i * CST_LANES + l];
        for (size_t j = 0; j < columns; j++)
            for (int l = 0; l < CST_LANES; l++)
                sums[j * CST_LANES + (size_t)l] += count[l] * row[j];
    }
}

/* scratch: [columns][CST_LANES]. */
static void figures(const cst_bootstrap *b, const cst_resample *drawn, void *scratch, int64_t lanes,
                    int64_t stride, double *out) {
    const value_job *job = b->user;
    double *sums = scratch;
    memset(sums, 0, b->scratch);
    weigh(job->table, job->columns, job->rows, drawn->count, sums);
    for (int64_t l = 0; l < lanes; l++)
        score(job, sums + l, out + l, stride);
}

/* ---- the table ---- */

/* group: columns of one output. */
static void fill_table(const value_job *job, size_t group) {
    size_t rows = (size_t)job->rows;
    size_t width = (size_t)job->outputs;
    for (size_t i = 0; i < rows; i++)
        for (size_t d = 0; d < width; d++) {
            size_t at = i * width + d;
            double *row = job->table + i * job->columns + d * group;
            double y = job->targets[at] - job->center[d];
            row[0] = y;
            row[1] = y * y;
            for (int32_t m = 0; m < job->methods; m++) {
                const cst_predicted_values *p = &job->predicted[m];
                double error = (double)p->mean[at] - job->targets[at];
                double *loss = row + 2 + LOSSES * (size_t)m;
                loss[0] = error * error;
                loss[1] = fabs(error);
                loss[2] = p->variance ? cst_gaussian_nll(error, (double)p->variance[at]) : NAN;
            }
        }
    for (size_t i = 0; job->weights && i < rows; i++) {
        double *row = job->table + i * job->columns;
        for (size_t j = 0; j + 1 < job->columns; j++)
            row[j] *= job->weights[i];
        row[job->columns - 1] = job->weights[i];
    }
}

static cst_status make_table(cst_context *context, cst_scope *scope, value_job *job) {
    size_t rows = (size_t)job->rows;
    size_t width = (size_t)job->outputs;
    size_t group = 2 + LOSSES * (size_t)job->methods;
    size_t cells = 0;
    job->columns = width * group + (job->weights ? 1 : 0);
    if (!cst_size_mul(rows, job->columns, &cells))
        return cst_fail(context, CST_ERROR_LIMIT, "%lld rows of %d methods are too many",
                        (long long)job->rows, (int)job->methods);
    CST_TAKE(context, scope, job->table, cells);
    CST_TAKE(context, scope, job->center, width);
    for (size_t i = 0; i < rows; i++)
        for (size_t d = 0; d < width; d++)
            job->center[d] += job->targets[i * width + d] / (double)job->rows;
    fill_table(job, group);
    return CST_OK;
}

static cst_status check(cst_context *context, const value_job *job) {
    for (int32_t m = 0; m < job->methods; m++) {
        CST_TRY(cst_values_check(context, &job->predicted[m], job->targets));
        if (job->predicted[m].rows != job->rows || job->predicted[m].outputs != job->outputs)
            return cst_fail(context, CST_ERROR_MISMATCH,
                            "method %d predicts %lld rows of %d outputs, but the first method "
                            "predicts %lld of %d",
                            (int)m, (long long)job->predicted[m].rows,
                            (int)job->predicted[m].outputs, (long long)job->rows,
                            (int)job->outputs);
    }
    return CST_OK;
}

cst_status cst_value_bootstrap_weighted(cst_context *context, const cst_value_bootstrap_input *in,
                                        cst_interval *interval, cst_interval *difference,
                                        double *p) {
    CST_SCOPE(scope);
    value_job job = {.predicted = in->predicted,
                     .targets = in->targets,
                     .weights = in->weights,
                     .methods = in->methods,
                     .outputs = in->predicted->outputs,
                     .rows = in->predicted->rows};
    CST_TRY(check(context, &job));
    CST_TRY(make_table(context, scope, &job));
    const cst_bootstrap b = {.samples = {job.rows},
                             .seed = {in->seed},
                             .resamples = in->resamples,
                             .methods = in->methods,
                             .scores = SCORES,
                             .skipped = 1U << MEDIAN,
                             .scratch = job.columns * CST_LANES * sizeof(double),
                             .figures = figures,
                             .user = &job};
    return cst_bootstrap_intervals(context, &b, in->reference, interval, difference, p);
}
