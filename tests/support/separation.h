/*
 * How well scores separate samples out of distribution from the others, each counted once.
 */
#ifndef SEPARATION_H
#define SEPARATION_H

#include "stats/ood.h"

static inline cst_status separation_of(cst_context *context, const double *in, int64_t in_samples,
                                       const double *out, int64_t out_samples,
                                       cst_ood_metrics *found) {
    CST_SCOPE(scope);
    cst_rank_item *sorted = NULL;
    cst_status status = cst_ood_order(context, scope, in, in_samples, out, out_samples, &sorted);
    if (status == CST_OK)
        cst_ood_separate(sorted, in_samples, out_samples, NULL, NULL, found);
    return status;
}

#endif
