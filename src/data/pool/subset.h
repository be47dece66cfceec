/*
 * A view of the rows of a split that count, those with a weight above 0 and a prediction, for fits,
 * evaluations and comparisons; predictions use all rows. docs/method.md#row-weights.
 */
#ifndef CST_SUBSET_H
#define CST_SUBSET_H

#include "data/pool/pool.h"

/* A view without index and what stands beside it. Where no row is left out all of it is the
 * pool's own. */
typedef struct cst_counted {
    cst_view view;         /* with weights where they differ from each other, at a mean of 1 */
    int64_t samples;       /* rows of one condition */
    const int32_t *labels; /* [samples], or NULL */
    const int32_t *folds;  /* [samples] numbered without gaps, or NULL */
    const int64_t *groups; /* [samples], or NULL */
    const int64_t *rows;   /* [samples]: the row of the split that each is; NULL: the same */
    cst_scope scope;       /* of what is not the pool's */
} cst_counted;

/* Of a loaded split, the given members ([count], loaded), or all of them where `members` is NULL.
 * It reads from the pool, which must outlive it and stay as it is. Free with cst_counted_close. */
cst_status cst_counted_open(cst_context *context, const cst_pool *pool, const char *split,
                            const int32_t *members, int32_t count, cst_counted *out);
void cst_counted_close(cst_context *context, cst_counted *counted);

#endif
