/*
 * The guard of a segmentation: a case (an image or a volume) is a batch, tested by some of its
 * pixels. After prediction, or before maps are written. model/shift/cases.h,
 * docs/segmentation.md#guard.
 */
#include "model/guard.h"
#include "model/kernels.h"

#include <math.h>
#include <string.h>

bool cst_guard_known(const cst_model *model) {
    return model->novelty && (model->task != CST_TASK_SEGMENTATION || model->cases);
}

/* ---- the test ---- */

static cst_status name_cases(cst_context *context, const cst_cases *cases,
                             cst_guard_report *report) {
    report->name = cst_alloc(context, (size_t)report->count, sizeof *report->name);
    if (!report->name)
        return CST_ERROR_MEMORY;
    for (int64_t b = 0; b < report->count; b++) {
        char number[CST_CASE_CHARS];
        report->name[b] = cst_strdup(context, cst_case_name(cases, b, number));
        if (!report->name[b])
            return CST_ERROR_MEMORY;
    }
    return CST_OK;
}

static cst_status report_make(cst_context *context, int64_t rows, const cst_cases *cases,
                              cst_guard_report **out) {
    int64_t count = cases->count;
    cst_guard_report *report = cst_alloc(context, 1, sizeof *report);
    *out = report;
    if (!report)
        return CST_ERROR_MEMORY;
    *report = (cst_guard_report){.rows = rows, .count = count, .cases = true, .cost = {NAN, NAN}};
    report->batch = cst_alloc(context, (size_t)count, sizeof *report->batch);
    report->level = cst_alloc(context, (size_t)count, sizeof *report->level);
    report->lambda = cst_alloc(context, (size_t)count, sizeof *report->lambda);
    if (!report->batch || !report->level || !report->lambda)
        return CST_ERROR_MEMORY;
    for (int64_t b = 0; b < count; b++) {
        report->batch[b] = (cst_guard_batch){.first = cases->first[b],
                                             .rows = cases->first[b + 1] - cases->first[b],
                                             .tested = 1,
                                             .z = NAN,
                                             .accuracy = NAN,
                                             .flatten = 1,
                                             .sharpen = 1};
    }
    return name_cases(context, cases, report);
}

typedef struct test_job {
    const cst_model *model;
    const cst_view *view;
    cst_guard_report *report;
} test_job;

static cst_status test_case(cst_context *worker, void *user, int64_t task) {
    const test_job *job = user;
    const cst_model *model = job->model;
    const cst_guard_batch *batch = &job->report->batch[task];
    double *numbers = cst_alloc(worker, (size_t)cst_case_numbers(model->novelty), sizeof *numbers);
    cst_status status = numbers ? cst_case_measure(worker, model->novelty, job->view, batch->first,
                                                   batch->rows, numbers)
                                : CST_ERROR_MEMORY;
    if (status == CST_OK)
        job->report->level[task] = cst_case_level(model->cases, numbers);
    cst_free(worker, numbers);
    return status;
}

static cst_status test_cases(cst_context *context, const cst_model *model, const cst_view *view,
                             const cst_cases *cases, cst_guard_report **out) {
    cst_status status = report_make(context, view->rows, cases, out);
    cst_view kept = *view; /* without members that came back in an adaptation */
    kept.members = model->members;
    test_job job = {.model = model, .view = &kept, .report = *out};
    CST_THEN(cst_parallel_for(context, (*out)->count, test_case, &job));
    if (status == CST_OK)
        cst_cases_lambda((*out)->level, (*out)->count, (*out)->lambda);
    for (int64_t b = 0; status == CST_OK && b < (*out)->count; b++) {
        cst_guard_batch *found = &(*out)->batch[b];
        found->lambda = (*out)->lambda[b];
        found->fired = found->lambda > 0;
        found->unlike = found->lambda / CST_CASE_LAMBDA_MAX;
        found->pi = 1 - found->unlike;
        (*out)->fired += found->fired;
    }
    return status;
}

cst_status cst_guard_test_maps(cst_context *context, const cst_model *model, const cst_pool *pool,
                               const char *split, const cst_view *view, const cst_guard *guard,
                               cst_guard_report **out) {
    *out = NULL;
    if (guard->batch > 0)
        return cst_fail(context, CST_ERROR_UNSUPPORTED,
                        "batches of the guard are not supported for segmentation, where each case "
                        "is one");
    if (guard->mode == CST_GUARD_AUTO && !cst_guard_known(model))
        cst_notice(context,
                   "the guard is off: the model has nothing to compare cases with (it is of an "
                   "older version, or was fitted on fewer than %d cases)",
                   (int)CST_CASES_MIN);
    if (guard->mode == CST_GUARD_OFF || !cst_guard_known(model) || view->rows == 0)
        return CST_OK;
    return test_cases(context, model, view, cst_pool_cases(pool, split), out);
}

/* ---- the average ---- */

double cst_guard_lambda(const cst_guard_report *report, int64_t row) {
    int64_t low = 0;
    int64_t high = report->count;
    while (high - low > 1) {
        int64_t middle = low + (high - low) / 2;
        if (report->batch[middle].first <= row)
            low = middle;
        else
            high = middle;
    }
    return report->lambda[low];
}

typedef struct mix_job {
    const cst_guard_report *report;
    const cst_view *all;
    int64_t first; /* row of the first of `out` */
    int64_t count;
    float *out;
} mix_job;

typedef struct mix_room {
    float *copy;  /* [rows][classes] */
    double *sum;  /* [rows][classes] */
    double *seen; /* [rows]: members */
} mix_room;

static cst_status mix_rows(cst_context *worker, const mix_job *job, int64_t first, int64_t count,
                           mix_room *room) {
    const cst_view *all = job->all;
    int32_t classes = all->classes;
    cst_status status = CST_OK;
    memset(room->sum, 0, (size_t)(count * classes) * sizeof *room->sum);
    memset(room->seen, 0, (size_t)count * sizeof *room->seen);
    for (int32_t k = 0; status == CST_OK && k < all->members; k++) {
        const uint8_t *present = cst_view_present(all, k);
        const float *rows = NULL;
        if (!all->data[k])
            continue;
        status = cst_view_rows(worker, all, k, first, count, room->copy, &rows);
        for (int64_t i = 0; status == CST_OK && i < count; i++) {
            if (!cst_view_is_there(all, present, first + i))
                continue;
            cst_add_scaled_f32(rows + i * classes, classes, 1, room->sum + i * classes);
            room->seen[i]++;
        }
    }
    for (int64_t i = 0; status == CST_OK && i < count; i++) {
        float *row = job->out + (first - job->first + i) * classes;
        double lambda = room->seen[i] > 0 ? cst_guard_lambda(job->report, first + i) : 0;
        for (int32_t c = 0; lambda > 0 && c < classes; c++)
            row[c] = (float)((1 - lambda) * (double)row[c] +
                             lambda / room->seen[i] * room->sum[i * classes + c]);
    }
    return status;
}

static cst_status mix_block(cst_context *worker, void *user, int64_t block) {
    const mix_job *job = user;
    int64_t start = job->first + cst_block_first(block);
    int64_t end = start + cst_block_size(job->count, block);
    int64_t most = 4096 / job->all->classes;
    most = most < 1 ? 1 : most;
    size_t cells = (size_t)most * (size_t)job->all->classes;
    mix_room room = {.copy =
                         cst_alloc(worker, cst_view_copies(job->all) ? cells : 0, sizeof(float)),
                     .sum = cst_alloc(worker, cells, sizeof(double)),
                     .seen = cst_alloc(worker, (size_t)most, sizeof(double))};
    cst_status status = room.copy && room.sum && room.seen ? CST_OK : CST_ERROR_MEMORY;
    for (int64_t at = start; status == CST_OK && at < end; at += most)
        status = mix_rows(worker, job, at, end - at < most ? end - at : most, &room);
    cst_free(worker, room.copy);
    cst_free(worker, room.sum);
    cst_free(worker, room.seen);
    return status;
}

cst_status cst_guard_mix_cases(cst_context *context, const cst_guard_report *report,
                               const cst_view *all, int64_t first, int64_t count, float *out) {
    mix_job job = {.report = report, .all = all, .first = first, .count = count, .out = out};
    return cst_parallel_for(context, cst_block_count(count), mix_block, &job);
}
