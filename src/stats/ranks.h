/* Order of values and their average ranks. Under rank correlation. docs/json.md#compare. */
#ifndef CST_METRICS_RANKS_H
#define CST_METRICS_RANKS_H

#include "core/scope.h"

typedef struct cst_ranked {
    double value;
    int64_t index;
} cst_ranked;

/* values [count], none NaN, ascending into sorted [count]; equal values by ascending index. */
void cst_rank_sort(const double *values, int64_t count, cst_ranked *sorted);
/* As cst_rank_sort, of one value for each row, within the memory budget. */
cst_status cst_rank_sort_rows(cst_context *context, const double *values, int64_t count,
                              cst_ranked *sorted);

/* Ranks 1..count of finite values; equal ones get the mean of their ranks. ranks: [count]. */
cst_status cst_average_ranks(cst_context *context, const double *values, int64_t count,
                             double *ranks);

#endif
