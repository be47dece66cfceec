/*
 * Scores of predicted values: RMSE, MAE, median absolute error, R^2, Gaussian NLL, coverage and
 * width of intervals. After prediction, for the task regression. docs/regression.md#scores.
 */
#include <corestack/regression.h>

#include "stats/regression.h"
#include "stats/weighted.h"

#include <math.h>
#include <stdlib.h>

#define HALF_LOG_2PI 0.91893853320467274178

double cst_gaussian_nll(double error, double variance) {
    return HALF_LOG_2PI + 0.5 * (log(variance) + error * error / variance);
}

/* Row and output of a place in [rows][outputs]. */
static cst_status refuse(cst_context *context, const cst_predicted_values *p, size_t cell,
                         const char *what, double value, const char *rule) {
    return cst_fail(context, CST_ERROR_INPUT, "%s of row %lld, output %lld is %g; %s", what,
                    (long long)(cell / (size_t)p->outputs), (long long)(cell % (size_t)p->outputs),
                    value, rule);
}

cst_status cst_values_check(cst_context *context, const cst_predicted_values *p,
                            const double *targets) {
    size_t cells = 0;
    if (!p || !p->mean || !targets || p->rows < 1 || p->outputs < 1)
        return cst_fail(context, CST_ERROR_ARGUMENT,
                        "values and targets of at least one row and output are needed");
    if (p->levels < 0 || p->levels > CST_LEVELS_MAX ||
        (p->levels > 0 && (!p->level || !p->half_width)))
        return cst_fail(context, CST_ERROR_ARGUMENT,
                        "%d interval levels: give 0 to %d, each with its half-widths",
                        (int)p->levels, CST_LEVELS_MAX);
    if (!cst_size_mul((size_t)p->rows, (size_t)p->outputs, &cells))
        return cst_fail(context, CST_ERROR_LIMIT, "too many values");
    for (size_t i = 0; i < cells; i++) {
        if (!isfinite(p->mean[i]))
            return refuse(context, p, i, "the prediction", (double)p->mean[i],
                          "every prediction must be a finite number");
        if (!isfinite(targets[i]))
            return refuse(context, p, i, "the target", targets[i],
                          "every target must be a finite number");
        if (p->variance && !(p->variance[i] > 0.0F && isfinite(p->variance[i])))
            return refuse(context, p, i, "the variance", (double)p->variance[i],
                          "a variance must be positive and finite");
    }
    for (int32_t l = 0; l < p->levels; l++) {
        if (!(p->level[l] > 0 && p->level[l] < 1))
            return cst_fail(context, CST_ERROR_ARGUMENT, "level %g of an interval is not in (0, 1)",
                            p->level[l]);
        for (size_t i = 0; i < cells; i++)
            if (!(p->half_width[l][i] >= 0.0F))
                return refuse(context, p, i, "the half-width", (double)p->half_width[l][i],
                              "it must be 0 or more");
    }
    return CST_OK;
}

static int by_size(const void *a, const void *b) {
    double x = *(const double *)a;
    double y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Median of `values`, which are sorted. */
static double median_of(double *values, size_t count) {
    qsort(values, count, sizeof *values, by_size);
    size_t half = count / 2;
    return count % 2 ? values[half] : 0.5 * (values[half - 1] + values[half]);
}

/* An absolute error and how much its row counts. */
typedef struct weighted_error {
    double error;
    double weight;
} weighted_error;

static int by_error(const void *a, const void *b) {
    double x = ((const weighted_error *)a)->error;
    double y = ((const weighted_error *)b)->error;
    return (x > y) - (x < y);
}

/* The least error with half of the weight at or below it; where exactly half is, the mean of it and
 * the next. Errors are sorted by size. */
static double weighted_median(weighted_error *errors, size_t count) {
    double total = 0;
    double below = 0;
    size_t i = 0;
    qsort(errors, count, sizeof *errors, by_error);
    for (size_t j = 0; j < count; j++)
        total += errors[j].weight;
    for (; i + 1 < count; i++) {
        below += errors[i].weight;
        if (below >= total / 2 * (1 - 1e-12))
            break;
    }
    bool even = i + 1 < count && below <= total / 2 * (1 + 1e-12);
    return even ? 0.5 * (errors[i].error + errors[i + 1].error) : errors[i].error;
}

double cst_r2_of(double squared_error, double squared_deviation) {
    if (squared_deviation > 0)
        return 1 - squared_error / squared_deviation;
    return squared_error > 0 ? 0 : 1;
}

/* The mean of targets `stride` apart, by weights above 0 (NULL: all), no further than the targets
 * are: rounding takes that of equal ones beside them, and leaves a deviation where there is none.
 */
static double mean_within(double mean, const double *targets, const double *weights, size_t rows,
                          size_t stride) {
    double least = INFINITY;
    double most = -INFINITY;
    for (size_t i = 0; i < rows; i++) {
        double y = targets[i * stride];
        if (weights && !(weights[i] > 0))
            continue;
        least = y < least ? y : least;
        most = y > most ? y : most;
    }
    if (mean < least)
        return least;
    return mean > most ? most : mean;
}

/* What is scored. */
typedef struct score_job {
    const cst_predicted_values *predicted;
    const double *targets;
    const double *weights;  /* [rows], or NULL */
    double total;           /* sum of the weights, or the number of rows */
    double *absolute;       /* [rows]: scratch, without weights */
    weighted_error *errors; /* [rows]: scratch, with weights */
} score_job;

/* Scores of one output. */
static void score_output(const score_job *job, int32_t output, cst_value_metrics *out) {
    const cst_predicted_values *p = job->predicted;
    const double *targets = job->targets;
    size_t rows = (size_t)p->rows;
    size_t width = (size_t)p->outputs;
    double n = job->total;
    double total = 0;
    double squares = 0;
    double deviations = 0;
    double sum = 0;
    double nll = 0;
    for (size_t i = 0; i < rows; i++)
        total += (job->weights ? job->weights[i] : 1) * targets[i * width + (size_t)output];
    double mean = mean_within(total / n, targets + output, job->weights, rows, width);
    double inside[CST_LEVELS_MAX] = {0};
    double half[CST_LEVELS_MAX] = {0};
    for (size_t i = 0; i < rows; i++) {
        size_t at = i * width + (size_t)output;
        double weight = job->weights ? job->weights[i] : 1;
        double error = (double)p->mean[at] - targets[at];
        double absolute = fabs(error);
        if (job->weights)
            job->errors[i] = (weighted_error){absolute, weight};
        else
            job->absolute[i] = absolute;
        squares += weight * (error * error);
        sum += weight * absolute;
        deviations += weight * ((targets[at] - mean) * (targets[at] - mean));
        if (p->variance)
            nll += weight * cst_gaussian_nll(error, (double)p->variance[at]);
        for (int32_t l = 0; l < p->levels; l++) {
            inside[l] += absolute <= (double)p->half_width[l][at] ? weight : 0;
            half[l] += weight * (double)p->half_width[l][at];
        }
    }
    *out = (cst_value_metrics){.samples = p->rows,
                               .rmse = sqrt(squares / n),
                               .mae = sum / n,
                               .median_ae = job->weights ? weighted_median(job->errors, rows)
                                                         : median_of(job->absolute, rows),
                               .r2 = cst_r2_of(squares, deviations),
                               .nll = p->variance ? nll / n : NAN,
                               .levels = p->levels};
    for (int32_t l = 0; l < p->levels; l++) {
        out->level[l] = p->level[l];
        out->coverage[l] = inside[l] / n;
        out->width[l] = 2 * half[l] / n;
    }
}

/* Adds one output's share to the average. */
static void add_share(cst_value_metrics *average, const cst_value_metrics *one, double share) {
    average->rmse += share * one->rmse;
    average->mae += share * one->mae;
    average->median_ae += share * one->median_ae;
    average->r2 += share * one->r2;
    average->nll += share * one->nll;
    for (int32_t l = 0; l < one->levels; l++) {
        average->level[l] = one->level[l];
        average->coverage[l] += share * one->coverage[l];
        average->width[l] += share * one->width[l];
    }
}

cst_status cst_value_metrics_evaluate(cst_context *context,
                                      const cst_predicted_values *predicted_given,
                                      const double *targets, cst_value_metrics *average,
                                      cst_value_metrics *each) {
    CST_ENTER(context);
    CST_STRUCT(context, cst_predicted_values, predicted, predicted_given);
    if (!predicted || !targets || !average)
        return cst_fail(context, CST_ERROR_ARGUMENT,
                        "cst_value_metrics_evaluate: predictions, targets and scores are required");
    CST_FITS(context, predicted->rows, predicted->outputs, sizeof(double));
    return cst_why(context,
                   cst_value_metrics_weighted(context, predicted, targets, NULL, average, each));
}

cst_status cst_value_metrics_weighted(cst_context *context, const cst_predicted_values *predicted,
                                      const double *targets, const double *weights,
                                      cst_value_metrics *average, cst_value_metrics *each) {
    cst_status status = cst_values_check(context, predicted, targets);
    if (status != CST_OK)
        return status;
    size_t rows = (size_t)predicted->rows;
    score_job job = {.predicted = predicted, .targets = targets, .weights = weights};
    job.absolute = cst_alloc(context, weights ? 0 : rows, sizeof *job.absolute);
    job.errors = cst_alloc(context, weights ? rows : 0, sizeof *job.errors);
    if (!job.absolute || !job.errors)
        status = CST_ERROR_MEMORY;
    job.total = weights ? 0 : (double)rows;
    for (size_t i = 0; weights && i < rows; i++)
        job.total += weights[i];
    *average = (cst_value_metrics){.samples = predicted->rows, .levels = predicted->levels};
    for (int32_t d = 0; status == CST_OK && d < predicted->outputs; d++) {
        cst_value_metrics one;
        score_output(&job, d, &one);
        add_share(average, &one, 1 / (double)predicted->outputs);
        if (each)
            each[d] = one;
    }
    cst_free(context, job.absolute);
    cst_free(context, job.errors);
    return status;
}

cst_status cst_value_errors(cst_context *context, const cst_predicted_values *predicted,
                            const double *targets, double *out) {
    cst_status status = cst_values_check(context, predicted, targets);
    if (status != CST_OK)
        return status;
    size_t rows = (size_t)predicted->rows;
    size_t width = (size_t)predicted->outputs;
    for (size_t i = 0; i < rows; i++)
        out[i] = 0;
    for (size_t d = 0; d < width; d++) {
        double mean = 0;
        double variance = 0;
        for (size_t i = 0; i < rows; i++)
            mean += targets[i * width + d] / (double)rows;
        mean = mean_within(mean, targets + d, NULL, rows, width);
        for (size_t i = 0; i < rows; i++) {
            double deviation = targets[i * width + d] - mean;
            variance += deviation * deviation / (double)rows;
        }
        double share = 1 / ((variance > 0 ? variance : 1) * (double)width);
        for (size_t i = 0; i < rows; i++) {
            double error = (double)predicted->mean[i * width + d] - targets[i * width + d];
            out[i] += share * error * error;
        }
    }
    return CST_OK;
}
