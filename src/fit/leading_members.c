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

CST_OWNED(cst_logtable)
CST_OWNED(cst_loglinear)

static void cst_greedy_release(cst_context *context, void *object) {
    (void)context;
    cst_scope_free(&((cst_greedy *)object)->scope);
}

/* Some rows, with members [count]. */
static cst_status take_rows(cst_context *context, cst_scope *scope, const cst_view *view,
                            const int32_t *folds, int32_t fold_count, const int32_t *members,
                            int32_t count, cst_some_rows *out) {
    int64_t rows = 0;
    int64_t *position = NULL;
    double room = NUMBERS / (double)count / (double)view->classes;
    int64_t most = room > ROWS_MAX ? ROWS_MAX : room < ROWS_LEAST ? ROWS_LEAST : (int64_t)room;
    CST_NEW(context, scope, const float *, pointers, count);
    const cst_view part = cst_view_members(view, members, count, pointers);
    CST_TRY(cst_thin_rows(context, view->rows, folds, fold_count, most, &position, &rows));
    CST_TRY(cst_scope_own(context, scope, cst_free, position));
    CST_TRY(cst_some_rows_take(context, scope, &part, folds, position, rows, out));
    out->view.weights = NULL;
    return CST_OK;
}

/* Moves those of members [count] to the front, `most` of them, that their pool needs most. */
static cst_status narrow(cst_context *context, const cst_view *view, const int32_t *folds,
                         int32_t fold_count, int32_t *members, int32_t count, int32_t most) {
    int32_t **set;
    cst_some_rows rows;
    cst_logtable table = {0};
    cst_loglinear fit = {0};
    cst_loglinear_options options = cst_loglinear_defaults();
    const cst_select_options path = {0};
    CST_SCOPE(scope);
    CST_NEW(context, scope, int32_t, every, count);
    CST_TRY(take_rows(context, scope, view, folds, fold_count, members, count, &rows));
    options.bias = false;
    options.tolerance = ENOUGH * (double)rows.view.rows;
    for (int32_t k = 0; k < count; k++)
        every[k] = k;
    CST_OWN(context, scope, cst_logtable, &table);
    CST_OWN(context, scope, cst_loglinear, &fit);
    CST_TRY(cst_logtable_open(context, &rows.view, NULL, 0, NULL, &table));
    CST_TRY(cst_logtable_mix(context, &table));
    CST_TRY(cst_loglinear_fit(context, &table, every, count, &options, NULL, &fit));
    CST_TRY(cst_wald_sets(context, scope, count, &set));
    CST_TRY(cst_wald_path(context, fit.weights, fit.hessian, count, (size_t)fit.parameters, &path,
                          set));
    for (int32_t j = 0; j < most; j++) /* ascending, so that none is read after it is written */
        members[j] = members[set[most - 1][j]];
    return CST_OK;
}

/* The same of each of several parts, which every so many members make; *count becomes that of
 * those that are left. */
static cst_status narrow_parts(cst_context *context, const cst_view *view, const int32_t *folds,
                               int32_t fold_count, int32_t *members, int32_t *count) {
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
        int32_t most = size < OF_PART ? size : OF_PART;
        CST_TRY(narrow(context, view, folds, fold_count, part, size, most));
        memcpy(members + left, part, (size_t)most * sizeof *part);
        left += most;
    }
    *count = left;
    return CST_OK;
}

cst_status cst_leading_members(cst_context *context, const cst_view *view, const int32_t *folds,
                               int32_t fold_count, bool *leading) {
    int32_t count = view->members;
    CST_SCOPE(scope);
    CST_NEW(context, scope, int32_t, members, count);
    for (int32_t k = 0; k < count; k++)
        members[k] = k;
    while (count > POOLED)
        CST_TRY(narrow_parts(context, view, folds, fold_count, members, &count));
    bool large = LEAD * (double)view->rows * (double)view->classes > NUMBERS_LARGE;
    int32_t most = large ? LEAD_LARGE : LEAD;
    CST_TRY(narrow(context, view, folds, fold_count, members, count, most));
    for (int32_t j = 0; j < most; j++)
        leading[members[j]] = true;
    return CST_OK;
}

cst_status cst_greedy_members(cst_context *context, const cst_view *view, const int32_t *folds,
                              int32_t fold_count, int32_t *members, int32_t *count) {
    cst_some_rows rows;
    cst_greedy greedy = {0};
    CST_SCOPE(scope);
    CST_NEW(context, scope, int32_t, every, view->members);
    for (int32_t k = 0; k < view->members; k++)
        every[k] = k;
    CST_TRY(take_rows(context, scope, view, folds, fold_count, every, view->members, &rows));
    CST_TRY(cst_greedy_select(context, &rows.view, CST_GREEDY_LOG_LOSS, ROUNDS, 0, &greedy));
    CST_OWN(context, scope, cst_greedy, &greedy);
    *count = 0;
    for (int32_t k = 0; k < view->members; k++)
        if (greedy.weights[k] > 0)
            members[(*count)++] = k;
    return CST_OK;
}
