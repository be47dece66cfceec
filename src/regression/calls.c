/*
 * The table of regression. Chosen by src/tasks. Paper: section "Preliminaries and Pipeline
 * Overview".
 */
#include "regression/regression.h"

const cst_task_calls cst_regression_calls = {
    .fit = cst_regression_fit,
    .inspect = cst_regression_inspect,
    .evaluate_member = cst_regression_evaluate_member,
    .evaluate_model = cst_regression_evaluate_model,
    .compare = cst_regression_compare,
};
