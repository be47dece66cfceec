/* The average of all members in batches that are unlike the fit: by levels alone, or by the fit's
 * knowledge of stack and average. model/shift/mixing.h. */
#include "model/guard.h"
#include "model/kernels.h"

#include <string.h>

enum { TILE_CELLS = 4096 };

typedef struct mix_job {
    const cst_guard_report *report;
    const cst_view *all;
    int64_t first; /* row of the first of `out` */
    int64_t count;
    float *out;
    bool keep;                   /* averages are kept for later; else rows are mixed at once */
    float *average;              /* [rows][classes] */
    cst_mixing_row *row;         /* [rows]: of the average */
    float *at[CST_MIXING_SIDES]; /* [rows][CST_MIXING_POINTS] */
    double temperature[CST_MIXING_SIDES][CST_MIXING_POINTS];
} mix_job;

typedef struct mix_room {
    float *copy;   /* [rows][classes] */
    double *sum;   /* [rows][classes] */
    double *count; /* [rows]: members */
    float *work;   /* [2][classes] */
} mix_room;

/* The batch of a row; batches are in the order of rows. */
static int64_t batch_of(const cst_guard_report *report, int64_t row) {
    int64_t low = 0;
    int64_t high = report->count;
    while (high - low > 1) {
        int64_t middle = low + (high - low) / 2;
        if (report->batch[middle].first <= row)
            low = middle;
        else
            high = middle;
    }
    return low;
}

double cst_guard_lambda(const cst_guard_report *report, int64_t row) {
    return report->lambda[report->cases ? batch_of(report, row) : row];
}

static bool any_mixed(const cst_guard_report *report, int64_t first, int64_t count) {
    for (int64_t i = first; i < first + count; i++)
        if (cst_guard_lambda(report, i) > 0)
            return true;
    return false;
}

static cst_status sum_rows(cst_context *worker, const cst_view *all, int64_t first, int64_t count,
                           mix_room *room) {
    int32_t classes = all->classes;
    memset(room->sum, 0, (size_t)(count * classes) * sizeof *room->sum);
    memset(room->count, 0, (size_t)count * sizeof *room->count);
    for (int32_t k = 0; k < all->members; k++) {
        const uint8_t *present = cst_view_present(all, k);
        const float *rows = NULL;
        if (!all->data[k])
            continue;
        CST_TRY(cst_view_rows(worker, all, k, first, count, room->copy, &rows));
        for (int64_t i = 0; i < count; i++) {
            if (!cst_view_is_there(all, present, first + i))
                continue;
            cst_add_scaled_f32(rows + i * classes, classes, 1, room->sum + i * classes);
            room->count[i]++;
        }
    }
    return CST_OK;
}

/* Mixtures of rows by their weights. */
static void mix_rows(const mix_job *job, int64_t first, int64_t count, const mix_room *room) {
    int32_t classes = job->all->classes;
    for (int64_t i = 0; i < count; i++) {
        float *row = job->out + (first - job->first + i) * classes;
        double lambda = cst_guard_lambda(job->report, first + i);
        double share = room->count[i] > 0 ? lambda / room->count[i] : 0;
        for (int32_t c = 0; share > 0 && c < classes; c++)
            row[c] = (float)((1 - lambda) * (double)row[c] + share * room->sum[i * classes + c]);
    }
}

/* Averages, the stack's row where no member is there, and confidences of both. */
static void keep_rows(const mix_job *job, int64_t first, int64_t count, const mix_room *room) {
    int32_t classes = job->all->classes;
    for (int64_t i = 0; i < count; i++) {
        int64_t at = first + i;
        float *average = job->average + at * classes;
        const float *stack = job->out + at * classes;
        cst_mixing_row same;
        for (int32_t c = 0; c < classes; c++)
            average[c] = room->count[i] > 0 ? (float)(room->sum[i * classes + c] / room->count[i])
                                            : stack[c];
        cst_mixing_measure(average, 1, classes, job->temperature[CST_MIXING_AVERAGE],
                           CST_MIXING_POINTS, room->work, &job->row[at],
                           job->at[CST_MIXING_AVERAGE] + at * CST_MIXING_POINTS);
        cst_mixing_measure(stack, 1, classes, job->temperature[CST_MIXING_STACK], CST_MIXING_POINTS,
                           room->work, &same, job->at[CST_MIXING_STACK] + at * CST_MIXING_POINTS);
    }
}

static cst_status average_block(cst_context *worker, void *user, int64_t block) {
    const mix_job *job = user;
    int32_t classes = job->all->classes;
    int64_t start = job->first + cst_block_first(block);
    int64_t end = start + cst_block_size(job->count, block);
    int64_t most = TILE_CELLS / classes;
    most = most < 1 ? 1 : most;
    CST_SCOPE(scope);
    mix_room room;
    CST_TAKE(worker, scope, room.copy, cst_view_copies(job->all) ? most * classes : 0);
    CST_TAKE(worker, scope, room.sum, most * classes);
    CST_TAKE(worker, scope, room.count, most);
    CST_TAKE(worker, scope, room.work, 2 * (int64_t)classes);
    for (int64_t at = start; at < end; at += most) {
        int64_t count = end - at < most ? end - at : most;
        if (!any_mixed(job->report, at, count))
            continue;
        CST_TRY(sum_rows(worker, job->all, at, count, &room));
        (job->keep ? keep_rows : mix_rows)(job, at, count, &room);
    }
    return CST_OK;
}

/* ---- by what the fit knows ---- */

static double temperature_of(const mix_job *job, int side, const cst_mixing_row *row,
                             const cst_guard_batch *batch, int32_t *work) {
    double mean[CST_MIXING_POINTS] = {0};
    const float *at = job->at[side] + batch->first * CST_MIXING_POINTS;
    for (int64_t i = 0; i < batch->rows; i++)
        for (int t = 0; t < CST_MIXING_POINTS; t++)
            mean[t] += (double)at[i * CST_MIXING_POINTS + t] / (double)batch->rows;
    cst_mixing_side found =
        cst_mixing_look(job->report->mixing, side, row + batch->first, batch->rows, work);
    return cst_mixing_temperature(job->report->mixing, side, &found, mean);
}

static cst_status choose_batch(cst_context *worker, void *user, int64_t b) {
    const mix_job *job = user;
    cst_guard_batch *batch = &job->report->batch[b];
    if (!batch->fired)
        return CST_OK;
    CST_SCOPE(scope);
    CST_NEW(worker, scope, int32_t, work, job->report->mixing->classes);
    batch->flatten = temperature_of(job, CST_MIXING_STACK, job->report->stack, batch, work);
    batch->sharpen = temperature_of(job, CST_MIXING_AVERAGE, job->row, batch, work);
    return CST_OK;
}

static cst_status lean_block(cst_context *worker, void *user, int64_t block) {
    const mix_job *job = user;
    int32_t classes = job->all->classes;
    int64_t first = cst_block_first(block);
    int64_t end = first + cst_block_size(job->all->rows, block);
    CST_SCOPE(scope);
    CST_NEW(worker, scope, float, work, 2 * (size_t)classes);
    int64_t b = batch_of(job->report, first);
    for (int64_t i = first; i < end; i++) {
        const cst_guard_batch *batch = &job->report->batch[b];
        while (i >= batch->first + batch->rows)
            batch = &job->report->batch[++b];
        float *row = job->out + i * classes;
        if (job->report->lambda[i] > 0)
            cst_mixing_mix(row, job->average + i * classes, classes, batch->flatten, batch->sharpen,
                           job->report->lambda[i], work, row);
    }
    return CST_OK;
}

/* All rows. */
static cst_status lean_on(cst_context *context, mix_job *job) {
    int64_t rows = job->all->rows;
    size_t cells = 0;
    if (!cst_size_mul((size_t)rows, (size_t)job->all->classes, &cells))
        return cst_fail(context, CST_ERROR_LIMIT, "%lld rows of %d classes are too many",
                        (long long)rows, (int)job->all->classes);
    CST_SCOPE(scope);
    job->keep = true;
    CST_TAKE(context, scope, job->average, cells);
    CST_TAKE(context, scope, job->row, rows);
    for (int side = 0; side < CST_MIXING_SIDES; side++) {
        CST_TAKE(context, scope, job->at[side], rows * CST_MIXING_POINTS);
        cst_mixing_temperatures(job->report->mixing, side, job->temperature[side]);
    }
    CST_TRY(cst_parallel_for(context, cst_block_count(rows), average_block, job));
    CST_TRY(cst_parallel_for(context, job->report->count, choose_batch, job));
    return cst_parallel_for(context, cst_block_count(rows), lean_block, job);
}

cst_status cst_guard_mix(cst_context *context, const cst_guard_report *report, const cst_view *all,
                         int64_t first, int64_t count, float *out) {
    mix_job job = {.report = report, .all = all, .first = first, .count = count, .out = out};
    if (report->mixing)
        return lean_on(context, &job);
    return cst_parallel_for(context, cst_block_count(count), average_block, &job);
}
