/*
 * The average of all members in batches that are unlike the fit: by levels alone, or by what the
 * fit knows of stack and average. After the test. model/guard.h, model/shift/lean.h.
 */
#include "model/guard.h"
#include "model/kernels.h"

#include <string.h>

const cst_lean *cst_guard_lean(const cst_model *model) {
    return model->adapted ? NULL : model->lean;
}

typedef struct mix_job {
    const cst_guard_report *report;
    const cst_view *all;
    float *out;
    const cst_lean *lean;      /* NULL: mix at once */
    float *average;            /* [rows][classes] */
    cst_lean_row *row;         /* [rows]: of the average */
    float *at[CST_LEAN_SIDES]; /* [rows][CST_LEAN_POINTS] */
    double temperature[CST_LEAN_SIDES][CST_LEAN_POINTS];
} mix_job;

typedef struct mix_room {
    float *copy;   /* [rows][classes] */
    double *sum;   /* [rows][classes] */
    double *count; /* [rows] */
    float *work;   /* [2][classes] */
} mix_room;

/* Adds a member's rows. */
static void add_rows(const cst_view *all, const uint8_t *present, int64_t first, int64_t count,
                     const float *rows, mix_room *room) {
    int32_t classes = all->classes;
    for (int64_t i = 0; i < count; i++) {
        if (!cst_view_is_there(all, present, first + i))
            continue;
        cst_add_scaled_f32(rows + i * classes, classes, 1, room->sum + i * classes);
        room->count[i]++;
    }
}

static bool any_mixed(const double *lambda, int64_t count) {
    for (int64_t i = 0; i < count; i++)
        if (lambda[i] > 0)
            return true;
    return false;
}

static cst_status sum_rows(cst_context *worker, const cst_view *all, int64_t first, int64_t count,
                           mix_room *room) {
    memset(room->sum, 0, (size_t)(count * all->classes) * sizeof *room->sum);
    memset(room->count, 0, (size_t)count * sizeof *room->count);
    cst_status status = CST_OK;
    for (int32_t k = 0; status == CST_OK && k < all->members; k++) {
        const float *rows = NULL;
        if (!all->data[k])
            continue;
        status = cst_view_rows(worker, all, k, first, count, room->copy, &rows);
        if (status == CST_OK)
            add_rows(all, cst_view_present(all, k), first, count, rows, room);
    }
    return status;
}

/* Mixtures of rows by their weights. */
static void mix_rows(const mix_job *job, int64_t first, int64_t count, const mix_room *room) {
    int32_t classes = job->all->classes;
    const double *lambda = job->report->lambda + first;
    for (int64_t i = 0; i < count; i++) {
        float *row = job->out + (first + i) * classes;
        double share = room->count[i] > 0 ? lambda[i] / room->count[i] : 0;
        for (int32_t c = 0; share > 0 && c < classes; c++)
            row[c] = (float)((1 - lambda[i]) * (double)row[c] + share * room->sum[i * classes + c]);
    }
}

/* Averages, the stack's row where no member is there, and confidences of both. */
static void keep_rows(const mix_job *job, int64_t first, int64_t count, const mix_room *room) {
    int32_t classes = job->all->classes;
    for (int64_t i = 0; i < count; i++) {
        int64_t at = first + i;
        float *average = job->average + at * classes;
        const float *stack = job->out + at * classes;
        cst_lean_row same;
        for (int32_t c = 0; c < classes; c++)
            average[c] = room->count[i] > 0 ? (float)(room->sum[i * classes + c] / room->count[i])
                                            : stack[c];
        cst_lean_measure(average, 1, classes, job->temperature[CST_LEAN_AVERAGE], CST_LEAN_POINTS,
                         room->work, &job->row[at],
                         job->at[CST_LEAN_AVERAGE] + at * CST_LEAN_POINTS);
        cst_lean_measure(stack, 1, classes, job->temperature[CST_LEAN_STACK], CST_LEAN_POINTS,
                         room->work, &same, job->at[CST_LEAN_STACK] + at * CST_LEAN_POINTS);
    }
}

static cst_status average_block(cst_context *worker, void *user, int64_t block) {
    const mix_job *job = user;
    size_t classes = (size_t)job->all->classes;
    int64_t end = cst_block_first(block) + cst_block_size(job->all->rows, block);
    int64_t most = 4096 / job->all->classes;
    most = most < 1 ? 1 : most;
    size_t cells = (size_t)most * classes;
    mix_room room = {.copy =
                         cst_alloc(worker, cst_view_copies(job->all) ? cells : 0, sizeof(float)),
                     .sum = cst_alloc(worker, cells, sizeof(double)),
                     .count = cst_alloc(worker, (size_t)most, sizeof(double)),
                     .work = cst_alloc(worker, 2 * classes, sizeof(float))};
    cst_status status =
        room.copy && room.sum && room.count && room.work ? CST_OK : CST_ERROR_MEMORY;
    for (int64_t at = cst_block_first(block); status == CST_OK && at < end; at += most) {
        int64_t count = end - at < most ? end - at : most;
        if (!any_mixed(job->report->lambda + at, count))
            continue;
        status = sum_rows(worker, job->all, at, count, &room);
        if (status == CST_OK)
            (job->lean ? keep_rows : mix_rows)(job, at, count, &room);
    }
    cst_free(worker, room.copy);
    cst_free(worker, room.sum);
    cst_free(worker, room.count);
    cst_free(worker, room.work);
    return status;
}

/* ---- by what the fit knows ---- */

static double temperature_of(const mix_job *job, int side, const cst_lean_row *row,
                             const cst_guard_batch *batch, int32_t *work) {
    double mean[CST_LEAN_POINTS] = {0};
    const float *at = job->at[side] + batch->first * CST_LEAN_POINTS;
    for (int64_t i = 0; i < batch->rows; i++)
        for (int t = 0; t < CST_LEAN_POINTS; t++)
            mean[t] += (double)at[i * CST_LEAN_POINTS + t] / (double)batch->rows;
    cst_lean_side found = cst_lean_look(job->lean, side, row + batch->first, batch->rows, work);
    return cst_lean_temperature(job->lean, side, &found, mean);
}

static cst_status choose_batch(cst_context *worker, void *user, int64_t b) {
    const mix_job *job = user;
    cst_guard_batch *batch = &job->report->batch[b];
    if (!batch->fired)
        return CST_OK;
    int32_t *work = cst_alloc(worker, (size_t)job->lean->classes, sizeof *work);
    if (!work)
        return CST_ERROR_MEMORY;
    batch->flatten = temperature_of(job, CST_LEAN_STACK, job->report->stack, batch, work);
    batch->sharpen = temperature_of(job, CST_LEAN_AVERAGE, job->row, batch, work);
    cst_free(worker, work);
    return CST_OK;
}

/* The batch of a row; batches are in the order of rows. */
static int64_t batch_of(const cst_guard_report *report, int64_t row) {
    int64_t low = 0;
    int64_t high = report->count - 1;
    while (low < high) {
        int64_t middle = (low + high + 1) / 2;
        if (report->batch[middle].first <= row)
            low = middle;
        else
            high = middle - 1;
    }
    return low;
}

static cst_status lean_block(cst_context *worker, void *user, int64_t block) {
    const mix_job *job = user;
    int32_t classes = job->all->classes;
    int64_t first = cst_block_first(block);
    int64_t end = first + cst_block_size(job->all->rows, block);
    float *work = cst_alloc(worker, 2 * (size_t)classes, sizeof *work);
    if (!work)
        return CST_ERROR_MEMORY;
    int64_t b = batch_of(job->report, first);
    for (int64_t i = first; i < end; i++) {
        const cst_guard_batch *batch = &job->report->batch[b];
        while (i >= batch->first + batch->rows)
            batch = &job->report->batch[++b];
        float *row = job->out + i * classes;
        if (job->report->lambda[i] > 0)
            cst_lean_mix(row, job->average + i * classes, classes, batch->flatten, batch->sharpen,
                         job->report->lambda[i], work, row);
    }
    cst_free(worker, work);
    return CST_OK;
}

static cst_status lean_on(cst_context *context, mix_job *job) {
    size_t rows = (size_t)job->all->rows;
    size_t cells = 0;
    if (!cst_size_mul(rows, (size_t)job->all->classes, &cells))
        return cst_fail(context, CST_ERROR_LIMIT, "%zu rows of %d classes are too many", rows,
                        (int)job->all->classes);
    job->average = cst_alloc(context, cells, sizeof *job->average);
    job->row = cst_alloc(context, rows, sizeof *job->row);
    cst_status status = job->average && job->row ? CST_OK : CST_ERROR_MEMORY;
    for (int side = 0; side < CST_LEAN_SIDES; side++) {
        job->at[side] = cst_alloc(context, rows * CST_LEAN_POINTS, sizeof *job->at[side]);
        status = job->at[side] ? status : CST_ERROR_MEMORY;
        cst_lean_temperatures(job->lean, side, job->temperature[side]);
    }
    CST_THEN(cst_parallel_for(context, cst_block_count(job->all->rows), average_block, job));
    CST_THEN(cst_parallel_for(context, job->report->count, choose_batch, job));
    CST_THEN(cst_parallel_for(context, cst_block_count(job->all->rows), lean_block, job));
    for (int side = 0; side < CST_LEAN_SIDES; side++)
        cst_free(context, job->at[side]);
    cst_free(context, job->row);
    cst_free(context, job->average);
    return status;
}

cst_status cst_guard_mix(cst_context *context, const cst_model *model, cst_guard_report *report,
                         const cst_view *all, float *out) {
    mix_job job = {.report = report, .all = all, .out = out};
    if (report->stack)
        job.lean = cst_guard_lean(model);
    if (job.lean)
        return lean_on(context, &job);
    return cst_parallel_for(context, cst_block_count(all->rows), average_block, &job);
}
