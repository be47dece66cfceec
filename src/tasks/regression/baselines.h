/*
 * Linear baselines of a regression: weights of the members for one output, fitted from moments
 * alone. Behind comparisons. Paper: section "Experimental Setup"; docs/regression.md.
 */
#ifndef CST_REGRESSION_BASELINES_H
#define CST_REGRESSION_BASELINES_H

#include "data/pool/pool.h"
#include "fit/baselines/tagged.h"
#include "tasks/regression/moments.h"

#include <corestack/pool.h>

/* Weights and intercept for one output from the moments of its members. */
typedef cst_status (*cst_value_baseline_fn)(cst_context *context, const cst_moments *moments,
                                            double *weights, double *intercept);

typedef struct cst_value_baseline {
    const char *name;
    const char *definition;
    cst_value_baseline_fn fit; /* NULL: the mean of a group of tagged members */
    cst_ensemble_kind kind;    /* of these */
} cst_value_baseline;

/* In the order of reports; NULL past the end, and for a name that is none of theirs. */
const cst_value_baseline *cst_value_baseline_at(size_t index);
const cst_value_baseline *cst_value_baseline_find(const char *name);

/* Weights [columns] and intercept for one output, in units of the scaling. tags [columns] may be
 * NULL; of several tagged groups the one with the least squared error is taken, which *choice,
 * where it is not NULL, tells (of another baseline: none). */
cst_status cst_value_baseline_fit(cst_context *context, const cst_value_baseline *baseline,
                                  const cst_member_ensemble *tags, const cst_moments *moments,
                                  double *weights, double *intercept, cst_tagged_choice *choice);

#endif
