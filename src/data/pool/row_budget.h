/* Chooses which rows of a split stay in memory. docs/architecture.md#memory. */
#ifndef CST_POOL_ROW_BUDGET_H
#define CST_POOL_ROW_BUDGET_H

#include "data/pool/state.h"

/* Whether one of `parts` parts of the rows of `count` further members exceeds the predictions'
 * share of the memory budget. */
bool cst_pool_is_too_large(cst_context *context, const cst_pool *pool, int32_t split, int32_t count,
                           int parts);

/* Which rows *first..*end-1 of `count` further members to keep: all of them if there is room; else
 * those that this rank works on, and some beyond, because parts of the rows, such as folds, are
 * divided at slightly different places. */
void cst_pool_kept_rows(cst_context *context, const cst_pool *pool, int32_t split, int32_t count,
                        int64_t *first, int64_t *end);

#endif
