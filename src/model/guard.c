/* The guard: levels of rows or cases, a test of each batch, and the average of all members in
 * batches that look unlike the fit. docs/prediction.md#guard. */
#include "model/guard.h"

#include "data/pool/pool.h"
#include "data/pool/spatial.h"

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

/* levels: of the rows, or of the batches. */
static cst_status report_make(cst_context *context, int64_t rows, int64_t count, int64_t levels,
                              cst_guard_report **out) {
    cst_guard_report *report = cst_alloc(context, 1, sizeof *report);
    *out = report;
    if (!report)
        return CST_ERROR_MEMORY;
    *report = (cst_guard_report){.rows = rows, .count = count, .cost = {NAN, NAN}};
    CST_TAKE(context, &report->scope, report->batch, count);
    CST_TAKE(context, &report->scope, report->level, levels);
    CST_TAKE(context, &report->scope, report->lambda, levels);
    return CST_OK;
}

static cst_status cut_batches(cst_context *context, int64_t rows, int64_t conditions, int64_t batch,
                              cst_guard_report **out) {
    int64_t each = rows / conditions;
    int64_t count = batches_of(each, batch);
    int64_t size = count > 1 ? batch : each;
    CST_TRY(report_make(context, rows, conditions * count, rows, out));
    for (int64_t b = 0; b < conditions * count; b++) {
        int64_t within = b % count;
        (*out)->batch[b] = cst_guard_batch_of(b / count * each + within * size,
                                              within + 1 < count ? size : each - within * size);
        (*out)->batch[b].condition = b / count;
    }
    return CST_OK;
}

void cst_guard_report_free(cst_context *context, cst_guard_report *report) {
    if (!report)
        return;
    cst_scope_free(&report->scope);
    cst_free(context, report);
}

typedef struct test_job {
    const cst_model *model;
    const float *out; /* [rows][classes]: the stack's prediction */
    cst_guard_report *report;
} test_job;

/* Whether the stack is less confident than in the fit, where the model can tell: then, and where
 * levels say that the batch is unlike the fit, each row leans at least a little. */
static cst_status test_confidence(cst_context *worker, const test_job *job,
                                  cst_guard_batch *batch) {
    const cst_mixing *mixing = job->report->mixing;
    cst_guard_report *report = job->report;
    double *lambda = report->lambda + batch->first;
    CST_SCOPE(scope);
    CST_NEW(worker, scope, int32_t, work, mixing->classes);
    cst_mixing_measure(job->out + batch->first * mixing->classes, batch->rows, mixing->classes,
                       NULL, 0, NULL, report->stack + batch->first, NULL);
    cst_mixing_side found =
        cst_mixing_look(mixing, CST_MIXING_STACK, report->stack + batch->first, batch->rows, work);
    batch->z = found.z;
    batch->accuracy = found.accuracy > 0 ? found.accuracy : 0;
    batch->fired = batch->fired || found.z < CST_MIXING_Z;
    batch->lambda = 0;
    for (int64_t i = 0; batch->fired && i < batch->rows; i++) {
        lambda[i] = lambda[i] > CST_MIXING_LEAST ? lambda[i] : CST_MIXING_LEAST;
        batch->lambda += lambda[i] / (double)batch->rows;
    }
    return CST_OK;
}

static cst_status test_batch(cst_context *worker, void *user, int64_t task) {
    const test_job *job = user;
    cst_guard_report *report = job->report;
    cst_guard_batch *batch = &report->batch[task];
    cst_novelty_found found = {.judged = true, .pi = 1};
    if (!isnan(report->level[batch->first]))
        CST_TRY(cst_novelty_batch(worker, report->level + batch->first, batch->rows, NULL,
                                  report->lambda + batch->first, &found));
    batch->tested = found.judged;
    batch->fired = found.fired;
    batch->pi = found.pi;
    batch->unlike = found.unlike;
    batch->lambda = found.lambda;
    return batch->tested && report->stack ? test_confidence(worker, job, batch) : CST_OK;
}

/* Rows of a large batch that are looked at first: if they are like those of the fit, no others are.
 */
enum { LOOKED_AT = 4096 };

/* Levels of a batch, or NaN where a sample of its rows is like those of the fit. index, level: room
 * for the sample. */
static cst_status level_batch(cst_context *context, const cst_novelty *novelty,
                              const cst_view *view, const cst_guard_batch *batch, int64_t *index,
                              double *room, double *level) {
    cst_view part = *view;
    cst_novelty_found found = {.pi = 0};
    double *lambda = room + LOOKED_AT;
    bool large = batch->rows > 2 * LOOKED_AT;
    part.index = index;
    if (large) {
        part.rows = LOOKED_AT;
        for (int64_t i = 0; i < LOOKED_AT; i++) {
            int64_t row = batch->first + (int64_t)((double)i * (double)batch->rows / LOOKED_AT);
            index[i] = view->index ? view->index[row] : row;
        }
        CST_TRY(cst_novelty_levels(context, novelty, &part, room));
        CST_TRY(cst_novelty_batch(context, room, LOOKED_AT, NULL, lambda, &found));
    }
    bool unlike = !large || found.pi < 1;
    for (int64_t at = 0; at < batch->rows; at += part.rows) {
        part.rows = batch->rows - at < LOOKED_AT ? batch->rows - at : LOOKED_AT;
        for (int64_t i = 0; i < part.rows; i++) {
            int64_t row = batch->first + at + i;
            index[i] = view->index ? view->index[row] : row;
            level[row] = NAN;
        }
        if (unlike)
            CST_TRY(cst_novelty_levels(context, novelty, &part, level + batch->first + at));
    }
    return CST_OK;
}

static cst_status level_rows(cst_context *context, const cst_novelty *novelty, const cst_view *view,
                             const cst_guard_report *report) {
    bool large = false;
    for (int64_t b = 0; b < report->count; b++)
        large = large || report->batch[b].rows > 2 * LOOKED_AT;
    if (!large)
        return cst_novelty_levels(context, novelty, view, report->level);
    CST_SCOPE(scope);
    CST_NEW(context, scope, int64_t, index, LOOKED_AT);
    CST_NEW(context, scope, double, room, 2 * (size_t)LOOKED_AT);
    for (int64_t b = 0; b < report->count; b++)
        CST_TRY(level_batch(context, novelty, view, &report->batch[b], index, room, report->level));
    return CST_OK;
}

/* Whether every member of the stack is there: without one the stack is less confident than in the
 * fit, which says nothing about the rows. */
static bool is_whole(const cst_model *model, const cst_view *view) {
    for (int32_t k = 0; k < model->members; k++)
        if (!view->data[k])
            return false;
    return !view->presence;
}

static void count_fired(cst_guard_report *report) {
    for (int64_t b = 0; b < report->count; b++) {
        report->fired += report->batch[b].fired;
        report->untested += !report->batch[b].tested;
    }
}

static cst_status test_rows(cst_context *context, const cst_model *model, const cst_view *view,
                            const float *predicted, int64_t conditions, int64_t batch,
                            cst_guard_report **out) {
    CST_TRY(cut_batches(context, view->rows, conditions, batch, out));
    cst_guard_report *report = *out;
    test_job job = {.model = model, .out = predicted, .report = report};
    if (cst_guard_mixing(model) && is_whole(model, view)) {
        report->mixing = cst_guard_mixing(model);
        CST_TAKE(context, &report->scope, report->stack, view->rows);
    }
    cst_view kept = *view; /* without members that came back in an adaptation */
    kept.members = model->members;
    CST_TRY(level_rows(context, model->reference.novelty, &kept, report));
    CST_TRY(cst_parallel_for(context, report->count, test_batch, &job));
    count_fired(report);
    return CST_OK;
}

/* ---- cases of a segmentation: each is a batch, tested by some of its pixels ---- */

typedef struct case_job {
    const cst_model *model;
    const cst_view *view;
    cst_guard_report *report;
} case_job;

static cst_status test_case(cst_context *worker, void *user, int64_t task) {
    const case_job *job = user;
    const cst_model *model = job->model;
    const cst_guard_batch *batch = &job->report->batch[task];
    CST_SCOPE(scope);
    CST_NEW(worker, scope, double, numbers, cst_case_numbers(model->reference.novelty));
    CST_TRY(cst_case_measure(worker, model->reference.novelty, job->view, batch->first, batch->rows,
                             numbers));
    job->report->level[task] = cst_case_level(model->reference.cases, numbers);
    return CST_OK;
}

static cst_status test_cases(cst_context *context, const cst_model *model, const cst_view *view,
                             const cst_cases *cases, cst_guard_report **out) {
    CST_TRY(report_make(context, view->rows, cases->count, cases->count, out));
    cst_guard_report *report = *out;
    case_job job = {.model = model, .view = view, .report = report};
    report->cases = true;
    CST_TAKE(context, &report->scope, report->name, cases->count);
    for (int64_t b = 0; b < cases->count; b++) {
        char number[CST_CASE_CHARS];
        const char *name = cst_case_name(cases, b, number);
        report->batch[b] =
            cst_guard_batch_of(cases->first[b], cases->first[b + 1] - cases->first[b]);
        report->batch[b].tested = 1;
        report->name[b] = cst_take_text(context, &report->scope, name);
        if (!report->name[b])
            return CST_ERROR_MEMORY;
    }
    CST_TRY(cst_parallel_for(context, report->count, test_case, &job));
    cst_cases_lambda(report->level, report->count, report->lambda);
    for (int64_t b = 0; b < report->count; b++) {
        cst_guard_batch *found = &report->batch[b];
        found->lambda = report->lambda[b];
        found->fired = found->lambda > 0;
        found->unlike = found->lambda / CST_CASE_LAMBDA_MAX;
        found->pi = 1 - found->unlike;
    }
    count_fired(report);
    return CST_OK;
}

cst_status cst_guard_test_maps(cst_context *context, const cst_model *model, const cst_pool *pool,
                               const char *split, const cst_view *view, const cst_guard *guard,
                               cst_guard_report **out) {
    *out = NULL;
    if (guard->batch > 0)
        return cst_fail(context, CST_ERROR_UNSUPPORTED,
                        "batches of the guard are not supported for segmentation, where each case "
                        "is one");
    if (guard->mode == CST_GUARD_AUTO && !cst_model_has_guard(model))
        cst_notice(context,
                   "the guard is off: the model has nothing to compare cases with (it is of an "
                   "older version, or was fitted on fewer than %d cases)",
                   (int)CST_CASES_MIN);
    if (guard->mode == CST_GUARD_OFF || !cst_model_has_guard(model) || view->rows == 0)
        return CST_OK;
    cst_view kept = *view; /* without members that came back in an adaptation */
    kept.members = model->members;
    return test_cases(context, model, &kept, cst_pool_cases(pool, split), out);
}

/* ---- what is said ---- */

/* "split 's': 3 of 8 batches have rows", or of one batch "split 's': the rows are". */
static void say_where(const char *split, const cst_guard_report *report, char *text, size_t size) {
    if (report->count > 1)
        (void)cst_snprintf(text, size, "split '%s': %lld of %lld %s", split,
                           (long long)report->fired, (long long)report->count,
                           report->cases ? "cases are" : "batches have rows");
    else
        (void)cst_snprintf(text, size, "split '%s': the %s", split,
                           report->cases ? "case is" : "rows are");
}

/* Means over the batches that fired, by their rows. */
typedef struct fired_mean {
    double unlike;
    double lambda;
} fired_mean;

static fired_mean mean_fired(const cst_guard_report *report) {
    fired_mean mean = {0};
    double rows = 0;
    for (int64_t b = 0; b < report->count; b++) {
        const cst_guard_batch *batch = &report->batch[b];
        if (!batch->fired)
            continue;
        rows += (double)batch->rows;
        mean.unlike += batch->unlike * (double)batch->rows;
        mean.lambda += batch->lambda * (double)batch->rows;
    }
    mean.unlike /= rows > 0 ? rows : 1;
    mean.lambda /= rows > 0 ? rows : 1;
    return mean;
}

/* The cost of the members that the guard asked for, and whether some are missing. */
static void say_others(const cst_model *model, const cst_guard_report *report, char *text,
                       size_t size) {
    int32_t known = 0;
    for (int32_t k = 0; k < model->reference.novelty->others; k++)
        known += !cst_guard_is_input(model, k);
    *text = 0;
    if (report->others > 0)
        (void)cst_snprintf(text, size, "; %d of them are not in the stack", (int)report->others);
    if (isfinite(report->cost[0]))
        (void)cst_snprintf(text + strlen(text), size - strlen(text), ", %.3g FLOPs %s",
                           report->cost[0], report->cases ? "an image" : "a row");
    if (isfinite(report->cost[1]))
        (void)cst_snprintf(text + strlen(text), size - strlen(text), ", %.3g ms %s",
                           report->cost[1], report->cases ? "an image" : "a row");
    if (report->others < known)
        (void)cst_snprintf(text + strlen(text), size - strlen(text),
                           "; predictions of %d other members of the fit are missing",
                           (int)(known - report->others));
}

void cst_guard_tell(cst_context *context, const cst_model *model, const char *split,
                    cst_guard_mode mode, const cst_guard_report *report) {
    char where[256];
    char how[128];
    char others[256];
    if (report->untested > 0 && mode == CST_GUARD_AUTO)
        cst_notice(
            context, "%lld of %lld batches have fewer than %d rows: the guard does not test them",
            (long long)report->untested, (long long)report->count, (int)CST_NOVELTY_BATCH_MIN);
    if (report->fired == 0)
        return;
    fired_mean mean = mean_fired(report);
    say_where(split, report, where, sizeof where);
    how[0] = '\0';
    if (!report->cases && mean.unlike < 0.005)
        (void)cst_snprintf(how, sizeof how, " (the stack is less confident in them)");
    else if (!report->cases)
        (void)cst_snprintf(how, sizeof how, " (at least %.0f%% of them)", 100 * mean.unlike);
    say_others(model, report, others, sizeof others);
    if (model->adapted)
        cst_notice(
            context,
            "%s unlike the fit data%s; the guard does not change predictions of an adapted model",
            where, how);
    else if (mode == CST_GUARD_AUTO)
        cst_notice(context,
                   "%s unlike the fit data%s: there the average of %d members is mixed in, with a "
                   "mean weight of %.2f%s",
                   where, how, (int)report->members, mean.lambda, others);
    else
        cst_notice(context,
                   "%s unlike the fit data%s, so the average of all members may do better there; "
                   "guard mode auto mixes it in",
                   where, how);
}

/* ---- a split: where the guard acts, members that the stack leaves out are loaded ---- */

/* Loads one of the others; whether it is there. One that cannot be read is only missed. */
static cst_status load_other(cst_context *context, cst_pool *pool, const char *split,
                             int32_t position, bool *there) {
    *there = false;
    if (position < 0 || !cst_pool_member_has_split(pool, position, split))
        return CST_OK;
    cst_status status = cst_pool_load_members(context, pool, split, &position, 1);
    *there = status == CST_OK;
    if (status == CST_OK || status == CST_ERROR_MEMORY || status == CST_ERROR_CANCELLED)
        return status;
    cst_notice(context, "the guard's average is without member '%s': %s",
               cst_pool_member_name(pool, position), cst_last_error(context));
    return CST_OK;
}

/* Positions of the model's members, then of the others that are there. */
static cst_status find_all(cst_context *context, const cst_model *model, cst_pool *pool,
                           const char *split, const cst_view *view, int32_t *positions,
                           cst_guard_report *report) {
    double flops = 0;
    double latency = 0;
    for (int32_t k = 0; k < view->members; k++) {
        positions[k] = cst_pool_member_index(pool, cst_model_member_name(model, k));
        report->members += view->data[k] != NULL;
    }
    for (int32_t k = 0; k < model->reference.novelty->others; k++) {
        int32_t position = cst_pool_member_index(pool, model->reference.novelty->other_names[k]);
        bool there = false;
        if (cst_guard_is_input(model, k))
            continue;
        CST_TRY(load_other(context, pool, split, position, &there));
        if (!there)
            continue;
        positions[view->members + report->others++] = position;
        flops += cst_pool_member_flops(pool, position);
        latency += cst_pool_member_latency_ms(pool, position);
    }
    report->members += report->others;
    if (report->others > 0) {
        report->cost[0] = flops;
        report->cost[1] = latency;
    }
    return CST_OK;
}

cst_status cst_guard_all(cst_context *context, const cst_model *model, cst_pool *pool,
                         const char *split, const cst_view *view, cst_guard_report *report,
                         cst_view *all) {
    int64_t most = (int64_t)view->members + model->reference.novelty->others;
    CST_SCOPE(scope);
    CST_NEW(context, scope, int32_t, positions, most);
    CST_NEW(context, &report->scope, const float *, pointers, most);
    CST_TRY(find_all(context, model, pool, split, view, positions, report));
    return cst_pool_view_there(context, pool, split, positions, view->members + report->others,
                               pointers, all);
}

static cst_status test_split(cst_context *context, const cst_model *model, const cst_pool *pool,
                             const char *split, const cst_view *view, const cst_guard *guard,
                             const float *out, cst_guard_report **report) {
    if (model->task == CST_TASK_SEGMENTATION)
        return cst_guard_test_maps(context, model, pool, split, view, guard, report);
    if (guard->mode == CST_GUARD_AUTO && !model->reference.novelty &&
        model->task == CST_TASK_CLASSIFICATION && view->rows >= CST_NOVELTY_BATCH_MIN) {
        if (model->adapted)
            cst_notice(context, "the guard is off: the model was adapted, and is not compared with "
                                "the rows of its fit");
        else
            cst_notice(context,
                       "the guard is off: the model has nothing to compare rows with (it is of an "
                       "older version, or was fitted on fewer than %d rows)",
                       (int)CST_NOVELTY_ROWS_MIN);
    }
    if (guard->mode == CST_GUARD_OFF || !model->reference.novelty || view->rows == 0)
        return CST_OK;
    int32_t conditions = (int32_t)cst_pool_conditions(pool, split);
    return test_rows(context, model, view, out, conditions > 0 ? conditions : 1, guard->batch,
                     report);
}

cst_status cst_guard_split(cst_context *context, const cst_model *model, cst_pool *pool,
                           const char *split, const cst_view *view, const cst_guard *guard,
                           float *out, cst_guard_report **report) {
    *report = NULL;
    CST_TRY(test_split(context, model, pool, split, view, guard, out, report));
    if (!*report)
        return CST_OK;
    if (guard->mode == CST_GUARD_AUTO && !model->adapted && (*report)->fired > 0) {
        cst_view all;
        CST_TRY(cst_guard_all(context, model, pool, split, view, *report, &all));
        CST_TRY(cst_guard_mix(context, *report, &all, 0, all.rows, out));
    }
    cst_guard_tell(context, model, split, guard->mode, *report);
    return CST_OK;
}
