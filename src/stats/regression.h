/* Shared by the scores of predicted values and their bootstrap. docs/regression.md#scores. */
#ifndef CST_METRICS_REGRESSION_H
#define CST_METRICS_REGRESSION_H

#include "core/scope.h"

#include <corestack/regression.h>

/* Shapes and numbers of predictions and targets. */
cst_status cst_values_check(cst_context *context, const cst_predicted_values *predicted,
                            const double *targets);

/* Minus the log density of a normal distribution at `error` from its mean, nats. */
double cst_gaussian_nll(double error, double variance);

/* R^2 from the two sums of squares. */
double cst_r2_of(double squared_error, double squared_deviation);

/* out [rows]: mean over outputs of squared error / variance of the target (the squared error where
 * the target is constant), for paired tests. */
cst_status cst_value_errors(cst_context *context, const cst_predicted_values *predicted,
                            const double *targets, double *out);

#endif
