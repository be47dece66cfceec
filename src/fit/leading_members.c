/* The members of many that an ensemble takes first: greedy selection with replacement by the NLL
 * from all members and from random halves of them (Caruana et al. 2006), on some of the rows. */
#include "fit/family.h"
#include "method/blend/blend.h"

#include <string.h>

enum {
    BAGS = 8, /* by three bits */
    ROUNDS = 64,
    ROWS_MAX = 16384,
    ROWS_LEAST = 2048,
    MOST = 128
};
static const double NUMBERS = 0x1p26; /* of the rows that are copied */

static void cst_greedy_release(cst_context *context, void *object) {
    (void)context;
    cst_scope_free(&((cst_greedy *)object)->scope);
}

/* Adds the weights that one greedy selection from members [count] of the rows gives. */
static cst_status add_bag(cst_context *context, const cst_view *rows, const int32_t *members,
                          int32_t count, double *weights) {
    cst_greedy greedy = {0};
    CST_SCOPE(scope);
    CST_NEW(context, scope, const float *, pointers, count);
    const cst_view part = cst_view_members(rows, members, count, pointers);
    CST_TRY(cst_greedy_select(context, &part, CST_GREEDY_LOG_LOSS, ROUNDS, 0, &greedy));
    CST_OWN(context, scope, cst_greedy, &greedy);
    for (int32_t j = 0; j < count; j++)
        weights[members[j]] += greedy.weights[j];
    return CST_OK;
}

cst_status cst_leading_members(cst_context *context, const cst_view *view, const int32_t *folds,
                               int32_t fold_count, bool *leading) {
    int64_t count = 0;
    int64_t *position = NULL;
    cst_some_rows rows;
    double room = NUMBERS / (double)view->members / (double)view->classes;
    int64_t most = room > ROWS_MAX ? ROWS_MAX : room < ROWS_LEAST ? ROWS_LEAST : (int64_t)room;
    CST_SCOPE(scope);
    CST_NEW(context, scope, int32_t, members, view->members);
    CST_NEW(context, scope, double, weights, view->members);
    CST_TRY(cst_thin_rows(context, view->rows, folds, fold_count, most, &position, &count));
    CST_TRY(cst_scope_own(context, scope, cst_free, position));
    CST_TRY(cst_some_rows_take(context, scope, view, folds, position, count, &rows));
    rows.view.weights = NULL;
    for (uint32_t b = 0; b <= BAGS; b++) {
        int32_t size = 0;
        for (int32_t k = 0; k < view->members; k++)
            if (b == BAGS || (uint32_t)k * UINT32_C(2654435769) >> 29 == b)
                members[size++] = k;
        CST_TRY(add_bag(context, &rows.view, members, size, weights));
    }
    for (int32_t m = 0; m < MOST; m++) {
        int32_t best = 0;
        for (int32_t k = 1; k < view->members; k++)
            best = weights[k] > weights[best] ? k : best;
        if (weights[best] <= 0)
            break;
        leading[best] = true;
        weights[best] = 0;
    }
    return CST_OK;
}
