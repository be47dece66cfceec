/* The whole procedure on one set of rows, and its nested evaluation. Paper: stages S1 to S4;
 * "Leakage-Freeness of the Nested OOF Construction". */
#include "fit/stages.h"
#include "fit/family.h"
#include "model/absent.h"

#include <math.h>
#include <string.h>

cst_status cst_stages_alloc(cst_context *context, int32_t members, cst_stages *out) {
    size_t k = (size_t)members;
    *out = (cst_stages){.members = members};
    cst_scope *scope = &out->scope;
    CST_TAKE(context, scope, out->kept, k);
    CST_TAKE(context, scope, out->reason, k);
    CST_TAKE(context, scope, out->risk, k);
    CST_TAKE(context, scope, out->similarity, k * k);
    CST_TAKE(context, scope, out->pearson, k * k);
    CST_TAKE(context, scope, out->closest, k);
    CST_TAKE(context, scope, out->closest_value, k);
    CST_TAKE(context, scope, out->candidates, k);
    CST_TAKE(context, scope, out->refit_change, k);
    CST_TAKE(context, scope, out->refit_together, k);
    for (int32_t j = 0; j < members; j++)
        out->refit_change[j] = NAN;
    return CST_OK;
}

void cst_stages_free(cst_context *context, cst_stages *stages) {
    cst_cka_result_free(context, &stages->cka);
    cst_selection_free(context, &stages->selection);
    cst_front_free(context, &stages->front);
    cst_meta_fit_free(context, &stages->fit);
    if (!stages->domain.used)
        cst_domain_layer_free(context, &stages->domain);
    cst_scope_free(&stages->scope);
    *stages = (cst_stages){0};
}

/* ---- selection ---- */

/* Says where limits cost more than selection was allowed to give up: at every size within them. */
static void tell_limits(cst_context *context, const cst_run *run, const cst_selection *selection) {
    const cst_select_step *step = &selection->path[selection->chosen];
    double all = selection->path[selection->members - 1].loss;
    double most = run->settings->selection.tolerance * all;
    for (int32_t s = 0; s < selection->members; s++)
        if (selection->path[s].allowed && selection->path[s].against_all <= most)
            return;
    cst_notice(context,
               "the limits leave %d of %d members, and their held-out %s is %.1f%% above that "
               "of all members: raise keep.fraction, keep.max or a cost limit if more members "
               "may run",
               (int)step->size, (int)run->view->members,
               run->settings->selection.chooser ? run->settings->selection.chooser->loss
                                                : run->family->loss,
               100 * step->against_all / all);
}

/* Whether limits alone keep larger sets, which lose less, from being chosen. */
static bool is_capped(const cst_selection *selection) {
    const cst_select_step *path = selection->path;
    bool better = false;
    for (int32_t s = selection->chosen + 1; s < selection->members; s++) {
        if (path[s].allowed)
            return false;
        better |= path[s].loss < path[selection->chosen].loss;
    }
    return better;
}

/* Selects by the rule among the members that are kept so far. */
static cst_status choose_by(cst_context *context, const cst_run *run, cst_select_rule rule,
                            int32_t cap, bool front, cst_stages *out) {
    const cst_settings *settings = run->settings;
    int32_t count = out->kept_count;
    CST_SCOPE(scope);
    CST_NEW(context, scope, double, values, (CST_COST_COUNT * (size_t)count));
    cst_select_options options = settings->selection;
    cst_costs_part(run->costs, out->kept, count, values, &options.costs);
    options.limits = settings->limits;
    options.cap_count = cap;
    options.rule = rule;
    memcpy(out->candidates, out->kept, (size_t)count * sizeof *out->kept);
    if (options.chooser)
        CST_TRY(options.chooser->choose(context, options.chooser->user, out->candidates, count,
                                        &options, &out->selection, front ? &out->front : NULL));
    else
        CST_TRY(run->family->choose(context, run, out->candidates, count, &options, &out->selection,
                                    front ? &out->front : NULL));
    const cst_select_step *step = &out->selection.path[out->selection.chosen];
    bool capped = is_capped(&out->selection);
    for (int32_t j = 0; j < count; j++)
        out->reason[out->candidates[j]] =
            !capped && cst_costs_within(run->costs, &settings->limits, &out->candidates[j], 1)
                ? CST_REASON_SELECTION
                : CST_REASON_CAP;
    for (int32_t j = 0; j < step->size; j++) {
        out->kept[j] = out->candidates[step->members[j]];
        out->reason[out->kept[j]] = CST_REASON_KEPT;
    }
    out->kept_count = step->size;
    return CST_OK;
}

/* Distillation asks what members add to all of them. Where they are many, some are poor, and those
 * of the best size take the place of all; limits on cost are met by a search on the labels. */
static cst_status choose(cst_context *context, const cst_run *run, cst_stages *out) {
    const cst_settings *settings = run->settings;
    cst_select_rule rule = settings->selection.rule;
    bool front = false;
    for (int c = 0; c < CST_COST_COUNT; c++)
        front = front || (settings->front && cst_cost_known(run->costs, (cst_cost)c, out->members));
    bool by_rows = !settings->selection.chooser;
    if (by_rows && rule == CST_SELECT_DISTIL && cst_limited(&settings->limits))
        rule = CST_SELECT_NON_INFERIOR;
    if (by_rows && rule == CST_SELECT_DISTIL && out->kept_count > CST_SEARCH_MEMBERS) {
        CST_TRY(choose_by(context, run, CST_SELECT_BEST, 0, false, out));
        cst_selection_free(context, &out->selection);
    }
    CST_TRY(choose_by(context, run, rule, cst_count_cap(settings, out->members), front, out));
    tell_limits(context, run, &out->selection);
    return CST_OK;
}

/* ---- all of it ---- */

/* For each dropped member the kept one it resembles most; a redundant one keeps the partner it was
 * dropped for, even where that one went later. */
static void find_closest(cst_stages *out) {
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

static bool needs_leading(const cst_run *run) {
    const cst_settings *settings = run->settings;
    return run->family->lead && run->view->members > CST_MANY_MEMBERS && settings->select &&
           !settings->selection.chooser;
}

static cst_status run_stages(cst_context *context, cst_run *run, cst_stages *out) {
    const cst_family *family = run->family;
    CST_SCOPE(scope);
    double start = cst_seconds();
    CST_TRY(cst_stages_alloc(context, run->view->members, out));
    CST_TRY(family->prepare(context, scope, run, out));
    if (needs_leading(run)) {
        CST_TAKE(context, &out->scope, out->leading, out->members);
        CST_TRY(family->lead(context, run, out->leading));
    }
    CST_TRY(cst_redundant_members(context, run, out));
    out->seconds_redundancy = cst_seconds() - start;
    start = cst_seconds();
    CST_TRY(cst_stage(context, "selection"));
    bool limited = cst_limited(&run->settings->limits);
    if (run->settings->select && (out->kept_count > 1 || limited)) {
        if (family->shorten && !limited && !run->settings->selection.chooser)
            family->shorten(context, run, out);
        CST_TRY(choose(context, run, out));
    }
    out->seconds_select = cst_seconds() - start;
    CST_TRY(cst_fit_and_drop(context, run, out));
    if (family->complete)
        CST_TRY(family->complete(context, run, out));
    CST_TRY(cst_stages_drop_unused(context, out));
    find_closest(out);
    return family->last ? family->last(context, run, out) : CST_OK;
}

cst_status cst_stages_run(cst_context *context, const cst_run *run, cst_stages *out) {
    const cst_view even = cst_view_even(run->view);
    cst_run own = *run;
    own.view = &even;
    *out = (cst_stages){0};
    cst_status status = run_stages(context, &own, out);
    if (status != CST_OK)
        cst_stages_free(context, out);
    return status;
}

CST_RELEASED(cst_logtable, cst_logtable_unshare)

cst_status cst_stages_attach(cst_context *context, cst_scope *scope, const cst_training *source,
                             const cst_settings *settings, cst_view *view) {
    cst_compact *table = NULL;
    if (view->members < 2 || view->members > CST_MANY_MEMBERS || cst_compact_of(view) ||
        (!settings->select && !(settings->learners & CST_META_LOGLINEAR)))
        return CST_OK;
    CST_TRY(cst_stage(context, "table of the classes that matter"));
    CST_TRY(cst_logtable_share(context, view, source->folds, source->fold_count,
                               &settings->selection.compact, &table));
    CST_OWN(context, scope, cst_logtable, table);
    if (settings->select && table->rows < view->rows)
        cst_notice(context,
                   "members were selected on %lld of %lld samples (select.max_rows); the selected "
                   "members were fitted on all samples",
                   (long long)table->rows, (long long)view->rows);
    cst_compact_attach(view, table);
    return CST_OK;
}

/* ---- nested evaluation ---- */

typedef struct nested_job {
    const cst_run *run;
    const cst_fold_result *held;
    int32_t count;
    int32_t predicted; /* of these; the one after is the run's `without` */
} nested_job;

/* Numbers that predictions without each member may read in a fold; of more rows than few, half. */
static const double WITHOUT_NUMBERS = 4e6;
enum { WITHOUT_FEW = 200 };

static void release_room(cst_context *context, void *room) {
    (void)context;
    cst_room_free(room);
}

/* The rows of `held` [rows][members] of the fold: see cst_run. kept: the model's view of the fold;
 * told: its predictions. */
static cst_status lose_members(cst_context *context, const nested_job *job,
                               const cst_stages *stages, const cst_view *kept, const float *told,
                               float *held) {
    const cst_family *family = job->run->family;
    const cst_model *model = stages->fit.model;
    size_t width = job->held[0].width;
    size_t members = (size_t)stages->members;
    int32_t count = stages->kept_count;
    double row_numbers = (double)count * (double)count * (double)width;
    int64_t step = (int64_t)fmax(ceil(row_numbers * (double)kept->rows / WITHOUT_NUMBERS),
                                 kept->rows > WITHOUT_FEW ? 2 : 1);
    int64_t rows = (kept->rows + step - 1) / step;
    cst_room room = {0};
    CST_SCOPE(scope);
    CST_NEW(context, scope, int64_t, index, rows);
    CST_NEW(context, scope, float *, parts, job->predicted);
    CST_NEW(context, scope, uint8_t, present, count);
    CST_NEW(context, scope, int32_t, others, count);
    CST_NEW(context, scope, const float *, pointers, count);
    for (size_t i = 0; i < (size_t)kept->rows * members; i++)
        held[i] = (int64_t)(i / members) % step ? NAN : 0;
    for (int32_t r = 0; r < job->predicted; r++)
        CST_TAKE(context, scope, parts[r], (size_t)rows * job->held[r].width);
    for (int64_t i = 0; i < rows; i++)
        index[i] = kept->index ? kept->index[i * step] : i * step;
    cst_view some = *kept;
    some.index = index;
    some.rows = rows;
    CST_TRY(cst_scope_own(context, scope, release_room, &room));
    CST_TRY(cst_room_make(context, model, &room));
    for (int32_t j = 0; j < count && count > 1; j++) {
        for (int32_t k = 0; k < count; k++) {
            present[k] = k != j;
            others[k - (k > j)] = k;
        }
        cst_status status = cst_room_fill(context, &room, present);
        bool solved = status == CST_OK;
        if (status != CST_ERROR_UNSUPPORTED && status != CST_ERROR_NUMERIC)
            CST_TRY(status);
        cst_view part = cst_view_members(&some, others, count - 1, pointers);
        if (solved)
            CST_TRY(family->predict(context, &room.model, &part, parts));
        for (int64_t i = 0; i < rows; i++) {
            double before = family->row_loss(&some, i, told + (size_t)(i * step) * width);
            double after = family->row_loss(&some, i, parts[0] + (size_t)i * width);
            held[(size_t)(i * step) * members + (size_t)stages->kept[j]] =
                solved ? (float)(after - before) : NAN;
        }
    }
    return CST_OK;
}

/* The run of a fold, of those that lead alone where members are many. */
static cst_status run_among(cst_context *context, const cst_run *run, cst_stages *out) {
    const cst_view *all = run->view;
    int32_t count = 0;
    if (!needs_leading(run))
        return cst_stages_run(context, run, out);
    CST_SCOPE(scope);
    CST_NEW(context, scope, bool, leading, all->members);
    CST_NEW(context, scope, int32_t, members, all->members);
    CST_NEW(context, scope, const float *, pointers, all->members);
    CST_NEW(context, scope, double, values, CST_COST_COUNT *(size_t)all->members);
    CST_TRY(run->family->lead(context, run, leading));
    for (int32_t k = 0; k < all->members; k++)
        if (leading[k])
            members[count++] = k;
    const cst_view part = cst_view_members(all, members, count, pointers);
    cst_run own = *run;
    cst_costs costs;
    cst_costs_part(run->costs, members, count, values, &costs);
    own.view = &part;
    own.costs = &costs;
    CST_TRY(cst_stages_run(context, &own, out));
    out->members = all->members;
    for (int32_t j = 0; j < out->kept_count; j++)
        out->kept[j] = members[out->kept[j]];
    return CST_OK;
}

static cst_status nested_task(cst_context *context, void *user, const cst_fold_rows *rows) {
    const nested_job *job = user;
    const cst_training *inside = &rows->inside;
    cst_run run = *job->run;
    cst_settings settings = *run.settings;
    settings.cka.quiet = true;
    run.settings = &settings;
    run.view = &inside->view;
    run.folds = inside->folds;
    run.fold_count = inside->fold_count;
    cst_stages stages = {0};
    CST_SCOPE(scope);
    CST_NEW(context, scope, const float *, pointers, inside->view.members);
    CST_NEW(context, scope, float *, part, job->count);
    CST_OWN(context, scope, cst_stages, &stages);
    CST_TRY(run_among(context, &run, &stages));
    for (int32_t r = 0; r < job->count; r++)
        CST_TAKE(context, scope, part[r], (size_t)rows->held.rows * job->held[r].width);
    cst_view kept = cst_view_members(&rows->held, stages.kept, stages.kept_count, pointers);
    CST_TRY(run.family->predict(context, stages.fit.model, &kept, part));
    if (job->predicted < job->count)
        CST_TRY(lose_members(context, job, &stages, &kept, part[0], part[job->predicted]));
    for (int32_t r = 0; r < job->count; r++)
        cst_fold_scatter(job->run->folds, job->run->view->rows, rows->fold, job->held[r].width,
                         part[r], job->held[r].rows);
    return CST_OK;
}

cst_status cst_stages_nested(cst_context *context, const cst_run *run, const cst_training *scored,
                             const cst_fold_result *held, int32_t count) {
    const cst_training source = {.view = *run->view,
                                 .folds = (int32_t *)(uintptr_t)run->folds, /* only looked at */
                                 .fold_count = run->fold_count};
    CST_SCOPE(scope);
    CST_NEW(context, scope, cst_fold_result, results, count + 1);
    memcpy(results, held, (size_t)count * sizeof *held);
    results[count] = (cst_fold_result){run->without, (size_t)run->view->members};
    if (run->family->nested)
        return run->family->nested(context, run, held->rows);
    nested_job job = {run, results, count + (run->without != NULL), count};
    return cst_nested_run(context, scored ? scored : &source, run->settings->seed, nested_task,
                          &job, results, job.count);
}
