/*
 * The guard: levels of rows, a test of each batch, and the average of all members in batches that
 * look unlike the fit. After prediction. model/shift/novelty.h, docs/prediction.md#guard.
 */
#include "model/guard.h"

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

static cst_status report_make(cst_context *context, int64_t rows, int64_t conditions, int64_t batch,
                              cst_guard_report **out) {
    int64_t each = rows / conditions;
    int64_t count = batches_of(each, batch);
    cst_guard_report *report = cst_alloc(context, 1, sizeof *report);
    *out = report;
    if (!report)
        return CST_ERROR_MEMORY;
    *report = (cst_guard_report){.rows = rows, .count = conditions * count, .cost = {NAN, NAN}};
    report->batch = cst_alloc(context, (size_t)report->count, sizeof *report->batch);
    report->level = cst_alloc(context, (size_t)rows, sizeof *report->level);
    report->lambda = cst_alloc(context, (size_t)rows, sizeof *report->lambda);
    if (!report->batch || !report->level || !report->lambda)
        return CST_ERROR_MEMORY;
    int64_t size = count > 1 ? batch : each;
    for (int64_t b = 0; b < report->count; b++) {
        int64_t condition = b / count;
        int64_t within = b % count;
        report->batch[b] =
            (cst_guard_batch){.condition = condition,
                              .first = condition * each + within * size,
                              .rows = within + 1 < count ? size : each - within * size,
                              .z = NAN,
                              .accuracy = NAN,
                              .flatten = 1,
                              .sharpen = 1};
    }
    return CST_OK;
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
    const cst_lean *lean = job->model->lean;
    cst_guard_report *report = job->report;
    double *lambda = report->lambda + batch->first;
    int32_t *work = cst_alloc(worker, (size_t)lean->classes, sizeof *work);
    if (!work)
        return CST_ERROR_MEMORY;
    cst_lean_measure(job->out + batch->first * lean->classes, batch->rows, lean->classes, NULL, 0,
                     NULL, report->stack + batch->first, NULL);
    cst_lean_side found =
        cst_lean_look(lean, CST_LEAN_STACK, report->stack + batch->first, batch->rows, work);
    cst_free(worker, work);
    batch->z = found.z;
    batch->accuracy = found.accuracy > 0 ? found.accuracy : 0;
    batch->fired = batch->fired || found.z < CST_LEAN_Z;
    batch->lambda = 0;
    for (int64_t i = 0; batch->fired && i < batch->rows; i++) {
        lambda[i] = lambda[i] > CST_LEAN_LEAST ? lambda[i] : CST_LEAN_LEAST;
        batch->lambda += lambda[i] / (double)batch->rows;
    }
    return CST_OK;
}

static cst_status test_batch(cst_context *worker, void *user, int64_t task) {
    const test_job *job = user;
    cst_guard_report *report = job->report;
    cst_guard_batch *batch = &report->batch[task];
    cst_novelty_found found = {.judged = true, .pi = 1};
    cst_status status = CST_OK;
    if (!isnan(report->level[batch->first]))
        status = cst_novelty_batch(worker, report->level + batch->first, batch->rows, NULL,
                                   report->lambda + batch->first, &found);
    if (status != CST_OK)
        return status;
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
    cst_status status = CST_OK;
    double *lambda = room + LOOKED_AT;
    bool large = batch->rows > 2 * LOOKED_AT;
    part.index = index;
    if (large) {
        part.rows = LOOKED_AT;
        for (int64_t i = 0; i < LOOKED_AT; i++) {
            int64_t row = batch->first + (int64_t)((double)i * (double)batch->rows / LOOKED_AT);
            index[i] = view->index ? view->index[row] : row;
        }
        status = cst_novelty_levels(context, novelty, &part, room);
        CST_THEN(cst_novelty_batch(context, room, LOOKED_AT, NULL, lambda, &found));
    }
    bool unlike = !large || found.pi < 1;
    for (int64_t at = 0; status == CST_OK && at < batch->rows; at += part.rows) {
        part.rows = batch->rows - at < LOOKED_AT ? batch->rows - at : LOOKED_AT;
        for (int64_t i = 0; i < part.rows; i++) {
            int64_t row = batch->first + at + i;
            index[i] = view->index ? view->index[row] : row;
            level[row] = NAN;
        }
        if (unlike)
            status = cst_novelty_levels(context, novelty, &part, level + batch->first + at);
    }
    return status;
}

static cst_status level_rows(cst_context *context, const cst_novelty *novelty, const cst_view *view,
                             const cst_guard_report *report) {
    bool large = false;
    for (int64_t b = 0; b < report->count; b++)
        large = large || report->batch[b].rows > 2 * LOOKED_AT;
    if (!large)
        return cst_novelty_levels(context, novelty, view, report->level);
    int64_t *index = cst_alloc(context, LOOKED_AT, sizeof *index);
    double *room = cst_alloc(context, 2 * (size_t)LOOKED_AT, sizeof *room);
    cst_status status = index && room ? CST_OK : CST_ERROR_MEMORY;
    for (int64_t b = 0; status == CST_OK && b < report->count; b++)
        status = level_batch(context, novelty, view, &report->batch[b], index, room, report->level);
    cst_free(context, index);
    cst_free(context, room);
    return status;
}

/* Whether every member of the stack is there: without one the stack is less confident than in the
 * fit, which says nothing about the rows. */
static bool is_whole(const cst_model *model, const cst_view *view) {
    for (int32_t k = 0; k < model->members; k++)
        if (!view->data[k])
            return false;
    return !view->presence;
}

cst_status cst_guard_test(cst_context *context, const cst_model *model, const cst_view *view,
                          const float *predicted, int64_t conditions, int64_t batch,
                          cst_guard_report **out) {
    cst_status status = report_make(context, view->rows, conditions, batch, out);
    test_job job = {.model = model, .out = predicted, .report = *out};
    if (status == CST_OK && cst_guard_lean(model) && is_whole(model, view)) {
        (*out)->stack = cst_alloc(context, (size_t)view->rows, sizeof *(*out)->stack);
        status = (*out)->stack ? CST_OK : CST_ERROR_MEMORY;
    }
    cst_view kept = *view; /* without members that came back in an adaptation */
    kept.members = model->members;
    CST_THEN(level_rows(context, model->novelty, &kept, *out));
    CST_THEN(cst_parallel_for(context, (*out)->count, test_batch, &job));
    for (int64_t b = 0; status == CST_OK && b < (*out)->count; b++) {
        (*out)->fired += (*out)->batch[b].fired;
        (*out)->untested += !(*out)->batch[b].tested;
    }
    return status;
}

bool cst_guard_is_input(const cst_model *model, int32_t other) {
    for (int32_t k = model->members; k < cst_model_members(model); k++)
        if (strcmp(model->novelty->other_names[other], cst_model_member_name(model, k)) == 0)
            return true;
    return false;
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

/* What the members cost that the guard asked for, and whether some are not there. */
static void say_others(const cst_model *model, const cst_guard_report *report, char *text,
                       size_t size) {
    int32_t known = 0;
    for (int32_t k = 0; k < model->novelty->others; k++)
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
        (void)cst_snprintf(how, sizeof how, " (the stack is less sure of them)");
    else if (!report->cases)
        (void)cst_snprintf(how, sizeof how, " (at least %.0f%% of them)", 100 * mean.unlike);
    say_others(model, report, others, sizeof others);
    if (model->adapted)
        cst_notice(context,
                   "%s unlike those of the fit%s; the guard does not change predictions of an "
                   "adapted model",
                   where, how);
    else if (mode == CST_GUARD_AUTO)
        cst_notice(context,
                   "%s unlike those of the fit%s: there the average of %d members takes part, "
                   "with a mean weight of %.2f%s",
                   where, how, (int)report->members, mean.lambda, others);
    else
        cst_notice(context,
                   "%s unlike those of the fit%s, so the average of all members may do better "
                   "there; the guard lets it take part in mode auto",
                   where, how);
}
