/* A fit's record of its stack's and its average's predictions, sums over the rows of a batch, the
 * temperatures that follow, and the mixture of a row. */
#include "model/shift/mixing.h"

#include "core/wide.h"

#include <math.h>
#include <string.h>

enum { TILE_CELLS = 4096 };

static const double PRIOR_ROWS = 20; /* of a class's mean and variance */
static const double STEP = 0.25;     /* of temperatures, from 1 */
/* The lowest temperature of the stack; what a skew may be without meaning less accuracy. */
static const double FLATTEST = 0.3;
static const double SLACK = 0.05;
static const float LEAST_PROBABILITY = 1e-12F;

/* Logarithms of a row less the largest. */
static void logs_of(const float *p, int32_t classes, float *log_p) {
    float most = LEAST_PROBABILITY;
    for (int32_t c = 0; c < classes; c++) {
        log_p[c] = p[c] > LEAST_PROBABILITY ? p[c] : LEAST_PROBABILITY;
        most = log_p[c] > most ? log_p[c] : most;
    }
    cst_log_f32(classes, log_p, log_p);
    cst_log_f32(1, &most, &most);
    for (int32_t c = 0; c < classes; c++)
        log_p[c] -= most;
}

void cst_mixing_measure(const float *p, int64_t rows, int32_t classes, const double *temperature,
                        int32_t points, float *work, cst_mixing_row *row, float *at) {
    float *power = work + classes;
    for (int64_t i = 0; i < rows; i++, p += classes) {
        cst_confusion_row top = cst_confusion_row_of(p, classes, 0);
        row[i] = (cst_mixing_row){.predicted = top.predicted, .confidence = top.confidence};
        if (points > 0)
            logs_of(p, classes, work);
        for (int32_t t = 0; t < points; t++) {
            double sum = 0;
            for (int32_t c = 0; c < classes; c++)
                power[c] = (float)temperature[t] * work[c];
            cst_exp_f32(classes, power, power);
            for (int32_t c = 0; c < classes; c++)
                sum += (double)power[c];
            at[i * points + t] = (float)(1 / sum);
        }
    }
}

void cst_mixing_temperatures(const cst_mixing *mixing, int side, double *temperature) {
    double low = side == CST_MIXING_STACK ? FLATTEST : 1;
    double high = side == CST_MIXING_STACK ? 1 : mixing->sharpest;
    for (int t = 0; t < CST_MIXING_POINTS; t++)
        temperature[t] = low + (high - low) * t / (CST_MIXING_POINTS - 1);
}

/* Half of the mean distance between two shares of a class, both of q, of as many rows as `rows`
 * stands for: what chance leaves (normal, or where the class is mostly absent exactly). */
static double chance_of(double q, double rows) {
    const double pi = 3.14159265358979323846;
    return rows * q < 1 ? q * pow(1 - q, rows) : 0.5 * sqrt(2 * q * (1 - q) / (pi * rows));
}

cst_mixing_side cst_mixing_look(const cst_mixing *mixing, int side, const cst_mixing_row *row,
                                int64_t rows, int32_t *work) {
    cst_mixing_side found = {0};
    double n = (double)rows;
    double variance = 0;
    memset(work, 0, (size_t)mixing->classes * sizeof *work);
    for (int64_t i = 0; i < rows; i++) {
        int32_t c = row[i].predicted;
        work[c]++;
        found.confidence += (double)row[i].confidence / n;
        found.expected += (double)mixing->mean[c] / n;
        variance += (double)mixing->variance[c];
    }
    double deviation = sqrt(variance * (1 + n / (double)mixing->rows)) / n;
    if (side == CST_MIXING_STACK && deviation > 0)
        found.z = (found.confidence - found.expected) / deviation;
    double same = 1 / (1 / n + 1 / (double)mixing->rows);
    double distance = 0;
    double chance = 0;
    for (int32_t c = 0; c < mixing->classes; c++) {
        double q = (double)mixing->count[side][c] / (double)mixing->rows;
        distance += 0.5 * fabs((double)work[c] / n - q);
        chance += chance_of(q, same);
    }
    if (distance > chance)
        found.skew = sqrt(distance * distance - chance * chance);
    found.accuracy = mixing->accuracy[side] - found.skew;
    return found;
}

double cst_mixing_temperature(const cst_mixing *mixing, int side, const cst_mixing_side *found,
                              const double *mean) {
    double temperature[CST_MIXING_POINTS];
    double least = found->skew > SLACK ? found->skew - SLACK : 0;
    double target = mixing->accuracy[side] - least;
    cst_mixing_temperatures(mixing, side, temperature);
    if (side == CST_MIXING_STACK) {
        double fallen = found->expected - found->confidence;
        double lowest = found->confidence - (fallen > 0 ? fallen : 0);
        target = target > lowest ? target : lowest;
    }
    if (target <= mean[0])
        return temperature[0];
    for (int t = 1; t < CST_MIXING_POINTS; t++)
        if (target < mean[t])
            return temperature[t - 1] + (temperature[t] - temperature[t - 1]) *
                                            (target - mean[t - 1]) / (mean[t] - mean[t - 1]);
    return temperature[CST_MIXING_POINTS - 1];
}

void cst_mixing_mix(const float *stack, const float *average, int32_t classes, double flat,
                    double sharp, double weight, float *work, float *out) {
    float *other = work + classes;
    float stack_power = (float)((1 - weight) * flat);
    float average_power = (float)(weight * sharp);
    logs_of(stack, classes, work);
    logs_of(average, classes, other);
    float most = stack_power * work[0] + average_power * other[0];
    for (int32_t c = 0; c < classes; c++) {
        work[c] = stack_power * work[c] + average_power * other[c];
        most = work[c] > most ? work[c] : most;
    }
    for (int32_t c = 0; c < classes; c++)
        work[c] -= most;
    cst_exp_f32(classes, work, work);
    double sum = 0;
    for (int32_t c = 0; c < classes; c++)
        sum += (double)work[c];
    for (int32_t c = 0; c < classes; c++)
        out[c] = (float)((double)work[c] / sum);
}

/* ---- a fit: the average ---- */

typedef struct average_job {
    const cst_view *all;
    const double *temperature;
    cst_mixing_row *row;
    float *at;
} average_job;

static cst_status average_rows(cst_context *worker, const average_job *job, int64_t first,
                               int64_t count, float *copy, float *work, float *sum) {
    const cst_view *all = job->all;
    int64_t cells = count * all->classes;
    float share = 1 / (float)all->members;
    memset(sum, 0, (size_t)cells * sizeof *sum);
    for (int32_t k = 0; k < all->members; k++) {
        const float *rows = NULL;
        CST_TRY(cst_view_rows(worker, all, k, first, count, copy, &rows));
        for (int64_t e = 0; e < cells; e++)
            sum[e] += rows[e];
    }
    for (int64_t e = 0; e < cells; e++)
        sum[e] *= share;
    cst_mixing_measure(sum, count, all->classes, job->temperature, CST_MIXING_STEPS, work,
                       job->row + first, job->at + first * CST_MIXING_STEPS);
    return CST_OK;
}

static cst_status average_block(cst_context *worker, void *user, int64_t block) {
    const average_job *job = user;
    int64_t end = cst_block_first(block) + cst_block_size(job->all->rows, block);
    int64_t most = TILE_CELLS / job->all->classes;
    most = most < 1 ? 1 : most;
    size_t cells = (size_t)most * (size_t)job->all->classes;
    CST_SCOPE(scope);
    CST_NEW(worker, scope, float, copy, cst_view_copies(job->all) ? cells : 0);
    CST_NEW(worker, scope, float, work, 2 * (size_t)job->all->classes);
    CST_NEW(worker, scope, float, sum, cells);
    for (int64_t at = cst_block_first(block); at < end; at += most)
        CST_TRY(average_rows(worker, job, at, end - at < most ? end - at : most, copy, work, sum));
    return CST_OK;
}

cst_status cst_mixing_average(cst_context *context, const cst_view *all, cst_mixing_row *row,
                              float *at) {
    double temperature[CST_MIXING_STEPS];
    for (int t = 0; t < CST_MIXING_STEPS; t++)
        temperature[t] = 1 + STEP * t;
    average_job job = {.all = all, .temperature = temperature, .row = row, .at = at};
    const cst_share filled[] = {cst_share_rows(row, all->rows, sizeof *row),
                                cst_share_rows(at, all->rows, CST_MIXING_STEPS * sizeof *at)};
    return cst_parallel_fill(context, cst_block_count(all->rows), average_block, &job, filled, 2);
}

/* Where the mean confidence reaches the accuracy, between 1 and the last step. */
static double sharpest_of(const float *at, int64_t rows, double accuracy) {
    double before = 0;
    for (int t = 0; t < CST_MIXING_STEPS; t++) {
        double mean = 0;
        for (int64_t i = 0; i < rows; i++)
            mean += (double)at[i * CST_MIXING_STEPS + t] / (double)rows;
        if (accuracy <= mean)
            return t == 0 ? 1 : 1 + STEP * (t - 1 + (accuracy - before) / (mean - before));
        before = mean;
    }
    return 1 + STEP * (CST_MIXING_STEPS - 1);
}

/* ---- a fit: the stack ---- */

static double rounded(double value) {
    return (double)lround(value * CST_MIXING_UNITS) / CST_MIXING_UNITS;
}

/* Mean and variance of the confidence by predicted class. sum: [classes]. */
static void moments_of(const cst_confusion_row *stack, int64_t rows, double *sum,
                       cst_mixing *mixing) {
    const int32_t *count = mixing->count[CST_MIXING_STACK];
    double mean = 0;
    double variance = 0;
    for (int64_t i = 0; i < rows; i++) {
        mean += (double)stack[i].confidence / (double)rows;
        sum[stack[i].predicted] += (double)stack[i].confidence;
    }
    for (int32_t c = 0; c < mixing->classes; c++) {
        mixing->mean[c] = (float)rounded((sum[c] + PRIOR_ROWS * mean) / (count[c] + PRIOR_ROWS));
        sum[c] = 0;
    }
    for (int64_t i = 0; i < rows; i++) {
        int32_t c = stack[i].predicted;
        double d = (double)stack[i].confidence - mean;
        double own = (double)stack[i].confidence - (double)mixing->mean[c];
        variance += d * d / (double)rows;
        sum[c] += own * own;
    }
    for (int32_t c = 0; c < mixing->classes; c++) {
        double deviation =
            rounded(sqrt((sum[c] + PRIOR_ROWS * variance) / (count[c] + PRIOR_ROWS)));
        mixing->variance[c] = (float)(deviation * deviation);
    }
}

cst_status cst_mixing_alloc(cst_context *context, cst_scope *scope, int32_t classes,
                            cst_mixing **out) {
    *out = NULL;
    CST_NEW(context, scope, cst_mixing, made, 1);
    made->classes = classes;
    CST_TAKE(context, scope, made->mean, classes);
    CST_TAKE(context, scope, made->variance, classes);
    for (int side = 0; side < CST_MIXING_SIDES; side++)
        CST_TAKE(context, scope, made->count[side], classes);
    *out = made;
    return CST_OK;
}

cst_status cst_mixing_fit(cst_context *context, cst_scope *made, const cst_confusion_row *stack,
                          const cst_mixing_row *average, const float *at, int64_t rows,
                          int32_t classes, cst_mixing **out) {
    CST_SCOPE(scope);
    CST_NEW(context, scope, double, sum, classes);
    CST_TRY(cst_mixing_alloc(context, made, classes, out));
    int64_t right[CST_MIXING_SIDES] = {0};
    cst_mixing *mixing = *out;
    mixing->rows = rows;
    for (int64_t i = 0; i < rows; i++) {
        mixing->count[CST_MIXING_STACK][stack[i].predicted]++;
        mixing->count[CST_MIXING_AVERAGE][average[i].predicted]++;
        right[CST_MIXING_STACK] += stack[i].predicted == stack[i].label;
        right[CST_MIXING_AVERAGE] += average[i].predicted == stack[i].label;
    }
    for (int side = 0; side < CST_MIXING_SIDES; side++)
        mixing->accuracy[side] = (double)right[side] / (double)rows;
    mixing->sharpest = sharpest_of(at, rows, mixing->accuracy[CST_MIXING_AVERAGE]);
    moments_of(stack, rows, sum, mixing);
    return CST_OK;
}
