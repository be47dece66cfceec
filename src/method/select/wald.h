/* Sets of members of a pool without fits of their own, by the quadratic at the fit of all of them.
 * Behind multilabel and top-k. */
#pragma once

#include "method/select/select.h"

/* Sets of sizes 1..count: from all members of a pool with these weights, whichever costs least over
 * its worth leaves, by the quadratic that the curvature [d][d] is of; the weights of the members
 * come first, those beyond stay. set: [count] -> [size]. */
cst_status cst_wald_path(cst_context *context, const double *weights, const double *curvature,
                         int32_t count, size_t d, const cst_select_options *options, int32_t **set);
