/* The whole procedure on one set of rows, and its nested evaluation. Paper: stages S1 to S4;
 * "Leakage-Freeness of the Nested OOF Construction". */
#include "fit/stages.h"
#include "fit/family.h"

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

void cst_stages_shorten(cst_stages *out, const double *value, int32_t most) {
    while (out->kept_count > most) {
        int32_t last = 0;
        for (int32_t j = 1; j < out->kept_count; j++)
            if (value[out->kept[j]] >= value[out->kept[last]])
                last = j;
        out->reason[out->kept[last]] = CST_REASON_SELECTION;
        out->kept_count--;
        memmove(out->kept + last, out->kept + last + 1,
                (size_t)(out->kept_count - last) * sizeof *out->kept);
    }
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
    for (int32_t j = 0; j < count; j++)
        out->reason[out->candidates[j]] =
            cst_costs_within(run->costs, &settings->limits, &out->candidates[j], 1)
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

static cst_status run_stages(cst_context *context, cst_run *run, cst_stages *out) {
    const cst_family *family = run->family;
    CST_SCOPE(scope);
    double start = cst_seconds();
    CST_TRY(cst_stages_alloc(context, run->view->members, out));
    CST_TRY(family->prepare(context, scope, run, out));
    CST_TRY(cst_redundant_members(context, run, out));
    out->seconds_redundancy = cst_seconds() - start;
    start = cst_seconds();
    CST_TRY(cst_stage(context, "selection"));
    bool limited = cst_limited(&run->settings->limits);
    if (run->settings->select && (out->kept_count > 1 || limited)) {
        if (family->shorten && !limited && !run->settings->selection.chooser)
            CST_TRY(family->shorten(context, run, out));
        CST_TRY(choose(context, run, out));
    }
    out->seconds_select = cst_seconds() - start;
    CST_TRY(cst_fit_and_drop(context, run, out));
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
} nested_job;

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
    CST_TRY(cst_stages_run(context, &run, &stages));
    for (int32_t r = 0; r < job->count; r++)
        CST_TAKE(context, scope, part[r], (size_t)rows->held.rows * job->held[r].width);
    cst_view kept = cst_view_members(&rows->held, stages.kept, stages.kept_count, pointers);
    CST_TRY(run.family->predict(context, stages.fit.model, &kept, part));
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
    nested_job job = {run, held, count};
    return cst_nested_run(context, scored ? scored : &source, run->settings->seed, nested_task,
                          &job, held, count);
}
