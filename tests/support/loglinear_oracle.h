/*
 * The options with which tests/oracles computed log-linear pools: given prior precisions, a
 * tolerance that leaves nothing of the optimiser. Shared by the tests that compare with SciPy.
 */
#ifndef CST_TEST_LOGLINEAR_ORACLE_H
#define CST_TEST_LOGLINEAR_ORACLE_H

#include "learners/loglinear.h"

static inline cst_loglinear_options oracle_options(bool nonnegative, bool bias) {
    cst_loglinear_options options = cst_loglinear_defaults();
    options.nonnegative = nonnegative;
    options.bias = bias;
    options.evidence = false;
    options.prior_weights = 7;
    options.prior_scale = 2;
    options.prior_bias = 5;
    options.tolerance = 1e-14;
    return options;
}

#endif
