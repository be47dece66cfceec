/* Order of values and their average ranks. Under rank correlation. docs/json.md#compare. */
#include "stats/ranks.h"

#include <stdlib.h>

static int ascending(const void *a, const void *b) {
    const cst_ranked *x = a;
    const cst_ranked *y = b;
    if (x->value != y->value)
        return x->value > y->value ? 1 : -1;
    return (x->index > y->index) - (x->index < y->index);
}

void cst_rank_sort(const double *values, int64_t count, cst_ranked *sorted) {
    for (int64_t i = 0; i < count; i++)
        sorted[i] = (cst_ranked){values[i], i};
    qsort(sorted, (size_t)count, sizeof *sorted, ascending);
}

cst_status cst_rank_sort_rows(cst_context *context, const double *values, int64_t count,
                              cst_ranked *sorted) {
    for (int64_t i = 0; i < count; i++) {
        cst_trim_item(context, i);
        sorted[i] = (cst_ranked){values[i], i};
    }
    return cst_sort(context, sorted, (size_t)count, sizeof *sorted, ascending);
}

cst_status cst_average_ranks(cst_context *context, const double *values, int64_t count,
                             double *ranks) {
    CST_SCOPE(scope);
    CST_NEW(context, scope, cst_ranked, sorted, count);
    CST_TRY(cst_rank_sort_rows(context, values, count, sorted));
    for (int64_t first = 0, end = 0; first < count; first = end) {
        while (end < count && sorted[end].value == sorted[first].value)
            end++;
        for (int64_t i = first; i < end; i++)
            ranks[sorted[i].index] = 0.5 * (double)(first + 1 + end);
    }
    return CST_OK;
}
