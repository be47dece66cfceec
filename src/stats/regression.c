/* Scores of predicted values. docs/regression.md#scores. */
#include <corestack/regression.h>

#include "stats/resample.h"
#include "stats/row_weights.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>

#define HALF_LOG_2PI 0.91893853320467274178

/* Minus the log density of a normal distribution at `error` from its mean, nats. */
static double gaussian_nll(double error, double variance) {
    return HALF_LOG_2PI + 0.5 * (log(variance) + error * error / variance);
}

/* Row and output of a place in [rows][outputs]. */
static cst_status refuse(cst_context *context, const cst_predicted_values *p, size_t cell,
                         const char *what, double value, const char *rule) {
    return cst_fail(context, CST_ERROR_INPUT, "%s of row %lld, output %lld is %g; %s", what,
                    (long long)(cell / (size_t)p->outputs), (long long)(cell % (size_t)p->outputs),
                    value, rule);
}

static cst_status check_values(cst_context *context, const cst_predicted_values *p,
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

/* Median of `values`, which are sorted. */
static double median_of(double *values, size_t count) {
    qsort(values, count, sizeof *values, cst_by_f64);
    size_t half = count / 2;
    return count % 2 ? values[half] : 0.5 * (values[half - 1] + values[half]);
}

/* An absolute error and how much its row counts. */
typedef struct weighted_error {
    double error; /* first, for cst_by_f64 */
    double weight;
} weighted_error;

/* Weighted median: the least error with half of the weight, or the mean of it and the next. */
static double weighted_median(weighted_error *errors, size_t count) {
    double total = 0;
    double below = 0;
    size_t i = 0;
    qsort(errors, count, sizeof *errors, cst_by_f64);
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

/* Mean of targets `stride` apart by weights > 0 (NULL: all), cut to their range against
 * rounding. */
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

typedef struct score_job {
    const cst_predicted_values *predicted;
    const double *targets;
    const double *weights;  /* [rows], or NULL */
    double total;           /* sum of the weights, or the number of rows */
    double *absolute;       /* [rows]: scratch, without weights */
    weighted_error *errors; /* [rows]: scratch, with weights */
} score_job;

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
            nll += weight * gaussian_nll(error, (double)p->variance[at]);
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
    CST_TRY(check_values(context, predicted, targets));
    size_t rows = (size_t)predicted->rows;
    CST_SCOPE(scope);
    score_job job = {.predicted = predicted, .targets = targets, .weights = weights};
    CST_TAKE(context, scope, job.absolute, weights ? 0 : rows);
    CST_TAKE(context, scope, job.errors, weights ? rows : 0);
    job.total = weights ? 0 : (double)rows;
    for (size_t i = 0; weights && i < rows; i++)
        job.total += weights[i];
    *average = (cst_value_metrics){.samples = predicted->rows, .levels = predicted->levels};
    for (int32_t d = 0; d < predicted->outputs; d++) {
        cst_value_metrics one;
        score_output(&job, d, &one);
        add_share(average, &one, 1 / (double)predicted->outputs);
        if (each)
            each[d] = one;
    }
    return CST_OK;
}

cst_status cst_value_errors(cst_context *context, const cst_predicted_values *predicted,
                            const double *targets, double *out) {
    CST_TRY(check_values(context, predicted, targets));
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

/* ---- bootstrap ---- */

enum { RMSE, MAE, MEDIAN, R2, NLL, SCORES }; /* the median has no interval */
enum { LOSSES = 3 };                         /* squared error, absolute error, NLL of a value */

typedef struct value_job {
    const cst_predicted_values *predicted; /* [methods] */
    const double *targets;
    const double *weights; /* [rows], or NULL */
    int32_t methods, outputs;
    int64_t rows;
    double *center; /* [outputs]: mean target, which keeps the digits of the deviations */
    size_t columns; /* of a row: 2 for the target and LOSSES for each method, for every output; with
                       weights one more, the weight, which the others are multiplied by */
    double *table;  /* [rows][columns] */
} value_job;

/* Share of squares around the center that rounding may leave; below it targets are equal. */
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
                loss[2] = p->variance ? gaussian_nll(error, (double)p->variance[at]) : NAN;
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
        CST_TRY(check_values(context, &job->predicted[m], job->targets));
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
                     .outputs = (int32_t)in->predicted->outputs,
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
