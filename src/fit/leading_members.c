/* The members of many that a log-linear pool of all of them needs most, on some of the rows. Of
 * very many, pools of parts of them come first. */
#include "fit/family.h"
#include "method/blend/blend.h"
#include "method/select/wald.h"

#include <string.h>

enum {
    POOLED = 384,
    PART = 256,
    OF_PART = 96,
    LEAD = 128,
    LEAD_LARGE = 64, /* where LEAD members have more than so many numbers */
    ROWS_MAX = 16384,
    ROWS_LEAST = 2048,
    ROUNDS = 64
};
static const double NUMBERS_LARGE = 0x1p25;
static const double NUMBERS = 0x1p24; /* of the rows that a pool is fitted on */
static const double ENOUGH = 1e-3;    /* nats a row that a step still gains where a fit ends */
static const double TRUSTED = 1e-2;   /* the same from which the next step is the last */
static const double PRIOR = 100;      /* precision of the weights: near the evidence of many */

CST_OWNED(cst_logtable)
CST_OWNED(cst_loglinear)

static void cst_greedy_release(cst_context *context, void *object) {
    (void)context;
    cst_scope_free(&((cst_greedy *)object)->scope);
}

/* Some rows, with members [count]. */
static cst_status take_rows(cst_context *context, cst_scope *scope, const cst_run *run,
                            const int32_t *members, int32_t count, cst_some_rows *out) {
    const cst_view *view = run->view;
    int64_t rows = 0;
    int64_t *position = NULL;
    double room = NUMBERS / (double)count / (double)view->classes;
    int64_t most = room > ROWS_MAX ? ROWS_MAX : room < ROWS_LEAST ? ROWS_LEAST : (int64_t)room;
    CST_NEW(context, scope, const float *, pointers, count);
    const cst_view part = cst_view_members(view, members, count, pointers);
    CST_TRY(
        cst_thin_rows(context, view->rows, run->folds, run->fold_count, most, &position, &rows));
    CST_TRY(cst_scope_own(context, scope, cst_free, position));
    CST_TRY(cst_some_rows_take(context, scope, &part, run->folds, position, rows, out));
    out->view.weights = NULL;
    return CST_OK;
}

/* Leaves those of members [*count] that their pool needs most: `most` of them, under limits those
 * of a path by gain and of one by gain for the cost, as many in all. */
static cst_status narrow(cst_context *context, const cst_run *run, int32_t most, int32_t *members,
                         int32_t *count) {
    int32_t **set[2];
    int32_t all = *count;
    cst_some_rows rows;
    cst_logtable table = {0};
    cst_loglinear fit = {0};
    cst_loglinear_options options = cst_loglinear_defaults();
    cst_select_options path = {0};
    CST_SCOPE(scope);
    CST_NEW(context, scope, int32_t, every, all);
    CST_NEW(context, scope, bool, taken, all);
    CST_NEW(context, scope, double, values, CST_COST_COUNT *(size_t)all);
    CST_TRY(take_rows(context, scope, run, members, all, &rows));
    options.bias = options.evidence = false;
    options.prior_weights = PRIOR;
    options.tolerance = ENOUGH * (double)rows.view.rows;
    options.trusted = TRUSTED * (double)rows.view.rows;
    for (int32_t k = 0; k < all; k++)
        every[k] = k;
    CST_OWN(context, scope, cst_logtable, &table);
    CST_OWN(context, scope, cst_loglinear, &fit);
    CST_TRY(cst_logtable_open(context, &rows.view, NULL, 0, NULL, &table));
    CST_TRY(cst_logtable_mix(context, &table));
    CST_TRY(cst_loglinear_fit(context, &table, every, all, &options, NULL, &fit));
    for (int by = 0; by < 2; by++) {
        CST_TRY(cst_wald_sets(context, scope, all, &set[by]));
        CST_TRY(cst_wald_path(context, fit.weights, fit.hessian, all, (size_t)fit.parameters, &path,
                              set[by]));
        path.limits = run->settings->limits;
        cst_costs_part(run->costs, members, all, values, &path.costs);
        if (!cst_limited(&path.limits)) {
            set[1] = set[0];
            break;
        }
    }
    *count = all;
    for (int32_t size = most; *count > most; size--) {
        memset(taken, 0, (size_t)all * sizeof *taken);
        *count = 0;
        for (int32_t j = 0; j < size; j++)
            taken[set[0][size - 1][j]] = taken[set[1][size - 1][j]] = true;
        for (int32_t k = 0; k < all; k++)
            *count += taken[k];
    }
    for (int32_t k = 0, to = 0; k < all; k++)
        if (taken[k])
            members[to++] = members[k];
    return CST_OK;
}

/* The same of each of several parts, which every so many members make. */
static cst_status narrow_parts(cst_context *context, const cst_run *run, int32_t *members,
                               int32_t *count) {
    int32_t parts = (*count + PART - 1) / PART;
    int32_t left = 0;
    CST_SCOPE(scope);
    CST_NEW(context, scope, int32_t, all, *count);
    CST_NEW(context, scope, int32_t, part, PART);
    memcpy(all, members, (size_t)*count * sizeof *all);
    for (int32_t p = 0; p < parts; p++) {
        int32_t size = 0;
        for (int32_t k = p; k < *count; k += parts)
            part[size++] = all[k];
        CST_TRY(narrow(context, run, OF_PART, part, &size));
        memcpy(members + left, part, (size_t)size * sizeof *part);
        left += size;
    }
    *count = left;
    return CST_OK;
}

cst_status cst_leading_members(cst_context *context, const cst_run *run, bool *leading) {
    const cst_view *view = run->view;
    bool large = LEAD * (double)view->rows * (double)view->classes > NUMBERS_LARGE;
    int32_t most = large ? LEAD_LARGE : LEAD;
    int32_t count = 0;
    CST_SCOPE(scope);
    CST_NEW(context, scope, int32_t, members, view->members);
    for (int32_t k = 0; k < view->members; k++)
        if (cst_costs_within(run->costs, &run->settings->limits, &k, 1))
            members[count++] = k;
    while (count > POOLED)
        CST_TRY(narrow_parts(context, run, members, &count));
    if (count > most)
        CST_TRY(narrow(context, run, most, members, &count));
    for (int32_t j = 0; j < count; j++)
        leading[members[j]] = true;
    return CST_OK;
}

cst_status cst_greedy_members(cst_context *context, const cst_view *view, const int32_t *folds,
                              int32_t fold_count, int32_t *members, int32_t *count) {
    const cst_run run = {.view = view, .folds = folds, .fold_count = fold_count};
    cst_some_rows rows;
    cst_greedy greedy = {0};
    CST_SCOPE(scope);
    CST_NEW(context, scope, int32_t, every, view->members);
    for (int32_t k = 0; k < view->members; k++)
        every[k] = k;
    CST_TRY(take_rows(context, scope, &run, every, view->members, &rows));
    CST_TRY(cst_greedy_select(context, &rows.view, CST_GREEDY_LOG_LOSS, ROUNDS, 0, &greedy));
    CST_OWN(context, scope, cst_greedy, &greedy);
    *count = 0;
    for (int32_t k = 0; k < view->members; k++)
        if (greedy.weights[k] > 0)
            members[(*count)++] = k;
    return CST_OK;
}
