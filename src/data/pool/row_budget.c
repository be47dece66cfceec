/* Which rows of a split's predictions may stay in memory. */
#include "data/pool/row_budget.h"

bool cst_pool_is_too_large(cst_context *context, const cst_pool *pool, int32_t split, int32_t count,
                           int parts) {
    const cst_pool_split *state = &pool->splits[split];
    int32_t conditions = pool->manifest->splits[split].condition_count;
    size_t bytes = sizeof(float) * (size_t)count;
    size_t share = cst_context_memory(context) / 8 * 3;
    if (state->rows < 0)
        return false;
    if (!cst_size_mul(bytes, (size_t)state->rows, &bytes) ||
        !cst_size_mul(bytes, (size_t)pool->classes, &bytes) ||
        !cst_size_mul(bytes, conditions > 0 ? (size_t)conditions : 1, &bytes) ||
        !cst_size_add(bytes / (size_t)parts, cst_pool_resident(pool), &bytes))
        return true;
    return bytes > share;
}

void cst_pool_kept_rows(cst_context *context, const cst_pool *pool, int32_t split, int32_t count,
                        int64_t *first, int64_t *end) {
    int32_t conditions = pool->manifest->splits[split].condition_count;
    int64_t rows = pool->splits[split].rows * (conditions > 0 ? conditions : 1);
    *first = 0;
    *end = rows;
    if (cst_pool_is_too_large(context, pool, split, count, 1))
        cst_store_near(context, rows, first, end);
}
