/*
 * The whole procedure on one set of rows, and its nested evaluation.
 * Paper: stages S1 to S4; "Leakage-Freeness of the Nested OOF Construction".
 */
#include "fit/stages.h"

#include "fit/balance.h"
#include "fit/nested.h"
#include "fit/redundant.h"
#include "fit/removal.h"
#include "fit/unused.h"

#include <math.h>
#include <string.h>

cst_status cst_stages_alloc(cst_context *context, int32_t members, cst_stages *out) {
    size_t k = (size_t)members;
    *out = (cst_stages){.members = members};
    out->kept = cst_alloc(context, k, sizeof *out->kept);
    out->reason = cst_alloc(context, k, sizeof *out->reason);
    out->risk = cst_alloc(context, k, sizeof *out->risk);
    out->similarity = cst_alloc(context, k * k, sizeof *out->similarity);
    out->pearson = cst_alloc(context, k * k, sizeof *out->pearson);
    out->closest = cst_alloc(context, k, sizeof *out->closest);
    out->closest_value = cst_alloc(context, k, sizeof *out->closest_value);
    out->candidates = cst_alloc(context, k, sizeof *out->candidates);
    out->refit_change = cst_alloc(context, k, sizeof *out->refit_change);
    out->refit_together = cst_alloc(context, k, sizeof *out->refit_together);
    if (!out->kept || !out->reason || !out->risk || !out->similarity || !out->pearson ||
        !out->closest || !out->closest_value || !out->candidates || !out->refit_change ||
        !out->refit_together)
        return CST_ERROR_MEMORY;
    for (int32_t j = 0; j < members; j++)
        out->refit_change[j] = NAN;
    return CST_OK;
}

void cst_stages_free(cst_context *context, cst_stages *stages) {
    cst_free(context, stages->kept);
    cst_free(context, stages->reason);
    cst_free(context, stages->risk);
    cst_free(context, stages->similarity);
    cst_free(context, stages->pearson);
    cst_free(context, stages->closest);
    cst_free(context, stages->closest_value);
    cst_free(context, stages->candidates);
    cst_free(context, stages->refit_change);
    cst_free(context, stages->refit_together);
    cst_cka_result_free(context, &stages->cka);
    cst_selection_free(context, &stages->selection);
    cst_front_free(context, &stages->front);
    cst_meta_fit_free(context, &stages->fit);
    if (!stages->domain.used)
        cst_domain_layer_free(context, &stages->domain);
    *stages = (cst_stages){0};
}

/* ---- selection ---- */

/* Whether every size within the limits loses more than selection was allowed to give up. */
static bool limits_hurt(const cst_selection *selection, double tolerance) {
    double all = selection->path[selection->members - 1].loss;
    bool hurt = true;
    for (int32_t s = 0; s < selection->members; s++)
        hurt = hurt &&
               !(selection->path[s].allowed && selection->path[s].against_all <= tolerance * all);
    return hurt;
}

/* Says where limits cost more than selection was allowed to give up. */
static void tell_limits(cst_context *context, const cst_settings *settings,
                        const cst_selection *selection, int32_t members, const char *loss) {
    const cst_select_step *step = &selection->path[selection->chosen];
    double all = selection->path[selection->members - 1].loss;
    if (limits_hurt(selection, settings->selection.tolerance))
        cst_notice(context,
                   "the limits leave %d of %d members, and their held-out %s is %.1f%% above that "
                   "of all members: raise keep.fraction, keep.max or a cost limit if more members "
                   "may run",
                   (int)step->size, (int)members, loss, 100 * step->against_all / all);
}

cst_status cst_stages_choose(cst_context *context, const cst_settings *settings, int32_t members,
                             const cst_costs *costs, cst_choose *choose, void *user,
                             const char *loss, cst_stages *out) {
    int32_t count = out->kept_count;
    double *values = cst_alloc(context, CST_COST_COUNT * (size_t)count, sizeof *values);
    if (!values)
        return CST_ERROR_MEMORY;
    cst_select_options options = settings->selection;
    cst_costs_part(costs, out->kept, count, values, &options.costs);
    options.limits = settings->limits;
    options.cap_count = cst_count_cap(settings, members);
    memcpy(out->candidates, out->kept, (size_t)count * sizeof *out->kept);
    bool front = false;
    for (int c = 0; c < CST_COST_COUNT; c++)
        front = front || (settings->front && cst_cost_known(costs, (cst_cost)c, members));
    cst_status status = choose(context, user, out->candidates, count, &options, &out->selection,
                               front ? &out->front : NULL);
    if (status == CST_OK) {
        const cst_select_step *step = &out->selection.path[out->selection.chosen];
        tell_limits(context, settings, &out->selection, members, loss);
        for (int32_t j = 0; j < count; j++)
            out->reason[out->candidates[j]] =
                cst_costs_within(costs, &settings->limits, &out->candidates[j], 1)
                    ? CST_REASON_SELECTION
                    : CST_REASON_CAP;
        for (int32_t j = 0; j < step->size; j++) {
            out->kept[j] = out->candidates[step->members[j]];
            out->reason[out->kept[j]] = CST_REASON_KEPT;
        }
        out->kept_count = step->size;
    }
    cst_free(context, values);
    return status;
}

typedef struct choice {
    const cst_view *view;
    const int32_t *folds;
    int32_t fold_count;
} choice;

static cst_status choose_members(cst_context *context, void *user, const int32_t *members,
                                 int32_t count, const cst_select_options *options,
                                 cst_selection *out, cst_front *front) {
    const choice *c = user;
    const float **pointers = cst_alloc(context, (size_t)count, sizeof *pointers);
    if (!pointers)
        return CST_ERROR_MEMORY;
    cst_view part = cst_view_members(c->view, members, count, pointers);
    cst_status status = cst_select(context, &part, c->folds, c->fold_count, options, out);
    if (status == CST_OK && front)
        status = cst_select_front(context, &part, c->folds, c->fold_count, options, out, front);
    cst_free(context, pointers);
    return status;
}

/* ---- drop and refit ---- */

static cst_status fit_members(cst_context *context, const cst_view *view, const int32_t *members,
                              int32_t count, const int32_t *folds, int32_t fold_count,
                              const cst_settings *settings, bool losses, cst_meta_fit *fit) {
    const float **pointers = cst_alloc(context, (size_t)count, sizeof *pointers);
    if (!pointers)
        return CST_ERROR_MEMORY;
    cst_view part = cst_view_members(view, members, count, pointers);
    cst_status status = cst_meta_fit_run(context, &part, folds, fold_count, settings, losses, fit);
    cst_free(context, pointers);
    return status;
}

/* What removals are judged on: all rows, or a sample of them. */
typedef struct drop_job {
    const cst_view *view;
    const int32_t *folds; /* [view->rows] */
    int32_t fold_count;
    const cst_settings *settings;
    const int32_t *kept;
    int32_t count;
    cst_meta_fit *fit; /* with every kept member, on these rows, with the loss of each */
    bool sample;       /* these are not all rows */
    double se_scale;   /* standard error over all rows / over these */
    double *change;    /* [count]: mean loss without the member minus with it */
    double *change_se; /* [count] */
    bool *known;       /* [members of the pool]: it was tried on the set that is kept now */
    double *missed;    /* [2][members of the pool]: what came of that, change and standard error */
    int32_t members;   /* of the pool */
    double *deviation; /* [members of the pool]: of each one's probabilities; NULL with few kept */
    cst_stages *out;   /* what removals change */
} drop_job;

/* The result of a fit without some members. */
typedef struct attempt {
    double change; /* of the mean cross-fitted loss */
    double se;     /* paired standard error of that */
    cst_meta_fit fit;
} attempt;

/* Fits without these kept members. The fit in `out` is the caller's to free. */
static cst_status fit_without(cst_context *context, const drop_job *job, const int32_t *leave,
                              int32_t leaving, attempt *out) {
    int32_t *members = cst_alloc(context, (size_t)job->count, sizeof *members);
    *out = (attempt){0};
    if (!members)
        return CST_ERROR_MEMORY;
    int32_t count = cst_members_without(job->kept, job->count, leave, leaving, members);
    cst_status status = fit_members(context, job->view, members, count, job->folds, job->fold_count,
                                    job->settings, true, &out->fit);
    if (status == CST_OK) {
        cst_paired_change(out->fit.row_loss, job->fit->row_loss, job->view->rows, &out->change,
                          &out->se);
        out->se *= job->se_scale;
    }
    cst_free(context, members);
    return status;
}

/* Remembers what leaving a member out changes, until somebody else goes. */
static void remember(const drop_job *job, int32_t member, double change, double se) {
    job->known[member] = true;
    job->missed[member] = change;
    job->missed[job->members + member] = se;
}

static cst_status drop_task(cst_context *context, void *user, int64_t task) {
    const drop_job *job = user;
    int32_t member = job->kept[task];
    attempt a = {0};
    if (job->known[member]) {
        job->change[task] = job->missed[member];
        job->change_se[task] = job->missed[job->members + member];
        return CST_OK;
    }
    cst_status status = fit_without(context, job, &member, 1, &a);
    job->change[task] = a.change;
    job->change_se[task] = a.se;
    cst_meta_fit_free(context, &a.fit);
    return status;
}

/* Members in the order in which they are missed, least first; of equals the first. Those missed by
 * a standard error or more are left out. Returns how many are listed. */
static int32_t order_by_change(const drop_job *job, int32_t *order) {
    int32_t count = 0;
    for (int32_t j = 0; j < job->count; j++) {
        if (job->change[j] >= job->change_se[j])
            continue;
        int32_t at = count++;
        while (at > 0 && job->change[order[at - 1]] > job->change[j]) {
            order[at] = order[at - 1];
            at--;
        }
        order[at] = j;
    }
    for (int32_t i = 0; i < count; i++)
        order[i] = job->kept[order[i]]; /* positions move as members go; names of members do not */
    return count;
}

/* Drops these members if the stack without them loses less than a standard error. */
static cst_status try_drop(cst_context *context, void *user, const int32_t *members, int32_t count,
                           bool *dropped) {
    drop_job *job = user;
    cst_stages *out = job->out;
    attempt a = {0};
    job->count = out->kept_count;
    cst_status status = fit_without(context, job, members, count, &a);
    *dropped = status == CST_OK && a.change < a.se;
    if (!*dropped) {
        cst_meta_fit_free(context, &a.fit);
        if (count == 1)
            remember(job, members[0], a.change, a.se);
        return status;
    }
    memset(job->known, 0, (size_t)job->members * sizeof *job->known);
    cst_stages_refit_without(out, members, count, a.change);
    cst_meta_fit_free(context, job->fit);
    *job->fit = a.fit;
    return CST_OK;
}

/* How much the scores of the present fit move with each kept member. */
static void rely(const void *user, double *reliance) {
    const drop_job *job = user;
    const cst_model *model = job->fit->model;
    for (int32_t j = 0; j < job->out->kept_count; j++) {
        double sum = 0;
        for (int32_t m = 0; m < model->learners; m++)
            sum += fabs(model->learner[m].blend * model->learner[m].weights[j]);
        reliance[j] = sum * job->deviation[job->kept[j]];
    }
}

/* Removals in groups, where there are many members. */
static cst_status drop_groups(cst_context *context, drop_job *job) {
    size_t classes = (size_t)job->view->classes;
    size_t members = (size_t)job->members;
    if (job->out->kept_count <= CST_DROP_SINGLY)
        return CST_OK;
    double *columns = cst_alloc(context, members * classes, sizeof *columns);
    job->deviation = cst_alloc(context, members, sizeof *job->deviation);
    cst_status status = columns && job->deviation ? CST_OK : CST_ERROR_MEMORY;
    CST_THEN(cst_member_deviations(context, job->view, columns));
    for (size_t k = 0; status == CST_OK && k < members; k++) {
        double square = 0;
        for (size_t c = 0; c < classes; c++)
            square += columns[k * classes + c] * columns[k * classes + c];
        job->deviation[k] = sqrt(square / (double)classes);
    }
    cst_removal removal = {.user = job,
                           .kept = job->out->kept,
                           .kept_count = &job->out->kept_count,
                           .rely = rely,
                           .attempt = try_drop};
    CST_THEN(cst_remove_groups(context, &removal));
    cst_free(context, columns);
    cst_free(context, job->deviation);
    job->deviation = NULL;
    return status;
}

/* One pass over the kept members: each is left out alone, then those that are missed by less than a
 * standard error go one after the other, least missed first, each tried again on what is left by
 * then; on a sample until one is missed. order: [members]. */
static cst_status drop_pass(cst_context *context, drop_job *job, int32_t *order, cst_stages *out) {
    job->count = out->kept_count;
    cst_status status = cst_parallel_turns(context, out->kept_count, drop_task, job);
    int32_t listed = status == CST_OK ? order_by_change(job, order) : 0;
    bool dropped = true;
    for (int32_t i = 0; status == CST_OK && i < listed && out->kept_count > 1; i++)
        if (dropped || !job->sample)
            status = try_drop(context, job, &order[i], 1, &dropped);
    return status;
}

/* Groups first where there are many members, and where few are left passes until one after which
 * nobody goes; one alone where the rows are a sample. Members that were tried since the last one
 * went are not fitted without again in the next pass. */
static cst_status drop_members(cst_context *context, drop_job *job, cst_stages *out) {
    size_t members = (size_t)out->members;
    double *change = cst_alloc(context, 4 * members, sizeof *change);
    int32_t *order = cst_alloc(context, members, sizeof *order);
    job->known = cst_alloc(context, members, sizeof *job->known);
    cst_status status = change && order && job->known ? CST_OK : CST_ERROR_MEMORY;
    int32_t before = 0;
    job->out = out;
    job->kept = out->kept;
    job->members = out->members;
    job->change = change;
    job->change_se = change ? change + members : NULL;
    job->missed = change ? change + 2 * members : NULL;
    CST_THEN(drop_groups(context, job));
    while (status == CST_OK && out->kept_count > 1 && out->kept_count <= CST_DROP_SINGLY &&
           out->kept_count != before) {
        before = out->kept_count;
        status = drop_pass(context, job, order, out);
        if (job->sample)
            break;
    }
    cst_free(context, change);
    cst_free(context, order);
    cst_free(context, job->known);
    job->known = NULL;
    return status;
}

/* How many rows removals are judged on. */
static int64_t judged_rows(const cst_view *view, const cst_settings *settings) {
    int64_t rows = settings->judged_pairs / view->classes;
    return rows < CST_BLOCK_ROWS ? CST_BLOCK_ROWS : rows;
}

/* A sample of a view's rows. */
typedef struct row_sample {
    cst_view view;
    int32_t *folds;     /* [rows] */
    int64_t *positions; /* [rows] in the view, ascending */
    int64_t *index;     /* [rows] in the split */
    float **copies;     /* [members][rows * classes]; NULL where they would take too much memory */
    int32_t *labels;    /* [rows], with copies */
    int64_t *groups;    /* [rows], with copies of a view that has groups */
    double *weights;    /* [rows], with copies of a view that has weights */
} row_sample;

static void free_sample(cst_context *context, row_sample *sample, int32_t members) {
    for (int32_t k = 0; sample->copies && k < members; k++)
        cst_free(context, sample->copies[k]);
    cst_free(context, sample->copies);
    cst_free(context, sample->folds);
    cst_free(context, sample->positions);
    cst_free(context, sample->index);
    cst_free(context, sample->labels);
    cst_free(context, sample->groups);
    cst_free(context, sample->weights);
}

/* Reads the sample into memory, once for all of the fits, where that takes a small part of what
 * there may be. */
static cst_status copy_sample(cst_context *context, const cst_view *view, row_sample *sample) {
    size_t rows = (size_t)sample->view.rows;
    size_t cells = 0;
    if (!cst_size_mul(rows, (size_t)view->classes, &cells) ||
        cells > cst_context_memory(context) / sizeof(float) / (size_t)view->members / 4)
        return CST_OK;
    sample->copies = cst_alloc(context, (size_t)view->members, sizeof *sample->copies);
    sample->labels = cst_alloc(context, rows, sizeof *sample->labels);
    sample->groups = cst_alloc(context, view->groups ? rows : 0, sizeof *sample->groups);
    sample->weights = cst_alloc(context, view->weights ? rows : 0, sizeof *sample->weights);
    if (!sample->copies || !sample->labels || !sample->groups || !sample->weights)
        return CST_ERROR_MEMORY;
    cst_status status = CST_OK;
    for (int32_t k = 0; status == CST_OK && k < view->members; k++) {
        sample->copies[k] = cst_alloc(context, cells, sizeof **sample->copies);
        status = sample->copies[k] ? cst_view_gather(context, view, k, sample->positions,
                                                     sample->view.rows, sample->copies[k])
                                   : CST_ERROR_MEMORY;
    }
    for (size_t i = 0; i < rows; i++) {
        sample->labels[i] = view->labels[sample->index[i]];
        if (view->groups)
            sample->groups[i] = view->groups[sample->index[i]];
        if (view->weights)
            sample->weights[i] = view->weights[sample->index[i]];
    }
    sample->view.data = (const float *const *)sample->copies;
    sample->view.labels = sample->labels;
    sample->view.groups = view->groups ? sample->groups : NULL;
    sample->view.weights = view->weights ? sample->weights : NULL;
    sample->view.domains = NULL; /* nothing here reads them */
    sample->view.index = NULL;
    sample->view.store = NULL;
    sample->view.presence = NULL;
    return status;
}

/* Draws `count` of the view's rows, in their order. */
static cst_status draw_sample(cst_context *context, const cst_view *view, const int32_t *folds,
                              uint64_t seed, int64_t count, row_sample *sample) {
    sample->folds = cst_alloc(context, (size_t)count, sizeof *sample->folds);
    sample->positions = cst_alloc(context, (size_t)count, sizeof *sample->positions);
    sample->index = cst_alloc(context, (size_t)count, sizeof *sample->index);
    if (!sample->folds || !sample->positions || !sample->index)
        return CST_ERROR_MEMORY;
    cst_rng rng;
    cst_rng_init(&rng, seed, CST_STREAM_SUBSETS, 0);
    int64_t to = 0;
    for (int64_t i = 0; i < view->rows && to < count; i++) {
        if (cst_rng_below(&rng, view->rows - i) >= count - to)
            continue;
        sample->positions[to] = i;
        sample->index[to] = view->index ? view->index[i] : i;
        sample->folds[to++] = folds[i];
    }
    sample->view = *view;
    sample->view.rows = count;
    sample->view.index = sample->index;
    return copy_sample(context, view, sample);
}

/* Drop-and-refit judged on a sample of the rows, against the standard error that all of them would
 * have. What is left is not fitted here. */
static cst_status drop_on_sample(cst_context *context, const cst_view *view, const int32_t *folds,
                                 int32_t fold_count, const cst_settings *settings,
                                 cst_stages *out) {
    int64_t count = judged_rows(view, settings);
    row_sample sample = {0};
    cst_meta_fit fit = {0};
    cst_notice(context,
               "refit.drop judges removals on %lld of the %lld rows, drawn with the seed, in one "
               "pass; the kept members are fitted on all rows",
               (long long)count, (long long)view->rows);
    cst_mute(context, true);
    cst_status status = draw_sample(context, view, folds, settings->seed, count, &sample);
    CST_THEN(fit_members(context, &sample.view, out->kept, out->kept_count, sample.folds,
                         fold_count, settings, true, &fit));
    drop_job job = {.view = &sample.view,
                    .folds = sample.folds,
                    .fold_count = fold_count,
                    .settings = settings,
                    .fit = &fit,
                    .sample = true,
                    .se_scale = sqrt((double)count / (double)view->rows)};
    CST_THEN(drop_members(context, &job, out));
    cst_mute(context, false);
    cst_meta_fit_free(context, &fit);
    free_sample(context, &sample, view->members);
    return status;
}

/* The fit of the kept members, and then removals if they are judged on all rows. */
static cst_status fit_and_drop(cst_context *context, const cst_view *view, const int32_t *folds,
                               int32_t fold_count, const cst_settings *settings, bool drop,
                               cst_stages *out) {
    cst_status status = cst_stage(context, "meta-learners");
    CST_THEN(fit_members(context, view, out->kept, out->kept_count, folds, fold_count, settings,
                         settings->drop, &out->fit));
    if (status != CST_OK || !drop)
        return status;
    double start = cst_seconds();
    drop_job job = {.view = view,
                    .folds = folds,
                    .fold_count = fold_count,
                    .settings = settings,
                    .fit = &out->fit,
                    .se_scale = 1};
    status = cst_stage(context, "drop and refit");
    CST_THEN(drop_members(context, &job, out));
    out->seconds_drop += cst_seconds() - start;
    return status;
}

/* Stages S2 to S4 on the kept members, with drop-and-refit if it is on. */
static cst_status fit_kept(cst_context *context, const cst_view *view, const int32_t *folds,
                           int32_t fold_count, const cst_settings *settings, cst_stages *out) {
    bool drop = settings->drop && out->kept_count > 1;
    bool sampled = drop && view->rows > judged_rows(view, settings);
    double start = cst_seconds();
    cst_status status = CST_OK;
    if (sampled) {
        status = cst_stage(context, "drop and refit");
        CST_THEN(drop_on_sample(context, view, folds, fold_count, settings, out));
    }
    out->seconds_drop = cst_seconds() - start;
    CST_THEN(fit_and_drop(context, view, folds, fold_count, settings, drop && !sampled, out));
    return status;
}

/* ---- all of it ---- */

void cst_stages_refit_without(cst_stages *stages, const int32_t *members, int32_t count,
                              double change) {
    stages->kept_count =
        cst_members_without(stages->kept, stages->kept_count, members, count, stages->kept);
    for (int32_t i = 0; i < count; i++) {
        stages->reason[members[i]] = CST_REASON_REFIT;
        stages->refit_change[members[i]] = change;
        stages->refit_together[members[i]] = count;
    }
}

/* For each dropped member the kept one it resembles most; a redundant one keeps the partner it was
 * dropped for, even where that one went later. */
void cst_stages_find_closest(cst_stages *out) {
    for (int32_t k = 0; k < out->members; k++) {
        if (out->reason[k] == CST_REASON_REDUNDANT)
            continue;
        out->closest[k] = -1;
        out->closest_value[k] = NAN;
        for (int32_t j = 0; out->reason[k] != CST_REASON_KEPT && j < out->kept_count; j++) {
            double value = out->similarity[(size_t)k * (size_t)out->members + (size_t)out->kept[j]];
            if (out->closest[k] < 0 || value > out->closest_value[k]) {
                out->closest[k] = out->kept[j];
                out->closest_value[k] = value;
            }
        }
    }
}

static cst_status run_stages(cst_context *context, const cst_view *view, const int32_t *folds,
                             int32_t fold_count, const cst_settings *settings,
                             const cst_costs *costs, cst_stages *out) {
    cst_status status = cst_stages_alloc(context, view->members, out);
    double start = cst_seconds();
    CST_THEN(cst_redundant_members(context, view, folds, fold_count, settings, costs, out));
    out->seconds_redundancy = cst_seconds() - start;
    start = cst_seconds();
    CST_THEN(cst_stage(context, "selection"));
    choice c = {view, folds, fold_count};
    bool many = out->kept_count > 1 || cst_limited(&settings->limits);
    if (status == CST_OK && settings->select && many)
        status = cst_stages_choose(context, settings, view->members, costs, choose_members, &c,
                                   "NLL", out);
    out->seconds_select = cst_seconds() - start;
    CST_THEN(fit_kept(context, view, folds, fold_count, settings, out));
    CST_THEN(cst_model_prune(context, out->fit.model));
    CST_THEN(cst_stages_drop_unused(context, out));
    if (status == CST_OK)
        cst_stages_find_closest(out);
    else
        cst_stages_free(context, out);
    return status;
}

/* ---- nested evaluation ---- */

typedef struct nested_job {
    const cst_view *view;
    const int32_t *folds; /* [view->rows] */
    const cst_costs *costs;
    const cst_settings *settings;
    float *out;
} nested_job;

static cst_status nested_task(cst_context *context, void *user, const cst_fold_rows *rows) {
    const nested_job *job = user;
    const cst_training *inside = &rows->inside;
    size_t classes = (size_t)rows->held.classes;
    cst_stages stages = {0};
    const float **pointers = cst_alloc(context, (size_t)inside->view.members, sizeof *pointers);
    float *part = cst_alloc(context, (size_t)rows->held.rows * classes, sizeof *part);
    cst_status status = pointers && part ? CST_OK : CST_ERROR_MEMORY;
    CST_THEN(cst_stages_run(context, &inside->view, inside->folds, inside->fold_count,
                            job->settings, job->costs, &stages));
    if (status == CST_OK) {
        cst_view kept = cst_view_members(&rows->held, stages.kept, stages.kept_count, pointers);
        status = cst_stack_predict(context, stages.fit.model, &kept, part);
    }
    if (status == CST_OK)
        cst_fold_scatter(job->folds, job->view->rows, rows->fold, classes, part, job->out);
    cst_stages_free(context, &stages);
    cst_free(context, part);
    cst_free(context, pointers);
    return status;
}

/* Costs are those of the view's members. */
static cst_status nested_rows(cst_context *context, const cst_view *view, const int32_t *folds,
                              int32_t fold_count, const cst_costs *costs,
                              const cst_settings *settings, float *out) {
    int32_t *own = cst_alloc(context, (size_t)view->rows, sizeof *own);
    if (!own)
        return CST_ERROR_MEMORY;
    memcpy(own, folds, (size_t)view->rows * sizeof *own);
    const cst_training source = {.view = *view, .folds = own, .fold_count = fold_count};
    nested_job job = {view, folds, costs, settings, out};
    const cst_fold_result held = {out, (size_t)view->classes};
    cst_status status =
        cst_nested_run(context, &source, settings->seed, nested_task, &job, &held, 1);
    cst_free(context, own);
    return status;
}

/* The layer of the domains on predictions of rows by stacks that have not seen them; the model gets
 * it where it is to have one. */
static cst_status add_domains(cst_context *context, const cst_view *view, const int32_t *folds,
                              int32_t fold_count, const cst_settings *settings,
                              const cst_costs *costs, cst_stages *out) {
    double start = cst_seconds();
    size_t cells = 0;
    cst_settings plain = *settings;
    plain.domain_aware = CST_DOMAIN_AWARE_FALSE;
    plain.front = false;
    if (!cst_size_mul((size_t)view->rows, (size_t)view->classes, &cells))
        return cst_fail(context, CST_ERROR_LIMIT, "the held-out predictions overflow");
    float *held = cst_alloc(context, cells, sizeof *held);
    cst_status status = held ? cst_stage(context, "domains") : CST_ERROR_MEMORY;
    CST_THEN(nested_rows(context, view, folds, fold_count, costs, &plain, held));
    CST_THEN(cst_domain_layer_fit(context, view, folds, fold_count, settings, held, &out->domain));
    if (status == CST_OK && out->domain.used)
        out->fit.model->domains = out->domain.map;
    cst_free(context, held);
    out->seconds_domain = cst_seconds() - start;
    return status;
}

cst_status cst_stages_run(cst_context *context, const cst_view *view, const int32_t *folds,
                          int32_t fold_count, const cst_settings *settings, const cst_costs *costs,
                          cst_stages *out) {
    cst_settings balanced;
    cst_view even = cst_view_even(view);
    double *weights = NULL;
    *out = (cst_stages){0};
    if (settings->loglinear.nonnegative && !settings->select &&
        !(settings->learners & CST_META_LOGLINEAR))
        cst_notice(context,
                   "loglinear.nonnegative=true has no effect: there is neither selection nor a "
                   "log-linear pool, and the weights of linear meta-learners may be negative");
    cst_status status = cst_balance(context, &even, settings, &balanced, &weights);
    CST_THEN(run_stages(context, &even, folds, fold_count, &balanced, costs, out));
    if (status == CST_OK && cst_domain_wanted(&even, settings)) {
        status = add_domains(context, &even, folds, fold_count, settings, costs, out);
        if (status != CST_OK)
            cst_stages_free(context, out);
    }
    cst_free(context, weights);
    return status;
}

cst_status cst_stages_table(cst_context *context, const cst_view *view, const int32_t *folds,
                            int32_t fold_count, const cst_settings *settings, cst_compact **out) {
    const cst_compact_options *options = &settings->selection.compact;
    *out = NULL;
    if (view->members < 2 || cst_compact_of(view) ||
        (!settings->select && !(settings->learners & CST_META_LOGLINEAR)))
        return CST_OK;
    cst_status status = cst_stage(context, "table of the classes that matter");
    CST_THEN(cst_logtable_share(context, view, folds, fold_count, options, out));
    if (status == CST_OK && settings->select && (*out)->rows < view->rows)
        cst_notice(context,
                   "members were selected on %lld of %lld samples (select.max_rows); the selected "
                   "members were fitted on all samples",
                   (long long)(*out)->rows, (long long)view->rows);
    return status;
}

cst_status cst_stages_nested(cst_context *context, const cst_training *source,
                             const cst_settings *settings, float *out) {
    cst_costs costs = cst_training_costs(source);
    return nested_rows(context, &source->view, source->folds, source->fold_count, &costs, settings,
                       out);
}
