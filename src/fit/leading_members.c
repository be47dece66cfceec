/* The members of many that a log-linear pool of all of them needs most, on some of the rows. */
#include "fit/family.h"
#include "method/select/wald.h"

enum { ROWS_MAX = 16384, ROWS_LEAST = 2048, MOST = 128 };
static const double NUMBERS = 0x1p25; /* of the rows that are looked at */
static const double ENOUGH = 1;       /* nats that a step still gains where the fit ends */

CST_OWNED(cst_logtable)
CST_OWNED(cst_loglinear)

cst_status cst_leading_members(cst_context *context, const cst_view *view, const int32_t *folds,
                               int32_t fold_count, bool *leading) {
    int64_t count = 0;
    int64_t *position = NULL;
    int32_t members = view->members;
    int32_t **set;
    cst_some_rows rows;
    cst_logtable table = {0};
    cst_loglinear fit = {0};
    cst_loglinear_options options = cst_loglinear_defaults();
    const cst_select_options path = {0};
    double room = NUMBERS / (double)members / (double)view->classes;
    int64_t most = room > ROWS_MAX ? ROWS_MAX : room < ROWS_LEAST ? ROWS_LEAST : (int64_t)room;
    CST_SCOPE(scope);
    CST_NEW(context, scope, int32_t, every, members);
    CST_TRY(cst_thin_rows(context, view->rows, folds, fold_count, most, &position, &count));
    CST_TRY(cst_scope_own(context, scope, cst_free, position));
    CST_TRY(cst_some_rows_take(context, scope, view, folds, position, count, &rows));
    rows.view.weights = NULL;
    options.bias = false;
    options.tolerance = ENOUGH;
    for (int32_t k = 0; k < members; k++)
        every[k] = k;
    CST_OWN(context, scope, cst_logtable, &table);
    CST_OWN(context, scope, cst_loglinear, &fit);
    CST_TRY(cst_logtable_open(context, &rows.view, NULL, 0, NULL, &table));
    CST_TRY(cst_logtable_mix(context, &table));
    CST_TRY(cst_loglinear_fit(context, &table, every, members, &options, NULL, &fit));
    CST_TRY(cst_wald_sets(context, scope, members, &set));
    CST_TRY(cst_wald_path(context, fit.weights, fit.hessian, members, (size_t)fit.parameters, &path,
                          set));
    int32_t size = members < MOST ? members : MOST;
    for (int32_t j = 0; j < size; j++)
        leading[set[size - 1][j]] = true;
    return CST_OK;
}
