/* The members of many that an ensemble takes first. */
#include "fit/family.h"
#include "method/blend/blend.h"

#include <string.h>

enum { ROUNDS = 256, ROWS = 16384 };

static void cst_greedy_release(cst_context *context, void *object) {
    (void)context;
    cst_scope_free(&((cst_greedy *)object)->scope);
}

cst_status cst_leading_members(cst_context *context, const cst_view *view, const int32_t *folds,
                               int32_t fold_count, double *weights) {
    int64_t count = 0;
    int64_t *position = NULL;
    cst_some_rows rows;
    cst_greedy greedy = {0};
    CST_SCOPE(scope);
    CST_TRY(cst_thin_rows(context, view->rows, folds, fold_count, ROWS, &position, &count));
    CST_TRY(cst_scope_own(context, scope, cst_free, position));
    CST_TRY(cst_some_rows_take(context, scope, view, folds, position, count, &rows));
    rows.view.weights = NULL;
    CST_TRY(cst_greedy_select(context, &rows.view, CST_GREEDY_LOG_LOSS, ROUNDS, 0, &greedy));
    CST_OWN(context, scope, cst_greedy, &greedy);
    memcpy(weights, greedy.weights, (size_t)view->members * sizeof *weights);
    return CST_OK;
}
