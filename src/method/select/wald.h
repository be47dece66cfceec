/* Sets of members of a pool without fits of their own, by the quadratic at the fit of all of them.
 * Behind multilabel and top-k. */
#pragma once

#include "method/select/select.h"

/* Sets of sizes 1..count: from all members of a pool with these weights, whichever costs least over
 * its worth leaves, by the quadratic that the curvature [d][d] is of; the weights of the members
 * come first, those beyond stay. set: [count] -> [size]. */
cst_status cst_wald_path(cst_context *context, const double *weights, const double *curvature,
                         int32_t count, size_t d, const cst_select_options *options, int32_t **set);
/* Sets of sizes 1..count from a scope, for a path. */
cst_status cst_wald_sets(cst_context *context, cst_scope *scope, int32_t count, int32_t ***set);
/* The choice by held-out losses [count sizes][rows] of such a path, and unless it is NULL the
 * front. The rule `distil`, whose blend these pools are, asks for no clear rise of the loss. */
cst_status cst_wald_choose(cst_context *context, const cst_select_options *options,
                           const double *losses, int64_t rows, int32_t count, int32_t **set,
                           cst_selection *out, cst_front *front);
