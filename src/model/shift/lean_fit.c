/*
 * What a fit stores of its stack's and its average's predictions for batches that are unlike it.
 * After stage S4. model/shift/lean.h.
 */
#include "model/shift/lean.h"

#include <math.h>
#include <string.h>

enum { TILE_CELLS = 4096 };

static const double PRIOR_ROWS = 20; /* of a class's mean and variance */
static const double STEP = 0.25;     /* of temperatures, from 1 */

cst_status cst_lean_alloc(cst_context *context, int32_t classes, cst_lean **out) {
    size_t c = (size_t)classes;
    *out = NULL;
    cst_lean *made = cst_alloc(context, 1, sizeof *made);
    if (!made)
        return CST_ERROR_MEMORY;
    made->classes = classes;
    made->mean = cst_alloc(context, c, sizeof *made->mean);
    made->variance = cst_alloc(context, c, sizeof *made->variance);
    for (int side = 0; side < CST_LEAN_SIDES; side++)
        made->count[side] = cst_alloc(context, c, sizeof *made->count[side]);
    if (!made->mean || !made->variance || !made->count[0] || !made->count[1]) {
        cst_lean_free(context, made);
        return CST_ERROR_MEMORY;
    }
    *out = made;
    return CST_OK;
}

void cst_lean_free(cst_context *context, cst_lean *lean) {
    if (!lean)
        return;
    for (int side = 0; side < CST_LEAN_SIDES; side++)
        cst_free(context, lean->count[side]);
    cst_free(context, lean->mean);
    cst_free(context, lean->variance);
    cst_free(context, lean);
}

/* ---- the average ---- */

typedef struct average_job {
    const cst_view *all;
    const double *temperature;
    cst_lean_row *row;
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
        cst_status status = cst_view_rows(worker, all, k, first, count, copy, &rows);
        if (status != CST_OK)
            return status;
        for (int64_t e = 0; e < cells; e++)
            sum[e] += rows[e];
    }
    for (int64_t e = 0; e < cells; e++)
        sum[e] *= share;
    cst_lean_measure(sum, count, all->classes, job->temperature, CST_LEAN_STEPS, work,
                     job->row + first, job->at + first * CST_LEAN_STEPS);
    return CST_OK;
}

static cst_status average_block(cst_context *worker, void *user, int64_t block) {
    const average_job *job = user;
    int64_t end = cst_block_first(block) + cst_block_size(job->all->rows, block);
    int64_t most = TILE_CELLS / job->all->classes;
    most = most < 1 ? 1 : most;
    size_t cells = (size_t)most * (size_t)job->all->classes;
    float *copy = cst_alloc(worker, cst_view_copies(job->all) ? cells : 0, sizeof *copy);
    float *work = cst_alloc(worker, 2 * (size_t)job->all->classes, sizeof *work);
    float *sum = cst_alloc(worker, cells, sizeof *sum);
    cst_status status = copy && work && sum ? CST_OK : CST_ERROR_MEMORY;
    for (int64_t at = cst_block_first(block); status == CST_OK && at < end; at += most)
        status = average_rows(worker, job, at, end - at < most ? end - at : most, copy, work, sum);
    cst_free(worker, copy);
    cst_free(worker, work);
    cst_free(worker, sum);
    return status;
}

cst_status cst_lean_average(cst_context *context, const cst_view *all, cst_lean_row *row,
                            float *at) {
    double temperature[CST_LEAN_STEPS];
    for (int t = 0; t < CST_LEAN_STEPS; t++)
        temperature[t] = 1 + STEP * t;
    average_job job = {.all = all, .temperature = temperature, .row = row, .at = at};
    const cst_share filled[] = {cst_share_rows(row, all->rows, sizeof *row),
                                cst_share_rows(at, all->rows, CST_LEAN_STEPS * sizeof *at)};
    return cst_parallel_fill(context, cst_block_count(all->rows), average_block, &job, filled, 2);
}

/* Where the mean confidence reaches the accuracy, between 1 and the last step. */
static double sharpest_of(const float *at, int64_t rows, double accuracy) {
    double before = 0;
    for (int t = 0; t < CST_LEAN_STEPS; t++) {
        double mean = 0;
        for (int64_t i = 0; i < rows; i++)
            mean += (double)at[i * CST_LEAN_STEPS + t] / (double)rows;
        if (accuracy <= mean)
            return t == 0 ? 1 : 1 + STEP * (t - 1 + (accuracy - before) / (mean - before));
        before = mean;
    }
    return 1 + STEP * (CST_LEAN_STEPS - 1);
}

/* ---- the stack ---- */

static double rounded(double value) {
    return (double)lround(value * CST_LEAN_UNITS) / CST_LEAN_UNITS;
}

/* Mean and variance of the confidence by predicted class. sum: [classes]. */
static void moments_of(const cst_confusion_row *stack, int64_t rows, double *sum, cst_lean *lean) {
    const int32_t *count = lean->count[CST_LEAN_STACK];
    double mean = 0;
    double variance = 0;
    for (int64_t i = 0; i < rows; i++) {
        mean += (double)stack[i].confidence / (double)rows;
        sum[stack[i].predicted] += (double)stack[i].confidence;
    }
    for (int32_t c = 0; c < lean->classes; c++) {
        lean->mean[c] = (float)rounded((sum[c] + PRIOR_ROWS * mean) / (count[c] + PRIOR_ROWS));
        sum[c] = 0;
    }
    for (int64_t i = 0; i < rows; i++) {
        int32_t c = stack[i].predicted;
        double d = (double)stack[i].confidence - mean;
        double own = (double)stack[i].confidence - (double)lean->mean[c];
        variance += d * d / (double)rows;
        sum[c] += own * own;
    }
    for (int32_t c = 0; c < lean->classes; c++) {
        double deviation =
            rounded(sqrt((sum[c] + PRIOR_ROWS * variance) / (count[c] + PRIOR_ROWS)));
        lean->variance[c] = (float)(deviation * deviation);
    }
}

cst_status cst_lean_fit(cst_context *context, const cst_confusion_row *stack,
                        const cst_lean_row *average, const float *at, int64_t rows, int32_t classes,
                        cst_lean **out) {
    double *sum = cst_alloc(context, (size_t)classes, sizeof *sum);
    cst_status status = sum ? cst_lean_alloc(context, classes, out) : CST_ERROR_MEMORY;
    if (status == CST_OK) {
        int64_t right[CST_LEAN_SIDES] = {0};
        cst_lean *lean = *out;
        lean->rows = rows;
        for (int64_t i = 0; i < rows; i++) {
            lean->count[CST_LEAN_STACK][stack[i].predicted]++;
            lean->count[CST_LEAN_AVERAGE][average[i].predicted]++;
            right[CST_LEAN_STACK] += stack[i].predicted == stack[i].label;
            right[CST_LEAN_AVERAGE] += average[i].predicted == stack[i].label;
        }
        for (int side = 0; side < CST_LEAN_SIDES; side++)
            lean->accuracy[side] = (double)right[side] / (double)rows;
        lean->sharpest = sharpest_of(at, rows, lean->accuracy[CST_LEAN_AVERAGE]);
        moments_of(stack, rows, sum, lean);
    }
    cst_free(context, sum);
    return status;
}
