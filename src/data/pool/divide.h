/*
 * Dividing the rows of a split at random into those that are fitted on and those that are held out:
 * repeated meta-training. Before the parts of a pool (parts.h).
 * Paper: section "Results", "averaged over three independent meta-training splits".
 */
#ifndef CST_POOL_DIVIDE_H
#define CST_POOL_DIVIDE_H

#include "core/base.h"

/* Rows, cases or images. */
typedef struct cst_units {
    const char *split; /* for messages, with `unit`: "rows", "cases", "images" */
    const char *unit;
    int64_t count;
    const int32_t *strata; /* [count], >= 0: each is divided alike; NULL: there is one */
    const int64_t *groups; /* [count]: held out as a whole; NULL: each unit by itself */
    bool classes;          /* the strata are classes, of which a fit needs one row each */
} cst_units;

/* held [count]: which units are held out, a share of `share` (above 0, below 1). Without groups
 * their number is round(share * count), and that of each stratum as near to its share as whole
 * numbers allow; groups are taken in random order, each where it brings the strata nearer to their
 * share. Something of each class stays. CST_ERROR_INPUT for a class with one row, and where there
 * is nothing to divide. */
cst_status cst_divide(cst_context *context, const cst_units *units, double share, uint64_t seed,
                      bool *held);

#endif
