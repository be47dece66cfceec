/*
 * What a regression cannot be computed on, and options that say nothing to it. Before stage S1.
 * docs/regression.md.
 */
#ifndef CST_REGRESSION_CHECK_H
#define CST_REGRESSION_CHECK_H

#include "fit/training.h"

#include <corestack/options.h>
#include <corestack/pool.h>

/* Whether predictions kept as float32 resolve the targets of a loaded split. Notice: an output
 * whose standard deviation is below 1e-5 of its mean. CST_ERROR_INPUT where `refuse`: below 1e-6 of
 * it, or a standard deviation outside 1e-15 to 1e15. Outputs with one target everywhere pass. */
cst_status cst_value_check_units(cst_context *context, const cst_pool *pool, const char *split,
                                 bool refuse);

/* The same of a split that is fitted on, and its folds: of two that share all the rows, each must
 * leave two rows to the fits without it. CST_ERROR_INPUT names the fold. */
cst_status cst_value_check(cst_context *context, const cst_pool *pool, const char *split,
                           const cst_training *source);

/* A notice that names the options that differ from their preset and change nothing in a regression.
 */
cst_status cst_value_check_options(cst_context *context, const cst_options *options);

#endif
