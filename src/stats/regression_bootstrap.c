/*
 * Bootstrap intervals of the scores of predicted values, paired over samples: every method on the
 * same resamples. Behind comparisons, for the task regression. docs/regression.md#scores.
 */
#include "stats/percentile.h"
#include "stats/regression.h"
#include "stats/resample.h"
#include "stats/weighted.h"

#include <float.h>
#include <math.h>

enum {
    SCORES = 4, /* rmse, mae, r2, nll */
    LOSSES = 3, /* squared error, absolute error, NLL of a value */
    VALUES_METHODS_MAX = 1024
};

typedef struct value_bootstrap {
    const cst_predicted_values *predicted; /* [methods] */
    const double *targets;
    const double *weights; /* [rows], or NULL */
    int32_t methods;
    int32_t outputs;
    int64_t rows;
    int32_t resamples;
    uint64_t seed;
    double *center; /* [outputs]: mean target, which keeps the digits of the deviations */
    size_t columns; /* of a row: 2 for the target and LOSSES for each method, for every output; with
                       weights one more, the weight, which the others are multiplied by */
    double *table;  /* [rows][columns] */
    double *value;  /* [methods][SCORES], on the samples themselves */
    double *drawn;  /* [methods][SCORES][resamples] */
} value_bootstrap;

/* The share of the squares around the center, per row, that rounding of their sums may leave as a
 * deviation; below it targets are equal. */
static const double ROUNDING = 4 * DBL_EPSILON;

/* ---- one resample from its sums ---- */

/* Scores of every method from the sums of the table's columns (`stride` apart) over a resample. */
static void score(const value_bootstrap *job, const double *sums, size_t stride, double *out,
                  size_t step) {
    double n = job->weights ? sums[(job->columns - 1) * stride] : (double)job->rows;
    double share = 1 / (double)job->outputs;
    for (int32_t m = 0; m < job->methods; m++) {
        double scores[SCORES] = {0};
        for (int32_t d = 0; d < job->outputs; d++) {
            size_t first = (size_t)d * (2 + LOSSES * (size_t)job->methods);
            const double *y = sums + first * stride;
            const double *loss = sums + (first + 2 + LOSSES * (size_t)m) * stride;
            double deviation = y[stride] - y[0] * y[0] / n;
            if (deviation <= ROUNDING * (double)job->rows * y[stride])
                deviation = 0;
            scores[0] += share * sqrt(loss[0] / n);
            scores[1] += share * loss[stride] / n;
            scores[2] += share * cst_r2_of(loss[0], deviation);
            scores[3] += share * loss[2 * stride] / n;
        }
        for (int s = 0; s < SCORES; s++)
            out[((size_t)m * SCORES + (size_t)s) * step] = scores[s];
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

static cst_status lanes_task(cst_context *context, void *user, int64_t task) {
    const value_bootstrap *job = user;
    cst_resample resample = {0};
    int64_t first = task * CST_LANES;
    int64_t lanes = job->resamples - first < CST_LANES ? job->resamples - first : CST_LANES;
    double *sums = cst_alloc(context, job->columns * CST_LANES, sizeof *sums);
    cst_status status = sums ? cst_resample_make(context, job->rows, &resample) : CST_ERROR_MEMORY;
    if (status == CST_OK) {
        cst_resample_draw(&resample, job->seed, (uint32_t)first);
        weigh(job->table, job->columns, job->rows, resample.count, sums);
        for (int64_t l = 0; l < lanes; l++)
            score(job, sums + l, CST_LANES, job->drawn + first + l, (size_t)job->resamples);
    }
    cst_resample_free(context, &resample);
    cst_free(context, sums);
    return status;
}

/* ---- the table ---- */

/* group: columns of one output. */
static void fill_table(const value_bootstrap *job, size_t group) {
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

static cst_status make_table(cst_context *context, value_bootstrap *job) {
    size_t rows = (size_t)job->rows;
    size_t width = (size_t)job->outputs;
    size_t group = 2 + LOSSES * (size_t)job->methods;
    size_t cells = 0;
    job->columns = width * group + (job->weights ? 1 : 0);
    if (!cst_size_mul(rows, job->columns, &cells))
        return cst_fail(context, CST_ERROR_LIMIT, "%lld rows of %d methods are too many",
                        (long long)job->rows, (int)job->methods);
    size_t scores = SCORES * (size_t)job->methods;
    job->table = cst_alloc(context, cells, sizeof *job->table);
    job->value = cst_alloc(context, scores, sizeof *job->value);
    job->drawn = cst_alloc(context, scores * (size_t)job->resamples, sizeof *job->drawn);
    job->center = cst_alloc(context, width, sizeof *job->center);
    if (!job->table || !job->value || !job->drawn || !job->center)
        return CST_ERROR_MEMORY;
    for (size_t i = 0; i < rows; i++)
        for (size_t d = 0; d < width; d++)
            job->center[d] += job->targets[i * width + d] / (double)job->rows;
    fill_table(job, group);
    return CST_OK;
}

/* ---- intervals ---- */

static cst_interval interval_of(double value, double *drawn, int32_t count) {
    if (isnan(value))
        return (cst_interval){NAN, NAN, NAN};
    return cst_interval_of(drawn, count, value);
}

static void put(cst_value_intervals *out, int score, cst_interval interval) {
    cst_interval *const places[SCORES] = {&out->rmse, &out->mae, &out->r2, &out->nll};
    *places[score] = interval;
}

typedef struct value_intervals_job {
    const value_bootstrap *job;
    int32_t reference;
    cst_value_intervals *intervals;
    cst_value_intervals *differences;
} value_intervals_job;

/* One score of one method. */
static cst_status interval_task(cst_context *context, void *user, int64_t task) {
    const value_intervals_job *part = user;
    const value_bootstrap *job = part->job;
    int32_t m = (int32_t)(task / SCORES);
    int s = (int)(task % SCORES);
    size_t count = (size_t)job->resamples;
    size_t other = (size_t)part->reference * SCORES + (size_t)s;
    const double *mine = job->drawn + (size_t)task * count;
    const double *its = job->drawn + other * count;
    double *values = cst_alloc(context, count, sizeof *values);
    if (!values)
        return CST_ERROR_MEMORY;
    if (part->intervals) {
        for (size_t r = 0; r < count; r++)
            values[r] = mine[r];
        put(&part->intervals[m], s, interval_of(job->value[task], values, job->resamples));
    }
    if (part->differences) {
        for (size_t r = 0; r < count; r++)
            values[r] = mine[r] - its[r];
        put(&part->differences[m], s,
            interval_of(job->value[task] - job->value[other], values, job->resamples));
    }
    cst_free(context, values);
    return CST_OK;
}

static cst_status check(cst_context *context, const value_bootstrap *job) {
    if (job->resamples < 1 || job->resamples > CST_RESAMPLES_MAX || job->methods < 1 ||
        job->methods > VALUES_METHODS_MAX)
        return cst_fail(context, CST_ERROR_ARGUMENT,
                        "%d resamples of %d methods: use 1 to %d resamples of 1 to %d methods",
                        (int)job->resamples, (int)job->methods, CST_RESAMPLES_MAX,
                        VALUES_METHODS_MAX);
    if (job->rows > UINT32_MAX)
        return cst_fail(context, CST_ERROR_LIMIT, "%lld rows are too many to resample",
                        (long long)job->rows);
    for (int32_t m = 0; m < job->methods; m++) {
        cst_status status = cst_values_check(context, &job->predicted[m], job->targets);
        if (status != CST_OK)
            return status;
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

cst_status cst_value_bootstrap_weighted(cst_context *context,
                                        const cst_value_bootstrap_input *input,
                                        cst_value_intervals *intervals,
                                        cst_value_intervals *differences) {
    const cst_predicted_values *predicted = input->predicted;
    int32_t methods = input->methods;
    int32_t resamples = input->resamples;
    if (differences && (input->reference < 0 || input->reference >= methods))
        return cst_fail(context, CST_ERROR_ARGUMENT,
                        "the reference is method %d of %d: use 0 to %d", (int)input->reference,
                        (int)methods, (int)methods - 1);
    value_bootstrap job = {.predicted = predicted,
                           .targets = input->targets,
                           .weights = input->weights,
                           .methods = methods,
                           .outputs = (int32_t)predicted->outputs,
                           .rows = predicted->rows,
                           .resamples = resamples,
                           .seed = input->seed};
    value_intervals_job part = {&job, differences ? input->reference : 0, intervals, differences};
    cst_status status = check(context, &job);
    CST_THEN(cst_stage(context, "intervals"));
    CST_THEN(make_table(context, &job));
    if (status == CST_OK) {
        double *sums = cst_alloc(context, job.columns, sizeof *sums);
        status = sums ? CST_OK : CST_ERROR_MEMORY;
        for (int64_t i = 0; sums && i < job.rows; i++)
            for (size_t j = 0; j < job.columns; j++)
                sums[j] += job.table[(size_t)i * job.columns + j];
        if (sums)
            score(&job, sums, 1, job.value, 1);
        cst_free(context, sums);
    }
    for (int32_t m = 0; status == CST_OK && m < methods; m++) {
        if (intervals)
            intervals[m] = (cst_value_intervals){.resamples = resamples};
        if (differences)
            differences[m] = (cst_value_intervals){.resamples = resamples};
    }
    CST_THEN(cst_resample_all(context, resamples, CST_LANES, lanes_task, &job, job.drawn,
                              (int64_t)methods * SCORES));
    CST_THEN(cst_parallel_for(context, (int64_t)methods * SCORES, interval_task, &part));
    cst_free(context, job.table);
    cst_free(context, job.value);
    cst_free(context, job.drawn);
    cst_free(context, job.center);
    return status;
}
