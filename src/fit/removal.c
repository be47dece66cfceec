/* Removals judged on cross-fitted losses, after S4. docs/method.md#s4-blend. */
#include "fit/stages.h"

#include "fit/family.h"

#include <math.h>
#include <string.h>

CST_OWNED(cst_meta_fit)

/* Up to SINGLY kept members each is left out alone; a group is at least this share of the members
 * that there were: 1 / SHARES. */
enum { SINGLY = 64, SHARES = 32 };

/* Places of the values [count] in ascending order; of equals the first comes first. */
static void sort_places(const double *values, int32_t count, int32_t *order) {
    for (int32_t j = 0; j < count; j++) {
        int32_t at = j;
        while (at > 0 && values[order[at - 1]] > values[j]) {
            order[at] = order[at - 1];
            at--;
        }
        order[at] = j;
    }
}

/* What removals are judged on: all rows, or a sample of them. */
typedef struct drop_job {
    const cst_run *run;
    cst_meta_fit *fit; /* with every kept member, on these rows, with the loss of each */
    bool sample;       /* these are not all rows */
    double se_scale;   /* standard error over all rows / over these */
    double *change;    /* [kept]: mean loss without the member minus with it */
    double *change_se; /* [kept] */
    bool *known;       /* [members of the pool]: it was tried on the set that is kept now */
    double *missed;    /* [2][members of the pool]: what came of that, change and standard error */
    cst_stages *out;   /* what removals change */
} drop_job;

/* Those of the kept members that are not among the leaving ones, in their order: left [count],
 * which may be `kept`. Returns how many. */
static int32_t members_without(const int32_t *kept, int32_t count, const int32_t *leave,
                               int32_t leaving, int32_t *left) {
    int32_t number = 0;
    for (int32_t j = 0; j < count; j++) {
        bool leaves = false;
        for (int32_t i = 0; i < leaving; i++)
            leaves = leaves || leave[i] == kept[j];
        if (!leaves)
            left[number++] = kept[j];
    }
    return number;
}

/* Fits without these kept members, *fit the caller's to free: change of the mean loss, and its
 * paired standard error. */
static cst_status fit_without(cst_context *context, const drop_job *job, const int32_t *leave,
                              int32_t leaving, cst_meta_fit *fit, double *change, double *se) {
    CST_SCOPE(scope);
    CST_NEW(context, scope, int32_t, members, job->out->kept_count);
    int32_t count = members_without(job->out->kept, job->out->kept_count, leave, leaving, members);
    CST_TRY(job->run->family->fit(context, job->run, members, count, true, fit));
    int64_t rows = job->run->view->rows;
    double n = (double)rows;
    double sum = 0;
    double square = 0;
    for (int64_t i = 0; i < rows; i++) {
        double d = fit->row_loss[i] - job->fit->row_loss[i];
        sum += d;
        square += d * d;
    }
    *change = sum / n;
    *se = sqrt(fmax(square / n - sum / n * (sum / n), 0) / n) * job->se_scale;
    return CST_OK;
}

static cst_status drop_task(cst_context *context, void *user, int64_t task) {
    const drop_job *job = user;
    int32_t member = job->out->kept[task];
    if (job->known[member]) {
        job->change[task] = job->missed[member];
        job->change_se[task] = job->missed[job->out->members + member];
        return CST_OK;
    }
    cst_meta_fit fit = {0};
    cst_status status =
        fit_without(context, job, &member, 1, &fit, &job->change[task], &job->change_se[task]);
    cst_meta_fit_free(context, &fit);
    return status;
}

/* Drops these members if the stack without them loses less than a standard error; remembers what
 * leaving one out changes, until somebody else goes. */
static cst_status try_drop(cst_context *context, drop_job *job, const int32_t *members,
                           int32_t count, bool *dropped) {
    cst_stages *out = job->out;
    cst_meta_fit fit = {0};
    double change = 0;
    double se = 0;
    cst_status status = fit_without(context, job, members, count, &fit, &change, &se);
    *dropped = status == CST_OK && change < se;
    if (!*dropped) {
        cst_meta_fit_free(context, &fit);
        if (count == 1) {
            job->known[members[0]] = true;
            job->missed[members[0]] = change;
            job->missed[out->members + members[0]] = se;
        }
        return status;
    }
    memset(job->known, 0, (size_t)out->members * sizeof *job->known);
    out->kept_count = members_without(out->kept, out->kept_count, members, count, out->kept);
    for (int32_t i = 0; i < count; i++) {
        out->reason[members[i]] = CST_REASON_REFIT;
        out->refit_change[members[i]] = change;
        out->refit_together[members[i]] = count;
    }
    cst_meta_fit_free(context, job->fit);
    *job->fit = fit;
    return CST_OK;
}

/* ---- all removals ---- */

/* Adds the values of a block, less those of the first row, and their squares. */
static void add_block(const float *values, int64_t rows, int32_t classes, const double *first,
                      double *sum, double *square) {
    for (int64_t i = 0; i < rows; i++)
        for (int32_t c = 0; c < classes; c++) {
            double off = (double)values[i * classes + c] - first[c];
            sum[c] += off;
            square[c] += off * off;
        }
}

/* Standard deviation of each column of each member: deviation [members][classes]. A weight times it
 * says how much of the scores is the member's. */
static cst_status find_deviations(cst_context *context, const cst_view *view, double *deviation) {
    size_t classes = (size_t)view->classes;
    double n = (double)view->rows;
    for (int32_t k = 0; k < view->members; k++) {
        double *first;
        CST_SCOPE(scope);
        CST_TAKE(context, scope, first, 3 * classes);
        double *sum = first + classes;
        double *square = sum + classes;
        for (int64_t b = 0; b < cst_block_count(view->rows); b++) {
            cst_rows rows;
            CST_SCOPE(block);
            CST_TRY(cst_rows_open(context, block, view, b, &rows));
            CST_TRY(cst_rows_read(context, &rows, k));
            for (size_t c = 0; b == 0 && c < classes; c++)
                first[c] = (double)rows.data[c];
            add_block(rows.data, rows.count, view->classes, first, sum, square);
        }
        for (size_t c = 0; c < classes; c++)
            deviation[(size_t)k * classes + c] =
                sqrt(fmax(square[c] / n - sum[c] / n * (sum[c] / n), 0));
        CST_TRY(cst_poll(context));
    }
    return CST_OK;
}

/* While more than SINGLY members are kept: leaves out the half that the fit relies on least; where
 * it is missed, half as many, and so on, until a group of a 32nd of all is missed. */
static cst_status drop_groups(cst_context *context, drop_job *job) {
    const cst_view *view = job->run->view;
    const int32_t *kept = job->out->kept;
    size_t classes = (size_t)view->classes;
    int32_t all = job->out->kept_count;
    int32_t size = all / 2;
    if (all <= SINGLY)
        return CST_OK;
    CST_SCOPE(scope);
    CST_NEW(context, scope, double, deviation, (size_t)view->members *classes);
    CST_NEW(context, scope, double, reliance, all);
    CST_NEW(context, scope, int32_t, order, all);
    CST_TRY(find_deviations(context, view, deviation));
    cst_notice(context,
               "refit.drop tries to remove the %d members in groups, starting with the "
               "smallest weights; with up to %d members it tries each one",
               (int)all, (int)SINGLY);
    while (size >= all / SHARES && job->out->kept_count > SINGLY) {
        int32_t count = job->out->kept_count;
        bool gone = false;
        for (int32_t j = 0; j < count; j++)
            reliance[j] = job->run->family->reliance(job->run, job->fit, j,
                                                     deviation + (size_t)kept[j] * classes);
        sort_places(reliance, count, order);
        for (int32_t j = 0; j < count; j++)
            order[j] = kept[order[j]];
        size = size < count / 2 ? size : count / 2;
        CST_TRY(try_drop(context, job, order, size, &gone));
        size = gone ? size : size / 2;
    }
    return CST_OK;
}

/* One pass over the kept members: each is left out alone, then those that are missed by less than a
 * standard error go one after the other, least missed first, each tried again on what is left by
 * then; on a sample until one is missed. order: [members]. */
static cst_status drop_pass(cst_context *context, drop_job *job, int32_t *order) {
    cst_stages *out = job->out;
    int32_t listed = 0;
    bool dropped = true;
    CST_TRY(cst_parallel_turns(context, out->kept_count, drop_task, job));
    sort_places(job->change, out->kept_count, order);
    for (int32_t i = 0; i < out->kept_count; i++)
        if (!(job->change[order[i]] >= job->change_se[order[i]]))
            order[listed++] = out->kept[order[i]]; /* places move as members go */
    for (int32_t i = 0; i < listed && out->kept_count > 1; i++)
        if (dropped || !job->sample)
            CST_TRY(try_drop(context, job, &order[i], 1, &dropped));
    return CST_OK;
}

/* Groups first where there are many members, and where few are left passes until one after which
 * nobody goes; one alone where the rows are a sample, or the family asks for no more. Members that
 * were tried since the last one went are not fitted without again in the next pass. */
static cst_status drop_members(cst_context *context, drop_job *job) {
    cst_stages *out = job->out;
    size_t members = (size_t)out->members;
    int32_t before = 0;
    CST_SCOPE(scope);
    CST_NEW(context, scope, int32_t, order, members);
    CST_TAKE(context, scope, job->change, members);
    CST_TAKE(context, scope, job->change_se, members);
    CST_TAKE(context, scope, job->missed, 2 * members);
    CST_TAKE(context, scope, job->known, members);
    CST_TRY(drop_groups(context, job));
    while (out->kept_count > 1 && out->kept_count <= SINGLY && out->kept_count != before) {
        before = out->kept_count;
        CST_TRY(drop_pass(context, job, order));
        if (job->sample || job->run->family->whole)
            break;
    }
    return CST_OK;
}

/* ---- on a sample of the rows ---- */

/* How many rows removals are judged on. */
static int64_t judged_rows(const cst_run *run) {
    int64_t rows = run->settings->judged_pairs / run->view->classes;
    return run->family->whole ? run->view->rows : rows < CST_BLOCK_ROWS ? CST_BLOCK_ROWS : rows;
}

/* Reads the sample into memory, once for all of the fits, where that takes a small part of what
 * there may be. */
static cst_status copy_sample(cst_context *context, cst_scope *scope, const cst_view *view,
                              cst_some_rows *sample) {
    size_t rows = (size_t)sample->view.rows;
    size_t cells = 0;
    if (!cst_size_mul(rows, (size_t)view->classes, &cells) ||
        cells > cst_context_memory(context) / sizeof(float) / (size_t)view->members / 4)
        return CST_OK;
    CST_NEW(context, scope, float *, copies, view->members);
    CST_NEW(context, scope, int32_t, labels, rows);
    CST_NEW(context, scope, int64_t, groups, view->groups ? rows : 0);
    CST_NEW(context, scope, double, weights, view->weights ? rows : 0);
    for (int32_t k = 0; k < view->members; k++) {
        CST_TAKE(context, scope, copies[k], cells);
        CST_TRY(cst_view_gather(context, view, k, sample->position, sample->view.rows, copies[k]));
    }
    for (size_t i = 0; i < rows; i++) {
        labels[i] = view->labels[sample->view.index[i]];
        if (view->groups)
            groups[i] = view->groups[sample->view.index[i]];
        if (view->weights)
            weights[i] = view->weights[sample->view.index[i]];
    }
    sample->view.data = (const float *const *)copies;
    sample->view.labels = labels;
    sample->view.groups = view->groups ? groups : NULL;
    sample->view.weights = view->weights ? weights : NULL;
    sample->view.domains = NULL; /* nothing here reads them */
    sample->view.index = NULL;
    sample->view.store = NULL;
    sample->view.presence = NULL;
    return CST_OK;
}

/* Draws `count` of the view's rows, in their order. */
static cst_status draw_sample(cst_context *context, cst_scope *scope, const cst_run *run,
                              int64_t count, cst_some_rows *sample) {
    const cst_view *view = run->view;
    int64_t to = 0;
    cst_rng rng;
    CST_NEW(context, scope, int64_t, position, count);
    cst_rng_init(&rng, run->settings->seed, CST_STREAM_SUBSETS, 0);
    for (int64_t i = 0; i < view->rows && to < count; i++)
        if (cst_rng_below(&rng, view->rows - i) < count - to)
            position[to++] = i;
    CST_TRY(cst_some_rows_take(context, scope, view, run->folds, position, count, sample));
    return copy_sample(context, scope, view, sample);
}

/* Drop-and-refit judged on a sample of the rows, against the standard error that all of them would
 * have. What is left is not fitted here. */
static cst_status drop_on_sample(cst_context *context, const cst_run *run, int64_t count,
                                 cst_stages *out) {
    cst_some_rows sample;
    cst_meta_fit fit = {0};
    CST_SCOPE(scope);
    CST_TRY(draw_sample(context, scope, run, count, &sample));
    cst_run part = *run;
    part.view = &sample.view;
    part.folds = sample.folds;
    CST_OWN(context, scope, cst_meta_fit, &fit);
    CST_TRY(run->family->fit(context, &part, out->kept, out->kept_count, true, &fit));
    drop_job job = {.run = &part,
                    .fit = &fit,
                    .sample = true,
                    .se_scale = sqrt((double)count / (double)run->view->rows),
                    .out = out};
    return drop_members(context, &job);
}

cst_status cst_fit_and_drop(cst_context *context, const cst_run *run, cst_stages *out) {
    bool drop = run->settings->drop && out->kept_count > 1;
    int64_t judged = judged_rows(run);
    double start = cst_seconds();
    if (drop && judged < run->view->rows) {
        CST_TRY(cst_stage(context, "drop and refit"));
        cst_notice(context,
                   "refit.drop judges removals on %lld of the %lld rows, drawn with the seed, in "
                   "one pass; the kept members are fitted on all rows",
                   (long long)judged, (long long)run->view->rows);
        cst_mute(context, true);
        cst_status status = drop_on_sample(context, run, judged, out);
        cst_mute(context, false);
        CST_TRY(status);
        drop = false;
    }
    out->seconds_drop = cst_seconds() - start;
    cst_stage_share(context, 0.6);
    CST_TRY(cst_stage(context, "meta-learners"));
    CST_TRY(
        run->family->fit(context, run, out->kept, out->kept_count, run->settings->drop, &out->fit));
    if (!drop)
        return CST_OK;
    start = cst_seconds();
    drop_job job = {.run = run, .fit = &out->fit, .se_scale = 1, .out = out};
    CST_TRY(cst_stage(context, "drop and refit"));
    CST_TRY(drop_members(context, &job));
    out->seconds_drop += cst_seconds() - start;
    return CST_OK;
}
