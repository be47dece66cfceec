/*
 * A regression pool of one split in memory, copied from float32 arrays in C order.
 */
#ifndef POOL_FROM_VALUES_H
#define POOL_FROM_VALUES_H

#include <corestack/pool.h>

enum { VALUES_MEMBERS_MAX = 16 };

static inline cst_status pool_from_values(cst_context *context, cst_pool **out, const char *split,
                                          const float *const *predictions, const char *const *names,
                                          int32_t members, int64_t rows, int32_t outputs,
                                          const double *targets) {
    cst_array arrays[VALUES_MEMBERS_MAX];
    for (int32_t k = 0; k < members; k++)
        arrays[k] = (cst_array){.data = predictions[k],
                                .row_step = (int64_t)sizeof(float) * outputs,
                                .column_step = (int64_t)sizeof(float)};
    const cst_pool_arrays given = {.split = split,
                                   .task = CST_TASK_REGRESSION,
                                   .members = members,
                                   .rows = rows,
                                   .classes = outputs,
                                   .predictions = arrays,
                                   .names = names,
                                   .targets = targets};
    return cst_pool_from_arrays(context, out, &given);
}

#endif
