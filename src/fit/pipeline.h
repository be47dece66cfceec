/*
 * Fitting a stack on a classification pool, and looking at one: what cst_fit and cst_inspect do for
 * that task. Stages S0 to S4. Paper: section "Method".
 */
#ifndef CST_PIPELINE_H
#define CST_PIPELINE_H

#include "fit/training.h"

#include <corestack/fit.h>

/* As the public functions of the same names; options are there, and the caller frees a report that
 * is left after a failure. */
cst_status cst_classification_fit(cst_context *context, cst_pool *pool, const char *split,
                                  const cst_options *options, cst_model **model,
                                  cst_report **report);
cst_status cst_classification_inspect(cst_context *context, cst_pool *pool, const char *split,
                                      const cst_options *options, cst_report **report);
/* The same with what the caller knows of the rows; hints: may be NULL. */
cst_status cst_inspect_checked(cst_context *context, cst_pool *pool, const char *split,
                               const cst_options *options, const cst_training_hints *hints,
                               cst_report **report);

#endif
