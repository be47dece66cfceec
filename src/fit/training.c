/* Stage S0: loading a split, checking or making its folds. */
#include "fit/training.h"

#include "core/options.h"
#include "data/pool/pool.h"

#include <math.h>
#include <string.h>

/* Folds in time, by the order of the pool. */
static cst_status prepare_time(cst_context *context, const cst_pool *pool, const char *split,
                               const cst_fold_plan *plan, cst_training *out) {
    const int64_t *order = cst_pool_order_of(pool, split);
    int64_t rows = out->view.rows;
    CST_SCOPE(scope);
    CST_NEW(context, scope, int64_t, keys, rows);
    CST_TAKE(context, &out->scope, out->time, rows);
    for (int64_t i = 0; i < rows; i++) {
        int64_t row = out->counted.rows ? out->counted.rows[i] : i;
        keys[i] = order ? order[row] : row;
    }
    out->gap = plan->gap;
    CST_TRY(cst_time_blocks(context, keys, rows, plan->count + 1, out->folds, out->time,
                            &out->fold_count));
    if (out->fold_count <= plan->count)
        return cst_fail(context, CST_ERROR_INPUT,
                        "split '%s' has %d different times, but %d folds in time need %d: set "
                        "folds.count to fewer, or leave folds.kind=time out",
                        split, (int)out->fold_count, (int)plan->count, (int)plan->count + 1);
    return CST_OK;
}

static cst_status prepare_folds(cst_context *context, const cst_pool *pool, const char *split,
                                const cst_fold_plan *plan, uint64_t seed, cst_training *out) {
    int32_t folds = plan->count;
    const int32_t *labels = out->view.labels;
    const double *targets = out->view.targets;
    CST_SCOPE(scope);
    if (cst_pool_task(pool) == CST_TASK_TOPK) { /* of so many classes most are rare */
        CST_NEW(context, scope, int32_t, alike, out->view.rows);
        labels = alike;
    }
    const int32_t *given = out->counted.folds;
    const int64_t *groups = out->view.groups;
    int64_t rows = out->view.rows;
    if (plan->kind == 1 && given && !cst_pool_folds_adopted(pool, split))
        return cst_fail(
            context, CST_ERROR_ARGUMENT,
            "split '%s' has folds of its own, and folds.kind=time makes others: remove "
            "--folds FILE, \"folds\" from the manifest or the column of folds; or leave "
            "folds.kind=time out",
            split);
    if (plan->kind == 1)
        return prepare_time(context, pool, split, plan, out);
    out->folds_given = given != NULL;
    if (given) {
        CST_TRY(cst_folds_check(context, given, labels, rows));
        memcpy(out->folds, given, (size_t)rows * sizeof *given);
        out->fold_count = cst_folds_count(given, rows);
        return CST_OK;
    }
    out->fold_count = folds;
    if (out->view.binary)
        return cst_folds_labels(context, targets, out->view.classes, groups, rows, folds, seed,
                                out->folds);
    if (targets)
        return cst_folds_quantile(context, targets, out->view.classes, groups, rows, folds, seed,
                                  out->folds);
    if (groups)
        return cst_folds_grouped(context, labels, groups, rows, folds, seed, out->folds);
    return cst_folds_stratified(context, labels, rows, folds, seed, out->folds);
}

cst_status cst_training_no_time(cst_context *context, const cst_options *options,
                                const char *task) {
    return cst_option_choice(options, CST_OPT_FOLDS_KIND) == 0
               ? CST_OK
               : cst_fail(context, CST_ERROR_UNSUPPORTED,
                          "folds.kind=time is for classification and regression rows, and the task "
                          "is %s: leave it out",
                          task);
}

cst_status cst_training_scored(cst_context *context, const cst_pool *pool, const char *split,
                               const cst_training *source, cst_counted *out) {
    const int64_t *rows = source->kept.samples ? source->kept.rows : source->counted.rows;
    int64_t first = 0;
    CST_SCOPE(scope);
    CST_NEW(context, scope, uint8_t, without, cst_pool_rows(pool, split));
    memset(without, 1, (size_t)cst_pool_rows(pool, split));
    for (int64_t i = 0; i < source->view.rows; i++)
        first += without[rows ? rows[i] : i] = source->folds[i] == 0;
    cst_notice(context,
               "folds in time: every row is scored by a fit on the rows before its fold; the first "
               "%lld of %lld rows are not scored",
               (long long)first, (long long)source->view.rows);
    return cst_counted_without(context, pool, split, without, out);
}

void cst_training_pack(const cst_training *source, size_t width, float *rows) {
    for (int64_t i = 0, to = 0; source->time && i < source->view.rows; i++)
        if (source->folds[i] > 0)
            memmove(rows + (size_t)to++ * width, rows + (size_t)i * width, width * sizeof *rows);
}

/* ---- costs ---- */

static cst_status take_costs(cst_context *context, cst_scope *scope, int32_t members,
                             cst_training *out) {
    CST_TAKE(context, scope, out->flops, members);
    CST_TAKE(context, scope, out->latency, members);
    CST_TAKE(context, scope, out->params, members);
    CST_TAKE(context, scope, out->ensembles, members);
    return CST_OK;
}

cst_status cst_training_read_costs(cst_context *context, cst_scope *scope, const cst_pool *pool,
                                   cst_training *out) {
    int32_t members = (int32_t)cst_pool_members(pool);
    CST_TRY(take_costs(context, scope, members, out));
    for (int32_t k = 0; k < members; k++) {
        out->ensembles[k] = cst_pool_member_ensemble(pool, k);
        /* A prediction averaged over several passes costs them all; parameters are stored once. */
        out->flops[k] = out->ensembles[k].passes * cst_pool_member_flops(pool, k);
        out->latency[k] = out->ensembles[k].passes * cst_pool_member_latency_ms(pool, k);
        out->params[k] = cst_pool_member_params(pool, k);
    }
    return CST_OK;
}

cst_costs cst_training_costs(const cst_training *source) {
    return (cst_costs){{[CST_COST_FLOPS] = source->flops,
                        [CST_COST_LATENCY] = source->latency,
                        [CST_COST_PARAMS] = source->params}};
}

double cst_training_flops_rel(const cst_training *source, const bool *uses) {
    double all = 0;
    double used = 0;
    for (int32_t k = 0; k < source->view.members; k++) {
        all += source->flops[k];
        used += uses[k] ? source->flops[k] : 0;
    }
    return all > 0 ? used / all : NAN;
}

/* How many predictions of the rows that count were filled in. */
static void tell_absent(cst_context *context, const cst_pool *pool, const char *split,
                        const cst_view *view) {
    int64_t most = 0;
    int32_t worst = 0;
    int32_t members = 0;
    for (int32_t k = 0; k < view->members; k++) {
        const uint8_t *present = cst_view_present(view, k);
        int64_t absent = 0;
        for (int64_t i = 0; present && i < view->rows; i++)
            absent += !cst_view_is_there(view, present, i);
        members += absent > 0;
        worst = absent > most ? k : worst;
        most = absent > most ? absent : most;
    }
    if (members > 0)
        cst_notice(context,
                   "split '%s': %d of %d members lack predictions ('%s' lacks %lld of %lld rows, "
                   "most of all); for the fit they are filled in from the other members",
                   split, (int)members, (int)view->members, cst_pool_member_name(pool, worst),
                   (long long)most, (long long)view->rows);
}

static cst_status open_rows(cst_context *context, cst_pool *pool, const char *split,
                            const cst_fold_plan *plan, uint64_t seed, cst_training *out) {
    double start = cst_seconds();
    CST_TRY(cst_pool_load(context, pool, split));
    CST_TRY(cst_pool_need_all(context, pool, split));
    out->seconds_read = cst_seconds() - start;
    bool values = cst_task_has_outputs(cst_pool_task(pool));
    if (values ? !cst_pool_targets(pool, split) : !cst_pool_labels(pool, split))
        return cst_fail(
            context, CST_ERROR_INPUT,
            "split '%s' has no %s; a stack is fitted on rows with a known %s: give them "
            "with --labels, or name their column in a csv with --label-column; in a manifest, as "
            "\"labels\" of the split",
            split, values ? "targets" : "labels", values ? "target" : "class");
    if (cst_pool_conditions(pool, split) > 0)
        return cst_fail(context, CST_ERROR_INPUT,
                        "split '%s' has several conditions of the same samples; fit on a split "
                        "without conditions",
                        split);
    size_t members = (size_t)cst_pool_members(pool);
    const cst_view *all = &out->counted.view;
    CST_TRY(cst_counted_open(context, pool, split, NULL, 0, &out->counted));
    tell_absent(context, pool, split, all);
    CST_TAKE(context, &out->scope, out->data, members);
    CST_TAKE(context, &out->scope, out->folds, all->rows);
    memcpy(out->data, all->data, members * sizeof *out->data);
    CST_TRY(cst_training_read_costs(context, &out->scope, pool, out));
    out->view = *all;
    out->view.data = out->data;
    out->view.groups = out->counted.groups;
    return prepare_folds(context, pool, split, plan, seed, out);
}

cst_status cst_training_open(cst_context *context, cst_pool *pool, const char *split,
                             const cst_fold_plan *plan, uint64_t seed, cst_training *out) {
    *out = (cst_training){0};
    cst_status status = open_rows(context, pool, split, plan, seed, out);
    if (status != CST_OK)
        cst_training_close(context, out);
    return status;
}

static cst_status check_cost(cst_context *context, const cst_pool *pool, const double *of,
                             cst_cost cost, double most) {
    int32_t cheapest = 0;
    for (int32_t k = 0; k < cst_pool_members(pool); k++) {
        if (isnan(of[k]))
            return cst_fail(context, CST_ERROR_INPUT,
                            "member '%.100s' has no %s, which %s needs for every member; add it to "
                            "the manifest or remove the limit",
                            cst_pool_member_name(pool, k), cst_cost_key(cost),
                            cst_cost_option(cost));
        cheapest = of[k] < of[cheapest] ? k : cheapest;
    }
    if (!cst_within(of[cheapest], most))
        return cst_fail(context, CST_ERROR_INPUT,
                        "no member is within %s=%g: the cheapest, '%.100s', has %s %g; raise the "
                        "limit",
                        cst_cost_option(cost), most, cst_pool_member_name(pool, cheapest),
                        cst_cost_key(cost), of[cheapest]);
    return CST_OK;
}

cst_status cst_training_check_costs(cst_context *context, const cst_pool *pool,
                                    const cst_training *source, const cst_limits *limits) {
    cst_costs costs = cst_training_costs(source);
    for (int c = 0; c < CST_COST_COUNT; c++)
        if (limits->most[c] > 0)
            CST_TRY(check_cost(context, pool, costs.of[c], (cst_cost)c, limits->most[c]));
    return CST_OK;
}

/* The source of checks. hints: may be NULL. */
static cst_check_source check_of(const cst_pool *pool, const char *split,
                                 const cst_training *source, const cst_training_hints *hints) {
    return (cst_check_source){.pool = pool,
                              .split = hints && hints->split ? hints->split : split,
                              .view = &source->view,
                              .rows = source->counted.rows,
                              .folds = source->folds_given ? source->folds : NULL,
                              .groups = source->view.groups,
                              .taught = source->taught,
                              .orders = hints ? hints->orders : NULL,
                              .order_count = hints ? hints->order_count : 0};
}

cst_status cst_training_teach(cst_context *context, cst_pool *pool, const char *split,
                              uint64_t seed, cst_training *source, cst_findings *findings) {
    int32_t count = source->fold_count;
    size_t cells = (size_t)source->view.members * (size_t)count * (size_t)source->view.classes;
    int64_t rows = cst_pool_rows(pool, split);
    if (!source->folds_given)
        return CST_OK;
    const cst_check_source check = check_of(pool, split, source, NULL);
    CST_SCOPE(scope);
    CST_NEW(context, scope, uint8_t, lacks, cells);
    CST_NEW(context, scope, int32_t, folds, rows);
    CST_TRY(cst_check_unknown(context, &check, lacks, findings));
    if (memchr(lacks, 1, cells)) {
        double seconds = source->seconds_read;
        for (int64_t i = 0; i < rows; i++)
            folds[i] = -1;
        for (int64_t i = 0; i < source->view.rows; i++)
            folds[check.rows ? check.rows[i] : i] = source->folds[i];
        cst_status status = cst_pool_teach(context, pool, split, folds, count, lacks);
        cst_training_close(context, source);
        CST_TRY(status);
        CST_TRY(cst_training_open(context, pool, split, &(cst_fold_plan){.count = count}, seed,
                                  source));
        source->seconds_read += seconds;
    }
    source->taught = true;
    return CST_OK;
}

/* Rows that seem to be in time are better scored in time. */
static void tell_dates(cst_context *context, const cst_pool *pool, const char *split,
                       const cst_training *source, const cst_training_hints *hints) {
    if (!hints && !source->folds_given && !source->time && !source->view.groups &&
        cst_pool_ids_are_dates(pool, split, cst_pool_rows(pool, split)))
        cst_notice(context,
                   "split '%s': the ids look like dates, and random folds score a row by fits on "
                   "later ones: with --folds time every row is scored by a fit on earlier rows",
                   split);
}

cst_status cst_training_find(cst_context *context, const cst_pool *pool, const char *split,
                             const cst_training *source, const cst_training_hints *hints,
                             cst_findings *findings) {
    const cst_check_source check = check_of(pool, split, source, hints);
    tell_dates(context, pool, split, source, hints);
    return cst_pool_task(pool) == CST_TASK_TOPK ? cst_check_lists(context, &check, findings)
                                                : cst_check_run(context, &check, findings);
}

cst_status cst_training_check(cst_context *context, const cst_pool *pool, const char *split,
                              const cst_training *source, const cst_training_hints *hints,
                              cst_findings *findings) {
    CST_TRY(cst_training_find(context, pool, split, source, hints, findings));
    return cst_findings_tell(context, findings);
}

void cst_training_close(cst_context *context, cst_training *source) {
    cst_counted_close(context, &source->kept);
    cst_counted_close(context, &source->counted);
    cst_scope_free(&source->scope);
    *source = (cst_training){0};
}

/* ---- rows with wrong labels ---- */

cst_status cst_training_leave_out(cst_context *context, cst_pool *pool, const char *split,
                                  const uint8_t *wrong, cst_training *source) {
    const cst_counted *all = &source->counted;
    const cst_view *kept = &source->kept.view;
    int64_t to = 0;
    CST_SCOPE(scope);
    CST_NEW(context, scope, uint8_t, without, cst_pool_rows(pool, split));
    for (int64_t i = 0; i < all->samples; i++) {
        without[all->rows ? all->rows[i] : i] = wrong[i];
        if (wrong[i])
            continue;
        if (source->time)
            source->time[to] = source->time[i];
        source->folds[to++] = source->folds[i];
    }
    CST_TRY(cst_counted_without(context, pool, split, without, &source->kept));
    memcpy(source->data, kept->data, (size_t)kept->members * sizeof *source->data);
    source->view = *kept;
    source->view.data = source->data;
    source->view.groups = source->kept.groups;
    return CST_OK;
}

cst_status cst_training_right(cst_context *context, cst_scope *scope, const cst_training *source,
                              cst_training *out) {
    const cst_view *view = &source->view;
    cst_some_rows rows;
    int64_t count = 0;
    CST_NEW(context, scope, int64_t, position, view->rows);
    for (int64_t i = 0; i < view->rows; i++)
        if (!source->wrong[view->index ? view->index[i] : i])
            position[count++] = i;
    CST_TRY(cst_some_rows_take(context, scope, view, source->folds, position, count, &rows));
    *out = *source;
    out->view = rows.view;
    out->wrong = NULL;
    out->folds = (int32_t *)(uintptr_t)rows.folds;
    out->time = NULL; /* of a fit, whose folds are left out in turn */
    return CST_OK;
}

/* ---- some members ---- */

cst_status cst_training_take_costs(cst_context *context, cst_scope *scope, const cst_training *all,
                                   const int32_t *members, int32_t count, cst_training *out) {
    CST_TRY(take_costs(context, scope, count, out));
    for (int32_t j = 0; j < count; j++) {
        int32_t from = members ? members[j] : j;
        out->flops[j] = all->flops[from];
        out->latency[j] = all->latency[from];
        out->params[j] = all->params[from];
        out->ensembles[j] = all->ensembles[from];
    }
    return CST_OK;
}

cst_status cst_training_part(cst_context *context, cst_scope *scope, const cst_training *all,
                             const int32_t *members, int32_t count, cst_training *out) {
    *out = *all;
    CST_NEW(context, scope, const float *, pointers, count);
    out->view = cst_view_members(&all->view, members, count, pointers);
    return cst_training_take_costs(context, scope, all, members, count, out);
}
