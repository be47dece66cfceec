/*
 * The guard: levels of rows, a test of each batch, and the average of all members in batches that
 * look unlike the fit. After prediction. novelty/novelty.h, docs/prediction.md#guard.
 */
#include "model/guard.h"

#include "model/kernels.h"

#include <math.h>
#include <string.h>

/* ---- batches ---- */

/* Batches of a condition of `rows` rows. */
static int64_t batches_of(int64_t rows, int64_t batch) {
    if (batch <= 0 || batch >= rows)
        return rows > 0;
    int64_t rest = rows % batch;
    return rows / batch +
           (rest >= CST_NOVELTY_BATCH_MIN || (rest > 0 && batch < CST_NOVELTY_BATCH_MIN));
}

bool cst_guard_known(const cst_model *model) {
    return model->novelty && (model->task != CST_TASK_SEGMENTATION || model->cases);
}

/* cases: of a pool; NULL: batches are of that size. */
static cst_status report_make(cst_context *context, bool by_case, int64_t rows,
                              const cst_cases *cases, int64_t conditions, int64_t batch,
                              cst_guard_report **out) {
    int64_t each = rows / conditions;
    int64_t count = cases ? cases->count : batches_of(each, batch);
    cst_guard_report *report = cst_alloc(context, 1, sizeof *report);
    *out = report;
    if (!report)
        return CST_ERROR_MEMORY;
    *report = (cst_guard_report){.mark = CST_MARK_GUARD,
                                 .rows = rows,
                                 .count = conditions * count,
                                 .cases = by_case,
                                 .cost = {NAN, NAN}};
    size_t levels = (size_t)(by_case ? report->count : rows);
    report->batch = cst_alloc(context, (size_t)report->count, sizeof *report->batch);
    report->level = cst_alloc(context, levels, sizeof *report->level);
    report->lambda = cst_alloc(context, levels, sizeof *report->lambda);
    if (!report->batch || !report->level || !report->lambda)
        return CST_ERROR_MEMORY;
    int64_t size = count > 1 ? batch : each;
    for (int64_t b = 0; b < report->count; b++) {
        int64_t condition = b / count;
        int64_t within = b % count;
        report->batch[b] =
            (cst_guard_batch){.condition = condition,
                              .first = condition * each + within * size,
                              .rows = within + 1 < count ? size : each - within * size};
        if (cases)
            report->batch[b] = (cst_guard_batch){.first = cases->first[b],
                                                 .rows = cases->first[b + 1] - cases->first[b]};
    }
    if (cases && !(report->name = cst_alloc(context, (size_t)count, sizeof *report->name)))
        return CST_ERROR_MEMORY;
    for (int64_t b = 0; cases && b < count; b++) {
        char number[CST_CASE_CHARS];
        report->name[b] = cst_strdup(context, cst_case_name(cases, b, number));
        if (!report->name[b])
            return CST_ERROR_MEMORY;
    }
    return CST_OK;
}

typedef struct test_job {
    const cst_model *model;
    const cst_view *view;
    cst_guard_report *report;
} test_job;

static cst_status test_case(cst_context *worker, void *user, int64_t task) {
    const test_job *job = user;
    const cst_model *model = job->model;
    cst_guard_report *report = job->report;
    cst_guard_batch *batch = &report->batch[task];
    double *numbers = cst_alloc(worker, (size_t)cst_case_numbers(model->novelty), sizeof *numbers);
    cst_status status = numbers ? cst_case_measure(worker, model->novelty, job->view, batch->first,
                                                   batch->rows, numbers)
                                : CST_ERROR_MEMORY;
    if (status == CST_OK)
        report->level[task] = cst_case_level(model->cases, numbers);
    cst_free(worker, numbers);
    return status;
}

static cst_status test_batch(cst_context *worker, void *user, int64_t task) {
    const test_job *job = user;
    cst_guard_report *report = job->report;
    cst_guard_batch *batch = &report->batch[task];
    cst_novelty_found found = {0};
    cst_status status = cst_novelty_batch(worker, report->level + batch->first, batch->rows, NULL,
                                          report->lambda + batch->first, &found);
    if (status != CST_OK)
        return status;
    batch->tested = found.judged;
    batch->fired = found.fired;
    batch->pi = found.pi;
    batch->unlike = found.unlike;
    batch->lambda = found.lambda;
    return CST_OK;
}

static void judge_cases(cst_guard_report *report) {
    cst_cases_lambda(report->level, report->count, report->lambda);
    for (int64_t b = 0; b < report->count; b++) {
        cst_guard_batch *batch = &report->batch[b];
        batch->tested = 1;
        batch->lambda = report->lambda[b];
        batch->fired = batch->lambda > 0;
        batch->unlike = batch->lambda;
        batch->pi = 1 - batch->unlike;
    }
}

cst_status cst_guard_test(cst_context *context, const cst_model *model, const cst_view *view,
                          const cst_cases *cases, int64_t conditions, int64_t batch,
                          cst_guard_report **out) {
    bool by_case = model->task == CST_TASK_SEGMENTATION;
    cst_status status = report_make(context, by_case, view->rows, cases, conditions, batch, out);
    cst_view kept = *view; /* without members that came back in an adaptation */
    kept.members = model->members;
    test_job job = {.model = model, .view = &kept, .report = *out};
    if (status == CST_OK && !by_case)
        status = cst_novelty_levels(context, model->novelty, &kept, (*out)->level);
    CST_TRY(cst_parallel_for(context, (*out)->count, by_case ? test_case : test_batch, &job));
    if (status == CST_OK && by_case)
        judge_cases(*out);
    for (int64_t b = 0; status == CST_OK && b < (*out)->count; b++) {
        (*out)->fired += (*out)->batch[b].fired;
        (*out)->untested += !(*out)->batch[b].tested;
    }
    return status;
}

/* ---- the average ---- */

typedef struct mix_job {
    const cst_guard_report *report;
    const cst_view *all;
    int64_t first; /* row of the first of `out` */
    int64_t count;
    float *out;
} mix_job;

double cst_guard_lambda(const cst_guard_report *report, int64_t row) {
    int64_t low = 0;
    int64_t high = report->count;
    if (!report->cases)
        return report->lambda[row];
    while (high - low > 1) {
        int64_t middle = low + (high - low) / 2;
        if (report->batch[middle].first <= row)
            low = middle;
        else
            high = middle;
    }
    return report->lambda[low];
}

typedef struct mix_room {
    float *copy;    /* [rows][classes] */
    double *sum;    /* [rows][classes] */
    double *count;  /* [rows] */
    double *lambda; /* [rows] */
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

/* Weights of the rows; whether one is above 0. */
static bool find_lambdas(const cst_guard_report *report, int64_t first, int64_t count,
                         double *lambda) {
    bool any = false;
    for (int64_t i = 0; i < count; i++) {
        lambda[i] = cst_guard_lambda(report, first + i);
        any = any || lambda[i] > 0;
    }
    return any;
}

static cst_status mix_rows(cst_context *worker, const mix_job *job, int64_t first, int64_t count,
                           mix_room *room) {
    const cst_view *all = job->all;
    const double *lambda = room->lambda;
    int32_t classes = all->classes;
    if (!find_lambdas(job->report, first, count, room->lambda))
        return CST_OK;
    memset(room->sum, 0, (size_t)(count * classes) * sizeof *room->sum);
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
    for (int64_t i = 0; status == CST_OK && i < count; i++) {
        float *row = job->out + (first - job->first + i) * classes;
        double share = room->count[i] > 0 ? lambda[i] / room->count[i] : 0;
        for (int32_t c = 0; share > 0 && c < classes; c++)
            row[c] = (float)((1 - lambda[i]) * (double)row[c] + share * room->sum[i * classes + c]);
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
                     .count = cst_alloc(worker, (size_t)most, sizeof(double)),
                     .lambda = cst_alloc(worker, (size_t)most, sizeof(double))};
    cst_status status =
        room.copy && room.sum && room.count && room.lambda ? CST_OK : CST_ERROR_MEMORY;
    for (int64_t at = start; status == CST_OK && at < end; at += most)
        status = mix_rows(worker, job, at, end - at < most ? end - at : most, &room);
    cst_free(worker, room.copy);
    cst_free(worker, room.sum);
    cst_free(worker, room.count);
    cst_free(worker, room.lambda);
    return status;
}

cst_status cst_guard_mix(cst_context *context, const cst_guard_report *report, const cst_view *all,
                         int64_t first, int64_t count, float *out) {
    mix_job job = {.report = report, .all = all, .first = first, .count = count, .out = out};
    return cst_parallel_for(context, cst_block_count(count), mix_block, &job);
}

/* ---- what is said ---- */

/* "split 's': 3 of 8 batches look" or "the rows look", where there is one; of a segmentation
 * "cases". */
static void say_where(const char *split, const cst_guard_report *report, char *text, size_t size) {
    char where[160] = "";
    if (split)
        (void)cst_snprintf(where, sizeof where, "split '%s': ", split);
    if (report->count > 1)
        (void)cst_snprintf(text, size, "%s%lld of %lld %s look", where, (long long)report->fired,
                           (long long)report->count, report->cases ? "cases" : "batches");
    else
        (void)cst_snprintf(text, size, "%s%s", where,
                           report->cases ? "the case looks" : "the rows look");
}

void cst_guard_tell(cst_context *context, const cst_model *model, const char *split,
                    cst_guard_mode mode, const cst_guard_report *report) {
    char where[256];
    char cost[160] = "";
    double unlike = 0;
    double lambda = 0;
    double rows = 0;
    if (report->untested > 0)
        cst_notice(
            context,
            "%s%s%s%lld of %lld batches have fewer than %d rows, which the guard does not test",
            split ? "split '" : "", split ? split : "", split ? "': " : "",
            (long long)report->untested, (long long)report->count, (int)CST_NOVELTY_BATCH_MIN);
    for (int64_t b = 0; b < report->count; b++) {
        const cst_guard_batch *batch = &report->batch[b];
        if (!batch->fired)
            continue;
        rows += (double)batch->rows;
        unlike += batch->unlike * (double)batch->rows;
        lambda += batch->lambda * (double)batch->rows;
    }
    if (report->fired == 0)
        return;
    say_where(split, report, where, sizeof where);
    char share[64] = "";
    if (!report->cases)
        (void)cst_snprintf(share, sizeof share, " (%.0f%% of their rows or more)",
                           100 * unlike / rows);
    if (mode != CST_GUARD_AUTO) {
        cst_notice(context,
                   "%s unlike those of the fit%s, so the stack may do worse than the average of "
                   "all members; the guard acts in mode auto",
                   where, share);
        return;
    }
    if (isfinite(report->cost[0]))
        (void)cst_snprintf(cost, sizeof cost, ", %.3g FLOPs %s", report->cost[0],
                           report->cases ? "an image" : "a row");
    if (isfinite(report->cost[1]))
        (void)cst_snprintf(cost + strlen(cost), sizeof cost - strlen(cost), ", %.3g ms %s",
                           report->cost[1], report->cases ? "an image" : "a row");
    cst_notice(context,
               "%s unlike those of the fit%s: there the average of %d members has a mean weight "
               "of %.2f (%d of them are not in the stack%s)%s",
               where, share, (int)report->members, lambda / rows, (int)report->others, cost,
               report->others < model->novelty->others
                   ? "; predictions of other members of the fit are not there"
                   : "");
}

/* ---- arrays ---- */

static cst_status check_others(cst_context *context, const cst_model *model,
                               const float *const *others, int64_t rows) {
    for (int32_t k = 0; others && k < model->novelty->others; k++)
        for (int64_t i = 0; others[k] && i < rows; i++) {
            cst_row_check found = cst_check_row(others[k] + i * model->classes, model->classes);
            if (found.outside || !(fabs(found.sum - 1) <= 1e-3))
                return cst_fail(
                    context, CST_ERROR_INPUT,
                    "member '%s', row %lld: these are no probabilities (their sum is %g)",
                    model->novelty->other_names[k], (long long)i, found.sum);
        }
    return CST_OK;
}

bool cst_guard_is_input(const cst_model *model, int32_t other) {
    for (int32_t k = model->members; k < cst_model_members(model); k++)
        if (strcmp(model->novelty->other_names[other], cst_model_member_name(model, k)) == 0)
            return true;
    return false;
}

static cst_status guard_arrays(cst_context *context, const cst_model *model,
                               const float *const *predictions, const uint8_t *present,
                               const float *const *others, int64_t rows, const cst_guard *guard,
                               float *out, cst_guard_report **report) {
    int32_t inputs = cst_model_members(model);
    size_t most = (size_t)inputs + (size_t)model->novelty->others;
    const float **data = cst_alloc(context, most, sizeof *data);
    if (!data)
        return CST_ERROR_MEMORY;
    for (int32_t k = 0; k < inputs; k++)
        data[k] = !present || present[k] ? predictions[k] : NULL;
    cst_view view = {.rows = rows, .classes = model->classes, .members = inputs, .data = data};
    cst_status status = cst_guard_test(context, model, &view, NULL, 1, guard->batch, report);
    if (status == CST_OK && guard->mode == CST_GUARD_AUTO && (*report)->fired > 0) {
        for (int32_t k = 0; others && k < model->novelty->others; k++) {
            if (cst_guard_is_input(model, k))
                continue;
            data[inputs + k] = others[k];
            (*report)->others += others[k] != NULL;
        }
        view.members = (int32_t)most;
        for (size_t k = 0; k < most; k++)
            (*report)->members += data[k] != NULL;
        status = cst_guard_mix(context, *report, &view, 0, rows, out);
    }
    if (status == CST_OK)
        cst_guard_tell(context, model, NULL, guard->mode, *report);
    cst_free(context, data);
    return status;
}

static const cst_guard DEFAULT_GUARD = {.mode = CST_GUARD_WARN, .batch = 0};

cst_status cst_model_guard(cst_context *context, const cst_model *model,
                           const float *const *predictions, const uint8_t *present,
                           const float *const *others, int64_t rows, const cst_guard *guard,
                           float *out, cst_guard_report **report) {
    if (report)
        *report = NULL;
    CST_ENTER(context);
    CST_CHECK(context, model, MODEL, "model");
    guard = guard ? guard : &DEFAULT_GUARD;
    if (!model || rows < 0 || (rows > 0 && (!predictions || !out)) || guard->batch < 0)
        return cst_fail(context, CST_ERROR_ARGUMENT,
                        "cst_model_guard: model, predictions, rows >= 0, a batch >= 0 and an "
                        "output are required");
    for (int32_t k = 0; rows > 0 && k < cst_model_members(model); k++)
        if (!predictions[k] && (!present || present[k]))
            return cst_fail(context, CST_ERROR_ARGUMENT,
                            "cst_model_guard: the predictions of member %d, '%s', are missing",
                            (int)k, cst_model_member_name(model, k));
    if (guard->mode == CST_GUARD_OFF || !cst_guard_known(model) || rows == 0)
        return CST_OK;
    cst_guard_report *made = NULL;
    cst_status status = check_others(context, model, others, rows);
    CST_TRY(guard_arrays(context, model, predictions, present, others, rows, guard, out, &made));
    if (status == CST_OK && report)
        *report = made;
    else
        cst_guard_report_free(context, made);
    return cst_why(context, status);
}
