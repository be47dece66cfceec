/*
 * Folds as the code sees them: the public makers and checks, and the count of a checked vector.
 * Stage S0; method.md section 0.
 */
#ifndef CST_POOL_FOLDS_H
#define CST_POOL_FOLDS_H

#include "base/base.h"

#include <corestack/folds.h>

/* Number of folds of a vector that cst_folds_check accepts: the largest fold plus one. */
int32_t cst_folds_count(const int32_t *folds, int64_t rows);

#endif
